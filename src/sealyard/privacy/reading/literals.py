"""JSON, and the data that Python and JavaScript print, with the place of every value in the text.

`read_literal` reads data from inside any text, each character once, and never fails: it reads broken or truncated data
as far as it goes, so that a value in it still stands under its name.
"""

import re
from typing import Any

from sealyard.privacy.reading.views import View, rewritten


class PlacedText(str):
    """A text with the offsets of its source."""

    __slots__ = ("end", "escape", "start", "view")
    start: int
    end: int
    view: View | None
    """The text as it reads without escapes, if it has any."""
    escape: str
    """The escape before a quotation mark in it: a backslash, a second mark, or nothing."""

    def raw(self, start: int, end: int) -> tuple[int, int]:
        """The offsets in the text it was read from."""
        if self.view is not None:
            start, end = self.view.source(start, end)
        return self.start + start, self.start + end


class PlacedInt(int):
    """A whole number with its offsets."""

    start: int
    end: int


class PlacedFlag(PlacedInt):
    """True or false with its offsets."""


class PlacedFloat(float):
    """A number with its offsets."""

    start: int
    end: int


def place(value: str, start: int, end: int, view: View | None = None, escape: str = "") -> PlacedText:
    """The value with its offsets."""
    placed = PlacedText(value)
    placed.start = start
    placed.end = end
    placed.view = view
    placed.escape = escape
    return placed


_INTEGER = re.compile(r"-?\d{1,40}")
_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?")


def _place_number(written: str, start: int) -> PlacedInt | PlacedFloat | PlacedText:
    """The number that is written there, or the text if it is not a number of a common size."""
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


def _unescape(escape: str) -> str:
    kind = escape[1]
    if len(escape) == 12:
        high, low = int(escape[2:6], base=16), int(escape[8:], base=16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(escape) > 2:
        code = int("0x" + escape[2:], base=0)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _LETTERS.get(kind, kind)


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
_DEEPEST = 10_000  # brackets within brackets: bounds the memory for hostile text
_REST = re.compile(r"\s*[\"']?")
_WORDS = frozenset("null none nan undefined None NaN".split())
_FLAGS = frozenset("true false True False".split())


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
        value = _place_quoted(match.group(kind), begin, end)
        if frame.key is None:
            colon = _COLON.match(text, position)
            if colon is not None:
                frame.key = value
                position = colon.end()
                continue
        frame.add(value)


def _place_quoted(written: str, begin: int, end: int) -> PlacedText:
    """The text of a string literal, without its marks, with its offsets."""
    view = rewritten(written, _ESCAPE, _unescape) if "\\" in written else None
    return place(written if view is None else view.text, begin, end, view, "\\")


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
    if written in _FLAGS:
        flag = PlacedFlag(written in ("true", "True"))
        flag.start, flag.end = begin, end
        frame.add(flag)
        return end
    call = _CALL.match(text, end)
    if call is not None:  # datetime.date(1990, 5, 3): one value
        frame.add(place(text[begin : call.end()], begin, call.end()))
        return call.end()
    if text.startswith("(", end):  # Decimal('9.90'): what is in the brackets
        return end
    if written[0] in "-0123456789.":
        frame.add(_place_number(written, begin))
        return end
    if frame.key is not None:
        frame.add(place(written, begin, end))
        return end
    return None


def _close(frames: list[_Frame], text: str, position: int) -> tuple[Any, int]:
    """The data read before it broke off; a string that is not closed goes to the end of its line."""
    rest = _REST.match(text, position)
    assert rest is not None
    begin = rest.end()
    if begin < len(text) and frames[-1].key is not None and begin > position:
        stop = text.find("\n", begin)
        stop = len(text) if stop < 0 else stop
        frames[-1].add(_place_quoted(text[begin:stop], begin, stop))
        position = stop
    while len(frames) > 1:
        node = frames.pop().node()
        frames[-1].add(node)
    return frames[0].node(), position
