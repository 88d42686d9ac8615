"""Skills with their examples, requests about them and the answers, and the record of their uses and migrations."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from sealyard.errors import UnknownSkill
from sealyard.values.runs import Outcome

SHARED = "shared"
"""The namespace that every principal sees; all others belong to the principal of the same name."""

_ESCAPE = "~"

SkillStatus = Literal["active", "draft", "quarantined"]
"""`draft`: no example has passed, so only its author's code can import it. `quarantined`: it was imported and
nobody has approved it, so no code can import it."""

SkillForm = Literal["function", "script"]
"""`function`: the code defines a function with the skill's name. `script`: the whole code runs with the inputs as
variables, and its value is `result` or the last expression."""


def namespace_of(principal: str) -> str:
    """The namespace of a principal: its name, escaped if it could be taken for the shared or an escaped one."""
    return _ESCAPE + principal if principal == SHARED or principal.startswith(_ESCAPE) else principal


def principal_of(namespace: str) -> str:
    """The principal that owns a namespace; the shared one belongs to nobody."""
    return namespace.removeprefix(_ESCAPE)


def namespaces_for(principal: str) -> tuple[str, str]:
    """The namespaces in which the imports of a principal's code are looked up, in order."""
    return namespace_of(principal), SHARED


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


def recorded_tools(examples: Iterable[SkillExample]) -> tuple[str, ...]:
    """The full names of the tools whose answers are in the traces of these examples."""
    traces = (example.trace for example in examples if example.trace is not None)
    return tuple(sorted({call.tool for trace in traces for call in trace.calls}))


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
    recorded: tuple[str, ...] | None = None
    """The tools whose answers its examples hold, by full name; None in a version saved before that was noted."""
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

# Requests and answers


class SaveSkill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to keep code as a skill."""

    name: str
    code: str
    description: str = ""
    inputs: Any = None
    output: Any = None
    tags: tuple[str, ...] = ()
    examples: tuple["SaveExample", ...] = ()
    language: str = "python"


class SaveExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Inputs, and the expected value if it is known."""

    inputs: dict[str, Any] = {}
    output: Any = msgspec.UNSET


class SavedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A kept skill, and warnings for its author."""

    skill: Skill
    warnings: tuple[str, ...] = ()


class FoundSkill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One search result."""

    name: str
    version: str
    use: str
    signature: str
    description: str
    effectiveness: float | None = None
    """From 0 to 1; None if it is unused."""
    status: SkillStatus = "active"
    shared: bool = False
    warnings: tuple[str, ...] = ()


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """The result of running an example."""

    example: SkillExample
    """With its trace, its value and its verdict."""
    outcome: Outcome


class TestedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill with the results of its examples."""

    skill: Skill
    rehearsals: tuple[Rehearsal, ...]

    @property
    def passed(self) -> bool:
        """True if there are examples and all of them passed."""
        return bool(self.rehearsals) and all(each.example.passed for each in self.rehearsals)


class SkillSource(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a skill that another author wrote."""

    origin: str
    """Such as `import sha256:…`."""
    author: str


NeedState = Literal["fits", "newer", "translated", "broken", "missing"]
"""`newer`: usable, with a warning. `translated`: calls are translated until the skill is migrated. `broken`: a person
has to migrate it. `missing`: the tool is gone, or hidden from this principal."""


class SkillCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, one tool that it needs, and the state of that tool."""

    namespace: str
    name: str
    version: str
    status: SkillStatus
    tool: str
    need: str
    current: str | None
    state: NeedState
    difficulty: Difficulty | None
    """The predicted difficulty of migrating this code; None where no migration is needed."""
    reason: str


class ServedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as the skills extension of MCP serves it, private values in it concealed."""

    path: str
    """Among all skills that the principal sees, such as `own/monthly-total`. It ends in the skill's name."""
    frontmatter: dict[str, Any]
    """Of its `SKILL.md`, unchanged; `name` and `description` are in it."""
    files: dict[str, bytes]
    """By path in the folder; one is `SKILL.md`."""


class ImportedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as a folder declares it. Nothing of it is proven: the code has to be read, reviewed and tried."""

    name: str
    """A Python identifier, for imports."""
    folder: str
    """The name in `SKILL.md`, with hyphens."""
    code: str
    description: str
    form: SkillForm | None = None
    """`None` in folders that sealyard did not write, as are the schemas."""
    inputs: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    examples: tuple[SkillExample, ...] = ()
    """Marked as not passed: a pass elsewhere does not count here."""
    tools: tuple[ToolNeed, ...] = ()
    """As declared; the code decides. The digest may be empty."""
    skills: tuple[SkillNeed, ...] = ()
    version: str = ""
    author: str = ""
    digest: str = ""
    """Of all files of the folder."""
    warnings: tuple[str, ...] = ()
    """Notes for the person who approves it."""


class MarketEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One skill of the market."""

    name: str
    """The Agent Skills name; the name of the folder if that cannot be read."""
    path: str
    """The folder inside of the market, with slashes; `.` is the market itself."""
    version: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """As declared: `name@version`."""
    digest: str = ""
    """Of its present files."""
    problem: str = ""
    """The reason why it cannot be used."""


