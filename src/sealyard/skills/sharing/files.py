"""The files of a skill folder: allowed names and sizes, digests, reading from disk and writing to it.

Folders come from strangers. Nothing outside of them is read, no link is followed, and an odd folder is refused as a
whole.
"""

import hashlib
import os
import secrets
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from sealyard.disk import drafted, new_file, sync_path
from sealyard.errors import InvalidSkill

FILES_MOST = 512
"""More files than any skill needs."""
BYTES_MOST = 16 * 2**20
"""All files of a folder: they are read into memory."""
NAME_MOST = 64
"""Of the name of a folder, from the Agent Skills format."""
_ENTRIES_MOST = 2 * FILES_MOST  # files and folders together: a tree of empty folders has an end too
_PATH_BYTES = 512  # of a path: file systems take 255 for each part
_DEPTH = 8  # of nested folders
_MODE = 0o666  # a person or a server shares these files: who reads them is up to the umask
_SHOWN = 120  # of a name in a message
_IGNORED = frozenset({".git"})
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file in a manifest."""

    path: str
    """Relative, with slashes."""
    sha256: str
    size: int


class SkillFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A skill in the Agent Skills format: the name of a folder and its files, checked on construction."""

    name: str
    """Lower-case letters, digits and single hyphens."""
    files: Mapping[str, bytes]
    """Content by relative path with slashes."""

    def __post_init__(self) -> None:
        if not is_folder_name(self.name):
            raise InvalidSkill(
                f"{shown(self.name)} is not a name for a skill folder. Use 1 to {NAME_MOST} of a-z, 0-9 and single"
                " hyphens between them."
            )
        if "SKILL.md" not in self.files:
            raise InvalidSkill(f"The skill folder {self.name!r} has no SKILL.md. Add one, or leave the folder out.")
        check_files(self.files, what=f"The skill folder {self.name!r}")

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest: equal digests mean equal files."""
        return files_digest(self.files)


def files_manifest(files: Mapping[str, bytes]) -> list[FileEntry]:
    """Every file, sorted by path."""
    return [
        FileEntry(path=path, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for path, content in sorted(files.items())
    ]


def files_digest(files: Mapping[str, bytes]) -> str:
    """`sha256:` and the hash of the manifest as compact JSON."""
    return f"sha256:{hashlib.sha256(msgspec.json.encode(files_manifest(files))).hexdigest()}"


def is_folder_name(name: str) -> bool:
    """True if the Agent Skills format allows this name."""
    return len(name) <= NAME_MOST and all(part and _NAME_CHARACTERS.issuperset(part) for part in name.split("-"))


def check_files(files: Mapping[str, bytes], *, what: str) -> None:
    """Check the names, the number and the size of files. Raises `InvalidSkill`."""
    if len(files) > FILES_MOST:
        raise _too_many(what)
    if sum(map(len, files.values())) > BYTES_MOST:
        raise _too_large(what)
    check_paths(files, what=what)


def check_paths(files: Iterable[str], *, what: str, folders: Iterable[str] = (), below: int = 0) -> None:
    """Check that paths name different files inside of one folder, on every file system.

    With `below`, that many names of skill folders precede the paths.

    Raises:
        InvalidSkill: A path leads elsewhere or cannot be shown, or two are equal where case does not count.
    """
    seen: dict[str, tuple[str, bool]] = {}
    for path, is_file in (*((file, True) for file in files), *((folder, False) for folder in folders)):
        _check_path(path, what=what, below=below)
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            part, is_leaf = "/".join(parts[:end]), is_file and end == len(parts)
            folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold())
            earlier = seen.get(folded)
            if earlier is not None and (is_leaf or earlier != (part, False)):
                raise InvalidSkill(
                    f"{what} holds {shown(earlier[0])} and {shown(part)}, which are one file where case does not count."
                    " Rename or remove one of them."
                )
            seen[folded] = part, is_leaf


def shown(text: str) -> str:
    """A bounded literal of `text` for a message."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def load_folder(path: Path) -> dict[str, bytes]:
    """The files of a folder by relative path, without `.git`.

    Raises:
        InvalidSkill: It does not exist, holds anything but folders and files, or too much.
    """
    what = f"The skill folder {str(path)!r}"
    loading = _Loading(what)
    try:
        descriptor = os.open(path, _OPEN_FOLDER)
        try:
            loading.folder(descriptor, "")
        finally:
            os.close(descriptor)
    except NotADirectoryError:
        raise InvalidSkill(f"{str(path)!r} is not a folder, or is a link. Give the folder itself.") from None
    except FileNotFoundError as error:
        raise InvalidSkill(f"{what} cannot be read: {error.filename!r} is not there. Check the path.") from None
    except OSError as error:
        raise InvalidSkill(f"{what} cannot be read: {error.strerror}. Make it readable for this user.") from error
    check_paths(loading.files, what=what)
    return loading.files


