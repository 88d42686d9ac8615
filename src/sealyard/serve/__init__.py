"""The surfaces: MCP over stdio and streamable HTTP. Wire in, wire out; decisions are made below."""

__all__ = ()
