"""The pool: workers that wait warm for a run, the zygote they are forked from, and what each of them holds."""

import asyncio
import functools
import itertools
import logging
import os
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from sealyard.errors import SandboxBroken, SandboxClosed, SandboxUnavailable
from sealyard.sandbox import spawn
from sealyard.sandbox.ahead import Ahead
from sealyard.sandbox.cgroup import ControlGroup, Leaf, open_control_group
from sealyard.sandbox.directories import (
    close_directory,
    is_open_to_all,
    make_directory,
    open_directory,
    remove_directory,
)
from sealyard.sandbox.importable.packages import GuestPackages
from sealyard.sandbox.pool.slots import PoolOptions, Slot, Slots
from sealyard.sandbox.worker import RunClock, Worker
from sealyard.sandbox.zygote import Zygote

__all__ = ("Pool", "PoolOptions", "RunClock", "Slot", "Slots")

_log = logging.getLogger(__name__)

_REMOVE_ATTEMPTS = 500  # of a control group, for five seconds: usually the kernel counts a process for milliseconds
_REMOVE_SECONDS = 0.01  # between two of them
_BUSY_SECONDS = 0.01  # from the end of a run to the next one of a client that waits for nothing in between
_LATER_SECONDS = 0.002  # about what it takes to write a run to disk and send its answer
_SESSION_USERS, _RUN_USERS = 1_000, 33_000  # users of sessions and of single runs, inside the workers' range
_USERS_EACH = 32_000  # for runs, and as many for sessions: both fit into 65,536

_T = TypeVar("_T")


