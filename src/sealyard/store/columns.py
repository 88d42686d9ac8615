"""The fields of a struct as columns of a table, and the statements about them."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from sealyard.store.stored_json import encode_json, storable

PARAMETERS = 500
"""Parameters of one statement; every SQLite takes 999."""

_S = TypeVar("_S", bound=msgspec.Struct)


class Columns(Generic[_S]):
    """The fields of a struct as columns of the same names in `table`: one list for every statement about them.

    `json` fields are kept as JSON text, and `decode` has the functions for other columns that differ from their field.
    `read` has the SQL of a field that is not read from its column alone. Fields `left_out` are not read.
    """

    def __init__(
        self,
        table: str,
        struct: type[_S],
        *,
        json: Collection[str] = (),
        decode: Mapping[str, Callable[[Any], Any]] | None = None,
        read: Mapping[str, str] | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        hints = get_type_hints(struct)
        self.names = tuple(name for name in struct.__struct_fields__ if name not in left_out)
        self._table = table
        self._struct = struct
        self._json = json
        self._decode = {name: msgspec.json.Decoder(hints[name]).decode for name in json} | dict(decode or {})
        self._read = read or {}

    def all(self, connection: sqlite3.Connection, conditions: str = "", values: Any = ()) -> list[_S]:
        """Every row, in the order that `conditions` gives. `conditions` is the rest of the statement."""
        return [self.build(row) for row in self.execute(connection, conditions, values)]

    def first(self, connection: sqlite3.Connection, conditions: str, values: Any = ()) -> _S | None:
        """The first of those rows; None if there is none."""
        row = self.execute(connection, conditions, values).fetchone()
        return None if row is None else self.build(row)

    def execute(self, connection: sqlite3.Connection, conditions: str, values: Any) -> sqlite3.Cursor:
        """Select the rows for `build`."""
        return connection.execute(f"SELECT {self.listed()} FROM {self._table} {conditions}", values)  # noqa: S608

    def listed(self, table: str = "") -> str:
        """The columns for a `SELECT`, qualified with `table` if it is given."""
        prefix = f"{table}." if table else ""
        return ", ".join(self._read.get(name, prefix + name) for name in self.names)

    def build(self, row: Sequence[Any]) -> _S:
        """Build a struct from the columns of `listed`, in their order."""
        found = dict(zip(self.names, row, strict=True))
        for name, decode in self._decode.items():
            if found[name] is not None:
                found[name] = decode(found[name])
        return self._struct(**found)

    def values(self, record: _S, **instead: Any) -> dict[str, Any]:
        """The columns of a record by name, for `named_insert`; `instead` replaces some of them."""
        found = {name: getattr(record, name) for name in self.names if name not in instead}
        for name, value in found.items():
            if name in self._json:
                found[name] = encode_json(value)
            elif isinstance(value, str):
                found[name] = storable(value)
        return found | instead

    def put(self, connection: sqlite3.Connection, record: _S, *, key: str = "", **instead: Any) -> None:
        """Insert a record, in place of the one with the same `key` if a key is given."""
        values = self.values(record, **instead)
        names = ", ".join(values)
        statement = upsert(self._table, names, key=key) if key else named_insert(self._table, values)
        connection.execute(statement, tuple(values.values()) if key else values)


def named_insert(table: str, names: Iterable[str]) -> str:
    """The statement that inserts a row, given by a mapping with these names."""
    names = tuple(names)
    marks = ", ".join(f":{name}" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our names


def where(*conditions: tuple[str, object]) -> tuple[str, list[object]]:
    """The `WHERE` clause of those conditions whose value is not None, and these values."""
    given = [(condition, value) for condition, value in conditions if value is not None]
    clause = f" WHERE {' AND '.join(condition for condition, _ in given)}" if given else ""
    return clause, [value for _, value in given]


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows into the columns that `table` names. They must be small: a statement keeps its last values.

    Many rows share a statement, since each one costs several turns at Python's lock.
    """
    if not rows:
        return
    width = len(rows[0])
    size = PARAMETERS // width
    whole = len(rows) // size * size
    for start in range(0, whole, size):
        connection.execute(_insertion(table, width, size), list(chain.from_iterable(rows[start : start + size])))
    if whole < len(rows):
        connection.executemany(_insertion(table, width, 1), rows[whole:])


@cache
def _insertion(table: str, width: int, count: int) -> str:
    one = f"({', '.join('?' * width)})"
    return f"INSERT INTO {table} VALUES {', '.join([one] * count)}"  # noqa: S608 - our names


@cache
def upsert(table: str, columns: str, *, key: str) -> str:
    """The statement that inserts a row or replaces the one with the same `key`. Commas separate names."""
    names, keys = columns.split(", "), key.split(", ")
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    return f"{_insertion(f'{table} ({columns})', len(names), 1)} ON CONFLICT ({key}) DO UPDATE SET {changes}"
