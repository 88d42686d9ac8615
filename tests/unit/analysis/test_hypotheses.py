"""The hypothesis tests: against exact fractions, against figures of an implementation without SciPy, and in words."""

import itertools
import json
import math
import random
import resource
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from sealyard.analysis.guest import AnalysisError
from sealyard.analysis.guest import hypotheses as tests
from sealyard.analysis.guest.summaries import run_statistics

ALTERNATIVES = ("two_sided", "less", "greater")
NUMBERS = st.integers(-10_000, 10_000).map(lambda whole: whole / 16)
LARGE_AND_CLOSE = st.integers(0, 50).map(lambda whole: 1e9 + whole / 1024)


def _near(value: float, rel: float = 1e-9) -> Any:
    # Below 1e-300 floats have fewer digits, and SciPy rounds to 0 earlier.
    return pytest.approx(value, rel=rel, abs=1e-300)


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


@given(st.lists(NUMBERS, min_size=1, max_size=30), st.lists(NUMBERS, min_size=1, max_size=30))
def test_two_sample_distance_is_the_share_of_paths(first: list[float], second: list[float]) -> None:
    """Exact fractions agree to the last digits, unless SciPy gives up counting, which the method says."""
    found = tests.kolmogorov_smirnov_two(first, second)
    steps = round(found["statistic"] * math.lcm(len(first), len(second)))
    expected = float(_paths_outside(steps, len(first), len(second)))
    rounding = 1e-12 if found["method"] == "exact" else 1e-2
    assert found["p_value"] == pytest.approx(expected, rel=rounding)
    assert found["method"] == "exact" or expected > 0.9


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
@given(st.data(), st.booleans(), st.sampled_from(ALTERNATIVES))
def test_t_tests_of_two_samples_are_exact_on_hard_numbers(data: Any, equal_variances: bool, alternative: Any) -> None:
    """Large and close numbers, too: the statistic is that of fractions, the chance SciPy's."""
    numbers = data.draw(st.sampled_from([NUMBERS, LARGE_AND_CLOSE]))
    first = data.draw(st.lists(numbers, min_size=2, max_size=20))
    second = data.draw(st.lists(numbers, min_size=2, max_size=20))
    assume(len(set(first)) > 1 or len(set(second)) > 1)
    statistic, degrees = _exact_t(first, second, equal_variances=equal_variances)
    assume(1e-6 < abs(statistic) < 1e6)
    outcome = tests.t_test_two(first, second, equal_variances=equal_variances, alternative=alternative)
    assert outcome["statistic"] == _near(statistic)
    assert outcome["degrees_of_freedom"] == _near(degrees)
    tail = stats.t.sf(abs(statistic), degrees)
    expected = {
        "two_sided": 2 * tail,
        "greater": tail if statistic > 0 else 1 - tail,
        "less": tail if statistic < 0 else 1 - tail,
    }
    assert outcome["p_value"] == _near(expected[alternative], rel=1e-8)


@settings(max_examples=50)
@given(st.permutations(range(9)), st.integers(1, 8), st.sampled_from(["less", "greater"]))
def test_mann_whitney_of_small_samples_counts_orders(values: list[int], cut: int, alternative: Any) -> None:
    """The chance is the share of all ways to choose the first sample that reach its statistic."""
    first, second = [*map(float, values[:cut])], [*map(float, values[cut:])]

    def reached(chosen: Any) -> int:
        return sum(one > other for one in chosen for other in range(9) if other not in chosen)

    here = reached([*map(int, first)])
    all_of_them = [reached(chosen) for chosen in itertools.combinations(range(9), cut)]
    as_far = [u for u in all_of_them if (u <= here if alternative == "less" else u >= here)]
    found = tests.mann_whitney_u(first, second, alternative=alternative, method="auto")
    assert (found["statistic"], found["method"]) == (here, "exact")
    assert found["p_value"] == pytest.approx(len(as_far) / len(all_of_them), rel=1e-12)


@pytest.mark.parametrize(("n1", "n2"), [(8, 400), (30, 25), (2, 1), (2, 5_000)])
def test_mann_whitney_counts_as_scipy_does(n1: int, n2: int) -> None:
    """Samples of very different sizes, and both large."""
    draw = random.Random(n1)
    first, second = [draw.gauss(0.4, 1) for _ in range(n1)], [draw.gauss(0, 1) for _ in range(n2)]
    expected = stats.mannwhitneyu(first, second, method="exact")
    outcome = tests.mann_whitney_u(first, second, alternative="two_sided", method="exact")
    assert outcome == {
        "statistic": expected.statistic,
        "p_value": _near(expected.pvalue),
        "method": "exact",
        "notes": [],
    }


