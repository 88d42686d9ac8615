"""Calls to tools: at once, in time, cancelled, with progress, refused."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server
from tests.upstreams.waiting import listed, until_in_flight

from sealyard.broker.upstreams.server import read_message, to_answer
from sealyard.errors import InvalidArguments, ToolFailed, UnknownTool, UpstreamError, UpstreamTimeout

Connect = Callable[..., Any]
Child = Callable[..., dict[str, Any]]


async def test_calls_overlap(connect: Connect, child: Child) -> None:
    """Eight calls that wait for each other are all answered."""
    async with connect(**child()) as upstream, asyncio.timeout(60):
        answers = await asyncio.gather(*(upstream.call("meet", {"parties": 8}) for _ in range(8)))

    assert [answer.value for answer in answers] == ["met"] * 8


async def test_no_more_calls_than_configured_are_in_flight(connect: Connect, child: Child) -> None:
    """The third call waits for a place, and its time runs meanwhile."""
    async with connect(**child("Raw", concurrent_calls=2)) as upstream, asyncio.timeout(60):
        hanging = [asyncio.create_task(upstream.call("hang", {"n": n})) for n in range(2)]
        await until_in_flight(upstream, 2)
        with pytest.raises(UpstreamTimeout) as refusal:
            await upstream.call("echo", {}, timeout_seconds=0.1)
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)
        answer = await upstream.call("echo", {"free": True})

    assert str(refusal.value) == (
        "'test' was busy for 0.1 s with 2 other calls; 'echo' was not called. Make fewer calls at once."
    )
    assert answer.value == {"free": True}


@pytest.mark.parametrize("scenario", [None, "Heard"])
async def test_timeout_and_cancellation_reach_the_server(connect: Connect, child: Child, scenario: str | None) -> None:
    """It is told to stop, in both eras of the protocol, and the connection stays usable."""
    async with connect(**child(scenario)) as upstream, asyncio.timeout(60):
        await upstream.refresh()
        name = "hang" if scenario is None else "echo"
        with pytest.raises(UpstreamTimeout) as refusal:
            await upstream.call(name, {"name": "late", "hang": True}, timeout_seconds=0.5)
        call = asyncio.create_task(upstream.call(name, {"name": "unwanted", "hang": True}))
        await until_in_flight(upstream, 1)
        if scenario is None:
            await upstream.call("echo", {})  # it has begun with what came before
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if scenario is None:
            told: list[str] = []
            while len(told) < 2:
                told = (await upstream.call("cancelled", {})).value["names"]
        else:
            heard = (await upstream.call("echo", {})).value
            told = [one["params"]["requestId"] for one in heard if one.get("method") == "notifications/cancelled"]
            ids = {one["params"]["arguments"]["name"]: one["id"] for one in heard if _names_call(one)}
            told = [name for number in told for name, its in ids.items() if its == number]

    assert told == ["late", "unwanted"]
    assert str(refusal.value) == (
        f"'test' did not answer {name!r} within 0.5 s. The call may have happened: check before calling again, or "
        "give it more time."
    )


def _names_call(message: dict[str, Any]) -> bool:
    return message.get("method") == "tools/call" and "name" in message["params"]["arguments"]


async def test_progress_is_relayed_in_order(connect: Connect, child: Child) -> None:
    """All of it, to a callback that may be a coroutine, before the call returns."""
    steps: list[Any] = []

    async def note(*step: Any) -> None:
        steps.append(step)

    async with connect(**child()) as upstream:
        answer = await upstream.call("count", {"to": 5}, on_progress=note)

    assert (answer.value, steps) == ("counted", [(float(n), 5.0, f"step {n}") for n in range(1, 6)])


async def test_failing_progress_callback_does_not_fail_the_call(connect: Connect, child: Child) -> None:
    """Only the progress is lost."""

    def fail(*step: Any) -> None:
        raise KeyError(step)

    async with connect(**child()) as upstream:
        answer = await upstream.call("count", {"to": 5}, on_progress=fail)

    assert answer.value == "counted"


async def test_error_of_a_tool_is_the_tools_own_words(connect: Connect, child: Child) -> None:
    """Whether it is a result that says so or an answer of the protocol."""
    async with connect(**child()) as upstream:
        with pytest.raises(ToolFailed) as result:
            await upstream.call("fail", {})
        with pytest.raises(ToolFailed) as answer:
            await upstream.call("no_such_tool", {})
        status = upstream.status()

    assert (str(result.value), str(answer.value)) == ("no such row", "Unknown tool: no_such_tool")
    assert (status.calls, status.failures) == (2, 0)


async def test_tools_the_config_leaves_out_cannot_be_called(connect: Connect, child: Child) -> None:
    """Nor are they listed; patterns work in both directions."""
    async with connect(**child(tools=("c*", "echo"), without_tools=("c?ash",))) as upstream:
        names = [definition.name for definition in await listed(upstream)]
        for name in ("crash", "lie"):
            with pytest.raises(UnknownTool):
                await upstream.call(name, {})

    assert names == ["echo", "cancelled", "count"]


async def test_a_tool_to_leave_out_that_is_not_there_is_a_warning(connect: Connect, child: Child) -> None:
    """A misspelled name leaves the tool in, so the server's status says so."""
    async with connect(**child(tools=("c*", "echo"), without_tools=("c?ash", "cuont"))) as upstream:
        await listed(upstream)
        status = upstream.status()

    assert status.warnings == (
        "without_tools names 'cuont', which fits none of its tools. Correct it, or take it out.",
    )


