"""Failures by cause: the repairs that helped with each, their record, and advice on a failure that is new.

A failed run waits for the next run of the same visit and job. If that one succeeds, the difference is a fix; the later
success or failure of an agent that received the fix rates it. Advice adds only facts that the failure text lacks, and
every name in it comes from the viewer's own catalog, answers or code.
"""

import difflib
import heapq
import itertools
import re
from collections.abc import Collection, Mapping

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.stubs import Parameter, parameters
from sealyard.learning.causes import Cause, is_again
from sealyard.learning.code import CodePrint
from sealyard.learning.disclosure import alternatives, is_field, is_name, mark_of
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
from sealyard.learning.repairs import FUNCTIONS, METHODS, Edit, Shapes, Wording, answered_names, edits, is_portable
from sealyard.values.facts import Hinted, RunEvidence
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import major_of
from sealyard.versioning.compare.schemas import resolve, unwrapped

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

GROUPS = 2_000  # causes remembered, the last met: a bound
FIXES = 8  # fixes of one cause: a bound
VISITS = 128  # visits with failed runs that wait for a repair: a bound
WAITING = 3  # failed runs of a visit that wait: a bound
HINTS = 256  # runs with a hint that was recorded before the run itself: a bound
_SECONDS = 1_800.0  # time in which a repair must follow; `ranking` keeps a search open as long
_INSIDE = 0.5  # least common share of two prints of one job, where attempts cannot be compared
_LEAST = 0.2  # least evidence for a fix to be shown: one success a little over two half-lives ago
_RATE = 0.5  # least share of successes of a fix
_LISTED = 8  # names listed in one sentence
_SOURCES = 20  # tools searched for the source of a value: a bound
_NAMES = 400  # names among which the nearest is searched: a bound
_COMPARED = 16  # of these, those that are compared letter by letter, which is slow: a bound
_WRONG = 4  # wrong parameters that are looked at: a bound

# The part

