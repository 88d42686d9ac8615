"""Upstreams over HTTP: both eras, JSON and event streams, old server-sent events, headers, lost sessions."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from tests.ports import free_port
from tests.upstreams.tool_server import ToolServer
from tests.upstreams.waiting import listed, until, until_in_flight

from sealyard.broker.upstreams.server import read_message, to_answer
from sealyard.errors import ToolFailed, UpstreamError, UpstreamTimeout, UpstreamUnavailable

Connect = Callable[..., Any]
Serve = Callable[..., Any]


class Seen:
    """Remembers the headers of every request, and can refuse the newest protocol or everything."""

    def __init__(self, app: Any, *, legacy: bool = False) -> None:
        self.app = app
        self.legacy = legacy
        self.status: int | None = None
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            headers = {key.decode(): value.decode() for key, value in scope["headers"]} | {"method": scope["method"]}
            self.headers.append(headers)
            if self.status is not None:
                await Response(status_code=self.status)(scope, receive, send)
                return
            if self.legacy and headers.get("mcp-method") == "server/discover":
                await Response(status_code=400)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def http_app(**options: Any) -> tuple[ToolServer, Any]:
    """A tool server and its streamable HTTP app."""
    tools = ToolServer()
    return tools, tools.server.streamable_http_app(**options)


def sse_app(tools: ToolServer) -> Starlette:
    """A tool server over HTTP as in 2024."""
    transport = SseServerTransport("/messages/")

    async def events(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await tools.server.run(read, write, tools.server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", events), Mount("/messages/", app=transport.handle_post_message)])


KINDS = ["modern", "modern json", "stateful", "stateful json", "sse"]


@contextlib.asynccontextmanager
async def reach(kind: str, serve: Serve, connect: Connect, **fields: Any) -> AsyncIterator[tuple[Any, Seen]]:
    """An upstream to a server of this kind, and what that server saw."""
    if kind == "sse":
        seen = Seen(sse_app(ToolServer()))
        path, fields["transport"] = "/sse", "sse"
    else:
        _, app = http_app(json_response="json" in kind)
        seen = Seen(app, legacy="stateful" in kind)
        path, fields["transport"] = "/mcp", "http"
    async with serve(seen) as address, connect(url=address + path, **fields) as upstream, asyncio.timeout(60):
        yield upstream, seen


@pytest.mark.parametrize("kind", KINDS)
async def test_server_over_http_lists_and_answers(kind: str, serve: Serve, connect: Connect) -> None:
    """Whatever the era and the form of its answers, also many at once."""
    async with reach(kind, serve, connect) as (upstream, _):
        names = [definition.name for definition in await listed(upstream)]
        answers = await asyncio.gather(*(upstream.call("meet", {"parties": 4}) for _ in range(4)))
        echo = await upstream.call("echo", {"text": "ä", "n": [1, None]})
        with pytest.raises(ToolFailed) as failure:
            await upstream.call("fail", {})
        with pytest.raises(ToolFailed) as unknown:
            await upstream.call("no_such_tool", {})
        status = upstream.status()

    assert (len(names), [answer.value for answer in answers]) == (11, ["met"] * 4)
    assert echo.value == {"text": "ä", "n": [1, None]}
    assert (str(failure.value), str(unknown.value)) == ("no such row", "Unknown tool: no_such_tool")
    version = "2025-11-25" if "stateful" in kind else "2026-07-28"
    assert (status.state, status.protocol_version, status.failures) == ("ready", version, 0)


@pytest.mark.parametrize("kind", ["modern", "stateful", "sse"])
async def test_progress_timeout_and_cancellation_work_over_http(kind: str, serve: Serve, connect: Connect) -> None:
    """As they do over a pipe."""
    steps: list[float] = []
    async with reach(kind, serve, connect) as (upstream, _):
        await upstream.call("count", {"to": 3}, on_progress=lambda *step: steps.append(step[0]))
        with pytest.raises(UpstreamTimeout):
            await upstream.call("hang", {"name": "late"}, timeout_seconds=0.3)
        call = asyncio.create_task(upstream.call("hang", {"name": "unwanted"}))
        await until_in_flight(upstream, 1)
        await upstream.call("echo", {})
        call.cancel()
        await asyncio.wait({call})
        names: list[str] = []
        while len(names) < 2:
            names = (await upstream.call("cancelled", {})).value["names"]

    assert (steps, sorted(names)) == ([1.0, 2.0, 3.0], ["late", "unwanted"])


@pytest.mark.parametrize("kind", ["modern", "stateful"])
async def test_changes_are_noticed_over_http(kind: str, serve: Serve, connect: Connect) -> None:
    """Over the stream of changes or, before 2026, the session's own stream."""
    seen: list[int] = []

    async def on_tools(name: str, definitions: list[Any]) -> None:
        seen.append(len(definitions))

    async with reach(kind, serve, connect, on_tools=on_tools) as (upstream, requests):
        await upstream.refresh()
        if kind == "stateful":
            await until(lambda: any("GET" in one["method"] for one in requests.headers))
        await upstream.call("add_tool", {"name": "more"})
        await until(lambda: seen[-1] == 12)

    assert seen == [11, 12]


