"""A sandbox that begins before the rest of a gateway is there: its zygote is used once, or nothing of it is left."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.sandbox import IsolationPolicy, open_sandbox
from sealyard.sandbox.ahead import Ahead, begin_sandbox
from sealyard.sandbox.policy import DEFAULT

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


@asynccontextmanager
async def begun(folder: Path, policy: IsolationPolicy = PLAIN) -> AsyncIterator[tuple[Ahead, int]]:
    """A sandbox that has begun, and the process that it started."""
    before = zygotes()
    async with begin_sandbox(policy, tier=None, own={}, folder=folder) as ahead:
        (pid,) = zygotes() - before
        yield ahead, pid


def zygotes() -> set[int]:
    """Every zygote that this process has started, those that wait to be reaped included."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == os.getpid():
            found.add(int(folder.name))
    return found


@pytest.mark.behaviour("start.ahead")
async def test_a_sandbox_that_has_begun_goes_on_with_its_zygote(tmp_path: Path) -> None:
    """No other is started, the library is the one that it shows, and a replacement is a new one."""
    before = zygotes()
    async with begun(tmp_path) as (ahead, pid):
        async with open_sandbox(PLAIN, library=ahead.library, folder=tmp_path, ahead=ahead) as sandbox:
            await ahead.library.publish("1", {"__init__.py": "", "shop/__init__.py": "price = 3"})
            ran = await sandbox.run("from servers.shop import price\nprice")
            used = zygotes() - before
            await sandbox.recycle()
            replaced = await sandbox.run("1 + 1")
            later = sandbox.zygote._process.child.pid
        after = zygotes() - before

    assert used == {pid}
    assert (ran.result, replaced.result) == (3, 2)
    assert later != pid
    assert after == set()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tier", [None, "landlock"], ids=["other policy", "other tier"])
async def test_a_sandbox_that_is_not_the_one_begun_starts_its_own(tmp_path: Path, tier: Any) -> None:
    """A zygote that was built for anything else is not used, and ends."""
    before = zygotes()
    policy = PLAIN if tier else msgspec.structs.replace(PLAIN, memory_mib=PLAIN.memory_mib - 1)
    async with begun(tmp_path) as (ahead, pid):
        parts = {"tier": tier, "library": ahead.library, "folder": tmp_path, "allow_weaker": True}
        async with open_sandbox(policy, ahead=ahead, **parts) as sandbox:
            ran = await sandbox.run("1 + 1")
            own = sandbox.zygote._process.child.pid

    assert ran.result == 2
    assert own != pid
    assert zygotes() == before
    assert list(tmp_path.iterdir()) == []


async def test_nothing_is_left_of_a_sandbox_that_began_in_vain(tmp_path: Path) -> None:
    """Neither a process, nor one that waits to be reaped, nor a directory, nor a descriptor."""
    before, open_before = zygotes(), os.listdir("/proc/self/fd")
    with pytest.raises(LookupError):
        async with begun(tmp_path):
            raise LookupError

    assert zygotes() == before
    assert list(tmp_path.iterdir()) == []
    assert os.listdir("/proc/self/fd") == open_before


async def test_a_zygote_that_was_killed_before_its_use_is_replaced(tmp_path: Path) -> None:
    """The sandbox that is opened is as strong as without one ahead."""
    async with begun(tmp_path) as (ahead, pid):
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        async with open_sandbox(PLAIN, library=ahead.library, folder=tmp_path, ahead=ahead) as sandbox:
            ran, report = await sandbox.run("1 + 1"), sandbox.report
        async with open_sandbox(PLAIN, folder=tmp_path) as usual:
            expected = usual.report

    assert ran.result == 2
    assert report == expected
