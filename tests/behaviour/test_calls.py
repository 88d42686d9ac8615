"""Calls out of the sandbox: both styles, all at once, errors, budgets and what cannot be sent."""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sealyard.errors import CallRefused
from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.values.runs import Failure, Limits, Reply

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
OnCall = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def echo(tool: str, args: dict[str, Any]) -> Any:
    """Answers with what it was asked."""
    return {"tool": tool, "args": args}


def barrier(parties: int) -> tuple[OnCall, list[int]]:
    """A callback that answers nobody before `parties` calls are in flight; and the answers in their order."""
    in_flight: list[int] = []
    all_here = asyncio.Event()

    async def on_call(tool: str, args: dict[str, Any]) -> int:
        in_flight.append(args["n"])
        if len(in_flight) == parties:
            all_here.set()
        async with asyncio.timeout(60):
            await all_here.wait()
        return int(args["n"]) * 10

    return on_call, in_flight


@pytest.mark.parametrize(
    "code",
    [
        "call_tool('a', {'n': 1})",
        "await call_tool('a', {'n': 1})",
        "answer = call_tool('a', {'n': 1})\nanswer",
        "answer = await call_tool('a', {'n': 1})\nanswer",
        "answer = call_tool('a', {'n': 1})\nimport asyncio\nawait asyncio.sleep(0)\nawait answer",
        "async def f():\n    return call_tool('a', {'n': 1})\nawait f()",
        "async def f():\n    return await call_tool('a', {'n': 1})\nawait f()",
        "import asyncio\nasync def f():\n    return await call_tool('a', {'n': 1})\nasyncio.run(f())",
        "import asyncio\nawait asyncio.wait_for(call_tool('a', {'n': 1}), 5)",
        "import asyncio\nawait asyncio.to_thread(call_tool, 'a', {'n': 1})",
        "import asyncio\nawait asyncio.shield(call_tool('a', {'n': 1}))",
        "import asyncio\ntask = asyncio.create_task(call_tool('a', {'n': 1}))\nawait task",
        "import functools\nfunctools.partial(call_tool, 'a')({'n': 1})",
        "(lambda: call_tool('a', {'n': 1}))()",
        "list(map(lambda n: call_tool('a', {'n': n}), [1]))[0]",
        "await call_tool(name='a', arguments={'n': 1})",
        "class C:\n    def __init__(self):\n        self.answer = call_tool('a', {'n': 1})\nC().answer",
    ],
)
def test_call_gives_its_answer_in_either_style(driver: Any, code: str) -> None:
    """With `await` or without, at the top or in a function, the value is the answer and never a coroutine."""
    outcome = driver.run(code, on_call=echo)

    assert (outcome.failure, outcome.result) == (None, {"tool": "a", "args": {"n": 1}})


