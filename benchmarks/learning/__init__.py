"""Joins the measurements of learning, a part at a time, and what lookups cost."""

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.discovery import Sets, load_sets
from benchmarks.learning.failures import measure as measure_failures
from benchmarks.learning.lookups import measure_lookups
from benchmarks.learning.outcomes import measure_chains, measure_risk
from benchmarks.learning.ranking import measure_ranking
from benchmarks.learning.resources import measure as measure_resources
from benchmarks.learning.shapes import measure as measure_shapes
from benchmarks.tables import promised_table
from sealyard.cli.terminal import columns, plain, screen
from sealyard.values.tools import ToolSpec

__all__ = ("PARTS", "PROMISES", "measure", "show")

PARTS = ("ranking", "lookups", "hints", "shapes", "resources", "chains", "risk")
PROMISES = {
    "worst_set_change": "at least 0",
    "worst_set_change_noisy": "at least 0",
    "worst_split_change": "shown",
    "worst_split_change_noisy": "shown",
    "unseen_change": "at least -0.003",
    "hint_hit_rate": "at least 0.8",
    "lookup_ratio": "at most 0.5",
    "chain_precision": "at least 0.6",
    "risk_error": "at most 0.75",
    "risk_off": "at most 0.08",
}
_CHANGES = ("_change", "_change_noisy")


def measure(data: Path | None, parts: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every figure of `benchmarks learning`. Parts run code: not within an event loop. Raises `InvalidRequest`."""
    parts = parts or PARTS
    sets: Sets = {}
    pool: dict[str, ToolSpec] = {}
    if data is not None:
        sets, pool = load_sets(data)
    figures: dict[str, Any] = {"skipped": [part for part in PARTS if part not in parts]}
    if "ranking" in parts:
        if sets:
            figures |= asyncio.run(measure_ranking(sets, pool))
        else:
            figures |= {"sets": {}, **dict.fromkeys(name for name in PROMISES if name.endswith(_CHANGES))}
            figures["skipped"].append("ranking")
    if "lookups" in parts:
        figures |= asyncio.run(measure_lookups(sets, pool))
    if "hints" in parts:
        hints = measure_failures()
        figures |= {"hint_hit_rate": hints["hint_hit_rate"], "hint_kinds": hints["kinds"], "hints": hints}
    if "shapes" in parts:
        figures["shapes"] = measure_shapes()
    if "resources" in parts:
        figures["resources"] = measure_resources()
    if "chains" in parts:
        figures |= measure_chains(sets)
    if "risk" in parts:
        figures |= measure_risk()
    return figures


def show(figures: dict[str, Any]) -> None:
    """The same figures as tables."""
    if figures.get("sets"):
        ways = ("before", "after", "after_noisy")
        table = columns("set", *(f"{mark} {way}" for mark in ("hit@1", "ndcg@10") for way in ways), "queries")
        for name, figure in figures["sets"].items():
            cells = [f"{figure[mark][way]:.3f}" for mark in ("hit_at_1", "ndcg_at_10") for way in ways]
            table.add_row(plain(name), *cells, f"{figure['queries']:,}")
        screen.print(table)
        screen.print()
    screen.print(promised_table(figures, PROMISES, digits=4))
    for name in ("shapes", "resources"):
        if name in figures:
            said = [f"{key} {value:,.3f}" for key, value in figures[name].items() if isinstance(value, int | float)]
            screen.print(plain(f"{name}: {', '.join(said)}".replace("_", " "), "dim"))
    if figures["skipped"]:
        why = " Search is measured on sets: name their folder with --data." if "ranking" in figures["skipped"] else ""
        screen.print(plain(f"Left out: {', '.join(figures['skipped'])}.{why}", "dim"))
