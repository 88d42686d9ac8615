"""Saved skills inside the sandbox: every import form, checked inputs, reports, older tools, and where an error is."""

import asyncio
import contextlib
import textwrap
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest, UnknownSkill
from sealyard.sandbox import IsolationLevel, PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.importable import open_library
from sealyard.sandbox.policy import DEFAULT, LEVELS
from sealyard.values.runs import Limits, Outcome

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


class Gateway:
    """Answers what the guest asks for, from skills that were put there, and keeps what it is told."""

    def __init__(self, **codes: str) -> None:
        self._skills: dict[tuple[str, str | None], dict[str, Any]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.told: list[tuple[str, str, str | None]] = []
        """`began` or `ended`, the skill, and the error."""
        self.seconds: list[float] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for name, code in codes.items():
            self.put(name, code)

    def put(self, name: str, code: str, *, pins: tuple[str | None, ...] = (None,), **fields: Any) -> None:
        """Save a skill, to be found under these versions."""
        code = textwrap.dedent(code).strip("\n")
        answer = {"name": name, "version": "1.0.0", "form": "function", "code": code, "inputs": {}, "status": "active"}
        for pin in pins:
            self._skills[name, pin] = answer | {"warnings": [], "shims": [], "tools": {}} | fields

    async def on_call(self, tool: str, args: dict[str, Any]) -> Any:
        """As the gateway does; a tool is answered with its name and its arguments."""
        if tool == "load_skill":
            self.asked.append((args["name"], args["version"]))
            if (args["name"], args["version"]) not in self._skills:
                raise UnknownSkill(f"No skill named {args['name']!r}. Call find_skills.")
            return self._skills[args["name"], args["version"]]
        if tool in ("skill_began", "skill_ended"):
            self.told.append((tool.removeprefix("skill_"), f"{args['name']}@{args['version']}", args.get("error")))
            if tool == "skill_ended":
                self.seconds.append(args["seconds"])
            return None
        self.calls.append((tool, args))
        return [tool, args]


def value(outcome: Outcome) -> Any:
    """The result of a run that did not fail."""
    assert outcome.failure is None
    return outcome.result


DOUBLE = "def double(n: int = 1) -> int:\n    return 2 * n"
FORMS = [
    "from skills import double\ndouble(4)",
    "from skills import double as f\nf(n=4)",
    "import skills\nskills.double(4)",
    "from skills.double import double\ndouble(4)",
    "import skills.double\nskills.double(4)",
    "import skills.double as module\nmodule.double(4)",
    "import skills.double as f\nf(4)",
    "from skills.double import double\nfrom skills import double as f\nf(4)",
    "import skills\nskills.load('double')(4)",
    "import skills\nskills.load('double@1')(4)",
    "def late():\n    from skills import double\n    return double(4)\nlate()",
    "from skills import double\nawait double(4)",
]


@pytest.mark.parametrize("code", FORMS)
def test_every_way_to_import_a_skill_gives_its_function(driver: Any, code: str) -> None:
    """One use, and the gateway is asked once."""
    gateway = Gateway()
    gateway.put("double", DOUBLE, pins=(None, "1"))

    outcome = driver.run(code, on_call=gateway.on_call)

    assert value(outcome) == 8
    assert gateway.asked == [("double", "1" if "@1" in code else None)]
    assert gateway.told == [("began", "double@1.0.0", None), ("ended", "double@1.0.0", None)]


def test_a_skill_is_asked_for_once_and_only_when_it_is_named(driver: Any) -> None:
    """Nothing is asked for the package, its listing or its special names; nothing is asked again."""
    gateway = Gateway(double=DOUBLE)

    outcome = driver.run(
        """
        import skills
        before = [dir(skills), hasattr(skills, "__wrapped__"), hasattr(skills, "_private")]
        asked = hasattr(skills, "nothing"), hasattr(skills, "nothing")
        from skills import double
        import skills.double
        from skills.double import double as again
        result = [before, asked, dir(skills), skills.load("double") is again]
        """,
        on_call=gateway.on_call,
    )

    nothing = ["SkillInputError", "load"]
    assert value(outcome) == [[nothing, False, False], [False, False], ["SkillInputError", "double", "load"], True]
    assert gateway.asked == [("nothing", None), ("double", None)]
    assert outcome.usage.tool_calls == 0


def test_a_skill_looks_like_the_function_it_is(driver: Any) -> None:
    """Name, signature, docstring and version are real."""
    gateway = Gateway(double='def double(n: int = 1) -> int:\n    """Twice."""\n    return 2 * n')

    outcome = driver.run(
        """
        import inspect, skills.double
        from skills.double import double
        result = [double.__name__, str(inspect.signature(double)), double.__doc__, double.__module__,
                  skills.double.__version__, skills.double.__file__, type(double).__name__]
        """,
        on_call=gateway.on_call,
    )

    expected = ["double", "(n: int = 1) -> int", "Twice.", "skills.double", "1.0.0", "skills/double.py", "function"]
    assert value(outcome) == expected


def test_versions_of_one_skill_live_side_by_side(driver: Any) -> None:
    """A pin gives its own version; one that is the newest gives the same function as the import."""
    gateway = Gateway()
    gateway.put("rate", "RATE = 2\ndef rate(): return RATE", pins=(None, "2", "2.0.0"), version="2.0.0")
    gateway.put("rate", "RATE = 1\ndef rate(): return RATE / 0 if RATE > 1 else RATE", pins=("1.2",), version="1.2.3")

    outcome = driver.run(
        """
        import skills
        from skills import rate
        old = skills.load("rate@1.2")
        result = [rate(), old(), skills.load("rate@2") is rate, skills.load("rate@1.2") is old, rate()]
        """,
        on_call=gateway.on_call,
    )

    assert value(outcome) == [2, 1, True, True, 2]
    assert gateway.asked == [("rate", None), ("rate", "1.2"), ("rate", "2")]
    assert [skill for what, skill, _ in gateway.told if what == "began"] == ["rate@2.0.0", "rate@1.2.3", "rate@2.0.0"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("from skills import nope", "ImportError: No skill named 'nope'. Call find_skills."),
        ("import skills.nope", "ImportError: No skill named 'nope'. Call find_skills."),
        ("from skills.nope import nope", "ImportError: No skill named 'nope'. Call find_skills."),
        ("import skills\nskills.load('nope')", "ImportError: No skill named 'nope'. Call find_skills."),
        ("import skills\nskills.load('double@7')", "ImportError: No skill named 'double'. Call find_skills."),
        ("import skills\nskills.nope()", "AttributeError: No skill named 'nope'. Call find_skills."),
        ("from skills import empty", "ImportError: The code of skill 'empty' defines no function 'empty'."),
        (
            "import skills\nskills.load('double@new')",
            "ImportError: 'double@new' names no skill. Write its name, or name@1.2 for a version.",
        ),
        ("import skills.double.more", "ModuleNotFoundError: No module named 'skills.double.more'; "),
    ],
)
def test_what_cannot_be_imported_says_why(driver: Any, code: str, error: str) -> None:
    """The words are the gateway's, and the line is the agent's own."""
    gateway = Gateway(double=DOUBLE, empty="other = 1")

    outcome = driver.run(code, on_call=gateway.on_call)

    assert outcome.failure is not None
    assert f"{outcome.failure.type}: {outcome.failure.message}"[: len(error)] == error
    assert outcome.failure.line == code.count("\n") + 1
    assert gateway.told == []


