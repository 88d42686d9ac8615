"""The sandbox: one run from code to outcome."""

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sealyard.code import read
from sealyard.errors import InvalidRequest, LevelUnavailable, SandboxBroken, SandboxClosed
from sealyard.offload import Offload
from sealyard.sandbox import spawn, wire
from sealyard.sandbox.ahead import Ahead
from sealyard.sandbox.importable import Library
from sealyard.sandbox.policy import IsolationPolicy
from sealyard.sandbox.pool import Pool, PoolOptions, RunClock, Slot, Slots
from sealyard.sandbox.report import TierReport, shortfall
from sealyard.sandbox.sessions import Sessions, Workspace, owner_of
from sealyard.sandbox.sessions.shelf import Shelf
from sealyard.sandbox.sessions.workspace import directory_usage
from sealyard.sandbox.worker import End, OnCall, Terms, Worker
from sealyard.sandbox.zygote import Zygote
from sealyard.values.runs import Failure, FailureKind, Limits, OnOutput, Outcome, Spill, Status, Usage, limit_failure

_WATCH_SECONDS = 0.1  # between looks at a limit: a run may be over it for this long
_PROBED_THREADS = 8  # few, so that the probe can exceed them at once
_WORDS_CHARACTERS = 16_384  # of each text in a worker's report
_NOTES = 20  # of one run
_SHORT_CHARACTERS = 1_000  # of unparsed code: parsing this much takes about as long as the worker saves
_STATUS: dict[str, Status] = {
    "wall_time": "timeout",
    "protocol": "broken",
    "crash": "broken",
    "exception": "failed",
    "refused": "failed",
    "syntax": "failed",
    "import": "failed",
    "result": "failed",
}


_Reported = TypeVar("_Reported", Failure | None, Spill | None)


class ReplayClock(msgspec.Struct, frozen=True, kw_only=True):
    """The time and the seed of a run, so that it can be repeated with the same result."""

    at: float
    """Seconds since the epoch at which its clock stands; sleeping takes no time and moves it."""
    seed: int


