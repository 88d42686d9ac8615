"""Attacks on the sockets of `sealyard serve --http`: too many connections, too slow ones, and clients that never read.

The gateway is a process of its own with the limits of a small machine. Nobody here has a token, and none is asked for:
what a stranger can do, everybody can.
"""

import asyncio
import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
from mcp import Client
from tests import warm
from tests.surfaces.api_gateway import TEAM, WAIT_SECONDS, gateway
from tests.surfaces.test_surface import text_of

from sealyard.config.settings import HttpConfig

SANDBOX = "[sandbox]\nallow_weaker = true\npool_size = 1\ndata_packages = false\n"
SOON = "header_seconds = 0.3\nbody_seconds = 0.3\nanswer_seconds = 0.3\nidle_seconds = 0.3\n"
HEAD = b"POST /api/v1/logout HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"


class Served:
    """A gateway in a process of its own."""

    def __init__(self, url: str, pid: int, log: Path) -> None:
        self.url = url
        self.pid = pid
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)
        self._log = log

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection."""
        return await asyncio.open_connection(self.host, self.port)

    def head(self) -> bytes:
        """The beginning of a request for this gateway."""
        return HEAD % f"{self.host}:{self.port}".encode()

    def open_sockets(self) -> int:
        """How many sockets the process holds."""
        links = []
        for each in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                links.append(os.readlink(f"/proc/{self.pid}/fd/{each}"))
        return sum(link.startswith("socket:") for link in links)

    def log(self) -> list[str]:
        """What it has said since it listens."""
        return self._log.read_text(encoding="utf-8").partition(" mode)\n")[2].splitlines()


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    http: str = "",
    *,
    open_files: int | None = None,
    environment: dict[str, str] | None = None,
    is_warm: bool = True,
    program: tuple[str, ...] = ("-m", "sealyard"),
) -> AsyncIterator[Served]:
    """`sealyard serve --http` with a limit on descriptors."""
    config, log = folder / "sealyard.toml", folder / "log"
    store = folder / "store" / "sealyard.db"
    config.write_text(f"{SANDBOX}\n[store]\npath = {str(store)!r}\n\n[http]\n{http}", encoding="utf-8")
    limit = "" if open_files is None else f"ulimit -n {open_files}; "
    # A gateway that starts warm has neither the limits nor the number of the process that stands for it.
    python = warm.python if is_warm else lambda *arguments: [sys.executable, *arguments]
    command = [*python(*program), "serve", str(config), "--http", "127.0.0.1:0"]
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", f'{limit}exec "$@"', "sh", *command, stderr=stderr, env=os.environ | (environment or {})
        )
    try:
        found = None
        async with asyncio.timeout(WAIT_SECONDS):
            while found is None:
                assert process.returncode is None, log.read_text(encoding="utf-8")
                await asyncio.sleep(0.02)
                found = re.search(r"at (http://\S+)/mcp", log.read_text(encoding="utf-8"))
        yield Served(found[1], process.pid, log)
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(WAIT_SECONDS):
            await process.wait()


async def closed(reader: asyncio.StreamReader) -> bytes:
    """All that the other side sends until it ends the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(WAIT_SECONDS):
            while piece := await reader.read(1 << 16):
                said += piece
    return said


