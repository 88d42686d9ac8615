"""Servers that others wrote, called from sandboxed code through the whole gateway."""

import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.mcp import peers

from sealyard.config import Config
from sealyard.config.settings import StoreConfig
from sealyard.sandbox.policy import DEFAULT
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


@contextlib.asynccontextmanager
async def opened(folder: Path, commands: dict[str, list[str]], **env: str) -> AsyncIterator[Yard]:
    """A gateway over the given programs."""
    config = Config(
        store=StoreConfig(path=folder / "store" / "sealyard.db"),
        upstreams={
            name: UpstreamConfig(name=name, transport="stdio", command=command[0], args=tuple(command[1:]), env=env)
            for name, command in commands.items()
        },
    )
    async with open_yard(config, policy=PLAIN) as yard:
        yield yard


async def run(yard: Yard, code: str) -> Any:
    """The value of the code."""
    result = await yard.execute(ExecuteRequest(code=code, timeout_seconds=60))
    assert result.outcome.ok, result.text
    return result.outcome.result


async def test_filesystem_server(tmp_path: Path) -> None:
    """Writes, lists and reads real files, in one run."""
    folder = tmp_path / "files"
    folder.mkdir()
    async with opened(tmp_path, {"fs": peers.filesystem_server(folder)}) as yard:
        value = await run(
            yard,
            "from servers.fs import list_directory, read_text_file, write_file\n"
            f"for name in 'abc': write_file(path={str(folder)!r} + f'/{{name}}.txt', content=name * 3)\n"
            f"listed = list_directory(path={str(folder)!r})\n"
            f"text = read_text_file(path={str(folder)!r} + '/b.txt')\n"
            "[str(listed).count('[FILE]'), str(text)]",
        )

    assert value[0] == 3
    assert "bbb" in value[1]
    assert (folder / "c.txt").read_text(encoding="utf-8") == "ccc"


async def test_memory_server(tmp_path: Path) -> None:
    """Nested arguments and structured answers survive the way there and back."""
    async with opened(
        tmp_path, {"memory": peers.memory_server()}, MEMORY_FILE_PATH=str(tmp_path / "memory.jsonl")
    ) as yard:
        value = await run(
            yard,
            "from servers.memory import create_entities, read_graph\n"
            "create_entities(entities=[{'name': 'Oslo', 'entityType': 'city', 'observations': ['cold']}])\n"
            "read_graph()['entities']",
        )

    assert [(entity["name"], entity["observations"]) for entity in value] == [("Oslo", ["cold"])]


async def test_reference_server(tmp_path: Path) -> None:
    """Numbers, an error that can be caught, and an image that becomes a file."""
    async with opened(tmp_path, {"everything": peers.reference_server()}) as yard:
        names = [hit.name for hit in (await yard.search("echo a message")).hits]
        tools = {spec.name: spec for spec in (await yard.snapshot()).tools.values()}
        total, image, error = await run(
            yard,
            f"from servers.everything import {tools['get-sum'].function} as add\n"
            f"from servers.everything import {tools['get-tiny-image'].function} as picture\n"
            "total = add(a=2, b=40)\n"
            "found = [part for part in picture() if isinstance(part, dict)]\n"
            "head = list(open(found[0]['file'], 'rb').read(4))\n"
            "try:\n    call_tool('everything.get-sum', {'a': 'two', 'b': 1})\n"
            "except ToolError as refused:\n    error = type(refused).__name__\n"
            "[str(total), head, error]",
        )

    assert names[0] == "mcp__everything__echo"
    assert "42" in total
    assert image == [0x89, 0x50, 0x4E, 0x47]
    assert error == "InvalidArguments"


async def test_git_server(tmp_path: Path) -> None:
    """A real repository is read."""
    repository = tmp_path / "repository"
    repository.mkdir()
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "The first commit"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)  # noqa: ASYNC221 - nothing else runs yet
    async with opened(tmp_path, {"git": peers.git_server(repository)}) as yard:
        value = await run(yard, f"from servers.git import git_log\nstr(git_log(repo_path={str(repository)!r}))")

    assert "The first commit" in value


async def test_sqlite_server(tmp_path: Path) -> None:
    """A table is made and filtered; the server is of an older generation of the SDK."""
    async with opened(tmp_path, {"db": peers.sqlite_server(tmp_path / "test.db")}) as yard:
        value = await run(
            yard,
            "from servers.db import create_table, read_query, write_query\n"
            "create_table(query='CREATE TABLE t (n INTEGER)')\n"
            "for n in range(5): write_query(query=f'INSERT INTO t VALUES ({n})')\n"
            "str(read_query(query='SELECT count(*) AS c FROM t WHERE n > 1'))",
        )

    assert "3" in value


async def test_several_servers_in_one_run(tmp_path: Path) -> None:
    """The time of one goes into a file of another."""
    folder = tmp_path / "files"
    folder.mkdir()
    async with opened(tmp_path, {"fs": peers.filesystem_server(folder), "clock": peers.time_server()}) as yard:
        await run(
            yard,
            "import asyncio\n"
            "from servers.clock import get_current_time\nfrom servers.fs import write_file\n"
            "zones = ['Europe/Oslo', 'Asia/Tokyo', 'UTC']\n"
            "times = await asyncio.gather(*[get_current_time(timezone=zone) for zone in zones])\n"
            f"write_file(path={str(folder / 'zones.txt')!r}, content=','.join(t['timezone'] for t in times))",
        )
        protocols = {status.name: status.protocol_version for status in yard.tools.statuses()}

    assert (folder / "zones.txt").read_text(encoding="utf-8") == "Europe/Oslo,Asia/Tokyo,UTC"
    assert set(protocols.values()) <= {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}


@pytest.mark.parametrize("name", ["missing", "dies"])
async def test_a_server_that_cannot_run_is_explained(tmp_path: Path, name: str) -> None:
    """The status says why, with what it wrote to standard error."""
    commands = {
        "missing": [str(tmp_path / "no-such-program")],
        "dies": [peers.NODE, "-e", "console.error('out of coffee'); process.exit(3)"],
    }
    async with opened(tmp_path, {name: commands[name]}) as yard:
        found = await yard.search("anything")
        (status,) = yard.tools.statuses()

    assert found.hits == ()
    assert status.state in ("backing_off", "failed")
    assert status.error
    assert name != "dies" or "out of coffee" in status.stderr
