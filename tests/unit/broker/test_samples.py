"""Samples of answers that are too large for the journal: what they keep, and what they never do."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.learning.learned_shapes import HALF_LIFE, TOOL, learn, run, schema_of

from sealyard.broker.admission import SAMPLE_BYTES, sample_of
from sealyard.learning.part import Lesson
from sealyard.learning.shapes import Shapes, prepare_answers
from sealyard.store import open_store
from sealyard.values.facts import CallEvidence, Executed, RunEvidence
from sealyard.values.runs import CallRecord, ExecutionRecord

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=90),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=70), inner, max_size=70),
    max_leaves=200,
)


def sampled(value: Any) -> Any:
    """A sample, read again."""
    text = sample_of(value)
    assert text is not None
    return json.loads(text)


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of which every third has a field that others lack."""
    return [
        {"order": number, "state": ("open", "paid")[number % 2], "note": "x" * 200}
        | ({"refund": 1.5} if number % 3 == 0 else {})
        for number in range(count)
    ]


def sampled_run(answer: Any, principal: str) -> RunEvidence:
    """A run whose answer was too large for the journal."""
    whole = run([None], principal)
    call = msgspec.structs.replace(whole.calls[0], has_answer=False, sample=sampled(answer))
    return msgspec.structs.replace(whole, calls=(call,))


def learn_sampled(shapes: Shapes, answer: Any, *principals: str) -> Shapes:
    """Let each principal get it three times."""
    for _ in range(3):
        for principal in principals or ("ann", "bob"):
            evidence = sampled_run(answer, principal)
            shapes.learn(Lesson(number=0, event=evidence, answers=prepare_answers(evidence)), HALF_LIFE)
    return shapes


def test_sample_has_first_rows_and_some_from_all_over_with_all_their_fields() -> None:
    """No text is cut: a long one is left empty."""
    found = sampled({"total": 5_000, "orders": rows(5_000)})

    assert found["total"] == 5_000
    assert [row["order"] for row in found["orders"]] == [*range(10), *range(10, 5_000, 499)]
    assert found["orders"][0] == {"order": 0, "state": "open", "note": "", "refund": 1.5}
    assert found["orders"][11] == {"order": 509, "state": "paid", "note": ""}


def test_rows_with_much_in_them_are_fewer() -> None:
    """A sample stays below its bound, and as many rows as that allows are in it."""
    wide = [{f"field_{number}": "some words of it " * 3 for number in range(50)} for _ in range(500)]
    found = sample_of(wide)

    assert found is not None
    assert len(found) <= SAMPLE_BYTES
    assert [len(row) for row in json.loads(found)] == [50] * 5


def test_keys_that_are_data_are_not_kept() -> None:
    """Of an object with more keys than fields could be, there are some values and no key; nor one that is too long."""
    found = sampled({"by_user": {f"user_{number}": {"count": number} for number in range(900)}, "k" * 65: 1})

    assert found == {"by_user": {f"\0key{number}": {"count": number} for number in range(20)}, "\0key1": 1}


def test_same_answer_has_the_same_sample() -> None:
    """Nothing in it is left to chance."""
    assert sample_of(rows(3_000)) == sample_of(rows(3_000))


@pytest.mark.parametrize(
    "answer",
    [
        "x" * 1_000_000,
        [[[["deep"] * 90] * 90] * 90] * 90,
        {"n": 10**4_000, "m": -(10**4_000), "nan": float("nan"), "inf": float("inf")},
        {"surrogate \ud800": ["\udfff"] * 70_000},
        {f"f{number}": {f"g{inner}": [{}] * 5 for inner in range(64)} for number in range(64)},
    ],
)
def test_odd_answer_has_a_small_sample_or_none(answer: Any) -> None:
    """Whatever an upstream answers, a sample is JSON in bounds."""
    found = sample_of(answer)

    assert found is None or (len(found) <= SAMPLE_BYTES and json.loads(found) is not None)


def test_answer_that_is_too_deep_to_be_written_has_a_sample_of_its_top() -> None:
    """What is nested without end is looked at for nine levels."""
    nested: Any = {}
    for _ in range(50_000):
        nested = {"in": [nested]}

    assert sampled({"total": 1, "tree": nested})["total"] == 1


