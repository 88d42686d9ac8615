"""`sealyard metrics` and `sealyard rebuild-metrics` as a user meets them."""

import asyncio
import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests import warm

from sealyard.store import open_store
from sealyard.values.access import Alert, ApprovalRequest
from sealyard.values.facts import Executed, Hidden, Saw, Searched, Tokens, Used
from sealyard.values.runs import CallRecord, ExecutionRecord

Command = Callable[..., subprocess.CompletedProcess[str]]

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m"


async def fill(path: Path, *, at: float | None = None, runs: int = 3) -> None:
    """A store with some runs, of which the last failed."""
    at = time.time() - 60 if at is None else at
    async with open_store(path) as store:
        store.metrics.record(Saw(at=at, session="v", event="begin"))
        store.metrics.record(Saw(at=at, session="v", event="code"))
        store.metrics.record(
            Searched(at=at, search_id="s1", place="agent", detail_level="full", seconds=0.01, found=("mcp__bank__pay",))
        )
        store.metrics.record(Used(at=at, search_id="s1", tool="mcp__bank__pay", rank=1, seconds=0.5))
        store.metrics.record(Hidden(at=at, values={"email": 7}))
        store.metrics.record(
            Tokens(at=at, use_case="filtering", tokenizer="o200k_base", data=100_000, code=50, results=9)
        )
        for number in range(runs):
            name, is_last = f"e{number}", number == runs - 1
            store.record_end(
                ExecutionRecord(
                    execution_id=name, principal="ada", session="s", code=f"print({EVIL!r})\n{EVIL}", started_at=at,
                    ended_at=at + 0.25, status="failed" if is_last else "ok",
                )
            )  # fmt: skip
            store.record_call(
                CallRecord(
                    execution_id=name, number=1, tool="mcp__bank__pay", digest="d", arguments={}, upstream="bank",
                    started_at=at, seconds=0.125, answer_bytes=1000, error="ToolFailed: no" if is_last else None,
                )
            )  # fmt: skip
            store.metrics.record(
                Executed(
                    at=at, principal="ada", execution_id=name, form="code", status="failed" if is_last else "ok",
                    error_type="ValueError" if is_last else "", seconds=0.25, calls=1, tools=("mcp__bank__pay",),
                    bytes_in=1000, bytes_out=10, code_characters=20, use_case="filtering",
                )
            )  # fmt: skip
        await store.flush()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with three runs of a minute ago."""
    path = tmp_path / "store.db"
    asyncio.run(fill(path))
    return path


def rows(text: str) -> dict[str, str]:
    """The lines of a table of two columns."""
    parts = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in text.splitlines()]
    return {part[0]: part[1] for part in parts if len(part) == 2}


# Once


def test_table_says_what_was_done_and_saved(installed: Command, store: Path) -> None:
    """Everything that people ask about, in words."""
    done = installed("metrics", "--store", str(store))

    found = rows(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["status"] == "ok 2, failed 1"
    assert found["errors"] == "ValueError 1"
    assert found["sessions"] == "1, 100.0 % with code"
    assert found["hits"] == "1, which is 100.0 %; 0 searched again"
    assert found["saved"] == "0, 0 drafts, 0 rejected"
    assert found["without sealyard"] == "100,000, $0.30"
    assert found["per conversation"] == "100,000 without sealyard, 59 with it, on average of 1 conversation"
    assert found["hidden"] == "email 7"
    assert "counted with      o200k_base, at $3 and $15 a million" in done.stdout
    assert re.search(r"^bank +3 +33\.3 % ", done.stdout, re.MULTILINE)
    assert re.search(r"^mcp__bank__pay +1\.0\.0 +3 +1 +0 +125 ms ", done.stdout, re.MULTILINE)
    assert re.search(r"^ada +0 +- +3 +1 +0 +3", done.stdout, re.MULTILINE)


def test_empty_store_is_no_mistake(sealyard: Command, tmp_path: Path) -> None:
    """The first thing that somebody tries."""
    (tmp_path / "sealyard.toml").write_text('[store]\npath = "new.db"\n', encoding="utf-8")
    done = sealyard("metrics", str(tmp_path / "sealyard.toml"))

    found = rows(done.stdout)
    assert done.returncode == 0
    assert (found["status"], found["per conversation"]) == ("none", "no conversation began in this time")


def test_json_is_the_report_and_the_usage(sealyard: Command, store: Path) -> None:
    """As the HTTP API gives them."""
    found = json.loads(sealyard("metrics", "--store", str(store), "--format", "json").stdout)

    assert found["execution"]["by_status"] == {"ok": 2, "failed": 1}
    assert found["tokens"]["saved"] == 100_000 - 59
    assert found["usage"]["tools"][0]["errors"] == 1
    assert found["until"] - found["since"] == pytest.approx(86_400, abs=60)


def test_window_leaves_out_what_is_older(sealyard: Command, tmp_path: Path) -> None:
    """A day by default, and as asked for."""
    path = tmp_path / "store.db"
    asyncio.run(fill(path, at=time.time() - 3 * 86_400))

    counts = {}
    for window in ((), ("--window", "1h"), ("--window", "7d"), ("--window", "all")):
        found = json.loads(sealyard("metrics", "--store", str(path), "--format", "json", *window).stdout)
        counts[window] = (found["execution"]["count"], sum(each["calls"] for each in found["usage"]["tools"]))
    assert list(counts.values()) == [(0, 0), (0, 0), (3, 3), (3, 3)]


def test_prices_are_those_of_the_config(sealyard: Command, store: Path, tmp_path: Path) -> None:
    """Money is never a figure of ours."""
    config = tmp_path / "sealyard.toml"
    config.write_text('[store]\npath = "store.db"\n[metrics]\ninput_price = 10\n', encoding="utf-8")
    found = json.loads(sealyard("metrics", str(config), "--format", "json").stdout)

    assert found["prices"] == {"input": 10.0, "output": 15.0}
    assert found["tokens"]["dollars_baseline"] == 1.0


def test_prometheus_text_can_be_read(sealyard: Command, store: Path) -> None:
    """By the parser of Prometheus' own client, with the gauges that a store can tell of."""
    done = sealyard("metrics", "--store", str(store), "--format", "prometheus")
    families = {family.name: family for family in text_string_to_metric_families(done.stdout)}

    runs = {tuple(sorted(each.labels.items())): each.value for each in families["sealyard_execution"].samples}
    assert sum(runs.values()) == 3
    assert families["sealyard_context_tokens_saved"].samples[0].value == 100_000 - 59
    assert families["sealyard_approvals_waiting"].samples[0].value == 0


