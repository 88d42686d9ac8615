"""JSON data as Python literals, and JSON Schemas as Python types.

The input is hostile: everything is bounded in depth, in steps and in length, and an odd schema becomes `Any`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from sealyard.versioning.compare import resolve
from sealyard.wording import plain

# All bounds keep a stub readable and the work on a hostile schema small. They were chosen, not measured.

_LITERAL_CHARACTERS = 200  # longest default value in a signature
_LITERAL_ITEMS = 20  # items of a list or object in one
_STEPS = 400  # parts of a schema that are read
_DEPTH = 5  # levels that are written
_NESTED = 24  # alternatives inside alternatives
_CHOICES = 12  # values of an enumeration that are written
_CHOICE_CHARACTERS = 40  # characters of each
_ANNOTATION_CHARACTERS = 240  # longer annotations become coarse
_SHAPE_CHARACTERS = 600  # longer shapes are cut
_SHAPE_KEYS = 40  # keys of one object
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_PLAIN |= {name: name for name in ("str", "int", "float", "bool")}  # careless servers write Python's names
_NOT_PLAIN = frozenset({"$ref", "const", "enum", "nullable"})

# Lines and literals


def wrap(text: str, *, width: int, indent: str = "", hanging: str = "") -> list[str]:
    """`text` as lines of at most `width` characters where spaces allow it; existing line breaks stay."""
    lines: list[str] = []
    for line in text.split("\n"):
        line = line.rstrip()
        lead = indent + line[: len(line) - len(line.lstrip())]
        line = line.lstrip()
        further = lead + hanging
        while len(lead) + len(line) > width:
            room = max(width - len(lead), 1)
            cut = line.rfind(" ", 0, room + 1)
            cut = cut if cut > 0 else line.find(" ", room)
            if cut < 0:
                break
            lines.append(lead + line[:cut].rstrip())
            lead, line = further, line[cut:].lstrip()
        lines.append(lead + line if line else "")
    return lines


def literal(value: object, *, depth: int = 4) -> str | None:
    """JSON data as a Python literal on one line; `None` if it is not JSON, or too long."""
    match value:
        case None | bool():
            return repr(value)
        case str():
            if len(value) > _LITERAL_CHARACTERS:
                return None
            text = repr(value)
            return text if '"' in text else f'"{text[1:-1]}"'
        case int():
            return repr(value) if value.bit_length() <= 256 else None
        case float():
            return repr(value) if value - value == 0 else None  # neither infinite nor NaN
        case list() if depth and len(value) <= _LITERAL_ITEMS:
            parts = [literal(item, depth=depth - 1) for item in value]
            return _joined("[", parts, "]")
        case dict() if depth and len(value) <= _LITERAL_ITEMS:
            keys = [literal(key) for key in value]
            parts = [literal(item, depth=depth - 1) for item in value.values()]
            pairs = zip(keys, parts, strict=True)
            return _joined("{", [f"{key}: {part}" if key and part else None for key, part in pairs], "}")
    return None


def _joined(left: str, parts: list[str | None], right: str) -> str | None:
    known = [part for part in parts if part is not None]
    text = left + ", ".join(known) + right
    return text if len(known) == len(parts) and len(text) <= _LITERAL_CHARACTERS else None


# Schemas as types


def annotation(schema: object, root: dict[str, Any]) -> str:
    """The Python type of values that fit `schema`, as an annotation; references are looked up in `root`."""
    kind = schema.get("type") if isinstance(schema, dict) and _NOT_PLAIN.isdisjoint(schema) else None
    if isinstance(kind, str) and kind in _PLAIN:  # nearly all are of this sort
        return _PLAIN[kind]
    text = _Annotations(root).of(schema)
    return text if len(text) <= _ANNOTATION_CHARACTERS else _coarse(text)


def shape(schema: object, root: dict[str, Any]) -> str:
    """The shape of values that fit `schema`: `[{"id": int, "note": str | None}]`. Long ones are cut with `…`."""
    text = _Shapes(root).of(schema)
    return text if len(text) <= _SHAPE_CHARACTERS else text[:_SHAPE_CHARACTERS] + "…"


def learned_text(schema: dict[str, Any]) -> str:
    """A learned shape: `{"id": int, "note"?: str}`, with `?` for a field that may be missing.

    Declared shapes have no `?`: fields that a declared schema does not call required are mostly present.
    """
    text = _LearnedShapes(schema).of(schema)
    return text if len(text) <= _SHAPE_CHARACTERS else text[:_SHAPE_CHARACTERS] + "…"


def is_vague(text: str) -> bool:
    """True if a shape names no field and no useful type."""
    return text in ("Any", "dict", "list", "[Any]", "[dict]", "{str: Any}", "[list]")


def optional(text: str) -> str:
    """The annotation `text`, or `None`."""
    return text if text == "Any" or text.endswith("None") else f"{text} | None"


def _coarse(text: str) -> str:
    """The kind of a long annotation."""
    for kind in ("list", "dict"):
        if text.startswith(kind + "[") and " | " not in text:
            return "list[Any]" if kind == "list" else "dict[str, Any]"
    return "Any"


class _Reading(ABC):
    """One walk through a schema, with a bound on its steps and a guard against circles."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self._steps = _STEPS
        self._nested = 0
        self._open: set[str] = set()

    def of(self, schema: object, depth: int = _DEPTH) -> str:
        """The text for `schema`."""
        return _union(self.kinds(schema, depth))

    def kinds(self, schema: object, depth: int) -> list[str]:
        """The texts of the alternatives that `schema` allows."""
        self._steps -= 1
        if not isinstance(schema, dict) or not schema or self._steps < 0 or self._nested > _NESTED:
            return ["Any"]
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            self._nested += 1
            kinds = list(self._alternatives(schema, depth))
            self._nested -= 1
            return [*kinds, "None"] if schema.get("nullable") is True else kinds
        if reference in self._open:
            return [self.again()]
        self._open.add(reference)
        kinds = self.kinds(resolve(schema, self.root), depth)
        self._open.discard(reference)
        return kinds

    def again(self) -> str:
        """The text for a place inside itself."""
        return "Any"

    @abstractmethod
    def sequence(self, schema: dict[str, Any], depth: int) -> str:
        """The text for a list."""

    @abstractmethod
    def mapping(self, schema: dict[str, Any], depth: int) -> str:
        """The text for an object."""

    @abstractmethod
    def choices(self, values: list[Any]) -> list[str]:
        """The texts for an enumeration."""

    def _alternatives(self, schema: dict[str, Any], depth: int) -> Iterator[str]:
        kinds = schema.get("type")
        if "const" in schema:
            yield from self.choices([schema["const"]])
        elif isinstance(values := schema.get("enum"), list) and values:
            yield from self.choices(values)
        elif isinstance(kinds, str | list) and kinds:
            for kind in kinds if isinstance(kinds, list) else [kinds]:
                yield self._kind(kind, schema, depth)
        elif isinstance(branches := schema.get("anyOf") or schema.get("oneOf"), list):
            for branch in branches:
                yield from self.kinds(branch, depth)
        elif isinstance(parts := schema.get("allOf"), list) and parts:
            yield self._merged(parts, depth)
        elif isinstance(schema.get("properties"), dict):
            yield self.mapping(schema, depth)
        elif "items" in schema or "prefixItems" in schema:
            yield self.sequence(schema, depth)
        else:
            yield "Any"

    def _kind(self, kind: object, schema: dict[str, Any], depth: int) -> str:
        if kind == "array":
            return self.sequence(schema, depth)
        if kind == "object":
            return self.mapping(_with_parts(schema, self.root), depth)
        return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _merged(self, parts: list[Any], depth: int) -> str:
        """The text for all `parts` together: an object with the keys of all, or the first part with content."""
        whole = _with_parts({"allOf": parts}, self.root)
        if whole.get("properties"):
            return self.mapping(whole, depth)
        texts = [self.of(part, depth) for part in parts[:_CHOICES]]
        return next((text for text in texts if text != "Any"), "Any")


