"""Skills through the whole gateway: saved by checking, used by the next agent, kept in step with changing tools."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.config import Config
from sealyard.config.settings import SkillsConfig, StoreConfig
from sealyard.errors import InvalidSkill, SkillUnusable, UnknownSkill
from sealyard.sandbox.policy import DEFAULT
from sealyard.skills import migrate_skills
from sealyard.testing import FakeUpstream
from sealyard.values.skills import SaveExample, SaveSkill, Skill, SkillSource
from sealyard.values.tools import Definition, ToolAnnotations
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

ROWS = [
    {"id": 1, "month": "2024-10", "amount": 40.5},
    {"id": 2, "month": "2024-11", "amount": 10.0},
    {"id": 3, "month": "2024-11", "amount": 2.25},
]

TOTAL = '''\
def monthly_total(since: str, minimum: float = 0) -> dict:
    """Sum of expenses by month."""
    from servers.books import list_rows

    totals = {}
    for row in list_rows(since=since):  # newest first
        if row["amount"] >= minimum:
            totals[row["month"]] = totals.get(row["month"], 0) + row["amount"]
    return totals
'''
TOTALS = {"2024-10": 40.5, "2024-11": 12.25}
TEXTS = dict.fromkeys(("since", "start"), "Only rows from this day on, YYYY-MM-DD.")
USE = "from skills import monthly_total\nmonthly_total(since='2024')"


def books(*, read_only: bool = True) -> FakeUpstream:
    """A server with one tool that reads and one that writes."""
    upstream = FakeUpstream(
        "books", list_rows=lambda **given: list(ROWS), pay=lambda **given: {"paid": given["amount"]}
    )
    upstream.definitions = {
        "list_rows": definition("list_rows", since="string", read_only=read_only),
        "pay": definition("pay", amount="number", read_only=False),
    }
    return upstream


def definition(
    name: str, *, read_only: bool | None = None, required: tuple[str, ...] | None = None, **types: str
) -> Definition:
    """A tool whose parameters have these types."""
    properties = {key: {"type": kind, "description": TEXTS.get(key, "")} for key, kind in types.items()}
    return Definition(
        name=name,
        description=f"It does {name}.",
        input_schema={
            "type": "object",
            "properties": properties,
            "required": list(types if required is None else required),
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(read_only=read_only),
    )


@contextlib.asynccontextmanager
async def opened(folder: Path, *upstreams: FakeUpstream, **skills: Any) -> AsyncIterator[Yard]:
    """A yard over fakes, with its store in `folder`."""
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), skills=SkillsConfig(**skills))
    async with open_yard(config, policy=PLAIN, upstreams={each.name: each for each in upstreams}) as yard:
        yield yard


async def run(yard: Yard, code: str, *, principal: str = "local", **context: Any) -> Any:
    """The value of a run that has to succeed."""
    result = await yard.execute(ExecuteRequest(code=code, context=context), principal=principal)
    assert not result.is_error, result.text
    return result.outcome.result


async def save(
    yard: Yard, name: str = "monthly_total", code: str = TOTAL, *, principal: str = "local", **more: Any
) -> Skill:
    """A saved skill, with an example unless another is given."""
    more.setdefault("description", "Sum of expenses by month.")
    more.setdefault("examples", (SaveExample(inputs={"since": "2024-10-01"}),))
    return (await yard.skills.save(SaveSkill(name=name, code=code, **more), principal=principal)).skill


# Saving


@pytest.mark.behaviour("skills.saved")
async def test_a_skill_that_works_is_saved_found_and_imported(tmp_path: Path) -> None:
    """The next agent writes one import, and what came of it is on record."""
    async with opened(tmp_path, books()) as yard:
        skill = await save(yard)
        assert (skill.version, skill.status, skill.form) == ("1.0.0", "active", "function")
        assert [(need.tool, need.version) for need in skill.tools] == [("mcp__books__list_rows", "1.0.0")]
        assert skill.examples[0].output == TOTALS

        (found,) = await yard.skills.find("expenses of each month", principal="local")
        assert found.use == "from skills import monthly_total"
        assert found.signature == "monthly_total(since: str, minimum: float = 0) -> dict"
        assert found.effectiveness is None

        code = "from skills import monthly_total\nmonthly_total('2024-10-01', minimum=5)"
        assert await run(yard, code) == {"2024-10": 40.5, "2024-11": 10.0}
        (record,) = await yard.store.skills.uses()
        assert (record.uses, record.calls, record.failures, record.version) == (1, 1, 0, "1.0.0")
        (found,) = await yard.skills.find("month", principal="local")
        assert found.effectiveness == 0.7


async def test_share_of_runs_with_skills_outlives_the_single_uses(tmp_path: Path) -> None:
    """Retention removes single uses earlier than executions; the share of runs is that of all time."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        await run(yard, "1")
        await run(yard, "from skills import monthly_total\nmonthly_total('2024-10-01')")
        await asyncio.sleep(0)  # the facts of a run are recorded in the turn after its answer
        await yard.store.flush()
        before = (await yard.skills.analyze()).summary
        assert await yard.store.skills.prune(time.time() + 1) == 1
        after = (await yard.skills.analyze()).summary

    assert before.executions_share == 0.5
    assert after == before


