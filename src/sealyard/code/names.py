"""The names in a piece of code: scopes as Python has them, what binds each name, and what surrounds each node.

The tree is walked once, without recursion, so hostile code costs time linear in its length. The order of statements
does not count: a name that is bound in two ways stands for both.
"""

import ast
import builtins
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

STEPS = 50
"""Rebindings and attributes that are followed. Honest code has fewer; the bound limits recursion and cost."""
_MEANINGS = 8
"""A name that may stand for more things than these is not followed."""
_LEAVES = frozenset(
    "arg asname attr conversion ctx id is_async kind level module names op ops rest simple type_comment"
    " type_ignores".split()
)
"""Fields without a node, or with one that says nothing by itself: half of all nodes. Imports are read as a whole."""
_IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_PASSING = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, BaseException)
    and not issubclass(NameError, kind)
    and not issubclass(kind, BaseExceptionGroup)  # it may hold a `NameError`
) | {"ToolError"}
"""Exceptions whose handlers let a `NameError` pass."""
_CONSUMERS = frozenset("all any bytes dict frozenset list max min set sorted sum tuple".split())
"""Built-in functions that use up a generator expression at once."""
_LOOKERS = frozenset(
    "__annotations__ __builtins__ __dict__ __globals__ __main__ __value__ _getframe doctest eval exec f_back f_builtins"
    " f_globals f_locals gc get_type_hints globals inspect locals modules timeit".split()
)
"""Names, attributes and modules by which code finds out which names there are, or runs text that names them."""
_AWAITS = {ast.Await: "await", ast.AsyncFor: "async for", ast.AsyncWith: "async with"}

_TYPE_PARAMETERS: tuple[type[ast.AST], ...] = tuple(
    getattr(ast, kind) for kind in ("TypeVar", "ParamSpec", "TypeVarTuple") if hasattr(ast, kind)
)
"""Nodes of Python 3.12 and later."""

Noted = ast.Import | ast.ImportFrom | ast.Call | ast.Attribute | ast.Name | ast.BinOp
_Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Kind = Literal["module", "class", "function", "coroutine", "comprehension"]


class Scope:
    """A module, class, function or comprehension, and the variables that belong to it."""

    __slots__ = ("elsewhere", "kind", "node", "parent", "variables")

    def __init__(self, kind: _Kind, node: ast.AST, parent: "Scope | None") -> None:
        self.kind = kind
        self.node = node
        self.parent = parent
        self.variables: dict[str, Variable] = {}
        self.elsewhere: dict[str, str] = {}
        """Names that a statement declares `global` or `nonlocal`."""

    @property
    def frame(self) -> "Scope":
        """The function or module in whose run the code of this scope is evaluated."""
        scope = self
        while scope.kind in ("comprehension", "class") and scope.parent is not None:
            scope = scope.parent
        return scope


class Binding(NamedTuple):
    """One way in which a name gets its value: an import, another expression, or anything else."""

    dotted: str | None = None
    value: ast.expr | None = None
    scope: Scope | None = None
    """The scope of the expression."""


_OTHER = Binding()
_UNKNOWN: frozenset[str | None] = frozenset((None,))


class Variable:
    """A name of one scope, and everything that binds it."""

    __slots__ = ("binders", "bindings", "foreign", "meanings", "name", "nodes", "scope")

    def __init__(self, name: str, scope: Scope) -> None:
        self.name = name
        self.scope = scope
        self.binders: list[ast.AST] = []
        """The statement of each import or plain assignment, or the node that binds it otherwise."""
        self.bindings: list[Binding] = []
        """Different ones, as far as they are followed."""
        self.meanings: frozenset[str | None] | None = None
        """The dotted names that it may stand for, once `Names` has found them."""
        self.nodes: list[ast.AST] = []
        """Every node that reads or binds it; filled when `Names.of` is first asked for."""
        self.foreign = False
        """True if a function inside binds it too, so that no order of statements shows what it holds."""


class Loop:
    """A `for` or `while` statement. `is_left` is true if anything in it can end it."""

    __slots__ = ("is_left", "outer")

    def __init__(self, outer: "Loop | None") -> None:
        self.outer = outer
        self.is_left = False


