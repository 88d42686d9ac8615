"""Records as rows, and rows as records.

Values are kept as JSON text: NaN and the infinities become null. A lone surrogate is kept as its escape; code is kept
byte for byte. A value that is too large, or that JSON cannot hold, is left out and marked as cut.
"""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from sealyard.values.runs import CallRecord, ExecutionRecord, Outcome, RecordStatus

CALL_VALUE_BYTES = 64 << 10
"""Longer arguments and answers are left out: agent code makes thousands of calls and must not fill the disk."""

_CONTEXT_BYTES = 1 << 20
"""Of the context of an execution: agents pass whole answers in it."""
_SPARE_LEVELS = 32
"""Levels of nesting kept in reserve for a reader deeper in its stack."""
_LONG_NUMBER = re.compile(r"-[0-9]{4300}")
"""The only number that `msgspec` writes and cannot read: its limit counts the sign, and Python's does not."""
_FEW_BRACKETS = 200
"""Text with fewer brackets can be read: nesting fails at about a thousand levels."""
PARAMETERS = 500
"""Parameters of one statement; every SQLite takes 999."""

_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)
_ENCODER = msgspec.json.Encoder()
_CALLS = (
    "calls (execution_id, number, tool, digest, arguments, arguments_cut, answer, answer_cut, answer_bytes,"
    " answer_sample, error, started_at, seconds, version, upstream)"
)


# Structs and statements


