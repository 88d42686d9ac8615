"""Transform: each step on small rows, joins and pivots against pandas, and what is said about steps that are wrong."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run

ORDERS = [
    {"id": 1, "customer": "a", "price": 2.5, "quantity": 2, "to": {"city": "X", "geo": {"lat": 1}}},
    {"id": 2, "customer": "b", "price": 1.0, "quantity": None, "to": None},
    {"id": 3, "customer": "a", "price": 4.0, "quantity": 1, "to": {"city": "Y"}},
]


def never(tool: str, arguments: dict[str, Any]) -> Any:
    """Stands where a tool could be called, in tests that call none."""
    raise AssertionError(tool)


def transformed(rows: list[dict[str, Any]], *steps: Any, **parameters: Any) -> list[dict[str, Any]]:
    """The rows after some steps, or after parameters that stand beside each other."""
    parameters = {"steps": list(steps)} if steps else parameters
    request = {"analysis_type": "transform", "data": rows, "parameters": parameters, "limits": {"rows": 10_000}}
    found: list[dict[str, Any]] = run(request, never)["rows"]
    return found


def mistake(rows: list[dict[str, Any]], *steps: Any, **parameters: Any) -> str:
    """What is said about a transformation."""
    with pytest.raises(AnalysisError) as caught:
        transformed(rows, *steps, **parameters)
    return str(caught.value)


def test_select_gives_exactly_the_fields_asked_for() -> None:
    """A path is read under its own name, or under the one that `as` or an object gives it."""
    assert transformed(ORDERS[:2], {"select": ["id", "to.city"]}) == [
        {"id": 1, "to.city": "X"},
        {"id": 2, "to.city": None},
    ]
    assert transformed(ORDERS[:1], {"select": ["id", {"field": "to.geo.lat", "as": "lat"}]}) == [{"id": 1, "lat": 1}]
    assert transformed(ORDERS[:1], {"select": {"number": "id", "city": "to.city"}}) == [{"number": 1, "city": "X"}]


def test_drop_and_rename_change_names_and_nothing_else() -> None:
    """A renamed field keeps its place, and two fields may change places."""
    rows = [{"a": 1, "b": 2, "c": 3}, {"a": 4, "c": 5}]

    assert transformed(rows, {"drop": "b"}) == [{"a": 1, "c": 3}, {"a": 4, "c": 5}]
    assert [list(row) for row in transformed(rows, {"rename": {"a": "z"}})] == [["z", "b", "c"], ["z", "c"]]
    assert transformed(rows, {"rename": {"a": "b", "b": "a"}}) == [{"b": 1, "a": 2, "c": 3}, {"b": 4, "c": 5}]
    assert rows == [{"a": 1, "b": 2, "c": 3}, {"a": 4, "c": 5}]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("int", ["12", " -3 ", 2.9, -2.9, True, None, 7], [12, -3, 2, -2, 1, None, 7]),
        ("float", ["1.5", "1e3", 2, False, None, "1e999"], [1.5, 1000.0, 2.0, 0.0, None, None]),
        ("str", [1, 2.5, True, None, "x", [1, "a"]], ["1", "2.5", "true", None, "x", '[1,"a"]']),
        ("bool", ["true", "No", 1, 0, "1", True, None], [True, False, True, False, True, True, None]),
        ("date", ["2025-03-31", "2024-02-29T23:00:00Z", None], ["2025-03-31", "2024-02-29", None]),
        ("datetime", ["2025-03-31", "2025-03-31 14:05"], ["2025-03-31T00:00:00", "2025-03-31T14:05:00"]),
    ],
)
def test_cast_gives_values_the_type_that_was_asked_for(kind: str, values: list[Any], expected: list[Any]) -> None:
    """Null stays null; a number without a finite float is null."""
    found = transformed([{"v": value} for value in values], {"cast": {"v": kind}})

    assert [row["v"] for row in found] == expected
    assert [type(row["v"]) for row in found] == [type(value) for value in expected]


def test_a_value_that_cannot_be_cast_is_an_error_or_null_as_asked() -> None:
    """The message has the first row and how many there are."""
    rows = [{"v": "1"}, {"v": "n/a"}, {"v": "x"}]

    assert mistake(rows, {"cast": {"v": "float"}}) == (
        "steps[0].cast.v: 'n/a' (text) is not a number, in row 1 and 1 more. "
        "Clean the values first, or give {'to': 'float', 'invalid': 'null'}."
    )
    assert transformed(rows, {"cast": {"v": {"to": "float", "invalid": "null"}}}) == [
        {"v": 1.0},
        {"v": None},
        {"v": None},
    ]


def test_compute_sees_the_fields_computed_before() -> None:
    """A new field comes last, an old one keeps its place, a constant is a constant, and null spreads."""
    found = transformed(
        ORDERS,
        {"compute": {"total": "price * quantity", "price": "round(total)", "kind": "'order'", "one": 1}},
        {"drop": ["to", "customer"]},
    )

    assert found == [
        {"id": 1, "price": 5, "quantity": 2, "total": 5.0, "kind": "order", "one": 1},
        {"id": 2, "price": None, "quantity": None, "total": None, "kind": "order", "one": 1},
        {"id": 3, "price": 4, "quantity": 1, "total": 4.0, "kind": "order", "one": 1},
    ]
    assert list(found[0]) == ["id", "price", "quantity", "total", "kind", "one"]


def test_a_computed_field_is_known_even_when_no_row_is_left() -> None:
    """A plan that is right stays right on an empty set."""
    steps = [{"filter": [{"field": "id", "value": 9}]}, {"compute": {"t": "price"}}, {"sort": "t"}]

    assert transformed(ORDERS, *steps) == []


def test_flatten_reaches_every_depth() -> None:
    """Objects become fields, lists stay, a null in the place of the object is dropped."""
    assert transformed(ORDERS, {"flatten": "to"}, {"drop": ["customer", "price", "quantity"]}) == [
        {"id": 1, "to.city": "X", "to.geo.lat": 1},
        {"id": 2},
        {"id": 3, "to.city": "Y"},
    ]
    nested = [{"a": {"b": {"c": [1]}}, "d": {"e": 2}, "f": None}]
    assert transformed(nested, {"flatten": {"field": "a", "separator": "_"}}) == [
        {"a_b_c": [1], "d": {"e": 2}, "f": None}
    ]
    assert transformed(nested, {"flatten": True}) == [{"a.b.c": [1], "d.e": 2, "f": None}]
    assert mistake([{"a": {"b": 1}, "a.b": 2}], {"flatten": "a"}) == (
        "steps[0].flatten makes 'a.b' twice in row 0. Give another 'separator'."
    )


def test_explode_makes_a_row_for_each_element() -> None:
    """An empty list is one row with null, what is no list stays as it is."""
    rows = [{"n": 1, "v": [1, {"a": 2}]}, {"n": 2, "v": []}, {"n": 3, "v": "x"}, {"n": 4}]

    assert transformed(rows, {"explode": "v"}) == [
        {"n": 1, "v": 1},
        {"n": 1, "v": {"a": 2}},
        {"n": 2, "v": None},
        {"n": 3, "v": "x"},
        {"n": 4},
    ]


def test_unpivot_makes_a_row_for_each_field() -> None:
    """All fields but the index, unless they are named."""
    rows = [{"k": "a", "q1": 1, "q2": 2}, {"k": "b", "q2": 3}]

    assert transformed(rows, {"unpivot": {"index": "k", "name": "quarter", "value": "sales"}}) == [
        {"k": "a", "quarter": "q1", "sales": 1},
        {"k": "a", "quarter": "q2", "sales": 2},
        {"k": "b", "quarter": "q1", "sales": None},
        {"k": "b", "quarter": "q2", "sales": 3},
    ]
    assert transformed(rows[:1], {"unpivot": {"index": ["k"], "fields": ["q2"]}}) == [
        {"k": "a", "name": "q2", "value": 2}
    ]


def test_distinct_keeps_the_first_row_of_each() -> None:
    """By all fields, or by those that are named; kinds are kept apart."""
    rows = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1.0, "b": 1}, {"a": True, "b": 1}, {"a": 1, "b": 1}]

    assert transformed(rows, {"distinct": True}) == [rows[0], rows[1], rows[3]]
    assert transformed(rows, {"distinct": "a"}) == [rows[0], rows[3]]


def test_pivot_spreads_a_field_over_columns_in_the_order_of_its_values() -> None:
    """Cells without rows are null, or 0 for counts; a null makes the column `null`."""
    rows = [
        {"k": k, "c": c, "v": v} for k, c, v in [("a", 10, 1), ("b", 9, 2), ("a", 9, 3), ("a", 9, 4), ("b", None, 5)]
    ]

    assert transformed(rows, {"pivot": {"index": "k", "columns": "c", "values": "v", "function": "sum"}}) == [
        {"k": "a", "9": 7, "10": 1, "null": None},
        {"k": "b", "9": 2, "10": None, "null": 5},
    ]
    assert transformed(rows, {"pivot": {"index": ["k"], "columns": "c"}}) == [
        {"k": "a", "9": 2, "10": 1, "null": 0},
        {"k": "b", "9": 1, "10": 0, "null": 1},
    ]
    assert mistake(rows, {"pivot": {"index": "k", "columns": "c", "values": "v"}}) == (
        "steps[0].pivot: the cell of k 'a', c 9 has 2 values. Give 'function', like 'sum'."
    )
    assert mistake([{"k": 1, "c": 1}, {"k": 1, "c": "1"}], {"pivot": {"index": "k", "columns": "c"}}) == (
        "steps[0].pivot makes the columns '1' twice. Rename the index or cast the field."
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [(1, "a", "A", 5), (1, "a", "AA", 6), (3, "a", "A", 5), (3, "a", "AA", 6)]),
        ("left", [(1, "a", "A", 5), (1, "a", "AA", 6), (2, "b", None, None), (3, "a", "A", 5), (3, "a", "AA", 6)]),
        ("right", [(1, "a", "A", 5), (1, "a", "AA", 6), (3, "a", "A", 5), (3, "a", "AA", 6), (None, "z", "Z", 7)]),
        (
            "outer",
            [
                (1, "a", "A", 5),
                (1, "a", "AA", 6),
                (2, "b", None, None),
                (3, "a", "A", 5),
                (3, "a", "AA", 6),
                (None, "z", "Z", 7),
            ],
        ),
    ],
)
def test_a_join_puts_matching_rows_side_by_side(how: str, expected: list[tuple[Any, ...]]) -> None:
    """Left order, then right order; a name on both sides gets a suffix; the key appears once."""
    customers = [
        {"customer": "a", "name": "A", "id": 5},
        {"customer": "a", "name": "AA", "id": 6},
        {"customer": "z", "name": "Z", "id": 7},
    ]
    left = [{"id": row["id"], "customer": row["customer"]} for row in ORDERS]

    found = transformed(left, {"join": {"data": customers, "on": "customer", "how": how}})

    assert [tuple(row.values()) for row in found] == expected
    assert {tuple(row) for row in found} == {("id", "customer", "name", "id_right")}


def test_a_join_by_fields_of_other_names_keeps_both_and_null_matches_nothing() -> None:
    """`on` as an object, or `left_on` and `right_on`; paths reach into objects."""
    left: list[dict[str, Any]] = [{"c": {"id": 1}}, {"c": {"id": None}}]
    right = [{"key": 1, "n": "x"}, {"key": None, "n": "y"}]

    expected = [{"c": {"id": 1}, "key": 1, "n": "x"}]
    assert transformed(left, {"join": {"data": right, "on": {"c.id": "key"}}}) == expected
    assert transformed(left, {"join": {"data": right, "left_on": "c.id", "right_on": "key"}}) == expected


def test_parameters_beside_each_other_are_carried_out_in_one_fixed_order() -> None:
    """Conditions, then what makes fields, then select by the old names, then rename, sort and limit by the new ones."""
    assert transformed(
        ORDERS,
        limit=1,
        sort="-worth",
        rename={"total": "worth"},
        output_fields=["id", "total"],
        compute={"total": "price * coalesce(quantity, 0)"},
        conditions=[{"field": "id", "operator": "!=", "value": 1}],
    ) == [{"id": 3, "worth": 4.0}]


def test_a_transformation_without_steps_gives_the_rows() -> None:
    """Nothing asked for, nothing changed."""
    assert transformed(ORDERS) == ORDERS


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            {"slect": ["id"]},
            "No step 'slect' (steps[0]). Nearest: 'select'. Steps: 'filter', 'flatten', 'explode', 'join', 'cast', "
            "'compute', 'aggregate', 'pivot', 'unpivot', 'select', 'drop', 'rename', 'distinct', 'sort', 'offset', "
            "'limit'.",
        ),
        (
            {"select": ["id"], "drop": ["id"]},
            'steps[0] is {"select": ["id"], "drop": ["id"]}. A step is an object of one key, '
            "like {\"compute\": {\"total\": \"price * count\"}}: 'filter', 'flatten', 'explode', "
            "'join', 'cast', 'compute', 'aggregate', 'pivot', 'unpivot', 'select', 'drop', 'rename', 'distinct', "
            "'sort', 'offset', 'limit'.",
        ),
        (
            {"drop": ["ids"]},
            "No field 'ids' in the rows (steps[0].drop[0]). Nearest: 'id'. "
            "Fields: 'id', 'customer', 'price', 'quantity', 'to'.",
        ),
        (
            {"rename": {"id": "price"}},
            "steps[0].rename.id is 'price', which the rows already have. Choose another, or drop that.",
        ),
        ({"rename": ["id"]}, "steps[0].rename is [\"id\"]. Give an object such as {'old': 'new'}."),
        (
            {"cast": {"id": "integr"}},
            "steps[0].cast.id is 'integr'. Nearest: 'integer'. "
            "Give one of 'int', 'float', 'str', 'bool', 'date', 'datetime'.",
        ),
        (
            {"compute": {"t": "prce * 2"}},
            "No field 'prce' in the rows (steps[0].compute.t). Nearest: 'price'. "
            "Fields: 'id', 'customer', 'price', 'quantity', 'to'.",
        ),
        (
            {"compute": {"t": "customer * 2"}},
            "steps[0].compute.t: '*' needs numbers, not 'a' (text), in row 0. Cast the field or test for it first.",
        ),
        (
            {"join": {"on": "id"}},
            "steps[0].join lacks 'data' and 'source'. Give rows as 'data', or 'source' = "
            "{'workspace': 'data/rows.csv'} or {'tool': 'server.tool', 'arguments': {...}}.",
        ),
        (
            {"join": {"data": [{"id": 1}], "on": "id", "how": "cross"}},
            "steps[0].join.how is 'cross'. Give one of 'inner', 'left', 'right', 'outer'.",
        ),
        (
            {"join": {"data": [{"ident": 1}], "on": "id"}},
            "No field 'id' in the rows (steps[0].join.on). Nearest: 'ident'. Fields: 'ident'.",
        ),
        (
            {"join": {"data": [{"id": 1, "price": 1, "price_right": 2}], "on": "id"}},
            "steps[0].join: 'price_right' would stand for two fields. Give another 'suffix'.",
        ),
        (
            {"pivot": {"index": "id", "columns": "customer", "function": "sum"}},
            "steps[0].pivot lacks 'values', the field that 'sum' takes. Give it, or use 'count'.",
        ),
        (
            {"unpivot": {"index": ["id"], "name": "id"}},
            "steps[0].unpivot makes 'id' twice. Set 'name' and 'value' to other names.",
        ),
    ],
)
def test_a_wrong_step_is_named_with_what_was_expected(step: dict[str, Any], message: str) -> None:
    """Every message names the step by its place."""
    assert mistake(ORDERS, step) == message


def test_steps_do_not_mix_with_parameters_beside_them() -> None:
    """Whether they came before or after would be a guess."""
    with pytest.raises(AnalysisError) as caught:
        run({"analysis_type": "transform", "data": ORDERS, "parameters": {"steps": [], "limit": 1}}, never)

    assert str(caught.value) == "'steps' and 'limit' are both given. Make steps of them."


def test_a_pivot_of_too_many_columns_is_refused() -> None:
    """A field of identifiers is no field to pivot by."""
    rows = [{"k": 1, "c": number} for number in range(1001)]

    assert mistake(rows, {"pivot": {"index": "k", "columns": "c"}}) == (
        "steps[0].pivot.columns: 'c' has 1001 values, and a pivot has at most 1000 columns. "
        "Choose a field with fewer, or group by it."
    )


def without_nan(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame, with null for pandas' ways to say nothing."""
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict(orient="records")
    ]


