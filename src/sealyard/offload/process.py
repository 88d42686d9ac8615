"""Executes the gateway's own programs, helpers and zygotes: the only place that does.

Marked for security review. The invariant: the process gets the environment that its caller lists, an empty standard
input, one descriptor and nothing else. A helper runs our own code only, and reads hostile data; it holds no key, and
its messages are checked.
"""

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sealyard.errors import HelperFailed

_CHILD = Path(__file__).with_name("child.py")


class Process(msgspec.Struct):
    """A started process and our end of its connection."""

    child: subprocess.Popen[bytes]
    connection: socket.socket

    def kill(self) -> None:
        """End it, whatever it does."""
        self.child.kill()

    def reap(self) -> None:
        """Wait for its end, which takes a moment after `kill`."""
        self.child.wait()


def execute(program: Sequence[str], kind: socket.SocketKind, *, environment: dict[str, str], stderr: int) -> Process:
    """Execute a program whose last argument is the number of its connected socket. Raises `OSError`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    try:
        child = subprocess.Popen(
            [*program, str(theirs.fileno())],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            close_fds=True,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # no terminal, and no group of the gateway: Ctrl-C is for the gateway alone
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return Process(child, ours)


def start() -> Process:
    """Execute a helper. Raises `HelperFailed` when it cannot be executed."""
    program = [sys.executable, "-I", "-B", "-X", "utf8", str(_CHILD)]
    try:
        # Without standard error: a traceback could quote private values.
        process = execute(program, socket.SOCK_STREAM, environment={}, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise HelperFailed(f"A helper process could not be started: {error}. Free memory or processes.") from error
    process.connection.setblocking(False)
    return process
