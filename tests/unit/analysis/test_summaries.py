"""Statistics that describe fields: what they hold, how they spread, how they go together, which values stand out."""

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sealyard.analysis.guest import AnalysisError, run
from sealyard.analysis.guest.aggregates import correlation, covariance, deviation, mean, quantile, ranks
from sealyard.analysis.guest.limits import MAX_FIELDS, MAX_MATRIX
from sealyard.analysis.guest.summaries import OPERATIONS, run_statistics

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ORDINARY = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5) | st.just("2025-03-31"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def _column(*values: Any) -> list[dict[str, Any]]:
    return [{"x": value} for value in values]


def _field(operation: str, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    answer = run_statistics({"operation": operation, "fields": ["x"], **more}, rows)
    [described] = answer["fields"]
    return dict(described)


def test_describe_counts_and_measures_by_kind() -> None:
    """Numbers, text, dates, booleans, lists and objects each get their own figures."""
    rows = [
        {"n": 4, "t": "ab", "d": "2025-03-02", "b": True, "l": [1], "o": {"k": 1}, "e": None},
        {"n": 1, "t": "ab", "d": "2025-03-01T23:00:00-05:00", "b": False, "l": [], "o": {"k": 2}},
        {"n": 2.5, "t": "wxyz", "d": "2025-03-02T03:00:00Z", "b": True, "l": [1, 2, 3], "o": {}},
        {"n": None, "t": None},
    ]
    answer = run_statistics({"operation": "describe"}, rows)
    lengths = {"min_length": 0, "mean_length": 4 / 3, "max_length": 3}
    counted = {"count": 3, "missing": 1}
    assert answer == {
        "rows_in": 4,
        "operation": "describe",
        "fields": [
            {"field": "n", "kind": "number", **counted, "distinct": 3, "mean": 2.5, "std": 1.5}
            | {"min": 1, "p25": 1.75, "median": 2.5, "p75": 3.25, "max": 4},
            {"field": "t", "kind": "text", **counted, "distinct": 2}
            | {"min_length": 2, "mean_length": 8 / 3, "max_length": 4}
            | {"top": [{"value": "ab", "count": 2}, {"value": "wxyz", "count": 1}]},
            {"field": "d", "kind": "date", **counted, "distinct": 3}
            | {"earliest": "2025-03-02", "latest": "2025-03-01T23:00:00-05:00"},
            {"field": "b", "kind": "boolean", **counted, "distinct": 2, "true": 2, "false": 1}
            | {"top": [{"value": True, "count": 2}, {"value": False, "count": 1}]},
            {"field": "l", "kind": "list", **counted, "distinct": 3, **lengths},
            {"field": "o", "kind": "object", **counted, "distinct": 3}
            | {"min_length": 0, "mean_length": 2 / 3, "max_length": 1},
            {"field": "e", "kind": "empty", "count": 0, "missing": 4, "distinct": 0},
        ],
    }


@pytest.mark.parametrize(
    ("values", "described"),
    [
        ((), {"kind": "empty", "count": 0, "missing": 0, "distinct": 0}),
        ((None, math.nan, math.inf), {"kind": "empty", "count": 0, "missing": 3, "distinct": 0}),
        (
            (7,),
            {"kind": "number", "count": 1, "missing": 0, "distinct": 1, "mean": 7.0, "std": None}
            | {"min": 7, "p25": 7.0, "median": 7.0, "p75": 7.0, "max": 7},
        ),
        (
            (0.1, 0.1, 0.1),
            {"kind": "number", "count": 3, "missing": 0, "distinct": 1, "mean": pytest.approx(0.1), "std": 0.0}
            | {"min": 0.1, "p25": 0.1, "median": 0.1, "p75": 0.1, "max": 0.1},
        ),
        (
            (True, 1, "1.50"),
            {"kind": "mixed", "count": 3, "missing": 0, "distinct": 3}
            | {"kinds": {"boolean": 1, "number": 1, "text": 1}},
        ),
        (
            (1.7e308, -1.7e308),
            {"kind": "number", "count": 2, "missing": 0, "distinct": 2, "mean": 0.0, "std": None}
            | {
                "min": -1.7e308,
                "p25": pytest.approx(-8.5e307),
                "median": 0.0,
                "p75": pytest.approx(8.5e307),
                "max": 1.7e308,
            },
        ),
        (
            (10**400, 1),
            {"kind": "number", "count": 2, "missing": 0, "distinct": 2, "min": 1, "max": 10**400},
        ),
        (
            ("12.50", "12.50"),
            {"kind": "text", "count": 2, "missing": 0, "distinct": 1, "min_length": 5, "mean_length": 5.0}
            | {"max_length": 5, "top": [{"value": "12.50", "count": 2}]},
        ),
    ],
)
def test_describe_has_an_answer_for_odd_columns(values: tuple[Any, ...], described: dict[str, Any]) -> None:
    """No rows, one row, constants, numbers out of range, text of numbers: defined figures, null where there is none."""
    assert _field("describe", _column(*values)) == {"field": "x", **described}


@given(st.lists(ORDINARY, min_size=2, max_size=60))
def test_described_figures_are_pandas(values: list[float]) -> None:
    """Quartiles by linear interpolation, the deviation of a sample."""
    described = _field("describe", _column(*values))
    expected = pd.Series(values).describe()
    names = {"mean": "mean", "std": "std", "min": "min", "25%": "p25", "50%": "median", "75%": "p75", "max": "max"}
    for theirs, ours in names.items():
        assert described[ours] == pytest.approx(expected[theirs], rel=1e-9, abs=1e-9)


@given(st.lists(FINITE, min_size=1, max_size=30), st.floats(0, 1))
def test_moments_and_quantiles_stay_within_the_values(values: list[float], share: float) -> None:
    """Whatever the size of the numbers: no overflow, no NaN, nothing beyond the extremes but by a last digit."""
    low, high = min(values), max(values)
    slack = 1e-12 * max(abs(low), abs(high))
    middle, scale = mean(values), deviation(values)
    assert (low - slack <= middle <= high + slack) if middle is not None else max(-low, high) > 1e300
    assert low - slack <= quantile(sorted(values), share) <= high + slack
    if scale is None:
        assert len(values) < 2 or high - low > 1e150
    else:
        assert (scale == 0.0) is (low == high) or high - low < 1e-150


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_ranks_share_places_as_scipys(values: list[int]) -> None:
    """Equal values get the mean of their places."""
    assert ranks(values) == list(stats.rankdata(values))


def test_percentiles_are_numpys_and_named_after_their_share() -> None:
    """Fractions keep their digits, so that two shares never have one name."""
    draw = random.Random(1)
    values = [draw.gauss(0, 10) for _ in range(101)]
    shares = [0, 2.5, 50, 99.99999, 99.999999, 100.0]
    told = _field("percentiles", _column(*values, None), percentiles=shares)
    names = ["p0", "p2.5", "p50", "p99.99999", "p99.999999", "p100"]
    expected = {name: pytest.approx(np.percentile(values, share)) for name, share in zip(names, shares, strict=True)}
    assert told == {"field": "x", "count": 101, "missing": 1, **expected}
    empty = _field("percentiles", _column(None), percentiles=50)
    assert empty == {"field": "x", "count": 0, "missing": 1, "p50": None}


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["pearson", "spearman"]))
def test_correlation_of_pairs_is_pandas(data: Any, method: Any) -> None:
    """Each pair over the rows that have both values."""
    size = data.draw(st.integers(3, 20))
    column = st.lists(st.none() | st.integers(-50, 50).map(float), min_size=size, max_size=size)
    columns = data.draw(st.lists(column, min_size=2, max_size=4))
    matrix = correlation(columns, method)
    frame = pd.DataFrame({str(number): pd.array(each, dtype="Float64") for number, each in enumerate(columns)})
    frame = frame.astype("float64")
    for i, first in enumerate(columns):
        for j, second in enumerate(columns):
            both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
            assert matrix.counts[i][j] == len(both)
            if len({a for a, _ in both}) < 2 or len({b for _, b in both}) < 2:
                assert matrix.values[i][j] is None
            else:
                pair = stats.pearsonr if method == "pearson" else stats.spearmanr
                expected = pair([a for a, _ in both], [b for _, b in both]).statistic
                assert matrix.values[i][j] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    theirs = frame.cov(min_periods=2)
    ours = covariance(columns)
    for i in range(len(columns)):
        for j in range(len(columns)):
            expected = theirs.iloc[i, j]
            given_here = ours.values[i][j]
            assert (given_here is None) is bool(np.isnan(expected))
            assert given_here is None or given_here == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_correlation_survives_numbers_whose_squares_overflow() -> None:
    """Huge and tiny columns correlate as their shapes do; a covariance beyond floats is null."""
    small, large = [1e-200, 2e-200, 4e-200], [1e300, 2e300, 4e300]
    assert correlation([small, large], "pearson").values == [[1.0, pytest.approx(1.0)], [pytest.approx(1.0), 1.0]]
    rows = [{"s": s, "l": v} for s, v in zip(small, large, strict=True)]
    answer = run_statistics({"operation": "covariance"}, rows)
    assert answer["matrix"][1][1] is None
    assert answer["matrix"][0][1] == pytest.approx(7e100 / 3)
    assert answer["notes"] == [
        "1 values are null; of 'l' and 'l', because the figure is beyond what a number can hold."
    ]


