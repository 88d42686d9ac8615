"""A user's files: where they are on this machine, and how they are written.

A crash leaves the old file or the new one, and the replaced content is kept for an undo.
"""

import datetime
import hashlib
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sealyard.disk import drafted
from sealyard.errors import InvalidRequest
from sealyard.former import FORMER, PRESENT

_NAME = re.compile(rf"\.({PRESENT}|{FORMER})-backup-([0-9]{{8}}T[0-9]{{12}}Z)-([0-9a-f]{{16}})(-new)?")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that a configuration depends on. Tests give another one."""

    environ: Mapping[str, str]
    home: Path
    directory: Path
    """The project: where the command was started."""
    platform: str
    """As `sys.platform` says it: `linux`, `darwin`, `win32`."""

    def __repr__(self) -> str:  # the environment holds secrets
        return f"Machine(home={self.home!r}, directory={self.directory!r}, platform={self.platform!r})"

    @property
    def data_folder(self) -> Path:
        """The folder of sealyard's own data."""
        return self._folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local") / "sealyard"

    @property
    def config_folder(self) -> Path:
        """The folder of a user's `sealyard.toml`."""
        return self._folder("XDG_CONFIG_HOME", ".config", "LOCALAPPDATA", "Local") / "sealyard"

    def former_config(self, path: Path) -> Path:
        """The place of the configuration at `path` under the product's former name."""
        folder = path.parent
        return (folder.with_name(FORMER) if folder == self.config_folder else folder) / f"{FORMER}.toml"

    @property
    def applications_folder(self) -> Path:
        """The folder in which each desktop program has a folder of settings."""
        return self._folder("XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")

    def _folder(self, xdg: str, unix: str, variable: str, windows: str) -> Path:
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get(variable) or self.home / "AppData" / windows)
        given = Path(self.environ.get(xdg, ""))
        return given if given.is_absolute() else self.home / unix  # XDG says to ignore a relative one


def read_machine(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None, platform: str = sys.platform
) -> Machine:
    """The machine as the environment describes it; by default that of this process."""
    environ = os.environ if environ is None else environ
    home = environ.get("USERPROFILE" if platform == "win32" else "HOME")
    return Machine(
        environ=dict(environ),
        home=Path(home) if home else Path.home(),
        directory=(directory or Path.cwd()).absolute(),
        platform=platform,
    )


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was before sealyard changed it. Its name holds everything that an undo must know."""

    path: Path
    digest: str
    """The digest of the text that sealyard wrote: another one means that somebody changed the file since."""
    was_absent: bool
    is_former: bool = False
    """The product made it under its former name."""

    def read_original(self) -> bytes | None:
        """The file as it was; `None` if there was none."""
        return None if self.was_absent else read_bytes(self.path)


def digest(content: bytes | None) -> str:
    """A short name for a file's content."""
    return hashlib.sha256(content or b"").hexdigest()[:16]


def read_bytes(path: Path) -> bytes | None:
    """The file's content; `None` if there is no file.

    Raises:
        InvalidRequest: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read: {error.strerror}. Check its rights.") from None


def change_file(path: Path, *, old: bytes | None, new: bytes) -> Backup:
    """Write `new` in place of `old`, after a backup of `old` is on disk beside it.

    Raises:
        InvalidRequest: The file is not `old` any more, or cannot be written.
    """
    if read_bytes(path) != old:
        raise InvalidRequest(f"{str(path)!r} was changed by somebody else just now. It is as they left it; try again.")
    name = f"{path.name}.sealyard-backup-{_now()}-{digest(new)}{'-new' if old is None else ''}"
    backup = Backup(path=path.with_name(name), digest=digest(new), was_absent=old is None)
    replace_file(backup.path, old or b"", mode=_mode(path))
    try:
        replace_file(path, new)
    except InvalidRequest:
        backup.path.unlink()
        raise
    return backup


def restore_file(path: Path, *, new: bytes | None, backups: Sequence[Backup]) -> None:
    """Write `new`, or remove the file if it is `None`, and remove the backups.

    Raises:
        InvalidRequest: The file cannot be written.
    """
    if new is not None:
        replace_file(path, new, mode=_mode(backups[-1].path))
    else:
        Path(os.path.realpath(path)).unlink(missing_ok=True)
    for backup in backups:
        backup.path.unlink()


def find_backups(path: Path) -> list[Backup]:
    """All backups of the file, the newest first."""
    found = []
    for file in path.parent.glob("*") if path.parent.is_dir() else ():
        match = _NAME.fullmatch(file.name.removeprefix(path.name)) if file.name.startswith(path.name) else None
        if match:
            backup = Backup(path=file, digest=match[3], was_absent=match[4] is not None, is_former=match[1] == FORMER)
            found.append((match[2], backup))
    return [backup for _, backup in sorted(found, key=lambda each: each[0], reverse=True)]


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` in place of the file in one step, with the mode and owner of the old one; links are followed.

    `mode` is for a file that does not exist yet.

    Raises:
        InvalidRequest: The file is read-only or cannot be written here.
    """
    target = Path(os.path.realpath(path))
    try:
        _replace(target, content, mode)
    except OSError as error:
        raise InvalidRequest(
            f"{str(path)!r} cannot be written: {error.strerror}. It is as it was; check its rights and its folder's."
        ) from None


def _replace(target: Path, content: bytes, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.stat() if target.exists() else None
    if old is not None and (not stat.S_ISREG(old.st_mode) or not old.st_mode & 0o222 or not os.access(target, os.W_OK)):
        # A new file could replace it all the same, but its owner meant it to stay.
        raise InvalidRequest(
            f"{str(target)!r} is read-only or no regular file. It is as it was; make it writable first."
        )
    with drafted(target) as file:
        file.write(content)
        if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) if old is not None else mode)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%fZ")
