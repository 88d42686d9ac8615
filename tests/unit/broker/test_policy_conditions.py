"""Conditions on arguments: what they mean, and the ways around them that lead nowhere."""

import datetime
import fnmatch
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.broker.policy.conditions import Condition, Doubt, all_of
from sealyard.errors import InvalidConfig
from sealyard.values.tools import glob

DOUBT = "doubt"


def check(wanted: Any, arguments: dict[str, Any], *, argument: str = "x", schema: Any = None) -> bool | str:
    """Whether `argument` is as wanted: true, false or in doubt."""
    holds = Condition(argument, wanted, at="policy.rules[0]").check(arguments, schema)
    return DOUBT if isinstance(holds, Doubt) else holds


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        ("DELETE", "DELETE", True),
        ("DELETE", "GET", False),
        ("a[1]", "a[1]", True),
        ("*@example.com", "ann@example.com", True),
        ("*@example.com", "ann@example.com.evil.org", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a[bc]*", "a[bc]d", True),
        ("a[bc]*", "ab", False),
        ("*", "", True),
        ("a*", "a\nb", True),
        (5, 5, True),
        (5, 5.0, True),
        (5, 6, False),
        (0.5, 0.5, True),
        (True, True, True),
        (True, False, False),
        (["a", "b*"], "bc", True),
        (["a", "b*"], "c", False),
        ([1, 2], 2, True),
        ({"above": 100}, 100.5, True),
        ({"above": 100}, 100, False),
        ({"at_least": 100}, 100, True),
        ({"at_least": 100}, 99, False),
        ({"below": 0}, -1, True),
        ({"below": 0}, 0, False),
        ({"at_most": 0}, 0, True),
        ({"at_most": 0}, 10**400, False),
        ({"above": 1, "below": 3}, 2, True),
        ({"above": 1, "below": 3}, 3, False),
        ({"not": "eu"}, "us", True),
        ({"not": "eu"}, "eu", False),
        ({"not": ["eu", "us"]}, "us", False),
        ({"not": {"above": 5}}, 5, True),
        ({"matches": "[a-z]+"}, "abc", True),
        ({"matches": "[a-z]+"}, "123", False),
        ({"matches": "a|b"}, "b", True),
        ({"longer_than": 3}, "abcd", True),
        ({"longer_than": 3}, "abc", False),
        ({"longer_than": 1}, [1, 2], True),
        ({"exists": True}, 0, True),
        ({"exists": False}, 0, False),
        ({"exists": True, "above": 1}, 2, True),
    ],
)
def test_a_condition_means_what_it_says(wanted: Any, value: Any, expected: bool) -> None:
    """Every form that the reference lists, with a value that fits and one that does not."""
    assert check(wanted, {"x": value}) == expected


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ("DELETE", ["DELETE"]),
        ("DELETE", ["GET"]),
        ("rm *", ["rm", "-rf", "/"]),
        ("DELETE", {"method": "DELETE"}),
        ("DELETE", None),
        ("DELETE", True),
        ("7", 7),
        (5, "5"),
        (1, True),
        (True, 1),
        (True, "true"),
        ({"above": 100}, "500"),
        ({"above": 100}, [500]),
        ({"above": 100}, True),
        ({"above": 100}, float("nan")),
        ({"above": 100}, None),
        ({"not": "eu"}, ["eu"]),
        ({"not": "eu"}, None),
        ({"matches": "a"}, ["a"]),
        ({"longer_than": 3}, {"a": 1}),
        ({"exists": True}, None),
        ({"exists": False}, None),
        (["a", "b"], ["a"]),
    ],
)
def test_a_value_of_another_type_is_in_doubt(wanted: Any, value: Any) -> None:
    """A server may take it for what the condition speaks of: a list of one, a number as text, null for a default."""
    assert check(wanted, {"x": value}) == DOUBT


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ("DELETE", "delete"),
        ("DELETE", " DELETE\n"),
        ("DELETE", "DEL\u200bETE"),
        ("DELETE", "DELETE\0"),
        ("DELETE", "\uff24\uff25\uff2c\uff25\uff34\uff25"),
        ("stra\u00dfe", "STRASSE"),
        ("rm *", "rm\t-rf /"),
        ("rm *", "RM -rf /"),
        ("*@evil.org", "ann@EVIL.org"),
        ({"not": "eu"}, "EU"),
        ({"matches": "drop table.*"}, "DROP TABLE users"),
        ({"matches": "drop table.*"}, "\u200bdrop\ttable users"),
    ],
)
def test_a_text_that_differs_only_in_spelling_is_in_doubt(wanted: Any, value: str) -> None:
    """Servers often overlook case, width, invisible characters and spacing."""
    assert check(wanted, {"x": value}) == DOUBT


