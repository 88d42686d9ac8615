"""Frozen values that cross borders between packages.

They are plain data: `msgspec.json.encode` and `msgspec.to_builtins` work on all of them.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from sealyard.values.facts import (
    Assessed,
    Executed,
    Fact,
    Hidden,
    Hinted,
    HintKind,
    Published,
    Risk,
    RiskReason,
    Saw,
    Searched,
    SecurityEvent,
    SkillEvent,
    Tokens,
    UpstreamEvent,
    UseCase,
    Used,
)
from sealyard.values.learning import CallEvidence, Forgotten, LearningEvent, RunEvidence
from sealyard.values.skills import (
    SHARED,
    Skill,
    SkillExample,
    SkillForm,
    SkillNeed,
    SkillStatus,
    SkillUse,
    ToolNeed,
    Trace,
    TraceCall,
)

__all__ = (
    "SHARED",
    "Answered",
    "Approval",
    "Ask",
    "Assessed",
    "AuditEntry",
    "CallEvidence",
    "CallRecord",
    "Definition",
    "DetailLevel",
    "Executed",
    "ExecutionRecord",
    "Fact",
    "Failure",
    "FailureKind",
    "Forgotten",
    "Grant",
    "Hidden",
    "HintKind",
    "Hinted",
    "Hit",
    "LearningEvent",
    "Limits",
    "OAuthConfig",
    "Outcome",
    "PrincipalScope",
    "Published",
    "RecordStatus",
    "Reply",
    "Result",
    "Risk",
    "RiskReason",
    "RunEvidence",
    "Saw",
    "SearchAnswer",
    "Searched",
    "SecurityEvent",
    "Skill",
    "SkillEvent",
    "SkillExample",
    "SkillForm",
    "SkillNeed",
    "SkillStatus",
    "SkillUse",
    "Spill",
    "Status",
    "Tokens",
    "ToolAnnotations",
    "ToolNeed",
    "ToolSpec",
    "Trace",
    "TraceCall",
    "Transport",
    "UpstreamConfig",
    "UpstreamEvent",
    "UpstreamState",
    "UpstreamStatus",
    "Usage",
    "UseCase",
    "Used",
)

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


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a call of sandboxed code that brings files along: content by path in the workspace."""

    value: Any
    files: dict[str, bytes]


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


# Tools


