"""Executions and their calls as rows, calls that can be answered again, vectors, and keys of repeated requests.

Code is kept byte for byte. An answer too large for the journal is kept compressed, within a budget of bytes and days;
the oldest go first.

A key is on disk, with the id of its execution, before that execution begins. The same key within a day finds the same
execution: in this gateway, in another one of the same store, and after a crash.
"""

import hashlib
import sqlite3
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec

from sealyard.store.columns import PARAMETERS, Columns, insert, upsert, where
from sealyard.store.database import Reader
from sealyard.store.stored_json import encode_context, encode_json, encode_within, storable
from sealyard.store.table import Table, reads, writes
from sealyard.store.writer import ROW_BYTES, Writer
from sealyard.values.runs import CALL_VALUE_BYTES, CallRecord, ExecutionRecord, Outcome, RecordStatus

_PACKER = ThreadPoolExecutor(1, "sealyard-traces")
"""Compresses an answer while the code works on it: the flush at the end does not wait for that."""
_SUMMED_AGAIN = 64
"""Answers between two counts of the total: other gateways write too."""
_EXECUTIONS_COUNTED = 1_024
"""Executions whose bytes are counted, more than run at once; the counts of older ones are dropped."""

_KEY_SECONDS = 86_400.0
"""A key is kept for a day."""
_T = TypeVar("_T")


# Executions and calls


_CALLS = (
    "calls (execution_id, number, tool, digest, arguments, arguments_cut, answer, answer_cut, answer_bytes,"
    " answer_sample, error, started_at, seconds, version, upstream)"
)
CALLS = Columns(
    "calls",
    CallRecord,
    json=("arguments", "answer"),
    read={"version": "coalesce(nullif(version, ''), '1.0.0')"},  # calls from before tools had versions
    left_out=("answer_sample",),
)
"""A call for reading."""
_EXECUTIONS = Columns(
    "executions JOIN codes ON codes.sha256 = executions.code_sha256",
    ExecutionRecord,
    json=("context", "outcome"),
    decode={"code": lambda code: code.decode("utf-8", "surrogatepass"), "background": bool},
)


def write_executions(connection: sqlite3.Connection, records: Iterable[ExecutionRecord], owner: str) -> None:
    """Insert or replace executions, each in its last state, with their code."""
    last = {record.execution_id: record for record in records}.values()
    codes = []
    rows = []
    for record in last:
        code = record.code.encode("utf-8", "surrogatepass")
        sha256 = hashlib.sha256(code).hexdigest()
        codes.append((sha256, code))
        context, context_cut = encode_context(record.context)
        rows.append(
            (
                storable(record.execution_id),
                owner,
                storable(record.principal),
                storable(record.session),
                sha256,
                context,
                context_cut,
                record.started_at,
                record.ended_at,
                record.status,
                _encode_outcome(record.outcome),
                storable(record.catalog_version),
                record.background,
                record.form,
            )
        )
    connection.executemany("INSERT INTO codes (sha256, code) VALUES (?, ?) ON CONFLICT DO NOTHING", codes)
    connection.executemany(
        upsert(
            "executions",
            "execution_id, owner, principal, session, code_sha256, context, context_cut, started_at, ended_at, status,"
            " outcome, catalog_version, background, form",
            key="execution_id",
        ),
        rows,
    )


def write_calls(connection: sqlite3.Connection, records: Iterable[CallRecord]) -> None:
    """Insert calls."""
    rows = []
    for record in records:
        arguments, arguments_cut = encode_within(record.arguments, CALL_VALUE_BYTES)
        if record.answer_bytes > CALL_VALUE_BYTES:
            answer, answer_cut = None, True
        else:
            answer, answer_cut = encode_within(record.answer, CALL_VALUE_BYTES)
        rows.append(
            (
                storable(record.execution_id),
                record.number,
                storable(record.tool),
                storable(record.digest),
                arguments,
                arguments_cut,
                answer,
                answer_cut,
                record.answer_bytes,
                record.answer_sample,
                None if record.error is None else storable(record.error),
                record.started_at,
                record.seconds,
                storable(record.version),
                storable(record.upstream),
            )
        )
    insert(connection, _CALLS, rows)


def read_execution(connection: sqlite3.Connection, execution_id: str) -> ExecutionRecord | None:
    """One execution; None if the id is unknown."""
    return _EXECUTIONS.first(connection, "WHERE execution_id = ?", (storable(execution_id),))


def read_executions(
    connection: sqlite3.Connection,
    *,
    limit: int = 50,
    before: str | None = None,
    principal: str | None = None,
    status: RecordStatus | None = None,
) -> list[ExecutionRecord]:
    """Executions, the newest first; optionally of one principal or status, and older than the one called `before`.

    Nothing comes before an unknown id.
    """
    return shape_executions(
        connection, lambda record: record, limit=limit, before=before, principal=principal, status=status
    )


