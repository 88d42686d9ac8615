"""Hypothesis tests over plain lists of numbers. Where a test has no answer, statistic and p-value are None with a note.

The choices are those a statistician meets elsewhere: Welch's degrees of freedom, Yates' correction for two by two
tables, Mann-Whitney's exact law for a small sample without ties and the normal law with corrections for ties and
continuity beyond.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, Literal, TypeAlias

from .distributions import chi_square_tail, normal_tail, student_tail
from .errors import AnalysisError
from .kolmogorov import distance_tail, two_sample_tail
from .moments import mean, rescaled, spread

__all__ = (
    "Alternative",
    "Outcome",
    "chi_square_fit",
    "chi_square_independence",
    "kolmogorov_smirnov_normal",
    "kolmogorov_smirnov_two",
    "mann_whitney",
    "t_test_one",
    "t_test_paired",
    "t_test_two",
)

Alternative: TypeAlias = Literal["two_sided", "less", "greater"]

# Up to this size of the smaller sample, the law of U is counted instead of approximated ...
_COUNTED_SAMPLE = 8
# ... unless that would take more than a few seconds.
COUNTED_PAIRS = 500_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test found; `details` are further figures of the answer."""

    statistic: float | None
    p_value: float | None
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def t_test_one(values: Sequence[float], expected: float, alternative: Alternative) -> Outcome:
    """Student's test of whether the values' mean is `expected`."""
    scaled, _ = rescaled([*values, expected])
    # Offsets from the expected mean lose no digits where the values are large and close to it.
    return _t_of_offsets([value - scaled[-1] for value in scaled[:-1]], alternative)


def t_test_paired(first: Sequence[float], second: Sequence[float], alternative: Alternative) -> Outcome:
    """Student's test of whether the mean difference of pairs is 0."""
    scaled, _ = rescaled([*first, *second])
    pairs = zip(scaled[: len(first)], scaled[len(first) :], strict=True)
    return _t_of_offsets([one - two for one, two in pairs], alternative)


def _t_of_offsets(offsets: list[float], alternative: Alternative) -> Outcome:
    if len(offsets) < 2:
        return _undefined(f"A t-test needs at least two values and there are {len(offsets)}.")
    scaled, _ = rescaled(offsets)
    deviation = spread(scaled)
    if deviation == 0.0:
        return _undefined("All values are the same, so there is no spread to measure their mean by.")
    statistic = math.fsum(scaled) / len(scaled) / (deviation / math.sqrt(len(scaled)))
    return _by_student(statistic, len(scaled) - 1, alternative)


def t_test_two(
    first: Sequence[float], second: Sequence[float], *, equal_variances: bool, alternative: Alternative
) -> Outcome:
    """Student's test (equal variances) or Welch's of whether two samples have the same mean."""
    n1, n2 = len(first), len(second)
    if min(n1, n2) < 1 or n1 + n2 < 3 or (not equal_variances and min(n1, n2) < 2):
        return _undefined(f"A t-test needs at least two values in each sample and there are {n1} and {n2}.")
    merged, _ = rescaled([*first, *second])
    middle = mean(merged)
    offsets = [value - middle for value in merged]
    one, two = offsets[:n1], offsets[n1:]
    degrees = float(n1 + n2 - 2)
    weights = ((n1 - 1) / degrees * (1 / n1 + 1 / n2), (n2 - 1) / degrees * (1 / n1 + 1 / n2))
    if not equal_variances:
        weights = (1 / n1, 1 / n2)
    # Roots, not variances: the square of a tiny spread beside a large value would vanish.
    part1, part2 = _deviation(one) * math.sqrt(weights[0]), _deviation(two) * math.sqrt(weights[1])
    error = math.hypot(part1, part2)
    if error == 0.0:
        return _undefined("Both samples are constant, so there is no spread to measure the difference by.")
    if not equal_variances:
        share, rest = (part1 / error) ** 2, (part2 / error) ** 2
        degrees = 1.0 / (share * share / (n1 - 1) + rest * rest / (n2 - 1))
    difference = math.fsum(one) / n1 - math.fsum(two) / n2
    return _by_student(difference / error, degrees, alternative)