def write_folder(folder: SkillFolder, directory: Path, *, replace: bool = False) -> Path:
    """Write a skill folder into `directory`, wholly or not at all, and return its path.

    With `replace`, a skill folder of that name is replaced; for an instant neither exists under that name.

    Raises:
        InvalidSkill: Something of that name may not be replaced, or the disk does not take it.
    """
    target = directory / folder.name
    token = secrets.token_hex(8)
    draft, old = (directory / f".{folder.name}.{token}.{kind}" for kind in ("new", "old"))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _check_target(target, replace=replace)
        for path, content in folder.files.items():
            file = draft / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with new_file(file, mode=_MODE) as opened:
                opened.write(content)
        if target.exists():
            target.rename(old)
        try:
            draft.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
        sync_path(directory)
    except OSError as error:
        raise _not_written(target, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    return target


def write_folders(folders: Sequence[SkillFolder], directory: Path, *, replace: bool) -> list[Path]:
    """Write all folders, or none if one may not be replaced, and return their paths. Raises `InvalidSkill`."""
    for each in folders:
        _check_target(directory / each.name, replace=replace)
    return [write_folder(each, directory, replace=replace) for each in folders]


def read_file(path: Path, *, most: int, what: str) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Raises:
        InvalidSkill: It is something else, too large, or cannot be read.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidSkill(f"{what} is not a file. Give the path of one.")
            content = _read(file, most, what)
    except IsADirectoryError:
        raise InvalidSkill(f"{what} is not a file. Give the path of one.") from None
    except OSError as error:
        raise InvalidSkill(f"{what} cannot be read: {error.strerror}. Check the path and its rights.") from error
    if content is None:
        raise InvalidSkill(f"{what} has more than {most // 2**20} MiB. Split it.")
    return content


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: the old one or the new one exists, never a part.

    Raises:
        InvalidSkill: The disk does not take it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafted(path, mode=_MODE) as file:
            file.write(content)
    except OSError as error:
        raise _not_written(path, error) from error


def _check_path(path: str, *, what: str, below: int = 0) -> None:
    problem = _problem(path, below)
    if problem is not None:
        raise InvalidSkill(f"{what} holds {shown(path)}, {problem}. Rename or remove it.")


def _problem(path: str, below: int) -> str | None:
    """The reason why a path is not allowed."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "whose name is not UTF-8"
    parts = path.split("/")
    if size > _PATH_BYTES + below * (NAME_MOST + 1) or len(parts) > _DEPTH + below:
        return f"whose path has more than {_PATH_BYTES} bytes or {_DEPTH} parts"
    if not path.isprintable() or "\\" in path or ":" in path:
        return "whose name has a backslash, a colon or a character that cannot be seen"
    if any(part in ("", ".", "..") for part in parts):
        return "which is not a path inside of the folder"
    if any(part.endswith((".", " ")) for part in parts):
        return "whose name ends with a dot or a space"
    return None


class _Loading:
    """One reading of a folder. Names are resolved in the open folder alone, so nobody can swap in a link."""

    def __init__(self, what: str) -> None:
        self.files: dict[str, bytes] = {}
        self._what = what
        self._bytes = 0
        self._entries = 0

    def folder(self, descriptor: int, prefix: str) -> None:
        """Read the open folder."""
        names: list[str] = []
        with os.scandir(descriptor) as found:
            for entry in found:
                if entry.name in _IGNORED:
                    continue
                names.append(entry.name)
                self._entries += 1
                if self._entries > _ENTRIES_MOST:
                    raise _too_many(self._what)
        for name in sorted(names):
            _check_path(prefix + name, what=self._what)
            self._entry(descriptor, name, prefix + name)

    def _entry(self, folder: int, name: str, path: str) -> None:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        is_folder = stat.S_ISDIR(mode)
        if not is_folder and not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "a device")
            raise InvalidSkill(
                f"{self._what} holds {shown(path)}, which is {kind}. Replace it by a plain file or remove it."
            )
        descriptor = os.open(name, _OPEN_FOLDER if is_folder else _OPEN_FILE, dir_fd=folder)
        try:
            if is_folder:
                self.folder(descriptor, f"{path}/")
            else:
                self._file(descriptor, path)
        finally:
            os.close(descriptor)

    def _file(self, descriptor: int, path: str) -> None:
        with open(descriptor, "rb", closefd=False) as file:
            content = _read(file, BYTES_MOST - self._bytes, self._what)
        if content is None:
            raise _too_large(self._what)
        self._bytes += len(content)
        self.files[path] = content
        if len(self.files) > FILES_MOST:
            raise _too_many(self._what)


def _read(file: BinaryIO, most: int, what: str) -> bytes | None:
    """The content of an open file; `None` if it has more than `most` bytes."""
    size = os.fstat(file.fileno()).st_size
    if size > most:
        return None
    content = file.read(size + 1)
    if len(content) != size:
        raise InvalidSkill(f"{what} was changed while it was read. Try again.")
    return content


def _check_target(target: Path, *, replace: bool) -> None:
    """Check that writing there loses nothing."""
    if not os.path.lexists(target):
        return
    if not replace:
        raise InvalidSkill(f"{str(target)!r} exists. Choose another directory, or replace it on purpose.")
    if target.is_symlink() or not (target / "SKILL.md").is_file():
        raise InvalidSkill(
            f"{str(target)!r} is not a skill folder, so it is not replaced. Remove it yourself if it may go."
        )


def _too_many(what: str) -> InvalidSkill:
    return InvalidSkill(f"{what} has more than {FILES_MOST} files. Remove what the skill does not need.")


def _too_large(what: str) -> InvalidSkill:
    return InvalidSkill(f"{what} has more than {BYTES_MOST // 2**20} MiB. Remove what the skill does not need.")


def _not_written(path: Path, error: OSError) -> InvalidSkill:
    return InvalidSkill(f"{str(path)!r} cannot be written: {error.strerror}. Make room and check the rights.")
