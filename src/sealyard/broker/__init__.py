"""The only road from sandboxed code to a tool.

`upstream.py` holds the connections to MCP servers; it, the files named `upstream_*` and `transport.py` are the only
client-side use of the MCP SDK. `answers.py` turns what a server sends into plain data.
"""

__all__ = ()
