"""The meaning of a field's name, from the phrases of `names.toml`.

A name is split at case, underscores, hyphens and spaces; accents are dropped. The longest known phrase at its end
decides: words before it only name the owner (`customer_first_name`), and only words of a short list may follow
(`phone_home`, `telefono_movil`, `address_2`). Any other word after it changes the meaning: `email_template`.
"""

import re
import tomllib
import unicodedata
from functools import lru_cache
from importlib.resources import files

import msgspec

from sealyard.privacy.span import TOKEN

_LEXICON = tomllib.loads(files("sealyard.privacy.reading").joinpath("names.toml").read_text(encoding="utf-8"))
_ALIASES: dict[str, str] = _LEXICON["aliases"]
_FILLERS = frozenset(_LEXICON["fillers"].split())
_QUALIFIERS = frozenset(_LEXICON["qualifiers"].split())
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_UNDECOMPOSED = str.maketrans(
    {
        "ß": "ss",
        "ø": "o",
        "Ø": "O",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
        "\u0131": "i",
    }
)
_LONGEST_NAME = 80
_LONGEST_PHRASE = 6
_MOST_WORDS = 10_000
"""Words that are remembered: names are made of a language's few common ones."""
_CLAIMS = frozenset(
    """is has have had should can could may must allow allows allowed show shows hide send sends use uses enable enabled
    disable require requires required need needs was were will accept accepts include includes exclude want wants
    validate count max min total avg sum""".split()
)
"""A name that begins so holds a flag or a count."""
_ELSEWHERE = frozenset(
    """ip mac email mail web url uri server host bind listen node peer remote contract memory bit register virtual
    physical broadcast gateway dns proxy source dest destination start end base load return from to hex token""".split()
)
"""Words that rule out a street address when they precede it."""
_PAGES = frozenset(
    "page next previous prev continuation cursor sync resume max total prompt completion input output".split()
)
"""Words after which a token is a cursor or a count, not a secret."""
_UNRELATED = frozenset("company vendor supplier merchant".split())


_DIGIT = re.compile(r"\d")
_SIX_DIGITS = re.compile(r"(?:\d\D?){6}")
_HEX_PAIRS = re.compile(r"[0-9a-fA-F]{2}[:-][0-9a-fA-F]{2}")
_LONG_VALUE = 20
"""A name of this length with a digit in it may be a key."""


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of a name. `kind` is a type of `TYPES`, one of the lexicon's other kinds, or empty."""

    kind: str = ""
    is_sure: bool = False
    """True if the name alone is enough."""
    is_role: bool = False
    """True if it names a person: what a `name` below it belongs to."""
    is_thing: bool = False
    """True if it names something that is no person."""
    is_number: bool = False
    """True if it only numbers its field: `k1`, `col_2`, `Unnamed: 3`."""
    may_be_private: bool = False
    """True if the name has what a private value may have: an address, a number, a key."""
    keys: str = ""
    """The type of the keys below it: `person` for `salary_by_name`."""


NOTHING = Meaning()
_VALUE_AS_NAME = Meaning(may_be_private=True)


