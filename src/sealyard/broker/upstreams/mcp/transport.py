"""Carries messages to and from an MCP server that is a child process. `http.py` does the same over HTTP.

Marked for security review. The invariants: a child gets the environment its config names and the few variables without
which no program starts; it ends with its whole process group; and no server makes the gateway hold more than
`answer_bytes` of one message.

The SDK's own stdio transport joins a line of any length in memory, copies it again for every chunk, and fails on the
first byte that is not UTF-8, so children are started here (`loop.subprocess_exec`), and nowhere else but by the SDK.
"""

import asyncio
import contextlib
import logging
import os
import re
import secrets
import signal
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import anyio
import msgspec
from mcp.client.stdio import get_default_environment
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from sealyard.values.documents import read_exactly, read_leniently
from sealyard.values.tools import UpstreamConfig

_STDERR_BYTES = 64 << 10
"""Of standard error: enough for the last messages of a failing program."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# The SDK logs what a server does wrong; without a handler Python would print that to our standard error.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_GRACE_SECONDS = 1.0
"""The time a child has to end by itself once its input is closed, and again after the signal to end: the end of a
gateway waits for both."""
_LAST_OUTPUT_SECONDS = 0.2  # for output that arrives after the child's end
_UNREAD_BYTES = 1 << 20
"""With this many unread bytes, the child waits too."""
_TURN = 100
"""Messages in a row before the other tasks on the loop have a turn."""
WHOLE = "the whole message"
"""Stands in a result that is too large to be decoded on the event loop, with a key to its message."""
_LARGE_BYTES = 64 << 10
"""A message of this size takes 4 ms to decode at worst."""
_ENVELOPE_BYTES = 8 << 20
"""Of a message whose id is sought by reading over all of it: 20 ms at worst. In a longer one it stands at an edge."""
_EDGE_BYTES = 1 << 10  # of a long message's beginning and end, kept to find its id
_MOST_REPLIES = 32  # to a server that asks and does not read
_FIRST_NUMBER = 1 << 30
"""Ids of requests that do not come from the SDK count from here: its own count from 1, and 32 bits hold both."""
CLOSED = "Connection closed"
"""The SDK's message for a connection that is gone, as opposed to one of the streams over it."""

_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")'
_ID_AT_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ANSWER_AT_START = re.compile(_ID_AT_START.pattern + rb'\s*,\s*"(?:result|error)"\s*:')
_METHOD_AT_START = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|id)"\s*:\s*(?:\d{1,18}|"[^"\\]{1,200}")\s*,\s*){0,2}"method"')
_ID_AT_END = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_T = TypeVar("_T")


class Tail:
    """The end of what a child writes to standard error, and no more than that."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        """Append data, and drop the oldest beyond the bound."""
        self._data += data[-_STDERR_BYTES:]
        del self._data[:-_STDERR_BYTES]

    def text(self) -> str:
        """The kept text, without control characters: it is untrusted and shown on terminals."""
        return _CONTROL.sub("", self._data.decode("utf-8", "replace"))

    def last_lines(self) -> str:
        """The last three non-empty lines, as one short line."""
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return " | ".join(lines[-3:])[-400:]


class _Streamed:
    """The parts of a message stream that the SDK needs besides `receive` and `send`; its opener closes it."""

    async def aclose(self) -> None:
        """Does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        raise NotImplementedError


class Inbound(_Streamed):
    """A server's messages, without the requests it makes of us: those are declined here.

    Its replies wait in a short queue for one task, so a server that asks without end and reads no answer costs nothing.
    """

    def __init__(self, read: Any, write: Any, on_noise: Callable[[], None] = lambda: None) -> None:
        """`on_noise` is called for each received item that is not a message."""
        self._read = read
        self._write = write
        self._on_noise = on_noise
        self._replies: deque[JSONRPCMessage] = deque()
        self._waiting = asyncio.Event()

    async def receive(self) -> SessionMessage:
        """The next response or notification."""
        while True:
            item = await self._read.receive()
            if isinstance(item, Exception):
                self._on_noise()
            elif isinstance(item.message, JSONRPCRequest):
                self._decline(item.message)
            else:
                return item  # type: ignore[no-any-return]

    def _decline(self, request: JSONRPCRequest) -> None:
        if len(self._replies) >= _MOST_REPLIES:
            return
        if request.method == "ping":
            self._replies.append(JSONRPCResponse(jsonrpc="2.0", id=request.id, result={}))
        else:
            error = ErrorData(code=METHOD_NOT_FOUND, message="This client offers no such method.")
            self._replies.append(JSONRPCError(jsonrpc="2.0", id=request.id, error=error))
        self._waiting.set()

    async def reply(self) -> None:
        """Send the replies until cancelled or until the connection is over."""
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                await self._waiting.wait()
                self._waiting.clear()
                while self._replies:
                    await self._write.send(SessionMessage(self._replies.popleft()))


