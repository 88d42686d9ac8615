"""Requests about skills and the answers to them, as values."""

from typing import Any

import msgspec

from sealyard.skills.compatibility import State
from sealyard.skills.rehearsal import Rehearsal
from sealyard.values import Skill, SkillStatus
from sealyard.versioning import Difficulty


class SaveSkill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent asks to be kept."""

    name: str
    code: str
    description: str = ""
    inputs: Any = None
    output: Any = None
    tags: tuple[str, ...] = ()
    examples: tuple["SaveExample", ...] = ()
    language: str = "python"


class SaveExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Inputs, and the value that the skill should have for them, if it is known."""

    inputs: dict[str, Any] = {}
    output: Any = msgspec.UNSET


class SavedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept, and what its author should know."""

    skill: Skill
    warnings: tuple[str, ...] = ()


class FoundSkill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One found skill, for somebody who looks for something to use."""

    name: str
    version: str
    use: str
    signature: str
    description: str
    effectiveness: float | None = None
    """From 0 to 1; None if nobody has used it yet."""
    status: SkillStatus = "active"
    shared: bool = False
    warnings: tuple[str, ...] = ()


class TestedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """How the examples of a skill went."""

    skill: Skill
    rehearsals: tuple[Rehearsal, ...]

    @property
    def passed(self) -> bool:
        """Whether there are examples and all of them passed."""
        return bool(self.rehearsals) and all(each.example.passed for each in self.rehearsals)


class SkillSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a skill comes from that somebody else wrote."""

    origin: str
    """Such as `import sha256:…`."""
    author: str
    status: SkillStatus = "quarantined"


class SkillCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, one tool that it needs, and whether that is still so."""

    namespace: str
    name: str
    version: str
    status: SkillStatus
    tool: str
    need: str
    current: str | None
    state: State
    difficulty: Difficulty | None
    """Predicted, for a migration of this very code; None where none is needed."""
    reason: str


class ServedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as the skills extension of MCP serves it."""

    path: str
    """Such as `own/monthly-total`."""
    frontmatter: dict[str, Any]
    files: dict[str, bytes]
