"""Filter: which rows a condition keeps, in which order, and what is said about a request that cannot be meant so."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run

STOCKS = [
    {"symbol": "AAA", "price": 10, "sector": {"name": "tech", "rank": 1}, "tags": ["x", "y"], "live": True},
    {"symbol": "BBB", "price": 20.5, "sector": {"name": "food", "rank": 2}, "tags": [], "live": False},
    {"symbol": "CCC", "price": None, "sector": {"name": "tech"}, "tags": ["y", 1]},
    {"symbol": "DÄD", "price": "20", "sector": None, "live": True},
]


def never(tool: str, arguments: dict[str, Any]) -> Any:
    """Stands where a tool could be called, in tests that call none."""
    raise AssertionError(tool)


def filtered(rows: list[dict[str, Any]], **parameters: Any) -> list[dict[str, Any]]:
    """The rows of a filter."""
    answer = run({"analysis_type": "filter", "data": rows, "parameters": parameters}, never)
    found: list[dict[str, Any]] = answer["rows"]
    return found


def symbols(*conditions: Any, **parameters: Any) -> list[str]:
    """Which of the stocks meet the conditions."""
    return [row["symbol"] for row in filtered(STOCKS, conditions=list(conditions), **parameters)]


def mistake(**parameters: Any) -> str:
    """What is said about the parameters of a filter of the stocks."""
    with pytest.raises(AnalysisError) as caught:
        run({"analysis_type": "filter", "data": STOCKS, "parameters": parameters}, never)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "name", "value", "expected"),
    [
        ("price", "==", 10, ["AAA"]),
        ("price", "==", 10.0, ["AAA"]),
        ("price", "==", "20", ["DÄD"]),
        ("price", "==", None, ["CCC"]),
        ("price", "!=", 10, ["BBB", "CCC", "DÄD"]),
        ("price", "!=", None, ["AAA", "BBB", "DÄD"]),
        ("price", ">", 10, ["BBB"]),
        ("price", ">=", 10, ["AAA", "BBB"]),
        ("price", "<", 100, ["AAA", "BBB"]),
        ("price", "<=", 10, ["AAA"]),
        ("price", "<", "3", ["DÄD"]),
        ("price", "between", [10, 20.5], ["AAA", "BBB"]),
        ("price", "in", [10, "20", None], ["AAA", "CCC", "DÄD"]),
        ("price", "in", [], []),
        ("price", "not_in", [10, "20"], ["BBB", "CCC"]),
        ("price", "is_null", True, ["CCC"]),
        ("price", "is_null", False, ["AAA", "BBB", "DÄD"]),
        ("live", "==", True, ["AAA", "DÄD"]),
        ("live", "==", 1, []),
        ("live", "in", [1, 0], []),
        ("live", "in", [True], ["AAA", "DÄD"]),
        ("live", "is_null", None, ["CCC"]),
        ("live", "<", True, ["BBB"]),
        ("symbol", "contains", "A", ["AAA"]),
        ("symbol", "contains", "Ä", ["DÄD"]),
        ("symbol", "not_contains", "A", ["BBB", "CCC", "DÄD"]),
        ("tags", "contains", "y", ["AAA", "CCC"]),
        ("tags", "contains", 1, ["CCC"]),
        ("tags", "contains", True, []),
        ("symbol", "starts_with", "B", ["BBB"]),
        ("symbol", "ends_with", "D", ["DÄD"]),
        ("price", "starts_with", "2", ["DÄD"]),
        ("symbol", "matches", "^[A-B]+$", ["AAA", "BBB"]),
        ("price", "matches", "0", ["DÄD"]),
        ("sector.name", "==", "tech", ["AAA", "CCC"]),
        ("sector.rank", ">", 1, ["BBB"]),
        ("sector.rank", "is_null", None, ["CCC", "DÄD"]),
    ],
)
def test_an_operator_keeps_the_rows_that_the_rules_say(field: str, name: str, value: Any, expected: list[str]) -> None:
    """Kinds never mix, null equals null only, and what is missing is null."""
    assert symbols({"field": field, "operator": name, "value": value}) == expected


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [("=", ["AAA"]), ("eq", ["AAA"]), ("EQ", ["AAA"]), ("<>", ["BBB", "CCC", "DÄD"]), ("gte", ["AAA", "BBB"])],
)
def test_other_spellings_of_an_operator_are_understood(spelling: str, expected: list[str]) -> None:
    """What other tools call it means the same."""
    assert symbols({"field": "price", "operator": spelling, "value": 10}) == expected


def test_an_absent_operator_is_equality() -> None:
    """`{"field", "value"}` asks for that value."""
    assert symbols({"field": "price", "value": 10}) == ["AAA"]


def test_conditions_nest_with_and_or_and_not() -> None:
    """A group has its own logic, and `not` is the exact opposite of what it holds."""
    group = {
        "logic": "or",
        "conditions": [{"field": "price", "operator": ">", "value": 15}, {"field": "symbol", "value": "AAA"}],
    }

    assert symbols(group, {"not": {"field": "live", "value": True}}) == ["BBB"]
    assert symbols({"not": group}) == ["CCC", "DÄD"]
    assert symbols({"not": [group, {"field": "live", "value": True}]}) == ["BBB", "CCC", "DÄD"]


def test_the_logic_of_the_outermost_list_may_be_or() -> None:
    """`logic` stands beside `conditions`."""
    conditions = [{"field": "symbol", "value": "AAA"}, {"field": "symbol", "value": "BBB"}]

    assert symbols(*conditions, logic="OR") == ["AAA", "BBB"]
    assert symbols(*conditions, logic="AND") == []


def test_a_condition_may_be_an_expression_over_several_fields() -> None:
    """A comparison of two fields has no other form."""
    rows = [{"low": 1, "high": 2}, {"low": 3, "high": 2}]

    assert filtered(rows, conditions=[{"expression": "low < high"}]) == [{"low": 1, "high": 2}]
    assert filtered(rows, conditions="low > high") == [{"low": 3, "high": 2}]


def test_a_field_with_a_dot_in_its_name_wins_over_a_path() -> None:
    """If any row has the very name, it is that field in every row."""
    rows = [{"a": {"b": 1}}, {"a.b": 1}]

    assert filtered(rows, conditions=[{"field": "a.b", "value": 1}]) == [{"a.b": 1}]


def test_sort_is_stable_puts_nulls_last_and_orders_kinds() -> None:
    """Booleans, numbers, texts, then the rest; nulls last in both directions."""
    rows = [{"v": v, "n": n} for n, v in enumerate(["b", None, 2, True, [1], 1.5, "a", False, {"k": 1}, 2.0])]

    assert [row["n"] for row in filtered(rows, sort="v")] == [7, 3, 5, 2, 9, 6, 0, 4, 8, 1]
    assert [row["n"] for row in filtered(rows, sort="-v")] == [8, 4, 0, 6, 2, 9, 5, 3, 7, 1]


def test_sort_by_several_fields_with_offset_limit_and_fields() -> None:
    """The answer is the page that was asked for, with the fields that were asked for."""
    rows = [{"a": i % 2, "b": -i, "c": {"d": i}} for i in range(6)]

    answer = run(
        {
            "analysis_type": "filter",
            "data": rows,
            "parameters": {
                "sort": [{"field": "a", "order": "desc"}, "b"],
                "offset": 1,
                "limit": 3,
                "fields": ["b", "c.d"],
            },
        },
        never,
    )

    assert answer == {
        "rows_in": 6,
        "rows_out": 3,
        "rows": [{"b": -3, "c.d": 3}, {"b": -1, "c.d": 1}, {"b": -4, "c.d": 4}],
        "engine": "python",
    }


def test_a_field_that_only_dropped_rows_have_is_known() -> None:
    """Whether a name is right does not depend on which rows are left."""
    rows: list[dict[str, Any]] = [{"a": 1, "rare": "x"}, {"a": 2}]

    assert filtered(rows, conditions=[{"field": "a", "value": 2}], fields=["a", "rare"]) == [{"a": 2, "rare": None}]
    assert filtered(rows, conditions=[{"field": "a", "value": 3}], sort="rare") == []


def test_an_empty_answer_says_when_kinds_never_met() -> None:
    """Text and numbers are never equal; an agent that mixed them up is told."""
    answer = run(
        {
            "analysis_type": "filter",
            "data": [{"id": "7"}, {"id": None}],
            "parameters": {"conditions": [{"field": "id", "operator": "==", "value": 7}]},
        },
        never,
    )

    assert answer["notes"] == [
        "conditions[0].field: 'id' is text in every row and 7 is a number, so '==' holds for none. Cast one of them."
    ]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"conditions": [{"field": "pirce", "operator": ">", "value": 1}]},
            "No field 'pirce' in the rows (conditions[0].field). Nearest: 'price'. "
            "Fields: 'symbol', 'price', 'sector', 'tags', 'live'.",
        ),
        (
            {"conditions": [{"field": "sector.nam", "value": 1}]},
            "No field 'sector.nam' in the rows (conditions[0].field). Nearest: 'sector.name'. "
            "Fields: 'sector.name', 'sector.rank', 'symbol', 'price', 'sector', 'tags', 'live'.",
        ),
        (
            {"conditions": [{"field": "price", "value": 1}, {"field": "price", "operator": "contain", "value": 1}]},
            "conditions[1].operator is 'contain'. Nearest: 'contains'. Give one of '==', '!=', '>', '<', '>=', '<=', "
            "'in', 'not_in', 'contains', 'not_contains', 'starts_with', 'ends_with', 'matches', 'is_null', "
            "'is_not_null', 'between'.",
        ),
        (
            {"condition": []},
            "No parameter 'condition'. Nearest: 'conditions'. Known: 'join', 'compute', 'conditions', 'logic', "
            "'fields', 'output_fields', 'distinct', 'sort', 'offset', 'limit'.",
        ),
        (
            {"conditions": [{"field": "price", "op": ">"}]},
            "No parameter 'op' in conditions[0]. Nearest: 'operator'. Known: 'field', 'operator', 'value', 'logic', "
            "'conditions', 'not', 'expression'. A condition is {'field', 'operator', 'value'}, {'logic': 'AND' or "
            "'OR', 'conditions': [...]}, {'not': {...}} or {'expression': text}.",
        ),
        (
            {"conditions": [{"field": "price", "operator": ">"}]},
            "conditions[0] lacks 'value', which '>' compares with. Give it, or use 'is_null'.",
        ),
        (
            {"conditions": [{"field": "price", "operator": "==", "value": [1, 2]}]},
            "conditions[0].value is a list, and '==' takes one plain value. Use 'in' for several.",
        ),
        (
            {"conditions": [{"field": "price", "operator": "in", "value": 1}]},
            "conditions[0].value is 1. Give a list.",
        ),
        (
            {"conditions": [{"field": "price", "operator": "between", "value": [1]}]},
            "conditions[0].value has 1 values. 'between' takes two: the least and the greatest.",
        ),
        (
            {"conditions": [{"field": "symbol", "operator": "starts_with", "value": 1}]},
            "conditions[0].value is 1. 'starts_with' takes a text.",
        ),
        (
            {"conditions": [], "logic": "XOR"},
            "logic is 'XOR'. Nearest: 'or'. Give one of 'AND', 'OR'.",
        ),
        ({"limit": -1}, "limit is -1. Give a whole number from 0."),
        ({"limit": True}, "limit is true. Give a whole number from 0."),
        ({"offset": "3"}, "offset is '3'. Give a whole number from 0."),
        (
            {"sort": [{"field": "pric"}]},
            "No field 'pric' in the rows (sort[0].field). Nearest: 'price'. "
            "Fields: 'symbol', 'price', 'sector', 'tags', 'live'.",
        ),
        (
            {"sort": [{"field": "price", "descending": True, "order": "asc"}]},
            "sort[0] has 'descending', 'order', of which only one is possible. Give one of them.",
        ),
        (
            {"fields": ["symbol", "symbol"]},
            "fields names 'symbol' twice. Name each field once.",
        ),
        (
            {"conditions": "symbol"},
            "conditions: A test needs a boolean, not 'AAA' (text), in row 0. Cast the field or test for it first.",
        ),
    ],
)
def test_a_wrong_parameter_is_named_with_what_was_expected(parameters: dict[str, Any], message: str) -> None:
    """Every message names the path, the value and the way on."""
    assert mistake(**parameters) == message


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-1.5, 0.0, 2.0, 2.5]),
    st.sampled_from(["", "a", "2"]),
)
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind(value: Any) -> str:
    """The kind of a value, in this file's own words."""
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "text" if isinstance(value, str) else "number"


