"""Log messages with nothing private in them."""

import logging
from collections.abc import Callable

_MOST_CHARACTERS = 2_000
_RAGGED_CHARACTERS = 200


class ConcealingFilter(logging.Filter):
    """Conceals what a handler writes; `conceal` is the way out for text.

    A traceback is cut down to its exception: it would show source lines, and frames say nothing to who runs a gateway.
    """

    def __init__(self, conceal: Callable[[str], str]) -> None:
        super().__init__()
        self._conceal = conceal

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the message by one that may be written."""
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        if len(message) > _MOST_CHARACTERS:
            # Words of others may be long and made to be slow. What is cut may be half of something private.
            message = f"{self._conceal(message[:_MOST_CHARACTERS])[:-_RAGGED_CHARACTERS]} […]"
        else:
            message = self._conceal(message)
        record.msg, record.args = message, None
        record.exc_info = record.exc_text = record.stack_info = None
        return True
