"""Sums counted again from the rows that are kept, and facts derived for executions that have none.

One day is counted at a time, beside readers and writers, and replaces the old sums in one transaction. Facts are
missing for executions of an older version and for lost ones. They are derived from the journal only, so there are no
tokens, visits or searches among them.
"""

import math
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.metrics.sums import METRICS, Sums
from sealyard.store.database import Reader
from sealyard.store.metrics.fold import (
    COLUMNS,
    DAY,
    END,
    HOUR,
    Marks,
    Span,
    SumsByHour,
    add_between,
    add_folded,
    read_marks,
    read_names,
    read_sums,
    replace_sums,
    write_facts,
)
from sealyard.store.writer import Writer
from sealyard.values.facts import Executed, UseCase
from sealyard.values.runs import Outcome

_SETTLED_SECONDS = 600.0
"""Within this time after the end, the gateway itself writes the fact."""
_PAGE = 200
"""Executions per read: other reads come in between."""
_TOOLS = 20
"""Tools named in a fact, as in those that a gateway records."""
_POLLS = 3
"""Equal calls that count as polling."""

_ERRORS = METRICS["sealyard_execution_errors_total"]
_OUTCOMES = msgspec.json.Decoder(Outcome)
_ENCODER = msgspec.json.Encoder()

_Place = tuple[float, str]
"""The start of an execution, and its id."""

_HAS_FACT = "SELECT 1 FROM facts WHERE execution_id = ? AND execution_id <> '' AND kind = 'execution'"
_PAGE_END = (
    "SELECT started_at, execution_id FROM executions WHERE (started_at, execution_id) > (?, ?)"
    " ORDER BY started_at, execution_id LIMIT 1 OFFSET ?"
)
# Rehearsals of skills are no use.
_MISSING = (
    "SELECT execution_id, principal, code, started_at, ended_at, status, outcome, background"
    " FROM executions JOIN codes ON codes.sha256 = code_sha256"
    " WHERE (started_at, execution_id) > (?, ?) AND (started_at, execution_id) <= (?, ?)"
    " AND status <> 'running' AND coalesce(ended_at, started_at) < ?"
    " AND session NOT LIKE '%:rehearsal-%'"
    " AND NOT EXISTS (SELECT 1 FROM facts WHERE facts.execution_id = executions.execution_id"
    " AND facts.execution_id <> '' AND kind = 'execution')"
    " ORDER BY started_at, execution_id"
)
# By tool: calls, most calls with equal arguments, answered bytes, and the last end.
_CALLS = (
    "SELECT tool, sum(count), max(count), sum(bytes), max(until) FROM (SELECT tool, count(*) AS count,"
    " sum(answer_bytes) AS bytes, max(started_at + seconds) AS until FROM calls WHERE execution_id = ?"
    " GROUP BY tool, arguments, CASE WHEN arguments_cut THEN number END) GROUP BY tool ORDER BY tool"
)


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """The counted rows, and the differences from the old sums."""

    days: int
    facts: int
    calls: int
    derived: int
    """Facts that were missing for executions of an older version, or lost ones."""
    skipped: int
    """Unreadable rows."""
    differences: int
    """Sums of hours, days and all time that differed."""


class _Day(msgspec.Struct):
    """The rows of one day that were folded when it was begun. They do not change."""

    start: int
    marks: Marks
    hours: SumsByHour


async def rebuild(
    reader: Reader,
    writer: Writer,
    fold: Callable[[], Awaitable[int]],
    on_progress: Callable[[int, int], None],
    *,
    check: bool,
) -> Rebuilt:
    """Count everything again. `fold` folds new rows."""
    derived = await derive(reader, None if check else writer)
    while await fold():
        pass
    names = await reader.read(read_names)
    total, skipped = await reader.read(_count_rows)
    days = differences = 0
    counts: Counter[str] = Counter()
    start = await reader.read(_next_day, 0)
    on_progress(0, total)
    while start is not None:
        day = _Day(start=start, marks=await reader.read(read_marks), hours=SumsByHour(names))
        for hour in range(start, start + DAY, HOUR):
            counts += await reader.read(add_folded, day.marks, hour, hour + HOUR, day.hours.pick)
            on_progress(min(total, counts["facts"] + counts["calls"]), total)
        differences += await writer.change(partial(_write_day, day=day, names=names, check=check))
        days += 1
        start = await reader.read(_next_day, start + DAY)
    differences += await writer.change(partial(_write_total, check=check))
    on_progress(total, total)
    return Rebuilt(
        days=days,
        facts=counts["facts"],
        calls=counts["calls"],
        derived=derived,
        skipped=skipped + counts["skipped"],
        differences=differences,
    )


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
    """The first day from a time on that has rows, and all of them."""
    after = max(after, read_marks(connection).days)
    found = []
    for stream, (_, at) in COLUMNS.items():
        query = f"SELECT min({at}) FROM {stream} WHERE {at} >= ? AND {at} < ?"  # noqa: S608
        found += [first for (first,) in connection.execute(query, (after, END)) if first is not None]
    return int(min(found)) // DAY * DAY if found else None


