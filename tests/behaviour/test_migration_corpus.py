"""Migrations of generated skills, judged by running them: nothing is migrated wrongly, and the judge would see it."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.corpus.cases import Case
from benchmarks.corpus.changes import Mutation, Truth, changed, edited, with_field
from benchmarks.corpus.judge import Attempt, Stage
from benchmarks.migration import measure_migration
from benchmarks.skills import read_specs
from sealyard.values.tools import ToolSpec

_PROPERTIES: dict[str, Any] = {
    "repo_path": {"type": "string", "description": "Where the repository lies on disk."},
    "limit": {"type": "integer", "description": "At most so many of them.", "default": 10},
}
_OUTPUT: dict[str, Any] = {
    "type": "array",
    "items": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
}
_LOG = ToolSpec(
    upstream="git",
    name="log",
    full_name="mcp__git__log",
    module="git",
    function="log",
    input_schema={"type": "object", "properties": _PROPERTIES, "required": ["repo_path"]},
    output_schema=_OUTPUT,
    digest="1" * 64,
)
_PLOT = ToolSpec(
    upstream="charts",
    name="plot",
    full_name="mcp__charts__plot",
    module="charts",
    function="plot",
    description="Draw a chart.",
    input_schema={
        "type": "object",
        "properties": {
            "table_name": {"type": "string", "description": "Which table the values come from."},
            "max_rows": {"type": "integer", "description": "At most so many rows of it."},
            "scale": {"type": "number", "description": "How large it is drawn."},
            "grid": {"type": "boolean", "description": "Whether lines are drawn behind it."},
            "kind": {"type": "string", "enum": ["bar", "line"], "default": "bar"},
        },
        "required": ["table_name"],
    },
    digest="2" * 64,
)
"""A tool to which everything can be done."""
_CODE = """
from servers.git import log, peek_nearby


def find_things(place):
    rows = log(place, limit=3)
    return [[row["title"] for row in rows], peek_nearby(repo_path=place)[0]["title"]]
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage of its own."""
    return Stage(tmp_path)


def _case(mutation: Mutation) -> Case:
    other = changed(_LOG, name="peek_nearby", full_name="mcp__git__peek_nearby", function="peek_nearby")
    return Case(
        mutation=mutation,
        code=_CODE,
        form="function",
        inputs={"place": "here"},
        styles=(),
        other=other,
        is_demanded=True,
    )


def _rename(before: str, after: str) -> Mutation:
    properties = {after if key == before else key: schema for key, schema in _PROPERTIES.items()}
    required = [after if key == before else key for key in ("repo_path",)]
    return Mutation(
        operation="renamed",
        before=_LOG,
        after=edited(_LOG, properties, required),
        truths=(Truth(renamed={before: after}),),
    )


def _outcome(stage: Stage, case: Case, code: str) -> tuple[str, str]:
    recorded = stage.record(case)
    assert recorded.error == ""
    judged = stage.judge(case, recorded, Attempt(code=code))
    return judged.outcome, judged.before_replay


@functools.cache
def _specs() -> list[ToolSpec]:
    """Read once: a server is started for each upstream."""
    return [_PLOT, *(spec for spec in asyncio.run(read_specs(None)) if spec.upstream in ("expenses", "mail"))]


# The judge


def test_right_migration_is_judged_right(stage: Stage) -> None:
    """The call gets the new name, the other tool keeps the old one, and the value is the same."""
    case = _case(_rename("limit", "most"))

    assert _outcome(stage, case, _CODE.replace("limit=", "most=")) == ("migrated_correctly",) * 2


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(_CODE, id="nothing was changed"),
        pytest.param(_CODE.replace(", limit=3", ""), id="the argument was dropped"),
        pytest.param(_CODE.replace("limit=3", "most=4"), id="the value is another"),
        pytest.param(_CODE.replace("limit=3", "most=3").replace("place)[0]", "'there')[0]"), id="another call differs"),
        pytest.param(_CODE.replace("limit=3", "most=3").replace("[0]", "[1]"), id="the value is made otherwise"),
        pytest.param(_CODE.replace("limit=3", "most=3") + "    return )", id="it is no Python"),
        pytest.param(_CODE.replace("rows = log(place", "log(place); rows = log(place"), id="it calls once more"),
    ],
)
def test_wrong_migration_is_judged_wrong(stage: Stage, code: str) -> None:
    """Whatever the new code does otherwise than the old one did is found by running it."""
    assert _outcome(stage, _case(_rename("limit", "most")), code) == ("migrated_wrongly",) * 2


def test_inputs_that_no_example_has_are_tried_too(stage: Stage) -> None:
    """Code that is right for the example and wrong for others is wrong, and no replay finds out."""
    case = msgspec.structs.replace(_case(_rename("limit", "most")), held_out=({"place": "there"},))
    code = _CODE.replace("limit=3", "most=3 if place == 'here' else 4")

    assert _outcome(stage, case, code)[0] == "migrated_wrongly"


def test_renamed_field_is_judged_by_the_new_answer(stage: Stage) -> None:
    """The new tool answers with the new name: code that still reads the old one fails."""
    mutation = Mutation(
        operation="field",
        before=_LOG,
        after=with_field(_LOG, ("[]", "title"), "subject"),
        truths=(Truth(field=("[]", "title"), field_after="subject"),),
    )
    right = _CODE.replace('row["title"]', 'row["subject"]')

    assert _outcome(stage, _case(mutation), right)[0] == "migrated_correctly"
    assert _outcome(stage, _case(mutation), _CODE)[0] == "migrated_wrongly"
    assert _outcome(stage, _case(mutation), _CODE.replace("title", "subject"))[0] == "migrated_wrongly"


# The corpus


def test_migration_that_refuses_all_is_worth_nothing() -> None:
    """No share of the mechanical cases is done, and only what had to be refused was refused rightly."""
    figures = measure_migration(_specs(), cases=80, migrator=lambda *_: Attempt(code=None, reason="I do not want to."))

    assert (figures["migrated_correctly"], figures["migrated_wrongly"], figures["mechanical"]) == (0, 0, 0)
    assert figures["refused_wrongly"] == figures["mechanical_cases"] / 80
    assert figures["refused_rightly"] == 1 - figures["mechanical_cases"] / 80


def test_migration_that_changes_nothing_is_found_wrong() -> None:
    """Most operations break most code; those that need no edit do not."""
    figures = measure_migration(_specs(), cases=80, migrator=lambda case, *_: Attempt(code=case.code))

    assert figures["migrated_wrongly"] > 0.5
    assert figures["by_operation"]["text changed"]["migrated_wrongly"] == 0
    assert figures["by_operation"]["tool renamed, other verb"]["migrated_correctly"] == 0


def test_nothing_is_migrated_wrongly() -> None:
    """On the tools of the examples, with the migration that the product has."""
    figures = measure_migration(_specs(), cases=150)

    assert (figures["cases"], figures["skipped"]) == (150, 0)
    assert figures["migrated_wrongly"] == 0
    assert (figures["translated_wrongly"], figures["compatibility_layer_failed"]) == (0, [])
    # Only code that reaches a tool through a module which the tool has left is refused without need.
    missed = figures["by_operation"]["tool renamed, moved"]["refused_wrongly"]
    assert [each["operation"] for each in figures["failed"]] == ["tool renamed, moved"] * missed
    assert (missed, figures["mechanical"]) == (1, 1 - 1 / figures["mechanical_cases"])
