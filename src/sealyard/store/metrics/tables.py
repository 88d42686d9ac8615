"""Facts and their sums: for all time, for each day and for each hour.

Sums lag behind their rows by what has not been folded yet; readers get both together. After an upgrade or a
rebuild there may be very many unfolded rows: then a reader gets the first of them, and the rest as they are folded.

Retention removes whole UTC days of the journal and of facts, and only rows that are in the sums.

A gateway records the fact of an execution when that ends. The fact of a lost execution is made here from what the
journal's rows say, so it has no tokens, visit or outcome.
"""

import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.metrics.sums import Sums
from sealyard.store.metrics.sums import (
    COLUMNS,
    DAY,
    END,
    HOUR,
    Marks,
    Span,
    SumsByHour,
    add_between,
    add_folded,
    decode_fact,
    fold,
    last_number,
    read_marks,
    read_names,
    read_sums,
    replace_sums,
    snapshot,
    write_facts,
    write_mark,
)
from sealyard.store.metrics.usage import read_usage
from sealyard.store.table import Table, reads, writes
from sealyard.store.writer import ROW_BYTES, Writer
from sealyard.values.facts import AnyFact, Executed, Fact, UseCase

MOST_POINTS = 1_500
"""Points of one series."""

UNFOLDED_ROWS = 5_000
"""Rows of each stream that a reader adds itself, in a tenth of a second. A gateway folds every few seconds, so there
are more only after an upgrade, a restore or a rebuild."""

_REMOVED_ROWS = 500
"""Rows removed in one transaction: other writes come in between."""

_SETTLED_SECONDS = 600.0
"""Within this time after the end of an execution, its gateway writes the fact; a lost one has no gateway any more."""
_PAGE = 200
"""Executions per read: other reads come in between."""
_TOOLS = 20
"""Tools named in a fact, as in those that a gateway records."""

_HAS_FACT = "SELECT 1 FROM facts WHERE execution_id = ? AND execution_id <> '' AND kind = 'execution'"
_MISSING = (
    "SELECT execution_id, principal, form, code, started_at, ended_at, status, background"
    " FROM executions JOIN codes ON codes.sha256 = code_sha256"
    " WHERE started_at >= ? AND (status = 'lost' OR status <> 'running' AND ended_at < ?)"
    " AND executions.execution_id <> ''"  # its fact would not be found again
    " AND form IN ('code', 'analysis', 'call')"  # trials of skills have no facts, nor calls where all is relayed
    " AND NOT EXISTS (SELECT 1 FROM facts WHERE facts.execution_id = executions.execution_id"
    " AND facts.execution_id <> '' AND kind = 'execution')"
    " ORDER BY started_at, execution_id LIMIT ?"
)
_CALLS = (
    "SELECT tool, count(*), sum(answer_bytes), max(started_at + seconds) FROM calls WHERE execution_id = ?"
    " GROUP BY tool ORDER BY tool"
)

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


