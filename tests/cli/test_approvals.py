"""`sealyard approvals`: a person at another terminal sees what waits and answers it."""

import asyncio
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.conftest import polled

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.errors import ApprovalRefused
from sealyard.privacy.vault import KeyPlace, Vault
from sealyard.store import Store, open_store
from sealyard.values.access import Approval, ApprovalRequest

Command = Callable[..., subprocess.CompletedProcess[str]]

try:
    ME = pwd.getpwuid(os.getuid()).pw_name
except KeyError:  # a user whom the system has no name for
    ME = f"user {os.getuid()}"


def an_ask(ask_id: str, **fields: Any) -> ApprovalRequest:
    """An ask that waits a minute."""
    now = time.time()
    told: dict[str, Any] = {
        "id": ask_id,
        "execution_id": "run1",
        "number": 1,
        "principal": "local",
        "session": "local:default",
        "tool": "mcp__ops__deploy",
        "arguments": {"target": "staging\x1b[2J"},
        "arguments_sha256": ask_id,
        "rule": "rule 1",
        "reason": "",
        "asked_at": now,
        "expires_at": now + 60,
    }
    return ApprovalRequest(**told | fields)


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[tuple[Approvals, Store, str]]:
    """A gateway's approvals, and the config that `sealyard approvals` is given."""
    config = folder / "sealyard.toml"
    path = folder / "store" / "sealyard.db"
    config.write_text(f"[store]\npath = {str(path)!r}\n", encoding="utf-8")
    async with asyncio.timeout(60), open_store(path) as store:
        yield Approvals(store, PolicySettings()), store, str(config)


async def until_waiting(approvals: Approvals, *ids: str) -> None:
    """Return when these asks can be answered."""
    await polled(approvals.waiting, lambda asks: {ask.id for ask in asks} == set(ids))


async def test_what_waits_is_listed_and_answered(sealyard: Command, tmp_path: Path) -> None:
    """The list shows arguments without obeying them; an unambiguous beginning of the id is enough."""
    async with gateway(tmp_path) as (approvals, _, config):
        allowed = asyncio.create_task(approvals.ask(an_ask("aaaa11")))
        refused = asyncio.create_task(approvals.ask(an_ask("bbbb22")))
        await until_waiting(approvals, "aaaa11", "bbbb22")
        listed = await asyncio.to_thread(sealyard, "approvals", "--config", config)
        as_json = await asyncio.to_thread(sealyard, "approvals", "--config", config, "--json")
        approved = await asyncio.to_thread(
            sealyard, "approvals", "approve", "aaaa", "--for", "always", "--reason", "fine", "--config", config
        )
        denied = await asyncio.to_thread(
            sealyard, "approvals", "--config", config, "refuse", "bbbb22", "--reason", "not on Fridays"
        )
        approval = await allowed
        (error,) = await asyncio.gather(refused, return_exceptions=True)

    lines = listed.stdout.splitlines()
    assert lines[0].startswith("aaaa11 waits, ")
    assert lines[1:6] == [
        "  tool: mcp__ops__deploy",
        "  server: ops",
        '  argument target = "staging\\u001b[2J"',
        "  asked because of rule 1",
        "  asked by local in session local:default, call 1 of run run1",
    ]
    assert [ask["id"] for ask in json.loads(as_json.stdout)["waiting"]] == ["aaaa11", "bbbb22"]
    assert (approved.returncode, approved.stdout) == (0, "approved (always): mcp__ops__deploy (aaaa11)\n")
    assert (denied.returncode, denied.stdout) == (0, "refused: mcp__ops__deploy (bbbb22)\n")
    assert (approval.decision, approval.by, approval.channel, approval.reason) == ("always", ME, "cli", "fine")
    assert isinstance(error, ApprovalRefused)
    assert str(error) == f"mcp__ops__deploy refused by {ME} (cli): not on Fridays"


async def test_an_answer_to_what_does_not_wait_says_why(sealyard: Command, tmp_path: Path) -> None:
    """Exit code 2, and one line that tells what became of it."""
    async with gateway(tmp_path) as (_, store, config):
        await store.approvals.add(an_ask("cccc33"))
        await store.approvals.add(an_ask("cccc44"))
        store.approvals.withdraw("cccc33", "its run is over")
        await store.flush()
        over = await asyncio.to_thread(sealyard, "approvals", "approve", "cccc33", "--config", config)
        unknown = await asyncio.to_thread(sealyard, "approvals", "refuse", "zzzz", "--config", config)
        await store.approvals.add(an_ask("cccc55"))
        unclear = await asyncio.to_thread(sealyard, "approvals", "refuse", "cccc", "--config", config)

    assert (over.returncode, over.stderr) == (
        2,
        "error: Approval 'cccc33' does not wait any more: its run is over.\n",
    )
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "error: No approval 'zzzz' waits. List those that do with `sealyard approvals`.\n",
    )
    assert (unclear.returncode, unclear.stderr) == (
        2,
        "error: 'cccc' is the beginning of several ids: cccc44, cccc55. Give one of them.\n",
    )


