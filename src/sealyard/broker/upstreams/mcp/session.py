"""The SDK's client session over a connection that may be broken or hostile.

Above lies `connection.py`, which starts and stops connections; below lies `transport.py`. Between the SDK's session
and its dispatcher sits a `Channel`: it gives the session only valid messages, and gives us the originals.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any

import anyio
import anyio.abc
import msgspec
from mcp import ClientSession
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    Implementation,
    PaginatedRequestParams,
    RequestParamsMeta,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry.propagate import inject
from opentelemetry.trace import INVALID_SPAN, get_current_span
from pydantic import TypeAdapter, ValidationError

from sealyard import __version__
from sealyard.broker.upstreams import Progress
from sealyard.broker.upstreams.mcp.transport import Child, Inbound, whole_message
from sealyard.offload import short_work
from sealyard.values.documents import read_exactly
from sealyard.values.tools import Definition, ToolAnnotations
from sealyard.wording import short

CLIENT = Implementation(name="sealyard", version=__version__)

_STAMP: dict[str, Any] = {
    CLIENT_INFO_META_KEY: CLIENT.model_dump(by_alias=True, mode="json", exclude_none=True),
    CLIENT_CAPABILITIES_META_KEY: {},
}
"""Beside the version, all that the SDK's session adds to a request of the newest protocol."""
_AS_IT_CAME = "as it came"
_TOOL_BYTES = 256 << 10
"""Of one definition in a large list; a larger one is left out. Decoding takes 15 ms at worst."""
_SKIPPED_BYTES = 8 << 20
"""Of a definition that is read over to find its name: 20 ms at worst."""
_TOO_LARGE = "the bytes of what is too large"
"""Stands in a definition that was not decoded, with its size."""
_LEFT_OUT = "was left out"
_ANY_OBJECT: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_MOST_PAGES = 200  # a server may page without end; its tools are bounded at fifty to a page
_MOST_TOOLS = 10_000  # of one server
_MOST_WARNINGS = 200  # about one listing
_NAME_CHARACTERS = 256  # a tool with a longer name is left out
_LISTEN_AGAIN_SECONDS = 5.0  # before a lost stream of changes is opened again
_MOST_LISTENS = 5  # attempts in a row without a stream: half a minute, in which a server restarts


class DiedOnProbe(Exception):
    """The server ended the connection when it was asked for the newest protocol: it may only know the old handshake."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A server's listing, with its faults."""

    definitions: list[Definition]
    warnings: list[str]

    @property
    def left_out(self) -> list[str]:
        """The warnings about left-out tools."""
        return [warning for warning in self.warnings if _LEFT_OUT in warning]


