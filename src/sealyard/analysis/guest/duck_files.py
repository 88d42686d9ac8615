"""Files as DuckDB reads them: the fields whose values are of one kind, as columns `f0`, `f1` and so on.

The invariant of `duck_sql` holds here too: names of fields and of files are bound.
"""

# ruff: noqa: S608 - see the invariant

import base64
import csv
import datetime
import decimal
import json
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .duck_sql import EXACT, LARGEST, TYPES, Column, Kind, Query, Unsupported
from .plan import Field, Row

if TYPE_CHECKING:
    import duckdb

_TEXT, _BOOLEAN, _WHOLE, _OTHER, _NESTED, _ODD = 1, 2, 4, 8, 16, 32
# The kind of a value by its JSON text. Odd are whole numbers of many digits, NaN and infinity, which DuckDB reads as
# floats, and values in objects that have a key twice.
_KIND = f"""CASE
    WHEN d{{0}} THEN {_ODD}
    WHEN x{{0}} IS NULL OR x{{0}} = 'null' THEN 0
    WHEN starts_with(x{{0}}, '"') THEN {_TEXT}
    WHEN x{{0}} IN ('true', 'false') THEN {_BOOLEAN}
    WHEN starts_with(x{{0}}, '{{{{') OR starts_with(x{{0}}, '[') THEN {_NESTED}
    WHEN contains(x{{0}}, '.') OR contains(x{{0}}, 'e') OR contains(x{{0}}, 'E') THEN {_OTHER}
    WHEN try_cast(x{{0}} AS BIGINT) IS NULL THEN {_ODD}
    ELSE {_WHOLE}
END"""
_LARGEST = f"max(CASE WHEN k{{0}} IN ({_WHOLE}, {_OTHER}) THEN abs(try_cast(x{{0}} AS DOUBLE)) END)"
_CHUNK = 1 << 20  # bytes searched at once
_DELIMITERS = ",;\t|"
_LONGEST_HEADER = 1 << 20  # bytes; a longer first line is no header
_LONGEST_WHOLE = 18  # digits that fit into 64 bits with a sign
_WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_ZONED = "TIMESTAMP WITH TIME ZONE"
_PARQUET = "read_parquet($file, hive_partitioning = FALSE)"
# The forms of numbers and booleans are those of `sources`.
_PROFILE = r"""
    count(c{0}),
    count(*) FILTER (regexp_full_match(c{0}, '[ \t]*[+-]?(0|[1-9][0-9]*)[ \t]*')),
    count(*) FILTER (regexp_full_match(
        c{0}, '[ \t]*[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{{1,3}})?[ \t]*')),
    count(*) FILTER (lower(c{0}) IN ('true', 'false')),
    max(abs(try_cast(c{0} AS DOUBLE))),
    max(length(c{0}))
"""