def test_mann_whitney_of_equal_values_has_no_evidence() -> None:
    """All ties: the statistic is in the middle and the chance 1."""
    outcome = tests.mann_whitney_u([3.0] * 5, [3.0] * 9, alternative="two_sided", method="auto")
    assert outcome == {"statistic": 22.5, "p_value": 1.0, "method": "asymptotic", "notes": []}


FIRST = [number * number % 97 / 4 for number in range(1, 41)]
SECOND = [number**3 % 89 / 3 for number in range(1, 31)]
CLOSE = [1.25e9 + number / 1024 for number in (3, 1, 4, 1, 5, 9, 2, 6)]
CLOSE_BY = [1.25e9 + number / 1024 for number in (5, 3, 5, 8, 9, 7, 9, 3)]
FIGURES: dict[str, tuple[dict[str, Any], float, float, dict[str, Any]]] = {
    "Welch": (
        tests.t_test_two(FIRST, SECOND, equal_variances=False, alternative="two_sided"),
        -0.8305601011256916,
        0.4097622107066464,
        {"degrees_of_freedom": 55.7944622226561},
    ),
    "Student": (
        tests.t_test_two(FIRST, SECOND, equal_variances=True, alternative="less"),
        -0.8526377372384201,
        0.1984267222458831,
        {"degrees_of_freedom": 68.0},
    ),
    "large and close": (
        tests.t_test_two(CLOSE, CLOSE_BY, equal_variances=False, alternative="two_sided"),
        -1.7207078511875222,
        0.10755732762558758,
        {"degrees_of_freedom": 13.84894361685628},
    ),
    "one sample": (
        tests.t_test_one(FIRST, 10.0, "greater"),
        1.413900585867301,
        0.08266224202456585,
        {"degrees_of_freedom": 39},
    ),
    "far into the tail": (
        tests.t_test_one(FIRST, 1000.0, "two_sided"),
        -837.3945368724866,
        1.3634827639513154e-84,
        {"degrees_of_freedom": 39},
    ),
    "pairs": (
        tests.t_test_one([one - two for one, two in zip(FIRST, SECOND, strict=False)], 0.0, "two_sided"),
        -1.0567975350356764,
        0.2993284226943709,
        {"degrees_of_freedom": 29},
    ),
    "Mann-Whitney with ties": (
        tests.mann_whitney_u(FIRST, SECOND, alternative="two_sided", method="auto"),
        538.0,
        0.46544579053997936,
        {"method": "asymptotic"},
    ),
    "Kolmogorov-Smirnov, two samples": (
        tests.kolmogorov_smirnov_two(FIRST, SECOND),
        0.16666666666666666,
        0.677132831390203,
        {"method": "exact", "at": 18.0},
    ),
    "Kolmogorov-Smirnov, a normal distribution": (
        tests.kolmogorov_smirnov_normal(FIRST, 10.0, 8.0),
        0.1191683586520661,
        0.5796795120401755,
        {"method": "exact", "at": 15.25},
    ),
    "independence": (
        tests.chi_square_independence([[12, 5, 9], [3, 18, 7]], correction=True),
        12.94150441949355,
        0.0015480608284120863,
        {"degrees_of_freedom": 2, "corrected": False, "cramers_v": 0.4895482501754863},
    ),
    "two by two": (
        tests.chi_square_independence([[12, 5], [3, 18]], correction=True),
        10.219721511793121,
        0.0013894682979282151,
        {"degrees_of_freedom": 1, "corrected": True, "cramers_v": 0.5727332566442689},
    ),
    "fit": (
        tests.chi_square_fit([18, 30, 52], [1.0, 1.0, 2.0]),
        3.04,
        0.21871188695221477,
        {"degrees_of_freedom": 2, "expected": [25.0, 25.0, 50.0]},
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_those_of_another_implementation(name: str) -> None:
    """Statistic, chance and details agree with figures that were computed without SciPy."""
    found, statistic, p_value, details = FIGURES[name]
    assert (found.pop("statistic"), found.pop("p_value")) == (_near(statistic), _near(p_value))
    expected = {key: _near(value) if isinstance(value, float) else value for key, value in details.items()}
    assert {key: found[key] for key in found if key != "notes"} == expected


def test_method_says_where_the_distribution_is_approximate() -> None:
    """Of one sample's distance beyond 140 values, of two beyond ten thousand, of U beyond ten thousand pairs."""
    assert tests.kolmogorov_smirnov_normal(range(140), 70.0, 40.0)["method"] == "exact"
    assert tests.kolmogorov_smirnov_normal(range(141), 70.0, 40.0)["method"] == "asymptotic"
    assert tests.kolmogorov_smirnov_two(range(10_001), range(100, 10_100))["method"] == "asymptotic"
    assert tests.kolmogorov_smirnov_two(range(1_001), range(100, 1_100))["method"] == "exact"
    few, many = [0.5, 1.5], [float(number) for number in range(5_001)]
    for method, expected in (("auto", "asymptotic"), ("asymptotic", "asymptotic")):
        outcome = tests.mann_whitney_u(few, many, alternative="less", method=method)
        assert outcome["method"] == expected
    assert tests.mann_whitney_u(few, many[:5_000], alternative="less", method="auto")["method"] == "exact"
    with pytest.raises(AnalysisError, match=r"make 10002 pairs and at most 10000 are counted exactly"):
        tests.mann_whitney_u(few, many, alternative="less", method="exact")


def test_a_test_is_not_begun_without_room_for_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """With less address space the import would never end."""
    monkeypatch.delitem(sys.modules, "scipy.stats")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (128 << 20, 128 << 20))
    with pytest.raises(AnalysisError, match=r"needs 320 MiB of address space, and this run has 128\."):
        tests.t_test_one([1.0, 2.0], 0.0, "less")


@pytest.mark.parametrize("operation", ["t_test", "mann_whitney", "kolmogorov_smirnov", "chi_square"])
def test_without_scipy_a_test_says_what_to_install(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other statistics need nothing but the standard library."""
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(AnalysisError, match=r"SciPy, which this sandbox does not offer.*sealyard\[analysis\]"):
        run_statistics({"operation": operation, "fields": ["v", "w"]}, ROWS)
    for other in ("describe", "correlation", "outliers", "percentiles", "covariance"):
        assert run_statistics({"operation": other, "fields": ["v", "w"]}, ROWS)["rows_in"] == 12


@pytest.mark.parametrize(
    "outcome",
    [
        tests.t_test_two([0.1] * 3, [0.1] * 4, equal_variances=True, alternative="less"),
        tests.t_test_two([1.0] * 3, [2.0] * 4, equal_variances=False, alternative="two_sided"),
        tests.t_test_two([1.0], [2.0, 3.0], equal_variances=False, alternative="two_sided"),
        tests.t_test_two([], [2.0, 3.0], equal_variances=True, alternative="two_sided"),
        tests.t_test_two([1e200, 2e200], [1e200, 5e200], equal_variances=True, alternative="two_sided"),
        tests.t_test_one([0.3] * 7, 0.1, "two_sided"),
        tests.t_test_one([], 0.0, "two_sided"),
        tests.t_test_one([1e300, -1e300], 0.0, "two_sided"),
        tests.kolmogorov_smirnov_normal([2.0, 2.0], 2.0, math.nan),
        tests.chi_square_independence([[3, 4]], correction=True),
        tests.chi_square_fit([0, 0], [1.0, 2.0]),
        tests.chi_square_fit([3], [1.0]),
        tests.chi_square_fit([], []),
    ],
)
def test_undefined_tests_say_so(outcome: dict[str, Any]) -> None:
    """Neither a division by zero nor NaN: no statistic, no chance, and a note."""
    assert (outcome["statistic"], outcome["p_value"]) == (None, None)
    assert outcome["notes"] == [
        "The test has no result: a sample has too few values, or they do not differ, or they are too large."
    ]
    json.dumps(outcome, allow_nan=False)


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


def test_a_distribution_taken_from_the_sample_is_noted() -> None:
    """Kolmogorov-Smirnov with the sample's own mean and deviation warns about its p-value."""
    answer = run_statistics({"operation": "kolmogorov_smirnov", "field": "v"}, ROWS)
    fitted = (
        "The distribution's mean and std are not both given but taken from the sample, which makes the p-value too "
        "large."
    )
    assert answer["notes"] == [fitted]
    assert answer["distribution"] == {"name": "normal", "mean": 6.5, "std": _near(13**0.5)}
    answer = run_statistics({"operation": "kolmogorov_smirnov", "field": "v", "mean": 6, "std": 3}, ROWS)
    assert "notes" not in answer
    assert answer["p_value"] == _near(stats.kstest(range(1, 13), "norm", args=(6, 3)).pvalue)
    constant = run_statistics({"operation": "kolmogorov_smirnov", "field": "v"}, [{"v": 2}, {"v": 2}])
    assert constant["p_value"] is None
    assert constant["notes"][0].startswith("The test has no result: ")
    assert constant["distribution"] == {"name": "normal", "mean": 2.0, "std": None}
    centred = run_statistics({"operation": "kolmogorov_smirnov", "field": "v", "std": 1}, [{"v": -1}, {"v": 1}])
    assert centred["distribution"] == {"name": "normal", "mean": 0.0, "std": 1}


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
            "parameters lacks 'group_by'. Give the field whose values separate two samples, or two fields in 'fields'.",
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
            "group_by and mean exclude each other. Leave out one of them.",
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
