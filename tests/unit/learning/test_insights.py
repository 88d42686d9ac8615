"""What people see of what was learned, and forgetting it: bounded, by name, and of nobody else."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.learned_journal import LIST, MAIL, PAY, fill, record_run, save_tools, tool

from sealyard.config.settings import LearningConfig
from sealyard.errors import InvalidRequest
from sealyard.learning import Insights, Learner
from sealyard.learning import learner as module
from sealyard.learning.chains import ToolUse
from sealyard.store import Store, open_store

SHARED = LearningConfig()
ALONE = LearningConfig(scope="principal")


async def seen(store: Store, settings: LearningConfig = SHARED, **options: Any) -> Insights:
    """What is seen of all that the journal holds."""
    learner = Learner(store, settings)
    await learner.once()
    return await learner.insights(**options)


async def test_an_empty_journal_teaches_nothing(tmp_path: Path) -> None:
    """Every part is there, with nothing in it, and no share of nothing."""
    async with open_store(tmp_path / "s.db") as store:
        found = await seen(store)

    assert [(each.part, each.learned, each.checked, each.accuracy, each.items) for each in found.parts] == [
        (part, 0, 0, None, ()) for part in ("ranking", "chains", "shapes", "failures", "risk", "skills", "resources")
    ]
    assert (found.enabled, found.scope, found.is_ready, found.facts) == (True, "shared", True, 0)
    assert (found.faults, found.forgotten) == ({}, [])


async def test_other_tasks_have_their_turns_while_insights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model at its bounds takes a second to read; what it learns meanwhile breaks nothing."""
    monkeypatch.setattr(module, "SLICE_SECONDS", 0.0)
    async with open_store(tmp_path / "s.db") as store:
        await fill(store)
        learner = Learner(store, SHARED)
        await learner.once()
        tools = learner.model_for("ann").chains.tools
        for number in range(100):
            tools[f"mcp__bank__old{number}"] = ToolUse()
        turns = 0

        async def teach() -> None:
            nonlocal turns
            while True:
                turns += 1
                tools[f"mcp__bank__new{turns}"] = ToolUse()
                await asyncio.sleep(0)

        task = asyncio.create_task(teach())
        found = await learner.insights()
        task.cancel()

    assert turns > 100
    assert [each.part for each in found.parts] == list(module.PARTS)


async def test_runs_are_counted_and_risk_is_calibrated(tmp_path: Path) -> None:
    """From how many runs, and which share of those told each level failed."""
    async with open_store(tmp_path / "s.db") as store:
        await fill(store)
        found = await seen(store)

    assert {each.part: each.evidence for each in found.parts}["risk"] == 10
    (risk,) = (part for part in found.parts if part.part == "risk")
    assert sorted(item.text for item in risk.items if item.kind == "risk") == [
        "Of 2 runs assessed high, 50% failed; 75% was expected.",
        "Of 8 runs assessed low, 0% failed; 10% was expected.",
    ]
    assert (found.facts, found.partitions, found.faults) == (10, [""], {})


async def test_a_principal_that_learns_alone_is_shown_its_own(tmp_path: Path) -> None:
    """Nothing of the other is in it: neither counts, nor names, nor what was forgotten."""
    async with open_store(tmp_path / "s.db") as store:
        await fill(store)
        record_run(store, "b1", principal="ben", tools=(MAIL,))
        await store.learning.forget("tool", LIST, 1.0)
        record_run(store, "b2", principal="ben", tools=(MAIL,), is_ok=False)
        record_run(store, "a1", principal="ann")
        await store.flush()
        everyone = await seen(store, ALONE)
        ann = await seen(store, ALONE, principal="ann")
        nobody = await seen(store, ALONE, principal="eve")

    assert (everyone.partitions, ann.partitions, nobody.partitions) == (["ann", "ben"], ["ann"], [])
    assert "mail" not in msgspec.json.encode(ann).decode()
    assert {each.part: each.evidence for each in ann.parts}["risk"] == 2
    assert {each.part: each.evidence for each in everyone.parts}["risk"] == 5
    assert {each.part: each.evidence for each in nobody.parts}["risk"] == 0
    assert (len(everyone.forgotten), ann.forgotten) == (1, [])


