"""Names and texts as words: how near two of them are, what must not be confused, and announcements in texts."""

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from sealyard.values.changes import Deprecation

_CHARACTERS = 500  # of a name or text that are read as words
_KEPT = 512  # names whose words are remembered
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_SEPARATORS = re.compile(r"[\W_]+")
_COVERED = 4
"""Letters from which on a word counts as said by a longer or shorter form of it: `sort` by `sorting`."""
WORDS = tomllib.loads(files("sealyard.versioning.compare").joinpath("words.toml").read_text(encoding="utf-8"))
_ABBREVIATIONS = {short: full for full, shorts in WORDS["abbreviations"].items() for short in shorts.split()}
_OPPOSED = [tuple(frozenset(side.split("/")) for side in pair.split()) for pair in WORDS["opposed"]]
_TIMES = frozenset("at date datetime day on time timestamp".split())
_NEGATIONS = frozenset("no not non without exclude excluded excluding disable disabled dont never".split())
_UNITS = {word: group.split()[0] for group in WORDS["units"] for word in group.split()}
"""Every way to write a unit of measure, with one name for each unit."""
_COMMON = frozenset(WORDS["common"].split())


@lru_cache(_KEPT)
def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: `startDate`, `start_date` and `start-date` have the same."""
    return tuple(word.lower() for word in _WORD.findall(name[:_CHARACTERS]))


@lru_cache(_KEPT)
def stems(name: str) -> tuple[str, ...]:
    """`words`, written out and in the singular: `repo_ids` has those of `repositoryIdentifier`."""
    return tuple(_ABBREVIATIONS.get(single, single) for single in map(_singular, words(name)))


@lru_cache(_KEPT)
def text_words(text: str) -> frozenset[str]:
    """The words of a text that say something."""
    return frozenset(words(text)) - _COMMON


def folded(text: str) -> str:
    """A text as it is the same whatever its spaces, its case and its last stop are."""
    return " ".join(text.lower().split()).rstrip(".")


def are_same_text(one: str, other: str) -> bool:
    """True if two texts differ in spaces, case and the last stop at most."""
    return one == other or folded(one) == folded(other)


def are_spelled_alike(one: str, other: str) -> bool:
    """True if two names have the same letters and digits, and differ in case and in what joins their words.

    A case is all that tells `t` from `T`, a sign all that tells `a<` from `a>`, and a joint all that tells `x1_1` from
    `x11`: such names are two.
    """
    joined = [_SEPARATORS.sub("", name).lower() for name in (one, other)]
    signs = [set(re.findall(r"[^\w\s.\-/$@]", name)) for name in (one, other)]
    if joined[0] != joined[1] or len(joined[0]) < 2 or signs[0] != signs[1]:
        return False
    has_digits = any(letter.isdigit() for letter in joined[0])
    return plurals(one) == plurals(other) and (not has_digits or words(one) == words(other))


def plurals(name: str) -> int:
    """The number of words of a name that may be plurals: `get_items` is not `get_item`, nor `users_id` `user_sid`."""
    return sum(word.endswith("s") for word in words(name))


def are_contrasted(left: Iterable[str], right: Iterable[str], text: str) -> bool:
    """True if the words that one of two names has alone may tell apart what one text says of both.

    A text that says all of the one and not of the other is about that one, whatever the other is called. One that says
    neither leaves it to the names, as does one that says both: `email` and `phone` are both how to reach somebody.
    """
    old, new = frozenset(left), frozenset(right)
    if not old or not new or any(_are_on(side, old, new) for sides in _OPPOSED for side in sides):
        return False
    said = frozenset(stems(text[:_CHARACTERS]))
    return _is_said(old, said) == _is_said(new, said)


def _are_on(side: frozenset[str], *some: frozenset[str]) -> bool:
    """True if each name has a word of one side, and else none but such as only say that it is a time."""
    return all(words & side and words <= side | _TIMES for words in some)


def _is_said(some: frozenset[str], said: frozenset[str]) -> bool:
    return all(
        word in said
        or any(
            (longer.startswith(word) and len(word) >= _COVERED) or (word.startswith(longer) and len(longer) >= _COVERED)
            for longer in said
        )
        for word in some
    )


def is_distinctive(text: str, *, least: int = 2) -> bool:
    """True if a text says enough to know what it describes by: `The id` does not."""
    return len(text_words(text)) >= least and len(words(text)) > least


def likeness(one: str, other: str) -> float:
    """The likeness of two texts, from 0 to 1; 0 if one says nothing."""
    return share(text_words(one), text_words(other))


def share(one: Iterable[str], other: Iterable[str]) -> float:
    """The share of all words that are in both, from 0 to 1."""
    first, second = set(one), set(other)
    return len(first & second) / len(first | second) if first and second else 0.0


def are_opposed(one: str, other: str) -> bool:
    """True if two names differ by words that exclude each other, such as `min` and `max`, or by a number."""
    first, second = set(words(one)), set(words(other))
    left, right = first - second, second - first
    if any(word.isdigit() for word in left) and any(word.isdigit() for word in right):
        return True
    if bool(left & _NEGATIONS) != bool(right & _NEGATIONS):
        return True
    return any((left & near and right & far) or (left & far and right & near) for near, far in _OPPOSED)


def units(text: str) -> frozenset[str]:
    """The units of measure that a name or a text speaks of."""
    return frozenset(_UNITS[word] for word in words(text) if word in _UNITS)


def have_other_units(one: str, other: str) -> bool:
    """True if two texts both speak of units, and of none in common."""
    mine, theirs = (units(text.replace("'s", "")) for text in (one, other))  # whose, not a second
    return bool(mine) and bool(theirs) and not mine & theirs


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


_ANNOUNCED = 4_000  # characters of a text that are searched for an announcement
_GUIDANCE = 300  # characters of an announcement that are kept
_SAID = re.compile(r"\bdeprecat(?:ed|ion|es)\b|\bobsolete\b|\bno longer supported\b|\bwill be removed\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NAME = r"[`'\"]?([A-Za-z_][\w.\-]{0,63}[\w])[`'\"]?"
_INSTEAD = (
    re.compile(rf"\buse\s+(?:the\s+)?{_NAME}(?:\s+(?:tool|parameter|field|argument))?\s+instead\b", re.IGNORECASE),
    re.compile(rf"\b(?:in favou?r of|replaced by|superseded by|renamed to)\s+(?:the\s+)?{_NAME}", re.IGNORECASE),
    re.compile(rf"\binstead,?\s+use\s+(?:the\s+)?{_NAME}", re.IGNORECASE),
    re.compile(r"\b[Uu]se\s+(?:the\s+)?(?:`([A-Za-z_][\w.\-]{0,63})`|([a-z]+_\w{1,60}|[a-z]+[A-Z]\w{1,60})\b)"),
)
_REMOVED_IN = re.compile(
    r"\bremoved\s+(?:in|with|from)\s+(?:version\s+|release\s+)?v?(\d+(?:\.\d+){0,2})", re.IGNORECASE
)


def newly_deprecated(before: tuple[str, bool], after: tuple[str, bool]) -> Deprecation | None:
    """The announcement of a text, or a flag beside it, that was not there before; its `field` is empty."""
    text, flagged = after[0][:_ANNOUNCED], after[1]
    said = _SAID.search(text)
    if (said is None and not flagged) or _SAID.search(before[0][:_ANNOUNCED]) or before[1]:
        return None
    if said is None:
        return Deprecation(field="", guidance="It is marked as deprecated.")
    sentences = _SENTENCE.split(text)
    first = next(number for number, sentence in enumerate(sentences) if _SAID.search(sentence))
    near = " ".join(sentences[first : first + 2])
    found = next((match for pattern in _INSTEAD if (match := pattern.search(near))), None)
    removed = _REMOVED_IN.search(near)
    return Deprecation(
        field="",
        replacement=next(name for name in found.groups() if name) if found else None,
        removed_in=removed[1] if removed else None,
        guidance=near.strip()[:_GUIDANCE],
    )