class Sandbox:
    """Runs agent code in sealed workers. Make one with `open_sandbox`."""

    def __init__(
        self,
        setup: spawn.Setup,
        *,
        options: PoolOptions,
        library: Library | None = None,
        folder: Path | None = None,
        slots: Slots | None = None,
        ahead: Ahead | None = None,
        allow_weaker: bool = False,
    ) -> None:
        self.policy = setup.policy
        self.tier = setup.tier
        self.packages = setup.packages
        self.library = library
        self.report: TierReport | None = None
        """The proof that this sandbox passed."""
        self._allow_weaker = allow_weaker
        self._shelf = Shelf(options.idle_folder)
        self.pool = Pool(
            setup,
            options,
            folder=folder,
            ahead=ahead,
            likely_stubs=(lambda: None) if library is None else library.likely,
            hand_over=self._hand_over,
        )
        self._sessions = Sessions(self.pool, self._shelf)
        self.slots = slots or Slots(options)
        """Decides the order of runs. Everything that takes a worker for agent code has a slot."""

    async def start(self) -> None:
        """Build the first zygote. Raises `SandboxUnavailable` when this tier cannot be built here."""
        await asyncio.to_thread(self._shelf.sweep)
        await self.pool.start()

    @property
    def resource_control(self) -> str:
        """The holder of the memory limit: `cgroup v2`, `cgroup v1` or `rlimits`."""
        return self.pool.resource_control

    @property
    def zygote(self) -> Zygote:
        """The zygote that new workers are forked from."""
        return self.pool.zygote

    def check(self, policy: IsolationPolicy) -> None:
        """Raise `LevelUnavailable` for a policy that is not honoured here, unless weaker isolation is accepted."""
        reason = None if self.report is None or self._allow_weaker else shortfall(policy, self.report)
        if reason is not None:
            raise LevelUnavailable(
                f"Level {str(policy.level)!r} cannot be honoured here: {reason} Run `sealyard doctor` for what to do, "
                "or set allow_weaker to accept it."
            )

    async def run(
        self,
        code: str,
        *,
        context: Mapping[str, Any] | None = None,
        tools: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        on_call: OnCall | None = None,
        on_output: OnOutput | None = None,
        session: str | None = None,
        execution_id: str | None = None,
        library_version: str | None = None,
        policy: IsolationPolicy | None = None,
        clock: RunClock | None = None,
        replay: ReplayClock | None = None,
        slot: Slot | None = None,
        offload: Offload | None = None,
    ) -> Outcome:
        """Run `code` in a sealed worker that is used for nothing else.

        What the code does wrong is in the outcome.

        Args:
            code: Any text; it need not be Python.
            context: The code's input, as JSON data.
            tools: Functions that the code has without importing them, each with its module in `servers`.
            limits: Those of this run, in place of the policy's.
            on_call: Answers the code's tool calls.
            on_output: Gets what the code prints, as it does.
            session: A name under which the files of the workspace stay for the next run.
            execution_id: The name of the run; by default a random one.
            library_version: The tools that the code can import; by default those of the whole catalog.
            policy: A stricter one than the sandbox's own.
            clock: While it is paused, the wall limit stands still and another run may have the slot.
            replay: A clock that stands, and a seed for the code's randomness.
            slot: The slot that the caller holds; by default the run waits for one of its session's owner.
            offload: Looks at large arguments and results beside the event loop.

        Raises:
            InvalidRequest: The context, a limit or the session's name is wrong.
            LevelUnavailable: This machine cannot honour `policy`.
            QueueFull: Too many runs wait for their turn.
            SandboxBroken: The host side failed; whether the code ran is unknown.
            SandboxClosed: The sandbox was closed before or during the run.
        """
        if policy is not None:
            self.check(policy)
        usual = policy or self.policy
        policy = usual.with_limits(limits)
        execution_id = execution_id or secrets.token_hex(8)
        clock = clock or RunClock()
        await self.pool.restore_directories()
        # The stubs first, and without waiting: then their publisher need not hold them.
        library = contextlib.nullcontext() if self.library is None else self.library.in_use(library_version)
        turn: contextlib.AbstractAsyncContextManager[Slot]
        turn = self.slots.one(clock, owner_of(session or "")) if slot is None else contextlib.nullcontext(slot)
        files: contextlib.AbstractAsyncContextManager[Workspace | None]
        files = contextlib.nullcontext() if session is None else self._sessions.in_use(session, policy)
        with library as stubs:
            async with turn as slot, files as workspace:
                job = self._job(code, context or {}, tools or {}, policy, workspace, execution_id, stubs, replay)
                worker = await self.pool.take(leave=0 if slot.is_first else 1)
                started, end = time.perf_counter(), None
                try:
                    backstop_mib = max(policy.memory_mib, usual.memory_mib)
                    order = self._order(worker, policy, backstop_mib, workspace, stubs, nice=slot.nice)
                    terms = Terms(
                        policy=policy,
                        on_call=on_call,
                        on_output=on_output,
                        step=slot.step,
                        clock=clock,
                        inline_bytes=policy.result_bytes if workspace is None else policy.inline_bytes,
                        offload=offload,
                        who=slot.owner,
                    )
                    watch = Watch(self.pool, worker, policy, workspace)
                    async with _mounted(workspace, worker.zygote) as descriptors:
                        with watch.running():
                            worker.begin(order, job, terms, descriptors=descriptors)
                            await worker.ended
                            end = await watch.conclude()
                except SandboxBroken as error:
                    if self.pool.is_closed:
                        raise SandboxClosed("The sandbox is closed.") from error
                    raise
                finally:
                    seconds = time.perf_counter() - started - clock.still_seconds
                    # Processes that it may have started are not done, whatever it says.
                    is_done = end is not None and end.done is not None and policy.processes == 1
                    gone = self.pool.discard(worker, is_done=is_done, can_wait=slot.is_light)
                    self.pool.refill(can_wait=slot.is_light)
                    if workspace is not None:
                        workspace.note_leaving(gone)
                if workspace is not None and workspace.directory is None:
                    self.pool.postpone(lambda: self.pool.do_later(self._prepare_mount(workspace, worker.zygote)))
        return self._outcome(end, execution_id, seconds, session, policy)

    async def attack(self, job: dict[str, Any]) -> list[wire.Finding]:
        """Have a sealed worker try to break out, and report what it could do."""
        # The mechanism is tried, at a number that is cheap to reach; and the answer decides whether code may fork.
        policy = msgspec.structs.replace(self.policy, threads=_PROBED_THREADS, processes=1)
        worker = await self.pool.take()
        try:
            order = self._order(worker, policy, policy.memory_mib, None, None)
            body = msgspec.json.encode(job | {"threads": policy.threads})
            worker.begin(order, body, Terms(policy=policy, inline_bytes=policy.result_bytes, is_probe=True))
            await worker.ended
            end = await worker.conclude()
        finally:
            await asyncio.shield(self.pool.discard(worker))
        if end.attacked is None:
            raise SandboxBroken(f"The probe ended without an answer: {end.failure}.")
        return end.attacked.findings

    async def prove(self) -> None:
        """Have a worker start, be sealed and run a line, beside the runs that have their turn.

        Raises:
            SandboxBroken: It could not.
            SandboxClosed: The sandbox is closed.
        """
        outcome = await self.run_beside("None")
        if outcome.failure is not None:
            raise SandboxBroken(f"A worker started and could run nothing: {outcome.failure.message}")

    async def run_beside(self, code: str, *, limits: Limits | None = None) -> Outcome:
        """Run the gateway's own code, which takes no slot from anybody."""
        clock = RunClock()
        async with Slots(PoolOptions(running=1)).one(clock) as slot:
            return await self.run(code, limits=limits, clock=clock, slot=slot)

    def sessions(self) -> list[str]:
        """The names of all sessions that have files, in memory or on disk."""
        return self._sessions.names()

    def workspace(self, session: str) -> Workspace:
        """The workspace of a session, in which a run may still be ending: see its `quiet`.

        Raises `UnknownSession`, and `InvalidRequest` while its files are on disk: see `keep`.
        """
        return self._sessions.get(session)

    def find_workspace(self, session: str) -> Workspace | None:
        """The workspace of a session; None where `workspace` would raise."""
        return self._sessions.find(session)

    @contextlib.contextmanager
    def keep(self, session: str) -> Iterator[None]:
        """Keep a session's files in memory, once a run has opened them."""
        with self._sessions.keep(session):
            yield

    async def remove_session(self, session: str) -> None:
        """Delete a session's workspace; a caller that gives up does not stop it half way.

        Raises `InvalidRequest` while a run of it is under way.
        """
        await asyncio.shield(self.pool.do_later(self._sessions.remove(session)))

    async def fill(self) -> None:
        """Wait until the pool is full."""
        await self.pool.fill()

    async def settle(self) -> None:
        """Wait until the pool is full and every used worker is gone."""
        await self.pool.settle()

    async def drain(self) -> None:
        """Empty the pool, so that the next run forks."""
        await self.pool.drain()

    async def recycle(self) -> None:
        """Execute a fresh zygote for all further runs; runs under way finish on the old one."""
        await self.pool.renew()

    async def close(self) -> None:
        """Kill every worker, end the zygotes, and leave nothing behind."""
        await self.pool.close()
        await self._sessions.close()
        await self.pool.remove_files()

    async def _hand_over(self, zygote: Zygote) -> None:
        await self._sessions.hand_over(zygote)

    async def _prepare_mount(self, workspace: Workspace, zygote: Zygote) -> None:
        """Ask for the workspace of a session's next run ahead of it, unless a run beside this one has done so."""
        if not workspace.has_mount(zygote):
            with contextlib.suppress(SandboxBroken):  # that run asks for itself then, and hears what is wrong
                workspace.keep_mount(zygote, await zygote.lease_workspace(workspace.number))

    def _job(
        self,
        code: str,
        context: Mapping[str, Any],
        tools: Mapping[str, str],
        policy: IsolationPolicy,
        workspace: Workspace | None,
        execution_id: str,
        stubs: str | None,
        replay: ReplayClock | None,
    ) -> bytes:
        """The first frame that may hold the agent's bytes; a worker reads it only when it is sealed."""
        spill = None
        if workspace is not None:
            root = "/workspace" if workspace.directory is None else str(workspace.directory)
            spill = f"{root}/results/{execution_id}.json"
        if stubs is not None and self.library is not None:
            stubs = "/servers" if self.tier == "namespace" else str(self.library.path / stubs)
        source = read(code)
        is_known = source.is_read or len(code) <= _SHORT_CHARACTERS
        job = {
            "kind": "run",
            "code": code,
            "value_at": source.value_span if is_known else None,
            "context": context,
            "tools": dict(tools),
            "result_bytes": policy.result_bytes,
            "inline_bytes": policy.inline_bytes,
            "call_bytes": policy.call_bytes,
            "spill": spill,
            "stubs": stubs,
            "imports": self._imports(policy),
            "replay": replay,
        }
        try:
            return msgspec.json.encode(job)
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"The code or its context holds text that is not valid Unicode: {error}.") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"The context must be JSON data: {error}.") from error

    def _imports(self, policy: IsolationPolicy) -> dict[str, Any] | None:
        """The rule for the code's own imports; None where it is the one that the zygote has."""
        same = ("level", "imports", "modules", "refused_modules")
        if policy is self.policy or all(getattr(policy, field) == getattr(self.policy, field) for field in same):
            return None
        stdlib = frozenset(sys.stdlib_module_names)
        allowed = policy.allowed_modules(stdlib=stdlib, packages=self.packages.modules)
        return {"allowed": allowed, "refused": policy.refused_modules, "level": policy.level}

    def _order(
        self,
        worker: Worker,
        policy: IsolationPolicy,
        backstop_mib: int,
        workspace: Workspace | None,
        stubs: str | None,
        nice: int = 0,
    ) -> bytes:
        """The order with which the worker seals itself."""
        slot = worker.fork.slot
        user = self.pool.user_of(slot, None if workspace is None else workspace.number)
        directory, temp = None, None
        if self.pool.directory is not None:
            directory, temp = self._make_directories(slot, user, workspace)
        if worker.leaf is None:
            address_bytes = policy.memory_mib << 20
        else:
            # A backstop; the control group is exact. Libraries map more than they use, however little a run may use.
            address_bytes = (backstop_mib << 21) + (256 << 20)
            if policy.memory_mib != self.policy.memory_mib:
                worker.leaf.limit(policy.memory_mib << 20)
        order = {
            "user": None if workspace is None else user,
            "workspace": directory,
            "temp": temp,
            "cores": None if policy.cores == self.policy.cores else self.pool.pick_cores(policy.cores),
            "address_bytes": address_bytes,
            "cpu_seconds": max(1, round(policy.cpu_seconds)),
            "file_bytes": max(policy.workspace_mib, policy.temp_mib) << 20,
            "open_files": policy.open_files,
            "tasks": self._task_limit(policy),
            "filter": spawn.filter_of(policy, can_fork=self.pool.holds_together(worker)),
            "library": stubs,
            "own_network": policy.own_network,
            "temp_room": self._room(policy, "temp"),
            "workspace_room": self._room(policy, "workspace") if workspace is None else None,
            "nice": nice,
        }
        return msgspec.json.encode(order)

    def _room(self, policy: IsolationPolicy, place: str) -> str | None:
        """The size of a file system of the worker's own; None where it is the one that it has."""
        if policy is self.policy:
            return None
        mib, files = f"{place}_mib", f"{place}_files"
        if all(getattr(policy, field) == getattr(self.policy, field) for field in (mib, files)):
            return None
        return f"size={getattr(policy, mib) << 20},nr_inodes={getattr(policy, files)},mode=777"

    def _make_directories(self, slot: int, user: int | None, workspace: Workspace | None) -> tuple[str, str]:
        place = self.pool.folder_of(slot)
        place.mkdir(mode=0o711)
        temp, directory = place / "tmp", place / "workspace"
        temp.mkdir()
        if workspace is None:
            directory.mkdir()
        else:
            assert workspace.directory is not None
            workspace.mend()
            directory = workspace.directory
        for path in (directory, temp):
            path.chmod(0o700)
            if user is not None:
                os.chown(path, user, user)
        return str(directory), str(temp)

    def _task_limit(self, policy: IsolationPolicy) -> int | None:
        """The kernel counts tasks per user and user namespace, and every worker has one or the other to itself.

        In the landlock tier it may have neither: everything else this user runs would count, so they are watched.
        """
        if self.tier == "landlock" and not self.pool.has_own_users:
            return None
        return policy.threads + policy.processes

    def _outcome(
        self, end: End, execution_id: str, seconds: float, session: str | None, policy: IsolationPolicy
    ) -> Outcome:
        done, failure, spill = end.done, end.failure, None
        cpu_seconds = memory_peak_bytes = None
        if done is not None:
            # The code may have written this itself: it is believed as far as its limits go.
            cpu_seconds = min(max(done.cpu_seconds, 0.0), policy.cpu_seconds)
            memory_peak_bytes = min(max(done.memory_peak_bytes, 0), policy.memory_mib << 20)
            failure = _short(done.failure) or failure
            spill = _short(done.spill)
        if end.exit is not None:
            cpu_seconds, memory_peak_bytes = end.exit.cpu_seconds, end.exit.memory_peak_bytes
        status: Status = "ok"
        if failure is not None:
            # The code that raised `SystemExit` has failed; the one that ended its interpreter has broken it.
            left: Status = "broken" if done is None else "failed"
            status = left if failure.kind == "exit" else _STATUS.get(failure.kind, "limit")
        return Outcome(
            execution_id=execution_id,
            status=status,
            result=end.result if failure is None else None,
            output=end.output,
            failure=failure,
            spill=spill,
            notes=tuple(note[:_WORDS_CHARACTERS] for note in end.notes[:_NOTES]) if done is not None else (),
            usage=Usage(
                wall_seconds=seconds,
                cpu_seconds=cpu_seconds,
                memory_peak_bytes=memory_peak_bytes,
                output_bytes=end.output_bytes,
                tool_calls=end.tool_calls,
            ),
            tier=self.tier,
            level=policy.level,
            session=session,
        )


