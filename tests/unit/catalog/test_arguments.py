"""Arguments against schemas: what fits passes, what does not is explained, and no schema can hurt the gateway."""

import itertools
from typing import Any

import pytest

from sealyard.catalog import check_arguments
from sealyard.catalog.stubs import Stub
from sealyard.errors import InvalidArguments
from sealyard.values.tools import ToolSpec

FILTER: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string"},
        "from": {"type": "string", "format": "date"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "sort": {"enum": ["asc", "desc"]},
        "filter": {"$ref": "#/$defs/Filter"},
    },
    "required": ["user_id"],
    "$defs": {"Filter": FILTER},
}
CALL = (
    "Call it as list_x(user_id: str, from_: str | None = None, limit: int | None = None, "
    'sort: Literal["asc", "desc"] | None = None, filter: dict[str, Any] | None = None) -> Any.'
)
numbers = itertools.count()


def tool(schema: dict[str, Any] = SCHEMA) -> ToolSpec:
    """A tool with this input schema."""
    names = {"upstream": "db", "name": "list-x", "full_name": "mcp__db__list-x", "module": "db", "function": "list_x"}
    return ToolSpec(**names, input_schema=schema, digest=f"{next(numbers)}")


def complaint(arguments: Any, schema: dict[str, Any] = SCHEMA) -> str:
    """What is said about arguments that do not fit."""
    with pytest.raises(InvalidArguments) as caught:
        check_arguments(tool(schema), arguments)
    return str(caught.value)


def test_arguments_that_fit_are_returned_as_they_are() -> None:
    """Nothing is added, removed or converted; formats are the upstream's business."""
    spec = tool()
    arguments = {"user_id": "u", "from": "no date", "limit": None, "filter": {"name": "n", "tags": []}, "more": 1}

    assert check_arguments(spec, arguments) is arguments
    assert check_arguments(spec, arguments) is arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "'user_id' is missing; it must be str"),
        ({"user_id": 5}, "'user_id' is 5; it must be str"),
        ({"user_id": "u", "from": 5}, "'from' (from_ in Python) is 5; it must be str"),
        ({"user_id": "u", "limit": "ten"}, "'limit' is 'ten'; it must be int | None"),
        ({"user_id": "u", "sort": "up"}, "'sort' is 'up'; it must be one of 'asc', 'desc'"),
        ({"user_id": "u", "filter": {"name": "n", "tags": ["a", 1]}}, "'filter.tags[1]' is 1; it must be str"),
        ({"user_id": "u", "filter": {}}, "'filter' lacks 'name'"),
        ({"user_id": "u", "filter": {"name": "n", "x": 1}}, "'filter' has keys that are not allowed: 'x'"),
        (
            {"user_id": "u", "filter": 3},
            '\'filter\' is 3; it must be {"name": str, "tags": [str]}',
        ),
        (
            {"usr_id": "u"},
            "'user_id' is missing; it must be str; 'usr_id' is not one of its parameters; the nearest is 'user_id'",
        ),
    ],
)
def test_message_names_the_parameter_and_what_it_should_be(arguments: dict[str, Any], expected: str) -> None:
    """A model that reads it can repair the call without looking anything up."""
    assert complaint(arguments) == f"Wrong arguments for list_x: {expected}. {CALL}"


def test_unknown_parameter_is_refused_only_where_the_schema_does() -> None:
    """What the upstream would take is not ours to refuse."""
    closed = {**SCHEMA, "additionalProperties": False}

    assert complaint({"user_id": "u", "frm": "x"}, closed) == (
        "Wrong arguments for list_x: 'frm' is not one of its parameters; the nearest is 'from' (from_ in Python). "
        + CALL
    )
    assert check_arguments(tool(), {"user_id": "u", "frm": "x"}) == {"user_id": "u", "frm": "x"}


def test_message_lists_at_most_five() -> None:
    """The rest is counted."""
    schema = {"properties": {f"p{number}": {"type": "string"} for number in range(9)}}
    text = complaint({f"p{number}": number for number in range(9)}, schema)

    assert text.partition(". Call")[0] == (
        "Wrong arguments for list_x: 'p0' is 0; it must be str; 'p1' is 1; it must be str; 'p2' is 2; it must be str; "
        "'p3' is 3; it must be str; 'p4' is 4; it must be str; and 4 more"
    )


@pytest.mark.parametrize(
    "given",
    ["x" * 10**6, ["y" * 1000] * 1000, {"k" * 1000: {"a": {"b": {"c": {}}}}}, 10**5000],
    ids=["text", "list", "object", "number"],
)
def test_what_was_given_is_shortened(given: Any) -> None:
    """A message does not carry the value back."""
    text = complaint({"p": given}, {"properties": {"p": {"type": "boolean"}}})

    assert len(text) < 200


def test_hidden_characters_do_not_get_into_a_message() -> None:
    """Terminals and readers obey some of them."""
    text = complaint({"p": "\x1b[31m\u202e"}, {"properties": {"p": {"type": "boolean"}}})

    assert text.partition(". Call")[0] == "Wrong arguments for list_x: 'p' is '\\x1b[31m\\u202e'; it must be bool"


