"""`sealyard bench learning` as a user meets it. What the other parts measure is tested with them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

FILLERS = "swiftly gladly surely kindly boldly calmly firmly gently neatly rarely safely warmly".split()
ANIMALS = "lion zebra otter heron gecko bison".split()


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    """One JSON value a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_set(folder: Path, server: str, words: list[str]) -> None:
    """A set whose questions use words that no tool has: text cannot answer them, experience can."""
    tools = [
        {"id": f"{server}/{animal}", "server": server, "name": f"feed_{animal}", "description": "Give it food."}
        for animal in ANIMALS
    ]
    asked = [
        {"query": f"{word} {animal[::-1]}ish {filler}", "relevant": [f"{server}/{animal}"]}
        for animal, word in zip(ANIMALS, words, strict=True)
        for filler in FILLERS
    ]
    write(folder / "tools.jsonl", tools)
    write(folder / "queries.jsonl", asked)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two sets with nothing in common, and a pool of one."""
    write_set(tmp_path / "zoo", "zoo", ["roaring", "striped", "swimming", "wading", "climbing", "grazing"])
    write_set(tmp_path / "park", "park", ["amber", "ochre", "violet", "azure", "crimson", "teal"])
    pool = {"id": "farm/feed", "server": "farm", "name": "feed", "description": "Feed"}
    write(tmp_path / "pool" / "tools.jsonl", [pool])
    return tmp_path


def test_sets_are_replayed_through_a_journal(sealyard: Command, data: Path) -> None:
    """What text cannot find is found after half of the questions were asked, and nobody else's questions change."""
    done = sealyard("bench", "learning", "--part", "ranking", "--data", str(data), "--json")

    figures = json.loads(done.stdout)
    assert set(figures["sets"]) == {"zoo", "zoo+pool", "park", "park+pool"}
    for figure in figures["sets"].values():
        assert (figure["queries"], figure["history"]) == (216, 216)
        assert figure["hit_at_1"]["before"] == 0
        assert figure["ndcg_at_10"]["after"] > 0.9
        assert 0.5 < figure["ndcg_at_10"]["after_noisy"] <= figure["ndcg_at_10"]["after"]
        for way, change in figure["worst_split"].items():
            assert 0 < change <= figure["ndcg_at_10"][way] - figure["ndcg_at_10"]["before"]
    assert figures["worst_set_change"] > 0.9
    assert figures["worst_set_change_noisy"] > 0.5
    assert figures["worst_split_change"] == min(figure["worst_split"]["after"] for figure in figures["sets"].values())
    assert figures["unseen"] == {"park after zoo": 0.0, "zoo after park": 0.0}
    assert figures["unseen_change"] == 0.0
    assert figures["skipped"] == ["lookups", "hints", "shapes", "resources"]
    assert done.returncode == 0


def test_same_data_gives_the_same_figures(sealyard: Command, data: Path) -> None:
    """Chance has its seeds."""
    one, two = (
        sealyard("bench", "learning", "--part", "ranking", "--data", str(data), "--json").stdout for _ in range(2)
    )

    assert one == two


def test_without_data_search_is_left_out_and_that_is_said(sealyard: Command) -> None:
    """The cost of a lookup is measured on tools that are made up."""
    done = sealyard("bench", "learning", "--part", "ranking", "--part", "lookups", "--json")

    figures = json.loads(done.stdout)
    assert figures["sets"] == {}
    assert figures["worst_set_change"] is None
    assert figures["skipped"] == ["hints", "shapes", "resources", "ranking"]
    assert figures["lookups"]["tools"] == 1_500
    assert figures["lookup_ratio"] > 0


def test_table_says_what_is_promised_and_what_is_left_out(sealyard: Command, data: Path) -> None:
    """Without --json a person reads it."""
    shown = sealyard("bench", "learning", "--part", "ranking", "--data", str(data)).stdout
    left_out = sealyard("bench", "learning", "--part", "ranking").stdout

    assert [line.split()[0] for line in shown.splitlines()[1:5]] == ["park", "park+pool", "zoo", "zoo+pool"]
    assert "worst_set_change" in shown
    assert "Search is measured on sets: name their folder with --data." in " ".join(left_out.split())


def test_unknown_part_is_refused(sealyard: Command) -> None:
    """Before anything is measured."""
    assert sealyard("bench", "learning", "--part", "everything").returncode == 2


def test_broken_line_is_named(sealyard: Command, data: Path) -> None:
    """File and line, as in `bench discovery`."""
    file = data / "zoo" / "queries.jsonl"
    file.write_text("{broken\n")

    done = sealyard("bench", "learning", "--part", "ranking", "--data", str(data))

    assert done.stderr.startswith(f"error: {file}, line 1: ")
    assert done.returncode == 2
