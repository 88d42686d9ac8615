"""What variables hold, statement by statement, and what assignments do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import libcst as cst

from sealyard.versioning.migrate.expressions import Expressions
from sealyard.versioning.migrate.scopes import Scope, Scopes, Variable, spelled
from sealyard.versioning.migrate.values import (
    NONE,
    NOTHING,
    OTHER,
    SCALAR,
    Answer,
    Library,
    Package,
    Site,
    Tool,
    Value,
)
from sealyard.versioning.steps import Plan

_OTHER: Value = frozenset((OTHER,))
_SCALAR: Value = frozenset((SCALAR,))
_NONE: Value = frozenset((NONE,))
_KINDS = frozenset("dict list tuple str int float bool".split())

Env = dict[Variable, Value]


class Variables(Expressions):
    """Facts, and what the variables of one function hold at one place of it."""

    def __init__(self, scopes: Scopes, plans: Sequence[Plan]) -> None:
        super().__init__(scopes, plans)
        self.env: Env | None = {}
        """None: this place is never reached."""
        self.current = scopes.module
        self.raising: list[Env] = []
        """What may hold where each `try` around catches an error."""
        self.early = False
        """Whether functions may run before the module has."""
        self.final: Env = {}
        """What the variables of the module hold at its end."""
        self.bound: dict[Variable, cst.Name] = {}
        """The last place that binds a variable."""

    @property
    def frame(self) -> Scope:
        """The function or module that is being followed."""
        return self.current

    def read(self, node: cst.Name) -> Value:
        """What a variable holds here."""
        variable = self.scopes.of.get(node)
        if variable is None:
            return frozenset((self.library(f"builtins.{spelled(node)}", node),))
        if variable.scope.frame is not self.current and variable.scope is self.scopes.module and not self.early:
            return self.final.get(variable, NOTHING)
        if variable.foreign or variable.scope.frame is not self.current:
            return self.held.get(variable, NOTHING)
        found = (self.env or {}).get(variable)
        if found is not None:
            return found
        if variable.scope.kind == "class" and variable.scope.parent is not None:
            outer = self.scopes.find(variable.name, variable.scope.parent)
            if outer is None:
                return frozenset((Library(f"builtins.{variable.name}"),))
            return (self.env or {}).get(outer) or self.held.get(outer, NOTHING)
        if variable.scope.kind == "module":
            return frozenset((Library(f"builtins.{variable.name}"), OTHER))
        return NOTHING

    def bind(self, node: cst.Name, value: Value) -> None:
        """Give a variable a value."""
        variable = self.scopes.of[node]
        self.grow(self.held, variable, value)
        if variable.scope.kind == "class":
            self.escape(value, node, "an attribute of a class")
        self.bound[variable] = node
        if self.env is not None and variable.scope.frame is self.current:
            self.env[variable] = value
        for env in self.raising:
            env[variable] = env.get(variable, NOTHING) | value

    def assign(self, target: cst.CSTNode, value: Value, source: cst.BaseExpression | None) -> None:
        """`target = value`; `source` is the expression on the right, if it is just that."""
        match target:
            case cst.Name():
                self.bind(target, value)
            case cst.Tuple() | cst.List():
                self._unpack(target.elements, value, target)
            case cst.StarredElement():
                self.assign(target.value, value, None)
            case cst.Subscript():
                self._assign_part(target, value, source)
            case cst.Attribute():
                receiver = self.evaluate(target.value)
                self.escape(value, target, "stored in an attribute")
                for atom in receiver:
                    if isinstance(atom, Package | Tool):
                        self.refuse(target, "a tool or its module is changed by an assignment")
            case _:
                self.escape(value, target, "assigned to something that is not followed")

    def _unpack(self, elements: Sequence[cst.BaseElement], value: Value, node: cst.CSTNode) -> None:
        starred = any(isinstance(element, cst.StarredElement) for element in elements)
        for number, element in enumerate(elements):
            found: Value = NOTHING
            for atom in value:
                slots = self.contents.get(atom, {}) if isinstance(atom, Site) and atom not in self.keys else {}
                if not starred and number in slots:
                    found |= slots[number] | slots.get(None, NOTHING)
                else:
                    found |= self.items(frozenset((atom,)), node)
            if isinstance(element, cst.StarredElement):
                self.assign(element.value, self.make(element, [(None, found)]), None)
            else:
                self.assign(element.value, found, None)

    def _assign_part(self, target: cst.Subscript, value: Value, source: cst.BaseExpression | None) -> None:
        receiver, key = self.evaluate(target.value), self.key_of(target)
        for atom in receiver:
            if isinstance(atom, Site) and key is not None:
                self.store(atom, key, value, source or target, target)
            elif isinstance(atom, Site):
                self.put(atom, None, self.items(value, target))
            elif isinstance(atom, Answer):
                held = self.part(frozenset((atom,)), key, target) if key is not None else frozenset((atom,))
                strange = value - held - _NONE - _SCALAR
                if held - _OTHER and strange:
                    self.escape(held | value, target, "replaced by something else")
                else:
                    self.escape(value - held, target, "stored in an answer")
            else:
                self.keep(key or NOTHING)
                self.escape(value, target, "stored in something that is not followed")

    @contextmanager
    def narrowed(self, test: cst.BaseExpression, *, truth: bool) -> Iterator[bool]:
        """Take into account, for a while, what a test says of variables; True if it cannot come out so."""
        before = self.copy_env()
        dead = self.learn_from(test, truth=truth)
        learned = {variable for variable, value in (self.env or {}).items() if before.get(variable) != value}
        yield dead
        if self.env is not None:
            self.env |= {variable: before[variable] for variable in learned if variable in before}

    def learn_from(self, test: cst.BaseExpression, *, truth: bool) -> bool:
        """Narrow what variables hold by `isinstance(x, dict)` and its kin: an answer is what its shape says.

        True if nothing is left that a variable could hold.
        """
        match test:
            case cst.UnaryOperation(operator=cst.Not()):
                return self.learn_from(test.expression, truth=not truth)
            case cst.BooleanOperation() if isinstance(test.operator, cst.And) is truth:
                left = self.learn_from(test.left, truth=truth)
                return self.learn_from(test.right, truth=truth) or left
            case cst.Call(func=cst.Name(value="isinstance"), args=[cst.Arg(value=cst.Name() as name), second]):
                kinds = second.value.elements if isinstance(second.value, cst.Tuple) else [second]
                asked = {each.value.value for each in kinds if isinstance(each.value, cst.Name)}
                variable = self.scopes.of.get(name)
                if variable is None or self.env is None or test.func in self.scopes.of or len(asked) != len(kinds):
                    return False
                if asked <= _KINDS and variable in self.env:
                    held = self.env[variable]
                    wrong = {atom for atom in held if isinstance(atom, Answer) and self._is(atom, asked) is not truth}
                    self.env[variable] = held - wrong or (_OTHER if wrong else held)
                    return held == wrong and bool(wrong)
        return False

    def _is(self, answer: Answer, asked: set[str]) -> bool:
        shape = self.shape(answer)
        return ("list" in asked and shape.is_list) or ("dict" in asked and bool(shape.keys))

    def copy_env(self) -> Env:
        """What holds here, to be changed apart."""
        return dict(self.env or {})


def joined(one: Env | None, other: Env | None) -> Env | None:
    """What holds after either of two ways; None: a way that never gets there."""
    if one is None or other is None:
        return other if one is None else one
    joined = dict(one)
    for variable, value in other.items():
        joined[variable] = joined.get(variable, NOTHING) | value
    return joined
