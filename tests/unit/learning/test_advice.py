"""Advice on failures that have the same way out with every tool."""

import pytest
from tests.unit.learning.failure_runs import IMPORT, cause_of, make_call, make_run

from sealyard.learning.failures import standing_advice
from sealyard.values.facts import CallEvidence, RunEvidence

GATHER = "Its calls wait for each other: `await asyncio.gather(*[… for …])` makes them at the same time."


def advised(run: RunEvidence) -> str | None:
    """The advice on a run that failed."""
    cause = cause_of(run)
    assert cause is not None
    return standing_advice(cause, run)


@pytest.mark.parametrize(
    ("message", "is_advised"),
    [
        ("Rate limit exceeded", True),
        ("The service is temporarily unavailable", True),
        ("The date is malformed", False),
        ("Internal error", False),
        ("Forbidden", False),
    ],
)
def test_tool_that_is_busy_is_told_to_be_called_later(message: str, is_advised: bool) -> None:
    """Its complaint chooses the sentence, and its words are in no hint."""
    run = make_run(
        IMPORT + "list_bookings()", ("ToolFailed", message), calls=(make_call(error=f"ToolFailed: {message}"),)
    )

    expected = "Wait a little between calls (`time.sleep`), make fewer of them at once, and try again."
    assert advised(run) == (expected if is_advised else None)


def timed_out(*calls: CallEvidence, kind: str = "wall_time") -> RunEvidence:
    """A run of one second that was stopped."""
    return make_run(IMPORT + "for n in range(9):\n    list_bookings(limit=n)", ("Timeout", "x"), kind=kind, calls=calls)


def call(started_at: float, seconds: float) -> CallEvidence:
    """A call at that time of the run."""
    return make_call(started_at=started_at, seconds=seconds)


def test_calls_that_wait_for_each_other_are_told_to_be_made_at_once() -> None:
    """Where they took most of the time of a run that ran out of it."""
    assert advised(timed_out(call(0.0, 0.4), call(0.4, 0.4))) == GATHER
    assert advised(timed_out(call(0.4, 0.5), call(0.0, 0.4), call(0.9, 0.1))) == GATHER


@pytest.mark.parametrize(
    "run",
    [
        timed_out(call(0.0, 0.9)),
        timed_out(call(0.0, 0.4), call(0.1, 0.9)),
        timed_out(call(0.0, 0.01), call(0.1, 0.01)),
        timed_out(call(0.0, 0.4), call(0.4, 0.4), kind="memory"),
    ],
    ids=["one call", "at the same time", "quick", "other limit"],
)
def test_calls_that_were_not_what_took_the_time_are_left_as_they_are(run: RunEvidence) -> None:
    """One call, calls at the same time, and calls beside which the code itself took long."""
    assert advised(run) is None
