"""A text read another way, with the way back: findings in a view map to offsets of the text itself.

`KnownValues` reads texts without case and accents, `EncodedValues` reads them decoded; both return spans of the text.
"""

import html
import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

_FEW = 48  # different characters; chosen, not measured: see `_translated`

_NO_PIECES = (array("q"), array("q"), array("q"), array("q"))


class View:
    """A text after pieces of it were replaced, with the way back."""

    def __init__(self, text: str, pieces: "Callable[[], _Columns] | None" = None) -> None:
        """`pieces` is called when something is first looked up, since most readings hold nothing."""
        self.text = text
        self._pieces = pieces

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that is read between these offsets. A piece counts whole."""
        starts, ends, source_starts, source_ends = self._columns
        if not starts:
            return start, end
        last = bisect_right(starts, end - 1) - 1
        source_end = end if last < 0 else source_ends[last] + max(0, end - ends[last])
        first = bisect_right(starts, start) - 1
        if first < 0:
            return start, source_end
        if start < ends[first]:
            return source_starts[first], source_end
        return source_ends[first] + start - ends[first], source_end

    @cached_property
    def _columns(self) -> "_Columns":
        return _NO_PIECES if self._pieces is None else self._pieces()


_Columns = tuple["array[int]", "array[int]", "array[int]", "array[int]"]
"""Pieces in order: start and end in the text read, start and end in the original.

Flat arrays: a hostile text may be all pieces, and a tuple each would cost ten times its size."""


def rewritten(text: str, pattern: re.Pattern[str], replacement: Callable[[str], str]) -> View | None:
    """The text with each match replaced; `None` if there is none. The pattern has no groups.

    It takes the text apart and puts it together in C. Each match is replaced once, however often it is there.
    """
    between = _as_group(pattern)
    parts = between.split(text)
    if len(parts) == 1:
        return None
    matches = parts[1::2]
    new = {match: replacement(match) for match in set(matches)}
    parts[1::2] = map(new.__getitem__, matches)
    return View("".join(parts), lambda: _columns(between.split(text), new))


@lru_cache(maxsize=64)
def _as_group(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """The pattern as one group: a text that is split by it keeps what matches, as every second part."""
    assert not pattern.groups
    return re.compile(f"({pattern.pattern})", pattern.flags)


def _columns(parts: Sequence[str], new: Mapping[str, str]) -> _Columns:
    """The spans of the replaced parts: every second one, from the second on."""
    ends = array("q", accumulate(map(len, parts)))
    read = array("q", accumulate(len(new[part]) if place % 2 else len(part) for place, part in enumerate(parts)))
    return read[:-1:2], read[1::2], ends[:-1:2], ends[1::2]


def decoded_bytes(data: bytes) -> str:
    """The text that the bytes are in UTF-8, or else in Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


_SIGNS = str.maketrans("abfnrtv", "  \f\n\r\t ")


def _without_backslashes(run: str) -> str:
    kind = run[1]
    if kind == "x":
        return decoded_bytes(bytes.fromhex(run.replace("\\x", "")))
    if kind == "u" and run[2] != "{":
        return bytes.fromhex(run.replace("\\u", "")).decode("utf-16-be", "replace")
    if kind in "uU":
        code = int(run.strip("\\uU{}"), 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if kind.isdigit():
        return decoded_bytes(bytes(int(code, 8) for code in run.split("\\")[1:]))
    return run[1::2].translate(_SIGNS)


def _unquoted(run: str) -> str:
    return "" if run.endswith("\n") else decoded_bytes(bytes.fromhex(run.replace("=", "")))


# Each pattern begins with its sign: the engine then goes from one sign to the next.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_BACKSLASH = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}(?:\\x[0-9A-Fa-f]{2})*|u(?:[0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})*|\{[0-9A-Fa-f]{1,6}\})"
    r"|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}(?:\\[0-3][0-7]{2})*|[\\/\"'abfnrtv](?:\\[\\/\"'abfnrtv])*)"
)
_ENTITY = re.compile(r"(?:&(?:#(?:[0-9]{1,7}|[xX][0-9A-Fa-f]{1,6})|[A-Za-z]{2,10});)+")
_QUOTED = re.compile(r"=(?:[0-9A-Fa-f]{2}(?:=[0-9A-Fa-f]{2})*|\r?\n)")

ESCAPES: dict[str, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "%": (_PERCENT, lambda run: decoded_bytes(bytes.fromhex(run.replace("%", "")))),
    "\\": (_BACKSLASH, _without_backslashes),
    "&": (_ENTITY, html.unescape),
    "=": (_QUOTED, _unquoted),
}
"""The escapes of URLs, programs, HTML and mail: the pattern of a run of them and its text, by their sign."""


@lru_cache(maxsize=8)
def _any_escape(signs: str) -> re.Pattern[str]:
    return re.compile("|".join(ESCAPES[sign][0].pattern for sign in signs))


def unescaped(text: str, signs: str = "%\\&=") -> View | None:
    """The text without escapes that begin with one of these signs; `None` if it has none."""
    if not any(sign in text for sign in signs):
        return None
    return rewritten(text, _any_escape(signs), lambda run: ESCAPES[run[0]][1](run))


def folded(text: str) -> View:
    """The text without case, accents, width and invisible characters."""
    view = View(text) if text.isascii() else _translated(text, _fold)
    view.text = view.text.lower()
    return view


def plain(text: str) -> View | None:
    """The text in its compatibility form without invisible characters; `None` if it is that already."""
    if text.isascii():
        return None
    view = _translated(text, _simplify)
    return None if view.text == text else view


def _translated(text: str, replacement: Callable[[str], str]) -> View:
    table = {character: replacement(character) for character in set(text) if character > "\x7f"}
    uneven = "".join(character for character, new in table.items() if len(new) != 1)
    view = rewritten(text, re.compile(f"[{re.escape(uneven)}]"), table.__getitem__) if uneven else None
    view = view or View(text)
    even = {character: new for character, new in table.items() if len(new) == 1 and new != character}
    # A few characters are replaced faster one by one than by looking up each character of the text.
    if len(even) > _FEW:
        view.text = view.text.translate({ord(character): new for character, new in even.items()})
    elif even:
        for character, new in even.items():
            view.text = view.text.replace(character, new)
    return view


@lru_cache(maxsize=8192)
def _fold(character: str) -> str:
    """A letter in its plainest form; nothing for what is not seen; a space for any other sign, which only separates."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    base = unicodedata.normalize("NFKD", character.casefold()).casefold().translate(_STROKED)
    read = unicodedata.normalize("NFKC", "".join(part for part in base if not _is_silent(part)))
    return read if not read or any(map(str.isalnum, read)) else " "


_STROKED = str.maketrans("łøđħŧıȷ", "lodhtij")
"""Letters with a stroke or without their dot, which are one character: capitals and plain spellings lose it."""


@lru_cache(maxsize=8192)
def _simplify(character: str) -> str:
    return "" if _is_invisible(character) else unicodedata.normalize("NFKC", character)


def _is_silent(character: str) -> bool:
    return unicodedata.category(character) == "Mn" or _is_invisible(character)


def _is_invisible(character: str) -> bool:
    # Format characters are zero-width spaces, joiners, soft hyphens and marks of direction; the others draw nothing.
    return unicodedata.category(character) == "Cf" or character in _BLANK or "\ufe00" <= character <= "\ufe0f"


_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