def test_a_constant_has_no_correlation_and_the_answer_says_so() -> None:
    """Zero variance gives null with a note, never a division by zero."""
    answer = run_statistics({"operation": "correlation"}, [{"a": 1, "b": 5, "t": "x"}, {"a": 2, "b": 5, "t": "y"}])
    assert answer == {
        "rows_in": 2,
        "operation": "correlation",
        "method": "pearson",
        "fields": ["a", "b"],
        "matrix": [[1.0, None], [None, None]],
        "counts": [[2, 2], [2, 2]],
        "notes": ["2 values are null; of 'a' and 'b', because its values there are all the same."],
    }


def test_matrices_and_descriptions_are_bounded_and_say_what_they_left_out() -> None:
    """A row with hundreds of fields gives a bounded answer; naming too many is an error."""
    rows = [{f"f{number}": number * row % 7 for number in range(300)} for row in range(4)]
    answer = run_statistics({"operation": "correlation"}, rows)
    assert len(answer["fields"]) == len(answer["matrix"]) == MAX_MATRIX
    assert answer["notes"][0] == "Only the first 25 of 300 fields of numbers are used. Name others in fields."
    answer = run_statistics({"operation": "describe"}, rows)
    assert len(answer["fields"]) == MAX_FIELDS
    assert answer["notes"] == ["Only the first 50 of 300 fields are described. Name others in fields."]
    with pytest.raises(AnalysisError) as raised:
        run_statistics({"operation": "covariance", "fields": [f"f{number}" for number in range(30)]}, rows)
    assert str(raised.value) == "fields names 30 fields. Give at most 25."


