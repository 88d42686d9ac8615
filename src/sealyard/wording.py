"""Text of others made safe to show or cut, and suggestions at the end of error messages."""

import difflib
import re
from collections.abc import Iterable

_COMPARED_CHARACTERS = 100
"""Bound on names that are compared, because others choose them and a comparison takes quadratic time."""
_ERROR_CHARACTERS = 4_000  # of an error's text, which the server chooses
COMPLAINT_CHARACTERS = 64_000
"""Of an error before it is scanned: the shown text is cut from its middle, far from where this cuts."""

_KEPT = "\n\u200c\u200d"  # some scripts are not readable without the joiners
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def plain(text: str, *, limit: int | None = None) -> str:
    """`text` without invisible characters, such as those that reorder or hide the text around them.

    Over `limit` characters it is cut, and the cut is marked with `…`.
    """
    cut = limit is not None and len(text) > limit
    if cut:
        text = text[:limit]
    if not text.replace("\n", "").isprintable():
        text = _BREAKS.sub("\n", text).expandtabs(4)
        text = "".join(c if c in _KEPT or c.isprintable() else " " if c.isspace() else "" for c in text)
    return text.rstrip() + "…" if cut else text.strip()


def one_line(text: str, *, limit: int) -> str:
    """The first line of `text` that is not empty."""
    head = plain(text[: 4 * limit]).partition("\n")[0]
    return plain(" ".join(head.split()), limit=limit)


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
