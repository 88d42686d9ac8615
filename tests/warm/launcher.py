"""Stands for a Python program that `forks.py` runs: hands over what it was started with and signals, ends as it does.

`python -I -S launcher.py SOCKET [-P] [-m MODULE | -c CODE | SCRIPT] [ARGUMENT]...`. What a fork cannot imitate (other
settings of the interpreter, a closed stream, a message too large to send) is started the usual way instead.
"""

import marshal
import os
import signal
import socket
import sys

_HONOURED = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
# Images have these, and no interpreter reads them.
_UNREAD = (
    "PYTHON_GET_PIP_SHA256",
    "PYTHON_GET_PIP_URL",
    "PYTHON_PIP_VERSION",
    "PYTHON_SETUPTOOLS_VERSION",
    "PYTHON_SHA256",
    "PYTHON_VERSION",
)
_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_LOST = 70


def main() -> None:
    """Ask for the program and wait for its end."""
    path, *arguments = sys.argv[1:]
    if not _can_be_forked(arguments):
        _start(arguments)
    os.umask(mask := os.umask(0))
    request = {
        "arguments": arguments,
        "environment": dict(os.environb),
        "folder": os.getcwd(),
        "umask": mask,
        "text": (sys.stdin.encoding, sys.stdin.errors, sys.stdout.errors),
    }
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(path)
    try:
        socket.send_fds(link, [marshal.dumps(request)], [0, 1, 2])
    except OSError:
        _start(arguments)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: link.send(bytes([number])))
    if not link.recv(1):
        os._exit(_LOST)
    for fd in (0, 1, 2):
        os.close(fd)  # whoever is at their other end is to notice what the program does with them, not what this does
    status = link.recv(4)
    if not status:
        os._exit(_LOST)
    code = os.waitstatus_to_exitcode(int.from_bytes(status, sys.byteorder))
    if code < 0:
        if -code in _PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _can_be_forked(arguments: list[str]) -> bool:
    kind = arguments[1] if arguments[0] == "-P" else arguments[0]
    return (
        (kind in ("-m", "-c") or not kind.startswith("-"))
        and not any(name.startswith("PYTHON") and name not in (*_HONOURED, *_UNREAD) for name in os.environ)
        and None not in (sys.stdin, sys.stdout, sys.stderr)
        and sys.getfilesystemencoding() == "utf-8"
    )


def _start(arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
