"""Measures analyses from the request to the answer, interleaved with the same job in pure Python and in pandas."""

import asyncio
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.yardsticks import interleaved, load_since, summary, system_python
from sealyard.config import Config
from sealyard.config.settings import SandboxConfig, StoreConfig
from sealyard.metrics import tokens
from sealyard.sandbox.policy import ANALYSIS
from sealyard.testing import FakeUpstream
from sealyard.yard import AnalyzeRequest, Yard, open_yard

PROMISES = {
    "ratio_10k_to_python": "shown",
    "ratio_10k_to_pandas": "shown",
    "ratio_1m_to_python": "at most 1",
    "ratio_1m_to_pandas": "at most 0.5",
    "tokens_saved_share": "at least 0.99",
}

_SMALL, _LARGE = 10_000, 1_000_000
_LARGE_ROUNDS = 3
_SESSION = "bench"
_DEPARTMENTS = ("Engineering", "Finance", "Legal", "Marketing", "Operations", "People", "Sales", "Support")
_STATUSES = ("approved", "pending", "rejected")

_PARAMETERS: dict[str, Any] = {
    "conditions": [
        {"field": "status", "operator": "==", "value": "approved"},
        {"field": "amount", "operator": ">", "value": 500},
    ],
    "group_by": ["department"],
    "aggregations": [
        {"function": "count", "as": "count"},
        {"function": "sum", "field": "amount", "as": "sum"},
        {"function": "percentile", "field": "amount", "percentile": 95, "as": "p95"},
    ],
    "sort": [{"field": "department"}],
}
# What one would write by hand for the same answer.
_PYTHON = """
import json, math, sys
groups = {}
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        row = json.loads(line)
        if row["status"] == "approved" and row["amount"] > 500:
            groups.setdefault(row["department"], []).append(row["amount"])
answer = []
for department, amounts in sorted(groups.items()):
    amounts.sort()
    place = (len(amounts) - 1) * 0.95
    low = math.floor(place)
    high = min(low + 1, len(amounts) - 1)
    p95 = amounts[low] + (amounts[high] - amounts[low]) * (place - low)
    answer.append({"department": department, "count": len(amounts), "sum": math.fsum(amounts), "p95": p95})
print(json.dumps(answer))
"""
_PANDAS = """
import sys
import pandas as pd
frame = pd.read_json(sys.argv[1], lines=True)
kept = frame[(frame["status"] == "approved") & (frame["amount"] > 500)]
groups = kept.groupby("department")["amount"]
answer = groups.agg(count="count", sum="sum", p95=lambda amounts: amounts.quantile(0.95)).reset_index()
print(answer.to_json(orient="records"))
"""


async def measure(rounds: int) -> dict[str, Any]:
    """Every figure of `benchmarks analysis`."""
    python = system_python()
    pandas = sys.executable if importlib.util.find_spec("pandas") else None
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        place = Path(folder)
        files = {count: place / f"rows-{count}.jsonl" for count in (_SMALL, _LARGE)}
        for count, file in files.items():
            _write_rows(file, count)
        config = Config(store=StoreConfig(path=place / "sealyard.db"), sandbox=SandboxConfig(allow_weaker=True))
        expenses = FakeUpstream("expenses", list_expenses=_list_expenses)
        async with open_yard(config, policy=ANALYSIS, upstreams={"expenses": expenses}) as yard:
            await _fill_workspace(yard, list(files.values()))
            answers = {count: _by_hand(python, _PYTHON, file)[1] for count, file in files.items()}
            kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]] = {}
            for count, file in files.items():
                times = rounds if count == _SMALL else min(rounds, _LARGE_ROUNDS)
                kinds |= _kinds(yard, file, count, answers[count], python=python, pandas=pandas, times=times)
            samples = await interleaved(kinds)
            engines = {count: (await _analyze(yard, file.name))[1]["engine"] for count, file in files.items()}
            spared = await _count_tokens(yard)
            tier = (await yard.sandbox()).tier
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    return {
        **{
            f"ratio_{size}_to_{other}": p50[f"analysis, {size}"] / p50[f"{other}, {size}"]
            if f"{other}, {size}" in p50
            else None
            for size in ("10k", "1m")
            for other in ("python", "pandas")
        },
        **spared,
        "engines": {_size(count): engine for count, engine in engines.items()},
        "samples": {name: summary(values) for name, values in samples.items()},
        "promises": PROMISES,
        "tier": tier,
        "load": load_since(load_before),
        "bare_python": python,
    }