@pytest.mark.parametrize(
    ("method", "lower", "upper", "scores"),
    [("iqr", 1.875, 6.875, [76.8]), ("z_score", -85.8486, 117.8486, []), ("mad", -1.189108, 9.189108, [64.7510])],
)
def test_outliers_are_told_with_their_rows_and_scores(
    method: str, lower: float, upper: float, scores: list[float]
) -> None:
    """Each method draws its fence; rows are numbered from 0."""
    told = _field("outliers", _column(3, 5, None, 4, 3, 5, 100, 4, 4), method=method)
    assert told == {
        "field": "x",
        "count": 8,
        "missing": 1,
        "lower": pytest.approx(lower, rel=1e-5),
        "upper": pytest.approx(upper, rel=1e-5),
        "outliers": len(scores),
        "rows": [6] * len(scores),
        "samples": [{"row": 6, "value": 100.0, "score": pytest.approx(score, rel=1e-5)} for score in scores],
    }


def test_a_million_outliers_make_a_short_answer() -> None:
    """Row numbers and samples are bounded, the count is whole."""
    values = [0.0] * 700 + [float(1000 + number) for number in range(300)]
    answer = run_statistics({"operation": "outliers", "field": "x", "method": "mad", "samples": 2}, _column(*values))
    [told] = answer["fields"]
    assert (told["outliers"], len(told["rows"]), told["rows"][0]) == (300, 100, 700)
    assert told["samples"] == [
        {"row": 999, "value": 1299.0, "score": None},
        {"row": 998, "value": 1298.0, "score": None},
    ]
    assert answer["notes"] == [
        "x: More than half of the values are the same, so every other one is an outlier and has no score."
    ]


@given(st.lists(ORDINARY, min_size=1, max_size=60), st.integers(1, 20))
def test_a_histogram_counts_every_value_once(values: list[float], bins: int) -> None:
    """Bins meet, cover all values, and count as NumPy does over the same edges."""
    told = run_statistics({"operation": "histogram", "field": "x", "bins": bins}, _column(*values))["bins"]
    assert sum(each["count"] for each in told) == len(values)
    assert all(before["to"] == after["from"] for before, after in pairwise(told))
    if len(set(values)) > 1:
        edges = [told[0]["from"], *(each["to"] for each in told)]
        assert [each["count"] for each in told] == list(np.histogram(values, edges)[0])
    else:
        assert told == [{"from": values[0], "to": values[0], "count": len(values)}]


def test_a_histogram_of_given_edges_counts_what_lies_outside() -> None:
    """Values below and above the edges are not lost."""
    answer = run_statistics({"operation": "histogram", "field": "x", "edges": [0, 10, 20]}, _column(-1, 0, 10, 20, 21))
    assert answer == {
        "rows_in": 5,
        "operation": "histogram",
        "field": "x",
        "count": 5,
        "missing": 0,
        "below": 1,
        "above": 1,
        "bins": [{"from": 0, "to": 10, "count": 1}, {"from": 10, "to": 20, "count": 2}],
    }


