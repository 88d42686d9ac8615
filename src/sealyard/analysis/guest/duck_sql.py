"""Expressions and aggregates of a plan as SQL over columns of one known kind each.

The invariant: the text of a statement is made of this package's own words, of names that it gives to columns itself,
and of the names of parameters; every value and every name of the request or of a file is bound.

A part that SQL cannot answer exactly as `plan` says raises `Unsupported`, and the Python engine does it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .plan import (
    Aggregate,
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Choice,
    Comparison,
    Constant,
    Expression,
    Field,
    Membership,
    Negative,
    Not,
    Scalar,
)

Kind: TypeAlias = Literal["bool", "int", "float", "text"]

TYPES: Mapping[Kind, str] = {"bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}
EXACT = 2**53
"""Whole numbers up to here are exact as floats."""
LARGEST = 2**63 - 1  # the largest BIGINT of DuckDB
_FINITE = 1e300  # far enough below the largest float that rounding cannot overflow
_OPTIONS = 1_000  # bounds the list that is bound to a statement
_LONGEST = 2_000  # characters of an SQL quotient, which is written twice
_TEXT_TESTS = ("contains", "starts_with", "ends_with")


class Unsupported(Exception):
    """DuckDB cannot give the answer that the plan promises."""


@dataclass(frozen=True, slots=True)
class Column:
    """SQL for a value, its kind where it is not null, and the bound on its numbers."""

    sql: str
    kind: Kind | None
    """None: it is always null."""
    bound: float = 0

    @property
    def is_number(self) -> bool:
        """True for a kind that arithmetic takes."""
        return self.kind in ("int", "float")

    def as_float(self) -> str:
        """SQL for the same number as a float."""
        if self.kind == "int" and self.bound > EXACT:
            raise Unsupported
        return self.sql if self.kind == "float" else f"CAST({self.sql} AS DOUBLE)"


@dataclass(slots=True)
class Query:
    """The columns of fields, and the parameters of the statement in the making."""

    columns: Mapping[str, Column]
    parameters: dict[str, Any] = field(default_factory=dict)
    is_odd: bool = False
    """True if values of two kinds are compared, which are never equal."""

    def bind(self, value: Any, type_name: str) -> str:
        """Binds a value, and gives its place in the statement."""
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return f"CAST(${name} AS {type_name})"

    def used(self, statement: str) -> dict[str, Any]:
        """The parameters that a statement names: a value that nothing can equal is bound and not used."""
        return {name: self.parameters[name] for name in re.findall(r"\$(\w+)", statement)}

    def condition(self, expression: Expression) -> str:
        """SQL that is true or false, never null."""
        column = self.compile(expression)
        if column.kind not in ("bool", None):
            raise Unsupported  # an error by the plan, which the other engine reports
        return f"coalesce({column.sql}, FALSE)"

    def compile(self, expression: Expression) -> Column:
        """SQL for any expression."""
        match expression:
            case Field(name):
                if name not in self.columns:
                    raise Unsupported
                return self.columns[name]
            case Constant(value):
                return self._literal(value)
            case Negative(operand):
                number = self._number(operand)
                return Column(f"(-{number.sql})", number.kind, number.bound)
            case Arithmetic():
                return self._arithmetic(expression)
            case Comparison():
                return self._comparison(expression)
            case Membership():
                return self._membership(expression)
            case AllOf(parts):
                return self._joined(parts, "AND", "TRUE")
            case AnyOf(parts):
                return self._joined(parts, "OR", "FALSE")
            case Not(operand):
                return Column(f"(NOT {self.condition(operand)})", "bool")
            case Choice():
                return self._choice(expression)
            case Call():
                return self._call(expression)

    def aggregate(self, aggregate: Aggregate, row: str) -> str:
        """SQL for an aggregate over the rows of a group; `row` is SQL for their place in the input."""
        if aggregate.value is None:
            return "count(*)"
        value = self.compile(aggregate.value)
        function = aggregate.function
        if value.kind is None:
            raise Unsupported
        if function == "count":
            return f"count({value.sql})"
        if function == "distinct":
            return f"count(DISTINCT {value.sql})"
        if function in ("min", "max"):
            return f"{function}({value.sql})"
        if function in ("first", "last"):
            pick = "arg_min" if function == "first" else "arg_max"
            return f"{pick}({value.sql}, {row}) FILTER ({value.sql} IS NOT NULL)"
        if not value.is_number:
            raise Unsupported
        if function == "sum" and value.kind == "int":
            return f"coalesce(sum({value.sql}), 0)"
        number = value.as_float()
        if function == "percentile":
            return f"quantile_cont({number}, {self.bind((aggregate.percentile or 0) / 100, 'DOUBLE')})"
        return _FLOAT_AGGREGATES[function].format(number)

    def _literal(self, value: Scalar) -> Column:
        if value is None:
            return Column("NULL", None)
        kind = _kind_of(value)
        if isinstance(value, int) and abs(value) > LARGEST:
            raise Unsupported
        return Column(self.bind(value, TYPES[kind]), kind, 0 if isinstance(value, str) else abs(value))

    def _arithmetic(self, expression: Arithmetic) -> Column:
        operator = expression.operator
        if operator not in ("+", "-", "*", "/"):
            raise Unsupported
        left, right = self._number(expression.left), self._number(expression.right)
        if operator == "/":
            return _quotient(left, right)
        bound = left.bound * right.bound if operator == "*" else left.bound + right.bound
        if left.kind == right.kind == "int":
            if bound > LARGEST:
                raise Unsupported
            return Column(f"({left.sql} {operator} {right.sql})", "int", bound)
        if bound > _FINITE:
            raise Unsupported  # it may overflow, which gives null
        return Column(f"({left.as_float()} {operator} {right.as_float()})", "float", bound)

    def _number(self, expression: Expression) -> Column:
        column = self.compile(expression)
        if not column.is_number:
            raise Unsupported
        return column

    def _comparison(self, expression: Comparison) -> Column:
        operator = expression.operator
        left, right = self.compile(expression.left), self.compile(expression.right)
        pair = _alike(left, right)
        self.is_odd = self.is_odd or (pair is None and None not in (left.kind, right.kind))
        if operator in ("==", "!="):
            word = "IS NOT DISTINCT FROM" if operator == "==" else "IS DISTINCT FROM"
            if pair is None:  # of two kinds, only nulls are equal
                both = f"({left.sql} IS NULL AND {right.sql} IS NULL)"
                return Column(both if operator == "==" else f"(NOT {both})", "bool")
            return Column(f"({pair[0]} {word} {pair[1]})", "bool")
        if pair is None:
            return Column("FALSE", "bool")
        return Column(f"coalesce({pair[0]} {operator} {pair[1]}, FALSE)", "bool")

    def _membership(self, expression: Membership) -> Column:
        value = self.compile(expression.value)
        if value.kind is None or len(expression.options) > _OPTIONS:
            raise Unsupported
        options = [option for option in expression.options if option is not None]
        alike = [match for option in options if (match := _option_for(value, option)) is not None]
        parts = [f"{value.sql} IS NULL"] if len(options) < len(expression.options) else []
        if alike:
            listed = self.bind(alike, f"{TYPES[value.kind]}[]")
            parts.append(f"coalesce(list_contains({listed}, {value.sql}), FALSE)")
        return Column(f"({' OR '.join(parts)})" if parts else "FALSE", "bool")

    def _joined(self, parts: Sequence[Expression], word: str, empty: str) -> Column:
        return Column(f"({f' {word} '.join([self.condition(part) for part in parts]) or empty})", "bool")

    def _choice(self, expression: Choice) -> Column:
        test = self.condition(expression.test)
        then, otherwise = self.compile(expression.then), self.compile(expression.otherwise)
        return _merged(f"(CASE WHEN {test} THEN {then.sql} ELSE {otherwise.sql} END)", [then, otherwise])

    def _call(self, expression: Call) -> Column:
        arguments = [self.compile(argument) for argument in expression.arguments]
        name, first = expression.function, arguments[0]
        if name == "is_null":
            return Column(f"({first.sql} IS NULL)", "bool")
        if name in _TEXT_TESTS:
            if any(argument.kind != "text" for argument in arguments):
                return Column("FALSE", "bool")
            return Column(f"coalesce({name}({first.sql}, {arguments[1].sql}), FALSE)", "bool")
        if name == "coalesce":
            return _merged(f"coalesce({', '.join(argument.sql for argument in arguments)})", arguments)
        if name == "abs" and first.is_number:
            return Column(f"abs({first.sql})", first.kind, first.bound)
        if name == "len" and first.kind == "text":
            return Column(f"length({first.sql})", "int", EXACT)
        raise Unsupported


_FLOAT_AGGREGATES = {
    "sum": "coalesce(fsum({0}), 0)",
    "mean": "favg({0})",
    "median": "quantile_cont({0}, 0.5)",
    "std": "stddev_samp({0})",
    "variance": "var_samp({0})",
}


def _kind_of(value: bool | float | str) -> Kind:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    return "float" if isinstance(value, float) else "text"


def _alike(left: Column, right: Column) -> tuple[str, str] | None:
    """Both sides in one type; None if they are of two kinds."""
    if left.is_number and right.is_number:
        if left.kind == right.kind:
            return left.sql, right.sql
        return left.as_float(), right.as_float()
    if left.kind == right.kind and left.kind is not None:
        return left.sql, right.sql
    return None


def _option_for(value: Column, option: Scalar) -> Scalar:
    """The option as the column would hold it; None if it never equals one of its values."""
    assert option is not None
    kind = _kind_of(option)
    if kind == value.kind:
        return option if kind != "int" or abs(int(option)) <= LARGEST else None
    if value.kind == "int" and isinstance(option, float):
        return int(option) if option.is_integer() and abs(option) <= LARGEST else None
    if value.kind == "float" and kind == "int":
        whole = int(option)
        if abs(whole) > EXACT:
            raise Unsupported
        return float(whole)
    return None


def _merged(sql: str, columns: Sequence[Column]) -> Column:
    kinds = {column.kind for column in columns if column.kind is not None}
    if len(kinds) != 1:
        raise Unsupported
    return Column(sql, kinds.pop(), max(column.bound for column in columns))


def _quotient(left: Column, right: Column) -> Column:
    sql = f"({left.as_float()} / nullif({right.as_float()}, 0))"
    if len(sql) > _LONGEST:
        raise Unsupported  # nested quotients would double each time
    return Column(f"(CASE WHEN isfinite({sql}) THEN {sql} END)", "float", float("inf"))
