"""Hypothesis tests over plain lists of numbers, computed by SciPy, which is imported when the first test runs.

Where a test has no answer, statistic and p-value are None with a note. Samples are shifted and scaled before SciPy sees
them, where the test allows it: squares neither overflow nor vanish, and close numbers far from 0 lose no digits.
"""

import importlib
import math
import resource
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .errors import AnalysisError
from .moments import mean, rescaled

Alternative: TypeAlias = Literal["two_sided", "less", "greater"]

# Up to this size of the smaller sample, the law of U is counted instead of approximated: SciPy's own choice ...
_COUNTED_SAMPLE = 8
# ... unless that would take more than a few seconds.
COUNTED_PAIRS = 500_000
# Two samples of ten thousand: SciPy counts their paths in about a second.
_KOLMOGOROV_CELLS = 100_000_000
# Up to this many values SciPy's law of one sample's distance is exact.
_KOLMOGOROV_EXACT = 140
# SciPy maps 260 MiB with Python; with less address space its OpenBLAS waits for ever instead of failing.
_ADDRESS_BYTES = 320 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a test; `details` are further figures of the answer."""

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
    if _is_constant(offsets):
        return _undefined("All values are the same, so there is no spread to measure their mean by.")
    with _scipy() as stats:
        found = stats.ttest_1samp(_near_one(offsets), 0.0, alternative=_dashed(alternative))
    return Outcome(float(found.statistic), float(found.pvalue), {"degrees_of_freedom": len(offsets) - 1})


def t_test_two(
    first: Sequence[float], second: Sequence[float], *, equal_variances: bool, alternative: Alternative
) -> Outcome:
    """Student's test (equal variances) or Welch's of whether two samples have the same mean."""
    n1, n2 = len(first), len(second)
    if min(n1, n2) < 1 or n1 + n2 < 3 or (not equal_variances and min(n1, n2) < 2):
        return _undefined(f"A t-test needs at least two values in each sample and there are {n1} and {n2}.")
    merged, _ = rescaled([*first, *second])
    middle = mean(merged)
    offsets = _near_one([value - middle for value in merged])
    one, two = offsets[:n1], offsets[n1:]
    if _is_constant(one) and _is_constant(two):
        return _undefined("Both samples are constant, so there is no spread to measure the difference by.")
    with _scipy() as stats:
        found = stats.ttest_ind(one, two, equal_var=equal_variances, alternative=_dashed(alternative))
    return Outcome(float(found.statistic), float(found.pvalue), {"degrees_of_freedom": float(found.df)})


def mann_whitney(
    first: Sequence[float],
    second: Sequence[float],
    *,
    alternative: Alternative,
    method: Literal["auto", "exact", "asymptotic"],
) -> Outcome:
    """Mann and Whitney's U of the first sample, which counts its values above the second's (a tie is half)."""
    n1, n2 = len(first), len(second)
    pairs = n1 * n2
    different = len({*first, *second})
    has_ties = different < n1 + n2
    exact = method == "auto" and min(n1, n2) <= _COUNTED_SAMPLE and not has_ties and pairs <= COUNTED_PAIRS
    if method == "exact":
        if has_ties:
            raise AnalysisError("method is 'exact', but the samples have ties. Use 'auto' or 'asymptotic'.")
        if pairs > COUNTED_PAIRS:
            raise AnalysisError(
                f"method is 'exact', but samples of {n1} and {n2} make {pairs} pairs and at most {COUNTED_PAIRS} are "
                "counted exactly. Use 'auto' or 'asymptotic'."
            )
        exact = True
    with _scipy() as stats:
        found = stats.mannwhitneyu(first, second, alternative=_dashed(alternative), method="asymptotic")
    upper = float(found.statistic)
    p_value = float(found.pvalue) if different > 1 else 1.0  # equal values have no variance to divide by
    if exact:
        reached = {"two_sided": max(upper, pairs - upper), "greater": upper, "less": pairs - upper}[alternative]
        tail = _counted_tail(round(reached), n1, n2)
        p_value = min(1.0, 2.0 * tail) if alternative == "two_sided" else tail
    return Outcome(upper, p_value, {"method": "exact" if exact else "asymptotic"})


def _counted_tail(reached: int, n1: int, n2: int) -> float:
    """The share of all orders of the two samples in which U is `reached` or more, counted in whole numbers.

    SciPy counts too, in a time that grows with the square of the pairs: 55 seconds for samples of 5 and 20,000 values,
    which take a tenth of a second here.
    """
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


def kolmogorov_smirnov_two(first: Sequence[float], second: Sequence[float]) -> Outcome:
    """The largest distance between two samples' distribution functions; two-sided."""
    n1, n2 = len(first), len(second)
    exact = n1 == n2 or n1 * n2 <= _KOLMOGOROV_CELLS
    with _scipy() as stats:
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return _by_distance(stats.ks_2samp(first, second, method="exact" if exact else "asymp"), exact=exact)
        except RuntimeWarning:
            # SciPy refuses its own exact chance where rounding made it more than 1, as with samples of one size whose
            # distance is small; the other law, wrong in the fifth digit there, says whether that is the reason.
            found = _by_distance(stats.ks_2samp(first, second, method="asymp"), exact=False)
    if found.p_value is not None and found.p_value > 0.9:
        return Outcome(found.statistic, 1.0, found.details | {"method": "exact"})
    return found


