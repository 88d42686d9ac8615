"""What an agent is told when its code fails: type, message, line, its own frames, and a hint that helps."""

from typing import Any

import pytest

from sealyard.values.runs import Failure

FILES = "Only files of the workspace, the current directory, can be opened; nothing of the host exists here."
NONE = "It is None here: check for None first, or give a default such as `(… or {})`."
AWAIT = "It is a coroutine, not its value: write `await` before the call."


@pytest.mark.behaviour("run.error_line")
def test_exception_has_type_message_line_and_source(driver: Any) -> None:
    """The innermost line of the agent's own code is named; output up to there is kept."""
    outcome = driver.run("print('so far')\nx = 0\n1 / x")

    assert (outcome.status, outcome.result, outcome.output) == ("failed", None, "so far\n")
    assert outcome.failure == Failure(
        kind="exception",
        type="ZeroDivisionError",
        message="division by zero",
        line=3,
        source_line="1 / x",
        traceback="line 3, in <module>\n    1 / x",
        hint="`x` is 0 here: check that before dividing.",
    )


def test_traceback_shows_the_agents_own_frames_only(driver: Any) -> None:
    """Frames of the library that called back, and of the sandbox, are left out."""
    outcome = driver.run(
        """
        import functools

        def inner(total, row):
            return total + row["amount"]

        def outer(rows):
            return functools.reduce(inner, sorted(rows, key=lambda row: row["n"]), 0)

        outer([{"n": 1, "amount": 5}, {"n": 2}])
        """
    )

    assert outcome.failure == Failure(
        kind="exception",
        type="KeyError",
        message="'amount'",
        line=4,
        source_line='return total + row["amount"]',
        traceback="""\
line 9, in <module>
    outer([{"n": 1, "amount": 5}, {"n": 2}])
line 7, in outer
    return functools.reduce(inner, sorted(rows, key=lambda row: row["n"]), 0)
line 4, in inner
    return total + row["amount"]""",
        hint="It has the keys n.",
    )


def test_line_of_an_error_inside_a_library_is_the_agents(driver: Any) -> None:
    """An exception raised by the standard library points at the line that called it."""
    failure = driver.run("import json\n\njson.loads('{')").failure

    assert (failure.type, failure.line, failure.source_line, failure.traceback) == (
        "JSONDecodeError",
        3,
        "json.loads('{')",
        "line 3, in <module>\n    json.loads('{')",
    )


def test_error_in_async_code_names_its_line(driver: Any) -> None:
    """Frames of the event loop are left out, those of the agent's coroutines stay."""
    failure = driver.run(
        """
        import asyncio

        async def fetch(n):
            await asyncio.sleep(0)
            raise LookupError(f"no {n}")

        await asyncio.gather(fetch(1))
        """
    ).failure

    assert (failure.type, failure.message, failure.line) == ("LookupError", "no 1", 5)
    assert failure.traceback == (
        'line 7, in <module>\n    await asyncio.gather(fetch(1))\nline 5, in fetch\n    raise LookupError(f"no {n}")'
    )


def test_error_in_a_thread_is_printed_and_does_not_fail_the_run(driver: Any) -> None:
    """As in any Python: the thread's traceback goes to standard error, the rest goes on."""
    outcome = driver.run(
        """
        import threading

        def work():
            raise ValueError("in a thread")

        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        "went on"
        """
    )

    lines = outcome.output.splitlines()
    assert (outcome.status, outcome.result) == ("ok", "went on")
    assert (lines[0], lines[-1]) == ("Exception in thread worker:", "ValueError: in a thread")
    assert '  File "<agent>", line 4, in work' in lines


