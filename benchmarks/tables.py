"""Tables of figures: samples, and each figure beside what is promised of it."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from sealyard.cli.terminal import columns, plain, screen


def show_figures(figures: dict[str, Any]) -> None:
    """Print samples, then each figure beside what is promised of it, then what was measured on."""
    if "samples" in figures:
        screen.print(samples_table(figures["samples"]))
        screen.print()
    screen.print(promised_table(figures, figures["promises"]))
    where = [f"{key} {figures[key]}" for key in ("tier", "resource_control", "load", "bare_python") if key in figures]
    screen.print(plain(", ".join(where).replace("_", " "), "dim"))


def samples_table(samples: Mapping[str, Mapping[str, Any]], *, digits: int = 2) -> Table:
    """Milliseconds of each kind of sample, as `yardsticks.summary` sums them up."""
    table = columns("measured", "p50 ms", "p95 ms", "min ms", "samples")
    for name, timing in samples.items():
        cells = [f"{timing[key] * 1e3:,.{digits}f}" for key in ("p50_seconds", "p95_seconds", "min_seconds")]
        table.add_row(plain(name), *cells, str(timing["count"]))
    return table


def promised_table(figures: Mapping[str, Any], promises: Mapping[str, str], *, digits: int = 3) -> Table:
    """Each figure that was asked for beside its promise; a whole number is shown as such."""
    table = columns("figure", "value", "promised")
    for name, promise in promises.items():
        if name in figures:
            table.add_row(plain(name), _value(figures[name], digits), plain(promise))
    return table


def _value(figure: float | None, digits: int) -> str:
    if figure is None:
        return "not measured"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.{digits}f}"
