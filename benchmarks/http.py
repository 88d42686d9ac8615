"""Measures the HTTP API beside a bare Starlette endpoint, and runs with the journal beside runs without it.

Both servers are processes of their own with the same settings of uvicorn, and get the same requests in turn from the
same client. Pairs of runs follow each other at once, so that both see the same machine.
"""

import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from benchmarks.yardsticks import load_since, summary
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyMode, SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.sandbox.policy import DEFAULT
from sealyard.store import Store, TraceBudget, open_store
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, Yard, open_yard

PROMISES = {
    "journal_overhead_ratio": "at most 1.1",
    "journal_overhead_ratio_privacy_off": "shown",
    "journal_overhead_ratio_trivial": "shown",
    "search_ratio_to_bare": "shown",
    "execute_ratio_to_bare": "shown",
    "search_requests_per_second": "shown",
    "execute_requests_per_second": "shown",
    "bare_get_requests_per_second": "shown",
    "bare_post_requests_per_second": "shown",
}

_CONNECTIONS = 4
_BATCHES = {"bare GET": 400, "search": 200, "bare POST": 400, "execute": 60}
_TRIVIAL = "1 + 1"
_SEARCH = "/api/v1/mcp/tools/search?query=list+expenses+of+a+department&detail_level=full&limit=5"
_EXPENSES = 10_000
_JOB = """
from servers.books import list_expenses
rows = [row for row in list_expenses() if row["amount"] > 900 and row["department"] == "Sales"]
result = {"count": len(rows), "total": round(sum(row["amount"] for row in rows), 2)}
"""

# By what is hidden: a name, the code, and how many runs of it there are in a round.
_JOBS: dict[PrivacyMode, list[tuple[str, str, int]]] = {
    "strict": [("10,000 expenses", _JOB, 2)],
    "off": [("trivial run, nothing hidden", _TRIVIAL, 10), ("10,000 expenses, nothing hidden", _JOB, 4)],
}

# What the gateway is compared with: the same server, which reads a body and answers as many bytes, and does no more.
_BARE = """
import asyncio, socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
sizes = [int(size) for size in sys.argv[1:]]
async def search(request):
    return JSONResponse({"text": "x" * sizes[0]})
async def execute(request):
    await request.json()
    return JSONResponse({"text": "x" * sizes[1]})
app = Starlette(routes=[Route("/search", search), Route("/execute", execute, methods=["POST"])])
listener = socket.create_server(("127.0.0.1", 0))
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", file=sys.stderr, flush=True)
config = uvicorn.Config(
    app, log_level="warning", lifespan="on", http="h11", ws="none", server_header=False, access_log=False
)
asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
"""