def test_error_of_a_future_is_raised_where_it_is_awaited(driver: Any) -> None:
    """An executor's exception keeps the frames of the function that raised it."""
    failure = driver.run(
        """
        from concurrent.futures import ThreadPoolExecutor

        def work(n):
            return 1 / n

        with ThreadPoolExecutor() as pool:
            list(pool.map(work, [1, 0]))
        """
    ).failure

    assert (failure.type, failure.line) == ("ZeroDivisionError", 4)
    assert (
        failure.traceback == "line 7, in <module>\n    list(pool.map(work, [1, 0]))\nline 4, in work\n    return 1 / n"
    )


def test_group_of_exceptions_names_its_members(driver: Any) -> None:
    """A task group's failure says which exceptions it holds."""
    failure = driver.run(
        """
        import asyncio

        async def fail(error):
            raise error

        async with asyncio.TaskGroup() as group:
            group.create_task(fail(ValueError("one")))
            group.create_task(fail(KeyError("two")))
        """
    ).failure

    assert (failure.kind, failure.type, failure.line) == ("exception", "ExceptionGroup", 6)
    assert failure.message == "unhandled errors in a TaskGroup (2 sub-exceptions): ValueError: one; KeyError: 'two'"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError", "(the exception's text could not be had: its __str__ raised RuntimeError)"),
        ("raise SystemExit(3)", "(the exception's text could not be had: its __str__ raised SystemExit)"),
        ("return 5", "(the exception's text could not be had: its __str__ raised TypeError)"),
        ("return str(self)", "(the exception's text could not be had: its __str__ raised RecursionError)"),
        ("return 'x' * 10_000_000", "x" * 4_000 + "… (+9996000 characters)"),
        (r"return '\ud800'", "\\ud800"),
    ],
)
def test_exception_with_a_hostile_text_is_still_reported(driver: Any, body: str, message: str) -> None:
    """An exception whose `__str__` raises, lies or never ends cannot hide the failure or flood the report."""
    failure = driver.run(f"class Evil(Exception):\n    def __str__(self):\n        {body}\nraise Evil").failure

    assert (failure.kind, failure.type, failure.message, failure.line) == ("exception", "Evil", message, 4)


@pytest.mark.parametrize("name", ["5", "'x' * 1_000_000", "1 / 0", "object()"])
def test_exception_class_with_a_hostile_name_is_still_reported(driver: Any, name: str) -> None:
    """The class's real name is read past whatever its metaclass pretends."""
    failure = driver.run(
        f"""
        class Liar(type):
            @property
            def __name__(cls):
                return {name}

        class Evil(Exception, metaclass=Liar):
            pass

        raise Evil("caught")
        """
    ).failure

    assert (failure.kind, failure.type, failure.message, failure.line) == ("exception", "Evil", "caught", 9)


@pytest.mark.parametrize(
    "body",
    [
        "__class__ = property(lambda self: 1 / 0)",
        "args = property(lambda self: 1 / 0)\n    errno = property(lambda self: 1 / 0)",
    ],
)
def test_exception_that_cannot_be_looked_at_is_still_reported(driver: Any, body: str) -> None:
    """An exception that raises whatever is asked of it is named all the same."""
    failure = driver.run(f"class Evil(OSError):\n    {body}\nraise Evil").failure

    assert failure == Failure(
        kind="exception",
        type="Evil",
        message="(the exception could not be described: that raised ZeroDivisionError)",
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys\nsys.exit(3)", "3"),
        ("raise SystemExit('no data')", "no data"),
        ("exit(1)", "1"),
        ("import sys\nimport asyncio\nawait asyncio.sleep(0)\nsys.exit(2)", "2"),
    ],
)
def test_leaving_with_a_status_is_a_failure_of_the_code(driver: Any, code: str, message: str) -> None:
    """`sys.exit` with anything but 0 or nothing says that the code failed; the worker is not broken."""
    outcome = driver.run(code)

    assert (outcome.status, outcome.failure.kind, outcome.failure.type, outcome.failure.message) == (
        "failed",
        "exit",
        "SystemExit",
        message,
    )
    assert outcome.failure.line == len(code.splitlines())


