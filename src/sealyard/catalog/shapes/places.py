"""The shapes of tools' answers: one bounded walk over an answer, one record of its places, one schema built from that.

Two modules use it: `drift` gives a tool a new version when its answers change, and `sealyard.learning.shapes` fills the
stubs of tools that declare nothing. Answers are hostile: the walk reads a copy that is bounded in every direction. A
place is written `rows[].amount`; `{}` means the values of an object whose keys are data.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from sealyard.versioning.compare import kind_of

# Tuned values. A bound limits memory or the cost of hostile input. All were chosen, not measured, unless a source is
# named; `benchmarks learning --part shapes` measures the resulting precision and recall.

ROWS = 50  # rows of a list that are read: a bound
DEPTH = 8  # levels of an answer that are read: a bound
KEYS = 64  # keys of an object; one with more is a mapping, and its keys are data
CHARACTERS = 64  # longer keys are data, and longer texts are not copied
_GIVEN = 200  # values of a call's arguments that are compared with keys: a bound
_EVERY_ROW_UNTIL = 0.5  # share of the visits that must be left to read more than one row of a list
_ALIKE = 3  # objects with the very same keys side by side: the keys above them are data
_VARIED = 8  # number of keys from which they count as many
_SELDOM = 0.25  # share of objects below which each of many keys is data
_RECURRING = 3.0  # objects seen before keys of one kind, each in fewer than half of them, are taken for data
_ALWAYS = 1 - 1e-9  # share of objects that have a field which is never missing, but for rounding
_NEARLY_ALWAYS = 0.9  # the same beside keys that are data

_MARK = "\0"
"""Prefix of a text in place of a private key, of a key that is data, or of a part that was not read."""
_CUT = f"{_MARK}cut"
_ORDER = ("object", "array", "string", "integer", "number", "boolean", "null")
_FIELD = re.compile(r"[@$]?[^\W\d][\w$]*(?:[-.:][\w$]+)*")
# Digits in a row, what could be an id in hexadecimal or base 64, and tokens of private values.
_DATA = re.compile(
    r"\d{4}"
    r"|^(?=[a-fA-F_-]*\d)[0-9a-fA-F_-]{8,}$"
    r"|^(?=\w*\d[a-zA-Z]+\d)(?=\w*[A-Z])(?=\w*[a-z])\w{10,}$"
    r"|(?i:__PII_)"
)
_DOT = "\x1f"
"""Replaces a dot inside a key in the text of a place."""


class LearnedShape(msgspec.Struct, frozen=True, kw_only=True):
    """The learned answers of one major version of a tool, reduced to the part that its audience may see."""

    schema: dict[str, Any]
    """A JSON Schema of the value that code gets. `required` fields were always present; nothing in it is private."""
    major: int
    answers: int
    """Answers that it was learned from. Old ones count less."""
    principals: int
    """Principals that got them; at most sixteen are counted."""
    last_at: float


# The walk


Kinds = dict[str, int]
"""The number of values of each JSON type at one place; `cut` for parts that were not read."""


class Copying:
    """Makes a copy of an answer of any size, within `visits` values.

    A key that is a short text in `given`, the arguments of the call, is data, since it may be private. A blank copy
    holds no text and no number.
    """

    def __init__(self, visits: int, *, given: Any = None, is_blank: bool = False) -> None:
        values = islice(_unfolded([given]), _GIVEN)
        self._given = {value for value in values if isinstance(value, str) and len(value) <= CHARACTERS}
        self._left = visits
        self._much = visits * _EVERY_ROW_UNTIL
        self._is_blank = is_blank

    def copy(self, value: Any, depth: int = DEPTH) -> Any:
        """The copy; parts that are too deep or too many are marked as cut."""
        self._left -= 1
        if isinstance(value, list | tuple | dict):
            if value and (not depth or self._left < 0):
                return _CUT
            return dict(self._fields(value, depth)) if isinstance(value, dict) else list(self._rows(value, depth))
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return value if not self._is_blank else 0 if isinstance(value, int) else 0.5
        is_kept = isinstance(value, str) and len(value) <= CHARACTERS and not self._is_blank
        return value if is_kept else ""

    def _rows(self, rows: list[Any] | tuple[Any, ...], depth: int) -> Iterator[Any]:
        """The first rows; only one after many values, so that the budget reaches every part."""
        for row in islice(rows, ROWS):
            yield self.copy(row, depth - 1)
            if self._left < self._much:
                return

    def _fields(self, fields: dict[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
        is_mapping = len(fields) > KEYS
        for number, (key, inner) in enumerate(islice(fields.items(), KEYS)):
            is_kept = not is_mapping and isinstance(key, str) and len(key) <= CHARACTERS and key not in self._given
            yield key if is_kept else f"{_MARK}key{number}", self.copy(inner, depth - 1)


def _unfolded(waiting: list[Any]) -> Iterator[Any]:
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict | list):
            waiting += islice(value.values() if isinstance(value, dict) else value, _GIVEN)


Conceal = Callable[[Any, Callable[[str, object], str]], Any]
"""Returns data with every private part replaced by what the function makes of its kind and value."""


class Reading:
    """One walk through copies of answers: types and names, never a value. A subclass judges the keys."""

    most_places = 200  # kept of a tool's answers: a bound

    def __init__(self) -> None:
        self.places: dict[str, Kinds] = {}

    def read_concealed(self, copies: list[Any], conceal: Conceal) -> None:
        """Add copies, with the keys that `conceal` replaces marked as private."""
        marks = itertools.count(1)  # a different replacement for each: of two equal keys, one would be lost
        judged = conceal(copies, lambda kind, value: f"{_MARK}{next(marks)}")
        for value, verdict in zip(copies, judged, strict=True):
            self.read(value, verdict)

    def read(self, value: Any, verdict: Any, path: str = "") -> None:
        """Add a copy; `verdict` is the same with private keys marked."""
        kinds = self.places.get(path)
        if kinds is None:
            if len(self.places) >= self.most_places:
                return
            kinds = self.places[path] = {}
        kind = _kind_of(value)
        kinds[kind] = kinds.get(kind, 0) + 1
        if isinstance(value, dict):
            is_mapping = _is_alike(value.values())
            for (key, inner), (judged, inner_verdict) in zip(value.items(), verdict.items(), strict=True):
                is_data = is_mapping or _MARK in judged or self.is_data(key)
                if is_data or self.is_field(key):
                    self.read(inner, inner_verdict, f"{path}{{}}" if is_data else joined(path, key))
        elif isinstance(value, list):
            for inner, inner_verdict in zip(value, verdict, strict=True):
                self.read(inner, inner_verdict, f"{path}[]")

    def is_data(self, key: str) -> bool:
        """True if a key is data: all such keys share one place."""
        return not is_named(key)

    def is_field(self, key: str) -> bool:
        """True if a key that is not data is read at all."""
        return True


def _kind_of(value: Any) -> str:
    """The JSON type of a value in a copy."""
    if isinstance(value, float):
        return "number"
    return "cut" if value == _CUT else kind_of(value)


def is_named(key: object) -> bool:
    """True if a key looks like the name of a field and not like data."""
    return (
        isinstance(key, str)
        and len(key) <= CHARACTERS
        and _FIELD.fullmatch(key) is not None
        and _DATA.search(key) is None
    )


def _is_alike(values: Iterable[Any]) -> bool:
    """True if several objects with the very same keys stand side by side: then the keys above them are data."""
    found = list(values)
    if len(found) < _ALIKE or not all(isinstance(each, dict) and len(each) > 1 for each in found):
        return False
    return all(each.keys() == found[0].keys() for each in found)


# Places


def joined(path: str, key: str) -> str:
    """The place of a field of the object at `path`."""
    name = key.replace(".", _DOT)
    return f"{path}.{name}" if path else name


def parent_of(place: str) -> str:
    """The object or list that a place is in."""
    return place[:-2] if place.endswith(("[]", "{}")) else place.rpartition(".")[0]


def key_of(place: str) -> str:
    """The key of a named place."""
    return place.rpartition(".")[2].replace(_DOT, ".")


def children_of(places: Iterable[str]) -> dict[str, list[str]]:
    """The named fields of each object."""
    found: dict[str, list[str]] = {}
    for path in places:
        if path and not path.endswith(("[]", "{}")):
            found.setdefault(parent_of(path), []).append(path)
    return found


def fits(places: "Mapping[str, Place]", seen: Mapping[str, Kinds]) -> bool:
    """True if answers have no new field or type, and lack no field that was always present."""
    children = children_of(places)
    for path, kinds in seen.items():
        place = places.get(path)
        if place is None:
            if not path.endswith(("[]", "{}")) and parent_of(path) in children:
                return False
        elif not kinds.keys() <= place.kinds.keys() | {"cut", "null"}:
            return False
    for above, fields in children.items():
        objects = seen.get(above, {}).get("object", 0)
        for path in fields if objects else ():
            if sum(seen.get(path, {}).values()) < objects and places[path].is_always_in(places[above]):
                return False
    return True


# The record


class Sighting(msgspec.Struct, array_like=True, gc=False):
    """The weight of something seen, and the principals that saw it."""

    weight: float = 0.0
    who: int = 0
    """A bit for each principal."""

    def note(self, weight: float, bit: int) -> None:
        """Count it again."""
        self.weight += weight
        self.who |= bit


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """The audience of a shape: it may see its own answers, and those that two principals have seen."""

    own: int = 0
    """Its bit; 0 if it has seen nothing, or if the audience is everybody."""
    sees_all: bool = False

    def may_see(self, who: int) -> bool:
        """True if it may see sightings of these principals."""
        return who.bit_count() > 1 or bool(who & self.own) or (self.sees_all and who > 0)


class Place(msgspec.Struct, array_like=True, gc=False):
    """One place of a tool's answers."""

    kinds: dict[str, Sighting] = {}

    def count(self, kinds: Mapping[str, int], weight: float, bit: int) -> None:
        """Add values of these kinds."""
        for kind, count in kinds.items():
            self.kinds.setdefault(kind, Sighting()).note(count * weight, bit)

    def weight(self, kind: str) -> float:
        """The weight of one kind."""
        return self.kinds[kind].weight if kind in self.kinds else 0.0

    def all_weight(self) -> float:
        """The weight of all kinds."""
        return sum(each.weight for each in self.kinds.values())

    def seen_by(self) -> int:
        """The principals that have seen anything here."""
        who = 0
        for each in self.kinds.values():
            who |= each.who
        return who

    def is_always_in(self, holder: "Place", share: float = _ALWAYS) -> bool:
        """True if it was in every object that could have had it, or in this share of them."""
        return self.all_weight() >= holder.weight("object") * share

    def forget(self, slot: int) -> None:
        """Remove the principal of this slot."""
        for sighting in self.kinds.values():
            sighting.who &= ~(1 << slot)

    def fade(self, share: float, least: float) -> None:
        """Reduce all weights, and drop entries below `least`."""
        for kind, sighting in list(self.kinds.items()):
            sighting.weight *= share
            if sighting.weight < least:
                del self.kinds[kind]


