"""Measures how much slower one principal's small runs are while another keeps the gateway busy."""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.yardsticks import load_since
from sealyard.config import Config
from sealyard.config.settings import HttpConfig, StoreConfig, hash_token
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, Yard, open_yard

PROMISES = {"fairness_ratio": "at most 2"}

_HEAVY_RUNS = 60
"""Of the heavy principal at once: about twice as many as there are turns, so that its own runs queue."""
_PAUSE_SECONDS = 0.05
"""Between two small runs: an agent thinks before it writes the next, and the pool refills meanwhile."""

_LOADS = {
    "cpu": "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass",
    "sleeping": "import time\ntime.sleep(0.5)",
    "calling": "from servers.fake import echo\nfor n in range(300): echo(n=n)",
    "small": "1 + 1",
}


async def measure(rounds: int = 20) -> dict[str, Any]:
    """`fairness_ratio`, the worst of all loads, and the medians in milliseconds of every load."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        policy = msgspec.structs.replace(DEFAULT, packages=())
        async with open_yard(_config(Path(folder)), policy=policy, upstreams={"fake": _fake()}) as yard:
            await (await yard.sandbox()).settle()
            await yard.snapshot()
            await _small_run(yard)
            loads = {name: await _compare(yard, code, rounds) for name, code in _LOADS.items()}
    return {
        "fairness_ratio": max(load["ratio"] for load in loads.values()),
        "loads": loads,
        "heavy_runs": _HEAVY_RUNS,
        "promises": PROMISES,
        "load": load_since(load_before),
    }


async def _compare(yard: Yard, code: str, rounds: int) -> dict[str, float]:
    """The median of a small run alone and beside the load; alone before and after, so that drift counts for both."""
    alone = await _light(yard, rounds)
    async with _load(yard, code):
        beside = await _light(yard, rounds)
    await (await yard.sandbox()).settle()
    alone += await _light(yard, rounds)
    alone_ms, beside_ms = statistics.median(alone) * 1000, statistics.median(beside) * 1000
    return {"alone_ms": alone_ms, "beside_ms": beside_ms, "ratio": beside_ms / alone_ms}


async def _light(yard: Yard, rounds: int) -> list[float]:
    samples = []
    for _ in range(rounds):
        await asyncio.sleep(_PAUSE_SECONDS)
        samples.append(await _small_run(yard))
    return samples


async def _small_run(yard: Yard) -> float:
    started = time.perf_counter()
    result = await yard.execute(ExecuteRequest(code="1 + 1"), principal="light")
    seconds = time.perf_counter() - started
    assert result.text == "2", result.text
    return seconds


@contextlib.asynccontextmanager
async def _load(yard: Yard, code: str) -> AsyncIterator[None]:
    """The heavy principal's runs, each begun again when it ends, from the moment that one has ended."""
    busy = asyncio.Event()

    async def work() -> None:
        while True:
            result = await yard.execute(ExecuteRequest(code=code, timeout_seconds=120), principal="heavy")
            assert result.outcome.ok, result.text
            busy.set()

    runs = [asyncio.create_task(work()) for _ in range(_HEAVY_RUNS)]
    began = asyncio.create_task(busy.wait())
    try:
        await asyncio.wait({began, *runs}, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        began.cancel()
        for run in runs:
            run.cancel()
        failed = [each for each in await asyncio.gather(*runs, return_exceptions=True) if isinstance(each, Exception)]
    if failed:
        raise failed[0]


def _config(folder: Path) -> Config:
    digests = {hash_token(name): name for name in ("heavy", "light")}
    return Config(http=HttpConfig(digests=digests), store=StoreConfig(path=folder / "sealyard.db"))


def _fake() -> FakeUpstream:
    async def echo(n: int) -> dict[str, int]:
        """Say it again."""
        return {"n": n}

    return FakeUpstream("fake", echo=echo)