# Children


@contextlib.asynccontextmanager
async def open_child(
    config: UpstreamConfig, stderr: Tail, on_fault: Callable[[str], None]
) -> "AsyncIterator[tuple[Child, Child]]":
    """Start the config's command and talk to it line by line. Leaving ends it with all its descendants in its group.

    `on_fault` gets the reason if the connection ends otherwise than by leaving. Large results are not decoded: see
    `WHOLE`.

    Raises:
        OSError: The command cannot be started.
        ValueError: It, an argument or a variable holds a null byte.
    """
    assert config.command is not None
    transport, child = await asyncio.get_running_loop().subprocess_exec(
        lambda: Child(config.answer_bytes, stderr, on_fault),
        config.command,
        *config.args,
        env=get_default_environment() | config.env,
        cwd=config.cwd,
        start_new_session=True,
    )
    try:
        yield child, child
    finally:
        with anyio.CancelScope(shield=True):
            await _end(transport, child)


async def _end(transport: asyncio.SubprocessTransport, child: "Child") -> None:
    """Close its input, wait; ask its group to end, wait; kill its group. Every wait is bounded."""
    pid = transport.get_pid()
    child.end()
    stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    if stdin.get_write_buffer_size():
        stdin.abort()  # it does not read, so `close` would wait
    else:
        stdin.close()
    await _within(_GRACE_SECONDS, child.exited)
    # Also after it has ended by itself: its descendants may still run.
    if _signal(pid, signal.SIGTERM):
        await _gone(pid)
        _signal(pid, signal.SIGKILL)
        await _gone(pid)
    await _within(_GRACE_SECONDS, child.exited)
    transport.close()
    await _within(_GRACE_SECONDS, child.closed)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with anyio.move_on_after(seconds):
        await event.wait()


async def _gone(group: int) -> None:
    """Wait a short time until a process group has ended."""
    with anyio.move_on_after(_GRACE_SECONDS):
        while _signal(group, 0):  # noqa: ASYNC110 - the kernel sends no notice
            await anyio.sleep(0.01)


