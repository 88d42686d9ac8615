"""What a plan means for the arguments of one call, apart from any syntax."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from sealyard.versioning.steps import AddParameter, Plan, RetypeParameter, Scalar, find_scalar, fits


class Retype(msgspec.Struct, frozen=True):
    """A parameter that takes another type."""

    before: Scalar | None
    to: Scalar
    may_be_none: bool
    """Whether `None` was a fine value."""
    words: bool
    """Whether the old texts were `true` and `false`, or the old numbers 0 and 1."""

    @property
    def template(self) -> tuple[str, str] | None:
        """What goes before and after an expression to convert it; None if no expression does so for certain."""
        match self.before, self.to:
            case "string", "integer":
                return "int(", ")"
            case "string", "number":
                return "float(", ")"
            case (("integer" | "number"), "string"):
                return "str(", ")"
            case "boolean", ("integer" | "number"):
                return "int(", ")"
            case "integer", "boolean" if self.words:
                return "bool(", ")"
            case "integer", "number":
                return "", ""
        return None


class Rules(NamedTuple):
    """What becomes of arguments by their names: those of the function's parameters, or the schema's keys."""

    names: Mapping[str, str | None]
    """Old name -> new one; None if it is gone."""
    retyped: Mapping[str, Retype]
    blocked: Mapping[str, str]
    """Old name -> why a call that gives it cannot be migrated; empty: a name that is not declared."""
    added: Mapping[str, Any]
    """New name -> the value it gets where it is not given."""
    omitted: Mapping[str, str]
    """New name -> why a call that does not give it cannot be migrated."""
    keys: Mapping[str, str]
    """Old name -> the schema's key."""
    plan: Plan

    @property
    def touched(self) -> frozenset[str]:
        """Old names whose arguments have to change where they are given."""
        renamed = {name for name, after in self.names.items() if name != after}
        return frozenset(renamed | self.retyped.keys() | self.blocked.keys())

    def agrees(self, other: "Rules") -> bool:
        """Whether both demand the same."""
        return self[:5] == other[:5]

    def passes(self, name: str, values: Collection[Any]) -> bool:
        """Whether the new tool certainly takes these values of a parameter as they are."""
        return bool(values) and all(fits(self.plan, self.keys.get(name, name), value) for value in values)


class Signature:
    """The parameters of a tool before and after."""

    def __init__(self, plan: Plan) -> None:
        self.before = list(plan.names_before.values())
        """The function's parameters in order."""
        self.after = list(plan.names_after.values())
        old = {key: key for key in plan.names_before}
        self.by_key = _rules(plan, old, {key: key for key in plan.names_after})
        self.by_name = _rules(plan, plan.names_before, plan.names_after)
        self.names = self.by_name.names
        self.whole = next((each.reason for each in plan.obstacles if each.side == "tool"), None)
        """Why no call can be migrated."""
        schema = plan.before.input_schema
        others = "patternProperties" in schema or bool(schema.get("additionalProperties"))
        self.is_open = others or "properties" not in schema
        """Whether calls may give parameters that are not declared."""
        rules = self.by_name
        self.changes = bool(rules.touched or rules.added or rules.omitted or self.whole) or self.moves(0)
        """Whether any call may have to be written in another way."""

    def moves(self, start: int, stop: int | None = None) -> bool:
        """Whether an argument at one of these positions would mean another parameter now."""
        old = [self.names[name] for name in self.before[start:stop]]
        return old != self.after[start : start + len(old)]


def _rules(plan: Plan, before: Mapping[str, str], after: Mapping[str, str]) -> Rules:
    """`before` and `after`: key -> the name that the rules are about."""
    keys = plan.keys

    def new(key: str) -> str | None:
        changed = keys.get(key, key)
        return None if changed is None else after.get(changed, changed)

    steps = plan.steps
    return Rules(
        names={name: new(key) for key, name in before.items()},
        retyped={before.get(s.name, s.name): _retype(plan, s) for s in steps if isinstance(s, RetypeParameter)},
        blocked={before.get(each.field, each.field): each.reason for each in plan.obstacles if each.side == "input"},
        added={after.get(step.name, step.name): step.value for step in steps if isinstance(step, AddParameter)},
        omitted={new(each.field) or each.field: each.reason for each in plan.obstacles if each.side == "omitted"},
        keys={name: key for key, name in before.items()},
        plan=plan,
    )


def _retype(plan: Plan, step: RetypeParameter) -> Retype:
    schema = plan.before.input_schema
    properties, required = schema.get("properties"), schema.get("required")
    own = properties.get(step.name) if isinstance(properties, dict) else None
    found = find_scalar(own, schema)
    optional = not isinstance(required, list) or step.name not in required
    choices = own.get("enum") if isinstance(own, dict) else None
    words = isinstance(choices, list) and bool(choices) and all(choice in ("true", "false", 0, 1) for choice in choices)
    return Retype(
        before=None if found is None else found[0],
        to=step.to,
        may_be_none=found is None or found[1] or optional,
        words=words,
    )
