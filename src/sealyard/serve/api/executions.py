"""`/api/v1/executions`, `/api/v1/analyses` and `/api/v1/events`: run, look, follow, cancel.

An execution is shown from the journal and, while it runs, from memory. A reader of events may be slow, vanish and come
back. It has a bounded queue in `Live`; events that do not fit are dropped, and `lagged` says so. The stream is a
generator in the request's own task: when that ends, nothing is left behind.
"""

import asyncio
import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sealyard.config.settings import Level
from sealyard.errors import UnknownExecution
from sealyard.serve.api.declare import Call, Cursor, Events, Limit, Reply, endpoint, from_cursor, page_of, view_of
from sealyard.serve.api.exchange import while_connected
from sealyard.serve.envelope import Refusal
from sealyard.serve.gate import gate_of
from sealyard.values.runs import (
    MAX_SECONDS,
    ExecutionRecord,
    Failure,
    Form,
    LiveEvent,
    LiveKind,
    RecordStatus,
    Result,
    Usage,
)
from sealyard.yard import AnalyzeRequest, ExecuteRequest, Yard

_FORMS: dict[Form, Literal["code", "analysis", "call"]] = {
    "code": "code",
    "analysis": "analysis",
    "call": "call",
    "rehearsal": "code",
    "proxy": "call",
}
_Seconds = Annotated[float, Meta(ge=1, le=MAX_SECONDS)]
_Session = Annotated[str, Meta(max_length=50)]
KEEP_ALIVE_SECONDS = 15.0
"""Proxies close a stream that is quiet for longer than 30 to 60 s."""
_RETRY_MS = 2_000  # a browser connects again after this time
_WORD = secrets.token_hex(4)
"""In the ids of events, so that an id of an earlier gateway is recognized."""
_PAST_CALLS = 2_000  # more than a run of two minutes makes in practice
_PAST_CHARACTERS = 64 << 10  # of the output of a run that is over: as much as a live reader gets at its end
_ENDED = "ended"
"""The id of the event that ends an execution, in the stream of that execution."""
_KEY = re.compile(r"[!-~]{1,200}")
_KEY_MEANING = (
    "1 to 200 printable characters without spaces. The same key and body within a day mean the execution that the "
    "first request started, in whatever way it was answered; another body is a conflict."
)


class FailureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a run failed."""

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
    """True if it waits for its turn. Its status is `running` all the same."""
    failure: FailureSummary | None


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Executions, the newest first."""

    executions: list[ExecutionSummary]
    next_cursor: str | None


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person."""

    id: str
    tool: str


class ExecutionView(ExecutionSummary, frozen=True, kw_only=True):
    """One execution. Everything in it is concealed."""

    code: str
    context: Any
    text: str | None
    """The text sent to the agent, while the gateway remembers it."""
    result: Any
    """A preview of it if `file` is set."""
    output: str
    """Its output; while it runs, the end of it so far."""
    success: bool | None
    """True if it ran to its end; null until it is over."""
    error: str | None
    """The failure in one line."""
    execution_time_ms: int | None
    """The wall time of the run, without its wait for a turn."""
    file: str | None
    """The file with the whole result, for the next run of the same session."""
    details: Failure | None
    notes: list[str]
    usage: Usage | None
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


class NewExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code to be run."""

    code: Annotated[str, Meta(min_length=1)]
    language: str = "python"
    context: dict[str, Any] | None = None
    """Becomes variables of the code."""
    session: _Session | None = None
    """Names the workspace."""
    timeout_seconds: _Seconds | None = None
    timeout: _Seconds | None = None
    """Another name of `timeout_seconds`."""
    isolation_level: Level | None = None
    """A stricter level than that of the principal, for this run alone."""
    wait: bool = False
    """Answer when it is over. Without an Idempotency-Key it is cancelled when the client goes away."""


