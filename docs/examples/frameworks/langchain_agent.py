import asyncio
import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitResult

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = {"transport": "http", "url": url, "headers": headers}
else:
    gateway = {"transport": "stdio", "command": "sealyard", "args": ["serve", "sealyard.toml"]}


async def ask(mcp_context: Any, params: Any, context: Any) -> ElicitResult:
    print(params.message)
    decision = await asyncio.to_thread(input, "once, run, session, always or refuse? ")
    return ElicitResult(action="accept", content={"decision": decision})


async def main() -> None:
    client = MultiServerMCPClient({"sealyard": gateway}, callbacks=Callbacks(on_elicitation=ask))
    async with client.session("sealyard") as session:
        agent = create_agent("openai:gpt-5", await load_mcp_tools(session))
        done = await agent.ainvoke({"messages": sys.argv[1]})
    print(done["messages"][-1].content)


asyncio.run(main())
