"""The agent's side of MCP: the modes `code`, `hybrid` and `search`. Wire in, wire out; the yard decides."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from toolyard import __version__
from toolyard.broker.answers import Answer
from toolyard.config import SurfaceConfig
from toolyard.errors import InvalidRequest, ToolyardError
from toolyard.metrics import tokens
from toolyard.serve.surface import instructions, surface_tools
from toolyard.values import Hit, Result, SearchAnswer, ToolSpec
from toolyard.yard import ExecuteRequest, Yard
from toolyard.yard.executions import ExecutionState

__all__ = ("PRINCIPAL", "build_server")

PRINCIPAL = "toolyard.principal"
"""Where `serve.http` notes in a request's scope who it is from."""

_META = "toolyard/execution"
_PROGRESS_CHARACTERS = 4_000
_LIST_TTL_MS = 300_000

_Context = ServerRequestContext[Any, Any]


class _SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str = ""
    detail_level: str = "with_description"
    server: str | None = None
    limit: int = 5
    keyword: str = ""


class _ExecuteArguments(msgspec.Struct, forbid_unknown_fields=True):
    code: str = ""
    language: str = "python"
    context: dict[str, Any] | None = None
    session: str | None = None
    timeout_seconds: float | None = None
    background: bool = False
    execution_id: str | None = None
    cancel: bool = False


class _CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}


def build_server(yard: Yard, surface: SurfaceConfig, *, mode: str | None = None) -> Server[Any]:
    """An MCP server over `yard` in the mode that the config, or `mode`, names."""
    mode = mode or surface.mode
    face = _Surface(yard, surface, mode)
    return Server(
        surface.name,
        version=__version__,
        instructions=surface.instructions or instructions(mode, yard.upstreams),
        cache_hints={"tools/list": CacheHint(ttl_ms=_LIST_TTL_MS, scope="private")},
        on_list_tools=face.list_tools,
        on_call_tool=face.call_tool,
    )


