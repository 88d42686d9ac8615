"""Measures how long hostile input holds the event loop, and by how much it holds a deadline back.

A real gateway in this process: its sandbox, a server over stdio, one in this process, its HTTP surface. Beside it a
task wakes up every few milliseconds. The longest time between two wakings is what everybody else had to wait; the time
that the loop's own thread worked between them tells the gateway's part of it from the machine's.

How fast the scanner reads each kind of text, and how a light principal fares beside a heavy one, are in the same
figures: both decide how long others wait.
"""

import asyncio
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from benchmarks import fairness
from benchmarks.privacy import scanner
from benchmarks.tables import promised_table
from benchmarks.yardsticks import load_since
from sealyard.broker.upstreams.mcp import open_transport
from sealyard.cli.terminal import columns, plain, screen
from sealyard.config import Config
from sealyard.config.settings import HttpConfig, SandboxConfig, StoreConfig, SurfaceConfig
from sealyard.errors import SealyardError
from sealyard.serve.api import routes
from sealyard.serve.http import open_http
from sealyard.serve.mcp import build_server
from sealyard.serve.relay import build_relay
from sealyard.testing import FakeUpstream
from sealyard.values.skills import SaveSkill
from sealyard.values.tools import Definition, UpstreamConfig
from sealyard.yard import ExecuteRequest, Yard, open_border, open_yard

PROMISES = {
    "longest_stall_ms": "at most 50",
    "longest_held_ms": "shown",
    "deadline_overrun_ms": "at most 200",
    "sdk_ms_2000_tools": "at most 100",
    "mb_per_second": "shown",
    "slowest_mb_per_second": "at least 5",
    "fairness_ratio": "at most 2",
}

_BEAT_SECONDS = 0.005
_LIMIT_SECONDS = 2.0
_MIB = 1 << 20
_TOOLS_CHANGE = "tools: 10,000 change at once"
_ROUNDS = 3
"""Of making stubs, of which the fastest counts: it is short enough for the machine alone to double it."""
_QUIET = "nothing at all"
"""The case without any input: the effect of the machine alone on the heartbeat."""

_SERVER = r"""
import json, sys
def text(kind, size):
    if kind == "plain": return "lorem ipsum dolor sit amet " * (size // 27)
    if kind == "rows": return [{"id": i, "name": "Anna Berg", "mail": "a%d@example.com" % i} for i in range(size // 56)]
    if kind == "tabs": return "a\tb\n" * (size // 6)
    if kind == "braces": return '{"a":' * (size // 7)
    return kind
for line in sys.stdin:
    asked = json.loads(line)
    number, method = asked.get("id"), asked.get("method")
    if number is None: continue
    head = '{"jsonrpc":"2.0","id":%s,"result":' % json.dumps(number)
    if method == "initialize":
        body = json.dumps({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "hostile", "version": "1"}})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}}}
        body = json.dumps({"tools": [{"name": "give", "inputSchema": schema}]})
    elif method == "tools/call":
        kind, size = asked["params"]["arguments"]["kind"], asked["params"]["arguments"]["size"]
        if kind == "lists": value = "[" + ",".join(["[]"] * (size // 3)) + "]"
        elif kind == "deep": value = "[" * size + "]" * size
        elif kind == "error":
            print('{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":%s}}'
                  % (json.dumps(number), json.dumps("a\tb\n" * (size // 6))), flush=True)
            continue
        else: value = json.dumps(text(kind, size))
        body = '{"content":[],"structuredContent":{"value":%s}}' % value
    else:
        body = None
    if body is None:
        print('{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}' % json.dumps(number), flush=True)
    else:
        print(head + body + "}", flush=True)
"""

_FORGED = r"""
import os, struct
body = b'{"t":"done","ok":true,"result":"' + b'a\\tb\\n' * %d + b'","cpu_seconds":0,"memory_peak_bytes":0}'
body = struct.pack("<I", len(body)) + body
while body:
    body = body[os.write(3, body):]
"""


