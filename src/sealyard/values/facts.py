"""Facts: recorded events, from which metrics and learning are computed.

The order of addition does not change a total, so lost totals can be counted again. Metric labels come from closed sets;
names of tools, words and ids serve lookups, never labels.
"""

from typing import Any, Literal

import msgspec

UseCase = Literal["discovery", "filtering", "workflow", "polling", "skill_reuse", "analysis", "compute", "direct"]
"""The purpose of a run, inferred from what it did.

`skill_reuse`: it imported a saved skill. `polling`: it made the same call three times or more. `workflow`: it called
two tools or more. `filtering`: it called one tool. `compute`: none. `analysis`: without code. `direct`: one call
without code. `discovery`: a search."""


Risk = Literal["low", "medium", "high", "critical"]
"""How likely a piece of code is to fail."""

RiskReason = Literal["review", "tools", "arguments", "same_failures", "cost", "new_tool"]
"""The cause of a risk: review findings, tools that often fail, arguments that do not fit, failures of similar or of the
same code, a predicted need above the limits, a tool that was never called."""

HintKind = Literal["fix", "chain", "shape", "skill", "save_skill", "risk"]
"""The subject of a hint: a fix, a tool that follows, arguments a tool needs, an output shape, a matching skill, code
worth saving, code that is likely to fail."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """The fields of every fact."""

    at: float
    """Seconds since the epoch."""
    principal: str = "local"
    session: str = ""
    """The id of the visit: the activity of one principal in one gateway, until half an hour passes without any."""
    execution_id: str = ""


class Saw(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="session"):
    """A visit started, or ran its first code."""

    event: Literal["begin", "code"]


class Searched(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="search"):
    """A search for tools."""

    search_id: str
    place: Literal["agent", "code"]
    """`agent`: over MCP or HTTP. `code`: from inside the sandbox."""
    detail_level: str
    seconds: float
    query: str = ""
    """Concealed."""
    found: tuple[str, ...] = ()
    """Full names, the best first."""
    is_continued: bool = False
    """True if the previous search in the same visit led to no call."""
    is_cached: bool = True
    """True if the index was ready."""
    text_ranks: tuple[int, ...] = ()
    """The rank of each found tool by text alone, 1 for the best and 0 for none. Empty if learning did not change the
    order."""
    domain: str = ""
    """The configured domain of the principal, or empty."""


class Used(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="hit"):
    """The first call of a tool that a search found, which makes that search a hit. Recorded once per search."""

    search_id: str
    tool: str
    rank: int
    """1 for the best."""
    seconds: float
    """Time since the search."""


class Assessed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The predicted risk of a run, and the limits it got."""

    risk: Risk
    chance: float
    """The predicted probability of failure."""
    reasons: tuple[RiskReason, ...] = ()
    decision: Literal["ran", "refused", "asked"] = "ran"
    """`asked`: a person decided; the answer is among the approvals."""
    wall_seconds: float
    """The limit of the run."""
    memory_mib: int
    usual_seconds: float
    """The limit without learning."""
    usual_mib: int


class Executed(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="execution"):
    """An execution ended."""

    form: Literal["code", "analysis", "call", "proxy"]
    status: str
    """A `RecordStatus`."""
    failure: str = ""
    """A `FailureKind`."""
    error_type: str = ""
    """The name of the exception if Python or sealyard has it, else `other`."""
    level: str = ""
    tier: str = ""
    seconds: float
    """From acceptance to end, without the time that people took to answer approvals."""
    queued_seconds: float | None = None
    """Time in the queue. None for a single or relayed call, and for older facts."""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    calls: int = 0
    tools: tuple[str, ...] = ()
    """Full names of called tools, sorted; at most twenty."""
    bytes_in: int = 0
    """Bytes of tool responses."""
    bytes_out: int = 0
    """Bytes sent to the agent."""
    code_characters: int = 0
    use_case: UseCase
    skills: int = 0
    """The number of imported saved skills."""
    is_background: bool = False
    domain: str = ""
    """The configured domain of the principal, or empty."""
    assessed: Assessed | None = None
    """None without an assessment: it is not code, the review refused it, or learning is off."""


