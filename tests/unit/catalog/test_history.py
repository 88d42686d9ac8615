"""The history of tools: each definition has a version, what changed is written down, and none of it can be lost."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.catalog import Catalog
from sealyard.catalog.catalog import Change
from sealyard.errors import InvalidRequest, StoreError
from sealyard.store import Store, open_store
from sealyard.store.tools import Release
from sealyard.values.changes import Change as FieldChange
from sealyard.values.changes import Comparison
from sealyard.values.tools import Definition, ToolSpec

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
LOST = Comparison(
    bump="major",
    changes=(FieldChange(kind="output_removed", side="output", field="id", severity="major", reason="It is gone."),),
)


def tool(name: str, description: str = "Reads rows.", *, required: tuple[str, ...] = (), **fields: Any) -> Definition:
    """A definition whose other keywords are its parameters, but for `output_schema`."""
    output = fields.pop("output_schema", None)
    schema = {"type": "object", "properties": fields or {"user": TEXT}, "required": list(required)}
    return Definition(name=name, description=description, input_schema=schema, output_schema=output)


def versions(catalog: Catalog) -> dict[str, str]:
    """Of all tools, by the upstream's names."""
    return {spec.name: spec.version for spec in catalog.snapshot.tools.values()}


async def kinds(store: Store, name: str, upstream: str = "db") -> list[tuple[str, str]]:
    """What happened to a tool and its version then, the newest first."""
    return [(each.kind, each.version) for each in await store.releases.history(upstream, name)]


async def test_versions_follow_the_definition(tmp_path: Path) -> None:
    """Text is a patch, a new optional parameter a minor, and a parameter that is gone a major version."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        steps = []
        for definition in (
            tool("a", user=TEXT),
            tool("a", "Reads all rows.", user=TEXT),
            tool("a", "Reads all rows.", user=TEXT, limit=NUMBER),
            tool("a", "Reads all rows.", limit=NUMBER),
        ):
            await catalog.update("db", [definition])
            steps.append(versions(catalog)["a"])

        assert steps == ["1.0.0", "1.0.1", "1.1.0", "2.0.0"]
        assert await kinds(store, "a") == [
            ("changed", "2.0.0"),
            ("changed", "1.1.0"),
            ("changed", "1.0.1"),
            ("added", "1.0.0"),
        ]
        newest = (await store.releases.history("db", "a"))[0]
        assert newest.spec == catalog.snapshot.tools["mcp__db__a"]
        breaking = [(each.kind, each.field) for each in newest.changes if each.severity == "major"]
        assert breaking == [("parameter_removed", "user")]


async def test_versions_outlive_the_process(tmp_path: Path) -> None:
    """A restart changes none, and the next change counts on."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a"), tool("b")])
        await catalog.update("db", [tool("a", "Other words."), tool("b")])
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.load(["db"])
        assert versions(catalog) == {"a": "1.0.1", "b": "1.0.0"}
        await catalog.update("db", [tool("a", "Words again."), tool("b")])

        assert versions(catalog) == {"a": "1.0.2", "b": "1.0.0"}
        assert await kinds(store, "b") == [("added", "1.0.0")]


async def test_tool_that_comes_back_continues_its_numbers(tmp_path: Path) -> None:
    """As it was it has the version it had; changed, the next one. Nobody starts over by hiding for a moment."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a"), tool("b", "Adds.", row=TEXT)])
        await catalog.update("db", [tool("a", "Other words."), tool("b", "Adds.", row=TEXT)])
        await catalog.update("db", [tool("b", "Adds.", row=TEXT)])
        await catalog.update("db", [tool("a", "Other words."), tool("b", "Adds.", row=TEXT)])
        assert versions(catalog) == {"a": "1.0.1", "b": "1.0.0"}
        await catalog.update("db", [tool("b", "Adds.", row=TEXT)])
        await catalog.update("db", [tool("a", "Words again."), tool("b", "Adds.", row=TEXT)])

        assert versions(catalog) == {"a": "1.0.2", "b": "1.0.0"}
        expected = [
            ("returned", "1.0.2"),
            ("removed", "1.0.1"),
            ("returned", "1.0.1"),
            ("removed", "1.0.1"),
            ("changed", "1.0.1"),
            ("added", "1.0.0"),
        ]
        assert await kinds(store, "a") == expected


async def test_tool_that_comes_back_changed_is_reported_after_a_restart(tmp_path: Path) -> None:
    """The history knows what it was, whoever looks."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a"), tool("b", "Adds.", row=TEXT)])
        old = catalog.snapshot.tools["mcp__db__a"].digest
        await catalog.update("db", [tool("b", "Adds.", row=TEXT)])
        catalog = Catalog(store)
        await catalog.load(["db"])
        await catalog.update("db", [tool("a", "Reads rows. And tells."), tool("b", "Adds.", row=TEXT)])

        new = catalog.snapshot.tools["mcp__db__a"].digest
        assert catalog.changes_of("db") == (
            f"mcp__db__a was taken away and came back with another definition ({old[:12]} is now {new[:12]}).",
        )


