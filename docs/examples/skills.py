import asyncio
from pathlib import Path

from sealyard.config import Config, StoreConfig
from sealyard.skills import SaveExample, SaveSkill
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, open_yard

CODE = """
def basket(fruits: list) -> int:
    from servers.shop import price

    return sum(price(fruit) for fruit in fruits)
"""
SENT = []


def price(fruit: str) -> int:
    """Get the price of a fruit."""
    SENT.append(fruit)
    return len(fruit)


async def main() -> None:
    config = Config(store=StoreConfig(path=Path("skills.db")))
    async with open_yard(config, upstreams={"shop": FakeUpstream("shop", price=price)}) as yard:
        await yard.execute(ExecuteRequest(code=CODE + "basket(['fig', 'pear'])"))
        example = SaveExample(inputs={"fruits": ["fig", "pear"]})
        request = SaveSkill(name="basket", code=CODE, description="Total price of some fruits.", examples=(example,))
        saved = await yard.skills.save(request, principal="local")
        print(saved.skill.name, saved.skill.version, saved.skill.status, [need.tool for need in saved.skill.tools])
        print("sent:", SENT)

        result = await yard.execute(ExecuteRequest(code="from skills import basket\nbasket(['plum', 'fig', 'kiwi'])"))
        print(result.text)

        tested = await yard.skills.test("local", "basket", principal="local")
        print("passed:", tested.passed, "sent:", len(SENT))


asyncio.run(main())