_COMMON = FUNCTIONS | METHODS
_NAMED = re.compile(r"`\.?([\w.]+)|(\w+=)|(\[\S+?\])|'(\w+)'|(\w+_\w+)")
"""Names in a sentence of ours: functions, parameters, items, fields, tools."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """A change that helped with a failure like this one."""

    text: str
    mark: str
    subject: str
    """The full name of the tool that it concerns, or empty."""


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
    """Runs that failed, or that repaired a failed one."""

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
            name = "" if cause.family == "field" and not is_field(cause.name) else cause.name
            kept = msgspec.structs.replace(cause, name=name, names=(), fields={}, forms={}, majors={})
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

    def fix_for(
        self, cause: Cause, viewer: Viewer, *, view: Snapshot, shapes: Shapes | None = None, said: str = ""
    ) -> Fix | None:
        """A fix for this failure in words for this viewer; None if no known fix applies.

        `said` is the text that the viewer gets in any case: a fix that adds nothing to it is left out.
        """
        wording = Wording(view, cause, shapes)
        for key in cause.groups():
            for record, own, all_of, others in _ranked(self.groups.get(key, {}), viewer):
                spec = wording.spec(record.edit.tool)
                if spec is not None and major_of(spec.version) > self.majors.get(record.edit.tool, 0) > 0:
                    continue
                is_vouched = own.yes > own.no or others > 1
                if said and key.startswith("*") and not is_vouched:
                    continue  # the failure text is a better guide than one other agent with other code
                sentence = wording.sentence(record.edit, is_vouched=is_vouched)
                if sentence is None or _is_said(sentence, said):
                    continue
                subject = "" if spec is None else spec.full_name
                text = f"{_lead(own, all_of, others)} {sentence}"
                return Fix(text=text, mark=_mark(key, record.edit), subject=subject)
        return None

    def insights(self, viewer: Viewer) -> PartInsights:
        """The learned fixes, for an operator."""
        items = []
        learned = 0
        for key, fixes in self.groups.items():
            tool, family, *rest = key.split("|")
            if (tool == "*") != (len(rest) == 1):  # each cause once: the narrowest with a tool, the widest without
                continue
            learned += bool(fixes)
            for record in fixes.values():
                tally = record.votes.tally(viewer)
                change = _change(record.edit)
                items.append(
                    Insight(
                        kind="fix",
                        subject=family if tool == "*" else tool,
                        text=f"After a failure of the kind {family}, this change helped: {change}.",
                        evidence=tally.yes,
                        principals=tally.principals,
                        checked=record.shown,
                        right=record.right,
                        last_at=record.last_at,
                    )
                )
        return part_insights("failures", items, learned=learned, evidence=self.runs, score=self.score())

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
            # The narrowest key; an error of an unknown tool has none.
            if not each.cause.groups() or each.cause.groups()[:1] != cause.groups()[:1]:
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
            if key.startswith("*") and not is_portable(edit):
                continue
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


def _change(edit: Edit) -> str:
    """An edit in words for an operator. It names tools, parameters, fields and functions, but no variables."""
    names = [each for each in (edit.name, edit.to) if each]
    has_name = not is_portable(edit) and all(is_field(part) for each in names for part in each.split("."))
    if has_name or _COMMON.issuperset(names):
        return f"{edit.kind} {' to '.join(names)}".rstrip()
    return edit.kind


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
    found = is_again(failed.attempt, then.attempt, spares=failed.is_about_value)
    if one is None or other is None:
        return one is other and found is not False and not _called(failed).isdisjoint(_called(then))
    if found is not None or one.exact == other.exact:
        return found is True or one.exact == other.exact
    mine, theirs = set(one.sample), set(other.sample)
    return len(mine & theirs) >= _INSIDE * min(len(mine), len(theirs))


def _called(cause: Cause) -> set[str]:
    return {key for key in cause.features if key.startswith("call|")}


def _is_said(sentence: str, said: str) -> bool:
    """True if every name in a sentence is already in `said`."""
    return bool(said) and all(name in said for found in _NAMED.findall(sentence) for name in found if name)


def _mark(key: str, edit: Edit) -> str:
    return mark_of(f"{key}\n{edit.key}")


# Advice on a failure that is new

_SIZES = re.compile(r"(?:^|_)(?:limit|max|count|top|first|size|per_page|page_size|max_results|n|rows)(?:$|_)")
_FILTERS = re.compile(r"(?:^|_)(?:since|until|from|to|after|before|start|end|query|filter|category|status|type)(?:$|_)")
_FORMATS = {
    "date": "a date such as 2024-05-31",
    "date-time": "a date and time such as 2024-05-31T10:00:00Z",
    "time": "a time such as 10:00:00",
    "email": "an e-mail address",
    "uri": "a whole URL",
    "uuid": "a UUID",
}

_AT_HAND = frozenset("field attribute list_not_dict dict_not_list not_iterable text_not_data".split())
"""Families on which the guest, which has the value, already gives complete advice."""


def advice(cause: Cause, code: str, view: Snapshot, shapes: Shapes | None, *, said: str = "") -> str | None:
    """One or two sentences on the change to make, or None if `said` already covers it."""
    if said and cause.family in _AT_HAND:
        return None
    wording = Wording(view, cause, shapes)
    spec = wording.spec(cause.tool)
    text = _of_cause(cause, code, view, wording, spec)
    return None if text is None or text in said else text


def _of_cause(cause: Cause, code: str, view: Snapshot, wording: Wording, spec: ToolSpec | None) -> str | None:
    match cause.family:
        case "field" if spec is not None:
            return _unknown_field(cause, wording.fields(spec), spec)
        case "list_not_dict" | "dict_not_list" | "not_iterable" | "text_not_data" if spec is not None:
            return _shape(cause, spec)
        case "name" | "import_name":
            return _tool_for(cause.name, view)
        case "wall_time" | "memory" | "output" | "result" | "calls":
            return _less(cause, code, spec)
        case "tool" if spec is not None:
            return _of_tool(cause, view, spec)
        case "keyword" | "missing" | "positional" if spec is not None:
            return _parameters(cause, spec)
    return None


def _unknown_field(cause: Cause, known: Collection[str], spec: ToolSpec) -> str | None:
    name = cause.name
    if name in known:
        if cause.exception != "KeyError":
            return None
        return f"{name!r} is not in every answer of {spec.function}: read it with .get({name!r})."
    if not known:
        return None
    near = _nearest(name, known)
    listed = f"{spec.function} answers with {_listed(_sorted(known))}."
    return f"The nearest field is {near!r}: {listed}" if near else listed


def _shape(cause: Cause, spec: ToolSpec) -> str | None:
    """The form of a tool's answer, a list or an object that holds one: observed, otherwise declared."""
    form = cause.forms.get(cause.tool) or _declared(spec)
    if f"field|{cause.tool}|{form}|sub" in cause.features:
        return None  # the code already reads that field
    match form:
        case "list":
            return f"{spec.function} answers with a list: loop over it, or take one with [0]."
        case "" | "dict":
            return None
        case "text":
            return f"{spec.function} answers with text."
    return f"{spec.function} answers with an object; its list is in [{form!r}]."


def _declared(spec: ToolSpec) -> str:
    root = spec.output_schema or {}
    whole = resolve(unwrapped(spec.output_schema), root)
    if whole.get("type") == "array":
        return "list"
    inside = whole.get("properties")
    parts = inside.items() if isinstance(inside, dict) else ()
    lists = [key for key, part in parts if resolve(part, root).get("type") == "array"]
    return lists[0] if len(lists) == 1 and is_name(lists[0]) and is_field(lists[0]) else ""


def _tool_for(name: str, view: Snapshot) -> str | None:
    """The tool that the code probably meant."""
    for full_name in view.nearest(name, 1) if name else ():
        spec = view.tools[full_name]
        if is_name(spec.function) and difflib.SequenceMatcher(None, name, spec.function).ratio() >= 0.75:
            return f"If you mean the tool: `from servers.{spec.module} import {spec.function}`."
    return None