class Hinted(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="hint"):
    """A hint from experience was given. What the agent does next shows whether it was right."""

    hint: HintKind
    subject: str
    """The tool or skill concerned; for a risk, its level."""
    mark: str = ""
    """A digest of the hint, which distinguishes hints of one kind and subject."""


class Tokens(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="tokens"):
    """The tokens of an exchange, and those it would have taken with every tool and response in the context.

    Counted, never estimated. `uncounted_bytes` came from tools and are missing in `data`.
    """

    use_case: UseCase
    tokenizer: str
    definitions: int = 0
    """Baseline: the definitions of all granted tools, once per visit."""
    data: int = 0
    """Baseline: tool responses."""
    surface: int = 0
    """Actual: sealyard's own definitions and instructions, once per visit."""
    searches: int = 0
    """Actual: search results."""
    code: int = 0
    """Actual: text that the agent wrote."""
    results: int = 0
    """Actual: results of runs."""
    uncounted_bytes: int = 0


class Hidden(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="privacy"):
    """Private values were replaced by tokens."""

    values: dict[str, int] = {}
    """Counts by type; configured types count as `custom`."""
    failures: int = 0
    """The number of values that could not be scanned and were withheld."""


class SecurityEvent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="security"):
    """A refusal, an approval, an answer or a reveal."""

    event: Literal["review_refused", "policy_denied", "asked", "approved", "refused", "expired", "revealed", "limited"]
    seconds: float | None = None
    """The time that a person took to answer."""


class SkillEvent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="skill"):
    """A change or use of a skill."""

    event: Literal["saved", "draft", "rejected", "reused", "failed", "migrated", "migration_refused"]


class Published(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="sdk"):
    """The stubs of a catalog were generated."""

    seconds: float
    tools: int


class UpstreamEvent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="upstream"):
    """A state change of an upstream."""

    upstream: str
    """Its name in the configuration."""
    event: Literal["started", "restarted", "failed", "stopped", "circuit_opened", "circuit_closed"]


# The journal as learning reads it. Everything in it is already concealed.


class CallEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a run."""

    number: int
    tool: str
    """The full name."""
    version: str
    """The version of the tool at that time."""
    arguments: Any = None
    """The stored arguments; `None` if they were too large."""
    answer: Any = None
    has_answer: bool = False
    """True if `answer` is the tool's response; false if the call failed or the response was too large to store."""
    sample: Any = None
    """A sample of a response that was too large: its structure and a few rows, without long texts."""
    error: str | None = None
    """`Type: message`. The message may come from an upstream, so it must never be shown."""
    started_at: float
    seconds: float
    answer_bytes: int = 0


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run."""

    fact: Executed
    code: str = ""
    """Empty if it was a single call."""
    context_digest: str = ""
    """The digest of the context; equal contexts have equal digests."""
    session: str = ""
    """The session, which names its workspace."""
    started_at: float
    failure_type: str = ""
    """The name of the exception or limit that the agent received. It can be any text, because code can define it."""
    failure_message: str = ""
    """Any text."""
    failure_line: int | None = None
    calls: tuple[CallEvidence, ...] = ()
    """The first hundred, in order."""
    skills: tuple[str, ...] = ()
    """The used skills, as `namespace/name`."""


LearningEvent = Searched | Used | Hinted | RunEvidence
"""One event to learn from, in journal order."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """A request to ignore everything about a tool or a principal up to a fact."""

    what: Literal["tool", "principal", "all"]
    subject: str
    """A full name, a principal, or empty."""
    number: int
    """The last fact that it covers."""
    at: float


AnyFact = (
    Saw | Searched | Used | Executed | Hinted | Tokens | Hidden | SecurityEvent | SkillEvent | Published | UpstreamEvent
)
"""Any fact, as decoded from the journal."""
