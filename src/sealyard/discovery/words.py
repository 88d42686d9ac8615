"""Splits text into the stems that the index holds, in the same way for tools and for queries.

Words are cut at case, digits, underscores and punctuation, then stemmed lightly. Stop words, weak words and synonyms
are English and stand in `words.toml`.
"""

import re
import tomllib
from functools import lru_cache
from itertools import chain
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

STOP_WORDS = frozenset(_LISTS["stop"].split())
"""Words that say nothing about a tool: neither indexed nor reported as unmatched."""

_WEAK_FACTOR = 0.3  # chosen on the development sets, like the weights in `index`
_RUN = re.compile(r"[^\W_]{1,64}")
_PART = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^A-Za-z\d]+")
_LETTERS = re.compile(r"[a-z]{3,}")
# Written without spaces: two neighbours at a time stand for the words nobody marked.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_VOWELS = frozenset("aeiouy")


def spelled(text: str) -> list[str]:
    """The words of a text as they are written, in order."""
    return _RUN.findall(text)


def stems(text: str) -> list[str]:
    """The stems of a text in order, without stop words."""
    return list(chain.from_iterable(map(terms, _RUN.findall(text))))


def parts(word: str) -> list[str]:
    """The word cut where its case changes: `getAPIKey` is get, api, key; `API`, `APIs` and `K8s` are one part each."""
    if word[1:].islower() or word.isupper() or (word[-1] == "s" and word[:-1].isupper()):
        return [word.lower()]
    return [part.lower() for part in _PART.findall(word)]


def squashed(text: str) -> str:
    """A name without its case and its separators: `getUser`, `get_user` and `get-user` are one."""
    return "".join(_RUN.findall(text)).casefold()


@lru_cache(maxsize=1 << 16)
def terms(word: str) -> tuple[str, ...]:
    """The stems of one written word; empty for a stop word."""
    if not word.isascii() and _UNSPACED.search(word):
        return tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    found: list[str] = []
    for part in parts(word):
        if part not in STOP_WORDS:
            found.append(stem(part))
            if not part.isalpha():  # `oauth2` is also `oauth`
                found += [stem(letters) for letters in _LETTERS.findall(part) if letters not in STOP_WORDS]
    return tuple(found)


def stem(word: str) -> str:
    """The word without plural, `-ing`, `-ed` and silent ending: equal for the forms of a word, not made to be read."""
    word = _singular(word)
    for ending in ("ing", "ed"):
        kept = word[: -len(ending)]
        if word.endswith(ending) and len(kept) >= 3 and not word.endswith("eed") and not _VOWELS.isdisjoint(kept):
            if len(kept) > 3 and kept[-1] == kept[-2] and kept[-1] not in "lsz":
                kept = kept[:-1]
            word = kept
            break
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


def _singular(word: str) -> str:
    if len(word) <= 3 or word[-1] != "s" or word.endswith(("ss", "us", "is")) or word == "news":
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _synonyms(groups: str) -> dict[str, tuple[str, ...]]:
    table: dict[str, set[str]] = {}
    for group in groups.splitlines():
        stems = {stem(word) for word in group.split()}
        for word in stems:
            table.setdefault(word, set()).update(stems - {word})
    return {word: tuple(sorted(others)) for word, others in table.items()}


SYNONYMS = _synonyms(_LISTS["synonyms"])
"""By stem: the stems that often mean the same."""

WEAK = {stem(word): _WEAK_FACTOR for word in _LISTS["weak"].split()}
"""By stem: the factor of a query word that hardly narrows a search."""
