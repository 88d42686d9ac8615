import asyncio

from sealyard.sandbox import open_sandbox
from sealyard.values import Limits


async def main() -> None:
    async with open_sandbox() as sandbox:
        await sandbox.run("open('notes.txt', 'w').write('seen')", session="alice")
        outcome = await sandbox.run("open('notes.txt').read()", session="alice")
        print(outcome.result)
        print(sandbox.workspace("alice").read_bytes("notes.txt"))

        outcome = await sandbox.run(
            "[{'id': n, 'square': n * n} for n in range(1_000)]",
            session="alice",
            execution_id="squares",
            limits=Limits(inline_bytes=256),
        )
        assert outcome.spill is not None
        print(outcome.spill.path, outcome.spill.bytes, outcome.spill.shape)
        print(outcome.result[-1])

        await sandbox.remove_session("alice")
        print(sandbox.sessions())


asyncio.run(main())
