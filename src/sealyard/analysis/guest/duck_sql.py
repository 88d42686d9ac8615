"""The SQL that DuckDB is given: files, whose fields of one kind are columns, and conditions and aggregates over these.

The invariant: the text of a statement is made of this package's own words, of names that it gives to columns itself,
and of the names of parameters; every value and every name of the request or of a file is bound.

A part that SQL cannot answer exactly as `plan` says raises `Unsupported`, and the Python engine does it. Rows come back
as JSON text, whatever the file, so that Python decodes them as it does its own.
"""

# ruff: noqa: S608 - see the invariant

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .plan import Aggregate, AllOf, AnyOf, Call, Comparison, Constant, Expression, Field, Membership, Not, Row, Scalar
from .values import as_float

if TYPE_CHECKING:
    import duckdb

Kind: TypeAlias = Literal["bool", "int", "float", "text"]

TYPES: Mapping[Kind, str] = {"bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}
EXACT = 2**53
"""Whole numbers up to here are exact as floats."""
_LARGEST_WHOLE = 2**63 - 1  # the largest BIGINT of DuckDB
_OPTIONS = 1_000  # bounds the list that is bound to a statement: a longer one is faster as a set of Python
_TEXT_TESTS = ("contains", "starts_with", "ends_with")

_TEXT, _BOOLEAN, _WHOLE, _OTHER, _MIXED = 1, 2, 4, 8, 16
# The kind of a value by its JSON text. Whole numbers of many digits, NaN and infinity, which DuckDB reads as floats,
# are left to Python like lists and objects.
_KIND = f"""CASE
    WHEN x{{0}} IS NULL OR x{{0}} = 'null' THEN 0
    WHEN starts_with(x{{0}}, '"') THEN {_TEXT}
    WHEN x{{0}} IN ('true', 'false') THEN {_BOOLEAN}
    WHEN starts_with(x{{0}}, '{{{{') OR starts_with(x{{0}}, '[') THEN {_MIXED}
    WHEN contains(x{{0}}, '.') OR contains(x{{0}}, 'e') OR contains(x{{0}}, 'E') THEN {_OTHER}
    WHEN try_cast(x{{0}} AS BIGINT) IS NULL THEN {_MIXED}
    ELSE {_WHOLE}
END"""
_LARGEST = f"max(CASE WHEN k{{0}} IN ({_WHOLE}, {_OTHER}) THEN abs(try_cast(x{{0}} AS DOUBLE)) END)"
_CHUNK = 1 << 20  # bytes searched at once
_DELIMITERS = ",;\t|"
_LONGEST_HEADER = 1 << 20  # bytes; a longer first line is not a header
_LONGEST_WHOLE = 18  # digits that fit into 64 bits with a sign
_KINDS_OF_TYPES: dict[str, Kind] = {"VARCHAR": "text", "BOOLEAN": "bool", "FLOAT": "float", "DOUBLE": "float"}
_KINDS_OF_TYPES |= dict.fromkeys(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "int"
)
_PARQUET = "read_parquet($file, hive_partitioning = FALSE)"
# The forms of numbers and booleans are those of `sources`.
_PROFILE = r"""
    count({0}),
    count(*) FILTER (regexp_full_match({0}, '[ \t]*[+-]?(0|[1-9][0-9]*)[ \t]*')),
    count(*) FILTER (regexp_full_match(
        {0}, '[ \t]*[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{{1,3}})?[ \t]*')),
    count(*) FILTER (lower({0}) IN ('true', 'false')),
    max(abs(try_cast({0} AS DOUBLE))),
    max(length({0}))
"""
# Cells of Parquet as the values of JSON that the other formats would hold: ISO text for times, base64 for bytes.
_MOMENT = "replace(CAST({0} AS VARCHAR), ' ', 'T')"
_UTC_MOMENT = "replace(CAST(make_timestamp(epoch_us({0})) AS VARCHAR), ' ', 'T') || '+00:00'"
_CELLS = {"BLOB": "base64({0})", "TIMESTAMP WITH TIME ZONE": _UTC_MOMENT}
_FETCHED = 10_000  # rows fetched at once: enough that each call costs little, few enough to hold beside the result


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
    kind = _KINDS_OF_VALUES[type(value)]
    if kind != column.kind and (kind, column.kind) != ("int", "float"):
        raise Unsupported  # never equal: Python explains it if no row is left
    if isinstance(value, int) and abs(value) > (EXACT if column.kind == "float" else _LARGEST_WHOLE):
        raise Unsupported
    return value


_KINDS_OF_VALUES: Mapping[type, Kind] = {bool: "bool", int: "int", float: "float", str: "text"}
_FLOAT_AGGREGATES = {
    "sum": "coalesce(fsum({0}), 0)",
    "mean": "favg({0})",
    "median": "quantile_cont({0}, 0.5)",
    "std": "stddev_samp({0})",
    "variance": "var_samp({0})",
}


# Files. Their columns are called `c0`, `c1` and so on, and the fields with values of one kind `f0`, `f1`.


class RowFile:
    """A file of rows: `JsonFile` reads objects, `CsvFile` and `ParquetFile` columns."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str) -> None:
        self._connection = connection
        self._file = file
        self.columns: dict[str, Column] = {}
        """The fields with values of one kind, by their name in the request; known after `profile`."""
        self.count = 0
        """The number of rows; known after `profile`."""

    def profile(self, names: Sequence[str]) -> None:
        """Find the kinds of these fields over all rows."""
        raise NotImplementedError

    def relation(self, query: Query, *, whole: bool) -> str:
        """SQL for all rows in order, with `columns` and, if `whole`, with their JSON text in `json`."""
        raise NotImplementedError

    def row(self, value: Any) -> Row:
        """The row of a decoded JSON text."""
        raise NotImplementedError

    def matching(self, query: Query, *, where: str = "TRUE", order: str = "", window: str = "") -> list[Row]:
        """The rows that meet a condition, in an order, within a limit."""
        relation = self.relation(query, whole=True)
        relation = numbered(relation) if order else relation
        found = self.fetched(f"SELECT json FROM {relation} WHERE {where} {order} {window}", query)
        decode = json.JSONDecoder(parse_float=as_float, parse_constant=lambda _: None).decode
        return [self.row(decode(text)) for (text,) in found]

    def fetched(self, sql: str, query: Query) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement."""
        done = self._connection.execute(sql, query.used(sql))
        while some := done.fetchmany(_FETCHED):
            yield from some

    def _one(self, sql: str, query: Query) -> tuple[Any, ...]:
        return next(self.fetched(sql, query))

    def _named(self, sql: Iterable[str]) -> list[str]:
        """The SQL of each column under its own name."""
        return [f"{each} AS {column.sql}" for column, each in zip(self.columns.values(), sql, strict=True)]


def numbered(relation: str) -> str:
    """SQL for a relation with each row's place."""
    return f"(SELECT *, row_number() OVER () AS place FROM {relation})"


class JsonFile(RowFile):
    """JSON lines, or one list of objects."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str, *, lines: bool) -> None:
        super().__init__(connection, file)
        self._format = "newline_delimited" if lines else "array"

    def profile(self, names: Sequence[str]) -> None:
        """Find the kinds of values in each field."""
        names = list(dict.fromkeys(names))
        if any("." in name for name in names):
            raise Unsupported  # a path, or a field of that very name: only all rows decide
        if not names:
            self.count = self._count("TRUE")
            self._check_objects()
            return
        query = Query({})
        places = range(len(names))
        reading = self._reading(query, dict.fromkeys(names, "JSON"))
        texts = ", ".join(f"CAST(c{place} AS VARCHAR) AS x{place}" for place in places)
        kinds = ", ".join(f"x{place}, {_KIND.format(place)} AS k{place}" for place in places)
        empty = " AND ".join(f"k{place} = 0" for place in places)
        figures = ", ".join(f"bit_or(k{place}), {_LARGEST.format(place)}" for place in places)
        self.count, empties, *found = self._one(
            f"SELECT count(*), count(*) FILTER ({empty}), {figures} "
            f"FROM (SELECT {kinds} FROM (SELECT {texts} FROM {reading}))",
            query,
        )
        if empties:
            self._check_objects()
        for place, name in enumerate(names):
            column = _column(f"f{place}", *found[2 * place : 2 * place + 2])
            if column is not None:
                self.columns[name] = column

    def relation(self, query: Query, *, whole: bool) -> str:
        """With `whole`, each object is kept as its text."""
        if not whole and self.columns:
            reading = self._reading(query, {name: TYPES[column.kind] for name, column in self.columns.items()})
            places = [f"c{place}" for place in range(len(self.columns))]
            return f"(SELECT {', '.join(self._named(places))} FROM {reading})"
        sql = [
            f"CAST(json_extract_string(json, {query.bind(_json_path(name), 'VARCHAR')}) AS {TYPES[column.kind]})"
            for name, column in self.columns.items()
        ]
        return f"(SELECT {', '.join(['json', *self._named(sql)])} FROM {self._objects(query)})"

    def row(self, value: Any) -> Row:
        """The object."""
        if type(value) is not dict:
            raise Unsupported
        return value

    def _reading(self, query: Query, kinds: dict[str, str]) -> str:
        """SQL that reads fields by their types as `c0`, `c1` and so on; a repeated key is an error."""
        query.parameters["columns"] = kinds
        query.parameters["file"] = self._file
        options = f"format = '{self._format}', columns = $columns, auto_detect = FALSE, records = TRUE"
        return f"read_json($file, {options}) AS t({', '.join(f'c{place}' for place in range(len(kinds)))})"

    def _objects(self, query: Query) -> str:
        query.parameters["file"] = self._file
        return f"read_json_objects($file, format = '{self._format}')"

    def _check_objects(self) -> None:
        if self._count("json_type(json) <> 'OBJECT'"):
            raise Unsupported

    def _count(self, condition: str) -> int:
        query = Query({})
        return int(self._one(f"SELECT count(*) FROM {self._objects(query)} WHERE {condition}", query)[0])


def _column(sql: str, kinds: int, largest: float | None) -> Column | None:
    """The column, if its values are of one kind."""
    if kinds in (_TEXT, _BOOLEAN):
        return Column(sql, "text" if kinds == _TEXT else "bool")
    if kinds not in (_WHOLE, _OTHER, _WHOLE | _OTHER) or largest is None or not math.isfinite(largest):
        return None
    # The next whole number after `EXACT` rounds to it.
    is_exact = largest < EXACT
    if kinds == _WHOLE:
        return Column(sql, "int", is_exact)
    return Column(sql, "float") if kinds == _OTHER or is_exact else None


def _json_path(name: str) -> str:
    """A path for DuckDB's JSON functions. Names with its wildcard or escapes are left to Python."""
    if not name or set(name) & set('"\\*'):
        raise Unsupported
    return f'$."{name}"'


class _ColumnFile(RowFile):
    """A file of columns, which SQL calls `c0`, `c1` and so on."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str, names: Sequence[str]) -> None:
        super().__init__(connection, file)
        self._names = list(names)
        self._places = [f"c{place}" for place in range(len(self._names))]
        self._cells: list[str] = []  # SQL for the JSON values of a row
        self._sql: list[str] = []  # of each of `columns`

    def relation(self, query: Query, *, whole: bool) -> str:
        """With `whole`, each row is the list of its cells."""
        row = [f"json_array({', '.join(self._cells)}) AS json"] if whole else []
        return f"(SELECT {', '.join([*row, *self._named(self._sql)]) or '1'} FROM {self._table(query)})"

    def row(self, value: Any) -> Row:
        """The cells by the names of their columns."""
        return dict(zip(self._names, value, strict=True))

    def _table(self, query: Query) -> str:
        """SQL for all columns."""
        raise NotImplementedError


class ParquetFile(_ColumnFile):
    """A Parquet file, whose columns have types of their own."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str) -> None:
        described = connection.execute(f"SELECT * FROM {_PARQUET} LIMIT 0", {"file": file}).description or []
        self._types = {str(name): str(kind) for name, kind, *_ in described}
        if len(self._types) != len(described):
            raise Unsupported
        super().__init__(connection, file, tuple(self._types))
        self._cells = [
            _CELLS.get(kind, _MOMENT if kind.startswith("TIMESTAMP") else "{0}").format(place)
            for place, kind in zip(self._places, self._types.values(), strict=True)
        ]

    def profile(self, names: Sequence[str]) -> None:
        """Count the rows and find the largest number of each column."""
        kinds = {name: _KINDS_OF_TYPES[self._types[name]] for name in names if self._types.get(name) in _KINDS_OF_TYPES}
        places = [self._places[self._names.index(name)] for name in kinds]
        largest = [
            f"max(abs(CAST({place} AS DOUBLE)))" if kind == "int" else "0"
            for place, kind in zip(places, kinds.values(), strict=True)
        ]
        query = Query({})
        self.count, *found = self._one(f"SELECT {', '.join(['count(*)', *largest])} FROM {self._table(query)}", query)
        for number, (name, kind) in enumerate(kinds.items()):
            self.columns[name] = Column(f"f{number}", kind, (found[number] or 0) < EXACT)
            place = places[number]
            finite = f"CASE WHEN isfinite({place}) THEN CAST({place} AS DOUBLE) END"
            self._sql.append(finite if kind == "float" else place)

    def _table(self, query: Query) -> str:
        query.parameters["file"] = self._file
        return f"{_PARQUET} AS t({', '.join(self._places)})"


class CsvFile(_ColumnFile):
    """A CSV file without quotes: readers differ on the rules for quotes, so Python reads files that have them."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str) -> None:
        self._delimiter, names = _header(file)
        super().__init__(connection, file, names)

    def profile(self, names: Sequence[str]) -> None:
        """Find the kind of every column by the forms of its cells."""
        query = Query({})
        counts = [_PROFILE.format(place) for place in self._places]
        self.count, *found = self._one(f"SELECT {', '.join(['count(*)', *counts])} FROM {self._table(query)}", query)
        for number, (name, place) in enumerate(zip(self._names, self._places, strict=True)):
            column = _csv_column(f"f{number}", *found[number * 6 : number * 6 + 6])
            cell = f"CAST({place} AS {TYPES[column.kind]})"
            self._cells.append(cell)
            if name in names and found[number * 6]:  # with cells that are not empty
                self.columns[name] = column
                self._sql.append(cell)

    def _table(self, query: Query) -> str:
        query.parameters["file"] = self._file
        query.parameters["columns"] = {f"c{place}": "VARCHAR" for place in range(len(self._names))}
        query.parameters["delimiter"] = self._delimiter
        return (
            "read_csv($file, auto_detect = FALSE, header = FALSE, skip = 1, columns = $columns, delim = $delimiter, "
            "quote = '', escape = '', nullstr = '', strict_mode = TRUE)"
        )


def _header(file: str) -> tuple[str, list[str]]:
    """The separator and the names of the columns, if the file has no quote and ends its lines in one way."""
    with open(file, "rb") as stream:
        first = stream.readline(_LONGEST_HEADER).decode("utf-8-sig").rstrip("\r\n")
        stream.seek(0)
        tail = b""
        while chunk := stream.read(_CHUNK):
            text = tail + chunk
            if b'"' in chunk or b"\0" in chunk or text.count(b"\r") - text.endswith(b"\r") != text.count(b"\r\n"):
                raise Unsupported
            tail = chunk[-1:] if chunk.endswith(b"\r") else b""
    delimiter = max(_DELIMITERS, key=first.count)
    names = next(csv.reader([first], delimiter=delimiter), [])
    if len(names) < 2 or "" in names or len(set(names)) < len(names):  # in one column, an empty line is a cell
        raise Unsupported
    return delimiter, names


def _csv_column(
    sql: str, cells: int, wholes: int, numbers: int, booleans: int, largest: float | None, longest: int | None
) -> Column:
    """The column of cells by the numbers of cells in each form."""
    if wholes == cells:
        if (longest or 0) > _LONGEST_WHOLE:
            raise Unsupported
        return Column(sql, "int", (largest or 0) < EXACT)
    if numbers == cells:
        if largest is None or math.isinf(largest):
            raise Unsupported
        return Column(sql, "float")
    return Column(sql, "bool" if booleans == cells else "text")
