"""Versions of skills, their uses and their migrations; shared by all gateways that have the store open.

A version never changes, except for its status, its note and the results of its examples. Concurrent saves of one name
become versions in the order of their writes.

A version without its examples is one JSON text; its mutable fields and lookup keys have columns of their own.
"""

import asyncio
import itertools
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.errors import InvalidSkill
from sealyard.store.columns import PARAMETERS, Columns, named_insert, upsert
from sealyard.store.database import Reader
from sealyard.store.stored_json import encode_strictly, storable
from sealyard.store.table import Table, reads, writes
from sealyard.store.writer import ROW_BYTES, Writer
from sealyard.values.changes import Severity, Version
from sealyard.values.skills import (
    MigrationRecord,
    ShelfLimits,
    Skill,
    SkillExample,
    SkillRecord,
    SkillStatus,
    SkillUse,
    UseShare,
    unknown_version,
)

_USES_KEPT = 50_000
"""Single uses of all skills together: some 10 MB. The sums have the older ones too."""
_ERROR_CHARACTERS = 2_000
"""Of a skill's last error, which guests write: the message and the innermost lines of a traceback."""
_MOST = 2**31
"""The largest figure that is taken from a guest: sums of it fit into an integer of the database."""
_REMOVED_AT_ONCE = 500
"""Rows in one transaction: other writes come in between."""
_RAW_FACTOR = 16
"""Examples may be this many times as large as their limit before compression: zlib makes JSON some ten times smaller,
and larger ones are not worth the time to try."""

_SKILLS = msgspec.json.Decoder(Skill)
_EXAMPLES = msgspec.json.Decoder(tuple[SkillExample, ...])

_ROW = "SELECT number, major, minor, patch, status, note, created_at, skill FROM skills"
_ONE = " WHERE namespace = ? AND name = ? AND major = ? AND minor = ? AND patch = ?"
_CHANGED = "(SELECT coalesce(max(changed), 0) + 1 FROM skills)"
"""The next number for `changed`."""


# Versions as rows


def _insert(
    connection: sqlite3.Connection,
    skill: Skill,
    text: str,
    examples: bytes | None,
    severity: Severity,
    head: int | None,
    limits: ShelfLimits,
) -> Version | InvalidSkill | None:
    """Insert a version and return its number; or the reason against it; None if `head` is not the newest any more."""
    place = (skill.namespace, skill.name)
    count, newest = connection.execute(
        "SELECT count(*), max(number) FROM skills WHERE namespace = ? AND name = ? AND deleted_at IS NULL", place
    ).fetchone()
    if newest != head:
        return None
    if count >= limits.versions:
        return InvalidSkill(
            f"The skill {skill.name!r} has {count:,} versions, which is the limit."
            " Delete old ones, or use another name."
        )
    if head is None:
        names = connection.execute(
            "SELECT count(DISTINCT name) FROM skills WHERE namespace = ? AND deleted_at IS NULL", place[:1]
        ).fetchone()[0]
        if names >= limits.skills:
            return InvalidSkill(
                f"The namespace {skill.namespace!r} holds {names:,} skills, which is the limit."
                " Delete some: `sealyard skills --cleanup` names those that nobody uses."
            )
    highest = connection.execute(
        "SELECT major, minor, patch FROM skills WHERE namespace = ? AND name = ?"
        " ORDER BY major DESC, minor DESC, patch DESC LIMIT 1",
        place,
    ).fetchone()
    version = Version(1) if highest is None else Version(*highest).bumped("patch" if severity == "none" else severity)
    number = connection.execute(
        "INSERT INTO skills (namespace, name, major, minor, patch, status, note, digest, skill, created_at,"  # noqa: S608
        f" modified_at, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {_CHANGED})",
        (
            *place,
            version.major,
            version.minor,
            version.patch,
            skill.status,
            storable(skill.note),
            skill.digest,
            text,
            skill.created_at,
            skill.modified_at,
        ),
    ).lastrowid
    if examples is not None:
        connection.execute("INSERT INTO skill_examples (skill, examples) VALUES (?, ?)", (number, examples))
    return version