async def test_what_is_approved_always_is_listed_and_forgotten(sealyard: Command, tmp_path: Path) -> None:
    """It is asked for again then, and the audit log says who forgot it."""
    async with gateway(tmp_path) as (_, store, config):
        await store.approvals.add(an_ask("dddd44"))
        always = Approval(decision="always", by="alice", channel="cli", answered_at=time.time())
        await store.approvals.settle("dddd44", always)
        listed = await asyncio.to_thread(sealyard, "approvals", "--config", config)
        neither = await asyncio.to_thread(sealyard, "approvals", "forget", "--config", config)
        wrong = await asyncio.to_thread(sealyard, "approvals", "forget", "eeee", "--config", config)
        forgotten = await asyncio.to_thread(sealyard, "approvals", "forget", "dddd", "--config", config)
        left = await store.approvals.remembered()
        (entry,) = await store.audit_entries(kind="approval.forget")

    assert listed.stdout.splitlines()[:3] == [
        "Nothing waits for approval.",
        "approved always by alice (dddd44):",
        "  tool: mcp__ops__deploy",
    ]
    assert neither.returncode == 2
    assert wrong.stderr == ("error: Nothing is approved always under 'eeee'. `sealyard approvals` lists what is.\n")
    assert (forgotten.returncode, forgotten.stdout, left) == (0, "forgotten: mcp__ops__deploy\n", [])
    assert entry.body == {"id": "dddd44", "tool": "mcp__ops__deploy", "by": ME}


async def test_watch_shows_asks_as_they_come_and_go(tmp_path: Path) -> None:
    """Until it is interrupted; it never answers anything itself."""
    async with gateway(tmp_path) as (_, store, config):
        watching = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sealyard", "approvals", "watch", "--config", config, stdout=asyncio.subprocess.PIPE
        )
        assert watching.stdout is not None
        await store.approvals.add(an_ask("ffff66"))
        first = (await watching.stdout.readline()).decode()
        store.approvals.withdraw("ffff66", "its run is over")
        line = first
        while not line.startswith("no longer"):
            line = (await watching.stdout.readline()).decode()
        watching.terminate()
        code = await watching.wait()

    assert first.startswith("ffff66 waits, ")
    assert (line, code) == ("no longer waiting: ffff66\n", 143)


async def test_all_of_a_long_argument_can_be_read(sealyard: Command, tmp_path: Path) -> None:
    """The list says how long it is and what to type; `show` prints every character of it, each visible."""
    long = "x" * 400_000 + "\x1b[2J the end"
    async with gateway(tmp_path) as (approvals, _, config):
        task = asyncio.create_task(approvals.ask(an_ask("aaaa11", arguments={"body": long, "to": "all"})))
        await until_waiting(approvals, "aaaa11")
        listed = await asyncio.to_thread(sealyard, "approvals", "--config", config)
        shown = await asyncio.to_thread(sealyard, "approvals", "show", "aaaa", "--config", config)
        as_json = await asyncio.to_thread(sealyard, "approvals", "show", "aaaa11", "--json", "--config", config)
        unknown = await asyncio.to_thread(sealyard, "approvals", "show", "cccc", "--config", config)
        task.cancel()
        await asyncio.wait({task})

    size = len(json.dumps(long))
    assert f"({size:,} characters in all)" in " ".join(listed.stdout.split())
    assert "sealyard approvals show aaaa11" in listed.stdout
    assert shown.stdout.splitlines() == [
        "mcp__ops__deploy",
        f"argument body, {size:,} characters:",
        json.dumps(long),
        "argument to, 5 characters:",
        '"all"',
    ]
    assert json.loads(as_json.stdout)["arguments"] == {"body": long, "to": "all"}
    assert (unknown.returncode, "No approval 'cccc' waits." in unknown.stderr) == (2, True)


async def test_private_values_are_shown_on_request_after_an_entry_in_the_log(sealyard: Command, tmp_path: Path) -> None:
    """In the list, whole, and as JSON; each on a line of its own, escaped. Without the option there are tokens only."""
    note = "x\n  tool: harmless\x1b[2J"
    async with gateway(tmp_path) as (approvals, store, config):
        keys = KeyPlace("file", folder=tmp_path / "store").load()
        scope = await Vault(keys, store.vault, expires_seconds=3600.0).scope("local:default")
        token, noted = scope.token("email", "ana@example.com"), scope.token("text", note)
        await store.flush()
        arguments = {"to": token, "body": f"Dear {token}, {noted}"}
        task = asyncio.create_task(approvals.ask(an_ask("aaaa11", arguments=arguments)))
        await until_waiting(approvals, "aaaa11")
        plain = await asyncio.to_thread(sealyard, "approvals", "--config", config)
        before = await store.audit_entries(limit=10, kind="privacy.reveal")
        listed = await asyncio.to_thread(sealyard, "approvals", "--reveal", "--config", config)
        shown = await asyncio.to_thread(sealyard, "approvals", "show", "aaaa", "--reveal", "--config", config)
        as_json = await asyncio.to_thread(sealyard, "approvals", "--reveal", "--json", "--config", config)
        entries = await store.audit_entries(limit=10, kind="privacy.reveal")
        task.cancel()
        await asyncio.wait({task})

    escaped = '"x\\n  tool: harmless\\u001b[2J"'
    assert ("ana@example.com" in plain.stdout, before) == (False, [])
    assert [line for line in listed.stdout.splitlines() if line.startswith("  __PII_")] == [
        f'  {token} is "ana@example.com"',
        f"  {noted} is {escaped}",
    ]
    assert shown.stdout.splitlines()[-2:] == [f'{token} is "ana@example.com"', f"{noted} is {escaped}"]
    assert json.loads(as_json.stdout)["values"] == {"aaaa11": {token: "ana@example.com", noted: note}}
    assert sorted(entry.body["token"] for entry in entries) == sorted([token, noted])
    assert {(entry.principal, entry.body["approval"], entry.body["channel"]) for entry in entries} == {
        ("local", "aaaa11", "cli")
    }
