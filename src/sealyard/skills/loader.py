"""Loading a skill: the version that an import gets, the tools it needs, and its use by one execution.

`Compatibility` compares the tools that a skill was written for with those in the catalog and plans translations.
`SkillLoader` picks a version that the principal may see and use. `SkillSession` serves one execution: the guest asks by
calls of reserved names, and its reports are bounded, concern only skills that this execution loaded, and count as one
use of each.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from sealyard.access import Tools
from sealyard.catalog import Catalog, Recent, Snapshot
from sealyard.catalog.stubs import Stub
from sealyard.errors import InvalidRequest, InvalidSkill, SkillUnusable, UnknownSkill, UnknownTool
from sealyard.privacy import Guard
from sealyard.skills.shelf import Shelf, split_pin
from sealyard.store import Store
from sealyard.values.changes import Version, major_of
from sealyard.values.runs import RecordStatus
from sealyard.values.skills import (
    Difficulty,
    NeedState,
    Skill,
    SkillRecord,
    SkillStatus,
    SkillUse,
    ToolNeed,
    UseShare,
    namespaces_for,
    recorded_tools,
)
from sealyard.values.tools import ToolSpec
from sealyard.values.variants import variant
from sealyard.versioning import Plan, make_plan
from sealyard.wording import plain

_PLANS = 1_000  # plans and renames in memory: more than there are tools in use
_REASON_CHARACTERS = 600  # of a reason that quotes an upstream
_FOLLOWED_SECONDS = 10.0  # seconds for which a rename found in the store is reused
_MOST_SKILLS = 100  # skills that one execution may load
_MOST_ASKED = 2 * _MOST_SKILLS  # loads that one execution may ask for, including failed ones
_MOST_REPORTS = 10_000  # reports from one execution that are counted
_ERROR_CHARACTERS = 500  # of an error that the guest reports
_MOST_SECONDS = 86_400.0  # seconds of one call: the guest reports them
_CLOSURE = 100  # skills that one skill may need, directly and indirectly
Known = dict[str, Skill | str | None]
"""Skills by imported name, or the reason why one cannot be used; None while it is being looked up."""


class NeedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one tool that a skill needs."""

    tool: str
    need: str
    """The version that the skill was written for."""
    current: str | None = None
    now: str | None = None
    """The tool's full name in the catalog; another one if it was renamed."""
    state: NeedState
    difficulty: Difficulty | None = None
    """Of the migration, where one is needed."""
    reason: str = ""
    plan: Plan | None = None

    @property
    def is_usable(self) -> bool:
        """True if code that needs the tool can run."""
        return self.state in ("fits", "newer", "translated")


