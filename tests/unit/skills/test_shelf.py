"""The shelf: versions that are never lost, names that mean one thing, and limits that hold against hostile skills."""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest, InvalidSkill, SkillUnusable, StoreError, UnknownSkill
from sealyard.skills.shelf import Shelf, digest_of, split_pin
from sealyard.store import open_store
from sealyard.values.skills import (
    SHARED,
    MigrationRecord,
    ShelfLimits,
    Skill,
    SkillExample,
    SkillNeed,
    SkillRecord,
    SkillUse,
    ToolNeed,
    Trace,
    TraceCall,
    UseShare,
    namespace_of,
    namespaces_for,
)

NOBODY = "No skill named 'x'. Call find_skills to find one that exists."
EXAMPLE = SkillExample(
    inputs={"user": "é\0"},
    output=[1, 2.5, None],
    trace=Trace(recorded_at=5.0, calls=(TraceCall(tool="mcp__bank__pay", version="1.0.0", answer={"a": [1]}),)),
    passed=True,
)


def skill(name: str = "total", **changes: Any) -> Skill:
    """An active skill of `ada`, but for the changes."""
    known: dict[str, Any] = {"namespace": "ada", "author": "ada", "status": "active", "code": f"def {name}(): ..."}
    return Skill(name=name, **known | {"input_schema": {"type": "object", "properties": {}}} | changes)


def schema(*required: str, **optional: str) -> dict[str, Any]:
    """An input schema of texts."""
    properties = {name: {"type": "string"} for name in required}
    properties |= {name: {"type": "string", "default": default} for name, default in optional.items()}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class Clock:
    """A clock that moves one second each time it is asked."""

    now = 0.0

    def __call__(self) -> float:
        """The next second."""
        self.now += 1.0
        return self.now


@asynccontextmanager
async def open_shelf(path: Path, **limits: int) -> AsyncIterator[Shelf]:
    """A shelf in a store of its own, or in one that others have open too."""
    async with open_store(path) as store:
        yield Shelf(store, limits=ShelfLimits(**limits), clock=Clock())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store.db"


async def said(error: type[Exception], work: Awaitable[Any]) -> str:
    """The message of the error that `work` raises."""
    with pytest.raises(error) as caught:
        await work
    return str(caught.value)


async def usable(_: Skill) -> str:
    """Nothing speaks against any."""
    return ""


async def not_new(skill: Skill) -> str:
    """Only what came before 2.0.0 can be used."""
    return "" if skill.version < "2" else "too new."


async def hidden(_: Skill) -> bool:
    """None is there for the principal."""
    return False


async def never(_: Skill) -> str:
    """None can be used."""
    return "its tools are gone."


# Versions


async def test_saved_skill_comes_back_whole(path: Path) -> None:
    """With its examples and their traces, its digest, and the times of its first and of this version."""
    full = skill(
        description="Adds é.",
        tags=("money", "sum"),
        examples=(EXAMPLE,),
        output_schema={"type": "object"},
        tools=(ToolNeed(tool="mcp__bank__pay", version="1.2.0", digest="d1", lines=(1,)),),
        skills=(SkillNeed(name="other", version="1.0.0"),),
        level="hardened",
        origin="import sha256:1",
        note="checked",
    )
    async with open_shelf(path) as shelf:
        saved = await shelf.save(full)
        later = await shelf.save(msgspec.structs.replace(full, description="Adds more."))
    async with open_shelf(path) as shelf:
        found = await shelf.table.get("ada", "total", "1.0.0")
        history = await shelf.table.versions("ada", "total")

    noted = {"recorded": ("mcp__bank__pay",), "digest": digest_of(full)}
    expected = msgspec.structs.replace(full, version="1.0.0", created_at=1.0, modified_at=1.0, **noted)
    assert (saved, found) == (expected, expected)
    assert (later.version, later.created_at, later.modified_at) == ("1.0.1", 1.0, 2.0)
    assert history == [
        msgspec.structs.replace(later, examples=()),
        msgspec.structs.replace(expected, examples=()),
    ]


