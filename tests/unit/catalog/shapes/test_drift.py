"""Answers of tools that do not declare them: their shape is learned, and a change of it is a version of its own."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.catalog import Catalog
from sealyard.catalog.catalog import Change
from sealyard.catalog.shapes.drift import DriftWatch, outline
from sealyard.store import SeenShape, Store, open_store
from sealyard.values.tools import Definition, ToolSpec

OLD = {"rows": [{"id": 7, "user_name": "Ada"}], "total": 1}
NEW = {"rows": [{"id": 7, "userName": "Ada"}], "total": 1}


class Clock:
    """A time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self.now


async def listed(store: Store, **fields: Any) -> Catalog:
    """A catalog with the one tool `list`."""
    catalog = Catalog(store)
    await catalog.update("db", [Definition(name="list", **{"input_schema": {"type": "object"}, **fields})])
    return catalog


def current(catalog: Catalog) -> ToolSpec:
    """The tool as it is now."""
    return catalog.snapshot.tools["mcp__db__list"]


async def answer(observed: DriftWatch, catalog: Catalog, *answers: Any) -> None:
    """Note answers one by one, and wait until each was looked at."""
    for each in answers:
        observed.note(current(catalog), each)
        await observed.settled()


async def test_shape_is_learned_from_answers(tmp_path: Path) -> None:
    """It says types and names, which of them are always there, and nothing of what was in them."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        assert observed.shape_of(current(catalog)) is None
        await answer(observed, catalog, OLD, {"rows": [], "total": 0, "note": "s3cret"})

        shape = observed.shape_of(current(catalog))
        assert shape is not None
        assert (sorted(shape["properties"]), sorted(shape["required"])) == (
            ["note", "rows", "total"],
            ["rows", "total"],
        )
        assert shape["properties"]["rows"]["items"]["properties"] == {
            "id": {"type": "integer"},
            "user_name": {"type": "string"},
        }
        assert b"s3cret" not in msgspec.json.encode(shape)
        assert current(catalog).version == "1.0.0"


async def test_field_that_is_gone_for_good_is_a_major_version(tmp_path: Path) -> None:
    """It was in ten answers of ten and is in none of the next ten; what took its place is guessed."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        told: list[Change] = []
        catalog.subscribe(lambda _, change: told.append(change))
        await answer(observed, catalog, *[OLD] * 10, *[NEW] * 9)
        assert (current(catalog).version, told) == ("1.0.0", [])

        await answer(observed, catalog, NEW)

        assert current(catalog).version == "2.0.0"
        assert [each.changed for each in told] == [("mcp__db__list",)]
        release = (await store.releases.history("db", "list"))[0]
        assert (release.kind, release.version, release.comparison.bump) == ("observed", "2.0.0", "major")
        lost = [each for each in release.changes if each.severity == "major"]
        assert [(each.side, each.field) for each in lost] == [("output", "rows[].user_name")]
        assert lost[0].replacement is not None
        assert lost[0].replacement.name == "userName"
        assert catalog.changes_of("db") == ("The answers of mcp__db__list changed, and its definition did not.",)


async def test_field_of_another_type_is_a_major_version(tmp_path: Path) -> None:
    """A number where there was text breaks whoever reads it."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        await answer(observed, catalog, *[{"id": 7}] * 10, *[{"id": "7"}] * 10)

        assert current(catalog).version == "2.0.0"
        (change,) = (await store.releases.history("db", "list"))[0].changes
        assert (change.kind, change.field) == ("output_retyped", "id")


@pytest.mark.parametrize(
    "answers",
    [
        [*[OLD] * 10, NEW, *[OLD] * 30],
        [*[OLD] * 9, *[NEW] * 30],
        [*[OLD] * 15, *[NEW, NEW, NEW, OLD] * 10],
        [*[OLD] * 15, *[{"rows": [], "total": 0}] * 30],
        [*[OLD] * 15, *[{}] * 30],
        [*[OLD] * 15, *[{"rows": [{"id": 7, "user_name": None}], "total": 1}] * 30],
        [*[{"total": 1}] * 15, *[{"total": 1.5}] * 30],
        [*[OLD] * 15, *[{**OLD, "more": 1}] * 30],
        [*["some text"] * 15, {"error": "odd"}, *["some text"] * 15],
    ],
    ids=["one", "few", "mixed", "no-rows", "empty", "null", "fraction", "added", "kind"],
)
async def test_what_proves_nothing_changes_nothing(tmp_path: Path, answers: Sequence[Any]) -> None:
    """One odd answer, too few to be a habit, answers that vary, and answers without the part in question."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        await answer(DriftWatch(catalog, store), catalog, *answers)

        assert current(catalog).version == "1.0.0"


