"""What the tests of schema comparison draw from: random schemas, changes and values, and schemas made to do harm."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NAMES = ("a", "b", "c", "kind")
_FORMATS = ("date", "email")
_PATTERNS = ("^a", "b$")
_TEXTS = ("", "a", "ab", "b", "abb", "2024-01-01", "x@y.io", "aaaaaa")
_NUMBERS = (0, 1, 2, 3, 5, 6, 10, -1, 0.5, 2.5, 1.0)


class Drawn:
    """A random schema: `make` one, `change` it, and find a `value` for it."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def make(self) -> dict[str, Any]:
        """A schema of an object with definitions, some of them recursive."""
        definitions = {name: self._schema(2) for name in ("X", "Y")}
        return {**self._object(3), "$defs": definitions}

    def change(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The same schema with one to three changes somewhere in it."""
        whole = copy.deepcopy(schema)
        for _ in range(self.random.randint(1, 3)):
            places = list(_places(whole))
            self.random.choice(_CHANGES)(self, self.random.choice(places))
        return whole

    def value(self, schema: Any, root: dict[str, Any], depth: int = 5) -> Any:
        """A value that probably fits, with no keys that are undeclared beside declared ones."""
        if not isinstance(schema, dict) or depth < 0:
            return self.random.choice((None, True, *_NUMBERS, *_TEXTS, [], {}))
        if "$ref" in schema:
            return self.value(root["$defs"].get(schema["$ref"].removeprefix("#/$defs/")), root, depth - 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                branch = self.value(self.random.choice(schema[keyword]), root, depth - 1)
                own = self._own(schema, root, depth) if "properties" in schema else {}
                return {**own, **branch} if isinstance(branch, dict) and isinstance(own, dict) else branch
        if "allOf" in schema:
            values = [self.value(part, root, depth - 1) for part in schema["allOf"]]
            if all(isinstance(value, dict) for value in values):
                return {key: value for part in values for key, value in part.items()}
            return values[0]
        return self._own(schema, root, depth)

    def _own(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        kinds = schema.get("type", ["string", "integer", "null", "object", "array"])
        kind = self.random.choice(kinds) if isinstance(kinds, list) else kinds
        match kind:
            case "object":
                return self._fields(schema, root, depth)
            case "array":
                first = [self.value(part, root, depth - 1) for part in schema.get("prefixItems", ())]
                rest = [self.value(schema.get("items"), root, depth - 1) for _ in range(self.random.randint(0, 2))]
                return (first + rest)[: self.random.choice((1, 2, 9))]
            case "string":
                return self.random.choice(_TEXTS)
            case "integer":
                return self.random.choice([number for number in _NUMBERS if number == int(number)])
            case "number":
                return self.random.choice(_NUMBERS)
            case "boolean":
                return self.random.choice((True, False))
        return None

    def _fields(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> dict[str, Any]:
        declared, required = schema.get("properties", {}), schema.get("required", ())
        found = {
            key: self.value(part, root, depth - 1)
            for key, part in declared.items()
            if key in required or (depth > 0 and self.random.random() < 0.6)
        }
        found |= {key: self.value(None, root, depth) for key in required if key not in declared}
        others = schema.get("additionalProperties")
        if isinstance(others, dict) or (not declared and others is not False):
            keys = [key for key in (*NAMES, "other") if key not in found and key not in declared]
            found |= {key: self.value(others, root, depth - 1) for key in keys if self.random.random() < 0.4}
        elif others is True and self.random.random() < 0.5:
            found["undeclared"] = self.value(None, root, depth)
        return found

    def _schema(self, depth: int) -> Any:
        kind = self.random.randrange(14 if depth else 8)
        if kind < 3:
            return self._text()
        if kind < 5:
            return self._number()
        if kind == 5:
            return {"enum": self.random.sample(["a", "b", "ab", 1, 2, None, True], self.random.randint(1, 4))}
        if kind == 6:
            return self.random.choice(
                ({"type": "boolean"}, {"type": "null"}, {"const": "a"}, {}, True, {"type": "object"})
            )
        if kind == 7:
            return {"$ref": self.random.choice(("#/$defs/X", "#/$defs/Y"))}
        if kind < 10:
            return self._object(depth - 1)
        if kind < 12:
            return self._array(depth - 1)
        keyword = self.random.choice(("anyOf", "oneOf", "anyOf", "allOf"))
        return {keyword: [self._schema(depth - 1) for _ in range(self.random.randint(1, 3))]}

    def _text(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": self.random.choice(("string", "string", ["string", "null"], ["integer", "string"]))
        }
        for keyword, values in (
            ("minLength", (0, 1, 2)),
            ("maxLength", (1, 3, 10)),
            ("pattern", _PATTERNS),
            ("format", _FORMATS),
        ):
            if self.random.random() < 0.2:
                schema[keyword] = self.random.choice(values)
        return schema

    def _number(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": self.random.choice(("integer", "number", ["number", "null"]))}
        for keyword, values in (
            ("minimum", (-1, 0, 1)),
            ("exclusiveMinimum", (-1, 0, 0.5)),
            ("maximum", (2, 5, 10)),
            ("exclusiveMaximum", (3, 6, 2.5)),
            ("multipleOf", (1, 2, 4)),
        ):
            if self.random.random() < 0.2:
                schema[keyword] = self.random.choice(values)
        return schema

    def _object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(NAMES, self.random.randint(0, 3))
        schema: dict[str, Any] = {"type": "object"}
        if names:
            schema["properties"] = {name: self._schema(max(depth, 0)) for name in names}
            schema["required"] = [name for name in names if self.random.random() < 0.4]
        others = self.random.randrange(6)
        if others < 3:
            schema["additionalProperties"] = (False, True, self._schema(0))[others]
        if self.random.random() < 0.1:
            schema[self.random.choice(("minProperties", "maxProperties"))] = self.random.choice((1, 2))
        if self.random.random() < 0.1:
            schema["propertyNames"] = self._text()
        return schema

    def _array(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        if self.random.random() < 0.7:
            schema["items"] = self._schema(max(depth, 0))
        if self.random.random() < 0.2:
            schema["prefixItems"] = [self._schema(0) for _ in range(self.random.randint(1, 2))]
        for keyword, values in (("minItems", (0, 1)), ("maxItems", (1, 2, 4)), ("uniqueItems", (True, False))):
            if self.random.random() < 0.2:
                schema[keyword] = self.random.choice(values)
        return schema


def _places(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword in ("properties", "$defs"):
        for part in schema.get(keyword, {}).values():
            yield from _places(part)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for part in schema.get(keyword, ()):
            yield from _places(part)
    for keyword in ("items", "additionalProperties", "not", "propertyNames"):
        yield from _places(schema.get(keyword))


def _retype(drawn: Drawn, schema: dict[str, Any]) -> None:
    if "type" in schema:
        schema["type"] = drawn.random.choice(("string", "integer", "number", "object", ["integer", "null"]))


def _widen_type(drawn: Drawn, schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if kind == "integer":
        schema["type"] = "number"
    elif isinstance(kind, str):
        schema["type"] = [kind, drawn.random.choice([other for other in ("null", "boolean") if other != kind])]
    elif isinstance(kind, list) and drawn.random.random() < 0.5:
        schema["type"] = kind[0]


def _drop(drawn: Drawn, schema: dict[str, Any]) -> None:
    keys = [key for key in schema if key not in ("$defs", "$ref")]
    if keys:
        del schema[drawn.random.choice(keys)]


def _limit(drawn: Drawn, schema: dict[str, Any]) -> None:
    keyword, value = drawn.random.choice(
        [
            *(("minimum", value) for value in (-2, 0, 2)),
            *(("maximum", value) for value in (1, 6, 20)),
            *(("exclusiveMinimum", value) for value in (-1, 1)),
            *(("maxLength", value) for value in (1, 3, 20)),
            *(("minLength", value) for value in (0, 1)),
            *(("maxItems", value) for value in (0, 1, 5)),
            ("minItems", 1),
            ("uniqueItems", True),
            ("multipleOf", 2),
            ("pattern", "^a"),
            ("format", "date"),
            ("enum", ["a", "b", 1, None, {}]),
            ("minProperties", 1),
            ("not", {"type": "string"}),
            ("not", {"const": "a"}),
            ("items", {"type": "string"}),
            ("propertyNames", {"type": "string"}),
        ]
    )
    schema[keyword] = value


def _enum(drawn: Drawn, schema: dict[str, Any]) -> None:
    if "enum" in schema:
        if drawn.random.random() < 0.6:
            schema["enum"] = [*schema["enum"], drawn.random.choice(["new", 7, None])]
        elif len(schema["enum"]) > 1:
            schema["enum"] = schema["enum"][1:]
    elif "const" in schema:
        schema["enum"] = [schema.pop("const"), "new"]


def _property(drawn: Drawn, schema: dict[str, Any]) -> None:
    if isinstance(schema.get("properties"), dict):
        schema["properties"].setdefault(drawn.random.choice((*NAMES, "d")), drawn._schema(1))


def _require(drawn: Drawn, schema: dict[str, Any]) -> None:
    if "required" in schema:
        name = drawn.random.choice(NAMES)
        present = name in schema["required"]
        schema["required"] = (
            [each for each in schema["required"] if each != name] if present else [*schema["required"], name]
        )


def _others(drawn: Drawn, schema: dict[str, Any]) -> None:
    if schema.get("type") == "object":
        schema["additionalProperties"] = drawn.random.choice((True, False, {"type": "string"}, {}))


def _wrap(drawn: Drawn, schema: dict[str, Any]) -> None:
    whole = {key: schema.pop(key) for key in list(schema) if key != "$defs"}
    keyword = drawn.random.choice(("anyOf", "anyOf", "oneOf", "allOf"))
    schema[keyword] = [whole, drawn._schema(1)] if drawn.random.random() < 0.6 else [whole]


def _unwrap(drawn: Drawn, schema: dict[str, Any]) -> None:
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword):
            branches = schema[keyword]
            drawn.random.shuffle(branches)
            if len(branches) > 1 and drawn.random.random() < 0.5:
                branches.pop()
            else:
                branches.append(drawn._schema(1))


def _refer(drawn: Drawn, schema: dict[str, Any]) -> None:
    if "$ref" in schema:
        schema["$ref"] = drawn.random.choice(("#/$defs/X", "#/$defs/Y"))


_CHANGES: tuple[Callable[[Drawn, dict[str, Any]], None], ...] = (
    _retype,
    _widen_type,
    _widen_type,
    _drop,
    _drop,
    _limit,
    _limit,
    _enum,
    _enum,
    _property,
    _require,
    _others,
    _wrap,
    _unwrap,
    _refer,
)


def an_object(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required), **more}


def _deep(depth: int, leaf: Any) -> dict[str, Any]:
    for _ in range(depth):
        leaf = an_object({"a": leaf})
    return leaf


def _doubled(depth: int, keyword: str, leaf: Any) -> dict[str, Any]:
    for _ in range(depth):
        leaf = {keyword: [{"anyOf": [leaf, {"type": "null"}]}, {"anyOf": [leaf, {"type": "boolean"}]}]}
    return leaf


def _mesh(size: int, **more: Any) -> dict[str, Any]:
    """Definitions that all refer to two others."""
    names = [f"d{number}" for number in range(size)]
    definitions = {
        name: an_object(
            {"a": {"$ref": f"#/$defs/{names[(place * 7 + 1) % size]}"}, "b": {"$ref": "#/$defs/d0"}, **more}
        )
        for place, name in enumerate(names)
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def _self_containing() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


HOSTILE: dict[str, tuple[Any, Any]] = {
    "deep": (_deep(5_000, TEXT), _deep(5_000, WHOLE)),
    "allOf of anyOf, doubled": (_doubled(30, "allOf", TEXT), _doubled(30, "allOf", WHOLE)),
    "oneOf of anyOf, doubled": (_doubled(30, "oneOf", TEXT), _doubled(31, "oneOf", TEXT)),
    "a reference to itself": ({"$ref": "#"}, {"allOf": [{"$ref": "#"}, TEXT]}),
    "alternatives that are itself": (
        {"anyOf": [{"$ref": "#"}, TEXT]}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, WHOLE]},
    ),
    "a mesh of references": (_mesh(1_000, c=TEXT), _mesh(1_000, c=WHOLE)),
    "every key is the whole": (
        an_object({f"k{number}": {"$ref": "#"} for number in range(2_000)}),
        an_object({f"k{number}": {"$ref": "#"} for number in range(2_001)}, "k0"),
    ),
    "a long enumeration": ({"enum": list(range(20_000))}, {"anyOf": [{"enum": list(range(1, 20_000))}] * 20}),
    "many alternatives": ({"oneOf": [TEXT] * 3_000}, {"oneOf": [{"minLength": number} for number in range(3_000)]}),
    "too many parts": ({"enum": [[number] for number in range(100_000)]}, {"enum": [[]]}),
    "an object in itself": (_self_containing(), an_object({"b": TEXT}, "b")),
    "no schema at all": (None, ["x", 3]),
    "words for schemas": ("string", {"type": "string"}),
    "junk under every keyword": (
        {
            "properties": [1], "required": "x", "type": 5, "enum": {}, "anyOf": {"a": 1}, "items": 3, "$ref": 7,
            "allOf": None,
        },
        {
            "properties": [2], "required": {"x": 1}, "type": [[]], "enum": 3, "oneOf": [3, None], "items": [[]],
            "$ref": [],
            "minimum": None, "maxLength": {}, "multipleOf": 0, "patternProperties": [], "propertyNames": 3, "not": 5,
            "const": [{}], "minItems": "x", "maximum": True, "exclusiveMaximum": "1", "additionalProperties": 4,
            3: 4, None: 5,
        },
    ),
    "huge numbers": ({"type": "integer", "minimum": 10**400}, {"exclusiveMinimum": 10**500, "multipleOf": 10**400}),
}  # fmt: skip
