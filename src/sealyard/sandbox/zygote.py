"""The gateway's view of a zygote: orders out, workers and workspaces back.

One `Zygote` is one process tree. When it ends, by `close` or by accident, every worker forked from it is dead.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Any, cast

import msgspec

from sealyard.errors import SandboxBroken, SandboxUnavailable
from sealyard.sandbox import spawn
from sealyard.sandbox.ahead import Ahead
from sealyard.values.runs import Tier

_log = logging.getLogger(__name__)

_START_SECONDS = 120.0  # for its imports, before it is ready: seconds with data packages, far more from a cold disk
_ORDER_SECONDS = 30.0  # for one answer to an order: it takes a millisecond, and longer only on a machine that swaps
_END_SECONDS = 5.0  # for an orderly end, which takes milliseconds; then it is killed
_ORDERS_AT_ONCE = 32  # of some hundred bytes each: they fit the socket's buffer of 200 kB with room to spare
_TOO_MANY_FILES = "the gateway has too many open files. Raise its limit of open files"


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a worker's process, as its parent saw it."""

    slot: int
    signal: int | None
    code: int | None
    cpu_seconds: float
    memory_peak_bytes: int


class Fork:
    """A worker that is ordered: our ends of its connection and its output, its process, and how it will have ended.

    What is sent to it before it is born waits for it in its connection.
    """

    def __init__(self, slot: int, connection: socket.socket, output_fd: int, handed: contextlib.ExitStack) -> None:
        """`handed` closes the worker's ends, once it has them.

        To close a socket while descriptors are in transit makes the kernel search for cycles, which takes time.
        """
        loop = asyncio.get_running_loop()
        self.slot = slot
        self._handed = handed
        self.connection = connection
        self.output_fd = output_fd
        self.pidfd: int | None = None
        """A descriptor of its process; None until it is born and after `close`."""
        self.born: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[Exit | None] = loop.create_future()
        """None when it was never born, or the zygote ended first and nobody knows."""
        self.trouble: str | None = None
        """The reason why it was not born, or could not be used."""
        self._is_doomed = False

    def note_birth(self, pidfd: int) -> None:
        """Take the descriptor of its process."""
        self.pidfd = pidfd
        self._handed.close()
        self.born.set_result(None)
        if self._is_doomed:
            self.kill()

    def note_trouble(self, trouble: str | None) -> None:
        """Take the reason why it cannot be used, if any; one that was born is still to end."""
        self.trouble = trouble
        self._handed.close()
        if not self.born.done():
            self.born.set_result(None)

    def note_end(self, exit_: Exit | None, trouble: str | None = None) -> None:
        """Take how it ended."""
        self.note_trouble(trouble or self.trouble)
        if not self.exited.done():
            self.exited.set_result(exit_)

    def kill(self) -> None:
        """Kill the worker and everything in it, as soon as there is something to kill."""
        self._is_doomed = True
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Close the descriptor of its process, which has ended."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


