"""Records of answers: what their schemas say, that they hold no data, and that they stay small."""

import random
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealyard.catalog.shapes import Audience, Copying, Place, Reading, build_schema

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 1) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "name", "a b", "__PII_email_0123456789ab__", "x1"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def record_of(*values: object) -> dict[str, Place]:
    """The places of some answers, each read alone."""
    record: dict[str, Place] = {}
    for value in values:
        reading, copy = Reading(), Copying(3_000).copy(value)
        reading.read(copy, copy)
        for path, seen in reading.places.items():
            if path in record or len(record) < Reading.most_places:
                record.setdefault(path, Place()).count(seen, 1.0, 1)
    return record


def schema_of(*values: object) -> dict[str, Any]:
    """The exact schema of some answers."""
    return build_schema(record_of(*values), Audience(sees_all=True), is_exact=True)


def test_types_and_presence_are_merged_into_a_schema() -> None:
    """A key that was always there is required; integers among fractions are numbers."""
    schema = schema_of(
        {"rows": [{"id": 1, "note": None}, {"id": 2, "note": "x", "paid": True}], "total": 3},
        {"rows": [], "total": 2.5},
    )

    assert schema == {
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
    record = record_of({"a": 1}, {"a": 1, "b": 2}, {}, None)

    assert {kind: each.weight for kind, each in record[""].kinds.items()} == {"object": 3, "null": 1}
    assert {path: record[path].all_weight() for path in ("a", "b")} == {"a": 2, "b": 1}


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
    record = record_of({"name": "Ada", key: 1})

    assert build_schema(record, Audience(sees_all=True), is_exact=True) == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": {"type": "integer"},
    }
    assert not key or key not in msgspec.json.encode(record).decode()


@pytest.mark.parametrize(
    "key", ["id", "@type", "$ref", "content-type", "startDate", "sha256", "xml:lang", "größe", "_id", "a.b"]
)
def test_keys_that_look_like_names_are_kept(key: str) -> None:
    """As servers write them."""
    assert schema_of({key: 1})["properties"] == {key: {"type": "integer"}}


def test_an_object_with_very_many_keys_is_a_mapping() -> None:
    """In one answer, and over many: then the keys are data whatever they look like."""
    rates = {"type": "object", "additionalProperties": {"type": "integer"}}
    names = [f"{one}{other}" for one in "abcdefghij" for other in "abcdefghij"]

    assert schema_of(dict.fromkeys(names, 1)) == rates
    assert schema_of(*({name: 1} for name in names)) == rates
    assert schema_of(*({name: 1} for name in names[:20])) == rates


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=6))
def test_all_that_was_seen_fits_the_schema(values: list[Any]) -> None:
    """Whatever it was."""
    validator = jsonschema_rs.validator_for(schema_of(*values))

    assert [value for value in values if not validator.is_valid(value)] == []


@settings(max_examples=60)
@given(VALUES, VALUES, VALUES)
def test_the_order_of_answers_does_not_matter(one: Any, two: Any, three: Any) -> None:
    """Nor does it matter that the record was stored in between."""
    stored = msgspec.json.decode(msgspec.json.encode(record_of(one, two, three)), type=dict[str, Place])

    assert stored == record_of(three, two, one)


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
def test_a_hostile_answer_has_a_small_record(name: str) -> None:
    """Its size and the work for it are bounded; it raises nothing."""
    record = record_of(HOSTILE[name], HOSTILE[name])

    assert record[""].all_weight() == 2
    assert len(msgspec.json.encode(record)) < 100_000
    assert len(msgspec.json.encode(schema_of(HOSTILE[name]))) < 100_000


def test_nothing_is_said_of_a_part_that_was_not_read() -> None:
    """Not even by an answer that comes later: nothing is known of the earlier ones."""
    deep: Any = {"a": 1}
    for _ in range(8):
        deep = [deep]
    schema = schema_of(deep, [[[[[[[[{"a": 1}]]]]]]]])

    for _ in range(8):
        schema = schema["items"]
    assert schema == {}


def test_many_different_answers_have_a_small_record() -> None:
    """Over time too: new places are not taken in when there are too many."""
    source = random.Random(5)
    names = [f"{one}_{other}" for one in "abcdefghij" for other in "klmnop"]
    record = record_of(*({source.choice(names): {source.choice(names): {source.choice(names): 1}}} for _ in range(600)))

    assert len(record) == Reading.most_places
    assert len(msgspec.json.encode(record)) < 100_000
    assert record[""].weight("object") == 600
