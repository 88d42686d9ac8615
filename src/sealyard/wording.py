"""Suggestions at the end of error messages."""

import difflib
from collections.abc import Iterable

_COMPARED_CHARACTERS = 100
"""Bound on names that are compared, because others choose them and a comparison takes quadratic time."""


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
