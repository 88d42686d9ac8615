"""The `inputs` and `output` that somebody declares for a skill, in any of the ways in which people write them."""

import keyword
from typing import Any

import msgspec

from sealyard.catalog.validation import Check
from sealyard.errors import InvalidSkill
from sealyard.skills.types import Unreadable, nullable, read_type, types_in

_SCHEMA_BYTES = 32 << 10
_SCHEMA_KEYS = frozenset(
    "$defs $id $schema additionalProperties definitions description properties required title type".split()
)
_INPUTS = 50
_TAKEN = frozenset(("ToolError", "call_tool", "context", "result"))


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one input."""

    schema: dict[str, Any] = {}
    required: bool | None = None
    """None if it was not said."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said of the inputs."""

    named: dict[str, Declared] = {}
    definitions: dict[str, Any] = {}
    """`$defs` and the like, to which the schemas refer."""


def read_inputs(inputs: Any) -> Inputs:
    """What `inputs` says: a JSON Schema of an object, types or descriptions by name, or a list of descriptions.

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
    """The input schema of a script: what was declared and nothing else.

    An input is required unless it was said not to be, or has a default. One that is neither is null if it is left out.

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
    """The schema of an object with these properties, and of the rest if it may have more."""
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
    """What the code's own annotation and the declaration say together: the code's type, the declaration's words.

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
    """Raises `InvalidSkill` if values cannot be checked against `schema`."""
    if Check(schema).choose({}) is None:
        raise InvalidSkill(f"`{what}` is no JSON Schema that values can be checked against. Write it more plainly.")


def _is_schema(inputs: dict[str, Any]) -> bool:
    if inputs.get("type") == "object":
        return True
    return isinstance(inputs.get("properties"), dict) and inputs.keys() <= _SCHEMA_KEYS


def _read_properties(schema: dict[str, Any]) -> dict[str, Declared]:
    properties = schema.get("properties", {})
    demanded = schema.get("required")
    if not isinstance(properties, dict) or not (demanded is None or isinstance(demanded, list)):
        raise InvalidSkill("`inputs` is a JSON Schema without an object `properties` or a list `required`. Mend it.")
    named = {name: _read_declared(name, said) for name, said in properties.items()}
    if demanded is None:
        return named
    if unknown := [each for each in demanded if each not in named]:
        raise InvalidSkill(f"`inputs` requires {unknown[0]!a}, which is none of its properties. Add it there.")
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
    """One input: the name of its type, or a schema that may also say whether it is required."""
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
            f"The input {name[:80]!a} has the type {str(error)[:80]}, which JSON has not."
            " Use string, integer, number, boolean, array, object, list[str], dict[str, int], str | None or any."
        ) from None


def check_json(what: str, value: Any, *, most_bytes: int = _SCHEMA_BYTES) -> None:
    """Raises `InvalidSkill` for what is no JSON, or too much of it."""
    try:
        size = len(msgspec.json.encode(value))
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidSkill(f"`{what}` is no JSON: {error}. Use plain, shallow data.") from None
    if size > most_bytes:
        raise InvalidSkill(f"`{what}` has {size:,} bytes, and {most_bytes:,} are allowed. Describe it more briefly.")
