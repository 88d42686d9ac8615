"""Connections to tool servers, one package per kind; today MCP servers.

`Upstream` is one server as the broker sees it. The other names are for the relay and for standard input, which speak
the protocol themselves.
"""

from sealyard.broker.upstreams.mcp.connection import Transport, transports
from sealyard.broker.upstreams.mcp.session import definition_of
from sealyard.broker.upstreams.mcp.transport import Kept, edge_id, whole_message
from sealyard.broker.upstreams.mcp.upstream import Upstream

__all__ = ("Kept", "Transport", "Upstream", "definition_of", "edge_id", "transports", "whole_message")
