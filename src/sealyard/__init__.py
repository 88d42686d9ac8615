"""One MCP server in front of all your MCP servers: agents search for tools and use them from sandboxed Python.

Imports run downward only: cli > examples > serve > testing > yard > learning > skills > observe > access > config >
broker | sandbox | discovery | analysis > catalog > store > privacy | versioning | metrics > code | offload > values >
doors | former | signing | wording > disk | errors (`make check` proves it). This module imports nothing heavy, so
`sealyard --help` starts at once. Import the library from `sealyard.yard`. The other names here are for the authors of
functions that are tools, and are imported on first use.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door
from sealyard.errors import SealyardError

if TYPE_CHECKING:
    from sealyard.broker.upstreams import Response, ResponseFile
    from sealyard.broker.upstreams.python import CallContext, report_progress, tool

__all__ = ("CallContext", "Response", "ResponseFile", "SealyardError", "__version__", "report_progress", "tool")

__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        **{
            "broker.upstreams": "Response ResponseFile",
            "broker.upstreams.python": "CallContext report_progress tool",
        },
    )
