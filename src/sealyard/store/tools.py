"""Tools as upstreams list them, every definition that each of them had, its releases, and the shapes of its answers.

An upstream that changes its tools without end fills neither the disk nor the memory. Of each tool the first and the
newest releases are kept, of each upstream a bounded number of releases and bytes. The current definitions of listed
tools are always kept.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.errors import StoreError
from sealyard.store.columns import Columns, named_insert, upsert
from sealyard.store.stored_json import encode_json, storable
from sealyard.store.table import Table, reads
from sealyard.values.changes import Change, Comparison, Version
from sealyard.values.tools import ReleaseKind, ToolSpec

DEFINITIONS_KEPT = 10_000
"""Definitions of one upstream; those seen last are kept."""
RELEASES_KEPT = 10_000
"""Releases of one upstream, beside the last one of each tool that it lists."""
_RELEASES_OF_TOOL = 200
"""The first release and the newest ones are kept."""
_UPSTREAM_BYTES = 64 << 20
"""Definitions and comparisons in the releases of one upstream."""
_SHAPES_KEPT = 500
"""Per upstream; those seen last."""
_SHAPE_BYTES = 128 << 10
"""Of the schema and the counts of one shape."""
_HOPS = 50
"""Renames that are followed: a circle of them has an end too."""

_SPECS = msgspec.json.Decoder(ToolSpec)


class ChangedDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that replaced another one."""

    upstream: str
    name: str
    before: str
    """The digest of the replaced definition."""
    after: str
    changed_at: float


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the history of a tool."""

    upstream: str
    name: str
    """The upstream's name for the tool."""
    number: int
    """1 for the first."""
    version: str
    """Of `spec`. A tool that is removed or renamed keeps its version."""
    kind: ReleaseKind
    spec: ToolSpec
    """The definition from here on; of a tool that is gone, its last one."""
    comparison: Comparison
    """With the release before."""
    declared: str | None = None
    """The version that the upstream or the tool gave itself at that time."""
    source: str = ""
    """A digest of how the upstream was reached, if known: another one may be another server."""
    renamed_to: str | None = None
    """The upstream's name for the tool that this one became."""
    renamed_from: str | None = None
    released_at: float
    """Seconds since the epoch."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """The differences, field by field."""
        return self.comparison.changes

    @property
    def is_gone(self) -> bool:
        """True if no tool has this name after the release."""
        return self.kind == "removed" or self.renamed_to is not None


class SeenShape(msgspec.Struct, frozen=True, kw_only=True):
    """The observed answers of one major version of a tool: types and names of fields, never a value.

    It belongs to a major version, since within one the fields that code reads stay.
    """

    upstream: str
    name: str
    major: int
    schema: dict[str, Any]
    state: str
    """The counts that reveal a change, in the format of `catalog.shapes.drift`."""
    answers: int
    seen_at: float
    """Seconds since the epoch."""


class LastRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a tool's last release that its next one is compared with."""

    number: int
    version: str
    digest: str
    source: str
    is_gone: bool
    renamed_to: str | None = None
    spec: ToolSpec | None = None
    """Left out for a listed tool with an unchanged definition, and for one that is gone and stays gone."""
    answers: dict[str, Any] | None = None
    """The schema of its observed answers, if it does not declare one."""


_CHANGES = Columns(
    "tool_definitions AS later",
    ChangedDefinition,
    read={
        "before": "(SELECT earlier.digest FROM tool_definitions AS earlier WHERE earlier.upstream = later.upstream"
        " AND earlier.name = later.name AND earlier.first_seen < later.first_seen"
        " ORDER BY earlier.first_seen DESC LIMIT 1) AS before",
        "after": "digest",
        "changed_at": "first_seen",
    },
)
_RELEASES = Columns(
    "tool_releases",
    Release,
    json=("spec", "comparison"),
    read={"version": "major || '.' || minor || '.' || patch AS version"},
)
_SHAPES = Columns("tool_shapes", SeenShape, json=("schema",))


