"""`sealyard metrics`: the figures of a store, once or live. It needs no gateway, and does not disturb one."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.metrics_live import follow
from sealyard.cli.metrics_read import WINDOWS, read_gauges, read_report
from sealyard.cli.metrics_view import show
from sealyard.cli.terminal import errors, plain, screen, write
from sealyard.config import Config, load_config
from sealyard.metrics import exposition
from sealyard.metrics.report import Prices
from sealyard.store import open_store


@click.command()
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "prometheus", "dashboard"]),
    default="table",
    show_default=True,
    help="What to print. `dashboard` is live, until q or Ctrl-C.",
)
@click.option(
    "--window",
    type=click.Choice(list(WINDOWS)),
    help="The time up to now that is counted: 24h by default, and always all of it for Prometheus.",
)
@click.option("--once", is_flag=True, help="Print the dashboard once.")
@click.option(
    "--store",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another store than the configured one.",
)
@click.option(
    "--write-files",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write Grafana dashboards and Prometheus rules there, and nothing else.",
)
def metrics(
    *, config: Path | None, form: str, window: str | None, once: bool, store: Path | None, write_files: Path | None
) -> int:
    """Show what was done, how well, and what it saved.

    CONFIG is a sealyard.toml or a file such as .mcp.json: it names the store, and what tokens cost.
    """
    if write_files is not None:
        for path in exposition.write_files(write_files):
            screen.print(plain(str(path)), soft_wrap=True)
        return 0
    if form == "prometheus" and window not in (None, "all"):
        raise click.UsageError("Prometheus reads sums of all time and makes windows itself. Leave out --window.")
    loaded = load_config(config)
    run_to_end(_metrics(store or loaded.store.path, loaded, form, window or "24h", once=once))
    return 0


async def _metrics(path: Path, config: Config, form: str, name: str, *, once: bool) -> None:
    prices = Prices(input=config.metrics.input_price, output=config.metrics.output_price)
    window = WINDOWS[name]
    async with open_store(path) as store:
        if form == "dashboard":
            if not once and not screen.is_terminal:
                errors.print(plain("note: This is no terminal: the dashboard is printed once."))
            await follow(store, prices, window, is_live=not once and screen.is_terminal)
            return
        if form == "prometheus":
            text, _ = exposition.render(await store.metrics.sums(), await read_gauges(store, prices))
            sys.stdout.buffer.write(text)
            return
        found = await read_report(store, prices, window)
        usage = await store.usage.read(found.since or 0.0, found.until or 0.0)
    if form == "json":
        body: dict[str, Any] = msgspec.to_builtins(found) | {"usage": msgspec.to_builtins(usage)}
        write(msgspec.json.encode(body).decode() + "\n")
    else:
        show(found, usage, window.title)
