"""What came of skills as rows and back, for the store's threads: their uses, and how their migrations ended."""

import itertools
import sqlite3
from typing import Any

import msgspec

from sealyard.store.skill_rows import unicode
from sealyard.values import SkillUse

__all__ = (
    "MigrationRecord",
    "SkillRecord",
    "UseShare",
    "add_uses",
    "insert_migration",
    "read_migrations",
    "read_reuse",
    "read_uses",
    "roll_up",
    "use_row",
)

_ERROR_CHARACTERS = 2_000
_MOST = 2**31
_ROLLED_AT_ONCE = 500
"""Rows in one transaction: others write in between."""


class UseShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one principal made of a skill."""

    principal: str
    uses: int
    calls: int
    failures: int


class SkillRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of one version of a skill."""

    namespace: str
    name: str
    version: str
    uses: int = 0
    """Executions that used it."""
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    """Of all calls together."""
    last_used_at: float | None = None
    """Seconds since the epoch."""
    principals: int = 0
    """How many used it."""
    translated: int = 0
    last_error: str | None = None
    shares: tuple[UseShare, ...] = ()
    """Of each who used it, by name."""


class MigrationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was predicted of a migration, and what came of it."""

    namespace: str
    name: str
    from_version: str
    to_version: str | None = None
    """None if it was refused."""
    tool: str
    tool_from: str
    tool_to: str
    predicted: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    at: float
    """Seconds since the epoch."""
    change: str = ""
    """What kind of change it was for, such as `rename_parameter`; empty if that was not recorded."""


def add_uses(connection: sqlite3.Connection, values: list[tuple[Any, ...]]) -> None:
    """Add uses to those of the same execution."""
    connection.executemany(
        "INSERT INTO skill_uses (namespace, name, version, execution_id, principal, at, calls, failures, seconds,"
        " error, translated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (namespace, name, version, execution_id) DO UPDATE SET at = excluded.at,"
        " calls = calls + excluded.calls, failures = failures + excluded.failures,"
        " seconds = seconds + excluded.seconds, error = coalesce(excluded.error, error),"
        " translated = translated + excluded.translated",
        values,
    )


def use_row(use: SkillUse) -> tuple[Any, ...]:
    """A use as it is stored. Some of it is what a guest said: no value may make the write fail."""
    return (
        unicode(use.namespace),
        unicode(use.name),
        unicode(use.version),
        unicode(use.execution_id),
        unicode(use.principal),
        use.at,
        _count(use.calls),
        _count(use.failures),
        min(use.seconds, float(_MOST)) if use.seconds > 0 else 0.0,  # NaN is not
        None if use.error is None else unicode(use.error[:_ERROR_CHARACTERS]),
        _count(use.translated),
    )


def _count(number: int) -> int:
    return min(max(number, 0), _MOST)


_EVERY_USE = (
    "SELECT namespace, name, version, principal, 1 AS uses, calls, failures, seconds, translated, at, error"
    " FROM skill_uses WHERE at >= :since UNION ALL SELECT namespace, name, version, principal, uses, calls, failures,"
    " seconds, translated, last_at, error FROM skill_use_sums WHERE last_at >= :since"
)
_SHARES = (
    "SELECT namespace, name, version, principal, sum(uses), sum(calls), sum(failures), sum(seconds), sum(translated),"  # noqa: S608
    f" max(at) FROM ({_EVERY_USE}) GROUP BY namespace, name, version, principal"
    " ORDER BY namespace, name, version, principal"
)
_VERSION = " WHERE namespace = :namespace AND name = :name AND version = :version AND error IS NOT NULL"
_LAST_ERROR = (
    f"SELECT error FROM (SELECT error, at FROM skill_uses{_VERSION} UNION ALL"  # noqa: S608
    f" SELECT error, last_at FROM skill_use_sums{_VERSION}) WHERE at >= :since ORDER BY at DESC LIMIT 1"
)


def read_uses(connection: sqlite3.Connection, since: float) -> list[SkillRecord]:
    """What was made of each version that was used since then; of uses that were rolled up, all or none."""
    rows = connection.execute(_SHARES, {"since": since}).fetchall()
    return [
        _to_record(connection, place, list(shares), since)
        for place, shares in itertools.groupby(rows, key=lambda row: row[:3])
    ]


def _to_record(
    connection: sqlite3.Connection, place: tuple[str, str, str], rows: list[tuple[Any, ...]], since: float
) -> SkillRecord:
    version = dict(zip(("namespace", "name", "version"), place, strict=True))
    error = connection.execute(_LAST_ERROR, {**version, "since": since}).fetchone()
    _, _, _, _, uses, calls, failures, seconds, translated, at = zip(*rows, strict=True)
    return SkillRecord(
        **version,
        uses=sum(uses),
        calls=sum(calls),
        failures=sum(failures),
        seconds=sum(seconds),
        last_used_at=max(at),
        principals=len(rows),
        translated=sum(translated),
        last_error=None if error is None else error[0],
        shares=tuple(UseShare(principal=row[3], uses=row[4], calls=row[5], failures=row[6]) for row in rows),
    )


def roll_up(connection: sqlite3.Connection, before: float, most: int) -> int:
    """Add the oldest uses to the sums of who made them, and remove their rows; how many, 0 if there are no more.

    Old are those from before a time, and all that are not among the newest `most`.
    """
    newest = connection.execute("SELECT at FROM skill_uses ORDER BY at DESC LIMIT 1 OFFSET ?", (most - 1,)).fetchone()
    edge = before if newest is None else max(before, newest[0])
    numbers = connection.execute(
        "SELECT rowid FROM skill_uses WHERE at < ? ORDER BY at LIMIT ?", (edge, _ROLLED_AT_ONCE)
    ).fetchall()
    for (number,) in numbers:  # the oldest first, so that the last error is the newest one
        connection.execute(
            "INSERT INTO skill_use_sums (namespace, name, version, principal, uses, calls, failures, seconds,"
            " translated, last_at, error) SELECT namespace, name, version, principal, 1, calls, failures, seconds,"
            " translated, at, error FROM skill_uses WHERE rowid = ?"
            " ON CONFLICT (namespace, name, version, principal) DO UPDATE SET uses = uses + 1,"
            " calls = calls + excluded.calls, failures = failures + excluded.failures,"
            " seconds = seconds + excluded.seconds, translated = translated + excluded.translated,"
            " last_at = max(last_at, excluded.last_at), error = coalesce(excluded.error, error)",
            (number,),
        )
    connection.executemany("DELETE FROM skill_uses WHERE rowid = ?", numbers)
    return len(numbers)


_MIGRATION_COLUMNS = ", ".join(MigrationRecord.__struct_fields__)


def insert_migration(connection: sqlite3.Connection, values: list[Any]) -> None:
    """Keep how a migration ended."""
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO skill_migrations ({_MIGRATION_COLUMNS}) VALUES ({marks})", values)  # noqa: S608


def read_reuse(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many executions of the journal used a skill, and how many there are."""
    query = "SELECT count(*) FROM executions WHERE execution_id IN (SELECT execution_id FROM skill_uses)"
    used = connection.execute(query).fetchone()[0]
    return used, connection.execute("SELECT count(*) FROM executions").fetchone()[0]


def read_migrations(connection: sqlite3.Connection) -> list[MigrationRecord]:
    """How every migration ended, the oldest first."""
    rows = connection.execute(f"SELECT {_MIGRATION_COLUMNS} FROM skill_migrations ORDER BY number")  # noqa: S608
    return [MigrationRecord(**dict(zip(MigrationRecord.__struct_fields__, row, strict=True))) for row in rows]