class Columns(Generic[_S]):
    """The fields of a struct as columns of the same names in `table`: one list for every statement about them.

    `json` fields are kept as JSON text, and `decode` has the functions for other columns that differ from their field.
    `read` has the SQL of a field that is not read from its column alone. Fields `left_out` are not read.
    """

    def __init__(
        self,
        table: str,
        struct: type[_S],
        *,
        json: Collection[str] = (),
        decode: Mapping[str, Callable[[Any], Any]] | None = None,
        read: Mapping[str, str] | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        hints = get_type_hints(struct)
        self.names = tuple(name for name in struct.__struct_fields__ if name not in left_out)
        self._table = table
        self._struct = struct
        self._json = json
        self._decode = {name: msgspec.json.Decoder(hints[name]).decode for name in json} | dict(decode or {})
        self._read = read or {}

    def all(self, connection: sqlite3.Connection, conditions: str = "", values: Any = ()) -> list[_S]:
        """Every row, in the order that `conditions` gives. `conditions` is the rest of the statement."""
        return [self.build(row) for row in self.execute(connection, conditions, values)]

    def first(self, connection: sqlite3.Connection, conditions: str, values: Any = ()) -> _S | None:
        """The first of those rows; None if there is none."""
        row = self.execute(connection, conditions, values).fetchone()
        return None if row is None else self.build(row)

    def execute(self, connection: sqlite3.Connection, conditions: str, values: Any) -> sqlite3.Cursor:
        """Select the rows for `build`."""
        return connection.execute(f"SELECT {self.listed()} FROM {self._table} {conditions}", values)  # noqa: S608

    def listed(self, table: str = "") -> str:
        """The columns for a `SELECT`, qualified with `table` if it is given."""
        prefix = f"{table}." if table else ""
        return ", ".join(self._read.get(name, prefix + name) for name in self.names)

    def build(self, row: Sequence[Any]) -> _S:
        """Build a struct from the columns of `listed`, in their order."""
        found = dict(zip(self.names, row, strict=True))
        for name, decode in self._decode.items():
            if found[name] is not None:
                found[name] = decode(found[name])
        return self._struct(**found)

    def values(self, record: _S, **instead: Any) -> dict[str, Any]:
        """The columns of a record by name, for `named_insert`; `instead` replaces some of them."""
        found = {name: getattr(record, name) for name in self.names if name not in instead}
        for name, value in found.items():
            if name in self._json:
                found[name] = encode_json(value)
            elif isinstance(value, str):
                found[name] = storable(value)
        return found | instead

    def put(self, connection: sqlite3.Connection, record: _S, *, key: str = "", **instead: Any) -> None:
        """Insert a record, in place of the one with the same `key` if a key is given."""
        values = self.values(record, **instead)
        names = ", ".join(values)
        statement = upsert(self._table, names, key=key) if key else named_insert(self._table, values)
        connection.execute(statement, tuple(values.values()) if key else values)


def named_insert(table: str, names: Iterable[str]) -> str:
    """The statement that inserts a row, given by a mapping with these names."""
    names = tuple(names)
    marks = ", ".join(f":{name}" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our names


def where(*conditions: tuple[str, object]) -> tuple[str, list[object]]:
    """The `WHERE` clause of those conditions whose value is not None, and these values."""
    given = [(condition, value) for condition, value in conditions if value is not None]
    clause = f" WHERE {' AND '.join(condition for condition, _ in given)}" if given else ""
    return clause, [value for _, value in given]


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows into the columns that `table` names. They must be small: a statement keeps its last values.

    Many rows share a statement, since each one costs several turns at Python's lock.
    """
    if not rows:
        return
    width = len(rows[0])
    size = PARAMETERS // width
    whole = len(rows) // size * size
    for start in range(0, whole, size):
        connection.execute(_insertion(table, width, size), list(chain.from_iterable(rows[start : start + size])))
    if whole < len(rows):
        connection.executemany(_insertion(table, width, 1), rows[whole:])


@cache
def _insertion(table: str, width: int, count: int) -> str:
    one = f"({', '.join('?' * width)})"
    return f"INSERT INTO {table} VALUES {', '.join([one] * count)}"  # noqa: S608 - our names


@cache
def upsert(table: str, columns: str, *, key: str) -> str:
    """The statement that inserts a row or replaces the one with the same `key`. Commas separate names."""
    names, keys = columns.split(", "), key.split(", ")
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    return f"{_insertion(f'{table} ({columns})', len(names), 1)} ON CONFLICT ({key}) DO UPDATE SET {changes}"


# Executions and calls


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


def touch(connection: sqlite3.Connection, probes: Sequence[None]) -> None:
    """Rewrite a page of the database unchanged."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version:d}")


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


# Values


def encode_context(context: Any) -> tuple[str | None, bool]:
    """JSON text of a context, and True if it was left out."""
    return encode_within(context, _CONTEXT_BYTES)


def encode_within(value: Any, most_bytes: int) -> tuple[str | None, bool]:
    """JSON text of a value, and True if it was left out."""
    if value is None:
        return None, False
    if is_longer(value, most_bytes):
        return None, True
    text = encode_json(value)
    if text is None or len(text) > most_bytes:
        return None, True
    return text, False


def is_longer(value: Any, most: int) -> bool:
    """True if the JSON text of a value is surely longer than `most`, judged by its parts without encoding it.

    Encoding a megabyte blocks other threads for some milliseconds, and checking the text ten times as long.
    """
    waiting = [value]
    for item in waiting:  # grows during the loop
        if isinstance(item, (str, bytes)):
            most -= len(item)
        elif isinstance(item, (dict, list, tuple)):
            if len(item) > most:
                return True
            waiting += item
            if isinstance(item, dict):
                waiting += item.values()
        most -= 1
        if most < 0:
            return True
    return False


def _encode_outcome(outcome: Outcome | None) -> str | None:
    if outcome is None:
        return None
    text = encode_json(outcome)
    if text is None:
        notes = (*outcome.notes, "The result could not be stored.")
        text = encode_json(msgspec.structs.replace(outcome, result=None, notes=notes))
    return text


def encode_json(value: Any) -> str | None:
    """JSON text that can be read again; None if there is none."""
    try:
        try:
            return encode_strictly(value)
        except UnicodeEncodeError:
            return encode_strictly(_mend(msgspec.to_builtins(value)))
    except (msgspec.DecodeError, OverflowError, RecursionError, TypeError, ValueError):
        return None


def encode_strictly(value: Any) -> str:
    """JSON text that can be read again. Raises what `encode_json` and `msgspec` name for a value that has none."""
    text = _ENCODER.encode(value).decode()
    if text.count("[") + text.count("{") > _FEW_BRACKETS:
        # Inside some more lists: text nested almost too deeply may be unreadable deeper in a stack.
        for _ in range(_SPARE_LEVELS):
            value = [value]
        _ENCODER.encode(value)
    if _LONG_NUMBER.search(text):
        msgspec.json.decode(text)  # raises, unless that is part of a string
    return text


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_mend(key): _mend(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mend(each) for each in value]
    return value


def storable(text: str) -> str:
    """The text with an escape for each lone surrogate, which no database takes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
