"""The sealed rows of the vault: a scope's secrets under a master key, each value under its scope's own key.

Marked for security review. The invariant: nothing that this file hands to a storage can be read, moved to another
place or changed without the keys. AES-256-GCM with random nonces; the meaning of a row is authenticated with it.
"""

import hmac
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sealyard.errors import VaultError
from sealyard.privacy.vault.keys import Keys

Origin = Literal["tool", "code"]
"""The source of a value. A value that code made has another token than the same value of a tool: see `Scope.token`."""

PrivateValue = str | int | float

_NONCE_BYTES = 12  # the size that AES-GCM is made for
_SECRET_BYTES = 32  # AES-256, and a key of HMAC-SHA-256
_ID_BYTES = 6  # 48 bits: short in a prompt, and collisions in a scope stay improbable
_FORMS: dict[type, str] = {str: "s", int: "i", float: "f"}
_PARSERS: dict[str, Callable[[str], PrivateValue]] = {"s": str, "i": int, "f": float}
_ORIGINS: dict[str, Origin] = {"t": "tool", "c": "code"}


class SealedScope(msgspec.Struct, frozen=True, kw_only=True):
    """One stored scope."""

    name: str
    id: str
    """Random, so that a scope of the same name that is made later is another one."""
    key_id: str
    """The id of the master key that seals it."""
    sealed: bytes
    used_at: float
    erasures: int = 0
    """Grows whenever values are deleted."""
    last_number: int = 0
    """Of its newest value."""


class SealedValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored value. The garbage collector skips it: it cannot be in a cycle, and there are many."""

    scope_id: str
    id: str
    type: str
    sealed: bytes
    expires_at: float
    number: int = 0
    """Given by the storage in the order in which values come."""


class VaultStorage(Protocol):
    """Storage of sealed rows: `sealyard.store` above implements it, `Vault` uses it. Raises `StoreError`."""

    def put_values(self, seal: Callable[[], list[SealedValue]], count: int, size_bytes: int) -> None:
        """Enqueue values, or their new expiry: the result of `seal`, called in the thread that writes.

        One is dropped if its scope is gone or its id was erased. `count` is their number, `size_bytes` their length.
        """

    async def room(self) -> None:
        """Return at once while little waits to be written, else when that is on disk."""

    def touch_scope(self, scope_id: str, used_at: float) -> None:
        """Enqueue when a scope was used last."""

    def stamp(self) -> int:
        """Another number whenever a process has erased values or changed keys since."""

    async def flush(self) -> None:
        """Wait until everything enqueued is on disk."""

    async def find_scope(self, name: str) -> SealedScope | None:
        """One scope with its counters."""

    async def scopes(self) -> list[SealedScope]:
        """All scopes."""

    async def add_scope(self, scope: SealedScope) -> bool:
        """Add a scope, durably; False if its name is taken or another scope is sealed with another key."""

    async def read_values(self, scope_id: str, *, after: int, now: float) -> list[SealedValue]:
        """The values of a scope that are not expired and whose number is larger, the oldest first."""

    async def find_values(self, value_id: str, kind: str, *, now: float) -> list[tuple[SealedScope, SealedValue]]:
        """The values of that id and type in all scopes, unless they expired."""

    async def erased_ids(self, scope_id: str) -> list[str]:
        """The ids that were ever erased in a scope."""

    async def erase_values(self, scope: SealedScope, ids: Sequence[str], sealed: bytes) -> int | None:
        """Delete values and put new secrets in the scope's place; None if the scope changed meanwhile."""

    async def expire(self, *, now: float, unused_since: float) -> int:
        """Delete expired values, and scopes without any that were not used since; return the number of values."""

    async def key_in_use(self) -> str | None:
        """The id of the key that seals the scopes; None if there are none."""

    async def reseal(
        self, reseal: Callable[[SealedScope], SealedScope | VaultError], *, key_id: str
    ) -> int | VaultError:
        """Replace each scope of another key by the result of `reseal`, all at once; return their number.

        If `reseal` returns an error for one, nothing is changed and that error is returned.
        """

    async def scrub(self) -> None:
        """Remove deleted and replaced rows from the disk."""


