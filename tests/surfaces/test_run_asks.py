"""Code that is asked for before it runs, answered over HTTP."""

import asyncio
from pathlib import Path

from tests.surfaces.api_gateway import TEAM, asks, gateway

from sealyard.values.access import Grant


async def test_code_is_allowed_once_over_http_and_never_always(tmp_path: Path) -> None:
    """By who may answer; the agent's own token may not."""
    grant = Grant(execution_id="run1", principal="ann", session="ann:default", tools={})
    async with asyncio.timeout(60), gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        ops, ann = await gate.client("ops"), await gate.client("ann")
        asking = asyncio.create_task(gate.yard.approvals.ask_for_run(grant, "It failed.", {"code": "1 / 0"}))
        waiting = await asks(ops)
        path = f"approvals/{waiting[0]['id']}"
        own = await ann.post(path, json={"decision": "once"})
        broad = [(await ops.post(path, json={"decision": each})).status_code for each in ("run", "session", "always")]
        once = await ops.post(path, json={"decision": "once"})
        approval = await asking

    assert (waiting[0]["tool"], waiting[0]["number"], waiting[0]["arguments"]) == ("execute_code", 0, {"code": "1 / 0"})
    assert own.status_code == 403
    assert broad == [400, 400, 400]
    assert once.json() == {"id": waiting[0]["id"], "decision": "once"}
    assert (approval.decision, approval.by, approval.channel) == ("once", "ops", "http")