async def test_without_a_gateway_the_import_says_so() -> None:
    """A sandbox that nobody answers for has no skills."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        outcome = await sandbox.run("from skills import double")

    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.message) == (
        "ImportError",
        "No skill can be had: this run has no tools.",
    )


ASYNCHRONOUS = {
    "later": "async def later(n):\n    return (await call_tool('t', {'n': n}))[1]['n']",
    "plain": "def plain(n):\n    return call_tool('t', {'n': n})[1]['n']",
    "loop": "import asyncio\nasync def one(n):\n    return (await call_tool('t', {'n': n}))[1]['n']\n"
    "def loop(n):\n    return asyncio.run(one(n))",
}


@pytest.mark.parametrize("name", ASYNCHRONOUS)
@pytest.mark.parametrize(
    "code",
    [
        "[f(1), f(2)]",
        "[await f(1), await f(2)]",
        "[await f(1), f(2)]",
        "import asyncio\nawait asyncio.gather(f(1), f(2))",
        "import asyncio\nasyncio.run(asyncio.wait_for(f(1), 5)) and [1, asyncio.run(f(2))]",
        "import asyncio\nasync def main():\n    return [f(1), await f(2)]\nasyncio.run(main())",
        "import asyncio\ntasks = [asyncio.create_task(f(n)) for n in (1, 2)]\n[await task for task in tasks]",
    ],
)
def test_a_skill_gives_its_value_in_either_style(driver: Any, name: str, code: str) -> None:
    """Awaited or not, in a loop or not, and whichever way the skill itself is written."""
    gateway = Gateway(**{name: ASYNCHRONOUS[name]})

    outcome = driver.run(f"from skills import {name} as f\n{code}", on_call=gateway.on_call)

    assert (value(outcome), outcome.output) == ([1, 2], "")
    assert sorted(gateway.told) == sorted(
        [("began", f"{name}@1.0.0", None), ("ended", f"{name}@1.0.0", None)] * 2,
    )


def test_gathered_skills_run_at_the_same_time(driver: Any) -> None:
    """No call is answered before all are in flight."""
    gateway = Gateway(later="async def later(n):\n    return await call_tool('t', {'n': n})")

    async def scenario() -> Any:
        in_flight: list[int] = []
        all_here = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> Any:
            if tool != "t":
                return await gateway.on_call(tool, args)
            in_flight.append(args["n"])
            if len(in_flight) == 5:
                all_here.set()
            async with asyncio.timeout(60):
                await all_here.wait()
            return args["n"]

        code = "import asyncio\nfrom skills import later\nawait asyncio.gather(*[later(n) for n in range(5)])"
        return await driver.sandbox.run(code, on_call=on_call)

    assert value(driver.wait(scenario())) == [0, 1, 2, 3, 4]


SCRIPT = """
rows = [n * factor for n in numbers]
if not rows:
    import sys
    sys.exit()
{"rows": rows, "context": context, "main": __name__}
"""
SCRIPT_INPUTS = {
    "type": "object",
    "properties": {
        "factor": {"type": "integer", "default": 3},
        "numbers": {"type": "array"},
    },
    "required": ["numbers"],
}


@pytest.mark.parametrize("code", [SCRIPT, f"import asyncio\nawait asyncio.sleep(0)\n{SCRIPT}"], ids=["plain", "awaits"])
@pytest.mark.parametrize("call", ["{}", "await {}"])
def test_a_script_is_a_function_of_its_inputs(driver: Any, code: str, call: str) -> None:
    """By name, by position in the order of the schema, with the schema's defaults, and afresh each time."""
    gateway = Gateway()
    gateway.put("scale", code, form="script", inputs=SCRIPT_INPUTS)
    calls = ["scale(numbers=[1])", "scale(2, [1])", "scale(numbers=[])"]

    outcome = driver.run(
        f"from skills import scale\n[{', '.join(call.format(each) for each in calls)}]", on_call=gateway.on_call
    )

    assert value(outcome) == [
        {"rows": [3], "context": {"numbers": [1], "factor": 3}, "main": "__main__"},
        {"rows": [2], "context": {"factor": 2, "numbers": [1]}, "main": "__main__"},
        None,
    ]