@pytest.mark.parametrize(
    "value",
    ["/public/../etc/passwd", "/public/..", "/public/%2e%2E/x", "/public\\..\\x", "..", "//public/x", "/./public/x"],
)
def test_a_path_that_leads_elsewhere_is_in_doubt(value: str) -> None:
    """`*` stands for any characters, but what `..` leads to nobody knows."""
    assert check("/public/*", {"x": value}) == DOUBT


def test_a_pattern_that_names_dots_is_taken_at_its_word() -> None:
    """Two dots inside a name are no step up either."""
    assert check("../public/*", {"x": "../public/a"}) is True
    assert check("/public/*", {"x": "/public/a..b"}) is True


@pytest.mark.parametrize(
    "value", ["x https://ours.org/", "https://ours.org/ x", "https://ours.org/\n", "a\nhttps://ours.org/"]
)
def test_a_regular_expression_must_match_the_whole_text(value: str) -> None:
    """A part that matches leaves a doubt: it neither lets through nor lets past."""
    assert check({"matches": "https://ours.org/"}, {"x": value}) == DOUBT
    assert check({"not": {"matches": "https://ours.org/"}}, {"x": value}) == DOUBT


def test_a_text_that_is_half_a_character_is_in_doubt() -> None:
    """It is no text that any engine takes."""
    assert check({"matches": ".*"}, {"x": "\ud800"}) == DOUBT
    assert check("a", {"x": "\ud800"}) is False


def test_an_argument_that_is_not_given_does_not_fit() -> None:
    """Whatever is said of it, but that it does not exist."""
    for wanted in ("a", "*", 1, True, ["a"], {"above": 0}, {"not": "a"}, {"matches": ""}, {"exists": True}):
        assert check(wanted, {"y": "a"}) is False
    assert check({"exists": False}, {"y": "a"}) is True


def test_an_argument_left_to_a_default_that_fits_is_in_doubt() -> None:
    """To leave it out must not get past a rule about what the server then takes."""
    schema = {
        "properties": {
            "x": {"default": True},
            "y": {"default": None},
            "z": {"properties": {"deep": {"default": 500}}},
        }
    }

    assert check(True, {}, schema=schema) == DOUBT
    assert check(False, {}, schema=schema) is False
    assert check("*", {}, argument="y", schema=schema) is False
    assert check({"above": 100}, {}, argument="z.deep", schema=schema) == DOUBT
    assert check({"above": 100}, {"z": {}}, argument="z.deep", schema=schema) == DOUBT
    assert check({"exists": False}, {}, schema=schema) is True
    assert check(True, {}, schema={"properties": [], "default": True}) is False


