"""`toolyard tools`: which tools there are, and how the servers that offer them are."""

from pathlib import Path

import click
import msgspec

from toolyard.cli.loop import run_to_end
from toolyard.cli.terminal import columns, errors, plain, screen, write
from toolyard.config import Config, describe_upstream, load_config
from toolyard.values import ToolSpec, UpstreamStatus
from toolyard.yard import open_yard

__all__ = ("tools",)

_STDERR_LINES = 10


@click.command()
@click.option("--status", is_flag=True, help="Start every server and show how it is, with the end of its stderr.")
@click.option("--refresh", is_flag=True, help="Ask the servers anew instead of showing what is known.")
@click.option("--server", metavar="NAME", help="Only this server.")
@click.option("--config", type=click.Path(path_type=Path), help="A toolyard.toml or a client's file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
def tools(*, status: bool, refresh: bool, server: str | None, config: Path | None, as_json: bool) -> int:
    """List the tools of all configured servers.

    Exit code 0: every server answered; 1: one did not.
    """
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    with errors.status("Asking the servers"):
        statuses, specs = run_to_end(_ask(loaded, server, anew=status or refresh))
    if as_json:
        shown = {"servers": statuses, "tools": specs}
        write(msgspec.json.encode(shown).decode() + "\n")
    elif status:
        _show_status(statuses, loaded)
    else:
        _show_tools(specs)
    failed = [each for each in statuses if each.state in ("failed", "backing_off", "starting")]
    if not status and not as_json:
        for each in failed:
            errors.print(plain(f"warning: {each.name}: {each.error or 'It did not answer in time.'}", "yellow"))
    return 1 if failed else 0


async def _ask(config: Config, server: str | None, *, anew: bool) -> tuple[list[UpstreamStatus], list[ToolSpec]]:
    async with open_yard(config, with_sandbox=False) as yard:
        if anew:
            await yard.finder.refresh()
        snapshot = await yard.snapshot()
        statuses = yard.statuses()
        specs = sorted(snapshot.tools.values(), key=lambda spec: (spec.upstream, spec.function))
    if server is not None:
        specs = [spec for spec in specs if spec.upstream == server]
        statuses = [each for each in statuses if each.name == server]
    return statuses, specs


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
