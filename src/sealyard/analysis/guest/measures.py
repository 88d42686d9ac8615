"""Mean, spread, quantiles, ranks, correlation and covariance of numbers.

Sums are rounded once, and no size of number overflows on the way.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter, mul
from typing import Literal, TypeAlias

# Squares of numbers within these, and sums of millions of them, are ordinary floats.
_LARGE, _SMALL = 1e140, 1e-140
Column: TypeAlias = Sequence[float | None]


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    scaled, exponent = rescaled(values)
    rough = math.fsum(scaled) / len(scaled)
    # The sum and the quotient were each rounded; the remainders correct for it.
    return math.ldexp(rough + math.fsum(value - rough for value in scaled) / len(scaled), exponent)


def spread(values: Sequence[float]) -> float:
    """The standard deviation of a sample (n - 1) of at least two values; exactly 0 if they are all the same."""
    if min(values) == max(values):
        return 0.0
    scaled, exponent = rescaled(values)
    offsets, fine = rescaled(centred(scaled))
    # The mean was rounded; its error in every square is taken out again.
    squares = math.fsum(offset * offset for offset in offsets) - math.fsum(offsets) ** 2 / len(offsets)
    return _ldexp(math.sqrt(max(0.0, squares) / (len(offsets) - 1)), exponent + fine)


def centred(values: Sequence[float]) -> list[float]:
    """The values minus their mean."""
    middle = math.fsum(values) / len(values)
    return [value - middle for value in values]


def rescaled(values: Sequence[float]) -> tuple[Sequence[float], int]:
    """The values divided by a power of two if their squares would overflow or vanish, and that power's exponent."""
    largest = max(map(abs, values), default=0.0)
    if largest == 0.0 or _SMALL < largest < _LARGE:
        return values, 0
    exponent = math.frexp(largest)[1]
    return [math.ldexp(value, -exponent) for value in values], exponent


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


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class Matrix:
    """A symmetric matrix, None where undefined, and the number of rows behind each value."""

    values: list[list[float | None]]
    counts: list[list[int]]


@dataclass(frozen=True, slots=True)
class _Offsets:
    """A column's distances from its mean, times 2**exponent, and the root of the sum of their squares."""

    values: Sequence[float]
    exponent: int
    length: float


_Measure: TypeAlias = Callable[[_Offsets, _Offsets], float | None]


def correlation(columns: Sequence[Column], method: Literal["pearson", "spearman"]) -> Matrix:
    """Pearson's r, or Spearman's: Pearson's of the ranks. None under two rows or where a column is constant."""
    return _matrix(columns, ranked=method == "spearman", measure=_coefficient)


def covariance(columns: Sequence[Column]) -> Matrix:
    """The covariance of a sample (n - 1). None under two rows, or beyond what a float holds."""
    return _matrix(columns, ranked=False, measure=_covariance)


def _matrix(columns: Sequence[Column], *, ranked: bool, measure: _Measure) -> Matrix:
    size = len(columns)
    # A column without gaps is ranked and centred once, not once for each of its partners.
    whole = [_offsets(column, ranked=ranked) if None not in column else None for column in columns]
    values: list[list[float | None]] = [[None] * size for _ in columns]
    counts = [[0] * size for _ in columns]
    for i, first in enumerate(columns):
        for j in range(i, size):
            second, one, two = columns[j], whole[i], whole[j]
            if one is None or two is None:
                both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
                one = _offsets([a for a, _ in both], ranked=ranked)
                two = one if i == j else _offsets([b for _, b in both], ranked=ranked)
            counts[i][j] = counts[j][i] = len(one.values)
            values[i][j] = values[j][i] = measure(one, two) if len(one.values) > 1 else None
    return Matrix(values, counts)


def _offsets(column: Sequence[float | None], *, ranked: bool) -> _Offsets:
    numbers = [value for value in column if value is not None]
    if not numbers:
        return _Offsets((), 0, 0.0)
    scaled, exponent = rescaled(ranks(numbers) if ranked else numbers)
    constant = min(scaled) == max(scaled)
    offsets, fine = rescaled([0.0] * len(scaled) if constant else centred(scaled))
    return _Offsets(offsets, exponent + fine, math.sqrt(math.fsum(map(mul, offsets, offsets))))


def _coefficient(first: _Offsets, second: _Offsets) -> float | None:
    if first.length == 0.0 or second.length == 0.0:
        return None
    if first is second:
        return 1.0
    product = math.fsum(map(mul, first.values, second.values)) / first.length / second.length
    return max(-1.0, min(1.0, product))


def _covariance(first: _Offsets, second: _Offsets) -> float | None:
    product = math.fsum(map(mul, first.values, second.values)) / (len(first.values) - 1)
    try:
        return math.ldexp(product, first.exponent + second.exponent)
    except OverflowError:
        return None
