"""The store as the rest of the gateway uses it."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from sealyard.store import journal, tools
from sealyard.store.approvals import ApprovalTable
from sealyard.store.audit.log import AuditLog, read_entries
from sealyard.store.audit.verification import AuditWatch
from sealyard.store.chats import ChatTable
from sealyard.store.columns import Columns
from sealyard.store.database import Reader
from sealyard.store.gateways import Lead
from sealyard.store.journal import IdempotencyTable, TraceBudget, TraceTable
from sealyard.store.learning import LearningTables
from sealyard.store.metrics.tables import MetricTables
from sealyard.store.skills import SkillTable
from sealyard.store.table import Table, reads, writes
from sealyard.store.tools import Release, ReleaseTable, ShapeTable
from sealyard.store.vault import VaultTables
from sealyard.store.writer import ROW_BYTES, Writer
from sealyard.values.access import AUDIT_KINDS, Alert, AuditEntry
from sealyard.values.runs import CALL_VALUE_BYTES, CallRecord, ExecutionRecord
from sealyard.values.tools import ToolSpec


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """Counts for the figures of a gateway."""

    size_bytes: int
    skills: dict[str, int]
    """Skills by the status of their newest version."""


def _read_census(connection: sqlite3.Connection) -> Census:
    """Count skills and bytes."""
    pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    skills = connection.execute(
        "SELECT status, COUNT(*) FROM skills AS each WHERE deleted_at IS NULL AND number = (SELECT MAX(number)"
        " FROM skills WHERE namespace = each.namespace AND name = each.name AND deleted_at IS NULL) GROUP BY status"
    )
    return Census(size_bytes=pages * page_bytes, skills=dict(skills))


_ALERTS = Columns("alerts", Alert, decode={"delivered": bool})
_ORDER = "ORDER BY state = 'resolved', state = 'pending', changed_at DESC, rule, subject"


def _read_alerts(connection: sqlite3.Connection) -> list[Alert]:
    """All alerts: firing, then pending, then resolved; the newest first."""
    return _ALERTS.all(connection, _ORDER)


def _replace_alerts(connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
    """Write these alerts, durably, in place of all others."""
    connection.execute("DELETE FROM alerts")
    for alert in alerts:
        _ALERTS.put(connection, alert)


@asynccontextmanager
async def open_store(path: Path, *, traces: TraceBudget | None = None) -> AsyncIterator["Store"]:
    """Open the store at `path`, creating it if needed; closing it writes everything that waits.

    Running executions of a gateway that is gone become `lost`. Several gateways may open the same store.

    Raises:
        StoreError: It cannot be opened, or the last writes fail when it is closed.
    """
    path = await asyncio.to_thread(path.resolve)  # locks lie beside the file itself, not beside a link
    log = AuditLog(path)
    writer = Writer(path, log.transaction)
    reader, adding, learning = Reader(path), Reader(path), Reader(path)
    try:
        await writer.open()
        yield Store(writer, reader, adding, learning, log, path, traces or TraceBudget())
    finally:
        try:
            await asyncio.gather(reader.close(), adding.close(), learning.close())
        finally:
            await writer.close()


def _touch(connection: sqlite3.Connection, probes: Sequence[None]) -> None:
    """Rewrite a page of the database unchanged."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version:d}")


