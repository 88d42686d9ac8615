"""Recorded answers in the place of tools."""

import pytest

from sealyard.errors import NotRecorded, PolicyRefused, ToolFailed
from sealyard.skills.rehearsal import Recordings, Replay, equal, replayed_error
from sealyard.values.runs import CallRecord
from sealyard.values.skills import Trace, TraceCall


def _trace(*calls: tuple[str, dict, object]) -> Trace:
    return Trace(
        recorded_at=1.0,
        calls=tuple(
            TraceCall(tool=tool, version="1.0.0", arguments=arguments, answer=answer)
            for tool, arguments, answer in calls
        ),
    )


def _call(execution: str, number: int, tool: str, arguments: object, answer: object, **more: object) -> CallRecord:
    return CallRecord(
        execution_id=execution,
        number=number,
        tool=tool,
        digest="d",
        version="1.2.0",
        arguments=arguments,
        answer=answer,
        started_at=0.0,
        seconds=0.0,
        **{"answer_bytes": 10, **more},
    )


def test_the_same_call_gets_the_same_answer_whatever_the_order_of_its_arguments():
    """Keys are compared, not texts."""
    replay = Replay(_trace(("t", {"a": 1, "b": 2}, "x")))
    assert replay.answer("t", {"b": 2, "a": 1}) == "x"


def test_answers_to_one_call_come_in_the_order_in_which_they_were_recorded():
    """A search that is polled is running first and done then; asked once more, it is still done."""
    replay = Replay(_trace(("poll", {"id": 1}, "running"), ("poll", {"id": 1}, "done")))
    assert [replay.answer("poll", {"id": 1}) for _ in range(3)] == ["running", "done", "done"]


def test_a_call_that_was_not_recorded_is_refused_with_what_was():
    """Whoever reads it sees how the code asks otherwise now."""
    replay = Replay(_trace(("t", {"since": "2024"}, [])))
    with pytest.raises(NotRecorded) as caught:
        replay.answer("t", {"start": "2024"})
    assert str(caught.value) == 't with {"start":"2024"} is not in the recording. It holds t with {"since":"2024"}.'
    assert replay.problems == [str(caught.value)]


def test_a_tool_that_was_not_recorded_is_refused_with_those_that_were():
    """Also if there were none."""
    with pytest.raises(NotRecorded, match="It holds calls of mcp__x__list_rows"):
        Replay(_trace(("mcp__x__list_rows", {}, []))).answer("mcp__x__list_row", {})
    with pytest.raises(NotRecorded, match="It holds no call at all"):
        Replay(_trace()).answer("t", {})


def test_a_failure_is_replayed_as_the_error_it_was():
    """Code that handles it runs as it did."""
    trace = Trace(
        recorded_at=1.0,
        calls=(
            TraceCall(tool="t", version="1.0.0", arguments={}, error="PolicyRefused: No."),
            TraceCall(tool="t", version="1.0.0", arguments={"a": 1}, error="SomethingElse: Odd."),
        ),
    )
    with pytest.raises(PolicyRefused, match=r"^No\.$"):
        Replay(trace).answer("t", {})
    with pytest.raises(ToolFailed, match=r"^Odd\.$"):
        Replay(trace).answer("t", {"a": 1})


def test_a_recorded_error_names_no_class_but_an_error_of_ours():
    """Text of a journal is not turned into any name of a module."""
    assert type(replayed_error("Exception: x")) is ToolFailed
    assert type(replayed_error("annotations: x")) is ToolFailed
    assert str(replayed_error("no type at all")) == "no type at all"


def test_an_answer_that_was_too_large_says_so():
    """It is not taken for an empty one."""
    calls = [_call("e", 1, "t", {}, None, answer_bytes=9_000_000), _call("e", 2, "n", {}, None, answer_bytes=4)]
    recordings = Recordings(calls)
    assert recordings.find("t", {}).missing == "its answer of 9,000,000 bytes was too large to be recorded"
    assert recordings.find("n", {}).missing is None
    trace = Trace(recorded_at=1.0, calls=(recordings.find("t", {}),))
    with pytest.raises(NotRecorded, match="was called, but its answer of 9,000,000 bytes"):
        Replay(trace).answer("t", {})


def test_an_answer_with_files_is_not_replayed_without_them():
    """Code would open a file that is not there."""
    answer = [{"file": "a.png", "mime_type": "image/png", "bytes": 3}]
    assert "files" in Recordings([_call("e", 1, "t", {}, answer)]).find("t", {}).missing


def test_the_newest_execution_that_made_a_call_answers_it():
    """One that did not make it is passed over, and its own calls are not mixed with another's."""
    recordings = Recordings(
        [
            _call("new", 1, "a", {}, "new a"),
            _call("old", 1, "a", {}, "old a"),
            _call("old", 2, "b", {}, "old b 1"),
            _call("old", 3, "b", {}, "old b 2"),
        ]
    )
    assert recordings.find("a", {}).answer == "new a"
    assert recordings.find("a", {}).answer == "new a"
    assert [recordings.find("b", {}).answer for _ in range(2)] == ["old b 1", "old b 2"]
    assert recordings.find("c", {}) is None


@pytest.mark.parametrize(
    ("expected", "value", "is_equal"),
    [
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (1e300, 1.0000001e300, False),
    ],
)
def test_values_are_compared_as_json_but_for_the_last_digits(expected, value, is_equal):
    """Sums of floats may end differently; nothing else may."""
    assert equal(expected, value) is is_equal
