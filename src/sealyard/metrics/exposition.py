"""Sums and gauges as Prometheus reads them, in its own text format or in OpenMetrics, and the files that use them.

Counters with one closed label are written with 0 from the beginning, so that `increase()` sees their first event;
others appear with it. The files are alert rules for Prometheus and dashboards for Grafana; both load them as they are.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from sealyard.errors import InvalidRequest
from sealyard.metrics.sums.names import GAUGES, METRICS, OPERATOR, Gauge, Metric
from sealyard.metrics.sums.sums import Sum, Sums

FILES = tuple(
    Path(__file__).parent / "files" / name
    for name in ("prometheus-rules.yml", "grafana-overview.json", "grafana-tokens.json", "grafana-upstreams.json")
)
"""Alert rules and dashboards."""

_FEW_VALUES = 40
"""A label with more values than this is not written out with zeros."""
_PLAIN = "prometheus_client.exposition"
_PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The oldest format that every scraper reads; names and labels need nothing newer."""


def render(sums: Sums | None, gauges: Iterable[Gauge], *, openmetrics: bool = False) -> tuple[bytes, str]:
    """The text, and its content type. Of two gauges with the same name and labels the first is taken.

    Without sums there are gauges only: a counter at 0 would look like one that began anew.
    """
    # Imported on first use: it takes longer than all the rest of a command.
    module = importlib.import_module("prometheus_client.openmetrics.exposition" if openmetrics else _PLAIN)
    text: bytes = module.generate_latest(_Families(sums, gauges))
    content_type: str = module.CONTENT_TYPE_LATEST if openmetrics else _PLAIN_TYPE
    return text, content_type


def write_files(folder: Path) -> list[Path]:
    """Copy all files into a folder, which is made if need be, over older ones of the same name.

    Raises:
        InvalidRequest: The folder cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            path = folder / file.name
            path.write_bytes(file.read_bytes())
            written.append(path)
    except OSError as error:
        raise InvalidRequest(
            f"{str(folder)!r} cannot be written: {error.strerror}. Name a folder that can, or make room."
        ) from error
    return written


class _Families:
    """A registry for `prometheus_client`."""

    def __init__(self, sums: Sums | None, gauges: Iterable[Gauge]) -> None:
        self._sums = sums
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {}
        for gauge in gauges:
            labels = tuple(gauge.labels[label] for label in GAUGES[gauge.name].labels)
            self._gauges.setdefault(gauge.name, {}).setdefault(labels, gauge.value)
        self._core = importlib.import_module("prometheus_client.metrics_core")

    def collect(self) -> Iterator[Any]:
        """Every family with a value, in the order of definition."""
        for name, values in self._gauges.items():
            yield self._gauge(name, values)
        if self._sums is None:
            return
        for name, metric in METRICS.items():
            found = _with_zeros(metric, self._sums.of(name))
            if found:
                yield self._counter(metric, found) if metric.kind == "counter" else self._histogram(metric, found)

    def _gauge(self, name: str, values: Mapping[tuple[str, ...], float]) -> Any:
        info = GAUGES[name]
        if name.endswith("_info"):
            family = self._core.InfoMetricFamily(name.removesuffix("_info"), info.help)
            for labels in values:
                family.add_metric((), dict(zip(info.labels, labels, strict=True)))
            return family
        family = self._core.GaugeMetricFamily(name, info.help, labels=info.labels)
        for labels, value in sorted(values.items()):
            family.add_metric(labels, value)
        return family

    def _counter(self, metric: Metric, found: Mapping[tuple[str, ...], Sum]) -> Any:
        family = self._core.CounterMetricFamily(metric.name, metric.help, labels=tuple(metric.labels))
        for labels, amount in sorted(found.items()):
            family.add_metric(labels, amount.total)
        return family

    def _histogram(self, metric: Metric, found: Mapping[tuple[str, ...], Sum]) -> Any:
        unit = metric.unit if metric.name.endswith(f"_{metric.unit}") else ""
        family = self._core.HistogramMetricFamily(metric.name, metric.help, labels=tuple(metric.labels), unit=unit)
        borders = (*(str(border) for border in metric.buckets), "+Inf")
        for labels, amount in sorted(found.items()):
            below = accumulate(amount.buckets)
            family.add_metric(labels, list(zip(borders, below, strict=True)), amount.total / metric.scale)
        return family


def _with_zeros(metric: Metric, found: Mapping[tuple[str, ...], Sum]) -> Mapping[tuple[str, ...], Sum]:
    if metric.kind != "counter" or len(metric.labels) > 1:
        return found
    values = next(iter(metric.labels.values()), None)
    if values is None:
        return found or {(): Sum(0, 0)}
    if values == OPERATOR or len(values) > _FEW_VALUES:
        return found
    return {**{(value,): Sum(0, 0) for value in values}, **found}
