"""Values that remember where in a text they stand."""

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeAlias

__all__ = ("Pieces", "PlacedFloat", "PlacedInt", "PlacedText", "place", "place_number", "undouble", "unescape")

Pieces: TypeAlias = tuple[list[int], list[int]]
"""Where each stretch of the decoded text begins, and where it begins in the text as written."""


class PlacedText(str):
    """A text with the offsets of what it was read from."""

    __slots__ = ("end", "escape", "pieces", "start")
    start: int
    end: int
    pieces: Pieces | None
    escape: str
    """What must stand before a quotation mark in it: a backslash, a second mark, or nothing."""

    def raw(self, offset: int) -> int:
        """The offset in the text it was read from."""
        if self.pieces is None:
            return self.start + offset
        decoded, written = self.pieces
        index = bisect_right(decoded, offset) - 1
        return self.start + written[index] + (offset - decoded[index])


class PlacedInt(int):
    """A whole number with its offsets."""

    start: int
    end: int


class PlacedFloat(float):
    """A number with its offsets."""

    start: int
    end: int


def place(value: str, start: int, end: int, pieces: Pieces | None = None, escape: str = "") -> PlacedText:
    """The value with its offsets."""
    placed = PlacedText(value)
    placed.start = start
    placed.end = end
    placed.pieces = pieces
    placed.escape = escape
    return placed


_INTEGER = re.compile(r"-?\d{1,40}")
_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?")


def place_number(written: str, start: int) -> PlacedInt | PlacedFloat | PlacedText:
    """The number that is written there, or the text if it is none of a common size."""
    placed: PlacedInt | PlacedFloat
    if _INTEGER.fullmatch(written):
        placed = PlacedInt(written)
    elif _NUMBER.fullmatch(written):
        placed = PlacedFloat(written)
    else:
        return place(written, start, start + len(written))
    placed.start = start
    placed.end = start + len(written)
    return placed


_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}|\\.",
    re.DOTALL,
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "\n": ""}


def unescape(written: str) -> tuple[str, Pieces]:
    """A string literal's text without its backslashes, as JSON and Python write them."""
    return _decode(written, _ESCAPE, _unescape)


def undouble(written: str) -> tuple[str, Pieces]:
    """A quoted CSV cell's text: a quotation mark is written twice in it."""
    return _decode(written, _DOUBLED, lambda _: '"')


_DOUBLED = re.compile('""')


def _unescape(escape: str) -> str:
    kind = escape[1]
    if len(escape) == 12:
        high, low = int(escape[2:6], base=16), int(escape[8:], base=16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(escape) > 2:
        code = int("0x" + escape[2:], base=0)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _LETTERS.get(kind, kind)


def _decode(written: str, pattern: re.Pattern[str], replace: Callable[[str], str]) -> tuple[str, Pieces]:
    parts: list[str] = []
    decoded: list[int] = []
    starts: list[int] = []
    length = last = 0
    for match in pattern.finditer(written):
        begin = match.start()
        if begin > last:
            parts.append(written[last:begin])
            decoded.append(length)
            starts.append(last)
            length += begin - last
        new = replace(match.group())
        if new:
            parts.append(new)
            decoded.append(length)
            starts.append(begin)
            length += 1
        last = match.end()
    parts.append(written[last:])
    decoded += [length, length + len(written) - last]
    starts += [last, len(written)]
    return "".join(parts), (decoded, starts)