def test_a_scripts_result_is_worth_more_than_its_last_expression(driver: Any) -> None:
    """As it is for the agent's own code."""
    gateway = Gateway()
    gateway.put("answer", "result = 42\n7", form="script")

    assert value(driver.run("from skills import answer\nanswer()", on_call=gateway.on_call)) == 42


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "rows": {"type": "array"},
        "extra": {"type": "object"},
        "kind": {"enum": ["day", "month", 1]},
        "maybe": {"type": ["integer", "null"]},
        "free": {},
        "odd": {"type": "tuple"},
    },
}
CHECKED = "def checked(**given):\n    return sorted(given)"


@pytest.mark.parametrize(
    "given",
    [
        "text='x'",
        "count=3",
        "share=3",
        "share=2.5",
        "sure=False",
        "rows=[1]",
        "rows=(1,)",
        "rows={1}",
        "extra={'a': 1}",
        "kind='day'",
        "kind=1",
        "maybe=None",
        "maybe=1",
        "free=object()",
        "odd=1",
        "unknown=object()",
        "share=__import__('decimal').Decimal('1.5')",
        "share=__import__('fractions').Fraction(1, 3)",
        *[f"{name}='__PII_email_3f9a1c5e7b20__'" for name in ("text", "count", "share", "sure", "rows", "kind")],
    ],
)
def test_inputs_that_fit_are_accepted(driver: Any, given: str) -> None:
    """Also a concealed value, which stands for one of any type."""
    gateway = Gateway()
    gateway.put("checked", CHECKED, inputs=SCHEMA)

    outcome = driver.run(f"from skills import checked\nchecked({given})", on_call=gateway.on_call)

    assert value(outcome) == [given.partition("=")[0]]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("text=3", "input 'text' is 3, where text is expected"),
        ("text=None", "input 'text' is None, where text is expected"),
        ("text=b'x'", "input 'text' is a value of type bytes, where text is expected"),
        ("count='3'", "input 'count' is '3', where a whole number is expected"),
        ("count=True", "input 'count' is True, where a whole number is expected"),
        ("count=2.5", "input 'count' is 2.5, where a whole number is expected"),
        ("share=True", "input 'share' is True, where a number is expected"),
        ("share='many'", "input 'share' is 'many', where a number is expected"),
        ("sure=1", "input 'sure' is 1, where True or False is expected"),
        ("rows='abc'", "input 'rows' is 'abc', where a list is expected"),
        ("rows={'a': 1}", "input 'rows' is a value of type dict, where a list is expected"),
        ("extra=[1]", "input 'extra' is a value of type list, where a dict is expected"),
        ("kind='year'", "input 'kind' is 'year', where one of 'day', 'month', 1 is expected"),
        ("maybe='x'", "input 'maybe' is 'x', where a whole number or None is expected"),
        ("count='__PII_email_x__ and more'", "input 'count' is '__PII_email_x__ and more', where a whole number is "),
    ],
)
def test_an_input_of_the_wrong_type_is_named(driver: Any, given: str, problem: str) -> None:
    """With what was given and what is expected, before the skill runs."""
    gateway = Gateway()
    gateway.put("checked", CHECKED, inputs=SCHEMA)

    outcome = driver.run(
        f"import skills\ntry:\n    skills.checked({given})\n"
        "except skills.SkillInputError as error:\n    result = [isinstance(error, TypeError), str(error)]",
        on_call=gateway.on_call,
    )

    is_type_error, message = value(outcome)
    assert is_type_error
    assert message[: len("checked(): ") + len(problem)] == f"checked(): {problem}"
    assert message.endswith(" is expected. Its signature: checked(**given)")
    assert gateway.told == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("add(1)", "missing a required argument: 'b'"),
        ("add(1, 2, 3, 4)", "too many positional arguments"),
        ("add(1, 2, d=3)", "got an unexpected keyword argument 'd'"),
        ("add(1, 2, a=3)", "multiple values for argument 'a'"),
    ],
)
def test_wrong_names_of_inputs_show_the_signature(driver: Any, call: str, problem: str) -> None:
    """As a tool does."""
    gateway = Gateway(add="def add(a: int, b, c=None):\n    return a")

    outcome = driver.run(f"from skills import add\n{call}", on_call=gateway.on_call)

    assert outcome.failure is not None
    message = f"add(): {problem}. Its signature: add(a: int, b, c=None)"
    assert (outcome.failure.type, outcome.failure.message) == ("TypeError", message)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("scale()", "missing a required argument: 'numbers'"),
        ("scale(numbers=[1], facto=2)", "got an unexpected keyword argument 'facto'"),
        ("scale(numbers=[1], factor='2')", "input 'factor' is '2', where a whole number is expected"),
        ("scale(1, [1], 2)", "too many positional arguments"),
    ],
)
def test_wrong_inputs_of_a_script_show_the_signature(driver: Any, call: str, problem: str) -> None:
    """Which is made of the schema."""
    gateway = Gateway()
    gateway.put("scale", SCRIPT, form="script", inputs=SCRIPT_INPUTS)

    outcome = driver.run(f"from skills import scale\n{call}", on_call=gateway.on_call)

    assert outcome.failure is not None
    signature = "scale(factor: int = 3, numbers: list)"
    assert outcome.failure.message == f"scale(): {problem}. Its signature: {signature}"


