"""What is learned of answers: fields, types, and what may be missing; never a value."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.learning.learned_shapes import HALF_LIFE, TOOL, learn, run, schema_of, shape_of, spec

from benchmarks.learning.answers import KINDS, answer, declare
from benchmarks.learning.shapes import fields_of
from sealyard.catalog.shapes import Reading
from sealyard.learning.part import Insight, Lesson, Viewer
from sealyard.learning.shapes import ALL_PLACES, TOOLS, Shapes, prepare_answers
from sealyard.values.facts import Hinted


def _row(number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"id": number, "status": ("open", "closed")[number % 2], "amount": 3.5 + number}
    return row | ({"note": "Late, as ever."} if number % 3 else {})


def test_answers_are_merged_into_a_schema() -> None:
    """Types and what may be missing, in the order in which fields came."""
    shapes = learn(Shapes(), [{"rows": [_row(number) for number in range(20)], "next": None}])

    assert schema_of(shapes) == {
        "type": "object",
        "properties": {
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "integer"},
                        "status": {"type": "string"},
                        "amount": {"type": "number"},
                        "note": {"type": "string"},
                    },
                    "required": ["id", "status", "amount"],
                },
            },
            "next": {"type": "null"},
        },
        "required": ["rows", "next"],
    }


def test_counts_are_told_with_the_shape() -> None:
    """How many answers, of how many principals, and when the last one came."""
    found = shape_of(learn(Shapes(), [{"a": 1}] * 4, at=50.0), now=50.0)

    assert found is not None
    assert (found.answers, found.principals, found.last_at) == (8, 2, 50.0)


def test_a_value_of_several_types_has_all_of_them() -> None:
    """Integers among fractions are numbers; null is a type of its own."""
    shapes = learn(Shapes(), [{"a": 1}, {"a": 1.5}, {"a": None}, {"a": [1]}])

    assert schema_of(shapes)["properties"]["a"] == {
        "type": ["array", "number", "null"],
        "items": {"type": "integer"},
    }


def test_keys_that_are_data_are_counted_together() -> None:
    """Ids and dates are no fields, whatever stands under them."""
    shapes = learn(Shapes(), [{"by_day": {"2025-01-02": 1, "2025-01-03": 2}}, {"by_day": {"u48213": 4}}])

    assert schema_of(shapes)["properties"]["by_day"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


def test_old_evidence_fades_and_is_gone_in_the_end() -> None:
    """A field that was last seen ten half-lives ago is none any more; the others stay."""
    shapes = learn(Shapes(), [{"a": 1, "old": 1}], at=1.0)
    learn(shapes, [{"a": 1}], at=1.0 + 10 * HALF_LIFE)

    assert schema_of(shapes, now=1.0 + 10 * HALF_LIFE) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
    }
    assert shape_of(shapes, now=1.0 + 30 * HALF_LIFE) is None


def test_a_new_major_version_begins_anew_and_an_older_one_is_past() -> None:
    """What was learned of another major version is neither shown nor mixed in."""
    shapes = learn(Shapes(), [{"a": 1}], version="1.2.0")
    learn(shapes, [{"b": 1}], version="2.0.0")
    learn(shapes, [{"c": 1}], version="1.9.0")

    assert schema_of(shapes, tool=spec(version="2.1.0"))["properties"] == {"b": {"type": "integer"}}
    assert shape_of(shapes, tool=spec(version="1.2.0")) is None


def test_only_answers_are_learned_from() -> None:
    """Neither calls that failed, nor answers that were too large, nor a version that is none."""
    good = run([{"a": 1}])
    call = good.calls[0]
    others = [
        msgspec.structs.replace(call, has_answer=False),
        msgspec.structs.replace(call, error="ToolFailed: no"),
        msgspec.structs.replace(call, version="newest"),
    ]
    evidence = msgspec.structs.replace(good, calls=(*others, call))

    assert [(each.tool, each.major, each.answers) for each in prepare_answers(evidence)] == [(TOOL, 1, 1)]


# Who may see what


def test_what_one_principal_has_seen_is_shown_to_itself_only() -> None:
    """A field, a type: two principals must have seen it, or who looks."""
    shapes = learn(Shapes(), [{"a": 1}])
    learn(shapes, [{"a": "x", "mine": 1}], "ann")

    common = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert schema_of(shapes) == common
    assert schema_of(shapes, viewer="bob") == common
    assert schema_of(shapes, viewer="carl") == common
    assert schema_of(shapes, viewer="ann")["properties"] == {
        "a": {"type": ["string", "integer"]},
        "mine": {"type": "integer"},
    }


def test_who_is_alone_sees_everything() -> None:
    """Unless the journal knows another principal: then the gateway is mistaken, or not the only one."""
    shapes = learn(Shapes(), [{"a": 1}], "ann")

    assert schema_of(shapes) == {}
    assert schema_of(shapes, is_alone=True)["properties"] == {"a": {"type": "integer"}}
    assert schema_of(shapes, is_alone=True, viewer="ann")["properties"] == {"a": {"type": "integer"}}
    assert schema_of(shapes, is_alone=True, viewer="bob") == {}

    learn(shapes, [{"b": 1}], "bob", tool="mcp__db__other")
    assert schema_of(shapes, is_alone=True) == {}


def test_the_seventeenth_principal_takes_the_place_of_the_one_heard_least_lately() -> None:
    """What only that one had seen is then nobody's."""
    shapes = learn(Shapes(), [{"first": 1}], "p0", "p1")
    learn(shapes, [{"later": 1}], *(f"p{number}" for number in range(2, 18)))

    assert schema_of(shapes)["properties"] == {"later": {"type": "integer"}}