async def test_skills_outlive_the_gateway(tmp_path: Path) -> None:
    """They are in the store, with their examples."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
    async with opened(tmp_path, books()) as yard:
        assert await run(yard, USE) == TOTALS
        tested = await yard.skills.test("local", "monthly_total", principal="local")
        assert tested.passed


@pytest.mark.behaviour("skills.examples")
async def test_a_skill_without_a_passing_example_is_a_draft_of_its_author(tmp_path: Path) -> None:
    """It is marked so, its author can use it, and nobody else sees it."""
    async with opened(tmp_path, books(), save_to="shared") as yard:
        skill = await save(yard, examples=())
        assert (skill.status, skill.note) == ("draft", "It has no example.")
        assert await yard.skills.find("expenses", principal="bob") == []
        result = await yard.execute(ExecuteRequest(code="from skills import monthly_total"), principal="bob")
        assert "it is a draft of 'local'" in result.text


async def test_a_wrong_example_keeps_a_skill_a_draft_and_says_why(tmp_path: Path) -> None:
    """Both values are told."""
    async with opened(tmp_path, books()) as yard:
        skill = await save(yard, examples=(SaveExample(inputs={"since": "2024-10-01"}, output={"2024-10": 1}),))
        assert skill.status == "draft"
        assert skill.examples[0].problem == (
            'Its value is {"2024-10":40.5,"2024-11":12.25}; the example says {"2024-10":1}.'
        )


async def test_a_value_that_is_nested_too_deeply_is_no_example(tmp_path: Path) -> None:
    """Two such values cannot be compared; neither that of the code nor one that an agent sends ends in an error."""
    code = (
        "def deep(n: int) -> list:\n    found = []\n    for _ in range(n):\n        found = [found]\n    return found\n"
    )
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    async with opened(tmp_path, books()) as yard:
        skill = await save(yard, "deep", code, examples=(SaveExample(inputs={"n": 600}),))
        with pytest.raises(InvalidSkill) as caught:
            await save(yard, "deep", code, examples=(SaveExample(inputs={"n": 600}, output=deep),))
        tested = await yard.skills.test("local", "deep", principal="local")

    assert (skill.status, tested.passed) == ("draft", False)
    assert "is nested deeper than 200 levels" in skill.examples[0].problem
    assert str(caught.value) == "`examples` is nested more than 200 levels deep. Use plain, shallow data."


async def test_no_tool_that_may_change_something_is_called_to_save(tmp_path: Path) -> None:
    """Its answers come from a run that made the same call; without one, the skill is a draft."""
    upstream = books()
    code = "def pay_all(amount: float):\n    from servers.books import pay\n    return pay(amount=amount)['paid']\n"
    async with opened(tmp_path, upstream) as yard:
        skill = await save(yard, "pay_all", code, examples=(SaveExample(inputs={"amount": 5}),))
        assert upstream.calls == []
        assert skill.status == "draft"
        assert "No run of yours has called mcp__books__pay" in skill.examples[0].problem

        await run(yard, "from servers.books import pay\npay(amount=5)")
        assert upstream.calls == [("pay", {"amount": 5})]
        skill = await save(yard, "pay_all", code, examples=(SaveExample(inputs={"amount": 5}),))
        assert (skill.status, skill.version, skill.examples[0].output) == ("active", "1.0.1", 5)
        assert upstream.calls == [("pay", {"amount": 5})]


async def test_a_tool_that_says_nothing_about_its_effects_is_not_called_to_save(tmp_path: Path) -> None:
    """Only one that says it reads, is."""
    upstream = books(read_only=False)
    async with opened(tmp_path, upstream) as yard:
        assert (await save(yard)).status == "draft"
        assert upstream.calls == []


async def test_a_script_is_a_skill_of_its_inputs(tmp_path: Path) -> None:
    """Its value is `result`, and what it reads must be declared."""
    code = "from servers.books import list_rows\n\nrows = list_rows(since=since)\nresult = len(rows) * times\n"
    inputs = {"since": "string", "times": {"type": "integer", "default": 2}}
    async with opened(tmp_path, books()) as yard:
        skill = await save(yard, "count_rows", code, inputs=inputs)
        assert (skill.form, skill.status, skill.examples[0].output) == ("script", "active", 6)
        assert await run(yard, "from skills import count_rows\ncount_rows(since='2024', times=3)") == 9
        with pytest.raises(InvalidSkill, match="'times'"):
            await save(yard, "count_rows", code, inputs={"since": "string"})


async def test_arguments_of_a_skill_are_checked(tmp_path: Path) -> None:
    """A wrong one is named with what is expected."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        result = await yard.execute(ExecuteRequest(code="from skills import monthly_total\nmonthly_total(since=5)"))
        assert result.is_error
        assert "since" in result.text
        assert "str" in result.text


