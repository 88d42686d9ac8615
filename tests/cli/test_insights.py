"""`sealyard insights` as a user meets it."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import warm
from tests.learned_journal import LIST, PAY, fill, record_run

from sealyard.store import open_store

Command = Callable[..., subprocess.CompletedProcess[str]]

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m"


def config(folder: Path, more: str = "") -> str:
    """A config over a store in `folder`."""
    path = folder / "sealyard.toml"
    path.write_text(f'[store]\npath = "store.db"\n{more}', encoding="utf-8")
    return str(path)


def lines(text: str) -> list[list[str]]:
    """The cells of each line of a table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]


def run_in_store(folder: Path, work: Callable[..., Any]) -> Any:
    """What `work` gives for the store of `config`."""

    async def opened() -> Any:
        async with open_store(folder / "store.db") as store:
            return await work(store)

    return asyncio.run(opened())


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The config of a store with ten runs of two principals."""
    run_in_store(tmp_path, fill)
    return config(tmp_path)


def assessed(found: dict[str, Any]) -> dict[str, int]:
    """The number of assessed runs of each level."""
    (risk,) = (part for part in found["parts"] if part["part"] == "risk")
    return {item["subject"]: item["checked"] for item in risk["items"] if item["kind"] == "risk"}


def test_what_was_learned_is_shown_with_how_often_it_was_right(installed: Command, file: str) -> None:
    """Each part with its counts, the calibration of risk, and what it is made of."""
    done = installed("insights", file)
    found = lines(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert found[0] == ["part", "learned", "from", "checked", "right"]
    # Of ten that were told that they would end well or fail, eight low ones and one high one did as they were told.
    assert ["risk", "10", "10", "90%", "Risk"] in [[row[0], *row[2:]] for row in found[1:8]]
    assert "learned from 10 facts, by all; half-life 30 days" in done.stdout
    assert "Of 8 runs assessed low, 0% failed; 10% was expected." in done.stdout
    assert "Of 2 runs assessed high, 50% failed; 75% was expected." in done.stdout


def test_an_empty_store_is_no_mistake(sealyard: Command, tmp_path: Path) -> None:
    """The first thing that somebody tries."""
    done = sealyard("insights", config(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert [row[:5] for row in lines(done.stdout)[1:8]] == [
        [part, "0", "0", "0", "-"]
        for part in ("ranking", "chains", "shapes", "failures", "risk", "skills", "resources")
    ]


def test_json_has_everything_and_a_part_by_itself_too(sealyard: Command, file: str) -> None:
    """One object; `--part` leaves the other parts out; `--rebuild` learns the same."""
    whole = json.loads(sealyard("insights", file, "--json").stdout)
    part = json.loads(sealyard("insights", file, "--json", "--part", "shapes").stdout)
    again = json.loads(sealyard("insights", file, "--json", "--rebuild").stdout)

    assert assessed(whole) == {"low": 8, "high": 2}
    assert (len(whole["parts"]), [each["part"] for each in part["parts"]]) == (7, ["shapes"])
    assert [(each["part"], each["learned"], each["checked"]) for each in whole["parts"]] == [
        (each["part"], each["learned"], each["checked"]) for each in again["parts"]
    ]
    assert {each["subject"] for each in part["parts"][0]["items"]} == {LIST, PAY}
    assert sealyard("insights", file, "--part", "shapes").stdout.startswith("shapes: 2 learned from 10")


def test_a_principal_is_shown_what_it_is_told_from(sealyard: Command, tmp_path: Path) -> None:
    """Learned apart, what is ann's is not in what is ben's; a name that nobody has is refused with the nearest."""
    run_in_store(tmp_path, fill)
    file = config(tmp_path, '[learning]\nscope = "principal"\n')
    ben = json.loads(sealyard("insights", file, "--principal", "ben", "--json").stdout)
    wrong = sealyard("insights", file, "--principal", "bem")

    assert (ben["partitions"], assessed(ben)) == (["ben"], {"low": 4, "high": 1})
    assert (wrong.returncode, wrong.stderr) == (2, "error: No principal is called 'bem'. Did you mean 'ben'?\n")


def test_forgetting_is_kept_and_audited(sealyard: Command, file: str) -> None:
    """What was learned of a principal is gone at the next look, and the log says who had it forgotten."""
    done = sealyard("insights", file, "--forget", "ann")
    after = sealyard("insights", file)
    found = json.loads(sealyard("insights", file, "--json").stdout)
    entries = run_in_store(Path(file).parent, lambda store: store.audit_entries(kind="learning.forget"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "forgotten: principal ann\n", "")
    assert re.search(r"^forgotten on \d{4}-\d\d-\d\d \d\d:\d\d UTC: principal ann$", after.stdout, re.MULTILINE)
    assert assessed(found) == {"low": 4, "high": 1}
    assert [(each["what"], each["subject"]) for each in found["forgotten"]] == [("principal", "ann")]
    assert [(each.principal, each.body) for each in entries] == [("local", {"what": "principal", "subject": "ann"})]


def test_all_is_forgotten_as_json(sealyard: Command, file: str) -> None:
    """One object that says what, and up to which fact."""
    done = json.loads(sealyard("insights", file, "--forget", "ALL", "--json").stdout)
    found = json.loads(sealyard("insights", file, "--json").stdout)

    assert (done["what"], done["subject"], done["number"]) == ("all", "", 10)
    assert [each["learned"] for each in found["parts"]] == [0] * 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--forget", "annn"], "error: Nothing was learned of 'annn'. Did you mean 'ann'?\n"),
        (["--forget", EVIL], f"error: Nothing was learned of {EVIL!r}. Give a tool, a principal, or ALL.\n"),
        (["--forget", "ALL", "--rebuild"], "--forget shows nothing. Leave out --part, --principal and --rebuild."),
        (["--part", "weather"], "'weather' is not one of"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_forgotten(
    sealyard: Command, file: str, arguments: list[str], message: str
) -> None:
    """In one sentence on what is wrong and one on what to do, and never as a command for the terminal."""
    done = sealyard("insights", file, *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "\x1b" not in done.stderr
    assert json.loads(sealyard("insights", file, "--json").stdout)["forgotten"] == []


def test_learning_that_is_off_is_said(sealyard: Command, tmp_path: Path) -> None:
    """What there is to see is what would be told."""
    done = sealyard("insights", config(tmp_path, "[learning]\nenabled = false\n"))

    assert done.returncode == 0
    assert done.stderr == "warning: learning is switched off by [learning] in the configuration\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_terminal_obeys_nothing_that_is_in_the_journal(tmp_path: Path, options: list[str]) -> None:
    """Names from upstreams and principals are spelled out where they are shown at all."""

    async def work(store: Any) -> None:
        for number in range(6):
            record_run(store, f"e{number}", principal=f"ann{EVIL}", tools=(f"mcp__bank__pay{EVIL}",))
        await store.learning.forget("principal", f"mal{EVIL}", 1.0)

    run_in_store(tmp_path, work)
    file = config(tmp_path, '[learning]\nscope = "principal"\n')
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*warm.python("-m", "sealyard"), "insights", file, *options],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"},
    )
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 65_536):
            text += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)

    assert process.wait(60) == 0
    assert b"owned" in text
    assert re.findall(rb"\x1b\]|\x1b\[2J|\x07|\xc2\x9b", text) == []


def test_part_that_fails_is_one_line_for_who_looks(file: str) -> None:
    """Nobody is shown the frames of what was left out: a line says which part failed, and the others are listed."""
    breaking = (
        "import sys\n"
        "from sealyard.cli import main\n"
        "from sealyard.learning.failures import Failures\n"
        "def learn(*given):\n"
        "    raise IndexError('tuple index out of range')\n"
        "Failures.learn = learn\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", breaking, "insights", file], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    first = "The part failures of learning failed at an event (1 so far). (IndexError: tuple index out of range)"
    assert done.stderr.splitlines()[0] == first
    assert lines(done.stdout)[0] == ["part", "learned", "from", "checked", "right"]