class Store(Table):
    """One database, for the event loop that opened it.

    `record_*` and `audit` only enqueue: they cost about a microsecond and never wait. A record must not be changed
    afterwards. Reads see the disk: call `flush` first to read a new record.
    """

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        adding: Reader,
        learning: Reader,
        log: AuditLog,
        path: Path,
        traces: TraceBudget,
    ) -> None:
        """`adding` reads for sums over many rows and `learning` for the whole journal: no other read waits for them."""
        super().__init__(writer, reader)
        # Callers that record without end, such as calls in a loop, await `room` now and then: it bounds the memory.
        self.room, self.has_room, self.start_flush = writer.room, writer.has_room, writer.start_flush
        self._log = log
        self._path = path
        self._write_executions = partial(journal.write_executions, owner=writer.owner)
        self.approvals = ApprovalTable(writer, reader)
        self.skills = SkillTable(writer, reader)
        self.chats = ChatTable(writer, reader)
        self.vault = VaultTables(writer, reader, path)
        self.traces = TraceTable(writer, reader, traces)
        self.releases = ReleaseTable(writer, reader)
        self.shapes = ShapeTable(writer, reader)
        self.idempotency = IdempotencyTable(writer, reader)
        self.metrics = MetricTables(writer, adding)
        self.learning = LearningTables(writer, learning)

    # The journal

    def record_start(self, record: ExecutionRecord) -> None:
        """Record an execution that begins. While it is `running`, it counts as lost once this gateway is gone."""
        self._writer.put_row(self._write_executions, record, len(record.code) + ROW_BYTES)

    def record_call(self, record: CallRecord) -> None:
        """Record a finished call. An answer or arguments over 64 KiB are left out; `answer_bytes` is kept."""
        size_bytes = record.answer_bytes
        if size_bytes > CALL_VALUE_BYTES:
            record = msgspec.structs.replace(record, answer=None)  # it does not wait in memory either
            size_bytes = 0
        size_bytes += len(record.answer_sample or "")
        self._writer.put_row(journal.write_calls, record, size_bytes + ROW_BYTES)

    def record_end(self, record: ExecutionRecord) -> None:
        """Record a finished execution, in place of the record of its start."""
        # Most executions end before their start is written, which is skipped then.
        self._writer.put_row(self._write_executions, record, len(record.code) + ROW_BYTES)

    async def probe(self) -> None:
        """Write to the disk without a change. Raises `StoreError` if that fails."""
        self._writer.put_row(_touch, None, ROW_BYTES)
        await self._writer.flush()

    find_execution = reads(journal.read_execution)
    executions = reads(journal.read_executions)
    list_executions = reads(journal.shape_executions)
    calls = reads(journal.read_calls)

    # The audit log

    def audit(self, entry: AuditEntry) -> None:
        """Record an audit entry, as `record_call` does; it gets its number and hash when it is written.

        Raises:
            ValueError: Its kind is not one of `AUDIT_KINDS`.
        """
        if entry.kind not in AUDIT_KINDS:
            raise ValueError(f"No audit entry has the kind {entry.kind!r}. Use one of AUDIT_KINDS, or add it.")
        self._writer.put_row(self._log.add, (time.time_ns() // 1000, entry), ROW_BYTES)

    audit_entries = reads(read_entries)

    async def mark_audit_exported(self, segments: Iterable[int], sha256: str) -> None:
        """Record, durably, the digest of the file to which closed segments were exported."""
        await self._writer.change(partial(self._log.mark_exported, segments=frozenset(segments), sha256=sha256))

    async def prune_audit(self, segments: Iterable[int], *, principal: str) -> None:
        """Remove the entries of closed segments, durably, with an entry about it. The chain bridges the gap."""
        await self._writer.change(partial(self._log.remove, segments=frozenset(segments), principal=principal))

    async def rekey_audit(self, *, principal: str) -> None:
        """Sign the log with a new key, durably, with an entry about it. Older signatures are not checked."""
        await self._writer.change(partial(self._log.rekey, principal=principal))

    # Tools

    async def save_tools(self, upstream: str, specs: Sequence[ToolSpec], *, releases: Sequence[Release] = ()) -> bool:
        """Replace the tools of an upstream and add their releases, durably.

        False, without any change, if another gateway has added a release of one of them.

        Raises:
            StoreError: It could not be written, or a definition is nested too deeply to be stored.
        """
        encoded = await asyncio.to_thread(lambda: [tools.encode_tool(spec) for spec in specs])
        history = await asyncio.to_thread(lambda: [tools.encode_release(release) for release in releases])
        now = time.time()

        def write(connection: sqlite3.Connection) -> bool:
            is_first = tools.write_releases(connection, upstream, history)
            if is_first:
                tools.write_tools(connection, upstream, encoded, now)
            return is_first

        return await self._writer.change(write)

    load_tools = reads(tools.read_tools)

    drop_tools = writes(tools.delete_tools)
    save_fingerprint = writes(tools.write_fingerprint)
    fingerprints = reads(tools.read_fingerprints)
    changes = reads(tools.read_changes)

    put_vectors = writes(journal.write_vectors)
    get_vectors = reads(journal.read_vectors)
    alerts = reads(_read_alerts)
    replace_alerts = writes(_replace_alerts)
    census = reads(_read_census)

    # Beside the database

    def lead(self, job: str) -> Lead:
        """The right to do a job for all gateways of the store."""
        return Lead(self._path, job)

    def watch_audit(self) -> AuditWatch:
        """A continuous verification of the audit log."""
        return AuditWatch(self._path)