def test_window_of_prometheus_is_a_mistake(sealyard: Command, store: Path) -> None:
    """Counters of an hour would go down."""
    done = sealyard("metrics", "--store", str(store), "--format", "prometheus", "--window", "1h")

    assert done.returncode == 2
    assert "Leave out --window." in done.stderr


def test_files_are_written(sealyard: Command, tmp_path: Path) -> None:
    """For Grafana and Prometheus."""
    done = sealyard("metrics", "--write-files", str(tmp_path / "files"))

    assert [Path(line).is_file() for line in done.stdout.split()] == [True] * len(list((tmp_path / "files").iterdir()))
    assert (tmp_path / "files" / "prometheus-rules.yml").is_file()


def test_store_that_a_gateway_uses_can_be_read(store: Path, sealyard: Command) -> None:
    """What it has recorded is there as soon as it is on disk."""

    async def beside() -> Any:
        async with open_store(store) as opened:
            opened.metrics.record(
                Executed(at=time.time(), form="code", status="ok", seconds=1.0, use_case="compute", execution_id="e9")
            )
            await opened.flush()
            done = await asyncio.to_thread(sealyard, "metrics", "--store", str(store), "--format", "json")
            return json.loads(done.stdout)["execution"]["count"]

    assert asyncio.run(beside()) == 4


# Live


