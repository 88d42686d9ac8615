"""One way to reach a gateway for every test here: in this process, over standard input and output, over HTTP."""

import asyncio
import contextlib
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from tests import warm
from tests.conftest import Kept

from sealyard.config import load_config
from sealyard.serve.mcp import build_server
from sealyard.yard import open_yard

ROOT = Path(__file__).parents[2]

CONFIG = """
[upstreams.expenses]
{expenses}

[sandbox]
allow_weaker = true
pool_size = 1
data_packages = false

[store]
path = {store!r}

{more}
"""


def config_text(store: Path, more: str) -> str:
    """A sealyard.toml over an example server."""
    return CONFIG.format(expenses=child("-m", "sealyard.examples.expenses"), store=str(store), more=more)


def child(*arguments: str) -> str:
    """The lines of an upstream that is a Python program."""
    command, *rest = warm.python(*arguments)
    return f"command = {json.dumps(command)}\nargs = {json.dumps(rest)}"


class Agent:
    """What a test does as an agent."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        """Call one of the advertised tools."""
        return await self.client.call_tool(tool, arguments)

    async def execute(self, code: str, /, **arguments: Any) -> types.CallToolResult:
        """Run code."""
        return await self.call("execute_code", code=code, **arguments)


Connect = Callable[..., AbstractAsyncContextManager[Agent]]
Reach = Callable[..., Awaitable[Agent]]


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Writes a sealyard.toml over the example servers and gives its path."""

    def write(more: str = "") -> Path:
        path = tmp_path / "sealyard.toml"
        path.write_text(config_text(tmp_path / "store" / "sealyard.db", more), encoding="utf-8")
        return path

    return write


@pytest.fixture(params=["memory", "stdio", "http"])
def connect(request: pytest.FixtureRequest, config: Callable[..., Path]) -> Connect:
    """Opens a gateway and a client that is connected to it."""
    opener = {"memory": in_memory, "stdio": over_stdio, "http": over_http}[request.param]

    @contextlib.asynccontextmanager
    async def open_agent(more: str = "", *, mode: str = "auto", **options: Any) -> AsyncIterator[Agent]:
        async with opener(config(more), mode=mode, **options) as agent:
            yield agent

    return open_agent


@pytest.fixture(params=["memory", "stdio", "http"])
def reach(request: pytest.FixtureRequest, kept: Kept) -> Reach:
    """Gives a client of a gateway that the tests of a file share. It learns nothing from one for another."""

    async def reach(mode: str = "auto") -> Agent:
        found: Agent = await kept(_shared, request.param, mode)
        return found

    return reach


@contextlib.asynccontextmanager
async def _shared(transport: str, mode: str) -> AsyncIterator[Agent]:
    opener = {"memory": in_memory, "stdio": over_stdio, "http": over_http}[transport]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sealyard.toml"
        text = config_text(Path(folder) / "store" / "sealyard.db", "[learning]\nenabled = false\n")
        path.write_text(text, encoding="utf-8")
        async with opener(path, mode=mode) as agent:
            yield agent


@contextlib.asynccontextmanager
async def in_memory(path: Path, *, mode: str = "auto", **options: Any) -> AsyncIterator[Agent]:
    """A gateway in this process."""
    loaded = load_config(path)
    async with (
        open_yard(loaded) as yard,
        Client(build_server(yard, loaded.surface), mode=mode, cache=None, **options) as client,
    ):
        yield Agent(client)


@contextlib.asynccontextmanager
async def over_stdio(path: Path, *, mode: str = "auto", **options: Any) -> AsyncIterator[Agent]:
    """A gateway that the client starts."""
    command, *rest = warm.python("-m", "sealyard", "serve", str(path))
    server = StdioServerParameters(command=command, args=rest)
    async with Client(server, mode=mode, cache=None, **options) as client:
        yield Agent(client)


@contextlib.asynccontextmanager
async def over_http(path: Path, *, mode: str = "auto", **options: Any) -> AsyncIterator[Agent]:
    """A gateway that listens on loopback."""
    async with serving(path) as url, Client(url, mode=mode, cache=None, **options) as client:
        yield Agent(client)


@contextlib.asynccontextmanager
async def serving(path: Path, *arguments: str, environment: dict[str, str] | None = None) -> AsyncIterator[str]:
    """`sealyard serve --http` on a free port; gives the URL of `/mcp`."""
    process = await asyncio.create_subprocess_exec(
        *warm.python("-m", "sealyard", "serve", str(path), "--http", "127.0.0.1:0", *arguments),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | (environment or {}),
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            said = ""
            while not (found := re.search(r"at (http://\S+)", said)):
                line = await process.stderr.readline()
                assert line, f"The gateway ended before it listened: {said}"
                said += line.decode()
        drained = asyncio.create_task(process.stderr.read())
        yield found[1]
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(60):
            await process.wait()
    assert process.returncode == 143, await drained
