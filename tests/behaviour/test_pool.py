"""The pool: single-use workers, zygotes that come and go, many runs at once, and an orderly end."""

import asyncio
import secrets
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest, SandboxBroken, SandboxClosed
from sealyard.sandbox import PoolOptions, open_sandbox
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.pool import RunClock
from sealyard.sandbox.worker import Worker
from sealyard.values.runs import Limits, Outcome

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
Held = Callable[..., Awaitable[dict[str, Any]]]


class Gate:
    """A callback that holds every call until it is opened, and says when so many are waiting."""

    def __init__(self) -> None:
        self.tools: list[str] = []
        self._open = asyncio.Event()
        self._arrived = asyncio.Condition()

    async def on_call(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Wait at the gate."""
        async with self._arrived:
            self.tools.append(tool)
            self._arrived.notify_all()
        await self._open.wait()
        return {"tool": tool, **args}

    async def wait_for(self, calls: int) -> None:
        """Wait until `calls` have arrived."""
        async with asyncio.timeout(60), self._arrived:
            await self._arrived.wait_for(lambda: len(self.tools) >= calls)

    def open(self) -> None:
        """Let all pass from now on."""
        self._open.set()


async def wait_for_the_end_of(*workers: Worker) -> None:
    """Wait, not for ever, until the host knows that these workers have ended."""
    async with asyncio.timeout(60):
        for worker in workers:
            await asyncio.shield(worker.fork.exited)


@pytest.mark.behaviour("isolation.fresh_worker")
def test_nothing_of_a_run_is_seen_by_the_next(driver: Any) -> None:
    """Variables, modules, environment, working directory and time zone are fresh each time."""
    spoil = """
        import builtins, json, os, sys
        leftover = builtins.leftover = json.leftover = 1
        sys.modules["leftover"] = json
        os.environ["LEFTOVER"] = "1"
        sys.path.insert(0, "/leftover")
        sys.setrecursionlimit(50_000)
        os.umask(0o777)
        os.chdir("/")
        json.dumps = None
        len("x")
    """
    look = """
        import builtins, json, os, sys
        found = [name for name in ("leftover",) if name in globals() or hasattr(builtins, name) or hasattr(json, name)]
        found += [name for name in ("leftover",) if name in sys.modules or f"/{name}" in sys.path]
        mask = os.umask(0)
        [found, os.environ.get("LEFTOVER"), sys.getrecursionlimit(), oct(mask), os.getcwd(), json.dumps(1)]
    """
    before = driver.run(look).result
    driver.run(spoil)

    assert [driver.run(look).result for _ in range(3)] == [before] * 3
    assert (before[0], before[1], before[4], before[5]) == ([], None, "/sandbox/workspace", "1")


async def test_run_forks_for_itself_when_nobody_waits() -> None:
    """A pool of size 0, a drained one and a burst larger than the pool all work."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=0)) as sandbox:
        alone = await sandbox.run("1")
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        await sandbox.drain()
        drained = await sandbox.run("2")
        burst = await asyncio.gather(*(sandbox.run("n", context={"n": n}) for n in range(8)))

    assert [outcome.result for outcome in (alone, drained, *burst)] == [1, 2, *range(8)]


async def test_pool_fills_up_again_after_a_run() -> None:
    """As many workers wait afterwards as before."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=3)) as sandbox:
        before = len(sandbox.pool._waiting)
        await sandbox.run("1")
        await sandbox.settle()

        assert (before, len(sandbox.pool._waiting)) == (3, 3)


async def test_a_worker_that_is_done_is_taken_down_after_its_answer() -> None:
    """The answer does not wait for the kernel to take a process apart; soon after, nothing of it is left."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        await sandbox.settle()
        worker = sandbox.pool._waiting[0]
        await sandbox.run("1")
        is_there_at_the_answer = not worker.fork.exited.done()
        await wait_for_the_end_of(worker)

    assert is_there_at_the_answer
    ended = worker.fork.exited.result()
    assert ended is not None
    assert ended.signal == signal.SIGKILL


@pytest.mark.parametrize(("pause_seconds", "can_wait", "expected"), [(60, False, 0), (0, False, 1), (0, True, 0)])
async def test_chores_are_done_at_once_if_runs_come_fast(pause_seconds: int, can_wait: bool, expected: int) -> None:
    """Nothing piles up behind such runs; after a pause, and after the only run of an owner, the answer goes first."""
    done: list[str] = []
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        await sandbox.settle()
        sandbox.pool._ended_at = asyncio.get_running_loop().time() - pause_seconds
        worker = await sandbox.pool.take()
        sandbox.pool.postpone(lambda: done.append("chore"), can_wait=can_wait)
        at_once = len(done)
        sandbox.pool.catch_up()
        await asyncio.shield(sandbox.pool.discard(worker))

    assert at_once == expected
    assert done == ["chore"]


async def test_the_only_run_of_an_owner_beside_others_leaves_its_chores_for_later() -> None:
    """However fast the runs of others come, its answer does not wait for the kernel."""
    waited: dict[str, list[bool]] = {"busy": [], "light": []}
    async with open_sandbox(PLAIN, pool=PoolOptions(size=4, weights={"busy": 1.0, "light": 1.0})) as sandbox:
        await sandbox.settle()

        async def run(owner: str, code: str) -> None:
            clock = RunClock()
            with sandbox.slots.enter(owner) as slot:
                async with slot.hold(clock):
                    await sandbox.run(code, slot=slot, clock=clock)
                waited[owner].append(slot.is_light)

        await asyncio.gather(run("busy", "import time\ntime.sleep(0.3)"), run("busy", "1"), run("light", "1"))

    assert waited == {"busy": [False, True], "light": [True]}


async def test_a_worker_that_is_done_is_gone_before_the_next_run_of_its_session() -> None:
    """Code that forges its own end and goes on writing cannot disturb the run that comes after it."""
    forged = """
        import os, struct
        body = b'{"t":"done","ok":true,"cpu_seconds":0.0,"memory_peak_bytes":0}'
        os.write(3, struct.pack("<I", len(body)) + body)
        while True:
            open("left.txt", "w").write("mine")
    """
    async with open_sandbox(PLAIN) as sandbox:
        await sandbox.run("1", session="a:b")
        await sandbox.settle()
        await asyncio.sleep(0.05)  # runs that come fast are taken down at once
        worker = sandbox.pool._waiting[0]
        ended = await sandbox.run(textwrap.dedent(forged), session="a:b")
        was_there = not worker.fork.exited.done()
        following = await sandbox.run(
            "import os, time\nopen('left.txt', 'w').write('')\ntime.sleep(0.05)\nopen('left.txt').read()", session="a:b"
        )

    assert (ended.status, was_there) == ("ok", True)
    assert worker.fork.exited.done()
    assert following.result == ""


@pytest.mark.parametrize("code", ["while True: pass", "print('x' * 2_000_000)", "import os\nos._exit(3)"])
async def test_a_worker_that_is_not_done_is_killed_at_once(code: str) -> None:
    """What the gateway ends, or ends itself, is dead before the caller can do anything."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        await sandbox.settle()
        worker = sandbox.pool._waiting[0]
        outcome = await sandbox.run(code, limits=Limits(wall_seconds=1, output_bytes=1_000_000))
        postponed = [chore for chore in sandbox.pool._postponed if "_end_worker" in repr(chore)]
        await wait_for_the_end_of(worker)

    assert outcome.status != "ok"
    assert postponed == []


async def test_a_thread_that_is_left_does_not_outlive_the_run() -> None:
    """A worker in which something goes on ends by itself."""
    code = """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    """
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        await sandbox.settle()
        worker = sandbox.pool._waiting[0]
        outcome = await sandbox.run(textwrap.dedent(code))
        await wait_for_the_end_of(worker)

    assert outcome.status == "ok"


async def test_zygote_is_replaced_after_its_count_of_forks() -> None:
    """Runs go on over the change and nothing of the old zygote remains."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=0, recycle_after=3)) as sandbox:
        children = {sandbox.zygote._process.child}
        for n in range(12):
            assert (await sandbox.run("n", context={"n": n})).result == n
            await sandbox.pool.settle()
            children.add(sandbox.zygote._process.child)
        alive = [child for child in children if child.poll() is None]

    assert len(children) == 5
    assert len(alive) == 1


async def test_runs_under_way_finish_on_the_zygote_they_began_on(held: Held) -> None:
    """Recycling takes nothing from them, and new runs do not collide with them."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        gate = Gate()
        old = asyncio.create_task(sandbox.run("call_tool('old')", on_call=gate.on_call))
        await gate.wait_for(1)
        for _ in range(2):
            await sandbox.recycle()
        new = [await sandbox.run("n", context={"n": n}) for n in range(6)]
        gate.open()

        assert (await old).result == {"tool": "old"}
        assert [outcome.result for outcome in new] == list(range(6))
        assert await held(sandbox) == before


async def test_death_of_the_zygote_is_said_to_the_run_and_mended_for_the_next(held: Held) -> None:
    """The host does not know how such a run ended, so it raises; the next one starts a new zygote."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        gate = Gate()
        run = asyncio.create_task(sandbox.run("call_tool('a')", on_call=gate.on_call))
        await gate.wait_for(1)
        sandbox.zygote._process.child.kill()
        with pytest.raises(SandboxBroken) as caught:
            await run
        after = [(await sandbox.run("n", context={"n": n})).result for n in range(3)]

        assert str(caught.value) == "The zygote ended during the run. Run again: a new one is started."
        assert after == [0, 1, 2]
        assert await held(sandbox) == before


async def test_death_of_an_idle_zygote_is_not_noticed_by_anybody() -> None:
    """Once it is known, the next run simply starts another."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        sandbox.zygote._process.child.kill()
        await wait_for_the_end_of(*sandbox.pool._waiting)
        outcomes = await asyncio.gather(*(sandbox.run("n", context={"n": n}) for n in range(4)))

    assert [outcome.result for outcome in outcomes] == [0, 1, 2, 3]


async def test_waiting_worker_that_dies_is_passed_over(held: Held) -> None:
    """Whoever killed it, the next run gets one that lives."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=2)) as sandbox:
        before = await held(sandbox)
        for worker in sandbox.pool._waiting:
            worker.stop()
        await wait_for_the_end_of(*sandbox.pool._waiting)
        outcomes = [await sandbox.run("n", context={"n": n}) for n in range(3)]

        assert [outcome.result for outcome in outcomes] == [0, 1, 2]
        assert await held(sandbox) == before


async def test_worker_killed_from_outside_in_mid_run_is_a_crash(held: Held) -> None:
    """Somebody else's kill is told with its signal, and the pool goes on."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1)) as sandbox:
        before = await held(sandbox)
        worker = sandbox.pool._waiting[0]
        gate = Gate()
        run = asyncio.create_task(sandbox.run("print('before')\ncall_tool('a')", on_call=gate.on_call))
        await gate.wait_for(1)
        worker.fork.kill()
        outcome = await run

        assert outcome.failure is not None
        assert (outcome.status, outcome.output, outcome.failure.kind, outcome.failure.message) == (
            "broken",
            "before\n",
            "crash",
            "The interpreter was ended by SIGKILL.",
        )
        assert await held(sandbox) == before


async def _outcome_or_error(run: "asyncio.Task[Outcome]") -> object:
    try:
        return (await run).status
    except (SandboxBroken, SandboxClosed) as error:
        return repr(error)


async def test_closing_ends_runs_under_way_and_those_that_wait(held: Held) -> None:
    """Whatever stage a run is at, on whichever zygote, it ends at once by `SandboxClosed`."""
    before = await held()
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, running=2)) as sandbox:
        gate = Gate()
        code = "call_tool('a')"
        runs = [asyncio.create_task(sandbox.run(code, on_call=gate.on_call))]
        await gate.wait_for(1)
        await sandbox.recycle()
        runs.append(asyncio.create_task(sandbox.run(code, on_call=gate.on_call, session="s")))
        await gate.wait_for(2)
        runs += [asyncio.create_task(sandbox.run(code, on_call=gate.on_call)) for _ in range(2)]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await sandbox.close()
            ends = [await _outcome_or_error(run) for run in runs]

    assert ends == ["SandboxClosed('The sandbox is closed.')"] * 4
    assert await held() == before


async def test_closed_sandbox_takes_no_runs(held: Held) -> None:
    """Every use after the end says so; closing again is fine."""
    before = await held()
    async with open_sandbox(PLAIN) as sandbox:
        await sandbox.run("1", session="s")
    await sandbox.close()

    messages = []
    for use in (sandbox.run("1"), sandbox.run("1", session="s"), sandbox.run("1", session="t"), sandbox.recycle()):
        with pytest.raises(SandboxClosed) as caught:
            await use
        messages.append(str(caught.value))

    assert messages == ["The sandbox is closed."] * 4
    assert sandbox.sessions() == []
    assert await held() == before


async def test_error_inside_the_with_block_closes_the_sandbox(held: Held) -> None:
    """An exception or a cancellation of the caller leaves nothing behind."""
    before = await held()

    async def failing(error: BaseException) -> None:
        async with open_sandbox(PLAIN) as sandbox:
            await sandbox.run("1", session="s")
            raise error

    for error in (LookupError("mine"), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            await failing(error)

    assert await held() == before


@pytest.mark.behaviour("isolation.neighbours")
async def test_sixty_four_runs_at_once_do_not_mix() -> None:
    """All are held in mid-flight together; then each gets its own answers, output, context and files."""
    number = 64
    async with open_sandbox(PLAIN, pool=PoolOptions(size=4, running=number, sessions=number)) as sandbox:
        gate = Gate()
        secret = {n: secrets.token_hex(8) for n in range(number)}
        streamed: dict[int, list[str]] = {n: [] for n in range(number)}
        code = textwrap.dedent(
            """
            import asyncio
            print(f"start {secret}")
            open("mine", "w").write(secret)
            first = call_tool("hold", {"secret": secret})
            rest = await asyncio.gather(*[call_tool(f"tool{n}", {"secret": secret, "n": n}) for n in range(3)])
            print(f"end {secret}")
            {"first": first["secret"], "rest": [[each["tool"], each["secret"]] for each in rest],
             "file": open("mine").read(), "all": context}
            """
        )
        runs = [
            asyncio.create_task(
                sandbox.run(
                    code,
                    context={"secret": secret[n]},
                    on_call=gate.on_call,
                    on_output=streamed[n].append,
                    session=f"s{n}",
                )
            )
            for n in range(number)
        ]
        await gate.wait_for(number)
        gate.open()
        outcomes = await asyncio.gather(*runs)

    assert [outcome.failure for outcome in outcomes] == [None] * number
    for n, outcome in enumerate(outcomes):
        mine = secret[n]
        assert outcome.result == {
            "first": mine,
            "rest": [["tool0", mine], ["tool1", mine], ["tool2", mine]],
            "file": mine,
            "all": {"secret": mine},
        }
        assert outcome.output == "".join(streamed[n]) == f"start {mine}\nend {mine}\n"
        assert outcome.usage.tool_calls == 4


async def test_more_runs_than_allowed_wait_their_turn() -> None:
    """No more than `running` are under way, and the wait does not count against anybody's time."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=0, running=2)) as sandbox:
        gate = Gate()
        runs = [
            asyncio.create_task(sandbox.run("call_tool(name)", context={"name": str(n)}, on_call=gate.on_call))
            for n in range(5)
        ]
        await gate.wait_for(2)
        under_way = len(gate.tools)
        gate.open()
        outcomes = await asyncio.gather(*runs)

    assert under_way == 2
    assert [outcome.result["tool"] for outcome in outcomes] == ["0", "1", "2", "3", "4"]


async def test_an_owner_that_is_alone_has_all_turns() -> None:
    """The gateway's own runs, by which it tries its walls, keep none free."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=0, running=4)) as sandbox:
        gate = Gate()
        runs = [
            asyncio.create_task(sandbox.run("call_tool('x')", session=f"ann:{n}", on_call=gate.on_call))
            for n in range(4)
        ]
        await gate.wait_for(4)
        gate.open()
        outcomes = await asyncio.gather(*runs)

    assert [outcome.status for outcome in outcomes] == ["ok"] * 4


async def test_waiting_for_a_turn_does_not_use_up_the_wall_time() -> None:
    """The deadline starts with the run."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=0, running=1)) as sandbox:
        first = asyncio.create_task(sandbox.run("while True: pass", limits=Limits(wall_seconds=1)))
        second = asyncio.create_task(sandbox.run("'in time'", limits=Limits(wall_seconds=1)))
        outcomes = await asyncio.gather(first, second)

    assert [outcome.status for outcome in outcomes] == ["timeout", "ok"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": -1}, "size of the pool is -1. Give at least 0."),
        ({"running": 0}, "running of the pool is 0. Give at least 1."),
        ({"recycle_after": 0}, "recycle_after of the pool is 0. Give at least 1."),
        ({"sessions": -1}, "sessions of the pool is -1. Give at least 0."),
    ],
)
def test_pool_options_out_of_range_are_refused(options: dict[str, int], message: str) -> None:
    """The message names the option and its least value."""
    with pytest.raises(InvalidRequest) as caught:
        PoolOptions(**options)

    assert str(caught.value) == message


