"""Aggregate: groups and their figures, against plain loops, `statistics` and pandas."""

import math
import statistics
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run

SALES = [
    {"region": "n", "amount": 10, "price": 1.5, "who": "x"},
    {"region": "s", "amount": 20, "price": 2.5, "who": "y"},
    {"region": "n", "amount": 30, "price": None, "who": "x"},
    {"region": None, "amount": 5, "who": None},
    {"amount": 7, "price": 0.5, "who": "z"},
]


def never(tool: str, arguments: dict[str, Any]) -> Any:
    """Stands where a tool could be called, in tests that call none."""
    raise AssertionError(tool)


def aggregated(rows: list[dict[str, Any]], **parameters: Any) -> list[dict[str, Any]]:
    """The rows of an aggregate, however many."""
    request = {"analysis_type": "aggregate", "data": rows, "parameters": parameters, "limits": {"rows": 10_000}}
    found: list[dict[str, Any]] = run(request, never)["rows"]
    return found


def mistake(**parameters: Any) -> str:
    """What is said about the parameters of an aggregate of the sales."""
    with pytest.raises(AnalysisError) as caught:
        aggregated(SALES, **parameters)
    return str(caught.value)


def test_groups_stand_in_the_order_of_their_first_rows_and_null_is_one_of_them() -> None:
    """A missing key and a null key are the same group."""
    assert aggregated(SALES, group_by="region", aggregations={"n": "count", "total": "sum(amount)"}) == [
        {"region": "n", "n": 2, "total": 40},
        {"region": "s", "n": 1, "total": 20},
        {"region": None, "n": 2, "total": 12},
    ]


def test_without_keys_there_is_one_row_even_without_input() -> None:
    """Sums of nothing are 0, other figures of nothing are null."""
    aggregations = ["count", "sum(a)", "mean(a)", "median(a)", "min(a)", "max(a)", "std(a)", "distinct(a)", "first(a)"]

    assert aggregated([], aggregations=aggregations) == [
        {
            "count": 0,
            "sum_a": 0,
            "mean_a": None,
            "median_a": None,
            "min_a": None,
            "max_a": None,
            "std_a": None,
            "distinct_a": 0,
            "first_a": None,
        }
    ]
    assert aggregated([], group_by=["g"], aggregations="count") == []


def test_every_function_leaves_nulls_out() -> None:
    """`count` of rows is the only figure that a null is part of."""
    rows = [{"v": None}, {"v": 4}, {"v": 2}, {}, {"v": 2}]
    functions = ["count", "sum", "mean", "median", "min", "max", "std", "variance", "distinct", "first", "last"]
    aggregations: list[Any] = [{"function": "count", "as": "rows"}]
    aggregations += [{"function": name, "field": "v", "as": name} for name in functions]

    assert aggregated(rows, aggregations=aggregations) == [
        {
            "rows": 5,
            "count": 3,
            "sum": 8,
            "mean": 8 / 3,
            "median": 2.0,
            "min": 2,
            "max": 4,
            "std": statistics.stdev([4, 2, 2]),
            "variance": statistics.variance([4, 2, 2]),
            "distinct": 2,
            "first": 4,
            "last": 2,
        }
    ]


def test_whole_numbers_stay_whole_and_means_are_floats() -> None:
    """The types of figures are promised."""
    [row] = aggregated([{"v": 1}, {"v": 3}], aggregations=["sum(v)", "mean(v)", "median(v)", "min(v)", "p50(v)"])

    assert {name: type(value).__name__ for name, value in row.items()} == {
        "sum_v": "int",
        "mean_v": "float",
        "median_v": "float",
        "min_v": "int",
        "p50_v": "float",
    }


def test_every_way_to_write_an_aggregation_means_the_same() -> None:
    """A list of objects, an object of names, text, and the form that pandas has."""
    expected = [{"total": 72}]

    assert aggregated(SALES, aggregations=[{"function": "sum", "field": "amount", "as": "total"}]) == expected
    assert aggregated(SALES, aggregations={"total": "sum(amount)"}) == expected
    assert aggregated(SALES, aggregations={"total": {"function": "SUM", "field": "amount"}}) == expected
    assert aggregated(SALES, aggregations=[{"function": "sum", "expression": "amount * 1", "as": "total"}]) == expected
    assert aggregated(SALES, aggregations={"amount": "sum"}) == [{"amount": 72}]
    assert aggregated(SALES, aggregations={"amount": ["sum", "max"]}) == [{"sum_amount": 72, "max_amount": 30}]
    assert aggregated(SALES, aggregations="sum(amount)") == [{"sum_amount": 72}]
    assert aggregated(SALES, aggregations={"function": "sum", "field": "amount"}) == [{"sum_amount": 72}]


