"""The history of tools: every definition each of them had, and what it changed.

An upstream that changes its tools without end fills neither the disk nor the memory: of each tool the newest releases
and the first are kept, of each upstream so many releases and bytes; what the listed tools are now is always kept.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from sealyard.store import rows
from sealyard.store.reader import Reader
from sealyard.store.rows import storable
from sealyard.store.shapes import read_shape
from sealyard.store.writer import Writer
from sealyard.values import ToolSpec
from sealyard.versioning.compare import Change, Comparison, Version

ReleaseKind = Literal["added", "changed", "removed", "returned", "renamed", "observed"]
"""`returned`: it was gone, or its upstream is reached otherwise since. `observed`: its answers changed, and its
definition does not say so."""

RELEASES_KEPT = 10_000
"""Per upstream, beside the last one of each tool that it lists."""
_PER_TOOL = 200
_UPSTREAM_BYTES = 64 << 20
_HOPS = 50

_COMPARISONS = msgspec.json.Decoder(Comparison)
_SPECS = msgspec.json.Decoder(ToolSpec)
_SELECT = (
    "SELECT upstream, name, number, major, minor, patch, kind, spec, comparison, declared, source, renamed_to,"
    " renamed_from, released_at FROM tool_releases"
)


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the history of a tool."""

    upstream: str
    name: str
    """What the upstream calls the tool."""
    number: int
    """1 for its first."""
    version: str
    """Of `spec`. A tool that is taken away, or gets another name, keeps the version it had."""
    kind: ReleaseKind
    spec: ToolSpec
    """The definition from here on; of a tool that is gone, its last one."""
    comparison: Comparison
    """With the release before."""
    declared: str | None = None
    """The version that the upstream, or the tool, gave itself at that time."""
    source: str = ""
    """A digest of how the upstream was reached, if that is known: another one may be another server."""
    renamed_to: str | None = None
    """The upstream's name for what this tool became."""
    renamed_from: str | None = None
    released_at: float
    """Seconds since the epoch."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """What is different, field by field."""
        return self.comparison.changes

    @property
    def is_gone(self) -> bool:
        """Whether there is no tool of this name after it."""
        return self.kind == "removed" or self.renamed_to is not None


class LastRelease(msgspec.Struct, frozen=True, kw_only=True):
    """What the next release of a tool has to know of its last one."""

    number: int
    version: str
    digest: str
    source: str
    is_gone: bool
    renamed_to: str | None = None
    spec: ToolSpec | None = None
    """Left out for a tool that is there and is defined as before, and for one that is gone and stays so."""
    answers: dict[str, Any] | None = None
    """The schema of what it was seen to answer, if it does not declare one."""


class ReleaseTable:
    """The history of all tools of one store."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def history(self, upstream: str, name: str) -> list[Release]:
        """The releases of a tool, the newest first. `name` is the upstream's; a tool that is gone has a history too."""
        return await self._reader.read(_read_history, upstream, name)

    async def find_tool(self, full_name: str) -> tuple[str, str] | None:
        """The upstream and its own name of the tool that has, or had last, this full name."""
        return await self._reader.read(_read_tool, full_name)

    async def get(self, full_name: str, version: str) -> Release | None:
        """The release that made a tool what it was at `version`: `1.2` means the newest 1.2.x, `1` the newest 1.x.y.

        Raises:
            InvalidRequest: `version` is no version.
        """
        Version.parse(version)
        return await self._reader.read(_read_version, full_name, tuple(map(int, version.split("."))))

    async def newest(self) -> list[Release]:
        """The last release of every tool that was listed last, in the order of their full names."""
        return await self._reader.read(_read_newest)

    async def recent(self, since: float, limit: int = 100) -> list[Release]:
        """The releases of all tools after that time, the newest first."""
        return await self._reader.read(_read_recent, since, limit)

    async def follow(self, upstream: str, name: str) -> ToolSpec | None:
        """The tool that goes by `name` today, or by the name it was given since; None if there is none any more."""
        return await self._reader.read(_follow, upstream, name)

    async def last(self, upstream: str, digests: Mapping[str, str]) -> dict[str, LastRelease]:
        """The last release of every tool that `upstream` ever had, by its own name for it.

        `digests` are the definitions that it lists now: where something else was there last, that is read too.
        """
        return await self._reader.read(_read_last, upstream, digests)

    async def without_history(self) -> list[str]:
        """Upstreams whose tools are known from before there were releases."""
        return await self._reader.read(_read_without_history)

    async def definitions(self, upstream: str) -> dict[str, list[rows.SeenDefinition]]:
        """Every definition that each tool of an upstream had, by its own name for it, in the order of their coming."""
        return await self._reader.read(_read_definitions, upstream)

    async def backfill(self, upstream: str, specs: Sequence[ToolSpec], releases: Sequence[Release]) -> None:
        """Write the history of tools that have none, and the versions of those that are listed, durably.

        It does nothing if another gateway was faster.
        """
        encoded, tools = await asyncio.to_thread(
            lambda: ([encode_release(each) for each in releases], [rows.encode_tool(each) for each in specs])
        )

        def write(connection: sqlite3.Connection) -> None:
            if write_releases(connection, upstream, encoded):
                connection.executemany(
                    "UPDATE tools SET spec = ? WHERE upstream = ? AND position = ? AND digest = ?",
                    [(tool.spec, storable(upstream), place, tool.digest) for place, tool in enumerate(tools)],
                )

        self._writer.put(write, sum(each[-1] for each in encoded))
        await self._writer.flush()


