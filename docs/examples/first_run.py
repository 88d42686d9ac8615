import asyncio

from sealyard.sandbox import open_sandbox

GOOD = """
import statistics

print("rows:", len(amounts))
result = {"total": sum(amounts), "median": statistics.median(amounts)}
"""

BAD = """
def share(part, whole):
    return part / whole

share(1, 0)
"""


async def main() -> None:
    async with open_sandbox() as sandbox:
        outcome = await sandbox.run(GOOD, context={"amounts": [3, 1, 2]})
        print(outcome.status, outcome.result)
        print(outcome.output, end="")

        outcome = await sandbox.run(BAD)
        assert outcome.failure is not None
        print(outcome.status, outcome.failure.type, "in line", outcome.failure.line)
        print(outcome.failure.traceback)


asyncio.run(main())
