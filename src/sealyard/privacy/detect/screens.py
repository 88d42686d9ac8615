"""Fast screens for long words: which may be text in base64, hex or base32, nearly all without decoding any.

Most long words are hashes, ids or parts of an image. They do not decode to text, and their letters show it: in base64
the first of four letters shows whether a byte of ASCII begins there, and the next ones nearly show it of the other two
bytes. All words are screened together. Each character becomes a byte of marks, all bytes one large integer, and a few
shifts of it answer for every place at once whether text may begin there: some milliseconds for a megabyte.

`Runs` finds long runs of characters of one class at the speed of memory. A pattern for sixteen characters of a class
tries every place of every word; here each character is first replaced by one of two marks, and the run of marks is then
searched for as plain text: two calls in C for the lot.
"""

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

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


_GROUPS = 3
"""Groups of three bytes of ASCII in a row that a text has in which there is something: eleven characters, wherever they
begin. A value is shorter only where letters beyond ASCII stand around it, and then no control character does."""
_SHORT_GROUPS = 2  # the same: eight characters
_SHORT_CHARACTERS = 28
"""A shorter word has room for `_SHORT_GROUPS` only, wherever they begin."""
_LEAST_CHARACTERS = 16
"""A shorter word passes unseen: it says too little."""
_LONG_CHARACTERS = 1024
"""In a word of as many characters or more some place reads like text by chance."""
_LEAST_HEX = 8  # digits: four characters, the shortest text that counts
_LONG_HEX = 24
"""Digits that make twelve characters. A shorter run counts only if all of it is ASCII."""
_LEAST_BASE32 = 8  # letters: one whole group of base32
_LONG_BASE32 = 16
"""Inside a word, fewer letters of base32 in a row are chance."""

_MAY_BE_CODES = re.compile(r"[+/_-].[+/_-]{1,4}.(?![A-Za-z0-9])|[0-9A-Fa-f]{2}(?:[/+-]{1,4}[0-9A-Fa-f]{2,8}){3}")
"""A part of every word that is made of single letters set apart, or of character codes."""

_ORDER = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_UPPER, _LOWER, _NUMERALS = _ORDER[:26], _ORDER[26:52], _ORDER[52:62]
_ROTATED = bytes.maketrans(_ORDER[:52].encode(), (_UPPER[13:] + _UPPER[:13] + _LOWER[13:] + _LOWER[:13]).encode())
_STANDARD = bytes.maketrans(b"-_", b"+/")
_HEX_WORD = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
"""Read as base64 or base32, letters up to F and digits spell no text."""
_SPACES = frozenset(b"\t\n\r")
_END = ord("\n")
"""Stands between words, and is in none."""


class Candidates(NamedTuple):
    """Words that may be text: the numbers of words, and the parts of words with the number of each."""

    base64: set[int]
    codes: set[int]
    hex: list[tuple[int, str]]
    base32: list[tuple[int, str]]


def find_candidates(words: Sequence[str], is_text: Callable[[bytes], bool]) -> Candidates:
    """Those of the words, of letters, digits and `+/_-`, that may hold text in an encoding.

    `is_text` decides on what one is in base64. It is called seldom, and at most twelve times for a word.
    """
    mixed = [number for number, word in enumerate(words) if not _HEX_WORD.fullmatch(word)]
    found = Candidates(set(), set(), list(_spelt_in_hex(_Words(words, range(len(words))))), [])
    if not mixed:
        return found
    chosen = _Words(words, mixed)
    found.base32.extend(_spelt_in_base32(chosen))
    found.codes.update(_codes(chosen))
    for groups, numbers in (
        (_SHORT_GROUPS, [number for number in mixed if _LEAST_CHARACTERS <= len(words[number]) < _SHORT_CHARACTERS]),
        (_GROUPS, [number for number in mixed if _SHORT_CHARACTERS <= len(words[number]) < _LONG_CHARACTERS]),
    ):
        if numbers:
            chosen = _Words(words, numbers)
            backwards = _Words([words[number][::-1] for number in numbers], range(len(numbers)), numbers)
            for way in (chosen, backwards, chosen.rotated()):
                found.base64.update(_spelt_in_base64(way, groups, is_text))
    for number in mixed:
        size = len(words[number])
        if size < _LEAST_CHARACTERS or (size >= _LONG_CHARACTERS and _is_long_text(words[number], is_text)):
            found.base64.add(number)
    return found


