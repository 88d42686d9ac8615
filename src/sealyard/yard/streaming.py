"""Output on its way out while code runs, with nothing private in it.

Nothing is looked through for nobody: what is printed is kept back until somebody listens.
"""

import asyncio
from functools import partial
from types import TracebackType
from typing import Self

from sealyard.privacy.guard import Guard
from sealyard.privacy.stream import ConcealedStream
from sealyard.sandbox.worker import OnOutput

__all__ = ("OutputStream",)

_QUIET_SECONDS = 0.2  # after which a line that may still go on is taken for complete
_TOLD_CHARACTERS = 256 << 10
"""At once: of what was printed before anybody listened, the end."""


class OutputStream:
    """Passes output on to its listeners, concealed. `add` is what the sandbox is given."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._listeners: list[OnOutput] = []
        self._kept: list[str] = []
        """All of it, and no copy: the sandbox has it too. The second half of something private is not known alone."""
        self._is_open = False
        self._is_over = False
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
            self._passing = asyncio.create_task(_pass_on(self._pieces, self._guard.stream(), self._tell))
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
                await self._passing
        finally:
            self._passing.cancel()
            await asyncio.wait({self._passing})

    def _tell(self, text: str) -> None:
        for listener in self._listeners:
            listener(text[-_TOLD_CHARACTERS:])


async def _pass_on(pieces: "asyncio.Queue[str | None]", stream: ConcealedStream, listen: OnOutput) -> None:
    """Conceal pieces until there is a None. It is done in a thread: code that prints a lot holds up only itself."""
    piece: str | None = ""
    is_new = False
    while piece is not None:
        try:
            async with asyncio.timeout(_QUIET_SECONDS if is_new else None):
                piece = await pieces.get()
        except TimeoutError:
            is_new = False
            text = await asyncio.to_thread(stream.flush)
        else:
            is_new = True
            text = await asyncio.to_thread(stream.close if piece is None else partial(stream.add, piece))
        if text:
            listen(text)
