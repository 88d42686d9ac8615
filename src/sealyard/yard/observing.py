"""What is told of every run, search and decision: facts for the journal, tokens for the bill, events for who watches.

The request path calls this and goes on; nothing here waits, and nothing here decides.
"""

import secrets
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from sealyard.broker.answers import Answer
from sealyard.broker.approvals import Approvals
from sealyard.catalog import Snapshot
from sealyard.errors import ApprovalRefused, LimitReached, PolicyRefused, SealyardError
from sealyard.metrics.names import METRICS, OTHER
from sealyard.metrics.otel import NoTracing, SpanHandle
from sealyard.offload import is_large
from sealyard.privacy.guard import Guard
from sealyard.store import Store
from sealyard.values import (
    Approval,
    Ask,
    Assessed,
    CallEvidence,
    Executed,
    Fact,
    Grant,
    Hidden,
    Outcome,
    Published,
    RecordStatus,
    Saw,
    SearchAnswer,
    Searched,
    SecurityEvent,
    SkillEvent,
    SkillUse,
    ToolSpec,
    UseCase,
    Used,
)
from sealyard.yard.accounting import Accounting, Bill, definition_text
from sealyard.yard.live import Live, LiveRun
from sealyard.yard.streaming import OutputStream
from sealyard.yard.visits import Visit, Visits

__all__ = ("LIKELY_TO_FAIL", "Form", "Observer", "Run")

Form = Literal["code", "analysis", "call"]

LIKELY_TO_FAIL = "LikelyToFail"
"""The type of the failure of code that was not run because it is as good as certain to fail."""

_TOOLS_TOLD = 20
_POLLS = 3
_POLLED_CHARACTERS = 10_000
_CALLS_KEPT = 8
_ERROR_CHARACTERS = 2_000
_ASKS_COUNTED = 1_000
_QUERY_CHARACTERS = 500
_ANSWERS_HELD = 64
_ANSWERS_BYTES = 256 << 10
"""Answers are handed over to be counted so many or so much at a time."""
_ERROR_TYPES = frozenset(METRICS["sealyard_execution_errors_total"].labels["error_type"])


