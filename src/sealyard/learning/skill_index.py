"""The skills that a principal can import, made ready to be suggested. It takes its time: make it beside requests."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from sealyard.access.tools import Tools
from sealyard.catalog import Snapshot
from sealyard.catalog.recent import Recent
from sealyard.errors import SkillUnusable, UnknownSkill
from sealyard.learning.skills import JobPrint, SkillIndex, Suggestion, job_print, known_skill, telling_words
from sealyard.skills.loader import SkillLoading
from sealyard.skills.record import combined
from sealyard.store import Store
from sealyard.store.skills import SkillRecord
from sealyard.values import Skill

__all__ = ("SkillIndexing",)

_PRINCIPALS = 64
_PRINTS = 5_000
_CATALOGS = 8
_FRESH_SECONDS = 60.0
"""What was made of skills since then does not change what is suggested."""

_Key = tuple[str, str, int, int]


class SkillIndexing:
    """Makes indexes, and makes none again while nothing has changed."""

    def __init__(self, store: Store, tools: Tools, loading: SkillLoading) -> None:
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
