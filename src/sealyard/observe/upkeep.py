"""Background work of a gateway: adds facts up, notices changes of upstreams, and removes old rows."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from sealyard.broker.upstreams import ToolServer
from sealyard.config.settings import MetricsConfig
from sealyard.errors import StoreError
from sealyard.store import Store
from sealyard.values.facts import Fact, UpstreamEvent
from sealyard.values.tools import Circuit, UpstreamStatus

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0  # between two rounds
_IDLE_SHARE = 4
"""Seconds of rest after each second of adding up."""
_HOUR_SECONDS = 3_600.0
"""Between two searches for lost executions, and two removals of old rows."""
_DAY = 86_400.0  # seconds
_LONGEST_SECONDS = 2 * _DAY
"""An execution that ends within the hour began no earlier: background runs end within a day."""


class Upkeep:
    """The loop of one gateway. `circuits` returns the state of the circuit breakers, `record` takes facts."""

    def __init__(
        self,
        store: Store,
        settings: MetricsConfig,
        *,
        record: Callable[[Fact], None],
        upstreams: Mapping[str, ToolServer] = MappingProxyType({}),
        circuits: Callable[[], list[Circuit]] = list,
        upstream_of: Callable[[str], str | None] = lambda tool: None,
        follow: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`follow` has the stubs follow the learned shapes. A proxy has neither upstreams of its own nor stubs."""
        self._store = store
        self._upstreams = upstreams
        self._settings = settings
        self._circuits = circuits
        self._upstream_of = upstream_of
        self._record = record
        self._follow = follow
        self._seen: dict[str, UpstreamStatus] = {}
        self._open: frozenset[str] = frozenset()
        self._pruned_at = 0.0

    async def run(self) -> None:
        """Run rounds until cancelled. A round that fails is logged, and the next one comes."""
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.once()
            except StoreError as error:
                _log.error("Metrics could not be added up, and will be: %s", error)
            except Exception:  # noqa: BLE001 - else nothing would be added up or removed until the next start
                _log.exception("The upkeep of the gateway failed, and is tried again.")

    async def once(self) -> None:
        """One round."""
        self._note_upstreams()
        if self._follow is not None:
            await self._follow()
        started = time.perf_counter()
        while await self._store.metrics.fold():
            # There may be a million rows after an upgrade: most of the processor is left to those who work.
            await asyncio.sleep(_IDLE_SHARE * (time.perf_counter() - started))
            started = time.perf_counter()
        now = time.time()
        if now - self._pruned_at > _HOUR_SECONDS:
            before, hours_before = now - self._settings.keep_days * _DAY, now - self._settings.keep_hours_days * _DAY
            # Of executions that other gateways lost. If it fails, the next round tries again.
            await self._store.metrics.derive(self._pruned_at - _LONGEST_SECONDS)
            self._pruned_at = now
            await self._store.metrics.prune(before, hours_before)
            await self._store.skills.prune(before)
            await self._store.chats.prune(before)

    def open_circuits(self) -> frozenset[str]:
        """The upstreams with a tool that is not called any more, because its calls fail."""
        tools = [circuit.tool for circuit in self._circuits() if circuit.state != "closed"]
        return frozenset(name for tool in tools if (name := self._upstream_of(tool)) is not None)

    def _note_upstreams(self) -> None:
        for name, upstream in self._upstreams.items():
            status = upstream.status()
            before = self._seen.get(name)
            self._seen[name] = status
            for _ in range(status.restarts - (before.restarts if before else 0)):
                self._record_event(name, "restarted")
            state = before.state if before else "stopped"
            if status.state == state:
                continue
            if status.state in ("failed", "backing_off") and state not in ("failed", "backing_off"):
                self._record_event(name, "failed")
            elif status.state == "ready":
                self._record_event(name, "started")
            elif status.state == "stopped":
                self._record_event(name, "stopped")
        is_open = self.open_circuits()
        for name in sorted(is_open - self._open):
            self._record_event(name, "circuit_opened")
        for name in sorted(self._open - is_open):
            self._record_event(name, "circuit_closed")
        self._open = is_open

    def _record_event(self, upstream: str, event: str) -> None:
        self._record(UpstreamEvent(at=time.time(), upstream=upstream, event=event))  # type: ignore[arg-type]
