"""The command as a user starts it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def toolyard() -> Command:
    """Runs `toolyard` with these arguments and returns the finished process."""

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "toolyard", *arguments],
            input=stdin,
            capture_output=True,
            env={**os.environ, "COLUMNS": "400"},  # no table cell is folded
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
