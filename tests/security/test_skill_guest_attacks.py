"""Hostile code around skills: it can lie about itself, and nothing else."""

import asyncio
from typing import Any

import pytest

from sealyard.values.runs import Limits

SKILL = {
    "name": "total",
    "version": "1.0.0",
    "form": "function",
    "code": "def total(rows):\n    return sum(rows)",
    "inputs": {"properties": {"rows": {"type": "array"}}},
    "status": "active",
    "warnings": [],
    "shims": [],
    "tools": {},
}


class Gateway:
    """Gives one skill and keeps all it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    async def on_call(self, tool: str, args: dict[str, Any]) -> Any:
        """As the gateway does."""
        self.heard.append((tool, args))
        return SKILL if tool == "load_skill" else None

    def count(self, tool: str) -> int:
        """How often it heard that."""
        return sum(name == tool for name, _ in self.heard)


CONTROL = "from skills import total\ntotal([1, 2])"


def is_healthy(driver: Any) -> bool:
    """Whether the next run finds everything as it should be."""
    gateway = Gateway()
    outcome = driver.run(CONTROL, on_call=gateway.on_call)
    return outcome.result == 3 and [name for name, _ in gateway.heard] == ["load_skill", "skill_began", "skill_ended"]


@pytest.mark.parametrize(
    "attack",
    [
        "import skills\nskills.total = lambda rows: 99\nskills.total([1, 2])",
        "import sys, types\nfake = types.ModuleType('skills')\nfake.total = lambda rows: 99\n"
        "sys.modules['skills'] = fake\nfrom skills import total\ntotal([1, 2])",
        "import sys\nsys.meta_path.clear()\ntry:\n    from skills import total\nexcept ImportError:\n    result = 99",
        "from skills import total\ntotal.__globals__['_call'] = lambda *_: None\n"
        "total.__globals__['_Use'].__enter__ = lambda self: None\n99",
        "import skills.total\nvars(skills.total)['total'] = None\n99",
        "from skills import total\ntotal.__sealyard_async__ = lambda rows: 99\nawait total([1, 2])",
        "import builtins\nbuiltins.__import__ = lambda *_: None\n99",
        "import linecache\nlinecache.getlines = None\nlinecache.cache = None\nfrom skills import total\n"
        "try:\n    total(3)\nexcept TypeError:\n    result = 99",
    ],
)
def test_replaced_functions_lie_about_their_own_run_only(driver: Any, attack: str) -> None:
    """The run believes what its code made it believe; the next one is untouched."""
    outcome = driver.run(attack, on_call=Gateway().on_call)

    assert outcome.result == 99 or outcome.failure is not None
    assert is_healthy(driver)


def test_forged_reports_are_calls_that_the_gateway_judges(driver: Any) -> None:
    """They arrive as they are, and count as no tool calls; whether to believe them is not the sandbox's business."""
    gateway = Gateway()
    forged = {"name": "other", "version": "9.9.9", "seconds": -1e300, "error": "x" * 100_000}

    outcome = driver.run(
        "[call_tool('skill_began', {'name': 'other'}), call_tool('skill_ended', forged)]",
        context={"forged": forged},
        on_call=gateway.on_call,
    )

    assert (outcome.result, outcome.usage.tool_calls) == ([None, None], 0)
    assert gateway.heard == [("skill_began", {"name": "other"}), ("skill_ended", forged)]
    assert is_healthy(driver)


def test_a_flood_of_reports_is_refused_and_then_ended(driver: Any) -> None:
    """A thousand are taken, a few more are refused, and who goes on is not going to stop by itself."""
    gateway = Gateway()
    code = """
    refused = 0
    while True:
        try:
            call_tool('skill_ended', {})
        except ToolError as error:
            refused += 1
            if refused == stop:
                result = [type(error).__name__, str(error)]
                break
    """

    stopped = driver.run(code, context={"stop": 5}, on_call=gateway.on_call)
    assert stopped.result == ["CallsExceeded", "The run may make at most 1,000 calls for skills and stubs."]
    assert gateway.count("skill_ended") == 1_000

    ended = driver.run(code, context={"stop": -1}, on_call=gateway.on_call)
    assert ended.failure is not None
    assert (ended.failure.kind, ended.failure.type) == ("calls", "CallsExceeded")
    assert gateway.count("skill_ended") == 2_000
    assert is_healthy(driver)


def test_reserved_names_are_no_way_around_the_limit_of_tool_calls(driver: Any) -> None:
    """Only the three names are counted apart, exactly as they are spelled."""
    gateway = Gateway()
    code = """
    seen = []
    lookalike = "skill_ende\N{CYRILLIC SMALL LETTER KOMI DE}"
    for name in ("skill_ended", "skill_ended ", "Skill_ended", "load_skill\\0", lookalike):
        try:
            seen.append(call_tool(name, {}))
        except ToolError as error:
            seen.append(type(error).__name__)
    seen
    """

    outcome = driver.run(code, on_call=gateway.on_call, limits=Limits(tool_calls=2))

    assert outcome.result == [None, None, None, "CallsExceeded", "CallsExceeded"]
    assert outcome.usage.tool_calls == 4


