"""Requests byte by byte: what goes out together, what goes out at once, and which endpoint a path means."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client
from starlette.requests import ClientDisconnect, Request
from tests.surfaces.api_gateway import TEAM, WAIT_SECONDS, Gateway, gateway

from sealyard.config.settings import SurfaceConfig
from sealyard.serve.api.exchange import while_connected
from sealyard.serve.connections import LEFT
from sealyard.serve.mcp import build_server
from sealyard.serve.skills_extension import EXTENSION
from sealyard.yard.surface import surface_tools


@contextlib.asynccontextmanager
async def wire(gate: Gateway) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]]:
    """A connection to a gateway, and the Host header for it."""
    host, port = gate.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            yield reader, writer, f"Host: {host}:{port}\r\n".encode()
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader, *, has_body: bool = True) -> tuple[bytes, bytes]:
    """The head and the body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head, await reader.readexactly(int(lengths[0].split(b":")[1])) if has_body and lengths else b""


async def test_requests_in_one_packet_are_answered_in_order(tmp_path: Path) -> None:
    """Small and large answers, heads that look like bodies, and a request that is none behind them."""
    paths = [b"/api/v1/me", b"/api/v1/openapi.json", b"/healthz", b"/api/v1/nothing", b"/api/v1/me"]
    async with gateway(tmp_path, with_sandbox=False) as gate, wire(gate) as (reader, writer, host):
        writer.write(b"".join(b"GET %b HTTP/1.1\r\n%b\r\n" % (path, host) for path in paths) + b"nonsense\r\n\r\n")
        answers = [await answer(reader) for _ in paths]
        last = await reader.read()

    assert [head.split()[1] for head, _ in answers] == [b"200", b"200", b"200", b"404", b"200"]
    assert answers[0][1] == answers[4][1]
    assert len(answers[1][1]) > 64 << 10
    assert answers[1][1].endswith(b"}")
    assert last.startswith(b"HTTP/1.1 400 ")


async def test_the_head_of_a_stream_is_sent_before_anything_happens(tmp_path: Path) -> None:
    """Its client would wait for the first event otherwise."""
    async with gateway(tmp_path, with_sandbox=False) as gate, wire(gate) as (reader, writer, host):
        writer.write(b"GET /api/v1/events HTTP/1.1\r\n" + host + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"text/event-stream" in head


async def test_who_waits_for_a_word_before_its_body_gets_it(tmp_path: Path) -> None:
    """And then its answer."""
    async with gateway(tmp_path, with_sandbox=False) as gate, wire(gate) as (reader, writer, host):
        writer.write(
            b"POST /api/v1/logout HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
            b"Content-Type: application/json\r\n" + host + b"\r\n"
        )
        first = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{}")
        head, _ = await answer(reader)

    assert first.startswith(b"HTTP/1.1 100 ")
    assert head.startswith(b"HTTP/1.1 200 ")


REQUESTS = {
    "GET /api/v1/me": b"200",
    "HEAD /api/v1/me": b"200",
    "GET /api/v1/me?": b"200",
    "GET /api/v1/me?x=1": b"400",
    "GET /api/v1/m%65": b"200",
    "POST /api/v1/me": b"405",
    "BREW /api/v1/me": b"405",
    "GET /api/v1/me/": b"404",
    "GET //api/v1/me": b"404",
    "GET /api/v1/ME": b"404",
    "GET /api/v1/executions/none": b"404",
    "GET /api/v1/executions/../me": b"404",
}


@pytest.mark.parametrize("request_line", REQUESTS)
async def test_a_path_means_one_endpoint_however_it_is_found(tmp_path: Path, request_line: str) -> None:
    """By its very name, or by the patterns of the router; a method that it has not is refused by name."""
    is_head = request_line.startswith("HEAD")
    async with gateway(tmp_path, with_sandbox=False) as gate, wire(gate) as (reader, writer, host):
        writer.write(f"{request_line} HTTP/1.1\r\n".encode() + host + b"\r\n")
        head, _ = await answer(reader, has_body=not is_head)

    assert head.split()[1] == REQUESTS[request_line]
    assert b"x-request-id" in head.lower() or head.split()[1] == b"404"


async def test_of_a_header_that_is_given_twice_the_first_counts(tmp_path: Path) -> None:
    """Neither an allowed Origin nor a good token behind a wrong one lets anybody in."""
    twice = [
        (b"Origin: http://evil.example\r\nOrigin: %b\r\nAuthorization: Bearer %b\r\n", b"403"),
        (b"Authorization: Bearer wrong\r\nX-Other: %b\r\nAuthorization: Bearer %b\r\n", b"401"),
        (b"X-Other: %b\r\nAuthorization: Bearer %b\r\nAuthorization: Bearer wrong\r\n", b"200"),
    ]
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        for headers, status in twice:
            async with wire(gate) as (reader, writer, host):
                writer.write(
                    b"GET /api/v1/me HTTP/1.1\r\n" + host + headers % (gate.url.encode(), b"ann-token") + b"\r\n"
                )
                head, _ = await answer(reader)
                assert head.split()[1] == status


def request(**scope: Any) -> Request:
    """A request with nothing but a scope."""
    return Request({"type": "http", **scope})


async def test_work_for_a_client_that_has_left_already_is_not_done() -> None:
    """It is cancelled where it first waits."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("all")

    with pytest.raises(ClientDisconnect):
        await while_connected(request(**{LEFT: None}), work())

    current = asyncio.current_task()
    assert (done, current is not None and current.cancelling()) == ([], 0)


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    """Also when the client leaves in the same moment; and the task can be used afterwards."""
    ours = request()
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    working = asyncio.create_task(while_connected(ours, work()))
    await started.wait()
    leave = ours.scope[LEFT]
    working.cancel()
    leave()
    await asyncio.wait({working})

    assert working.cancelled()


async def test_what_was_done_before_the_client_left_is_returned() -> None:
    """Nothing is called when it leaves later."""
    ours = request()

    async def work() -> int:
        return 7

    assert await while_connected(ours, work()) == 7
    assert LEFT not in ours.scope


@pytest.mark.parametrize("mode", ["code", "search", "hybrid"])
async def test_no_call_lists_tools_first(tmp_path: Path, mode: str) -> None:
    """The SDK would, to look for arguments that are repeated in headers: among our own tools there are none."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        look = build_server(gate.yard, SurfaceConfig(), mode=mode).get_tool_input_schema

    assert "x-mcp-header" not in repr(surface_tools(mode))
    assert look is not None
    assert [look(tool["name"]) for tool in surface_tools(mode)] == [None] * len(surface_tools(mode))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_extension_is_named_in_the_greeting_and_stands_around_no_call(tmp_path: Path, mode: Any) -> None:
    """In both eras. A call passes what we add to the SDK's server without a frame of ours on its stack."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        async with Client(f"{gate.url}/mcp", mode=mode) as client:
            capabilities = client.session.server_capabilities
        server = build_server(gate.yard, SurfaceConfig())

    assert capabilities is not None
    assert EXTENSION in (capabilities.extensions or {})
    ours = [each for each in server.middleware if getattr(each, "__module__", "").startswith("sealyard.")]
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    assert [each(SimpleNamespace(method="tools/call"), lambda ctx: answer) for each in ours] == [answer] * 2  # type: ignore[arg-type]
