"""JSON with comments and trailing commas, read with the place of every value, so that one can be replaced in the text.

Messages hold a line and a column and nothing of the content, which may be secret.
"""

import json
import re
from typing import Any, NoReturn

import msgspec

_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true\b|false\b|null\b")
_DEPTH = 100  # of nesting: bounds the recursion


class InvalidJson(ValueError):
    """The text is not JSON, not even with comments; the message names the place."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A value and its place in the text."""

    value: Any
    start: int
    end: int
    members: dict[str, "Node"] | None = None
    """The members of an object."""
    has_comments: bool = False
    """True if a comment is inside."""
    ends_with_comma: bool = False


def parse(text: str) -> Node:
    """The value of the text.

    Raises:
        InvalidJson: It holds none, or more than one.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0
        self._comments = 0
        self._depth = 0

    def parse(self) -> Node:
        self._skip_gap()
        node = self._parse_value()
        self._skip_gap()
        if self._at < len(self._text):
            self._fail("there is more text after the value")
        return node

    def _parse_value(self) -> Node:
        if self._next() not in ("{", "["):
            return self._parse_scalar()
        self._depth += 1
        if self._depth > _DEPTH:
            self._fail(f"values are nested more than {_DEPTH} deep")
        start, comments = self._at, self._comments
        is_object = self._next() == "{"
        members: dict[str, Node] = {}
        items: list[Any] = []
        closing = "}" if is_object else "]"
        self._at += 1
        comma = False
        self._skip_gap()
        while self._next() != closing:
            if is_object:
                key = self._parse_key()
                members[key] = self._parse_value()
            else:
                items.append(self._parse_value().value)
            self._skip_gap()
            comma = self._next() == ","
            if not comma and self._next() != closing:
                self._fail(f"expected ',' or '{closing}'")
            self._at += comma
            self._skip_gap()
        self._at += 1
        self._depth -= 1
        return Node(
            value={key: node.value for key, node in members.items()} if is_object else items,
            start=start,
            end=self._at,
            members=members if is_object else None,
            has_comments=self._comments > comments,
            ends_with_comma=comma,
        )

    def _parse_key(self) -> str:
        key = self._parse_scalar(_STRING, "a key in double quotes").value
        assert isinstance(key, str)
        self._skip_gap()
        if self._next() != ":":
            self._fail("expected ':' after the key")
        self._at += 1
        self._skip_gap()
        return key

    def _parse_scalar(self, pattern: re.Pattern[str] | None = None, expected: str = "a value") -> Node:
        pattern = pattern or (_STRING if self._next() == '"' else _SCALAR)
        start = self._at
        match = pattern.match(self._text, start)
        if match is None:
            self._fail(f"expected {expected}" if self._next() != '"' else "this string does not end, or not rightly")
        try:
            value = json.loads(match[0])
        except ValueError:  # a wrong escape, or a number with thousands of digits
            self._fail("this value cannot be read")
        self._at = match.end()
        return Node(value=value, start=start, end=self._at)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_gap(self) -> None:
        match = _GAP.match(self._text, self._at)
        assert match is not None
        if "/" in match[0]:
            self._comments += 1
        self._at = match.end()

    def _fail(self, reason: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        raise InvalidJson(f"line {line}, column {column}: {reason}")


def put(text: str, keys: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with `value` at the path `keys`, in the indentation of the rest; all other text stays unchanged.

    Raises:
        InvalidJson: The text cannot be read, or something on the path is not an object.
    """
    node, depth = parse(text), 0
    for depth, key in enumerate(keys):
        if node.members is None:
            raise InvalidJson(f"{'.'.join(keys[:depth]) or 'the whole'} is not an object")
        child = node.members.get(key)
        if child is None:
            for missing in reversed(keys[depth + 1 :]):
                value = {missing: value}
            return _insert(text, node, key, value, depth)
        node = child
    return text[: node.start] + _render(text, value, depth + 1) + text[node.end :]


def _insert(text: str, node: Node, key: str, value: Any, depth: int) -> str:
    """Add a member at the end of an object; a comment behind its last member stays behind that member."""
    assert node.members is not None
    line, unit = _layout(text)
    member = f"{_spell(key)}:{' ' if line else ''}{_render(text, value, depth + 1)}"
    close = node.end - 1
    before = text[:close].rstrip()
    if node.members and not node.ends_with_comma:
        last = max(each.end for each in node.members.values())
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
