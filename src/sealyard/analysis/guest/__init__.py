"""Filter, aggregate, transform, validate and describe rows without code: the engine inside the sandbox.

Standard library only, DuckDB where it is installed and the input is large, and SciPy for hypothesis tests. No part of a
request is ever run as code: `steps` reads parameters into the steps of a `plan` and carries them out. A request or a
row that does not fit raises `AnalysisError`, wherever it is noticed.
"""

import gc
from collections.abc import Callable
from typing import Any

from .errors import AnalysisError, quoted
from .parameters import as_count, as_object, as_word, path_to
from .plan import Limits, Row
from .sources import CallTool, parse_source, read_rows
from .steps import Planned, run_plan
from .summaries import run_statistics
from .validation import run_validation

__all__ = ("AnalysisError", "run")

_PLANNED: dict[str, Planned] = {"filter": "filter", "aggregate": "aggregate", "transform": "transform"}
_REPORTS: dict[str, Callable[[dict[str, Any], list[Row], Limits], dict[str, Any]]] = {
    "validate": lambda parameters, rows, _: run_validation(parameters, rows),
    "statistics": run_statistics,
}
_TYPES = (*_PLANNED, *_REPORTS)


def run(request: dict[str, Any], call_tool: CallTool) -> dict[str, Any]:
    """The answer of an analysis, as JSON values; `call_tool` takes a tool's full name and its arguments.

    Raises:
        AnalysisError: The request is wrong; the message names the parameter, what was expected and the nearest name.
    """
    collects = gc.isenabled()
    gc.disable()  # rows hold no cycles, and searching all of them takes longer than most analyses
    try:
        return _run(request, call_tool)
    except RecursionError:
        raise AnalysisError("The rows are nested too deeply. Give rows whose objects are less deep.") from None
    finally:
        if collects:
            gc.enable()


def _run(request: dict[str, Any], call_tool: CallTool) -> dict[str, Any]:
    given = as_object(request, "", ("analysis_type", "data", "source", "parameters", "limits"))
    kind = as_word(given.get("analysis_type"), "analysis_type", {word: word for word in _TYPES})
    parameters = given.get("parameters")
    if not isinstance(parameters, dict | None):
        raise AnalysisError(f"parameters is {quoted(parameters)}. Give an object of the parameters by their names.")
    parameters = dict(parameters or {})
    source = parse_source(given, "", parameters.pop("data_field", None))
    bounds = as_object({} if given.get("limits") is None else given["limits"], "limits", ("rows", "bytes"))
    limits = Limits(
        **{key: as_count(value, path_to("limits", key)) for key, value in bounds.items() if value is not None}
    )
    if kind in _REPORTS:
        return _REPORTS[kind](parameters, read_rows(source, call_tool), limits)
    return run_plan(_PLANNED[kind], parameters, source, limits, call_tool)