def mann_whitney(
    first: Sequence[float],
    second: Sequence[float],
    *,
    alternative: Alternative,
    method: Literal["auto", "exact", "asymptotic"],
) -> Outcome:
    """Mann and Whitney's U of the first sample, which counts its values above the second's (a tie is half)."""
    n1, n2 = len(first), len(second)
    twice_first, ties = _twice_ranks(first, second)
    upper = (twice_first - n1 * (n1 + 1)) / 2
    lower = n1 * n2 - upper
    pairs = n1 * n2
    exact = min(n1, n2) <= _COUNTED_SAMPLE and not ties and pairs <= COUNTED_PAIRS if method == "auto" else False
    if method == "exact":
        if ties:
            raise AnalysisError("method is 'exact', but the samples have ties. Use 'auto' or 'asymptotic'.")
        if pairs > COUNTED_PAIRS:
            raise AnalysisError(
                f"method is 'exact', but samples of {n1} and {n2} make {pairs} pairs and at most {COUNTED_PAIRS} are "
                "counted exactly. Use 'auto' or 'asymptotic'."
            )
        exact = True
    reached = {"two_sided": max(upper, lower), "greater": upper, "less": lower}[alternative]
    tail = _counted_tail(round(reached), n1, n2) if exact else _approximate_tail(reached, n1, n2, ties)
    p_value = min(1.0, 2.0 * tail) if alternative == "two_sided" else tail
    return Outcome(upper, p_value, {"method": "exact" if exact else "asymptotic"})


