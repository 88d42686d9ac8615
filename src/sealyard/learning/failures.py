"""Failures by cause: the repairs that helped with each, and their record.

A failed run waits for the next run of the same visit and job. If that one succeeds, the differences between the
rejected call and the accepted one are fixes, as edits of a closed set; the later success or failure of an agent that
received a fix rates it. A sentence names only tools and parameters of the viewer's own view of the catalog, and
arguments that the viewer itself gave, if they are identifiers of few words.
"""

import difflib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.stubs import Stub
from sealyard.learning.causes import LIMITS, Argument, Cause, is_again, is_fed, tool_name
from sealyard.learning.disclosure import is_field, is_name, mark_of
from sealyard.learning.part import (
    Evidence,
    Insight,
    Lesson,
    Part,
    PartInsights,
    Tally,
    Viewer,
    part_insights,
    put_last,
    touch,
    trim,
)
from sealyard.learning.prints import CodePrint
from sealyard.values.changes import major_of
from sealyard.values.facts import Hinted, RunEvidence
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

GROUPS = 2_000  # causes remembered, the last met: a bound
FIXES = 8  # fixes of one cause: a bound
VISITS = 128  # visits with failed runs that wait for a repair: a bound
WAITING = 3  # failed runs of a visit that wait: a bound
HINTS = 256  # runs with a hint that was recorded before the run itself: a bound
_SECONDS = 1_800.0  # time in which a repair must follow; `ranking` keeps a search open as long
_INSIDE = 0.55  # least common share of two prints of one job: it separates the sessions of `test_repairs.py` best
_LEAST = 0.2  # least evidence for a fix to be shown: one success a little over two half-lives ago
_RATE = 0.5  # least share of successes of a fix
_MOSTLY = 0.5  # share of a run's time in the calls of one tool from which these calls are what took it
_EDITS = 3  # edits that share the credit for one repair
_FEW = 2  # parameters that one repair adds or drops; with more it is another call
_ALIKE = 0.6  # similarity from which two names count as spellings of one name; `difflib` has the same default

_PASSING = frozenset(("rate", "busy"))
"""Classes of a tool's error that end by themselves: the same call can go through later."""

# Edits


