"""The surfaces: MCP over stdio and streamable HTTP. Wire in, wire out; decisions are made below.

Names are imported on first use: helper processes import `serve.relay.concealment` and do without the MCP SDK.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.serve.http import default_preset, open_http
    from sealyard.serve.logs import ConcealingFilter, filter_log
    from sealyard.serve.mcp import build_server
    from sealyard.serve.modes import Modes
    from sealyard.serve.stdio import serve_stdio

__all__ = (
    "ConcealingFilter",
    "Modes",
    "build_server",
    "default_preset",
    "filter_log",
    "open_http",
    "serve_stdio",
)

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        http="default_preset open_http",
        logs="ConcealingFilter filter_log",
        mcp="build_server",
        modes="Modes",
        stdio="serve_stdio",
    )
