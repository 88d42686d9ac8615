"""The hypothesis tests and the laws behind them, measured against SciPy and against exact fractions."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from sealyard.analysis.guest import AnalysisError
from sealyard.analysis.guest import hypothesis_tests as tests
from sealyard.analysis.guest.describing import run_statistics
from sealyard.analysis.guest.distributions import chi_square_tail, incomplete_beta, normal_tail, student_tail
from sealyard.analysis.guest.kolmogorov import distance_tail, one_sided_tail, two_sample_tail

ALTERNATIVES = {"two_sided": "two-sided", "less": "less", "greater": "greater"}
NUMBERS = st.integers(-10_000, 10_000).map(lambda whole: whole / 16)
LARGE_AND_CLOSE = st.integers(0, 50).map(lambda whole: 1e9 + whole / 1024)
HUGE = st.floats(-1.7e308, 1.7e308)
SAMPLES = st.one_of(
    *(st.lists(each, min_size=2, max_size=30) for each in (NUMBERS, LARGE_AND_CLOSE, HUGE, st.floats(0, 1e-300)))
)


def _near(value: float, rel: float = 1e-9) -> Any:
    # Below 1e-300 floats have fewer digits, and SciPy rounds to 0 earlier.
    return pytest.approx(value, rel=rel, abs=1e-300)


@pytest.mark.parametrize("degrees", [0.7, 1, 2, 2.5, 5, 30, 333.3, 1e4, 1e6])
def test_students_tail_is_scipys(degrees: float) -> None:
    """Small, large and fractional degrees of freedom, from the middle far into the tail."""
    for t in (1e-3, 0.1, 0.9, 1.5, 2.0, 3.5, 8.0, 25.0, 300.0, 1e5):
        assert student_tail(t, degrees) == _near(stats.t.sf(t, degrees))
        assert student_tail(-t, degrees) == _near(stats.t.sf(-t, degrees))


@pytest.mark.parametrize("t", [1e-12, 3.7730530782729427e-08, 0.5, 7.0, 1e100])
def test_students_tail_of_one_degree_is_the_arc_tangent(t: float) -> None:
    """A closed form, more exact than SciPy near 0; beyond squares that overflow the chance is 0."""
    assert student_tail(t, 1.0) == _near(0.5 - math.atan(t) / math.pi if t < 1 else math.atan(1 / t) / math.pi, 1e-13)
    assert student_tail(1e200, 1.0) == 0.0
    assert student_tail(-1e200, 1.0) == 1.0


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 50, 1001, 1e4, 1e6])
def test_chi_square_tail_is_scipys(degrees: float) -> None:
    """From far below the mean to far above it."""
    for spreads in (-8.0, -2.0, -0.5, -1e-6, 0.0, 0.1, 1.0, 4.0, 15.0):
        statistic = max(0.0, degrees + spreads * math.sqrt(2 * degrees))
        assert chi_square_tail(statistic, degrees) == _near(stats.chi2.sf(statistic, degrees))
    assert chi_square_tail(math.inf, degrees) == 0.0


@given(st.floats(-38, 38))
def test_normal_tail_is_scipys(z: float) -> None:
    """Down to the smallest chances."""
    assert normal_tail(z) == _near(stats.norm.sf(z))


@given(st.floats(0.05, 5000), st.floats(0.05, 5000), st.floats(1e-6, 1 - 1e-6))
def test_incomplete_beta_is_scipys(a: float, b: float, x: float) -> None:
    """Over three orders of magnitude of both parameters."""
    assert incomplete_beta(a, b, x, 1 - x) == _near(special.betainc(a, b, x))


@given(st.integers(1, 140), st.floats(0.001, 0.999))
def test_one_sample_distance_is_scipys(n: int, distance: float) -> None:
    """Up to 140 values SciPy is exact too."""
    chance, exact = distance_tail(distance, n)
    assert chance == _near(stats.kstwo.sf(distance, n))
    assert exact


@pytest.mark.parametrize("n", [150, 700, 2_500, 20_000, 250_000])
def test_one_sample_distance_of_large_samples_is_near_scipys(n: int) -> None:
    """Beyond 140 values SciPy approximates to four or more digits, and so do we beyond about a thousand."""
    for reach in (0.3, 0.9, 1.48, 1.6, 2.5):
        distance = reach / math.sqrt(n)
        assert distance_tail(distance, n)[0] == _near(stats.kstwo.sf(distance, n), rel=5e-5)
        assert one_sided_tail(distance, n) == _near(special.smirnov(n, distance), rel=1e-9 if n <= 200_000 else 1e-5)


def _paths_outside(steps: int, first: int, second: int) -> Fraction:
    """Counts every path through the grid, in whole numbers."""
    over, up = second // math.gcd(first, second), first // math.gcd(first, second)
    inside = [[0] * (second + 1) for _ in range(first + 1)]
    for i in range(first + 1):
        for j in range(second + 1):
            if abs(i * over - j * up) < steps:
                before = (inside[i - 1][j] if i else 0) + (inside[i][j - 1] if j else 0)
                inside[i][j] = before if i or j else 1
    return 1 - Fraction(inside[first][second], math.comb(first + second, first))


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1))
def test_two_sample_distance_is_the_share_of_paths(first: int, second: int, share: float) -> None:
    """Exact fractions agree to the last digits, however small the chance is."""
    steps = max(1, round(share * math.lcm(first, second)))
    chance, exact = two_sample_tail(steps, first, second)
    assert chance == pytest.approx(float(_paths_outside(steps, first, second)), rel=1e-12)
    assert exact


def _exact_t(first: list[float], second: list[float], *, equal_variances: bool) -> tuple[float, float]:
    """Student's or Welch's statistic and degrees of freedom, rounded only at the end."""
    ones, twos = [Fraction(value) for value in first], [Fraction(value) for value in second]
    n1, n2 = len(ones), len(twos)
    mean1, mean2 = sum(ones) / n1, sum(twos) / n2
    var1 = sum((value - mean1) ** 2 for value in ones) / (n1 - 1)
    var2 = sum((value - mean2) ** 2 for value in twos) / (n2 - 1)
    if equal_variances:
        degrees = Fraction(n1 + n2 - 2)
        square = ((n1 - 1) * var1 + (n2 - 1) * var2) / degrees * (Fraction(1, n1) + Fraction(1, n2))
    else:
        square = var1 / n1 + var2 / n2
        degrees = square**2 / ((var1 / n1) ** 2 / (n1 - 1) + (var2 / n2) ** 2 / (n2 - 1))
    ratio = (mean1 - mean2) ** 2 / square
    return math.copysign(math.sqrt(ratio), mean1 - mean2) if ratio < 10**300 else math.inf, float(degrees)


@settings(max_examples=150)
@given(st.data(), st.booleans(), st.sampled_from(sorted(ALTERNATIVES)))
def test_t_tests_of_two_samples_are_exact_on_hard_numbers(data: Any, equal_variances: bool, alternative: Any) -> None:
    """Large and close, huge and tiny numbers: the statistic is that of fractions, the chance SciPy's."""
    numbers = data.draw(st.sampled_from([NUMBERS, LARGE_AND_CLOSE, HUGE]))
    first = data.draw(st.lists(numbers, min_size=2, max_size=20))
    second = data.draw(st.lists(numbers, min_size=2, max_size=20))
    assume(len(set(first)) > 1 or len(set(second)) > 1)
    statistic, degrees = _exact_t(first, second, equal_variances=equal_variances)
    assume(1e-6 < abs(statistic) < 1e6)
    outcome = tests.t_test_two(first, second, equal_variances=equal_variances, alternative=alternative)
    assert outcome.statistic == _near(statistic)
    assert outcome.details == {"degrees_of_freedom": _near(degrees)}
    tail = stats.t.sf(abs(statistic), degrees)
    expected = {
        "two_sided": 2 * tail,
        "greater": tail if statistic > 0 else 1 - tail,
        "less": tail if statistic < 0 else 1 - tail,
    }
    assert outcome.p_value == _near(expected[alternative], rel=1e-8)


