"""Insights for people, and forgetting on request, from a gateway or from the command line."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from sealyard.config.settings import LearningConfig
from sealyard.errors import InvalidRequest
from sealyard.learning.learner import PARTS, Learner, Model, letters
from sealyard.learning.part import MAX_ITEMS, Insight, PartInsights, Viewer, merged
from sealyard.learning.precedents import LEVELS
from sealyard.skills.record import EXEMPLARY, WEAK, combined, effectiveness, is_right, judge
from sealyard.skills.shelf import namespaces_for
from sealyard.store import Store
from sealyard.store.skills import MigrationRecord, SkillRecord
from sealyard.values.access import AuditEntry, PrincipalScope
from sealyard.values.facts import Forgotten, Risk
from sealyard.values.skills import Skill
from sealyard.values.tools import ToolSpec
from sealyard.wording import suggest

DAY = 86_400.0  # seconds
_UNUSED_SECONDS = 30 * DAY  # a skill without a use for this long could be removed; the default of `skills --cleanup`
_SHOWN = MAX_ITEMS  # entries of each list
_SUBJECT_CHARACTERS = 200  # of a subject to forget, as it is logged and quoted: a bound
_MEANT = 3  # similar names that an error suggests

_What = Literal["tool", "principal", "all"]


class RiskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of runs that were assessed at one level of risk."""

    risk: Risk
    assessed: int
    failed: int
    share: float | None
    """The share that failed; None without such a run."""
    expected: float | None
    """The share that was predicted."""


