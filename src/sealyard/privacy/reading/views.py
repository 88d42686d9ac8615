"""A text read another way, with the way back: findings in a reading map to offsets of the text itself.

A `View` is a text with pieces of it replaced: escapes decoded, or case and accents folded. `Letters` are what is left
without separators, so that a value is found however it is cut and joined, also decoded from base64, hex and codes.
`Runs` marks each character as one of a class or none.
"""

import binascii
import html
import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

_FEW = 48  # different characters; chosen, not measured: see `_translated`


class View:
    """A text after pieces of it were replaced, with the way back."""

    def __init__(self, text: str, pieces: "Callable[[], _Columns] | None" = None) -> None:
        """`pieces` is called when something is first looked up, since most readings hold nothing."""
        self.text = text
        self._pieces = pieces

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that is read between these offsets. A piece counts whole."""
        if self._pieces is None:
            return start, end
        starts, ends, source_starts, source_ends = self._columns
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
        assert self._pieces is not None
        return self._pieces()


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
    "=": (_QUOTED, lambda run: "" if run.endswith("\n") else decoded_bytes(bytes.fromhex(run.replace("=", "")))),
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
    seen = (part for part in base if unicodedata.category(part) != "Mn" and not _is_invisible(part))
    read = unicodedata.normalize("NFKC", "".join(seen))
    return read if not read or any(map(str.isalnum, read)) else " "


_STROKED = str.maketrans("łøđħŧıȷ", "lodhtij")
"""Letters with a stroke or without their dot, which are one character: capitals and plain spellings lose it."""


@lru_cache(maxsize=8192)
def _simplify(character: str) -> str:
    return "" if _is_invisible(character) else unicodedata.normalize("NFKC", character)


def _is_invisible(character: str) -> bool:
    # Format characters are zero-width spaces, joiners, soft hyphens and marks of direction; the others draw nothing.
    return unicodedata.category(character) == "Cf" or character in _BLANK or "\ufe00" <= character <= "\ufe0f"


_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")


# Letters and digits alone

SIGNS = re.compile(r"[\W_]+")
_DEPTH = 2
"""Layers of escapes that are taken off: JSON in JSON, `%2541`."""
_LEAST_BASE64 = 8  # six bytes
_LEAST_HEX = 8
"""Characters. Fewer decode to less than the shortest fragment that is looked up."""
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]+", re.ASCII)
_NOT_BASE64_BYTES = bytes(each for each in range(256) if _NOT_BASE64.match(chr(each)))
_URL_ALPHABET = bytes.maketrans(b"-_", b"+/")
_NOT_HEX = re.compile(r"0[xX]|[^0-9A-Fa-f]+")
_NOT_HEX_BYTES = bytes(each for each in range(256) if _NOT_HEX.match(chr(each)))
_CODE = re.compile(r"(?<![0-9])[0-9]{2,6}(?![0-9])")
_CODES = re.compile(r"(?<![0-9])[0-9]{2,6}(?:[^0-9A-Za-z]{1,8}[0-9]{2,6}(?![0-9])){5}")
"""Six codes of characters in a row: enough to spell something."""
_MOST_CODE = 0x2FFFF
"""No letter has a larger code."""
_NOT_ALNUM_BYTES = bytes(each for each in range(256) if not (each < 128 and chr(each).isalnum()))

_Source = Callable[[int, int], tuple[int, int]]


class Letters:
    """A text without case and signs, read in one way, and the way back, which is made when it is needed."""

    def __init__(self, text: str, make: Callable[[], _Source], *, of: str = "", views: Sequence[View] = ()) -> None:
        """`of` is the text with signs, where it is to be had, and `views` lead from there to the original."""
        self.text = text
        self.is_plain = bool(of)
        self._of = of
        self._views = views
        self._make = make

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that is read between these offsets."""
        found = self._inner(start, end)
        for view in reversed(self._views):
            found = view.source(*found)
        return found

    def start(self, at: int) -> int:
        """The offset in the original of what is read here."""
        return self.source(at, at + 1)[0]

    def is_apart(self, start: int, end: int) -> bool:
        """True if letters, or digits, neither begin before nor go on behind: `userAnna`, `anna1`, not `hannah`."""
        first, last = self._inner(start, end)
        return _is_border(self._of[max(0, first - 1) : first + 1]) and _is_border(self._of[last - 1 : last + 1])

    @cached_property
    def _inner(self) -> _Source:
        """Leads to the text with signs."""
        return self._make()


def _is_border(pair: str) -> bool:
    if len(pair) < 2:  # the text begins or ends here
        return True
    left, right = pair[0], pair[1]
    if not left.isalnum() or not right.isalnum() or left.isdigit() != right.isdigit():
        return True
    return left.islower() and right.isupper()


def read_letters(text: str, *, with_others: bool) -> Iterator[Letters]:
    """The text in each way. `with_others` includes letters beyond ASCII in what is decoded."""
    yield _as_written(text)
    views: list[View] = []
    for _ in range(_DEPTH):
        read = views[-1].text if views else text
        view = unescaped(read)
        if view is None:
            break
        views.append(view)
        yield _as_written(view.text, tuple(views))
    for number in range(len(views) + 1):
        read = views[number - 1].text if number else text
        yield from _encoded(read, views[:number], with_others=with_others)


