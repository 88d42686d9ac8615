"""Compares the tools that a skill was written for with those there are, and bridges the difference where it can."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from sealyard.catalog import Catalog, Recent, Snapshot
from sealyard.catalog.stubs import parameters
from sealyard.catalog.text import plain
from sealyard.store import Store
from sealyard.values import Skill, ToolNeed, ToolSpec
from sealyard.versioning import Difficulty, Plan, make_plan
from sealyard.versioning.compare import Version, fit

State = Literal["fits", "newer", "translated", "broken", "missing"]
"""`newer`: usable, with a warning. `translated`: calls are translated until the skill is migrated. `broken`: it has to
be migrated by hand. `missing`: the tool is gone, or not for this principal."""

_PLANS = 1_000
_REASON_CHARACTERS = 600
_FOLLOWED_SECONDS = 10.0


class NeedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one tool that a skill needs."""

    tool: str
    need: str
    """The version it was written for."""
    current: str | None = None
    now: str | None = None
    """The tool's full name now; another one if it was renamed."""
    state: State
    difficulty: Difficulty | None = None
    """Of a migration, where one is needed."""
    reason: str = ""
    plan: Plan | None = None

    @property
    def is_usable(self) -> bool:
        """Whether code that needs it can run."""
        return self.state in ("fits", "newer", "translated")


class Compatibility:
    """Compares what skills need with what there is."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._plans: Recent[tuple[str, str, str], Plan | None] = Recent(_PLANS)
        self._followed: Recent[tuple[str, str], tuple[float, str | None]] = Recent(_PLANS)

    async def check(self, skill: Skill, view: Snapshot) -> tuple[NeedCheck, ...]:
        """One check for each tool that the skill's own code uses, against the tools of `view`."""
        return tuple([await self._check(need, view) for need in skill.tools])

    async def _check(self, need: ToolNeed, view: Snapshot) -> NeedCheck:
        spec = view.tools.get(need.tool) or await self.renamed(need.tool, view)
        if spec is None:
            return NeedCheck(
                tool=need.tool,
                need=need.version,
                state="missing",
                difficulty="impossible",
                reason=f"{need.tool} is not there any more, and no tool took its place.",
            )
        found = NeedCheck(tool=need.tool, need=need.version, current=spec.version, now=spec.full_name, state="fits")
        if spec.full_name == need.tool:
            how = fit(need.version, spec.version)
            if how == "fits" or (spec.digest == need.digest and how != "other_major"):
                return found
            if how == "newer_minor":
                reason = f"{need.tool} is at {spec.version}; the skill was written for {need.version}."
                plan = await self.plan(need, spec)
                plan = plan if plan is not None and plan.is_reordered else None
                return msgspec.structs.replace(found, state="newer", reason=reason, plan=plan)
        plan = await self.plan(need, spec)
        if plan is None:
            reason = f"The definition of {need.tool} {need.version} is not kept any more, so nothing can be compared."
            return msgspec.structs.replace(found, state="broken", difficulty="needs a look", reason=reason)
        if not plan.steps and not plan.obstacles:  # it was something else meanwhile, and is what it was again
            return found
        found = msgspec.structs.replace(found, difficulty=plan.difficulty, plan=plan)
        if plan.problems and spec.digest == need.digest and spec.full_name == need.tool:
            # Only its answers look otherwise, as far as was seen. Whoever calls it has a hand in that, so that nobody
            # else's skill may be refused for it.
            reason = f"{need.tool} is defined as it was, and seems to answer otherwise: {_words(plan.problems)}"
            return msgspec.structs.replace(found, state="newer", difficulty=None, plan=None, reason=reason)
        if plan.problems:
            return msgspec.structs.replace(found, state="broken", reason=_words(plan.problems))
        renamed = "" if spec.full_name == need.tool else f"{need.tool} is called {spec.full_name} now. "
        reason = f"{renamed}Its calls are translated from {need.version} to {spec.version} until the skill is migrated."
        return msgspec.structs.replace(found, state="translated", reason=reason)

    async def plan(self, need: ToolNeed, spec: ToolSpec) -> Plan | None:
        """How calls for the needed version become calls of `spec`; None if its definition is not kept."""
        key = (need.tool, need.digest, f"{spec.full_name} {spec.digest} {spec.version}")
        known = self._plans.find(key)
        if known is None:
            known = await self.make_plan(need, spec)
            self._plans.put(key, known)
        return known

    async def make_plan(self, need: ToolNeed, spec: ToolSpec, renames: Mapping[str, str] | None = None) -> Plan | None:
        """The same, with what a person says about `renames`."""
        release = await self._store.releases.get(need.tool, need.version)
        is_same = spec.digest == need.digest and spec.full_name == need.tool
        if release is None and not is_same:
            return None
        before = spec if release is None else release.spec  # a tool that changes all the time may be what it was
        make = partial(
            make_plan,
            before,
            spec,
            renames=dict(renames or {}),
            python_names=_python_names,
            output_before=await self._seen_shape(before, need.version),
            output_after=await self._seen_shape(spec, spec.version),
        )
        return await asyncio.to_thread(make)  # an upstream's schema may be one that takes long to compare

    async def _seen_shape(self, spec: ToolSpec, version: str) -> dict[str, Any] | None:
        """What a tool that declares no output was seen to answer at that version."""
        if spec.output_schema is not None:
            return None
        seen = await self._store.shapes.find(spec.upstream, spec.name, Version.parse(version).major)
        return None if seen is None else seen.schema

    async def renamed(self, tool: str, view: Snapshot) -> ToolSpec | None:
        """The tool that took its place, if it is in `view`."""
        key = (tool, self._catalog.snapshot.version)
        known = self._followed.find(key)
        if known is None or known[0] < time.monotonic() - _FOLLOWED_SECONDS:
            place = await self._store.releases.find_tool(tool)
            follower = None if place is None else await self._store.releases.follow(*place)
            known = (time.monotonic(), None if follower is None else follower.full_name)
            self._followed.put(key, known)
        return None if known[1] is None else view.tools.get(known[1])


def _words(problems: Sequence[str]) -> str:
    """The first problems on one line: they quote what an upstream wrote, and are read by models and on terminals."""
    return " ".join(plain(" ".join(problems[:3]), limit=_REASON_CHARACTERS).split())


def _python_names(spec: ToolSpec) -> dict[str, str]:
    return {parameter.key: parameter.name for parameter in parameters(spec)}


def worst(checks: Sequence[NeedCheck]) -> State:
    """The gravest state among them."""
    order: tuple[State, ...] = ("fits", "newer", "translated", "broken", "missing")
    return max((check.state for check in checks), key=order.index, default="fits")
