"""The shape of a result in words, and a smaller result of the same shape, for one that is too big to send.

Works on plain JSON data, as `encode` makes it. Standard library only.
"""

from __future__ import annotations

from itertools import chain

from encode import TooLarge, Unrepresentable, encode
from words import count, name_of, quoted

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


def preview(value_json: Any, *, max_bytes: int) -> Any:
    """Return plain JSON data of the same kind, cut to at most `max_bytes` bytes of compact JSON in UTF-8.

    What fits is returned as it is. Otherwise lists keep their first items and end in `{"…": "19997 more items"}`,
    objects keep their first keys and end in `"…": "3 more keys"`, and text ends in `… (+120 characters)`. Inner values
    are cut before outer ones, so that the outline stays visible. An integer that is too long becomes a text.

    Raises:
        ValueError: `max_bytes` is below 64, which holds no outline of anything.
    """
    if max_bytes < 64:
        raise ValueError(f"max_bytes is {max_bytes!r}. Give at least 64.")
    return _pruned(value_json, max_bytes, 0)


_NOUNS: dict[type, str] = {
    dict: "object",
    list: "list",
    str: "text",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _with_keys(shape: str, keys: dict[str, Any]) -> str:
    if not keys:
        return f"{shape} without keys"
    text = f"{shape} with {'key' if len(keys) == 1 else 'keys'}"
    for position, key in enumerate(keys):
        name = key if key.isidentifier() and len(key) <= 40 else quoted(key)
        if len(text) + len(name) > 175:
            return f"{text} and {len(keys) - position} more"
        text += f", {name}" if position else f" {name}"
    return text


_LONG_NUMBER = "… (a number too long to show)"
_PREVIEW_DEPTH = 32  # levels shown: the functions below call themselves for each
_AIM = 3
"""Items of a list that are shown, cut if need be, before any further one is shown whole."""
_USEFUL = 64
"""Bytes below which a second or third item would be little more than its marker."""


def _pruned(value: Any, room: int, depth: int) -> Any:
    """Return `value` in at most `room` bytes, which must be no fewer than `_least` says."""
    if _size(value, room) <= room:
        return value
    if type(value) is str:
        return _pruned_text(value, room)
    if type(value) is list:
        return _pruned_list(value, room, depth)
    if type(value) is dict:
        return _pruned_object(value, room, depth)
    return _LONG_NUMBER


def _pruned_text(text: str, room: int) -> str:
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(_shortened(text, middle), room) <= room:
            low = middle
        else:
            high = middle - 1
    return _shortened(text, low)


def _shortened(text: str, characters: int) -> str:
    return f"{text[:characters]}… (+{count(len(text) - characters, 'character')})"


def _pruned_list(items: list[Any], room: int, depth: int) -> list[Any]:
    left = room - _least(items)
    first: list[Any] = []
    wanted = 0
    for item in items[:_AIM] if depth < _PREVIEW_DEPTH else ():
        wanted += min(_size(item, _USEFUL), _USEFUL) + len(",")
        if wanted > left and (first or _least(item) + len(",") > left):
            break
        first.append(item)
    shown, left = _shared_out(first, left - sum(_least(item) + len(",") for item in first), depth)
    if len(shown) == _AIM:
        for item in items[_AIM:]:
            left -= _size(item, left) + len(",")
            if left < 0:
                break
            shown.append(item)
    return shown if len(shown) == len(items) else [*shown, _marker(len(items) - len(shown), "item")]


def _pruned_object(pairs: dict[str, Any], room: int, depth: int) -> dict[str, Any]:
    left = room - _least(pairs)
    first: dict[str, Any] = {}
    for key, item in pairs.items() if depth < _PREVIEW_DEPTH else ():
        if key == "…":
            continue  # It would be taken for the marker of what is left out.
        need = _size(key, room) + _least(item) + len(":,")
        if need > left:
            break
        left -= need
        first[key] = item
    shown, _ = _shared_out(list(first.values()), left, depth)
    plain = dict(zip(first, shown, strict=True))
    return plain if len(plain) == len(pairs) else plain | _marker(len(pairs) - len(plain), "key")


def _shared_out(values: list[Any], spare: int, depth: int) -> tuple[list[Any], int]:
    """Return all values, cut to the least they need and equal shares of `spare`, and what is left of it.

    The small ones come first, so that what they do not use goes to the others.
    """
    sizes = [_size(value, _least(value) + spare) for value in values]
    shown = list(values)
    for done, position in enumerate(sorted(range(len(values)), key=sizes.__getitem__)):
        least = _least(values[position])
        share = least + spare // (len(values) - done)
        shown[position] = _pruned(values[position], share, depth + 1)
        spare -= _size(shown[position], share) - least
    return shown, spare


def _marker(left_out: int, noun: str) -> dict[str, str]:
    return {"…": f"{left_out} more {noun}" + ("" if left_out == 1 else "s")}


def _least(value: Any) -> int:
    """Return the size of the shortest form that a preview can give to `value`."""
    shortest: Any = _LONG_NUMBER
    if type(value) is str:
        shortest = _shortened(value, 0)
    elif type(value) is list:
        shortest = [_marker(len(value), "item")]
    elif type(value) is dict:
        shortest = _marker(len(value), "key")
    least = _size(shortest, 64)
    return min(least, _size(value, least))


def _size(value: Any, room: int) -> int:
    """Return the size of `value` as JSON, or something above `room` when it does not fit."""
    try:
        text, _ = encode(value, max_bytes=room)
    except (TooLarge, Unrepresentable):
        return room + 1
    return len(text) if text.isascii() else len(text.encode())
