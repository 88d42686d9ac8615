"""The request path: from an agent's request to a bounded result. `open_yard` builds every part.

Names are imported on first use: requests are read, and tools listed, before the parts of the yard are imported.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.yard.assembly import open_border
    from sealyard.yard.executions import AnalyzeRequest, ExecuteRequest
    from sealyard.yard.isolation import build_policy
    from sealyard.yard.opening import build_privacy, open_yard
    from sealyard.yard.yard import Border, Yard

__all__ = (
    "AnalyzeRequest",
    "Border",
    "ExecuteRequest",
    "Yard",
    "build_policy",
    "build_privacy",
    "open_border",
    "open_yard",
)

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        assembly="open_border",
        executions="AnalyzeRequest ExecuteRequest",
        isolation="build_policy",
        opening="build_privacy open_yard",
        yard="Border Yard",
    )
