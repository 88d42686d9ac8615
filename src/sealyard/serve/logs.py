"""Filters of the log: clients cannot fill it, and it holds nothing private. `filter_log` installs them."""

import logging
import time
from collections.abc import Callable

from sealyard.errors import SealyardError

_WITHHELD = "(This line could not be searched for private values and is withheld.)"
_LINES = 20  # from one place in one interval: more than an operator reads, and than different events need
_SECONDS = 60.0  # the interval: a minute without repeats is soon enough for an operator
_MOST_CHARACTERS = 2_000  # of a message: foreign text may be long and slow to search
_RAGGED_CHARACTERS = 200  # cut off the end of a longer one, where half of something private may stand


def filter_log(conceal: Callable[[str], str] | None = None) -> None:
    """Filter every line of the log from now on, by `conceal` as soon as there is a guard to conceal by."""
    for handler in logging.getLogger().handlers:
        if conceal is None:
            handler.addFilter(RepeatFilter())
            handler.addFilter(_EarlyFilter(str))
        else:
            early = [each for each in handler.filters if isinstance(each, _EarlyFilter)]
            handler.addFilter(ConcealingFilter(conceal))  # before the others go: threads may write meanwhile
            for each in early:
                handler.removeFilter(each)


class RepeatFilter(logging.Filter):
    """Lets through twenty lines a minute from each place in the code, and counts the others.

    The text of a line does not matter: a client may choose it.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], tuple[float, int]] = {}
        """Place -> begin of its interval, and the number of lines in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is written."""
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


class ConcealingFilter(logging.Filter):
    """Conceals private values in what a handler writes, by the function `conceal`.

    A traceback is cut down to its exception: it would show source lines, and frames do not help an operator.
    """

    def __init__(self, conceal: Callable[[str], str]) -> None:
        super().__init__()
        self._conceal = conceal

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the message by a concealed one."""
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        try:
            if len(message) > _MOST_CHARACTERS:
                message = f"{self._conceal(message[:_MOST_CHARACTERS])[:-_RAGGED_CHARACTERS]} […]"
            else:
                message = self._conceal(message)
        except SealyardError:  # a filter that raises would end whatever wanted to log
            message = _WITHHELD
        record.msg, record.args = message, None
        record.exc_info = record.exc_text = record.stack_info = None
        return True


class _EarlyFilter(ConcealingFilter):
    """Withholds what is said about a client before there is a guard: the client may have chosen the words."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the message, unless it is of the gateway's own parts."""
        if not record.name.startswith("sealyard.") or record.name.startswith("sealyard.serve."):
            record.msg, record.args, record.exc_info = _WITHHELD, None, None
        return super().filter(record)
