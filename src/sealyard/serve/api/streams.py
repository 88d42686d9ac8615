"""Server-sent events: what happens, as it happens, for a reader that may be slow, vanish and come back.

A reader has a bounded queue in `Live`; what does not fit is dropped and said so. The stream is a generator in the
request's own task: when that ends, whoever ends it, nothing is left behind.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from sealyard.observe.live import LiveEvent

KEEP_ALIVE_SECONDS = 15.0
_RETRY_MS = 2_000


class Numbering:
    """The ids of events: a word of this gateway's own and a number, so that one of an earlier gateway is recognized."""

    def __init__(self) -> None:
        self._word = secrets.token_hex(4)

    def spell(self, number: int) -> str:
        """The id of a live event."""
        return f"{self._word}-{number}"

    def read(self, last_event_id: str | None) -> int | None:
        """The number in an id that this gateway gave; None in any other."""
        word, _, number = (last_event_id or "").partition("-")
        is_number = word == self._word and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) if is_number else None


def block(event: LiveEvent, event_id: str | None) -> str:
    """One event as it is sent. JSON has no line end in it, so nothing in the data can begin a line of its own."""
    body: dict[str, Any] = {
        "at": event.at,
        "execution_id": event.execution_id,
        "principal": event.principal,
        **event.body,
    }
    name = "" if event_id is None else f"id: {event_id}\n"
    return f"{name}event: {event.kind}\ndata: {msgspec.json.encode(body).decode()}\n\n"


async def told(events: AsyncIterator[LiveEvent], numbering: Numbering, closing: asyncio.Event) -> AsyncIterator[str]:
    """Blocks for events until there are no more or the server closes, with a comment when it is quiet for long."""
    yield f"retry: {_RETRY_MS}\n\n"
    closed = asyncio.create_task(closing.wait())
    coming: asyncio.Task[LiveEvent | None] | None = None
    try:
        while not closed.done():
            coming = coming or asyncio.create_task(_next(events))
            await asyncio.wait({coming, closed}, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                event = coming.result()
                coming = None
                if event is None:
                    return
                yield block(event, numbering.spell(event.number))
            elif not closed.done():
                yield ": nothing new\n\n"
    finally:
        for task in (closed, coming):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _next(events: AsyncIterator[LiveEvent]) -> LiveEvent | None:
    return await anext(events, None)
