"""`toolyard demo`: the sandbox at work beside a bare Python, in a few seconds.

Every attack is first run outside, where it must succeed: an attack that cannot work proves nothing by failing.
"""

import asyncio
import csv
import io
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from toolyard.cli.loop import run_to_end
from toolyard.cli.terminal import columns, plain, screen
from toolyard.errors import SandboxBroken
from toolyard.sandbox import IsolationLevel, Sandbox, open_sandbox
from toolyard.sandbox.policy.levels import DEFAULT, LEVELS
from toolyard.values import Limits, Outcome

__all__ = ("demo",)

_REPEATS = 9
_ROWS = 5_000
_REFILL_SECONDS = 0.05
"""Time for the pool to replace a used worker, which the bare Python would otherwise have to share the machine with."""

_CALCULATION = "sum(n * n for n in range(1_000))"

_DATA_JOB = """\
import csv, io, statistics

amounts = {}
for row in csv.DictReader(io.StringIO(orders_csv)):
    amounts.setdefault(row["region"], []).append(int(row["amount"]))
result = {region: [len(values), statistics.median(values)] for region, values in sorted(amounts.items())}
"""

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


@click.command()
def demo() -> int:
    """Show the sandbox at work.

    A calculation, a data job, attacks and an endless loop, each with its time. Exit code 1: an attack got through.
    """
    return run_to_end(_show_all())


async def _show_all() -> int:
    async with _open(DEFAULT.level) as sandbox:
        ratio = await _show_work(sandbox)
        await _show_endless_loop(sandbox)
    # The most permissive level, so that nothing but the kernel stands in the way of the attacks.
    async with _open(IsolationLevel.DEVELOPMENT) as sandbox:
        stopped, attempts = await _show_attacks(sandbox)
    summary = f"{stopped} of {attempts} attacks stopped. A sealed run takes {ratio:.2f} of a bare Python's start."
    screen.print(plain(summary, "bold green" if stopped == attempts else "bold red"))
    return 0 if stopped == attempts else 1


@asynccontextmanager
async def _open(level: IsolationLevel) -> AsyncIterator[Sandbox]:
    began = time.perf_counter()
    # Its code is our own, so the weaker tier will do where a container offers no other; the line below names it.
    async with open_sandbox(LEVELS[level], allow_weaker=True) as sandbox:
        seconds = time.perf_counter() - began
        screen.print(plain(f"Sandbox opened in {seconds:.2f} s ({level} level, {sandbox.tier} tier).", "dim"))
        yield sandbox


async def _show_work(sandbox: Sandbox) -> float:
    """Time work in the sandbox and in a bare Python, in turns; return what the first costs beside an idle one."""
    orders_csv, medians = _make_orders()
    table = columns("work", "in the sandbox", "in bare Python", "python3 -c pass", "ratio to that")
    ratios = []
    for title, code, context, expected in (
        ("sum of 1,000 squares", _CALCULATION, {}, sum(n * n for n in range(1_000))),
        (f"medians of {_ROWS:,} CSV rows", _DATA_JOB, {"orders_csv": orders_csv}, medians),
    ):
        same_work = "".join(f"{name} = {value!r}\n" for name, value in context.items()) + code
        inside, outside, idle = [], [], []
        for _ in range(_REPEATS):
            idle.append((await _run_bare("pass"))[0])
            outside.append((await _run_bare(same_work))[0])
            inside.append(await _time(sandbox, code, context, expected))
            await asyncio.sleep(_REFILL_SECONDS)
        ratios.append(statistics.median(inside) / statistics.median(idle))
        table.add_row(
            title, *(_milliseconds(statistics.median(each)) for each in (inside, outside, idle)), f"{ratios[-1]:.2f}"
        )
    screen.print(table, "")
    return ratios[0]


def _make_orders() -> tuple[str, dict[str, list[float]]]:
    """Orders as CSV, and by region how many there are and their median."""
    regions = ("east", "north", "south", "west")
    orders = [(random.choice(regions), random.randint(1, 500)) for _ in range(_ROWS)]  # noqa: S311
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("region", "amount"))
    rows.writerows(orders)
    amounts = {name: [amount for region, amount in orders if region == name] for name in regions}
    return text.getvalue(), {name: [len(each), statistics.median(each)] for name, each in amounts.items()}


