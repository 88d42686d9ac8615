"""Conditions on arguments, a rule's `when`, checked against the arguments that code sends.

A condition holds, does not hold, or is in doubt. It holds only for an exact match. It is in doubt where a server may
read a value differently: another type than the condition speaks of (a list around a text, a number as text, null),
another case, spacing or spelling, a path with `..`, a name given twice. A doubt is decided strictly: it never allows a
call, and never exempts one from a rule that asks or denies.
"""

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import jsonschema_rs
import msgspec

from sealyard.errors import InvalidConfig
from sealyard.values.tools import glob

_MOST_CHARACTERS = 1 << 18  # of one text
_MOST_VALUES = 20_000  # of one condition
_MOST_KEYS = 10_000  # of one object
_MOST_PARTS = 32  # of one name
_REGEX = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
# Controls except white space, and invisible characters: joiners, marks of direction, fillers, tags, selectors.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000110bd"
    "\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_SLASHES = re.compile(r"[\\/]+(?:\.[\\/]+)*")
_STEP_UP = re.compile(r"(?:^|[\\/])(?:\.|%2e){2}(?:[\\/]|$)", re.IGNORECASE)
_MISSING = object()
_COMPARISONS = {"above": operator.gt, "at_least": operator.ge, "at_most": operator.le, "below": operator.lt}
_KEYS = (*_COMPARISONS, "exists", "longer_than", "matches", "not")


class Doubt(msgspec.Struct, frozen=True):
    """The reason why a condition is undecided. It quotes no value, since arguments may be private."""

    why: str


Holds = bool | Doubt
_Test = Callable[[Any], Holds]


