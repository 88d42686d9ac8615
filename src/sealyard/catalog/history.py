"""The releases that a listing adds to the history of its tools (new, changed, gone, back or renamed), with versions.

Pure functions; use a thread for a listing of thousands of changed tools.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from sealyard.store import LastRelease, Release
from sealyard.values.changes import BreakingChange, Change, Comparison, Replacement, Version, highest
from sealyard.values.tools import ReleaseKind, ToolSpec
from sealyard.versioning.compare import compare, find_renamed

_FIRST_VERSION = "1.0.0"
_MOST_CHANGES = 200
"""Of one release: a definition may be large and change in every field."""
_COMPARING_SECONDS = 5.0
"""Of the thread's own time, for one listing: thousands of large tools that all change must not hold up the others."""


class _Step(msgspec.Struct, frozen=True):
    """The step that a listing means for one tool. Without a kind the tool is unchanged."""

    version: str
    kind: ReleaseKind | None = None
    comparison: Comparison = Comparison(bump="none")


_Rename = tuple[ToolSpec, Replacement]
"""The old definition of a tool that has another name now, and the reason to think so."""


def read_listing(
    listed: Sequence[ToolSpec],
    last: Mapping[str, LastRelease],
    *,
    declared: Mapping[str, str],
    source: str,
    at: float,
    until: float | None = None,
) -> tuple[list[ToolSpec], list[Release]]:
    """The listed tools with their versions, and the resulting releases.

    `last` is the end of each tool's history, by the upstream's name for it, and `source` a digest of the connection.
    A tool that returns continues its numbers, and a renamed one continues with the next major version. After `until`,
    by `time.thread_time`, what changed counts as changed without a comparison.
    """
    until = time.thread_time() + _COMPARING_SECONDS if until is None else until
    names = {spec.name for spec in listed}
    gone = {
        name: replace(each.spec, version=each.version)
        for name, each in last.items()
        if name not in names and not each.is_gone and each.spec is not None
    }
    renamed = _find_renamed(gone, listed, last)
    specs: list[ToolSpec] = []
    releases: list[Release] = []
    became: dict[str, tuple[str, Comparison]] = {}
    for spec in listed:
        was, rename = last.get(spec.name), renamed.get(spec.name)
        if rename is None:
            step = _step(spec, was, source, until)
        else:
            old = rename[0]
            step = _step_of_renamed(spec, was, rename, _compare(old, spec, last[old.name].answers, until))
            became[old.name] = (spec.name, step.comparison)
        if spec.version != step.version:
            spec = replace(spec, version=step.version)
        specs.append(spec)
        if step.kind is not None:
            release = _release(spec, was, step.kind, step.comparison, source=source, at=at)
            before = None if rename is None else rename[0].name
            releases.append(replace(release, declared=declared.get(spec.name), renamed_from=before))
    for name, spec in gone.items():
        renamed_to, comparison = became.get(name, (None, _removed(spec)))
        kind: ReleaseKind = "removed" if renamed_to is None else "renamed"
        release = _release(spec, last[name], kind, comparison, source=source, at=at)
        releases.append(replace(release, renamed_to=renamed_to))
    return specs, releases


def observe(spec: ToolSpec, was: LastRelease, comparison: Comparison, *, at: float) -> Release:
    """The release of a tool whose answers changed while its definition stayed `spec`."""
    spec = replace(spec, version=_bumped(was.version, comparison))
    return _release(spec, was, "observed", comparison, source=was.source, at=at)


def _find_renamed(
    gone: Mapping[str, ToolSpec], listed: Sequence[ToolSpec], last: Mapping[str, LastRelease]
) -> dict[str, _Rename]:
    """Renames by the new name. A name that a renamed tool had may be taken again."""
    new = [spec for spec in listed if spec.name not in last or last[spec.name].renamed_to is not None]
    if not gone or not new:
        return {}
    names = {spec.name for spec in new}
    kept = [spec for spec in listed if spec.name not in names]
    return {
        after.name: (before, replacement)
        for before, after, replacement in find_renamed(list(gone.values()), new, kept=kept)
    }


