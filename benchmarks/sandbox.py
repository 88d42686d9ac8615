"""Measures sealed runs and calls, interleaved with their yardsticks so that both see the same machine."""

import asyncio
import json
import os
import random
import shutil
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy.levels import DEFAULT
from sealyard.sandbox.spawn import interpreter

__all__ = ("CALLS", "PROMISES", "bare", "interleaved", "measure", "socket_floor", "summary", "system_python")

_TRIVIAL = "1 + 1"
_PANDAS = """
import pandas as pd
frame = pd.DataFrame({"city": ["Rome", "Oslo", "Rome", "Bern"] * 25, "spent": range(100)})
result = frame.groupby("city")["spent"].sum().to_dict()
"""
CALLS = 1_000
_SUSTAINED_RUNS = 200
# Before each sample of any kind: the kernel takes the namespaces of the last worker down in the background.
_QUIET_SECONDS = 0.02

# The other end of the bare ping-pong: the least a call out of another process can cost under the same event loop.
_ECHO = """
import json, socket, struct, sys
link = socket.socket(fileno=int(sys.argv[1]))
def take(n):
    data = b""
    while len(data) < n:
        data += link.recv(n - len(data))
    return data
take(1)
for i in range(int(sys.argv[2])):
    body = json.dumps({"id": i, "tool": "echo", "args": {"n": i}}).encode()
    link.sendall(struct.pack("<I", len(body)) + body)
    json.loads(take(struct.unpack("<I", take(4))[0]))
"""

PROMISES = {
    "ratio_pool": "at most 0.08",
    "ratio_fork": "at most 0.35",
    "ratio_pool_pandas": "at most 0.2",
    "calls_ratio_to_socket_floor": "at most 4",
    "runs_per_second_sustained": "shown",
    "sustained_ratio_to_forking": "shown",
    "calls_per_second": "shown",
    "ratio_cold_start": "shown",
}


async def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `sealyard bench sandbox`."""
    bare_python = system_python()
    plain = msgspec.structs.replace(DEFAULT, packages=())
    pandas = msgspec.structs.replace(DEFAULT, packages=("pandas",))
    load_before = os.getloadavg()[0]
    cold = await _cold_start(plain)
    async with open_sandbox(plain, allow_weaker=True) as sandbox:
        tier, control = sandbox.tier, sandbox.resource_control
        async with open_sandbox(pandas, allow_weaker=True) as with_pandas:
            kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]] = {
                "bare python": (rounds, lambda: bare(bare_python)),
                "pool": (rounds, lambda: _pooled(sandbox, _TRIVIAL)),
                "fork": (rounds, lambda: _forked(sandbox)),
            }
            if with_pandas.packages.versions:
                kinds["pool pandas"] = (rounds, lambda: _pooled(with_pandas, _PANDAS))
            samples = await interleaved(kinds)
        floors, calls = [], []
        for _ in range(5):
            floors.append(await socket_floor(bare_python))
            calls.append(await _tool_calls(sandbox))
        sustained = await _runs_per_second(sandbox)
    async with open_sandbox(plain, allow_weaker=True, pool=PoolOptions(size=0)) as forking:
        by_forking = await _runs_per_second(forking)
    samples["call"] = [seconds / CALLS for seconds in calls]
    samples["socket ping-pong"] = [seconds / CALLS for seconds in floors]
    samples["cold start"] = cold
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "ratio_pool": p50["pool"] / p50["bare python"],
        "ratio_fork": p50["fork"] / p50["bare python"],
        "ratio_pool_pandas": p50["pool pandas"] / p50["bare python"] if "pool pandas" in p50 else None,
        "ratio_cold_start": p50["cold start"] / p50["bare python"],
        "runs_per_second_sustained": sustained,
        "sustained_ratio_to_forking": sustained / by_forking,
        "calls_per_second": 1 / p50["call"],
        "calls_ratio_to_socket_floor": p50["call"] / p50["socket ping-pong"],
        "samples": {name: summary(values) for name, values in samples.items()},
        "promises": PROMISES,
        "tier": tier,
        "resource_control": control,
        "load": f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores",
        "bare_python": bare_python,
    }


async def interleaved(kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]]) -> dict[str, list[float]]:
    """Samples of every kind in a random order, so that all of them see the same machine."""
    plan = [name for name, (count, _) in kinds.items() for _ in range(count)]
    random.shuffle(plan)
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    for name in plan:
        await asyncio.sleep(_QUIET_SECONDS)
        samples[name].append(await kinds[name][1]())
    return samples


def system_python() -> str:
    """The system's own interpreter: a version manager's shim would cost ten times as much and flatter every ratio."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if Path(path).exists():
            return path
    return shutil.which("python3.11") or interpreter()


