"""The tests that a name must pass before it is shown to anyone.

Every test errs on the side of silence: a key that could be a person's name or an order to a model is not shown.
"""

import hashlib
import keyword
import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from sealyard.catalog.answers import is_named
from sealyard.privacy.reading import GIVEN_NAMES, split_name
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare.schemas import resolve

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

NAME_CHARACTERS = 40  # longer identifiers are not shown: they could be sentences
_NAME_WORDS = 6  # words of a name; more could be a sentence
_FIELD_WORDS = 6  # words of a field's name; more could be a sentence
_PERSON_WORDS = 3  # words of a key up to which its last one is checked against given names
_REMEMBERED = 4_096  # verdicts cached by each test: a bound
_VALUE_CHARACTERS = 80  # characters of a value that are compared: a bound
_LARGEST_WRITTEN = 10**18  # larger numbers are not written out: one can have thousands of digits
_BRANCHES = 8  # alternatives of a declared schema that are read: a bound

# Names

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""The form of a name in a hint."""
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
WORDS = {
    name: frozenset(words.split())
    for name, words in tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8")).items()
}
"""Lists of words by the name that each has in `words.toml`, which states its purpose."""


@lru_cache(maxsize=_REMEMBERED)
def is_field(key: object) -> bool:
    """True if a key may be named: it looks like a field's name, is short, and is not an order."""
    if not isinstance(key, str) or IDENTIFIER.fullmatch(key) is None or not is_named(key):
        return False
    words = split_name(key)
    return 0 < len(words) <= _FIELD_WORDS and not _is_order(words) and not _is_person(words)


def is_name(name: object) -> bool:
    """True for an identifier that is short and of few words."""
    return (
        isinstance(name, str)
        and len(name) <= NAME_CHARACTERS
        and IDENTIFIER.fullmatch(name) is not None
        and len(_PIECES.findall(name)) <= _NAME_WORDS
    )


def is_nameable(*names: str) -> bool:
    """True if all names may be shown: identifiers that are neither keywords, nor a person's name, nor an order."""
    return all(map(_is_plain, names))


@lru_cache(maxsize=_REMEMBERED)
def _is_plain(name: str) -> bool:
    return is_field(name) and not keyword.iskeyword(name)


def mark_of(text: str, size: int = 6) -> str:
    """A digest of `size` bytes in place of a text that must not be kept or shown."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def is_callable(spec: ToolSpec) -> bool:
    """True if a tool may be named. The name of its module comes from the configuration."""
    return is_nameable(spec.function) and IDENTIFIER.fullmatch(spec.module) is not None


@lru_cache(maxsize=_REMEMBERED)
def is_data(key: object) -> bool:
    """True if a key is a value: an id, a date, an address, a token, a person's name."""
    return not isinstance(key, str) or not is_named(key) or _is_person(split_name(key))


def _is_order(words: list[str]) -> bool:
    return len(words) > 2 and not WORDS["orders"].isdisjoint(words) and not WORDS["ordered"].isdisjoint(words)


def _is_person(words: list[str]) -> bool:
    """True if a key begins with a given name that is rarely another word, or is short and ends with one."""
    ends = (*words[:1], *(words[-1:] if len(words) <= _PERSON_WORDS else ()))
    return any(word in GIVEN_NAMES and word not in WORDS["field_names_of_people"] for word in ends)


# Kinds of values

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
    """The kind of a value, without the value."""
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
    """A normal form, equal for `'10/01/2024'` and `'2024-10-01'`, and for `12` and `'12'`; empty for other types."""
    if not isinstance(value, str | float) and not (isinstance(value, int) and abs(value) < _LARGEST_WRITTEN):
        return ""
    pieces = (piece.lstrip("0") for piece in _WRITTEN.findall(str(value)[:_VALUE_CHARACTERS].lower()))
    return " ".join(sorted(pieces))


def alternatives(schema: object, root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema with its reference resolved, as a list of alternatives: a nullable one has two."""
    whole = resolve(schema, root)
    yield whole
    for key in ("anyOf", "oneOf", "allOf"):
        branches = whole.get(key)
        if isinstance(branches, list):
            yield from (resolve(branch, root) for branch in branches[:_BRANCHES])
