"""Abstract values: the things that an expression may stand for, and the changes of a plan in terms of them.

A value is a set of atoms, one for each thing that an expression may be. `OTHER` among them stands for anything unknown.
Atoms hold nodes of the syntax tree, compared by identity, so that each can be traced to its place.
"""

import ast
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sealyard.versioning.compare.schemas import part
from sealyard.versioning.plan import (
    AddParameter,
    Plan,
    RenameField,
    RetypeParameter,
    Scalar,
    fits,
    plain_case,
    scalar_of,
    split_path,
)

ITEM = "[]"
"""In a path: an item of a list."""
ANY_KEY = "{}"
"""In a path: the value under any key of a mapping."""


class Plain(msgspec.Struct, frozen=True):
    """A thing without parts that matter."""

    sort: str


OTHER = Plain("other")
"""Anything at all, except a tool that changed or its answer."""
NONE = Plain("none")
SCALAR = Plain("scalar")
"""A number or a truth value."""
PLAIN = Plain("text")
"""A literal text that names nothing that changed."""


class Text(msgspec.Struct, frozen=True):
    """A literal text that may be a name of something that changed."""

    node: ast.Constant | ast.keyword
    text: str


class Library(msgspec.Struct, frozen=True):
    """Something imported or built in, by its dotted name: `builtins.sorted`, `asyncio.gather`."""

    name: str


class Package(msgspec.Struct, frozen=True):
    """`servers`, or a module in it."""

    parts: tuple[str, ...]


class Tool(msgspec.Struct, frozen=True):
    """The function of the tool that changed."""


class Answer(msgspec.Struct, frozen=True):
    """A part of the tool's answer in which something has a new name."""

    path: tuple[str, ...]


class Site(msgspec.Struct, frozen=True):
    """A container, by the place that makes it. One place may make several, one inside another."""

    node: ast.AST
    level: int = 0


class Local(msgspec.Struct, frozen=True):
    """A function that the code defines."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


Atom = Plain | Text | Library | Package | Tool | Answer | Site | Local
Value = frozenset[Atom]
NOTHING: Value = frozenset()
JUST_OTHER: Value = frozenset((OTHER,))
JUST_NONE: Value = frozenset((NONE,))
JUST_SCALAR: Value = frozenset((SCALAR,))


class Argument(NamedTuple):
    """One argument of a call, in the order of the text."""

    node: ast.expr | ast.keyword
    """Stands for the argument in tables; `*x` is an `ast.Starred`."""
    value: ast.expr
    keyword: str | None = None
    star: str = ""
    """`*` or `**`."""

    @property
    def is_positional(self) -> bool:
        """True if it is given by its position."""
        return self.keyword is None and not self.star


Given = Sequence[tuple[Argument, Value]]


def arguments_of(call: ast.Call) -> list[Argument]:
    """The arguments of a call."""
    found = [
        Argument(each, each.value, None, "*") if isinstance(each, ast.Starred) else Argument(each, each)
        for each in call.args
    ]
    found += [Argument(each, each.value, each.arg, "" if each.arg else "**") for each in call.keywords]
    return sorted(found, key=lambda each: (each.node.lineno, each.node.col_offset))


class Shape:
    """A tree of the old names that lead to each change in a tool's answer."""

    __slots__ = ("after", "blocked", "inside")

    def __init__(self) -> None:
        self.inside: dict[str, Shape] = {}
        self.after: str | None = None
        """The new name of the field that leads here."""
        self.blocked: str | None = None
        """The reason that code which reads this cannot be migrated."""

    def at(self, path: tuple[str, ...]) -> "Shape | None":
        """The part at `path`; None if nothing changed there or below."""
        found: Shape | None = self
        for step in path:
            found = found.step(step) if found is not None else None
        return found

    def step(self, key: str) -> "Shape | None":
        """The part behind one key or index."""
        return self.inside.get(key) or (self.inside.get(ANY_KEY) if key != ITEM else None)

    @property
    def is_list(self) -> bool:
        """True if a change is in the items of a list."""
        return ITEM in self.inside

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that lead to a change."""
        return tuple(key for key in self.inside if key != ITEM)


def shapes_of(plan: Plan) -> Shape:
    """The changes of a plan's answer as a tree."""
    root = Shape()
    changes: list[tuple[str, str | None, str | None]]
    changes = [(step.path, step.after, None) for step in plan.steps if isinstance(step, RenameField)]
    changes += [(each.field, None, each.reason) for each in plan.obstacles if each.side == "output"]
    for path, after, blocked in changes:
        place = root
        for step in split_path(path):
            place = place.inside.setdefault(step, Shape())
        place.after = after or place.after
        place.blocked = blocked or place.blocked
    return root


