"""Files as DuckDB reads them: which fields have values of one kind, and those fields as columns `f0`, `f1` and on.

The invariant of `duck_sql` holds here too: names of fields and of files are bound.
"""

# ruff: noqa: S608 - see the invariant

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .duck_sql import EXACT, LARGEST, TYPES, Beyond, Column, Kind, Query
from .plan import Field, Row

if TYPE_CHECKING:
    import duckdb

_TEXT, _BOOLEAN, _WHOLE, _OTHER, _NESTED, _ODD = 1, 2, 4, 8, 16, 32
# Of the JSON text of a value. Odd are whole numbers of many digits, NaN and infinity, which DuckDB has as floats, and
# values in objects that have a key twice.
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


class RowFile(Protocol):
    """A file of rows: `JsonFile` reads objects, `CsvFile` and `ParquetFile` columns."""

    rows: int
    """How many it has; known after `profile`."""
    columns: dict[str, Column]
    """The fields that have values of one kind, by the name in the request; known after `profile`."""
    shown: str
    """SQL for what `rows_of` makes rows from."""

    def profile(self, fields: Sequence[Field]) -> None:
        """Look at these fields in all rows."""

    def relation(self, query: Query, *, whole: bool) -> str:
        """SQL for all rows in order, with the columns and, if `whole`, what rows are made from."""

    def rows_of(self, fetched: Iterable[tuple[Any, ...]]) -> list[Row]:
        """The rows that a statement found."""


class JsonFile:
    """JSON lines, or one list of objects."""

    shown = "json"

    def __init__(self, connection: "duckdb.DuckDBPyConnection", file: str, *, lines: bool) -> None:
        self._connection = connection
        self._file = file
        self._format = "newline_delimited" if lines else "array"
        self._paths: dict[str, tuple[str, ...]] = {}
        self.columns: dict[str, Column] = {}
        self.rows = 0

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
        """The objects as Python reads them, so that they are what the other engine would have."""
        rows = [json.loads(text, parse_float=finite, parse_constant=lambda _: None) for (text,) in fetched]
        if not all(type(row) is dict for row in rows):
            raise Beyond
        return rows

    def _reading(self, query: Query, kinds: dict[str, str]) -> tuple[str, list[str]]:
        """SQL that reads the fields by their types, and the SQL of each; a key that stands twice is an error."""
        tops: dict[str, str] = {}
        for name, kind in kinds.items():
            top, *inner = self._paths[name]
            if not inner and tops.get(top) == "JSON":
                raise Beyond
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
        """SQL for whether an object on the way to a nested field has a key twice; in the row itself it is an error."""
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
            raise Beyond

    def _count(self, condition: str) -> int:
        query = Query({})
        return int(self._one(f"SELECT count(*) FROM {self._objects(query)} WHERE {condition}", query)[0])

    def _one(self, sql: str, query: Query) -> tuple[Any, ...]:
        found = self._connection.execute(sql, query.used(sql)).fetchone()
        assert found is not None
        return found


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
    """How large the numbers of a column get, if `largest` is the float nearest to the largest."""
    if kind != "int":
        return largest or 0
    # The next whole number after `EXACT` rounds to it.
    return int(largest or 0) if (largest or 0) < EXACT else LARGEST


def named(columns: dict[str, Column], sql: Sequence[str]) -> list[str]:
    """The SQL of each column under its own name."""
    return [f"{each} AS {column.sql}" for column, each in zip(columns.values(), sql, strict=True)]


def _json_path(path: Sequence[str]) -> str:
    """A path of DuckDB's JSON functions, which know a wildcard and escapes that no field here may use."""
    if any(not name or set(name) & set('"\\*') for name in path):
        raise Beyond
    return "$" + "".join(f'."{name}"' for name in path)


def finite(text: str) -> float | None:
    """The number, or null if it is too large for a float."""
    number = float(text)
    return number if math.isfinite(number) else None
