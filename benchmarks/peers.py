"""Measures runs and calls beside FastMCP's code mode with its Monty sandbox, interleaved in one run.

The rival gets an environment of its own and its newest release. Both hold fifty tools in their own process. FastMCP is
asked in memory and records nothing; sealyard seals a real CPython and has every run on disk before it answers.
"""

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import venv
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.calls import fake_tools, trivial_run
from benchmarks.yardsticks import bare, interleaved, load_since, summary, system_python
from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.errors import SealyardError
from sealyard.sandbox.policy import DEFAULT
from sealyard.yard import ExecuteRequest, Yard, open_yard

PROMISES = {"trivial_ratio_to_fastmcp": "at most 0.5", "calls_ratio_to_fastmcp": "at most 0.25"}

_TOOLS = 50
_RUNS = 20
_CALLS = 50
"""FastMCP refuses more in one run, so a thousand calls are twenty runs."""
_CALL_ROUNDS = 5
_PACKAGE = "fastmcp[code-mode]"
_START_SECONDS = 120.0

_RIVAL = r"""
import asyncio, importlib.metadata, json, sys, time
from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

tools, runs, calls = map(int, sys.argv[1:])
server = FastMCP("rival", transforms=[CodeMode()])
def echo(n: int) -> dict[str, int]:
    "Say it again."
    return {"n": n}
for number in range(tools):
    server.tool(echo, name=f"echo_{number}")
TRIVIAL = "return 1 + 1"
LOOP = "total = 0\nfor n in range(%d):\n    total += (await call_tool('echo_7', {'n': n}))['n']\nreturn total" % calls
async def run(client, code, expected):
    answer = await client.call_tool("execute", {"code": code})
    assert answer.content[0].text == str(expected), answer
async def main():
    async with Client(server) as client:
        await run(client, TRIVIAL, 2)
        versions = {name: importlib.metadata.version(name) for name in ("fastmcp", "pydantic-monty")}
        print(json.dumps(versions), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            started = time.perf_counter()
            if line.strip() == "trivial":
                await run(client, TRIVIAL, 2)
            else:
                for _ in range(runs):
                    await run(client, LOOP, sum(range(calls)))
            print(time.perf_counter() - started, flush=True)
asyncio.run(main())
"""

_LOOP = f"""
from servers.fake import echo_7
total = 0
for n in range({_CALLS}):
    total += echo_7(n=n)["n"]
total
"""


async def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks peers`. Raises `SealyardError` when the rival cannot be installed."""
    python = system_python()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rival_python = await asyncio.to_thread(install_rival, place / "rival")
        policy = msgspec.structs.replace(DEFAULT, packages=())
        config = Config(store=StoreConfig(path=place / "sealyard.db"))
        async with (
            open_yard(config, policy=policy, upstreams={"fake": fake_tools(_TOOLS)}) as yard,
            _open_rival(rival_python) as rival,
        ):
            await (await yard.sandbox()).settle()
            await yard.snapshot()
            kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]] = {
                "bare python": (rounds, lambda: bare(python)),
                "execute": (rounds, lambda: trivial_run(yard)),
                "execute, FastMCP": (rounds, lambda: rival.take("trivial")),
                "1,000 calls": (_CALL_ROUNDS, lambda: _calls(yard)),
                "1,000 calls, FastMCP": (_CALL_ROUNDS, lambda: rival.take("calls")),
            }
            samples = await interleaved(kinds)
            tier = (await yard.sandbox()).tier
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "trivial_ratio_to_fastmcp": p50["execute"] / p50["execute, FastMCP"],
        "calls_ratio_to_fastmcp": p50["1,000 calls"] / p50["1,000 calls, FastMCP"],
        "execute_ratio_to_bare_python": p50["execute"] / p50["bare python"],
        "fastmcp_ratio_to_bare_python": p50["execute, FastMCP"] / p50["bare python"],
        "rival": rival.versions,
        "samples": {name: summary(values) for name, values in samples.items()},
        "promises": PROMISES,
        "tier": tier,
        "load": load_since(load_before),
        "bare_python": python,
    }


def install_rival(place: Path) -> str:
    """Makes an environment with the rival's newest release; returns its interpreter."""
    venv.create(place, with_pip=shutil.which("uv") is None)
    python = str(place / "bin" / "python")
    pip = ["uv", "pip", "install", "--python", python] if shutil.which("uv") else [python, "-m", "pip", "install"]
    done = subprocess.run([*pip, "--quiet", _PACKAGE], check=False, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SealyardError(f"{_PACKAGE} could not be installed: {reason}. Check that pip reaches a package index.")
    return python


class _Rival:
    """The rival's process: takes one order a line and answers with the seconds it took."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.versions: dict[str, str] = {}

    async def start(self) -> None:
        """Wait until it is ready, and learn which release it is."""
        async with asyncio.timeout(_START_SECONDS):
            self.versions = msgspec.json.decode(await self._line(), type=dict[str, str])

    async def take(self, order: str) -> float:
        """Seconds that the rival needs for an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return float(await self._line())

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        if not line:
            raise SealyardError("The rival's process ended. Its own words are above.")
        return line


@contextlib.asynccontextmanager
async def _open_rival(python: str) -> AsyncIterator[_Rival]:
    command = [python, "-c", _RIVAL, *map(str, (_TOOLS, _RUNS, _CALLS))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        try:
            rival = _Rival(process)
            await rival.start()
            yield rival
        finally:
            process.kill()


async def _calls(yard: Yard) -> float:
    await (await yard.sandbox()).settle()
    started = time.perf_counter()
    for _ in range(_RUNS):
        result = await yard.execute(ExecuteRequest(code=_LOOP))
        assert result.outcome.result == sum(range(_CALLS)), result.text
    return time.perf_counter() - started
