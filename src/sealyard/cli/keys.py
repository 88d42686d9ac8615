"""The vault of a store beside a running gateway: its key is used where it is, and none is made."""

from sealyard.config import Config
from sealyard.errors import VaultError
from sealyard.privacy.vault import KeyPlace, Keys, Vault
from sealyard.store import Store


def key_place(config: Config) -> KeyPlace:
    """Where the configuration keeps the vault's key."""
    return KeyPlace(
        config.privacy.key, folder=config.store.path.resolve().parent, environment_value=config.privacy.vault_key
    )


def check_key(keys: Keys | None, used: str) -> None:
    """Raise `VaultError` for a key that is elsewhere, so that none is made in its place."""
    if keys is None or keys.find(used) is None:
        here = "no key is" if keys is None else f"only {', '.join(keys.ids)} from the {keys.source} is"
        raise VaultError(
            f"The vault is sealed with the key {used!r}, and {here} here. Give this command the configuration and the"
            " SEALYARD_VAULT_KEY of the gateway; if the key is lost, `sealyard privacy forget --all` clears the vault."
        )


async def open_vault(config: Config, store: Store) -> Vault:
    """Return the vault with the key that exists. Raises `VaultError` if there is none."""
    used = await store.vault.key_in_use()
    keys = key_place(config).find()
    if used is not None:
        check_key(keys, used)
    if keys is None:
        raise VaultError("The vault has no key yet, so nothing was ever put into it. Run a gateway with privacy first.")
    return Vault(keys, store.vault, expires_seconds=config.privacy.expires_seconds)
