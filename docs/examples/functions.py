import asyncio
from pathlib import Path
from typing import Literal

from sealyard import CallContext
from sealyard.config import Config, StoreConfig
from sealyard.yard import ExecuteRequest, open_yard

STOCK = {"jam": 3, "tea": 0}
CODE = """
from servers.functions import in_stock, order

result = [order(item=item, pieces=2) for item in ("jam", "tea") if in_stock(item)]
"""


async def main() -> None:
    async with open_yard(Config(store=StoreConfig(path=Path("shop.db")))) as yard:

        @yard.tool(read_only=True)
        def in_stock(item: Literal["jam", "tea"]) -> int:
            """Count the pieces of an item."""
            return STOCK[item]

        @yard.tool
        async def order(item: str, pieces: int, caller: CallContext) -> str:
            """Order an item.

            Args:
                item: Its name, as in_stock takes it.
                pieces: How many.
            """
            return f"{pieces} {item} for {caller.principal}"

        [hit] = (await yard.search("order an item", detail_level="full", limit=1)).hits
        print(hit.signature, hit.parameters)
        print((await yard.execute(ExecuteRequest(code=CODE), principal="anna")).text)


asyncio.run(main())
