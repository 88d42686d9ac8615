"""Connections of HTTP clients: bounds their number, and the time to send a request and to read its answer.

The gateway accepts connections itself. The loop of asyncio keeps accepting when no descriptor is left: it logs every
failure, retries thousands of times a second, and leaves no descriptor for upstreams, workers and the store.

A client has to prove itself quickly: a connection without a whole request is closed after some seconds, and sooner
when others need the room.
"""

import asyncio
import errno
import heapq
import logging
import math
import resource
import socket
from collections.abc import Callable
from typing import Any, Literal, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sealyard.config.settings import HttpConfig
from sealyard.serve.dialogue import PRINCIPAL

_log = logging.getLogger(__name__)

_USUAL_CONNECTIONS = 2_048  # several times what a team's clients open; idle, they take some 50 MB together
_OPEN_FILES = 8_192  # room for those, and three times as much for upstreams, workers and the store
_BYTES_PER_SECOND = 16 << 10  # what the slowest client moves once its fixed seconds are over: a poor mobile link
_ACCEPTED_AT_ONCE = 64  # then open connections get a turn on the event loop
_DROPPED_SHARE = 32  # looking for the oldest reads all connections, so several go at once: one in this many
_PAUSE_SECONDS = 1.0  # between attempts to accept where none succeeds
_SWEEP_SECONDS = 1.0  # between looks at all connections, or less if a limit is shorter
_LOG_SECONDS = 60.0  # between two lines about dropped connections: an attack must not fill the log
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_JOINED_BYTES = 64 << 10  # a longer body is written separately: joining it to its head would copy it
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

LEFT = "sealyard.left"
"""The key in a request's scope of the function called when its client disconnects; None after that."""

Phase = Literal["quiet", "headers", "body", "answer", "rest"]
"""A connection waits for: a request, the end of its headers or body, its answer, or the rest of an unread body."""


def raise_open_files() -> None:
    """Let this process open as many files as it needs, as far as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(settings: HttpConfig) -> int:
    """Limit of open connections: at most half of the descriptors, since everything else needs some too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections or _USUAL_CONNECTIONS
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft // 2)


class HttpConnection(H11Protocol):
    """One connection, with a clock on everything that its client has to do."""

    def __init__(self, entrance: "Entrance", settings: HttpConfig, **rest: Any) -> None:
        super().__init__(**rest)
        self._entrance = entrance
        self._settings = settings
        self.phase: Phase = "quiet"
        self.since = self.loop.time()
        """Start of the phase."""
        self._body_bytes = 0
        self._unread_since: float | None = None
        self._unread_bytes = self._taken_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start, with writes joined into as few packets as possible."""
        super().connection_made(cast("asyncio.Transport", _Joined(transport, self.loop)))

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._note_phase()
        self._body_bytes += len(data)  # also of what came with the headers

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        self._note_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the work under way for its client, and make room for another connection."""
        super().connection_lost(exc)
        if self.scope:
            scope = cast("dict[str, Any]", self.scope)
            leave, scope[LEFT] = scope.get(LEFT), None
            if leave is not None:
                leave()
        self._entrance.resume()

    def _should_upgrade(self) -> bool:
        return False  # no protocol is supported; uvicorn would log two lines for each attempt

    def _note_phase(self) -> None:
        theirs = self.conn.their_state
        phase: Phase = "answer"
        if theirs is h11.IDLE:
            phase = "headers" if self.conn.trailing_data[0] else "quiet"
        elif theirs is h11.SEND_BODY:
            phase = "rest" if self.cycle.response_complete else "body"
        if phase != self.phase:
            self.phase, self.since, self._body_bytes = phase, self.loop.time(), 0

    # For the entrance

    @property
    def is_known(self) -> bool:
        """True if the gate identified the principal of its last request."""
        return bool(self.scope) and PRINCIPAL in self.scope

    @property
    def can_go(self) -> bool:
        """True if it may be dropped to make room: it answers no request of an identified principal."""
        return self.phase != "answer" or (self.flow.write_paused and not self.is_known)

    def end_if_late(self, now: float) -> None:
        """End the connection if its client took too long."""
        if self.phase == "body" and self.flow.read_paused:
            self.since, self._body_bytes = now, 0  # it waits for the gateway, not for its client
        if self._leaves_answer_unread(now):
            self.transport.abort()  # a closed one would wait for the client as well
        elif now - self.since > self._allowed_seconds() and not self.transport.is_closing():
            if self.phase in ("headers", "body"):
                self.transport.write(_TOO_SLOW)
            self.transport.close()

    def _allowed_seconds(self) -> float:
        match self.phase:
            case "quiet" if self.cycle is not None:
                return self._settings.idle_seconds
            case "quiet" | "headers" | "rest":
                return self._settings.header_seconds
            case "body":
                return self._settings.body_seconds + self._body_bytes / _BYTES_PER_SECOND
        return math.inf

    def _leaves_answer_unread(self, now: float) -> bool:
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._unread_since = None
            return False
        if self._unread_since is None:
            self._unread_since, self._taken_bytes = now, 0
        else:
            self._taken_bytes += max(0, self._unread_bytes - waiting)
        self._unread_bytes = waiting
        return now - self._unread_since > self._settings.answer_seconds + self._taken_bytes / _BYTES_PER_SECOND


