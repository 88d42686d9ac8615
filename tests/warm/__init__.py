"""Python programs that start warm, for tests that start many: the child is a fork of a process that imported them all.

Nearly all of a start is the import of the MCP SDK, over a second of it. `python("-m", "sealyard", "serve")` is a
command line like any other: whoever runs it (a test, a client, the gateway itself) gets a process with the arguments,
environment, working directory and standard streams it gave, that takes signals and ends with the program's own status.
That process is `launcher.py`; it asks `forks.py`, which this module starts once for each process of pytest. If it is
killed by SIGKILL, the program is too, but a moment later: wait for the end of its output.

The real start is what users have, so some tests of every command keep it: `[sys.executable, "-m", "sealyard", ...]`.
"""

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ("python",)

_HERE = Path(__file__).parent
_END_SECONDS = 60


def python(*arguments: str) -> list[str]:
    """The command line that runs `python` with these arguments: `-m MODULE`, `-c CODE` or a script, and its own."""
    return [sys.executable, "-I", "-S", str(_HERE / "launcher.py"), _forks(), *arguments]


@functools.cache
def _forks() -> str:
    """The socket of the process that forks; it ends when this process does, however that happens."""
    path = f"{tempfile.mkdtemp(prefix='warm-')}/forks"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen(
        [sys.executable, str(_HERE / "forks.py"), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # a Ctrl-C is for pytest, which ends it in order
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.read(1) == b"+", "The process that starts programs for the tests failed."
    process.stdout.close()

    def end() -> None:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(_END_SECONDS)

    atexit.register(end)
    return path
