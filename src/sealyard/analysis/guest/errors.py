"""The exception of an analysis, and the phrases that its messages share."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

_LISTED = 30  # words of a list in a message
_QUOTED_CHARACTERS = 60  # of a quoted value: a message stays within a few lines
_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


class AnalysisError(ValueError):
    """The request cannot be carried out: the message names the parameter and the expected value."""


def kind_of(value: object) -> str:
    """The kind of `value` in the words of a message: `text`, `a number`, `an object`."""
    return _KINDS.get(type(value), type(value).__name__)


def quoted(value: object) -> str:
    """`value` as a message quotes it: on one line, a long one by its size.

    No part of a value is shown: the guard of private values would not know a half of one.
    """
    text = repr(value) if isinstance(value, str) else _json_text(value)
    return text if len(text) <= _QUOTED_CHARACTERS else _size(value, text)


def shortened(value: Any, most: int) -> Any:
    """`value` as an answer shows it: a text of more than `most` characters by its size, lists and objects as text."""
    if isinstance(value, str):
        return value if len(value) <= most else _size(value, value)
    return quoted(value) if isinstance(value, list | dict) else value


def comma_list(words: Iterable[str]) -> str:
    """The words, separated by commas, at most thirty of them."""
    names = list(words)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(quoted(name) for name in names[:_LISTED]) + more


def nearest(word: str, words: Iterable[str]) -> str:
    """` Nearest: 'amount'.`, or nothing when no word is near."""
    by_fold = {each.casefold(): each for each in words}
    wanted = word.casefold()
    found = difflib.get_close_matches(wanted, by_fold, n=1, cutoff=0.5)
    if not found and len(wanted) > 1:
        found = [each for each in by_fold if each.startswith(wanted)]
    return f" Nearest: {quoted(by_fold[found[0]])}." if found else ""


def _size(value: object, text: str) -> str:
    amounts: dict[type, str] = {list: "items", dict: "fields"}
    count = len(value if isinstance(value, str | list | dict) else text)
    kind = "a text" if isinstance(value, str) else kind_of(value)
    return f"{kind} of {count} {amounts.get(type(value), 'characters')}"


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
