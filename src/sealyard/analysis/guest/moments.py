"""Mean, spread, quantiles and ranks of numbers: sums are rounded once, and no size of number overflows on the way."""

import math
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

# Squares of numbers within these, and sums of millions of them, are ordinary floats.
_LARGE, _SMALL = 1e140, 1e-140


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    scaled, exponent = rescaled(values)
    rough = math.fsum(scaled) / len(scaled)
    # The sum and the quotient were each rounded: what is left of the values says by how much.
    return math.ldexp(rough + math.fsum(value - rough for value in scaled) / len(scaled), exponent)


def spread(values: Sequence[float]) -> float:
    """The standard deviation of a sample (n - 1) of at least two values; exactly 0 if they are all the same."""
    if min(values) == max(values):
        return 0.0
    scaled, exponent = rescaled(values)
    offsets, fine = rescaled(centred(scaled))
    # The mean was rounded; what that adds to every square is taken out again.
    squares = math.fsum(offset * offset for offset in offsets) - math.fsum(offsets) ** 2 / len(offsets)
    return _ldexp(math.sqrt(max(0.0, squares) / (len(offsets) - 1)), exponent + fine)


def centred(values: Sequence[float]) -> list[float]:
    """The values less their mean."""
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
    """The value below which `share` (0 to 1) of the sorted values lie, between the two nearest by linear measure."""
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    rest = place - below
    if rest == 0.0 or ordered[below] == ordered[below + 1]:
        return float(ordered[below])
    # Two products, not a difference: the difference of the two largest floats of opposite sign overflows.
    return float(ordered[below]) * (1.0 - rest) + float(ordered[below + 1]) * rest


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in their order, from 1; equal values share the mean of their places."""
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
