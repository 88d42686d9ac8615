"""What is known while code is followed: what containers hold, what flows where, what has to be rewritten and what cannot.

Facts only grow; code is followed again until none did. What is recorded for the rewriting is that of the last round.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst
import msgspec

from toolyard.versioning.migrate_scopes import Scopes, Variable
from toolyard.versioning.migrate_signature import Signature
from toolyard.versioning.migrate_values import (
    ITEM,
    NONE,
    NOTHING,
    OTHER,
    PLAIN,
    SCALAR,
    Answer,
    Atom,
    Getter,
    Library,
    Local,
    Package,
    Partial,
    Shape,
    Site,
    Text,
    Tool,
    Value,
    shapes_of,
)
from toolyard.versioning.steps import Plan, RenameTool, split_path

__all__ = ("Facts", "TooMuch", "Touch", "Use")

_STEPS = 400_000
_ATOMS = 2_000

Slot = str | int | None


class TooMuch(Exception):
    """The code is too large or too tangled to be followed."""


class Use(msgspec.Struct, frozen=True):
    """How a call calls a tool."""

    kind: str
    """`function`, `named` (call_tool), `mapped` (map: each further argument holds one), `partial`."""
    plan: int
    first: int = 0
    """The number of the argument that is the tool's first."""
    partial: cst.Call | None = None
    """The `functools.partial` through which it is called."""


class Touch(msgspec.Struct, frozen=True):
    """A place that reads or writes one key of an own container."""

    key: Value
    value: cst.BaseExpression | None
    """What is written."""
    node: cst.CSTNode


