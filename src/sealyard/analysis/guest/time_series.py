"""Time series: aggregates of calendar buckets, and of windows that move over the rows.

In a moving window a value enters at the front and the oldest leaves at the back. Each move costs the same at any width,
except for median and percentile, whose width is bounded. Sums are kept as whole numbers of the finest unit in the
column, so that a million moves add no rounding error.
"""

import math
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from .aggregates import OF_NUMBERS, Reducer, check_numbers, reducer
from .errors import AnalysisError
from .evaluation import evaluate
from .groups import parse_group
from .measures import quantile
from .parameters import Parameters
from .plan import MAX_INTEGER, Aggregate, Group, Row
from .tables import Table
from .values import (
    UNITS,
    as_float,
    bucket_start,
    bucket_text,
    keys_of,
    next_bucket,
    order_keys,
    read_duration,
    read_moments,
)

MAX_BUCKETS = 100_000
"""Most rows of a series with its gaps filled, unless the input has more."""
_WIDEST = 1_000_000_000  # of a window in rows: more than any table has
SORTED_WINDOW = 50_000
"""Most values in a window of which the median or a percentile is taken."""


class Window(Protocol):
    """Either end of the window, by the places of values in the column, and the aggregate of what is between."""

    def enter(self, place: int) -> None:
        """Takes the value at `place` in."""

    def leave(self, place: int) -> None:
        """Lets the value at `place` go, the oldest there is."""

    def value(self) -> Any:
        """The aggregate of the values inside; there is at least one."""


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
    for aggregate in group.aggregates:
        if aggregate.name in _names(table):
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
    for aggregate in group.aggregates:
        column = _column(aggregate, table)
        window = open_window(aggregate.function, column, aggregate.percentile)
        for places in groups:
            values = _slide(window, places, column, _tail(places, width, moments), least)
            for place, value in zip(places, values, strict=True):
                rows[rank[place]][aggregate.name] = value
    return {"rows": rows, "notes": _untimed(moments)}


def _slide(
    window: Window, places: Sequence[int], column: Sequence[Any], left_behind: Iterable[int], least: int
) -> list[Any]:
    """The aggregate of the window that ends at each place; `left_behind` says how many places it no longer covers.

    The window is empty before and after, for the next group to use: opening one costs as much as the whole column.
    """
    values = []
    inside = oldest = 0
    for place, behind in zip(places, left_behind, strict=True):
        if column[place] is not None:
            window.enter(place)
            inside += 1
        for past in places[oldest:behind]:
            if column[past] is not None:
                window.leave(past)
                inside -= 1
        oldest = behind
        values.append(window.value() if inside >= least else None)
    for past in places[oldest:]:
        if column[past] is not None:
            window.leave(past)
    return values


def _tail(places: Sequence[int], width: int | timedelta, moments: Sequence[datetime | None]) -> Iterator[int]:
    """For each place, the number of leading places outside the window that ends there."""
    if isinstance(width, int):
        yield from (max(0, number + 1 - width) for number in range(len(places)))
        return
    behind = 0
    for place in places:
        now = moments[place]
        assert now is not None
        while (then := moments[places[behind]]) is not None and now - then >= width:
            behind += 1
        yield behind


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
    """The values that an aggregate is taken of; for a count of rows, something for each row."""
    if aggregate.value is None:
        return [True] * len(table.rows)
    column = evaluate(aggregate.value, table, aggregate.at)
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
    if not group.keys:
        return [({}, range(len(table.rows)))]
    columns = [table.read(output.field) for output in group.keys]
    found: dict[Any, list[int]] = {}
    for place, key in enumerate(zip(*map(keys_of, columns), strict=True)):
        found.setdefault(key, []).append(place)
    names = [output.name for output in group.keys]
    return [
        (dict(zip(names, (column[places[0]] for column in columns), strict=True)), places) for places in found.values()
    ]


def _names(table: Table) -> frozenset[str]:
    return frozenset().union(*table.rows)


def _untimed(moments: Sequence[datetime | None]) -> list[str]:
    absent = sum(1 for moment in moments if moment is None)
    return [f"{absent} rows have no time and are left out."] if absent else []


def open_window(function: str, column: Sequence[Any], percentile: float | None) -> Window:
    """An empty window over `column`; its nulls are never let in."""
    if function in ("sum", "mean", "std", "variance"):
        return _Sums(column, function)
    if function in ("median", "percentile"):
        return _Sorted(column, 0.5 if percentile is None else percentile / 100)
    if function in ("min", "max"):
        return _Extreme(column, highest=function == "max")
    if function == "distinct":
        return _Distinct(column)
    return _Ends(column, function)


