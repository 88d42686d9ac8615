"""`sealyard backup`: everything a store holds, in one file that was looked through."""

import time
from pathlib import Path

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.progress import progress
from sealyard.cli.terminal import errors, plain, screen, write
from sealyard.config import load_config
from sealyard.errors import StoreError
from sealyard.store import open_store
from sealyard.store.backup import Backup, write_backup
from sealyard.values import AuditEntry


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--with-keys", is_flag=True, help="Take the vault's key along. Who has the file can read all values then."
)
@click.option(
    "--store",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another store than the configured one.",
)
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def backup(*, file: Path | None, with_keys: bool, store: Path | None, config: Path | None, as_json: bool) -> int:
    """Write everything the store holds into one file.

    FILE is a new file, by default named for the time. Gateways may go on meanwhile. It holds executions, calls, skills,
    tools, metrics, sealed private values, and the audit log with the key that signs it, so it is for its owner alone.
    The vault's key is taken along only by --with-keys, settings and OAuth tokens not at all.

    Exit code 0: all is right; 1: it was written, and the audit log in it is wrong.
    """
    path = store or load_config(config).store.path
    output = file or Path(time.strftime("sealyard-%Y%m%d-%H%M%S.tar", time.gmtime()))
    with progress() as on_progress:
        done = write_backup(path, output, with_keys=with_keys, on_progress=on_progress)
    try:
        run_to_end(_record(path, done))
    except StoreError as error:  # such as a full disk: the backup is none the worse for it
        errors.print(plain(f"warning: The audit log does not say that a backup was made. {error}", "yellow"))
    if as_json:
        write(msgspec.json.encode({"file": str(output)} | msgspec.to_builtins(done)).decode() + "\n")
    else:
        _show(done, output)
    if done.problem:
        errors.print(plain(f"The audit log is wrong, and so it is in the backup. {done.problem}", "red"))
    return 1 if done.problem else 0


async def _record(path: Path, done: Backup) -> None:
    async with open_store(path) as store:
        body = {"sha256": done.sha256, "files": sorted(done.manifest.files)}
        store.audit(AuditEntry(kind="store.backup", principal="local", body=body))


def _show(done: Backup, output: Path) -> None:
    rows = ", ".join(f"{count:,} {name}" for name, count in done.manifest.rows.items())
    screen.print(plain(f"{output}: {rows}."), soft_wrap=True)
    screen.print(
        plain(f"Its SHA-256 is {done.sha256}. Keep that elsewhere, for `sealyard restore --sha256`."), soft_wrap=True
    )