class Compatibility:
    """Compares the tools that skills need with those in the catalog."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._plans: Recent[tuple[str, str, str], Plan | None] = Recent(_PLANS)
        self._followed: Recent[tuple[str, str], tuple[float, str | None]] = Recent(_PLANS)

    async def check(self, skill: Skill, view: Snapshot) -> tuple[NeedCheck, ...]:
        """Check each tool that the skill's own code uses against the tools of `view`."""
        return tuple([await self._check(need, view) for need in skill.tools])

    async def _check(self, need: ToolNeed, view: Snapshot) -> NeedCheck:
        spec = view.tools.get(need.tool) or await self.renamed(need.tool, view)
        if spec is None:
            return NeedCheck(
                tool=need.tool,
                need=need.version,
                state="missing",
                difficulty="impossible",
                reason=f"{need.tool} no longer exists, and no tool replaced it.",
            )
        found = NeedCheck(tool=need.tool, need=need.version, current=spec.version, now=spec.full_name, state="fits")
        if spec.full_name == need.tool:
            how = Version.parse(spec.version).fit(need.version)
            if how == "fits" or (spec.digest == need.digest and how != "other_major"):
                return found
            if how == "newer_minor":
                reason = f"{need.tool} is at {spec.version}; the skill was written for {need.version}."
                plan = await self.plan(need, spec)
                plan = plan if plan is not None and plan.is_reordered else None
                return msgspec.structs.replace(found, state="newer", reason=reason, plan=plan)
        plan = await self.plan(need, spec)
        if plan is None:
            reason = f"The definition of {need.tool} {need.version} is no longer stored, so nothing can be compared."
            return msgspec.structs.replace(found, state="broken", difficulty="needs a look", reason=reason)
        if not plan.steps and not plan.obstacles:  # it changed and changed back
            return found
        found = msgspec.structs.replace(found, difficulty=plan.difficulty, plan=plan)
        if plan.problems and spec.digest == need.digest and spec.full_name == need.tool:
            # Only its observed answers differ. Its callers have a hand in those, so they must not make the skill of
            # somebody else unusable.
            reason = f"{need.tool} is defined as it was, and seems to answer otherwise: {_words(plan.problems)}"
            return msgspec.structs.replace(found, state="newer", difficulty=None, plan=None, reason=reason)
        if plan.problems:
            return msgspec.structs.replace(found, state="broken", reason=_words(plan.problems))
        renamed = "" if spec.full_name == need.tool else f"{need.tool} is called {spec.full_name} now. "
        reason = f"{renamed}Its calls are translated from {need.version} to {spec.version} until the skill is migrated."
        return msgspec.structs.replace(found, state="translated", reason=reason)

    async def plan(self, need: ToolNeed, spec: ToolSpec) -> Plan | None:
        """Plan the translation of calls for the needed version to `spec`; None if its definition is not kept."""
        key = (need.tool, need.digest, f"{spec.full_name} {spec.digest} {spec.version}")
        known = self._plans.find(key)
        if known is None:
            known = await self.make_plan(need, spec)
            self._plans.put(key, known)
        return known

    async def make_plan(self, need: ToolNeed, spec: ToolSpec, renames: Mapping[str, str] | None = None) -> Plan | None:
        """Make such a plan, with the `renames` that a person gives."""
        release = await self._store.releases.get(need.tool, need.version)
        is_same = spec.digest == need.digest and spec.full_name == need.tool
        if release is None and not is_same:
            return None
        before = spec if release is None else release.spec  # a tool that changes often may be what it was
        make = partial(
            make_plan,
            before,
            spec,
            renames=dict(renames or {}),
            python_names=lambda spec: {parameter.key: parameter.name for parameter in Stub(spec).parameters},
            output_before=await self._seen_shape(before, need.version),
            output_after=await self._seen_shape(spec, spec.version),
        )
        return await asyncio.to_thread(make)  # the schema of an upstream may take long to compare

    async def _seen_shape(self, spec: ToolSpec, version: str) -> dict[str, Any] | None:
        """The observed output schema of a tool at a version, if it declares none."""
        if spec.output_schema is not None:
            return None
        seen = await self._store.shapes.find(spec.upstream, spec.name, major_of(version))
        return None if seen is None else seen.schema

    async def renamed(self, tool: str, view: Snapshot) -> ToolSpec | None:
        """The tool that replaced `tool`, if it is in `view`."""
        key = (tool, self._catalog.snapshot.version)
        known = self._followed.find(key)
        if known is None or known[0] < time.monotonic() - _FOLLOWED_SECONDS:
            place = await self._store.releases.find_tool(tool)
            follower = None if place is None else await self._store.releases.follow(*place)
            known = (time.monotonic(), None if follower is None else follower.full_name)
            self._followed.put(key, known)
        return None if known[1] is None else view.tools.get(known[1])


def _words(problems: Sequence[str]) -> str:
    """The first problems on one line. They quote an upstream, and models and terminals show them."""
    return " ".join(plain(" ".join(problems[:3]), limit=_REASON_CHARACTERS).split())


# The skills of one execution


class LoadedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A usable skill, with the state of the tools it needs."""

    skill: Skill
    checks: tuple[NeedCheck, ...]

    @property
    def warnings(self) -> list[str]:
        """Warnings for the user of the skill."""
        return [check.reason for check in self.checks if check.reason]


Load = Callable[[str, str | None], Awaitable[LoadedSkill]]
"""Loads a skill by name and version. Raises `UnknownSkill` or `SkillUnusable`."""


class _LoadArguments(msgspec.Struct):
    name: str
    version: str | None = None


class _StubArguments(msgspec.Struct):
    server: str
    function: str


class _Report(msgspec.Struct):
    name: str
    version: str
    seconds: float = 0.0
    error: str | None = None


class _Use:
    def __init__(self, skill: Skill) -> None:
        self.skill = skill
        self.calls = 0
        self.failures = 0
        self.seconds = 0.0
        self.error: str | None = None
        """Concealed."""
        self.translated = 0


class SkillSession:
    """Loads the skills of one execution and counts their uses."""

    def __init__(self, load: Load, snapshot: Snapshot, guard: Guard) -> None:
        self._load = load
        self._snapshot = snapshot
        self._guard = guard
        self._uses: dict[tuple[str, str], _Use] = {}
        self._plans: dict[str, tuple[Plan, dict[_Use, None]]] = {}
        """`mcp__x__y@1.2.0` -> the translation of a call of that version, and the skills that make such calls."""
        self._running: list[_Use] = []
        """The skills that are being called, the innermost last."""
        self._asked = 0
        self._reports = 0
        self.notes: list[str] = []

    async def answer(self, name: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of a reserved name. Raises an error for the guest."""
        if name == "load_skill":
            wanted = _convert(arguments, _LoadArguments)
            return await self._give(wanted.name, wanted.version)
        if name == "load_stub":
            return self._stub(_convert(arguments, _StubArguments))
        report = _convert(arguments, _Report)
        self._reports += 1
        use = self._uses.get((report.name, report.version))
        if use is not None and self._reports <= _MOST_REPORTS:
            await self._note(name, report, use)
        return None

    def find_plan(self, name: str, *, is_used: bool = True) -> tuple[ToolSpec, Plan] | None:
        """Find the tool and the translation for a call of `tool@version`; None for any other name.

        It counts as a translated call of the innermost running skill that makes such calls, unless `is_used` is false.

        Raises:
            UnknownTool: No skill of this execution needs that version.
        """
        if "@" not in name:
            return None
        found = self._plans.get(name)
        if found is None or found[0].after is None:
            raise UnknownTool(f"No tool named {name!r}. Name it without a version: only skills call older ones.")
        plan, users = found
        use = next((each for each in reversed(self._running) if each in users), next(reversed(users)))
        use.translated += is_used
        assert plan.after is not None
        return self._snapshot.tools[plan.after.full_name], plan

    def uses(self, execution_id: str, principal: str, status: RecordStatus) -> list[SkillUse]:
        """One record for each skill that was called, for an execution that ended with `status`."""
        found = []
        for use in self._uses.values():
            if not use.calls:
                continue
            failures, error = use.failures, use.error
            if use in self._running and status != "ok":  # the execution ended inside the skill
                failures, error = failures + 1, error or f"The execution ended: {status}."
            found.append(
                SkillUse(
                    namespace=use.skill.namespace,
                    name=use.skill.name,
                    version=use.skill.version,
                    execution_id=execution_id,
                    principal=principal,
                    at=time.time(),
                    calls=use.calls,
                    failures=failures,
                    seconds=use.seconds,
                    error=error,
                    translated=use.translated,
                )
            )
        return found

    def _stub(self, wanted: "_StubArguments") -> str:
        """The text of a tool's stub, for code that imports it before its file is written. Raises `UnknownTool`."""
        spec = self._snapshot.find(f"servers.{wanted.server}.{wanted.function}")
        if spec is None:
            raise UnknownTool(f"No tool named {wanted.function!r} on server {wanted.server!r}.")
        return Stub(spec, self._snapshot.shapes.get(spec.full_name)).text

    async def _give(self, name: str, version: str | None) -> dict[str, Any]:
        self._asked += 1  # the guest asks once for each name and version, also for missing ones
        if len(self._uses) >= _MOST_SKILLS or self._asked > _MOST_ASKED:
            raise InvalidRequest(f"This run has loaded {_MOST_SKILLS} skills. Split the job.")
        loaded = await self._load(name, version)
        skill = loaded.skill
        use = self._uses.setdefault((skill.name, skill.version), _Use(skill))
        shims = []
        for check in loaded.checks:
            if check.plan is None or not check.is_usable:
                continue
            before = check.plan.before
            versioned = f"{check.tool}@{check.need}"
            _, users = self._plans.get(versioned, (None, {}))
            self._plans[versioned] = (check.plan, users | {use: None})
            stub = Stub(msgspec.structs.replace(before, full_name=versioned)).text
            shims.append({"module": before.module, "function": before.function, "stub": stub})
        self.notes += [f"skill {skill.name} {skill.version}: {warning}" for warning in loaded.warnings]
        return {
            "name": skill.name,
            "version": skill.version,
            "form": skill.form,
            "code": skill.code,
            "inputs": skill.input_schema,
            "status": skill.status,
            "warnings": loaded.warnings,
            "shims": shims,
            "tools": {need.tool: need.version for need in skill.tools},
        }

    async def _note(self, name: str, report: _Report, use: _Use) -> None:
        if name == "skill_began":
            use.calls += 1
            self._running.append(use)
            return
        if use in self._running:
            del self._running[len(self._running) - 1 - self._running[::-1].index(use)]
            use.seconds += min(max(report.seconds, 0.0), _MOST_SECONDS)
            if report.error is not None:
                use.failures += 1
                use.error = await self._guard.door.conceal(report.error[:_ERROR_CHARACTERS])