async def test_odd_answers_of_one_execution_prove_nothing(tmp_path: Path) -> None:
    """A loop over things of another sort gets other answers; a second execution that does too makes it a change."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        for number, each in enumerate([OLD] * 12 + [NEW] * 25):
            observed.note(current(catalog), each, execution_id="first" if number < 12 else "second")
            await observed.settled()
        assert current(catalog).version == "1.0.0"
        observed.note(current(catalog), NEW, execution_id="third")
        await observed.settled()

        assert current(catalog).version == "2.0.0"


async def test_alternating_answers_do_not_make_endless_versions(tmp_path: Path) -> None:
    """What an earlier version answered and answers again is a way of its own, not a change."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        clock = Clock()
        observed = DriftWatch(catalog, store, clock=clock)
        for _ in range(4):
            for each in (OLD, NEW):
                await answer(observed, catalog, *[each] * 60)  # of which one in twenty is looked at, while all is well
                clock.now += 7200

        assert current(catalog).version == "2.0.0"
        assert len(await store.releases.history("db", "list")) == 2


async def test_answers_that_are_new_each_time_make_one_version_in_an_hour(tmp_path: Path) -> None:
    """A hostile upstream fills the history slowly at best."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        clock = Clock()
        observed = DriftWatch(catalog, store, clock=clock)
        for block in range(6):
            await answer(observed, catalog, *[{f"f{block}": 1}] * 12)
        assert current(catalog).version == "2.0.0"
        clock.now += 3601
        await answer(observed, catalog, {"f5": 1})

        assert current(catalog).version == "3.0.0"


async def test_declared_output_is_not_watched(tmp_path: Path) -> None:
    """Its definition says what comes."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store, output_schema={"type": "object"})
        observed = DriftWatch(catalog, store)
        await answer(observed, catalog, *[OLD] * 10, *[NEW] * 10)

        assert observed.shape_of(current(catalog)) is None
        assert current(catalog).version == "1.0.0"


async def test_what_was_learned_outlives_the_process(tmp_path: Path) -> None:
    """Half the habit before a restart and the change after it."""
    path = tmp_path / "store.db"
    async with open_store(path) as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        await answer(observed, catalog, *[OLD] * 12)
        shape = observed.shape_of(current(catalog))
        await observed.close()
    async with open_store(path) as store:
        catalog = Catalog(store)
        await catalog.load(["db"])
        observed = DriftWatch(catalog, store)
        await observed.load()
        assert observed.shape_of(current(catalog)) == shape
        await answer(observed, catalog, *[NEW] * 10)
        await observed.close()
        await store.flush()

        assert current(catalog).version == "2.0.0"
        kept = await store.shapes.find("db", "list", 1)
        assert kept is not None
        assert kept.schema == shape
        assert observed.shape_of(current(catalog)) != shape