def fold(text: str) -> str:
    """The text without accents, its case kept."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_UNDECOMPOSED))
    return unicodedata.normalize("NFC", "".join(each for each in decomposed if not unicodedata.combining(each)))


def split_name(name: str) -> list[str]:
    """The words of a name in small letters: `GivenName`, `given-name` and `given name` give the same."""
    words = [word.casefold() for word in _WORD.findall(name if name.isascii() else fold(name))]
    for index in range(len(words) - 1):
        if words[index] == "e" and words[index + 1].startswith(("mail", "post")):
            words[index : index + 2] = ["e" + words[index + 1]]
            break
    return [_ALIASES.get(word, word) for word in words]


def _phrases() -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, listed in _LEXICON["phrases"].items():
        for phrase in listed.split():
            words = split_name(phrase)
            found.setdefault("".join(words), kind)
            found.setdefault("".join(fold(phrase).casefold().split("_")), kind)
            kept = [word for word in words if word not in _FILLERS]
            if len(kept) > 1:
                found.setdefault("".join(kept), kind)
    return found


_PHRASES = _phrases()
_ENDINGS = {phrase: kind for phrase, kind in _PHRASES.items() if len(phrase) > 6 and not kind.endswith("?")}
"""Long enough to be recognised at the end of a name that is written in one word."""
_TAILS = frozenset(phrase[start:] for phrase in _PHRASES for start in range(len(phrase)))
"""The endings of phrases. Few words of other names are one of these."""
_ROLES = frozenset("".join(split_name(role)) for role in _LEXICON["roles"].split())
_THINGS = frozenset("".join(split_name(thing)) for thing in _LEXICON["things"].split())
_NEUTRAL = frozenset(
    "info details detail data record records list profile results result entity object dto row rows response items set "
    "information entry entries collection table".split()
)


def read_name(name: str) -> Meaning:
    """The meaning of the name of a field, a column or a property. A name is short: anything else is a value."""
    return _read_short(name) if len(name) <= _LONGEST_NAME else _VALUE_AS_NAME


@lru_cache(maxsize=20_000)
def _read_short(name: str) -> Meaning:
    if "__" in name and TOKEN.search(name):
        return _VALUE_AS_NAME
    words = split_name(name)
    meaning = _read(words) if words else NOTHING
    is_number = not words or (len(words) < 3 and (len(words[-1]) == 1 or words[-1].isdigit()) and len(words[0]) < 8)
    may_be_private = _may_be_value(name)
    keys = _read_keys(words)
    if not (is_number or may_be_private or keys):
        return meaning  # one object for all names that mean nothing
    return msgspec.structs.replace(meaning, is_number=is_number, may_be_private=may_be_private, keys=keys)


def _may_be_value(name: str) -> bool:
    if "@" in name or "__" in name or "://" in name:
        return True
    if _DIGIT.search(name) and (len(name) >= _LONG_VALUE or _SIX_DIGITS.search(name)):
        return True
    return (":" in name or "-" in name) and _HEX_PAIRS.search(name) is not None


def _read(words: list[str]) -> Meaning:
    if len(words) > 1 and words[0] in _CLAIMS:
        return NOTHING
    found = _match(words)
    if found is None:
        kept = [word for word in words if word not in _FILLERS]
        found = _match(kept) if kept and kept != words else None
    if found is None and len(words) == 1:
        found = _match_ending(words[0])
    return _context(words) if found is None else _settle(*found, words)


def _read_keys(words: list[str]) -> str:
    before = words[-2::-1]  # the last word can follow a `by`, and be none
    if "by" not in before:
        return ""
    meaning = _read(words[-1 - before.index("by") :])
    return "person" if meaning.kind in ("name?", "role?") else meaning.kind if meaning.is_sure else ""


def _match(words: list[str]) -> tuple[str, list[str]] | None:
    """The kind of the longest known phrase that ends the name, and the words before it."""
    best: tuple[int, str, list[str]] = (0, "", [])
    for end in range(len(words), 0, -1):
        endings = _endings(words[end - 1])
        for start in range(max(0, end - _LONGEST_PHRASE), end) if endings else ():
            for last in endings:
                phrase = "".join(words[start : end - 1]) + last
                kind = _PHRASES.get(phrase)
                if kind is not None and len(phrase) > best[0] and _fits(kind, words[end:]):
                    best = (len(phrase), kind, words[:start])
        if words[end - 1] not in _QUALIFIERS and not words[end - 1].isdigit():
            break
    return best[1:] if best[0] else None


@lru_cache(maxsize=_MOST_WORDS)
def _endings(word: str) -> tuple[str, ...]:
    """The forms of a word with which a known phrase ends."""
    return tuple(form for form in _singulars(word) if form in _TAILS)


def _fits(kind: str, after: list[str]) -> bool:
    """A name is no longer one with just any word after it: `name_original`, `first_line`."""
    if kind == "part?":
        return not after
    return kind != "name?" or all(
        word.isdigit() or _role(word) or word in ("full", "complete", "completo", "kana", "latin") for word in after
    )


def _match_ending(word: str) -> tuple[str, list[str]] | None:
    """The same for a name in one word: `customerfirstname`, `kundentelefonnummer`, お客様氏名."""
    for start in range(1, len(word) - 1):
        ending = word[start:]
        if ending in _ENDINGS or (not word.isascii() and ending in _PHRASES):
            return _PHRASES[ending], [word[:start]]
    for ending in ("name", "namn", "navn", "naam", "nimi"):
        if word.endswith(ending) and len(word) > len(ending):
            return "name?", [word.removesuffix(ending)]
    return None


def _singulars(word: str) -> tuple[str, ...]:
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return (word,)
    if word.endswith("ies"):
        return word, word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word, word[:-2]
    return word, word[:-1]


@lru_cache(maxsize=_MOST_WORDS)
def _role(word: str) -> bool:
    return any(each in _ROLES for each in _singulars(word)) or (word.endswith("n") and word[:-1] in _ROLES)


@lru_cache(maxsize=_MOST_WORDS)
def _thing(word: str) -> bool:
    return any(each in _THINGS for each in _singulars(word))


def _context(words: list[str]) -> Meaning:
    """For a name that is no field of its own: whether it names a person or a thing."""
    while len(words) > 1 and (words[-1] in _NEUTRAL or words[-1].isdigit()):
        words = words[:-1]
    joined = "".join(words[-3:])
    if words[-2:] == ["user", "agent"]:
        return NOTHING
    if joined in _ROLES or "".join(words[-2:]) in _ROLES or _role(words[-1]):
        return Meaning("role?", is_role=True)
    if _thing(words[-1]):
        return Meaning(is_thing=True)
    return NOTHING


def _settle(kind: str, before: list[str], words: list[str]) -> Meaning:
    """The meaning of a phrase with these words before it."""
    if kind == "name?":
        return _settle_name(before, words)
    if kind == "address?" and before and before[-1] in _ELSEWHERE:
        return NOTHING
    if kind in ("place?", "region?", "org?") and any(
        not (
            word in _QUALIFIERS
            or word in _FILLERS
            or _role(word)
            or word in ("birth", "residence", "ship", "bill")
            or word in _UNRELATED
        )
        for word in before
    ):
        return Meaning(is_thing=kind == "org?")
    if kind == "org?":
        return Meaning(kind, is_thing=True)
    if (kind == "part?" and before) or (kind == "auth_token?" and not _PAGES.isdisjoint(before)):
        return NOTHING
    return Meaning(kind, is_sure=not kind.endswith("?"))


def _settle_name(before: list[str], words: list[str]) -> Meaning:
    """A name is a person's if a word before it names one, or after it: `nombre_cliente`."""
    if "".join(before[-2:]) in _ROLES:
        return Meaning("person?", is_role=True)
    for word in [*reversed(before), *reversed(words)]:
        if _thing(word) and not _role(word):
            return Meaning("org?" if word in _UNRELATED else "", is_thing=True)
        if _role(word):
            return Meaning("person?", is_role=True)
    if not before or all(word in _QUALIFIERS or word in _FILLERS for word in before):
        return Meaning("name?")
    return Meaning("named?")
