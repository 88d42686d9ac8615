"""Facts, calls and sums as rows, and the folding of rows into sums.

Hours and days are those of UTC. An unreadable row, such as a fact of a newer version, is skipped and counted. Numbers
of facts and calls only grow, and the highest row is never removed: rows above a mark have not been folded yet.
"""

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from sealyard.metrics.sums import METRICS, CallRow, Key, Sum, Sums
from sealyard.store.columns import insert, upsert
from sealyard.store.stored_json import storable
from sealyard.values.facts import AnyFact, Fact

HOUR = 3_600  # seconds
DAY = 86_400  # seconds
END = 253_402_300_800
"""The end of the year 9999: a time after it, or before 1970, is unreadable."""

FOLD_ROWS = 2_000
"""Rows folded in one transaction, in about a twentieth of a second."""

_MOST = (1 << 63) - 1
"""The largest integer of the database."""

Span = Literal["total", "day", "hour"]
Stream = Literal["facts", "calls"]

_FACTS: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
_LABELS = msgspec.json.Decoder(tuple[str, ...])
_BUCKETS = msgspec.json.Decoder(list[int])
_ENCODER = msgspec.json.Encoder()

# As bytes: text that is not UTF-8 must not be an error of the database.
_ROWS: Mapping[Stream, str] = {
    "facts": "SELECT number, at, CAST(fact AS BLOB) FROM facts WHERE ",
    "calls": "SELECT rowid, started_at, CAST(tool AS BLOB), CAST(upstream AS BLOB),"
    " CAST(substr(error, 1, 100) AS BLOB), seconds, answer_bytes FROM calls WHERE ",  # its beginning names the error
}
COLUMNS: Mapping[Stream, tuple[str, str]] = {"facts": ("number", "at"), "calls": ("rowid", "started_at")}
"""The columns of a row's number and its time."""
_SUMS = "SELECT start, name, labels, count, total, buckets FROM metric_sums"


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of folding and of retention."""

    facts: int = 0
    """The number of the last folded fact."""
    calls: int = 0
    days: int = 0
    """Rows before this time may be gone."""
    hours: int = 0
    """Sums by the hour begin at this time."""
    again_facts: int = 0
    """Facts up to this number are folded for the second time since `rebuild` dropped the sums."""
    again_calls: int = 0
    again_days: int = 0
    """Sums of days before this time were not dropped: those rows are in them already."""


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read everything inside as of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


class SumsByHour(defaultdict[int, Sums]):
    """Sums by the start of the hour, with one set of distinguished names."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(lambda: Sums(names))

    def pick(self, at: float) -> Sums:
        """The sums of the hour of a time."""
        return self[int(at) // HOUR * HOUR]


# Marks


def read_marks(connection: sqlite3.Connection) -> Marks:
    """Read all marks."""
    known = Marks.__struct_fields__
    rows = connection.execute("SELECT stream, number FROM metric_marks")
    return Marks(**{stream: number for stream, number in rows if stream in known and isinstance(number, int)})


def write_mark(connection: sqlite3.Connection, name: str, number: int) -> None:
    """Set a mark."""
    connection.execute(upsert("metric_marks", "stream, number", key="stream"), (name, number))


# Rows


def write_facts(connection: sqlite3.Connection, facts: Iterable[Fact]) -> None:
    """Insert facts."""
    rows = [
        # NaN would be NULL, which no column takes; a negative time is unreadable.
        (
            -1.0 if math.isnan(fact.at) else fact.at,
            type(fact).__struct_config__.tag,
            storable(fact.principal),
            storable(fact.execution_id),
            _encode_fact(fact),
        )
        for fact in facts
    ]
    insert(connection, "facts (at, kind, principal, execution_id, fact)", rows)


def decode_fact(text: Any) -> AnyFact | None:
    """Decode a fact; None if this version does not know it."""
    try:
        return _FACTS.decode(text)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None


def add_rows(
    connection: sqlite3.Connection,
    stream: Stream,
    marks: Marks,
    condition: str,
    values: Iterable[float],
    pick: Callable[[float], Sums],
) -> tuple[int, int, int]:
    """Add each row of a stream to the sums that `pick` returns for its time, unless a rebuild kept the sums it is in.

    Returns the number of rows, of unreadable ones, and the highest row number.
    """
    again: int = getattr(marks, f"again_{stream}")
    count = skipped = last = 0
    for number, at, *row in connection.execute(_ROWS[stream] + condition, tuple(values)):
        count += 1
        last = max(last, number)
        if not isinstance(at, float) or not 0 <= at < END:
            skipped += 1
        elif number <= again and at < marks.again_days:
            pass
        elif stream == "calls":
            call = _read_call(*row)
            if call is None:
                skipped += 1
            else:
                pick(at).add_call(call)
        elif (fact := decode_fact(row[0])) is None:
            skipped += 1
        else:
            pick(at).add_fact(fact)
    return count, skipped, last


def add_folded(
    connection: sqlite3.Connection, marks: Marks, start: float, end: float, pick: Callable[[float], Sums]
) -> Counter[str]:
    """Add the rows of a time that are folded; returns their number for each stream, and that of `skipped` ones."""
    counts: Counter[str] = Counter()
    for stream, (number, at) in COLUMNS.items():
        condition = f"{at} >= ? AND {at} < ? AND +{number} <= ?"
        values = (start, end, getattr(marks, stream))
        counts[stream], skipped, _ = add_rows(connection, stream, marks, condition, values, pick)
        counts["skipped"] += skipped
    return counts


def add_between(
    connection: sqlite3.Connection, after: Marks, until: Marks, start: float, end: float, pick: Callable[[float], Sums]
) -> None:
    """Add the rows of a time that lie between two marks."""
    for stream, (number, at) in COLUMNS.items():
        # The plus keeps SQLite from using the index of times for a few rows at the end.
        condition = f"{number} > ? AND {number} <= ? AND +{at} >= ? AND +{at} < ?"
        values = (getattr(after, stream), getattr(until, stream), start, end)
        add_rows(connection, stream, after, condition, values, pick)


def last_number(connection: sqlite3.Connection, stream: Stream) -> int:
    """The number of the newest row of a stream; 0 if there is none."""
    number, _ = COLUMNS[stream]
    (found,) = connection.execute(f"SELECT coalesce(max({number}), 0) FROM {stream}").fetchone()  # noqa: S608 - our names
    return int(found)


def fold(connection: sqlite3.Connection) -> int:
    """Fold some new rows into the sums, in the order of their numbers; returns how many. Repeat until it is 0.

    Other gateways may fold at the same time: no row counts twice. Raises `StoreError`.
    """
    marks = read_marks(connection)
    names = read_names(connection)
    hours = SumsByHour(names)
    taken = 0
    for stream, (number, _) in COLUMNS.items():
        condition = f"{number} > ? ORDER BY {number} LIMIT ?"
        values = (getattr(marks, stream), FOLD_ROWS - taken)
        count, _, last = add_rows(connection, stream, marks, condition, values, hours.pick)
        taken += count
        if count:
            write_mark(connection, stream, last)
    total = Sums()
    days: dict[int, Sums] = {}
    for start, sums in hours.items():
        total.merge(sums)
        days.setdefault(start // DAY * DAY, Sums()).merge(sums)
        if start >= marks.hours:
            add_to_sums(connection, "hour", start, sums)
    for start, sums in days.items():
        add_to_sums(connection, "day", start, sums)
    add_to_sums(connection, "total", 0, total)
    return taken


# Sums


def read_names(connection: sqlite3.Connection) -> set[str]:
    """The distinguished names of upstreams."""
    names = set()
    for metric in METRICS.values():
        if "upstream" in metric.labels:
            place = list(metric.labels).index("upstream")
            query = "SELECT labels FROM metric_sums WHERE span = 'total' AND start = 0 AND name = ?"
            for (text,) in connection.execute(query, (metric.name,)):
                labels = _decode_labels(metric.name, text)
                if labels is not None:
                    names.add(labels[place])
    return names


def read_sums(
    connection: sqlite3.Connection, span: Span, first: float, end: float, pick: Callable[[int], Sums]
) -> None:
    """Add the sums of a span that start within a time to those that `pick` returns for their start."""
    rows = connection.execute(f"{_SUMS} WHERE span = ? AND start >= ? AND start < ?", (span, first, end))
    for start, *row in rows:
        found = _decode_sum(*row)
        if found is not None:
            pick(start).add(*found)


def add_to_sums(connection: sqlite3.Connection, span: Span, start: int, sums: Sums) -> None:
    """Add to the sums of one start."""
    for (name, values), amount in sums.items():
        labels = _ENCODER.encode(values).decode()
        row = connection.execute(
            f"{_SUMS} WHERE span = ? AND start = ? AND name = ? AND labels = ?", (span, start, name, labels)
        ).fetchone()
        before = None if row is None else _decode_sum(*row[1:])
        _write_sum(connection, span, start, name, labels, amount if before is None else before[1].plus(amount))


def replace_sums(connection: sqlite3.Connection, span: Span, start: int, sums: Sums) -> None:
    """Replace the sums of one start."""
    connection.execute("DELETE FROM metric_sums WHERE span = ? AND start = ?", (span, start))
    for (name, labels), amount in sums.items():
        _write_sum(connection, span, start, name, _ENCODER.encode(labels).decode(), amount)


def _write_sum(connection: sqlite3.Connection, span: Span, start: int, name: str, labels: str, amount: Sum) -> None:
    connection.execute(
        upsert("metric_sums", "span, start, name, labels, count, total, buckets", key="span, start, name, labels"),
        (span, start, name, labels, amount.count, min(amount.total, _MOST), _ENCODER.encode(amount.buckets).decode()),
    )


def _decode_sum(name: str, labels: Any, count: Any, total: Any, buckets: Any) -> tuple[Key, Sum] | None:
    """Decode one sum; None if this version has other metrics."""
    values = _decode_labels(name, labels)
    if values is None:
        return None
    borders = METRICS[name].buckets
    try:
        counts = _BUCKETS.decode(buckets)
    except (msgspec.DecodeError, TypeError):
        return None
    if len(counts) != (len(borders) + 1 if borders else 0) or type(count) is not int or type(total) is not int:
        return None
    return (name, values), Sum(count, total, counts)


def _decode_labels(name: str, text: Any) -> tuple[str, ...] | None:
    metric = METRICS.get(name)
    try:
        labels = _LABELS.decode(text)
    except (msgspec.DecodeError, TypeError):
        return None
    return None if metric is None or len(labels) != len(metric.labels) else labels


def _read_call(tool: bytes, upstream: bytes, error: bytes | None, seconds: Any, answer_bytes: Any) -> CallRow | None:
    """The counted part of a call; None if a column has the wrong type."""
    if not isinstance(seconds, float) or not isinstance(answer_bytes, int):
        return None
    return CallRow(
        tool=tool.decode("utf-8", "replace"),
        upstream=upstream.decode("utf-8", "replace"),
        error=None if error is None else error.decode("utf-8", "replace"),
        seconds=seconds,
        answer_bytes=answer_bytes,
    )


def _encode_fact(fact: Fact) -> str:
    try:
        return _ENCODER.encode(fact).decode()
    except UnicodeEncodeError:  # half a surrogate pair, which UTF-8 cannot hold
        return json.dumps(msgspec.to_builtins(fact), ensure_ascii=False).encode("utf-8", "replace").decode()
