"""Measures the audit log beside bare SQLite: the same rows, the same table and pragmas, interleaved in one run."""

import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.yardsticks import load_since, summary
from sealyard.cli.terminal import errors
from sealyard.store import Store, open_store
from sealyard.store.audit.log import ENTRY, open_log
from sealyard.store.audit.verification import verify_store
from sealyard.store.database import connect
from sealyard.values.access import AuditEntry

GROUPS = (8, 512)
"""Entries in one commit: those of a small run, and of many runs at once."""
_SAMPLE = 1024
"""Entries in one sample, whatever the size of its groups."""
_SINGLE_SAMPLE = 64

PROMISES = {
    "entries_per_second": "shown",
    "bare_entries_per_second": "shown",
    "ratio_to_bare": "shown",
    "ratio_to_bare_groups_of_8": "shown",
    "ratio_to_one_commit_per_row": "shown",
    "enqueue_microseconds": "shown",
    "verified_entries_per_second": "shown",
}

_INSERT = "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_Row = tuple[Any, ...]


async def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks audit`."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = Path(folder) / "sealyard.db", Path(folder) / "bare.db"
        async with open_store(ours) as store:
            await _audited(store, 1, _SAMPLE)  # the rows that bare SQLite is given too
            with open_log(ours) as log:
                rows = log.connection.execute(ENTRY).fetchall()
            with closing(connect(bare)) as connection:
                kinds = _kinds(store, connection, rows)
                samples = await _interleaved(kinds, rounds)
            samples["enqueue"] = [await _enqueued(store) for _ in range(rounds)]
        started = time.perf_counter()
        verified = verify_store(ours)
        seconds = time.perf_counter() - started
    assert not verified.problem, verified.problem
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    few, many = GROUPS
    return {
        "entries_per_second": 1 / p50[f"audit, groups of {many}"],
        "bare_entries_per_second": 1 / p50[f"bare, groups of {many}"],
        "ratio_to_bare": p50[f"audit, groups of {many}"] / p50[f"bare, groups of {many}"],
        f"ratio_to_bare_groups_of_{few}": p50[f"audit, groups of {few}"] / p50[f"bare, groups of {few}"],
        "ratio_to_one_commit_per_row": p50[f"audit, groups of {many}"] / p50["bare, one commit per row"],
        "enqueue_microseconds": p50["enqueue"] * 1e6,
        "verified_entries_per_second": verified.entries / seconds,
        "samples": {name: summary(values) for name, values in samples.items()},
        "promises": PROMISES,
        "load": load_since(load_before),
    }


def _kinds(store: Store, connection: sqlite3.Connection, rows: list[_Row]) -> dict[str, Callable[[], Awaitable[float]]]:
    kinds: dict[str, Callable[[], Awaitable[float]]] = {}
    for group in GROUPS:
        kinds[f"audit, groups of {group}"] = lambda group=group: _audited(store, group, _SAMPLE)  # type: ignore[misc]
        kinds[f"bare, groups of {group}"] = lambda group=group: _bare(connection, group, rows)  # type: ignore[misc]
    kinds["bare, one commit per row"] = lambda: _bare(connection, 1, rows[:_SINGLE_SAMPLE])
    return kinds


async def _interleaved(kinds: dict[str, Callable[[], Awaitable[float]]], rounds: int) -> dict[str, list[float]]:
    """Samples of every kind, in another order in each round, so that all of them see the same machine."""
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        for _ in progress.track(range(rounds), description="writing"):
            for name in random.sample(sorted(kinds), len(kinds)):
                samples[name].append(await kinds[name]())
    return samples


def _entry(number: int) -> AuditEntry:
    arguments = {"to": "__PII_email_3f9a1c20b7de__", "amount": number, "note": "for the trip to the office in Bern"}
    body = {"number": number, "tool": "mcp__bank__pay", "arguments": arguments, "seconds": 0.0125, "error": None}
    return AuditEntry(kind="call", principal="local", session="main", execution_id=f"e{number // 4}", body=body)


async def _audited(store: Store, group: int, count: int) -> float:
    """Seconds of an entry that is recorded and on disk, as the gateway waits for it."""
    entries = [_entry(number) for number in range(count)]
    started = time.perf_counter()
    for first in range(0, count, group):
        for entry in entries[first : first + group]:
            store.audit(entry)
        await store.flush()
    return (time.perf_counter() - started) / count


async def _bare(connection: sqlite3.Connection, group: int, rows: list[_Row]) -> float:
    """Seconds of a row that is inserted and on disk, with nothing but SQLite."""
    last = connection.execute("SELECT coalesce(max(number), 0) FROM audit").fetchone()[0]
    renumbered = [(last + place, *row[1:]) for place, row in enumerate(rows, 1)]
    started = time.perf_counter()
    for first in range(0, len(renumbered), group):
        connection.execute("BEGIN IMMEDIATE")
        for row in renumbered[first : first + group]:
            connection.execute(_INSERT, row)
        connection.execute("COMMIT")
    return (time.perf_counter() - started) / len(rows)


async def _enqueued(store: Store) -> float:
    """Seconds of `Store.audit` alone."""
    entries = [_entry(number) for number in range(_SAMPLE)]
    started = time.perf_counter()
    for entry in entries:
        store.audit(entry)
    seconds = (time.perf_counter() - started) / len(entries)
    await store.flush()
    return seconds