class _Words:
    """Words as one text. Each begins at a multiple of four, and four characters or more stand between two."""

    def __init__(self, words: Sequence[str], chosen: Iterable[int], numbers: Sequence[int] | None = None) -> None:
        padded = [words[number] + "\n" * (4 + -len(words[number]) % 4) for number in chosen]
        self.text = "".join(["\n\n\n\n", *padded])
        self.data = self.text.encode("ascii", "replace")
        self.starts = list(accumulate(map(len, padded), initial=4))
        self.numbers = numbers if numbers is not None else list(chosen)
        self.ones = int.from_bytes(b"\1" * len(self.data), "little")

    def rotated(self) -> "_Words":
        """The same with each letter thirteen further."""
        new = object.__new__(_Words)
        new.data = self.data.translate(_ROTATED)
        new.starts, new.numbers, new.ones = self.starts, self.numbers, self.ones
        return new

    def place(self, offset: int) -> int:
        """The words that occur."""
        return bisect_right(self.starts, offset) - 1

    def marks(self, table: bytes) -> int:
        """A byte of marks for each character, the first one lowest."""
        return int.from_bytes(self.data.translate(table), "little")

    def marked(self, marks: int, *, ends: int | None = None) -> bytes:
        """A byte for each place: one where the lowest mark is set, else zero; two where that of `ends` is not."""
        marked = marks & self.ones
        if ends is not None:
            ended = self.ones ^ (ends & self.ones)
            marked = (marked | ended) ^ ended | ended << 1
        return marked.to_bytes(len(self.data), "little")


def _places(marked: bytes) -> Iterator[int]:
    place = marked.find(1)
    while place >= 0:
        yield place
        place = marked.find(1, place + 1)


def _table(marks: dict[str, int]) -> bytes:
    return bytes(marks.get(chr(code), 0) for code in range(256))


# Base64


def _base64_marks(place: int) -> int:
    """The marks of a letter of the alphabet, one bit each.

    It may be the first, second and third of a group of ASCII; it is a letter; as the first, or as the second, it makes
    a control character; so do a third and a fourth that both have their mark.
    """
    first, second, third = place << 2, (place & 15) << 4, (place & 3) << 6
    is_space = any(first <= space < first + 4 for space in _SPACES)
    bits = (
        32 <= first < 128 or is_space,
        32 <= second < 128 or second == 0,
        third < 128,
        True,
        first < 32 and not is_space,
        second == 16,
        third == 0,
        place < 32 and place not in _SPACES,
    )
    return sum(bit << number for number, bit in enumerate(bits))


_BASE64_MARKS = {sign: _base64_marks(place) for place, sign in enumerate(_ORDER)}
_BASE64 = _table(_BASE64_MARKS | {"-": _BASE64_MARKS["+"], "_": _BASE64_MARKS["/"]})
_UNCONTROLLED = re.compile(rb"\x02\x00{2,}+(?=\x02)")
_PACKED_START = re.compile(rb"[\n+/_-][^\n]{0,3}(?:H4s|e(?:A[E-H]|F[4-7]|J[w-z]|N[o-r]))")
"""The beginnings of gzip and zlib in base64."""


def _spelt_in_base64(words: _Words, groups: int, is_text: Callable[[bytes], bool]) -> Iterator[int]:
    """Those that have that many groups of ASCII in a row, no control character, zeros as UTF-16 has, or are packed."""
    done: set[int] = set()
    for place, shift in _shifted(words, groups):
        key = place * 4 + shift
        if key in done:
            continue
        done.add(key)
        part = words.data[words.starts[place] + shift : words.starts[place + 1]].rstrip(b"\n")
        if is_text(_decoded(part)):
            yield words.numbers[place]
    for packed in _PACKED_START.finditer(words.data):
        yield words.numbers[words.place(packed.start() + 1)]