async def test_change_of_words_keeps_what_was_learned(tmp_path: Path) -> None:
    """A shape belongs to a major version; the next one starts anew."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        await answer(observed, catalog, OLD)
        shape = observed.shape_of(current(catalog))
        first = current(catalog)
        await catalog.update("db", [Definition(name="list", description="Lists.", input_schema={"type": "object"})])
        assert (current(catalog).version, observed.shape_of(current(catalog))) == ("1.0.1", shape)
        required = {"type": "object", "properties": {"user": {"type": "string"}}, "required": ["user"]}
        await catalog.update("db", [Definition(name="list", description="Lists.", input_schema=required)])

        assert (current(catalog).version, observed.shape_of(current(catalog))) == ("2.0.0", None)
        observed.note(first, NEW)  # by an execution that began before
        await observed.settled()
        assert observed.shape_of(current(catalog)) is None


async def test_only_a_sample_of_the_answers_is_looked_at(tmp_path: Path) -> None:
    """The first twenty, then one in twenty."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        for number in range(100):
            await answer(observed, catalog, {f"f{number:02}x": 1, "id": number})

        shape = observed.shape_of(current(catalog))
        assert shape is not None
        seen = sum(f"f{number:02}x" in str(shape) for number in range(100))
        assert seen <= 24


async def test_burst_of_answers_is_not_kept_in_memory(tmp_path: Path) -> None:
    """What comes faster than it can be looked at is let go."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        names = [f"t{number}" for number in range(500)]
        await catalog.update("db", [Definition(name=name, input_schema={"type": "object"}) for name in names])
        specs = list(catalog.snapshot.tools.values())
        for spec in specs:
            observed.note(spec, OLD)
        await observed.settled()

        assert sum(observed.shape_of(spec) is not None for spec in specs) == 64


def test_outline_holds_no_value() -> None:
    """Types and keys of the first rows, and of an endless answer only what is near its root."""
    deep: Any = "x"
    for _ in range(50):
        deep = [deep]
    rows = [{"id": number, "ok": True, "at": 1.25, "gone": None} for number in range(100_000)]

    assert outline({"rows": rows, "deep": deep, "name": "Ada"}) == {
        "rows": [{"id": 0, "ok": True, "at": 0.5, "gone": None}] * 50,
        "deep": [[[[[[["\0cut"]]]]]]],
        "name": "",
    }
    assert outline({str(number): number for number in range(100_000)}) == {f"\0key{key}": 0 for key in range(64)}


async def test_hostile_answers_are_worked_through(tmp_path: Path) -> None:
    """Deep, wide, with keys of any sort: nothing of it breaks the watch or grows without bound."""
    deep: Any = {}
    for _ in range(5_000):
        deep = {"x": deep}
    wide = [{f"{'long' * 15}_{row}_{column}": column for column in range(40)} for row in range(30)]
    hostile = [deep, wide, {"\ud800": 1, "": 2, "a.b[]": {"{}": 3}}, [], None, True, "x" * 1_000_000]
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        await answer(observed, catalog, *hostile, *hostile)
        await observed.close()
        await store.flush()

        assert current(catalog).version == "1.0.0"
        (kept,) = await store.shapes.newest(10)
        assert kept.schema == observed.shape_of(current(catalog))
        assert len(msgspec.json.encode(kept)) < 128 << 10


async def test_shapes_of_an_upstream_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those seen last are kept, and none that is too large."""
    monkeypatch.setattr("sealyard.store.tools._SHAPES_KEPT", 5)
    async with open_store(tmp_path / "store.db") as store:
        shape = SeenShape(upstream="db", name="t", major=1, schema={}, state="{}", answers=1, seen_at=0.0)
        for number in range(9):
            store.shapes.put(msgspec.structs.replace(shape, name=f"t{number}", seen_at=float(number)))
        store.shapes.put(msgspec.structs.replace(shape, name="big", state="x" * 140_000, seen_at=99.0))
        await store.flush()

        assert [each.name for each in await store.shapes.newest(100)] == ["t8", "t7", "t6", "t5", "t4"]


async def test_store_that_fails_costs_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The change is not released, and noted answers go on."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = await listed(store)
        observed = DriftWatch(catalog, store)
        await answer(observed, catalog, *[OLD] * 12, *[NEW] * 9)
    await answer(observed, catalog, NEW)

    assert current(catalog).version == "1.0.0"
    assert "could not be looked at" in caplog.text
    await asyncio.wait_for(observed.settled(), 5)
