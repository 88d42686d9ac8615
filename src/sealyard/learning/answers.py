"""The answers of a run as places, types, and the few values that may be shown.

The answers are hostile, and whether anything in them was concealed depends on the configuration: so a copy that is
bounded in every direction is made first, and all kinds of private values are searched in it, whatever the mode is.

A place is written `rows[].amount`; `{}` stands for the values of an object whose keys are data.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.learning.disclosure import (
    is_choice,
    is_data,
    is_field,
    is_measure,
    is_trait,
    outward,
    tells_choices,
    tells_span,
)
from sealyard.privacy import TOKEN, TYPES
from sealyard.privacy.detect import Scanner, ScanRules
from sealyard.values import CallEvidence, RunEvidence
from sealyard.versioning.compare.changes import Version

# Tuned values. A bound limits memory or the cost of hostile input. Without a source named, a value was chosen, not
# measured.

CHOICES = 10  # different texts of a field that still count as a choice
PLACES = 200  # places kept of a tool's answers: a bound, with the slack of `shapes`
_TOOLS = 8  # tools of a run that are read: a bound
_ANSWERS = 10  # answers of each of them: a bound
_ROWS = 50  # rows of a list that are read: a bound
_KEYS = 64  # keys of an object; one with more is a mapping, and its keys are data
_DEPTH = 8  # levels of an answer that are read: a bound
_VISITS = 3_000  # values of all answers of one tool: a bound of some milliseconds
_TEXT_CHARACTERS = 64  # longer texts are no choice and are not copied
_KEY_CHARACTERS = 64  # longer keys are data; `IDENTIFIER` has the same length
_ALIKE = 3  # objects with the very same keys side by side: what they stand under is data
_GIVEN = 200  # values of a call's arguments that are compared with keys: a bound

_MARK = "\0"
"""Stands in the place of what is private, or of a key that is too long to be one."""
_CUT = f"{_MARK}cut"
"""Stands in the place of what is too deep, or too much."""

_scanner = Scanner(ScanRules(types=frozenset(TYPES)))


class PlaceSeen(msgspec.Struct):
    """One place of the answers of a run."""

    kinds: dict[str, int] = {}
    """The number of values of each JSON type; `token` for tokens of private values, `cut` for unread parts."""
    choices: dict[str, int] | None = None
    """The count of each text; None if they must not be shown."""
    span: tuple[float, float] | None = None
    """Bounds around all numbers, rounded; None if there are none or they must not be shown."""
    is_spanned: bool = False
    """True if bounds may be shown."""


class AnswerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one tool in one run."""

    tool: str
    major: int
    answers: int
    places: dict[str, PlaceSeen]
    is_sampled: bool = False
    """True if some of them were samples: a field that is in none of the rows may still be in others."""


def prepare_answers(run: RunEvidence) -> tuple[AnswerSeen, ...]:
    """The answers of a run's tools: eight tools, ten answers of each. It takes milliseconds; use a thread."""
    found: dict[tuple[str, int], list[CallEvidence]] = {}
    for call in run.calls:
        major = major_of(call.version)
        has_any = call.has_answer or call.sample is not None
        if not has_any or call.error is not None or major is None:
            continue
        key = (call.tool, major)
        if key in found or len(found) < _TOOLS:
            calls = found.setdefault(key, [])
            if len(calls) < _ANSWERS:
                calls.append(call)
    return tuple(_see(tool, major, calls) for (tool, major), calls in found.items())


def major_of(version: str) -> int | None:
    """The major version; None if `version` cannot be parsed."""
    try:
        return Version.parse(version).major
    except InvalidRequest:
        return None


def parent_of(place: str) -> str:
    """The object or list that a place is in."""
    return place[:-2] if place.endswith(("[]", "{}")) else place.rpartition(".")[0]


def name_of(place: str) -> str:
    """The field that a place or a list's items belong to; nothing for the answer itself and what is under data."""
    while place.endswith("[]"):
        place = place[:-2]
    return "" if place.endswith("{}") else place.rpartition(".")[2]


def _see(tool: str, major: int, calls: list[CallEvidence]) -> AnswerSeen:
    copies = [
        _Copying(_VISITS // len(calls), _texts(call.arguments)).copy(call.answer if call.has_answer else call.sample)
        for call in calls
    ]
    marks = 0

    def mark(kind: str, value: object) -> str:
        nonlocal marks
        marks += 1
        return f"{_MARK}{marks}"  # each another one: of two keys that were the same afterwards, one would be lost

    judged = _scanner.conceal(copies, mark)
    reading = _Reading()
    for answer, verdict in zip(copies, judged, strict=True):
        reading.read(answer, verdict, "")
    for place in reading.places.values():
        _round(place)
    is_sampled = not all(call.has_answer for call in calls)
    return AnswerSeen(tool=tool, major=major, answers=len(calls), places=reading.places, is_sampled=is_sampled)


def _round(place: PlaceSeen) -> None:
    if place.span is not None:
        is_whole = "number" not in place.kinds
        place.is_spanned = place.is_spanned and is_measure(*place.span, is_whole=is_whole)
        place.span = outward(*place.span) if place.is_spanned else None


def _texts(arguments: Any) -> frozenset[str]:
    """The short texts that a tool was given."""
    values = islice(_unfolded([arguments]), _GIVEN)
    return frozenset(value for value in values if isinstance(value, str) and len(value) <= _KEY_CHARACTERS)


def _unfolded(waiting: list[Any]) -> Iterator[Any]:
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict | list):
            waiting += islice(value.values() if isinstance(value, dict) else value, _GIVEN)


