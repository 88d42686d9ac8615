"""What expressions stand for, and what imports bind."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import libcst as cst

from sealyard.versioning.migrate.library import LibraryCalls
from sealyard.versioning.migrate.scopes import Scope, Scopes, bound_name, spelled
from sealyard.versioning.migrate.values import (
    NONE,
    NOTHING,
    OTHER,
    PLAIN,
    SCALAR,
    Answer,
    Library,
    Local,
    Package,
    Site,
    Text,
    Tool,
    Value,
)
from sealyard.versioning.steps import Plan

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
_NONE: Value = frozenset((NONE,))
_INNARDS = frozenset("__globals__ __builtins__ f_globals f_locals f_builtins gi_frame cr_frame".split())
"""Attributes through which names are reached."""
_MANY = 32
"""Of a longer list the items are not told apart."""


class Expressions(LibraryCalls):
    """Facts, and what expressions and imports add to them."""

    def __init__(self, scopes: Scopes, plans: Sequence[Plan]) -> None:
        self.imports: list[tuple[cst.Import | cst.ImportFrom, cst.ImportAlias, Value]] = []
        self.members: dict[cst.Attribute, Value] = {}
        """Attributes that are, or may be, tools with a plan."""
        super().__init__(scopes, plans)
        self._visits: dict[type, Callable[[Any], Value]] = {
            cst.Attribute: lambda node: self.attribute(node, self.evaluate(node.value)),
            cst.Await: lambda node: self.evaluate(node.expression),
            cst.BinaryOperation: self._binary,
            cst.BooleanOperation: self._boolean,
            cst.Call: self.call,
            cst.Comparison: self._comparison,
            cst.ConcatenatedString: self._text,
            cst.Dict: self._mapping,
            cst.DictComp: self._comprehension,
            cst.Ellipsis: lambda _: _OTHER,
            cst.Float: lambda _: _SCALAR,
            cst.FormattedString: self._formatted,
            cst.GeneratorExp: self._comprehension,
            cst.IfExp: self._if_else,
            cst.Imaginary: lambda _: _SCALAR,
            cst.Integer: lambda _: _SCALAR,
            cst.Lambda: self._lambda,
            cst.List: self._sequence,
            cst.ListComp: self._comprehension,
            cst.Name: self._name,
            cst.NamedExpr: self._walrus,
            cst.Set: self._sequence,
            cst.SetComp: self._comprehension,
            cst.SimpleString: self._text,
            cst.Subscript: self._subscript,
            cst.Tuple: self._sequence,
            cst.UnaryOperation: self._unary,
            cst.Yield: self._yield,
        }

    def forget(self) -> None:
        """Start a round."""
        super().forget()
        self.imports = []
        self.members = {}

    def read(self, node: cst.Name) -> Value:
        """What a variable holds here."""
        raise NotImplementedError

    def bind(self, node: cst.Name, value: Value) -> None:
        """Give a variable a value."""
        raise NotImplementedError

    def learn(self, node: cst.FunctionDef | cst.Lambda, *, outside: bool) -> None:
        """Remember a function."""
        raise NotImplementedError

    @property
    def frame(self) -> Scope:
        """The function or module that is being followed."""
        raise NotImplementedError

    def narrowed(self, test: cst.BaseExpression, *, truth: bool) -> AbstractContextManager[bool]:
        """Take into account, for a while, what a test says of variables; True if it cannot come out so."""
        raise NotImplementedError

    def assign(self, target: cst.CSTNode, value: Value, source: cst.BaseExpression | None) -> None:
        """`target = value`."""
        raise NotImplementedError

    def evaluate(self, node: cst.BaseExpression) -> Value:
        """What an expression may stand for."""
        self.step()
        visit = self._visits.get(type(node))
        if visit is None:
            self.refuse(node, "this expression is not followed")
            return _OTHER
        return visit(node)

    def _name(self, node: cst.Name) -> Value:
        if node.value in ("True", "False"):
            return _SCALAR
        return _NONE if node.value == "None" else self.read(node)

    def _text(self, node: cst.SimpleString | cst.ConcatenatedString) -> Value:
        text = node.evaluated_value
        if isinstance(text, str):
            return frozenset((Text(node, text),))
        if isinstance(node, cst.ConcatenatedString):
            for part in (node.left, node.right):
                self.keep(self.evaluate(part))
        return _OTHER

    def _formatted(self, node: cst.FormattedString) -> Value:
        self._interpolate(node.parts)
        return _OTHER

    def _interpolate(self, parts: Sequence[cst.BaseFormattedStringContent]) -> None:
        for part in parts:
            if isinstance(part, cst.FormattedStringExpression):
                self.escape(self.evaluate(part.expression), part, "put into a text")
                self._interpolate(part.format_spec or ())

    def attribute(self, node: cst.Attribute, receiver: Value) -> Value:
        """What `receiver.name` gives."""
        found: Value = NOTHING
        name = spelled(node.attr)
        if name in _INNARDS:
            self.reach(node, f"`{name}` can reach the tool, and what it is used for is not followed")
        for atom in receiver:
            match atom:
                case Package():
                    found |= self.member(atom, name, node.attr, node)
                case Tool() if name == self.function(atom.plan):
                    self.members[node] = self.members.get(node, NOTHING) | {atom}
                    found |= {atom}
                case Tool():
                    if self.renamed_tool(atom.plan) and name in ("__name__", "__qualname__", "__module__"):
                        self.refuse(node, f"`{name}` of `{self.function(atom.plan)}` gives another name now")
                    found |= _OTHER
                case Library():
                    found |= {self.library(f"{atom.name}.{name}", node)}
                case Answer() | Site():
                    self.escape(frozenset((atom,)), node, "used as an object with attributes")
                    found |= _OTHER
                case _ if atom != NONE:
                    self.keep(frozenset((atom,)))
                    found |= _OTHER
        if node in self.members and not all(isinstance(atom, Package | Tool) for atom in receiver - _NONE):
            self.members[node] |= _OTHER
        return found

    def key_of(self, node: cst.Subscript) -> Value | None:
        """The key in `x[key]`; None if it is a slice."""
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            return self.evaluate(node.slice[0].slice.value)
        for element in node.slice:
            for part in element.slice.children:
                if isinstance(part, cst.BaseExpression):
                    self.evaluate(part)
        return None

    def _subscript(self, node: cst.Subscript) -> Value:
        receiver, key = self.evaluate(node.value), self.key_of(node)
        if key is None:
            return receiver
        place = node.slice[0].slice
        if not isinstance(place, cst.Index) or not isinstance(place.value, cst.Integer):
            return self.part(receiver, key, node)
        found: Value = NOTHING
        for atom in receiver:  # a tuple whose parts are told apart
            slots = self.contents.get(atom, {}) if isinstance(atom, Site) and atom not in self.keys else {}
            number = int(place.value.value, 0) if len(place.value.value) < 5 else -1
            known = number in slots and isinstance(atom, Site)
            found |= slots[number] | slots.get(None, NOTHING) if known else self.part(frozenset((atom,)), key, node)
        return found

    def _comparison(self, node: cst.Comparison) -> Value:
        left = self.evaluate(node.left)
        for target in node.comparisons:
            right = self.evaluate(target.comparator)
            if isinstance(target.operator, cst.In | cst.NotIn):
                self._membership(left, right, node)
            else:
                self.compare(left, right, node)
            left = right
        return _SCALAR

    def _membership(self, key: Value, container: Value, node: cst.Comparison) -> None:
        for atom in container:
            match atom:
                case Answer() if self.shape(atom).keys:
                    self.part(frozenset((atom,)), key, node)
                case Site() if atom in self.keys:
                    self.part(frozenset((atom,)), key, node)
                case Site() | Answer():
                    self.compare(key, self.items(frozenset((atom,)), node), node)
                case _:
                    self.keep(key)

    def _boolean(self, node: cst.BooleanOperation) -> Value:
        left = self.evaluate(node.left)
        with self.narrowed(node.left, truth=isinstance(node.operator, cst.And)):
            right = self.evaluate(node.right)
        if isinstance(node.operator, cst.And):
            self.keep(left)
            return right | _NONE  # on the left stays only what is empty
        return left | right

    def _unary(self, node: cst.UnaryOperation) -> Value:
        self.keep(self.evaluate(node.expression))
        return _SCALAR

    def _binary(self, node: cst.BinaryOperation) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        both = left | right
        lists = frozenset(atom for atom in both if isinstance(atom, Answer | Site))
        if isinstance(node.operator, cst.Add) and lists:
            self.keep(both)
            return self.make(node, [(None, self.items(lists, node) | (_OTHER if OTHER in both else NOTHING))])
        if isinstance(node.operator, cst.Multiply) and lists:
            return lists
        if isinstance(node.operator, cst.BitOr) and lists:
            made = self.make_mapping(node, [])
            for value in (left, right):
                made |= self.spread(Site(node), value, node)
            return made
        self.escape(both, node, "used in a calculation or a text")
        return _OTHER

    def _if_else(self, node: cst.IfExp) -> Value:
        self.evaluate(node.test)
        found = NOTHING
        for part, truth in ((node.body, True), (node.orelse, False)):
            with self.narrowed(node.test, truth=truth) as dead:
                value = self.evaluate(part)
            found |= NOTHING if dead else value
        return found

    def _walrus(self, node: cst.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.assign(node.target, value, node.value)
        return value

    def _yield(self, node: cst.Yield) -> Value:
        value = _NONE
        if isinstance(node.value, cst.From):
            value = self.items(self.evaluate(node.value.item), node)
        elif node.value is not None:
            value = self.evaluate(node.value)
        self.grow(self.yielded, self.frame.node, value)
        if self.frame.node in self.escaped:
            self.escape(value, node, "yielded, and who calls this function would see the new names")
        return _OTHER

    def _lambda(self, node: cst.Lambda) -> Value:
        self.learn(node, outside=False)
        return frozenset((Local(node),))

    def _sequence(self, node: cst.List | cst.Tuple | cst.Set) -> Value:
        told = len(node.elements) <= _MANY and not isinstance(node, cst.Set)
        told = told and not any(isinstance(each, cst.StarredElement) for each in node.elements)
        slots: list[tuple[int | None, Value]] = []
        for number, element in enumerate(node.elements):
            value = self.evaluate(element.value)
            if isinstance(element, cst.StarredElement):
                value = self.items(value, element)
            elif not told:
                value = frozenset(PLAIN if self._is_plain(atom) else atom for atom in value)
            slots.append((number if told else None, value))
        return self.make(node, slots)

    def _is_plain(self, atom: object) -> bool:
        return isinstance(atom, Text) and atom.text not in self.words

    def _mapping(self, node: cst.Dict) -> Value:
        slots: list[tuple[str | None, Value]] = []
        keys: Value = NOTHING
        spread: list[cst.StarredDictElement] = []
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                key, value = self.evaluate(element.key), self.evaluate(element.value)
                texts = [atom.text for atom in key if isinstance(atom, Text)]
                slots.append((texts[0] if len(texts) == len(key) == 1 else None, value))
                keys |= key
            elif isinstance(element, cst.StarredDictElement):
                spread.append(element)
        if len(keys) > _MANY:
            keys = frozenset(PLAIN if self._is_plain(atom) else atom for atom in keys)
        made = self.make_mapping(node, slots, keys)
        for element in spread:
            made |= self.spread(Site(node), self.evaluate(element.value), element)
        return made

    def _comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp) -> Value:
        loop: cst.CompFor | None = node.for_in
        while loop is not None:
            self.assign(loop.target, self.items(self.evaluate(loop.iter), loop.iter), None)
            for condition in loop.ifs:
                self.evaluate(condition.test)
            loop = loop.inner_for_in
        if isinstance(node, cst.DictComp):
            key = self.evaluate(node.key)
            return self.make_mapping(node, [(None, self.evaluate(node.value))], key)
        return self.make(node, [(None, self.evaluate(node.elt))])

    # Imports

    def run_import(self, node: cst.Import) -> None:
        """`import …`."""
        for alias in node.names:
            dotted = alias.evaluated_name
            whole = self.imported(dotted, alias, alias)
            root = dotted.partition(".")[0]
            if alias.asname is not None:
                value = whole
            else:
                value = frozenset((Package(("servers",)) if root == "servers" else Library(root),))
            self.imports.append((node, alias, whole))
            self.bind(bound_name(alias), value)

    def run_import_from(self, node: cst.ImportFrom) -> None:
        """`from … import …`."""
        module = _dotted(node.module) if not node.relative else "."
        if isinstance(node.names, cst.ImportStar):
            self._import_star(node, module)
            return
        for alias in node.names:
            name = spelled(alias.name) if isinstance(alias.name, cst.Name) else ""
            value = self.imported(f"{module}.{name}", alias, alias)
            self.imports.append((node, alias, value))
            self.bind(bound_name(alias), value)

    def _import_star(self, node: cst.ImportFrom, module: str) -> None:
        parts = module.split(".")
        reason = f"`from {module} import *` binds names that the text does not show. Name them"
        own = parts[0] == "servers"
        if own and (len(parts) == 1 or any(plan.before.module == parts[1] for plan in self.plans)):
            self.refuse(node, reason)
        elif not own:
            self.reach(node, reason)

    def imported(self, dotted: str, text_node: cst.CSTNode, node: cst.CSTNode) -> Value:
        """What a dotted name stands for."""
        parts = tuple(dotted.split("."))
        if parts[0] != "servers":
            return frozenset((self.library(dotted, node),))
        if parts == ("servers", "call_tool"):
            return frozenset((Library("builtins.call_tool"),))
        if len(parts) > 4 or (len(parts) == 4 and parts[3] != parts[2]):
            return _OTHER
        if len(parts) < 3:
            self.near = True
            return frozenset((Package(parts),))
        plan = self.by_function.get((parts[1], parts[2]))
        if plan is None:
            return frozenset((Library(dotted),))
        self.touched.add(plan)
        step = self.renamed_tool(plan)
        if step is not None and isinstance(text_node, cst.SimpleString | cst.ConcatenatedString):
            self.want(text_node, f"servers.{step.module}.{step.function}", "the tool has another name")
        return frozenset((Tool(plan),))

    def member(self, package: Package, name: str, name_node: cst.CSTNode, node: cst.CSTNode) -> Value:
        """What `package.name` is."""
        if name.startswith("__"):
            self.reach(node, f"`{name}` of a module of tools reaches all of them")
            return _OTHER
        parts = (*package.parts, name)
        if len(parts) == 2:
            return self.imported(".".join(parts), node, node)
        plan = self.by_function.get((parts[1], parts[2])) if len(parts) == 3 else None
        if plan is None:
            return frozenset((Library(".".join(parts)),))
        self.touched.add(plan)
        step = self.renamed_tool(plan)
        if isinstance(name_node, cst.Name):
            assert isinstance(node, cst.Attribute)
            self.members[node] = self.members.get(node, NOTHING) | {Tool(plan)}
        elif step is not None and step.module != package.parts[1]:
            self.refuse(node, f"the tool is in `servers.{step.module}` now")
        elif step is not None:
            self.want(name_node, step.function, f"the tool is `{step.function}` now")
        return frozenset((Tool(plan),))


def _dotted(node: cst.BaseExpression | None) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{spelled(node.attr)}"
    return spelled(node) if isinstance(node, cst.Name) else ""
