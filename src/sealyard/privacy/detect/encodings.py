"""Private values that were encoded before they were printed.

Covered: base64 (both alphabets, with or without padding and line breaks, after junk), base32, hex, lists of character
codes, percent-, backslash-, HTML- and quoted-printable escapes, invisible and full-width characters, letters set apart,
reversed and rot13 text, gzip or zlib inside base64, base32 or hex; two of them on top of each other as a rule. Digits
that are only reversed count as card, account and register numbers, not as telephone numbers or dates.

Not covered, because nothing can: encryption, slices, hashes, arithmetic on characters, an alphabet of the code's own.
In mode `output` code holds real values and can smuggle one out if it wants to. Mode `strict` prevents that: code holds
no real value there.
"""

import base64
import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from sealyard.privacy.detect.checks import WALLET_FORM, is_card, is_wallet
from sealyard.privacy.detect.credentials import KEY
from sealyard.privacy.detect.numbers import find_iban, find_registered
from sealyard.privacy.detect.registers import REGISTERED_WORD
from sealyard.privacy.detect.screens import WORD, Runs, encoded_runs, find_candidates
from sealyard.privacy.reading.view import ESCAPES, decoded_bytes, plain, rewritten, united, without_tokens
from sealyard.privacy.span import TOKEN, Span

