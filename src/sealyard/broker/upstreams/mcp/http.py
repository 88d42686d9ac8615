"""Carries messages to and from MCP servers over HTTP: streamable HTTP, and server-sent events as before 2025.

The SDK's transports speak the protocol. This module adds a bound on answers, keeps a connection after a failed request,
and records whether the server processed that request.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import httpx2
import msgspec
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from sealyard.broker.upstreams.mcp.transport import stand_in, too_large
from sealyard.values.tools import UpstreamConfig

_SMALL_EVENT_BYTES = 64 << 10  # `stand_in` replaces no smaller message
_IDLE_STREAM_SECONDS = 24 * 3600.0  # the SDK ends a silent event stream after 5 minutes otherwise


class Delivery(msgspec.Struct, eq=False):
    """The fate of one HTTP request, in addition to the SDK's report of it."""

    fault: str | None = None
    answered: bool = False
    """The fault came with a message of the server."""
    stale: bool = False
    """The server no longer knows the session, so it did not process the request."""
    undelivered: bool = False
    """There was no connection to send it over."""


DELIVERY: ContextVar[Delivery | None] = ContextVar("delivery", default=None)
"""Set by the sender of a request: the SDK's HTTP transports send each message in its sender's context."""


class Exchange(httpx2.AsyncClient):
    """An HTTP client on which a bad answer does not end the connection, and whose answers are bounded."""

    def __init__(self, config: UpstreamConfig, auth: httpx2.Auth | None, *, on_fault: Callable[[str], None]) -> None:
        """`on_fault` is called when a message cannot be sent over a connection whose answers come another way.

        The SDK gets a small message in the place of a large answer; see `transport.stand_in`.
        """
        headers = dict(config.headers)
        if config.bearer_token is not None:
            headers["Authorization"] = f"Bearer {config.bearer_token}"
        # Answers and event streams may take any time: calls have timeouts of their own.
        timeout = httpx2.Timeout(config.start_seconds, read=None, pool=None)
        super().__init__(headers=headers, auth=auth, timeout=timeout)
        self._answer_bytes = config.answer_bytes
        self._events = config.transport == "sse"
        self._on_fault = on_fault
        self.fault: str | None = None
        """The last fault."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. A failed POST is answered with an error of our own instead of an exception."""
        delivery = DELIVERY.get() or Delivery()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            delivery.undelivered = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            self._note(delivery, f"{type(error).__name__}: {error}".rstrip(": "))
            return httpx2.Response(httpx2.codes.BAD_GATEWAY, request=request)
        if response.status_code >= httpx2.codes.BAD_REQUEST and request.method == "POST":
            gone = response.status_code in {httpx2.codes.NOT_FOUND, httpx2.codes.GONE}
            delivery.stale = gone and "mcp-session-id" in request.headers
            delivery.answered = response.headers.get("content-type", "").startswith("application/json")
            self._note(delivery, f"HTTP {response.status_code}")
        if response.is_stream_consumed:
            return response
        return _with_body(response, self._body(request, response, delivery))

    def _note(self, delivery: Delivery, fault: str) -> None:
        delivery.fault = self.fault = fault
        if self._events:
            self._on_fault(fault)

    def _body(self, request: httpx2.Request, response: httpx2.Response, delivery: Delivery) -> AsyncIterator[bytes]:
        """A body that ends in an error when it is too large, counted after decompression."""
        kind = response.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            return _small_events(response, self._answer_bytes)
        bounded = _bounded(response, self._answer_bytes, delivery)
        is_answer = kind.startswith("application/json") and response.status_code == httpx2.codes.OK
        return _small_answer(bounded, _id_of(request)) if is_answer else bounded


class _Body(httpx2.AsyncByteStream):
    """The parts in place of a response's own."""

    def __init__(self, response: httpx2.Response, parts: AsyncIterator[bytes]) -> None:
        self._response = response
        self._parts = parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        await self._response.aclose()


def _with_body(response: httpx2.Response, parts: AsyncIterator[bytes]) -> httpx2.Response:
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in {"content-encoding", "content-length", "transfer-encoding"}
    ]
    body = _Body(response, parts)
    replaced = httpx2.Response(response.status_code, headers=headers, stream=body, request=response.request)
    replaced.next_request = response.next_request
    replaced.history = response.history
    return replaced


async def _bounded(response: httpx2.Response, most_bytes: int, delivery: Delivery) -> AsyncIterator[bytes]:
    total = 0
    try:
        async for part in response.aiter_bytes():
            total += len(part)
            if total > most_bytes:
                delivery.fault = too_large(most_bytes)
                raise httpx2.StreamError(delivery.fault)
            yield part
    except httpx2.TransportError as error:
        delivery.fault = f"{type(error).__name__}: {error}".rstrip(": ")
        raise httpx2.StreamError(delivery.fault) from error


async def _small_answer(parts: AsyncIterator[bytes], number: Any) -> AsyncIterator[bytes]:
    """A JSON body, or a small one in the place of a large answer to the request `number`."""
    whole = b"".join([part async for part in parts])
    yield stand_in(whole, number) or whole


async def _small_events(response: httpx2.Response, most_bytes: int) -> AsyncIterator[bytes]:
    """A stream of events, with small data in the place of large answers."""
    event: list[bytes] = []
    line: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        first, *others = part.split(b"\n")
        line.append(first)
        size += len(part)
        for piece in others:
            event.append(b"".join(line))
            line = [piece]
            if not event[-1].rstrip(b"\r"):
                yield _small_event(event)
                event, size = [], len(piece)
        if size > most_bytes:  # the SDK says so itself
            yield b"\n".join([*event, b"".join(line)])
            event, line, size = [], [], 0
    yield b"\n".join([*event, b"".join(line)])


def _small_event(lines: list[bytes]) -> bytes:
    """An event with its end, as it came or with small data."""
    if sum(map(len, lines)) > _SMALL_EVENT_BYTES:
        data = [line[5:].removeprefix(b" ").rstrip(b"\r") for line in lines if line.startswith(b"data:")]
        small = stand_in(b"\n".join(data))
        others = [line for line in lines[:-1] if not line.startswith(b"data:")]
        lines = [*others, b": large and no answer" if small is None else b"data: " + small, b""]
    return b"\n".join(lines) + b"\n"


def _id_of(request: httpx2.Request) -> Any:
    try:
        return msgspec.json.decode(request.content, type=_Identified).id
    except (ValueError, httpx2.RequestNotRead):
        return None


class _Identified(msgspec.Struct):
    id: int | str | None = None


@contextlib.asynccontextmanager
async def open_http(config: UpstreamConfig, exchange: Exchange) -> AsyncIterator[tuple[Any, Any]]:
    """Talk streamable HTTP with the config's URL."""
    assert config.url is not None
    streams = streamable_http_client(config.url, http_client=exchange, max_sse_event_size=config.answer_bytes)
    async with exchange, streams as (read, write):
        yield read, write


@contextlib.asynccontextmanager
async def open_events(config: UpstreamConfig, exchange: Exchange) -> AsyncIterator[tuple[Any, Any]]:
    """Talk HTTP with server-sent events, as before 2025, with the config's URL."""
    assert config.url is not None

    def use_exchange(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return exchange

    streams = sse_client(config.url, sse_read_timeout=_IDLE_STREAM_SECONDS, httpx_client_factory=use_exchange)
    async with streams as (read, write):
        yield read, write
