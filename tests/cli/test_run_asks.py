"""`sealyard approvals` for code that is asked for before it runs."""

import asyncio
from pathlib import Path

from tests.cli.test_approvals import ME, Command, gateway
from tests.conftest import polled

from sealyard.values.access import Grant


async def test_code_is_listed_and_allowed_once(sealyard: Command, tmp_path: Path) -> None:
    """To allow it always is an error that says what there is to answer."""
    grant = Grant(execution_id="run1", principal="local", session="local:default", tools={})
    async with gateway(tmp_path) as (approvals, _, config):
        asking = asyncio.create_task(approvals.ask_for_run(grant, "It failed three times.", {"code": "1 / 0"}))
        asks = await polled(approvals.waiting, bool)
        ask_id = asks[0].id
        listed = await asyncio.to_thread(sealyard, "approvals", "--config", config)
        always = await asyncio.to_thread(
            sealyard, "approvals", "approve", ask_id, "--for", "always", "--config", config
        )
        once = await asyncio.to_thread(sealyard, "approvals", "approve", ask_id, "--config", config)
        approval = await asking

    assert listed.stdout.splitlines()[1:] == [
        "  code that has not begun to run",
        '  argument code = "1 / 0"',
        "  asked because of learning.critical",
        "  reason: It failed three times.",
        "  asked by local in session local:default, before run run1",
    ]
    assert always.returncode == 2
    assert f"{ask_id!r} is about code, which is allowed once. Answer once or refuse." in always.stderr
    assert (once.returncode, once.stdout) == (0, f"approved (once): execute_code ({ask_id})\n")
    assert (approval.decision, approval.by, approval.channel) == ("once", ME, "cli")
