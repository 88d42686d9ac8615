"""Looks through a database that came from elsewhere: whether it is whole, ours, and as sealyard makes it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sealyard.store.schema import APPLICATION_ID, MIGRATIONS

_COUNTED = ("executions", "calls", "skills", "audit", "facts")
_TOLD = 3
"""Of what is wrong with it."""


class Damaged(Exception):
    """Something is not as it was written, in words that follow a colon."""


def inspect(database: Path) -> int:
    """The schema of a store that nobody uses, after all of it was read.

    Raises:
        Damaged: It is damaged, another program's, of a newer version, or has tables that sealyard does not make.
    """
    with _open(database) as connection:
        schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise Damaged("its database is not one of sealyard")
        if not 1 <= schema <= len(MIGRATIONS):
            raise Damaged(
                f"its database has schema {schema}, and this sealyard knows schemas 1 to {len(MIGRATIONS)}; upgrade it"
            )
        with closing(sqlite3.connect(":memory:")) as right:
            for migration in MIGRATIONS[:schema]:
                right.executescript(migration)
            if _layout(connection) != _layout(right):
                raise Damaged("the tables of its database are not as sealyard makes them")
        wrong = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_TOLD})")]
        if wrong != ["ok"]:
            raise Damaged(f"its database is damaged ({'; '.join(map(str, wrong))})")
        if connection.execute("PRAGMA foreign_key_check").fetchone():
            raise Damaged("rows are missing in its database")
    return schema


def count_rows(database: Path) -> dict[str, int]:
    """How many rows some tables have."""
    with _open(database) as connection:
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - names from above
            for name in _COUNTED
            if name in there
        }


@contextmanager
def _open(database: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that nobody else uses, on which nothing of the file's own is run."""
    uri = f"file:{quote(str(database))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            yield connection
    except sqlite3.Error as error:
        raise Damaged(f"its database cannot be read ({error})") from None


def _layout(connection: sqlite3.Connection) -> tuple[list[Any], list[Any]]:
    """Every table, index, view and trigger, and the columns of the tables.

    Not their texts: SQLite writes those of altered tables anew, and not always in the same way.
    """
    objects = connection.execute(
        "SELECT type, name, tbl_name FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_' ORDER BY type, name"
    ).fetchall()
    columns = [
        connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?)', (name,)).fetchall()
        for kind, name, _ in objects
        if kind == "table"
    ]
    return objects, columns
