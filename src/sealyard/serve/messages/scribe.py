"""Relayed messages without what is private: the work itself, for the event loop and for helper processes alike."""

import base64
import binascii
import re
from typing import Any

from sealyard.privacy import TOKEN, Guard, Sent
from sealyard.serve.messages.structure import Shape
from sealyard.values import ToolSpec

_ORDER = {"structured": 0, "data": 1}
"""Fields say what is private; then the texts beside them are searched for the same values."""
_WORDS = frozenset({"structured", "data", "text"})
_REPEATING = frozenset({"echo", "handle"})
_SEARCHED = _WORDS | _REPEATING | {"blob"}
"""A blob too: what is there need not be base64, or of no text."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*:(?://)?)?(.*)", re.IGNORECASE | re.ASCII | re.DOTALL)


class Scribe:
    """Writes what needs to know which values stand behind tokens, where those are real tokens already."""

    def kind_of(self, token: re.Match[str]) -> str:
        """The type of the value that a token stands for."""
        return token[1].lower()

    def blob(self, text: str, encoding: str) -> str:
        """A text with tokens as base64."""
        return base64.b64encode(text.encode(encoding, "replace")).decode()


_SCRIBE = Scribe()


def conceal(guard: Guard, shape: Shape, value: Any, spec: ToolSpec, sent: Sent, *, scribe: Scribe = _SCRIBE) -> Any:
    """A part of a message as a client may see it; the very same if nothing in it is private.

    Raises what `Guard.admit` does, and `RecursionError` for data that is nested too deeply.
    """
    leaves: list[tuple[str, Any]] = []

    def note(kind: str, each: Any) -> Any:
        leaves.append((kind, each))
        return each

    shape(value, note)
    made = _replaced(guard, leaves, spec, sent, scribe)
    if all(new is old or new == old for new, (_, old) in zip(made, leaves, strict=True)):
        return value
    rest = iter(made)
    return shape(value, lambda *_: next(rest))


def _replaced(guard: Guard, leaves: list[tuple[str, Any]], spec: ToolSpec, sent: Sent, scribe: Scribe) -> list[Any]:
    made: list[Any] = [None] * len(leaves)
    for number in sorted(range(len(leaves)), key=lambda number: _ORDER.get(leaves[number][0], 2)):
        kind, value = leaves[number]
        if kind in _REPEATING:
            made[number] = _unforged(guard, value) if kind == "echo" else value
        elif kind == "blob":
            made[number] = _blob(guard, value, spec, sent, scribe)
        else:
            new = guard.conceal_admitted(spec, guard.admit(spec, value, sent=sent))
            if kind == "uri":
                new = value if new == value else _token_address(guard, value)
            elif kind == "form":
                new = _form(guard, value, new, sent, scribe)
            made[number] = new
    _without_echoes(guard, leaves, made, sent)
    for number, (kind, value) in enumerate(leaves):
        if kind == "handle":
            made[number] = _handle(guard, value, made[number])
    return made


def _without_echoes(guard: Guard, leaves: list[tuple[str, Any]], made: list[Any], sent: Sent) -> None:
    """Take what was handed over out of what is not searched for anything else, and what is in pieces, one in each."""
    searched = [number for number, (kind, _) in enumerate(leaves) if kind in _SEARCHED]
    if not guard.is_repeated_to(sent) or (len(searched) == 1 and leaves[searched[0]][0] in _WORDS):
        return
    whole = guard.admit_echoes([made[number] for number in searched], sent=sent)
    for number, each in zip(searched, whole, strict=True):
        made[number] = made[number] if made[number] == each else each


def _unforged(guard: Guard, value: Any) -> Any:
    """What only looks like a token is text: handed back, it is that text and no value."""
    assert guard.scope is not None
    scope = guard.scope
    if isinstance(value, str):
        return value if TOKEN.search(value) is None else TOKEN.sub(lambda match: scope.token("text", match[0]), value)
    if isinstance(value, dict):
        made = {_unforged(guard, key): _unforged(guard, item) for key, item in value.items()}
        return made if any(made.get(key) is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [_unforged(guard, item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _handle(guard: Guard, value: str, shown: str) -> str:
    """What comes back to the upstream as it is: whole as a token if it may not be shown, or looks like one."""
    assert guard.scope is not None
    return value if shown == value and TOKEN.search(value) is None else guard.scope.token("text", value)


def _blob(guard: Guard, value: str, spec: ToolSpec, sent: Sent, scribe: Scribe) -> str:
    """Base64 of a text without what is private in it; anything else as it is."""
    try:
        content = base64.b64decode(value)
    except (binascii.Error, ValueError):
        return value
    if (encoding := guard.file_encoding(spec, content, sent=sent)) is None:
        return value
    text = content.decode(encoding)
    shown = guard.conceal_admitted(spec, guard.admit(spec, text, sent=sent))
    return value if shown == text else scribe.blob(str(shown), encoding)


def _form(guard: Guard, value: str, found: str, sent: Sent, scribe: Scribe) -> str:
    """A text of a form. What only looks like a name stays: one of many choices cannot be told from a person's."""
    if any(scribe.kind_of(token) != "person" for token in TOKEN.finditer(found)):
        return found
    return str(guard.admit_echoes(value, sent=sent))


def _token_address(guard: Guard, value: str) -> str:
    """An address that leads back to exactly itself: all but its scheme as one token."""
    found = _ADDRESS.fullmatch(value)
    assert found is not None
    assert guard.scope is not None
    return (found[1] or "") + guard.scope.token("text", found[2])