async def until(is_so: Callable[[], bool]) -> None:
    """Return when it is so."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_so():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.02)


# Too many


async def test_more_silent_connections_than_descriptors_lock_nobody_out(tmp_path: Path) -> None:
    """A client is answered and code runs meanwhile, the gateway keeps descriptors for itself, and says so once."""
    async with served(tmp_path, open_files=300, is_warm=False) as gate, contextlib.AsyncExitStack() as stack:
        for _ in range(700):
            _, writer = await gate.connect()
            stack.callback(writer.close)
        async with httpx2.AsyncClient(timeout=WAIT_SECONDS) as client:
            statuses = {(await client.get(f"{gate.url}/healthz")).status_code for _ in range(20)}
        async with Client(f"{gate.url}/mcp") as agent:
            ran = await agent.call_tool("execute_code", {"code": "6 * 7"})
        await until(lambda: bool(gate.log()))
        held, log = gate.open_sockets(), gate.log()

    assert statuses == {200}
    assert text_of(ran) == "42"
    assert held < 200
    assert len(log) == 1
    assert re.search(r"All 150 connections were in use, and the \d+ .* were dropped", log[0])


async def test_connections_without_a_request_go_before_those_of_known_clients(tmp_path: Path) -> None:
    """A client that had an answer keeps its connection, although it is the oldest."""
    async with served(tmp_path, "connections = 32\n") as gate, contextlib.AsyncExitStack() as stack:
        reader, writer = await gate.connect()
        stack.callback(writer.close)
        request = f"GET /healthz HTTP/1.1\r\nHost: {gate.host}:{gate.port}\r\n\r\n".encode()
        answers = []
        for _ in range(3):
            writer.write(request)
            answers.append((await asyncio.wait_for(reader.readuntil(b"}"), WAIT_SECONDS)).split()[1])
            for _ in range(100):
                stack.callback((await gate.connect())[1].close)

    assert answers == [b"200"] * 3


async def test_open_requests_of_one_principal_leave_room_for_others(tmp_path: Path) -> None:
    """Its streams of /mcp count like all others; one too many is refused, and others and health are answered."""
    few = HttpConfig(principals=TEAM.principals, connections=32)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    async with gateway(tmp_path, http=few, with_sandbox=False) as gate, contextlib.AsyncExitStack() as stack:
        ann, bob = await gate.client("ann"), await gate.client("bob")
        accept = {"accept": "application/json, text/event-stream"}

        async def follow(session: str) -> int:
            headers = {**accept, "mcp-session-id": session}
            return (await stack.enter_async_context(bob.stream("GET", f"{gate.url}/mcp", headers=headers))).status_code

        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        opened = [await bob.post(f"{gate.url}/mcp", json=body, headers=accept) for _ in range(15)]
        sessions = [each.headers["mcp-session-id"] for each in opened]
        statuses = [await follow(session) for session in sessions]
        refused = (await bob.get("me")).status_code
        healthy = (await bob.get(f"{gate.url}/healthz")).status_code
        others = (await ann.get("me")).status_code

    assert statuses == [200] * 14 + [429]
    assert (refused, healthy, others) == (429, 200, 200)


async def test_a_full_gateway_answers_that_it_is_full(tmp_path: Path) -> None:
    """One of few connections is left for saying so, and for health."""
    few = HttpConfig(principals=TEAM.principals, connections=16)
    async with gateway(tmp_path, http=few, with_sandbox=False) as gate, contextlib.AsyncExitStack() as stack:
        for name in ("ann", "bob"):
            client = await gate.client(name)
            for _ in range(7):
                await stack.enter_async_context(client.stream("GET", "events"))
        answer = await (await gate.client("ops")).get("me")
        healthy = await (await gate.client("ops")).get(f"{gate.url}/healthz")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert healthy.status_code == 200


# Too slow


SLOW = {
    "nothing": (b"", b""),
    "half a line": (b"GET /hea", b"408"),
    "headers without an end": (b"{head}", b"408"),
    "a part of a body": (b"{head}Content-Length: 100\r\n\r\n{", b"408"),
    "chunks without an end": (b"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", b"408"),
    "a body that is awaited": (b"{head}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", b"100"),
    "a wrong request": (b"{head}Host: x\r\n\r\n", b"400"),
    "a body that nobody reads": (b"{head}Content-Length: 99999999\r\n\r\n", b"413"),
    "a whole request": (b"{head}Content-Length: 2\r\n\r\n{}", b"200"),
    "a whole request and half of one": (b"{head}Content-Length: 2\r\n\r\n{}{head}", b"200"),
    "an upgrade": (b"{head}Upgrade: websocket\r\nConnection: upgrade\r\n\r\n", b"200"),
    "a part of a message": (b"{mcp}Content-Length: 100\r\n\r\n{", b"408"),
    "no chunk of a message": (b"{mcp}Transfer-Encoding: chunked\r\n\r\n", b"408"),
    "headers of 120 KB": (b"{head}" + b"A: b\r\n" * 20_000, b"400"),
}
"""What somebody sends before it falls silent, and the status of the first answer."""


async def test_who_does_not_go_on_is_disconnected(tmp_path: Path) -> None:
    """The time-outs are the config's; whatever was sent until then, the connection is closed."""
    async with served(tmp_path, SOON) as gate:
        mcp = gate.head().replace(b"/api/v1/logout", b"/mcp") + b"Accept: application/json, text/event-stream\r\n"

        async def fall_silent(sent: bytes) -> bytes:
            reader, writer = await gate.connect()
            writer.write(sent.replace(b"{head}", gate.head()).replace(b"{mcp}", mcp))
            said = await closed(reader)
            writer.close()
            return b"".join(said.split(b" ", 2)[1:2])

        statuses = await asyncio.gather(*(fall_silent(sent) for sent, _ in SLOW.values()))
        async with httpx2.AsyncClient() as client:
            healthy = await client.get(f"{gate.url}/healthz")
        log = gate.log()

    assert dict(zip(SLOW, statuses, strict=True)) == {name: status for name, (_, status) in SLOW.items()}
    assert healthy.status_code == 200
    assert [line for line in log if not line.endswith(("Invalid HTTP request received.", "(ClientDisconnect: )"))] == []


