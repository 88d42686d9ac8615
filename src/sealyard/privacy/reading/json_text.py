"""Texts that are JSON from end to end, or a document a line: read at the speed of the standard library.

Offsets are only made when somebody asks where a value stands, and then for the whole text at once.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from sealyard.privacy.reading.literals import place_quoted
from sealyard.privacy.reading.placed import PlacedFloat, PlacedInt, PlacedText, place_number

__all__ = ("JsonIndex", "read_json")

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,:\[\]{}"]+', re.DOTALL)


class _RepeatedKey(ValueError):
    """A dictionary would lose one of the values."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKey
    return found


_decode = json.JSONDecoder(object_pairs_hook=_pairs).decode


def read_json(text: str) -> list[Any] | None:
    """The documents of a text that is nothing but JSON, none of them a bare value; otherwise nothing."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return [_decode(text)]
    except (ValueError, RecursionError):
        pass  # many documents, one a line, or no JSON
    lines = text.splitlines()
    documents = []
    try:
        for line in lines:
            if line and not line.isspace():
                document = _decode(line)
                if not isinstance(document, (dict, list)):
                    return None
                documents.append(document)
    except (ValueError, RecursionError):
        return None
    return documents


class JsonIndex:
    """Where each value and each key of some documents stands in their text."""

    def __init__(self, text: str, documents: list[Any]) -> None:
        self._text = text
        self._tokens = [match.span() for match in _TOKEN.finditer(text)]
        self._places: dict[tuple[int, Any], int] = {}
        self._count(documents)

    def value(self, container: Any, key: Any) -> PlacedText | PlacedInt | PlacedFloat:
        """The value under a key of a dictionary, or at an index of a list."""
        return self._token(self._places[id(container), key] + isinstance(container, dict))

    def stretch(self, container: Any, key: Any, length: int) -> tuple[int, int] | None:
        """Where a text of that length stands, if it is written as it is, without escapes."""
        start, end = self._tokens[self._places[id(container), key] + isinstance(container, dict)]
        return (start + 1, end - 1) if end - start == length + 2 else None

    def name(self, container: dict[str, Any], key: str) -> PlacedText:
        """A key of a dictionary."""
        found = self._token(self._places[id(container), key])
        assert isinstance(found, PlacedText)
        return found

    def _token(self, number: int) -> PlacedText | PlacedInt | PlacedFloat:
        start, end = self._tokens[number]
        if self._text[start] == '"':
            return place_quoted(self._text[start + 1 : end - 1], start + 1, end - 1)
        return place_number(self._text[start:end], start)

    def _count(self, documents: list[Any]) -> None:
        """Numbers keys and values in the order of the text, which is the order of dictionaries too."""
        number = 0
        waiting: list[tuple[Any, Iterator[tuple[Any, Any]]]] = [(documents, enumerate(documents))]
        while waiting:
            holder, entries = waiting[-1]
            keyed = isinstance(holder, dict)
            for key, value in entries:
                self._places[id(holder), key] = number
                number += keyed
                if isinstance(value, dict):
                    waiting.append((value, iter(value.items())))
                    break
                if isinstance(value, list):
                    waiting.append((value, enumerate(value)))
                    break
                number += 1
            else:
                waiting.pop()