@contextlib.asynccontextmanager
async def _mounted(workspace: Workspace | None, zygote: Zygote) -> AsyncIterator[list[int]]:
    """The worker's part of its session: a descriptor of the workspace, or nothing."""
    if workspace is None or workspace.directory is not None:
        yield []
        return
    held = workspace.take_mount(zygote)
    fd = await zygote.lease_workspace(workspace.number) if held is None else held
    try:
        yield [fd]
    finally:
        os.close(fd)


def _short(reported: _Reported) -> _Reported:
    """The worker's report, cut to the guest's own bounds: the agent's code may have written it itself."""
    if reported is None:
        return reported
    texts = {name: value for name, value in msgspec.structs.asdict(reported).items() if isinstance(value, str)}
    return msgspec.structs.replace(reported, **{name: text[:_WORDS_CHARACTERS] for name, text in texts.items()})


class Watch:
    """The limits of one run that the kernel does not hold for all of its worker together.

    Looking costs some 30 µs, so it is done ten times a second and only where it is needed. A run that is found over a
    limit is ended; a tenth of a second more is bounded by the limits of its one process.
    """

    def __init__(self, pool: Pool, worker: Worker, policy: IsolationPolicy, workspace: Workspace | None) -> None:
        self._worker = worker
        self._policy = policy
        self._is_kept = workspace is not None
        self._tasks = not pool.holds_tasks
        self._memory_base = worker.zygote.touched_bytes if worker.leaf is None else None
        self._leaf = worker.leaf if policy.processes > 1 and pool.holds_together(worker) else None
        self._folders: list[tuple[Path, int, int]] = []
        """Where no file system of its own bounds it: each with its most MiB and files."""
        self._status: Path | None = None
        if pool.directory is not None:
            place = pool.folder_of(worker.fork.slot)
            folder = place / "workspace" if workspace is None else workspace.directory
            assert folder is not None
            self._folders.append((folder, policy.workspace_mib, policy.workspace_files))
            self._folders.append((place / "tmp", policy.temp_mib, policy.temp_files))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Look at the worker as long as it runs."""
        if not (self._tasks or self._memory_base is not None or self._leaf is not None or self._folders):
            yield
            return
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def conclude(self) -> End:
        """The end of the run. Raises what `Worker.conclude` does."""
        end = await self._worker.conclude()
        if self._folders and self._is_kept and end.failure is None:
            # Files written since the last look stay in the session, so it is measured once more.
            self._worker.stop()
            excess = await self._excess_of_folders()
            if excess is not None:
                return msgspec.structs.replace(end, done=None, failure=limit_failure(*excess))
        return end

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            excess = self._excess() or await self._excess_of_folders()
            if excess is not None:
                self._worker.end_for(*excess)
                return

    async def _excess_of_folders(self) -> tuple[FailureKind, str] | None:
        for path, mib, files in self._folders:
            try:
                used, entries = await asyncio.to_thread(directory_usage, path)
            except OSError as error:
                return "workspace", f"The size of the workspace could not be measured: {error}."
            if used > mib << 20 or entries > files:
                return "workspace", f"The code wrote more than {mib:,} MiB or {files:,} files into one directory."
        return None

    def _excess(self) -> tuple[FailureKind, str] | None:
        """The limit that the worker is over, with the words for it; None if it is over none, or gone."""
        policy = self._policy
        try:
            if self._leaf is not None and self._leaf.cpu_seconds() > policy.cpu_seconds:
                return "cpu_time", f"The code used more than {policy.cpu_seconds:g} s of CPU time."
            if not self._tasks and self._memory_base is None:
                return None
            status = self._read_status()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile, which its own run deals with
            return None
        if self._tasks and status["Threads"] > policy.threads + policy.processes:
            return "processes", f"The code started more than {policy.threads:,} threads."
        used = (status["RssAnon"] + status["RssShmem"] + status["VmSwap"]) << 10
        if self._memory_base is not None and used > self._memory_base + (policy.memory_mib << 20):
            return "memory", f"The code used more than {policy.memory_mib:,} MiB of memory."
        return None

    def _read_status(self) -> dict[str, int]:
        """The figures of the worker's process; it is the only one wherever this is called."""
        if self._status is None:
            self._status = Path(f"/proc/{_pid_of(self._worker.fork.pidfd)}/status")
        figures = dict.fromkeys(("Threads", "RssAnon", "RssShmem", "VmSwap"), 0)
        for line in self._status.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in figures:
                figures[name] = int(value.split()[0])
        return figures


def _pid_of(pidfd: int | None) -> int:
    """The number of the process behind a descriptor. Raises `ProcessLookupError` when it is gone or not born."""
    if pidfd is None:
        raise ProcessLookupError
    for line in os.fsdecode(Path(f"/proc/self/fdinfo/{pidfd}").read_bytes()).splitlines():
        if line.startswith("Pid:") and int(line.split()[1]) > 0:
            return int(line.split()[1])
    raise ProcessLookupError
