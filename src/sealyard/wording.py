"""Words of error messages: suggestions at their end, and long texts cut."""

import difflib
from collections.abc import Iterable

_COMPARED_CHARACTERS = 100
"""Bound on names that are compared, because others choose them and a comparison takes quadratic time."""
_ERROR_CHARACTERS = 4_000  # of an error's text, which the server chooses
COMPLAINT_CHARACTERS = 64_000
"""Of an error before it is scanned: the shown text is cut from its middle, far from where this cuts."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None if none is like it."""
    compared = [each for each in known if len(each) <= _COMPARED_CHARACTERS]
    near = difflib.get_close_matches(name[:_COMPARED_CHARACTERS], compared, n=1)
    return near[0] if near else None


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """`Did you mean 'x'?` for the known name most like `name`, or `otherwise` if none is like it."""
    near = closest(name, known)
    return otherwise if near is None else f"Did you mean {near!r}?"


def nearest(name: str, known: Iterable[str]) -> str:
    """`Nearest: x, y.` for the known names most like `name`, or an empty string if none is like it."""
    near = difflib.get_close_matches(name[:_COMPARED_CHARACTERS], list(known), n=3)
    return f"Nearest: {', '.join(near)}." if near else ""


def short(text: str, characters: int = _ERROR_CHARACTERS) -> str:
    """`text`, cut in its middle if it is longer: an error states its kind first and the remedy last."""
    if len(text) <= characters:
        return text
    half = characters // 2 - 10
    return f"{text[:half]} […] {text[-half:]}"