def shape_executions(
    connection: sqlite3.Connection,
    shape: Callable[[ExecutionRecord], _T],
    *,
    limit: int = 50,
    before: str | None = None,
    principal: str | None = None,
    status: RecordStatus | None = None,
) -> list[_T]:
    """The result of `shape` for each execution, in the reader's thread: one execution is in memory at a time."""
    # With a literal for the running ones: their index has a condition.
    status_is = "status = 'running' AND status = ?" if status == "running" else "status = ?"
    conditions, values = where(
        (status_is, status),
        ("principal = ?", None if principal is None else storable(principal)),
        (
            "(started_at, execution_id) < (SELECT started_at, execution_id FROM executions WHERE execution_id = ?)",
            None if before is None else storable(before),
        ),
    )
    order = " ORDER BY started_at DESC, execution_id DESC LIMIT ?"
    rows = _EXECUTIONS.execute(connection, conditions + order, (*values, limit))
    return [shape(_EXECUTIONS.build(row)) for row in rows]


def read_calls(
    connection: sqlite3.Connection, execution_id: str, *, after: int = -1, limit: int | None = None
) -> list[CallRecord]:
    """The calls of one execution in order, optionally after number `after` and at most `limit`.

    An answer or arguments that were left out are None.
    """
    return CALLS.all(
        connection,
        "WHERE execution_id = ? AND number > ? ORDER BY number LIMIT ?",
        (storable(execution_id), after, -1 if limit is None else limit),
    )


def _encode_outcome(outcome: Outcome | None) -> str | None:
    if outcome is None:
        return None
    text = encode_json(outcome)
    if text is None:
        notes = (*outcome.notes, "The result could not be stored.")
        text = encode_json(msgspec.structs.replace(outcome, result=None, notes=notes))
    return text


# Vectors


def write_vectors(connection: sqlite3.Connection, model: str, vectors: Mapping[str, bytes]) -> None:
    """Keep vectors of a model, durably, by the digest of their text."""
    connection.executemany(
        upsert("vectors", "model, digest, vector", key="model, digest"),
        [(model, digest, vector) for digest, vector in vectors.items()],
    )


def read_vectors(connection: sqlite3.Connection, model: str, digests: Iterable[str]) -> dict[str, bytes]:
    """The vectors that are kept, by digest."""
    found: dict[str, bytes] = {}
    wanted = tuple(digests)
    for start in range(0, len(wanted), PARAMETERS):
        some = wanted[start : start + PARAMETERS]
        marks = ", ".join("?" * len(some))
        query = f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})"  # noqa: S608
        found.update(connection.execute(query, (model, *some)))
    return found


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


_RECORDED = (
    f"SELECT {CALLS.listed('calls')}, trace_answers.answer"  # noqa: S608
    " FROM (SELECT execution_id, started_at AS began FROM executions WHERE principal = ?"
    " AND EXISTS (SELECT 1 FROM calls WHERE calls.execution_id = executions.execution_id)"
    " ORDER BY started_at DESC, execution_id DESC LIMIT ?) AS run JOIN calls USING (execution_id)"
    " LEFT JOIN trace_answers ON trace_answers.execution_id = calls.execution_id"
    " AND trace_answers.number = calls.number ORDER BY began DESC, calls.execution_id, calls.number LIMIT ?"
)


def _read_recorded(
    connection: sqlite3.Connection, principal: str, *, executions: int = 20, calls: int = 500
) -> list[CallRecord]:
    """The calls of a principal's newest executions, the newest execution first, each in order.

    An answer that is not kept is None, with its size in `answer_bytes`.
    """
    rows = connection.execute(_RECORDED, (principal, executions, calls))
    found = []
    for *row, packed in rows:
        call = CALLS.build(row)
        if packed is not None and call.answer is None and call.error is None:
            call = msgspec.structs.replace(call, answer=msgspec.json.decode(zlib.decompress(packed)))
        found.append(call)
    return found


class TraceTable(Table):
    """The recorded calls of one store."""

    def __init__(self, writer: Writer, reader: Reader, budget: TraceBudget) -> None:
        super().__init__(writer, reader)
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

    calls = reads(_read_recorded)

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


# Keys of requests


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The execution of a key."""

    execution_id: str
    request_sha256: str
    is_new: bool
    """True if this claim was the first."""


def _claim(
    connection: sqlite3.Connection, principal: str, key: str, *, request_sha256: str, execution_id: str
) -> Claim:
    """Bind a key to this execution, durably, unless it is bound already, and return its claim.

    Raises:
        StoreError: It could not be written. Then `release` it before the request fails.
    """
    now = time.time()
    connection.execute("DELETE FROM idempotency_keys WHERE at < ?", (now - _KEY_SECONDS,))
    connection.execute(
        "INSERT INTO idempotency_keys (principal, key, request_sha256, execution_id, at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (principal, key) DO NOTHING",
        (principal, key, request_sha256, execution_id, now),
    )
    request, first = connection.execute(
        "SELECT request_sha256, execution_id FROM idempotency_keys WHERE principal = ? AND key = ?", (principal, key)
    ).fetchone()
    return Claim(execution_id=first, request_sha256=request, is_new=first == execution_id)


def _release(connection: sqlite3.Connection, row: tuple[str, str, str]) -> None:
    connection.execute("DELETE FROM idempotency_keys WHERE principal = ? AND key = ? AND execution_id = ?", row)


class IdempotencyTable(Table):
    """The keys of one store, separate for each principal."""

    claim = writes(_claim)

    def release(self, principal: str, key: str, execution_id: str) -> None:
        """Free a key whose execution did not begin. Only enqueues."""
        self._writer.put(partial(_release, row=(principal, key, execution_id)), ROW_BYTES)
