import asyncio
from pathlib import Path

from sealyard.config import Config, StoreConfig
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, open_yard

PRICES = {"apple": 3, "pear": 4}

CODE = """
import asyncio
from servers.shop import price

apple, pear = await asyncio.gather(price("apple"), price("pear"))
try:
    price(fruit=7)
except ToolError as error:
    print(type(error).__name__)
result = {"sum": apple + pear}
"""


def price(fruit: str) -> int:
    """Get the price of a fruit."""
    return PRICES[fruit]


async def main() -> None:
    config = Config(store=StoreConfig(path=Path("shop.db")))
    async with open_yard(config, upstreams={"shop": FakeUpstream("shop", price=price)}) as yard:
        found = await yard.search("cost of fruit", detail_level="full")
        print(found.hits[0].signature)

        result = await yard.execute(ExecuteRequest(code=CODE))
        print(result.text)

        for call in await yard.store.calls(result.outcome.execution_id):
            print(call.number, call.tool, call.arguments, call.answer)


asyncio.run(main())