FIND: dict[str, Any] = {"query": TEXT, "limit": NUMBER, "since": {"type": "string", "format": "date"}}


async def test_renamed_tool_continues_under_its_new_name(tmp_path: Path) -> None:
    """The old name leads to the new one, whose version is the next major of the old."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("list_expenses", "Lists expenses.", **FIND)])
        await catalog.update("db", [tool("list_expenses", "Lists all expenses.", **FIND)])
        await catalog.update("db", [tool("find_expenses", "Lists all expenses.", **FIND)])

        assert versions(catalog) == {"find_expenses": "2.0.0"}
        (new,) = await store.releases.history("db", "find_expenses")
        assert (new.kind, new.renamed_from, new.changes[0].kind) == ("renamed", "list_expenses", "tool_renamed")
        old = (await store.releases.history("db", "list_expenses"))[0]
        assert (old.kind, old.version, old.renamed_to, old.is_gone) == ("renamed", "1.0.1", "find_expenses", True)
        assert old.comparison.breaking[0].migration_code == "from servers.db import find_expenses"
        assert await store.releases.follow("db", "list_expenses") == catalog.snapshot.tools["mcp__db__find_expenses"]
        assert (await found(store, "mcp__db__list_expenses", "1.0")).version == "1.0.1"


async def found(store: Store, full_name: str, version: str) -> Release:
    """The release of that version, which must be there."""
    release = await store.releases.get(full_name, version)
    assert release is not None
    return release


async def test_tool_that_gets_its_old_name_back_is_followed_to_it(tmp_path: Path) -> None:
    """Names that go round lead nobody round, and the numbers still grow."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        for name in ("list_expenses", "find_expenses", "list_expenses"):
            await catalog.update("db", [tool(name, "Lists expenses.", **FIND)])

        assert versions(catalog) == {"list_expenses": "3.0.0"}
        spec = catalog.snapshot.tools["mcp__db__list_expenses"]
        assert await store.releases.follow("db", "find_expenses") == spec
        assert await store.releases.follow("db", "list_expenses") == spec
        assert await store.releases.follow("db", "unheard") is None


async def test_removed_tool_is_found_by_its_full_name(tmp_path: Path) -> None:
    """With the definition of the version that is asked for: a partial one means the newest of those."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("my-db", [tool("a", user=TEXT)])
        await catalog.update("my-db", [tool("a", user=TEXT, limit=NUMBER)])
        await catalog.update("my-db", [tool("a", "Other words.", user=TEXT, limit=NUMBER)])
        await catalog.update("my-db", [])

        name = "mcp__my-db__a"
        assert (await found(store, name, "1")).version == "1.1.1"
        assert (await found(store, name, "1.1")).kind == "changed"
        assert (await found(store, name, "1.0")).spec.input_schema["properties"] == {"user": TEXT}
        assert (await found(store, name, "1.1.0")).spec.version == "1.1.0"
        assert await store.releases.get(name, "2") is None
        assert await store.releases.get("mcp__my-db__b", "1") is None
        assert await store.releases.follow("my-db", "a") is None
        with pytest.raises(InvalidRequest):
            await store.releases.get(name, "latest")


async def test_recent_releases_come_newest_first(tmp_path: Path) -> None:
    """Of all upstreams, and only those after the time."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("one", [tool("a")])
        await catalog.update("two", [tool("b")])
        first, second = (await store.releases.recent(0))[::-1]

        assert [(each.upstream, each.name) for each in (first, second)] == [("one", "a"), ("two", "b")]
        assert await store.releases.recent(first.released_at) == [second]
        assert await store.releases.recent(0, limit=1) == [second]


