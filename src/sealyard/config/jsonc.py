"""JSON with comments and trailing commas, read and changed in place.

Both are blanked out with spaces, so that the standard library reads the rest and every place in it is one in the text.
Messages hold a line and a column and nothing of the content, which may be secret.
"""

import json
import re
from itertools import accumulate
from typing import Any, NoReturn

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)
_BRACKET = re.compile(rf"{_STRING}|[{{}}\[\]]", re.DOTALL)
_GAP = re.compile(r"[ \t\r\n]*")
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_DEPTH = 100
"""Levels of nesting: ten times what clients write, and a tenth of what recursion bears."""

_Span = tuple[int, int]
"""The place of a value: its start and its end."""


class InvalidJson(ValueError):
    """The text is not JSON, not even with comments; the message names the place."""


def parse(text: str) -> Any:
    """The value of the text.

    Raises:
        InvalidJson: It holds none, or more than one.
    """
    plain = _blank_commas(_blank_comments(text))
    depth = max(accumulate(_STEPS.get(each[0], 0) for each in _BRACKET.finditer(plain)), default=0)
    if depth > _DEPTH:
        raise InvalidJson(f"values are nested more than {_DEPTH} deep")
    try:
        return json.loads(plain, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"line {error.lineno}, column {error.colno}: {error.msg.lower().rstrip(': ')}") from None
    except ValueError:
        raise InvalidJson("a number is too long or infinite") from None


def has_comments(text: str, keys: tuple[str, ...]) -> bool:
    """True if a comment is inside the value at the path `keys`. Raises as `put` does."""
    bare = _blank_comments(text)
    span = _find(_blank_commas(bare), keys)
    return span is not None and bare[slice(*span)] != text[slice(*span)]


def put(text: str, keys: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with `value` at the path `keys`, in the indentation of the rest; all other text stays unchanged.

    Raises:
        InvalidJson: The text cannot be read, or something on the path is not an object.
    """
    parse(text)
    plain = _blank_commas(_blank_comments(text))
    depth, span = len(keys), _find(plain, keys)
    while span is None:  # something on the path is missing
        depth -= 1
        span = _find(plain, keys[:depth])
    if depth == len(keys):
        return text[: span[0]] + _render(text, value, depth) + text[span[1] :]
    for key in reversed(keys[depth + 1 :]):
        value = {key: value}
    return _insert(text, span, keys[depth], value, depth)


def _blank_comments(text: str) -> str:
    text = " " + text[1:] if text.startswith("\ufeff") else text
    return _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0]), text)


def _blank_commas(bare: str) -> str:
    """The text without trailing commas; one that follows no value stays, and is an error."""
    return _COMMA.sub(
        lambda match: " " if match[0] == "," and bare[: match.start()].rstrip()[-1:] not in "[{,:" else match[0], bare
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # such as NaN, which the standard library reads and JSON does not have


def _find(plain: str, keys: tuple[str, ...]) -> _Span | None:
    """The place of the value at a path. Raises `InvalidJson` if something on the way is not an object."""
    start = _skip(plain, 0)
    span = (start, len(plain.rstrip()))
    for depth, key in enumerate(keys):
        if plain[span[0]] != "{":
            raise InvalidJson(f"{'.'.join(keys[:depth]) or 'the whole'} is not an object")
        found = _members(plain, span).get(key)
        if found is None:
            return None
        span = found
    return span


def _members(plain: str, span: _Span) -> dict[str, _Span]:
    """The places of the members of an object; of two with one key that of the last, which counts."""
    found, at, decoder = {}, _skip(plain, span[0] + 1), json.JSONDecoder()
    while plain[at] != "}":
        key, at = decoder.raw_decode(plain, at)
        start = _skip(plain, _skip(plain, at) + 1)
        _, end = decoder.raw_decode(plain, start)
        found[key] = (start, end)
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    return found


def _skip(plain: str, at: int) -> int:
    gap = _GAP.match(plain, at)
    assert gap is not None  # it matches nothing too
    return gap.end()


def _insert(text: str, span: _Span, key: str, value: Any, depth: int) -> str:
    """Add a member at the end of an object; a comment behind its last member stays behind that member."""
    bare = _blank_comments(text)
    members = _members(_blank_commas(bare), span)
    line, unit = _layout(text)
    member = f"{_spell(key)}:{' ' if line else ''}{_render(text, value, depth + 1)}"
    close = span[1] - 1
    before = text[:close].rstrip()
    last = max((end for _, end in members.values()), default=close)
    if members and "," not in bare[last:close]:
        before = f"{before[:last]},{before[last:]}"
    if not line:
        return f"{before}{member}{text[close:]}"
    gap = text[len(text[:close].rstrip()) : close]
    end = gap if "\n" in gap else line + unit * depth
    return f"{before}{line}{unit * (depth + 1)}{member}{end}{text[close:]}"


def _render(text: str, value: Any, depth: int) -> str:
    line, unit = _layout(text)
    if not line:
        return _spell(value, separators=(",", ":"))
    return _spell(value, indent=unit).replace("\n", line + unit * depth)


def _spell(value: Any, **layout: Any) -> str:
    spelled = json.dumps(value, ensure_ascii=False, **layout)
    try:
        spelled.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can express
        return json.dumps(value, **layout)
    return spelled


def _layout(text: str) -> tuple[str, str]:
    """The line break and the indentation of the text; both empty if it is one line."""
    if "\n" not in text and len(text.strip()) > len("{}"):
        return "", ""
    first = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    return "\r\n" if "\r\n" in text else "\n", first[1] if first else "  "