class _Copying:
    """One walk through answers of any size. A key that was `given` to the tool is data, and whoever's it is."""

    def __init__(self, visits: int, given: frozenset[str]) -> None:
        self._given = given
        self._left = visits
        self._much = visits // 2

    def copy(self, value: Any, depth: int = _DEPTH) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return value if len(value) <= _TEXT_CHARACTERS else ""
        if isinstance(value, list | tuple | dict):
            if value and (not depth or self._left < 0):
                return _CUT
            return dict(self._fields(value, depth)) if isinstance(value, dict) else list(self._rows(value, depth))
        return value if value is None or isinstance(value, bool | int | float) else ""

    def _rows(self, rows: list[Any] | tuple[Any, ...], depth: int) -> Iterator[Any]:
        """The first rows; one only when much has been read, so that every kind of part is seen."""
        for row in islice(rows, _ROWS):
            yield self.copy(row, depth - 1)
            if self._left < self._much:
                return

    def _fields(self, fields: dict[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
        is_mapping = len(fields) > _KEYS
        for number, (key, inner) in enumerate(islice(fields.items(), _KEYS)):
            is_kept = not is_mapping and isinstance(key, str) and len(key) <= _KEY_CHARACTERS and key not in self._given
            yield key if is_kept else f"{_MARK}key{number}", self.copy(inner, depth - 1)


class _Reading:
    """One walk through copies of answers, beside what was found private in them."""

    def __init__(self) -> None:
        self.places: dict[str, PlaceSeen] = {}

    def read(self, value: Any, verdict: Any, path: str) -> None:
        place = self.places.get(path)
        if place is None:
            if len(self.places) >= PLACES:
                return
            place = self.places[path] = _new_place(path)
        kind = _kind(value)
        place.kinds[kind] = place.kinds.get(kind, 0) + 1
        if isinstance(value, dict):
            for inner, inner_verdict, step in _steps(value, verdict, path):
                self.read(inner, inner_verdict, step)
        elif isinstance(value, list):
            for inner, inner_verdict in zip(value, verdict, strict=True):
                self.read(inner, inner_verdict, f"{path}[]")
        elif value is not None and not isinstance(value, bool):
            _note(place, value, is_private=isinstance(verdict, str) and _MARK in verdict)


def _new_place(path: str) -> PlaceSeen:
    name = name_of(path)
    if not name or any(map(is_trait, path.replace("[]", "").replace("{}", "").split("."))):
        return PlaceSeen()
    return PlaceSeen(choices={} if tells_choices(name) else None, is_spanned=tells_span(name))


def _steps(value: dict[str, Any], verdict: dict[str, Any], path: str) -> Iterator[tuple[Any, Any, str]]:
    """The parts of an object with their verdicts and places. Keys that are neither fields nor data are left out."""
    is_mapping = _is_mapping(value.values())
    for (key, inner), (judged, inner_verdict) in zip(value.items(), verdict.items(), strict=True):
        if is_mapping or _MARK in judged or is_data(key):
            yield inner, inner_verdict, f"{path}{{}}"
        elif is_field(key):
            yield inner, inner_verdict, f"{path}.{key}" if path else key


def _is_mapping(values: Iterable[Any]) -> bool:
    """True if several objects with the very same keys stand side by side: then the keys above them are data."""
    found = list(values)
    if len(found) < _ALIKE or not all(isinstance(each, dict) and len(each) > 1 for each in found):
        return False
    return all(each.keys() == found[0].keys() for each in found)


def _note(place: PlaceSeen, value: str | float, *, is_private: bool) -> None:
    if isinstance(value, str):
        if is_private or place.choices is None or not is_choice(value):
            place.choices = None
        else:
            place.choices[value] = place.choices.get(value, 0) + 1
            if len(place.choices) > CHOICES:
                place.choices = None
    elif is_private or not place.is_spanned or not -1e15 < value < 1e15:  # neither infinite nor NaN
        place.is_spanned, place.span = False, None
    else:
        low, high = place.span or (value, value)
        place.span = (min(low, value), max(high, value))


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "cut" if value == _CUT else "token" if TOKEN.fullmatch(value) else "string"
        case list():
            return "array"
        case _:
            return "object"
