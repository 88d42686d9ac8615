"""What is written down of every execution, in the journal and in the audit log, with nothing private in it."""

import hashlib
import time
from typing import Any

import msgspec

from sealyard.catalog import Snapshot
from sealyard.errors import UnknownTool
from sealyard.privacy.guard import Guard
from sealyard.store import Store
from sealyard.values import AuditEntry, ExecutionRecord, Grant, Outcome, RecordStatus

__all__ = ("Journal",)

_LONG_NAME = 1_000


class Journal:
    """Records executions from their beginning to their end. What it records is enqueued: `Store.flush` waits."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(
        self,
        grant: Grant,
        guard: Guard,
        code: str,
        context: dict[str, Any] | None,
        snapshot: Snapshot,
        *,
        background: bool = False,
    ) -> ExecutionRecord:
        """Record that an execution begins; what is returned is given to `end`."""
        told = await guard.door.conceal_each([code, context])
        record = ExecutionRecord(
            execution_id=grant.execution_id,
            principal=grant.principal,
            session=grant.session,
            code=told[0],
            context=told[1],
            started_at=time.time(),
            catalog_version=snapshot.version,
            background=background,
        )
        self._store.record_start(record)
        code_sha256 = hashlib.sha256(record.code.encode("utf-8", "surrogatepass")).hexdigest()
        body = {"code_sha256": code_sha256, "context": record.context, "catalog_version": snapshot.version}
        self._store.audit(_entry(record, "execution.start", body))
        return record

    def end(self, record: ExecutionRecord, status: RecordStatus, outcome: Outcome | None) -> None:
        """Record that it is over. `outcome` is concealed."""
        self._store.record_end(msgspec.structs.replace(record, ended_at=time.time(), status=status, outcome=outcome))
        body: dict[str, Any] = {"status": status}
        if outcome is not None:
            body["tool_calls"] = outcome.usage.tool_calls
            body["output_bytes"] = outcome.usage.output_bytes
            body["result"] = outcome.result
            if outcome.failure is not None:
                body["failure"] = {"type": outcome.failure.type, "message": outcome.failure.message}
        self._store.audit(_entry(record, "execution.end", body))

    async def note_unknown(self, grant: Grant, guard: Guard, name: str, error: UnknownTool, *, number: int = 1) -> None:
        """Write down who asked for a tool that is not there for them: it may be one that the policy hides."""
        told = await guard.door.conceal({"tool": name[:_LONG_NAME], "error": f"UnknownTool: {str(error)[:_LONG_NAME]}"})
        self._store.audit(
            AuditEntry(
                kind="call",
                principal=grant.principal,
                session=grant.session,
                execution_id=grant.execution_id,
                body={**told, "number": number, "verdict": None, "rule": None, "answer_bytes": 0},
            )
        )


def _entry(record: ExecutionRecord, kind: str, body: dict[str, Any]) -> AuditEntry:
    return AuditEntry(
        kind=kind, principal=record.principal, session=record.session, execution_id=record.execution_id, body=body
    )
