"""The rewriting of the agent's syntax tree: what is deferred, what is left alone, and that lines stay."""

import ast
import asyncio
import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sealyard.code import Source

GUEST = Path(__file__).parents[3] / "src/sealyard/sandbox/guest"


def _load(name: str) -> types.ModuleType:
    """Load a module as the sandbox does: by its own name, without the package around it."""
    sys.path.insert(0, str(GUEST))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(GUEST))


transform = _load("transform")


def rewritten(code: str, *, asynchronous: bool = True) -> str:
    """The rewritten code with short names in place of the long ones."""
    text = ast.unparse(transform.prepare(ast.parse(code), asynchronous=asynchronous))
    for name, short in ((transform.AWAIT_ALL, "ALL"), (transform.AWAIT, "AWAIT"), (transform.DEFER, "DEFER")):
        text = text.replace(name, short)
    return text.replace(transform.LAST, "LAST")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", ""),
        ("x = 1", "x = 1"),
        ("x", "LAST = x"),
        ("x = 1\nf(x)", "x = 1\nLAST = f(x)"),
        ("f()\nx = 1", "f()\nx = 1"),
        ("if x:\n    f()", "if x:\n    f()"),
        ("def f():\n    return 1", "def f():\n    return 1"),
        ("'only a text'", "LAST = 'only a text'"),
    ],
)
def test_last_expression_is_kept(code: str, expected: str) -> None:
    """A last statement that is an expression is stored; nothing else changes."""
    assert rewritten(code, asynchronous=False) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # Awaited where it is called: deferred.
        ("x = await f(1, a=2)", "x = await AWAIT(DEFER(f, 1, a=2))"),
        ("x = await m.f(*a, **b)", "x = await AWAIT(DEFER(m.f, *a, **b))"),
        ("x = await task", "x = await AWAIT(task)"),
        ("x = await (await f())()", "x = await AWAIT(DEFER(await AWAIT(DEFER(f))))"),
        # Handed to something that awaits it: deferred.
        ("t = asyncio.create_task(f(1))", "t = asyncio.create_task(DEFER(f, 1))"),
        ("t = group.create_task(f(1), name='n')", "t = group.create_task(DEFER(f, 1), name='n')"),
        ("x = await wait_for(f(1), 5)", "x = await AWAIT(DEFER(wait_for, DEFER(f, 1), 5))"),
        ("g = gather(f(1), 2)", "g = gather(*ALL(DEFER(f, 1), 2))"),
        ("g = gather(*[f(n) for n in r])", "g = gather(*ALL(*[DEFER(f, n) for n in r]))"),
        ("g = gather(*(f(n) for n in r))", "g = gather(*ALL(*(DEFER(f, n) for n in r)))"),
        ("g = gather(*{f(1), f(2)})", "g = gather(*ALL(*{DEFER(f, 1), DEFER(f, 2)}))"),
        ("g = gather(*[f(1), [f(2)]], return_exceptions=True)",
         "g = gather(*ALL(*[DEFER(f, 1), [DEFER(f, 2)]]), return_exceptions=True)"),
        # Named first and awaited together later: deferred.
        ("t = [f(n) for n in r]\ng = gather(*t)", "t = [DEFER(f, n) for n in r]\ng = gather(*ALL(*t))"),
        ("t = f(1)\ng = gather(t, u)", "t = DEFER(f, 1)\ng = gather(*ALL(t, u))"),
        ("t = []\nt.append(f(1))\ng = gather(*t)", "t = []\nt.append(DEFER(f, 1))\ng = gather(*ALL(*t))"),
        ("t = [f(n) for n in r]\nd = asyncio.wait(t)", "t = [DEFER(f, n) for n in r]\nd = asyncio.wait(t)"),
        # Everything else is left alone.
        ("x = f(1)", "x = f(1)"),
        ("t = [f(n) for n in r]", "t = [f(n) for n in r]"),
        ("t.append(f(1))\nu = 1", "t.append(f(1))\nu = 1"),
        ("x = [f(n) for n in await g()]", "x = [f(n) for n in await AWAIT(DEFER(g))]"),
        ("async def h():\n    return f(1)", "async def h():\n    return f(1)"),
        ("async with f() as x:\n    y = g()", "async with f() as x:\n    y = g()"),
        ("async for x in f():\n    g(x)", "async for x in f():\n    g(x)"),
    ],
)  # fmt: skip
def test_calls_are_deferred_only_where_they_will_be_awaited(code: str, expected: str) -> None:
    """The source shows which calls those are; all others give their answer at once."""
    assert rewritten(code) == expected


def test_code_without_async_is_not_rewritten() -> None:
    """A function that happens to be called `gather` or `wait` is none of ours then."""
    code = "t = f(1)\nevent.wait(t)\ngather(*t)"

    assert rewritten(code, asynchronous=False) == "t = f(1)\nevent.wait(t)\nLAST = gather(*t)"


