"""Backup of a store into one file, and its restore.

Nothing in the file is trusted: its members have to be those that `write_backup` makes, and the whole database is
inspected before anything is replaced. An attacker who changes the file can change the digests in it too; only its own
SHA-256, kept elsewhere, proves that it is the same file.
"""

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import msgspec

from sealyard import __version__
from sealyard.disk import new_file, sync_path
from sealyard.errors import InvalidRequest, StoreError
from sealyard.privacy.vault import KEY_FILE, KeyPlace
from sealyard.store.audit import verify_store
from sealyard.store.audit.log import key_path
from sealyard.store.backup.tarball import (
    AUDIT_KEY,
    DATABASE,
    Damaged,
    Manifest,
    OnProgress,
    count_rows,
    describe,
    inspect,
    open_archive,
    read_archive,
    write_archive,
)
from sealyard.store.database import connect_reader, explain, take_over
from sealyard.store.gateways import keep_closed, replace

_PAGES = 2_000
"""Pages of the database between two calls of `OnProgress`."""
_STAGING = "restoring-"


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
