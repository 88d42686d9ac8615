"""The agent's side of MCP: the modes `code`, `hybrid` and `search`. Wire in, wire out; the yard decides."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types as types
import msgspec
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sealyard import __version__
from sealyard.config.settings import SurfaceConfig
from sealyard.errors import InvalidArguments, InvalidRequest, QueueFull, SealyardError
from sealyard.serve.arguments import as_meant, with_decoded
from sealyard.serve.dialogue import Asking, Call, Context, principal_of, seal_states
from sealyard.serve.skills_extension import client_name, extend
from sealyard.serve.surface import ARGUMENTS, instructions, surface_tools
from sealyard.serve.texts import found_text, loaded_text, saved_text, search
from sealyard.skills import SaveSkill
from sealyard.values.runs import ExecutionState, Result
from sealyard.values.tools import ToolSpec, glob
from sealyard.yard import AnalyzeRequest, ExecuteRequest

if TYPE_CHECKING:  # what opens a yard takes longer to import than all of this, and is not needed to list the tools
    from sealyard.yard import Yard

_META = "sealyard/execution"
_PARSING_CLIENTS = ("gemini-cli", "qwen")
_DEFERRING_CLIENTS = frozenset({"claude-code"})
"""Those that hide tools behind a search of their own unless a tool says otherwise in its `_meta`, which they keep from
the model. Others may show it, so only these get it."""
_LOADED = {"anthropic/alwaysLoad": True}
_FOLLOW = "Pass execution_id alone to wait for its result, or with cancel=true to stop it."
_NAMES = {
    "delete_skill": "load_skill",
    "execute_python": "execute_code",
    "list_skills": "find_skills",
    "search_skills": "find_skills",
}
"""Names that are answered and not advertised, and the tool with the same arguments."""
_LIST_TTL_MS = 300_000  # clients may keep the list of tools for 5 minutes
_AT_ONCE = frozenset({"initialize", "server/discover", "ping", "tools/list"})
"""Requests that need no yard: the tools are the same whatever is behind them, but for those of `hybrid`."""

_Answer = types.CallToolResult | types.InputRequiredResult
_Handler = Callable[[types.CallToolRequestParams, Call], Coroutine[Any, Any, types.CallToolResult]]


class _SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str = ""
    detail_level: str = "with_description"
    server: str | None = None
    limit: int = 5


class _ExecuteArguments(msgspec.Struct, forbid_unknown_fields=True):
    code: str = ""
    language: str = "python"
    context: dict[str, Any] | None = None
    session: str | None = None
    timeout_seconds: float | None = None
    timeout: float | None = None
    isolation_level: str | None = None
    background: bool = False
    execution_id: str | None = None
    cancel: bool = False


class _CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}


class _FindArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str = ""
    limit: int = 5
    detail_level: str = ""
    """Taken and without effect: what is found of a skill is always shown whole."""


class _ListArguments(_FindArguments):
    limit: int = 50


class _LoadArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    version: str | None = None


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
    face = _Surface(surface, mode)
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


class _Surface:
    yard: "Yard"
    """Set when the yard is open."""

    def __init__(self, surface: SurfaceConfig, mode: str) -> None:
        self._mode = mode
        self._opened = asyncio.Event()
        self._at_once = _AT_ONCE - {"tools/list"} if mode == "hybrid" else _AT_ONCE
        self._direct = surface.direct if mode == "hybrid" else ()
        self._is_direct = glob(*self._direct) if self._direct else lambda name: None
        self._own = [types.Tool.model_validate(tool) for tool in surface_tools(mode)]
        self._loaded = [types.Tool.model_validate({**tool, "_meta": _LOADED}) for tool in surface_tools(mode)]
        self._tools: dict[str, _Handler] = {"search_tools": self._search}
        if mode == "search":
            self._tools["call_tool"] = self._call
        else:
            self._tools["execute_code"] = self._execute
            self._tools["execute_analysis"] = self._analyze
            self._tools["save_skill"] = self._save_skill
            self._tools["find_skills"] = self._find_skills
            self._tools["load_skill"] = self._load_skill
        self.instructions = surface.instructions or instructions(mode)

    def open_with(self, opening: "asyncio.Future[Yard]") -> None:
        """Let the requests that wait go on, unless the opening failed."""
        if not opening.cancelled() and opening.exception() is None:
            self.open(opening.result())

    def open(self, yard: "Yard") -> None:
        """Answer with this yard from now on."""
        shown = msgspec.json.encode([self.instructions, *surface_tools(self._mode)]).decode()
        yard.observer.describe_surface(shown, self.is_direct)
        self.yard = yard
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
        return types.ListToolsResult(tools=[*own, *map(_as_tool, await self._direct_specs(principal_of(ctx)))])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> _Answer:
        """Carry out one call; an error is a result, so that the model can read it."""
        handler = self._find_own(params.name) or await self._find_direct(ctx, params.name)
        asking: Asking = ctx.lifespan_context
        try:
            if asking.is_held(ctx):
                answer = await asking.round(ctx, params, partial(handler, params))
            else:
                async with asking.dialogue(ctx) as call:
                    answer = await handler(params, call)
        except SealyardError as error:
            text = f"{type(error).__name__}: {error}"
            if isinstance(error, InvalidRequest | QueueFull) and not isinstance(error, InvalidArguments):
                self._note(principal_of(ctx), params, text)  # else a run has begun, and its bill has it
            answer = _text(text, is_error=True)
        return _fitting(answer, ctx)

    def _find_own(self, name: str) -> _Handler | None:
        """The handler of a tool of ours, also under a name that other programs have for it."""
        if name == "delete_skill" and "save_skill" in self._tools:
            return self._delete_skill
        return self._tools.get(_NAMES.get(name, name))

    async def _find_direct(self, ctx: Context, name: str) -> _Handler:
        """Return the handler of an upstream's tool that is advertised directly. Raises `MCPError` for another name."""
        for spec in await self._direct_specs(principal_of(ctx)):
            if spec.full_name == name:
                _check_headers(ctx, spec.input_schema)
                return self._call_direct
        known = ", ".join(self._tools)
        raise MCPError(
            types.INVALID_PARAMS, f"Unknown tool {name!r}. There are {known}; search_tools finds all others."
        )

    async def _direct_specs(self, principal: str) -> list[ToolSpec]:
        if not self._direct:
            return []
        specs = (await self.yard.snapshot(principal)).tools.values()
        return sorted(filter(self.is_direct, specs), key=lambda spec: spec.full_name)

    def is_direct(self, spec: ToolSpec) -> bool:
        """True if a tool of an upstream is advertised directly."""
        return any(map(self._is_direct, (*spec.spellings, spec.name)))

    def _note(self, principal: str, params: types.CallToolRequestParams, text: str) -> None:
        """Count the tokens written and read outside of runs."""
        self.yard.note_exchange(principal, "polling", wrote=_written(params), read=text)

    async def _search(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        arguments = _convert(params, _SearchArguments)
        text = await search(
            self.yard,
            arguments.query,
            detail_level=arguments.detail_level,
            server=arguments.server,
            limit=arguments.limit,
            principal=call.principal,
        )
        self.yard.note_exchange(call.principal, "discovery", wrote=_written(params), read=text, part="searches")
        return _text(text)

    async def _execute(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        arguments = _convert(params, _ExecuteArguments)
        if arguments.execution_id is not None:
            answer = await self._look(call, arguments.execution_id, cancel=arguments.cancel)
            self._note(call.principal, params, text_of(answer))
            return answer
        if arguments.cancel:
            raise InvalidRequest(
                "cancel is true, and no run is named. Give execution_id to stop a run, or leave out cancel to run code."
            )
        request = ExecuteRequest(
            code=arguments.code,
            language=arguments.language,
            context=arguments.context,
            session=arguments.session,
            timeout_seconds=arguments.timeout_seconds,
            timeout=arguments.timeout,
            isolation_level=arguments.isolation_level,
        )
        if arguments.background:
            state = self._state(await self.yard.executions.start(request, principal=call.principal), hint=_FOLLOW)
            # The code is on the run's bill.
            self.yard.note_exchange(call.principal, "polling", wrote="", read=text_of(state))
            return state
        execution_id, stream = secrets.token_hex(8), call.stream
        with call.channel(execution_id):
            result = await self.yard.execute(
                request,
                principal=call.principal,
                on_output=stream.add,
                on_progress=stream.relay,
                execution_id=execution_id,
            )
        return _result(result)

    async def _look(self, call: Call, execution_id: str, *, cancel: bool) -> types.CallToolResult:
        """Return a background execution's state, and wait while the client's user is asked about it."""
        executions, principal = self.yard.executions, call.principal
        if cancel:
            return self._state(await executions.cancel(execution_id, principal=principal))
        executions.state(execution_id, principal=principal)  # raises for an execution of another principal
        with call.channel(execution_id):
            state = await executions.look(execution_id, principal=principal)
            while call.asks and not state.is_over:
                state = await executions.look(execution_id, principal=principal)
        return self._state(state)

    async def _analyze(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        request = _convert(params, AnalyzeRequest)
        execution_id = secrets.token_hex(8)
        with call.channel(execution_id):
            result = await self.yard.analyze(
                request, principal=call.principal, execution_id=execution_id, on_progress=call.stream.relay
            )
        return _result(result)

    async def _save_skill(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        arguments = _convert(params, SaveSkill)
        async with self._concealing(call.principal):
            saved = await self.yard.skills.save(arguments, principal=call.principal)
        return self._skill_answer(params, call, saved_text(saved))

    async def _find_skills(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        arguments = _convert(params, _ListArguments if params.name == "list_skills" else _FindArguments)
        async with self._concealing(call.principal):
            found = await self.yard.skills.find(arguments.query, limit=arguments.limit, principal=call.principal)
        return self._skill_answer(params, call, found_text(found, self.yard.runner.result_tokens))

    async def _load_skill(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        arguments = _convert(params, _LoadArguments)
        async with self._concealing(call.principal):
            loaded = await self.yard.skills.load(arguments.name, arguments.version, principal=call.principal)
            skill = loaded.skill
            kept = await self.yard.skills.versions(skill.namespace, skill.name, principal=call.principal)
        versions = [each.version for each in kept]
        text = loaded_text(skill, loaded.warnings, versions, self.yard.runner.result_tokens)
        return self._skill_answer(params, call, text)

    async def _delete_skill(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        """Delete a skill of the principal's own; a person deletes what is shared."""
        arguments = _convert(params, _LoadArguments)
        async with self._concealing(call.principal):
            gone = await self.yard.skills.delete_own(arguments.name, arguments.version, principal=call.principal)
        deleted = {"skill": arguments.name, "deleted": [skill.version for skill in gone]}
        return self._skill_answer(params, call, msgspec.json.encode(deleted).decode())

    @asynccontextmanager
    async def _concealing(self, principal: str) -> AsyncIterator[None]:
        """Conceal private values in errors about a skill: they may quote the request."""
        try:
            yield
        except SealyardError as error:
            guard = await self.yard.guards.of(self.yard.runner.session_of(principal))
            raise type(error)(await guard.door.conceal(str(error))) from None

    def _skill_answer(self, params: types.CallToolRequestParams, call: Call, text: str) -> types.CallToolResult:
        self.yard.note_exchange(call.principal, "skill_reuse", wrote=_written(params), read=text)
        return _text(text)

    async def _call(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        arguments = _convert(params, _CallArguments)
        return await self._call_one(call, arguments.name, arguments.arguments)

    async def _call_direct(self, params: types.CallToolRequestParams, call: Call) -> types.CallToolResult:
        return await self._call_one(call, params.name, params.arguments or {})

    async def _call_one(self, call: Call, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        execution_id = secrets.token_hex(8)
        with call.channel(execution_id):
            answer = await self.yard.call(
                name,
                arguments,
                principal=call.principal,
                on_progress=call.stream.relay,
                execution_id=execution_id,
            )
        return _text(self.yard.text_of(answer))

    def _state(self, state: ExecutionState, *, hint: str = "") -> types.CallToolResult:
        if state.result is not None:
            return _result(state.result)
        state_fields: dict[str, Any] = {"execution_id": state.execution_id, "state": state.state}
        if state.output:
            state_fields["output_so_far"] = state.output
        if asks := self.yard.approvals.open_asks(state.execution_id):
            state_fields["waiting_for_approval"] = [{"id": ask.id, "tool": ask.tool} for ask in asks]
        if state.error is not None:
            state_fields["error"] = state.error
        shown = state_fields | ({"hint": hint} if hint else {})
        return _text(msgspec.json.encode(shown).decode(), is_error=state.state == "failed", meta=state_fields)


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


def _written(params: types.CallToolRequestParams) -> str:
    """The arguments as the agent wrote them."""
    return msgspec.json.encode(params.arguments or {}).decode()


def text_of(answer: _Answer) -> str:
    """The text of an answer, as the agent reads it."""
    blocks = answer.content if isinstance(answer, types.CallToolResult) else []
    return "".join(block.text for block in blocks if isinstance(block, types.TextContent))


def _convert(params: types.CallToolRequestParams, kind: type[Any]) -> Any:
    """The arguments as `kind`. The error lists those that are advertised."""
    try:
        return msgspec.convert(as_meant(with_decoded(params.arguments or {}, kind), kind), kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(ARGUMENTS[_NAMES.get(params.name, params.name)])
        raise InvalidRequest(f"The arguments of {params.name} are wrong: {error}. It takes {known}.") from None


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
    return _text(result.text, is_error=result.is_error, meta=meta)


def _text(text: str, *, is_error: bool = False, meta: dict[str, Any] | None = None) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text)], is_error=is_error, _meta=None if meta is None else {_META: meta}
    )


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