def _update(connection: sqlite3.Connection, skill: Skill, examples: bytes | None) -> bool:
    """Write what may change of a version; False if there is no such version."""
    place = (skill.namespace, skill.name, *_numbers(skill.version))
    row = connection.execute(f"SELECT number FROM skills{_ONE} AND deleted_at IS NULL", place).fetchone()  # noqa: S608
    if row is None:
        return False
    connection.execute(
        f"UPDATE skills SET status = ?, note = ?, changed = {_CHANGED} WHERE number = ?",  # noqa: S608
        (skill.status, storable(skill.note), row[0]),
    )
    if examples is not None:
        connection.execute(upsert("skill_examples", "skill, examples", key="skill"), (row[0], examples))
    return True


def _delete(
    connection: sqlite3.Connection, namespace: str, name: str, numbers: tuple[int, int, int] | None, now: float
) -> int:
    where = " WHERE namespace = ? AND name = ?" if numbers is None else _ONE
    return connection.execute(
        f"UPDATE skills SET deleted_at = ?, changed = {_CHANGED}{where} AND deleted_at IS NULL",  # noqa: S608
        (now, namespace, name, *(numbers or ())),
    ).rowcount


def _read_head(connection: sqlite3.Connection, namespace: str, name: str) -> tuple[int | None, Skill | None]:
    """The number of the newest version that is not deleted, and that version without its examples."""
    order = " WHERE namespace = ? AND name = ? AND deleted_at IS NULL ORDER BY number DESC LIMIT 1"
    row = connection.execute(_ROW + order, (namespace, name)).fetchone()
    return (None, None) if row is None else (row[0], _to_skill(row))


def _read_one(
    connection: sqlite3.Connection,
    namespace: str,
    name: str,
    version: str,
    *,
    with_examples: bool = True,
    with_deleted: bool = False,
) -> Skill | None:
    """One version; None if there is none."""
    kept = "" if with_deleted else " AND deleted_at IS NULL"
    row = connection.execute(_ROW + _ONE + kept, (namespace, name, *_numbers(version))).fetchone()
    if row is None:
        return None
    return _with_examples(connection, row) if with_examples else _to_skill(row)


def _read_versions(
    connection: sqlite3.Connection, namespace: str, name: str, *, with_examples: bool = False
) -> list[Skill]:
    """Every version of a skill that is not deleted, the newest first."""
    order = " WHERE namespace = ? AND name = ? AND deleted_at IS NULL ORDER BY number DESC"
    rows = connection.execute(_ROW + order, (namespace, name)).fetchall()
    return [_with_examples(connection, row) if with_examples else _to_skill(row) for row in rows]


def _read_statuses(
    connection: sqlite3.Connection, namespaces: Sequence[str], name: str
) -> list[tuple[str, str, SkillStatus]]:
    """Namespace, version and status of each version of a name: namespace by namespace, the newest first.

    Deleted versions are left out. Cheaper than `versions`.
    """
    query = (
        "SELECT namespace, major, minor, patch, status FROM skills"
        " WHERE namespace = ? AND name = ? AND deleted_at IS NULL ORDER BY number DESC"
    )
    rows = [row for namespace in namespaces for row in connection.execute(query, (namespace, name))]
    return [(namespace, str(Version(*numbers)), status) for namespace, *numbers, status in rows]


def _read_deleted(connection: sqlite3.Connection, namespace: str, name: str) -> dict[str, float]:
    """The time of deletion of each deleted version of a skill, the newest version first."""
    rows = connection.execute(
        "SELECT major, minor, patch, deleted_at FROM skills"
        " WHERE namespace = ? AND name = ? AND deleted_at IS NOT NULL ORDER BY number DESC",
        (namespace, name),
    )
    return {str(Version(major, minor, patch)): deleted_at for major, minor, patch, deleted_at in rows}


