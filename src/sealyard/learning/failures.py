"""Failures: groups of causes, and for each what was changed when it went well again, with how often that helped.

A run that failed waits for the next of the same visit that is about the same. If that goes well, what changed between
the two is a fix; who was told a fix and then succeeded, or failed in the same way again, says how good it is.
"""

import hashlib
import re

import msgspec

from sealyard.catalog import Snapshot
from sealyard.learning.attempts import is_again
from sealyard.learning.causes import Cause
from sealyard.learning.code import CodePrint
from sealyard.learning.evidence import Evidence, Tally, put_last, trim
from sealyard.learning.fixes import Shapes, Wording
from sealyard.learning.flows import major_of
from sealyard.learning.insights import Insight, PartInsights, part_insights
from sealyard.learning.recoveries import Edit, edits, is_portable
from sealyard.learning.recovery_rules import FUNCTIONS, METHODS
from sealyard.learning.telling import is_field
from sealyard.values import Hinted, RunEvidence

__all__ = ("Failures", "Fix")

GROUPS = 2_000
"""Causes that are remembered; the one that was met longest ago goes first."""
FIXES = 8
"""Of one cause."""
VISITS = 128
WAITING = 3
"""Failed runs of a visit that wait for one that goes well."""
HINTS = 256
"""Runs whose failure was hinted at before it was in the journal."""

