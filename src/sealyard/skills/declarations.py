"""The inputs and the output of a skill as people declare them, and the JSON Schema that each declaration means.

Types are read as people and signatures write them; nothing of a declaration is run.
"""

import ast
import keyword
from typing import Any

import msgspec

from sealyard.catalog import is_checkable
from sealyard.code import read
from sealyard.errors import InvalidSkill
from sealyard.values.documents import MOST_DEPTH, is_too_deep

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
_DEPTH = 12  # of nested types and literals
_LITERAL_NODES = 2_000  # of a literal: a larger one takes long to evaluate
_TYPE_CHARACTERS = 300  # of a type as text
_SCALARS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_SCHEMA_BYTES = 32 << 10  # of declared inputs or output as JSON
_SCHEMA_KEYS = frozenset(
    "$defs $id $schema additionalProperties definitions description properties required title type".split()
)
_INPUTS = 50  # more inputs make no usable signature
_TAKEN = frozenset(("ToolError", "call_tool", "context", "result"))


class Unreadable(ValueError):
    """A type that JSON does not have; the text names it."""


def schema_of(node: ast.expr, *, depth: int = _DEPTH) -> dict[str, Any]:
    """The JSON Schema of an annotation. Raises `Unreadable` for a type that JSON does not have."""
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
    """The JSON Schema of a type as people write it: `string`, `int`, `list[str]` or `str | None`.

    Raises:
        Unreadable: It is not a type.
    """
    if text.strip() == "object":  # anything in Python, a mapping in JSON
        return {"type": "object"}
    return schema_of(_expression(text))


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with null allowed."""
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
    """The types that the top level of a schema allows; empty if it does not say."""
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
    """The JSON value of an expression of literals. Raises `Unreadable` for any other."""
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
    raise ValueError("This is not JSON.")


def _generic(name: str, items: list[ast.expr], depth: int) -> dict[str, Any]:
    """The schema of `name[items]`."""
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
            raise Unreadable("dict with keys that are not text")
        return _with("object", "additionalProperties", schema_of(items[1], depth=depth))
    raise Unreadable(name)


def _with(kind: str, key: str, inside: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, key: inside} if inside else {"type": kind}


def _enumeration(items: list[ast.expr]) -> dict[str, Any]:
    values = [literal_of(item) for item in items]
    kinds = list(dict.fromkeys(_SCALARS.get(type(value), "") for value in values))
    if "" in kinds:
        raise Unreadable("Literal of a value that is not plain")
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
    """`Optional` of `typing.Optional`: the name of the module does not matter."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _expression(text: str) -> ast.expr:
    if len(text) > _TYPE_CHARACTERS:
        raise Unreadable("a long text")
    tree = read(text.strip()).tree
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise Unreadable(repr(text))
    return tree.body[0].value


# Inputs and output


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one input."""

    schema: dict[str, Any] = {}
    required: bool | None = None
    """None if it was not declared."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of all inputs."""

    named: dict[str, Declared] = {}
    definitions: dict[str, Any] = {}
    """Definitions that the schemas refer to, such as `$defs`."""


def read_inputs(inputs: Any) -> Inputs:
    """Read `inputs`: a JSON Schema of an object, types or descriptions by name, or a list of descriptions.

    Raises:
        InvalidSkill: It is none of these; the message names the place.
    """
    if inputs is None:
        return Inputs()
    check_json("inputs", inputs)
    definitions: dict[str, Any] = {}
    if isinstance(inputs, list):
        named = dict(_read_entry(each, number) for number, each in enumerate(inputs))
        if len(named) < len(inputs):
            raise InvalidSkill("Two of the inputs have the same name. Leave one out.")
    elif isinstance(inputs, dict) and _is_schema(inputs):
        named = _read_properties(inputs)
        definitions = {key: inputs[key] for key in ("$defs", "definitions") if key in inputs}
    elif isinstance(inputs, dict):
        named = {name: _read_declared(name, said) for name, said in inputs.items()}
    else:
        raise InvalidSkill(
            "`inputs` has to be an object or a list. Write it as {'user_id': 'string'} or as a JSON Schema."
        )
    if len(named) > _INPUTS:
        raise InvalidSkill(f"The skill has {len(named)} inputs, and {_INPUTS} are allowed. Take an object instead.")
    return Inputs(named=named, definitions=definitions)


def script_inputs(inputs: Inputs) -> dict[str, Any]:
    """The input schema of a script: its declared inputs and nothing else.

    An input is required unless it is declared as optional or has a default. An optional one without a default is null
    if it is left out.

    Raises:
        InvalidSkill: A name cannot be a variable.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, declared in inputs.named.items():
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__") or name in _TAKEN:
            raise InvalidSkill(
                f"The input {name[:80]!a} cannot be a variable of the code. Use another name, such as 'user_id'."
            )
        schema = declared.schema
        if "default" not in schema:
            if declared.required is not False:
                required.append(name)
            else:
                schema = {**nullable(schema), "default": None}
        properties[name] = schema
    return object_schema(properties, required) | inputs.definitions


def object_schema(
    properties: dict[str, Any], required: list[str], *, rest: bool | dict[str, Any] = False
) -> dict[str, Any]:
    """The schema of an object with these properties; `rest` is the schema of further ones."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": rest}


