"""Runs a command's coroutine so that a signal ends it in order: what it opened is closed before the process exits.

It needs the standard library alone: a gateway without the packages of the command line can end like this, too.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def run_to_end(main: Coroutine[Any, Any, _T]) -> _T:
    """Run `main` and return its value. SIGTERM cancels it, then exits with 143; Ctrl-C raises `KeyboardInterrupt`."""
    terminated = False

    async def cancellable() -> _T:
        task = asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal terminated
            if not terminated:  # a second one must not interrupt the closing that the first one began
                terminated = True
                task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await main

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if terminated:
            sys.exit(128 + signal.SIGTERM)
        raise
