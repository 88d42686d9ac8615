"""TOML as it is written, and JSON with comments as it is read and changed in place."""

import json
import math
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.config.clients.documents import InvalidJson, dump_toml, parse_json, put_json

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
PLAIN = (
    TEXT
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
COMMENTED = """\
{
  // the first "line"
  "theme": "dark", /* with // inside */
  "mcpServers": {
    "a": {"command": "x", "args": ["//not a comment", "/*nor this*/",],}, // gone
  },
  "last": [1, 2,] // stays
}
"""


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_written_toml_reads_back_as_it_was(table: dict[str, Any]) -> None:
    """Any table of any values survives the way through a file."""
    assert tomllib.loads(dump_toml(table)) == table


def test_numbers_that_are_none_are_written_too() -> None:
    """TOML has words for them."""
    table = tomllib.loads(dump_toml({"a": math.inf, "b": -math.inf, "c": math.nan}))

    assert (table["a"], table["b"], math.isnan(table["c"])) == (math.inf, -math.inf, True)


def test_tables_are_sections_that_people_can_read() -> None:
    """Plain values first, bare keys bare, sections apart."""
    assert dump_toml({"upstreams": {"a.b": {"command": "x", "args": ["1"], "env": {"A": 'q"\n'}}, "c": {}}}) == (
        '[upstreams."a.b"]\ncommand = "x"\nargs = ["1"]\n\n[upstreams."a.b".env]\nA = "q\\"\\n"\n\n[upstreams.c]\n'
    )


@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_plain_json_is_read_as_the_standard_library_reads_it(value: Any, indent: int | str | None) -> None:
    """In any layout, escaped or not."""
    assert parse_json(json.dumps(value, indent=indent)) == value
    assert parse_json("\ufeff" + json.dumps(value, indent=indent, ensure_ascii=False)) == value


@given(st.text(alphabet='{}[]",:/*\\ \n1truenulEe-."'))
def test_any_text_is_read_or_refused(text: str) -> None:
    """What the standard library reads is read in the same way; the rest is read or refused, and breaks nothing."""
    try:
        expected = json.loads(text)
    except ValueError:
        try:
            parse_json(text)
        except InvalidJson:
            return
    else:
        assert parse_json(text) == expected


def test_comments_and_trailing_commas_are_allowed_outside_strings() -> None:
    """A string that holds slashes or stars is not touched."""
    assert parse_json(COMMENTED) == {
        "theme": "dark",
        "mcpServers": {"a": {"command": "x", "args": ["//not a comment", "/*nor this*/"]}},
        "last": [1, 2],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "a": s3cret\n}', "line 2, column 8: expecting value"),
        ('{"a": "s3cret', "line 1, column 7: unterminated string starting at"),
        ('{"a": "s3cret\\x"}', "line 1, column 14: invalid \\escape"),
        ('{"a": 1 "b": 2}', "line 1, column 9: expecting ',' delimiter"),
        ('{"a" 1}', "line 1, column 6: expecting ':' delimiter"),
        ("{,}", "line 1, column 2: expecting property name enclosed in double quotes"),
        ("{} {}", "line 1, column 4: extra data"),
        ("/* open", "line 1, column 1: expecting value"),
        ("[" * 200, "values are nested more than 100 deep"),
        ("1" * 5000, "a number is too long or infinite"),
        ('{"a": NaN}', "a number is too long or infinite"),
    ],
)
def test_broken_json_is_named_by_its_place_and_never_quoted(text: str, message: str) -> None:
    """What stands there may be half of a secret."""
    with pytest.raises(InvalidJson) as caught:
        parse_json(text)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 1_000_000,
        '"' + '\\"' * 1_000_000 + "\\",
        "/* " * 1_000_000,
        "[" + "[1,]," * 500_000,
    ],
)
def test_hostile_text_is_refused_in_linear_time(text: str) -> None:
    """A cloned project may hold any file; quadratic time would take hours for these."""
    with pytest.raises(InvalidJson):
        parse_json(text)


def test_value_is_replaced_in_place() -> None:
    """Everything outside of it stays as it was, comments included."""
    assert (
        put_json(COMMENTED, ("mcpServers",), {"new": {"args": ["é"]}})
        == """\
{
  // the first "line"
  "theme": "dark", /* with // inside */
  "mcpServers": {
    "new": {
      "args": [
        "é"
      ]
    }
  },
  "last": [1, 2,] // stays
}
"""
    )


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{}", '{\n  "a": {\n    "b": {}\n  }\n}'),
        ('{"x":1}', '{"x":1,"a":{"b":{}}}'),
        ('{"x":1,}', '{"x":1,"a":{"b":{}}}'),
        (
            '{\r\n\t"x": [1], // why\r\n\t// last\r\n}\r\n',
            '{\r\n\t"x": [1], // why\r\n\t// last\r\n\t"a": {\r\n\t\t"b": {}\r\n\t}\r\n}\r\n',
        ),
        (
            '\ufeff{\n    "x": {"y": 1} // why\n}',
            '\ufeff{\n    "x": {"y": 1}, // why\n    "a": {\n        "b": {}\n    }\n}',
        ),
    ],
)
def test_missing_member_is_added_in_the_layout_of_the_file(text: str, changed: str) -> None:
    """Indentation, line ends, byte order mark and remarks are those of the file."""
    assert put_json(text, ("a",), {"b": {}}) == changed
    assert put_json(text, ("a", "b"), {}) == changed


@given(
    st.dictionaries(st.text(), JSON, max_size=4),
    st.sampled_from([None, 2]),
    st.lists(st.text(), min_size=1, max_size=3),
)
def test_change_of_any_object_changes_nothing_else(table: dict[str, Any], indent: int | None, keys: list[str]) -> None:
    """Read back, it is the old object with the one new value."""
    expected = json.loads(json.dumps(table))
    inner = expected
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            with pytest.raises(InvalidJson):
                put_json(json.dumps(table, indent=indent), tuple(keys), {"n": "\ud800"})
            return
    inner[keys[-1]] = {"n": "\ud800"}

    assert parse_json(put_json(json.dumps(table, indent=indent), tuple(keys), {"n": "\ud800"})) == expected