async def test_unknown_tier_is_refused() -> None:
    """The message lists those there are."""
    with pytest.raises(InvalidRequest) as caught:
        async with open_sandbox(PLAIN, tier="chroot"):  # type: ignore[arg-type]
            pass

    assert str(caught.value) == "No tier is called 'chroot'. There are: namespace, landlock."


@pytest.mark.behaviour("isolation.no_fork")
def test_gateway_never_forks() -> None:
    """Opening, running, sessions, recycling and the death of a zygote: no fork hook of the process is called."""
    script = """
        import asyncio, os
        import msgspec
        from sealyard.sandbox import open_sandbox
        from sealyard.sandbox.policy import DEFAULT

        forks = []
        os.register_at_fork(before=lambda: forks.append(1))

        async def main():
            async with open_sandbox(msgspec.structs.replace(DEFAULT, packages=())) as sandbox:
                await asyncio.gather(*(sandbox.run("1", session=f"s{n % 2}") for n in range(8)))
                await sandbox.recycle()
                await sandbox.run("2")
                sandbox.zygote._process.child.kill()
                while sandbox.zygote.is_alive:
                    await asyncio.sleep(0.001)
                await sandbox.run("3")

        asyncio.run(main())
        before = len(forks)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        print(before, len(forks))
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stdout, done.stderr) == ("0 1\n", "")


async def test_two_sandboxes_live_side_by_side() -> None:
    """Each has its own zygote, workers and sessions; closing one leaves the other."""
    async with open_sandbox(PLAIN) as first:
        async with open_sandbox(PLAIN) as second:
            await first.run("open('f', 'w').write('x')", session="s")
            seen = [(await one.run("import os\nos.listdir('.')", session="s")).result for one in (first, second)]
        last = await first.run("open('f').read()", session="s")

    assert (seen, last.result) == ([["f"], []], "x")


async def test_code_sees_nothing_of_the_rehearsal_in_the_zygote() -> None:
    """Its namespace, its output, its files and its descriptors are those of a process that ran nothing before.

    Nor of what a worker does while it waits, which the later ones do during the runs before them.
    """
    code = """
        import os

        def is_open(fd):
            try:
                os.fstat(fd)
            except OSError:
                return False
            return True

        left = sorted({"Point", "total", "text", "rows"} & set(globals()))
        made = [kind.__name__ for kind in object.__subclasses__() if kind.__name__ == "Point"]
        result = [left, made, [fd for fd in range(3, 64) if is_open(fd)], os.listdir(".")]
    """
    async with open_sandbox(PLAIN) as sandbox:
        outcomes = [await sandbox.run("import time; time.sleep(0.05)\n" + textwrap.dedent(code)) for _ in range(6)]

    assert {outcome.output for outcome in outcomes} == {""}
    assert [outcome.result for outcome in outcomes] == [[[], [], [3], []]] * 6
