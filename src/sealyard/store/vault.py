"""The rows of the vault. Everything private in them is sealed before it comes here.

Deleted rows leave no trace: freed pages are overwritten, and `scrub` empties the write-ahead log into the file.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from sealyard.errors import StoreError, VaultError
from sealyard.privacy.vault import SealedScope, SealedValue
from sealyard.store.columns import Columns
from sealyard.store.database import BUSY_SECONDS, Reader, explain, path_of
from sealyard.store.table import Table, reads, writes
from sealyard.store.writer import Writer

_T = TypeVar("_T")

_ROW_BYTES = 512
"""Memory of a row beside its sealed value, roughly."""
_BACKLOG_BYTES = 1 << 20
"""Values waiting to be written: about two thousand, which take a twentieth of a second.

Every other flush, such as at the end of a run, waits for them too.
"""

_IS_EMPTY = "NOT EXISTS (SELECT 1 FROM vault_values WHERE scope_id = vault_scopes.id)"
_PUT_VALUE = """
    INSERT INTO vault_values (scope_id, id, type, sealed, expires_at)
    SELECT ?1, ?2, ?3, ?4, ?5
    WHERE EXISTS (SELECT 1 FROM vault_scopes WHERE id = ?1)
      AND NOT EXISTS (SELECT 1 FROM vault_erased WHERE scope_id = ?1 AND id = ?2)
    ON CONFLICT (scope_id, id, type) DO UPDATE
    SET expires_at = excluded.expires_at, number = (SELECT max(number) + 1 FROM vault_values)
    WHERE excluded.expires_at > vault_values.expires_at
"""


class ScopeCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of values of one type in a scope. An empty scope has one count with no type, of 0."""

    scope: str
    key_id: str
    type: str
    values: int
    expires_at: float
    """The expiry of the last of them."""


_LAST_NUMBER = "coalesce((SELECT max(number) FROM vault_values WHERE scope_id = vault_scopes.id), 0)"
_SCOPES = Columns("vault_scopes", SealedScope, read={"name": "scope", "last_number": _LAST_NUMBER})
_VALUES = Columns("vault_values", SealedValue)
_COUNTS = Columns(
    "vault_scopes LEFT JOIN vault_values ON scope_id = vault_scopes.id",
    ScopeCount,
    read={"type": "coalesce(type, '')", "values": "count(number)", "expires_at": "coalesce(max(expires_at), 0)"},
)


# Writing


def _put_values(connection: sqlite3.Connection, seal: Callable[[], list[SealedValue]]) -> None:
    rows = ((value.scope_id, value.id, value.type, value.sealed, value.expires_at) for value in seal())
    connection.executemany(_PUT_VALUE, rows)


def _touch_scope(connection: sqlite3.Connection, scope_id: str, used_at: float) -> None:
    connection.execute("UPDATE vault_scopes SET used_at = ? WHERE id = ? AND used_at < ?", (used_at, scope_id, used_at))


def _add_scope(connection: sqlite3.Connection, scope: SealedScope) -> bool:
    """Add a scope, durably; False if its name is taken or another scope is sealed with another key."""
    added = connection.execute(
        "INSERT INTO vault_scopes (scope, id, key_id, sealed, erasures, used_at) SELECT ?1, ?2, ?3, ?4, 0, ?5"
        " WHERE NOT EXISTS (SELECT 1 FROM vault_scopes WHERE scope = ?1 OR key_id <> ?3)",
        (scope.name, scope.id, scope.key_id, scope.sealed, scope.used_at),
    )
    return added.rowcount == 1


def _erase_values(connection: sqlite3.Connection, scope: SealedScope, ids: Iterable[str], sealed: bytes) -> int | None:
    _delete_for_good(connection)
    replaced = connection.execute(
        "UPDATE vault_scopes SET sealed = ?, erasures = erasures + 1 WHERE id = ? AND sealed = ?",
        (sealed, scope.id, scope.sealed),
    )
    if replaced.rowcount == 0:
        return None
    count = 0
    for each in ids:
        deleted = connection.execute("DELETE FROM vault_values WHERE scope_id = ? AND id = ?", (scope.id, each))
        count += deleted.rowcount
        connection.execute("INSERT INTO vault_erased VALUES (?, ?) ON CONFLICT DO NOTHING", (scope.id, each))
    return count