class _Case(msgspec.Struct, frozen=True):
    """One hostile input, and how it is sent."""

    name: str
    send: Callable[["_Gateway"], Awaitable[Any]]


class _Gateway:
    """The gateway under attack."""

    def __init__(self, yard: Yard, client: httpx2.AsyncClient) -> None:
        self.yard = yard
        self.client = client
        self.overrun = 0.0
        """By which the last run lived longer than it may, in seconds."""

    async def run(self, code: str, **more: Any) -> str:
        """Run code for at most `_LIMIT_SECONDS`; how that ended."""
        heard: list[str] = []
        request = ExecuteRequest(code=code, timeout_seconds=_LIMIT_SECONDS, **more)
        started = time.perf_counter()
        try:
            result = await self.yard.execute(request, principal="mallory", on_output=heard.append)
        finally:
            self.overrun = max(0.0, time.perf_counter() - started - _LIMIT_SECONDS)
        return result.outcome.status if result.outcome.failure is None else result.outcome.failure.type

    async def answer(self, kind: str, size: int) -> str:
        """Have a server over stdio send an answer to code."""
        return await self.run(f"from servers.hostile import give\nlen(str(give(kind={kind!r}, size={size})))")

    async def post(self, path: str, body: bytes) -> str:
        """Send a body to the HTTP surface."""
        response = await self.client.post(path, content=body, headers={"Content-Type": "application/json"})
        return f"HTTP {response.status_code}"


def _arguments(expression: str) -> Callable[[_Gateway], Awaitable[Any]]:
    return lambda gateway: gateway.run(f"from servers.friendly import echo\nlen(str(echo(text={expression})))")


def _answer(kind: str, size: int) -> Callable[[_Gateway], Awaitable[Any]]:
    return lambda gateway: gateway.answer(kind, size)


def _code(code: str, **more: Any) -> Callable[[_Gateway], Awaitable[Any]]:
    return lambda gateway: gateway.run(code, **more)


def _post(path: str, body: bytes) -> Callable[[_Gateway], Awaitable[Any]]:
    return lambda gateway: gateway.post(path, body)


async def _save_skill(gateway: _Gateway) -> str:
    code = "def total():\n    return f'" + "{a}" * 20_000 + "'\n"
    saved = await gateway.yard.skills.save(
        SaveSkill(name="total", code=code, description="a\tb\n" * 250), principal="mallory"
    )
    return str(saved.skill.status)


_MANY_CALLS = """
from concurrent.futures import ThreadPoolExecutor
from servers.friendly import echo
with ThreadPoolExecutor(32) as pool:
    list(pool.map(lambda number: echo(text="QUJD" * 450 + str(number)), range(200)))
"""
_UNKNOWN_TOOLS = """
for number in range(60):
    try:
        call_tool("a\\tb\\n" * 250_000)
    except Exception:
        pass
"""
_LISTS = b"[" + b",".join([b"[]"] * (_MIB - 100)) + b"]"