def test_lines_are_kept() -> None:
    """A traceback names the same lines after the rewriting as before it."""
    code = "\n\nx = await f(\n    1,\n    g(2),\n)\nt = gather(\n    *[h(n) for n in r],\n    k(3),\n)\nx"

    def lines(tree: ast.AST) -> dict[str, int]:
        ours = {transform.DEFER, transform.AWAIT, transform.AWAIT_ALL, transform.LAST}
        return {node.id: node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in ours}

    assert lines(transform.prepare(ast.parse(code), asynchronous=True)) == lines(ast.parse(code))


def test_deferring_a_plain_function_calls_it() -> None:
    """Only functions that have an asynchronous twin are deferred; whatever else is called, is called."""

    class Anything:
        def __getattr__(self, name: str) -> Any:
            return lambda *args: "wrong"

        def __call__(self, *args: int, **named: int) -> object:
            return args, named

    async def twin(n: int) -> int:
        return n * 10

    def tool(n: int) -> int:
        return n

    tool.__sealyard_async__ = twin  # type: ignore[attr-defined]
    defer = transform.names()[transform.DEFER]

    assert defer(len, "abc") == 3
    assert defer(Anything(), 1, b=2) == ((1,), {"b": 2})
    assert asyncio.run(defer(tool, 4)) == 40


def test_awaiting_a_plain_value_gives_it() -> None:
    """`await` before something that is no awaitable is not an error."""
    names = transform.names()

    async def scenario() -> list[object]:
        async def value() -> str:
            return "awaited"

        first = await names[transform.AWAIT](5)
        second = await names[transform.AWAIT](value())
        both = await asyncio.gather(*names[transform.AWAIT_ALL](7, value()))
        return [first, second, both]

    assert asyncio.run(scenario()) == [5, "awaited", [7, "awaited"]]


PLACED = [
    "1 + 1",
    "x = 1\nx",
    "x = 1; y = 2; x + y",
    "x = 1; x;  # the value",
    "# nothing first\n\n\nx = [1,\n     2]\n(x\n + [3])  # over two lines",
    "def f(n):\n    return n\nf(\n  2,  # two\n)",
    "1, 2",
    "*[1, 2], 3",
    "[n for n in range(3)]",
    "'only a text'",
    'y = """a\nb"""\ny + """\nc"""',
    "x = 1; \\\nx",
    "if True:\n    x = 3\nx if x else (lambda: 4)()",
    "(x := 5)",
    "x=1;\tx",
    "x = 1",
    "",
    "\n\n",
]


@pytest.mark.parametrize("code", PLACED)
def test_splitting_gives_the_value_of_the_rewritten_code(code: str) -> None:
    """What is split where the gateway found the last expression has the same value, or is left to the rewriting."""
    place = Source(code).value_span
    assert place is not None
    whole: dict[str, Any] = {}
    exec(transform.compiled(code, "<agent>"), whole)
    try:
        body, last = transform.split(code, "<agent>", *place)
    except SyntaxError:
        assert "\\" in code or code[0] == "*"
        return
    names: dict[str, Any] = {}
    exec(body, names)
    value = None if last is None else eval(last, names)
    assert value == whole.get(transform.LAST)


@pytest.mark.parametrize(
    "code", ["1 / 0", "x = 1; x / 0", "x = 0\n\n\n[1,\n   2 / x]", "x=1;\tx / 0", "  # a\n(1 +\n 1 / 0)"]
)
def test_splitting_keeps_lines_and_columns(code: str) -> None:
    """A traceback points to the same characters as that of the rewritten code."""
    place = Source(code).value_span
    assert place is not None
    body, last = transform.split(code, "<agent>", *place)
    names: dict[str, Any] = {}
    exec(body, names)
    assert _failing_place(lambda: eval(last, names)) == _failing_place(
        lambda: exec(transform.compiled(code, "<agent>"), {})
    )


def _failing_place(run: Callable[[], object]) -> tuple[int | None, ...]:
    with pytest.raises(ZeroDivisionError) as caught:
        run()
    frame = caught.tb
    while frame.tb_next is not None:
        frame = frame.tb_next
    return list(frame.tb_frame.f_code.co_positions())[frame.tb_lasti // 2]


@pytest.mark.parametrize(
    "code", ["await f()", "async def f(): pass", "x = 1\r\nx", "'é'", "1 +", "from __future__ import annotations\n1"]
)
def test_code_that_must_be_rewritten_or_counted_otherwise_has_no_place(code: str) -> None:
    """The sandbox reads the tree itself."""
    assert Source(code).value_span is None


def test_one_parenthesis_too_many_is_left_to_the_rewriting() -> None:
    """The parentheses that keep an expression in its place are one level more than the parser may allow."""
    code = f"x = 1\n{'(' * 199}x{')' * 199}"
    place = Source(code).value_span
    assert place is not None
    try:
        transform.split(code, "<agent>", *place)
    except SyntaxError:
        exec(transform.compiled(code, "<agent>"), {})
