"""A guard for each session, over the one vault."""

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from functools import partial
from typing import Literal

from sealyard.errors import StoreError
from sealyard.offload import Offload
from sealyard.privacy import Guard, Privacy
from sealyard.privacy.vault import RevealedValue, Scope, Vault

_log = logging.getLogger(__name__)

_EXPIRE_SECONDS = 3600.0  # between two removals of expired values
_KEPT = 256
"""Guards whose record of seen values is kept; the vault keeps the tokens of all."""


class Guards:
    """Makes guards. A returning session gets its former guard, which knows the values it has seen."""

    def __init__(
        self,
        privacy: Privacy,
        vault: Vault | None,
        *,
        scope: Literal["session", "gateway"],
        secret: bytes,
        offload: Offload | None = None,
    ) -> None:
        """`offload` scans large data in helper processes; without it, threads do."""
        self._privacy = privacy
        self._vault = vault
        self._scope = scope
        self._secret = secret
        self.offload = offload
        self._known: OrderedDict[str, tuple[tuple[str, int], Guard]] = OrderedDict()

    async def of(self, session: str) -> Guard:
        """The guard of the session `principal:name`.

        Raises:
            VaultError: Its values in the vault cannot be opened.
            StoreError: The store cannot be read.
        """
        if self._vault is None:
            return Guard(self._privacy, None)
        name = session if self._scope == "session" else "gateway"
        scope = await self._vault.lately(name)
        state = (scope.id, scope.erasures)
        known = self._known.get(name)
        if known is None or known[0] != state or known[1].scope is not scope:
            # New, or a value was erased: then the guard's copy of it must go too.
            if known is not None and self.offload is not None:
                self.offload.retire()
            known = self._known[name] = (state, self._make(name, session, scope))
        self._known.move_to_end(name)
        guard = known[1]
        if len(self._known) > _KEPT:  # drop guards without seen values first: a client can create any number of them
            idle = (each for each, (_, other) in self._known.items() if other is not guard and not other.is_remembering)
            del self._known[next(idle, next(iter(self._known)))]
        # The one guard of the gateway works for each principal in turn.
        return guard if self._scope == "session" else guard.for_principal(session.partition(":")[0])

    def _make(self, name: str, session: str, scope: Scope) -> Guard:
        assert self._vault is not None
        return Guard(
            self._privacy,
            scope,
            refresh=partial(self._vault.scope, name),
            offload=self.offload,
            principal=session.partition(":")[0],
        )

    async def expire(self) -> None:
        """Delete expired values every hour, forever. A failed deletion is retried the next hour."""
        while self._vault is not None:
            await asyncio.sleep(_EXPIRE_SECONDS)
            try:
                await self._vault.expire()
            except StoreError as error:
                _log.warning("Private values that have expired are not deleted yet: %s", error)

    async def find(self, token: str) -> list[RevealedValue]:
        """The values behind a token, in every scope that has it."""
        return [] if self._vault is None else await self._vault.find(token)

    def digest(self, data: bytes) -> str:
        """A keyed digest: equal for equal data, and it reveals nothing else about the data."""
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()
