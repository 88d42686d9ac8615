"""Records as rows and back.

Values are kept as JSON text: NaN and the infinities become null. Text that is not Unicode, a lone surrogate, is kept as
its escape; code is kept byte for byte. A value that is too large, or that is no JSON, is left out and marked as cut.
"""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from sealyard.values import CallRecord, ExecutionRecord, Outcome

CALL_VALUE_BYTES = 64 << 10
"""Longer arguments and answers are left out: agent code makes thousands of calls and must not fill the disk."""

_CONTEXT_BYTES = 1 << 20
_SPARE_LEVELS = 32
_INTEGER_DIGITS = 4300
_DECODED_CHARACTERS = 64 << 10
_DIGITS = "0123456789"
_NUMBER = re.compile(r"[0-9]*")
"""Sought in longer texts, which hold up everybody while they are decoded."""
"""A longer number, with its sign, is not read by `msgspec`, though Python may be told to write it."""
_PARAMETERS = 500
"""In one statement; every SQLite takes 999."""
_FEW_BRACKETS = 200
"""Text with fewer is not nested too deeply to be read, which begins at about a thousand levels."""

_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)
_ENCODER = msgspec.json.Encoder()
_CALLS = (
    "calls (execution_id, number, tool, digest, arguments, arguments_cut, answer, answer_cut, answer_bytes,"
    " answer_sample, error, started_at, seconds, version, upstream)"
)


# Structs and statements


class Columns(Generic[_S]):
    """The fields of a struct as columns of the same names: one list for every statement about them.

    `json` fields are kept as JSON text, and `decode` has the functions for other columns that differ from their field.
    `read` has the SQL of a field that is not read from its column alone. Fields `left_out` are not read.
    """

    def __init__(
        self,
        struct: type[_S],
        *,
        json: Collection[str] = (),
        decode: Mapping[str, Callable[[Any], Any]] | None = None,
        read: Mapping[str, str] | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        hints = get_type_hints(struct)
        self.names = tuple(name for name in struct.__struct_fields__ if name not in left_out)
        self._struct = struct
        self._json = json
        self._decode = {name: msgspec.json.Decoder(hints[name]).decode for name in json} | dict(decode or {})
        self._read = read or {}

    def select(self, table: str) -> str:
        """The statement that reads the fields of all rows; conditions follow."""
        return f"SELECT {self.listed()} FROM {table}"  # noqa: S608 - our names

    def listed(self, table: str = "") -> str:
        """The columns for a `SELECT`, each with the name of its table if that is given."""
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
        """The columns of a record by name, as `named_insert` takes them; `instead` has those that differ from it."""
        found = {name: getattr(record, name) for name in self.names if name not in instead}
        for name, value in found.items():
            if name in self._json:
                found[name] = encode_json(value)
            elif isinstance(value, str):
                found[name] = storable(value)
        return found | instead


def named_insert(table: str, names: Iterable[str]) -> str:
    """The statement that inserts a row, given by a mapping with these names."""
    names = tuple(names)
    marks = ", ".join(f":{name}" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our names


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of the columns that `table` names. They must be small: a statement keeps what it was given last.

    Many rows share a statement: each statement costs several turns at Python's lock beside what it does.
    """
    if not rows:
        return
    width = len(rows[0])
    size = _PARAMETERS // width
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
    """The statement that inserts a row, or replaces the one with the same `key`. Names are separated by commas."""
    names, keys = columns.split(", "), key.split(", ")
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    return f"{_insertion(f'{table} ({columns})', len(names), 1)} ON CONFLICT ({key}) DO UPDATE SET {changes}"


# Executions and calls


CALLS = Columns(
    CallRecord,
    json=("arguments", "answer"),
    read={"version": "coalesce(nullif(version, ''), '1.0.0')"},  # of a call from before tools had versions
    left_out=("answer_sample",),
)
"""A call as it is read."""
_EXECUTIONS = Columns(
    ExecutionRecord,
    json=("context", "outcome"),
    decode={"code": lambda code: code.decode("utf-8", "surrogatepass"), "background": bool},
)
_SELECT_EXECUTION = _EXECUTIONS.select("executions JOIN codes ON codes.sha256 = executions.code_sha256")


def touch(connection: sqlite3.Connection, probes: Sequence[None]) -> None:
    """Write a page of the database as it is."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version:d}")


def write_executions(connection: sqlite3.Connection, records: Iterable[ExecutionRecord], owner: str) -> None:
    """Insert or replace executions, each as it was recorded last, and keep their code."""
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
            )
        )
    connection.executemany("INSERT INTO codes (sha256, code) VALUES (?, ?) ON CONFLICT DO NOTHING", codes)
    connection.executemany(
        upsert(
            "executions",
            "execution_id, owner, principal, session, code_sha256, context, context_cut, started_at, ended_at, status,"
            " outcome, catalog_version, background",
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
    """One execution; None if there is no such id."""
    row = connection.execute(f"{_SELECT_EXECUTION} WHERE execution_id = ?", (storable(execution_id),)).fetchone()
    return None if row is None else _EXECUTIONS.build(row)


def read_executions(
    connection: sqlite3.Connection, limit: int, before: str | None, principal: str | None, status: str | None = None
) -> list[ExecutionRecord]:
    """Executions, the newest first; of one principal and status, and started before the one called `before`."""
    return shape_executions(connection, lambda record: record, limit, before, principal, status)


def shape_executions(
    connection: sqlite3.Connection,
    shape: Callable[[ExecutionRecord], _T],
    limit: int,
    before: str | None,
    principal: str | None,
    status: str | None,
) -> list[_T]:
    """What `shape` makes of each of them, one after the other."""
    conditions = []
    values: list[object] = []
    if status == "running":
        conditions.append("status = 'running'")  # spelled out, there is an index of those
    elif status is not None:
        conditions.append("status = ?")
        values.append(status)
    if principal is not None:
        conditions.append("principal = ?")
        values.append(storable(principal))
    if before is not None:
        conditions.append(
            "(started_at, execution_id) < (SELECT started_at, execution_id FROM executions WHERE execution_id = ?)"
        )
        values.append(storable(before))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = " ORDER BY started_at DESC, execution_id DESC LIMIT ?"
    return [
        shape(_EXECUTIONS.build(row)) for row in connection.execute(_SELECT_EXECUTION + where + order, (*values, limit))
    ]


def read_calls(connection: sqlite3.Connection, execution_id: str, after: int = -1, limit: int = -1) -> list[CallRecord]:
    """The calls of one execution in their order, after number `after`. What was cut is None."""
    rows = connection.execute(
        f"{CALLS.select('calls')} WHERE execution_id = ? AND number > ? ORDER BY number LIMIT ?",
        (storable(execution_id), after, limit),
    )
    return [CALLS.build(row) for row in rows]


# Vectors


def write_vectors(connection: sqlite3.Connection, model: str, vectors: Mapping[str, bytes]) -> None:
    """Keep vectors by the digest of what they stand for."""
    connection.executemany(
        upsert("vectors", "model, digest, vector", key="model, digest"),
        [(model, digest, vector) for digest, vector in vectors.items()],
    )


def read_vectors(connection: sqlite3.Connection, model: str, digests: Sequence[str]) -> dict[str, bytes]:
    """Those of the vectors that are there."""
    found: dict[str, bytes] = {}
    for start in range(0, len(digests), _PARAMETERS):
        some = digests[start : start + _PARAMETERS]
        marks = ", ".join("?" * len(some))
        query = f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})"  # noqa: S608
        found.update(connection.execute(query, (model, *some)))
    return found


