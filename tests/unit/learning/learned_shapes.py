"""Runs whose answers are to be learned from, for the tests of learned shapes."""

from collections.abc import Sequence
from typing import Any

from sealyard.catalog import LearnedShape
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.shapes import Shapes, prepare_answers
from sealyard.values.facts import CallEvidence, Executed, RunEvidence
from sealyard.values.tools import ToolSpec

TOOL = "mcp__db__list"
HALF_LIFE = 30 * 86_400.0


def spec(**fields: Any) -> ToolSpec:
    """The tool whose answers are learned."""
    names = {"upstream": "db", "name": "list", "full_name": TOOL, "module": "db", "function": "list_rows"}
    return ToolSpec(**{**names, "input_schema": {"type": "object", "properties": {}}, "digest": "d1", **fields})


def run(
    answers: Sequence[Any], principal: str = "ann", *, at: float = 1.0, tool: str = TOOL, version: str = "1.0.0"
) -> RunEvidence:
    """A run that got these answers."""
    calls = tuple(
        CallEvidence(number=n, tool=tool, version=version, answer=each, has_answer=True, started_at=at, seconds=0.1)
        for n, each in enumerate(answers, 1)
    )
    fact = Executed(at=at, principal=principal, form="code", status="ok", seconds=1.0, use_case="filtering")
    return RunEvidence(fact=fact, started_at=at, calls=calls)


def learn(shapes: Shapes, answers: Sequence[Any], *principals: str, **fields: Any) -> Shapes:
    """Let each principal get all answers, each in a run of its own."""
    for answer in answers:
        for principal in principals or ("ann", "bob"):
            evidence = run([answer], principal, **fields)
            shapes.learn(Lesson(number=0, event=evidence, answers=prepare_answers(evidence)), HALF_LIFE)
    return shapes


def shape_of(shapes: Shapes, *, now: float = 1.0, tool: ToolSpec | None = None, **fields: Any) -> LearnedShape | None:
    """What is told of the tool."""
    viewer = Viewer(fields.pop("viewer", ""), now, HALF_LIFE)
    return shapes.shape_for(tool or spec(), viewer, **fields)


def schema_of(shapes: Shapes, **fields: Any) -> dict[str, Any]:
    """The schema alone; empty if there is none."""
    found = shape_of(shapes, **fields)
    return {} if found is None else found.schema
