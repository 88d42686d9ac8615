"""The rules of a validation that look at one value at a time."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from .asking import Asked
from .errors import AnalysisError, shown
from .expressions import check_pattern
from .instants import moment_of
from .parameters import as_scalar
from .values import NUMBERS, Unfit, keys_of, to_date, to_datetime

MAX_OPTIONS = 10_000
"""Most values of an enum."""

ValueTest: TypeAlias = tuple[str, Any, Callable[[Any], bool]]
"""The name of a rule, what it expects, and whether a value follows it."""


def value_tests(asked: Asked) -> list[ValueTest]:
    """The rules that look at one value at a time: name, what is expected, whether a value follows it."""
    tests: list[ValueTest] = []
    if asked.has("type"):
        kind = _type_named(asked)
        tests.append(("type", kind, TYPES[kind]))
    for rule, sign in (("min", 1), ("max", -1)):
        if asked.has(rule):
            tests.append((rule, asked.value(rule), _bound(asked, rule, sign)))
    for rule, sign in (("min_length", 1), ("max_length", -1)):
        if asked.has(rule):
            length = asked.whole(rule, 0, least=0, most=2**53)
            tests.append((rule, length, _length(length, sign)))
    if asked.has("pattern"):
        pattern = check_pattern(asked.value("pattern"), asked.at("pattern"))
        search = re.compile(pattern).search
        tests.append(("pattern", pattern, lambda value: isinstance(value, str) and search(value) is not None))
    if asked.value("enum") is not None:
        tests.append(("enum", None, _member(asked)))
    for low, high in (("min", "max"), ("min_length", "max_length")):
        least, most = asked.value(low), asked.value(high)
        if type(least) in NUMBERS and type(most) in NUMBERS and least > most:
            raise asked.fail(low, f"at most {shown(most)}, which {high} is")
    return tests


def _type_named(asked: Asked) -> str:
    given = asked.value("type")
    if isinstance(given, str) and given.lower() in _OTHER_NAMES:
        return _OTHER_NAMES[given.lower()]
    return asked.word("type", tuple(TYPES))


def _bound(asked: Asked, rule: str, sign: int) -> Callable[[Any], bool]:
    """At least (sign 1) or at most (sign -1) a number, a moment or a text; another kind of value breaks the rule."""
    bound = as_scalar(asked.value(rule), asked.at(rule))
    if type(bound) in NUMBERS:
        return lambda value: type(value) in NUMBERS and (value >= bound if sign > 0 else value <= bound)
    if not isinstance(bound, str):
        raise asked.fail(rule, "a number, a date or a text")
    try:
        moment = moment_of(bound)
    except Unfit:
        return lambda value: isinstance(value, str) and (value >= bound if sign > 0 else value <= bound)

    def holds(value: Any) -> bool:
        try:
            at = moment_of(value) if isinstance(value, str) else None
        except (Unfit, OverflowError):
            return False
        return at is not None and (at >= moment if sign > 0 else at <= moment)

    return holds


def _length(bound: int, sign: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str | list | dict) and (len(value) - bound) * sign >= 0


def _member(asked: Asked) -> Callable[[Any], bool]:
    options = asked.value("enum")
    if not isinstance(options, list) or not options:
        raise asked.fail("enum", "a list of the values that are allowed")
    if len(options) > MAX_OPTIONS:
        raise AnalysisError(f"{asked.at('enum')} has {len(options)} values. Expected at most {MAX_OPTIONS}.")
    # A boolean among them makes every boolean a key that no number equals.
    keys = frozenset(keys_of([*options, True])[:-1])
    return lambda value: keys_of([value, True])[0] in keys


def _is_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(value) == len("2025-03-31") and to_date(value) is not None
    except Unfit:
        return False


def _is_datetime(value: Any) -> bool:
    try:
        return to_datetime(value) is not None
    except Unfit:
        return False


TYPES: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: type(value) in NUMBERS,
    "integer": _is_whole,
    "boolean": lambda value: isinstance(value, bool),
    "date": _is_date,
    "datetime": _is_datetime,
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
"""The types that a rule may ask for: a whole float is an integer, a boolean is no number, a date is a datetime too."""

_OTHER_NAMES = {
    "str": "text",
    "string": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "timestamp": "datetime",
    "array": "list",
    "dict": "object",
}
