"""Types as people and signatures write them, and the JSON Schema that each means."""

import ast
from typing import Any

from sealyard.code import read

_PLAIN: dict[str, str] = {
    **dict.fromkeys(("Any", "any", "object"), ""),
    **dict.fromkeys(("str", "string", "text"), "string"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("None", "null", "NoneType"), "null"),
    **dict.fromkeys(("dict", "Dict", "Mapping", "MutableMapping"), "object"),
    **dict.fromkeys(("list", "List", "array", "Sequence", "Iterable", "Collection", "tuple", "Tuple"), "array"),
}
_LISTS = frozenset(("list", "List", "array", "Sequence", "Iterable", "Collection"))
_DICTS = frozenset(("dict", "Dict", "Mapping", "MutableMapping"))
_ENVELOPES = frozenset(("Awaitable", "Coroutine", "Final", "Required", "NotRequired"))
_DEPTH = 12
_LITERAL_NODES = 2_000
_TYPE_CHARACTERS = 300
_SCALARS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class Unreadable(ValueError):
    """A type that JSON has no words for; its text says which."""


def schema_of(node: ast.expr, *, depth: int = _DEPTH) -> dict[str, Any]:
    """The JSON Schema of what an annotation allows.

    Raises:
        Unreadable: It is, or holds, another type than JSON has.
    """
    if not depth:
        raise Unreadable("a type nested too deeply")
    match node:
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Constant(value=str(text)):
            return schema_of(_expression(text), depth=depth - 1)
        case ast.Name() | ast.Attribute():
            name = _last(node)
            if name not in _PLAIN:
                raise Unreadable(name)
            return {"type": _PLAIN[name]} if _PLAIN[name] else {}
        case ast.BinOp(op=ast.BitOr()):
            return _union([schema_of(part, depth=depth - 1) for part in _alternatives(node)])
        case ast.Subscript(value=ast.Name() | ast.Attribute()):
            return _generic(_last(node.value), _items(node.slice), depth - 1)
    raise Unreadable("this expression")


def read_type(text: str) -> dict[str, Any]:
    """The JSON Schema of a type that somebody wrote: `string`, `int`, `list[str]` or `str | None`.

    Raises:
        Unreadable: It is none.
    """
    if text.strip() == "object":  # to Python that is anything, to JSON it is not
        return {"type": "object"}
    return schema_of(_expression(text))


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, with null allowed."""
    kinds = types_in(schema)
    if not kinds or "null" in kinds:
        return schema
    if "type" in schema and "enum" not in schema:
        return {**schema, "type": [*kinds, "null"]}
    described = {key: schema[key] for key in ("description", "title", "default") if key in schema}
    return {
        "anyOf": [{key: value for key, value in schema.items() if key not in described}, {"type": "null"}]
    } | described


def types_in(schema: dict[str, Any]) -> list[str]:
    """The types that a schema allows, as far as its top says; empty if it does not."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [each for each in kind if isinstance(each, str)]
    if isinstance(values := schema.get("enum"), list):
        return list(dict.fromkeys(_SCALARS.get(type(value), "object") for value in values))
    parts = schema.get("anyOf")
    if isinstance(parts, list) and all(isinstance(part, dict) and types_in(part) for part in parts):
        return list(dict.fromkeys(each for part in parts for each in types_in(part)))
    return []


def literal_of(node: ast.expr) -> Any:
    """The JSON value that an expression of literals is.

    Raises:
        Unreadable: It is none.
    """
    if sum(1 for _ in zip(ast.walk(node), range(_LITERAL_NODES + 1), strict=False)) > _LITERAL_NODES:
        raise Unreadable("a large value")
    try:
        return _as_json(ast.literal_eval(node), _DEPTH)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Unreadable("an expression") from None


def _as_json(value: object, depth: int) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int() if value.bit_length() <= 256:
            return value
        case float() if value - value == 0:  # neither infinite nor NaN
            return value
        case list() | tuple() if depth:
            return [_as_json(each, depth - 1) for each in value]
        case dict() if depth and all(isinstance(key, str) for key in value):
            return {key: _as_json(each, depth - 1) for key, each in value.items()}
    raise ValueError("This is no JSON.")


def _generic(name: str, items: list[ast.expr], depth: int) -> dict[str, Any]:
    """`name[items]`."""
    if name == "Literal":
        return _enumeration(items)
    if name == "Annotated":
        noted = [each.value for each in items[1:] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        return schema_of(items[0], depth=depth) | ({"description": noted[0]} if noted else {})
    if name in _ENVELOPES:
        return schema_of(items[-1], depth=depth)
    if name == "Optional":
        return nullable(schema_of(items[0], depth=depth))
    if name == "Union":
        return _union([schema_of(item, depth=depth) for item in items])
    if name in _LISTS and len(items) == 1:
        return _with("array", "items", schema_of(items[0], depth=depth))
    if name in ("tuple", "Tuple"):
        if len(items) == 2 and isinstance(items[1], ast.Constant) and items[1].value is ...:
            return _with("array", "items", schema_of(items[0], depth=depth))
        return {"type": "array", "prefixItems": [schema_of(item, depth=depth) for item in items]} | {
            "minItems": len(items),
            "maxItems": len(items),
        }
    if name in _DICTS and len(items) == 2:
        if schema_of(items[0], depth=depth) not in ({}, {"type": "string"}):
            raise Unreadable("dict with keys that are no text")
        return _with("object", "additionalProperties", schema_of(items[1], depth=depth))
    raise Unreadable(name)


def _with(kind: str, key: str, inside: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, key: inside} if inside else {"type": kind}


def _enumeration(items: list[ast.expr]) -> dict[str, Any]:
    values = [literal_of(item) for item in items]
    kinds = list(dict.fromkeys(_SCALARS.get(type(value), "") for value in values))
    if "" in kinds:
        raise Unreadable("Literal of what is no plain value")
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _union(parts: list[dict[str, Any]]) -> dict[str, Any]:
    if {} in parts:
        return {}
    if all(part.keys() == {"type"} and isinstance(part["type"], str) for part in parts):
        kinds = list(dict.fromkeys(part["type"] for part in parts))
        return {"type": kinds[0] if len(kinds) == 1 else kinds}
    if len(parts) == 2 and {"type": "null"} in parts:
        return nullable(parts[0] if parts[1] == {"type": "null"} else parts[1])
    return {"anyOf": parts}


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The parts of `a | b | c`."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) and node.elts else [node]


def _last(node: ast.expr) -> str:
    """`Optional` of `typing.Optional`: what a module is called does not matter here."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _expression(text: str) -> ast.expr:
    """The expression that a text is."""
    if len(text) > _TYPE_CHARACTERS:
        raise Unreadable("a long text")
    tree = read(text.strip()).tree
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise Unreadable(repr(text))
    return tree.body[0].value
