"""The file of a backup: a plain tar whose first member describes the others, read as if an enemy had written it.

Its database is inspected before use: it has to be whole, ours, and laid out as sealyard lays it out.
"""

import hashlib
import os
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from sealyard.disk import new_file
from sealyard.errors import StoreError
from sealyard.former import decode
from sealyard.privacy.vault import KEY_FILE
from sealyard.store.audit.log import key_path
from sealyard.store.database import APPLICATION_ID, MIGRATIONS, open_blank

OnProgress = Callable[[str, int, int], None]
"""Gets the step, the amount done, and the total; both 0 if unknown."""

DATABASE = "store.db"
AUDIT_KEY = key_path(Path(DATABASE)).name
_MANIFEST = "manifest.json"
_MOST_BYTES = {_MANIFEST: 64 << 10, AUDIT_KEY: 64 << 10, KEY_FILE: 64 << 10}
"""A manifest has a few hundred bytes, a key file less than a KiB."""
_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 20
"""Bytes copied at a time."""
_SPARE_BYTES = 1 << 20
"""Bytes left free beside an unpacked backup."""
_COUNTED = ("executions", "calls", "skills", "audit", "facts")
_PROBLEMS_QUOTED = 3
"""Problems quoted from SQLite: the first ones say enough, and a damaged file has thousands."""


class BackupFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One member of a backup."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a backup, its first member."""

    sealyard_backup: int = 1
    """The version of this format."""
    sealyard: str
    """The version of sealyard that made it."""
    created_at: float
    """Seconds since the epoch."""
    schema: int
    rows: dict[str, int]
    """Rows of the tables that people ask about."""
    files: dict[str, BackupFile]


# Writing


def describe(folder: Path) -> dict[str, BackupFile]:
    """Describe the members in a folder."""
    files = {}
    for name in (DATABASE, AUDIT_KEY, KEY_FILE):
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            files[name] = BackupFile(bytes=(folder / name).stat().st_size, sha256=sha256)
    return files


def write_archive(path: Path, work: Path, manifest: Manifest, report: OnProgress) -> None:
    """Write a new file, for this user alone, with the members in the folder `work`."""
    text = msgspec.json.format(msgspec.json.encode(manifest))
    with new_file(path) as archive:
        _write_member(archive, _MANIFEST, BytesIO(text), len(text), manifest.created_at, report)
        for name, entry in manifest.files.items():
            with (work / name).open("rb") as file:
                _write_member(archive, name, file, entry.bytes, manifest.created_at, report)
        archive.write(bytes(2 * _BLOCK))


def _write_member(
    archive: BinaryIO, name: str, content: BinaryIO, size_bytes: int, at: float, report: OnProgress
) -> None:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size_bytes, 0o600, int(at)
    archive.write(header.tobuf(tarfile.GNU_FORMAT))
    for done in _copy(content, archive, size_bytes):
        report("writing", done, size_bytes)
    archive.write(bytes(-size_bytes % _BLOCK))


# Reading