_DEPTH = 2  # layers that are decoded: base64 in a URL in JSON, at bounded cost
_UNPACKED_BYTES = 1 << 20
"""Compressed data may unpack to this much in one call, and eight times the text. More is concealed unread."""
_BLOCK_CHARACTERS = 4096  # of lines searched together
_SHORTEST = 4
"""A shorter decoded text is chance, or too little to mean anything."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}|[A-Za-z0-9+/_-]{6,7}={1,2}")
_BASE64_PART = re.compile(r"[A-Za-z0-9]{8,}={0,2}|[A-Za-z0-9]{6,7}={1,2}")
_BASE64_LINES = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{4,}[ \t]*(?:\r?\n[ \t>]*[A-Za-z0-9+/_-]{2,}={0,2}(?![A-Za-z0-9+/_-])[ \t]*)+"
)
_WORD = r"(?:[A-Z]?[a-z]+|[A-Z]+|[0-9]+)"
_WORDS = re.compile(rf"[-_/+]*{_WORD}(?:[-_/+>\s]+{_WORD})*[-_/+]*")
_WORDS_CHARACTERS = 256  # a longer part is decoded without a look at its words
_URL_ALPHABET = str.maketrans("-_", "+/", " \t\r\n>=")
_BASE32 = re.compile(r"(?:[A-Z2-7]{8,}|[a-z2-7]{8,})={0,6}")
_LEAST_BASE64 = 6  # four bytes, the shortest text that counts (`_SHORTEST`)
_LEAST_BASE32 = 16
"""A shorter run in small letters is a word."""
_SAMPLE_CHARACTERS = 1024
"""The first part of a long run that is looked at: base32 is decoded slowly."""
_HEX = re.compile(r"[0-9A-Fa-f]{6,}")
_CODE = r"(?:0[xX][0-9A-Fa-f]{1,5}|0[oO][0-7]{1,6}|0[bB][01]{6,8}|[01]{7,8}|[0-9A-Fa-f]{2}|[0-9]{2,6})(?![0-9A-Za-z])"
_CODES = re.compile(rf"(?<![0-9A-Za-z]){_CODE}(?:[\s,;:|/\\.+\-'\"]{{1,4}}{_CODE}){{3,}}")
_NUMBER = re.compile(r"[0-9A-Za-z]+")
_BASES = {"0x": (16,), "0o": (8,), "0b": (2,)}
_APART = re.compile(r"(?<![^\W_])[^\n](?P<by>[^\w\n]{1,4}|_|\n)[^\n](?:(?P=by)[^\n](?![^\W_])){3,}")
_DIGITS = re.compile(r"[\d\s.-]*")
_LETTER = re.compile(r"[^\W\d_]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_FLAT = str.maketrans(dict.fromkeys("|,;:=\"'{}[]<>\t", " "))
_CHECKED = frozenset({"credit_card", "iban", "ssn", "national_id", "tax_id"})
"""Types that are found in reversed digits: any date read backwards could be a telephone number."""

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]")
_PRINTABLE = bytes([9, 10, 13, *range(32, 127)])


def find_encoded(text: str, find: Callable[[str], list[Span]]) -> list[Span]:
    """The runs of the text that decode to something in which `find` finds something, each with the finding's type.

    A run counts whole, since a part reveals the rest. `find` is called on the text a few times over (reversed and
    rot13 at the least) and on every run that decodes to text; what decodes to anything else, such as an image, is
    passed over. The time is linear in the text for a linear `find`.
    """
    return united(_Search(find, _UNPACKED_BYTES + 8 * len(text)).encoded(without_tokens(text), _DEPTH))


def find_encoded_words(
    words: Collection[str],
    find: Callable[[str], list[Span]],
    find_each: Callable[[Sequence[str]], Sequence[Collection[Span]]],
) -> dict[str, list[Span]]:
    """The findings of `find_encoded` in each of many single words that hold something, as fast as most words allow.

    Nearly every long word is a path, a hash, a name or an id. So only what `find_candidates` lets pass is decoded, the
    texts that come of it are searched together, with `find_each`, and only a word that gave one with a finding is
    looked into as `find_encoded` does.
    What decodes to fewer than `_SHORT_TEXT` characters counts in ASCII only, and a word read backwards or rotated by 13
    letters if it begins as a key, an account number or a wallet does, or names a secret.
    """
    words = [word for word in words if not _PLAIN_WORDS.fullmatch(word)]
    suspicious = set(_turned([word for word in words if not _HASH.fullmatch(word)]))
    read = _Words(_Search(find, _UNPACKED_BYTES + 8 * sum(map(len, words))).unpacked)
    read.add([(word, word) for word in words], _DEPTH)
    suspicious.update(owner for owner, spans in zip(read.owners, find_each(read.texts), strict=True) if spans)
    found = {word: find_encoded(word, find) for word in words if word in suspicious - read.too_large}
    found |= {word: [Span(0, len(word), "text")] for word in read.too_large}
    return {word: spans for word, spans in found.items() if spans}


_SHORT_TEXT = 12  # characters: fewer bytes are valid UTF-8 by chance too often
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_PLAIN_WORD = r"(?:[a-z]{2,15}|[0-9]{1,5}(?![-_/+=&#;]+[0-9]))"
_PLAIN_WORDS = re.compile(rf"[-_/+=&#;]*{_PLAIN_WORD}(?:[-_/+=&#;]+{_PLAIN_WORD})*+[-_/+=&#;]*|{_UUID}")
"""A path or a query of words in small letters and short numbers, or a UUID: no encoding makes such, and nothing private
is one."""
_HASH = re.compile(r"[0-9a-f]{25,}")
"""No key, account number or wallet is that long and of these letters alone."""
_SIMPLE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_HEX_WORD = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
_ESCAPE = re.compile(
    r"%[0-9A-Fa-f]{2}|\\[0-9xuUabfnrtv\\/\"']|&[#A-Za-z]\w{1,9};|=(?:40|3[Dd]|2[Ee]|[0-9A-Fa-f]{2}=[0-9A-Fa-f]{2})"
)
"""An equals sign before two digits is an assignment far more often than an escape: that of a sign of its own counts."""
_STRONG_ESCAPE = re.compile(r"[%\\&]")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ROTATED = str.maketrans(_LETTERS, _LETTERS[13:26] + _LETTERS[:13] + _LETTERS[39:] + _LETTERS[26:39])
_LEAST_TURNED = 13
"""Characters of the shortest number or key that is recognised by its form: a card's digits."""
_TURNED_RUNS = Runs(WORD + "+/=.:$%~", least=_LEAST_TURNED)
_TURNED_START = re.compile(
    rf"[\n+/_=;%&#-](?:(?:{KEY})|(?=[A-Za-z0-9]{{{_LEAST_TURNED}}})(?:(?P<account>[A-Za-z]{{2}}[0-9]{{2}}[A-Za-z0-9]{{11,30}})"
    rf"|(?P<card>[0-9]{{13,19}})(?![0-9A-Za-z])|(?P<register>{REGISTERED_WORD})|(?P<wallet>{WALLET_FORM})))"
)
"""A key, or what may be another private number, where a part of a word begins."""
_SECRETS = ("pass", "pwd", "secret", "token", "key", "bearer", "cookie", "session")
_TURNED_SECRET = re.compile(rf"[\n=;](?:{'|'.join(_SECRETS)})|(?:{'|'.join(_SECRETS)})[a-z0-9_-]*[=;]")
"""A name that secrets have in a word of two parts, in small letters."""
_BROKEN = re.compile(rb"[\x00-\x7f][\x80-\xbf]|[\xc2-\xf4][^\x80-\xbf]|[\xc0\xc1\xf5-\xff]|\A[\x80-\xbf]")
"""Bytes that never occur in UTF-8."""


