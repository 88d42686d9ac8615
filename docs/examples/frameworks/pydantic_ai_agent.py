import asyncio
import os
import sys
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.mcp import MCPToolset

if url := os.environ.get("SEALYARD_URL"):
    gateway, headers = url, {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
else:
    gateway, headers = StdioTransport("sealyard", ["serve", "sealyard.toml"]), None


async def ask(message: str, response_type: Any, params: Any, context: Any) -> dict[str, str]:
    print(message)
    return {"decision": await asyncio.to_thread(input, "once, run, session, always or refuse? ")}


async def main() -> None:
    tools = MCPToolset(
        gateway,
        headers=headers,
        init_timeout=60,
        include_instructions=True,
        tool_error_behavior="failed",
        elicitation_handler=ask,
    )
    async with Agent("openai:gpt-5", toolsets=[tools]) as agent:
        done = await agent.run(sys.argv[1], usage_limits=UsageLimits(request_limit=100))
    print(done.output)


asyncio.run(main())
