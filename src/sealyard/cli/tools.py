"""`sealyard tools` and `sealyard search`: the tools, their versions, and the state of the servers that offer them.

An upstream wrote most of what is shown, so a terminal obeys nothing of it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec
from rich.text import Text

from sealyard.access import Unmatched
from sealyard.cli.command import CONFIG, JSON, answer, load
from sealyard.cli.gateway import tool_hint, with_yard
from sealyard.cli.terminal import Cell, columns, day, plain, say, screen, warn
from sealyard.config import describe_upstream
from sealyard.errors import UnknownTool
from sealyard.store import Release
from sealyard.values.changes import Change, Severity
from sealyard.values.skills import SkillCheck
from sealyard.values.tools import SearchAnswer, ToolSpec, UpstreamConfig, UpstreamStatus
from sealyard.wording import one_line
from sealyard.yard import Yard

_STDERR_LINES = 10
"""Of a server's stderr: the end of a traceback."""
_GONE_SECONDS = 30 * 86_400
"""Tools that went away in the last month are still listed."""
_GONE = 1_000
"""Releases read to find them."""
_CHARACTERS = 300
"""Of an upstream's text: about four lines of a terminal."""
_NAME_CHARACTERS = 40
"""Of a tool's name in one piece: half a terminal."""
_SEVERITIES: tuple[Severity, ...] = ("major", "minor", "patch", "none")
STATES = {"fits": "green", "newer": "yellow", "translated": "yellow", "broken": "red", "missing": "red"}
"""The style of the state of a skill's need."""
_STYLES = {"major": "red", "minor": "yellow"}


@click.command()
@click.argument("tool", required=False)
@click.option("--status", is_flag=True, help="Start every server and show how it is, with the end of its stderr.")
@click.option("--versions", is_flag=True, help="Show the version of each tool; with TOOL, all that changed about it.")
@click.option("--check-compatibility", is_flag=True, help="Show which skills the changes hit, and how badly.")
@click.option("--refresh", is_flag=True, help="Ask the servers anew instead of showing what is known.")
@click.option("--server", metavar="NAME", help="Only this server.")
@CONFIG
@JSON
def tools(
    *, tool: str | None, status: bool, versions: bool, check_compatibility: bool, refresh: bool, server: str | None
) -> int:
    """List the tools of all configured servers.

    Exit code 0: every server answered; 1: one did not, or a skill cannot be used as it is.
    """
    if tool is not None and not versions and not check_compatibility:
        raise click.UsageError(f"{tool!r} is one argument too many. Say --versions to see what changed about it.")
    loaded = load()
    statuses, specs, releases, checks, unmatched = with_yard(
        lambda yard: _ask(yard, server, tool, anew=status or refresh, versions=versions, check=check_compatibility),
        config=loaded,
    )
    for name in unmatched:
        warn(name.message)
    failed = [each for each in statuses if each.state in ("failed", "backing_off", "starting")]

    def show() -> None:
        if status:
            _show_status(statuses, loaded.upstreams)
        elif versions:
            (_show_versions if tool is None else _show_changelog)(releases)
        elif not check_compatibility:
            show_tools(specs)
        if check_compatibility:
            show_compatibility(checks)
        for each in failed if not status else ():
            warn(f"{each.name}: {each.error or 'It did not answer in time.'}")

    shown: dict[str, Any] = {"releases": _versions_data(releases)} if versions else {"tools": specs}
    answer({"servers": statuses} | shown | ({"compatibility": checks} if check_compatibility else {}), show)
    return 1 if failed or any(check.state in ("broken", "missing") for check in checks) else 0