async def test_version_grows_by_what_the_interface_changed(path: Path) -> None:
    """Code is a patch, an optional input minor; a required one, a lost one and another order are major."""
    steps = [
        skill(input_schema=schema("a")),
        skill(input_schema=schema("a"), code="def total(a): return a"),
        skill(input_schema=schema("a", b="")),
        skill(input_schema=schema("a", c="", b="")),
        skill(input_schema=schema("a")),
        skill(input_schema=schema("a", "d")),
    ]
    async with open_shelf(path) as shelf:
        assert [(await shelf.save(each)).version for each in steps] == [
            "1.0.0",
            "1.0.1",
            "1.1.0",
            "2.0.0",
            "3.0.0",
            "4.0.0",
        ]


async def test_same_skill_is_not_saved_again(path: Path) -> None:
    """By whom and when do not matter, nor do fresh recordings; another status or level does."""
    again = skill(author="bob", examples=(SkillExample(inputs=EXAMPLE.inputs, output=EXAMPLE.output),))
    async with open_shelf(path) as shelf:
        first = await shelf.save(skill(examples=(EXAMPLE,)))

        assert await shelf.save(again) == first
        assert (await shelf.save(skill(examples=(EXAMPLE,), status="draft"))).version == "1.0.1"
        assert (await shelf.save(skill(examples=(EXAMPLE,), status="draft", level="hardened"))).version == "1.0.2"
        assert (await shelf.save(skill(examples=(EXAMPLE,)))).version == "1.0.3"


async def test_concurrent_saves_of_one_name_become_versions(path: Path) -> None:
    """From two gateways on one file, all at once: each is told a version of its own, and each is there."""
    async with open_shelf(path) as one, open_shelf(path) as two:
        work = [shelf.save(skill(code=f"{who} = {n}")) for n in range(15) for who, shelf in (("a", one), ("b", two))]
        saved = await asyncio.gather(*work)
        history = await one.table.versions("ada", "total")

    assert sorted(each.version for each in saved) == sorted(f"1.0.{number}" for number in range(30))
    assert {each.version: each.code for each in history} == {each.version: each.code for each in saved}


async def test_concurrent_saves_of_the_same_skill_are_one_version(path: Path) -> None:
    """Whoever comes second is told what the first one saved."""
    async with open_shelf(path) as one, open_shelf(path) as two:
        saved = await asyncio.gather(*(shelf.save(skill()) for _ in range(5) for shelf in (one, two)))

        assert {each.version for each in saved} == {"1.0.0"}
        assert len(await one.table.versions("ada", "total")) == 1


async def test_deleted_numbers_are_never_given_again(path: Path) -> None:
    """A skill that is saved anew after its end is another major version, since nobody knows what it shares."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill())
        await shelf.save(skill(code="2"))
        assert await shelf.delete("ada", "total", "1.0.1") == 1
        assert (await shelf.save(skill(code="3"))).version == "1.0.2"
        assert await shelf.delete("ada", "total") == 2
        assert await shelf.table.versions("ada", "total") == []
        assert await shelf.list_all() == []
        anew = await shelf.save(skill())
        assert (anew.version, anew.created_at) == ("2.0.0", 6.0)


async def test_older_version_is_restored_as_the_newest(path: Path) -> None:
    """Deleted or not, with its examples; the version in between stays."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill(examples=(EXAMPLE,)))
        await shelf.save(skill(code="2", input_schema=schema("a")))
        await shelf.delete("ada", "total", "1.0.0")
        restored = await shelf.restore("ada", "total", "1.0.0", author="bob")

        assert (restored.version, restored.origin, restored.author) == ("3.0.0", "restored from 1.0.0", "bob")
        assert (restored.code, restored.examples) == (skill().code, (EXAMPLE,))
        assert [each.version for each in await shelf.table.versions("ada", "total")] == ["3.0.0", "2.0.0"]
        assert await said(UnknownSkill, shelf.restore("ada", "total", "9", author="bob")) == (
            "The skill 'total' has no version '9'. `sealyard skills history` lists them."
        )


