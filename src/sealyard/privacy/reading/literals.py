"""Reads JSON, and what Python and JavaScript print for data, from inside any text, with offsets.

Never fails: what is broken or cut off is read as far as it goes, so that a value in it is still seen under its name.
Reads each character once.
"""

import re
from typing import Any

from sealyard.privacy.reading.placed import PlacedText, place, place_number, unescape

__all__ = ("OPENING", "place_quoted", "read_literal")

OPENING = re.compile(
    r"""[{\[(](?:(?<=\{)\s*(?!""\w)(?:["'}]|[A-Za-z_$][\w$]*\s*:\s*["'\[{\d])"""
    r"""|(?<=\[)(?:\s*(?!""\w)(?:["'{\[(\]]|-?\d[\d.]*\s*[,\]])|(?=[A-Z]\w*\())"""
    r"""|(?<=\w\()(?=[A-Za-z_]\w*=[^=]))"""
)
"""Where data may begin. Not in a quoted cell of a table, where every mark is written twice. It starts with a set of
characters, which the engine passes over all others to find."""

_SCALAR = re.compile(
    r"""\s*(?:"([^"\\]*(?:\\.[^"\\]*)*)"|'([^'\\]*(?:\\.[^'\\]*)*)'|([{\[(])|([}\])])|,|([^\s,:{}\[\]()"'=<>]+))""",
    re.DOTALL,
)
_COLON = re.compile(r"\s*(?::|=>|=(?!=))")
_CALL = re.compile(r"\([\d\s,.+-]*\)")
_DEEPEST = 10_000
_REST = re.compile(r"\s*[\"']?")
_WORDS = frozenset("true false null none nan undefined True False None NaN".split())


class _Frame:
    """An open bracket: the pairs and the items read in it so far."""

    __slots__ = ("items", "key", "pairs")

    def __init__(self) -> None:
        self.pairs: list[dict[str, Any]] = []
        self.items: list[Any] = []
        self.key: PlacedText | None = None

    def add(self, value: Any) -> None:
        key = self.key
        if key is None:
            self.items.append(value)
            return
        self.key = None
        # A key that comes twice begins a second object: the first value is in the text all the same.
        if not self.pairs or key in self.pairs[-1]:
            self.pairs.append({})
        self.pairs[-1][key] = value

    def node(self) -> Any:
        if not self.items and len(self.pairs) == 1:
            return self.pairs[0]
        return [*self.pairs, *self.items]


def read_literal(text: str, start: int) -> tuple[Any, int]:
    """The data that begins with the bracket at `start`, its values and keys placed, and where it ends."""
    frames: list[_Frame] = []
    position = start
    scan = _SCALAR.match
    while True:
        match = scan(text, position)
        if match is None:
            return _close(frames, text, position)
        position = match.end()
        kind = match.lastindex
        if kind is None:  # a comma
            continue
        if kind == 3:
            if len(frames) > _DEEPEST:
                return _close(frames, text, position)
            frames.append(_Frame())
            continue
        if kind == 4:
            node = frames.pop().node()
            if not frames:
                return node, position
            frames[-1].add(node)
            continue
        begin, end = match.span(kind)
        frame = frames[-1]
        if kind == 5:
            opened = _bare(text, begin, end, frame)
            if opened is None:
                return _close(frames, text, begin)
            position = opened
            continue
        value = place_quoted(match.group(kind), begin, end)
        if frame.key is None:
            colon = _COLON.match(text, position)
            if colon is not None:
                frame.key = value
                position = colon.end()
                continue
        frame.add(value)


def place_quoted(written: str, begin: int, end: int) -> PlacedText:
    """The text of a string literal, without its marks, with its offsets."""
    if "\\" not in written:
        return place(written, begin, end, None, "\\")
    decoded, pieces = unescape(written)
    return place(decoded, begin, end, pieces, "\\")


def _bare(text: str, begin: int, end: int, frame: _Frame) -> int | None:
    """Takes a number, a word of the language, a bare key or a call; returns where it ends, or None if it is prose."""
    written = text[begin:end]
    if frame.key is None:
        colon = _COLON.match(text, end)
        if colon is not None:
            frame.key = place(written, begin, end)
            return colon.end()
    if written in _WORDS:
        frame.add(None)
        return end
    call = _CALL.match(text, end)
    if call is not None:  # datetime.date(1990, 5, 3): one value
        frame.add(place(text[begin : call.end()], begin, call.end()))
        return call.end()
    if text.startswith("(", end):  # Decimal('9.90'): what is in the brackets
        return end
    if written[0] in "-0123456789.":
        frame.add(place_number(written, begin))
        return end
    if frame.key is not None:
        frame.add(place(written, begin, end))
        return end
    return None


def _close(frames: list[_Frame], text: str, position: int) -> tuple[Any, int]:
    """What was read before it broke off; a string that is not closed goes to the end of its line."""
    rest = _REST.match(text, position)
    assert rest is not None
    begin = rest.end()
    if begin < len(text) and frames[-1].key is not None and begin > position:
        stop = text.find("\n", begin)
        stop = len(text) if stop < 0 else stop
        frames[-1].add(place_quoted(text[begin:stop], begin, stop))
        position = stop
    while len(frames) > 1:
        node = frames.pop().node()
        frames[-1].add(node)
    return frames[0].node(), position