def _decoded(part: bytes) -> bytes:
    return binascii.a2b_base64(part[: len(part) - (len(part) % 4 == 1)].translate(_STANDARD) + b"==")


def _is_long_text(word: str, is_text: Callable[[bytes], bool]) -> bool:
    """The same for one long word. By chance some place of it reads like text, so it is judged as a whole."""
    data = word.encode("ascii", "replace")
    ways = (data, data[::-1], data.translate(_ROTATED))
    return any(_may_be_text(way[shift:]) and is_text(_decoded(way[shift:])) for way in ways for shift in range(4))


def _may_be_text(part: bytes) -> bool:
    """True if a long word may be text, by its letters.

    Of a text two bytes in three are of ASCII, so of the first two bytes of its groups one is, on an average. Else it
    reads as UTF-8 from its beginning on, begins as packed data, or has the zeros of UTF-16.
    """
    fits = sum(len(part[place::4].translate(None, _UNFIT[place])) for place in range(2))
    if 4 * fits + 4 >= len(part) or 4 * part.count(b"A") >= len(part):
        return True
    head = _decoded(part[:_HEAD_CHARACTERS])
    return head[:1] in (b"\x1f", b"\x78") or _is_utf8(head)


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3
    return True


_HEAD_CHARACTERS = 256
"""Of a long word, to see whether it begins as text."""
_UNFIT = tuple(bytes(code for code in range(256) if not _BASE64[code] & 1 << bit) for bit in range(2))
"""Signs that begin no byte of ASCII, as the first and as the second letter of a group."""


def _shifted(words: _Words, groups: int) -> Iterator[tuple[int, int]]:
    """The words that may be text, with the offset of the first group of four."""
    marks = words.marks(_BASE64)
    control_3 = (marks >> 22) & (marks >> 31)
    whole = marks & (marks >> 9) & (marks >> 18) & (marks >> 27)
    whole ^= whole & control_3
    row = whole
    for number in range(1, groups):
        row &= whole >> (32 * number)
    for offset in _places(words.marked(row)):
        yield words.place(offset), offset % 4
    control = words.marked((marks >> 4) | (marks >> 13) | control_3, ends=marks >> 3)
    for shift in range(4):
        for match in _UNCONTROLLED.finditer(control[shift::4]):
            yield words.place(4 * match.start() + 4), shift
    # In UTF-16 every other byte of most texts is zero: the first six bits of every second group.
    zero = (marks >> 1) & (marks >> 4) & (marks >> 6)
    row = zero
    for number in range(1, groups):
        row &= zero >> (64 * number)
    for offset in _places(words.marked(row)):
        yield from ((words.place(offset), shift) for shift in range(4))


# Hex

_HEX_RUNS = Runs(f"{_NUMERALS}abcdefABCDEF", least=_LEAST_HEX)
_FIRST_DIGITS = _table(dict.fromkeys("234567", 1))
"""The first digit of two says whether the byte is one of ASCII."""
_HEX_ROW = b"\1" * 6
"""Characters of ASCII in a row that a text has in which there is something: as short as an address can be."""
_HEX_LETTERS = re.compile(
    rb"(?:[0-7].|[cC][2-9a-fA-F][89abAB].|[dD].[89abAB].|[eE].(?:[89abAB].){2}|[fF][0-4](?:[89abAB].){3}){9}"
)
"""Nine letters of UTF-8, three fewer than the shortest long run has: the last ones may be cut off. By chance one run in
a hundred begins so. A control character counts as a letter: lines end in one."""
_HEX_PACKED = (b"1f8b", b"78")
_HEX_PACKED_BACKWARDS = (b"b8f1", b"87")