def _turned(words: Collection[str]) -> Iterator[str]:
    """The words that may be something private read backwards or rotated."""
    listed = list(words)
    backwards = "\n".join(["", *(word[::-1] for word in listed)]).replace("n\\", " \n")  # an escaped end of a line
    starts = list(accumulate((len(word) + 1 for word in listed), initial=0))
    rotated = "\n".join(["", *listed]).translate(_ROTATED)
    for turned in (backwards, rotated, backwards.translate(_ROTATED)):
        for start, end in _TURNED_RUNS.find(turned):
            for match in _TURNED_START.finditer(turned, start - 1, end + 1):
                if match.lastgroup is None or _is_number(match.lastgroup, match[match.lastgroup]):
                    yield listed[bisect_right(starts, match.start()) - 1]
        if "=" in turned or ";" in turned:
            lower = turned.lower()
            if any(secret in lower for secret in _SECRETS):
                for match in _TURNED_SECRET.finditer(lower):
                    yield listed[bisect_right(starts, match.start()) - 1]


def _is_number(kind: str, value: str) -> bool:
    if kind == "account":
        return find_iban(value, 0) is not None
    if kind == "card":
        return is_card(value)
    return find_registered(value) is not None if kind == "register" else is_wallet(value)


class _Words:
    """The texts that words and their parts decode to, each with the word, and also backwards and rotated."""

    def __init__(self, unpacked: Callable[[bytes], bytes]) -> None:
        self.owners: list[str] = []
        self.texts: list[str] = []
        self.too_large: set[str] = set()
        """Words that unpack to more than may be read."""
        self._unpacked = unpacked

    def add(self, texts: Iterable[tuple[str, str]], depth: int) -> None:
        """Decode texts, each of them a word or decoded from one."""
        parts: list[tuple[str, str]] = []
        deeper: list[tuple[str, str]] = []
        for word, text in texts:
            if _SIMPLE.fullmatch(text):
                parts.append((word, text.rstrip("=")))
                continue
            for start, end in _PARTS.find(text):
                if end - start >= _LEAST_PART or text.startswith("=", end):
                    parts.append((word, text[start:end]))
            if _ESCAPE.search(text) or not text.isascii():
                is_strong = _STRONG_ESCAPE.search(text) is not None
                for reading in _unescaped_ways(text):
                    self._note(word, reading)
                    if depth > 1 and is_strong and _LETTER_OR_DIGIT.search(reading):
                        self._turn(word, reading)
                        deeper.append((word, reading))
        for number, data in _decoded([part for _, part in parts]):
            word = parts[number][0]
            try:
                read = data if isinstance(data, str) else _readable(self._unpacked(data))
            except _TooLarge:
                self.too_large.add(word)
                continue
            if read is None or len(read.strip()) < _SHORTEST:
                continue
            if read.isascii() or len(read) >= _SHORT_TEXT:
                self._note(word, read)
            if depth > 1 and len(read) >= _SHORT_TEXT and read.isprintable():
                self._turn(word, read)
                deeper.append((word, read))
        if deeper:
            self.add(deeper, depth - 1)

    def _note(self, word: str, text: str) -> None:
        if _LETTER_OR_DIGIT.search(text) is None:
            return  # and nothing private
        self.owners.append(word)
        self.texts.append(text)

    def _turn(self, word: str, read: str) -> None:
        flat = read.translate(_FLAT)
        backwards = flat[::-1]
        for turned in (backwards, flat.translate(_ROTATED), backwards.translate(_ROTATED)):
            self._note(word, turned)
        for pattern, decode in ((_CODES, _codes), (_APART, _apart)):
            for match in pattern.finditer(read):
                for text in decode(match.group()):
                    self._note(word, text)


