"""`/api/v1/events`, and server-sent events for a reader that may be slow, vanish and come back.

A reader has a bounded queue in `Live`; events that do not fit are dropped, and `lagged` says so. The stream is a
generator in the request's own task: when that ends, nothing is left behind.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from sealyard.serve.api.declare import Call, Events, endpoint
from sealyard.serve.gate import gate_of
from sealyard.values.runs import LiveEvent

KEEP_ALIVE_SECONDS = 15.0
"""Proxies close a stream that is quiet for longer than 30 to 60 s."""
_RETRY_MS = 2_000  # a browser connects again after this time
_WORD = secrets.token_hex(4)
"""In the ids of events, so that an id of an earlier gateway is recognized."""


ENDED = "ended"
"""The id of the event that ends an execution, in the stream of that execution."""


def event_id(number: int) -> str:
    """Return the id of a live event."""
    return f"{_WORD}-{number}"


def number_of(last_event_id: str | None) -> int | None:
    """Return the number in an id of this gateway; None for any other id."""
    word, _, number = (last_event_id or "").partition("-")
    is_number = word == _WORD and number.isascii() and number.isdigit() and len(number) < 19
    return int(number) if is_number else None


def block(event: LiveEvent, spelled: str | None) -> str:
    """Return one event in wire format. JSON holds no line end, so data cannot begin a line of its own."""
    body: dict[str, Any] = {
        "at": event.at,
        "execution_id": event.execution_id,
        "principal": event.principal,
        **event.body,
    }
    name = "" if spelled is None else f"id: {spelled}\n"
    return f"{name}event: {event.kind}\ndata: {msgspec.json.encode(body).decode()}\n\n"


async def stream(
    events: AsyncIterator[LiveEvent], closing: asyncio.Event, *, is_one: bool = False
) -> AsyncIterator[str]:
    """Yield blocks for events until they end or the server closes, with a comment after a quiet time.

    `is_one`: they are those of one execution.
    """
    yield f"retry: {_RETRY_MS}\n\n"
    closed: asyncio.Future[Any] = asyncio.create_task(closing.wait())
    coming: asyncio.Future[Any] | None = None
    try:
        while not closed.done():
            coming = coming or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({coming, closed}, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                event = coming.result()
                coming = None
                if event is None:
                    return
                yield block(event, ENDED if is_one and event.kind == "ended" else event_id(event.number))
            elif not closed.done():
                yield ": nothing new\n\n"
    finally:
        for task in (closed, coming):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


@endpoint(
    "GET",
    "events",
    headers={
        "Last-Event-ID": "The id of the last event that was read: the stream goes on after it, as far as it is kept."
    },
)
async def follow_gateway(call: Call[None, None]) -> Events:
    """Stream the events of all runs: one's own, or everybody's with `observe`.

    `started`, `output`, `call`, `called`, `asked`, `answered`, `ended`, and `lagged` where some are missing.
    """
    return Events(blocks=_live(call))


async def _live(call: Call[None, None]) -> AsyncIterator[str]:
    last = call.request.headers.get("last-event-id")
    after = number_of(last)
    if last and after is None:  # of a gateway before this one
        yield block(LiveEvent(number=0, at=time.time(), kind="lagged"), None)
    async with call.yard.live.follow(principal=call.whose, after=after) as events:
        async for each in stream(events, gate_of(call.request.scope).closing):
            yield each
