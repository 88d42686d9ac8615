"""The sandbox: a pool of sealed workers waiting for code, and the sessions that keep files between runs."""

import asyncio
import contextlib
import itertools
import os
import secrets
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolyard.errors import InvalidRequest, SandboxBroken, SandboxClosed, UnknownSession
from toolyard.sandbox import spawn
from toolyard.sandbox.cgroup import ControlGroup, open_control_group, owner_is_alive, owner_mark
from toolyard.sandbox.packages import GuestPackages
from toolyard.sandbox.policy.levels import IsolationPolicy
from toolyard.sandbox.wire import Finding
from toolyard.sandbox.worker import End, OnCall, OnOutput, Worker
from toolyard.sandbox.workspace import Workspace, check_session_name, directory_usage, remove_directory
from toolyard.sandbox.zygote import Zygote
from toolyard.values import Failure, Limits, Outcome, Spill, Status, Usage

__all__ = ("PoolOptions", "Sandbox")

_WATCH_SECONDS = 0.1
_CLOSE_SECONDS = 10.0
_SESSION_USERS, _RUN_USERS = 1_000, 33_000  # users of sessions and of single runs, inside the workers' range
_STATUS: dict[str, Status] = {
    "wall_time": "timeout",
    "protocol": "broken",
    "crash": "broken",
    "exit": "broken",
    "exception": "failed",
    "syntax": "failed",
    "import": "failed",
    "result": "failed",
}


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers wait, run and live."""

    size: int = 2
    """Workers kept waiting."""
    refill_below: int | None = None
    """Refill when fewer wait; by default as soon as one is used."""
    running: int = 32
    """Runs at once; more wait their turn, before their deadline starts."""
    recycle_after: int = 10_000
    """Forks after which the zygote is executed afresh."""
    sessions: int = 64
    """Sessions that may keep a workspace at once."""

    def __post_init__(self) -> None:
        for field, low in (("size", 0), ("running", 1), ("recycle_after", 1), ("sessions", 0)):
            if getattr(self, field) < low:
                raise InvalidRequest(f"{field} of the pool is {getattr(self, field)!r}. Give at least {low}.")


class _Generation:
    """A zygote and the count of its workers that are in use."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.in_use = 0
        self.idle = asyncio.Event()
        self.idle.set()


