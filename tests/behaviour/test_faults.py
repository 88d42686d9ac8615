"""Fault injection by counter, after which the host is healthy and holds nothing.

Every frame of a run is lost, cut, repeated, late or garbled in turn, and every wait is the one at which a caller
gives up.
"""

import asyncio
import contextlib
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec
import pytest

from sealyard.errors import SandboxBroken
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.wire import FrameReader, pack
from sealyard.sandbox.zygote import Fork, Zygote
from sealyard.values.runs import Limits, Tier

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
CODE = "first = call_tool('one', {'n': 1})\nsecond = call_tool('two', {'n': 2})\n[first, second]"
TO_WORKER = ("order", "job", "first answer", "second answer")
FROM_WORKER = ("sealed", "first call", "second call", "done")
Held = Callable[..., Awaitable[dict[str, Any]]]


class Fault(NamedTuple):
    """What happens to which frame."""

    frame: str
    kind: str


FAULT: ContextVar[Fault | None] = ContextVar("FAULT", default=None)


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> "list[asyncio.Task[None]]":
    """Puts a proxy that knows `FAULT` between every worker and the host; the tasks end when both ends hung up."""
    real_fork = Zygote.fork

    async def fork(self: Zygote, *args: Any, **options: Any) -> Fork:
        forked = await real_fork(self, *args, **options)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        worker, forked.connection = forked.connection, ours
        fault = FAULT.get()
        proxies.append(asyncio.create_task(proxy(theirs, worker, fault)))
        return forked

    proxies: list[asyncio.Task[None]] = []
    monkeypatch.setattr(Zygote, "fork", fork)
    return proxies


async def proxy(host: socket.socket, worker: socket.socket, fault: Fault | None) -> None:
    """Carry frames both ways until both ends have hung up."""
    with host, worker:
        await asyncio.gather(pump(host, worker, TO_WORKER, fault), pump(worker, host, FROM_WORKER, fault))


async def pump(source: socket.socket, target: socket.socket, names: tuple[str, ...], fault: Fault | None) -> None:
    """Carry frames from `source` to `target`, and let `fault` happen to one of them."""
    loop = asyncio.get_running_loop()
    reader = FrameReader(1 << 30)
    count = 0
    with contextlib.suppress(OSError):  # an end hung up, as it may
        while data := await loop.sock_recv(source, 1 << 16):
            for body in reader.feed(data):
                name = names[count] if count < len(names) else ""
                count += 1
                pieces: list[bytes | None] = [pack(body)]
                if fault is not None and fault.frame == name:
                    pieces = await harm(fault.kind, body)
                for piece in pieces:
                    if piece is None:
                        for end in (source, target):
                            end.shutdown(socket.SHUT_RDWR)
                        return
                    await loop.sock_sendall(target, piece)
        target.shutdown(socket.SHUT_WR)