async def test_saving_again_makes_a_version_by_what_changed(tmp_path: Path) -> None:
    """The same interface is a patch, a new optional input a minor one, a new required one a major one."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        assert (await save(yard, code=TOTAL.replace("newest", "latest"))).version == "1.0.1"
        wider = TOTAL.replace("minimum: float = 0", "minimum: float = 0, most: float = 1e9")
        assert (await save(yard, code=wider)).version == "1.1.0"
        other = TOTAL.replace("since: str, minimum", "since: str, currency: str, minimum")
        examples = (SaveExample(inputs={"since": "2024", "currency": "EUR"}),)
        assert (await save(yard, code=other, examples=examples)).version == "2.0.0"
        loaded = await yard.skills.load("monthly_total@1.0", principal="local")
        assert loaded.skill.version == "1.0.1"
        assert await run(yard, "import skills\nskills.load('monthly_total@1')(since='2024')") == TOTALS


async def test_the_examples_of_the_last_version_are_tried_when_none_are_given(tmp_path: Path) -> None:
    """What they proved is not lost by a small change, and what breaks them is a draft."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        kept = await save(yard, code=TOTAL.replace("newest", "latest"), examples=())
        assert (kept.status, len(kept.examples)) == ("active", 1)
        broken = await save(yard, code=TOTAL.replace("return totals", "return len(totals)"), examples=())
        assert broken.status == "draft"


async def test_code_that_the_level_forbids_is_no_skill(tmp_path: Path) -> None:
    """It is refused with its line, and nothing is kept."""
    async with opened(tmp_path, books()) as yard:
        with pytest.raises(InvalidSkill, match=r"Line 1: .*subprocess"):
            await save(yard, code="import subprocess\n\ndef monthly_total(since: str):\n    return 1\n")
        with pytest.raises(InvalidSkill, match="list_row"):
            await save(yard, code=TOTAL.replace("list_rows", "list_row"))
        assert await yard.skills.shelf.list_all() == []


# Skills that use skills