class Sandbox:
    """Runs agent code in sealed workers. Make one with `open_sandbox`."""

    def __init__(
        self,
        policy: IsolationPolicy,
        *,
        tier: spawn.Tier,
        privileged: bool,
        packages: GuestPackages,
        options: PoolOptions,
    ) -> None:
        self.policy = policy
        self.tier = tier
        self.privileged = privileged
        self.packages = packages
        self.options = options
        self._name = secrets.token_hex(4)
        self._group: ControlGroup | None = None
        self._directory: Path | None = None
        self._generation: _Generation | None = None
        self._renewing = asyncio.Lock()
        self._running = asyncio.Semaphore(options.running)
        self._waiting: deque[tuple[Worker, _Generation]] = deque()
        self._refilling: asyncio.Task[None] | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._sessions: dict[str, Workspace] = {}
        self._session_runs: dict[str, int] = {}
        self._making_session = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._forks = 0
        self._cpus = sorted(os.sched_getaffinity(0))
        self._next_cpu = itertools.count()
        self._own_users = spawn.can_change_user() if tier == "landlock" else privileged
        self._is_closed = False
        self.report: Any = None
        """The `TierReport` of the proof this sandbox passed."""

    async def start(self) -> None:
        """Build the first zygote. Raises `SandboxUnavailable` when this tier cannot be built here."""
        self._group = open_control_group(self._name)
        if self.tier == "landlock":
            self._directory = _open_directory(self._name)
            self._own_users = self._own_users and _is_open_to_all(spawn.interpreter(), os.__file__)
        self._generation = _Generation(await self._start_zygote())

    @property
    def resource_control(self) -> str:
        """What holds memory down: `cgroup v2`, `cgroup v1` or `rlimits`."""
        return self._group.name if self._group is not None else "rlimits"

    @property
    def zygote(self) -> Zygote:
        """The zygote that new workers are forked from."""
        if self._generation is None:
            raise SandboxClosed("The sandbox is closed.")
        return self._generation.zygote

    @property
    def has_own_users(self) -> bool:
        """Whether each worker runs as a user of its own."""
        return self._own_users

    async def run(
        self,
        code: str,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        on_call: OnCall | None = None,
        on_output: OnOutput | None = None,
        session: str | None = None,
        execution_id: str | None = None,
    ) -> Outcome:
        """Run `code` in a sealed worker that is used for nothing else.

        `on_call(tool, args)` answers the code's tool calls, `on_output(text)` sees what it prints as it does. With a
        `session`, files in the workspace stay for the next run of the same name. What the code does wrong is in the
        outcome.

        Raises:
            InvalidRequest: The context, a limit or the session's name is wrong.
            SandboxBroken: The host side failed; whether the code ran is unknown.
        """
        policy = self.policy.with_limits(limits)
        execution_id = execution_id or secrets.token_hex(8)
        async with self._running:
            if session is None:
                return await self._run(code, context or {}, policy, on_call, on_output, None, execution_id)
            workspace = await self._open_session(session)
            self._session_runs[session] = self._session_runs.get(session, 0) + 1
            try:
                return await self._run(code, context or {}, policy, on_call, on_output, workspace, execution_id)
            finally:
                self._session_runs[session] -= 1

    async def attack(self, job: dict[str, Any]) -> list[Finding]:
        """Have a sealed worker try to break out, and report what it could do."""
        worker, generation = await self._take()
        try:
            end = await worker.run(
                msgspec.json.encode(self._order(worker, self.policy, None)),
                msgspec.json.encode(job),
                descriptors=[],
                policy=self.policy,
                on_call=None,
                on_output=None,
            )
        finally:
            await self._discard(worker, generation)
        if end.attacked is None:
            raise SandboxBroken(f"The probe ended without an answer: {end.failure}.")
        return end.attacked.findings

    async def _run(
        self,
        code: str,
        context: Mapping[str, Any],
        policy: IsolationPolicy,
        on_call: OnCall | None,
        on_output: OnOutput | None,
        workspace: Workspace | None,
        execution_id: str,
    ) -> Outcome:
        job = self._job(code, context, policy, workspace, execution_id)
        worker, generation = await self._take()
        started = time.perf_counter()
        end: End | None = None
        descriptors: list[int] = []
        watch = None
        try:
            if workspace is not None and self.tier == "namespace":
                descriptors.append(await generation.zygote.lease_workspace(workspace.number))
            order = self._order(worker, policy, workspace)
            if self._directory is not None:
                watch = asyncio.create_task(self._watch_directories(worker, policy, workspace))
            end = await worker.run(
                msgspec.json.encode(order),
                job,
                descriptors=descriptors,
                policy=policy,
                on_call=on_call,
                on_output=on_output,
            )
        finally:
            seconds = time.perf_counter() - started
            for fd in descriptors:
                os.close(fd)
            if watch is not None:
                watch.cancel()
            discarding = self._do_later(self._discard(worker, generation))
            self._refill()
        if workspace is not None:
            # The next run of this session, and the caller's own reading, find nobody still writing.
            await asyncio.shield(discarding)
        return self._outcome(end, execution_id, seconds, workspace)

    def _job(
        self,
        code: str,
        context: Mapping[str, Any],
        policy: IsolationPolicy,
        workspace: Workspace | None,
        execution_id: str,
    ) -> bytes:
        spill = None
        if workspace is not None:
            root = str(workspace.directory) if workspace.directory is not None else "/workspace"
            spill = f"{root}/results/{execution_id}.json"
        job = {
            "kind": "run",
            "code": code,
            "context": context,
            "result_bytes": policy.result_bytes,
            "inline_bytes": policy.inline_bytes,
            "call_bytes": policy.call_bytes,
            "spill": spill,
        }
        try:
            return msgspec.json.encode(job)
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"The code or its context holds text that is not valid Unicode: {error}.") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"The context must be JSON data: {error}.") from error

    def _order(self, worker: Worker, policy: IsolationPolicy, workspace: Workspace | None) -> dict[str, Any]:
        """What the worker needs to seal itself."""
        slot = worker.fork.slot
        user = self._user(slot, workspace)
        directory, temp = None, None
        if self._directory is not None:
            place = self._directory / f"run-{slot}"
            directory, temp = place / "workspace", place / "tmp"
            place.mkdir(mode=0o711)
            temp.mkdir()
            if workspace is None:
                directory.mkdir()
            else:
                assert workspace.directory is not None
                directory = workspace.directory
            for path in (directory, temp):
                path.chmod(0o700)
                if user is not None:
                    os.chown(path, user, user)
        if worker.leaf is not None:
            if policy.memory_mib != self.policy.memory_mib:
                worker.leaf.limit(policy.memory_mib << 20)
            address_bytes = (policy.memory_mib << 21) + (256 << 20)  # a backstop; the control group is exact
        else:
            address_bytes = policy.memory_mib << 20
        return {
            "user": None if workspace is None else user,
            "workspace": None if directory is None else str(directory),
            "temp": None if temp is None else str(temp),
            "cores": None if policy.cores == self.policy.cores else self._pick_cores(policy.cores),
            "address_bytes": address_bytes,
            "cpu_seconds": max(1, round(policy.cpu_seconds)),
            "file_bytes": max(policy.workspace_mib, policy.temp_mib) << 20,
            "open_files": policy.open_files,
            "tasks": self._task_limit(policy),
        }

    def _user(self, slot: int, workspace: Workspace | None) -> int | None:
        """A session's files need the same user in each run; every other worker gets one of its own."""
        if not self._own_users:
            return None
        user = _RUN_USERS + slot % 32_000 if workspace is None else _SESSION_USERS + workspace.number % 32_000
        return user + spawn.FIRST_USER if self.tier == "landlock" else user

    def _pick_cores(self, cores: int) -> list[int] | None:
        if cores >= len(self._cpus):
            return None
        first = next(self._next_cpu)
        return [self._cpus[(first + offset) % len(self._cpus)] for offset in range(cores)]

    def _task_limit(self, policy: IsolationPolicy) -> int | None:
        """The kernel counts tasks per user: exact with a user per worker, else shared between them."""
        own = policy.threads + policy.processes
        if self._own_users:
            return own
        if self.tier == "landlock":
            return None  # everything else this user runs counts too; the address space bounds threads
        return own if policy.processes > 1 else own * self.options.running

    async def _watch_directories(self, worker: Worker, policy: IsolationPolicy, workspace: Workspace | None) -> None:
        """Without a file system of its own per run, the size of the workspace is watched, not enforced."""
        assert self._directory is not None
        place = self._directory / f"run-{worker.fork.slot}"
        folder = place / "workspace" if workspace is None else workspace.directory
        assert folder is not None
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for path, mib, files in (
                (folder, policy.workspace_mib, policy.workspace_files),
                (place / "tmp", policy.temp_mib, policy.temp_files),
            ):
                used, entries = await asyncio.to_thread(directory_usage, path)
                if used > mib << 20 or entries > files:
                    worker.end_for(
                        "workspace", f"The code wrote more than {mib:,} MiB or {files:,} files into one directory."
                    )

    def _outcome(self, end: End, execution_id: str, seconds: float, workspace: Workspace | None) -> Outcome:
        done, failure, spill = end.done, end.failure, None
        cpu_seconds = memory_peak_bytes = None
        if done is not None:
            cpu_seconds, memory_peak_bytes = done.cpu_seconds, done.memory_peak_bytes
            if done.failure is not None:
                failure = msgspec.convert(done.failure, Failure, from_attributes=True)
            if done.spill is not None:
                spill = msgspec.convert(done.spill, Spill, from_attributes=True)
        if end.exit is not None:
            cpu_seconds, memory_peak_bytes = end.exit.cpu_seconds, end.exit.memory_peak_bytes
        return Outcome(
            execution_id=execution_id,
            status="ok" if failure is None else _STATUS.get(failure.kind, "limit"),
            result=done.result if done is not None and failure is None else None,
            output=end.output,
            failure=failure,
            spill=spill,
            notes=tuple(done.notes) if done is not None else (),
            usage=Usage(
                wall_seconds=seconds,
                cpu_seconds=cpu_seconds,
                memory_peak_bytes=memory_peak_bytes,
                output_bytes=end.output_bytes,
                tool_calls=end.tool_calls,
            ),
            tier=self.tier,
            level=self.policy.level,
            session=workspace.session if workspace is not None else None,
        )

    # The pool.

    async def fill(self) -> None:
        """Wait until the pool is full."""
        self._refill()
        if self._refilling is not None:
            await asyncio.shield(self._refilling)

    async def settle(self) -> None:
        """Wait until the pool is full and every used worker is gone."""
        await self.fill()
        while self._chores:
            await asyncio.gather(*self._chores, return_exceptions=True)

    async def drain(self) -> None:
        """Empty the pool, so that the next run forks."""
        if self._refilling is not None:
            await asyncio.shield(self._refilling)
        while self._waiting:
            await self._discard(*self._waiting.popleft())

    async def recycle(self) -> None:
        """Execute a fresh zygote for all further runs; runs under way finish on the old one."""
        await self._renew(self._generation)

    async def _take(self) -> tuple[Worker, _Generation]:
        if self._is_closed:
            raise SandboxClosed("The sandbox is closed.")
        while self._waiting:
            worker, generation = self._waiting.popleft()
            if worker.is_waiting and generation.zygote.is_alive:
                return worker, generation
            self._do_later(self._discard(worker, generation))
        return await self._make_worker(waits=False)

    async def _make_worker(self, *, waits: bool) -> tuple[Worker, _Generation]:
        generation = self._generation
        if generation is None:
            raise SandboxClosed("The sandbox is closed.")
        if not generation.zygote.is_alive:
            generation = await self._renew(generation)
        generation.in_use += 1
        generation.idle.clear()
        try:
            worker = await self._fork_worker(generation.zygote, waits=waits)
        except BaseException:
            self._release(generation)
            raise
        self._forks += 1
        if self._forks % self.options.recycle_after == 0:
            self._do_later(self._renew_quietly(generation))
        return worker, generation

    async def _fork_worker(self, zygote: Zygote, *, waits: bool) -> Worker:
        slot = zygote.next_slot()
        forking = asyncio.ensure_future(
            zygote.fork(slot, user=self._user(slot, None), cores=self._pick_cores(self.policy.cores), waits=waits)
        )
        await asyncio.sleep(0)  # the order goes out; the control group is made while the zygote forks
        leaf = None
        fork = None
        try:
            if self._group is not None:
                leaf = self._group.add(slot, memory_bytes=self.policy.memory_mib << 20)
            fork = await forking
            if leaf is not None:
                leaf.attach(fork.host_pid())
            worker = Worker(fork, leaf=leaf)
            await worker.connect()
        except BaseException as error:
            forking.cancel()
            if fork is not None:
                fork.abandon()
            if leaf is not None and self._group is not None:
                self._group.discard(leaf)
            if isinstance(error, OSError):
                raise SandboxBroken(f"A worker could not be put under its memory limit: {error}.") from error
            raise
        return worker

    def _refill(self) -> None:
        threshold = self.options.refill_below if self.options.refill_below is not None else self.options.size
        if self._is_closed or len(self._waiting) >= threshold:
            return
        if self._refilling is None or self._refilling.done():
            self._refilling = self._do_later(self._refill_now())

    async def _refill_now(self) -> None:
        while len(self._waiting) < self.options.size and not self._is_closed:
            try:
                self._waiting.append(await self._make_worker(waits=True))
            except (SandboxBroken, SandboxClosed, OSError):
                return  # the next run forks for itself and reports what is wrong

    async def _discard(self, worker: Worker, generation: _Generation) -> None:
        try:
            await worker.discard()
        finally:
            if self._group is not None and worker.leaf is not None:
                self._group.discard(worker.leaf)
            if self._directory is not None:
                place = self._directory / f"run-{worker.fork.slot}"
                await asyncio.to_thread(remove_directory, place)
            self._release(generation)

    def _release(self, generation: _Generation) -> None:
        generation.in_use -= 1
        if generation.in_use == 0:
            generation.idle.set()

    async def _start_zygote(self) -> Zygote:
        directory = None if self._directory is None else str(self._directory)
        package_path = "/packages" if directory is None else f"{directory}/packages"
        if directory is not None:
            _link_packages(Path(package_path), self.packages)
        return await Zygote.start(
            self.policy,
            tier=self.tier,
            privileged=self.privileged,
            packages=self.packages,
            package_path=package_path,
            workspaces=directory,
        )

    async def _renew(self, old: _Generation | None) -> _Generation:
        async with self._renewing:
            if self._is_closed:
                raise SandboxClosed("The sandbox is closed.")
            if self._generation is not old and self._generation is not None:
                return self._generation
            zygote = await self._start_zygote()
            if self.tier == "namespace":
                for workspace in self._sessions.values():
                    root_fd = await zygote.adopt_workspace(workspace.number, workspace.root_fd)
                    os.close(workspace.root_fd)
                    workspace.root_fd = root_fd
            self._generation = _Generation(zygote)
            while self._waiting:
                self._do_later(self._discard(*self._waiting.popleft()))
            if old is not None:
                self._do_later(self._retire(old))
            return self._generation

    async def _renew_quietly(self, old: _Generation) -> None:
        with contextlib.suppress(SandboxClosed):
            await self._renew(old)

    async def _retire(self, generation: _Generation) -> None:
        await generation.idle.wait()
        await generation.zygote.close()

    # Sessions.

    def sessions(self) -> list[str]:
        """The names of all sessions that have a workspace."""
        return sorted(self._sessions)

    def workspace(self, session: str) -> Workspace:
        """The workspace of a session. Raises `UnknownSession`."""
        try:
            return self._sessions[session]
        except KeyError:
            raise UnknownSession(f"No session is called {session!r}. A run that names it makes one.") from None

    async def remove_session(self, session: str) -> None:
        """Delete a session's workspace. Raises `InvalidRequest` while a run of it is under way."""
        workspace = self.workspace(session)
        if self._session_runs.get(session):
            raise InvalidRequest(f"A run of session {session!r} is under way. Wait for it or cancel it first.")
        del self._sessions[session]
        self._session_runs.pop(session, None)
        if self.tier == "namespace" and self.zygote.is_alive:
            await self.zygote.remove_workspace(workspace.number)
        await asyncio.to_thread(workspace.close)

    async def _open_session(self, session: str) -> Workspace:
        known = self._sessions.get(check_session_name(session))
        if known is not None:
            return known
        async with self._making_session:
            known = self._sessions.get(session)
            if known is not None:
                return known
            if len(self._sessions) >= self.options.sessions:
                raise InvalidRequest(
                    f"{len(self._sessions)} sessions have a workspace, the most there can be. Remove one."
                )
            number = next(self._numbers)
            if self._directory is not None:
                directory = self._directory / f"session-{number}"
                directory.mkdir(mode=0o700)
                root_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                workspace = Workspace(session, number, root_fd, directory=directory)
            else:
                generation = self._generation
                if generation is not None and not generation.zygote.is_alive:
                    await self._renew(generation)
                root_fd = await self.zygote.create_workspace(
                    number, size_bytes=self.policy.workspace_mib << 20, files=self.policy.workspace_files
                )
                workspace = Workspace(session, number, root_fd)
            self._sessions[session] = workspace
            return workspace

    # The end.

    async def close(self) -> None:
        """Kill every worker, end the zygotes, and leave nothing behind."""
        if self._is_closed:
            return
        self._is_closed = True
        async with self._renewing:
            generation, self._generation = self._generation, None
        if generation is not None:
            await generation.zygote.close()  # its workers die with it, and runs under way end
        while self._waiting:
            self._do_later(self._discard(*self._waiting.popleft()))
        if generation is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await generation.idle.wait()
        while self._chores:
            await asyncio.gather(*self._chores, return_exceptions=True)
        for workspace in self._sessions.values():
            workspace.close()
        self._sessions.clear()
        if self._group is not None:
            self._group.close()
        if self._directory is not None:
            await asyncio.to_thread(remove_directory, self._directory)

    def _do_later(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task


def _open_directory(name: str) -> Path:
    """A directory for the workspaces of the `landlock` tier, after sweeping those of gateways that are gone."""
    base = Path(tempfile.gettempdir())
    for left in base.glob("toolyard-*.*-*"):
        mark = left.name.removeprefix("toolyard-").rpartition("-")[0]
        with contextlib.suppress(OSError):  # somebody else's, or swept by another gateway just now
            if left.lstat().st_uid == os.geteuid() and not left.is_symlink() and not owner_is_alive(mark):
                remove_directory(left)
    directory = base / f"toolyard-{owner_mark()}-{name}"
    directory.mkdir(mode=0o711)
    return directory


def _link_packages(folder: Path, packages: GuestPackages) -> None:
    """A folder that holds just the packages' entries, for an import path that shows nothing else."""
    if folder.exists():
        return
    folder.mkdir(mode=0o755)
    for source, name in packages.entries:
        (folder / name).symlink_to(source)


def _is_open_to_all(*paths: str) -> bool:
    """Whether every user can reach these files, so that a worker with a user of its own still can."""
    places = [place for path in paths for place in Path(os.path.realpath(path)).parents]
    return all(place.stat().st_mode & 0o001 for place in places)