_SECONDS = 1_800.0
_INSIDE = 0.5
_LEAST = 0.2
"""What a fix must still count to be told."""
_RATE = 0.5
_TELLING = FUNCTIONS | METHODS
_NAMED = re.compile(r"`\.?([\w.]+)|(\w+=)|(\[\S+?\])|'(\w+)'|(\w+_\w+)")
"""What a sentence of ours can name: functions, parameters, items, fields, tools."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """What helped with a failure like this one."""

    text: str
    mark: str
    subject: str
    """The full name of the tool that it is about; empty if it is about none."""
    success_rate: float
    times: int
    """How often it was made or told."""


class Record(msgspec.Struct, kw_only=True):
    """A fix, and how it did."""

    edit: Edit
    votes: Evidence = msgspec.field(default_factory=Evidence)
    told: int = 0
    right: int = 0
    last_at: float = 0.0


class Group(msgspec.Struct, kw_only=True):
    """One cause."""

    seen: Evidence = msgspec.field(default_factory=Evidence)
    fixes: dict[str, Record] = {}
    last_at: float = 0.0


class Waiting(msgspec.Struct, kw_only=True):
    """A failed run."""

    at: float
    execution_id: str
    cause: Cause
    code: CodePrint | None
    hints: list[str] = []
    """Marks of the fixes that were told."""


class Failures(msgspec.Struct, kw_only=True):
    """What was learned from runs that failed."""

    groups: dict[str, Group] = {}
    """By cause; what was met last is at the end."""
    visits: dict[str, list[Waiting]] = {}
    hints: dict[str, list[str]] = {}
    """By execution: marks of fixes."""
    marks: dict[str, tuple[str, str]] = {}
    """Which group and fix a mark means."""
    majors: dict[str, int] = {}
    """The newest major versions of tools."""
    runs: int = 0
    """That failed, or repaired one that had."""
    told: int = 0
    right: int = 0

    def learn(self, run: RunEvidence, code: CodePrint | None, cause: Cause | None, half_life: float) -> None:
        """Take in one run."""
        if cause is None:
            return
        self._note_majors(cause)
        fact = run.fact
        visit = f"{fact.principal}\n{fact.session}"
        waiting = [each for each in self.visits.pop(visit, []) if -_SECONDS < fact.at - each.at < _SECONDS]
        same = [each for each in waiting if _is_same_job(each.code, code, each.cause, cause)]
        if not cause.is_failure:
            done = [each for each in same if self._repaired(each, code, cause, fact.principal, fact.at, half_life)]
            waiting = [each for each in waiting if not any(each is other for other in done)]
        else:
            self.runs += 1
            waiting = self._failed_again(waiting, same, cause, fact.principal, fact.at, half_life)
            name = "" if cause.family == "field" and not is_field(cause.name) else cause.name
            kept = msgspec.structs.replace(cause, name=name, names=(), fields={}, forms={}, majors={})
            hints = self.hints.pop(fact.execution_id, [])
            waiting.append(Waiting(at=fact.at, execution_id=fact.execution_id, cause=kept, code=code, hints=hints))
            for key in cause.groups():
                group = self._group(key, fact.at)
                group.seen.add(fact.principal, fact.at, half_life, yes=1.0)
        if waiting:
            self.visits[visit] = waiting[-WAITING:]
        trim(self.visits, VISITS)

    def hinted(self, event: Hinted) -> None:
        """An agent was told a fix; what it does next says whether that was right."""
        if event.hint != "fix" or event.mark not in self.marks:
            return
        key, edit = self.marks[event.mark]
        self.groups[key].fixes[edit].told += 1
        self.told += 1
        for each in self.visits.get(f"{event.principal}\n{event.session}", []):
            if each.execution_id == event.execution_id:
                each.hints.append(event.mark)
                return
        marks = [*self.hints.get(event.execution_id, []), event.mark][-FIXES:]
        put_last(self.hints, event.execution_id, marks, HINTS)

    def fix_for(
        self,
        cause: Cause,
        *,
        principal: str,
        view: Snapshot,
        now: float,
        half_life: float,
        shapes: Shapes | None = None,
        said: str = "",
    ) -> Fix | None:
        """What helped with such a failure, in words for this viewer; None if nothing is known that fits.

        `said` is what it is told anyway: a fix that says no more than that is not told again.
        """
        wording = Wording(view, cause, shapes)
        for key in cause.groups():
            group = self.groups.get(key)
            found = [] if group is None else _ranked(group, principal, now, half_life)
            for record, own, all_of, others in found:
                spec = wording.spec(record.edit.tool)
                if spec is not None and major_of(spec.version) > self.majors.get(record.edit.tool, 0) > 0:
                    continue
                is_vouched = own.yes > own.no or others > 1
                if said and key.startswith("*") and not is_vouched:
                    continue  # the failure itself knows better than one other agent whose code was another
                sentence = wording.sentence(record.edit, is_vouched=is_vouched)
                if sentence is None or _is_said(sentence, said):
                    continue
                return Fix(
                    text=f"{_lead(own, all_of, others)} {sentence}",
                    mark=_mark(key, record.edit),
                    subject="" if spec is None else spec.full_name,
                    success_rate=all_of.yes / all_of.total,
                    times=max(1, round(all_of.total)),
                )
        return None

    def insights(self, now: float, half_life: float) -> PartInsights:
        """What was learned, for who looks after the gateway."""
        items = []
        learned = 0
        for key, group in self.groups.items():
            tool, family, *rest = key.split("|")
            if (tool == "*") != (len(rest) == 1):  # each cause once: the narrowest of a tool, the widest of none
                continue
            learned += bool(group.fixes)
            for record in group.fixes.values():
                tally = record.votes.tally(now, half_life)
                change = _change(record.edit)
                items.append(
                    Insight(
                        kind="fix",
                        subject=family if tool == "*" else tool,
                        text=f"After a failure of the kind {family}, this change helped: {change}.",
                        evidence=tally.yes,
                        principals=tally.principals,
                        told=record.told,
                        right=record.right,
                        last_at=record.last_at,
                    )
                )
        return part_insights("failures", items, learned=learned, evidence=self.runs, told=self.told, right=self.right)

    # Learning

    def _repaired(
        self, failed: Waiting, code: CodePrint | None, cause: Cause, principal: str, at: float, half_life: float
    ) -> bool:
        """Learn what changed, and say whether anything did: if not, it was a look, and the repair is yet to come."""
        is_same = failed.code is not None and code is not None and failed.code.exact == code.exact
        found = edits(failed.cause, cause, is_same=is_same)
        if not found and not failed.hints:
            return False
        for edit in found:
            self._vote(failed.cause, edit, principal, at, half_life, yes=1 / len(found))
        for mark in dict.fromkeys(failed.hints):
            record = self._told(mark)
            if record is not None:
                record.right += 1
                self.right += 1
                if record.edit not in found:  # it may have helped in another way than we can see
                    record.votes.add(principal, at, half_life, yes=0.5)
        self.runs += 1
        return True

    def _failed_again(
        self, waiting: list[Waiting], same: list[Waiting], cause: Cause, principal: str, at: float, half_life: float
    ) -> list[Waiting]:
        """What still waits once a run on the same job has failed too."""
        for each in same:
            if not _is_same_cause(each.cause, cause):
                continue  # it got further: what comes next repairs both
            for mark in dict.fromkeys(each.hints):
                record = self._told(mark)
                if record is not None:
                    record.votes.add(principal, at, half_life, no=1.0)
            for edit in edits(each.cause, cause, is_same=False):
                self._vote(cause, edit, principal, at, half_life, no=1.0)
            waiting = [other for other in waiting if other is not each]
        return waiting

    def _vote(
        self,
        cause: Cause,
        edit: Edit,
        principal: str,
        at: float,
        half_life: float,
        *,
        yes: float = 0.0,
        no: float = 0.0,
    ) -> None:
        for key in cause.groups():
            if key.startswith("*") and not is_portable(edit):
                continue
            group = self._group(key, at)
            record = group.fixes.pop(edit.key, None)
            if record is None:
                if not yes:
                    continue
                record = Record(edit=edit)
                self.marks[_mark(key, edit)] = (key, edit.key)
            record.votes.add(principal, at, half_life, yes=yes, no=no)
            record.last_at = at
            group.fixes[edit.key] = record
            while len(group.fixes) > FIXES:
                self._forget(key, next(iter(group.fixes)))

    def _told(self, mark: str) -> Record | None:
        key, edit = self.marks.get(mark, ("", ""))
        return self.groups[key].fixes[edit] if key else None

    def _group(self, key: str, at: float) -> Group:
        group = self.groups.pop(key, None) or Group()
        group.last_at = at
        self.groups[key] = group
        while len(self.groups) > GROUPS:
            self._drop(next(iter(self.groups)))
        return group

    def _drop(self, key: str) -> None:
        for edit in list(self.groups[key].fixes):
            self._forget(key, edit)
        del self.groups[key]

    def _forget(self, key: str, edit: str) -> None:
        record = self.groups[key].fixes.pop(edit)
        self.marks.pop(_mark(key, record.edit), None)

    def _note_majors(self, cause: Cause) -> None:
        for tool, major in cause.majors.items():
            known = self.majors.pop(tool, 0)
            self.majors[tool] = max(known, major)
            if known and major > known:  # its parameters and answers are others now
                for key in [key for key in self.groups if key.startswith(f"{tool}|")]:
                    self._drop(key)
        trim(self.majors, GROUPS)


def _change(edit: Edit) -> str:
    """An edit for people, with the names of tools, parameters, fields and functions in it. Variables are not named."""
    names = [each for each in (edit.name, edit.to) if each]
    is_told = not is_portable(edit) and all(is_field(part) for each in names for part in each.split("."))
    if is_told or _TELLING.issuperset(names):
        return f"{edit.kind} {' to '.join(names)}".rstrip()
    return edit.kind


def _ranked(group: Group, principal: str, now: float, half_life: float) -> list[tuple[Record, Tally, Tally, int]]:
    """The fixes of a group that may be told: one's own experience first, then what most others found."""
    found = []
    for record in group.fixes.values():
        own = record.votes.tally(now, half_life, only=principal)
        all_of = record.votes.tally(now, half_life)
        others = all_of.principals - own.principals
        if all_of.yes >= _LEAST and all_of.yes >= _RATE * all_of.total and (own.yes > own.no or others):
            found.append((record, own, all_of, others))
    return sorted(found, key=lambda each: (each[1].yes <= 0, -each[3], -each[2].share, each[0].edit.key))