@pytest.mark.parametrize("alternative", sorted(ALTERNATIVES))
def test_t_tests_are_scipys(alternative: Any) -> None:
    """Student's, Welch's, one sample and pairs, over ordinary samples of several sizes."""
    draw = random.Random(alternative)
    for size in (2, 3, 10, 60, 500):
        first = [draw.gauss(1, 2) for _ in range(size)]
        second = [draw.gauss(1.3, 3) for _ in range(size)]
        other = second[: max(2, size // 2)]
        for equal in (True, False):
            expected = stats.ttest_ind(first, other, equal_var=equal, alternative=ALTERNATIVES[alternative])
            outcome = tests.t_test_two(first, other, equal_variances=equal, alternative=alternative)
            assert (outcome.statistic, outcome.p_value) == (_near(expected.statistic), _near(expected.pvalue))
            assert outcome.details == {"degrees_of_freedom": _near(expected.df)}
        expected = stats.ttest_1samp(first, 0.7, alternative=ALTERNATIVES[alternative])
        outcome = tests.t_test_one(first, 0.7, alternative)
        assert (outcome.statistic, outcome.p_value) == (_near(expected.statistic), _near(expected.pvalue))
        expected = stats.ttest_rel(first, second, alternative=ALTERNATIVES[alternative])
        outcome = tests.t_test_paired(first, second, alternative)
        assert (outcome.statistic, outcome.p_value) == (_near(expected.statistic), _near(expected.pvalue))


@settings(max_examples=200)
@given(
    st.lists(st.integers(-20, 20) | NUMBERS, min_size=1, max_size=25),
    st.lists(st.integers(-20, 20) | NUMBERS, min_size=1, max_size=25),
    st.sampled_from(sorted(ALTERNATIVES)),
)
def test_mann_whitney_is_scipys(first: list[float], second: list[float], alternative: Any) -> None:
    """With and without ties, exact and approximate, as SciPy chooses by itself."""
    assume(len({*first, *second}) > 1)
    expected = stats.mannwhitneyu(first, second, alternative=ALTERNATIVES[alternative])
    outcome = tests.mann_whitney(first, second, alternative=alternative, method="auto")
    assert (outcome.statistic, outcome.p_value) == (expected.statistic, _near(expected.pvalue))


@pytest.mark.parametrize(("n1", "n2"), [(8, 400), (30, 25), (2, 1)])
def test_mann_whitney_counts_exactly_when_asked(n1: int, n2: int) -> None:
    """Samples of very different sizes, and both large."""
    draw = random.Random(n1)
    first, second = [draw.gauss(0.4, 1) for _ in range(n1)], [draw.gauss(0, 1) for _ in range(n2)]
    expected = stats.mannwhitneyu(first, second, method="exact")
    outcome = tests.mann_whitney(first, second, alternative="two_sided", method="exact")
    assert outcome == tests.Outcome(expected.statistic, _near(expected.pvalue), {"method": "exact"})


def test_mann_whitney_of_equal_values_has_no_evidence() -> None:
    """All ties: the statistic is in the middle and the chance 1."""
    outcome = tests.mann_whitney([3.0] * 5, [3.0] * 9, alternative="two_sided", method="auto")
    assert outcome == tests.Outcome(22.5, 1.0, {"method": "asymptotic"})


@settings(max_examples=150)
@given(st.lists(NUMBERS, min_size=1, max_size=60), st.lists(NUMBERS, min_size=1, max_size=60))
def test_two_sample_kolmogorov_smirnov_is_scipys(first: list[float], second: list[float]) -> None:
    """Samples of equal and of different sizes, with ties."""
    try:
        expected = stats.ks_2samp(first, second, method="exact")
    except RuntimeWarning:
        assume(False)  # SciPy does not find the exact chance of a smallest distance; the paths above do
    outcome = tests.kolmogorov_smirnov_two(first, second)
    assert (outcome.statistic, outcome.p_value) == (_near(expected.statistic), _near(expected.pvalue))
    assert outcome.details["method"] == "exact"


@settings(max_examples=100)
@given(st.lists(NUMBERS, min_size=1, max_size=140), NUMBERS, st.floats(0.01, 500))
def test_kolmogorov_smirnov_against_a_normal_law_is_scipys(values: list[float], middle: float, scale: float) -> None:
    """Any normal law, near to and far from the sample."""
    expected = stats.kstest(values, "norm", args=(middle, scale))
    outcome = tests.kolmogorov_smirnov_normal(values, middle, scale)
    assert (outcome.statistic, outcome.p_value) == (_near(expected.statistic), _near(expected.pvalue, rel=1e-8))


@settings(max_examples=150)
@given(st.integers(2, 6), st.integers(2, 6), st.booleans(), st.data())
def test_chi_square_of_independence_is_scipys(across: int, down: int, correction: bool, data: Any) -> None:
    """Tables of all shapes, with Yates' correction where there is one degree of freedom."""
    row = st.lists(st.integers(0, 60), min_size=down, max_size=down)
    table = data.draw(st.lists(row, min_size=across, max_size=across))
    assume(all(map(sum, table)) and all(map(sum, zip(*table, strict=True))))
    expected = stats.chi2_contingency(table, correction=correction)
    outcome = tests.chi_square_independence(table, correction=correction)
    assert outcome.statistic == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
    assert (outcome.p_value, outcome.details["degrees_of_freedom"]) == (_near(expected.pvalue), expected.dof)
    assert outcome.details["corrected"] is (correction and expected.dof == 1)
    strength = stats.contingency.association(table, method="cramer")
    assert outcome.details["cramers_v"] == pytest.approx(strength, rel=1e-9, abs=1e-7)


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.01, 100)), min_size=2, max_size=12))
def test_chi_square_of_fit_is_scipys(pairs: list[tuple[int, float]]) -> None:
    """Weights of any sum are scaled to the counts."""
    counts, weights = [count for count, _ in pairs], [weight for _, weight in pairs]
    assume(sum(counts))
    scaled = [weight * sum(counts) / math.fsum(weights) for weight in weights]
    expected = stats.chisquare(counts, scaled)
    outcome = tests.chi_square_fit(counts, weights)
    assert outcome.statistic == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
    assert outcome.p_value == _near(expected.pvalue)
    alike = tests.chi_square_fit(counts, [1.0] * len(counts))
    assert alike.statistic == pytest.approx(stats.chisquare(counts).statistic, rel=1e-9, abs=1e-12)


