"""The track record of a skill: its effectiveness from its uses, and the difficulty of its next migration.

The difficulty follows from the code and the change, corrected by the outcome of earlier migrations of the same kind. A
kind is one set of steps and obstacles. Each principal and each namespace has a bounded weight.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.store import MigrationRecord, SkillRecord
from sealyard.store.skills import UseShare
from sealyard.values import SHARED, Skill
from sealyard.versioning import Difficulty, Plan

EXEMPLARY = 0.8
WEAK = 0.3

_RECENT_SECONDS = 7 * 86_400.0
_HALF_REUSED = 3
"""A skill that this many executions used is half as well reused as one can be."""
_USES_OF_ONE = 3
"""Uses of a shared skill that count of one principal: with more, one alone could make a skill exemplary for all."""

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
_MIGRATIONS_OF_ONE = 5
"""Of the migrations of one namespace, and kind, those that count: the newest."""
_MIGRATIONS_ENOUGH = 3
_KINDS_SHOWN = 50


def effectiveness(record: SkillRecord, *, now: float) -> float:
    """From 0 to 1: four tenths for how often it is reused, four for its success, two for use within seven days.

    Of a shared skill, the first three uses of each principal count, however many there were.
    """
    if not record.uses:
        return 0.0
    uses, success = counted(record)
    is_recent = record.last_used_at is not None and now - record.last_used_at <= _RECENT_SECONDS
    return 0.4 * uses / (uses + _HALF_REUSED) + 0.4 * success + 0.2 * is_recent


def counted(record: SkillRecord) -> tuple[int, float]:
    """The uses that count, and which share of the calls in them succeeded."""
    if record.namespace != SHARED or not record.shares:
        return record.uses, _success(record)
    uses = [min(share.uses, _USES_OF_ONE) for share in record.shares]
    successes = sum(count * _success(share) for count, share in zip(uses, record.shares, strict=True))
    return sum(uses), successes / sum(uses)


def _success(part: SkillRecord | UseShare) -> float:
    return max(part.calls - part.failures, 0) / part.calls if part.calls else 0.0


def judge(record: SkillRecord, *, modified_at: float, now: float, threshold_seconds: float) -> Judgement:
    """Whether a skill is one to learn from, or one that could go.

    It could go if it is of little effect and has not been used, or saved, for `threshold_seconds`.
    """
    value = round(effectiveness(record, now=now), 9)
    if value > EXEMPLARY:
        return "exemplary"
    touched_at = max(modified_at, record.last_used_at or modified_at)
    return "removable" if value < WEAK and now - touched_at > threshold_seconds else "kept"


def combined(records: Iterable[SkillRecord]) -> dict[tuple[str, str], SkillRecord]:
    """The records of all versions of each skill as one, by namespace and name; its version is the one used last."""
    found: dict[tuple[str, str], SkillRecord] = {}
    for record in sorted(records, key=lambda each: each.last_used_at or 0.0):
        place = record.namespace, record.name
        before = found.get(place)
        if before is not None:
            shares = _joined((*before.shares, *record.shares))
            record = msgspec.structs.replace(
                record,
                uses=before.uses + record.uses,
                calls=before.calls + record.calls,
                failures=before.failures + record.failures,
                seconds=before.seconds + record.seconds,
                principals=len(shares) or max(before.principals, record.principals),
                translated=before.translated + record.translated,
                last_error=record.last_error or before.last_error,
                shares=shares,
            )
        found[place] = record
    return found


def _joined(shares: Iterable[UseShare]) -> tuple[UseShare, ...]:
    found: dict[str, UseShare] = {}
    for share in shares:
        before = found.get(share.principal)
        found[share.principal] = (
            share
            if before is None
            else UseShare(
                principal=share.principal,
                uses=before.uses + share.uses,
                calls=before.calls + share.calls,
                failures=before.failures + share.failures,
            )
        )
    return tuple(found[principal] for principal in sorted(found))


def parse_duration(text: str) -> float:
    """Seconds of a time such as `30days`, `30d`, `12h` or `2 weeks`.

    Raises:
        InvalidRequest: It is none.
    """
    found = _DURATION.fullmatch(text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise InvalidRequest(f"{text[:80]!r} is no length of time. Write it as 30days, 12h or '2 weeks'.")
    return float(found[1]) * unit


# Migrations


class KindRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How migrations for one kind of change went."""

    change: str
    """Such as `rename_field+rename_parameter`; empty for those from before it was recorded."""
    migrations: int
    migrated: int
    right: int
    """Of which the difficulty was predicted as it turned out."""


def change_of(plan: Plan) -> str:
    """The kind of a change: the names of its steps and of what stands in the way, in one order."""
    steps = {step.__struct_config__.tag for step in plan.steps}
    obstacles = {f"no_answer_{obstacle.side}" for obstacle in plan.obstacles}
    return "+".join(sorted(map(str, steps | obstacles))) or "none"


def is_right(migration: MigrationRecord) -> bool:
    """Whether what was predicted came true: only what was called mechanical should have been done."""
    return (migration.predicted == "mechanical") == (migration.outcome == "migrated")


def by_kind(migrations: Iterable[MigrationRecord]) -> tuple[KindRecord, ...]:
    """The record of each kind of change, that with the most migrations first."""
    found: dict[str, list[MigrationRecord]] = defaultdict(list)
    for each in migrations:
        found[each.change].append(each)
    records = [
        KindRecord(
            change=change,
            migrations=len(some),
            migrated=sum(each.outcome == "migrated" for each in some),
            right=sum(map(is_right, some)),
        )
        for change, some in found.items()
    ]
    return tuple(sorted(records, key=lambda each: (-each.migrations, each.change))[:_KINDS_SHOWN])


def foreseen(predicted: Difficulty, skill: Skill, change: str, past: Sequence[MigrationRecord]) -> Difficulty:
    """What the code says, unless nothing of the skill can prove new code, or such changes mostly failed so far.

    `past` has the oldest first. A skill is proven by examples that passed and can be replayed.
    """
    if predicted != "mechanical":
        return predicted
    if not any(example.passed and example.trace is not None for example in skill.examples):
        return "needs a look"
    heard: dict[str, int] = defaultdict(int)
    proven = failed = 0
    for each in reversed(past):
        if (
            each.change == change
            and each.outcome in ("migrated", "failed")
            and heard[each.namespace] < _MIGRATIONS_OF_ONE
        ):
            heard[each.namespace] += 1
            proven += each.outcome == "migrated"
            failed += each.outcome == "failed"
    return "needs a look" if failed + proven >= _MIGRATIONS_ENOUGH and failed > proven else "mechanical"