def _as_written(text: str, views: Sequence[View] = ()) -> Letters:
    read = folded(text)
    return Letters(_without_signs(read.text), lambda: _letters(read), of=text, views=views)


def _letters(read: View) -> _Source:
    places = [at for at, character in enumerate(read.text) if character.isalnum()]
    return lambda start, end: read.source(places[start], places[end - 1] + 1)


def _encoded(text: str, views: Sequence[View], *, with_others: bool) -> Iterator[Letters]:
    """The text decoded from base64 and hex, beginning at any character, and from a list of character codes."""
    plain = text.encode("ascii", "ignore")
    data = plain.translate(_URL_ALPHABET, _NOT_BASE64_BYTES)
    if len(data) >= _LEAST_BASE64:
        for offset in range(4):
            part = data[offset:]
            part = part[: len(part) - (len(part) % 4 == 1)]
            decoded = binascii.a2b_base64(part + b"==")
            yield Letters(
                *_bytes_read(text, decoded, _NOT_BASE64, offset, (4, 3), with_others=with_others), views=views
            )
    digits = plain.replace(b"0x", b"").replace(b"0X", b"").translate(None, _NOT_HEX_BYTES).decode()
    for offset in range(2) if len(digits) >= _LEAST_HEX else ():
        run = digits[offset:]
        decoded = bytes.fromhex(run[: len(run) - len(run) % 2])
        yield Letters(*_bytes_read(text, decoded, _NOT_HEX, offset, (2, 1), with_others=with_others), views=views)
    if _CODES.search(text):
        yield Letters(*_codes_read(text), views=views)


def _bytes_read(
    text: str, data: bytes, dropped: re.Pattern[str], offset: int, ratio: tuple[int, int], *, with_others: bool
) -> tuple[str, Callable[[], _Source]]:
    """Decoded bytes. `ratio` is the number of characters of the text for a number of bytes."""
    characters, size = ratio
    read = data.lower().translate(None, _NOT_ALNUM_BYTES).decode("ascii")
    if with_others:
        # Latin-1 keeps an offset for each byte; letters of other scripts are compared as their bytes, see `bytes_of`.
        read = SIGNS.sub("", data.decode("latin-1").lower())

    def make() -> _Source:
        kept: list[int] = []
        done = 0
        for gap in dropped.finditer(text):
            kept += range(done, gap.start())
            done = gap.end()
        kept += range(done, len(text))
        shown = data.decode("latin-1").lower() if with_others else data.decode("ascii", "replace")
        places = [at for at, each in enumerate(shown) if each.isalnum()]

        def source(start: int, end: int) -> tuple[int, int]:
            first = offset + places[start] // size * characters
            last = offset + -(-(places[end - 1] + 1) // size) * characters
            return kept[first], kept[min(last, len(kept)) - 1] + 1

        return source

    return read, make


def _codes_read(text: str) -> tuple[str, Callable[[], _Source]]:
    read = folded("".join(map(_character, _CODE.findall(text))))

    def make() -> _Source:
        letters = _letters(read)
        codes = [code.span() for code in _CODE.finditer(text)]

        def source(start: int, end: int) -> tuple[int, int]:
            first, last = letters(start, end)
            return codes[first][0], codes[last - 1][1]

        return source

    return SIGNS.sub("", read.text), make


@lru_cache(maxsize=1024)
def _character(code: str) -> str:
    number = int(code)
    return " " if number > _MOST_CODE or 0xD800 <= number < 0xE000 else chr(number)


def letters_of(text: str) -> str:
    """The letters and digits of a plain text, without case and accents."""
    return _without_signs(text.lower() if text.isascii() else folded(text).text)


def _without_signs(text: str) -> str:
    if text.isascii():
        return text.encode("ascii").translate(None, _NOT_ALNUM_BYTES).decode("ascii")
    return SIGNS.sub("", text)


def bytes_of(text: str) -> str:
    """The UTF-8 bytes of a text read as Latin-1: the same for text and value, and enough to compare."""
    return "" if text.isascii() else SIGNS.sub("", text.encode("utf-8", "replace").decode("latin-1").lower())


@lru_cache(maxsize=1024)
def encoded_alone(value: str) -> frozenset[str]:
    """The value alone in base64 and in hex."""
    data = value.encode("utf-8", "replace")
    encoded = binascii.b2a_base64(data, newline=False).decode().strip("=")
    return frozenset({data.hex(), data.hex().upper(), encoded})


def encoded_short(text: str) -> Iterator[str]:
    """A short value as base64 and hex have it."""
    for each in {text, text.lower(), text.upper()}:
        data = each.encode("utf-8", "replace")
        yield data.hex()
        yield letters_of(binascii.b2a_base64(data, newline=False).decode())


# Runs of characters of one class

WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

_IN = b"a"
_OUT = b" "


class Runs:
    """Finds runs of at least `least` of these ASCII characters, at the speed of memory.

    A pattern for sixteen characters of a class tries every place of every word. Here each character is first replaced
    by one of two marks, and the run of marks is searched for as plain text: two calls in C for the lot.
    """

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