async def test_declared_version_is_recorded_beside_ours(tmp_path: Path) -> None:
    """The upstream's word, on one line and not too long; a tool's own goes before its server's."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        listing = [tool("a"), tool("b", "Adds.", row=TEXT)]
        await catalog.update("db", listing, declared="expenses\n9.1" + "x" * 999, declared_tools={"b": "7\x1b[2J"})

        declared = {each.name: each.declared for each in await store.releases.recent(0)}
        assert declared == {"a": "expenses", "b": "7[2J"}
        assert versions(catalog) == {"a": "1.0.0", "b": "1.0.0"}


async def test_another_server_under_the_same_name_is_written_down(tmp_path: Path) -> None:
    """Its tools continue the numbers, since code knows them by these names, but never silently."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a"), tool("b", "Adds.", row=TEXT)], source="one")
        catalog = Catalog(store)
        await catalog.load([])  # what `open_yard` does with an upstream that is reached in another way
        await catalog.update("db", [tool("a"), tool("b", "Adds.", note=TEXT)], source="two")

        assert versions(catalog) == {"a": "1.0.1", "b": "2.0.0"}
        release = (await store.releases.history("db", "a"))[0]
        assert (release.kind, release.source) == ("returned", "two")
        assert [(each.kind, each.before, each.after, each.severity) for each in release.changes] == [
            ("text", "one", "two", "patch")
        ]
        assert catalog.changes_of("db") == ()


async def test_upstream_that_was_not_configured_for_a_while_is_as_it_was(tmp_path: Path) -> None:
    """Nothing happened to its tools, so nothing is released."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a")], source="one")
        await catalog.update("db", [tool("a", "Other words.")], source="one")
        catalog = Catalog(store)
        await catalog.load([])
        await catalog.update("db", [tool("a", "Other words.")], source="one")

        assert versions(catalog) == {"a": "1.0.1"}
        assert await kinds(store, "a") == [("changed", "1.0.1"), ("added", "1.0.0")]


async def test_release_that_cannot_be_stored_is_not_visible(tmp_path: Path) -> None:
    """Neither the definition nor the version."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a")])
        before = catalog.snapshot
    with pytest.raises(StoreError):
        await catalog.update("db", [tool("a", "Other words.")])

    assert catalog.snapshot is before


async def test_gateways_that_see_the_same_change_release_it_once(tmp_path: Path) -> None:
    """They share the store: who comes second takes the version that the first one gave."""
    async with open_store(tmp_path / "store.db") as one, open_store(tmp_path / "store.db") as two:
        catalogs = [Catalog(store) for store in (one, two, one, two)]
        await asyncio.gather(*(catalog.update("db", [tool("a"), tool("b")]) for catalog in catalogs))
        await asyncio.gather(*(catalog.update("db", [tool("a", "Other words.")]) for catalog in catalogs))

        assert [versions(catalog) for catalog in catalogs] == [{"a": "1.0.1"}] * 4
        assert await kinds(one, "a") == [("changed", "1.0.1"), ("added", "1.0.0")]
        assert await kinds(one, "b") == [("removed", "1.0.0"), ("added", "1.0.0")]


async def test_history_of_a_tool_is_bounded(tmp_path: Path) -> None:
    """The newest 200 releases and the first; the numbers go on."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        for number in range(250):
            await catalog.update("db", [tool("a", f"Words {number}.")])

        history = await store.releases.history("db", "a")
        assert versions(catalog) == {"a": "1.0.249"}
        assert [each.number for each in history] == [*range(250, 50, -1), 1]


async def test_history_of_an_upstream_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that renames all its tools all the time keeps those it has, and the newest of what it had."""
    monkeypatch.setattr("sealyard.store.tools.RELEASES_KEPT", 40)
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        for number in range(30):
            await catalog.update("db", [tool(f"t{number}_{each}", f"{number}{each}.") for each in "abcde"])

        rows = await store.releases.recent(0, limit=1_000)
        live = [each for each in rows if not each.is_gone]
        assert len(rows) == 45
        assert {each.name for each in live[:5]} == {f"t29_{each}" for each in "abcde"}
        assert versions(catalog).keys() == {f"t29_{each}" for each in "abcde"}


