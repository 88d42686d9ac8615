"""What `sealyard bench analysis` compares is the same job, whoever does it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import analysis as bench_analysis
from sealyard.analysis.guest import run


def call_nothing(tool: str, arguments: dict[str, Any]) -> Any:
    """The job needs no tool."""
    raise AssertionError(tool)


@pytest.mark.parametrize("script", ["_PYTHON", "_PANDAS"])
def test_yardstick_gives_the_answer_of_the_analysis(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups, counts, sums and percentiles."""
    file = tmp_path / "rows.jsonl"
    bench_analysis._write_rows(file, 500)
    monkeypatch.chdir(tmp_path)
    request = {"analysis_type": "aggregate", "source": {"workspace": file.name}}
    if script == "_PANDAS":
        pytest.importorskip("pandas")

    answer = run(request | {"parameters": bench_analysis._PARAMETERS}, call_nothing)["rows"]
    _, by_hand = bench_analysis._by_hand(sys.executable, getattr(bench_analysis, script), file)

    assert len(answer) == len(bench_analysis._DEPARTMENTS)
    assert bench_analysis._alike(answer, by_hand)
    assert not bench_analysis._alike(answer, by_hand[1:])
