"""The steps of a plan as values, and what they share: paths, types and conversions."""

import math
import re
from typing import Any, Literal

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.values.skills import Difficulty
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.proof import input_verdict
from sealyard.versioning.compare.schemas import lookup, resolve

Scalar = Literal["string", "integer", "number", "boolean"]

_TOKEN = re.compile(r"__PII_\w+__")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,300}")
"""A whole number as it is written in one way only: `007` and `+7` may be names of something."""
_HOPS = 8  # references in a row that are followed
_BRANCHES = 16  # alternatives of a schema that are read
_PLACES = 2_000
"""Parts of a value that are read: no literal in code and no default has more."""


class Untranslatable(InvalidRequest):
    """A call that was right for the old definition of a tool cannot be made one for the new definition."""


class RenameTool(msgspec.Struct, frozen=True, kw_only=True, tag="rename_tool"):
    """The tool has other names; these are the new ones."""

    full_name: str
    module: str
    function: str


class RenameParameter(msgspec.Struct, frozen=True, kw_only=True, tag="rename_parameter"):
    """A parameter has another key in the schema."""

    before: str
    after: str


class RemoveParameter(msgspec.Struct, frozen=True, kw_only=True, tag="remove_parameter"):
    """A parameter is gone, and calls do without it."""

    name: str


class AddParameter(msgspec.Struct, frozen=True, kw_only=True, tag="add_parameter"):
    """A parameter has to be given; where a call does not, it gets this value."""

    name: str
    """The new key."""
    value: Any


class RetypeParameter(msgspec.Struct, frozen=True, kw_only=True, tag="retype_parameter"):
    """A parameter takes another type of scalar."""

    name: str
    """The old key."""
    to: Scalar


class RenameField(msgspec.Struct, frozen=True, kw_only=True, tag="rename_field"):
    """A field of the answer has another name."""

    path: str
    """By the old names, such as `items[].name`."""
    after: str
    """The new name of the last part."""


