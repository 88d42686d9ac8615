"""Short work on the event loop, a little at a time.

A worker may send sixty calls in one read. Each of them costs some milliseconds at most, but all of them would run
before anything else has a turn.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

_TURN_SECONDS = 0.005
"""In one pass of the event loop: a tenth of the longest time that anybody may hold it."""

_passes: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Pass]" = WeakKeyDictionary()


class _Pass:
    """The time spent since the event loop last began a pass."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.is_counting = False

    def begin(self) -> None:
        self.spent = 0.0
        self.is_counting = False


@asynccontextmanager
async def short_work() -> AsyncIterator[None]:
    """Do short work on this loop: at once, unless this pass has had enough of it. Nothing in it may be awaited."""
    while _pass().spent > _TURN_SECONDS:  # noqa: ASYNC110 - the next pass comes by itself
        await asyncio.sleep(0)
    started = time.perf_counter()
    try:
        yield
    finally:
        current = _pass()
        current.spent += time.perf_counter() - started
        if not current.is_counting:
            current.is_counting = True
            asyncio.get_running_loop().call_soon(current.begin)


def _pass() -> _Pass:
    loop = asyncio.get_running_loop()
    current = _passes.get(loop)
    if current is None:
        current = _passes[loop] = _Pass()
    return current
