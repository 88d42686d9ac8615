"""Python functions of this process as tools, without a server.

`Functions` is the upstream. `tool`, `CallContext` and `report_progress` are for the functions' author, who imports them
from `sealyard`. All are imported on first use, since most gateways have no such upstream, and a module of functions
must not pay for the gateway.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.broker.upstreams.python.author import CallContext, Mark, report_progress, tool
    from sealyard.broker.upstreams.python.description import FunctionTool, describe
    from sealyard.broker.upstreams.python.functions import Functions

__all__ = ("CallContext", "FunctionTool", "Functions", "Mark", "describe", "report_progress", "tool")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        author="CallContext Mark report_progress tool",
        description="FunctionTool describe",
        functions="Functions",
    )
