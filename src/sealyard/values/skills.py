"""Skills, their examples and the recorded calls behind them, their limits, and the records of uses and migrations."""

from typing import Any, Literal

import msgspec

from sealyard.errors import UnknownSkill

SHARED = "shared"
"""The namespace that every principal sees; all others belong to the principal of the same name."""

SkillStatus = Literal["active", "draft", "quarantined"]
"""`draft`: no example has passed, so only its author's code can import it. `quarantined`: it was imported and
nobody has approved it, so no code can import it."""

SkillForm = Literal["function", "script"]
"""`function`: the code defines a function with the skill's name. `script`: the whole code runs with the inputs as
variables, and its value is `result` or the last expression."""


class TraceCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recorded call. Everything in it is concealed."""

    tool: str
    """Full name."""
    version: str
    """The version of the tool at that time."""
    arguments: dict[str, Any] = {}
    answer: Any = None
    error: str | None = None
    """`Type: message` if the call failed."""
    missing: str | None = None
    """The reason for a missing answer, such as `it had 9,000,000 bytes`."""


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tool responses of one run, which let it run again without the tools."""

    recorded_at: float
    """Seconds since the epoch; a replay freezes its clock there."""
    calls: tuple[TraceCall, ...] = ()


class SkillExample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Inputs and the expected value of a skill. With a trace it can be replayed."""

    inputs: dict[str, Any] = {}
    output: Any = None
    trace: Trace | None = None
    passed: bool = False
    """True if its last run passed."""
    problem: str = ""
    """The reason of a failure."""


class ToolNeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that a skill's code uses, at the version it was written for."""

    tool: str
    """Full name."""
    version: str
    digest: str
    """The digest of the definition."""
    lines: tuple[int, ...] = ()
    """The lines that use it."""


class SkillNeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another skill that a skill's code imports."""

    name: str
    version: str
    lines: tuple[int, ...] = ()


class Skill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a saved skill. Its text is concealed."""

    namespace: str
    name: str
    """A Python identifier in lower case: `from skills import <name>`."""
    version: str = "0.0.0"
    """Assigned on saving: the interface decides which part grows."""
    status: SkillStatus = "draft"
    form: SkillForm = "function"
    language: Literal["python"] = "python"
    code: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    """JSON Schema of an object: its properties are the inputs, in the order of the signature."""
    output_schema: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    examples: tuple[SkillExample, ...] = ()
    tools: tuple[ToolNeed, ...] = ()
    skills: tuple[SkillNeed, ...] = ()
    author: str = "local"
    """The principal that saved it."""
    level: str = "production"
    """The strictest isolation level that its code was reviewed for."""
    origin: str = ""
    """Empty if an agent wrote it; otherwise `import sha256:…`, `migration of 1.2.0` or `restored from 1.0.0`."""
    note: str = ""
    """Why it is not active."""
    created_at: float = 0.0
    """When the first version was saved, in seconds since the epoch."""
    modified_at: float = 0.0
    """When this version was saved."""
    digest: str = ""
    """SHA-256 of its content, without times and author: equal digests are the same skill."""


class SkillUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of one skill version by one execution."""

    namespace: str
    name: str
    version: str
    execution_id: str
    principal: str
    at: float
    """Seconds since the epoch."""
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    error: str | None = None
    """The last error, concealed."""
    translated: int = 0
    """Tool calls that were translated because the tool has changed."""


class ShelfLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a shelf."""

    skills: int = 1_000
    """Of one namespace."""
    versions: int = 500
    """Of one skill, without deleted ones."""
    code_bytes: int = 64 << 10
    description_characters: int = 1_024
    tags: int = 20
    tag_characters: int = 40
    examples: int = 10
    examples_bytes: int = 2 << 20
    """All examples of one version with their traces, compressed."""


Difficulty = Literal["mechanical", "needs a look", "impossible"]
"""`mechanical`: every change has an answer that a program can give. `needs a look`: some code may be hit by a change
that has none. `impossible`: every call is."""

MigrationOutcome = Literal["migrated", "refused", "failed"]
"""`refused`: the code cannot be rewritten safely. `failed`: the new code does not pass its examples, or has none."""


class UseShare(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of a skill by one principal."""

    principal: str
    uses: int
    calls: int
    failures: int


class SkillTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of a skill, added up."""

    namespace: str
    name: str
    version: str
    uses: int = 0
    """Executions that used it."""
    calls: int = 0
    failures: int = 0
    principals: int = 0
    """Principals that used it."""
    last_used_at: float | None = None
    """Seconds since the epoch."""
    translated: int = 0
    """Tool calls that were translated for it."""


class SkillRecord(SkillTotals, frozen=True, kw_only=True):
    """The uses of one version of a skill."""

    seconds: float = 0.0
    """Of all calls together."""
    last_error: str | None = None
    shares: tuple[UseShare, ...] = ()
    """By principal, sorted by name."""


class MigrationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One migration of a skill: the predicted difficulty and the outcome."""

    namespace: str
    name: str
    from_version: str
    to_version: str | None = None
    """None if nothing was kept."""
    tool: str
    tool_from: str
    tool_to: str
    change: str = ""
    """The kind of change, such as `rename_parameter`; empty if it is not known."""
    predicted: Difficulty
    outcome: MigrationOutcome
    reason: str = ""
    seconds: float = 0.0
    at: float = 0.0
    """Seconds since the epoch; 0 for one that is not recorded."""


def unknown_version(name: str, version: str) -> UnknownSkill:
    """The error for a version that is not kept."""
    return UnknownSkill(f"The skill {name!r} has no version {version!r}. `sealyard skills history` lists them.")
