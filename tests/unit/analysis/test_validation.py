"""Validation: which rows break which rule, how often, and what a rule may say."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run
from sealyard.analysis.guest.limits import MAX_RULES
from sealyard.analysis.guest.validation import run_validation

EXPENSES = [
    {"id": 1, "amount": 10.5, "from": "2025-01-01", "to": "2025-01-03", "tags": ["a"], "who": {"mail": "a@b.org"}},
    {"id": 2, "amount": -3, "from": "2025-01-05", "to": "2025-01-04", "tags": [], "who": {"mail": "nobody"}},
    {"id": 2, "amount": None, "from": "2025-01-05", "to": None, "who": {}},
    {"id": 4, "from": "yesterday", "to": "2025-01-04", "tags": "a", "who": None},
]


def _broken(rule: dict[str, Any], rows: list[dict[str, Any]] = EXPENSES) -> dict[str, list[int]]:
    """The rows that break each part of one rule."""
    return {found["rule"]: found["rows"] for found in run_validation({"rules": [rule]}, rows)["violations"]}


def test_a_report_counts_rows_and_shows_samples() -> None:
    """Violations are in the order of the rules, with row numbers from 0 and what was found."""
    rules = [
        {"field": "amount", "type": "number", "required": True, "min": 0, "message": "Amounts are positive."},
        {"field": "id", "unique": True},
        {"check": "from <= to"},
        {"field": "who.mail", "pattern": "@"},
    ]
    assert run_validation({"rules": rules, "samples": 1}, EXPENSES) == {
        "rows_in": 4,
        "valid_rows": 1,
        "invalid_rows": 3,
        "violations": [
            {
                "rule": "required",
                "field": "amount",
                "expected": True,
                "message": "Amounts are positive.",
                "count": 2,
                "rows": [2, 3],
                "samples": [{"row": 2, "value": None}],
            },
            {
                "rule": "min",
                "field": "amount",
                "expected": 0,
                "message": "Amounts are positive.",
                "count": 1,
                "rows": [1],
                "samples": [{"row": 1, "value": -3}],
            },
            {
                "rule": "unique",
                "field": "id",
                "count": 1,
                "rows": [2],
                "samples": [{"row": 2, "value": 2, "first_row": 1}],
            },
            {
                "rule": "check",
                "expected": "from <= to",
                "count": 3,
                "rows": [1, 2, 3],
                "samples": [{"row": 1, "values": {"from": "2025-01-05", "to": "2025-01-04"}}],
            },
            {
                "rule": "pattern",
                "field": "who.mail",
                "expected": "@",
                "count": 1,
                "rows": [1],
                "samples": [{"row": 1, "value": "nobody"}],
            },
        ],
    }


def test_rules_may_be_given_by_the_names_of_fields() -> None:
    """As an object of objects, or of the names of types."""
    answer = run_validation({"rules": {"id": "int", "tags": {"type": "array", "required": True}}}, EXPENSES)
    assert [(found["rule"], found["field"], found["rows"]) for found in answer["violations"]] == [
        ("required", "tags", [2]),
        ("type", "tags", [3]),
    ]


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ({"field": "amount", "required": True}, {"required": [2, 3]}),
        ({"field": "amount", "required": True, "nullable": True}, {"required": [3]}),
        ({"field": "amount", "required": True, "nullable": False}, {"required": [3], "nullable": [2]}),
        ({"field": "amount", "nullable": False}, {"nullable": [2]}),
        ({"field": "amount", "type": "integer"}, {"type": [0]}),
        ({"field": "from", "type": "date"}, {"type": [3]}),
        ({"field": "from", "min": "2025-01-02"}, {"min": [0, 3]}),
        ({"field": "from", "max": "2025-01-04T12:00:00Z"}, {"max": [1, 2, 3]}),
        ({"field": "from", "max": "a"}, {"max": [3]}),
        ({"field": "from", "min": 0}, {"min": [0, 1, 2, 3]}),
        ({"field": "tags", "min_length": 1}, {"min_length": [1]}),
        ({"field": "tags", "max_length": 0}, {"max_length": [0, 3]}),
        ({"field": "id", "max_length": 3}, {"max_length": [0, 1, 2, 3]}),
        ({"field": "id", "enum": [1, 2.0, "4", True]}, {"enum": [3]}),
        ({"field": "tags", "enum": [["a"], "a"]}, {"enum": [1]}),
        ({"field": "id", "pattern": "1"}, {"pattern": [0, 1, 2, 3]}),
        ({"fields": ["id", "from"], "unique": True}, {"unique": [2]}),
        ({"fields": ["from", "to"], "unique": True}, {}),
        ({"field": "who.mail", "required": True}, {"required": [2, 3]}),
        ({"check": "to is null or from <= to"}, {"check": [1, 3]}),
        ({"check": "amount * 2 > 0"}, {"check": [1, 2, 3]}),
    ],
)
def test_each_rule_finds_its_rows(rule: dict[str, Any], broken: dict[str, list[int]]) -> None:
    """Missing and null break only `required` and `nullable`; another kind of value breaks a bound."""
    assert _broken(rule) == broken


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("text", ["", "a"], [1, True, ["a"]]),
        ("number", [0, -1.5, 10**30], ["1", True, "12.50"]),
        ("integer", [3, 3.0, -(10**40)], [3.5, "3", True, math.inf]),
        ("boolean", [True, False], [0, 1, "true"]),
        ("date", ["2024-02-29"], ["2025-02-29", "2025-01-01T00:00:00", "01.02.2025", 20250101]),
        ("datetime", ["2025-01-01T10:00:00Z", "2025-01-01"], ["2025-01-01T25:00:00", "now", 1735689600]),
        ("list", [[], [1]], [{}, "[]"]),
        ("object", [{}, {"a": 1}], [[], "{}"]),
    ],
)
def test_types_are_strict(kind: str, good: list[Any], bad: list[Any]) -> None:
    """A boolean is no number, text of a number is text, a whole float is an integer."""
    rows = [{"x": value} for value in (*good, *bad)]
    assert _broken({"field": "x", "type": kind}, rows) == {"type": list(range(len(good), len(rows)))}


def test_a_check_that_cannot_judge_a_row_says_why() -> None:
    """Such a row is invalid; a check that can judge none is a mistake in the request."""
    rows: list[dict[str, Any]] = [{"a": 1}, {"a": "x"}]
    assert run_validation({"rules": [{"check": "a * 2 >= 2"}]}, rows)["violations"] == [
        {
            "rule": "check",
            "expected": "a * 2 >= 2",
            "count": 1,
            "rows": [1],
            "samples": [{"row": 1, "values": {"a": "x"}, "problem": "'*' needs numbers, not 'x' (text)"}],
        }
    ]
    with pytest.raises(AnalysisError) as raised:
        run_validation({"rules": [{"check": "a"}]}, [{"a": 1}, {"a": 2}])
    assert str(raised.value) == (
        "rules[0].check: A test needs a boolean, not 1 (a number), in every row. Change the expression 'a'."
    )


def test_a_time_before_the_first_year_is_compared_as_text() -> None:
    """With its zone it has no moment in UTC; of the rows it breaks a rule about moments."""
    first = "0001-01-01T00:00:00+10:00"
    assert _broken({"field": "t", "min": first}, [{"t": first}, {"t": "0000"}, {"t": "2025-03-31"}]) == {"min": [1]}
    assert _broken({"field": "t", "min": "2025-03-31"}, [{"t": first}, {"t": "2025-03-31"}]) == {"min": [0]}


def test_a_field_that_no_row_has_is_said_with_the_nearest() -> None:
    """It may be what is wrong with the rows, so it is a note and, where required, a violation."""
    answer = run_validation({"rules": [{"field": "ammount", "type": "number"}]}, EXPENSES)
    assert answer["invalid_rows"] == 0
    assert answer["notes"] == [
        "No row has the field 'ammount' (rules[0].field). Nearest: 'amount'. Fields: 'id', 'amount', 'from', 'to', "
        "'tags', 'who'."
    ]
    assert _broken({"field": "ammount", "required": True}) == {"required": [0, 1, 2, 3]}


def test_a_report_over_many_bad_rows_is_bounded() -> None:
    """Twenty row numbers, five samples, long values by their size: the count is whole."""
    rows = [{"x": "y" * 5_000, "l": list(range(1_000))} for _ in range(3_000)]
    answer = run_validation({"rules": [{"field": "x", "type": "number"}, {"field": "l", "max_length": 3}]}, rows)
    [first, second] = answer["violations"]
    assert (answer["invalid_rows"], first["count"], len(first["rows"]), len(first["samples"])) == (3_000, 3_000, 20, 5)
    assert first["samples"][0]["value"] == "a text of 5000 characters"
    assert second["samples"][0]["value"] == "a list of 1000 items"
    assert len(json.dumps(answer)) < 5_000


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, 'parameters lacks \'rules\'. Give a list of rules like {"field": "amount", "type": "number", "min": 0}.'),
        ({"rules": {}}, "rules has 0 rules. Give 1 to 200."),
        ({"rules": [{"field": "id", "min": 0}] * (MAX_RULES + 1)}, "rules has 201 rules. Give 1 to 200."),
        ({"rules": ["id"]}, 'rules[0] is \'id\'. Give an object like {"field": "amount", "min": 0}.'),
        (
            {"rules": [{"field": "id", "minimum": 0}]},
            "No parameter 'minimum' in rules[0]. Nearest: 'min'. Known: 'field', 'type', 'required', 'nullable', "
            "'min', 'max', 'min_length', 'max_length', 'pattern', 'enum', 'unique', 'message', 'fields', 'check'.",
        ),
        (
            {"rules": [{"field": "id", "type": "numbr"}]},
            "rules[0].type is 'numbr'. Nearest: 'number'. Give one of 'text', 'number', 'integer', 'boolean', 'date', "
            "'datetime', 'list', 'object'.",
        ),
        (
            {"rules": {"id": {"type": ["number"]}}},
            "rules.id.type is [\"number\"]. Give one of 'text', 'number', 'integer', 'boolean', 'date', 'datetime', "
            "'list', 'object'.",
        ),
        (
            {"rules": [{"field": "id"}]},
            "rules[0].field has no rule. Add one of: type, required, nullable, min, max, min_length, max_length, "
            "pattern, enum, unique.",
        ),
        ({"rules": [{"type": "number"}]}, "rules[0] lacks 'field'. Give the name of a field."),
        ({"rules": [{"field": "id", "required": "yes"}]}, "rules[0].required is 'yes'. Give true or false."),
        ({"rules": [{"field": "id", "min": 5, "max": 1}]}, "rules[0].min is 5. Give at most 1, which max is."),
        (
            {"rules": [{"field": "id", "min": [1]}]},
            "rules[0].min is [1]. Give one plain value: text, a number, a boolean or null.",
        ),
        ({"rules": [{"field": "id", "min": True}]}, "rules[0].min is true. Give a number, a date or a text."),
        (
            {"rules": [{"field": "id", "min": math.nan}]},
            "rules[0].min is nan. Give a finite number, or use 'is_null'.",
        ),
        (
            {"rules": [{"field": "id", "max_length": -1}]},
            "rules[0].max_length is -1. Give a whole number from 0 to 9007199254740992.",
        ),
        (
            {"rules": [{"field": "id", "pattern": "("}]},
            "rules[0].pattern is not a regular expression: missing ), unterminated subpattern at position 0. "
            "Change '('.",
        ),
        (
            {"rules": [{"field": "id", "pattern": "a" * 1_001}]},
            "rules[0].pattern has 1001 characters. A regular expression has at most 1000.",
        ),
        (
            {"rules": [{"field": "id", "min": 1, "message": "m" * 201}]},
            "rules[0].message is a text of 201 characters. Give a text of at most 200 characters.",
        ),
        (
            {"rules": [{"field": "id", "enum": "a"}]},
            "rules[0].enum is 'a'. Give a list of the values that are allowed.",
        ),
        (
            {"rules": [{"check": "ammount > 1"}]},
            "No field 'ammount' in the rows (rules[0].check). Nearest: 'amount'. Fields: 'id', 'amount', 'from', 'to', "
            "'tags', 'who'.",
        ),
        (
            {"rules": [{"check": "id > 1", "field": "id"}]},
            "No parameter 'field' in rules[0]. Known: 'check', 'message'.",
        ),
        (
            {"rules": [{"fields": ["id", "to"]}]},
            'rules[0].fields is for rules over combinations. Give {"fields": […], "unique": true}.',
        ),
        ({"rules": [{"field": "id", "min": 0}], "samples": -1}, "samples is -1. Give a whole number from 0 to 50."),
    ],
)
def test_wrong_rules_are_named(parameters: dict[str, Any], message: str) -> None:
    """The path, the value, what was expected, and the nearest word or field."""
    with pytest.raises(AnalysisError) as raised:
        run_validation(parameters, EXPENSES)
    assert str(raised.value) == message


def test_an_expression_of_a_check_is_never_run_as_code() -> None:
    """Python in a check is refused as a whole."""
    for text in ("__import__('os').system('id')", "id.__class__", "(lambda: 1)()", "id; id", "[x for x in id]"):
        with pytest.raises(AnalysisError):
            run_validation({"rules": [{"check": text}]}, EXPENSES)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("2025-03-31"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = ("type", "required", "nullable", "min", "max", "min_length", "max_length", "pattern", "enum", "unique")
USUAL = {"type": st.sampled_from(["number", "text", "date"]), "enum": st.lists(JSON_VALUES, max_size=3)}
RULES = st.fixed_dictionaries(
    {"field": st.sampled_from(["a", "b", "b.c"])},
    optional={name: USUAL.get(name, st.nothing()) | JSON_VALUES for name in NAMES},
)


@settings(max_examples=250)
@given(
    st.lists(RULES | st.fixed_dictionaries({"check": st.sampled_from(["a < b", "a + 1 > b", "a"])}), max_size=3),
    st.lists(st.dictionaries(st.sampled_from(["a", "b"]), JSON_VALUES, max_size=2), max_size=6),
)
def test_any_rules_give_json_or_a_clear_error(rules: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Hostile rules over hostile rows: counts that add up, or an `AnalysisError`, and nothing else."""
    try:
        answer = run_validation({"rules": rules}, rows)
    except AnalysisError:
        return
    assert answer["valid_rows"] + answer["invalid_rows"] == answer["rows_in"] == len(rows)
    assert bool(answer["invalid_rows"]) is bool(answer["violations"])
    json.dumps([found["samples"] for found in answer["violations"]], allow_nan=False)
    assert all(found["rows"] and found["count"] <= len(rows) for found in answer["violations"])


def test_validation_runs_through_the_one_entry() -> None:
    """`run` finds the rows and hands the rules over; no rows break no rule."""
    request = {
        "analysis_type": "validate",
        "data": {"a": [1, 2, 2]},
        "parameters": {"rules": [{"field": "a", "unique": True}]},
    }
    answer = run(request, lambda name, arguments: None)
    assert (answer["rows_in"], answer["valid_rows"]) == (3, 2)
    assert run_validation({"rules": {"a": "number"}}, []) == {
        "rows_in": 0,
        "valid_rows": 0,
        "invalid_rows": 0,
        "violations": [],
    }
