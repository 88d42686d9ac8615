"""An agent of LangChain whose run is cancelled, and another one after it."""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = {"transport": "http", "url": url, "headers": headers}
else:
    gateway = {"transport": "stdio", "command": "sealyard", "args": ["serve", "sealyard.toml"]}


async def converse() -> str:
    """Have one conversation, with a session of its own: servers are not told about a cancelled call."""
    client = MultiServerMCPClient({"sealyard": gateway})
    async with client.session("sealyard") as session:
        agent = create_agent("openai:gpt-5", await load_mcp_tools(session))
        done = await agent.ainvoke({"messages": "Go on."})
    return done["messages"][-1].content


async def main() -> None:
    """Read a line to cancel the first, and another one to begin the second."""
    running = asyncio.create_task(converse())
    await asyncio.to_thread(sys.stdin.readline)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)  # the SDK may fail to end its session
    await asyncio.to_thread(sys.stdin.readline)
    os.environ["OPENAI_BASE_URL"] = os.environ["NEXT_BASE_URL"]
    print(await converse())


asyncio.run(main())
