"""The benchmarks: each is listed with its options and promises, and the command runs it or says what is wrong."""

import importlib
import inspect
import json
import math
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import benchmarks
from benchmarks import audit, http, learning, tasks
from benchmarks.__main__ import BENCHMARKS
from benchmarks.tasks.scripts import Call, compose
from benchmarks.tasks.sides import SUITES
from benchmarks.tasks.talks import Talk

ROOT = Path(__file__).parent.parent
SHARED = {"__main__", "corpus", "migration", "tables", "yardsticks"}
"""Modules that are no benchmark of their own."""
NESTED = {"discovery", "privacy"}
"""Their figures are in groups, which the page names and the code does not promise one by one."""
TOOLS = [
    {"id": "zoo/feed", "server": "zoo", "name": "feed_animal", "description": "Feed an animal.", "input_schema": {}},
    {"id": "zoo/open", "server": "zoo", "name": "open_gate", "description": "Open a gate.", "input_schema": {}},
    {"id": "zoo/count", "server": "zoo", "name": "count_visitors", "description": None, "input_schema": None},
]
QUERIES = [
    {"query": "feed", "relevant": ["zoo/feed"]},
    {"query": "open the gate and count the visitors", "relevant": ["zoo/open", "zoo/count"]},
    {"query": "quagga", "relevant": ["zoo/feed"]},
]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs `python -m benchmarks` with these arguments as a contributor does."""
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


def write(file: Path, *rows: Any) -> None:
    """One JSON value a line; a string is a line as it is."""
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A set of three tools and a pool of one, whose name is a query of the set."""
    write(tmp_path / "zoo" / "tools.jsonl", *TOOLS)
    write(tmp_path / "zoo" / "queries.jsonl", *QUERIES)
    write(tmp_path / "pool" / "tools.jsonl", {"id": "farm/feed", "server": "farm", "name": "feed"})
    return tmp_path


def specified() -> dict[str, list[tuple[str, str]]]:
    """Figures and promises of the table that follows each "Shown by" of the page, by the benchmark it names."""
    text = (ROOT / "SPECIFICATION.md").read_text(encoding="utf-8")
    shown = re.findall(r"(?ms)^Shown by `\.venv/bin/python -m benchmarks (\w+)(.*?)(?=^Shown by|^## )", text)
    return {name: re.findall(r"^\| `(.+?) \| (.+?) \|", section, re.MULTILINE) for name, section in shown}


def test_every_benchmark_is_listed() -> None:
    """A module of the package is a command or shared by several."""
    modules = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}

    assert set(BENCHMARKS) == modules - SHARED


@pytest.mark.parametrize("name", BENCHMARKS)
def test_options_are_what_is_measured_with(name: str) -> None:
    """The function that measures takes each option of the command, and nothing else that it needs."""
    given = {option.name for option in BENCHMARKS[name][1]}
    parameters = inspect.signature(importlib.import_module(f"benchmarks.{name}").measure).parameters

    assert given == set(parameters)


def test_parts_of_learning_are_those_of_the_option() -> None:
    """The command offers each part, though it does not import them to say so."""
    _, parts = BENCHMARKS["learning"][1]

    assert isinstance(parts.type, click.Choice)
    assert tuple(parts.type.choices) == learning.PARTS


def test_suites_and_parts_of_tasks_are_those_of_the_options() -> None:
    """The command offers each, though it does not import them to say so."""
    suites, *_, parts = BENCHMARKS["tasks"][1]

    assert isinstance(suites.type, click.Choice)
    assert isinstance(parts.type, click.Choice)
    assert tuple(suites.type.choices) == SUITES
    assert tuple(parts.type.choices) == tasks.PARTS


def test_every_benchmark_has_its_figures_in_the_specification() -> None:
    """A promise that nothing shows, or a figure that nobody is told of, is noticed."""
    assert set(specified()) | {"fairness"} == set(BENCHMARKS)
    assert all(specified().values())


@pytest.mark.parametrize("name", sorted(set(BENCHMARKS) - NESTED - {"fairness"}))
def test_specification_has_the_promises_of_the_code(name: str) -> None:
    """Figure by figure, in the same order."""
    promises = importlib.import_module(f"benchmarks.{name}").PROMISES

    assert specified()[name] == [(f"{figure}`", promise) for figure, promise in promises.items()]


def test_fairness_is_promised_among_the_stalls() -> None:
    """It is measured alone and with them."""
    fairness, stalls = (importlib.import_module(f"benchmarks.{name}").PROMISES for name in ("fairness", "stalls"))

    assert fairness.items() <= stalls.items()


def test_figures_and_promises_of_a_run_are_printed() -> None:
    """As one JSON object, and as tables for a person."""
    printed, shown = run("audit", "--rounds", "1", "--json"), run("audit", "--rounds", "1")

    figures = json.loads(printed.stdout)
    assert (printed.returncode, printed.stderr, shown.returncode, shown.stderr) == (0, "", 0, "")
    assert figures["promises"] == audit.PROMISES
    assert min(figures[name] for name in audit.PROMISES) > 0
    assert re.findall(r"^(\w+) +[\d,.]+ +shown *$", shown.stdout, re.MULTILINE) == list(audit.PROMISES)


def test_whole_gateways_are_measured() -> None:
    """Over HTTP and in this process, with a journal and without: every figure is there."""
    done = run("http", "--rounds", "1", "--json")

    figures = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in http.PROMISES if not figures[name] > 0] == []
    assert figures["samples"]["10,000 expenses, without"]["count"] == 2


