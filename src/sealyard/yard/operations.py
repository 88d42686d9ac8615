"""The operator's view of a gateway: readiness, reports over any time, current figures, alerts."""

import asyncio
import time
from dataclasses import dataclass

from sealyard import __version__
from sealyard.access import Runner, Tools
from sealyard.broker import Approvals
from sealyard.errors import StoreError
from sealyard.learning import Guidance
from sealyard.metrics import Gauge, Point, Prices, Report, tokens
from sealyard.metrics.sums import Sums
from sealyard.observe import Live, Upkeep
from sealyard.observe.health import Alerting, Readiness
from sealyard.store import Store

_ANSWER_SECONDS = 5.0
"""For the store to answer a scrape: half of the default timeout of Prometheus."""
_DOWN = ("failed", "backing_off")
_LEARNED_SECONDS = 60.0
"""Between two counts of learned things, each of which takes the event loop some milliseconds."""


@dataclass(kw_only=True, eq=False)
class Figures:
    """The figures of one gateway and its store."""

    prices: Prices
    store: Store
    tools: Tools
    runner: Runner
    approvals: Approvals
    live: Live
    guidance: Guidance
    readiness: Readiness
    upkeep: Upkeep

    def __post_init__(self) -> None:
        self._learned: list[Gauge] = []
        self._learned_at = -_LEARNED_SECONDS

    async def sums(self, since: float | None = None, until: float | None = None) -> Sums:
        """All sums of that period, up to this moment. Raises `StoreError`."""
        await self._catch_up()
        return await self.store.metrics.sums(since, until)

    async def _catch_up(self) -> None:
        await asyncio.sleep(0)  # this turn of the loop counts the end of an execution that was just answered
        await self.store.flush()

    async def report(self, since: float | None = None, until: float | None = None) -> Report:
        """The work of that period, its quality and its savings. Raises `StoreError`."""
        now = time.time()
        sums = await self.sums(since, until)
        return Report.of(sums, since=since or 0.0, until=until or now, prices=self.prices, tokenizer=tokens.TOKENIZER)

    async def points(self, since: float, until: float, step: str) -> list[Point]:
        """The report for each minute, hour or day of that period. Raises `StoreError`."""
        await self._catch_up()
        return [Point.of(start, sums) for start, sums in await self.store.metrics.series(since, until, step)]

    async def gauges(self) -> list[Gauge]:
        """The current values of all gauges. Raises `StoreError`."""
        whole = await self.report()
        census = await self.store.census()
        values = {
            "sealyard_approvals_waiting": len(await self.approvals.waiting()),
            "sealyard_context_tokens_saved": whole.tokens.saved,
            "sealyard_context_dollars_saved": whole.tokens.dollars_saved,
            "sealyard_store_bytes": census.size_bytes,
            "sealyard_metrics_uncounted_rows": await self.store.metrics.uncounted(),
            "sealyard_discovery_hit_rate": whole.discovery.hit_rate,
            "sealyard_skill_reuse_ratio": whole.skills.reuse_ratio,
        }
        return [
            *self.current(),
            *(Gauge.of(name, value) for name, value in values.items() if value is not None),
            *(Gauge.of("sealyard_skills", count, status=status) for status, count in census.skills.items()),
            *await self._learning(),
        ]

    def current(self) -> list[Gauge]:
        """The gauges that need no store."""
        circuits = self.upkeep.open_circuits()
        opening = self.runner.opening
        is_ready = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        tier = opening.result().tier if is_ready and opening is not None else "none"
        level = str(self.runner.policy.level)
        found = [
            Gauge.of("sealyard_info", 1, version=__version__, tier=str(tier), level=level, tokenizer=tokens.TOKENIZER),
            Gauge.of("sealyard_executions_running", len(self.live.running())),
            Gauge.of("sealyard_executions_queued", sum(run.queued for run in self.live.running())),
            Gauge.of("sealyard_sandbox_ready", is_ready),
        ]
        found += [Gauge.of("sealyard_ready", part.ok, part=name) for name, part in self.readiness.parts.items()]
        for status in self.tools.statuses():
            name = status.name
            found.append(Gauge.of("sealyard_upstream_up", status.state not in _DOWN, upstream=name))
            found.append(Gauge.of("sealyard_upstream_circuit_open", name in circuits, upstream=name))
            found.append(Gauge.of("sealyard_upstream_tools", status.tools, upstream=name))
        return found

    async def _learning(self) -> list[Gauge]:
        """The amount learned, and how often it was right."""
        guidance = self.guidance
        now = time.monotonic()
        if now - self._learned_at >= _LEARNED_SECONDS and guidance.is_on:
            self._learned_at = now
            parts = await guidance.learner.census()
            self._learned = [Gauge.of("sealyard_learning_learned", each.learned, part=each.part) for each in parts]
            self._learned += [
                Gauge.of("sealyard_learning_accuracy", each.accuracy, part=each.part)
                for each in parts
                if each.accuracy is not None
            ]
        return [
            Gauge.of("sealyard_learning_facts", guidance.learner.number),
            *self._learned,
            *(
                Gauge.of("sealyard_learning_switched_off", count, part=part)
                for part, count in sorted(guidance.barrier.faults.items())
            ),
        ]


@dataclass(frozen=True, kw_only=True)
class Operations:
    """The parts of a gateway that watch it."""

    readiness: Readiness
    upkeep: Upkeep
    figures: Figures
    alerting: Alerting

    async def gauges(self) -> list[Gauge]:
        """All figures of this moment, alerts among them. Raises `StoreError`."""
        return [*await self.figures.gauges(), *await self.alerting.gauges()]

    async def exposed(self) -> tuple[Sums | None, list[Gauge]]:
        """All sums and gauges. While the store fails or does not answer, only the gauges that need no store."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self.figures.sums(), await self.gauges()
        except (StoreError, TimeoutError):
            return None, [*self.figures.current(), Gauge.of("sealyard_store_failing", 1)]
