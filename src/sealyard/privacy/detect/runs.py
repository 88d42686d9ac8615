"""Long runs of characters of one class, found at the speed of memory.

A pattern for sixteen characters of a class tries every place of every word. Here each character is first replaced by
one of two marks, and the run of marks is searched for as plain text: two calls in C for the lot.
"""

import re

WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

_IN = b"a"
_OUT = b" "


class Runs:
    """Finds runs of at least `least` of these ASCII characters."""

    def __init__(self, characters: str, *, least: int) -> None:
        self._marks = bytes(_IN[0] if chr(code) in characters else _OUT[0] for code in range(256))
        self._run = re.compile(_IN * least + _IN + b"*+")

    def find(self, text: str) -> list[tuple[int, int]]:
        """The start and end of each run, in order. Linear in the text."""
        marks = text.encode("ascii", "replace").translate(self._marks)
        return [run.span() for run in self._run.finditer(marks)]

    def are_in(self, text: str) -> bool:
        """True if the text has one."""
        return self._run.search(text.encode("ascii", "replace").translate(self._marks)) is not None