@pytest.mark.parametrize(("arguments", "given"), [([1], "[1]"), (None, "None"), ("x", "'x'")])
def test_arguments_are_an_object(arguments: Any, given: str) -> None:
    """Nothing else has names."""
    assert complaint(arguments) == f"The arguments of list_x must be an object, not {given}."


def test_alternatives_of_the_whole_are_shown() -> None:
    """Where one of several sets of parameters is wanted, all sets are named."""
    schema = {
        "type": "object",
        "oneOf": [
            {"properties": {"id": {"type": "string"}}, "required": ["id"]},
            {"properties": {"url": {"type": "string"}}, "required": ["url"]},
        ],
    }

    assert complaint({"c": 1}, schema) == (
        "Wrong arguments for list_x: the object of all arguments is {'c': 1}; it must be "
        '{"id": str} | {"url": str}. Call it as list_x(id: str | None = None, url: str | None = None) -> Any.'
    )


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}},
        },
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"exclusiveMinimum": 1}}},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"n": {"exclusiveMinimum": 1}}},
        {"properties": {"n": {"exclusiveMinimum": 1}}},
    ],
)
def test_schema_is_read_by_its_own_draft(schema: dict[str, Any]) -> None:
    """The newest one counts where none is named."""
    assert check_arguments(tool(schema), {"n": 2}) == {"n": 2}
    assert complaint({"n": 1}, schema).startswith("Wrong arguments for list_x: 'n' is 1; ")


@pytest.mark.parametrize(
    "odd",
    [
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$schema": "https://example.invalid/own"},
        {"properties": {"a": {"$ref": "other.json"}}},
        {"properties": {"a": {"$id": "https://example.invalid/a", "$ref": "#/$defs/x"}}},
        {"allOf": [{"$ref": "#"}]},
        {"oneOf": 5},
        {"properties": {"a": {"not": {"pattern": "(?=a)"}}}},
    ],
)
def test_tool_with_a_schema_of_no_use_can_be_called(odd: dict[str, Any]) -> None:
    """Only its names are checked, and the upstream judges the rest. Nothing is fetched."""
    schema = {"additionalProperties": False, **odd}
    schema["properties"] = {"a": {}, "b": {}, **odd.get("properties", {})}
    schema["required"] = ["a"]

    assert check_arguments(tool(schema), {"a": object}) == {"a": object}
    assert complaint({"b": 1, "zz": 1}, schema).startswith(
        "Wrong arguments for list_x: 'a' is missing; it must be Any; 'zz' is not one of its parameters. Call it as "
    )


@pytest.mark.parametrize(
    "careless",
    [
        {"required": None},
        {"properties": {"a": {"type": "str"}, "n": {"type": "integer"}}},
        {"properties": {"a": {"type": "string", "pattern": "^(?!b)"}, "n": {"type": "integer"}}},
        {"properties": {"a": {"type": ["string", None]}, "n": {"type": "integer"}}},
    ],
)
def test_of_a_careless_schema_only_the_names_are_checked(careless: dict[str, Any]) -> None:
    """One keyword that is wrong, or a pattern that is not supported: the upstream judges the values."""
    schema = {"properties": {"n": {"type": "integer"}}, "additionalProperties": False, **careless}

    assert check_arguments(tool(schema), {"n": "x"}) == {"n": "x"}
    assert "'zz' is not one of its parameters" in complaint({"zz": 1}, schema)


def test_pattern_is_enforced() -> None:
    """Unless the text is so long that a hostile pattern could take minutes: then the upstream judges."""
    schema = {"properties": {"p": {"type": "string", "pattern": "^[ab]*a[ab]{500}$"}}}

    assert check_arguments(tool(schema), {"p": "a" * 501}) == {"p": "a" * 501}
    assert "'p' is 'a'; it does not match" in complaint({"p": "a"}, schema)
    assert len(check_arguments(tool(schema), {"p": "ab" * 10**6})["p"]) == 2 * 10**6
    assert "'p' is 5; it must be str" in complaint({"p": 5}, schema)


def test_a_mistake_among_many_rows_is_refused_without_its_place() -> None:
    """To find it would take too long; the signature shows what is expected."""
    schema = {"properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}}, "$defs": {"Row": FILTER}}
    rows: list[dict[str, Any]] = [{"name": "n"}] * 20_000

    assert check_arguments(tool(schema), {"rows": rows}) == {"rows": rows}
    assert complaint({"rows": [*rows, {"name": 5}, {}]}, schema).startswith(
        "Wrong arguments for list_x: they do not fit its schema. Call it as list_x("
    )


def test_python_names_lead_back_to_the_schemas_own() -> None:
    """Renamed parameters are found, and all others are themselves."""
    schema = {"properties": {"from": {}, "user-id": {}, "user_id": {}, "self": {}, "ok": {}, "2fa": {}}}

    found = {each.name: each.key for each in Stub(tool(schema)).parameters}

    dashed = next(name for name, key in found.items() if key == "user-id")
    assert dashed.startswith("user_id_")
    assert found == {
        "from_": "from",
        dashed: "user-id",
        "user_id": "user_id",
        "self_": "self",
        "ok": "ok",
        "_2fa": "2fa",
    }
