"""Observers of runs, searches and decisions: facts, tokens, spans, live events, shapes of answers.

The request path calls this and goes on; nothing here waits, and nothing here decides.
"""

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

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
from sealyard.values.access import Approval, ApprovalRequest, Grant
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
from sealyard.values.runs import LIKELY_TO_FAIL
from sealyard.values.skills import SkillUse
from sealyard.values.tools import SearchAnswer, ToolSpec
from sealyard.values.variants import variant

_TOOLS_NAMED = 20  # in the fact about one run
_QUERY_CHARACTERS = 500  # of a query in its fact
_ERRORS = METRICS["sealyard_execution_errors_total"]


class Observer:
    """Records the events of one gateway as facts, tokens, spans and live events."""

    def __init__(
        self,
        store: Store,
        *,
        drift: DriftWatch,
        tracing: Tracing | None = None,
        domain_of: Callable[[str], str] = lambda principal: "",
    ) -> None:
        """`drift` learns the shapes of answers. `domain_of` returns the domain of a principal; empty if none is set."""
        self._store = store
        self._drift = drift
        self.live = Live()
        self.accounting = Accounting(store.metrics.record)
        self.tracing = tracing
        self.domain_of = domain_of
        self._surface = ""
        self._is_direct: Callable[[ToolSpec], bool] = lambda spec: False
        self.forget_visits()

    def beside(self) -> "Observer":
        """The same records, with visits of their own: an agent that is shown something else costs something else."""
        beside = variant(self)
        beside.forget_visits()
        return beside

    def forget_visits(self) -> None:
        """Begin a new visit of each principal with its next request."""
        self._visits = Visits(self._begin_visit)

    def describe_surface(self, text: str, is_direct: Callable[[ToolSpec], bool]) -> None:
        """Note the text that an agent is shown at first, and which definitions of upstreams it is shown besides."""
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
        """The visit of a principal that sees `view` of the catalog."""
        return self._visits.of(principal, view)

    def bill(self, visit: Visit, use_case: UseCase, execution_id: str = "") -> Bill:
        """A new bill of the visit."""
        return Bill(
            principal=visit.principal, session=visit.id, execution_id=execution_id, use_case=use_case, at=time.time()
        )

    def exchanged(self, visit: Visit, use_case: UseCase, *, wrote: str, read: str, part: str = "results") -> None:
        """Bill what the agent wrote and read outside runs: for a search or a skill."""
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
        """Record a search for tools. `query` is concealed."""
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
        """Record that the stubs of a catalog were written."""
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
        """The sinks of metrics, of live views and of shapes of answers."""
        spans = () if self.tracing is None else (partial(SpanSink, self.tracing),)
        watching = (partial(LiveSink, self.live), partial(ShapeSink, self._drift))
        return (partial(FactSink, self), partial(TokenSink, self.accounting), *spans, *watching)

    # Decisions

    def security(
        self, event: Any, grant: Grant | ApprovalRequest | None = None, *, seconds: float | None = None
    ) -> None:
        """Record a refusal, a request to a person, its answer, or a value shown to an operator."""
        principal = "local" if grant is None else grant.principal
        execution_id = "" if grant is None else grant.execution_id
        self.record(
            SecurityEvent(at=time.time(), principal=principal, execution_id=execution_id, event=event, seconds=seconds)
        )

    def revealed(self, principal: str) -> None:
        """Record that an operator was shown a private value."""
        self.record(SecurityEvent(at=time.time(), principal=principal, event="revealed"))

    def asked(self, ask: ApprovalRequest) -> None:
        """Record that a person is asked about a call."""
        self.security("asked", ask)
        watched = self.live.find(ask.execution_id)
        if watched is not None:
            watched.run.asks += 1
            watched.emit("asked", {"id": ask.id, "tool": ask.tool, "number": ask.number})

    def answered(self, ask: ApprovalRequest, approval: Approval) -> None:
        """Record the answer to such a request, or that there was none."""
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
        """Record an event of a skill."""
        self.record(SkillEvent(at=time.time(), principal=principal, execution_id=execution_id, event=event))

    def skills_used(self, uses: list[SkillUse]) -> None:
        """Record the skills that a run used."""
        for use in uses:
            self.skill("failed" if use.failures else "reused", use.principal, execution_id=use.execution_id)

    def hidden(self, guard: Guard, principal: str, execution_id: str = "") -> None:
        """Record the values that a guard has hidden since the last call."""
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
                queued_seconds=None if run.form in ("call", "proxy") else run.queued_seconds,
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

    def call_finished(self, call: FinishedCall) -> None:
        """Add the answer."""
        admitted = call.admitted
        if admitted is None:
            return
        if admitted.answer.files:  # pictures have no text to count
            self._accounting.skip(self._bill, admitted.size_bytes - len(admitted.encoded))
        self._accounting.add(self._bill, "data", admitted.encoded)

    def ended(self, end: RunEnd) -> None:
        """Close the bill."""
        self._bill.use_case = self._run.use_case
        self._accounting.add(self._bill, "code", self._run.wrote)
        self._accounting.add(self._bill, "results", end.text)
        if self._run.form == "proxy":  # the agent reads what the tool answers, unless that is too large to be counted
            self._accounting.add(self._bill, "data", end.text)
            self._accounting.skip(self._bill, max(0, self._run.tally.bytes_in - len(end.text.encode())))
        self._accounting.close_bill(self._bill)


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
            if call.failure is not None:
                span.end(error=_kind_of(call))
            else:
                span.end(bytes=_bytes_of(call))

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
                form="call" if run.form == "proxy" else run.form,
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
        """Report that it waits for its turn, or that its turn has come."""
        self._watched.run.queued = is_waiting
        if is_waiting:
            self._watched.emit("queued", {})
        else:
            self._watched.emit("begun", {"queued_seconds": round(self._run.queued_seconds, 6)})

    def call_started(self, call: OpenCall) -> None:
        """Report a call."""
        self._watched.run.calls += 1
        self._watched.emit("call", {"number": call.number, "tool": call.spec.full_name})

    def call_finished(self, call: FinishedCall) -> None:
        """Report how the call ended."""
        body: dict[str, Any] = {"number": call.number, "tool": call.spec.full_name}
        body["seconds"] = round(call.seconds + call.waited_seconds, 6)
        if call.failure is not None:
            body["error"] = _kind_of(call)
        body["bytes"] = _bytes_of(call)
        self._watched.emit("called", body)

    def ended(self, end: RunEnd) -> None:
        """Report the end."""
        body: dict[str, Any] = {"status": end.status, "seconds": round(end.seconds, 6)}
        failure = None if end.outcome is None else end.outcome.failure
        if failure is not None:
            body["failure"] = {"type": failure.type, "message": failure.message, "line": failure.line}
        self._watched.end(body)


class ShapeSink(RunObserver):
    """Learns the shapes of answers of tools that declare none."""

    def __init__(self, observed: DriftWatch, run: Run) -> None:
        self._observed = observed

    def call_finished(self, call: FinishedCall) -> None:
        """Look at an answer."""
        if call.admitted is not None:
            self._observed.note(call.spec, call.admitted.answer.value, execution_id=call.grant.execution_id)


def _kind_of(call: FinishedCall) -> str:
    """The name of what went wrong in a call that failed."""
    if call.error is not None:
        return type(call.error).__name__
    name = (call.failure or "").partition(":")[0]  # of a relayed call, such as `ToolFailed: …`
    return name if name.isidentifier() else "cancelled"


def _bytes_of(call: FinishedCall) -> int:
    """The bytes of an answer, with its files."""
    return call.answer_bytes if call.admitted is None else call.admitted.size_bytes
