"""Executions as `/api/v1` shows them, from the journal and, while they run, from memory."""

import contextlib
from typing import Any, Literal

import msgspec

from sealyard.errors import UnknownExecution
from sealyard.observe.live import LiveEvent
from sealyard.values import CallRecord, ExecutionRecord, Failure, RecordStatus, Result, Usage
from sealyard.yard import AnalyzeRequest, Yard
from sealyard.yard.analysis import analysis_run

_ANALYSIS_CODE = analysis_run(AnalyzeRequest(analysis_type="filter", data=[]), result_tokens=1).code
_REPLAYED_CHARACTERS = 64 << 10


class FailureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run did not end well."""

    type: str
    message: str


class ExecutionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One execution in a list."""

    execution_id: str
    principal: str
    session: str
    """The name of its workspace."""
    form: Literal["code", "analysis", "call"]
    """`call`: one tool, without code."""
    status: RecordStatus
    started_at: float
    """Seconds since the epoch."""
    ended_at: float | None
    seconds: float | None
    background: bool
    calls: int
    code_characters: int
    waiting: int
    """Its calls that wait for a person."""
    queued: bool
    """Whether it waits for its turn to run. Its status is `running` all the same."""
    failure: FailureSummary | None


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Executions, the newest first."""

    executions: list[ExecutionSummary]
    next_cursor: str | None


class RunUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a run cost."""

    wall_seconds: float
    cpu_seconds: float | None
    memory_peak_bytes: int | None
    output_bytes: int
    tool_calls: int


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person."""

    id: str
    tool: str


class ExecutionView(ExecutionSummary, frozen=True, kw_only=True):
    """One execution. Everything in it is concealed."""

    code: str
    context: Any
    text: str | None
    """What the agent was sent, while the gateway remembers it."""
    result: Any
    """A preview of it if `file` is set."""
    output: str
    """What it printed; while it runs, the end of that so far."""
    file: str | None
    """Where the whole result is, for the next run of the same session."""
    details: Failure | None
    notes: list[str]
    usage: RunUsage | None
    tier: str | None
    level: str | None
    asks: list[WaitingCall]


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an execution. Arguments and answers that are too long for the journal are null."""

    number: int
    tool: str
    upstream: str
    version: str
    arguments: Any
    answer: Any
    error: str | None
    started_at: float
    seconds: float
    answer_bytes: int


class CallPage(msgspec.Struct, frozen=True, kw_only=True):
    """Calls in their order. One that is not over yet is not among them."""

    calls: list[CallView]
    next_cursor: str | None


def summary_of(record: ExecutionRecord) -> ExecutionSummary:
    """An execution in a list, as the journal knows it."""
    outcome = record.outcome
    failure = None if outcome is None else outcome.failure
    return ExecutionSummary(
        execution_id=record.execution_id,
        principal=record.principal,
        session=record.session.partition(":")[2],
        form="call" if not record.code else "analysis" if record.code == _ANALYSIS_CODE else "code",
        status=record.status,
        started_at=record.started_at,
        ended_at=record.ended_at,
        seconds=None if record.ended_at is None else max(0.0, record.ended_at - record.started_at),
        background=record.background,
        calls=0 if outcome is None else outcome.usage.tool_calls,
        code_characters=len(record.code),
        waiting=0,
        queued=False,
        failure=None if failure is None else FailureSummary(type=failure.type, message=failure.message),
    )


def as_it_stands(yard: Yard, summary: ExecutionSummary) -> ExecutionSummary:
    """The same with what this gateway knows of one that runs."""
    watched = yard.live.find(summary.execution_id)
    if watched is None:
        return summary
    waiting = len(yard.approvals.open_asks(summary.execution_id))
    return msgspec.structs.replace(summary, calls=watched.calls, waiting=waiting, queued=watched.queued)


def view_of(yard: Yard, record: ExecutionRecord, result: Result | None = None) -> ExecutionView:
    """All of an execution; `result` is what the agent was sent, if that is known."""
    outcome = record.outcome
    output = "" if outcome is None else outcome.output
    with contextlib.suppress(UnknownExecution):
        state = yard.executions.state(record.execution_id, principal=record.principal)
        result = result or state.result
        output = state.output if record.status == "running" else output
    return ExecutionView(
        **msgspec.structs.asdict(as_it_stands(yard, summary_of(record))),
        code=record.code,
        context=record.context,
        text=None if result is None else result.text,
        result=None if outcome is None else outcome.result,
        output=output,
        file=None if outcome is None or outcome.spill is None else outcome.spill.path,
        details=None if outcome is None else outcome.failure,
        notes=[] if outcome is None else list(outcome.notes),
        usage=None if outcome is None else _usage(outcome.usage),
        tier=None if outcome is None else outcome.tier,
        level=None if outcome is None else outcome.level,
        asks=[WaitingCall(id=ask.id, tool=ask.tool) for ask in yard.approvals.open_asks(record.execution_id)],
    )


def to_call_view(call: CallRecord) -> CallView:
    """A call as it is shown."""
    return CallView(**{name: getattr(call, name) for name in CallView.__struct_fields__})


def replayed(record: ExecutionRecord, calls: list[CallRecord]) -> list[LiveEvent]:
    """What the journal knows of an execution, as the events that it was. The output comes in one piece at its end."""
    summary = summary_of(record)
    told: list[LiveEvent] = []

    def tell(kind: Any, at: float, **body: Any) -> None:
        told.append(
            LiveEvent(
                number=len(told) + 1,
                at=at,
                kind=kind,
                execution_id=record.execution_id,
                principal=record.principal,
                body=body,
            )
        )

    tell(
        "started",
        record.started_at,
        form=summary.form,
        session=summary.session,
        background=record.background,
        code_characters=len(record.code),
    )
    for call in calls:
        tell("call", call.started_at, number=call.number, tool=call.tool)
        body = {"number": call.number, "tool": call.tool, "seconds": call.seconds, "bytes": call.answer_bytes}
        error = {} if call.error is None else {"error": call.error.partition(":")[0]}
        tell("called", call.started_at + call.seconds, **body, **error)
    if record.ended_at is not None:
        outcome = record.outcome
        if outcome is not None and outcome.output:
            tell("output", record.ended_at, text=outcome.output[-_REPLAYED_CHARACTERS:])
        ended: dict[str, Any] = {"status": record.status, "seconds": summary.seconds}
        if outcome is not None and outcome.failure is not None:
            failure = outcome.failure
            ended["failure"] = {"type": failure.type, "message": failure.message, "line": failure.line}
        tell("ended", record.ended_at, **ended)
    return told


def _usage(usage: Usage) -> RunUsage:
    return RunUsage(**{name: getattr(usage, name) for name in RunUsage.__struct_fields__})
