"""The barrier between requests and what was learned: whatever a lookup does, the request goes on."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import NoReturn

import pytest

from sealyard.learning.guidance import Barrier


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def broken() -> NoReturn:
    """A lookup in a model that is not what it should be."""
    raise KeyError("gone")


def taking(clock: Clock, seconds: float) -> Callable[[], str]:
    """A lookup that takes so long."""

    def look() -> str:
        clock.now += seconds
        return "found"

    return look


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as an error."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError(), AssertionError()])
def test_a_lookup_that_raises_is_answered_otherwise_and_left_out(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The part is asked again after five minutes, and not before; the log has the traceback once."""
    clock = Clock()
    barrier = Barrier(clock)
    asked: list[str] = []

    def look() -> str:
        asked.append("now")
        raise error

    answers = [barrier.ask("risk", look, "nothing") for _ in range(3)]
    clock.now += 299
    early = barrier.is_off("risk")
    clock.now += 2
    later = barrier.ask("risk", lambda: "found", "nothing")

    assert (answers, len(asked), early, later) == (["nothing"] * 3, 1, True, "found")
    assert barrier.faults == {"risk": 1}
    assert messages(caplog) == ["Lookup in risk failed; the part is off for five minutes."]
    assert caplog.records[0].exc_info is not None


def test_a_part_that_fails_leaves_the_others_alone() -> None:
    """Each is switched off by itself."""
    barrier = Barrier(Clock())

    assert barrier.ask("risk", broken, None) is None
    assert barrier.ask("shapes", lambda: "found", None) == "found"
    assert (barrier.is_off("risk"), barrier.is_off("shapes")) == (True, False)


def test_what_ends_the_request_is_let_through() -> None:
    """A cancelled request is cancelled, and no part is to blame."""
    barrier = Barrier(Clock())

    def look() -> NoReturn:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        barrier.ask("risk", look, None)
    assert barrier.faults == {}


@pytest.mark.parametrize(
    ("took", "left_out_after"),
    [
        ([0.05, 0.05, 0.05], 3),
        ([0.05, 0.001] * 10, 7),  # a request that asks twice, once quickly
        ([0.05, 0.05, *[0.001] * 25, 0.05, 0.05, 0.05], 30),
        ([0.05, *[0.001] * 12] * 10, None),
        ([0.019] * 10, None),
    ],
)
def test_a_part_that_is_slow_again_and_again_is_left_out(
    took: list[float], left_out_after: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What it found is used until then; one that is slow now and then is forgiven."""
    clock = Clock()
    barrier = Barrier(clock, spent=clock)
    answers = [barrier.ask("ranking", taking(clock, seconds), "text") for seconds in took]
    used = len(took) if left_out_after is None else left_out_after
    is_off = left_out_after is not None

    assert answers == ["found"] * used + ["text"] * (len(took) - used)
    assert (barrier.is_off("ranking"), barrier.faults) == (is_off, {"ranking": 1} if is_off else {})
    expected = ["Lookups in ranking are slow; the part is off for five minutes."]
    assert messages(caplog) == (expected if is_off else [])


def test_lookup_that_waits_for_the_processor_is_not_slow() -> None:
    """On a busy machine time goes by that a lookup has not spent."""
    clock = Clock()
    barrier = Barrier(clock, spent=lambda: 0.0)

    assert [barrier.ask("ranking", taking(clock, 0.05), "text") for _ in range(5)] == ["found"] * 5
    assert not barrier.is_off("ranking")


def test_what_fails_for_one_is_not_taken_from_others() -> None:
    """Code that is made to break a lookup breaks it for who wrote it."""
    barrier = Barrier(Clock())

    assert barrier.ask("risk", broken, "nothing", who="mal") == "nothing"
    assert barrier.ask("risk", lambda: "found", "nothing", who="ann") == "found"
    assert barrier.ask("risk", lambda: "found", "nothing", who="mal") == "nothing"
    assert barrier.faults == {"risk": 1}


def test_what_is_remembered_of_callers_is_bounded() -> None:
    """Those that failed last; a barrier must not grow with the names of who asks."""
    barrier = Barrier(Clock())
    for number in range(5_000):
        barrier.ask("risk", broken, None, who=f"p{number}")

    assert (barrier.is_off("risk", "p4999"), barrier.is_off("risk", "p0")) == (True, False)
    assert barrier.faults == {"risk": 5_000}


async def test_a_thread_that_raises_is_answered_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    """As on the event loop: once, and then not for five minutes; a time-out of its own is a fault like any other."""

    def late() -> NoReturn:
        raise TimeoutError

    barrier = Barrier()
    answers = [await barrier.ask_beside("code", broken, "nothing") for _ in range(2)]
    answers.append(await barrier.ask_beside("failures", late, "nothing"))

    assert answers == ["nothing"] * 3
    assert barrier.faults == {"code": 1, "failures": 1}
    assert messages(caplog) == [
        "Lookup in code failed; the part is off for five minutes.",
        "Lookup in failures failed; the part is off for five minutes.",
    ]


async def test_a_thread_that_hangs_does_not_hold_the_request(caplog: pytest.LogCaptureFixture) -> None:
    """The request goes on without it, and at the third time the part is left out."""
    release = threading.Event()
    barrier = Barrier(beside_seconds=0.01)
    try:
        async with asyncio.timeout(20):
            answers = [await barrier.ask_beside("code", release.wait, "nothing") for _ in range(4)]
    finally:
        release.set()

    assert answers == ["nothing"] * 4
    assert barrier.faults == {"code": 1}
    assert messages(caplog) == ["Lookups in code are slow; the part is off for five minutes."]


async def test_a_thread_that_answers_is_heard() -> None:
    """The usual case."""
    assert await Barrier().ask_beside("code", lambda: "found", "nothing") == "found"
