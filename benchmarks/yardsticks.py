"""Yardsticks that several benchmarks share, and samples taken in turn with them so that all see the same machine."""

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

import mcp_types as types

from sealyard.sandbox.spawn import interpreter

CALLS = 1_000
"""Round trips in one sample: enough that its start and end do not count."""
QUIET_SECONDS = 0.02
"""Before each sample of any kind: the kernel takes the namespaces of the last worker down in the background."""

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


async def interleaved(kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]]) -> dict[str, list[float]]:
    """Samples of every kind in a random order, so that all of them see the same machine."""
    plan = [name for name, (count, _) in kinds.items() for _ in range(count)]
    random.shuffle(plan)
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    for name in plan:
        await asyncio.sleep(QUIET_SECONDS)
        samples[name].append(await kinds[name][1]())
    return samples


def system_python() -> str:
    """The system's own interpreter: a version manager's shim would cost ten times as much and flatter every ratio."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if Path(path).exists():
            return path
    return shutil.which("python3.11") or interpreter()


async def bare(python: str) -> float:
    """Seconds to start an interpreter that does nothing."""
    started = time.perf_counter()
    subprocess.run([python, "-c", "pass"], check=True)  # noqa: ASYNC221 - nothing else may run meanwhile
    return time.perf_counter() - started


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
    """The figures that are shown of many samples."""
    ordered = sorted(values)
    return {
        "p50_seconds": statistics.median(ordered),
        "p95_seconds": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
        "min_seconds": ordered[0],
        "count": len(ordered),
    }


def load_since(before: float) -> str:
    """The load of the machine: `before`, as `os.getloadavg` gave it at the start, and now."""
    return f"{before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores"


def text_of(answer: object) -> str:
    """The text of an answer over MCP, as the agent reads it."""
    blocks = answer.content if isinstance(answer, types.CallToolResult) else []
    return "".join(block.text for block in blocks if isinstance(block, types.TextContent))
