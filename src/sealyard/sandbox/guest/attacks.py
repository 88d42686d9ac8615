"""The attempts that a sealed worker makes for the start-up probe.

Each attempt reports its outcome, so the gateway can distinguish a wall that held from a set-up that never worked: the
controls must succeed, the attacks must fail. A `limit` that can be exceeded is one that the kernel does not hold.
Standard library only; runs as the agent's code would, without its rules.
"""

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import kernel


def attempt(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Make every attempt; `job` names the targets on the host."""
    findings = []
    for name, kind, action in _attempts(job):
        try:
            detail, done = action(), True
        except OSError as error:
            detail, done = errno.errorcode.get(error.errno or 0, "OSError"), False
        except Exception as error:
            detail, done = f"{type(error).__name__}: {error}", False
        findings.append({"name": name, "kind": kind, "done": done, "detail": str(detail)[:200]})
    return findings


def _attempts(job: dict[str, Any]) -> list[tuple[str, str, Callable[[], object]]]:
    return [
        ("write and read the workspace", "control", _use_workspace),
        ("write a temporary file", "control", lambda: _write(os.path.join(os.environ["TMPDIR"], "probe"))),
        # The one control that starts threads: the kernel may count one for a moment after it was joined.
        ("start the threads that are allowed", "control", lambda: _use_threads(job["threads"])),
        ("import from the standard library", "control", lambda: __import__("wave").__name__),
        ("read a file of the gateway", "attack", lambda: os.close(os.open(job["host_file"], os.O_RDONLY))),
        ("read a setting of the host", "attack", lambda: os.close(os.open(job["host_setting"], os.O_RDONLY))),
        ("write outside the workspace", "attack", lambda: _write(job["outside"])),
        ("list the processes", "attack", lambda: os.listdir("/proc/1/fd")),
        ("connect to the gateway", "attack", lambda: _connect(job["port"])),
        ("open a raw socket", "attack", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()),
        ("signal the gateway", "attack", lambda: _signal(job["gateway_pid"])),
        ("run a program", "attack", lambda: os.execv(job["program"], ["python", "-c", ""])),
        ("trace a process", "attack", lambda: kernel.call("ptrace", 16, job["gateway_pid"], 0, 0)),
        ("make a user namespace", "attack", lambda: kernel.unshare(kernel.NEW_USER)),
        ("mount a file system", "attack", lambda: kernel.mount_tmpfs("/sandbox/tmp", "size=4k")),
        ("load a kernel program", "attack", lambda: kernel.call("bpf", 0, 0, 0)),
        ("become root", "attack", lambda: os.setresuid(0, 0, 0) if os.getuid() else kernel.call("setns", -1, 0)),
        ("hold a capability", "attack", _hold_capability),
        ("start a process", "attack", _fork),
        ("start more threads than are allowed", "limit", lambda: _use_threads(job["threads"] + 1)),
    ]


def _use_workspace() -> str:
    path = os.path.join(os.getcwd(), "probe")
    _write(path)
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("x")


def _use_threads(number: int) -> int:
    """Hold this many threads at once, besides the first one. Raises `OSError` if they cannot all start."""
    done = threading.Event()
    usual = threading.stack_size(128 << 10)  # small ones: it is their number that is tried, not their memory
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(number)]
    started: list[threading.Thread] = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise BlockingIOError(errno.EAGAIN, f"{len(started)} threads") from error
    finally:
        done.set()
        for thread in started:
            thread.join()
        threading.stack_size(usual)
    return number


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _connect(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def _signal(pid: int) -> None:
    if pid == os.getpid():  # in a container the gateway's own number may be 1, and so is ours in our namespace
        raise ProcessLookupError(errno.ESRCH, "only ourselves")
    os.kill(pid, 0)


def _hold_capability() -> None:
    data = ctypes.create_string_buffer(24)
    kernel.call("capget", b"\x22\x05\x08\x20" + bytes(4), data)
    if not any(data.raw):
        raise PermissionError(errno.EPERM, "none held")
