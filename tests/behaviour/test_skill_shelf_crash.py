"""Skills under kills and full disks: each version that was acknowledged is there, whole, and no half of another one.

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
from sealyard.values.skills import SkillExample, Trace, TraceCall

PRELUDE = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from sealyard.errors import StoreError
from sealyard.store import open_store, skills
from sealyard.store.skills import ShelfLimits
from sealyard.values.skills import Skill, SkillExample, Trace, TraceCall

PATH = Path(sys.argv[1])
NAME = sys.argv[2]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def say(text):
    print(text, flush=True)

def example(code):
    call = TraceCall(tool="mcp__bank__pay", version="1.0.0", arguments={"code": code}, answer="x" * 3000)
    return SkillExample(inputs={"code": code}, output=code, trace=Trace(recorded_at=1.0, calls=(call,)), passed=True)

async def save(store, code, name="total"):
    skill = Skill(
        namespace="shared", name=name, status="active", code=code, examples=(example(code),), digest=code, author=NAME
    )
    limits = ShelfLimits(versions=1_000_000)
    return await store.skills.add(skill, lambda before: "patch", limits=limits)
"""
SAVE_WITHOUT_END = """
async def run(store, numbers):
    for number in numbers:
        saved = await save(store, f"{NAME}-{number}")
        say(f"{saved.version} {saved.code}")

async def main():
    async with open_store(PATH) as store:
        await asyncio.gather(*(run(store, range(first, 1_000_000, 3)) for first in range(3)))
"""


@asynccontextmanager
async def gateway(path: Path, name: str, code: str) -> AsyncIterator[Process]:
    """A process with a store, which is killed at the end if it still runs."""
    program = PRELUDE + textwrap.dedent(code) + "\nasyncio.run(main())\n"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), name, stdout=PIPE)
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


async def lines_until_killed(process: Process, count: int) -> list[str]:
    """What it says: so many lines, and what it said before the kill and nobody had read; a cut line does not count."""
    lines = [await next_line(process) for _ in range(count)]
    process.kill()
    output, _ = await process.communicate()
    return lines + output.decode().rpartition("\n")[0].splitlines()


def example(code: str) -> SkillExample:
    """The example that belongs to this code."""
    call = TraceCall(tool="mcp__bank__pay", version="1.0.0", arguments={"code": code}, answer="x" * 3000)
    return SkillExample(inputs={"code": code}, output=code, trace=Trace(recorded_at=1.0, calls=(call,)), passed=True)


async def check(path: Path, acknowledged: dict[str, str]) -> None:
    """What was acknowledged is there, everything that is there is whole, and versions follow each other."""
    async with open_store(path) as store:
        found = await store.skills.versions("shared", "total", with_examples=True)
    assert acknowledged.items() <= {each.version: each.code for each in found}.items()
    assert [each.version for each in found] == [f"1.0.{number}" for number in reversed(range(len(found)))]
    assert len({each.code for each in found}) == len(found)
    assert [each.examples for each in found] == [(example(each.code),) for each in found]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store.db"


async def test_what_was_acknowledged_survives_every_kill_of_two_gateways(path: Path) -> None:
    """Both save the same name at once and are killed after ever more saves: no version is lost, given twice or half."""
    acknowledged: dict[str, str] = {}
    for turn, count in enumerate((0, 1, 2, 5, 20, 60)):
        async with gateway(path, f"a{turn}", SAVE_WITHOUT_END) as a, gateway(path, f"b{turn}", SAVE_WITHOUT_END) as b:
            both = await asyncio.gather(lines_until_killed(a, count), lines_until_killed(b, count))
        for line in (*both[0], *both[1]):
            version, code = line.split()
            assert acknowledged.setdefault(version, code) == code

    assert len(acknowledged) >= 2 * 88
    await check(path, acknowledged)


async def test_kill_between_the_rows_of_a_version_leaves_none_of_them(path: Path) -> None:
    """The skill is written and its examples are not yet: neither is there, and its number is given to the next."""
    code = """
    insert = skills._insert
    def half(connection, **rest):
        connection.set_trace_callback(lambda sql: die() if "INSERT INTO skill_examples" in sql else None)
        return insert(connection, **rest)

    async def main():
        async with open_store(PATH) as store:
            say((await save(store, "first")).version)
            skills._insert = half
            await save(store, "second")
            say("never")
    """
    async with gateway(path, "a", code) as process, asyncio.timeout(60):
        output, _ = await process.communicate()
        assert (output, process.returncode) == (b"1.0.0\n", -signal.SIGKILL)

    await check(path, {"1.0.0": "first"})
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM skill_examples").fetchall() == [(1,)]


async def test_full_disk_is_told_and_what_failed_is_not_saved_later(path: Path) -> None:
    """While nothing fits, saves fail and reading works; when there is room, only what is saved anew is there."""
    code = """
    def allow(size_bytes):
        # A file that may not grow is as good as a full disk, and needs no privileges.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    async def fails(store, code):
        try:
            await save(store, code)
        except StoreError as error:
            return str(error).startswith(f"The store {str(PATH)!r} cannot be written: ")
        return False

    async def versions(store):
        return [each.version for each in await store.skills.versions("shared", "total")]

    async def main():
        async with open_store(PATH) as store:
            await save(store, "first")
            allow(PATH.with_name(PATH.name + "-wal").stat().st_size)
            say(await asyncio.gather(*(fails(store, f"{number}" * 5000) for number in range(3))))
            say(await versions(store))
            allow(resource.RLIM_INFINITY)
            await store.flush()
            say(await versions(store))
            say((await save(store, "second")).version)
    """
    async with gateway(path, "a", code) as process, asyncio.timeout(60):
        output, _ = await process.communicate()
        assert process.returncode == 0

    assert output.decode().splitlines() == ["[True, True, True]", "['1.0.0']", "['1.0.0']", "1.0.1"]
    await check(path, {"1.0.0": "first", "1.0.1": "second"})


async def test_kill_while_uses_are_recorded_keeps_what_was_flushed(path: Path) -> None:
    """Uses are enqueued: those that were flushed add up, and none is counted twice."""
    code = """
    from sealyard.values.skills import SkillUse

    async def main():
        async with open_store(PATH) as store:
            for number in range(1_000_000):
                store.skills.record_uses([SkillUse(
                    namespace="shared", name="total", version="1.0.0", execution_id=f"{NAME}-{number}", principal=NAME,
                    at=float(number), calls=2,
                )])
                await store.flush()
                say(number)
    """
    said = 0
    for name in "ab":
        async with gateway(path, name, code) as process:
            said += len(await lines_until_killed(process, 20))

    async with open_store(path) as store:
        (record,) = await store.skills.uses()
    assert said <= record.uses <= said + 2
    assert (record.calls, record.principals) == (2 * record.uses, 2)
