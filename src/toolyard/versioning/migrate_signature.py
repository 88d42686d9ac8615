"""What a plan means for the arguments of one call, apart from any syntax."""

from typing import Any

import msgspec

from toolyard.versioning.steps import AddParameter, Plan, RetypeParameter, Scalar, find_scalar

__all__ = ("Retype", "Signature")


class Retype(msgspec.Struct, frozen=True):
    """A parameter that takes another type."""

    before: Scalar | None
    to: Scalar
    may_be_none: bool
    """Whether `None` was a fine value."""
    words: bool
    """Whether the old texts were `true` and `false`, or the old numbers 0 and 1."""


class Signature:
    """The parameters of a tool before and after."""

    def __init__(self, plan: Plan) -> None:
        self.before = list(plan.names_before.values())
        """The function's parameters in order."""
        self.after = list(plan.names_after.values())
        keys = plan.keys
        by_name = {name: keys[key] for key, name in plan.names_before.items()}
        self.names: dict[str, str | None] = {
            name: None if key is None else plan.names_after.get(key, key) for name, key in by_name.items()
        }
        """Old parameter -> new one; None if it is gone."""
        self.keys = keys
        """The same for the schema's keys."""
        self.added = {plan.names_after.get(step.name, step.name): step.value for step in _added(plan)}
        """New parameter -> the value it gets where it is not given."""
        self.added_keys: dict[str, Any] = {step.name: step.value for step in _added(plan)}
        self.blocked_keys = {each.field: each.reason for each in plan.obstacles if each.side == "input"}
        self.blocked = {plan.names_before.get(key, key): reason for key, reason in self.blocked_keys.items()}
        """Old parameter -> why a call that gives it cannot be migrated."""
        self.whole = next((each.reason for each in plan.obstacles if each.side == "tool"), None)
        """Why no call can be."""
        self.retyped_keys = {step.name: _retype(plan, step) for step in plan.steps if isinstance(step, RetypeParameter)}
        self.retyped = {plan.names_before.get(key, key): each for key, each in self.retyped_keys.items()}
        schema = plan.before.input_schema
        self.is_open = "properties" not in schema or bool(schema.get("additionalProperties"))
        self.is_open = self.is_open or "patternProperties" in schema
        """Whether calls may give parameters that are not declared."""

    @property
    def changes(self) -> bool:
        """Whether any call may have to be written in another way."""
        return bool(self.touched) or bool(self.added) or self.whole is not None or self.moves(0)

    @property
    def touched(self) -> frozenset[str]:
        """Old parameters whose arguments have to change where they are named."""
        renamed = {name for name, after in self.names.items() if name != after}
        return frozenset(renamed | self.retyped.keys() | self.blocked.keys())

    @property
    def touched_keys(self) -> frozenset[str]:
        """The same by the schema's keys."""
        renamed = {key for key, after in self.keys.items() if key != after}
        return frozenset(renamed | self.retyped_keys.keys() | self.blocked_keys.keys())

    def moves(self, start: int, stop: int | None = None) -> bool:
        """Whether an argument at one of these positions would mean another parameter now."""
        old = [self.names[name] for name in self.before[start:stop]]
        return old != self.after[start : start + len(old)]

    def find_positional(self, position: int) -> str | None:
        """The old parameter at a position."""
        return self.before[position] if position < len(self.before) else None


def _added(plan: Plan) -> list[AddParameter]:
    return [step for step in plan.steps if isinstance(step, AddParameter)]


def _retype(plan: Plan, step: RetypeParameter) -> Retype:
    schema = plan.before.input_schema
    properties = schema.get("properties")
    own = properties.get(step.name) if isinstance(properties, dict) else None
    found = find_scalar(own, schema)
    required = schema.get("required")
    optional = not isinstance(required, list) or step.name not in required
    choices = own.get("enum") if isinstance(own, dict) else None
    words = isinstance(choices, list) and bool(choices) and all(choice in ("true", "false", 0, 1) for choice in choices)
    return Retype(
        before=None if found is None else found[0],
        to=step.to,
        may_be_none=found is None or found[1] or optional,
        words=words,
    )
