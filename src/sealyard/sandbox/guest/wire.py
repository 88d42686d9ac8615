"""Frames between a worker and the gateway, seen from the inside.

A frame is four bytes of little-endian length and that many bytes of JSON. Calls may come from any thread and from
any number of asyncio tasks at once; replies arrive in any order. Standard library only.
"""

import asyncio
import base64
import itertools
import json
import os
import socket
import struct
import threading
from typing import Any

_LENGTH = struct.Struct("<I")
_DESCRIPTOR = struct.Struct("i")
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_quoted = json.encoder.encode_basestring_ascii


class ToolError(Exception):
    """A tool failed or a call was refused; the message is the tool's own."""

    __str__ = BaseException.__str__  # the message as it came, where a built-in such as `KeyError` would quote it


class Channel:
    """The one connection to the gateway."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self._ids = itertools.count(1)
        self._sending = threading.Lock()
        self._state = threading.Condition()
        self._reading = False
        self._waiting: dict[int, _Waiter] = {}
        self._watched: dict[int, tuple[asyncio.AbstractEventLoop, int]] = {}

    def receive_with_descriptors(self) -> tuple[dict[str, Any], list[int]]:
        """The first frame and not a byte more, with the descriptors that came along.

        Raises `EOFError` when the gateway is gone.
        """
        head, ancillary, _, _ = self._socket.recvmsg(_LENGTH.size, socket.CMSG_SPACE(_DESCRIPTOR.size))
        if not head:
            raise EOFError
        while len(head) < _LENGTH.size:
            head += self._some(_LENGTH.size - len(head))
        body = b""
        while len(body) < _LENGTH.unpack(head)[0]:
            body += self._some(_LENGTH.unpack(head)[0] - len(body))
        return parsed(body), [_DESCRIPTOR.unpack(data)[0] for _, _, data in ancillary]

    def receive(self) -> dict[str, Any]:
        """The next frame. Raises `EOFError` when the gateway is gone."""
        while True:
            frame = self._next_buffered()
            if frame is not None:
                return frame
            self._buffer += self._some(1 << 16)

    def _some(self, at_most: int) -> bytes:
        data = self._socket.recv(at_most)
        if not data:
            raise EOFError
        return data

    def send(self, body: str) -> None:
        """Send one frame whose JSON text is `body`."""
        data = body.encode()
        with self._sending:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def call(self, tool: str, arguments: str) -> Any:
        """Call `tool` with JSON text `arguments` and wait for the answer. Raises what the gateway answered."""
        waiter = _Waiter()
        number = self._post(waiter, tool, arguments)
        state = self._state
        while True:
            with state:
                while waiter.reply is None and self._reading:
                    state.wait()
                if waiter.reply is not None:
                    break
                self._reading = True
            self._read_one(number)
        return _value(waiter.reply)

    async def call_async(self, tool: str, arguments: str) -> Any:
        """Like `call`, without holding up other tasks of the running loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._watch(loop)
        try:
            self._post(_AsyncWaiter(loop, future), tool, arguments)
            return _value(await future)
        finally:
            self._unwatch(loop)

    def _post(self, waiter: "_Waiter", tool: str, arguments: str) -> int:
        number = next(self._ids)
        self._waiting[number] = waiter
        self.send(f'{{"t":"call","id":{number},"tool":{_quoted(tool)},"args":{arguments}}}')
        return number

    def _read_one(self, number: int) -> None:
        """As the one reader, take frames until the reply to `number` or to another caller has come."""
        try:
            frame = self.receive()
        except BaseException:
            with self._state:
                self._reading = False
                self._waiting.pop(number, None)
                self._state.notify_all()
            raise
        with self._state:
            self._reading = False
            self._dispatch(frame)
            # Frames that came along must not stay here: a task that waits for one is woken by the socket only.
            while (more := self._next_buffered()) is not None:
                self._dispatch(more)
            self._state.notify_all()

    def _dispatch(self, frame: dict[str, Any]) -> None:
        waiter = self._waiting.pop(frame["id"], None)
        if waiter is not None:
            waiter.settle(frame)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        key = id(loop)
        count = self._watched.get(key, (loop, 0))[1]
        if count == 0:
            loop.add_reader(self._socket.fileno(), self._on_readable)
        self._watched[key] = (loop, count + 1)

    def _unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        key = id(loop)
        count = self._watched[key][1] - 1
        if count:
            self._watched[key] = (loop, count)
        else:
            del self._watched[key]
            if not loop.is_closed():
                loop.remove_reader(self._socket.fileno())

    def _on_readable(self) -> None:
        with self._state:
            if self._reading:  # a thread is at it and will dispatch what belongs to tasks
                return
            try:
                data = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not data:
                raise EOFError
            self._buffer += data
            while (frame := self._next_buffered()) is not None:
                self._dispatch(frame)
            self._state.notify_all()

    def _next_buffered(self) -> dict[str, Any] | None:
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        end = 4 + _LENGTH.unpack_from(buffer)[0]
        if len(buffer) < end:
            return None
        frame = parsed(bytes(buffer[4:end]))
        del buffer[:end]
        return frame


def parsed(body: bytes) -> dict[str, Any]:
    """The value of a frame. Raises `ValueError`."""
    text = body.decode()
    try:
        frame: dict[str, Any]
        frame, end = _scan(text, 0)
        if end == len(text):
            return frame
    except StopIteration:
        pass
    return json.loads(text)  # type: ignore[no-any-return]  # its error names the fault


class _Waiter:
    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: dict[str, Any] | None = None

    def settle(self, reply: dict[str, Any]) -> None:
        self.reply = reply


class _AsyncWaiter(_Waiter):
    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[dict[str, Any]]") -> None:
        super().__init__()
        self._loop = loop
        self._future = future

    def settle(self, reply: dict[str, Any]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle_in_loop, reply)
        except RuntimeError:
            return  # the loop is closed: the caller gave up

    def _settle_in_loop(self, reply: dict[str, Any]) -> None:
        if not self._future.done():
            self._future.set_result(reply)


def _value(reply: dict[str, Any]) -> Any:
    if reply["ok"]:
        for path, content in reply.get("files", {}).items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(content))
        return reply["value"]
    raise _error_type(reply["type"])(reply["message"])


_NOT_FROM_A_MESSAGE = (UnicodeError, BaseExceptionGroup)  # cannot be made of a message alone
_error_types: dict[str, type[ToolError]] = {}


def _error_type(name: str) -> type[ToolError]:
    """An exception class called `name`: a `ToolError`, and also the built-in of that name when there is one."""
    known = _error_types.get(name)
    if known is not None:
        return known
    builtin = getattr(__import__("builtins"), name, None)
    bases: tuple[type, ...] = (ToolError,)
    if isinstance(builtin, type) and issubclass(builtin, Exception) and not issubclass(builtin, _NOT_FROM_A_MESSAGE):
        bases = (ToolError, builtin) if builtin is not Exception else (ToolError,)
    made: type[ToolError] = ToolError if name == "ToolError" else type(name, bases, {"__module__": "__main__"})
    _error_types[name] = made
    return made