def _unescaped_ways(text: str) -> list[str]:
    """Readings of a text without its escapes: those of all kinds at once, since each kind marks its own.

    An equals sign is an escape in few texts, so it is read as one apart. Two layers are taken off, whatever they are.
    """
    ways = [text]
    for _ in range(_DEPTH):
        for way in ways[:]:
            strong = way
            for sign in "%\\&":
                if sign in way and (view := rewritten(strong, *ESCAPES[sign])):
                    strong = view.text
            ways.append(strong)
            if "=" in way and (view := rewritten(way, *ESCAPES["="])):
                ways.append(view.text)
        ways = list(dict.fromkeys(ways))
    if not text.isascii() and (view := plain(text)):
        ways.append(view.text)
    return [way for way in dict.fromkeys(ways) if way != text]


_LEAST_PART = 8  # characters of a part in base64; a shorter one counts if `=` follows it
_PARTS = Runs(WORD + "+/", least=_LEAST_BASE64)


def _decoded(parts: Sequence[str]) -> Iterator[tuple[int, bytes | str]]:
    """The decoded parts of letters, digits and `+/_-`, as far as they may be text, with the number of each."""
    found = find_candidates(parts, _may_be_text)
    for number, run in found.hex:
        backwards = _hex(run[::-1]) if _HEX_WORD.fullmatch(parts[number]) else ()
        yield from ((number, data) for data in (*_hex(run), *backwards) if _may_be_text(data))
    for number in found.codes:
        for pattern, decode in ((_CODES, _codes), (_APART, _apart)):
            for match in pattern.finditer(parts[number]):
                yield from ((number, text) for text in decode(match.group()))
    for number in found.base64:
        yield from ((number, data) for data in _decoded_base64(parts[number]) if _may_be_text(data))
    for number, run in found.base32:
        for way in (*_BASE32.findall(run), *_BASE32.findall(run.translate(_ROTATED))):
            for data in (*_base32(way), *_base32(way[::-1])):
                if _may_be_text(data):
                    yield number, data


def _decoded_base64(part: str) -> Iterator[bytes]:
    """A part decoded from base64, and those of its pieces between separators that stand beside a word."""
    if len(part) < _WORDS_CHARACTERS and part.islower() and _WORDS.fullmatch(part):
        return
    spelt = _spelt(part)
    yield from spelt
    if len(part) < _WORDS_CHARACTERS and not part.isalnum() and (spelt or _PLAIN_PART.search(part)):
        for piece in _BASE64_PART.findall(part):
            yield from _spelt(piece)


_PLAIN_PART = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]?[a-z0-9]{3,}|[A-Z0-9]{3,})(?![A-Za-z0-9])")
"""A word or number beside which another part may be encoded. Without one, all of it is or nothing."""


def _spelt(run: str) -> list[bytes]:
    """A run decoded from base64 at each place where a group may begin, also backwards and rotated."""
    ways = (run, run[::-1], run.translate(_ROTATED))
    return [data for way in ways for data in _groups(way.translate(_URL_ALPHABET))]


def _may_be_text(data: bytes) -> bool:
    """True if `_readable` may make something of it; cheap, and never wrong when it says no."""
    odd = len(data.translate(None, _PRINTABLE))
    if len(data) < _SHORT_TEXT:
        return not odd and len(data) >= _SHORTEST
    return (
        3 * odd < len(data)
        or data[:2] in _PACKED
        or _BROKEN.search(data[:-3]) is None
        or 5 * data.count(0) >= 2 * len(data)
    )


class _Reading(NamedTuple):
    """A text as it reads decoded, and the way back to the offsets of the encoded one."""

    text: str
    source: Callable[[int, int], tuple[int, int]]


_Decode = Callable[[str], Iterator[bytes | str]]


class _Run(NamedTuple):
    start: int
    end: int
    content: str
    decode: _Decode


def _reverse(text: str) -> _Reading:
    return _Reading(text[::-1], lambda start, end: (len(text) - end, len(text) - start))


def _rotate(text: str) -> _Reading:
    return _Reading(text.translate(_ROTATED), lambda start, end: (start, end))


_Turns = tuple[Callable[[str], _Reading], ...]
_TURNS: _Turns = (_reverse, _rotate)


