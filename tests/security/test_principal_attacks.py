"""Attacks of one principal on what belongs to others: their stubs, their room, their results, and its own level."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest, LevelUnavailable, SandboxBroken
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox, probe
from sealyard.sandbox.library import Library, open_library
from sealyard.sandbox.policy.levels import DEFAULT, LEVELS, IsolationLevel
from sealyard.values import Outcome, Result, Usage
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


async def test_a_level_that_cannot_be_honoured_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal's level promises as much as the gateway's own would; who accepts less says so for both."""
    outcomes = []
    for allow_weaker in (False, True):
        async with open_sandbox(PLAIN, allow_weaker=allow_weaker, pool=PoolOptions(size=0)) as sandbox:
            # As on a machine that lacks a layer, which only this level insists on.
            monkeypatch.setattr(probe, "_unhonoured", lambda policy, _: "no." if policy.every_layer else None)
            try:
                outcomes.append((await sandbox.run("1", policy=HARDENED)).result)
            except LevelUnavailable:
                outcomes.append((await sandbox.run("2")).result)

    assert outcomes == [2, 1]


async def test_who_fills_all_workspaces_locks_nobody_out() -> None:
    """A newcomer gets its share from whoever has more; it cannot take more than that, and hears no foreign name."""
    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=4)) as sandbox:
        for name in ("a", "b", "c", "d"):
            await sandbox.run("1", session=f"eve:{name}")
        for name in ("a", "b"):
            await sandbox.run("1", session=f"bob:{name}")
        shared = sandbox.sessions()
        refusals = []
        for session in ("eve:e", "bob:c"):
            with pytest.raises(InvalidRequest) as caught:
                await sandbox.run("1", session=session)
            refusals.append(str(caught.value))
        await sandbox.run("1", session="eve:d")

    assert shared == ["bob:a", "bob:b", "eve:c", "eve:d"]
    told = "4 sessions have a workspace, the most there can be. Use one of them again, or wait: one that is unused for"
    assert refusals == [f"{told} 3600 s makes room."] * 2


async def test_runs_under_way_hold_half_of_the_workspaces_at_most() -> None:
    """What runs cannot be given up, so nobody may keep all of it running."""
    release, started = asyncio.Event(), asyncio.Semaphore(0)

    async def on_call(tool: str, args: dict[str, Any]) -> None:
        started.release()
        await release.wait()

    async with open_sandbox(PLAIN, pool=PoolOptions(size=1, sessions=4)) as sandbox:
        runs = [
            asyncio.create_task(sandbox.run("call_tool('wait')", session=f"eve:{name}", on_call=on_call))
            for name in ("a", "b")
        ]
        for _ in runs:
            await asyncio.wait_for(started.acquire(), 60)
        with pytest.raises(InvalidRequest) as caught:
            await sandbox.run("1", session="eve:c")
        other = await sandbox.run("1", session="bob:a")
        release.set()
        await asyncio.gather(*runs)

    assert str(caught.value) == "2 of your sessions have runs under way. Wait for one of them."
    assert other.result == 1


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