class Channel:
    """A dispatcher for the SDK's session.

    The session checks a result against the protocol as a whole and a structured answer against its schema; one invalid
    field of one tool would invalidate the whole list, and a wrong schema the answer. So for lists and calls it gets a
    valid result with the original in `_meta`.
    """

    def __init__(self, inner: Dispatcher[Any], *, on_change: Callable[[], None], child: Child | None = None) -> None:
        self._inner = inner
        self._on_change = on_change
        self.child = child
        """Sends calls past the session if the server is a child process."""
        self._numbers = count(1)
        self._progress: dict[str, Progress] = {}
        self.ended = asyncio.Event()

    def follow(self, progress: Progress) -> str:
        """A token whose progress goes to `progress` until `unfollow`."""
        token = f"progress-{next(self._numbers)}"
        self._progress[token] = progress
        return token

    def unfollow(self, token: str) -> None:
        """Forget a token."""
        self._progress.pop(token, None)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Called by the session."""
        result = await self._inner.send_raw_request(method, params, opts)
        if method != "tools/call" and (message := whole_message(result)) is not None:
            result = await _decoded(message)
        if method == "tools/call":
            return {"content": [], "resultType": "complete", "_meta": {_AS_IT_CAME: result}}
        if method == "tools/list":
            return _presentable(result)
        if method == "initialize":
            result.setdefault("capabilities", {})
            result.setdefault("serverInfo", {"name": "", "version": ""})
        return result

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Called by the session."""
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Called by the session. Handles every notification at once: a flood of them starts no task."""

        def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
            if on_notify_intercept is not None:
                on_notify_intercept(method, params)
            if method == "notifications/progress":
                self._note_progress(params or {})
            elif method == "notifications/tools/list_changed":
                self._on_change()
            return True

        try:
            await self._inner.run(on_request, on_notify, intercept, task_status=task_status)
        finally:
            self.ended.set()
            if self.child is not None:
                self.child.desert()

    def _note_progress(self, params: Mapping[str, Any]) -> None:
        token = params.get("progressToken")
        progress = self._progress.get(token) if isinstance(token, str) else None
        if progress is not None:
            progress.push(params.get("progress"), params.get("total"), params.get("message"))


class _Page(msgspec.Struct):
    tools: list[msgspec.Raw] = []
    nextCursor: Any = None  # noqa: N815 - the protocol's name


class _Listed(msgspec.Struct):
    result: _Page


async def _decoded(message: bytes | bytearray) -> dict[str, Any]:
    """The result of a large message that answers no call: a list of tools, decoded one by one while others go on."""
    try:
        page = msgspec.json.decode(message, type=_Listed).result
    except (ValueError, RecursionError) as error:
        raise MCPError(INTERNAL_ERROR, f"A large answer is no list of tools: {short(str(error), 200)}.") from None
    tools = []
    for raw in page.tools[:_MOST_TOOLS]:
        async with short_work():
            size = len(memoryview(raw))
            if size <= _TOOL_BYTES:
                tools.append(read_exactly(bytes(memoryview(raw))))
            else:
                name = msgspec.json.decode(raw, type=_Named).name if size <= _SKIPPED_BYTES else None
                tools.append({"name": name, _TOO_LARGE: size})
    return {"tools": tools, "nextCursor": page.nextCursor}


class _Named(msgspec.Struct):
    name: Any = None


# Connecting


@contextlib.asynccontextmanager
async def open_session(
    link: AbstractAsyncContextManager[tuple[Any, Any]], *, on_change: Callable[[], None], on_noise: Callable[[], None]
) -> AsyncIterator[tuple[ClientSession, Channel]]:
    """A session over a transport's streams, not negotiated yet. `on_noise` counts items that are not messages."""
    async with link as (read, write):
        inbound = Inbound(read, write, on_noise)
        child = read if isinstance(read, Child) else None
        channel = Channel(JSONRPCDispatcher(inbound, write), on_change=on_change, child=child)
        async with anyio.create_task_group() as tasks, ClientSession(dispatcher=channel, client_info=CLIENT) as session:
            tasks.start_soon(inbound.reply)
            yield session, channel
            tasks.cancel_scope.cancel()


async def negotiate(session: ClientSession, *, probe: bool, probe_seconds: float) -> bool:
    """Agree on a protocol version; returns True if the server did not answer the probe in time.

    With `probe`, the newest protocol is tried first; any other reply leads to the old handshake.

    Raises:
        DiedOnProbe: The connection ended under the probe.
        MCPError: Both sides know no common version, or the connection ended.
        ValidationError, RuntimeError: The server's greeting is invalid.
    """
    waited = False
    if probe:
        try:
            with anyio.fail_after(probe_seconds):
                await session.discover()
            return False
        except TimeoutError:
            waited = True
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise DiedOnProbe from error
        except (ValidationError, RuntimeError):
            pass  # it answers, but does not speak the newest protocol
    try:
        await session.initialize()
    except MCPError as error:
        # It was only slow, and has answered the probe by now.
        if not probe or error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
        return False
    return waited


async def wait_for_changes(session: ClientSession, on_change: Callable[[], None], listening: asyncio.Event) -> None:
    """Keep a stream of changes open, where the protocol has them. The `Channel` sees what comes over it.

    `listening` is set when the first stream is open or none is offered. One that opens later may have missed something.
    """
    attempts = 0
    try:
        while attempts < _MOST_LISTENS:
            attempts += 1
            try:
                async with listen(session, tools_list_changed=True) as stream:
                    attempts = 0
                    if listening.is_set():
                        on_change()
                    listening.set()
                    async for _ in stream:
                        pass
            except (ListenNotSupportedError, ValidationError):
                return
            except MCPError as error:
                if error.code in {METHOD_NOT_FOUND, CONNECTION_CLOSED}:
                    return
            except SubscriptionLost:
                pass
            listening.set()
            await anyio.sleep(_LISTEN_AGAIN_SECONDS)
    finally:
        listening.set()


# Asking


async def call_tool(
    session: ClientSession,
    child: Child | None,
    tool: str,
    arguments: dict[str, Any],
    *,
    token: str | None = None,
    request_state: str | None = None,
) -> dict[str, Any]:
    """The result of a `tools/call` as it came."""
    if child is not None:
        version = session.protocol_version
        meta = {**_STAMP, PROTOCOL_VERSION_META_KEY: version} if version in MODERN_PROTOCOL_VERSIONS else {}
        if token is not None:
            meta["progressToken"] = token
        if get_current_span() is not INVALID_SPAN:
            inject(meta)
        request = {"name": tool, "arguments": arguments}
        if request_state is not None:
            request["requestState"] = request_state
        if meta:
            request["_meta"] = meta
        return await child.ask("tools/call", request)
    params = CallToolRequestParams(
        name=tool,
        arguments=arguments,
        request_state=request_state,
        _meta=None if token is None else RequestParamsMeta(progress_token=token),
    )
    result = await session.send_request(CallToolRequest(params=params), _ANY_OBJECT)
    came: dict[str, Any] = result["_meta"][_AS_IT_CAME]
    return came


