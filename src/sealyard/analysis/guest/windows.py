"""Aggregates of a window that moves over a column: a value enters at its front, the oldest leaves at its back.

Each step costs the same however wide the window is (except median and percentile, which are bounded for it). Sums are
kept as whole numbers of the finest unit in the column, so that a million steps add no rounding error.
"""

import math
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .errors import AnalysisError
from .moments import quantile
from .plan import MAX_INTEGER
from .values import keys_of, order_keys

SORTED_WINDOW = 50_000
"""Most values in a window of which the median or a percentile is taken."""


class Window(Protocol):
    """Either end of the window, by the places of values in the column, and the aggregate of what is between."""

    def enter(self, place: int) -> None:
        """Takes the value at `place` in."""

    def leave(self, place: int) -> None:
        """Lets the value at `place` go, the oldest there is."""

    def value(self) -> Any:
        """The aggregate of the values inside, of which there is at least one."""


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


def reducer(function: str, column: Sequence[Any], percentile: float | None) -> Callable[[Sequence[int]], Any]:
    """The function that aggregates the values at some places of `column`, none of them null."""
    if function in ("median", "percentile"):
        share = 0.5 if percentile is None else percentile / 100
        return lambda places: quantile(sorted(column[place] for place in places), share) if places else None
    window = open_window(function, column, percentile)
    of_nothing = 0 if function in ("count", "sum", "distinct") else None

    def reduced(places: Sequence[int]) -> Any:
        for place in places:
            window.enter(place)
        value = window.value() if places else of_nothing
        for place in places:
            window.leave(place)
        return value

    return reduced


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
            return None  # beyond what a float holds

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
    """How often each value is inside."""

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
    """The places inside: how many, the first and the last."""

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