def test_descriptor_that_would_wait_is_not_taken_for_the_limit_of_processes(driver: Any) -> None:
    """Reading an empty pipe without waiting fails with the same number as a fork past the limit."""
    failure = driver.run("import os\nends = os.pipe()\nos.set_blocking(ends[0], False)\nos.read(ends[0], 1)").failure

    assert (failure.kind, failure.type, failure.line) == ("exception", "BlockingIOError", 4)


def test_ending_the_interpreter_is_told_apart_from_leaving(driver: Any) -> None:
    """`os._exit` ends the worker before it can report, which is said with its status."""
    outcome = driver.run("import os\nprint('before')\nos._exit(3)")

    assert (outcome.status, outcome.output) == ("broken", "before\n")
    assert outcome.failure == Failure(
        kind="exit",
        type="InterpreterExited",
        message="The code ended its interpreter with status 3 before it was done.",
        hint="Let the code run to its end; do not call os._exit().",
    )


@pytest.mark.parametrize(
    ("code", "type_name", "message", "line", "source_line"),
    [
        ("x = 1\ny = = 2", "SyntaxError", "invalid syntax", 2, "y = = 2"),
        ("if x:\n  y\n z", "IndentationError", "unindent does not match any outer indentation level", 3, "z"),
        ("return 5", "SyntaxError", "'return' outside function", 1, "return 5"),
        ("print('a'", "SyntaxError", "'(' was never closed", 1, "print('a'"),
        ("def f():\n    await g()", "SyntaxError", "'await' outside async function", 2, "await g()"),
    ],
)
def test_syntax_error_names_line_and_text(
    driver: Any, code: str, type_name: str, message: str, line: int, source_line: str
) -> None:
    """Nothing runs; the message is the compiler's own."""
    outcome = driver.run(code)

    assert (outcome.status, outcome.output) == ("failed", "")
    assert outcome.failure == Failure(
        kind="syntax", type=type_name, message=message, line=line, source_line=source_line
    )


def test_syntax_error_of_code_that_the_code_compiles_is_an_exception(driver: Any) -> None:
    """What the agent hands to `compile` is its data; its own line is the one that failed."""
    failure = driver.run("compile('x = = 1', 'data', 'exec')").failure

    assert (failure.kind, failure.type, failure.line) == ("exception", "SyntaxError", 1)


def test_endless_recursion_shows_its_ends_only(driver: Any) -> None:
    """The traceback keeps the outermost and innermost frames and counts the rest."""
    failure = driver.run("def f(n):\n    return f(n + 1)\nf(0)").failure
    lines = failure.traceback.splitlines()

    assert (failure.type, failure.message, failure.line) == ("RecursionError", "maximum recursion depth exceeded", 2)
    assert lines[:3] == ["line 3, in <module>", "    f(0)", "line 2, in f"]
    assert [line.split()[0::2] for line in lines if line.startswith("…")] == [["…", "more", "…"]]
    assert lines[-2:] == ["line 2, in f", "    return f(n + 1)"]
    assert len(lines) == 2 * 10 + 1


def test_lines_are_counted_as_the_compiler_counts_them(driver: Any) -> None:
    """Characters that only some call line ends, in a string or between statements, do not shift the source line."""
    failure = driver.run("text = 'a\u2028b\x85c'\n\x0cx = 1\r\nlen(5)").failure

    assert (failure.line, failure.source_line) == (3, "len(5)")


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("total = 1\nprint(totl)", "Did you mean 'total'?"),
        ("print(zzzzzz)", None),
        (
            "open('missing.csv')",
            f"{FILES} It has no files yet.",
        ),
        ("open('table.csv', 'w').close()\nopen('/data/table.csv')", f"{FILES} The nearest is 'table.csv'."),
        ("open('table.csv', 'w').close()\nopen('tabel.csv')", f"{FILES} The nearest is 'table.csv'."),
        (
            "open('out/table.csv', 'w')",
            f"{FILES} There is no such folder: `os.makedirs(…, exist_ok=True)` makes it.",
        ),
        (
            "import json.nothing",
            "Only the standard library and the packages of the guest environment are installed here.",
        ),
        (
            "import asyncio\nasync def main():\n    pass\nawait asyncio.sleep(0)\nasyncio.run(main())",
            "The code already runs in an event loop when it uses await: write `await main()`, not asyncio.run().",
        ),
        ("open('/etc/x', 'w')", "The sandbox forbids it: no network, no processes, no writing outside the workspace."),
        ("1 / 0", None),
    ],
)
def test_hint_says_what_to_do(driver: Any, code: str, hint: str | None) -> None:
    """Mistakes that agents make often come with the way out of them."""
    assert driver.run(code).failure.hint == hint


