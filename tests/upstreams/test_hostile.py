"""Upstreams that are noisy, flood, lie, send too much or the wrong thing."""

import asyncio
import contextlib
import json
import resource
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from sealyard.broker.upstreams.mcp.session import Channel
from sealyard.broker.upstreams.mcp.transport import Child as ChildProcess
from sealyard.broker.upstreams.mcp.transport import Inbound, Tail, read_line, stand_in, whole_message
from sealyard.broker.upstreams.server import read_message, to_answer
from sealyard.errors import ToolFailed, UpstreamError, UpstreamUnavailable

Connect = Callable[..., Any]
Child = Callable[..., dict[str, Any]]


@pytest.mark.behaviour("upstream.noise")
async def test_noise_on_standard_output_is_counted_and_ignored(connect: Connect, child: Child, capfd: Any) -> None:
    """Lines that are no messages, ids nobody gave, a second reply and broken text do not cost the answer."""
    async with connect(**child("Noisy")) as upstream, asyncio.timeout(60):
        first = await upstream.call("echo", {})
        second = await upstream.call("echo", {})
        warnings = upstream.status().warnings

    assert (first.value, second.value) == ("caf\ufffd", "caf\ufffd")
    assert warnings == ("It sent 12 lines or events that are no JSON-RPC; they were ignored.",)
    assert tuple(capfd.readouterr()) == ("", "")


async def test_what_a_server_asks_of_us_is_declined(connect: Connect, child: Child) -> None:
    """It gets an answer to each request, and the call that waits for them goes on."""
    async with connect(**child("Asking")) as upstream, asyncio.timeout(60):
        answer = await upstream.call("echo", {})

    assert answer.value == {"ask-0": "ok", "ask-1": -32601, "ask-2": -32601, "ask-3": -32601}


async def test_flood_neither_grows_memory_nor_starves_other_calls(connect: Connect, child: Child) -> None:
    """While one server sends a hundred thousand messages, calls to another are answered."""
    steps: list[float] = []
    async with (
        connect(**child("Flood")) as flood,
        connect(**child()) as other,
        asyncio.timeout(60),
    ):
        await flood.refresh()
        await other.call("echo", {})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        flooded = asyncio.create_task(flood.call("echo", {}, on_progress=lambda *step: steps.append(step[0])))
        answered = 0
        while not flooded.done():
            await other.call("echo", {})
            answered += 1
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert (await flooded).value == "after the flood"
    assert answered > 20
    assert grown_kib < 64 << 10
    assert steps == sorted(steps)
    assert steps[-1] == 24_999.0


class Asker:
    """A connection over which a server asks a thousand times and takes no reply."""

    def __init__(self) -> None:
        self.sent = 0

    async def receive(self) -> SessionMessage:
        """Another request."""
        self.sent += 1
        if self.sent > 1000:
            raise anyio.EndOfStream
        [message] = read_line(b'{"id": %d, "method": "ping"}' % self.sent)
        assert isinstance(message, SessionMessage)
        return message

    async def send(self, message: SessionMessage) -> None:
        """Waits for ever."""
        await asyncio.Event().wait()


async def test_requests_whose_replies_are_not_read_do_not_pile_up() -> None:
    """A few dozen replies wait; the rest is dropped."""
    asker = Asker()
    inbound = Inbound(asker, asker)
    replying = asyncio.create_task(inbound.reply())
    with pytest.raises(anyio.EndOfStream):
        await inbound.receive()
    replying.cancel()
    await asyncio.wait({replying})

    assert (asker.sent, len(inbound._replies)) == (1001, 32)


async def test_reading_a_flood_leaves_turns_to_others() -> None:
    """Ten turns at least in a thousand lines that come at once."""
    child = ChildProcess(1 << 20, Tail(), lambda fault: None)
    child.pipe_data_received(1, b'{"method": "x"}\n' * 1000)
    child.end()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    read = 0
    with contextlib.suppress(anyio.EndOfStream):
        while True:
            await child.receive()
            read += 1
    counting.cancel()

    assert (read, turns >= 9) == (1000, True)


async def test_notifications_start_no_tasks() -> None:
    """Every one of them is dealt with where it is read: the SDK would start a task for each."""
    taken: list[bool] = []

    class Inner:
        async def run(self, on_request: Any, on_notify: Any, intercept: Any, *, task_status: Any) -> None:
            methods = ("notifications/message", "notifications/progress", "notifications/tools/list_changed", "x")
            taken.extend(intercept(method, {"progressToken": ["odd"]}) for method in methods)

    changes: list[None] = []
    channel = Channel(Inner(), on_change=lambda: changes.append(None))
    await channel.run(None, None)

    assert (taken, len(changes), channel.ended.is_set()) == ([True] * 4, 1, True)


@pytest.mark.behaviour("upstream.large_answer")
@pytest.mark.parametrize("shape", ["id first", "id last"])
async def test_answer_of_50_mb_ends_that_call_only(connect: Connect, child: Child, shape: str) -> None:
    """With an error that says so; the gateway does not hold the bytes, and the next call is answered."""
    async with connect(**child("Huge", answer_bytes=1 << 20)) as upstream, asyncio.timeout(60):
        await upstream.call("echo", {})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UpstreamError) as refusal:
            await upstream.call("echo", {"bytes": 50_000_000, "shape": shape})
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        answer = await upstream.call("echo", {})

    assert str(refusal.value) == (
        "'echo' of 'test' was called, but its answer was not taken: The answer is larger than 1048576 bytes. "
        "Ask for less, or raise answer_bytes in the config."
    )
    assert (answer.value, grown_kib < 16 << 10) == ("xx", True)