async def test_status_changes_in_place(path: Path) -> None:
    """With the examples that were run again; a version that is not there is an error."""
    passed = SkillExample(inputs={"a": 1}, passed=True)
    async with open_shelf(path) as shelf:
        await shelf.save(skill(status="quarantined", note="from elsewhere"))
        await shelf.update(skill(version="1.0.0", status="active", examples=(passed,)))
        found = await shelf.get("total", None, "ada")

        assert (found.version, found.status, found.note, found.examples) == ("1.0.0", "active", "", (passed,))
        await shelf.delete("ada", "total", "1.0.0")
        await said(UnknownSkill, shelf.update(skill(version="1.0.0", status="draft")))
        await said(UnknownSkill, shelf.delete("ada", "total", "1.0.0"))
        await said(UnknownSkill, shelf.delete("ada", "other"))


async def test_stamp_changes_with_every_change_by_anybody(path: Path) -> None:
    """A save, a status and a deletion by one gateway are seen by another; a save that saves nothing is none."""
    async with open_store(path) as one, open_store(path) as two:
        shelf = Shelf(two)
        stamps = [await one.skills.stamp()]
        for work in (
            shelf.save(skill()),
            shelf.save(skill("other")),
            shelf.update(skill(version="1.0.0", status="draft")),
            shelf.delete("ada", "total"),
        ):
            await work
            stamps.append(await one.skills.stamp())
        await shelf.save(skill("other"))

        assert (len(set(stamps)), await one.skills.stamp()) == (5, stamps[-1])


async def test_list_has_the_newest_of_each_skill(path: Path) -> None:
    """In every namespace, or in some of them; drafts too unless a status is asked for."""
    async with open_shelf(path) as shelf:
        for each in (
            skill("a", namespace=SHARED),
            skill("b", namespace=SHARED),
            skill("b"),
            skill("b", code="2", status="draft"),
            skill("c", namespace="bob"),
        ):
            await shelf.save(each)

        def places(found: list[Skill]) -> list[tuple[str, str, str]]:
            return [(each.namespace, each.name, each.version) for each in found]

        own = [places(await shelf.table.newest(["ada"], status=status)) for status in (None, "active")]
        assert own == [[("ada", "b", "1.0.1")], [("ada", "b", "1.0.0")]]
        assert places(await shelf.list_all()) == [
            ("ada", "b", "1.0.1"),
            ("bob", "c", "1.0.0"),
            (SHARED, "a", "1.0.0"),
            (SHARED, "b", "1.0.0"),
        ]


# What may lie on it

BAD_NAMES = [
    "",
    "Total",
    "1total",
    "_total",
    "__init__",
    "to-tal",
    "to tal",
    "total\n",
    "../total",
    "a/b",
    "a\\b",
    "a.b",
    "total\0",
    "tоtal",  # noqa: RUF001 - a Cyrillic o
    "ｔotal",  # noqa: RUF001 - a wide t
    "total\u200b",
    "tötal",
    "total\ud800",
    "con:",
    "a" * 65,
    "b" * 1_000_000,
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name[:20]))
async def test_name_that_could_be_taken_for_another_or_for_a_path_is_refused(path: Path, name: str) -> None:
    """Nothing is saved, and what is shown is plain ASCII."""
    async with open_shelf(path) as shelf:
        message = await said(InvalidSkill, shelf.save(skill(name, code="1")))
        assert await shelf.list_all() == []

    assert message == (
        f"A skill cannot be called {name if len(name) <= 80 else name[:79] + '…'!a}. Use 1 to 64 characters: a"
        " lower-case letter from a to z, then letters, digits and underscores, such as 'monthly_total'."
    )


@pytest.mark.parametrize("name", ["load", "shared", "servers", "skills", "class", "lambda", "async"])
async def test_name_that_means_something_else_is_refused(path: Path, name: str) -> None:
    """Keywords, and what `skills` has of its own."""
    async with open_shelf(path) as shelf:
        assert await said(InvalidSkill, shelf.save(skill(name))) == (
            f"A skill cannot be called {name!r}, since that means something else. Use another name."
        )


