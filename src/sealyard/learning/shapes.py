"""What tools really answer, learned from the journal: fields, types, what may be missing, choices and bounds.

Nothing that only one principal has seen is shown to another: neither the name of a field, nor a type, a choice or a
bound. So nobody's values get to anybody else in this way, and nobody can make others believe in a field by calling a
tool that echoes. What a tool declares is never overridden; where its answers differ, that is said.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sealyard.catalog.learned import LearnedShape
from sealyard.learning.answers import CHOICES, PLACES, AnswerSeen, PlaceSeen, major_of, parent_of, prepare_answers
from sealyard.learning.evidence import Evidence, faded
from sealyard.learning.insights import Insight, PartInsights, part_insights
from sealyard.learning.shape_conflicts import find_conflicts
from sealyard.learning.shape_schema import Audience, Place, Sighting, build_schema, children_of
from sealyard.values import Hinted, RunEvidence, ToolSpec

__all__ = ("AnswerSeen", "Learned", "Shapes", "prepare_answers")

TOOLS = 500
"""So many tools are remembered, those that answered last."""
ALL_PLACES = 20_000
"""So many places of all of them together."""
STEADY = 5
"""From so many answers on, a shape is held to be one."""
_SLACK = 100
"""Of one tool's places, so that a flood is not sorted at every run."""
_SLOTS = 16
_PENDING = 16
_KEPT_WEIGHT = 0.02
"""What has faded to less than that was last seen some six half-lives ago."""
_AGED = 0.95
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Learned(msgspec.Struct, kw_only=True):
    """The answers of one major version of a tool."""

    major: int
    places: dict[str, Place] = {}
    """In the order in which they were first seen."""
    slots: list[str] = []
    """Which principal each bit of a `Sighting` means; nothing if it means nobody."""
    heard: Evidence = msgspec.field(default_factory=Evidence)
    answers: float = 0.0
    """Faded."""
    total: int = 0
    """Ever."""
    at: float = 0.0
    """When all weights were last made less."""
    last_at: float = 0.0
    is_sampled: bool = False
    """Whether rows were left out of some of them: what was in none of the others may have been in those."""
    pending: list[str] = []
    """Principals that were told this shape and have not called the tool since."""
    told: int = 0
    right: int = 0

    def add(self, principal: str, seen: AnswerSeen, at: float, half_life: float) -> None:
        """Take in what the tool answered in one run."""
        self._age(at, half_life)
        self._score(principal, seen)
        weight = faded(self.at - at, half_life)
        bit = 1 << self._slot(principal)
        self.heard.add(principal, at, half_life, yes=float(seen.answers))
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
        self.last_at = max(self.last_at, at)

    def fits(self, seen: AnswerSeen) -> bool:
        """Whether answers have no field and no type that was never seen, and lack none that was always there."""
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

    def _score(self, principal: str, seen: AnswerSeen) -> None:
        if principal in self.pending:
            self.pending.remove(principal)
        elif self.total < STEADY:
            return
        self.told += 1
        self.right += self.fits(seen)

    def _slot(self, principal: str) -> int:
        if principal in self.slots:
            return self.slots.index(principal)
        if len(self.slots) < _SLOTS:
            self.slots.append(principal)
            return len(self.slots) - 1
        # The first of the votes was heard least lately; what only it has seen is then nobody's.
        gone = next((each for each in self.heard.by if each in self.slots), self.slots[0])
        slot = self.slots.index(gone)
        for place in self.places.values():
            place.forget(slot)
        self.slots[slot] = principal
        return slot

    def _age(self, at: float, half_life: float) -> None:
        share = faded(at - self.at, half_life) if self.at else 1.0
        self.at = self.at or at
        if share >= _AGED:
            return
        self.at = at
        self.answers *= share
        for path, place in list(self.places.items()):
            place.fade(share, _KEPT_WEIGHT)
            if not place.kinds:
                del self.places[path]

    def _trim(self) -> None:
        """Keep what several have seen and what is near the top; a flood of odd keys drives nothing else out."""
        if len(self.places) > PLACES + _SLACK:
            for path in sorted(self.places, key=self._rank)[PLACES:]:
                del self.places[path]

    def _rank(self, path: str) -> tuple[bool, int, float, str]:
        place = self.places[path]
        return place.seen_by().bit_count() < 2, _depth(path), -place.all_weight(), path