def kolmogorov_smirnov_two(first: Sequence[float], second: Sequence[float]) -> Outcome:
    """The largest distance between two samples' distribution functions; two-sided."""
    n1, n2 = len(first), len(second)
    one, two = sorted(first), sorted(second)
    farthest, where = 0, one[0]
    for value in sorted({*one, *two}):
        gap = abs(bisect_right(one, value) * n2 - bisect_right(two, value) * n1)
        if gap > farthest:
            farthest, where = gap, value
    p_value, exact = two_sample_tail(farthest // math.gcd(n1, n2), n1, n2)
    return Outcome(farthest / (n1 * n2), p_value, {"method": "exact" if exact else "asymptotic", "at": where})


def kolmogorov_smirnov_normal(values: Sequence[float], middle: float, deviation: float) -> Outcome:
    """The largest distance between a sample's distribution function and that of a normal law; two-sided."""
    n = len(values)
    farthest, where = 0.0, values[0]
    for place, value in enumerate(sorted(values)):
        share = normal_tail((middle - value) / deviation)
        gap = max((place + 1) / n - share, share - place / n)
        if gap > farthest:
            farthest, where = gap, value
    p_value, exact = distance_tail(farthest, n)
    return Outcome(farthest, p_value, {"method": "exact" if exact else "asymptotic", "at": where})


def chi_square_independence(table: Sequence[Sequence[int]], *, correction: bool) -> Outcome:
    """Pearson's test of whether the rows and columns of a table of counts are independent."""
    across = [sum(row) for row in table]
    down = [sum(column) for column in zip(*table, strict=True)]
    total = sum(across)
    degrees = (len(across) - 1) * (len(down) - 1)
    if degrees == 0:
        return _undefined("One of the fields has a single value, so there is nothing to be independent of.")
    expected = [[row * column / total for column in down] for row in across]
    corrected = correction and degrees == 1
    statistic = _distance(chain(*table), chain(*expected), corrected=corrected)
    plain = statistic if not corrected else _distance(chain(*table), chain(*expected), corrected=False)
    strength = math.sqrt(plain / (total * (min(len(across), len(down)) - 1)))
    details = {"degrees_of_freedom": degrees, "corrected": corrected, "cramers_v": min(1.0, strength)}
    return Outcome(statistic, chi_square_tail(statistic, degrees), details, _few_expected(chain(*expected)))


def chi_square_fit(observed: Sequence[int], weights: Sequence[float]) -> Outcome:
    """Pearson's test of whether counts fall as `weights` (positive, of any sum) say."""
    if len(observed) < 2:
        return _undefined("There is a single category, so there is nothing to compare.")
    total, whole = sum(observed), math.fsum(weights)
    if total == 0:
        return _undefined("No row has a value, so there is nothing to compare.")
    expected = [weight / whole * total for weight in weights]
    statistic = _distance(observed, expected, corrected=False)
    degrees = len(observed) - 1
    tail = chi_square_tail(statistic, degrees)
    return Outcome(statistic, tail, {"degrees_of_freedom": degrees, "expected": expected}, _few_expected(expected))


def _undefined(note: str) -> Outcome:
    return Outcome(None, None, {}, (note,))


def _by_student(statistic: float, degrees: float, alternative: Alternative) -> Outcome:
    p_value = _tail(lambda t: student_tail(t, degrees), statistic, alternative)
    return Outcome(statistic, p_value, {"degrees_of_freedom": degrees})


def _tail(above: Callable[[float], float], statistic: float, alternative: Alternative) -> float:
    if alternative == "two_sided":
        return min(1.0, 2.0 * above(abs(statistic)))
    return above(statistic if alternative == "greater" else -statistic)


def _deviation(values: Sequence[float]) -> float:
    return spread(values) if len(values) > 1 else 0.0


def _twice_ranks(first: Sequence[float], second: Sequence[float]) -> tuple[int, int]:
    """Twice the sum of the first sample's ranks among all values, and the sum of t**3 - t over groups of t ties."""
    marked = sorted(chain(((value, 1) for value in first), ((value, 0) for value in second)))
    before = total = ties = 0
    for _, same in groupby(marked, key=lambda pair: pair[0]):
        marks = [mark for _, mark in same]
        total += sum(marks) * (2 * before + len(marks) + 1)
        ties += len(marks) ** 3 - len(marks)
        before += len(marks)
    return total, ties


def _counted_tail(reached: int, n1: int, n2: int) -> float:
    """The share of all orders of the two samples in which U is `reached` or more, counted in whole numbers."""
    pairs = n1 * n2
    small, large = min(n1, n2), max(n1, n2)
    # U is symmetric, so only the lower half of its law is ever counted.
    upper_half = 2 * reached > pairs
    highest = pairs - reached if upper_half else reached - 1
    if highest < 0:
        return 1.0
    ways = [1] + [0] * highest
    for size in range(1, small + 1):
        for u in range(highest, large + size - 1, -1):
            ways[u] -= ways[u - large - size]
        for u in range(size, highest + 1):
            ways[u] += ways[u - size]
    orders = math.comb(n1 + n2, n1)
    counted = sum(ways)
    return counted / orders if upper_half else (orders - counted) / orders


def _approximate_tail(reached: float, n1: int, n2: int, ties: int) -> float:
    n = n1 + n2
    # One quotient of whole numbers: exactly 0 if, and only if, all values are the same.
    variance = n1 * n2 * ((n + 1) * n * (n - 1) - ties) / (12 * n * (n - 1))
    if variance == 0.0:
        return 1.0
    return normal_tail((reached - n1 * n2 / 2 - 0.5) / math.sqrt(variance))


def _distance(observed: Any, expected: Any, *, corrected: bool) -> float:
    """The sum of (observed - expected)**2 / expected; `corrected` brings each difference half a step nearer to 0."""
    step = 0.5 if corrected else 0.0
    return math.fsum(
        max(0.0, abs(seen - mean) - step) ** 2 / mean for seen, mean in zip(observed, expected, strict=True)
    )


def _few_expected(expected: Any) -> tuple[str, ...]:
    few = sum(1 for value in expected if value < 5)
    if not few:
        return ()
    return (f"{few} expected counts are below 5, where the chi-square law is a poor approximation.",)
