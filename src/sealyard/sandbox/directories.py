"""The directories of one gateway on disk, and the removal of those that a killed one left.

The name of a directory holds a mark of the process that owns it, and the directory is locked as long as that lives.
The mark shows the end of an owner on this machine, and the lock the life of one in another container.
"""

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
from pathlib import Path

from sealyard.errors import SandboxUnavailable
from sealyard.sandbox import spawn
from sealyard.sandbox.cgroup import owner_is_alive, owner_mark

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_locks: dict[Path, int] = {}
"""Open directories with a locked descriptor of each, which `systemd-tmpfiles` respects too; -1 without a lock."""


def open_directory(name: str, folder: Path | None, *, reachable: bool) -> Path:
    """A directory of this gateway below `folder` or the temporary directory, after sweeping those of ended gateways.

    Workers of any user find in a `reachable` one what they can name, and cannot list it. It lies below `folder`, since
    programs that clean up remove old files from the system's temporary directory; but in the latter where `TMPDIR`
    names it, as a place of its own size may be, or if workers could not reach `folder`.
    """
    base = _reachable_base(folder) if reachable else folder or _temporary()
    sweep(base)
    directory = base / f"sealyard-{owner_mark()}-{name}"
    _locks[directory] = -1
    try:
        make_directory(directory, mode=0o711 if reachable else 0o700)
    except BaseException:
        del _locks[directory]
        raise
    return directory


def close_directory(directory: Path) -> None:
    """Delete what `open_directory` made, with all that is in it."""
    _unlock(directory)
    del _locks[directory]
    remove_directory(directory)


def make_directory(path: Path, *, mode: int = 0o711) -> None:
    """Make a directory, again if need be, whatever the umask is. An open one is locked again."""
    if path.is_dir():
        return
    if path.parent in _locks:
        make_directory(path.parent)
    made = path
    if path in _locks:
        made = path.with_name(f".{path.name}")  # nobody sweeps it before it is locked
    made.mkdir(parents=True)
    made.chmod(mode)
    if path in _locks:
        _unlock(path)
        with contextlib.suppress(OSError):  # a file system without locks, where nobody sweeps either
            _locks[path] = _lock(made)
        made.rename(path)


def sweep(base: Path) -> None:
    """Remove the directories of gateways that have ended from `base`."""
    for left in base.glob("sealyard-*.*-*"):
        mark = left.name.removeprefix("sealyard-").rpartition("-")[0]
        with contextlib.suppress(OSError):  # another owner's, or just swept by another gateway
            if left.lstat().st_uid == os.geteuid() and not left.is_symlink() and not owner_is_alive(mark):
                os.close(_lock(left))  # raises for one whose owner lives, but in another container
                remove_directory(left)


def remove_directory(directory: Path) -> None:
    """Delete a directory whose content is the agent's; every process that could write to it is dead.

    Nested folders are moved up before they are emptied, so that neither depth nor length of a path matters, and
    permissions that the code took away are put back first.
    """
    try:
        top = os.open(directory, _FOLDER)
    except FileNotFoundError:
        return
    moved = 0
    unused = f".removed-{secrets.token_hex(8)}"
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                folder = _open_anyway(name, top)
                try:
                    for child in os.listdir(folder):
                        if _is_folder(child, folder):
                            os.close(_open_anyway(child, folder))
                            moved += 1
                            os.rename(child, f"{unused}-{moved}", src_dir_fd=folder, dst_dir_fd=top)
                        else:
                            os.unlink(child, dir_fd=folder)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(directory)


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _open_anyway(name: str, folder: int) -> int:
    """Open a folder and make it ours to change."""
    os.chmod(name, 0o700, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def is_open_to_all(*paths: str) -> bool:
    """True if every user can reach these files, so that a worker with a user of its own can too."""
    parents = [parent for path in paths for parent in Path(os.path.realpath(path)).parents]
    return all(parent.stat().st_mode & 0o001 for parent in parents)


def _reachable_base(folder: Path | None) -> Path:
    """`folder`, made if need be; else the temporary directory."""
    if folder is not None and "TMPDIR" not in os.environ:
        with contextlib.suppress(OSError):
            if is_open_to_all(str(folder)) or not spawn.can_change_user():
                make_directory(folder)
                if os.access(folder, os.W_OK):
                    return folder
    return _temporary()


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise SandboxUnavailable(f"The sandbox needs a temporary directory: {error.strerror}.") from error


def _lock(directory: Path) -> int:
    """A descriptor that holds `directory` locked until it is closed. Raises `OSError` while another process does."""
    fd = os.open(directory, _FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _unlock(directory: Path) -> None:
    if _locks[directory] >= 0:
        os.close(_locks[directory])
        _locks[directory] = -1