async def test_large_definitions_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of an upstream is bounded in bytes as well."""
    monkeypatch.setattr("sealyard.store.tools._UPSTREAM_BYTES", 300_000)
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        for number in range(20):
            await catalog.update("db", [tool("a", f"{number}" + "x" * 100_000)])

        assert len(await store.releases.history("db", "a")) in (3, 4)
        assert versions(catalog)["a"] == "1.0.19"


async def test_observed_change_is_a_major_version_of_the_same_definition(tmp_path: Path) -> None:
    """Subscribers are told, the stubs stay as they are, and the next listing takes it for known."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool("a"), tool("b", "Adds.", row=TEXT)])
        spec, before = catalog.snapshot.tools["mcp__db__a"], catalog.snapshot
        told: list[Change] = []
        catalog.subscribe(lambda _, change: told.append(change))

        new = await catalog.observe(spec, LOST)

        assert new == msgspec.structs.replace(spec, version="2.0.0")
        assert catalog.snapshot.tools["mcp__db__a"] is new
        assert catalog.snapshot.version == before.version
        assert told == [Change(changed=("mcp__db__a",))]
        assert await kinds(store, "a") == [("observed", "2.0.0"), ("added", "1.0.0")]
        assert (await store.load_tools())["db"] == list(catalog.snapshot.by_upstream["db"])
        await catalog.update("db", [tool("a")])
        assert versions(catalog) == {"a": "2.0.0"}
        assert await catalog.observe(spec, LOST) is None


async def test_change_that_another_gateway_observed_is_taken_over(tmp_path: Path) -> None:
    """It is one change, so it makes one version."""
    async with open_store(tmp_path / "store.db") as store:
        one, two = Catalog(store), Catalog(store)
        for catalog in (one, two):
            await catalog.update("db", [tool("a")])
        spec = one.snapshot.tools["mcp__db__a"]
        await one.observe(spec, LOST)
        await two.observe(spec, LOST)

        assert versions(one) == versions(two) == {"a": "2.0.0"}
        assert await kinds(store, "a") == [("observed", "2.0.0"), ("added", "1.0.0")]


async def test_listing_of_hostile_tools_is_compared_in_bounds(tmp_path: Path) -> None:
    """Every schema refers to itself and every field changes; all of them get a version."""
    loop: dict[str, Any] = {"$defs": {"x": {"$ref": "#/$defs/x"}}, "anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/x"}]}

    def hostile(number: int, field: str) -> Definition:
        wide = {f"{field}{each}": loop for each in range(300)}
        return Definition(name=f"t{number}", input_schema={"type": "object", "properties": wide})

    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [hostile(number, "p") for number in range(5)])
        await catalog.update("db", [hostile(number, "q") for number in range(5)])

        assert set(versions(catalog).values()) == {"2.0.0"}
        release = (await store.releases.history("db", "t0"))[0]
        assert 0 < len(release.changes) <= 200


async def test_what_takes_too_long_to_compare_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upstream whose tools all change at once, and are large, does not hold up the others."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [tool(f"t{number}") for number in range(3)])
        monkeypatch.setattr("sealyard.catalog.history._COMPARING_SECONDS", -1.0)
        await catalog.update("db", [tool(f"t{number}", "Other words.") for number in range(3)])

        assert set(versions(catalog).values()) == {"2.0.0"}
        (change,) = (await store.releases.history("db", "t0"))[0].changes
        assert change.reason == "Too much changed at once to be compared, so it counts as changed."


def test_spec_of_a_release_carries_its_version() -> None:
    """A definition from before versions reads as the first one."""
    text = (
        '{"upstream": "db", "name": "a", "full_name": "mcp__db__a", "module": "db", "function": "a",'
        ' "input_schema": {}, "digest": "d"}'
    )

    assert msgspec.json.decode(text, type=ToolSpec).version == "1.0.0"
