"""Echoes: values that a tool was given and repeats, whatever stands beside them.

`KnownValues` finds a value at the borders of words. That is not enough for the arguments of a call: code chose what
stands beside a value there, and the tool may have cut, reversed or encoded it. So every string that a tool was given is
kept with the words around its private parts, and texts are read without case, accents and separators: as they are,
unescaped, decoded from base64, hex and character codes, and column by column. Seeds of `_SEED` characters are looked
up, and each known one is extended as far as text and string agree; an agreement too long for chance is an echo.

The time is linear in the text, about 0.1 s for a megabyte, and independent of the number of strings given to tools.
"""

import re
import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import msgspec

from sealyard.errors import LimitReached
from sealyard.privacy.known import KnownValues
from sealyard.privacy.reading.lexicon import count_digits
from sealyard.privacy.reading.views import (
    SIGNS,
    Letters,
    bytes_of,
    encoded_alone,
    encoded_short,
    letters_of,
    read_letters,
    unescaped,
)
from sealyard.privacy.span import without_tokens
from sealyard.values.documents import read_exactly

Piece = tuple[str, str | None]
"""A part of a string that a tool is handed, and its type if it is private."""

_SEED, _LATER_SEED = 4, 6
"""Characters that are looked up: few in one call, more for all values that a session sent."""
_STRIDE = 3
"""Only every third place of a text is looked up: each stretch of `_SEED + _STRIDE - 1` characters has such a place."""
_BESIDE_READ = 32
"""Characters kept of what stands beside a value: enough to recognise an echo, whatever signs are among them."""
_BREAK = "\0\0"
_FRAGMENT = 8
"""Characters that an echo in the call's own answer has at the least: eight letters in a row are hardly chance."""
_DIGITS_FRAGMENT = 6
"""The same where two of them are digits, in a text of up to `_SHORT_TEXT` characters: of 12 such fragments of a card's
number one is in 10,000 digits by chance once in ten times, and in 1,000 once in a hundred."""
_SHORT_TEXT = 10_000  # see `_DIGITS_FRAGMENT`
_LATER_FRAGMENT = 12  # characters: more than `_FRAGMENT`, since there is more to agree with by chance
_LATER_DIGITS_FRAGMENT = 10
"""The same for answers to later calls, which are compared with all that the session handed over."""
_OWN, _LATER_OWN = 3, 6
"""Characters of the value itself in an echo, or all it has; the rest may be what stands beside it."""
_LONG = 256  # see `_LONG_STRIDE`
_LONG_STRIDE = 8
"""Between the seeds of a value of over `_LONG` characters: fragments of 29 characters are found, since 8 and `_STRIDE`
coincide every 24 characters."""
_NEAREST = 2
"""Places of a crowded seed that are compared with a text, to either side of the best one in each order."""
_CROWDED = 4 * _NEAREST
"""A seed with more places is crowded: endings such as `gmail.com`, or the first digits of a block of numbers."""
_FEW = 8
"""Needles that are looked for one by one; more are looked up at every place."""
_OWN_CHARACTERS = 1 << 16
"""Of parts of values that code wrote itself. Each is looked for in all of them, in microseconds."""
_SHORT_LEAF = 12
"""Characters. A leaf up to this length may be part of a value in pieces."""


_CODED = re.compile(r"[A-Za-z0-9+/=_-]*", re.ASCII)
_STANDARD_ALPHABET = str.maketrans("-_", "+/")
_WORD_CHARACTERS = 1 << 16
"""The most of an encoded word before an echo that is taken with it."""


class Echo(NamedTuple):
    """A stretch of a text, and the value that it holds, or a part of it."""

    start: int
    end: int
    value: str
    type: str
    is_encoded: bool = False
    """True if it is in a word that says it only when decoded."""

    def word(self, text: str) -> "Echo":
        """The echo; if encoded, the whole word, as a value of its own unless it encodes exactly this value."""
        if not self.is_encoded:
            return self
        before = _CODED.match(text[max(0, self.start - _WORD_CHARACTERS) : self.start][::-1])
        after = _CODED.match(text, self.end)
        start = self.start - (before.end() if before else 0)
        end = after.end() if after else self.end
        word = text[start:end]
        if word.strip("=").translate(_STANDARD_ALPHABET) in encoded_alone(self.value):
            return self._replace(start=start, end=end)
        return self._replace(start=start, end=end, value=word, type="text")


