"""The store under kills, full disks and company: what was acknowledged is there, and the file is sound.

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

import pytest

from sealyard.store import open_store

PRELUDE = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from sealyard.errors import StoreError
from sealyard.store import open_store
from sealyard.values.runs import CallRecord, ExecutionRecord

PATH = Path(sys.argv[1])
NAME = sys.argv[2]

def execution(number, status="ok", code="1 + 1"):
    return ExecutionRecord(
        execution_id=f"{NAME}-{number}", principal=NAME, session="main", code=code, started_at=float(number),
        status=status,
    )

def call(number, execution_number, answer=None):
    return CallRecord(
        execution_id=f"{NAME}-{execution_number}", number=number, tool="mcp__bank__pay", digest="d1",
        arguments={"amount": number}, answer=answer, started_at=1.0, seconds=0.1,
    )

def say(text):
    print(text, flush=True)
"""
RECORD_WITHOUT_END = """
async def run(store, numbers):
    for number in numbers:
        store.record_start(execution(number, "running"))
        for each in range(3):
            store.record_call(call(each, number, answer="x" * 500))
        store.record_end(execution(number, code=f"{number} + 1"))
        await store.flush()
        say(f"{NAME}-{number}")

async def main():
    async with open_store(PATH) as store:
        await asyncio.gather(*(run(store, range(first, 1_000_000, 4)) for first in range(4)))

asyncio.run(main())
"""


@asynccontextmanager
async def gateway(path: Path, name: str, code: str) -> AsyncIterator[Process]:
    """A process with a store, which is killed at the end if it still runs."""
    program = PRELUDE + textwrap.dedent(code)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(path), name, stdin=PIPE, stdout=PIPE
    )
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


async def last_lines(process: Process, text: str = "") -> list[str]:
    """What it says until its end, which must be a good one, after it was told something."""
    async with asyncio.timeout(60):
        output, _ = await process.communicate(text.encode())
    assert process.returncode == 0
    return output.decode().splitlines()


def check_soundness(path: Path) -> None:
    """SQLite's own check of the whole file and of its references."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.behaviour("store.survives_kill")
async def test_what_was_acknowledged_survives_every_kill(tmp_path: Path) -> None:
    """A gateway is killed after ever more acknowledged executions, on the same store: all of them are there, whole."""
    path = tmp_path / "store.db"
    acknowledged: set[str] = set()
    for turn, count in enumerate((0, 1, 2, 3, 5, 8, 13, 40, 100, 250)):
        async with gateway(path, f"turn{turn}", RECORD_WITHOUT_END) as process:
            acknowledged |= {await next_line(process) for _ in range(count)}
            process.kill()
            output, _ = await process.communicate()
            # What was said before the kill and not read counts too; a line that was cut does not.
            acknowledged |= set(output.decode().rpartition("\n")[0].splitlines())

    async with open_store(path) as store:
        found = {each.execution_id: each for each in await store.executions(limit=1_000_000)}
        calls = {name: len(await store.calls(name)) for name in acknowledged}

    assert acknowledged - set(found) == set()
    assert {found[name].status for name in acknowledged} == {"ok"}
    assert {each.status for each in found.values()} <= {"ok", "lost"}
    assert set(calls.values()) == {3}
    check_soundness(path)


async def test_kill_inside_a_transaction_leaves_nothing_of_it(tmp_path: Path) -> None:
    """Rows that were executed but not committed are gone, and those before them are there."""
    path = tmp_path / "store.db"
    code = """
    async def main():
        async with open_store(PATH) as store:
            store.record_start(execution(1))
            await store.flush()
            store.record_start(execution(2))
            store._writer.put(lambda connection: os.kill(os.getpid(), signal.SIGKILL), 0)
            await store.flush()

    asyncio.run(main())
    """
    async with gateway(path, "a", code) as process:
        await process.communicate()
        assert process.returncode == -signal.SIGKILL

    async with open_store(path) as store:
        assert [each.execution_id for each in await store.executions()] == ["a-1"]
    check_soundness(path)


async def test_running_executions_are_lost_with_their_gateway_only(tmp_path: Path) -> None:
    """While it lives another gateway leaves them alone; after its kill the next to open says `lost`."""
    path = tmp_path / "store.db"
    code = """
    async def main():
        async with open_store(PATH) as store:
            store.record_start(execution(1, "running"))
            store.record_start(execution(2, "ok"))
            await store.flush()
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(main())
    """
    async with gateway(path, "a", code) as killed, gateway(path, "b", code) as living:
        assert [await next_line(killed), await next_line(living)] == ["ready", "ready"]
        async with open_store(path) as store:
            before = {each.execution_id: each.status for each in await store.executions()}
        killed.kill()
        await killed.wait()
        async with open_store(path) as store:
            after = {each.execution_id: each.status for each in await store.executions()}
        await last_lines(living, "end\n")

    assert before == {"a-1": "running", "a-2": "ok", "b-1": "running", "b-2": "ok"}
    assert after == {"a-1": "lost", "a-2": "ok", "b-1": "running", "b-2": "ok"}


async def test_gateways_that_make_a_store_at_once_all_succeed(tmp_path: Path) -> None:
    """Several start together where there is none yet: one makes the tables and all write."""
    code = """
    async def main():
        say("ready")
        sys.stdin.readline()
        async with open_store(PATH) as store:
            store.record_start(execution(1))

    asyncio.run(main())
    """
    for turn in range(3):
        path = tmp_path / f"store{turn}.db"
        async with (
            gateway(path, "a", code) as a,
            gateway(path, "b", code) as b,
            gateway(path, "c", code) as c,
            gateway(path, "d", code) as d,
        ):
            assert {await next_line(each) for each in (a, b, c, d)} == {"ready"}
            await asyncio.gather(*(last_lines(each, "go\n") for each in (a, b, c, d)))

        async with open_store(path) as store:
            assert {each.execution_id for each in await store.executions()} == {"a-1", "b-1", "c-1", "d-1"}
        check_soundness(path)


async def test_two_gateways_write_at_once_and_nothing_is_missing(tmp_path: Path) -> None:
    """Each waits for the other's lock; both journals are whole."""
    path = tmp_path / "store.db"
    code = """
    async def main():
        async with open_store(PATH) as store:
            for number in range(200):
                store.record_start(execution(number, "running"))
                store.record_call(call(1, number))
                store.record_end(execution(number, code=f"{NAME} {number}"))
                if number % 5 == 0:
                    await store.flush()

    asyncio.run(main())
    """
    async with gateway(path, "a", code) as a, gateway(path, "b", code) as b:
        await asyncio.gather(last_lines(a), last_lines(b))

    async with open_store(path) as store:
        found = [(each.execution_id, each.status) for each in await store.executions(limit=1000)]
    assert sorted(found) == sorted((f"{name}-{number}", "ok") for name in "ab" for number in range(200))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (400,)
    check_soundness(path)


