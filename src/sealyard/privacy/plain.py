"""Values so small and plain that a search finds nothing in them, told apart by one short walk.

Most calls carry flags, counts and names of fields that mean nothing. A name is searched by the scanner itself, once,
and remembered; so a value passes here only if the search of the whole would leave it as it is.
"""

from collections.abc import Mapping
from typing import Any

from sealyard.privacy.fields import is_described
from sealyard.privacy.names import read_name
from sealyard.privacy.scanner import Scanner

__all__ = ("PlainValues", "describes_private", "texts_of_plain")

_MOST_VALUES = 64
"""In a plain value: the walk takes some ten microseconds at worst."""
_BELOW = 100_000
"""No number with fewer digits is private by itself: the shortest kinds have more, or a name that says so."""
_MOST_NAMES = 4096
"""That are remembered: about a megabyte."""
_LONGEST_NAME = 80
"""A longer name is taken for a value."""
_MOST_SCHEMAS = 2_000
"""Parts of a schema that are looked at; a larger one counts as one that describes something private."""


class PlainValues:
    """Tells plain values by a scanner's opinion of the names in them. Safe to share between threads."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._names: dict[str, bool] = {}

    def __contains__(self, value: Any) -> bool:
        names = self._names
        waiting = [value]
        for each in waiting:
            # Exact types: a subclass may be anything, and what is no JSON is not for this walk to judge.
            kind = type(each)
            if kind is dict:
                if len(each) > _MOST_VALUES:
                    return False
                for name in each:
                    if type(name) is not str:
                        return False
                    is_plain = names.get(name)
                    if is_plain is False or (is_plain is None and not self._is_plain_name(name)):
                        return False
                waiting += each.values()
            elif kind is list:
                if len(each) > _MOST_VALUES:
                    return False
                waiting += each
            elif kind is int or kind is float:
                if not -_BELOW < each < _BELOW:  # nor is anything that is no number
                    return False
            elif not (each is None or kind is bool or (kind is str and not each)):
                return False
            if len(waiting) > _MOST_VALUES:
                return False
        return True

    def _is_plain_name(self, name: str) -> bool:
        if len(name) > _LONGEST_NAME:
            return False
        meaning = read_name(name)
        is_plain = not (meaning.kind or meaning.is_role or meaning.may_be_private or meaning.keys)
        if is_plain:
            try:
                # Beside another name, since the only key of an object may stand for its value.
                is_plain = next(self._scanner.find_values({name: 0, "n": 0}), None) is None
            except Exception:  # noqa: BLE001 - the search of the value meets it again, and says so
                is_plain = False
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
        self._names[name] = is_plain
        return is_plain


def texts_of_plain(value: Any) -> list[str]:
    """The names and numbers in a plain value, as they are searched."""
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
    return texts


def describes_private(schema: Mapping[str, Any] | None) -> bool:
    """Whether some part of a schema may say of a field what its name does not."""
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
