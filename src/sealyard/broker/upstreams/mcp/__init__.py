"""Connections to MCP servers: child processes, streamable HTTP and server-sent events, on the MCP SDK.

`Upstream` is one server as the broker sees it, `Dormant` one that nothing has needed yet. The other names are for the
relay and for standard input, which speak the protocol themselves. All are imported on first use: standard input needs
no client of servers.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.broker.upstreams.mcp.connection import Transport, open_transport
    from sealyard.broker.upstreams.mcp.dormant import Dormant
    from sealyard.broker.upstreams.mcp.session import definition_of
    from sealyard.broker.upstreams.mcp.transport import Kept, edge_id, whole_message
    from sealyard.broker.upstreams.mcp.upstream import Upstream

__all__ = (
    "Dormant",
    "Kept",
    "Transport",
    "Upstream",
    "definition_of",
    "edge_id",
    "open_transport",
    "whole_message",
)

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        connection="Transport open_transport",
        dormant="Dormant",
        session="definition_of",
        transport="Kept edge_id whole_message",
        upstream="Upstream",
    )
