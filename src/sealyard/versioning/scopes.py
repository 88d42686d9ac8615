"""What each name in a piece of code may stand for: scopes as Python has them, imports, and plain rebinding.

The code is hostile text: it is parsed, never compiled or run, and every node is walked once, without recursion. Order
is not looked at, so that a name bound in two ways stands for both.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple

from sealyard.code import MAX_CODE_BYTES, Fault, children, is_larger, read
from sealyard.errors import InvalidSkill

_STEPS = 50
"""How many rebindings and attributes are followed; honest code has fewer, and it bounds the recursion."""
_MEANINGS = 8
"""A name that may stand for more than these is not followed."""

Noted = ast.Import | ast.ImportFrom | ast.Call | ast.Attribute | ast.Name
_Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Places = Iterator[tuple[ast.AST, "Scope"]]


def parse(code: str, *, most_bytes: int = MAX_CODE_BYTES) -> ast.Module:
    """The syntax tree of `code`, which may `await` at its top. All readers of the text share it: change nothing.

    Raises:
        InvalidSkill: It is too large, no Unicode or no Python; the message names the line.
    """
    if is_larger(code, most_bytes):
        raise InvalidSkill(f"The code is larger than {most_bytes:,} bytes. Pass data in as inputs instead.")
    source = read(code)
    if source.fault is not None:
        raise InvalidSkill(_sentence(source.fault))
    assert source.tree is not None
    return source.tree


def _sentence(fault: Fault) -> str:
    place = "" if fault.line is None else f"Line {fault.line}: "
    match fault.kind:
        case "surrogate":
            return f"{place}the code holds half of a surrogate pair. Send it as Unicode."
        case "null":
            return f"{place}the code holds a null byte. Take it out."
        case "size":
            return f"The code is larger than {MAX_CODE_BYTES:,} bytes. Pass data in as inputs instead."
        case "nested":
            return "The code is nested too deeply for Python's parser. Split its expressions."
        case "parser":
            return f"Python's parser fails on this code: {fault.words[:300]}. Simplify it."
    words = fault.words[:300].rstrip(".").encode(errors="replace").decode()
    return f"{place}{fault.error}: {words}. Change the code and try again."


class _Binding(NamedTuple):
    """One way in which a name gets its value: an import, another expression, or anything else."""

    dotted: str | None = None
    value: ast.expr | None = None
    scope: "Scope | None" = None
    """Where the expression stands."""


_OTHER = _Binding()


class Scope:
    """A module, class, function or comprehension, and the names it binds."""

    __slots__ = ("bindings", "elsewhere", "kind", "parent")

    def __init__(self, kind: Literal["module", "class", "function", "comprehension"], parent: "Scope | None") -> None:
        self.kind = kind
        self.parent = parent
        self.bindings: dict[str, list[_Binding]] = {}
        self.elsewhere: dict[str, str] = {}
        """Names that a statement declares to be `global` or `nonlocal`."""


class Names:
    """A syntax tree, walked."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", None)
        self.noted: list[tuple[Noted, Scope]] = []
        """Imports, calls, attributes and names, each before the nodes that it is made of."""
        self.inner: set[int] = set()
        """Nodes that a noted attribute or a followed rebinding speaks for."""
        self.stars: list[int] = []
        """Lines of `from … import *`, which bind nobody knows what."""
        self._scopes = [self.module]
        self._known: dict[tuple[int, str], frozenset[str | None]] = {}
        self._walk(tree)
        for scope in self._scopes:
            self._move(scope)

    # Questions

    def find_scope(self, name: str, scope: Scope) -> Scope | None:
        """The scope whose binding a name in `scope` means; None if nothing binds it."""
        if scope.elsewhere.get(name) == "global":
            return self.module if name in self.module.bindings else None
        at: Scope | None = scope
        while at is not None:
            if name in at.bindings and (at is scope or at.kind != "class"):  # a class is not around its methods
                return at
            at = at.parent
        return None

    def meanings(self, node: ast.expr, scope: Scope, steps: int = _STEPS) -> frozenset[str | None]:
        """The dotted names that an expression may stand for: `e.pay` is `servers.bank.pay` after `import … as e`.

        None among them: something else. A name that nothing binds is one of `builtins`.
        """
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not steps or len(attributes) > _STEPS:
            return frozenset((None,))
        if isinstance(node, ast.Name):
            roots = self._meanings_of(node.id, scope, steps - 1)
        else:
            roots = frozenset((self.imported(node, scope, steps - 1),))
        if not attributes:
            return roots
        rest = ".".join(reversed(attributes))
        return frozenset(root if root is None else f"{root}.{rest}" for root in roots)

    def imported(self, node: ast.AST, scope: Scope, steps: int = _STEPS) -> str | None:
        """The module that a call such as `import_module("servers.bank")` gives; None for any other expression."""
        if not isinstance(node, ast.Call) or not node.args or not steps:
            return None
        text = self.text(node.args[0], scope)
        if text is None:
            return None
        match self.meanings(node.func, scope, steps - 1):
            case found if found == {"importlib.import_module"}:
                return text
            case found if found == {"builtins.__import__"}:
                return text.partition(".")[0]
        return None

    def text(self, node: ast.expr, scope: Scope) -> str | None:
        """The text that an expression is: a literal, or a name that stands for one and nothing else."""
        for _ in range(_STEPS):
            if isinstance(node, ast.Constant):
                return node.value if isinstance(node.value, str) else None
            if not isinstance(node, ast.Name):
                return None
            found = self.find_scope(node.id, scope)
            bindings = [] if found is None else found.bindings[node.id]
            only = bindings[0] if len(bindings) == 1 else _OTHER
            if only.value is None or only.scope is None:
                return None
            node, scope = only.value, only.scope
        return None

    def _meanings_of(self, name: str, scope: Scope, steps: int) -> frozenset[str | None]:
        found = self.find_scope(name, scope)
        if found is None:
            return frozenset((f"builtins.{name}",))
        key = id(found), name
        if key not in self._known:
            self._known[key] = frozenset((None,))  # for a name that stands for itself, while that is found out
            meanings: set[str | None] = set()
            for binding in found.bindings[name]:
                if binding.value is not None and binding.scope is not None:
                    meanings |= self.meanings(binding.value, binding.scope, steps)
                else:
                    meanings.add(binding.dotted)
                if len(meanings) > _MEANINGS:
                    meanings = {None}
                    break
            self._known[key] = frozenset(meanings)
        return self._known[key]

    # The walk

    def _walk(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        while stack:
            node, scope = stack.pop()
            visit = self._VISITS.get(type(node))
            if visit is not None:
                stack.extend(visit(self, node, scope))
            else:
                name = getattr(node, "name", None)
                if isinstance(name, str):  # a type parameter; an alias of an import never gets here
                    self._bind(name, _OTHER, scope)
                stack.extend([(child, scope) for child in children(node)])

    def _open(self, kind: Literal["class", "function", "comprehension"], parent: Scope) -> Scope:
        self._scopes.append(Scope(kind, parent))
        return self._scopes[-1]

    def _bind(self, name: str, binding: _Binding, scope: Scope) -> None:
        bindings = scope.bindings.setdefault(name, [])
        if binding not in bindings[:_MEANINGS]:
            bindings.append(binding)

    def _move(self, scope: Scope) -> None:
        """Give the bindings of names that are declared `global` or `nonlocal` to the scope that they belong to."""
        for name, kind in scope.elsewhere.items():
            bindings = scope.bindings.pop(name, [])
            owner: Scope | None = self.module
            if kind == "nonlocal" and scope.parent is not None:
                owner = self.find_scope(name, scope.parent)
            for binding in bindings:
                self._bind(name, binding, owner or self.module)

    def _visit_name(self, node: ast.Name, scope: Scope) -> _Places:
        if isinstance(node.ctx, ast.Load):
            self.noted.append((node, scope))
        else:
            self._bind(node.id, _OTHER, scope)
        return iter(())

    def _visit_attribute(self, node: ast.Attribute, scope: Scope) -> _Places:
        self.noted.append((node, scope))
        self.inner.add(id(node.value))
        yield node.value, scope

    def _visit_call(self, node: ast.Call, scope: Scope) -> _Places:
        self.noted.append((node, scope))
        return ((child, scope) for child in children(node))

    def _visit_assignment(self, node: ast.Assign | ast.AnnAssign, scope: Scope) -> _Places:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        if isinstance(node, ast.AnnAssign):
            yield node.annotation, scope
        if value is None:  # `x: int` alone binds nothing
            return
        yield value, scope
        # An attribute of a class is reached by ways that are not followed, so its value counts as passed on.
        if scope.kind != "class" and all(isinstance(target, ast.Name) for target in targets):
            self.inner.add(id(value))
        for target in targets:
            if isinstance(target, ast.Name):
                self._bind(target.id, _Binding(None, value, scope), scope)
            else:
                yield target, scope

    def _visit_augmented(self, node: ast.AugAssign, scope: Scope) -> _Places:
        yield node.value, scope
        yield node.target, scope
        if isinstance(node.target, ast.Name):
            self.noted.append((node.target, scope))  # it is read too

    def _visit_walrus(self, node: ast.NamedExpr, scope: Scope) -> _Places:
        yield node.value, scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        yield node.target, scope

    def _visit_named(self, node: ast.MatchAs | ast.MatchStar | ast.ExceptHandler, scope: Scope) -> _Places:
        if node.name is not None:
            self._bind(node.name, _OTHER, scope)
        return ((child, scope) for child in children(node))

    def _visit_rest(self, node: ast.MatchMapping, scope: Scope) -> _Places:
        if node.rest is not None:
            self._bind(node.rest, _OTHER, scope)
        return ((child, scope) for child in children(node))

    def _visit_declaration(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> _Places:
        if scope.kind != "module":
            kind = "global" if isinstance(node, ast.Global) else "nonlocal"
            scope.elsewhere.update(dict.fromkeys(node.names, kind))
        return iter(())

    def _visit_import(self, node: ast.Import, scope: Scope) -> _Places:
        self.noted.append((node, scope))
        for alias in node.names:
            root = alias.name.partition(".")[0]
            self._bind(alias.asname or root, _Binding(alias.name if alias.asname else root), scope)
        return iter(())

    def _visit_import_from(self, node: ast.ImportFrom, scope: Scope) -> _Places:
        self.noted.append((node, scope))
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(node.lineno)
            else:
                dotted = None if node.level else f"{node.module}.{alias.name}"
                self._bind(alias.asname or alias.name, _Binding(dotted), scope)
        return iter(())

    def _enter_function(self, node: _Functions, scope: Scope) -> _Places:
        inside = self._open("function", scope)
        yield from ((default, scope) for default in (*node.args.defaults, *node.args.kw_defaults) if default)
        for argument in _arguments(node.args):
            self._bind(argument.arg, _OTHER, inside)
            if argument.annotation is not None:
                yield argument.annotation, scope
        if isinstance(node, ast.Lambda):
            yield node.body, inside
            return
        self._bind(node.name, _OTHER, scope)
        yield from ((each, scope) for each in (*node.decorator_list, *getattr(node, "type_params", ())))
        if node.returns is not None:
            yield node.returns, scope
        yield from ((statement, inside) for statement in node.body)

    def _enter_class(self, node: ast.ClassDef, scope: Scope) -> _Places:
        self._bind(node.name, _OTHER, scope)
        inside = self._open("class", scope)
        outside = (*node.decorator_list, *node.bases, *node.keywords, *getattr(node, "type_params", ()))
        yield from ((each, scope) for each in outside)
        yield from ((statement, inside) for statement in node.body)

    def _enter_comprehension(self, node: _Comprehension, scope: Scope) -> _Places:
        inside = self._open("comprehension", scope)
        yield node.generators[0].iter, scope  # evaluated once, outside
        for number, generator in enumerate(node.generators):
            yield generator.target, inside
            yield from ((condition, inside) for condition in generator.ifs)
            if number:
                yield generator.iter, inside
        if isinstance(node, ast.DictComp):
            yield node.key, inside
            yield node.value, inside
        else:
            yield node.elt, inside

    _VISITS: ClassVar[dict[type[ast.AST], Callable[["Names", Any, Scope], _Places]]] = {
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _enter_function),
        **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _enter_comprehension),
        **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.ExceptHandler), _visit_named),
        **dict.fromkeys((ast.Global, ast.Nonlocal), _visit_declaration),
        **dict.fromkeys((ast.Assign, ast.AnnAssign), _visit_assignment),
        ast.Attribute: _visit_attribute,
        ast.AugAssign: _visit_augmented,
        ast.Call: _visit_call,
        ast.ClassDef: _enter_class,
        ast.Import: _visit_import,
        ast.ImportFrom: _visit_import_from,
        ast.MatchMapping: _visit_rest,
        ast.Name: _visit_name,
        ast.NamedExpr: _visit_walrus,
    }
    """What each kind of node does to the names; all others are only walked through."""


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)
