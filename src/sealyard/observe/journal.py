"""The sinks that write executions and their calls down: the journal, the audit log, and the traces for rehearsals."""

from typing import Any

import msgspec

from sealyard.broker.call import FinishedCall, audit_entry
from sealyard.observe.recorder import Run, RunEnd, RunObserver
from sealyard.store import Store
from sealyard.store.rows import CALL_VALUE_BYTES
from sealyard.values import CallRecord


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
                answer=admitted.told if admitted is not None and is_kept else None,
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
        self._store.audit(audit_entry(call.grant, "call", body))

    def ended(self, end: RunEnd) -> None:
        """Record how it ended."""
        body: dict[str, Any] = {"status": end.status}
        if (outcome := end.outcome) is not None:
            body["tool_calls"] = outcome.usage.tool_calls
            body["output_bytes"] = outcome.usage.output_bytes
            body["result"] = outcome.result
            if outcome.failure is not None:
                body["failure"] = {"type": outcome.failure.type, "message": outcome.failure.message}
        self._store.audit(audit_entry(self._grant, "execution.end", body))


class TraceSink(RunObserver):
    """Keeps answers that hold nothing private, so that an example of a skill can be recorded from them."""

    def __init__(self, store: Store, run: Run) -> None:
        self._traces = store.traces

    def call_finished(self, call: FinishedCall) -> None:
        """Keep the answer, if it may be."""
        if call.is_traceable and call.admitted is not None:
            self._traces.keep(call.grant.execution_id, call.number, call.admitted.encoded)
