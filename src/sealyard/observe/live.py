"""Live events of runs for watchers: a run begins, calls a tool, prints, waits for a person, ends.

Everything here is concealed before it comes in. The last events are kept, so that a watcher who lost its connection
resumes where it stopped; a watcher that is too slow misses some and gets a notice. No run waits for a watcher.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from sealyard.values.runs import LiveEvent, LiveKind

_EVENTS_KEPT = 2_000  # for watchers that come back
_QUEUED = 500  # events for one slow watcher; it misses the rest
_TEXT_CHARACTERS = 4_096
"""Of one event. Longer output is several."""
_ENDED = "ended"


class LiveRun(msgspec.Struct, kw_only=True):
    """The present state of a run that is not over."""

    execution_id: str
    principal: str
    form: str
    session: str
    started_at: float
    background: bool
    calls: int = 0
    output_characters: int = 0
    asks: int = 0
    """The number of its calls that wait for a person."""
    queued: bool = False
    """True while it waits for its turn to run."""


class Watched:
    """One run as the watchers see it, from `Live.begin` to `end`."""

    def __init__(self, live: "Live", run: LiveRun, on_watcher: Callable[[], None]) -> None:
        self._live = live
        self.run = run
        self.on_watcher = on_watcher
        """Called when a watcher arrives: output held back until then can go out."""

    def output(self, text: str) -> None:
        """Emit output of the run. `text` is concealed."""
        self.run.output_characters += len(text)
        for start in range(0, len(text), _TEXT_CHARACTERS):
            self.emit("output", {"text": text[start : start + _TEXT_CHARACTERS]})

    def emit(self, kind: LiveKind, body: dict[str, Any]) -> None:
        """Emit an event of the run."""
        self._live.emit(kind, self.run.execution_id, self.run.principal, body)

    def end(self, body: dict[str, Any]) -> None:
        """Emit the end of the run, and forget it."""
        self._live.forget(self.run.execution_id)
        self.emit("ended", body)


class Live:
    """The events of one gateway, for the event loop it runs on."""

    def __init__(self) -> None:
        self._number = 0
        self._events: deque[LiveEvent] = deque(maxlen=_EVENTS_KEPT)
        self._runs: dict[str, Watched] = {}
        self._watchers: set[_Watcher] = set()

    def begin(
        self, run: LiveRun, *, code_characters: int = 0, on_watcher: Callable[[], None] = lambda: None
    ) -> Watched:
        """Watch a run from its beginning."""
        watched = self._runs[run.execution_id] = Watched(self, run, on_watcher)
        body = {
            "form": run.form,
            "session": run.session,
            "background": run.background,
            "code_characters": code_characters,
        }
        watched.emit("started", body)
        return watched

    def find(self, execution_id: str) -> Watched | None:
        """The run, if it is not over."""
        return self._runs.get(execution_id)

    def is_watched(self, execution_id: str, principal: str) -> bool:
        """True if a watcher would see this run's output."""
        return any(watcher.wants(execution_id, principal) for watcher in self._watchers)

    def running(self, *, principal: str | None = None) -> list[LiveRun]:
        """The runs that are not over, the oldest first."""
        runs = [watched.run for watched in self._runs.values()]
        return [run for run in runs if principal is None or run.principal == principal]

    def emit(self, kind: LiveKind, execution_id: str, principal: str, body: dict[str, Any]) -> None:
        """Send an event to the watchers, and keep it for those that come back."""
        self._number += 1
        event = LiveEvent(
            number=self._number, at=time.time(), kind=kind, execution_id=execution_id, principal=principal, body=body
        )
        self._events.append(event)
        for watcher in self._watchers:
            watcher.offer(event)

    def forget(self, execution_id: str) -> None:
        """Remove a run that is over."""
        self._runs.pop(execution_id, None)

    @contextlib.asynccontextmanager
    async def follow(
        self, *, execution_id: str | None = None, principal: str | None = None, after: int | None = None
    ) -> AsyncIterator[AsyncIterator[LiveEvent]]:
        """Events from now on, or those after number `after` that are still kept: of all, of a run or of a principal.

        The stream of one run ends with the run. Without `after`, a current run is replayed from its beginning, as far
        as that is kept.
        """
        watcher = _Watcher(execution_id, principal)
        with self._watching(watcher, after if execution_id is None else after or 0):
            yield watcher.events()

    @contextlib.contextmanager
    def _watching(self, watcher: "_Watcher", after: int | None) -> Iterator[None]:
        if after is not None:
            oldest = self._events[0].number if self._events else self._number + 1
            if 0 < after < oldest - 1:
                watcher.lag()
            for event in self._events:
                if event.number > after:
                    watcher.offer(event)
        self._watchers.add(watcher)
        for watched in list(self._runs.values()):
            if watcher.wants(watched.run.execution_id, watched.run.principal):
                watched.on_watcher()
        try:
            yield
        finally:
            self._watchers.discard(watcher)


class _Watcher:
    """The bounded queue of one watcher."""

    def __init__(self, execution_id: str | None, principal: str | None) -> None:
        self._execution_id = execution_id
        self._principal = principal
        self._queue: deque[LiveEvent] = deque()
        self._is_lagging = False
        self._more = asyncio.Event()

    def wants(self, execution_id: str, principal: str) -> bool:
        """True if it watches this run."""
        return self._execution_id in (None, execution_id) and self._principal in (None, principal)

    def offer(self, event: LiveEvent) -> None:
        """Queue an event of a watched run, if there is room. There always is for the end of the only watched run."""
        if not self.wants(event.execution_id, event.principal):
            return
        if len(self._queue) >= _QUEUED and not (self._execution_id is not None and event.kind == _ENDED):
            self.lag()
            return
        if self._is_lagging:
            self._is_lagging = False
            self._queue.append(LiveEvent(number=event.number - 1, at=event.at, kind="lagged"))
        self._queue.append(event)
        self._more.set()

    def lag(self) -> None:
        """Note that events are missing before the next one."""
        self._is_lagging = True

    async def events(self) -> AsyncIterator[LiveEvent]:
        """The queued events, and later ones as they come."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._queue:
                event = self._queue.popleft()
                yield event
                if self._execution_id is not None and event.kind == _ENDED:
                    return