class _Search:
    """One call: the search, the bytes that may still be unpacked, and the findings of each run."""

    def __init__(self, find: Callable[[str], list[Span]], unpacked_bytes: int) -> None:
        self._find = find
        self._unpacked_bytes = unpacked_bytes
        self._types: dict[tuple[_Decode, str, int], str | None] = {}

    def encoded(self, text: str, depth: int, turns: _Turns = _TURNS) -> Iterator[Span]:
        """The encoded findings in a text that was not turned yet in the ways given."""
        if depth == 0 or len(text) < 4:
            return
        for reading in _escaped(text):
            yield from self._read(text, reading, depth, turns)
        # A turned table has no header and a turned field no name: what stands there must not be taken for one.
        flat = text.translate(_FLAT) if turns else ""
        for number, turn in enumerate(turns):
            # Turning twice in either order is the same: each pair is tried once.
            for span in self._read(flat, turn(flat), depth, turns[number + 1 :]):
                if _LETTER.search(flat, span.start, span.end) or span.type in _CHECKED:
                    yield span
        # The runs of a turned text are those of the text: `_type` turns each.
        for run in _runs(text) if turns == _TURNS else ():
            of_type = self._type(run.decode, run.content, depth)
            if of_type is not None:
                yield Span(run.start, run.end, of_type)

    def _found(self, text: str, depth: int, turns: _Turns = _TURNS) -> list[Span]:
        return [*self._find(text), *self.encoded(text, depth, turns)]

    def _read(self, text: str, reading: _Reading, depth: int, turns: _Turns) -> Iterator[Span]:
        for span in self._found(reading.text, depth - 1, turns):
            start, end = reading.source(span.start, span.end)
            # Text that decodes to itself is not encoded: it is found in the text itself.
            if text[start:end] != reading.text[span.start : span.end]:
                yield Span(start, end, span.type)

    def _type(self, decode: _Decode, content: str, depth: int) -> str | None:
        """The type of what a run decodes to."""
        key = (decode, content, depth)
        if key not in self._types:
            self._types[key] = self._decoded_type(decode, content, depth)
            if self._types[key] is None and depth > 1:
                turned = (self._type(decode, turn(content).text, depth - 1) for turn in _TURNS)
                self._types[key] = next((of_type for of_type in turned if of_type is not None), None)
        return self._types[key]

    def _decoded_type(self, decode: _Decode, content: str, depth: int) -> str | None:
        for decoded in decode(content):
            try:
                read = decoded if isinstance(decoded, str) else _readable(self.unpacked(decoded))
            except _TooLarge:
                return "text"
            if read is not None and len(read.strip()) >= _SHORTEST and (spans := self._found(read, depth - 1)):
                return max(spans, key=lambda span: span.end - span.start).type
        return None

    def unpacked(self, data: bytes) -> bytes:
        """The data, unpacked if it is in the format of gzip or zlib, twice at most."""
        for _ in range(_DEPTH):
            if data[:2] not in _PACKED:
                break
            if self._unpacked_bytes < 0:
                raise _TooLarge
            try:
                data = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, self._unpacked_bytes + 1)
            except zlib.error:
                break
            self._unpacked_bytes -= len(data)
            if self._unpacked_bytes < 0:
                raise _TooLarge
        return data


