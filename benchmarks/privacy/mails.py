"""Measures the whole way of private values: ten thousand customers read, filtered and written to, seen by nobody.

Servers, gateway, sandbox and client are the real ones. The same job runs with privacy `off` beside it.
"""

import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client

from sealyard.cli.terminal import columns, plain, screen
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyMode, SandboxConfig, StoreConfig
from sealyard.errors import SandboxBroken
from sealyard.examples import MAIL_RULE, customers, demo_upstreams, outbox_of
from sealyard.examples.mail import Mail
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.yard import open_yard

_JOB = """
from servers.customers import list_customers
from servers.mail import send_mail

rows = list_customers()
chosen = [row for row in rows if row["plan"] == "pro" and row["spent"] > 2500]
for row in chosen:
    send_mail(to=row["email"], subject="Thank you", body=f"Dear {row['first_name']} {row['last_name']}, thank you!")
print(chosen[0])
result = {"rows": len(rows), "addresses": len({row["email"] for row in rows}), "first": chosen[:5]}
"""


async def measure(rounds: int) -> dict[str, Any]:
    """Count what the client and the mail server received, and take the time beside the same job with privacy `off`."""
    rows = customers.list_customers()
    expected = [
        Mail(to=row.email, subject="Thank you", body=f"Dear {row.first_name} {row.last_name}, thank you!")
        for row in rows
        if row.plan == "pro" and row.spent > 2500
    ]
    modes: tuple[PrivacyMode, ...] = ("off", "strict")
    with tempfile.TemporaryDirectory(prefix="sealyard-benchmark-") as folder:
        async with AsyncExitStack() as stack:
            jobs = {mode: await stack.enter_async_context(_open(Path(folder) / mode, mode)) for mode in modes}
            plan = [mode for mode in modes for _ in range(rounds)]
            random.shuffle(plan)
            for mode in plan:
                await jobs[mode].run()
    strict, off = jobs["strict"], jobs["off"]
    return {
        "rows": len(rows),
        "mails": len(expected),
        "private_values_received": len(_found(strict.received, rows)),
        "private_values_received_with_off": len(_found(off.received, rows)),
        "wrong_mails": sum(mails != expected for mails in strict.mails),
        "ratio_to_off": statistics.median(strict.seconds) / statistics.median(off.seconds),
        "seconds": {mode: statistics.median(job.seconds) for mode, job in jobs.items()},
    }


def show(figures: dict[str, Any]) -> None:
    """The same figures as a table."""
    table = columns("ten thousand customers, read, filtered, written to", "")
    for name, value in figures.items():
        if not isinstance(value, dict):
            table.add_row(plain(name.replace("_", " ")), f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    screen.print(table)


class _Job:
    """One gateway over the two servers, and what came of the runs."""

    def __init__(self, client: Client, outbox: Path) -> None:
        self._client = client
        self._outbox = outbox
        self.received = ""
        self.mails: list[list[Mail]] = []
        self.seconds: list[float] = []

    async def run(self) -> None:
        """Do the job once, as an agent would."""
        self._outbox.unlink(missing_ok=True)
        started = time.perf_counter()
        answers = [
            await self._client.call_tool("search_tools", {"query": "list customers", "detail_level": "full"}),
            await self._client.call_tool("execute_code", {"code": _JOB, "timeout_seconds": 120}),
        ]
        self.seconds.append(time.perf_counter() - started)
        self.received += "".join(answer.model_dump_json(by_alias=True) for answer in answers)
        if any(answer.is_error for answer in answers):
            raise SandboxBroken(f"A run of the measurement failed: {answers[-1].content}")
        lines = self._outbox.read_bytes().splitlines()
        self.mails.append([msgspec.json.decode(line, type=Mail) for line in lines])


@asynccontextmanager
async def _open(place: Path, mode: PrivacyMode) -> AsyncIterator[_Job]:
    place.mkdir()  # noqa: ASYNC240 - once, before anything is measured
    upstreams = {name: each for name, each in demo_upstreams(place).items() if name in ("customers", "mail")}
    config = Config(
        upstreams=upstreams,
        store=StoreConfig(path=place / "sealyard.db"),
        privacy=PrivacyConfig(mode=mode, rules=(MAIL_RULE,)),
        sandbox=SandboxConfig(allow_weaker=True),
    )
    policy = msgspec.structs.replace(DEFAULT, packages=(), tool_calls=10_000)
    async with open_yard(config, policy=policy) as yard:
        await yard.snapshot()
        async with Client(build_server(yard, config.surface), cache=None) as client:
            yield _Job(client, outbox_of(place))


def _found(received: str, rows: list[customers.Customer]) -> set[str]:
    """The private values among everything that a client was sent."""
    values = {
        value
        for row in rows
        for value in (row.first_name, row.last_name, row.email, row.phone, row.date_of_birth, row.card_number)
    }
    values |= {row.address.street for row in rows}
    return {value for value in values if value in received}
