"""Who answers an ask in Claude Code where it runs without a terminal: an operator, and never the client itself."""

import asyncio
import threading
import time
from pathlib import Path

from tests.clients.conversations import write_config
from tests.clients.model import Model, Step, serving
from tests.clients.programs import PROGRAMS, SECONDS, Home

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.store import open_store
from sealyard.values.access import Approval

TOOL = "mcp__mail__send_mail"
CODE = "from servers.mail import send_mail\nsend_mail(to='ann@example.com', subject='ask me', body='x')['message']"
SENT = "Sent to ann@example.com."
STEPS = [Step("execute_code", {"code": CODE})]


def settled(folder: Path, model: Model, more: str = "") -> Home:
    """A home in which Claude Code has a gateway that asks about a mail."""
    home = Home(folder / "claude", model)
    home.project.mkdir(parents=True)
    home.temporary.mkdir()
    write_config(home)
    with (home.project / "sealyard.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[privacy]\nmode = 'off'\n{more}")
    done = home.run("sealyard", "init", "--apply", "claude-code", "--output", "sealyard.toml", "--yes")
    assert done.returncode == 0, done.stderr
    return home


async def answered(home: Home) -> list[dict[str, object]]:
    """Allow the call that waits, once its client has answered without a person; that answer's entry in the log."""
    async with asyncio.timeout(SECONDS), open_store(home.path / "store.db") as store:
        approvals = Approvals(store, PolicySettings())
        while not (dropped := await store.audit_entries(limit=10, kind="approval.unattended")):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # another process writes it
        (ask,) = await approvals.waiting()
        yes = Approval(decision="once", by="alice", channel="cli", answered_at=time.time())
        await approvals.answer(ask.id, yes)
        return [entry.body for entry in dropped]


def test_without_a_terminal_an_operator_is_asked(tmp_path: Path) -> None:
    """Claude Code declares forms and refuses them itself; the run waits for the operator all the same."""
    found: list[dict[str, object]] = []
    with serving(STEPS) as model:
        home = settled(tmp_path, model)
        operator = threading.Thread(target=lambda: found.extend(asyncio.run(answered(home))))
        operator.start()
        PROGRAMS["claude-code"].converse(home)
        operator.join()

    assert [(each["tool"], each["action"]) for each in found] == [(TOOL, "cancel")]
    assert model.requests[-1].results[0].startswith(SENT)


def test_without_a_terminal_and_an_operator_the_model_is_told_what_to_do(tmp_path: Path) -> None:
    """At once: nobody else may answer."""
    with serving(STEPS) as model:
        home = settled(tmp_path, model, '\n[approval]\nchannels = ["client"]\n')
        PROGRAMS["claude-code"].converse(home)

    (said,) = model.requests[-1].results
    assert f"ApprovalRefused: {TOOL} refused: the client answered within " in said
    assert 'put "operator" into approval.channels and answer with `sealyard approvals`' in said
