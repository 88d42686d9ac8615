"""The audit log under kills at every point: what was acknowledged is there, and the chain holds.

A process forks a gateway for each point, which dies there by a signal; then its store is verified and carried on.
"""

import asyncio
import json
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sealyard.store import open_store
from sealyard.store.audit.verification import verify_store
from sealyard.values.access import AuditEntry

PROGRAM = """
import asyncio, json, os, resource, signal, sys
from pathlib import Path
from sealyard.store import open_store
from sealyard.store.audit import log as audit
from sealyard.values.access import AuditEntry
from sealyard.values.runs import CallRecord

audit.SEGMENT_ENTRIES = 4
FOLDER, HOW, FIRST, STEP = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def entry(number):
    return AuditEntry(kind="call", principal="ada", execution_id="e1", body={"number": number, "note": "x" * 700})

def call(number):
    return CallRecord(
        execution_id="e1", number=number, tool="pay", digest="d", arguments={}, started_at=1.0, seconds=0.1
    )

def prepare(path, point):
    if HOW == "bytes":  # the kernel stops a write in the middle, and the process with it
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        size_bytes = os.stat(f"{path}-wal").st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + point, resource.RLIM_INFINITY))
        return
    left = point

    def on_statement(statement):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_statement

async def work(path, point, acknowledge):
    async with open_store(path) as store:
        on_statement = prepare(path, point)
        if on_statement:
            store._writer.put(lambda connection: connection.set_trace_callback(on_statement), 0)
            await store.flush()
        done = 0
        for count in (1, 3, 1, 6, 2):
            for number in range(done, done + count):
                store.audit(entry(number))
                store.record_call(call(number))
            await store.flush()
            done += count
            acknowledge(done)
        await store.prune_audit([1], principal="local")
        acknowledge(done + 1)

point = FIRST
while True:
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        asyncio.run(work(FOLDER / f"{point}.db", point, lambda count: os.write(into, b"%d\\n" % count)))
        os._exit(0)
    os.close(into)
    with open(out) as said:
        acknowledged = [int(line) for line in said]
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps([point, status, acknowledged]), flush=True)
    if status == 0:
        break
    point += STEP
"""

EMPTY = (
    "Entry 1 is missing: the log is empty though it has a key. It was emptied, unless the first gateway that used this"
    " store was killed before it wrote anything."
)
LAST_NUMBERS = {0, 1, 4, 5, 11, 13, 14}
"""After each transaction of the program."""


async def crash(folder: Path, how: str, *, first: int, step: int) -> list[list[Any]]:
    """For each point the point, how the gateway ended and what it had acknowledged."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(folder), how, str(first), str(step), stdout=PIPE
    )
    async with asyncio.timeout(240):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


async def check_and_carry_on(path: Path, acknowledged: int) -> int:
    """Everything acknowledged is there, nothing is half there, and the next gateway goes on; the last number."""
    found = verify_store(path)
    last = found.last_number
    assert found.problem in ("", EMPTY if acknowledged == 0 else "")
    assert acknowledged <= last
    with closing(sqlite3.connect(path)) as connection:
        numbers = [body for (body,) in connection.execute("SELECT body FROM audit WHERE kind = 'call' ORDER BY number")]
        calls = connection.execute("SELECT count(*) FROM calls").fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    kept = range(4 if found.removed_segments else 0, min(last, 13))
    assert [json.loads(body)["number"] for body in numbers] == list(kept)
    assert calls == min(last, 13)  # journal and log are of the same transaction
    assert last in LAST_NUMBERS

    async with open_store(path) as store:
        store.audit(AuditEntry(kind="gateway.start", principal="local"))
    again = verify_store(path)
    assert (again.problem, again.last_number) == ("", last + 1)
    return last


async def test_kill_at_every_statement_leaves_a_log_that_is_right(tmp_path: Path) -> None:
    """Before the first, after the last and between any two: the transaction is there whole or not at all."""
    points = await crash(tmp_path, "statements", first=1, step=1)

    assert {status for _, status, _ in points[:-1]} == {-signal.SIGKILL}
    assert len(points) > 60
    seen = {
        await check_and_carry_on(tmp_path / f"{point}.db", max(acknowledged, default=0))
        for point, _, acknowledged in points
    }
    assert seen == LAST_NUMBERS


@pytest.mark.behaviour("audit.kill")
async def test_kill_inside_every_write_leaves_a_log_that_is_right(tmp_path: Path) -> None:
    """A page of the file is written in part: the next gateway finds the transaction whole or not at all."""
    points = await crash(tmp_path, "bytes", first=0, step=2_345)

    assert {status for _, status, _ in points[:-1]} == {-signal.SIGXFSZ}
    assert len(points) > 40
    seen = {
        await check_and_carry_on(tmp_path / f"{point}.db", max(acknowledged, default=0))
        for point, _, acknowledged in points
    }
    assert seen == LAST_NUMBERS


async def test_gateways_that_are_killed_together_leave_one_chain(tmp_path: Path) -> None:
    """Five write at once and three of them are killed: all that was acknowledged is in one log without a gap."""
    path = tmp_path / "store.db"
    program = """