@pytest.mark.parametrize(
    ("argument", "arguments", "expected"),
    [
        ("a.b", {"a": {"b": "v"}}, True),
        ("a.b", {"a": {"b": "w"}}, False),
        ("a.b", {"a": {}}, False),
        ("a.b", {}, False),
        ("a.b", {"a.b": "v"}, True),
        ("a.b", {"a": {"b": "v"}, "a.b": "w"}, DOUBT),
        ("a.b", {"a": {"b": "v"}, "A": {"b": "w"}}, DOUBT),
        ("a.b", {"a": {"b": "v", "B": "w"}}, DOUBT),
        ("a.b", {"a": [{"b": "v"}]}, DOUBT),
        ("a.b", {"a": '{"b": "v"}'}, DOUBT),
        ("a.b", {"a": None}, DOUBT),
        ("a.*", {"a": ["v", "v"]}, True),
        ("a.*", {"a": ["v", "w"]}, DOUBT),
        ("a.*", {"a": ["w", "w"]}, False),
        ("a.*", {"a": ["w", ["v"]]}, DOUBT),
        ("a.*", {"a": []}, False),
        ("a.*", {"a": "v"}, DOUBT),
        ("a.*", {"a": {"0": "v"}}, DOUBT),
        ("a.*.b", {"a": [{"b": "v"}, {"b": "v"}]}, True),
        ("a.*.b", {"a": [{"b": "v"}, {}]}, DOUBT),
        ("a.*.b", {"a": [{}, {}]}, False),
        ("a.*.*", {"a": [["v"], ["v", "v"]]}, True),
    ],
)
def test_a_name_reaches_into_objects_and_lists(argument: str, arguments: dict[str, Any], expected: Any) -> None:
    """Every item of a list must agree; an object where a list is meant, and a name given twice, are in doubt."""
    assert check("v", arguments, argument=argument) == expected


@pytest.mark.parametrize("key", ["PATH", "Path", "pa_th", "pa-th", " path", "pat\u200bh", "\uff50ath"])
def test_a_second_spelling_of_a_name_is_in_doubt(key: str) -> None:
    """Some servers read names without regard to case, and the last one wins."""
    assert check("/ok", {"path": "/ok", key: "/etc"}, argument="path") == DOUBT
    assert check("/etc", {"path": "/ok", key: "/etc"}, argument="path") == DOUBT
    assert check("/etc", {key: "/etc"}, argument="path") == DOUBT
    assert check({"exists": False}, {key: "/etc"}, argument="path") == DOUBT


@pytest.mark.parametrize(
    ("argument", "wanted", "message"),
    [
        (
            "a..b",
            1,
            "policy.rules[0].when.'a..b' is not the name of an argument. "
            "Write it as 'name', 'object.name' or 'list.*'.",
        ),
        (
            "a",
            {},
            "policy.rules[0].when.'a' is an empty table. Give above, at_least, at_most, below, exists, longer_than, "
            "matches, not, or take it out.",
        ),
        (
            "a",
            {"abov": 1},
            "policy.rules[0].when.'a'.abov is not a condition. There are above, at_least, at_most, below, exists, "
            "longer_than, matches, not. For a value inside an object quote the whole name, such as 'object.name'.",
        ),
        ("a", {"above": "1"}, "policy.rules[0].when.'a'.above is a text. Give a number."),
        ("a", {"above": True}, "policy.rules[0].when.'a'.above is true or false. Give a number."),
        ("a", {"above": float("nan")}, "policy.rules[0].when.'a'.above is not a finite number. Give a number."),
        ("a", float("inf"), "policy.rules[0].when.'a' is not a finite number. Give a number."),
        ("a", {"longer_than": -1}, "policy.rules[0].when.'a'.longer_than is a number. Give a whole number from 0."),
        ("a", {"exists": "yes"}, "policy.rules[0].when.'a'.exists is a text. Give true or false."),
        (
            "a",
            {"exists": False, "above": 1},
            "policy.rules[0].when.'a' sets exists = false and more. "
            "A missing argument has no value: write only exists = false.",
        ),
        (
            "a",
            {"not": {"exists": True}},
            "policy.rules[0].when.'a'.not holds exists. Write exists = false, or true, without not.",
        ),
        ("a", {"matches": 1}, "policy.rules[0].when.'a'.matches is a number. Give a regular expression."),
    ],
)
def test_a_condition_that_cannot_work_is_refused(argument: str, wanted: Any, message: str) -> None:
    """The place, what is wrong with it, and what to write instead."""
    with pytest.raises(InvalidConfig) as caught:
        Condition(argument, wanted, at="policy.rules[0]")

    assert str(caught.value) == message


