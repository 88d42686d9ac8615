"""Facts and their sums: for all time, for each day and for each hour.

Sums lag behind their rows by what has not been folded yet; readers get both together. After an upgrade or a
rebuild there may be very many unfolded rows: then a reader gets the first of them, and the rest as they are folded.

Retention removes whole UTC days of the journal and of facts, and only rows that are in the sums.
"""

import math
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.metrics.sums import Sums
from sealyard.store.metrics.rebuild import Rebuilt, derive, rebuild
from sealyard.store.metrics.sums import (
    COLUMNS,
    DAY,
    END,
    HOUR,
    Marks,
    Span,
    add_between,
    add_folded,
    decode_fact,
    fold,
    last_number,
    read_marks,
    read_names,
    read_sums,
    snapshot,
    write_facts,
    write_mark,
)
from sealyard.store.metrics.usage import read_usage
from sealyard.store.table import Table, reads
from sealyard.store.writer import ROW_BYTES, Writer
from sealyard.values.facts import AnyFact, Fact

MOST_POINTS = 1_500
"""Points of one series."""

UNFOLDED_ROWS = 5_000
"""Rows of each stream that a reader adds itself, in a tenth of a second. A gateway folds every few seconds, so there
are more only after an upgrade, a restore or a rebuild."""

_REMOVED_ROWS = 500
"""Rows removed in one transaction: other writes come in between."""

_STEPS = {"minute": 60, "hour": HOUR, "day": DAY}
"""Seconds of each step."""


def _read_window(connection: sqlite3.Connection, since: float | None = None, until: float | None = None) -> Sums:
    """The sums of everything, or from `since` until just before `until`.

    Exact while the rows are kept; else the whole hours or days at both ends count. Raises `StoreError`.
    """
    with snapshot(connection):
        marks = read_marks(connection)
        found = Sums(read_names(connection))

        def pick(at: float) -> Sums:
            return found

        if since is None and until is None:
            start, end = 0.0, float(END)
            read_sums(connection, "total", 0, 1, pick)
        else:
            start, end = _whole(_within(since or 0.0), _within(END if until is None else until), marks)
            for span, first, last in _pieces(start, end, marks):
                if span is None:
                    add_folded(connection, marks, first, last, pick)
                else:
                    read_sums(connection, span, first, last, pick)
        add_between(connection, marks, _readable(marks), start, end, pick)
        return found


