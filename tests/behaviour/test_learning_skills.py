"""Skills that are suggested through the whole gateway, and what is shown of how they work."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.config import Config, HttpConfig
from sealyard.config.settings import PrincipalEntry, SkillsConfig, StoreConfig
from sealyard.learning import skills as skill_suggestions
from sealyard.learning.part import Viewer
from sealyard.learning.skills import Candidate, KnownSkills, SkillIndex, job_print
from sealyard.sandbox.policy import DEFAULT
from sealyard.skills import migrate_skills
from sealyard.testing import FakeUpstream
from sealyard.values.skills import SaveExample, SaveSkill, Skill, SkillSource
from sealyard.values.tools import Definition, ToolAnnotations
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
ROWS = [{"month": "2024-10", "amount": 40.5}, {"month": "2024-11", "amount": 10.0}]

TOTAL = '''\
def monthly_total(since: str, minimum: float = 0) -> dict:
    """Sum of expenses by month."""
    from servers.books import list_rows

    totals = {}
    for row in list_rows(since=since):
        if row["amount"] >= minimum:
            totals[row["month"]] = totals.get(row["month"], 0) + row["amount"]
    return totals
'''
BY_HAND = """\
from servers.books import list_rows

sums = {}
for r in list_rows(since="2024-11-01"):
    if r["amount"] >= 5:
        sums[r["month"]] = sums.get(r["month"], 0) + r["amount"]
result = sums
"""
USE = "from skills import monthly_total\nmonthly_total(since='2024')"


def definition(name: str, parameter: str, kind: str = "string") -> Definition:
    """A tool that reads, with one parameter."""
    properties = {parameter: {"type": kind, "description": "Only rows from this day on, YYYY-MM-DD."}}
    schema = {"type": "object", "properties": properties, "required": [parameter], "additionalProperties": False}
    return Definition(name=name, description="Rows.", input_schema=schema, annotations=ToolAnnotations(read_only=True))


def books() -> FakeUpstream:
    """A server with one tool."""
    upstream = FakeUpstream("books", list_rows=lambda **given: list(ROWS))
    upstream.definitions = {"list_rows": definition("list_rows", "since")}
    return upstream


@contextlib.asynccontextmanager
async def opened(folder: Path, upstream: FakeUpstream, **skills: Any) -> AsyncIterator[Yard]:
    """A yard over a fake, with its store in `folder`. Mallory sees no tool of it."""
    config = Config(
        store=StoreConfig(path=folder / "sealyard.db"),
        skills=SkillsConfig(**skills),
        http=HttpConfig(principals={"mallory": PrincipalEntry(token="t", upstreams=("other",))}),
    )
    async with open_yard(config, policy=PLAIN, upstreams={upstream.name: upstream}) as yard:
        yield yard


async def change(upstream: FakeUpstream, parameter: str, kind: str = "string") -> None:
    """The upstream lists its tool anew, with another parameter."""
    upstream.definitions = {"list_rows": definition("list_rows", parameter, kind)}
    await upstream.refresh()


async def run(yard: Yard, code: str, *, principal: str = "local") -> str:
    """What the agent is told of a run that has to succeed."""
    result = await yard.execute(ExecuteRequest(code=code), principal=principal)
    assert not result.is_error, result.text
    return result.text


async def save(yard: Yard, *, principal: str = "local", **more: Any) -> Skill:
    """The skill, saved with an example unless another is given."""
    more = {"name": "monthly_total", "code": TOTAL, "description": "Sum of expenses by month."} | more
    more.setdefault("examples", (SaveExample(inputs={"since": "2024-10-01"}),))
    return (await yard.skills.save(SaveSkill(**more), principal=principal)).skill


async def suggested(yard: Yard, principal: str = "local") -> list[str]:
    """The subjects that code done by hand is told of."""
    index = await KnownSkills(yard.store, yard.tools, yard.skills.loading).index(principal)
    job = job_print(BY_HAND)
    assert job is not None
    return [each.subject for each in index.for_code(job)]


async def test_code_that_a_skill_does_is_told_of_it(tmp_path: Path) -> None:
    """For the job and for words; what was told of is what an import would get."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        indexing = KnownSkills(yard.store, yard.tools, yard.skills.loading)
        index = await indexing.index("local")
        (found,) = index.for_query("monthly total of expenses")

        assert await suggested(yard) == ["local/monthly_total"]
        assert found.text == "from skills import monthly_total (not used yet)"
        assert await indexing.is_importable(found, "local")
        await yard.skills.delete("local", "monthly_total", None, principal="local")
        assert not await indexing.is_importable(found, "local")
        assert (await indexing.index("local")).skills == ()


