"""Finds the version of a skill that an import gets: one that the principal may know of and whose needs still fit."""

from collections.abc import Sequence
from functools import partial

from sealyard.catalog import Catalog, Snapshot
from sealyard.errors import SkillUnusable, UnknownSkill
from sealyard.skills.compatibility import Compatibility, NeedCheck
from sealyard.skills.session import LoadedSkill
from sealyard.skills.shelf import CLOSURE, Shelf, namespaces_for, split_pin
from sealyard.store import Store
from sealyard.values import Skill, SkillStatus, ToolNeed, ToolSpec
from sealyard.versioning import Plan
from sealyard.versioning.compare import fit

_Known = dict[str, Skill | str | None]
"""Skills by the names that others import them by, or why they cannot be had; None while that is looked up."""


class SkillLoading:
    """Finds the skills that code imports."""

    def __init__(self, store: Store, catalog: Catalog, shelf: Shelf, compatibility: Compatibility) -> None:
        self._store = store
        self._catalog = catalog
        self._shelf = shelf
        self._compatibility = compatibility

    async def visible(self, principal: str, view: Snapshot) -> list[Skill]:
        """The newest version of every skill that code of `principal` can import, its own before the shared ones."""
        own, shared = namespaces_for(principal)
        by_name: dict[str, Skill] = {}
        places: tuple[tuple[str, SkillStatus], ...] = ((own, "active"), (own, "draft"), (shared, "active"))
        for namespace, status in places:
            for skill in await self._store.skills.newest((namespace,), status=status):
                if await self._is_visible(skill, view):
                    by_name.setdefault(skill.name, skill)
        return list(by_name.values())

    async def _is_visible(self, skill: Skill, view: Snapshot) -> bool:
        """Whether no tool that it needs exists, by its old name or a new one, and is not for this principal.

        Else the skill does not exist for it either.
        """
        whole = self._catalog.snapshot
        for need in skill.tools:
            if need.tool in view.tools:
                continue
            spec = whole.tools.get(need.tool) or await self._compatibility.renamed(need.tool, whole)
            if spec is not None and spec.full_name not in view.tools:
                return False
        return True

    async def load_for(
        self, principal: str, view: Snapshot, own: dict[str, Skill], name: str, version: str | None
    ) -> LoadedSkill:
        """What an import gets; `own` are skills that are not on the shelf yet, with every need as it was written."""
        skill = own.get(name) if version is None else None
        if skill is None:
            return await self.resolve(name, version, principal, view)
        return LoadedSkill(skill=skill, checks=await self._pinned(skill, view))

    async def _pinned(self, skill: Skill, view: Snapshot) -> tuple[NeedCheck, ...]:
        """Checks that give the skill's own code every tool as it was when it was written."""
        checks = []
        for need in skill.tools:
            spec = view.tools.get(need.tool)
            if spec is not None and spec.digest == need.digest:
                continue
            before = await self._definition(need)
            plan = Plan(before=before, after=None)
            checks.append(NeedCheck(tool=need.tool, need=need.version, state="translated", plan=plan))
        return tuple(checks)

    async def _definition(self, need: ToolNeed) -> ToolSpec:
        release = await self._store.releases.get(need.tool, need.version)
        if release is None:
            raise SkillUnusable(f"The definition of {need.tool} {need.version} is not kept any more.")
        return release.spec

    async def resolve(
        self,
        name: str,
        version: str | None,
        principal: str,
        view: Snapshot,
        *,
        is_deep: bool = True,
        known: _Known | None = None,
    ) -> LoadedSkill:
        """What an import gets. `known` are the skills that were looked up on the way here."""
        name, version = split_pin(name, version)
        checked: dict[str, tuple[NeedCheck, ...]] = {}
        needed: _Known = {name: None} if known is None else known

        async def why_not(skill: Skill) -> str:
            checks = checked[skill.version] = await self._compatibility.check(skill, view)
            return await self._why_not(skill, checks, principal, view, needed if is_deep else None)

        skill = await self._shelf.resolve(
            name, version, principal, why_not=why_not, is_visible=partial(self._is_visible, view=view)
        )
        return LoadedSkill(skill=skill, checks=checked[skill.version])

    async def _why_not(
        self,
        skill: Skill,
        checks: Sequence[NeedCheck],
        principal: str,
        view: Snapshot,
        known: _Known | None,
    ) -> str:
        """Why a version cannot be used with the tools and skills that are there; empty if it can."""
        broken = next((check for check in checks if not check.is_usable), None)
        if broken is not None:
            return (
                f"it was written for {broken.tool} {broken.need}. {broken.reason}"
                f" Migrate it: sealyard migrate-skills --tool {broken.tool}."
            )
        if known is None:
            return ""
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
            if fit(need.version, needed.version) in ("other_major", "older"):
                return (
                    f"it was written for the skill {need.name} {need.version}, which is at {needed.version} now. Look"
                    " at it, and save it again."
                )
        return ""

    async def _look_up(self, name: str, principal: str, view: Snapshot, known: _Known) -> Skill | str:
        """A skill that another one imports, or why it cannot be had. Each is looked up once, however many need it."""
        if len(known) >= CLOSURE:
            return f"More than {CLOSURE} skills are needed for it. Make them need fewer."
        known[name] = None
        try:
            return (await self.resolve(name, None, principal, view, known=known)).skill
        except (SkillUnusable, UnknownSkill) as error:
            return str(error)
