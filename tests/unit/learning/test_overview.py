"""What people see of what was learned, and forgetting it: bounded, by name, and of nobody else."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.learned_journal import LIST, MAIL, PAY, fill, record_run, save_tools, tool

from sealyard.config.settings import LearningConfig
from sealyard.errors import InvalidRequest
from sealyard.learning.overview import (
    DAY,
    Insights,
    Migrations,
    RiskRecord,
    forget,
    insights,
    learner_of,
    with_conflicts,
)
from sealyard.store import Store, open_store
from sealyard.store.skills import MigrationRecord, ShelfLimits
from sealyard.values.skills import Skill, SkillUse

SHARED = LearningConfig()
ALONE = LearningConfig(scope="principal")


async def seen(store: Store, settings: LearningConfig = SHARED, **options: Any) -> Insights:
    """What is seen of all that the journal holds."""
    learner = learner_of(store, settings)
    await learner.once()
    return await insights(store, learner, settings, **options)


async def test_an_empty_journal_teaches_nothing(tmp_path: Path) -> None:
    """Every part and level is there, with nothing in it, and no share of nothing."""
    async with open_store(tmp_path / "s.db") as store:
        found = await seen(store)

    assert [(each.part, each.learned, each.checked, each.accuracy, each.items) for each in found.parts] == [
        (part, 0, 0, None, ()) for part in ("ranking", "chains", "shapes", "failures", "risk", "skills", "resources")
    ]
    assert found.risk == [
        RiskRecord(risk=risk, assessed=0, failed=0, share=None, expected=None)
        for risk in ("low", "medium", "high", "critical")
    ]
    assert found.migrations == Migrations(done=0, tried=0, right=0, accuracy=None)
    assert (found.enabled, found.scope, found.is_ready, found.facts) == (True, "shared", True, 0)
    assert (found.skills, found.conflicts, found.faults, found.forgotten) == ([], [], {}, [])


async def test_runs_are_counted_and_risk_is_calibrated(tmp_path: Path) -> None:
    """From how many runs, and which share of those told each level failed."""
    async with open_store(tmp_path / "s.db") as store:
        await fill(store)
        found = await seen(store)

    assert {each.part: each.evidence for each in found.parts}["risk"] == 10
    low, medium, high, critical = found.risk
    assert (low.assessed, low.failed, low.share) == (8, 0, 0.0)
    assert low.expected == pytest.approx(0.1)
    assert (high.assessed, high.failed, high.share, high.expected) == (2, 1, 0.5, 0.75)
    assert (medium.assessed, critical.assessed) == (0, 0)
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


async def test_skills_are_judged_and_their_migrations_too(tmp_path: Path) -> None:
    """Those to learn from and those that could go; a principal is shown its own and the shared ones."""
    now = time.time()
    known: dict[str, Any] = {"author": "ann", "status": "active", "input_schema": {"type": "object", "properties": {}}}
    old = now - 60 * DAY
    async with open_store(tmp_path / "s.db") as store:
        for namespace, name, at in (("ann", "good", now), ("ann", "fair", now), ("ben", "old", old)):
            made = Skill(
                name=name, namespace=namespace, code=f"def {name}(): ...", created_at=at, modified_at=at, **known
            )
            await store.skills.add(made, lambda _: "major", limits=ShelfLimits())
        uses = [
            SkillUse(
                namespace="ann", name="good", version="1.0.0", execution_id=f"e{n}", principal="ann", at=now, calls=1
            )
            for n in range(20)
        ]
        store.skills.record_uses(uses)
        for predicted, outcome in (("mechanical", "migrated"), ("mechanical", "failed"), ("needs a look", "refused")):
            await store.skills.record_migration(
                MigrationRecord(
                    namespace="ann", name="good", from_version="1.0.0", tool=PAY, tool_from="1.0.0", tool_to="2.0.0",
                    predicted=predicted, outcome=outcome, at=now, change="rename_parameter",
                )
            )  # fmt: skip
        everyone = await seen(store)
        ben = await seen(store, principal="ben")

    assert [(each.kind, each.subject, each.evidence) for each in everyone.skills] == [
        ("skill_exemplary", "ann/good", 20.0),
        ("skill_removable", "ben/old", 0.0),
    ]
    assert everyone.skills[1].text == (
        "Could go: its effectiveness is 0.00, which is under 0.3, and it is unused for 30 days."
    )
    past = everyone.migrations
    assert (past.tried, past.done, past.right, past.accuracy) == (3, 1, 2, 2 / 3)
    assert [each.subject for each in ben.skills] == ["ben/old"]
    assert ben.migrations.tried == 0


async def test_answers_that_are_not_as_declared_are_shown(tmp_path: Path) -> None:
    """For tools that there are, and that declare what they answer."""
    declared = {"type": "object", "properties": {"state": {"type": "integer"}}, "required": ["state"]}
    spec = tool(PAY, output_schema=declared)
    async with open_store(tmp_path / "s.db") as store:
        await save_tools(store, spec)
        for number in range(8):
            record_run(store, f"e{number}", principal=("ann", "ben")[number % 2])
        await store.flush()
        learner = learner_of(store, SHARED)
        await learner.once()
        found = await insights(store, learner, SHARED)
        looked = await with_conflicts(found, learner, [spec, tool(MAIL)], is_alone=False)
        other = await with_conflicts(found, learner, [tool(PAY)], is_alone=False)

    assert [(each.kind, each.subject, each.text) for each in looked.conflicts] == [
        ("conflict", PAY, "`state` is declared as a whole number and was a text in some answers.")
    ]
    assert (found.conflicts, other.conflicts) == ([], [])


# Forgetting


@pytest.mark.parametrize(
    ("subject", "what", "name"),
    [
        ("ALL", "all", ""),
        (PAY, "tool", PAY),
        ("bank.pay", "tool", PAY),
        ("servers.bank.pay", "tool", PAY),
        ("pay", "tool", PAY),
        ("mail.send_mail", "tool", MAIL),
        (" tool:pay ", "tool", PAY),
        ("ann", "principal", "ann"),
        ("principal:ann", "principal", "ann"),
    ],
)
async def test_what_is_meant_is_forgotten_and_audited(tmp_path: Path, subject: str, what: str, name: str) -> None:
    """A tool by any of its names, a principal, or everything; who asked for it is in the audit log."""
    async with open_store(tmp_path / "s.db") as store:
        await fill(store)
        learner = learner_of(store, SHARED)
        await learner.once()
        done = await forget(store, learner, subject, principal="ops")
        await learner.once()
        after = await insights(store, learner, SHARED)
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
            await forget(store, learner_of(store, SHARED), subject, principal="ops")
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
