"""What tools are seen to answer, for those that do not declare it, and the versions that follow when that changes.

The request path hands over answers and goes on; what they look like is worked out in a thread, from a sample. Only
types and the names of fields are kept, never a value.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from sealyard.catalog.catalog import Catalog
from sealyard.catalog.watch import Drift, Watch, outline
from sealyard.errors import StoreError
from sealyard.store import Store
from sealyard.store.shapes import SeenShape
from sealyard.values import ToolSpec
from sealyard.versioning.compare import Comparison, Version, compare, highest

_log = logging.getLogger(__name__)

_FIRST = 20
_ONE_IN = 20
_WAITING = 64
_WATCHES = 512
_COUNTED = 10_000
_WRITTEN_AFTER = 10

_Key = tuple[str, str, int]
"""Upstream, its name for the tool, and the major version."""
_Seen = tuple[Any, str | None]
"""The outline of an answer, and the execution that it was for."""


class Observed:
    """Watches the answers of the tools of a catalog."""

    def __init__(self, catalog: Catalog, store: Store | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._counts: dict[tuple[str, str], int] = {}
        """Answers of each tool, by its full name and definition; the one counted last at the end."""
        self._odd: set[_Key] = set()
        self._waiting: list[tuple[ToolSpec, _Seen]] = []
        self._watches: OrderedDict[_Key, Watch] = OrderedDict()
        """The one used last at the end."""
        self._unwritten: dict[_Key, int] = {}
        self._working: asyncio.Task[None] | None = None

    def note(self, spec: ToolSpec, answer: Any, *, execution_id: str | None = None) -> None:
        """Look at what a tool answered to a call that went well: later, and only now and then.

        The first answers to a definition count, then one in twenty, and each one while they are odd. It never waits,
        keeps nothing of the answer but its outline, and takes in no more than can be worked through. What is odd in
        one execution only is not taken for a change; without the ids nobody can tell.
        """
        if spec.output_schema is not None or len(self._waiting) >= _WAITING:
            return
        key = (spec.full_name, spec.digest)
        count = self._counts.pop(key, 0)
        self._counts[key] = count + 1
        if len(self._counts) > _COUNTED:
            del self._counts[next(iter(self._counts))]
        if count >= _FIRST and count % _ONE_IN and not (self._odd and _key(spec) in self._odd):
            return
        self._waiting.append((spec, (outline(answer), execution_id)))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    def shape_of(self, spec: ToolSpec) -> dict[str, Any] | None:
        """The schema of what a tool was seen to answer at its major version; None if that is not known here."""
        watch = self._watches.get(_key(spec))
        return watch.schema if watch is not None and watch.schema else None

    async def find_shape(self, spec: ToolSpec) -> dict[str, Any] | None:
        """As `shape_of`, for tools that nobody has called since the gateway started, and for earlier versions too."""
        if self._store is None or _key(spec) in self._watches:
            return self.shape_of(spec)
        seen = await self._store.shapes.find(*_key(spec))
        return None if seen is None else seen.schema

    async def load(self) -> None:
        """Take over what the store knows of the tools that there are."""
        if self._store is None:
            return
        current = {_key(spec) for spec in self._catalog.snapshot.tools.values()}
        for seen in reversed(await self._store.shapes.newest(_WATCHES)):
            key = (seen.upstream, seen.name, seen.major)
            if key in current:
                self._watches[key] = Watch.read(seen.state)

    async def settled(self) -> None:
        """Wait until everything that was noted has been looked at."""
        while self._working is not None and not self._working.done():
            await asyncio.shield(self._working)

    async def close(self) -> None:
        """Look at what waits, and hand the store what it does not have yet."""
        await self.settled()
        for key in list(self._unwritten):
            self._write(key)

    # In the background

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            noted: dict[str, tuple[ToolSpec, list[_Seen]]] = {}
            for spec, seen in batch:
                current = self._catalog.snapshot.tools.get(spec.full_name)
                # A call that began before its tool was defined anew says nothing about either definition.
                if current is not None and current.digest == spec.digest:
                    noted.setdefault(current.full_name, (current, []))[1].append(seen)
            for spec, answers in noted.values():
                try:
                    await self._add(spec, answers)
                except StoreError as error:
                    _log.error("The answers of %s could not be looked at: %s", spec.full_name, error)

    async def _add(self, spec: ToolSpec, answers: list[_Seen]) -> None:
        key = _key(spec)
        watch = await self._watch(key)
        drift = await asyncio.to_thread(_count, watch, answers, self._clock)
        self._unwritten[key] = self._unwritten.get(key, 0) + len(answers)
        (self._odd.add if watch.is_odd else self._odd.discard)(key)
        if self._unwritten[key] >= _WRITTEN_AFTER:
            self._write(key)
        if drift is None:
            return
        comparison = await asyncio.to_thread(_compare, spec, drift)
        new = await self._catalog.observe(spec, comparison)
        if new is not None:
            _log.warning("The answers of %s changed, and its definition did not: it is %s now.", *_named(new))
            self._write(key)
            self._odd.discard(key)
            self._watches[_key(new)] = drift.watch
            self._write(_key(new))

    async def _watch(self, key: _Key) -> Watch:
        watch = self._watches.get(key)
        if watch is None:
            seen = await self._store.shapes.find(*key) if self._store is not None else None
            watch = self._watches[key] = Watch() if seen is None else Watch.read(seen.state)
        self._watches.move_to_end(key)
        while len(self._watches) > _WATCHES:
            oldest = next(iter(self._watches))
            self._write(oldest)
            del self._watches[oldest]
            self._odd.discard(oldest)
        return watch

    def _write(self, key: _Key) -> None:
        self._unwritten.pop(key, None)
        if self._store is not None:
            watch = self._watches[key]
            upstream, name, major = key
            self._store.shapes.put(
                SeenShape(
                    upstream=upstream,
                    name=name,
                    major=major,
                    schema=watch.schema,
                    state=watch.write(),
                    answers=watch.answers,
                    seen_at=self._clock(),
                )
            )


def _key(spec: ToolSpec) -> _Key:
    return spec.upstream, spec.name, Version.parse(spec.version).major


def _named(spec: ToolSpec) -> tuple[str, str]:
    return spec.full_name, spec.version


# In a thread


def _count(watch: Watch, answers: list[_Seen], clock: Callable[[], float]) -> Drift | None:
    for answer, execution_id in answers:
        watch.add(answer, execution_id)
        drift = watch.drift(clock())
        if drift is not None:
            return drift
    return None


def _compare(spec: ToolSpec, drift: Drift) -> Comparison:
    """What the change is to code that reads the answers."""
    comparison = compare(spec, spec, output_before=drift.before, output_after=drift.after)
    return msgspec.structs.replace(comparison, bump=highest([comparison.bump, "major"]))
