"""`sealyard search`: search for tools as an agent does."""

from pathlib import Path

import click

from sealyard.cli.command import CONFIG, JSON
from sealyard.cli.gateway import with_yard
from sealyard.cli.terminal import plain, screen, warn, write_json
from sealyard.values.tools import SearchAnswer
from sealyard.yard import Yard


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
@CONFIG
@JSON
def search(
    *, query: tuple[str, ...], detail: str, server: str | None, limit: int, config: Path | None, as_json: bool
) -> int:
    """Find tools of all configured servers by what you want to do.

    Exit code 0: something was found; 1: nothing was.
    """

    async def work(yard: Yard) -> tuple[SearchAnswer, list[str]]:
        answer = await yard.search(" ".join(query), detail_level=detail, server=server, limit=limit)
        return answer, yard.tools.finder.unlisted()

    answer, unlisted = with_yard(config, work)
    if as_json:
        write_json(answer)
    else:
        _show(answer)
    for name in unlisted:
        warn(f"{name} did not list its tools. See `sealyard tools --status`.")
    return 0 if answer.hits else 1


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
