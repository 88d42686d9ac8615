"""What is known while code is followed: what containers hold, what flows where, what must be rewritten and what cannot.

Facts only grow; code is followed again until none did. What is recorded for the rewriting is that of the last round.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst
import msgspec

from sealyard.versioning.migrate.scopes import Scopes, Variable
from sealyard.versioning.migrate.signature import Signature
from sealyard.versioning.migrate.values import (
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
from sealyard.versioning.steps import Plan, RenameField, RenameTool, split_path

UNKNOWN = "passed to a function that is not followed"
"""Where most values go that cannot be followed."""
REFLECTING = frozenset(f"builtins.{n}" for n in "eval exec compile globals locals vars __import__ __builtins__".split())
_REACHING = frozenset(
    """sys.modules sys._getframe inspect.currentframe inspect.stack pkgutil.resolve_name importlib.__import__
    importlib.util importlib.machinery builtins.__builtins__ gc.get_objects gc.get_referrers""".split()
)
_STEPS = 400_000
_ATOMS = 2_000

Slot = str | int | None


class TooMuch(Exception):
    """The code is too large or too tangled to be followed."""


class Use(msgspec.Struct, frozen=True):
    """How a call calls a tool."""

    kind: str
    """`function`, `named` (call_tool), `positional` (no keywords can be given), `mapped` (that, and each further
    argument holds many), `partial`."""
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
    call: cst.Call | None = None
    """The call whose keyword `node` is."""


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
        self._paths = {plan.before.full_name for plan in plans}
        for plan in plans:
            module = f"servers.{plan.before.module}"
            self._paths |= {module, f"{module}.{plan.before.function}", f"{module}:{plan.before.function}"}
        self._targets = {step.after for plan in plans for step in plan.steps if isinstance(step, RenameField)}
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
        self.own: dict[cst.CSTNode, dict[Site, None]] = {}
        """Literals that are keys of own mappings."""
        self.calls: dict[cst.Call, set[Use | None]] = {}
        self.given: dict[cst.Arg, Value] = {}
        self.consumers: dict[Site, set[tuple[str, int] | None]] = {}
        """Whose arguments a mapping is: by the function's names or by the schema's keys; None: something else."""
        self.callers: dict[Site, set[cst.Call]] = {}
        """The calls that get a mapping as their arguments."""
        self.touches: dict[Site, list[Touch]] = {}
        self.removed: dict[Site, set[str | None]] = {}
        """Keys that are taken out of a mapping; None: any."""
        self.spreads: dict[Site, Value] = {}
        """What is unpacked into a mapping."""
        self.near = False
        """Whether the code has hold of a module of tools."""
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

    def children(self, answer: Answer) -> Value:
        """What the fields of a part of an answer may be."""
        keys = self.shape(answer).keys
        inside = frozenset(self.answer(answer.plan, (*answer.path, key)) for key in keys)
        return inside if keys == ("{}",) else inside | {OTHER}

    def items(self, value: Value, node: cst.CSTNode) -> Value:
        """What iterating over a value gives."""
        found: set[Atom] = set()
        for atom in value:
            match atom:
                case Answer():
                    shape = self.shape(atom)
                    if shape.is_list:
                        found.add(self.answer(atom.plan, (*atom.path, ITEM)))
                    if shape.keys:
                        if shape.keys != ("{}",):
                            self.refuse(node, f"{self.named(atom)} is walked through by the names of its fields")
                        found.add(OTHER)
                case Site() if atom in self.keys:
                    found |= self.keys[atom]
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
                if not shape.keys:
                    self.refuse(node, f"{self.named(answer)} is a list, and the code reads it by a name")
                if child is None and any(each.after == text for each in shape.inside.values()):
                    self.refuse(node, f"{self.named(answer)} is asked for `{text}`, which it did not have before")
                if child is not None and child.blocked:
                    self.refuse(node, f"{self.named(answer)} is read at `{text}`: {child.blocked}")
                if isinstance(atom, Text):
                    new = child.after if child else None
                    self.want(
                        atom.node, new, f"`{text}` in the answer of `{self.function(answer.plan)}` is `{new}` now"
                    )
                found.add(self.answer(answer.plan, (*answer.path, text)) if child else OTHER)
                continue
            if shape.is_list:
                found.add(self.answer(answer.plan, (*answer.path, ITEM)))
            if shape.keys and (atom != SCALAR or not shape.is_list):
                if shape.keys != ("{}",):
                    self.refuse(node, f"{self.named(answer)} is read by a key that is only known at run time")
                found |= self.children(answer)
        return found

    def _part_of_site(self, site: Site, key: Value, node: cst.CSTNode, written: cst.BaseExpression | None) -> set[Atom]:
        slots = self.contents.get(site, {})
        found: set[Atom] = set(slots.get(None, NOTHING))
        self.touches.setdefault(site, []).append(Touch(key, written, node))
        for atom in key:
            if isinstance(atom, Text):
                found |= slots.get(atom.text, NOTHING)
                # A key that is never there may be read under any name.
                if written is not None or atom.text in slots or slots.get(None) or not self._targets.isdisjoint(slots):
                    self.own.setdefault(atom.node, {})[site] = None
            else:
                found |= self.everything(site)
        return found

    def take_out(self, value: Value, key: Value | None) -> None:
        """Say that a key is deleted from own mappings; None: any key."""
        for site in value:
            if isinstance(site, Site):
                texts = {each.text if isinstance(each, Text) else None for each in key} if key is not None else {None}
                self.removed.setdefault(site, set()).update(texts)

    def compare(self, one: Value, other: Value, node: cst.CSTNode) -> None:
        """Two values are compared: what has fields may only be compared with what has none."""
        for value, against in ((one, other), (other, one)):
            self.keep(value)
            with_fields = frozenset(atom for atom in value if isinstance(atom, Answer | Site))
            for atom in against:
                harmless = isinstance(atom, Text) or atom in (NONE, SCALAR, PLAIN)
                harmless = harmless or (isinstance(atom, Site) and not self.everything(atom))
                if isinstance(atom, Answer):
                    harmless = all(isinstance(each, Answer) for each in with_fields)
                if not harmless:
                    self.escape(with_fields, node, "compared with something else")

    def library(self, name: str, node: cst.CSTNode) -> Library:
        """Something of a library; what reaches every name is noticed."""
        if name in _REACHING:
            self.reach(node, f"`{name}` can reach the tool, and what it is used for is not followed")
        return Library(name)

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
                    if atom.text in self._paths and why == UNKNOWN:
                        self.refuse(node, f"{atom.text!r} is passed to a function that is not followed")
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
                case Library(name=name) if name in REFLECTING:
                    self.reach(node, f"`{name.removeprefix('builtins.')}` is {why}, and it can reach the tool")
                case Local():
                    self.leave(atom.node)

    def leave(self, function: cst.CSTNode) -> None:
        """Say that a function is called by somebody who is not followed."""
        if function not in self.escaped:
            self.escaped.add(function)
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
