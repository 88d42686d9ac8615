"""Private values behind a common encoding.

Percent-, backslash-, HTML- and quoted-printable escapes, base64 of either alphabet, also wrapped over lines, and hex;
gzip or zlib inside these, and UTF-16; two of them on top of each other. The thorough search, for what leaves code that
may hold real values, also reads a text backwards, lists of character codes, letters set apart, and invisible or
full-width characters.

Nothing can find values behind encryption, slices, hashes, arithmetic on characters or an alphabet of the code's own. In
mode `output` code holds real values and can smuggle one out if it wants to. Mode `strict` prevents that: code holds no
real value there.
"""

import binascii
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from sealyard.privacy.reading.views import WORD, Runs, View, decoded_bytes, plain, unescaped
from sealyard.privacy.span import Span, united, without_tokens

_DEPTH = 2  # layers that are decoded: base64 in a URL in JSON, at bounded cost
_UNPACKED_BYTES = 1 << 20
"""Compressed data may unpack to this much in one call, and eight times the text. More is concealed unread."""
_SHORTEST = 4
"""A shorter decoded text is chance, or too little to mean anything."""
_SHORT_TEXT = 12  # characters: fewer bytes are valid UTF-8 by chance too often

_QUICK_LEAST = 14  # characters without padding: ten bytes, the shortest values that are found by value
_THOROUGH_LEAST = 6  # four bytes
_RUN = "[A-Za-z0-9+/_-]"
_BLOCK = re.compile(rf"{_RUN}++(?:={{0,2}}[ \t]*\r?\n[ \t>]*{_RUN}{{2,}}+(?!={{0,2}}+[\w+/=:.@(%-]))*={{0,2}}")
"""A word, and the words that are alone on the lines below it: base64 is wrapped so.

The lines are not possessive: Python before 3.11.5 then takes the line end after the last one, too. Nothing that follows
can fail, so no line is tried twice.
"""
_PIECE = re.compile(rf"{_RUN}+={{0,2}}")
_WRAPPED = {64, 76}
"""Characters of a line of base64 in keys and mails. Lines of any other length may be values of their own."""
_PART = re.compile(r"[A-Za-z0-9]{8,}={0,2}")
_PLAIN_PART = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]?[a-z0-9]{3,}|[A-Z0-9]{3,})(?![A-Za-z0-9])")
"""A word or number beside which another part may be encoded. Without one, all of it is or nothing."""
_LONGEST_PATH = 256  # characters
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_PLAIN_WORD = r"(?:[a-z]{2,15}|[0-9]{1,5}(?![-_/+=]+[0-9]))"
_PLAIN = re.compile(rf"[-_/+=]*{_PLAIN_WORD}(?:[-_/+=]+{_PLAIN_WORD})*+[-_/+=]*|{_UUID}")
"""A path of words in small letters and short numbers, or a UUID: no encoding makes such, and nothing private is one."""
_BEFORE = re.compile(rf"(?:{_PLAIN_WORD}[-_/+]+)+")
"""Words of a path or a name, behind which something encoded may follow."""
_HEX = re.compile(r"[0-9A-Fa-f]{8,}")
_LONGEST_NUMBER = 512  # digits: some character of a longer text has a letter in hex
_HEX_PAIRS = re.compile(r"(?<![0-9A-Za-z])(?:0x)?[0-9A-Fa-f]{2}(?:[\s:,]{1,2}(?:0x)?[0-9A-Fa-f]{2}){3,}(?![0-9A-Za-z])")
_MANY_PAIRS = b"aa aa aa aa aa aa aa aa"
"""Eight of them, as `_PAIR_MARKS` show it: what is searched for in a text that may be long."""
_PAIR_MARKS = bytes(
    97 if chr(code) in "0123456789abcdefABCDEF" else 32 if chr(code) in " :" else 120 for code in range(256)
)
_URL_ALPHABET = str.maketrans("-_", "+/", " \t\r\n>=")
_ESCAPE = re.compile(
    r"%[0-9A-Fa-f]{2}|\\[xuU0-7][0-9A-Fa-f]|&(?:#\w{1,7}|[A-Za-z]{2,10});"
    r"|=(?:40|3[Dd]|2[Ee]|[0-9A-Fa-f]{2}=[0-9A-Fa-f]{2})"
)
"""An equals sign before two digits is an assignment far more often than an escape: that of a sign of its own counts."""
_AROUND = bytes(32 if chr(code) in " \t\n\"'<>" else 97 for code in range(256))
"""A blank for each sign that stands around a word with an escape in it."""
_STRONG = "%\\&"
"""Signs of escapes that are little else."""
_CODES = re.compile(r"(?<![0-9])[0-9]{2,7}(?:[\s,;\"']{1,4}[0-9]{2,7}){3,}(?![0-9])")
_SPREAD = re.compile(r"(?<![^\W_])[^\n](?P<by>[^\w\n]{1,4}|_|\n)[^\n](?:(?P=by)[^\n](?![^\W_])){3,}")
_DIGITS = re.compile(r"[\d\s.-]*")
_LETTER = re.compile(r"[^\W\d_]")
_FLAT = str.maketrans(dict.fromkeys("|,;:=\"'{}[]<>\t", " "))
_CHECKED = frozenset({"credit_card", "iban", "ssn", "national_id", "tax_id"})
"""Types that are found in reversed digits: any date read backwards could be a telephone number."""
_PRINTABLE = bytes([9, 10, 13, *range(32, 127)])
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]")
_PACKED = frozenset([b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"])

FindEach = Callable[[Sequence[str]], Sequence[Sequence[Span]]]
"""Searches many texts at once."""


class EncodedValues:
    """Finds private values behind a common encoding, in time linear in the text.

    The thorough search reads a text in every way that code might write it in. The other one, for what servers send,
    looks at escapes and at long words only, and costs next to nothing where there are none.
    """

    knows_words = False
    """A text shorter than `judge.LEAST_SEARCHED` without an escape in it is not encoded."""

    def __init__(self, find_each: FindEach, *, is_thorough: bool = False) -> None:
        self._find_each = find_each
        self._is_thorough = is_thorough
        least = _THOROUGH_LEAST if is_thorough else _QUICK_LEAST
        self._words = Runs(WORD + "+/", least=least)
        self._least = least

    def find(self, text: str) -> list[Span]:
        """The stretches that decode to something private. A word counts whole, since a part reveals the rest."""
        text = without_tokens(text)
        unpacking = _Unpacking(_UNPACKED_BYTES + 8 * len(text))
        readings = self._readings(text, _DEPTH, unpacking)
        texts = list(dict.fromkeys(each.text for each in _all(readings)))
        found = dict(zip(texts, self._find_each(texts), strict=True)) if texts else {}
        return united(span for reading in readings for span in reading.spans(text, found))

    def _readings(self, text: str, depth: int, unpacking: "_Unpacking") -> list["_Reading"]:
        """The text and its parts decoded, and these decoded again."""
        readings = list(self._decoded(text, unpacking)) if depth else []
        for reading in readings:
            reading.inner = self._readings(reading.text, depth - 1, unpacking)
        return readings

    def _decoded(self, text: str, unpacking: "_Unpacking") -> Iterator["_Reading"]:
        yield from _without_escapes(text, [(0, len(text))] if self._is_thorough else _escaped_words(text))
        known: dict[str, list[str | None]] = {}
        for start, end, run in (*self._runs(text), *_hex_pairs(text, is_any=self._is_thorough)):
            if run not in known:
                known[run] = list(_decode(run, unpacking, is_short_read=self._is_thorough))
            yield from (_Reading(start, end, each or "", is_unread=each is None) for each in known[run])
        if self._is_thorough:
            yield from _turned(text)

    def _runs(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The parts of the text that are made of the characters of base64 or hex only."""
        done = 0
        for start, end in self._words.find(text):
            if start < done or _PLAIN.fullmatch(text, start, end):
                continue
            block = _BLOCK.match(text, start)
            assert block is not None
            done = block.end()
            if "\n" not in block[0]:
                yield from _parts(start, block[0])
                continue
            pieces = list(_PIECE.finditer(text, start, done))
            lengths = {len(piece[0]) for piece in pieces[:-1]}
            is_wrapped = len(lengths) == 1 and max(lengths) >= len(pieces[-1][0])
            if is_wrapped:
                yield start, done, block[0]
            if not (is_wrapped and lengths <= _WRAPPED):
                for piece in pieces:
                    if len(piece[0]) >= self._least and not _PLAIN.fullmatch(piece[0]):
                        yield from _parts(piece.start(), piece[0])


class _Reading(msgspec.Struct, gc=False):
    """A stretch of a text as it reads decoded."""

    start: int
    end: int
    text: str
    view: View | None = None
    """Leads back to the stretch. A finding in a reading without one covers it all."""
    is_unread: bool = False
    """True if it unpacks to more than may be read."""
    is_backwards: bool = False
    """True if it is the whole text backwards."""
    inner: list["_Reading"] = []

    def spans(self, text: str, found: dict[str, Sequence[Span]]) -> Iterator[Span]:
        """The findings, in offsets of the text that was decoded."""
        if self.is_unread:
            yield Span(self.start, self.end, "text")
            return
        spans = [*found[self.text], *(span for each in self.inner for span in each.spans(self.text, found))]
        if self.view is None and not self.is_backwards:
            if spans:
                yield Span(self.start, self.end, max(spans, key=lambda each: each.end - each.start).type)
            return
        for span in spans:
            start, end = len(text) - span.end, len(text) - span.start
            if self.view is not None:
                start, end = (self.start + offset for offset in self.view.source(span.start, span.end))
            if text[start:end] == self.text[span.start : span.end]:
                continue  # not encoded: it is found in the text itself
            if not self.is_backwards or span.type in _CHECKED or _LETTER.search(text, start, end):
                yield Span(start, end, span.type)


def _all(readings: Iterable[_Reading]) -> Iterator[_Reading]:
    for reading in readings:
        if not reading.is_unread:
            yield reading
            yield from _all(reading.inner)


# Escapes


def _without_escapes(text: str, stretches: Iterable[tuple[int, int]]) -> Iterator[_Reading]:
    """Stretches without their escapes: those of `_STRONG` signs at once, since text in one kind may hold another."""
    known: dict[str, list[View]] = {}
    for start, end in stretches:
        part = text[start:end]
        if part not in known:
            views = (unescaped(part, signs=_STRONG), unescaped(part, signs="="), plain(part))
            known[part] = [view for view in views if view is not None and len(view.text) >= _SHORTEST]
        for view in known[part]:
            yield _Reading(start, end, view.text, view)


def _escaped_words(text: str) -> Iterator[tuple[int, int]]:
    """The stretches between blanks and quotation marks that have an escape in them."""
    escape = _ESCAPE.search(text)
    marks = text.encode("ascii", "replace").translate(_AROUND) if escape else b""
    done = 0
    while escape:
        start = max(done, marks.rfind(b" ", done, escape.start()) + 1)
        done = marks.find(b" ", escape.end())
        done = len(text) if done < 0 else done
        yield start, done
        escape = _ESCAPE.search(text, done)


# Base64 and hex


def _parts(start: int, word: str) -> Iterator[tuple[int, int, str]]:
    """A word, and what may be encoded in it if it is a path or a name."""
    end = start + len(word)
    yield start, end, word
    if len(word) < _LONGEST_PATH and not word.rstrip("=").isalnum() and _PLAIN_PART.search(word):
        if before := _BEFORE.match(word):
            yield start + before.end(), end, word[before.end() :]
        yield from ((start + part.start(), start + part.end(), part[0]) for part in _PART.finditer(word))


def _hex_pairs(text: str, *, is_any: bool) -> Iterator[tuple[int, int, str]]:
    """Rows of bytes in hex that are set apart: four or more, or `_MANY_PAIRS` in a text that may be long."""
    if not (is_any or " " in text or ":" in text):
        return
    if is_any or _MANY_PAIRS in text.encode("ascii", "replace").translate(_PAIR_MARKS):
        for match in _HEX_PAIRS.finditer(text):
            yield *match.span(), re.sub(r"0x|[\s:,]", "", match[0])


def _decode(run: str, unpacking: "_Unpacking", *, is_short_read: bool) -> Iterator[str | None]:
    """The texts that a run is in base64 and in hex; None for one that unpacks to too much."""
    is_number = run.isdigit()
    if is_number and len(run) > _LONGEST_NUMBER:
        return
    compact = run if run.isalnum() else run.translate(_URL_ALPHABET)
    ways = []
    if not (is_number or compact.islower()):  # no text is written in base64 without a capital
        ways.append(binascii.a2b_base64(compact[: len(compact) - (len(compact) % 4 == 1)] + "=="))
    if _HEX.fullmatch(compact):
        ways.append(bytes.fromhex(compact[: len(compact) - len(compact) % 2]))
    for data in ways:
        try:
            read = _readable(unpacking.unpacked(data))
        except _TooLarge:
            yield None
            continue
        if read is None or len(read.strip()) < _SHORTEST:
            continue
        if is_short_read or read.isascii() or len(read) >= _SHORT_TEXT:
            yield read


class _TooLarge(Exception):
    """Data that unpacks to more than may be read."""


class _Unpacking:
    """Unpacks gzip and zlib, up to a number of bytes in all."""

    def __init__(self, left: int) -> None:
        self._left = left

    def unpacked(self, data: bytes) -> bytes:
        """The data, unpacked if it is packed, twice at most. Raises `_TooLarge`."""
        for _ in range(_DEPTH):
            if data[:2] not in _PACKED:
                break
            if self._left < 0:
                raise _TooLarge
            try:
                data = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, self._left + 1)
            except zlib.error:
                break
            self._left -= len(data)
            if self._left < 0:
                raise _TooLarge
        return data


def _readable(data: bytes) -> str | None:
    """The text that the data is, mostly: `None` for an image, a hash or a word that only looked encoded."""
    odd = len(data.translate(None, _PRINTABLE))
    if not odd:
        return data.decode("ascii")
    if len(data) >= 8 and 5 * data.count(0) >= 2 * len(data):
        return _mostly(data.decode("utf-16-le" if data[0] else "utf-16-be", "replace"))
    try:
        return _mostly(data.decode())
    except UnicodeDecodeError as error:
        if 0 < error.start >= len(data) - 3:
            return _mostly(data[: error.start].decode())
    # Not UTF-8 throughout: an old character set, or junk before or behind a text.
    return _mostly(data.decode("latin-1")) if 3 * odd < len(data) else None


def _mostly(read: str) -> str | None:
    clean, count = _NO_TEXT.subn(" ", read)
    return clean if 4 * count <= len(read) else None


# What only code writes


def _turned(text: str) -> Iterator[_Reading]:
    """The text backwards, character codes as characters, and letters that are set apart put together."""
    # A turned table has no header and a turned field no name: what stands there must not be taken for one.
    yield _Reading(0, len(text), text.translate(_FLAT)[::-1], is_backwards=True)
    for run in _CODES.finditer(text):
        codes = [int(code) for code in re.findall("[0-9]+", run[0])]
        if min(codes) >= 9 and max(codes) < 0x110000:
            read = decoded_bytes(bytes(codes)) if max(codes) < 256 else "".join(map(chr, codes))
            yield _Reading(*run.span(), read)
    for run in _SPREAD.finditer(text):
        letters = run[0][:: 1 + len(run["by"])]
        # Digits set apart are a row of a table far more often than a number in disguise.
        if not _DIGITS.fullmatch(letters):
            yield _Reading(*run.span(), letters)
