"""The vault: the private value that each token stands for, by scope, sealed at rest, until it expires or is erased.

A scope's token means nothing in another scope. Several processes may share one storage: each sees what the others
added, erased and sealed anew when it asks for the scope again.
"""

import asyncio
import re
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from sealyard.errors import VaultError
from sealyard.privacy.span import TOKEN
from sealyard.privacy.vault.keys import Keys
from sealyard.privacy.vault.scope import Scope, tokens_in
from sealyard.privacy.vault.seal import (
    PrivateValue,
    ScopeSecrets,
    SealedScope,
    SealedValue,
    VaultStorage,
    make_scope,
    open_scope,
    seal_scope,
    spell,
)

_T = TypeVar("_T")

_USED_SECONDS = 3600.0
"""The precision of the time when a scope was used last."""
_UNUSED_SECONDS = 86_400.0
"""The least time for which an empty scope is kept: its user may be about to fill it."""
_ROWS_AT_ONCE = 500
"""More are opened in a thread."""


class RevealedValue(msgspec.Struct, frozen=True, kw_only=True):
    """A token and its value, for an operator. Its `repr` does not show the value."""

    token: str
    scope: str
    type: str
    value: PrivateValue
    expires_at: float

    def __repr__(self) -> str:
        return f"RevealedValue({self.token} in {self.scope!r})"


