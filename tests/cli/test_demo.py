"""`toolyard demo` as a user meets it."""

import subprocess
from collections.abc import Callable

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_demo_stops_every_attack(toolyard: Command) -> None:
    """Each attack works outside, none in the sandbox, and the last line says so."""
    done = toolyard("demo")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("3 of 3 attacks stopped. ")
