"""JSON Schemas as documents: what a `$ref` leads to, and which parts of two documents mean the same.

Every part of a schema gets a number, and parts with the same number are equal whatever their texts, the order of their
keys, or the order of a `required` list or an `enum`. So equality costs nothing, however deep the schemas are.
"""

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

ANNOTATIONS = frozenset(
    "title description $comment examples example default deprecated readOnly writeOnly $schema $defs definitions "
    "contentEncoding contentMediaType contentSchema".split()
)
"""Keywords that say nothing about which values fit. Definitions count where something refers to them."""

_DEFINITIONS = ("$defs", "definitions")
_PARTS = 30_000
_REFERENCES = 256

Place = Literal["schema", "named", "listed", "choice", "value", "set"]
"""What a part is: a schema, a mapping from names to schemas, a list of schemas, one whose order does not matter, a
value, or a list of values whose order does not matter."""

_PLACES: dict[str, Place] = {
    "properties": "named",
    "patternProperties": "named",
    "$defs": "named",
    "definitions": "named",
    "dependentSchemas": "named",
    "dependencies": "named",
    "allOf": "listed",
    "oneOf": "listed",  # twice the same is not the same as once
    "prefixItems": "listed",
    "anyOf": "choice",
    "required": "set",
    "type": "set",
    "enum": "set",
    "const": "value",
    "default": "value",
    "examples": "value",
    "example": "value",
    "dependentRequired": "value",
}
# What other drafts of JSON Schema read in another way, or not at all.
_DISPUTED = frozenset(
    "prefixItems additionalItems contains minContains maxContains dependencies dependentRequired dependentSchemas "
    "unevaluatedItems unevaluatedProperties if then else propertyNames $dynamicRef $recursiveRef".split()
)


Dialect = Literal["draft-03", "draft-04", "draft-0", "2019", "2020"]
"""`draft-0`: what stands beside a `$ref` does not count. Up to `2019`, lists of `items` are positions."""

_DIALECTS: tuple[Dialect, ...] = ("draft-03", "draft-04", "draft-0", "2019")


_Inside = list[tuple[object, object, Place]]


class TooLarge(Exception):
    """A schema has more parts than are worth comparing, or contains itself."""


class Document:
    """A whole schema: what its references are looked up in."""

    def __init__(self, root: object) -> None:
        self.root = root
        said = root.get("$schema") if isinstance(root, dict) else None
        said = said if isinstance(said, str) else ""
        self.dialect: Dialect = next((name for name in _DIALECTS if name in said), "2020")
        self.rebased = False
        """Whether a part has an address of its own, so that references in it lead elsewhere."""
        self._targets: dict[str, object] = {}

    def target(self, reference: object) -> object:
        """What a `$ref` leads to; `None` if that is not in this document."""
        if not isinstance(reference, str) or self.rebased:
            return None
        if reference not in self._targets:
            self._targets[reference] = lookup(reference, self.root)
        return self._targets[reference]


def lookup(reference: str, root: object) -> object:
    """What a pointer such as `#/$defs/Row` leads to; `None` if nowhere. Nothing is ever fetched."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    place = root
    for step in unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(step)
        elif isinstance(place, list) and step.isdecimal() and len(step) < 6 and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place


def scalar(value: object) -> tuple[str, object]:
    """A key that is equal for equal JSON scalars only: `1` is `1.0` and not `true`."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        return "number", value
    return type(value).__name__, value if value is None or isinstance(value, str) else id(value)


class _Traits(msgspec.Struct, frozen=True):
    """What matters about a part beside what it is."""

    references: frozenset[str] | None = frozenset()
    """All that it refers to; `None`: too much."""
    disputed: bool = False


