"""Correlation and covariance of every pair of columns, each pair over the rows that have both values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Literal, TypeAlias

from .moments import centred, ranks, rescaled

Column: TypeAlias = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A symmetric matrix, None where it is undefined, and how many rows each of its values rests on."""

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