def _erase_scopes(connection: sqlite3.Connection, names: Collection[str] | None) -> int:
    _delete_for_good(connection)
    if names is None:
        names = [name for (name,) in connection.execute("SELECT scope FROM vault_scopes")]
    count = 0
    for name in names:
        of_scope = "FROM vault_values WHERE scope_id = (SELECT id FROM vault_scopes WHERE scope = ?)"
        count += connection.execute(f"DELETE {of_scope}", (name,)).rowcount
        connection.execute("DELETE FROM vault_scopes WHERE scope = ?", (name,))
    return count


def _expire(connection: sqlite3.Connection, now: float, unused_since: float) -> int:
    _delete_for_good(connection)
    connection.execute(
        "UPDATE vault_scopes SET erasures = erasures + 1"
        " WHERE id IN (SELECT DISTINCT scope_id FROM vault_values WHERE expires_at <= ?)",
        (now,),
    )
    count = connection.execute("DELETE FROM vault_values WHERE expires_at <= ?", (now,)).rowcount
    connection.execute(f"DELETE FROM vault_scopes WHERE used_at < ? AND {_IS_EMPTY}", (unused_since,))  # noqa: S608
    return count


def _reseal(
    connection: sqlite3.Connection, reseal: Callable[[SealedScope], SealedScope | VaultError], key_id: str
) -> int | VaultError:
    _delete_for_good(connection)
    made = [reseal(row) for row in _read_scopes(connection) if row.key_id != key_id]
    for row in made:
        if isinstance(row, VaultError):
            return row
    connection.executemany(
        "UPDATE vault_scopes SET sealed = ?, key_id = ? WHERE id = ?",
        [(row.sealed, row.key_id, row.id) for row in made if isinstance(row, SealedScope)],
    )
    return len(made)