async def test_answer_of_50_mb_is_taken_if_the_config_lets_it(connect: Connect, child: Child) -> None:
    """The default limit is above it."""
    async with connect(**child("Huge")) as upstream, asyncio.timeout(60):
        answer = await upstream.call("echo", {"bytes": 50_000_000})

    assert len(to_answer(read_message(answer.message)).value) == 50_000_000


async def test_too_large_a_message_for_nobody_ends_the_connection(connect: Connect, child: Child) -> None:
    """Which call it would have answered cannot be told."""
    async with connect(**child("Huge", answer_bytes=1 << 20)) as upstream, asyncio.timeout(60):
        with pytest.raises(UpstreamError) as refusal:
            await upstream.call("echo", {"bytes": 2_000_000, "shape": "no id"})
        with pytest.raises(UpstreamUnavailable):
            await upstream.call("echo", {})

    assert str(refusal.value) == (
        "'test' ended the connection during 'echo', which may have happened: "
        "It sent a message of more than 1048576 bytes that names no call."
    )


async def test_lie_about_a_schema_costs_a_warning_not_the_answer(connect: Connect, child: Child) -> None:
    """Said once, however often it lies."""
    async with connect(**child()) as upstream:
        answers = [(await upstream.call("lie", {})).value for _ in range(3)]
        warnings = upstream.status().warnings

    assert answers == [{"total": "many"}] * 3
    assert warnings == ("Tool 'lie' does not answer as its output schema says: 'total' is not of type integer.",)


WRONG = {
    '"result": null': ToolFailed("The server's answer is neither a result nor an error."),
    '"result": [1, 2]': ToolFailed("The server's answer is neither a result nor an error."),
    '"error": "boom"': ToolFailed("boom"),
    '"error": {"code": "x", "message": 5}': ToolFailed("The server's answer is neither a result nor an error."),
    '"error": {"code": -32000, "message": "mine"}': ToolFailed("mine"),
}


@pytest.mark.parametrize("answer", WRONG)
async def test_answer_that_is_no_result_is_an_error_at_once(connect: Connect, child: Child, answer: str) -> None:
    """And not a call that hangs until it times out."""
    async with connect(**child("Wrong")) as upstream, asyncio.timeout(60):
        with pytest.raises(UpstreamError) as refusal:
            await upstream.call("echo", {"answer": answer})
        again = await upstream.call("echo", {"answer": '"result": {"structuredContent": [1]}'})

    assert str(WRONG[answer]) in str(refusal.value)
    assert again.value == [1]


ODD_RESULTS = {
    '"result": {}': None,
    '"result": {"content": "text"}': None,
    '"result": {"content": [{"type": "hologram", "data": 1}]}': {"type": "hologram", "data": 1},
    '"result": {"content": [5, null]}': [5, None],
    '"result": {"content": [{"type": "text", "text": 5}]}': "",
    '"result": {"structuredContent": 7, "content": null}': 7,
}


@pytest.mark.parametrize("answer", ODD_RESULTS)
async def test_result_that_is_not_as_the_protocol_says_is_taken_as_far_as_it_goes(
    connect: Connect, child: Child, answer: str
) -> None:
    """The SDK's own client raises for each of them."""
    async with connect(**child("Wrong")) as upstream, asyncio.timeout(60):
        value = (await upstream.call("echo", {"answer": answer})).value

    assert value == ODD_RESULTS[answer]


LARGE = {"content": [], "structuredContent": {"text": "x" * 100_000}}
ORDERS = {
    "of most servers": '{"jsonrpc": "2.0", "id": 7, "result": @}',
    "of the alphabet": '{"id": 7, "jsonrpc": "2.0", "result": @}',
    "with the result first": '{"result": @, "jsonrpc": "2.0", "id": 7}',
    "with more beside it": '{"jsonrpc": "2.0", "more": [{"id": 8}], "result": @, "id": 7, "most": {}}',
}


@pytest.mark.parametrize("order", ORDERS)
async def test_large_answer_is_taken_in_any_order_of_its_fields(order: str) -> None:
    """From a pipe, and over HTTP, where a small one stands for it."""
    line = ORDERS[order].replace("@", json.dumps(LARGE)).encode()
    (item,) = read_line(line)
    small = json.loads(stand_in(line) or b"")

    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCResponse)
    assert (item.message.id, read_message(whole_message(item.message.result) or b"")) == (7, LARGE)
    assert (small["id"], read_message(whole_message(small["result"]) or b"")) == (7, LARGE)


async def test_large_answer_that_cannot_be_read_is_an_error_of_its_call() -> None:
    """The caller learns it at once and does not wait for its time limit."""
    line = b'{"result": %b%b, "id": 7}' % (b"[" * 100_000, b"]" * 100_000)
    (item,) = read_line(line)
    small = json.loads(stand_in(line) or b"")

    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCError)
    assert (small["id"], small["error"]["message"]) == (item.message.id, item.message.error.message)
    assert small["id"] == 7
    assert small["error"]["message"].startswith("The answer is nested too deeply to be read.")


def _encode(data: Any) -> bytes:
    return json.dumps(data).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = dict.fromkeys(("jsonrpc", "id", "method", "params", "result", "error"), JSON)


@given(st.binary(max_size=200) | st.fixed_dictionaries({}, optional=FIELDS).map(_encode))
def test_any_line_is_messages_or_noise(line: bytes) -> None:
    """Reading never raises, and every message has an id that can be looked up."""
    for item in read_line(line):
        assert isinstance(item, SessionMessage | Exception)
        if isinstance(item, SessionMessage):
            hash(getattr(item.message, "id", None))