async def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks http`."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        seconds = await _measure_http(Path(folder), rounds)
        pairs = await _measure_journal(Path(folder), rounds)
    rates = {name: 1 / statistics.median(values) for name, values in seconds.items()}
    ratios = {name: statistics.median(a / b for a, b in values) for name, values in pairs.items()}
    for name, values in pairs.items():
        seconds[f"{name}, with journal"] = [each for each, _ in values]
        seconds[f"{name}, without"] = [each for _, each in values]
    return {
        "journal_overhead_ratio": ratios["10,000 expenses"],
        "journal_overhead_ratio_privacy_off": ratios["10,000 expenses, nothing hidden"],
        "journal_overhead_ratio_trivial": ratios["trivial run, nothing hidden"],
        "search_ratio_to_bare": rates["search"] / rates["bare GET"],
        "execute_ratio_to_bare": rates["execute"] / rates["bare POST"],
        "search_requests_per_second": rates["search"],
        "execute_requests_per_second": rates["execute"],
        "bare_get_requests_per_second": rates["bare GET"],
        "bare_post_requests_per_second": rates["bare POST"],
        "samples": {name: summary(values) for name, values in seconds.items()},
        "promises": PROMISES,
        "load": load_since(load_before),
    }


# Requests


async def _measure_http(place: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds for a request of each kind, as a client with some connections sees them, one sample a round."""
    config = place / "sealyard.toml"
    config.write_text(
        '[store]\npath = "http.db"\n[http]\nrequests_per_minute = 0\ndashboard = false\n'
        "[sandbox]\ndata_packages = false\nallow_weaker = true\n"
        f"[upstreams.expenses]\ncommand = {json.dumps(sys.executable)}\n"
        'args = ["-P", "-m", "sealyard.examples.expenses"]\n',
        encoding="utf-8",
    )
    run = msgspec.json.encode({"code": _TRIVIAL, "wait": True})
    samples: dict[str, list[float]] = {}
    async with _serving("-m", "sealyard", "serve", str(config), "--http", "127.0.0.1:0") as gateway:
        sizes = [await _ask(gateway, "GET", _SEARCH, b""), await _ask(gateway, "POST", "/api/v1/executions", run)]
        async with _serving("-c", _BARE, *map(str, sizes)) as bare:
            kinds: dict[str, Callable[[int], Awaitable[float]]] = {
                "bare GET": lambda count: _ask_often(bare, "GET", "/search", b"", count),
                "search": lambda count: _ask_often(gateway, "GET", _SEARCH, b"", count),
                "bare POST": lambda count: _ask_often(bare, "POST", "/execute", run, count),
                "execute": lambda count: _ask_often(gateway, "POST", "/api/v1/executions", run, count),
            }
            for kind in kinds.values():
                await kind(_CONNECTIONS)  # what is made at first use is there
            for _ in range(rounds):
                for name in random.sample(sorted(kinds), len(kinds)):
                    samples.setdefault(name, []).append(await kinds[name](_BATCHES[name]))
    return samples


@asynccontextmanager
async def _serving(*arguments: str) -> AsyncIterator[int]:
    """The port of a server that is started with these arguments of Python."""
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE)  # noqa: ASYNC220
    try:
        assert process.stderr is not None
        port = None
        while port is None:
            line = (await asyncio.to_thread(process.stderr.readline)).decode()
            if not line:
                raise SandboxBroken("A server of the measurement ended at once. Run `sealyard doctor`.")
            port = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        yield int(port[1])
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate)


async def _ask_often(port: int, method: str, path: str, body: bytes, count: int) -> float:
    """Seconds for one of `count` requests over some connections at once."""
    started = time.perf_counter()
    each = count // _CONNECTIONS
    await asyncio.gather(*(_ask(port, method, path, body, count=each) for _ in range(_CONNECTIONS)))
    return (time.perf_counter() - started) / (each * _CONNECTIONS)


async def _ask(port: int, method: str, path: str, body: bytes, *, count: int = 1) -> int:
    """Make a request again and again over one connection; the size of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {len(body)}\r\n"
    request = f"{head}content-type: application/json\r\n\r\n".encode() + body
    size_bytes = 0
    try:
        for _ in range(count):
            writer.write(request)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = re.search(r"\r\ncontent-length: (\d+)\r\n", answer)
            assert length is not None, answer
            content = await reader.readexactly(int(length[1]))
            if not answer.startswith("http/1.1 200"):
                raise SandboxBroken(f"The server answered {content[:300]!r}. Run `sealyard doctor`.")
            size_bytes = len(content)
    finally:
        writer.close()
        await writer.wait_closed()
    return size_bytes


# The journal


async def _measure_journal(place: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds for the same run with all that is recorded of it and without, in pairs.

    As a gateway is by default, and with nothing hidden: that takes longer than all else, so that the share of the
    journal looks larger without it.
    """
    pairs: dict[str, list[tuple[float, float]]] = {}
    for mode, jobs in _JOBS.items():
        async with (
            _open(place / f"{mode}-with", mode, is_silent=False) as full,
            _open(place / f"{mode}-without", mode, is_silent=True) as silent,
        ):
            for name, code, times in jobs:
                for number in range(-2, times * rounds):  # the first two warm up
                    if number % 2:
                        recorded, unrecorded = await _run(full, code), await _run(silent, code)
                    else:
                        unrecorded, recorded = await _run(silent, code), await _run(full, code)
                    if number >= 0:
                        pairs.setdefault(name, []).append((recorded, unrecorded))
    return pairs


@asynccontextmanager
async def _open(place: Path, mode: PrivacyMode, *, is_silent: bool) -> AsyncIterator[Yard]:
    config = Config(
        store=StoreConfig(path=place / "sealyard.db"),
        privacy=PrivacyConfig(mode=mode),
        sandbox=SandboxConfig(allow_weaker=True, pool_size=2),
    )
    chance = random.Random(7)  # noqa: S311 - the same rows every time
    departments = ("Engineering", "Finance", "Marketing", "Operations", "Sales")
    rows = [
        {
            "id": f"x{number:05}",
            "department": chance.choice(departments),
            "amount": round(chance.uniform(1, 1_000), 2),
            "merchant": f"Merchant {number % 97}",
            "date": f"2024-{number % 12 + 1:02}-{number % 28 + 1:02}",
        }
        for number in range(_EXPENSES)
    ]
    books = FakeUpstream("books", list_expenses=lambda: rows)
    policy = msgspec.structs.replace(DEFAULT, packages=())
    async with AsyncExitStack() as stack:
        opened = open_yard(config, policy=policy, upstreams={"books": books})
        # A yard opens its own store: for as long as that takes it is given another way to do so.
        with patch("sealyard.yard.opening.open_store", _open_silent_store) if is_silent else nullcontext():
            yard = await stack.enter_async_context(opened)
        await (await yard.sandbox()).settle()
        await yard.snapshot()
        if is_silent:
            await _run(yard, _TRIVIAL)
            assert not await yard.store.executions(), "A run that is measured without a journal was recorded."
            await yard.observer.accounting.close()  # tokens are counted for the journal too
        yield yard


@asynccontextmanager
async def _open_silent_store(path: Path, *, traces: TraceBudget | None = None) -> AsyncIterator[Store]:
    """A store that records no execution, call, fact or audit entry, and waits for none; all else it keeps."""

    def ignore(*_: object) -> None:
        pass

    async def wait_for_nothing() -> None:
        pass

    def nothing_to_write() -> asyncio.Future[None]:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async with open_store(path, traces=traces) as store:
        vars(store).update(dict.fromkeys(("record_start", "record_end", "record_call", "audit"), ignore))
        vars(store)["start_flush"] = nothing_to_write
        vars(store).update(dict.fromkeys(("flush", "room"), wait_for_nothing))
        vars(store.metrics)["record"] = ignore
        vars(store.traces)["keep"] = ignore
        yield store


async def _run(yard: Yard, code: str) -> float:
    await (await yard.sandbox()).settle()
    started = time.perf_counter()
    result = await yard.execute(ExecuteRequest(code=code))
    seconds = time.perf_counter() - started
    assert result.outcome.ok, result.text
    await yard.observer.accounting.settled()  # it waits for a pause, and this is one
    return seconds
