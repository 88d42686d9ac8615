"""One scope of the vault in memory: a value's token and a token's value, without waiting for a disk."""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from sealyard.errors import LimitReached
from sealyard.privacy.span import TOKEN
from sealyard.privacy.vault.reveal import OnText, reveal_tokens
from sealyard.privacy.vault.seal import (
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
            with self._lock:
                entry = self._by_text[origin].get(text)  # another thread may have been faster
                if entry is None:
                    entry = self._make(type, value, text, origin, _NONE)
                    self._put([entry])  # before anybody else can be given its token
                    self._keep(entry)
        elif self._clock() >= entry.renewed_at:
            return self.tokens([(type, value, origin)])[0]
        return entry.token

    def tokens(self, wanted: Iterable[tuple[str, PrivateValue, Origin]]) -> list[str]:
        """`token` for several values by type, value and origin: what is new or renewed of them is enqueued as one.

        Raises what `token` does. Then none of them is known.
        """
        with self._lock:
            now = self._clock()
            new: dict[str, _Entry] = {}
            by_text: dict[tuple[Origin, str], _Entry] = {}
            renewed: dict[str, _Entry] = {}
            tokens = []
            for kind, value, origin in wanted:
                text = value if isinstance(value, str) else str(value)
                entry = self._by_text[origin].get(text) or by_text.get((origin, text))
                if entry is None:
                    entry = by_text[origin, text] = self._make(kind, value, text, origin, new)
                    new[entry.token] = entry
                elif entry.token not in new and now >= entry.renewed_at:
                    renewed[entry.token] = entry
                tokens.append(entry.token)
            if new or renewed:
                # Before anybody else can be given one of them: what comes after it in the storage is not without it.
                self._put([*new.values(), *renewed.values()])
            for entry in new.values():
                self._keep(entry)
            return tokens

    async def room(self) -> None:
        """Wait while many new values are not on disk yet. Raises `StoreError`."""
        await self._storage.room()

    def reveal(
        self,
        value: Any,
        *,
        schema: Mapping[str, Any] | None = None,
        is_inside: bool = True,
        on_text: OnText = lambda _, __: None,
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
                entry = _entry(row.id, row.type, value, origin)
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

    def _make(
        self,
        type: str,  # noqa: A002
        value: PrivateValue,
        text: str,
        origin: Origin,
        new: Mapping[str, "_Entry"],
    ) -> "_Entry":
        """A value's entry beside those that there are and the `new` ones."""
        given: object = value
        if not isinstance(given, str | int | float) or isinstance(given, bool) or not _is_type(type):
            raise ValueError(f"A value of type {type!r} and kind {given.__class__.__name__} cannot have a token.")
        if len(self._by_token) + len(new) >= VALUES_MOST:
            raise LimitReached(
                f"This session has {VALUES_MOST:,} private values, which is its limit. Ask for less, or use another"
                " session."
            )
        attempt = 0
        entry = _entry(self._secrets.make_id(origin, text), type, value, origin)
        while entry.token in self._by_token or entry.token in new:  # another value's: a pair in 280 million million
            attempt += 1
            entry = _entry(self._secrets.make_id(origin, text, attempt), type, value, origin)
        return entry

    def _put(self, entries: list["_Entry"]) -> None:
        """Enqueue values with their whole time before them."""
        expires_at = self._clock() + self._expires_seconds
        scope_id, secrets = self.id, self._secrets

        def seal() -> list[SealedValue]:  # in the storage's thread: it costs as much as all the rest
            return [
                SealedValue(
                    scope_id=scope_id,
                    id=entry.id,
                    type=entry.type,
                    sealed=secrets.seal(scope_id, entry.id, entry.type, entry.value, entry.origin),
                    expires_at=expires_at,
                )
                for entry in entries
            ]

        self._storage.put_values(seal, len(entries), sum(len(str(entry.value)) for entry in entries))
        for entry in entries:
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


_NONE: Mapping[str, "_Entry"] = {}


@lru_cache(maxsize=256)
def _is_type(kind: str) -> bool:
    return _TYPE.fullmatch(kind) is not None


class _Entry(msgspec.Struct, eq=False, gc=False):
    """One value with its token. It refers to nothing that refers back, and there may be a million.

    The collector does not look at it, since each look at all of them would hold the interpreter.
    """

    id: str
    type: str
    value: PrivateValue
    origin: Origin
    token: str
    expires_at: float = 0.0
    renewed_at: float = 0.0


def _entry(value_id: str, kind: str, value: PrivateValue, origin: Origin) -> _Entry:
    return _Entry(value_id, kind, value, origin, spell(kind, value_id))