# In the store's threads


def encode_release(release: Release) -> tuple[Any, ...]:
    """A release for `write_releases`. Raises `StoreError` for a definition that is no JSON."""
    version = Version.parse(release.version)
    tool = rows.encode_tool(release.spec)
    comparison = msgspec.json.encode(release.comparison).decode()
    return (
        tool.name,
        release.number,
        release.spec.full_name,
        version.major,
        version.minor,
        version.patch,
        release.kind,
        tool.digest,
        tool.spec,
        comparison,
        None if release.declared is None else storable(release.declared),
        release.source,
        None if release.renamed_to is None else storable(release.renamed_to),
        None if release.renamed_from is None else storable(release.renamed_from),
        release.released_at,
        len(tool.spec) + len(comparison),
    )


def write_releases(connection: sqlite3.Connection, upstream: str, releases: Sequence[tuple[Any, ...]]) -> bool:
    """Insert releases, those of a tool in their order, and let go of the oldest.

    False, and nothing is written, if another gateway has written one of them.
    """
    upstream = storable(upstream)
    first: dict[str, int] = {}
    for name, number, *_ in releases:
        first.setdefault(name, number)
    query = "SELECT coalesce(max(number), 0) FROM tool_releases WHERE upstream = ? AND name = ?"
    for name, number in first.items():
        if connection.execute(query, (upstream, name)).fetchone()[0] != number - 1:
            return False
    connection.executemany(
        "INSERT INTO tool_releases (upstream, name, number, full_name, major, minor, patch, kind, digest, spec,"
        " comparison, declared, source, renamed_to, renamed_from, released_at, size_bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(upstream, *release) for release in releases],
    )
    connection.executemany(
        "DELETE FROM tool_releases WHERE upstream = ? AND name = ? AND number <= ? AND number > 1",
        [(upstream, name, number - _PER_TOOL) for name, number, *_ in releases if number > _PER_TOOL],
    )
    if releases:
        _prune(connection, upstream)
    return True


def _prune(connection: sqlite3.Connection, upstream: str) -> None:
    """Delete the oldest releases of an upstream that has too many, but no tool's last one while the tool is there."""
    query = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM tool_releases WHERE upstream = ?"
    count, size_bytes = connection.execute(query, (upstream,)).fetchone()
    if count <= RELEASES_KEPT and size_bytes <= _UPSTREAM_BYTES:
        return
    listed = connection.execute(
        "SELECT name, number, size_bytes, kind = 'removed' OR renamed_to IS NOT NULL FROM tool_releases"
        " WHERE upstream = ? ORDER BY released_at DESC, number DESC",
        (upstream,),
    ).fetchall()
    last: dict[str, int] = {}
    for name, number, _, _ in listed:
        last[name] = max(number, last.get(name, 0))
    kept = kept_bytes = 0
    gone = []
    for name, number, size, is_gone in listed:
        if number == last[name] and not is_gone:
            continue
        kept += 1
        kept_bytes += size
        if kept > RELEASES_KEPT or kept_bytes > _UPSTREAM_BYTES:
            gone.append((upstream, name, number))
    connection.executemany("DELETE FROM tool_releases WHERE upstream = ? AND name = ? AND number = ?", gone)


def _read_history(connection: sqlite3.Connection, upstream: str, name: str) -> list[Release]:
    query = f"{_SELECT} WHERE upstream = ? AND name = ? ORDER BY number DESC"
    return [_to_release(row) for row in connection.execute(query, (storable(upstream), storable(name)))]


def _read_tool(connection: sqlite3.Connection, full_name: str) -> tuple[str, str] | None:
    query = "SELECT upstream, name FROM tool_releases WHERE full_name = ? ORDER BY released_at DESC LIMIT 1"
    found: tuple[str, str] | None = connection.execute(query, (storable(full_name),)).fetchone()
    return found


