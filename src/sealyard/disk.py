"""Changes on disk that are made wholly or not at all, whenever the process or the machine stops.

A file is written to a draft in the same folder, synced, and renamed. A link in the place of a draft is never followed:
a draft is always a new file.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl

    _IS_UNIX = True
except ImportError:  # on Windows, where `sealyard init` runs and nothing else, folders are neither opened nor locked
    _IS_UNIX = False


@contextmanager
def drafted(path: Path, *, mode: int = 0o600, draft_name: str | None = None) -> Iterator[BinaryIO]:
    """A file that replaces `path`, or a link there, when the block ends. If the block fails, it is removed.

    `draft_name` is for callers that exclude each other: a draft of that name, left by a killed process, is removed
    first. `mode` is subject to the umask.
    """
    draft = path.with_name(draft_name or f".{path.name}.{secrets.token_hex(8)}.new")
    if draft_name is not None:
        draft.unlink(missing_ok=True)
    try:
        with new_file(draft, mode=mode) as file:
            yield file
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_path(path.parent)


@contextmanager
def new_file(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file that must not exist yet, synced when the block ends. The name is durable after `sync_path`."""
    with open(path, "xb", opener=partial(os.open, mode=mode)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_path(path: Path) -> None:
    """Make a file durable, or the names in a folder."""
    if not _IS_UNIX:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder. The kernel releases it however the process ends."""
    if not _IS_UNIX:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
