"""`/api/v1/executions` and `/api/v1/analyses`: run, look, follow, cancel."""

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sealyard.errors import UnknownExecution
from sealyard.observe.live import LiveEvent
from sealyard.sandbox.policy.levels import MAX_SECONDS
from sealyard.serve.api.answering import while_connected
from sealyard.serve.api.declare import Call, Events, Reply, endpoint
from sealyard.serve.api.execution_views import (
    CallPage,
    ExecutionPage,
    ExecutionView,
    as_it_stands,
    replayed,
    summary_of,
    to_call_view,
    view_of,
)
from sealyard.serve.api.paging import Cursor, Limit, from_cursor, to_cursor
from sealyard.serve.api.streams import Numbering, block, told
from sealyard.serve.envelope import Refusal
from sealyard.serve.gate import gate_of
from sealyard.values import ExecutionRecord, RecordStatus
from sealyard.yard import AnalyzeRequest, ExecuteRequest
from sealyard.yard.executions import Execution

NUMBERING = Numbering()

_Seconds = Annotated[float, Meta(ge=1, le=MAX_SECONDS)]
_Session = Annotated[str, Meta(max_length=50)]
_KEY = re.compile(r"[!-~]{1,200}")
_REPLAYED_CALLS = 2_000
_KEY_MEANING = (
    "1 to 200 printable characters without spaces. The same key and body within a day mean the execution that the "
    "first request started, in whatever way it was answered; another body is a conflict."
)


class NewExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code to be run."""

    code: Annotated[str, Meta(min_length=1)]
    language: str = "python"
    context: dict[str, Any] | None = None
    """Becomes variables of the code."""
    session: _Session | None = None
    """Names the workspace."""
    timeout_seconds: _Seconds | None = None
    wait: bool = False
    """Answer when it is over. Without an Idempotency-Key it is cancelled when the client goes away."""


class NewAnalysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows, and what to make of them."""

    analysis_type: str
    data: Any = None
    source: dict[str, Any] | None = None
    parameters: dict[str, Any] = {}
    session: _Session | None = None
    timeout_seconds: _Seconds | None = None


class ExecutionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which executions."""

    limit: Limit = 50
    cursor: Cursor | None = None
    status: RecordStatus | None = None
    principal: Annotated[str, Meta(description="Whose; of others, for who may observe.")] | None = None


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

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

    Answers 202 when the journal has it, and with `wait` 200 when it is over. That the code failed is no error: the
    status of the execution says so.
    """
    asked = call.body
    request = ExecuteRequest(
        code=asked.code,
        language=asked.language,
        context=asked.context,
        session=asked.session,
        timeout_seconds=asked.timeout_seconds,
    )
    key = call.request.headers.get("idempotency-key")
    if key is not None:
        execution_id = await _claimed(call, key, request)
    elif asked.wait:
        handle = Execution(request, call.principal)
        running = call.yard.execute(request, principal=call.principal, handle=handle)
        result = await while_connected(call.request, running)
        record = handle.record
        if record is None or record.context is not None:  # the journal leaves out a long context
            record = await _get(call, handle.id)
        return _reply(view_of(call.yard, record, result), is_over=True)
    else:
        execution_id = (await call.yard.executions.start(request, principal=call.principal)).execution_id
    if asked.wait:
        await while_connected(call.request, _over(call, execution_id))
    return _reply(view_of(call.yard, await _get(call, execution_id)), is_over=asked.wait)


@endpoint("POST", "analyses", body_bytes=None)
async def analyze(call: Call[None, NewAnalysis]) -> ExecutionView:
    """Filter, aggregate, transform, validate or describe rows, without code.

    Answers when it is over; it is cancelled when the client goes away. That the rows do not fit what was asked for is
    no error: the status of the execution says so.
    """
    request = AnalyzeRequest(**msgspec.structs.asdict(call.body))
    execution_id = secrets.token_hex(8)
    running = call.yard.analyze(request, principal=call.principal, execution_id=execution_id)
    result = await while_connected(call.request, running)
    return view_of(call.yard, await _get(call, execution_id), result)


@endpoint("GET", "executions")
async def list_executions(call: Call[ExecutionsQuery, None]) -> ExecutionPage:
    """Executions, the newest first: one's own, or everybody's for who may observe."""
    asked = call.query
    if call.whose is not None and asked.principal not in (None, call.principal):
        message = f"{call.principal!r} may see its own executions alone. Leave principal out."
        raise Refusal("forbidden", message)
    before = from_cursor(asked.cursor, "executions", str)
    if before is not None and not await _is_seen(call, before):  # it tells nobody what there is of others
        raise Refusal("invalid_request", "This cursor leads nowhere any more. Begin again without it.")
    whose = asked.principal or call.whose
    found = await call.yard.store.list_executions(
        summary_of, limit=asked.limit + 1, before=before, principal=whose, status=asked.status
    )
    page = found[: asked.limit]
    more = to_cursor("executions", page[-1].execution_id) if len(found) > len(page) else None
    return ExecutionPage(executions=[as_it_stands(call.yard, each) for each in page], next_cursor=more)


@endpoint("GET", "executions/{id}", errors=("not_found",))
async def get_execution(call: Call[None, None]) -> ExecutionView:
    """One execution: as far as it is, while it runs, and then as the journal keeps it."""
    return view_of(call.yard, await _get(call, call.path["id"]))