def _size(count: int) -> str:
    return "10k" if count == _SMALL else "1m"


def _expense(number: int, draw: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "department": draw.choice(_DEPARTMENTS),
        "amount": round(draw.random() * 1_000, 2),
        "status": draw.choice(_STATUSES),
    }


def _write_rows(file: Path, count: int) -> None:
    draw = random.Random(1)  # noqa: S311 - the same rows each time
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(msgspec.json.encode(_expense(number, draw)).decode() + "\n" for number in range(count))


def _list_expenses() -> list[dict[str, Any]]:
    """List all expenses of all employees."""
    draw = random.Random(1)  # noqa: S311
    return [_expense(number, draw) for number in range(_SMALL)]


async def _fill_workspace(yard: Yard, files: list[Path]) -> None:
    """Put the files where a run of the session finds them."""
    request = AnalyzeRequest(analysis_type="filter", data=[{"n": 1}], session=_SESSION)
    await yard.analyze(request)
    sandbox = await yard.sandbox()
    [session] = sandbox.sessions()
    for file in files:
        sandbox.workspace(session).write_bytes(file.name, await asyncio.to_thread(file.read_bytes))


def _kinds(
    yard: Yard, file: Path, count: int, answer: list[dict[str, Any]], *, python: str, pandas: str | None, times: int
) -> dict[str, tuple[int, Callable[[], Awaitable[float]]]]:
    size = _size(count)

    async def analysis() -> float:
        seconds, found = await _analyze(yard, file.name)
        assert _alike(found["rows"], answer), found
        return seconds

    async def by_hand(interpreter: str, script: str) -> float:
        seconds, found = _by_hand(interpreter, script, file)
        assert _alike(found, answer), found
        return seconds

    kinds: dict[str, tuple[int, Callable[[], Awaitable[float]]]] = {
        f"analysis, {size}": (times, analysis),
        f"python, {size}": (times, lambda: by_hand(python, _PYTHON)),
    }
    if pandas is not None:
        kinds[f"pandas, {size}"] = (times, lambda: by_hand(pandas, _PANDAS))
    return kinds


async def _analyze(yard: Yard, name: str) -> tuple[float, dict[str, Any]]:
    """Seconds from the request to the answer, through the whole gateway, and the answer."""
    sandbox = await yard.sandbox()
    await sandbox.settle()
    request = AnalyzeRequest(
        analysis_type="aggregate", source={"workspace": name}, parameters=_PARAMETERS, session=_SESSION
    )
    started = time.perf_counter()
    result = await yard.analyze(request)
    seconds = time.perf_counter() - started
    assert result.outcome.ok, result.text
    return seconds, result.outcome.result


def _by_hand(interpreter: str, script: str, file: Path) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of a bare interpreter from its start to its end, and what it printed."""
    started = time.perf_counter()
    done = subprocess.run([interpreter, "-c", script, str(file)], check=True, capture_output=True)
    return time.perf_counter() - started, json.loads(done.stdout)


def _alike(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    """The same groups, but for the last digits of sums."""
    return len(left) == len(right) and all(
        (one["department"], one["count"]) == (other["department"], other["count"])
        and math.isclose(one["sum"], other["sum"], rel_tol=1e-9)
        and math.isclose(one["p95"], other["p95"], rel_tol=1e-9)
        for one, other in zip(left, right, strict=True)
    )


async def _count_tokens(yard: Yard) -> dict[str, Any]:
    """Tokens of the worked example: ten thousand expenses of a tool, filtered, beside all of them in the context."""
    arguments = {
        "analysis_type": "filter",
        "source": {"tool": "expenses.list_expenses", "arguments": {}},
        "parameters": {
            "conditions": [
                {"field": "status", "operator": "==", "value": "pending"},
                {"field": "amount", "operator": ">", "value": 995},
            ]
        },
    }
    result = await yard.analyze(msgspec.convert(arguments, AnalyzeRequest))
    assert result.outcome.ok, result.text
    baseline = tokens.count(msgspec.json.encode(_list_expenses()).decode())
    actual = tokens.count(msgspec.json.encode(arguments).decode()) + tokens.count(result.text)
    return {
        "tokens_baseline": baseline,
        "tokens_actual": actual,
        "tokens_saved_share": 1 - actual / baseline,
        "tokenizer": tokens.TOKENIZER,
        "rows_in": result.outcome.result["rows_in"],
        "rows_out": result.outcome.result["rows_out"],
    }
