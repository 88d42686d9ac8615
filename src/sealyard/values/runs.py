"""Runs of code: limits, outcome and result, the records of executions and calls, and live events."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

MAX_SECONDS = 120
"""The longest that a run may take: an agent waits for it."""

OWN_CALLS = frozenset(("load_skill", "load_stub", "skill_began", "skill_ended"))
"""The guest's own requests and reports: not tools, and not counted as calls of them."""

OnOutput = Callable[[str], None]
"""Gets what the code prints, as it does."""

Tier = Literal["namespace", "landlock"]
"""A set of layers that a machine can offer, the stronger first."""

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


def limit_failure(kind: FailureKind, message: str) -> Failure:
    """A failure under the name of the limit that was exceeded."""
    type_name, hint = _LIMITS[kind]
    return Failure(kind=kind, type=type_name, message=message, hint=hint)


_LIMITS: dict[FailureKind, tuple[str, str]] = {
    "wall_time": ("WallTimeExceeded", "Do less in one run, or ask for a longer timeout (at most 120 s)."),
    "cpu_time": ("CpuTimeExceeded", "Do less in one run: filter earlier, avoid nested loops over all the data."),
    "memory": ("MemoryExceeded", "Work on smaller pieces: filter early, use generators, drop what is not needed."),
    "output": ("OutputExceeded", "Print less: put data into `result` or a file of the workspace."),
    "processes": (
        "ProcessesExceeded",
        "Use fewer threads; code here cannot start processes unless its policy allows them.",
    ),
    "calls": ("CallsExceeded", "Call tools fewer times: ask for more in one call, or split the job."),
    "workspace": ("WorkspaceExceeded", "Delete files that are no longer needed, or write less."),
    "protocol": ("ProtocolBroken", "The code interfered with its own connection. Leave descriptor 3 alone."),
}
"""The name of each limit that the gateway enforces, and the advice."""


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

    @property
    def error(self) -> str | None:
        """The failure in one line."""
        return None if self.failure is None else f"{self.failure.type}: {self.failure.message}"

    @property
    def execution_time_ms(self) -> int:
        """The wall time in milliseconds."""
        return round(self.usage.wall_seconds * 1000)

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON data, and `success`, `error` and `execution_time_ms`."""
        brief = {"success": self.ok, "error": self.error, "execution_time_ms": self.execution_time_ms}
        return msgspec.to_builtins(self) | brief  # type: ignore[no-any-return]


CALL_VALUE_BYTES = 64 << 10
"""Longer arguments and answers are left out: agent code makes thousands of calls and must not fill the disk."""


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


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a surface to a call, as a model reads it."""

    text: str
    is_error: bool = False
    facts: dict[str, Any] | None = None
    """About the execution, for the program around the model."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the agent for one execution, bounded in tokens."""

    text: str
    is_error: bool
    outcome: Outcome

    @property
    def success(self) -> bool:
        """True if the code ran to its end."""
        return self.outcome.ok

    @property
    def result(self) -> Any:
        """The value of the code, or a preview of it."""
        return self.outcome.result

    @property
    def output(self) -> str:
        """Its output."""
        return self.outcome.output

    @property
    def error(self) -> str | None:
        """The failure in one line."""
        return self.outcome.error

    @property
    def execution_time_ms(self) -> int:
        """The wall time in milliseconds."""
        return self.outcome.execution_time_ms


class ExecutionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a background execution."""

    execution_id: str
    state: Literal["queued", "running", "done", "cancelled", "failed"]
    output: str = ""
    """The end of the output so far, while it runs."""
    result: Result | None = None
    error: str | None = None
    """The fault that kept the gateway from running it."""

    @property
    def is_over(self) -> bool:
        """True if it neither runs nor waits for its turn."""
        return self.state not in ("queued", "running")


def is_python(language: str) -> bool:
    """True if a request for this language means Python."""
    return language.strip().lower() in ("python", "python3", "py")


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