@pytest.mark.parametrize("kind", ["modern", "sse"])
async def test_headers_and_bearer_token_go_with_every_request(kind: str, serve: Serve, connect: Connect) -> None:
    """To the first and to the last."""
    fields = {"headers": {"X-Team": "blue"}, "bearer_token": "t0ken"}
    async with reach(kind, serve, connect, **fields) as (upstream, seen):
        await upstream.call("echo", {})

    assert {(one["x-team"], one["authorization"]) for one in seen.headers} == {("blue", "Bearer t0ken")}


async def test_refused_credentials_are_said(serve: Serve, connect: Connect) -> None:
    """With what to do about it."""
    async with reach("modern", serve, connect) as (upstream, seen):
        seen.status = 401
        with pytest.raises(UpstreamUnavailable) as refusal:
            await upstream.call("echo", {})

    assert str(refusal.value) == (
        "'test' is not available: It could not be greeted: Server returned an error response. The last answer was "
        "HTTP 401. Set bearer_token, headers or oauth in its config. It can be started again in 0.5 s."
    )


@pytest.mark.behaviour("call.sent_once")
async def test_forgotten_session_is_renewed_once_and_unseen(serve: Serve, connect: Connect) -> None:
    """A server that was restarted does not know the session; no call is lost, many at once share the renewal."""
    port = free_port()
    async with connect(transport="http", url=f"http://127.0.0.1:{port}/mcp") as upstream, asyncio.timeout(60):
        for _ in range(2):
            _, app = http_app()
            seen = Seen(app, legacy=True)
            async with serve(seen, port):
                answers = await asyncio.gather(*(upstream.call("echo", {"n": n}) for n in range(3)))
        status = upstream.status()

    assert [answer.value for answer in answers] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (status.failures, status.restarts) == (0, 0)


async def test_server_that_is_gone_costs_the_call_and_a_pause(serve: Serve, connect: Connect) -> None:
    """The call says that it did not happen; when the server is back, so is the upstream."""
    port = free_port()
    now = [0.0]
    fields = {"transport": "http", "url": f"http://127.0.0.1:{port}/mcp", "clock": lambda: now[0]}
    async with connect(**fields) as upstream, asyncio.timeout(60):
        async with serve(http_app()[1], port):
            await upstream.call("echo", {})
        with pytest.raises(UpstreamUnavailable, match="cannot be reached; 'echo' was not called"):
            await upstream.call("echo", {})
        with pytest.raises(UpstreamUnavailable, match="is not available: It cannot be reached"):
            await upstream.call("echo", {})
        now[0] += 1
        async with serve(http_app()[1], port):
            answer = await upstream.call("echo", {"back": True})

    assert answer.value == {"back": True}


async def test_failed_request_does_not_end_the_calls_beside_it(serve: Serve, connect: Connect) -> None:
    """In the SDK's transport any exception of one request ends the whole connection."""
    async with reach("modern", serve, connect) as (upstream, seen):
        waiting = asyncio.create_task(upstream.call("meet", {"parties": 2}))
        await until_in_flight(upstream, 1)
        await upstream.call("echo", {})
        seen.status = 503
        with pytest.raises(UpstreamError) as failure:
            await upstream.call("echo", {})
        seen.status = None
        await upstream.call("meet", {"parties": 2})
        answer = await waiting

    assert str(failure.value) == "'test' failed in 'echo', which may have happened: HTTP 503."
    assert answer.value == "met"