class Facts:
    """The state of following one piece of code."""

    def __init__(self, scopes: Scopes, plans: Sequence[Plan]) -> None:
        self.scopes = scopes
        self.plans = plans
        self.signatures = [Signature(plan) for plan in plans]
        self.shapes = [shapes_of(plan) for plan in plans]
        self.by_function = {(plan.before.module, plan.before.function): i for i, plan in enumerate(plans)}
        self.by_name = {plan.before.full_name: number for number, plan in enumerate(plans)}
        self.words = _words(plans)
        self.changed = True
        self._steps = _STEPS
        # Facts
        self.held: dict[Variable, Value] = {}
        self.contents: dict[Site, dict[Slot, Value]] = {}
        self.keys: dict[Site, Value] = {}
        """Of the containers that are mappings: their keys."""
        self.params: dict[cst.Param, Value] = {}
        self.returned: dict[cst.CSTNode, Value] = {}
        self.yielded: dict[cst.CSTNode, Value] = {}
        self.escaped: set[cst.CSTNode] = set()
        self.partials: dict[cst.Call, Value] = {}
        self.kept: dict[cst.Arg, Value] = {}
        """Arguments that wait in a `partial` or an `itemgetter`."""
        self.forget()

    def forget(self) -> None:
        """Start a round."""
        self.changed = False
        self.refused: dict[tuple[cst.CSTNode, str], None] = {}
        self.reached: dict[tuple[cst.CSTNode, str], None] = {}
        self.texts: dict[cst.CSTNode, dict[str | None, str]] = {}
        """New text of a literal or a name -> why; None: it has to stay."""
        self.calls: dict[cst.Call, set[Use | None]] = {}
        self.given: dict[cst.Arg, Value] = {}
        self.consumers: dict[Site, set[tuple[str, int] | None]] = {}
        """Whose arguments a mapping is: by the function's names or by the schema's keys; None: something else."""
        self.touches: dict[Site, list[Touch]] = {}
        self.spreads: dict[Site, Value] = {}
        """What is unpacked into a mapping."""
        self.touched: set[int] = set()
        """Plans whose tool the code uses."""

    def step(self, many: int = 1) -> None:
        """Count work, so that hostile code cannot keep anybody busy."""
        self._steps -= many
        if self._steps < 0:
            raise TooMuch

    # Growing

    def grow(self, table: dict[Any, Value], key: Any, value: Value) -> None:
        """Add to a fact."""
        before = table.get(key)
        if before is None or not value <= before:
            table[key] = _bounded((before or NOTHING) | value)
            self.changed = True

    def put(self, site: Site, slot: Slot, value: Value) -> None:
        """Say what a container holds; slot None: at a place that is not known."""
        self.grow(self.contents.setdefault(site, {}), slot, value)

    def make(self, node: cst.CSTNode, slots: Iterable[tuple[Slot, Value]] = (), *, level: int = 0) -> Value:
        """A container that is made at `node`."""
        site = Site(node, level)
        self.contents.setdefault(site, {})
        for slot, value in slots:
            self.put(site, slot, value)
        return frozenset((site,))

    def make_mapping(self, node: cst.CSTNode, slots: Iterable[tuple[Slot, Value]], keys: Value = NOTHING) -> Value:
        """A mapping that is made at `node`."""
        value = self.make(node, slots)
        self.grow(self.keys, Site(node), keys)
        return value

    # Answers

    def answer(self, plan: int, path: tuple[str, ...]) -> Atom:
        """A part of an answer, as far as anything in it changed."""
        shape = self.shapes[plan].at(path)
        return Answer(plan, path) if shape is not None and shape.inside else OTHER

    def shape(self, answer: Answer) -> Shape:
        """What changed in a part of an answer."""
        found = self.shapes[answer.plan].at(answer.path)
        assert found is not None
        return found

    def items(self, value: Value, node: cst.CSTNode) -> Value:
        """What iterating over a value gives."""
        found: set[Atom] = set()
        for atom in value:
            match atom:
                case Answer():
                    shape = self.shape(atom)
                    if shape.is_list:
                        found.add(self.answer(atom.plan, (*atom.path, ITEM)))
                    if shape.has_names:
                        self.refuse(node, f"{self.named(atom)} is walked through by the names of its fields")
                    if shape.keys:
                        found.add(OTHER)
                case Site() if atom in self.keys:
                    found |= self.keys[atom] | {OTHER}
                    self.consumers.setdefault(atom, set()).add(None)
                case Site():
                    found |= self.everything(atom)
                case _ if atom != NONE:
                    self.escape(frozenset((atom,)), node, "iterated over")
                    found.add(OTHER)
        return frozenset(found)

    def everything(self, site: Site) -> Value:
        """All that a container may hold."""
        return NOTHING.union(*self.contents.get(site, {}).values())

    def part(self, value: Value, key: Value, node: cst.CSTNode, *, written: cst.BaseExpression | None = None) -> Value:
        """What `value[key]` gives; `written` is what is assigned to it."""
        found: set[Atom] = set()
        for atom in value:
            match atom:
                case Answer():
                    found |= self._part_of_answer(atom, key, node)
                case Site():
                    found |= self._part_of_site(atom, key, node, written)
                case _ if atom != NONE:
                    self.keep(key)
                    if not isinstance(atom, Text) and atom not in (OTHER, PLAIN, SCALAR):
                        self.escape(frozenset((atom,)), node, "used as a container")
                    found.add(OTHER)
        return frozenset(found)

    def _part_of_answer(self, answer: Answer, key: Value, node: cst.CSTNode) -> set[Atom]:
        shape = self.shape(answer)
        found: set[Atom] = set()
        for atom in key:
            text = atom.text if isinstance(atom, Text) else "" if atom == PLAIN else None
            if text is not None:
                child = shape.step(text)
                if child is not None and child.blocked:
                    self.refuse(node, f"{self.named(answer)} is read at `{text}`: {child.blocked}")
                if isinstance(atom, Text):
                    why = f"the field `{text}` in the answer of `{self.function(answer.plan)}` is `{child and child.after}` now"
                    self.want(atom.node, child.after if child else None, why)
                found.add(self.answer(answer.plan, (*answer.path, text)) if child else OTHER)
                continue
            if shape.is_list:
                found.add(self.answer(answer.plan, (*answer.path, ITEM)))
            if shape.keys and (atom != SCALAR or not shape.is_list):
                if shape.keys != ("{}",):
                    self.refuse(node, f"{self.named(answer)} is read by a key that is only known at run time")
                found |= {self.answer(answer.plan, (*answer.path, "{}")), OTHER}
        return found

    def _part_of_site(self, site: Site, key: Value, node: cst.CSTNode, written: cst.BaseExpression | None) -> set[Atom]:
        slots = self.contents.get(site, {})
        found: set[Atom] = set(slots.get(None, NOTHING))
        self.touches.setdefault(site, []).append(Touch(key, written, node))
        for atom in key:
            if isinstance(atom, Text):
                found |= slots.get(atom.text, NOTHING)
                if slots or written is not None:
                    self.want(atom.node, None)
            else:
                found |= self.everything(site)
        return found

    # Leaving what can be followed

    def escape(self, value: Value, node: cst.CSTNode, why: str) -> None:
        """Say that a value goes where it cannot be followed."""
        seen: set[Atom] = set()
        queue = list(value)
        while queue:
            atom = queue.pop()
            if atom in seen:
                continue
            seen.add(atom)
            self.step()
            match atom:
                case Answer():
                    self.refuse(node, f"{self.named(atom)} is {why}")
                case Site():
                    self.consumers.setdefault(atom, set()).add(None)
                    queue += self.everything(atom) | self.keys.get(atom, NOTHING)
                case Text():
                    self.want(atom.node, None)
                case Tool():
                    self._release(atom.plan, node, why)
                case Partial():
                    queue += self.partials.get(atom.node, NOTHING)
                case Getter():
                    queue += NOTHING.union(*(self.kept.get(each, NOTHING) for each in atom.node.args))
                case Package():
                    self.refuse(node, f"the module `{'.'.join(atom.parts)}` is {why}, so its tools cannot be followed")
                case Library(name="builtins.call_tool"):
                    self.refuse(node, f"`call_tool` is {why}, so its calls cannot be followed")
                case Local() if atom.node not in self.escaped:
                    self.escaped.add(atom.node)
                    self.changed = True

    def _release(self, plan: int, node: cst.CSTNode, why: str) -> None:
        if self.signatures[plan].changes or self.shapes[plan].inside or self.shapes[plan].blocked:
            self.refuse(
                node, f"the function `{self.function(plan)}` is {why} as a value, so its calls cannot be followed"
            )

    def refuse(self, node: cst.CSTNode, reason: str) -> None:
        """Say that the code cannot be migrated."""
        self.refused[node, reason] = None

    def reach(self, node: cst.CSTNode, reason: str) -> None:
        """Say that the code cannot be migrated if it uses a tool that changed at all."""
        self.reached[node, reason] = None

    def want(self, node: cst.CSTNode, text: str | None, why: str = "") -> None:
        """Say that a literal or name has to be another one, or (None) that it has to stay."""
        self.texts.setdefault(node, {})[text] = why

    def keep(self, value: Value) -> None:
        """Say that literal texts have to stay."""
        for atom in value:
            if isinstance(atom, Text):
                self.want(atom.node, None)

    # Words

    def function(self, plan: int) -> str:
        """What the code calls a tool."""
        return self.plans[plan].before.function

    def named(self, answer: Answer) -> str:
        """A part of an answer, in words."""
        shape = self.shape(answer)
        names = [f"`{old}` is `{new}`" for old, new in _renamed(shape)] or ["fields changed"]
        return f"the answer of `{self.function(answer.plan)}`, in which {' and '.join(names[:3])} now,"

    def renamed_tool(self, plan: int) -> RenameTool | None:
        """The step that gives a tool another name."""
        return next((step for step in self.plans[plan].steps if isinstance(step, RenameTool)), None)


def _renamed(shape: Shape) -> Iterable[tuple[str, str]]:
    for key, child in shape.inside.items():
        if child.after:
            yield key, child.after
        yield from _renamed(child)


def _bounded(value: Value) -> Value:
    if len(value) > _ATOMS:
        raise TooMuch
    return value


def _words(plans: Sequence[Plan]) -> frozenset[str]:
    """The texts that may name something that changed."""
    words: set[str] = set()
    for plan in plans:
        words |= {plan.before.full_name, plan.before.function, "servers", f"servers.{plan.before.module}"}
        words |= {f"servers.{plan.before.module}.{plan.before.function}", plan.before.module}
        words |= plan.names_before.keys() | plan.names_after.keys()
        words |= {*plan.names_before.values(), *plan.names_after.values()}
        for step in plan.steps:
            for name in ("path", "before", "name"):
                text = getattr(step, name, "")
                words.update(split_path(text) if name == "path" else (text,))
        for obstacle in plan.obstacles:
            words.update(split_path(obstacle.field) if obstacle.side == "output" else (obstacle.field,))
    return frozenset(words)
