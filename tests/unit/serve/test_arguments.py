"""Arguments as clients write them, read as they are meant."""

from typing import Any

import pytest

from sealyard.serve.arguments import as_meant, with_decoded
from sealyard.skills import SaveSkill
from sealyard.yard import AnalyzeRequest

ROWS = [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_an_optional_argument_that_says_nothing_is_absent(nothing: Any) -> None:
    """smolagents makes a model give every argument: beside rows it gives an empty source."""
    given = {"analysis_type": "filter", "data": ROWS, "source": nothing, "parameters": nothing}

    assert as_meant(given, AnalyzeRequest) == {"analysis_type": "filter", "data": ROWS}


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
    ["int", "[1, 2", "[" * 100_000, '["' + "x" * (1 << 18) + '"]'],
    ids=["a type", "broken", "deep", "long"],
)
def test_a_text_that_holds_none_stays_a_text(text: str) -> None:
    """However deep or long it is, it is not searched for long: what reads it refuses it."""
    assert with_decoded({"output": text}, SaveSkill)["output"] == text


def test_code_that_looks_like_json_stays_code() -> None:
    """Arguments that are texts are never decoded."""
    given = {"name": "[1]", "code": "[1, 2]", "description": '{"a": 1}'}

    assert with_decoded(given, SaveSkill) == given
