"""One directory and everything below it, for callers that are not trusted.

A path is opened name by name, each in the directory that the last one gave, and no symbolic link is followed: at
no moment can the checked file be replaced by another. Anything but plain files and directories is refused, and so is
a file that is too large.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from sealyard.examples.toolbox import Refused

_LARGEST_BYTES = 4 << 20  # of one file: it is read whole
_DEEPEST = 16  # names in a path, and levels of a walk
_ENTRIES = 10_000  # of one answer
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(NamedTuple):
    """One file or directory below the folder."""

    path: str
    is_directory: bool
    size: int


class Folder:
    """A directory that is open for as long as the process lasts."""

    def __init__(self, directory: Path) -> None:
        self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def read(self, path: str) -> bytes:
        """The content of a file."""
        *parents, name = _names(path)
        with self._directory(path, parents) as directory, _explained(path):
            # Not blocking: a pipe without a writer would never let go.
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
            with open(fd, "rb") as file:
                return _read_plain(file, path)

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a file, all of it or nothing, with the directories above it."""
        *parents, name = _names(path)
        if len(content) > _LARGEST_BYTES:
            raise Refused(f"{len(content):,} bytes are too many. Write at most {_LARGEST_BYTES:,}.")
        with self._directory(path, parents, make=True) as directory, _explained(path):
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                    raise Refused(f"{path!r} is not a plain file. Choose another path.")
            unfinished = f".{secrets.token_hex(8)}.unfinished"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(unfinished, flags, 0o644, dir_fd=directory)
            try:
                with open(fd, "wb") as file:
                    file.write(content)
                os.replace(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                os.unlink(unfinished, dir_fd=directory)
                raise

    def entries(self, path: str, *, recursive: bool) -> list[Entry]:
        """The entries of a directory, by name; with all below it if `recursive`. Links and devices are left out."""
        names = [] if path in ("", ".") else _names(path)
        with self._directory(path, names) as directory, _explained(path):
            found = []
            for entry in _walk(directory, "/".join(names), deep=_DEEPEST if recursive else 1):
                found.append(entry)
                if len(found) > _ENTRIES:
                    raise Refused(f"{path!r} holds more than {_ENTRIES:,} files. Choose a directory below it.")
            return found

    @contextmanager
    def _directory(self, path: str, names: list[str], *, make: bool = False) -> Iterator[int]:
        with _explained(path):
            fd = os.dup(self._root)
        try:
            for name in names:
                with _explained(path):
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, 0o755, dir_fd=fd)
                    below = os.open(name, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


def _names(path: str) -> list[str]:
    names = [name for name in path.split("/") if name not in ("", ".")]
    strange = path.startswith("/") or "\0" in path or ".." in names or not _is_text(path)
    if strange or not names or len(names) > _DEEPEST:
        raise Refused(f"{path!r} is not a path inside this directory. Give one such as 'notes/today.md'.")
    return names


def _is_text(path: str) -> bool:
    """True if the path can be sent: a name on the disk is bytes, and some are not text."""
    return path.encode(errors="replace").decode() == path


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Explain the system's refusal without the path of the directory itself."""
    try:
        yield
    except FileNotFoundError:
        raise Refused(f"There is no {path!r}. Call list_files to see what there is.") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refused(f"{path!r} leads over a link or a file. Give a path of plain directories.") from None
        raise Refused(f"{path!r} cannot be used: {os.strerror(error.errno or 0)}.") from None


def _read_plain(file: IO[bytes], path: str) -> bytes:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise Refused(f"{path!r} is not a plain file. Call list_files to see what there is.")
    content = file.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise Refused(f"{path!r} is larger than {_LARGEST_BYTES:,} bytes, the most that is read.")
    return content


def _walk(directory: int, prefix: str, *, deep: int) -> Iterator[Entry]:
    with os.scandir(directory) as found:
        entries = sorted((entry for entry in found if _is_text(entry.name)), key=lambda entry: entry.name)
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield Entry(path, is_directory=True, size=0)
            if deep > 1:
                with suppress(OSError):  # gone or replaced since it was listed
                    below = os.open(entry.name, _DIRECTORY, dir_fd=directory)
                    try:
                        yield from _walk(below, path, deep=deep - 1)
                    finally:
                        os.close(below)
        elif entry.is_file(follow_symlinks=False):
            yield Entry(path, is_directory=False, size=entry.stat(follow_symlinks=False).st_size)
