"""The helper processes of one gateway: the order of requests, the memory of each helper, and its end."""

import asyncio
import contextlib
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec

from sealyard import errors
from sealyard.errors import HelperFailed, SealyardError
from sealyard.offload.child import LENGTHS, Order, Report, pack, unpack_lengths
from sealyard.offload.process import Process, start

_HELPERS = max(4, min(8, os.cpu_count() or 1))
"""At most: four let several principals work at once on a small machine, and eight take 320 MB of memory. Each is
started when it is first needed."""
_SHARE = 4
"""One principal uses at most one helper in four: its long requests must leave some for others."""
_IDLE_SECONDS = 300.0
"""After which an unused helper is ended."""
_RUN_SECONDS = 30.0
"""For one request, if it has no shorter deadline: no run has more by default."""
_QUEUED = 256
"""Requests of one principal that wait: four runs with all their calls at once."""
_MEMORIES = 64
"""Memories that one helper keeps, a bound: the least used gives way to a new one, and is sent again when needed."""
_RESIDENT_BYTES = 512 << 20
"""A helper that grew larger over one request is replaced by a fresh one."""
_PIECE_BYTES = 1 << 20
"""Of a document, written before other tasks get a turn."""


class Memory(Protocol):
    """Data that helpers keep between requests, such as the values that a session has seen."""

    key: str
    """Unique."""

    def since(self, position: Any) -> tuple[Any, bytes, Any]:
        """The parameters and the document added after `position`, and the new position. It is None at first.

        The position stays the same when nothing was added.
        """
        ...


class HelperResult(msgspec.Struct, frozen=True):
    """The answer of a helper to a request."""

    result: Any
    document: bytes | bytearray


OnQuery = Callable[[Any], Awaitable[Any]]


class Offload:
    """Runs tasks of `child.TASKS` in helper processes. For one event loop.

    Requests of one principal are served in their order, those of several in turn.
    """

    def __init__(self, *, helpers: int = _HELPERS, seconds: float = _RUN_SECONDS) -> None:
        self._helpers = helpers
        self._share = max(1, helpers // _SHARE)
        self._seconds = seconds
        self._idle: list[_Helper] = []
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._background: set[asyncio.Task[None]] = set()
        self._generation = 0
        """Helpers of an earlier generation remember erased values."""
        self._is_closed = False

    async def run(
        self,
        task: str,
        params: Any,
        document: bytes | bytearray = b"",
        *,
        who: str,
        memory: Memory | None = None,
        on_query: OnQuery | None = None,
    ) -> HelperResult:
        """Run a task on a document for the principal `who`. Cancelling ends the helper with its work.

        Raises:
            HelperFailed: It took too long, or its helper ended; or there are too many requests already.
            SealyardError: The task raised it.
        """
        await self._wait_for_turn(who)
        helper: _Helper | None = None
        is_kept = False
        try:
            helper = self._idle.pop() if self._idle else await _Helper.open(self._generation)
            async with asyncio.timeout(self._seconds):
                answered = await helper.run(task, params, document, self._seconds, memory, on_query)
            is_kept = True
            return answered
        except TimeoutError:
            raise HelperFailed(f"It took longer than {self._seconds:g} s. Send less of it at once.") from None
        except (OSError, EOFError, ValueError) as error:
            raise HelperFailed(f"The helper process that worked on it ended ({type(error).__name__}).") from None
        except _TaskFailed as failed:
            is_kept = True
            raise failed.error from None
        finally:
            if helper is not None:
                self._put_back(helper, is_kept=is_kept)
            self._running[who] -= 1
            self._serve_next()

    def warm(self) -> None:
        """Start the first helper in the background, so that the first request does not wait for it."""
        self._begin(self._warm())

    async def _warm(self) -> None:
        with contextlib.suppress(HelperFailed):  # the request that needs one raises it then
            await self.run("warm", None, who="")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work in the background, which `close` waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def retire(self) -> None:
        """End idle helpers, with all that they remember; busy ones end when they are done."""
        while self._idle:
            self._begin(self._idle.pop().end())
        self._generation += 1

    async def close(self) -> None:
        """End all helpers and cancel the requests that wait for one."""
        self._is_closed = True
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()
        self.retire()
        await asyncio.gather(*self._background)

    # Turns

    async def _wait_for_turn(self, who: str) -> None:
        if self._is_closed:
            raise HelperFailed("The gateway is closing. Try again with the next one.")
        waiting = self._waiting.setdefault(who, deque())
        if len(waiting) >= _QUEUED:
            raise HelperFailed(f"{_QUEUED} requests of {who!r} wait to be looked through. Make fewer calls at once.")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        self._serve_next()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # it was given its turn in the same moment
                self._running[who] -= 1
            self._serve_next()
            raise

    def _serve_next(self) -> None:
        """Give the next principal its turn, as long as there are helpers."""
        for who in list(self._waiting):
            waiting = self._waiting[who]
            while waiting and waiting[0].done():  # its request was cancelled
                waiting.popleft()
            if not waiting:
                del self._waiting[who]
            elif self._running.total() < self._helpers and self._running[who] < self._share:
                self._running[who] += 1
                self._waiting.move_to_end(who)
                waiting.popleft().set_result(None)
        self._running += Counter()  # drops zero counts

    # Helpers

    def _put_back(self, helper: "_Helper", *, is_kept: bool) -> None:
        if is_kept and not self._is_closed and not helper.is_swollen and helper.generation == self._generation:
            self._idle.append(helper)
            helper.idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._end_idle, helper)
        else:
            self._begin(helper.end())

    def _end_idle(self, helper: "_Helper") -> None:
        if helper in self._idle:
            self._idle.remove(helper)
            self._begin(helper.end())


