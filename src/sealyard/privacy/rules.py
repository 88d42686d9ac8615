"""The gateway's rules of privacy: the mode of each tool, and the places where its arguments may hold real values.

Most calls carry flags, counts, single words and field names without a meaning. `PlainValues` recognises them in one
short walk, so that they are never searched; `is_quick` recognises what a search takes no time for.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal

import msgspec

from sealyard.privacy.detect.encodings import EncodedValues
from sealyard.privacy.detect.judge import LEAST_SEARCHED
from sealyard.privacy.detect.scanner import Scanner, ScanRules
from sealyard.privacy.reading.fields import NAMING, WRAPPING, is_described
from sealyard.privacy.reading.lexicon import read_name
from sealyard.values.documents import LARGE
from sealyard.values.tools import ToolSpec, tool_names

Mode = Literal["strict", "output", "off"]
Reveal = Literal["whole", "inside", "never"]


class Handling(msgspec.Struct, frozen=True, kw_only=True):
    """The treatment of one tool's answers and arguments."""

    mode: Mode
    whole: tuple[str, ...] = ()
    """Fields that are concealed whole."""
    visible: tuple[str, ...] = ()
    """Fields that are left as they are."""
    reveal: Reveal | None = None
    """The places in its arguments where a token becomes the value; None: as `Privacy.reveal` says."""


class Privacy:
    """The gateway's detectors and rules; a `Guard` applies them to one session."""

    def __init__(
        self, scanner: Scanner, *, mode: Mode = "strict", rules: Iterable[tuple[Collection[str], Handling]] = ()
    ) -> None:
        self.scanner = scanner
        self.mode: Mode = mode
        self.rules = tuple(rules)
        self._named = [
            (tool_names(tuple(patterns), f"privacy.rules[{number}].tools"), handling)
            for number, (patterns, handling) in enumerate(self.rules)
        ]
        self._default = Handling(mode=mode)
        self._handling: dict[tuple[str, str, str], Handling] = {}
        self._schemas: dict[str, tuple[Any, bool]] = {}
        """The schema of each tool's answers by its full name, and whether it says that something is private."""
        self.is_relaxed = mode != "strict" or any(handling.mode != "strict" for _, handling in self.rules)
        """True if some tool's answers reach the code as they are."""
        self.is_off = mode == "off" and all(handling.mode == "off" for _, handling in self.rules)
        """True if no tool's answers are concealed."""
        is_strict = mode == "strict" or any(handling.mode == "strict" for _, handling in self.rules)
        self._reveal: Reveal = "whole" if is_strict else "inside"
        """Where code holds no real value, it must not choose the text beside one."""
        detectors = [
            EncodedValues(scanner.find_each),
            *([EncodedValues(scanner.find_each, is_thorough=True)] if self.is_relaxed else []),
        ]
        # A pattern may match any number or word, and so may a detector beside our own.
        is_open = bool(scanner.rules.patterns) or scanner.has_detectors
        self.plain = None if is_open else PlainValues(scanner.with_detectors(detectors))
        """Values that stay as they are on both ways, as long as nothing was seen before."""

    def handling(self, spec: ToolSpec) -> Handling:
        """The handling of a tool: that of the first rule that names it."""
        if not self._named:
            return self._default
        tool = (spec.full_name, spec.upstream, spec.name)
        found = self._handling.get(tool)
        if found is None:
            fits = (each for is_named, each in self._named if is_named(spec))
            found = self._handling[tool] = next(fits, self._default)
        return found

    def describes(self, spec: ToolSpec) -> bool:
        """True if the schema of a tool's answers may make a field private whose name does not."""
        schema = spec.output_schema
        if schema is None:
            return False
        known = self._schemas.get(spec.full_name)
        if known is None or known[0] is not schema:
            known = self._schemas[spec.full_name] = (schema, describes_private(schema))
        return known[1]

    def reveal(self, spec: ToolSpec) -> Reveal:
        """The places in a tool's arguments where a token becomes the value."""
        return self.handling(spec).reveal or self._reveal

    @cached_property
    def described(self) -> "Described | None":
        """The rules as a helper process is sent them.

        None if there are detectors beside our own: a model of language takes longer to load than most texts to read.
        """
        if self.scanner.has_detectors:
            return None
        rules = tuple((tuple(patterns), handling) for patterns, handling in self.rules)
        return Described(scan=self.scanner.rules, mode=self.mode, rules=rules)


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a `Privacy`, as data."""

    scan: ScanRules
    mode: Mode
    rules: tuple[tuple[tuple[str, ...], Handling], ...]

    def build(self) -> Privacy:
        """The same rules again."""
        return Privacy(Scanner(self.scan), mode=self.mode, rules=self.rules)


# Values that need no search

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
        self._read = lru_cache(_MOST_NAMES)(self._read_name)

    def __contains__(self, value: Any) -> bool:
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
                    if type(name) is not str or len(name) > _LONGEST_NAME:
                        return False
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

    def _read_name(self, name: str) -> int:
        """The values that a name allows: none, numbers, or words as well."""
        meaning = read_name(name)
        if meaning.kind or meaning.is_role or meaning.may_be_private or meaning.keys:
            return _NOT_PLAIN
        try:
            # Beside another name, since the only key of an object may stand for its value.
            if next(self._scanner.find_values({name: 0, "n": 0}), None) is not None:
                return _NOT_PLAIN
        except Exception:  # noqa: BLE001 - the search of the value meets it again, and says so
            return _NOT_PLAIN
        is_wordy = not meaning.is_number and name not in _LABELING and _WORDY_NAME.fullmatch(name) is not None
        return _WORDY if is_wordy else _PLAIN


_NOT_PLAIN, _PLAIN, _WORDY = range(3)
_LABELING = NAMING | WRAPPING
"""Fields whose text may label another field, or that stand for the object around them."""


def _is_word(text: str) -> bool:
    """True if it is one word of letters, too short and without the signs for which a text is searched by value."""
    if len(text) >= LEAST_SEARCHED or not text.isascii():
        return False
    return text.isalpha() or ("__" not in text and text.replace("_", "").isalpha())


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
