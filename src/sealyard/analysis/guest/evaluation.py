"""Evaluates expressions over whole columns, by the rules that `plan` states.

Each part of an expression becomes a function from rows to a column. Where every value of a column is a number, or text,
the interpreter's own operators run over it; otherwise the functions below do, value by value. A part that must not be
evaluated for a row is given only the other rows.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import compress, repeat
from typing import Any, NamedTuple

from .errors import AnalysisError, kind_of, quoted
from .limits import MAX_TEXT
from .plan import (
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Field,
    Membership,
    Negative,
    Not,
    Operator,
    Row,
)
from .tables import Column, Table
from .values import CASTS, NUMBERS, WrongKind, bounded, keys_of, same, short, text_of, to_date, to_datetime

_FAST_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT = frozenset((str,))
_ORDERED = frozenset((str, bool))
_MOST_DIGITS = 308  # the decimal exponent of the largest float
_ALL_DIGITS = Context(prec=2 * _MOST_DIGITS + 2)


class Function(NamedTuple):
    """A function of the expression language. Null in, null out, unless it takes nulls."""

    least: int
    most: int | None
    """Arguments; None for any number."""
    compute: Callable[..., Any] | None
    takes_nulls: bool = False


def evaluate(expression: Expression, table: Table, at: str) -> list[Any]:
    """The value of an expression for each row of a table."""
    return mapped(compiled(expression, table), table.rows, at)


def compiled(expression: Expression, table: Table) -> Column:
    """The function from rows of the table to the values of an expression.

    It raises `WrongKind` for a value of the wrong kind.
    """
    match expression:
        case Constant(value):
            return lambda rows: [value] * len(rows)
        case Field():
            return table.reader(expression)
        case Negative(operand):
            return _each(negative, compiled(operand, table))
        case Arithmetic(sign, left, right):
            return _arithmetic(sign, compiled(left, table), compiled(right, table))
        case Comparison(sign, left, Constant(value)):
            return _comparison_with(sign, compiled(left, table), value)
        case Comparison(sign, left, right):
            return _comparison(sign, compiled(left, table), compiled(right, table))
        case Membership(value, options):
            return _membership(compiled(value, table), options)
        case AllOf(parts):
            return _all_of([tested(part, table) for part in parts])
        case AnyOf(parts):
            return _any_of([tested(part, table) for part in parts])
        case Not(operand):
            return _each(operator.not_, tested(operand, table))
        case Choice(test, then, otherwise):
            return _choice(tested(test, table), compiled(then, table), compiled(otherwise, table))
        case Call("matches", (subject, Constant(str() as pattern))):
            return _each(matcher(pattern), compiled(subject, table))
        case Call("coalesce", arguments):
            return _first_present([compiled(each, table) for each in arguments])
        case Call(name, arguments):
            return _called(FUNCTIONS[name], [compiled(each, table) for each in arguments])


def tested(expression: Expression, table: Table) -> Column:
    """As `compiled`, for a test: its values are true and false."""
    column = compiled(expression, table)
    if isinstance(expression, Comparison | Membership | AllOf | AnyOf | Not):
        return column
    return _each(truth, column)


def mapped(column: Column, rows: Sequence[Row], at: str) -> list[Any]:
    """The column over these rows; a value of the wrong kind is reported with its row."""
    try:
        return column(rows)
    except WrongKind:
        for number, row in enumerate(rows):
            try:
                column([row])
            except WrongKind as error:
                raise AnalysisError(f"{at}: {error}, in row {number}. Cast the field or test for it first.") from None
        raise


def _each(compute: Callable[[Any], Any], operand: Column) -> Column:
    return lambda rows: list(map(compute, operand(rows)))


def _called(function: Function, arguments: list[Column]) -> Column:
    compute = function.compute
    assert compute is not None  # the others are compiled apart

    def column(rows: Sequence[Row]) -> list[Any]:
        columns = [argument(rows) for argument in arguments]
        if function.takes_nulls:
            return list(map(compute, *columns))
        return [None if None in values else compute(*values) for values in zip(*columns, strict=True)]

    return column


def _arithmetic(sign: Any, left: Column, right: Column) -> Column:
    compute = ARITHMETIC[sign]
    return lambda rows: list(map(compute, left(rows), right(rows)))


def _comparison(sign: Any, left: Column, right: Column) -> Column:
    fast, careful = _FAST_COMPARISONS[sign], COMPARISONS[sign]

    def column(rows: Sequence[Row]) -> list[Any]:
        lefts, rights = left(rows), right(rows)
        if _are_all(NUMBERS, lefts, rights) or _are_all(_TEXT, lefts, rights):
            return list(map(fast, lefts, rights))
        return list(map(careful, lefts, rights))

    return column


def _comparison_with(sign: Any, left: Column, value: Any) -> Column:
    fast, careful = _FAST_COMPARISONS[sign], COMPARISONS[sign]
    alike = next((kinds for kinds in (NUMBERS, _TEXT) if type(value) in kinds), frozenset())

    def column(rows: Sequence[Row]) -> list[Any]:
        lefts = left(rows)
        compare = fast if _are_all(alike, lefts) else careful
        return list(map(compare, lefts, repeat(value)))

    return column


def _membership(value: Column, options: Sequence[Any]) -> Column:
    keys = frozenset(keys_of(options))
    return lambda rows: [key in keys for key in keys_of(value(rows))]


def _all_of(parts: list[Column]) -> Column:
    def column(rows: Sequence[Row]) -> list[Any]:
        if not parts:
            return [True] * len(rows)
        results = parts[0](rows)
        for part in parts[1:]:
            rest = iter(part(list(compress(rows, results))))
            results = [result and next(rest) for result in results]
        return results

    return column


def _any_of(parts: list[Column]) -> Column:
    def column(rows: Sequence[Row]) -> list[Any]:
        results = [False] * len(rows)
        for part in parts:
            rest = iter(part(list(compress(rows, map(operator.not_, results)))))
            results = [result or next(rest) for result in results]
        return results

    return column


def _choice(test: Column, then: Column, otherwise: Column) -> Column:
    def column(rows: Sequence[Row]) -> list[Any]:
        tests = test(rows)
        yes = iter(then(list(compress(rows, tests))))
        no = iter(otherwise(list(compress(rows, map(operator.not_, tests)))))
        return [next(yes) if each else next(no) for each in tests]

    return column


def _first_present(arguments: list[Column]) -> Column:
    def column(rows: Sequence[Row]) -> list[Any]:
        results = arguments[0](rows)
        for argument in arguments[1:]:
            rest = iter(argument([row for row, result in zip(rows, results, strict=True) if result is None]))
            results = [next(rest) if result is None else result for result in results]
        return results

    return column


def _are_all(kinds: frozenset[type], *columns: Sequence[Any]) -> bool:
    return all(kinds.issuperset(map(type, column)) for column in columns)


def truth(value: Any) -> bool:
    """The boolean of a test; null is false."""
    if value is True or value is False:
        return bool(value)
    if value is None:
        return False
    raise _wrong_kind("A test", "a boolean", value)


def negative(value: Any) -> Any:
    """Unary minus."""
    if value is None:
        return None
    return bounded(-_number("'-'", value))


def matcher(pattern: str) -> Callable[[Any], bool]:
    """The predicate of a regular expression."""
    search = re.compile(pattern).search
    return lambda value: type(value) is str and search(value) is not None


def _numeric(sign: str, compute: Callable[[Any, Any], Any], wanted: str = "numbers") -> Callable[[Any, Any], Any]:
    name = f"{sign!r}"

    def apply(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if type(left) not in NUMBERS or type(right) not in NUMBERS:
            raise _wrong_kind(name, wanted, right if type(left) in NUMBERS else left)
        try:
            result = compute(left, right)
        except (ZeroDivisionError, OverflowError, ValueError):
            return None  # no finite number
        return bounded(result)

    return apply


_plus = _numeric("+", operator.add, "two numbers or two texts")


def _add(left: Any, right: Any) -> Any:
    if type(left) is str and type(right) is str:
        return short(left + right)
    return _plus(left, right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        if type(left) in NUMBERS:
            return type(right) in NUMBERS and compare(left, right)
        return type(left) in _ORDERED and type(left) is type(right) and compare(left, right)

    return apply


def _whole(name: str, compute: Callable[[float], int]) -> Callable[[Any], int]:
    return lambda value: bounded(compute(_number(name, value)))


def _round(value: Any, digits: Any = None) -> Any:
    if digits is None and type(value) is int:
        return value
    _number("round()", value)
    if digits is not None and type(digits) is not int:
        raise _wrong_kind("round()", "whole numbers of digits", digits)
    if abs(digits or 0) > _MOST_DIGITS:
        raise WrongKind(f"round() takes -{_MOST_DIGITS} to {_MOST_DIGITS} digits, not {quoted(digits)}")
    if digits is None:
        return bounded(int(_half_away(value, 0)))
    if type(value) is int:
        return value if digits >= 0 else bounded(int(_half_away(bounded(value), digits)))
    rounded = float(_half_away(value, digits))
    return rounded + 0.0 if math.isfinite(rounded) else None  # a zero has no sign


def _half_away(value: float, digits: int) -> Decimal:
    """The value rounded by its written digits, half away from zero: 1.005 to two digits is 1.01."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _ALL_DIGITS)