class _TaskFailed(Exception):
    """The task raised; its helper is as good as before."""

    def __init__(self, error: SealyardError) -> None:
        super().__init__()
        self.error = error


class _Helper:
    """One helper process."""

    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, generation: int
    ) -> None:
        self.generation = generation
        self._process = process
        self._reader = reader
        self._writer = writer
        self._positions: OrderedDict[str, Any] = OrderedDict()
        self._decoder = msgspec.json.Decoder(Report)
        self._resident_bytes = 0
        self.idle: asyncio.TimerHandle | None = None
        """Ends it when it was idle for long."""

    @classmethod
    async def open(cls, generation: int) -> "_Helper":
        process = start()
        reader, writer = await asyncio.open_unix_connection(sock=process.connection, limit=_PIECE_BYTES)
        return cls(process, reader, writer, generation)

    @property
    def is_swollen(self) -> bool:
        return self._resident_bytes > _RESIDENT_BYTES

    async def run(
        self,
        task: str,
        params: Any,
        document: bytes | bytearray,
        seconds: float,
        memory: Memory | None,
        on_query: OnQuery | None,
    ) -> HelperResult:
        """Carry out a task. Raises `_TaskFailed`, and `OSError`, `EOFError` or `ValueError` if the helper broke."""
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None
        if memory is not None:
            await self._synchronize(task, memory)
        key = "" if memory is None else memory.key
        await self._send(Order(do="run", task=task, key=key, params=params, seconds=seconds), document)
        while True:
            report, body = await self._receive()
            if report.is_done:
                self._resident_bytes = report.resident_bytes
                return HelperResult(report.result, body)
            if report.error:
                raise _TaskFailed(_error(report))
            if on_query is None:
                raise ValueError("an unexpected query")
            await self._send(Order(do="reply", params=await on_query(report.result)), b"")

    async def end(self) -> None:
        """Kill it and leave nothing behind."""
        if self.idle is not None:
            self.idle.cancel()
        self._process.kill()
        self._writer.transport.abort()
        await asyncio.to_thread(self._process.reap)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _synchronize(self, task: str, memory: Memory) -> None:
        known = self._positions.get(memory.key)
        while True:
            params, body, position = memory.since(known)
            if position == known:
                break
            await self._send(Order(do="remember", task=task, key=memory.key, params=params), body)
            known = self._positions[memory.key] = position
        self._positions[memory.key] = known
        self._positions.move_to_end(memory.key)
        if len(self._positions) > _MEMORIES:
            key, _ = self._positions.popitem(last=False)
            await self._send(Order(do="forget", key=key), b"")

    async def _send(self, order: Order, body: bytes | bytearray) -> None:
        self._writer.write(pack(order, len(body)))
        view = memoryview(body)
        for start_ in range(0, len(body), _PIECE_BYTES):
            self._writer.write(view[start_ : start_ + _PIECE_BYTES])
            await self._writer.drain()
            await asyncio.sleep(0)  # a helper that reads as fast as this writes would have it go on to the end
        await self._writer.drain()

    async def _receive(self) -> tuple[Report, bytes | bytearray]:
        head_bytes, body_bytes = unpack_lengths(await self._reader.readexactly(LENGTHS.size))
        head = await self._reader.readexactly(head_bytes)
        return self._decoder.decode(head), await self._take(body_bytes)

    async def _take(self, size: int) -> bytes | bytearray:
        """Read this many bytes; many of them piece by piece, since to copy the largest document takes 20 ms."""
        if size <= _PIECE_BYTES:
            return await self._reader.readexactly(size)
        taken = bytearray()
        while len(taken) < size:
            taken += await self._reader.readexactly(min(_PIECE_BYTES, size - len(taken)))
            await asyncio.sleep(0)
        return taken


def _error(report: Report) -> SealyardError:
    """The error that a task raised, if it is one of ours."""
    kind = getattr(errors, report.error, None)
    if isinstance(kind, type) and issubclass(kind, SealyardError) and isinstance(report.result, str):
        return kind(report.result)
    return HelperFailed(f"It could not be looked through ({report.error[:100]}).")