BAD_PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "empty code": ({"code": " \n"}, "The code is empty. Send the Python text that the skill is."),
    "large code": (
        {"code": "é" * (33 << 10)},
        "The code has 67,584 bytes, and 65,536 are allowed."
        " Pass data in as inputs, or split it into skills that import each other.",
    ),
    "null byte in code": ({"code": "1\0"}, "The code holds a null byte. Take it out."),
    "surrogate in code": (
        {"code": "'\ud800'"},
        "The code holds half of a surrogate pair, which is not Unicode. Take it out.",
    ),
    "surrogate in the note": (
        {"note": "\udfff"},
        "The note holds half of a surrogate pair, which is not Unicode. Take it out.",
    ),
    "null byte in the description": ({"description": "\0"}, "The description holds a null byte. Take it out."),
    "long description": (
        {"description": "x" * 1025},
        "The description has 1,025 characters, and 1,024 are allowed. Leave some out.",
    ),
    "many tags": ({"tags": ("t",) * 21}, "The skill has 21 tags, and 20 are allowed. Leave some out."),
    "long tag": ({"tags": ("t" * 41,)}, f"'{'t' * 41}' is not a tag. Use 1 to 40 characters that can be printed."),
    "empty tag": ({"tags": ("",)}, "'' is not a tag. Use 1 to 40 characters that can be printed."),
    "tag that acts": ({"tags": ("\x1b[2J",)}, r"'\x1b[2J' is not a tag. Use 1 to 40 characters that can be printed."),
    "many examples": (
        {"examples": (SkillExample(),) * 11},
        "The skill has 11 examples, and 10 are allowed. Leave some out.",
    ),
    "no namespace": ({"namespace": ""}, "There is no namespace ''. Use `shared`, or a principal's own."),
    "odd namespace": ({"namespace": "a\nb"}, r"There is no namespace 'a\nb'. Use `shared`, or a principal's own."),
}


@pytest.mark.parametrize("case", BAD_PARTS)
async def test_part_that_is_out_of_bounds_is_refused(path: Path, case: str) -> None:
    """Each with what it has and what is allowed."""
    changes, message = BAD_PARTS[case]
    async with open_shelf(path) as shelf:
        assert await said(InvalidSkill, shelf.save(skill(**changes))) == message
        assert await shelf.list_all() == []


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


BOMBS: dict[str, dict[str, Any]] = {
    "deep output": {"examples": (SkillExample(output=nested(3_000)),)},
    "almost too deep output": {"examples": (SkillExample(output=nested(985)),)},
    "deep inputs": {"examples": (SkillExample(inputs={"a": nested(100_000)}),)},
    "deep schema": {"input_schema": {"properties": nested(3_000)}},
    "long number": {"examples": (SkillExample(output=10**5_000),)},
    "surrogate inside": {"examples": (SkillExample(output=["\ud800"]),)},
    "surrogate in a key": {"input_schema": {"properties": {"\ud800": {}}}},
    "no JSON": {"examples": (SkillExample(output=object()),)},
    "keys of two kinds": {"output_schema": {"a": {1: 2, "b": 3}, None: 4}},
    "random bytes": {"examples": (SkillExample(output=[f"{n * 7919 % 10_007:x}{n}" for n in range(700_000)]),)},
    "one byte, many times": {"examples": (SkillExample(output="x" * (33 << 20)),)},
}


@pytest.mark.parametrize("case", BOMBS)
async def test_bomb_in_a_skill_is_refused_and_the_store_lives(path: Path, case: str) -> None:
    """Whatever the value, the answer is `InvalidSkill`, and the next save works."""
    async with open_shelf(path) as shelf:
        await said(InvalidSkill, shelf.save(skill(**BOMBS[case])))
        assert (await shelf.save(skill())).version == "1.0.0"
        assert len(await shelf.list_all()) == 1


async def test_table_takes_no_text_that_would_break_its_writer(path: Path) -> None:
    """A note and an origin that are no Unicode, given past the shelf: kept as its escape, or refused."""
    async with open_store(path) as store:

        def add(**changes: Any) -> Awaitable[Skill]:
            return store.skills.add(skill(**changes), lambda before: "patch", limits=ShelfLimits())

        await add(note="\ud800")
        await said(InvalidSkill, add(origin="\ud800"))
        await said(InvalidSkill, add(modified_at=math.nan))
        (found,) = await store.skills.versions("ada", "total")

    assert found.note == "\\ud800"


