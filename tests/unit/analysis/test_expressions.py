"""The expression language: how it binds, what each operator and function gives, and what is no expression."""

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.analysis.guest import AnalysisError, run
from sealyard.analysis.guest.errors import AnalysisError as SameError
from sealyard.analysis.guest.evaluation import FUNCTIONS
from sealyard.analysis.guest.expressions import parse_expression
from sealyard.analysis.guest.limits import MAX_INTEGER
from sealyard.analysis.guest.plan import Expression

ROW = {
    "i": 7,
    "j": -3,
    "f": 2.5,
    "s": "Hello World",
    "t": "",
    "yes": True,
    "no": False,
    "nothing": None,
    "items": [1, 2, 3],
    "o": {"inner": {"deep": 5}, "and": 1},
    "d": "2024-02-28",
    "m": "2024-03-01T22:30:00+01:00",
    "unit price": 4,
    "a`b": 6,
    "min": 9,
    "select": "sql",
    "ß": "ß",
    "huge": 10**1_000,
}


def never(tool: str, arguments: dict[str, Any]) -> Any:
    """Stands where a tool could be called, in tests that call none."""
    raise AssertionError(tool)


def value(expression: Any, row: dict[str, Any] | None = None) -> Any:
    """The value of an expression for one row."""
    answer = run(
        {"analysis_type": "transform", "data": [row or ROW], "parameters": {"compute": {"result": expression}}}, never
    )
    return answer["rows"][0]["result"]


def mistake(expression: Any) -> str:
    """What is said about an expression."""
    with pytest.raises(AnalysisError) as caught:
        value(expression)
    return str(caught.value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ** 2", -4.0),
        ("2 ** -1", 0.5),
        ("10 - 4 - 3", 3),
        ("7 / 2", 3.5),
        ("6 / 2", 3.0),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("7 % -3", -2),
        ("7.5 // 2", 3.0),
        ("--i", 7),
        ("+i", 7),
        ("i + f", 9.5),
        ("s + '!'", "Hello World!"),
        ("i + nothing", None),
        ("i / 0", None),
        ("i // 0", None),
        ("i % 0", None),
        ("0 ** -1", None),
        ("(0 - 8) ** 0.5", None),
        ("1e308 * 10", None),
        ("1e308 + 1e308", None),
        ("10 ** 400", None),
        ("i > j and f < 3", True),
        ("i > j AND NOT f < 3", False),
        ("yes && no", False),
        ("no or nothing", False),
        ("not nothing", True),
        ("not not yes", True),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("i = 7", True),
        ("i <> 7", False),
        ("i == 7.0", True),
        ("yes == 1", False),
        ("nothing == null", True),
        ("nothing is null", True),
        ("i is not None", True),
        ("nothing < 1", False),
        ("s < 1", False),
        ("no < yes", True),
        ("items == items", True),
        ("i in [1, 7]", True),
        ("i in (1, -7, 'x')", False),
        ("i not in [1]", True),
        ("s in ['Hello World', null]", True),
        ("nothing in [null]", True),
        ("i in []", False),
        ("'a' if yes else 'b'", "a"),
        ("'a' if no else 'b' if no else 'c'", "c"),
        ("if(i > 5, 'big', 'small')", "big"),
        ("s / 0 if no else 1", 1),
        ("yes or s / 0", True),
        ("coalesce(i, s / 0)", 7),
        ("o.inner.deep + 1", 6),
        ("o.and", 1),
        ("`unit price` * 2", 8),
        ("`a``b`", 6),
        ("`o.inner.deep`", 5),
        ("min + 1", 10),
        ("min(min, 4)", 4),
        ("`select`", "sql"),
        ("ß", "ß"),
        (r"'a\'b\n' + " + '"\\""', "a'b\n\""),
        ("true", True),
        ("NULL", None),
        (".5 + 1.", 1.5),
        ("1e2", 100.0),
    ],
)
def test_an_expression_has_the_value_that_the_rules_say(expression: str, expected: Any) -> None:
    """Binding as in Python; null in, null out; truth is never null."""
    assert repr(value(expression)) == repr(expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("abs(j)", 3),
        ("abs(nothing)", None),
        ("ceil(f)", 3),
        ("floor(0 - f)", -3),
        ("round(f)", 3),
        ("round(0 - f)", -3),
        ("round(0.49999999999999994)", 0),
        ("round(2.345, 1)", 2.3),
        ("round(0.125, 2)", 0.13),
        ("round(1.005, 2)", 1.01),
        ("round(2.675, 2)", 2.68),
        ("round(0 - 1.005, 2)", -1.01),
        ("round(0 - 0.001, 2)", 0.0),
        ("round(1e300, 2)", 1e300),
        ("round(1e-300, 308)", 1e-300),
        ("round(1.79e308, -308)", None),
        ("round(1250, -2)", 1300),
        ("round(-1250, -2)", -1300),
        ("round(1250.0, -2)", 1300.0),
        ("round(i, 2)", 7),
        ("sqrt(9)", 3.0),
        ("sqrt(j)", None),
        ("min(i, j, nothing)", -3),
        ("max('a', 'b')", "b"),
        ("max(nothing)", None),
        ("len(s)", 11),
        ("len(items)", 3),
        ("len(o)", 2),
        ("len(nothing)", None),
        ("lower(s)", "hello world"),
        ("UPPER(s)", "HELLO WORLD"),
        ("strip(' \t x \n')", "x"),
        ("substr(s, 0, 5)", "Hello"),
        ("substr(s, 6)", "World"),
        ("substr(s, -5, 2)", "Wo"),
        ("substr(s, -50, 2)", "He"),
        ("substr(s, 2, 0)", ""),
        ("concat(s, ' ', i, ' ', yes, nothing, f)", "Hello World 7 true2.5"),
        ("replace(s, 'l', 'L')", "HeLLo WorLd"),
        ("replace(s, '', 'x')", "Hello World"),
        ("coalesce(nothing, null, 3)", 3),
        ("coalesce(nothing)", None),
        ("year(d)", 2024),
        ("month(m)", 3),
        ("day(d)", 28),
        ("hour(m)", 22),
        ("hour(d)", 0),
        ("weekday('2024-02-26')", 0),
        ("date(m)", "2024-03-01"),
        ("days_between(d, m)", 2),
        ("days_between(m, d)", -2),
        ("days_between(d, nothing)", None),
        ("int('12')", 12),
        ("int(f)", 2),
        ("float('1e2')", 100.0),
        ("str(i)", "7"),
        ("str(items)", "[1,2,3]"),
        ("contains(s, 'World')", True),
        ("contains(items, 2)", True),
        ("contains(i, 7)", False),
        ("starts_with(s, 'He')", True),
        ("ends_with(nothing, 'x')", False),
        ("matches(s, '^H.*d$')", True),
        ("matches(i, '7')", False),
        ("is_null(nothing)", True),
        ("is_null(t)", False),
    ],
)
def test_a_function_gives_what_its_description_says(expression: str, expected: Any) -> None:
    """Null in, null out, but for the functions that are about nulls."""
    assert repr(value(expression)) == repr(expected)


