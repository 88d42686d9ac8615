"""Attacks of one principal on what belongs to others: their stubs, their room, their results, and its own level."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.errors import LevelUnavailable, OwnQueueFull, QueueFull, SandboxBroken
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.importable import Library, open_library
from sealyard.sandbox.policy import DEFAULT, LEVELS, IsolationLevel
from sealyard.sandbox.pool import RunClock, Slots
from sealyard.values.runs import Outcome, Result, Usage
from sealyard.yard.executions import ExecuteRequest, Execution, Executions

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
HARDENED = LEVELS[IsolationLevel.HARDENED]


@contextlib.asynccontextmanager
async def opened(tier: str, **options: Any) -> AsyncIterator[tuple[Sandbox, Library]]:
    """A sandbox over a library in which one view has `zloty` and the other has `open`."""
    async with open_library() as library:
        await library.publish("whole", {"__init__.py": "", "zloty/__init__.py": "", "zloty/pay.py": "# pay"})
        await library.publish(
            "part", {"__init__.py": "", "open/__init__.py": "", "open/read.py": "# read"}, catalog="whole"
        )
        async with open_sandbox(
            PLAIN, tier=tier, allow_weaker=True, library=library, pool=PoolOptions(size=1, **options)
        ) as sandbox:
            yield sandbox, library


WALK = """
import os, servers
home = servers.__path__[0]
seen = []
above = os.path.dirname(home)
for root in ("/servers", "/library", "/empty", "/sessions", home, above, os.path.dirname(above)):
    for folder, folders, files in os.walk(root, followlinks=True):
        seen += [os.path.join(folder, name) for name in folders + files]
tried = []
for path in paths:
    for attempt in (lambda: open(f"{path}/zloty/pay.py").read(), lambda: os.listdir(path)):
        try:
            tried.append(attempt())
        except OSError:
            pass
result = [dir(servers), sorted({os.path.relpath(path, home) for path in seen if path.startswith(home + "/")}),
          [path for path in seen if "zloty" in path], tried]
"""


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_a_run_finds_no_stub_of_another_view(tier: str) -> None:
    """Neither by walking, nor by the very name of the other's folder; its own is there, as a control."""
    async with opened(tier) as (sandbox, library):
        with library.in_use("whole") as folder:
            paths = [f"/servers/{folder}", f"/servers/../{folder}", f"/library/{folder}", f"{library.path}/{folder}"]
            part = await sandbox.run(WALK, context={"paths": paths}, library_version="part")
            whole = await sandbox.run(WALK, context={"paths": [str(library.path)]}, library_version="whole")

    own = ["__init__.py", "open", "open/__init__.py", "open/read.py"]
    assert (part.failure, part.result) == (None, [["open"], own, [], []])
    assert whole.result[0] == ["zloty"]
    assert whole.result[1] == ["__init__.py", "zloty", "zloty/__init__.py", "zloty/pay.py"]


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_a_worker_that_waited_for_another_view_shows_only_its_own(tier: str) -> None:
    """Workers that wait are made ready for the view of the last run, whoever gets them then."""
    async with opened(tier) as (sandbox, _):
        seen = []
        for version in ("whole", "part", "part", "whole"):
            await sandbox.settle()
            outcome = await sandbox.run(
                "import os, servers\nsorted(os.listdir(servers.__path__[0]))", library_version=version
            )
            seen.append(outcome.result)

    whole, part = ["__init__.py", "zloty"], ["__init__.py", "open"]
    assert seen == [whole, part, part, whole]


async def test_a_version_that_is_gone_is_not_replaced_by_another() -> None:
    """A run is refused rather than given stubs that it was not to see."""
    async with opened("namespace") as (sandbox, library):
        await library.publish("later", {"__init__.py": ""})
        with pytest.raises(SandboxBroken):
            await sandbox.run("1", library_version="part")


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_a_stricter_level_binds_one_run_and_leaves_the_next_alone(tier: str) -> None:
    """Imports, memory, files and new native code: what the level forbids is refused inside, without any review."""
    code = """
import json
found = {}
try:
    import csv
    found["csv"] = True
except ImportError as error:
    found["csv"] = str(error)
try:
    mmap = json.codecs.builtins.__import__("mmap")  # not the guarded one: what is left is the kernel's part
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    found["code"] = True
except (ImportError, OSError):
    found["code"] = False
for name, paths, mib in files:
    try:
        for path in paths:
            with open(path, "wb") as file:
                file.write(bytes(mib << 20))
        found[name] = True
    except OSError:
        found[name] = False
result = found
"""
    async with opened(tier) as (sandbox, _):
        files = [["file", ["large"], 24]]
        if tier == "namespace":  # the other one watches the sum, and ends the run
            files += [["temp", ["/tmp/a", "/tmp/b"], 6], ["workspace", ["a", "b", "c"], 7]]
        context = {"files": files}
        before = await sandbox.run(code, context=context, session="p:s")
        strict = await sandbox.run(code, context=context, session="q:s", policy=HARDENED)
        after = await sandbox.run(code, context=context, session="p:s")
        filled = [await sandbox.run("len(bytearray(300 << 20))", policy=policy) for policy in (None, HARDENED)]

    usual = {"csv": True, "code": True} | {name: True for name, _, _ in files}
    assert [each.level for each in (before, strict, after)] == ["production", "hardened", "production"]
    assert (before.result, after.result) == (usual, usual)
    refused = "Importing 'csv' is not allowed at level 'hardened'."
    assert strict.result == {"csv": refused, "code": False} | {name: False for name, _, _ in files}
    assert [each.failure and each.failure.kind for each in filled] == [None, "memory"]


