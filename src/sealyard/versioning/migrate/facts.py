"""The state of following one piece of code: facts that only grow, and what each round finds.

Code is followed again until no fact grows. The rewriters use what the last round found. A fact is what a container
holds, what flows where, what must be rewritten and what cannot be.
"""

import ast
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from sealyard.code import Names, Variable
from sealyard.versioning.migrate.abstract import (
    ANY_KEY,
    ITEM,
    JUST_NONE,
    JUST_OTHER,
    NONE,
    NOTHING,
    OTHER,
    PLAIN,
    SCALAR,
    Answer,
    Argument,
    Atom,
    Library,
    Local,
    Package,
    Shape,
    Signature,
    Site,
    Text,
    Tool,
    Value,
    arguments_of,
    shapes_of,
)
from sealyard.versioning.plan import Plan, RenameTool, split_path

UNKNOWN = "passed to a function that cannot be analysed"
"""The reason for most values that cannot be followed."""
REFLECTING = frozenset(
    """builtins.eval builtins.exec builtins.compile builtins.globals builtins.locals builtins.vars builtins.__import__
    builtins.__builtins__ importlib.import_module""".split()
)
"""Functions that reach every name."""
_REACHING = frozenset(
    """sys.modules sys._getframe inspect.currentframe inspect.stack pkgutil.resolve_name importlib.__import__
    importlib.util importlib.machinery builtins.__builtins__ gc.get_objects gc.get_referrers""".split()
)
_STEPS = 400_000  # a bound on the work for hostile code: some seconds
_ATOMS = 2_000  # a bound on what one expression may stand for

Slot = str | int | None


class TooMuch(Exception):
    """The code is too large or too tangled to be followed."""


Style = Literal["names", "keys"]
"""The way in which a call gives arguments: by the function's names, or through `call_tool` by the schema's keys."""


class Touch(msgspec.Struct, frozen=True):
    """A place that reads or writes one key of an own container."""

    key: Value
    value: ast.expr | None
    """The expression that is written."""
    node: ast.AST
    call: ast.Call | None = None
    """The call whose keyword `node` is."""


