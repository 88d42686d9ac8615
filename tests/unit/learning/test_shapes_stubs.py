"""Learned shapes where agents read them: in stubs and in search, published when they are steady and not before."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.learning.learned_shapes import HALF_LIFE, TOOL, learn, schema_of, shape_of, spec

from sealyard.catalog import Catalog, LearnedShape, Snapshot
from sealyard.catalog.stubs import Stub, stub_files
from sealyard.learning.part import Viewer
from sealyard.learning.shapes import Shapes, SteadyShapes
from sealyard.store import open_store
from sealyard.values.tools import Definition

ROW = {"id": 1, "status": "open", "count": 3}
DEFINITION = Definition(name="list", description="Lists rows.", input_schema={"type": "object", "properties": {}})


def _shape(schema: dict[str, Any], *, major: int = 1, answers: int = 9) -> LearnedShape:
    return LearnedShape(schema=schema, major=major, answers=answers, principals=2, last_at=1.0)


def _learned() -> Shapes:
    answers = [{"rows": [{"id": n, "status": ("open", "shut")[n % 2], "count": n}]} for n in range(24)]
    return learn(Shapes(), [*answers, {"rows": [], "more": True}])


async def test_stub_of_a_tool_that_declares_nothing(tmp_path: Path) -> None:
    """The whole file, as an agent reads it: the shape, and that nobody promised it."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [DEFINITION])
        steady = SteadyShapes()
        assert await steady.look(_learned(), catalog.snapshot, Viewer("", 1.0, HALF_LIFE))
        catalog.use_shapes(steady.shapes)

        assert (
            stub_files(catalog.snapshot)["db/list.py"]
            == '''\
"""Lists rows.  (server `db`, tool `list`)"""
from typing import Any, Literal

from sealyard_guest import tool


@tool("mcp__db__list")
def list() -> dict[str, Any]:
    """Lists rows.

    Returns:
        {"rows": [{"id": int, "status": str, "count": int}], "more"?: bool}
        As its answers were so far; the server does not declare it. A key with ? was not always
        there.
    """
    ...
'''
        )


def test_search_shows_the_number_of_answers_too() -> None:
    """In one line, and `1 answer` is one answer."""
    learned = shape_of(_learned())
    assert Stub(spec(), learned).returns == (
        '{"rows": [{"id": int, "status": str, "count": int}], "more"?: bool} (learned from 50 answers)'
    )
    assert Stub(spec(), learned).signature == "list_rows() -> dict[str, Any]"
    assert Stub(spec(), _shape({"type": "string"}, answers=1)).returns == "str (learned from 1 answer)"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (None, '{"a": int} (learned from 9 answers)'),
        ({"type": "object"}, '{"a": int} (learned from 9 answers)'),
        ({"type": "object", "properties": {"b": {"type": "string"}}}, '{"b": str}'),
        ({"type": "array", "items": {"type": "string"}}, "[str]"),
    ],
)
def test_what_is_declared_is_never_overridden(declared: dict[str, Any] | None, expected: str) -> None:
    """Only a declaration that names nothing gives way."""
    learned = _shape({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})

    assert Stub(spec(output_schema=declared), learned).returns == expected
    assert Stub(spec(output_schema=declared), None).returns == Stub(spec(output_schema=declared), _shape({})).returns


