"""A log that nobody outside can fill, and that never ends what wants to log."""

import io
import logging
from collections.abc import Iterator

import pytest

from sealyard.errors import VaultError
from sealyard.serve.logs import ConcealingFilter, RepeatFilter


class Clock:
    """A time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """What it says."""
        return self.now


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO, Clock]]:
    """A logger whose handler has the filter, what it writes, and its clock."""
    written, clock = io.StringIO(), Clock()
    logger = logging.getLogger("tests.log_repeats")
    handler = logging.StreamHandler(written)
    handler.addFilter(RepeatFilter(clock=clock))
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, written, clock
    logger.removeHandler(handler)
    logger.propagate = True


def test_lines_from_one_place_are_counted_after_twenty(
    logged: tuple[logging.Logger, io.StringIO, Clock],
) -> None:
    """Whatever they say: the words may be chosen by who causes them. The next minute says how many there were."""
    logger, written, clock = logged
    for number in range(1_000):
        if number == 990:
            clock.now += 61
        logger.warning(f"100% wrong: {number}")
    lines = written.getvalue().splitlines()

    assert lines[:19] == [f"100% wrong: {number}" for number in range(19)]
    assert lines[19] == "100% wrong: 19 (more like this are counted for 60 s)"
    assert lines[20:22] == ["100% wrong: 990 (970 more like this before)", "100% wrong: 991"]
    assert len(lines) == 30


def test_other_places_are_not_held_back(logged: tuple[logging.Logger, io.StringIO, Clock]) -> None:
    """What matters is still seen while one place floods."""
    logger, written, _ = logged
    for _ in range(100):
        logger.warning("the same")
    logger.warning("something else")

    assert written.getvalue().splitlines()[20:] == ["something else"]


def test_a_line_that_cannot_be_concealed_is_withheld_and_ends_nothing() -> None:
    """A detector that fails must not raise in whatever logs, nor let the line through."""

    def failing(text: str) -> str:
        raise VaultError("The vault is full.")

    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "private %s", ("Ula Holt",), None)

    assert ConcealingFilter(failing).filter(record) is True
    assert record.getMessage() == "(This line could not be searched for private values and is withheld.)"