class _Annotations(_Reading):
    def sequence(self, schema: dict[str, Any], depth: int) -> str:
        items = schema.get("items")
        return f"list[{self.of(items, depth - 1) if depth and isinstance(items, dict) else 'Any'}]"

    def mapping(self, schema: dict[str, Any], depth: int) -> str:
        values = schema.get("additionalProperties")
        if depth and isinstance(values, dict) and not schema.get("properties"):
            return f"dict[str, {self.of(values, depth - 1)}]"
        return "dict[str, Any]"

    def choices(self, values: list[Any]) -> list[str]:
        texts = [literal(value) if isinstance(value, str | int | None) else None for value in values[:_CHOICES]]
        if len(values) > _CHOICES or any(not text or len(text) > _CHOICE_CHARACTERS for text in texts):
            return _kinds_of(values)
        return [text if text == "None" else f"Literal[{text}]" for text in texts if text]


class _Shapes(_Reading):
    def __init__(self, root: dict[str, Any]) -> None:
        super().__init__(root)
        self._written = 0

    def again(self) -> str:
        return "…"

    def sequence(self, schema: dict[str, Any], depth: int) -> str:
        items = schema.get("items")
        if isinstance(items, dict):
            return f"[{self.of(items, depth - 1) if depth else '…'}]"
        return "list"

    def mapping(self, schema: dict[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = schema.get("additionalProperties")
            return f"{{str: {self.of(values, depth - 1) if depth else '…'}}}" if isinstance(values, dict) else "dict"
        parts: list[str] = []
        for key, value in properties.items():
            if not depth or len(parts) == _SHAPE_KEYS or self._written > _SHAPE_CHARACTERS:
                parts.append("…")
                break
            name = self.key(str(key), schema)
            self._written += len(name)
            text = self.of(value, depth - 1)
            self._written += len(text) if len(text) < 20 else 0  # longer texts were counted when they were written
            parts.append(f"{name}: {text}")
        return "{" + ", ".join(parts) + "}"

    def key(self, key: str, schema: dict[str, Any]) -> str:
        """A key in the form of the text."""
        return literal(plain(key, limit=60)) or ""

    def choices(self, values: list[Any]) -> list[str]:
        texts = [literal(value) for value in values[:7]]
        if len(values) > 6 or any(not text or len(text) > _CHOICE_CHARACTERS for text in texts):
            return _kinds_of(values)
        return [text for text in texts if text]


class _LearnedShapes(_Shapes):
    def key(self, key: str, schema: dict[str, Any]) -> str:
        return super().key(key, schema) + ("" if key in schema.get("required", ()) else "?")


def _with_parts(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """`schema` with the properties that its `allOf` adds."""
    parts = schema.get("allOf")
    if not isinstance(parts, list) or not parts:
        return schema
    properties: dict[str, Any] = {}
    for part in [*parts[:_CHOICES], schema]:
        more = resolve(part, root).get("properties")
        properties |= more if isinstance(more, dict) else {}
    return {**schema, "properties": properties}


def _kinds_of(values: list[Any]) -> list[str]:
    """The types of `values`."""
    names = {bool: "bool", int: "int", float: "float", str: "str", type(None): "None", list: "list[Any]"}
    return list(dict.fromkeys(names.get(type(value), "dict[str, Any]") for value in values[:1000]))


def _union(kinds: Iterable[str]) -> str:
    """The alternatives in one annotation: each once, literals together, `None` last."""
    flat = dict.fromkeys(kinds)
    if "Any" in flat or not flat:
        return "Any"
    literals = [part[len("Literal[") : -1] for part in flat if part.startswith("Literal[")]
    named = [part for part in flat if part != "None" and not part.startswith("Literal[")]
    if literals:
        named.insert(0, f"Literal[{', '.join(literals)}]")
    return " | ".join([*named, "None"] if "None" in flat else named)