# Forgetting


@pytest.mark.parametrize(
    ("subject", "what", "name"),
    [
        ("ALL", "all", ""),
        (PAY, "tool", PAY),
        ("bank.pay", "tool", PAY),
        ("servers.bank.pay", "tool", PAY),
        ("pay", "tool", PAY),
        ("mail.sendmail", "tool", MAIL),
        (" tool:pay ", "tool", PAY),
        ("ann", "principal", "ann"),
        ("principal:ann", "principal", "ann"),
    ],
)
async def test_what_is_meant_is_forgotten_and_audited(tmp_path: Path, subject: str, what: str, name: str) -> None:
    """A tool by any of its names, a principal, or everything; who asked for it is in the audit log."""
    async with open_store(tmp_path / "s.db") as store:
        await fill(store)
        learner = Learner(store, SHARED)
        await learner.once()
        done = await learner.forget_named(subject, principal="ops")
        await learner.once()
        after = await learner.insights()
        entries = [each for each in await store.audit_entries() if each.kind == "learning.forget"]

    assert (done.what, done.subject, done.number) == (what, name, 10)
    assert [(each.what, each.subject) for each in after.forgotten] == [(what, name)]
    assert [(each.principal, each.body) for each in entries] == [("ops", {"what": what, "subject": name})]
    left = {"all": 0, "principal": 5}.get(what, 10 if name == MAIL else 0)
    assert {each.part: each.evidence for each in after.parts}["risk"] == left


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("", "There is no name to forget. Give the name of a tool or of a principal, or ALL."),
        ("tool:", "Nothing was learned of 'tool:'. Give a tool, a principal, or ALL."),
        ("all", "Nothing was learned of 'all'. Give a tool, a principal, or ALL."),
        ("anna", "Nothing was learned of 'anna'. Did you mean 'ann'?"),
        ("ay", "Nothing was learned of 'ay'. Give a tool, a principal, or ALL."),
        ("mcp__bank__payy", "Nothing was learned of 'mcp__bank__payy'. Did you mean 'mcp__bank__pay'?"),
        ("tool:ann", "Nothing was learned of 'ann'. Give a tool, a principal, or ALL."),
        ("principal:pay", "Nothing was learned of 'pay'. Give a tool, a principal, or ALL."),
        ("\x1b[2J", "Nothing was learned of '\\x1b[2J'. Give a tool, a principal, or ALL."),
        ("fees", "'fees' is a tool and a principal. Write 'tool:fees' or 'principal:fees'."),
        ("list", "'list' can be 'mcp__air__list' or 'mcp__bank__list'. Give the full name."),
    ],
)  # fmt: skip
async def test_a_name_that_means_nothing_or_too_much_is_refused(tmp_path: Path, subject: str, message: str) -> None:
    """Nothing is forgotten by a guess: the message says which names there are."""
    async with open_store(tmp_path / "s.db") as store:
        specs = [tool(f"mcp__{name}") for name in ("bank__pay", "bank__list", "air__list", "bank__fees")]
        await save_tools(store, *specs)
        record_run(store, "e1", principal="ann")
        record_run(store, "e2", principal="fees")
        await store.flush()
        with pytest.raises(InvalidRequest) as caught:
            await Learner(store, SHARED).forget_named(subject, principal="ops")
        forgotten = await store.learning.forgotten()
        entries = await store.audit_entries()

    assert str(caught.value) == message
    assert (forgotten, entries) == ([], [])


async def test_what_was_forgotten_is_shown_newest_first_and_not_without_end(tmp_path: Path) -> None:
    """Fifty of sixty."""
    async with open_store(tmp_path / "s.db") as store:
        for number in range(60):
            await store.learning.forget("principal", f"p{number}", float(number))
        found = await seen(store)

    assert [each.subject for each in found.forgotten] == [f"p{number}" for number in range(59, 9, -1)]