class RowFile:
    """A file of rows: `JsonFile` reads objects, `CsvFile` and `ParquetFile` columns."""

    shown = "json"
    """SQL for the columns that `rows_of` takes."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str) -> None:
        self._connection = connection
        self._file = file
        self.columns: dict[str, Column] = {}
        """The fields with values of one kind, by their name in the request; known after `profile`."""
        self.rows = 0
        """The number of rows; known after `profile`."""

    def profile(self, fields: Sequence[Field]) -> None:
        """Find the kinds of these fields over all rows."""
        raise NotImplementedError

    def relation(self, query: Query, *, whole: bool) -> str:
        """SQL for all rows in order, with `columns` and, if `whole`, with `shown`."""
        raise NotImplementedError

    def rows_of(self, fetched: Iterable[tuple[Any, ...]]) -> list[Row]:
        """The rows that a statement found."""
        raise NotImplementedError

    def _one(self, sql: str, query: Query) -> tuple[Any, ...]:
        found = self._connection.execute(sql, query.used(sql)).fetchone()
        assert found is not None
        return found


class JsonFile(RowFile):
    """JSON lines, or one list of objects."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str, *, lines: bool) -> None:
        super().__init__(connection, file)
        self._format = "newline_delimited" if lines else "array"
        self._paths: dict[str, tuple[str, ...]] = {}

    def profile(self, fields: Sequence[Field]) -> None:
        """Find the kinds of values in each field."""
        self._paths = {each.name: each.path for each in fields}
        if not self._paths:
            self.rows = self._count("TRUE")
            self._check_objects()
            return
        query = Query({})
        places = range(len(self._paths))
        reading, sql = self._reading(query, dict.fromkeys(self._paths, "JSON"))
        twice = [self._repeats(query, path) for path in self._paths.values()]
        texts = ", ".join(
            f"CAST({each} AS VARCHAR) AS x{place}, {twice[place]} AS d{place}" for place, each in enumerate(sql)
        )
        kinds = ", ".join(f"x{place}, {_KIND.format(place)} AS k{place}" for place in places)
        empty = " AND ".join(f"k{place} = 0" for place in places)
        shown = ", ".join(f"bit_or(k{place}), {_LARGEST.format(place)}" for place in places)
        found = self._one(
            f"SELECT count(*), count(*) FILTER ({empty}), {shown} "
            f"FROM (SELECT {kinds} FROM (SELECT {texts} FROM {reading}))",
            query,
        )
        self.rows = found[0]
        if found[1]:
            self._check_objects()
        for place, name in enumerate(self._paths):
            column = _column(place, *found[2 + 2 * place : 4 + 2 * place])
            if column is not None:
                self.columns[name] = column

    def relation(self, query: Query, *, whole: bool) -> str:
        """With `whole`, each object is kept as its text."""
        kinds = {name: TYPES[column.kind] for name, column in self.columns.items() if column.kind}
        if not whole and kinds:
            reading, sql = self._reading(query, kinds)
            return f"(SELECT {', '.join(named(self.columns, sql))} FROM {reading})"
        sql = [
            f"CAST(json_extract_string(json, {query.bind(_json_path(self._paths[name]), 'VARCHAR')}) AS {kind})"
            for name, kind in kinds.items()
        ]
        return f"(SELECT {', '.join(['json', *named(self.columns, sql)])} FROM {self._objects(query)})"

    def rows_of(self, fetched: Iterable[tuple[Any, ...]]) -> list[Row]:
        """The objects as Python decodes them, as the other engine does."""
        rows = [json.loads(text, parse_float=finite, parse_constant=lambda _: None) for (text,) in fetched]
        if not all(type(row) is dict for row in rows):
            raise Unsupported
        return rows

    def _reading(self, query: Query, kinds: dict[str, str]) -> tuple[str, list[str]]:
        """SQL that reads the fields by their types, and the SQL of each; a repeated key is an error."""
        tops: dict[str, str] = {}
        for name, kind in kinds.items():
            top, *inner = self._paths[name]
            if not inner and tops.get(top) == "JSON":
                raise Unsupported
            tops[top] = "JSON" if inner else kind
        places = {top: f"c{place}" for place, top in enumerate(tops)}
        sql = []
        for name, kind in kinds.items():
            top, *inner = self._paths[name]
            path = query.bind(_json_path(inner), "VARCHAR") if inner else ""
            if not inner:
                sql.append(places[top])
            elif kind == "JSON":
                sql.append(f"json_extract({places[top]}, {path})")
            else:
                sql.append(f"CAST(json_extract_string({places[top]}, {path}) AS {kind})")
        query.parameters["columns"] = tops
        query.parameters["file"] = self._file
        options = f"format = '{self._format}', columns = $columns, auto_detect = FALSE, records = TRUE"
        return f"read_json($file, {options}) AS t({', '.join(places.values())})", sql

    def _repeats(self, query: Query, path: tuple[str, ...]) -> str:
        """SQL that is true if an object on the path to a nested field repeats a key; in a row itself it is an error."""
        top = f"c{list(dict.fromkeys(each[0] for each in self._paths.values())).index(path[0])}"
        tests = ["FALSE"]
        for depth in range(1, len(path)):
            keys = f"json_keys({top}, {query.bind(_json_path(path[1:depth]), 'VARCHAR')})"
            tests.append(f"coalesce(list_unique({keys}) < len({keys}), FALSE)")
        return " OR ".join(tests)

    def _objects(self, query: Query) -> str:
        query.parameters["file"] = self._file
        return f"read_json_objects($file, format = '{self._format}')"

    def _check_objects(self) -> None:
        if self._count("json_type(json) <> 'OBJECT'"):
            raise Unsupported

    def _count(self, condition: str) -> int:
        query = Query({})
        return int(self._one(f"SELECT count(*) FROM {self._objects(query)} WHERE {condition}", query)[0])