def test_reports_in_flight_are_held_to_the_concurrency_limit(driver: Any) -> None:
    """A gateway that is slow to take them is not asked to take more at once than tools may be called."""

    async def scenario() -> Any:
        now = most = 0
        full = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 4:
                full.set()
            async with asyncio.timeout(60):
                await full.wait()
            now -= 1

        code = "import asyncio\nawait asyncio.gather(*[call_tool('skill_ended', {}) for _ in range(40)])\n'done'"
        outcome = await driver.sandbox.run(code, on_call=on_call, limits=Limits(concurrent_calls=4))
        return outcome.result, most

    assert driver.wait(scenario()) == ("done", 4)


@pytest.mark.parametrize(
    "code",
    [
        "import skills\nskills.load('x' * 10_000_000)",
        "import skills\nskills.load('total@' + '1.' * 5_000_000)",
        "import skills\ngetattr(skills, 'x' * 10_000_000)",
        "import importlib\nimportlib.import_module('skills.' + 'x' * 10_000_000)",
        "import importlib\nimportlib.import_module('skills.../../etc/passwd')",
        "import skills\nskills.load('../../etc/passwd')",
        "import skills\nskills.load('total\\n')",
        "import skills\nskills.load('__init__')",
    ],
)
def test_a_name_that_is_none_is_not_asked_for(driver: Any, code: str) -> None:
    """It ends inside with a short error, and the gateway hears nothing."""
    gateway = Gateway()

    outcome = driver.run(code, on_call=gateway.on_call)

    assert outcome.failure is not None
    assert outcome.failure.type in ("ImportError", "AttributeError", "ModuleNotFoundError")
    assert len(outcome.failure.message) < 5_000
    assert gateway.heard == []


def test_guessing_names_is_bounded(driver: Any) -> None:
    """Each name is asked for once, and past a thousand the answer is no."""
    gateway = Gateway()

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        await gateway.on_call(tool, args)
        raise LookupError("none")

    outcome = driver.run(
        "import skills\nfor _ in range(3):\n    found = [n for n in range(1050) if hasattr(skills, f'x{n}')]\nfound",
        on_call=on_call,
    )

    assert outcome.result == []
    assert gateway.count("load_skill") == 1_000


def test_an_exception_that_misbehaves_is_reported_in_few_words(driver: Any) -> None:
    """Whatever its class does when it is asked for its text."""
    gateway = Gateway()

    outcome = driver.run(
        """
        from skills import total
        class Meta(type):
            __name__ = property(lambda self: 1 / 0)
        class Evil(Exception, metaclass=Meta):
            def __str__(self): raise SystemExit("from __str__")
        class Long(Exception):
            def __str__(self): return "\\ud800" + "x" * 10_000_000
        class Rows(list):
            def __init__(self, kind): self.kind = kind
            def __iter__(self): raise self.kind()
        seen = []
        for kind in (Evil, Long):
            try:
                total(Rows(kind))
            except Exception as error:
                seen.append(type(error) is kind)
        seen
        """,
        on_call=gateway.on_call,
    )

    assert (outcome.failure, outcome.result) == (None, [True, True])
    errors = [args["error"] for name, args in gateway.heard if name == "skill_ended"]
    assert errors == [
        "Evil: (the exception's text could not be had: its __str__ raised SystemExit)",
        "Long: \\ud800" + "x" * 493 + "…",
    ]


def test_code_that_names_itself_a_skill_is_described_within_bounds(driver: Any) -> None:
    """A file name of its own making adds a line to its own traceback, no more."""
    outcome = driver.run(
        """
        import linecache
        name = "skills/" + "x" * 1_000_000
        linecache.cache[name] = (1, None, ["y" * 1_000_000], name)
        exec(compile("1 / 0", name, "exec"))
        """
    )

    failure = outcome.failure
    assert failure is not None
    assert (failure.type, failure.line) == ("ZeroDivisionError", 4)
    assert len(failure.traceback) < 2_000
    assert len(failure.hint or "") < 2_000


def test_a_coroutine_that_is_dropped_reports_nothing_and_harms_nobody(driver: Any) -> None:
    """It is closed whenever the interpreter likes, perhaps in the middle of a call."""
    gateway = Gateway()

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        heard = await gateway.on_call(tool, args)
        return SKILL | {"code": "import asyncio\nasync def total(rows):\n    await asyncio.sleep(0)"} if heard else 1

    outcome = driver.run(
        """
        from skills import total
        for _ in range(3):
            dropped = total.__sealyard_async__([1])
            dropped.send(None)
            dropped.close()
        call_tool("t")
        """,
        on_call=on_call,
    )

    assert (outcome.failure, outcome.result) == (None, 1)
    assert (gateway.count("skill_began"), gateway.count("skill_ended")) == (3, 0)