CONSTANT = "Both samples are constant, so there is no spread to measure the difference by."
SAME = "All values are the same, so there is no spread to measure their mean by."


@pytest.mark.parametrize(
    ("outcome", "note"),
    [
        (tests.t_test_two([0.1] * 3, [0.1] * 4, equal_variances=True, alternative="less"), CONSTANT),
        (tests.t_test_two([1.0] * 3, [2.0] * 4, equal_variances=False, alternative="two_sided"), CONSTANT),
        (
            tests.t_test_two([1.0], [2.0, 3.0], equal_variances=False, alternative="two_sided"),
            "A t-test needs at least two values in each sample and there are 1 and 2.",
        ),
        (tests.t_test_one([0.3] * 7, 0.1, "two_sided"), SAME),
        (tests.t_test_one([], 0.0, "two_sided"), "A t-test needs at least two values and there are 0."),
        (tests.t_test_paired([5.0, 6.0], [4.0, 5.0], "two_sided"), SAME),
        (
            tests.chi_square_independence([[3, 4]], correction=True),
            "One of the fields has a single value, so there is nothing to be independent of.",
        ),
        (tests.chi_square_fit([0, 0], [1.0, 2.0]), "No row has a value, so there is nothing to compare."),
        (tests.chi_square_fit([3], [1.0]), "There is a single category, so there is nothing to compare."),
    ],
)
def test_undefined_tests_say_why(outcome: tests.Outcome, note: str) -> None:
    """Neither a division by zero nor NaN: no statistic, no chance, and the reason."""
    assert outcome == tests.Outcome(None, None, {}, (note,))