class ToolAnnotations(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream says about a tool's effects. Untrusted; `None` means that it did not say."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as its upstream defines it, before it has a name here."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations = ToolAnnotations()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of one upstream, with the names it has here."""

    upstream: str
    """The upstream's name in the config."""
    name: str
    """What the upstream calls it."""
    full_name: str
    """`mcp__<upstream>__<tool>`: unique, valid as an MCP name, at most 128 characters."""
    module: str
    """`servers.<module>` holds its function."""
    function: str
    """A Python identifier, unique in the module."""
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations = ToolAnnotations()
    digest: str
    """SHA-256 of the definition as the upstream gave it, in canonical JSON."""
    version: str = "1.0.0"
    """What the history of its definition makes it: the catalog's, not the upstream's."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution may do. A tool that is not in it does not exist for that execution."""

    execution_id: str
    principal: str
    """Who asked: an authenticated client's name, or `local`."""
    session: str
    tools: Mapping[str, ToolSpec]
    """By full name. Shared with the catalog's snapshot, so that making a grant does not cost by the number of tools."""


class PrincipalScope(msgspec.Struct, frozen=True, kw_only=True):
    """What one client may do, beside what the policy says."""

    name: str
    upstreams: tuple[str, ...] | None = None
    """Patterns over names of upstreams. `None`: all."""
    level: str | None = None
    """A stricter isolation level than the gateway's."""
    reveal: bool = False
    """Whether it may turn tokens back into values over HTTP."""
    approve: bool = False
    """Whether it may answer asks over HTTP. Never give this to the client of an agent."""
    observe: bool = False
    """Whether it may see what all principals do: their runs, metrics, alerts and the audit log."""
    domain: str | None = None
    """What it works on, such as `data` or `code`. `None`: told from the tools that it uses."""
    weight: float = 1.0
    """By which it shares the turns to run with others."""


# Approval

Answered = Literal["once", "run", "session", "always", "refuse"]
"""`run` and `session`: further calls of the same tool too. `always`: these arguments, whoever's session it is."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person."""

    id: str
    execution_id: str
    number: int
    principal: str
    session: str
    tool: str
    arguments: Any
    """Concealed. Long ones are cut in lists of asks; `Approvals.get` has them whole."""
    cut: dict[str, int] = {}
    """The arguments that are cut here: how many characters the JSON of each has. `…` stands for those left out."""
    arguments_sha256: str
    """Keyed digest of what the tool would get: `always` means the same arguments, and nobody can guess them from it."""
    rule: str
    """Which rule asks, as `policy explain` names it."""
    reason: str
    """Why it asks, in the words of the rule."""
    asked_at: float
    expires_at: float
    """Seconds since the epoch."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an ask."""

    decision: Answered
    by: str
    """A person's or an operator's name as the channel knows it; `nobody` when it expired or nobody could be asked."""
    channel: str
    """`elicitation`, `cli`, `http`, `remembered`, `expired` or `fallback`."""
    reason: str = ""
    answered_at: float


# Upstreams

Transport = Literal["stdio", "http", "sse"]


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to get a token for an upstream that asks for OAuth. Without a secret, a person consents in the browser."""

    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """The authorization server that may be given the secret. Without it the upstream decides who gets it."""
    scopes: tuple[str, ...] = ()
    redirect_port: int = 8329


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach one MCP server. References such as `${TOKEN}` are expanded already."""

    name: str
    transport: Transport
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """All that a stdio child gets, beside the few variables without which no program starts."""
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    bearer_token: str | None = None
    oauth: OAuthConfig | None = None
    tools: tuple[str, ...] | None = None
    """Only these, by the upstream's names; patterns with `*` are allowed. `None`: all."""
    without_tools: tuple[str, ...] = ()
    start_seconds: float = 30.0
    call_seconds: float = 60.0
    idle_seconds: float | None = 600.0
    """Stop after so long without a call. `None`: never."""
    concurrent_calls: int = 16
    answer_bytes: int = 64 << 20
    """A larger message from the upstream ends the call, not the gateway."""


UpstreamState = Literal["stopped", "starting", "ready", "backing_off", "failed"]
"""`stopped`: not started yet, or idle. `backing_off`: it failed and is started again later. `failed`: not tried again
until somebody asks for it."""


class UpstreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How one upstream is."""

    name: str
    transport: str
    """`stdio`, `http`, `sse` or `memory`."""
    state: UpstreamState
    tools: int = 0
    protocol_version: str | None = None
    server: str | None = None
    """Name and version the upstream gives itself."""
    restarts: int = 0
    calls: int = 0
    failures: int = 0
    error: str | None = None
    """What went wrong last, in one sentence."""
    warnings: tuple[str, ...] = ()
    """Such as tools that were dropped from its list, and definitions that changed."""
    stderr: str = ""
    """The end of what the child wrote to standard error."""
    idle_patterns: tuple[str, ...] = ()
    """Those of `without_tools` that keep none of its tools out, as far as it has listed them since the start."""


# Discovery

DetailLevel = Literal["name_only", "with_description", "full"]


class Hit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One found tool. `name_only` has no description, `with_description` no signature."""

    name: str
    """The full name, for `call_tool`."""
    use: str
    """The import that makes it callable: `from servers.github import create_issue`."""
    description: str | None = None
    signature: str | None = None
    parameters: dict[str, str] | None = None
    """What each parameter means, by its Python name."""
    returns: str | None = None
    """The shape of its answer, declared or learned."""
    hints: tuple[str, ...] = ()
    """From experience: what it is often used with, what it usually needs, how its answers differ from what it says."""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found."""

    hits: tuple[Hit, ...]
    unmatched: tuple[str, ...] = ()
    """Words of the query that are in no tool at all."""
    total: int = 0
    """How many tools there are to be searched."""
    skills: tuple[str, ...] = ()
    """Saved skills that may do the job, each as the import that makes it callable and what it is for."""
    text_ranks: tuple[int, ...] = ()
    """As in `Searched`."""


# Records


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call from inside an execution, as the journal keeps it."""

    execution_id: str
    number: int
    """1 for the execution's first call."""
    tool: str
    digest: str
    """The definition it was made against."""
    version: str = "1.0.0"
    """The tool's, at that time."""
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
    """Of an answer that is too large to be kept: what it is made of, with a few of its rows, as JSON."""


RecordStatus = Literal["running", "ok", "failed", "timeout", "limit", "broken", "cancelled", "lost"]
"""`lost`: the gateway ended while it ran."""


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, as the journal keeps it. `status` is `running` until it is over."""

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


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, as the audit log takes it. Everything in it is concealed already."""

    kind: str
    """Such as `execution.start`, `call`, `decision`, `approval.answer`, `privacy.reveal`: a closed set."""
    principal: str
    session: str = ""
    execution_id: str = ""
    body: dict[str, Any] = {}
    """JSON data; what is too long is kept as its digest and its size."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent gets of one execution: bounded in tokens, whole in the workspace."""

    text: str
    is_error: bool
    outcome: Outcome
