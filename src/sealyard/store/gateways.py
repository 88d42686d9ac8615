"""The gateways that have a store open, the executions of one that is gone, and the replacement of a store.

Each gateway holds a lock on a file of its own in `<store>.d` for as long as it lives; the kernel releases the lock when
the process ends for any reason. A gateway whose lock can be taken is gone. Stores are opened one at a time, under a
lock in the same folder.

`replace` puts another database in the place of a store, wholly or not at all, whenever the process or the machine
stops. It moves the old files into a folder beside the store and keeps a note in `<store>.d` meanwhile. The next process
that opens or restores the store finds the note and puts everything back first.
"""

import fcntl
import logging
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from sealyard.disk import drafted, sync_path
from sealyard.errors import StoreError
from sealyard.former import copy_beside
from sealyard.store.audit.log import key_path
from sealyard.store.database import BUSY_SECONDS, connect, explain, take_over

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.01
"""Between two attempts to take a lock."""


@contextmanager
def open_as_gateway(path: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    """Open a connection that writes, with a new id for this gateway; others do not declare its executions lost.

    Raises:
        StoreError: The store cannot be opened.
    """
    with ExitStack() as held:
        try:
            connection, owner = _enter(path, held)
        except (OSError, sqlite3.Error) as error:
            raise explain(path, "opened", error) from error
        yield connection, owner


def is_alive(path: Path, owner: str) -> bool:
    """True if the gateway of that id still has the store open."""
    try:
        descriptor = os.open(path.with_name(f"{path.name}.d") / f"{owner}.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def keep_closed(path: Path) -> Iterator[Path]:
    """Keep the store closed: nobody has it open or can open it until the block ends. Yields the folder `<store>.d`.

    Raises:
        StoreError: A gateway has it open.
    """
    with ExitStack() as held:
        try:
            folder = _close_door(path, held)
            alive = len(_find_alive(folder))
        except OSError as error:
            raise explain(path, "locked", error) from error
        if alive:
            which = "a gateway has" if alive == 1 else f"{alive} gateways have"
            raise StoreError(
                f"The store {str(path)!r} cannot be replaced: {which} it open. Stop `sealyard serve` first."
            )
        yield folder


def _close_door(path: Path, held: ExitStack) -> Path:
    """Keep others from opening the store, and undo an interrupted restore."""
    take_over(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = path.with_name(f"{path.name}.d")
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _lock(folder / "opening", held, wait_seconds=BUSY_SECONDS):
        raise StoreError(f"The store {str(path)!r} is being opened by another program. End it, or wait for it.")
    roll_back(path)
    return folder


def _enter(path: Path, held: ExitStack) -> tuple[sqlite3.Connection, str]:
    with ExitStack() as opening:
        folder = _close_door(path, opening)
        alive = _find_alive(folder)
        keep = partial(_keep_former, path, is_open=bool(alive))
        connection = held.enter_context(closing(connect(path, on_former=keep)))
        gone = f"status = 'running' AND owner NOT IN ({', '.join('?' * len(alive))})"
        connection.execute(f"UPDATE executions SET status = 'lost' WHERE {gone}", alive)  # noqa: S608
        owner = secrets.token_hex(8)
        own = folder / f"{owner}.lock"
        _lock(own, held)
        held.callback(own.unlink, missing_ok=True)
    return connection, owner


def _keep_former(path: Path, *, is_open: bool) -> None:
    """Copy a store of the product's former name before its rows are renamed."""
    if is_open:  # it would go on counting under the old names
        raise StoreError(
            f"The store {str(path)!r} is open in a gateway of the product's former name. Stop that gateway, then start"
            " again: the store is taken over then."
        )
    kept = copy_beside(path)
    _log.warning("The store %s was made under the product's former name. A copy is in %s.", path, kept)


def _find_alive(folder: Path) -> list[str]:
    """The gateways that hold their lock; the files of the others are removed."""
    alive = []
    for file in folder.glob("*.lock"):
        with ExitStack() as lock:
            if _lock(file, lock):
                file.unlink(missing_ok=True)
            else:
                alive.append(file.stem)
    return alive


def _lock(file: Path, held: ExitStack, *, wait_seconds: float = 0) -> bool:
    """Hold the lock on `file`, created if needed, until `held` is closed; False if another process holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    held.callback(os.close, descriptor)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


class Lead:
    """The right of one gateway to do a job for all gateways of a store. The kernel ends it with the process."""

    def __init__(self, store: Path, job: str) -> None:
        self._store = store
        self._job = job
        self._held: ExitStack | None = None

    def take(self) -> bool:
        """True if this gateway has it now, because it had it before or nobody has it. Raises `OSError`."""
        if self._held is None:
            path = self._store.resolve()  # the locks lie beside the file itself, not beside a link
            with ExitStack() as held:
                if _lock(path.with_name(f"{path.name}.d") / f"{self._job}.lead", held):
                    self._held = held.pop_all()
        return self._held is not None

    def close(self) -> None:
        """Leave it to another gateway."""
        if self._held is not None:
            self._held.close()
            self._held = None


# Replacing a store


class _Note(msgspec.Struct, frozen=True):
    """The files that were there before."""

    folder: str
    files: list[str]


def replace(store: Path, staged: Path) -> Path | None:
    """Put the database `staged`, with its audit key if it has one, in the place of a store on the same disk.

    Returns the folder with the replaced store; None if there was none.

    Raises:
        OSError: It failed. The store is as it was, unless only the last sync failed.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    kept = Path(tempfile.mkdtemp(prefix=f"{store.name}.replaced-{stamp}-", dir=store.parent))
    try:
        there = [path for path in _files(store) if path.exists()]
        sync_path(store.parent)
        with drafted(_note_path(store), draft_name=f"{_note_path(store).name}.new") as note:
            note.write(msgspec.json.encode(_Note(kept.name, [path.name for path in there])))
        for path in there:
            path.rename(kept / path.name)
        sync_path(kept)
        for old, new in ((staged, store), (key_path(staged), key_path(store))):
            if old.exists():
                old.rename(new)
        sync_path(store.parent)
        _note_path(store).unlink()  # done from here on
        sync_path(_note_path(store).parent)
    except BaseException:
        roll_back(store)
        _remove_empty(kept)
        raise
    _remove_empty(kept)
    return kept if there else None


def roll_back(store: Path) -> None:
    """Put back what an interrupted `replace` moved away. May be interrupted itself.

    Raises:
        OSError: It cannot be done yet.
    """
    try:
        note = msgspec.json.decode(_note_path(store).read_bytes(), type=_Note)
    except FileNotFoundError:
        return
    kept = store.with_name(note.folder)
    for path in _files(store):
        if path.name not in note.files:
            path.unlink(missing_ok=True)  # part of the new store
        elif (kept / path.name).exists():
            (kept / path.name).replace(path)
    sync_path(store.parent)
    _note_path(store).unlink()
    sync_path(_note_path(store).parent)
    _remove_empty(kept)


def _files(store: Path) -> list[Path]:
    """The files of a store. The write-ahead log of one must never meet the database of another."""
    return [store, store.with_name(f"{store.name}-wal"), store.with_name(f"{store.name}-shm"), key_path(store)]


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _note_path(store: Path) -> Path:
    return store.with_name(f"{store.name}.d") / "replacing"
