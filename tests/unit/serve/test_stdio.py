"""Lines of a client that cannot be read go to whoever waits for them."""

import asyncio

import anyio
import pytest
from mcp.shared.message import SessionMessage

from sealyard.serve.stdio import _read


async def no_helpers() -> None:
    """Stands for the gateway's helpers: no large line is counted before it is decoded."""


async def read(*lines: bytes) -> tuple[list[object], list[object]]:
    """What the server and the client receive for these lines: of errors their id, of others their kind."""
    reader = asyncio.StreamReader(limit=1 << 20)
    for line in lines:
        reader.feed_data(line + b"\n")
    reader.feed_eof()
    to_server, server = anyio.create_memory_object_stream[SessionMessage | Exception](len(lines))
    to_client, client = anyio.create_memory_object_stream[SessionMessage](len(lines))
    with server, client, to_client:
        await _read(reader, to_server, to_client, no_helpers)
        received = []
        for stream in (server, client):
            found = [stream.receive_nowait() for _ in range(stream.statistics().current_buffer_used)]
            received.append([getattr(each.message, "id", None) for each in found if isinstance(each, SessionMessage)])
    return received[0], received[1]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":3,"result":7}',
        b'{"jsonrpc":"2.0","id":3,"error":"no"}',
        b'{"jsonrpc":"2.0","id":3,"result":{"many":[' + b"[]," * 110_000 + b"[]]}}",
    ],
    ids=["result that is no object", "error that is no object", "too many values"],
)
async def test_a_response_that_cannot_be_read_fails_the_request_it_answers(line: bytes) -> None:
    """The client is sent nothing: it would take the error for the answer to a request of its own with that id."""
    assert await read(line) == ([3], [])


@pytest.mark.parametrize(
    ("line", "number"),
    [(b'{"jsonrpc":"2.0","id":3,"method":7}', 3), (b"not JSON", None), (b"[1]", None)],
    ids=["method that is no text", "not JSON", "not an object"],
)
async def test_a_request_that_cannot_be_read_is_answered(line: bytes, number: int | None) -> None:
    """Its sender waits for an answer."""
    assert await read(line) == ([], [number])