def _column(place: int, kinds: int, largest: float | None) -> Column | None:
    """The column, if its values are of one kind."""
    sql = f"f{place}"
    if kinds in (_TEXT, _BOOLEAN):
        return Column(sql, "text" if kinds == _TEXT else "bool")
    if kinds not in (_WHOLE, _OTHER, _WHOLE | _OTHER) or largest is None or not math.isfinite(largest):
        return None
    if kinds == _WHOLE:
        return Column(sql, "int", bound_of("int", largest))
    return Column(sql, "float", largest) if kinds == _OTHER or largest < EXACT else None


def bound_of(kind: Kind | None, largest: float | None) -> float:
    """The bound on a column's numbers, where `largest` is the float nearest to the largest."""
    if kind != "int":
        return largest or 0
    # The next whole number after `EXACT` rounds to it.
    return int(largest or 0) if (largest or 0) < EXACT else LARGEST


def named(columns: dict[str, Column], sql: Sequence[str]) -> list[str]:
    """The SQL of each column under its own name."""
    return [f"{each} AS {column.sql}" for column, each in zip(columns.values(), sql, strict=True)]


def _json_path(path: Sequence[str]) -> str:
    """A path for DuckDB's JSON functions. Names with its wildcard or escapes are left to Python."""
    if any(not name or set(name) & set('"\\*') for name in path):
        raise Unsupported
    return "$" + "".join(f'."{name}"' for name in path)


def finite(text: str) -> float | None:
    """The number, or null if it is too large for a float."""
    number = float(text)
    return number if math.isfinite(number) else None


class _ColumnFile(RowFile):
    """A file of columns, which SQL calls `c0`, `c1` and so on."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str, names: Sequence[str]) -> None:
        super().__init__(connection, file)
        self._names = list(names)
        self._sql: list[str] = []  # of each of `columns`
        self._cells = [f"c{place}" for place in range(len(self._names))]  # as `rows_of` takes them
        self.shown = ", ".join(self._cells)

    def relation(self, query: Query, *, whole: bool) -> str:
        """With `whole`, every column is there too."""
        parts = [*(self._cells if whole else ()), *named(self.columns, self._sql)]
        return f"(SELECT {', '.join(parts) or '1'} FROM {self._table(query)})"

    def rows_of(self, fetched: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Rows of the cells, each as a JSON value."""
        turns = self._turns()
        return [
            {name: turn(value) for name, turn, value in zip(self._names, turns, row, strict=True)} for row in fetched
        ]

    def _table(self, query: Query) -> str:
        """SQL for all columns."""
        raise NotImplementedError

    def _turns(self) -> list[Callable[[Any], Any]]:
        """For each column the function that makes a JSON value of a cell."""
        raise NotImplementedError