async def test_a_level_that_cannot_be_honoured_is_refused_before_anything_runs() -> None:
    """A principal's level promises as much as the gateway's own would; who accepts less says so for both."""
    outcomes = []
    for allow_weaker in (False, True):
        async with open_sandbox(PLAIN, allow_weaker=allow_weaker, pool=PoolOptions(size=0)) as sandbox:
            # As on a machine that lacks a layer, which only this level insists on.
            assert sandbox.report is not None
            first, *others = sandbox.report.layers
            layers = (msgspec.structs.replace(first, present=False), *others)
            sandbox.report = msgspec.structs.replace(sandbox.report, layers=layers)
            try:
                outcomes.append((await sandbox.run("1", policy=HARDENED)).result)
            except LevelUnavailable:
                outcomes.append((await sandbox.run("2")).result)

    assert outcomes == [2, 1]


async def test_who_fills_all_workspaces_locks_nobody_out(tmp_path: Path) -> None:
    """A newcomer gets a workspace at once, and nobody is refused one; what goes to disk is the filler's own."""
    options = PoolOptions(size=1, sessions=4, idle_folder=tmp_path)
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        for name in ("a", "b", "c", "d", "e"):
            await sandbox.run("open('f', 'w').close()", session=f"eve:{name}")
        for name in ("a", "b"):
            await sandbox.run("open('f', 'w').close()", session=f"bob:{name}")
        await sandbox.settle()
        names = sandbox.sessions()
        opened = [name for name in names if sandbox.find_workspace(name) is not None]

    assert names == ["bob:a", "bob:b", "eve:a", "eve:b", "eve:c", "eve:d", "eve:e"]
    assert opened == ["bob:a", "bob:b", "eve:d", "eve:e"]


class Holding:
    """Runs that begin and wait until they are let go."""

    def __init__(self) -> None:
        self.started = asyncio.Semaphore(0)
        self.release = asyncio.Event()

    async def on_call(self, tool: str, args: dict[str, Any]) -> None:
        """What their code calls."""
        self.started.release()
        await self.release.wait()

    async def begin(self, sandbox: Sandbox, owner: str, count: int, *, begun: int) -> "list[asyncio.Task[Outcome]]":
        """Runs of an owner, of which so many begin."""
        runs = [
            asyncio.create_task(sandbox.run("call_tool('wait')", session=f"{owner}:{n}", on_call=self.on_call))
            for n in range(count)
        ]
        for _ in range(begun):
            await asyncio.wait_for(self.started.acquire(), 60)
        return runs


@pytest.mark.behaviour("principals.fair")
async def test_who_asks_for_every_turn_leaves_some_to_whoever_comes() -> None:
    """One principal's runs wait while the last turns are free; another's begin at once and end before them."""
    holding = Holding()
    options = PoolOptions(size=1, running=8, weights={"eve": 1.0, "bob": 1.0})
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        runs = await holding.begin(sandbox, "eve", 20, begun=7)
        queued = sandbox.slots.queued
        other = await asyncio.wait_for(sandbox.run("1", session="bob:a"), 60)
        assert not any(run.done() for run in runs)
        holding.release.set()
        outcomes = await asyncio.gather(*runs)

    assert (queued, other.result) == (13, 1)
    assert [outcome.status for outcome in outcomes] == ["ok"] * 20


