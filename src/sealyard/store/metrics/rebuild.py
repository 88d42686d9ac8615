"""Sums checked against the kept rows and folded again from them, and facts of executions that have none.

A gateway records the fact of an execution when that ends. The fact of a lost execution is made here from what the
journal's rows say, so it has no tokens, visit or outcome.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.metrics.sums import Sums
from sealyard.store.database import Reader
from sealyard.store.metrics.sums import (
    COLUMNS,
    DAY,
    END,
    HOUR,
    Span,
    SumsByHour,
    add_folded,
    read_marks,
    read_names,
    read_sums,
    replace_sums,
    snapshot,
    write_facts,
    write_mark,
)
from sealyard.store.writer import Writer
from sealyard.values.facts import Executed, UseCase

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
    " AND form IN ('code', 'analysis', 'call')"  # trials of skills and relayed calls have no facts
    " AND NOT EXISTS (SELECT 1 FROM facts WHERE facts.execution_id = executions.execution_id"
    " AND facts.execution_id <> '' AND kind = 'execution')"
    " ORDER BY started_at, execution_id LIMIT ?"
)
_CALLS = (
    "SELECT tool, count(*), sum(answer_bytes), max(started_at + seconds) FROM calls WHERE execution_id = ?"
    " GROUP BY tool ORDER BY tool"
)


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """The counted rows, and the differences from the sums before."""

    days: int
    facts: int
    calls: int
    skipped: int
    """Unreadable rows."""
    differences: int
    """Sums of hours, days and all time that differed."""


async def rebuild(
    reader: Reader,
    writer: Writer,
    fold: Callable[[], Awaitable[int]],
    on_progress: Callable[[int, int], None],
    *,
    check: bool,
) -> Rebuilt:
    """Compare the sums with the rows; unless it is only a check, drop the sums that differ and fold again.

    `fold` folds new rows.
    """
    while await fold():
        pass
    rows, skipped = await reader.read(_count_rows)
    steps = rows if check else 2 * rows  # all rows are read once more if a sum differs
    days = differences = 0
    counts: Counter[str] = Counter()
    on_progress(0, steps)
    start = await reader.read(_next_day, 0)
    while start is not None:
        counted, differing = await reader.read(_compare_day, start)
        counts += counted
        differences += differing
        days += 1
        on_progress(min(rows, counts["facts"] + counts["calls"]), steps)
        start = await reader.read(_next_day, start + DAY)
    differences += await reader.read(_compare_total)
    if differences and not check:
        await writer.change(drop_sums)
        done = rows
        while folded := await fold():
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


async def derive(reader: Reader, writer: Writer, since: float) -> int:
    """Record the missing facts of executions that began since a time; returns how many."""
    since = max(since, (await reader.read(read_marks)).days)  # earlier facts are gone, not missing
    settled = time.time() - _SETTLED_SECONDS
    count = 0
    while facts := await reader.read(_read_missing, since, settled):
        await writer.change(partial(_write_missing, facts=facts))
        count += len(facts)
    return count


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
