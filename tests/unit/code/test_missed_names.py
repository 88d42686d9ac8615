"""Names that nothing binds, and whose absence no part of the code can notice: only for those may a tool stand in."""

import builtins
import gc
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sealyard.code import parse
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.review import review

USES = (
    "tool(1)",
    "tool",
    "f()",
    "g()",
    "a()",
    "Thing().method()",
    "sum(tool(n) for n in (1, 2))",
    "any(f() for n in (1, 2))",
    "(tool(n) for n in (1, 2))",
    "[(tool(n) for n in (1, 2))]",
    "print(*(tool(n) for n in (1, 2)))",
    "[tool(n) for n in (1, 2)]",
    "[h() for h in (f, f)]",
    "lambda: tool(1)",
    "(lambda: tool(1))()",
    "map(f, (1, 2))",
    "list(map(f, (1, 2)))",
    "sorted((1, 2), key=f)",
    "hasattr(Thing(), 'lazy')",
    "asyncio.run(a())",
    "asyncio.run(b())",
    "asyncio.run(asyncio.wait_for(a(), 9))",
    "asyncio.gather(a(), return_exceptions=True)",
    "await asyncio.gather(a(), b(), return_exceptions=True)",
    "await asyncio.gather(*[a() for _ in (1, 2)])",
    "await asyncio.gather([a()])",
    "open",
    "'tool' in globals()",
    "'tool' in dir()",
    "'tool' in dir(Thing)",
    "globals().get('tool')",
    "eval('tool(1)')",
    "1",
)
"""Expressions that may read `tool`, at once, later or never."""
HANDLED = (
    *("except NameError:", "except Exception:", "except BaseException:", "except:", "except (KeyError, NameError):"),
    *("except KeyError:", "except (OSError, ValueError):", "except UnboundLocalError:", "except KINDS:"),
    *("except builtins.NameError:", "except* NameError:", "except* KeyError:"),
)
AROUND = (
    *("with contextlib.suppress(NameError):", "with contextlib.suppress(KeyError):", "with open(os.devnull):"),
    *("with open(os.devnull), contextlib.suppress(Exception):", "with Thing():", "with contextlib.nullcontext():"),
    *("if flag:", "if not flag:", "for _ in (1, 2):", "class Local:"),
)
FUNCTIONS = {
    "f": ("def f(*_):", "@functools.cache\ndef f(*_):", "class f:", "async def f(*_):"),
    "g": ("def g(*_):\n    yield 1", "@contextlib.contextmanager\ndef g(*_):\n    yield 2", "def g(*_):"),
    "a": ("async def a():", "async def a():\n    yield 3", "def a():"),
    "b": ("async def b():", "def f():", "def open(*_):", "def sum(*_):"),
}
START = """\
import asyncio, builtins, contextlib, functools, os
flag, KINDS = True, (KeyError, Exception)
class Thing:
    def __enter__(self): return self
    def __exit__(self, *_): return True
    def method(self): return tool(1)
    @property
    def lazy(self): return tool(1)
"""


def _indented(block: str) -> str:
    return textwrap.indent(block, "    ")


def _around(blocks: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(blocks, blocks).map("\n".join),
        st.builds(lambda head, block: f"{head}\n{_indented(block)}", st.sampled_from(AROUND), blocks),
        st.builds(
            lambda block, handler, other: (
                f"try:\n{_indented(block)}\n{handler}\n    seen.append('caught')\n{_indented(other)}"
            ),
            blocks,
            st.sampled_from(HANDLED),
            blocks,
        ),
        st.builds(
            lambda block: f"for _ in (1, 2):\n    try:\n{_indented(_indented(block))}\n    finally: break", blocks
        ),
        st.builds(lambda block: f"try:\n{_indented(block)}\nfinally: seen.append('finally')", blocks),
    )


def _uses(names: str) -> list[str]:
    """The expressions that use none of these functions."""
    return [use for use in USES if re.search(rf"\b[{names}]\b", use) is None]


