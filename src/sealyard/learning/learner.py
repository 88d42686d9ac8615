"""Learns what the journal says, beside everything else that a gateway does, and answers with what it has learned.

Pages are read and prepared in threads; the event loop takes lessons in for a few milliseconds at a time. Nothing that
goes wrong here reaches a request: there is always a model to ask, if need be an empty one.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from sealyard.errors import StoreError
from sealyard.learning.evidence import put_last
from sealyard.learning.insights import PartInsights, merged
from sealyard.learning.lessons import Lesson, prepare_all
from sealyard.learning.model import PARTS, Model, layout
from sealyard.learning.saving import SLICE_SECONDS, BrokenModels, pack, unpack
from sealyard.store import Store
from sealyard.values import Forgotten

__all__ = ("PARTITIONS", "REBUILD_FACTS", "Learner", "Scope")

Scope = Literal["shared", "principal", "domain"]

PARTITIONS = 64
"""Who learns apart: those that learned last are kept."""
REBUILD_FACTS = 200_000
"""The newest facts, from which everything is learned anew."""

_EVERY_SECONDS = 2.0
_SAVE_SECONDS = 300.0
_PAGE_FACTS = 500

_log = logging.getLogger(__name__)


class _State(msgspec.Struct):
    """What was learned, and from which facts."""

    models: dict[str, Model] = {}
    """By partition; the one that learned last is at the end."""
    number: int = 0
    """The last fact."""

    def model_of(self, partition: str) -> Model:
        """The model of a partition that learns now."""
        return put_last(self.models, partition, self.models.get(partition) or Model(), PARTITIONS)


class Learner:
    """Learns from one store. `half_life` is in seconds; `scope` says who shares what was learned."""

    def __init__(self, store: Store, *, half_life: float, scope: Scope = "shared", rest: float = 0.0) -> None:
        """`rest` is for how many times as long as it prepared a run it leaves the interpreter to others."""
        self._tables = store.learning
        self._half_life = half_life
        self._scope: Scope = scope
        self._rest = rest
        self._form = f"{layout()}-{scope}-{half_life:g}"
        self._busy = asyncio.Lock()
        self._state = _State()
        self._is_current = False
        """Whether the state can be learned on from: it is neither to be loaded nor to be learned anew."""
        self._is_loaded = False
        self._forgotten: tuple[Forgotten, ...] = ()
        self._generation = -1
        """Of what was forgotten: as far as it is known."""
        self._revision = 0
        self._saved_number = 0
        self._saved_at = time.monotonic()
        self.is_ready = False
        """Whether everything has been learned that the journal held at the start, or when something was forgotten."""

    @property
    def models(self) -> Mapping[str, Model]:
        """What was learned, by partition: the principal or the domain, or nothing for what is shared by all."""
        return self._state.models

    @property
    def revision(self) -> int:
        """Another number whenever `model_for` may answer something else."""
        return self._revision

    @property
    def number(self) -> int:
        """The last fact that was learned."""
        return self._state.number

    # What requests ask

    def model_for(self, principal: str, domain: str = "") -> Model:
        """What is to be told to a principal who works on `domain`, if that is known. Never fails; it may be empty."""
        models = self._state.models
        if self._scope == "domain":
            everything = models.get("")
            found = models.get(domain or self._usual_domain(everything, principal, time.time()), everything)
        else:
            found = models.get(principal if self._scope == "principal" else "")
        return Model() if found is None else found

    def insights(self, principal: str | None = None) -> list[PartInsights]:
        """What each part has learned, from all partitions or from that of a principal."""
        now = time.time()
        if principal is not None:
            return self.model_for(principal).insights(now, self._half_life)
        # With domains the first partition knows what all the others know.
        models = [*self._state.models.values()] if self._scope == "principal" else [self._state.models.get("", Model())]
        found = [each for model in models for each in model.insights(now, self._half_life)]
        return [merged(part, [each for each in found if each.part == part]) for part in PARTS]

    # Learning

    async def watch(self) -> None:
        """Learn for as long as the gateway lives. Whatever goes wrong in a round, there is a next one."""
        while True:
            try:
                await self.once()
                if time.monotonic() - self._saved_at > _SAVE_SECONDS:
                    await self.save()
            except StoreError as error:
                _log.error("The journal could not be learned from, and will be: %s", error)
            except Exception:  # noqa: BLE001 - else nothing would be learned until the next start
                _log.exception("Learning from the journal failed, and is tried again.")
            await asyncio.sleep(_EVERY_SECONDS)

    async def once(self) -> int:
        """Learn what is new; how many lessons. Raises `StoreError`."""
        async with self._busy:
            if not self._is_loaded:
                await self._load()
            count = await self._follow(self._state) if self._is_current else None
            return await self._start_anew() if count is None else count

    async def rebuild(self) -> None:
        """Learn everything anew from the newest facts. What is known serves meanwhile. Raises `StoreError`."""
        async with self._busy:
            self._is_loaded = True
            await self._start_anew()
            await self._save()

    async def forget(self, what: Literal["tool", "principal", "all"], subject: str = "") -> Forgotten:
        """Forget a tool, a principal or everything: durably, and here at once. `once` learns the rest anew.

        Raises:
            InvalidRequest: There is no such kind of thing, or no subject.
            StoreError: It could not be written.
        """
        forgotten = await self._tables.forget(what, subject, time.time())
        self._drop([forgotten])
        return forgotten

    async def save(self) -> None:
        """Keep what was learned, so that the next start need not learn it anew. Raises `StoreError`."""
        async with self._busy:
            await self._save()

    async def close(self) -> None:
        """Save, if the store can."""
        try:
            await self.save()
        except StoreError as error:
            _log.error("What was learned could not be saved, and is learned anew at the next start: %s", error)

    async def _start_anew(self) -> int:
        """Learn everything again, without what was forgotten; how many lessons."""
        while True:
            generation, forgotten = await self._tables.forgotten_until()
            if generation != self._generation:
                self._drop([each for each in forgotten if each not in self._forgotten])
                self._generation, self._forgotten = generation, tuple(forgotten)
            fresh = _State(number=max(0, await self._tables.newest() - REBUILD_FACTS))
            if not self._state.models:
                self._state = fresh  # a part of it is better than nothing
            before = self._state
            count = await self._follow(fresh)
            if count is not None and self._state is before:  # nothing was forgotten meanwhile
                self._state, self._saved_number = fresh, 0
                self._revision += 1
                self._is_current = self.is_ready = True
                return count

    async def _follow(self, state: _State) -> int | None:
        """Learn up to the newest fact; how many lessons. None if something was forgotten meanwhile."""
        count = 0
        while True:
            page = await self._tables.events(state.number, _PAGE_FACTS)
            if page.forgotten != self._generation:
                return None
            prepare = functools.partial(prepare_all, page.events, self._forgotten, rest=self._rest)
            lessons = await asyncio.to_thread(prepare) if page.events else []
            await self._take(state, lessons)
            state.number = page.last
            count += len(lessons)
            if page.is_end:
                return count

    async def _take(self, state: _State, lessons: Sequence[Lesson]) -> None:
        until = time.perf_counter() + SLICE_SECONDS
        for lesson in lessons:
            self._revision += 1
            state.number = lesson.number  # whoever is stopped between two of them learns none twice
            for partition in self._partitions(state, lesson):
                state.model_of(partition).learn(lesson, self._half_life)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE_SECONDS

    def _partitions(self, state: _State, lesson: Lesson) -> tuple[str, ...]:
        """Who learns a lesson."""
        if self._scope == "shared":
            return ("",)
        if self._scope == "principal":
            return (lesson.principal,)
        domain = lesson.domain or self._usual_domain(state.models.get(""), lesson.principal, lesson.at)
        return ("", domain) if domain else ("",)

    def _usual_domain(self, model: Model | None, principal: str, now: float) -> str:
        """What a principal mostly works on, empty if that cannot be told."""
        if model is None:
            return ""
        try:
            return model.domains.of(principal, now=now, half_life=self._half_life) or ""
        except Exception:  # noqa: BLE001 - as for every part: what fails in it must not stop the others
            _log.exception("What a principal works on cannot be told.")
            return ""

    def _drop(self, forgotten: Sequence[Forgotten]) -> None:
        """Serve nothing any more that may hold what was forgotten. What is being learned into is nobody's then."""
        kept: dict[str, Model] = {}
        if self._scope == "principal" and all(each.what == "principal" for each in forgotten):
            gone = {each.subject for each in forgotten}
            kept = {name: model for name, model in self._state.models.items() if name not in gone}
        self._state = _State(models=kept)
        self._revision += 1
        self._is_current = self.is_ready = False

    # What is kept for the next start

    async def _load(self) -> None:
        """Take what was saved, if it can be used."""
        before = self._state
        generation, forgotten = await self._tables.forgotten_until()
        newest = await self._tables.newest()
        saved = await self._tables.load(self._form)
        self._is_loaded = True
        if saved is None or saved.forgotten != generation or newest - saved.number > REBUILD_FACTS:
            return
        try:
            models = await asyncio.to_thread(unpack, saved.model)
        except BrokenModels as error:
            _log.warning("What was learned is learned anew. %s", error)
            return
        if self._state is not before:  # something was forgotten meanwhile
            return
        self._state = _State(models=models, number=saved.number)
        self._revision += 1
        self._generation, self._forgotten = generation, tuple(forgotten)
        self._saved_number = saved.number
        self._is_current = self.is_ready = True

    async def _save(self) -> None:
        state = self._state
        self._saved_at = time.monotonic()
        if not self._is_current or state.number == self._saved_number:
            return
        content = await pack(state.models)  # they do not change: who learns holds the lock
        # Refused there if something was forgotten meanwhile.
        self._tables.save(self._form, state.number, self._generation, content)
        self._saved_number = state.number
