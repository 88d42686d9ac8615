"""Measures calls and runs through the whole gateway, interleaved with their yardsticks."""

import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from benchmarks.yardsticks import CALLS, bare, interleaved, load_since, socket_floor, summary, system_python
from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.examples import demo_upstreams
from sealyard.observe.recorder import Run, RunEnd, RunObserver
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import ExecuteRequest, Yard, open_yard

BUDGET = {"opening": 0.02, "reading": 0.06, "sandbox": 0.08, "commit": 0.09}
"""The parts of a trivial run, and what each may take of the time of a bare Python: together no more than a quarter."""

PROMISES = {
    "in_process_ratio_to_socket_floor": "at most 1.7",
    "ratio_5000_vs_50_tools": "at most 1.2",
    "stdio_ratio_to_direct": "at most 1.15",
    "stdio_ratio_to_direct_undisturbed": "shown",
    "execute_ratio_to_bare_python": "at most 0.25",
    "in_process_calls_per_second": "shown",
    "stdio_calls_per_second": "shown",
    **{f"budget_{part}": f"at most {share}" for part, share in BUDGET.items()},
}

_STDIO_CALLS = 200

_LOOP = """
import time
from servers.{server} import {tool} as call
call({first})
started = time.perf_counter()
for n in range({calls}): call({argument})
time.perf_counter() - started
"""

_SINGLE_CALLS = """
import time
from servers.expenses import get_budget
get_budget("Sales")
taken = []
for _ in range({calls}):
    started = time.perf_counter()
    get_budget("Sales")
    taken.append(time.perf_counter() - started)
[sum(taken), sorted(taken)[len(taken) // 10]]
"""


