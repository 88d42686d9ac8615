"""Known changes of tools, with their meaning for the definition, for calls and for answers."""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks.corpus.values import fits
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import is_wrapped, resolve, unwrapped

Steps = tuple[str, ...]
"""A place in an answer, such as `("items", "[]", "name")`."""

ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "entries": {
            "type": "array",
            "description": "What was found, in order.",
            "items": {
                "type": "object",
                "properties": {
                    "entry_id": {"type": "string", "description": "The id of this entry for good."},
                    "display_name": {"type": "string", "description": "The name to display for the thing."},
                    "list_rank": {"type": "integer", "description": "The rank at which it stands in the list."},
                },
                "required": ["entry_id", "display_name", "list_rank"],
            },
        },
        "total_count": {"type": "integer", "description": "The total count, as it would be without a limit."},
        "next_cursor": {"type": "string", "description": "Where the following answer begins."},
    },
    "required": ["entries", "total_count", "next_cursor"],
}
"""The answer of tools that declare none."""


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """One change, as who made it knows it. A call made before is carried over by this and by nothing else."""

    renamed: Mapping[str, str] = {}
    removed: tuple[str, ...] = ()
    added: Mapping[str, Any] = {}
    retyped: Mapping[str, str] = {}
    scaled: Mapping[str, int] = {}
    """By which factor a number is larger in its new unit."""
    inside: Mapping[str, str] = {}
    """Parameters that are fields of another one now."""
    field: Steps = ()
    """The field of the answer that is called `field_after` now, or is not there any more."""
    field_after: str | None = None
    wrapped: str = ""
    """The key under which the whole answer lies now."""

    def arguments(self, before: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the same call now. Raises `ValueError` if a value cannot be carried over."""
        kept = {self.renamed.get(key, key): value for key, value in before.items() if key not in self.removed}
        for key, kind in self.retyped.items():
            if kept.get(key) is not None:
                kept[key] = _retyped(kept[key], kind)
        for key, factor in self.scaled.items():
            kept[key] *= factor
        for key in self.inside.keys() & kept.keys():
            kept[self.inside[key]] = {**kept.get(self.inside[key], {}), key: kept.pop(key)}
        return {**self.added, **kept}

    def answer(self, before: Any) -> Any:
        """The answer of the tool now where it answered `before`."""
        after = _renamed_field(before, self.field, self.field_after) if self.field else before
        return {self.wrapped: after} if self.wrapped else after


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """A tool before and after a known operation, and the calls that show what came of it."""

    operation: str
    before: ToolSpec
    after: ToolSpec | None
    truths: tuple[Truth, ...] = (Truth(),)
    is_mechanical: bool = True
    """A migration may be demanded: the definitions alone say what happened."""
    is_silent: bool = False
    """No code needs an edit, whatever it looks like."""
    is_moving: bool = False
    """Parameters change their places, so that calls by position show it."""
    given: Mapping[str, tuple[Any, ...]] = {}
    """Parameters that calls must pass, and the values to choose from; none means any that fits."""
    left_out: frozenset[str] = frozenset()
    """Parameters that calls must not pass."""
    literal: frozenset[str] = frozenset()
    """Parameters whose value only a literal proves to be good still."""
    touched: frozenset[str] = frozenset()
    """Every parameter that the operation is about, by its names before and after."""
    field: Steps = ()
    """The field of the answer that the operation is about: code must use it."""

    def arguments(self, before: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments of the same call now, or `None` if there is no such call."""
        if self.after is None:
            return None
        try:
            now = functools.reduce(lambda kept, truth: truth.arguments(kept), self.truths, before)
        except ValueError:
            return None
        return now if fits(now, self.after.input_schema, self.after.input_schema) else None

    def answer(self, before: Any) -> Any:
        """The answer of the tool now where it answered `before`."""
        return functools.reduce(lambda answer, truth: truth.answer(answer), self.truths, before)


def _retyped(value: Any, kind: str) -> Any:
    match kind:
        case "string":
            return msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
        case "integer":
            if float(value) != int(float(value)):
                raise ValueError("It is no whole number.")
            return int(float(value))
        case "array":
            return [value]
    raise ValueError(f"Nothing becomes {kind}.")


def _renamed_field(answer: Any, steps: Steps, after: str | None) -> Any:
    first, rest = steps[0], steps[1:]
    if first == "[]":
        return [_renamed_field(item, rest, after) for item in answer]
    if rest:
        return {key: _renamed_field(value, rest, after) if key == first else value for key, value in answer.items()}
    if after is None:
        return {key: value for key, value in answer.items() if key != first}
    return {after if key == first else key: value for key, value in answer.items()}


def properties_of(spec: ToolSpec) -> dict[str, dict[str, Any]]:
    """The parameters of a tool with their schemas; none if the schema is more than a list of them."""
    schema = spec.input_schema
    if any(key in schema for key in ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentRequired")):
        return {}
    found = schema.get("properties")
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        return {}
    return found if set(schema.get("required") or ()) <= found.keys() else {}


def edited(spec: ToolSpec, properties: Mapping[str, Any], required: list[str]) -> ToolSpec:
    """The tool with other parameters."""
    schema = {**spec.input_schema, "properties": dict(properties), "required": required}
    return changed(spec, input_schema=schema)


def changed(spec: ToolSpec, **fields: Any) -> ToolSpec:
    """The tool with other fields, and the digest that goes with them."""
    after = msgspec.structs.replace(spec, **fields, digest="")
    return msgspec.structs.replace(after, digest=hashlib.sha256(msgspec.json.encode(after)).hexdigest())


def fields_of(spec: ToolSpec) -> dict[Steps, dict[str, Any]]:
    """The fields of a tool's answer that code can reach in a few steps, with their schemas."""
    root = spec.output_schema or {}
    found: dict[Steps, dict[str, Any]] = {}
    _collect(resolve(unwrapped(root), root), root, (), found)
    return found


def _collect(schema: dict[str, Any], root: dict[str, Any], steps: Steps, found: dict[Steps, dict[str, Any]]) -> None:
    if len(steps) > 2:
        return
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        _collect(resolve(schema["items"], root), root, (*steps, "[]"), found)
        return
    properties = schema.get("properties")
    for key, inner in properties.items() if isinstance(properties, dict) else ():
        resolved = resolve(inner, root)
        found[*steps, key] = resolved
        _collect(resolved, root, (*steps, key), found)


def with_field(spec: ToolSpec, steps: Steps, after: str | None, inner: dict[str, Any] | None = None) -> ToolSpec:
    """The tool with the field at `steps` under another name, or without it."""
    root = spec.output_schema or {}
    path = ("result", *steps) if is_wrapped(root) else steps
    return changed(spec, output_schema=_with_field(root, root, path, after, inner))


def _with_field(
    schema: dict[str, Any], root: dict[str, Any], steps: Steps, after: str | None, inner: dict[str, Any] | None
) -> dict[str, Any]:
    """References are written out on the way: what else refers to the same place stays as it is."""
    schema = resolve(schema, root)
    first, rest = steps[0], steps[1:]
    if first == "[]":
        return {**schema, "items": _with_field(schema["items"], root, rest, after, inner)}
    properties, required = schema["properties"], list(schema.get("required") or ())
    if rest:
        return {**schema, "properties": {**properties, first: _with_field(properties[first], root, rest, after, inner)}}
    kept: dict[str, Any] = {}
    for key, value in properties.items():
        if key != first:
            kept[key] = value
        elif after is not None:
            kept[after] = inner or value
    names = [after if key == first else key for key in required if key != first or after is not None]
    return {**schema, "properties": kept, "required": names}