async def _ask(
    yard: Yard, server: str | None, tool: str | None, *, anew: bool, versions: bool, check: bool
) -> tuple[list[UpstreamStatus], list[ToolSpec], list[Release], list[SkillCheck], tuple[Unmatched, ...]]:
    if anew:
        await yard.tools.finder.refresh()
    snapshot = await yard.snapshot()
    statuses = yard.tools.statuses()
    unmatched = await yard.tools.unmatched()
    specs = sorted(snapshot.tools.values(), key=lambda spec: (spec.upstream, spec.function))
    releases = await (_ask_versions(yard, server) if tool is None else _ask_changelog(yard, tool)) if versions else []
    named = None if tool is None else snapshot.find(tool)
    checks = await yard.skills.check_all(tool if named is None else named.full_name) if check else []
    if server is not None:
        specs = [spec for spec in specs if spec.upstream == server]
        statuses = [each for each in statuses if each.name == server]
    return statuses, specs, releases, checks, unmatched


def show_tools(specs: list[ToolSpec]) -> None:
    """Print one line for each tool."""
    rows = (
        (spec.upstream, spec.function, plain((spec.description or spec.title).strip().partition("\n")[0][:100], "dim"))
        for spec in specs
    )
    screen.print(columns("server", "function", "description", rows=rows))
    say(f"{len(specs)} tools", "dim")


def _show_status(statuses: list[UpstreamStatus], upstreams: Mapping[str, UpstreamConfig]) -> None:
    rows: Iterator[tuple[Cell, ...]] = (
        (
            each.name,
            plain(each.state, "green" if each.state == "ready" else "red"),
            each.tools,
            each.protocol_version or "-",
            each.server or "-",
            plain(describe_upstream(upstreams[each.name]) if each.name in upstreams else each.transport, "dim"),
        )
        for each in statuses
    )
    screen.print(columns("server", "state", "tools", "protocol", "is", "reached by", rows=rows))
    for each in statuses:
        if each.error:
            say(f"{each.name}: {each.error}", "red")
        for warning in each.warnings:
            say(f"{each.name}: {warning}", "yellow")
        for line in each.stderr.splitlines()[-_STDERR_LINES:]:
            say(f"{each.name} stderr: {line}", "dim")


# Versions


async def _ask_versions(yard: Yard, server: str | None) -> list[Release]:
    """Return the last release of each tool, then those of tools that went away lately."""
    snapshot = await yard.snapshot()
    newest = [each for each in await yard.store.releases.newest() if each.spec.full_name in snapshot.tools]
    since = time.time() - _GONE_SECONDS
    last: dict[tuple[str, str], Release] = {}
    for release in await yard.store.releases.recent(since, _GONE):
        last.setdefault((release.upstream, release.name), release)
    gone = [each for each in last.values() if each.is_gone and each.upstream in yard.tools.upstreams]
    return [each for each in newest + gone if server in (None, each.upstream)]


async def _ask_changelog(yard: Yard, tool: str) -> list[Release]:
    """Return the releases of a tool, which may be gone, the newest first. Raises `UnknownTool`."""
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
    raise UnknownTool(f"No tool is or was named {tool!r}. {tool_hint(snapshot, tool)}")


def _show_versions(releases: Sequence[Release]) -> None:
    """Show one line per tool: its version, since when, and the last change."""
    rows = (
        (
            plain(each.spec.full_name, "dim" if each.is_gone else ""),
            each.version,
            day(each.released_at),
            _cell(_last_change(each), _STYLES.get(each.comparison.bump, "dim")),
        )
        for each in releases
    )
    table = columns("tool", "version", "released", "last change", rows=rows)
    longest = max((len(each.spec.full_name) for each in releases), default=0)
    table.columns[0].min_width = min(longest, _NAME_CHARACTERS)  # a name in one piece is worth more than a sentence
    screen.print(table)
    count = sum(not each.is_gone for each in releases)
    say(f"{count} tools. `sealyard tools --versions TOOL` shows all that changed about one.", "dim")


