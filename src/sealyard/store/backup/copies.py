"""Backup of a store into one file, and its restore.

Nothing in the file is trusted: its members have to be those that `write_backup` makes, and the whole database is
inspected before anything is replaced. An attacker who changes the file can change the digests in it too; only its own
SHA-256, kept elsewhere, proves that it is the same file.
"""

import hashlib
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from sealyard import __version__
from sealyard.disk import new_file, sync_path
from sealyard.errors import InvalidRequest, StoreError
from sealyard.former import decode
from sealyard.privacy.vault import KEY_FILE, KeyPlace
from sealyard.store.audit import verify_store
from sealyard.store.audit.log import key_path
from sealyard.store.database import APPLICATION_ID, MIGRATIONS, connect_reader, explain, open_blank, take_over
from sealyard.store.gateways import keep_closed, replace

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
_PAGES = 2_000
"""Pages of the database between two calls of `OnProgress`."""
_STAGING = "restoring-"


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


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """An inspected backup."""

    manifest: Manifest
    sha256: str
    """Of the whole file: kept elsewhere, it proves that this is the same backup."""
    problem: str = ""
    """The problem of the audit log in it, in one sentence."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore."""

    backup: Backup
    replaced: str | None
    """The folder with the replaced store."""
    vault_key: str | None
    """The id of the key that seals the vault's values; None without values."""


def write_backup(
    store: Path, output: Path, *, with_keys: bool = False, on_progress: OnProgress | None = None
) -> Backup:
    """Write the present state of a store into a new file. Gateways may go on using the store.

    Raises:
        InvalidRequest: The file exists, or there is no key to include.
        StoreError: The store cannot be read or is damaged, or the file cannot be written.
    """
    if output.exists():
        raise InvalidRequest(f"{str(output)!r} exists already. Name another file.")
    report = on_progress or _ignore
    try:
        with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
            work = Path(folder)
            _take(store.resolve(), work, with_keys=with_keys, report=report)
            schema, problem = _check(work / DATABASE, report)
            manifest = Manifest(
                sealyard=__version__,
                created_at=time.time(),
                schema=schema,
                rows=count_rows(work / DATABASE),
                files=describe(work),
            )
            draft = work / "backup"
            write_archive(draft, work, manifest, report)
            with open_archive(draft) as file:
                manifest, sha256 = read_archive(file, None, report)
            draft.rename(output)
            sync_path(output.parent)
    except Damaged as error:
        raise StoreError(f"The store {str(store)!r} is not backed up: {error}. Keep a copy of its files.") from None
    except OSError as error:
        raise StoreError(
            f"{str(output)!r} cannot be written: {error.strerror}. Name a file on another disk."
        ) from error
    return Backup(manifest=manifest, sha256=sha256, problem=problem)


def check_backup(file: Path, *, sha256: str | None = None, on_progress: OnProgress | None = None) -> Backup:
    """Inspect a backup as `restore_backup` does, without any change.

    Raises:
        InvalidRequest: It is not a backup, is damaged or was changed.
        StoreError: It cannot be inspected here, such as for lack of room.
    """
    with tempfile.TemporaryDirectory(prefix="sealyard-") as folder:
        return _stage(file, Path(folder), sha256, on_progress or _ignore)


