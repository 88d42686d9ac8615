"""Which rows are removed when they are old: whole UTC days, and only what has been added to the sums."""

import sqlite3
from collections.abc import Awaitable, Callable

import msgspec

from sealyard.store.learning import remove_learned
from sealyard.store.metrics.fold import COLUMNS, DAY, Stream, read_marks, write_mark
from sealyard.store.writer import Write

_ROWS = 500
"""Are removed in one transaction: others write in between."""


_Counts = tuple[int, ...]


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows were removed."""

    executions: int
    calls: int
    facts: int
    codes: int
    keys: int
    """Of requests that are the same if they are made again."""
    hours: int
    """Sums of single hours."""


async def prune(write: Callable[[Write], Awaitable[None]], before: float, hours_before: float) -> Pruned:
    """Remove what is of the days before these times. `write` commits."""
    days, hours = int(max(before, 0.0)) // DAY * DAY, int(max(hours_before, 0.0)) // DAY * DAY
    # First, in a transaction of its own: from now on nobody counts those days from their rows.
    await write(lambda connection: _mark(connection, days, hours))

    executions, codes = await _repeat(write, lambda connection: _remove_executions(connection, days))
    (calls,) = await _repeat(write, lambda connection: _remove_rows(connection, "calls", days))
    (facts,) = await _repeat(write, lambda connection: _remove_rows(connection, "facts", days))
    (keys,) = await _repeat(write, lambda connection: _remove_keys(connection, days))
    (gone,) = await _repeat(write, lambda connection: _remove_hours(connection, hours))
    await write(lambda connection: remove_learned(connection, days))
    return Pruned(executions=executions, calls=calls, facts=facts, codes=codes, keys=keys, hours=gone)


async def _repeat(
    write: Callable[[Write], Awaitable[None]], remove: Callable[[sqlite3.Connection], _Counts]
) -> _Counts:
    """Remove, a transaction at a time, until nothing is left; the sums of what `remove` returns."""
    removed: list[_Counts] = []
    sums: _Counts = ()
    while True:
        await write(lambda connection: removed.append(remove(connection)))
        counts = removed[-1]  # what was tried before it was undone
        sums = tuple(a + b for a, b in zip(sums, counts, strict=True)) if sums else counts
        if not counts[0]:
            return sums


def _mark(connection: sqlite3.Connection, days: int, hours: int) -> None:
    marks = read_marks(connection)
    write_mark(connection, "days", max(marks.days, days))
    write_mark(connection, "hours", max(marks.hours, hours))


def _remove_executions(connection: sqlite3.Connection, days: int) -> tuple[int, int]:
    """Executions that are over, and code that no other one has."""
    found = connection.execute(
        "SELECT execution_id, code_sha256 FROM executions WHERE started_at < ? AND status <> 'running' LIMIT ?",
        (days, _ROWS),
    ).fetchall()
    connection.executemany("DELETE FROM executions WHERE execution_id = ?", [(each,) for each, _ in found])
    codes = connection.executemany(
        "DELETE FROM codes WHERE sha256 = ? AND NOT EXISTS (SELECT 1 FROM executions WHERE code_sha256 = sha256)",
        [(code,) for code in {code for _, code in found}],
    )
    return len(found), max(0, codes.rowcount)


def _remove_rows(connection: sqlite3.Connection, stream: Stream, days: int) -> tuple[int]:
    """Rows of a stream that have been added to the sums and are of no running execution.

    Not the highest: the next one would get its number, which has been added already.
    """
    number, at = COLUMNS[stream]
    mark = getattr(read_marks(connection), stream)
    rows = connection.execute(
        f"DELETE FROM {stream} WHERE {number} IN (SELECT {number} FROM {stream}"  # noqa: S608
        f" WHERE {at} < ? AND +{number} <= ? AND +{number} < (SELECT max({number}) FROM {stream})"
        " AND execution_id NOT IN (SELECT execution_id FROM executions WHERE status = 'running') LIMIT ?)",
        (days, mark, _ROWS),
    )
    return (rows.rowcount,)


def _remove_keys(connection: sqlite3.Connection, days: int) -> tuple[int]:
    rows = connection.execute(
        "DELETE FROM idempotency_keys WHERE (principal, key) IN"
        " (SELECT principal, key FROM idempotency_keys WHERE at < ? LIMIT ?)",
        (days, _ROWS),
    )
    return (rows.rowcount,)


def _remove_hours(connection: sqlite3.Connection, hours: int) -> tuple[int]:
    rows = connection.execute(
        "DELETE FROM metric_sums WHERE rowid IN"
        " (SELECT rowid FROM metric_sums WHERE span = 'hour' AND start < ? LIMIT ?)",
        (hours, _ROWS),
    )
    return (rows.rowcount,)