def _lead(own: Tally, all_of: Tally, others: int) -> str:
    """How sure it is, which is less if only one other agent says so."""
    times = max(1, round(all_of.total))
    helped = min(times, max(1, round(all_of.yes)))
    if own.yes > own.no:
        return f"This helped you before ({helped} of {times}):"
    if others > 1:
        return f"This helped others ({helped} of {times}):"
    return f"One other agent got past this so ({helped} of {times}), which may not fit here:"


def _is_same_job(one: CodePrint | None, other: CodePrint | None, failed: Cause, then: Cause) -> bool:
    """Whether a run of a visit was after what failed in an earlier one, and not after the next thing."""
    found = is_again(failed.attempt, then.attempt, spares=failed.is_about_value)
    if one is None or other is None:
        return one is other and found is not False and not _called(failed).isdisjoint(_called(then))
    if found is not None or one.exact == other.exact:
        return found is True or one.exact == other.exact
    mine, theirs = set(one.sample), set(other.sample)
    return len(mine & theirs) >= _INSIDE * min(len(mine), len(theirs))


def _is_same_cause(one: Cause, other: Cause) -> bool:
    """Whether two failures are remembered by the same name. A tool's error without a tool has none."""
    return bool(one.groups()) and one.groups()[:1] == other.groups()[:1]


def _called(cause: Cause) -> set[str]:
    return {key for key in cause.features if key.startswith("call|")}


def _is_said(sentence: str, said: str) -> bool:
    """Whether everything that a sentence names, if it names anything, is in what is said already."""
    return bool(said) and all(name in said for found in _NAMED.findall(sentence) for name in found if name)


def _mark(key: str, edit: Edit) -> str:
    return hashlib.blake2b(f"{key}\n{edit.key}".encode(), digest_size=6).hexdigest()
