"""Values as JSON text that can be read again.

NaN and the infinities become null. A lone surrogate is kept as its escape. A value that is too large, or that JSON
cannot hold, is left out and marked as cut.
"""

import re
from typing import Any

import msgspec

_CONTEXT_BYTES = 1 << 20
"""Of the context of an execution: agents pass whole answers in it."""
_SPARE_LEVELS = 32
"""Levels of nesting kept in reserve for a reader deeper in its stack."""
_LONG_NUMBER = re.compile(r"-[0-9]{4300}")
"""The only number that `msgspec` writes and cannot read: its limit counts the sign, and Python's does not."""
_FEW_BRACKETS = 200
"""Text with fewer brackets can be read: nesting fails at about a thousand levels."""

_ENCODER = msgspec.json.Encoder()


def encode_context(context: Any) -> tuple[str | None, bool]:
    """JSON text of a context, and True if it was left out."""
    return encode_within(context, _CONTEXT_BYTES)


def encode_within(value: Any, most_bytes: int) -> tuple[str | None, bool]:
    """JSON text of a value, and True if it was left out."""
    if value is None:
        return None, False
    if is_longer(value, most_bytes):
        return None, True
    text = encode_json(value)
    if text is None or len(text) > most_bytes:
        return None, True
    return text, False


def is_longer(value: Any, most: int) -> bool:
    """True if the JSON text of a value is surely longer than `most`, judged by its parts without encoding it.

    Encoding a megabyte blocks other threads for some milliseconds, and checking the text ten times as long.
    """
    waiting = [value]
    for item in waiting:  # grows during the loop
        if isinstance(item, (str, bytes)):
            most -= len(item)
        elif isinstance(item, (dict, list, tuple)):
            if len(item) > most:
                return True
            waiting += item
            if isinstance(item, dict):
                waiting += item.values()
        most -= 1
        if most < 0:
            return True
    return False


def encode_json(value: Any) -> str | None:
    """JSON text that can be read again; None if there is none."""
    try:
        try:
            return encode_strictly(value)
        except UnicodeEncodeError:
            return encode_strictly(_mend(msgspec.to_builtins(value)))
    except (msgspec.DecodeError, OverflowError, RecursionError, TypeError, ValueError):
        return None


def encode_strictly(value: Any) -> str:
    """JSON text that can be read again. Raises what `encode_json` and `msgspec` name for a value that has none."""
    text = _ENCODER.encode(value).decode()
    if text.count("[") + text.count("{") > _FEW_BRACKETS:
        # Inside some more lists: text nested almost too deeply may be unreadable deeper in a stack.
        for _ in range(_SPARE_LEVELS):
            value = [value]
        _ENCODER.encode(value)
    if _LONG_NUMBER.search(text):
        msgspec.json.decode(text)  # raises, unless that is part of a string
    return text


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_mend(key): _mend(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mend(each) for each in value]
    return value


def storable(text: str) -> str:
    """The text with an escape for each lone surrogate, which no database takes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