class _Line(NamedTuple):
    """A string, or the surroundings of its private parts, in the form in which texts are read."""

    text: str
    owners: Sequence[int]
    """For each character the number of the value it belongs to, or -1."""
    is_glued: bool
    """True if a letter or a digit of code's own touches a value: no prose does that."""


class _Needle(NamedTuple):
    """A value that is too short for a seed."""

    value: int
    is_anywhere: bool
    """Not only where letters or digits begin and end."""


_adding = threading.Lock()
"""Held for microseconds: runs of a session hand over values in several threads, and each must be found afterwards."""

_Place = tuple[int, int]
"""The number of a line, and an offset in it."""


class _Crowd:
    """The places of one seed in many lines, such that the ones that agree best with a text are found by bisection.

    Comparing a text with all of them would let code that hands over numbers of one block slow down every search;
    comparing it with some would miss the number that stands there.
    """

    def __init__(self, lines: Sequence[_Line], places: Collection[_Place]) -> None:
        self._lines = lines
        self._by_what_follows = sorted(places, key=self._following)
        self._by_what_precedes = sorted(places, key=self._preceding)

    def add(self, place: _Place) -> None:
        insort(self._by_what_follows, place, key=self._following)
        insort(self._by_what_precedes, place, key=self._preceding)

    def nearest(self, text: str, at: int) -> list[_Place]:
        """The places whose lines agree with the text furthest, forwards and backwards from there."""
        after, before = _around(text, at)
        orders = (
            (self._by_what_follows, self._following, after, before),
            (self._by_what_precedes, self._preceding, before, after),
        )
        chosen: set[_Place] = set()
        for places, key, first, second in orders:
            middle = bisect_left(places, (first, second), key=key)
            around = places[max(0, middle - _NEAREST) : middle + _NEAREST]
            chosen.update(around)
            # Of lines that end where the agreement does, those that agree in the other direction too.
            agreed = max((_agreement(key(place)[0], 0, first, 0, 0)[1] for place in around), default=0)
            middle = bisect_left(places, (first[:agreed], second), key=key)
            chosen.update(places[max(0, middle - _NEAREST) : middle + _NEAREST])
        return sorted(chosen)

    def _following(self, place: _Place) -> tuple[str, str]:
        return _around(self._lines[place[0]].text, place[1])

    def _preceding(self, place: _Place) -> tuple[str, str]:
        return self._following(place)[::-1]


