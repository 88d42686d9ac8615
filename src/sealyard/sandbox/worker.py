"""One run on one worker: the frame loop, the deadline, and what an unexpected end means.

A worker is used once: `begin`, await `ended`, `conclude`. Whatever happens in between, `stop` kills it.
"""

import asyncio
import binascii
import codecs
import contextlib
import math
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from sealyard.errors import HelperFailed, InvalidRequest, SandboxBroken
from sealyard.offload import Offload, check_dense, decode
from sealyard.sandbox import wire
from sealyard.sandbox.cgroup import Leaf
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.sandbox.zygote import Exit, Fork, Zygote
from sealyard.values.documents import read_exactly
from sealyard.values.runs import OWN_CALLS, Failure, FailureKind, OnOutput, Reply, limit_failure

OnCall = Callable[[str, dict[str, Any]], Awaitable[Any]]
Step = Callable[[], Awaitable[None]]

_LEAVE_SECONDS = 2.0  # for one that hung up to be gone
_CODED_BYTES = 3 << 18  # of a file that is encoded before others have a turn: a millisecond; a multiple of three
_FRAME_OVERHEAD = 64 << 10  # of a call beside its arguments: the tool's name and the frame's own fields
_READ_BYTES = 64 << 10  # at once; for more, every read would take memory from the system and give it back
_WORDS_BYTES = 512 << 10  # of a last frame beside its result: five texts of 16,384 characters, each as \\u1234
_PREVIEW_BYTES = 1 << 10  # by which a preview may miss its size
_SHOWN_CHARACTERS = 100  # of a name that the code chose, in a message
_NOTICED_SECONDS = 0.1  # a shorter delay before a run begins does not explain why it ran out of time
_UNREAD_BYTES = 64 << 20  # of answers that wait for the code to read them
_PIECE_BYTES = 256 << 10  # of an answer that is sent before others have a turn: a tenth of a millisecond
_MOST_OWN_CALLS = 1_000  # in one run; the guest reports at most 200 times, and no run needs this many skills
_CALLS_PAST_LIMIT = 100  # after this many refused calls the code is not going to stop by itself


class RunClock:
    """The wall clock of one run, which stands still while a person is asked about one of its calls.

    The other limits of the run, such as CPU time, do not stand still with it.
    """

    def __init__(self) -> None:
        self._holds = 0
        self._since = 0.0
        self._still_seconds = 0.0
        self._left_seconds = 0.0
        self._on_deadline: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.end_by = math.inf
        """The latest end of the run by the loop's clock, if this one never pauses. Set before the start."""
        self.on_change: Callable[[bool], None] | None = None
        """Called with True when it pauses, and with False when it goes on."""

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hold the clock. It goes on when all holders have let go."""
        loop = asyncio.get_running_loop()
        self._holds += 1
        if self._holds == 1:
            self._since = loop.time()
            if self._timer is not None:
                self._left_seconds = max(0.0, self._timer.when() - self._since)
                self._cancel_timer()
            if self.on_change is not None:
                self.on_change(True)
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._still_seconds += loop.time() - self._since
                if self._on_deadline is not None:
                    self._set_timer(self._on_deadline)
                if self.on_change is not None:
                    self.on_change(False)

    @property
    def still_seconds(self) -> float:
        """For how long it stood still so far."""
        now = asyncio.get_running_loop().time()
        return self._still_seconds + (now - self._since if self._holds else 0.0)

    def start(self, seconds: float, on_deadline: Callable[[], None]) -> float:
        """Call `on_deadline` after `seconds` of this clock, or at `end_by`; returns the seconds that are left."""
        left = self.end_by + self.still_seconds - asyncio.get_running_loop().time()
        self._left_seconds = max(0.0, min(seconds, left))
        self._on_deadline = on_deadline
        if not self._holds:
            self._set_timer(on_deadline)
        return self._left_seconds

    def stop(self) -> None:
        """Forget the deadline."""
        self._on_deadline = None
        self._cancel_timer()

    def _set_timer(self, on_deadline: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._left_seconds, on_deadline)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run: `done` when the worker reported it, else `failure`."""

    done: wire.Done | None = None
    result: Any = None
    notes: list[str] = []
    failure: Failure | None = None
    attacked: wire.Attacked | None = None
    output: str
    output_bytes: int
    tool_calls: int
    exit: Exit | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run, and the parts of the gateway that serve it."""

    policy: IsolationPolicy
    on_call: OnCall | None = None
    """Answers the code's tool calls."""
    on_output: OnOutput | None = None
    step: Step | None = None
    """Awaited before each call."""
    clock: RunClock = msgspec.field(default_factory=RunClock)
    inline_bytes: int
    """A larger result breaks the protocol: it belongs into a file."""
    offload: Offload | None = None
    """Looks at large arguments and results, for the principal `who`."""
    who: str = ""
    is_probe: bool = False