def kolmogorov_smirnov_normal(values: Sequence[float], middle: float, deviation: float) -> Outcome:
    """The largest distance between a sample's distribution function and that of a normal law; two-sided."""
    with _scipy() as stats:
        found = stats.ks_1samp(values, stats.norm.cdf, args=(middle, deviation))
    return _by_distance(found, exact=len(values) <= _KOLMOGOROV_EXACT)


def chi_square_independence(table: Sequence[Sequence[int]], *, correction: bool) -> Outcome:
    """Pearson's test of whether the rows and columns of a table of counts are independent."""
    if len(table) < 2 or len(table[0]) < 2:
        return _undefined("One of the fields has a single value, so there is nothing to be independent of.")
    with _scipy() as stats:
        found = stats.chi2_contingency(table, correction=correction)
        strength = stats.contingency.association(table, method="cramer")
    degrees = int(found.dof)
    details = {
        "degrees_of_freedom": degrees,
        "corrected": correction and degrees == 1,
        "cramers_v": min(1.0, float(strength)),
    }
    return Outcome(float(found.statistic), float(found.pvalue), details, _few_expected(found.expected_freq.flat))


def chi_square_fit(observed: Sequence[int], weights: Sequence[float]) -> Outcome:
    """Pearson's test of whether counts fall as `weights` (positive, of any sum) say."""
    if len(observed) < 2:
        return _undefined("There is a single category, so there is nothing to compare.")
    total, whole = sum(observed), math.fsum(weights)
    if total == 0:
        return _undefined("No row has a value, so there is nothing to compare.")
    expected = [weight / whole * total for weight in weights]
    with _scipy() as stats:
        found = stats.chisquare(observed, expected)
    details = {"degrees_of_freedom": len(observed) - 1, "expected": expected}
    return Outcome(float(found.statistic), float(found.pvalue), details, _few_expected(expected))


@contextmanager
def _scipy() -> Iterator[Any]:
    """`scipy.stats`, whose warnings do not become output of the run.

    Raises:
        AnalysisError: It is not installed, not shown to this sandbox, or there is no room for it.
    """
    room, _ = resource.getrlimit(resource.RLIMIT_AS)
    if "scipy.stats" not in sys.modules and 0 <= room < _ADDRESS_BYTES:
        raise AnalysisError(
            f"Hypothesis tests are computed by SciPy, which needs {_ADDRESS_BYTES >> 20} MiB of address space, and "
            f"this run has {room >> 20}. Give the sandbox more memory."
        )
    try:
        stats = importlib.import_module("scipy.stats")
    except ModuleNotFoundError:
        raise AnalysisError(
            "Hypothesis tests are computed by SciPy, which this sandbox does not offer. Install the extra with "
            "pip install 'sealyard[analysis]', at a level whose policy names the package scipy."
        ) from None
    except (ImportError, MemoryError) as error:
        raise AnalysisError(f"Hypothesis tests are computed by SciPy, which cannot be loaded here: {error}.") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield stats


def _dashed(alternative: Alternative) -> str:
    """The alternative as SciPy spells it."""
    return alternative.replace("_", "-")


def _near_one(values: Sequence[float]) -> list[float]:
    """The values divided by one power of two, the largest to about 1: SciPy takes their fourth powers."""
    exponent = math.frexp(max(map(abs, values)))[1]
    return [math.ldexp(value, -exponent) for value in values]


def _is_constant(values: Sequence[float]) -> bool:
    return min(values) == max(values)


def _undefined(note: str) -> Outcome:
    return Outcome(None, None, {}, (note,))


def _by_distance(found: Any, *, exact: bool) -> Outcome:
    details = {"method": "exact" if exact else "asymptotic", "at": float(found.statistic_location)}
    return Outcome(float(found.statistic), float(found.pvalue), details)


def _few_expected(expected: Iterable[float]) -> tuple[str, ...]:
    few = sum(1 for value in expected if value < 5)
    if not few:
        return ()
    return (f"{few} expected counts are below 5, where the chi-square law is a poor approximation.",)
