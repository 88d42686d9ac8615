"""The command as a user starts it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import warm

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def sealyard() -> Command:
    """Runs `sealyard` with these arguments and returns the finished process."""
    return lambda *arguments, stdin=b"": _finished([*warm.python("-m", "sealyard"), *arguments], stdin)


@pytest.fixture
def installed() -> Command:
    """Does the same with the installed command, which has everything to import; one test of each command has this."""
    return lambda *arguments, stdin=b"": _finished([str(Path(sys.executable).with_name("sealyard")), *arguments], stdin)


def _finished(command: list[str], stdin: bytes) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        env={**os.environ, "COLUMNS": "400"},  # no table cell is folded
        timeout=200,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
