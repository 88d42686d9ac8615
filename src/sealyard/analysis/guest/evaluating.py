"""Carries out expressions: each part becomes a function that gives a whole column, so that rows cost no calls of ours.

Where every value of a column is a number, or text, the operators of the interpreter run over it; otherwise the rules
of `functions` do, value by value. A part that must not be evaluated for a row is given only the other rows.
"""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from typing import Any

from .errors import AnalysisError
from .fields import Column, Table
from .functions import ARITHMETIC, COMPARISONS, FUNCTIONS, matcher, negative, truth
from .plan import (
    MAX_INTEGER,
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    Expression,
    Field,
    Literally,
    Membership,
    Negative,
    Not,
    Row,
)
from .values import NUMBERS, Unfit, keys_of

_FAST_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_FAST_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT = frozenset((str,))


def evaluate(expression: Expression, table: Table, at: str) -> list[Any]:
    """The value of an expression for each row of a table.

    Raises:
        AnalysisError: A field is unknown, or a value is of the wrong kind; the message names `at` and the row.
    """
    return mapped(compiled(expression, table), table.rows, at)


def compiled(expression: Expression, table: Table) -> Column:
    """The function that gives the value of an expression for each of some rows of the table.

    It raises `Unfit` for a value of the wrong kind.

    Raises:
        AnalysisError: No row has a field that it names.
    """
    match expression:
        case Literally(value):
            return lambda rows: [value] * len(rows)
        case Field():
            return table.reader(expression)
        case Negative(operand):
            return _each(negative, compiled(operand, table))
        case Arithmetic(sign, left, right):
            return _arithmetic(sign, compiled(left, table), compiled(right, table))
        case Comparison(sign, left, Literally(value)):
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
        case Call("matches", (subject, Literally(str() as pattern))):
            return _each(matcher(pattern), compiled(subject, table))
        case Call("coalesce", arguments):
            return _first_present([compiled(each, table) for each in arguments])
        case Call(name, arguments):
            return _called(FUNCTIONS[name], [compiled(each, table) for each in arguments])


def tested(expression: Expression, table: Table) -> Column:
    """As `compiled`, for an expression that is a test: its values are true and false.

    Raises:
        AnalysisError: No row has a field that it names.
    """
    column = compiled(expression, table)
    if isinstance(expression, Comparison | Membership | AllOf | AnyOf | Not):
        return column
    return _each(truth, column)


def mapped(column: Column, rows: Sequence[Row], at: str) -> list[Any]:
    """The column over these rows; a value of the wrong kind is reported with its row.

    Raises:
        AnalysisError: There is one.
    """
    try:
        return column(rows)
    except Unfit:
        for number, row in enumerate(rows):
            try:
                column([row])
            except Unfit as error:
                raise AnalysisError(f"{at}: {error}, in row {number}. Cast the field or test for it first.") from None
        raise


def _each(compute: Callable[[Any], Any], operand: Column) -> Column:
    return lambda rows: list(map(compute, operand(rows)))


def _called(compute: Callable[..., Any], arguments: list[Column]) -> Column:
    return lambda rows: list(map(compute, *(argument(rows) for argument in arguments)))


def _arithmetic(sign: Any, left: Column, right: Column) -> Column:
    fast, careful = _FAST_ARITHMETIC.get(sign), ARITHMETIC[sign]

    def column(rows: Sequence[Row]) -> list[Any]:
        lefts, rights = left(rows), right(rows)
        if fast is not None and _are_all(NUMBERS, lefts, rights):
            try:
                results = list(map(fast, lefts, rights))
            except OverflowError:  # a whole number larger than any float: the careful way decides
                results = []
            if _are_in_bounds(results):
                return results
        return list(map(careful, lefts, rights))

    return column


def _are_in_bounds(results: list[Any]) -> bool:
    """Whether these are all finite floats, or all whole numbers that may be results."""
    kinds = set(map(type, results))
    if kinds == {float}:
        return all(map(math.isfinite, results))
    return kinds == {int} and -MAX_INTEGER <= min(results) <= max(results) <= MAX_INTEGER


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