def test_an_aggregate_of_an_expression_is_of_its_values() -> None:
    """`sum(a * b)` needs no step before it."""
    assert aggregated(SALES, group_by=["who"], aggregations={"worth": "sum(amount * coalesce(price, 0))"}) == [
        {"who": "x", "worth": 15.0},
        {"who": "y", "worth": 50.0},
        {"who": None, "worth": 0},
        {"who": "z", "worth": 3.5},
    ]


def test_conditions_come_before_the_groups_and_having_after() -> None:
    """Sort and limit are over the figures."""
    answer = run(
        {
            "analysis_type": "aggregate",
            "data": SALES,
            "parameters": {
                "conditions": [{"field": "amount", "operator": ">", "value": 5}],
                "group_by": ["region"],
                "aggregations": {"n": "count", "total": "sum(amount)"},
                "having": [{"field": "total", "operator": "<", "value": 40}],
                "sort": [{"field": "total", "descending": True}],
                "limit": 1,
            },
        },
        never,
    )

    assert answer == {
        "rows_in": 5,
        "rows_out": 1,
        "rows": [{"region": "s", "n": 1, "total": 20}],
        "engine": "python",
    }


def test_keys_of_different_kinds_are_different_groups() -> None:
    """1 and 1.0 are one number; true, "1" and a list are not it; objects are the same whatever the order of keys."""
    values = [1, True, "1", 1.0, [1], {"a": 1, "b": 2}, {"b": 2, "a": 1}, False, 0]

    assert aggregated([{"k": value} for value in values], group_by="k", aggregations="count") == [
        {"k": 1, "count": 2},
        {"k": True, "count": 1},
        {"k": "1", "count": 1},
        {"k": [1], "count": 1},
        {"k": {"a": 1, "b": 2}, "count": 2},
        {"k": False, "count": 1},
        {"k": 0, "count": 1},
    ]


def test_min_and_max_follow_the_order_of_kinds() -> None:
    """Booleans before numbers before texts."""
    rows = [{"v": value} for value in ["b", 3, True, "a", 2.5]]

    assert aggregated(rows, aggregations=["min(v)", "max(v)"]) == [{"min_v": True, "max_v": "b"}]


def test_figures_that_no_float_holds_are_null_and_sums_stay_exact() -> None:
    """A float sum is rounded once; one that overflows is null."""
    rows = [{"big": 1e308, "small": 0.1} for _ in range(10)]

    assert aggregated(rows, aggregations=["sum(big)", "mean(big)", "variance(big)", "sum(small)"]) == [
        {"sum_big": None, "mean_big": None, "variance_big": 0.0, "sum_small": 1.0}
    ]


