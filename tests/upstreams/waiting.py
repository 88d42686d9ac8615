"""Waiting for what no event tells, and looks at what an upstream knows."""

import asyncio
from collections.abc import Callable

from sealyard.broker.upstreams.mcp import Upstream
from sealyard.values.tools import Definition


async def until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, a minute at most."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is about processes and other tasks' state
            await asyncio.sleep(0.005)


async def until_ended(upstream: Upstream) -> None:
    """Wait until the upstream's connection is gone with all that belongs to it."""
    async with asyncio.timeout(60):
        await asyncio.wait(upstream._life._owners)


async def until_in_flight(upstream: Upstream, calls: int) -> None:
    """Wait until so many calls have been sent and not answered."""
    await until(lambda: upstream._life.connection is not None and upstream._life.connection.in_flight >= calls)


async def listed(upstream: Upstream) -> list[Definition]:
    """The tools that the upstream lists now."""
    await upstream.refresh()
    return upstream._definitions or []


async def is_alive(upstream: Upstream) -> bool:
    """Whether the upstream answers a sign of life."""
    return await upstream._is_alive(await upstream._life.connected())
