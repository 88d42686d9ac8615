"""Analysis without code: a request becomes a run of our own program in the sandbox, with the request as its data.

Nothing of the request is ever text of the program. The engine is `sealyard.analysis.guest`, which the sandbox knows as
`sealyard_analysis`.
"""

from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.values.runs import Failure, Outcome
from sealyard.wording import suggest
from sealyard.yard.executions import ExecuteRequest

_TYPES = ("filter", "aggregate", "transform", "validate", "statistics")
_ROWS = 100  # in the answer of one analysis
_BYTES_PER_TOKEN = 2.5
"""Of rows as JSON, at least. Longer rows would not fit the token budget of the answer."""

_CODE = """\
from sealyard_analysis import run
result = run(request, call_tool)
"""


class AnalyzeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question about some rows."""

    analysis_type: str
    """`filter`, `aggregate`, `transform`, `validate` or `statistics`."""
    data: Any = None
    """The rows."""
    source: dict[str, Any] | None = None
    """The place of the rows, without `data`: `{"workspace": path}`, or `{"tool": name, "arguments": {…}}`."""
    parameters: dict[str, Any] = {}
    session: str | None = None
    timeout_seconds: float | None = None


def analysis_run(request: AnalyzeRequest, *, result_tokens: int) -> ExecuteRequest:
    """The run that answers the request. Raises `InvalidRequest` for faults that show without the rows."""
    if request.analysis_type not in _TYPES:
        hint = suggest(request.analysis_type, _TYPES, f"Use {', '.join(_TYPES)}.")
        raise InvalidRequest(f"analysis_type is {request.analysis_type[:100]!r}. {hint}")
    if (request.data is None) == (request.source is None):
        raise InvalidRequest(
            "Give either data or source, not both: the rows in data, or source = "
            '{"workspace": path} or {"tool": name, "arguments": {…}}.'
        )
    asked: dict[str, Any] = {
        "analysis_type": request.analysis_type,
        "parameters": request.parameters,
        "limits": {"rows": _ROWS, "bytes": int(result_tokens * _BYTES_PER_TOKEN)},
    }
    if request.source is not None:
        asked["source"] = request.source
    else:
        asked["data"] = request.data
    return ExecuteRequest(
        code=_CODE,
        context={"request": asked},
        session=request.session,
        timeout_seconds=request.timeout_seconds,
        form="analysis",
    )


def written(request: ExecuteRequest) -> str:
    """The text that the agent wrote for this run: its code and context, or its request for an analysis.

    Raises:
        InvalidRequest: The context is not JSON.
    """
    context = request.context
    if not context:
        return request.code
    if request.form == "analysis":
        return as_json({name: value for name, value in context["request"].items() if name != "limits"}, "request")
    return f"{request.code}\n{as_json(context, 'context')}"


def as_json(value: Any, name: str) -> str:
    """The value given as `name`, as JSON. Raises `InvalidRequest`."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The {name} must be JSON data: {error}.") from None


def without_code_details(outcome: Outcome) -> Outcome:
    """The outcome of an analysis without the details that help only an author of code."""
    failure = outcome.failure
    if failure is None:
        return outcome
    bare = Failure(kind=failure.kind, type=failure.type, message=failure.message, hint=_hint(failure))
    return msgspec.structs.replace(outcome, failure=bare)


def _hint(failure: Failure) -> str | None:
    """Most hints are about code; only those on limits apply to an analysis."""
    limits = ("wall_time", "cpu_time", "memory", "workspace")
    return "Filter earlier, or work on fewer rows or columns." if failure.kind in limits else None