@pytest.mark.parametrize("wanted", [[], [[1]], [{"above": 1}], None, datetime.date(2024, 1, 1)])
def test_a_value_that_is_no_condition_is_refused(wanted: Any) -> None:
    """Also what TOML has and JSON has not: dates are quoted."""
    with pytest.raises(InvalidConfig):
        Condition("a", wanted, at="policy.rules[0]")


@pytest.mark.parametrize("pattern", ["(", "a)|(b", r"(a)\1", "(?=a)b", "(?!a)b", "(a{1000}){1000}"])
def test_a_regular_expression_that_takes_time_without_bound_is_refused(pattern: str) -> None:
    """And one that only our brackets around it would complete."""
    with pytest.raises(InvalidConfig):
        Condition("a", {"matches": pattern}, at="policy.rules[0]")


def test_no_text_makes_a_pattern_slow() -> None:
    """Nested repetitions and many stars take time in proportion to the text; a backtracking engine would need years."""
    assert check({"matches": "(a+)+"}, {"x": "a" * 200_000 + "b"}) == DOUBT
    assert check({"matches": "(x+x+)+y"}, {"x": "x" * 200_000}) is False
    assert check("*a*a*a*a*a*a*a*a*b", {"x": "a" * 200_000}) is False


def test_what_is_too_large_to_look_at_is_in_doubt() -> None:
    """Texts, lists and objects without end neither get through nor past."""
    assert check("*", {"x": "a" * 300_000}) == DOUBT
    assert check("a", {"x": ["a"] * 20_001}, argument="x.*") == DOUBT
    assert check("a", {str(number): 1 for number in range(10_001)}) == DOUBT


def test_a_doubt_quotes_no_value() -> None:
    """It is shown to the model, and what code sends may be private."""
    secret = "4111111111111111"
    for wanted in (5, True, "x", {"above": 1}, {"longer_than": 1}, {"matches": "1"}, "4111*?1111111111111111"):
        for value in (secret, [secret], {secret: secret}, int(secret), secret + "\n", "/../" + secret):
            holds = Condition("x", wanted, at="policy.rules[0]").check({"x": value})
            assert not (isinstance(holds, Doubt) and "4111" in holds.why)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "X", "a", "x.a", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)
WANTED = st.sampled_from(
    ["a", "a*", 1, True, ["a", 1], {"above": 0}, {"not": "a"}, {"matches": "a+"}, {"longer_than": 1}, {"exists": False}]
)


@given(
    st.dictionaries(st.sampled_from(["x", "X", "x.a", "y"]), JSON, max_size=4),
    WANTED,
    st.sampled_from(["x", "x.a", "x.*"]),
)
def test_every_json_has_an_answer(arguments: dict[str, Any], wanted: Any, argument: str) -> None:
    """Nothing that code can send raises, and a condition and its contrary never hold both."""
    holds = check(wanted, arguments, argument=argument)

    assert holds in (True, False, DOUBT)
    if not isinstance(wanted, dict):
        assert not (holds is True and check({"not": wanted}, arguments, argument=argument) is True)


@given(st.text(alphabet="ab[.\n", max_size=8), st.text(alphabet="ab*?[]\\.|(", max_size=6))
def test_only_star_and_question_mark_are_special(text: str, pattern: str) -> None:
    """As in file names without their brackets; every pattern fits itself too."""
    expected = fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))

    assert glob(pattern)(pattern)
    assert (glob(pattern)(text) is not None) == expected
    assert (glob("b", pattern)(text) is not None) == (expected or text == "b")


def test_one_that_does_not_hold_outweighs_a_doubt() -> None:
    """All conditions of a rule must hold."""
    doubt = Doubt("it is null")

    assert all_of([]) is True
    assert all_of([True, doubt]) == doubt
    assert all_of([doubt, False]) is False
