"""The vault under kills: what was flushed is there, what was not is unknown, and no rotation or erasure is half done.

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

from sealyard.errors import UnknownToken
from sealyard.privacy.vault import KeyPlace, Keys, Vault
from sealyard.store import open_store

PRELUDE = """
import asyncio, os, signal, sys
from pathlib import Path
from sealyard.privacy.vault import keys as keys_module
from sealyard.privacy.vault import KeyPlace, Keys
from sealyard.privacy.vault import Vault
from sealyard.store import open_store

PATH = Path(sys.argv[1])

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def load():
    return KeyPlace("file", folder=PATH.parent).load()

def say(text):
    print(text, flush=True)

def vault(store):
    return Vault(load(), store.vault, expires_seconds=1000.0)
"""


@asynccontextmanager
async def gateway(path: Path, code: str) -> AsyncIterator[Process]:
    """A process with a vault, which is killed at the end if it still runs."""
    program = PRELUDE + textwrap.dedent(code) + "\nasyncio.run(main())\n"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), stdout=PIPE)
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


async def run_until_killed(path: Path, code: str) -> None:
    """Runs it to the kill that it gives itself."""
    async with gateway(path, code) as process, asyncio.timeout(60):
        await process.communicate()
        assert process.returncode == -signal.SIGKILL


def load(path: Path) -> Keys:
    """The keys in the file."""
    return KeyPlace("file", folder=path.parent).load()


@asynccontextmanager
async def open_vault(path: Path) -> AsyncIterator[Vault]:
    """A vault as the next process has it."""
    async with open_store(path) as store:
        yield Vault(load(path), store.vault, expires_seconds=1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store.db"


async def test_what_was_flushed_survives_every_kill_and_tokens_stay_the_same(path: Path) -> None:
    """A gateway is killed after ever more tokens: those it said are revealed, and each value has its token again."""
    code = """
    async def main():
        async with open_store(PATH) as store:
            scope = await vault(store).scope("s")
            for number in range(1_000_000):
                token = scope.token("email", f"user{number}@example.com")
                await store.flush()
                say(f"{number} {token}")
    """
    said: dict[int, str] = {}
    for count in (0, 1, 2, 5, 13, 60):
        async with gateway(path, code) as process:
            lines = [await next_line(process) for _ in range(count)]
            process.kill()
            output, _ = await process.communicate()
            lines += output.decode().rpartition("\n")[0].splitlines()
        for line in lines:
            number, token = line.split()
            assert said.setdefault(int(number), token) == token

    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert scope.reveal(list(said.values())) == [f"user{number}@example.com" for number in said]


async def test_token_that_was_not_flushed_is_unknown_until_its_value_comes_again(path: Path) -> None:
    """It was handed out and the process was killed before the write: refused, then the same token again."""
    code = """
    async def main():
        async with open_store(PATH) as store:
            scope = await vault(store).scope("s")
            flushed = scope.token("email", "a@example.com")
            await store.flush()
            store._writer.put(die, 0)
            say(f"{flushed} {scope.token('email', 'b@example.com')}")
            await store.flush()
    """
    async with gateway(path, code) as process:
        flushed, lost = (await next_line(process)).split()
        await process.communicate()
        assert process.returncode == -signal.SIGKILL

    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert scope.reveal(flushed) == "a@example.com"
        with pytest.raises(UnknownToken):
            scope.reveal(lost)
        assert scope.token("email", "b@example.com") == lost


ROTATIONS = {
    "before the new key is written": "keys_module._write_keys = die",
    "after the new key is written": """
write = keys_module._write_keys
def once(*args):
    write(*args)
    die()
keys_module._write_keys = once
""",
    "inside the transaction": """
from sealyard.store import vault as tables
reseal = tables._reseal
def half(connection, **rest):
    reseal(connection, **rest)
    die()
tables._reseal = half
""",
    "after the commit": """
from sealyard.store.vault import VaultTables
VaultTables.scrub = die
""",
    "before the old key is dropped": """
write, calls = keys_module._write_keys, []
def second(*args):
    calls.append(1)
    die() if len(calls) == 2 else write(*args)
keys_module._write_keys = second
""",
}


@pytest.mark.behaviour("vault.rotation")
@pytest.mark.parametrize("fault", ROTATIONS.values(), ids=ROTATIONS)
async def test_rotation_killed_at_any_point_loses_nothing(path: Path, fault: str) -> None:
    """Every scope opens with the keys in the file, all with one of them, and the next rotation ends well."""
    async with open_store(path) as store:
        vault = Vault(load(path), store.vault, expires_seconds=1000.0)
        tokens = {name: (await vault.scope(name)).token("email", f"{name}@example.com") for name in "abc"}
    code = f"""
{fault}
async def main():
    async with open_store(PATH) as store:
        opened = vault(store)
        with KeyPlace("file", folder=PATH.parent).rotate() as keys:
            await opened.rotate(keys)
"""
    await run_until_killed(path, code)

    async with open_store(path) as store:
        vault = Vault(load(path), store.vault, expires_seconds=1000.0)
        assert {name: (await vault.scope(name)).reveal(token) for name, token in tokens.items()} == {
            name: f"{name}@example.com" for name in "abc"
        }
        await vault.scope("new")
        assert len({row.key_id for row in await store.vault.scopes()}) == 1
    code = """
    async def main():
        async with open_store(PATH) as store:
            with KeyPlace("file", folder=PATH.parent).rotate() as keys:
                say(await vault(store).rotate(keys))
    """
    async with gateway(path, code) as process:
        assert await next_line(process) == "4"
        await process.communicate()
    assert len(load(path).ids) == 1
    async with open_vault(path) as vault:
        assert (await vault.scope("a")).reveal(tokens["a"]) == "a@example.com"


async def test_erasure_killed_inside_its_transaction_is_not_done_at_all(path: Path) -> None:
    """The value, its token and the scope's secrets belong together: all are as before, and the file is sound."""
    async with open_vault(path) as vault:
        token = (await vault.scope("s")).token("email", "a@example.com")
    code = """
    from sealyard.store import vault as tables
    erase = tables._erase_values
    def half(connection, **rest):
        erase(connection, **rest)
        die()
    tables._erase_values = half

    async def main():
        async with open_store(PATH) as store:
            await vault(store).forget(["a@example.com"])
    """
    await run_until_killed(path, code)

    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert scope.reveal(token) == "a@example.com"
        assert scope.token("email", "a@example.com") == token
        assert await vault.forget(["a@example.com"]) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_gateways_in_processes_agree_on_tokens_while_one_is_killed(path: Path) -> None:
    """Both put the same values at once; the survivor's tokens are those of the dead one."""
    code = """
    async def main():
        async with open_store(PATH) as store:
            scope = await vault(store).scope("s")
            for number in range(1_000_000):
                token = scope.token("email", f"user{number % 500}@example.com")
                await store.flush()
                say(f"{number % 500} {token}")
    """
    load(path)
    async with gateway(path, code) as first, gateway(path, code) as second:
        one = [await next_line(first) for _ in range(40)]
        first.kill()
        two = [await next_line(second) for _ in range(60)]

    assert two[:40] == one
    async with open_vault(path) as vault:
        scope = await vault.scope("s")
        assert scope.reveal([line.split()[1] for line in two]) == [f"user{number}@example.com" for number in range(60)]
