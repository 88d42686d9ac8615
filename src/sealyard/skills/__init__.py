"""Saved agent code: the shelf, loading, rehearsal against recorded answers, migration, and sharing.

Names are imported on first use: a helper process that reads one skill imports `skills.offloaded`, which runs this file,
and would otherwise wait for the gateway's parts that `Skills` needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sealyard.skills.loader import SkillLoader, SkillSession
    from sealyard.skills.migration import migrate_skills
    from sealyard.skills.reading import signature_of
    from sealyard.skills.requests import SaveExample, SaveSkill, SkillSource
    from sealyard.skills.service import Skills

__all__ = (
    "SaveExample",
    "SaveSkill",
    "SkillLoader",
    "SkillSession",
    "SkillSource",
    "Skills",
    "migrate_skills",
    "signature_of",
)

_MODULES = {
    "SaveExample": "requests",
    "SaveSkill": "requests",
    "SkillLoader": "loader",
    "SkillSession": "loader",
    "SkillSource": "requests",
    "Skills": "service",
    "migrate_skills": "migration",
    "signature_of": "reading",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