# Listed tools


class ToolRow(msgspec.Struct, frozen=True):
    """A tool as the tables keep it."""

    name: str
    digest: str
    spec: str


def encode_tool(spec: ToolSpec) -> ToolRow:
    """Encode a tool for `write_tools`. Raises `StoreError` for a definition that JSON cannot hold."""
    text = encode_json(spec)
    if text is None:
        raise StoreError(
            f"The definition of {spec.full_name!r} cannot be stored: it is not JSON, or nested too deeply."
        )
    return ToolRow(storable(spec.name), storable(spec.digest), text)


def write_tools(connection: sqlite3.Connection, upstream: str, tools: Sequence[ToolRow], now: float) -> None:
    """Make these the tools of an upstream. Only changed rows are written; older definitions stay in the history."""
    upstream = storable(upstream)
    known = connection.execute("SELECT spec FROM tools WHERE upstream = ? ORDER BY position", (upstream,)).fetchall()
    changed = [
        (upstream, position, tool.digest, tool.spec)
        for position, tool in enumerate(tools)
        if position >= len(known) or known[position][0] != tool.spec
    ]
    connection.execute("DELETE FROM tools WHERE upstream = ? AND position >= ?", (upstream, len(tools)))
    connection.executemany(upsert("tools", "upstream, position, digest, spec", key="upstream, position"), changed)
    connection.executemany(
        "INSERT INTO tool_definitions (upstream, name, digest, spec, first_seen, last_seen) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (upstream, name, digest) DO NOTHING",
        [(upstream, tools[place].name, digest, spec, now, now) for _, place, digest, spec in changed],
    )
    connection.executemany(
        "UPDATE tool_definitions SET last_seen = ? WHERE upstream = ? AND name = ? AND digest = ?",
        [(now, upstream, tool.name, tool.digest) for tool in tools],
    )
    connection.execute(
        "DELETE FROM tool_definitions WHERE upstream = ? AND last_seen < (SELECT last_seen FROM tool_definitions"
        " WHERE upstream = ? ORDER BY last_seen DESC LIMIT 1 OFFSET ?)",
        (upstream, upstream, DEFINITIONS_KEPT - 1),
    )


def delete_tools(connection: sqlite3.Connection, upstreams: Collection[str]) -> None:
    """Delete the tools of these upstreams. The history of their definitions stays."""
    connection.executemany("DELETE FROM tools WHERE upstream = ?", [(storable(name),) for name in upstreams])


def read_tools(connection: sqlite3.Connection) -> dict[str, list[ToolSpec]]:
    """The tools of every upstream, in the order in which they were saved."""
    found: dict[str, list[ToolSpec]] = {}
    for upstream, spec in connection.execute("SELECT upstream, spec FROM tools ORDER BY upstream, position"):
        found.setdefault(upstream, []).append(_SPECS.decode(spec))
    return found


def write_fingerprint(connection: sqlite3.Connection, upstream: str, fingerprint: str) -> None:
    """Keep the fingerprint of the connection that listed the saved tools, durably."""
    statement = upsert("upstreams", "upstream, fingerprint", key="upstream")
    connection.execute(statement, (storable(upstream), fingerprint))


def read_fingerprints(connection: sqlite3.Connection) -> dict[str, str]:
    """The fingerprint of each upstream's connection."""
    return dict(connection.execute("SELECT upstream, fingerprint FROM upstreams"))


def read_changes(connection: sqlite3.Connection, since: float) -> list[ChangedDefinition]:
    """Definitions that replaced another one of the same tool after `since`, the oldest first."""
    return _CHANGES.all(connection, "WHERE first_seen > ? AND before IS NOT NULL ORDER BY first_seen, name", (since,))


# Releases


