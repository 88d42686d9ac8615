"""`sealyard search`: what an agent would find."""

from pathlib import Path

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import errors, plain, screen, write
from sealyard.config import Config, load_config
from sealyard.values import SearchAnswer
from sealyard.yard import open_yard


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
@click.option("--limit", type=click.IntRange(1, 50), default=5, show_default=True, help="How many tools at most.")
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
def search(
    *, query: tuple[str, ...], detail: str, server: str | None, limit: int, config: Path | None, as_json: bool
) -> int:
    """Find tools of all configured servers by what you want to do.

    Exit code 0: something was found; 1: nothing was.
    """
    loaded = load_config(config)
    for warning in loaded.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    with errors.status("Asking the servers"):
        answer, unlisted = run_to_end(_search(loaded, " ".join(query), detail, server, limit))
    if as_json:
        write(msgspec.json.encode(answer).decode() + "\n")
    else:
        _show(answer)
    for name in unlisted:
        errors.print(plain(f"warning: {name} did not list its tools. See `sealyard tools --status`.", "yellow"))
    return 0 if answer.hits else 1


async def _search(
    config: Config, query: str, detail: str, server: str | None, limit: int
) -> tuple[SearchAnswer, list[str]]:
    async with open_yard(config, with_sandbox=False) as yard:
        answer = await yard.search(query, detail_level=detail, server=server, limit=limit)
        return answer, yard.tools.finder.unlisted()


def _show(answer: SearchAnswer) -> None:
    for hit in answer.hits:
        screen.print(plain(hit.name, "bold"))
        screen.print(plain(f"  {hit.use}"))
        if hit.signature is not None:
            screen.print(plain(f"  {hit.signature}"))
        if hit.description:
            for line in hit.description.splitlines():
                screen.print(plain(f"  {line}", "dim"))
        for name, note in (hit.parameters or {}).items():
            screen.print(plain(f"    {name}: {note}", "dim"))
        if hit.returns:
            screen.print(plain(f"  returns {hit.returns}", "dim"))
    if answer.unmatched:
        screen.print(plain(f"no tool contains: {', '.join(answer.unmatched)}", "yellow"))
    if not answer.hits:
        screen.print(plain(f"None of {answer.total} tools fits."))
