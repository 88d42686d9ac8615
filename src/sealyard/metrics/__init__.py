"""Counts of sealyard's own work: metrics, reports, tokens, traces, alert rules.

Nothing here knows about tools, runs or servers: it takes text and numbers. `sums` has a door of its own. `tokens` is
imported as a module, so that a count reads `tokens.count(text)`.

Exported names are imported on first use, because tracing loads a library that most commands do not need.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door

if TYPE_CHECKING:
    from sealyard.metrics.exposition import render, write_files
    from sealyard.metrics.otel import Tracing, open_tracing
    from sealyard.metrics.report import Point, Prices, Report
    from sealyard.metrics.sums.names import Gauge

__all__ = ("Gauge", "Point", "Prices", "Report", "Tracing", "open_tracing", "render", "write_files")

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        exposition="render write_files",
        otel="Tracing open_tracing",
        report="Point Prices Report",
        **{"sums.names": "Gauge"},
    )
