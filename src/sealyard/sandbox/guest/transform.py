"""Small rewrites of the agent's syntax tree, so that both ways of calling a tool work.

`rows = f()` gives rows and `rows = await f()` gives rows, and calls handed to `asyncio.gather` and its kin run at the
same time. A call is deferred (gives an awaitable) only where the source shows that it will be awaited; everywhere else
it gives the answer. Line numbers are kept. Standard library only.
"""

import ast
import asyncio
import inspect
import types
from collections.abc import Awaitable
from typing import Any

DEFER = "__sealyard_defer__"
AWAIT = "__sealyard_await__"
AWAIT_ALL = "__sealyard_await_all__"
LAST = "__sealyard_last__"

_MISSING = object()
_NEWLINE = "\n"

_CONCURRENT = frozenset(
    {"as_completed", "create_task", "ensure_future", "gather", "run_coroutine_threadsafe", "shield", "wait", "wait_for"}
)


def compiled(code: str, file: str) -> types.CodeType:
    """The code, rewritten; that of a coroutine if it awaits at its top."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(code, file, "exec", flags=flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    tree = prepare(tree, asynchronous="await" in code or "async" in code)
    made: types.CodeType = compile(tree, file, "exec", flags=flags, dont_inherit=True)
    return made


def split(code: str, file: str, start: int, end: int) -> tuple[types.CodeType, types.CodeType | None]:
    """The statements before the last expression, and that expression, for code that needs no other rewrite.

    The expression stands at `start` to `end`; both are the same where the code ends with another statement. Without a
    tree of Python objects this costs a third of `compiled`. Every line and column is that of the code.

    Raises:
        SyntaxError: The expression cannot be put into the parentheses that keep its place; use `compiled`.
    """
    if start == end:
        return compile(code, file, "exec", dont_inherit=True), None
    before, last = code[:start], code[start:end]
    line = before.count("\n")
    column = start - before.rfind("\n") - 1
    if line:
        last = f"({_NEWLINE * line}{column * ' '}{last}\n)"
    elif column:
        last = f"({(column - 1) * ' '}{last}\n)"
    return compile(before, file, "exec", dont_inherit=True), compile(last, file, "eval", dont_inherit=True)


def value(names: dict[str, Any]) -> Any:
    """The value of code that ran in `names`: `result` if it set that, else its last expression."""
    result = names.get("result", _MISSING)
    return names.get(LAST) if result is _MISSING else result


class _Leaving:
    """Treats `sys.exit()` as a normal end, unless it reports a failure."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: object) -> bool:  # noqa: PYI036
        # By its type: an exception of the code's may lie about its class.
        return kind is not None and issubclass(kind, SystemExit) and not error.code


leaving = _Leaving()


def prepare(tree: ast.Module, *, asynchronous: bool) -> ast.Module:
    """Store the value of a last expression under `LAST`; with `asynchronous`, rewrite awaits and gathers too."""
    if asynchronous:
        tree = _Rewriter(_gathered_names(tree)).visit(tree)
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        target = ast.Name(id=LAST, ctx=ast.Store())
        tree.body[-1] = ast.copy_location(ast.Assign(targets=[ast.copy_location(target, last)], value=last.value), last)
    return ast.fix_missing_locations(tree) if asynchronous else tree  # only rewritten code has nodes without a place


def names() -> dict[str, Any]:
    """The names that the rewritten code refers to."""
    return {DEFER: _defer, AWAIT: _await, AWAIT_ALL: _await_all}


def _defer(function: Any, /, *arguments: Any, **named: Any) -> Any:
    # Only of plain functions: an object may answer to any attribute.
    later = getattr(function, "__sealyard_async__", None) if isinstance(function, types.FunctionType) else None
    return function(*arguments, **named) if later is None else later(*arguments, **named)


async def _await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _await_all(*values: Any) -> list[Awaitable[Any]]:
    return [value if inspect.isawaitable(value) or asyncio.isfuture(value) else _await(value) for value in values]


class _Rewriter(ast.NodeTransformer):
    def __init__(self, gathered: frozenset[str]) -> None:
        self._gathered = gathered

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        node.value = _call(AWAIT, [_deferred(node.value)], node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = _callee(node)
        if _is_asyncio_run(node):
            node.args[0] = _call(AWAIT, [_deferred(node.args[0])], node)
        elif name in _CONCURRENT:
            node.args = [_deferred(argument) for argument in node.args]
            if name == "gather":
                node.args = [ast.copy_location(ast.Starred(_call(AWAIT_ALL, node.args, node), ast.Load()), node)]
        elif name == "append" and isinstance(node.func, ast.Attribute) and self._is_gathered(node.func.value):
            node.args = [_deferred(argument) for argument in node.args]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if any(self._is_gathered(target) for target in node.targets):
            node.value = _deferred(node.value)
        return node

    def _is_gathered(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self._gathered


def _gathered_names(tree: ast.Module) -> frozenset[str]:
    """Names that are unpacked into, or handed to, a call that awaits them: `gather(*tasks)`, `wait(tasks)`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _callee(node) in _CONCURRENT:
            for argument in node.args:
                value = argument.value if isinstance(argument, ast.Starred) else argument
                if isinstance(value, ast.Name):
                    found.add(value.id)
    return frozenset(found)


def _deferred(node: ast.expr) -> ast.expr:
    """`node` with the calls it stands for turned into deferred ones."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in (DEFER, AWAIT, AWAIT_ALL):
            return node
        return ast.copy_location(ast.Call(ast.Name(DEFER, ast.Load()), [node.func, *node.args], node.keywords), node)
    if isinstance(node, ast.Starred):
        node.value = _deferred(node.value)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        node.elt = _deferred(node.elt)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        node.elts = [_deferred(element) for element in node.elts]
    return node


def _call(name: str, arguments: list[ast.expr], place: ast.AST) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), place)


def _is_asyncio_run(node: ast.Call) -> bool:
    """True if it is `asyncio.run(f())`, which takes only a coroutine."""
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr != "run" or not node.args:
        return False
    owner = function.value
    return isinstance(owner, ast.Name) and owner.id == "asyncio" and isinstance(node.args[0], ast.Call)


def _callee(node: ast.Call) -> str | None:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None
