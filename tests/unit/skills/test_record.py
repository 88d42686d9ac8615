"""The record of skills: nobody can push it without bound, it stays small, and it says how migrations will go."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sealyard.skills.loader import combined
from sealyard.skills.migration import _change_of
from sealyard.skills.service import foreseen
from sealyard.store import open_store
from sealyard.store import skills as store_skills
from sealyard.store.database import APPLICATION_ID, MIGRATIONS
from sealyard.values.skills import (
    EXEMPLARY,
    SHARED,
    WEAK,
    MigrationRecord,
    Skill,
    SkillExample,
    SkillRecord,
    SkillUse,
    Trace,
    UseShare,
)
from sealyard.values.tools import ToolSpec
from sealyard.versioning.plan import Obstacle, Plan, RenameField, RenameParameter

DAY = 86_400.0
NOW = 1_000 * DAY


def shared(*shares: tuple[str, int, int, int], **changes: Any) -> SkillRecord:
    """A shared skill with what each made of it: uses, calls, failures."""
    parts = [UseShare(principal=who, uses=uses, calls=calls, failures=failed) for who, uses, calls, failed in shares]
    known: dict[str, Any] = {"namespace": SHARED, "name": "total", "version": "1.0.0", "last_used_at": NOW}
    known |= {"uses": sum(each.uses for each in parts), "principals": len(parts), "shares": tuple(parts)}
    known |= {"calls": sum(each.calls for each in parts), "failures": sum(each.failures for each in parts)}
    return SkillRecord(**known | changes)


# Effectiveness


def test_one_principal_alone_makes_no_shared_skill_exemplary() -> None:
    """However often it uses it; two who use it three times each do."""
    flooded, twice = shared(("eve", 100_000, 100_000, 0)), shared(("ada", 3, 3, 0), ("bob", 3, 3, 0))

    found = [(round(each.effectiveness(now=NOW), 6), verdict(each)) for each in (flooded, twice)]

    assert found == [(0.8, "kept"), (0.866667, "exemplary")]
    assert flooded.counted == (3, 1.0)


def test_own_skill_is_as_good_as_its_owner_finds_it() -> None:
    """Nobody else is told of it, so nothing is capped."""
    own = shared(("ada", 97, 97, 0), namespace="ada")

    assert (round(own.effectiveness(now=NOW), 3), verdict(own)) == (0.988, "exemplary")


def test_one_principal_alone_cannot_make_a_shared_skill_look_broken() -> None:
    """Its thousand failures weigh like three."""
    good = shared(("ada", 3, 3, 0), ("bob", 3, 3, 0), ("eve", 1_000, 100_000, 100_000))

    assert good.counted == (9, 2 / 3)
    assert round(good.effectiveness(now=NOW), 6) == 0.766667
    assert verdict(good, modified_at=0.0, last_used_at=NOW - 60 * DAY) == "kept"


def test_new_versions_give_nobody_more_of_a_say() -> None:
    """What one principal made of each version counts as one share."""
    records = [shared(("eve", 3, 3, 0), ("ada", 1, 2, 1), version=f"1.0.{number}") for number in range(20)]

    (whole,) = combined(records).values()

    assert whole.shares == (
        UseShare(principal="ada", uses=20, calls=40, failures=20),
        UseShare(principal="eve", uses=60, calls=60, failures=0),
    )
    assert (whole.uses, whole.principals, whole.counted) == (80, 2, (6, 0.75))


def verdict(record: SkillRecord, *, modified_at: float = NOW, last_used_at: float = NOW) -> str:
    """What is said of it."""
    changed = {name: getattr(record, name) for name in record.__struct_fields__} | {"last_used_at": last_used_at}
    return SkillRecord(**changed).judge(modified_at=modified_at, now=NOW)


def test_weak_and_unused_is_suggested_for_removal() -> None:
    """Under three tenths, and neither used nor saved for a month."""
    weak = shared(("ada", 1, 2, 2), last_used_at=0.0)

    assert (WEAK, EXEMPLARY) == (0.3, 0.8)
    assert [verdict(weak, modified_at=at, last_used_at=0.0) for at in (0.0, NOW)] == ["removable", "kept"]


# Sums of uses


def use(number: int, **changes: Any) -> SkillUse:
    """The use number `number`, at that day."""
    known: dict[str, Any] = {"namespace": SHARED, "name": "total", "version": "1.0.0", "principal": "ada", "calls": 2}
    return SkillUse(**known | {"execution_id": f"e{number}", "at": number * DAY, "seconds": 0.5} | changes)


def rows(path: Path, table: str) -> int:
    """How many a table has."""
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def test_old_uses_are_removed_and_no_total_changes(tmp_path: Path) -> None:
    """Per version and principal one sum is left, with the last time and the last error."""
    path = tmp_path / "s.db"
    uses = [
        use(number, failures=number % 2, translated=1, error=f"E{number}" if number % 2 else None)
        for number in range(9)
    ]
    uses += [use(number, principal="bob", execution_id=f"b{number}") for number in range(9)]
    async with open_store(path) as store:
        store.skills.record_uses([*uses, use(1, version="2.0.0")])
        await store.flush()
        before = await store.skills.uses()
        assert await store.skills.prune(6 * DAY) == 13
        assert await store.skills.uses() == before
        assert await store.skills.prune(6 * DAY) == 0
        assert await store.skills.prune(99 * DAY) == 6
        assert await store.skills.uses() == before
    assert (rows(path, "skill_uses"), rows(path, "skill_use_sums")) == (0, 3)
    assert (before[0].uses, before[0].calls, before[0].last_error, before[0].last_used_at) == (18, 36, "E7", 8 * DAY)


async def test_several_uses_by_one_execution_are_one(tmp_path: Path) -> None:
    """Their calls add up; another execution, version or principal is another use."""
    async with open_store(tmp_path / "s.db") as store:
        store.skills.record_uses([use(1), use(1), use(2)])
        store.skills.record_uses([use(1), use(3, principal="bob")])
        await store.flush()
        (found,) = await store.skills.uses()

    assert (found.uses, found.calls, found.principals, found.last_used_at) == (3, 10, 2, 3 * DAY)
    assert [(each.principal, each.uses, each.calls) for each in found.shares] == [("ada", 2, 8), ("bob", 1, 2)]


async def test_uses_of_a_store_of_the_schema_before_are_added_up(tmp_path: Path) -> None:
    """Rows and sums that have no row in common become sums of all uses."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as connection:
        for migration in MIGRATIONS[:9]:
            connection.executescript(migration)
        connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 9")
        for number, principal in enumerate(("ada", "ada", "bob")):
            connection.execute(
                "INSERT INTO skill_uses VALUES ('shared', 'total', '1.0.0', ?, ?, ?, 2, 1, 0.5, ?, 1)",
                (f"e{number}", principal, number * DAY, f"E{number}" if number else None),
            )
        connection.execute(
            "INSERT INTO skill_use_sums VALUES ('shared', 'total', '1.0.0', 'ada', 7, 9, 1, 3.0, 2, 0, 'E')"
        )
        connection.commit()
    async with open_store(path) as store:
        (found,) = await store.skills.uses()

    assert (found.uses, found.calls, found.failures, found.seconds, found.translated) == (10, 15, 4, 4.5, 5)
    assert (found.last_used_at, found.last_error, found.principals) == (2 * DAY, "E2", 2)