async def test_a_skill_can_import_another(tmp_path: Path) -> None:
    """Its need is read from the code, and both uses are on record."""
    code = (
        "def best_month(since: str) -> str:\n"
        "    from skills import monthly_total\n\n"
        "    totals = monthly_total(since)\n"
        "    return max(totals, key=totals.get)\n"
    )
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        skill = await save(yard, "best_month", code)
        assert [(need.name, need.version) for need in skill.skills] == [("monthly_total", "1.0.0")]
        assert (skill.status, skill.examples[0].output) == ("active", "2024-10")
        assert await run(yard, "from skills import best_month\nbest_month('2024')") == "2024-10"
        assert sorted(record.name for record in await yard.store.skills.uses()) == ["best_month", "monthly_total"]


async def test_skills_that_import_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    """The circle is named; what was there stays."""
    one = "def one(n: int) -> int:\n    return n\n"
    two = "def two(n: int) -> int:\n    from skills import one\n    return one(n)\n"
    async with opened(tmp_path) as yard:
        await save(yard, "one", one, examples=(SaveExample(inputs={"n": 1}),))
        await save(yard, "two", two, examples=(SaveExample(inputs={"n": 1}),))
        with pytest.raises(InvalidSkill, match="circle"):
            await save(yard, "one", one.replace("return n", "from skills import two\n    return two(n)"))
        with pytest.raises(InvalidSkill, match="imports itself"):
            await save(yard, "one", one.replace("return n", "from skills import one\n    return one(n)"))
        assert await run(yard, "from skills import two\ntwo(3)") == 3


async def test_a_dependency_that_was_deleted_is_named(tmp_path: Path) -> None:
    """When the skill is saved and when it is imported."""
    one = "def one(n: int) -> int:\n    return n\n"
    two = "def two(n: int) -> int:\n    from skills import one\n    return one(n)\n"
    async with opened(tmp_path) as yard:
        await save(yard, "one", one, examples=())
        await save(yard, "two", two, examples=())
        await yard.skills.delete("local", "one", None, principal="local")
        result = await yard.execute(ExecuteRequest(code="from skills import two"))
        assert "one" in result.text
        assert "deleted" in result.text
        with pytest.raises(UnknownSkill, match="deleted"):
            await save(yard, "three", two.replace("two", "three"))


# Namespaces


async def test_each_principal_has_a_shelf_of_its_own_beside_the_shared_one(tmp_path: Path) -> None:
    """Nobody imports another's skill until it is shared; an own one goes first."""
    async with opened(tmp_path, books()) as yard:
        await save(yard, principal="alice")
        with pytest.raises(UnknownSkill):
            await yard.skills.load("monthly_total", principal="bob")
        shared = await yard.skills.share("alice", "monthly_total", principal="local")
        assert (shared.namespace, shared.status) == ("shared", "active")
        code = "from skills import monthly_total\nmonthly_total(since='2024')"
        assert await run(yard, code, principal="bob") == TOTALS
        await save(yard, code="def monthly_total(since: str) -> int:\n    return 1\n", principal="bob")
        assert await run(yard, code, principal="bob") == 1
        assert await run(yard, code, principal="carol") == TOTALS


@pytest.mark.behaviour("skills.quarantine")
async def test_a_skill_in_quarantine_is_imported_by_nobody_until_a_person_approves_it(tmp_path: Path) -> None:
    """Not even by the principal in whose namespace it lies."""
    async with opened(tmp_path, books()) as yard:
        request = SaveSkill(name="monthly_total", code=TOTAL, description="Sum.")
        source = SkillSource(origin="import", author="elsewhere")
        await yard.skills.add(request, (), source, namespace="local", principal="local")
        with pytest.raises(SkillUnusable, match="quarantine"):
            await yard.skills.load("monthly_total", principal="local")
        assert await yard.skills.find("sum", principal="local") == []
        await yard.skills.approve("local", "monthly_total", "1.0.0", principal="local")
        assert await run(yard, USE) == TOTALS


# Replay


