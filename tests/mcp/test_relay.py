"""The relay between clients and upstreams of every era: nothing is lost, and nobody hears what is meant for another."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from tests.conftest import _descendants
from tests.mcp.everything_server import Everything
from tests.mcp.processes import stdio_upstream
from tests.mcp.upstreams import Context, Conversing, Json, Person, config, gateway, memory, post, scripted

from sealyard.broker.upstreams.mcp import open_transport
from sealyard.serve.relay import links
from sealyard.values.tools import UpstreamConfig

WAIT_SECONDS = 60
CONVERSE = {"name": "converse", "arguments": {"who": "ada"}}
BOTH_ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake client", "modern client"])


def mode_of(modern: bool) -> str:
    """How the SDK's client is told its era."""
    return "auto" if modern else "legacy"


async def never(*_: Any) -> types.ElicitResult:
    """An answer that no test here needs; a client that could be asked gets other connections."""
    raise AssertionError


async def ask(client: Client, request: Any) -> types.EmptyResult:
    """A request that the SDK's own method for it would warn about."""
    return await client.session.send_request(request, types.EmptyResult)


@pytest.mark.parametrize("upstream_era", ["handshake", "modern", "both"])
@pytest.mark.parametrize("modern", [False, True], ids=["handshake client", "modern client"])
async def test_questions_log_and_progress_reach_the_client_in_its_own_era(modern: bool, upstream_era: str) -> None:
    """Whatever era each side speaks, a call that asks, logs and reports on the way is answered."""
    person = Person("ada")
    async with (
        gateway(lambda _: memory(Conversing().server, upstream_era), config("talk")) as url,
        person.client(url, modern=modern) as client,
    ):
        words = await person.converse(client)

    assert words == 'ada said {"name": "ada"}'
    assert [line for line in person.seen if "question" in line] == ["question for ada"]
    assert {"log for ada", "progress for ada", "question for ada"} == set(person.seen)


@pytest.mark.parametrize("upstream_era", ["handshake", "modern", "both"])
@pytest.mark.parametrize("modern", [False, True], ids=["handshake clients", "modern clients"])
async def test_two_clients_in_mid_call_hear_only_their_own(modern: bool, upstream_era: str) -> None:
    """Both wait for an answer at the same time; neither gets the other's question, log, progress or result."""
    may_answer = asyncio.Event()
    ada, bob = Person("ada", may_answer=may_answer), Person("bob", may_answer=may_answer)
    server = Conversing().server
    async with (
        gateway(lambda _: memory(server, upstream_era), config("talk")) as url,
        ada.client(url, modern=modern) as first,
        bob.client(url, modern=modern) as second,
        asyncio.timeout(WAIT_SECONDS),
    ):
        calls = [asyncio.create_task(ada.converse(first)), asyncio.create_task(bob.converse(second))]
        await ada.asked.wait()
        await bob.asked.wait()
        may_answer.set()
        words = [await call for call in calls]

    assert words == ['ada said {"name": "ada"}', 'bob said {"name": "bob"}']
    assert set(ada.seen) == {"log for ada", "progress for ada", "question for ada"}
    assert set(bob.seen) == {"log for bob", "progress for bob", "question for bob"}


class Connections:
    """Counts the connections to a server, and says when one has ended."""

    def __init__(self, server: Server[Any], era: str = "both") -> None:
        self.opened = 0
        self.ended = asyncio.Event()
        self._server = server
        self._era = era

    @asynccontextmanager
    async def __call__(self, _: UpstreamConfig) -> AsyncIterator[Any]:
        """Connect once more."""
        self.opened += 1
        try:
            async with memory(self._server, self._era) as streams:
                yield streams
        finally:
            self.ended.set()


async def test_state_of_a_waiting_call_serves_only_the_client_it_was_given_to() -> None:
    """A client of another kind that learned the state gets an error; the call still waits for its own client."""
    elicitation = {"elicitation": {}}
    async with gateway(Connections(Conversing().server, "handshake"), config("talk")) as url:
        first = await post(url, "tools/call", CONVERSE, client="first", capabilities=elicitation)
        answers = {key: {"action": "accept", "content": {"name": "eve"}} for key in first["result"]["inputRequests"]}
        again = {**CONVERSE, "requestState": first["result"]["requestState"], "inputResponses": answers}
        stolen = await post(url, "tools/call", again, client="second", capabilities=elicitation)
        other_tool = await post(url, "tools/call", {**again, "name": "other"}, client="first", capabilities=elicitation)
        own = await post(url, "tools/call", again, client="first", capabilities=elicitation)
        twice = await post(url, "tools/call", again, client="first", capabilities=elicitation)

    assert [reply["error"]["code"] for reply in (stolen, other_tool, twice)] == [types.INVALID_PARAMS] * 3
    assert own["result"]["content"] == [{"type": "text", "text": 'ada said {"name": "eve"}'}]