class _Surface:
    def __init__(self, yard: Yard, surface: SurfaceConfig, mode: str) -> None:
        self._yard = yard
        self._direct = surface.direct if mode == "hybrid" else ()
        self._own = [types.Tool.model_validate(tool) for tool in surface_tools(mode)]
        self._tools = {"search_tools": self._search}
        self._tools |= {"call_tool": self._call} if mode == "search" else {"execute_code": self._execute}

    async def list_tools(self, ctx: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Our own tools, and in hybrid mode the upstreams' that the config lists."""
        return types.ListToolsResult(tools=[*self._own, *map(_as_tool, await self._direct_specs())])

    async def call_tool(self, ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Carry out one call; what is wrong with it is a result, so that the model can read it."""
        arguments = params.arguments or {}
        own = self._tools.get(params.name)
        try:
            if own is not None:
                return await own(ctx, arguments)
            if any(spec.full_name == params.name for spec in await self._direct_specs()):
                answer = await self._yard.call(params.name, arguments, principal=_principal(ctx))
                return self._answer(answer)
        except ToolyardError as error:
            return _error(f"{type(error).__name__}: {error}")
        known = ", ".join(self._tools)
        raise MCPError(
            types.INVALID_PARAMS, f"Unknown tool {params.name!r}. There are {known}; search_tools finds all others."
        )

    async def _direct_specs(self) -> list[ToolSpec]:
        if not self._direct:
            return []
        specs = (await self._yard.snapshot()).tools.values()
        chosen = [
            spec
            for spec in specs
            if any(fnmatchcase(spec.full_name, wanted) or spec.name == wanted for wanted in self._direct)
        ]
        return sorted(chosen, key=lambda spec: spec.full_name)

    async def _search(self, ctx: _Context, arguments: dict[str, Any]) -> types.CallToolResult:
        asked = _convert("search_tools", arguments, _SearchArguments)
        answer = await self._yard.search(
            asked.query or asked.keyword, detail_level=asked.detail_level, server=asked.server, limit=asked.limit
        )
        return _text(_search_text(answer, self._yard.finder.unlisted(), self._yard.result_tokens))

    async def _execute(self, ctx: _Context, arguments: dict[str, Any]) -> types.CallToolResult:
        asked = _convert("execute_code", arguments, _ExecuteArguments)
        principal = _principal(ctx)
        if asked.execution_id is not None:
            executions = self._yard.executions
            look = executions.cancel if asked.cancel else executions.look
            return _state(await look(asked.execution_id, principal=principal))
        request = ExecuteRequest(
            code=asked.code,
            language=asked.language,
            context=asked.context,
            session=asked.session,
            timeout_seconds=asked.timeout_seconds,
        )
        if asked.background:
            return _state(await self._yard.executions.start(request, principal=principal))
        async with _streaming(ctx) as stream:
            result = await self._yard.execute(
                request, principal=principal, on_output=stream.add, on_progress=stream.relay
            )
        return _result(result)

    async def _call(self, ctx: _Context, arguments: dict[str, Any]) -> types.CallToolResult:
        asked = _convert("call_tool", arguments, _CallArguments)
        async with _streaming(ctx) as stream:
            answer = await self._yard.call(
                asked.name, asked.arguments, principal=_principal(ctx), on_progress=stream.relay
            )
        return self._answer(answer)

    def _answer(self, answer: Answer) -> types.CallToolResult:
        """A tool's answer without code: whole if it fits the budget, for there is no workspace to keep it in."""
        budget = self._yard.result_tokens
        text = answer.value if isinstance(answer.value, str) else msgspec.json.encode(answer.value).decode()
        if not tokens.fits(text, budget):
            note = f"… (cut: the answer has {len(text):,} characters. Ask the tool for less.)"
            text = tokens.cut(text, budget - 40) + note
        return _text(text)


class _Stream:
    """Sends what the code prints as progress, as fast as the client takes it and no faster."""

    def __init__(self, ctx: _Context) -> None:
        self._ctx = ctx
        self._waiting = ""
        self._sent = 0
        self._sending: asyncio.Task[None] | None = None

    def add(self, text: str) -> None:
        """Take more output; of what the client is too slow for, the end is kept."""
        self._waiting = (self._waiting + text)[-_PROGRESS_CHARACTERS:]
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    def relay(self, progress: float, total: float | None, message: str | None) -> None:
        """Take an inner call's progress."""
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self.add(f"[{share}{' ' + message[:200] if message else ''}]\n")

    async def close(self) -> None:
        """Wait until everything is sent. Raises what sending it raised."""
        if self._sending is not None:
            await self._sending

    def abandon(self) -> None:
        """Stop sending: nobody waits for this request any more."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        while self._waiting:
            text, self._waiting = self._waiting, ""
            self._sent += 1
            await self._ctx.session.report_progress(float(self._sent), None, text)


@contextlib.asynccontextmanager
async def _streaming(ctx: _Context) -> AsyncIterator[_Stream]:
    """A stream for one request; nothing is sent if the client did not ask for progress."""
    stream = _Stream(ctx)
    try:
        yield stream
        await stream.close()
    finally:
        stream.abandon()


def _convert(tool: str, arguments: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise InvalidRequest(f"The arguments of {tool} are wrong: {error}. It takes {known}.") from None


def _principal(ctx: _Context) -> str:
    request = ctx.request
    return "local" if request is None else str(request.scope.get(PRINCIPAL, "local"))


def _search_text(answer: SearchAnswer, unlisted: list[str], budget: int) -> str:
    """The answer as JSON within the budget: the worst hits keep only their names, as many as it takes."""
    found: dict[str, Any] = {"tools": list(answer.hits)}
    if answer.unmatched:
        found["unmatched"] = answer.unmatched
    if not answer.hits:
        found["hint"] = f"None of {answer.total} tools fits. Use other words, or a server's name."
    if unlisted:
        found["not_available_yet"] = unlisted
    text = msgspec.json.encode(found).decode()
    for number in reversed(range(len(answer.hits))):
        if tokens.fits(text, budget):
            break
        hit = answer.hits[number]
        found["tools"][number] = Hit(name=hit.name, use=hit.use)
        found["hint"] = "Not all details fit. Search for one tool by its name to see them."
        text = msgspec.json.encode(found).decode()
    return tokens.cut(text, budget)


def _result(result: Result) -> types.CallToolResult:
    outcome = result.outcome
    meta: dict[str, Any] = {
        "execution_id": outcome.execution_id,
        "status": outcome.status,
        "tier": outcome.tier,
        "level": outcome.level,
        "usage": msgspec.to_builtins(outcome.usage),
    }
    if outcome.spill is not None:
        meta["file"] = outcome.spill.path
    if outcome.failure is not None:
        meta["failure"] = msgspec.to_builtins(outcome.failure)
    return types.CallToolResult(
        content=[types.TextContent(text=result.text)], is_error=result.is_error, _meta={_META: meta}
    )


def _state(state: ExecutionState) -> types.CallToolResult:
    if state.result is not None:
        return _result(state.result)
    told: dict[str, Any] = {"execution_id": state.execution_id, "state": state.state}
    if state.output:
        told["output_so_far"] = state.output
    if state.error is not None:
        told["error"] = state.error
    text = types.TextContent(text=msgspec.json.encode(told).decode())
    return types.CallToolResult(content=[text], is_error=state.state == "failed", _meta={_META: told})


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


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
