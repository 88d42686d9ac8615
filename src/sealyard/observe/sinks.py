"""Observers of runs, searches and decisions: the journal, the audit log, facts, tokens, spans, live events.

The request path calls this and goes on; nothing here waits, and nothing here decides.
"""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import msgspec

from sealyard.broker import FinishedCall, OpenCall
from sealyard.catalog import DriftWatch, Snapshot
from sealyard.errors import ApprovalRefused, LimitReached, PolicyRefused
from sealyard.metrics import Tracing
from sealyard.metrics.sums import METRICS
from sealyard.observe.accounting import Accounting, Bill, definition_text
from sealyard.observe.live import Live, LiveRun
from sealyard.observe.recorder import Run, RunEnd, RunObserver, Sink
from sealyard.observe.visits import Visit, Visits
from sealyard.privacy import Guard
from sealyard.store import Store
from sealyard.values.access import Approval, ApprovalRequest, AuditEntry, Grant
from sealyard.values.facts import (
    Executed,
    Fact,
    Hidden,
    Published,
    Saw,
    Searched,
    SecurityEvent,
    SkillEvent,
    UseCase,
    Used,
)
from sealyard.values.runs import CALL_VALUE_BYTES, CallRecord
from sealyard.values.skills import SkillUse
from sealyard.values.tools import SearchAnswer, ToolSpec

LIKELY_TO_FAIL = "LikelyToFail"
"""The type of the failure of code that was not run because it is as good as certain to fail."""

_TOOLS_NAMED = 20  # in the fact about one run
_QUERY_CHARACTERS = 500  # of a query in its fact
_ANSWERS_HELD = 64  # of a batch of small answers
_ANSWERS_BYTES = 256 << 10
"""Answers are handed over for counting in batches of this many, or of this size."""
_ERRORS = METRICS["sealyard_execution_errors_total"]


