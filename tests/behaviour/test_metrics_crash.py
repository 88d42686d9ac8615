"""Sums under kills: after every one they are those of the rows that are there, and of the rows that are gone.

Each gateway is a process of its own that ends by SIGKILL, in the middle of whatever it does.
"""

import asyncio
import signal
import sqlite3
import sys
import textwrap
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest

from sealyard.metrics.sums.sums import Sums
from sealyard.store import open_store
from sealyard.values.facts import AnyFact

PRELUDE = """
import asyncio, itertools, os, signal, sys
from pathlib import Path
from sealyard.store import open_store
from sealyard.store.metrics import tables
from sealyard.store.metrics.tables import drop_sums
from sealyard.values.facts import Executed
from sealyard.values.runs import CallRecord

PATH = Path(sys.argv[1])
DAY = 86_400
BASE = 20_000 * DAY

def fact(number, at=None):
    return Executed(
        at=BASE + number * 1000.0 if at is None else at, form="code", status="ok", seconds=number / 1000,
        bytes_in=number, use_case="filtering",
    )

def call(number):
    return CallRecord(
        execution_id="e", number=number, tool="mcp__bank__pay", digest="d", upstream="bank", arguments=None,
        started_at=BASE + number * 1000.0, seconds=0.1, answer_bytes=number,
    )

def say(text):
    print(text, flush=True)
"""
RECORD_AND_FOLD = """
async def main():
    async with open_store(PATH) as store:
        for number in itertools.count():
            store.metrics.record(fact(number))
            store.record_call(call(number))
            while await store.metrics.fold():
                pass
            say(number)
            if number % 7 == 6:
                await store._writer.change(drop_sums)

asyncio.run(main())
"""


@asynccontextmanager
async def gateway(path: Path, code: str) -> AsyncIterator[Process]:
    """A process with a store, which is killed at the end if it still runs."""
    program = PRELUDE + textwrap.dedent(code)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), stdin=PIPE, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def next_line(process: Process) -> str:
    """What it says next."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode().rstrip("\n")


def rows(path: Path) -> tuple[list[AnyFact], int]:
    """The facts that are there, and how many calls."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        decoder: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
        facts = [decoder.decode(text) for (text,) in connection.execute("SELECT fact FROM facts")]
        return facts, connection.execute("SELECT count(*) FROM calls").fetchone()[0]


@pytest.mark.behaviour("metrics.rebuild")
async def test_killed_gateways_leave_sums_that_are_those_of_the_rows(tmp_path: Path) -> None:
    """Recording, folding and dropping all sums, killed ever later on the same store: every row is in the sums once."""
    path = tmp_path / "store.db"
    acknowledged = 0
    for count in (0, 1, 2, 5, 13, 40):
        async with gateway(path, RECORD_AND_FOLD) as process:
            for _ in range(count):
                await next_line(process)
            process.kill()
            output, _ = await process.communicate()
            # What was said before the kill and not read counts too; a line that was cut does not.
            acknowledged += count + len(output.decode().rpartition("\n")[0].splitlines())

    async with open_store(path) as store:
        found = await store.metrics.sums()
        while await store.metrics.fold():
            pass
        folded = await store.metrics.sums()
        rebuilt = await store.metrics.rebuild(check=True)

    facts, calls = rows(path)
    expected = Sums()
    for fact in facts:
        expected.add_fact(fact)
    assert len(facts) >= acknowledged
    assert {key: each for key, each in found.items() if "_upstream_" not in key[0]} == expected
    assert found.value("sealyard_upstream_calls_total") == calls
    assert folded == found
    assert rebuilt.differences == 0


@pytest.mark.parametrize("transaction", range(8))
async def test_kill_inside_any_transaction_of_pruning_loses_no_sum(tmp_path: Path, transaction: int) -> None:
    """However far it came, totals are as they were, and the next attempt removes the rest."""
    path = tmp_path / "store.db"
    code = f"""
    async def main():
        async with open_store(PATH) as store:
            for number in range(1200):
                store.metrics.record(fact(number, at=BASE + number))
            store.metrics.record(fact(1200, at=BASE + 9 * DAY))
            while await store.metrics.fold():
                pass
            store.metrics.record(fact(1201, at=BASE + 1))  # not folded yet, so it must not go
            store.metrics.record(fact(1202, at=BASE + 9 * DAY + 1))
            await store.flush()
            left = [{transaction}]

            class Killing:
                async def change(self, work):
                    if not left[0]:
                        store._writer.put(work, 0)
                        store._writer.put(lambda connection: os.kill(os.getpid(), signal.SIGKILL), 0)
                        await store.flush()
                    left[0] -= 1
                    return await store._writer.change(work)

            await tables.prune(Killing(), BASE + DAY, BASE + DAY)
            say("pruned")
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
    """
    async with gateway(path, code) as process:
        await process.communicate()
        assert process.returncode == -signal.SIGKILL

    async with open_store(path) as store:
        whole = await store.metrics.sums()
        rebuilt = await store.metrics.rebuild(check=True)
        assert await store.metrics.sums() == whole
        await store.metrics.prune((20_000 + 1) * 86_400, 0)
        assert await store.metrics.sums() == whole
    facts, _ = rows(path)
    assert whole.value("sealyard_execution_total") == 1203
    assert rebuilt.differences == 0
    assert sorted(fact.at - 20_000 * 86_400 for fact in facts) == [9 * 86_400.0, 9 * 86_400.0 + 1]