@pytest.mark.behaviour("skills.replay")
async def test_examples_are_replayed_without_any_upstream(tmp_path: Path) -> None:
    """The server may be dead, and its data may have changed."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        upstream.is_dead = True
        asked = len(upstream.calls)
        tested = await yard.skills.test("local", "monthly_total", principal="local")
        assert tested.passed
        assert len(upstream.calls) == asked


async def test_a_replay_gives_the_same_value_whenever_and_however_often(tmp_path: Path) -> None:
    """The clock stands where it was recorded, and chance is the same each time."""
    code = (
        "import datetime, random, time, uuid\n\n"
        "def stamp(n: int) -> list:\n"
        "    return [time.time(), str(datetime.date.today()), random.random(), str(uuid.uuid4()), n]\n"
    )
    async with opened(tmp_path) as yard:
        skill = await save(yard, "stamp", code, examples=(SaveExample(inputs={"n": 1}),))
        assert skill.status == "active"
        for _ in range(2):
            assert (await yard.skills.test("local", "stamp", principal="local")).passed


# Tools that change


async def change(yard: Yard, upstream: FakeUpstream, **definitions: Definition) -> None:
    """The upstream lists its tools anew, some of them defined otherwise."""
    upstream.definitions |= definitions
    await upstream.refresh()


def renamed_parameter() -> Definition:
    """`list_rows` whose `since` is called `start` now."""
    return definition("list_rows", start="string", read_only=True)


async def test_a_newer_minor_version_warns(tmp_path: Path) -> None:
    """The skill runs, and whoever runs it is told."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        await change(
            yard, upstream, list_rows=definition("list_rows", since="string", most="integer", required=("since",))
        )
        assert yard.tools.catalog.snapshot.tools["mcp__books__list_rows"].version == "1.1.0"
        result = await yard.execute(
            ExecuteRequest(code="from skills import monthly_total\nmonthly_total(since='2024')")
        )
        assert result.outcome.result == TOTALS
        assert "mcp__books__list_rows is at 1.1.0; the skill was written for 1.0.0." in result.text


async def test_an_argument_without_a_name_means_what_it_meant(tmp_path: Path) -> None:
    """A new parameter in front of it, which breaks no call by name, does not make it another one."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard, code=TOTAL.replace("list_rows(since=since)", "list_rows(since)"))
        moved = definition("list_rows", most="integer", since="string", required=(), read_only=True)
        first = definition("list_rows", since="string", required=(), read_only=True)
        await change(yard, upstream, list_rows=first)
        assert yard.tools.catalog.snapshot.tools["mcp__books__list_rows"].version == "1.1.0"
        await change(yard, upstream, list_rows=moved)
        assert yard.tools.catalog.snapshot.tools["mcp__books__list_rows"].version == "1.2.0"
        upstream.calls.clear()
        assert await run(yard, USE) == TOTALS
        assert upstream.calls == [("list_rows", {"since": "2024"})]


MOVE = """\
def move(amount: float{parameters}):
    \"""Moves money.\"""
    from servers.bank import transfer

    return transfer(amount{arguments})
"""
FROM, TO = "The account that the money is taken from.", "The account that the money goes to."


def transfer(*parameters: tuple[str, str]) -> Definition:
    """A tool whose optional parameters have these names and descriptions, in this order."""
    properties = {
        name: {"type": "number" if name == "amount" else "string", "description": text} for name, text in parameters
    }
    schema = {"type": "object", "properties": properties, "required": [], "additionalProperties": False}
    return Definition(
        name="transfer", description="It moves money.", input_schema=schema, annotations=ToolAnnotations(read_only=True)
    )