async def test_who_sends_byte_by_byte_is_disconnected(tmp_path: Path) -> None:
    """Going on does not help if it is too slow: neither in the headers, nor in a body, nor in chunks of one byte."""
    async with served(tmp_path, SOON) as gate:

        async def drip(head: bytes, piece: bytes) -> bytes:
            reader, writer = await gate.connect()
            writer.write(gate.head() + head)
            ending = asyncio.create_task(closed(reader))
            with contextlib.suppress(OSError):
                while not ending.done():
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.05)
            said = await ending
            writer.close()
            return b"".join(said.split(b" ", 2)[1:2])

        statuses = await asyncio.gather(
            drip(b"", b"x"),
            drip(b"Content-Length: 1000\r\n\r\n", b"x"),
            drip(b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        )

    assert set(statuses) <= {b"408", b""}  # which may be lost, since more was sent meanwhile


async def test_who_never_reads_its_answers_is_disconnected(tmp_path: Path) -> None:
    """The answers do not pile up, and their connections do not stay."""
    async with served(tmp_path, SOON, is_warm=False) as gate:
        before = gate.open_sockets()
        sockets = []
        for _ in range(20):
            each = socket.socket()
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect((gate.host, gate.port))
            line = f"GET /api/v1/openapi.json HTTP/1.1\r\nHost: {gate.host}:{gate.port}\r\n\r\n"
            each.sendall(line.encode() * 100)
            sockets.append(each)
        for each in sockets:
            assert await asyncio.to_thread(each.recv, 1) == b"H"  # it is being answered
        # A helper process, which starts meanwhile, has a socket too.
        await until(lambda: gate.open_sockets() <= before + 1)
        async with httpx2.AsyncClient() as client:
            healthy = await client.get(f"{gate.url}/healthz")
        for each in sockets:
            each.close()

    assert healthy.status_code == 200


async def test_a_stream_outlives_all_time_outs(tmp_path: Path) -> None:
    """Who waits for what happens, and reads it, is not cut off."""
    async with (
        served(tmp_path, SOON) as gate,
        httpx2.AsyncClient(timeout=WAIT_SECONDS) as client,
        client.stream("GET", f"{gate.url}/api/v1/events") as stream,
    ):
        lines = stream.aiter_lines()
        first = await anext(lines)
        reader, writer = await gate.connect()
        await closed(reader)  # as long as a time-out takes
        writer.close()
        await client.post(f"{gate.url}/api/v1/executions", json={"code": "1", "wait": True})
        async with asyncio.timeout(WAIT_SECONDS):
            events = [line async for line in _first_events(lines)]

    assert first == "retry: 2000"
    assert events[-1] == "event: ended"


async def _first_events(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith("event:"):
            yield line
            if line == "event: ended":
                return


# Too deep, too large, too often


async def test_a_body_that_is_deep_or_without_end_is_refused(tmp_path: Path) -> None:
    """At /mcp as at /api/v1: a body is bounded while it is read, and what is nested too deep is no answer's cost."""
    deep = b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001

    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with served(tmp_path) as gate, httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS) as client:
        statuses = []
        for path in ("/mcp", "/api/v1/executions"):
            statuses.append((await client.post(f"{gate.url}{path}", content=deep)).status_code)
            reader, writer = await gate.connect()
            writer.write(gate.head().replace(b"/api/v1/logout", path.encode()) + b"Transfer-Encoding: chunked\r\n\r\n")
            writer.write((b"10000\r\n" + b" " * 65_536 + b"\r\n") * 80)  # 5 MiB, and no end
            line = await asyncio.wait_for(reader.readline(), WAIT_SECONDS)
            statuses.append(int(line.split()[1]))
            writer.close()
        log = gate.log()

    assert statuses == [413, 413, 413, 413]
    assert log == []


async def test_wrong_requests_do_not_fill_the_log(tmp_path: Path) -> None:
    """Twenty lines a minute are enough to see that there are many."""
    async with served(tmp_path) as gate:
        for _ in range(200):
            reader, writer = await gate.connect()
            writer.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            await closed(reader)
            writer.close()
        log = gate.log()

    assert len(log) == 20
    assert log[-1].startswith("uvicorn.error: Invalid HTTP request received. (more like this are counted for ")


def test_a_low_soft_limit_is_raised() -> None:
    """What an ordinary shell allows is not what the process may have."""
    code = (
        "import resource\nfrom sealyard.serve.connections import *\nfrom sealyard.config.settings import HttpConfig\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 900))\nprint(most_connections(HttpConfig()))\n"
        "raise_open_files()\nprint(resource.getrlimit(resource.RLIMIT_NOFILE), most_connections(HttpConfig()))\n"
        "print(most_connections(HttpConfig(connections=8)))"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 900
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n") == ["128", "(900, 900) 450", "8", ""]
