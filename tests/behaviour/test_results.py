"""What a run's value is, how it leaves the sandbox, and how values get in."""

import json
from typing import Any

import pytest

from sealyard.errors import InvalidRequest
from sealyard.values.runs import Failure, Limits, Spill

ROWS = "[{'id': n, 'name': 'x' * 10} for n in range(1000)]"
ROWS_BYTES = len(json.dumps([{"id": n, "name": "x" * 10} for n in range(1000)], separators=(",", ":")))


@pytest.mark.behaviour("run.value")
@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("1 + 1", 2),
        ("result = 5", 5),
        ("result = 5\n'the last expression'", 5),
        ("result = None\n7", None),
        ("x = 1", None),
        ("", None),
        ("# only a comment", None),
        ("3\nx = 4", None),
        ("if True:\n    9", None),
        ("def f():\n    return 1\nf()", 1),
        ("print('x') or 3", 3),
        ("(walrus := 8)", 8),
        ("2 ** 100", 2**100),
        ("'\\ud83d\\ude00'", "\N{GRINNING FACE}"),
        ("1\r\n2\r\n", 2),
        ("__name__", "__main__"),
        ("import sys\nsys.exit()", None),
        ("result = 1\nimport sys\nsys.exit(0)", 1),
        ("import asyncio\nawait asyncio.sleep(0)\n5", 5),
        ("import asyncio\nresult = await asyncio.sleep(0, 'slept')", "slept"),
        ("async def f():\n    return 3\nawait f()", 3),
        ("async def f():\n    yield 1\n    yield 2\n[n async for n in f()]", [1, 2]),
        ("import asyncio\nasync def f():\n    return 4\nasyncio.run(f())", 4),
    ],
)
def test_value_is_result_else_the_last_expression(driver: Any, code: str, result: object) -> None:
    """`result` wins if it is set, else the last statement if it is an expression, else there is none."""
    outcome = driver.wait(driver.sandbox.run(code))

    assert (outcome.status, outcome.result, outcome.failure) == ("ok", result, None)


def test_outcome_says_where_and_how_it_ran(driver: Any) -> None:
    """Tier, level, session and the caller's own execution id are part of every outcome."""
    outcome = driver.run("1", execution_id="e-1", session="test-outcome")

    assert (outcome.execution_id, outcome.tier, outcome.level, outcome.session, outcome.ok) == (
        "e-1",
        "namespace",
        "production",
        "test-outcome",
        True,
    )


def test_usage_counts_output_calls_time_and_memory(driver: Any) -> None:
    """A run's cost is measured: bytes written, calls made, CPU time and the largest memory."""

    async def on_call(tool: str, args: dict[str, Any]) -> int:
        return 1

    outcome = driver.run("print('größe')\ncall_tool('a')\ncall_tool('b')\nblock = bytearray(64 << 20)", on_call=on_call)

    assert (outcome.usage.output_bytes, outcome.usage.tool_calls) == (len("größe\n".encode()), 2)
    assert outcome.usage.cpu_seconds > 0
    assert outcome.usage.wall_seconds > 0
    assert outcome.usage.memory_peak_bytes > 64 << 20


def test_context_values_are_variables_and_one_mapping(driver: Any) -> None:
    """Keys that are names become variables; all keys, names or not, are in `context`."""
    context = {"n": 3, "größe": {"deep": [1, None]}, "not a name": 1, "class": 2, "None": 4, "": 5, "1st": 6}

    outcome = driver.run("[n, größe, context]", context=context)

    assert outcome.result == [3, {"deep": [1, None]}, context]


def test_context_cannot_replace_names_of_the_sandbox(driver: Any) -> None:
    """Keys called like something the code relies on are found in `context` only."""
    context = {"context": 1, "result": 2, "call_tool": 3, "ToolError": 4, "__builtins__": 5, "__name__": 6}

    outcome = driver.run(
        """
        names = [context is not None, callable(call_tool), issubclass(ToolError, Exception), len("abc"), __name__]
        "result" in globals(), names, context
        """,
        context=context,
    )

    assert outcome.result == [False, [True, True, True, 3, "__main__"], context]


