import asyncio
import os
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

SECONDS = 180

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = MCPServerStreamableHttp(
        {"url": url, "headers": headers}, client_session_timeout_seconds=SECONDS, cache_tools_list=True
    )
else:
    gateway = MCPServerStdio(
        {"command": "sealyard", "args": ["serve", "sealyard.toml"]},
        client_session_timeout_seconds=SECONDS,
        cache_tools_list=True,
    )


async def main() -> None:
    async with gateway:
        agent = Agent(name="Assistant", mcp_servers=[gateway])
        done = await Runner.run(agent, sys.argv[1], max_turns=100)
    print(done.final_output)


asyncio.run(main())
