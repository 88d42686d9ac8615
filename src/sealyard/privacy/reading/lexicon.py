"""The meaning of words: of the name of a field, and of a single value. The lists of words are data files.

A name is split at case, underscores, hyphens and spaces; accents are dropped. The longest phrase of `names.toml` at its
end decides: words before it only name the owner (`customer_first_name`), and only words of a short list may follow
(`phone_home`, `telefono_movil`, `address_2`). Any other word after it changes the meaning: `email_template`.

A value is evidence and never proof: it looks like a name, a street, a login, a key, or a blank.
"""

import re
import tomllib
import unicodedata
from functools import lru_cache
from importlib.resources import files

import msgspec

from sealyard.privacy.span import TOKEN

_HERE = files("sealyard.privacy.reading")
_LEXICON = tomllib.loads(_HERE.joinpath("names.toml").read_text(encoding="utf-8"))
WORDS = {
    name: frozenset(words.split())
    for name, words in tomllib.loads(_HERE.joinpath("words.toml").read_text(encoding="utf-8")).items()
}
"""Lists of words by the name that each has in `words.toml`, which says what it is for."""
GIVEN_NAMES = WORDS["given_names"]
"""Common given names, without accents."""
_ALIASES: dict[str, str] = _LEXICON["aliases"]
_FILLERS = frozenset(_LEXICON["fillers"].split())
_QUALIFIERS = frozenset(_LEXICON["qualifiers"].split())
_DIGIT = re.compile(r"\d")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_UNDECOMPOSED = str.maketrans("øØłŁđĐ\u0131", "oOlLdDi") | str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe"})
"""Letters that Unicode does not take apart into a plain letter and an accent."""
_LONGEST_NAME = 80
"""Characters. Names of fields are shorter, values in the place of names often longer."""
_LONGEST_PHRASE = 6
"""Words of the longest phrase in `names.toml`."""
_MOST_WORDS = 10_000
"""Words that are remembered: names are made of a language's few common ones."""
_UNRELATED = frozenset("company vendor supplier merchant".split())
"""Firms that stand beside people in records."""
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
    """True if it names something other than a person."""
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
    words = [word.casefold() for word in _NAME_PART.findall(name if name.isascii() else fold(name))]
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
    if len(words) > 1 and words[0] in WORDS["claims"]:
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
    """True if these words may follow: `name_original` and `first_line` are not names of persons."""
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
    """The meaning of a name that matches no phrase: a person, a thing, or nothing."""
    while len(words) > 1 and (words[-1] in WORDS["neutral"] or words[-1].isdigit()):
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
    if kind == "address?" and before and before[-1] in WORDS["elsewhere"]:
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
    if (kind == "part?" and before) or (kind == "auth_token?" and not WORDS["pages"].isdisjoint(before)):
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


# Headers of tables

MOST_COLUMNS = 20_000
"""A row with more cells is neither a header nor a row of a table."""
_LONGEST_HEADER = 60
"""Characters. A longer cell is text."""
_DATA = re.compile(r"[-+$€£]?\d[\d.,:/\s%-]*|.*@.*|https?://.*", re.DOTALL)
"""A number, a date, an address: what no column is called."""


def is_header(names: list[str]) -> bool:
    """True if a row's cells are the names of columns: short, different, no data, and at least one is known."""
    if len(names) - names.count("") < 2 or len(names) > MOST_COLUMNS or len(set(names)) < len(names) - names.count(""):
        return False
    return max(map(len, names)) <= _LONGEST_HEADER and _are_names(tuple(names))


@lru_cache(maxsize=2_000)
def _are_names(names: tuple[str, ...]) -> bool:
    for name in names:
        if name.count(" ") > 5 or (name and _DATA.fullmatch(name)) or TOKEN.search(name):
            return False
    meanings = (read_name(name) for name in names if name)
    return any(meaning.kind or meaning.is_thing for meaning in meanings)


# Single values

