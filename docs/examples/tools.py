import asyncio
from typing import Any

from sealyard.errors import CallRefused
from sealyard.sandbox import open_sandbox

PRICES = {"apple": 3, "pear": 4}

CODE = """
import asyncio

apple, pear = await asyncio.gather(
    call_tool("price", {"fruit": "apple"}),
    call_tool("price", {"fruit": "pear"}),
)
try:
    call_tool("delete_everything")
except ToolError as error:
    print(type(error).__name__, error)
result = {"sum": apple + pear}
"""


async def on_call(tool: str, args: dict[str, Any]) -> Any:
    if tool != "price":
        raise CallRefused(f"{tool} is not allowed.")
    return PRICES[args["fruit"]]


async def main() -> None:
    async with open_sandbox() as sandbox:
        outcome = await sandbox.run(CODE, on_call=on_call)
        print(outcome.output, end="")
        print(outcome.result, "after", outcome.usage.tool_calls, "calls")


asyncio.run(main())