# The schema


def build_schema(places: Mapping[str, Place], audience: Audience, *, is_exact: bool = False) -> dict[str, Any]:
    """A JSON Schema of the part that an audience may see; empty if there is none.

    An exact schema fits every answer seen. Otherwise a rare field beside keys that are data counts as such a key.
    """
    return _Building(places, audience, is_exact=is_exact).of("", 0) if "" in places else {}


def _is_mapping(holder: Place, fields: list[Place], *, is_exact: bool = False) -> bool:
    """True if keys are data although they look like names: each in few of the objects, and many of them, or alike."""
    objects = holder.weight("object")
    is_varied = len(fields) >= _VARIED and all(field.all_weight() < objects * _SELDOM for field in fields)
    if is_varied or is_exact:
        return is_varied
    kinds = {frozenset(field.kinds) for field in fields}
    return (
        len(fields) > 2
        and len(kinds) == 1
        and objects >= _RECURRING
        and all(field.all_weight() < objects / 2 for field in fields)
    )


class _Building:
    def __init__(self, places: Mapping[str, Place], audience: Audience, *, is_exact: bool) -> None:
        self._places = places
        self._audience = audience
        self._is_exact = is_exact
        self._children = children_of(places)

    def of(self, path: str, depth: int) -> dict[str, Any]:
        place = self._places[path]
        seen = {kind for kind, each in place.kinds.items() if self._audience.may_see(each.who)}
        if self._is_exact and "cut" in seen:
            return {}
        types = [kind for kind in _ORDER if kind in seen and not (kind == "integer" and "number" in seen)]
        schema: dict[str, Any] = {"type": types if len(types) > 1 else types[0]} if types else {}
        if "array" in seen and self._is_shown(f"{path}[]") and depth <= DEPTH:
            schema["items"] = self.of(f"{path}[]", depth + 1)
        if "object" in seen and depth <= DEPTH:
            schema |= self._object(path, place, depth)
        return schema

    def _object(self, path: str, place: Place, depth: int) -> dict[str, Any]:
        named = [child for child in self._children.get(path, ()) if self._is_shown(child)]
        shown, others = named, f"{path}{{}}"
        if others in self._places:
            # Where some keys are data, another one is a field's name only if it is nearly always there.
            share = _ALWAYS if self._is_exact else _NEARLY_ALWAYS
            shown = [child for child in named if self._places[child].is_always_in(place, share)]
        elif _is_mapping(place, [self._places[child] for child in named], is_exact=self._is_exact):
            return {"additionalProperties": self._common(named, depth)}
        schema: dict[str, Any] = {}
        if shown:
            names = {child: key_of(child) for child in shown}
            schema["properties"] = {names[child]: self.of(child, depth + 1) for child in shown}
            always = [names[child] for child in shown if self._places[child].is_always_in(place)]
            schema |= {"required": always} if always else {}
        if self._is_shown(others):
            is_open = not self._is_exact or shown == named
            schema["additionalProperties"] = self.of(others, depth + 1) if is_open else {}
        return schema

    def _common(self, fields: list[str], depth: int) -> dict[str, Any]:
        """The schema of all fields of a mapping; empty if they differ."""
        kinds = {frozenset(self._places[each].kinds) for each in fields}
        is_deep = self._is_exact and any({"object", "array"} & each for each in kinds)
        return self.of(fields[0], depth + 1) if len(kinds) == 1 and not is_deep else {}

    def _is_shown(self, path: str) -> bool:
        return path in self._places and self._audience.may_see(self._places[path].seen_by())
