"""`/api/v1/metrics`, `usage` and `alerts`, and `/metrics` for Prometheus: the same figures, each from the journal."""

import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sealyard.metrics import Point, Report, render
from sealyard.observe.health import AlertList, list_alerts
from sealyard.serve.api.declare import Call, Text, endpoint
from sealyard.store.metrics import Usage

Window = Annotated[Literal["1h", "24h", "7d", "30d", "all"], Meta(description="The time up to now that is covered.")]
Step = Literal["minute", "hour", "day"]

_HOUR = 3_600.0  # seconds
_SECONDS = {"1h": _HOUR, "24h": 24 * _HOUR, "7d": 168 * _HOUR, "30d": 720 * _HOUR}
_STEPS: dict[str, Step] = {"1h": "minute", "24h": "hour", "7d": "hour", "30d": "day", "all": "day"}
_LONGEST_SECONDS = 366 * 24 * _HOUR  # bounds the points of `all`


class WindowQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects the time."""

    window: Window = "24h"


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Figures for each step of the time, the oldest first. `all` goes back one year."""

    window: str
    step: Step
    since: float
    until: float
    points: list[Point]


@endpoint("GET", "metrics", needs="observe")
async def get_metrics(call: Call[WindowQuery, None]) -> Report:
    """Activity, success and savings of all principals in that time."""
    window = call.query.window
    return await call.yard.report(None if window == "all" else time.time() - _SECONDS[window])


@endpoint("GET", "metrics/series", needs="observe")
async def get_series(call: Call[WindowQuery, None]) -> Series:
    """The same over time: by minute for an hour, by hour for a day or a week, by day for more."""
    window, now = call.query.window, time.time()
    since, step = now - _SECONDS.get(window, _LONGEST_SECONDS), _STEPS[window]
    points = await call.yard.operations.figures.points(since, now, step)
    return Series(window=window, step=step, since=since, until=now, points=points)


@endpoint("GET", "usage")
async def get_usage(call: Call[WindowQuery, None]) -> Usage:
    """The tools, combinations of tools and skills used: one's own, or everybody's with `observe`."""
    window, now = call.query.window, time.time()
    since = 0.0 if window == "all" else now - _SECONDS[window]
    await call.yard.store.flush()
    return await call.yard.store.metrics.usage(since, now, call.whose)


@endpoint("GET", "/metrics", needs="observe")
async def get_prometheus(call: Call[None, None]) -> Text:
    """All figures in the text format of Prometheus, or of OpenMetrics if the client accepts that.

    While the store fails, only gauges that need no store, among them `sealyard_store_failing`.
    """
    sums, gauges = await call.yard.operations.exposed()
    is_open = "application/openmetrics-text" in call.request.headers.get("accept", "")
    content, kind = render(sums, gauges, openmetrics=is_open)
    return Text(content=content, kind=kind)


@endpoint("GET", "alerts", needs="observe")
async def get_alerts(call: Call[None, None]) -> AlertList:
    """All alerts, firing ones first."""
    return await list_alerts(call.yard.store)
