"""`sealyard restore`: a backup, looked through and put in the place of the store."""

import time
from pathlib import Path

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.progress import progress
from sealyard.cli.terminal import errors, plain, screen, write
from sealyard.config import Config, load_config
from sealyard.errors import VaultError
from sealyard.privacy.vault import KeyPlace
from sealyard.store import open_store
from sealyard.store.backup import Backup, Restored, check_backup, restore_backup
from sealyard.values import AuditEntry


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Only look through the backup, and change nothing.")
@click.option("--sha256", metavar="HEX", help="What `sealyard backup` printed: it must be that very file.")
@click.option("--force", is_flag=True, help="Restore it though the audit log in it is wrong.")
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another place than the configured one.",
)
@click.option("--config", type=click.Path(path_type=Path), help="A sealyard.toml or a file such as .mcp.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def restore(
    *,
    file: Path,
    check: bool,
    sha256: str | None,
    force: bool,
    store: Path | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Bring back what a backup holds.

    Everything in FILE is checked before anything is touched: digests, the database, its tables and its audit log. The
    store that is there is kept in a folder beside it. No gateway may have it open.

    Exit code 0: all is right; 1: by --check, the audit log in it is wrong.
    """
    if check:
        with progress() as on_progress:
            found = check_backup(file, sha256=sha256, on_progress=on_progress)
        if as_json:
            write(msgspec.json.encode({"ok": not found.problem} | msgspec.to_builtins(found)).decode() + "\n")
        else:
            _say(f"{file} is whole: {_describe(found)}.", "green")
        if found.problem:
            errors.print(plain(f"The audit log in it is wrong. {found.problem}", "red"))
        return 1 if found.problem else 0
    loaded = load_config(config)
    path = (store or loaded.store.path).resolve()
    with progress() as on_progress:
        done = restore_backup(file, path, sha256=sha256, force=force, on_progress=on_progress)
    run_to_end(_record(path, done))
    if as_json:
        write(msgspec.json.encode({"store": str(path)} | msgspec.to_builtins(done)).decode() + "\n")
    else:
        _say(f"{path} is as it was: {_describe(done.backup)}.", "green")
        if done.replaced is not None:
            _say(f"What was there is kept in {done.replaced}. Remove it when it is not needed any more.")
    _warn_of_keys(done, loaded, path)
    return 0


async def _record(path: Path, done: Restored) -> None:
    """Write it down in the restored log. Opening the store also brings an older one up to date."""
    async with open_store(path) as store:
        body = {
            "sha256": done.backup.sha256,
            "created_at": done.backup.manifest.created_at,
            "replaced": done.replaced is not None,
        }
        store.audit(AuditEntry(kind="store.restore", principal="local", body=body))


def _warn_of_keys(done: Restored, config: Config, path: Path) -> None:
    settings = config.privacy
    try:
        keys = KeyPlace(settings.key, folder=path.parent, environment_value=settings.vault_key).find()
    except VaultError:
        keys = None
    if done.vault_key is not None and (keys is None or keys.find(done.vault_key) is None):
        errors.print(
            plain(
                f"warning: Private values in it are sealed with the key {done.vault_key}, which is not here. Add it to"
                " vault.key beside the store, or to SEALYARD_VAULT_KEY: else no gateway can use the vault.",
                "yellow",
            )
        )


def _describe(backup: Backup) -> str:
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(backup.manifest.created_at))
    rows = ", ".join(f"{count:,} {name}" for name, count in backup.manifest.rows.items())
    return f"made at {made} by sealyard {backup.manifest.sealyard}, {rows}"


def _say(text: str, style: str = "") -> None:
    screen.print(plain(text, style), soft_wrap=True)
