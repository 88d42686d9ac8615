"""The shelf: packed files of idle workspaces.

They end with the gateway, as workspaces do. The next gateway with the same folder removes what a killed one left.

A workspace is packed into one file of the host. Its names, links and permissions are the agent's, so none of them is
ever used on the host: they are content of the packed file. Packing and unpacking follow no link and hold one folder
open at a time, at any depth. No process that could write to the workspace lives meanwhile.
"""

import contextlib
import errno
import os
import secrets
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from sealyard.sandbox.directories import close_directory, open_directory, sweep
from sealyard.sandbox.sessions.workspace import acting_as

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEAST_BYTES = 64 << 10
"""The least a parcel counts: even an empty file costs the host something."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one idle workspace."""

    path: Path
    bytes: int
    linked: int
    """The extra names of files with several: they are needed while it is unpacked."""
    mode: int
    """Of the workspace itself."""


class Shelf:
    """One gateway's shelf below `base`, or below the temporary directory. Its methods block: call them in a thread."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._folder: Path | None = None

    def sweep(self) -> None:
        """Remove what gateways that are gone have left at the same place."""
        if self._base is not None:
            sweep(self._base)

    def put(self, number: int, root: int) -> Parcel | None:
        """Pack the files below `root`, in which no process runs; None without files. Raises `OSError`."""
        path = self._open() / f"{number}"
        with contextlib.ExitStack() as stack:
            stack.callback(path.unlink, missing_ok=True)
            with open(path, "xb", opener=_private) as file:
                linked = pack(root, file)
                size = file.tell()
            if not size:
                return None
            stack.pop_all()
        mode = os.fstat(root).st_mode & 0o7777
        return Parcel(path=path, bytes=max(_LEAST_BYTES, size), linked=linked, mode=mode)

    def take(self, parcel: Parcel, root: int, user: int | None) -> None:
        """Unpack into the empty folder `root`, as `user`, and delete the parcel.

        Raises:
            OSError: It could not be read or unpacked now.
            ValueError: It is damaged, or gone.
        """
        try:
            file = parcel.path.open("rb")
        except FileNotFoundError:
            raise ValueError("the packed file was deleted") from None
        with file, acting_as(user):
            unpack(file, root)
        if os.fstat(root).st_mode & 0o7777 != parcel.mode:
            os.fchmod(root, parcel.mode)
        self.drop(parcel)

    def drop(self, parcel: Parcel) -> None:
        """Delete what a parcel holds."""
        parcel.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete everything on it."""
        if self._folder is not None:
            close_directory(self._folder)
            self._folder = None

    def _open(self) -> Path:
        """The folder, made when the first workspace comes."""
        if self._folder is None:
            if self._base is not None:
                self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = open_directory(secrets.token_hex(4), self._base, reachable=False)
        return self._folder


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class _Entry(msgspec.Struct, array_like=True):
    """One step on the way through a workspace, folder by folder: the content of a file follows it."""

    kind: Literal["folder", "leave", "file", "link"]
    name: bytes = b""
    mode: int = 0
    changed_ns: int = 0
    size: int = 0
    pieces: list[tuple[int, int]] = []
    """Offset and length of what is written in a file; the rest are holes."""
    target: bytes = b""
    inode: int = 0
    """Of a file that has several names; one that was met before is only named again."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode


def pack(root: int, file: BinaryIO) -> int:
    """Write everything below the folder `root` to `file`, and return the number of files with several names.

    Raises `OSError`. It leaves the workspace as it was.
    """
    packing = _Packing(file)
    folder = os.open(".", _FOLDER, dir_fd=root)
    try:
        left = [packing.take_files(folder)]
        modes: list[int] = []
        while left:
            if left[-1]:
                name = left[-1].pop()
                mode, deeper = packing.enter(folder, name)
                os.close(folder)
                folder = deeper
                modes.append(mode)
                left.append(packing.take_files(folder))
                continue
            left.pop()
            if left:
                folder = packing.leave(folder, modes.pop())
    finally:
        os.close(folder)
    file.flush()
    return len(packing.seen)


class _Packing:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seen: set[int] = set()

    def take_files(self, folder: int) -> list[bytes]:
        """Write what lies in a folder; the names of the folders in it are returned."""
        folders = []
        for name in map(os.fsencode, os.listdir(folder)):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                folders.append(name)
            elif stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=folder)
                self._write(_Entry("link", name, changed_ns=status.st_mtime_ns, target=target))
            elif stat.S_ISREG(status.st_mode):
                self._take_file(folder, name, status)
            # No worker can make anything else.
        return folders

    def enter(self, parent: int, name: bytes) -> tuple[int, int]:
        """Open a folder, although the code may have closed it to us; its own permissions are returned with it."""
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(name, mode | 0o700, dir_fd=parent)
        self._write(_Entry("folder", name, mode=mode, changed_ns=status.st_mtime_ns))
        return mode, os.open(name, _FOLDER, dir_fd=parent)

    def leave(self, folder: int, mode: int) -> int:
        """Close a folder as it was, and open the one above it."""
        self._write(_Entry("leave"))
        parent = os.open("..", _FOLDER, dir_fd=folder)
        if mode & 0o700 != 0o700:
            os.fchmod(folder, mode)
        os.close(folder)
        return parent

    def _take_file(self, folder: int, name: bytes, status: os.stat_result) -> None:
        mode = stat.S_IMODE(status.st_mode)
        inode = status.st_ino if status.st_nlink > 1 else 0
        entry = _Entry("file", name, mode, status.st_mtime_ns, status.st_size, [], b"", inode)
        if inode in self.seen:
            self._write(entry)
            return
        if not mode & 0o400:
            os.chmod(name, mode | 0o400, dir_fd=folder)
        source = os.open(name, _READ, dir_fd=folder)
        try:
            entry.pieces = list(_pieces(source, status.st_size))
            self._write(entry)
            self._file.flush()  # what follows goes past it, from kernel to kernel
            for offset, length in entry.pieces:
                _copy(source, offset, self._file.fileno(), length)
            self._file.seek(0, os.SEEK_END)
        finally:
            if not mode & 0o400:
                os.fchmod(source, mode)
            os.close(source)
        if inode:
            self.seen.add(inode)

    def _write(self, entry: _Entry) -> None:
        body = _encode(entry)
        self._file.write(struct.pack("<I", len(body)) + body)


def unpack(file: BinaryIO, root: int) -> None:
    """Make everything that `file` holds below the empty folder `root`, as the user that this thread acts as.

    Raises `OSError` if it does not fit, and `ValueError` if the file is not a whole one.
    """
    making = _Unpacking(file, root)
    folder = os.open(".", _FOLDER, dir_fd=root)
    above: list[_Entry] = []
    try:
        for entry in _entries(file):
            if entry.kind == "folder":
                os.mkdir(entry.name, 0o700, dir_fd=folder)
                deeper = os.open(entry.name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = deeper
                above.append(entry)
            elif entry.kind == "leave":
                parent = os.open("..", _FOLDER, dir_fd=folder)
                _finish(folder, above.pop())
                os.close(folder)
                folder = parent
            elif entry.kind == "link":
                os.symlink(entry.target, entry.name, dir_fd=folder)
                times = (entry.changed_ns, entry.changed_ns)
                os.utime(entry.name, ns=times, dir_fd=folder, follow_symlinks=False)
            else:
                making.make_file(folder, entry)
    finally:
        os.close(folder)
        making.close()


class _Unpacking:
    def __init__(self, file: BinaryIO, root: int) -> None:
        self._file = file
        self._root = root
        self._mark = f".unpacked-{secrets.token_hex(8)}"
        self._known: set[int] = set()

    def make_file(self, folder: int, entry: _Entry) -> None:
        """Make a file, or one more name of it."""
        if entry.inode in self._known:
            os.link(self._spare(entry.inode), entry.name, src_dir_fd=self._root, dst_dir_fd=folder)
            return
        made = os.open(entry.name, _CREATE, 0o600, dir_fd=folder)
        try:
            os.ftruncate(made, entry.size)
            for offset, length in entry.pieces:
                os.lseek(made, offset, os.SEEK_SET)
                _copy(self._file.fileno(), self._file.tell(), made, length)
                self._file.seek(length, os.SEEK_CUR)
            _finish(made, entry)
        finally:
            os.close(made)
        if entry.inode:
            # By a name of its own in the root, since its folder may be closed by the time that it is named again.
            os.link(entry.name, self._spare(entry.inode), src_dir_fd=folder, dst_dir_fd=self._root)
            self._known.add(entry.inode)

    def close(self) -> None:
        """Take the names away that were needed meanwhile."""
        for inode in self._known:
            os.unlink(self._spare(inode), dir_fd=self._root)

    def _spare(self, inode: int) -> str:
        return f"{self._mark}-{inode}"


def _entries(file: BinaryIO) -> Iterator[_Entry]:
    while head := file.read(4):
        yield _decode(file.read(int.from_bytes(head, "little")))


def _finish(fd: int, entry: _Entry) -> None:
    os.utime(fd, ns=(entry.changed_ns, entry.changed_ns))
    os.fchmod(fd, entry.mode)


def _pieces(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that hold data: one that claims a terabyte may hold none."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        offset = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, offset - start


def _copy(source: int, offset: int, target: int, length: int) -> None:
    """Copy to where `target` stands, without the bytes coming through this process."""
    while length:
        count = os.sendfile(target, source, offset, length)
        if not count:
            raise ValueError("the packed file ends too early")
        offset += count
        length -= count