def test_a_default_of_a_script_is_not_shared_between_calls(driver: Any) -> None:
    """What one call does to it, the next does not see."""
    gateway = Gateway()
    inputs = {"properties": {"seen": {"type": "array", "default": []}}}
    gateway.put("collect", "seen.append(1)\nlen(seen)", form="script", inputs=inputs)

    outcome = driver.run("from skills import collect\n[collect(), collect()]", on_call=gateway.on_call)

    assert value(outcome) == [1, 1]


def test_numbers_of_numpy_are_numbers(drive: Any) -> None:
    """What a computation gives can be handed on."""
    driver = drive(open_sandbox(msgspec.structs.replace(DEFAULT, packages=("numpy",)), pool=PoolOptions(size=1)))
    gateway = Gateway()
    gateway.put("checked", CHECKED, inputs=SCHEMA)

    outcome = driver.run(
        """
        import numpy as np
        from skills import checked
        row = np.array([1, 2])
        result = checked(count=row.sum(), share=row.mean(), sure=row.any(), rows=row)
        """,
        on_call=gateway.on_call,
    )

    assert value(outcome) == ["count", "rows", "share", "sure"]


def test_failures_are_reported_with_their_words_and_raised_as_they_are(driver: Any) -> None:
    """Every outermost use has a beginning, an end and its seconds; the words are cut."""
    gateway = Gateway(fail="def fail(kind, words):\n    raise kind(words)")

    outcome = driver.run(
        """
        from skills import fail
        seen = []
        for kind, words in ((ValueError, "no"), (KeyError, "x" * 1000), (SystemExit, "left")):
            try:
                fail(kind, words)
            except BaseException as error:
                seen.append(type(error).__name__)
        seen
        """,
        on_call=gateway.on_call,
    )

    assert value(outcome) == ["ValueError", "KeyError", "SystemExit"]
    errors = [error for what, _, error in gateway.told if what == "ended"]
    assert errors == ["ValueError: no", "KeyError: '" + "x" * 498 + "…", "SystemExit: left"]
    assert [what for what, _, _ in gateway.told] == ["began", "ended"] * 3
    assert all(0 <= seconds < 5 for seconds in gateway.seconds)


