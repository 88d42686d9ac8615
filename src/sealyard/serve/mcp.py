"""The agent's side of MCP: the modes `code`, `hybrid` and `search`. Wire in, wire out; the yard decides."""

import asyncio
import json
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sealyard import __version__
from sealyard.config.settings import SurfaceConfig
from sealyard.errors import SealyardError
from sealyard.serve.dialogue import Asking, Call, Context, principal_of, seal_states
from sealyard.serve.skills_extension import client_name, extend
from sealyard.values.tools import ToolSpec
from sealyard.yard.surface import instructions, surface_tools

if TYPE_CHECKING:  # what opens a yard takes longer to import than all of this, and is not needed to list the tools
    from sealyard.yard import Yard

_META = "sealyard/execution"
_PARSING_CLIENTS = ("gemini-cli", "qwen")
_DEFERRING_CLIENTS = frozenset({"claude-code"})
"""Those that hide tools behind a search of their own unless a tool says otherwise in its `_meta`, which they keep from
the model. Others may show it, so only these get it."""
_LOADED = {"anthropic/alwaysLoad": True}
_LIST_TTL_MS = 300_000  # clients may keep the list of tools for 5 minutes
_AT_ONCE = frozenset({"initialize", "server/discover", "ping", "tools/list"})
"""Requests that need no yard: the tools are the same whatever is behind them, but for those of `hybrid`."""

_Answer = types.CallToolResult | types.InputRequiredResult


def build_server(
    yard: "Yard | asyncio.Future[Yard]",
    surface: SurfaceConfig,
    *,
    mode: str | None = None,
    ask_seconds: float | None = None,
) -> Server[Any]:
    """An MCP server over `yard` in the mode that the config, or `mode`, names.

    While `yard` is a future, the handshake and the list of tools are answered, and all other requests wait. They wait
    on if it fails: who serves then ends the connection. `ask_seconds` is that of the policy, which an open yard knows.
    """
    mode = mode or surface.mode
    face = _Face(surface, mode)
    server: Server[Any] = Server(
        surface.name,
        version=__version__,
        instructions=face.instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_TTL_MS, scope="private")},
        on_list_tools=face.list_tools,
        on_call_tool=face.call_tool,
        # Over HTTP the SDK lists all tools before each call to find the one, unless this returns None.
        # No tool of ours has an argument that is repeated in a header; for one of an upstream see `_check_headers`.
        get_tool_input_schema=lambda name: None,
        lifespan=lambda _: Asking(lambda: face.yard.approvals),
    )
    if isinstance(yard, asyncio.Future):
        yard.add_done_callback(face.open_with)
    else:
        ask_seconds = yard.approvals.settings.ask_seconds
        face.open(yard)
    # Before the SDK's own, which begins the span of a request: the tracer comes with the yard.
    server.middleware.insert(0, face.wait)  # type: ignore[arg-type] # any awaitable will do
    server.middleware.append(seal_states(surface.name, ask_seconds or 0.0))
    extend(server, lambda: face.yard.skills)
    return server


class _Face:
    """A surface on the wire."""

    yard: "Yard"
    """Set when the yard is open, as is its surface."""

    def __init__(self, settings: SurfaceConfig, mode: str) -> None:
        self._settings = settings
        self._mode = mode
        self._opened = asyncio.Event()
        self._at_once = _AT_ONCE - {"tools/list"} if mode == "hybrid" else _AT_ONCE
        self._own = [types.Tool.model_validate(tool) for tool in surface_tools(mode)]
        self._loaded = [types.Tool.model_validate({**tool, "_meta": _LOADED}) for tool in surface_tools(mode)]
        self.instructions = settings.instructions or instructions(mode)

    def open_with(self, opening: "asyncio.Future[Yard]") -> None:
        """Let the requests that wait go on, unless the opening failed."""
        if not opening.cancelled() and opening.exception() is None:
            self.open(opening.result())

    def open(self, yard: "Yard") -> None:
        """Answer with this yard from now on."""
        self.yard, self._surface = yard, yard.surface(self._settings, self._mode)
        self._opened.set()

    def wait(self, ctx: Context, call_next: CallNext) -> Awaitable[HandlerResult]:
        """Has a request wait for the yard that it needs. Once that is open, no frame of ours is around any."""
        if self._opened.is_set() or ctx.method in self._at_once or ctx.request_id is None:
            return call_next(ctx)
        return self._answer_later(ctx, call_next)

    async def _answer_later(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        await self._opened.wait()
        return await call_next(ctx)

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Our own tools, and in hybrid mode the upstreams' that the config lists."""
        own = self._loaded if client_name(ctx) in _DEFERRING_CLIENTS else self._own
        direct = await self._surface.direct(principal_of(ctx)) if self._mode == "hybrid" else []
        return types.ListToolsResult(tools=[*own, *map(_as_tool, direct)])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> _Answer:
        """Carry out one call; an error is a result, so that the model can read it."""
        if not self._surface.owns(params.name):
            spec = await self._surface.find_direct(params.name, principal_of(ctx))
            if spec is None:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name!r}. {self._surface.known}")
            _check_headers(ctx, spec.input_schema)
        asking: Asking = ctx.lifespan_context
        if asking.is_held(ctx):
            return _fitting(await asking.round(ctx, params, partial(self._answer, params)), ctx)
        async with asking.dialogue(ctx) as call:
            return _fitting(await self._answer(params, call), ctx)

    async def _answer(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        surface, arguments = self._surface, params.arguments or {}
        try:
            asked = surface.prepare(params.name, arguments, call)
            with asked.channel:
                answer = asked.write(await asked.work)
        except SealyardError as error:
            answer = await surface.failed(error, params.name, arguments, call.principal)
        meta = None if answer.facts is None else {_META: answer.facts}
        return types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.is_error, _meta=meta)


def _check_headers(ctx: Context, schema: dict[str, Any]) -> None:
    """Raise `MCPError` if headers of a modern client do not agree with the arguments that they repeat."""
    if ctx.request is None or ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    arguments = (ctx.params or {}).get("arguments") or {}
    rejection = validate_mcp_param_headers(schema, arguments, ctx.request.headers)
    if rejection is not None:
        raise MCPError(rejection.code, rejection.message, rejection.data)


def _fitting(answer: _Answer, ctx: Context) -> _Answer:
    """The answer without what a client is known to stumble over.

    Gemini CLI, and Qwen Code with it, takes a text that is JSON for structured content and fails unless that is an
    object; it shows the model all of a failure, `_meta` included.
    """
    if not client_name(ctx).startswith(_PARSING_CLIENTS):
        return answer
    if not isinstance(answer, types.CallToolResult) or not isinstance(block := answer.content[0], types.TextContent):
        return answer
    text = f"result:\n{block.text}" if _is_bare_json(block.text) else block.text
    return types.CallToolResult(
        content=[types.TextContent(text=text)], is_error=answer.is_error, _meta=None if answer.is_error else answer.meta
    )


def _is_bare_json(text: str) -> bool:
    """True for JSON that is not an object."""
    try:
        return not isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _as_tool(spec: ToolSpec) -> types.Tool:
    hints = spec.annotations
    return types.Tool(
        name=spec.full_name,
        title=spec.title or None,
        description=spec.description,
        input_schema=spec.input_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
    )
