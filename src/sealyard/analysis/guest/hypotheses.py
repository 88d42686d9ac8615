"""Hypothesis tests: the samples that the parameters name, and the tests, which SciPy computes.

SciPy is imported when the first test runs. Where a test has no answer, statistic and p-value are null, with a note.
Samples of a t-test are shifted before SciPy sees them, so that close numbers far from 0 lose no digits.
"""

import importlib
import math
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from .aggregates import deviation, mean, quantile
from .errors import AnalysisError, comma_list, nearest, quoted, shortened
from .limits import MAX_CELLS, MAX_PAIRS
from .parameters import Parameters, as_flag
from .tables import Table, numbers_of
from .values import NUMBERS, as_float, keys_of, text_of

_SHOWN_CELLS = 100  # a larger table says nothing at a glance
_ALTERNATIVES = ("two_sided", "less", "greater")
_NAME_CHARACTERS = 80  # of a category in an answer
# Within this and its reciprocal no expected count vanishes.
_LEAST_WEIGHT = 1e-12
Figures: TypeAlias = dict[str, Any]
"""Statistic, p-value and further figures of a test, and its notes."""

_EXACT_SAMPLE = 8  # largest size of the smaller sample for which `auto` counts orders, as in SciPy
_EXACT_DISTANCE_OF_TWO = 10_000  # largest sample for which SciPy counts the paths of two samples' distance
_EXACT_DISTANCE_OF_ONE = 140  # largest sample for which SciPy's distribution of one sample's distance is exact
_LARGEST_OFFSET = 1e150  # squares of larger numbers, summed over a sample, overflow
_UNDEFINED = "The test has no result: a sample has too few values, or they do not differ, or they are too large."
# SciPy maps 260 MiB with Python; with less address space its OpenBLAS waits for ever instead of failing.
_ADDRESS_BYTES = 320 << 20


@dataclass(frozen=True, slots=True)
class _Sample:
    """A named sample of numbers."""

    name: str
    values: list[float]
    missing: int

    def figures(self, *, median: bool) -> dict[str, Any]:
        """Count, mean and standard deviation, or median, for an answer."""
        values = self.values
        figures: dict[str, Any] = {
            "name": shortened(self.name, _NAME_CHARACTERS),
            "count": len(values),
            "missing": self.missing,
        }
        if median:
            return figures | {"median": quantile(sorted(values), 0.5) if values else None}
        return figures | {"mean": mean(values), "std": deviation(values)}


def t_test(request: Parameters, table: Table) -> dict[str, Any]:
    """Student's or Welch's t-test: one sample against a number, two samples, or pairs."""
    alternative = _alternative(request)
    paired = request.read("paired", as_flag, False)
    equal = request.read("equal_variances", as_flag, False)
    if request.has("mean"):
        _refuse(request, "mean", "fields", "group_by", "groups", "paired", "equal_variances")
        sample, expected = _one_sample(request, table), request.number("mean")
        figures = t_test_one(sample.values, expected, alternative)
        return _answer("one_sample", figures, [sample], {"expected_mean": expected, "alternative": alternative})
    if paired:
        _refuse(request, "paired", "field", "group_by", "groups", "equal_variances")
        first, second = _pairs(request, table)
        pairs = zip(first.values, second.values, strict=True)
        figures = t_test_one([one - other for one, other in pairs], 0.0, alternative)
        test = "paired"
    else:
        first, second = _two_samples(request, table)
        figures = t_test_two(first.values, second.values, equal_variances=equal, alternative=alternative)
        test = "student" if equal else "welch"
    means = mean(first.values), mean(second.values)
    difference = None if None in means else as_float(means[0] - means[1])
    return _answer(test, figures, [first, second], {"difference": difference, "alternative": alternative})


def mann_whitney(request: Parameters, table: Table) -> dict[str, Any]:
    """Mann and Whitney's test of two samples."""
    alternative = _alternative(request)
    method = request.word("method", ("auto", "exact", "asymptotic"), "auto")
    samples = _filled(_two_samples(request, table))
    figures = mann_whitney_u(samples[0].values, samples[1].values, alternative=alternative, method=method)
    return _answer("mann_whitney", figures, samples, {"alternative": alternative}, median=True)