GATHERED = {
    "list comprehension": "await asyncio.gather(*[call_tool('t', {'n': n}) for n in range(5)])",
    "generator": "await asyncio.gather(*(call_tool('t', {'n': n}) for n in range(5)))",
    "arguments": "await asyncio.gather(*[call_tool('t', {'n': n}) for n in range(3)], call_tool('t', {'n': 3}), "
    "call_tool('t', {'n': 4}))",
    "named list": "calls = [call_tool('t', {'n': n}) for n in range(5)]\nawait asyncio.gather(*calls)",
    "named one by one": "a = call_tool('t', {'n': 0})\nb = call_tool('t', {'n': 1})\nc = call_tool('t', {'n': 2})\n"
    "await asyncio.gather(a, b, c, call_tool('t', {'n': 3}), call_tool('t', {'n': 4}))",
    "appended": "calls = []\nfor n in range(5):\n    calls.append(call_tool('t', {'n': n}))\n"
    "await asyncio.gather(*calls)",
    "tasks": "tasks = [asyncio.create_task(call_tool('t', {'n': n})) for n in range(5)]\n[await one for one in tasks]",
    "ensure_future": "tasks = [asyncio.ensure_future(call_tool('t', {'n': n})) for n in range(5)]\n"
    "await asyncio.gather(*tasks)",
    "task group": "async with asyncio.TaskGroup() as group:\n"
    "    tasks = [group.create_task(call_tool('t', {'n': n})) for n in range(5)]\n"
    "[task.result() for task in tasks]",
    "wait": "tasks = [asyncio.create_task(call_tool('t', {'n': n})) for n in range(5)]\n"
    "await asyncio.wait(tasks)\n[task.result() for task in tasks]",
    "as_completed": "done = asyncio.as_completed([call_tool('t', {'n': n}) for n in range(5)])\n"
    "sorted([await each for each in done])",
    "as_completed of a name": "calls = [call_tool('t', {'n': n}) for n in range(5)]\n"
    "sorted([await each for each in asyncio.as_completed(calls)])",
    "imported name": "from asyncio import gather\nawait gather(*[call_tool('t', {'n': n}) for n in range(5)])",
    "own coroutines": "async def one(n):\n    return await call_tool('t', {'n': n})\n"
    "await asyncio.gather(*[one(n) for n in range(5)])",
    "inside asyncio.run": "async def main():\n"
    "    return await asyncio.gather(*[call_tool('t', {'n': n}) for n in range(5)])\nasyncio.run(main())",
    "mixed with plain values": "(await asyncio.gather(*[call_tool('t', {'n': n}) for n in range(5)], 7))[:5]",
    "wait_for around gather": "from asyncio import gather, wait_for\n"
    "await wait_for(gather(*[call_tool('t', {'n': n}) for n in range(5)]), 5)",
    "threads": "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor(5) as pool:\n    answers = list(pool.map(lambda n: call_tool('t', {'n': n}), range(5)))\n"
    "answers",
    "to_thread": "await asyncio.gather(*[asyncio.to_thread(call_tool, 't', {'n': n}) for n in range(5)])",
    "threads and tasks": "import threading\nout = {}\n"
    "def work(n):\n    out[n] = call_tool('t', {'n': n})\n"
    "threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]\n"
    "for thread in threads: thread.start()\n"
    "last = await asyncio.gather(call_tool('t', {'n': 3}), call_tool('t', {'n': 4}))\n"
    "for thread in threads: thread.join()\n"
    "[out[0], out[1], out[2], *last]",
}


@pytest.mark.parametrize("form", GATHERED)
def test_gathered_calls_are_all_in_flight_at_once(driver: Any, form: str) -> None:
    """No answer is given before every call has arrived, so calls made one after another would never end."""
    on_call, in_flight = barrier(5)

    outcome = driver.run("import asyncio\n" + GATHERED[form], on_call=on_call)

    assert (outcome.failure, outcome.result) == (None, [0, 10, 20, 30, 40])
    assert sorted(in_flight) == [0, 1, 2, 3, 4]


def test_answers_may_come_in_any_order(driver: Any) -> None:
    """Each caller gets its own answer, the last first."""

    async def scenario() -> Any:
        turns = [asyncio.Event() for _ in range(5)]
        turns[4].set()

        async def on_call(tool: str, args: dict[str, Any]) -> str:
            await turns[args["n"]].wait()
            if args["n"]:
                turns[args["n"] - 1].set()
            return f"answer {args['n']}"

        code = "import asyncio\nawait asyncio.gather(*[call_tool('t', {'n': n}) for n in range(5)])"
        return await driver.sandbox.run(code, on_call=on_call)

    assert driver.wait(scenario()).result == [f"answer {n}" for n in range(5)]


