"""Saved agent code: the shelf, loading, rehearsal against recorded answers, migration, and sharing.

Names are imported on first use: a helper process that reads one skill imports `skills.reading`, which runs this file,
and would otherwise wait for the gateway's parts that `Skills` needs.
"""

from typing import TYPE_CHECKING

from sealyard.doors import lazy_door
from sealyard.values.skills import SaveExample, SaveSkill

if TYPE_CHECKING:
    from sealyard.skills.loader import NeedCheck, SkillLoader, SkillSession
    from sealyard.skills.migration import migrate_skills
    from sealyard.skills.reading import signature_of
    from sealyard.skills.service import Skills

__all__ = (
    "NeedCheck",
    "SaveExample",
    "SaveSkill",
    "SkillLoader",
    "SkillSession",
    "Skills",
    "migrate_skills",
    "signature_of",
)

if not TYPE_CHECKING:  # a type checker would take any name for one that this function returns
    __getattr__ = lazy_door(
        __name__,
        loader="NeedCheck SkillLoader SkillSession",
        migration="migrate_skills",
        reading="signature_of",
        service="Skills",
    )
