"""Any text taken apart: data in brackets, tables, named lines, tags, and the prose in between. Nothing is lost."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sealyard.privacy.reading.fields import Field, Leaf, Value
from sealyard.privacy.reading.json_text import JsonIndex, read_json
from sealyard.privacy.reading.lines import read_inserts, read_lines, read_pairs, read_tags
from sealyard.privacy.reading.literals import OPENING, read_literal
from sealyard.privacy.reading.placed import PlacedFloat, PlacedInt, PlacedText, place
from sealyard.privacy.reading.records import Container
from sealyard.privacy.reading.tables import Lines, read_table

__all__ = ("Reading", "read_text")

_INK = re.compile(r"\S")
_TABULAR_SIGNS = ("\t", ",", ";", "|", "  ", "│", "┃")
_INSERT = re.compile(r"\binsert\s+into\b", re.IGNORECASE)
_OPENINGS = re.compile(r"""(?:[{\[(]\s*+(?:"[^"\\\n]{0,200}+"\s*+:\s*+)?+){64,}+""")
"""More brackets in a row than data has, each with a key at most. What they hold is read from the last one on."""
_SEPARATING = re.compile(r"[\s,;]*")


class Reading:
    """What a text holds. Every character that is not punctuation is in one of these."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._documents = read_json(text)
        self._index: JsonIndex | None = None
        self.data: list[Any] = [] if self._documents is None else [self._documents]
        """Read from brackets. Values and keys are placed, unless all of the text is JSON."""
        self.tables: list[Field] = []
        self.named: list[Field] = []
        """Fields of lines and tags: what they hold is part of `prose` too."""
        self.prose: list[PlacedText] = []
        self.has_inserts = not self.is_json and "insert" in text.lower()
        """Whether there may be rows of SQL."""

    @property
    def is_json(self) -> bool:
        """Whether the text is JSON from end to end."""
        return self._documents is not None

    def place(self, leaf: Leaf, containers: Sequence[Container]) -> Value:
        """The value of a leaf with its offsets."""
        value, index, key = leaf
        if isinstance(value, (PlacedText, PlacedInt, PlacedFloat)):
            return value
        if key is None and isinstance(value, str):
            return place(value, index, index + len(value))
        return self._indexed().value(containers[index][0], key)

    def stretch(self, leaf: Leaf, containers: Sequence[Container]) -> tuple[int, int] | None:
        """Where a plain text stands that is written as it is, if that is all there is to say."""
        value, index, key = leaf
        if type(value) is not str or not value or value[0].isspace() or value[-1].isspace():
            return None
        if key is None:
            return index, index + len(value)
        return self._indexed().stretch(containers[index][0], key, len(value))

    def place_names(
        self, names: Collection[str], containers: Sequence[Container], fields: Sequence[Field]
    ) -> Iterator[str]:
        """Everywhere that one of the names stands, with its offsets."""
        for each, _, _ in containers:
            if isinstance(each, dict):
                found = [key for key in each if key in names]
                yield from (self._indexed().name(each, key) for key in found) if self.is_json else found
        yield from (cell for field in fields for cell in field.header if cell in names)

    def _indexed(self) -> JsonIndex:
        if self._index is None:
            assert self._documents is not None
            self._index = JsonIndex(self._text, self._documents)
        return self._index


def read_text(text: str) -> Reading:
    """Takes a text apart. Reads each character a fixed number of times."""
    reading = Reading(text)
    if reading.is_json:
        return reading
    position = 0
    while bracket := OPENING.search(text, position):
        start = bracket.start()
        if openings := _OPENINGS.match(text, start):
            start = max(text.rfind(sign, start, openings.end()) for sign in "{[(")
        data, end = read_literal(text, start)
        _read_plain(text, position, start, reading)
        reading.data.append(data)
        separating = _SEPARATING.match(text, end)
        assert separating is not None
        position = end if separating.end() == len(text) else separating.end()
        if separating.end() == len(text):
            position = len(text)
            break
    _read_plain(text, position, len(text), reading)
    return reading


def _read_plain(text: str, start: int, end: int, reading: Reading) -> None:
    """Tables, then what is left of the text between them."""
    if start >= end or _INK.search(text, start, end) is None:
        return
    if text.find("\n", start, end) < 0 or not any(text.find(sign, start, end) >= 0 for sign in _TABULAR_SIGNS):
        _read_prose(text, start, end, reading)
        return
    lines = Lines(text, start, end)
    plain = start
    after = 0
    for index in lines.beginnings():
        found = read_table(text, lines, index) if index >= after else None
        if found is None:
            continue
        table, after = found
        _read_prose(text, plain, lines.starts[index], reading)
        reading.tables.append(table)
        plain = lines.span(after - 1)[1]
    _read_prose(text, plain, end, reading)


def _read_prose(text: str, start: int, end: int, reading: Reading) -> None:
    written = text[start:end]
    if not written.strip():
        return
    reading.prose.append(place(written, start, end))
    if ":" in written or "=" in written or "\t" in written:
        reading.named.extend(read_lines(text, start, end))
    if "=" in written:
        reading.named.extend(read_pairs(text, start, end))
    if reading.has_inserts and _INSERT.search(written) is not None:
        reading.named.extend(read_inserts(text, start, end))
    if "</" in written or "/>" in written:
        tree = read_tags(text, start, end)
        if tree is not None:
            reading.named.append(tree)
