"""An analysis through the whole gateway: nothing private in its words, nothing of others, no end to its limits."""

import asyncio
import contextlib
import csv
import io
import json
import statistics
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import Kept

from sealyard.broker.policy import PolicySettings, Rule, ToolLimits
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.errors import InvalidRequest
from sealyard.metrics import tokens
from sealyard.sandbox.policy import DEFAULT
from sealyard.testing import FakeUpstream
from sealyard.values.access import Approval
from sealyard.values.runs import Result
from sealyard.yard import AnalyzeRequest, ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

NOTE = "x" * 30 + " write to xaver.quast@example.com or call +1 415 555 0134 now, please " + "z" * 300
ASKED = PolicySettings(
    rules=(
        Rule(tools=("mcp__notes__drop_notes",), decision="deny"),
        Rule(tools=("mcp__notes__move_notes",), decision="ask"),
    )
)


def list_notes(page: int = 0) -> list[dict[str, Any]]:
    """List the notes."""
    return [{"id": number, "note": NOTE, "tags": [NOTE], "more": {"inner": NOTE}} for number in range(3)]


def drop_notes() -> list[dict[str, Any]]:
    """Delete all notes."""
    return [{"id": 1}]


def move_notes() -> list[dict[str, Any]]:
    """Move all notes."""
    return [{"id": 2}]


def wide() -> list[dict[str, Any]]:
    """Rows of very many fields."""
    return [{f"field {number}": number for number in range(20_000)} for _ in range(3)]


def many() -> list[dict[str, Any]]:
    """Many rows of one key."""
    return [{"key": 1, "id": number} for number in range(3_000)]


@contextlib.asynccontextmanager
async def opened(folder: Path, *, privacy: Any = "off", policy: PolicySettings | None = None) -> AsyncIterator[Yard]:
    """A yard over a server of notes."""
    server = FakeUpstream(
        "notes", list_notes=list_notes, drop_notes=drop_notes, move_notes=move_notes, wide=wide, many=many
    )
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        privacy=PrivacyConfig(mode=privacy),
        policy=policy or PolicySettings(),
    )
    async with open_yard(config, policy=PLAIN, upstreams={"notes": server}) as yard:
        yield yard