ROWS = [{"v": value, "w": value * 2 % 7, "g": "ab"[value % 2], "c": "xyz"[value % 3]} for value in range(1, 13)]


def test_samples_come_from_groups_or_from_fields() -> None:
    """A t-test names its samples, and says which test it was."""
    grouped = run_statistics({"operation": "t_test", "field": "v", "group_by": "g", "groups": ["b", "a"]}, ROWS)
    odd, even = [1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]
    expected = stats.ttest_ind(odd, even, equal_var=False)
    assert grouped == {
        "rows_in": 12,
        "operation": "t_test",
        "test": "welch",
        "difference": -1.0,
        "alternative": "two_sided",
        "samples": [
            {"name": "b", "count": 6, "missing": 0, "mean": 6.0, "std": _near(14**0.5)},
            {"name": "a", "count": 6, "missing": 0, "mean": 7.0, "std": _near(14**0.5)},
        ],
        "statistic": _near(expected.statistic),
        "p_value": _near(expected.pvalue),
        "degrees_of_freedom": _near(10.0),
    }
    paired = run_statistics({"operation": "t_test", "fields": ["v", "w"], "paired": True}, ROWS)
    expected = stats.ttest_rel([row["v"] for row in ROWS], [row["w"] for row in ROWS])
    assert (paired["test"], paired["p_value"]) == ("paired", _near(expected.pvalue))
    one = run_statistics({"operation": "t_test", "field": "v", "mean": 5}, ROWS)
    assert (one["test"], one["p_value"]) == ("one_sample", _near(stats.ttest_1samp(range(1, 13), 5).pvalue))


