"""Figures of skills: uses, effectiveness, and outcomes of migrations."""

import time
from collections.abc import Sequence

import msgspec

from sealyard.skills.loader import NeedCheck, worst
from sealyard.skills.record import Judgement, KindRecord, by_kind, combined, effectiveness, is_right, judge
from sealyard.skills.service import Skills
from sealyard.store import MigrationRecord, SkillRecord
from sealyard.store.skills import SkillTotals
from sealyard.values import Skill, SkillStatus
from sealyard.versioning import Difficulty

_REMOVABLE_SECONDS = 30 * 86_400.0
"""As in the default of `sealyard skills --cleanup`."""
_CANDIDATES = 20
"""Candidates listed, the most frequent first."""
_HARDER: tuple[Difficulty | None, ...] = (None, "mechanical", "needs a look", "impossible")


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
    changes: tuple[KindRecord, ...] = ()
    """Migrations by kind of change."""


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


async def analyze_skills(skills: Skills, candidates: Sequence[SkillCandidate] = ()) -> SkillAnalysis:
    """Figures of every skill, the most effective first, and code that could become a skill."""
    view = await skills.tools.view()
    newest = await skills.shelf.list_all()
    records = combined(await skills.store.skills.uses())
    migrations = await skills.store.skills.migrations()
    figures = []
    for skill in newest:
        checks = await skills.compatibility.check(skill, view)
        hardest = await _hardest(skills, skill, checks, migrations)
        figures.append(_figures(skill, records.get((skill.namespace, skill.name)), checks, hardest))
    figures.sort(key=lambda each: (-each.effectiveness, each.namespace, each.name))
    using, executions = await skills.store.skills.reuse()
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
        changes=by_kind(migrations),
    )
    return SkillAnalysis(summary=summary, skills=tuple(figures), candidates=tuple(candidates[:_CANDIDATES]))


async def _hardest(
    skills: Skills, skill: Skill, checks: Sequence[NeedCheck], past: Sequence[MigrationRecord]
) -> Difficulty | None:
    found = [await skills.difficulty(skill, check, past) for check in checks]
    return max(found, key=_HARDER.index, default=None)


def _figures(
    skill: Skill, record: SkillRecord | None, checks: tuple[NeedCheck, ...], hardest: Difficulty | None
) -> SkillFigures:
    whole = record or SkillRecord(namespace=skill.namespace, name=skill.name, version=skill.version)
    now = time.time()
    details = [f"{check.tool} {check.need}: {check.state}. {check.reason}".rstrip() for check in checks]
    details += [f"last error: {whole.last_error}"] if whole.last_error else []
    details += [f"its worst need: {worst(checks)}"] if checks else []
    details += [f"its migration, as predicted: {hardest}"] if hardest else []
    details += [skill.note] if skill.note else []
    totals = {name: getattr(whole, name) for name in SkillTotals.__struct_fields__}
    return SkillFigures(
        **totals | {"version": skill.version},
        status=skill.status,
        mean_seconds=whole.seconds / whole.calls if whole.calls else 0.0,
        effectiveness=round(effectiveness(whole, now=now), 3),
        judgement=judge(whole, modified_at=skill.modified_at, now=now, threshold_seconds=_REMOVABLE_SECONDS),
        difficulty=hardest,
        details=tuple(details),
    )