def _read_version(connection: sqlite3.Connection, full_name: str, numbers: tuple[int, ...]) -> Release | None:
    tool = _read_tool(connection, full_name)
    if tool is None:
        return None
    parts = "".join(f" AND {part} = ?" for part, _ in zip(("major", "minor", "patch"), numbers, strict=False))
    query = (
        f"{_SELECT} WHERE upstream = ? AND name = ?{parts} ORDER BY major DESC, minor DESC, patch DESC,"
        " kind = 'removed' OR renamed_to IS NOT NULL, number DESC LIMIT 1"
    )
    row = connection.execute(query, (*tool, *numbers)).fetchone()
    return None if row is None else _to_release(row)


def _read_newest(connection: sqlite3.Connection) -> list[Release]:
    wanted = [
        (upstream, msgspec.json.decode(spec, type=_Named).name)
        for upstream, spec in connection.execute("SELECT upstream, spec FROM tools")
    ]
    query = f"{_SELECT} WHERE upstream = ? AND name = ? ORDER BY number DESC LIMIT 1"
    found = (connection.execute(query, each).fetchone() for each in wanted)
    return sorted((_to_release(row) for row in found if row is not None), key=lambda each: each.spec.full_name)


def _read_recent(connection: sqlite3.Connection, since: float, limit: int) -> list[Release]:
    query = f"{_SELECT} WHERE released_at > ? ORDER BY released_at DESC, upstream, name, number DESC LIMIT ?"
    return [_to_release(row) for row in connection.execute(query, (since, limit))]


def _follow(connection: sqlite3.Connection, upstream: str, name: str) -> ToolSpec | None:
    upstream, name = storable(upstream), storable(name)
    query = "SELECT renamed_to FROM tool_releases WHERE upstream = ? AND name = ? ORDER BY number DESC LIMIT 1"
    for _ in range(_HOPS):
        row = connection.execute(query, (upstream, name)).fetchone()
        if row is None or row[0] is None:
            break
        name = row[0]
    for (spec,) in connection.execute("SELECT spec FROM tools WHERE upstream = ?", (upstream,)):
        if msgspec.json.decode(spec, type=_Named).name == name:
            return _SPECS.decode(spec)
    return None


def _read_last(connection: sqlite3.Connection, upstream: str, digests: Mapping[str, str]) -> dict[str, LastRelease]:
    found = connection.execute(
        "SELECT name, number, major, minor, patch, kind, digest, source, renamed_to, spec FROM tool_releases AS later"
        " WHERE upstream = ? AND number = (SELECT max(number) FROM tool_releases AS every"
        " WHERE every.upstream = later.upstream AND every.name = later.name)",
        (storable(upstream),),
    )
    last: dict[str, LastRelease] = {}
    for name, number, major, minor, patch, kind, digest, source, renamed_to, text in found:
        is_gone = kind == "removed" or renamed_to is not None
        spec = shape = None
        if name in digests if is_gone else digests.get(name) != digest:
            spec = _SPECS.decode(text)
            shape = None if spec.output_schema is not None else read_shape(connection, upstream, name, major)
        last[name] = LastRelease(
            number=number,
            version=f"{major}.{minor}.{patch}",
            digest=digest,
            source=source,
            is_gone=is_gone,
            renamed_to=renamed_to,
            spec=spec,
            answers=None if shape is None else shape.schema,
        )
    return last


def _read_without_history(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT DISTINCT upstream FROM tool_definitions EXCEPT SELECT upstream FROM tool_releases"
    return sorted(upstream for (upstream,) in connection.execute(query))


def _read_definitions(connection: sqlite3.Connection, upstream: str) -> dict[str, list[rows.SeenDefinition]]:
    found: dict[str, list[rows.SeenDefinition]] = {}
    query = "SELECT name, spec, first_seen, last_seen FROM tool_definitions WHERE upstream = ? ORDER BY first_seen"
    for name, spec, first_seen, last_seen in connection.execute(query, (storable(upstream),)):
        seen = rows.SeenDefinition(spec=_SPECS.decode(spec), first_seen=first_seen, last_seen=last_seen)
        found.setdefault(name, []).append(seen)
    return found


class _Named(msgspec.Struct, frozen=True):
    name: str


def _to_release(row: tuple[Any, ...]) -> Release:
    (upstream, name, number, major, minor, patch, kind, spec, comparison, declared, source, to, came_from, at) = row
    return Release(
        upstream=upstream,
        name=name,
        number=number,
        version=f"{major}.{minor}.{patch}",
        kind=kind,
        spec=_SPECS.decode(spec),
        comparison=_COMPARISONS.decode(comparison),
        declared=declared,
        source=source,
        renamed_to=to,
        renamed_from=came_from,
        released_at=at,
    )