# Values


def encode_context(context: Any) -> tuple[str | None, bool]:
    """JSON text of what code was given, and whether it was left out."""
    return encode_within(context, _CONTEXT_BYTES)


def encode_within(value: Any, most_bytes: int) -> tuple[str | None, bool]:
    """JSON text of a value and whether it was left out."""
    if value is None:
        return None, False
    if is_longer(value, most_bytes):
        return None, True
    text = encode_bounded(value)
    if text is None or len(text) > most_bytes:
        return None, True
    return text, False


def is_longer(value: Any, most: int) -> bool:
    """Whether the JSON text of a value is surely longer than that: told by what is in it, without writing it down.

    To write down a megabyte takes some milliseconds, in which nothing else runs, and to check that it can be read again
    ten times as long.
    """
    waiting = [value]
    for item in waiting:  # it grows meanwhile
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


def encode_bounded(value: Any) -> str | None:
    """What `_encode` gives, faster, for a value of which `is_longer` says that it is not large."""
    try:
        encoded = _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
        return encode_json(value)
    if len(encoded) < _INTEGER_DIGITS and encoded.count(b"[") + encoded.count(b"{") < _FEW_BRACKETS:
        return encoded.decode()  # so short and flat that there is no doubt that it can be read again
    return encode_json(value)


def encode_json(value: Any) -> str | None:
    """JSON text that can be read again; None for what cannot be written so."""
    try:
        try:
            return _encode_strictly(value)
        except UnicodeEncodeError:
            return _encode_strictly(_mend(msgspec.to_builtins(value)))
    except (msgspec.DecodeError, OverflowError, RecursionError, TypeError, ValueError):
        return None


def _encode_strictly(value: Any) -> str:
    # Inside some lists, which are taken off again: what is nested almost too deeply to be written might be too deep to
    # be read again, since the depth of the reader's stack counts too.
    for _ in range(_SPARE_LEVELS):
        value = [value]
    text = _ENCODER.encode(value)[_SPARE_LEVELS:-_SPARE_LEVELS].decode()
    if len(text) > _INTEGER_DIGITS and (len(text) <= _DECODED_CHARACTERS or _has_long_number(text)):
        msgspec.json.decode(text)  # there may be a number that is too long for the reader
    return text


def _has_long_number(text: str) -> bool:
    """Whether there are `_INTEGER_DIGITS` digits in a row: if so, one of them is at one of the places that are tried.

    A search for so many digits would look at every character, for 20 ms a megabyte in which nothing else runs.
    """
    for place in range(_INTEGER_DIGITS - 1, len(text), _INTEGER_DIGITS):
        if text[place] in _DIGITS:
            before = text[place - _INTEGER_DIGITS + 1 : place]
            found = _NUMBER.match(text, place)
            assert found is not None  # no digits match too
            if len(before) - len(before.rstrip(_DIGITS)) + len(found[0]) >= _INTEGER_DIGITS:
                return True
    return False


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_mend(key): _mend(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mend(each) for each in value]
    return value


def storable(text: str) -> str:
    """The text, with an escape for each lone surrogate: no database takes those."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