@contextlib.asynccontextmanager
async def anywhere(privacy: str = "off") -> AsyncIterator[Yard]:
    """One that several tests share, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder), privacy=privacy) as yard:
            yield yard


async def ask(yard: Yard, kind: str, *, principal: str = "alice", **asked: Any) -> Result:
    """Ask something."""
    return await yard.analyze(AnalyzeRequest(analysis_type=kind, **asked), principal=principal)


async def write(yard: Yard, name: str, content: str | bytes, principal: str = "alice") -> None:
    """Put a file into the workspace."""
    data = content if isinstance(content, bytes) else content.encode()
    code = f"open({name!r}, 'wb').write(bytes.fromhex({data.hex()!r}))"
    outcome = (await yard.execute(ExecuteRequest(code=code), principal=principal)).outcome
    assert outcome.status == "ok"


def tool(name: str, **more: Any) -> dict[str, Any]:
    """The rows of a tool."""
    return {"tool": f"mcp__notes__{name}", **more}


# Nothing private in its words


@pytest.mark.parametrize("mode", ["strict", "output"])
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("transform", {"steps": [{"cast": {"note": "int"}}]}),
        ("transform", {"steps": [{"compute": {"x": "note * 2"}}]}),
        ("transform", {"steps": [{"compute": {"x": "tags * 2"}}]}),
        ("transform", {"steps": [{"compute": {"x": "more + 1"}}]}),
        ("transform", {"steps": [{"compute": {"x": "days_between(note, note)"}}]}),
        ("transform", {"steps": [{"explode": "more"}]}),
        ("transform", {"steps": [{"pivot": {"index": "id", "columns": "note", "values": "id", "function": "sum"}}]}),
        ("aggregate", {"aggregations": [{"function": "sum", "field": "note"}]}),
        ("aggregate", {"group_by": ["note"], "aggregations": [{"function": "count"}]}),
        ("validate", {"rules": [{"field": "note", "max_length": 3}, {"field": "more", "type": "number"}]}),
        ("validate", {"rules": [{"field": "note", "unique": True}, {"check": "note == 1"}]}),
        ("statistics", {"operation": "describe"}),
        ("statistics", {"operation": "percentiles", "field": "note"}),
        ("statistics", {"operation": "chi_square", "field": "note"}),
        ("statistics", {"operation": "t_test", "field": "id", "group_by": "note"}),
        ("filter", {"conditions": [{"field": "note.inner", "operator": "==", "value": 1}]}),
        ("filter", {"conditions": [{"field": NOTE[:50], "operator": "==", "value": 1}]}),
    ],
)
async def test_no_part_of_something_private_is_in_an_answer_or_a_message(
    kept: Kept, mode: str, kind: str, parameters: dict[str, Any]
) -> None:
    """Long values are named by their size: half of a private one is private too."""
    yard = await kept(anywhere, mode)
    result = await ask(yard, kind, source=tool("list_notes"), parameters=parameters)
    record = await yard.store.find_execution(result.outcome.execution_id)

    text = msgspec.json.encode([result, record]).decode()
    for part in ("quast", "@exam", "555 01"):
        assert part not in text, result.text
    if "conditions" not in parameters:  # there it was written by the agent itself
        assert "xaver" not in text, result.text


# Nothing of others, and nothing past the policy


async def test_files_are_those_of_the_own_session(tmp_path: Path) -> None:
    """Of another principal or another session there is not even a name."""
    async with opened(tmp_path) as yard:
        await write(yard, "alices.csv", "a\n1\n")
        mine = await ask(yard, "filter", source={"workspace": "alices.csv"})
        others = await ask(yard, "filter", source={"workspace": "alices.csv"}, principal="bob")
        elsewhere = await ask(yard, "filter", source={"workspace": "alices.csv"}, session="two")
        paths = ["../alices.csv", "/workspace/../etc/hosts.csv", "/proc/self/environ.csv", "/servers/notes/wide.json"]
        outside = [await ask(yard, "filter", source={"workspace": path}) for path in paths]

    assert mine.outcome.result["rows"] == [{"a": 1}]
    for result in (others, elsewhere):
        assert result.is_error
        assert "There:" not in result.text
    assert all(result.is_error for result in outside)


async def test_the_policy_holds_for_a_source(tmp_path: Path) -> None:
    """What is denied does not exist, and is not called as a second set either."""
    async with opened(tmp_path, policy=ASKED) as yard:
        first = await ask(yard, "filter", source=tool("drop_notes"))
        join = {"source": tool("drop_notes"), "on": "id"}
        second = await ask(yard, "transform", source=tool("list_notes"), parameters={"steps": [{"join": join}]})
        upstream = yard.tools.upstreams["notes"]
        assert isinstance(upstream, FakeUpstream)
        called = [name for name, _ in upstream.calls]

    assert first.is_error
    assert second.is_error
    assert "drop_notes" not in called


async def test_a_person_is_asked_about_a_source(tmp_path: Path) -> None:
    """And what that person says is done."""
    async with opened(tmp_path, policy=ASKED) as yard:
        for decision in ("once", "refuse"):
            async with yard.live.follow() as live:
                task = asyncio.create_task(ask(yard, "filter", source=tool("move_notes")))
                async for event in live:
                    if event.kind == "asked":
                        answer = Approval(decision=decision, by="me", channel="http", answered_at=event.at)
                        await yard.approvals.answer(event.body["id"], answer)
                        break
                result = await task
            assert result.is_error == (decision == "refuse"), result.text


async def test_the_limits_of_a_tool_hold_for_a_source(tmp_path: Path) -> None:
    """One call in a run is one call, whatever the sets that ask for more."""
    limits = (ToolLimits(tools=("mcp__notes__list_notes",), calls_per_run=1),)
    async with opened(tmp_path, policy=PolicySettings(limits=limits)) as yard:
        join = {"source": tool("list_notes", arguments={"page": 1}), "on": "id"}
        result = await ask(yard, "transform", source=tool("list_notes"), parameters={"steps": [{"join": join}]})

    assert result.is_error
    assert "LimitReached" in result.text


# Its limits hold

BOMBS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a pattern": (
        "filter",
        {"data": [{"a": "a" * 40 + "!"}]},
        {"conditions": [{"field": "a", "operator": "matches", "value": "(a+)+$"}]},
    ),
    "a join": ("transform", {"source": tool("many")}, {"steps": [{"join": {"source": tool("many"), "on": "key"}}]}),
    "a pivot": (
        "transform",
        {"source": tool("many")},
        {"steps": [{"pivot": {"index": "id", "columns": "id", "values": "id", "function": "sum"}}]},
    ),
    "an explosion": (
        "transform",
        {"data": [{"a": list(range(2_000)), "b": list(range(2_000)), "c": list(range(2_000))}]},
        {"steps": [{"explode": "a"}, {"explode": "b"}, {"explode": "c"}]},
    ),
    "a power": ("transform", {"data": [{"a": 9}]}, {"steps": [{"compute": {"b": "a ** a ** a ** a ** a ** a"}}]}),
    "wide rows": ("statistics", {"source": tool("wide")}, {"operation": "correlation"}),
    "wide rows described": ("statistics", {"source": tool("wide")}, {"operation": "describe"}),
    "buckets": (
        "statistics",
        {"data": [{"t": "0001-01-01", "v": 1}, {"t": "9999-01-01", "v": 2}]},
        {"operation": "resample", "time": "t", "every": "second", "aggregations": [{"function": "sum", "field": "v"}]},
    ),
    "bins": ("statistics", {"data": [{"v": 1}, {"v": 2}]}, {"operation": "histogram", "field": "v", "bins": 10**9}),
    "a window": (
        "statistics",
        {"source": tool("many")},
        {"operation": "rolling", "field": "id", "window": 10**12, "time": "id"},
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_bomb_ends_within_its_limits_and_answers_in_few_words(kept: Kept, bomb: str) -> None:
    """The gateway goes on, and what is said fits the budget."""
    kind, rows, parameters = BOMBS[bomb]
    yard = await kept(anywhere)
    result = await ask(yard, kind, parameters=parameters, timeout_seconds=3, **rows)
    after = await ask(yard, "filter", data=[{"a": 1}])

    assert tokens.count(result.text) <= yard.runner.result_tokens
    assert result.outcome.status in ("ok", "failed", "timeout", "limit")
    if result.outcome.failure is not None:
        assert result.outcome.failure.kind in ("exception", "wall_time", "cpu_time", "memory")
        assert result.outcome.failure.type in ("AnalysisError", "WallTimeExceeded", "CpuTimeExceeded", "MemoryExceeded")
    assert not after.is_error


async def test_an_answer_never_floods_the_context(tmp_path: Path) -> None:
    """Whatever a row is made of, and all rows are in a file that the next analysis can read."""
    rows = [{"id": number, "text": "é😀漢" * 40, "more": {"a" * 50: [number] * 30}} for number in range(150)]
    async with opened(tmp_path) as yard:
        result = await ask(yard, "filter", data=rows)
        answer = result.outcome.result
        again = await ask(
            yard,
            "aggregate",
            source={"workspace": answer["file"]},
            parameters={"aggregations": [{"function": "count", "as": "n"}]},
        )
        one = await ask(yard, "filter", data=[{"a": "😀" * 5_000}])

    assert tokens.count(result.text) <= 2_000
    assert (answer["rows_in"], answer["rows_out"]) == (150, 150)
    assert again.outcome.result["rows"] == [{"n": 150}]
    assert tokens.count(one.text) <= 2_000
    assert one.outcome.result["file"].startswith("results/")


@pytest.mark.parametrize(
    "request_",
    [
        {"analysis_type": "drop"},
        {"analysis_type": "filter"},
        {"analysis_type": "filter", "data": [], "source": {"workspace": "a"}},
        {"analysis_type": "x" * 100_000, "data": []},
        {"analysis_type": "filter", "data": [], "timeout_seconds": 100_000.0},
        {"analysis_type": "filter", "data": [], "session": "../other"},
    ],
)
async def test_a_wrong_request_is_told_before_anything_is_run(kept: Kept, request_: dict[str, Any]) -> None:
    """In a sentence of bounded length."""
    yard = await kept(anywhere)
    with pytest.raises(InvalidRequest) as caught:
        await yard.analyze(AnalyzeRequest(**request_), principal="alice")

    assert len(str(caught.value)) < 500


# Its answers are right at the edges

CELLS = [
    "",
    " ",
    "1",
    "01",
    "1.0",
    "1e3",
    "NaN",
    "null",
    "true",
    'a "quoted", cell',
    "two\nlines",
    "größer",
    "=1+1",
    "-0",
]


async def test_cells_of_csv_are_what_a_reader_of_csv_says(tmp_path: Path) -> None:
    """With a byte order mark, quoted line ends, and text that only looks like numbers."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "cell"])
    writer.writerows((f"id {number}", cell) for number, cell in enumerate(CELLS))
    async with opened(tmp_path) as yard:
        await write(yard, "cells.csv", b"\xef\xbb\xbf" + out.getvalue().encode())
        rows = (await ask(yard, "filter", source={"workspace": "cells.csv"})).outcome.result["rows"]

    read = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [row["id"] for row in rows] == [row["id"] for row in read]
    assert [row["cell"] for row in rows] == [row["cell"] or None for row in read]


