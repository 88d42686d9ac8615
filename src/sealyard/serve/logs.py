"""A log that nobody outside can fill: lines from the same place are counted instead of repeated."""

import logging
import time
from collections.abc import Callable

_LINES = 20  # from one place in one interval: more than an operator reads, and than different events need
_SECONDS = 60.0


class RepeatFilter(logging.Filter):
    """Lets through twenty lines a minute from each place in the code, and says how many it held back.

    What a line says does not matter: whoever sends requests may choose the words.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], tuple[float, int]] = {}
        """Each place -> when its interval began, and how many lines there were in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        place, now = (record.pathname, record.lineno), self._clock()
        began, count = self._places.get(place, (now, 0))
        held_back = 0
        if now - began >= _SECONDS:
            began, count, held_back = now, 0, max(0, count - _LINES)
        self._places[place] = began, count + 1
        if count >= _LINES:
            return False
        if held_back:
            record.msg, record.args = f"{record.getMessage()} ({held_back:,} more like this before)", None
        elif count == _LINES - 1:
            left = _SECONDS - (now - began)
            record.msg, record.args = f"{record.getMessage()} (more like this are counted for {left:.0f} s)", None
        return True