def encode_release(release: Release) -> dict[str, Any]:
    """Encode a release for `write_releases`. Raises `StoreError` for a definition that JSON cannot hold."""
    tool = encode_tool(release.spec)
    values = _RELEASES.values(release, name=tool.name, spec=tool.spec)
    version = Version.parse(values.pop("version"))
    return values | {
        "full_name": release.spec.full_name,
        "major": version.major,
        "minor": version.minor,
        "patch": version.patch,
        "digest": tool.digest,
        "size_bytes": len(tool.spec) + len(values["comparison"]),
    }


def write_releases(connection: sqlite3.Connection, upstream: str, releases: Sequence[dict[str, Any]]) -> bool:
    """Insert releases, those of a tool in their order, and delete the oldest.

    False, and nothing is written, if another gateway has written one of them.
    """
    upstream = storable(upstream)
    first: dict[str, int] = {}
    for each in releases:
        first.setdefault(each["name"], each["number"])
    query = "SELECT coalesce(max(number), 0) FROM tool_releases WHERE upstream = ? AND name = ?"
    for name, number in first.items():
        if connection.execute(query, (upstream, name)).fetchone()[0] != number - 1:
            return False
    if not releases:
        return True
    connection.executemany(
        named_insert("tool_releases", releases[0]), [each | {"upstream": upstream} for each in releases]
    )
    connection.executemany(
        "DELETE FROM tool_releases WHERE upstream = ? AND name = ? AND number <= ? AND number > 1",
        [(upstream, each["name"], each["number"] - _RELEASES_OF_TOOL) for each in releases],
    )
    _prune(connection, upstream)
    return True


def _prune(connection: sqlite3.Connection, upstream: str) -> None:
    """Delete the oldest releases of an upstream that has too many, but never the last one of a listed tool."""
    query = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM tool_releases WHERE upstream = ?"
    count, size_bytes = connection.execute(query, (upstream,)).fetchone()
    if count <= RELEASES_KEPT and size_bytes <= _UPSTREAM_BYTES:
        return
    connection.execute(
        "DELETE FROM tool_releases WHERE upstream = ?1 AND (name, number) IN (SELECT name, number FROM"
        " (SELECT name, number, row_number() OVER newest AS kept, sum(size_bytes) OVER newest AS kept_bytes"
        " FROM tool_releases AS each WHERE upstream = ?1 AND (kind = 'removed' OR renamed_to IS NOT NULL OR number <"
        " (SELECT max(number) FROM tool_releases WHERE upstream = ?1 AND name = each.name))"
        " WINDOW newest AS (ORDER BY released_at DESC, number DESC ROWS UNBOUNDED PRECEDING))"
        " WHERE kept > ?2 OR kept_bytes > ?3)",
        (upstream, RELEASES_KEPT, _UPSTREAM_BYTES),
    )


def _read_history(connection: sqlite3.Connection, upstream: str, name: str) -> list[Release]:
    """The releases of a tool, the newest first, also of one that is gone. `name` is the upstream's."""
    conditions = "WHERE upstream = ? AND name = ? ORDER BY number DESC"
    return _RELEASES.all(connection, conditions, (storable(upstream), storable(name)))


def _read_tool(connection: sqlite3.Connection, full_name: str) -> tuple[str, str] | None:
    """The upstream of the tool that has, or had last, this full name, and the upstream's name for it."""
    query = "SELECT upstream, name FROM tool_releases WHERE full_name = ? ORDER BY released_at DESC LIMIT 1"
    found: tuple[str, str] | None = connection.execute(query, (storable(full_name),)).fetchone()
    return found


