"""The last part of `sealyard demo`: attacks from inside the sandbox.

Each is first run outside, where it must succeed: an attack that cannot work proves nothing by failing.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sealyard.cli.terminal import columns, plain, screen
from sealyard.errors import SandboxBroken
from sealyard.sandbox import IsolationLevel, open_sandbox
from sealyard.sandbox.policy.levels import LEVELS
from sealyard.values.runs import Outcome

_READ_FILE = "result = open(path).read()"

_CONNECT = """\
import socket

with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
    result = connection.recv(64).decode()
"""

_SIGNAL = """\
import os, signal

os.kill(gateway_pid, signal.SIGUSR1)
result = "sent"
"""


async def show_attacks() -> tuple[int, int]:
    """Run each attack outside and inside; return the number of stopped ones, and of all."""
    table = columns("attack", "outside", "what happened in the sandbox")
    stopped = 0
    # The most permissive level, so that nothing but the kernel stands in the way. The code is our own, so the weaker
    # tier will do where a container offers no other.
    level = LEVELS[IsolationLevel.DEVELOPMENT]
    async with open_sandbox(level, allow_weaker=True) as sandbox, _open_target() as target:
        attacks = (
            ("read a file of the host", f"path = {target.path!r}\n{_READ_FILE}"),
            ("connect to a port of the host", f"port = {target.port}\n{_CONNECT}"),
            ("send the gateway a signal", f"gateway_pid = {os.getpid()}\n{_SIGNAL}"),
        )
        for title, code in attacks:
            target.hits = 0
            printed = await _run_bare(f"{code}\nprint(result)")
            if not (target.hits or target.secret in printed):
                raise SandboxBroken(f"The attack {title!r} does not even work outside the sandbox.")
            target.hits = 0
            outcome = await sandbox.run(code)
            got_through = outcome.ok or target.hits > 0 or target.secret in f"{outcome.result}{outcome.output}"
            stopped += not got_through
            verdict = plain("got through", "bold red") if got_through else plain(_describe(outcome), "green")
            table.add_row(title, "works", verdict)
        screen.print(table)
    return stopped, len(attacks)


@dataclass
class _Target:
    """The target of the attacks: a file, a listening port and this process, each of which notes that it was reached."""

    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    path: str = ""
    port: int = 0
    hits: int = 0

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits += 1
        writer.write(self.secret.encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def _open_target() -> AsyncIterator[_Target]:
    target = _Target()
    with _secret_file(target), _counted_signals(target):
        async with await asyncio.start_server(target.answer, "127.0.0.1", 0) as server:
            target.port = server.sockets[0].getsockname()[1]
            yield target


@contextmanager
def _secret_file(target: _Target) -> Iterator[None]:
    with tempfile.NamedTemporaryFile("w", prefix="sealyard-demo-", encoding="utf-8") as file:
        file.write(target.secret)
        file.flush()
        target.path = file.name
        yield


@contextmanager
def _counted_signals(target: _Target) -> Iterator[None]:
    def count(*_: object) -> None:
        target.hits += 1

    before = signal.signal(signal.SIGUSR1, count)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


async def _run_bare(code: str) -> str:
    """Run code with the system's Python, outside any sandbox; return its output."""

    def run() -> str:
        system = Path("/usr/bin/python3")
        python = system if system.exists() else Path(sys.executable).resolve()
        done = subprocess.run(
            [str(python), "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            env={},
            timeout=30,
        )
        return done.stdout.decode(errors="replace")

    return await asyncio.to_thread(run)


def _describe(outcome: Outcome) -> str:
    return f"{outcome.failure.type}: {outcome.failure.message}" if outcome.failure else f"result {outcome.result!r}"