def _show_changelog(releases: Sequence[Release]) -> None:
    """Show all releases of one tool, the newest first."""
    say(releases[0].spec.full_name, "bold")
    for each in releases:
        declared = f", declared {each.declared}" if each.declared else ""
        screen.print()
        screen.print(
            plain(each.version, "bold") + plain("  ") + _cell(f"{day(each.released_at)} {_kind(each)}{declared}")
        )
        for change in sorted(each.changes, key=lambda change: _SEVERITIES.index(change.severity)):
            where = "tool" if change.side == "tool" else f"{change.side} {change.field or '(whole)'}"
            style = _STYLES.get(change.severity, "")
            _show_line(f"  {change.severity:<5}  ", f"{where}: {change.reason}{_types(change)}", style)
            if change.kind == "text":
                _show_line(" " * 9 + "- ", change.before, "dim")
                _show_line(" " * 9 + "+ ", change.after, "dim")
            if change.replacement is not None:
                how = "proven" if change.replacement.is_proven else "not proven"
                _show_line(" " * 9, f"{how}: {change.replacement.why}", "dim")
        for breaking in each.comparison.breaking:
            _show_line("  migrate ", f"{breaking.field or 'the tool'}: {breaking.migration_code}")
        for gone in each.comparison.deprecations:
            by = f", use {gone.replacement}" if gone.replacement else ""
            at = f", removed in {gone.removed_in}" if gone.removed_in else ""
            _show_line("  deprecated ", f"{gone.field or 'the tool'}{by}{at}: {gone.guidance}", "yellow")


def show_compatibility(checks: Sequence[SkillCheck]) -> None:
    """Show the skills whose tools have changed, and how badly."""
    if not checks:
        say("No skill uses a tool.")
        return
    for check in checks:
        state = f"{check.state}, migration: {check.difficulty}" if check.difficulty else check.state
        screen.print(plain(f"{check.namespace}/{check.name} {check.version}: ") + plain(state, STATES[check.state]))
        change = "" if check.current in (None, check.need) else f", now {check.current}"
        _show_line("  ", f"{check.tool} {check.need}{change}", "dim")
        if check.reason:
            _show_line("  ", check.reason, "dim")
    changed = [check for check in checks if check.difficulty is not None and check.difficulty != "impossible"]
    for tool in dict.fromkeys(check.tool for check in changed):
        _show_line("See what a migration does: ", f"sealyard migrate-skills --tool {tool} --dry-run")


def _versions_data(releases: Sequence[Release]) -> list[dict[str, Any]]:
    """Return releases as JSON data, without the definitions themselves."""
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
    """Describe the worst change of a release in one sentence."""
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


def _show_line(lead: str, text: str, style: str = "") -> None:
    screen.print(plain(lead, style) + _cell(text, style), soft_wrap=True)


def _cell(text: str, style: str = "") -> Text:
    """Return an upstream's text on one line, without invisible characters."""
    return plain(one_line(text, limit=_CHARACTERS), style)


# Search


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--detail",
    type=click.Choice(["name_only", "with_description", "full"]),
    default="with_description",
    show_default=True,
    help="How much to show of each tool.",
)
@click.option("--server", metavar="NAME", help="Only tools of this server.")
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True, help="How many tools, at most 50.")
@CONFIG
@JSON
def search(*, query: tuple[str, ...], detail: str, server: str | None, limit: int) -> int:
    """Find tools of all configured servers by what you want to do.

    Exit code 0: something was found; 1: nothing was.
    """

    async def work(yard: Yard) -> tuple[SearchAnswer, list[str]]:
        found = await yard.search(" ".join(query), detail_level=detail, server=server, limit=limit)
        return found, yard.tools.finder.unlisted()

    found, unlisted = with_yard(work)
    answer(found, lambda: show_hits(found))
    for name in unlisted:
        warn(f"{name} did not list its tools. See `sealyard tools --status`.")
    return 0 if found.hits else 1


def show_hits(found: SearchAnswer) -> None:
    """Print the tools that a search found."""
    for hit in found.hits:
        say(hit.name, "bold")
        say(f"  {hit.use}")
        if hit.signature is not None:
            say(f"  {hit.signature}")
        if hit.description:
            for line in hit.description.splitlines():
                say(f"  {line}", "dim")
        for name, note in (hit.parameters or {}).items():
            say(f"    {name}: {note}", "dim")
        if hit.returns:
            say(f"  returns {hit.returns}", "dim")
    if found.unmatched:
        say(f"no tool contains: {', '.join(found.unmatched)}", "yellow")
    if not found.hits:
        say(f"None of {found.total} tools fits.")
