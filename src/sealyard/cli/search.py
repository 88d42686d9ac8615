"""`sealyard search`: search for tools as an agent does."""

import click

from sealyard.cli.command import CONFIG, JSON, answer
from sealyard.cli.gateway import with_yard
from sealyard.cli.terminal import say, warn
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
def search(*, query: tuple[str, ...], detail: str, server: str | None, limit: int) -> int:
    """Find tools of all configured servers by what you want to do.

    Exit code 0: something was found; 1: nothing was.
    """

    async def work(yard: Yard) -> tuple[SearchAnswer, list[str]]:
        found = await yard.search(" ".join(query), detail_level=detail, server=server, limit=limit)
        return found, yard.tools.finder.unlisted()

    found, unlisted = with_yard(work)
    answer(found, lambda: _show(found))
    for name in unlisted:
        warn(f"{name} did not list its tools. See `sealyard tools --status`.")
    return 0 if found.hits else 1


def _show(found: SearchAnswer) -> None:
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