@st.composite
def _programs(draw: st.DrawFn) -> str:
    parts, later = [START], "fgab"
    for heads in FUNCTIONS.values():  # each uses those before it alone, so that none calls itself
        body = f"{draw(BLOCKS[later])}\n" if draw(st.booleans()) else ""
        value = draw(st.sampled_from(_uses(later)))
        head = draw(st.sampled_from(heads))
        parts.append(
            f"{head}\n{_indented(f'{body}return {value}')}" if head != "class f:" else f"{head} value = {value}"
        )
        later = later[1:]
    return "\n".join([*parts, draw(BLOCKS[""])])


BLOCKS = {
    later: st.recursive(
        st.sampled_from(_uses(later or "_")).map(lambda use: f"seen.append({use})"), _around, max_leaves=4
    )
    for later in ("fgab", "gab", "ab", "b", "")
}


@pytest.fixture
def unawaited() -> Iterator[None]:
    """Lets programs forget coroutines."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def _run(code: str, **more: Any) -> tuple[list[str], str]:
    """The values that a program has seen, and the error that ended it."""
    seen: list[Any] = []
    names = {"__builtins__": {**more, **vars(builtins), "print": lambda *_: None}, "__name__": "x", "seen": seen}
    error = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about coroutines that nothing awaits
            exec(compile(code, "<agent>", "exec", dont_inherit=True), names)
    except Exception as raised:  # noqa: BLE001 - whatever a program ends with
        error = type(raised).__name__
    return [repr(each) if isinstance(each, int | str | list) else type(each).__name__ for each in seen], error


@pytest.mark.behaviour("run.implied_tools")
@pytest.mark.usefixtures("unawaited")
@given(_programs())
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_name_that_is_given_changes_no_program_that_python_runs_without_it(code: str) -> None:
    """Whatever such a program tries, catches, puts off and looks for, it sees the same."""
    try:
        compile(code, "<agent>", "exec", dont_inherit=True)
    except SyntaxError:  # an asynchronous generator that returns a value, and the like
        assume(False)
    without, error = _run(code)
    if not error and "tool" in parse(code).missed({"tool"}):
        assert _run(code, tool=lambda *_: [4]) == (without, "")


@pytest.mark.parametrize(
    "code",
    [
        "tool(1)",
        "rows = [row for n in ids for row in tool(n)]",
        "total = sum(row['n'] for n in ids for row in tool(n))",
        "print(*(tool(n) for n in ids))",
        "for n in ids:\n    try:\n        rows = tool(n)\n    except (KeyError, ToolError):\n        pass",
        "rows = tool(1)\ntry:\n    total = int(rows)\nexcept Exception:\n    total = 0",
        "def f(n):\n    return tool(n)\ndef g():\n    return f(1)\nif __name__ == '__main__':\n    g()",
        "def f(n):\n    return f(n - 1) if n else tool(n)\nf(2)",
        "async def f(n):\n    return await tool(n)\nawait f(1)",
        "import asyncio\nasync def f(n):\n    return tool(n)\nawait asyncio.gather(*[f(n) for n in ids])",
        "import asyncio\nasync def f():\n    return await asyncio.gather(tool(1), tool(2))\nasyncio.run(f())",
        "with open('f') as file:\n    rows = [tool(line) for line in file]",
        "class A:\n    rows = tool(1)",
        "print(dir(tool(1)))",
    ],
)
def test_a_name_is_missed_where_its_error_ends_the_run(code: str) -> None:
    """Loops, functions that are called by name, coroutines that are awaited, and handlers of other errors let it."""
    assert parse(code).missed({"tool"}) == {"tool"}


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    tool(1)\nexcept NameError:\n    pass",
        "tool(1)\ntry:\n    tool\nexcept Exception:\n    pass",
        "class A:\n    def f(self):\n        return tool(1)\ntry:\n    A().f()\nexcept Exception:\n    pass",
        "def f():\n    return tool(1)\ntry:\n    f()\nexcept Exception:\n    pass",
        "def f():\n    return tool(1)\ndef g():\n    return f()\ntry:\n    g()\nexcept Exception:\n    pass",
        "@cached\ndef f():\n    return tool(1)\nf()",
        "def f():\n    yield tool(1)\nf()",
        "async def f():\n    return tool(1)\nf()",
        "import asyncio\nasync def f():\n    return tool(1)\nasyncio.create_task(f())",
        "import asyncio\nasync def f():\n    return tool(1)\nawait asyncio.gather(f(), return_exceptions=True)",
        "import asyncio\nasync def f():\n    return tool(1)\nawait asyncio.gather([f()])",
        "import asyncio\nasync def f():\n    return tool(1)\nasyncio.gather(f())",
        "import mine as asyncio\nasync def f():\n    return tool(1)\nasyncio.run(f())",
        "def open(name):\n    return mine\nwith open('f'):\n    tool(1)",
        "def sum(rows):\n    return 0\nsum(tool(n) for n in ids)",
        "KeyError = Exception\ntry:\n    tool(1)\nexcept KeyError:\n    pass",
        "for n in ids:\n    try:\n        tool(n)\n    finally:\n        break",
        "tool(1)\nprint(vars())",
        "import inspect\ntool(1)",
    ],
)
def test_a_name_is_not_missed_where_its_error_may_go_unnoticed(code: str) -> None:
    """Nor is one beside a built-in name that means something else, or beside something that lists names."""
    assert parse(code).missed({"tool"}) == set()


FIRST = ("", "# coding: latin-1\n", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n", "\n\n", "\f", "# 'é'\n")
DOCSTRINGS = (
    *(
        "",
        "'''What.'''\n",
        "'What.'; ",
        '"""é\nfrom __future__ import annotations\n@é"""\n',
        "('What.')\n",
        "'a' 'é'; \\\n",
    ),
    *("b'no'\n", "f'no'\n", "'What.'  # tool\n"),
)
FUTURES = (
    *("", "from __future__ import annotations\n", "from __future__ import (\n    annotations,  # all\n)\n"),
    *("from __future__ import annotations; ", "from __future__ import division\nfrom __future__ import annotations; "),
)
STARTS = (
    *("seen.append(tool([1]))", "é = 1; seen.append(tool([1]))", "if tool([1]):\n    seen.append(__doc__)"),
    *(
        "@print\n@print\ndef f(): pass\nseen.append(tool([1]))",
        "@(  # @\nprint)\nclass A: pass\nseen.append(tool([1]))",
    ),
    *("@ \\\n print\ndef f(): pass\nseen.append(tool([1]))", "text = '''\n@tool\n'''; seen.append(tool(text))"),
    *(
        "def f(tool_=1):\n    tool_: int = tool([1])\n    return tool_\nseen.append(f())",
        "seen.append(tool([1])); é = 2",
    ),
)
TOOL = "from builtins import len as tool"


@given(*map(st.sampled_from, (FIRST, DOCSTRINGS, FUTURES, STARTS, ("\n", "\r\n", "\r"))))
@settings(max_examples=500, deadline=None)
def test_code_with_the_imports_it_lacks_does_the_same(first: str, doc: str, future: str, start: str, end: str) -> None:
    """The docstring stays one, imports from `__future__` and comments about the encoding stay first."""
    code = f"{first}{doc}{future}{start}\nseen.append(__doc__)\n".replace("\n", end)
    found = review(code, DEFAULT)
    try:
        compile(code, "<agent>", "exec", dont_inherit=True)
    except SyntaxError:  # a text that is no docstring before `__future__`
        assume(False)
    assert [each.name for each in found.unbound] == ["tool"]
    at = found.imports_at
    whole = f"{code[:at]}{TOOL}\n{code[at:]}"

    assert _run(whole) == _run(code, tool=len)
    assert _run(whole)[1] == ""
    assert _encoding(whole) == _encoding(code)


def _encoding(code: str) -> str:
    return tokenize.detect_encoding(iter(code.encode().splitlines(keepends=True)).__next__)[0]
