"""Upstream servers inside the test's own process, one for every era, and the gateway in front of them over HTTP."""

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import msgspec
import uvicorn
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import _serve_modern_stream, serve_loop
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.serve.dialogue import principal_of
from sealyard.serve.relay import build_relay
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import open_border

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]
Connect = Callable[[UpstreamConfig], Any]

_WAIT_SECONDS = 60
ERAS = ("handshake", "modern", "both")


def config(name: str, **fields: Any) -> UpstreamConfig:
    """An upstream whose connection the test makes."""
    return UpstreamConfig(name=name, transport="stdio", **fields)


@asynccontextmanager
async def memory(server: Server[Any], era: str = "both") -> AsyncIterator[tuple[Any, Any]]:
    """A connection to a server in this process that speaks one era only, or both."""
    if era == "both":
        async with InMemoryTransport(server) as streams:
            yield streams
        return
    async with create_client_server_memory_streams() as ((read, write), theirs), anyio.create_task_group() as tasks:
        if era == "handshake":
            tasks.start_soon(lambda: serve_loop(server, *theirs, lifespan_state={}))
        else:
            serve = _serve_modern_stream
            tasks.start_soon(lambda: serve(server, *theirs, lifespan_state={}, raise_exceptions=False))
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def scripted(answers: Mapping[str, Any]) -> AsyncIterator[tuple[Any, Any]]:
    """A connection to something that answers every method with what it is given here, right or wrong."""
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
        hears, says = theirs

        async def answer() -> None:
            async for item in hears:
                request = item.message
                if isinstance(request, types.JSONRPCRequest):
                    await says.send(SessionMessage(answered(request, answers)))

        tasks.start_soon(answer)
        try:
            yield ours
        finally:
            tasks.cancel_scope.cancel()


def answered(request: types.JSONRPCRequest, answers: Mapping[str, Any]) -> Any:
    """The scripted reply to a request."""
    greeting = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "scripted", "version": "1"}}
    capabilities = {"tools": {}, "resources": {}, "prompts": {}}
    known = {"initialize": {**greeting, "capabilities": capabilities}, **answers}
    if request.method not in known:
        error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")
        return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
    return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=known[request.method])


class Conversing:
    """A server whose tool talks with its caller in every way there is before it answers."""

    def __init__(self) -> None:
        self.server: Server[Any] = Server(
            "conversing", version="1", on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
        return types.ListToolsResult(tools=[types.Tool(name="converse", input_schema=schema)])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        who = (params.arguments or {})["who"]
        await self._log(ctx, f"log for {who}")
        await ctx.session.report_progress(1, 2, f"progress for {who}")
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        asked = {"message": f"question for {who}", "requestedSchema": schema}
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            given = (ctx.params or {}).get("inputResponses")
            if given is None:
                requests = {"q": {"method": "elicitation/create", "params": asked}}
                return {"resultType": "input_required", "inputRequests": requests, "requestState": f"state of {who}"}
            assert params.request_state == f"state of {who}"
            reply = given["q"]
        else:
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            request = types.ElicitRequest.model_validate({"params": asked})
            reply = (await ctx.session.send_request(request, types.ElicitResult, metadata=related)).model_dump()
        text = types.TextContent(text=f"{who} said {json.dumps(reply['content'])}")
        return types.CallToolResult(content=[text])

    async def _log(self, ctx: Context, words: str) -> None:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not modern or (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY):
            params = types.LoggingMessageNotificationParams(level="info", data=words)
            note = types.LoggingMessageNotification(params=params)
            await ctx.session.send_notification(note, related_request_id=ctx.request_id)


@asynccontextmanager
async def gateway(
    connect: Connect,
    *upstreams: UpstreamConfig,
    principal: Any = principal_of,
    settings: Config | None = None,
    is_shared: bool = False,
) -> AsyncIterator[str]:
    """The URL of a relay over these upstreams, with a store of its own and what `settings` say otherwise."""
    configs = {one.name: one for one in upstreams}
    with tempfile.TemporaryDirectory() as folder:
        store = StoreConfig(path=Path(folder) / "sealyard.db")
        settings = msgspec.structs.replace(settings or Config(), store=store)
        async with open_border(settings) as border:
            relay = build_relay(
                configs,
                border,
                connect=connect,
                name="gateway",
                version="7",
                principal=principal,
                is_shared=is_shared,
            )
            async with served(relay) as url:
                yield url


@asynccontextmanager
async def served(server: Server[Any]) -> AsyncIterator[str]:
    """The URL of a server that is served from this very loop."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = server.streamable_http_app()
        options = uvicorn.Config(app, log_level="error", lifespan="on", ws="none", timeout_graceful_shutdown=2)
        host = uvicorn.Server(options)
        host.capture_signals = _leave_signals  # type: ignore[method-assign]
        running = asyncio.create_task(host.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            host.should_exit = True
            await running


class _leave_signals:  # noqa: N801 - stands for a method
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def post(
    url: str,
    method: str,
    params: Json,
    *,
    client: str = "tester",
    capabilities: Json | None = None,
    headers: dict[str, str] | None = None,
) -> Json:
    """The reply to one modern request, made by hand."""
    meta = {
        types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
        types.CLIENT_INFO_META_KEY: {"name": client, "version": "1"},
        types.CLIENT_CAPABILITIES_META_KEY: capabilities or {},
    }
    every = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **(headers or {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with httpx2.AsyncClient(timeout=_WAIT_SECONDS) as http:
        reply: Json = (await http.post(url, headers=every, json=body)).json()
    return reply


class Person:
    """Who sits before a client: what reached them, and what they answer once they may."""

    def __init__(self, name: str, *, may_answer: asyncio.Event | None = None) -> None:
        self.name = name
        self.asked = asyncio.Event()
        self.seen: list[str] = []
        self._may_answer = may_answer

    def client(self, url: str, *, modern: bool, **options: Any) -> Client:
        """A client that this person uses. In the modern era it asks for a log."""
        return Client(
            url,
            mode="auto" if modern else "legacy",
            elicitation_callback=self._elicit,
            logging_callback=self._log,
            log_level="debug" if modern else None,
            **options,
        )

    async def converse(self, client: Client, tool: str = "converse") -> str:
        """Call the tool in this person's name; its words."""
        result = await client.call_tool(tool, {"who": self.name}, progress_callback=self._progress)
        return result.content[0].text  # type: ignore[union-attr]

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult:
        self.seen.append(params.message)
        self.asked.set()
        if self._may_answer is not None:
            await self._may_answer.wait()
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.seen.append(str(params.data))

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.seen.append(str(message))
