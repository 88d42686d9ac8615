"""What is remembered of each place of a tool's answers, and the schema that one audience may have of all of them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sealyard.learning.answers import parent_of
from sealyard.learning.telling import coarser, is_measure

__all__ = ("Audience", "Place", "Sighting", "build_schema", "children_of", "is_mapping")

_ORDER = ("object", "array", "string", "integer", "number", "boolean", "null")
_CHOICE_WEIGHT = 3.0
_CHOICES_WEIGHT = 20.0
_CHOICE_REPEATS = 5
_NUMBERS = 20.0
_ALWAYS = 1 - 1e-9
_NEARLY_ALWAYS = 0.9
_SELDOM = 0.25
_VARIED = 8
_DEPTH = 10


class Sighting(msgspec.Struct, array_like=True, gc=False):
    """How often something was seen, and by whom."""

    weight: float = 0.0
    who: int = 0
    """A bit for each principal."""

    def note(self, weight: float, bit: int) -> None:
        """It was seen again."""
        self.weight += weight
        self.who |= bit


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to see something: it may know what it has seen itself, and what two principals have."""

    own: int = 0
    """Its bit; nothing if it has seen nothing, or if everybody is meant."""
    sees_all: bool = False

    def may_see(self, who: int) -> bool:
        """Whether it may know what these principals have seen."""
        return who.bit_count() > 1 or bool(who & self.own) or (self.sees_all and who > 0)


class Place(msgspec.Struct, array_like=True, gc=False):
    """One place of a tool's answers."""

    kinds: dict[str, Sighting] = {}
    choices: dict[str, Sighting] | None = None
    """The texts seen; None if they are not to be told, and for good."""
    is_spanned: bool = False
    spans: dict[str, tuple[float, float]] = {}
    """By principal's bit: bounds around the numbers that it has seen, rounded."""

    def weight(self, kind: str) -> float:
        """How much was seen of one kind."""
        return self.kinds[kind].weight if kind in self.kinds else 0.0

    def all_weight(self) -> float:
        """How much was seen at all."""
        return sum(each.weight for each in self.kinds.values())

    def seen_by(self) -> int:
        """Who has seen anything here."""
        who = 0
        for each in self.kinds.values():
            who |= each.who
        return who

    def is_always_in(self, holder: "Place", share: float = _ALWAYS) -> bool:
        """Whether it was in every object that could have had it, or in this share of them."""
        return self.all_weight() >= holder.weight("object") * share

    def widen(self, bit: int, span: tuple[float, float]) -> None:
        """A principal saw numbers within these bounds."""
        low, high = self.spans.get(str(bit), span)
        self.spans[str(bit)] = (min(low, span[0]), max(high, span[1]))

    def forget(self, slot: int) -> None:
        """Take out who had this slot."""
        bit = 1 << slot
        for sighting in (*self.kinds.values(), *(self.choices or {}).values()):
            sighting.who &= ~bit
        self.spans.pop(str(bit), None)

    def fade(self, share: float, least: float) -> None:
        """Let everything count less, and drop what counts less than `least`."""
        for sightings in (self.kinds, self.choices or {}):
            for key, sighting in list(sightings.items()):
                sighting.weight *= share
                if sighting.weight < least:
                    del sightings[key]


def build_schema(places: Mapping[str, Place], audience: Audience) -> dict[str, Any]:
    """A JSON Schema of what an audience may know; empty if that is nothing."""
    return _Building(places, audience).of("", 0) if "" in places else {}


def children_of(places: Mapping[str, Place]) -> dict[str, list[str]]:
    """The named fields of each object."""
    found: dict[str, list[str]] = {}
    for path in places:
        if path and not path.endswith(("[]", "{}")):
            found.setdefault(parent_of(path), []).append(path)
    return found