def _read_version(connection: sqlite3.Connection, full_name: str, version: str) -> Release | None:
    """The release that gave a tool this version: `1.2` means the newest 1.2.x, `1` the newest 1.x.y.

    Raises:
        InvalidRequest: `version` is not a version.
    """
    Version.parse(version)
    numbers = tuple(map(int, version.split(".")))
    tool = _read_tool(connection, full_name)
    if tool is None:
        return None
    parts = "".join(f" AND {part} = ?" for part, _ in zip(("major", "minor", "patch"), numbers, strict=False))
    conditions = (
        f"WHERE upstream = ? AND name = ?{parts} ORDER BY major DESC, minor DESC, patch DESC,"
        " kind = 'removed' OR renamed_to IS NOT NULL, number DESC LIMIT 1"
    )
    return _RELEASES.first(connection, conditions, (*tool, *numbers))


def _read_newest(connection: sqlite3.Connection) -> list[Release]:
    """The last release of every listed tool, by full name."""
    wanted = [
        (upstream, msgspec.json.decode(spec, type=_Named).name)
        for upstream, spec in connection.execute("SELECT upstream, spec FROM tools")
    ]
    conditions = "WHERE upstream = ? AND name = ? ORDER BY number DESC LIMIT 1"
    found = (_RELEASES.first(connection, conditions, each) for each in wanted)
    return sorted((each for each in found if each is not None), key=lambda each: each.spec.full_name)


def _read_recent(connection: sqlite3.Connection, since: float, limit: int = 100) -> list[Release]:
    """The releases of all tools after a time, the newest first."""
    conditions = "WHERE released_at > ? ORDER BY released_at DESC, upstream, name, number DESC LIMIT ?"
    return _RELEASES.all(connection, conditions, (since, limit))


def _follow(connection: sqlite3.Connection, upstream: str, name: str) -> ToolSpec | None:
    """The listed tool of this name, or of the name it was renamed to; None if it is gone."""
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
    """The last release of every tool that `upstream` ever had, by the upstream's name for it.

    `digests` are the definitions that it lists now. Where the last release has another one, its definition is read.
    """
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
            shape = None if spec.output_schema is not None else _read_shape(connection, upstream, name, major)
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


# Shapes of answers


def _write_shape(connection: sqlite3.Connection, shape: SeenShape, schema: str) -> None:
    _SHAPES.put(connection, shape, key="upstream, name, major", schema=schema)
    upstream = storable(shape.upstream)
    connection.execute(
        "DELETE FROM tool_shapes WHERE upstream = ? AND seen_at < (SELECT seen_at FROM tool_shapes"
        " WHERE upstream = ? ORDER BY seen_at DESC LIMIT 1 OFFSET ?)",
        (upstream, upstream, _SHAPES_KEPT - 1),
    )


def _read_shape(connection: sqlite3.Connection, upstream: str, name: str, major: int) -> SeenShape | None:
    """The shape of one major version of a tool; `name` is the upstream's."""
    values = (storable(upstream), storable(name), major)
    return _SHAPES.first(connection, "WHERE upstream = ? AND name = ? AND major = ?", values)


def _read_newest_shapes(connection: sqlite3.Connection, limit: int) -> list[SeenShape]:
    """The most recent shapes of all tools, the newest first."""
    return _SHAPES.all(connection, "ORDER BY seen_at DESC LIMIT ?", (limit,))


class ShapeTable(Table):
    """The shapes of answers of tools that declare none."""

    def put(self, shape: SeenShape) -> None:
        """Keep a shape in place of the one before. Only enqueues; one over 128 KiB is not kept."""
        schema = msgspec.json.encode(shape.schema).decode()
        size_bytes = len(schema) + len(shape.state)
        if size_bytes <= _SHAPE_BYTES:
            self._writer.put(partial(_write_shape, shape=shape, schema=schema), size_bytes)

    find = reads(_read_shape)
    newest = reads(_read_newest_shapes)


class _Named(msgspec.Struct, frozen=True):
    name: str


class ReleaseTable(Table):
    """The history of all tools of one store."""

    history = reads(_read_history)
    find_tool = reads(_read_tool)
    get = reads(_read_version)
    newest = reads(_read_newest)
    recent = reads(_read_recent)
    follow = reads(_follow)
    last = reads(_read_last)
