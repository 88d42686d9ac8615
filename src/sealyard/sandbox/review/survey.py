"""The first pass of the review: what each name stands for, what surrounds each node, which statements are misplaced.

It walks without recursion and visits every node once. Names are one flat table: a name that is bound in two ways,
wherever that is, counts as unknown.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, cast

from sealyard.code import fields_of

DEPTH = 12
"""How far an expression is followed: honest ones are shorter, and the bound keeps the whole linear."""

_IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_AWAITS = {ast.Await: "await", ast.AsyncFor: "async for", ast.AsyncWith: "async with"}


class Loop:
    """A `for` or `while` statement, and whether anything in it can end it."""

    def __init__(self, outer: "Loop | None") -> None:
        self.outer = outer
        self.is_left = False


class Place(NamedTuple):
    """What surrounds a node."""

    scope: Literal["module", "class", "function", "coroutine", "comprehension"] = "module"
    loop: Loop | None = None
    depth: int = 0
    """Loops around the node, comprehensions included."""
    is_called: bool = False
    """Inside a function: nobody knows how often it runs."""
    is_optional: bool = False
    """The code expects that an import may fail here."""
    is_caught: bool = False
    """The code handles exceptions raised here, and one may be what ends a loop."""


Noted = ast.Import | ast.ImportFrom | ast.Call | ast.Attribute | ast.Name | ast.BinOp
Misplaced = tuple[ast.expr | ast.stmt, str]
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Inside = Mapping[str, Place]
"""The place of a node's fields, where it is not the node's own."""
_NO_OTHER: _Inside = {}
_COMPREHENSIONS = frozenset((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
_TOP = Place()


class Survey:
    """A syntax tree, walked."""

    def __init__(self, tree: ast.Module) -> None:
        self.noted: list[tuple[Noted, Place]] = []
        """Loads, calls, imports and operations, for the second pass."""
        self.values: set[int] = set()
        """Nodes whose item or attribute is taken, so that they are data rather than functions."""
        self.imports: set[str] = set()
        """Modules that import statements name."""
        self.misplaced: list[Misplaced] = []
        """Statements in places that Python does not allow, with its own message."""
        self.loops = 0
        self.deepest_loop = 0
        self._names: dict[str, str | None] = {}
        self._endless: list[tuple[ast.While, Loop]] = []
        self._walk(tree)

    def is_unbound(self, name: str) -> bool:
        """Whether nothing in the code binds a name, so that it is a built-in one."""
        return name not in self._names

    def resolve(self, node: ast.expr) -> str | None:
        """The dotted name an expression stands for: `o.system` is `os.system` after `import os as o`."""
        if isinstance(node, ast.Name):
            return self._root(node)
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < DEPTH:
            parts.append(node.attr)
            node = node.value
        root = self._root(node)
        return None if root is None else ".".join((root, *reversed(parts)))

    def _root(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Call) and _last_name(node.func) in ("__import__", "import_module"):
            root = text_of(node.args)
        elif isinstance(node, ast.Name):
            root = self._names.get(node.id, f"builtins.{node.id}")
        else:
            return None
        return "os" if root == "posix" else root

    def endless_loops(self) -> list[ast.While]:
        """`while True` without anything that could end it."""
        return [node for node, loop in self._endless if not loop.is_left]

    def _walk(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Place]] = [(tree, _TOP)]
        while stack:
            node, place = stack.pop()
            kind = type(node)
            if kind in _COMPREHENSIONS:
                stack.extend(self._enter_comprehension(cast(_Comprehension, node), place))
                continue
            visit = self._VISITS.get(kind)
            inside = visit(self, node, place) if visit else _NO_OTHER
            for field in fields_of(kind):
                value = getattr(node, field, None)
                if value is None:
                    continue
                below = inside.get(field, place) if inside else place
                if isinstance(value, list):
                    stack.extend([(child, below) for child in value if isinstance(child, ast.AST)])
                elif isinstance(value, ast.AST):
                    stack.append((value, below))

    def _note(self, node: Noted, place: Place) -> _Inside:
        self.noted.append((node, place))
        return _NO_OTHER

    def _bind(self, name: str, target: str | None, place: Place) -> None:
        if place.scope != "class":  # a name of a class body is no bare name anywhere else
            self._names[name] = target if self._names.get(name, target) == target else None

    def _visit_name(self, node: ast.Name, place: Place) -> _Inside:
        if isinstance(node.ctx, ast.Load):
            self.noted.append((node, place))
        elif isinstance(node.ctx, ast.Store):
            self._bind(node.id, None, place)
        return _NO_OTHER

    def _visit_value(self, node: ast.Attribute | ast.Subscript, place: Place) -> _Inside:
        self.values.add(id(node.value))
        return self._note(node, place) if isinstance(node, ast.Attribute) else _NO_OTHER

    def _visit_call(self, node: ast.Call, place: Place) -> _Inside:
        if _last_name(node.func) in ("next", "exit", "quit", "_exit"):
            _leave(place)
        return self._note(node, place)

    def _visit_import(self, node: ast.Import, place: Place) -> _Inside:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            self.imports.add(alias.name)
            self._bind(alias.asname or root, alias.name if alias.asname else root, place)
        return self._note(node, place)

    def _visit_import_from(self, node: ast.ImportFrom, place: Place) -> _Inside:
        if node.module is not None and not node.level:
            self.imports.add(node.module)
        for alias in node.names:
            self._bind(alias.asname or alias.name, None if node.level else f"{node.module}.{alias.name}", place)
        return self._note(node, place)

    def _visit_arg(self, node: ast.arg, place: Place) -> _Inside:
        self._names[node.arg] = None
        return _NO_OTHER

    def _visit_named(self, node: ast.MatchAs | ast.MatchStar | ast.ExceptHandler, place: Place) -> _Inside:
        if node.name is not None:
            self._bind(node.name, None, place)
        return _NO_OTHER

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, place: Place) -> _Inside:
        if not isinstance(node, ast.Lambda):
            self._bind(node.name, None, place)
        return {"body": Place("coroutine" if isinstance(node, ast.AsyncFunctionDef) else "function", is_called=True)}

    def _visit_class(self, node: ast.ClassDef, place: Place) -> _Inside:
        self._bind(node.name, None, place)
        return {"body": place._replace(scope="class", loop=None)}

    def _visit_loop(self, node: ast.For | ast.AsyncFor | ast.While, place: Place) -> _Inside:
        loop = Loop(place.loop)
        if isinstance(node, ast.AsyncFor):
            self._visit_await(node, place)
        elif isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            loop.is_left = place.is_caught
            self._endless.append((node, loop))
        inside = self._deeper(place)._replace(loop=loop)
        return {"target": inside, "test": inside, "body": inside}

    def _enter_comprehension(self, node: _Comprehension, place: Place) -> Iterator[tuple[ast.AST, Place]]:
        for generator in node.generators:
            yield generator.iter, place  # the first one is evaluated once, outside the loop
            place = self._deeper(place)
            if place.scope in ("class", "function"):
                place = place._replace(scope="comprehension")
            yield generator.target, place
            for condition in generator.ifs:
                yield condition, place
        if isinstance(node, ast.DictComp):
            yield node.key, place
            yield node.value, place
        else:
            yield node.elt, place

    def _deeper(self, place: Place) -> Place:
        self.loops += 1
        self.deepest_loop = max(self.deepest_loop, place.depth + 1)
        return place._replace(depth=place.depth + 1)

    def _visit_try(self, node: ast.Try | ast.TryStar, place: Place) -> _Inside:
        caught = {name for handler in node.handlers for name in _exception_names(handler.type)}
        return {
            "body": place._replace(
                is_optional=place.is_optional or not caught.isdisjoint(_IMPORT_ERRORS),
                is_caught=place.is_caught or bool(node.handlers),
            )
        }

    def _visit_with(self, node: ast.With | ast.AsyncWith, place: Place) -> _Inside:
        if isinstance(node, ast.AsyncWith):
            self._visit_await(node, place)
        for item in node.items:
            if isinstance(item.context_expr, ast.Call):
                for argument in item.context_expr.args:
                    if not _IMPORT_ERRORS.isdisjoint(_exception_names(argument)):  # `with suppress(ImportError)`
                        return {"body": place._replace(is_optional=True)}
        return _NO_OTHER

    def _visit_if(self, node: ast.If, place: Place) -> _Inside:
        if _last_name(node.test) == "TYPE_CHECKING":
            return {"body": place._replace(is_optional=True)}
        return _NO_OTHER

    def _visit_raise(self, _node: ast.Raise | ast.Assert, place: Place) -> _Inside:
        _leave(place)
        return _NO_OTHER

    def _visit_return(self, node: ast.Return | ast.Yield | ast.YieldFrom, place: Place) -> _Inside:
        _leave(place)
        if place.scope in ("module", "class"):
            word = "return" if isinstance(node, ast.Return) else "yield"
            self.misplaced.append((node, f"'{word}' outside function"))
        return _NO_OTHER

    def _visit_jump(self, node: ast.Break | ast.Continue, place: Place) -> _Inside:
        if place.loop is None:
            message = "'break' outside loop" if isinstance(node, ast.Break) else "'continue' not properly in loop"
            self.misplaced.append((node, message))
        elif isinstance(node, ast.Break):
            place.loop.is_left = True
        return _NO_OTHER

    def _visit_await(self, node: ast.Await | ast.AsyncFor | ast.AsyncWith, place: Place) -> _Inside:
        _leave(place)
        if place.scope in ("function", "class"):
            where = "async function" if place.scope == "function" else "function"
            self.misplaced.append((node, f"'{_AWAITS[type(node)]}' outside {where}"))
        return _NO_OTHER

    _VISITS: ClassVar[dict[type[ast.AST], Callable[["Survey", Any, Place], _Inside]]] = {
        **dict.fromkeys((ast.Attribute, ast.Subscript), _visit_value),
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _visit_function),
        **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _visit_loop),
        **dict.fromkeys((ast.Try, ast.TryStar), _visit_try),
        **dict.fromkeys((ast.With, ast.AsyncWith), _visit_with),
        **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _visit_return),
        **dict.fromkeys((ast.Raise, ast.Assert), _visit_raise),
        **dict.fromkeys((ast.Break, ast.Continue), _visit_jump),
        **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.ExceptHandler), _visit_named),
        ast.Await: _visit_await,
        ast.BinOp: _note,
        ast.Call: _visit_call,
        ast.ClassDef: _visit_class,
        ast.If: _visit_if,
        ast.Import: _visit_import,
        ast.ImportFrom: _visit_import_from,
        ast.Name: _visit_name,
        ast.arg: _visit_arg,
    }
    """What each kind of node says; all others are only walked through."""


class Arithmetic:
    """Values of numbers and sizes of literals that the text spells out; floats, so that `10**10**9` costs nothing."""

    def __init__(self, survey: Survey) -> None:
        self._numbers: dict[int, float | None] = {}
        self._sizes: dict[int, float | None] = {}
        for node, _ in reversed(survey.noted):  # operands come before what they are part of
            if isinstance(node, ast.BinOp):
                self._numbers[id(node)] = _operate(node.op, self.number(node.left), self.number(node.right))
                if isinstance(node.op, ast.Mult):
                    self._sizes[id(node)] = self._repeat(node.left, node.right) or self._repeat(node.right, node.left)

    def number(self, node: ast.expr) -> float | None:
        """The value of a number, or of sums, products, powers and shifts of numbers."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return float(node.value) if node.value < 1e300 else float("inf")
        return self._numbers.get(id(node))

    def size_bytes(self, node: ast.expr) -> float | None:
        """The least memory that a literal takes, repeated or not: `"x" * 10**9`, `[0] * n`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return float(len(node.value))
        if isinstance(node, ast.List | ast.Tuple):
            return 8.0 * len(node.elts)
        return self._sizes.get(id(node))

    def _repeat(self, repeated: ast.expr, times: ast.expr) -> float | None:
        size, count = self.size_bytes(repeated), self.number(times)
        return None if size is None or count is None else size * count


def _operate(operator: ast.operator, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Mult():
                return left * right
            case ast.Pow():
                return float(left**right)
            case ast.LShift():
                return left * float(2.0**right)
    except OverflowError:
        return float("inf")
    return None


def text_of(arguments: list[ast.expr]) -> str | None:
    """The first argument, if it is text that stands in the code."""
    first = arguments[0] if arguments else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _leave(place: Place) -> None:
    """Something here may end every loop around it."""
    loop = place.loop
    while loop is not None:
        loop.is_left = True
        loop = loop.outer


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
