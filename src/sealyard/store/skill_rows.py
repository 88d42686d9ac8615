"""Skills as rows and back, for the store's threads.

A version without its examples is one JSON text; what may change, and what it is looked up by, has columns of its own.
"""

import sqlite3
import zlib
from typing import Any

import msgspec

from sealyard.errors import InvalidSkill
from sealyard.values import Skill, SkillExample, SkillStatus
from sealyard.versioning.compare.changes import Severity
from sealyard.versioning.compare.semver import Version

__all__ = (
    "ShelfLimits",
    "compress",
    "delete",
    "encode",
    "insert",
    "is_same",
    "numbers",
    "read_deleted",
    "read_head",
    "read_names",
    "read_newest",
    "read_number",
    "read_one",
    "read_stamp",
    "read_statuses",
    "read_versions",
    "unicode",
    "update",
)

_SPARE_LEVELS = 32
_PARAMETERS = 500
_RAW_FACTOR = 16
"""Examples are kept if they shrink to the limit; this many times as much is not even tried."""

_ENCODER = msgspec.json.Encoder()
_SKILLS = msgspec.json.Decoder(Skill)
_EXAMPLES = msgspec.json.Decoder(tuple[SkillExample, ...])

_ROW = "SELECT number, major, minor, patch, status, note, created_at, skill FROM skills"
_ONE = " WHERE namespace = ? AND name = ? AND major = ? AND minor = ? AND patch = ?"
_CHANGED = "(SELECT coalesce(max(changed), 0) + 1 FROM skills)"


class ShelfLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a shelf holds."""

    skills: int = 1_000
    """In one namespace."""
    versions: int = 500
    """Of one skill, those that are deleted not counted."""
    code_bytes: int = 64 << 10
    description_characters: int = 1_024
    tags: int = 20
    tag_characters: int = 40
    examples: int = 10
    examples_bytes: int = 2 << 20
    """All examples of one version with their traces, compressed."""


# Versions


def insert(
    connection: sqlite3.Connection,
    skill: Skill,
    text: str,
    examples: bytes | None,
    severity: Severity,
    head: int | None,
    limits: ShelfLimits,
) -> Version | InvalidSkill | None:
    """Keep a version and return which; why it is not kept; None if `head` is not the newest one any more."""
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
            unicode(skill.note),
            skill.digest,
            text,
            skill.created_at,
            skill.modified_at,
        ),
    ).lastrowid
    if examples is not None:
        connection.execute("INSERT INTO skill_examples (skill, examples) VALUES (?, ?)", (number, examples))
    return version


def update(
    connection: sqlite3.Connection,
    place: tuple[str, str, int, int, int],
    status: SkillStatus,
    note: str,
    examples: bytes | None,
) -> bool:
    """Give a version another status; False if there is no such version."""
    row = connection.execute(f"SELECT number FROM skills{_ONE} AND deleted_at IS NULL", place).fetchone()  # noqa: S608
    if row is None:
        return False
    connection.execute(
        f"UPDATE skills SET status = ?, note = ?, changed = {_CHANGED} WHERE number = ?",  # noqa: S608
        (status, note, row[0]),
    )
    if examples is not None:
        connection.execute(
            "INSERT INTO skill_examples (skill, examples) VALUES (?, ?)"
            " ON CONFLICT (skill) DO UPDATE SET examples = excluded.examples",
            (row[0], examples),
        )
    return True


def delete(
    connection: sqlite3.Connection, namespace: str, name: str, numbers: tuple[int, int, int] | None, now: float
) -> int:
    """Mark one version as deleted, or all of them; how many there were."""
    where = " WHERE namespace = ? AND name = ?" if numbers is None else _ONE
    return connection.execute(
        f"UPDATE skills SET deleted_at = ?, changed = {_CHANGED}{where} AND deleted_at IS NULL",  # noqa: S608
        (now, namespace, name, *(numbers or ())),
    ).rowcount


def read_head(connection: sqlite3.Connection, namespace: str, name: str) -> tuple[int | None, Skill | None]:
    """The number of the newest version that is not deleted, and that version without its examples."""
    order = " WHERE namespace = ? AND name = ? AND deleted_at IS NULL ORDER BY number DESC LIMIT 1"
    row = connection.execute(_ROW + order, (namespace, name)).fetchone()
    return (None, None) if row is None else (row[0], _to_skill(row))


def read_number(connection: sqlite3.Connection, number: int) -> Skill:
    """The version of that number, with its examples: rows are never removed."""
    return _with_examples(connection, connection.execute(f"{_ROW} WHERE number = ?", (number,)).fetchone())


def read_one(
    connection: sqlite3.Connection,
    namespace: str,
    name: str,
    version: Version,
    *,
    with_examples: bool,
    with_deleted: bool,
) -> Skill | None:
    """One version; None if there is none."""
    kept = "" if with_deleted else " AND deleted_at IS NULL"
    place = (namespace, name, version.major, version.minor, version.patch)
    row = connection.execute(_ROW + _ONE + kept, place).fetchone()
    if row is None:
        return None
    return _with_examples(connection, row) if with_examples else _to_skill(row)


def read_versions(connection: sqlite3.Connection, namespace: str, name: str, with_examples: bool) -> list[Skill]:
    """Every version that is not deleted, the newest first."""
    order = " WHERE namespace = ? AND name = ? AND deleted_at IS NULL ORDER BY number DESC"
    rows = connection.execute(_ROW + order, (namespace, name)).fetchall()
    return [_with_examples(connection, row) if with_examples else _to_skill(row) for row in rows]


def read_statuses(
    connection: sqlite3.Connection, namespaces: tuple[str, ...], name: str
) -> list[tuple[str, str, SkillStatus]]:
    """Namespace, version and status of what is not deleted: namespace by namespace, the newest version first."""
    query = (
        "SELECT namespace, major, minor, patch, status FROM skills"
        " WHERE namespace = ? AND name = ? AND deleted_at IS NULL ORDER BY number DESC"
    )
    rows = [row for namespace in namespaces for row in connection.execute(query, (namespace, name))]
    return [(namespace, str(Version(*numbers)), status) for namespace, *numbers, status in rows]


def read_deleted(connection: sqlite3.Connection, namespace: str, name: str) -> dict[str, float]:
    """When each deleted version was deleted, the newest version first."""
    rows = connection.execute(
        "SELECT major, minor, patch, deleted_at FROM skills"
        " WHERE namespace = ? AND name = ? AND deleted_at IS NOT NULL ORDER BY number DESC",
        (namespace, name),
    )
    return {str(Version(major, minor, patch)): deleted_at for major, minor, patch, deleted_at in rows}


def read_newest(connection: sqlite3.Connection, namespaces: tuple[str, ...], status: SkillStatus | None) -> list[Skill]:
    """The newest version of each skill, without examples, that is not deleted and of that status."""
    found: list[Skill] = []
    for start in range(0, len(namespaces), _PARAMETERS):
        some = namespaces[start : start + _PARAMETERS]
        marks = ", ".join("?" * len(some))
        kept = f"deleted_at IS NULL AND namespace IN ({marks})" + ("" if status is None else " AND status = ?")
        inside = f"SELECT max(number) FROM skills WHERE {kept} GROUP BY namespace, name"  # noqa: S608
        query = f"{_ROW} WHERE number IN ({inside}) ORDER BY namespace, name"
        values = some if status is None else (*some, status)
        found += [_to_skill(row) for row in connection.execute(query, values)]
    return found


def read_names(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The namespace and name of every skill that is not deleted."""
    query = "SELECT DISTINCT namespace, name FROM skills WHERE deleted_at IS NULL ORDER BY namespace, name"
    return connection.execute(query).fetchall()