def _spelt_in_hex(words: _Words) -> Iterator[tuple[int, str]]:
    """Runs of digits that have a row of ASCII, begin as UTF-8, or are packed; short ones of ASCII throughout."""
    data, marks = words.data, words.data.translate(_FIRST_DIGITS)
    for start, end in _HEX_RUNS.find(words.text):
        firsts = marks[start:end:2], marks[start + 1 : end : 2]  # forwards or backwards, from either digit on
        if end - start < _LONG_HEX:
            is_text = any(not each.strip(b"\1") for each in firsts)
        else:
            is_text = any(_HEX_ROW in each for each in firsts) or _begins_as_text(data[start:end])
        if (
            is_text
            or data.startswith(_HEX_PACKED, start)
            or data.startswith(_HEX_PACKED, start + 1)
            or data.endswith(_HEX_PACKED_BACKWARDS, start, end)
            or data.endswith(_HEX_PACKED_BACKWARDS, start, end - 1)
        ):
            yield words.numbers[words.place(start)], words.text[start:end]


def _begins_as_text(run: bytes) -> bool:
    """True if it reads as UTF-8 from either end on, wherever the pairs of digits begin."""
    return any(_HEX_LETTERS.match(way, shift) for way in (run, run[::-1]) for shift in (0, 1))


# Base32

_UPPER_RUNS = Runs(_UPPER + _NUMERALS, least=_LEAST_BASE32)
_LOWER_RUNS = Runs(_LOWER + _NUMERALS, least=_LEAST_BASE32)
_LOWER_BASE32 = re.compile(r"[a-z]{16}|[a-z][2-7]|[2-7][a-z]")
"""Without one of these it is a word."""


def _spelt_in_base32(words: _Words) -> Iterator[tuple[int, str]]:
    """Long runs in capitals or small letters alone, and shorter ones between two separators."""
    text = words.text
    for runs, form in ((_UPPER_RUNS, None), (_LOWER_RUNS, _LOWER_BASE32)):
        for start, end in runs.find(text):
            is_alone = end - start >= _LONG_BASE32 or not (text[start - 1].isalnum() or text[end].isalnum())
            if is_alone and (form is None or form.search(text, start, end)):
                yield words.numbers[words.place(start)], text[start:end]


# Character codes, and letters set apart


def _codes(words: _Words) -> Iterator[int]:
    for match in _MAY_BE_CODES.finditer(words.text):
        yield words.numbers[words.place(match.start())]


_ENCODED_WORDS = Runs(WORD + "+/=%&#;\\", least=16)
"""Long words of one of the alphabets."""
_ENCODED_RUN = re.compile(
    r"(?<![\w.+-])[\w.+-]*+(?:&#?\w{2,8}+;|%[0-9A-Fa-f]{2})[\w.+%&#;-]++|[A-Za-z0-9+/=_%&#;\\-]{16,}", re.ASCII
)
"""The same, or a word with entities or percent signs in it, such as an address."""
_ESCAPE = re.compile(r"&#?\w{2,8};|%[0-9A-Fa-f]{2}", re.ASCII)
_AROUND = bytes(32 if chr(code) in " \t\n\"'<>" else 97 for code in range(256))
"""A blank for each sign that stands around a run of words with an escape in it."""


def encoded_runs(text: str) -> Iterator[tuple[str, int]]:
    """The words that may be encoded, with their places."""
    escaped = list(_with_escapes(text)) if "%" in text or "&" in text else []
    for start, end in escaped:
        for run in _ENCODED_RUN.finditer(text, start, end):
            yield run[0], run.start()
    starts = [start for start, _ in escaped]
    for start, end in _ENCODED_WORDS.find(text):
        place = bisect_right(starts, start) - 1
        if place < 0 or start >= escaped[place][1]:
            yield text[start:end], start


def _with_escapes(text: str) -> Iterator[tuple[int, int]]:
    """The stretches between blanks and quotes that have an escape in them."""
    escape = _ESCAPE.search(text)
    marks = text.encode("ascii", "replace").translate(_AROUND) if escape else b""
    done = 0
    while escape:
        start = max(done, marks.rfind(b" ", done, escape.start()) + 1)
        done = marks.find(b" ", escape.end())
        done = len(text) if done < 0 else done
        yield start, done
        escape = _ESCAPE.search(text, done)