def test_recursion_is_one_use_and_a_skill_inside_another_is_its_own(driver: Any) -> None:
    """Counted by the outermost call of each."""
    gateway = Gateway(
        down="def down(n):\n    return n and down(n - 1)",
        outer="from skills import down\ndef outer(n):\n    return [down(n), down(n)]",
        climb="async def climb(n):\n    return n and await climb(n - 1)",
    )

    outcome = driver.run(
        "from skills import climb, outer\n[outer(3), await climb(3)]",
        on_call=gateway.on_call,
    )

    assert value(outcome) == [[0, 0], 0]
    assert [(what, skill.partition("@")[0]) for what, skill, _ in gateway.told] == [
        ("began", "outer"),
        ("began", "down"),
        ("ended", "down"),
        ("began", "down"),
        ("ended", "down"),
        ("ended", "outer"),
        ("began", "climb"),
        ("ended", "climb"),
    ]


def test_a_report_that_is_refused_harms_nobody(driver: Any) -> None:
    """The gateway may keep no record; the skill works all the same."""
    gateway = Gateway(double=DOUBLE)

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        if tool.startswith("skill_"):
            raise InvalidRequest("No more of this.")
        return await gateway.on_call(tool, args)

    assert value(driver.run("from skills import double\n[double(1), await double(2)]", on_call=on_call)) == [2, 4]