class Worker:
    """The host's view of one waiting or running worker."""

    def __init__(self, fork: Fork, *, zygote: Zygote, leaf: Leaf | None, policy: IsolationPolicy) -> None:
        self.fork = fork
        self.zygote = zygote
        self.leaf = leaf
        self._loop = asyncio.get_running_loop()
        self._connection = fork.connection
        self._fd = fork.connection.fileno()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when its run is over, in whatever way, or when it hung up."""
        self._reader = wire.FrameReader(_FRAME_OVERHEAD)
        self._terms = Terms(policy=policy, inline_bytes=policy.result_bytes)
        """Of its run, once that has begun."""
        self._calls: dict[int, asyncio.Task[None] | None] = {}
        """Its calls that are not answered, by their numbers; None for one that waits in the backlog."""
        self._backlog: deque[wire.Call | wire.LargeCall] = deque()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._call_count = 0
        self._own_call_count = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._output: list[str] = []
        self._output_bytes = 0
        self._output_open = False
        self._is_sealed = False
        self._seconds = 0.0
        """The time it may run: the wall limit less the time before it."""
        self._done: wire.Done | None = None
        self._notes: list[str] = []
        self._attacked: wire.Attacked | None = None
        self._failure: Failure | None = None
        self._broken: str | None = None
        self._host_error: BaseException | None = None
        self._is_closed = False
        self._loop.add_reader(self._fd, self._on_frames_readable)

    @property
    def is_waiting(self) -> bool:
        """True if it can still be given a run."""
        return not self._is_closed and not self.fork.exited.done() and not self.ended.done()

    def begin(
        self,
        order: bytes,
        job: bytes,
        terms: Terms,
        *,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Have the worker seal itself and run the job, until `ended` is done.

        Raises:
            SandboxBroken: The worker is gone.
        """
        self._terms = terms
        self._reader.max_bytes = max(terms.inline_bytes + _WORDS_BYTES, terms.policy.call_bytes + _FRAME_OVERHEAD)
        self._loop.add_reader(self.fork.output_fd, self._on_output_readable)
        self._output_open = True
        self.fork.exited.add_done_callback(self._on_exit)
        self._seconds = terms.clock.start(terms.policy.wall_seconds, self._on_deadline)
        data = wire.pack(order) + wire.pack(job)
        try:
            sent = (
                socket.send_fds(self._connection, [data], descriptors) if descriptors else self._connection.send(data)
            )
        except OSError as error:
            raise SandboxBroken(f"A waiting worker was gone: {error}.") from error
        if sent < len(data):
            self._queue([memoryview(data)[sent:]])

    async def conclude(self) -> End:
        """The end of the run, once it has ended.

        Raises:
            SandboxBroken: The worker could not be made or sealed, or its zygote ended.
        """
        self._drain_output()
        if self._done is None and self._attacked is None and self._failure is None and self._host_error is None:
            await self._explain_end()
        if self._host_error is not None:
            raise self._host_error
        result = None if self._done is None else await self._decode_result(self._done)
        return End(
            done=self._done,
            result=result,
            notes=self._notes,
            failure=self._failure,
            attacked=self._attacked,
            output="".join(self._output) + self._decoder.decode(b"", final=True),
            output_bytes=self._output_bytes,
            tool_calls=self._call_count,
            exit=self.fork.exited.result() if self.fork.exited.done() else None,
        )

    async def _decode_result(self, done: wire.Done) -> Any:
        """The result; a helper counts the values of a large one first. A run with too many of them has failed."""
        data = bytes(done.result)
        try:
            if len(data) > wire.LARGE_BYTES:
                await check_dense("The result", data, self._terms.offload, who=self._terms.who)
            return read_exactly(data)
        except (InvalidRequest, HelperFailed) as error:
            hint = "Return less: aggregate in the code, or write the rest to a file of the workspace."
            self._failure = Failure(kind="result", type="TooLarge", message=str(error), hint=hint)
        except (ValueError, RecursionError):
            self._fail("protocol", "The worker broke the protocol with a result that is not JSON.")
        return None

    def stop(self) -> None:
        """Kill the worker and everything in it, and give up its calls."""
        self.fork.kill()
        self.end()

    def end(self) -> None:
        """End the run as far as the gateway is concerned, and give up its calls."""
        self._terms.clock.stop()
        if not self.ended.done():
            self.ended.set_result(None)
        for task in self._calls.values():
            if task is not None:
                task.cancel()

    def close(self) -> None:
        """Close our ends of a worker that was stopped; `fork.exited` is done when it is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._output_open:
            self._loop.remove_reader(self.fork.output_fd)
            self._output_open = False
        os.close(self.fork.output_fd)
        self._loop.remove_reader(self._fd)
        if self._unsent:
            self._loop.remove_writer(self._fd)
            self._unsent.clear()
        self._connection.close()

    # Frames from the worker. Nothing below may raise into the event loop.

    def _on_frames_readable(self) -> None:
        """Take frames; a worker that breaks the protocol is killed."""
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
        if self.ended.done():
            return
        try:
            for body in self._reader.feed(data):
                frame = wire.parse(body)
                if isinstance(frame, wire.Call | wire.LargeCall) and self._is_sealed:
                    if self._admits(frame, len(body)):
                        self._calls[frame.id] = self._loop.create_task(self._answer(frame))
                else:
                    self._take(frame, len(body))
                if self.ended.done():
                    return
        except wire.ProtocolError as error:
            self._fail("protocol", f"The worker broke the protocol with {error}.")

    def _check_done(self, done: wire.Done, size: int) -> None:
        """Raise `ProtocolError` for a last frame of `size` bytes that is not what the runner sends."""
        result_bytes = len(bytes(done.result))
        if result_bytes > self._terms.inline_bytes + _PREVIEW_BYTES:
            raise wire.ProtocolError(f"a result of {result_bytes:,} bytes, which belongs into a file")
        if size - result_bytes > _WORDS_BYTES:
            raise wire.ProtocolError(f"an end of {size:,} bytes")
        if not done.ok and done.failure is None:
            raise wire.ProtocolError("a failure that does not say which")

    def _on_exit(self, _: "asyncio.Future[Exit | None]") -> None:
        """Drop the calls in the backlog, and read what the worker sent before its end."""
        if self._backlog and not self._is_closed:
            for frame in self._backlog:
                del self._calls[frame.id]
            self._backlog.clear()
            self._loop.add_reader(self._fd, self._on_frames_readable)

    def _hang_up(self) -> None:
        """The worker ended, or closed its connection."""
        self._loop.remove_reader(self._fd)
        if not self.ended.done():
            if self._reader.is_inside_frame:
                self._fail("protocol", "The worker broke the protocol with half a frame.")
            else:
                self.ended.set_result(None)

    def _take(self, frame: wire.Frame, size: int) -> None:
        """Take a frame other than a call of a sealed worker."""
        if isinstance(frame, wire.Sealed) and not self._is_sealed:
            self._is_sealed = True
        elif isinstance(frame, wire.Broken):
            self._broken = frame.error
            self.ended.set_result(None)
        elif not self._is_sealed:
            raise wire.ProtocolError(f"a {type(frame).__name__} frame before it was sealed")
        elif isinstance(frame, wire.Done):
            self._check_done(frame, size)
            self._notes = wire.notes_of(frame)
            self._done = frame
            self.ended.set_result(None)
        elif isinstance(frame, wire.Attacked):
            if not self._terms.is_probe:
                raise wire.ProtocolError("an answer of a probe where there is none")
            self._attacked = frame
            self.ended.set_result(None)
        else:
            raise wire.ProtocolError(f"a second {type(frame).__name__} frame")

    def _admits(self, frame: wire.Call | wire.LargeCall, size: int) -> bool:
        """Count a call; returns True if it can be answered now. Otherwise it waits in the backlog or is refused."""
        if self.fork.exited.done():
            return False
        policy = self._terms.policy
        if size > policy.call_bytes + _FRAME_OVERHEAD:
            raise wire.ProtocolError(f"a call of {size:,} bytes")
        if frame.id in self._calls:
            raise wire.ProtocolError("two calls with one number")
        if frame.tool in OWN_CALLS:
            self._own_call_count += 1
            count, limit, what = self._own_call_count, _MOST_OWN_CALLS, "calls for skills and stubs"
        else:
            self._call_count += 1
            count, limit, what = self._call_count, policy.tool_calls, "tool calls"
        if count > limit:
            if count > limit + _CALLS_PAST_LIMIT:
                self._fail("calls", f"The code went on calling tools after its limit of {limit:,} calls.")
            else:
                self._reply_error(frame.id, "CallsExceeded", f"The run may make at most {limit:,} {what}.")
            return False
        if len(self._calls) < policy.concurrent_calls:
            return True
        # One read may hold many calls: those over the limit wait here, the rest in the worker.
        if not self._backlog:
            self._loop.remove_reader(self._fd)
        self._calls[frame.id] = None
        self._backlog.append(frame)
        return False

    async def _answer(self, frame: wire.Call | wire.LargeCall) -> None:
        """Answer one call. The callback's failure is the code's to handle."""
        terms = self._terms
        try:
            if terms.on_call is None:
                what = "skill can be had" if frame.tool in OWN_CALLS else f"tool named {frame.tool!r}"
                self._reply_error(frame.id, "ToolError", f"No {what}: this run has no tools.")
                return
            args = frame.args if isinstance(frame, wire.Call) else await self._decode(frame)
            if terms.step is not None:
                await terms.step()
            value = await terms.on_call(frame.tool, args)
            self._send(await _with_files(frame.id, value) if isinstance(value, Reply) else _reply(frame.id, value))
        except Exception as error:  # noqa: BLE001
            self._reply_error(frame.id, type(error).__name__, str(error))
        except asyncio.CancelledError:
            if self.ended.done():
                raise
            # Something the callback waited for was cancelled; the run goes on and its code must hear of it.
            self._reply_error(frame.id, "ToolError", f"The call of {frame.tool!r} was cancelled.")
        finally:
            del self._calls[frame.id]
            if self._backlog:
                self._answer_next()

    def _answer_next(self) -> None:
        """Begin with a call of the backlog, in place of one that was answered."""
        if self.ended.done():
            return
        frame = self._backlog.popleft()
        self._calls[frame.id] = self._loop.create_task(self._answer(frame))
        if not self._backlog:
            self._loop.add_reader(self._fd, self._on_frames_readable)

    async def _decode(self, frame: wire.LargeCall) -> dict[str, Any]:
        """The arguments of a large call. Raises `InvalidRequest` for more than the gateway looks at."""
        what = f"What {frame.tool[:_SHOWN_CHARACTERS]!r} is called with"
        args = await decode(bytes(frame.args), self._terms.offload, who=self._terms.who, what=what)
        await asyncio.sleep(0)  # others have a turn before the next step on this much data
        if not isinstance(args, dict):
            raise InvalidRequest(f"{what} is not an object. Leave descriptor 3 alone.")
        return args

    def _reply_error(self, number: int, type_name: str, message: str) -> None:
        message = message.encode("utf-8", "replace").decode()
        reply = {"t": "reply", "id": number, "ok": False, "type": type_name, "message": message}
        self._send([msgspec.json.encode(reply)])

    def _send(self, parts: list[bytes | memoryview]) -> None:
        """Send a frame after those that wait, as fast as the worker reads."""
        if self._is_closed:
            return
        size = sum(map(len, parts))
        if self._unsent or size > _PIECE_BYTES:
            self._queue([memoryview(part) for part in (wire.pack_length(size), *parts)])
            return
        data = b"".join((wire.pack_length(size), *parts))
        try:
            sent = self._connection.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is gone, which its end explains
        if sent < len(data):
            self._queue([memoryview(data)[sent:]])

    def _queue(self, pieces: list[memoryview]) -> None:
        if not self._unsent:
            self._loop.add_writer(self._fd, self._send_more)
        self._unsent += pieces
        self._unsent_bytes += sum(map(len, pieces))
        if self._unsent_bytes > _UNREAD_BYTES and not self.ended.done():
            self._fail("protocol", "The worker broke the protocol: it does not read the answers to its calls.")

    def _send_more(self) -> None:
        """Send a piece of what waits: others have a turn before the next one."""
        part = self._unsent.popleft()
        try:
            sent = self._connection.send(part[:_PIECE_BYTES])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._unsent.clear()  # it is gone, which its end explains
            sent = len(part)
        self._unsent_bytes -= sent
        if sent < len(part):
            self._unsent.appendleft(part[sent:])
        if not self._unsent:
            self._loop.remove_writer(self._fd)

    def _on_output_readable(self) -> None:
        if self.ended.done():  # what came before its end is taken by `conclude`, and nobody wants the rest
            self._loop.remove_reader(self.fork.output_fd)
            return
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
        room = self._terms.policy.output_bytes - self._output_bytes
        self._output_bytes += len(data)
        text = self._decoder.decode(data[: max(room, 0)])
        if text:
            self._output.append(text)
            if self._terms.on_output is not None:
                try:
                    self._terms.on_output(text)
                except Exception as error:  # noqa: BLE001 - the caller's own; `run` raises it
                    self._host_error = error
                    if not self.ended.done():
                        self.ended.set_result(None)
        if len(data) > room and self._failure is None:
            self._fail("output", f"The code wrote more than {self._terms.policy.output_bytes:,} bytes of output.")

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
        if not self.ended.done():
            limit = self._terms.policy.wall_seconds
            before = limit - self._seconds
            message = f"The code ran longer than {limit:g} s and was stopped."
            if before > _NOTICED_SECONDS:
                message = f"The code was stopped: {before:.1f} of its {limit:g} s were over before it began."
            self._fail("wall_time", message)

    def end_for(self, kind: FailureKind, message: str) -> None:
        """End the run for a limit that is watched from outside."""
        if not self.ended.done():
            self._fail(kind, message)

    def _fail(self, kind: FailureKind, message: str) -> None:
        self._failure = limit_failure(kind, message)
        self._done = None
        if not self.ended.done():
            self.ended.set_result(None)

    async def _explain_end(self) -> None:
        """The connection ended without a word: find out why, before the worker is killed."""
        if self._broken is not None and not self._is_sealed:
            raise SandboxBroken(f"A worker could not be sealed: {self._broken}.")
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                ended = await asyncio.shield(self.fork.exited)
        except TimeoutError:
            self._fail("protocol", "The worker broke the protocol: it closed its connection and went on.")
            return
        if self.fork.trouble is not None:
            raise SandboxBroken(f"A worker could not be made: {self.fork.trouble}.")
        if ended is None:
            raise SandboxBroken("The zygote ended during the run. Run again: a new one is started.")
        if not self._is_sealed:
            raise SandboxBroken(f"A worker died before it was sealed (signal {ended.signal}, status {ended.code}).")
        self._failure = self._failure_of(ended)

    def _failure_of(self, ended: Exit) -> Failure:
        policy = self._terms.policy
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
    """The body of an answer with files, of which a piece is encoded at a time."""
    parts: list[bytes | memoryview] = [b'{"t":"reply","id":%d,"ok":true,"value":' % number]
    parts += (msgspec.json.encode(value.value), b',"files":{')
    for index, (path, content) in enumerate(value.files.items()):
        parts += (b"," if index else b"", msgspec.json.encode(path), b':"')
        for start in range(0, len(content), _CODED_BYTES):
            parts.append(binascii.b2a_base64(content[start : start + _CODED_BYTES], newline=False))
            await asyncio.sleep(0)
        parts.append(b'"')
    return [*parts, b"}}"]
