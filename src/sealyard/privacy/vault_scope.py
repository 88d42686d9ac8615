"""One scope of the vault in memory: a value's token and a token's value, without waiting for a disk."""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from sealyard.errors import LimitReached
from sealyard.privacy.span import TOKEN
from sealyard.privacy.vault_reveal import OnText, reveal_tokens
from sealyard.privacy.vault_seal import (
    Origin,
    PrivateValue,
    ScopeSecrets,
    SealedScope,
    SealedValue,
    VaultStorage,
    spell,
)

__all__ = ("VALUES_MOST", "OpenedValue", "Scope")

VALUES_MOST = 1_000_000
"""In one scope: a server that sends private values without end must not fill the memory."""

_RENEWED_SHARE = 0.1
"""Of the time to expiry, after which a value that is seen again is given the whole time anew."""
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)

OpenedValue = tuple[SealedValue, PrivateValue, Origin]


class Scope:
    """The tokens of one scope. `Vault.scope` gives it, and again at the start of each piece of work.

    `token`, `reveal` and `has` never wait and may be called from any thread. A token is durable once what was enqueued
    to the storage is.
    """

    def __init__(
        self,
        row: SealedScope,
        secrets: ScopeSecrets,
        storage: VaultStorage,
        *,
        expires_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.name = row.name
        self._storage = storage
        self._expires_seconds = expires_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._by_text: dict[Origin, dict[str, _Entry]]
        self._by_token: dict[str, _Entry]
        self.restart(row, secrets)

    def token(self, type: str, value: PrivateValue, *, origin: Origin = "tool") -> str:  # noqa: A002
        """The token of a value: always the same one, whatever the type or kind in which it is found again.

        A number and its text are one value. What code itself made, origin `code`, has a token of its own: else code
        could print guesses and see which one gets the token that it wants to know the value of.

        Raises:
            LimitReached: The scope is full.
            StoreError: The store is closed.
        """
        text = value if isinstance(value, str) else str(value)
        entry = self._by_text[origin].get(text)
        if entry is None:
            return self._add(type, value, text, origin).token
        if self._clock() >= entry.renewed_at:
            with self._lock:
                if self._by_token.get(entry.token) is entry:  # it may be erased by now
                    self._put(entry, text)
        return entry.token

    def reveal(
        self,
        value: Any,
        *,
        schema: Mapping[str, Any] | None = None,
        is_inside: bool = True,
        on_text: OnText = lambda _: None,
    ) -> Any:
        """JSON data with every token in it turned back; the very same object if there is none.

        `schema` is the JSON Schema of the data: a token that stands alone becomes the number or the text it asks for.
        Unless `is_inside`, only tokens that stand alone are. `on_text` hears each string that held one.

        Raises:
            UnknownToken: Something begins like a token and is none of this scope.
            CallRefused: Two keys of one object are the same token, or a token is not alone and must be.
        """
        return reveal_tokens(value, self._find, schema, is_inside=is_inside, on_text=on_text)

    def has(self, token: str) -> bool:
        """Whether this is one whole token of this scope, in whatever case."""
        match = TOKEN.fullmatch(token)
        return match is not None and self._find(match[1].lower(), match[2].lower()) is not None

    def __len__(self) -> int:
        return len(self._by_token)

    # For the vault

    def restart(self, row: SealedScope, secrets: ScopeSecrets) -> None:
        """Forget everything and be this scope from now on."""
        with self._lock:
            self.id = row.id
            self.erasures = row.erasures
            self.last_number = 0
            self._secrets = secrets
            self.clear()

    def clear(self) -> None:
        """Forget everything. What is added until `restart` is not stored, since the scope is gone there."""
        with self._lock:
            self._by_text = {"tool": {}, "code": {}}
            self._by_token = {}

    def erase(self, ids: Iterable[str], *, erasures: int, secrets: ScopeSecrets) -> None:
        """Drop the values of these ids, and give ids to new values by these secrets."""
        with self._lock:
            self.erasures = erasures
            self.last_number = 0  # numbers of deleted rows are given again
            self._secrets = secrets
            gone = set(ids)
            self._drop([entry for entry in self._by_token.values() if entry.id in gone])

    def open(self, rows: Iterable[SealedValue]) -> list[OpenedValue]:
        """The values in rows that are new here. It takes a few microseconds for each, and may run in a thread.

        Raises:
            VaultError: A row was changed, or belongs elsewhere.
        """
        opened = []
        for row in rows:
            entry = self._by_token.get(spell(row.type, row.id))
            if entry is None:
                opened.append((row, *self._secrets.open(row)))
            elif row.expires_at > entry.expires_at:
                self._extend(entry, row.expires_at)
        return opened

    def learn(self, opened: Iterable[OpenedValue]) -> None:
        """Know these values too. Of two tokens of one value, the one known first stays the one that is given."""
        with self._lock:
            for row, value, origin in opened:
                entry = _Entry(row.id, row.type, value, origin)
                self._extend(entry, row.expires_at)
                self._keep(entry)

    def prune(self) -> None:
        """Drop what is expired."""
        now = self._clock()
        with self._lock:
            self._drop([entry for entry in self._by_token.values() if entry.expires_at <= now])

    # Entries

    def _find(self, kind: str, value_id: str) -> PrivateValue | None:
        entry = self._by_token.get(spell(kind, value_id))
        return entry.value if entry is not None and entry.expires_at > self._clock() else None

    def _add(self, type: str, value: PrivateValue, text: str, origin: Origin) -> "_Entry":  # noqa: A002
        given: object = value
        if not isinstance(given, str | int | float) or isinstance(given, bool) or not _is_type(type):
            raise ValueError(f"A value of type {type!r} and kind {given.__class__.__name__} cannot have a token.")
        with self._lock:
            entry = self._by_text[origin].get(text)
            if entry is not None:  # another thread was faster
                return entry
            if len(self._by_token) >= VALUES_MOST:
                raise LimitReached(
                    f"This session has {VALUES_MOST:,} private values, which is its limit. Ask for less, or use another"
                    " session."
                )
            attempt = 0
            entry = _Entry(self._secrets.make_id(origin, text), type, value, origin)
            while entry.token in self._by_token:  # the id of another value: one pair in 280 million million
                attempt += 1
                entry = _Entry(self._secrets.make_id(origin, text, attempt), type, value, origin)
            self._put(entry, text)
            self._by_token[entry.token] = self._by_text[origin][text] = entry
            return entry

    def _put(self, entry: "_Entry", text: str) -> None:
        """Enqueue the value, which reads so, with its whole time before it."""
        expires_at = self._clock() + self._expires_seconds
        scope_id, secrets = self.id, self._secrets

        def seal() -> SealedValue:  # in the storage's thread: it costs as much as all the rest
            sealed = secrets.seal(scope_id, entry.id, entry.type, entry.value, entry.origin)
            return SealedValue(scope_id=scope_id, id=entry.id, type=entry.type, sealed=sealed, expires_at=expires_at)

        self._storage.put_value(seal, len(text))
        self._extend(entry, expires_at)

    def _extend(self, entry: "_Entry", expires_at: float) -> None:
        entry.expires_at = expires_at
        entry.renewed_at = expires_at - (1 - _RENEWED_SHARE) * self._expires_seconds

    def _keep(self, entry: "_Entry") -> None:
        self._by_token[entry.token] = entry
        self._by_text[entry.origin].setdefault(str(entry.value), entry)

    def _drop(self, entries: Iterable["_Entry"]) -> None:
        for entry in entries:
            del self._by_token[entry.token]
            known = self._by_text[entry.origin]
            if known.get(str(entry.value)) is entry:
                del known[str(entry.value)]


@lru_cache(maxsize=256)
def _is_type(kind: str) -> bool:
    return _TYPE.fullmatch(kind) is not None


class _Entry:
    """One value with its token."""

    __slots__ = ("expires_at", "id", "origin", "renewed_at", "token", "type", "value")

    def __init__(self, value_id: str, kind: str, value: PrivateValue, origin: Origin) -> None:
        self.id = value_id
        self.type = kind
        self.value = value
        self.origin = origin
        self.token = spell(kind, value_id)
        self.expires_at = 0.0
        self.renewed_at = 0.0
