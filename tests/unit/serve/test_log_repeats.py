"""A log that nobody outside can fill, and that never ends what wants to log."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from sealyard.errors import VaultError
from sealyard.serve.logs import ConcealingFilter, RepeatFilter, filter_log


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


class Meanwhile(logging.StreamHandler[io.StringIO]):
    """A handler to which a line is written before and after a filter of it goes, as by another thread."""

    def removeFilter(self, filter: Any) -> None:  # noqa: A002, N802 - as it is in the library
        """Write, take it out, and write again."""
        logging.getLogger("mcp.before").error("Ula Holt")
        super().removeFilter(filter)
        logging.getLogger("mcp.after").error("Ula Holt")


def test_no_line_is_written_as_it_is_while_the_filters_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Withheld until there is a guard, concealed from then on, and never in between neither."""
    handler = Meanwhile(io.StringIO())
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    filter_log()
    logging.getLogger("mcp.early").error("Ula Holt")
    logging.getLogger("sealyard.serve.stdio").error("Ula Holt")
    logging.getLogger("sealyard.config").error("ours")
    filter_log(lambda text: text.replace("Ula Holt", "__PII__"))
    logging.getLogger("mcp.late").error("Ula Holt")

    withheld = "(This line could not be searched for private values and is withheld.)"
    assert handler.stream.getvalue().splitlines() == [
        f"mcp.early: {withheld}",
        f"sealyard.serve.stdio: {withheld}",
        "sealyard.config: ours",
        f"mcp.before: {withheld}",
        "mcp.after: __PII__",
        "mcp.late: __PII__",
    ]