async def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks calls`."""
    python = system_python()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        files = place / "files"
        files.mkdir()
        expenses = demo_upstreams(files)["expenses"]
        policy = msgspec.structs.replace(DEFAULT, packages=())
        async with (
            open_yard(_config(place / "few"), policy=policy, upstreams={"fake": fake_tools(50)}, sinks=[Parts]) as few,
            open_yard(_config(place / "many"), policy=policy, upstreams={"fake": fake_tools(5_000)}) as many,
            open_yard(_config(place / "stdio", expenses=expenses), policy=policy) as stdio,
            Client(StdioServerParameters(command=expenses.command or "", args=list(expenses.args))) as direct,
        ):
            for yard in (few, many, stdio):
                await (await yard.sandbox()).settle()
                await yard.snapshot()
            parts: dict[str, list[float]] = {name: [] for name in BUDGET}
            fast: dict[str, list[float]] = {"fast stdio calls": [], "fast stdio calls, direct": []}
            kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]] = {
                "bare python": (rounds, lambda: bare(python)),
                "execute": (rounds, lambda: trivial_run(few, parts)),
                "socket ping-pong": (5, lambda: socket_floor(python)),
                "calls, 50 tools": (5, lambda: _calls(few, "fake", "echo_7", "n=n", CALLS)),
                "calls, 5000 tools": (5, lambda: _calls(many, "fake", "echo_7", "n=n", CALLS)),
                "stdio calls": (5, lambda: _single_calls(stdio, fast["fast stdio calls"])),
                "stdio calls, direct": (5, lambda: _direct(direct, fast["fast stdio calls, direct"])),
            }
            samples = await interleaved(kinds)
            tier = (await few.sandbox()).tier
    for name, count in (
        ("socket ping-pong", CALLS),
        ("calls, 50 tools", CALLS),
        ("calls, 5000 tools", CALLS),
        ("stdio calls", _STDIO_CALLS),
        ("stdio calls, direct", _STDIO_CALLS),
    ):
        samples[name] = [seconds / count for seconds in samples[name]]
    samples |= fast
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "in_process_ratio_to_socket_floor": p50["calls, 50 tools"] / p50["socket ping-pong"],
        "ratio_5000_vs_50_tools": p50["calls, 5000 tools"] / p50["calls, 50 tools"],
        "stdio_ratio_to_direct": p50["stdio calls"] / p50["stdio calls, direct"],
        "stdio_ratio_to_direct_undisturbed": p50["fast stdio calls"] / p50["fast stdio calls, direct"],
        "execute_ratio_to_bare_python": p50["execute"] / p50["bare python"],
        **{f"budget_{name}": statistics.median(values) / p50["bare python"] for name, values in parts.items()},
        "in_process_calls_per_second": 1 / p50["calls, 50 tools"],
        "stdio_calls_per_second": 1 / p50["stdio calls"],
        "samples": {name: summary(values) for name, values in (samples | parts).items()},
        "promises": PROMISES,
        "tier": tier,
        "load": load_since(load_before),
        "bare_python": python,
    }


def _config(store: Path, **upstreams: UpstreamConfig) -> Config:
    return Config(upstreams=upstreams, store=StoreConfig(path=store / "sealyard.db"))


def fake_tools(count: int) -> FakeUpstream:
    """A server in this process with `count` tools, each of which returns its argument."""

    async def echo(n: int) -> dict[str, int]:
        """Say it again."""
        return {"n": n}

    return FakeUpstream("fake", **{f"echo_{number}": echo for number in range(count)})


class Parts(RunObserver):
    """Takes the time of the parts of one run, as an observer of it sees them."""

    is_durable = True  # so that it sees the end before that is written

    def __init__(self, run: Run) -> None:
        self.began = time.perf_counter()
        self.sandbox = self.ended_at = 0.0
        Parts.last = self

    last: "Parts"
    """The one of the run that began last."""

    def ended(self, end: RunEnd) -> None:
        """Note when the run itself was over, and what of it the sandbox took."""
        self.ended_at = time.perf_counter()
        self.sandbox = 0.0 if end.outcome is None else end.outcome.usage.wall_seconds


async def trivial_run(yard: Yard, parts: dict[str, list[float]] | None = None) -> float:
    """Seconds of the smallest run through the whole gateway, recorded on disk."""
    sandbox = await yard.sandbox()
    await sandbox.settle()
    started = time.perf_counter()
    result = await yard.execute(ExecuteRequest(code="1 + 1"))
    seconds = time.perf_counter() - started
    assert result.text == "2", result.text
    if parts is not None:
        seen = Parts.last
        parts["opening"].append(seen.began - started)
        parts["sandbox"].append(seen.sandbox)
        parts["reading"].append(seen.ended_at - seen.began - seen.sandbox)
        parts["commit"].append(started + seconds - seen.ended_at)
    await sandbox.settle()
    return seconds


async def _calls(yard: Yard, server: str, tool: str, argument: str, calls: int) -> float:
    """Seconds for the calls alone, as the code inside sees them."""
    await (await yard.sandbox()).settle()
    code = _LOOP.format(server=server, tool=tool, first=argument.replace("=n", "=0"), argument=argument, calls=calls)
    result = await yard.execute(ExecuteRequest(code=code, timeout_seconds=120))
    assert result.outcome.ok, result.text
    return float(result.outcome.result)


async def _single_calls(yard: Yard, fast: list[float]) -> float:
    """Seconds for calls over stdio, as the code inside sees them.

    Adds to `fast` how long the fastest tenth of them took. Beside other load the others wait for a core at each of four
    changes between processes, where a direct call has two: the sum then measures the scheduler.
    """
    await (await yard.sandbox()).settle()
    code = _SINGLE_CALLS.format(calls=_STDIO_CALLS)
    result = await yard.execute(ExecuteRequest(code=code, timeout_seconds=120))
    assert result.outcome.ok, result.text
    seconds, undisturbed = result.outcome.result
    fast.append(float(undisturbed))
    return float(seconds)


async def _direct(client: Client, fast: list[float]) -> float:
    """Seconds for the same calls by a client of the same SDK."""
    await client.call_tool("get_budget", {"department": "Sales"})
    taken = []
    for _ in range(_STDIO_CALLS):
        started = time.perf_counter()
        await client.call_tool("get_budget", {"department": "Sales"})
        taken.append(time.perf_counter() - started)
    fast.append(sorted(taken)[len(taken) // 10])
    return sum(taken)