class State:
    """The knowledge about one piece of code that is being followed."""

    def __init__(self, names: Names, plan: Plan) -> None:
        self.names = names
        self.plan = plan
        self.signature = Signature(plan)
        self.answer_shape = shapes_of(plan)
        self.renamed = next((step for step in plan.steps if isinstance(step, RenameTool)), None)
        """The step that gives the tool another name."""
        self.function = plan.before.function
        """The name by which the code calls the tool."""
        module = f"servers.{plan.before.module}"
        self._paths = {plan.before.full_name, module, f"{module}.{self.function}", f"{module}:{self.function}"}
        self.words = _words(plan) | self._paths
        self._arguments: dict[ast.Call, list[Argument]] = {}
        self._steps = _STEPS
        # Facts
        self.changed = True
        self.held: dict[Variable, Value] = {}
        """Everything that each variable ever holds."""
        self.contents: dict[Site, dict[Slot, Value]] = {}
        self.keys: dict[Site, Value] = {}
        """The keys of the containers that are mappings."""
        self.params: dict[ast.arg, Value] = {}
        self.returned: dict[ast.AST, Value] = {}
        self.yielded: dict[ast.AST, Value] = {}
        self.escaped: set[ast.AST] = set()
        """Functions that are called by code which is not followed."""
        self.current = names.module
        """The function or module that is being followed."""
        self.forget()

    def forget(self) -> None:
        """Start a round."""
        self.changed = False
        self.refused: dict[tuple[ast.AST, str], None] = {}
        self.reached: dict[tuple[ast.AST, str], None] = {}
        self.texts: dict[ast.AST, set[str | None]] = {}
        """The new texts of each literal; None: it has to stay."""
        self.calls: dict[ast.Call, set[Style | None]] = {}
        """The ways in which each call may call the tool; None among them: it calls something else."""
        self.given: dict[ast.AST, Value] = {}
        """The value of each argument of the tool."""
        self.consumers: dict[Site, set[Style | None]] = {}
        """The ways in which a mapping gives arguments to the tool; None: another use."""
        self.touches: dict[Site, list[Touch]] = {}
        self.removed: dict[Site, set[str | None]] = {}
        """Keys that are taken out of a mapping; None: any."""
        self.spreads: dict[Site, Value] = {}
        """The values that are unpacked into a mapping."""
        self.imports: list[tuple[ast.Import | ast.ImportFrom, ast.alias, Value]] = []
        self.members: dict[ast.Attribute, Value] = {}
        """Attributes that are, or may be, the tool."""
        self.near = False
        """The code has hold of a module of tools."""
        self.touched = False
        """The code uses the tool."""

    def step(self) -> None:
        """Count work, so that hostile code cannot go on forever."""
        self._steps -= 1
        if self._steps < 0:
            raise TooMuch

    def arguments(self, call: ast.Call) -> list[Argument]:
        """The arguments of a call, in the order of the text."""
        found = self._arguments.get(call)
        if found is None:
            found = self._arguments[call] = arguments_of(call)
        return found

    # Growing

    def grow(self, table: dict[Any, Value], key: Any, value: Value) -> None:
        """Add to a fact."""
        before = table.get(key)
        if before is None or not value <= before:
            table[key] = found = (before or NOTHING) | value
            self.changed = True
            if len(found) > _ATOMS:
                raise TooMuch

    def put(self, site: Site, slot: Slot, value: Value) -> None:
        """Add to what a container holds; slot None: at an unknown place."""
        self.grow(self.contents.setdefault(site, {}), slot, value)

    def make(self, node: ast.AST, slots: Iterable[tuple[Slot, Value]] = (), *, level: int = 0) -> Value:
        """A container that is made at `node`."""
        site = Site(node, level)
        self.contents.setdefault(site, {})
        for slot, value in slots:
            self.put(site, slot, value)
        return frozenset((site,))

    def make_list(self, node: ast.AST, items: Value) -> Value:
        """A list of such items that is made at `node`."""
        return self.make(node, [(None, items)])

    def make_mapping(self, node: ast.AST, slots: Iterable[tuple[Slot, Value]], keys: Value = NOTHING) -> Value:
        """A mapping that is made at `node`."""
        value = self.make(node, slots)
        self.add_keys(Site(node), keys)
        return value

    def add_keys(self, site: Site, keys: Value) -> None:
        """Add to the keys of a mapping. A literal that is one, also through a variable, has to stay."""
        self.keep(keys)
        self.grow(self.keys, site, keys)

    def call_otherwise(self, node: ast.Call) -> None:
        """Note that a call may call something that is not a changed tool."""
        self.calls.setdefault(node, set()).add(None)

    # Answers

    def answer(self, path: tuple[str, ...]) -> Atom:
        """A part of an answer, as far as anything in it changed."""
        shape = self.answer_shape.at(path)
        return Answer(path) if shape is not None and shape.inside else OTHER

    def shape(self, answer: Answer) -> Shape:
        """The changes in a part of an answer."""
        found = self.answer_shape.at(answer.path)
        assert found is not None
        return found

    def children(self, answer: Answer) -> Value:
        """The values that the fields of a part of an answer may be."""
        keys = self.shape(answer).keys
        inside = frozenset(self.answer((*answer.path, key)) for key in keys)
        return inside if keys == (ANY_KEY,) else inside | JUST_OTHER

    # Containers

    def items(self, value: Value, node: ast.AST) -> Value:
        """The values that iterating over a value gives."""
        found: set[Atom] = set()
        for atom in value:
            match atom:
                case Answer():
                    shape = self.shape(atom)
                    if shape.is_list:
                        found.add(self.answer((*atom.path, ITEM)))
                    if shape.keys:
                        if shape.keys != (ANY_KEY,):
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
        """Everything that a container may hold."""
        return NOTHING.union(*self.contents.get(site, {}).values())

    def sequence_slots(self, atom: Atom) -> dict[Slot, Value]:
        """The parts of a list or tuple by position; empty for anything else."""
        return self.contents.get(atom, {}) if isinstance(atom, Site) and atom not in self.keys else {}

    def part(self, value: Value, key: Value, node: ast.AST, *, written: ast.expr | None = None) -> Value:
        """The result of `value[key]`; `written` is the expression assigned to it."""
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

    def _part_of_answer(self, answer: Answer, key: Value, node: ast.AST) -> set[Atom]:
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
                    self.want(atom.node, child.after if child else None)
                found.add(self.answer((*answer.path, text)) if child else OTHER)
                continue
            if shape.is_list:
                found.add(self.answer((*answer.path, ITEM)))
            if shape.keys and (atom != SCALAR or not shape.is_list):
                if shape.keys != (ANY_KEY,):
                    self.refuse(node, f"{self.named(answer)} is read by a key that is only known at run time")
                found |= self.children(answer)
        return found

    def _part_of_site(self, site: Site, key: Value, node: ast.AST, written: ast.expr | None) -> set[Atom]:
        slots = self.contents.get(site, {})
        found: set[Atom] = set(slots.get(None, NOTHING))
        self.touches.setdefault(site, []).append(Touch(key, written, node))
        for atom in key:
            if isinstance(atom, Text):
                found |= slots.get(atom.text, NOTHING)
                if slots:  # an empty mapping, such as a default, may be read under any name
                    self.keep(frozenset((atom,)))
            else:
                found |= self.everything(site)
        return found

    def store(self, site: Site, key: Value, value: Value, written: ast.expr, node: ast.AST) -> None:
        """`site[key] = value`."""
        self.part(frozenset((site,)), key, node, written=written)
        for atom in key:
            self.put(site, atom.text if isinstance(atom, Text) else None, value)
        if site in self.keys:
            self.add_keys(site, key)

    def take_out(self, value: Value, key: Value | None) -> None:
        """Note that a key is deleted from own mappings; None: any key."""
        for site in value:
            if isinstance(site, Site):
                texts = {each.text if isinstance(each, Text) else None for each in key} if key is not None else {None}
                self.removed.setdefault(site, set()).update(texts)

    def listed(self, value: Value, node: ast.Call) -> Value:
        """The items of a value in a list of their own. A list stands for its copy too."""
        lists = frozenset(
            atom
            for atom in value
            if (isinstance(atom, Site) and atom not in self.keys)
            or (isinstance(atom, Answer) and not self.shape(atom).keys)
        )
        rest = value - lists
        return lists | self.make_list(node, self.items(rest, node)) if rest - JUST_NONE else lists

    def spread(self, site: Site, value: Value, node: ast.AST, *, new: bool = True) -> Value:
        """Unpack a value into a mapping and return the answers in it, for which a `new` mapping stands too."""
        answers = frozenset(atom for atom in value if isinstance(atom, Answer)) if new else NOTHING
        value -= answers
        self.spreads[site] = self.spreads.get(site, NOTHING) | value
        for atom in value:
            match atom:
                case Site() if atom in self.keys:
                    for slot, inside in list(self.contents.get(atom, {}).items()):
                        self.put(site, slot, inside)
                    self.grow(self.keys, site, self.keys[atom])
                case _ if atom != NONE:
                    self.escape(frozenset((atom,)), node, "unpacked into another mapping")
                    self.add_keys(site, JUST_OTHER)
                    self.put(site, None, JUST_OTHER)
        return answers

    def put_by_keyword(self, site: Site, argument: Argument, value: Value, node: ast.AST) -> None:
        """A keyword of the call `node` writes a key of a mapping."""
        assert argument.keyword is not None
        assert isinstance(argument.node, ast.keyword)
        self.put(site, argument.keyword, value)
        key = frozenset((Text(argument.node, argument.keyword),))
        call = node if isinstance(node, ast.Call) else None
        self.touches.setdefault(site, []).append(Touch(key, argument.value, argument.node, call))

    def compare(self, one: Value, other: Value, node: ast.AST) -> None:
        """Note a comparison: a value with fields may only be compared with one that has none."""
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

    # Dotted names

    def library(self, name: str, node: ast.AST) -> Library:
        """Something of a library; note what can reach every name."""
        if name in _REACHING:
            self.reach(node, f"`{name}` can reach the tool, and its use cannot be analysed")
        return Library(name)

    def imported(self, dotted: str, node: ast.AST) -> Value:
        """The value of a dotted name that is imported."""
        parts = tuple(dotted.split("."))
        if parts[0] != "servers":
            return frozenset((self.library(dotted, node),))
        if parts == ("servers", "call_tool"):
            return frozenset((Library("builtins.call_tool"),))
        if len(parts) > 4 or (len(parts) == 4 and parts[3] != parts[2]):
            return JUST_OTHER
        if len(parts) < 3:
            self.near = True
            return frozenset((Package(parts),))
        return self._imported_tool(parts)

    def member(self, package: Package, node: ast.Attribute) -> Value:
        """The value of the attribute `node` of a package."""
        name = node.attr
        if name.startswith("__"):
            self.reach(node, f"`{name}` of a module of tools reaches all of them")
            return JUST_OTHER
        parts = (*package.parts, name)
        if len(parts) == 2:
            return self.imported(".".join(parts), node)
        found = self._imported_tool(parts)
        if self.is_tool(found):
            self.members[node] = self.members.get(node, NOTHING) | found
        return found

    def _imported_tool(self, parts: tuple[str, ...]) -> Value:
        if parts[1:3] != (self.plan.before.module, self.function):
            return frozenset((Library(".".join(parts)),))
        self.touched = True
        return frozenset((Tool(),))

    def is_tool(self, value: Value) -> bool:
        """True if a value is the tool and nothing else."""
        return value == {Tool()}

    # Leaving what can be followed

    def escape(self, value: Value, node: ast.AST, why: str) -> None:
        """Note that a value goes where it cannot be followed."""
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
                        self.refuse(node, f"{atom.text!r} is passed to a function that cannot be analysed")
                case Tool():
                    self._release(node, why)
                case Package():
                    self.refuse(node, f"the module `{'.'.join(atom.parts)}` is {why}, so its tools cannot be followed")
                case Library(name="builtins.call_tool"):
                    self.refuse(node, f"`call_tool` is {why}, so its calls cannot be followed")
                case Library(name=name) if name in REFLECTING:
                    self.reach(node, f"`{name.removeprefix('builtins.')}` is {why}, and it can reach the tool")
                case Local():
                    self.leave(atom.node)

    def leave(self, function: ast.AST) -> None:
        """Note that a function is called by code that is not followed."""
        if function not in self.escaped:
            self.escaped.add(function)
            self.changed = True

    def _release(self, node: ast.AST, why: str) -> None:
        if self.signature.changes or self.answer_shape.inside or self.answer_shape.blocked:
            self.refuse(
                node, f"the function `{self.function}` is used as a value ({why}), so its calls cannot be followed"
            )

    def refuse(self, node: ast.AST, reason: str) -> None:
        """Note that the code cannot be migrated."""
        self.refused[node, reason] = None

    def reach(self, node: ast.AST, reason: str) -> None:
        """Note that the code cannot be migrated if it uses a changed tool at all."""
        self.reached[node, reason] = None

    def want(self, node: ast.AST, text: str | None) -> None:
        """Note that a literal has to be another one, or (None) that it has to stay."""
        self.texts.setdefault(node, set()).add(text)

    def keep(self, value: Value) -> None:
        """Note that literal texts have to stay."""
        for atom in value:
            if isinstance(atom, Text):
                self.want(atom.node, None)

    # Words

    def named(self, answer: Answer) -> str:
        """A part of an answer, in words."""
        names = [f"`{old}` is `{new}`" for old, new in _renamed(self.shape(answer))] or ["fields changed"]
        return f"the answer of `{self.function}`, in which {' and '.join(names[:3])} now,"


def _renamed(shape: Shape) -> Iterable[tuple[str, str]]:
    for key, child in shape.inside.items():
        if child.after:
            yield key, child.after
        yield from _renamed(child)


def _words(plan: Plan) -> set[str]:
    """The texts that may name something that changed."""
    words = {plan.before.function, plan.before.module, "servers", *plan.names_before, *plan.names_after}
    words |= {*plan.names_before.values(), *plan.names_after.values()}
    for step in plan.steps:
        for name in ("path", "before", "name"):
            text = getattr(step, name, "")
            words.update(split_path(text) if name == "path" else (text,))
    for obstacle in plan.obstacles:
        words.update(split_path(obstacle.field) if obstacle.side == "output" else (obstacle.field,))
    return words
