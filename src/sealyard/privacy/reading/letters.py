"""The letters and digits of a text, in every way it can be read: plain, unescaped, or decoded.

Case, accents and separators are dropped, so that a value is found however it is cut and joined. Each reading leads back
to the offsets of the text.
"""

import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from sealyard.privacy.reading.escapes import View, folded, unescaped

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
        self._places: _Source | None = None

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

    def _inner(self, start: int, end: int) -> tuple[int, int]:
        if self._places is None:
            self._places = self._make()
        return self._places(start, end)


def _is_border(pair: str) -> bool:
    if len(pair) < 2:  # the text begins or ends here
        return True
    left, right = pair[0], pair[1]
    if not left.isalnum() or not right.isalnum() or left.isdigit() != right.isdigit():
        return True
    return left.islower() and right.isupper()


def read_letters(text: str, *, with_others: bool) -> Iterator[Letters]:
    """The text in each way. `with_others` includes letters beyond ASCII in what is decoded."""
    yield _plain(text)
    views: list[View] = []
    for _ in range(_DEPTH):
        read = views[-1].text if views else text
        view = unescaped(read)
        if view is None:
            break
        views.append(view)
        yield _plain(view.text, tuple(views))
    for number in range(len(views) + 1):
        read = views[number - 1].text if number else text
        yield from _encoded(read, views[:number], with_others=with_others)


def _plain(text: str, views: Sequence[View] = ()) -> Letters:
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
        if with_others:
            places = [at for at, each in enumerate(data.decode("latin-1").lower()) if each.isalnum()]
        else:
            places = [at for at, each in enumerate(data) if each < 128 and chr(each).isalnum()]

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
