"""Facts: what metrics are made of. Each says one thing that happened, once, and is kept in the journal.

Adding them up in any order gives the same figures, so that whatever was lost can be counted again. What a label of a
metric can be made of is a member of a closed set; names of tools, words and ids are for looking up, never for labels.
"""

from typing import Literal

import msgspec

UseCase = Literal["discovery", "filtering", "workflow", "polling", "skill_reuse", "analysis", "compute", "direct"]
"""What a run was for, told from what it did.

`skill_reuse`: it imported a saved skill. `polling`: it asked one tool the same thing three times or more. `workflow`:
it called two tools or more. `filtering`: it called one tool. `compute`: none. `analysis`: without code. `direct`: one
call without code. `discovery`: a search."""


Risk = Literal["low", "medium", "high", "critical"]
"""How likely a piece of code is to fail."""

RiskReason = Literal["review", "tools", "arguments", "similar_failures", "same_failures", "cost", "new_tool"]
"""Why: what the review found, tools that often fail, arguments that do not fit, code like it or the same code failed
before, what it is predicted to need is more than it may have, it uses a tool that nobody has called yet."""

HintKind = Literal["fix", "chain", "needs", "shape", "skill", "save_skill", "risk"]
"""What an agent is told from experience: the change that helped, what follows a tool, what a tool is usually given,
what it answers, a skill that does the job, code worth saving, code that is likely to fail."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What all of them have."""

    at: float
    """Seconds since the epoch."""
    principal: str = "local"
    session: str = ""
    """A visit: what one principal did in one gateway, until half an hour passed without anything."""
    execution_id: str = ""


class Saw(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="session"):
    """A visit began, or its first code was run."""

    event: Literal["begin", "code"]


class Searched(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="search"):
    """Somebody searched for tools."""

    search_id: str
    place: Literal["agent", "code"]
    """Whether the agent asked, over MCP or HTTP, or code inside the sandbox."""
    detail_level: str
    seconds: float
    query: str = ""
    """Concealed."""
    found: tuple[str, ...] = ()
    """Full names, the best first."""
    is_continued: bool = False
    """Whether the search before it in the same visit led to no call."""
    is_cached: bool = True
    """Whether the index was there already."""
    text_ranks: tuple[int, ...] = ()
    """Where each found tool would have stood by its text alone, 1 for the best and 0 for not at all. Empty if nothing
    that was learned changed the order."""
    domain: str = ""
    """What the principal is said to work on; empty if nobody said it."""


class Used(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="hit"):
    """A tool that a search had found was called for the first time since: that search was a hit. Once for each."""

    search_id: str
    tool: str
    rank: int
    """1 for the best."""
    seconds: float
    """After the search."""


class Assessed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was expected of a run before it began, and the limits it was given."""

    risk: Risk
    chance: float
    """That it fails, as it was predicted."""
    reasons: tuple[RiskReason, ...] = ()
    decision: Literal["ran", "refused", "asked"] = "ran"
    """`asked`: a person was, and what they said is among the approvals."""
    wall_seconds: float
    """The limits it was given."""
    memory_mib: int
    usual_seconds: float
    """The limits it would have been given without what was learned."""
    usual_mib: int


class Executed(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="execution"):
    """An execution is over."""

    form: Literal["code", "analysis", "call"]
    status: str
    """A `RecordStatus`."""
    failure: str = ""
    """A `FailureKind`."""
    error_type: str = ""
    """The name of the exception if Python or sealyard has it, else `other`."""
    level: str = ""
    tier: str = ""
    seconds: float
    """From when it was accepted to when it was over, without the time that people took to allow its calls."""
    queued_seconds: float | None = None
    """How much of that it waited for its turn. None for a single call, which takes none, and for older facts."""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    calls: int = 0
    tools: tuple[str, ...] = ()
    """Full names of those it called, sorted; at most twenty."""
    bytes_in: int = 0
    """What tools answered."""
    bytes_out: int = 0
    """What the agent was sent."""
    code_characters: int = 0
    use_case: UseCase
    skills: int = 0
    """How many saved skills it imported."""
    is_background: bool = False
    domain: str = ""
    """What the principal is said to work on; empty if nobody said it."""
    assessed: Assessed | None = None
    """None if nobody looked: it is no code, the review refused it, or nothing is learned."""


class Hinted(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="hint"):
    """An agent was told something from experience. What it then did says whether that was right."""

    hint: HintKind
    subject: str
    """The tool or skill that it is about; of a risk, which."""
    mark: str = ""
    """Tells hints of one kind and subject apart: a digest of what was said."""


class Tokens(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="tokens"):
    """What something cost the agent in tokens, and what it would have cost with every tool and answer in its context.

    Counted, never estimated. `uncounted_bytes` came from tools and were not counted: they are missing in `data`.
    """

    use_case: UseCase
    tokenizer: str
    definitions: int = 0
    """Baseline: the definitions of all granted tools, once in a visit."""
    data: int = 0
    """Baseline: what tools answered."""
    surface: int = 0
    """Actual: our own definitions and instructions, once in a visit."""
    searches: int = 0
    """Actual: what searches answered."""
    code: int = 0
    """Actual: what the agent wrote."""
    results: int = 0
    """Actual: what runs answered."""
    uncounted_bytes: int = 0


class Hidden(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="privacy"):
    """Private values were replaced by tokens."""

    values: dict[str, int] = {}
    """How many, by their type; a type of the configuration's own is `custom`."""
    failures: int = 0
    """How often something could not be looked through, and was withheld whole."""


class SecurityEvent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="security"):
    """Something was refused, asked for, answered or shown."""

    event: Literal["review_refused", "policy_denied", "asked", "approved", "refused", "expired", "revealed", "limited"]
    seconds: float | None = None
    """How long a person took to answer."""


class SkillEvent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="skill"):
    """Something happened to a skill."""

    event: Literal["saved", "draft", "rejected", "reused", "failed", "migrated", "migration_refused"]


class Published(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="sdk"):
    """The stubs of a catalog were written."""

    seconds: float
    tools: int


class UpstreamEvent(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="upstream"):
    """An upstream changed its state."""

    upstream: str
    """Its name in the configuration."""
    event: Literal["started", "restarted", "failed", "stopped", "circuit_opened", "circuit_closed"]
