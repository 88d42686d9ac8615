"""Which saved skills a principal can be told of, made ready beside the event loop."""

import asyncio
import logging
import time
from collections import OrderedDict

from sealyard.access.tools import Tools
from sealyard.errors import SealyardError
from sealyard.learning.skill_index import SkillIndexing
from sealyard.learning.skills import SkillIndex, Suggestion
from sealyard.skills.loader import SkillLoading
from sealyard.store import Store

__all__ = ("KnownSkills",)

_log = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0
_FIRST_SECONDS = 0.25
_PRINCIPALS = 64


class KnownSkills:
    """The skills of each principal that asked lately. Who asks gets what is there and waits for no more."""

    def __init__(self, store: Store, tools: Tools, loading: SkillLoading) -> None:
        self._indexing = SkillIndexing(store, tools, loading)
        self._ready: OrderedDict[str, SkillIndex] = OrderedDict()
        self._looked_at: dict[str, float] = {}
        self._making: dict[str, asyncio.Task[None]] = {}

    def of(self, principal: str) -> SkillIndex | None:
        """What is known of a principal's skills; None before the first look. It is looked at anew in the background."""
        now = time.monotonic()
        if principal not in self._making and now - self._looked_at.get(principal, -_AGAIN_SECONDS) >= _AGAIN_SECONDS:
            self._looked_at[principal] = now
            task = asyncio.create_task(self._make(principal))
            self._making[principal] = task
            task.add_done_callback(lambda _: self._making.pop(principal, None))
        return self._ready.get(principal)

    async def first_look(self, principal: str) -> None:
        """Wait for the first look at a principal's skills, once and not for long: many an agent searches only once."""
        if principal not in self._looked_at:
            self.of(principal)
            await asyncio.wait({self._making[principal]}, timeout=_FIRST_SECONDS)

    async def settled(self) -> None:
        """Wait until nothing is being made."""
        await asyncio.gather(*self._making.values())

    async def close(self) -> None:
        """Stop."""
        tasks = list(self._making.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def is_importable(self, suggestion: Suggestion, principal: str) -> bool:
        """Whether code of the principal would get this skill now. Raises nothing: what cannot be told is none."""
        try:
            return await self._indexing.is_importable(suggestion, principal)
        except SealyardError as error:
            _log.error("A skill is not suggested: %s", error)
        except Exception:  # noqa: BLE001 - as below
            _log.exception("A skill is not suggested.")
        return False

    async def _make(self, principal: str) -> None:
        try:
            made = await self._indexing.index(principal)
        except SealyardError as error:
            _log.error("Skills cannot be suggested now: %s", error)
            return
        except Exception:  # noqa: BLE001 - a suggestion is not worth a failed run
            _log.exception("Skills cannot be suggested now.")
            return
        self._ready[principal] = made
        self._ready.move_to_end(principal)
        while len(self._ready) > _PRINCIPALS:
            gone, _ = self._ready.popitem(last=False)
            self._looked_at.pop(gone, None)
