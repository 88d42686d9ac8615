import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = {"type": "http", "url": url, "headers": headers}
else:
    gateway = {"type": "stdio", "command": "sealyard", "args": ["serve", "sealyard.toml"]}

options = ClaudeAgentOptions(
    mcp_servers={"sealyard": gateway | {"alwaysLoad": True}},
    strict_mcp_config=True,
    tools=[],
    allowed_tools=["mcp__sealyard"],
)


async def main() -> None:
    async for message in query(prompt=sys.argv[1], options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main())
