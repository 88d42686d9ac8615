"""The aggregates of values, by the rules that `plan` states, and the correlation and covariance of columns.

Figures are null where they are not finite, as a deviation of numbers beyond 1e150 is, whose squares overflow.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter, mul
from typing import Any, Literal, TypeAlias, cast

from .errors import AnalysisError, kind_of, quoted
from .limits import MAX_INTEGER
from .plan import Aggregate, Function
from .values import NUMBERS, as_float, keys_of, order_keys

OF_NUMBERS = frozenset(("sum", "mean", "median", "std", "variance", "percentile"))
"""The functions that take numbers only."""

Reducer: TypeAlias = Callable[[Sequence[Any]], Any]
Column: TypeAlias = Sequence[float | None]


def check_numbers(aggregate: Aggregate, column: Sequence[Any]) -> frozenset[type]:
    """Return the types in a column except null. Raises `AnalysisError` if the aggregate does not take one of them."""
    kinds = frozenset(map(type, column)) - {type(None)}
    if aggregate.function in OF_NUMBERS and not kinds <= NUMBERS:
        row = next(place for place, value in enumerate(column) if value is not None and type(value) not in NUMBERS)
        raise AnalysisError(
            f"{aggregate.at}: {aggregate.function!r} takes numbers, and row {row} has {quoted(column[row])} "
            f"({kind_of(column[row])}). Cast the field first, or filter such rows out."
        )
    return kinds


def reducer(aggregate: Aggregate, column: Sequence[Any]) -> Reducer:
    """Return the function from values of `column`, none of them null, to their aggregate."""
    kinds = check_numbers(aggregate, column)
    if aggregate.function == "sum":
        return _finite(math.fsum) if float in kinds else lambda values: whole_sum(sum(values), aggregate.at)
    if aggregate.function == "percentile":
        share = (aggregate.percentile or 0.0) / 100
        return _finite(lambda values: quantile(sorted(values), share), least=1)
    return _REDUCERS[aggregate.function]


def whole_sum(total: int, at: str) -> int:
    """The sum of whole numbers. Raises `AnalysisError` if it is beyond the largest whole number."""
    if -MAX_INTEGER <= total <= MAX_INTEGER:
        return total
    raise AnalysisError(f"{at}: the sum is beyond {MAX_INTEGER}. Cast the field to float first.")


def _finite(reduce: Callable[[Sequence[Any]], float], *, least: int = 0) -> Reducer:
    """The function, returning null for fewer than `least` values or a result that is not a finite float."""

    def reduced(values: Sequence[Any]) -> float | None:
        if len(values) < least:
            return None
        try:
            result = reduce(values)
        except OverflowError:
            return None
        return result if math.isfinite(result) else None

    return reduced


mean = _finite(lambda values: math.fsum(values) / len(values), least=1)
"""The mean of values."""


def offsets_of(values: Sequence[float]) -> list[float]:
    """The distances of values from their mean; NaN if that overflows."""
    if not values or min(values) == max(values):
        return [0.0] * len(values)  # the mean of equal values may differ from them in the last digit
    middle = mean(values)
    return [math.nan if middle is None else value - middle for value in values]


def _variance(values: Sequence[float]) -> float:
    return math.fsum(each**2 for each in offsets_of(values)) / (len(values) - 1)


variance = _finite(_variance, least=2)
"""The variance of a sample (n - 1)."""
deviation = _finite(lambda values: math.sqrt(_variance(values)), least=2)
"""The standard deviation of a sample (n - 1)."""


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile at `share` (0 to 1) of sorted values, interpolated linearly."""
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    rest = place - below
    if rest == 0.0 or ordered[below] == ordered[below + 1]:
        return float(ordered[below])
    # Two products, not a difference: the difference of the two largest floats of opposite sign overflows.
    return float(ordered[below]) * (1.0 - rest) + float(ordered[below + 1]) * rest


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1; equal values share the mean of their ranks."""
    places = [0.0] * len(values)
    before = 0
    for _, same in groupby(sorted(zip(values, range(len(values)), strict=True)), key=itemgetter(0)):
        indices = [index for _, index in same]
        for index in indices:
            places[index] = before + (len(indices) + 1) / 2
        before += len(indices)
    return places


def _extreme(choose: Callable[..., Any]) -> Reducer:
    def reduced(values: Sequence[Any]) -> Any:
        keys = order_keys(values)
        if not values or keys is values:
            return choose(values, default=None)
        return values[choose(range(len(values)), key=keys.__getitem__)]

    return reduced


_REDUCERS: dict[Function, Reducer] = {
    "count": len,
    "mean": mean,
    "median": _finite(lambda values: quantile(sorted(values), 0.5), least=1),
    "min": _extreme(min),
    "max": _extreme(max),
    "std": deviation,
    "variance": variance,
    "distinct": lambda values: len(set(keys_of(values))),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A symmetric matrix, None where undefined, and the number of rows behind each value."""

    values: list[list[float | None]]
    counts: list[list[int]]


def correlation(columns: Sequence[Column], method: Literal["pearson", "spearman"]) -> Matrix:
    """Pearson's r, or Spearman's: Pearson's of the ranks. None under two rows or where a column is constant."""

    def coefficient(first: list[float], second: list[float]) -> float | None:
        product = _product(first, second, 1)
        return None if product is None else 1.0 if first is second else max(-1.0, min(1.0, product))

    return _matrix(columns, (lambda values: _unit(ranks(values))) if method == "spearman" else _unit, coefficient)


def covariance(columns: Sequence[Column]) -> Matrix:
    """The covariance of a sample (n - 1). None under two rows, or beyond what a float holds."""
    return _matrix(columns, offsets_of, lambda first, second: _product(first, second, len(first) - 1))


def _matrix(
    columns: Sequence[Column],
    prepare: Callable[[Sequence[float]], list[float]],
    measure: Callable[[list[float], list[float]], float | None],
) -> Matrix:
    size = len(columns)
    # A column without gaps is prepared once, not once for each of its partners.
    whole = [None if None in column else prepare(cast(Sequence[float], column)) for column in columns]
    values: list[list[float | None]] = [[None] * size for _ in columns]
    counts = [[0] * size for _ in columns]
    for i, first in enumerate(columns):
        for j in range(i, size):
            one, two = whole[i], whole[j]
            if one is None or two is None:
                both = [(a, b) for a, b in zip(first, columns[j], strict=True) if a is not None and b is not None]
                one = prepare([a for a, _ in both])
                two = one if i == j else prepare([b for _, b in both])
            counts[i][j] = counts[j][i] = len(one)
            values[i][j] = values[j][i] = measure(one, two) if len(one) > 1 else None
    return Matrix(values, counts)


def _unit(values: Sequence[float]) -> list[float]:
    """The distances of values from their mean as a vector of length 1; NaN where they do not differ."""
    offsets = offsets_of(values)
    length = math.hypot(*offsets)
    return [offset / length if 0.0 < length < math.inf else math.nan for offset in offsets]


def _product(first: list[float], second: list[float], divisor: float) -> float | None:
    try:
        return as_float(math.fsum(map(mul, first, second)) / divisor)
    except (OverflowError, ValueError):  # an infinite sum
        return None