def _read_series(connection: sqlite3.Connection, first: int, end: int, size: int) -> list[tuple[float, Sums]]:
    with snapshot(connection):
        marks = read_marks(connection)
        names = read_names(connection)
        found = {start: Sums(names) for start in range(first, end, size)}

        def pick(at: float) -> Sums:
            return found[int(at) // size * size]

        if size == DAY:
            read_sums(connection, "day", first, end, pick)
        elif size == HOUR:
            add_folded(connection, marks, first, min(end, marks.hours), pick)
            read_sums(connection, "hour", max(first, marks.hours), end, pick)
        else:
            add_folded(connection, marks, first, end, pick)
        add_between(connection, marks, _readable(marks), first, end, pick)
        return [(float(start), sums) for start, sums in found.items()]


def _read_facts(connection: sqlite3.Connection, kind: str, *, since: float = 0.0, limit: int = 1000) -> list[AnyFact]:
    """Facts of one kind, the newest first, without unreadable ones. Raises `StoreError`."""
    rows = connection.execute(
        "SELECT fact FROM facts WHERE at >= ? AND kind = ? ORDER BY at DESC, number DESC LIMIT ?", (since, kind, limit)
    )
    return [fact for (text,) in rows if (fact := decode_fact(text)) is not None]


def _readable(marks: Marks) -> Marks:
    """Up to where a reader adds rows itself."""
    return msgspec.structs.replace(marks, facts=marks.facts + UNFOLDED_ROWS, calls=marks.calls + UNFOLDED_ROWS)


def _read_uncounted(connection: sqlite3.Connection) -> int:
    """Rows that are in no sum of a reader; 0 except for a while after an upgrade. Raises `StoreError`."""
    with snapshot(connection):
        read = _readable(read_marks(connection))
        return sum(max(0, last_number(connection, stream) - getattr(read, stream)) for stream in COLUMNS)


def _within(at: float) -> float:
    return min(max(at, 0.0), float(END))


def _whole(start: float, end: float, marks: Marks) -> tuple[float, float]:
    """Extend a time to whole hours or days at its ends where the rows are gone."""
    if start < marks.days:
        size = HOUR if start >= marks.hours else DAY
        start = start // size * size
    if end < marks.days:
        size = HOUR if end > marks.hours else DAY
        end = math.ceil(end / size) * size
    return start, end


def _pieces(start: float, end: float, marks: Marks) -> Iterator[tuple[Span | None, float, float]]:
    """Split a time into whole days, whole hours, and the rest, which is counted from rows."""
    first, last = math.ceil(start / DAY) * DAY, end // DAY * DAY
    if first < last:
        yield "day", first, last
        rest = [(start, first), (last, end)]
    else:
        rest = [(start, end)]
    for a, b in rest:
        first, last = math.ceil(max(a, marks.hours) / HOUR) * HOUR, b // HOUR * HOUR
        if first < last:
            yield "hour", first, last
            yield None, a, first
            yield None, last, b
        elif a < b:
            yield None, a, b


# Retention


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


async def _repeat(writer: Writer, remove: Callable[[sqlite3.Connection], tuple[int, ...]]) -> tuple[int, ...]:
    """Call `remove`, one transaction at a time, until nothing is left; returns the sums of its results."""
    sums: tuple[int, ...] = ()
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


class MetricTables(Table):
    """The facts and sums of one store."""

    def record(self, fact: Fact) -> None:
        """Record a fact. Only enqueues, as `Store.record_call` does."""
        self._writer.put_row(write_facts, fact, ROW_BYTES)

    async def fold(self) -> int:
        """Fold some new rows into the sums, in one transaction; returns how many. Repeat until it is 0.

        Other gateways may fold at the same time: no row counts twice. Raises `StoreError`.
        """
        return await self._writer.change(fold)

    uncounted = reads(_read_uncounted)
    sums = reads(_read_window)

    async def series(self, since: float, until: float, step: str) -> list[tuple[float, Sums]]:
        """Sums for each minute, hour or day of a time, with its start, also for empty ones.

        Minutes are counted from rows, so they are empty where rows are gone.

        Raises:
            InvalidRequest: There is no such step, or there are more than `MOST_POINTS`.
            StoreError: It cannot be read.
        """
        size = _STEPS.get(step)
        if size is None:
            raise InvalidRequest(f"There is no step {step!r}. Use one of {', '.join(_STEPS)}.")
        since, until = _within(since), _within(until)
        first, end = int(since) // size * size, math.ceil(until / size) * size
        if (end - first) // size > MOST_POINTS:
            raise InvalidRequest(
                f"That would be {(end - first) // size:,} points, and at most {MOST_POINTS:,} are given."
                " Ask for a shorter time or a longer step."
            )
        return await self._reader.read(_read_series, first, end, size)

    usage = reads(read_usage)
    facts = reads(_read_facts)

    async def derive(self, since: float = 0.0) -> int:
        """Record the missing facts of executions that began since a time, such as lost ones; returns how many.

        Raises `StoreError`.
        """
        return await derive(self._reader, self._writer, since)

    async def rebuild(
        self, on_progress: Callable[[int, int], None] = lambda done, total: None, *, check: bool = False
    ) -> Rebuilt:
        """Compare the sums with the kept rows, and fold all rows again if any sum differs.

        Sums of days whose rows are gone stay. Reads and writes go on; until all rows are folded again, readers miss
        those that `uncounted` counts. `on_progress` gets the number of finished rows and of all rows, roughly. With
        `check` nothing changes. Raises `StoreError`.
        """
        return await rebuild(self._reader, self._writer, self.fold, on_progress, check=check)

    async def prune(self, before: float, hours_before: float) -> Pruned:
        """Remove executions, calls and facts of the days before `before`, and hourly sums before `hours_before`.

        Removes whole UTC days, a few rows at a time. Running executions and daily sums stay. Raises `StoreError`.
        """
        while await self.fold():
            pass
        return await prune(self._writer, before, hours_before)
