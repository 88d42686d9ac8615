"""`sealyard bench http`: both servers run, every figure is there, and the store without a journal keeps none."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.http import PROMISES
from sealyard.testing import open_silent_store
from sealyard.values import AuditEntry, CallRecord, Executed, ExecutionRecord

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_every_figure_is_measured(sealyard: Command) -> None:
    """One round; what the figures are is for `SPECIFICATION.md`."""
    done = sealyard("bench", "http", "--rounds", "1", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert [name for name in PROMISES if not found[name] > 0] == []
    assert {name: sample["count"] for name, sample in found["samples"].items()} == {
        "bare GET": 1,
        "bare POST": 1,
        "search": 1,
        "execute": 1,
        "10,000 expenses, with journal": 2,
        "10,000 expenses, without": 2,
        "trivial run, nothing hidden, with journal": 10,
        "trivial run, nothing hidden, without": 10,
        "10,000 expenses, nothing hidden, with journal": 4,
        "10,000 expenses, nothing hidden, without": 4,
    }


async def test_silent_store_records_nothing_and_keeps_all_else(tmp_path: Path) -> None:
    """It costs what a store costs but for the journal."""
    now = time.time()
    async with open_silent_store(tmp_path / "store.db") as store:
        record = ExecutionRecord(execution_id="e", principal="p", session="s", code="1", started_at=now, status="ok")
        store.record_start(record)
        store.record_end(record)
        store.record_call(
            CallRecord(execution_id="e", number=1, tool="t", digest="d", arguments={}, started_at=now, seconds=1.0)
        )
        store.audit(AuditEntry(kind="call", principal="p"))
        store.traces.keep("e", 1, b"x" * 100_000)
        store.metrics.record(Executed(at=now, form="code", status="ok", seconds=1.0, use_case="compute"))
        await store.room()
        await store.flush()
        await store.save_fingerprint("bank", "f")

        assert (await store.executions(), await store.calls("e"), await store.audit_entries()) == ([], [], [])
        assert (await store.metrics.sums()).value("sealyard_execution_total") == 0
        assert await store.fingerprints() == {"bank": "f"}
