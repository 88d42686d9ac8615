"""One connection to an upstream, in either era of the protocol, with all messages as raw JSON.

A `Link` knows how to greet an upstream on behalf of a client and how to carry requests both ways. Its
`front`, which receives the upstream's messages, is its owner: none, one client's session, or one request.
"""

import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.shared.dispatcher import CallOptions, DispatchContext, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher, progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ServerCapabilities,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import ValidationError

from sealyard.broker.upstreams.mcp import Transport, whole_message
from sealyard.errors import UpstreamError, UpstreamUnavailable
from sealyard.serve.relay.border import Screen
from sealyard.serve.relay.bulk import Json
from sealyard.serve.relay.routes import LISTS
from sealyard.values.tools import UpstreamConfig

logger = logging.getLogger(__name__)

ENVELOPE_KEYS = frozenset(
    {PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY}
)
_FIRST_PAUSE_SECONDS = 1.0  # after a failed connection; doubles with each further one
_LONGEST_PAUSE_SECONDS = 60.0  # so that a server that is back is found within a minute
_PROBE_SECONDS = 10.0  # for `server/discover`: an older server may never answer it
_CLOSE_SECONDS = 5.0  # for a server to end in an orderly way
LINKS_MOST = 64  # to one upstream: each may be a process of a stdio server


class Gone(MCPError, UpstreamError):
    """The upstream cannot be reached, or went away: for a client an error, for limits a failure of the server."""


class Front(Protocol):
    """The way back from an upstream: a client's session (`clients.Session`) or one request (`Exchange`)."""

    async def ask(self, method: str, params: Json, on_progress: ProgressFnT | None) -> Json:
        """Have the client answer a request of the upstream."""
        ...

    async def notify(self, method: str, params: Json) -> None:
        """Pass a notification of the upstream on to the client."""
        ...


