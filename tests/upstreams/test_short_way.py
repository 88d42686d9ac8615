"""Calls to a child go past the SDK's session: they say the same, and no answer of a hostile child is mistaken."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import DiscoverResult, Implementation, InitializeResult, ServerCapabilities
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from sealyard.broker.upstreams.mcp.session import CLIENT, Channel, call_tool
from sealyard.broker.upstreams.mcp.transport import CLOSED, Child, Tail
from sealyard.errors import ToolFailed, UpstreamError, UpstreamTimeout

Connect = Callable[..., Any]
Config = Callable[..., dict[str, Any]]

TEXT = '"result": {"content": [{"type": "text", "text": "right"}]}'
RIGHT = f'{{"jsonrpc": "2.0", "id": @, {TEXT}}}\n'
FALSE = RIGHT.replace("right", "false")


class Recorder:
    """Takes requests in place of a dispatcher and of a child, and answers each with an empty result."""

    def __init__(self) -> None:
        self.params: list[Any] = []

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, options: Any = None) -> Any:
        """As the SDK's dispatcher takes it."""
        assert method == "tools/call"
        self.params.append(params)
        return {}

    ask = send_raw_request


GREETINGS = {
    "2025-11-25": InitializeResult(
        protocol_version="2025-11-25",
        capabilities=ServerCapabilities(),
        server_info=Implementation(name="a", version="1"),
    ),
    "2026-07-28": DiscoverResult(
        supported_versions=["2026-07-28"], capabilities=ServerCapabilities(), ttl_ms=0, cache_scope="private"
    ),
}


@pytest.mark.parametrize("version", GREETINGS)
@pytest.mark.parametrize("extra", [{}, {"token": "progress-1"}, {"request_state": "opaque"}])
async def test_a_call_says_what_the_session_would_say(version: str, extra: dict[str, Any]) -> None:
    """Every parameter, in both eras, `None` among the arguments included."""
    long, short = Recorder(), Recorder()
    session = ClientSession(dispatcher=Channel(long, on_change=lambda: None), client_info=CLIENT)  # type: ignore[arg-type]
    session.adopt(GREETINGS[version])
    arguments = {"text": "é", "nothing": None, "list": [1.5, {"deep": None}]}
    await call_tool(session, None, "echo", arguments, **extra)
    await call_tool(session, short, "echo", arguments, **extra)  # type: ignore[arg-type]

    assert short.params == long.params


async def test_a_call_carries_the_trace_that_it_is_part_of() -> None:
    """As the SDK's dispatcher would have it; without a trace it carries none."""
    session, child = ClientSession(dispatcher=Channel(Recorder(), on_change=lambda: None)), Recorder()  # type: ignore[arg-type]
    session.adopt(GREETINGS["2025-11-25"])
    context = SpanContext(trace_id=0xA1, span_id=0xB2, is_remote=False, trace_flags=TraceFlags(1))
    with use_span(NonRecordingSpan(context)):
        await call_tool(session, child, "echo", {})  # type: ignore[arg-type]
    await call_tool(session, child, "echo", {})  # type: ignore[arg-type]

    traced, plain = child.params
    assert traced["_meta"] == {"traceparent": f"00-{0xA1:032x}-{0xB2:016x}-01"}
    assert plain == {"name": "echo", "arguments": {}}


ANSWERS: dict[str, list[str]] = {
    "alone": [RIGHT],
    "byte by byte": [*RIGHT[:12], RIGHT[12:]],
    "in the middle of a character": [RIGHT[:-5], RIGHT[-5:]],
    "behind the start of another line": ["INFO ", "all well\n", RIGHT],
    "before the end of the line": [RIGHT[:-1], "\n"],
    "with a carriage return": [RIGHT[:-1] + "\r\n"],
    "two in one piece": [RIGHT + FALSE],
    "twice": [RIGHT, FALSE, FALSE],
    "as a string": [RIGHT.replace("@", '"@"'), FALSE],
    "in a batch": [f"[{RIGHT[:-1]}]\n", FALSE],
    "after the answer to another call": [FALSE.replace("@", "7"), FALSE.replace("@", '"x"'), RIGHT],
    "after the answer to the next call": [FALSE.replace("@", "@0"), RIGHT],
    "after ids that only look alike": [
        FALSE.replace("@", "@.0"),
        FALSE.replace("@", "true"),
        FALSE.replace("@", "null"),
        FALSE.replace("@", "[@]"),
        FALSE.replace("@", '{"@": 1}'),
        FALSE.replace('"id": @, ', ""),
        RIGHT,
    ],
    "after a request of the same id": ['{"id": @, "method": "ping", "result": {"content": []}}\n', RIGHT],
    "after depth without end": ["[" * 60_000 + "\n", '{"id": 5, "result": ' + '{"a": ' * 9_000 + "\n", RIGHT],
    "after noise": ["\n", "\n\n", "null\n", '"@"\n', "@\n", "{}\n", "\xff\xfe\n", RIGHT],
    "after a notification": ['{"method": "notifications/message", "params": 5}\n', RIGHT],
    "with fields that are not the protocol's": [RIGHT.replace('"jsonrpc": "2.0"', '"jsonrpc": 1, "error": null')],
}


