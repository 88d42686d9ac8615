"""Recorded calls, to be answered again without any upstream: the journal's, and the large answers that it leaves out.

Large answers are kept compressed, within a budget of bytes and days; the oldest go first.
"""

import sqlite3
import time
import zlib
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import msgspec

from sealyard.store.reader import Reader
from sealyard.store.rows import CALL_COLUMNS, CALL_VALUE_BYTES, to_call, upsert
from sealyard.store.writer import Writer
from sealyard.values import CallRecord

_PACKER = ThreadPoolExecutor(1, "sealyard-traces")
"""Packs an answer while the code works on it: whoever waits for the write at the end need not wait for that too."""
_SUMMED_AGAIN = 64
"""Another gateway may have written meanwhile, so what is there is summed up again after so many answers."""
_EXECUTIONS_COUNTED = 1_024

_CALLS = (
    f"SELECT {', '.join(f'calls.{name}' for name in CALL_COLUMNS)}, trace_answers.answer"  # noqa: S608
    " FROM (SELECT execution_id, started_at AS began FROM executions WHERE principal = ?"
    " AND EXISTS (SELECT 1 FROM calls WHERE calls.execution_id = executions.execution_id)"
    " ORDER BY started_at DESC, execution_id DESC LIMIT ?) AS run JOIN calls USING (execution_id)"
    " LEFT JOIN trace_answers ON trace_answers.execution_id = calls.execution_id"
    " AND trace_answers.number = calls.number ORDER BY began DESC, calls.execution_id, calls.number LIMIT ?"
)


class TraceBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept of answers that are too large for the journal."""

    answer_bytes: int = 4 << 20
    """Of one answer, as JSON, and of all large ones of one execution together."""
    total_bytes: int = 256 << 20
    """Of all of them, compressed."""
    seconds: float = 7 * 86_400.0


class TraceTable:
    """The recorded calls of one store."""

    def __init__(self, writer: Writer, reader: Reader, budget: TraceBudget) -> None:
        self._writer = writer
        self._reader = reader
        self._budget = budget
        self._kept: OrderedDict[str, int] = OrderedDict()
        """Execution -> the bytes that are kept of its large answers."""
        self._total_bytes: int | None = None
        self._writes = 0

    def keep(self, execution_id: str, number: int, answer: bytes) -> None:
        """Keep a concealed answer, JSON, that is too large for the journal. Only enqueues, as `record_call` does."""
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

    async def calls(self, principal: str, *, executions: int = 20, calls: int = 500) -> list[CallRecord]:
        """The calls of a principal's newest executions, the newest execution first, each in its order.

        An answer that was too large is None, and its `answer_bytes` say so.
        """
        return await self._reader.read(_read_calls, principal, executions, calls)

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


def _total_bytes(connection: sqlite3.Connection) -> int:
    total: int = connection.execute("SELECT coalesce(sum(length(answer)), 0) FROM trace_answers").fetchone()[0]
    return total


def _read_calls(connection: sqlite3.Connection, principal: str, executions: int, calls: int) -> list[CallRecord]:
    rows = connection.execute(_CALLS, (principal, executions, calls))
    found = []
    for *row, packed in rows:
        call = to_call(row)
        if packed is not None and call.answer is None and call.error is None:
            call = msgspec.structs.replace(call, answer=msgspec.json.decode(zlib.decompress(packed)))
        found.append(call)
    return found
