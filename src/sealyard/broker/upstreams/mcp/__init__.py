"""Connections to MCP servers: child processes, streamable HTTP and server-sent events, on the MCP SDK."""

__all__ = ()
