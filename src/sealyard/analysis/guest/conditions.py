"""Reads conditions: tests of fields, joined by AND, OR and not, nested."""

from collections.abc import Callable
from typing import Any, cast

from .errors import AnalysisError, shown
from .expressions import check_pattern, parse_expression
from .parameters import as_list, as_object, as_scalar, as_text, as_word, below
from .plan import (
    MAX_DEPTH,
    AllOf,
    AnyOf,
    Call,
    Comparison,
    ComparisonOperator,
    Expression,
    Field,
    Literally,
    Membership,
    Not,
)

MAX_OPTIONS = 100_000
"""Most values after `in`."""

OPERATORS = (
    "==",
    "!=",
    ">",
    "<",
    ">=",
    "<=",
    "in",
    "not_in",
    "contains",
    "not_contains",
    "starts_with",
    "ends_with",
    "matches",
    "is_null",
    "is_not_null",
    "between",
)
"""The operators of a condition, each by its own name."""
_ALIASES = {
    "==": "== = eq equals",
    "!=": "!= <> ne not_equals",
    ">": "> gt",
    "<": "< lt",
    ">=": ">= => gte ge",
    "<=": "<= =< lte le",
    "in": "in",
    "not_in": "not_in nin",
    "contains": "contains",
    "not_contains": "not_contains",
    "starts_with": "starts_with startswith",
    "ends_with": "ends_with endswith",
    "matches": "matches regex",
    "is_null": "is_null isnull",
    "is_not_null": "is_not_null not_null",
    "between": "between",
}
_WORDS = {word: name for name, words in _ALIASES.items() for word in words.split()} | {
    "not in": "not_in",
    "is null": "is_null",
    "is not null": "is_not_null",
    "starts with": "starts_with",
    "ends with": "ends_with",
    "not contains": "not_contains",
}
_LOGIC: dict[str, type[AllOf] | type[AnyOf]] = {"and": AllOf, "all": AllOf, "or": AnyOf, "any": AnyOf}
_KEYS = ("field", "operator", "value", "logic", "conditions", "not", "expression")
_HINT = (
    " A condition is {'field', 'operator', 'value'}, {'logic': 'AND' or 'OR', 'conditions': [...]}, {'not': {...}} "
    "or {'expression': text}."
)


def parse_conditions(given: Any, at: str, *, logic: Any = "AND", logic_at: str = "logic") -> Expression:
    """The tree of a list of conditions, of one condition, or of an expression as text.

    Raises:
        AnalysisError: It cannot be read; the message names the part.
    """
    join = as_word(logic, logic_at, _LOGIC, shown_as=("AND", "OR"))
    if isinstance(given, dict):
        return _condition(given, at, 1)
    if isinstance(given, str):
        return parse_expression(given, at)
    return join(tuple(_parts(given, at, 1)))


def _parts(given: Any, at: str, depth: int) -> list[Expression]:
    if depth > MAX_DEPTH:
        raise AnalysisError(f"{at} is nested deeper than {MAX_DEPTH}. Flatten the conditions.")
    return [_condition(each, below(at, place), depth) for place, each in enumerate(as_list(given, at))]


def _condition(given: Any, at: str, depth: int) -> Expression:
    if isinstance(given, str):
        return parse_expression(given, at)
    condition = as_object(given, at, _KEYS, hint=_HINT)
    forms = [form for form in ("field", "conditions", "not", "expression") if form in condition]
    if len(forms) != 1:
        raise AnalysisError(f"{at} is {shown(given)}, which is no condition.{_HINT}")
    match forms[0]:
        case "conditions":
            as_object(given, at, ("logic", "conditions"))
            join = as_word(condition.get("logic", "AND"), below(at, "logic"), _LOGIC, shown_as=("AND", "OR"))
            return join(tuple(_parts(condition["conditions"], below(at, "conditions"), depth + 1)))
        case "not":
            as_object(given, at, ("not",))
            inner, place = condition["not"], below(at, "not")
            if isinstance(inner, list):
                return Not(AllOf(tuple(_parts(inner, place, depth + 1))))
            if depth >= MAX_DEPTH:
                raise AnalysisError(f"{place} is nested deeper than {MAX_DEPTH}. Flatten the conditions.")
            return Not(_condition(inner, place, depth + 1))
        case "expression":
            as_object(given, at, ("expression",))
            return parse_expression(condition["expression"], below(at, "expression"))
        case _:
            return _test(as_object(given, at, ("field", "operator", "value")), at)


def _test(given: dict[str, Any], at: str) -> Expression:
    field = Field(as_text(given["field"], below(at, "field")), below(at, "field"))
    name = as_word(given.get("operator", "=="), below(at, "operator"), _WORDS, shown_as=OPERATORS)
    place = below(at, "value")
    if "value" not in given and name not in ("is_null", "is_not_null"):
        raise AnalysisError(f"{at} lacks 'value', which {name!r} compares with. Give it, or use 'is_null'.")
    value = given.get("value")
    if name in _TESTS:
        return _TESTS[name](field, value, place)
    return _compared(cast(ComparisonOperator, name), field, value, place)


def _compared(name: ComparisonOperator, field: Field, value: Any, at: str) -> Expression:
    if isinstance(value, list):
        raise AnalysisError(f"{at} is a list, and {name!r} takes one plain value. Use 'in' for several.")
    return Comparison(name, field, Literally(as_scalar(value, at)))


def _membership(field: Field, value: Any, at: str) -> Expression:
    options = [as_scalar(each, below(at, place)) for place, each in enumerate(as_list(value, at, most=MAX_OPTIONS))]
    return Membership(field, tuple(options))


def _between(field: Field, value: Any, at: str) -> Expression:
    bounds = as_list(value, at)
    if len(bounds) != 2:
        raise AnalysisError(f"{at} has {len(bounds)} values. 'between' takes two: the least and the greatest.")
    least, greatest = (_compared(">=", field, bounds[0], below(at, 0)), _compared("<=", field, bounds[1], below(at, 1)))
    return AllOf((least, greatest))


def _called(name: str, *, text: bool) -> Callable[[Field, Any, str], Expression]:
    def build(field: Field, value: Any, at: str) -> Expression:
        part = as_scalar(value, at)
        if text and not isinstance(part, str):
            raise AnalysisError(f"{at} is {shown(value)}. {name!r} takes a text.")
        return Call(name, (field, Literally(part)))

    return build


def _matches(field: Field, value: Any, at: str) -> Expression:
    return Call("matches", (field, Literally(check_pattern(as_scalar(value, at), at))))


def _is_null(field: Field, value: Any, at: str) -> Expression:
    if value is not None and not isinstance(value, bool):
        raise AnalysisError(f"{at} is {shown(value)}. 'is_null' takes no value, or true or false.")
    test = Call("is_null", (field,))
    return Not(test) if value is False else test


_contains = _called("contains", text=False)
_TESTS: dict[str, Callable[[Field, Any, str], Expression]] = {
    "in": _membership,
    "not_in": lambda field, value, at: Not(_membership(field, value, at)),
    "between": _between,
    "contains": _contains,
    "not_contains": lambda field, value, at: Not(_contains(field, value, at)),
    "starts_with": _called("starts_with", text=True),
    "ends_with": _called("ends_with", text=True),
    "matches": _matches,
    "is_null": _is_null,
    "is_not_null": lambda field, value, at: Not(_is_null(field, value, at)),
}
