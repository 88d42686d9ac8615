"""Workspaces: the only place agent code can write, kept as long as the session that names it.

In the `namespace` tier a workspace is a size-limited tmpfs that no path of the host leads to; in the `landlock` tier a
directory below the gateway's own temporary one, watched for its size. Either way the gateway reaches the files through
a descriptor of the root, one component at a time and never through a link: the names in it are the agent's.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.sandbox.directories import remove_directory

_log = logging.getLogger(__name__)

_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}")
_LISTED_DEPTH = 16
"""Folders deeper down are not listed: each costs a walk from the root, and no honest code nests so far."""
_READ_BYTES = 16 << 20  # of a file, unless the caller takes more: it is held in memory as a whole
_libc = ctypes.CDLL(None)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkspaceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a workspace. Links and special files are listed but never opened."""

    path: str
    kind: str
    """`file`, `folder`, `link` or `other`."""
    bytes: int


class Workspace:
    """The files of one session."""

    def __init__(
        self, session: str, number: int, root_fd: int, *, directory: Path | None = None, user: int | None = None
    ) -> None:
        self.session = session
        self.number = number
        self.root_fd = root_fd
        self.directory = directory
        """Its place on the host in the `landlock` tier."""
        self.user = user
        """The owner of its files on the host, where this process's own user cannot have any in it."""
        self._leaving: set[asyncio.Future[None]] = set()
        self._mount: tuple[object, int] | None = None
        self._is_closed = False

    def mend(self) -> None:
        """Remake its directory if it was removed; the files are gone. Costs nothing if it is there."""
        if self.directory is None or self.directory.is_dir():
            return
        _log.warning("The directory %s of session %r was removed. Its files are lost.", self.directory, self.session)
        self.directory.mkdir(mode=0o700)
        os.close(self.root_fd)
        self.root_fd = os.open(self.directory, _FOLDER)

    def note_leaving(self, gone: "asyncio.Future[None]") -> None:
        """A worker that could write here is being killed."""
        self._leaving.add(gone)
        gone.add_done_callback(self._leaving.discard)

    async def quiet(self) -> None:
        """Wait until every worker whose run is over is gone, so that none of them still writes."""
        if self._leaving:
            await asyncio.wait(set(self._leaving))

    def keep_mount(self, zygote: object, fd: int) -> None:
        """Hold a descriptor for the next run ahead of it; only workers of this zygote can use it."""
        self._drop_mount()
        if self._is_closed:
            os.close(fd)
        else:
            self._mount = (zygote, fd)

    def has_mount(self, zygote: object) -> bool:
        """True if a descriptor is held for a worker of this zygote."""
        return self._mount is not None and self._mount[0] is zygote

    def take_mount(self, zygote: object) -> int | None:
        """The descriptor held for a worker of this zygote, now the caller's to close; None without one."""
        if self._mount is None or self._mount[0] is not zygote:
            return None
        fd = self._mount[1]
        self._mount = None
        return fd

    def _drop_mount(self) -> None:
        if self._mount is not None:
            os.close(self._mount[1])
            self._mount = None

    def files(self) -> list[WorkspaceFile]:
        """Everything in it, sorted by path."""
        return sorted(self._walk(), key=lambda entry: entry.path)

    def read_bytes(self, path: str, *, max_bytes: int = _READ_BYTES) -> bytes:
        """A regular file's content. Raises `InvalidRequest` if it is not one, is missing, or is larger."""
        folder, name = self._open_folder(path, make=False)
        try:
            # Without blocking: the name may be a pipe that nobody writes to.
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            raise InvalidRequest(f"{path!r} cannot be read: {error.strerror}. List the workspace's files.") from error
        finally:
            os.close(folder)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidRequest(f"{path!r} is not a regular file.")
            if status.st_size > max_bytes:
                raise InvalidRequest(f"{path!r} has {status.st_size:,} bytes, more than the {max_bytes:,} asked for.")
            with open(fd, "rb", closefd=False) as file:
                return file.read(max_bytes)
        finally:
            os.close(fd)

    def write_bytes(self, path: str, content: bytes) -> None:
        """Put a file into the workspace, making its folders. Raises `InvalidRequest` if a link is in the way."""
        with acting_as(self.user):
            folder, name = self._open_folder(path, make=True)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                fd = os.open(name, flags, 0o666, dir_fd=folder)
                with open(fd, "wb") as file:
                    os.fchmod(fd, 0o666)
                    file.write(content)
            except OSError as error:
                raise InvalidRequest(f"{path!r} cannot be written: {error.strerror}.") from error
            finally:
                os.close(folder)

    def close(self) -> None:
        """Let go of it; in the `landlock` tier the files are deleted too."""
        self._is_closed = True
        self._drop_mount()
        os.close(self.root_fd)
        if self.directory is not None:
            remove_directory(self.directory)

    def _open_folder(self, path: str, *, make: bool) -> tuple[int, str]:
        parts = path.split("/")
        if "\0" in path or not _can_be_a_name(path) or any(part in ("", ".", "..") for part in parts):
            raise InvalidRequest(f"{path!r} is not a path inside the workspace. Give one like 'results/rows.json'.")
        folder = os.open(".", _FOLDER, dir_fd=self.root_fd)
        for part in parts[:-1]:
            try:
                deeper = self._make_folder(part, folder) if make else os.open(part, _FOLDER, dir_fd=folder)
            except OSError as error:
                os.close(folder)
                raise InvalidRequest(f"{path!r} cannot be reached: {error.strerror}.") from error
            os.close(folder)
            folder = deeper
        return folder, parts[-1]

    @staticmethod
    def _make_folder(name: str, parent: int) -> int:
        try:
            os.mkdir(name, dir_fd=parent)
        except FileExistsError:
            return os.open(name, _FOLDER, dir_fd=parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
        # By descriptor: a run of this session may have put a link under the name meanwhile.
        os.fchmod(folder, 0o777)
        return folder

    def _walk(self) -> Iterator[WorkspaceFile]:
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            try:
                # By its path, so that one descriptor is open however many folders the code has made.
                folder, _ = self._open_folder(f"{prefix}*", make=False)
            except InvalidRequest:
                continue  # gone, or closed to us by the code: listed without its content
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue  # a run of this session is deleting files
                        kind = _kind(status.st_mode)
                        # A name need not be text; it is shown as such all the same.
                        path = os.fsencode(prefix + entry.name).decode("utf-8", "backslashreplace")
                        yield WorkspaceFile(path=path, kind=kind, bytes=status.st_size)
                        if kind == "folder" and prefix.count("/") < _LISTED_DEPTH:
                            waiting.append(f"{prefix}{entry.name}/")
            finally:
                os.close(folder)


def check_session_name(session: str) -> str:
    """`session` if it can name one. Raises `InvalidRequest`."""
    if not _SESSION_NAME.fullmatch(session):
        raise InvalidRequest(
            f"{session[:100]!r} cannot name a session. Use 1 to 100 letters, digits and . _ @ : - beginning with a "
            "letter or digit."
        )
    return session


def directory_usage(directory: Path) -> tuple[int, int]:
    """Bytes and entries below `directory`, links not followed; what vanishes meanwhile does not count.

    Raises `OSError` when a folder is closed to us or too deep to be named: what is in it could be of any size.
    """
    total, entries = 0, 0
    waiting = [str(directory)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    entries += 1
                    total += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return total, entries


@contextlib.contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    """Make files as `user`: root of the host has no place among the users of a workspace's file system.

    Holds for this thread and for files only.
    """
    if user is None:
        yield
        return
    _libc.setfsgid(user)
    _libc.setfsuid(user)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())


def _can_be_a_name(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair, as a model may send it
        return False
    return True


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
