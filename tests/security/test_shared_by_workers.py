"""What workers share or inherit from one another: a network, control groups, and the process they were forked from."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.sandbox import IsolationLevel, PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy import DEFAULT, LEVELS, IsolationPolicy
from sealyard.values.runs import Limits

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
HARDENED = LEVELS[IsolationLevel.HARDENED]
ONE = PoolOptions(size=1)


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(folder.name))
    return found


async def networks(sandbox: Sandbox, policy: IsolationPolicy | None = None) -> tuple[str, set[str]]:
    """The network namespaces of the zygote, and of two workers that run at once."""
    await sandbox.settle()
    held, gone = [0], asyncio.Event()
    both = asyncio.Event()

    async def hold(tool: str, args: dict[str, Any]) -> None:
        held[0] += 1
        if held[0] == 2:
            both.set()
        await gone.wait()

    runs = [asyncio.create_task(sandbox.run("call_tool('hold')", on_call=hold, policy=policy)) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            await both.wait()
        (zygote,) = children(sandbox.zygote._process.child.pid)
        workers = {os.readlink(f"/proc/{pid}/ns/net") for pid in children(zygote)}
        return os.readlink(f"/proc/{zygote}/ns/net"), workers
    finally:
        gone.set()
        await asyncio.gather(*runs)


async def test_workers_share_the_empty_network_of_their_zygote_and_not_that_of_the_host() -> None:
    """One namespace, in which no socket can be opened; the scenes of the attacks try to."""
    async with open_sandbox(PLAIN, tier="namespace", pool=PoolOptions(size=0)) as sandbox:
        zygote, workers = await networks(sandbox)

    assert workers == {zygote}
    assert zygote != os.readlink("/proc/self/ns/net")


async def test_hardened_workers_have_a_network_each() -> None:
    """In a sandbox of that level, and in another one for a run whose policy asks for it."""
    async with open_sandbox(HARDENED, tier="namespace", pool=PoolOptions(size=0)) as sandbox:
        zygote, workers = await networks(sandbox)
    async with open_sandbox(PLAIN, tier="namespace", pool=PoolOptions(size=0)) as sandbox:
        other, narrowed = await networks(sandbox, HARDENED)

    assert (len(workers), zygote in workers) == (2, False)
    assert (len(narrowed), other in narrowed) == (2, False)


async def test_control_group_of_a_worker_that_was_killed_says_nothing_about_the_next() -> None:
    """A crash after a run that was out of memory is a crash, though both had the same control group."""
    async with open_sandbox(PLAIN, tier="namespace", pool=ONE) as sandbox:
        if sandbox.resource_control == "rlimits":
            pytest.skip("no control group is delegated to this process")
        kinds = []
        for code in ("x = b'x' * (1 << 30)", "import os\nos.abort()") * 2:
            outcome = await sandbox.run(code, limits=Limits(memory_mib=64))
            assert outcome.failure is not None
            kinds.append(outcome.failure.kind)
            await sandbox.settle()

    assert kinds == ["memory", "crash"] * 2


async def test_files_of_one_run_take_nothing_off_the_memory_of_the_next() -> None:
    """What a session keeps stays charged to the group of the worker that wrote it, which is not used again."""
    write = "open('big', 'wb').write(b'x' * (40 << 20))\n'written'"
    async with open_sandbox(PLAIN, tier="namespace", pool=ONE) as sandbox:
        results = []
        for number in range(3):
            results.append((await sandbox.run(write, session=f"s{number}")).result)
            await sandbox.settle()
            filled = await sandbox.run("len(b'x' * (40 << 20))", limits=Limits(memory_mib=64))
            results.append(filled.result)
            await sandbox.settle()

    assert results == ["written", 40 << 20] * 3


async def test_limit_of_one_run_does_not_stay_with_its_control_group() -> None:
    """The next run has the memory of its own policy, less or more than the one before."""
    async with open_sandbox(PLAIN, tier="namespace", pool=ONE) as sandbox:
        ends = []
        for limits in (Limits(memory_mib=64), None, Limits(memory_mib=64), None):
            outcome = await sandbox.run("len(b'x' * (200 << 20))", limits=limits)
            ends.append(outcome.result if outcome.failure is None else outcome.failure.kind)
            await sandbox.settle()

    assert ends == ["memory", 200 << 20] * 2


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_forked_worker_has_its_own_chance_and_no_descriptor_of_another(tier: Any) -> None:
    """A fork without Python's hooks repeats no random number, and knows its own thread."""
    chance = "import random, tempfile, uuid\n[random.random(), uuid.uuid4().hex, next(tempfile._get_candidate_names())]"
    look = """
import os, threading
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
[[n for n in range(120) if is_open(n)], threading.main_thread().native_id == threading.get_native_id()]
"""
    async with open_sandbox(PLAIN, tier=tier, allow_weaker=True, pool=PoolOptions(size=2)) as sandbox:
        await sandbox.settle()
        seen = [(await sandbox.run(chance)).result for _ in range(6)]
        states = [(await sandbox.run(look)).result for _ in range(3)]

    assert all(len(set(column)) == len(seen) for column in zip(*seen, strict=True))
    assert states == [[[0, 1, 2, 3], True]] * 3