class Edit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a call."""

    kind: str
    tool: str = ""
    """The tool whose call it changes."""
    name: str = ""
    """The parameter before the edit."""
    to: str = ""
    """The parameter or tool that replaced it or was added, or the new kind of the value."""

    @property
    def key(self) -> str:
        """A key that is equal for equal edits."""
        return f"{self.kind}|{self.tool}|{self.name}|{self.to}"


def edits(before: Cause, after: Cause, *, is_same: bool) -> tuple[Edit, ...]:
    """The changes that can have repaired `before`, the likeliest first; `is_same` if the code has not changed."""
    new = after.calls.get(before.tool)
    others = [tool for tool in after.calls if tool not in before.calls]
    if is_same or new == before.calls.get(before.tool, {}):
        is_lasting = before.family == "tool" and before.complaint not in _PASSING
        return (Edit(kind="again", tool=before.tool),) if new is not None and not others and is_lasting else ()
    found = _changes(before, after, others)
    if before.family in LIMITS:  # only a call that asks for less can have kept within it
        found = (each for each in found if each.kind in ("param_added", "smaller"))
    elif before.family == "argument" and before.name:  # that another parameter changed on the way is not the repair
        found = (each for each in found if before.name in (each.name, each.to) or each.kind == "tool_instead")
    return tuple(itertools.islice(found, _EDITS))


def _changes(before: Cause, after: Cause, others: Sequence[str]) -> Iterator[Edit]:
    """The differences between the call that failed and the accepted one. `others` are tools called only now."""
    tool, old, accepted = before.tool, before.calls.get(before.tool, {}), after.calls.get(before.tool)
    new = accepted or {}
    gone, come = ([name for name in sorted(one) if name not in other] for one, other in ((old, new), (new, old)))
    renamed = [before.name] if before.name in gone else gone
    if len(renamed) == 1:
        names = [to for to in come if _is_renaming(renamed[0], old[renamed[0]], to, new[to])]
        if len(names) == 1:
            yield Edit(kind="param_renamed", tool=tool, name=renamed[0], to=names[0])
    sources = {name: source for name, source in after.sources.get(tool, {}).items() if source in others}
    sources = {name: source for name, source in sources.items() if old.get(name) != new.get(name)}
    for name, source in sources.items():
        yield Edit(kind="tool_first", tool=tool, name=name, to=source)
    # The kind and the size of a value that another tool gave do not matter.
    both = [(name, old[name], new[name]) for name in old if name in new and name not in sources]
    for name, one, other in both:
        if one.kind != other.kind and other.kind not in ("other", "private"):
            yield Edit(kind="value_kind", tool=tool, name=name, to=other.kind)
    if not gone and len(come) <= _FEW:
        yield from (Edit(kind="param_added", tool=tool, to=name) for name in come)
    if accepted is not None and not come and len(gone) <= _FEW:
        yield from (Edit(kind="param_dropped", tool=tool, name=name) for name in gone)
    for name, one, other in both:
        if one.kind == other.kind and one.size != other.size:
            yield Edit(kind="smaller" if other.size < one.size else "larger", tool=tool, name=name)
    if accepted is None and len(others) == 1:
        yield Edit(kind="tool_instead", tool=tool, to=others[0])


def _is_renaming(name: str, one: Argument, to: str, other: Argument) -> bool:
    """True if `to` has a name like that of a parameter that is gone, or its value."""
    is_alike = difflib.SequenceMatcher(None, name, to).ratio() >= _ALIKE
    return is_alike or one.mark == other.mark != 0 or not set(name.split("_")).isdisjoint(to.split("_"))


# The part

_NAMED = re.compile(r"\w+=|\w+_\w+")
"""Names in a sentence of ours: parameters and tools."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """A change that helped with a failure like this one."""

    text: str
    mark: str
    subject: str
    """The full name of the tool that it concerns."""


class Record(msgspec.Struct, kw_only=True):
    """A fix and its record."""

    edit: Edit
    votes: Evidence = msgspec.field(default_factory=Evidence)
    shown: int = 0
    right: int = 0
    last_at: float = 0.0


class Waiting(msgspec.Struct, kw_only=True):
    """A failed run."""

    at: float
    execution_id: str
    cause: Cause
    code: CodePrint | None
    hints: list[str] = []
    """Marks of the fixes that the agent received."""


class Failures(Part, msgspec.Struct, kw_only=True):
    """Failed runs, their causes and their fixes."""

    groups: dict[str, dict[str, Record]] = {}
    """Fixes by cause, then by `Edit.key`; the most recent last."""
    visits: dict[str, list[Waiting]] = {}
    hints: dict[str, list[str]] = {}
    """By execution: marks of fixes."""
    marks: dict[str, tuple[str, str]] = {}
    """The group and fix of a mark."""
    majors: dict[str, int] = {}
    """The newest major versions of tools."""
    runs: int = 0
    """Runs that failed by a call or a limit, or that repaired such a run."""

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn a failure, or what repaired one, and rate the fixes that the agent received."""
        fact, code, cause = run.fact, lesson.code, lesson.cause
        if cause is None:
            return
        self._note_majors(cause)
        visit = f"{fact.principal}\n{fact.session}"
        waiting = [each for each in self.visits.pop(visit, []) if -_SECONDS < fact.at - each.at < _SECONDS]
        same = [each for each in waiting if _is_same_job(each.code, code, each.cause, cause)]
        if not cause.is_failure:
            done = [each for each in same if self._repaired(each, code, cause, viewer)]
            waiting = [each for each in waiting if not any(each is other for other in done)]
        else:
            self.runs += 1
            waiting = self._failed_again(waiting, same, cause, viewer)
            kept = msgspec.structs.replace(cause, majors={})
            hints = self.hints.pop(fact.execution_id, [])
            waiting.append(Waiting(at=fact.at, execution_id=fact.execution_id, cause=kept, code=code, hints=hints))
            for key in cause.groups():
                self._fixes(key)
        if waiting:
            self.visits[visit] = waiting[-WAITING:]
        trim(self.visits, VISITS)

    def learn_hint(self, hint: Hinted) -> None:
        """Note that an agent received a fix: its next run rates it."""
        if hint.hint != "fix" or hint.mark not in self.marks:
            return
        key, edit = self.marks[hint.mark]
        self.groups[key][edit].shown += 1
        self.checked += 1
        for each in self.visits.get(f"{hint.principal}\n{hint.session}", []):
            if each.execution_id == hint.execution_id:
                each.hints.append(hint.mark)
                return
        marks = [*self.hints.get(hint.execution_id, []), hint.mark][-FIXES:]
        put_last(self.hints, hint.execution_id, marks, HINTS)

    def fix_for(self, cause: Cause, viewer: Viewer, *, view: Snapshot, said: str = "") -> Fix | None:
        """A fix for this failure in words for this viewer; None if no known fix applies.

        `said` is the text that the viewer gets in any case: a fix that adds nothing to it is left out.
        """
        spec = view.find(cause.tool) if cause.tool else None
        if spec is None or major_of(spec.version) > self.majors.get(cause.tool, 0) > 0:
            return None
        names = {parameter.name for parameter in Stub(spec).parameters}
        for key in cause.groups():
            for record, own, all_of, others in _ranked(self.groups.get(key, {}), viewer):
                is_vouched = own.yes > own.no or others > 1
                sentence = _sentence(record.edit, cause, spec, names, view, is_vouched=is_vouched)
                if sentence is None:
                    continue
                names_in = _NAMED.findall(sentence)
                if not (said and names_in and all(name in said for name in names_in)):
                    text = f"{_lead(own, all_of, others)} {sentence}"
                    return Fix(text=text, mark=_mark(key, record.edit), subject=spec.full_name)
        return None

    def items(self, viewer: Viewer) -> Iterator[Insight]:
        """The learned fixes, for an operator."""
        for tool, family, fixes in self._causes():
            for record in list(fixes.values()):
                tally = record.votes.tally(viewer)
                yield Insight(
                    kind="fix",
                    subject=tool,
                    text=f"After a failure of the kind {family}, this helped: {_change(record.edit)}.",
                    evidence=tally.yes,
                    principals=tally.principals,
                    checked=record.shown,
                    right=record.right,
                    last_at=record.last_at,
                )

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the causes with fixes."""
        learned = sum(bool(fixes) for _, _, fixes in self._causes())
        return part_insights("failures", items, learned=learned, evidence=self.runs, score=self.score())

    def _causes(self) -> list[tuple[str, str, dict[str, Record]]]:
        """The tool and the family of each cause with its fixes, each cause once, by its narrow key."""
        keys = ((key.split("|"), fixes) for key, fixes in self.groups.items())
        return [(parts[0], parts[1], fixes) for parts, fixes in keys if len(parts) != 3]

    # Learning

    def _repaired(self, failed: Waiting, code: CodePrint | None, cause: Cause, viewer: Viewer) -> bool:
        """Learn the changes; False if nothing changed: then the run only looked, and the repair may still follow."""
        is_same = failed.code is not None and code is not None and failed.code.exact == code.exact
        found = edits(failed.cause, cause, is_same=is_same)
        if not found and not failed.hints:
            return False
        for edit in found:
            self._vote(failed.cause, edit, viewer, yes=1 / len(found))
        for mark in dict.fromkeys(failed.hints):
            record = self._record_of(mark)
            if record is not None:
                record.right += 1
                self.right += 1
                if record.edit not in found:  # it may have helped in a way that we cannot detect
                    record.votes.add(viewer, yes=0.5)
        self.runs += 1
        return True

    def _failed_again(self, waiting: list[Waiting], same: list[Waiting], cause: Cause, viewer: Viewer) -> list[Waiting]:
        """The runs that still wait after another run on the same job has failed."""
        for each in same:
            if each.cause.groups()[0] != cause.groups()[0]:
                continue  # it got further: the next success repairs both
            for mark in dict.fromkeys(each.hints):
                record = self._record_of(mark)
                if record is not None:
                    record.votes.add(viewer, no=1.0)
            for edit in edits(each.cause, cause, is_same=False):
                self._vote(cause, edit, viewer, no=1.0)
            waiting = [other for other in waiting if other is not each]
        return waiting

    def _vote(
        self,
        cause: Cause,
        edit: Edit,
        viewer: Viewer,
        *,
        yes: float = 0.0,
        no: float = 0.0,
    ) -> None:
        for key in cause.groups():
            fixes = self._fixes(key)
            record = fixes.pop(edit.key, None)
            if record is None:
                if not yes:
                    continue
                record = Record(edit=edit)
                self.marks[_mark(key, edit)] = (key, edit.key)
            record.votes.add(viewer, yes=yes, no=no)
            record.last_at = viewer.now
            fixes[edit.key] = record
            while len(fixes) > FIXES:
                self._forget(key, next(iter(fixes)))

    def _record_of(self, mark: str) -> Record | None:
        key, edit = self.marks.get(mark, ("", ""))
        return self.groups[key][edit] if key else None

    def _fixes(self, key: str) -> dict[str, Record]:
        """The fixes of a cause that was just met."""
        fixes = touch(self.groups, key, dict[str, Record])
        while len(self.groups) > GROUPS:
            self._drop(next(iter(self.groups)))
        return fixes

    def _drop(self, key: str) -> None:
        for edit in list(self.groups[key]):
            self._forget(key, edit)
        del self.groups[key]

    def _forget(self, key: str, edit: str) -> None:
        record = self.groups[key].pop(edit)
        self.marks.pop(_mark(key, record.edit), None)

    def _note_majors(self, cause: Cause) -> None:
        for tool, major in cause.majors.items():
            known = self.majors.pop(tool, 0)
            self.majors[tool] = max(known, major)
            if known and major > known:  # its parameters and answers have changed
                for key in [key for key in self.groups if key.startswith(f"{tool}|")]:
                    self._drop(key)
        trim(self.majors, GROUPS)


_CHANGES = {
    "param_renamed": "{to}= in the place of {name}=",
    "param_added": "{to}= was given too",
    "param_dropped": "{name}= was left out",
    "value_kind": "{name}= was of the kind {to}",
    "smaller": "{name}= was smaller",
    "larger": "{name}= was larger",
    "tool_first": "{name}= came from {to}, called first",
    "tool_instead": "{to} was called instead",
    "again": "the same call was repeated",
}


def _change(edit: Edit) -> str:
    """An edit in words for an operator."""
    names = {"name": edit.name, "to": edit.to}
    shown = {key: name if all(map(is_field, name.split("."))) else "…" for key, name in names.items()}
    return _CHANGES[edit.kind].format_map(shown)


def _ranked(fixes: Mapping[str, Record], viewer: Viewer) -> list[tuple[Record, Tally, Tally, int]]:
    """The fixes of a cause that may be shown: the viewer's own first, then those with the most other principals."""
    found = []
    for record in fixes.values():
        own = record.votes.tally(viewer, is_own=True)
        all_of = record.votes.tally(viewer)
        others = all_of.principals - own.principals
        if all_of.yes >= _LEAST and all_of.yes >= _RATE * all_of.total and (own.yes > own.no or others):
            found.append((record, own, all_of, others))
    return sorted(found, key=lambda each: (each[1].yes <= 0, -each[3], -each[2].share, each[0].edit.key))