@pytest.mark.parametrize("kind", ["modern", "modern json", "stateful json"])
async def test_too_large_an_answer_over_http_ends_that_call_only(kind: str, serve: Serve, connect: Connect) -> None:
    """Whether it comes as one body or as an event."""
    async with reach(kind, serve, connect, answer_bytes=100_000) as (upstream, _):
        with pytest.raises(UpstreamError) as failure:
            await upstream.call("big", {"bytes": 5_000_000})
        answer = await upstream.call("big", {"bytes": 10})

    assert "100000 byte" in str(failure.value)
    assert answer.value == "x" * 10


@pytest.mark.parametrize("kind", ["sse", "events", "json"])
async def test_large_answer_comes_as_the_message_that_it_was(serve: Serve, connect: Connect, kind: str) -> None:
    """Over each kind of HTTP: the SDK, which would decode it on the event loop, gets a small one in its place."""
    async with reach(kind, serve, connect) as (upstream, _):
        answer = await upstream.call("big", {"bytes": 2_000_000})
        small = await upstream.call("big", {"bytes": 10})

    assert (answer.value, to_answer(read_message(answer.message)).value) == (None, "x" * 2_000_000)
    assert (small.value, small.message) == ("x" * 10, b"")


async def test_event_above_the_limit_ends_an_old_connection_with_the_reason(serve: Serve, connect: Connect) -> None:
    """What the config does not let in is handed to the SDK, which says so."""
    async with reach("sse", serve, connect, answer_bytes=1 << 20) as (upstream, _):
        with pytest.raises(UpstreamError):
            await upstream.call("big", {"bytes": 2_000_000})
        await until(lambda: upstream.status().error is not None)
        error = upstream.status().error

    assert error == "SSEError: Server-sent event exceeded the 1048576 byte limit."


async def test_compressed_answer_is_counted_as_what_it_holds(serve: Serve, connect: Connect) -> None:
    """A small body that unpacks to a large one is not taken."""

    async def bomb(request: Request) -> Response:
        message = await request.json()
        if message["method"] != "tools/call":
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": DISCOVERED})
        body = gzip.compress(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "' + b"x" * 20_000_000 + b'"}}')
        return Response(body, headers={"content-type": "application/json", "content-encoding": "gzip"})

    app = Starlette(routes=[Route("/mcp", bomb, methods=["POST"])])
    async with (
        asyncio.timeout(60),
        serve(app) as address,
        connect(transport="http", url=f"{address}/mcp", answer_bytes=1 << 20) as upstream,
    ):
        with pytest.raises(UpstreamError, match="larger than 1048576 bytes"):
            await upstream.call("echo", {})


DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
    "tools": [],
}


async def test_idle_http_upstream_closes_its_session(serve: Serve, connect: Connect) -> None:
    """The server is told, and nothing is left of the connection."""
    async with reach("stateful", serve, connect, idle_seconds=0.05) as (upstream, seen):
        await upstream.call("echo", {})
        await asyncio.wait(upstream._life._owners)

        assert upstream.status().state == "stopped"
        assert seen.headers[-1]["method"] == "DELETE"


class Routed:
    """A server whose one tool wants an argument in a header, from its second list on."""

    def __init__(self) -> None:
        self.header = False
        self.lists = 0
        self.server = Server("routed", on_list_tools=self.list_tools, on_call_tool=self.call_tool)

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        """The tool, with the header or without."""
        self.lists += 1
        region = {"type": "string", "x-mcp-header": "Region"} if self.header else {"type": "string"}
        schema = {"type": "object", "properties": {"region": region}}
        return types.ListToolsResult(tools=[types.Tool(name="go", input_schema=schema)])

    async def call_tool(self, context: Any, params: Any) -> types.CallToolResult:
        """Where to."""
        return types.CallToolResult(content=[], structured_content=params.arguments)


async def test_argument_goes_into_a_header_as_soon_as_the_server_asks_for_it(serve: Serve, connect: Connect) -> None:
    """A call that is refused for the lack of it was not looked at, so it is sent again after another list."""
    routed = Routed()
    seen = Seen(routed.server.streamable_http_app())
    async with (
        asyncio.timeout(60),
        serve(seen) as address,
        connect(transport="http", url=f"{address}/mcp") as upstream,
    ):
        await upstream.call("go", {"region": "north"})
        routed.header = True
        answer = await upstream.call("go", {"region": "south"})

    assert answer.value == {"region": "south"}
    assert [one["mcp-param-region"] for one in seen.headers if "mcp-param-region" in one] == ["south"]