def _read_newest(
    connection: sqlite3.Connection, namespaces: Sequence[str], *, status: SkillStatus | None = None
) -> list[Skill]:
    """The newest version of each skill in these namespaces, without examples, by namespace and name.

    Skips deleted versions, and those of another status if one is given.
    """
    found: list[Skill] = []
    for start in range(0, len(namespaces), PARAMETERS):
        some = namespaces[start : start + PARAMETERS]
        marks = ", ".join("?" * len(some))
        kept = f"deleted_at IS NULL AND namespace IN ({marks})" + ("" if status is None else " AND status = ?")
        inside = f"SELECT max(number) FROM skills WHERE {kept} GROUP BY namespace, name"  # noqa: S608
        query = f"{_ROW} WHERE number IN ({inside}) ORDER BY namespace, name"
        values = some if status is None else (*some, status)
        found += [_to_skill(row) for row in connection.execute(query, values)]
    return found


def _read_names(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The namespace and name of every skill that is not deleted."""
    query = "SELECT DISTINCT namespace, name FROM skills WHERE deleted_at IS NULL ORDER BY namespace, name"
    return connection.execute(query).fetchall()


def _read_stamp(connection: sqlite3.Connection) -> int:
    """A number that grows with every change to any version, by any gateway."""
    stamp: int = connection.execute("SELECT coalesce(max(changed), 0) FROM skills").fetchone()[0]
    return stamp


def _to_skill(row: tuple[Any, ...], examples: tuple[SkillExample, ...] = ()) -> Skill:
    _, major, minor, patch, status, note, created_at, text = row
    return msgspec.structs.replace(
        _SKILLS.decode(text),
        version=str(Version(major, minor, patch)),
        status=status,
        note=note,
        created_at=created_at,
        examples=examples,
    )


def _with_examples(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Skill:
    kept = connection.execute("SELECT examples FROM skill_examples WHERE skill = ?", (row[0],)).fetchone()
    return _to_skill(row, () if kept is None else _EXAMPLES.decode(zlib.decompress(kept[0])))


def _encode(skill: Skill, limits: ShelfLimits) -> tuple[str, bytes | None]:
    """The JSON text of a version without the fields that have columns, and its examples."""
    bare = msgspec.structs.replace(skill, examples=(), version="0.0.0", status="draft", note="", created_at=0.0)
    text = _json(bare).decode()
    try:
        _SKILLS.decode(text)
    except msgspec.ValidationError as error:  # such as a time that is not a number
        raise InvalidSkill(f"The skill cannot be kept: {error}. Change it and try again.") from None
    return text, _compress(skill.examples, limits) if skill.examples else None


def _compress(examples: tuple[SkillExample, ...], limits: ShelfLimits) -> bytes:
    """Compress examples. Raises `InvalidSkill` if they are too large or JSON cannot hold them."""
    raw = _json(examples)
    data = zlib.compress(raw) if len(raw) <= _RAW_FACTOR * limits.examples_bytes else raw
    if len(data) > limits.examples_bytes:
        raise InvalidSkill(
            f"The examples with their recorded answers take {len(data):,} bytes, and {limits.examples_bytes:,} are"
            " allowed. Save fewer examples, or ones that fetch less."
        )
    return data


def _json(value: Any) -> bytes:
    """JSON that can be read again."""
    try:
        return encode_strictly(value).encode()
    except UnicodeEncodeError:
        raise InvalidSkill("The skill holds text that is not Unicode, half of a surrogate pair. Take it out.") from None
    except (msgspec.DecodeError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidSkill(
            f"The skill holds a value that JSON cannot hold: {error}. Use plain, shallow data."
        ) from None


def _is_same(newest: Skill, skill: Skill) -> bool:
    """True if `skill` adds nothing to `newest`."""
    return (newest.digest, newest.status, newest.level) == (skill.digest, skill.status, skill.level)


def _numbers(version: str) -> tuple[int, int, int]:
    numbers = Version.parse(version)
    return numbers.major, numbers.minor, numbers.patch


# Uses and migrations as rows


_USES = Columns("skill_uses", SkillUse)
_ADDED = ", ".join(f"{name} = {name} + excluded.{name}" for name in ("calls", "failures", "seconds", "translated"))
_HAS_USE = (
    "SELECT 1 FROM skill_uses WHERE namespace = :namespace AND name = :name AND version = :version"
    " AND execution_id = :execution_id"
)
_ADD_USE = (
    f"{named_insert('skill_uses', _USES.names)} ON CONFLICT (namespace, name, version, execution_id) DO UPDATE SET"
    f" at = excluded.at, {_ADDED}, error = coalesce(excluded.error, error)"
)
_ADD_SUM = (
    "INSERT INTO skill_use_sums (namespace, name, version, principal, uses, calls, failures, seconds, translated,"  # noqa: S608
    " last_at, error) VALUES (:namespace, :name, :version, :principal, :uses, :calls, :failures, :seconds, :translated,"
    " :at, :error) ON CONFLICT (namespace, name, version, principal) DO UPDATE SET uses = uses + excluded.uses,"
    f" {_ADDED}, last_at = max(last_at, excluded.last_at), error = coalesce(excluded.error, error)"
)


def _add_uses(connection: sqlite3.Connection, values: list[dict[str, Any]]) -> None:
    """Add uses to their rows and to the sums. Several by one execution are one use."""
    for use in values:
        is_new = connection.execute(_HAS_USE, use).fetchone() is None
        connection.execute(_ADD_USE, use)
        connection.execute(_ADD_SUM, {**use, "uses": int(is_new)})


def _use_values(use: SkillUse) -> dict[str, Any]:
    """The columns of a use. The guest reports some of them: no value may make the write fail."""
    return _USES.values(
        use,
        calls=_count(use.calls),
        failures=_count(use.failures),
        seconds=min(use.seconds, float(_MOST)) if use.seconds > 0 else 0.0,  # NaN is not greater
        error=None if use.error is None else storable(use.error[:_ERROR_CHARACTERS]),
        translated=_count(use.translated),
    )


def _count(number: int) -> int:
    return min(max(number, 0), _MOST)


_SHARES = (
    "SELECT namespace, name, version, principal, uses, calls, failures, seconds, translated, last_at, error"
    " FROM skill_use_sums ORDER BY namespace, name, version, principal"
)


def _read_uses(connection: sqlite3.Connection) -> list[SkillRecord]:
    """The record of each version that was ever used, by namespace, name and version."""
    rows = connection.execute(_SHARES).fetchall()
    return [_to_record(place, list(shares)) for place, shares in itertools.groupby(rows, key=lambda row: row[:3])]


def _to_record(place: tuple[str, str, str], rows: list[tuple[Any, ...]]) -> SkillRecord:
    _, _, _, principals, uses, calls, failures, seconds, translated, at, errors = zip(*rows, strict=True)
    failed = [(last_at, error) for last_at, error in zip(at, errors, strict=True) if error is not None]
    return SkillRecord(
        **dict(zip(("namespace", "name", "version"), place, strict=True)),
        uses=sum(uses),
        calls=sum(calls),
        failures=sum(failures),
        seconds=sum(seconds),
        last_used_at=max(at),
        principals=len(rows),
        translated=sum(translated),
        last_error=max(failed)[1] if failed else None,
        shares=tuple(
            UseShare(principal=principal, uses=count, calls=called, failures=failing)
            for principal, count, called, failing in zip(principals, uses, calls, failures, strict=True)
        ),
    )


def _remove_uses(connection: sqlite3.Connection, before: float, most: int) -> int:
    """Remove some uses from before a time, or older than the newest `most`; returns their number."""
    newest = connection.execute("SELECT at FROM skill_uses ORDER BY at DESC LIMIT 1 OFFSET ?", (most - 1,)).fetchone()
    edge = before if newest is None else max(before, newest[0])
    old = "SELECT rowid FROM skill_uses WHERE at < ? ORDER BY at LIMIT ?"
    return connection.execute(
        f"DELETE FROM skill_uses WHERE rowid IN ({old})",  # noqa: S608
        (edge, _REMOVED_AT_ONCE),
    ).rowcount


_MIGRATIONS = Columns("skill_migrations", MigrationRecord)


def _read_migrations(connection: sqlite3.Connection) -> list[MigrationRecord]:
    """The records of all migrations, the oldest first."""
    return _MIGRATIONS.all(connection, "ORDER BY number")


def _write_migration(connection: sqlite3.Connection, record: MigrationRecord) -> None:
    """Keep the record of a migration, durably."""
    _MIGRATIONS.put(connection, record)


class SkillTable(Table):
    """The skills of one store."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        super().__init__(writer, reader)
        self._turn = asyncio.Lock()

    # Versions

    async def add(self, skill: Skill, bump: Callable[[Skill | None], Severity], *, limits: ShelfLimits) -> Skill:
        """Keep a skill as the newest version of its name, durably, and return the stored version.

        `bump` returns the part of the version that the change from the newest version raises; it is called again if
        another gateway was faster. A skill with the digest, status and level of the newest version is not kept again.

        Raises:
            InvalidSkill: A limit is reached, or JSON cannot hold a value. Nothing was kept.
            StoreError: It could not be written. Nothing was kept.
        """
        text, examples = await asyncio.to_thread(_encode, skill, limits)
        async with self._turn:  # of this gateway; the transaction checks `head` against others
            while True:
                number, newest = await self._reader.read(_read_head, skill.namespace, skill.name)
                if newest is not None and _is_same(newest, skill):
                    same = await self.get(skill.namespace, skill.name, newest.version, with_deleted=True)
                    assert same is not None  # rows are never removed
                    return same
                created_at = skill.modified_at if newest is None else newest.created_at
                skill = msgspec.structs.replace(skill, created_at=created_at)
                severity = await asyncio.to_thread(bump, newest)  # it compares schemas that an agent wrote
                write = partial(
                    _insert, skill=skill, text=text, examples=examples, severity=severity, head=number, limits=limits
                )
                stored = await self._writer.change(write, len(text) + len(examples or b""))
                if isinstance(stored, InvalidSkill):
                    raise stored
                if stored is not None:
                    return msgspec.structs.replace(skill, version=str(stored))

    get = reads(_read_one)
    versions = reads(_read_versions)
    statuses = reads(_read_statuses)
    deleted = reads(_read_deleted)
    newest = reads(_read_newest)
    names = reads(_read_names)
    stamp = reads(_read_stamp)

    async def update(self, skill: Skill, *, limits: ShelfLimits) -> None:
        """Keep the status, the note and the examples that a version has now, durably.

        Raises:
            UnknownSkill: There is no such version, or it is deleted.
            InvalidSkill, StoreError: As `add` does.
        """
        data = await asyncio.to_thread(_compress, skill.examples, limits) if skill.examples else None
        update = partial(_update, skill=skill, examples=data)
        if not await self._writer.change(update, ROW_BYTES + len(data or b"")):
            raise unknown_version(skill.name, skill.version)

    async def delete(self, namespace: str, name: str, version: str | None, now: float) -> int:
        """Delete one version, or all of them, durably, and return their number. The rows stay, for `Shelf.restore`."""
        numbers = None if version is None else _numbers(version)
        delete = partial(_delete, namespace=namespace, name=name, numbers=numbers, now=now)
        return await self._writer.change(delete)

    # Uses and migrations

    def record_uses(self, uses: Sequence[SkillUse]) -> None:
        """Record uses of skills. Only enqueues; uses by one execution add up."""
        if uses:
            values = [_use_values(use) for use in uses]
            self._writer.put(partial(_add_uses, values=values), ROW_BYTES * len(values))

    uses = reads(_read_uses)

    async def prune(self, before: float) -> int:
        """Remove single uses from before a time, and all but the newest fifty thousand; returns their number.

        They stay in the sums. Raises `StoreError`.
        """
        total = 0
        remove = partial(_remove_uses, before=before, most=_USES_KEPT)
        while done := await self._writer.change(remove):
            total += done
        return total

    record_migration = writes(_write_migration)
    migrations = reads(_read_migrations)