def test_a_run_reports_a_hundred_uses_and_then_is_silent(driver: Any) -> None:
    """Each of those has its end told too, and the skill goes on working; none is a tool call."""
    gateway = Gateway(double=DOUBLE)

    outcome = driver.run(
        "from skills import double\nsum(double(1) for _ in range(500))",
        on_call=gateway.on_call,
        limits=Limits(tool_calls=1),
    )

    assert value(outcome) == 1000
    assert [what for what, _, _ in gateway.told] == ["began", "ended"] * 100
    assert outcome.usage.tool_calls == 0


def test_skills_import_skills(driver: Any) -> None:
    """At their top and inside a function, each asked for once."""
    gateway = Gateway(
        net="from skills import tax\ndef net(x):\n    return x - tax(x)",
        tax="def tax(x):\n    import skills\n    return skills.rate() * x",
        rate="def rate():\n    return 0.5",
    )

    outcome = driver.run("from skills import net, rate\n[net(10), rate()]", on_call=gateway.on_call)

    assert value(outcome) == [5.0, 0.5]
    assert gateway.asked == [("net", None), ("tax", None), ("rate", None)]


@pytest.mark.parametrize(
    "form",
    ["from skills import {}", "from skills.{0} import {0}", "import skills.{0} as {0}", "import skills\nskills.{}"],
)
def test_skills_that_import_each_other_are_named(driver: Any, form: str) -> None:
    """The circle is told as it is, and nothing goes round in it."""
    codes = {name: f"{form.format(other)}\ndef {name}(): ..." for name, other in ("ab", "bc", "ca")}

    outcome = driver.run("from skills import a", on_call=Gateway(**codes).on_call)

    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.message) == (
        "ImportError",
        "Skills import each other in a circle: a -> b -> c -> a. Save one of them without that import.",
    )


def test_an_error_in_a_skill_shows_the_agents_line_and_the_skills(driver: Any) -> None:
    """The failure is at the agent's own line; the traceback and the hint say where in the skill."""
    gateway = Gateway(
        share="from skills import part\n\ndef share(rows, of):\n    # per head\n    return part(len(rows), of)",
        part="def part(a, b):\n    return a / b",
    )

    outcome = driver.run(
        """
        from skills import share
        def report(rows):
            return share(rows, 0)
        report([1])
        """,
        on_call=gateway.on_call,
    )

    failure = outcome.failure
    assert failure is not None
    assert (failure.type, failure.line, failure.source_line) == ("ZeroDivisionError", 3, "return share(rows, 0)")
    assert failure.traceback.splitlines() == [
        "line 4, in <module>",
        "    report([1])",
        "line 3, in report",
        "    return share(rows, 0)",
        "skills/share.py, line 5, in share",
        "    return part(len(rows), of)",
        "skills/part.py, line 2, in part",
        "    return a / b",
    ]
    assert failure.hint == (
        "It happened in skills/part.py, line 2: return a / b. `b` is 0 here: check that before dividing."
    )


def test_an_error_of_the_agents_own_function_inside_a_skill_is_the_agents(driver: Any) -> None:
    """A skill that is handed a function is not to blame for it."""
    gateway = Gateway(each="def each(rows, do):\n    return [do(row) for row in rows]")

    outcome = driver.run("from skills import each\neach([1], lambda row: row.name)", on_call=gateway.on_call)

    failure = outcome.failure
    assert failure is not None
    assert (failure.type, failure.line, failure.hint) == ("AttributeError", 2, None)


def test_pythons_own_traceback_of_a_skill_has_its_source(driver: Any) -> None:
    """Code that formats its errors itself sees the line too."""
    gateway = Gateway(boom="def boom():\n    return {}['missing']")

    outcome = driver.run(
        """
        import traceback
        from skills import boom
        try:
            boom()
        except KeyError:
            result = traceback.format_exc().splitlines()[-4:-2]
        """,
        on_call=gateway.on_call,
    )

    assert value(outcome) == ['  File "skills/boom.py", line 2, in boom', "    return {}['missing']"]