def kolmogorov_smirnov(request: Parameters, table: Table) -> dict[str, Any]:
    """Kolmogorov and Smirnov's test: two samples, or one sample against a normal distribution."""
    request.word("distribution", ("normal",), "normal")
    if request.has("fields") or request.has("group_by"):
        _refuse(request, "fields" if request.has("fields") else "group_by", "distribution", "mean", "std")
        samples = _filled(_two_samples(request, table))
        figures = kolmogorov_smirnov_two(samples[0].values, samples[1].values)
        return _answer("two_sample", figures, samples, {}, median=True)
    (sample,) = _filled([_one_sample(request, table)])
    # Figures that the values do not have are NaN, of which SciPy makes a test without a result.
    found = mean(sample.values)
    middle = request.number("mean", math.nan if found is None else found)
    scale = request.number("std", deviation(sample.values) or math.nan, above=0)
    figures = kolmogorov_smirnov_normal(sample.values, middle, scale)
    distribution = {"name": "normal", "mean": as_float(middle), "std": as_float(scale)}
    answer = _answer("one_sample", figures, [sample], {"distribution": distribution})
    if not (request.has("mean") and request.has("std")):
        answer["notes"].append(
            "The distribution's mean and std are not both given but taken from the sample, which makes the p-value too "
            "large."
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
    figures = chi_square_fit([counts[name] for name in names], [weights[name] for name in names])
    expected = figures.pop("expected")
    rows = [
        {"value": shortened(name, _NAME_CHARACTERS), "observed": counts[name], "expected": mean_}
        for name, mean_ in zip(names, expected, strict=True)
    ]
    more = {"count": len(values), "missing": len(table.rows) - len(values), "categories": rows[:_SHOWN_CELLS]}
    answer = _answer("goodness_of_fit", figures, [], more)
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
    figures = chi_square_independence(grid, correction=request.read("correction", as_flag, True))
    answer = _answer("independence", figures, [], {"count": len(both), "missing": len(table.rows) - len(both)})
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
        raise request.fail("group_by", "the field whose values separate two samples, or two fields in 'fields'")
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


def _alternative(request: Parameters) -> str:
    return request.word("alternative", _ALTERNATIVES, "two_sided")


def _refuse(request: Parameters, given: str, *others: str) -> None:
    """Refuses parameters that `given` excludes."""
    for other in others:
        if request.has(other) and request.value(other) is not False:
            raise AnalysisError(f"{other} and {given} exclude each other. Leave out one of them.")


def _answer(
    test: str, figures: Figures, samples: Sequence[_Sample], more: dict[str, Any], *, median: bool = False
) -> dict[str, Any]:
    described = {"samples": [sample.figures(median=median) for sample in samples]} if samples else {}
    return {"test": test, **more, **described, **figures}


def t_test_one(values: Sequence[float], expected: float, alternative: str) -> Figures:
    """Student's test of the values' mean against `expected`."""
    # Differences lose no digits where the values are large and close to it.
    offsets = [value - expected for value in values]
    with _scipy() as stats:
        found = stats.ttest_1samp(offsets, 0.0, alternative=_dashed(alternative))
    return _figures(found, {"degrees_of_freedom": len(offsets) - 1}, is_defined=_has_squares(offsets))


def t_test_two(first: Sequence[float], second: Sequence[float], *, equal_variances: bool, alternative: str) -> Figures:
    """Student's test (equal variances) or Welch's of the difference between two samples' means."""
    origin = next(iter([*first, *second]), 0.0)
    one, two = [value - origin for value in first], [value - origin for value in second]
    with _scipy() as stats:
        found = stats.ttest_ind(one, two, equal_var=equal_variances, alternative=_dashed(alternative))
    return _figures(found, {"degrees_of_freedom": float(found.df)}, is_defined=_has_squares([*one, *two]))


def mann_whitney_u(first: Sequence[float], second: Sequence[float], *, alternative: str, method: str) -> Figures:
    """Mann and Whitney's U of the first sample, which counts its values above the second's (a tie is half)."""
    n1, n2 = len(first), len(second)
    has_ties = len({*first, *second}) < n1 + n2
    if method == "exact" and has_ties:
        raise AnalysisError("method is 'exact', but the samples have ties. Use 'auto' or 'asymptotic'.")
    if method == "exact" and n1 * n2 > MAX_PAIRS:
        raise AnalysisError(
            f"method is 'exact', but samples of {n1} and {n2} make {n1 * n2} pairs and at most {MAX_PAIRS} are "
            "counted exactly. Use 'auto' or 'asymptotic'."
        )
    if method == "auto":
        is_small = min(n1, n2) <= _EXACT_SAMPLE and n1 * n2 <= MAX_PAIRS
        method = "exact" if is_small and not has_ties else "asymptotic"
    with _scipy() as stats:
        found = stats.mannwhitneyu(first, second, alternative=_dashed(alternative), method=method)
    return _figures(found, {"method": method})


def kolmogorov_smirnov_two(first: Sequence[float], second: Sequence[float]) -> Figures:
    """The largest distance between two samples' distribution functions; two-sided."""
    with _scipy() as stats, warnings.catch_warnings(record=True) as fallen_back:
        warnings.simplefilter("always", RuntimeWarning)
        found = stats.ks_2samp(first, second)
    return _by_distance(found, is_exact=max(len(first), len(second)) <= _EXACT_DISTANCE_OF_TWO and not fallen_back)


def kolmogorov_smirnov_normal(values: Sequence[float], middle: float, deviation: float) -> Figures:
    """The largest distance between a sample's distribution function and a normal one; two-sided."""
    with _scipy() as stats:
        found = stats.ks_1samp(values, stats.norm.cdf, args=(middle, deviation))
    return _by_distance(found, is_exact=len(values) <= _EXACT_DISTANCE_OF_ONE)


def chi_square_independence(table: Sequence[Sequence[int]], *, correction: bool) -> Figures:
    """Pearson's test of the rows and columns of a table of counts for independence."""
    with _scipy() as stats:
        found = stats.chi2_contingency(table, correction=correction)
        strength = stats.contingency.association(table, method="cramer")
    degrees = int(found.dof)
    details = {
        "degrees_of_freedom": degrees,
        "corrected": correction and degrees == 1,
        "cramers_v": min(1.0, float(strength)) if degrees else None,
    }
    return _figures(found, details, is_defined=degrees > 0, expected=found.expected_freq.flat)


def chi_square_fit(observed: Sequence[int], weights: Sequence[float]) -> Figures:
    """Pearson's test of counts against `weights`, which are positive and of any sum."""
    total, whole = sum(observed), math.fsum(weights)
    expected = [weight / whole * total for weight in weights]
    with _scipy() as stats:
        found = stats.chisquare(observed, expected)
    details = {"degrees_of_freedom": max(0, len(observed) - 1), "expected": expected}
    return _figures(found, details, expected=expected)


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


def _dashed(alternative: str) -> str:
    """The alternative as SciPy spells it."""
    return alternative.replace("_", "-")


def _has_squares(offsets: Sequence[float]) -> bool:
    """False for numbers whose squares overflow, of which SciPy's figures are wrong."""
    return max(map(abs, offsets), default=0.0) < _LARGEST_OFFSET


def _by_distance(found: Any, *, is_exact: bool) -> Figures:
    method = "exact" if is_exact else "asymptotic"
    return _figures(found, {"method": method, "at": float(found.statistic_location)})


def _figures(
    found: Any, details: dict[str, Any], *, is_defined: bool = True, expected: Iterable[float] = ()
) -> Figures:
    """SciPy's result and further figures; a test that has no result is null with a note."""
    figures: Figures = {"statistic": float(found.statistic), "p_value": float(found.pvalue), **details}
    if not (is_defined and math.isfinite(figures["statistic"]) and math.isfinite(figures["p_value"])):
        missing = {name: None if isinstance(each, float) else each for name, each in figures.items()}
        return missing | {"notes": [_UNDEFINED]}
    few = sum(1 for value in expected if value < 5)
    notes = [f"{few} expected counts are below 5, where the chi-square distribution is a poor approximation."]
    return figures | {"notes": notes if few else []}