class Retype(msgspec.Struct, frozen=True):
    """A parameter that takes another type."""

    before: Scalar | None
    to: Scalar
    may_be_none: bool
    """`None` was a valid value."""
    words: bool
    """The old values were the texts `true` and `false`."""

    @property
    def expression(self) -> str | None:
        """Python that converts `{0}` exactly as a call is translated; None if no expression does.

        It raises where a translated call is refused, or gives a text that the new tool refuses: `"007"` stays one.
        """
        match self.before, self.to:
            case "string", "integer":
                return "int({0}) if str(int({0})) == {0} else {0}"
            case "integer", "string":
                return "format({0}, 'd')"  # `str` would make a text of 12.0 too
            case "string", "boolean" if self.words:
                return "({0}) == 'true'"
            case "integer", "number":
                return "{0}"
        return None


class Rules(NamedTuple):
    """The changes of arguments by name: the names of the function's parameters, or the schema's keys."""

    names: Mapping[str, str | None]
    """Old name -> new one; None if it is gone."""
    retyped: Mapping[str, Retype]
    blocked: Mapping[str, str]
    """Old name -> the reason that a call which gives it cannot be migrated; empty for a name that is not declared."""
    added: Mapping[str, Any]
    """New name -> its value where it is not given."""
    omitted: Mapping[str, str]
    """New name -> the reason that a call which does not give it cannot be migrated."""
    keys: Mapping[str, str]
    """Old name -> the schema's key."""
    touched: frozenset[str]
    """Old names whose arguments must change where they are given."""
    plan: Plan

    def passes(self, name: str, values: Collection[Any]) -> bool:
        """True if the new tool certainly takes these values of a parameter unchanged."""
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
        """The reason that no call can be migrated."""
        schema = plan.before.input_schema
        others = "patternProperties" in schema or bool(schema.get("additionalProperties"))
        self.is_open = others or "properties" not in schema
        """Calls may give parameters that are not declared."""
        rules = self.by_name
        self.changes = bool(rules.touched or rules.added or rules.omitted or self.whole) or self.moves(0)
        """Some calls may have to be rewritten."""

    def moves(self, start: int) -> bool:
        """True if an argument at this position or a later one would now mean another parameter."""
        old = [self.names[name] for name in self.before[start:]]
        return old != self.after[start : start + len(old)]


def _rules(plan: Plan, before: Mapping[str, str], after: Mapping[str, str]) -> Rules:
    """The rules; `before` and `after` map keys to the names that the rules use."""
    keys = plan.keys

    def new(key: str) -> str | None:
        changed = keys.get(key, key)
        return None if changed is None else after.get(changed, changed)

    steps = plan.steps
    names = {name: new(key) for key, name in before.items()}
    retyped = {before.get(s.name, s.name): _retype(plan, s) for s in steps if isinstance(s, RetypeParameter)}
    blocked = {before.get(each.field, each.field): each.reason for each in plan.obstacles if each.side == "input"}
    renamed = {name for name, after_name in names.items() if name != after_name}
    return Rules(
        names=names,
        retyped=retyped,
        blocked=blocked,
        added={after.get(step.name, step.name): step.value for step in steps if isinstance(step, AddParameter)},
        omitted={new(each.field) or each.field: each.reason for each in plan.obstacles if each.side == "omitted"},
        keys={name: key for key, name in before.items()},
        touched=frozenset(renamed | retyped.keys() | blocked.keys()),
        plan=plan,
    )


def _retype(plan: Plan, step: RetypeParameter) -> Retype:
    schema = plan.before.input_schema
    case, is_nullable = plain_case(part(schema, "properties", dict).get(step.name), schema)
    choices = case.values if case is not None else None
    return Retype(
        before=None if case is None else scalar_of(case),
        to=step.to,
        may_be_none=is_nullable or step.name not in part(schema, "required", list),
        words=bool(choices) and all(choice in ("true", "false") for choice in choices or ()),
    )