@contextmanager
def open_archive(path: Path) -> Iterator[BinaryIO]:
    """Open the file of a backup. Raises `Damaged` if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not wait for a pipe
    except OSError as error:
        raise Damaged(f"it cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Damaged("it is not a regular file")
    with open(descriptor, "rb") as file:
        yield file


def read_archive(archive: BinaryIO, folder: Path | None, report: OnProgress) -> tuple[Manifest, str]:
    """Read all of an archive, and unpack it into a folder if one is given; returns its manifest and SHA-256.

    Raises:
        Damaged: It differs from what was written.
        StoreError: The folder has too little room.
    """
    whole = _Hashing(archive)
    name, size_bytes = _read_header(whole)
    if name != _MANIFEST:
        raise Damaged(f"its first member is {name!r}, not {_MANIFEST!r}")
    manifest = _read_manifest(_read_exactly(whole, size_bytes))
    _skip_padding(whole, size_bytes)
    if folder is not None:
        _check_room(folder, sum(entry.bytes for entry in manifest.files.values()))
    for expected, entry in manifest.files.items():
        name, size_bytes = _read_header(whole)
        if (name, size_bytes) != (expected, entry.bytes):
            raise Damaged(f"it has {name!r} of {size_bytes} bytes where {expected!r} of {entry.bytes} should be")
        if _unpack(whole, None if folder is None else folder / expected, size_bytes, report) != entry.sha256:
            raise Damaged(f"the content of {expected!r} is not what the manifest says")
        _skip_padding(whole, size_bytes)
    while piece := whole.read(_PIECE):
        if piece.strip(b"\0"):
            raise Damaged("something follows its last member")
    return manifest, whole.sha256.hexdigest()


def _read_header(archive: "_Hashing") -> tuple[str, int]:
    """The name and the size of the next member. Links, folders and extended headers are refused."""
    try:
        header = tarfile.TarInfo.frombuf(_read_exactly(archive, _BLOCK), "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise Damaged("it has no member where one should be") from None
    if header.type != tarfile.REGTYPE:
        raise Damaged(f"its member {header.name!r} is not a regular file")
    if header.name not in (DATABASE, *_MOST_BYTES):
        raise Damaged(f"it has a member {header.name!r}, which no backup has")
    if not 0 <= header.size <= _MOST_BYTES.get(header.name, header.size):
        raise Damaged(f"its member {header.name!r} has {header.size} bytes")
    return header.name, header.size


def _read_manifest(text: bytes) -> Manifest:
    try:
        manifest = decode(text, Manifest)
    except msgspec.DecodeError as error:
        raise Damaged(f"its manifest cannot be read: {error}") from None
    if manifest.sealyard_backup != 1:
        raise Damaged(f"it is of version {manifest.sealyard_backup}, which this sealyard does not know")
    if DATABASE not in manifest.files or not set(manifest.files) <= {DATABASE, AUDIT_KEY, KEY_FILE}:
        raise Damaged(f"its manifest names {', '.join(map(repr, manifest.files)) or 'nothing'}")
    return manifest


def _check_room(folder: Path, size_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if size_bytes + _SPARE_BYTES > free_bytes:
        raise StoreError(
            f"The backup takes {size_bytes:,} bytes, and {free_bytes:,} are free at {str(folder.parent)!r}. Make room."
        )


def _unpack(archive: "_Hashing", path: Path | None, size_bytes: int, report: OnProgress) -> str:
    """Write a member into a new file, or nowhere, and return its SHA-256."""
    sha256 = hashlib.sha256()
    with open(os.devnull, "wb") if path is None else new_file(path) as file:
        for done in _copy(archive, file, size_bytes, sha256.update):
            report("reading", done, size_bytes)
    return sha256.hexdigest()


def _skip_padding(archive: "_Hashing", size_bytes: int) -> None:
    if _read_exactly(archive, -size_bytes % _BLOCK).strip(b"\0"):
        raise Damaged("something is between its members")


# Bytes


class _Hashing:
    """Reads, and keeps the digest of everything read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size_bytes: int) -> bytes:
        piece = self._file.read(size_bytes)
        self.sha256.update(piece)
        return piece


def _read_exactly(archive: _Hashing, size_bytes: int) -> bytes:
    piece = archive.read(size_bytes)
    if len(piece) < size_bytes:
        raise Damaged("it is cut off")
    return piece


def _copy(
    source: "BinaryIO | _Hashing", target: BinaryIO, size_bytes: int, also: Callable[[bytes], object] | None = None
) -> Iterator[int]:
    """Copy bytes piece by piece; yields the running count after each."""
    done = 0
    while done < size_bytes:
        piece = source.read(min(_PIECE, size_bytes - done))
        if not piece:
            raise Damaged("it is cut off")
        target.write(piece)
        if also is not None:
            also(piece)
        done += len(piece)
        yield done


# The database in it


class Damaged(Exception):
    """Something differs from what was written, in words that follow a colon."""


def inspect(database: Path) -> int:
    """The schema of a closed store, after all of it was read.

    Raises:
        Damaged: It is damaged, of another program or a newer version, or has tables that sealyard does not make.
    """
    with _open_database(database) as connection:
        schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise Damaged("its database is not one of sealyard")
        if not 1 <= schema <= len(MIGRATIONS):
            raise Damaged(
                f"its database has schema {schema}, and this sealyard knows schemas 1 to {len(MIGRATIONS)}; upgrade it"
            )
        with closing(open_blank(schema)) as right:
            if _layout(connection) != _layout(right):
                raise Damaged("the tables of its database are not as sealyard makes them")
        wrong = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_PROBLEMS_QUOTED})")]
        if wrong != ["ok"]:
            raise Damaged(f"its database is damaged ({'; '.join(map(str, wrong))})")
        if connection.execute("PRAGMA foreign_key_check").fetchone():
            raise Damaged("rows are missing in its database")
    return schema


def count_rows(database: Path) -> dict[str, int]:
    """The number of rows of some tables."""
    with _open_database(database) as connection:
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - names from above
            for name in _COUNTED
            if name in there
        }


@contextmanager
def _open_database(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that nobody else uses, without running anything in it."""
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

    Without their texts: SQLite rewrites those of altered tables, and not always in the same way.
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