def read_stamp(connection: sqlite3.Connection) -> int:
    """The number of the last change."""
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


# Values


def encode(skill: Skill, limits: ShelfLimits) -> tuple[str, bytes | None]:
    """A version without what has a column of its own, and its examples."""
    bare = msgspec.structs.replace(skill, examples=(), version="0.0.0", status="draft", note="", created_at=0.0)
    text = _json(bare).decode()
    try:
        _SKILLS.decode(text)
    except msgspec.ValidationError as error:  # such as a time that is no number
        raise InvalidSkill(f"The skill cannot be kept: {error}. Change it and try again.") from None
    return text, compress(skill.examples, limits) if skill.examples else None


def compress(examples: tuple[SkillExample, ...], limits: ShelfLimits) -> bytes:
    """Examples as they are stored. Raises `InvalidSkill` for what is too large or no JSON."""
    raw = _json(examples)
    data = zlib.compress(raw) if len(raw) <= _RAW_FACTOR * limits.examples_bytes else raw
    if len(data) > limits.examples_bytes:
        raise InvalidSkill(
            f"The examples with their recorded answers take {len(data):,} bytes, and {limits.examples_bytes:,} are"
            " allowed. Save fewer examples, or ones that fetch less."
        )
    return data


def _json(value: Any) -> bytes:
    """JSON that can be read again: inside some lists, since the depth of the reader's stack counts too."""
    for _ in range(_SPARE_LEVELS):
        value = [value]
    try:
        data = _ENCODER.encode(value)
        msgspec.json.decode(data)
    except UnicodeEncodeError:
        raise InvalidSkill("The skill holds text that is not Unicode, half of a surrogate pair. Take it out.") from None
    except (msgspec.DecodeError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidSkill(f"The skill holds a value that is no JSON: {error}. Use plain, shallow data.") from None
    return data[_SPARE_LEVELS:-_SPARE_LEVELS]


def is_same(newest: Skill, skill: Skill) -> bool:
    """Whether nothing would be gained by keeping `skill` after `newest`."""
    return (newest.digest, newest.status, newest.level) == (skill.digest, skill.status, skill.level)


def numbers(version: str) -> tuple[int, int, int]:
    """The numbers of a version. Raises `InvalidRequest` for what is none."""
    numbers = Version.parse(version)
    return numbers.major, numbers.minor, numbers.patch


def unicode(text: str) -> str:
    """The text, with an escape for each lone surrogate: no database takes those."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