LEFT = st.lists(st.fixed_dictionaries({"k": st.integers(0, 4), "a": st.integers(0, 99)}), min_size=1, max_size=12)
RIGHT = st.lists(st.fixed_dictionaries({"k": st.integers(0, 6), "b": st.integers(0, 99)}), min_size=1, max_size=12)


@given(LEFT, RIGHT, st.sampled_from(["inner", "left", "right", "outer"]))
def test_joins_agree_with_pandas(left: list[dict[str, Any]], right: list[dict[str, Any]], how: Any) -> None:
    """Rows are compared as sets with counts: pandas orders right and outer joins in its own way."""
    found = transformed(left, {"join": {"data": right, "on": "k", "how": how}})
    expected = without_nan(pd.DataFrame(left).merge(pd.DataFrame(right), on="k", how=how))

    assert Counter((row["k"], row["a"], row["b"]) for row in found) == Counter(
        (row["k"], row["a"], row["b"]) for row in expected
    )


@given(
    st.lists(
        st.fixed_dictionaries({"k": st.sampled_from("abc"), "c": st.sampled_from("xyz"), "v": st.integers(-50, 50)}),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(["sum", "mean", "max", "median"]),
)
def test_pivots_agree_with_pandas(rows: list[dict[str, Any]], function: Any) -> None:
    """Each cell is the aggregate of its rows."""
    found = transformed(
        rows, {"pivot": {"index": "k", "columns": "c", "values": "v", "function": function}}, {"sort": "k"}
    )
    frame = pd.DataFrame(rows).pivot_table(index="k", columns="c", values="v", aggfunc=function).reset_index()

    assert found == [pytest.approx(row) for row in without_nan(frame)]
