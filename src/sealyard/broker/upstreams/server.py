"""A server that offers tools: the protocol of every kind of it, and the parts that all kinds share."""

import asyncio
import inspect
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from sealyard.broker.upstreams.responses import Response
from sealyard.errors import InvalidArguments
from sealyard.values.tools import Definition, UpstreamStatus

_log = logging.getLogger(__name__)

_KEPT_PROGRESS = 64  # reports that wait for their listener; older ones are dropped
_PROGRESS_CHARACTERS = 1_000  # of a report's message
_LAST_PROGRESS_SECONDS = 1.0  # for the last reports after the answer

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Progress so far, its total if known, and a message."""
OnTools = Callable[[str, list[Definition]], Awaitable[None]]
"""Gets an upstream's name and all its tools."""


class ToolServer(Protocol):
    """Something that answers calls: an `Upstream` of each kind, and `testing.FakeUpstream` without any process."""

    on_tools: OnTools | None
    """Called with its name and its tools after each listing."""

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
    ) -> Response:
        """The tool's answer. Raises an `UpstreamError`."""
        ...

    async def refresh(self) -> None:
        """Connect if need be and list the tools anew; they arrive through the callback given at construction."""
        ...

    def status(self) -> UpstreamStatus:
        """The upstream's current state."""
        ...

    async def close(self) -> None:
        """Stop it and leave nothing behind."""
        ...


class Progress:
    """Hands a call's progress to a callback, one after the other. If the callback is too slow, the oldest goes."""

    def __init__(self, callback: Callable[[float, float | None, str | None], Awaitable[None] | None]) -> None:
        self._callback = callback
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=_KEPT_PROGRESS)
        self._task: asyncio.Task[None] | None = None

    def push(self, progress: Any, total: Any, message: Any) -> None:
        """Take in a notification; an invalid one is dropped."""
        if not _is_number(progress):
            return
        said = message[:_PROGRESS_CHARACTERS] if isinstance(message, str) else None
        self._waiting.append((float(progress), float(total) if _is_number(total) else None, said))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._hand_over())

    async def receive(self, progress: float, total: float | None, message: str | None) -> None:
        """`push` in the form the SDK asks for."""
        self.push(progress, total, message)

    async def finish(self) -> None:
        """Wait, for a bounded time, until the callback has received everything."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_LAST_PROGRESS_SECONDS)
            self.stop()

    def stop(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()

    async def _hand_over(self) -> None:
        while self._waiting:
            try:
                given = self._callback(*self._waiting.popleft())
                if inspect.isawaitable(given):
                    await given
            except Exception:  # noqa: BLE001 - the caller's own callback; the call goes on without it
                _log.exception("A progress callback failed.")
                return


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def check_sendable(tool: str, arguments: dict[str, Any]) -> None:
    """Refuse values that are not JSON before they reach the SDK, where they would end the connection."""
    try:
        # msgspec writes NaN as `null` without an error.
        if b"null" in msgspec.json.encode(arguments):
            json.dumps(arguments, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArguments(f"The arguments of {tool!r} cannot be written as JSON: {error}.") from error