def is_mapping(holder: Place, fields: list[Place]) -> bool:
    """Whether keys are data although they look like names: each in few of the objects, and many of them, or alike."""
    objects = holder.weight("object")
    if len(fields) >= _VARIED and all(field.all_weight() < objects * _SELDOM for field in fields):
        return True
    kinds = {frozenset(field.kinds) for field in fields}
    return (
        len(fields) > 2
        and len(kinds) == 1
        and objects >= _CHOICE_WEIGHT
        and all(field.all_weight() < objects / 2 for field in fields)
    )


class _Building:
    def __init__(self, places: Mapping[str, Place], audience: Audience) -> None:
        self._places = places
        self._audience = audience
        self._children = children_of(places)

    def of(self, path: str, depth: int) -> dict[str, Any]:
        place = self._places[path]
        seen = {kind for kind, each in place.kinds.items() if self._audience.may_see(each.who)}
        if "token" in seen:
            seen.add("string")
        types = [kind for kind in _ORDER if kind in seen and not (kind == "integer" and "number" in seen)]
        schema: dict[str, Any] = {"type": types if len(types) > 1 else types[0]} if types else {}
        if "array" in seen and self._is_shown(f"{path}[]") and depth < _DEPTH:
            schema["items"] = self.of(f"{path}[]", depth + 1)
        if "object" in seen and depth < _DEPTH:
            schema |= self._object(path, place, depth)
        if types in (["string"], ["string", "null"]) and (choices := self._choices(place)):
            schema["enum"] = choices + [None] * ("null" in seen)
        if seen & {"integer", "number"}:
            schema |= self._bounds(place)
        return schema

    def _object(self, path: str, place: Place, depth: int) -> dict[str, Any]:
        shown = [child for child in self._children.get(path, ()) if self._is_shown(child)]
        others = f"{path}{{}}"
        if others in self._places:
            # Where some keys are data, another one is a field's name only if it is nearly always there.
            shown = [child for child in shown if self._places[child].is_always_in(place, _NEARLY_ALWAYS)]
        elif is_mapping(place, [self._places[child] for child in shown]):
            kinds = {frozenset(self._places[child].kinds) for child in shown}
            return {"additionalProperties": self.of(shown[0], depth + 1) if len(kinds) == 1 else {}}
        schema: dict[str, Any] = {}
        if shown:
            names = {child: child.rpartition(".")[2] for child in shown}
            schema["properties"] = {names[child]: self.of(child, depth + 1) for child in shown}
            always = [names[child] for child in shown if self._places[child].is_always_in(place)]
            schema |= {"required": always} if always else {}
        if self._is_shown(others):
            schema["additionalProperties"] = self.of(others, depth + 1)
        return schema

    def _is_shown(self, path: str) -> bool:
        return path in self._places and self._audience.may_see(self._places[path].seen_by())

    def _choices(self, place: Place) -> list[str]:
        """The texts of a place, sorted, if these are few, seen often, and each of them may be seen."""
        found = place.choices or {}
        total = sum(each.weight for each in found.values())
        if len(found) < 2 or total < max(_CHOICES_WEIGHT, _CHOICE_REPEATS * len(found)):
            return []
        is_told = all(self._audience.may_see(each.who) and each.weight >= _CHOICE_WEIGHT for each in found.values())
        return sorted(found) if is_told else []

    def _bounds(self, place: Place) -> dict[str, Any]:
        """Around the numbers of a place: only as exact as two principals have it, or who looks at it."""
        spans = place.spans
        if not place.is_spanned or not spans or place.weight("integer") + place.weight("number") < _NUMBERS:
            return {}
        low, high = min(each[0] for each in spans.values()), max(each[1] for each in spans.values())
        is_whole = "number" not in place.kinds
        if not is_measure(low, high, is_whole=is_whole):
            return {}
        bounds = {}
        for key, at in (("minimum", 0), ("maximum", 1)):
            for bound, each in (((low, high)[at], spans), (coarser(low, high)[at], _coarse(spans))):
                who = sum(int(bit) for bit, span in each.items() if span[at] == bound)
                if self._audience.may_see(who):
                    bounds[key] = int(bound) if is_whole else bound
                    break
        return bounds


def _coarse(spans: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    return {bit: coarser(*span) for bit, span in spans.items()}