async def _time(sandbox: Sandbox, code: str, context: dict[str, Any], expected: object) -> float:
    began = time.perf_counter()
    outcome = await sandbox.run(code, context=context)
    seconds = time.perf_counter() - began
    if outcome.result != expected:
        raise SandboxBroken(f"The sandbox computed {outcome.result!r}, not {expected!r}. {_tell(outcome)}")
    return seconds


async def _show_endless_loop(sandbox: Sandbox) -> None:
    began = time.perf_counter()
    outcome = await sandbox.run("while True: pass", limits=Limits(wall_seconds=1))
    seconds = time.perf_counter() - began
    table = columns("limit", "what happened in the sandbox", "after")
    table.add_row("endless loop, 1 s allowed", plain(_tell(outcome), "green"), f"{seconds:.2f} s")
    screen.print(table, "")
    if outcome.status != "timeout":
        raise SandboxBroken(f"An endless loop ended as {outcome.status!r}, not as a timeout.")


@dataclass
class _Target:
    """What the attacks aim at: a file, a listening port and this process, each of which tells when it was reached."""

    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    path: str = ""
    port: int = 0
    hits: int = 0

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits += 1
        writer.write(self.secret.encode())
        await writer.drain()
        writer.close()


async def _show_attacks(sandbox: Sandbox) -> tuple[int, int]:
    """Run each attack outside and inside; return how many were stopped, and of how many."""
    table = columns("attack", "outside", "what happened in the sandbox", "after")
    stopped = 0
    async with _open_target() as target:
        attacks = (
            ("read a file of the host", f"path = {target.path!r}\n{_READ_FILE}"),
            ("connect to a port of the host", f"port = {target.port}\n{_CONNECT}"),
            ("send the gateway a signal", f"gateway_pid = {os.getpid()}\n{_SIGNAL}"),
        )
        for title, code in attacks:
            target.hits = 0
            _, printed = await _run_bare(f"{code}\nprint(result)")
            if not (target.hits or target.secret in printed):
                raise SandboxBroken(f"The attack {title!r} does not even work outside the sandbox.")
            target.hits = 0
            began = time.perf_counter()
            outcome = await sandbox.run(code)
            seconds = time.perf_counter() - began
            got_through = outcome.ok or target.hits > 0 or target.secret in f"{outcome.result}{outcome.output}"
            stopped += not got_through
            verdict = plain("got through", "bold red") if got_through else plain(_tell(outcome), "green")
            table.add_row(title, "works", verdict, _milliseconds(seconds))
    screen.print(table, "")
    return stopped, len(attacks)


@asynccontextmanager
async def _open_target() -> AsyncIterator[_Target]:
    target = _Target()
    with _secret_file(target), _counted_signals(target):
        async with await asyncio.start_server(target.answer, "127.0.0.1", 0) as server:
            target.port = server.sockets[0].getsockname()[1]
            yield target


@contextmanager
def _secret_file(target: _Target) -> Iterator[None]:
    with tempfile.NamedTemporaryFile("w", prefix="toolyard-demo-", encoding="utf-8") as file:
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


async def _run_bare(code: str) -> tuple[float, str]:
    """Run code with the system's Python, outside any sandbox; return the seconds it took and what it printed."""
    command = [_bare_python(), "-c", code]

    def run() -> tuple[float, str]:
        began = time.perf_counter()
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, env={}, timeout=30
        )
        return time.perf_counter() - began, done.stdout.decode(errors="replace")

    return await asyncio.to_thread(run)


def _bare_python() -> str:
    """The system's interpreter itself: a version manager's shim would cost several times as much."""
    system = Path("/usr/bin/python3")
    return str(system if system.exists() else Path(sys.executable).resolve())


def _tell(outcome: Outcome) -> str:
    return f"{outcome.failure.type}: {outcome.failure.message}" if outcome.failure else f"result {outcome.result!r}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1_000:.1f} ms"