@pytest.mark.parametrize("level", [IsolationLevel.PRODUCTION, IsolationLevel.HARDENED])
async def test_a_skill_imports_no_more_than_its_level_allows(level: IsolationLevel) -> None:
    """At its top, in a function and in a script, with the rule of the run it is used in."""
    gateway = Gateway(top="import socket\ndef top(): ...", inside="def inside():\n    import ctypes")
    gateway.put("script", "import subprocess", form="script")
    policy = msgspec.structs.replace(LEVELS[level], packages=(), every_layer=False)

    async with open_sandbox(policy, pool=PoolOptions(size=1)) as sandbox:
        failures = [
            (await sandbox.run(f"from skills import {name}\n{name}()", on_call=gateway.on_call)).failure
            for name in ("top", "inside", "script")
        ]

    assert [failure and (failure.kind, failure.message, failure.line) for failure in failures] == [
        ("import", f"Importing 'socket' is not allowed at level '{level}'.", 1),
        ("import", f"Importing 'ctypes' is not allowed at level '{level}'.", 2),
        ("import", f"Importing 'subprocess' is not allowed at level '{level}'.", 2),
    ]


# --- Older tools ------------------------------------------------------------------------------------------------------

_STUB = 'from sealyard_guest import tool\n\n@tool("{name}")\ndef {function}({parameters}):\n    """{doc}"""\n    ...\n'


def stub(name: str, parameters: str, doc: str = "") -> str:
    """A stub file."""
    function = name.rpartition("__")[2].partition("@")[0]
    return _STUB.format(name=name, function=function, parameters=parameters, doc=doc)


FILES = {
    "__init__.py": "",
    "expenses/__init__.py": '__all__ = ["add", "list"]\n',
    "expenses/list.py": stub("mcp__expenses__list", "since"),
    "expenses/add.py": stub("mcp__expenses__add", "amount"),
    "travel/__init__.py": '__all__ = ["book"]\n',
    "travel/book.py": stub("mcp__travel__book", "to"),
}
OLDER = [
    {"module": "expenses", "function": "list", "stub": stub("mcp__expenses__list@1.2.0", "start", "Older.")},
    {"module": "gone", "function": "find", "stub": stub("mcp__gone__find@3.0.0", "q")},
]
NEEDS = {"mcp__expenses__list": "1.2.0", "mcp__gone__find": "3.0.0", "mcp__expenses__add": "1.0.0"}