class ScopeSecrets:
    """The two secrets of a scope: one makes ids of values, the other seals values. They are in no `repr`."""

    __slots__ = ("_box", "_data_key", "_ids", "_token_key")

    def __init__(self, token_key: bytes, data_key: bytes) -> None:
        self._token_key = token_key
        self._data_key = data_key
        self._box = AESGCM(data_key)
        # Begun once and copied: half the cost of a new one for each value.
        self._ids = {origin: hmac.new(token_key, origin.encode() + b"\0", "sha256") for origin in _ORIGINS.values()}

    @classmethod
    def make(cls) -> "ScopeSecrets":
        """New random ones."""
        return cls(secrets.token_bytes(_SECRET_BYTES), secrets.token_bytes(_SECRET_BYTES))

    def with_new_ids(self) -> "ScopeSecrets":
        """Secrets that open the same values and give every value an id that cannot be linked to its old one."""
        return ScopeSecrets(secrets.token_bytes(_SECRET_BYTES), self._data_key)

    def make_id(self, origin: Origin, text: str, attempt: int = 0) -> str:
        """The id of a value; another one for each attempt, should the first be taken by another value."""
        made = hmac.new(self._token_key, b"%b %d\0" % (origin.encode(), attempt), "sha256") if attempt else None
        made = made or self._ids[origin].copy()
        made.update(text.encode("utf-8", "surrogatepass"))
        return made.digest()[:_ID_BYTES].hex()

    def seal(self, scope_id: str, value_id: str, kind: str, value: PrivateValue, origin: Origin) -> bytes:
        """The value, sealed for this place."""
        form = next(form for each, form in _FORMS.items() if isinstance(value, each))
        content = f"{form}{origin[0]}{value}".encode("utf-8", "surrogatepass")
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._box.encrypt(nonce, content, _describe_value(scope_id, value_id, kind))

    def open(self, row: SealedValue) -> tuple[PrivateValue, Origin]:
        """The value in a row and its origin.

        Raises:
            VaultError: The row was changed, or belongs elsewhere.
        """
        nonce, sealed = row.sealed[:_NONCE_BYTES], row.sealed[_NONCE_BYTES:]
        place = _describe_value(row.scope_id, row.id, row.type)
        try:
            content = self._box.decrypt(nonce, sealed, place).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):  # the latter for a row that is too short
            token = spell(row.type, row.id)
            raise VaultError(
                f"The vault's row of {token} was changed or does not belong there. Restore a copy of the store, or"
                f" erase the row with `sealyard privacy forget {token}`."
            ) from None
        return _PARSERS[content[0]](content[2:]), _ORIGINS[content[1]]

    def export(self) -> bytes:
        """Both, as they are sealed with a master key."""
        return self._token_key + self._data_key


def spell(kind: str, value_id: str) -> str:
    """The token of a value of that type and id."""
    return f"__PII_{kind}_{value_id}__"


def make_scope(name: str, *, key_id: str, keys: Keys, now: float) -> SealedScope:
    """A new scope, with new secrets, sealed with that key."""
    row = SealedScope(name=name, id=secrets.token_hex(8), key_id=key_id, sealed=b"", used_at=now)
    return seal_scope(row, ScopeSecrets.make(), key_id=key_id, keys=keys)


def seal_scope(row: SealedScope, opened: ScopeSecrets, *, key_id: str, keys: Keys) -> SealedScope:
    """The scope with these secrets, sealed with that key."""
    nonce = os.urandom(_NONCE_BYTES)
    box = AESGCM(_get_key(keys, key_id))
    sealed = nonce + box.encrypt(nonce, opened.export(), _describe_scope(row, key_id))
    return msgspec.structs.replace(row, key_id=key_id, sealed=sealed)


def open_scope(row: SealedScope, keys: Keys) -> ScopeSecrets:
    """The secrets of a scope.

    Raises:
        VaultError: The key is not here, or the row was changed. Nothing is lost by that.
    """
    nonce, sealed = row.sealed[:_NONCE_BYTES], row.sealed[_NONCE_BYTES:]
    try:
        content = AESGCM(_get_key(keys, row.key_id)).decrypt(nonce, sealed, _describe_scope(row, row.key_id))
    except (InvalidTag, ValueError):
        raise VaultError(
            f"The vault's row of scope {row.name!r} was changed or does not belong there. Restore a copy of the store,"
            f" or erase the scope with `sealyard privacy forget --session {row.name}`."
        ) from None
    return ScopeSecrets(content[:_SECRET_BYTES], content[_SECRET_BYTES:])


def _get_key(keys: Keys, key_id: str) -> bytes:
    key = keys.find(key_id)
    if key is None:
        raise VaultError(
            f"The vault is sealed with the key {key_id!r}, and the {keys.source} has {', '.join(keys.ids)} only. Bring"
            " that key back, behind the current one; if it is lost, so is what it sealed, and `sealyard privacy forget"
            " --all` makes room for a new beginning."
        )
    return key


def _describe_value(scope_id: str, value_id: str, kind: str) -> bytes:
    return f"value\0{scope_id}\0{value_id}\0{kind}".encode()


def _describe_scope(row: SealedScope, key_id: str) -> bytes:
    return f"scope\0{row.id}\0{key_id}\0{row.name}".encode("utf-8", "surrogatepass")
