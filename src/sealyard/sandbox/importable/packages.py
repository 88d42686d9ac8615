"""The files that make up the packages which agent code may import.

Only the named distributions and what they require are shown to a worker, entry by entry, so that the rest of the
environment they are installed in, which may be the gateway's own, stays out of sight.
"""

import csv
import importlib.metadata
import re
import sys
from collections.abc import Iterable, Mapping
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.sandbox.policy import GUEST_MODULES

# Visible, but not imported before the fork. The threads of the first three would not come along; the import of `scipy`
# alone brings none of its parts, so that a run which imports one of them would gain nothing.
_NOT_IMPORTED_FIRST = frozenset({"polars", "pyarrow", "duckdb", "scipy"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r";.*\bextra\s*==")


class GuestPackages(msgspec.Struct, frozen=True, kw_only=True):
    """The packages found: versions by name, the files and folders they consist of, and the modules to import first."""

    versions: dict[str, str]
    entries: tuple[tuple[str, str], ...]
    """Source path and name inside."""
    imports: tuple[str, ...]
    modules: frozenset[str]
    """Every top-level module they offer."""
    own: tuple[tuple[str, str], ...] = ()
    """Folders of ours, as `entries`: their Python files are shown, and nothing that lies around them."""


def find_packages(names: Iterable[str], *, environment: Path | None = None) -> GuestPackages:
    """Find the distributions `names` and their requirements; those that are not installed are left out.

    `environment` is the folder they are installed in (a `site-packages`); by default the gateway's own import path.
    """
    path = [str(environment)] if environment is not None else [entry for entry in sys.path if entry]
    waiting = list(names)
    if not waiting:
        return GuestPackages(versions={}, entries=(), imports=(), modules=frozenset())
    wanted, known = {_key(name) for name in waiting}, set[str]()
    versions: dict[str, str] = {}
    entries: dict[str, str] = {}
    modules: set[str] = set()
    imports: list[str] = []
    while waiting:
        name = _key(waiting.pop())
        if name in known:
            continue
        known.add(name)
        # By its name: to read what all that are installed are called takes longer than all else here.
        for dist in importlib.metadata.distributions(name=name, path=path):
            headers = _headers(dist)
            if headers["Name"]:  # an uninstallation that was interrupted leaves a folder without a name
                break
        else:
            continue
        tops = _top_level(dist)
        entries.update(tops)
        offered = {name.partition(".")[0] for name in tops if not name.endswith((".dist-info", ".libs", ".pth"))}
        modules |= offered
        if name in wanted:
            versions[headers["Name"]] = headers["Version"]
            imports += sorted(top for top in offered - _NOT_IMPORTED_FIRST if _key(top) == name)
        requires = headers.get_all("Requires-Dist") or (dist.requires if dist.read_text("requires.txt") else None) or ()
        waiting += [match[0] for text in requires if not _EXTRA.search(text) and (match := _NAME.match(text))]
    return GuestPackages(
        versions=versions,
        entries=tuple(sorted((source, name) for name, source in entries.items())),
        imports=tuple(sorted(imports)),
        modules=frozenset(modules),
    )


def add_own(packages: GuestPackages, own: Mapping[str, Path]) -> GuestPackages:
    """`packages` and folders of our own Python files, each imported first under its name.

    Raises:
        InvalidRequest: A name is not one that code may import at every level.
    """
    for name in own:
        if name not in GUEST_MODULES:
            raise InvalidRequest(f"No guest module is called {name!r}. There are: {', '.join(GUEST_MODULES)}.")
    return msgspec.structs.replace(
        packages,
        imports=(*packages.imports, *own),
        own=tuple((str(folder.resolve()), name) for name, folder in own.items()),
    )


def _headers(dist: importlib.metadata.Distribution) -> Message:
    """The metadata of a distribution. Its own properties parse everything anew each, with pages of description."""
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or dist.read_text("") or ""
    return HeaderParser().parsestr(text.partition("\n\n")[0])


def _top_level(dist: importlib.metadata.Distribution) -> dict[str, str]:
    """Name -> path of what a distribution puts directly into its folder."""
    found = {}
    for name in _first_parts(dist) - {"", ".", "..", "__pycache__"}:
        source = Path(str(dist.locate_file(name)))
        if source.exists():
            found[name] = str(source.resolve())
    return found


def _first_parts(dist: importlib.metadata.Distribution) -> set[str]:
    """The first part of each path that a distribution consists of. Some have thousands, so none becomes an object."""
    record = dist.read_text("RECORD")
    if record is None:  # installed as an egg
        return {file.parts[0] for file in dist.files or ()}
    return {row[0].partition("/")[0] for row in csv.reader(record.splitlines()) if row}


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