def _root(value: Any) -> float | None:
    if _number("sqrt()", value) < 0:
        return None
    try:
        return math.sqrt(value)
    except OverflowError:
        return None


def _length(value: Any) -> int:
    if type(value) in (str, list, dict):
        return len(value)
    raise _wrong_kind("len()", "text, a list or an object", value)


def _textual(name: str, compute: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: short(compute(_text(name, value)))


def _slice(value: Any, start: Any, length: Any = MAX_TEXT) -> str:
    text = _text("substr()", value)
    for number in (start, length):
        if type(number) is not int:
            raise _wrong_kind("substr()", "whole numbers", number)
    begin = start if start >= 0 else max(0, len(text) + start)
    return text[begin : begin + max(0, length)]


def _replace(value: Any, old: Any, new: Any) -> str:
    text, old, new = _text("replace()", value), _text("replace()", old), _text("replace()", new)
    if not old:
        return text
    # Counted first: the result could be larger than the memory.
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT:
        raise WrongKind(f"replace() makes a text of over {MAX_TEXT} characters")
    return text.replace(old, new)


def _concat(*values: Any) -> str:
    return short("".join(text_of(value) for value in values if value is not None))


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def apply(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        kinds = set(map(type, present))
        if kinds <= NUMBERS or kinds == {str}:
            return choose(present) if present else None
        odd = next((value for value in present if type(value) not in NUMBERS and type(value) is not str), present[0])
        raise _wrong_kind(name, "numbers only or texts only", odd)

    return apply


def _of_day(part: Callable[[Any], int]) -> Callable[[Any], int]:
    return lambda value: part(to_date(value))


def _contains(value: Any, part: Any) -> bool:
    if type(value) is str:
        return type(part) is str and part in value
    return type(value) is list and any(same(each, part) for each in value)


def _text_test(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, part: type(value) is str and type(part) is str and test(value, part)


def _number(name: str, value: Any) -> Any:
    if type(value) in NUMBERS:
        return value
    raise _wrong_kind(name, "numbers", value)


def _text(name: str, value: Any) -> str:
    if type(value) is str:
        return value
    raise _wrong_kind(name, "text", value)


def _wrong_kind(name: str, wanted: str, value: Any) -> WrongKind:
    return WrongKind(f"{name} needs {wanted}, not {quoted(value)} ({kind_of(value)})")


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
FUNCTIONS: dict[str, Function] = {
    "abs": Function(1, 1, lambda value: bounded(abs(_number("abs()", value)))),
    "ceil": Function(1, 1, _whole("ceil()", math.ceil)),
    "coalesce": Function(1, None, None),
    "concat": Function(1, None, _concat, takes_nulls=True),
    "contains": Function(2, 2, _contains, takes_nulls=True),
    "date": Function(1, 1, CASTS["date"]),
    "day": Function(1, 1, _of_day(operator.attrgetter("day"))),
    "days_between": Function(2, 2, lambda start, end: (to_date(end) - to_date(start)).days),
    "ends_with": Function(2, 2, _text_test(str.endswith), takes_nulls=True),
    "float": Function(1, 1, CASTS["float"]),
    "floor": Function(1, 1, _whole("floor()", math.floor)),
    "hour": Function(1, 1, lambda value: to_datetime(value).hour),
    "int": Function(1, 1, CASTS["int"]),
    "is_null": Function(1, 1, lambda value: value is None, takes_nulls=True),
    "len": Function(1, 1, _length),
    "lower": Function(1, 1, _textual("lower()", str.lower)),
    "matches": Function(2, 2, None),
    "max": Function(1, None, _extreme("max()", max), takes_nulls=True),
    "min": Function(1, None, _extreme("min()", min), takes_nulls=True),
    "month": Function(1, 1, _of_day(operator.attrgetter("month"))),
    "replace": Function(3, 3, _replace),
    "round": Function(1, 2, _round),
    "sqrt": Function(1, 1, _root),
    "starts_with": Function(2, 2, _text_test(str.startswith), takes_nulls=True),
    "str": Function(1, 1, CASTS["str"]),
    "strip": Function(1, 1, _textual("strip()", lambda text: text.strip(" \t\r\n"))),
    "substr": Function(2, 3, _slice),
    "upper": Function(1, 1, _textual("upper()", str.upper)),
    "weekday": Function(1, 1, _of_day(lambda day: day.weekday())),
    "year": Function(1, 1, _of_day(operator.attrgetter("year"))),
}
"""The functions of the expression language.

Null in, null out, except for `coalesce` (first that is not null), `concat` (leaves nulls out), `min` and `max` (leave
nulls out; numbers only or texts only) and the predicates, which are false.
`round(x, digits=0)`: half away from zero: C's `round(x * 10**digits) / 10**digits`; a whole number stays one, `round`
without digits, `floor` and `ceil` give whole numbers. `len`: code points of text, elements of a list or object.
`strip` removes blanks, tabs and line ends. `substr(text, start, length)` counts from 0; a negative start from the end.
`replace` replaces every occurrence; an empty one none. `lower` and `upper` are Python's.
`year`, `month`, `day`, `hour`, `weekday` (Monday is 0), `date`, `days_between(from, to)` read ISO text; `hour` of a
date alone is 0; a time zone is not converted. `sqrt` of a negative number is null.
`int`, `float`, `str`: as `Cast`. The second argument of `matches` is a literal; it and `coalesce` are compiled apart.
"""
