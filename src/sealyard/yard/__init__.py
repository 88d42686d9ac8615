"""The request path: from an agent's request to a bounded result. `open_yard` builds every part."""

from sealyard.yard.assembly import build_policy, build_privacy, open_border, open_yard
from sealyard.yard.code_run import AnalyzeRequest
from sealyard.yard.executions import ExecuteRequest
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