class Pool:
    """Forks workers ahead of need, replaces the zygote when it is due or dead, and sees every worker to its end."""

    def __init__(
        self,
        setup: spawn.Setup,
        options: PoolOptions,
        *,
        folder: Path | None,
        ahead: Ahead | None,
        likely_stubs: Callable[[], str | None],
        hand_over: Callable[[Zygote], Awaitable[None]],
    ) -> None:
        self.options = options
        self.directory: Path | None = None
        """The folder of the `landlock` tier's files."""
        self.renewing = asyncio.Lock()
        """Held while a zygote is replaced: what must not fall between the two takes it."""
        self._setup = setup
        self._hand_over = hand_over
        self._folder = folder
        self._ahead = ahead
        self._loop = asyncio.get_running_loop()
        self._likely_stubs = likely_stubs
        self._group: ControlGroup | None = None
        self._zygote: Zygote | None = None
        self._known: tuple[object, ...] = ()
        """The identities of the directories of the host that the zygote knows."""
        self._retiring: set[Zygote] = set()
        self._waiting: deque[Worker] = deque()
        self._refilling: asyncio.Task[None] | None = None
        self._postponed: list[Callable[[], object]] = []
        self._later: asyncio.TimerHandle | None = None
        self._is_busy = False
        """True if the last worker was taken soon after a run had ended."""
        self._ended_at = 0.0
        self._chores: set[asyncio.Future[Any]] = set()
        self._forks = 0
        # Not the zygote's own: workers of an old one may still run, and their groups, folders and users are by slot.
        self._slots = itertools.count(1)
        self._cpus = sorted(os.sched_getaffinity(0))
        self._next_cpu = itertools.count()
        self.has_own_users = spawn.can_change_user() if setup.tier == "landlock" else setup.privileged
        """True if each worker runs as a user of its own."""
        self.holds_tasks = False
        """True once the kernel was seen to hold a worker to its threads; until then they are watched."""
        self.is_closed = False

    async def start(self) -> None:
        """Build the first zygote. Raises `SandboxUnavailable` when this tier cannot be built here."""
        name = secrets.token_hex(4)
        self._group = open_control_group(name)
        if self._setup.tier == "landlock":
            self.directory = open_directory(name, self._folder, reachable=True)
            self.has_own_users = (
                self.has_own_users
                and is_open_to_all(spawn.interpreter(), os.__file__)
                and _can_give_away(self.directory)
            )
        self._zygote, self._known = await self._start_zygote()

    @property
    def resource_control(self) -> str:
        """The holder of the memory limit: `cgroup v2`, `cgroup v1` or `rlimits`."""
        return self._group.name if self._group is not None else "rlimits"

    @property
    def can_fork(self) -> bool:
        """True if code may start processes where its policy allows it: only if all of them can be held together."""
        return (
            self._setup.tier == "namespace"
            and self._group is not None
            and self._group.can_count_cpu
            and self.holds_tasks
        )

    def holds_together(self, worker: Worker) -> bool:
        """True if all of this worker's processes would be held together."""
        return self.can_fork and worker.leaf is not None and worker.leaf.counts_cpu

    @property
    def zygote(self) -> Zygote:
        """The zygote that new workers are forked from. Raises `SandboxClosed`."""
        if self._zygote is None:
            raise SandboxClosed("The sandbox is closed.")
        return self._zygote

    # Workers.

    async def take(self, *, leave: int = 0) -> Worker:
        """A worker for one run: a waiting one if there are more than `leave`. Give it back with `discard`."""
        if self.is_closed:
            raise SandboxClosed("The sandbox is closed.")
        self._is_busy = self._loop.time() - self._ended_at < _BUSY_SECONDS
        while len(self._waiting) > leave:
            worker = self._waiting.popleft()
            # One that was forked while its zygote was replaced knows nothing of the sessions made since.
            if worker.is_waiting and worker.zygote.is_alive and worker.zygote is self._zygote:
                return worker
            self.discard(worker)
        return await self._fork(waits=False)

    def discard(self, worker: Worker, *, is_done: bool = False, can_wait: bool = False) -> "asyncio.Future[None]":
        """Kill a worker and give back what it held; the future is done when it is gone.

        One that `is_done` does nothing any more, and is killed when its answer is sent: to take a process down keeps
        a processor busy for a millisecond. `can_wait` is as for `postpone`. Await the future shielded: others may wait
        for the same.
        """
        gone: asyncio.Future[None] = self._loop.create_future()
        self._chores.add(gone)
        gone.add_done_callback(self._chores.discard)
        self._ended_at = self._loop.time()
        if is_done:
            worker.end()
            self.postpone(functools.partial(self._end_worker, worker, gone), can_wait=can_wait)
        else:
            worker.stop()
            self._loop.call_soon(self._end_worker, worker, gone)  # the task that waits for the run's end goes first
        return gone

    def _end_worker(self, worker: Worker, gone: "asyncio.Future[None]") -> None:
        worker.fork.kill()
        worker.close()
        worker.fork.exited.add_done_callback(lambda _: self._note_gone(worker, gone))

    def _note_gone(self, worker: Worker, gone: "asyncio.Future[None]") -> None:
        """Give back what a worker held that is gone."""
        worker.fork.close()
        if self._group is not None and worker.leaf is not None:
            self._group.discard(worker.leaf)
        worker.zygote.release()
        if self.directory is None:
            gone.set_result(None)
        else:
            self.do_later(self._remove_folder(worker.fork.slot, gone))

    async def _remove_folder(self, slot: int, gone: "asyncio.Future[None]") -> None:
        try:
            await asyncio.to_thread(remove_directory, self.folder_of(slot))
        finally:
            gone.set_result(None)

    def user_of(self, slot: int, session: int | None) -> int | None:
        """A session's files need the same user in each run; every other worker gets one of its own."""
        if not self.has_own_users:
            return None
        user = _RUN_USERS + slot % _USERS_EACH if session is None else _SESSION_USERS + session % _USERS_EACH
        return user + spawn.FIRST_USER if self._setup.tier == "landlock" else user

    def pick_cores(self, cores: int) -> list[int]:
        """The next `cores` processors in turn, or all that there are."""
        first = next(self._next_cpu)
        return [self._cpus[(first + offset) % len(self._cpus)] for offset in range(min(cores, len(self._cpus)))]

    async def restore_directories(self) -> None:
        """Remake those of the gateway's directories that were removed, with a zygote that knows the new ones.

        Costs a few microseconds when all is there. Where the folder above them is gone too, nothing is made: it would
        stand in the way of moving the gateway's data back. Raises `SandboxBroken` when they cannot
        be made.
        """
        zygote = self._zygote
        if zygote is None or self._identities() == self._known:
            return
        if self._folder is not None and not self._folder.parent.exists():
            return
        _log.warning(
            "A directory of the gateway was removed (%s). It is made anew, without its files.", self.directories
        )
        try:
            await self.renew(zygote)
        except OSError as error:
            raise SandboxBroken(f"A directory of the gateway was removed and cannot be made anew: {error}.") from error

    @property
    def directories(self) -> list[Path]:
        """The directories of the host that workers reach."""
        packages = None if self.directory is None else Path(spawn.package_folder(self.directory))
        return [path for path in (self._setup.library, self.directory, packages) if path is not None]

    def _identities(self) -> tuple[object, ...]:
        """The identity of the directories: one that was removed and made again is another one."""
        return tuple(_identity(path) for path in self.directories)

    def folder_of(self, slot: int) -> Path:
        """The folder of a `landlock` worker's own directories."""
        assert self.directory is not None
        return self.directory / f"run-{slot}"

    async def _fork(self, *, waits: bool) -> Worker:
        zygote = self.zygote
        if not zygote.is_alive:
            await self.renew(zygote)
            return await self._fork(waits=waits)
        zygote.retain()
        try:
            worker = await self._fork_worker(zygote, waits=waits)
        except BaseException:
            zygote.release()
            raise
        self._forks += 1
        if self._forks % self.options.recycle_after == 0:
            self.do_later(self._renew_quietly(zygote))
        return worker

    async def _fork_worker(self, zygote: Zygote, *, waits: bool) -> Worker:
        slot, policy = next(self._slots), self._setup.policy
        leaf: Leaf | None = None
        try:
            if self._group is not None:
                leaf = self._group.add(memory_bytes=policy.memory_mib << 20, count_cpu=policy.processes > 1)
            fork = await zygote.fork(
                slot,
                user=self.user_of(slot, None),
                cores=self.pick_cores(policy.cores),
                waits=waits,
                entrances=[] if leaf is None else leaf.entrances(),
                library=self._likely_stubs() if waits else None,
            )
        except BaseException as error:
            if leaf is not None and self._group is not None:
                self._group.discard(leaf)
            if isinstance(error, OSError):
                raise SandboxBroken(f"A worker could not be made: {error}.") from error
            raise
        return Worker(fork, zygote=zygote, leaf=leaf, policy=policy)

    # The pool itself.

    def postpone(self, chore: Callable[[], object], *, can_wait: bool = False) -> None:
        """Do a chore once the ending run is answered, or at once if runs come fast, unless it `can_wait`.

        At once, it would take the processor from writing the run to disk and sending its answer.
        """
        if self._is_busy and not can_wait:
            chore()
            return
        self._postponed.append(chore)
        if self._later is None:
            self._later = self._loop.call_later(_LATER_SECONDS, self.catch_up)

    def catch_up(self) -> None:
        """Do at once what is postponed."""
        if self._later is None:
            return
        self._later.cancel()
        self._later = None
        chores, self._postponed = self._postponed, []
        for chore in chores:
            chore()

    def refill(self, *, can_wait: bool = False) -> None:
        """See to it that enough workers wait: at once if none does, else when the run that ends is answered.

        `can_wait` is as for `postpone`.
        """
        if len(self._waiting) >= self.options.size:
            return
        if self._waiting:
            self.postpone(self._begin_refill, can_wait=can_wait)
        else:
            self._begin_refill()

    def _begin_refill(self) -> None:
        if self.is_closed or len(self._waiting) >= self.options.size:
            return
        if self._refilling is None or self._refilling.done():
            self._refilling = self.do_later(self._refill_now())

    async def fill(self) -> None:
        """Wait until the pool is full."""
        self.refill()
        self.catch_up()
        if self._refilling is not None:
            await asyncio.shield(self._refilling)
        for worker in list(self._waiting):
            await asyncio.shield(worker.fork.born)

    async def settle(self) -> None:
        """Wait until the pool is full and every used worker is gone."""
        await self.fill()
        await self._finish_chores()

    async def drain(self) -> None:
        """Empty the pool, so that the next run forks."""
        self.catch_up()
        if self._refilling is not None:
            await asyncio.shield(self._refilling)
        while self._waiting:
            await asyncio.shield(self.discard(self._waiting.popleft()))

    async def _refill_now(self) -> None:
        while len(self._waiting) < self.options.size:
            try:
                worker = await self._fork(waits=True)
            except (SandboxBroken, SandboxClosed, OSError):
                return  # the next run forks for itself and reports what is wrong
            if self.is_closed:  # meanwhile
                self.discard(worker)
                return
            self._waiting.append(worker)

    # The zygote.

    async def renew(self, old: Zygote | None = None) -> None:
        """Execute a fresh zygote for all further runs; runs under way finish on the old one.

        With `old`, only if that is still the one in use. A caller that gives up does not stop it: workspaces are on
        their way from one zygote to the other, and other callers wait for the same.
        """
        await asyncio.shield(self.do_later(self._renew(old)))

    async def _renew(self, old: Zygote | None) -> None:
        async with self.renewing:
            if self.is_closed:
                raise SandboxClosed("The sandbox is closed.")
            current = self._zygote
            if old is not None and current is not old:
                return
            fresh, known = await self._start_zygote()
            try:
                await self._hand_over(fresh)
            except BaseException:
                await fresh.close()
                raise
            self._zygote, self._known = fresh, known
            while self._waiting:
                self.discard(self._waiting.popleft())
            if current is not None:
                self._retiring.add(current)
                self.do_later(self._retire(current))
            self.refill()

    async def _start_zygote(self) -> tuple[Zygote, tuple[object, ...]]:
        """A zygote, and the identities of the directories that it knows."""
        for place in (self._setup.library, self.directory):
            if place is not None:
                make_directory(place)
        if self.directory is not None:
            _link_packages(Path(spawn.package_folder(self.directory)), self._setup.packages)
        identities = self._identities()
        return await Zygote.start(self._setup, self.directory, self._ahead), identities

    async def _renew_quietly(self, old: Zygote) -> None:
        try:
            await self.renew(old)
        except SandboxClosed:
            return
        except (SandboxBroken, SandboxUnavailable) as error:
            _log.warning("No fresh zygote could be started, and the old one goes on: %s", error)

    async def _retire(self, zygote: Zygote) -> None:
        await zygote.idle.wait()
        await zygote.close()
        self._retiring.discard(zygote)

    # The end.

    async def close(self) -> None:
        """Kill every worker, end the zygotes, and leave nothing behind but the directory; see `remove_files`."""
        if self.is_closed:
            return
        self.is_closed = True
        self.catch_up()
        async with self.renewing:
            if self._zygote is not None:
                self._retiring.add(self._zygote)
                self.do_later(self._retire(self._zygote))
            self._zygote = None
        for zygote in self._retiring:
            zygote.hang_up()  # its workers die with it, and runs under way end
        while self._waiting:
            self.discard(self._waiting.popleft())
        await self._finish_chores()
        if self._group is not None:
            await self._remove(self._group)

    async def _remove(self, group: ControlGroup) -> None:
        """Remove the group, although the kernel may count a process for a moment after its end."""
        for _ in range(_REMOVE_ATTEMPTS):  # what is still left then is swept by the next gateway
            if group.close():
                return
            await asyncio.sleep(_REMOVE_SECONDS)

    async def remove_files(self) -> None:
        """Delete what the `landlock` tier kept on disk."""
        if self.directory is not None:
            await asyncio.to_thread(close_directory, self.directory)

    async def _finish_chores(self) -> None:
        while self._chores:
            await asyncio.wait(self._chores)
            await asyncio.sleep(0)  # the callbacks that take finished ones off the list run now

    def do_later(self, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
        """Do a chore in the background; `settle` and `close` wait for it."""
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _link_packages(folder: Path, packages: GuestPackages) -> None:
    """A folder that holds just the packages' entries, for an import path that shows nothing else."""
    if folder.exists():
        return
    folder.mkdir(mode=0o755)
    for source, name in packages.entries:
        (folder / name).symlink_to(source)
    for source, name in packages.own:
        place = folder / name
        place.mkdir()
        place.chmod(0o755)  # whatever the umask is: a worker may be another user
        for file in sorted(Path(source).glob("*.py")):
            copy = place / file.name
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o644)


def _can_give_away(directory: Path) -> bool:
    """True if files can be given to the workers' users: inside a user namespace those may not exist."""
    sample = directory / "sample"
    sample.mkdir()
    try:
        os.chown(sample, spawn.FIRST_USER, spawn.FIRST_USER)
    except OSError:
        return False
    finally:
        sample.rmdir()
    return True