class Place(NamedTuple):
    """The surroundings of a node."""

    scope: Scope
    loop: Loop | None = None
    depth: int = 0
    """Loops around the node, comprehensions included."""
    is_called: bool = False
    """Inside a function, which may run any number of times."""
    is_optional: bool = False
    """The code expects that an import may fail here."""
    is_caught: bool = False
    """The code handles exceptions raised here, and one may be what ends a loop."""
    is_guarded: bool = False
    """A `NameError` that is raised here may go no further, as far as the function around it shows."""


_Found = tuple[ast.AST, str, Scope, ast.AST | None, Binding]
_Inside = Mapping[str, Place]
"""The place of a node's fields, where it is not the node's own."""
_SAME: _Inside = {}


class Names:
    """A syntax tree, walked. `Source.names` shares one among all readers of a text."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.module = Scope("module", tree, None)
        self.noted: list[tuple[Noted, Place]] = []
        """Imports, calls, attributes, loads of names and operations, each before the nodes that it is made of."""
        self.owners: set[int] = set()
        """The id of each node whose attribute is taken."""
        self.indexed: set[int] = set()
        """The id of each node whose item is taken."""
        self.rebound: set[int] = set()
        """The id of each expression whose value gets another name."""
        self.stars: list[int] = []
        """The lines of `from … import *`, which bind unknown names."""
        self.imports: set[str] = set()
        """The modules that import statements name."""
        self.misplaced: list[tuple[ast.expr | ast.stmt, str]] = []
        """Statements in places that Python does not allow, with its own message."""
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        """The scope of each function, class and comprehension, and of the module."""
        self.generators: set[ast.AST] = set()
        """Functions with a `yield`."""
        self.fixed: set[str] = set()
        """Names that a class binds or a statement declares: one spelling stands for several things."""
        self._awaited: set[int] = set()
        """The id of each expression whose coroutine runs to its end at once."""
        self._consumed: set[int] = set()
        """The id of each generator expression that runs to its end at once."""
        self._relied: set[str] = set()
        """Names that the two above and `Place.is_guarded` take for Python's own."""
        self._found: list[_Found] = []
        self._endless: list[tuple[ast.While, Loop]] = []
        self._open: set[Variable] = set()
        self._lock = threading.RLock()
        self._walk(tree)
        # A `nonlocal` name belongs to a binding that may stand further down.
        for late in (False, True):
            for _, name, scope, binder, binding in self._found:
                if binder is not None and (scope.elsewhere.get(name) == "nonlocal") is late:
                    self._bind(name, scope, binder, binding)
            if not any(scope.elsewhere for scope in self.scopes.values()):
                break

    # Questions

    @functools.cached_property
    def of(self) -> dict[ast.AST, Variable]:
        """The variable that each name, parameter, alias or definition means; names of built-in things have none."""
        found: dict[ast.AST, Variable] = {}
        for node, name, scope in self._occurrences():
            variable = self.find(name, scope)
            if variable is not None:
                found[node] = variable
                variable.nodes.append(node)
        return found

    @functools.cached_property
    def spellings(self) -> frozenset[str]:
        """Every identifier that stands for a variable, an import or a built-in thing."""
        return frozenset(name for _, name, _ in self._occurrences())

    @functools.cached_property
    def bound(self) -> frozenset[str]:
        """Every identifier that some scope binds."""
        return frozenset(name for _, name, _, _, _ in self._found)

    @functools.cached_property
    def unbound(self) -> dict[str, ast.Name]:
        """The first reading of each name that nothing binds, such as a built-in one, in the order of the text.

        Empty after `import *`, which may bind any name.
        """
        found: dict[str, ast.Name] = {}
        for node, scope in [] if self.stars else self.loads():
            if isinstance(node.ctx, ast.Load) and self.find(node.id, scope) is None:
                earlier = found.get(node.id)
                if earlier is None or _place(node) < _place(earlier):
                    found[node.id] = node
        return dict(sorted(found.items(), key=lambda item: _place(item[1])))

    def missed(self, unbound: set[str]) -> set[str]:
        """Those of the names, which nothing may bind, whose every reading would end the run with a `NameError`.

        Code that works without such a name works the same with it. That is not so for a name in a place where the
        error may be caught, in a function that is more than called, or beside something that looks for names.
        """
        own = {name for _, name, _, _, binding in self._found if binding.dotted != "asyncio"}
        if not own.isdisjoint(self._relied) or self._looks_for_names():
            return set()
        unnoticed = self._unnoticed()
        return unbound - {
            node.id
            for node, place in self.noted
            if isinstance(node, ast.Name)
            and node.id in unbound
            and (place.is_guarded or self._runner(place.scope) in unnoticed)
        }

    def _looks_for_names(self) -> bool:
        """True if the code may find out which names there are by other means than reading them."""
        harmless = {
            id(node.func) for node, _ in self.noted if isinstance(node, ast.Call) and (node.args or node.keywords)
        }  # `dir(x)` and `vars(x)` are about `x`
        for node, _ in self.noted:
            match node:
                case ast.Name(id="dir" | "vars"):
                    found = id(node) not in harmless
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    found = name in _LOOKERS
                case ast.Import() | ast.ImportFrom():
                    found = any(not _LOOKERS.isdisjoint(alias.name.split(".")) for alias in node.names)
                case _:
                    found = False
            if found:
                return True
        return False

    def _runner(self, scope: Scope) -> ast.AST:
        """The function, the generator expression or the module that evaluates the code of a scope."""
        while scope.parent is not None:
            if scope.kind in ("function", "coroutine"):
                break
            if isinstance(scope.node, ast.GeneratorExp) and id(scope.node) not in self._consumed:
                break
            scope = scope.parent
        return scope.node

    def _unnoticed(self) -> set[ast.AST]:
        """Functions and generator expressions that may fail without ending the run.

        All others are functions that are called by name, and nothing else, where the error passes.
        """
        called = {id(node.func): node for node, _ in self.noted if isinstance(node, ast.Call)}
        functions: dict[Variable, ast.AST] = {}
        found: list[ast.AST] = []
        for node, scope in self.scopes.items():
            variable = None
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.parent is not None:
                variable = self.find(node.name, scope.parent)
                if scope.parent.kind == "class" or node.decorator_list or node in self.generators:
                    variable = None
            if variable is not None and variable.binders == [node]:
                functions[variable] = node
            elif isinstance(node, _Functions | ast.GeneratorExp):
                found.append(node)
        callers: dict[ast.AST, list[ast.AST]] = {}
        for node, place in self.noted:
            variable = self.find(node.id, place.scope) if isinstance(node, ast.Name) else None
            function = functions.get(variable) if variable is not None else None
            if function is None:
                continue
            call = called.get(id(node))
            is_run = call is not None and (isinstance(function, ast.FunctionDef) or id(call) in self._awaited)
            if is_run and not place.is_guarded:
                callers.setdefault(self._runner(place.scope), []).append(function)
            else:
                found.append(function)
        unnoticed: set[ast.AST] = set()
        while found:
            node = found.pop()
            if node not in unnoticed:
                unnoticed.add(node)
                found += callers.get(node, ())
        return unnoticed

    def _occurrences(self) -> Iterator[tuple[ast.AST, str, Scope]]:
        yield from ((node, name, scope) for node, name, scope, _, _ in self._found)
        loads = ((node, scope) for node, scope in self.loads() if isinstance(node.ctx, ast.Load))
        yield from ((node, node.id, scope) for node, scope in loads)

    def find(self, name: str, scope: Scope) -> Variable | None:
        """The variable that `name` means in `scope`; None if nothing binds it."""
        at: Scope | None = scope
        while at is not None:
            place = at.elsewhere.get(name)
            if place == "global":
                return self.module.variables.get(name)
            # A class is not around its methods.
            if place is None and name in at.variables and (at is scope or at.kind != "class"):
                return at.variables[name]
            at = at.parent
        return None

    def loads(self) -> Iterator[tuple[ast.Name, Scope]]:
        """The names that are read, each with its scope."""
        return ((node, place.scope) for node, place in self.noted if isinstance(node, ast.Name))

    def meaning(self, node: ast.expr, scope: Scope) -> str | None:
        """The one dotted name that an expression stands for; None if there is none, or more than one."""
        if isinstance(node, ast.Name):
            variable = self.find(node.id, scope)
            if variable is None:
                return f"builtins.{node.id}"
            meanings = self._meanings_of(variable, STEPS)
        else:
            meanings = self.meanings(node, scope)
        return next(iter(meanings)) if len(meanings) == 1 else None

    def meanings(self, node: ast.expr, scope: Scope, steps: int = STEPS) -> frozenset[str | None]:
        """The dotted names that an expression may stand for: `e.pay` is `servers.bank.pay` after `import … as e`.

        None among them means something else. A name that nothing binds is one of `builtins`.
        """
        attributes: list[str] = []
        while isinstance(node, ast.Attribute) and len(attributes) <= STEPS:
            attributes.append(node.attr)
            node = node.value
        if not steps or len(attributes) > STEPS:
            return _UNKNOWN
        if isinstance(node, ast.Name):
            variable = self.find(node.id, scope)
            builtin = f"builtins.{node.id}"
            roots = frozenset((builtin,)) if variable is None else self._meanings_of(variable, steps - 1)
        else:
            roots = frozenset((self.imported(node, scope, steps - 1),))
        if not attributes:
            return roots
        rest = ".".join(reversed(attributes))
        return frozenset(root if root is None else f"{root}.{rest}" for root in roots)

    def imported(self, node: ast.AST, scope: Scope, steps: int = STEPS) -> str | None:
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
        for _ in range(STEPS):
            if isinstance(node, ast.Constant):
                return node.value if isinstance(node.value, str) else None
            variable = self.find(node.id, scope) if isinstance(node, ast.Name) else None
            if variable is None or len(variable.bindings) != 1:
                return None
            binding = variable.bindings[0]
            if binding.value is None or binding.scope is None:
                return None
            node, scope = binding.value, binding.scope
        return None

    def called_tool(self, node: ast.Call, scope: Scope) -> str | None:
        """The tool that `call_tool(name, …)` or `call_mcp_tool(server, tool, …)` calls, if the text spells it out."""
        given = {word.arg: word.value for word in node.keywords}
        first = node.args[0] if node.args else given.get("name", given.get("server"))
        name = None if first is None else self.text(first, scope)
        if name is None or self.meaning(node.func, scope) != "builtins.call_mcp_tool":
            return name
        second = node.args[1] if len(node.args) > 1 else given.get("tool")
        if second is None or isinstance(second, ast.Dict):
            return name
        tool = self.text(second, scope)
        return name if name.startswith("mcp__") else tool and f"{name}.{tool}"

    def endless_loops(self) -> list[ast.While]:
        """`while True` without anything that could end it."""
        return [node for node, loop in self._endless if not loop.is_left]

    def _meanings_of(self, variable: Variable, steps: int) -> frozenset[str | None]:
        if variable.meanings is not None:
            return variable.meanings
        with self._lock:  # threads share the table
            if variable in self._open:
                return _UNKNOWN  # it stands for itself
            self._open.add(variable)
            meanings: set[str | None] = set()
            for binding in variable.bindings:
                if binding.value is not None and binding.scope is not None:
                    meanings |= self.meanings(binding.value, binding.scope, steps)
                else:
                    meanings.add(binding.dotted)
                if len(meanings) > _MEANINGS:
                    meanings = {None}
                    break
            variable.meanings = frozenset(meanings)
            self._open.discard(variable)
            return variable.meanings

    def _bind(self, name: str, scope: Scope, binder: ast.AST, binding: Binding) -> None:
        owner = scope
        place = scope.elsewhere.get(name)
        if place == "global":
            owner = self.module
        elif place == "nonlocal" and scope.parent is not None:
            found = self.find(name, scope.parent)
            owner = found.scope if found is not None else self.module
        variable = owner.variables.get(name)
        if variable is None:
            variable = owner.variables[name] = Variable(name, owner)
        variable.binders.append(binder)
        if binding not in variable.bindings[:_MEANINGS]:
            variable.bindings.append(binding)
        if owner.kind == "class":
            self.fixed.add(name)
        if owner is not scope and owner.frame is not scope.frame:
            variable.foreign = True

    # The walk

    def _walk(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Place]] = [(tree, Place(self.module))]
        while stack:
            node, place = stack.pop()
            kind = type(node)
            enter = self._ENTERS.get(kind)
            if enter is not None:
                stack.extend(enter(self, node, place))
                continue
            visit = self._VISITS.get(kind)
            inside = visit(self, node, place) if visit is not None else _SAME
            for field in _fields_of(kind):
                value = getattr(node, field, None)
                if value is None:
                    continue
                below = inside.get(field, place) if inside else place
                if isinstance(value, list):
                    stack.extend([(child, below) for child in value if isinstance(child, ast.AST)])
                elif isinstance(value, ast.AST):
                    stack.append((value, below))

    def _note_binding(
        self, node: ast.AST, name: str, scope: Scope, binder: ast.AST | None = None, binding: Binding = _OTHER
    ) -> None:
        self._found.append((node, name, scope, binder or node, binding))

    # Nodes whose children stand at their own place

    def _visit_noted(self, node: Noted, place: Place) -> _Inside:
        self.noted.append((node, place))
        return _SAME

    def _visit_name(self, node: ast.Name, place: Place) -> _Inside:
        if isinstance(node.ctx, ast.Load):
            self.noted.append((node, place))
        else:
            self._found.append((node, node.id, place.scope, node, _OTHER))
        return _SAME

    def _visit_attribute(self, node: ast.Attribute, place: Place) -> _Inside:
        self.owners.add(id(node.value))
        self.noted.append((node, place))
        return _SAME

    def _visit_subscript(self, node: ast.Subscript, place: Place) -> _Inside:
        self.indexed.add(id(node.value))
        return _SAME

    def _visit_call(self, node: ast.Call, place: Place) -> _Inside:
        if _last_name(node.func) in ("next", "exit", "quit", "_exit"):
            _leave(place)
        self.noted.append((node, place))
        self._note_run(node)
        return _SAME

    def _note_run(self, node: ast.Call) -> None:
        """Note the arguments that have run to their end when the call is over."""
        match node.func:
            case ast.Name(id=name) if name in _CONSUMERS:
                self._relied.add(name)
                self._consumed.update(map(id, node.args))
            case ast.Attribute(value=ast.Name("asyncio"), attr="run"):
                self._await(node.args)
            case ast.Attribute(value=ast.Name("asyncio"), attr="gather") if id(node) in self._awaited:
                self._await([] if node.keywords else node.args)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self._consumed.add(id(argument.value))

    def _await(self, arguments: list[ast.expr]) -> None:
        """Note coroutines that `asyncio` runs to their end."""
        self._relied.add("asyncio")
        for argument in arguments:
            match argument:
                case ast.Starred(value=ast.ListComp(elt=each) | ast.GeneratorExp(elt=each)):
                    self._awaited.add(id(each))
                case _:
                    self._awaited.add(id(argument))

    def _visit_import(self, node: ast.Import, place: Place) -> _Inside:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            self.imports.add(alias.name)
            dotted = alias.name if alias.asname else root
            self._note_binding(alias, alias.asname or root, place.scope, node, Binding(dotted))
        return self._visit_noted(node, place)

    def _visit_import_from(self, node: ast.ImportFrom, place: Place) -> _Inside:
        if node.module is not None and not node.level:
            self.imports.add(node.module)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(node.lineno)
            else:
                dotted = None if node.level else f"{node.module}.{alias.name}"
                self._note_binding(alias, alias.asname or alias.name, place.scope, node, Binding(dotted))
        return self._visit_noted(node, place)

    def _visit_named(self, node: Any, place: Place) -> _Inside:
        """A capture of a pattern, a handler or a type parameter."""
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._note_binding(node, name, place.scope)
        return _SAME

    def _visit_declaration(self, node: ast.Global | ast.Nonlocal, place: Place) -> _Inside:
        self.fixed.update(node.names)
        if place.scope.kind != "module":
            kind = "global" if isinstance(node, ast.Global) else "nonlocal"
            place.scope.elsewhere.update(dict.fromkeys(node.names, kind))
        return _SAME

    def _visit_loop(self, node: ast.For | ast.AsyncFor | ast.While, place: Place) -> _Inside:
        loop = Loop(place.loop)
        if isinstance(node, ast.AsyncFor):
            self._visit_await(node, place)
        elif isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            loop.is_left = place.is_caught
            self._endless.append((node, loop))
        inside = place._replace(loop=loop, depth=place.depth + 1)
        return {"target": inside, "test": inside, "body": inside}

    def _visit_try(self, node: ast.Try | ast.TryStar, place: Place) -> _Inside:
        caught = {name for handler in node.handlers for name in _exception_names(handler.type)}
        passes = caught <= _PASSING
        if passes:
            self._relied |= caught
        # A `finally` may end with a `return`, which drops the exception.
        after = place._replace(is_guarded=True) if node.finalbody else place
        return {
            "body": after._replace(
                is_optional=place.is_optional or not caught.isdisjoint(_IMPORT_ERRORS),
                is_caught=place.is_caught or bool(node.handlers),
                is_guarded=after.is_guarded or not passes,
            ),
            "handlers": after,
            "orelse": after,
        }

    def _visit_with(self, node: ast.With | ast.AsyncWith, place: Place) -> _Inside:
        if isinstance(node, ast.AsyncWith):
            self._visit_await(node, place)
        made = [item.context_expr for item in node.items]
        is_optional = any(
            not _IMPORT_ERRORS.isdisjoint(_exception_names(argument))  # `with suppress(ImportError)`
            for call in made
            if isinstance(call, ast.Call)
            for argument in call.args
        )
        if all(
            isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "open" for call in made
        ):
            self._relied.add("open")
        else:  # any other may drop the exception
            place = place._replace(is_guarded=True)
        return {"items": place, "body": place._replace(is_optional=place.is_optional or is_optional)}

    def _visit_if(self, node: ast.If, place: Place) -> _Inside:
        if _last_name(node.test) == "TYPE_CHECKING":
            return {"body": place._replace(is_optional=True)}
        return _SAME

    def _visit_raise(self, _node: ast.Raise | ast.Assert, place: Place) -> _Inside:
        _leave(place)
        return _SAME

    def _visit_return(self, node: ast.Return | ast.Yield | ast.YieldFrom, place: Place) -> _Inside:
        _leave(place)
        if not isinstance(node, ast.Return):
            self.generators.add(place.scope.frame.node)
        if _run_kind(place.scope) in ("module", "class"):
            word = "return" if isinstance(node, ast.Return) else "yield"
            self.misplaced.append((node, f"'{word}' outside function"))
        return _SAME

    def _visit_jump(self, node: ast.Break | ast.Continue, place: Place) -> _Inside:
        if place.loop is None:
            message = "'break' outside loop" if isinstance(node, ast.Break) else "'continue' not properly in loop"
            self.misplaced.append((node, message))
        elif isinstance(node, ast.Break):
            place.loop.is_left = True
        return _SAME

    def _visit_await(self, node: ast.Await | ast.AsyncFor | ast.AsyncWith, place: Place) -> _Inside:
        _leave(place)
        if isinstance(node, ast.Await):
            self._awaited.add(id(node.value))
        kind = _run_kind(place.scope)
        if kind in ("function", "class"):
            where = "async function" if kind == "function" else "function"
            self.misplaced.append((node, f"'{_AWAITS[type(node)]}' outside {where}"))
        return _SAME

    _VISITS: ClassVar[dict[type[ast.AST], Callable[["Names", Any, Place], _Inside]]] = {
        **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _visit_loop),
        **dict.fromkeys((ast.Try, ast.TryStar), _visit_try),
        **dict.fromkeys((ast.With, ast.AsyncWith), _visit_with),
        **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _visit_return),
        **dict.fromkeys((ast.Raise, ast.Assert), _visit_raise),
        **dict.fromkeys((ast.Break, ast.Continue), _visit_jump),
        **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.ExceptHandler), _visit_named),
        **dict.fromkeys(_TYPE_PARAMETERS, _visit_named),
        **dict.fromkeys((ast.Global, ast.Nonlocal), _visit_declaration),
        ast.Attribute: _visit_attribute,
        ast.Await: _visit_await,
        ast.BinOp: _visit_noted,
        ast.Call: _visit_call,
        ast.If: _visit_if,
        ast.Import: _visit_import,
        ast.ImportFrom: _visit_import_from,
        ast.Name: _visit_name,
        ast.Subscript: _visit_subscript,
    }
    """The kinds of node that count; all others are only walked through."""

    # Nodes that place their children themselves

    def _enter_assignment(self, node: ast.Assign | ast.AnnAssign, place: Place) -> Iterable[tuple[ast.AST, Place]]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value, scope = node.value, place.scope
        if isinstance(node, ast.AnnAssign):
            yield node.annotation, place
        if value is None:  # `x: int` alone binds nothing
            for target in targets:
                if isinstance(target, ast.Name):
                    self._found.append((target, target.id, scope, None, _OTHER))
                else:
                    yield target, place
            return
        yield value, place
        # An attribute of a class is reached by ways that are not followed, so its value counts as passed on.
        if scope.kind != "class" and all(isinstance(target, ast.Name) for target in targets):
            self.rebound.add(id(value))
        for target in targets:
            if isinstance(target, ast.Name):
                self._note_binding(target, target.id, scope, node, Binding(None, value, scope))
            else:
                yield target, place

    def _enter_augmented(self, node: ast.AugAssign, place: Place) -> Iterable[tuple[ast.AST, Place]]:
        yield node.value, place
        yield node.target, place
        if isinstance(node.target, ast.Name):
            self.noted.append((node.target, place))  # it is read too

    def _enter_walrus(self, node: ast.NamedExpr, place: Place) -> Iterable[tuple[ast.AST, Place]]:
        yield node.value, place
        scope = place.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        yield node.target, place._replace(scope=scope)

    def _enter_function(self, node: _Functions, place: Place) -> Iterable[tuple[ast.AST, Place]]:
        kind: _Kind = "coroutine" if isinstance(node, ast.AsyncFunctionDef) else "function"
        scope = self.scopes[node] = Scope(kind, node, place.scope)
        inside = Place(scope, is_called=True)
        yield from ((default, place) for default in (*node.args.defaults, *node.args.kw_defaults) if default)
        for argument in arguments_of(node.args):
            self._note_binding(argument, argument.arg, scope)
            if argument.annotation is not None:
                yield argument.annotation, place
        if isinstance(node, ast.Lambda):
            yield node.body, inside
            return
        self._note_binding(node, node.name, place.scope)
        yield from ((each, place) for each in (*node.decorator_list, *getattr(node, "type_params", ())))
        if node.returns is not None:
            yield node.returns, place
        yield from ((statement, inside) for statement in node.body)

    def _enter_class(self, node: ast.ClassDef, place: Place) -> Iterable[tuple[ast.AST, Place]]:
        self._note_binding(node, node.name, place.scope)
        scope = self.scopes[node] = Scope("class", node, place.scope)
        outside = (*node.decorator_list, *node.bases, *node.keywords, *getattr(node, "type_params", ()))
        yield from ((each, place) for each in outside)
        inside = place._replace(scope=scope, loop=None)
        yield from ((statement, inside) for statement in node.body)

    def _enter_comprehension(self, node: _Comprehension, place: Place) -> Iterable[tuple[ast.AST, Place]]:
        scope = self.scopes[node] = Scope("comprehension", node, place.scope)
        for generator in node.generators:
            yield generator.iter, place  # the first one is evaluated once, outside
            place = place._replace(scope=scope, depth=place.depth + 1)
            yield generator.target, place
            yield from ((condition, place) for condition in generator.ifs)
        if isinstance(node, ast.DictComp):
            yield node.key, place
            yield node.value, place
        else:
            yield node.elt, place

    _ENTERS: ClassVar[dict[type[ast.AST], Callable[["Names", Any, Place], Iterable[tuple[ast.AST, Place]]]]] = {
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _enter_function),
        **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _enter_comprehension),
        **dict.fromkeys((ast.Assign, ast.AnnAssign), _enter_assignment),
        ast.AugAssign: _enter_augmented,
        ast.ClassDef: _enter_class,
        ast.NamedExpr: _enter_walrus,
    }


def arguments_of(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Every parameter of a function."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


_known_fields: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of such a node that may hold others, in order."""
    found = _known_fields.get(kind)
    if found is None:
        found = _known_fields[kind] = tuple(field for field in kind._fields if field not in _LEAVES)
    return found


def _place(node: ast.Name) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _leave(place: Place) -> None:
    """Something here may end every loop around it."""
    loop = place.loop
    while loop is not None:
        loop.is_left = True
        loop = loop.outer


def _run_kind(scope: Scope) -> _Kind:
    """The kind of the scope as `await` and `yield` see it: a comprehension is part of a module or a coroutine."""
    outer = scope
    while outer.kind == "comprehension" and outer.parent is not None:
        outer = outer.parent
    return outer.kind if scope is outer or outer.kind in ("module", "coroutine") else "comprehension"


def _exception_names(node: ast.expr | None) -> set[str]:
    """The names in `except …`; a bare one catches everything."""
    if node is None:
        return {"BaseException"}
    types = node.elts if isinstance(node, ast.Tuple) else [node]
    return {_last_name(kind) for kind in types}


def _last_name(node: ast.expr) -> str:
    """`b` of both `b` and `a.b`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
