"""`sealyard bench discovery` as a user meets it."""

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

TOOLS = [
    {"id": "zoo/feed", "server": "zoo", "name": "feed_animal", "description": "Feed an animal.", "input_schema": {}},
    {"id": "zoo/open", "server": "zoo", "name": "open_gate", "description": "Open a gate.", "input_schema": {}},
    {"id": "zoo/count", "server": "zoo", "name": "count_visitors", "description": None, "input_schema": None},
]
POOL = [{"id": "farm/feed", "server": "farm", "name": "feed", "description": "Feed", "input_schema": {}}]
QUERIES = [
    {"qid": "1", "query": "feed", "relevant": ["zoo/feed"]},
    {"qid": "2", "query": "open the gate and count the visitors", "relevant": ["zoo/open", "zoo/count"]},
    {"qid": "3", "query": "quagga", "relevant": ["zoo/feed"]},
]


def write(file: Path, *rows: Any) -> None:
    """One JSON value a line; a string is a line as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A set of three tools and a pool of one."""
    write(tmp_path / "zoo" / "tools.jsonl", *TOOLS)
    write(tmp_path / "zoo" / "queries.jsonl", *QUERIES)
    write(tmp_path / "pool" / "tools.jsonl", *POOL)
    return tmp_path


def test_each_set_is_measured_alone_and_with_the_pools(sealyard: Command, data: Path) -> None:
    """Two of three queries are answered; the pool's tool of the exact name takes one first place."""
    done = sealyard("bench", "discovery", "--data", str(data), "--json")

    figures = json.loads(done.stdout)
    second = (1 / math.log2(3) + 1 + 0) / 3
    assert figures["sets"] == {
        "zoo": {"hit@1": 2 / 3, "hit@5": 2 / 3, "ndcg@10": 2 / 3, "tools": 3, "queries": 3},
        "zoo+pool": {"hit@1": 1 / 3, "hit@5": 2 / 3, "ndcg@10": pytest.approx(second), "tools": 4, "queries": 3},
    }
    assert figures["mean"] == {"hit@1": 0.5, "hit@5": 2 / 3, "ndcg@10": pytest.approx((2 / 3 + second) / 2)}
    assert set(figures) == {"sets", "mean", "index_seconds", "query_ms_p50", "query_ms_p95"}
    assert 0 < figures["query_ms_p50"] <= figures["query_ms_p95"]
    assert done.returncode == 0


def test_table_shows_the_same_sets(sealyard: Command, data: Path) -> None:
    """Without --json a person reads it."""
    lines = sealyard("bench", "discovery", "--data", str(data)).stdout.splitlines()

    assert [line.split()[0] for line in lines[:4]] == ["set", "zoo", "zoo+pool", "mean"]
    assert lines[1].split() == ["zoo", "0.667", "0.667", "0.667", "3", "3"]


def test_without_a_pool_each_set_is_measured_once(sealyard: Command, data: Path) -> None:
    """There is nothing to add."""
    (data / "pool" / "tools.jsonl").unlink()

    figures = json.loads(sealyard("bench", "discovery", "--data", str(data), "--json").stdout)

    assert set(figures["sets"]) == {"zoo"}


def test_line_that_is_not_json_is_named(sealyard: Command, data: Path) -> None:
    """File and line, so that it can be found among thousands."""
    file = data / "zoo" / "tools.jsonl"
    write(file, TOOLS[0], "{broken", TOOLS[1])

    done = sealyard("bench", "discovery", "--data", str(data))

    assert done.stderr.startswith(f"error: {file}, line 2: ")
    assert done.returncode == 2


def test_row_without_a_name_is_named(sealyard: Command, data: Path) -> None:
    """Valid JSON of the wrong shape is as wrong."""
    file = data / "pool" / "tools.jsonl"
    write(file, {"id": "x", "server": "y"})

    done = sealyard("bench", "discovery", "--data", str(data))

    assert done.stderr.startswith(f"error: {file}, line 1: ")
    assert done.returncode == 2


def test_relevant_id_that_no_tool_has_is_named(sealyard: Command, data: Path) -> None:
    """A wrong label would count as a miss for ever."""
    file = data / "zoo" / "queries.jsonl"
    write(file, QUERIES[0], {"qid": "2", "query": "x", "relevant": ["zoo/open", "zoo/none"]})

    done = sealyard("bench", "discovery", "--data", str(data))

    assert done.stderr == (
        f"error: {file}, line 2: 'zoo/none' is relevant, but no tool in tools.jsonl has that id. "
        "Correct the id or add the tool.\n"
    )
    assert done.returncode == 2


def test_set_without_queries_is_refused(sealyard: Command, data: Path) -> None:
    """There is nothing to divide by."""
    write(data / "zoo" / "queries.jsonl")

    done = sealyard("bench", "discovery", "--data", str(data))

    assert done.stderr == (
        f"error: {data / 'zoo' / 'queries.jsonl'} holds no query. "
        "Add one, or remove the file to make the folder a pool.\n"
    )
    assert done.returncode == 2


def test_folder_without_a_set_is_refused(sealyard: Command, tmp_path: Path) -> None:
    """The message says what is looked for."""
    done = sealyard("bench", "discovery", "--data", str(tmp_path))

    assert done.stderr == (
        f"error: No folder in {str(tmp_path)!r} holds tools.jsonl and queries.jsonl. Name one that does.\n"
    )
    assert done.returncode == 2


def test_missing_folder_is_refused(sealyard: Command, tmp_path: Path) -> None:
    """Before anything is measured."""
    done = sealyard("bench", "discovery", "--data", str(tmp_path / "none"))

    assert done.returncode == 2
    assert str(tmp_path / "none") in done.stderr
