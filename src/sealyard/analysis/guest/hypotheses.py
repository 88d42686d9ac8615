"""Hypothesis tests: the samples that the parameters name, and the tests, which SciPy computes.

SciPy is imported when the first test runs. Where a test has no answer, statistic and p-value are null, with a note.
Samples are shifted and scaled before SciPy sees them, where the test allows it: squares neither overflow nor vanish,
and close numbers far from 0 lose no digits.
"""

import importlib
import math
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from .errors import AnalysisError, comma_list, nearest, quoted, shortened
from .measures import mean, quantile, rescaled, spread
from .parameters import Parameters
from .tables import Table, numbers_of
from .values import NUMBERS, keys_of, text_of

MAX_CELLS = 100_000
"""Most cells of a table of counts."""
_SHOWN_CELLS = 100  # a larger table says nothing at a glance
_ALTERNATIVES = ("two_sided", "less", "greater")
_NAME_CHARACTERS = 80  # of a category in an answer
# Within this and its reciprocal no expected count vanishes.
_LEAST_WEIGHT = 1e-12
Alternative: TypeAlias = Literal["two_sided", "less", "greater"]
UMethod: TypeAlias = Literal["auto", "exact", "asymptotic"]

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


@dataclass(frozen=True, slots=True)
class _Sample:
    """A named sample of numbers."""

    name: str
    values: list[float]
    missing: int

    def figures(self, *, median: bool) -> dict[str, Any]:
        """Count, mean or median, and spread, for an answer."""
        values = self.values
        figures: dict[str, Any] = {
            "name": shortened(self.name, _NAME_CHARACTERS),
            "count": len(values),
            "missing": self.missing,
        }
        if median:
            return figures | {"median": quantile(sorted(values), 0.5) if values else None}
        figures["mean"] = mean(values) if values else None
        deviation = spread(values) if len(values) > 1 else None
        return figures | {"std": deviation if deviation is None or math.isfinite(deviation) else None}


def t_test(request: Parameters, table: Table) -> dict[str, Any]:
    """Student's or Welch's t-test: one sample against a number, two samples, or pairs."""
    alternative = _alternative(request)
    paired = request.flag("paired", default=False)
    equal = request.flag("equal_variances", default=False)
    if request.has("mean"):
        _refuse(request, "mean", "fields", "group_by", "groups", "paired", "equal_variances")
        sample, expected = _one_sample(request, table), request.number("mean")
        outcome = t_test_one(sample.values, expected, alternative)
        return _answer("one_sample", outcome, [sample], {"expected_mean": expected, "alternative": alternative})
    if paired:
        _refuse(request, "paired", "field", "group_by", "groups", "equal_variances")
        first, second = _pairs(request, table)
        outcome = t_test_paired(first.values, second.values, alternative)
        test = "paired"
    else:
        first, second = _two_samples(request, table)
        outcome = t_test_two(first.values, second.values, equal_variances=equal, alternative=alternative)
        test = "student" if equal else "welch"
    difference = mean(first.values) - mean(second.values) if first.values and second.values else math.inf
    more = {"difference": difference if math.isfinite(difference) else None, "alternative": alternative}
    return _answer(test, outcome, [first, second], more)


def mann_whitney(request: Parameters, table: Table) -> dict[str, Any]:
    """Mann and Whitney's test of two samples."""
    alternative = _alternative(request)
    method = cast(
        Literal["auto", "exact", "asymptotic"], request.word("method", ("auto", "exact", "asymptotic"), "auto")
    )
    samples = _filled(_two_samples(request, table))
    outcome = mann_whitney_u(samples[0].values, samples[1].values, alternative=alternative, method=method)
    return _answer("mann_whitney", outcome, samples, {"alternative": alternative}, median=True)


def kolmogorov_smirnov(request: Parameters, table: Table) -> dict[str, Any]:
    """Kolmogorov and Smirnov's test: two samples, or one sample against a normal distribution."""
    request.word("distribution", ("normal",), "normal")
    if request.has("fields") or request.has("group_by"):
        _refuse(request, "fields" if request.has("fields") else "group_by", "distribution", "mean", "std")
        samples = _filled(_two_samples(request, table))
        outcome = kolmogorov_smirnov_two(samples[0].values, samples[1].values)
        return _answer("two_sample", outcome, samples, {}, median=True)
    (sample,) = _filled([_one_sample(request, table)])
    deviation = spread(sample.values) if len(sample.values) > 1 else 0.0
    middle = request.number("mean", mean(sample.values))
    if not request.has("std") and not 0.0 < deviation < math.inf:
        note = "The values have no spread to take the normal law's from. Give 'std'."
        return _answer("one_sample", Outcome(None, None, {}, (note,)), [sample], {"distribution": "normal"})
    scale = request.number("std", deviation, above=0)
    outcome = kolmogorov_smirnov_normal(sample.values, middle, scale)
    answer = _answer("one_sample", outcome, [sample], {"distribution": "normal", "law": {"mean": middle, "std": scale}})
    if not (request.has("mean") and request.has("std")):
        answer["notes"].append(
            "The law's mean and std are not both given but taken from the sample, which makes the p-value too large."
        )
    return answer