def _signal(group: int, number: int) -> bool:
    """Signal a process group; returns False if it does not exist."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # a member of it is not ours to signal
    return True


class Child(_Streamed, asyncio.SubprocessProtocol):
    """A child's pipes as the two message streams the SDK asks for, and a short way past the SDK for calls.

    `ask` writes a request to the pipe and waits for a future. An answer that arrives alone and whole settles it where
    it is read; whatever else arrives waits in order for `receive`, which hands it out in turns with everybody else.
    """

    def __init__(self, answer_bytes: int, stderr: Tail, on_fault: Callable[[str], None]) -> None:
        self._answer_bytes = answer_bytes
        self._stderr = stderr
        self._on_fault = on_fault
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: asyncio.WriteTransport | None = None
        self._output: asyncio.ReadTransport | None = None
        self._lines: deque[bytes | bytearray | SessionMessage] = deque()
        self._unread_bytes = 0
        self._paused = False
        self._line = bytearray()
        self._edges: tuple[bytes, bytes] | None = None
        self._messages: deque[SessionMessage | Exception] = deque()
        self._small_bytes = min(answer_bytes, _LARGE_BYTES)
        self._numbers = count(_FIRST_NUMBER)
        self._pending: dict[int | str, asyncio.Future[dict[str, Any]]] = {}
        self._deserted = False
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._output_over = False
        self._ended = False
        self._turn = 0
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over standard output, so that it is read without a detour."""
        # Duck typing: transports of other event loops have other classes.
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._input = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self._output = cast("asyncio.ReadTransport", self._transport.get_pipe_transport(1))
        self._output.set_protocol(_Output(self, self._output.get_protocol()))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what the child wrote to standard output or error."""
        if fd == 2:
            self._stderr.write(data)
        elif self._line or self._lines or self._messages or self._edges is not None or not self._settle_alone(data):
            self._receive(data)

    def _settle_alone(self, data: bytes) -> bool:
        """Settle the one call that `data` answers, if it is one small answer with a result and nothing else."""
        if not self._pending or len(data) > self._small_bytes or data.find(b"\n") != len(data) - 1:
            return False
        try:
            message = read_exactly(data)
        except (ValueError, RecursionError):
            return False
        if type(message) is not dict or "method" in message:
            return False
        number, result = message.get("id"), message.get("result")
        # `1.0` and `true` are equal to 1, but they are not ids.
        if type(number) is not int or type(result) is not dict or number not in self._pending:
            return False
        self._settle(number, result)
        return True

    def _receive(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._extend(first)
        for piece in others:
            self._finish()
            self._extend(piece)
        if self._lines:
            self._arrived.set()
            if self._unread_bytes > _UNREAD_BYTES and not self._paused:
                self._pause(True)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Record that the child closed a pipe."""
        if fd == 1:
            self._output_over = True
        if fd != 2:
            self._near_its_end()

    def process_exited(self) -> None:
        """Record how the child ended."""
        self.exited.set()
        code = self._transport.get_returncode() if self._transport is not None else None
        if not self._ended and code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            self._on_fault(f"It {how}.")
        self._near_its_end()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the stream: the child has ended and every pipe is closed."""
        self.end()
        self.closed.set()

    def _near_its_end(self) -> None:
        """The child has ended or closed a pipe: the others follow at once, or a descendant holds them open."""
        if self._output_over and self.exited.is_set():
            self.end()
        else:
            asyncio.get_running_loop().call_later(_LAST_OUTPUT_SECONDS, self.end)

    def pause_writing(self) -> None:
        """Let writers wait: the child does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._writable.set()

    # Called by the SDK

    async def receive(self) -> Any:
        """The next message that is not an answer to `ask`, or an exception for an invalid line."""
        while True:
            item = await self._next()
            message = item.message if isinstance(item, SessionMessage) else None
            if isinstance(message, JSONRPCResponse) and coerce_request_id(message.id) in self._pending:
                self._settle(coerce_request_id(message.id), message.result)
            elif isinstance(message, JSONRPCError) and coerce_request_id(message.id or "") in self._pending:
                self._settle(coerce_request_id(message.id or ""), message.error)
            else:
                return item

    async def _next(self) -> SessionMessage | Exception:
        while not self._messages:
            if self._lines:
                line = self._lines.popleft()
                if isinstance(line, SessionMessage):
                    return line
                self._unread_bytes -= len(line)
                if self._paused and self._unread_bytes < _UNREAD_BYTES // 2:
                    self._pause(False)
                self._messages.extend(read_line(line))
            elif self._ended:
                raise anyio.EndOfStream
            else:
                self._turn = 0
                self._arrived.clear()
                await self._arrived.wait()
        self._turn += 1
        if self._turn % _TURN == 0:
            await asyncio.sleep(0)
        return self._messages.popleft()

    async def send(self, item: SessionMessage) -> None:
        """Write a message; waits while the child does not read."""
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        stdin = self._stdin()
        stdin.write(line)
        if not self._writable.is_set():
            await self._writable.wait()
            self._stdin()

    # The short way for calls

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request, unchanged. Cancelling notifies the child.

        Raises:
            MCPError: The child answered with an error, or has ended.
        """
        if not self._writable.is_set():
            await self._writable.wait()
        if self._deserted:
            raise MCPError(CONNECTION_CLOSED, CLOSED)
        number = next(self._numbers)
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            return await answer
        except asyncio.CancelledError:
            if self._pending.pop(number, None) is not None:
                about = {"requestId": number, "reason": "caller cancelled"}
                with contextlib.suppress(MCPError):  # then there is no reader to notify
                    self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about})
            raise

    def desert(self) -> None:
        """Fail every waiting and every later request: the reader has stopped."""
        self._deserted = True
        for number in list(self._pending):
            self._settle(number, ErrorData(code=CONNECTION_CLOSED, message=CLOSED))

    def _write(self, message: dict[str, Any]) -> None:
        try:
            self._stdin().write(msgspec.json.encode(message) + b"\n")
        except anyio.BrokenResourceError:
            raise MCPError(CONNECTION_CLOSED, CLOSED) from None

    def _settle(self, number: int | str, outcome: dict[str, Any] | ErrorData) -> None:
        answer = self._pending.pop(number)
        if answer.done():
            return  # cancelled, in this very turn
        if isinstance(outcome, ErrorData):
            answer.set_exception(MCPError(code=outcome.code, message=outcome.message, data=outcome.data))
        else:
            answer.set_result(outcome)

    def end(self) -> None:
        """Wake every task that waits for a message or for room to write: there are no more messages."""
        self._ended = True
        self._arrived.set()
        self._writable.set()

    def _stdin(self) -> asyncio.WriteTransport:
        if self._input is None or self._ended or self._input.is_closing():
            raise anyio.BrokenResourceError
        return self._input

    def _pause(self, pause: bool) -> None:
        self._paused = pause
        if self._output is not None and not self._output.is_closing():
            if pause:
                self._output.pause_reading()
            else:
                self._output.resume_reading()

    def _extend(self, piece: bytes) -> None:
        """Add to the line that is being received; of one that is too long only both its edges are kept."""
        if self._edges is None:
            self._line += piece
            if len(self._line) <= self._answer_bytes:
                return
            self._edges = (bytes(self._line[:_EDGE_BYTES]), bytes(self._line[-_EDGE_BYTES:]))
            self._line = bytearray()
            if found := _ID_AT_START.match(self._edges[0]):
                self._lines.append(self._refusal(found))
                self._arrived.set()
        else:
            self._edges = (self._edges[0], (self._edges[1] + piece)[-_EDGE_BYTES:])

    def _finish(self) -> None:
        """The line that is being received is complete."""
        if self._edges is not None:
            start, end = self._edges
            if not _ID_AT_START.match(start):
                if found := _ID_AT_END.search(end):
                    self._lines.append(self._refusal(found))
                else:
                    self._on_fault(f"It sent a message of more than {self._answer_bytes} bytes that names no call.")
                    self.end()
        elif self._line:
            # A large one is handed over without a copy: one of 30 MB takes 20 ms.
            line = self._line if len(self._line) > _LARGE_BYTES else bytes(self._line)
            self._lines.append(line)
            self._unread_bytes += len(line)
            self._line = bytearray()
        self._edges = None

    def _refusal(self, found: re.Match[bytes]) -> SessionMessage:
        error = ErrorData(code=INTERNAL_ERROR, message=too_large(self._answer_bytes))
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=msgspec.json.decode(found[1]), error=error))


class _Output(asyncio.Protocol):
    """Passes on a child's output in the turn in which it is read; a subprocess transport takes one more."""

    def __init__(self, child: Child, before: asyncio.BaseProtocol) -> None:
        self._child = child
        self._before = before

    def data_received(self, data: bytes) -> None:
        self._child.pipe_data_received(1, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._before.connection_lost(exc)


def too_large(answer_bytes: int) -> str:
    """The error text for a message that is not read to its end."""
    return f"The answer is larger than {answer_bytes} bytes. Ask for less, or raise answer_bytes in the config."


def read_line(line: bytes | bytearray) -> "list[SessionMessage | Exception]":
    """The messages in one line, split as leniently as possible; an exception for each part that is not a message.

    The result of a long line is not decoded.
    """
    if len(line) > _LARGE_BYTES:
        return [_large_message(line)]
    if not line.strip():
        return []
    try:
        data = read_exactly(line)
    except (ValueError, RecursionError):
        try:
            # Not UTF-8, NaN or half a character in it: still the answer to a call.
            data = read_leniently(line) if line.lstrip().startswith((b"{", b"[")) else None
        except (ValueError, RecursionError) as error:
            return [_unreadable(line, error)]
    items = data if isinstance(data, list) else [data]
    return [_message(item) for item in items]


def whole_message(result: Mapping[str, Any]) -> bytes | bytearray | None:
    """The message of a result, or of parameters, that were not decoded."""
    return _kept.take(result.get(WHOLE))


def _keep(message: bytes | bytearray) -> dict[str, Any]:
    """A small result in place of a large one, which the SDK would copy and scan."""
    lost = {"type": "text", "text": "The answer was lost on its way."}
    return {WHOLE: _kept.put(message, len(message)), "content": [lost], "isError": True}


def stand_in(message: bytes, number: int | str | None = None) -> bytes | None:
    """A small message in place of a large one, for readers that decode messages themselves; the large one is kept.

    `number` is the id of the request that it answers, if that is known. None for a message that is not large, and for
    one whose kind cannot be recognized.
    """
    if len(message) <= _LARGE_BYTES:
        return None
    small = _large_message(message, number)
    if isinstance(small, Exception):
        return None
    return small.message.model_dump_json(by_alias=True, exclude_unset=True).encode()


class Kept(Generic[_T]):
    """Holds large parts of messages outside the SDK, which copies its input. Each has a secret key."""

    def __init__(self, *, seconds: float, most_bytes: int) -> None:
        """Beyond `most_bytes` the oldest is dropped for a new one."""
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._things: OrderedDict[str, tuple[_T, int]] = OrderedDict()

    def put(self, thing: _T, size: int) -> str:
        """Keep a thing of `size` bytes; returns its key."""
        key = secrets.token_hex(16)
        self._things[key] = (thing, size)
        # The answer to a cancelled request is never taken.
        asyncio.get_running_loop().call_later(self._seconds, self._things.pop, key, None)
        while len(self._things) > 1 and sum(size for _, size in self._things.values()) > self._most_bytes:
            self._things.popitem(last=False)
        return key

    def take(self, key: object) -> _T | None:
        """Remove and return the thing under a key."""
        found = self._things.pop(key, None) if isinstance(key, str) else None
        return None if found is None else found[0]


_kept: Kept[bytes | bytearray] = Kept(seconds=5.0, most_bytes=256 << 20)
"""Messages between the moment when they came and the one when they are asked for, which is the next."""


class _Envelope(msgspec.Struct):
    """Fields that are not named here, the result among them, are read over."""

    id: int | str | None = None
    method: str | None = None


def _envelope(message: bytes | bytearray) -> tuple[int | str | None, str | None]:
    """The id and the method of a large message; an answer has no method, a notification no id.

    Raises `ValueError` if it is neither, or cannot be read.
    """
    found = _ANSWER_AT_START.match(message[:_EDGE_BYTES])
    if found is None and len(message) > _ENVELOPE_BYTES:
        if _METHOD_AT_START.match(message[:_EDGE_BYTES]) is not None:
            raise ValueError("a message of the server's own that is too large")
        found = _ID_AT_END.search(message[-_EDGE_BYTES:])
        if found is None:
            raise ValueError("a large message that names no call")
    if found is not None:
        return msgspec.json.decode(found[1], type=int | str), None
    try:
        envelope = msgspec.json.decode(message, type=_Envelope)
    except RecursionError as error:
        raise ValueError("a message that is nested too deeply") from error
    if envelope.id is None and envelope.method is None:
        raise ValueError("a large message that answers no call")
    return envelope.id, envelope.method


def _large_message(line: bytes | bytearray, asked: int | str | None = None) -> SessionMessage | Exception:
    """A message whose result or parameters are not decoded; it is kept as it came. It answers `asked`, if given."""
    try:
        number, method = _envelope(line)
    except ValueError as error:
        return _unreadable(line, error, asked)
    if method is not None:
        return _call(number, method, {WHOLE: _kept.put(line, len(line))})
    number = number if asked is None else asked
    return SessionMessage(JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=_keep(line)))


