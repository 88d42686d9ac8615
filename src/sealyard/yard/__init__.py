"""The request path: from an agent's request to a bounded result. `open_yard` builds every part."""

from sealyard.yard.analysis import AnalyzeRequest
from sealyard.yard.assembly import open_yard
from sealyard.yard.executions import ExecuteRequest
from sealyard.yard.yard import Yard

__all__ = ("AnalyzeRequest", "ExecuteRequest", "Yard", "open_yard")
