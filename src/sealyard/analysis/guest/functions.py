"""What the operators and functions of an expression do to values; `plan` states the rules."""

import math
import operator
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from .errors import kind_of, shown
from .plan import MAX_INTEGER, MAX_TEXT, ComparisonOperator, Operator
from .values import NUMBERS, Unfit, cast_to, same, text_of, to_date, to_datetime

_ORDERED = frozenset((str, bool))
_MOST_DIGITS = 308
_EXACT_DIGITS = 22  # up to here a power of ten is exact as a float
_CLEAR = 1e9  # up to here a product is less than a millionth off
_ALL_DIGITS = Context(prec=2 * _MOST_DIGITS + 2)


def truth(value: Any) -> bool:
    """What a test takes: a boolean, or null as false."""
    if value is True or value is False:
        return bool(value)
    if value is None:
        return False
    raise _unfit("A test", "a boolean", value)


def negative(value: Any) -> Any:
    """Unary minus."""
    if value is None:
        return None
    return -_number("'-'", value)


def matcher(pattern: str) -> Callable[[Any], bool]:
    """The predicate of a regular expression."""
    search = re.compile(pattern).search
    return lambda value: type(value) is str and search(value) is not None


def bounded(value: Any) -> Any:
    """The result of arithmetic: null if it is not finite."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        return value
    raise Unfit(f"a whole number is beyond {MAX_INTEGER}; compute with float() of its operands")


def _numeric(sign: str, compute: Callable[[Any, Any], Any], wanted: str = "numbers") -> Callable[[Any, Any], Any]:
    name = f"{sign!r}"

    def apply(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if type(left) not in NUMBERS or type(right) not in NUMBERS:
            raise _unfit(name, wanted, right if type(left) in NUMBERS else left)
        try:
            result = compute(left, right)
        except (ZeroDivisionError, OverflowError, ValueError):
            return None  # there is no such number
        return bounded(result)

    return apply


_plus = _numeric("+", operator.add, "two numbers or two texts")


def _add(left: Any, right: Any) -> Any:
    if type(left) is str and type(right) is str:
        return _short(left + right)
    return _plus(left, right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        if type(left) in NUMBERS:
            return type(right) in NUMBERS and compare(left, right)
        return type(left) in _ORDERED and type(left) is type(right) and compare(left, right)

    return apply


def _absolute(value: Any) -> Any:
    return None if value is None else abs(_number("abs()", value))


def _whole(name: str, compute: Callable[[float], int]) -> Callable[[Any], int | None]:
    return lambda value: None if value is None else bounded(compute(_number(name, value)))


def _round(value: Any, digits: Any = None) -> Any:
    if value is None or (digits is None and type(value) is int):
        return value
    _number("round()", value)
    if digits is not None and type(digits) is not int:
        raise _unfit("round()", "whole numbers of digits", digits)
    if abs(digits or 0) > _MOST_DIGITS:
        raise Unfit(f"round() takes -{_MOST_DIGITS} to {_MOST_DIGITS} digits, not {shown(digits)}")
    if digits is None:
        return bounded(int(_half_away(value)))
    if type(value) is int:
        return value if digits >= 0 else bounded(_half_away_whole(value, 10**-digits))
    scale = 10.0**digits
    scaled = value * scale
    if 0 <= digits <= _EXACT_DIGITS and abs(scaled) < _CLEAR and abs(abs(scaled) % 1 - 0.5) > 1e-6:
        return _half_away(scaled) / scale
    # Near a half, its digits as they are written decide: 1.005 times 100 is a float below 100.5.
    rounded = float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _ALL_DIGITS))
    return rounded + 0.0 if math.isfinite(rounded) else None  # a zero has no sign


def _half_away(value: float) -> float:
    whole = math.trunc(value)
    return float(whole + (0 if abs(value - whole) < 0.5 else math.copysign(1, value)))


def _half_away_whole(value: int, unit: int) -> int:
    rounded = (abs(value) + unit // 2) // unit * unit
    return rounded if value >= 0 else -rounded


def _root(value: Any) -> float | None:
    if value is None or _number("sqrt()", value) < 0:
        return None
    try:
        return math.sqrt(value)
    except OverflowError:
        return None


def _length(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) in (str, list, dict):
        return len(value)
    raise _unfit("len()", "text, a list or an object", value)


def _textual(name: str, compute: Callable[[str], str]) -> Callable[[Any], str | None]:
    return lambda value: None if value is None else _short(compute(_text(name, value)))


def _slice(value: Any, start: Any, length: Any = MAX_TEXT) -> str | None:
    if value is None or start is None or length is None:
        return None
    text = _text("substr()", value)
    for number in (start, length):
        if type(number) is not int:
            raise _unfit("substr()", "whole numbers", number)
    begin = start if start >= 0 else max(0, len(text) + start)
    return text[begin : begin + max(0, length)]


def _replace(value: Any, old: Any, new: Any) -> str | None:
    if value is None or old is None or new is None:
        return None
    text, old, new = _text("replace()", value), _text("replace()", old), _text("replace()", new)
    if not old:
        return text
    # Counted first: the result itself could be larger than the memory.
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT:
        raise Unfit(f"replace() makes a text of over {MAX_TEXT} characters")
    return text.replace(old, new)


def _concat(*values: Any) -> str:
    return _short("".join(text_of(value) for value in values if value is not None))


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def apply(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        kinds = set(map(type, present))
        if kinds <= NUMBERS or kinds == {str}:
            return choose(present) if present else None
        odd = next((value for value in present if type(value) not in NUMBERS and type(value) is not str), present[0])
        raise _unfit(name, "numbers only or texts only", odd)

    return apply


def _of_day(part: Callable[[Any], int]) -> Callable[[Any], int | None]:
    return lambda value: None if value is None else part(to_date(value))


def _hour(value: Any) -> int | None:
    return None if value is None else to_datetime(value).hour


def _days_between(start: Any, end: Any) -> int | None:
    if start is None or end is None:
        return None
    return (to_date(end) - to_date(start)).days


def _contains(value: Any, part: Any) -> bool:
    if type(value) is str:
        return type(part) is str and part in value
    return type(value) is list and any(same(each, part) for each in value)


def _starts_with(value: Any, part: Any) -> bool:
    return type(value) is str and type(part) is str and value.startswith(part)


def _ends_with(value: Any, part: Any) -> bool:
    return type(value) is str and type(part) is str and value.endswith(part)


def _number(name: str, value: Any) -> Any:
    if type(value) in NUMBERS:
        return value
    raise _unfit(name, "numbers", value)


def _text(name: str, value: Any) -> str:
    if type(value) is str:
        return value
    raise _unfit(name, "text", value)


def _short(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise Unfit(f"a text of {len(text)} characters is over the limit of {MAX_TEXT}")
    return text


def _unfit(name: str, wanted: str, value: Any) -> Unfit:
    return Unfit(f"{name} needs {wanted}, not {shown(value)} ({kind_of(value)})")


ARITHMETIC: dict[Operator, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _numeric("-", operator.sub),
    "*": _numeric("*", operator.mul),
    "/": _numeric("/", operator.truediv),
    "//": _numeric("//", operator.floordiv),
    "%": _numeric("%", operator.mod),
    "**": _numeric("**", math.pow),
}
COMPARISONS: dict[ComparisonOperator, Callable[[Any, Any], bool]] = {
    "==": same,
    "!=": lambda left, right: not same(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _absolute,
    "ceil": _whole("ceil()", math.ceil),
    "concat": _concat,
    "contains": _contains,
    "date": cast_to("date"),
    "day": _of_day(operator.attrgetter("day")),
    "days_between": _days_between,
    "ends_with": _ends_with,
    "float": cast_to("float"),
    "floor": _whole("floor()", math.floor),
    "hour": _hour,
    "int": cast_to("int"),
    "is_null": lambda value: value is None,
    "len": _length,
    "lower": _textual("lower()", str.lower),
    "max": _extreme("max()", max),
    "min": _extreme("min()", min),
    "month": _of_day(operator.attrgetter("month")),
    "replace": _replace,
    "round": _round,
    "sqrt": _root,
    "starts_with": _starts_with,
    "str": cast_to("str"),
    "strip": _textual("strip()", lambda text: text.strip(" \t\r\n")),
    "substr": _slice,
    "upper": _textual("upper()", str.upper),
    "weekday": _of_day(lambda day: day.weekday()),
    "year": _of_day(operator.attrgetter("year")),
}
"""By the names of `plan.FUNCTIONS`; `matches` is `matcher`, and `coalesce` evaluates no more than it must."""