@pytest.mark.parametrize("content", ["a,a,b\n1,2,3\n", "a,,b\n1,2,3\n", "a,b\n1,2,3\n", "a,b\n1\n", '"a\n1\n'])
async def test_a_table_with_an_unclear_shape_loses_nothing_in_silence(tmp_path: Path, content: str) -> None:
    """Columns of one name, without one, too many or too few: all values are there, or it is refused."""
    async with opened(tmp_path) as yard:
        await write(yard, "odd.csv", content)
        result = await ask(yard, "filter", source={"workspace": "odd.csv"})

    if result.is_error:
        assert result.outcome.failure is not None
        assert result.outcome.failure.type == "AnalysisError"
    else:
        told = json.dumps(result.outcome.result["rows"])
        assert all(value in told for value in content.split("\n")[1].split(",") if value)


@pytest.mark.parametrize("name", ["empty.csv", "empty.json", "empty.jsonl"])
async def test_an_empty_file_has_no_rows_or_is_refused(tmp_path: Path, name: str) -> None:
    """And is no crash."""
    async with opened(tmp_path) as yard:
        await write(yard, name, "")
        result = await ask(yard, "filter", source={"workspace": name})

    if result.is_error:
        assert result.outcome.failure is not None
        assert result.outcome.failure.type == "AnalysisError"
    else:
        assert result.outcome.result["rows_in"] == 0


