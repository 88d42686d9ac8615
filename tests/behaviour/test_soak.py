"""Thousands of runs in a row: nothing grows."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy import DEFAULT

RUNS = 3_000
WARM_UP = 200
GROWTH_BYTES = 16 << 20

Held = Callable[..., Awaitable[dict[str, Any]]]


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own: what it shares with its workers does not grow with them."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def zygote_pid(sandbox: Sandbox) -> int:
    """The process that forks: the child of the one that was started."""
    first = sandbox.zygote._process.child.pid
    (child,) = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()
    return int(child)


@pytest.mark.behaviour("leftovers.soak")
@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_thousands_of_runs_leave_everything_as_it_was(held: Held) -> None:
    """Descriptors, processes, directories and control groups are the same after 3,000 runs, memory within bounds."""

    async def on_call(tool: str, args: dict[str, Any]) -> Any:
        return args

    async def run(sandbox: Sandbox, n: int) -> None:
        kind = n % 10
        if kind == 7:
            outcome = await sandbox.run("raise ValueError(n)", context={"n": n})
            assert outcome.failure is not None
            assert outcome.failure.message == str(n)
        elif kind == 8:
            outcome = await sandbox.run("call_tool('a', {'n': n})['n']", context={"n": n}, on_call=on_call)
            assert outcome.result == n
        elif kind == 9:
            outcome = await sandbox.run("open('f', 'w').write('x' * 1000)\nn", context={"n": n}, session="s")
            assert outcome.result == n
        else:
            outcome = await sandbox.run("print(n)\nn + 1", context={"n": n})
            assert (outcome.result, outcome.output) == (n + 1, f"{n}\n")

    options = PoolOptions(size=2, recycle_after=10**9)
    async with open_sandbox(msgspec.structs.replace(DEFAULT, packages=()), pool=options) as sandbox:
        for n in range(WARM_UP):
            await run(sandbox, n)
        before = await held(sandbox)
        pids = os.getpid(), zygote_pid(sandbox)
        memory = [resident_bytes(pid) for pid in pids]
        for n in range(RUNS):
            await run(sandbox, n)
        after = await held(sandbox)
        grown = [resident_bytes(pid) - was for pid, was in zip(pids, memory, strict=True)]

    assert after == before
    assert [growth < GROWTH_BYTES for growth in grown] == [True, True], f"gateway and zygote grew by {grown} bytes"
