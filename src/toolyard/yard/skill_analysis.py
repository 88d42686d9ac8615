"""How well skills work: from what executions made of them, and from how their migrations ended."""

import time
from typing import TYPE_CHECKING

import msgspec

from toolyard.skills.record import Judgement, combined, effectiveness, judge
from toolyard.store.skills import MigrationRecord, SkillRecord
from toolyard.values import Skill, SkillStatus
from toolyard.yard.compatibility import NeedCheck, worst

if TYPE_CHECKING:
    from toolyard.yard.yard import Yard

__all__ = ("SkillAnalysis", "SkillFigures", "SkillSummary", "analyze_skills", "is_right")

_REMOVABLE_SECONDS = 30 * 86_400.0


class SkillFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One skill, all its versions together."""

    namespace: str
    name: str
    version: str
    status: SkillStatus
    uses: int = 0
    calls: int = 0
    failures: int = 0
    mean_seconds: float = 0.0
    principals: int = 0
    last_used_at: float | None = None
    translated: int = 0
    effectiveness: float = 0.0
    judgement: Judgement = "kept"
    details: tuple[str, ...] = ()
    """What it needs, what went wrong last, and how its examples stand: in sentences."""


class SkillSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All skills of the store."""

    skills: int
    active: int
    drafts: int
    quarantined: int
    uses: int
    executions_share: float
    """Of the executions in the journal that used a skill."""
    translated: int
    migrations: int
    migrated: int
    predictions_right: int


class SkillAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """What `toolyard skills --analyze` shows."""

    summary: SkillSummary
    skills: tuple[SkillFigures, ...]


async def analyze_skills(yard: "Yard") -> SkillAnalysis:
    """The figures of every skill, the most effective first."""
    view = await yard.snapshot()
    newest = await yard.skills.shelf.list_all()
    records = combined(await yard.store.skills.uses())
    figures = []
    for skill in newest:
        checks = await yard.skills.compatibility.check(skill, view)
        figures.append(_figures(skill, records.get((skill.namespace, skill.name)), checks))
    figures.sort(key=lambda each: (-each.effectiveness, each.namespace, each.name))
    migrations = await yard.store.skills.migrations()
    using, executions = await yard.store.skills.reuse()
    summary = SkillSummary(
        skills=len(newest),
        active=sum(skill.status == "active" for skill in newest),
        drafts=sum(skill.status == "draft" for skill in newest),
        quarantined=sum(skill.status == "quarantined" for skill in newest),
        uses=sum(each.uses for each in figures),
        executions_share=using / executions if executions else 0.0,
        translated=sum(each.translated for each in figures),
        migrations=len(migrations),
        migrated=sum(each.outcome == "migrated" for each in migrations),
        predictions_right=sum(map(is_right, migrations)),
    )
    return SkillAnalysis(summary=summary, skills=tuple(figures))


def is_right(migration: MigrationRecord) -> bool:
    """Whether what was predicted came true: only what was called mechanical should have been done."""
    return (migration.predicted == "mechanical") == (migration.outcome == "migrated")


def _figures(skill: Skill, record: SkillRecord | None, checks: tuple[NeedCheck, ...]) -> SkillFigures:
    whole = record or SkillRecord(namespace=skill.namespace, name=skill.name, version=skill.version)
    now = time.time()
    details = [f"{check.tool} {check.need}: {check.state}. {check.reason}".rstrip() for check in checks]
    details += [f"last error: {whole.last_error}"] if whole.last_error else []
    details += [f"its worst need: {worst(checks)}"] if checks else []
    details += [skill.note] if skill.note else []
    return SkillFigures(
        namespace=skill.namespace,
        name=skill.name,
        version=skill.version,
        status=skill.status,
        uses=whole.uses,
        calls=whole.calls,
        failures=whole.failures,
        mean_seconds=whole.seconds / whole.calls if whole.calls else 0.0,
        principals=whole.principals,
        last_used_at=whole.last_used_at,
        translated=whole.translated,
        effectiveness=round(effectiveness(whole, now=now), 3),
        judgement=judge(whole, modified_at=skill.modified_at, now=now, threshold_seconds=_REMOVABLE_SECONDS),
        details=tuple(details),
    )
