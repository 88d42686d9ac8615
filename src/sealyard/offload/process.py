"""Starts helper processes: the only place that does.

Marked for security review. The invariant: a helper gets an empty environment, an empty standard input, one descriptor
and nothing else. It runs our own code only, and reads hostile data; it holds no key, and its messages are checked.
"""

import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from sealyard.errors import HelperFailed

_CHILD = Path(__file__).with_name("child.py")


class Process(msgspec.Struct):
    """A started helper and our end of its connection."""

    child: subprocess.Popen[bytes]
    connection: socket.socket

    def kill(self) -> None:
        """End it, whatever it does."""
        self.child.kill()

    def reap(self) -> None:
        """Wait for its end, which takes a moment after `kill`."""
        self.child.wait()


def start() -> Process:
    """Execute a helper. Raises `HelperFailed` when it cannot be executed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", str(_CHILD), str(theirs.fileno())],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # a traceback could quote private values
            close_fds=True,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # no terminal: Ctrl-C is for the gateway, which closes its helpers itself
        )
    except OSError as error:
        ours.close()
        raise HelperFailed(f"A helper process could not be started: {error}. Free memory or processes.") from error
    finally:
        theirs.close()
    ours.setblocking(False)
    return Process(child=child, connection=ours)