def chi_square(request: Parameters, table: Table) -> dict[str, Any]:
    """Pearson's chi-square test: two fields for independence, or one field against expected counts."""
    if request.has("fields"):
        _refuse(request, "fields", "expected")
        return _independence(request, table)
    _refuse(request, "field", "correction")
    field = request.field("field")
    values = [value for value in table.read(field) if value is not None]
    counts = Counter(map(_category, values))
    weights = _weights(request, counts)
    if len(weights) > MAX_CELLS:
        raise AnalysisError(
            f"field: {field.name!r} has {len(weights)} different values. At most {MAX_CELLS} are counted."
        )
    names = sorted(weights)
    outcome = chi_square_fit([counts[name] for name in names], [weights[name] for name in names])
    expected = outcome.details.pop("expected", [None] * len(names))
    rows = [
        {"value": shortened(name, _NAME_CHARACTERS), "observed": counts[name], "expected": mean_}
        for name, mean_ in zip(names, expected, strict=True)
    ]
    more = {"count": len(values), "missing": len(table.rows) - len(values), "categories": rows[:_SHOWN_CELLS]}
    answer = _answer("goodness_of_fit", outcome, [], more)
    if len(rows) > _SHOWN_CELLS:
        answer["notes"].append(f"Only {_SHOWN_CELLS} of {len(rows)} categories are shown.")
    return answer


def _weights(request: Parameters, counts: Counter[str]) -> dict[str, float]:
    """The expected weight of each category, in any unit; equal weights by default."""
    if not request.has("expected"):
        return dict.fromkeys(counts, 1.0)
    given = request.value("expected")
    if not isinstance(given, dict) or not given:
        raise request.fail("expected", 'an object of shares or counts by value, like {"red": 0.5, "blue": 0.5}')
    for name, weight in given.items():
        if type(weight) not in NUMBERS or not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
            raise AnalysisError(f"expected.{name} is {quoted(weight)}. Give a share or a count above 0.")
    for name in counts:
        if name not in given:
            raise AnalysisError(
                f"expected lacks the value {quoted(name)}, which {counts[name]} rows have.{nearest(name, given)} "
                "Give a share for every value."
            )
    return {name: float(weight) for name, weight in given.items()}


def _independence(request: Parameters, table: Table) -> dict[str, Any]:
    fields = request.two_fields("two fields, or one in 'field'")
    first, second = (table.read(field) for field in fields)
    both = [
        (_category(one), _category(two))
        for one, two in zip(first, second, strict=True)
        if not (one is None or two is None)
    ]
    if not both:
        raise AnalysisError(f"No row has both {fields[0].name!r} and {fields[1].name!r}. Name fields that have values.")
    counts = Counter(both)
    across, down = sorted({one for one, _ in both}), sorted({two for _, two in both})
    if len(across) * len(down) > MAX_CELLS:
        raise AnalysisError(
            f"fields: {len(across)} values of {fields[0].name!r} by {len(down)} of {fields[1].name!r} make more than "
            f"{MAX_CELLS} cells. Group the values first."
        )
    grid = [[counts[one, two] for two in down] for one in across]
    outcome = chi_square_independence(grid, correction=request.flag("correction", default=True))
    answer = _answer("independence", outcome, [], {"count": len(both), "missing": len(table.rows) - len(both)})
    if len(across) * len(down) <= _SHOWN_CELLS:
        answer["table"] = {"rows": _names(across), "columns": _names(down), "counts": grid}
    else:
        answer["notes"].append(f"The table of {len(across)} by {len(down)} values is too large to show.")
    return answer


def _names(categories: Sequence[str]) -> list[str]:
    return [shortened(each, _NAME_CHARACTERS) for each in categories]


def _category(value: Any) -> str:
    """The category of a value; 2 and 2.0 are one."""
    return text_of(int(value) if type(value) is float and value.is_integer() else value)


def _one_sample(request: Parameters, table: Table) -> _Sample:
    field = request.field("field")
    column = numbers_of(table, field, ignore_others=request.ignores_others())
    return _sample(field.name, column)