def test_large_floats_have_percentiles_and_no_deviation() -> None:
    """The difference of two of the largest does not overflow on the way; squares do, and give null."""
    ends = [{"v": -1.7e308}, {"v": 1.7e308}]
    assert aggregated(ends, aggregations=["p0(v)", "median(v)", "p100(v)", "std(v)", "variance(v)"]) == [
        {"p0_v": -1.7e308, "median_v": 0.0, "p100_v": 1.7e308, "std_v": None, "variance_v": None}
    ]
    assert [
        aggregated([{"v": size}, {"v": 3 * size}], aggregations=["std(v)"])[0]["std_v"] / size
        for size in (1e-100, 1.0, 1e100)
    ] == pytest.approx([math.sqrt(2)] * 3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"aggregations": {"t": "summ(amount)"}},
            "aggregations.t is 'summ'. Nearest: 'sum'. Give one of 'count', 'sum', 'mean', 'median', 'min', 'max', "
            "'std', 'variance', 'percentile', 'distinct', 'first', 'last'.",
        ),
        (
            {"aggregations": {"t": "sum(amout)"}},
            "No field 'amout' in the rows (aggregations.t). Nearest: 'amount'. "
            "Fields: 'region', 'amount', 'price', 'who'.",
        ),
        (
            {"aggregations": [{"function": "sum", "field": "who"}]},
            "aggregations[0]: 'sum' takes numbers, and row 0 has 'x' (text). "
            "Cast the field first, or filter such rows out.",
        ),
        (
            {"aggregations": [{"function": "sum"}]},
            "aggregations[0] lacks 'field', which 'sum' takes. Only 'count' works without one.",
        ),
        (
            {"aggregations": [{"function": "percentile", "field": "amount"}]},
            "aggregations[0].function takes 'percentile', a number from 0 to 100, and it is null.",
        ),
        (
            {"aggregations": [{"function": "percentile", "field": "amount", "percentile": 101}]},
            "aggregations[0].function takes 'percentile', a number from 0 to 100, and it is 101.",
        ),
        (
            {"aggregations": [{"function": "sum", "field": "amount", "percentile": 5}]},
            "aggregations[0].function is 'sum', which takes no 'percentile'. Leave it out.",
        ),
        (
            {"group_by": ["region"], "aggregations": {"region": "count"}},
            "aggregations makes 'region' twice. Give one of them another name with 'as'.",
        ),
        (
            {},
            "aggregations is empty. Say what to compute. Write [{'function': 'sum', 'field': 'amount', 'as': 'total'}] "
            "or {'total': 'sum(amount)'}.",
        ),
        (
            {"groupby": ["region"]},
            "No parameter 'groupby'. Nearest: 'group_by'. Known: 'join', 'compute', 'conditions', 'logic', 'group_by', "
            "'aggregations', 'having', 'sort', 'offset', 'limit'.",
        ),
        (
            {"aggregations": "count", "having": [{"field": "cuont", "value": 1}]},
            "No field 'cuont' in the rows (having[0].field). Nearest: 'count'. Fields: 'count'.",
        ),
    ],
)
def test_a_wrong_aggregation_is_named_with_what_was_expected(parameters: dict[str, Any], message: str) -> None:
    """Every message names the path, the value and the way on."""
    assert mistake(**parameters) == message


KEYS = st.sampled_from([None, "a", "b", "c"])
NUMBERS = st.one_of(st.none(), st.integers(-1000, 1000), st.floats(-1e6, 1e6, allow_nan=False))
ROWS = st.lists(st.fixed_dictionaries({"g": KEYS, "h": st.booleans(), "v": NUMBERS}), max_size=30)


@given(ROWS)
def test_figures_agree_with_plain_loops_and_the_statistics_module(rows: list[dict[str, Any]]) -> None:
    """Groups are made and counted a second time, by hand."""
    found = aggregated(
        rows,
        group_by=["g", "h"],
        aggregations=[
            "count",
            "count(v)",
            "sum(v)",
            "mean(v)",
            "median(v)",
            "std(v)",
            "min(v)",
            "max(v)",
            "distinct(v)",
        ],
    )

    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault((row["g"], row["h"]), []).append(row["v"])
    assert [(row["g"], row["h"]) for row in found] == list(groups)
    for row, values in zip(found, groups.values(), strict=True):
        present = [value for value in values if value is not None]
        assert row["count"] == len(values)
        assert row["count_v"] == len(present)
        assert row["sum_v"] == pytest.approx(math.fsum(present))
        assert row["mean_v"] == (pytest.approx(statistics.fmean(present)) if present else None)
        assert row["median_v"] == (pytest.approx(statistics.median(present)) if present else None)
        assert row["std_v"] == (pytest.approx(statistics.stdev(present), abs=1e-9) if len(present) > 1 else None)
        assert row["min_v"] == min(present, default=None)
        assert row["max_v"] == max(present, default=None)
        assert row["distinct_v"] == len(set(present))


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=30), st.integers(0, 100))
def test_percentiles_agree_with_pandas(values: list[float], rank: int) -> None:
    """Linear interpolation, as most tools have it."""
    [row] = aggregated([{"v": value} for value in values], aggregations={"p": f"percentile(v, {rank})"})

    assert row["p"] == pytest.approx(float(pd.Series(values).quantile(rank / 100)), rel=1e-9, abs=1e-9)