def _compare(before: ToolSpec, after: ToolSpec, answers: dict[str, Any] | None, until: float) -> Comparison:
    if time.thread_time() <= until:
        return compare(before, after, output_before=answers)
    reason = "Too much changed at once to be compared, so it counts as changed."
    change = Change(kind="parameter_narrowed", side="input", severity="major", reason=reason)
    return Comparison(bump="major", changes=(change,))


def _step(spec: ToolSpec, was: LastRelease | None, source: str, until: float) -> _Step:
    if was is None:
        return _Step(_FIRST_VERSION, "added", _added(spec, "New tool."))
    comparison = _moved(was, source)
    if was.spec is not None and was.digest != spec.digest:
        comparison = _joined(comparison, _compare(was.spec, spec, was.answers, until))
        # Definitions that differ have different versions, even if no rule knows what the difference means.
        comparison = replace(comparison, bump=highest([comparison.bump, "patch"]))
        return _Step(_bumped(was.version, comparison), "returned" if was.is_gone else "changed", comparison)
    if was.is_gone:
        comparison = _joined(comparison, _added(spec, "It came back as it was."))
    return _Step(_bumped(was.version, comparison), "returned" if comparison.changes else None, comparison)


def _step_of_renamed(spec: ToolSpec, was: LastRelease | None, rename: _Rename, comparison: Comparison) -> _Step:
    old, replacement = rename
    known = [old.version] if was is None else [old.version, was.version]
    version = max(map(Version.parse, known)).bumped("major")
    changes = tuple(
        replace(change, replacement=replacement) if change.kind == "tool_renamed" else change
        for change in comparison.changes
    )
    return _Step(str(version), "renamed", replace(comparison, changes=changes))


def _release(
    spec: ToolSpec,
    was: LastRelease | None,
    kind: ReleaseKind,
    comparison: Comparison,
    *,
    source: str,
    at: float,
) -> Release:
    return Release(
        upstream=spec.upstream,
        name=spec.name,
        number=1 if was is None else was.number + 1,
        version=spec.version,
        kind=kind,
        spec=spec,
        comparison=replace(
            comparison,
            changes=comparison.changes[:_MOST_CHANGES],
            breaking=comparison.breaking[:_MOST_CHANGES],
            deprecations=comparison.deprecations[:_MOST_CHANGES],
        ),
        source=source,
        released_at=at,
    )


# Changes of a tool as a whole


def _added(spec: ToolSpec, reason: str) -> Comparison:
    change = Change(kind="tool_added", side="tool", after=spec.full_name, severity="none", reason=reason)
    return Comparison(bump="none", changes=(change,))


def _removed(spec: ToolSpec) -> Comparison:
    reason = "The server does not list it any more."
    return Comparison(
        bump="major",
        changes=(Change(kind="tool_removed", side="tool", before=spec.full_name, severity="major", reason=reason),),
        breaking=(
            BreakingChange(
                field="",
                old_type=spec.full_name,
                new_type="",
                reason=reason,
                migration_code="# No tool is known to take its place.",
            ),
        ),
    )


def _moved(was: LastRelease, source: str) -> Comparison:
    """The effect of another connection to the upstream than at the release before, which must not go unnoticed."""
    if not was.source or not source or was.source == source:
        return Comparison(bump="none")
    reason = "Its server is started or reached in another way than before: it may be another one."
    change = Change(
        kind="text", side="tool", before=was.source[:12], after=source[:12], severity="patch", reason=reason
    )
    return Comparison(bump="patch", changes=(change,))


def _joined(first: Comparison, second: Comparison) -> Comparison:
    return Comparison(
        bump=highest([first.bump, second.bump]),
        changes=first.changes + second.changes,
        breaking=first.breaking + second.breaking,
        deprecations=first.deprecations + second.deprecations,
    )


def _bumped(version: str, comparison: Comparison) -> str:
    return str(Version.parse(version).bumped(comparison.bump))
