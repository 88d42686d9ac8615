"""The library: the stub files that sandboxed code imports and browses, one folder per catalog version.

It lies on the host and every worker sees it read-only. A new version is complete before it is current, and a run keeps
the one it began with.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path, PurePosixPath

from toolyard.errors import InvalidRequest
from toolyard.sandbox.pool import open_directory

__all__ = ("Library", "open_library")

_CURRENT = "current"


class Library:
    """Versions of the stub files. Make one with `open_library`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version: str | None = None
        """The version that new runs get."""
        self._uses: dict[str, int] = {}
        self._publishing = asyncio.Lock()

    async def publish(self, version: str, files: Mapping[str, str]) -> None:
        """Make `files`, text by relative path, what new runs import. A version that is current already costs nothing.

        Raises:
            InvalidRequest: A path leads out of the library.
        """
        async with self._publishing:
            if version == self.version:
                return
            await asyncio.to_thread(self._write, version, files)
            self.version = version
            await asyncio.to_thread(self._remove_unused)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[str | None]:
        """The current version, which stays on disk as long as it is used."""
        version = self.version
        if version is None:
            yield None
            return
        self._uses[version] = self._uses.get(version, 0) + 1
        try:
            yield version
        finally:
            self._uses[version] -= 1
            if not self._uses[version]:
                del self._uses[version]

    def _write(self, version: str, files: Mapping[str, str]) -> None:
        target = self.path / version
        if not target.exists():
            draft = self.path / f".{secrets.token_hex(4)}"
            _make_folder(draft)
            for name, text in files.items():
                path = PurePosixPath(name)
                if path.is_absolute() or ".." in path.parts or "\0" in name:
                    raise InvalidRequest(f"{name!r} is no path inside the library.")
                place = draft / path
                if not place.parent.exists():
                    _make_folder(place.parent)
                with place.open("w", encoding="utf-8", errors="replace") as file:
                    os.fchmod(file.fileno(), 0o644)
                    file.write(text)
            draft.rename(target)
        link = self.path / f".{secrets.token_hex(4)}"
        link.symlink_to(version)
        link.rename(self.path / _CURRENT)  # at once: nobody sees a time without a current version

    def _remove_unused(self) -> None:
        for entry in self.path.iterdir():
            if entry.name not in (_CURRENT, self.version) and entry.name not in self._uses:
                shutil.rmtree(entry, ignore_errors=True)


@contextlib.asynccontextmanager
async def open_library() -> AsyncIterator[Library]:
    """An empty library in a directory of its own, which is deleted at the end."""
    directory = open_directory(secrets.token_hex(4))
    place = directory / "library"
    _make_folder(place)
    try:
        yield Library(place)
    finally:
        await asyncio.to_thread(shutil.rmtree, directory)


def _make_folder(path: Path) -> None:
    """A folder that the workers' users can read, whatever this process's umask is."""
    path.mkdir()
    path.chmod(0o755)