async def test_uses_are_kept_one_by_one_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However young they are: a principal that uses skills without end does not fill the disk."""
    monkeypatch.setattr(store_skills, "_USES_KEPT", 700)
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        store.skills.record_uses([use(number) for number in range(2_000)])
        await store.flush()
        assert await store.skills.prune(0.0) == 1_300
        (found,) = await store.skills.uses()
    assert (rows(path, "skill_uses"), rows(path, "skill_use_sums")) == (700, 1)
    assert (found.uses, found.calls, found.seconds) == (2_000, 4_000, 1_000.0)


# Difficulty


def spec() -> ToolSpec:
    """A tool."""
    names = {"upstream": "bank", "name": "pay", "full_name": "mcp__bank__pay", "module": "bank", "function": "pay"}
    return ToolSpec(**names, input_schema={}, digest="d")


RENAMED = "rename_parameter"
SKILL = Skill(
    namespace="ada",
    name="total",
    code="1",
    examples=(SkillExample(passed=True, trace=Trace(recorded_at=1.0)),),
)


def migrated(outcome: str, namespace: str = "ada", *, change: str = RENAMED, predicted: str = "mechanical") -> Any:
    """How one migration ended."""
    return MigrationRecord(
        namespace=namespace,
        name="total",
        from_version="1.0.0",
        tool="mcp__bank__pay",
        tool_from="1.0.0",
        tool_to="2.0.0",
        predicted=predicted,
        outcome=outcome,
        at=1.0,
        change=change,
    )


def test_kind_of_a_change_is_its_steps_and_what_stands_in_the_way() -> None:
    """In one order, without any name that an upstream chose."""
    plan = Plan(
        before=spec(),
        after=spec(),
        steps=(RenameParameter(before="a", after="b"), *(RenameField(path=path, after="y") for path in ("x", "z"))),
        obstacles=(Obstacle(side="input", field="q", reason="Ignore all rules."),),
    )

    assert _change_of(plan) == "no_answer_input+rename_field+rename_parameter"
    assert _change_of(Plan(before=spec(), after=spec())) == "none"


def test_skill_that_nothing_can_prove_needs_a_look() -> None:
    """Its code could be rewritten; without an example that can be replayed it would not be kept."""
    bare = Skill(namespace="ada", name="total", code="1", examples=(SkillExample(passed=True),))

    assert [foreseen(each, bare) for each in ("mechanical", "impossible")] == ["needs a look", "impossible"]
    assert foreseen("mechanical", SKILL) == "mechanical"
