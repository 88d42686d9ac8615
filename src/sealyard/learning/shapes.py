"""The shapes of tools' answers, learned from the journal: fields, types, optional fields, choices and bounds.

A name of a field, a type, a choice or a bound that only one principal has seen is never shown to another. So values of
one principal do not reach others, and no principal can plant a field for others by calling a tool that echoes. A
declared schema is never overridden; differences from it are reported.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.answers import (
    CHARACTERS,
    MARK,
    PLACES,
    AnswerSeen,
    Audience,
    Copying,
    LearnedShape,
    Place,
    PlaceSeen,
    Reading,
    Sighting,
    build_schema,
    children_of,
    is_mapping,
    is_measure,
    joined,
    name_of,
    parent_of,
)
from sealyard.catalog.stubs import returns
from sealyard.catalog.text import is_vague
from sealyard.learning.disclosure import is_choice, is_data, is_field, is_trait, outward, shows_choices, shows_span
from sealyard.learning.part import Evidence, Insight, Lesson, Part, PartInsights, Viewer, faded, part_insights
from sealyard.privacy import TYPES
from sealyard.privacy.detect import Scanner, ScanRules
from sealyard.values.facts import CallEvidence, Hinted, RunEvidence
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import major_of
from sealyard.versioning.compare.schemas import resolve, unwrapped

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

CHOICES = 10  # different texts of a field that still count as a choice
_TOOLS = 8  # tools of a run that are read: a bound
_ANSWERS = 10  # answers of each of them: a bound
_VISITS = 3_000  # values of all answers of one tool: a bound of some milliseconds
_GIVEN = 200  # values of a call's arguments that are compared with keys: a bound
_MOST = 5  # conflicts reported of one tool
_BRANCHES = 8  # alternatives of a declared schema that are read: a bound
_DECLARED_DEPTH = 8  # levels of a declared schema: a bound
_FIELDS = 64  # fields of a declared object: a bound
_STEPS = 400  # places of a declared schema: a bound
_NEVER = 10.0  # objects without a required field before it is reported as never present
_NEVER_OPTIONAL = 30.0  # the same for an optional field
_OFTEN = 3.0  # sightings that contradict a declaration
_PATH_CHARACTERS = 60  # longest path to a field that is shown whole
TOOLS = 500  # tools remembered, the last that answered: a bound
ALL_PLACES = 20_000  # places of all of them: a bound
STEADY = 5  # answers from which a shape is used
_SLACK = 100  # places of a tool above the bound, so that a flood is not sorted at every run
_SLOTS = 16  # principals distinguished for one tool; as `PRINCIPALS` of evidence
_PENDING = 16  # principals that were shown a shape and have not called the tool since: a bound
_KEPT_WEIGHT = 0.02  # weight below which a sighting is dropped, six half-lives old
_AGED = 0.95  # weights are recomputed when they have faded to this share
_PAUSE_SECONDS = 60.0  # between two changes of stubs, and time that a new shape must last to replace another
_SECONDS_PER_TOOL = 0.05  # the same for each tool: writing stubs of ten thousand takes a second, then every 8 minutes
_SECONDS_PER_SHAPE = 0.02  # between two looks for each shape: they take a hundredth of the time
_AT_ONCE = 8  # shapes looked at before other tasks get a turn

# Answers of a run

_scanner = Scanner(ScanRules(types=frozenset(TYPES)))


def prepare_answers(run: RunEvidence) -> tuple[AnswerSeen, ...]:
    """The answers of a run's tools: eight tools, ten answers of each. It takes milliseconds; use a thread.

    Private values of all kinds are searched for in every mode: in some modes answers are not concealed.
    """
    found: dict[tuple[str, int], list[CallEvidence]] = {}
    for call in run.calls:
        major = major_of(call.version)
        has_any = call.has_answer or call.sample is not None
        if not has_any or call.error is not None or not major:
            continue
        key = (call.tool, major)
        if key in found or len(found) < _TOOLS:
            calls = found.setdefault(key, [])
            if len(calls) < _ANSWERS:
                calls.append(call)
    return tuple(_see(tool, major, calls) for (tool, major), calls in found.items())


def _see(tool: str, major: int, calls: list[CallEvidence]) -> AnswerSeen:
    visits = _VISITS // len(calls)
    copies = [
        Copying(visits, given=_texts(call.arguments)).copy(call.answer if call.has_answer else call.sample)
        for call in calls
    ]
    marks = 0

    def mark(kind: str, value: object) -> str:
        nonlocal marks
        marks += 1
        return f"{MARK}{marks}"  # a different replacement for each: of two equal keys, one would be lost

    judged = _scanner.conceal(copies, mark)
    reading = _Disclosing()
    for answer, verdict in zip(copies, judged, strict=True):
        reading.read(answer, verdict)
    for place in reading.places.values():
        _round(place)
    is_sampled = not all(call.has_answer for call in calls)
    return AnswerSeen(tool=tool, major=major, answers=len(calls), places=reading.places, is_sampled=is_sampled)


def _texts(arguments: Any) -> frozenset[str]:
    """The short texts in the arguments of a tool."""
    values = islice(_unfolded([arguments]), _GIVEN)
    return frozenset(value for value in values if isinstance(value, str) and len(value) <= CHARACTERS)


def _unfolded(waiting: list[Any]) -> Iterator[Any]:
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict | list):
            waiting += islice(value.values() if isinstance(value, dict) else value, _GIVEN)


class _Disclosing(Reading):
    """Reads the fields that may be named, with those of their texts and numbers that may be shown."""

    def open(self, path: str) -> PlaceSeen:
        name = name_of(path)
        if not name or any(map(is_trait, path.replace("[]", "").replace("{}", "").split("."))):
            return PlaceSeen()
        return PlaceSeen(choices={} if shows_choices(name) else None, is_spanned=shows_span(name))

    def is_data(self, key: str) -> bool:
        return is_data(key)

    def is_field(self, key: str) -> bool:
        return is_field(key)

    def note(self, place: PlaceSeen, value: str | float, verdict: Any) -> None:
        is_private = isinstance(verdict, str) and MARK in verdict
        if isinstance(value, str):
            if is_private or place.choices is None or not is_choice(value):
                place.choices = None
            else:
                place.choices[value] = place.choices.get(value, 0) + 1
                if len(place.choices) > CHOICES:
                    place.choices = None
        elif is_private or not place.is_spanned or not -1e15 < value < 1e15:  # neither infinite nor NaN
            place.is_spanned, place.span = False, None
        else:
            low, high = place.span or (value, value)
            place.span = (min(low, value), max(high, value))


def _round(place: PlaceSeen) -> None:
    if place.span is not None:
        is_whole = "number" not in place.kinds
        place.is_spanned = place.is_spanned and is_measure(*place.span, is_whole=is_whole)
        place.span = outward(*place.span) if place.is_spanned else None


# Differences from a declared schema

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_Schema = dict[str, Any]


class _Comparing:
    def __init__(self, root: _Schema, places: Mapping[str, Place], audience: Audience, *, is_sampled: bool) -> None:
        self._root = root
        self._is_sampled = is_sampled
        self._places = places
        self._audience = audience
        self._children = children_of(places)
        self._left = _STEPS

    def read(self, path: str, schema: object, depth: int) -> Iterator[str]:
        place = self._places.get(path)
        self._left -= 1
        if place is None or not depth or self._left < 0:
            return
        branches = list(_branches(schema, self._root, _DECLARED_DEPTH))
        if not branches or any(not branch for branch in branches):
            return  # an empty one allows everything
        yield from self._types(path, place, branches)
        objects = [branch for branch in branches if isinstance(branch.get("properties"), dict)]
        if objects and self._sees(place, "object"):
            yield from self._fields(path, place, objects, depth)
        for branch in branches:
            for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
                if isinstance(branch.get(key), dict):
                    yield from self.read(f"{path}{mark}", branch[key], depth - 1)

    def _types(self, path: str, place: Place, branches: list[_Schema]) -> Iterator[str]:
        declared = set[str]()
        for branch in branches:
            types = _types_of(branch)
            if not types:
                return
            declared |= types
        accepted = declared | ({"integer", "number"} if declared & {"integer", "number"} else set())
        if not accepted <= _TYPES.keys():
            return
        for kind, words in _TYPES.items():
            if kind not in accepted and self._sees(place, kind) and place.weight(kind) >= _OFTEN:
                is_what = " or ".join(_TYPES[each] for each in _TYPES if each in declared)
                yield f"{_named(path)} is declared as {is_what} and was {words} in some answers."

    def _fields(self, path: str, place: Place, objects: list[_Schema], depth: int) -> Iterator[str]:
        declared: dict[str, list[object]] = {}
        for branch in objects:
            for name, inner in list(branch["properties"].items())[:_FIELDS]:
                declared.setdefault(name, []).append(inner)
        required = set.intersection(*(_required(branch) for branch in objects))
        known = {child.rpartition(".")[2]: child for child in self._children.get(path, ())}
        for name in filter(is_field, declared):
            child = known.get(name)
            if child is not None:
                for inner in declared[name][:_BRANCHES]:
                    yield from self.read(child, inner if len(declared[name]) == 1 else {}, depth - 1)
            elif self._is_never(path, place, is_required=name in required):
                yield f"{_named(joined(path, name))} is declared and was in none of the answers."
        others = [child for name, child in known.items() if name not in declared and self._is_shown(child)]
        if not self._is_open(path, place, objects, others):
            for child in others:
                if self._places[child].all_weight() >= _OFTEN:
                    yield f"{_named(child)} is not declared and was in {_share(self._places[child], place)} answers."

    def _is_never(self, path: str, place: Place, *, is_required: bool) -> bool:
        """True if the field was missing in enough objects to expect that it is always missing."""
        is_row = "[]" in path or "{}" in path
        least = _NEVER if is_required else _NEVER_OPTIONAL
        return place.weight("object") >= least and not (self._is_sampled and is_row)

    def _is_open(self, path: str, place: Place, objects: list[_Schema], others: list[str]) -> bool:
        """True if the keys of an object are data, by its declaration or by its answers."""
        if any(isinstance(each.get("additionalProperties"), dict) for each in objects):
            return True
        return f"{path}{{}}" in self._places or is_mapping(place, [self._places[child] for child in others])

    def _sees(self, place: Place, kind: str) -> bool:
        return kind in place.kinds and self._audience.may_see(place.kinds[kind].who)

    def _is_shown(self, path: str) -> bool:
        return self._audience.may_see(self._places[path].seen_by())


def _branches(schema: object, root: _Schema, depth: int) -> Iterator[_Schema]:
    """The alternatives that a schema allows; an empty one for a schema without constraints, or an unsupported one."""
    if schema is True or not depth:
        yield {}
        return
    whole = resolve(schema, root)
    alternatives = whole.get("anyOf") or whole.get("oneOf")
    if isinstance(alternatives, list) and alternatives:
        for each in alternatives[:_BRANCHES]:
            yield from _branches(each, root, depth - 1)
    elif "allOf" in whole or "not" in whole or "$dynamicRef" in whole or whole.get("nullable") is True:
        yield {}
    else:
        yield whole


def _types_of(branch: _Schema) -> set[str]:
    types = branch.get("type")
    if isinstance(types, str):
        return {types}
    return {each for each in types if isinstance(each, str)} if isinstance(types, list) else set()


def _required(branch: _Schema) -> set[str]:
    required = branch.get("required")
    return {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()


def _share(place: Place, holder: Place) -> str:
    return "all" if place.is_always_in(holder) else "some"


def _named(path: str) -> str:
    if not path:
        return "The answer"
    # One word per level can form a sentence.
    is_short = len(path) <= _PATH_CHARACTERS and is_field(re.sub(r"\W+", "_", path).strip("_"))
    return f"`{path if is_short else path.rpartition('.')[2]}`"


# The part

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Learned(msgspec.Struct, kw_only=True):
    """The answers of one major version of a tool."""

    major: int
    places: dict[str, Place] = {}
    """In the order in which they were first seen."""
    slots: list[str] = []
    """The principal of each bit of a `Sighting`; empty if nobody has it."""
    heard: Evidence = msgspec.field(default_factory=Evidence)
    answers: float = 0.0
    """Faded."""
    total: int = 0
    """Ever."""
    at: float = 0.0
    """The time of the last reduction of all weights."""
    last_at: float = 0.0
    is_sampled: bool = False
    """True if rows were left out of some answers: a field that was never seen may have been in those."""
    pending: list[str] = []
    """Principals that were shown this shape and have not called the tool since."""
    checked: int = 0
    right: int = 0

    def add(self, seen: AnswerSeen, viewer: Viewer) -> None:
        """Learn from the tool's answers in one run of the viewer."""
        self._age(viewer)
        self._rate(viewer.principal, seen)
        weight = faded(self.at - viewer.now, viewer.half_life)
        bit = 1 << self._slot(viewer.principal)
        self.heard.add(viewer, yes=float(seen.answers))
        for path, new in seen.places.items():
            place = self.places.get(path)
            if place is None:
                place = self.places[path] = Place(
                    choices=None if new.choices is None else {}, is_spanned=new.is_spanned
                )
            _merge(place, new, weight, bit)
        self.is_sampled |= seen.is_sampled
        self._trim()
        self.answers += seen.answers * weight
        self.total += seen.answers
        self.last_at = max(self.last_at, viewer.now)

    def conflicts(self, spec: ToolSpec, audience: Audience) -> list[str]:
        """A sentence for each difference from the declaration, at most five.

        A field may be declared but never present, present but not declared, or of another type. If rows were left out,
        no field of rows is reported as never present.
        """
        if spec.output_schema is None:
            return []
        reading = _Comparing(spec.output_schema, self.places, audience, is_sampled=self.is_sampled)
        return list(islice(reading.read("", unwrapped(spec.output_schema), _DECLARED_DEPTH), _MOST))

    def fits(self, seen: AnswerSeen) -> bool:
        """True if answers have no new field or type, and lack no field that was always present."""
        children = children_of(self.places)
        for path, new in seen.places.items():
            place = self.places.get(path)
            if place is None:
                if not path.endswith(("[]", "{}")) and parent_of(path) in children:
                    return False
            elif not new.kinds.keys() <= place.kinds.keys() | {"cut", "null"}:
                return False
        for above, fields in children.items():
            objects = seen.places[above].kinds.get("object", 0) if above in seen.places else 0
            for path in fields if objects else ():
                new_count = sum(seen.places[path].kinds.values()) if path in seen.places else 0
                if new_count < objects and self.places[path].is_always_in(self.places[above]):
                    return False
        return True

    def _rate(self, principal: str, seen: AnswerSeen) -> None:
        if principal in self.pending:
            self.pending.remove(principal)
        elif self.total < STEADY:
            return
        self.checked += 1
        self.right += self.fits(seen)

    def _slot(self, principal: str) -> int:
        if principal in self.slots:
            return self.slots.index(principal)
        if len(self.slots) < _SLOTS:
            self.slots.append(principal)
            return len(self.slots) - 1
        # The first of the votes is the least recent; sightings of that principal alone are dropped.
        gone = next((each for each in self.heard.by if each in self.slots), self.slots[0])
        slot = self.slots.index(gone)
        for place in self.places.values():
            place.forget(slot)
        self.slots[slot] = principal
        return slot

    def _age(self, viewer: Viewer) -> None:
        share = viewer.faded(self.at) if self.at else 1.0
        self.at = self.at or viewer.now
        if share >= _AGED:
            return
        self.at = viewer.now
        self.answers *= share
        for path, place in list(self.places.items()):
            place.fade(share, _KEPT_WEIGHT)
            if not place.kinds:
                del self.places[path]

    def _trim(self) -> None:
        """Keep places that several principals have seen or that are near the top, so that odd keys displace none."""
        if len(self.places) > PLACES + _SLACK:
            for path in sorted(self.places, key=self._rank)[PLACES:]:
                del self.places[path]

    def _rank(self, path: str) -> tuple[bool, int, float, str]:
        place = self.places[path]
        return place.seen_by().bit_count() < 2, _depth(path), -place.all_weight(), path


