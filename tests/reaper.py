"""Runs a program and ends only when everything that it started has ended: `python reaper.py SECONDS COMMAND...`.

It adopts what the program leaves behind, whatever session, namespace or environment that is in. What still runs after
SECONDS is named on standard error and killed, and the exit code is 99; else it is the program's own. SIGTERM and SIGINT
are passed on to the program, and SIGUSR1 kills it.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

LEFT = 99
_PR_SET_CHILD_SUBREAPER = 36


def main(seconds: str, *command: str) -> NoReturn:
    """Run the command, and wait for its end and for that of what it leaves."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    process = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    signal.signal(signal.SIGUSR1, lambda *_: process.kill())
    for each in (0, 1):  # their other ends must see the program close them
        os.close(each)
    status = process.wait()
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, float(seconds))
    try:
        while True:
            os.wait()
    except ChildProcessError:
        os._exit(status if status >= 0 else 128 - status)


def _give_up(*_: object) -> NoReturn:
    """Name and kill what is left; what that leaves in turn comes to us too."""
    try:
        while True:
            for pid in Path("/proc/thread-self/children").read_text(encoding="ascii").split():
                command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
                sys.stderr.write(f"left: {command.replace(chr(0), ' ')}\n")
                os.kill(int(pid), signal.SIGKILL)
                os.waitpid(int(pid), 0)
            os.wait()
    except ChildProcessError:
        sys.stderr.flush()
        os._exit(LEFT)


if __name__ == "__main__":
    main(*sys.argv[1:])
