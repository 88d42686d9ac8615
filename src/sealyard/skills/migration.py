"""Migration of skills to a changed tool: rewritten, proven by replay, and only then kept.

The old version stays. A skill that cannot be rewritten or proven is left as it is, with the reason.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from sealyard.catalog import Snapshot
from sealyard.errors import HelperFailed, InvalidRequest, SkillUnusable, UnknownTool
from sealyard.skills.service import Skills, foreseen
from sealyard.values.changes import major_of, matches
from sealyard.values.skills import (
    SHARED,
    MigratedSkill,
    Skill,
    SkillExample,
    ToolNeed,
    Trace,
    TraceCall,
    principal_of,
)
from sealyard.values.tools import ToolSpec
from sealyard.versioning import Plan, Untranslatable, adapt_answer, translate_arguments
from sealyard.versioning.migrate import diff, rewrite_beside


async def migrate_skills(
    skills: Skills,
    tool: str,
    *,
    from_version: str | None = None,
    to_version: str | None = None,
    names: Sequence[str] = (),
    renames: Mapping[str, str] | None = None,
    is_dry: bool = False,
    principal: str = "local",
) -> list[MigratedSkill]:
    """Migrate the version in use of every skill that needs another version of `tool` than the current one.

    `renames` maps what cannot be guessed to its new name: the old name of a parameter, or `output.` and the path of a
    field of the answer. A dry run does everything but keep the result.

    Raises:
        UnknownTool: There is no such tool, and there never was.
        InvalidRequest: `to_version` is not the current version of the tool.
    """
    view = await skills.tools.view()
    tool, spec = await _find_target(skills, view, tool)
    if to_version is not None and not matches(to_version, spec.version):
        raise InvalidRequest(
            f"{spec.full_name} is at {spec.version}, not at {to_version}. Skills can be migrated to what"
            " is there; leave --to out for that."
        )
    done = []
    for skill, need in await _find_skills(skills, tool, spec, from_version, names):
        started = time.perf_counter()
        result = await _migrate(skills, skill, need, spec, view, renames, is_dry=is_dry, principal=principal)
        result = msgspec.structs.replace(result, seconds=time.perf_counter() - started)
        if not is_dry:
            result = msgspec.structs.replace(result, at=time.time())
            await skills.store.skills.record_migration(result)
            event = "migrated" if result.outcome == "migrated" else "migration_refused"
            skills.observer.skill(event, principal)
        done.append(result)
    return done


async def _find_target(skills: Skills, view: Snapshot, tool: str) -> tuple[str, ToolSpec]:
    """Find the full name by which skills call a tool, and the tool as it is now. Raises `UnknownTool`."""
    spec = view.find(tool)
    if spec is not None:
        return spec.full_name, spec
    follower = await skills.compatibility.renamed(tool, view)
    if follower is not None:
        return tool, follower
    if await skills.store.releases.find_tool(tool) is not None:
        raise UnknownTool(f"{tool} no longer exists, and no tool replaced it. Its skills cannot be migrated.")
    nearest = ", ".join(view.nearest(tool)) or "none is like it"
    raise UnknownTool(f"No tool named {tool!r}. Nearest: {nearest}.")


async def _find_skills(
    skills: Skills, tool: str, spec: ToolSpec, from_version: str | None, names: Sequence[str]
) -> list[tuple[Skill, ToolNeed]]:
    """The versions in use that need another version of the tool than the current one."""
    found = []
    for skill in await skills.shelf.list_used():  # an imported or failing newer version waits
        if names and skill.name not in names:
            continue
        for need in skill.tools:
            is_old = need.digest != spec.digest or need.tool != spec.full_name
            if need.tool == tool and is_old and (from_version is None or matches(from_version, need.version)):
                found.append((await skills.get(skill.namespace, skill.name, skill.version), need))
    return found


async def _migrate(
    skills: Skills,
    skill: Skill,
    need: ToolNeed,
    spec: ToolSpec,
    view: Snapshot,
    renames: Mapping[str, str] | None,
    *,
    is_dry: bool,
    principal: str,
) -> MigratedSkill:
    result = MigratedSkill(
        namespace=skill.namespace,
        name=skill.name,
        from_version=skill.version,
        tool=need.tool,
        tool_from=need.version,
        tool_to=spec.version,
        predicted="impossible",
        outcome="refused",
    )
    plan = await skills.compatibility.make_plan(need, spec, renames)
    if plan is None:
        reason = f"The definition of {need.tool} {need.version} is no longer stored."
        return msgspec.structs.replace(result, reason=reason)
    try:
        migration = await rewrite_beside(
            skill.code, plan, form=skill.form, name=skill.name, offload=skills.guards.offload, who=principal
        )
    except HelperFailed as error:
        return msgspec.structs.replace(result, reason=f"The code could not be read: {error}")
    predicted = foreseen(migration.difficulty, skill)
    result = msgspec.structs.replace(result, predicted=predicted, change=_change_of(plan))
    if migration.refusals:
        reasons = [f"Line {each.line}: {each.reason}" for each in migration.refusals[:3]]
        return msgspec.structs.replace(result, reason=" ".join(reasons))
    result = msgspec.structs.replace(result, diff=diff(skill.code, migration.code, skill.name))
    try:
        fresh = _rewritten(skill, migration.code, need, spec, plan)
        proven = await _prove(skills, fresh, view, principal)
    except SkillUnusable as error:
        return msgspec.structs.replace(result, outcome="failed", reason=str(error))
    result = msgspec.structs.replace(result, outcome="migrated", examples=sum(each.passed for each in proven.examples))
    if is_dry:
        return result
    kept = await skills.keep(proven, principal=principal)
    return msgspec.structs.replace(result, to_version=kept.version)


def _rewritten(skill: Skill, code: str, need: ToolNeed, spec: ToolSpec, plan: Plan) -> Skill:
    """The skill with its new code and its examples as the new tool would answer them. Raises `SkillUnusable`."""
    lines = need.lines
    tools = tuple(
        ToolNeed(tool=spec.full_name, version=spec.version, digest=spec.digest, lines=lines) if each == need else each
        for each in skill.tools
    )
    examples = []
    for number, example in enumerate(skill.examples, 1):
        if not example.passed or example.trace is None:
            continue
        try:
            examples.append(msgspec.structs.replace(example, trace=_adapted(example.trace, need, spec, plan)))
        except Untranslatable as error:
            raise SkillUnusable(f"Example {number} cannot be carried over: {error}") from None
    if not examples:
        raise SkillUnusable("It has no example that passed, so nothing can prove the new code. Save it again with one.")
    return msgspec.structs.replace(
        skill,
        code=code,
        tools=tools,
        examples=tuple(examples),
        origin=f"migration of {skill.version}",
    )


def _adapted(trace: Trace, need: ToolNeed, spec: ToolSpec, plan: Plan) -> Trace:
    """The recording as the new tool would have made it."""
    major = major_of(need.version)
    calls = [
        TraceCall(
            tool=spec.full_name,
            version=spec.version,
            arguments=translate_arguments(plan, call.arguments),
            answer=call.answer if call.error is not None else adapt_answer(plan, call.answer),
            error=call.error,
            missing=call.missing,
        )
        if call.tool == need.tool and major_of(call.version) == major
        else call
        for call in trace.calls
    ]
    return msgspec.structs.replace(trace, calls=tuple(calls))


async def _prove(skills: Skills, skill: Skill, view: Snapshot, principal: str) -> Skill:
    """The skill with its examples replayed. Raises `SkillUnusable` unless all of them pass."""
    owner = principal if skill.namespace == SHARED else principal_of(skill.namespace)
    load = partial(skills.loading.load_for, owner, view, {skill.name: skill})
    examples: list[SkillExample] = []
    for number, example in enumerate(skill.examples, 1):
        replayed = (await skills.rehearsals.replay(skill, example, principal=principal, load=load, view=view)).example
        if not replayed.passed:
            raise SkillUnusable(f"Example {number} does not pass with the new code: {replayed.problem}")
        examples.append(replayed)
    return msgspec.structs.replace(skill, examples=tuple(examples))


def _change_of(plan: Plan) -> str:
    """The kind of a change: the sorted names of its steps and obstacles."""
    steps = {step.__struct_config__.tag for step in plan.steps}
    obstacles = {f"no_answer_{obstacle.side}" for obstacle in plan.obstacles}
    return "+".join(sorted(map(str, steps | obstacles))) or "none"