def _convert(arguments: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The guest asked in the wrong way: {error}.") from None


# Resolving an import


class SkillLoader:
    """Finds the skills that code imports."""

    def __init__(self, store: Store, tools: Tools, shelf: Shelf, compatibility: Compatibility) -> None:
        self._store = store
        self._tools = tools
        self._shelf = shelf
        self._compatibility = compatibility

    def narrowed(self, tools: Tools) -> "SkillLoader":
        """The same for principals that see only `tools`."""
        return variant(self, _tools=tools)

    async def visible(self, principal: str, view: Snapshot) -> list[Skill]:
        """The newest version of every skill that the code of `principal` can import, its own before the shared ones."""
        own, shared = namespaces_for(principal)
        by_name: dict[str, Skill] = {}
        places: tuple[tuple[str, SkillStatus], ...] = ((own, "active"), (own, "draft"), (shared, "active"))
        for namespace, status in places:
            for skill in await self._store.skills.newest((namespace,), status=status):
                if await self.is_visible(skill, principal, view):
                    by_name.setdefault(skill.name, skill)
        return list(by_name.values())

    async def records(self) -> dict[tuple[str, str], SkillRecord]:
        """The uses of each skill, all versions together, by namespace and name."""
        return combined(await self._store.skills.uses())

    async def is_visible(self, skill: Skill, principal: str, view: Snapshot) -> bool:
        """True if the principal may see every tool that this version reaches; else it does not exist for it.

        It reaches the tools of its code, those whose answers are in its examples, and those of the skills it imports.
        """
        if self._tools.views.are_whole(principal):
            return True
        waiting, known = [skill], {(skill.namespace, skill.name, skill.version)}
        while waiting:
            each = waiting.pop()
            tools = {need.tool for need in each.tools}.union(await self._recorded(each))
            if len(known) > _CLOSURE or not all([await self._may_see(tool, principal, view) for tool in tools]):
                return False
            places = [
                (namespace, need.name, need.version) for need in each.skills for namespace in namespaces_for(principal)
            ]
            for place in places:
                needed = await self._store.skills.get(*place, with_deleted=True, with_examples=False)
                if needed is not None and place not in known:
                    known.add(place)
                    waiting.append(needed)
        return True

    async def _recorded(self, skill: Skill) -> Sequence[str]:
        if skill.recorded is not None:
            return skill.recorded
        whole = await self._store.skills.get(skill.namespace, skill.name, skill.version, with_deleted=True)
        return () if whole is None else recorded_tools(whole.examples)

    async def _may_see(self, tool: str, principal: str, view: Snapshot) -> bool:
        """True if the principal may see the tool, or may see what it is called now, or might if it were listed."""
        if tool in view.tools:
            return True
        whole = self._tools.catalog.snapshot
        spec = whole.tools.get(tool) or await self._compatibility.renamed(tool, whole)
        if spec is None and (place := await self._store.releases.find_tool(tool)) is not None:
            releases = await self._store.releases.history(*place)
            spec = releases[0].spec if releases else None
        return spec is not None and self._tools.views.may_see(spec, principal)

    async def versions(self, namespace: str, name: str, principal: str, view: Snapshot) -> list[Skill]:
        """The versions of a name that the principal may see, the newest first, without examples."""
        kept = await self._store.skills.versions(namespace, name)
        return [each for each in kept if await self.is_visible(each, principal, view)]

    async def check_free(self, name: str, principal: str, view: Snapshot) -> None:
        """Raise `InvalidSkill` if a version of this name is hidden from the principal, be it deleted.

        Whatever the principal saved there would take the place of it, and its number would tell of it.
        """
        if self._tools.views.are_whole(principal):
            return
        table = self._store.skills
        for namespace in namespaces_for(principal):
            gone = [
                await table.get(namespace, name, each, with_deleted=True, with_examples=False)
                for each in await table.deleted(namespace, name)
            ]
            for each in (*await table.versions(namespace, name), *gone):
                if each is not None and not await self.is_visible(each, principal, view):
                    raise InvalidSkill(f"The name {name!r} is taken. Use another one.")

    async def load_for(
        self, principal: str, view: Snapshot, own: dict[str, Skill], name: str, version: str | None
    ) -> LoadedSkill:
        """Resolve an import. `own` holds skills that are not on the shelf yet: with each tool as recorded."""
        skill = own.get(name) if version is None else None
        if skill is None:
            return await self.resolve(name, version, principal, view)
        return LoadedSkill(skill=skill, checks=await self._pinned(skill, view))

    async def _pinned(self, skill: Skill, view: Snapshot) -> tuple[NeedCheck, ...]:
        """Checks that give the skill's own code each tool as it was when the skill was written."""
        checks = []
        for need in skill.tools:
            spec = view.tools.get(need.tool)
            if spec is not None and spec.digest == need.digest:
                continue
            release = await self._store.releases.get(need.tool, need.version)
            if release is None:
                raise SkillUnusable(f"The definition of {need.tool} {need.version} is no longer stored.")
            plan = Plan(before=release.spec, after=None)
            checks.append(NeedCheck(tool=need.tool, need=need.version, state="translated", plan=plan))
        return tuple(checks)

    async def resolve(
        self,
        name: str,
        version: str | None,
        principal: str,
        view: Snapshot,
        *,
        known: Known | None = None,
    ) -> LoadedSkill:
        """Resolve an import. `known` holds the skills that were looked up on the way here."""
        name, version = split_pin(name, version)
        checked: dict[str, tuple[NeedCheck, ...]] = {}
        needed: Known = {name: None} if known is None else known

        async def why_not(skill: Skill) -> str:
            checks = checked[skill.version] = await self._compatibility.check(skill, view)
            return await self._why_not(skill, checks, principal, view, needed)

        skill = await self._shelf.resolve(
            name,
            version,
            principal,
            why_not=why_not,
            is_visible=partial(self.is_visible, principal=principal, view=view),
        )
        return LoadedSkill(skill=skill, checks=checked[skill.version])

    async def _why_not(
        self,
        skill: Skill,
        checks: Sequence[NeedCheck],
        principal: str,
        view: Snapshot,
        known: Known,
    ) -> str:
        """The reason why a version cannot be used with the present tools and skills; empty if it can."""
        broken = next((check for check in checks if not check.is_usable), None)
        if broken is not None:
            return (
                f"it was written for {broken.tool} {broken.need}. {broken.reason}"
                f" Migrate it: sealyard migrate-skills --tool {broken.tool}."
            )
        for need in skill.skills:
            if need.name not in known:
                known[need.name] = await self._look_up(need.name, principal, view, known)
            needed = known[need.name]
            if needed is None:
                way = [each for each, found in known.items() if found is None]
                circle = " → ".join([*way[way.index(need.name) :], need.name])
                raise SkillUnusable(
                    f"These skills import each other in a circle: {circle}. Take one of the imports out."
                )
            if isinstance(needed, str):
                return f"it needs the skill {need.name}. {needed}"
            if Version.parse(needed.version).fit(need.version) in ("other_major", "older"):
                return (
                    f"it was written for the skill {need.name} {need.version}, which is at {needed.version} now. Look"
                    " at it, and save it again."
                )
        return ""

    async def _look_up(self, name: str, principal: str, view: Snapshot, known: Known) -> Skill | str:
        """A skill that another one imports, or the reason why it cannot be used. Each is looked up once."""
        if len(known) >= _CLOSURE:
            return f"More than {_CLOSURE} skills are needed for it. Make them need fewer."
        known[name] = None
        try:
            return (await self.resolve(name, None, principal, view, known=known)).skill
        except (SkillUnusable, UnknownSkill) as error:
            return str(error)


def combined(records: Iterable[SkillRecord]) -> dict[tuple[str, str], SkillRecord]:
    """Combine the records of all versions of each skill, by namespace and name; its version is the one used last."""
    found: defaultdict[tuple[str, str], list[SkillRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda each: each.last_used_at or 0.0):
        found[record.namespace, record.name].append(record)
    return {place: _combine(versions) for place, versions in found.items()}


def _combine(versions: list[SkillRecord]) -> SkillRecord:
    by_principal: defaultdict[str, list[UseShare]] = defaultdict(list)
    for each in versions:
        for share in each.shares:
            by_principal[share.principal].append(share)
    shares = [
        UseShare(principal=principal, **_sums(some, "uses calls failures"))
        for principal, some in sorted(by_principal.items())
    ]
    return msgspec.structs.replace(
        versions[-1],
        **_sums(versions, "uses calls failures seconds translated"),
        principals=len(shares) or max(each.principals for each in versions),
        last_error=next((each.last_error for each in reversed(versions) if each.last_error), None),
        shares=tuple(shares),
    )


def _sums(parts: Sequence[SkillRecord | UseShare], names: str) -> dict[str, Any]:
    return {name: sum(getattr(part, name) for part in parts) for name in names.split()}