async def list_tools(session: ClientSession, allows: Callable[[str], bool]) -> Listing:
    """Every tool on every page that `allows` accepts. An invalid tool is left out with a warning."""
    definitions: dict[str, Definition] = {}
    warnings: list[str] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        listed = {tool.name for tool in page.tools}
        for tool in (page.meta or {})[_AS_IT_CAME]:
            definition = _definition(tool, warnings)
            if definition is None or not allows(definition.name):
                continue
            if definition.name in definitions:
                warnings.append(f"Tool {definition.name!r} is listed twice; the first definition is used.")
            elif definition.name not in listed:
                warnings.append(f"Tool {definition.name!r} asks for impossible HTTP headers and {_LEFT_OUT}.")
            else:
                definitions[definition.name] = definition
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in seen or len(definitions) > _MOST_TOOLS:
            warnings.append(f"The list of tools does not end; it was cut after {len(definitions)}.")
            break
        seen.add(cursor)
    else:
        warnings.append(f"The list of tools has more than {_MOST_PAGES} pages; the rest was left out.")
    return Listing(definitions=list(definitions.values())[:_MOST_TOOLS], warnings=warnings[:_MOST_WARNINGS])


def _presentable(result: dict[str, Any]) -> dict[str, Any]:
    """A page of tools that the session accepts, with the original page beside it."""
    tools = result.get("tools")
    tools = tools if isinstance(tools, list) else []
    cursor = result.get("nextCursor")
    plain = [
        {"name": name, "inputSchema": _bare(tool.get("inputSchema"))}
        for tool in tools
        if isinstance(tool, dict) and isinstance(name := tool.get("name"), str)
    ]
    page = {"tools": plain, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if isinstance(cursor, str):
        page["nextCursor"] = cursor
    return {**page, "_meta": {_AS_IT_CAME: tools}}


def _bare(schema: Any) -> dict[str, Any]:
    """The part of an input schema that the session needs: the arguments that are also sent as HTTP headers."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or "x-mcp-header" not in repr(properties):
        return {"type": "object"}
    return {
        "type": "object",
        "properties": {key: value for key, value in properties.items() if isinstance(value, dict)},
    }


def _definition(tool: Any, warnings: list[str]) -> Definition | None:
    """The definition of a listed tool, or `None` if it is unreadable."""
    name = tool.get("name") if isinstance(tool, dict) else None
    if isinstance(tool, dict) and isinstance(size := tool.get(_TOO_LARGE), int):
        called = short(repr(name), 80) if isinstance(name, str) else "whose name was not sought"
        warnings.append(
            f"Tool {called} {_LEFT_OUT}: "
            f"its definition has {size:,} bytes, more than the {_TOOL_BYTES:,} that are read."
        )
        return None
    if not isinstance(name, str) or not name.strip() or len(name) > _NAME_CHARACTERS:
        warnings.append(f"A tool without a usable name {_LEFT_OUT}: {short(repr(name), 80)}.")
        return None
    schema = tool.get("inputSchema", {})
    if not isinstance(schema, dict):
        warnings.append(f"Tool {name!r} {_LEFT_OUT}: its inputSchema is {short(repr(schema), 80)}, not an object.")
        return None
    if schema.get("type") != "object":
        warnings.append(f"Tool {name!r} has an inputSchema without type 'object'; it was taken as one.")
        schema = {**schema, "type": "object"}
    output = tool.get("outputSchema")
    if output is not None and not isinstance(output, dict):
        warnings.append(f"Tool {name!r} has an outputSchema that is not an object; it was ignored.")
        output = None
    return definition_of({**tool, "inputSchema": schema, "outputSchema": output})


def definition_of(tool: Mapping[str, Any]) -> Definition:
    """The definition of a listed tool whose name and schemas are valid."""
    hints = tool.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    return Definition(
        name=tool["name"],
        title=_first_text(tool.get("title"), hints.get("title")),
        description=_first_text(tool.get("description")),
        input_schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=ToolAnnotations(
            read_only=_flag(hints.get("readOnlyHint")),
            destructive=_flag(hints.get("destructiveHint")),
            idempotent=_flag(hints.get("idempotentHint")),
            open_world=_flag(hints.get("openWorldHint")),
        ),
    )


def _first_text(*values: Any) -> str:
    return next((value for value in values if isinstance(value, str) and value), "")


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
