"""The track record of a skill: its effectiveness from its uses, and the difficulty of its next migration.

Each principal has a bounded weight.
"""

import re
import time
from collections.abc import Iterable
from typing import Literal

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.skills.loader import NeedCheck, worst
from sealyard.values.skills import (
    SHARED,
    Difficulty,
    MigrationRecord,
    Skill,
    SkillRecord,
    SkillStatus,
    SkillTotals,
    UseShare,
)
from sealyard.versioning import Plan

EXEMPLARY = 0.8
"""Effectiveness above which a skill is one to learn from."""
WEAK = 0.3
"""Effectiveness below which an unused skill could be removed."""

_RECENT_SECONDS = 7 * 86_400.0  # a use within this time counts as recent
_HALF_REUSED = 3  # with this many uses a skill gets half of the points for reuse
_USES_OF_ONE = 3
"""Uses of a shared skill that count for one principal: with more, one alone could make a skill exemplary for all."""

_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400.0),
    **dict.fromkeys(("month", "months"), 30 * 86_400.0),
    **dict.fromkeys(("y", "year", "years"), 365 * 86_400.0),
}

Judgement = Literal["exemplary", "kept", "removable"]
REMOVABLE_SECONDS = 30 * 86_400.0  # as in the default of `sealyard skills --cleanup`


def effectiveness(record: SkillRecord, *, now: float) -> float:
    """A score from 0 to 1: 0.4 for reuse, 0.4 for success, 0.2 for use within seven days.

    For a shared skill, the first three uses by each principal count.
    """
    if not record.uses:
        return 0.0
    uses, success = counted(record)
    is_recent = record.last_used_at is not None and now - record.last_used_at <= _RECENT_SECONDS
    return 0.4 * uses / (uses + _HALF_REUSED) + 0.4 * success + 0.2 * is_recent


def counted(record: SkillRecord) -> tuple[int, float]:
    """The number of uses that count, and the share of their calls that succeeded."""
    if record.namespace != SHARED or not record.shares:
        return record.uses, _success(record)
    uses = [min(share.uses, _USES_OF_ONE) for share in record.shares]
    successes = sum(count * _success(share) for count, share in zip(uses, record.shares, strict=True))
    return sum(uses), successes / sum(uses)


def _success(part: SkillRecord | UseShare) -> float:
    return max(part.calls - part.failures, 0) / part.calls if part.calls else 0.0


def judge(record: SkillRecord, *, modified_at: float, now: float, threshold_seconds: float) -> Judgement:
    """Judge a skill: exemplary, kept or removable.

    It is removable if it is hardly effective and has been neither used nor saved for `threshold_seconds`.
    """
    value = round(effectiveness(record, now=now), 9)
    if value > EXEMPLARY:
        return "exemplary"
    touched_at = max(modified_at, record.last_used_at or modified_at)
    return "removable" if value < WEAK and now - touched_at > threshold_seconds else "kept"


def combined(records: Iterable[SkillRecord]) -> dict[tuple[str, str], SkillRecord]:
    """Combine the records of all versions of each skill, by namespace and name; its version is the one used last."""
    found: dict[tuple[str, str], SkillRecord] = {}
    for record in sorted(records, key=lambda each: each.last_used_at or 0.0):
        place = record.namespace, record.name
        before = found.get(place)
        if before is not None:
            shares = _joined((*before.shares, *record.shares))
            record = msgspec.structs.replace(
                record,
                **_sums(before, record, ("uses", "calls", "failures", "seconds", "translated")),
                principals=len(shares) or max(before.principals, record.principals),
                last_error=record.last_error or before.last_error,
                shares=shares,
            )
        found[place] = record
    return found


def _joined(shares: Iterable[UseShare]) -> tuple[UseShare, ...]:
    found: dict[str, UseShare] = {}
    for share in shares:
        before = found.get(share.principal)
        if before is not None:
            share = msgspec.structs.replace(share, **_sums(before, share, ("uses", "calls", "failures")))
        found[share.principal] = share
    return tuple(found[principal] for principal in sorted(found))


def _sums(one: object, other: object, names: tuple[str, ...]) -> dict[str, float]:
    return {name: getattr(one, name) + getattr(other, name) for name in names}


def parse_duration(text: str) -> float:
    """Parse a duration such as `30days`, `30d`, `12h` or `2 weeks` into seconds.

    Raises:
        InvalidRequest: It is not a duration.
    """
    found = _DURATION.fullmatch(text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise InvalidRequest(f"{text[:80]!r} is not a duration. Write it as 30days, 12h or '2 weeks'.")
    return float(found[1]) * unit


# Migrations


def change_of(plan: Plan) -> str:
    """The kind of a change: the sorted names of its steps and obstacles."""
    steps = {step.__struct_config__.tag for step in plan.steps}
    obstacles = {f"no_answer_{obstacle.side}" for obstacle in plan.obstacles}
    return "+".join(sorted(map(str, steps | obstacles))) or "none"


def is_right(migration: MigrationRecord) -> bool:
    """True if the prediction came true: exactly the migrations predicted as mechanical should succeed."""
    return (migration.predicted == "mechanical") == (migration.outcome == "migrated")


def foreseen(predicted: Difficulty, skill: Skill) -> Difficulty:
    """A migration needs a look if no example of the skill passed and can be replayed: nothing would prove it."""
    is_provable = any(example.passed and example.trace is not None for example in skill.examples)
    return predicted if is_provable or predicted != "mechanical" else "needs a look"


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


def figures_of(
    skill: Skill, record: SkillRecord | None, checks: tuple[NeedCheck, ...], hardest: Difficulty | None
) -> SkillFigures:
    """The figures of a skill, from the record of all its versions and the checks of its tools."""
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
        judgement=judge(whole, modified_at=skill.modified_at, now=now, threshold_seconds=REMOVABLE_SECONDS),
        difficulty=hardest,
        details=tuple(details),
    )