class NewAnalysis(AnalyzeRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows, and the analysis of them."""

    session: _Session | None = None
    timeout_seconds: _Seconds | None = None
    timeout: _Seconds | None = None
    """Another name of `timeout_seconds`."""
    isolation_level: Level | None = None
    """A stricter level than that of the principal, for this run alone."""


class ExecutionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of executions."""

    limit: Limit = 50
    cursor: Cursor | None = None
    status: RecordStatus | None = None
    principal: Annotated[str, Meta(description="Whose; others' need `observe`.")] | None = None


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a list."""

    limit: Limit = 50
    cursor: Cursor | None = None


@endpoint(
    "POST",
    "executions",
    errors=("conflict",),
    statuses=(202, 200),
    headers={"Idempotency-Key": _KEY_MEANING},
    body_bytes=None,
)
async def start_execution(call: Call[None, NewExecution]) -> Reply[ExecutionView]:
    """Run code in the sandbox.

    Answers 202 when the journal has it, and with `wait` 200 when it is over. Code that fails is not an
    error of the request: the status of the execution says so.
    """
    body = call.body
    request = view_of(ExecuteRequest, body, form="code")
    key = call.request.headers.get("idempotency-key")
    if key is not None:
        execution_id = await _claimed(call, key, request)
    elif body.wait:
        handle = call.yard.executions.handle(request, principal=call.principal)
        running = call.yard.execute(request, principal=call.principal, handle=handle)
        result = await while_connected(call.request, running)
        record = handle.record
        if record is None or record.context is not None:  # the journal leaves out a long context
            record = await _get(call, handle.id)
        return _reply(_view_of(call.yard, record, result), is_over=True)
    else:
        execution_id = (await call.yard.executions.start(request, principal=call.principal)).execution_id
    if body.wait:
        await while_connected(call.request, _over(call, execution_id))
    return _reply(_view_of(call.yard, await _get(call, execution_id)), is_over=body.wait)


@endpoint("GET", "executions")
async def list_executions(call: Call[ExecutionsQuery, None]) -> ExecutionPage:
    """List executions, the newest first: one's own, or everybody's with `observe`."""
    query = call.query
    if call.whose is not None and query.principal not in (None, call.principal):
        message = f"{call.principal!r} may see its own executions alone. Leave principal out."
        raise Refusal("forbidden", message)
    before = from_cursor(query.cursor, "executions", str)
    if before is not None:  # a cursor must not reveal others' executions
        try:
            await _get(call, before)
        except UnknownExecution:
            message = "This cursor leads nowhere any more. Begin again without it."
            raise Refusal("invalid_request", message) from None
    whose = query.principal or call.whose
    found = await call.yard.store.list_executions(
        _summary_of, limit=query.limit + 1, before=before, principal=whose, status=query.status
    )
    page, more = page_of("executions", found, query.limit, lambda each: each.execution_id)
    return ExecutionPage(executions=[_as_it_stands(call.yard, each) for each in page], next_cursor=more)


@endpoint("GET", "executions/{id}", errors=("not_found",))
async def get_execution(call: Call[None, None]) -> ExecutionView:
    """Get one execution: its state while it runs, then what the journal keeps."""
    return _view_of(call.yard, await _get(call, call.path["id"]))


@endpoint("GET", "executions/{id}/calls", errors=("not_found",))
async def list_calls(call: Call[PageQuery, None]) -> CallPage:
    """List the tool calls of an execution."""
    after = from_cursor(call.query.cursor, "calls", int) or 0
    record = await _get(call, call.path["id"])
    await call.yard.store.flush()
    found = await call.yard.store.calls(record.execution_id, after=after, limit=call.query.limit + 1)
    page, more = page_of("calls", found, call.query.limit, lambda each: each.number)
    return CallPage(calls=[view_of(CallView, each) for each in page], next_cursor=more)


@endpoint("POST", "executions/{id}/cancel", errors=("not_found", "conflict"))
async def cancel_execution(call: Call[None, None]) -> ExecutionView:
    """Cancel an execution that runs in the background. One that is over stays as it is.

    One's own, or anybody's with `observe` and `approve`.
    """
    record = await _get(call, call.path["id"])
    if record.principal != call.principal and not call.scope.approve:
        raise Refusal("forbidden", f"{call.principal!r} may cancel its own executions alone.")
    if record.status == "running":
        try:
            await call.yard.executions.cancel(record.execution_id, principal=record.principal)
        except UnknownExecution:
            raise Refusal(
                "conflict",
                f"Execution {record.execution_id!r} runs for a client that waits for it, or in another gateway. End it "
                "there.",
            ) from None
    return _view_of(call.yard, await _get(call, record.execution_id))


@endpoint("POST", "analyses", body_bytes=None)
async def analyze(call: Call[None, NewAnalysis]) -> ExecutionView:
    """Filter, aggregate, transform, validate or describe rows, without code.

    Answers when it is over; it is cancelled when the client goes away. Rows that do not fit the
    request are not an error: the status of the execution says so.
    """
    execution_id = secrets.token_hex(8)
    running = call.yard.analyze(call.body, principal=call.principal, execution_id=execution_id)
    result = await while_connected(call.request, running)
    return _view_of(call.yard, await _get(call, execution_id), result)


async def _get(call: Call[Any, Any], execution_id: str) -> ExecutionRecord:
    """Return an execution that the principal may see. Raises `UnknownExecution`."""
    store = call.yard.store
    record = await store.find_execution(execution_id)
    is_live = call.yard.live.find(execution_id) is not None
    if is_live if record is None else (record.status == "running" and not is_live):
        await store.flush()  # its beginning or its end may be on the way to the disk
        record = await store.find_execution(execution_id)
    if record is None or call.whose not in (None, record.principal):
        raise UnknownExecution(f"No execution {execution_id[:100]!r} is known. List those that are: GET executions.")
    return record


async def _claimed(call: Call[None, NewExecution], key: str, request: ExecuteRequest) -> str:
    """Return the id of the execution that the key stands for; begin it if the key is new."""
    if not _KEY.fullmatch(key):
        raise Refusal("invalid_request", "Idempotency-Key is not 1 to 200 printable characters. Use a random text.")
    keys, yard, execution_id = call.yard.store.idempotency, call.yard, secrets.token_hex(8)
    sha256 = hashlib.sha256(msgspec.json.encode(request, order="sorted")).hexdigest()
    try:
        claim = await keys.claim(call.principal, key, request_sha256=sha256, execution_id=execution_id)
        if claim.is_new:
            await yard.executions.start(request, principal=call.principal, execution_id=execution_id)
    except Exception:
        keys.release(call.principal, key, execution_id)  # nothing was begun, and so the next one may
        raise
    if claim.request_sha256 != sha256:
        raise Refusal("conflict", "This Idempotency-Key stands for another request. Use a new key.")
    if await yard.store.find_execution(claim.execution_id) is None:
        raise Refusal(
            "conflict",
            f"Execution {claim.execution_id!r} of this Idempotency-Key has not begun: a gateway begins it now, or "
            "ended before it did. Look for it again, or use a new key.",
        )
    return claim.execution_id


async def _over(call: Call[Any, Any], execution_id: str) -> None:
    """Wait until an execution is over, as far as this gateway knows."""
    try:
        while not (await call.yard.executions.look(execution_id, principal=call.principal)).is_over:
            pass
    except UnknownExecution:
        return  # of another gateway, or forgotten since: the journal has its state


def _reply(view: ExecutionView, *, is_over: bool) -> Reply[ExecutionView]:
    headers = {"Location": f"/api/v1/executions/{view.execution_id}"}
    return Reply(value=view, status=200 if is_over else 202, headers=headers)


# From the journal to views


def _summary_of(record: ExecutionRecord) -> ExecutionSummary:
    """Return an execution as a list shows it, from the journal."""
    outcome = record.outcome
    failure = None if outcome is None else outcome.failure
    return view_of(
        ExecutionSummary,
        record,
        session=record.session.partition(":")[2],
        form=_FORMS[record.form] if record.form else "code" if record.code else "call",
        seconds=None if record.ended_at is None else max(0.0, record.ended_at - record.started_at),
        calls=0 if outcome is None else outcome.usage.tool_calls,
        code_characters=len(record.code),
        waiting=0,
        queued=False,
        failure=None if failure is None else view_of(FailureSummary, failure),
    )


def _as_it_stands(yard: Yard, summary: ExecutionSummary) -> ExecutionSummary:
    """Add what this gateway knows of a running execution."""
    watched = yard.live.find(summary.execution_id)
    if watched is None:
        return summary
    waiting = len(yard.approvals.open_asks(summary.execution_id))
    return msgspec.structs.replace(summary, calls=watched.run.calls, waiting=waiting, queued=watched.run.queued)


def _view_of(yard: Yard, record: ExecutionRecord, result: Result | None = None) -> ExecutionView:
    """Return all of an execution; `result` is the answer to the agent, if that is known."""
    outcome = record.outcome
    output = "" if outcome is None else outcome.output
    with contextlib.suppress(UnknownExecution):
        state = yard.executions.state(record.execution_id, principal=record.principal)
        result = result or state.result
        output = state.output if record.status == "running" else output
    return ExecutionView(
        **msgspec.structs.asdict(_as_it_stands(yard, _summary_of(record))),
        code=record.code,
        context=record.context,
        text=None if result is None else result.text,
        result=None if outcome is None else outcome.result,
        output=output,
        success=None if record.status == "running" else record.status == "ok",
        error=_error_of(record),
        execution_time_ms=None if outcome is None else outcome.execution_time_ms,
        file=None if outcome is None or outcome.spill is None else outcome.spill.path,
        details=None if outcome is None else outcome.failure,
        notes=[] if outcome is None else list(outcome.notes),
        usage=None if outcome is None else outcome.usage,
        tier=None if outcome is None else outcome.tier,
        level=None if outcome is None else outcome.level,
        asks=[view_of(WaitingCall, ask) for ask in yard.approvals.open_asks(record.execution_id)],
    )


def _error_of(record: ExecutionRecord) -> str | None:
    if record.outcome is not None or record.status in ("running", "ok"):
        return None if record.outcome is None else record.outcome.error
    return f"The execution ended as {record.status!r}."


# Events


@endpoint(
    "GET",
    "executions/{id}/events",
    errors=("not_found",),
    statuses=(200, 204),
    headers={"Last-Event-ID": "The id of the last event that was read: the stream goes on after it."},
)
async def follow_execution(call: Call[None, None]) -> Events:
    """Stream the events of an execution until it is over.

    `started`, `output`, `call`, `called`, `asked`, `answered`, `ended`, and `lagged` where some are missing. One
    that is over is read from the journal; a client that has read a part gets `lagged` and `ended`, and one that has
    read `ended` gets 204, which stops an EventSource. Of one in another gateway only `lagged` is sent until it is over.
    """
    record = await _get(call, call.path["id"])
    last = call.request.headers.get("last-event-id")
    if call.yard.live.find(record.execution_id) is None:
        return Events(blocks=_past(call, record, last), is_over=last == _ENDED)
    return Events(blocks=_live_or_end(call, record, last))


@endpoint(
    "GET",
    "events",
    headers={
        "Last-Event-ID": "The id of the last event that was read: the stream goes on after it, as far as it is kept."
    },
)
async def follow_gateway(call: Call[None, None]) -> Events:
    """Stream the events of all runs: one's own, or everybody's with `observe`.

    `started`, `output`, `call`, `called`, `asked`, `answered`, `ended`, and `lagged` where some are missing.
    """
    return Events(blocks=_live(call, call.request.headers.get("last-event-id")))


async def _live_or_end(call: Call[Any, Any], record: ExecutionRecord, last: str | None) -> AsyncGenerator[str, None]:
    is_live = call.yard.live.find(record.execution_id) is not None  # else it has ended since
    blocks = _live(call, last, execution_id=record.execution_id) if is_live else _past(call, record, last)
    async with contextlib.aclosing(blocks):
        async for each in blocks:
            yield each


async def _live(
    call: Call[Any, Any], last: str | None, *, execution_id: str | None = None
) -> AsyncGenerator[str, None]:
    """Events after the id `last`, until they end or the server closes, with a comment after a quiet time."""
    after, whose = _number_of(last), call.whose if execution_id is None else None
    if execution_id is None and last and after is None:  # of a gateway before this one
        yield _block(LiveEvent(number=0, at=time.time(), kind="lagged"), None)
    async with call.yard.live.follow(execution_id=execution_id, principal=whose, after=after) as events:
        yield f"retry: {_RETRY_MS}\n\n"
        closed: asyncio.Future[Any] = asyncio.create_task(gate_of(call.request.scope).closing.wait())
        coming: asyncio.Future[Any] | None = None
        try:
            while not closed.done():
                coming = coming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait({coming, closed}, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    event = coming.result()
                    coming = None
                    if event is None:
                        return
                    is_last = execution_id is not None and event.kind == "ended"
                    yield _block(event, _ENDED if is_last else f"{_WORD}-{event.number}")
                elif not closed.done():
                    yield ": nothing new\n\n"
        finally:
            for task in (closed, coming):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task


async def _past(call: Call[Any, Any], record: ExecutionRecord, last: str | None) -> AsyncGenerator[str, None]:
    """The events of an execution that does not run here. A client that has read a part gets `lagged` and its end."""
    record = await _get(call, record.execution_id)  # its latest state
    is_over = record.status != "running"  # else it runs in another gateway
    events = await _recorded(call.yard, record) if is_over and not last else [("lagged", record.started_at, {})]
    if is_over:
        body: dict[str, Any] = {"status": record.status, "seconds": _summary_of(record).seconds}
        if record.outcome is not None and (failure := record.outcome.failure) is not None:
            body["failure"] = {"type": failure.type, "message": failure.message, "line": failure.line}
        events.append(("ended", record.ended_at or record.started_at, body))
    for kind, at, body in events:
        about = {"execution_id": record.execution_id, "principal": record.principal}
        yield _block(LiveEvent(number=0, at=at, kind=kind, body=body, **about), _ENDED if kind == "ended" else None)


async def _recorded(yard: Yard, record: ExecutionRecord) -> list[tuple[LiveKind, float, dict[str, Any]]]:
    """The events before the end as the journal has them. The output comes in one piece."""
    summary = _summary_of(record)
    started: dict[str, Any] = {"form": summary.form, "session": summary.session}
    started |= {"background": record.background, "code_characters": len(record.code)}
    events: list[tuple[LiveKind, float, dict[str, Any]]] = [("started", record.started_at, started)]
    for each in await yard.store.calls(record.execution_id, limit=_PAST_CALLS):
        call = {"number": each.number, "tool": each.tool}
        error = {} if each.error is None else {"error": each.error.partition(":")[0]}
        called = {**call, "seconds": each.seconds, "bytes": each.answer_bytes, **error}
        events += [("call", each.started_at, call), ("called", each.started_at + each.seconds, called)]
    if record.outcome is not None and record.outcome.output:
        text = record.outcome.output[-_PAST_CHARACTERS:]
        events.append(("output", record.ended_at or record.started_at, {"text": text}))
    return events


def _number_of(last_event_id: str | None) -> int | None:
    """Return the number in an id of this gateway; None for any other id."""
    word, _, number = (last_event_id or "").partition("-")
    is_number = word == _WORD and number.isascii() and number.isdigit() and len(number) < 19
    return int(number) if is_number else None


def _block(event: LiveEvent, spelled: str | None) -> str:
    """Return one event in wire format. JSON holds no line end, so data cannot begin a line of its own."""
    body: dict[str, Any] = {
        "at": event.at,
        "execution_id": event.execution_id,
        "principal": event.principal,
        **event.body,
    }
    name = "" if spelled is None else f"id: {spelled}\n"
    return f"{name}event: {event.kind}\ndata: {msgspec.json.encode(body).decode()}\n\n"
