"""Usage: what the store tells of tools, combinations, principals, code and skills is exact and bounded."""

import asyncio
import sqlite3
import statistics
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.metrics import Prices, Report
from sealyard.store import open_store
from sealyard.store.metrics import Usage, usage
from sealyard.store.metrics.usage import CodeUsage, CombinationUsage, PrincipalUsage, SkillUsage, ToolUsage
from sealyard.values.facts import Executed, Fact, Saw, Searched
from sealyard.values.runs import CallRecord, ExecutionRecord
from sealyard.values.skills import SkillUse

NOTHING = CodeUsage(runs=0, mean_characters=None, p50_characters=None, p95_characters=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "store.db"


def call(at: float, seconds: float = 0.5, tool: str = "pay", **changes: Any) -> CallRecord:
    """A call of the execution `e1`, but for the changes."""
    known: dict[str, Any] = {"execution_id": "e1", "number": 1, "digest": "d", "arguments": {}, "upstream": "bank"}
    return CallRecord(tool=f"mcp__bank__{tool}", started_at=at, seconds=seconds, **known | changes)


def run(at: float, *tools: str, **changes: Any) -> Executed:
    """An execution that is over, but for the changes."""
    known: dict[str, Any] = {"form": "code", "status": "ok", "seconds": 1.0, "use_case": "workflow"}
    return Executed(at=at, tools=tools, calls=len(tools), **known | changes)


def search(at: float, **changes: Any) -> Searched:
    """A search by an agent."""
    return Searched(at=at, search_id="s", place="agent", detail_level="full", seconds=0.01, **changes)


async def read(
    path: Path,
    records: Iterable[CallRecord | ExecutionRecord | Fact | SkillUse],
    since: float = 0.0,
    until: float = 1e10,
    principal: str | None = None,
) -> Usage:
    """The usage of a store that holds these."""
    async with open_store(path) as store:
        for record in records:
            if isinstance(record, CallRecord):
                store.record_call(record)
            elif isinstance(record, ExecutionRecord):
                store.record_start(record)
            elif isinstance(record, SkillUse):
                store.skills.record_uses([record])
            else:
                store.metrics.record(record)
        await store.flush()
        return await store.metrics.usage(since, until, principal)


async def test_empty_store_has_no_usage(path: Path) -> None:
    """Nothing is divided by nothing."""
    assert await read(path, []) == Usage(
        since=0.0, until=1e10, tools=(), combinations=(), principals=(), code=NOTHING, use_cases={}, skills=()
    )


async def test_tools_are_counted_by_version(path: Path) -> None:
    """Calls, errors, percentiles that are values which occurred, and the last use; the busiest first."""
    calls = [call(100.0 + n, seconds=float(n)) for n in range(1, 101)]
    newer = [call(300.0, version="2.0.0", error="ToolFailed: no"), call(299.0, version="2.0.0")]
    found = await read(path, [*newer, *calls, call(50.0, tool="list", upstream="")])

    assert found.tools == (
        ToolUsage(
            tool="mcp__bank__pay", upstream="bank", version="1.0.0", calls=100, errors=0, refused=0,
            p50_seconds=50.0, p95_seconds=95.0, last_at=200.0,
        ),
        ToolUsage(
            tool="mcp__bank__pay", upstream="bank", version="2.0.0", calls=2, errors=1, refused=0,
            p50_seconds=0.5, p95_seconds=0.5, last_at=300.0,
        ),
        ToolUsage(
            tool="mcp__bank__list", upstream="", version="1.0.0", calls=1, errors=0, refused=0,
            p50_seconds=0.5, p95_seconds=0.5, last_at=50.0,
        ),
    )  # fmt: skip


async def test_call_from_before_tools_had_versions_counts_as_the_first(path: Path) -> None:
    """As the journal shows it."""
    async with open_store(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO calls (execution_id, number, tool, digest, arguments_cut, answer_cut, answer_bytes,"
            " started_at, seconds) VALUES ('e0', 1, 'mcp__bank__pay', 'd', 0, 0, 0, 1.0, 0.5)"
        )

    assert [(each.version, each.upstream) for each in (await read(path, [])).tools] == [("1.0.0", "")]


async def test_window_holds_its_start_and_not_its_end(path: Path) -> None:
    """Neighbouring windows count everything once."""
    records = [call(at) for at in (9.0, 10.0, 19.5, 20.0)] + [run(at) for at in (9.0, 10.0, 19.5, 20.0)]
    found = await read(path, records, 10.0, 20.0)

    assert [each.calls for each in found.tools] == [2]
    assert [each.executions for each in found.principals] == [2]
    assert (found.since, found.until) == (10.0, 20.0)


async def test_combinations_are_of_two_tools_or_more(path: Path) -> None:
    """With how many of those runs ended well."""
    found = await read(
        path, [run(1.0, "a", "b"), run(2.0, "a", "b", status="failed"), run(3.0, "a"), run(4.0, "b", "c"), run(5.0)]
    )

    assert found.combinations == (
        CombinationUsage(tools=("a", "b"), runs=2, ok=1),
        CombinationUsage(tools=("b", "c"), runs=1, ok=1),
    )
    assert found.use_cases == {"workflow": 5}


async def test_principals_have_their_visits_runs_and_searches(path: Path) -> None:
    """A visit that began before the window counts in no share."""
    found = await read(
        path,
        [
            Saw(at=1.0, principal="ada", session="v0", event="begin"),
            Saw(at=10.0, principal="ada", session="v1", event="begin"),
            Saw(at=11.0, principal="ada", session="v1", event="code"),
            Saw(at=11.0, principal="ada", session="v0", event="code"),
            Saw(at=12.0, principal="ada", session="v2", event="begin"),
            run(11.0, "a", "b", principal="ada"),
            run(12.0, "a", principal="ada", status="timeout"),
            search(13.0, principal="ada"),
            search(14.0, principal="eve"),
        ],
        since=5.0,
    )

    assert found.principals == (
        PrincipalUsage(principal="ada", sessions=2, executions=2, failed=1, searches=1, calls=3, code_share=0.5),
        PrincipalUsage(principal="eve", sessions=0, executions=0, failed=0, searches=1, calls=0, code_share=None),
    )


async def test_code_is_measured_without_analyses_and_calls(path: Path) -> None:
    """They have no code of the agent's."""
    lengths = [run(1.0, code_characters=n) for n in (10, 20, 30, 40)]
    others = [run(2.0, form="analysis", use_case="analysis"), run(2.0, form="call", use_case="direct")]
    found = await read(path, [*lengths, *others])

    assert found.code == CodeUsage(runs=4, mean_characters=25.0, p50_characters=20, p95_characters=40)
    assert found.use_cases == {"workflow": 4, "analysis": 1, "direct": 1}


async def test_skills_are_counted_by_version(path: Path) -> None:
    """Runs that used it, and calls of it that failed."""
    uses = [
        SkillUse(namespace="ada", name="total", version=version, execution_id=run, principal="ada", at=at, calls=2,
                 failures=failures, seconds=0.1)
        for version, run, at, failures in (("1.0.0", "e1", 1.0, 1), ("1.0.0", "e2", 2.0, 0), ("1.1.0", "e3", 3.0, 2))
    ]  # fmt: skip

    assert (await read(path, uses, until=3.0)).skills == (
        SkillUsage(namespace="ada", name="total", version="1.0.0", uses=2, failures=1),
    )


async def test_principal_sees_nothing_of_others(path: Path) -> None:
    """Neither their calls nor their runs, searches, visits and skills."""
    runs = [
        ExecutionRecord(execution_id=name, principal=who, session="s", code="1", started_at=1.0)
        for name, who in (("e1", "ada"), ("e2", "eve"))
    ]
    records = [
        *runs,
        call(1.0),
        call(2.0, tool="secret", execution_id="e2"),
        call(2.0, tool="orphan", execution_id="none"),
        run(1.0, "a", "b", principal="ada"),
        run(1.0, "x", "y", principal="eve", use_case="polling", code_characters=9),
        search(1.0, principal="eve"),
        Saw(at=1.0, principal="eve", session="v", event="begin"),
        SkillUse(
            namespace="shared", name="total", version="1.0.0", execution_id="e2", principal="eve", at=1.0, calls=1
        ),
    ]
    found = await read(path, records, principal="ada")

    assert [each.tool for each in found.tools] == ["mcp__bank__pay"]
    assert found.combinations == (CombinationUsage(tools=("a", "b"), runs=1, ok=1),)
    assert [each.principal for each in found.principals] == ["ada"]
    assert (found.code.runs, found.code.p95_characters) == (1, 0)
    assert (found.use_cases, found.skills) == ({"workflow": 1}, ())


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=30))
def test_figures_of_a_tool_are_exact(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]) -> None:
    """Count, median and last time, also of many calls at one time."""
    path = tmp_path_factory.mktemp("usage") / "store.db"
    found = asyncio.run(read(path, [call(float(at), float(seconds)) for at, seconds in rows]))

    seconds = sorted(float(each) for _, each in rows)
    assert [(each.calls, each.p50_seconds, each.last_at) for each in found.tools] == (
        [(len(rows), statistics.median_low(seconds), float(max(at for at, _ in rows)))] if rows else []
    )


