"""Connections to the database file, its migrations, the thread that reads it, and advice for its errors.

`schema.sql` has the tables. A released migration is never changed. Types and statements are kept to what PostgreSQL
understands too, except `BLOB`.
"""

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec

from sealyard import former
from sealyard.errors import StoreError

APPLICATION_ID = 0x79617264
"""Marks a database file as ours: `yard`."""

BUSY_SECONDS = 30
"""Seconds to wait for a lock of another program."""

_WAL_BYTES_KEPT = 64 << 20
"""A longer write-ahead log is cut after a checkpoint."""

_PERMISSIONS = "Make the file and its folder writable, or name another path for the store."
_ADVICE = {
    sqlite3.SQLITE_FULL: "Make room on its disk: what waits is written then.",
    sqlite3.SQLITE_IOERR: "Check its disk: what waits is written as soon as that works again.",
    sqlite3.SQLITE_BUSY: "End the program that holds its lock, such as a database shell in a transaction.",
    sqlite3.SQLITE_NOTADB: "Name another path for the store, or move this file away.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged: restore a copy, or move it away together with its -wal file.",
    sqlite3.SQLITE_READONLY: _PERMISSIONS,
    sqlite3.SQLITE_CANTOPEN: _PERMISSIONS,
    sqlite3.SQLITE_PERM: _PERMISSIONS,
}
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _read_migrations() -> tuple[str, ...]:
    text = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    sections = re.split(r"^-- schema \d+\n", text, flags=re.MULTILINE)[1:]
    sections.insert(former.SCHEMA, former.RENAME_ROWS)
    return tuple(sections)


MIGRATIONS = _read_migrations()
"""The one at index n leads from schema n to n + 1."""


def connect(path: Path, *, on_former: Callable[[], None] | None = None) -> sqlite3.Connection:
    """Open a connection that writes, to a database of the newest schema. The caller keeps others from opening it.

    `on_former` is called before a store of the product's former name is changed.

    Raises:
        StoreError: The file is not ours, or of a newer version.
        OSError, sqlite3.Error: It cannot be opened: see `explain`.
    """
    # Created here for its mode: it holds code and answers. SQLite gives the files beside it the same mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        _check_origin(connection, path)
        if on_former is not None and 0 < _pragma(connection, "user_version") <= former.SCHEMA:
            on_former()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write. A statement sees everything committed before it."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def open_blank(schema: int) -> sqlite3.Connection:
    """Open an empty store of a schema in memory, to compare tables with."""
    connection = sqlite3.connect(":memory:")
    for migration in MIGRATIONS[:schema]:
        connection.executescript(migration)
    return connection


def path_of(connection: sqlite3.Connection) -> Path:
    """The file of a connection: the locks of its gateways are beside it."""
    return Path(connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0])


def take_over(path: Path) -> None:
    """Copy the store of the product's former name to `path`, if there is one and `path` is free.

    Raises:
        StoreError: It cannot be copied.
    """
    former.take_over_store(path, lambda staged: connect(staged).close())


def explain(path: Path, attempt: str, error: OSError | sqlite3.Error) -> StoreError:
    """The error for a `path` that could not be `attempt`: opened, read or written."""
    if isinstance(error, OSError):
        reason, advice = f"{error.strerror}: {error.filename!r}", _PERMISSIONS
    else:
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF  # errors of the module itself have no code
        reason, advice = str(error), _ADVICE.get(kind, "Check that no other program changes the file.")
    return StoreError(f"The store {str(path)!r} cannot be {attempt}: {reason}. {advice}")


def _check_origin(connection: sqlite3.Connection, path: Path) -> None:
    version = _pragma(connection, "user_version")
    if _pragma(connection, "application_id") != APPLICATION_ID:
        if version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreError(
                f"{str(path)!r} is a database of another program. Name another path for the store: nothing was changed."
            )
    elif version > len(MIGRATIONS):
        raise StoreError(
            f"The store {str(path)!r} was written by a newer sealyard: it has schema {version}, and this version knows"
            f" schemas up to {len(MIGRATIONS)}. Upgrade sealyard, or name another path for the store."
        )


def _migrate(connection: sqlite3.Connection) -> None:
    """Migrate to the newest schema, each step wholly or not at all."""
    for number in range(_pragma(connection, "user_version"), len(MIGRATIONS)):
        connection.executescript(
            f"BEGIN EXCLUSIVE; {MIGRATIONS[number]}; PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {number + 1}; COMMIT"
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


# Reading


class Reader:
    """Runs one query at a time in a thread. It never waits for the writer, nor the writer for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, "sealyard-store-reader")
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    async def read(
        self, query: Callable[Concatenate[sqlite3.Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run `query` with the connection and the arguments. Raises `StoreError` if the store cannot be read."""
        if self._is_closed:
            raise StoreError(f"The store {str(self._path)!r} is closed. Open it again to read it.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: self._read(lambda c: query(c, *args, **kwargs)))

    async def close(self) -> None:
        """Close the connection after the waiting queries."""
        self._is_closed = True
        done = self._executor.submit(self._close)
        self._executor.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(done))  # a cancelled caller must not keep it open

    def _read(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            if self._connection is None:
                self._connection = connect_reader(self._path)
            return query(self._connection)
        except sqlite3.Error as error:
            raise explain(self._path, "read", error) from error
        except msgspec.DecodeError as error:
            raise StoreError(
                f"The store {str(self._path)!r} holds a value that cannot be read: {error}."
                " Use the version of sealyard that wrote it."
            ) from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
