"""Runs of code: limits, outcome and result, the records of executions and calls, and live events."""

from typing import Any, Literal

import msgspec

Status = Literal["ok", "failed", "timeout", "limit", "broken"]
"""`failed`: the code raised. `limit`: a resource ran out. `broken`: the worker died or broke the protocol."""

FailureKind = Literal[
    "exception",
    "refused",
    "syntax",
    "import",
    "result",
    "exit",
    "crash",
    "protocol",
    "wall_time",
    "cpu_time",
    "memory",
    "output",
    "processes",
    "open_files",
    "workspace",
    "calls",
]


LIKELY_TO_FAIL = "LikelyToFail"
"""The type of the failure of code that was not run because it is almost certain to fail."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for one run; `None` keeps the policy's value. Each is checked against the range of the policy."""

    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    memory_mib: int | None = None
    cores: int | None = None
    processes: int | None = None
    threads: int | None = None
    open_files: int | None = None
    output_bytes: int | None = None
    result_bytes: int | None = None
    inline_bytes: int | None = None
    call_bytes: int | None = None
    tool_calls: int | None = None
    concurrent_calls: int | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a run, in the words an agent needs to fix its code."""

    kind: FailureKind
    type: str
    """The exception's class name, or the name of the limit: `WallTimeExceeded`, `MemoryExceeded`, …"""
    message: str
    line: int | None = None
    """1-based line of the innermost frame in the agent's code."""
    source_line: str | None = None
    traceback: str = ""
    """The agent's own frames only, outermost first."""
    hint: str | None = None


class Spill(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is too large to send: its place, its size and its shape."""

    path: str
    """Path inside the sandbox, valid for the next run of the same session."""
    bytes: int
    shape: str
    """For example `list of 20000 objects with keys id, amount`."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a run used."""

    wall_seconds: float
    cpu_seconds: float | None = None
    memory_peak_bytes: int | None = None
    output_bytes: int = 0
    tool_calls: int = 0


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A response to a call of sandboxed code with files: content by path in the workspace."""

    value: Any
    files: dict[str, bytes]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox's report of one run. `result` is JSON data, or a preview of it if `spill` is set."""

    execution_id: str
    status: Status
    result: Any = None
    output: str = ""
    """Standard output and standard error, in the order of writing."""
    failure: Failure | None = None
    spill: Spill | None = None
    notes: tuple[str, ...] = ()
    """Losses in the result, such as `NaN became null`."""
    usage: Usage
    tier: str
    level: str
    session: str | None = None

    @property
    def ok(self) -> bool:
        """True if the code ran to its end."""
        return self.status == "ok"


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call from inside an execution, as stored in the journal."""

    execution_id: str
    number: int
    """1 for the execution's first call."""
    tool: str
    digest: str
    """The digest of the definition at that time."""
    version: str = "1.0.0"
    """The version of the tool at that time."""
    upstream: str = ""
    """Its name in the configuration."""
    arguments: Any
    answer: Any = None
    error: str | None = None
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    answer_bytes: int = 0
    answer_sample: str | None = None
    """JSON sample of a response that is too large to store: its structure and a few rows."""


RecordStatus = Literal["running", "ok", "failed", "timeout", "limit", "broken", "cancelled", "lost"]
"""`lost`: the gateway ended while it ran."""


Form = Literal["code", "analysis", "call", "rehearsal", "proxy"]
"""The request behind an execution: code, an analysis of rows, one call, a trial of a skill, or a relayed call."""


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, as stored in the journal. `status` is `running` until it ends."""

    execution_id: str
    principal: str
    session: str
    code: str
    context: Any = None
    started_at: float
    ended_at: float | None = None
    status: RecordStatus = "running"
    outcome: Outcome | None = None
    catalog_version: str = ""
    background: bool = False
    form: Form | Literal[""] = ""
    """Empty if an older version wrote it."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the agent for one execution, bounded in tokens."""

    text: str
    is_error: bool
    outcome: Outcome


LiveKind = Literal["started", "queued", "begun", "output", "call", "called", "asked", "answered", "ended", "lagged"]
"""`begun`: its turn has come. `lagged`: events before this one are missing."""


class LiveEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a gateway for those who watch it. Its body is concealed."""

    number: int
    """Grows by one with every event of this gateway."""
    at: float
    kind: LiveKind
    execution_id: str = ""
    principal: str = ""
    body: dict[str, Any] = {}