async def test_round_that_answers_nothing_is_asked_again() -> None:
    """An incomplete answer leaves the call waiting under a new state."""
    elicitation = {"elicitation": {}}
    async with gateway(Connections(Conversing().server, "handshake"), config("talk")) as url:
        first = (await post(url, "tools/call", CONVERSE, capabilities=elicitation))["result"]
        again = {**CONVERSE, "requestState": first["requestState"], "inputResponses": {"wrong": {"action": "cancel"}}}
        second = (await post(url, "tools/call", again, capabilities=elicitation))["result"]

    assert second["inputRequests"] == first["inputRequests"]
    assert second["requestState"] != first["requestState"]


async def test_principals_never_share_a_connection() -> None:
    """One principal's second client finds its connection; another principal gets one of its own."""
    connections = Connections(Conversing().server)
    principal = lambda ctx: ctx.request.headers["x-principal"]  # noqa: E731
    async with gateway(connections, config("talk"), principal=principal) as url:
        opened = []
        for name in ("ada", "ada", "bob"):
            await post(url, "tools/list", {}, headers={"x-principal": name})
            opened.append(connections.opened)

    assert opened == [1, 1, 2]


async def test_session_has_connections_of_its_own_that_end_with_it() -> None:
    """Two clients of the handshake's era share nothing; what belongs to one ends when it leaves."""
    connections = Connections(Conversing().server)
    async with gateway(connections, config("talk")) as url, Client(url, mode="legacy") as staying:
        async with Client(url, mode="legacy") as leaving:
            await leaving.list_tools()
            assert (connections.opened, connections.ended.is_set()) == (2, False)
        async with asyncio.timeout(WAIT_SECONDS):
            await connections.ended.wait()
        assert [tool.name for tool in (await staying.list_tools()).tools] == ["converse"]

    assert connections.opened == 2


async def test_clients_cannot_open_any_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be a process: a client of either era beyond the bound is refused, and the others go on."""
    monkeypatch.setattr(links, "LINKS_MOST", 2)
    connections = Connections(Conversing().server)
    async with gateway(connections, config("talk")) as url, contextlib.AsyncExitStack() as stack:
        first, second, third = [await stack.enter_async_context(Client(url, mode="legacy")) for _ in range(3)]
        await asyncio.gather(first.list_tools(), second.list_tools())
        with pytest.raises(MCPError, match="busy with 2 clients"):
            await third.list_tools()
        refused = await post(url, "tools/list", {})
        assert [tool.name for tool in (await first.list_tools()).tools] == ["converse"]

    assert "busy with 2 clients" in refused["error"]["message"]
    assert connections.opened == 2


def header(ctx: Any) -> str:
    """The principal of a request, as it says."""
    return str(ctx.request.headers["x-principal"])


@pytest.mark.behaviour("relay.shared_links")
async def test_no_principal_takes_all_connections_to_an_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that opens as many as it gets leaves half of the rest to each that comes, in either era."""
    monkeypatch.setattr(links, "LINKS_MOST", 6)
    connections = Connections(Conversing().server)
    async with (
        gateway(connections, config("talk"), principal=header, is_shared=True) as url,
        contextlib.AsyncExitStack() as stack,
    ):

        async def listed(principal: str) -> str:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers={"x-principal": principal}))
            transport = streamable_http_client(url, http_client=http)
            client = await stack.enter_async_context(Client(transport, mode="legacy"))
            try:
                return (await client.list_tools()).tools[0].name
            except MCPError as error:
                return error.message

        eve = [await listed("eve") for _ in range(6)]
        others = [await listed("bob"), await listed("bob")]
        modern = await post(url, "tools/list", {}, headers={"x-principal": "ann"})

    busy = "The upstream 'talk' is busy with 3 clients, 3 of them yours. Try again later."
    assert eve == ["converse"] * 3 + [busy] * 3
    assert others == ["converse"] * 2
    assert [tool["name"] for tool in modern["result"]["tools"]] == ["converse"]


