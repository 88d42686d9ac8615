"""Shapes of answers: which types were seen where, and how often.

A shape holds no value of any answer. Of the keys it holds those that look like names of fields; keys that look like
data (ids, dates, addresses, tokens of private values), and all keys of an object that has very many, are counted
together. It stays small whatever was answered, and shapes made by several processes can be merged.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_DEPTH = 8
_KEYS = 64
_ITEMS = 50
_VISITS = 5_000
_NODES = 1_000
_KEY_CHARACTERS = 64
_SELDOM = 0.25
_VARIED = 8
_ORDER = ("object", "array", "string", "integer", "number", "boolean", "null")
_FIELD = re.compile(r"[@$]?[^\W\d][\w$]*(?:[-.:][\w$]+)*")
# Digits in a row, what could be an id in hexadecimal or base 64, and tokens of private values.
_DATA = re.compile(
    r"\d{4}"
    r"|^(?=[a-fA-F_-]*\d)[0-9a-fA-F_-]{8,}$"
    r"|^(?=\w*\d[a-zA-Z]+\d)(?=\w*[A-Z])(?=\w*[a-z])\w{10,}$"
    r"|(?i:__PII_)"
)


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was seen at one place of the answers."""

    count: int = 0
    """How many values."""
    kinds: dict[str, int] = {}
    """How many of each JSON type; a fraction is a `number`."""
    fields: dict[str, "Shape"] = {}
    """By key, of the objects: the key was in `count` of them."""
    items: "Shape | None" = None
    """Of the arrays; only the first items of long ones are read."""
    others: "Shape | None" = None
    """Of the objects' values under keys that look like data."""
    mapped: bool = False
    """Whether the objects had so many keys that all are among the `others`."""
    cut: bool = False
    """Whether more was there than is kept: nothing is said of what is inside."""

    def to_schema(self) -> dict[str, Any]:
        """A JSON Schema that fits all values seen; `required` are the keys that were always there."""
        types = [kind for kind in _ORDER if kind in self.kinds]
        if "number" in types and "integer" in types:
            types.remove("integer")
        schema: dict[str, Any] = {"type": types if len(types) > 1 else types[0]} if types else {}
        if self.items is not None and not self.cut:
            schema["items"] = self.items.to_schema()
        if "object" not in self.kinds or self.cut:
            return schema
        fields, others = self.fields, self.others
        if self._is_mapping():
            fields, others = {}, _all([*fields.values(), *([others] if others else [])])
        if fields:
            schema["properties"] = {key: field.to_schema() for key, field in fields.items()}
            always = [key for key, field in fields.items() if field.count == self.kinds["object"]]
            schema |= {"required": always} if always else {}
        if others is not None:
            schema["additionalProperties"] = others.to_schema()
        return schema

    def _is_mapping(self) -> bool:
        """Whether the keys are data although they look like names: many, and each in few of the objects."""
        often = self.kinds["object"] * _SELDOM
        return len(self.fields) >= _VARIED and all(field.count < often for field in self.fields.values())


def add(shape: Shape, value: object) -> Shape:
    """`shape` with one more answer."""
    return merge(shape, _Reading().read(value, 0))


def merge(one: Shape, other: Shape) -> Shape:
    """What was seen by either. Cut down where it would get too large: the deepest parts go first."""
    whole = _merge(one, other)
    depth = _DEPTH
    while _nodes(whole) > _NODES and depth:
        depth -= 1
        whole = _cut(whole, depth)
    return whole


class _Reading:
    """One walk through an answer, with a bound on how much of it is looked at."""

    def __init__(self) -> None:
        self._visits = _VISITS

    def read(self, value: object, depth: int) -> Shape:
        self._visits -= 1
        kinds = {_kind(value): 1}
        if not isinstance(value, dict | list) or not value:
            return Shape(count=1, kinds=kinds)
        if depth >= _DEPTH or self._visits < 0:
            return Shape(count=1, kinds=kinds, cut=True)
        if isinstance(value, list):
            return Shape(count=1, kinds=kinds, items=_all(list(self._items(value, depth))))
        if len(value) > _KEYS:
            read = [self.read(inner, depth + 1) for _, inner in zip(range(_ITEMS), value.values(), strict=False)]
            return Shape(count=1, kinds=kinds, others=_all(read), mapped=True)
        named = {key: is_named(key) for key in value}
        fields = {key: self.read(inner, depth + 1) for key, inner in value.items() if named[key]}
        others = [self.read(inner, depth + 1) for key, inner in value.items() if not named[key]]
        return Shape(count=1, kinds=kinds, fields=fields, others=_all(others) if others else None)

    def _items(self, items: list[Any], depth: int) -> Iterator[Shape]:
        """The shapes of the first items; of one only when much has been read, so that every kind of part is seen."""
        for item in items[:_ITEMS]:
            yield self.read(item, depth + 1)
            if self._visits < _VISITS // 2:
                break


def is_named(key: object) -> bool:
    """Whether a key looks like the name of a field and not like data."""
    return (
        isinstance(key, str)
        and len(key) <= _KEY_CHARACTERS
        and _FIELD.fullmatch(key) is not None
        and _DATA.search(key) is None
    )


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"


def _all(shapes: list[Shape]) -> Shape:
    """All of them merged."""
    whole = Shape()
    for shape in shapes:
        whole = _merge(whole, shape)
    return whole


def _merge(one: Shape, other: Shape) -> Shape:
    if not one.count or not other.count:
        return one if one.count else other
    kinds = {kind: one.kinds.get(kind, 0) + other.kinds.get(kind, 0) for kind in {**one.kinds, **other.kinds}}
    count = one.count + other.count
    if one.cut or other.cut:
        return Shape(count=count, kinds=kinds, cut=True)
    items, others = _either(one.items, other.items), _either(one.others, other.others)
    keys = list({**one.fields, **other.fields})
    if one.mapped or other.mapped or len(keys) > _KEYS:
        inside = [*one.fields.values(), *other.fields.values()]
        others = _either(others, _all(inside) if inside else None)
        return Shape(count=count, kinds=kinds, items=items, others=others, mapped=True)
    fields = {key: _merge(one.fields.get(key, _NOTHING), other.fields.get(key, _NOTHING)) for key in keys}
    return Shape(count=count, kinds=kinds, fields=fields, items=items, others=others)


_NOTHING = Shape()


def _either(one: Shape | None, other: Shape | None) -> Shape | None:
    return _merge(one, other) if one is not None and other is not None else one or other


def _inside(shape: Shape) -> Iterator[Shape]:
    yield from shape.fields.values()
    yield from (inner for inner in (shape.items, shape.others) if inner is not None)


def _nodes(shape: Shape) -> int:
    return 1 + sum(map(_nodes, _inside(shape)))


def _cut(shape: Shape, depth: int) -> Shape:
    """`shape` without what lies deeper than `depth`."""
    if not any(True for _ in _inside(shape)):
        return shape
    if not depth:
        return Shape(count=shape.count, kinds=shape.kinds, cut=True)
    return msgspec.structs.replace(
        shape,
        fields={key: _cut(field, depth - 1) for key, field in shape.fields.items()},
        items=None if shape.items is None else _cut(shape.items, depth - 1),
        others=None if shape.others is None else _cut(shape.others, depth - 1),
    )