def _write_day(connection: sqlite3.Connection, day: _Day, names: set[str], *, check: bool) -> int:
    """Replace the sums of a day; returns the number of differences."""
    marks = read_marks(connection)
    if day.start < marks.days:  # its rows are being removed
        return 0
    late = SumsByHour(names)  # rows folded since the day was begun
    add_between(connection, day.marks, marks, day.start, day.start + DAY, late.pick)
    whole = Sums()
    differences = 0
    for hour in range(day.start, day.start + DAY, HOUR):
        sums = Sums()
        for part in (day.hours, late):
            if hour in part:
                sums.merge(part[hour])
        whole.merge(sums)
        if hour >= marks.hours:
            differences += _replace(connection, "hour", hour, sums, check=check)
    return differences + _replace(connection, "day", day.start, whole, check=check)


def _write_total(connection: sqlite3.Connection, *, check: bool) -> int:
    """Add up all days, also those whose rows are gone."""
    whole = Sums()
    read_sums(connection, "day", 0, END, lambda _: whole)
    return _replace(connection, "total", 0, whole, check=check)


def _replace(connection: sqlite3.Connection, span: Span, start: int, sums: Sums, *, check: bool) -> int:
    """Write sums that differ from the stored ones; returns the number of differences."""
    before = Sums()
    read_sums(connection, span, start, start + 1, lambda _: before)
    differences = sum(before.get(key) != sums.get(key) for key in before.keys() | sums.keys())
    if differences and not check:
        replace_sums(connection, span, start, sums)
    return differences


# Missing facts


async def derive(reader: Reader, writer: Writer | None) -> int:
    """Record missing facts, if a writer is given; returns how many there are."""
    settled = time.time() - _SETTLED_SECONDS
    days = (await reader.read(read_marks)).days  # earlier facts are gone, not missing
    count = 0
    after: _Place | None = (float(days), "")
    while after is not None:
        facts, after = await reader.read(_read_page, after, settled)
        count += len(facts)
        if facts and writer is not None:
            await writer.change(partial(_write_missing, facts=facts))
    return count


def _read_page(connection: sqlite3.Connection, after: _Place, settled: float) -> tuple[list[Executed], _Place | None]:
    """The facts that the next executions lack, and the place to continue from."""
    last: _Place | None = connection.execute(_PAGE_END, (*after, _PAGE - 1)).fetchone()
    rows = connection.execute(_MISSING, (*after, *(last or (math.inf, "")), settled)).fetchall()
    skills = _read_skills(connection, [row[0] for row in rows])
    return [_executed(connection, row, skills.get(row[0], 0)) for row in rows], last


def _executed(connection: sqlite3.Connection, row: tuple[Any, ...], skills: int) -> Executed:
    """Derive a fact from an execution, its code, its outcome and its calls."""
    execution_id, principal, code, started_at, ended_at, status, text, background = row
    calls = connection.execute(_CALLS, (execution_id,)).fetchall()
    until = ended_at if ended_at is not None else max([started_at, *(call[4] for call in calls)])
    outcome = _decode(text)
    failure, usage = (None, None) if outcome is None else (outcome.failure, outcome.usage)
    bytes_in = sum(call[3] for call in calls)
    return Executed(
        at=until,
        principal=principal,
        execution_id=execution_id,
        form="code" if code else "call",
        status=status,
        failure="" if failure is None else failure.kind,
        error_type="" if failure is None else _ERRORS.fit("error_type", failure.type),
        level="" if outcome is None else outcome.level,
        tier="" if outcome is None else outcome.tier,
        seconds=max(0.0, until - started_at),
        cpu_seconds=None if usage is None else usage.cpu_seconds,
        memory_bytes=None if usage is None else usage.memory_peak_bytes,
        calls=sum(call[1] for call in calls),
        tools=tuple(call[0] for call in calls[:_TOOLS]),
        bytes_in=bytes_in,
        bytes_out=_sent_bytes(outcome) if code else bytes_in,
        code_characters=len(code.decode("utf-8", "surrogatepass")),
        use_case=_use_case(calls, skills) if code else "direct",
        skills=skills,
        is_background=bool(background),
    )


def _use_case(calls: Sequence[tuple[Any, ...]], skills: int) -> UseCase:
    if skills:
        return "skill_reuse"
    if any(row[2] >= _POLLS for row in calls):
        return "polling"
    if len(calls) > 1:
        return "workflow"
    return "filtering" if calls else "compute"


def _sent_bytes(outcome: Outcome | None) -> int:
    """Bytes of the output and the result, which the agent was sent within its budget."""
    if outcome is None:
        return 0
    result = b"" if outcome.result is None else _ENCODER.encode(outcome.result)
    return len(result) + len(outcome.output.encode("utf-8", "surrogatepass"))


def _read_skills(connection: sqlite3.Connection, executions: Sequence[str]) -> dict[str, int]:
    """The number of skills that each execution imported."""
    marks = ", ".join("?" * len(executions))
    query = f"SELECT execution_id, count(*) FROM skill_uses WHERE execution_id IN ({marks}) GROUP BY execution_id"  # noqa: S608
    return dict(connection.execute(query, executions)) if executions else {}


def _decode(outcome: str | None) -> Outcome | None:
    try:
        return None if outcome is None else _OUTCOMES.decode(outcome)
    except msgspec.DecodeError:
        return None


def _write_missing(connection: sqlite3.Connection, facts: Sequence[Executed]) -> None:
    missing = [fact for fact in facts if connection.execute(_HAS_FACT, (fact.execution_id,)).fetchone() is None]
    write_facts(connection, missing)