def test_answer_of_a_task_that_comes_along_with_another_is_not_lost(driver: Any) -> None:
    """A plain call that reads its own answer also hands on what came with it to the task that waits for it."""

    async def scenario() -> Any:
        both, first = asyncio.Event(), asyncio.Event()
        seen: list[str] = []

        async def on_call(tool: str, args: dict[str, Any]) -> str:
            seen.append(tool)
            if len(seen) == 2:
                both.set()
            await both.wait()
            if tool == "plain":
                first.set()
                return "x" * 300_000  # more than one read takes, so that its end and the next answer arrive together
            await first.wait()
            return "of the task"

        code = (
            "import asyncio\ntask = asyncio.create_task(call_tool('task'))\nawait asyncio.sleep(0)\n"
            "length = len(call_tool('plain'))\n[length, await task]"
        )
        return await driver.sandbox.run(code, on_call=on_call, limits=Limits(wall_seconds=5))

    outcome = driver.wait(scenario())

    assert (outcome.failure, outcome.result) == (None, [300_000, "of the task"])


def test_late_answer_to_a_call_that_was_given_up_harms_nobody(driver: Any) -> None:
    """It arrives when the loop that asked is closed and another call waits."""

    async def scenario() -> Any:
        asked = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> str:
            if tool == "slow":
                await asked.wait()
                return "late"
            asked.set()
            for _ in range(10):
                await asyncio.sleep(0)
            return "in time"

        code = (
            "import asyncio\n"
            "async def main():\n    try:\n        await asyncio.wait_for(call_tool('slow'), 0.01)\n"
            "    except TimeoutError:\n        return 'gave up'\n"
            "[asyncio.run(main()), call_tool('fast'), call_tool('fast')]"
        )
        return await driver.sandbox.run(code, on_call=on_call)

    outcome = driver.wait(scenario())

    assert (outcome.failure, outcome.result) == (None, ["gave up", "in time", "in time"])


@pytest.mark.parametrize(
    "value",
    [None, True, 1.5, "größe \N{GRINNING FACE}", [], {"a": [1, {"b": None}]}, 2**100, "x" * 2_000_000],
    ids=["null", "boolean", "float", "text", "list", "object", "long integer", "long text"],
)
def test_arguments_and_answers_cross_unchanged(driver: Any, value: object) -> None:
    """JSON data arrives as it was sent, both ways, whatever its size."""
    outcome = driver.run("call_tool('a', {'value': value})['args']['value']", context={"value": value}, on_call=echo)

    assert outcome.result == value


def test_arguments_are_converted_like_results(driver: Any) -> None:
    """Dates, tuples and the like take their form in JSON on the way out too."""
    outcome = driver.run(
        "import datetime\ncall_tool('a', {'day': datetime.date(2024, 1, 2), 'pair': (1, 2)})['args']", on_call=echo
    )

    assert outcome.result == {"day": "2024-01-02", "pair": [1, 2]}


class QuotaExceeded(Exception):
    """An error of the host's own that no Python knows."""


@pytest.mark.parametrize(
    ("error", "caught_as", "shown"),
    [
        (ValueError("bad thing"), "ValueError", "ValueError: bad thing"),
        (KeyError("id"), "KeyError", "KeyError: 'id'"),
        (TimeoutError("too slow"), "TimeoutError", "TimeoutError: too slow"),
        (PermissionError(13, "denied"), "PermissionError", "PermissionError: [Errno 13] denied"),
        (FileNotFoundError("gone"), "OSError", "FileNotFoundError: gone"),
        (QuotaExceeded("try tomorrow"), "ToolError", "QuotaExceeded: try tomorrow"),
        (CallRefused("Not allowed here."), "ToolError", "CallRefused: Not allowed here."),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "odd"), "ToolError", None),
        (Exception("plain"), "ToolError", "Exception: plain"),
        (RuntimeError(""), "RuntimeError", "RuntimeError: "),
        (ExceptionGroup("several", [ValueError("a")]), "ToolError", "ExceptionGroup: several (1 sub-exception)"),
        (ValueError("half \ud800"), "ValueError", "ValueError: half ?"),
        (StopIteration("over"), "ToolError", None),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_error_of_the_callback_is_raised_where_the_code_called(
    driver: Any, error: Exception, caught_as: str, shown: str | None
) -> None:
    """By the name of a built-in, of `ToolError`, or of its own class, with the same message."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        raise error

    code = (
        f"try:\n    call_tool('a')\nexcept {caught_as} as error:\n    result = f'{{type(error).__name__}}: {{error}}'"
    )
    caught = driver.run(code, on_call=on_call)
    asynchronous = driver.run(code.replace("call_tool", "await call_tool"), on_call=on_call)

    assert (caught.failure, asynchronous.failure) == (None, None)
    assert caught.result == asynchronous.result
    assert shown is None or caught.result == shown


def test_uncaught_error_of_a_call_names_the_line_that_called(driver: Any) -> None:
    """It looks like an exception raised on that line."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        raise QuotaExceeded("try tomorrow")

    failure = driver.run("rows = []\nrows = call_tool('a')", on_call=on_call).failure

    assert failure == Failure(
        kind="exception",
        type="QuotaExceeded",
        message="try tomorrow",
        line=2,
        source_line="rows = call_tool('a')",
        traceback="line 2, in <module>\n    rows = call_tool('a')",
    )


