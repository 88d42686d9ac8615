import asyncio
from typing import Any

from mcp import Client, StdioServerParameters

COLLECT = """
import json
from servers.expenses import list_expenses

rows = list_expenses()
json.dump(rows, open("rows.json", "w"))
result = rows
"""

COUNT = """
import json
from collections import Counter

rows = json.load(open("rows.json"))
Counter(row["category"] for row in rows).most_common(2)
"""

WRONG = """
from servers.expenses import get_budget

get_budget(department="Sails")
"""


async def main() -> None:
    gateway = StdioServerParameters(command="sealyard", args=["serve", "sealyard.toml"])
    async with Client(gateway) as client:

        async def execute(code: str) -> Any:
            return await client.call_tool("execute_code", {"code": code, "session": "audit"})

        careless = await execute(COLLECT)
        print(careless.content[0].text[:70], "…")
        print(len(careless.content[0].text) < 8_000)

        print((await execute(COUNT)).content[0].text)

        wrong = await execute(WRONG)
        print(wrong.is_error, wrong.content[0].text)


asyncio.run(main())
