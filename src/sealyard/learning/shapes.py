"""The shapes of tools' answers, learned from the journal: fields, types and optional fields, never a value.

A name of a field or a type that only one principal has seen is never shown to another. So no principal can plant a
field for others by calling a tool that echoes. A declared schema is never overridden.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sealyard.catalog import LearnedShape, Snapshot
from sealyard.catalog.shapes import Audience, Copying, Place, Reading, build_schema, children_of, fits
from sealyard.catalog.stubs import Stub
from sealyard.learning.disclosure import is_data, is_field
from sealyard.learning.part import (
    AnswerSeen,
    Evidence,
    Insight,
    Lesson,
    Part,
    PartInsights,
    Viewer,
    faded,
    part_insights,
)
from sealyard.privacy import TYPES
from sealyard.privacy.detect import Scanner, ScanRules
from sealyard.values.changes import major_of
from sealyard.values.facts import CallEvidence, Hinted, RunEvidence
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_TOOLS = 8  # tools of a run that are read: a bound
_ANSWERS = 10  # answers of each of them: a bound
_VISITS = 3_000  # values of all answers of one tool: a bound of some milliseconds
TOOLS = 500  # tools remembered, the last that answered: a bound
ALL_PLACES = 20_000  # places of all of them: a bound
STEADY = 5  # answers from which a shape is used
_SLACK = 100  # places of a tool above the bound, so that a flood is not sorted at every run
_SLOTS = 16  # principals distinguished for one tool; as `PRINCIPALS` of evidence
_PENDING = 16  # principals that were shown a shape and have not called the tool since: a bound
_KEPT_WEIGHT = 0.02  # weight below which a sighting is dropped, six half-lives old
_AGED = 0.95  # weights are recomputed when they have faded to this share
_PAUSE_SECONDS = 60.0  # between two changes of stubs: agents that read them need not see each new field at once
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
        Copying(visits, given=call.arguments).copy(call.answer if call.has_answer else call.sample) for call in calls
    ]
    reading = _Disclosing()
    reading.read_concealed(copies, _scanner.conceal)
    return AnswerSeen(tool=tool, major=major, answers=len(calls), places=reading.places)


class _Disclosing(Reading):
    """Reads the fields that may be named."""

    def is_data(self, key: str) -> bool:
        return is_data(key)

    def is_field(self, key: str) -> bool:
        return is_field(key)


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
        for path, kinds in seen.places.items():
            self.places.setdefault(path, Place()).count(kinds, weight, bit)
        if len(self.places) > Reading.most_places + _SLACK:
            for path in sorted(self.places, key=self._rank)[Reading.most_places :]:
                del self.places[path]
        self.answers += seen.answers * weight
        self.total += seen.answers
        self.last_at = max(self.last_at, viewer.now)

    def _rate(self, principal: str, seen: AnswerSeen) -> None:
        if principal in self.pending:
            self.pending.remove(principal)
        elif self.total < STEADY:
            return
        self.checked += 1
        self.right += fits(self.places, seen.places)

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

    def _rank(self, path: str) -> tuple[bool, int, float, str]:
        """Lower for a place that several principals have seen, or that is near the top: odd keys displace none."""
        place, depth = self.places[path], sum(map(path.count, (".", "[]", "{}")))
        return place.seen_by().bit_count() < 2, depth, -place.all_weight(), path


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
        learned = self.tools.get(spec.full_name)
        if learned is None or learned.major != major_of(spec.version):
            return None
        who = viewer.principal
        own = 1 << learned.slots.index(who) if who and who in learned.slots else 0
        is_own = len(self.principals) < 2 and (not who or who in self.principals)
        audience = Audience(own=own, sees_all=is_alone and is_own)
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
        )

    def score(self) -> tuple[int, int]:
        """The number of answers for which a shape was known, and of those that matched it."""
        learned = self.tools.values()
        return sum(each.checked for each in learned), sum(each.right for each in learned)

    def items(self, viewer: Viewer) -> Iterator[Insight]:
        """The learned shapes, for an operator with access to all principals. They name no field."""
        for tool, learned in list(self.tools.items()):
            if not _NAME.fullmatch(tool):
                continue
            fields = sum(map(len, children_of(learned.places).values()))
            yield Insight(
                kind="shape",
                subject=tool,
                text=f"Its answers have {fields} field{'' if fields == 1 else 's'}.",
                evidence=learned.answers * viewer.faded(learned.at),
                principals=sum(map(bool, learned.slots)),
                checked=learned.checked,
                right=learned.right,
                last_at=learned.last_at,
            )

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the shapes."""
        return part_insights("shapes", items, learned=len(self.tools), evidence=self.runs, score=self.score())

    def _evict(self) -> None:
        total = sum(len(each.places) for each in self.tools.values()) if len(self.tools) > 1 else 0
        while len(self.tools) > TOOLS or (total > ALL_PLACES and len(self.tools) > 1):
            oldest = next(iter(self.tools))
            total -= len(self.tools.pop(oldest).places)


# Shapes for stubs


class SteadyShapes:
    """The shapes for stubs of tools that declare none. Only the event loop's thread touches it."""

    def __init__(self) -> None:
        self.shapes: dict[str, LearnedShape] = {}
        """By full name, for `Catalog.use_shapes`."""
        self._totals: dict[str, int] = {}
        """The number of answers behind each: it falls only when something is forgotten."""
        self._next_at = 0.0

    async def look(self, learned: Shapes, snapshot: Snapshot, viewer: Viewer, *, is_alone: bool = False) -> bool:
        """Update `shapes`; True if it changed. Call it as often as you like: it changes at most once a minute.

        A shape is used from five answers on. Forgotten shapes disappear at once.
        """
        is_less = any(name not in learned.tools or learned.tools[name].total < n for name, n in self._totals.items())
        if viewer.now < self._next_at and not is_less:
            return False
        before, number = self.shapes, 0
        self.shapes = {}
        for number, spec in enumerate(_vague(learned, snapshot), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            shape = learned.shape_for(spec, viewer, is_alone=is_alone)
            if shape is not None and shape.answers >= STEADY:
                self.shapes[spec.full_name] = shape
        self._totals = {name: learned.tools[name].total for name in self.shapes if name in learned.tools}
        is_changed = _versions(before) != _versions(self.shapes)
        pause = max(_PAUSE_SECONDS, _SECONDS_PER_TOOL * len(snapshot.tools))
        self._next_at = viewer.now + (pause if is_changed else _SECONDS_PER_SHAPE * number)
        return is_changed


def _versions(shapes: Mapping[str, LearnedShape]) -> dict[str, tuple[int, dict[str, Any]]]:
    return {name: (each.major, each.schema) for name, each in shapes.items()}


def _vague(learned: Shapes, snapshot: Snapshot) -> Iterator[ToolSpec]:
    """The tools without a useful declaration that may have a learned shape."""
    for name in list(learned.tools):
        spec = snapshot.tools.get(name)
        if spec is not None and Stub(spec).is_vague:
            yield spec