async def test_a_connection_that_nobody_uses_makes_way_for_another_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever has the most, the one that was idle longest."""
    monkeypatch.setattr(links, "LINKS_MOST", 2)
    connections = Connections(Conversing().server)
    async with gateway(connections, config("talk"), principal=header, is_shared=True) as url:
        replies = [
            await post(url, "tools/list", {}, headers={"x-principal": name}) for name in ("ada", "bob", "cleo", "ada")
        ]

    assert ["error" in reply for reply in replies] == [False] * 4
    assert connections.opened == 4


async def test_a_connection_that_fails_for_one_principal_does_not_stop_another() -> None:
    """What its client says of itself may be the reason. It waits before it is tried again; the others do not."""
    connections = Connections(Conversing().server)
    is_failing = True

    def connect(upstream: UpstreamConfig) -> Any:
        if is_failing:
            raise OSError("refused")
        return connections(upstream)

    async with gateway(connect, config("talk"), principal=header) as url:
        replies = [await post(url, "tools/list", {}, headers={"x-principal": "ada"})]
        is_failing = False
        replies += [await post(url, "tools/list", {}, headers={"x-principal": name}) for name in ("bob", "ada")]

    assert ["error" in reply for reply in replies] == [True, False, True]


async def test_connection_that_nobody_uses_ends() -> None:
    """A modern client leaves no process behind."""
    connections = Connections(Conversing().server)
    async with gateway(connections, config("talk", idle_seconds=0.05)) as url:
        await post(url, "tools/list", {})
        async with asyncio.timeout(WAIT_SECONDS):
            await connections.ended.wait()
        await post(url, "tools/list", {})

    assert connections.opened == 2


class Waiting:
    """A server whose tool begins and then waits until it is told, or given up."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.given_up = asyncio.Event()
        self.server: Server[Any] = Server(
            "waiting", version="1", on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="wait", input_schema={"type": "object"})])

    async def _call_tool(self, ctx: Context, params: Any) -> Any:
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.given_up.set()


@BOTH_ERAS
async def test_call_that_its_client_gives_up_is_given_up_upstream(modern: bool) -> None:
    """A cancelled request does not go on behind the gateway."""
    waiting = Waiting()
    async with (
        gateway(lambda _: memory(waiting.server), config("slow")) as url,
        Client(url, mode=mode_of(modern)) as client,
        asyncio.timeout(WAIT_SECONDS),
    ):
        call = asyncio.create_task(client.call_tool("wait", {}))
        await waiting.begun.wait()
        call.cancel()
        await waiting.given_up.wait()


@BOTH_ERAS
@pytest.mark.usefixtures("settled")
async def test_upstream_killed_in_mid_call_fails_that_call_and_is_started_again(modern: bool) -> None:
    """The call says who went away; the next one reaches a new process."""
    before = _descendants(os.getpid())
    started_alone = [
        sys.executable,
        "-m",
        "tests.mcp.everything_server",
    ]  # with no launcher that could be killed instead
    async with (
        gateway(open_transport, stdio_upstream("everything", started_alone)) as url,
        Client(url, mode=mode_of(modern), elicitation_callback=never) as client,
    ):
        await client.list_tools()
        started = _descendants(os.getpid()) - before
        progressed = asyncio.Event()

        async def on_progress(*_: Any) -> None:
            progressed.set()

        call = asyncio.create_task(client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress))
        await progressed.wait()
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(MCPError) as failed:
            await call
        result = await client.call_tool("test_simple_text", {})

    assert failed.value.message == (
        "The upstream 'everything' went away during the call; whether it happened is unknown."
    )
    assert result.content == [types.TextContent(text="This is a simple text response for testing.")]
    assert _descendants(os.getpid()) == before


@pytest.mark.parametrize("upstream_era", ["handshake", "modern"])
async def test_modern_stream_carries_the_changes_it_asked_for_and_no_others(upstream_era: str) -> None:
    """A stream opens with what is honored, stays silent about the rest, and its frames bear its own id."""
    fixture = Everything().build()
    async with (
        gateway(lambda _: memory(fixture, upstream_era), config("everything")) as url,
        Client(url) as client,
        client.listen(resource_subscriptions=["test://watched-resource"]) as stream,
        asyncio.timeout(WAIT_SECONDS),
    ):
        await client.call_tool("test_trigger_prompt_change", {})
        await client.call_tool("test_touch_resource", {"uri": "test://static-text"})
        await client.call_tool("test_touch_resource", {"uri": "test://watched-resource"})
        event = await anext(stream)

    assert stream.honored.resource_subscriptions == ["test://watched-resource"]
    assert event == ResourceUpdated(uri="test://watched-resource")


@pytest.mark.parametrize("upstream_era", ["handshake", "modern"])
async def test_subscription_of_the_handshakes_era_brings_updates_until_it_ends(upstream_era: str) -> None:
    """`resources/subscribe` works also where the upstream has streams instead."""
    fixture = Everything().build()
    updates: list[str] = []
    arrived = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.append(str(message.params.uri))
            arrived.set()

    uri = "test://watched-resource"
    async with (
        gateway(lambda _: memory(fixture, upstream_era), config("everything")) as url,
        Client(url, mode="legacy", message_handler=hear) as client,
        asyncio.timeout(WAIT_SECONDS),
    ):
        await ask(client, types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)))
        await client.call_tool("test_touch_resource", {"uri": uri})
        await arrived.wait()
        await ask(client, types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri)))
        await client.call_tool("test_touch_resource", {"uri": uri})

    assert updates == [uri]


