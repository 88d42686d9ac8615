"""An agent of Pydantic AI whose run is cancelled, and another one with the same connection."""

import asyncio
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

if url := os.environ.get("SEALYARD_URL"):
    gateway, headers = url, {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
else:
    gateway, headers = StdioTransport("sealyard", ["serve", "sealyard.toml"]), None


async def main() -> None:
    """Read a line to cancel the first, and another one to begin the second."""
    async with MCPToolset(gateway, headers=headers, init_timeout=60) as tools:
        running = asyncio.create_task(Agent("openai:gpt-5", toolsets=[tools]).run("Go on."))
        await asyncio.to_thread(sys.stdin.readline)
        running.cancel()
        await asyncio.wait({running})
        await asyncio.to_thread(sys.stdin.readline)
        os.environ["OPENAI_BASE_URL"] = os.environ["NEXT_BASE_URL"]
        done = await Agent("openai:gpt-5", toolsets=[tools]).run("Go on.")
        print(done.output)


asyncio.run(main())
