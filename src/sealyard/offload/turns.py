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

_spent: "WeakKeyDictionary[asyncio.AbstractEventLoop, float]" = WeakKeyDictionary()
"""The seconds of short work since an event loop began a pass; a loop without any is absent."""


@asynccontextmanager
async def short_work() -> AsyncIterator[None]:
    """Do short work on this loop: at once, unless this pass has had enough of it. Nothing in it may be awaited."""
    loop = asyncio.get_running_loop()
    while _spent.get(loop, 0.0) > _TURN_SECONDS:  # noqa: ASYNC110 - the next pass comes by itself
        await asyncio.sleep(0)
    started = time.perf_counter()
    try:
        yield
    finally:
        if loop not in _spent:
            loop.call_soon(_spent.pop, loop, None)
        _spent[loop] = _spent.get(loop, 0.0) + time.perf_counter() - started
