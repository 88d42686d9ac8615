"""Sums counted anew from the rows that are kept.

One day is counted at a time, beside whoever reads and writes, and takes the place of what was there in one transaction.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from sealyard.metrics.sums import Sums
from sealyard.store.metrics.derivation import derive
from sealyard.store.metrics.fold import (
    COLUMNS,
    DAY,
    END,
    HOUR,
    STREAMS,
    Marks,
    Span,
    SumsByHour,
    add_rows,
    read_marks,
    read_names,
    read_sums,
    replace_sums,
)
from sealyard.store.reader import Reader
from sealyard.store.writer import Write


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted, and how it differed from what was there."""

    days: int
    facts: int
    calls: int
    derived: int
    """Facts that were missing: of executions from before they were recorded, or that were lost."""
    skipped: int
    """Rows that cannot be read."""
    differences: int
    """Sums of hours, days and of all time that were others than what was counted."""


class _Day(msgspec.Struct):
    """What was counted of one day."""

    start: int
    marks: Marks
    hours: SumsByHour
    rows: dict[str, int]
    skipped: int = 0


async def rebuild(
    reader: Reader,
    write: Callable[[Write], Awaitable[None]],
    fold: Callable[[], Awaitable[int]],
    on_progress: Callable[[int, int], None],
    *,
    check: bool,
) -> Rebuilt:
    """Count everything anew. `write` commits, and `fold` adds what is new to the sums."""
    derived = await derive(reader, None if check else write)
    while await fold():
        pass
    names = await reader.read(read_names)
    total, skipped = await reader.read(_count_rows)
    days, differences = 0, 0
    rows: dict[str, int] = dict.fromkeys(STREAMS, 0)
    start = await reader.read(_next_day, 0)
    on_progress(0, total)
    while start is not None:
        day = _Day(start=start, marks=await reader.read(read_marks), hours=SumsByHour(names), rows={})
        for hour in range(start, start + DAY, HOUR):
            await reader.read(partial(_count_hour, day=day, hour=hour))
            on_progress(min(total, sum(rows.values()) + sum(day.rows.values())), total)
        found: list[int] = []
        await write(partial(_write_day, day=day, names=names, found=found, check=check))
        days, differences, skipped = days + 1, differences + found[-1], skipped + day.skipped
        rows = {stream: rows[stream] + day.rows.get(stream, 0) for stream in rows}
        start = await reader.read(_next_day, start + DAY)
    found = []
    await write(partial(_write_total, found=found, check=check))
    on_progress(total, total)
    return Rebuilt(
        days=days,
        facts=rows["facts"],
        calls=rows["calls"],
        derived=derived,
        skipped=skipped,
        differences=differences + found[-1],
    )


def _count_rows(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many rows there are to be counted, and how many that are of no day at all."""
    days = read_marks(connection).days
    counts = [0, 0]
    for stream in STREAMS:
        _, at = COLUMNS[stream]
        for place, condition in enumerate((f"{at} >= {days} AND {at} < {END}", f"{at} < 0 OR {at} >= {END}")):
            query = f"SELECT count(*) FROM {stream} WHERE {condition}"  # noqa: S608
            counts[place] += connection.execute(query).fetchone()[0]
    return counts[0], counts[1]


def _next_day(connection: sqlite3.Connection, after: int) -> int | None:
    """The first day from then on of which there are rows, and of which none are gone."""
    after = max(after, read_marks(connection).days)
    found = []
    for stream in STREAMS:
        _, at = COLUMNS[stream]
        query = f"SELECT min({at}) FROM {stream} WHERE {at} >= ? AND {at} < ?"  # noqa: S608
        found += [first for (first,) in connection.execute(query, (after, END)) if first is not None]
    return int(min(found)) // DAY * DAY if found else None


def _count_hour(connection: sqlite3.Connection, day: _Day, hour: int) -> None:
    """Count the rows of one hour that had been added when the day was begun. They do not change."""
    for stream in STREAMS:
        number, at = COLUMNS[stream]
        values = (hour, hour + HOUR, getattr(day.marks, stream))
        count, skipped, _ = add_rows(
            connection,
            stream,
            f"{at} >= ? AND {at} < ? AND +{number} <= ?",
            values,
            day.hours.pick,
        )
        day.rows[stream] = day.rows.get(stream, 0) + count
        day.skipped += skipped


def _write_day(connection: sqlite3.Connection, day: _Day, names: set[str], found: list[int], *, check: bool) -> None:
    """Put what was counted of a day in the place of what was there; `found` gets how many sums differed."""
    marks = read_marks(connection)
    if day.start < marks.days:  # its rows are being removed
        found.append(0)
        return
    late = SumsByHour(names)
    for stream in STREAMS:  # what others have added since the day was begun
        number, at = COLUMNS[stream]
        values = (getattr(day.marks, stream), getattr(marks, stream), day.start, day.start + DAY)
        condition = f"{number} > ? AND {number} <= ? AND +{at} >= ? AND +{at} < ?"
        add_rows(connection, stream, condition, values, late.pick)
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
    found.append(differences + _replace(connection, "day", day.start, whole, check=check))


def _write_total(connection: sqlite3.Connection, found: list[int], *, check: bool) -> None:
    """Add up all days, also those whose rows are gone."""
    whole = Sums()
    read_sums(connection, "day", 0, END, lambda _: whole)
    found.append(_replace(connection, "total", 0, whole, check=check))


def _replace(connection: sqlite3.Connection, span: Span, start: int, sums: Sums, *, check: bool) -> int:
    """Write sums if others are there; how many differ."""
    before = Sums()
    read_sums(connection, span, start, start + 1, lambda _: before)
    differences = sum(before.get(key) != sums.get(key) for key in before.keys() | sums.keys())
    if differences and not check:
        replace_sums(connection, span, start, sums)
    return differences