async def test_large_examples_that_shrink_are_kept(path: Path) -> None:
    """It is what they take on disk that counts."""
    example = SkillExample(output=["a row of a table"] * 200_000)
    async with open_shelf(path) as shelf:
        await shelf.save(skill(examples=(example,)))

        assert (await shelf.get("total", None, "ada")).examples == (example,)


async def test_counts_are_limited(path: Path) -> None:
    """Versions of a skill and skills of a namespace; deleting makes room, and another namespace has room of its own."""
    async with open_shelf(path, skills=2, versions=2) as shelf:
        await shelf.save(skill("a"))
        await shelf.save(skill("a", code="2"))
        await shelf.save(skill("b"))
        full = await said(InvalidSkill, shelf.save(skill("c")))
        old = await said(InvalidSkill, shelf.save(skill("a", code="3")))
        await shelf.save(skill("c", namespace=SHARED))
        await shelf.delete("ada", "a", "1.0.0")
        await shelf.save(skill("a", code="3"))
        await shelf.delete("ada", "b")
        await shelf.save(skill("c"))

    assert (full, old) == (
        "The namespace 'ada' holds 2 skills, which is the limit."
        " Delete some: `sealyard skills --cleanup` names those that nobody uses.",
        "The skill 'a' has 2 versions, which is the limit. Delete old ones, or use another name.",
    )


async def test_save_that_fails_half_way_is_told_and_leaves_nothing(path: Path) -> None:
    """Neither the half that was written, nor the whole once the store works again: its caller was told."""
    async with open_store(path) as store:
        shelf = Shelf(store)
        await shelf.save(skill())
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON skill_examples BEGIN SELECT RAISE(ABORT, 'no room'); END"
            )
            failed = await said(StoreError, shelf.save(skill(code="2", examples=(EXAMPLE,))))
            kept = connection.execute("SELECT count(*) FROM skills").fetchall()
            connection.execute("DROP TRIGGER full")
        await store.flush()

        assert (failed, kept) == (
            f"The store {str(path)!r} cannot be written: no room. Check that no other program changes the file.",
            [(1,)],
        )
        assert [each.version for each in await shelf.table.versions("ada", "total")] == ["1.0.0"]
        assert (await shelf.save(skill(code="2", examples=(EXAMPLE,)))).version == "1.0.1"


# Namespaces


def test_no_principal_owns_the_shared_namespace() -> None:
    """One that is called so has another namespace, and no two principals have the same."""
    names = ("ada", "shared", "~shared", "~~shared", "~", "", "Shared")

    assert [namespace_of(name) for name in names] == ["ada", "~shared", "~~shared", "~~~shared", "~~", "", "Shared"]
    assert namespaces_for("shared") == ("~shared", "shared")


async def test_principal_called_shared_cannot_put_skills_before_others(path: Path) -> None:
    """What it saves as its own is seen by itself alone."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("x", namespace=namespace_of("shared")))

        assert (await shelf.resolve("x", None, "shared", why_not=usable)).namespace == "~shared"
        assert await said(UnknownSkill, shelf.resolve("x", None, "ada", why_not=usable)) == NOBODY


async def test_own_skill_comes_before_the_shared_one(path: Path) -> None:
    """And the shared one is found by those who have none of that name."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("x", namespace=SHARED))
        await shelf.save(skill("x"))

        found = [(await shelf.resolve("x", None, who, why_not=usable)).namespace for who in ("ada", "bob")]

    assert found == ["ada", SHARED]


# Which version code gets