def test_every_function_that_is_known_has_an_implementation() -> None:
    """Two are compiled apart: one evaluates lazily, one takes a literal."""
    assert {name for name, each in FUNCTIONS.items() if each.compute is None} == {"matches", "coalesce"}


def test_a_constant_needs_no_text() -> None:
    """A number, a boolean or null stands for itself."""
    assert [value(each) for each in (3, 2.5, True, None)] == [3, 2.5, True, None]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "i +",
            "compute.result cannot be used: a part is missing or misplaced, at character 4 of 'i +'. ",
        ),
        ("i j", "compute.result cannot be used: a part is missing or misplaced, at character 3 of 'i j'. "),
        ("(i", "compute.result cannot be used: a part is missing or misplaced, at character 1 of '(i'. "),
        ("i ? 1", "compute.result cannot be used: '?' cannot be read, at character 3 of 'i ? 1'. "),
        ("'open", 'compute.result cannot be used: "\'" cannot be read, at character 1 of "\'open". '),
        ("1abc", "compute.result cannot be used: '1' cannot be read, at character 1 of '1abc'. "),
        (
            "abs()",
            "compute.result cannot be used: abs() takes 1 argument, not 0, at character 1 of 'abs()'. ",
        ),
        (
            "substr(s)",
            "compute.result cannot be used: substr() takes 2 or 3 arguments, not 1, at character 1 of 'substr(s)'. ",
        ),
        (
            "i in [j]",
            "compute.result cannot be used: the list after 'in' holds literal values only, at character 6 of "
            "'i in [j]'. ",
        ),
        (
            "i in [-'x']",
            "compute.result cannot be used: the list after 'in' holds literal values only, at character 6 of "
            "\"i in [-'x']\". ",
        ),
        (
            "i in 'x'",
            "compute.result cannot be used: after 'in' stands a list of values, at character 6 of \"i in 'x'\". ",
        ),
        (
            "i is 7",
            "compute.result cannot be used: after 'is' only 'null' or 'not null' may stand; compare with '==', at "
            "character 6 of 'i is 7'. ",
        ),
        (
            r"'\x41'",
            "compute.result cannot be used: '\\\\x' is not an escape; write '\\\\' for a backslash, at character 1 of "
            "\"'\\\\x41'\". ",
        ),
    ],
)
def test_what_is_no_expression_is_named_with_its_place(expression: str, message: str) -> None:
    """The message says what is wrong, where, and how names and texts are written."""
    hint = "Names are fields, functions are a fixed list; quote texts, and put odd field names between backticks."

    assert mistake(expression) == message + hint


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("s * 2", "compute.result: '*' needs numbers, not 'Hello World' (text), in row 0."),
        ("s + i", "compute.result: '+' needs two numbers or two texts, not 'Hello World' (text), in row 0."),
        ("yes + 1", "compute.result: '+' needs two numbers or two texts, not true (a boolean), in row 0."),
        ("-s", "compute.result: '-' needs numbers, not 'Hello World' (text), in row 0."),
        ("i and yes", "compute.result: A test needs a boolean, not 7 (a number), in row 0."),
        ("1 if s else 2", "compute.result: A test needs a boolean, not 'Hello World' (text), in row 0."),
        ("lower(i)", "compute.result: lower() needs text, not 7 (a number), in row 0."),
        ("len(i)", "compute.result: len() needs text, a list or an object, not 7 (a number), in row 0."),
        ("min(i, s)", "compute.result: min() needs numbers only or texts only, not 7 (a number), in row 0."),
        ("year(s)", "compute.result: 'Hello World' (text) is not a date like '2025-03-31', in row 0."),
        ("year('2025-02-30')", "compute.result: '2025-02-30' (text) is not a date like '2025-03-31', in row 0."),
        ("int(s)", "compute.result: 'Hello World' (text) is not a whole number, in row 0."),
        ("substr(s, f)", "compute.result: substr() needs whole numbers, not 2.5 (a number), in row 0."),
        ("round(f, f)", "compute.result: round() needs whole numbers of digits, not 2.5 (a number), in row 0."),
        ("round(f, 400)", "compute.result: round() takes -308 to 308 digits, not 400, in row 0."),
        *(
            (
                text,
                f"compute.result: a whole number is beyond {MAX_INTEGER}; compute with float() of its operands, "
                "in row 0.",
            )
            for text in (f"int('{'9' * 200}')", "int(1e300)", "-huge", "abs(huge)", "abs(-huge)", "round(huge, -2)")
        ),
        (
            f"{MAX_INTEGER} + 1",
            f"compute.result: a whole number is beyond {MAX_INTEGER}; compute with float() of its operands, in row 0.",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_row(expression: str, message: str) -> None:
    """Nothing is converted behind anybody's back."""
    assert mistake(expression) == f"{message} Cast the field or test for it first."


def test_the_row_of_a_mistake_is_counted_over_all_rows() -> None:
    """Parts that are evaluated for some rows only report the row as it stands in the set."""
    rows = [{"a": None, "b": 1}, {"a": 2, "b": 1}, {"a": "x", "b": 1}]
    request = {"analysis_type": "filter", "data": rows, "parameters": {"conditions": "a is not null and a - b > 0"}}

    with pytest.raises(SameError) as caught:
        run(request, never)

    assert str(caught.value) == (
        "conditions: '-' needs numbers, not 'x' (text), in row 2. Cast the field or test for it first."
    )


INTEGERS = st.integers(-100, 100)


@given(
    st.recursive(
        st.one_of(INTEGERS.map(str), st.sampled_from(["x", "y"])),
        lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        max_leaves=8,
    ),
    # None so small that a quotient is infinite on the way to something finite: that is null here.
    st.lists(
        st.tuples(INTEGERS, st.floats(-100, 100, allow_nan=False).filter(lambda y: y == 0 or abs(y) > 1e-9)),
        min_size=1,
        max_size=4,
    ),
)
def test_arithmetic_agrees_with_python(text: str, values: list[tuple[int, float]]) -> None:
    """The same text, evaluated by Python itself, which stops where ours is null."""
    rows = [{"x": x, "y": y} for x, y in values]
    answer = run({"analysis_type": "transform", "data": rows, "parameters": {"compute": {"r": text}}}, never)

    for row in answer["rows"]:
        try:
            expected = eval(text, {}, {"x": row["x"], "y": row["y"]})
        except ZeroDivisionError:
            expected = None
        if isinstance(expected, float) and not math.isfinite(expected):
            expected = None
        assert repr(row["r"]) == repr(expected)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_a_mistake(text: str) -> None:
    """Nothing else can come out of the parser."""
    with contextlib.suppress(AnalysisError):
        assert isinstance(parse_expression(text, "here"), Expression)