class Observer:
    """Reports every event in one gateway."""

    def __init__(
        self, store: Store, *, tracing: Tracing | None = None, domain_of: Callable[[str], str] = lambda principal: ""
    ) -> None:
        """`domain_of` returns the domain of a principal; empty if none is set."""
        self._store = store
        self.live = Live()
        self.accounting = Accounting(store.metrics.record)
        self.tracing = tracing
        self.domain_of = domain_of
        self._surface = ""
        self._is_direct: Callable[[ToolSpec], bool] = lambda spec: False
        self._visits = Visits(self._begin_visit)

    def describe_surface(self, text: str, is_direct: Callable[[ToolSpec], bool]) -> None:
        """Take what an agent is shown before it does anything, and which definitions of upstreams beside that."""
        self._surface, self._is_direct = text, is_direct

    def record(self, fact: Fact) -> None:
        """Put a fact into the journal."""
        self._store.metrics.record(fact)

    # Visits

    def _begin_visit(self, visit: Visit, view: Snapshot) -> None:
        self.record(Saw(at=visit.last_at, principal=visit.principal, session=visit.id, event="begin"))
        bill = self.bill(visit, "discovery")
        self.accounting.add_definitions(bill, view.tools.values())
        self.accounting.add(
            bill, "surface", self._surface, *map(definition_text, filter(self._is_direct, view.tools.values()))
        )
        self.accounting.close_bill(bill)

    def visit(self, principal: str, view: Snapshot) -> Visit:
        """The visit of a principal, who sees `view` of the catalog."""
        return self._visits.of(principal, view)

    def bill(self, visit: Visit, use_case: UseCase, execution_id: str = "") -> Bill:
        """A new bill of the visit."""
        return Bill(
            principal=visit.principal, session=visit.id, execution_id=execution_id, use_case=use_case, at=time.time()
        )

    def exchanged(self, visit: Visit, use_case: UseCase, *, wrote: str, read: str, part: str = "results") -> None:
        """The agent wrote something and read an answer, beside runs: a search, a skill."""
        bill = self.bill(visit, use_case)
        self.accounting.add(bill, "code", wrote)
        self.accounting.add(bill, part, read)
        self.accounting.close_bill(bill)

    # Discovery

    def searched(
        self,
        visit: Visit,
        query: str,
        answer: SearchAnswer,
        *,
        place: Literal["agent", "code"],
        detail_level: str,
        seconds: float,
        is_cached: bool,
        execution_id: str = "",
    ) -> None:
        """Tools were searched for. `query` is concealed."""
        search_id = secrets.token_hex(8)
        found = tuple(hit.name for hit in answer.hits)
        self.record(
            Searched(
                at=time.time(),
                principal=visit.principal,
                session=visit.id,
                execution_id=execution_id,
                search_id=search_id,
                place=place,
                detail_level=detail_level,
                seconds=seconds,
                query=query[:_QUERY_CHARACTERS],
                found=found,
                is_continued=visit.note_search(search_id, found),
                is_cached=is_cached,
                text_ranks=answer.text_ranks,
                domain=self.domain_of(visit.principal),
            )
        )

    def published(self, seconds: float, tools: int) -> None:
        """The stubs of a catalog were written."""
        self.record(Published(at=time.time(), seconds=seconds, tools=tools))

    # Runs

    def begin(self, principal: str, view: Snapshot, *, is_code: bool = False) -> Visit:
        """The visit that a run begins in."""
        visit = self.visit(principal, view)
        if is_code and not visit.has_run_code:
            visit.has_run_code = True
            self.record(Saw(at=time.time(), principal=visit.principal, session=visit.id, event="code"))
        return visit

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The sinks of metrics and of live views."""
        spans = () if self.tracing is None else (partial(SpanSink, self.tracing),)
        return (partial(FactSink, self), partial(TokenSink, self.accounting), *spans, partial(LiveSink, self.live))

    # Decisions

    def security(
        self, event: Any, grant: Grant | ApprovalRequest | None = None, *, seconds: float | None = None
    ) -> None:
        """Something was refused, asked for, answered or shown."""
        principal = "local" if grant is None else grant.principal
        execution_id = "" if grant is None else grant.execution_id
        self.record(
            SecurityEvent(at=time.time(), principal=principal, execution_id=execution_id, event=event, seconds=seconds)
        )

    def revealed(self, principal: str) -> None:
        """An operator was shown a private value."""
        self.record(SecurityEvent(at=time.time(), principal=principal, event="revealed"))

    def asked(self, ask: ApprovalRequest) -> None:
        """Note that a call is put to people."""
        self.security("asked", ask)
        watched = self.live.find(ask.execution_id)
        if watched is not None:
            watched.run.asks += 1
            watched.emit("asked", {"id": ask.id, "tool": ask.tool, "number": ask.number})

    def answered(self, ask: ApprovalRequest, approval: Approval) -> None:
        """Note what came of it."""
        event = "approved"
        if approval.decision == "refuse":
            event = "expired" if approval.channel in ("expired", "withdrawn") else "refused"
        is_person = approval.by != "nobody"
        self.security(event, ask, seconds=max(0.0, approval.answered_at - ask.asked_at) if is_person else None)
        watched = self.live.find(ask.execution_id)
        if watched is not None:
            watched.run.asks -= 1
            watched.emit("answered", {"id": ask.id, "decision": approval.decision})

    # Skills

    def skill(self, event: Any, principal: str, *, execution_id: str = "") -> None:
        """Something happened to a skill."""
        self.record(SkillEvent(at=time.time(), principal=principal, execution_id=execution_id, event=event))

    def skills_used(self, uses: list[SkillUse]) -> None:
        """A run used skills."""
        for use in uses:
            self.skill("failed" if use.failures else "reused", use.principal, execution_id=use.execution_id)

    def hidden(self, guard: Guard, principal: str, execution_id: str = "") -> None:
        """Count the values that a guard has hidden since the last call."""
        values, failures = guard.take_counts()
        if values or failures:
            self.record(
                Hidden(at=time.time(), principal=principal, execution_id=execution_id, values=values, failures=failures)
            )


class FactSink(RunObserver):
    """Records the facts that metrics and learning read: searches that led to a call, refusals, the run itself."""

    def __init__(self, observer: Observer, run: Run) -> None:
        self._observer = observer
        self._run = run
        self._visit = run.visit

    def call_started(self, call: OpenCall) -> None:
        """Record which searches led to the call."""
        for search_id, rank, seconds in self._visit.note_call(call.spec.full_name):
            self._observer.record(
                Used(
                    at=call.started_at,
                    principal=self._visit.principal,
                    session=self._visit.id,
                    execution_id=call.grant.execution_id,
                    search_id=search_id,
                    tool=call.spec.full_name,
                    rank=rank,
                    seconds=seconds,
                )
            )

    def call_finished(self, call: FinishedCall) -> None:
        """Record a refusal."""
        if isinstance(call.error, LimitReached):
            self._observer.security("limited", call.grant)
        elif isinstance(call.error, PolicyRefused) and not isinstance(call.error, ApprovalRefused):
            self._observer.security("policy_denied", call.grant)

    def ended(self, end: RunEnd) -> None:
        """Record the fact of the run."""
        run, observer, tally, outcome = self._run, self._observer, self._run.tally, end.outcome
        failure = None if outcome is None else outcome.failure
        usage = None if outcome is None else outcome.usage
        is_unrun = outcome is not None and not outcome.tier  # in no sandbox: it is not the code that says so
        if is_unrun and failure is not None and failure.kind == "refused" and failure.type != LIKELY_TO_FAIL:
            observer.security("review_refused", run.grant)
        observer.record(
            Executed(
                at=end.ended_at,
                principal=self._visit.principal,
                session=self._visit.id,
                execution_id=run.id,
                form=cast(Any, run.form),  # those without a visit have no facts
                status=end.status,
                failure="" if failure is None else failure.kind,
                error_type="" if failure is None else _ERRORS.fit("error_type", failure.type),
                level="" if outcome is None else outcome.level,
                tier="" if outcome is None else outcome.tier,
                seconds=end.seconds,
                queued_seconds=None if run.form == "call" else run.queued_seconds,
                cpu_seconds=None if usage is None else usage.cpu_seconds,
                memory_bytes=None if usage is None else usage.memory_peak_bytes,
                calls=tally.calls,
                tools=tuple(sorted(tally.tools)[:_TOOLS_NAMED]),
                bytes_in=tally.bytes_in,
                bytes_out=len(end.text.encode("utf-8", "replace")),
                code_characters=run.code_characters,
                use_case=run.use_case,
                skills=run.skills,
                is_background=run.record.background,
                domain=observer.domain_of(self._visit.principal),
                assessed=run.assessed,
            )
        )
        observer.hidden(run.guard, self._visit.principal, run.id)


class TokenSink(RunObserver):
    """Bills the tokens of what the agent wrote and was sent, and of what stayed in the sandbox."""

    def __init__(self, accounting: Accounting, run: Run) -> None:
        self._accounting = accounting
        self._run = run
        self._bill = Bill(
            principal=run.grant.principal,
            session=run.visit.id,
            execution_id=run.id,
            use_case="compute",
            at=run.record.started_at,
        )
        self._answers: list[bytes] = []
        self._answers_bytes = 0

    def call_finished(self, call: FinishedCall) -> None:
        """Add the answer."""
        admitted = call.admitted
        if admitted is None:
            return
        if admitted.answer.files:  # pictures have no text to count
            self._accounting.skip(self._bill, admitted.size_bytes - len(admitted.encoded))
        self._answers.append(admitted.encoded)
        self._answers_bytes += len(admitted.encoded)
        if len(self._answers) >= _ANSWERS_HELD or self._answers_bytes >= _ANSWERS_BYTES:
            self._count_answers()

    def ended(self, end: RunEnd) -> None:
        """Close the bill."""
        self._bill.use_case = self._run.use_case
        self._count_answers()
        self._accounting.add(self._bill, "code", self._run.wrote)
        self._accounting.add(self._bill, "results", end.text)
        self._accounting.close_bill(self._bill)

    def _count_answers(self) -> None:
        self._accounting.add(self._bill, "data", *self._answers)
        self._answers, self._answers_bytes = [], 0


class SpanSink(RunObserver):
    """Makes a span of the run and one of each of its calls."""

    def __init__(self, tracing: Tracing, run: Run) -> None:
        self._tracing = tracing
        self._run = run
        self._span = tracing.begin_run(run.form, visit=run.visit.id, principal=run.grant.principal, execution_id=run.id)

    def call_started(self, call: OpenCall) -> None:
        """Begin the span of a call."""
        self._span.calls[call.number] = self._tracing.begin_call(
            self._span,
            call.spec.full_name,
            upstream=call.spec.upstream,
            version=call.spec.version,
            call_id=f"{self._run.id}:{call.number}",
        )

    def call_finished(self, call: FinishedCall) -> None:
        """End it."""
        if (span := self._span.calls.pop(call.number, None)) is not None:
            if call.admitted is None:
                span.end(error=_kind_of(call))
            else:
                span.end(bytes=call.admitted.size_bytes)

    def ended(self, end: RunEnd) -> None:
        """End the span of the run."""
        outcome, tally = end.outcome, self._run.tally
        failure = None if outcome is None else outcome.failure
        self._span.end(
            error=None
            if end.status == "ok"
            else _ERRORS.fit("error_type", failure.type)
            if failure is not None
            else end.status,
            status=end.status,
            level=None if outcome is None else outcome.level,
            tier=None if outcome is None else outcome.tier,
            use_case=self._run.use_case,
            calls=tally.calls,
            bytes_in=tally.bytes_in,
            bytes_out=len(end.text.encode("utf-8", "replace")),
        )


class LiveSink(RunObserver):
    """Shows the run to watchers of the gateway."""

    def __init__(self, live: Live, run: Run) -> None:
        grant = run.grant
        self._watched = live.begin(
            LiveRun(
                execution_id=run.id,
                principal=grant.principal,
                form=run.form,
                session=grant.session.partition(":")[2],
                started_at=run.record.started_at,
                background=run.record.background,
            ),
            code_characters=run.code_characters,
            on_watcher=run.output.open,
        )
        self._run = run
        run.output.listen(self._watched.output)
        if live.is_watched(run.id, grant.principal):
            run.output.open()

    def queued(self, is_waiting: bool) -> None:
        """Say that it waits for its turn, or that this has come."""
        self._watched.run.queued = is_waiting
        if is_waiting:
            self._watched.emit("queued", {})
        else:
            self._watched.emit("begun", {"queued_seconds": round(self._run.queued_seconds, 6)})

    def call_started(self, call: OpenCall) -> None:
        """Say that a tool is called."""
        self._watched.run.calls += 1
        self._watched.emit("call", {"number": call.number, "tool": call.spec.full_name})

    def call_finished(self, call: FinishedCall) -> None:
        """Report how the call ended."""
        body: dict[str, Any] = {"number": call.number, "tool": call.spec.full_name}
        body["seconds"] = round(call.seconds + call.waited_seconds, 6)
        if call.admitted is None:
            body["error"] = _kind_of(call)
        body["bytes"] = 0 if call.admitted is None else call.admitted.size_bytes
        self._watched.emit("called", body)

    def ended(self, end: RunEnd) -> None:
        """Say that it is over."""
        body: dict[str, Any] = {"status": end.status, "seconds": round(end.seconds, 6)}
        failure = None if end.outcome is None else end.outcome.failure
        if failure is not None:
            body["failure"] = {"type": failure.type, "message": failure.message, "line": failure.line}
        self._watched.end(body)


class ShapeSink(RunObserver):
    """Learns what tools answer that do not declare it."""

    def __init__(self, observed: DriftWatch, run: Run) -> None:
        self._observed = observed

    def call_finished(self, call: FinishedCall) -> None:
        """Look at an answer."""
        if call.admitted is not None:
            self._observed.note(call.spec, call.admitted.answer.value, execution_id=call.grant.execution_id)


def _kind_of(call: FinishedCall) -> str:
    """The name of what went wrong in a call that has no answer."""
    return "cancelled" if call.error is None else type(call.error).__name__


class JournalSink(RunObserver):
    """Writes the calls and the end of an execution into the journal, where its beginning is already."""

    is_durable = True

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._run = run

    def call_finished(self, call: FinishedCall) -> None:
        """Record the call, with a sample of an answer that is too long for the journal."""
        admitted, size_bytes = call.admitted, call.answer_bytes
        is_kept = size_bytes <= CALL_VALUE_BYTES
        self._store.record_call(
            CallRecord(
                execution_id=call.grant.execution_id,
                number=call.number,
                tool=call.spec.full_name,
                digest=call.spec.digest,
                version=call.spec.version,
                upstream=call.spec.upstream,
                arguments=call.arguments,
                answer=admitted.concealed if admitted is not None and is_kept else None,
                error=call.failure,
                started_at=call.started_at,
                seconds=call.seconds,
                answer_bytes=size_bytes,
                answer_sample=admitted.answer.sample if admitted is not None and not is_kept else None,
            )
        )

    def ended(self, end: RunEnd) -> None:
        """Record the end in the place of the beginning."""
        run = self._run
        run.record = msgspec.structs.replace(run.record, ended_at=end.ended_at, status=end.status, outcome=end.outcome)
        self._store.record_end(run.record)


class AuditSink(RunObserver):
    """Writes the calls and the end of an execution into the audit log."""

    is_durable = True

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._grant = run.grant

    def call_finished(self, call: FinishedCall) -> None:
        """Record which tool was called with what, and who allowed it."""
        body: dict[str, Any] = {
            "tool": call.spec.full_name,
            "number": call.number,
            "digest": call.spec.digest,
            "version": call.spec.version,
            "arguments": call.arguments,
            "verdict": None if call.decision is None else call.decision.verdict,
            "rule": None if call.decision is None else call.decision.rule,
            "answer_bytes": call.answer_bytes,
            "error": call.failure,
        }
        if call.approval is not None:
            body["approved_by"] = call.approval.by
            body["approved_for"] = call.approval.decision
        self._store.audit(AuditEntry.of(call.grant, "call", body))

    def ended(self, end: RunEnd) -> None:
        """Record how it ended."""
        body: dict[str, Any] = {"status": end.status}
        if (outcome := end.outcome) is not None:
            body["tool_calls"] = outcome.usage.tool_calls
            body["output_bytes"] = outcome.usage.output_bytes
            body["result"] = outcome.result
            if outcome.failure is not None:
                body["failure"] = {"type": outcome.failure.type, "message": outcome.failure.message}
        self._store.audit(AuditEntry.of(self._grant, "execution.end", body))


class TraceSink(RunObserver):
    """Keeps answers that hold nothing private, so that an example of a skill can be recorded from them."""

    def __init__(self, store: Store, run: Run) -> None:
        self._traces = store.traces

    def call_finished(self, call: FinishedCall) -> None:
        """Keep the answer, if it may be."""
        if call.is_traceable and call.admitted is not None:
            self._traces.keep(call.grant.execution_id, call.number, call.admitted.encoded)
