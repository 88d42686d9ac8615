"""The shape of a result in words, and a smaller result of the same shape, for one that is too big to send.

Works on plain JSON data, as `encode` makes it. Standard library only.
"""

from __future__ import annotations

from itertools import chain, islice

from encode import TooLarge, Unrepresentable, encode
from words import count, dumps, name_of, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def describe(value: Any) -> str:
    """Return the shape of plain JSON data in at most 200 characters, such as `list of 3 objects with keys id, name`.

    Anything else is named by its type, so encode first: rows of a DataFrame are then a list of objects.
    """
    kind = type(value)
    if kind is str:
        return f"text of {count(len(value), 'character')}"
    if kind is dict:
        return _with_keys("object", value)
    if kind is not list:
        return _NOUNS.get(kind, f"value of type {name_of(kind)}")
    if not value:
        return "empty list"
    nouns = {_NOUNS.get(kind, "value") for kind in set(map(type, value))}
    noun = nouns.pop() if len(nouns) == 1 else "value"
    shape = f"list of {count(len(value), noun)}"
    return _with_keys(shape, dict.fromkeys(chain.from_iterable(value))) if noun == "object" else shape


def shorten(value_json: Any, *, max_bytes: int) -> Any:
    """Return plain JSON data of the same kind, cut to at most `max_bytes` bytes of compact JSON in UTF-8.

    What fits is returned as it is. Otherwise lists keep their first items and end in `{"…": "19997 more items"}`,
    objects keep their first keys and end in `"…": "3 more keys"`, and text ends in `… (+120 characters)`. All of them
    are cut alike: the more room, the more items, levels and characters of each. An integer that is too long becomes
    a text.

    Raises:
        ValueError: `max_bytes` is below 64, which holds no outline of anything.
    """
    if max_bytes < 64:
        raise ValueError(f"max_bytes is {max_bytes!r}. Give at least 64.")
    if _fits(value_json, max_bytes):
        return value_json
    shown, bound = _cut(value_json, 0, 0), 1
    while bound <= max_bytes and _fits(cut := _cut(value_json, bound, 0), max_bytes):
        shown = cut
        bound += bound // 8 + 1  # in small steps, so that little of the room stays empty
    return shown


_NOUNS: dict[type, str] = {
    dict: "object",
    list: "list",
    str: "text",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


_DESCRIBED_CHARACTERS = 175  # with the keys: the number of the others fits behind them in 200
_KEY_CHARACTERS = 40  # of a key that needs no quotes: longer ones are data


def _with_keys(shape: str, keys: dict[str, Any]) -> str:
    if not keys:
        return f"{shape} without keys"
    text = f"{shape} with {'key' if len(keys) == 1 else 'keys'}"
    for position, key in enumerate(keys):
        name = key if key.isidentifier() and len(key) <= _KEY_CHARACTERS else quoted(key)
        if len(text) + len(name) > _DESCRIBED_CHARACTERS:
            return f"{text} and {len(keys) - position} more"
        text += f", {name}" if position else f" {name}"
    return text


_MORE = "…"
"""Begins what stands for the rest, and is the key of that in an object."""
_LONG_NUMBER = "… (a number too long to show)"
_LEVELS = 2  # above the first item: an object, and the list of rows in it
_DEEPEST = 32  # levels shown: `_cut` calls itself for each
_KEYS = 4  # of an object for each item of a list: keys are the outline, items repeat it
_CHARACTERS = 32  # of a text for each item of a list: a name or a title
_MARK_CHARACTERS = 20  # of `… (+1200 characters)`, so that a text that is cut is shorter than one that is whole


def _cut(value: Any, bound: int, depth: int) -> Any:
    """`value` with at most `bound` items in a list, about as many levels, and keys and texts in proportion."""
    characters = _CHARACTERS * bound
    if type(value) is str and len(value) > characters:
        kept = value[: max(0, characters - _MARK_CHARACTERS)]
        return f"{kept}{_MORE} (+{count(len(value) - len(kept), 'character')})"
    if type(value) is int and len(dumps(value)) > max(characters, len(_LONG_NUMBER)):
        return _LONG_NUMBER
    items = bound if depth < min(bound + _LEVELS, _DEEPEST) else 0
    if type(value) is list:
        shown = [_cut(item, bound, depth + 1) for item in value[:items]]
        left_out = len(value) - len(shown)
        return [*shown, {_MORE: count(left_out, "more item")}] if left_out else shown
    if type(value) is dict:
        # A key `…` would be taken for the mark of the rest.
        keys = [key for key in islice(value, _KEYS * items) if key != _MORE and len(key) <= characters]
        plain = {key: _cut(value[key], bound, depth + 1) for key in keys}
        left_out = len(value) - len(plain)
        return plain | {_MORE: count(left_out, "more key")} if left_out else plain
    return value


def _fits(value: Any, max_bytes: int) -> bool:
    try:
        encode(value, max_bytes=max_bytes)
    except (TooLarge, Unrepresentable):
        return False
    return True