def _lead(own: Tally, all_of: Tally, others: int) -> str:
    """The introduction of a fix by its certainty, which is lower if only one other agent confirms it."""
    times = max(1, round(all_of.total))
    helped = min(times, max(1, round(all_of.yes)))
    if own.yes > own.no:
        return f"This helped you before ({helped} of {times}):"
    if others > 1:
        return f"This helped others ({helped} of {times}):"
    return f"One other agent got past this so ({helped} of {times}), which may not fit here:"


def _is_same_job(one: CodePrint | None, other: CodePrint | None, failed: Cause, then: Cause) -> bool:
    """True if a run of a visit is another attempt at a failed job, and not the next job."""
    found = is_again(failed, then)
    if one is None or other is None:
        return one is other and found is not False and not failed.calls.keys().isdisjoint(then.calls)
    mine, theirs = set(one.sample), set(other.sample)
    # Code that gets a value from another tool first is longer, but makes the same call.
    is_alike = is_fed(failed, then) or len(mine & theirs) >= _INSIDE * min(len(mine), len(theirs))
    return one.exact == other.exact or (found is not False and is_alike)


def _mark(key: str, edit: Edit) -> str:
    return mark_of(f"{key}\n{edit.key}")


# A fix in words

_KINDS = {
    "none": "None",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "an object",
    "empty": "an empty text",
    "date": "a date such as 2024-05-31",
    "time": "a date and time such as 2024-05-31T10:00:00Z",
    "other_date": "a date in another form",
    "digits": "a number in quotes",
    "url": "a whole URL",
    "address": "an e-mail address",
    "absolute": "an absolute path",
    "relative": "a relative path",
    "json": "JSON text",
    "upper": "text in capital letters",
    "lower": "text in small letters",
    "title": "a capitalized word",
    "text": "text",
}