def restore_backup(
    file: Path, store: Path, *, sha256: str | None = None, force: bool = False, on_progress: OnProgress | None = None
) -> Restored:
    """Replace a store by a backup after a complete check. The replaced store is kept aside.

    `sha256` is the expected digest of the file. `force` accepts a backup whose audit log is wrong.

    Raises:
        InvalidRequest: It is not a backup, is damaged or was changed. Nothing was replaced.
        StoreError: A gateway has the store open, or something could not be written. Nothing was replaced.
        VaultError: The vault's keys could not be added to the present ones. Nothing was replaced.
    """
    store = store.resolve()
    with keep_closed(store) as beside:
        for left in beside.glob(f"{_STAGING}*"):
            shutil.rmtree(left)  # left by a killed restore
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=beside) as folder:
            work = Path(folder)
            backup = _stage(file, work, sha256, on_progress or _ignore)
            if backup.problem and not force:
                raise InvalidRequest(
                    f"Nothing was restored, since the audit log in {str(file)!r} is wrong. {backup.problem} Use another"
                    " backup, or add --force."
                )
            keys = KeyPlace("file", folder=work).find()
            if keys is not None:
                KeyPlace("file", folder=store.parent).add(keys)
            used = _key_in_use(work / DATABASE)
            try:
                kept = replace(store, work / DATABASE)
            except OSError as error:
                raise explain(store, "replaced", error) from error
    return Restored(backup=backup, replaced=None if kept is None else str(kept), vault_key=used)


def _take(store: Path, work: Path, *, with_keys: bool, report: OnProgress) -> None:
    """Copy the database as of one moment, and its keys."""
    take_over(store)
    try:
        with closing(connect_reader(store)) as source, closing(sqlite3.connect(work / DATABASE)) as copy:
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM sqlite_master").fetchone()  # later commits are not seen
            source.backup(copy, pages=_PAGES, progress=lambda _, rest, pages: report("copying", pages - rest, pages))
            copy.execute("PRAGMA journal_mode = DELETE")  # all of it in one file
    except sqlite3.Error as error:
        raise StoreError(
            f"The store {str(store)!r} cannot be copied: {error}. Check the store, and that there is room for its copy."
        ) from error
    if key_path(store).exists():
        with new_file(work / AUDIT_KEY) as file:
            file.write(key_path(store).read_bytes())
    if with_keys:
        keys = KeyPlace("file", folder=store.parent).find()
        if keys is None:
            raise InvalidRequest(
                f"There is no {KEY_FILE} beside the store: the vault's key is kept elsewhere, or there is none. Leave"
                " out --with-keys, and keep a copy of the key yourself."
            )
        KeyPlace("file", folder=work).add(keys)


def _stage(file: Path, work: Path, sha256: str | None, report: OnProgress) -> Backup:
    """Unpack a backup into an empty folder and inspect all of it."""
    try:
        with open_archive(file) as archive:
            manifest, found = read_archive(archive, work, report)
        if sha256 is not None and found != sha256.strip().lower():
            raise Damaged(f"its SHA-256 is {found}, not the one that was given")
        schema, problem = _check(work / DATABASE, report)
        if schema != manifest.schema:
            raise Damaged(f"its database has schema {schema}, not {manifest.schema} as the manifest says")
    except Damaged as error:
        raise InvalidRequest(f"{str(file)!r} is not a whole backup: {error}. Use another one.") from None
    except OSError as error:
        raise StoreError(
            f"The backup {str(file)!r} cannot be unpacked: {error.strerror}. Make room beside the store. Nothing was"
            " changed."
        ) from error
    return Backup(manifest=manifest, sha256=found, problem=problem)


def _check(database: Path, report: OnProgress) -> tuple[int, str]:
    """The schema of an intact database, and the problem of its audit log."""
    report("checking", 0, 0)
    schema = inspect(database)
    try:
        found = verify_store(database, on_progress=lambda done, last: report("checking", done, last))
    except (InvalidRequest, StoreError) as error:
        raise Damaged(f"its audit log cannot be verified ({str(error).partition('. ')[0]})") from None
    return schema, found.problem


def _key_in_use(database: Path) -> str | None:
    with closing(connect_reader(database)) as connection:
        has_vault = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vault_scopes'").fetchone()
        row = connection.execute("SELECT key_id FROM vault_scopes LIMIT 1").fetchone() if has_vault else None
    return None if row is None else str(row[0])


def _ignore(what: str, done: int, total: int) -> None:
    """Discard the progress."""


# The file: written


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


# The file: read as if an enemy had written it


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