class Hello:
    """A client's introduction of itself, passed on to an upstream."""

    def __init__(self, params: Json, *, modern: bool, initialized: anyio.Event | None = None) -> None:
        self.modern = modern
        self.version: str = params.get("protocolVersion", LATEST_HANDSHAKE_VERSION)
        capabilities, info = params.get("capabilities"), params.get("clientInfo")
        self.capabilities: Json = capabilities if isinstance(capabilities, dict) else {}
        self.info: Json = info if isinstance(info, dict) and info else {"name": "unknown", "version": ""}
        self.initialized = initialized
        """Set once the client has sent `initialized`: the upstream gets it no sooner."""

    def envelope(self) -> Json:
        """The `_meta` of a modern request made for this client."""
        return {
            PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
            CLIENT_INFO_META_KEY: self.info,
            CLIENT_CAPABILITIES_META_KEY: self.capabilities,
        }

    def initialize_params(self) -> Json:
        """The handshake's parameters, as the client itself would send them."""
        version = self.version if self.version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        return {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": self.info}


class Link:
    """A connection after the handshake. `Links.open` makes one."""

    def __init__(self, config: UpstreamConfig, front: Front | None, screen: Screen) -> None:
        self.config = config
        self.front = front
        self.screen = screen
        """Every message of the upstream passes it first."""
        self.modern = False
        self.version = LATEST_HANDSHAKE_VERSION
        self.greeting: Json = {}
        """The upstream's description of itself: the result of `initialize` or of `server/discover`."""
        self.listeners: list[Callable[[str, Json], bool]] = []
        """Each sees every notification in the order of arrival; `True` keeps it from the front."""
        self.log_level: str | None = None
        self.watched: Counter[str] = Counter()
        """The number of streams that follow each resource of a handshake-era upstream."""
        self.users = 0
        self.sharers = 0
        self.uses = 0
        self.used_at = 0.0
        self.over = anyio.Event()
        """Set as soon as it is no longer usable."""
        self._closed = anyio.Event()
        self._turn = anyio.Lock(fast_acquire=True)
        """Held while a notification is concealed, in the order of arrival, so that they stay in order and no result
        overtakes its own log."""
        self._scope: anyio.CancelScope | None = None
        self._dispatcher: JSONRPCDispatcher[TransportContext]

    @property
    def capabilities(self) -> Json:
        """The upstream's capabilities; empty if they are malformed."""
        capabilities = self.greeting.get("capabilities")
        try:
            ServerCapabilities.model_validate(capabilities)
        except ValidationError:
            return {}
        return dict(capabilities or {})

    @property
    def instructions(self) -> str | None:
        """The upstream's instructions."""
        instructions = self.greeting.get("instructions")
        return instructions if isinstance(instructions, str) else None

    async def request(
        self,
        method: str,
        params: Json,
        *,
        on_progress: ProgressFnT | None = None,
        request_id: str | None = None,
        seconds: float | None = None,
        headers: dict[str, str] | None = None,
        client_version: str = "",
    ) -> Json:
        """The result of a request, as the client may see it. Large fields of it are `msgspec.Raw`.

        Raises:
            MCPError: The upstream answered with an error, or went away.
        """
        self.uses += 1
        self.used_at = anyio.current_time()
        sent = await self.screen.handles(params)
        options: CallOptions = {"headers": {MCP_PROTOCOL_VERSION_HEADER: self.version, **(headers or {})}}
        if self.modern:
            options["headers"][MCP_METHOD_HEADER] = method
            name = sent.get(NAME_BEARING_METHODS.get(method, ""))
            if isinstance(name, str):
                options["headers"][MCP_NAME_HEADER] = encode_header_value(name)
        if on_progress is not None:
            options["on_progress"] = self._concealed(on_progress)
        if request_id is not None:
            options["request_id"] = request_id
        # A call may wait for a person; a list that hangs would hold up those of the other upstreams.
        if (seconds := self.config.call_seconds if method in LISTS else seconds) is not None:
            options["timeout"] = seconds
        try:
            result = await self._dispatcher.send_raw_request(method, sent, options)
        except MCPError as error:
            # Its own errors may have the same number, but not the SDK's words.
            if error.code == CONNECTION_CLOSED and error.message == "Connection closed":
                self.over.set()
                said = f"The upstream {self.config.name!r} went away during the call; whether it happened is unknown."
                raise Gone(INTERNAL_ERROR, said) from error
            safe = await self.screen.error(self.config.name, error)
            async with self._turn:
                raise safe from None
        try:
            if (message := whole_message(result)) is None:
                shown = await self.screen.result(self.config.name, method, params, result)
            else:
                shown = await self.screen.large_result(self.config.name, method, params, message, client_version)
        except MCPError:
            async with self._turn:
                raise
        async with self._turn:
            return shown

    async def notify(self, method: str, params: Json | None) -> None:
        """Send a notification; one to an upstream that is gone is dropped."""
        await self._dispatcher.notify(method, params, {"headers": {MCP_PROTOCOL_VERSION_HEADER: self.version}})

    async def close(self) -> None:
        """End the connection; returns when nothing of it is left."""
        self.over.set()
        if self._scope is not None:
            self._scope.cancel()
        await self._closed.wait()

    async def run(self, transport: Transport, hello: Hello, *, probe: bool, task_status: TaskStatus[None]) -> None:
        """Connect, greet and serve until either side ends it. Never raises once it has started."""
        started = False
        try:
            async with transport as (read, write), anyio.create_task_group() as tasks:
                self._scope = tasks.cancel_scope
                self._dispatcher = JSONRPCDispatcher[TransportContext](read, write)
                await tasks.start(self._serve)
                await self._greet(hello, probe=probe)
                started = True
                task_status.started()
                if not self.modern:
                    await self._initialized(hello)
        except Exception as error:
            if not started:
                raise
            logger.warning("The connection to upstream %r ended: %s", self.config.name, _first(error))
        finally:
            self.over.set()
            self._closed.set()
        if not started:
            raise UpstreamUnavailable(f"The upstream {self.config.name!r} ended the connection before it answered.")

    async def _serve(self, *, task_status: TaskStatus[None]) -> None:
        await self._dispatcher.run(self._on_request, self._on_notify, self._intercept, task_status=task_status)
        assert self._scope is not None
        self.over.set()
        self._scope.cancel()  # the upstream is gone: let the transport go too

    async def _greet(self, hello: Hello, *, probe: bool) -> None:
        """Introduce the client in its own era if the upstream speaks it, else in the other one."""
        if probe:
            try:
                return await self._discover(hello)
            except MCPError as error:
                logger.debug("Upstream %r does not know server/discover: %s", self.config.name, error)
        try:
            self.greeting = await self.request("initialize", hello.initialize_params())
        except MCPError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            return await self._discover(hello)
        self.version = self.greeting.get("protocolVersion", LATEST_HANDSHAKE_VERSION)
        if self.version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise UpstreamUnavailable(
                f"The upstream {self.config.name!r} speaks protocol version {self.version!r}, which is unknown."
            )
        return None

    async def _discover(self, hello: Hello) -> None:
        self.modern, self.version = True, LATEST_MODERN_VERSION
        try:
            greeting = await self.request("server/discover", {"_meta": hello.envelope()}, seconds=_PROBE_SECONDS)
            if self.version not in greeting.get("supportedVersions", []):
                raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "The upstream speaks no version of this era.")
        except MCPError:
            self.modern, self.version = False, LATEST_HANDSHAKE_VERSION
            raise
        self.greeting = greeting

    async def _initialized(self, hello: Hello) -> None:
        if hello.initialized is not None:
            await hello.initialized.wait()
        await self.notify("notifications/initialized", None)

    async def _on_request(self, context: DispatchContext[TransportContext], method: str, params: Any) -> Json:
        if method == "ping":
            return {}
        front = self.front  # the present owner: it may change before the question is concealed
        if front is None:
            raise MCPError(METHOD_NOT_FOUND, "No client can answer this request.", method)
        if (message := whole_message(params or {})) is not None:
            params = await self.screen.large_params(self.config.name, "request", method, message)
            shown = untracked(params)
        else:
            shown = await self.screen.request(self.config.name, method, untracked(params))
        wants_progress = progress_token_from_params(params) is not None
        return await front.ask(method, shown, context.progress if wants_progress else None)

    async def _on_notify(self, _: DispatchContext[TransportContext], method: str, params: Any) -> None:
        # Progress reaches the callback of its request, and a cancelled request is cancelled, in the dispatcher.
        front = self.front
        if front is not None and method not in {"notifications/progress", "notifications/cancelled"}:
            async with self._turn:
                if (message := whole_message(params or {})) is not None:
                    shown = await self.screen.large_params(self.config.name, "notification", method, message)
                else:
                    shown = await self.screen.notification(self.config.name, method, dict(params or {}))
            await front.notify(method, shown)

    def _concealed(self, on_progress: ProgressFnT) -> ProgressFnT:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            async with self._turn:
                words = None if message is None else await self.screen.words(self.config.name, message)
                is_allowed = await self.screen.may_report(self.config.name, progress, total)
            if is_allowed:
                await on_progress(progress, total, words)

        return report

    def _intercept(self, method: str, params: Any) -> bool:
        return any(listener(method, dict(params or {})) for listener in tuple(self.listeners))