class _Joined:
    """A transport that sends the head of an answer together with what follows it: uvicorn writes them one by one.

    A packet less is a system call less, and wakes the client once. A head that nothing follows in the same turn of the
    loop, as that of a stream, goes out in the next.
    """

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._below = below
        self._loop = loop
        self._head = b""

    def write(self, data: Any) -> None:
        """Send `data`, or keep it for a moment if it is a head."""
        if not self._head:
            if data[:7] == b"HTTP/1.":
                self._head = data
                self._loop.call_soon(self._flush)
            elif data:
                self._below.write(data)
        elif len(data) <= _JOINED_BYTES:
            data, self._head = self._head + data, b""
            self._below.write(data)
        else:
            self._flush()
            self._below.write(data)

    def _flush(self) -> None:
        if self._head:
            data, self._head = self._head, b""
            self._below.write(data)

    def close(self) -> None:
        """End once everything is sent."""
        self._flush()
        self._below.close()

    def abort(self) -> None:
        self._head = b""
        self._below.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class Entrance:
    """Accepts connections as long as there is room, and makes room by ending those that waste it."""

    def __init__(self, listener: socket.socket, settings: HttpConfig, state: ServerState) -> None:
        self._listener = listener
        self._settings = settings
        self._connections = cast("set[HttpConnection]", state.connections)
        self._most = most_connections(settings)
        self._arriving: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        limits = (settings.header_seconds, settings.body_seconds, settings.answer_seconds, settings.idle_seconds)
        self._sweep_seconds = min(_SWEEP_SECONDS, *limits)
        self._dropped = 0
        """Since the last log line."""
        self._failure = ""
        """The reason why none could be accepted, since the last log line."""
        self._logged_at = -math.inf

    def open(self, make: Callable[..., HttpConnection]) -> None:
        """Accept from now on; `make` takes the first two arguments of an `HttpConnection`."""
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        wanted = self._settings.connections or 0
        if wanted > self._most:
            _log.warning(
                "http.connections is %d, and half of the descriptors of this process are %d: so many are opened. "
                "Raise the limit (ulimit -n).",
                wanted,
                self._most,
            )
        self._loop.add_reader(self._listener, self._accept)
        self._sweeping = self._loop.call_later(self._sweep_seconds, self._sweep)

    def close(self) -> None:
        """Stop accepting. Open connections stay."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._loop.remove_reader(self._listener)
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None

    def resume(self) -> None:
        """Accept again if there was no room: there is some now."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if len(self._connections) + len(self._arriving) >= self._most:
                # New arrivals are unidentified, and can be dropped in the next round of the loop; connections
                # dropped before are gone by then.
                if not self._arriving and not self._drop_oldest():
                    self._pause()  # clients wait in the backlog of the socket
                return
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._failure = str(error.strerror)
                self._drop_oldest()
                self._pause()
                return
            task = asyncio.create_task(self._welcome(accepted))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _welcome(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._make(self, self._settings), accepted)
        except OSError:  # it is gone already
            accepted.close()

    def _pause(self) -> None:
        if self._paused is None:
            self._loop.remove_reader(self._listener)
            self._paused = self._loop.call_later(_PAUSE_SECONDS, self.resume)

    def _drop_oldest(self) -> bool:
        """End connections on which nothing is answered, unidentified ones first. True if there were any."""
        can_go = [each for each in self._connections if each.can_go and not each.transport.is_closing()]
        count = max(1, self._most // _DROPPED_SHARE)
        for each in heapq.nsmallest(count, can_go, key=lambda one: (one.is_known, one.since)):
            each.transport.abort()
            self._dropped += 1
        return bool(can_go)

    def _sweep(self) -> None:
        """End late connections, and schedule the next sweep."""
        self._sweeping = self._loop.call_later(self._sweep_seconds, self._sweep)
        now = self._loop.time()
        for each in tuple(self._connections):
            each.end_if_late(now)
        if (self._dropped or self._failure) and now - self._logged_at > _LOG_SECONDS:
            self._log_shortage()
            self._logged_at = now

    def _log_shortage(self) -> None:
        """Log once for all of them that connections were dropped or could not be accepted."""
        if self._failure:
            _log.warning("Connections could not be accepted: %s. Raise the limit (ulimit -n).", self._failure)
        if self._dropped:
            _log.warning(
                "All %d connections were in use, and the %d that had waited longest without a request were dropped. "
                "Raise http.connections if they were your clients'.",
                self._most,
                self._dropped,
            )
        self._dropped, self._failure = 0, ""
