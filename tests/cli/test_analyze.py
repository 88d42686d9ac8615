"""`sealyard analyze` as a user meets it: real sandbox, real files, a real upstream."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm

from sealyard.store import open_store

Command = Callable[..., subprocess.CompletedProcess[str]]

ROWS = [
    {"id": 1, "dept": "Sales", "amount": 120},
    {"id": 2, "dept": "IT", "amount": 80},
    {"id": 3, "dept": "Sales", "amount": 300},
]
CSV = "id,dept,amount\n1,Sales,120\n2,IT,80\n3,Sales,300\n"
EVIL = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def analyze(sealyard: Command, tmp_path: Path) -> Command:
    """Runs `sealyard analyze` with a store of the test's own and an upstream."""
    config = tmp_path / "sealyard.toml"
    command, *arguments = warm.python("-P", "-m", "sealyard.examples.expenses")
    config.write_text(
        f'[store]\npath = "store.db"\n[upstreams.expenses]\ncommand = {json.dumps(command)}\n'
        f"args = {json.dumps(arguments)}\n",
        encoding="utf-8",
    )
    return lambda *arguments, **options: sealyard("analyze", *arguments, "--config", str(config), **options)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The answer in the JSON that was printed."""
    result: dict[str, Any] = json.loads(done.stdout)["result"]
    return result


def save(path: Path, content: str) -> str:
    """A file with this content."""
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_file_is_filtered_by_short_options(installed: Command, tmp_path: Path) -> None:
    """A table for people, and the counts beside it."""
    config = save(tmp_path / "sealyard.toml", '[store]\npath = "store.db"\n')
    file = save(tmp_path / "rows.csv", CSV)
    done = installed(
        "analyze", "filter", "--config", config, "--file", file, "--where", "amount > 100", "--sort", "-amount",
        "--fields", "id,amount",
    )  # fmt: skip

    assert [line.split() for line in done.stdout.splitlines()] == [["id", "amount"], ["3", "300"], ["1", "120"]]
    assert (done.returncode, done.stderr) == (0, "3 rows in, 2 out (python).\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.json", json.dumps(ROWS)),
        ("rows.jsonl", "\n".join(json.dumps(row) for row in ROWS)),
        ("rows.csv", CSV),
        ("", json.dumps(ROWS)),
        ("", "\n".join(json.dumps(row) for row in ROWS)),
        ("", json.dumps({"rows": ROWS}, indent=1)),
        ("", json.dumps({"rows": ROWS})),
        ("", "\ufeff" + json.dumps(ROWS)),
        ("", "\ufeff" + "\n".join(json.dumps(row) for row in ROWS)),
        ("", "\n".join(json.dumps(row | {"note": "x" * 2_000}) for row in ROWS)),
        ("", CSV),
    ],
)
def test_formats_are_told_by_the_name_or_by_how_they_begin(
    analyze: Command, tmp_path: Path, name: str, content: str
) -> None:
    """Without a name, from standard input."""
    where = ("--file", save(tmp_path / name, content)) if name else ()
    done = analyze(
        "aggregate", *where, "--group-by", "dept", "--agg", "sum(amount)", "--agg", "count", "--sort", "dept", "--json",
        stdin=b"" if name else content.encode(),
    )  # fmt: skip

    assert answer(done)["rows"] == [
        {"dept": "IT", "sum_amount": 80, "count": 1},
        {"dept": "Sales", "sum_amount": 420, "count": 2},
    ]


def test_parameters_are_those_of_execute_analysis(analyze: Command, tmp_path: Path) -> None:
    """Inline or from a file."""
    file = save(tmp_path / "rows.json", json.dumps(ROWS))
    asked = '{"conditions": [{"field": "dept", "operator": "in", "value": ["IT"]}]}'
    kept = save(tmp_path / "asked.json", asked)

    inline = analyze("filter", "--file", file, "--parameters", asked, "--json")
    from_file = analyze("filter", "--file", file, "--parameters", f"@{kept}", "--json")
    assert answer(inline)["rows"] == answer(from_file)["rows"] == [ROWS[1]]


def test_tool_is_called_and_its_rows_stay_inside(analyze: Command) -> None:
    """What is printed is the answer, not five thousand expenses."""
    done = analyze(
        "aggregate", "--tool", "mcp__expenses__list_expenses", "--arguments", "{}", "--group-by", "department",
        "--agg", "count", "--json",
    )  # fmt: skip

    found = answer(done)
    assert found["rows_in"] == 5000
    assert sum(row["count"] for row in found["rows"]) == 5000
    assert len(done.stdout) < 10_000


def test_mistake_is_named_with_what_is_near(analyze: Command, tmp_path: Path) -> None:
    """In the engine's own words, without a traceback."""
    done = analyze("filter", "--file", save(tmp_path / "rows.csv", CSV), "--where", "ammount > 100")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "No field 'ammount' in the rows (conditions[0]). Nearest: 'amount'. Fields: 'id', 'dept', 'amount'.\n"
    )