FULL = """
def allow(size_bytes):
    # A file that may not grow is as good as a full disk, and needs no privileges.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

async def fails(store):
    try:
        await store.flush()
    except StoreError as error:
        return str(error).startswith(f"The store {str(PATH)!r} cannot be written: ")
    return False
"""


@pytest.mark.behaviour("store.full_disk")
async def test_full_disk_is_told_to_all_who_wait_and_loses_nothing(tmp_path: Path) -> None:
    """While nothing fits, every flush fails and reading works; when there is room, all that was recorded is written."""
    path = tmp_path / "store.db"
    code = """
    async def main():
        async with open_store(PATH) as store:
            store.record_start(execution(0))
            await store.flush()
            allow(256 << 10)
            for number in range(1, 100):
                store.record_start(execution(number, code=f"{number}" * 5000))
            say(await asyncio.gather(*(fails(store) for _ in range(3))))
            store.record_call(call(1, 0))
            say(await fails(store))
            say(len(await store.executions(limit=1000)))
            allow(resource.RLIM_INFINITY)
            await store.flush()
            say(len(await store.executions(limit=1000)))
            say(len(await store.calls(f"{NAME}-0")))

    asyncio.run(main())
    """
    async with gateway(path, "a", FULL + textwrap.dedent(code)) as process:
        assert await last_lines(process) == ["[True, True, True]", "True", "1", "100", "1"]
    check_soundness(path)


async def test_rows_are_tried_again_though_nobody_waits(tmp_path: Path) -> None:
    """Whoever was told of the failure need not come back for the rows to be written in the end."""
    path = tmp_path / "store.db"
    code = """
    async def main():
        async with open_store(PATH) as store:
            allow(256 << 10)
            store.record_start(execution(1, code="x" * (1 << 20)))
            say(await fails(store))
            allow(resource.RLIM_INFINITY)
            async with asyncio.timeout(60):
                while await store.find_execution(f"{NAME}-1") is None:
                    pass
            say("written")

    asyncio.run(main())
    """
    async with gateway(path, "a", FULL + textwrap.dedent(code)) as process:
        assert await last_lines(process) == ["True", "written"]


@pytest.mark.parametrize("size_bytes", [0, 2000, 30_000])
async def test_full_disk_at_the_start_is_told_and_the_store_can_be_opened_later(
    tmp_path: Path, size_bytes: int
) -> None:
    """Wherever the making of the tables stops, what is there is no obstacle."""
    path = tmp_path / "store.db"
    code = f"""
    async def main():
        allow({size_bytes})
        try:
            async with open_store(PATH):
                say("open")
        except StoreError as error:
            say(str(error).startswith(f"The store {{str(PATH)!r}} cannot be opened: "))
        allow(resource.RLIM_INFINITY)
        async with open_store(PATH) as store:
            store.record_start(execution(1))

    asyncio.run(main())
    """
    async with gateway(path, "a", FULL + textwrap.dedent(code)) as process:
        assert await last_lines(process) == ["True"]

    async with open_store(path) as store:
        assert [each.execution_id for each in await store.executions()] == ["a-1"]
    check_soundness(path)


async def test_closing_on_a_full_disk_says_what_is_missing(tmp_path: Path) -> None:
    """Rows that cannot be written at the end are an error, not a silence."""
    path = tmp_path / "store.db"
    code = """
    async def main():
        async with open_store(PATH) as store:
            allow(1000)
            store.record_start(execution(1, code="x" * (1 << 20)))

    try:
        asyncio.run(main())
    except StoreError as error:
        say(str(error).startswith(f"Not all was recorded. The store {str(PATH)!r} cannot be written: "))
    """
    async with gateway(path, "a", FULL + textwrap.dedent(code)) as process:
        assert await last_lines(process) == ["True"]