def _call(number: int | str | None, method: str, params: dict[str, Any]) -> SessionMessage:
    """A request, or a notification if it has no id."""
    if number is None:
        return SessionMessage(JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params))
    return SessionMessage(JSONRPCRequest.model_construct(jsonrpc="2.0", id=number, method=method, params=params))


def _unreadable(
    line: bytes | bytearray, error: Exception, asked: int | str | None = None
) -> SessionMessage | Exception:
    """An error for the request that this message answers, if it names one: else the caller waits for its timeout."""
    number = edge_id(line) if asked is None else asked
    if number is None:
        return ValueError(str(error))
    is_deep = isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)
    what = "is nested too deeply to be read" if is_deep else "is not JSON"
    data = ErrorData(code=INTERNAL_ERROR, message=f"The answer {what}. Ask for less, or for something simpler.")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=data))


def edge_id(line: bytes | bytearray) -> int | str | None:
    """The id of a message that is not decoded, if it stands at its beginning or at its end."""
    found = _ID_AT_START.match(line[:_EDGE_BYTES]) or _ID_AT_END.search(line[-_EDGE_BYTES:])
    return None if found is None else msgspec.json.decode(found[1], type=int | str)


def _message(data: Any) -> SessionMessage | Exception:
    if not isinstance(data, dict):
        return ValueError("no JSON-RPC message")
    number, method = data.get("id"), data.get("method")
    if isinstance(number, bool) or not isinstance(number, (int, str, type(None))):
        return ValueError("no usable id")
    if isinstance(method, str):
        params = data.get("params")
        return _call(number, method, params if isinstance(params, dict) else {})
    if number is not None and isinstance(result := data.get("result"), dict):
        return SessionMessage(JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=result))
    if number is not None and ("error" in data or "result" in data):
        error = _error(data.get("error"))
        return SessionMessage(JSONRPCError.model_construct(jsonrpc="2.0", id=number, error=error))
    return ValueError("no JSON-RPC message")


def _error(error: Any) -> ErrorData:
    fields = error if isinstance(error, dict) else {"message": error}
    code, text = fields.get("code"), fields.get("message")
    return ErrorData(
        code=code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        message=text if isinstance(text, str) else "The server's answer is neither a result nor an error.",
        data=fields.get("data"),
    )