async def harm(kind: str, body: bytes) -> list[bytes | None]:
    """What is sent in place of a frame; None closes the connection."""
    frame = pack(body)
    if kind == "late":
        await asyncio.sleep(0.05)
    pieces: dict[str, list[bytes | None]] = {
        "lost": [],
        "twice": [frame + frame],
        "cut": [frame[: len(frame) // 2], None],
        "stuck": [frame[: len(frame) // 2]],
        "closed": [None],
        "late": [frame],
        "in crumbs": [frame[at : at + 1] for at in range(len(frame))],
        "garbled": [pack(body.replace(b'"', b"'"))],
        "empty": [pack(b"")],
        "huge": [b"\xff\xff\xff\xff" + body],
    }
    return pieces[kind]


async def end_of(sandbox: Sandbox, fault: Fault) -> str:
    """How a run with two calls ends when `fault` happens to it."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        return args["n"] * 10

    FAULT.set(fault)
    try:
        outcome = await sandbox.run(CODE, on_call=on_call, limits=Limits(wall_seconds=2))
    except SandboxBroken:
        return "SandboxBroken"
    if outcome.failure is None:
        return f"{outcome.status} {outcome.result}"
    return f"{outcome.status} {outcome.failure.type}"


KINDS = ("lost", "twice", "cut", "stuck", "closed", "late", "in crumbs", "garbled", "empty", "huge")
OK = "ok [10, 20]"
TIME = "timeout WallTimeExceeded"
LEFT = "broken InterpreterExited"
PROTOCOL = "broken ProtocolBroken"
UNKNOWN = "SandboxBroken"
JSON = "failed JSONDecodeError"
# Faults on the way to the worker can only come from a broken host, and are the worker's to notice.
ENDS = {
    "order": (UNKNOWN, LEFT, UNKNOWN, UNKNOWN, UNKNOWN, OK, OK, UNKNOWN, UNKNOWN, TIME),
    "job": (TIME, "failed KeyError", UNKNOWN, TIME, UNKNOWN, OK, OK, LEFT, LEFT, TIME),
    "first answer": (TIME, OK, LEFT, TIME, LEFT, OK, OK, JSON, JSON, TIME),
    "second answer": (TIME, OK, LEFT, TIME, LEFT, OK, OK, JSON, JSON, TIME),
    "sealed": (PROTOCOL, PROTOCOL, PROTOCOL, PROTOCOL, UNKNOWN, OK, OK, PROTOCOL, PROTOCOL, PROTOCOL),
    "first call": (TIME, PROTOCOL, PROTOCOL, TIME, LEFT, OK, OK, PROTOCOL, PROTOCOL, PROTOCOL),
    "second call": (TIME, PROTOCOL, PROTOCOL, TIME, LEFT, OK, OK, PROTOCOL, PROTOCOL, PROTOCOL),
    "done": (LEFT, OK, PROTOCOL, PROTOCOL, LEFT, OK, OK, PROTOCOL, PROTOCOL, PROTOCOL),
}


FORGED = {
    "text that is not Unicode": b'{"t":"call","id":1,"tool":"\xff","args":{}}',
    "answer of a probe": b'{"t":"attacked","findings":[]}',
    "second seal": b'{"t":"sealed"}',
    "reply": b'{"t":"reply","id":1,"ok":true,"value":1}',
    "failure without a reason": b'{"t":"done","ok":false,"cpu_seconds":0,"memory_peak_bytes":0}',
    "notes that are no texts": b'{"t":"done","ok":true,"notes":[1],"cpu_seconds":0,"memory_peak_bytes":0}',
}


@pytest.mark.behaviour("isolation.forged_frames")
@pytest.mark.parametrize("name", FORGED)
def test_forged_frame_is_a_broken_protocol(driver: Any, name: str) -> None:
    """A frame that no honest worker sends at that point ends the run under that name."""
    code = "import os, time\nos.write(3, bytes(frame))\ntime.sleep(60)"

    outcome = driver.run(code, context={"frame": list(pack(FORGED[name]))})

    assert (outcome.status, outcome.failure.kind, outcome.failure.type) == ("broken", "protocol", "ProtocolBroken")


async def test_every_fault_of_every_frame_has_a_name(held: Held, proxied: "list[asyncio.Task[None]]") -> None:
    """Each ends as listed; none hangs, crashes the host or spoils the next run."""
    expected = {Fault(frame, kind): end for frame, ends in ENDS.items() for kind, end in zip(KINDS, ends, strict=True)}
    async with open_sandbox(PLAIN, pool=PoolOptions(size=0, running=20)) as sandbox:
        healthy = await end_of(sandbox, Fault("none", "lost"))
        await sandbox.settle()
        await asyncio.wait(proxied)
        before = await held(sandbox)
        ends = await asyncio.gather(*(end_of(sandbox, fault) for fault in expected))
        after = await end_of(sandbox, Fault("none", "lost"))
        await sandbox.settle()
        await asyncio.wait(proxied)
        left = await held(sandbox)

    assert dict(zip(expected, ends, strict=True)) == expected
    assert (healthy, after) == (OK, OK)
    assert left == before


class GivenUp:
    """Awaits a coroutine and gives up at its `at`-th wait: at once, or when that wait is over but not yet noticed."""

    def __init__(self, work: Coroutine[Any, Any, Any], *, at: int, late: bool) -> None:
        self.waits = 0
        self._work = work
        self._at = at
        self._late = late

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        failure: BaseException | None = None
        while True:
            try:
                future = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                return stop.value
            failure = None
            self.waits += 1
            here = self.waits == self._at
            if here and not self._late:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield future
            except BaseException as error:  # noqa: BLE001 - passed on to the work as it came
                failure = error
            if here and self._late:
                failure = asyncio.CancelledError()


@pytest.mark.parametrize("late", [False, True], ids=["while waiting", "as the wait ends"])
@pytest.mark.parametrize("size", [0, 1], ids=["forking", "from the pool"])
@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_caller_may_give_up_at_any_step(held: Held, tier: Tier, size: int, late: bool) -> None:
    """A run cancelled at its first wait, its second and so on leaves nothing, and the next one works."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        return args["n"] * 10

    async def attempt(sandbox: Sandbox, at: int) -> tuple[str, int]:
        run = GivenUp(sandbox.run(CODE, on_call=on_call, session="s"), at=at, late=late)
        try:
            return f"{(await run).result}", run.waits
        except asyncio.CancelledError:
            return "cancelled", run.waits

    async with open_sandbox(PLAIN, tier=tier, allow_weaker=True, pool=PoolOptions(size=size)) as sandbox:
        await sandbox.run("1", session="s")
        before = await held(sandbox)
        ends = []
        for at in range(1, 50):
            end, waits = await asyncio.create_task(attempt(sandbox, at))
            ends.append(end)
            if waits < at:
                break
            await sandbox.settle()
        left = await held(sandbox)

    assert ends == ["cancelled"] * (len(ends) - 1) + ["[10, 20]"]
    assert len(ends) >= 3
    assert left == before


@pytest.mark.parametrize("late", [False, True], ids=["while waiting", "as the wait ends"])
@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_caller_may_give_up_at_any_step_of_opening(held: Held, tier: Tier, late: bool) -> None:
    """A sandbox that nobody waits for any more is taken down again, however far it was built."""

    async def attempt(at: int) -> tuple[str, int]:
        opened = open_sandbox(PLAIN, tier=tier, allow_weaker=True, pool=PoolOptions(size=1))
        opening = GivenUp(opened.__aenter__(), at=at, late=late)
        try:
            await opening
        except asyncio.CancelledError:
            return "cancelled", opening.waits
        await opened.__aexit__(None, None, None)
        return "opened", opening.waits

    before = await held()
    ends = []
    for at in range(1, 50):
        end, waits = await asyncio.create_task(attempt(at))
        ends.append(end)
        if waits < at:
            break

    assert ends == ["cancelled"] * (len(ends) - 1) + ["opened"]
    assert len(ends) >= 3
    assert await held() == before


@pytest.mark.parametrize("late", [False, True], ids=["while waiting", "as the wait ends"])
async def test_caller_may_give_up_at_any_step_of_recycling(held: Held, late: bool) -> None:
    """Either zygote is then the one in use, sessions keep their files, and nothing of the other is left."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        for name in ("a", "b"):
            await sandbox.run("open('f', 'w').write(name)", context={"name": name}, session=name)
        before = await held(sandbox)
        texts = []
        for at in range(1, 50):
            recycling = GivenUp(sandbox.recycle(), at=at, late=late)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.create_task(_await(recycling))
            texts.append([(await sandbox.run("open('f').read()", session=name)).result for name in ("a", "b")])
            if recycling.waits < at:
                break
        left = await held(sandbox)

    assert texts == [["a", "b"]] * len(texts)
    assert len(texts) >= 2
    assert left == before


async def _await(work: Awaitable[Any]) -> Any:
    return await work


@pytest.mark.parametrize("old_lives", [True, False])
async def test_death_of_a_new_zygote_while_it_takes_over_costs_at_most_one_workspace(
    held: Held, monkeypatch: pytest.MonkeyPatch, old_lives: bool
) -> None:
    """With the old zygote alive nothing is lost; without it, what was on its way is, and the rest goes on."""
    adopt = Zygote.adopt_workspace
    adopted: list[int] = []

    async def adopt_and_die(self: Zygote, number: int, root_fd: int) -> int:
        answer = await adopt(self, number, root_fd)
        adopted.append(number)
        if len(adopted) == 1:  # the answer never arrives
            os.close(answer)
            self.hang_up()
            raise SandboxBroken("The zygote ended. Run again: a new one is started.")
        return answer

    read = "open('f').read() if __import__('os').path.exists('f') else None"
    before = await held()
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        for name in ("a", "b"):
            await sandbox.run("open('f', 'w').write(name)", context={"name": name}, session=name)
        await sandbox.settle()
        if not old_lives:
            sandbox.zygote._process.child.kill()
            async with asyncio.timeout(60):
                await asyncio.shield(sandbox.pool._waiting[0].fork.exited)
        monkeypatch.setattr(Zygote, "adopt_workspace", adopt_and_die)
        with pytest.raises(SandboxBroken):
            await sandbox.recycle()
        await sandbox.recycle()
        single = await sandbox.run("1")
        texts = [(await sandbox.run(read, session=name)).result for name in ("a", "b")]

    possible = {("a", "b")} if old_lives else {(None, "b"), ("a", None)}  # whichever was on its way
    assert single.result == 1
    assert tuple(texts) in possible
    assert await held() == before


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no further file."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_a_worker_whose_descriptor_does_not_come_is_killed(held: Held, tier: Tier) -> None:
    """At the limit of open files the kernel drops it, and nothing else would end the worker."""
    async with open_sandbox(PLAIN, tier=tier, allow_weaker=True, pool=PoolOptions(size=0)) as sandbox:
        before = await held(sandbox)
        fork = await sandbox.zygote.fork(4_242, user=None, cores=None, waits=False, entrances=[], library=None)
        with no_more_files():
            async with asyncio.timeout(20):
                ended = await fork.exited
        os.close(fork.output_fd)
        fork.connection.close()

        assert ended is not None
        assert (ended.signal, fork.pidfd) == (signal.SIGKILL, None)
        assert fork.trouble == "the gateway has too many open files. Raise its limit of open files"
        assert (await sandbox.run("1 + 1")).result == 2
        await sandbox.settle()
        assert await held(sandbox) == before


async def test_a_workspace_whose_descriptor_does_not_come_can_be_made_again() -> None:
    """The zygote does not keep the one that nobody can reach."""
    async with open_sandbox(PLAIN, tier="namespace", allow_weaker=True, pool=PoolOptions(size=0)) as sandbox:
        making = asyncio.create_task(sandbox.zygote.create_workspace(4_242, size_bytes=1 << 20, files=10))
        await asyncio.sleep(0)
        with no_more_files(), pytest.raises(SandboxBroken, match="too many open files"):
            await making
        again = await sandbox.zygote.create_workspace(4_242, size_bytes=1 << 20, files=10)
        os.close(again)
        await sandbox.zygote.remove_workspace(4_242)