async def test_a_learned_shape_changes_the_stubs_and_not_the_tools(tmp_path: Path) -> None:
    """The version of the catalog is the same, so nothing is indexed again; that of its stubs is another."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [DEFINITION])
        before = catalog.snapshot
        after = catalog.use_shapes({TOOL: _shape({"type": "string"})})

        assert before.stubs_version == before.version == after.version
        assert after.stubs_version != after.version
        again = catalog.use_shapes({TOOL: _shape({"type": "string"}, answers=700)})
        assert again.stubs_version == after.stubs_version
        assert catalog.snapshot is again


async def test_shapes_outlive_a_listing_and_go_with_a_new_major_version(tmp_path: Path) -> None:
    """They are shown only beside the version that they were learned of, and in views only of what is in them."""
    async with open_store(tmp_path / "store.db") as store:
        catalog = Catalog(store)
        await catalog.update("db", [DEFINITION])
        catalog.use_shapes({TOOL: _shape({"type": "string"}), "mcp__db__gone": _shape({"type": "string"})})
        await catalog.update("web", [DEFINITION])
        assert list(catalog.snapshot.shapes) == [TOOL]

        view = Snapshot({"web": catalog.snapshot.by_upstream["web"]}, catalog.snapshot.shapes)
        assert view.shapes == {}
        assert view.stubs_version == view.version

        needs_more = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        await catalog.update("db", [Definition(name="list", description="Lists rows.", input_schema=needs_more)])
        assert catalog.snapshot.tools[TOOL].version == "2.0.0"
        assert catalog.snapshot.shapes == {}


async def test_stubs_change_from_five_answers_on_and_at_most_once_a_minute() -> None:
    """A new field is in the stubs a minute after the last change; the same shape changes nothing."""
    snapshot, shapes, steady = Snapshot({"db": [spec()]}), Shapes(), SteadyShapes()

    async def look(now: float) -> bool:
        return await steady.look(shapes, snapshot, Viewer("", now, HALF_LIFE))

    learn(shapes, [{"a": 1}])
    assert not await look(0.0)
    learn(shapes, [{"a": 1}] * 3)
    assert await look(1.0)
    assert steady.shapes[TOOL].schema["required"] == ["a"]
    learn(shapes, [{"a": 1, "b": 1}])
    assert not await look(60.0)
    assert await look(61.0)
    assert list(steady.shapes[TOOL].schema["properties"]) == ["a", "b"]
    learn(shapes, [{"a": 1, "b": 1}] * 9)
    assert not await look(121.0)


async def test_what_is_forgotten_goes_at_the_next_call() -> None:
    """No minute is waited for it: a tool that is no longer known, and what a principal that was forgotten had seen."""
    snapshot, steady = Snapshot({"db": [spec()]}), SteadyShapes()
    shapes = learn(learn(Shapes(), [{"a": 1}] * 9), [{"a": 1, "b": 1}] * 9)
    assert await steady.look(shapes, snapshot, Viewer("", 0.0, HALF_LIFE))
    assert list(steady.shapes[TOOL].schema["properties"]) == ["a", "b"]

    assert await steady.look(learn(Shapes(), [{"a": 1}] * 9), snapshot, Viewer("", 1.0, HALF_LIFE))
    assert list(steady.shapes[TOOL].schema["properties"]) == ["a"]
    assert await steady.look(learn(Shapes(), [{"a": 1}]), snapshot, Viewer("", 2.0, HALF_LIFE))
    assert steady.shapes == {}

    assert await steady.look(learn(Shapes(), [{"a": 1}] * 9), snapshot, Viewer("", 62.0, HALF_LIFE))
    assert await steady.look(Shapes(), snapshot, Viewer("", 63.0, HALF_LIFE))
    assert steady.shapes == {}


async def test_the_more_tools_there_are_the_seldomer_stubs_are_written() -> None:
    """Four thousand tools: every two hundred seconds."""
    many = [spec(full_name=f"mcp__db__t{n}", name=f"t{n}") for n in range(4_000)]
    snapshot, steady = Snapshot({"db": many}), SteadyShapes()
    shapes = learn(Shapes(), [{"a": 1}] * 3, tool="mcp__db__t0")
    assert await steady.look(shapes, snapshot, Viewer("", 0.0, HALF_LIFE))
    learn(shapes, [{"b": 1}], tool="mcp__db__t0")

    assert not await steady.look(shapes, snapshot, Viewer("", 199.0, HALF_LIFE))
    assert await steady.look(shapes, snapshot, Viewer("", 200.0, HALF_LIFE))


async def test_what_is_declared_is_not_learned_for_stubs() -> None:
    """A tool that says what it answers keeps its stub."""
    snapshot = Snapshot({"db": [spec(output_schema={"type": "object", "properties": {"a": {"type": "string"}}})]})
    steady = SteadyShapes()

    assert not await steady.look(_learned(), snapshot, Viewer("", 0.0, HALF_LIFE))
    assert schema_of(_learned(), tool=snapshot.tools[TOOL])["type"] == "object"
