"""Which variable each name in a piece of code means: Python's scopes over a libcst tree.

libcst's own scopes know no `walrus` in a comprehension and tell no reads from writes; this is what a migration needs.
"""

import dataclasses
import functools
import unicodedata
from collections.abc import Iterator
from typing import Literal

import libcst as cst

_SPACE = (
    *("whitespace", "leading_lines", "lines_after", "header", "footer", "trailing_whitespace", "indent"),
    *("lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "equal", "colon", "semicolon", "operator"),
)
"""How the fields of nodes begin that hold no code."""

_Kind = Literal["module", "class", "function", "comprehension"]


class Scope:
    """A module, class, function or comprehension, and the variables that belong to it."""

    __slots__ = ("elsewhere", "kind", "node", "parent", "variables")

    def __init__(self, kind: _Kind, node: cst.CSTNode, parent: "Scope | None") -> None:
        self.kind = kind
        self.node = node
        self.parent = parent
        self.variables: dict[str, Variable] = {}
        self.elsewhere: dict[str, str] = {}

    @property
    def frame(self) -> "Scope":
        """The function or module in whose run the code of this scope is evaluated."""
        scope = self
        while scope.kind in ("comprehension", "class") and scope.parent is not None:
            scope = scope.parent
        return scope


class Variable:
    """A name of one scope, and every node that reads or binds it."""

    __slots__ = ("binders", "foreign", "name", "nodes", "scope")

    def __init__(self, name: str, scope: Scope) -> None:
        self.name = name
        self.scope = scope
        self.nodes: list[cst.Name] = []
        self.binders: list[cst.CSTNode] = []
        """What binds it: the statement of an import or assignment, or the node that does it otherwise."""
        self.foreign = False
        """Whether a function inside binds it too, so that no order of statements tells what it holds."""


class Scopes:
    """The variables of a module."""

    def __init__(self, module: cst.Module) -> None:
        self.of: dict[cst.Name, Variable] = {}
        """The variable that a name node means; names of built-in things have none."""
        self.scope_of: dict[cst.CSTNode, Scope] = {}
        """Of functions, classes and comprehensions, and of the module."""
        self.spellings: set[str] = set()
        """Every identifier that stands for a variable, an import or a built-in thing."""
        self.bindings: set[str] = set()
        """Every identifier that some scope binds."""
        self.fixed: set[str] = set()
        """Names that a class binds or a statement declares `global` or `nonlocal`: one spelling stands for several."""
        self.generators: set[cst.CSTNode] = set()
        """Functions with a `yield`."""
        self._found: list[tuple[cst.Name, Scope, cst.CSTNode | None]] = []
        self.module = Scope("module", module, None)
        self.scope_of[module] = self.module
        self._children(module, self.module)
        # What is `nonlocal` belongs to a binding that may stand further down.
        for late in (False, True):
            for name, scope, binder in self._found:
                if (scope.elsewhere.get(spelled(name)) == "nonlocal") is late:
                    self._bind(name, scope, binder)
        for name, scope, _ in self._found:
            variable = self.find(spelled(name), scope)
            if variable is not None:
                self.of[name] = variable
                variable.nodes.append(name)

    def find(self, name: str, scope: Scope) -> Variable | None:
        """What `name` means in `scope`; None if nothing binds it."""
        at: Scope | None = scope
        while at is not None:
            place = at.elsewhere.get(name)
            if place == "global":
                return self.module.variables.get(name)
            if place is None and name in at.variables and (at is scope or at.kind != "class"):
                return at.variables[name]
            at = at.parent
        return None

    def _bind(self, name: cst.Name, scope: Scope, binder: cst.CSTNode | None) -> None:
        text = spelled(name)
        self.spellings.add(text)
        if binder is None:
            return
        owner = scope
        place = scope.elsewhere.get(text)
        if place == "global":
            owner = self.module
        elif place == "nonlocal" and scope.parent is not None:
            found = self.find(text, scope.parent)
            owner = found.scope if found is not None else scope
        variable = owner.variables.setdefault(text, Variable(text, owner))
        variable.binders.append(binder)
        self.bindings.add(text)
        if owner.kind == "class":
            self.fixed.add(text)
        if owner.frame is not scope.frame:
            variable.foreign = True

    def _children(self, node: cst.CSTNode, scope: Scope) -> None:
        for child in parts_of(node):
            self._visit(child, scope)

    def _visit(self, node: cst.CSTNode, scope: Scope) -> None:
        match node:
            case cst.Name():
                self._found.append((node, scope, None))
            case cst.Attribute():
                self._visit(node.value, scope)
            case cst.Arg():
                self._visit(node.value, scope)
            case cst.FunctionDef() | cst.Lambda():
                self._visit_function(node, scope)
            case cst.ClassDef():
                self._visit_class(node, scope)
            case cst.ListComp() | cst.SetComp() | cst.GeneratorExp() | cst.DictComp():
                self._visit_comprehension(node, scope)
            case cst.Global() | cst.Nonlocal():
                kind = "global" if isinstance(node, cst.Global) else "nonlocal"
                self.fixed.update(spelled(item.name) for item in node.names)
                if scope.kind != "module":
                    scope.elsewhere.update((spelled(item.name), kind) for item in node.names)
            case cst.Import() | cst.ImportFrom():
                self._visit_import(node, scope)
            case cst.NamedExpr():
                outer = scope
                while outer.kind == "comprehension" and outer.parent is not None:
                    outer = outer.parent
                self._target(node.target, outer, node)
                self._visit(node.value, scope)
            case _:
                self._visit_statement(node, scope)

    def _visit_statement(self, node: cst.CSTNode, scope: Scope) -> None:
        match node:
            case cst.Assign():
                for target in node.targets:
                    self._target(target.target, scope, node)
                self._visit(node.value, scope)
            case cst.AnnAssign():
                self._target(node.target, scope, node if node.value is not None else None)
                self._visit(node.annotation, scope)
                if node.value is not None:
                    self._visit(node.value, scope)
            case cst.AugAssign():
                self._target(node.target, scope, node)
                self._visit(node.value, scope)
            case cst.For():
                self._target(node.target, scope, node)
                for part in (node.iter, node.body, node.orelse):
                    if part is not None:
                        self._visit(part, scope)
            case cst.Del():
                self._target(node.target, scope, node)
            case cst.WithItem() | cst.ExceptHandler() | cst.ExceptStarHandler():
                self._visit_named(node, scope)
            case cst.MatchAs() | cst.MatchStar() | cst.MatchMapping() | cst.MatchClass():
                self._visit_pattern(node, scope)
            case cst.Yield():
                self.generators.add(scope.frame.node)
                self._children(node, scope)
            case cst.TypeAlias():
                self._found.append((node.name, scope, node))
                self._visit(node.value, scope)
            case _:
                self._children(node, scope)

    def _visit_named(self, node: cst.WithItem | cst.ExceptHandler | cst.ExceptStarHandler, scope: Scope) -> None:
        named = node.asname if isinstance(node, cst.WithItem) else node.name
        if named is not None:
            self._target(named.name, scope, node)
        first = node.item if isinstance(node, cst.WithItem) else node.type
        if first is not None:
            self._visit(first, scope)
        if not isinstance(node, cst.WithItem):
            self._visit(node.body, scope)

    def _visit_pattern(
        self, node: cst.MatchAs | cst.MatchStar | cst.MatchMapping | cst.MatchClass, scope: Scope
    ) -> None:
        if isinstance(node, cst.MatchClass):
            self._visit(node.cls, scope)
            for element in (*node.patterns, *(each.pattern for each in node.kwds)):
                self._visit(element, scope)
            return
        named = node.rest if isinstance(node, cst.MatchMapping) else node.name
        if named is not None:
            self._found.append((named, scope, node))
        if isinstance(node, cst.MatchAs) and node.pattern is not None:
            self._visit(node.pattern, scope)
        elif isinstance(node, cst.MatchMapping):
            for item in node.elements:
                self._visit(item, scope)

    def _target(self, node: cst.CSTNode, scope: Scope, binder: cst.CSTNode | None) -> None:
        match node:
            case cst.Name():
                self._found.append((node, scope, binder))
            case cst.Tuple() | cst.List():
                for element in node.elements:
                    self._target(element.value, scope, binder)
            case cst.StarredElement():
                self._target(node.value, scope, binder)
            case _:
                self._visit(node, scope)

    def _visit_import(self, node: cst.Import | cst.ImportFrom, scope: Scope) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            self._found.append((bound_name(alias), scope, node))

    def _visit_function(self, node: cst.FunctionDef | cst.Lambda, scope: Scope) -> None:
        inside = self.scope_of[node] = Scope("function", node, scope)
        params = node.params
        every = [*params.posonly_params, *params.params, *params.kwonly_params]
        every += [each for each in (params.star_arg, params.star_kwarg) if isinstance(each, cst.Param)]
        for param in every:
            self._found.append((param.name, inside, param))
            if param.default is not None:
                self._visit(param.default, scope)
            if param.annotation is not None:
                self._visit(param.annotation, scope)
        if isinstance(node, cst.Lambda):
            self._visit(node.body, inside)
            return
        self._found.append((node.name, scope, node))
        for decorator in node.decorators:
            self._visit(decorator, scope)
        if node.returns is not None:
            self._visit(node.returns, scope)
        self._type_parameters(node.type_parameters, inside)
        self._visit(node.body, inside)

    def _visit_class(self, node: cst.ClassDef, scope: Scope) -> None:
        inside = self.scope_of[node] = Scope("class", node, scope)
        self._found.append((node.name, scope, node))
        for part in (*node.decorators, *node.bases, *node.keywords):
            self._visit(part, scope)
        self._type_parameters(node.type_parameters, inside)
        self._visit(node.body, inside)

    def _type_parameters(self, node: cst.TypeParameters | None, scope: Scope) -> None:
        for each in node.params if node is not None else ():
            self._found.append((each.param.name, scope, each))

    def _visit_comprehension(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, scope: Scope
    ) -> None:
        inside = self.scope_of[node] = Scope("comprehension", node, scope)
        loop: cst.CompFor | None = node.for_in
        around = scope  # the first iterable is evaluated outside
        while loop is not None:
            self._visit(loop.iter, around)
            self._target(loop.target, inside, loop)
            for condition in loop.ifs:
                self._visit(condition.test, inside)
            loop, around = loop.inner_for_in, inside
        parts = [node.key, node.value] if isinstance(node, cst.DictComp) else [node.elt]
        for part in parts:
            self._visit(part, inside)


def parts_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a node is made of, without spaces and punctuation; libcst's own `children` rebuilds them all."""
    for name in _fields(type(node)):
        part = getattr(node, name)
        if isinstance(part, cst.CSTNode):
            yield part
        elif isinstance(part, list | tuple):
            yield from (each for each in part if isinstance(each, cst.CSTNode))


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if not name.startswith(_SPACE))


def spelled(node: cst.Name) -> str:
    """The identifier as Python reads it."""
    return node.value if node.value.isascii() else unicodedata.normalize("NFKC", node.value)


def bound_name(alias: cst.ImportAlias) -> cst.Name:
    """The name node that an import binds: that after `as`, else the first part of a dotted name."""
    named: cst.CSTNode = alias.asname.name if alias.asname is not None else alias.name
    while isinstance(named, cst.Attribute):
        named = named.value
    assert isinstance(named, cst.Name)
    return named
