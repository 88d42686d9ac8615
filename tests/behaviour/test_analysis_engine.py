"""The engine of analyses gives the same answer within every wall, with DuckDB where that can be had."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from sealyard.analysis import GUEST
from sealyard.sandbox import IsolationLevel, PoolOptions, Sandbox, open_sandbox
from sealyard.sandbox.importable import add_own, find_packages
from sealyard.sandbox.policy import LEVELS
from sealyard.sandbox.spawn import Setup
from sealyard.values.runs import Limits

PACKAGES = ("duckdb", "scipy")
OWN = {"sealyard_analysis": GUEST}
RUN = "from sealyard_analysis import run\nresult = run(request, call_tool)"
ROWS = [{"id": number, "team": "ab"[number % 2], "note": "x" * 60} for number in range(50_000)]
REQUEST = {
    "analysis_type": "aggregate",
    "source": {"workspace": "rows.jsonl"},
    "parameters": {
        "conditions": [{"field": "id", "operator": "<", "value": 40_001}],
        "group_by": ["team"],
        "aggregations": [{"function": "count", "as": "count"}, {"function": "max", "field": "id", "as": "last"}],
    },
}
ANSWER = {
    "rows_in": 50_000,
    "rows_out": 2,
    "rows": [{"team": "a", "count": 20_001, "last": 40_000}, {"team": "b", "count": 20_000, "last": 39_999}],
}


@asynccontextmanager
async def unprivileged() -> AsyncIterator[Sandbox]:
    """The namespace tier as any user builds it."""
    packages = add_own(find_packages(PACKAGES), OWN)
    policy = msgspec.structs.replace(LEVELS[IsolationLevel.PRODUCTION], packages=PACKAGES)
    options = PoolOptions(size=1)
    sandbox = Sandbox(Setup(policy=policy, packages=packages), options=options)
    try:
        await sandbox.start()
        yield sandbox
    finally:
        await sandbox.close()


def level(name: str, **options: Any) -> Any:
    """A sandbox of a level, with the packages of analyses only, where the level has packages."""
    policy = LEVELS[IsolationLevel(name)]
    packages = PACKAGES if policy.packages else ()
    return open_sandbox(msgspec.structs.replace(policy, packages=packages), own=OWN, **options)


WALLS: dict[str, tuple[Any, str]] = {
    "development": (lambda: level("development"), "duckdb"),
    "production": (lambda: level("production"), "duckdb"),
    "production as an ordinary user": (unprivileged, "duckdb"),
    "hardened": (lambda: level("hardened"), "python"),
    "landlock": (lambda: level("production", tier="landlock", allow_weaker=True), "python"),
}


@pytest.mark.behaviour("analysis.engines")
@pytest.mark.parametrize("name", WALLS)
async def test_analysis_gives_the_same_answer_within_every_wall(name: str) -> None:
    """DuckDB ends the process where it may see a file of the kernel and not read it, so landlock is Python's."""
    build, engine = WALLS[name]
    async with build() as sandbox:
        await sandbox.run("1", session="rows")
        sandbox.workspace("rows").write_bytes("rows.jsonl", "\n".join(map(json.dumps, ROWS)).encode())
        # Where only rlimits hold memory down, they count more than what is used: `hardened` is too little then.
        limits = (
            Limits(memory_mib=max(256, sandbox.policy.memory_mib)) if sandbox.resource_control == "rlimits" else None
        )
        outcome = await sandbox.run(RUN, context={"request": REQUEST}, session="rows", limits=limits)

    assert (outcome.failure, outcome.output) == (None, "")
    assert outcome.result == ANSWER | {"engine": engine}


async def test_parquet_needs_duckdb_and_says_so() -> None:
    """Where it cannot run, the message names other formats."""
    request = {"analysis_type": "filter", "source": {"workspace": "rows.parquet"}, "parameters": {}}
    async with level("hardened") as sandbox:
        await sandbox.run("1", session="rows")
        sandbox.workspace("rows").write_bytes("rows.parquet", b"PAR1")
        outcome = await sandbox.run(RUN, context={"request": request}, session="rows")

    assert outcome.failure is not None
    assert outcome.failure.message == (
        "Parquet is read by DuckDB, which this sandbox does not offer. Save the rows as CSV or JSON lines."
    )


@pytest.mark.parametrize("name", WALLS)
async def test_hypothesis_tests_are_scipys_within_every_wall(name: str) -> None:
    """SciPy fits into the memory of every level that shows packages and is loaded by nothing but a test.

    At `hardened` the message says what to install, and statistics that need no SciPy go on.
    """
    rows = [{"v": number % 7, "team": "ab"[number % 2]} for number in range(40)]
    described = {"analysis_type": "statistics", "data": rows, "parameters": {"operation": "describe"}}
    tested = described | {"parameters": {"operation": "t_test", "field": "v", "group_by": "team"}}
    async with WALLS[name][0]() as sandbox:
        plain = await sandbox.run(RUN, context={"request": described})
        loaded = await sandbox.run("import sys\n'scipy' in sys.modules")
        outcome = await sandbox.run(RUN, context={"request": tested})

    assert (plain.failure, plain.output) == (None, "")
    if name == "hardened":
        assert outcome.failure is not None
        # Without control groups the memory of a run is a limit of its address space, which is looked at first.
        reasons = ("which this sandbox does not", "which needs 320 MiB of address space")
        assert outcome.failure.message.startswith(
            tuple(f"Hypothesis tests are computed by SciPy, {reason}" for reason in reasons)
        )
        return
    assert loaded.result is False
    assert (outcome.failure, outcome.output) == (None, "")
    assert outcome.result["p_value"] == pytest.approx(0.9378800143398154)
