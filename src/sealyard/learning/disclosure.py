"""The tests that a name must pass before it is shown to anyone.

Every test errs on the side of silence: a key that could be a person's name or an order to a model is not shown.
"""

import hashlib
import keyword
import re
import tomllib
from functools import lru_cache
from pathlib import Path

from sealyard.catalog.shapes import is_named
from sealyard.privacy.reading import GIVEN_NAMES, split_name
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_NAME_CHARACTERS = 40  # longer identifiers are not shown: they could be sentences
_NAME_WORDS = 6  # words of a name; more could be a sentence
_FIELD_WORDS = 6  # words of a field's name; more could be a sentence
_PERSON_WORDS = 3  # words of a key up to which its last one is checked against given names
_REMEMBERED = 4_096  # verdicts cached by each test: a bound

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
    # A long name with a word of both lists may be an instruction to a model.
    is_order = len(words) > 2 and not any(WORDS[each].isdisjoint(words) for each in ("orders", "ordered"))
    return 0 < len(words) <= _FIELD_WORDS and not is_order and not _is_person(words)


def is_name(name: object) -> bool:
    """True for an identifier that is short and of few words."""
    return (
        isinstance(name, str)
        and len(name) <= _NAME_CHARACTERS
        and IDENTIFIER.fullmatch(name) is not None
        and len(_PIECES.findall(name)) <= _NAME_WORDS
    )


def is_nameable(name: str) -> bool:
    """True if a name may be shown: an identifier that is neither a keyword, nor a person's name, nor an order."""
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


def _is_person(words: list[str]) -> bool:
    """True if a key begins with a given name that is rarely another word, or is short and ends with one."""
    ends = (*words[:1], *(words[-1:] if len(words) <= _PERSON_WORDS else ()))
    return any(word in GIVEN_NAMES and word not in WORDS["field_names_of_people"] for word in ends)
