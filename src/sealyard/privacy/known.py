"""Values that a session has seen before, found again: a dictionary of word sequences, so their number costs no time.

A value is recognised letter by letter, and also as follows:

- Whole words only; case, accents, width and invisible characters do not matter, nor what stands between two words: a
  line end, spaces, other punctuation, up to `_GAP` characters or as many as a value has itself. Words in separate
  cells or strings get a span each.
- Numbers (`_COMPACT` characters or more, at least half of them digits) also with separators elsewhere or nowhere; a
  phone number also without its country code.
- A person's name also written as one word, and each part of it that has three letters, is not an everyday word and is
  capitalised.
- A value of several lines also line by line; one of more than `_PIECE` words also by every `_PIECE` of them.
- A value too common to mean anything alone (one or two characters, up to four digits, everyday words) counts only as a
  whole cell of a line that holds another finding, or, unless it is a number, as the whole text: the house number in a
  person's row is concealed, the same number as a count is not. `null`, `true` and the like never count.
"""

import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import msgspec

from sealyard.errors import LimitReached
from sealyard.privacy.detect.numbers import COUNTRY_CODES
from sealyard.privacy.reading.lexicon import WORDS
from sealyard.privacy.reading.views import folded
from sealyard.privacy.span import Span, united, without_tokens