def test_cost_does_not_grow_with_the_answer() -> None:
    """Of a list of any length only the rows that are taken are touched."""
    touched = []

    class Counting(list[Any]):
        def __getitem__(self, place: Any) -> Any:
            touched.append(place)
            return super().__getitem__(place)

    sample_of(Counting([1] * 1_000_000))

    assert touched == [*range(10), *range(10, 1_000_000, 99_999)]


@given(JSON)
def test_every_text_of_a_sample_is_one_of_the_answer(answer: Any) -> None:
    """Nothing is cut, joined or made up, but for what stands in the place of long texts and keys."""
    found = sample_of(answer)
    texts = set[str]()
    _collect(json.loads(json.dumps(answer)), texts)
    taken = set[str]()
    if found is not None:
        _collect(json.loads(found), taken)

    assert {text for text in taken if text and not text.startswith("\0key")} <= texts


def _collect(value: Any, texts: set[str]) -> None:
    if isinstance(value, str):
        texts.add(value)
    elif isinstance(value, dict):
        texts.update(value)
        for inner in value.values():
            _collect(inner, texts)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, texts)


# What is learned from them


def test_sample_teaches_the_shape_that_the_whole_answer_does() -> None:
    """Types and optional fields are the same."""
    answer = {"total": 5_000, "orders": [row | {"order": row["order"] % 9} for row in rows(5_000)]}

    assert schema_of(learn_sampled(Shapes(), answer)) == schema_of(learn(Shapes(), [answer] * 3))


def test_object_with_keys_that_are_data_is_one_in_a_sample_too() -> None:
    """No field is made of a key, and none of what stands in its place."""
    answer = {"by_user": {f"user{chr(97 + number % 26)}{number}": {"count": number} for number in range(900)}}

    assert schema_of(learn_sampled(Shapes(), answer)) == schema_of(learn(Shapes(), [answer] * 3))


def test_random_rows_teach_no_field_that_is_not_there() -> None:
    """Against the whole list, every field of a sample's shape exists, and what it calls required is in all its rows."""
    chance = random.Random(5)
    answer = [{f"field_{name}": 1 for name in "abcdefgh" if chance.random() < 0.9 or name == "a"} for _ in range(4_000)]
    items = schema_of(learn_sampled(Shapes(), answer))["items"]
    taken = sampled(answer)

    assert set(items["properties"]) == {f"field_{name}" for name in "abcdefgh"}
    assert items["required"] == [name for name in items["properties"] if all(name in row for row in taken)]


# In the journal


async def test_sample_comes_back_as_evidence_and_not_as_an_answer(tmp_path: Path) -> None:
    """Who reads the journal for another purpose sees that the answer was left out."""
    text = sample_of(rows(5_000))
    fact = Executed(at=1.0, principal="ann", execution_id="e1", form="code", status="ok", seconds=1, use_case="compute")
    record = ExecutionRecord(execution_id="e1", principal="ann", session="", code="", started_at=1.0)
    call = CallRecord(
        execution_id="e1",
        number=1,
        tool=TOOL,
        digest="d",
        arguments={},
        started_at=1.0,
        seconds=0.1,
        answer=rows(5_000),
        answer_bytes=1_000_000,
        answer_sample=text,
    )
    async with open_store(tmp_path / "s.db") as store:
        store.record_start(record)
        store.record_call(call)
        store.metrics.record(fact)
        await store.flush()
        page = await store.learning.events(0, 10)
        kept = await store.calls("e1")

    assert [(each.answer, each.answer_sample) for each in kept] == [(None, None)]
    events = [event for _, event in page.events if isinstance(event, RunEvidence)]
    assert [event.calls for event in events] == [
        (
            CallEvidence(
                number=1,
                tool=TOOL,
                version="1.0.0",
                arguments={},
                sample=sampled(rows(5_000)),
                started_at=1.0,
                seconds=0.1,
                answer_bytes=1_000_000,
            ),
        )
    ]
