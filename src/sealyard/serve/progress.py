"""What a client hears of a call while it goes on."""

import asyncio
from typing import Any

from mcp.server.context import ServerRequestContext

Context = ServerRequestContext[Any, Any]

_KEPT_CHARACTERS = 4_000


class Stream:
    """Sends what the code prints as progress, as fast as the client takes it and no faster.

    Nothing is sent if the client did not ask for progress. While no request is open, the end of it is kept.
    """

    def __init__(self) -> None:
        self._ctx: Context | None = None
        self._waiting = ""
        self._sent = 0
        self._sending: asyncio.Task[None] | None = None

    def open(self, ctx: Context) -> None:
        """Send over this request from now on."""
        self._ctx = ctx
        self._sent = 0
        self._start()

    async def close(self) -> None:
        """Wait until everything is sent. Raises what sending it raised."""
        if self._sending is not None:
            await self._sending
        self.abandon()

    def abandon(self) -> None:
        """Stop sending: the request is answered, or nobody waits for it any more."""
        self._ctx = None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def add(self, text: str) -> None:
        """Take more output; of what the client is too slow for, the end is kept."""
        self._waiting = (self._waiting + text)[-_KEPT_CHARACTERS:]
        self._start()

    def relay(self, progress: float, total: float | None, message: str | None) -> None:
        """Take an inner call's progress."""
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        self.add(f"[{share}{' ' + message[:200] if message else ''}]\n")

    def _start(self) -> None:
        if self._ctx is not None and self._waiting and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send(self._ctx))

    async def _send(self, ctx: Context) -> None:
        while self._waiting:
            text, self._waiting = self._waiting, ""
            self._sent += 1
            await ctx.session.report_progress(float(self._sent), None, text)