ROWS = 'rows = [{"amount": 1, "user_id": 2}]\n'
CO = "async def load():\n    return [1]\n"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (ROWS + 'rows[0]["amout"]', "The nearest key is 'amount'. It has the keys amount, user_id."),
        (ROWS + '[r["userId"] for r in rows]', "The nearest key is 'user_id'. It has the keys amount, user_id."),
        (ROWS + 'rows[0]["colour"]', "It has the keys amount, user_id."),
        ('{"a": {"price_per_night": 1}}["a"]["x"]', None),
        ("d = {}\nd['a']", "It is an empty dict."),
        ('d = {"rows": []}\nd[0]', "It is a dict, not a list. It has the keys rows."),
        (
            ROWS + 'rows["amount"]',
            "It is a list of 1: loop over it, or take one with [0]. Items have the keys amount, user_id.",
        ),
        (ROWS + "rows[0].amount", "It is a dict: write ['amount']. It has the keys amount, user_id."),
        (
            ROWS + "rows.amount",
            "It is a list of 1: loop over it, or take one with [0]. Items have the keys amount, user_id.",
        ),
        (
            'd = {"items": [{"a": 1}], "total": 1}\nfor row in d:\n    row["a"]',
            "A loop over a dict gives its keys; its list is in ['items'].",
        ),
        (
            'd = {"x": {"a": 1}}\n[row["a"] for row in d]',
            "A loop over a dict gives its keys: use `.values()` or `.items()`. It has the keys x.",
        ),
        ('d = {"x": 1}\nfor a, b in d: pass', "A loop over a dict gives its keys: use `.items()` for pairs."),
        ("t = '{\"a\": 1}'\nt['a']", "It is JSON text: read it with `json.loads(…)` first."),
        ("x = None\nx['a']", NONE),
        ("x = None\nfor y in x: pass", NONE),
        ("x = None\nx.get('a')", NONE),
        (CO + "load()[0]", AWAIT),
        (CO + "for each in load(): pass", AWAIT),
        (CO + "load().append(1)", AWAIT),
        ("import datetime\ndatetime.now()", "It belongs to a class of the module: write datetime.datetime.now."),
        (
            "a = '3'\na + 4",
            "Convert one of them: `float(…)` or `int(…)` to get a number, `str(…)` or an f-string to get text.",
        ),
        (
            "from datetime import date\n'2024-05-01' < date(2024, 5, 2)",
            "Parse the text first: `datetime.fromisoformat(…)`, or `date.fromisoformat(…)`.",
        ),
        ("a = None\na * 2", "One of them is None: leave such rows out, or use a default such as `(x or 0)`."),
        ("def f(user_id, limit=3): pass\nf(userid=3)", "Did you mean user_id=? It takes user_id, limit."),
        ("def f(limit=3, tag=''): pass\nf(limt=3)", "Did you mean limit=? It takes limit, tag."),
        ("def f(a, b): pass\nf(1)", "It also needs b."),
        ("def f(a): pass\nf(1, 2)", "Name the arguments: it takes a."),
        ("import json\njson.loads([1])", "It is data already: leave out `json.loads`."),
        ("import json\njson.dumps({1})", "Make a list of it: `sorted(…)` or `list(…)`."),
        ("{[1]: 2}", "Make it a tuple first: `tuple(…)`."),
        ("int('1,200')", "Take out the commas first: `.replace(',', '')`."),
        ("x = true", "Python writes True."),
        ("Counter([1])", "Import it first: `from collections import Counter`."),
        ("json.dumps(1)", "Import it first: `import json`."),
        ("x = []\nx[0]", "It is empty: check that before taking one."),
        ("x = [1]\nx[3]", "It has 1 items; the last is [-1]."),
        ("d = {1: 2}\nfor k in d: d[k + 1] = 1", "Loop over a copy: `list(…)`."),
        ("next(iter([]))", "Nothing was left: give a default, `next(…, None)`."),
        ("raise KeyError('amount')", None),
        ("raise ValueError('my own rule')", None),
        ("raise NameError('none')", None),
    ],
)
def test_common_mistake_is_told_with_its_way_out(driver: Any, code: str, hint: str | None) -> None:
    """The hint is made from the expression that failed and the values it failed on."""
    assert driver.run(code).failure.hint == hint