async def test_index_is_made_once_until_something_changes(tmp_path: Path) -> None:
    """Saving, by whatever gateway, changes it."""
    async with opened(tmp_path, books()) as yard:
        indexing = KnownSkills(yard.store, yard.tools, yard.skills.loading)
        empty = await indexing.index("local")
        await save(yard)
        indexes = [await indexing.index("local") for _ in range(2)]

    assert isinstance(empty, SkillIndex)
    assert [len(each.skills) for each in (empty, *indexes)] == [0, 1, 1]


async def test_draft_and_quarantined_skills_are_not_suggested(tmp_path: Path) -> None:
    """The one has no example that passes, the other came from elsewhere."""
    async with opened(tmp_path, books()) as yard:
        assert (await save(yard, examples=())).status == "draft"
        assert await suggested(yard) == []
        source = SkillSource(origin="import sha256:00", author="somebody")
        request = SaveSkill(name="monthly_sum", code=TOTAL.replace("monthly_total", "monthly_sum"))
        added = await yard.skills.add(request, (), source, namespace="local", principal="local")
        assert added.skill.status == "quarantined"
        assert await suggested(yard) == []


async def test_skill_of_tools_that_a_principal_does_not_have_does_not_exist_for_it(tmp_path: Path) -> None:
    """It is neither suggested nor named."""
    async with opened(tmp_path, books(), save_to="shared") as yard:
        await save(yard, principal="ada")
        await run(yard, USE, principal="cleo")

        assert await suggested(yard, "cleo") == ["shared/monthly_total"]
        assert await suggested(yard, "mallory") == []
        assert (await KnownSkills(yard.store, yard.tools, yard.skills.loading).index("mallory")).skills == ()


async def test_skill_that_a_change_of_its_tool_broke_is_not_suggested(tmp_path: Path) -> None:
    """It could not be imported."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        assert await suggested(yard) == ["local/monthly_total"]
        await change(upstream, "account", "integer")
        (check,) = await yard.skills.check_all()

        assert check.state == "broken"
        assert await suggested(yard) == []


async def test_shared_skill_needs_another_user_to_be_suggested_for_words(tmp_path: Path) -> None:
    """Its author's own uses are no proof; the first use by another principal is."""
    async with opened(tmp_path, books(), save_to="shared") as yard:
        await save(yard, principal="eve", description="expenses month total sum")
        await run(yard, USE, principal="eve")
        before = (await KnownSkills(yard.store, yard.tools, yard.skills.loading).index("bob")).for_query(
            "expenses month total"
        )
        await run(yard, USE, principal="cleo")
        after = (await KnownSkills(yard.store, yard.tools, yard.skills.loading).index("bob")).for_query(
            "expenses month total"
        )

    assert before == []
    assert [each.text for each in after] == [
        "from skills import monthly_total (used by 2 clients, 100% of its calls succeeded)"
    ]


async def test_first_search_of_a_principal_names_a_skill_that_was_saved_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through another gateway: an agent that has just started may search once and write code then."""
    monkeypatch.setattr(skill_suggestions, "_FIRST_SECONDS", 60.0)  # the machine may be slow
    async with opened(tmp_path, books()) as yard:
        await save(yard)
    async with opened(tmp_path, books()) as yard:
        answer = await yard.search("sum of expenses by month")

    assert answer.skills == ("from skills import monthly_total (not used yet)",)


async def test_skill_that_was_just_removed_is_not_named_by_a_search(tmp_path: Path) -> None:
    """What is known of skills is seconds old; whether one can be imported is looked up."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        await yard.search("sum of expenses by month")
        await yard.guidance.skills.settled()
        before = await yard.search("sum of expenses by month")
        await yard.skills.delete("local", "monthly_total", None, principal="local")
        after = await yard.search("sum of expenses by month")

    assert before.skills == ("from skills import monthly_total (not used yet)",)
    assert after.skills == ()