def _delete_for_good(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA secure_delete = ON").fetchone()


def _empty_log(path: Path) -> bool:
    """True if the write-ahead log is empty and all of it is in the file."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            return bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
    except sqlite3.Error as error:
        raise explain(path, "written", error) from error


# Reading


def _read_scope(connection: sqlite3.Connection, name: str) -> SealedScope | None:
    """One scope with its counters."""
    return _SCOPES.first(connection, "WHERE scope = ?", (name,))


def _read_scopes(connection: sqlite3.Connection) -> list[SealedScope]:
    """All scopes."""
    return _SCOPES.all(connection, "ORDER BY scope")


def _read_key_id(connection: sqlite3.Connection) -> str | None:
    """The id of the key that seals the scopes; None if there are none."""
    row = connection.execute("SELECT key_id FROM vault_scopes LIMIT 1").fetchone()
    return None if row is None else row[0]


def _read_values(connection: sqlite3.Connection, scope_id: str, *, after: int, now: float) -> list[SealedValue]:
    """The values of a scope that are not expired and have a larger number, the oldest first."""
    conditions = "WHERE scope_id = ? AND number > ? AND expires_at > ? ORDER BY number"
    return _VALUES.all(connection, conditions, (scope_id, after, now))


def _read_values_of_id(
    connection: sqlite3.Connection, value_id: str, kind: str, *, now: float
) -> list[tuple[SealedScope, SealedValue]]:
    """The values of that id and type in all scopes, without expired ones."""
    conditions = "WHERE scope_id = ? AND id = ? AND type = ? AND expires_at > ?"
    found = []
    for scope in _read_scopes(connection):
        value = _VALUES.first(connection, conditions, (scope.id, value_id, kind, now))
        if value is not None:
            found.append((scope, value))
    return found


def _read_erased(connection: sqlite3.Connection, scope_id: str) -> list[str]:
    """All ids that were ever erased in a scope."""
    return [each for (each,) in connection.execute("SELECT id FROM vault_erased WHERE scope_id = ?", (scope_id,))]


def _read_counts(connection: sqlite3.Connection) -> list[ScopeCount]:
    """Numbers of values, by scope and type."""
    return _COUNTS.all(connection, "GROUP BY scope, key_id, type ORDER BY scope, type")


def _has_expired(connection: sqlite3.Connection, now: float, unused_since: float) -> bool:
    values = "SELECT 1 FROM vault_values WHERE expires_at <= ?"
    scopes = f"SELECT 1 FROM vault_scopes WHERE used_at < ? AND {_IS_EMPTY}"  # noqa: S608
    return bool(connection.execute(f"SELECT EXISTS ({values}) OR EXISTS ({scopes})", (now, unused_since)).fetchone()[0])


class VaultTables(Table):
    """The storage behind `privacy.vault`. Raises `StoreError` as the store does."""

    def __init__(self, writer: Writer, reader: Reader, path: Path) -> None:
        super().__init__(writer, reader)
        self._mark = path.with_name(f"{path.name}.d") / "erased"

    def stamp(self) -> int:
        """A number that changes whenever any process erases values or changes keys. Costs a microsecond."""
        try:
            return self._mark.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def put_values(self, seal: Callable[[], list[SealedValue]], count: int, size_bytes: int) -> None:
        """Enqueue values, or their new expiry: the result of `seal`, called in the thread that writes.

        A value is dropped if its scope is gone or its id was erased. A new expiry gives it a new number too, so that
        other processes see it.
        """
        self._writer.put(partial(_put_values, seal=seal), size_bytes + count * _ROW_BYTES)

    async def room(self) -> None:
        """Return at once while few values wait to be written, else when they are on disk."""
        await self._writer.room(_BACKLOG_BYTES)

    def touch_scope(self, scope_id: str, used_at: float) -> None:
        """Enqueue the time of a scope's last use."""
        self._writer.put(partial(_touch_scope, scope_id=scope_id, used_at=used_at), _ROW_BYTES)

    find_scope = reads(_read_scope)
    scopes = reads(_read_scopes)
    key_in_use = reads(_read_key_id)
    read_values = reads(_read_values)
    find_values = reads(_read_values_of_id)
    erased_ids = reads(_read_erased)
    counts = reads(_read_counts)

    add_scope = writes(_add_scope)

    async def erase_values(self, scope: SealedScope, ids: Sequence[str], sealed: bytes) -> int | None:
        """Delete values and replace the secrets of their scope; None if the scope has changed."""
        return await self._change(partial(_erase_values, scope=scope, ids=ids, sealed=sealed))

    async def erase_scopes(self, names: Collection[str] | None) -> int:
        """Delete scopes, or all of them, and return the number of their values."""
        return await self._change(partial(_erase_scopes, names=names))

    async def expire(self, *, now: float, unused_since: float) -> int:
        """Delete expired values, and empty scopes that were unused since a time; returns the number of values."""
        if not await self._reader.read(_has_expired, now, unused_since):
            return 0
        return await self._writer.change(partial(_expire, now=now, unused_since=unused_since))

    async def reseal(
        self, reseal: Callable[[SealedScope], SealedScope | VaultError], *, key_id: str
    ) -> int | VaultError:
        """Replace each scope of another key by the result of `reseal`, all at once; returns their number.

        If it returns an error for one, nothing changes and that error is returned.
        """
        return await self._change(partial(_reseal, reseal=reseal, key_id=key_id))

    async def _change(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Make a change, and make all processes that use the store read it again."""
        try:
            return await self._writer.change(work)
        finally:
            self._mark.write_bytes(b"")
            os.utime(self._mark, ns=(now := time.time_ns(), now))

    async def scrub(self) -> None:
        """Remove deleted and replaced values from the disk: the write-ahead log has older copies.

        Raises:
            StoreError: A copy stays, because another program keeps reading.
        """
        path = await self._reader.read(path_of)
        if not await asyncio.to_thread(_empty_log, path):
            raise StoreError(
                f"It is done in the store {str(path)!r}, but another program reads it for long, so that sealed copies"
                " of what was there stay in its -wal file for now. End that program, and run the command again."
            )