async def test_arguments_without_names_are_moved_or_refused_where_only_part_of_a_change_is_proven(
    tmp_path: Path,
) -> None:
    """Small changes exchange the meaning of two parameters and put one in front of the third.

    Each of them breaks no call, so that the tool only has a newer minor version. A call with the two cannot be
    translated and is not sent; one with the third alone reaches that one.
    """
    first = transfer(("amount", "How much."), ("a", FROM), ("b", TO))
    steps = [
        transfer(("amount", "How much."), ("a", ""), ("b", TO)),
        transfer(("amount", "How much."), ("a", ""), ("b", "")),
        transfer(("b", ""), ("amount", "How much."), ("a", "")),
        transfer(("b", FROM), ("amount", "How much."), ("a", "")),
        transfer(("b", FROM), ("amount", "How much."), ("a", TO)),
    ]
    upstream = FakeUpstream("bank", transfer=lambda **given: {"moved": given})
    upstream.definitions = {"transfer": first}
    async with opened(tmp_path, upstream) as yard:
        examples = (SaveExample(inputs={"amount": 1.0}),)
        both = MOVE.format(parameters=", a: str = 'x', b: str = 'y'", arguments=", a, b")
        await save(yard, "move", both, examples=examples)
        await save(yard, "count", MOVE.replace("move", "count").format(parameters="", arguments=""), examples=examples)
        for step in steps:
            await change(yard, upstream, transfer=step)
        version = yard.tools.catalog.snapshot.tools["mcp__bank__transfer"].version
        upstream.calls.clear()
        refused = await yard.execute(ExecuteRequest(code="from skills import move\nmove(5.0, 'mine', 'theirs')"))
        moved = await run(yard, "from skills import count\ncount(5.0)")

    assert version.startswith("1.")
    assert refused.is_error
    assert "cannot be translated: The parameter `a` changed" in refused.text
    assert moved == {"moved": {"amount": 5.0}}
    assert upstream.calls == [("transfer", {"amount": 5.0})]


async def test_calls_of_an_older_version_are_translated_and_counted(tmp_path: Path) -> None:
    """A renamed parameter does not break a skill, and agents' own code sees the new tool."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        await change(yard, upstream, list_rows=renamed_parameter())
        upstream.calls.clear()
        result = await yard.execute(
            ExecuteRequest(code="from skills import monthly_total\nmonthly_total(since='2024')")
        )
        assert result.outcome.result == TOTALS, result.text
        assert upstream.calls == [("list_rows", {"start": "2024"})]
        assert "translated from 1.0.0 to 2.0.0" in result.text
        (record,) = await yard.store.skills.uses()
        assert record.translated == 1
        assert await run(yard, "from servers.books import list_rows\nlen(list_rows(start='2024'))") == 3


async def test_translated_calls_count_for_the_skill_that_makes_them(tmp_path: Path) -> None:
    """Also where another skill that needs the same older tool was imported later."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        await save(yard, "yearly_total", TOTAL.replace("monthly_total", "yearly_total"))
        await change(yard, upstream, list_rows=renamed_parameter())
        code = "from skills import monthly_total, yearly_total\n[monthly_total(since='2024') for _ in 'ab']"
        await run(yard, f"{code}\nyearly_total(since='2024')")
        records = await yard.store.skills.uses()

    assert {each.name: each.translated for each in records} == {"monthly_total": 2, "yearly_total": 1}


async def test_a_skill_whose_tool_is_gone_says_so(tmp_path: Path) -> None:
    """It is not run half."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        del upstream.tools["list_rows"]
        await upstream.refresh()
        with pytest.raises(SkillUnusable, match="no longer exists"):
            await yard.skills.load("monthly_total", principal="local")
        assert (await yard.skills.test("local", "monthly_total", principal="local")).passed


@pytest.mark.behaviour("skills.migration")
async def test_a_migration_rewrites_proves_and_keeps_the_old_version(tmp_path: Path) -> None:
    """Comments and layout stay, the example passes, and one command goes back."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        await change(yard, upstream, list_rows=renamed_parameter())
        (dry,) = await migrate_skills(
            yard.skills, "mcp__books__list_rows", from_version="1.0", to_version="2.0", is_dry=True
        )
        assert (dry.outcome, dry.predicted, dry.to_version) == ("migrated", "mechanical", None)
        assert "+    for row in list_rows(start=since):  # newest first" in dry.diff
        assert (await yard.skills.load("monthly_total", principal="local")).skill.version == "1.0.0"

        (done,) = await migrate_skills(yard.skills, "mcp__books__list_rows", from_version="1.0", to_version="2.0")
        assert (done.outcome, done.to_version, done.examples) == ("migrated", "1.0.1", 1)
        loaded = await yard.skills.load("monthly_total", principal="local")
        assert loaded.skill.code == TOTAL.replace("list_rows(since=since)", "list_rows(start=since)")
        assert loaded.warnings == []
        assert await run(yard, USE) == TOTALS
        assert (await yard.skills.test("local", "monthly_total", principal="local")).passed
        (kept,) = await yard.store.skills.migrations()
        assert (kept.predicted, kept.outcome, kept.to_version) == ("mechanical", "migrated", "1.0.1")
        assert await migrate_skills(yard.skills, "mcp__books__list_rows") == []

        restored = await yard.skills.restore("local", "monthly_total", "1.0.0", principal="local")
        assert (restored.version, restored.code) == ("1.0.2", TOTAL)