class Links:
    """Opens links, each in a task of its own, and remembers of each upstream its era and whether it is down."""

    def __init__(
        self,
        connect: Callable[[UpstreamConfig], Transport],
        tasks: TaskGroup,
        screen_of: Callable[[str], Screen],
        *,
        is_shared: bool = False,
    ) -> None:
        """`screen_of` returns a principal's screen, always the same. `is_shared`: there are several principals."""
        self._is_shared = is_shared
        self._connect = connect
        self._tasks = tasks
        self.screen_of = screen_of
        self._opened: set[Link] = set()
        self._down: dict[tuple[str, str], tuple[float, float, str]] = {}
        """By upstream and principal: what a client says of itself may be the reason, which must not stop the others."""
        self.modern: dict[str, bool] = {}
        """True for an upstream that answers a modern client in its era; absent until one has connected."""

    async def open(self, config: UpstreamConfig, hello: Hello, principal: str, front: Front | None) -> Link:
        """A new link to the upstream, greeted for the client, which is the principal's.

        Raises:
            UpstreamUnavailable: It cannot be reached now, or failed so recently that it is not tried again yet, or has
                too many links.
        """
        place = config.name, principal
        until, pause, reason = self._down.get(place, (0.0, 0.0, ""))
        if anyio.current_time() < until:
            raise UpstreamUnavailable(reason)
        if not self.has_room(config.name, principal):
            held = self.held(config.name)
            raise UpstreamUnavailable(
                f"The upstream {config.name!r} is busy with {held.total()} clients, {held[principal]} of them yours. "
                "Try again later."
            )
        try:
            with anyio.fail_after(config.start_seconds):
                link = await self._start(config, hello, lambda: Link(config, front, self.screen_of(principal)))
        except Exception as error:
            pause = min(max(pause * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
            reason = f"The upstream {config.name!r} could not be started: {_first(error)}."
            self._down[place] = (anyio.current_time() + pause, pause, reason)
            raise UpstreamUnavailable(reason) from error
        self._down.pop(place, None)
        if hello.modern:
            self.modern[config.name] = link.modern
        return link

    def held(self, name: str) -> Counter[str]:
        """The number of links to the upstream that each principal has."""
        return Counter(link.screen.principal for link in self._opened if link.config.name == name)

    def has_room(self, name: str, principal: str) -> bool:
        """True if the principal may open another link to the upstream.

        Beside others, it may have as many as are free then: whoever takes all that it can get leaves half to the next.
        """
        held = self.held(name)
        free = LINKS_MOST - held.total()
        return free > (held[principal] if self._is_shared else 0)

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Run work that outlives the request that wants it. A fault of it is logged, and ends nothing else."""
        self._tasks.start_soon(self._contained, work, arguments)

    async def _contained(self, work: Callable[..., Coroutine[Any, Any, None]], arguments: tuple[object, ...]) -> None:
        try:
            await work(*arguments)
        except Exception:
            logger.exception("A task of the relay failed.")

    async def close(self) -> None:
        """End every link; returns when nothing of them is left, or when they were given long enough."""
        with anyio.move_on_after(_CLOSE_SECONDS):
            async with anyio.create_task_group() as closing:
                for link in tuple(self._opened):
                    closing.start_soon(link.close)

    async def _start(self, config: UpstreamConfig, hello: Hello, make: Callable[[], Link]) -> Link:
        probe = hello.modern and self.modern.get(config.name, True)
        try:
            return await self._begin(make(), hello, probe)
        except UpstreamUnavailable:
            if not probe:
                raise
            # Some servers of the handshake's era end when they are asked anything else first.
            return await self._begin(make(), hello, False)

    async def _begin(self, link: Link, hello: Hello, probe: bool) -> Link:
        self._opened.add(link)  # before anything is awaited: of many at once, each counts
        try:
            await self._tasks.start(self._run, link, hello, probe)
        except BaseException:
            self._opened.discard(link)
            raise
        return link

    async def _run(self, link: Link, hello: Hello, probe: bool, *, task_status: TaskStatus[None]) -> None:
        try:
            await link.run(self._connect(link.config), hello, probe=probe, task_status=task_status)
        finally:
            self._opened.discard(link)


def untracked(params: Any) -> Json:
    """The parameters without the sender's progress token, which means nothing on another connection."""
    kept: Json = dict(params or {})
    meta = kept.get("_meta")
    if isinstance(meta, dict) and "progressToken" in meta:
        kept["_meta"] = {key: value for key, value in meta.items() if key != "progressToken"}
    return kept


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error).rstrip(".") or type(error).__name__
