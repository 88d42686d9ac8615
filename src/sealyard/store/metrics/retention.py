"""Retention: removes whole UTC days of the journal and of facts, and only rows that are in the sums."""

import sqlite3
from collections.abc import Callable
from functools import partial

import msgspec

from sealyard.store.metrics.sums import COLUMNS, DAY, read_marks, write_mark
from sealyard.store.writer import Writer

_REMOVED_ROWS = 500
"""Rows removed in one transaction: other writes come in between."""

_Counts = tuple[int, ...]


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of removed rows."""

    executions: int
    calls: int
    facts: int
    codes: int
    keys: int
    """Idempotency keys."""
    hours: int
    """Sums of single hours."""


async def prune(writer: Writer, before: float, hours_before: float) -> Pruned:
    """Remove everything of the days before these times."""
    days, hours = int(max(before, 0.0)) // DAY * DAY, int(max(hours_before, 0.0)) // DAY * DAY
    # First, in its own transaction: from here on nobody counts those days from rows.
    await writer.change(partial(_mark, days=days, hours=hours))
    executions, codes = await _repeat(writer, partial(_remove_executions, days=days))
    rows = {
        name: (await _repeat(writer, partial(_remove, name=name, before=hours if name == "hours" else days)))[0]
        for name in _REMOVALS
    }
    await writer.change(partial(_remove_learned, days=days))
    return Pruned(executions=executions, codes=codes, **rows)


async def _repeat(writer: Writer, remove: Callable[[sqlite3.Connection], _Counts]) -> _Counts:
    """Call `remove`, one transaction at a time, until nothing is left; returns the sums of its results."""
    sums: _Counts = ()
    while True:
        counts = await writer.change(remove)
        sums = tuple(a + b for a, b in zip(sums, counts, strict=True)) if sums else counts
        if not counts[0]:
            return sums


def _mark(connection: sqlite3.Connection, days: int, hours: int) -> None:
    marks = read_marks(connection)
    write_mark(connection, "days", max(marks.days, days))
    write_mark(connection, "hours", max(marks.hours, hours))


def _remove_executions(connection: sqlite3.Connection, days: int) -> tuple[int, int]:
    """Remove finished executions, and code that no other execution has."""
    found = connection.execute(
        "SELECT execution_id, code_sha256 FROM executions WHERE started_at < ? AND status <> 'running' LIMIT ?",
        (days, _REMOVED_ROWS),
    ).fetchall()
    connection.executemany("DELETE FROM executions WHERE execution_id = ?", [(each,) for each, _ in found])
    codes = connection.executemany(
        "DELETE FROM codes WHERE sha256 = ? AND NOT EXISTS (SELECT 1 FROM executions WHERE code_sha256 = sha256)",
        [(code,) for code in {code for _, code in found}],
    )
    return len(found), max(0, codes.rowcount)


# Rows of the journal must be folded and belong to no running execution. The highest row stays: the next one would get
# its number, which counts as folded.
_FOLDED_ROWS = (
    "FROM {stream} WHERE {number} IN (SELECT {number} FROM {stream} WHERE {at} < ?"
    " AND +{number} <= (SELECT number FROM metric_marks WHERE stream = '{stream}')"
    " AND +{number} < (SELECT max({number}) FROM {stream})"
    " AND execution_id NOT IN (SELECT execution_id FROM executions WHERE status = 'running') LIMIT ?)"
)
_REMOVALS: dict[str, str] = {
    **{stream: _FOLDED_ROWS.format(stream=stream, number=number, at=at) for stream, (number, at) in COLUMNS.items()},
    "keys": "FROM idempotency_keys WHERE (principal, key) IN"
    " (SELECT principal, key FROM idempotency_keys WHERE at < ? LIMIT ?)",
    "hours": "FROM metric_sums WHERE rowid IN"
    " (SELECT rowid FROM metric_sums WHERE span = 'hour' AND start < ? LIMIT ?)",
}
"""The rows to delete from before a time, by the field of `Pruned`, in order."""


def _remove(connection: sqlite3.Connection, name: str, before: int) -> tuple[int]:
    return (connection.execute(f"DELETE {_REMOVALS[name]}", (before, _REMOVED_ROWS)).rowcount,)


def _remove_learned(connection: sqlite3.Connection, days: int) -> None:
    """Remove models that were not saved since, and marks of forgotten facts that the journal does not hold any more.

    The newest mark stays: the next one would get its number.
    """
    connection.execute("DELETE FROM learning_models WHERE at < ?", (days,))
    connection.execute(
        "DELETE FROM learning_forgotten WHERE fact < (SELECT coalesce(min(number), 0) FROM facts)"
        " AND number < (SELECT max(number) FROM learning_forgotten)"
    )
