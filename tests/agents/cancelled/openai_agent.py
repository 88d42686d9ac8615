"""An agent of the OpenAI Agents SDK whose run is cancelled, and another one with the same connection."""

import asyncio
import os
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

SECONDS = 180

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = MCPServerStreamableHttp({"url": url, "headers": headers}, client_session_timeout_seconds=SECONDS)
else:
    gateway = MCPServerStdio(
        {"command": "sealyard", "args": ["serve", "sealyard.toml"]}, client_session_timeout_seconds=SECONDS
    )


async def main() -> None:
    """Read a line to cancel the first, and another one to begin the second."""
    async with gateway:
        agent = Agent(name="Assistant", mcp_servers=[gateway])
        running = asyncio.create_task(Runner.run(agent, "Go on."))
        await asyncio.to_thread(sys.stdin.readline)
        running.cancel()
        await asyncio.wait({running})
        await asyncio.to_thread(sys.stdin.readline)
        os.environ["OPENAI_BASE_URL"] = os.environ["NEXT_BASE_URL"]
        done = await Runner.run(agent, "Go on.")
        print(done.final_output)


asyncio.run(main())