class Vault:
    """All scopes of one storage. Its methods are for one event loop."""

    def __init__(
        self,
        keys: Keys,
        storage: VaultStorage,
        *,
        expires_seconds: float,
        reload_keys: Callable[[], Keys] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Use these keys; `reload_keys` gives them anew when another process rotated them, if it can."""
        self._keys = keys
        self._storage = storage
        self._expires_seconds = expires_seconds
        self._reload_keys = reload_keys
        self._clock = clock
        self._alive: WeakValueDictionary[str, Scope] = WeakValueDictionary()
        """A scope lives as long as somebody uses it, such as the guard of a session."""
        self._stamps: WeakKeyDictionary[Scope, int] = WeakKeyDictionary()
        """The state of the storage when each was read."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def scope(self, name: str) -> Scope:
        """The scope of that name, created if missing, in its stored state: one short query once it is loaded.

        Raises:
            VaultError: It is sealed with a key that is not here, or its rows were changed.
            StoreError: The storage cannot be read or written.
        """
        async with self._lock(name):
            scope = self._alive.get(name)
            if scope is None:
                await self._storage.flush()  # it may have been dropped from memory a moment ago
                await self._expire_stored()
            row = await self._storage.find_scope(name) or await self._make(name)
            if scope is None:
                secrets = await self._open(row)
                scope = Scope(row, secrets, self._storage, expires_seconds=self._expires_seconds, clock=self._clock)
            await self._update(scope, row)
            self._alive[name] = scope
            return scope

    async def lately(self, name: str) -> Scope:
        """The same without a query, if it is loaded and nothing was erased since. Others' new values may be missing."""
        stamp, scope = self._storage.stamp(), self._alive.get(name)
        if scope is None or self._stamps.get(scope) != stamp:
            scope = await self.scope(name)
            self._stamps[scope] = stamp
        return scope

    tokens_in = staticmethod(tokens_in)

    async def find(self, token: str) -> list[RevealedValue]:
        """The values of a token in all scopes, for an operator. The caller records that in the audit log first.

        Raises:
            VaultError: Its scope is sealed with a key that is not here, or its row was changed.
        """
        match = TOKEN.fullmatch(token)
        if match is None:
            return []
        await self._storage.flush()
        found = []
        for row, sealed in await self._storage.find_values(match[2].lower(), match[1].lower(), now=self._clock()):
            value, _ = (await self._open(row)).open(sealed)
            found.append(
                RevealedValue(
                    token=spell(sealed.type, sealed.id),
                    scope=row.name,
                    type=sealed.type,
                    value=value,
                    expires_at=sealed.expires_at,
                )
            )
        return found

    async def match(self, values_or_tokens: Iterable[str], *, scope: str | None = None) -> dict[str, int]:
        """The number of values that `forget` would erase, by scope. Raises what it raises."""
        wanted = await self._resolve(values_or_tokens, scope)
        matches = {row.name: len(await self._match(row, wanted)) for row in await self._rows(scope)}
        return {name: count for name, count in matches.items() if count}

    async def forget(self, values_or_tokens: Iterable[str], *, scope: str | None = None) -> int:
        """Erase values for good, in one scope or in all; return their number. Their tokens are refused from then on.

        A value is found whatever its case and blanks, and as whole words within longer values. A token stands for its
        value: that is erased in the other scopes too. If the value comes again it gets a token that cannot be tied to
        the old one.

        Raises:
            VaultError: A scope is sealed with a key that is not here, or a row was changed and is not named itself.
            StoreError: It could not be erased, or copies of the rows could not be removed from the disk.
        """
        wanted = await self._resolve(values_or_tokens, scope)
        count = 0
        for row in await self._rows(scope):
            count += await self._erase(row, wanted)
        for name, scope_in_memory in list(self._alive.items()):
            async with self._lock(name):
                if (found := await self._storage.find_scope(name)) is not None:
                    await self._update(scope_in_memory, found)
        await self._storage.scrub()
        return count

    async def expire(self) -> int:
        """Delete expired values; return their number."""
        for scope in list(self._alive.values()):
            scope.prune()
        return await self._expire_stored()

    async def rotate(self, keys: Keys) -> int:
        """Seal all scopes with the current key of `keys`, all at once or none; return the number resealed.

        Raises:
            VaultError: A scope's key is neither among `keys` nor here, or its row was changed. Nothing is changed then.
        """
        known = {each: key for source in (self._keys, keys) for each in source.ids if (key := source.find(each))}
        merged = Keys(keys.current_id, known, source=keys.source)

        def reseal(row: SealedScope) -> SealedScope | VaultError:
            try:
                return seal_scope(row, open_scope(row, merged), key_id=merged.current_id, keys=merged)
            except VaultError as error:  # it runs in the storage's thread, which must not break
                return error

        count = await self._storage.reseal(reseal, key_id=merged.current_id)
        if isinstance(count, VaultError):
            raise count
        self._keys = merged
        await self._storage.scrub()
        return count

    # Scopes

    async def _expire_stored(self) -> int:
        now = self._clock()
        unused = now - max(self._expires_seconds, _UNUSED_SECONDS)
        return await self._storage.expire(now=now, unused_since=unused)

    async def _make(self, name: str) -> SealedScope:
        while True:
            # All scopes are sealed with one key: one that another process rotated to counts, not the current one here.
            key_id = await self._storage.key_in_use() or self._keys.current_id
            await self._fetch_key(key_id)
            row = make_scope(name, key_id=key_id, keys=self._keys, now=self._clock())
            if await self._storage.add_scope(row):
                return row
            if found := await self._storage.find_scope(name):
                return found

    async def _open(self, row: SealedScope) -> ScopeSecrets:
        await self._fetch_key(row.key_id)
        return open_scope(row, self._keys)

    async def _fetch_key(self, key_id: str) -> None:
        if self._keys.find(key_id) is None and self._reload_keys is not None:
            self._keys = await asyncio.to_thread(self._reload_keys)

    async def _update(self, scope: Scope, row: SealedScope) -> None:
        """Bring a scope in memory to what the storage has."""
        now = self._clock()
        if now - row.used_at > _USED_SECONDS:
            self._storage.touch_scope(row.id, now)
        if row.id != scope.id:
            scope.restart(row, await self._open(row))
        elif row.erasures != scope.erasures:
            secrets = await self._open(row)
            scope.erase(await self._storage.erased_ids(row.id), erasures=row.erasures, secrets=secrets)
        if row.last_number > scope.last_number:
            rows = await self._storage.read_values(row.id, after=scope.last_number, now=now)
            scope.learn(await _in_thread(scope.open, rows))
            scope.last_number = row.last_number

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    # Erasure

    async def _rows(self, scope: str | None) -> list[SealedScope]:
        await self._storage.flush()
        return [row for row in await self._storage.scopes() if scope in (None, row.name)]

    async def _resolve(self, values_or_tokens: Iterable[str], scope: str | None) -> "_Wanted":
        texts: set[str] = set()
        tokens: set[tuple[str, str]] = set()
        for each in values_or_tokens:
            match = TOKEN.fullmatch(each)
            if match is None:
                texts.add(each)
                continue
            kind, value_id = match[1].lower(), match[2].lower()
            tokens.add((kind, value_id))
            for row, sealed in await self._storage.find_values(value_id, kind, now=0.0):
                if scope in (None, row.name):
                    try:
                        texts.add(str((await self._open(row)).open(sealed)[0]))
                    except VaultError:
                        continue  # a row that was changed has no value to look for; it is erased by its token
        return _Wanted(texts, tokens)

    async def _match(self, row: SealedScope, wanted: "_Wanted") -> set[str]:
        """The ids of the values in a scope that are wanted."""
        secrets = await self._open(row)
        rows = await self._storage.read_values(row.id, after=0, now=0.0)
        return await _in_thread(lambda each: {value.id for value in each if wanted.has(value, secrets)}, rows)

    async def _erase(self, row: SealedScope | None, wanted: "_Wanted") -> int:
        while row is not None and (ids := await self._match(row, wanted)):
            secrets = (await self._open(row)).with_new_ids()
            sealed = seal_scope(row, secrets, key_id=row.key_id, keys=self._keys).sealed
            count = await self._storage.erase_values(row, sorted(ids), sealed)
            if count is not None:
                return count
            row = await self._storage.find_scope(row.name)  # somebody erased or rotated at the same time
        return 0


class _Wanted:
    """The values to erase."""

    def __init__(self, texts: Collection[str], tokens: Collection[tuple[str, str]]) -> None:
        self._tokens = tokens
        folded = sorted({_fold(each) for each in texts} - {""}, key=len, reverse=True)
        choices = "|".join(map(re.escape, folded))
        # Whole words, and not a part of another address or number: `ana@example.com` is not in `ana@example.com.au`.
        whole = rf"(?<!\w)(?<!\w[.@+-])(?:{choices})(?!\w)(?![.@+-]\w)"
        self._pattern = re.compile(whole) if folded else None

    def has(self, row: SealedValue, secrets: ScopeSecrets) -> bool:
        if (row.type, row.id) in self._tokens:
            return True
        return self._pattern is not None and self._pattern.search(_fold(str(secrets.open(row)[0]))) is not None


def _fold(text: str) -> str:
    """The text without what spellings of it differ in: case, blanks and how characters are composed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


async def _in_thread(work: Callable[[list[SealedValue]], _T], rows: list[SealedValue]) -> _T:
    """The result of `work` on rows; many of them run in a thread, off the event loop."""
    return await asyncio.to_thread(work, rows) if len(rows) > _ROWS_AT_ONCE else work(rows)