def test_conditions_narrow_the_rows_first() -> None:
    """The answer says how many were used, and errors and outliers how rows are numbered."""
    rows = [{"x": value, "keep": value != 2} for value in (1, 2, 3, 1000, 2, 3)]
    parameters = {
        "operation": "outliers",
        "field": "x",
        "conditions": [{"field": "keep", "operator": "==", "value": True}],
    }
    answer = run_statistics(parameters, rows)
    assert (answer["rows_in"], answer["rows_used"], answer["fields"][0]["rows"]) == (6, 4, [2])
    assert answer["notes"] == ["Rows are numbered among those that meet conditions."]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"operation": "descibe"},
            f"operation is 'descibe'. Nearest: 'describe'. Give one of {', '.join(map(repr, OPERATIONS))}.",
        ),
        (
            {"operation": "describe", "feilds": ["x"]},
            "No parameter 'feilds'. Nearest: 'fields'. Known: 'operation', 'field', 'fields', 'conditions', 'logic'.",
        ),
        (
            {"operation": "describe", "fields": ["ammount"]},
            "No field 'ammount' in the rows (fields[0]). Nearest: 'amount'. Fields: 'amount', 'name', 'deep'.",
        ),
        (
            {"operation": "percentiles", "field": "deep.hight"},
            "No field 'deep.hight' in the rows (field). Nearest: 'deep.height'. Fields: 'deep.height', 'amount', "
            "'name', 'deep'.",
        ),
        (
            {"operation": "percentiles", "field": "amount", "percentiles": [50, 101]},
            "percentiles[1] is 101. Give a number from 0 to 100.",
        ),
        (
            {"operation": "correlation", "fields": ["amount", "name"]},
            "fields[1]: 'a' (text) in field 'name' is not a number, in row 0. Cast the field in a transform first, or "
            'leave such values out with "invalid": "ignore".',
        ),
        (
            {"operation": "correlation", "method": "spearmen"},
            "method is 'spearmen'. Nearest: 'spearman'. Give one of 'pearson', 'spearman'.",
        ),
        ({"operation": "outliers", "threshold": 0}, "threshold is 0. Give a number above 0."),
        ({"operation": "outliers", "samples": 1.5}, "samples is 1.5. Give a whole number from 0 to 100."),
        (
            {"operation": "histogram", "field": "amount", "bins": 10**6},
            "bins is 1000000. Give a whole number from 1 to 500.",
        ),
        (
            {"operation": "histogram", "field": "amount", "edges": [1, 1]},
            "edges[1] is 1. Give finite numbers, each above the one before.",
        ),
        ({"operation": "histogram"}, "parameters lacks 'field'. Give the name of a field."),
        ({"operation": "histogram", "field": ["amount"]}, 'field is ["amount"]. Give a text.'),
        (
            {"operation": "describe", "field": "amount", "fields": ["name"]},
            "field and fields are both given. Give one of them.",
        ),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    """The path, the value, what was expected, and the nearest word or field."""
    rows = [{"amount": 1, "name": "a", "deep": {"height": 2}}, {"amount": 2, "name": "b"}]
    with pytest.raises(AnalysisError) as raised:
        run_statistics(parameters, rows)
    assert str(raised.value) == message


PARAMETERS = st.fixed_dictionaries(
    {"operation": st.sampled_from(sorted(OPERATIONS))},
    optional={
        name: JSON_VALUES | st.sampled_from(["a", ["a", "b"], "b", 2, {"total": "sum(a)"}, "3 days", "day", "exact"])
        for name in sorted({name for _, known in OPERATIONS.values() for name in known})
    },
)


@settings(max_examples=250)
@given(PARAMETERS, st.lists(st.dictionaries(st.sampled_from(["a", "b", "t"]), JSON_VALUES, max_size=3), max_size=6))
def test_any_request_gives_json_or_a_clear_error(parameters: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Hostile parameters over hostile rows: an answer without NaN, or an `AnalysisError`, and nothing else."""
    try:
        answer = run(
            {"analysis_type": "statistics", "data": rows, "parameters": parameters}, lambda name, arguments: None
        )
    except AnalysisError:
        return
    json.dumps(answer, allow_nan=False)


def test_statistics_run_through_the_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` finds the rows by `data_field` and hands the operation over."""
    monkeypatch.chdir(tmp_path)
    request = {
        "analysis_type": "statistics",
        "data": {"stocks": [{"price": 1.0}, {"price": 3.0}], "other": [{"price": 9}]},
        "parameters": {"data_field": "stocks", "operation": "percentiles", "field": "price", "percentiles": [50]},
    }
    answer = run(request, lambda name, arguments: None)
    assert answer == {
        "rows_in": 2,
        "operation": "percentiles",
        "fields": [{"field": "price", "count": 2, "missing": 0, "p50": 2.0}],
    }
