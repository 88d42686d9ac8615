"""Real servers for upstream tests: child processes and HTTP on free ports of the loopback."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests import warm

from sealyard.broker.upstreams.mcp import Upstream
from sealyard.values.tools import UpstreamConfig

FOLDER = Path(__file__).parent


@pytest.fixture
def connect() -> Callable[..., AbstractAsyncContextManager[Upstream]]:
    """Opens an upstream by the fields of its config; `on_tools`, `clock` and the like go to the upstream itself."""

    @contextlib.asynccontextmanager
    async def connect(**fields: Any) -> AsyncIterator[Upstream]:
        names = ("on_tools", "clock", "token_folder", "open_url")
        options = {name: fields.pop(name) for name in names if name in fields}
        upstream = Upstream(UpstreamConfig(**{"name": "test", **fields}), **options)
        try:
            yield upstream
        finally:
            async with asyncio.timeout(60):
                await upstream.close()

    return connect


@pytest.fixture
def child() -> Callable[..., dict[str, Any]]:
    """The config fields of a child: the tool server, or a scenario of the raw server.

    The tool server is slow to import and so starts warm, unless it is to be a process `alone`.
    """

    def child(scenario: str | None = None, *arguments: str, alone: bool = False, **fields: Any) -> dict[str, Any]:
        script = ("tool_server.py",) if scenario is None else ("raw_server.py", scenario, *arguments)
        own = (str(FOLDER / script[0]), *script[1:])
        command, *args = warm.python(*own) if scenario is None and not alone else (sys.executable, *own)
        return {"transport": "stdio", "command": command, "args": tuple(args), **fields}

    return child


@pytest.fixture
def serve() -> Callable[[Any], AbstractAsyncContextManager[str]]:
    """Serves an ASGI app on a free port and gives its address."""

    @contextlib.asynccontextmanager
    async def serve(app: Any, port: int = 0) -> AsyncIterator[str]:
        listener = socket.create_server(("127.0.0.1", port))
        config = uvicorn.Config(app, log_level="error", lifespan="on", ws="none", timeout_graceful_shutdown=0)
        host = uvicorn.Server(config)
        host.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        running = asyncio.create_task(host.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            host.should_exit = True
            await running
            listener.close()

    return serve