async def test_turns_are_shared_by_weight_when_all_want_more() -> None:
    """The next turn goes to whoever has the fewest for its weight, not to who came first."""
    slots = Slots(PoolOptions(running=9, weights={"eve": 1.0, "bob": 1.0, "ann": 2.0}))
    begun, held = asyncio.Semaphore(0), Counter[str]()

    async def hold(owner: str) -> None:
        async with slots.one(RunClock(), owner):
            held[owner] += 1
            begun.release()
            await asyncio.Event().wait()

    async def wait_for(count: int) -> Counter[str]:
        for _ in range(count):
            await asyncio.wait_for(begun.acquire(), 60)
        return held.copy()

    first = [asyncio.create_task(hold("eve")) for _ in range(40)]
    alone = await wait_for(8)
    others = [asyncio.create_task(hold(owner)) for _ in range(40) for owner in ("bob", "ann")]
    beside = await wait_for(1)
    for task in first[:8]:
        task.cancel()
    shared = await wait_for(7)
    for task in (*first, *others):
        task.cancel()
    await asyncio.wait({*first, *others})

    assert (alone, beside["eve"]) == ({"eve": 8}, 8)
    assert shared - Counter(eve=8) == {"ann": 4, "bob": 2, "eve": 2}
    assert slots.queued == 0


async def test_a_thousand_calls_of_one_owner_stand_in_nobody_elses_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take their steps on the event loop one by one, while another owner's is taken at once."""
    monkeypatch.setattr("sealyard.sandbox.pool.slots._LATELY_SECONDS", 3_600.0)  # however slowly the test itself runs
    slots = Slots(PoolOptions(running=8, weights={"eve": 1.0, "bob": 1.0}))
    async with slots.one(RunClock(), "eve"), slots.one(RunClock(), "eve"), slots.one(RunClock(), "bob"):
        steps = [asyncio.create_task(slots.step("eve")) for _ in range(1_000)]
        await asyncio.sleep(0)
        waiting = sum(not step.done() for step in steps)
        other = asyncio.create_task(slots.step("bob"))
        await asyncio.sleep(0)
        is_through = other.done()
        for step in steps[1:]:
            step.cancel()
        async with asyncio.timeout(60):
            await steps[0]
            await slots.step("eve")  # nothing of those that left stands in the way of the next

    assert (waiting, is_through) == (1_000, True)


async def test_a_queue_that_is_full_refuses_its_owner_and_no_one_else() -> None:
    """Who has as many runs as one may have is told so; all together are told that the gateway is full."""
    holding = Holding()
    options = PoolOptions(size=1, running=2, queue=4, queue_each=2, weights={"eve": 1.0, "bob": 1.0})
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        eve = await holding.begin(sandbox, "eve", 3, begun=1)
        with pytest.raises(OwnQueueFull) as own:
            await sandbox.run("1", session="eve:x")
        bob = await holding.begin(sandbox, "bob", 3, begun=1)
        with pytest.raises(QueueFull) as whole:
            await sandbox.run("1", session="ann:x")
        for run in eve[1:]:
            run.cancel()
        await asyncio.wait(eve[1:])
        holding.release.set()
        after = await sandbox.run("1", session="eve:y")
        await asyncio.gather(eve[0], *bob)

    assert str(own.value) == (
        "3 of your runs are under way or wait for their turn, the most that one client may have. Wait for some of them "
        "to end, or cancel some, and try again."
    )
    assert type(whole.value) is QueueFull
    assert (
        str(whole.value) == "The gateway is full: it has 6 runs, with those that wait for their turn. Try again later."
    )
    assert after.result == 1
    assert min(own.value.retry_seconds, whole.value.retry_seconds) >= 1


async def test_the_runs_of_one_owner_step_back_for_those_of_others() -> None:
    """The kernel is told so: the more runs an owner has, the less each of them weighs; code cannot take it back."""
    holding = Holding()
    look = """
import os
before = os.getpriority(os.PRIO_PROCESS, 0)
try:
    os.nice(-1)
except OSError:
    pass
[before, os.getpriority(os.PRIO_PROCESS, 0)]
"""
    options = PoolOptions(size=1, running=8, weights={"eve": 1.0, "bob": 1.0})
    async with open_sandbox(PLAIN, pool=options) as sandbox:
        runs = await holding.begin(sandbox, "eve", 3, begun=3)
        fourth = await sandbox.run(look, session="eve:look")
        other = await sandbox.run(look, session="bob:look")
        holding.release.set()
        await asyncio.gather(*runs)

    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert other.result == [own, own]
    assert fourth.result == [min(19, own + 9)] * 2


async def test_nobody_pushes_out_what_another_has_not_read_yet() -> None:
    """Finished executions are kept for each principal by itself."""

    async def run(execution: Execution) -> Result:
        execution.recorded.set()
        outcome = Outcome(execution_id=execution.id, status="ok", usage=Usage(wall_seconds=0), tier="", level="")
        return Result(text="", is_error=False, outcome=outcome)

    executions = Executions(run)
    request = ExecuteRequest(code="1")
    first = await executions.start(request, principal="bob")
    for _ in range(600):
        last = await executions.start(request, principal="eve")
        await executions.look(last.execution_id, principal="eve")
    state = await executions.look(first.execution_id, principal="bob")

    assert state.state == "done"
