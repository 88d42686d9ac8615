"""How the servers of these tests are served when they run as processes: over HTTP at a free port, or over stdio."""

import asyncio
import socket
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def serve_http(server: Server[Any]) -> None:
    """Serve until the process is ended. The first line of output is the URL; connections wait until they are served."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    running = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    await running


async def serve_stdio(server: Server[Any]) -> None:
    """Speak on standard input and output until the input ends."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
