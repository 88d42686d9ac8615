"""The library: the stub files that sandboxed code imports and browses, one folder per version.

A version is the whole catalog or what one principal may see of it; several can be there at once. The library lies on
the host. A worker sees the one folder that its run was given, read-only, and cannot see any others.

A large version is there as soon as its packages are: the files of its tools follow in the background, for code that
browses them. Code that imports one before asks the gateway for its text.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path, PurePosixPath

from sealyard.errors import InvalidRequest, SandboxBroken
from sealyard.sandbox.directories import close_directory, make_directory, open_directory

_log = logging.getLogger(__name__)


class Library:
    """Versions of the stub files. Make one with `open_library`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = str(path)
        self.version: str | None = None
        """The version for a run that names none: the last published catalog, as a whole."""
        self._folders: dict[str, str] = {}
        """Version -> its folder, whose name nobody can guess."""
        self._catalogs: dict[str, str] = {}
        """Version -> the version of the catalog that it shows, wholly or in part."""
        self._uses: Counter[str] = Counter()
        self._last: str | None = None
        self._publishing = asyncio.Lock()
        self._filling: dict[str, asyncio.Task[None]] = {}
        """Folder -> the work that adds the rest of its files."""
        self._live: set[str] = set()
        """Folders that may be written into."""

    def has(self, version: str) -> bool:
        """True if the version can be used: a clean-up from outside may have removed it."""
        folder = self._folders.get(version)
        return folder is not None and os.path.isdir(f"{self._place}/{folder}")

    async def publish(
        self,
        version: str,
        files: Mapping[str, str],
        *,
        catalog: str | None = None,
        more: Iterator[tuple[str, str]] | None = None,
    ) -> None:
        """Make `files`, text by relative path, what runs of this version import. One that is there costs nothing.

        `more` are further files, which are written in the background. `catalog` is the version of the catalog that
        this one is a part of; without it, it is the whole. What shows another catalog is then out of date and goes as
        soon as nobody uses it.

        Raises:
            InvalidRequest: A path leads out of the library.
        """
        async with self._publishing:
            if not self.has(version):
                folder = self._folders[version] = await asyncio.to_thread(self._write, files)
                if more is not None:
                    self._live.add(folder)
                    self._filling[folder] = asyncio.create_task(asyncio.to_thread(self._fill, folder, more))
            self._catalogs[version] = catalog or version
            if catalog in (None, version):
                self.version = self._last = version
            # Forgotten before it is deleted, so that nobody begins to use it meanwhile.
            stale = [each for each, shown in self._catalogs.items() if shown != self._catalogs[version]]
            gone = [self._forget(each) for each in stale if not self._uses[each]]
            await self._end_filling(gone)
            await asyncio.to_thread(self._delete, gone)

    async def close(self) -> None:
        """Stop writing."""
        await self._end_filling(list(self._filling))

    async def filled(self) -> None:
        """Wait until every file of every version is there."""
        await asyncio.gather(*self._filling.values())

    def likely(self) -> str | None:
        """The folder that the next run will most likely use: that of the last run, or what was published since."""
        return None if self._last is None else self._folders.get(self._last)

    @contextlib.contextmanager
    def in_use(self, version: str | None = None) -> Iterator[str | None]:
        """The folder of a version, which stays as long as it is used; None if nothing was published yet.

        Raises:
            SandboxBroken: The version is not there.
        """
        version = version or self.version
        if version is None:
            yield None
            return
        if not self.has(version):
            raise SandboxBroken("The tools that this run was to import have changed meanwhile. Run it again.")
        self._last = version
        self._uses[version] += 1
        try:
            yield self._folders[version]
        finally:
            self._uses[version] -= 1

    def _forget(self, version: str) -> str:
        del self._catalogs[version], self._uses[version]
        return self._folders.pop(version)

    async def _end_filling(self, folders: list[str]) -> None:
        self._live.difference_update(folders)
        await asyncio.gather(*(self._filling.pop(folder) for folder in folders if folder in self._filling))

    def _fill(self, folder: str, more: Iterator[tuple[str, str]]) -> None:
        try:
            for name, text in more:
                if folder not in self._live:
                    return
                _write_file(self.path / folder, name, text)
        except OSError as error:  # such as a full disk: imports do not need these files
            _log.warning("Code cannot browse all tools under /servers: %s.", error)

    def _write(self, files: Mapping[str, str]) -> str:
        make_directory(self.path)
        folder = self.path / secrets.token_hex(16)
        _make_folder(folder)
        try:
            for name, text in files.items():
                _write_file(folder, name, text)
        except BaseException:
            self._delete([folder.name])
            raise
        return folder.name

    def _delete(self, folders: list[str]) -> None:
        for folder in folders:
            shutil.rmtree(self.path / folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def open_library(folder: Path | None = None) -> AsyncIterator[Library]:
    """An empty library in a directory of its own below `folder`, which is deleted at the end."""
    directory = open_directory(secrets.token_hex(4), folder, reachable=True)
    place = directory / "library"
    make_directory(place)
    library = Library(place)
    try:
        yield library
    finally:
        await library.close()
        await asyncio.to_thread(close_directory, directory)


def _write_file(folder: Path, name: str, text: str) -> None:
    """Put a file into a folder that others may be reading: it is there whole or not at all.

    Raises:
        InvalidRequest: Its name leads out of the folder.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise InvalidRequest(f"{name!r} is not a path inside the library.")
    place = folder / path
    if not place.parent.exists():
        _make_folder(place.parent)
    partial = place.with_name(f".{place.name}")
    with partial.open("w", encoding="utf-8", errors="replace") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
    partial.rename(place)


def _make_folder(path: Path) -> None:
    """A folder that the workers' users can read, whatever this process's umask is."""
    path.mkdir()
    path.chmod(0o755)
