"""The shelf: where the files of idle workspaces lie, packed, while nobody runs in them.

They end with the gateway, as workspaces do. Its folder is locked as long as it lives, so the next gateway that has the
same place for them removes what one that was killed has left, and nothing of one that lives, whichever container that
is in.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sealyard.sandbox.packing import pack, unpack
from sealyard.sandbox.pool import open_directory
from sealyard.sandbox.workspace import acting_as, remove_directory

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEAST_BYTES = 64 << 10
"""The least a parcel counts: even an empty file costs the host something."""


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
        self._lock: int | None = None

    def sweep(self) -> None:
        """Remove what gateways that are gone have left at the same place."""
        if self._base is None or not self._base.is_dir():
            return
        with _locked(self._base):
            for left in self._base.iterdir():
                _remove_if_left(left)

    def put(self, number: int, root: int) -> Parcel | None:
        """Pack the files below `root`, in which nobody runs; None if there are none. Raises `OSError`."""
        path = self._open() / f"{number}"
        with contextlib.ExitStack() as stack:
            stack.callback(path.unlink, missing_ok=True)
            with open(path, "xb", opener=_private) as file:
                packed = pack(root, file)
                size = file.tell()
            if not packed.entries:
                return None
            stack.pop_all()
        mode = os.fstat(root).st_mode & 0o7777
        return Parcel(path=path, bytes=max(_LEAST_BYTES, size), linked=packed.linked, mode=mode)

    def take(self, parcel: Parcel, root: int, user: int | None) -> None:
        """Unpack into the empty folder `root`, as `user`, and delete the parcel. Raises `OSError` and `ValueError`."""
        with parcel.path.open("rb") as file, acting_as(user):
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
            remove_directory(self._folder)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open(self) -> Path:
        """The folder, made when the first workspace comes."""
        if self._folder is None:
            if self._base is None:
                self._folder = open_directory(secrets.token_hex(4))
                self._folder.chmod(0o700)
                return self._folder
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._base):
                folder = self._base / secrets.token_hex(8)
                folder.mkdir(mode=0o700)
                self._lock = os.open(folder, _FOLDER)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                self._folder = folder
        return self._folder


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the place, so that no folder is swept between its making and its lock."""
    fd = os.open(folder, _FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _remove_if_left(folder: Path) -> None:
    """Remove the folder of a gateway that is gone."""
    with contextlib.suppress(OSError):  # it is locked by one that lives, or cannot be removed, and then it stays
        fd = os.open(folder, _FOLDER)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_directory(folder)
        finally:
            os.close(fd)
