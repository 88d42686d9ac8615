"""One run on one worker: the frame loop, the deadline, and what an unexpected end means.

A worker is used once. Whatever happens, it is killed when `Worker.run` returns or is cancelled.
"""

import asyncio
import binascii
import codecs
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest, SandboxBroken
from sealyard.offload import Offload, decode
from sealyard.sandbox import wire
from sealyard.sandbox.cgroup import Leaf
from sealyard.sandbox.clock import RunClock
from sealyard.sandbox.policy.levels import IsolationPolicy
from sealyard.sandbox.zygote import Exit, Fork
from sealyard.values import Failure, FailureKind, Reply

__all__ = ("OWN_CALLS", "End", "OnCall", "OnOutput", "Worker", "limit_failure")

OWN_CALLS = frozenset(("load_skill", "load_stub", "skill_began", "skill_ended"))
"""What the guest itself asks for or tells: no tools, and not counted as calls of them."""

OnCall = Callable[[str, dict[str, Any]], Awaitable[Any]]
OnOutput = Callable[[str], None]

_EXIT_SECONDS = 10.0  # for a killed worker to be reaped
_LEAVE_SECONDS = 2.0  # for one that hung up to be gone
_CODED_BYTES = 3 << 18  # of a file that is encoded before others have a turn: a millisecond; a multiple of three
_FRAME_OVERHEAD = 64 << 10
_WORDS_BYTES = 512 << 10  # of a last frame beside its result: five texts of 16,384 characters, each as \\u1234
_PREVIEW_BYTES = 1 << 10  # by which a preview may miss its size
_SHOWN_CHARACTERS = 100
_NOTICED_SECONDS = 0.1  # what is shorter before a run begins is no part of why it ran out of time
_UNREAD_BYTES = 64 << 20  # of answers that wait for the code to read them
_PIECE_BYTES = 256 << 10  # of an answer that is sent before others have a turn: a tenth of a millisecond
_OWN_CALLS = 1_000  # in one run; the guest reports at most 200 times, and nobody needs so many skills
_CALLS_PAST_LIMIT = 100  # after so many refused calls the code is not going to stop by itself

