"""`sealyard rebuild-metrics`: the journal is the truth, so whatever was counted can be counted again."""

from pathlib import Path

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.progress import progress
from sealyard.cli.skills_view import count
from sealyard.cli.terminal import plain, screen, write
from sealyard.config import load_config
from sealyard.store import open_store
from sealyard.store.metrics import Rebuilt


@click.command()
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Only compare what would be counted with what was, and change nothing.")
@click.option(
    "--store",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another store than the configured one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def rebuild_metrics(*, config: Path | None, check: bool, store: Path | None, as_json: bool) -> int:
    """Count all metrics again from the journal.

    Figures of days whose rows were removed because they are old stay as they are. Gateways may go on meanwhile.

    Exit code 0: all is right; 1: by --check, some sums are others than the journal gives.
    """
    done = run_to_end(_rebuild(store or load_config(config).store.path, check=check))
    if as_json:
        write(msgspec.json.encode(done).decode() + "\n")
    else:
        _show(done, check=check)
    return 1 if check and (done.differences or done.derived) else 0


async def _rebuild(path: Path, *, check: bool) -> Rebuilt:
    async with open_store(path) as store:
        with progress() as tell:
            return await store.metrics.rebuild(lambda done, total: tell("counting", done, total), check=check)


def _show(done: Rebuilt, *, check: bool) -> None:
    screen.print(plain(f"{done.facts:,} facts and {done.calls:,} calls of {count(done.days, 'day')} were counted."))
    if done.derived:
        verb = "are missing" if check else "were missing, and made from the executions"
        screen.print(plain(f"{done.derived:,} facts {verb}.", "yellow"))
    if done.skipped:
        screen.print(plain(f"{done.skipped:,} rows cannot be read, and do not count.", "yellow"))
    if done.differences:
        verb = "are" if check else "were"
        screen.print(plain(f"{done.differences:,} sums {verb} others than the journal gives.", "yellow"))
    else:
        screen.print(plain("Every sum is what the journal gives.", "green"))