def test_call_cancelled_by_the_host_is_an_error_not_a_silence(driver: Any) -> None:
    """When something the callback waits for is cancelled, the code hears of it and the run goes on."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        raise asyncio.CancelledError

    outcome = driver.run(
        "try:\n    call_tool('a')\nexcept ToolError as error:\n    result = str(error)", on_call=on_call
    )

    assert outcome.result == "The call of 'a' was cancelled."


def test_answer_that_is_not_json_is_an_error_in_the_code(driver: Any) -> None:
    """The host's mistake is said to the code that called, which may go on."""
    answers: dict[str, object] = {"object": object(), "text": "\ud800", "deep": []}
    answers["deep"].append(answers["deep"])  # type: ignore[attr-defined]

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        return answers[tool]

    outcome = driver.run(
        """
        result = {}
        for name in ("object", "text", "deep"):
            try:
                call_tool(name)
            except ToolError as error:
                result[name] = type(error).__name__
        result["object_message"] = None
        try:
            call_tool("object")
        except TypeError as error:
            result["object_message"] = str(error)
        """,
        on_call=on_call,
    )

    assert outcome.failure is None
    assert outcome.result == {
        "object": "TypeError",
        "text": "UnicodeEncodeError",
        "deep": "RecursionError",
        "object_message": "Encoding objects of type object is unsupported",
    }


@pytest.mark.parametrize(
    ("call", "type_name", "message"),
    [
        (
            "call_tool('a', {'f': print})",
            "Unrepresentable",
            'arguments["f"] is of type builtin_function_or_method, which JSON cannot hold. Pass plain data: call it '
            "first, or take its name.",
        ),
        ("call_tool('a', [1])", "TypeError", "Arguments of 'a' are a dict of names and values, not list."),
        ("call_tool(5)", "TypeError", "A tool's name is text, not int."),
        (
            "call_tool('a', {'x': 'y' * 2000})",
            "TooLarge",
            "The value is at least 2008 bytes as JSON, and the limit is 1024. Use less of it: filter it, aggregate "
            "it, or write it to a file in the workspace.",
        ),
    ],
)
def test_arguments_that_cannot_be_sent_are_refused_before_they_leave(
    driver: Any, call: str, type_name: str, message: str
) -> None:
    """The host never sees such a call; the code can catch the error and go on."""
    seen: list[str] = []

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        seen.append(tool)
        return 1

    for code in (call, f"await {call}"):
        outcome = driver.run(
            f"try:\n    {code}\nexcept Exception as error:\n    result = [type(error).__name__, str(error)]",
            on_call=on_call,
            limits=Limits(call_bytes=1024),
        )
        assert (outcome.failure, outcome.result, outcome.usage.tool_calls) == (None, [type_name, message], 0)
    assert seen == []


def test_run_without_tools_says_so(driver: Any) -> None:
    """A call that nobody answers is an error at once, not a wait."""
    failure = driver.run("call_tool('mail__send')").failure

    assert (failure.type, failure.message) == ("ToolError", "No tool named 'mail__send': this run has no tools.")