@pytest.fixture(scope="module")
def library_driver(drive: Any) -> Any:
    """Runs code beside a library of stubs."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Sandbox]:
        async with open_library() as library:
            await library.publish("v1", FILES)
            async with open_sandbox(PLAIN, library=library, pool=PoolOptions(size=1)) as sandbox:
                yield sandbox

    return drive(opened())


LIST, FIND = ["mcp__expenses__list@1.2.0", {"start": 1}], ["mcp__gone__find@3.0.0", {"q": 2}]
ADD, BOOK = ["mcp__expenses__add", {"amount": 3}], ["mcp__travel__book", {"to": 4}]


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ("from servers.expenses import list as f\nx = f(start=1)", LIST),
        ("from servers.expenses import list as f, add\nx = [f(1), add(3)]", [LIST, ADD]),
        ("import servers.expenses as e\nx = [e.list(1), e.add(amount=3)]", [LIST, ADD]),
        ("import servers.expenses\nx = [servers.expenses.list(1), servers.expenses.add(3)]", [LIST, ADD]),
        ("import servers\nx = [servers.expenses.list(1), servers.travel.book(4)]", [LIST, BOOK]),
        ("from servers import expenses, travel\nx = [expenses.list(1), travel.book(4)]", [LIST, BOOK]),
        ("from servers.expenses import *\nx = [list(1), add(3)]", [LIST, ADD]),
        ("from servers.expenses.list import list as f\nx = f(1)", LIST),
        ("import servers.expenses.list as f\nx = f(1)", LIST),
        ("import servers.expenses.list\nx = servers.expenses.list(1)", LIST),
        ("import servers.expenses.add as f\nx = f(3)", ADD),
        ("from servers.expenses.add import add\nx = add(3)", ADD),
        ("from servers.travel import book\nx = book(4)", BOOK),
        ("import servers.travel as t\nx = t.book(4)", BOOK),
        ("from servers.gone import find\nx = find(2)", FIND),
        ("import servers.gone as g\nx = [g.find(2), dir(g)]", [FIND, ["find"]]),
        ("from servers import gone\nx = gone.find(q=2)", FIND),
        ("from servers.gone import *\nx = find(2)", FIND),
        ("import servers\nx = [dir(servers), dir(servers.gone)]", [["expenses", "gone", "travel"], ["find"]]),
        ("import servers.expenses as e\nx = dir(e)", ["add", "list"]),
        ("x = call_tool('mcp__expenses__list', {'start': 1})", LIST),
        ("x = call_tool('mcp__expenses__add', {'amount': 3})", ADD),
        ("x = call_tool('mcp__travel__book', {'to': 4})", BOOK),
    ],
)
@pytest.mark.parametrize("place", ["at the top", "in a function", "in a coroutine", "in a script"])
def test_a_skill_gets_the_older_tools_it_was_written_for(
    library_driver: Any, body: str, answers: Any, place: str
) -> None:
    """By every way to import them, also what is gone since; all other tools are the real ones."""
    if "import *" in body and place in ("in a function", "in a coroutine"):
        place = "at the top"  # Python has it nowhere else
    indented = body.replace("\n", "\n    ")
    code = {
        "at the top": f"{body}\ndef old():\n    return x",
        "in a function": f"def old():\n    {indented}\n    return x",
        "in a coroutine": f"async def old():\n    {indented}\n    return x",
        "in a script": f"{body}\nx",
    }[place]
    gateway = Gateway()
    form = "script" if place == "in a script" else "function"
    gateway.put("old", code, shims=OLDER, tools=NEEDS, form=form)

    outcome = library_driver.run("from skills import old\nold()", on_call=gateway.on_call)

    assert value(outcome) == answers


def test_only_that_skill_gets_the_older_tools(library_driver: Any) -> None:
    """The agent's code and another skill see the real ones, before and after."""
    gateway = Gateway(new="from servers.expenses import list\ndef new():\n    return list(since=1)")
    old = "from servers.expenses import list\ndef old():\n    return [list(start=1), call_tool('mcp__expenses__list')]"
    gateway.put("old", old, shims=OLDER, tools=NEEDS)

    outcome = library_driver.run(
        """
        from skills import old
        before = old()
        from skills import new
        from servers.expenses import list as real
        result = [before, new(), real(since=1), call_tool("mcp__expenses__list", {}), old()]
        """,
        on_call=gateway.on_call,
    )

    older = [LIST, ["mcp__expenses__list@1.2.0", {}]]
    newer = ["mcp__expenses__list", {"since": 1}]
    assert value(outcome) == [older, newer, newer, ["mcp__expenses__list", {}], older]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from servers.expenses import ad", "No tool named 'ad' on server 'expenses'. Nearest: add."),
        ("from servers.expenses import list, ad", "No tool named 'ad' on server 'expenses'. Nearest: add."),
        ("import servers.nowhere", "No server named 'nowhere'. Call search_tools to find one that exists."),
        ("from servers import nowhere", "No server named 'nowhere'. Call search_tools to find one that exists."),
        ("from servers.gone import lost", "No server named 'gone'. Call search_tools to find one that exists."),
    ],
)
def test_a_tool_that_is_not_there_is_missing_beside_older_ones_too(
    library_driver: Any, code: str, message: str
) -> None:
    """In the words of the real import."""
    gateway = Gateway()
    gateway.put("old", f"{code}\ndef old(): ...", shims=OLDER, tools=NEEDS)

    outcome = library_driver.run("from skills import old", on_call=gateway.on_call)

    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.message) == ("ImportError", message)


def test_older_tools_can_be_awaited(library_driver: Any) -> None:
    """As any tool can."""
    gateway = Gateway()
    code = (
        "import asyncio\nfrom servers.expenses import list\nasync def old():\n"
        "    return await asyncio.gather(list(1), call_tool('mcp__expenses__list', {'start': 1}))"
    )
    gateway.put("old", code, shims=OLDER, tools=NEEDS)

    assert value(library_driver.run("from skills import old\nawait old()", on_call=gateway.on_call)) == [LIST, LIST]