def _parameters(cause: Cause, spec: ToolSpec) -> str | None:
    """Suggestions for parameters that the tool does not have, and for required ones that are missing."""
    known, given = parameters(spec), _given(cause)
    free = dict.fromkeys(each.name for each in known if each.name not in given and is_name(each.name))
    wrong = sorted(given - {each.name for each in known})[:_WRONG]
    hints = [f"Did you mean {near}=, not {name}=?" for name in wrong if (near := _nearest(name, free)) is not None]
    needed = [each.name for each in known if each.required and each.name in free]
    if not hints and cause.family == "missing" and needed:
        hints = [f"It also needs {_listed(needed)}."]
    return " ".join(hints[:2]) or None


def _less(cause: Cause, code: str, spec: ToolSpec | None) -> str | None:
    """Advice to do less, or more at once."""
    is_looped = bool(cause.tool) and f"looped|{cause.tool}" in cause.features
    if cause.family == "wall_time" and is_looped and spec is not None and "asyncio.gather" not in code:
        name = spec.function
        return (
            f"The calls of {name} wait for each other: `await asyncio.gather(*[{name}(…) for …])` makes them at once."
        )
    if spec is None:
        return None
    given = _given(cause)
    narrow = [each.name for each in parameters(spec) if _narrows(each) and each.name not in given]
    return f"Ask {spec.function} for less: it takes {_listed(narrow, '=')}." if narrow else None


def _narrows(parameter: Parameter) -> bool:
    name = parameter.name
    return is_name(name) and not parameter.required and bool(_SIZES.search(name) or _FILTERS.search(name))


def _of_tool(cause: Cause, view: Snapshot, spec: ToolSpec) -> str | None:
    group, known = cause.template.partition(":")[0], parameters(spec)
    given = _given(cause)
    match group:
        case "rate" | "busy":
            return "Wait a little between calls (`time.sleep`), make fewer of them at once, and try again."
        case "absent":
            return _source(given, view, spec)
        case "format":
            cases = [
                f"{each.name}= takes {form}" for each in known if each.name in given and (form := _form(each, spec))
            ]
            return f"{'; '.join(cases[:_LISTED])}." if cases else None
        case "size":
            sizes = [each.name for each in known if each.name in given and _SIZES.search(each.name)]
            return f"Pass less as {_listed(sizes, '=')}." if sizes else None
        case "required":
            more = [each.name for each in known if each.name not in given and is_name(each.name)]
            return f"It also takes {_listed(more, '=')}." if more else None
    return None


def _given(cause: Cause) -> frozenset[str]:
    """The parameters that the failed call passed."""
    starts = (f"sent|{cause.tool}|", f"arg|{cause.tool}|")
    return frozenset(key.split("|")[2] for key in cause.features if key.startswith(starts))


def _form(parameter: Parameter, spec: ToolSpec) -> str | None:
    for schema in alternatives(parameter.schema, spec.input_schema):
        form = schema.get("format")
        if isinstance(form, str) and form in _FORMATS:
            return _FORMATS[form]
    return None


def _source(given: frozenset[str], view: Snapshot, spec: ToolSpec) -> str | None:
    """The source of a parameter's values: another tool of the server whose answers have a field of that name."""
    for other in view.by_upstream.get(spec.upstream, ())[:_SOURCES]:
        if other is spec or other.annotations.destructive is True or not is_name(other.function):
            continue
        needed = {each.name for each in parameters(other) if each.required}
        answered = answered_names(unwrapped(other.output_schema), other.output_schema or {})
        for name in sorted(given.intersection(answered) - needed):
            if is_name(name) and is_field(name):
                return f"Values for {name}= are in what {other.function} answers."
    return None


def _nearest(name: str, known: Collection[str]) -> str | None:
    wanted = _squeezed(name)
    pairs = set(itertools.pairwise(wanted))
    squeezed = {_squeezed(each): each for each in itertools.islice(known, _NAMES)}
    # Comparing two names is slow: only those with the most letter pairs in common are compared.
    alike = heapq.nlargest(_COMPARED, squeezed, key=lambda each: len(pairs.intersection(itertools.pairwise(each))))
    close = difflib.get_close_matches(wanted, alike, n=1)
    if close:
        return squeezed[close[0]]
    inside = [each for each in known if name and name in each.split("_")]
    return inside[0] if len(inside) == 1 else None


def _sorted(names: Collection[str]) -> list[str]:
    """The first names in alphabetical order, which reveals nothing about their use; then the others."""
    found = list(names)
    return sorted(found[:_LISTED]) + found[_LISTED:]


def _squeezed(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _listed(names: list[str], end: str = "") -> str:
    more = ", …" if len(names) > _LISTED else ""
    return ", ".join(f"{name}{end}" for name in names[:_LISTED]) + more
