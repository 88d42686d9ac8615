"""`sealyard backup` and `sealyard restore`: one checked file with everything a store holds, and back."""

import time
from pathlib import Path

import click
import msgspec

from sealyard.cli.command import CONFIG, JSON, LOCAL, STORE, answer, read_config, store_path, wants_json, with_store
from sealyard.cli.terminal import minute, progress, remark, say_unwrapped, warn, write_json
from sealyard.config import Config
from sealyard.errors import StoreError, VaultError
from sealyard.privacy.vault import KeyPlace
from sealyard.store import Store
from sealyard.store.backup import Backup, Restored, check_backup, restore_backup, write_backup
from sealyard.values.access import AuditEntry


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--with-keys", is_flag=True, help="Include the vault's key. Whoever has the file can read all values then."
)
@STORE
@CONFIG
@JSON
def backup(*, file: Path | None, with_keys: bool) -> int:
    """Write everything the store holds into one file.

    FILE is a new file, by default named for the time. Gateways may go on meanwhile. It holds executions, calls, skills,
    tools, metrics, sealed private values, and the audit log with the key that signs it, so it is for its owner alone.
    It holds the vault's key only with --with-keys, and never settings or OAuth tokens.

    Exit code 0: all is right; 1: it was written, and the audit log in it is wrong.
    """
    path = store_path()
    output = file or Path(time.strftime("sealyard-%Y%m%d-%H%M%S.tar", time.gmtime()))
    with progress() as on_progress:
        done = write_backup(path, output, with_keys=with_keys, on_progress=on_progress)
    try:
        _audit(path, "store.backup", sha256=done.sha256, files=sorted(done.manifest.files))
    except StoreError as error:  # such as a full disk: the backup is none the worse for it
        warn(f"The audit log does not say that a backup was made. {error}")
    text = (
        f"{output}: {_rows(done)}.\nIts SHA-256 is {done.sha256}. Keep that elsewhere, for `sealyard restore --sha256`."
    )
    answer({"file": str(output)} | msgspec.to_builtins(done), lambda: say_unwrapped(text))
    if done.problem:
        remark(f"The audit log is wrong, and so it is in the backup. {done.problem}", "red")
    return 1 if done.problem else 0


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
@CONFIG
@JSON
def restore(*, file: Path, check: bool, sha256: str | None, force: bool, store: Path | None) -> int:
    """Bring back what a backup holds.

    Everything in FILE is checked before anything is touched: digests, the database, its tables and its audit log. The
    store that is there is kept in a folder beside it. No gateway may have it open.

    Exit code 0: all is right; 1: by --check, the audit log in it is wrong.
    """
    if check:
        with progress() as on_progress:
            found = check_backup(file, sha256=sha256, on_progress=on_progress)
        shown = {"ok": not found.problem} | msgspec.to_builtins(found)
        answer(shown, lambda: say_unwrapped(f"Backup {file} is intact, {_describe(found)}.", "green"))
        if found.problem:
            remark(f"The audit log in it is wrong. {found.problem}", "red")
        return 1 if found.problem else 0
    loaded = read_config()
    path = (store or loaded.store.path).resolve()
    with progress() as on_progress:
        done = restore_backup(file, path, sha256=sha256, force=force, on_progress=on_progress)
    made, is_replaced = done.backup, done.replaced is not None
    _audit(path, "store.restore", sha256=made.sha256, created_at=made.manifest.created_at, replaced=is_replaced)
    if wants_json():
        write_json({"store": str(path)} | msgspec.to_builtins(done))
    else:
        say_unwrapped(f"{path} is as it was: {_describe(done.backup)}.", "green")
        if done.replaced is not None:
            say_unwrapped(f"What was there is kept in {done.replaced}. Remove it when it is not needed any more.")
    _warn_of_keys(done, loaded, path)
    return 0


def _audit(path: Path, kind: str, **body: object) -> None:
    async def write(store: Store) -> None:  # opening the store also brings an older one up to date
        store.audit(AuditEntry(kind=kind, principal=LOCAL, body=body))

    with_store(path, write)


def _warn_of_keys(done: Restored, config: Config, path: Path) -> None:
    settings = config.privacy
    try:
        keys = KeyPlace(settings.key, folder=path.parent, environment_value=settings.vault_key).find()
    except VaultError:
        keys = None
    if done.vault_key is not None and (keys is None or keys.find(done.vault_key) is None):
        warn(
            f"Private values in it are sealed with the key {done.vault_key}, which is not here. Add it to"
            " vault.key beside the store, or to SEALYARD_VAULT_KEY: else no gateway can use the vault."
        )


def _describe(backup: Backup) -> str:
    made = minute(backup.manifest.created_at)
    return f"made at {made} UTC by sealyard {backup.manifest.sealyard}, {_rows(backup)}"


def _rows(backup: Backup) -> str:
    return ", ".join(
        f"{count:,} {'audit entries' if name == 'audit' else name}" for name, count in backup.manifest.rows.items()
    )