async def _cold_start(policy: Any) -> list[float]:
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        async with open_sandbox(policy, allow_weaker=True, pool=PoolOptions(size=1)) as sandbox:
            await sandbox.run(_TRIVIAL)
            seconds.append(time.perf_counter() - started)
    return seconds


async def bare(python: str) -> float:
    """Seconds to start an interpreter that does nothing."""
    started = time.perf_counter()
    subprocess.run([python, "-c", "pass"], check=True)  # noqa: ASYNC221 - nothing else may run meanwhile
    return time.perf_counter() - started


async def _pooled(sandbox: Sandbox, code: str) -> float:
    await sandbox.settle()
    started = time.perf_counter()
    outcome = await sandbox.run(code)
    seconds = time.perf_counter() - started
    assert outcome.ok, outcome.failure
    await sandbox.settle()
    return seconds


async def _forked(sandbox: Sandbox) -> float:
    await sandbox.drain()
    await asyncio.sleep(_QUIET_SECONDS)
    started = time.perf_counter()
    outcome = await sandbox.run(_TRIVIAL)
    seconds = time.perf_counter() - started
    assert outcome.ok, outcome.failure
    await sandbox.settle()
    return seconds


async def _runs_per_second(sandbox: Sandbox) -> float:
    started = time.perf_counter()
    for _ in range(_SUSTAINED_RUNS):
        await sandbox.run(_TRIVIAL)
    return _SUSTAINED_RUNS / (time.perf_counter() - started)


async def _tool_calls(sandbox: Sandbox) -> float:
    """Seconds for the calls alone, as the code inside sees them."""

    async def answer(tool: str, args: dict[str, Any]) -> Any:
        return {"n": args["n"]}

    code = (
        "import time\ncall_tool('echo', {'n': -1})\nstarted = time.perf_counter()\n"
        f"for n in range({CALLS}): call_tool('echo', {{'n': n}})\n"
        "time.perf_counter() - started"
    )
    await sandbox.settle()
    outcome = await sandbox.run(code, on_call=answer)
    assert outcome.ok, outcome.failure
    return float(outcome.result)


async def socket_floor(python: str) -> float:
    """Seconds for `CALLS` bare round trips with another process."""
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(  # noqa: ASYNC220
        [python, "-I", "-S", "-c", _ECHO, str(theirs.fileno()), str(CALLS)], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        writer.write(b"!")
        started = 0.0
        for index in range(CALLS):
            (length,) = struct.unpack("<I", await reader.readexactly(4))
            call = json.loads(await reader.readexactly(length))
            if index == 0:
                started = time.perf_counter()
            body = json.dumps({"id": call["id"], "value": call["args"]}).encode()
            writer.write(struct.pack("<I", len(body)) + body)
        return time.perf_counter() - started
    finally:
        writer.close()
        child.wait()


def summary(values: list[float]) -> dict[str, Any]:
    """What is shown of many samples."""
    ordered = sorted(values)
    return {
        "p50_seconds": statistics.median(ordered),
        "p95_seconds": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
        "min_seconds": ordered[0],
        "count": len(ordered),
    }