@pytest.mark.behaviour("skills.unproven")
async def test_a_migration_that_cannot_be_proven_is_not_kept(tmp_path: Path) -> None:
    """Without an example that passed there is nothing to prove it by."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard, examples=())
        await change(yard, upstream, list_rows=renamed_parameter())
        (done,) = await migrate_skills(yard.skills, "mcp__books__list_rows")
        assert (done.outcome, done.to_version) == ("failed", None)
        assert "no example that passed" in done.reason
        assert len(await yard.skills.shelf.table.versions("local", "monthly_total")) == 1


async def test_a_change_that_is_not_mechanical_is_refused_with_a_reason(tmp_path: Path) -> None:
    """A new required parameter that nothing is known about has no value to be given."""
    upstream = books()
    async with opened(tmp_path, upstream) as yard:
        await save(yard)
        await change(
            yard, upstream, list_rows=definition("list_rows", since="string", tenant="integer", read_only=True)
        )
        (done,) = await migrate_skills(yard.skills, "mcp__books__list_rows")
        assert done.outcome == "refused"
        assert done.predicted != "mechanical"
        assert "tenant" in done.reason


# Limits and attacks


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "a.b", "Über", "class", "load", "a" * 65, "", "a\x00b", "\uff41bc"]
)
async def test_a_name_that_could_mean_something_else_is_refused(tmp_path: Path, name: str) -> None:
    """No file is ever named after it, and code could not import it."""
    async with opened(tmp_path) as yard:
        with pytest.raises(InvalidSkill):
            await save(yard, name, "result = 1", examples=())


async def test_a_report_about_a_skill_that_was_not_loaded_counts_for_nothing(tmp_path: Path) -> None:
    """Code cannot praise or blame a skill by calling the reserved names itself."""
    async with opened(tmp_path, books()) as yard:
        await save(yard)
        forged = (
            "began, ended = 'skill_' + 'began', 'skill_' + 'ended'\n"
            "for _ in range(50):\n"
            "    call_tool(began, {'name': 'monthly_total', 'version': '1.0.0'})\n"
            "    call_tool(ended, {'name': 'monthly_total', 'version': '1.0.0', 'seconds': 1})\n"
        )
        await run(yard, forged)
        assert await yard.store.skills.uses() == []
        await run(yard, "from skills import monthly_total\nmonthly_total(since='2024')\n" + forged)
        (record,) = await yard.store.skills.uses()
        assert record.uses == 1


async def test_a_versioned_call_is_for_skills_that_need_it_only(tmp_path: Path) -> None:
    """Agent code cannot reach a tool through an old name, nor one that its grant does not hold."""
    async with opened(tmp_path, books()) as yard:
        result = await yard.execute(ExecuteRequest(code="call_tool('mcp__books__pay' + '@1.0.0', {'amount': 1})"))
        assert "Name it without a version" in result.text


async def test_private_values_in_a_skill_are_concealed_and_its_author_is_told(tmp_path: Path) -> None:
    """Neither the store nor another agent gets them."""
    code = "def who(n: int) -> str:\n    return 'wilhelmina.f@brindlecombe.org'\n"
    async with opened(tmp_path) as yard:
        saved = await yard.skills.save(
            SaveSkill(name="who", code=code, description="Ask wilhelmina.f@brindlecombe.org."), principal="local"
        )
        assert "brindlecombe" not in saved.skill.code + saved.skill.description
        assert saved.warnings[0].startswith("Line 2 holds a private value.")
    assert b"brindlecombe" not in (tmp_path / "sealyard.db").read_bytes()
