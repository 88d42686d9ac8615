"""The host side of a leg: things to attack that are watched, and a sandbox to attack them from."""

import contextlib
import json
import os
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import sealyard.errors
import sealyard.sandbox.spawn
from attack.model import PRELUDE
from sealyard.sandbox import Sandbox
from sealyard.sandbox.policy.seccomp import numbers
from sealyard.values.runs import Limits, Outcome

SECRET = f"TYSECRET-{secrets.token_hex(16)}"


class Targets:
    """Files, sockets and a process of the host, and whether anything happened to them."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="host-"))
        self._sockets = self._open_sockets()
        self._make_files()
        self._start_victim()
        self._library = os.stat(os.__file__)
        self._first_sight = self._look()

    def names(self) -> dict[str, Any]:
        """What the code of every attack is told, so that it need not search."""
        return {
            "numbers": dict(numbers(os.uname().machine)),
            "host": str(self.directory),
            "victim": self.victim.pid,
            "gateway": os.getpid(),
            "gateway_source": sealyard.errors.__file__,
            "gateway_package": msgspec.__file__,
            "gateway_directory": str(Path(__file__).parent),
            "gateway_group": os.getpgrp(),
            "gateway_groups": os.getgroups(),
            "guest_source": str(Path(sealyard.sandbox.spawn.__file__).parent / "guest" / "runner.py"),
            "foreign_packages": _foreign_packages(),
            "foreign_package": str(next(Path(_foreign_packages()).rglob("*.py"), "missing")),
            "interpreter": sealyard.sandbox.spawn.interpreter(),
            "host_name": os.uname().nodename,
            "internet_port": self._sockets["internet"].getsockname()[1],
            "internet6_port": self._sockets["internet 6"].getsockname()[1],
            "datagram_port": self._sockets["datagram"].getsockname()[1],
            "abstract_name": self._sockets["an abstract socket"].getsockname()[1:].decode(),
            "inside_secret": f"TYSECRET-{secrets.token_hex(16)}",
        }

    def touched(self) -> list[str]:
        """What has changed since the last look; it is then put right again."""
        sight = self._look()
        differences = sorted(name for name in sight if sight[name] != self._first_sight[name])
        if "files" in differences:
            self._make_files()
        if "library" in differences:
            os.chmod(os.__file__, self._library.st_mode)
            os.utime(os.__file__, ns=(self._library.st_atime_ns, self._library.st_mtime_ns))
        if "victim" in differences:
            self._end_victim()
            self._start_victim()
        self._first_sight = self._look()
        return differences

    def close(self) -> None:
        """Remove it all."""
        self._end_victim()
        for each in self._sockets.values():
            each.close()
        shutil.rmtree(self.directory)

    def _open_sockets(self) -> dict[str, socket.socket]:
        named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        named.bind(f"{self.directory}/socket")
        abstract.bind(b"\0host-" + secrets.token_hex(8).encode())
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagram.bind(("127.0.0.1", 0))
        opened = {
            "internet": socket.create_server(("127.0.0.1", 0)),
            "internet 6": socket.create_server(("::1", 0), family=socket.AF_INET6),
            "a named socket": named,
            "an abstract socket": abstract,
            "datagram": datagram,
        }
        for name, each in opened.items():
            each.setblocking(False)
            if name != "datagram":
                each.listen(8)
        return opened

    def _make_files(self) -> None:
        self.directory.chmod(0o755)
        for path in self.directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif path.name != "socket":
                path.unlink()
        for name in ("readable", "writable"):
            (self.directory / name).write_text("canary", encoding="utf-8")
        (self.directory / "writable").chmod(0o666)
        (self.directory / "link").symlink_to("readable")

    def _start_victim(self) -> None:
        self.victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            start_new_session=True,
            env={"VICTIM": SECRET},
        )

    def _end_victim(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.victim.kill()
        self.victim.communicate()

    def _look(self) -> dict[str, Any]:
        sight: dict[str, Any] = {
            "files": {str(path): _file_state(path) for path in [self.directory, *self.directory.iterdir()]},
            "library": _file_state(Path(os.__file__)),
            "victim": _process_state(self.victim),
            "host name": os.uname().nodename,
            "gateway": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), os.getcwd()),
        }
        for name, each in self._sockets.items():
            sight[f"connections by {name}"] = len(list(_arrivals(each)))
        return sight


def _foreign_packages() -> str:
    library = Path(os.__file__).parent
    names = [
        library / "site-packages",
        library.parent / "python3" / "dist-packages",
        Path(sysconfig.get_path("purelib")),
    ]
    return next((str(each) for each in names if os.path.isdir(each)), str(names[0]))


def _file_state(path: Path) -> tuple[Any, ...]:
    status = path.lstat()
    content = path.read_bytes() if path.is_file() else b""
    return status.st_mode, status.st_uid, status.st_mtime_ns, status.st_nlink, content


def _process_state(process: "subprocess.Popen[bytes]") -> tuple[Any, ...]:
    # A signal is delivered by the time `kill` has returned; a process that it ends may take a moment to be gone.
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
        state = stat.read().rpartition(")")[2].split()[0]
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        pending = [line for line in status if line.startswith(("ShdPnd", "SigPnd"))]
    return (
        state in "ZTtX",
        any(int(line.split()[1], 16) for line in pending),
        os.getpriority(os.PRIO_PROCESS, process.pid) if state not in "ZX" else None,
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE) if state not in "ZX" else None,
    )


def _arrivals(listening: socket.socket) -> Iterator[bool]:
    while True:
        try:
            if listening.type == socket.SOCK_DGRAM:
                listening.recv(100)
            else:
                listening.accept()[0].close()
        except BlockingIOError:
            return
        yield True


class Stage:
    """A sandbox, and how attacks are run in it."""

    def __init__(self, sandbox: Sandbox, targets: Targets) -> None:
        self.sandbox = sandbox
        self.targets = targets
        self.names = targets.names()

    async def run(self, code: str, *, context: dict[str, Any] | None = None, **options: Any) -> str:
        """The verdict of a block of code."""
        outcome = await self.sandbox.run(PRELUDE + code, context={**self.names, **(context or {})}, **options)
        return verdict_of(outcome)

    async def run_all(self, expressions: dict[str, str]) -> dict[str, str]:
        """The verdicts of expressions, made one after another in one worker."""
        lines = [f"verdicts[{name!r}] = attempt(lambda: {code})" for name, code in expressions.items()]
        code = "\n".join([PRELUDE, "verdicts = {}", *lines, "result = verdicts"])
        outcome = await self.sandbox.run(code, context=self.names, limits=Limits(inline_bytes=1 << 20))
        if outcome.ok and isinstance(outcome.result, dict):
            return {name: str(verdict) for name, verdict in outcome.result.items()}
        return dict.fromkeys(expressions, verdict_of(outcome))


def verdict_of(outcome: Outcome) -> str:
    """What a run came to, in one line."""
    if outcome.failure is None:
        return str(outcome.result)
    return f"{outcome.status}:{outcome.failure.kind}:{outcome.failure.type}"


def run_outside(code: str, *, is_block: bool, names: dict[str, Any]) -> str:
    """The verdict of the same code when plain Python runs it on the host."""
    lines = [PRELUDE, code if is_block else f"result = attempt(lambda: {code})", "print(result)"]
    given = "import json, sys\nglobals().update(json.load(sys.stdin))\n"
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-I", "-c", given + "\n".join(lines)],
            input=json.dumps(names),
            capture_output=True,
            text=True,
            cwd=directory,
            env={"TMPDIR": directory, "GATEWAY_SECRET": SECRET},
            timeout=60,
            check=False,
        )
    return done.stdout.strip() or f"status {done.returncode}: {done.stderr[-300:]}"