class Numbers:
    """Numbers of the parts of several documents. They must stay alive and unchanged as long as it is used."""

    def __init__(self, *, texts: bool = False) -> None:
        self._texts = texts
        self._by_place: dict[tuple[int, Place], int] = {}
        self._by_content: dict[object, int] = {}
        self._traits: list[_Traits] = []
        self._budget = _PARTS

    def add(self, document: Document) -> None:
        """Number all parts of a document.

        Raises:
            TooLarge: It has too many.
        """
        stack: list[tuple[Any, Place, _Inside | None]] = []
        if _is_part(document.root):
            stack.append((document.root, "schema", None))
        while stack:
            node, place, inside = stack.pop()
            if (id(node), place) in self._by_place:
                continue
            if inside is not None:  # all that is in it has a number
                self._by_place[id(node), place] = self._number(node, place, inside)
                continue
            self._budget -= 1 + len(node)
            if self._budget < 0:
                raise TooLarge
            inside = list(self._inside(node, place))
            stack.append((node, place, inside))
            stack += [(part, where, None) for _, part, where in inside if isinstance(part, dict | list)]
            if place == "schema" and isinstance(node, dict) and node is not document.root and "$id" in node:
                document.rebased = True

    def same(self, one: object, other: object, place: Place = "schema") -> bool:
        """Whether two parts are equal as they stand; what they refer to may differ."""
        if not _is_part(one) or not _is_part(other):
            return not _is_part(one) and not _is_part(other) and scalar(one) == scalar(other)
        number = self._by_place.get((id(one), place))
        return number is not None and number == self._by_place.get((id(other), place))

    def references(self, part: object, place: Place) -> frozenset[str] | None:
        """All that a part refers to; `None` if that is too much."""
        number = self._by_place.get((id(part), place))
        return frozenset() if number is None else self._traits[number].references

    def is_disputed(self, part: object, place: Place) -> bool:
        """Whether drafts of JSON Schema disagree about something in it."""
        number = self._by_place.get((id(part), place))
        return number is not None and self._traits[number].disputed

    def _inside(self, node: Any, place: Place) -> Iterator[tuple[object, object, Place]]:
        """The key of each part in `node`, the part, and what it is."""
        if isinstance(node, list):
            within: Place = "value" if place in ("value", "set") else "schema"
            yield from ((None, part, within) for part in node)
        elif place == "schema":
            for key, part in node.items():
                if key not in ANNOTATIONS or key in _DEFINITIONS or self._texts:
                    yield key, part, place_of(key, part)
        else:
            yield from ((key, part, "schema" if place == "named" else "value") for key, part in node.items())

    def _number(self, node: Any, place: Place, inside: _Inside) -> int:
        if place == "schema" and not self._texts:
            inside = [part for part in inside if part[0] not in _DEFINITIONS]
        names = [
            (key, self._by_place[id(part), where] if _is_part(part) else scalar(part)) for key, part, where in inside
        ]
        content: object
        if place in ("choice", "set") and isinstance(node, list):
            content = (place, frozenset(names))
        elif isinstance(node, list):
            content = (place, tuple(names))
        else:
            content = (place, frozenset(names))
        number = self._by_content.setdefault(content, len(self._by_content))
        if number == len(self._traits):
            self._traits.append(self._traits_of(node, place, inside))
        return number

    def _traits_of(self, node: Any, place: Place, inside: _Inside) -> _Traits:
        below = [self._traits[self._by_place[id(part), where]] for _, part, where in inside if _is_part(part)]
        references: frozenset[str] | None = frozenset()
        for traits in below:
            if references is not None:
                references = None if traits.references is None else references | traits.references
            if references is not None and len(references) > _REFERENCES:
                references = None
        disputed = any(traits.disputed for traits in below)
        if place == "schema" and isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and references is not None:
                references |= {reference}
            beside = reference is not None and len(node.keys() - ANNOTATIONS) > 1
            disputed = disputed or beside or not _DISPUTED.isdisjoint(node) or isinstance(node.get("items"), list)
        return _Traits(references, disputed)


def _is_part(value: object) -> bool:
    return isinstance(value, dict | list)


def place_of(keyword: object, part: object) -> Place:
    """What stands under a keyword of a schema."""
    place = _PLACES.get(keyword, "schema") if isinstance(keyword, str) else "value"
    expected = dict if place == "named" else list
    return place if place in ("schema", "value") or isinstance(part, expected) else "value"