_LIMITS: dict[FailureKind, tuple[str, str]] = {
    "wall_time": ("WallTimeExceeded", "Do less in one run, or ask for a longer timeout (at most 120 s)."),
    "cpu_time": ("CpuTimeExceeded", "Do less in one run: filter earlier, avoid nested loops over all the data."),
    "memory": ("MemoryExceeded", "Work on smaller pieces: filter early, use generators, drop what is not needed."),
    "output": ("OutputExceeded", "Print less: put data into `result` or a file of the workspace."),
    "processes": (
        "ProcessesExceeded",
        "Use fewer threads; code here cannot start processes unless its policy allows them.",
    ),
    "calls": ("CallsExceeded", "Call tools fewer times: ask for more in one call, or split the job."),
    "workspace": ("WorkspaceExceeded", "Delete files that are no longer needed, or write less."),
    "protocol": ("ProtocolBroken", "The code interfered with its own connection. Leave descriptor 3 alone."),
}


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: `done` when the worker said so itself, else `failure`."""

    done: wire.Done | None = None
    failure: Failure | None = None
    attacked: wire.Attacked | None = None
    output: str
    output_bytes: int
    tool_calls: int
    exit: Exit | None = None


class Worker(asyncio.Protocol):
    """The host's view of one waiting or running worker."""

    def __init__(self, fork: Fork, *, leaf: Leaf | None) -> None:
        self.fork = fork
        self.leaf = leaf
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._hung_up = asyncio.Event()
        self._reader = wire.FrameReader(_FRAME_OVERHEAD)
        self._policy: IsolationPolicy | None = None
        self._on_call: OnCall | None = None
        self._on_output: OnOutput | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._call_ids: set[int] = set()
        self._backlog: deque[wire.Call | wire.LargeCall] = deque()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._is_sending = False
        self._is_full = False
        self._call_count = 0
        self._own_call_count = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._output: list[str] = []
        self._output_bytes = 0
        self._output_open = False
        self._is_sealed = False
        self._is_probe = False
        self._seconds = 0.0
        """That it may run: of the wall limit, what came before it is taken off."""
        self._call_bytes = 0
        self._inline_bytes = 0
        self._offload: Offload | None = None
        self._who = ""
        self._done: wire.Done | None = None
        self._attacked: wire.Attacked | None = None
        self._failure: Failure | None = None
        self._broken: str | None = None
        self._host_error: BaseException | None = None
        self._is_discarded = False

    async def connect(self) -> None:
        """Start listening; until then the worker just waits."""
        transport, _ = await self._loop.create_unix_connection(lambda: self, sock=self.fork.connection)
        self._transport = transport

    @property
    def is_waiting(self) -> bool:
        """Whether it can still be given a run."""
        return not self._is_discarded and not self.fork.exited.done() and not self._ended.done()

    async def run(
        self,
        order: bytes,
        job: bytes,
        *,
        descriptors: list[int],
        policy: IsolationPolicy,
        on_call: OnCall | None,
        on_output: OnOutput | None,
        is_probe: bool = False,
        clock: RunClock | None = None,
        inline_bytes: int | None = None,
        offload: Offload | None = None,
        who: str = "",
    ) -> End:
        """Seal the worker, run the job, and say how it ended.

        A result over `inline_bytes` breaks the protocol: it belongs into a file. Large arguments are looked at by
        `offload`, for the principal `who`.

        Raises:
            SandboxBroken: The worker could not be sealed, or its zygote ended.
        """
        self._policy = policy
        self._on_call = on_call
        self._on_output = on_output
        self._is_probe = is_probe
        self._call_bytes = policy.call_bytes
        self._inline_bytes = policy.result_bytes if inline_bytes is None else inline_bytes
        self._reader.max_bytes = max(self._inline_bytes + _WORDS_BYTES, policy.call_bytes + _FRAME_OVERHEAD)
        self._offload, self._who = offload, who
        self._loop.add_reader(self.fork.output_fd, self._on_output_readable)
        self._output_open = True
        clock = clock or RunClock()
        self._seconds = clock.start(policy.wall_seconds, self._on_deadline)
        try:
            self._send_first(order, job, descriptors)
            await self._ended
            self._drain_output()
            if self._done is None and self._attacked is None and self._failure is None and self._host_error is None:
                await self._explain_end()
        finally:
            clock.stop()
            self.kill()
            for task in self._calls:
                task.cancel()
        if self._host_error is not None:
            raise self._host_error
        exit_ = self.fork.exited.result() if self.fork.exited.done() else None
        return End(
            done=self._done,
            failure=self._failure,
            attacked=self._attacked,
            output="".join(self._output) + self._decoder.decode(b"", final=True),
            output_bytes=self._output_bytes,
            tool_calls=self._call_count,
            exit=exit_,
        )

    def _send_first(self, order: bytes, job: bytes, descriptors: list[int]) -> None:
        assert self._transport is not None
        try:
            if descriptors:
                socket.send_fds(self.fork.connection, [wire.pack(order)], descriptors)
                self._transport.write(wire.pack(job))
            else:
                self._transport.write(wire.pack(order) + wire.pack(job))
        except OSError as error:
            raise SandboxBroken(f"A waiting worker was gone: {error}.") from error

    def kill(self) -> None:
        """Kill the worker and everything in it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.fork.pidfd, signal.SIGKILL)

    async def wait(self, *, seconds: float = _EXIT_SECONDS) -> Exit | None:
        """How the process ended; None when its zygote ended first."""
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self.fork.exited)

    async def discard(self) -> None:
        """Kill the worker, wait for its end and give back everything it held."""
        if self._is_discarded:
            return
        self._is_discarded = True
        self.kill()
        if self._output_open:
            self._loop.remove_reader(self.fork.output_fd)
            self._output_open = False
        os.close(self.fork.output_fd)
        if self._transport is not None:
            self._transport.abort()
        else:
            self.fork.connection.close()
        try:
            if self._transport is not None:
                await self._hung_up.wait()
            await self.wait()
        finally:
            os.close(self.fork.pidfd)

    # What the worker sends. Nothing below may raise into the event loop.

    def data_received(self, data: bytes) -> None:
        """Take frames; a worker that breaks the protocol is killed."""
        if self._ended.done():
            return
        try:
            for body in self._reader.feed(data):
                frame = wire.parse(body)
                if isinstance(frame, wire.Done | wire.LargeDone):
                    frame = self._bounded(body, frame)
                elif isinstance(frame, wire.LargeCall) and len(body) > self._call_bytes + _FRAME_OVERHEAD:
                    raise wire.ProtocolError(f"a call of {len(body):,} bytes")
                self._take(frame)
                if self._ended.done():
                    return
        except wire.ProtocolError as error:
            self._fail("protocol", f"The worker broke the protocol with {error}.")

    def _bounded(self, body: bytes, frame: wire.Done | wire.LargeDone) -> wire.Frame:
        """The last frame, once it is known that its result is no larger than it may be."""
        if len(body) > self._inline_bytes + _WORDS_BYTES:
            raise wire.ProtocolError(f"an end of {len(body):,} bytes")
        if len(body) > self._inline_bytes:
            result_bytes = wire.result_bytes(body)
            if result_bytes > self._inline_bytes + _PREVIEW_BYTES:
                raise wire.ProtocolError(f"a result of {result_bytes:,} bytes, which belongs into a file")
        return frame if isinstance(frame, wire.Done) else wire.parse(body, is_whole=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The worker ended, or we hung up."""
        self._hung_up.set()
        if not self._ended.done():
            if self._reader.is_inside_frame:
                self._fail("protocol", "The worker broke the protocol with half a frame.")
            else:
                self._ended.set_result(None)

    def _take(self, frame: wire.Frame) -> None:
        if isinstance(frame, wire.Sealed) and not self._is_sealed:
            self._is_sealed = True
        elif isinstance(frame, wire.Broken):
            self._broken = frame.error
            self._ended.set_result(None)
        elif not self._is_sealed:
            raise wire.ProtocolError(f"a {type(frame).__name__} frame before it was sealed")
        elif isinstance(frame, wire.Call | wire.LargeCall):
            self._take_call(frame)
        elif isinstance(frame, wire.Done):
            if not frame.ok and frame.failure is None:
                raise wire.ProtocolError("a failure that does not say which")
            self._done = frame
            self._ended.set_result(None)
        elif isinstance(frame, wire.Attacked):
            if not self._is_probe:
                raise wire.ProtocolError("an answer that nobody asked for")
            self._attacked = frame
            self._ended.set_result(None)
        else:
            raise wire.ProtocolError(f"a second {type(frame).__name__} frame")

    def _take_call(self, frame: wire.Call | wire.LargeCall) -> None:
        assert self._policy is not None
        assert self._transport is not None
        if frame.id in self._call_ids:
            raise wire.ProtocolError("two calls with one number")
        if frame.tool in OWN_CALLS:
            self._own_call_count += 1
            count, limit, what = self._own_call_count, _OWN_CALLS, "calls for skills and stubs"
        else:
            self._call_count += 1
            count, limit, what = self._call_count, self._policy.tool_calls, "tool calls"
        if count > limit:
            if count > limit + _CALLS_PAST_LIMIT:
                self._fail("calls", f"The code went on calling tools after its limit of {limit:,} calls.")
                return
            self._reply_error(frame.id, "CallsExceeded", f"The run may make at most {limit:,} {what}.")
            return
        self._call_ids.add(frame.id)
        if len(self._calls) < self._policy.concurrent_calls:
            self._start_call(frame)
        else:
            # One read may hold many calls: those over the limit wait here, the rest in the worker.
            self._backlog.append(frame)
            self._transport.pause_reading()

    def _start_call(self, frame: wire.Call | wire.LargeCall) -> None:
        task = self._loop.create_task(self._answer(frame))
        self._calls.add(task)
        task.add_done_callback(self._end_call)

    def _end_call(self, task: "asyncio.Task[None]") -> None:
        self._calls.discard(task)
        if self._ended.done() or self._transport is None or self._transport.is_closing():
            return
        if self._backlog:
            self._start_call(self._backlog.popleft())
        if not self._backlog:
            self._transport.resume_reading()

    async def _answer(self, frame: wire.Call | wire.LargeCall) -> None:
        try:
            if self._on_call is None:
                what = "skill can be had" if frame.tool in OWN_CALLS else f"tool named {frame.tool!r}"
                self._reply_error(frame.id, "ToolError", f"No {what}: this run has no tools.")
                return
            try:
                args = frame.args if isinstance(frame, wire.Call) else await self._decode(frame)
                value = await self._on_call(frame.tool, args)
                parts = await _with_files(frame.id, value) if isinstance(value, Reply) else _reply(frame.id, value)
            except Exception as error:  # noqa: BLE001 - the callback's failure is the code's to handle
                self._reply_error(frame.id, type(error).__name__, str(error))
            except asyncio.CancelledError:
                if self._ended.done():
                    raise
                # Something the callback waited for was cancelled; the run goes on and its code must hear of it.
                self._reply_error(frame.id, "ToolError", f"The call of {frame.tool!r} was cancelled.")
            else:
                self._send(parts)
        finally:
            self._call_ids.discard(frame.id)

    async def _decode(self, frame: wire.LargeCall) -> dict[str, Any]:
        """The arguments of a large call. Raises `InvalidRequest` for more than anybody looks at."""
        what = f"What {frame.tool[:_SHOWN_CHARACTERS]!r} is called with"
        args = await decode(bytes(frame.args), self._offload, who=self._who, what=what)
        await asyncio.sleep(0)  # others have a turn before the next thing is done with so much
        if not isinstance(args, dict):
            raise InvalidRequest(f"{what} is no object. Leave descriptor 3 alone.")
        return args

    def _reply_error(self, number: int, type_name: str, message: str) -> None:
        message = message.encode("utf-8", "replace").decode()
        reply = {"t": "reply", "id": number, "ok": False, "type": type_name, "message": message}
        self._send([msgspec.json.encode(reply)])

    def _send(self, parts: list[bytes | memoryview]) -> None:
        """Send a frame after those that wait, as fast as the worker reads."""
        if self._transport is None or self._transport.is_closing():
            return
        size = sum(map(len, parts))
        pieces = (wire.pack_length(size), *parts)
        if size <= _PIECE_BYTES and not self._unsent and not self._is_full:
            self._transport.write(b"".join(pieces))
            return
        self._unsent += map(memoryview, pieces)
        self._unsent_bytes += sum(map(len, pieces))
        if self._unsent_bytes > _UNREAD_BYTES and not self._ended.done():
            self._fail("protocol", "The worker broke the protocol: it does not read the answers to its calls.")
        if not self._is_sending:
            self._send_more()

    def _send_more(self) -> None:
        """Send a piece of what waits: a large answer in one go would be copied as a whole."""
        self._is_sending = False
        room = _PIECE_BYTES
        pieces: list[memoryview] = []
        while room and self._unsent and not self._is_full:
            part = self._unsent.popleft()
            pieces.append(part[:room])
            if len(part) > room:
                self._unsent.appendleft(part[room:])
            room -= len(pieces[-1])
        if self._transport is None or self._transport.is_closing():
            return
        if pieces:
            self._unsent_bytes -= sum(map(len, pieces))
            self._transport.write(b"".join(pieces))
        if self._unsent and not self._is_full:
            self._is_sending = True
            self._loop.call_soon(self._send_more)

    def pause_writing(self) -> None:
        """The worker does not read as fast as it is written to."""
        self._is_full = True

    def resume_writing(self) -> None:
        """It has read what was written."""
        self._is_full = False
        if not self._is_sending:
            self._send_more()

    def _on_output_readable(self) -> None:
        assert self._policy is not None
        try:
            data = os.read(self.fork.output_fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self.fork.output_fd)
            self._output_open = False
            return
        self._take_output(data)

    def _take_output(self, data: bytes) -> None:
        assert self._policy is not None
        room = self._policy.output_bytes - self._output_bytes
        self._output_bytes += len(data)
        text = self._decoder.decode(data[: max(room, 0)])
        if text:
            self._output.append(text)
            if self._on_output is not None:
                try:
                    self._on_output(text)
                except Exception as error:  # noqa: BLE001 - the caller's own; `run` raises it
                    self._host_error = error
                    if not self._ended.done():
                        self._ended.set_result(None)
        if len(data) > room and self._failure is None:
            self._fail("output", f"The code wrote more than {self._policy.output_bytes:,} bytes of output.")

    def _drain_output(self) -> None:
        """Take what was written before the last frame and has not been read yet."""
        while self._output_open:
            try:
                data = os.read(self.fork.output_fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            self._take_output(data)
            if self._failure is not None:
                return

    def _on_deadline(self) -> None:
        assert self._policy is not None
        if not self._ended.done():
            limit = self._policy.wall_seconds
            before = limit - self._seconds
            message = f"The code ran longer than {limit:g} s and was stopped."
            if before > _NOTICED_SECONDS:
                message = f"The code was stopped: {before:.1f} of its {limit:g} s were over before it began."
            self._fail("wall_time", message)

    def end_for(self, kind: FailureKind, message: str) -> None:
        """End the run for a limit that is watched from outside."""
        if not self._ended.done():
            self._fail(kind, message)

    def _fail(self, kind: FailureKind, message: str) -> None:
        self._failure = limit_failure(kind, message)
        self._done = None
        if not self._ended.done():
            self._ended.set_result(None)

    async def _explain_end(self) -> None:
        """The connection ended without a word: find out why, before the worker is killed."""
        if self._broken is not None and not self._is_sealed:
            raise SandboxBroken(f"A worker could not be sealed: {self._broken}.")
        try:
            ended = await self.wait(seconds=_LEAVE_SECONDS)
        except TimeoutError:
            self._fail("protocol", "The worker broke the protocol: it closed its connection and went on.")
            return
        if ended is None:
            raise SandboxBroken("The zygote ended during the run. Run again: a new one is started.")
        if not self._is_sealed:
            raise SandboxBroken(f"A worker died before it was sealed (signal {ended.signal}, status {ended.code}).")
        self._failure = self._failure_of(ended)

    def _failure_of(self, ended: Exit) -> Failure:
        assert self._policy is not None
        policy = self._policy
        out_of_memory = self.leaf is not None and self.leaf.was_out_of_memory()
        if out_of_memory or (self._broken or "").startswith("MemoryError"):
            return limit_failure("memory", f"The code used more than {policy.memory_mib:,} MiB of memory.")
        # The deadline's own kill never gets here, so a kill near the CPU limit is the kernel's. How near is loose:
        # the kernel enforces that limit by ticks and reports exact times.
        if ended.signal in (signal.SIGKILL, signal.SIGXCPU) and ended.cpu_seconds >= policy.cpu_seconds * 0.5:
            return limit_failure("cpu_time", f"The code used more than {policy.cpu_seconds:g} s of CPU time.")
        if ended.signal is not None:
            name = signal.Signals(ended.signal).name if ended.signal in set(signal.Signals) else str(ended.signal)
            forbidden = ended.signal == signal.SIGSYS
            return Failure(
                kind="crash",
                type="ForbiddenSystemCall" if forbidden else "InterpreterCrashed",
                message=f"The interpreter was ended by {name}"
                + (", because it made a system call that is never allowed." if forbidden else "."),
            )
        return Failure(
            kind="exit",
            type="InterpreterExited",
            message=f"The code ended its interpreter with status {ended.code} before it was done.",
            hint="Let the code run to its end; do not call os._exit().",
        )


def _reply(number: int, value: Any) -> list[bytes | memoryview]:
    """The body of an answer. A value that is JSON already is not copied: that takes 20 ms for the largest one."""
    if isinstance(value, msgspec.Raw):
        return [b'{"t":"reply","id":%d,"ok":true,"value":' % number, memoryview(value), b"}"]
    return [msgspec.json.encode({"t": "reply", "id": number, "ok": True, "value": value})]


async def _with_files(number: int, value: Reply) -> list[bytes | memoryview]:
    """The same with files, of which a piece is encoded at a time."""
    parts: list[bytes | memoryview] = [b'{"t":"reply","id":%d,"ok":true,"value":' % number]
    parts += (msgspec.json.encode(value.value), b',"files":{')
    for index, (path, content) in enumerate(value.files.items()):
        parts += (b"," if index else b"", msgspec.json.encode(path), b':"')
        for start in range(0, len(content), _CODED_BYTES):
            parts.append(binascii.b2a_base64(content[start : start + _CODED_BYTES], newline=False))
            await asyncio.sleep(0)
        parts.append(b'"')
    return [*parts, b"}}"]


def limit_failure(kind: FailureKind, message: str) -> Failure:
    """A failure under the name of the limit that was exceeded."""
    type_name, hint = _LIMITS[kind]
    return Failure(kind=kind, type=type_name, message=message, hint=hint)