class ParquetFile(_ColumnFile):
    """A Parquet file, whose columns have types of their own."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str) -> None:
        described = connection.execute(f"SELECT * FROM {_PARQUET} LIMIT 0", {"file": file}).description or []
        self._types = {str(name): str(kind) for name, kind, *_ in described}
        if len(self._types) != len(described):
            raise Unsupported
        super().__init__(connection, file, tuple(self._types))
        self._cells = [_cell(f"c{place}", kind) for place, kind in enumerate(self._types.values())]

    def profile(self, fields: Sequence[Field]) -> None:
        """Count the rows and find the largest number of each column."""
        kinds = {name: kind for name in dict.fromkeys(each.name for each in fields) if (kind := self._kind(name))}
        self._sql = [_readable(f"c{self._names.index(name)}", self._types[name]) for name in kinds]
        numbers = [
            f"max(abs(CAST({each} AS DOUBLE)))" if kind in ("int", "float") else "0"
            for kind, each in zip(kinds.values(), self._sql, strict=True)
        ]
        query = Query({})
        found = self._one(f"SELECT {', '.join(['count(*)', *numbers])} FROM {self._table(query)}", query)
        self.rows = found[0]
        for place, ((name, kind), bound) in enumerate(zip(kinds.items(), found[1:], strict=True)):
            self.columns[name] = Column(f"f{place}", kind, bound_of(kind, bound))

    def _turns(self) -> list[Callable[[Any], Any]]:
        # Times become ISO text, decimals floats, bytes base64.
        return [_turn(kind) for kind in self._types.values()]

    def _table(self, query: Query) -> str:
        query.parameters["file"] = self._file
        return f"{_PARQUET} AS t({self.shown})"

    def _kind(self, name: str) -> Kind | None:
        type_name = self._types.get(name, "")
        if type_name in _WHOLE_TYPES:
            return "int"
        kinds: dict[str, Kind] = {"VARCHAR": "text", "BOOLEAN": "bool", "FLOAT": "float", "DOUBLE": "float"}
        return kinds.get(type_name)


class CsvFile(_ColumnFile):
    """A CSV file without quotes: readers differ on the rules for quotes, so Python reads files that have them."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str) -> None:
        self._delimiter, names = _header(file)
        super().__init__(connection, file, names)
        self._kinds: list[Kind | None] = []

    def profile(self, fields: Sequence[Field]) -> None:
        """Find the kind of every column by the forms of its cells."""
        query = Query({})
        counts = [_PROFILE.format(place) for place in range(len(self._names))]
        found = self._one(f"SELECT {', '.join(['count(*)', *counts])} FROM {self._table(query)}", query)
        self.rows = found[0]
        wanted = {field.name for field in fields}
        each = 6  # figures of a column
        for place, name in enumerate(self._names):
            kind, largest = _kind_of(*found[1 + place * each :][:each])
            self._kinds.append(kind)
            if name in wanted and kind is not None:
                self.columns[name] = Column(f"f{place}", kind, bound_of(kind, largest))
                self._sql.append(f"CAST(c{place} AS {TYPES[kind]})")

    def _turns(self) -> list[Callable[[Any], Any]]:
        return [_TURNS[kind or "text"] for kind in self._kinds]

    def _table(self, query: Query) -> str:
        query.parameters["file"] = self._file
        query.parameters["columns"] = {f"c{place}": "VARCHAR" for place in range(len(self._names))}
        query.parameters["delimiter"] = self._delimiter
        return (
            "read_csv($file, auto_detect = FALSE, header = FALSE, skip = 1, columns = $columns, delim = $delimiter, "
            "quote = '', escape = '', nullstr = '', strict_mode = TRUE)"
        )


_TURNS: dict[Kind, Callable[[str | None], Any]] = {
    "int": lambda cell: None if cell is None else int(cell),
    "float": lambda cell: None if cell is None else finite(cell),
    "bool": lambda cell: None if cell is None else cell.lower() == "true",
    "text": lambda cell: cell,
}


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


def _kind_of(
    cells: int, wholes: int, numbers: int, booleans: int, largest: float | None, longest: int | None
) -> tuple[Kind | None, float | None]:
    """The kind of a column; None if it is empty."""
    if not cells:
        return None, None
    if wholes == cells:
        if (longest or 0) > _LONGEST_WHOLE:
            raise Unsupported
        return "int", largest
    if numbers == cells:
        if largest is None or largest == float("inf"):
            raise Unsupported
        return "float", largest
    return ("bool" if booleans == cells else "text"), None


def _readable(sql: str, type_name: str) -> str:
    return f"CASE WHEN isfinite({sql}) THEN CAST({sql} AS DOUBLE) END" if type_name in ("FLOAT", "DOUBLE") else sql


def _cell(sql: str, type_name: str) -> str:
    """SQL for the cells of a column. DuckDB needs another package to return times with a zone: they become UTC."""
    if type_name == _ZONED:
        return f"make_timestamp(epoch_us({sql})) AS {sql}"
    return f"to_json({sql}) AS {sql}" if _ZONED in type_name else sql


def _turn(type_name: str) -> Callable[[Any], Any]:
    if type_name == _ZONED:
        return lambda value: None if value is None else f"{_plain(value)}+00:00"
    return _of_json if _ZONED in type_name else _plain


def _of_json(value: str | None) -> Any:
    return None if value is None else json.loads(value, parse_float=finite, parse_constant=lambda _: None)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | decimal.Decimal):
        return finite(str(value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise Unsupported
