"""Output on its way out while code runs, with nothing private in it.

Output is scanned only for a listener: until one arrives, it is held back.
"""

import asyncio
from types import TracebackType
from typing import Self

from sealyard.errors import HelperFailed
from sealyard.privacy import Guard
from sealyard.sandbox.worker import OnOutput

_QUIET_SECONDS = 0.2  # after which a line that may still go on is taken for complete
_TOLD_CHARACTERS = 256 << 10
"""At once: the last part of what was printed before anyone listened."""


class OutputStream:
    """Passes output on to its listeners, concealed. `add` is what the sandbox is given."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._listeners: list[OnOutput] = []
        self._kept: list[str] = []
        """All of it, and no copy: the sandbox has it too. The second half of something private is not known alone."""
        self._is_open = False
        self._is_over = False
        self.last_seconds: float | None = None
        """For what was printed last to be passed on once the run is over; what is not by then is in its result."""
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._passing: asyncio.Task[None] | None = None

    def listen(self, listener: OnOutput) -> None:
        """Pass on to `listener` too, from here on."""
        self._listeners.append(listener)

    def open(self) -> None:
        """Somebody listens now: let out what was kept back, and all that comes."""
        if self._is_open or self._is_over or not self._listeners:
            return
        self._is_open = True
        kept = "".join(self._kept)
        self._kept.clear()
        if kept:
            self.add(kept)

    def add(self, text: str) -> None:
        """The code printed something."""
        if not self._is_open:
            self._kept.append(text)
            return
        if self._guard.is_off:
            self._tell(text)
            return
        if self._passing is None:  # not before: what prints nothing is not waited for
            self._passing = asyncio.create_task(_pass_on(self._pieces, self._guard, self._tell))
        self._pieces.put_nowait(text)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if self._passing is None:
            return
        try:
            if kind is None:
                self._pieces.put_nowait(None)
                await asyncio.wait({self._passing}, timeout=self.last_seconds)
                if self._passing.done():
                    await self._passing
        finally:
            self._passing.cancel()
            await asyncio.wait({self._passing})

    def _tell(self, text: str) -> None:
        for listener in self._listeners:
            listener(text[-_TOLD_CHARACTERS:])


async def _pass_on(pieces: "asyncio.Queue[str | None]", guard: Guard, listen: OnOutput) -> None:
    """Conceal pieces until there is a None, or until they cannot be looked through: the run's result has them too."""
    stream, door = guard.stream(), guard.door
    piece: str | None = ""
    is_new = False
    while piece is not None:
        try:
            async with asyncio.timeout(_QUIET_SECONDS if is_new else None):
                piece = await pieces.get()
        except TimeoutError:
            is_new = False
            search = stream.flushing()
        else:
            is_new = True
            search = stream.closing() if piece is None else stream.adding(piece)
        try:
            text = await door.search(search)
        except HelperFailed:
            return
        if text:
            listen(text)