@pytest.mark.parametrize(
    "key",
    ["Ada", "ada@example.com", "2024-01-31", "4111111111111111", "__PII_email_3f9a1c__", "a" * 41, "two words"],
)
def test_key_that_may_be_data_is_not_told(driver: Any, key: str) -> None:
    """Of a dict only keys that look like names of fields are named."""
    assert driver.run(f"d = {{{key!r}: 1, 'total': 2}}\nd['totals']").failure.hint == (
        "The nearest key is 'total'. It has the keys total."
    )


def test_exception_group_is_told_with_the_way_out_of_its_first_member(driver: Any) -> None:
    """What failed in a task is what is to be changed."""
    failure = driver.run(
        """
        import asyncio

        async def fail():
            return {"a": 1}["b"] if False else int("1,0")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
        """
    ).failure

    assert failure.hint == "Take out the commas first: `.replace(',', '')`."


@pytest.mark.parametrize(
    "body",
    [
        "class D(dict):\n    def __iter__(self): raise SystemExit(3)\n    keys = __iter__\nD()['a']",
        "class E(KeyError):\n    @property\n    def args(self): raise SystemExit(3)\nraise E('x')",
        "class E(NameError):\n    name = property(lambda self: 1 / 0)\nraise E('x')",
        "class E(FileNotFoundError):\n    filename = property(lambda self: 1 / 0)\nraise E(2, 'x')",
        "class E(AttributeError):\n    obj = property(lambda self: 1 / 0)\nraise E('x')",
    ],
)
def test_hostile_value_costs_at_most_the_hint(driver: Any, body: str) -> None:
    """What misbehaves when it is looked at leaves type and line as they are."""
    failure = driver.run(body).failure

    assert (failure.type in ("KeyError", "E"), failure.line) == (True, len(body.splitlines()))


def test_interrupt_raised_by_the_code_is_its_exception(driver: Any) -> None:
    """No exception class escapes the report."""
    kinds = [
        driver.run(f"raise {name}('x')").failure.type
        for name in ("KeyboardInterrupt", "GeneratorExit", "BaseException", "StopIteration")
    ]

    assert kinds == ["KeyboardInterrupt", "GeneratorExit", "BaseException", "StopIteration"]


def test_crash_of_the_interpreter_is_reported_with_its_signal(driver: Any) -> None:
    """A worker that dies of a signal says which."""
    outcome = driver.run(
        """
        import mmap
        print("before")
        with open("f", "wb+") as file:
            file.truncate(4096)
            view = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
        view[0]
        """
    )

    assert (outcome.status, outcome.output, outcome.failure) == (
        "broken",
        "before\n",
        Failure(kind="crash", type="InterpreterCrashed", message="The interpreter was ended by SIGBUS."),
    )
