"""Frozen values that cross package borders.

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
    """Conversions of the result, such as `NaN became null`."""
    usage: Usage
    tier: str
    level: str
    session: str | None = None

    @property
    def ok(self) -> bool:
        """True if the code ran to its end."""
        return self.status == "ok"


# Tools


class ToolAnnotations(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream's claims about the effects of a tool. Untrusted; `None` means no claim."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as its upstream defines it, before the catalog names it."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations = ToolAnnotations()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of one upstream, with its names in the catalog."""

    upstream: str
    """The upstream's name in the configuration."""
    name: str
    """The upstream's own name for it."""
    full_name: str
    """`mcp__<upstream>__<tool>`: unique, valid as an MCP name, at most 128 characters."""
    module: str
    """Its function is in `servers.<module>`."""
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
    """The catalog's version, from the history of the definition; not the upstream's."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one execution. A tool outside the grant does not exist for it."""

    execution_id: str
    principal: str
    """The name of an authenticated client, or `local`."""
    session: str
    tools: Mapping[str, ToolSpec]
    """By full name. Shared with the catalog's snapshot, so a grant costs the same for any number of tools."""


class PrincipalScope(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one client, in addition to the policy."""

    name: str
    upstreams: tuple[str, ...] | None = None
    """Patterns over upstream names. `None`: all."""
    level: str | None = None
    """A stricter isolation level than the gateway's."""
    reveal: bool = False
    """It may turn tokens into values over HTTP."""
    approve: bool = False
    """It may answer approvals over HTTP. Never give this to an agent's client."""
    observe: bool = False
    """It may see the activity of all principals: their runs, metrics, alerts and the audit log."""
    domain: str | None = None
    """The field it works in, such as `data` or `code`."""
    weight: float = 1.0
    """Its share of run slots relative to others."""


# Approval

Answered = Literal["once", "run", "session", "always", "refuse"]
"""`run` and `session` cover further calls of the same tool. `always` covers these arguments in any session."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for approval."""

    id: str
    execution_id: str
    number: int
    principal: str
    session: str
    tool: str
    arguments: Any
    """Concealed. Long ones are truncated in lists; `Approvals.get` returns them whole."""
    cut: dict[str, int] = {}
    """The JSON length of each truncated argument. `…` counts the arguments left out."""
    arguments_sha256: str
    """Keyed digest of the tool's real arguments. It identifies them for `always` without revealing them."""
    rule: str
    """The rule that asks, as `policy explain` names it."""
    reason: str
    """The reason given by the rule."""
    asked_at: float
    expires_at: float
    """Seconds since the epoch."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an ask."""

    decision: Answered
    by: str
    """The person's name as the channel knows it; `nobody` if it expired or nobody could be asked."""
    channel: str
    """`elicitation`, `cli`, `http`, `remembered`, `expired` or `fallback`."""
    reason: str = ""
    answered_at: float


# Upstreams

Transport = Literal["stdio", "http", "sse"]


class OAuthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The OAuth settings of an upstream. Without a secret, a person consents in the browser."""

    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """The only authorization server that receives the secret. Without it the upstream chooses the server."""
    scopes: tuple[str, ...] = ()
    redirect_port: int = 8329


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The connection settings of one MCP server. References such as `${TOKEN}` are already expanded."""

    name: str
    transport: Transport
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Environment of a stdio child, in addition to the few variables that any program needs."""
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    bearer_token: str | None = None
    oauth: OAuthConfig | None = None
    tools: tuple[str, ...] | None = None
    """Only these, by the upstream's own names; `*` is a wildcard. `None`: all."""
    without_tools: tuple[str, ...] = ()
    start_seconds: float = 30.0
    call_seconds: float = 60.0
    idle_seconds: float | None = 600.0
    """Idle time after which it is stopped. `None`: never."""
    concurrent_calls: int = 16
    answer_bytes: int = 64 << 20
    """A larger message from the upstream ends the call, not the gateway."""


UpstreamState = Literal["stopped", "starting", "ready", "backing_off", "failed"]
"""`stopped`: not started yet, or idle. `backing_off`: it failed and restarts after a pause. `failed`: it restarts when
it is next needed."""


class UpstreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one upstream."""

    name: str
    transport: str
    """`stdio`, `http`, `sse` or `memory`."""
    state: UpstreamState
    tools: int = 0
    protocol_version: str | None = None
    server: str | None = None
    """The name and version that the upstream reports."""
    restarts: int = 0
    calls: int = 0
    failures: int = 0
    error: str | None = None
    """The last error, in one sentence."""
    warnings: tuple[str, ...] = ()
    """For example dropped tools and changed definitions."""
    stderr: str = ""
    """The end of the child's standard error."""
    idle_patterns: tuple[str, ...] = ()
    """Patterns of `without_tools` that exclude no tool listed since the start."""


# Discovery

DetailLevel = Literal["name_only", "with_description", "full"]


class Hit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool in a search result. `name_only` has no description, `with_description` no signature."""

    name: str
    """The full name, for `call_tool`."""
    use: str
    """The import that makes it callable: `from servers.github import create_issue`."""
    description: str | None = None
    signature: str | None = None
    parameters: dict[str, str] | None = None
    """The meaning of each parameter, by its Python name."""
    returns: str | None = None
    """The declared or learned shape of its response."""
    hints: tuple[str, ...] = ()
    """From experience: tools used with it, arguments it needs, differences between its responses and its schema."""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search."""

    hits: tuple[Hit, ...]
    unmatched: tuple[str, ...] = ()
    """Words of the query that occur in no tool."""
    total: int = 0
    """The number of searchable tools."""
    skills: tuple[str, ...] = ()
    """Matching saved skills, each with its import and its purpose."""
    text_ranks: tuple[int, ...] = ()
    """See `Searched.text_ranks`."""


# Records


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


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event for the audit log. Everything in it is already concealed."""

    kind: str
    """A closed set: `execution.start`, `call`, `decision`, `approval.answer`, `privacy.reveal` and others."""
    principal: str
    session: str = ""
    execution_id: str = ""
    body: dict[str, Any] = {}
    """JSON data; a value that is too long is stored as its digest and size."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the agent for one execution, bounded in tokens."""

    text: str
    is_error: bool
    outcome: Outcome
