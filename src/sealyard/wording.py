"""Sentences that many messages end with."""

import difflib
from collections.abc import Iterable

_COMPARED_CHARACTERS = 100
"""Of a name that somebody else chose: comparing is quadratic."""


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """`Did you mean 'x'?` for the known name most like `name`, or `otherwise` if none is like it."""
    near = difflib.get_close_matches(name[:_COMPARED_CHARACTERS], list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else otherwise


def nearest(name: str, known: Iterable[str]) -> str:
    """`Nearest: x, y.` for the known names most like `name`, or nothing if none is like it."""
    near = difflib.get_close_matches(name[:_COMPARED_CHARACTERS], list(known), n=3)
    return f"Nearest: {', '.join(near)}." if near else ""