@pytest.mark.parametrize(
    "arguments",
    [{"n": float("nan")}, {"s": "\ud800"}, {"o": object()}, {"n": float("inf")}],
    ids=["nan", "surrogate", "object", "infinity"],
)
async def test_what_is_no_json_is_refused_before_it_is_sent(connect: Connect, child: Child, arguments: Any) -> None:
    """It would end the connection of everybody else's calls in the SDK's transports."""
    async with connect(**child("Heard")) as upstream:
        with pytest.raises(InvalidArguments):
            await upstream.call("echo", arguments)
        heard = (await upstream.call("echo", {})).value

    assert [one["params"]["arguments"] for one in heard if one.get("method") == "tools/call"] == [{}]


async def test_large_arguments_and_answers_pass_whole(connect: Connect, child: Child) -> None:
    """Larger than any pipe holds, in both directions at once."""
    text = "ä" * 1_000_000
    async with connect(**child()) as upstream, asyncio.timeout(60):
        answers = await asyncio.gather(*(upstream.call("echo", {"text": text, "n": n}) for n in range(4)))

    values = [to_answer(read_message(answer.message)).value for answer in answers]
    assert [value == {"text": text, "n": n} for n, value in enumerate(values)] == [True] * 4


async def test_call_is_sent_as_the_protocol_says(connect: Connect, child: Child) -> None:
    """A server of 2024 gets the handshake of its time, one list, and the call without anything of ours in it."""
    async with connect(**child("Heard")) as upstream:
        heard = (await upstream.call("echo", {"a": 1})).value

    assert [one["method"] for one in heard] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert json.loads(json.dumps(heard[-1]["params"])) == {"name": "echo", "arguments": {"a": 1}}


class Later:
    """A server of 2026 that puts its callers off, or asks them for something."""

    def __init__(self) -> None:
        self.server = Server("later", on_list_tools=self.list_tools, on_call_tool=self.call_tool)

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        """None of its tools."""
        return types.ListToolsResult(tools=[])

    async def call_tool(self, context: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
        """Answers the second time, never, or only to a person."""
        if params.name == "ask":
            request = types.ListRootsRequest()
            return types.InputRequiredResult(input_requests={"roots": request}, request_state="s")
        if params.name == "break":
            raise KeyError("secret of the server")
        if params.name == "never" or params.request_state is None:
            return types.InputRequiredResult(request_state="come back")
        return types.CallToolResult(content=[], structured_content={"state": params.request_state})


async def test_server_that_puts_us_off_is_asked_again_with_its_state(connect: Connect, serve: Any) -> None:
    """But not for ever, and what needs a person is refused at once."""
    async with (
        serve(Later().server.streamable_http_app()) as address,
        connect(transport="http", url=f"{address}/mcp") as upstream,
        asyncio.timeout(60),
    ):
        answer = await upstream.call("later", {})
        with pytest.raises(UpstreamError, match="asked to be called again 10 times"):
            await upstream.call("never", {})
        with pytest.raises(UpstreamError, match="asks a person or a model for input"):
            await upstream.call("ask", {})
        with pytest.raises(ToolFailed) as failure:
            await upstream.call("break", {})

    assert answer.value == {"state": "come back"}
    assert str(failure.value) == "Internal server error"