def _read_series(connection: sqlite3.Connection, since: float, until: float, step: str) -> list[tuple[float, Sums]]:
    """Sums for each minute, hour or day of a time, with its start, also for empty ones.

    Minutes are counted from rows, so they are empty where rows are gone.

    Raises:
        InvalidRequest: There is no such step, or there are more than `MOST_POINTS`.
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


# Rebuilding


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """The counted rows, and the differences from the sums before."""

    days: int
    facts: int
    calls: int
    skipped: int
    """Unreadable rows."""
    differences: int
    """Sums of hours, days and all time that differed."""


def drop_sums(connection: sqlite3.Connection) -> None:
    """Drop the sums of all days whose rows are kept, and have their rows folded again."""
    marks = read_marks(connection)
    if marks.facts < marks.again_facts or marks.calls < marks.again_calls:
        return  # dropped already, and not all is folded again: the sums say which days were kept then
    connection.execute("DELETE FROM metric_sums WHERE span <> 'total' AND start >= ?", (marks.days,))
    kept = Sums()
    read_sums(connection, "day", 0, END, lambda _: kept)
    replace_sums(connection, "total", 0, kept)
    write_mark(connection, "again_days", marks.days)
    for stream in COLUMNS:
        write_mark(connection, f"again_{stream}", getattr(marks, stream))
        write_mark(connection, stream, 0)


def _count_rows(connection: sqlite3.Connection) -> tuple[int, int]:
    """The number of rows to count, and of rows with an impossible time."""
    days = read_marks(connection).days
    counts = [0, 0]
    for stream, (_, at) in COLUMNS.items():
        for place, condition in enumerate((f"{at} >= {days} AND {at} < {END}", f"{at} < 0 OR {at} >= {END}")):
            query = f"SELECT count(*) FROM {stream} WHERE {condition}"  # noqa: S608
            counts[place] += connection.execute(query).fetchone()[0]
    return counts[0], counts[1]


def _next_day(connection: sqlite3.Connection, after: int) -> int | None:
    """The first day from a time on that has rows or a sum, and all of its rows."""
    after = max(after, read_marks(connection).days)
    found = []
    for table, at in (*((stream, at) for stream, (_, at) in COLUMNS.items()), ("metric_sums", "start")):
        query = f"SELECT min({at}) FROM {table} WHERE {at} >= ? AND {at} < ?"  # noqa: S608
        if table == "metric_sums":
            query += " AND span = 'day'"
        found += [first for (first,) in connection.execute(query, (after, END)) if first is not None]
    return int(min(found)) // DAY * DAY if found else None


def _compare_day(connection: sqlite3.Connection, start: int) -> tuple[Counter[str], int]:
    """Count the folded rows of a day; returns their number by stream, and the number of sums that differ."""
    with snapshot(connection):
        marks = read_marks(connection)
        if start < marks.days:  # its rows are being removed
            return Counter(), 0
        hours = SumsByHour(read_names(connection))
        counts = add_folded(connection, marks, start, start + DAY, hours.pick)
        whole = Sums()
        differences = 0
        for hour in range(start, start + DAY, HOUR):
            whole.merge(hours[hour])
            if hour >= marks.hours:
                differences += _count_differences(connection, "hour", hour, hours[hour])
        return counts, differences + _count_differences(connection, "day", start, whole)


def _compare_total(connection: sqlite3.Connection) -> int:
    """Add up all days, also those whose rows are gone; returns the number of sums that differ."""
    with snapshot(connection):
        whole = Sums()
        read_sums(connection, "day", 0, END, lambda _: whole)
        return _count_differences(connection, "total", 0, whole)


def _count_differences(connection: sqlite3.Connection, span: Span, start: int, sums: Sums) -> int:
    stored = Sums()
    read_sums(connection, span, start, start + 1, lambda _: stored)
    return sum(stored.get(key) != sums.get(key) for key in stored.keys() | sums.keys())


# Missing facts


def _read_missing(connection: sqlite3.Connection, since: float, settled: float) -> list[Executed]:
    rows = connection.execute(_MISSING, (since, settled, _PAGE)).fetchall()
    return [_executed(connection, *row) for row in rows]


def _executed(
    connection: sqlite3.Connection,
    execution_id: str,
    principal: str,
    form: Any,
    code: bytes,
    started_at: float,
    ended_at: float | None,
    status: str,
    is_background: int,
) -> Executed:
    """Make a fact of the rows of an execution, its code and its calls."""
    calls = connection.execute(_CALLS, (execution_id,)).fetchall()
    until = ended_at if ended_at is not None else max([started_at, *(end for _, _, _, end in calls)])
    received = sum(size for _, _, size, _ in calls)
    return Executed(
        at=until,
        principal=principal,
        execution_id=execution_id,
        form=form,
        status=status,
        seconds=max(0.0, until - started_at),
        calls=sum(count for _, count, _, _ in calls),
        tools=tuple(tool for tool, _, _, _ in calls[:_TOOLS]),
        bytes_in=received,
        code_characters=len(code.decode("utf-8", "surrogatepass")) if form == "code" else 0,
        use_case=_use_case(form, len(calls)),
        is_background=bool(is_background),
    )


def _use_case(form: str, tools: int) -> UseCase:
    if form == "analysis":
        return "analysis"
    if form == "call":
        return "direct"
    return "workflow" if tools > 1 else "filtering" if tools else "compute"


def _write_missing(connection: sqlite3.Connection, facts: Sequence[Executed]) -> None:
    missing = [fact for fact in facts if connection.execute(_HAS_FACT, (fact.execution_id,)).fetchone() is None]
    write_facts(connection, missing)


# The tables


class MetricTables(Table):
    """The facts and sums of one store."""

    def record(self, fact: Fact) -> None:
        """Record a fact. Only enqueues, as `Store.record_call` does."""
        self._writer.put_row(write_facts, fact, ROW_BYTES)

    fold = writes(fold)
    uncounted = reads(_read_uncounted)
    sums = reads(_read_window)

    series = reads(_read_series)
    usage = reads(read_usage)
    facts = reads(_read_facts)

    async def derive(self, since: float = 0.0) -> int:
        """Record the missing facts of executions that began since a time, such as lost ones; returns how many.

        Raises `StoreError`.
        """
        since = max(since, (await self._reader.read(read_marks)).days)  # earlier facts are gone, not missing
        settled = time.time() - _SETTLED_SECONDS
        count = 0
        while facts := await self._reader.read(_read_missing, since, settled):
            await self._writer.change(partial(_write_missing, facts=facts))
            count += len(facts)
        return count

    async def rebuild(
        self, on_progress: Callable[[int, int], None] = lambda done, total: None, *, check: bool = False
    ) -> Rebuilt:
        """Compare the sums with the kept rows, and fold all rows again if any sum differs.

        Sums of days whose rows are gone stay. Reads and writes go on; until all rows are folded again, readers miss
        those that `uncounted` counts. `on_progress` gets the number of finished rows and of all rows, roughly. With
        `check` nothing changes. Raises `StoreError`.
        """
        while await self.fold():
            pass
        rows, skipped = await self._reader.read(_count_rows)
        steps = rows if check else 2 * rows  # all rows are read once more if a sum differs
        days = differences = 0
        counts: Counter[str] = Counter()
        on_progress(0, steps)
        start = await self._reader.read(_next_day, 0)
        while start is not None:
            counted, differing = await self._reader.read(_compare_day, start)
            counts += counted
            differences += differing
            days += 1
            on_progress(min(rows, counts["facts"] + counts["calls"]), steps)
            start = await self._reader.read(_next_day, start + DAY)
        differences += await self._reader.read(_compare_total)
        if differences and not check:
            await self._writer.change(drop_sums)
            done = rows
            while folded := await self.fold():
                done += folded
                on_progress(min(steps, done), steps)
        on_progress(steps, steps)
        return Rebuilt(
            days=days,
            facts=counts["facts"],
            calls=counts["calls"],
            skipped=skipped + counts["skipped"],
            differences=differences,
        )

    async def prune(self, before: float, hours_before: float) -> Pruned:
        """Remove executions, calls and facts of the days before `before`, and hourly sums before `hours_before`.

        Removes whole UTC days, a few rows at a time. Running executions and daily sums stay. Raises `StoreError`.
        """
        while await self.fold():
            pass
        return await prune(self._writer, before, hours_before)