@asynccontextmanager
async def four_versions(path: Path) -> AsyncIterator[Shelf]:
    """1.0.0, 1.1.0, 2.0.0 and the draft 2.0.1 of `total`, all of `ada`."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill(input_schema=schema("a")))
        await shelf.save(skill(input_schema=schema("a", b="")))
        await shelf.save(skill(input_schema=schema("c")))
        await shelf.save(skill(input_schema=schema("c"), code="2", status="draft"))
        yield shelf


@pytest.mark.parametrize(
    ("name", "pin", "version"),
    [
        ("total", None, "2.0.0"),
        ("total@1", None, "1.1.0"),
        ("total", "1.0", "1.0.0"),
        ("skills.total@1.1.0", None, "1.1.0"),
        ("total@2.0.0", "2.0.0", "2.0.0"),
    ],
)
async def test_newest_version_that_a_pin_names_is_found(path: Path, name: str, pin: str | None, version: str) -> None:
    """The pin stands in the name or beside it."""
    async with four_versions(path) as shelf:
        assert (await shelf.resolve(name, pin, "ada", why_not=usable)).version == version
        assert (await shelf.get(name, pin, "ada")).version == version


async def test_newest_usable_version_is_found(path: Path) -> None:
    """One that is not usable is passed over; if none is left, it is said why."""
    async with four_versions(path) as shelf:
        found = await shelf.resolve("total", None, "ada", why_not=not_new)
        told = await said(SkillUnusable, shelf.resolve("total", "2.0.0", "ada", why_not=never))

    assert found.version == "1.1.0"
    assert told == ("The skill 'total' 2.0.0 cannot be imported: its tools are gone.")


async def test_draft_does_not_hide_an_active_version(path: Path) -> None:
    """Unless the pin names it, or there is nothing else."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("x", status="active"))
        await shelf.save(skill("x", status="draft", code="def x():\n    return 2\n"))

        assert (await shelf.resolve("x", None, "ada", why_not=usable)).version == "1.0.0"
        assert (await shelf.resolve("x@1.0.1", None, "ada", why_not=usable)).status == "draft"


async def test_skill_that_is_not_visible_does_not_exist(path: Path) -> None:
    """Not even the refusal tells of it."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("x"))
        told = await said(UnknownSkill, shelf.resolve("x", None, "ada", why_not=never, is_visible=hidden))

    assert told == "No skill named 'x'. Call find_skills to find one that exists."


async def test_draft_is_for_its_author_and_quarantine_for_nobody(path: Path) -> None:
    """The note says why; reading them is allowed."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("x", namespace=SHARED, status="draft", note="no example has passed."))
        await shelf.save(skill("y", status="quarantined", note="imported"))

        assert (await shelf.resolve("x", None, "ada", why_not=usable)).version == "1.0.0"
        assert await said(SkillUnusable, shelf.resolve("x", None, "bob", why_not=usable)) == (
            "The skill 'x' 1.0.0 cannot be imported: it is a draft of 'ada' (no example has passed)."
            " It becomes active once one of its examples passes."
        )
        assert await said(SkillUnusable, shelf.resolve("y", None, "ada", why_not=usable)) == (
            "The skill 'y' 1.0.0 cannot be imported: it is in quarantine (imported). A person has to approve it first."
        )
        assert [(await shelf.get(name, None, "ada")).status for name in "xy"] == ["draft", "quarantined"]


async def test_own_skill_that_is_not_usable_lets_the_shared_one_through(path: Path) -> None:
    """Quarantine of one does not take away the other."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("x", status="quarantined"))
        await shelf.save(skill("x", namespace=SHARED))

        assert (await shelf.resolve("x", None, "ada", why_not=usable)).namespace == SHARED


async def test_skill_that_is_not_there_is_told_with_the_nearest(path: Path) -> None:
    """A misspelled name, a version that never was, a deleted skill, a path: each has its own sentence."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill("monthly_total"))
        await shelf.save(skill("gone"))
        await shelf.save(skill("secret_total", namespace="bob"))
        await shelf.delete("ada", "gone")

        async def told(name: str, pin: str | None = None) -> str:
            one = await said(UnknownSkill, shelf.resolve(name, pin, "ada", why_not=usable))
            assert await said(UnknownSkill, shelf.get(name, pin, "ada")) == one
            return one

        assert [await told("montly_total"), await told("monthly_total", "3.1"), await told("gone")] == [
            "No skill named 'montly_total'. Nearest: 'monthly_total'.",
            "The skill 'monthly_total' has no version '3.1'. It has 1.0.0: name one of these, or none for the newest.",
            "The skill 'gone' was deleted. Restore it, or save it again.",
        ]
        assert await told("secret_total") == (
            "No skill named 'secret_total'. Call find_skills to find one that exists."
        )
        assert await told("../../etc/passwd\ud800") == (
            r"No skill named '../../etc/passwd\ud800'. Call find_skills to find one that exists."
        )
        await said(InvalidRequest, shelf.resolve("monthly_total@latest", None, "ada", why_not=usable))


