"""Skills and what is recorded of the calls they make, as values."""

from typing import Any, Literal

import msgspec

SHARED = "shared"
"""The namespace that every principal sees; all others belong to the principal of the same name."""

SkillStatus = Literal["active", "draft", "quarantined"]
"""`draft`: no example of it has passed, so only its author's code imports it. `quarantined`: it came from elsewhere and
nobody has approved it; no code imports it."""

SkillForm = Literal["function", "script"]
"""`function`: the code defines a function of the skill's name. `script`: the whole code is run with the inputs as
variables, and its value is `result` or the last expression."""


class TraceCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recorded call. Everything in it is concealed."""

    tool: str
    """Full name."""
    version: str
    """Of the tool, at that time."""
    arguments: dict[str, Any] = {}
    answer: Any = None
    error: str | None = None
    """`Type: message` if the call failed."""
    missing: str | None = None
    """Why the answer is not here, such as `it had 9,000,000 bytes`."""


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the tools answered to one run: enough to run it again without them."""

    recorded_at: float
    """Seconds since the epoch; the clock stands there when it is replayed."""
    calls: tuple[TraceCall, ...] = ()


class SkillExample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Inputs, and the value that the skill has for them. With a trace it can be replayed."""

    inputs: dict[str, Any] = {}
    output: Any = None
    trace: Trace | None = None
    passed: bool = False
    """Whether it passed when it was run last."""
    problem: str = ""
    """Why it did not."""


class ToolNeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that a skill's code uses, as it was when the code was written."""

    tool: str
    """Full name."""
    version: str
    digest: str
    """Of the definition."""
    lines: tuple[int, ...] = ()
    """Where the code uses it."""


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
    """Given by the store when it is saved: the interface decides which part grows."""
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
    """Empty if an agent wrote it; else such as `import sha256:…`, `migration of 1.2.0` or `restored from 1.0.0`."""
    note: str = ""
    """Why it is no active one."""
    created_at: float = 0.0
    """Of its first version, in seconds since the epoch."""
    modified_at: float = 0.0
    """Of this one."""
    digest: str = ""
    """SHA-256 of what it is, without when and by whom: equal digests are the same skill."""


class SkillUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution made of one version of a skill."""

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
    """Of the last failure, concealed."""
    translated: int = 0
    """Tool calls whose arguments were translated for it, because the tool has changed since."""