class _Sums:
    """Count, sum and sum of squares, exactly."""

    def __init__(self, column: Sequence[float | None], function: str) -> None:
        numbers = [value for value in column if value is not None]
        self._whole = all(type(value) is int for value in numbers)
        ratios = [None if value is None else value.as_integer_ratio() for value in column]
        # Every denominator is a power of two, so the largest is a multiple of all.
        self._unit = max((ratio[1] for ratio in ratios if ratio), default=1)
        self._units = [0 if ratio is None else ratio[0] * (self._unit // ratio[1]) for ratio in ratios]
        self._squared = function in ("std", "variance")
        self._value: Callable[[], Any] = getattr(self, f"_{function}")
        self._count = self._total = self._squares = 0

    def enter(self, place: int) -> None:
        units = self._units[place]
        self._count += 1
        self._total += units
        if self._squared:
            self._squares += units * units

    def leave(self, place: int) -> None:
        units = self._units[place]
        self._count -= 1
        self._total -= units
        if self._squared:
            self._squares -= units * units

    def value(self) -> Any:
        try:
            return self._value()
        except OverflowError:
            return None  # too large for a float

    def _sum(self) -> int | float:
        if not self._whole:
            return self._total / self._unit
        if abs(self._total) > MAX_INTEGER:
            raise AnalysisError(f"A sum is beyond {MAX_INTEGER}, the largest whole number. Cast the field to float.")
        return self._total

    def _mean(self) -> float:
        return self._total / (self._count * self._unit)

    def _variance(self) -> float | None:
        if self._count < 2:
            return None
        scatter = self._count * self._squares - self._total * self._total
        return scatter / (self._count * (self._count - 1) * self._unit * self._unit)

    def _std(self) -> float | None:
        variance = self._variance()
        return None if variance is None else math.sqrt(variance)


class _Sorted:
    """The values in order."""

    def __init__(self, column: Sequence[float | None], share: float) -> None:
        self._column = column
        self._share = share
        self._inside: list[float] = []

    def enter(self, place: int) -> None:
        value = self._column[place]
        assert value is not None
        if len(self._inside) >= SORTED_WINDOW:
            raise AnalysisError(
                f"window holds more than {SORTED_WINDOW} values, the most that a median or percentile is taken of. "
                "Use a smaller window or another function."
            )
        insort(self._inside, value)

    def leave(self, place: int) -> None:
        value = self._column[place]
        assert value is not None
        del self._inside[bisect_left(self._inside, value)]

    def value(self) -> float:
        return quantile(self._inside, self._share)


class _Extreme:
    """The places of the values that may yet become the extreme one: each later than, and not beyond, the one before."""

    def __init__(self, column: Sequence[Any], *, highest: bool) -> None:
        self._column = column
        present = [place for place, value in enumerate(column) if value is not None]
        keys = order_keys([column[place] for place in present])
        self._keys = dict(zip(present, keys, strict=True))
        self._highest = highest
        self._places: deque[int] = deque()

    def enter(self, place: int) -> None:
        key, keys, places = self._keys[place], self._keys, self._places
        while places and (keys[places[-1]] < key if self._highest else keys[places[-1]] > key):
            places.pop()
        places.append(place)

    def leave(self, place: int) -> None:
        if self._places[0] == place:
            self._places.popleft()

    def value(self) -> Any:
        return self._column[self._places[0]]


class _Distinct:
    """The number of each value inside."""

    def __init__(self, column: Sequence[Any]) -> None:
        self._keys = keys_of(column)
        self._inside: Counter[Any] = Counter()

    def enter(self, place: int) -> None:
        self._inside[self._keys[place]] += 1

    def leave(self, place: int) -> None:
        key = self._keys[place]
        self._inside[key] -= 1
        if not self._inside[key]:
            del self._inside[key]

    def value(self) -> int:
        return len(self._inside)


class _Ends:
    """The number of places inside, the first and the last."""

    def __init__(self, column: Sequence[Any], function: str) -> None:
        self._column = column
        self._function = function
        self._places: deque[int] = deque()

    def enter(self, place: int) -> None:
        self._places.append(place)

    def leave(self, place: int) -> None:
        self._places.popleft()

    def value(self) -> Any:
        if self._function == "count":
            return len(self._places)
        return self._column[self._places[0 if self._function == "first" else -1]]