# Values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([("open", "shut")[number % 2] for number in range(60)], "string"),
        (["__PII_phone_0123456789ab__"] * 60, "string"),
        (list(range(60)), "integer"),
        ([0.5] * 60, "number"),
    ],
)
def test_no_value_is_shown_however_often_it_was_seen(values: list[Any], kind: str) -> None:
    """Two texts in turn, a token, numbers within bounds: the type alone."""
    shapes = learn(Shapes(), [{"status": each} for each in values])

    assert schema_of(shapes)["properties"] == {"status": {"type": kind}}


# The part as a whole


def test_it_says_how_often_it_was_right() -> None:
    """From the sixth answer on each run is held against what was known before."""
    shapes = learn(Shapes(), [{"a": 1}] * 3)
    learn(shapes, [{"a": 1}], "ann")
    learn(shapes, [{"a": None}, {"a": "x"}, {}, {"a": 1, "b": 2}], "bob", at=9.0)

    assert shapes.insights(Viewer("", 9.0, HALF_LIFE)) == msgspec.structs.replace(
        shapes.insights(Viewer("", 9.0, HALF_LIFE)),
        part="shapes",
        learned=1,
        evidence=11,
        checked=6,
        right=3,
        accuracy=0.5,
        items=(
            Insight(
                kind="shape",
                subject=TOOL,
                text="Its answers have 2 fields.",
                evidence=pytest.approx(11.0, abs=0.01),  # type: ignore[arg-type]
                principals=2,
                checked=6,
                right=3,
                last_at=9.0,
            ),
        ),
    )


def test_a_shape_that_was_told_is_scored_by_the_next_answer() -> None:
    """Even while little is known; other hints and other tools do not matter."""
    shapes = learn(Shapes(), [{"a": 1}], "ann")
    for hint, subject in (("shape", TOOL), ("shape", TOOL), ("chain", TOOL), ("shape", "mcp__db__none")):
        event = Hinted(at=2.0, principal="ann", hint=hint, subject=subject)  # type: ignore[arg-type]
        shapes.learn(Lesson(number=0, event=event), HALF_LIFE)
    learn(shapes, [{"a": 2}, {"a": 3}], "ann")

    assert (shapes.tools[TOOL].checked, shapes.tools[TOOL].right) == (1, 1)


def test_memory_is_bounded_and_the_tools_heard_last_stay() -> None:
    """Tools, places of one, and places of all."""
    shapes = Shapes()
    for number in range(TOOLS + 3):
        learn(shapes, [{"a": 1}], "ann", tool=f"mcp__db__t{number}")
    assert len(shapes.tools) == TOOLS
    assert next(iter(shapes.tools)) == "mcp__db__t3"

    wide = {f"part_{chr(97 + n)}": {f"f{chr(97 + m)}{n}": m for m in range(16)} for n in range(16)}
    for number in range(ALL_PLACES // Reading.most_places + 3):
        learn(shapes, [wide], "ann", tool=f"mcp__db__w{number}")
    assert sum(len(each.places) for each in shapes.tools.values()) <= ALL_PLACES
    assert max(len(each.places) for each in shapes.tools.values()) == Reading.most_places


def test_a_flood_of_odd_keys_drives_no_common_field_out() -> None:
    """Whoever calls a tool that echoes cannot make others lose what they know of it."""
    shapes = learn(Shapes(), [{"status": "open", "title": "x"}] * 3)
    before = schema_of(shapes, viewer="bob")
    for number in range(40):
        keys = {f"key_{chr(97 + number % 26)}{chr(97 + n % 26)}{'xyz'[n % 3]}": 1 for n in range(60)}
        learn(shapes, [{"status": "open", "title": "x", **keys}], "mallory")

    assert len(shapes.tools[TOOL].places) <= Reading.most_places + 100
    assert schema_of(shapes, viewer="bob") == before


ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["open", "shut", "a b", "__PII_x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "status", "a b", "x1", "", "alice", "\0"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["ann", "bob", "carl"]), ANSWERS, st.floats(0, 1e9)), max_size=8))
@example([("ann", {"status": 5e-324}, 0.0)])
def test_the_same_runs_make_the_same_bytes_and_can_be_read_back(runs: list[tuple[str, Any, float]]) -> None:
    """Whatever was answered; and what is told fits a schema of JSON."""
    made = []
    for _ in range(2):
        shapes = Shapes()
        for principal, given_answer, at in runs:
            evidence = run([given_answer], principal, at=at)
            shapes.learn(Lesson(number=0, event=evidence, answers=prepare_answers(evidence)), HALF_LIFE)
        made.append(msgspec.msgpack.encode(shapes))
        msgspec.json.encode(schema_of(shapes, now=1e9, viewer="ann"))

    assert made[0] == made[1]
    assert msgspec.msgpack.encode(msgspec.msgpack.decode(made[0], type=Shapes)) == made[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_declared_schemas_of_every_kind_are_found_again(kind: str) -> None:
    """No field that is not declared, and nearly all that are, from thirty answers to each of two principals."""
    chance = random.Random(kind)
    schema = declare(kind, chance)
    shapes = Shapes()
    for number in range(60):
        learn(shapes, [answer(schema, chance)], ("ann", "bob")[number % 2])
    learned = schema_of(shapes)
    found, declared = dict(fields_of(learned, learned)).keys(), dict(fields_of(schema, schema)).keys()

    assert found <= declared
    assert len(found) >= 0.85 * len(declared)