async def test_sums_of_mixed_and_missing_values_are_those_of_python(tmp_path: Path) -> None:
    """Big whole numbers stay exact, null counts for nothing, and 1 and 1.0 are one number."""
    rows: list[dict[str, Any]] = [
        {"g": "a", "v": 2**70},
        {"g": "a", "v": 1},
        {"g": "a", "v": None},
        {"g": "a"},
        {"g": None, "v": 10},
        {"g": None, "v": 20},
        {"v": 30},
        {"g": 1, "v": -5},
        {"g": 1.0, "v": 7},
        {"g": True, "v": 3},
        {"g": "1", "v": 4},
        {"g": "ä", "v": 8},
        {"g": "a\u0308", "v": 9},
    ]
    functions = ["count", "sum", "min", "max", "mean"]
    async with opened(tmp_path) as yard:
        result = await ask(
            yard,
            "aggregate",
            data=rows,
            parameters={
                "group_by": ["g"],
                "aggregations": [{"function": each, "field": "v", "as": each} for each in functions],
            },
        )
        got = result.outcome.result["rows"]

    def expected(name: Any, values: list[Any]) -> dict[str, Any]:
        mean = pytest.approx(statistics.fmean(values))
        return {
            "g": name,
            "count": len(values),
            "sum": sum(values),
            "min": min(values),
            "max": max(values),
            "mean": mean,
        }

    assert got == [
        expected("a", [2**70, 1]),
        expected(None, [10, 20, 30]),
        expected(1, [-5, 7]),
        expected(True, [3]),
        expected("1", [4]),
        expected("ä", [8]),
        expected("a\u0308", [9]),
    ]
    assert type(got[0]["sum"]) is int
    assert got[3]["g"] is True