def test_two_versions_at_once_are_refused() -> None:
    """In the name and beside it."""
    assert split_pin("x@1", "1") == ("x", "1")
    with pytest.raises(UnknownSkill):
        split_pin("x@1", "2")


# What came of them


def use(**changes: Any) -> SkillUse:
    """One execution that called `total` once, but for the changes."""
    known: dict[str, Any] = {"namespace": "ada", "name": "total", "version": "1.0.0", "execution_id": "e1"}
    return SkillUse(**known | {"principal": "ada", "at": 10.0, "calls": 1, "seconds": 0.5} | changes)


async def test_uses_add_up(path: Path) -> None:
    """Those of one execution are one use; the last error is kept; older ones are left out if asked for."""
    async with open_store(path) as store:
        store.skills.record_uses([use(), use(calls=2, failures=1, error="ToolError: no"), use(version="2.0.0")])
        store.skills.record_uses([use(execution_id="e2", principal="bob", at=20.0, translated=3)])
        store.skills.record_uses([])
        await store.flush()

        newer = SkillRecord(
            namespace="ada",
            name="total",
            version="1.0.0",
            uses=2,
            calls=4,
            failures=1,
            seconds=1.5,
            last_used_at=20.0,
            principals=2,
            translated=3,
            last_error="ToolError: no",
            shares=(
                UseShare(principal="ada", uses=1, calls=3, failures=1),
                UseShare(principal="bob", uses=1, calls=1, failures=0),
            ),
        )
        found = await store.skills.uses()
        assert [found[0], found[1].version] == [newer, "2.0.0"]


async def test_use_that_a_guest_made_up_cannot_stop_the_store(path: Path) -> None:
    """No number, no text and no length makes the write fail."""
    async with open_store(path) as store:
        store.skills.record_uses(
            [
                use(seconds=math.nan, calls=-5, failures=10**30, error="\ud800" * 5_000),
                use(execution_id="\udc00", seconds=math.inf, translated=2**63),
            ]
        )
        await store.flush()
        (found,) = await store.skills.uses()

    assert (found.uses, found.calls, found.failures, found.seconds, found.translated) == (2, 1, 2**31, 2.0**31, 2**31)
    assert found.last_error == "\\ud800" * 2_000


async def test_migrations_are_kept_in_their_order(path: Path) -> None:
    """With what was predicted, for the score."""
    known: dict[str, Any] = {"namespace": "ada", "name": "total", "from_version": "1.0.0", "tool": "mcp__bank__pay"}
    known |= {"tool_from": "1.0.0", "tool_to": "2.0.0", "predicted": "mechanical", "seconds": 0.5}
    records = [
        MigrationRecord(**known, outcome="migrated", to_version="1.0.1", at=2.0),
        MigrationRecord(**known, outcome="refused", reason="\ud800", at=1.0),
    ]
    async with open_store(path) as store:
        for each in records:
            await store.skills.record_migration(each)

        assert await store.skills.migrations() == [records[0], msgspec.structs.replace(records[1], reason="\\ud800")]


async def test_listing_thousands_reads_no_examples_and_uses_its_index(path: Path) -> None:
    """The query for the newest of each is answered from the index of what is not deleted."""
    async with open_shelf(path) as shelf:
        await shelf.save(skill(examples=(EXAMPLE,)))
        (found,) = await shelf.list_all()
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT max(number) FROM skills WHERE deleted_at IS NULL AND namespace IN (?, ?)"
            " GROUP BY namespace, name",
            ("ada", SHARED),
        ).fetchall()

    assert found.examples == ()
    assert [row[3] for row in plan] == ["SEARCH skills USING COVERING INDEX skills_kept (namespace=?)"]