class Observer:
    """Tells of everything that happens in one gateway."""

    def __init__(self, store: Store, approvals: Approvals) -> None:
        self._store = store
        self.live = Live()
        self.accounting = Accounting(store.metrics.record)
        self.tracing = NoTracing()
        self.surface = ""
        """What the agent is shown before it does anything: definitions and instructions."""
        self.direct: Callable[[ToolSpec], bool] = lambda spec: False
        """Which definitions of upstreams it is shown beside them."""
        self.domain_of: Callable[[str], str] = lambda principal: ""
        """What a principal is said to work on; empty if nobody said it."""
        self._visits = Visits(self._begin_visit)
        approvals.on_ask = self._asked
        approvals.on_answer = self._answered

    def record(self, fact: Fact) -> None:
        """Put a fact into the journal."""
        self._store.metrics.record(fact)

    # Visits

    def _begin_visit(self, visit: Visit, view: Snapshot) -> None:
        self.record(Saw(at=visit.last_at, principal=visit.principal, session=visit.id, event="begin"))
        bill = self.bill(visit, "discovery")
        self.accounting.add_definitions(bill, view.tools.values())
        self.accounting.add(
            bill, "surface", self.surface, *map(definition_text, filter(self.direct, view.tools.values()))
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

    def begin(
        self,
        grant: Grant,
        view: Snapshot,
        guard: Guard,
        *,
        form: Form,
        wrote: str,
        code_characters: int = 0,
        background: bool = False,
    ) -> "Run":
        """A run begins, which the agent `wrote`; what is returned is told of the rest of it."""
        visit = self.visit(grant.principal, view)
        if form == "code" and not visit.has_run_code:
            visit.has_run_code = True
            self.record(Saw(at=time.time(), principal=visit.principal, session=visit.id, event="code"))
        return Run(self, visit, grant, guard, form, wrote, code_characters, background=background)

    # Decisions

    def security(self, event: Any, grant: Grant | Ask | None = None, *, seconds: float | None = None) -> None:
        """Something was refused, asked for, answered or shown."""
        principal = "local" if grant is None else grant.principal
        execution_id = "" if grant is None else grant.execution_id
        self.record(
            SecurityEvent(at=time.time(), principal=principal, execution_id=execution_id, event=event, seconds=seconds)
        )

    def revealed(self, principal: str) -> None:
        """An operator was shown a private value."""
        self.record(SecurityEvent(at=time.time(), principal=principal, event="revealed"))

    def _asked(self, ask: Ask) -> None:
        self.security("asked", ask)
        watched = self.live.find(ask.execution_id)
        if watched is not None:
            watched.asks += 1
            watched.tell("asked", {"id": ask.id, "tool": ask.tool, "number": ask.number})

    def _answered(self, ask: Ask, approval: Approval) -> None:
        event = "approved"
        if approval.decision == "refuse":
            event = "expired" if approval.channel in ("expired", "withdrawn") else "refused"
        is_person = approval.by != "nobody"
        self.security(event, ask, seconds=max(0.0, approval.answered_at - ask.asked_at) if is_person else None)
        watched = self.live.find(ask.execution_id)
        if watched is not None:
            watched.asks -= 1
            watched.tell("answered", {"id": ask.id, "decision": approval.decision})

    # Skills

    def skill(self, event: Any, principal: str, *, execution_id: str = "") -> None:
        """Something happened to a skill."""
        self.record(SkillEvent(at=time.time(), principal=principal, execution_id=execution_id, event=event))

    def skills_used(self, uses: list[SkillUse]) -> None:
        """A run used skills."""
        for use in uses:
            self.skill("failed" if use.failures else "reused", use.principal, execution_id=use.execution_id)

    def hidden(self, guard: Guard, principal: str, execution_id: str = "") -> None:
        """What a guard has hidden since it was last asked."""
        values, failures = guard.take_counts()
        if values or failures:
            self.record(
                Hidden(at=time.time(), principal=principal, execution_id=execution_id, values=values, failures=failures)
            )


class Run:
    """One run as it is told of."""

    def __init__(
        self,
        observer: Observer,
        visit: Visit,
        grant: Grant,
        guard: Guard,
        form: Form,
        wrote: str,
        code_characters: int,
        *,
        background: bool,
    ) -> None:
        self._observer = observer
        self._visit = visit
        self._grant = grant
        self._guard = guard
        self._form: Form = form
        self._wrote = wrote
        self._code_characters = code_characters
        self._background = background
        self._started = time.perf_counter()
        self._queued_at = self._queued_seconds = 0.0
        self._bytes_in = 0
        self._answers: list[bytes] = []
        self._answers_bytes = 0
        self._calls = 0
        self._tools: Counter[str] = Counter()
        self._asked: Counter[tuple[str, int]] = Counter()
        self.skills = 0
        """How many saved skills it imported."""
        self.assessed: Assessed | None = None
        """What was expected of it."""
        self.last_calls: deque[CallEvidence] = deque(maxlen=_CALLS_KEPT)
        """For who explains a failure: as the code saw them."""
        self._bill = observer.bill(visit, "compute", grant.execution_id)
        self._span = observer.tracing.begin_run(
            form, visit=visit.id, principal=grant.principal, execution_id=grant.execution_id
        )
        self._spans: dict[int, SpanHandle | None] = {}
        self.output = OutputStream(guard)
        """What it prints, on its way to who listens."""
        self._watched = observer.live.begin(
            LiveRun(
                execution_id=grant.execution_id,
                principal=grant.principal,
                form=form,
                session=grant.session.partition(":")[2],
                started_at=time.time(),
                background=background,
                calls=0,
                output_characters=0,
                asks=0,
            ),
            code_characters=code_characters,
            on_watcher=self.output.open,
        )
        self.output.listen(self._watched.output)
        if observer.live.is_watched(grant.execution_id, grant.principal):
            self.output.open()
        observer.accounting.begin_work()

    @property
    def visit(self) -> Visit:
        """Whose it is."""
        return self._visit

    def queued(self, is_waiting: bool) -> None:
        """It has to wait for its turn, or that has come."""
        self._watched.queued = is_waiting
        if is_waiting:
            self._queued_at = time.perf_counter()
            self._watched.tell("queued", {})
        else:
            self._queued_seconds = time.perf_counter() - self._queued_at
            self._watched.tell("begun", {"queued_seconds": round(self._queued_seconds, 6)})

    def call(self, spec: ToolSpec, number: int, arguments: dict[str, Any]) -> None:
        """A tool is about to be called."""
        self._calls += 1
        self._watched.calls += 1
        self._tools[spec.full_name] += 1
        if len(self._asked) < _ASKS_COUNTED:
            self._asked[spec.full_name, _print_of(arguments)] += 1
        for search_id, rank, seconds in self._visit.note_call(spec.full_name):
            self._observer.record(
                Used(
                    at=time.time(),
                    principal=self._visit.principal,
                    session=self._visit.id,
                    execution_id=self._grant.execution_id,
                    search_id=search_id,
                    tool=spec.full_name,
                    rank=rank,
                    seconds=seconds,
                )
            )
        self._watched.tell("call", {"number": number, "tool": spec.full_name})
        self._spans[number] = self._observer.tracing.begin_call(
            self._span,
            spec.full_name,
            upstream=spec.upstream,
            version=spec.version,
            call_id=f"{self._grant.execution_id}:{number}",
        )

    def called(
        self, spec: ToolSpec, number: int, seconds: float, arguments: dict[str, Any], answer: Answer, encoded: bytes
    ) -> None:
        """It answered."""
        self._keep(spec, number, seconds, arguments, answer=answer.value, answer_bytes=len(encoded))
        size_bytes = len(encoded) + sum(len(file.content) for file in answer.files)
        self._bytes_in += size_bytes
        if answer.files:  # a picture is no text that could be counted
            self._observer.accounting.skip(self._bill, size_bytes - len(encoded))
        self._answers.append(encoded)
        self._answers_bytes += len(encoded)
        if len(self._answers) >= _ANSWERS_HELD or self._answers_bytes >= _ANSWERS_BYTES:
            self._count_answers()
        if (span := self._spans.pop(number, None)) is not None:
            span.end(bytes=size_bytes)
        body = {"number": number, "tool": spec.full_name, "seconds": round(seconds, 6), "bytes": size_bytes}
        self._watched.tell("called", body)

    def _count_answers(self) -> None:
        self._observer.accounting.add(self._bill, "data", *self._answers)
        self._answers, self._answers_bytes = [], 0

    def _keep(
        self,
        spec: ToolSpec,
        number: int,
        seconds: float,
        arguments: dict[str, Any],
        *,
        answer: Any = None,
        answer_bytes: int = 0,
        error: str | None = None,
    ) -> None:
        has_answer = error is None and answer_bytes <= _ANSWERS_BYTES
        self.last_calls.append(
            CallEvidence(
                number=number,
                tool=spec.full_name,
                version=spec.version,
                arguments=arguments,
                answer=answer if has_answer else None,
                has_answer=has_answer,
                error=error,
                started_at=time.time() - seconds,
                seconds=seconds,
                answer_bytes=answer_bytes,
            )
        )

    def call_failed(
        self, spec: ToolSpec, number: int, seconds: float, arguments: dict[str, Any], error: BaseException
    ) -> None:
        """It did not, or was not asked."""
        self._keep(spec, number, seconds, arguments, error=f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS])
        if isinstance(error, LimitReached):
            self._observer.security("limited", self._grant)
        elif isinstance(error, PolicyRefused) and not isinstance(error, ApprovalRefused):
            self._observer.security("policy_denied", self._grant)
        kind = type(error).__name__ if isinstance(error, SealyardError) else "cancelled"
        if (span := self._spans.pop(number, None)) is not None:
            span.end(error=kind)
        body = {"number": number, "tool": spec.full_name, "seconds": round(seconds, 6), "error": kind, "bytes": 0}
        self._watched.tell("called", body)

    def end(self, status: RecordStatus, outcome: Outcome | None, text: str, *, waited_seconds: float = 0.0) -> None:
        """It is over, and waited for people so long; `text` is what the agent is sent.

        Raises `StoreError`: then it is over too.
        """
        seconds = max(0.0, time.perf_counter() - self._started - waited_seconds)
        if self._watched.queued:  # until its end
            self._queued_seconds = time.perf_counter() - self._queued_at
        try:
            self._record_end(seconds, status, outcome, text)
        finally:
            self._observer.accounting.end_work()
            self._tell_end(seconds, status, outcome, text)

    def _record_end(self, seconds: float, status: RecordStatus, outcome: Outcome | None, text: str) -> None:
        observer, failure = self._observer, None if outcome is None else outcome.failure
        use_case = self._use_case()
        self._bill.use_case = use_case
        self._count_answers()
        observer.accounting.add(self._bill, "code", self._wrote)
        observer.accounting.add(self._bill, "results", text)
        observer.accounting.close_bill(self._bill)
        usage = None if outcome is None else outcome.usage
        is_unrun = outcome is not None and not outcome.tier  # in no sandbox: it is not the code that says so
        if is_unrun and failure is not None and failure.kind == "refused" and failure.type != LIKELY_TO_FAIL:
            observer.security("review_refused", self._grant)
        observer.record(
            Executed(
                at=time.time(),
                principal=self._visit.principal,
                session=self._visit.id,
                execution_id=self._grant.execution_id,
                form=self._form,
                status=status,
                failure="" if failure is None else failure.kind,
                error_type="" if failure is None else _error_type(failure.type),
                level="" if outcome is None else outcome.level,
                tier="" if outcome is None else outcome.tier,
                seconds=seconds,
                queued_seconds=None if self._form == "call" else self._queued_seconds,
                cpu_seconds=None if usage is None else usage.cpu_seconds,
                memory_bytes=None if usage is None else usage.memory_peak_bytes,
                calls=self._calls,
                tools=tuple(sorted(self._tools)[:_TOOLS_TOLD]),
                bytes_in=self._bytes_in,
                bytes_out=len(text.encode("utf-8", "replace")),
                code_characters=self._code_characters,
                use_case=use_case,
                skills=self.skills,
                is_background=self._background,
                domain=observer.domain_of(self._visit.principal),
                assessed=self.assessed,
            )
        )
        observer.hidden(self._guard, self._visit.principal, self._grant.execution_id)

    def _tell_end(self, seconds: float, status: RecordStatus, outcome: Outcome | None, text: str) -> None:
        failure = None if outcome is None else outcome.failure
        if self._span is not None:
            self._span.end(
                error=None if status == "ok" else _error_type(failure.type) if failure is not None else status,
                status=status,
                level=None if outcome is None else outcome.level,
                tier=None if outcome is None else outcome.tier,
                use_case=self._use_case(),
                calls=self._calls,
                bytes_in=self._bytes_in,
                bytes_out=len(text.encode("utf-8", "replace")),
            )
        told: dict[str, Any] = {"status": status, "seconds": round(seconds, 6)}
        if failure is not None:
            told["failure"] = {"type": failure.type, "message": failure.message, "line": failure.line}
        self._watched.end(told)

    def _use_case(self) -> UseCase:
        if self._form == "call":
            return "direct"
        if self._form == "analysis":
            return "analysis"
        if self.skills:
            return "skill_reuse"
        if self._asked and self._asked.most_common(1)[0][1] >= _POLLS:
            return "polling"
        if len(self._tools) > 1:
            return "workflow"
        return "filtering" if self._tools else "compute"


def _print_of(arguments: dict[str, Any]) -> int:
    """The same for the same arguments, within this process. Large ones, which nobody polls with, are never the same."""
    if is_large(arguments, _POLLED_CHARACTERS):
        return id(arguments)
    try:
        return hash(msgspec.json.encode(arguments, order="sorted"))
    except (TypeError, ValueError, RecursionError):  # which no tool is called with
        return 0


def _error_type(name: str) -> str:
    return name if name in _ERROR_TYPES else OTHER
