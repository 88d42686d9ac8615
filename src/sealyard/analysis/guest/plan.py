"""The parts of a checked request that both engines read: sources, expressions, and the steps that DuckDB may do.

`filter`, `aggregate` and `transform` all become steps (`steps`). Conditions are expressions too, so there is one tree.

Values. A row is an object with text keys; a value is null, a boolean, a number, text, a list or an object, as in JSON.
- A missing field reads as null. A field that no row has is an error, unless there are no rows.
- `a.b` is the field of that very name if any row has one; otherwise field `b` of the object in field `a`. Any other
  value has no fields: null. (After conditions that DuckDB tests, the rows that are left decide.)
- There is no NaN and no infinity: reading makes them null, and so does arithmetic whose result is not finite.
- A boolean is not a number. 1 and 1.0 are one number; a column of whole numbers only stays one, and a column that mixes
  both may show a whole value in either form.
- Whole-number results beyond ±`MAX_INTEGER` (127 bits) are an error, text results over `MAX_TEXT` characters too.
- Dates are ISO text; they compare as text.

Truth. Every comparison and predicate is true or false, never null, so `not` is the exact opposite.
- `==`: same kind and same value; null equals null only. `!=` is its opposite: `null != 1` is true.
- `<`, `<=`, `>`, `>=`: true only between two numbers, two texts (by code point) or two booleans (false < true). Any
  other pair, null included, is false.
- `in`: equals one of the values. `contains(x, y)`: x is text and y a text within it, or x is a list and y equals an
  element. `starts_with`, `ends_with`, `matches` (Python's `re.search`): false for what is not text. `is_null(x)`.
- `and`, `or`, `not`, and the test of a choice take booleans; null counts as false, anything else is an error.

Arithmetic. Null in, null out. `+` takes two numbers, or two texts, which it joins; `-`, `*`, `/`, `//`, `%`, `**` and
unary `-` take numbers; any other kind is an error that names the row. `/` and `**` give floats; `+ - * // %` of whole
numbers give whole numbers; `//` rounds down and `%` has the sign of the divisor, as in Python. By zero: null.

Order (sort, `min`, `max`, columns of a pivot): booleans, numbers, texts (by code point), then lists and objects by
their compact JSON text with sorted keys. Nulls come last, ascending and descending. Sorting is stable.

Sameness (groups, `distinct`, joins): as `==`; null and missing are one group; lists and objects are the same if their
compact JSON text with sorted keys is. A null key joins nothing.

Aggregates leave nulls out. `count` without a value counts rows. Of nothing, `count`, `distinct` and `sum` are 0 and the
others null. `sum`, `mean`, `median`, `std`, `variance`, `percentile` take numbers only. `sum` of whole numbers is one
too; float sums are rounded once (`math.fsum`), engines may differ in the last digits. `mean`, `median`, `std`,
`variance` and `percentile` are floats; `percentile` (0 to 100) interpolates linearly between the two nearest; `std`
and `variance` are of a sample (n - 1), null under two values. `min` and `max` follow the order above. `distinct`
counts different values. `first` and `last` are in input order.

Order of rows. Every step keeps the order of its input; groups stand in the order of their first row.

Text of a value (`str`, `concat`, names of pivoted columns): `true`, `false`, digits, Python's shortest `repr` of a
float, compact JSON for lists and objects.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None
Row: TypeAlias = dict[str, Any]

Operator: TypeAlias = Literal["+", "-", "*", "/", "//", "%", "**"]
ComparisonOperator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Function: TypeAlias = Literal[
    "count", "sum", "mean", "median", "min", "max", "std", "variance", "percentile", "distinct", "first", "last"
]
CastType: TypeAlias = Literal["int", "float", "str", "bool", "date", "datetime"]
JoinKind: TypeAlias = Literal["inner", "left", "right", "outer"]
FileFormat: TypeAlias = Literal["json", "jsonl", "csv", "parquet"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the request holds."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Field:
    """The value of a field, by its name or its dotted path; `at` is where the request names it."""

    name: str
    at: str = field(default="", compare=False)

    @property
    def path(self) -> tuple[str, ...]:
        """The names on the way into nested objects, if no row has a field of the whole name."""
        return tuple(self.name.split("."))


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two operands and an arithmetic operator."""

    operator: Operator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Comparison:
    """True or false, by the rules of this module."""

    operator: ComparisonOperator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Membership:
    """True if `value` equals one of `options`."""

    value: "Expression"
    options: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if every part is; the parts after the first false one are not evaluated. True without parts."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if a part is; the parts after the first true one are not evaluated. False without parts."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a boolean."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Choice:
    """`then` if `test` is true, else `otherwise`; the other one is not evaluated."""

    test: "Expression"
    then: "Expression"
    otherwise: "Expression"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `evaluation.FUNCTIONS`."""

    function: str
    arguments: tuple["Expression", ...]


Expression: TypeAlias = (
    Constant | Field | Negative | Arithmetic | Comparison | Membership | AllOf | AnyOf | Not | Choice | Call
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Keeps the rows for which `condition` is true."""

    at: str
    condition: Expression
    is_rest: bool = False
    """True if DuckDB has tested other conditions of the same step before: if no row is left, Python begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A field of the answer and the field it is read from."""

    name: str
    field: Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate of a group; `value` is None for `count` of rows."""

    name: str
    function: Function
    value: Expression | None = None
    percentile: float | None = None
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row for each combination of `keys`, with its aggregates; without keys, one row even for no input."""

    at: str
    keys: tuple[Output, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Each row with the matching rows of another set.

    Rows stand in the order of the left rows, for each the right ones in theirs; for `right` and `outer` the right rows
    without a match come last. Fields of the side that has no row are null. A key of the same name on both sides appears
    once, with the value of the side that has one; another name on both sides gets `suffix` on the right.
    """

    at: str
    source: "Source"
    on: tuple[tuple[Field, Field], ...]
    how: JoinKind
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """A field to sort by."""

    field: Field
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """Rows in the order of the first key, within equals by the next."""

    at: str
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """At most `limit` rows (all if None) after the first `offset`."""

    at: str
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """Rows within the request. `at` is where; `field` names the list within an object of several."""

    at: str
    data: Any
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFile:
    """Rows of a file in the working directory; `path` is relative and stays within it, links followed."""

    at: str
    path: str
    format: FileFormat
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """Rows of a tool's answer, or of what lies at the dotted `field` in it; `format` is that of an answer in text."""

    at: str
    tool: str
    arguments: dict[str, Any]
    format: FileFormat | None = None
    field: str | None = None


Source: TypeAlias = Inline | WorkspaceFile | ToolAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Most rows and bytes of rows in an answer."""

    rows: int = 100
    bytes: int = 32_768


def fields_of(part: Any) -> list[Field]:
    """Every field that a step, an expression or a tuple of them names."""
    if isinstance(part, Field):
        return [part]
    if isinstance(part, tuple):
        return [found for each in part for found in fields_of(each)]
    if not is_dataclass(part):
        return []
    return [found for each in fields(part) for found in fields_of(getattr(part, each.name))]
