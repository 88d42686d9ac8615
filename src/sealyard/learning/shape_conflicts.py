"""Where the answers of a tool are not what it declares. The declared schema is as hostile as the answers are."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sealyard.catalog.shapes import resolve, unwrapped
from sealyard.learning.shape_schema import Audience, Place, children_of, is_mapping
from sealyard.learning.telling import is_field
from sealyard.values import ToolSpec

__all__ = ("find_conflicts",)

_MOST = 5
_BRANCHES = 8
_DEPTH = 8
_FIELDS = 64
_STEPS = 400
_NEVER = 10.0
"""So many objects without a field make it one that is never there."""
_NEVER_OPTIONAL = 30.0
_OFTEN = 3.0
_PATH_CHARACTERS = 60
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


def find_conflicts(
    spec: ToolSpec, places: Mapping[str, Place], audience: Audience, *, is_sampled: bool = False
) -> list[str]:
    """A sentence for each, at most five: declared and never there, there and not declared, of another type.

    Where rows were left out, `is_sampled`, nothing that rows may have is said to be never there.
    """
    if spec.output_schema is None:
        return []
    reading = _Reading(spec.output_schema, places, audience, is_sampled=is_sampled)
    found = []
    for sentence in reading.read("", unwrapped(spec.output_schema), _DEPTH):
        found.append(sentence)
        if len(found) == _MOST:
            break
    return found


class _Reading:
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
        branches = list(_branches(schema, self._root, _DEPTH))
        if not branches or any(not branch for branch in branches):
            return  # one that says nothing allows everything
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
                yield f"{_named(_join(path, name))} is declared and was in none of the answers."
        others = [child for name, child in known.items() if name not in declared and self._is_shown(child)]
        if not self._is_open(path, place, objects, others):
            for child in others:
                if self._places[child].all_weight() >= _OFTEN:
                    yield f"{_named(child)} is not declared and was in {_share(self._places[child], place)} answers."

    def _is_never(self, path: str, place: Place, *, is_required: bool) -> bool:
        """Whether so many objects had it not that no others will."""
        is_row = "[]" in path or "{}" in path
        least = _NEVER if is_required else _NEVER_OPTIONAL
        return place.weight("object") >= least and not (self._is_sampled and is_row)

    def _is_open(self, path: str, place: Place, objects: list[_Schema], others: list[str]) -> bool:
        """Whether the keys of an object are data, by what is declared or by what was seen."""
        if any(isinstance(each.get("additionalProperties"), dict) for each in objects):
            return True
        return f"{path}{{}}" in self._places or is_mapping(place, [self._places[child] for child in others])

    def _sees(self, place: Place, kind: str) -> bool:
        return kind in place.kinds and self._audience.may_see(place.kinds[kind].who)

    def _is_shown(self, path: str) -> bool:
        return self._audience.may_see(self._places[path].seen_by())


def _branches(schema: object, root: _Schema, depth: int) -> Iterator[_Schema]:
    """The alternatives that a schema allows; an empty one for what says nothing, or what is not understood here."""
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
    # One word a level can make a sentence.
    is_short = len(path) <= _PATH_CHARACTERS and is_field(re.sub(r"\W+", "_", path).strip("_"))
    return f"`{path if is_short else path.rpartition('.')[2]}`"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