def _sentence(
    edit: Edit, cause: Cause, spec: ToolSpec, names: Collection[str], view: Snapshot, *, is_vouched: bool
) -> str | None:
    """The sentence for an edit of a call of `spec`, which takes parameters of these names.

    None if it does not apply or something in it must not be shown to this viewer. It may name another server's tool
    only if `is_vouched`: the viewer itself or two other principals used it.
    """
    tool, given = spec.function, cause.calls.get(cause.tool, {})
    parameter = edit.to if edit.kind in ("param_renamed", "param_added") else edit.name
    is_known = is_name(parameter) and parameter in names
    is_given = is_name(edit.name) and edit.name in given
    match edit.kind:
        case "again":
            return f"Call {tool} again as it was: it went through later."
        case "param_renamed" if is_known and is_given and cause.name in ("", edit.name):
            return f"Pass {edit.to}= to {tool}, not {edit.name}=."
        case "param_added" if is_known and edit.to not in given:
            return f"Pass {edit.to}= to {tool} too."
        case "param_dropped" if is_given:
            return f"Leave {edit.name}= out of the call of {tool}."
        case "value_kind" if is_known and edit.to in _KINDS:
            return f"Pass {edit.name}= of {tool} as {_KINDS[edit.to]}."
        case "smaller" | "larger" if is_known:
            return f"Pass {'less' if edit.kind == 'smaller' else 'more'} as {edit.name}= of {tool}."
        case "tool_first" if is_known and edit.to not in cause.calls:
            other = _other(edit.to, spec, view, is_vouched=is_vouched)
            return other and f"Call {other} first: what it answers gives {edit.name}= of {tool}."
        case "tool_instead":
            other = _other(edit.to, spec, view, is_vouched=is_vouched)
            return other and f"Use {other} instead of {tool}."
    return None


