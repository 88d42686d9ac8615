"""`sealyard tools`: which tools there are, how they changed, and how the servers that offer them are."""

from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.access.unmatched import Unmatched
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, errors, plain, screen, write
from sealyard.cli.tools_versions import (
    ask_changelog,
    ask_versions,
    show_changelog,
    show_compatibility,
    show_versions,
    versions_data,
)
from sealyard.config import Config, describe_upstream, load_config
from sealyard.skills.requests import SkillCheck
from sealyard.store import Release
from sealyard.values import ToolSpec, UpstreamStatus
from sealyard.yard import open_yard

_STDERR_LINES = 10


@click.command()
@click.argument("tool", required=False)
@click.option("--status", is_flag=True, help="Start every server and show how it is, with the end of its stderr.")
@click.option("--versions", is_flag=True, help="Show the version of each tool; with TOOL, all that changed about it.")
@click.option("--check-compatibility", is_flag=True, help="Show which skills the changes hit, and how badly.")
@click.option("--refresh", is_flag=True, help="Ask the servers anew instead of showing what is known.")
@click.option("--server", metavar="NAME", help="Only this server.")
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
def tools(
    *,
    tool: str | None,
    status: bool,
    versions: bool,
    check_compatibility: bool,
    refresh: bool,
    server: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """List the tools of all configured servers.

    Exit code 0: every server answered; 1: one did not, or a skill cannot be used as it is.
    """
    if tool is not None and not versions and not check_compatibility:
        raise click.UsageError(f"{tool!r} is one argument too many. Say --versions to see what changed about it.")
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    with errors.status("Asking the servers"):
        told = run_to_end(
            _ask(loaded, server, tool, anew=status or refresh, versions=versions, check=check_compatibility)
        )
    statuses, specs, releases, checks, unmatched = told
    for name in unmatched:
        errors.print(plain(f"warning: {name.message}", "yellow"))
    if as_json:
        shown: dict[str, Any] = {"servers": statuses, "tools": specs}
        if versions:
            shown = {"servers": statuses, "releases": versions_data(releases)}
        if check_compatibility:
            shown["compatibility"] = checks
        write(msgspec.json.encode(shown).decode() + "\n")
    elif status:
        _show_status(statuses, loaded)
    elif tool is not None and versions:
        show_changelog(releases)
    elif versions:
        show_versions(releases)
    elif not check_compatibility:
        _show_tools(specs)
    if check_compatibility and not as_json:
        show_compatibility(checks)
    failed = [each for each in statuses if each.state in ("failed", "backing_off", "starting")]
    if not status and not as_json:
        for each in failed:
            errors.print(plain(f"warning: {each.name}: {each.error or 'It did not answer in time.'}", "yellow"))
    return 1 if failed or any(check.state in ("broken", "missing") for check in checks) else 0


async def _ask(
    config: Config, server: str | None, tool: str | None, *, anew: bool, versions: bool, check: bool
) -> tuple[list[UpstreamStatus], list[ToolSpec], list[Release], list[SkillCheck], tuple[Unmatched, ...]]:
    releases: list[Release] = []
    checks: list[SkillCheck] = []
    async with open_yard(config, with_sandbox=False) as yard:
        if anew:
            await yard.tools.finder.refresh()
        snapshot = await yard.snapshot()
        statuses = yard.tools.statuses()
        unmatched = await yard.tools.unmatched()
        specs = sorted(snapshot.tools.values(), key=lambda spec: (spec.upstream, spec.function))
        if versions:
            releases = await (ask_versions(yard, server) if tool is None else ask_changelog(yard, tool))
        if check:
            named = None if tool is None else snapshot.find(tool)
            checks = await yard.skills.check_all(tool if named is None else named.full_name)
    if server is not None:
        specs = [spec for spec in specs if spec.upstream == server]
        statuses = [each for each in statuses if each.name == server]
    return statuses, specs, releases, checks, unmatched


def _show_tools(specs: list[ToolSpec]) -> None:
    table = columns("server", "function", "description")
    for spec in specs:
        first = (spec.description or spec.title).strip().partition("\n")[0]
        table.add_row(plain(spec.upstream), plain(spec.function), plain(first[:100], "dim"))
    screen.print(table)
    screen.print(plain(f"{len(specs)} tools", "dim"))


def _show_status(statuses: list[UpstreamStatus], config: Config) -> None:
    table = columns("server", "state", "tools", "protocol", "is", "reached by")
    for each in statuses:
        style = "green" if each.state == "ready" else "red"
        how = describe_upstream(config.upstreams[each.name]) if each.name in config.upstreams else each.transport
        table.add_row(
            plain(each.name),
            plain(each.state, style),
            str(each.tools),
            plain(each.protocol_version or "-"),
            plain(each.server or "-"),
            plain(how, "dim"),
        )
    screen.print(table)
    for each in statuses:
        if each.error:
            screen.print(plain(f"{each.name}: {each.error}", "red"))
        for warning in each.warnings:
            screen.print(plain(f"{each.name}: {warning}", "yellow"))
        for line in each.stderr.splitlines()[-_STDERR_LINES:]:
            screen.print(plain(f"{each.name} stderr: {line}", "dim"))