def read_output(output: Any) -> dict[str, Any] | None:
    """The schema that `output` means: a JSON Schema, the name of a type, or a text that describes the value.

    Raises:
        InvalidSkill: It is none of these.
    """
    if output is None or output == "":
        return None
    check_json("output", output)
    if isinstance(output, dict):
        return output
    if isinstance(output, str):
        try:
            return read_type(output)
        except Unreadable:
            return {"description": output}
    raise InvalidSkill(
        "`output` has to be a JSON Schema, a type such as 'dict', or a sentence. Write it as one of them."
    )


def agree(code: dict[str, Any], said: dict[str, Any], what: str) -> dict[str, Any]:
    """Combine the annotation in the code with the declaration: the type of the code, the words of the declaration.

    Raises:
        InvalidSkill: They contradict each other.
    """
    types, others = types_in(code), types_in(said)
    if types and any(each not in types and not (each == "integer" and "number" in types) for each in others):
        raise InvalidSkill(
            f"The code says that {what} is {' or '.join(types)}, and it is declared as {' or '.join(others)}."
            " Make them agree."
        )
    together = {**said, **code}
    if "description" in said:
        together["description"] = said["description"]
    for key in ("items", "additionalProperties"):
        if isinstance(code.get(key), dict) and isinstance(said.get(key), dict):
            together[key] = agree(code[key], said[key], f"each item of {what}")
    return together


def check_schema(schema: dict[str, Any], what: str) -> None:
    """Raise `InvalidSkill` if values cannot be checked against `schema`."""
    if not is_checkable(schema):
        raise InvalidSkill(f"`{what}` is not a JSON Schema that can check values. Write it more plainly.")


def _is_schema(inputs: dict[str, Any]) -> bool:
    if inputs.get("type") == "object":
        return True
    return isinstance(inputs.get("properties"), dict) and inputs.keys() <= _SCHEMA_KEYS


def _read_properties(schema: dict[str, Any]) -> dict[str, Declared]:
    properties = schema.get("properties", {})
    demanded = schema.get("required")
    if not isinstance(properties, dict) or not (demanded is None or isinstance(demanded, list)):
        raise InvalidSkill("`inputs` is a JSON Schema without an object `properties` or a list `required`. Correct it.")
    named = {name: _read_declared(name, said) for name, said in properties.items()}
    if demanded is None:
        return named
    if unknown := [each for each in demanded if each not in named]:
        raise InvalidSkill(f"`inputs` requires {unknown[0]!a}, which is not one of its properties. Add it there.")
    return {
        name: msgspec.structs.replace(
            declared, required=name in demanded if declared.required is None else declared.required
        )
        for name, declared in named.items()
    }


def _read_entry(entry: Any, number: int) -> tuple[str, Declared]:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not isinstance(entry, dict):
        raise InvalidSkill(
            f"Input {number + 1} of `inputs` has no name. Write it as {{'name': 'user_id', 'type': 'string'}}."
        )
    return name, _read_declared(name, {key: value for key, value in entry.items() if key != "name"})


def _read_declared(name: str, said: Any) -> Declared:
    """Read one input: the name of a type, or a schema that may also say if it is required."""
    if isinstance(said, bool) or not isinstance(said, str | dict):
        raise InvalidSkill(f"The input {name[:80]!a} has no type. Write it as 'string', or as a JSON Schema.")
    if isinstance(said, str):
        return Declared(schema=_read_type(name, said))
    schema = {key: value for key, value in said.items() if key != "required" or not isinstance(value, bool)}
    required = said.get("required")
    if isinstance(kind := schema.get("type"), str):
        schema = _read_type(name, kind) | {key: value for key, value in schema.items() if key != "type"}
    return Declared(schema=schema, required=required if isinstance(required, bool) else None)


def _read_type(name: str, text: str) -> dict[str, Any]:
    try:
        return read_type(text)
    except Unreadable as error:
        raise InvalidSkill(
            f"The input {name[:80]!a} has the type {str(error)[:80]}, which JSON does not have."
            " Use string, integer, number, boolean, array, object, list[str], dict[str, int], str | None or any."
        ) from None


def check_json(what: str, value: Any, *, most_bytes: int = _SCHEMA_BYTES) -> None:
    """Raise `InvalidSkill` for a value that JSON cannot hold, or that is too large."""
    try:
        encoded = msgspec.json.encode(value)
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidSkill(f"`{what}` is not JSON: {error}. Use plain, shallow data.") from None
    if len(encoded) > most_bytes:
        raise InvalidSkill(
            f"`{what}` has {len(encoded):,} bytes, and {most_bytes:,} are allowed. Describe it more briefly."
        )
    if is_too_deep(msgspec.json.decode(encoded)):
        raise InvalidSkill(f"`{what}` is nested more than {MOST_DEPTH} levels deep. Use plain, shallow data.")