_BLANK = WORDS["blank"] | set(
    "not provided,not available,not specified,not applicable,not set,no name,n. a.".split(",")
)
_BLANK_FORMS = frozenset(form for word in _BLANK for form in (word, word.upper(), word.capitalize(), word.title())) | {
    ""
}
_MASKING = "*xX•.#-"
_MASKED = re.compile(r"[*x•.#\s-]+", re.IGNORECASE)
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['\u2019`\-.][^\W\d_]+)*[.,]?")
_WITHOUT_MARKS = str.maketrans("", "", '()"\u201c\u201d')
_STREET_WORD = (
    r"st(?:reet)?|ave(?:nue)?|r(?:oa)?d|blvd|boulevard|lane|ln|dr(?:ive)?|c(?:our)?t|way|pl(?:ace)?|terrace|"
    r"ter|square|sq|parkway|pkwy|circle|cir|highway|hwy|close|crescent|cres|trail|trl|alley|row|gardens?|mews|"
    r"drive|quay|hill|walk|grove|loop|plaza|pike|run|ridge|point|crossing|junction|park|green|mall"
)
_STREET_PART = r"[^\W\d_][\w.'\u2019-]*"
_STREET_FIRST = (
    r"(?:rue|avenue|boulevard|place|chemin|allée|impasse|quai|calle|avenida|av\.|plaza|paseo|carrer|via|viale|piazza"
    r"|corso|largo|rua|travessa|praça|ul\.|ulica|aleja|al\.|улица|ул\.|проспект)\s"
)
_STREET = re.compile(
    rf"\d{{1,6}}[a-z]?(?:[-/]\d+)?,?\s+(?:{_STREET_PART}\s+){{0,5}}(?:{_STREET_WORD})\b\.?(?:[ ,].*)?"
    rf"|(?:{_STREET_PART}\s+){{0,3}}{_STREET_PART}(?:stra(?:ß|ss)e|str\.|weg|gasse|platz|allee|straat|laan|gracht|gatan"
    r"|vägen|vej|gade|gata|veien|katu|tie|kade|plein|damm|ring|ufer)\s+\d{1,4}\s?[a-z]?(?:[ ,].*)?"
    rf"|(?:\d{{1,5}}(?:\s?bis|\s?ter)?,?\s+)?{_STREET_FIRST}\s*[^\W\d_].{{2,}}",
    re.IGNORECASE,
)
"""A street has a house number, or begins with the word for one."""
_STREET_AHEAD = re.compile(_STREET_FIRST, re.IGNORECASE)
_LOGIN = re.compile(r"[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*\d*")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_UNCASED = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,12}(?:[ 　・·][぀-ヿ㐀-鿿가-힯]{1,12})?")
_LONGEST_PERSON = 70
"""Characters: eight words with separators."""


def is_blank(value: str) -> bool:
    """True if the value stands for a missing one, or is a word of a short list rather than data."""
    if not value:
        return True
    if value[0].isspace() or value[-1].isspace():
        value = value.strip()
    return value in _BLANK_FORMS or (value[0] in _MASKING and _MASKED.fullmatch(value) is not None)


def count_digits(value: str) -> int:
    """The number of digits in the value, of any script."""
    return sum(map(str.isdigit, value))


def is_name(value: str) -> bool:
    """True if the value could be a person's name by its form: up to eight words with capitals and no digits."""
    value = value.strip()
    if not 2 <= len(value) <= _LONGEST_PERSON:
        return False
    if _UNCASED.fullmatch(value):
        return True
    words = value.translate(_WITHOUT_MARKS).split()
    if not 0 < len(words) <= 8 or not all(map(_NAME_WORD.fullmatch, words)):
        return False
    plain = [word.strip(".,").casefold() for word in words]
    if any(word in WORDS["not_in_names"] for word in plain):
        return False
    return all(word[0].isupper() or part in WORDS["particles"] for word, part in zip(words, plain, strict=True)) or (
        has_given_name(value) and len(words) > 1
    )


def has_given_name(value: str) -> bool:
    """True if the value begins or ends with a common given name, or with a title such as `Mrs.`."""
    said = (value if value.isascii() else fold(value)).translate(_WITHOUT_MARKS).split()
    if not 0 < len(said) <= 8:
        return False
    words = [word.strip(".,").casefold() for word in said]
    if len(words) > 1 and not WORDS["addressing"].isdisjoint(words):
        return True
    words = [word for word in words if word not in WORDS["titles"]]
    if not words:
        return False
    is_turned = said[0].endswith(",") and len(words) > 1  # Doe, Jane
    return words[0] in GIVEN_NAMES or (
        len(words) > 1 and (words[-1] in GIVEN_NAMES or (is_turned and words[1] in GIVEN_NAMES))
    )


def is_organization(value: str) -> bool:
    """True if the value ends like a firm's name or holds a word of one."""
    words = [word.strip(".,&()").casefold().replace(".", "") for word in value.split()]
    return any(word in WORDS["firms"] for word in words) or "&" in words or " & " in value


def is_street(value: str) -> bool:
    """True if the value reads like a street with a house number, as several countries write it."""
    return (
        len(value) <= 120
        and " " in value
        and (_DIGIT.search(value) is not None or _STREET_AHEAD.match(value.lstrip()) is not None)
        and _STREET.fullmatch(value.strip()) is not None
    )


def is_login(value: str) -> bool:
    """True if the value could be a login name: small letters, digits and dots, no word of another kind."""
    return (
        2 <= len(value) <= 32
        and _LOGIN.fullmatch(value) is not None
        and value not in WORDS["not_in_names"]
        and not is_blank(value)
        and not value.isdigit()
    )


def is_random(value: str) -> bool:
    """True if the value looks like a key or a token: long, without spaces, letters and digits mixed, no UUID."""
    return (
        len(value) >= 16
        and not any(each.isspace() for each in value)
        and any(each.isdigit() for each in value)
        and any(each.isalpha() for each in value)
        and not value.startswith(("http:", "https:", "/"))
        and _UUID.fullmatch(value) is None
    )


def may_be_private(name: str, value: str) -> bool:
    """Returns False if neither its name nor this value can make a field private.

    A record in which that is so of every field has nothing private by name, and need not be looked at together.
    """
    meaning = read_name(name)
    if meaning.kind and meaning.kind != "named?":
        return True
    if meaning.is_thing:
        return False
    if " " in value and (is_street(value) or is_full_name(value)):
        return True
    return meaning.is_number and has_given_name(value)


def is_full_name(value: str) -> bool:
    """True if the value is a given name and one or more others."""
    return " " in value.strip() and is_name(value) and has_given_name(value)