class Migrations(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of migrations of skills, and the accuracy of their predicted difficulty."""

    done: int
    tried: int
    right: int
    accuracy: float | None


class Insights(msgspec.Struct, frozen=True, kw_only=True):
    """The learned facts, the evidence behind them, and their accuracy. Each list has at most fifty items."""

    enabled: bool
    scope: str
    half_life_days: float
    is_ready: bool
    """True if the whole journal has been learned."""
    facts: int
    """The number of the last learned fact of the journal."""
    partitions: list[str]
    """Principals or domains with a model of their own; an empty one for the shared model. At most 64."""
    parts: list[PartInsights]
    risk: list[RiskRecord]
    """The accuracy of assessments before runs, by level."""
    skills: list[Insight]
    """Exemplary skills, and those that could be removed."""
    migrations: Migrations
    conflicts: list[Insight] = []
    """Tools whose answers differ from their declaration; empty unless `with_conflicts` searched for them."""
    faults: dict[str, int] = {}
    """The failures of each part: lessons that it could not learn, and times that it was switched off for requests."""
    forgotten: list[Forgotten] = []
    """The newest first."""


def learner_of(store: Store, settings: LearningConfig, *, rest: float = 0.0) -> Learner:
    """The learner of the configuration; `rest` as in `Learner`."""
    return Learner(store, half_life=settings.half_life_days * DAY, scope=settings.scope, rest=rest)


def domain_of(principal: str, scopes: Mapping[str, PrincipalScope], settings: LearningConfig) -> str:
    """The configured domain of a principal; empty if there is none."""
    scope = scopes.get(principal)
    return (scope.domain if scope is not None else None) or settings.domain or ""


async def insights(
    store: Store,
    learner: Learner,
    settings: LearningConfig,
    *,
    principal: str | None = None,
    domain: str = "",
    faults: Mapping[str, int] | None = None,
) -> Insights:
    """The insights of all models, or of the model of one principal, which works in `domain` if that is known.

    Raises:
        StoreError: The store cannot be read.
    """
    now = time.time()
    skills, migrations = await _skills(store, principal, now)
    forgotten = await store.learning.forgotten() if principal is None else []
    source = _models(learner, principal, domain)
    models = list(source.values())
    return Insights(
        enabled=settings.enabled,
        scope=settings.scope,
        half_life_days=settings.half_life_days,
        is_ready=learner.is_ready,
        facts=learner.number,
        partitions=sorted(learner.models if principal is None else source),
        parts=await _parts(models, Viewer("", now, settings.half_life_days * DAY)),
        risk=_risk(models),
        skills=skills,
        migrations=migrations,
        faults=_faults(models, faults or {}),
        forgotten=forgotten[: -_SHOWN - 1 : -1],
    )


async def with_conflicts(found: Insights, learner: Learner, specs: Iterable[ToolSpec], *, is_alone: bool) -> Insights:
    """The insights with those tools of `specs` whose answers differ from their declaration.

    `is_alone`: all evidence comes from one principal.
    """
    declared = [spec for spec in specs if spec.output_schema is not None]
    operator = Viewer("", time.time(), found.half_life_days * DAY)
    conflicts: dict[tuple[str, str], Insight] = {}
    for model in _models(learner).values():
        for each in model.shapes.conflicts(declared, operator, is_alone=is_alone):
            conflicts.setdefault((each.subject, each.text), each)
        await asyncio.sleep(0)
    ordered = sorted(conflicts.values(), key=lambda each: (-each.evidence, each.subject, each.text))
    return msgspec.structs.replace(found, conflicts=ordered[:_SHOWN])


async def census_of(learner: Learner, *, half_life: float, principal: str | None = None) -> list[PartInsights]:
    """The record of each part, from all models or from that of a principal."""
    return await _parts(_models(learner, principal).values(), Viewer("", time.time(), half_life))


async def _parts(models: Iterable[Model], operator: Viewer) -> list[PartInsights]:
    """The record of each part, from all models together. Other requests run in between."""
    found: list[PartInsights] = []
    for model in models:
        found += model.insights(operator)
        await asyncio.sleep(0)
    return [merged(part, [each for each in found if each.part == part]) for part in PARTS]


def _models(learner: Learner, principal: str | None = None, domain: str = "") -> dict[str, Model]:
    """The models that apply, by partition, without duplicates."""
    models = dict(learner.models)
    if principal is not None:
        source = learner.model_for(principal, domain)
        return {name: model for name, model in models.items() if model is source}
    return {"": models[""]} if "" in models else models  # the shared model includes those of all domains


def _risk(models: Sequence[Model]) -> list[RiskRecord]:
    found = []
    for risk in LEVELS:
        levels = [level for model in models if (level := model.risk.calibration.levels.get(risk)) is not None]
        assessed = sum(level.runs for level in levels)
        failed = sum(level.failed for level in levels)
        expected = sum(level.expected for level in levels)
        found.append(
            RiskRecord(
                risk=risk,
                assessed=assessed,
                failed=failed,
                share=failed / assessed if assessed else None,
                expected=expected / assessed if assessed else None,
            )
        )
    return found


def _faults(models: Sequence[Model], others: Mapping[str, int]) -> dict[str, int]:
    counted = dict(others)
    for model in models:
        for part, count in model.faults.items():
            counted[part] = counted.get(part, 0) + count
    return counted


# Skills


async def _skills(store: Store, principal: str | None, now: float) -> tuple[list[Insight], Migrations]:
    """Exemplary and removable skills, and the outcomes of migrations: of all skills, or of those a principal sees."""
    seen = None if principal is None else set(namespaces_for(principal))
    names = dict.fromkeys(name for name, _ in await store.skills.names() if seen is None or name in seen)
    records = combined(await store.skills.uses())
    found = [
        judged
        for skill in await store.skills.newest(tuple(names), status="active")
        if (judged := _judged(skill, records.get((skill.namespace, skill.name)), now)) is not None
    ]
    found.sort(key=lambda each: (each.kind, -each.evidence, each.subject))
    past = [each for each in await store.skills.migrations() if seen is None or each.namespace in seen]
    return found[:_SHOWN], _migrations(past)


def _judged(skill: Skill, record: SkillRecord | None, now: float) -> Insight | None:
    whole = record or SkillRecord(namespace=skill.namespace, name=skill.name, version=skill.version)
    judgement = judge(whole, modified_at=skill.modified_at, now=now, threshold_seconds=_UNUSED_SECONDS)
    if judgement == "kept":
        return None
    value = effectiveness(whole, now=now)
    texts = {
        "exemplary": f"Exemplary: its effectiveness is {value:.2f}, which is over {EXEMPLARY:g}.",
        "removable": f"Could go: its effectiveness is {value:.2f}, which is under {WEAK:g}, and it is unused for 30"
        " days.",
    }
    return Insight(
        kind=f"skill_{judgement}",
        subject=f"{skill.namespace}/{skill.name}",
        text=texts[judgement],
        evidence=float(whole.uses),
        principals=whole.principals,
        last_at=whole.last_used_at or skill.modified_at,
    )


def _migrations(past: Sequence[MigrationRecord]) -> Migrations:
    right = sum(map(is_right, past))
    return Migrations(
        done=sum(each.outcome == "migrated" for each in past),
        tried=len(past),
        right=right,
        accuracy=right / len(past) if past else None,
    )


# Forgetting


async def forget(store: Store, learner: Learner, subject: str, *, principal: str) -> Forgotten:
    """Forget everything learned about a tool, a principal, or all of it. The audit log names `principal` as requester.

    `subject` is `ALL`, the name of a tool or of a principal; `tool:NAME` and `principal:NAME` state which.

    Raises:
        InvalidRequest: Nothing is known by this name, or it can mean several things.
        StoreError: It could not be written.
    """
    what, name = await _resolve(store, subject.strip())
    forgotten = await learner.forget(what, name)
    store.audit(AuditEntry(kind="learning.forget", principal=principal, body={"what": what, "subject": name}))
    await store.flush()
    return forgotten


async def _resolve(store: Store, subject: str) -> tuple[_What, str]:
    if subject == "ALL":
        return "all", ""
    kind, _, rest = subject.partition(":")
    meant, named = (kind, rest) if kind in ("tool", "principal") and rest else ("", subject)
    if not named:
        raise InvalidRequest("There is no name to forget. Give the name of a tool or of a principal, or ALL.")
    tools, principals = await store.learning.known()
    found = _find_tools(named, tools) if meant != "principal" else []
    is_principal = meant != "tool" and named in principals
    if found and is_principal:
        raise InvalidRequest(f"{named!r} is a tool and a principal. Write 'tool:{named}' or 'principal:{named}'.")
    if len(found) > 1:
        raise InvalidRequest(f"{named!r} can be {' or '.join(map(repr, found[:_MEANT]))}. Give the full name.")
    if found or is_principal:
        return ("tool", found[0]) if found else ("principal", named)
    known = [*(tools if meant != "principal" else ()), *(principals if meant != "tool" else ())]
    shown = named[:_SUBJECT_CHARACTERS]
    advice = suggest(shown, known, "Give a tool, a principal, or ALL.")
    raise InvalidRequest(f"Nothing was learned of {shown!r}. {advice}")


def _find_tools(name: str, tools: Sequence[str]) -> list[str]:
    """The tool with this full name, or all that match `server.function` or the upstream's name."""
    if name in tools:
        return [name]
    wanted = tuple(map(letters, name.removeprefix("servers.").split(".")))
    return [tool for tool in tools if all(wanted) and wanted in _short_names(tool)]


def _short_names(tool: str) -> tuple[tuple[str, ...], ...]:
    server, _, name = tool.removeprefix("mcp__").partition("__")
    return (letters(server), letters(name)), (letters(name),)