_PIECE = 8  # words: a row of as many is hardly chance
_GAP = 16  # characters: more punctuation than this sets two things apart; chosen, not measured
_SPACE = 256
"""The longest gap between two words of one value: `_GAP` characters, or `_SPACE` if all of them are white space."""
_WIDE_GAP = re.compile(rf"[\W_]{{{_GAP + 1},}}")
_COMPACT = 7  # characters: shorter numbers are too common
_COMPACT_LIMIT = 40  # a longer number is no account or card
_NEAR = 1000  # characters of one line in which the words of a value belong together
_CHUNK_CHARACTERS = 1 << 18  # searched at once: bounds the memory that a long text takes

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts in which words are not set apart: each character counts as a word."""
_ASCII_WORD = re.compile(r"([0-9a-z]+)")
_WORD = re.compile(rf"([{_UNSPACED}]|[^\W_{_UNSPACED}]+)")
_LETTERS = re.compile(r"\D+")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d(?:[ .()/+\-\xa0\r\n]{0,3}\d){6,}")
_NO_SEPARATORS = dict.fromkeys(map(ord, " .()/+-\xa0\r\n"))
_BREAK = re.compile(r"[\W_]")
_SYMBOLS = re.compile(r"[^\w\s]+")
_AROUND = "\"'`,;:()[]{}<>|="
_BEFORE_CELL = re.compile(r"(?:^|[\"'`,;:()\[\]{}<>|=\t\r\n])[ ]*\Z")
_AFTER_CELL = re.compile(r"[ ]*(?:\Z|[\"'`,;:()\[\]{}<>|=\t\r\n])")
_ESCAPE = re.compile(r"\\[abfnrtv]")
_ESCAPED_LINE = re.compile(r"^[^\n]*\\[abfnrtv][^\n]*", re.MULTILINE)
_STRUCTURE = re.compile(r"""["'`]\s*[,:;]?\s*["'`]|[][{}<>|\t]|\A[,;]\Z""")
_FRACTION = re.compile(r"\.(?!0(?!\d))\d")
_PART = 1  # the lowest bit; see `_PLACE_BITS`
_PLACES = [(offset, count) for count in range(1, _PIECE + 1) for offset in range(count)]
_PLACE_BITS = {place: 2 << bit for bit, place in enumerate(_PLACES)}
"""One bit for each position of a word in a value of some number of words. `_PART` is the bit of a part of a name."""

_adding = threading.Lock()
"""Held for microseconds: several threads add values at once, and each must be found afterwards."""
_VOID = frozenset("na nan nil no none null true false undefined unknown yes".split()) | {"n a"}


class KnownValues:
    """Every private value a session has seen, to be found again in whatever leaves.

    Adding 100,000 values takes about a second; searching a text costs the same whatever the number of values, and more
    only for each one found.
    Memory is bounded by `limit`, the number of entries: one for a plain value, two for a name of several words or
    a number, three for a phone number, one for each `_PIECE` words of a long text. An entry costs about 200 bytes.
    """

    def __init__(self, *, limit: int = 1_000_000, is_thorough: bool = False) -> None:
        """The thorough one also finds values that are too common to mean anything alone."""
        self._limit = limit
        self._is_thorough = is_thorough
        self.texts: dict[str, str] = {}
        """Every value as it was added, with its type."""
        self._values: dict[str, str] = {}
        self._symbols: dict[str, str] = {}
        self._compact: dict[str, str] = {}
        self._prefixes: set[str] = set()
        self._has_mixed = False
        self._anchors: dict[str, int] = {}
        self._weak: set[str] = set()
        self._continued: set[str] = set()
        self._edges: dict[str, tuple[str, str]] = {}
        self._longest = 0
        self._gap = _GAP

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._values) + len(self._compact) + len(self._symbols)

    def add(self, value: str, type: str) -> bool:  # noqa: A002
        """Remember a value; False if it is known already, and keeps the type it came with first.

        Raises:
            LimitReached: There are `limit` entries. None is dropped for a new one, since a value forgotten would leak.
        """
        if value in self.texts:
            return False
        if len(self) >= self._limit:
            raise LimitReached(
                f"This session has seen {self._limit} private values and cannot keep track of more. "
                "Ask for fewer rows, go on in another session, or use privacy mode `strict` for this tool."
            )
        text = value.strip()
        words = _words(text)
        if not words:
            if key := text.strip(_AROUND):
                self._symbols.setdefault(key, type)
        elif " ".join(words) not in _VOID:
            self._add(text, words, type)
            if "\n" in text:
                for line in text.splitlines():
                    if words := _words(line):
                        self._add(line.strip(), words, type)
        self.texts[value] = type  # now that it is found
        return True

    def may_hold(self, texts: Iterable[str]) -> bool:
        """Returns False only if `find` finds nothing in any of these short texts, nor in all of them set apart.

        A finding has its longest word among the anchors, is a number of `_COMPACT` characters, or is all signs.
        """
        if not self:
            return False
        if self._symbols:
            return True
        for text in texts:
            if not text.isascii() or "\\" in text:
                return True
            words = _ASCII_WORD.findall(text.lower())
            if not self._anchors.keys().isdisjoint(words):
                return True
            if self._compact and sum(map(len, words)) >= _COMPACT and not "".join(words).isalpha():
                return True
        return False

    def find(self, text: str) -> list[Span]:
        """Every known value in the text, in order and without overlap. What stands inside a token is left alone."""
        if not self:
            return []
        text = without_tokens(text)
        spans = self._found(text)
        if "\\" in text:
            # In a literal, `\nAnna` holds Anna and not nAnna.
            for line in _ESCAPED_LINE.finditer(text):
                for span in self._found(_ESCAPE.sub("  ", line.group())):
                    spans.append(Span(span.start + line.start(), span.end + line.start(), span.type))
        return united(spans)

    def _add(self, value: str, words: list[str], of_type: str) -> None:
        key = " ".join(words)
        if gaps := _WIDE_GAP.findall(value):  # as wide as in the value itself, and no wider than any gap may be
            self._gap = max(self._gap, min(_SPACE, max(map(len, gaps))))
        if len(words) > _PIECE:
            # The last piece reaches back to be as long as the others: a word left over would be found everywhere.
            for start in [*range(0, len(words) - _PIECE, _PIECE), len(words) - _PIECE]:
                piece = words[start : start + _PIECE]
                if self._add_key(" ".join(piece), piece, of_type) and start:
                    self._continued.add(" ".join(piece))
        elif self._add_key(key, words, of_type) and not self._is_thorough and _is_weak(words, of_type):
            self._weak.add(key)
        if not (value[0].isalnum() and value[-1].isalnum()) and len(signs := _WORD.split(value)) > 1:
            self._edges.setdefault(key, (signs[0], signs[-1]))
        compact = "".join(words)
        if _COMPACT <= len(compact) <= _COMPACT_LIMIT and _is_numeric(compact):
            for form in _number_forms(value, compact, of_type):
                self._compact.setdefault(form, of_type)
                self._prefixes.add(form[:_COMPACT])
            self._has_mixed = self._has_mixed or not compact.isdigit()
        elif of_type == "person" and 2 <= len(words) <= _PIECE:
            self._add_name(words)

    def _add_key(self, key: str, words: list[str], of_type: str) -> bool:
        # A long word is rare: the sequence is looked up only where its longest word stands.
        anchor = max(words, key=len)
        with _adding:
            if key in self._values:
                return False
            self._values[key] = of_type
            self._anchors[anchor] = self._anchors.get(anchor, 0) | _PLACE_BITS[words.index(anchor), len(words)]
            self._longest = max(self._longest, len(key))
            return True

    def _add_name(self, words: list[str]) -> None:
        joined = "".join(words)
        if len(joined) >= 6:
            self._add_key(joined, [joined], "person")
        for word in words:
            if len(word) >= 3 and word.isalpha() and word not in WORDS["everyday"]:
                with _adding:
                    self._anchors[word] = self._anchors.get(word, 0) | _PART

    def _found(self, text: str) -> list[Span]:
        view = folded(text)
        spans: list[Span] = []
        weak: list[Span] = []
        for words in _stretches(view.text, self._longest):
            anchors = self._anchors
            hits = [index for index, word in enumerate(words.words) if word in anchors]
            covered: set[int] = set()
            for start, end, key in self._sequences(words, hits, covered):
                span = Span(*view.source(start, end), self._values[key])
                if key in self._weak:
                    weak.append(span)
                elif not key.isdigit() or _is_whole_number(text, span):
                    spans.append(self._with_edges(text, span, key))
            for index in hits:
                if anchors[words.words[index]] & _PART and index not in covered:
                    start, end = view.source(words.starts[index], words.end(index))
                    if not text[start].islower():
                        spans.append(Span(start, end, "person"))
            if self._has_mixed:
                spans += [Span(*view.source(start, end), of_type) for start, end, of_type in self._mixed_numbers(words)]
        if self._compact:
            spans += [Span(*view.source(start, end), of_type) for start, end, of_type in self._numbers(view.text)]
        if self._symbols:
            spans += self._symbol_spans(text)
        return spans + _beside(text, weak, spans)

    def _sequences(self, words: "_Stretch", hits: list[int], covered: set[int]) -> Iterator[tuple[int, int, str]]:
        """The known sequences around these words, with their keys; one that runs over several cells as one for each."""
        anchors, values, listed = self._anchors, self._values, words.words
        begun: dict[int, int] = {}
        for index in hits:
            for offset, count in _places(anchors[listed[index]]):
                first = index - offset
                key = listed[index] if count == 1 else " ".join(listed[max(0, first) : first + count])
                if key not in values or first < 0 or first + count > len(listed):
                    continue
                ranges = words.ranges(first, count, self._gap)
                if not ranges:
                    continue
                covered.update(range(first, first + count))
                if count == _PIECE:
                    start = begun.get(first, ranges[0][0]) if key in self._continued else ranges[0][0]
                    begun[first + count] = start
                    ranges = [(start, ranges[0][1])]
                for start, end in ranges:
                    yield start, end, key

    def _numbers(self, read: str) -> Iterator[tuple[int, int, str]]:
        """Numbers of digits alone, however they are cut into groups."""
        for run in _NUMBER.finditer(read):
            digits = run.group().translate(_NO_SEPARATORS)
            groups = [match.span() for match in _DIGITS.finditer(read, *run.span())]
            offset = 0
            for index, (start, end) in enumerate(groups):
                if digits[offset : offset + _COMPACT_LIMIT].lstrip("0")[:_COMPACT] in self._prefixes:
                    yield from self._numbers_at(read, groups[index : index + _COMPACT_LIMIT])
                offset += end - start

    def _numbers_at(self, read: str, groups: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
        start = groups[0][0]
        if read[max(0, start - 1) : start].isalnum():
            return
        joined = ""
        for group_start, end in groups:
            joined = (joined + read[group_start:end]).lstrip("0")
            if len(joined) > _COMPACT_LIMIT or (len(joined) >= _COMPACT and joined[:_COMPACT] not in self._prefixes):
                return
            if joined in self._compact and not read[end : end + 1].isalnum():
                yield start - read.startswith("+", max(0, start - 1)), end, self._compact[joined]

    def _mixed_numbers(self, words: "_Stretch") -> Iterator[tuple[int, int, str]]:
        """Numbers with letters among their digits: `DE89 3704 …`, `QQ 12 34 56 C`."""
        listed = words.words
        for index in [index for index, word in enumerate(listed) if not word.isalpha()]:
            if not listed[index].isdigit():
                yield from self._mixed_number_at(words, index)
            if index and len(listed[index - 1]) <= 3 and listed[index - 1].isalpha():
                yield from self._mixed_number_at(words, index - 1)

    def _mixed_number_at(self, words: "_Stretch", first: int) -> Iterator[tuple[int, int, str]]:
        listed = words.words
        joined = listed[first]
        last = first
        while len(joined) < _COMPACT or joined[:_COMPACT] in self._prefixes:
            if joined in self._compact:
                yield words.starts[first], words.end(last), self._compact[joined]
            last += 1
            if last == len(listed) or len(joined) > _COMPACT_LIMIT or not words.is_separated(last):
                return
            joined += listed[last]

    def _with_edges(self, text: str, span: Span, key: str) -> Span:
        """The span with the signs before and after the value, if it came with any: `+49 …`, a password's `!`."""
        if key not in self._edges:
            return span
        before, after = self._edges[key]
        start = span.start - len(before) if text.endswith(before, 0, span.start) else span.start
        end = span.end + len(after) if text.startswith(after, span.end) else span.end
        return Span(start, end, span.type)

    def _symbol_spans(self, text: str) -> Iterator[Span]:
        for match in _SYMBOLS.finditer(text):
            run = match.group()
            key = run.strip(_AROUND)
            if key in self._symbols:
                start = match.start() + run.index(key)
                yield Span(start, start + len(key), self._symbols[key])


class _Stretch:
    """Part of a text as words and what stands between them."""

    def __init__(self, text: str, start: int, stop: int) -> None:
        parts = (_ASCII_WORD if text.isascii() else _WORD).split(text[start:stop])
        self.words = parts[1::2]
        self._gaps = parts[::2]
        self.starts = list(accumulate(map(len, parts), initial=start))[1::2]

    def end(self, index: int) -> int:
        return self.starts[index] + len(self.words[index])

    def is_separated(self, index: int) -> bool:
        """True if a word may go on with the number before it."""
        gap, word = self._gaps[index], self.words[index]
        return len(gap) <= 3 and not gap.translate(_NO_SEPARATORS) and (len(word) <= 4 or not word.isalpha())

    def ranges(self, first: int, count: int, most: int) -> list[tuple[int, int]]:
        """The offsets of a sequence: cut where it goes over to another cell, none if its words are too far apart."""
        begin = self.starts[first]
        ranges = []
        for index in range(first + 1, first + count):
            gap = self._gaps[index]
            if len(gap) > most and not (gap.isspace() and len(gap) <= _SPACE):
                return []
            # A piece of a long text has its own quotes and brackets.
            if count < _PIECE and _STRUCTURE.search(gap):
                ranges.append((begin, self.end(index - 1)))
                begin = self.starts[index]
        return [*ranges, (begin, self.end(first + count - 1))]


def _stretches(text: str, longest: int) -> Iterator[_Stretch]:
    """The text in parts that overlap by more than the longest value, so that memory does not grow with the text."""
    overlap = longest + _PIECE * _SPACE
    start = 0
    while True:
        boundary = _BREAK.search(text, start + max(_CHUNK_CHARACTERS, 4 * overlap))
        if boundary is None:
            yield _Stretch(text, start, len(text))
            return
        yield _Stretch(text, start, boundary.start())
        boundary = _BREAK.search(text, boundary.start() - overlap)
        assert boundary is not None
        start = boundary.start()


@lru_cache(maxsize=1024)
def _places(bits: int) -> list[tuple[int, int]]:
    return [place for place, bit in _PLACE_BITS.items() if bits & bit]


def _words(value: str) -> list[str]:
    read = value.lower() if value.isascii() else folded(value).text
    return (_ASCII_WORD if read.isascii() else _WORD).findall(read)


def _is_weak(words: Sequence[str], of_type: str) -> bool:
    """True if a value would be found in texts that have nothing to do with it."""
    joined = "".join(words)
    if len(joined) < 3:
        return joined.isascii() or len(joined) < 2
    if of_type in ("password", "credit_card") or (of_type == "person" and len(words) > 1):
        return False
    for word in words:
        if word not in WORDS["everyday"] and not word.isdigit():
            return False
    return len(_LETTERS.sub("", joined)) < 5


def _is_numeric(compact: str) -> bool:
    return compact.isdigit() or (not compact.isalpha() and 2 * len(_LETTERS.sub("", compact)) >= len(compact))


def _number_forms(value: str, compact: str, of_type: str) -> list[str]:
    """A number as it may be written elsewhere, without leading zeros; a phone number without its country code too."""
    digits = compact.lstrip("0")
    forms = [digits]
    if of_type == "phone" and value.startswith(("+", "00", "(+")):
        code_length = 1 if digits.startswith(("1", "7")) else 2 if digits[:2] in COUNTRY_CODES else 3
        forms.append(digits[code_length:].lstrip("0"))
    return [form for form in forms if len(form) >= _COMPACT]


def _is_whole_number(text: str, span: Span) -> bool:
    """True if digits are not one side of a decimal point; `.0` is what a table of floats makes of a whole number."""
    before = text[max(0, span.start - 2) : span.start]
    return not (before.endswith(".") and before[:-1].isdigit()) and not _FRACTION.match(text, span.end)


def _beside(text: str, weak: list[Span], spans: list[Span]) -> list[Span]:
    """Those of the weak findings that fill a cell of a line that holds another finding near by, or the whole text."""
    others = united(spans) if weak else []
    starts = [span.start for span in others]
    kept = []
    for span in weak:
        before = text[max(0, span.start - 32) : span.start]
        if not _BEFORE_CELL.search(before) or not _AFTER_CELL.match(text, span.end):
            continue
        place = bisect_left(starts, span.start)
        gaps = [(span.end, other.start) for other in others[place : place + 1]]
        gaps += [(other.end, span.start) for other in others[max(0, place - 1) : place]]
        length = span.end - span.start
        is_all = len(text) < length + 32 and len(text.strip()) == length and not text.strip().isdigit()
        if is_all or any(0 <= end - start <= _NEAR and "\n" not in text[start:end] for start, end in gaps):
            kept.append(span)
    return kept


class Event(msgspec.Struct, frozen=True, array_like=True):
    """Something that a guard came to know. Its log of these is all that another process needs to know the same."""

    what: Literal["known", "held", "public", "handed", "own"]
    """A hidden value, to be found in what enters; one that code holds, to be found in what leaves; one that is declared
    public; a string that a tool was handed; a part of a value that code wrote itself."""
    type: str = ""
    text: str = ""
    pieces: tuple[tuple[str, str | None], ...] = ()
    """Of a string that a tool was handed: texts, and their types if they are private."""

    @property
    def characters(self) -> int:
        """The length of all texts in it."""
        return len(self.text) + sum(len(text) for text, _ in self.pieces)