class Shapes(msgspec.Struct, kw_only=True):
    """The shapes of answers. Only the event loop's thread touches it."""

    tools: dict[str, Learned] = {}
    """By full name, the one that answered last at the end."""
    principals: list[str] = []
    """Two of those whose runs were learned from: whether there is more than one is all that matters."""
    runs: int = 0

    def learn(self, run: RunEvidence, seen: Sequence[AnswerSeen], half_life: float) -> None:
        """Take in the answers of a run. A tool's new major version begins anew; what an older one answers is past."""
        principal, at = run.fact.principal, run.fact.at
        self.runs += bool(seen)
        if seen and principal not in self.principals and len(self.principals) < 2:
            self.principals.append(principal)
        for each in seen:
            learned = self.tools.pop(each.tool, None)
            if learned is None or learned.major < each.major:
                learned = Learned(major=each.major)
            self.tools[each.tool] = learned
            if learned.major == each.major:
                learned.add(principal, each, at, half_life)
        self._evict()

    def hinted(self, event: Hinted) -> None:
        """A principal was told a shape: what the tool then answers it says whether that was right."""
        learned = self.tools.get(event.subject)
        if event.hint == "shape" and learned is not None and event.principal not in learned.pending:
            learned.pending = [*learned.pending, event.principal][-_PENDING:]

    def schema_of(
        self, spec: ToolSpec, *, now: float, half_life: float, is_alone: bool = False, viewer: str | None = None
    ) -> LearnedShape | None:
        """What a tool answers at its major version, as far as it may be told; None if that is nothing.

        `is_alone` says that this gateway has one principal; it counts only if what was learned is one principal's. A
        `viewer` sees what it has seen itself, besides what two others have.
        """
        learned = self.tools.get(spec.full_name)
        if learned is None or learned.major != major_of(spec.version):
            return None
        audience = self._audience(learned, is_alone=is_alone, viewer=viewer)
        answers = learned.answers * faded(now - learned.at, half_life)
        schema = build_schema(learned.places, audience)
        if not schema or answers < _KEPT_WEIGHT:
            return None
        return LearnedShape(
            schema=schema,
            major=learned.major,
            answers=max(1, round(answers)),
            principals=sum(map(bool, learned.slots)),
            last_at=learned.last_at,
            conflicts=tuple(find_conflicts(spec, learned.places, audience, is_sampled=learned.is_sampled)),
        )

    def insights(self, now: float, half_life: float) -> PartInsights:
        """What was learned of which tool, for whoever may see what all principals do. It names no field."""
        told = sum(each.told for each in self.tools.values())
        right = sum(each.right for each in self.tools.values())
        return part_insights(
            "shapes",
            self._items(now, half_life),
            learned=len(self.tools),
            evidence=self.runs,
            told=told,
            right=right,
        )

    def conflicts(
        self, specs: Iterable[ToolSpec], *, now: float, half_life: float, is_alone: bool = False
    ) -> list[Insight]:
        """Where tools do not answer what they declare, for whoever may see what all principals do."""
        found = []
        for spec in specs:
            learned = self.tools.get(spec.full_name)
            if learned is None or learned.major != major_of(spec.version) or spec.output_schema is None:
                continue
            audience = self._audience(learned, is_alone=is_alone, viewer=None)
            texts = find_conflicts(spec, learned.places, audience, is_sampled=learned.is_sampled)
            found += [self._insight("conflict", spec.full_name, text, learned, now, half_life) for text in texts]
        return found

    def _items(self, now: float, half_life: float) -> Iterator[Insight]:
        for tool, learned in self.tools.items():
            if _NAME.fullmatch(tool):
                fields = sum(map(len, children_of(learned.places).values()))
                text = f"Its answers have {fields} field{'' if fields == 1 else 's'}."
                yield self._insight("shape", tool, text, learned, now, half_life)

    def _insight(self, kind: str, tool: str, text: str, learned: Learned, now: float, half_life: float) -> Insight:
        return Insight(
            kind=kind,
            subject=tool,
            text=text,
            evidence=learned.answers * faded(now - learned.at, half_life),
            principals=sum(map(bool, learned.slots)),
            told=learned.told,
            right=learned.right,
            last_at=learned.last_at,
        )

    def _audience(self, learned: Learned, *, is_alone: bool, viewer: str | None) -> Audience:
        own = 1 << learned.slots.index(viewer) if viewer is not None and viewer in learned.slots else 0
        is_own = len(self.principals) < 2 and (viewer is None or viewer in self.principals)
        return Audience(own=own, sees_all=is_alone and is_own)

    def _evict(self) -> None:
        total = sum(len(each.places) for each in self.tools.values()) if len(self.tools) > 1 else 0
        while len(self.tools) > TOOLS or (total > ALL_PLACES and len(self.tools) > 1):
            oldest = next(iter(self.tools))
            total -= len(self.tools.pop(oldest).places)


def _merge(place: Place, new: PlaceSeen, weight: float, bit: int) -> None:
    for kind, count in new.kinds.items():
        place.kinds.setdefault(kind, Sighting()).note(count * weight, bit)
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
