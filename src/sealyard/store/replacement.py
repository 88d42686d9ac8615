"""Puts another database in the place of a store, wholly or not at all, whenever the process or the machine stops.

What is replaced is moved into a folder beside the store. While that is under way a note in `<store>.d` says what was
there; whoever finds the note, be it the next gateway or the next restore, puts everything back first. Nobody may have
the store open meanwhile: the caller holds `gateways.keep_closed`, and that and `open_as_gateway` call `roll_back`.
"""

import os
import tempfile
import time
from pathlib import Path

import msgspec

from sealyard.store.audit.key import key_path, sync_folder


class _Note(msgspec.Struct, frozen=True):
    """What was where before."""

    folder: str
    files: list[str]


def replace(store: Path, staged: Path) -> Path | None:
    """Put the database `staged`, and its audit key if it has one, in the place of a store. Both are on one disk.

    The folder in which the replaced one is kept; None if there was none.

    Raises:
        OSError: It could not be done. The store is as it was, unless only the end of it could not be made durable.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    kept = Path(tempfile.mkdtemp(prefix=f"{store.name}.replaced-{stamp}-", dir=store.parent))
    try:
        there = [path for path in _files(store) if path.exists()]
        sync_folder(store.parent)
        _write(_note_path(store), msgspec.json.encode(_Note(kept.name, [path.name for path in there])))
        for path in there:
            path.rename(kept / path.name)
        sync_folder(kept)
        for old, new in ((staged, store), (key_path(staged), key_path(store))):
            if old.exists():
                old.rename(new)
        sync_folder(store.parent)
        _note_path(store).unlink()  # now it is done
        sync_folder(_note_path(store).parent)
    except BaseException:
        roll_back(store)
        _remove_empty(kept)
        raise
    _remove_empty(kept)
    return kept if there else None


def roll_back(store: Path) -> None:
    """Put back what an interrupted `replace` had moved away, if there was one. It may be interrupted itself.

    Raises:
        OSError: It could not be done yet.
    """
    try:
        note = msgspec.json.decode(_note_path(store).read_bytes(), type=_Note)
    except FileNotFoundError:
        return
    kept = store.with_name(note.folder)
    for path in _files(store):
        if path.name not in note.files:
            path.unlink(missing_ok=True)  # it came with the new one
        elif (kept / path.name).exists():
            (kept / path.name).replace(path)
    sync_folder(store.parent)
    _note_path(store).unlink()
    sync_folder(_note_path(store).parent)
    _remove_empty(kept)


def _files(store: Path) -> list[Path]:
    """A store with what belongs to it. A write-ahead log of one must never meet the database of another."""
    return [store, store.with_name(f"{store.name}-wal"), store.with_name(f"{store.name}-shm"), key_path(store)]


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _note_path(store: Path) -> Path:
    return store.with_name(f"{store.name}.d") / "replacing"


def _write(path: Path, content: bytes) -> None:
    """A file that is there whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(path.parent)
