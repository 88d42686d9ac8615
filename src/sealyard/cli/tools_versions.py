"""The versions of tools on a terminal, and what changed. An upstream wrote most of it, so nothing of it is obeyed."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.text import Text

from sealyard.catalog.text import one_line
from sealyard.cli.terminal import columns, plain, screen
from sealyard.errors import UnknownTool
from sealyard.skills.requests import SkillCheck
from sealyard.store import Release
from sealyard.versioning.compare import Change, Severity
from sealyard.yard import Yard

_GONE_SECONDS = 30 * 86_400
_GONE = 1_000
_CHARACTERS = 300
_NAME_CHARACTERS = 40
_SEVERITIES: tuple[Severity, ...] = ("major", "minor", "patch", "none")
_STATES = {"fits": "green", "newer": "yellow", "translated": "yellow", "broken": "red", "missing": "red"}
_STYLES = {"major": "red", "minor": "yellow"}


async def ask_versions(yard: Yard, server: str | None) -> list[Release]:
    """The last release of each tool that there is, then those of tools that went away lately."""
    snapshot = await yard.snapshot()
    newest = [each for each in await yard.store.releases.newest() if each.spec.full_name in snapshot.tools]
    since = time.time() - _GONE_SECONDS
    last: dict[tuple[str, str], Release] = {}
    for release in await yard.store.releases.recent(since, _GONE):
        last.setdefault((release.upstream, release.name), release)
    gone = [each for each in last.values() if each.is_gone and each.upstream in yard.tools.upstreams]
    return [each for each in newest + gone if server in (None, each.upstream)]


async def ask_changelog(yard: Yard, tool: str) -> list[Release]:
    """The releases of the tool that `tool` means, the newest first; it may be gone. Raises `UnknownTool`."""
    snapshot = await yard.snapshot()
    spec = snapshot.find(tool)
    table = yard.store.releases
    known = (spec.upstream, spec.name) if spec is not None else await table.find_tool(tool)
    if known is not None:
        return await table.history(*known)
    for separator in "./":
        upstream, _, name = tool.partition(separator)
        if found := await table.history(upstream, name):
            return found
    nearest = ", ".join(map(repr, snapshot.nearest(tool)))
    hint = f"Nearest: {nearest}." if nearest else "Run `sealyard tools` to see those that there are."
    raise UnknownTool(f"No tool is or was named {tool!r}. {hint}")


def show_versions(releases: Sequence[Release]) -> None:
    """One line for each tool: what it is now, since when, and what happened last."""
    table = columns("tool", "version", "released", "last change")
    longest = max((len(each.spec.full_name) for each in releases), default=0)
    table.columns[0].min_width = min(longest, _NAME_CHARACTERS)  # a name in one piece is worth more than a sentence
    for each in releases:
        bump = each.comparison.bump
        table.add_row(
            plain(each.spec.full_name, "dim" if each.is_gone else ""),
            plain(each.version),
            plain(_day(each.released_at)),
            _cell(_last_change(each), _STYLES.get(bump, "dim")),
        )
    screen.print(table)
    count = sum(not each.is_gone for each in releases)
    screen.print(plain(f"{count} tools. `sealyard tools --versions TOOL` shows all that changed about one.", "dim"))


def show_changelog(releases: Sequence[Release]) -> None:
    """All that happened to one tool, the newest first."""
    screen.print(plain(releases[0].spec.full_name, "bold"))
    for each in releases:
        declared = f", declared {each.declared}" if each.declared else ""
        screen.print()
        screen.print(
            plain(each.version, "bold") + plain("  ") + _cell(f"{_day(each.released_at)} {_kind(each)}{declared}")
        )
        for change in sorted(each.changes, key=lambda change: _SEVERITIES.index(change.severity)):
            where = "tool" if change.side == "tool" else f"{change.side} {change.field or '(whole)'}"
            style = _STYLES.get(change.severity, "")
            _show_line(f"  {change.severity:<5}  ", f"{where}: {change.reason}{_types(change)}", style)
            if change.kind == "text":
                _show_line(" " * 9 + "- ", change.before, "dim")
                _show_line(" " * 9 + "+ ", change.after, "dim")
            if change.replacement is not None:
                guess = change.replacement
                _show_line(" " * 9, f"probably {guess.name} ({guess.confidence:.0%}: {guess.why})", "dim")
        for breaking in each.comparison.breaking:
            _show_line("  migrate ", f"{breaking.field or 'the tool'}: {breaking.migration_code}")
        for gone in each.comparison.deprecations:
            by = f", use {gone.replacement}" if gone.replacement else ""
            at = f", removed in {gone.removed_in}" if gone.removed_in else ""
            _show_line("  deprecated ", f"{gone.field or 'the tool'}{by}{at}: {gone.guidance}", "yellow")


def show_compatibility(checks: Sequence[SkillCheck]) -> None:
    """Which skills the changes of their tools hit, and how badly."""
    if not checks:
        screen.print(plain("No skill uses a tool."))
        return
    for check in checks:
        state = f"{check.state}, migration: {check.difficulty}" if check.difficulty else check.state
        screen.print(plain(f"{check.namespace}/{check.name} {check.version}: ") + plain(state, _STATES[check.state]))
        change = "" if check.current in (None, check.need) else f", now {check.current}"
        _show_line("  ", f"{check.tool} {check.need}{change}", "dim")
        if check.reason:
            _show_line("  ", check.reason, "dim")
    changed = [check for check in checks if check.difficulty is not None and check.difficulty != "impossible"]
    for tool in dict.fromkeys(check.tool for check in changed):
        _show_line("See what a migration does: ", f"sealyard migrate-skills --tool {tool} --dry-run")


def versions_data(releases: Sequence[Release]) -> list[dict[str, Any]]:
    """Releases as JSON data, without the definitions themselves."""
    return [
        {
            "tool": each.spec.full_name,
            "server": each.upstream,
            "name": each.name,
            "number": each.number,
            "version": each.version,
            "kind": each.kind,
            "declared": each.declared,
            "released_at": each.released_at,
            "digest": each.spec.digest,
            "renamed_to": each.renamed_to,
            "renamed_from": each.renamed_from,
            **msgspec.to_builtins(each.comparison),
        }
        for each in releases
    ]


def _last_change(release: Release) -> str:
    """What a release changed, in one sentence: the worst of it."""
    worst = sorted(release.changes, key=lambda change: _SEVERITIES.index(change.severity))
    if not worst or release.kind == "added":
        return _kind(release)
    more = f" (and {len(worst) - 1} more)" if len(worst) > 1 else ""
    return f"{_kind(release)}: {worst[0].reason}{more}"


def _kind(release: Release) -> str:
    if release.renamed_to is not None:
        return f"renamed to {release.renamed_to}"
    return f"renamed from {release.renamed_from}" if release.renamed_from is not None else release.kind


def _types(change: Change) -> str:
    if change.side == "tool" or not (change.before or change.after):
        return ""
    return f" [{change.before or 'nothing'} -> {change.after or 'nothing'}]"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _show_line(lead: str, text: str, style: str = "") -> None:
    screen.print(plain(lead, style) + _cell(text, style), soft_wrap=True)


def _cell(text: str, style: str = "") -> Text:
    """An upstream's text on one line, without what cannot be seen."""
    return plain(one_line(text, limit=_CHARACTERS), style)
