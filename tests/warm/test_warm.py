"""A program that starts warm does all that tests look at as it does when Python starts it."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import warm
from tests.conftest import _descendants

WAIT_SECONDS = 60

SHOW = """
import locale, os, signal, sys, tempfile
streams = (sys.stdin, sys.stdout, sys.stderr)
print(__name__, sys.argv, sys.orig_argv[1:], sys.path, os.getcwd(), sorted(os.environ.items()))
print([(s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through) for s in streams])
print([type(s.buffer).__name__ for s in streams], locale.getpreferredencoding().lower(), tempfile.gettempdir())
print(sorted(os.listdir("/proc/self/fd")), sys.dont_write_bytecode, len(os.listdir("/proc/self/task")))
print([(n, signal.getsignal(n)) for n in signal.valid_signals() if signal.getsignal(n) is not signal.SIG_DFL])
print(os.umask(0), "sealyard.cli" in sys.modules, "sealyard.examples" in sys.modules, sys.stdin.read())
print("last words", file=sys.stderr)
sys.exit(7)
"""


def both(*arguments: str, **options: Any) -> tuple[subprocess.CompletedProcess[bytes], ...]:
    """What came of a program that was started warm, and by Python."""
    return tuple(
        subprocess.run(command, capture_output=True, check=False, timeout=WAIT_SECONDS, **options)
        for command in (warm.python(*arguments), [sys.executable, *arguments])
    )


@pytest.mark.parametrize("kind", ["-c", "-m", "-P", "script"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"PYTHONUNBUFFERED": "1", "TMPDIR": "."},
        {"PYTHONHASHSEED": "1"},
        {"PYTHON_VERSION": "3", "PYTHON_SHA256": "0"},
        {"LANG": "C"},
    ],
)
def test_program_finds_what_it_was_given(tmp_path: Path, kind: str, more: dict[str, str]) -> None:
    """Arguments, environment, folder, streams, signals; and it ends with its own exit code."""
    script = tmp_path / "lib" / "shown.py"
    script.parent.mkdir()
    script.write_text(SHOW, encoding="utf-8")
    arguments = {
        "-c": ["-c", SHOW],
        "-m": ["-m", "lib.shown"],
        "-P": ["-P", str(script)],
        "script": [str(script)],
    }[kind]

    forked, real = both(*arguments, "a b", "", cwd=tmp_path, env={"PATH": "/bin", **more}, input="zoë\r\n".encode())

    assert (forked.returncode, forked.stderr) == (7, b"last words\n")
    assert forked.stdout.decode() == real.stdout.decode()


@pytest.mark.parametrize(
    "end",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)", "os._exit(3)", "os.abort()", ""],
)
def test_program_ends_as_it_does_by_itself(end: str) -> None:
    """The exit code or the signal is its own, and what it wrote is there."""
    forked, real = both("-c", f"import os, signal\nprint('said', flush=True)\n{end}")

    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, b"said\n", real.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL])
def test_signal_reaches_the_program(number: signal.Signals) -> None:
    """Also the one that its launcher cannot pass on, and its streams close at once."""
    code = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(1)"
    with subprocess.Popen(warm.python("-c", code), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert pid in _descendants(os.getpid())
        process.send_signal(number)
        assert process.wait(WAIT_SECONDS) == -number
        assert process.stdout.read() == b""


def test_stream_that_the_program_closes_is_closed() -> None:
    """Nobody else holds it, so that whoever reads it notices."""
    code = "import os, sys\nos.close(1)\nsys.stdin.read()"
    with subprocess.Popen(warm.python("-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.poll() is None
        process.stdin.close()
        process.wait(WAIT_SECONDS)


def test_arguments_too_large_for_a_message_are_no_obstacle() -> None:
    """Such a program is started the usual way."""
    large = "x" * 100_000

    forked, _ = both("-c", "import sys\nprint(sum(map(len, sys.argv)))", *[large] * 10)

    assert int(forked.stdout) == 10 * len(large) + 2


def test_what_was_started_ends_with_the_process_of_the_test() -> None:
    """However it ends: here it is killed."""
    program = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)"
    code = f"""
import subprocess, time
from tests import warm
subprocess.Popen(warm.python("-c", {program!r}))
time.sleep(1000)
"""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, env=plain
    ) as process:
        assert process.stdout is not None
        ended = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        assert select.select([ended], [], [], WAIT_SECONDS)[0] == [ended]
        os.close(ended)
