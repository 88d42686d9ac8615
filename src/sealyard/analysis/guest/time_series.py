"""Time series: aggregates of calendar buckets, and of windows that move over the rows.

A window that moves by one row costs the same at any width for counts and sums; the other functions reduce each window
anew, and the number of values that they reduce is bounded. Sums are differences of running totals, kept as whole
numbers of the finest unit in the column, so that a million moves add no rounding error.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, compress
from typing import Any, TypeAlias

from .aggregates import OF_NUMBERS, Reducer, check_numbers, reducer, whole_sum
from .errors import AnalysisError
from .groups import numbered, parse_group, values_of
from .limits import MAX_BUCKETS, MAX_REDUCED
from .parameters import Parameters
from .plan import Aggregate, Group, Row
from .tables import Table
from .values import UNITS, as_float, bucket_start, bucket_text, next_bucket, read_duration, read_moments

_WIDEST = 1_000_000_000  # of a window in rows: more than any table has
_REDUCED = ("median", "percentile", "min", "max", "distinct")
_Span: TypeAlias = tuple[int, int]  # of places among the values that are not null


def resample(request: Parameters, table: Table) -> dict[str, Any]:
    """A row for each calendar bucket and group that has rows, in the order of time, with aggregates."""
    time = request.field("time")
    unit = request.word("every", UNITS)
    fill = request.word("fill", ("none", "null", "zero", "previous"), "none")
    group = _group(request)
    results = [aggregate.name for aggregate in group.aggregates]
    if time.name in (*(output.name for output in group.keys), *results):
        raise AnalysisError(f"time is {time.name!r}, and so is another result. Give that another name with 'as'.")
    moments = read_moments(table.read(time), time.name, time.at)
    columns = [_column(aggregate, table) for aggregate in group.aggregates]
    reducers = [reducer(each, column) for each, column in zip(group.aggregates, columns, strict=True)]
    made: list[tuple[datetime, int, Row]] = []
    for number, (labels, places) in enumerate(_groups(group, table)):
        buckets: dict[datetime, list[int]] = {}
        for place in places:
            if (moment := moments[place]) is not None:
                buckets.setdefault(bucket_start(moment, unit), []).append(place)
        figures_of = partial(_figures, columns, reducers)
        for start, figures in _filled(buckets, figures_of, unit, fill):
            row = {time.name: bucket_text(start, unit), **labels, **dict(zip(results, figures, strict=True))}
            made.append((start, number, row))
            if len(made) > max(MAX_BUCKETS, len(table.rows)):
                raise AnalysisError(
                    f"every is {unit!r}, which makes more than {MAX_BUCKETS} rows. "
                    "Use a longer one, or leave the gaps open with fill 'none'."
                )
    made.sort(key=lambda entry: entry[:2])
    return {"every": unit, "rows": [row for _, _, row in made], "notes": _untimed(moments)}


def rolling(request: Parameters, table: Table) -> dict[str, Any]:
    """Every row, in the order of time if one is named, with aggregates of the rows up to it."""
    group = _group(request)
    width = _width(request)
    least = request.whole("min_count", width if isinstance(width, int) else 1, least=1, most=_WIDEST)
    if isinstance(width, int) and request.has("min_count") and least > width:
        raise request.fail("min_count", f"a whole number from 1 to {width}, the window")
    known = frozenset[str]().union(*table.rows)
    for aggregate in group.aggregates:
        if aggregate.name in known:
            raise AnalysisError(
                f"{aggregate.at} makes {aggregate.name!r}, a field of the rows. Give another name with 'as'."
            )
    moments: list[datetime | None] = []
    order: Sequence[int] = range(len(table.rows))
    if request.has("time"):
        time = request.field("time")
        moments = read_moments(table.read(time), time.name, time.at)
        timed = [(moment, place) for place, moment in enumerate(moments) if moment is not None]
        order = [place for _, place in sorted(timed)]
    elif not isinstance(width, int):
        raise request.fail("time", "the field whose moments the window is measured by")
    rank = {place: number for number, place in enumerate(order)}
    rows = [dict(table.rows[place]) for place in order]
    groups = [
        sorted((place for place in places if place in rank), key=rank.__getitem__)
        for _, places in _groups(group, table)
    ]
    starts = [_starts(places, width, moments) for places in groups]
    for aggregate in group.aggregates:
        column = _column(aggregate, table)
        reduce = reducer(aggregate, column)
        reduced = 0
        for places, outside in zip(groups, starts, strict=True):
            values = [column[place] for place in places]
            before = list(accumulate((value is not None for value in values), initial=0))
            spans = [(before[start], before[end]) for end, start in enumerate(outside, start=1)]
            filled = [end - start >= least for start, end in spans]
            spans = list(compress(spans, filled))
            reduced += sum(end - start for start, end in spans) if aggregate.function in _REDUCED else 0
            if reduced > MAX_REDUCED:
                raise AnalysisError(
                    f"{aggregate.at}: the windows of {aggregate.function!r} hold more than {MAX_REDUCED} values "
                    "together. Use a smaller window, fewer rows, or 'mean', which is not bounded."
                )
            found = iter(_windows(aggregate, [value for value in values if value is not None], spans, reduce))
            for place, is_filled in zip(places, filled, strict=True):
                rows[rank[place]][aggregate.name] = next(found) if is_filled else None
    return {"rows": rows, "notes": _untimed(moments)}


def _starts(places: Sequence[int], width: int | timedelta, moments: Sequence[datetime | None]) -> list[int]:
    """For each place, the number of leading places outside the window that ends there."""
    if isinstance(width, int):
        return [max(0, number + 1 - width) for number in range(len(places))]
    starts = []
    start = 0
    for place in places:
        now = moments[place]
        assert now is not None
        while (then := moments[places[start]]) is not None and now - then >= width:
            start += 1
        starts.append(start)
    return starts


def _width(request: Parameters) -> int | timedelta:
    given = request.value("window")
    if isinstance(given, str):
        return read_duration(given, request.at("window"))
    if not request.has("window"):
        raise request.fail("window", "a number of rows, or a duration like '7 days'")
    return request.whole("window", 1, least=1, most=_WIDEST)


def _figures(columns: Sequence[list[Any]], reducers: Sequence[Reducer], places: Sequence[int]) -> list[Any]:
    """The aggregates of the rows at some places."""
    return [
        reduce([column[place] for place in places if column[place] is not None])
        for column, reduce in zip(columns, reducers, strict=True)
    ]


def _filled(
    buckets: dict[datetime, list[int]], figures_of: Callable[[Sequence[int]], list[Any]], unit: str, fill: str
) -> Iterator[tuple[datetime, list[Any]]]:
    """The aggregates of each bucket from the first to the last; `fill` states the value of an empty one."""
    figures: list[Any] = []
    empty = figures_of(())
    empty = [0] * len(empty) if fill == "zero" else empty
    before: datetime | None = None
    for start in sorted(buckets):
        while fill != "none" and before is not None and (before := next_bucket(before, unit)) < start:
            yield before, figures if fill == "previous" else empty
        figures = figures_of(buckets[start])
        yield start, figures
        before = start


def _column(aggregate: Aggregate, table: Table) -> list[Any]:
    """The values that an aggregate is taken of; of numbers, null for those that no float holds."""
    column = values_of(aggregate, table)
    if aggregate.function not in OF_NUMBERS:
        return column
    check_numbers(aggregate, column)
    return [None if value is None or as_float(value) is None else value for value in column]


def _group(request: Parameters) -> Group:
    if not request.has("aggregations"):
        raise request.fail("aggregations", "what to compute, like {'average': 'mean(price)'}")
    return parse_group({name: request.value(name) for name in ("group_by", "aggregations")})


def _groups(group: Group, table: Table) -> list[tuple[Row, Sequence[int]]]:
    """The places of each group's rows, with what the group is called; one group of all rows without keys."""
    columns = {output.name: table.read(output.field) for output in group.keys}
    numbers, firsts = numbered(list(columns.values()), len(table.rows))
    places: list[list[int]] = [[] for _ in firsts]
    for place, number in enumerate(numbers):
        places[number].append(place)
    labels = [{name: column[first] for name, column in columns.items()} for first in firsts]
    return list(zip(labels, places, strict=True))