def expected_truth(sign: str, left: Any, right: Any) -> bool:
    """The rule of comparison, written a second time."""
    if kind(left) != kind(right) or (left is None and sign in "<=>="):
        return left is right is None and sign == "==" if sign != "!=" else True
    return SIGNS[sign](left, right)


@given(st.lists(VALUES, max_size=8), st.sampled_from(sorted(SIGNS)), VALUES)
def test_every_comparison_agrees_with_its_rule(values: list[Any], sign: str, value: Any) -> None:
    """Columns of one kind take a fast way, mixed ones a careful one; both are the rule."""
    rows = [{"n": number, "v": each} for number, each in enumerate(values)]

    found = filtered(rows, conditions=[{"field": "v", "operator": sign, "value": value}])
    opposite = filtered(rows, conditions=[{"not": {"field": "v", "operator": sign, "value": value}}])

    assert found == [row for row in rows if expected_truth(sign, row["v"], value)]
    assert opposite == [row for row in rows if not expected_truth(sign, row["v"], value)]


@given(st.lists(st.tuples(VALUES, VALUES), max_size=8), st.sampled_from(sorted(SIGNS)))
def test_every_comparison_of_two_fields_agrees_with_its_rule(pairs: list[tuple[Any, Any]], sign: str) -> None:
    """An expression compares as a condition does."""
    rows = [{"n": number, "a": left, "b": right} for number, (left, right) in enumerate(pairs)]

    found = filtered(rows, conditions=f"a {sign} b")

    assert found == [row for row in rows if expected_truth(sign, row["a"], row["b"])]


def test_distinct_rows_are_those_that_the_answer_shows() -> None:
    """Equal in the selected fields, sorted by any field and then limited; by named fields before the selection."""
    data = [{"a": 1, "b": 3}, {"a": 2, "b": 2}, {"a": 1, "b": 1}, {"a": 3, "b": 0}]

    def ask(**parameters: Any) -> list[dict[str, Any]]:
        return run({"analysis_type": "filter", "data": data, "parameters": parameters}, never)["rows"]

    assert ask(distinct=True, fields=["a"]) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert ask(distinct=True, fields=["a"], sort="b", limit=2) == [{"a": 3}, {"a": 1}]
    assert ask(distinct=["a"], fields=["b"], sort="b") == [{"b": 0}, {"b": 2}, {"b": 3}]
    assert ask(distinct=True, sort="a") == [data[0], data[2], data[1], data[3]]
