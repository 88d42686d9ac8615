"""How hard a migration will be: what the code and the change say, corrected by how changes of the kind went before.

One kind of change is one set of steps and obstacles. Who runs many migrations is heard like who runs a few.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from sealyard.store import MigrationRecord
from sealyard.values import Skill
from sealyard.versioning import Difficulty, Plan

_MOST_OF_ONE = 5
"""Of the migrations of one namespace, and kind, those that count: the newest."""
_ENOUGH = 3
_KINDS_SHOWN = 50


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
        if each.change == change and each.outcome in ("migrated", "failed") and heard[each.namespace] < _MOST_OF_ONE:
            heard[each.namespace] += 1
            proven += each.outcome == "migrated"
            failed += each.outcome == "failed"
    return "needs a look" if failed + proven >= _ENOUGH and failed > proven else "mechanical"
