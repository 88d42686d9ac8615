"""The review of code before it runs: what it says, at each level, and what it leaves alone."""

import ast
import asyncio
import inspect
import json
import sys
import types
import warnings
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.everyday import PROBES

from sealyard.code import Source
from sealyard.sandbox.policy import DATABASE_READONLY, DEFAULT, LEVELS, IsolationLevel
from sealyard.sandbox.review import MAX_REFERENCES, Estimate, Finding, Review, ToolReference, review

NO_PROGRAMS = "No other program runs inside. Do the work in Python, or call a tool: search_tools finds one."
NO_NETWORK = "There is no network inside. Call a tool: search_tools finds one."
ASK_A_TOOL = "Call a tool: search_tools finds one."
USE_THREADS = "Use concurrent.futures.ThreadPoolExecutor or asyncio.gather."
NATIVE_HINT = "Use the standard library or an installed package."
HARDENED_MODULES = (
    "These can be imported: collections, datetime, decimal, functools, itertools, json, math, re, statistics."
)
WALK_HINT = "Keep to the object's own methods and attributes."
FILE_HINT = "Keep files in the working directory, /workspace. Call a tool to read others."


def found(code: str, level: str = "production", **options: object) -> list[tuple[str, str, int | None, int | None]]:
    """Severity, rule, line and column of every finding."""
    result = review(code, LEVELS[IsolationLevel(level)], **options)  # type: ignore[arg-type]
    return [(each.severity, each.rule, each.line, each.column) for each in result.findings]


def only(code: str, level: str = "production", **options: object) -> tuple[str, str, str | None]:
    """Rule, message and hint of the one finding."""
    result = review(code, LEVELS[IsolationLevel(level)], **options)  # type: ignore[arg-type]
    (finding,) = result.findings
    return finding.rule, finding.message, finding.hint