async def test_flood_of_rows_moves_the_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is bounded, and the answer says from when on it counts: over that time it is exact."""
    monkeypatch.setattr(usage, "MOST_ROWS", 10)
    found = await read(path, [call(float(at)) for at in range(100)] + [run(float(at)) for at in range(85, 100)])

    assert 89.0 < found.since < 90.0
    assert [each.calls for each in found.tools] == [10]
    assert [each.executions for each in found.principals] == [10]
    assert found == await read(path, [], since=found.since)


async def test_flood_of_names_is_cut(path: Path) -> None:
    """Code that calls ten thousand tools makes no answer of ten thousand lines."""
    records = [call(1.0, tool=f"t{number:03}") for number in range(150)]
    found = await read(
        path, [*records, *(run(1.0, "a", f"t{number:03}", principal=f"p{number}") for number in range(150))]
    )

    assert [len(each) for each in (found.tools, found.combinations, found.principals)] == [100, 100, 100]


async def test_usage_is_plain_json(path: Path) -> None:
    """What the HTTP API and the dashboard read."""
    found = msgspec.json.decode(msgspec.json.encode(await read(path, [call(1.0), run(1.0, "a", "b")])))

    assert list(found) == ["since", "until", "tools", "combinations", "principals", "code", "use_cases", "skills"]
    assert found["combinations"] == [{"tools": ["a", "b"], "runs": 1, "ok": 1}]


async def test_a_failed_call_is_the_same_to_tools_and_to_upstreams(path: Path) -> None:
    """What a gateway refused says nothing about a server: eight calls are not 37.5 % failed here and 0 % there."""
    refused = ["PolicyRefused: no", "InvalidArguments: no", "LimitReached: no", "The call was cancelled."]
    errors = [None, None, None, "ToolFailed: no", "UpstreamTimeout: no", *refused]
    calls = [call(10.0 + number, number=number, error=error) for number, error in enumerate(errors)]
    async with open_store(path) as store:
        for each in calls:
            store.record_call(each)
        await store.flush()
        (tool,) = (await store.metrics.usage(0.0, 1e10)).tools
        sums = await store.metrics.sums()

    upstream = Report.of(
        sums, since=None, until=None, prices=Prices(input=3.0, output=15.0), tokenizer="none"
    ).upstreams["bank"]
    assert (tool.calls, tool.errors, tool.refused) == (9, 2, 4)
    assert upstream.error_rate == tool.errors / (tool.calls - tool.refused)


async def test_a_fact_that_cannot_be_read_is_left_out(path: Path) -> None:
    """A fact of a newer version, or one that another program wrote, does not hide the usage of everything else."""
    async with open_store(path) as store:
        store.metrics.record(run(10.0, "a"))
        await store.flush()
    with closing(sqlite3.connect(path)) as connection:
        for odd in ("CAST(x'ff' AS TEXT)", "'{'", """'{"kind":"execution","at":11,"form":"newer","status":"ok"}'"""):
            connection.execute(
                "INSERT INTO facts (at, kind, principal, execution_id, fact)"
                f" VALUES (11.0, 'execution', 'local', '', {odd})"
            )
        connection.commit()

    async with open_store(path) as store:
        found = await store.metrics.usage(0.0, 1e10)

    assert [each.executions for each in found.principals] == [1]