def test_rows_without_a_value_are_counted_as_missing() -> None:
    """Nulls, missing fields and numbers beyond floats are left out; of a pair, both are."""
    rows = [{"a": 1.0, "b": 2.0}, {"a": None, "b": 1.0}, {"b": 4.0}, {"a": 10**400, "b": 1.0}, {"a": 3.0, "b": 7.0}]
    answer = run_statistics({"operation": "t_test", "fields": ["a", "b"], "paired": True}, rows)
    assert [(sample["count"], sample["missing"]) for sample in answer["samples"]] == [(2, 3), (2, 3)]
    answer = run_statistics({"operation": "t_test", "fields": ["a", "b"]}, rows)
    assert [(sample["count"], sample["missing"]) for sample in answer["samples"]] == [(2, 3), (5, 0)]


def test_a_law_taken_from_the_sample_is_said() -> None:
    """Kolmogorov-Smirnov with the sample's own mean and spread warns about its p-value."""
    answer = run_statistics({"operation": "kolmogorov_smirnov", "field": "v"}, ROWS)
    assert answer["notes"] == [
        "The law's mean and std are not both given but taken from the sample, which makes the p-value too large."
    ]
    answer = run_statistics({"operation": "kolmogorov_smirnov", "field": "v", "mean": 6, "std": 3}, ROWS)
    assert "notes" not in answer
    assert answer["p_value"] == _near(stats.kstest(range(1, 13), "norm", args=(6, 3)).pvalue)
    constant = run_statistics({"operation": "kolmogorov_smirnov", "field": "v"}, [{"v": 2}, {"v": 2}])
    assert constant["p_value"] is None
    assert constant["notes"] == ["The values have no spread to take the normal law's from. Give 'std'."]


