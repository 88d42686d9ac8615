"""`sealyard privacy reveal|forget|rotate|status`: what an operator may do with the vault, beside a running gateway.

Whatever shows, erases or reseals is in the audit log, on disk, before it happens. No value is in there.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import columns, errors, plain, screen, write
from sealyard.config import Config, load_config
from sealyard.errors import InvalidRequest, UnknownToken, VaultError
from sealyard.privacy.vault import KeyPlace, Keys, RevealedValue, Vault
from sealyard.store import Store, open_store
from sealyard.store.vault import ScopeCount
from sealyard.values import AuditEntry

_PRINCIPAL = "local"
_CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), help="A sealyard.toml or a client's file such as .mcp.json."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")


@click.command()
@click.argument("token")
@_CONFIG
@_JSON
def reveal(*, token: str, config: Path | None, as_json: bool) -> None:
    """Show the value that TOKEN stands for. The audit log says so before."""
    for found in run_to_end(_reveal(_load(config), token)):
        shown = {"token": found.token, "type": found.type, "scope": found.scope, "value": found.value}
        write((msgspec.json.encode(shown).decode() if as_json else str(found.value)) + "\n")


async def _reveal(config: Config, token: str) -> list[RevealedValue]:
    async with open_store(config.store.path) as store:
        found = await (await _open_vault(config, store)).find(token)
        if not found:
            raise UnknownToken(f"{token!r} is no token in the vault: it is incomplete, has expired or was erased.")
        for each in found:
            await _audit(store, "privacy.reveal", token=each.token, scope=each.scope, type=each.type)
        return found


@click.command()
@click.argument("values", nargs=-1, metavar="[VALUE|TOKEN]...")
@click.option("--session", metavar="NAME", help="Only this one, as `status` names it; all of it if no value is given.")
@click.option("--all", "everything", is_flag=True, help="Everything in the vault, even if its key is lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_CONFIG
def forget(*, values: tuple[str, ...], session: str | None, everything: bool, yes: bool, config: Path | None) -> None:
    """Erase values from the vault for good, by what they are or by their tokens.

    A - stands for the lines of standard input, so that no value is in the shell's history. A value is found whatever
    its case, and as whole words in longer values. Its tokens are refused from then on.
    """
    if everything == bool(values or session):
        raise click.UsageError("Give values or tokens, or --session NAME, or --all.")
    wanted = [line for each in values for line in (_read_lines() if each == "-" else [each])]
    if values and not any(each.strip() for each in wanted):
        raise click.UsageError("Give values that are not empty.")

    def confirm(count: int, scopes: int) -> None:
        if not yes:
            click.confirm(f"Erase {count:,} values in {scopes:,} scopes for good?", abort=True, err=True)

    count = run_to_end(_forget(_load(config), wanted, session, confirm))
    screen.print(plain(f"{count:,} values are erased."))


async def _forget(
    config: Config, wanted: Sequence[str], session: str | None, confirm: Callable[[int, int], None]
) -> int:
    async with open_store(config.store.path) as store:
        counts = _sum_values(await store.vault.counts())
        scope = None if session is None else _find_scope(counts, session)
        if not wanted:  # whole scopes: the key is not needed
            matches = counts if scope is None else {scope: counts[scope]}
            confirm(sum(matches.values()), len(matches))
            await _audit(store, "privacy.forget", count=sum(matches.values()), scopes=sorted(matches))
            count = await store.vault.erase_scopes(list(matches))
            await store.vault.scrub()
            return count
        vault = await _open_vault(config, store)
        matches = await vault.match(wanted, scope=scope)
        if not matches:
            return 0
        confirm(sum(matches.values()), len(matches))
        await _audit(store, "privacy.forget", count=sum(matches.values()), scopes=sorted(matches))
        return await vault.forget(wanted, scope=scope)


@click.command()
@_CONFIG
def rotate(*, config: Path | None) -> None:
    """Seal the vault with a new key. Running gateways go on, unless they have their key from the environment.

    With a key from SEALYARD_VAULT_KEY, first put the new one in front of the old one: NEW,OLD.
    """
    keys, count = run_to_end(_rotate(_load(config)))
    screen.print(plain(f"{count:,} scopes are sealed with the key {keys.current_id} from the {keys.source} now."))
    if keys.source == "environment" and len(keys.ids) > 1:
        screen.print(plain("Restart the gateways with it, then take the old keys out of SEALYARD_VAULT_KEY."))


async def _rotate(config: Config) -> tuple[Keys, int]:
    async with open_store(config.store.path) as store:
        used = await store.vault.key_in_use()
        old = _key_place(config).find()
        if used is not None:
            _check_key(old, used)
        if old is not None and old.source == "environment" and old.current_id == used:
            raise InvalidRequest(
                f"The vault is sealed with the first key of SEALYARD_VAULT_KEY, {used}, already. Put a new one in front"
                " of it, with a comma between: `openssl rand -base64 32` makes one."
            )
        with _key_place(config).rotate() as keys:
            vault = Vault(keys, store.vault, expires_seconds=config.privacy.expires_seconds)
            await _audit(store, "privacy.rotate", old_key=used or "", new_key=keys.current_id)
            return keys, await vault.rotate(keys)


@click.command()
@_CONFIG
@_JSON
def status(*, config: Path | None, as_json: bool) -> None:
    """Show how many values of which types the vault holds, its key's id, and when they expire; never a value."""
    loaded = _load(config)
    counts, used = run_to_end(_count(loaded))
    keys = _key_place(loaded).find()
    is_open = used is None or (keys is not None and keys.find(used) is not None)
    if as_json:
        shown = {
            "key": {"id": used, "source": None if keys is None else keys.source, "is_here": is_open},
            "expires_seconds": loaded.privacy.expires_seconds,
            "values": [each for each in counts if each.values],
            "scopes": sorted({each.scope for each in counts}),
        }
        write(msgspec.json.encode(shown).decode() + "\n")
        return
    table = columns("scope", "type", "values", "the last expires")
    for each in counts:
        expiry = datetime.fromtimestamp(each.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC") if each.values else "-"
        table.add_row(plain(each.scope), plain(each.type or "-"), f"{each.values:,}", expiry)
    screen.print(table if counts else plain("The vault is empty."))
    source = "no key is here yet" if keys is None else f"key {used or keys.current_id} from the {keys.source}"
    screen.print(plain(f"{source}; values expire {loaded.privacy.expires_seconds:,.0f} s after they were seen last"))
    if not is_open:
        errors.print(plain(f"warning: The vault is sealed with the key {used}, which is not here.", "yellow"))


async def _count(config: Config) -> tuple[list[ScopeCount], str | None]:
    async with open_store(config.store.path) as store:
        return await store.vault.counts(), await store.vault.key_in_use()


# All of them


def _load(path: Path | None) -> Config:
    config = load_config(path)
    for warning in config.warnings:
        errors.print(plain(f"warning: {warning}", "yellow"))
    return config


def _folder(config: Config) -> Path:
    return config.store.path.resolve().parent


def _key_place(config: Config) -> KeyPlace:
    return KeyPlace(config.privacy.key, folder=_folder(config), environment_value=config.privacy.vault_key)


def _check_key(keys: Keys | None, used: str) -> None:
    """Nothing is made in place of a key that is elsewhere."""
    if keys is None or keys.find(used) is None:
        here = "no key is" if keys is None else f"only {', '.join(keys.ids)} from the {keys.source} is"
        raise VaultError(
            f"The vault is sealed with the key {used!r}, and {here} here. Give this command the configuration and the"
            " SEALYARD_VAULT_KEY of the gateway; if the key is lost, `sealyard privacy forget --all` clears the vault."
        )


async def _open_vault(config: Config, store: Store) -> Vault:
    """The vault with its key; none is made."""
    used = await store.vault.key_in_use()
    keys = _key_place(config).find()
    if used is not None:
        _check_key(keys, used)
    if keys is None:
        raise VaultError("The vault has no key yet, so nothing was ever put into it. Run a gateway with privacy first.")
    return Vault(keys, store.vault, expires_seconds=config.privacy.expires_seconds)


async def _audit(store: Store, kind: str, **body: Any) -> None:
    store.audit(AuditEntry(kind=kind, principal=_PRINCIPAL, body=body))
    await store.flush()


def _sum_values(counts: Sequence[ScopeCount]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in counts:
        sums[each.scope] = sums.get(each.scope, 0) + each.values
    return sums


def _find_scope(counts: dict[str, int], session: str) -> str:
    for name in (session, f"{_PRINCIPAL}:{session}"):
        if name in counts:
            return name
    raise InvalidRequest(f"The vault has no scope {session!r}. `sealyard privacy status` lists those that it has.")


def _read_lines() -> list[str]:
    return sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