@pytest.mark.behaviour("run.call_budget")
def test_call_budget_is_an_error_the_code_can_catch(driver: Any) -> None:
    """Calls up to the limit are answered; the next one raises, and the run still ends well."""
    outcome = driver.run(
        """
        done = 0
        try:
            while True:
                call_tool("a")
                done += 1
        except ToolError as error:
            result = [done, type(error).__name__, str(error)]
        """,
        on_call=echo,
        limits=Limits(tool_calls=3),
    )

    assert outcome.result == [3, "CallsExceeded", "The run may make at most 3 tool calls."]


def test_uncaught_call_budget_is_a_limit_of_its_own(driver: Any) -> None:
    """The failure names the limit, as those of memory and time do."""
    outcome = driver.run("while True:\n    call_tool('a')", on_call=echo, limits=Limits(tool_calls=3))

    assert outcome.status == "limit"
    assert outcome.failure == Failure(
        kind="calls",
        type="CallsExceeded",
        message="The run may make at most 3 tool calls.",
        line=2,
        source_line="call_tool('a')",
        traceback="line 2, in <module>\n    call_tool('a')",
        hint="Call tools fewer times: ask for more in one call, or split the job.",
    )


def test_error_of_the_host_is_not_mistaken_for_a_limit_of_the_run(driver: Any) -> None:
    """A `MemoryError` or a full disk of the host says nothing about the code's own limits."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        raise MemoryError("the host is out of memory") if tool == "a" else OSError(28, "No space left on device")

    outcomes = [driver.run(f"call_tool({tool!r})", on_call=on_call) for tool in "ab"]

    assert [(outcome.status, outcome.failure.kind) for outcome in outcomes] == [("failed", "exception")] * 2


def test_run_that_ignores_its_call_budget_is_ended(driver: Any) -> None:
    """Code that goes on calling past every refusal is stopped by the host."""
    outcome = driver.run(
        "while True:\n    try:\n        call_tool('a')\n    except Exception:\n        pass",
        on_call=echo,
        limits=Limits(tool_calls=0),
    )

    assert outcome.status == "limit"
    assert outcome.failure == Failure(
        kind="calls",
        type="CallsExceeded",
        message="The code went on calling tools after its limit of 0 calls.",
        hint="Call tools fewer times: ask for more in one call, or split the job.",
    )


@pytest.mark.behaviour("run.concurrent_calls")
def test_no_more_calls_than_allowed_are_in_flight(driver: Any) -> None:
    """However many the code makes at once, the host answers so many at a time, and all of them in the end."""

    async def scenario() -> tuple[Any, list[int]]:
        now, most = 0, [0]
        full = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> int:
            nonlocal now
            now += 1
            most[0] = max(most[0], now)
            if now == 4:
                full.set()
            async with asyncio.timeout(60):
                await full.wait()
            await asyncio.sleep(0)
            now -= 1
            return int(args["n"])

        outcome = await driver.sandbox.run(
            "import asyncio\nsum(await asyncio.gather(*[call_tool('t', {'n': n}) for n in range(200)]))",
            on_call=on_call,
            limits=Limits(concurrent_calls=4),
        )
        return outcome, most

    outcome, most = driver.wait(scenario())

    assert (outcome.result, outcome.usage.tool_calls, most) == (sum(range(200)), 200, [4])


def test_calls_left_unawaited_do_not_hold_up_the_end(driver: Any) -> None:
    """A run whose code is done is done, although calls that it started are still in flight."""

    async def scenario() -> tuple[Any, bool]:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> None:
            if tool == "begun":
                await begun.wait()
                return
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        code = (
            "import asyncio\ntasks = [asyncio.create_task(call_tool('t')) for _ in range(3)]\n"
            "await call_tool('begun')\n'done'"
        )
        outcome = await driver.sandbox.run(code, on_call=on_call, limits=Limits(concurrent_calls=64))
        async with asyncio.timeout(60):
            await cancelled.wait()
        return outcome, cancelled.is_set()

    outcome, cancelled = driver.wait(scenario())

    assert (outcome.failure, outcome.result, cancelled) == (None, "done", True)


def test_call_that_never_returns_ends_at_the_wall_limit_and_is_cancelled(driver: Any) -> None:
    """The callback is told by cancellation; the outcome is a timeout with what was printed."""

    async def scenario() -> tuple[Any, list[str]]:
        log: list[str] = []
        cancelled = asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                log.append(tool)
                cancelled.set()
                raise

        outcome = await driver.sandbox.run(
            "print('asking')\ncall_tool('a')", on_call=on_call, limits=Limits(wall_seconds=1)
        )
        async with asyncio.timeout(60):
            await cancelled.wait()
        return outcome, log

    outcome, log = driver.wait(scenario())

    assert (outcome.status, outcome.failure.kind, outcome.output, log) == ("timeout", "wall_time", "asking\n", ["a"])


async def test_cancelled_run_leaves_nothing(held: Callable[..., Awaitable[dict[str, Any]]]) -> None:
    """Cancelling the run kills its worker, cancels its calls and gives everything back."""
    async with open_sandbox(PLAIN) as sandbox:
        before = await held(sandbox)
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def on_call(tool: str, args: dict[str, Any]) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        run = asyncio.create_task(sandbox.run("call_tool('a')", on_call=on_call, session="s"))
        async with asyncio.timeout(60):
            await started.wait()
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run
            await cancelled.wait()
        await sandbox.remove_session("s")

        assert run.cancelled()
        assert await held(sandbox) == before
        assert (await sandbox.run("1")).result == 1


def test_large_answers_and_files_arrive_whole_and_in_their_places(driver: Any) -> None:
    """They are sent by pieces, small answers between them: none is cut, and none is mixed with another."""
    content = bytes(range(256)) * 9_000 + b"end"  # not a multiple of three

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        if args["kind"] == "file":
            return Reply(value={"n": args["n"]}, files={f"files/{args['n']}.bin": content, f"files/{args['n']}": b""})
        if args["kind"] == "large":
            return msgspec.Raw(msgspec.json.encode([args["n"], "x" * 3_000_000]))
        return args["n"]

    code = """
        import asyncio, hashlib
        from pathlib import Path
        kinds = ["small", "large", "file"] * 4
        found = await asyncio.gather(*[call_tool("t", {"n": n, "kind": kind}) for n, kind in enumerate(kinds)])
        [found[0::3], [(n, len(text)) for n, text in found[1::3]], [each["n"] for each in found[2::3]],
         {hashlib.sha256(Path(f"files/{n}.bin").read_bytes()).hexdigest() for n in range(2, 12, 3)},
         [Path(f"files/{n}").stat().st_size for n in range(2, 12, 3)]]
    """
    outcome = driver.run(code, on_call=on_call, session="large-answers")

    assert outcome.result == [
        [0, 3, 6, 9],
        [[1, 3_000_000], [4, 3_000_000], [7, 3_000_000], [10, 3_000_000]],
        [2, 5, 8, 11],
        [hashlib.sha256(content).hexdigest()],
        [0, 0, 0, 0],
    ]


POSTED = """
import json, os
bodies = [json.dumps({'t': 'call', 'id': 10_000 + n, 'tool': 'post', 'args': {}}).encode() for n in range(500)]
os.write(3, b''.join(len(body).to_bytes(4, 'little') + body for body in bodies))
os._exit(0)
"""


async def test_calls_that_wait_when_the_worker_ends_are_not_made() -> None:
    """Nobody would hear their answers. Before, a run ended only when its whole backlog was answered."""
    calls: list[str] = []

    async def answer(tool: str, args: dict[str, Any]) -> Any:
        calls.append(tool)
        await asyncio.Event().wait()

    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        outcome = await sandbox.run(POSTED, on_call=answer, limits=Limits(wall_seconds=20))

    assert outcome.failure is not None
    assert (outcome.status, outcome.failure.kind) == ("broken", "exit")
    assert len(calls) <= PLAIN.concurrent_calls
