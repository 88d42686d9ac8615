"""The time that a client is given to send a body, by a clock that the tests advance."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.upstreams.waiting import until

from sealyard.config.settings import HttpConfig
from sealyard.serve.connections import HttpConnection
from sealyard.serve.http import _Uvicorn

WAIT_SECONDS = 30.0
BODY_SECONDS = 3_600.0
"""No test takes as long: the gateway's own looks at its connections end none."""
PIECE = b"x" * 32_768
PIECE_SECONDS = 2.0
"""For a piece, at the least speed."""
SETTINGS = HttpConfig(
    header_seconds=BODY_SECONDS, body_seconds=BODY_SECONDS, answer_seconds=BODY_SECONDS, idle_seconds=BODY_SECONDS
)


class Reading:
    """A gateway that reads bodies, and one client in the middle of sending one."""

    def __init__(self, connection: HttpConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection = connection
        self.reader = reader
        self.writer = writer
        self.may_read = asyncio.Event()
        self.read_bytes = 0
        self._started = connection.since

    async def receive(self, count: int) -> None:
        """Wait until the gateway has read as many bytes."""
        await until(lambda: self.read_bytes >= count)

    def is_ended_after(self, seconds: float) -> bool:
        """True if the gateway ends the connection so long after the headers came."""
        self.connection.end_if_late(self._started + seconds)
        return self.connection.transport.is_closing()

    async def answer(self) -> bytes:
        """The status of the answer."""
        async with asyncio.timeout(WAIT_SECONDS):
            return (await self.reader.readline()).split()[1]


@asynccontextmanager
async def reading(*, length: int, first: bytes = b"", is_reading: bool = True) -> AsyncIterator[Reading]:
    """A request whose headers and `first` bytes of the body come as one packet."""
    made: list[Reading] = []

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await until(lambda: bool(made))
        await made[0].may_read.wait()
        async for piece in Request(scope, receive).stream():
            made[0].read_bytes += len(piece)
        await PlainTextResponse("read")(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Uvicorn(uvicorn.Config(read, log_config=None, lifespan="off"), listener, SETTINGS, asyncio.Event())
        serving = asyncio.create_task(server.run_until_cancelled())
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length + first)
            await until(lambda: any(each.phase == "body" for each in server.server_state.connections))
            (connection,) = server.server_state.connections
            made.append(Reading(connection, reader, writer))
            if is_reading:
                made[0].may_read.set()
            yield made[0]
        finally:
            writer.close()
            serving.cancel()
            await asyncio.wait({serving})


async def test_a_body_of_few_bytes_has_a_fixed_time() -> None:
    """A client that falls silent is told so, and its connection ended."""
    async with reading(length=100, first=b"{") as request:
        await request.receive(1)
        assert not request.is_ended_after(BODY_SECONDS - 1)
        assert request.is_ended_after(BODY_SECONDS + 1)
        assert await request.answer() == b"408"


@pytest.mark.parametrize("is_with_headers", [False, True])
async def test_a_slow_body_that_keeps_coming_is_read(*, is_with_headers: bool) -> None:
    """A second for each 16 KiB is allowed on top: a large body over a slow line arrives."""
    count = 7
    first = PIECE if is_with_headers else b""
    async with reading(length=count * len(PIECE), first=first) as request:
        for number in range(1, count):
            if number > 1 or not is_with_headers:
                request.writer.write(PIECE)
            await request.receive(number * len(PIECE))
            assert not request.is_ended_after(BODY_SECONDS + number * PIECE_SECONDS - 1)
        request.writer.write(PIECE)
        assert await request.answer() == b"200"


async def test_a_body_that_comes_too_slowly_is_not_awaited() -> None:
    """The time on top is that of the bytes that came, and no more."""
    async with reading(length=10 * len(PIECE), first=PIECE) as request:
        await request.receive(len(PIECE))
        assert request.is_ended_after(BODY_SECONDS + PIECE_SECONDS + 1)
        assert await request.answer() == b"408"


async def test_time_in_which_the_gateway_reads_nothing_is_its_own() -> None:
    """The client's starts again with the next look at it: what it sends meanwhile waits for the gateway."""
    body = PIECE * 64
    async with reading(length=len(body) + 1, first=body, is_reading=False) as request:
        await until(lambda: request.connection.flow.read_paused)
        assert not request.is_ended_after(10 * BODY_SECONDS)
        request.may_read.set()
        await request.receive(len(body))
        assert not request.is_ended_after(11 * BODY_SECONDS - 1)
        request.writer.write(b"x")
        assert await request.answer() == b"200"