def test_tasks_are_judged_by_their_suite() -> None:
    """Whole gateways and suites: scripts do what the calls do, and the model sees no private value."""
    done = run("tasks", "--suite", "banking", "--tasks", "3", "--part", "tasks", "--json")

    figures = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert {name for name in tasks.PROMISES if name not in figures} == set()
    assert (figures["tasks"], figures["utility"], figures["utility_equal"], figures["not_equal"]) == (3, 1, 1, [])
    assert (figures["turns"], figures["plain_turns"]) == (3, 3)
    assert (figures["private_values_received"], figures["private_values_written"]) == (0, 0)
    assert figures["plain_private_values_received"] == 8
    assert list(figures["by_suite"]) == ["banking"]


def test_script_reads_what_it_can_instead_of_copying_it() -> None:
    """An argument comes from an earlier answer, from the middle of one, from the prompt, or is written down."""
    calls = [
        Call("list_bills", {"year": 2024}),
        Call("read_bill", {"name": "rent.txt"}),
        Call("pay", {"to": "DE89370400440532013000", "amount": 1200, "note": "Rent, rent.txt", "day": "today"}),
    ]
    answers = [
        [{"title": "food", "file": "food.txt"}, {"title": "rent", "file": "rent.txt"}],
        "Please pay to DE89370400440532013000, and soon.",
        None,
    ]
    private = {"DE89370400440532013000"}
    prompt = "Please pay 1200 for the rent in 2024."
    one = compose(calls, answers, prompt=prompt, private=private, result="a2", server="bank", known=())
    block = compose(calls[:2], answers[:2], prompt=prompt, private=private, result="a1", server="bank", known=None)

    entry = "[e for e in a0 if e['title'] == 'rent'][0]['file']"
    assert one.code.splitlines() == [
        "from servers.bank import list_bills, read_bill, pay",
        "a0 = list_bills(year=2024)",
        f"a1 = read_bill(name={entry})",
        f"a2 = pay(to=a1.split('o ', 1)[1].split(',', 1)[0], amount=1200, note='Rent, ' + {entry}, day='today')",
        "a2",
    ]
    assert one.sources == {"prompt": 2, "read": 3, "written": 1}
    assert block.code.splitlines() == [
        "a0 = (await call_tool('bank_list_bills', {'year': 2024}))['result']",
        f"a1 = (await call_tool('bank_read_bill', {{'name': {entry}}}))['result']",
        "return a1",
    ]


def test_every_turn_counts_what_was_said_before() -> None:
    """A context of 100 tokens is read three times, an answer twice; a later talk begins with what came before it."""
    talk = Talk(start=100, steps=[(1, 10), (2, 20), (4, 0)])

    assert (talk.turns, talk.tokens, talk.context) == (3, (100 + 1) + (111 + 2) + (133 + 4), 137)
    assert (talk.later(1).turns, talk.later(1).tokens) == (2, (111 + 2) + (133 + 4))


def test_sets_of_a_folder_are_measured_alone_and_with_the_pools(data: Path) -> None:
    """Two of three queries are answered; the pool's tool of the exact name takes one first place."""
    figures = json.loads(run("discovery", "--data", data, "--json").stdout)

    second = (1 / math.log2(3) + 1 + 0) / 3
    assert figures["sets"] == {
        "zoo": {"hit@1": 2 / 3, "hit@5": 2 / 3, "ndcg@10": 2 / 3, "tools": 3, "queries": 3},
        "zoo+pool": {"hit@1": 1 / 3, "hit@5": 2 / 3, "ndcg@10": pytest.approx(second), "tools": 4, "queries": 3},
    }
    assert set(figures) == {"sets", "mean", "index_seconds", "query_ms_p50", "query_ms_p95"}


def test_line_that_cannot_be_used_is_named(data: Path) -> None:
    """File and line, so that it can be found among thousands."""
    file = data / "zoo" / "queries.jsonl"
    write(file, QUERIES[0], {"query": "x", "relevant": ["zoo/open", "zoo/none"]})
    unknown = run("discovery", "--data", data)
    write(file, QUERIES[0], "{broken")
    broken = run("learning", "--part", "ranking", "--data", data)

    assert unknown.stderr == (
        f"error: {file}, line 2: 'zoo/none' is relevant, but no tool in tools.jsonl has that id. "
        "Correct the id or add the tool.\n"
    )
    assert broken.stderr.startswith(f"error: {file}, line 2: ")
    assert (unknown.returncode, unknown.stdout, broken.returncode, broken.stdout) == (2, "", 2, "")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["everything"], id="no such benchmark"),
        pytest.param(["audit", "--rounds", "0"], id="too few rounds"),
        pytest.param(["discovery"], id="no data"),
        pytest.param(["privacy", "--data", "/nowhere"], id="no such folder"),
        pytest.param(["learning", "--part", "everything"], id="no such part"),
    ],
)
def test_bad_request_is_refused_before_anything_is_measured(arguments: list[str]) -> None:
    """Status 2 and a line that says why, as of `sealyard`."""
    done = run(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: python -m benchmarks ")
    assert "\nError: " in done.stderr


@pytest.mark.parametrize("arguments", [[], ["calls", "--rounds", "5", "--json"]])
def test_product_says_where_benchmarks_are(arguments: list[str]) -> None:
    """The command that had them names the one that has them now, with the same arguments, and fails."""
    done = subprocess.run(
        [sys.executable, "-m", "sealyard", "bench", *arguments], capture_output=True, text=True, timeout=60, check=False
    )

    command = " ".join([".venv/bin/python -m benchmarks", *(arguments or ["--help"])])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: Benchmarks are not installed with sealyard, they are in its source tree. "
        f"Run `make setup` there, then `{command}`.\n"
    )