class Shapes(Part, msgspec.Struct, kw_only=True):
    """The shapes of answers. Only the event loop's thread touches it."""

    tools: dict[str, Learned] = {}
    """By full name, the most recent answer last."""
    principals: list[str] = []
    """The first two principals whose runs were learned: enough to know if there is more than one."""
    runs: int = 0

    def learn_hint(self, hint: Hinted) -> None:
        """Note that a principal was shown a shape: its next answers rate it."""
        learned = self.tools.get(hint.subject)
        if hint.hint == "shape" and learned is not None and hint.principal not in learned.pending:
            learned.pending = [*learned.pending, hint.principal][-_PENDING:]

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Add answers to the records of tools. A new major version starts a new record; older answers do not count."""
        seen = lesson.answers
        principal = viewer.principal
        self.runs += bool(seen)
        if seen and principal not in self.principals and len(self.principals) < 2:
            self.principals.append(principal)
        for each in seen:
            learned = self.tools.pop(each.tool, None)
            if learned is None or learned.major < each.major:
                learned = Learned(major=each.major)
            self.tools[each.tool] = learned
            if learned.major == each.major:
                learned.add(each, viewer)
        self._evict()

    def shape_for(self, spec: ToolSpec, viewer: Viewer, *, is_alone: bool = False) -> LearnedShape | None:
        """The part of the shape of a tool's answers at its major version that the viewer may see, or None.

        `is_alone`: this gateway has one principal; it counts only if all evidence comes from one principal. A viewer
        sees shapes of its own answers and those that two others have seen. An empty principal means all principals.
        """
        learned = self._known(spec)
        if learned is None:
            return None
        audience = self._audience(learned, is_alone=is_alone, viewer=viewer.principal)
        answers = learned.answers * viewer.faded(learned.at)
        schema = build_schema(learned.places, audience)
        if not schema or answers < _KEPT_WEIGHT:
            return None
        return LearnedShape(
            schema=schema,
            major=learned.major,
            answers=max(1, round(answers)),
            principals=sum(map(bool, learned.slots)),
            last_at=learned.last_at,
            conflicts=tuple(learned.conflicts(spec, audience)),
        )

    def score(self) -> tuple[int, int]:
        """The number of answers for which a shape was known, and of those that matched it."""
        learned = self.tools.values()
        return sum(each.checked for each in learned), sum(each.right for each in learned)

    def insights(self, viewer: Viewer) -> PartInsights:
        """The learned shapes, for an operator with access to all principals. It names no field."""
        items = self._items(viewer)
        return part_insights("shapes", items, learned=len(self.tools), evidence=self.runs, score=self.score())

    def conflicts(self, specs: Iterable[ToolSpec], viewer: Viewer, *, is_alone: bool = False) -> list[Insight]:
        """Differences of answers from declared schemas, for an operator with access to all principals."""
        found = []
        for spec in specs:
            learned = self._known(spec)
            if learned is not None:
                texts = learned.conflicts(spec, self._audience(learned, is_alone=is_alone, viewer=""))
                found += [self._insight("conflict", spec.full_name, text, learned, viewer) for text in texts]
        return found

    def _known(self, spec: ToolSpec) -> Learned | None:
        """The record of a tool at its major version."""
        learned = self.tools.get(spec.full_name)
        return learned if learned is not None and learned.major == major_of(spec.version) else None

    def _items(self, viewer: Viewer) -> Iterator[Insight]:
        for tool, learned in self.tools.items():
            if _NAME.fullmatch(tool):
                fields = sum(map(len, children_of(learned.places).values()))
                text = f"Its answers have {fields} field{'' if fields == 1 else 's'}."
                yield self._insight("shape", tool, text, learned, viewer)

    def _insight(self, kind: str, tool: str, text: str, learned: Learned, viewer: Viewer) -> Insight:
        return Insight(
            kind=kind,
            subject=tool,
            text=text,
            evidence=learned.answers * viewer.faded(learned.at),
            principals=sum(map(bool, learned.slots)),
            checked=learned.checked,
            right=learned.right,
            last_at=learned.last_at,
        )

    def _audience(self, learned: Learned, *, is_alone: bool, viewer: str) -> Audience:
        own = 1 << learned.slots.index(viewer) if viewer and viewer in learned.slots else 0
        is_own = len(self.principals) < 2 and (not viewer or viewer in self.principals)
        return Audience(own=own, sees_all=is_alone and is_own)

    def _evict(self) -> None:
        total = sum(len(each.places) for each in self.tools.values()) if len(self.tools) > 1 else 0
        while len(self.tools) > TOOLS or (total > ALL_PLACES and len(self.tools) > 1):
            oldest = next(iter(self.tools))
            total -= len(self.tools.pop(oldest).places)


def _merge(place: Place, new: PlaceSeen, weight: float, bit: int) -> None:
    place.count(new.kinds, weight, bit)
    if new.choices is None:
        place.choices = None if new.kinds.keys() & {"string", "token"} else place.choices
    elif place.choices is not None:
        for text, count in new.choices.items():
            place.choices.setdefault(text, Sighting()).note(count * weight, bit)
        if len(place.choices) > CHOICES:
            place.choices = None
    if not new.is_spanned and new.kinds.keys() & {"integer", "number"}:
        place.is_spanned = False
        place.spans = {}
    elif new.span is not None and place.is_spanned:
        place.widen(bit, new.span)


def _depth(path: str) -> int:
    return path.count(".") + path.count("[]") + path.count("{}")


# Shapes for stubs


class SteadyShapes:
    """The shapes for stubs of tools that declare none. Only the event loop's thread touches it."""

    def __init__(self) -> None:
        self.shapes: Mapping[str, LearnedShape] = {}
        """By full name, for `Catalog.use_shapes`."""
        self._totals: dict[str, int] = {}
        """The number of answers behind each: it falls only when something is forgotten."""
        self._candidates: dict[str, tuple[_Schema, float]] = {}
        """Shapes that differ from the stubs, with the time of the first difference."""
        self._next_at = 0.0

    async def look(self, learned: Shapes, snapshot: Snapshot, viewer: Viewer, *, is_alone: bool = False) -> bool:
        """Update `shapes`; True if it changed. Call it as often as you like: it changes at most once a minute.

        A shape is used from five answers on, and replaces another after a minute without change. Forgotten shapes
        disappear at once.
        """
        is_less = any(name not in learned.tools or learned.tools[name].total < n for name, n in self._totals.items())
        now = viewer.now
        if now < self._next_at and not is_less:
            return False
        before, known = self.shapes, self._candidates
        kept, candidates, number = dict[str, LearnedShape](), dict[str, tuple[_Schema, float]](), 0
        for number, spec in enumerate(_vague(learned, snapshot), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            name, shape = spec.full_name, learned.shape_for(spec, viewer, is_alone=is_alone)
            if shape is None:
                continue
            schema, current = _stub_schema(shape.schema), before.get(name)
            if current is not None and current.major != shape.major:
                current = None
            since = known[name][1] if name in known and known[name][0] == schema else now
            if current is not None and current.schema == schema:
                kept[name] = current
            elif shape.answers >= STEADY and (current is None or is_less or now - since >= _PAUSE_SECONDS):
                kept[name] = msgspec.structs.replace(shape, schema=schema, conflicts=())
            else:
                candidates[name] = (schema, since)
                if current is not None and not is_less:
                    kept[name] = current
        self.shapes, self._candidates = kept, candidates
        self._totals = {name: learned.tools[name].total for name in kept if name in learned.tools}
        is_changed = _schemas(before) != _schemas(kept)
        pause = max(_PAUSE_SECONDS, _SECONDS_PER_TOOL * len(snapshot.tools))
        self._next_at = now + (pause if is_changed else _SECONDS_PER_SHAPE * number)
        return is_changed


def _schemas(shapes: Mapping[str, LearnedShape]) -> dict[str, _Schema]:
    return {name: each.schema for name, each in shapes.items()}


def _vague(learned: Shapes, snapshot: Snapshot) -> Iterator[ToolSpec]:
    """The tools without a useful declaration that may have a learned shape."""
    for name in list(learned.tools):
        spec = snapshot.tools.get(name)
        if spec is not None and (spec.output_schema is None or is_vague(returns(spec))):
            yield spec


def _stub_schema(schema: _Schema) -> _Schema:
    """A schema without bounds, which change too often to write stubs anew, and without keys that are not fields."""
    kept = {key: value for key, value in schema.items() if key not in ("minimum", "maximum")}
    if "properties" in kept:
        kept["properties"] = {name: _stub_schema(each) for name, each in kept["properties"].items() if is_field(name)}
        kept["required"] = [name for name in kept.get("required", ()) if name in kept["properties"]]
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _stub_schema(kept[key])
    return kept
