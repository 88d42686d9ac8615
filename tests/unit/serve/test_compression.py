"""Answers are compressed where it helps and gives nothing away, and streams are not held up."""

import asyncio
import gzip
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sealyard.serve.compression import UNCOMPRESSED, Compressed

BODY = b'{"rows": [' + b'{"name": "value"}, ' * 2_000 + b"{}]}"


async def silent() -> Message:
    """A client that sends nothing more and stays."""
    await asyncio.Event().wait()
    raise AssertionError


async def answered(app: ASGIApp, accept: str | None = "gzip") -> tuple[Headers, bytes, list[Message]]:
    """The headers, the body and the messages of an answer."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [] if accept is None else [(b"accept-encoding", accept.encode())]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    await Compressed(app)(scope, silent, send)
    return Headers(raw=sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent), sent


@pytest.mark.parametrize(
    ("accept", "is_packed"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("*", True),
        ("deflate, gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("br", False),
        ("identity", False),
        ("", False),
        (None, False),
    ],
)
async def test_an_answer_is_compressed_for_who_accepts_it(accept: str | None, is_packed: bool) -> None:
    """Caches learn that it depends on the request, either way."""
    headers, body, _ = await answered(Response(BODY, media_type="application/json", headers={"ETag": '"x"'}), accept)

    assert headers["vary"] == "Accept-Encoding"
    assert headers.get("content-encoding") == ("gzip" if is_packed else None)
    assert (gzip.decompress(body) if is_packed else body) == BODY
    assert headers["content-length"] == str(len(body))
    assert headers["etag"] == ('W/"x"' if is_packed else '"x"')
    assert (len(body) < len(BODY) // 4) is is_packed


@pytest.mark.parametrize(
    "response",
    [
        Response(BODY[:1_399], media_type="application/json"),
        Response(BODY, media_type="image/png"),
        Response(BODY, media_type="application/json", headers={"Content-Encoding": "br"}),
        Response(BODY, media_type="application/json", headers={"Set-Cookie": "a=b"}),
        Response(status_code=204),
    ],
)
async def test_other_answers_stay_as_they_are(response: Response) -> None:
    """Small ones, pictures, what is compressed already, and what sets a cookie."""
    headers, body, _ = await answered(response)

    assert body == response.body
    assert headers.raw == response.raw_headers


async def test_an_answer_with_private_values_is_not_compressed() -> None:
    """Its length must not tell which of them repeats what somebody else wrote beside it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[UNCOMPRESSED] = True
        await Response(BODY, media_type="application/json")(scope, receive, send)

    headers, body, _ = await answered(app)

    assert (headers.get("content-encoding"), body) == (None, BODY)


async def test_the_length_of_an_answer_varies_at_random() -> None:
    """So one observed length does not say how often a word repeats."""
    response = Response(BODY, media_type="application/json")

    assert len({len((await answered(response))[1]) for _ in range(50)}) > 5


async def test_a_stream_is_passed_on_at_once_and_piece_by_piece() -> None:
    """Its head does not wait for its first event."""
    told: list[Message] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def events() -> Any:
        await go_on.wait()
        yield b"data: 1\n\n"
        yield b"data: 2\n\n"

    async def send(message: Message) -> None:
        told.append(message)
        begun.set()

    app = Compressed(StreamingResponse(events(), media_type="text/event-stream"))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"accept-encoding", b"gzip")]}
    serving = asyncio.create_task(app(scope, silent, send))
    async with asyncio.timeout(60):
        await begun.wait()
        head = list(told)
        go_on.set()
        await serving

    assert [message["type"] for message in head] == ["http.response.start"]
    assert Headers(raw=head[0]["headers"]).get("content-encoding") is None
    assert [message["body"] for message in told[1:]] == [b"data: 1\n\n", b"data: 2\n\n", b""]


async def test_a_body_in_pieces_keeps_its_pieces() -> None:
    """Whatever its kind: only a whole answer is compressed."""
    _, body, sent = await answered(StreamingResponse(iter([BODY, BODY]), media_type="application/json"))

    assert (body, len(sent)) == (BODY * 2, 4)


async def test_the_loop_is_free_while_a_large_answer_is_compressed() -> None:
    """It takes a thread of its own."""
    turns, is_over = 0, False

    async def count() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal turns
        turns = 0
        await Response(BODY * 200, media_type="application/json")(scope, receive, send)

    counting = asyncio.create_task(count())
    headers, _, _ = await answered(app)
    seen, is_over = turns, True
    await counting

    assert headers["content-encoding"] == "gzip"
    assert seen > 10


async def test_what_is_no_request_passes() -> None:
    """The start and the end of the server reach the application."""
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(Request.__name__ if scope["type"] == "http" else scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    await Compressed(app)({"type": "lifespan"}, nothing, nothing)

    assert seen == ["lifespan"]
