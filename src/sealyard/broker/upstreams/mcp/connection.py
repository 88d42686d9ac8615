"""The life of the connection to one MCP server: when it starts, ends, and may start again.

Nothing runs until the first request. One task owns a connection from its first byte to its last, because the SDK's
cancel scopes have to be left by the task that entered them; all others only use the session that this task publishes.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from sealyard.broker.upstreams.mcp.http import CONSENT_SECONDS, Exchange, open_http
from sealyard.broker.upstreams.mcp.session import Channel, DiedOnProbe, negotiate, open_session, wait_for_changes
from sealyard.broker.upstreams.mcp.transport import Tail, open_child
from sealyard.errors import SealyardError, UpstreamUnavailable
from sealyard.values.tools import UpstreamConfig, UpstreamState
from sealyard.wording import short

Transport = AbstractAsyncContextManager[tuple[Any, Any]]
"""Yields a stream of incoming and one of outgoing messages, as every client transport of the SDK does."""

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.5  # before the first restart; it doubles with each
_LONGEST_PAUSE_SECONDS = 60.0  # a repaired server is back within a minute
_MOST_PAUSES = 16  # doublings counted: the longest pause is reached long before
_PROBE_SECONDS = 10.0  # for the newest protocol's greeting, at most half of the start time
_LISTEN_SECONDS = 1.0  # for the stream of changes to open before the first use
_CLOSE_SECONDS = 5.0  # for an orderly end of a connection
_UNAUTHORIZED = ("HTTP 401", "HTTP 403")


class Connection:
    """A usable session and its current uses."""

    def __init__(self, session: ClientSession, channel: Channel) -> None:
        self.session = session
        self.channel = channel
        self.over = channel.ended
        self.unwanted = False
        self.listing = asyncio.Lock()
        self.listing_error: str | None = None
        self.in_flight = 0
        self.last_used = time.monotonic()
        self.silent_calls = 0
        self.suspected = asyncio.Event()
        """Set if the connection may be dead."""

    def __enter__(self) -> None:
        """While it is entered, the connection is not idle."""
        self.in_flight += 1

    def __exit__(self, *error: object) -> None:
        self.in_flight -= 1
        self.last_used = time.monotonic()


class _End(msgspec.Struct, eq=False):
    """The end of a connection."""

    began: bool = False
    unwanted: bool = False
    timed_out: bool = False
    died_on_probe: bool = False
    silent_on_probe: bool = False
    why: str | None = None
    """The reason it ended; `None` if it was closed on purpose."""


class Life:
    """Starts a connection on demand, and keeps it until it is idle, retired or lost.

    `first` is awaited with every new connection before others get it; `beside` run as long as the connection lasts.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        token_folder: Path | None,
        open_url: Callable[[str], bool],
        clock: Callable[[], float],
        first: Callable[[Connection], Awaitable[None]],
        beside: Sequence[Callable[[Connection], Coroutine[Any, Any, None]]],
    ) -> None:
        self._config = config
        self._token_folder = token_folder
        self._open_url = open_url
        self._clock = clock
        self._first = first
        self._beside = beside
        self._owners: set[asyncio.Task[None]] = set()
        self._started: asyncio.Event | None = None
        self._closed = False
        self._legacy = False
        self._pauses = 0
        self._retry_at = -math.inf
        self._consent: str | None = None
        self._failure: str | None = None
        self.connection: Connection | None = None
        """The usable connection."""
        self.changed = asyncio.Event()
        """Set when the server says that its tools changed."""
        self.stderr = Tail()
        self.fault: str | None = None
        """The transport's report of a fault, if it has one."""
        self.noise = 0
        """The count of received items that were not messages."""
        self.restarts = 0
        self.version: str | None = None
        self.described: str | None = None

    @property
    def state(self) -> UpstreamState:
        """Its current state."""
        if self.connection is not None:
            return "ready"
        if self._started is not None:
            return "starting"
        if self._failure is None or self._closed:
            return "stopped"
        return "backing_off" if self._clock() < self._retry_at else "failed"

    @property
    def error(self) -> str | None:
        """The current fault, or the awaited event."""
        return self._consent or self._failure

    @property
    def last_words(self) -> str:
        """The end of its standard error, as a sentence to append; may be empty."""
        said = self.stderr.last_lines()
        return f" It last said: {said}" if said else ""

    async def connected(self) -> Connection:
        """The connection, once it is up. Concurrent callers share one start. Raises `UpstreamUnavailable`."""
        while self.connection is None:
            if self._started is not None:
                await self._started.wait()
            elif self._owners:
                await asyncio.wait(self._owners)  # the last one is still being ended
            elif self._closed or self._clock() < self._retry_at:
                raise self._unavailable()
            else:
                self._started = asyncio.Event()
                owner = asyncio.create_task(self._own(self._started))
                self._owners.add(owner)
                owner.add_done_callback(self._owners.discard)
        return self.connection

    def retire(self, connection: Connection) -> None:
        """End a healthy connection that is no longer needed; no pause follows."""
        connection.unwanted = True
        connection.over.set()
        if self.connection is connection:
            self.connection = None

    def fail(self, connection: Connection | None, fault: str | None = None) -> None:
        """End a broken connection."""
        if fault is not None:
            self._note_fault(fault)
        if connection is not None:
            connection.over.set()
            if self.connection is connection:
                self.connection = None

    def thrive(self) -> None:
        """Reset the pause after an answered call."""
        self._pauses = 0

    async def close(self) -> None:
        """End for good."""
        self._closed = True
        if self.connection is not None:
            self.retire(self.connection)
        owners = set(self._owners)
        if self._started is not None:
            for owner in owners:
                owner.cancel()
        if owners:
            await asyncio.wait(owners)
        if self._started is not None:  # its owner was cancelled before it began, and could not say that it is over
            self._started.set()
            self._started = None

    def _unavailable(self) -> UpstreamUnavailable:
        name = self._config.name
        if self._closed:
            return UpstreamUnavailable(f"{name!r} was closed.")
        pause = max(0.0, self._retry_at - self._clock())
        return UpstreamUnavailable(
            f"{name!r} is not available: {self._failure} It can be started again in {pause:.1f} s.{self.last_words}"
        )

    async def _own(self, started: asyncio.Event) -> None:
        end, probe = _End(), True
        try:
            for probe in (False,) if self._legacy else (True, False):
                end = await self._hold(started, probe)
                if not end.died_on_probe:
                    break
        finally:
            self.connection = self._consent = None
            if end.why is not None:
                self._pause(end.why)
            if self._started is started:
                self._started = None
            started.set()
        # A server that dies of the newest protocol's greeting, or never answers it, gets the old greeting next time.
        self._legacy = not probe or end.silent_on_probe if end.began else probe and end.timed_out

    async def _hold(self, started: asyncio.Event, probe: bool) -> _End:
        """Connect, publish the connection, and stay until it is over."""
        end = _End()
        self.fault = None
        self.changed.clear()
        exchange: Exchange | None = None
        with anyio.CancelScope(deadline=anyio.current_time() + self._config.start_seconds) as scope:
            try:
                exchange = self._build_exchange(scope)
                link = _open_link(self._config, exchange, self.stderr, self._note_fault)
                opening = open_session(link, on_change=self.changed.set, on_noise=self._note_noise)
                async with opening as (session, channel):
                    await self._live(session, channel, scope, started, probe, end)
                    scope.deadline = anyio.current_time() + _CLOSE_SECONDS
            except Exception as error:  # noqa: BLE001 - one dead upstream costs only itself, whatever it dies of
                if not end.unwanted:
                    end.why = self._explain(error)
        if not end.began:
            if scope.cancelled_caught:
                end.timed_out = True
                end.why = f"It did not start within {self._config.start_seconds:g} s."
            if exchange is not None and exchange.fault is not None:
                hint = " Set bearer_token, headers or oauth in its config." if exchange.fault in _UNAUTHORIZED else ""
                end.why = f"{end.why} The last answer was {exchange.fault}.{hint}"
        return end

    async def _live(
        self,
        session: ClientSession,
        channel: Channel,
        scope: anyio.CancelScope,
        started: asyncio.Event,
        probe: bool,
        end: _End,
    ) -> None:
        """Run one connection. `end` records the outcome: an exception would tear at the scopes around it."""
        try:
            seconds = min(_PROBE_SECONDS, self._config.start_seconds / 2)
            end.silent_on_probe = await negotiate(session, probe=probe, probe_seconds=seconds)
        except DiedOnProbe as error:
            end.died_on_probe = True
            end.why = self._explain(error)
            return
        except (MCPError, ValidationError, RuntimeError) as error:
            end.why = f"It could not be greeted: {self._explain(error)}"
            return
        connection = Connection(session, channel)
        listening = asyncio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_changes, session, self.changed.set, listening)
            with anyio.move_on_after(_LISTEN_SECONDS):
                await listening.wait()  # before the list, or a change in between would be missed
            listening.set()
            await self._first(connection)
            end.began = True
            scope.deadline = math.inf
            self._publish(connection, started)
            for work in self._beside:
                tasks.start_soon(work, connection)
            await self._attend(connection)
            end.unwanted = connection.unwanted
            tasks.cancel_scope.cancel()
        if not end.unwanted:
            end.why = self.fault or "Its connection ended."

    def _publish(self, connection: Connection, started: asyncio.Event) -> None:
        info = connection.session.server_info
        self.version = connection.session.protocol_version
        self.described = short(f"{info.name} {info.version}".strip(), 200) or None if info is not None else None
        if self._failure is not None:
            self.restarts += 1
        self._failure = self._consent = None
        self.connection = connection
        self._started = None
        started.set()

    async def _attend(self, connection: Connection) -> None:
        """Wait until the connection ends or has been idle for too long."""
        idle = self._config.idle_seconds
        while not connection.over.is_set():
            spare = math.inf if idle is None else connection.last_used + idle - time.monotonic()
            with anyio.move_on_after(spare if spare > 0 else idle):
                await connection.over.wait()
            if idle is not None and not connection.in_flight and connection.last_used + idle <= time.monotonic():
                self.retire(connection)
        if self.connection is connection:
            self.connection = None

    def _pause(self, why: str) -> None:
        """Block new starts for a while, longer each time until a call is answered."""
        self._failure = short(why, 1_000)
        pause = min(_FIRST_PAUSE_SECONDS * 2**self._pauses, _LONGEST_PAUSE_SECONDS)
        self._pauses = min(self._pauses + 1, _MOST_PAUSES)
        self._retry_at = self._clock() + pause

    def _explain(self, error: BaseException) -> str:
        cause = error.__cause__ if isinstance(error, DiedOnProbe) and error.__cause__ else error
        if isinstance(cause, OSError) and cause.strerror and self._config.transport == "stdio":
            return f"Its command {self._config.command!r} cannot be started: {cause.strerror}."
        return self.fault or reason(cause)

    def _build_exchange(self, scope: anyio.CancelScope) -> Exchange | None:
        if self._config.transport == "stdio":
            return None

        def wait_for_consent(url: str) -> None:
            scope.deadline = max(scope.deadline, anyio.current_time() + CONSENT_SECONDS)
            self._consent = f"It waits for a person's consent at {url}"

        return Exchange(
            self._config,
            on_fault=lambda fault: self.fail(self.connection, fault),
            token_folder=self._token_folder,
            open_url=self._open_url,
            on_consent=wait_for_consent,
        )

    def _note_noise(self) -> None:
        self.noise += 1

    def _note_fault(self, fault: str) -> None:
        """Record a transport's reason for ending the connection."""
        self.fault = self.fault or fault


