"""`/api/v1/skills`: what agents have saved."""

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sealyard.serve.api.declare import Call, Cursor, Limit, endpoint, from_cursor, page_of, view_of
from sealyard.serve.envelope import Refusal
from sealyard.skills import signature_of
from sealyard.values.skills import SHARED, Skill, SkillForm, SkillRecord, SkillStatus, namespaces_for


class SkillsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects skills."""

    query: Annotated[str, Meta(max_length=2_000, description="Words; without them all are listed.")] = ""
    limit: Limit = 50
    cursor: Cursor | None = None


class SkillQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a version and a namespace."""

    version: Annotated[str, Meta(max_length=50, description="Such as 1.2; the newest by default.")] | None = None
    namespace: Annotated[str, Meta(max_length=50, description="Of others; needs `observe`.")] | None = None


class SkillSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One skill in a list: its newest version, and figures over all versions."""

    namespace: str
    name: str
    version: str
    status: SkillStatus
    shared: bool
    use: str
    signature: str
    description: str
    tags: tuple[str, ...]
    author: str
    modified_at: float
    uses: int
    """Runs that used it."""
    failures: int
    last_used_at: float | None
    effectiveness: float | None
    """From 0 to 1; null if it has not been used yet."""


class SkillPage(msgspec.Struct, frozen=True, kw_only=True):
    """Skills: those that fit the words best first, or all in the order of their names."""

    skills: list[SkillSummary]
    total: int | None
    """Null where only the best were looked for."""
    next_cursor: str | None


class SkillToolNeed(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the code uses."""

    tool: str
    version: str


class SkillView(SkillSummary, frozen=True, kw_only=True):
    """One version of a skill."""

    form: SkillForm
    code: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    tools: list[SkillToolNeed]
    skills: list[str]
    """Other skills that it imports."""
    versions: list[str]
    note: str
    """The reason why it is not active."""
    warnings: list[str]


@endpoint("GET", "skills")
async def list_skills(call: Call[SkillsQuery, None]) -> SkillPage:
    """The skills that the principal's code can import, or all with `observe`."""
    query, yard = call.query, call.yard
    after = from_cursor(query.cursor, "skills", str)
    view = await yard.snapshot(call.principal)
    visible = await yard.skills.loading.visible(call.principal, view)
    records = await yard.skills.loading.records()
    if query.query.strip():
        found = await yard.skills.find(query.query, limit=query.limit, principal=call.principal)
        by_name = {each.name: each for each in visible}
        chosen = [by_name[each.name] for each in found if each.name in by_name]
        return SkillPage(skills=await _summaries(call, chosen, records), total=None, next_cursor=None)
    if call.whose is None:
        visible = await yard.skills.shelf.list_all()
    known = {_place(each): each for each in visible}
    rest = sorted(place for place in known if after is None or place > after)
    page, more = page_of("skills", rest, query.limit, str)
    chosen = [known[place] for place in page]
    return SkillPage(skills=await _summaries(call, chosen, records), total=len(known), next_cursor=more)


@endpoint("GET", "skills/{name}", errors=("not_found", "conflict"))
async def get_skill(call: Call[SkillQuery, None]) -> SkillView:
    """One skill, as the principal's code would import it, or of the namespace that is named."""
    query, yard, name = call.query, call.yard, call.path["name"]
    warnings: list[str] = []
    if query.namespace is None:
        loaded = await yard.skills.load(name, query.version, principal=call.principal)
        skill, warnings = loaded.skill, loaded.warnings
    else:
        if call.whose is not None and query.namespace not in namespaces_for(call.principal):
            message = f"{call.principal!r} may see its own skills and the shared ones alone. Leave namespace out."
            raise Refusal("forbidden", message)
        skill = await yard.skills.get(query.namespace, name, query.version or "", principal=call.whose)
    records = await yard.skills.loading.records()
    (summary,) = await _summaries(call, [skill], records)
    kept = await yard.skills.versions(skill.namespace, skill.name, principal=call.whose)
    shown = await _concealed(call, skill)
    return view_of(
        SkillView,
        shown,
        **msgspec.structs.asdict(summary)
        | {
            "tools": [view_of(SkillToolNeed, need) for need in shown.tools],
            "skills": [need.name for need in shown.skills],
            "versions": [each.version for each in kept],
            "warnings": warnings,
        },
    )


async def _summaries(
    call: Call[Any, Any], skills: list[Skill], records: dict[tuple[str, str], SkillRecord]
) -> list[SkillSummary]:
    return [_summary(await _concealed(call, each), records.get((each.namespace, each.name))) for each in skills]


async def _concealed(call: Call[Any, Any], skill: Skill) -> Skill:
    return await call.yard.skills.concealed(skill, principal=call.principal)


def _summary(skill: Skill, record: SkillRecord | None) -> SkillSummary:
    from_uses = None if record is None else record.effectiveness(now=time.time())
    return view_of(
        SkillSummary,
        skill,
        shared=skill.namespace == SHARED,
        use=f"from skills import {skill.name}",
        signature=signature_of(skill),
        uses=0 if record is None else record.uses,
        failures=0 if record is None else record.failures,
        last_used_at=None if record is None else record.last_used_at,
        effectiveness=None if from_uses is None else round(from_uses, 3),
    )


def _place(skill: Skill) -> str:
    """Sorts by name, then by namespace: unique, and in the order of the list."""
    return f"{skill.name} {skill.namespace}"
