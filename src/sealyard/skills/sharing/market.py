"""A directory, or a checkout of a repository, as a market of skills: folders with a `SKILL.md`, and an index.

`index.json` pins each skill to the digest of its files; a changed skill is refused. A broken folder affects only
itself.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sealyard.errors import InvalidSkill, UnknownSkill
from sealyard.skills.sharing.files import files_digest, load_folder, read_file, replace_file, shown
from sealyard.skills.sharing.folder import read_folder
from sealyard.values.skills import MarketEntry
from sealyard.wording import one_line

FOLDERS_MOST = 10_000
"""Folders that one listing looks at."""
_DEPTH = 3  # of folders below the market
_INDEX = "index.json"
_INDEX_BYTES = 16 * 2**20  # about a KiB for each of the most folders
_IGNORED = frozenset({".git"})
_REASON = 500  # characters of a problem


class _Pin(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `index.json`."""

    name: str
    path: str
    version: str = ""
    digest: str
    description: str = ""


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    skills: list[_Pin]


class Market:
    """The skills below a directory, at most three folders deep. It follows no links and runs no program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[MarketEntry]:
        """All skills, by path. Reads every file, so the list matches the disk.

        Raises:
            InvalidSkill: The directory or its index cannot be read, or holds too many folders.
        """
        pins = self._pins()
        found = {}
        for entry in self._found():
            pin = pins.get(entry.path)
            if not entry.problem and pin is not None and pin.digest != entry.digest:
                problem = "It has changed since it was indexed. Read it again, then write the index again."
                entry = msgspec.structs.replace(entry, problem=problem)
            found[entry.path] = entry
        for path in pins.keys() - found.keys():
            found[path] = MarketEntry(
                name=pins[path].name, path=path, problem="It is in the index, but there is no such skill folder."
            )
        return [found[path] for path in sorted(found)]

    def get(self, name: str, *, digest: str | None = None) -> dict[str, bytes]:
        """The files of a skill, by its name with hyphens or underscores. `digest` pins them.

        Raises:
            UnknownSkill: There is no skill of that name.
            InvalidSkill: It is broken, or has changed since it was indexed or pinned.
        """
        entries = [entry for entry in self.entries() if entry.name == name.replace("_", "-")]
        if not entries:
            raise UnknownSkill(f"No skill named {shown(name)} is in the market {str(self.path)!r}. List what is there.")
        entry = min(entries, key=lambda entry: bool(entry.problem))
        if entry.problem:
            raise InvalidSkill(f"The skill {entry.name!r} in {shown(entry.path)} cannot be used. {entry.problem}")
        files = load_folder(self.path / entry.path)
        actual = files_digest(files)
        if actual != entry.digest or digest not in (None, actual):
            raise InvalidSkill(
                f"The skill {entry.name!r} in {shown(entry.path)} has changed since it was pinned: it is {actual} now."
                " Read it again before you pin that."
            )
        return files

    def write_index(self) -> Path:
        """Pin every sound skill to its present files in `index.json`; skills with a problem are left out.

        Raises:
            InvalidSkill: The directory cannot be read or written, or is a skill folder itself.
        """
        entries = [entry for entry in self._found() if not entry.problem]
        if any(entry.path == "." for entry in entries):
            raise InvalidSkill(
                f"{str(self.path)!r} is a skill folder itself. Write the index in the directory above it."
            )
        index = _Index(
            skills=[_Pin(**{key: getattr(entry, key) for key in _Pin.__struct_fields__}) for entry in entries]
        )
        target = self.path / _INDEX
        replace_file(target, msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n")
        return target

    def _found(self) -> list[MarketEntry]:
        """The skills on disk, by path; those that share a name have a problem."""
        entries = [self._entry(path) for path in sorted(self._folders())]
        paths: defaultdict[str, list[str]] = defaultdict(list)
        for entry in entries:
            if not entry.problem:
                paths[entry.name].append(entry.path)
        found = []
        for entry in entries:
            other = next((path for path in paths[entry.name] if path != entry.path), None)
            if other is not None and not entry.problem:
                problem = f"Another folder has the same name: {shown(other)}. Rename one."
                entry = msgspec.structs.replace(entry, problem=problem)
            found.append(entry)
        return found

    def _entry(self, path: str) -> MarketEntry:
        """The skill in the folder at `path`."""
        name = Path(path).name or self.path.name
        try:
            files = load_folder(self.path / path)
            skill = read_folder(files)
        except InvalidSkill as error:
            return MarketEntry(name=name, path=path, problem=one_line(str(error), limit=_REASON))
        return MarketEntry(
            name=skill.folder,
            path=path,
            version=skill.version,
            description=skill.description,
            tags=skill.tags,
            tools=tuple(f"{need.tool}@{need.version}" for need in skill.tools),
            digest=skill.digest,
        )

    def _folders(self) -> Iterator[str]:
        """The paths of all folders with a `SKILL.md`; folders below one belong to it."""
        waiting = [(".", 0)]
        seen = 1
        while waiting:
            path, depth = waiting.pop()
            try:
                is_skill, inside = _look(self.path / path)
            except OSError as error:
                if path == ".":
                    raise InvalidSkill(
                        f"The market {str(self.path)!r} cannot be read: {error.strerror}. Give a directory of skills."
                    ) from None
                is_skill, inside = True, []  # list an unreadable folder with the reason
            if is_skill:
                yield path
            elif depth < _DEPTH:
                waiting += [(name if path == "." else f"{path}/{name}", depth + 1) for name in inside]
                seen += len(inside)
            if seen > FOLDERS_MOST:
                raise InvalidSkill(
                    f"The market {str(self.path)!r} has more than {FOLDERS_MOST:,} folders. Give a part of it."
                )

    def _pins(self) -> dict[str, _Pin]:
        """The pins of the index, by path; empty without an index."""
        path = self.path / _INDEX
        if not os.path.lexists(path):
            return {}
        what = f"The index {str(path)!r}"
        content = read_file(path, most=_INDEX_BYTES, what=what)
        try:
            pins = msgspec.json.decode(content, type=_Index).skills
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = one_line(str(error), limit=_REASON)
            raise InvalidSkill(f"{what} cannot be used: {reason}. Write it again, or remove it.") from None
        by_path = {pin.path: pin for pin in pins}
        if len(by_path) != len(pins):
            raise InvalidSkill(f"{what} names a path twice. Write it again, or remove it.")
        return by_path


def _look(path: Path) -> tuple[bool, list[str]]:
    """True if the folder is a skill's, and else the folders in it that can be shown."""
    inside = []
    with os.scandir(path) as found:
        for entry in found:
            if entry.name == "SKILL.md":
                return True, []
            if entry.is_dir(follow_symlinks=False) and entry.name not in _IGNORED and entry.name.isprintable():
                inside.append(entry.name)
    return False, inside