def test_chi_square_counts_categories_of_rows() -> None:
    """2 and 2.0 are one category; a table of two fields is part of the answer."""
    rows = [{"a": 1, "b": True}, {"a": 1.0, "b": False}, {"a": 2, "b": True}, {"a": "x", "b": None}]
    answer = run_statistics({"operation": "chi_square", "fields": ["a", "b"], "correction": False}, rows)
    assert answer["table"] == {"rows": ["1", "2"], "columns": ["false", "true"], "counts": [[1, 1], [0, 1]]}
    assert (answer["count"], answer["missing"]) == (3, 1)
    fit = run_statistics({"operation": "chi_square", "field": "c", "expected": {"x": 1, "y": 1, "z": 2}}, ROWS)
    assert fit["categories"] == [
        {"value": "x", "observed": 4, "expected": 3.0},
        {"value": "y", "observed": 4, "expected": 3.0},
        {"value": "z", "observed": 4, "expected": 6.0},
    ]
    assert fit["p_value"] == _near(stats.chisquare([4, 4, 4], [3, 3, 6]).pvalue)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"operation": "t_test", "field": "v"},
            "parameters lacks 'group_by'. Give the field that tells two samples apart, or two fields in 'fields'.",
        ),
        (
            {"operation": "t_test", "field": "v", "group_by": "c"},
            "group_by: 'c' has 3 different values ('y', 'z', 'x'). Name the two to compare in groups.",
        ),
        (
            {"operation": "t_test", "field": "v", "group_by": "g", "groups": ["a", "B "]},
            "groups[1] is 'B ', which no row has in 'g'. Nearest: 'b'. Values: 'b', 'a'.",
        ),
        (
            {"operation": "t_test", "field": "v", "group_by": "g", "groups": "ab"},
            "groups is 'ab'. Give the two values of 'g' to compare.",
        ),
        (
            {"operation": "t_test", "field": "v", "mean": "6"},
            "mean is '6'. Give a number.",
        ),
        (
            {"operation": "t_test", "field": "v", "mean": 6, "group_by": "g"},
            "group_by has no meaning beside mean. Leave out one of them.",
        ),
        (
            {"operation": "t_test", "fields": ["v", "w", "g"]},
            "fields names 3 fields. Give at most 2.",
        ),
        (
            {"operation": "t_test", "fields": ["v", "g"]},
            "fields[1]: 'b' (text) in field 'g' is not a number, in row 0. Cast the field in a transform first, or "
            'leave such values out with "invalid": "ignore".',
        ),
        (
            {"operation": "mann_whitney", "fields": ["v", "w"], "method": "exact"},
            "method is 'exact', but the samples have ties. Use 'auto' or 'asymptotic'.",
        ),
        (
            {"operation": "mann_whitney", "fields": ["v", "w"], "alternative": "grater"},
            "alternative is 'grater'. Nearest: 'greater'. Give one of 'two_sided', 'less', 'greater'.",
        ),
        (
            {"operation": "kolmogorov_smirnov", "field": "v", "mean": 1, "std": 0},
            "std is 0. Give a number above 0.",
        ),
        (
            {"operation": "chi_square", "field": "c", "expected": {"x": 1, "y": 1}},
            "expected lacks the value 'z', which 4 rows have. Give a share for every value.",
        ),
        (
            {"operation": "chi_square", "field": "c", "expected": {"x": 1, "y": 1, "z": -1}},
            "expected.z is -1. Give a share or a count above 0.",
        ),
        (
            {"operation": "chi_square", "fields": ["c"]},
            "fields is [\"c\"]. Give two fields, or one in 'field'.",
        ),
    ],
)
def test_wrong_parameters_of_a_test_are_named(parameters: dict[str, Any], message: str) -> None:
    """The path, the value, what was expected, and the nearest word."""
    with pytest.raises(AnalysisError) as raised:
        run_statistics(parameters, ROWS)
    assert str(raised.value) == message