# Uses

EXEMPLARY = 0.8
"""Effectiveness above which a skill is one to learn from."""
WEAK = 0.3
"""Effectiveness below which an unused skill could be removed."""
REMOVABLE_SECONDS = 30 * 86_400.0
"""The default of `sealyard skills --cleanup`."""
_RECENT_SECONDS = 7 * 86_400.0  # a use within this time counts as recent
_HALF_REUSED = 3  # with this many uses a skill gets half of the points for reuse
_USES_OF_ONE = 3
"""Uses of a shared skill that count for one principal: with more, one alone could make a skill exemplary for all."""

Judgement = Literal["exemplary", "kept", "removable"]


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

    def effectiveness(self, *, now: float) -> float:
        """A score from 0 to 1: 0.4 for reuse, 0.4 for success, 0.2 for use within seven days."""
        if not self.uses:
            return 0.0
        uses, success = self.counted
        is_recent = self.last_used_at is not None and now - self.last_used_at <= _RECENT_SECONDS
        return 0.4 * uses / (uses + _HALF_REUSED) + 0.4 * success + 0.2 * is_recent

    @property
    def counted(self) -> tuple[int, float]:
        """The number of uses that count, and the share of their calls that succeeded.

        For a shared skill, the first three uses by each principal count.
        """
        if self.namespace != SHARED or not self.shares:
            return self.uses, _success(self)
        uses = [min(share.uses, _USES_OF_ONE) for share in self.shares]
        successes = sum(count * _success(share) for count, share in zip(uses, self.shares, strict=True))
        return sum(uses), successes / sum(uses)

    def judge(self, *, modified_at: float, now: float) -> Judgement:
        """Judge a skill: exemplary, kept or removable.

        It is removable if it is hardly effective and has been neither used nor saved for `REMOVABLE_SECONDS`.
        """
        value = round(self.effectiveness(now=now), 9)
        if value > EXEMPLARY:
            return "exemplary"
        touched_at = max(modified_at, self.last_used_at or modified_at)
        return "removable" if value < WEAK and now - touched_at > REMOVABLE_SECONDS else "kept"


def _success(part: SkillRecord | UseShare) -> float:
    return max(part.calls - part.failures, 0) / part.calls if part.calls else 0.0


# Figures


class SkillFigures(SkillTotals, frozen=True, kw_only=True):
    """One skill, all its versions together."""

    status: SkillStatus
    mean_seconds: float = 0.0
    effectiveness: float = 0.0
    judgement: Judgement = "kept"
    difficulty: Difficulty | None = None
    """The predicted one of the hardest migration that it needs; None if it needs none."""
    details: tuple[str, ...] = ()
    """Sentences about the tools it needs, its last error, its migration and its examples."""


class SkillSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All skills of the store, added up."""

    skills: int
    active: int
    drafts: int
    quarantined: int
    uses: int
    executions_share: float
    """The share of executions in the journal that used a skill."""
    translated: int
    migrations: int
    migrated: int
    predictions_right: int


class SkillCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Code that a principal ran repeatedly, and that is not a skill yet."""

    principal: str
    times: int
    tools: tuple[str, ...]
    """Full names of the tools that it called; at most five."""
    execution_id: str
    """Of the last run."""
    last_at: float


class SkillAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `sealyard skills --analyze`."""

    summary: SkillSummary
    skills: tuple[SkillFigures, ...]
    candidates: tuple[SkillCandidate, ...] = ()


# Migrations

MigrationOutcome = Literal["migrated", "refused", "failed"]
"""`refused`: the code cannot be rewritten safely. `failed`: the new code does not pass its examples, or has none."""


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


class MigratedSkill(MigrationRecord, frozen=True, kw_only=True):
    """The migration of one skill, with its new code."""

    diff: str = ""
    """Of the old code and the new one."""
    examples: int = 0
    """Examples that passed with the new code."""


def unknown_version(name: str, version: str) -> UnknownSkill:
    """The error for a version that is not kept."""
    return UnknownSkill(f"The skill {name!r} has no version {version!r}. `sealyard skills history` lists them.")