async def test_search_goes_on_while_a_look_at_skills_takes_long(tmp_path: Path, monkeypatch: Any) -> None:
    """It is waited for once, and not to its end."""
    begun: list[str] = []

    async def endless(indexing: KnownSkills, principal: str) -> SkillIndex:
        begun.append(principal)
        return await asyncio.get_running_loop().create_future()

    async with opened(tmp_path, books()) as yard, asyncio.timeout(20):
        await save(yard)
        monkeypatch.setattr(KnownSkills, "index", endless)
        answers = [await yard.search("rows of expenses by month") for _ in range(2)]

    assert [(len(each.hits), each.skills) for each in answers] == [(1, ()), (1, ())]
    assert begun == ["local"]


# In a result


async def test_result_of_code_that_a_skill_does_names_the_skill_once_in_a_visit(tmp_path: Path) -> None:
    """And the hint is scored: it was right, since the skill is used then."""
    note = "A saved skill does this: from skills import monthly_total (not used yet)"
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        texts = [await run(yard, "1 + 1")]
        yard.guidance.skills.of("local")
        await yard.guidance.skills.settled()
        texts += [await run(yard, BY_HAND), await run(yard, BY_HAND), await run(yard, USE)]
        await yard.guidance.learner.once()
        memory = yard.guidance.learner.model_for("local").skills
        part = memory.insights(Viewer("", time.time(), 30 * 86_400.0))

    assert [note in text for text in texts] == [False, True, False, False]
    assert (part.checked, part.right) == (1, 1)


async def test_code_that_ran_three_times_is_said_to_be_worth_saving(tmp_path: Path) -> None:
    """To who ran it, once in a visit, and to nobody else."""
    note = "Code like this ran 3 times without a failure."
    async with opened(tmp_path, books()) as yard:
        texts = []
        for number, principal in enumerate(("ada", "ada", "bob", "ada", "ada")):
            texts.append(await run(yard, BY_HAND.replace("2024-11", f"2024-0{number + 1}"), principal=principal))
            await yard.guidance.learner.once()

    assert [note in text for text in texts] == [False, False, False, True, False]


# What is shown


async def test_analysis_shows_judgements_candidates_and_the_predicted_migration(tmp_path: Path) -> None:
    """For a skill whose tool has changed, and again once it is migrated."""
    candidate = Candidate(mark="m", times=4, tools=("mcp__books__list_rows",), text="", principal="ada", last_at=5.0)
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        for _ in range(4):
            await run(yard, USE)
        good = await yard.skills.analyze([candidate])
        await change(upstream, "start")
        old = await yard.skills.analyze()
        (check,) = await yard.skills.check_all()
        (done,) = await migrate_skills(yard.skills, "mcp__books__list_rows")
        new = await yard.skills.analyze()

    assert [(each.judgement, each.difficulty) for each in good.skills] == [("exemplary", None)]
    assert [(each.principal, each.times) for each in good.candidates] == [("ada", 4)]
    assert (old.skills[0].difficulty, check.difficulty) == ("mechanical", "mechanical")
    assert (done.predicted, done.outcome, done.change) == ("mechanical", "migrated", "rename_parameter")
    assert (new.summary.migrations, new.summary.predictions_right) == (1, 1)
    assert new.skills[0].difficulty is None


async def test_skill_without_a_recorded_example_is_predicted_to_need_a_look(tmp_path: Path) -> None:
    """Its code could be rewritten, and nothing could prove it: what is predicted comes true."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        draft = await save(yard, examples=())
        await yard.skills.approve("local", "monthly_total", draft.version, principal="local")
        await change(upstream, "start")
        (done,) = await migrate_skills(yard.skills, "mcp__books__list_rows")
        analysis = await yard.skills.analyze()

    assert (done.predicted, done.outcome) == ("needs a look", "failed")
    assert (analysis.summary.migrations, analysis.summary.predictions_right) == (1, 1)