Step = RenameTool | RenameParameter | RemoveParameter | AddParameter | RetypeParameter | RenameField


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """A change that no step answers."""

    side: Literal["tool", "input", "omitted", "output"]
    """`tool`: it hits every call. `input`: calls that give the parameter. `omitted`: calls that do not. `output`: code
    that reads the field."""
    field: str
    """The old key of the parameter (of `input` empty: one that is not declared), or the path in the answer by the old
    names, empty for the whole."""
    reason: str
    is_total: bool = False
    """Of `input`: whether it hits every value, also one that the new tool takes, since it may mean something else."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from `before` to `after`, and the obstacles."""

    before: ToolSpec
    after: ToolSpec | None
    """None: the tool is gone."""
    steps: tuple[Step, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    names_before: dict[str, str] = {}
    """The schema's key -> the function's parameter, in the order in which the function takes them."""
    names_after: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons that breaking changes have no mechanical answer, one sentence each."""
        return tuple(obstacle.reason for obstacle in self.obstacles)

    @property
    def difficulty(self) -> Difficulty:
        """The difficulty by the definitions alone; a migration reads code too."""
        if self.after is None or any(obstacle.side == "tool" for obstacle in self.obstacles):
            return "impossible"
        return "needs a look" if self.obstacles else "mechanical"

    @property
    def is_reordered(self) -> bool:
        """True if an argument without a name would mean another parameter than before."""
        return list(self.names_before)[: len(self.names_after)] != list(self.names_after)[: len(self.names_before)]

    @property
    def keys(self) -> dict[str, str | None]:
        """Old key -> new key of every parameter whose name matters; None if it is gone."""
        changed: dict[str, str | None] = {key: key for key in self.names_before}
        for step in self.steps:
            if isinstance(step, RenameParameter):
                changed[step.before] = step.after
            elif isinstance(step, RemoveParameter):
                changed[step.name] = None
        return changed


def signature_names(spec: ToolSpec) -> dict[str, str]:
    """Key -> parameter where both are the same: required ones first, else in the order of the schema."""
    properties = spec.input_schema.get("properties")
    required = spec.input_schema.get("required")
    keys = [key for key in properties if isinstance(key, str)] if isinstance(properties, dict) else []
    demanded = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
    keys += sorted(demanded.difference(keys))
    return {key: key for key in sorted(keys, key=lambda key: key not in demanded)}


def fits(plan: Plan, key: str, value: Any) -> bool:
    """True if a value of an old parameter is certainly one that the new tool takes as it is, and understands."""
    after = plan.keys.get(key, key)
    root = plan.after.input_schema if plan.after is not None else {}
    properties = root.get("properties")
    if after is None or not isinstance(properties, dict) or after not in properties:
        return False
    if any(each.is_total and each.side == "input" and each.field == key for each in plan.obstacles):
        return False
    old = plan.before.input_schema.get("properties")
    was = old.get(key) if isinstance(old, dict) else None
    return takes(properties[after], root, value, was=was)


def takes(declared: object, root: dict[str, Any], value: Any, *, was: object = None) -> bool:
    """True if a schema certainly takes a value, and declares every key in it.

    A key that is not declared may not be understood, even where the schema lets it pass. Formats and patterns that
    `was`, the old schema, has in the same words are taken to hold.
    """
    if isinstance(declared, dict) and isinstance(was, dict):
        said = {name for name in ("format", "pattern") if name in declared and declared[name] == was.get(name)}
        declared = {name: part for name, part in declared.items() if name not in said}
    places: dict[str, Any] = {name: root[name] for name in ("$defs", "definitions") if name in root}
    try:
        given = ({"const": value}, _exactly(value, [_PLACES]))
    except OverflowError:
        return False
    goal = {"allOf": [declared], **places}
    return any(input_verdict(each, goal, top=False) == "compatible" for each in given)


def _exactly(value: Any, left: list[int]) -> dict[str, Any]:
    """A schema that a value fits and that declares its keys. Raises `OverflowError` if more than `left` parts."""
    left[0] -= 1
    if left[0] < 0:
        raise OverflowError
    if isinstance(value, list):
        items = {"items": {"anyOf": [_exactly(item, left) for item in value]}} if value else {}
        return {"type": "array", "minItems": len(value), "maxItems": len(value), **items}
    if isinstance(value, dict):
        parts = {name: _exactly(part, left) for name, part in value.items()}
        return {"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False}
    return {"const": value}


def convert(value: Any, to: Scalar, name: str = "value") -> Any:
    """A scalar as another type of the same meaning; None stays None.

    Only a value with one form in either type is converted, so that it could be converted back: `"7"` and 7, but not
    `"007"`, which may be a name, nor 12.0, which may be written in two ways, nor true, which may be a count.

    Raises:
        Untranslatable: The value has no meaning in that type, or more than one.
    """
    converted = None if isinstance(value, str) and _TOKEN.search(value) else _converted(value, to)
    if converted is None and value is not None:
        raise Untranslatable(f"Argument {name!r} has become {to}, and the value given cannot be made one. Change it.")
    return converted


def _converted(value: Any, to: Scalar) -> Any:
    match value, to:
        case (str(), "string") | (bool(), "boolean"):
            return value
        case bool(), _:
            return None
        case str(), "boolean":
            return {"true": True, "false": False}.get(value)
        case str(), "integer" | "number":
            return _number(value, to)
        case int(), "string":
            return str(value) if abs(value) < 10**300 else None
        case float(), "string":
            return repr(value) if math.isfinite(value) and not value.is_integer() and "e" not in repr(value) else None
        case float(), "integer":
            return int(value) if value.is_integer() else None
        case (int(), "integer" | "number") | (float(), "number"):
            return value if math.isfinite(value) else None
    return None


def _number(text: str, to: Scalar) -> int | float | None:
    """The number that a text is the only form of."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    is_plain = math.isfinite(number) and not number.is_integer() and repr(number) == text and "e" not in text
    return number if is_plain and to == "number" else None


def split_path(path: str) -> tuple[str, ...]:
    """`items[].name` as `("items", "[]", "name")`; `[]` is an item, `{}` the value of any key."""
    steps: list[str] = []
    for part in path.split(".") if path else ():
        bare = re.sub(r"(\[\]|\{\})+$", "", part)
        steps += [bare] if bare else []
        steps += re.findall(r"\[\]|\{\}", part[len(bare) :])
    return tuple(steps)


_SCALARS: dict[frozenset[str], Scalar] = {
    frozenset({"string"}): "string",
    frozenset({"integer"}): "integer",
    frozenset({"number"}): "number",
    frozenset({"number", "integer"}): "number",
    frozenset({"boolean"}): "boolean",
}


def find_scalar(schema: object, root: dict[str, Any]) -> tuple[Scalar, bool] | None:
    """The one scalar type that fits `schema`, and whether `None` fits too; None if it is another sort of schema."""
    schema = resolve(schema, root)
    kinds = schema.get("type")
    branches = schema.get("anyOf") or schema.get("oneOf")
    if not kinds and isinstance(branches, list):
        kinds = [branch.get("type") if isinstance(branch, dict) else None for branch in branches[:_BRANCHES]]
    found = {kind if isinstance(kind, str) else "" for kind in (kinds if isinstance(kinds, list) else [kinds])}
    scalar = _SCALARS.get(frozenset(found - {"null"}))
    return None if scalar is None else (scalar, "null" in found or schema.get("nullable") is True)


def plain_schema(schema: object, root: dict[str, Any]) -> dict[str, Any] | None:
    """A schema of values other than null, with references followed; None if it has alternatives."""
    for _ in range(_HOPS):
        if not isinstance(schema, dict):
            return None
        reference = schema.get("$ref")
        parts = [part for name in ("allOf", "anyOf", "oneOf") for part in schema.get(name) or () if not _is_null(part)]
        if not isinstance(reference, str) and not parts:
            return schema
        if len(parts) + isinstance(reference, str) > 1:
            return None
        inner = lookup(reference, root) if isinstance(reference, str) else parts[0]
        beside = {name: part for name, part in schema.items() if name not in ("$ref", "allOf", "anyOf", "oneOf")}
        schema = {**inner, **beside} if isinstance(inner, dict) else None
    return None


def _is_null(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"