import asyncio, sys
from pathlib import Path
from sealyard.store import open_store
from sealyard.store.audit import log as audit
from sealyard.values.access import AuditEntry

audit.SEGMENT_ENTRIES = 50

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        for number in range(int(sys.argv[3])):
            store.audit(AuditEntry(kind="call", principal=sys.argv[2], body={"number": number}))
            store.audit(AuditEntry(kind="decision", principal=sys.argv[2], body={"number": number}))
            await store.flush()
            print(number, flush=True)

asyncio.run(main())
"""

    async def run(name: str, count: int, kill_after: int | None) -> tuple[str, int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(path), name, str(count), stdout=PIPE
        )
        assert process.stdout is not None
        said = 0
        async with asyncio.timeout(60):
            while await process.stdout.readline():
                said += 1
                if said == kill_after:
                    process.kill()
            assert await process.wait() == (0 if kill_after is None else -signal.SIGKILL)
        return name, said

    runs = [("a", 40, None), ("b", 40, None), ("c", 1000, 7), ("d", 1000, 12), ("e", 1000, 1)]
    acknowledged = dict(await asyncio.gather(*(run(*each) for each in runs)))

    found = verify_store(path)
    assert found.problem == ""
    async with open_store(path) as store:
        entries = await store.audit_entries(limit=10_000)
    assert [row.number for row in entries] == list(range(found.entries, 0, -1))
    for name, count in acknowledged.items():
        own = [(row.body["number"], row.kind) for row in entries[::-1] if row.principal == name]
        assert own == [(number, kind) for number in range(len(own) // 2) for kind in ("call", "decision")]
        assert len(own) // 2 >= count


async def test_full_disk_is_told_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """What could not be written keeps its place: no number is lost, and none is given twice."""
    path = tmp_path / "store.db"
    program = """
import asyncio, resource, sys
from pathlib import Path
from sealyard.errors import StoreError
from sealyard.store import open_store
from sealyard.values.access import AuditEntry

def allow(size_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        store.audit(AuditEntry(kind="gateway.start", principal="local"))
        await store.flush()
        allow(256 << 10)
        for number in range(100):
            store.audit(AuditEntry(kind="call", principal="ada", body={"number": number, "note": "x" * 4000}))
        for _ in range(3):
            try:
                await store.flush()
            except StoreError:
                print("full", flush=True)
        allow(resource.RLIM_INFINITY)
        await store.flush()

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), stdout=PIPE)
    async with asyncio.timeout(60):
        output, _ = await process.communicate()

    assert (process.returncode, output.decode().split()) == (0, ["full"] * 3)
    found = verify_store(path)
    assert (found.problem, found.entries, found.last_number) == ("", 101, 101)
