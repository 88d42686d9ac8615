"""The only road from sandboxed code to a tool.

`upstreams/` holds the connections to the servers that offer tools; `upstreams/mcp/` is the only client-side use of the
MCP SDK. `answers.py` turns what a server sends into plain data.
"""

__all__ = ()