def test_dashboard_without_a_terminal_is_printed_once(sealyard: Command, store: Path) -> None:
    """And says so. What agents wrote commands no terminal."""
    done = sealyard("metrics", "--store", str(store), "--format", "dashboard", "--window", "1h")

    assert done.returncode == 0
    assert done.stderr == "note: Standard output is not a terminal: the dashboard is printed once.\n"
    assert "Activity in the last hour" in done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert "\\x1b]0;owned" in done.stdout


async def test_dashboard_shows_what_needs_a_person_first(sealyard: Command, store: Path) -> None:
    """Alerts and approvals come before runs and figures. With `--once` nothing is said of terminals."""
    async with open_store(store) as opened:
        await opened.replace_alerts(
            [Alert(rule="upstream_down", subject="mail", state="firing", message="It is down.", since=1, changed_at=1)]
        )
        await opened.approvals.add(
            ApprovalRequest(
                id="a1", execution_id="e", number=1, principal="ada", session="s", tool="mcp__bank__pay", arguments={},
                arguments_sha256="", rule="r", reason=EVIL, asked_at=1.0, expires_at=time.time() + 600,
            )
        )  # fmt: skip
        done = await asyncio.to_thread(sealyard, "metrics", "--store", str(store), "--format", "dashboard", "--once")

    lines = [line.rstrip() for line in done.stdout.splitlines()]
    titles = ["alerts", "waiting for approval (answer with `sealyard approvals`)", "last runs", "runs"]
    assert [line for line in lines if line in titles] == titles
    assert "upstream_down mail  It is down." in lines
    assert "a1  mcp__bank__pay  ada" in done.stdout
    assert (done.returncode, done.stderr, "\x1b" in done.stdout) == (0, "", False)


def _until(descriptor: int, text: str, seen: str = "") -> str:
    """What a terminal shows, until it shows this text."""
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], 60)
        assert ready, f"no {text!r} in {seen!r}"
        seen += os.read(descriptor, 1 << 16).decode(errors="replace")
    return seen


def test_live_dashboard_follows_and_ends_with_an_interrupt(store: Path) -> None:
    """New runs appear while it is open, and the terminal is as it was afterwards."""
    ours, theirs = pty.openpty()
    command = [*warm.python("-m", "sealyard"), "metrics", "--store", str(store), "--format", "dashboard"]
    size = {"COLUMNS": "90", "LINES": "40", "TERM": "xterm"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | size)
    os.close(theirs)
    try:
        first = _until(ours, "3, 66.7 % ended well")
        asyncio.run(fill(store, runs=5))
        _until(ours, "8, 75.0 % ended well")
        process.send_signal(signal.SIGINT)
        last = _until(ours, "\x1b[?1049l")
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

    assert "\x1b[?1049h" in first  # a screen of its own, which is left again
    assert "owned\x07" not in first + last


# Counting again


def test_rebuild_counts_the_same_again(sealyard: Command, store: Path) -> None:
    """Whatever happened to the sums, the journal has it."""
    before = json.loads(sealyard("metrics", "--store", str(store), "--format", "json").stdout)
    assert sealyard("rebuild-metrics", "--store", str(store)).returncode == 0
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE metric_sums SET count = count + 7, total = total * 3")
    wrong = sealyard("rebuild-metrics", "--store", str(store), "--check")
    done = sealyard("rebuild-metrics", "--store", str(store), "--json")
    after = json.loads(sealyard("metrics", "--store", str(store), "--format", "json").stdout)

    assert wrong.returncode == 1
    assert wrong.stdout.splitlines()[-1].endswith(" sums differ from the journal.")
    assert (json.loads(done.stdout)["differences"] > 0, done.returncode) == (True, 0)
    right = sealyard("rebuild-metrics", "--store", str(store), "--check")
    assert (right.returncode, right.stdout.splitlines()[-1]) == (0, "All sums match the journal.")
    assert {key: after[key] for key in after if key not in ("since", "until", "usage")} == {
        key: before[key] for key in before if key not in ("since", "until", "usage")
    }


def test_rebuild_of_an_installed_command(installed: Command, store: Path) -> None:
    """With all that it has to import."""
    done = installed("rebuild-metrics", "--store", str(store), "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["calls"] == 3