class Echoes:
    """Strings that tools were handed, to be found again.

    Those of one call are found by short fragments too; those of a session (`is_later`) only by fragments long
    enough not to occur by chance in a later answer.
    """

    def __init__(self, *, is_later: bool = False, limit: int = 1_000_000) -> None:
        """`limit` is the number of places of seeds, of about 200 bytes each with all that belongs to it."""
        self._is_later = is_later
        self._seed = _LATER_SEED if is_later else _SEED
        self._limit = limit
        self._values: list[tuple[str, str]] = []
        self._numbers: dict[str, int] = {}
        self._lengths: list[int] = []
        self._lines: list[_Line] = []
        self._seeds: dict[str, list[_Place]] = {}
        """Of a crowded seed the first places only."""
        self._crowds: dict[str, _Crowd] = {}
        self._count = 0
        """Of places."""
        self._needles: dict[int, dict[str, _Needle]] = {}
        """By their length."""
        self.has_others = False
        """True if a value is not all in ASCII."""
        self._known: set[tuple[str, tuple[int, ...]]] = set()

    def __bool__(self) -> bool:
        return bool(self._seeds or self._needles)

    def add(self, pieces: Sequence[Piece]) -> bool:
        """Remember a string that a tool is handed; False if nothing in it is new.

        Raises:
            LimitReached: There are `limit` places. None is dropped for a new one, since a value forgotten would leak.
        """
        if self._count >= self._limit:
            raise LimitReached(
                f"This session has handed {len(self._values):,} private values to tools and cannot keep track of more. "
                "Go on in another session."
            )
        before = len(self._known)
        near = nearest(pieces)
        self._add_lines(near)
        views = [unescaped(text) if kind is None else None for text, kind in near]
        if any(views):
            read = [(view.text if view else text, kind) for view, (text, kind) in zip(views, near, strict=True)]
            self._add_lines(read)
        return len(self._known) > before

    def find_in(
        self, reading: Letters, text: str, breaks: Sequence[int], length: int
    ) -> Iterator[tuple[Echo, str | None]]:
        """The echoes in one reading of the text. With one of a part comes all that agrees, without case and signs."""
        for start, end, owner, agreed in self._scan(reading, breaks, length):
            echo = self._echo(text, *reading.source(start, end), owner)._replace(is_encoded=not reading.is_plain)
            yield echo, None if agreed is None else letters_of(text[slice(*reading.source(*agreed))])
        for start, end, owner in self._short(reading, breaks) if reading.is_plain else ():
            yield self._echo(text, *reading.source(start, end), owner), None

    # Values that were sent

    def _add_lines(self, pieces: Sequence[Piece]) -> None:
        is_glued = any(left[-1:].isalnum() and right[:1].isalnum() for (left, _), (right, _) in pairwise(pieces))
        lines: list[str] = [""]
        owners: list[list[int]] = [[]]
        for text, kind in pieces:
            for number, part in enumerate(text.split(_BREAK) if kind is None else (text,)):
                if number:
                    lines.append("")
                    owners.append([])
                read = letters_of(part)
                lines[-1] += read
                owners[-1] += [-1 if kind is None else self._number(part, kind, read)] * len(read)
        for line, of in zip(lines, owners, strict=True):
            self._add_line(_Line(line, tuple(of), is_glued))
        for text, kind in pieces:
            if kind is not None:
                self._add_value(text, self._numbers[text], is_glued=is_glued)

    def _number(self, text: str, kind: str, read: str) -> int:
        with _adding:
            number = self._numbers.get(text)
            if number is None:
                number = self._numbers[text] = len(self._values)
                self._values.append((text, kind))
                self._lengths.append(len(read))
                self.has_others = self.has_others or not read.isascii()
            return number

    def _add_value(self, text: str, number: int, *, is_glued: bool) -> None:
        """Add the value alone, backwards, and as its bytes read in another encoding than UTF-8."""
        read = letters_of(text)
        for each in {read[::-1], letters_of(text.encode("ascii", "ignore").decode()), bytes_of(text)} - {read}:
            if len(each) >= _FRAGMENT:
                self._add_line(_Line(each, (number,) * len(each), is_glued=False))
        if self._is_later or not read:
            return
        if is_glued and 2 <= len(read) < _FRAGMENT:
            self._add_needle(read, number, is_anywhere=True)
        elif 4 <= len(read) < _FRAGMENT:
            self._add_needle(read, number, is_anywhere=False)
        for spelled in encoded_short(text) if 4 <= len(read) < _FRAGMENT else ():
            self._add_needle(spelled, number, is_anywhere=True)

    def _add_needle(self, text: str, number: int, *, is_anywhere: bool) -> None:
        group = self._needles.setdefault(len(text), {})
        if is_anywhere or text not in group:
            group[text] = _Needle(number, is_anywhere)

    def _add_line(self, line: _Line) -> None:
        key = (line.text, tuple(line.owners))
        with _adding:
            if key in self._known:
                return
            self._known.add(key)
            number = len(self._lines)
            self._lines.append(line)
        if line.is_glued and 3 <= len(line.text) < self._seed + _STRIDE - 1 and max(line.owners) >= 0:
            self._add_needle(line.text, max(line.owners), is_anywhere=True)
        if len(line.text) < self._seed:
            return
        text, owners, size = line.text, line.owners, self._seed
        last = len(text) - size
        is_owned = min(owners) >= 0
        for at in range(0, last + 1, 1 if last < _LONG else _LONG_STRIDE):
            if is_owned or max(owners[at : at + size]) >= 0:
                self._add_place(text[at : at + size], (number, at))

    def _add_place(self, seed: str, place: _Place) -> None:
        with _adding:
            self._count += 1
            places = self._seeds.setdefault(seed, [])
            crowd = self._crowds.get(seed)
            if crowd is not None:
                crowd.add(place)
            elif len(places) < _CROWDED:
                places.append(place)
            else:
                self._crowds[seed] = _Crowd(self._lines, [*places, place])

    # Texts to search

    def _scan(
        self, reading: Letters, breaks: Sequence[int], length: int
    ) -> Iterator[tuple[int, int, int, tuple[int, int] | None]]:
        """The span of a value or of a part, and the value's number; for a part also the span of all that agrees."""
        text, seeds, size = reading.text, self._seeds, self._seed
        done = 0
        for at in [at for at in range(0, len(text) - size + 1, _STRIDE) if text[at : at + size] in seeds]:
            if at + size <= done:
                continue
            seen: set[tuple[int, int, int, tuple[int, int] | None]] = set()
            crowd = self._crowds.get(text[at : at + size])
            for number, offset in seeds[text[at : at + size]] if crowd is None else crowd.nearest(text, at):
                line = self._lines[number]
                before, after = _agreement(text, at, line.text, offset, size)
                if not self._is_much(line, offset - before, offset + after, length):
                    continue  # for most agreements, before it is known where a string ends
                if breaks and not _has_whole(line.owners, offset - before, offset + after):
                    # A part is in one string. Else code could have its guesses put together by a server that sorts.
                    before, after = _within_one(reading, at, before, after, breaks)
                first, last = offset - before, offset + after
                if self._is_significant(line, first, last, length):
                    done = max(done, at + after)
                    for start, end in _owned(line.owners, first, last):
                        is_part = _goes_on(line.owners, start, end)
                        place = at - offset
                        agreed = (at - before, at + after) if is_part else None
                        found = (place + start, place + end, line.owners[start], agreed)
                        if found not in seen:  # what repeats itself agrees with itself at many places
                            seen.add(found)
                            yield found

    def _is_significant(self, line: _Line, first: int, last: int, length: int) -> bool:
        """True if what agrees is too much for chance, and enough of it belongs to a value."""
        owners = [owner for owner in line.owners[first:last] if owner >= 0]
        least = _LATER_OWN if self._is_later else _OWN
        return (
            bool(owners)
            and len(owners) >= min(least, self._lengths[owners[0]])
            and self._is_much(line, first, last, length)
        )

    def _is_much(self, line: _Line, first: int, last: int, length: int) -> bool:
        """True if what agrees is too much for chance. No part of what is not can be."""
        size = last - first
        if line.is_glued and size == len(line.text):
            return True
        if not self._is_later:
            return size >= _FRAGMENT or (
                size >= _DIGITS_FRAGMENT and length <= _SHORT_TEXT and count_digits(line.text[first:last]) >= 2
            )
        return (
            size >= _LATER_FRAGMENT
            or (size >= _LATER_DIGITS_FRAGMENT and count_digits(line.text[first:last]) >= 4)
            or (size >= _FRAGMENT and _has_whole(line.owners, first, last))
        )

    def _short(self, reading: Letters, breaks: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Values too short for seeds: anywhere if glued to something, else where letters or digits end."""
        text = reading.text
        for size, needles in list(self._needles.items()):  # a call in another thread may add some
            if len(needles) <= _FEW:
                places = [match.start() for needle in list(needles) for match in re.finditer(needle, text)]
            else:
                places = [at for at in range(len(text) - size + 1) if text[at : at + size] in needles]
            for at in places:
                needle = needles[text[at : at + size]]
                is_found = needle.is_anywhere or reading.is_apart(at, at + size)
                if is_found and (needle.is_anywhere or _within_one(reading, at, 0, size, breaks) == (0, size)):
                    yield at, at + size, needle.value

    def _echo(self, text: str, start: int, end: int, owner: int) -> Echo:
        """The echo with the signs that the value begins and ends with, such as those of a password."""
        value, kind = self._values[owner]
        inner = SIGNS.match(value)
        if inner and text.endswith(inner[0], 0, start):
            start -= len(inner[0])
        tail = len(value) - len(value.rstrip(value[-1])) if value and SIGNS.fullmatch(value[-1]) else 0
        if tail and text.startswith(value[len(value) - tail :], end):
            end += tail
        return Echo(start, end, value, kind)


class OwnWords:
    """Parts of values that code wrote itself, in arguments of tools, without case and signs.

    They stay readable where a tool repeats them. If they became the token, code that lengthens a guess letter
    by letter would see each time which letter is right.
    """

    def __init__(self) -> None:
        self._text = ""

    def __contains__(self, part: str) -> bool:
        return part in self._text

    def add(self, part: str) -> bool:
        """Note a part; False if it is noted already. Code that knows a value can fill this, and sees no more then."""
        with _adding:
            if part in self._text or len(self._text) >= _OWN_CHARACTERS:
                return False
            self._text += f"{part}\0"
            return True

    @staticmethod
    def parts(value: Any, index: Echoes) -> Iterator[str]:
        """The parts of values in JSON data that code hands to a tool."""
        if index:
            text = without_tokens("\n".join(Leaves(value).texts()))
            if len(text) < _SEED and text.isascii():  # too short for a part of anything
                return
            yield from (part for _, part in _find(text, [index]) if part is not None)


def find_echoes(
    text: str, indexes: Sequence[Echoes], breaks: Sequence[int] = (), own: OwnWords | None = None
) -> list[Echo]:
    """Every echo of all these in the text but for code's own words, in order and without overlap."""
    indexes = [index for index in indexes if index]
    if not indexes or not text:
        return []
    found = _find(text, indexes, breaks, length=len(text))
    return apart([echo for echo, part in found if part is None or own is None or part not in own])


def _find(
    text: str, indexes: Sequence[Echoes], breaks: Sequence[int] = (), *, length: int = 0
) -> Iterator[tuple[Echo, str | None]]:
    """The echoes, and for an echo of a part the text that agrees. `length` is that of the whole searched text."""
    for reading in read_letters(text, with_others=any(index.has_others for index in indexes)):
        for index in indexes:
            yield from index.find_in(reading, text, breaks, length)


_indexing = threading.Lock()
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?")


class Sent:
    """The values that one call handed over, and the messages of its tool so far beside the answer."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        """The type of each, by its text."""
        self.numbers: dict[int | float, str] = {}
        """The same of those that are numbers: a tool may answer `"012"` with 12 or 12.0."""
        self.said = ""
        """The end of earlier messages: a value may come in pieces."""
        self._strings: list[list[Piece]] = []
        self._indexed = 0
        """Strings that are in both indexes."""
        self._indexes: tuple[Echoes, KnownValues] | None = None

    @property
    def echoes(self) -> Echoes:
        """The index of what the strings say. Built when it is first read, since many answers hold no text."""
        return self._index()[0]

    @property
    def known(self) -> KnownValues:
        """The index of the values themselves, however little they say."""
        return self._index()[1]

    def to_data(self) -> dict[str, Any]:
        """The same for another process."""
        return {"strings": self._strings, "said": self.said}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Sent":
        """The reverse of `to_data`."""
        made = cls()
        for pieces in data["strings"]:
            made.add([(text, kind) for text, kind in pieces])
        made.said = data["said"]
        return made

    def __bool__(self) -> bool:
        return bool(self.values)

    def add(self, pieces: Sequence[Piece]) -> None:
        """Remember a string that the tool is handed.

        The guard keeps all of them in indexes of the same limits, which it fills first.
        """
        for text, kind in pieces:
            if kind is not None:
                self.values.setdefault(text, kind)
                if _NUMBER.fullmatch(text):
                    # Both for a whole number, since they are not equal beyond 2**53.
                    self.numbers.update(dict.fromkeys((float(text), *([] if "." in text else [int(text)])), kind))
        self._strings.append(nearest(pieces))

    def _index(self) -> tuple[Echoes, KnownValues]:
        if self._indexes is not None and self._indexed == len(self._strings):
            return self._indexes
        with _indexing:  # another thread must not search an index that is half built
            echoes, known = indexes = self._indexes or (Echoes(), KnownValues(is_thorough=True))
            for pieces in self._strings[self._indexed :]:
                for text, kind in pieces:
                    if kind is not None:
                        known.add(text, self.values[text])
                echoes.add(pieces)
                self._indexed += 1
            self._indexes = indexes
        return indexes


class Leaves:
    """The strings and numbers of JSON data, read as one text, and the data put together again with others."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._is_read = False
        self._texts: list[str] = []
        self._columns: list[str] = []
        self._keys: dict[str, None] = {}
        self._data: dict[str, Any] = {}

    def texts(self) -> list[str]:
        """All of them, with the keys."""
        self._collect()
        return [*self._texts, *self._keys]

    def find(self, indexes: Sequence[Echoes], own: OwnWords) -> "Found":
        """The echoes in values, by number, and in keys, by name."""
        found = Found(self._texts)
        if not indexes:
            return found
        self._collect()
        for number, echo in _spread(self._texts, indexes, own):
            found.values[number].append(echo)
        order = [number for number, text in enumerate(self._texts) if len(text) <= _SHORT_LEAF]
        if len(order) > 2:  # the pieces of a value, one in each row
            order.sort(key=lambda number: self._columns[number])
            for place, echo in _spread([self._texts[number] for number in order], indexes, own):
                found.values[order[place]].append(echo)
        keys = list(self._keys)
        for number, echo in _spread(keys, indexes, own):
            found.keys[keys[number]].append(echo)
        return found

    def replaced(self, found: "Found", write: Callable[[str, Sequence[Echo]], str]) -> Any:
        """The data with what `write` makes of each string or number in which there are echoes."""
        numbers = iter(range(len(self._texts)))
        keys = {key: write(key, apart(echoes)) for key, echoes in found.keys.items()}

        def walk(value: Any) -> Any:
            if isinstance(value, dict):
                made = {keys.get(key, key): walk(item) for key, item in value.items()}
                return made if any(made.get(key) is not item for key, item in value.items()) else value
            if isinstance(value, list | tuple):
                items = [walk(item) for item in value]
                return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
            if not _is_leaf(value):
                return value
            data = self._data.get(value) if isinstance(value, str) else None
            if data is not None:
                changed = walk(data)
                return value if changed is data else msgspec.json.encode(changed).decode()
            number = next(numbers)
            echoes = found.values.get(number)
            if echoes is None:
                return value
            echoes = apart(echoes)
            if not isinstance(value, str):  # the echo in a number covers all of it
                echoes = [echoes[0]._replace(start=0, end=len(str(value)))]
            return write(self._texts[number], echoes)

        return walk(self._value)

    def _collect(self) -> None:
        waiting: list[tuple[str, Any]] = [] if self._is_read else [("", self._value)]
        self._is_read = True
        while waiting:
            column, each = waiting.pop()
            if isinstance(each, dict):
                self._keys |= dict.fromkeys(key for key in each if isinstance(key, str))
                waiting += [(str(key), item) for key, item in reversed(each.items())]
            elif isinstance(each, list | tuple):
                waiting += [(column, item) for item in reversed(each)]
            elif isinstance(each, str) and (data := self._read(each)) is not None:
                waiting.append((column, data))
            elif _is_leaf(each):
                self._texts.append(each if isinstance(each, str) else str(each))
                self._columns.append(column)

    def _read(self, text: str) -> Any:
        """The data that a text is, if it is JSON: a value in pieces is found in it by its columns."""
        if text[:1] not in ("{", "["):
            return None
        if text not in self._data:
            try:
                self._data[text] = read_exactly(text)
            except (ValueError, RecursionError):  # no JSON, or half a character
                self._data[text] = None
        return self._data[text]


class Found:
    """The echoes in JSON data."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.values: defaultdict[int, list[Echo]] = defaultdict(list)
        self.keys: defaultdict[str, list[Echo]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self.values or self.keys)

    def parts(self) -> "Found":
        """The echoes in strings that hold a whole value and something else."""
        found = Found(self._texts)
        found.values.update((number, echoes) for number, echoes in self.values.items() if self._is_part(number))
        return found

    def _is_part(self, number: int) -> bool:
        text, echoes = self._texts[number], apart(self.values[number])
        # A fragment may be a part of another value, such as the domain of a colleague's address.
        if not any(
            echo.is_encoded or letters_of(text[echo.start : echo.end]) == letters_of(echo.value) for echo in echoes
        ):
            return False
        return len(echoes) > 1 or letters_of(text) != letters_of(echoes[0].value)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _spread(texts: Sequence[str], indexes: Sequence[Echoes], own: OwnWords) -> Iterator[tuple[int, Echo]]:
    """The echoes in these texts, which are searched as one, with the number of the text."""
    starts = list(accumulate((len(text) + 1 for text in texts), initial=0))[:-1]
    joined = without_tokens("\n".join(texts))
    for echo in find_echoes(joined, indexes, starts[1:], own):
        number = bisect_right(starts, echo.start) - 1
        while number < len(starts) and starts[number] < echo.end:
            start = max(0, echo.start - starts[number])
            end = min(len(texts[number]), echo.end - starts[number])
            if start < end:
                yield number, echo._replace(start=start, end=end)
            number += 1


# Values that were sent, and how far a text agrees with them


def nearest(pieces: Sequence[Piece]) -> list[Piece]:
    """A string that a tool is handed, without code's own words that are too far from a value to matter."""
    return [
        (text if kind is not None else _near(text, number, len(pieces)), kind)
        for number, (text, kind) in enumerate(pieces)
    ]


def _near(text: str, number: int, count: int) -> str:
    """The part of code's own words beside a value; between two values, from both ends."""
    if number == 0:
        return text[-_BESIDE_READ:]
    if number == count - 1:
        return text[:_BESIDE_READ]
    if len(text) <= 2 * _BESIDE_READ:
        return text
    return f"{text[:_BESIDE_READ]}{_BREAK}{text[-_BESIDE_READ:]}"


def _agreement(text: str, at: int, line: str, offset: int, size: int) -> tuple[int, int]:
    """The number of equal characters before and from these offsets."""
    before = 0
    most = min(at, offset, 2 * _LONG)
    while before < most and text[at - before - 1] == line[offset - before - 1]:
        before += 1
    after = size
    most = min(len(text) - at, len(line) - offset)
    while after < most and text[at + after] == line[offset + after]:
        after += 1
    return before, after


def _around(text: str, at: int) -> tuple[str, str]:
    """The text from an offset on, and backwards from there, as far as places are compared."""
    return text[at : at + _LONG], text[max(0, at - _LONG) : at][::-1]


def _owned(owners: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """The stretches of a line between two offsets that belong to one value each."""
    start = first
    while start < last:
        end = start + 1
        while end < last and owners[end] == owners[start]:
            end += 1
        if owners[start] >= 0:
            yield start, end
        start = end


def _has_whole(owners: Sequence[int], first: int, last: int) -> bool:
    """True if a value is all between these offsets of a line."""
    return not all(_goes_on(owners, start, end) for start, end in _owned(owners, first, last))


def _goes_on(owners: Sequence[int], start: int, end: int) -> bool:
    """True if the value at this stretch of a line begins before it or ends behind it."""
    owner = owners[start]
    return owner in (*owners[max(0, start - 1) : start], *owners[end : end + 1])


def _within_one(reading: Letters, at: int, before: int, after: int, breaks: Sequence[int]) -> tuple[int, int]:
    """The numbers of characters before and from `at` that are in one of the strings joined at these offsets.

    Only the ends of the agreement are looked up: an answer has a hundred thousand strings, and few in each agreement.
    """
    own = bisect_right(breaks, reading.start(at))
    first, last = at - before, at + after
    if own and reading.start(first) < breaks[own - 1]:
        first = bisect_left(range(at), breaks[own - 1], lo=first, key=reading.start)
    if own < len(breaks) and reading.start(last - 1) >= breaks[own]:
        last = bisect_left(range(last), breaks[own], lo=at, key=reading.start)
    return at - first, last - at


def apart(found: list[Echo]) -> list[Echo]:
    """In order and without overlap: the first one stays, and of another what goes beyond it."""
    kept: list[Echo] = []
    for echo in sorted(found, key=lambda each: (each.start, -each.end)):
        last = kept[-1] if kept else None
        if last is not None and last.value == echo.value and echo.start <= last.end:
            kept[-1] = last._replace(end=max(last.end, echo.end))
        elif last is None or echo.end > last.end:
            kept.append(echo if last is None else echo._replace(start=max(echo.start, last.end)))
    return kept
