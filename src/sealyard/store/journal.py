"""Recorded calls that can be answered again, and the keys by which a repeated request finds its execution.

An answer too large for the journal is kept compressed, within a budget of bytes and days; the oldest go first.

A key is on disk, with the id of its execution, before that execution begins. The same key within a day finds the same
execution: in this gateway, in another one of the same store, and after a crash.
"""

import sqlite3
import time
import zlib
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import msgspec

from sealyard.store.database import Reader
from sealyard.store.rows import CALL_VALUE_BYTES, CALLS, upsert
from sealyard.store.table import reads
from sealyard.store.writer import ROW_BYTES, Writer
from sealyard.values.runs import CallRecord

_PACKER = ThreadPoolExecutor(1, "sealyard-traces")
"""Compresses an answer while the code works on it: the flush at the end does not wait for that."""
_SUMMED_AGAIN = 64
"""Answers between two counts of the total: other gateways write too."""
_EXECUTIONS_COUNTED = 1_024
"""Executions whose bytes are counted, more than run at once; the counts of older ones are dropped."""

_CALLS = (
    f"SELECT {CALLS.listed('calls')}, trace_answers.answer"  # noqa: S608
    " FROM (SELECT execution_id, started_at AS began FROM executions WHERE principal = ?"
    " AND EXISTS (SELECT 1 FROM calls WHERE calls.execution_id = executions.execution_id)"
    " ORDER BY started_at DESC, execution_id DESC LIMIT ?) AS run JOIN calls USING (execution_id)"
    " LEFT JOIN trace_answers ON trace_answers.execution_id = calls.execution_id"
    " AND trace_answers.number = calls.number ORDER BY began DESC, calls.execution_id, calls.number LIMIT ?"
)
_KEY_SECONDS = 86_400.0
"""A key is kept for a day."""


# Recorded calls


class TraceBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The budget for answers that are too large for the journal."""

    answer_bytes: int = 4 << 20
    """Of one answer, as JSON, and of all large answers of one execution."""
    total_bytes: int = 256 << 20
    """Of all answers, compressed."""
    seconds: float = 7 * 86_400.0


def _total_bytes(connection: sqlite3.Connection) -> int:
    total: int = connection.execute("SELECT coalesce(sum(length(answer)), 0) FROM trace_answers").fetchone()[0]
    return total


def _read_calls(
    connection: sqlite3.Connection, principal: str, *, executions: int = 20, calls: int = 500
) -> list[CallRecord]:
    """The calls of a principal's newest executions, the newest execution first, each in order.

    An answer that is not kept is None, with its size in `answer_bytes`.
    """
    rows = connection.execute(_CALLS, (principal, executions, calls))
    found = []
    for *row, packed in rows:
        call = CALLS.build(row)
        if packed is not None and call.answer is None and call.error is None:
            call = msgspec.structs.replace(call, answer=msgspec.json.decode(zlib.decompress(packed)))
        found.append(call)
    return found


# Keys of requests


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The execution of a key."""

    execution_id: str
    request_sha256: str
    is_new: bool
    """True if this claim was the first."""


class IdempotencyTable:
    """The keys of one store, separate for each principal."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def claim(self, principal: str, key: str, *, request_sha256: str, execution_id: str) -> Claim:
        """Bind a key to this execution, durably, unless it is bound already, and return its claim.

        Raises:
            StoreError: It could not be written. Then `release` it before the request fails.
        """
        row = (principal, key, request_sha256, execution_id)
        return await self._writer.change(partial(_claim, row=row, now=time.time()))

    def release(self, principal: str, key: str, execution_id: str) -> None:
        """Free a key whose execution did not begin. Only enqueues."""
        self._writer.put(partial(_release, principal=principal, key=key, execution_id=execution_id), ROW_BYTES)


def _claim(connection: sqlite3.Connection, row: tuple[str, str, str, str], now: float) -> Claim:
    connection.execute("DELETE FROM idempotency_keys WHERE at < ?", (now - _KEY_SECONDS,))
    connection.execute(
        "INSERT INTO idempotency_keys (principal, key, request_sha256, execution_id, at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (principal, key) DO NOTHING",
        (*row, now),
    )
    request_sha256, execution_id = connection.execute(
        "SELECT request_sha256, execution_id FROM idempotency_keys WHERE principal = ? AND key = ?", row[:2]
    ).fetchone()
    return Claim(execution_id=execution_id, request_sha256=request_sha256, is_new=execution_id == row[3])


def _release(connection: sqlite3.Connection, principal: str, key: str, execution_id: str) -> None:
    connection.execute(
        "DELETE FROM idempotency_keys WHERE principal = ? AND key = ? AND execution_id = ?",
        (principal, key, execution_id),
    )


class TraceTable:
    """The recorded calls of one store."""

    def __init__(self, writer: Writer, reader: Reader, budget: TraceBudget) -> None:
        self._writer = writer
        self._reader = reader
        self._budget = budget
        self._kept: OrderedDict[str, int] = OrderedDict()
        """Execution -> kept bytes of its large answers."""
        self._total_bytes: int | None = None
        self._writes = 0

    def keep(self, execution_id: str, number: int, answer: bytes) -> None:
        """Keep a concealed answer, as JSON, that is too large for the journal. Only enqueues."""
        if len(answer) <= CALL_VALUE_BYTES:
            return
        sum_bytes = self._kept.get(execution_id, 0) + len(answer)
        if sum_bytes > self._budget.answer_bytes or not self._budget.total_bytes:
            return
        self._kept[execution_id] = sum_bytes
        self._kept.move_to_end(execution_id)
        while len(self._kept) > _EXECUTIONS_COUNTED:
            self._kept.popitem(last=False)
        packing = _PACKER.submit(zlib.compress, answer, 1)
        write = partial(self._write, execution_id=execution_id, number=number, packing=packing, at=time.time())
        self._writer.put(write, len(answer))

    calls = reads(_read_calls)

    def _write(
        self, connection: sqlite3.Connection, *, execution_id: str, number: int, packing: Future[bytes], at: float
    ) -> None:
        packed = packing.result()
        connection.execute(
            upsert("trace_answers", "execution_id, number, answer, at", key="execution_id, number"),
            (execution_id, number, packed, at),
        )
        if self._total_bytes is None or self._writes % _SUMMED_AGAIN == 0:
            connection.execute("DELETE FROM trace_answers WHERE at < ?", (at - self._budget.seconds,))
            self._total_bytes = _total_bytes(connection)
        else:
            self._total_bytes += len(packed)
        self._writes += 1
        while self._total_bytes > self._budget.total_bytes:
            gone = connection.execute(
                "DELETE FROM trace_answers WHERE rowid IN (SELECT rowid FROM trace_answers ORDER BY at LIMIT 16)"
            )
            if not gone.rowcount:
                break
            self._total_bytes = _total_bytes(connection)