def test_all_rows_can_be_written(analyze: Command, tmp_path: Path) -> None:
    """More than an answer shows, as JSON lines for this user alone; never over another file."""
    file = save(tmp_path / "rows.jsonl", "".join(f'{{"n": {n}}}\n' for n in range(500)))
    output = tmp_path / "out.jsonl"
    shown = analyze("filter", "--file", file, "--where", "n >= 100")
    done = analyze("filter", "--file", file, "--where", "n >= 100", "-o", str(output))
    again = analyze("filter", "--file", file, "-o", str(output))

    assert shown.stderr.endswith("500 rows in, 400 out, of which 100 are shown (python). All of them: -o FILE.\n")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 101)
    assert [json.loads(line)["n"] for line in output.read_text(encoding="utf-8").splitlines()] == list(range(100, 500))
    assert output.stat().st_mode & 0o777 == 0o600
    assert (again.returncode, again.stderr) == (2, f"error: {str(output)!r} exists already. Name another file.\n")


def test_private_values_of_a_file_are_hidden_in_every_output(analyze: Command, tmp_path: Path) -> None:
    """On the terminal, in JSON, and in the file with all rows: an agent may be the one who types the command."""
    rows = "".join(json.dumps({"n": n, "note": f"write to ada{n}@example.com"}) + "\n" for n in range(200))
    file, output = save(tmp_path / "rows.jsonl", rows), tmp_path / "out.jsonl"
    texts = [
        analyze("filter", "--file", file, "--limit", "3").stdout,
        analyze("filter", "--file", file, "--limit", "3", "--json").stdout,
        analyze("filter", "--file", file, "-o", str(output)).stdout,
        output.read_text(encoding="utf-8"),
    ]

    assert ["@example.com" in text for text in texts] == [False] * 4
    assert ["__PII_email_" in text for text in texts] == [True] * 4


def test_large_file_is_for_duckdb(analyze: Command, tmp_path: Path) -> None:
    """Chosen by itself; the answer is the same."""
    lines = "".join(f"{n},{'ab'[n % 2]},{n % 1000}\n" for n in range(400_000))
    done = analyze(
        "aggregate", "--file", save(tmp_path / "rows.csv", f"id,kind,amount\n{lines}"), "--group-by", "kind",
        "--agg", "sum(amount)", "--sort", "kind", "--json",
    )  # fmt: skip

    found = answer(done)
    assert (found["engine"], found["rows_in"]) == ("duckdb", 400_000)
    assert [row["sum_amount"] for row in found["rows"]] == [99_800_000, 100_000_000]


def test_file_is_never_read_outside_the_sandbox(analyze: Command, tmp_path: Path) -> None:
    """A request cannot name a path of this machine; only what was given is there."""
    secret = save(tmp_path / "secret.csv", "a\n1\n")
    file = save(tmp_path / "rows.csv", CSV)
    asked = json.dumps({"join": {"source": {"workspace": secret}, "on": "id"}})
    done = analyze("filter", "--file", file, "--parameters", asked)
    around = analyze("filter", "--file", file, "--parameters", asked.replace(secret, f"../../../..{secret}"))

    assert (done.returncode, around.returncode) == (1, 1)
    assert done.stdout + around.stdout == ""


def test_text_in_rows_commands_no_terminal(analyze: Command) -> None:
    """Neither in cells nor in the names of columns."""
    rows = json.dumps([{f"name{EVIL}": EVIL}])
    done = analyze("filter", stdin=rows.encode())

    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.count("\\x1b]0;owned\\x07") == 2


def test_request_is_recorded_as_an_analysis(analyze: Command, tmp_path: Path) -> None:
    """It counts, and not as a run of code."""
    analyze("filter", "--where", "n > 1", stdin=b'[{"n": 1}, {"n": 2}]')

    async def read() -> Any:
        async with open_store(tmp_path / "store.db") as store:
            return (await store.metrics.usage(0.0, 1e12)).use_cases

    assert asyncio.run(read()) == {"analysis": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sum",), "'sum' is not one of"),
        (("filter", "--parameters", "[1]"), "--parameters is '[1]', not a JSON object."),
        (("filter", "--parameters", "{"), "--parameters is not JSON:"),
        (("filter", "--parameters", "@/none.json"), "--parameters cannot be read:"),
        (("filter", "--arguments", "{}"), "Name it by --tool."),
        (("filter", "--file", os.devnull, "--tool", "t"), "Of --file and --tool, name one."),
        (("filter", "--file", "none.csv"), "does not exist"),
        (("filter", "--timeout", "1000"), "1000"),
    ],
)
def test_wrong_command_is_explained(analyze: Command, arguments: tuple[str, ...], words: str) -> None:
    """Before anything is started."""
    done = analyze(*arguments)

    assert done.returncode == 2
    assert words in done.stderr
