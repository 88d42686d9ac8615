import asyncio
from pathlib import Path
from typing import Any

from sealyard.config import Config, StoreConfig
from sealyard.testing import FakeUpstream
from sealyard.yard import AnalyzeRequest, ExecuteRequest, open_yard

ORDERS: list[dict[str, Any]] = [
    {
        "order": number,
        "country": ("DE", "FR", "PL", "US")[number % 4],
        "status": "late" if number % 97 == 0 else "sent",
        "amount": number * 37 % 1_000 + 0.5,
    }
    for number in range(10_000)
]


def list_orders() -> list[dict[str, Any]]:
    """List all orders of the year."""
    return ORDERS


CODE = """
from servers.shop import list_orders

orders = list_orders()
late = [order for order in orders if order["status"] == "late" and order["amount"] > 900]
print(len(orders), "orders,", len(late), "late and over 900")
result = sorted(late, key=lambda order: -order["amount"])[:2]
"""

QUESTION = AnalyzeRequest(
    analysis_type="aggregate",
    source={"tool": "mcp__shop__list_orders", "arguments": {}},
    parameters={
        "conditions": [{"field": "status", "operator": "==", "value": "late"}],
        "group_by": ["country"],
        "aggregations": [{"function": "count", "as": "late"}],
        "sort": [{"field": "country"}],
    },
)


async def main() -> None:
    config = Config(store=StoreConfig(path=Path("rows.db")))
    async with open_yard(config, upstreams={"shop": FakeUpstream("shop", list_orders=list_orders)}) as yard:
        done = await yard.execute(ExecuteRequest(code=CODE))
        print(done.text)
        answer = await yard.analyze(QUESTION)
        print(answer.outcome.result["rows"])

        filtering = (await yard.report()).filtering
        print(f"{filtering.bytes_in:,} bytes from the tool, {filtering.reduction:.1%} of them not for the model")


asyncio.run(main())
