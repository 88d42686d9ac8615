"""Sources of tools, and their answers. Each kind is a package with a class that is a `ToolServer`: `mcp`, `python`.

Helper processes read answers, so nothing here imports the MCP SDK.
"""

from sealyard.broker.upstreams.server import (
    OnProgress,
    OnTools,
    Progress,
    Response,
    ResponseFile,
    ToolServer,
    check_sendable,
    decode_answer,
)

__all__ = (
    "OnProgress",
    "OnTools",
    "Progress",
    "Response",
    "ResponseFile",
    "ToolServer",
    "check_sendable",
    "decode_answer",
)