_PACKED = frozenset([b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"])


class _TooLarge(Exception):
    """Data that unpacks to more than may be read."""


def _escaped(text: str) -> Iterator[_Reading]:
    """The text without its escapes, as far as it has any: block by block, so that one escape does not cost it all."""
    start = 0
    blocks = []
    for line in _LINES.finditer(text):
        if line.end() - start >= _BLOCK_CHARACTERS or line.end() == len(text):
            blocks.append((start, text[start : line.end()]))
            start = line.end()
    for start, block in blocks:
        views = [rewritten(block, *escape) for sign, escape in ESCAPES.items() if sign in block]
        views.append(plain(block))
        for view in views:
            if view is not None:
                yield _Reading(view.text, _shifted(view.source, start))


def _shifted(source: Callable[[int, int], tuple[int, int]], by: int) -> Callable[[int, int], tuple[int, int]]:
    def shifted(start: int, end: int) -> tuple[int, int]:
        start, end = source(start, end)
        return start + by, end + by

    return shifted


def _runs(text: str) -> Iterator[_Run]:
    """The parts of the text that are made of an encoding's characters only."""
    for pattern, decode in _RUNS:
        for match in pattern.finditer(text):
            content = match.group()
            yield _Run(*match.span(), content, decode)
            if pattern is _BASE64 and len(content) < _WORDS_CHARACTERS and not content.isalnum():
                # A path or a name with underscores: what is encoded may begin at one of its parts.
                for part in _BASE64_PART.finditer(content):
                    yield _Run(match.start() + part.start(), match.end(), part.group(), decode)


def _base64(run: str) -> Iterator[bytes]:
    # Of a hundred runs ninety are words, and a text of two words or more does not encode to such.
    if len(run) < _WORDS_CHARACTERS and _WORDS.fullmatch(run):
        return
    yield from _groups(run.translate(_URL_ALPHABET))
    if "\n" in run:
        # A word at the end of the line before does not belong to it.
        yield from _base64("".join(run.split("\n")[1:]))


def _groups(characters: str) -> Iterator[bytes]:
    """The bytes in base64. Junk in front shifts where groups of four begin."""
    for offset in range(4):
        part = characters[offset:]
        if len(part) >= _LEAST_BASE64:
            yield binascii.a2b_base64(part[: len(part) - (len(part) % 4 == 1)] + "==")


def _base32(run: str) -> Iterator[bytes]:
    characters = run.strip("=").upper()
    if len(characters) < _LEAST_BASE32 and run.islower() and run.isalpha():
        return
    for offset in range(8 if len(characters) >= _LEAST_BASE32 else 1):
        part = characters[offset:]
        part = part[: len(part) - (len(part) % 8 in (1, 3, 6))]
        sample = part[:_SAMPLE_CHARACTERS]
        if len(part) == len(sample) or _readable(_unpadded32(sample)) is not None:
            yield _unpadded32(part)


def _unpadded32(characters: str) -> bytes:
    return base64.b32decode(characters + "=" * (-len(characters) % 8))


def _hex(run: str) -> Iterator[bytes]:
    for offset in range(2) if _HEX.fullmatch(run) else ():
        part = run[offset:]
        yield bytes.fromhex(part[: len(part) - len(part) % 2])


def _codes(run: str) -> Iterator[str]:
    """The list of numbers as characters, in every base that all of them are written in."""
    numbers = _NUMBER.findall(run)
    prefix = numbers[0][:2].lower()
    for base in _BASES.get(prefix, (10, 16, 8, 2)):
        try:
            codes = [int(number, base) for number in numbers]
        except ValueError:
            continue
        if min(codes) < 9 or max(codes) >= 0x110000:
            continue
        read = decoded_bytes(bytes(codes)) if max(codes) < 256 else "".join(map(chr, codes))
        if not _NO_TEXT.search(read):
            yield read


def _apart(run: str) -> Iterator[str]:
    match = _APART.fullmatch(run)
    letters = run[:: 1 + len(match["by"])] if match else ""
    # Digits set apart are a row of a table far more often than a number in disguise.
    if not _DIGITS.fullmatch(letters):
        yield letters


_RUNS: tuple[tuple[re.Pattern[str], _Decode], ...] = (
    (_BASE64_LINES, _base64),
    (_BASE64, _base64),
    (_BASE32, _base32),
    (_HEX, _hex),
    (_CODES, _codes),
    (_APART, _apart),
)


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


class EncodedValues:
    """Finds private values behind a common encoding.

    The thorough one looks at a text in every way there is, as code that wants to get something out might write it. The
    other one looks at single long words only, as a server might send them, and costs next to nothing where none are.
    """

    knows_words = False
    """A text shorter than `judge.LEAST_SEARCHED` without an escape in it is not encoded."""

    def __init__(
        self,
        find: Callable[[str], list[Span]],
        find_each: Callable[[Sequence[str]], list[list[Span]]] | None = None,
    ) -> None:
        """With `find_each`, which searches many texts at once, it is the quick one; else the thorough one."""
        self._find = find
        self._find_each = find_each

    def find(self, text: str) -> Iterator[Span]:
        """The encoded words and runs of words in which something private is."""
        if self._find_each is None:
            yield from find_encoded(text, self._find)
            return
        runs = [run for run in encoded_runs(text) if not _is_word(run[0])]
        words = {run[0]: None for run in runs}
        plain = [word for word in words if "__" not in word or TOKEN.search(word) is None]
        found = find_encoded_words(plain, self._find, self._find_each) if plain else {}
        for word, start in runs if found else ():
            for span in found.get(word, ()):
                yield Span(start + span.start, start + span.end, span.type)


def _is_word(run: str) -> bool:
    return run.isdigit() or (run.isalpha() and run.islower())
