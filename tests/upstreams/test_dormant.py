"""A server that nothing has needed yet is a server like any other, once something does."""

import asyncio
from typing import Any

import pytest
from tests import warm

from sealyard.broker.upstreams import ToolServer
from sealyard.broker.upstreams.mcp import Dormant, Upstream
from sealyard.errors import UpstreamUnavailable
from sealyard.values.tools import Definition, UpstreamConfig


class Sleeping:
    """A dormant server among the servers of a gateway, and what it has listed."""

    def __init__(self, command: list[str]) -> None:
        self.servers: dict[str, ToolServer] = {}
        self.listed: list[str] = []
        config = UpstreamConfig(name="expenses", transport="stdio", command=command[0], args=tuple(command[1:]))
        self.dormant = Dormant(config, self.servers, on_tools=self._take, token_folder=None)
        self.servers["expenses"] = self.dormant

    async def _take(self, upstream: str, definitions: list[Definition]) -> None:
        self.listed = [each.name for each in definitions]


@pytest.fixture
def sleeping() -> Sleeping:
    """An example server."""
    return Sleeping(warm.python("-m", "sealyard.examples.expenses"))


async def test_a_listing_wakes_it_and_gives_its_place_away(sleeping: Sleeping) -> None:
    """The next call takes the shorter way."""
    before = sleeping.dormant.status()
    await sleeping.dormant.refresh()
    awake = sleeping.servers["expenses"]
    try:
        assert (before.name, before.transport, before.state) == ("expenses", "stdio", "stopped")
        assert "list_expenses" in sleeping.listed
        assert isinstance(awake, Upstream)
        assert sleeping.dormant.status() == awake.status()
    finally:
        await awake.close()


async def test_calls_at_once_wake_one_server(sleeping: Sleeping) -> None:
    """None starts a second process, and each gets its own answer."""
    calls = [sleeping.dormant.call("list_employees", {}) for _ in range(5)]
    answers: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    try:
        assert [type(each).__name__ for each in answers] == ["Response"] * 5
        assert sleeping.servers["expenses"].status().calls == 5
    finally:
        await sleeping.dormant.close()


async def test_a_closed_one_does_not_wake(sleeping: Sleeping) -> None:
    """A gateway that ends starts no server any more."""
    await sleeping.dormant.close()

    with pytest.raises(UpstreamUnavailable, match=r"^'expenses' was closed\.$"):
        await sleeping.dormant.refresh()
    assert sleeping.servers == {"expenses": sleeping.dormant}


async def test_closing_while_it_wakes_leaves_no_server(sleeping: Sleeping) -> None:
    """Whichever is first, nothing runs afterwards."""
    waking = asyncio.create_task(sleeping.dormant.refresh())
    await asyncio.sleep(0)
    await sleeping.dormant.close()
    await asyncio.wait({waking})

    assert isinstance(waking.exception(), UpstreamUnavailable)
    assert sleeping.dormant.status().state == "stopped"