# Code, where its finding is, and what its severity is at development, production and hardened.
RULES: dict[str, tuple[str, str, int, int, str | None, str | None, str | None]] = {
    "eval": ("x = eval('1')", "eval", 1, 5, None, "warn", "refuse"),
    "exec": ("exec('x = 1')", "eval", 1, 1, None, "warn", "refuse"),
    "compile": ("compile('1', 'a', 'eval')", "eval", 1, 1, None, "warn", "refuse"),
    "eval handed on": ("list(map(eval, ['1']))", "eval", 1, 10, None, "warn", "refuse"),
    "input": ("name = input('?')", "input", 1, 8, "warn", "warn", "warn"),
    "breakpoint": ("breakpoint()", "input", 1, 1, "warn", "warn", "warn"),
    "absolute path": ("open('/etc/shadow').read()", "open-outside", 1, 1, "warn", "warn", "warn"),
    "path with dots": ("open('/workspace/../etc/shadow')", "open-outside", 1, 1, "warn", "warn", "warn"),
    "another workspace": ("open('/workspace2/x')", "open-outside", 1, 1, "warn", "warn", "warn"),
    "path above": ("open('../secrets')", "open-outside", 1, 1, "warn", "warn", "warn"),
    "while true": ("x = 1\nwhile True:\n    x += 1", "endless-loop", 2, 1, "warn", "warn", "warn"),
    "while one": ("while 1:\n    continue", "endless-loop", 1, 1, "warn", "warn", "warn"),
    "inner break": ("while True:\n    for x in 'ab':\n        break", "endless-loop", 1, 1, "warn", "warn", "warn"),
    "inner return": (
        "while True:\n    def f():\n        return 1",
        "endless-loop",
        1,
        1,
        "warn",
        "warn",
        "warn",
    ),
    "long text": ("x = 'x' * 10**10", "memory", 1, 5, "warn", "warn", "warn"),
    "long list": ("x = 10**9 * [0]", "memory", 1, 5, "warn", "warn", "warn"),
    "long chain": ("x = b'x' * 1024 * 1024 * (1 << 10)", "memory", 1, 5, "warn", "warn", "warn"),
    "long bytearray": ("bytearray(2**40 + 1)", "memory", 1, 1, "warn", "warn", "warn"),
    "beyond floats": ("x = '!' * 10**10**10", "memory", 1, 5, "warn", "warn", "warn"),
    "subclasses": ("Base.__subclasses__()", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "globals": ("f.__globals__['x']", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "code": ("f.__code__.co_consts", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "builtins": ("__builtins__['open']", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "frame": ("e.__traceback__.tb_frame.f_back.f_globals", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "parents": ("''.__class__.__mro__[1]", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "getattr": ("getattr(f, '__globals__')", "dunder-walk", 1, 1, None, "warn", "refuse"),
    "class chain": ("().__class__.__bases__[0].__subclasses__()", "dunder-chain", 1, 1, "warn", "refuse", "refuse"),
    "init chain": ("x.__init__.__globals__['os']", "dunder-chain", 1, 1, "warn", "refuse", "refuse"),
    "getattr chain": (
        "getattr(type(x).__mro__[-1], '__subclasses__')()",
        "dunder-chain",
        1,
        1,
        "warn",
        "refuse",
        "refuse",
    ),
    "dynamic import": ("__import__('os').system('id')", "subprocess", 1, 1, "warn", "refuse", None),
}


@pytest.mark.parametrize("level", ["development", "production", "hardened"])
@pytest.mark.parametrize("name", RULES)
def test_each_rule_has_its_severity_at_each_level(name: str, level: str) -> None:
    """The same code is silent, warned about or refused, depending on the level."""
    code, rule, line, column, *severities = RULES[name]
    severity = severities[["development", "production", "hardened"].index(level)]

    result = [each for each in found(code, level) if each[1] != "import"]

    assert result == ([] if severity is None else [(severity, rule, line, column)])


# Code after `import os` and the like, which hardened does not get to: what it says at development and production.
MODULE_RULES: dict[str, tuple[str, str, int, int, str | None, str | None]] = {
    "os.system": ("import os\nos.system('id')", "subprocess", 2, 1, "warn", "refuse"),
    "os.popen": ("import os\nos.popen('id')", "subprocess", 2, 1, "warn", "refuse"),
    "os.execv": ("import os\nos.execv('/bin/sh', ['sh'])", "subprocess", 2, 1, "warn", "refuse"),
    "os.spawnlp": ("import os\nos.spawnlp(0, 'sh')", "subprocess", 2, 1, "warn", "refuse"),
    "posix.system": ("import posix\nposix.system('id')", "subprocess", 2, 1, "warn", "refuse"),
    "module alias": ("import os as o\no.system('id')", "subprocess", 2, 1, "warn", "refuse"),
    "function alias": ("from os import system as s\ns('id')", "subprocess", 2, 1, "warn", "refuse"),
    "function handed on": ("import os\nrun = os.system", "subprocess", 2, 7, "warn", "refuse"),
    "asyncio": ("import asyncio\nasyncio.create_subprocess_shell('id')", "subprocess", 2, 1, "warn", "refuse"),
    "os.fork": ("import os\nos.fork()", "fork", 2, 1, None, "refuse"),
    "process pool": (
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor() as pool: pass",
        "fork",
        2,
        6,
        None,
        "refuse",
    ),
    "os.kill": ("import os, signal\nos.kill(1, signal.SIGKILL)", "signal", 2, 1, None, "warn"),
    "connection": ("import asyncio\nawait asyncio.open_connection('a', 1)", "network", 2, 7, "warn", "warn"),
    "getpass": ("import getpass\ngetpass.getpass()", "input", 2, 1, "warn", "warn"),
    "io.open": ("import io\nio.open('/etc/hosts')", "open-outside", 2, 1, "warn", "warn"),
    "path": ("from pathlib import Path\nPath('/etc/hosts').read_text()", "open-outside", 2, 1, "warn", "warn"),
    "sleep": ("import time\ntime.sleep(60 * 60)", "sleep", 2, 1, "warn", "warn"),
    "asyncio sleep": ("import asyncio\nawait asyncio.sleep(121)", "sleep", 2, 7, "warn", "warn"),
}


@pytest.mark.parametrize("name", MODULE_RULES)
def test_functions_of_modules_fall_under_their_rule(name: str) -> None:
    """Through every way of importing them; where the import itself is refused, that finding stands alone."""
    code, rule, line, column, at_development, at_production = MODULE_RULES[name]

    def expected(severity: str | None) -> list[tuple[str, str, int, int]]:
        return [] if severity is None else [(severity, rule, line, column)]

    assert found(code, "development") == expected(at_development)
    assert found(code, "production") == expected(at_production)
    assert ("refuse", "import") in [each[:2] for each in found(code, "hardened")]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import subprocess\nsubprocess.run(['ls'])", "subprocess"),
        ("import ctypes\nctypes.CDLL(None)", "ctypes"),
        ("import requests\nrequests.get('https://example.org')", "network"),
        ("import urllib.request\nurllib.request.urlopen('https://example.org')", "network"),
        ("from socket import create_connection as connect\nconnect(('a', 1))", "network"),
    ],
)
def test_a_refused_import_is_reported_once_and_its_use_where_it_may_be_imported(code: str, rule: str) -> None:
    """Development may import everything, and is told that the use has no effect inside."""
    assert found(code, "development") == [("warn", rule, 2, 1)]
    assert [each[:3] for each in found(code, "production")] == [("refuse", "import", 1)]
    assert [each[:3] for each in found(code, "hardened")] == [("refuse", "import", 1)]


def test_processes_are_no_finding_where_the_policy_allows_them() -> None:
    """The rule follows the number of processes, not the level."""
    policy = msgspec.structs.replace(DEFAULT, processes=4)

    assert review("import os\nos.fork()", policy).verdict == "allow"


def test_a_module_that_the_operator_allows_is_warned_about() -> None:
    """Its functions still have no network to talk to."""
    policy = msgspec.structs.replace(DEFAULT, modules=("requests",))

    result = review("import requests\nrequests.get('https://example.org')", policy)

    assert [(each.severity, each.rule, each.line) for each in result.findings] == [("warn", "network", 2)]


# The first finding's text, word for word.
MESSAGES: dict[str, tuple[str, str, str | None]] = {
    "eval('1')": ("eval", "'eval' runs text as code.", "Write the code out; read data with json.loads."),
    "import os\nos.system('id')": ("subprocess", "'os.system' starts another program.", NO_PROGRAMS),
    "import os\nos.fork()": (
        "fork",
        "'os.fork' starts a process, and policy 'production' allows only one.",
        USE_THREADS,
    ),
    "import os\nos.kill(1, 9)": (
        "signal",
        "'os.kill' reaches no process but the code's own.",
        "Raise an exception to stop early.",
    ),
    "import asyncio\nasyncio.open_connection": (
        "network",
        "'asyncio.open_connection' needs a network, and there is none inside.",
        ASK_A_TOOL,
    ),
    "input()": (
        "input",
        "'input' waits for an answer, and standard input is empty.",
        "Pass values in through `context`.",
    ),
    "open('/etc/shadow')": ("open-outside", "'/etc/shadow' cannot be reached from inside.", FILE_HINT),
    "while True: pass": ("endless-loop", "Nothing in this loop ends it.", "Add a `break`."),
    "import time\ntime.sleep(90.5)": (
        "sleep",
        "Sleeping for 90.5 s outlasts the wall limit of 30 s.",
        "Sleep less, or ask for a longer limit.",
    ),
    "'x' * 10**10": ("memory", "This value alone exceeds the memory limit of 512 MiB.", "Work in smaller pieces."),
    "f.__globals__": ("dunder-walk", "'__globals__' leads out of the object into the interpreter.", WALK_HINT),
    "x.__base__.__subclasses__()": (
        "dunder-chain",
        "'__subclasses__' leads out of the object into the interpreter.",
        WALK_HINT,
    ),
    "from . import rates": (
        "import",
        "A relative import needs a package around the code, and there is none.",
        "Name the module in full.",
    ),
}


@pytest.mark.parametrize("code", MESSAGES)
def test_a_finding_says_what_is_wrong_and_what_to_do(code: str) -> None:
    """The reader is a model that will change its code by this text."""
    assert only(code) == MESSAGES[code]


def test_native_code_is_explained_at_development() -> None:
    """The only level where `ctypes` can be imported."""
    assert only("import ctypes\nctypes.CDLL(None)", "development") == (
        "ctypes",
        "'ctypes.CDLL' calls native code, and the kernel refuses most of what that can do.",
        NATIVE_HINT,
    )


IMPORTS: dict[str, tuple[str, str]] = {
    "import subprocess": ("subprocess", NO_PROGRAMS),
    "import subprocess as sp": ("subprocess", NO_PROGRAMS),
    "from subprocess import run": ("subprocess", NO_PROGRAMS),
    "import multiprocessing.pool": ("multiprocessing.pool", USE_THREADS),
    "import socket": ("socket", NO_NETWORK),
    "import requests": ("requests", NO_NETWORK),
    "import httpx": ("httpx", NO_NETWORK),
    "import urllib.request": ("urllib.request", NO_NETWORK),
    "from urllib import parse, request": ("urllib.request", NO_NETWORK),
    "from urllib.request import urlopen": ("urllib.request", NO_NETWORK),
    "import urllib\nurllib.request.urlopen('x')": ("urllib.request", NO_NETWORK),
    "import http.client": ("http.client", NO_NETWORK),
    "from http import client as c": ("http.client", NO_NETWORK),
    "import ctypes": ("ctypes", NATIVE_HINT),
    "from ctypes.util import find_library": ("ctypes.util", NATIVE_HINT),
    "__import__('socket')": ("socket", NO_NETWORK),
    "import importlib\nimportlib.import_module('ctypes.util')": ("ctypes.util", NATIVE_HINT),
    "from importlib import import_module as load\nload('socket')": ("socket", NO_NETWORK),
    "import builtins\nbuiltins.__import__('socket')": ("socket", NO_NETWORK),
    "import seaborn": (
        "seaborn",
        "These can be imported: the standard library, duckdb, numpy, pandas, polars, scipy.",
    ),
    "def load():\n    import socket": ("socket", NO_NETWORK),
}


@pytest.mark.parametrize("code", IMPORTS)
def test_a_forbidden_import_is_refused_with_the_way_out(code: str) -> None:
    """However it is written, the message names the module and the hint says what to do instead."""
    module, hint = IMPORTS[code]

    assert only(code) == ("import", f"{module!r} cannot be imported under policy 'production'.", hint)
    assert review(code, DEFAULT).verdict == "refuse"


@pytest.mark.parametrize("module", ["os", "csv", "dataclasses", "pandas", "pathlib", "typing"])
def test_hardened_names_the_modules_it_allows(module: str) -> None:
    """With so short a list the list is the best hint."""
    assert only(f"import {module}", "hardened") == (
        "import",
        f"{module!r} cannot be imported under policy 'hardened'.",
        HARDENED_MODULES,
    )


def test_a_preset_is_named_in_its_refusals() -> None:
    """The operator's own policies carry their own lists."""
    (finding,) = review("import os", DATABASE_READONLY).findings

    assert finding.message == "'os' cannot be imported under policy 'database_readonly'."
    assert finding.hint == (
        "These can be imported: collections, csv, datetime, decimal, functools, itertools, json, math, re, sqlite3, "
        "statistics, string."
    )


@pytest.mark.parametrize("level", ["development", "production", "hardened"])
@pytest.mark.parametrize(
    "code",
    [
        "import json, math, re",
        "from collections.abc import Iterable",
        "from statistics import mean",
        "from __future__ import annotations",
        "from servers.expenses import list_expenses",
        "import servers",
        "from skills import monthly_total",
        "from tool_discovery import search_tools",
    ],
)
def test_what_every_level_can_import_is_allowed(code: str, level: str) -> None:
    """Submodules of allowed modules, the guest's own modules and the import that is syntax."""
    assert review(code, LEVELS[IsolationLevel(level)]).verdict == "allow"


def test_packages_that_the_guest_environment_has_can_be_imported() -> None:
    """What is given as `packages` is all there is beside the standard library."""
    assert found("import numpy, scipy.stats", packages=["numpy", "scipy"]) == []
    assert only("import pandas", packages=["numpy", "scipy"]) == (
        "import",
        "'pandas' cannot be imported under policy 'production'.",
        "These can be imported: the standard library, numpy, scipy.",
    )


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    import orjson as json\nexcept ImportError:\n    import json",
        "try:\n    import requests\nexcept (ModuleNotFoundError, OSError):\n    requests = None",
        "try:\n    import requests\nexcept Exception:\n    pass",
        "try:\n    import requests\nexcept:\n    pass",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import requests",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import requests",
        "import typing\nif typing.TYPE_CHECKING:\n    from requests import Session",
    ],
)
def test_an_import_that_may_fail_is_no_finding(code: str) -> None:
    """The code has made its own provision."""
    assert found(code) == []


def test_an_import_in_an_unrelated_try_is_still_refused() -> None:
    """Only handlers that catch the import's failure make it optional."""
    assert found("try:\n    import requests\nexcept KeyError:\n    pass") == [("refuse", "import", 2, 12)]


@pytest.mark.parametrize(
    "code",
    [
        "df.eval('a + b')",
        "import re\nre.compile('a')",
        "model.eval()",
        "eval['loss']",
        "class Model:\n    def eval(self):\n        return 1\n    def input(self):\n        return self.eval()",
        "def compile(rows):\n    return rows\ncompile([1])",
        "def run(input):\n    return input()",
        "input['rows']",
        "system = 3\nsystem + 1",
        "from os import path\npath.join('a', 'b')",
        "import os\nos.path.join('a', 'b')\nos.environ.get('HOME')\nos.getcwd()\nos.listdir('.')",
        "self.__class__.__name__",
        "super().__init__()",
        "obj.__dict__\nobj.__doc__\nf.__name__\nf.__wrapped__\nf.__annotations__\nC.__mro__\nC.__bases__\nm.__file__",
        "C.__mro__" + ".a" * 20 + ".__bases__",
        "from pathlib import Path\nPath(name).read_text()\nPath('/etc', name).open()",
        "getattr(row, 'amount', None)",
        "getattr(row, '__name__')",
        "open('data.csv')",
        "open('results/out.json', 'w')",
        "open('/workspace/a/b.txt')",
        "open('/tmp/scratch')",
        "open('/servers/expenses/list_expenses.py')",
        "open('/dev/null', 'w')\nopen('/dev/urandom', 'rb')",
        "open(path)",
        "from pathlib import Path\nPath('/etc/hosts').name\nPath('out.txt').write_text('x')",
        "while True:\n    break",
        "def f():\n    while True:\n        if g():\n            return 1",
        "def f():\n    while True:\n        yield 1",
        "while True:\n    await queue.get()",
        "async def f():\n    while True:\n        async for x in y:\n            pass",
        "while True:\n    raise ValueError",
        "while True:\n    for x in 'ab':\n        raise ValueError",
        "while True:\n    next(rows)",
        "import sys\nwhile True:\n    sys.exit()",
        "try:\n    while True:\n        pop()\nexcept IndexError:\n    pass",
        "while rows:\n    rows.pop()",
        "import time\ntime.sleep(0.5)\ntime.sleep(n)",
        "range(10**12)",
        "[0] * 10**6",
        "'-' * 80\n'ab' * n\nn * 10**12\n10**10**2",
        "bytes(1024)\nbytes('text', 'utf-8')",
        "'x' % 10**10\n[0] + 10**10",
        "import importlib\nimportlib.import_module(name)",
        "__import__('not a module')",
        "import asyncio\nawait asyncio.sleep(1)\nasyncio.run(main())",
        "r'\\d'\n'\\d'\nx is 1",
        "",
        "\n\n# nothing\n",
    ],
)
def test_ordinary_code_is_allowed(code: str) -> None:
    """A false refusal is the worst a review can do, and a false warning costs context."""
    assert review(code, DEFAULT).verdict == "allow"


@pytest.mark.parametrize("name", PROBES)
def test_everyday_code_is_allowed_at_production(name: str) -> None:
    """Not one of the everyday probes draws a finding."""
    assert review(PROBES[name][0], DEFAULT).findings == ()


@pytest.mark.parametrize("name", PROBES)
def test_everyday_probes_give_their_results_in_plain_python(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expected values are Python's own, so that a sandbox that gives others is wrong."""
    code, expected = PROBES[name]
    monkeypatch.chdir(tmp_path)
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    assert _run(code, main.__dict__) == expected


def _run(code: str, names: dict[str, object]) -> object:
    tree = ast.parse(code)
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        kept = ast.Assign([ast.Name("__last__", ast.Store())], last.value)
        tree.body[-1] = ast.copy_location(kept, last)
        ast.fix_missing_locations(tree)
    compiled = compile(tree, "<probe>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if compiled.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(compiled, names))
    else:
        exec(compiled, names)
    return json.loads(json.dumps(names["result"] if "result" in names else names.get("__last__")))


def test_there_are_enough_everyday_probes() -> None:
    """The promise is 64."""
    assert len(PROBES) >= 64


def test_a_syntax_error_has_its_place_and_pythons_own_words() -> None:
    """Line, column, source line and message are what the interpreter would show."""
    assert review("x = 1\nrows = [1, 2\nprint(rows)", DEFAULT) == Review(
        verdict="refuse",
        findings=(
            Finding(
                severity="refuse",
                rule="syntax",
                line=2,
                column=8,
                source_line="rows = [1, 2",
                message="SyntaxError: '[' was never closed.",
                hint=None,
            ),
        ),
        estimate=Estimate(),
    )


@pytest.mark.parametrize(
    ("code", "line", "column", "message"),
    [
        ("\n\nreturn 5", 3, 1, "SyntaxError: 'return' outside function."),
        ("class A:\n    return 5", 2, 5, "SyntaxError: 'return' outside function."),
        ("x = yield 1", 1, 5, "SyntaxError: 'yield' outside function."),
        ("yield from y", 1, 1, "SyntaxError: 'yield' outside function."),
        ("if x:\n    break", 2, 5, "SyntaxError: 'break' outside loop."),
        ("for x in y:\n    def f():\n        break", 3, 9, "SyntaxError: 'break' outside loop."),
        ("for x in y:\n    class A:\n        break", 3, 9, "SyntaxError: 'break' outside loop."),
        ("for x in y: pass\nelse: break", 2, 7, "SyntaxError: 'break' outside loop."),
        ("continue", 1, 1, "SyntaxError: 'continue' not properly in loop."),
        ("def f():\n    return await g()", 2, 12, "SyntaxError: 'await' outside async function."),
        ("f = lambda: await g()", 1, 13, "SyntaxError: 'await' outside async function."),
        ("class A:\n    x = await g()", 2, 9, "SyntaxError: 'await' outside function."),
        ("def f():\n    async for x in y: pass", 2, 5, "SyntaxError: 'async for' outside async function."),
        ("def f():\n    async with x: pass", 2, 5, "SyntaxError: 'async with' outside async function."),
        ("if x:\ny = 1", 2, 1, "IndentationError: expected an indented block after 'if' statement on line 1."),
        ("if x:\n\ty\n        z", 3, 1, "TabError: inconsistent use of tabs and spaces in indentation."),
        ("x = 1\n\ty = 2", 2, 1, "IndentationError: unexpected indent."),
        ("a = 'ü'; b = )", 1, 14, "SyntaxError: unmatched ')'."),
        ("f(a b)", 1, 3, "SyntaxError: invalid syntax. Perhaps you forgot a comma?"),
        ("x = 1\r\ny = 2\rz = )", 3, 5, "SyntaxError: unmatched ')'."),
        ("x = '\f'\ny = )", 2, 5, "SyntaxError: unmatched ')'."),
        ("x = 1\ny = '\0'", 2, 6, "The code holds a null byte."),
        ("x = 1\ny = '\ud800'", 2, 6, "The code holds half of a surrogate pair."),
    ],
)
def test_code_that_is_not_python_is_refused_at_every_level(code: str, line: int, column: int, message: str) -> None:
    """Errors of the parser, and those of the compiler that agents make."""
    for policy in LEVELS.values():
        result = review(code, policy)
        assert result.verdict == "refuse"
        assert [(each.rule, each.line, each.column, each.message) for each in result.findings] == [
            ("syntax", line, column, message)
        ]


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("```python\nx = 1\n```", "Send the code alone, without the ``` fence around it."),
        ("!pip install pandas", "Leave out notebook commands: this is plain Python."),
        ("%matplotlib inline", "Leave out notebook commands: this is plain Python."),
        ("return 5", "End with the value as an expression, or set `result`."),
        ("def f():\n    await g()", "Write `async def`, or leave out `await`: tools answer either way."),
    ],
)
def test_common_slips_of_agents_get_a_hint(code: str, hint: str) -> None:
    """Python's own message does not know where the code came from."""
    assert only(code)[2] == hint


@pytest.mark.parametrize(
    "code",
    [
        "await f()",
        "x = [await f(y) async for y in z]",
        "async for x in y:\n    async with x:\n        break",
        "async def f():\n    return [await g(x) for x in y]",
        "def f():\n    return (await x for x in y)",
        "def f():\n    yield\n    return 1",
        "f = lambda: (yield)",
        "@(await f())\ndef g(x=await f()):\n    return x",
        "while x:\n    try:\n        continue\n    finally:\n        break",
    ],
)
def test_statements_in_their_place_are_allowed(code: str) -> None:
    """Top-level `await` works inside, and defaults and decorators belong to the scope around their function."""
    assert review(code, DEFAULT).verdict == "allow"


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "1+" * 100_000 + "1",
        "a" + ".b" * 100_000,
        "a" + "()" * 100_000,
        "-" * 100_000 + "1",
        "lambda:" * 30_000 + "1",
        "if a: pass\n" + "elif b: pass\n" * 19_000,
    ],
    ids=["sum", "attributes", "calls", "signs", "lambdas", "branches"],
)
def test_code_nested_too_deeply_is_refused_as_such(code: str) -> None:
    """The parser gives up with errors that are not syntax errors."""
    finding = Finding(
        severity="refuse",
        rule="syntax",
        message="The code is nested too deeply for Python's parser.",
        hint="Split the expression, or pass the data in by `context`.",
    )

    assert review(code, DEFAULT) == Review(verdict="refuse", findings=(finding,), estimate=Estimate())


