"""Runs as the journal tells of them, and a catalog to see them with, for tests of what is learned from failures."""

from typing import Any

import msgspec

from sealyard.catalog import Snapshot
from sealyard.learning.causes import Cause, prepare_cause
from sealyard.learning.failures import Failures, Fix
from sealyard.learning.part import Lesson, Viewer
from sealyard.learning.prints import code_print
from sealyard.values.facts import CallEvidence, Executed, RunEvidence
from sealyard.values.tools import ToolAnnotations, ToolSpec

__all__ = ("DAY", "HALF_LIFE", "IMPORT", "World", "make_call", "make_run", "make_spec", "make_view")

DAY = 86_400.0
HALF_LIFE = 30 * DAY
IMPORT = "from servers.bank import list_bookings, pay\n"


def make_spec(name: str = "list_bookings", upstream: str = "bank", **changes: Any) -> ToolSpec:
    """A tool with two optional parameters; `changes` are further fields."""
    properties = {"since": {"type": "string"}, "limit": {"type": "integer"}}
    spec = ToolSpec(
        upstream=upstream,
        name=name,
        full_name=f"mcp__{upstream}__{name}",
        module=upstream,
        function=name,
        input_schema={"type": "object", "properties": properties},
        digest="0",
        annotations=ToolAnnotations(read_only=True),
    )
    return msgspec.structs.replace(spec, **changes)


def make_view(*specs: ToolSpec) -> Snapshot:
    """A catalog of these, or of a bank with two tools."""
    found: dict[str, list[ToolSpec]] = {}
    for spec in specs or (make_spec(), make_spec("pay")):
        found.setdefault(spec.upstream, []).append(spec)
    return Snapshot(found)


def make_call(tool: str = "mcp__bank__list_bookings", error: str | None = None, **fields: Any) -> CallEvidence:
    """A call that answered with nothing, or failed."""
    values: dict[str, Any] = {"number": 1, "version": "1.0.0", "arguments": {}, "started_at": 0.0, "seconds": 0.1}
    return CallEvidence(tool=tool, error=error, has_answer=error is None, **{**values, **fields})


def make_run(
    code: str,
    error: tuple[str, str] | None = None,
    *,
    at: float = 0.0,
    principal: str = "ann",
    session: str = "v1",
    line: int | None = None,
    kind: str = "exception",
    calls: tuple[CallEvidence, ...] = (),
    execution_id: str = "",
) -> RunEvidence:
    """A run that went well, or failed with an exception of this type and message on this line, by default the last."""
    last = len(code.splitlines())
    return RunEvidence(
        fact=Executed(
            at=at,
            principal=principal,
            session=session,
            execution_id=execution_id or f"x{at:g}",
            form="code" if code else "call",
            status="ok" if error is None else "failed",
            failure="" if error is None else kind,
            seconds=1.0,
            use_case="compute",
        ),
        code=code,
        started_at=at,
        failure_type=error[0] if error else "",
        failure_message=error[1] if error else "",
        failure_line=None if error is None else line or last,
        calls=calls,
    )


class World:
    """What was learned, and who asks."""

    def __init__(self) -> None:
        self.failures = Failures()

    def learn(self, *runs: RunEvidence) -> None:
        """Take in runs in their order."""
        for run in runs:
            self.hear(Lesson(number=0, event=run, code=code_print(run.code), cause=cause_of(run)))

    def hear(self, lesson: Lesson) -> None:
        """Take in one lesson."""
        self.failures.learn(lesson, HALF_LIFE)

    def teach(
        self, fails: str, error: tuple[str, str], works: str, *, principal: str, at: float = 0.0, **fields: Any
    ) -> None:
        """A run that failed and its repair a minute later."""
        calls = fields.pop("calls", ()), fields.pop("calls_then", ())
        names = {"principal": principal, "session": f"of {principal}", **fields}
        self.learn(
            make_run(fails, error, at=at, calls=calls[0], **names), make_run(works, at=at + 60, calls=calls[1], **names)
        )

    def ask(
        self, run: RunEvidence, view: Snapshot | None = None, *, principal: str = "bob", **fields: Any
    ) -> Fix | None:
        """What somebody is told whose run has failed."""
        cause = cause_of(run)
        assert cause is not None
        viewer = Viewer(principal, fields.pop("now", 1_000.0), HALF_LIFE)
        return self.failures.fix_for(cause, viewer, view=view or make_view(), **fields)


def cause_of(run: RunEvidence) -> Cause | None:
    """The cause of a run's failure."""
    return prepare_cause(run)
