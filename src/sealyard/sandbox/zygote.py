"""The gateway's view of a zygote: orders out, workers and workspaces back.

One `Zygote` is one process tree. When it ends, by `close` or by accident, every worker forked from it is dead.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
from typing import Any, cast

import msgspec

from sealyard.errors import SandboxBroken, SandboxUnavailable
from sealyard.sandbox import spawn
from sealyard.sandbox.packages import GuestPackages
from sealyard.sandbox.policy.levels import IsolationPolicy

__all__ = ("Exit", "Fork", "Zygote")

_START_SECONDS = 120.0
_ORDER_SECONDS = 30.0
_END_SECONDS = 5.0
_ORDERS_AT_ONCE = 32  # what is under way fits the socket's buffer with room to spare


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker's process ended, as its parent saw it."""

    slot: int
    signal: int | None
    code: int | None
    cpu_seconds: float
    memory_peak_bytes: int


class Fork(msgspec.Struct, kw_only=True):
    """A forked worker: our ends of its connection and its output, its process, and how it will have ended."""

    slot: int
    connection: socket.socket
    output_fd: int
    pidfd: int
    exited: "asyncio.Future[Exit | None]"
    """None when the zygote ended first and nobody knows."""

    def abandon(self) -> None:
        """Kill the worker and let go of it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        os.close(self.pidfd)
        os.close(self.output_fd)
        self.connection.close()


class Zygote:
    """A running zygote. Make one with `start`."""

    def __init__(self, process: spawn.Process) -> None:
        self._process = process
        self._control = process.control
        self._loop = asyncio.get_running_loop()
        self._tickets = itertools.count(1)
        self._orders = asyncio.Semaphore(_ORDERS_AT_ONCE)
        self._answers: dict[str, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._exits: dict[int, asyncio.Future[Exit | None]] = {}
        self._watching = False
        self.is_alive = True
        self.failed_packages: dict[str, str] = {}
        self.landlock_abi = 0
        self.missing_layers: tuple[str, ...] = ()
        self.touched_bytes = 0
        """Memory that every worker begins with and that belongs to no file."""

    @classmethod
    async def start(
        cls,
        policy: IsolationPolicy,
        *,
        tier: spawn.Tier,
        privileged: bool,
        packages: GuestPackages,
        package_path: str,
        workspaces: str | None,
        library: str | None,
    ) -> "Zygote":
        """Execute a zygote and wait until it is ready.

        Raises:
            SandboxUnavailable: It could not build its walls; the message says at which step.
        """
        process = spawn.start(
            policy,
            tier=tier,
            privileged=privileged,
            packages=packages,
            package_path=package_path,
            workspaces=workspaces,
            library=library,
        )
        zygote = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await zygote._get_ready(tier)
        except TimeoutError:
            await zygote.close()
            raise SandboxUnavailable(f"The zygote was not ready within {_START_SECONDS:.0f} s.") from None
        except BaseException:
            await zygote.close()
            raise
        return zygote

    async def _get_ready(self, tier: spawn.Tier) -> None:
        while True:
            message, _ = await self._receive_one()
            if message is None:
                words = self._process.last_words()
                raise SandboxUnavailable(f"The zygote of tier {tier!r} ended before it was ready. {words}".strip())
            if message["op"] == "map":
                try:
                    spawn.map_users(self._process.child.pid)
                except OSError as error:
                    raise SandboxUnavailable(f"The workers' users could not be mapped: {error}.") from error
                self._control.send(b'{"op":"mapped"}')
            elif message["op"] == "failed":
                raise SandboxUnavailable(f"{message['order']} failed: {message['error']}")
            else:
                break
        self.failed_packages = dict(message["packages"])
        self.landlock_abi = int(message["layers"]["landlock_abi"])
        self.missing_layers = tuple(message["missing"])
        self.touched_bytes = int(message["touched_bytes"])
        self._loop.add_reader(self._control, self._on_readable)
        self._watching = True

    async def _receive_one(self) -> tuple[dict[str, Any] | None, list[int]]:
        await _wait_readable(self._loop, self._control.fileno())
        return self._read_packet()

    def _read_packet(self) -> tuple[dict[str, Any] | None, list[int]]:
        try:
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
        """A new worker; one that `waits` warms up before it gets a run.

        `library` is the folder of stubs that its run will likely ask for.
        `entrances` are the descriptors by which it enters its control groups; they are closed here in any case.

        Raises:
            SandboxBroken: The zygote cannot make one.
        """
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            for entrance in entrances:
                theirs.callback(os.close, entrance)
            connection, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.callback(connection.close)
            theirs.callback(far_end.close)
            output_read, output_write = os.pipe()
            ours.callback(os.close, output_read)
            theirs.callback(os.close, output_write)
            connection.setblocking(False)
            os.set_blocking(output_read, False)
            exited: asyncio.Future[Exit | None] = self._loop.create_future()
            self._exits[slot] = exited
            order = {"op": "fork", "slot": slot, "user": user, "cores": cores, "waits": waits, "library": library}
            handed = [far_end.fileno(), output_write, *entrances]
            _, descriptors = await self._order(f"slot {slot}", order, handed)
            ours.pop_all()
        return Fork(slot=slot, connection=connection, output_fd=output_read, pidfd=descriptors[0], exited=exited)

    async def create_workspace(self, number: int, *, size_bytes: int, files: int) -> int:
        """Make a workspace and return a descriptor of its root that outlives the zygote."""
        order = {"op": "create", "number": number, "bytes": size_bytes, "files": files}
        return (await self._ticketed(order))[0]

    async def adopt_workspace(self, number: int, root_fd: int) -> int:
        """Take over a workspace of an earlier zygote; `root_fd` is used up and another one returned."""
        return (await self._ticketed({"op": "adopt", "number": number}, [root_fd]))[0]

    async def lease_workspace(self, number: int) -> int:
        """A descriptor to hand to one worker."""
        return (await self._ticketed({"op": "lease", "number": number}))[0]

    async def remove_workspace(self, number: int) -> None:
        """Forget a workspace; its memory is freed when the last descriptor of it is closed."""
        await self._ticketed({"op": "remove", "number": number})

    async def _ticketed(self, order: dict[str, Any], descriptors: list[int] | None = None) -> list[int]:
        ticket = next(self._tickets)
        return (await self._order(f"ticket {ticket}", order | {"ticket": ticket}, descriptors or []))[1]

    async def _order(self, key: str, order: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        async with self._orders:
            if not self.is_alive:
                raise SandboxBroken("The zygote ended. Run again: a new one is started.")
            answer: asyncio.Future[tuple[dict[str, Any], list[int]]] = self._loop.create_future()
            self._answers[key] = answer
            try:
                socket.send_fds(self._control, [msgspec.json.encode(order)], fds)
                async with asyncio.timeout(_ORDER_SECONDS):
                    message, descriptors = await answer
            except BaseException as error:
                if answer.done() and not answer.cancelled() and answer.exception() is None:
                    _let_go(*answer.result())  # it came just as the caller gave up
                if isinstance(error, OSError | TimeoutError):
                    raise SandboxBroken(f"The zygote did not carry out {order['op']!r}: {error!r}.") from error
                raise
            finally:
                self._answers.pop(key, None)
        if message["op"] == "failed":
            raise SandboxBroken(f"The zygote could not carry out {message['order']!r}: {message['error']}.")
        return message, descriptors

    def _on_readable(self) -> None:
        message, descriptors = self._read_packet()
        if message is None:
            self._end()
            return
        if message["op"] == "exited":
            exited = self._exits.pop(message["slot"], None)
            if exited is not None and not exited.done():
                exited.set_result(msgspec.convert({k: v for k, v in message.items() if k != "op"}, Exit))
            return
        key = f"slot {message['slot']}" if "slot" in message else f"ticket {message['ticket']}"
        answer = self._answers.get(key)
        if answer is not None and not answer.done():
            answer.set_result((message, descriptors))
            return
        _let_go(message, descriptors)

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
        for exited in self._exits.values():
            if not exited.done():
                exited.set_result(None)
        self._exits.clear()

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
            os.close(self._process.stderr_fd)


def _let_go(message: dict[str, Any], descriptors: list[int]) -> None:
    """Give back what was ordered by somebody who has given up."""
    for fd in descriptors:
        if "slot" in message:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
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
