"""The saved skills that can be suggested to a principal, made ready beside requests."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence

from sealyard.access.tools import Tools
from sealyard.catalog import Snapshot
from sealyard.catalog.recent import Recent
from sealyard.errors import SealyardError, SkillUnusable, UnknownSkill
from sealyard.learning.skills import JobPrint, SkillIndex, Suggestion, job_print, known_skill, telling_words
from sealyard.skills import SkillLoader
from sealyard.skills.record import combined
from sealyard.store import Store
from sealyard.store.skills import SkillRecord
from sealyard.values import Skill

_log = logging.getLogger(__name__)

_PRINCIPALS = 64  # that asked lately, whose indexes are kept
_AGAIN_SECONDS = 10.0  # between looks at the skills of a principal that asks again and again
_FIRST_SECONDS = 0.25  # that a first search waits for them: most indexes are made in less
_PRINTS = 5_000
_CATALOGS = 8
_FRESH_SECONDS = 60.0
"""What was made of skills since then does not change what is suggested."""

_Key = tuple[str, str, int, int]


class SkillIndexing:
    """Makes indexes, and makes none again while nothing has changed."""

    def __init__(self, store: Store, tools: Tools, loading: SkillLoader) -> None:
        self._store = store
        self._tools = tools
        self._loading = loading
        self._made: Recent[str, tuple[_Key, SkillIndex]] = Recent(_PRINCIPALS)
        self._prints: Recent[str, tuple[JobPrint | None]] = Recent(_PRINTS)
        self._words: Recent[str, Counter[str]] = Recent(_CATALOGS)

    async def index(self, principal: str) -> SkillIndex:
        """The skills that code of `principal` can import now, each in the version that it would get."""
        view = await self._tools.view(principal)
        table = self._store.skills
        minute = int(time.monotonic() / _FRESH_SECONDS)
        key = (view.version, self._tools.catalog.snapshot.version, await table.stamp(), minute)
        made = self._made.find(principal)
        if made is None or made[0] != key:
            skills = await self._importable(principal, view)
            records = combined(await table.uses()) if skills else {}
            made = key, await asyncio.to_thread(self._make, skills, records, principal, view)
            self._made.put(principal, made)
        return made[1]

    async def is_importable(self, suggestion: Suggestion, principal: str) -> bool:
        """Whether what was found in an index is what the principal's code would get at this moment."""
        found = await self._resolve(suggestion.name, principal, await self._tools.view(principal))
        return found is not None and (f"{found.namespace}/{found.name}", found.version) == (
            suggestion.subject,
            suggestion.version,
        )

    async def _importable(self, principal: str, view: Snapshot) -> list[Skill]:
        names = [each.name for each in await self._loading.visible(principal, view) if each.status == "active"]
        found = [await self._resolve(name, principal, view) for name in names]
        return [each for each in found if each is not None]

    async def _resolve(self, name: str, principal: str, view: Snapshot) -> Skill | None:
        """The active version that an import gets; None if it gets none."""
        try:
            skill = (await self._loading.resolve(name, None, principal, view)).skill
        except (SkillUnusable, UnknownSkill):
            return None
        return skill if skill.status == "active" else None

    # In a thread

    def _make(
        self,
        skills: Sequence[Skill],
        records: dict[tuple[str, str], SkillRecord],
        principal: str,
        view: Snapshot,
    ) -> SkillIndex:
        now = time.time()
        known = []
        for skill in skills:
            record = records.get((skill.namespace, skill.name))
            found = known_skill(skill, record, self._print(skill), principal=principal, now=now)
            known += [] if found is None else [found]
        return SkillIndex(known, background=self._background(view) if known else {}, total=len(view.tools))

    def _print(self, skill: Skill) -> JobPrint | None:
        found = self._prints.find(skill.digest)
        if found is None:
            found = (job_print(skill.code),)
            self._prints.put(skill.digest, found)
        return found[0]

    def _background(self, view: Snapshot) -> Counter[str]:
        """How many tools have each word: a word of many tools says little about a skill."""
        found = self._words.find(view.version)
        if found is None:
            found = Counter()
            for spec in view.tools.values():
                found.update(telling_words(f"{spec.name} {spec.description}"))
            self._words.put(view.version, found)
        return found


class KnownSkills:
    """The skills of each principal that asked lately. Who asks gets what is there and waits for no more."""

    def __init__(self, store: Store, tools: Tools, loading: SkillLoader) -> None:
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
