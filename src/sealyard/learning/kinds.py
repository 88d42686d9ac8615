"""What sort of value something is, and which values are the same however they are written."""

import re
from typing import Any

__all__ = ("kind_of", "plain")

_VALUE_CHARACTERS = 80
_LARGEST = 10**18
"""A number with thousands of digits cannot be written."""
_WRITTEN = re.compile(r"[^\W_]+")
_TEXT_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("empty", re.compile(r"\s*")),
    ("private", re.compile(r"(?i:.*__PII_.*)", re.DOTALL)),
    ("date", re.compile(r"\d{4}-\d{2}-\d{2}")),
    ("time", re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")),
    ("other_date", re.compile(r"\d{1,4}[./ -](?:\d{1,2}|[A-Za-z]{3,9})[./ -]\d{1,4}|[A-Za-z]{3,9} \d{1,2},? \d{4}")),
    ("digits", re.compile(r"[-+]?\d+(?:\.\d+)?")),
    ("url", re.compile(r"[a-z]+://.*", re.DOTALL)),
    ("address", re.compile(r"[^\s@]+@[^\s@]+")),
    ("absolute", re.compile(r"/\S.*|[A-Za-z]:\\.*", re.DOTALL)),
    ("relative", re.compile(r"\.{0,2}[\w.-]*/[^\s].*|[\w-]+\.[a-z]{2,4}")),
    ("json", re.compile(r"\s*[\[{].*", re.DOTALL)),
    ("upper", re.compile(r"[A-Z][A-Z0-9_-]*")),
    ("lower", re.compile(r"[a-z][a-z0-9_-]*")),
    ("title", re.compile(r"[A-Z][a-z0-9]+")),
)


def kind_of(value: Any) -> str:
    """What sort of value it is, without the value."""
    match value:
        case None:
            return "none"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case list() | tuple():
            return "list"
        case dict():
            return "dict"
        case str():
            return next((kind for kind, form in _TEXT_KINDS if form.fullmatch(value[:200])), "text")
    return "other"


def plain(value: object) -> str:
    """The same for `'10/01/2024'` and `'2024-10-01'`, and for `12` and `'12'`; empty for what is no text or number."""
    if not isinstance(value, str | float) and not (isinstance(value, int) and abs(value) < _LARGEST):
        return ""
    pieces = (piece.lstrip("0") for piece in _WRITTEN.findall(str(value)[:_VALUE_CHARACTERS].lower()))
    return " ".join(sorted(pieces))
