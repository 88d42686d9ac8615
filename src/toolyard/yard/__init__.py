"""The request path: from an agent's request to a bounded result. `open_yard` builds every part."""

from toolyard.yard.analyzing import AnalyzeRequest
from toolyard.yard.executions import ExecuteRequest
from toolyard.yard.opening import open_yard
from toolyard.yard.yard import Yard

__all__ = ("AnalyzeRequest", "ExecuteRequest", "Yard", "open_yard")