class Zygote:
    """A running zygote. Make one with `start`."""

    def __init__(self, started: spawn.ZygoteProcess) -> None:
        self._started = started
        self._process = started.process
        self._control = started.process.connection
        self._loop = asyncio.get_running_loop()
        self._tickets = itertools.count(1)
        self._orders = asyncio.Semaphore(_ORDERS_AT_ONCE)
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._forks: dict[int, Fork] = {}
        self._watching = False
        self._users = 0
        self.idle = asyncio.Event()
        """Set while it has no worker that was ordered and is not gone."""
        self.idle.set()
        self.is_alive = True
        self.landlock_abi = 0
        self.missing_layers: tuple[str, ...] = ()
        self.touched_bytes = 0
        """Memory that every worker begins with and that belongs to no file."""

    @classmethod
    async def start(cls, setup: spawn.Setup, directory: Path | None, ahead: Ahead | None = None) -> "Zygote":
        """Execute a zygote, or take the one that was started `ahead`, and wait until it is ready.

        Raises:
            SandboxUnavailable: It could not build its walls; the message says at which step.
        """
        started = None if ahead is None else ahead.take(setup, directory)
        zygote = cls(started or spawn.start(setup, directory))
        try:
            async with asyncio.timeout(_START_SECONDS):
                await zygote._get_ready(setup.tier)
        except TimeoutError:
            await zygote.close()
            raise SandboxUnavailable(f"The zygote was not ready within {_START_SECONDS:.0f} s.") from None
        except BaseException:
            await zygote.close()
            raise
        return zygote

    async def _get_ready(self, tier: Tier) -> None:
        await _wait_readable(self._loop, self._control.fileno())
        message, _ = self._read_packet()
        if message is None:
            words = self._started.last_words()
            raise SandboxUnavailable(f"The zygote of tier {tier!r} ended before it was ready. {words}".strip())
        if message["op"] == "failed":
            raise SandboxUnavailable(f"{message['order']} failed: {message['error']}")
        for name, reason in message["packages"].items():
            _log.warning("The package %s cannot be imported in the sandbox: %s", name, reason)
        self.landlock_abi = int(message["layers"]["landlock_abi"])
        self.missing_layers = tuple(message["missing"])
        self.touched_bytes = int(message["touched_bytes"])
        self._loop.add_reader(self._control, self._on_readable)
        self._watching = True

    def _read_packet(self) -> tuple[dict[str, Any] | None, list[int]]:
        try:
            # At the limit of open files the packet comes without its descriptor.
            packet, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 4)
        except ConnectionResetError:
            return None, []
        return (cast(dict[str, Any], json.loads(packet)) if packet else None), list(descriptors)

    async def fork(
        self,
        slot: int,
        *,
        user: int | None,
        cores: list[int] | None,
        waits: bool,
        entrances: list[int],
        library: str | None,
    ) -> Fork:
        """Order a new worker; one that `waits` warms up before it gets a run.

        `library` is the folder of stubs that its run will likely ask for.
        `entrances` are the descriptors by which it enters its control groups.

        Raises:
            SandboxBroken: The zygote cannot be asked.
        """
        await self._orders.acquire()
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            ours.callback(self._orders.release)
            if not self.is_alive:
                raise SandboxBroken("The zygote ended. Run again: a new one is started.")
            connection, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.callback(connection.close)
            theirs.callback(far_end.close)
            output_read, output_write = os.pipe()
            ours.callback(os.close, output_read)
            theirs.callback(os.close, output_write)
            connection.setblocking(False)
            os.set_blocking(output_read, False)
            order = {"op": "fork", "slot": slot, "user": user, "cores": cores, "waits": waits, "library": library}
            handed = [far_end.fileno(), output_write, *entrances]
            try:
                socket.send_fds(self._control, [msgspec.json.encode(order)], handed)
            except OSError as error:
                raise SandboxBroken(f"The zygote did not take the order for a worker: {error!r}.") from error
            ours.pop_all()
            fork = self._forks[slot] = Fork(slot, connection, output_read, theirs.pop_all())
        fork.born.add_done_callback(lambda _: self._orders.release())
        return fork

    def retain(self) -> None:
        """Count one more worker, until `release`."""
        self._users += 1
        self.idle.clear()

    def release(self) -> None:
        """Count one worker less."""
        self._users -= 1
        if not self._users:
            self.idle.set()

    async def create_workspace(self, number: int, *, size_bytes: int, files: int) -> int:
        """Make a workspace and return a descriptor of its root that outlives the zygote."""
        order = {"op": "create", "number": number, "bytes": size_bytes, "files": files}
        descriptors = await self._ticketed(order)
        if not descriptors:
            await self.remove_workspace(number)  # or the next one of this number could not be made
        return _only(descriptors)

    async def adopt_workspace(self, number: int, root_fd: int) -> int:
        """Take over a workspace of an earlier zygote; `root_fd` is used up and another one returned."""
        return _only(await self._ticketed({"op": "adopt", "number": number}, [root_fd]))

    async def lease_workspace(self, number: int) -> int:
        """A descriptor to hand to one worker."""
        return _only(await self._ticketed({"op": "lease", "number": number}))

    async def remove_workspace(self, number: int) -> None:
        """Forget a workspace; its memory is freed when the last descriptor of it is closed."""
        await self._ticketed({"op": "remove", "number": number})

    async def _ticketed(self, order: dict[str, Any], fds: list[int] | None = None) -> list[int]:
        ticket = next(self._tickets)
        async with self._orders:
            if not self.is_alive:
                raise SandboxBroken("The zygote ended. Run again: a new one is started.")
            answer: asyncio.Future[tuple[dict[str, Any], list[int]]] = self._loop.create_future()
            self._answers[ticket] = answer
            try:
                socket.send_fds(self._control, [msgspec.json.encode(order | {"ticket": ticket})], fds or [])
                async with asyncio.timeout(_ORDER_SECONDS):
                    message, descriptors = await answer
            except BaseException as error:
                if answer.done() and not answer.cancelled() and answer.exception() is None:
                    _close_all(answer.result()[1])  # it came just as the caller gave up
                if isinstance(error, OSError | TimeoutError):
                    raise SandboxBroken(f"The zygote did not carry out {order['op']!r}: {error!r}.") from error
                raise
            finally:
                self._answers.pop(ticket, None)
        if message["op"] == "failed":
            raise SandboxBroken(f"The zygote could not carry out {message['order']!r}: {message['error']}.")
        return descriptors

    def _on_readable(self) -> None:
        message, descriptors = self._read_packet()
        if message is None:
            self._end()
        elif "slot" in message:
            self._note_fork(message, descriptors)
        else:
            answer = self._answers.get(message["ticket"])
            if answer is not None and not answer.done():
                answer.set_result((message, descriptors))
            else:
                _close_all(descriptors)  # the orderer has given up

    def _note_fork(self, message: dict[str, Any], descriptors: list[int]) -> None:
        slot = message["slot"]
        if message["op"] == "forked" and descriptors:
            self._forks[slot].note_birth(descriptors[0])
        elif message["op"] == "forked":
            self._forks[slot].note_trouble(_TOO_MANY_FILES)
            self._kill(slot)
        elif message["op"] == "failed":
            self._forks.pop(slot).note_end(None, message["error"])
        else:
            self._forks.pop(slot).note_end(msgspec.convert({k: v for k, v in message.items() if k != "op"}, Exit))

    def _kill(self, slot: int) -> None:
        """Have the zygote kill a worker whose descriptor did not come."""
        try:
            self._control.send(msgspec.json.encode({"op": "kill", "slot": slot}))
        except OSError:
            self.hang_up()  # then all of them die: no worker may live that nobody can kill

    def _end(self) -> None:
        """The zygote is gone, and so are its workers."""
        if not self.is_alive:
            return
        self.is_alive = False
        if self._watching:
            self._loop.remove_reader(self._control)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(SandboxBroken("The zygote ended. Run again: a new one is started."))
        for fork in self._forks.values():
            fork.note_end(None)
        self._forks.clear()

    def hang_up(self) -> None:
        """Let the zygote end, and with it every worker; `close` waits for that."""
        self._end()
        self._control.close()

    async def close(self) -> None:
        """End the zygote and with it every worker, and wait until the process is gone."""
        self.hang_up()
        child = self._process.child
        try:
            if child.poll() is None:
                await _wait_for_exit(self._loop, child.pid)
        except TimeoutError:
            child.kill()
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
            os.close(self._started.stderr_fd)


def _only(descriptors: list[int]) -> int:
    """The descriptor of an answer. Raises `SandboxBroken` for one that came without."""
    if not descriptors:
        raise SandboxBroken(f"A workspace could not be taken: {_TOO_MANY_FILES}.")
    return descriptors[0]


def _close_all(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)


async def _wait_for_exit(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        async with asyncio.timeout(_END_SECONDS):
            await _wait_readable(loop, pidfd)
    finally:
        os.close(pidfd)


async def _wait_readable(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
