"""Measures how long a client waits for a gateway that it starts, beside the smallest server on the same SDK.

Both are programs of their own that get the same messages over pipes, in turn and in random order, so that both see the
same machine. Ratios are of the two starts of one round.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.yardsticks import load_since, summary
from sealyard.errors import SandboxBroken

PROMISES = {
    "start_ratio_to_minimal": "at most 1.3",
    "start_ratio_to_minimal_full": "at most 1.3",
    "start_ratio_to_minimal_cold": "at most 1.3",
    "execute_ratio_to_minimal": "at most 2.6",
    "execute_ratio_to_minimal_full": "shown",
    "processor_ratio_to_minimal": "shown",
    "run_ratio_to_minimal": "shown",
    "skills_list_ratio_to_minimal": "shown",
    "versions_ratio_to_minimal": "shown",
    "minimal_seconds": "shown",
    "bare_seconds": "shown",
}

# The least that a server on this SDK can be: one tool, over standard input and output.
_MINIMAL = """
import asyncio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="add", description="Add.", input_schema={"type": "object"})])

async def main():
    server = Server("minimal", on_list_tools=list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

asyncio.run(main())
"""
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
_EXAMPLES = ("customers", "expenses", "trips")
_SERVERS = 10
_RUNS = 200  # in the store of the full gateway: the journal of some weeks
_COMMANDS = {
    "run": ("run", "-c", "1", "--config"),
    "skills_list": ("skills", "list", "--config"),
    "versions": ("tools", "--versions", "--config"),
}


def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks start`."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        place = Path(folder)
        samples = _measure(place, rounds)

    def ratio(name: str, yardstick: str) -> float:
        return statistics.median(a / b for a, b in zip(samples[name], samples[yardstick], strict=True))

    return {
        "start_ratio_to_minimal": ratio("gateway", "minimal"),
        "start_ratio_to_minimal_full": ratio("full gateway", "minimal"),
        "start_ratio_to_minimal_cold": ratio("cold gateway", "cold minimal"),
        "execute_ratio_to_minimal": ratio("gateway, first run", "minimal"),
        "execute_ratio_to_minimal_full": ratio("full gateway, first run", "minimal"),
        "processor_ratio_to_minimal": ratio("gateway, processor", "minimal, processor"),
        **{f"{name}_ratio_to_minimal": ratio(name, "minimal") for name in _COMMANDS},
        "minimal_seconds": statistics.median(samples["minimal"]),
        "bare_seconds": statistics.median(samples["bare"]),
        "samples": {name: summary(values) for name, values in samples.items()},
        "promises": PROMISES,
        "load": load_since(load_before),
    }


def _measure(place: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of each kind: until tools are listed, until a first run is answered, and of whole commands."""
    plain, full = _write_config(place / "plain", 1), _write_config(place / "full", _SERVERS)
    _list_tools(plain)
    _list_tools(full)
    _fill(full)
    minimal = [sys.executable, "-c", _MINIMAL]
    starts = {
        "minimal": minimal,
        "gateway": _serving(plain),
        "full gateway": _serving(full),
        "cold minimal": minimal,
        "cold gateway": _serving(plain),
    }
    commands = {name: [sys.executable, "-m", "sealyard", *words, str(plain)] for name, words in _COMMANDS.items()}
    commands["bare"] = [sys.executable, "-c", "pass"]
    samples: dict[str, list[float]] = {}
    for number in range(-1, rounds):  # the first writes what is compiled
        for name in random.sample(kinds := sorted(starts | commands), len(kinds)):
            if name in starts:
                with tempfile.TemporaryDirectory(dir=place) as empty:
                    found = _start(name, starts[name], Path(empty) if name.startswith("cold") else None)
            else:
                started = time.perf_counter()
                subprocess.run(commands[name], check=True, capture_output=True)
                found = {name: time.perf_counter() - started}
            for each, seconds in found.items() if number >= 0 else ():
                samples.setdefault(each, []).append(seconds)
    return samples


def _start(name: str, command: list[str], bytecode: Path | None) -> dict[str, float]:
    """What one start takes. Without compiled modules it is as after an installation that compiles none."""
    environment = os.environ | ({} if bytecode is None else {"PYTHONPYCACHEPREFIX": str(bytecode)})
    started = time.perf_counter()
    client = _Client(command, environment)
    client.ask("initialize", _HELLO)
    client.notify("notifications/initialized")
    client.ask("tools/list", {})
    found = {name: time.perf_counter() - started, f"{name}, processor": client.processor_seconds()}
    if "gateway" in name:
        client.run("1 + 1")
        found[f"{name}, first run"] = time.perf_counter() - started
    client.close()
    return found


class _Client:
    """A client at the other end of a program's pipes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._asked = 0

    def notify(self, method: str, **more: Any) -> None:
        """Send a message that has no answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        assert self._process.stdout is not None
        self._asked += 1
        self.notify(method, id=self._asked, params=params)
        while line := self._process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                result: dict[str, Any] = answer["result"]
                return result
        raise SandboxBroken("A server of the measurement ended at once. Run `sealyard doctor`.")

    def run(self, code: str) -> None:
        """Have a gateway run some code."""
        result = self.ask("tools/call", {"name": "execute_code", "arguments": {"code": code}})
        assert not result.get("isError"), result

    def processor_seconds(self) -> float:
        """The time on a processor that the program has had so far."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9

    def close(self) -> None:
        """Hang up, and wait for the program's end."""
        self._process.communicate()


def _serving(config: Path) -> list[str]:
    return [sys.executable, "-m", "sealyard", "serve", str(config)]


def _write_config(folder: Path, servers: int) -> Path:
    """A configuration of so many servers, with privacy and a store of its own."""
    folder.mkdir()
    lines = ['[privacy]\nmode = "strict"\n[store]\npath = "start.db"\n[sandbox]\nallow_weaker = true\n']
    for number in range(servers):
        module = f"sealyard.examples.{_EXAMPLES[number % len(_EXAMPLES)]}"
        lines.append(f"[upstreams.server{number}]\ncommand = {json.dumps(sys.executable)}\n")
        lines.append(f'args = ["-P", "-m", "{module}"]\n')
    config = folder / "sealyard.toml"
    config.write_text("".join(lines), encoding="utf-8")
    return config


def _list_tools(config: Path) -> None:
    """Have the store remember the tools of the servers, as it does after their first start."""
    subprocess.run(
        [sys.executable, "-m", "sealyard", "tools", "--config", str(config)], check=True, capture_output=True
    )


def _fill(config: Path) -> None:
    """Have the store record many runs."""
    client = _Client(_serving(config), dict(os.environ))
    client.ask("initialize", _HELLO)
    client.notify("notifications/initialized")
    for number in range(_RUNS):
        client.run(f"[{number} * n for n in range(10)]")
    client.close()