class Condition:
    """One line of a rule's `when`: the name of an argument and what its value must be.

    `a.b` is `b` in the object `a`, and `a.*` every item of the list `a`. `at` is the rule's place in the config.

    Raises:
        InvalidConfig: As written, it can never be checked.
    """

    __slots__ = ("_default_from", "_exists", "_parts", "_test", "argument", "text")

    def __init__(self, argument: str, wanted: Any, *, at: str) -> None:
        self.argument = argument
        at = f"{at}.when.{argument!r}"
        self._parts = tuple(argument.split("."))
        if not all(self._parts) or len(self._parts) > _MOST_PARTS:
            raise InvalidConfig(f"{at} is not the name of an argument. Write it as 'name', 'object.name' or 'list.*'.")
        self._exists: bool | None = None
        self._test: _Test | None = None
        if isinstance(wanted, dict) and "exists" in wanted:
            self._exists = wanted["exists"]
            if not isinstance(self._exists, bool):
                raise InvalidConfig(f"{at}.exists is {_kind(self._exists)}. Give true or false.")
            rest = {key: value for key, value in wanted.items() if key != "exists"}
            if rest and not self._exists:
                raise InvalidConfig(
                    f"{at} sets exists = false and more. A missing argument has no value: write only exists = false."
                )
            self._test = _table(rest, at) if rest else None
        else:
            self._test = _compile(wanted, at)
        self._default_from = None if "*" in self._parts or self._exists is not None else self._parts
        self.text = f"{argument} {_spell(wanted)}"

    def check(self, arguments: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> Holds:
        """Check the condition.

        Several values, as of `a.*`, must agree; otherwise it is in doubt. A missing argument does not match; if the
        default in `schema` matches, it is in doubt.
        """
        return _agreed(self._judge(*found, schema) for found in _values(arguments, self._parts))

    def _judge(self, value: Any, exact: bool, schema: Mapping[str, Any] | None) -> Holds:
        if isinstance(value, Doubt):
            return value
        if value is _MISSING:
            return self._exists is False or self._judge_default(schema)
        if value is None:
            return Doubt("it is null")
        holds = self._exists is not False if self._test is None else self._test(value)
        return Doubt("its name is spelled otherwise") if holds is True and not exact else holds

    def _judge_default(self, schema: Mapping[str, Any] | None) -> Holds:
        if self._default_from is None or schema is None:
            return False
        default = _default(schema, self._default_from)
        if default is None or self._test is None or self._test(default) is False:
            return False
        return Doubt("it is not given, and the default in the tool's schema may fit")


def all_of(results: Iterable[Holds]) -> Holds:
    """`False` if any is false, else the first doubt, else `True`."""
    doubt: Holds = True
    for holds in results:
        if holds is False:
            return False
        if holds is not True and doubt is True:
            doubt = holds
    return doubt


# Conditions as written in the config


def _compile(wanted: Any, at: str) -> _Test:
    match wanted:
        case bool():
            return lambda value: value is wanted if isinstance(value, bool) else _unlike(value, "true or false")
        case int() | float():
            return _number(at, wanted, operator.eq)
        case str():
            return _text(wanted)
        case list() | tuple() if wanted and not any(isinstance(each, dict | list | tuple) for each in wanted):
            tests = [_compile(each, at) for each in wanted]
            return lambda value: _any_of(test(value) for test in tests)
        case dict():
            return _table(wanted, at)
    raise InvalidConfig(
        f"{at} is {_kind(wanted)}, which is not a condition. Give a text, a number, true or false, a list of these, "
        f"or a table with {', '.join(_KEYS)}."
    )


def _table(wanted: dict[str, Any], at: str) -> _Test:
    if not wanted:
        raise InvalidConfig(f"{at} is an empty table. Give {', '.join(_KEYS)}, or take it out.")
    tests = [_compare(key, value, at) for key, value in wanted.items()]
    return tests[0] if len(tests) == 1 else lambda value: all_of(test(value) for test in tests)


def _compare(key: str, wanted: Any, at: str) -> _Test:
    at = f"{at}.{key}"
    if (compare := _COMPARISONS.get(key)) is not None:
        return _number(at, wanted, compare)
    match key:
        case "longer_than":
            return _longer(at, wanted)
        case "matches":
            return _matches(at, wanted)
        case "not":
            if isinstance(wanted, dict) and "exists" in wanted:
                raise InvalidConfig(f"{at} holds exists. Write exists = false, or true, without not.")
            test = _compile(wanted, at)
            return lambda value: (not holds) if isinstance(holds := test(value), bool) else holds
    raise InvalidConfig(
        f"{at} is not a condition. There are {', '.join(_KEYS)}. For a value inside an object quote the whole name, "
        "such as 'object.name'."
    )


def _number(at: str, limit: Any, compare: Callable[[Any, Any], bool]) -> _Test:
    if _kind(limit) != "a number":
        raise InvalidConfig(f"{at} is {_kind(limit)}. Give a number.")

    def test(value: Any) -> Holds:
        return compare(value, limit) if _kind(value) == "a number" else _unlike(value, "a number")

    return test


def _longer(at: str, limit: Any) -> _Test:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidConfig(f"{at} is {_kind(limit)}. Give a whole number from 0.")
    return lambda value: len(value) > limit if isinstance(value, str | list) else _unlike(value, "a text or a list")


def _text(wanted: str) -> _Test:
    """Tests equality, or a match of the pattern if it contains `*` or `?`."""
    is_like, is_nearly_like = glob(wanted), glob(_folded(wanted))
    is_path = "/" in wanted and not _STEP_UP.search(wanted)

    def test(value: Any) -> Holds:
        if (doubt := _unreadable(value)) is not None:
            return doubt
        if value == wanted:
            return True
        if is_path and _STEP_UP.search(value):
            return Doubt("its path has '..' in it")
        if is_like(value):
            return True
        return Doubt("it differs only in case, spacing or spelling") if is_nearly_like(_folded(value)) else False

    return test


def _matches(at: str, pattern: Any) -> _Test:
    """The whole text must match. A partial match, or one that ignores case or spelling, is in doubt."""
    if not isinstance(pattern, str):
        raise InvalidConfig(f"{at} is {_kind(pattern)}. Give a regular expression.")
    _regex(pattern, at)  # by itself, so that no bracket of it can pair with one of ours
    whole, part = _regex(f"^(?:{pattern})$", at), _regex(f"(?i)(?:{pattern})", at)

    def test(value: Any) -> Holds:
        if (doubt := _unreadable(value)) is not None:
            return doubt
        try:
            if whole.is_valid(value):
                return True
            partly = part.is_valid(value) or part.is_valid(_folded(value))
        except ValueError:  # half a character, which is not JSON either
            return Doubt("it is not valid text")
        return Doubt("it matches in part, or but for case or spelling") if partly else False

    return test


def _regex(pattern: str, at: str) -> jsonschema_rs.Validator:
    """An engine without backtracking, so that no pattern and no text can make it slow."""
    try:
        return jsonschema_rs.validator_for({"type": "string", "pattern": pattern}, offline=True, pattern_options=_REGEX)
    except ValueError:
        raise InvalidConfig(
            f"{at} cannot be used as a regular expression. It may be long or broken, or have a look-around or a "
            "back-reference, which take time without bound: write it without."
        ) from None


# Arguments as sent


def _values(node: Any, parts: tuple[str, ...]) -> Iterator[tuple[Any, bool]]:
    """Every value of the name, or `_MISSING` or a doubt; and True if the name is spelled exactly."""
    if not parts:
        yield node, True
    elif parts[0] == "*":
        if not isinstance(node, list):
            yield _unlike(node, "a list"), True
        elif not node:
            yield _MISSING, True
        else:
            for item in node:
                yield from _values(item, parts[1:])
    elif not isinstance(node, dict):
        yield _unlike(node, "an object"), True
    elif len(node) > _MOST_KEYS:
        yield Doubt(f"it is in an object with over {_MOST_KEYS:,} keys"), True
    else:
        yield from _members(node, parts)


def _members(node: Mapping[str, Any], parts: tuple[str, ...]) -> Iterator[tuple[Any, bool]]:
    """The readings of `a.b` in an object: `b` in its `a`, its own key `a.b`, and keys a server may read as these."""
    names = parts[: parts.index("*")] if "*" in parts else parts
    spellings = {".".join(names[:end]): end for end in range(1, len(names) + 1)}
    found = False
    for spelling, end in spellings.items():
        if spelling in node:
            found = True
            yield from _values(node[spelling], parts[end:])
    if not found:
        yield _MISSING, True
    if len(node) > found:
        loosely = {_squeezed(spelling): end for spelling, end in spellings.items()}
        for key, value in node.items():
            if key not in spellings and (end := loosely.get(_squeezed(key), 0)):
                yield from ((each, False) for each, _ in _values(value, parts[end:]))


def _default(schema: Mapping[str, Any], parts: tuple[str, ...]) -> Any:
    """The schema's default for an argument; `None` if it has none."""
    node: Any = schema
    for part in parts:
        properties = node.get("properties") if isinstance(node, dict) else None
        node = properties.get(part) if isinstance(properties, dict) else None
    return node.get("default") if isinstance(node, dict) else None


def _agreed(results: Iterator[Holds]) -> Holds:
    first: Holds | None = None
    for number, holds in zip(count(), results, strict=False):
        if number == _MOST_VALUES:
            return Doubt(f"it has over {_MOST_VALUES:,} values")
        if not isinstance(holds, bool):
            return holds
        if first is None:
            first = holds
        elif holds is not first:
            return Doubt("some of its values fit and others do not")
    assert first is not None
    return first


def _any_of(results: Iterable[Holds]) -> Holds:
    doubt: Holds = False
    for holds in results:
        if holds is True:
            return True
        if holds is not False and doubt is False:
            doubt = holds
    return doubt


def _unreadable(value: Any) -> Doubt | None:
    if not isinstance(value, str):
        return _unlike(value, "a text")
    return Doubt(f"it has over {_MOST_CHARACTERS:,} characters") if len(value) > _MOST_CHARACTERS else None


def _unlike(value: Any, expected: str) -> Doubt:
    return Doubt(f"it is {_kind(value)} where {expected} is meant")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "a number"
        case float():
            return "a number" if math.isfinite(value) else "not a finite number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
    return f"a {type(value).__name__}"


def _folded(text: str) -> str:
    """The text without differences that servers may ignore: case, width, hidden characters, spacing, double slashes."""
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _SLASHES.sub("/", " ".join(_UNSEEN.sub("", text.casefold()).split()))


def _squeezed(name: str) -> str:
    return re.sub(r"[_\-\s]+", "", _folded(name))


def _spell(wanted: Any) -> str:
    if not isinstance(wanted, dict):
        return f"is {_spell_value(wanted)}"
    words = {"exists": "is given" if wanted.get("exists") else "is not given"}
    return " and ".join(words.get(key) or f"{key} {_spell_value(value)}" for key, value in wanted.items())


def _spell_value(wanted: Any) -> str:
    match wanted:
        case bool():
            return str(wanted).lower()
        case list() | tuple():
            return " or ".join(map(_spell_value, wanted))
        case dict():
            return _spell(wanted)
    return repr(wanted)
