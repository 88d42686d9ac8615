"""The difference between a call that was rejected and the next accepted one."""

import pytest
from tests.unit.learning.failure_runs import IMPORT, cause_of, make_call, make_run

from sealyard.learning.causes import argument_of
from sealyard.learning.failures import Edit, edits
from sealyard.values.facts import CallEvidence, RunEvidence

TOOL = "bank.list_bookings"
FAILED = ("ToolFailed", "ValueError: no")
CODE = IMPORT + "rows = list_bookings(**given)"


def found(before: RunEvidence, after: RunEvidence) -> tuple[Edit, ...]:
    """The edits between two runs."""
    failed, then = cause_of(before), cause_of(after)
    assert failed is not None
    assert then is not None
    return edits(failed, then, is_same=before.code == after.code)


def rejected(*calls: CallEvidence, error: str = "no", **given: object) -> RunEvidence:
    """A run whose last call is rejected."""
    call = make_call(error=f"ToolFailed: {error}", arguments=given, number=len(calls) + 1)
    return make_run(CODE, ("ToolFailed", error), calls=(*calls, call))


def accepted(*calls: CallEvidence, **given: object) -> RunEvidence:
    """A run whose last call is accepted."""
    return make_run(CODE + "\nlen(rows)", calls=(*calls, make_call(arguments=given, number=len(calls) + 1)))


@pytest.mark.parametrize(
    ("before", "after", "edit"),
    [
        ({"since": "10/01/2024"}, {"since": "2024-10-01"}, ("value_kind", "since", "date")),
        ({"since": "Jan 3, 2024"}, {"since": "2024-01-03T00:00:00Z"}, ("value_kind", "since", "time")),
        ({"limit": "5"}, {"limit": 5}, ("value_kind", "limit", "int")),
        ({"limit": 5_000}, {"limit": 100}, ("smaller", "limit", "")),
        ({"limit": 1}, {"limit": 100}, ("larger", "limit", "")),
        ({"since": "a"}, {"since": "a", "limit": 5}, ("param_added", "", "limit")),
        ({"since": "a", "limit": 5}, {"since": "a"}, ("param_dropped", "limit", "")),
        ({"since": "a"}, {"after": "a"}, ("param_renamed", "since", "after")),
    ],
)
def test_change_in_what_was_sent_is_found_whatever_the_code_looks_like(
    before: dict[str, object], after: dict[str, object], edit: tuple[str, str, str]
) -> None:
    """The journal has the arguments of calls, so that variables hide nothing. Their values are not in the edit."""
    kind, name, to = edit

    assert found(rejected(**before), accepted(**after)) == (Edit(kind=kind, tool=TOOL, name=name, to=to),)


CALENDAR = make_call("mcp__bank__calendar", answer=[{"day": "2031-12-24-evening"}])


def test_tool_that_gave_the_value_is_found() -> None:
    """Calling another tool first, and passing on what it answers, is one edit."""
    assert found(rejected(since="x y"), accepted(CALENDAR, since="2031-12-24-evening")) == (
        Edit(kind="tool_first", tool=TOOL, name="since", to="bank.calendar"),
    )


@pytest.mark.parametrize(
    ("before", "calls", "value"),
    [
        ((CALENDAR,), (CALENDAR,), "2031-12-24-evening"),
        ((), (CALENDAR,), "2031-12-25-evening"),
        ((), (make_call("mcp__bank__calendar", answer=["24", {"day": "pm"}]),), "pm"),
        ((), (make_call("mcp__bank__calendar", error="ToolFailed: 2031-12-24-evening"),), "2031-12-24-evening"),
        ((), (make_call(answer=["2031-12-24-evening"]),), "2031-12-24-evening"),
    ],
    ids=["called before", "other value", "short value", "failed", "own answer"],
)
def test_tool_whose_answer_did_not_help_is_not_the_repair(
    before: tuple[CallEvidence, ...], calls: tuple[CallEvidence, ...], value: str
) -> None:
    """A value that is short is in many answers, and a tool that was called before did not make the difference."""
    kinds = [edit.kind for edit in found(rejected(*before, since="x y z"), accepted(*calls, since=value))]

    assert "tool_first" not in kinds


def test_other_tool_in_the_place_of_the_failed_one_is_the_repair() -> None:
    """If it is the only one that is new, and the failed one is not called any more."""
    other = make_call("mcp__bank__calendar", arguments={"since": "a"})
    third = make_call("mcp__bank__pay", number=2)

    assert found(rejected(since="a"), make_run(CODE + "\n1", calls=(other,))) == (
        Edit(kind="tool_instead", tool=TOOL, to="bank.calendar"),
    )
    assert found(rejected(since="a"), make_run(CODE + "\n1", calls=(other, third))) == ()


def test_same_call_that_works_later_was_not_at_fault() -> None:
    """Nothing changed, so the tool did: but after a call of another tool the state may have."""
    assert found(rejected(since="a"), accepted(since="a")) == (Edit(kind="again", tool=TOOL),)
    assert found(rejected(since="a"), accepted(CALENDAR, since="a")) == ()
    assert found(rejected(since="a", error="Too many requests."), accepted(since="a")) == ()


def test_call_that_keeps_within_a_limit_asks_for_less() -> None:
    """Of a run that was stopped only what can have made it smaller is its repair."""
    calls = tuple(make_call(arguments={"limit": 5_000, "since": "a"}, number=number) for number in range(3))
    stopped = make_run(CODE, ("TimeoutError", "It took too long."), kind="wall_time", calls=calls)

    assert found(stopped, accepted(limit=10, since="2024-10-01")) == (Edit(kind="smaller", tool=TOOL, name="limit"),)
    assert found(stopped, accepted(limit=9_000_000, since="2024-10-01")) == ()


@pytest.mark.parametrize(
    ("value", "kind", "size"),
    [
        (None, "none", 0),
        (True, "bool", 0),
        (5_000, "int", 13),
        (-3, "int", 0),
        (2.5, "float", 0),
        ("2024-10-01", "date", 0),
        ("x" * 900, "lower", 4),
        (["a", "b"], "list", 2),
        ({"a": 1}, "dict", 0),
    ],
)
def test_argument_is_described_without_its_value(value: object, kind: str, size: int) -> None:
    """By its kind, its order of magnitude and a hash."""
    one, same = argument_of(value), argument_of(value)

    assert (one.kind, one.size, one == same) == (kind, size, True)


def test_run_that_calls_many_tools_with_many_arguments_is_described_in_bounds() -> None:
    """And long names are not in it."""
    given: dict[str, object] = {f"key_{'abcdefghij'[number % 10]}{number}": number for number in range(90)}
    calls = tuple(
        make_call(f"mcp__bank__tool_{number}", arguments={"y" * 41: 1, **given}, number=number) for number in range(90)
    )
    cause = cause_of(make_run(CODE, calls=calls))

    assert cause is not None
    assert [len(cause.calls), max(map(len, cause.calls.values()))] == [16, 40]
    assert not any("y" * 41 in given for given in cause.calls.values())
