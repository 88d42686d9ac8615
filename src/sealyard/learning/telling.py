"""What of an answer may be told: which keys are names of fields, which texts are choices, which numbers are measures.

Every test here errs on the side of silence. A key that could be somebody's name or an order to a model, a text that
could be a value of one record, a number that could be an id: the type is still told, and nothing else of it.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache

from sealyard.learning.code import IDENTIFIER
from sealyard.privacy.reading import GIVEN_NAMES, read_name, split_name
from sealyard.versioning.shapes import is_named

__all__ = (
    "coarser",
    "is_choice",
    "is_data",
    "is_field",
    "is_measure",
    "is_trait",
    "outward",
    "tells_choices",
    "tells_span",
)

_FIELD_WORDS = 6
_CHOICE_WORDS = 4
_PERSON_WORDS = 3
_CHOICE = re.compile(r"(?=.{2,24}$)[A-Za-z]+[0-9]{0,2}(?:[_-][A-Za-z]+[0-9]{0,2})*")
_NOT_ONLY_NAMES = frozenset("bill dean gene iris jack mark max may miles penny roman will".split())
"""Given names that fields are called by more often than people are keys."""
_ORDERS = frozenset("ignore disregard forget bypass override obey pretend reveal print send run call delete".split())
_ORDERED = frozenset(
    """instruction instructions prompt prompts rule rules guideline guidelines previous prior above earlier
    everything system secret secrets password passwords credentials tool tools""".split()
)
"""A name with a word of either says what a model is to do."""
_UNTOLD = frozenset(
    """id ids uid uuid guid key keys code codes token hash digest ref reference slug name names title label labels
    handle login nick alias user users owner author assignee reviewer creator member members contact person
    people by from to cc bcc mailbox inbox domain sender recipient host hostname server path file filename
    folder directory url uri link branch tag tags topic project projects repo repository team teams group groups
    customer client account tenant city town place location address street note notes text comment message
    description summary subject body value values data content query word words answer secret password hint
    gender sex religion diagnosis disease medication""".split()
)
"""What a field is not to be called, in its last word, for its texts to be told."""
_UNMEASURED = frozenset(
    """id ids uid pid gid no nr num number numbers code key pin zip zipcode postal postcode phone mobile fax tel
    year years born birth birthday dob age serial account version timestamp time at date epoch port lat lon lng
    latitude longitude hash seed salary wage wages income pay balance debt weight height ssn ref reference
    cursor offset""".split()
)
"""The same for its numbers."""
_TRAITS = frozenset("hair eye eyes skin blood body health medical marital ethnic ethnicity religious".split())
_REMEMBERED = 4_096
_LARGEST = 1e9
_ID_FLOOR = 100_000
_YEARS = (1900, 2100)


@lru_cache(maxsize=_REMEMBERED)
def is_field(key: object) -> bool:
    """Whether a key may be named: it looks like a field's name, is not long, and gives no order."""
    if not isinstance(key, str) or IDENTIFIER.fullmatch(key) is None or not is_named(key):
        return False
    words = split_name(key)
    return 0 < len(words) <= _FIELD_WORDS and not _is_order(words) and not _is_person(words)


@lru_cache(maxsize=_REMEMBERED)
def is_data(key: object) -> bool:
    """Whether a key is a value: an id, a date, an address, a token, somebody's name."""
    return not isinstance(key, str) or not is_named(key) or _is_person(split_name(key))


@lru_cache(maxsize=_REMEMBERED)
def tells_choices(name: str) -> bool:
    """Whether the texts of a field with this name may be told at all. What it is about is read from the name."""
    words, meaning = split_name(name), read_name(name)
    is_place = meaning.kind in ("", "region?", "org?")
    return bool(words) and is_place and not meaning.is_role and words[-1] not in _UNTOLD


@lru_cache(maxsize=_REMEMBERED)
def is_trait(name: str) -> bool:
    """Whether a field says how somebody is: then nothing of what is in it may be told, however deep."""
    return read_name(name).kind == "trait" or not _TRAITS.isdisjoint(split_name(name))


@lru_cache(maxsize=_REMEMBERED)
def is_choice(text: str) -> bool:
    """Whether a text could be one of few: a word or three, no code with many digits, nobody's name and no order."""
    if _CHOICE.fullmatch(text) is None or not is_named(text.replace("-", "_")):
        return False
    words = split_name(text)
    return 0 < len(words) <= _CHOICE_WORDS and not _is_order(words) and not _is_person(words)


@lru_cache(maxsize=_REMEMBERED)
def tells_span(name: str) -> bool:
    """Whether the bounds of a field's numbers may be told at all."""
    words, meaning = split_name(name), read_name(name)
    return bool(words) and not meaning.kind and not meaning.is_role and words[-1] not in _UNMEASURED


def is_measure(low: float, high: float, *, is_whole: bool) -> bool:
    """Whether numbers between these bounds are neither ids, nor years, nor numbers to call."""
    if max(-low, high) >= _LARGEST or (is_whole and low >= _ID_FLOOR):
        return False
    return not (is_whole and _YEARS[0] <= low and high <= _YEARS[1])


def outward(low: float, high: float) -> tuple[float, float]:
    """Bounds with one digit that tells, around these."""
    return _rounded(low, math.floor), _rounded(high, math.ceil)


def coarser(low: float, high: float) -> tuple[float, float]:
    """Bounds around these that tell no more than how long the numbers are."""
    bottom = 0.0 if low >= 0 else -(10.0 ** math.ceil(math.log10(-low)))
    return bottom, 0.0 if high <= 0 else 10.0 ** math.ceil(math.log10(high))


def _rounded(value: float, to_whole: Callable[[float], int]) -> float:
    if not value:
        return 0.0
    step = 10.0 ** math.floor(math.log10(abs(value)))
    return float(f"{to_whole(value / step) * step:.1g}")


def _is_order(words: list[str]) -> bool:
    return len(words) > 2 and not _ORDERS.isdisjoint(words) and not _ORDERED.isdisjoint(words)


def _is_person(words: list[str]) -> bool:
    """Whether it begins with a given name that is not mostly something else, or is short and ends with one."""
    ends = (*words[:1], *(words[-1:] if len(words) <= _PERSON_WORDS else ()))
    return any(word in GIVEN_NAMES and word not in _NOT_ONLY_NAMES for word in ends)
