"""Insights for people, and forgetting on request, from a gateway or from the command line."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from sealyard.config.settings import LearningConfig
from sealyard.errors import InvalidRequest
from sealyard.learning.learner import PARTS, Learner, Model
from sealyard.learning.part import MAX_ITEMS, PartInsights, Viewer, merged
from sealyard.store import Store
from sealyard.values.access import AuditEntry, PrincipalScope
from sealyard.values.facts import Forgotten
from sealyard.values.naming import spelled
from sealyard.wording import suggest

DAY = 86_400.0  # seconds
_SHOWN = MAX_ITEMS  # entries of each list
_SUBJECT_CHARACTERS = 200  # of a subject to forget, as it is logged and quoted: a bound
_MEANT = 3  # similar names that an error suggests

_What = Literal["tool", "principal", "all"]


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
        faults=_faults(models, faults or {}),
        forgotten=forgotten[: -_SHOWN - 1 : -1],
    )


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


def _faults(models: Sequence[Model], others: Mapping[str, int]) -> dict[str, int]:
    counted = dict(others)
    for model in models:
        for part, count in model.faults.items():
            counted[part] = counted.get(part, 0) + count
    return counted


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
    wanted = spelled(name)
    return [tool for tool in tools if wanted in (spelled(tool), spelled(tool).partition(".")[2])]