def _untimed(moments: Sequence[datetime | None]) -> list[str]:
    absent = sum(1 for moment in moments if moment is None)
    return [f"{absent} rows have no time and are left out."] if absent else []


def _windows(aggregate: Aggregate, values: Sequence[Any], spans: Sequence[_Span], reduce: Reducer) -> list[Any]:
    """The aggregate of each span of values, none of which is null."""
    match aggregate.function:
        case "count":
            return [end - start for start, end in spans]
        case "first":
            return [values[start] for start, _ in spans]
        case "last":
            return [values[end - 1] for _, end in spans]
        case "sum" | "mean" | "std" | "variance":
            return _moving_sums(aggregate, values, spans)
    return [reduce(list(values[start:end])) for start, end in spans]


def _moving_sums(aggregate: Aggregate, values: Sequence[float], spans: Sequence[_Span]) -> list[float | None]:
    """Sums of spans as differences of running totals, which are whole numbers of the finest unit in the values."""
    ratios = [value.as_integer_ratio() for value in values]
    # Every denominator is a power of two, so the largest is a multiple of all.
    unit = max((denominator for _, denominator in ratios), default=1)
    units = [numerator * (unit // denominator) for numerator, denominator in ratios]
    totals = list(accumulate(units, initial=0))
    is_squared = aggregate.function in ("std", "variance")
    squares = list(accumulate((each * each for each in units), initial=0)) if is_squared else totals
    is_whole = all(type(value) is int for value in values)

    def figure(count: int, total: int, square: int) -> float | None:
        if aggregate.function == "sum":
            return whole_sum(total, aggregate.at) if is_whole else total / unit
        if aggregate.function == "mean":
            return total / (count * unit)
        if count < 2:
            return None
        variance = (count * square - total * total) / (count * (count - 1) * unit * unit)
        return variance if aggregate.function == "variance" else math.sqrt(variance)

    figures: list[float | None] = []
    for start, end in spans:
        try:
            figures.append(figure(end - start, totals[end] - totals[start], squares[end] - squares[start]))
        except OverflowError:
            figures.append(None)  # too large for a float
    return figures
