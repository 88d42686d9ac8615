"""What `sealyard metrics` reads from a store."""

import time

import msgspec

from sealyard import __version__
from sealyard.metrics import tokens
from sealyard.metrics.gauges import Gauge, gauge
from sealyard.metrics.report import Point, Prices, Report, points, report
from sealyard.observe.alerts import AlertView, list_alerts
from sealyard.store import Store
from sealyard.values import Ask, ExecutionRecord


class Window(msgspec.Struct, frozen=True):
    """A time up to now, and how it is cut into the bars of a chart."""

    title: str
    seconds: float | None
    step: str
    charted_seconds: float


_DAY = 86_400.0
WINDOWS = {
    "1h": Window("the last hour", 3_600.0, "minute", 3_600.0),
    "24h": Window("the last 24 hours", _DAY, "hour", _DAY),
    "7d": Window("the last 7 days", 7 * _DAY, "hour", 7 * _DAY),
    "30d": Window("the last 30 days", 30 * _DAY, "day", 30 * _DAY),
    "all": Window("all time", None, "day", 90 * _DAY),
}

_RUNS = 8


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """All that one picture of the dashboard shows."""

    at: float
    window: Window
    report: Report
    points: list[Point]
    waiting: list[Ask]
    runs: list[ExecutionRecord]
    """The newest first."""
    alerts: list[AlertView]


async def read_report(store: Store, prices: Prices, window: Window) -> Report:
    """The figures of a time up to now."""
    now = time.time()
    since = None if window.seconds is None else now - window.seconds
    sums = await store.metrics.sums(since, None)
    return report(sums, since=since or 0.0, until=now, prices=prices, tokenizer=tokens.TOKENIZER)


async def read_frame(store: Store, prices: Prices, window: Window) -> Frame:
    """Everything that the dashboard shows."""
    found = await read_report(store, prices, window)
    now = time.time()
    series = await store.metrics.series(now - window.charted_seconds, now, window.step)
    return Frame(
        at=now,
        window=window,
        report=found,
        points=points(series),
        waiting=await store.approvals.waiting(),
        runs=await store.executions(limit=_RUNS),
        alerts=(await list_alerts(store)).alerts,
    )


async def read_gauges(store: Store, prices: Prices) -> list[Gauge]:
    """Those gauges that a store can tell of without a gateway."""
    whole = await read_report(store, prices, WINDOWS["all"])
    census = await store.census()
    firing = [each.rule for each in (await list_alerts(store)).alerts if each.state == "firing"]
    found = [
        gauge("sealyard_info", 1, version=__version__, tier="none", level="none", tokenizer=tokens.TOKENIZER),
        gauge("sealyard_approvals_waiting", len(await store.approvals.waiting())),
        gauge("sealyard_context_tokens_saved", whole.tokens.saved),
        gauge("sealyard_context_dollars_saved", whole.tokens.dollars_saved),
        gauge("sealyard_store_bytes", census.size_bytes),
        gauge("sealyard_metrics_uncounted_rows", await store.metrics.uncounted()),
        *(gauge("sealyard_skills", count, status=status) for status, count in census.skills.items()),
        *(gauge("sealyard_alerts_firing", firing.count(rule), rule=rule) for rule in sorted(set(firing))),
    ]
    if whole.discovery.hit_rate is not None:
        found.append(gauge("sealyard_discovery_hit_rate", whole.discovery.hit_rate))
    if whole.skills.reuse_ratio is not None:
        found.append(gauge("sealyard_skill_reuse_ratio", whole.skills.reuse_ratio))
    return found
