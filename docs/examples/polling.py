import asyncio
import itertools
from pathlib import Path
from typing import Any

from sealyard.config import Config, StoreConfig
from sealyard.testing import FakeUpstream
from sealyard.yard import ExecuteRequest, open_yard

LOOKS = itertools.count(1)


def start_export(name: str) -> dict[str, Any]:
    """Start an export. It takes a while: ask get_export until its status is done."""
    return {"name": name, "status": "running", "retry_after_seconds": 0.05}


def get_export(name: str) -> dict[str, Any]:
    """Get the state of an export, and its rows once it is done."""
    if name == "sales" and next(LOOKS) == 4:
        return {"name": name, "status": "done", "rows": 1234}
    return {"name": name, "status": "running", "retry_after_seconds": 0.05}


CODE = """
import time
from servers.exports import get_export, start_export

end = time.monotonic() + seconds
export = start_export(name)
while export["status"] == "running" and time.monotonic() < end:
    time.sleep(export["retry_after_seconds"])
    export = get_export(name)
result = {"status": export["status"], "rows": export.get("rows")}
if export["status"] == "running":
    result["next"] = f"get_export({name!r}) later; it goes on without this run"
"""


async def main() -> None:
    config = Config(store=StoreConfig(path=Path("exports.db")))
    tools = FakeUpstream("exports", start_export=start_export, get_export=get_export)
    async with open_yard(config, upstreams={"exports": tools}) as yard:
        for name, seconds in (("sales", 60), ("archive", 0.5)):
            done = await yard.execute(ExecuteRequest(code=CODE, context={"name": name, "seconds": seconds}))
            print(done.text)


asyncio.run(main())
