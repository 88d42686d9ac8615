"""`sealyard demo` as a user meets it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sealyard.agent.scripted import PLAYED

Command = Callable[..., subprocess.CompletedProcess[str]]


def leftovers() -> set[str]:
    """What the demo would leave in the place for temporary files."""
    return {path.name for path in Path(tempfile.gettempdir()).glob("sealyard-demo-*")}


@pytest.mark.behaviour("cli.demo")
def test_demo_works_saves_tokens_and_stops_every_attack(sealyard: Command) -> None:
    """The agent does its work for a fraction of the tokens, no attack gets through, and nothing is left behind."""
    before = leftovers()

    done = sealyard("demo")

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "3 of 3 attacks stopped." in lines
    (total,) = [re.findall(r"[\d,]+", line) for line in lines if line.startswith("together ")]
    plain, paid = (int(number.replace(",", "")) for number in total)
    assert paid * 100 < plain
    assert "5000 expenses, " in done.stdout
    assert "50000 paths, 50 tests of billing" in done.stdout
    assert "This helped you before (1 of 1)" in done.stdout
    asked = [line for line in lines if line.startswith("you> ")]
    assert asked == [f"you> {question}" for question in PLAYED]
    assert "dana.endo774@example.com" in done.stdout
    assert leftovers() <= before


def test_demo_ends_clean_on_ctrl_c() -> None:
    """Interrupted while it works, it exits with 130, says nothing more and leaves nothing behind."""
    before = leftovers()
    process = subprocess.Popen(
        [sys.executable, "-m", "sealyard", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        process_group=0,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()  # the gateway and its servers run
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (130, b"\n")  # the line on which the terminal shows ^C
    assert leftovers() <= before
