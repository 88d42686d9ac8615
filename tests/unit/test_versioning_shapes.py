"""Learned shapes of answers: what they say, that they hold no data, and that they stay small."""

import random
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealyard.versioning.shapes import Shape, add, merge

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 1) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "name", "a b", "__PII_email_0123456789ab__", "x1"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def _shape(*values: object) -> Shape:
    shape = Shape()
    for value in values:
        shape = add(shape, value)
    return shape


def test_types_and_presence_are_merged_into_a_schema() -> None:
    """A key that was always there is required; integers among fractions are numbers."""
    shape = _shape(
        {"rows": [{"id": 1, "note": None}, {"id": 2, "note": "x", "paid": True}], "total": 3},
        {"rows": [], "total": 2.5},
    )

    assert shape.to_schema() == {
        "type": "object",
        "properties": {
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "integer"},
                        "note": {"type": ["string", "null"]},
                        "paid": {"type": "boolean"},
                    },
                    "required": ["id", "note"],
                },
            },
            "total": {"type": "number"},
        },
        "required": ["rows", "total"],
    }


def test_presence_can_be_computed_from_the_counts() -> None:
    """How often a key was there, of how many objects."""
    shape = _shape({"a": 1}, {"a": 1, "b": 2}, {}, None)

    assert (shape.count, shape.kinds) == (4, {"object": 3, "null": 1})
    assert {key: field.count for key, field in shape.fields.items()} == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    "key",
    [
        "__PII_email_0123456789ab__",
        "user___pii_name_0123456789ab__",
        "ada@example.com",
        "2024-01-31",
        "d2024_01_31",
        "4711",
        "deadbeef01",
        "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
        "dQw4w9WgXcQ",
        "Ada Lovelace",
        "https://example.com",
        "x" * 65,
        "",
    ],
)
def test_keys_that_look_like_data_are_not_kept(key: str) -> None:
    """Nothing of an answer is in its shape but types and names of fields. Source: DESIGN, goal 3."""
    shape = _shape({"name": "Ada", key: 1})

    assert shape.to_schema() == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": {"type": "integer"},
    }
    assert not key or key not in msgspec.json.encode(shape).decode()


@pytest.mark.parametrize(
    "key", ["id", "@type", "$ref", "content-type", "startDate", "sha256", "xml:lang", "größe", "_id"]
)
def test_keys_that_look_like_names_are_kept(key: str) -> None:
    """As servers write them."""
    assert _shape({key: 1}).to_schema()["properties"] == {key: {"type": "integer"}}


def test_an_object_with_very_many_keys_is_a_mapping() -> None:
    """In one answer, and over many: then the keys are data whatever they look like."""
    rates = {"type": "object", "additionalProperties": {"type": "integer"}}
    names = [f"{one}{other}" for one in "abcdefghij" for other in "abcdefghij"]

    assert _shape(dict.fromkeys(names, 1)).to_schema() == rates
    assert _shape(*({name: 1} for name in names)).to_schema() == rates
    assert _shape(*({name: 1} for name in names[:20])).to_schema() == rates


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=6))
def test_all_that_was_seen_fits_the_schema(values: list[Any]) -> None:
    """Whatever it was."""
    validator = jsonschema_rs.validator_for(_shape(*values).to_schema())

    assert [value for value in values if not validator.is_valid(value)] == []


@settings(max_examples=60)
@given(VALUES, VALUES, VALUES)
def test_shapes_of_several_processes_can_be_merged_in_any_order(one: Any, two: Any, three: Any) -> None:
    """Also when they were stored in between."""
    first, second, third = (_shape(value) for value in (one, two, three))
    stored = msgspec.json.decode(msgspec.json.encode(merge(first, second)), type=Shape)

    assert merge(stored, third) == _shape(three, two, one) == merge(first, merge(third, second))


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: dict[str, Any] = {
    "a megabyte of rows": {"rows": [{"id": number, "text": "x" * 90} for number in range(10_000)]},
    "very deep": _nested(100_000),
    "very many keys": {f"k{number}": number for number in range(200_000)},
    "wide at every level": {
        f"a{one}": {f"b{two}": {f"c{three}": 1 for three in range(30)} for two in range(30)} for one in range(30)
    },
    "no JSON": {1: b"x", None: object(), (2, 3): {4}},
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_has_a_small_shape(name: str) -> None:
    """Its size and the work for it are bounded; it raises nothing."""
    shape = _shape(HOSTILE[name], HOSTILE[name])

    assert shape.count == 2
    assert len(msgspec.json.encode(shape)) < 100_000
    assert len(msgspec.json.encode(shape.to_schema())) < 100_000


def test_nothing_is_said_of_what_was_given_up() -> None:
    """Not even by an answer that comes later: of the earlier ones it is not known."""
    shape = add(Shape(count=1, kinds={"object": 1}, cut=True), {"a": 1})

    assert shape.to_schema() == {"type": "object"}


def test_many_different_answers_have_a_small_shape() -> None:
    """Over time too: what is deepest is given up first, and what is given up is not guessed."""
    source, shape = random.Random(5), Shape()
    names = [f"{one}_{other}" for one in "abcdefghij" for other in "klmnop"]
    for _ in range(600):
        shape = add(shape, {source.choice(names): {source.choice(names): {source.choice(names): 1}}})

    assert len(msgspec.json.encode(shape)) < 100_000
    assert shape.kinds == {"object": 600}
    assert True in {inner.cut for field in shape.fields.values() for inner in field.fields.values()}
