"""Values that need no search: recognised in one short walk, or known to be searched quickly.

Most calls carry flags, counts, single words and field names without a meaning. `PlainValues` recognises them. The
scanner itself searches each name, once; so a value counts as plain only if a search of the whole would leave it as it
is.
"""

import re
from collections.abc import Mapping
from typing import Any

from sealyard.privacy.detect.judge import LEAST_SEARCHED
from sealyard.privacy.detect.scanner import Scanner
from sealyard.privacy.reading.fields import NAMING, WRAPPING, is_described
from sealyard.privacy.reading.lexicon import read_name
from sealyard.values.documents import LARGE

_MOST_VALUES = 64
"""In a plain value: the walk takes some ten microseconds at worst."""
_BELOW = 100_000
"""No number with fewer digits is private on its own: the shortest kinds have more, or need an indicative name."""
_MOST_NAMES = 4096
"""Names that are remembered: about a megabyte."""
_LONGEST_NAME = 80
"""A longer name is taken for a value."""
_WORDY_NAME = re.compile(r"[a-z_]{2,15}")
"""The name of a field that is neither a number nor a key of a table: such a column cannot hold given names."""
_MOST_SCHEMAS = 2_000
"""Parts of a schema that are looked at; a larger one counts as one that describes something private."""


class PlainValues:
    """Recognises plain values by what a scanner finds in their names. Safe to share between threads."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._names: dict[str, int] = {}

    def __contains__(self, value: Any) -> bool:
        names = self._names
        waiting = [value]
        left = _MOST_VALUES
        for each in waiting:
            # Exact types: a subclass may be anything, and this walk judges JSON alone.
            kind = type(each)
            if kind is dict:
                left -= len(each)
                if left < 0:
                    return False
                for name, item in each.items():
                    if type(name) is not str:
                        return False
                    found = names.get(name)
                    if found is None:
                        found = self._read(name)
                    if not found:
                        return False
                    if type(item) is not str:
                        waiting.append(item)
                    elif item and not (found is _WORDY and _is_word(item)):
                        return False
            elif kind is list:
                left -= len(each)
                if left < 0:
                    return False
                waiting += each
            elif kind is int or kind is float:
                if not -_BELOW < each < _BELOW:  # `nan` fails, too
                    return False
            elif not (each is None or kind is bool or (kind is str and not each)):
                return False
        return True

    def _read(self, name: str) -> int:
        """The values that a name allows: none, numbers, or words as well."""
        if len(name) > _LONGEST_NAME:
            return _NOT_PLAIN
        meaning = read_name(name)
        found = _NOT_PLAIN
        if not (meaning.kind or meaning.is_role or meaning.may_be_private or meaning.keys) and self._is_unfound(name):
            is_wordy = not meaning.is_number and name not in _LABELING and _WORDY_NAME.fullmatch(name) is not None
            found = _WORDY if is_wordy else _PLAIN
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
        self._names[name] = found
        return found

    def _is_unfound(self, name: str) -> bool:
        try:
            # Beside another name, since the only key of an object may stand for its value.
            return next(self._scanner.find_values({name: 0, "n": 0}), None) is None
        except Exception:  # noqa: BLE001 - the search of the value meets it again, and says so
            return False


_NOT_PLAIN, _PLAIN, _WORDY = range(3)
_LABELING = NAMING | WRAPPING
"""Fields whose text may label another field, or that stand for the object around them."""


def _is_word(text: str) -> bool:
    """True if it is one word of letters, too short and without the signs for which a text is searched by value."""
    if len(text) >= LEAST_SEARCHED or not text.isascii():
        return False
    return text.isalpha() or ("__" not in text and text.replace("_", "").isalpha())


def texts_of_plain(value: Any) -> list[str]:
    """The names, numbers and words in a plain value, as they are searched."""
    texts: list[str] = []
    waiting = [value]
    for each in waiting:
        kind = type(each)
        if kind is dict:
            texts += each
            waiting += each.values()
        elif kind is list:
            waiting += each
        elif kind is int or kind is float:
            texts.append(str(each))
        elif kind is str:
            texts.append(each)
    return texts


_LIGHT = re.compile(r"[A-Za-z0-9]{1,15}+(?:[ .@-][A-Za-z0-9]{1,15}+){0,5}+").fullmatch
"""A name, a date, an address of mail: no structure, no long word, nothing encoded."""
_LIGHT_WEIGHT = 6
"""Of such a text, and one for every four characters: it takes a quarter of what others do at worst."""
_NUMBER_WEIGHT = 4  # this and the next: relative to the weight of a text, by the time they take
_CONTAINER_WEIGHT = 8  # of a list or an object, without what is in it
_KEY_AGAIN_WEIGHT = 2
"""Records of a list share their names."""
_LONG_NUMBER = 10**11  # from here on a number is searched as a text


def is_quick(value: Any) -> bool:
    """Returns True only if a search in `strict` takes no longer than one of `LARGE` characters, whatever they are.

    Rows of names, dates and numbers are far quicker than texts made to be slow, which `is_large` assumes.
    """
    left = LARGE
    names: set[Any] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is str:
            left -= _LIGHT_WEIGHT + len(each) // 4 if _LIGHT(each) else 16 + len(each)
        elif each is None or kind is bool or kind is float or (kind is int and -_LONG_NUMBER < each < _LONG_NUMBER):
            left -= _NUMBER_WEIGHT
        elif kind is dict or kind is list:
            left -= _CONTAINER_WEIGHT
            if len(each) > left:
                return False
            if kind is list:
                waiting += each
                continue
            for name in each:
                if type(name) is not str:
                    return False
                left -= _KEY_AGAIN_WEIGHT if name in names else 16 + len(name)
                names.add(name)
            waiting += each.values()
        else:
            return False
        if left <= 0:
            return False
    return True


def describes_private(schema: Mapping[str, Any] | None) -> bool:
    """True if some part of a schema may say of a field what its name does not."""
    if schema is None:
        return False
    waiting: list[Any] = [schema]
    for each in waiting:
        if isinstance(each, dict):
            if is_described(each):
                return True
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        if len(waiting) > _MOST_SCHEMAS:
            return True
    return False