def _pairs(request: Parameters, table: Table) -> tuple[_Sample, _Sample]:
    """Two fields, over the rows that have both."""
    fields = request.two_fields("the two fields of a pair")
    columns = [numbers_of(table, field, ignore_others=request.ignores_others()) for field in fields]
    both = [(one, two) for one, two in zip(*columns, strict=True) if one is not None and two is not None]
    missing = len(table.rows) - len(both)
    return (
        _Sample(fields[0].name, [one for one, _ in both], missing),
        _Sample(fields[1].name, [two for _, two in both], missing),
    )


def _two_samples(request: Parameters, table: Table) -> list[_Sample]:
    if request.has("group_by"):
        _refuse(request, "group_by", "fields")
        return _grouped(request, table)
    if not request.has("fields"):
        raise request.fail("group_by", "the field that tells two samples apart, or two fields in 'fields'")
    _refuse(request, "fields", "groups", "field")
    fields = request.two_fields("two fields, or one in 'field' with 'group_by'")
    return [_sample(each.name, numbers_of(table, each, ignore_others=request.ignores_others())) for each in fields]


def _grouped(request: Parameters, table: Table) -> list[_Sample]:
    """The values of one field, split by the two values of another."""
    column = numbers_of(table, request.field("field"), ignore_others=request.ignores_others())
    by = request.field("group_by")
    groups = table.read(by)
    wanted = request.value("groups")
    if wanted is not None and (not isinstance(wanted, list) or len(wanted) != 2):
        raise request.fail("groups", f"the two values of {by.name!r} to compare")
    keys = keys_of([*groups, *(wanted or ()), True])[:-1]
    found = dict.fromkeys(key for key, group in zip(keys, groups, strict=False) if group is not None)
    chosen = list(keys[len(groups) :]) if wanted is not None else list(found)
    names = {
        key: text_of(group) for key, group in zip(keys, [*groups, *(wanted or ())], strict=True) if group is not None
    }
    for place, key in enumerate(chosen if wanted is not None else ()):
        if key not in found:
            given = quoted(wanted[place] if wanted else None)
            near = nearest(names.get(key, ""), [names[each] for each in found])
            raise AnalysisError(
                f"groups[{place}] is {given}, which no row has in {by.name!r}.{near} "
                f"Values: {comma_list(names[each] for each in found)}."
            )
    if len(set(chosen)) != 2:
        raise AnalysisError(
            f"group_by: {by.name!r} has {len(found)} different values ({comma_list(names[each] for each in found)}). "
            "Name the two to compare in groups."
        )
    samples: dict[Any, list[float | None]] = {key: [] for key in chosen}
    for key, value in zip(keys, column, strict=False):
        if key in samples:
            samples[key].append(value)
    return [_sample(names[key], samples[key]) for key in chosen]


def _sample(name: str, column: Sequence[float | None]) -> _Sample:
    values = [value for value in column if value is not None]
    return _Sample(name, values, len(column) - len(values))


def _filled(samples: Sequence[_Sample]) -> Sequence[_Sample]:
    for sample in samples:
        if not sample.values:
            raise AnalysisError(f"{sample.name!r} has no values to test. Name a field or group that has some.")
    return samples


def _alternative(request: Parameters) -> Alternative:
    return cast(Alternative, request.word("alternative", _ALTERNATIVES, "two_sided"))


def _refuse(request: Parameters, given: str, *others: str) -> None:
    """Refuses parameters that have no meaning beside `given`."""
    for other in others:
        if request.has(other) and request.value(other) is not False:
            raise AnalysisError(f"{other} has no meaning beside {given}. Leave out one of them.")


def _answer(
    test: str, outcome: Outcome, samples: Sequence[_Sample], more: dict[str, Any], *, median: bool = False
) -> dict[str, Any]:
    statistic = outcome.statistic
    return {
        "test": test,
        **more,
        **({"samples": [sample.figures(median=median) for sample in samples]} if samples else {}),
        "statistic": statistic if statistic is None or math.isfinite(statistic) else None,
        "p_value": outcome.p_value,
        **outcome.details,
        "notes": list(outcome.notes),
    }


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


def mann_whitney_u(
    first: Sequence[float],
    second: Sequence[float],
    *,
    alternative: Alternative,
    method: UMethod,
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
    """The share of all orders of the two samples with a U of `reached` or more, counted in whole numbers.

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
            # SciPy rejects its exact p-value where rounding makes it more than 1, as with samples of one size and a
            # small distance; the asymptotic one, wrong in the fifth digit, shows whether that is the reason.
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
    """Pearson's test of counts against `weights`, which are positive and of any sum."""
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
    """`scipy.stats`, whose warnings do not become output of the run."""
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
