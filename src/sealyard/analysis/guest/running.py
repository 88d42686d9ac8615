"""Carries out a plan: its steps one after the other, in plain Python, and the first ones by DuckDB if that pays."""

import contextlib
from collections.abc import Sequence
from typing import Any

from .answering import bounded_answer
from .duck import Begun, begin
from .errors import AnalysisError
from .fields import Table
from .filtering import distinct, never_compared, sliced, sort, where
from .grouping import group, pivot
from .joining import join
from .plan import (
    Cast,
    Compute,
    Distinct,
    Drop,
    Explode,
    Flatten,
    Group,
    Join,
    Pivot,
    Plan,
    Rename,
    Row,
    Select,
    Slice,
    Sort,
    Source,
    Step,
    ToolAnswer,
    Unpivot,
    Where,
    WorkspaceFile,
)
from .reading import CallTool, find_file, read_rows
from .shaping import cast, compute, drop, explode, flatten, rename, select, unpivot


def run_plan(plan: Plan, call_tool: CallTool, name: str) -> dict[str, Any]:
    """The answer of a plan; DuckDB does the first steps if the source is a large file and it can.

    Raises:
        AnalysisError: The rows cannot be read, or a step cannot be carried out on them.
    """
    begun = _begun(plan.source, plan.steps)
    notes: list[str] = []
    if begun is not None:
        # A mistake is found again, and named rightly, by the engine that has seen all rows.
        with contextlib.suppress(AnalysisError):
            rows = run_steps(begun.steps, begun.rows, call_tool, notes)
            return bounded_answer(
                rows, name=name, rows_in=begun.rows_in, limits=plan.limits, engine="duckdb", notes=notes
            )
    given = read_rows(plan.source, call_tool)
    notes = []
    rows = run_steps(plan.steps, given, call_tool, notes)
    return bounded_answer(rows, name=name, rows_in=len(given), limits=plan.limits, engine="python", notes=notes)


def _begun(source: Source, steps: Sequence[Step]) -> Begun | None:
    """What DuckDB made of the first steps; nothing if a tool is joined, which a second attempt would call again."""
    if not isinstance(source, WorkspaceFile) or source.field is not None:
        return None
    if any(isinstance(step, Join) and isinstance(step.source, ToolAnswer) for step in steps):
        return None
    return begin(str(find_file(source)), source.format, steps)


def run_steps(steps: Sequence[Step], rows: list[Row], call_tool: CallTool, notes: list[str]) -> list[Row]:
    """The rows after all steps; what an agent should know beside them is added to `notes`. The rows given are kept.

    Raises:
        AnalysisError: A step cannot be carried out on these rows.
    """
    table = Table(rows)
    for step in steps:
        before, table = table, _done(step, table, call_tool)
        if isinstance(step, Where) and before.rows and not table.rows:
            notes += never_compared(step.condition, before)
    return table.rows


def _done(step: Step, table: Table, call_tool: CallTool) -> Table:  # one line for each kind of step
    match step:
        case Where():
            return where(step, table)
        case Select():
            return select(step, table)
        case Drop():
            return drop(step, table)
        case Rename():
            return rename(step, table)
        case Cast():
            return cast(step, table)
        case Compute():
            return compute(step, table)
        case Flatten():
            return flatten(step, table)
        case Explode():
            return explode(step, table)
        case Group():
            return group(step, table)
        case Pivot():
            return pivot(step, table)
        case Unpivot():
            return unpivot(step, table)
        case Join():
            return join(step, table, Table(read_rows(step.source, call_tool)))
        case Sort():
            return sort(step, table)
        case Slice():
            return sliced(step, table)
        case Distinct():
            return distinct(step, table)