@pytest.mark.parametrize("how", ANSWERS)
async def test_an_answer_is_found_however_it_arrives(connect: Connect, child: Config, how: str) -> None:
    """And none but the first with the call's own id is taken; the connection goes on."""
    async with connect(**child("Pieces")) as upstream, asyncio.timeout(60):
        first = await upstream.call("echo", {"pieces": ANSWERS[how]})
        again = await upstream.call("echo", {"pieces": [RIGHT.replace("right", "again")]})

    assert (first.value, again.value) == ("right", "again")


FAILURES: dict[str, list[str]] = {
    '{"id": @, "error": {"code": -32050, "message": "mine"}}\n': ["mine"],
    '{"id": @, "result": 5}\n': ["neither a result nor an error"],
    '{"id": @, "result": {"content": ' + "[" * 30_000 + "\n": ["is nested too deeply", "is not JSON"],
    '{"id": @, "result": {"content": nothing}}\n': ["is not JSON"],
}


@pytest.mark.parametrize("answer", FAILURES)
async def test_an_answer_that_is_no_result_is_an_error_at_once(connect: Connect, child: Config, answer: str) -> None:
    """Alone in its piece or not."""
    async with connect(**child("Pieces")) as upstream, asyncio.timeout(60):
        for pieces in ([answer], [answer[:9], answer[9:]]):
            with pytest.raises(ToolFailed) as failure:
                await upstream.call("echo", {"pieces": pieces})
            assert any(words in str(failure.value) for words in FAILURES[answer])


async def test_broken_text_and_numbers_that_are_none_cost_only_themselves(connect: Connect, child: Config) -> None:
    """As on the long way."""
    answer = '{"id": @, "result": {"structuredContent": {"text": "caf\xe9", "number": NaN}}}\n'
    async with connect(**child("Pieces")) as upstream, asyncio.timeout(60):
        value = (await upstream.call("echo", {"pieces": [answer]})).value

    assert value["text"] == "caf\ufffd"


async def test_progress_comes_before_the_answer_that_follows_it(connect: Connect, child: Config) -> None:
    """An answer does not overtake what was sent before it."""
    steps: list[float] = []
    step = '{"method": "notifications/progress", "params": {"progressToken": "progress-1", "progress": %d}}\n'
    async with connect(**child("Pieces")) as upstream, asyncio.timeout(60):
        await upstream.call(
            "echo",
            {"pieces": ["".join(step % n for n in range(5)), step % 5 + RIGHT]},
            on_progress=lambda *progress: steps.append(progress[0]),
        )

    assert steps == [0, 1, 2, 3, 4, 5]


async def test_a_call_that_is_given_up_is_taken_back_once(connect: Connect, child: Config) -> None:
    """The child hears which one, and a late answer goes to nobody."""
    async with connect(**child("Heard")) as upstream, asyncio.timeout(60):
        await upstream.call("echo", {})
        with pytest.raises(UpstreamTimeout):
            await upstream.call("echo", {"hang": True}, timeout_seconds=0.05)
        heard = (await upstream.call("echo", {})).value
    calls = [message["id"] for message in heard if message.get("method") == "tools/call"]
    taken_back = [message["params"] for message in heard if message.get("method") == "notifications/cancelled"]

    assert taken_back == [{"requestId": calls[1], "reason": "caller cancelled"}]
    assert len(set(calls)) == 3


async def test_calls_in_flight_fail_when_the_child_dies(connect: Connect, child: Config) -> None:
    """All of them, at once, and none is sent again."""
    async with connect(**child()) as upstream, asyncio.timeout(60):
        await upstream.refresh()
        calls = [asyncio.create_task(upstream.call("hang", {})) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(UpstreamError):
            await upstream.call("crash", {})
        ended = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(end, UpstreamError) and "may have happened" in str(end) for end in ended)


async def test_nobody_waits_for_a_child_that_is_deserted() -> None:
    """Neither who asked before, nor who asks after."""
    child = Child(1 << 20, Tail(), lambda fault: None)
    with pytest.raises(MCPError, match=CLOSED):
        await child.ask("tools/call", {})
    child.desert()
    with pytest.raises(MCPError, match=CLOSED):
        await child.ask("tools/call", {})
    child.end()
    with pytest.raises(anyio.EndOfStream):
        await child.receive()
