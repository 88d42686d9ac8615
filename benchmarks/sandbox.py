"""Measures sealed runs and calls, interleaved with their yardsticks so that both see the same machine."""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from benchmarks.yardsticks import (
    CALLS,
    QUIET_SECONDS,
    bare,
    interleaved,
    load_since,
    socket_floor,
    summary,
    system_python,
)
from sealyard.sandbox import PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.policy import DEFAULT

_TRIVIAL = "1 + 1"
_PANDAS = """
import pandas as pd
frame = pd.DataFrame({"city": ["Rome", "Oslo", "Rome", "Bern"] * 25, "spent": range(100)})
result = frame.groupby("city")["spent"].sum().to_dict()
"""
_SUSTAINED_RUNS = 200

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
    """Every figure of `benchmarks sandbox`."""
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
        "load": load_since(load_before),
        "bare_python": bare_python,
    }


async def _cold_start(policy: Any) -> list[float]:
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        async with open_sandbox(policy, allow_weaker=True, pool=PoolOptions(size=1)) as sandbox:
            await sandbox.run(_TRIVIAL)
            seconds.append(time.perf_counter() - started)
    return seconds


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
    await asyncio.sleep(QUIET_SECONDS)
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
