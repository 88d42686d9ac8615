import asyncio
import json

from mcp import Client, StdioServerParameters

CODE = """
from servers.trips import find_parks

parks = find_parks(activity="stargazing")
print(len(parks), "parks")
result = max(parks, key=lambda park: park["elevation_m"])["name"]
"""


async def main() -> None:
    gateway = StdioServerParameters(command="sealyard", args=["serve", "sealyard.toml"])
    async with Client(gateway) as client:
        print(*[tool.name for tool in (await client.list_tools()).tools])
        found = await client.call_tool("search_tools", {"query": "weather forecast", "limit": 1})
        print(json.loads(found.content[0].text)["tools"][0]["use"])
        done = await client.call_tool("execute_code", {"code": CODE})
        print(done.content[0].text)


asyncio.run(main())