def test_context_variables_can_shadow_builtins(driver: Any) -> None:
    """A key such as `list` is an ordinary variable, as an assignment would make it."""
    assert driver.run("list", context={"list": [1]}).result == [1]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"x": object()}, "The context must be JSON data: Encoding objects of type object is unsupported."),
        (
            {"x": "\ud800"},
            "The code or its context holds text that is not valid Unicode: 'utf-8' codec can't encode character "
            "'\\ud800' in position 0: surrogates not allowed.",
        ),
    ],
)
def test_context_that_is_not_json_is_refused(driver: Any, context: dict[str, Any], message: str) -> None:
    """A value that has no form in JSON is the caller's mistake, said before anything runs."""
    with pytest.raises(InvalidRequest) as caught:
        driver.run("1", context=context)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("code", "result", "notes"),
    [
        ("(1, 2)", [1, 2], ()),
        ("{3, 1, 2}", [1, 2, 3], ()),
        ("[float('nan'), 1.5]", [None, 1.5], ("NaN became null",)),
        ("b'ab'", {"$bytes": "YWI="}, ("bytes became base64 in an object with the key $bytes",)),
        ("import decimal\ndecimal.Decimal('1.10')", "1.10", ()),
        ("import datetime\ndatetime.date(2024, 2, 29)", "2024-02-29", ()),
        ("{1: 'a'}", {"1": "a"}, ("keys that are not text became text",)),
        ("ValueError('no')", {"type": "ValueError", "message": "no"}, ()),
        ("[1e308 * 10, -1e308 * 10]", [None, None], ("Infinity became null (2 times)",)),
    ],
)
def test_value_takes_its_form_in_json_and_a_loss_is_a_note(
    driver: Any, code: str, result: object, notes: tuple[str, ...]
) -> None:
    """Other forms of the same value carry no note."""
    outcome = driver.run(code)

    assert (outcome.status, outcome.result, outcome.notes) == ("ok", result, notes)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "(n for n in range(3))",
            "result is of type generator, which JSON cannot hold. Return plain data: convert it with list(...) first.",
        ),
        (
            "{'rows': [1, object()]}",
            'result["rows"][1] is of type object, which JSON cannot hold. Return plain data: convert it with str(...) '
            "first, or take the parts you need.",
        ),
        (
            "async def f():\n    return 1\nf()",
            "result is of type coroutine: you forgot await. Put await before the call that made it.",
        ),
        ("x = []\nx.append(x)\nx", "result[0] is result again, a loop without end. Leave the loop out."),
    ],
)
def test_result_without_a_form_in_json_is_a_clear_failure(driver: Any, code: str, message: str) -> None:
    """The failure names the part that cannot leave and what to do; it is never turned into a guess."""
    outcome = driver.run(code)

    assert (outcome.status, outcome.result) == ("failed", None)
    assert (outcome.failure.kind, outcome.failure.message) == ("result", message)


def test_big_result_without_a_session_comes_whole(driver: Any) -> None:
    """Without a workspace there is nowhere to spill to, so the result is sent up to its hard cap."""
    outcome = driver.run(ROWS)

    assert outcome.result == [{"id": n, "name": "x" * 10} for n in range(1000)]
    assert outcome.spill is None


@pytest.mark.behaviour("run.spill")
def test_big_result_of_a_session_is_previewed_and_readable_by_the_next_run(driver: Any) -> None:
    """The preview stays within its budget; the whole lies at the reported path, for the next run and the host."""
    outcome = driver.run(ROWS, session="spill", execution_id="big")
    after = driver.run(
        "import json\nrows = json.load(open(path))\nlen(rows), rows[-1]",
        session="spill",
        context={"path": outcome.spill.path},
    )

    assert outcome.spill == Spill(
        path="/workspace/results/big.json", bytes=ROWS_BYTES, shape="list of 1000 objects with keys id, name"
    )
    assert outcome.result[0] == {"id": 0, "name": "xxxxxxxxxx"}
    assert outcome.result[-1] == {"…": f"{1000 - len(outcome.result) + 1} more items"}
    assert len(json.dumps(outcome.result, ensure_ascii=False).encode()) <= 8_000 + len(outcome.result) * 4
    assert after.result == [1000, {"id": 999, "name": "xxxxxxxxxx"}]
    assert len(driver.sandbox.workspace("spill").read_bytes("results/big.json")) == ROWS_BYTES


def test_shape_of_a_spilled_result_is_that_of_its_json(driver: Any) -> None:
    """A tuple is a list once it is JSON, and that is what the file holds."""
    outcome = driver.run("tuple(range(5000))", session="spill-shape")

    assert outcome.spill.shape == "list of 5000 numbers"


def test_inline_limit_of_one_run_decides_what_spills(driver: Any) -> None:
    """`inline_bytes` of the run's own limits is what counts."""
    limits = Limits(inline_bytes=256)

    assert driver.run("'x' * 254", session="inline", limits=limits).spill is None
    assert driver.run("'x' * 255", session="inline", limits=limits).spill.bytes == 257


def test_result_over_the_hard_cap_is_a_failure(driver: Any) -> None:
    """Neither sent nor spilled: the code is told its size and to return less."""
    outcome = driver.run("x = 'y' * 5000\nx", session="cap", limits=Limits(result_bytes=1024))

    assert outcome.status == "failed"
    assert outcome.failure == Failure(
        kind="result",
        type="TooLarge",
        message="The value is at least 5002 bytes as JSON, and the limit is 1024. "
        "Use less of it: filter it, aggregate it, or write it to a file in the workspace.",
    )
    assert driver.sandbox.workspace("cap").files() == []


def test_spilling_into_a_full_workspace_is_the_workspaces_failure(driver: Any) -> None:
    """A result that finds no room is reported as a full workspace."""
    outcome = driver.run(
        """
        chunk = bytes(1 << 20)
        try:
            with open("fill", "wb") as file:
                while True:
                    file.write(chunk)
        except OSError:
            pass
        "x" * (2 << 20)
        """,
        session="full",
    )

    assert (outcome.status, outcome.failure.kind, outcome.failure.type) == ("limit", "workspace", "WorkspaceExceeded")


def test_code_with_text_that_is_not_unicode_is_refused(driver: Any) -> None:
    """Code is text; half a surrogate pair is not."""
    with pytest.raises(InvalidRequest) as caught:
        driver.run("'\ud800'")

    assert str(caught.value) == (
        "The code or its context holds text that is not valid Unicode: 'utf-8' codec can't encode character "
        "'\\ud800' in position 1: surrogates not allowed."
    )
