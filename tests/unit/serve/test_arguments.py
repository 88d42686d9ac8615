"""Arguments as clients write them, read as they are meant."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.errors import InvalidRequest
from sealyard.skills import SaveSkill
from sealyard.yard import AnalyzeRequest
from sealyard.yard.surface.arguments import as_meant, with_decoded

ROWS = [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_an_optional_argument_that_says_nothing_is_absent(nothing: Any) -> None:
    """smolagents makes a model give every argument: beside rows it gives an empty source."""
    said = {"analysis_type": "filter", "data": ROWS, "source": nothing, "parameters": nothing}

    assert as_meant(said, AnalyzeRequest) == {"analysis_type": "filter", "data": ROWS}


@pytest.mark.parametrize("nothing", [0, 0.0])
def test_no_seconds_are_an_absent_limit(nothing: float) -> None:
    """A model that must give every argument gives it, and no run can take no time."""
    assert as_meant({"timeout_seconds": nothing, "timeout": nothing}, AnalyzeRequest) == {}
    assert as_meant({"timeout_seconds": False}, AnalyzeRequest) == {"timeout_seconds": False}


def test_an_empty_object_says_something_where_none_belongs() -> None:
    """A text or a list is expected: it is refused by what reads it."""
    assert as_meant({"session": {}}, AnalyzeRequest) == {"session": {}}
    assert as_meant({"examples": {}}, SaveSkill) == {"examples": {}}


@pytest.mark.parametrize("said", [0, False, []])
def test_what_is_false_but_said_stays(said: Any) -> None:
    """No rows are an answer, and zero is a mistake that the model is told about."""
    assert as_meant({"analysis_type": "filter", "data": said}, AnalyzeRequest)["data"] == said


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a": 2}]', '\n [{"a":1},{"a":2}]'])
def test_json_in_a_text_is_what_it_holds(text: str) -> None:
    """smolagents declares an argument without a type as a text."""
    assert with_decoded({"data": text}, AnalyzeRequest)["data"] == ROWS
    assert with_decoded({"examples": text}, SaveSkill)["examples"] == ROWS


@pytest.mark.parametrize(
    "text",
    [
        *("int", "[1, 2", "[" * 100_000, '["' + "x" * (1 << 17) + '"]', "[1e999]", "[NaN]", "[-Infinity]"),
        *(f"[{'1' * 5_000}]", r'["\ud800"]', r'{"\uDFFF": 1}'),
    ],
    ids=["a type", "broken", "deep", "long", "too large", "nan", "infinite", "digits", "half a pair", "half a key"],
)
def test_a_text_that_holds_none_stays_a_text(text: str) -> None:
    """However deep or long it is, it is not searched for long: what reads it refuses it."""
    assert with_decoded({"output": text}, SaveSkill)["output"] == text


def test_texts_are_bounded_together() -> None:
    """One request with several of them costs no more than one."""
    half = '["' + "x" * (1 << 16) + '"]'

    assert with_decoded({"inputs": half}, SaveSkill)["inputs"] == ["x" * (1 << 16)]
    assert with_decoded({"inputs": half, "examples": half}, SaveSkill) == {"inputs": half, "examples": half}


@pytest.mark.parametrize("text", ["[" * 201 + "]" * 201, '{"a":' * 201 + "1" + "}" * 201])
def test_json_in_a_text_is_no_deeper_than_other_data(text: str) -> None:
    """Whatever handles it later bears no more."""
    with pytest.raises(InvalidRequest, match=r"^data is nested more than 200 levels deep\. Send flatter data\.$"):
        with_decoded({"data": text}, AnalyzeRequest)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: isinstance(value, dict | list))
)
def test_json_in_a_text_is_read_as_it_was_written(value: Any) -> None:
    """Small and large numbers, and every character."""
    assert with_decoded({"data": json.dumps(value)}, AnalyzeRequest)["data"] == value
    assert with_decoded({"data": msgspec.json.encode(value).decode()}, AnalyzeRequest)["data"] == value


@pytest.mark.parametrize("nothing", ["null", "None", " NONE "])
def test_null_in_a_text_is_nothing_where_no_text_belongs(nothing: str) -> None:
    """A text may be that word, and so may the name of a type."""
    assert as_meant({"timeout_seconds": nothing, "source": nothing, "session": nothing}, AnalyzeRequest) == {
        "session": nothing
    }
    assert as_meant({"output": nothing, "tags": nothing}, SaveSkill) == {"output": nothing}


def test_a_choice_may_be_written_in_capitals() -> None:
    """Those who name a level or a kind mean the one there is."""
    said = {"analysis_type": " Filter", "isolation_level": "HARDENED"}

    assert as_meant(said, AnalyzeRequest) == {"analysis_type": "filter", "isolation_level": "hardened"}


def test_code_that_looks_like_json_stays_code() -> None:
    """Arguments that are texts are never decoded."""
    said = {"name": "[1]", "code": "[1, 2]", "description": '{"a": 1}'}

    assert with_decoded(said, SaveSkill) == said
