"""Frozen values that cross borders between packages.

They are plain data: `msgspec.json.encode` and `msgspec.to_builtins` work on all of them.
"""

from typing import Any, Literal

import msgspec

__all__ = ("Failure", "FailureKind", "Limits", "Outcome", "Spill", "Status", "Usage")

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


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for one run; `None` keeps what the policy says. Ranges are checked against the policy's own."""

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
    """Why a run did not end well, in the words an agent needs to fix its code."""

    kind: FailureKind
    type: str
    """The exception's class name, or the name of the limit: `WallTimeExceeded`, `MemoryExceeded`, …"""
    message: str
    line: int | None = None
    """1-based line of the agent's code, the innermost one that is its own."""
    source_line: str | None = None
    traceback: str = ""
    """The agent's own frames only, outermost first."""
    hint: str | None = None


class Spill(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was too big to send: where it is whole, and what it looks like."""

    path: str
    """Path inside the sandbox, valid for the next run of the same session."""
    bytes: int
    shape: str
    """Such as `list of 20000 objects with keys id, amount`."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a run cost."""

    wall_seconds: float
    cpu_seconds: float | None = None
    memory_peak_bytes: int | None = None
    output_bytes: int = 0
    tool_calls: int = 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the sandbox saw of one run. `result` is JSON data; when `spill` is set it is a preview of it."""

    execution_id: str
    status: Status
    result: Any = None
    output: str = ""
    """Standard output and standard error, in the order they were written."""
    failure: Failure | None = None
    spill: Spill | None = None
    notes: tuple[str, ...] = ()
    """What was changed on the way out, such as `NaN became null`."""
    usage: Usage
    tier: str
    level: str
    session: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.status == "ok"