@asynccontextmanager
async def open_transport(config: UpstreamConfig, token_folder: Path | None = None) -> AsyncIterator[tuple[Any, Any]]:
    """A connection for a caller that speaks the protocol itself. A broken one is ended.

    Tokens for OAuth are kept in `token_folder`.
    """
    with anyio.CancelScope() as scope:

        def end(why: str) -> None:
            _log.warning("The connection to upstream %r is of no use any more: %s", config.name, why)
            scope.cancel()

        is_child = config.transport == "stdio"
        exchange = None if is_child else Exchange(config, on_fault=end, token_folder=token_folder)
        async with _open_link(config, exchange, Tail(), end) as streams:
            yield streams


def _open_link(
    config: UpstreamConfig, exchange: Exchange | None, stderr: Tail, on_fault: Callable[[str], None]
) -> Transport:
    """A connection to a child process, or over HTTP if there is an `exchange`."""
    return open_child(config, stderr, on_fault) if exchange is None else open_http(config, exchange)


def reason(error: BaseException) -> str:
    """The cause in one sentence, without the groups that tasks wrap around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join((error.message if isinstance(error, MCPError) else str(error)).split())
    if not isinstance(error, SealyardError | MCPError):
        text = f"{type(error).__name__}: {text}"
    return short(text.rstrip(".: "), 400) + "."