def _other(tool: str, spec: ToolSpec, view: Snapshot, *, is_vouched: bool) -> str | None:
    """Another tool of the same server, or a read-only one of any server; None for a destructive one."""
    other = view.find(tool) if tool else None
    if other is None or other.annotations.destructive is True or not is_name(other.function):
        return None
    if other.upstream == spec.upstream:
        return other.function
    is_shown = is_vouched and other.annotations.read_only is True
    return f"servers.{other.module}.{other.function}" if is_shown else None


# Advice that needs no experience


def standing_advice(cause: Cause, run: RunEvidence) -> str | None:
    """A sentence on a failure that has the same way out with every tool."""
    if cause.family == "tool" and cause.complaint in _PASSING:
        return "Wait a little between calls (`time.sleep`), make fewer of them at once, and try again."
    calls = sorted((call for call in run.calls if tool_name(call.tool) == cause.tool), key=lambda call: call.started_at)
    overlaps = any(one.started_at + one.seconds > other.started_at for one, other in itertools.pairwise(calls))
    is_most = sum(call.seconds for call in calls) > _MOSTLY * run.fact.seconds
    if cause.family == "wall_time" and len(calls) > 1 and is_most and not overlaps:
        return "Its calls wait for each other: `await asyncio.gather(*[… for …])` makes them at the same time."
    return None
