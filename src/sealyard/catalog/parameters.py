"""A tool's parameters as a Python function has them: names, order, annotations, defaults and what they mean."""

from typing import Any

import msgspec

from sealyard.catalog.names import assign, identifier
from sealyard.catalog.prose import literal, plain
from sealyard.catalog.shapes import annotation, optional, resolve, shape
from sealyard.values import ToolSpec

_BRANCHES = 16
_NOTE_CHARACTERS = 300
_CHOICES = 20
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "format {}",
    "pattern": "pattern {}",
}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a tool's function."""

    name: str
    """As Python code writes it."""
    key: str
    """As the upstream calls it."""
    schema: Any
    required: bool
    annotation: str
    default: str | None = None
    """The Python literal in the signature of an optional parameter."""

    @property
    def text(self) -> str:
        """As it stands in the signature."""
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default is not None else "")


def parameters(spec: ToolSpec) -> tuple[Parameter, ...]:
    """The parameters of a tool: required ones first, else in the order of its schema."""
    root = spec.input_schema
    properties, required = _all(root)
    names = assign(properties, _parameter_name)
    found = [_parameter(names[key], key, schema, key in required, root) for key, schema in properties.items()]
    return tuple(sorted(found, key=lambda parameter: not parameter.required))


def parameter_names(spec: ToolSpec) -> dict[str, str]:
    """Python name -> the schema's own name, for every parameter."""
    properties, _ = _all(spec.input_schema)
    return {name: key for key, name in assign(properties, _parameter_name).items()}


def rest(spec: ToolSpec) -> str | None:
    """The annotation of further keywords if the tool takes any: it says so, or it says nothing at all."""
    schema = resolve(spec.input_schema, spec.input_schema)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return annotation(others, spec.input_schema)
    if others is True or isinstance(schema.get("patternProperties"), dict):
        return "Any"
    silent = not any(key in schema for key in ("properties", "allOf", "anyOf", "oneOf"))
    return "Any" if others is None and silent else None


def note(parameter: Parameter, spec: ToolSpec) -> str:
    """What a parameter means and what it must be like, on one line; empty if the schema says nothing of it."""
    schema = resolve(parameter.schema, spec.input_schema)
    said = schema.get("description")
    parts = [" ".join(plain(said, limit=_NOTE_CHARACTERS).split())] if isinstance(said, str) and said.strip() else []
    bounds = ", ".join(_bounds(schema))
    if bounds:
        parts.append(f"({bounds})")
    choices = schema.get("enum")
    if isinstance(choices, list) and "Literal" not in parameter.annotation:
        texts = [text for choice in choices[:_CHOICES] if (text := literal(choice)) and len(text) <= 60]
        parts.append(f"One of {', '.join(texts)}{', …' if len(choices) > len(texts) else ''}")
    if "dict[" in parameter.annotation:
        inside = shape(schema, spec.input_schema)
        if "{" in inside:
            parts.append(f"Shape: {inside}")
    return " ".join(parts)


def _all(root: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Every parameter's schema by its key, and the keys of those that are demanded."""
    properties, required = _declared(root, root)
    return {**properties, **dict.fromkeys(sorted(required - properties.keys()), True)}, required


def _declared(schema: object, root: dict[str, Any], *, depth: int = 2) -> tuple[dict[str, Any], set[str]]:
    """The properties of an object schema and those it demands, with what its parts and alternatives add."""
    whole = resolve(schema, root)
    own = whole.get("properties")
    properties = {key: value for key, value in own.items() if isinstance(key, str)} if isinstance(own, dict) else {}
    demanded = whole.get("required")
    required = {key for key in demanded if isinstance(key, str)} if isinstance(demanded, list) else set()
    if not depth:
        return properties, required
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = whole.get(keyword)
        if not isinstance(branches, list) or not branches:
            continue
        inside = [_declared(branch, root, depth=depth - 1) for branch in branches[:_BRANCHES]]
        for more, _ in inside:
            properties |= {key: value for key, value in more.items() if key not in properties}
        sets = [keys for _, keys in inside]
        required |= set.union(*sets) if keyword == "allOf" else set.intersection(*sets)
    return properties, required


def _parameter(name: str, key: str, schema: object, required: bool, root: dict[str, Any]) -> Parameter:
    kind = annotation(schema, root)
    default = None
    if not required:
        whole = schema if isinstance(schema, dict) else {}
        default = literal(whole["default"]) if "default" in whole else None
        default = default or "None"
        kind = optional(kind) if default == "None" else kind
    return Parameter(name=name, key=key, schema=schema, required=required, annotation=kind, default=default)


def _parameter_name(key: str) -> str:
    name = identifier(key, fallback="parameter")
    return name + "_" if name == "self" else name


def _bounds(schema: dict[str, Any]) -> list[str]:
    """The limits of a value, as words."""
    found = []
    for key in schema.keys() & _BOUNDS.keys():
        value = schema[key]
        text = plain(value, limit=60) if isinstance(value, str) else literal(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and text:
            found.append(_BOUNDS[key].format(text))
    return sorted(found)
