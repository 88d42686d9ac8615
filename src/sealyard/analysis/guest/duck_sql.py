"""Conditions and aggregates of a plan as SQL over columns of one known kind each.

The invariant: the text of a statement is made of this package's own words, of names that it gives to columns itself,
and of the names of parameters; every value and every name of the request or of a file is bound.

A part that SQL cannot answer exactly as `plan` says raises `Unsupported`, and the Python engine does it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .plan import Aggregate, AllOf, AnyOf, Call, Comparison, Constant, Expression, Field, Membership, Not, Scalar

Kind: TypeAlias = Literal["bool", "int", "float", "text"]

TYPES: Mapping[Kind, str] = {"bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}
EXACT = 2**53
"""Whole numbers up to here are exact as floats."""
_LARGEST = 2**63 - 1  # the largest BIGINT of DuckDB
_OPTIONS = 1_000  # bounds the list that is bound to a statement: a longer one is faster as a set of Python
_TEXT_TESTS = ("contains", "starts_with", "ends_with")


class Unsupported(Exception):
    """DuckDB cannot give the answer that the plan promises."""


@dataclass(frozen=True, slots=True)
class Column:
    """SQL for a field whose values are of one kind where they are not null."""

    sql: str
    kind: Kind
    is_exact: bool = True
    """False for whole numbers beyond `EXACT`."""

    def as_float(self) -> str:
        """SQL for the same number as a float."""
        if self.kind not in ("int", "float") or not self.is_exact:
            raise Unsupported
        return self.sql if self.kind == "float" else f"CAST({self.sql} AS DOUBLE)"


@dataclass(slots=True)
class Query:
    """The columns of fields, and the parameters of the statement in the making."""

    columns: Mapping[str, Column]
    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, value: Any, type_name: str) -> str:
        """Binds a value, and gives its place in the statement."""
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return f"CAST(${name} AS {type_name})"

    def used(self, statement: str) -> dict[str, Any]:
        """The parameters that a statement names: those of a part that is given up are bound and not used."""
        return {name: self.parameters[name] for name in re.findall(r"\$(\w+)", statement)}

    def column(self, expression: Expression | None) -> Column:
        """The column of a field."""
        if not isinstance(expression, Field) or expression.name not in self.columns:
            raise Unsupported
        return self.columns[expression.name]

    def condition(self, expression: Expression) -> str:
        """SQL that is true or false, never null."""
        match expression:
            case AllOf(parts):
                return self._joined(parts, " AND ", "TRUE")
            case AnyOf(parts):
                return self._joined(parts, " OR ", "FALSE")
            case Not(operand):
                return f"(NOT {self.condition(operand)})"
            case Comparison(operator, left, Constant(value)):
                return self._comparison(operator, self.column(left), value)
            case Membership(value, options):
                return self._membership(self.column(value), options)
            case Call("is_null", (value,)):
                return f"({self.column(value).sql} IS NULL)"
            case Call(name, (value, Constant(str() as part))) if name in _TEXT_TESTS:
                column = self.column(value)
                return f"coalesce({name}({column.sql}, {self._bound(column, part)}), FALSE)"
            case Field():
                column = self.column(expression)
                return f"coalesce({column.sql} = {self._bound(column, value=True)}, FALSE)"
        raise Unsupported

    def aggregate(self, aggregate: Aggregate, row: str) -> str:
        """SQL for an aggregate over the rows of a group; `row` is SQL for their place in the input."""
        if aggregate.value is None:
            return "count(*)"
        value = self.column(aggregate.value)
        function = aggregate.function
        if function == "count":
            return f"count({value.sql})"
        if function == "distinct":
            return f"count(DISTINCT {value.sql})"
        if function in ("min", "max"):
            return f"{function}({value.sql})"
        if function in ("first", "last"):
            pick = "arg_min" if function == "first" else "arg_max"
            return f"{pick}({value.sql}, {row}) FILTER ({value.sql} IS NOT NULL)"
        if function == "sum" and value.kind == "int":
            return f"coalesce(sum({value.sql}), 0)"
        number = value.as_float()
        if function == "percentile":
            return f"quantile_cont({number}, {self.bind((aggregate.percentile or 0) / 100, 'DOUBLE')})"
        return _FLOAT_AGGREGATES[function].format(number)

    def _joined(self, parts: Sequence[Expression], word: str, empty: str) -> str:
        return f"({word.join(map(self.condition, parts)) or empty})"

    def _comparison(self, operator: str, column: Column, value: Scalar) -> str:
        if value is None:
            alone = {"==": f"({column.sql} IS NULL)", "!=": f"({column.sql} IS NOT NULL)"}
            return alone.get(operator, "FALSE")
        if column.kind == "int" and isinstance(value, float):
            sql, bound = column.as_float(), self.bind(value, "DOUBLE")
        else:
            sql, bound = column.sql, self._bound(column, value)
        if operator in ("==", "!="):
            return f"({sql} IS {'NOT ' if operator == '==' else ''}DISTINCT FROM {bound})"
        return f"coalesce({sql} {operator} {bound}, FALSE)"

    def _membership(self, column: Column, options: Sequence[Scalar]) -> str:
        if len(options) > _OPTIONS:
            raise Unsupported
        present = [_of_kind(column, option) for option in options if option is not None]
        parts = [f"{column.sql} IS NULL"] if len(present) < len(options) else []
        if present:
            parts.append(
                f"coalesce(list_contains({self.bind(present, TYPES[column.kind] + '[]')}, {column.sql}), FALSE)"
            )
        return f"({' OR '.join(parts) or 'FALSE'})"

    def _bound(self, column: Column, value: Scalar) -> str:
        return self.bind(_of_kind(column, value), TYPES[column.kind])


def _of_kind(column: Column, value: Scalar) -> Scalar:
    """The value, if the column can hold it; a column of floats holds whole numbers too."""
    kind = _KINDS[type(value)]
    if kind != column.kind and (kind, column.kind) != ("int", "float"):
        raise Unsupported  # never equal: Python explains it if no row is left
    if isinstance(value, int) and abs(value) > (EXACT if column.kind == "float" else _LARGEST):
        raise Unsupported
    return value


_KINDS: Mapping[type, Kind] = {bool: "bool", int: "int", float: "float", str: "text"}
_FLOAT_AGGREGATES = {
    "sum": "coalesce(fsum({0}), 0)",
    "mean": "favg({0})",
    "median": "quantile_cont({0}, 0.5)",
    "std": "stddev_samp({0})",
    "variance": "var_samp({0})",
}