async def test_method_of_an_extension_goes_to_the_only_upstream() -> None:
    """What the gateway has no handler for is the upstream's to answer, or to refuse."""
    answers = {"skills/list": {"skills": [{"uri": "skill://a/SKILL.md"}], "example": {"deep": [1]}}}
    async with gateway(lambda _: scripted(answers), config("odd")) as url:
        known = await post(url, "skills/list", {})
        unknown = await post(url, "skills/burn", {})

    assert known["result"]["skills"] == [{"uri": "skill://a/SKILL.md"}]
    assert known["result"]["example"] == {"deep": [1]}
    assert known["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "gateway"
    assert unknown["error"]["code"] == types.METHOD_NOT_FOUND


async def test_roots_and_their_changes_reach_the_upstream() -> None:
    """A client's folders are asked for through the gateway, and asked for again when they change."""
    asked = asyncio.Event()
    roots: list[list[str]] = []

    async def on_change(ctx: Context, params: Any) -> None:
        result = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
        roots.append([str(root.uri) for root in result.roots])
        asked.set()

    server: Server[Any] = Server("rooted", version="1", on_list_tools=Conversing()._list_tools)
    server.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, on_change)

    async def folders(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada")])

    async with (
        gateway(lambda _: memory(server), config("rooted")) as url,
        Client(url, mode="legacy", list_roots_callback=folders) as client,
        asyncio.timeout(WAIT_SECONDS),
    ):
        await client.list_tools()
        await client.session.send_notification(types.RootsListChangedNotification())
        await asked.wait()

    assert roots == [["file:///home/ada"]]


async def test_log_of_a_call_that_wants_none_does_not_reach_another_that_wants_one() -> None:
    """An upstream of the handshake's era logs unasked; two clients of one kind share it, but not what it says."""
    server = Logging()
    heard: list[str] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(str(params.data))

    async with (
        gateway(lambda _: memory(server.server, "handshake"), config("talk")) as url,
        Client(url) as silent,
        Client(url, logging_callback=hear, log_level="debug") as curious,
        asyncio.timeout(WAIT_SECONDS),
    ):
        calls = [asyncio.create_task(silent.call_tool("log", {"who": "silent"}))]
        await server.begun["silent"].wait()
        calls.append(asyncio.create_task(curious.call_tool("log", {"who": "curious"})))
        await server.begun["curious"].wait()
        server.may_go_on.set()
        await asyncio.gather(*calls)

    assert heard == ["log for curious"]


class Logging:
    """A server whose tool logs once it is told to go on, whether its caller wants a log or not."""

    def __init__(self) -> None:
        self.begun: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.may_go_on = asyncio.Event()
        self.server: Server[Any] = Server(
            "logging", version="1", on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )
        self.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="log", input_schema={"type": "object"})])

    async def _set_level(self, ctx: Context, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        who = (params.arguments or {})["who"]
        self.begun[who].set()
        await self.may_go_on.wait()
        note = types.LoggingMessageNotificationParams(level="info", data=f"log for {who}")
        await ctx.session.send_notification(types.LoggingMessageNotification(params=note), ctx.request_id)
        return types.CallToolResult(content=[])


@pytest.mark.parametrize(
    ("method", "params"),
    [("elicitation/create", {"message": 7}), ("sampling/createMessage", {}), ("example/anything", {})],
)
async def test_question_that_the_client_could_not_answer_goes_back_to_the_upstream(method: str, params: Json) -> None:
    """Malformed, undeclared or unknown: the client never sees it, and its call does not wait for ever."""
    refusals: list[int] = []

    async def call_tool(ctx: Context, _: Any) -> types.CallToolResult:
        try:
            await ctx.session._request_outbound.send_raw_request(method, params)
        except MCPError as error:
            refusals.append(error.code)
        return types.CallToolResult(content=[types.TextContent(text="went on")])

    server: Server[Any] = Server("asking", version="1", on_call_tool=call_tool)
    async with gateway(Connections(server, "handshake"), config("asking")) as url:
        reply = await post(url, "tools/call", CONVERSE, capabilities={"elicitation": {}})

    assert reply["result"]["content"] == [{"type": "text", "text": "went on"}]
    assert refusals == [types.INVALID_PARAMS if method == "elicitation/create" else types.METHOD_NOT_FOUND]
