"""The observed shapes of answers of tools that declare none: types and names of fields, never a value.

A shape belongs to a major version of a tool: within one, the fields that code reads stay.
"""

import sqlite3
from functools import partial
from typing import Any

import msgspec

from sealyard.store.database import Reader
from sealyard.store.rows import storable, upsert
from sealyard.store.writer import Writer

_KEPT = 500
"""Per upstream; those seen last."""
_SHAPE_BYTES = 128 << 10
_COLUMNS = "upstream, name, major, schema, state, answers, seen_at"
_SELECT = f"SELECT {_COLUMNS} FROM tool_shapes"  # noqa: S608


class SeenShape(msgspec.Struct, frozen=True, kw_only=True):
    """The observed answers of one major version of a tool."""

    upstream: str
    name: str
    major: int
    schema: dict[str, Any]
    state: str
    """The counts that reveal a change, in the format of `catalog.drift`."""
    answers: int
    seen_at: float
    """Seconds since the epoch."""


class ShapeTable:
    """The shapes of one store."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    def put(self, shape: SeenShape) -> None:
        """Keep a shape in place of the one before. Only enqueues; one over 128 KiB is not kept."""
        schema = msgspec.json.encode(shape.schema).decode()
        size_bytes = len(schema) + len(shape.state)
        if size_bytes <= _SHAPE_BYTES:
            self._writer.put(partial(_write, shape=shape, schema=schema), size_bytes)

    async def find(self, upstream: str, name: str, major: int) -> SeenShape | None:
        """The shape of one major version of a tool; `name` is the upstream's."""
        return await self._reader.read(read_shape, upstream, name, major)

    async def newest(self, limit: int) -> list[SeenShape]:
        """The most recent shapes of all tools, the newest first."""
        return await self._reader.read(_read_newest, limit)


def _write(connection: sqlite3.Connection, shape: SeenShape, schema: str) -> None:
    upstream, name = storable(shape.upstream), storable(shape.name)
    connection.execute(
        upsert("tool_shapes", _COLUMNS, key="upstream, name, major"),
        (upstream, name, shape.major, schema, shape.state, shape.answers, shape.seen_at),
    )
    connection.execute(
        "DELETE FROM tool_shapes WHERE upstream = ? AND seen_at < (SELECT seen_at FROM tool_shapes"
        " WHERE upstream = ? ORDER BY seen_at DESC LIMIT 1 OFFSET ?)",
        (upstream, upstream, _KEPT - 1),
    )


def read_shape(connection: sqlite3.Connection, upstream: str, name: str, major: int) -> SeenShape | None:
    """The shape of one major version of a tool."""
    query = f"{_SELECT} WHERE upstream = ? AND name = ? AND major = ?"
    row = connection.execute(query, (storable(upstream), storable(name), major)).fetchone()
    return None if row is None else _to_shape(row)


def _read_newest(connection: sqlite3.Connection, limit: int) -> list[SeenShape]:
    query = f"{_SELECT} ORDER BY seen_at DESC LIMIT ?"
    return [_to_shape(row) for row in connection.execute(query, (limit,))]


def _to_shape(row: tuple[Any, ...]) -> SeenShape:
    found = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return SeenShape(**found | {"schema": msgspec.json.decode(found["schema"])})