def test_deep_but_parseable_code_is_walked_without_recursion() -> None:
    """As deep as the parser goes, far deeper than Python's own frames would."""
    assert review("x = " + "1+" * 900 + "eval('1')", DEFAULT).verdict == "warn"
    assert review("x = a" + ".b" * 900, DEFAULT).verdict == "allow"


def test_code_that_is_costly_to_compile_is_not_compiled() -> None:
    """Each level of nested `finally` doubles the compiler's work; it would also find this one nested too deeply."""
    code = "".join(f"{' ' * depth}try: pass\n{' ' * depth}finally:\n" for depth in range(40)) + " " * 40 + "pass\n"

    assert review(code, DEFAULT).verdict == "allow"


@pytest.mark.parametrize("unit", ["#", "é"])
def test_code_beyond_the_size_cap_is_refused(unit: str) -> None:
    """The cap counts bytes, and what fits exactly is read."""
    size = len(unit.encode())
    fitting = unit * (Source.most_bytes // size)
    finding = Finding(
        severity="refuse",
        rule="size",
        message="The code is larger than 262,144 bytes.",
        hint="Pass data in through `context` or a file in the workspace.",
    )

    assert review(fitting, DEFAULT).verdict == "allow"
    assert review(fitting + unit, DEFAULT) == Review(verdict="refuse", findings=(finding,), estimate=Estimate())


def test_columns_count_characters() -> None:
    """The parser counts bytes, and editors do not."""
    (finding,) = review("é = 'ü'; eval(é)", DEFAULT).findings

    assert (finding.line, finding.column, finding.source_line) == (1, 10, "é = 'ü'; eval(é)")


def test_long_lines_and_names_are_cut() -> None:
    """A finding is for a model's context, whatever the code holds."""
    (finding,) = review(f"import {'x' * 5_000}", DEFAULT).findings

    assert finding.source_line == f"import {'x' * 192}…"
    assert finding.message == f"'{'x' * 79}…' cannot be imported under policy 'production'."


def test_findings_are_bounded_and_refusals_come_first() -> None:
    """Sixty warnings do not hide the one reason for the verdict; what is kept is in the order of the text."""
    result = review("eval('1')\n" * 60 + "import socket\n", DEFAULT)

    assert result.verdict == "refuse"
    assert [(each.severity, each.line) for each in result.findings] == [
        *(("warn", line) for line in range(1, 50)),
        ("refuse", 61),
    ]


def test_all_findings_are_listed_in_the_order_of_the_text() -> None:
    """One look shows everything there is to fix."""
    assert found("import os, socket\neval(input()); os.system('id')") == [
        ("refuse", "import", 1, 12),
        ("warn", "eval", 2, 1),
        ("warn", "input", 2, 6),
        ("refuse", "subprocess", 2, 16),
    ]


REFERENCES: dict[str, list[tuple[str | None, str | None, int, int]]] = {
    "call_tool('mcp__expenses__list_expenses', {})": [(None, "mcp__expenses__list_expenses", 1, 1)],
    "x = 1\nawait call_tool(name='send_mail')": [(None, "send_mail", 2, 7)],
    "call_tool('a')\ncall_tool('a')": [(None, "a", 1, 1)],
    "from servers.expenses import list_expenses as rows\nrows()\nrows.__doc__": [
        ("expenses", None, 1, 1),
        ("expenses", "list_expenses", 1, 30),
    ],
    "from servers.expenses.list_expenses import list_expenses": [("expenses", "list_expenses", 1, 1)],
    "import servers; servers.mail.send()": [("mail", None, 1, 17), ("mail", "send", 1, 17)],
    "import servers.expenses as e; e.nope()": [("expenses", None, 1, 8), ("expenses", "nope", 1, 31)],
    "from servers import call_tool, expenses": [("expenses", None, 1, 32)],
    "from servers.expenses import *": [("expenses", None, 1, 1)],
    "import servers\nservers.__path__\nservers.expenses.__file__": [("expenses", None, 3, 1)],
    "call_tool('\\ud800')": [(None, "\\ud800", 1, 1)],
    f"call_tool({'x' * 300!r})": [(None, "x" * 200, 1, 1)],
    "call_tool('search_tools')": [],
    "call_tool(name)": [],
    "def call_tool(name):\n    return name\ncall_tool('mine')": [],
    "import json as servers\nservers.nothing.here": [],
}
"""Code, and the tools and servers that it names: server, name, line and column."""


@pytest.mark.parametrize("code", REFERENCES)
def test_the_tools_that_code_names_are_reported_where_they_are_first_named(code: str) -> None:
    """The gateway, which knows the tools, checks them."""
    result = review(code, DEFAULT)

    assert [(each.server, each.name, each.line, each.column) for each in result.references] == REFERENCES[code]
    assert result.verdict == "allow"


def test_references_are_bounded_and_the_first_are_kept() -> None:
    """They are sent from a helper process."""
    code = "\n".join(f"call_tool('tool_{number}')" for number in range(300))

    references = review(code, DEFAULT).references

    assert len(references) == MAX_REFERENCES
    assert references[-1] == ToolReference(name="tool_199", line=200, column=1, source_line="call_tool('tool_199')")


def test_further_findings_change_the_verdict_and_stand_in_the_order_of_the_text() -> None:
    """Of more than fifty, refusals are kept before warnings."""
    warned = review("\n".join("input()" for _ in range(60)), DEFAULT)
    further = Finding(severity="refuse", rule="unknown-tool", line=55, column=1, message="No tool named 'a'.")

    joined = warned.with_findings([further])

    assert warned.with_findings([]) is warned
    assert (warned.verdict, joined.verdict, len(joined.findings)) == ("warn", "refuse", 50)
    assert joined.findings == (*warned.findings[:49], further)


ESTIMATES: dict[str, Estimate] = {
    "x = 1": Estimate(),
    "print(len('a'))": Estimate(calls=2),
    "import os.path\nfrom json import loads\n__import__('csv')": Estimate(calls=1, imports=("csv", "json", "os.path")),
    "call_tool('a')\ncall_tool('b')": Estimate(calls=2, tool_calls=2),
    "from servers.a import b as f\nf()\nf()": Estimate(calls=2, tool_calls=2, imports=("servers.a",)),
    "import servers.a\nservers.a.b()": Estimate(calls=1, tool_calls=1, imports=("servers.a",)),
    "for x in call_tool('a'):\n    pass": Estimate(calls=1, tool_calls=1),
    "[x for x in call_tool('a')]": Estimate(calls=1, tool_calls=1),
    "for x in y:\n    call_tool('a')": Estimate(calls=1, tool_calls=None),
    "while call_tool('a'):\n    pass": Estimate(calls=1, tool_calls=None),
    "call_tool('a')\n[call_tool('b') for x in y]": Estimate(calls=2, tool_calls=None),
    "def f():\n    call_tool('a')": Estimate(calls=1, tool_calls=None),
    "f = lambda: call_tool('a')": Estimate(calls=1, tool_calls=None),
    "def f(x=call_tool('a')): pass": Estimate(calls=1, tool_calls=1),
}


@pytest.mark.parametrize("code", ESTIMATES)
def test_the_estimate_counts_what_the_text_shows(code: str) -> None:
    """What is evaluated once is counted once; what depends on data is said to."""
    assert review(code, DEFAULT).estimate == ESTIMATES[code]


def test_the_estimate_names_at_most_a_hundred_imports() -> None:
    """A record of the run stays small, whatever the code imports."""
    code = "\n".join(f"import m{number:03}" for number in range(200))

    assert review(code, DEFAULT).estimate.imports == tuple(f"m{number:03}" for number in range(100))


def test_refused_code_has_its_estimate_too() -> None:
    """Only code that cannot be parsed has none."""
    result = review("import socket\nfor x in y: f(x)", DEFAULT)

    assert result.estimate == Estimate(calls=1, imports=("socket",))


def test_the_process_keeps_its_warning_filters() -> None:
    """The parser's warnings about the agent's literals are neither shown nor turned into errors."""
    before = list(warnings.filters)

    assert review("'\\d' is 1", DEFAULT).verdict == "allow"
    assert list(warnings.filters) == before


def test_a_review_is_plain_data() -> None:
    """It goes into records and over the wire."""
    result = review("import socket\neval('1')", DEFAULT)

    assert msgspec.json.decode(msgspec.json.encode(result), type=Review) == result


def _check_consistency(code: str) -> None:
    for policy in LEVELS.values():
        result = review(code, policy)
        severities = {finding.severity for finding in result.findings}
        expected = "refuse" if "refuse" in severities else "warn" if "warn" in severities else "allow"
        assert result.verdict == expected
        assert msgspec.json.decode(msgspec.json.encode(result), type=Review) == result
        assert all(finding.line is None or finding.line >= 1 for finding in result.findings)
        assert all(finding.column is None or finding.column >= 1 for finding in result.findings)


@given(st.text(st.characters()))
@example("\ud800")
@example("\0")
@example("\ufeffx = 1")
@example("# coding: rot13\nx")
@example("from __future__ import braces")
@example("x = " + "9" * 5_000)
@example("f'{'")
@example("x=f'''{\na\nx=f'''{")
@example('f"{when:03d}", f"{0.256:.\x1a{when=}"')
@example("\\")
@example("'''")
@example("\f\n\x1a")
@example("call_tool('\\ud800'); __import__('\\ud800'); open('\\ud800'); open('\\0')")
@example("'x' * 1e999; 'x' * 0 * 1e999; 1 << 10**9; 0 ** 0 * ''")
def test_any_text_gets_a_consistent_verdict(code: str) -> None:
    """It never raises, and the verdict is the gravest of its findings."""
    _check_consistency(code)


_FRAGMENTS = (
    *(
        "\n",
        " ",
        "    ",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        ".",
        "*",
        "'",
        '"',
        "#",
        "\\",
        "=",
        "\0",
        "\ud800",
        "é",
    ),
    *("await ", "yield ", "return ", "async ", "lambda: ", "def f():", "class A:", "import ", "from . import x\n"),
    *(
        "while True:",
        "break",
        "eval",
        "open('/x')",
        ".__globals__",
        "__import__('os')",
        "servers.a.b()",
        "10**9",
        "x := ",
    ),
)


@st.composite
def mutated_code(draw: st.DrawFn) -> str:
    """An everyday probe with a few pieces cut out or put in."""
    code = draw(st.sampled_from([code for code, _ in PROBES.values()]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(code)))
        end = min(len(code), start + draw(st.integers(0, 12)))
        code = code[:start] + draw(st.sampled_from(("", *_FRAGMENTS))) + code[end:]
    return code


@given(mutated_code())
@settings(max_examples=300, deadline=None)
def test_damaged_code_gets_a_consistent_verdict(code: str) -> None:
    """The same for text that is nearly Python."""
    _check_consistency(code)


@given(mutated_code())
@settings(max_examples=300, deadline=None)
def test_code_that_python_compiles_has_no_syntax_finding(code: str) -> None:
    """Nothing that would run is refused for its syntax."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<agent>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return

    assert [finding for finding in review(code, DEFAULT).findings if finding.rule == "syntax"] == []