def _cases() -> list[_Case]:
    return [
        _Case(_QUIET, lambda gateway: asyncio.sleep(_LIMIT_SECONDS)),
        _Case("arguments: 1 MB of table cells", _arguments(r"'a\tb\n' * 250_000")),
        _Case("arguments: 1 MB of open braces", _arguments("""'{"a":' * 200_000""")),
        _Case("arguments: 1 MB of base64", _arguments("'QUJD' * 250_000")),
        _Case("arguments: 3 MB of empty lists", _arguments("[[]] * 1_000_000")),
        _Case("arguments: 60 KB of large numbers", _arguments("[1e308] * 10_000")),
        _Case("arguments: one key of 1 MB", _arguments(r"{'a\tb\n' * 250_000: 1}")),
        _Case("arguments: nested 150 deep", _arguments("eval('[' * 150 + ']' * 150)")),
        _Case("arguments: 200 small calls at once", _code(_MANY_CALLS)),
        _Case("arguments: names of 1 MB", _code(_UNKNOWN_TOOLS)),
        _Case("frame: a forged end of 1 MB", _code(_FORGED % (_MIB // 6))),
        _Case("frame: a forged end of 8 MB", _code(_FORGED % (8 * _MIB // 6))),
        _Case("answer: 30 MB of text", _answer("plain", 30 * _MIB)),
        _Case("answer: 3 MB of rows", _answer("rows", 3 * _MIB)),
        _Case("answer: 1 MB of table cells", _answer("tabs", _MIB)),
        _Case("answer: 1 MB of open braces", _answer("braces", _MIB)),
        _Case("answer: 30 MB of empty lists", _answer("lists", 30 * _MIB)),
        _Case("answer: nested 1,000 deep", _answer("deep", 1_000)),
        _Case("answer: nested 500,000 deep", _answer("deep", 500_000)),
        _Case("answer: an error of 1 MB", _answer("error", _MIB)),
        _Case("code: an f-string of 150 KB", _code("x = 1\ny = f'" + "{x}" * 50_000 + "'")),
        _Case("code: 250 KB of statements", _code("a=1;" * 64_000)),
        _Case("code: 2 MB", _code("a\tb\n" * 500_000)),
        _Case("context: 1 MB of table cells", _code("1", context={"text": "a\tb\n" * 250_000})),
        _Case(
            "context: 3 MB of empty lists",
            lambda gateway: gateway.run("1", context={"rows": [[] for _ in range(_MIB)]}),
        ),
        _Case("output: 1 MB of table cells", _code(r"print('a\tb\n' * 250_000)")),
        _Case("output: 1 MB, then no end", _code("print('QUJD' * 250_000)\nwhile True: pass")),
        _Case("result: 8 MB of table cells", _code(r"'a\tb\n' * 2_000_000")),
        _Case("search: a query of 1 MB", lambda gateway: gateway.yard.search("a\tb\n" * 250_000, principal="mallory")),
        _Case(
            "search: of skills, 1 MB", lambda gateway: gateway.yard.skills.find("a b " * 250_000, principal="mallory")
        ),
        _Case("session: a name of 1 MB", _code("1", session="a" * _MIB)),
        _Case("skill: an f-string of 60 KB", _save_skill),
        _Case("assess: an f-string of 150 KB", lambda gateway: gateway.yard.assess("f'" + "{x}" * 50_000 + "'")),
        _Case(
            "HTTP: a body of 3 MB of empty lists",
            _post("/api/v1/executions", b'{"code":"1","context":{"a":' + _LISTS + b"}}"),
        ),
        _Case(
            "HTTP: the same to /mcp",
            _post("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":' + _LISTS + b"}}"),
        ),
    ]


async def measure(names: tuple[str, ...] = ()) -> dict[str, Any]:
    """The figures of `benchmarks stalls`, over all cases or those whose names contain one of `names`."""
    load_before = os.getloadavg()[0]
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        async with _open_gateway(Path(folder)) as gateway:
            await _warm(gateway)
            for case in _cases():
                if not names or any(name in case.name for name in names):
                    found[case.name] = await _measure_case(gateway, case)
        if not names or any(name in _TOOLS_CHANGE for name in names):
            found[_TOOLS_CHANGE] = await _measure_tools(Path(folder) / "tools")
        sdk_ms = await _measure_stubs(Path(folder) / "stubs")
    found |= await _measure_proxy(names)
    speeds = await asyncio.to_thread(scanner.measure)
    shares = await fairness.measure()
    return {
        **speeds,
        "slowest_mb_per_second": min(speeds["mb_per_second_by_kind"].values()),
        "fairness_ratio": shares["fairness_ratio"],
        "fairness": shares,
        "quiet_stall_ms": found.get(_QUIET, {}).get("longest_stall_ms"),
        "longest_stall_ms": max(each["longest_stall_ms"] for each in found.values()),
        "longest_held_ms": max(each["longest_held_ms"] for each in found.values()),
        "deadline_overrun_ms": max(each["deadline_overrun_ms"] for each in found.values()),
        "sdk_ms_2000_tools": sdk_ms,
        "cases": found,
        "limit_seconds": _LIMIT_SECONDS,
        "promises": PROMISES,
        "load": load_since(load_before),
    }


def show(figures: dict[str, Any]) -> None:
    """The cases, then each figure beside what is promised of it."""
    table = columns("hostile input", "stall ms", "held ms", "overrun ms", "took ms", "ended as")
    for name, case in figures["cases"].items():
        keys = ("longest_stall_ms", "longest_held_ms", "deadline_overrun_ms", "took_ms")
        table.add_row(plain(name), *(f"{case[key]:,.0f}" for key in keys), plain(case["ended"]))
    screen.print(table)
    screen.print()
    screen.print(promised_table(figures, PROMISES, digits=1))
    screen.print(plain(f"load {figures['load']}", "dim"))


async def _measure_tools(folder: Path) -> dict[str, Any]:
    """A server with ten thousand tools changes all of them, and a run uses them right after; the same as of a case."""
    many = FakeUpstream("many")
    async with _open_gateway(folder, many) as gateway:

        async def change(_: _Gateway) -> str:
            response = (await asyncio.gather(gateway.client.get("/healthz"), _list(many, 10_000, 1)))[0]
            ended = await gateway.run("1 + 1")
            return f"HTTP {response.status_code}, {ended}"

        await _list(many, 10_000, 0)
        await _warm(gateway)
        return await _measure_case(gateway, _Case(_TOOLS_CHANGE, change))


async def _measure_stubs(folder: Path) -> float:
    """For how many milliseconds the first run waits for what it imports, if there are 2,000 tools."""
    many, took = FakeUpstream("many"), []
    async with _open_gateway(folder, many) as gateway:
        for number in range(_ROUNDS):
            await _list(many, 2_000, number)
            view = await gateway.yard.snapshot("mallory")
            started = time.perf_counter()
            await gateway.yard.tools.publish(view)
            took.append(time.perf_counter() - started)
    return min(took) * 1e3


async def _list(server: FakeUpstream, count: int, number: int) -> None:
    assert server.on_tools is not None
    await server.on_tools(server.name, _definitions(count, number))


def _definitions(count: int, number: int) -> list[Definition]:
    """So many tools; each is another one for every number."""
    schema = {
        "type": "object",
        "properties": {
            "customer_id": {"type": "string", "description": "Whose."},
            "since": {"type": "string", "format": "date"},
            "limit": {"type": "integer", "minimum": 1},
        },
        "required": ["customer_id"],
    }
    return [
        Definition(
            name=f"list_orders_{each}",
            description=f"Lists what a customer ordered from shop {each}. Revision {number}.",
            input_schema=schema,
        )
        for each in range(count)
    ]


@contextlib.asynccontextmanager
async def _open_gateway(folder: Path, *more: FakeUpstream) -> AsyncIterator[_Gateway]:
    upstream = UpstreamConfig(name="hostile", transport="stdio", command=sys.executable, args=("-c", _SERVER))
    config = Config(
        store=StoreConfig(path=folder / "store.db"), sandbox=SandboxConfig(), upstreams={"hostile": upstream}
    )

    async def echo(text: Any) -> int:
        """Takes anything."""
        return len(str(text)[:10])

    beside = {each.name: each for each in (FakeUpstream("friendly", echo=echo), *more)}
    async with open_yard(config, upstreams=beside) as yard:
        server = build_server(yard, SurfaceConfig())
        listening = open_http(
            server,
            HttpConfig(),
            address=("127.0.0.1", 0),
            readiness=yard.operations.readiness,
            routes=routes(yard),
            offload=yard.guards.offload,
        )
        async with listening as (url, serving):
            task = asyncio.create_task(serving.run_until_cancelled())
            try:
                async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=60) as client:
                    yield _Gateway(yard, client)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def _warm(gateway: _Gateway) -> None:
    """Let the gateway do what it does only once, so that it does not count as the effect of an input."""
    await gateway.run("1 + 1")
    await gateway.answer("plain", 100)
    await gateway.answer("tabs", 20_000)
    gc.collect()
    gc.freeze()  # as `sealyard serve` does


async def _measure_case(gateway: _Gateway, case: _Case) -> dict[str, Any]:
    beating = _Heartbeat()
    gateway.overrun = 0.0
    task = asyncio.create_task(beating.run())
    started = time.perf_counter()
    try:
        ended = str(await case.send(gateway))
    except SealyardError as error:
        ended = type(error).__name__
    took = time.perf_counter() - started
    await asyncio.sleep(20 * _BEAT_SECONDS)  # what it left to be done on the loop counts too
    task.cancel()
    return {
        "longest_stall_ms": beating.longest_gap * 1e3,
        "longest_held_ms": beating.longest_held * 1e3,
        "deadline_overrun_ms": gateway.overrun * 1e3,
        "took_ms": took * 1e3,
        "ended": ended[:60],
    }


class _Heartbeat:
    """Wakes up again and again, and notes how long it could not."""

    def __init__(self) -> None:
        self.longest_gap = 0.0
        self.longest_held = 0.0

    async def run(self) -> None:
        """Until it is cancelled."""
        last, worked = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            now, spent = time.perf_counter(), time.thread_time()
            self.longest_gap = max(self.longest_gap, now - last)
            self.longest_held = max(self.longest_held, spent - worked)
            last, worked = now, spent


# The `proxy` mode

_PROXY_SERVER = r"""
import json, sys
def text(kind, size):
    if kind == "plain": return json.dumps("lorem ipsum dolor sit amet " * (size // 27))
    if kind == "tabs": return json.dumps("a\tb\n" * (size // 6))
    if kind == "rows":
        return json.dumps([{"id": i, "name": "Anna Berg", "mail": "a%d@example.com" % i} for i in range(size // 56)])
    if kind == "lists": return "[" + ",".join(["[]"] * (size // 3)) + "]"
    if kind == "deep": return "[" * size + "]" * size
    return json.dumps(kind)
def say(head, body): print('{"jsonrpc":"2.0",%s,%s}' % (head, body), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    number, method = asked.get("id"), asked.get("method")
    if number is None: continue
    head = '"id":%s' % json.dumps(number)
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "logging": {}},
                  "serverInfo": {"name": "hostile", "version": "1"}}
        say(head, '"result":' + json.dumps(result))
    elif method == "tools/list":
        names = ["give"] + ["tool_%d" % i for i in range(many if "many" in globals() else 0)]
        tools = [{"name": name, "description": "It does " + name, "inputSchema": {"type": "object"}} for name in names]
        say(head, '"result":' + json.dumps({"tools": tools}))
    elif method == "tools/call":
        given = asked["params"]["arguments"]
        kind, size = given.get("kind", ""), given.get("size", 0)
        if kind == "blocks":
            blocks = [{"type": "text", "text": "file_%d.txt" % i} for i in range(size)]
            say(head, '"result":' + json.dumps({"content": blocks}))
        elif kind == "many tools":
            many = size
            say(head, '"result":{"content":[]}')
        elif kind == "error":
            say(head, '"error":{"code":1,"message":%s}' % text("tabs", size))
        elif kind == "log":
            say('"method":"notifications/message"', '"params":{"level":"info","data":%s}' % text("rows", size))
            say(head, '"result":{"content":[]}')
        else:
            say(head, '"result":{"content":[],"structuredContent":{"value":%s}}' % text(kind, size))
    else:
        say(head, '"error":{"code":-32601,"message":"no"}')
"""


class _Proxy(_Gateway):
    """The gateway in `proxy` mode; it has no code to run."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.overrun = 0.0

    async def request(self, method: str, params: bytes) -> str:
        """Send a modern request and read all of its answer."""
        meta = (
            b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            b'"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},'
            b'"io.modelcontextprotocol/clientCapabilities":{}}'
        )
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{%b%b}}' % (method.encode(), params, meta)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **({"Mcp-Name": "give"} if method == "tools/call" else {}),
        }
        size = 0
        async with self.client.stream("POST", "/mcp", content=body, headers=headers) as response:
            async for part in response.aiter_bytes():
                size += len(part)
        return f"HTTP {response.status_code}, {size:,} bytes"


def _relayed(kind: str, size: int) -> Callable[[Any], Awaitable[Any]]:
    given = msgspec.json.encode({"kind": kind, "size": size})
    return lambda proxy: proxy.request("tools/call", b'"name":"give","arguments":%b,' % given)


def _handed(value: bytes) -> Callable[[Any], Awaitable[Any]]:
    return lambda proxy: proxy.request("tools/call", b'"name":"give","arguments":{"value":%b},' % value)


async def _list_many(proxy: Any) -> Any:
    await _relayed("many tools", 10_000)(proxy)
    return await proxy.request("tools/list", b"")


_PROXY_CASES = [
    _Case("proxy: an answer of 30 MB of text", _relayed("plain", 30 * _MIB)),
    _Case("proxy: an answer of 3 MB of rows", _relayed("rows", 3 * _MIB)),
    _Case("proxy: an answer of 1 MB of table cells", _relayed("tabs", _MIB)),
    _Case("proxy: an answer of 500,000 empty lists", _relayed("lists", 1_500_000)),
    _Case("proxy: an answer nested 500,000 deep", _relayed("deep", 500_000)),
    _Case("proxy: an answer in 50,000 blocks", _relayed("blocks", 50_000)),
    _Case("proxy: an error of 1 MB", _relayed("error", _MIB)),
    _Case("proxy: a log entry of 3 MB of rows", _relayed("log", 3 * _MIB)),
    _Case("proxy: arguments of 3 MB of text", _handed(b'"%b"' % (b"lorem ipsum " * (3 * _MIB // 12)))),
    _Case("proxy: arguments of 90,000 empty lists", _handed(b"[" + b",".join([b"[]"] * 90_000) + b"]")),
    _Case("proxy: arguments of 3 MB of empty lists", _handed(_LISTS)),
    _Case("proxy: a list of 10,000 tools", _list_many),
]


async def _measure_proxy(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The cases of the `proxy` mode, against a gateway of their own."""
    cases = [case for case in _PROXY_CASES if not names or any(name in case.name for name in names)]
    found: dict[str, dict[str, Any]] = {}
    if not cases:
        return found
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        async with _open_proxy(Path(folder)) as proxy:
            await _relayed("plain", 100)(proxy)
            await _relayed("rows", 300_000)(proxy)  # starts a helper
            gc.collect()
            gc.freeze()
            for case in cases:
                found[case.name] = await _measure_case(proxy, case)
    return found


@contextlib.asynccontextmanager
async def _open_proxy(folder: Path) -> AsyncIterator[_Proxy]:
    upstream = UpstreamConfig(name="hostile", transport="stdio", command=sys.executable, args=("-c", _PROXY_SERVER))
    config = Config(store=StoreConfig(path=folder / "store.db"), upstreams={"hostile": upstream})
    async with open_border(config) as border:
        server = build_relay(config.upstreams, border, connect=open_transport)
        listening = open_http(
            server, HttpConfig(), address=("127.0.0.1", 0), readiness=None, offload=border.guards.offload
        )
        async with listening as (url, serving):
            task = asyncio.create_task(serving.run_until_cancelled())
            try:
                async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=60) as client:
                    yield _Proxy(client)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