@endpoint("GET", "executions/{id}/calls", errors=("not_found",))
async def list_calls(call: Call[PageQuery, None]) -> CallPage:
    """The tool calls that an execution made."""
    after = from_cursor(call.query.cursor, "calls", int) or 0
    record = await _get(call, call.path["id"])
    await call.yard.store.flush()
    found = await call.yard.store.calls(record.execution_id, after=_stored(after), limit=call.query.limit + 1)
    page = found[: call.query.limit]
    more = to_cursor("calls", page[-1].number) if len(found) > len(page) else None
    return CallPage(calls=[to_call_view(each) for each in page], next_cursor=more)


@endpoint(
    "GET",
    "executions/{id}/events",
    errors=("not_found",),
    statuses=(200, 204),
    headers={"Last-Event-ID": "The id of the last event that was read: those after it are told."},
)
async def follow_execution(call: Call[None, None]) -> Events:
    """What happens in an execution, as server-sent events, until it is over.

    `started`, `output`, `call`, `called`, `asked`, `answered`, `ended`, and `lagged` where some are missing. One that
    is over is told from the journal; who has read its end is answered 204, and an EventSource stops then.
    """
    record = await _get(call, call.path["id"])
    last = call.request.headers.get("last-event-id")
    after = NUMBERING.read(last)
    if call.yard.live.find(record.execution_id) is not None:
        return Events(blocks=_live(call, record, after))
    if after is not None and (kept := await _kept(call, record, after)):
        blocks = [block(each, NUMBERING.spell(each.number)) for each in kept if each.number > after]
    else:
        blocks = await _from_journal(call, record, last)
    return Events(blocks=_listed(blocks), is_over=not blocks)


@endpoint("POST", "executions/{id}/cancel", errors=("not_found", "conflict"))
async def cancel_execution(call: Call[None, None]) -> ExecutionView:
    """Cancel an execution that runs in the background. One that is over stays as it is.

    One's own, or for who may observe and approve anybody's.
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
    return view_of(call.yard, await _get(call, record.execution_id))


async def _get(call: Call[Any, Any], execution_id: str) -> ExecutionRecord:
    """An execution that the principal may see. Raises `UnknownExecution`."""
    store = call.yard.store
    record = await store.find_execution(execution_id)
    is_live = call.yard.live.find(execution_id) is not None
    if is_live if record is None else (record.status == "running" and not is_live):
        await store.flush()  # its beginning or its end may be on the way to the disk
        record = await store.find_execution(execution_id)
    if record is None or call.whose not in (None, record.principal):
        raise UnknownExecution(f"No execution {execution_id[:100]!r} is known. List those that are: GET executions.")
    return record


async def _is_seen(call: Call[Any, Any], execution_id: str) -> bool:
    try:
        await _get(call, execution_id)
    except UnknownExecution:
        return False
    return True


async def _claimed(call: Call[None, NewExecution], key: str, request: ExecuteRequest) -> str:
    """The id of the execution that the key stands for, which is begun here if it is new."""
    if not _KEY.fullmatch(key):
        raise Refusal("invalid_request", "Idempotency-Key is no 1 to 200 printable characters. Use a random text.")
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
    """Wait until an execution is over, as far as this gateway can tell."""
    try:
        while not (await call.yard.executions.look(execution_id, principal=call.principal)).is_over:
            pass
    except UnknownExecution:
        return  # of another gateway, or forgotten since: the journal says how it stands


def _reply(view: ExecutionView, *, is_over: bool) -> Reply[ExecutionView]:
    headers = {"Location": f"/api/v1/executions/{view.execution_id}"}
    return Reply(value=view, status=200 if is_over else 202, headers=headers)


async def _live(call: Call[Any, Any], record: ExecutionRecord, after: int | None) -> AsyncIterator[str]:
    if call.yard.live.find(record.execution_id) is None:  # it has ended since
        for each in await _from_journal(call, record, None):
            yield each
        return
    async with call.yard.live.follow(execution_id=record.execution_id, after=after) as events:
        async for each in told(events, NUMBERING, gate_of(call.request.scope).closing):
            yield each


async def _kept(call: Call[Any, Any], record: ExecutionRecord, after: int) -> list[LiveEvent]:
    """The events of an execution that is over, from number `after` on, if all of them are still kept; else none."""
    kept: list[LiveEvent] = []
    async with call.yard.live.follow(execution_id=record.execution_id, after=after - 1) as events:
        try:
            async with asyncio.timeout(0):  # what is kept is there at once, and no more comes
                kept += [each async for each in events]
        except TimeoutError:
            return []
    return kept if kept[0].number == after and all(each.kind != "lagged" for each in kept) else []


async def _from_journal(call: Call[Any, Any], record: ExecutionRecord, last: str | None) -> list[str]:
    """What the journal knows of an execution, after the event of the id `last` if that was read from there too."""
    record = await _get(call, record.execution_id)  # as it is now
    calls = await call.yard.store.calls(record.execution_id, limit=_REPLAYED_CALLS)
    known = re.fullmatch(r"journal-([0-9]{1,9})", last or "")
    events = replayed(record, calls)[int(known[1]) if known else 0 :]
    return [block(each, f"journal-{each.number}") for each in events]


async def _listed(blocks: list[str]) -> AsyncIterator[str]:
    for each in blocks:
        yield each


def _stored(number: int) -> int:
    """A number that the store can compare with."""
    return max(0, min(number, 1 << 53))


ENDPOINTS = (
    start_execution,
    list_executions,
    get_execution,
    list_calls,
    follow_execution,
    cancel_execution,
    analyze,
)
