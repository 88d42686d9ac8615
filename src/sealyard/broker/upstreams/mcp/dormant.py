"""An MCP server that nothing has needed yet.

It stands in the place of an `Upstream` until the first listing or call, and imports nothing of the MCP SDK: that takes
longer than most commands, which need the remembered tools of servers and none of the servers.
"""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sealyard.broker.upstreams.server import OnProgress, OnTools, Response, ToolServer
from sealyard.errors import UpstreamUnavailable
from sealyard.values.access import Grant
from sealyard.values.tools import UpstreamConfig, UpstreamStatus

if TYPE_CHECKING:
    from sealyard.broker.upstreams.mcp.upstream import Upstream


class Dormant:
    """Becomes an `Upstream` of the same config when it is needed, and gives it its place among `servers`."""

    def __init__(
        self,
        config: UpstreamConfig,
        servers: MutableMapping[str, ToolServer],
        *,
        on_tools: OnTools | None,
        token_folder: Path | None,
    ) -> None:
        self.config = config
        self.on_tools = on_tools
        self._servers = servers
        self._token_folder = token_folder
        self._waking = asyncio.Lock()
        self._upstream: Upstream | None = None
        self._is_closed = False

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        unwrap: bool = False,
        grant: Grant | None = None,
    ) -> Response:
        """Call a tool as an `Upstream` does."""
        upstream = await self._wake()
        return await upstream.call(
            tool, arguments, timeout_seconds=timeout_seconds, on_progress=on_progress, unwrap=unwrap, grant=grant
        )

    async def refresh(self) -> None:
        """List the tools as an `Upstream` does."""
        await (await self._wake()).refresh()

    def status(self) -> UpstreamStatus:
        """Its current state."""
        if self._upstream is not None:
            return self._upstream.status()
        return UpstreamStatus(name=self.config.name, transport=self.config.transport, state="stopped")

    async def close(self) -> None:
        """Stop it for good."""
        async with self._waking:
            self._is_closed = True
        if self._upstream is not None:
            await self._upstream.close()

    async def _wake(self) -> "Upstream":
        async with self._waking:
            if self._is_closed:
                raise UpstreamUnavailable(f"{self.config.name!r} was closed.")
            if self._upstream is None:
                kind = await asyncio.to_thread(_find_upstream)
                self._upstream = kind(self.config, on_tools=self.on_tools, token_folder=self._token_folder)
                self._servers[self.config.name] = self._upstream
        return self._upstream


def _find_upstream() -> "type[Upstream]":
    from sealyard.broker.upstreams.mcp.upstream import Upstream  # noqa: PLC0415 - see the top of this file

    return Upstream
