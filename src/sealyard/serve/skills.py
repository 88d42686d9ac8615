"""`save_skill`, `find_skills` and `load_skill` on the wire: arguments in, texts out."""

from typing import Any

import msgspec

from sealyard.errors import InvalidRequest, SealyardError
from sealyard.metrics import tokens
from sealyard.skills.reading import signature_of
from sealyard.values import SHARED
from sealyard.yard import Yard
from sealyard.yard.skill_session import LoadedSkill
from sealyard.yard.skill_values import FoundSkill, SavedSkill, SaveSkill

__all__ = ("SKILL_TOOLS", "answer_skill_tool")

_MOST_VERSIONS = 10


class _FindArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str = ""
    limit: int = 5


class _LoadArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    version: str | None = None


async def _save(yard: Yard, asked: SaveSkill, principal: str) -> str:
    return _saved_text(await yard.skills.save(asked, principal=principal))


async def _find(yard: Yard, asked: _FindArguments, principal: str) -> str:
    found = await yard.skills.find(asked.query, limit=asked.limit, principal=principal)
    return _found_text(found, yard.result_tokens)


async def _load(yard: Yard, asked: _LoadArguments, principal: str) -> str:
    loaded = await yard.skills.load(asked.name, asked.version, principal=principal)
    kept = await yard.store.skills.statuses((loaded.skill.namespace,), loaded.skill.name)
    return tokens.cut(_loaded_text(loaded, [version for _, version, _ in kept]), yard.result_tokens * 4)


SKILL_TOOLS: dict[str, tuple[type[Any], Any]] = {
    "save_skill": (SaveSkill, _save),
    "find_skills": (_FindArguments, _find),
    "load_skill": (_LoadArguments, _load),
}
"""Each tool's arguments, and what answers it."""


async def answer_skill_tool(yard: Yard, name: str, arguments: dict[str, Any], principal: str) -> str:
    """The text that answers a call. Raises a `SealyardError` that says what is wrong with it."""
    kind, answer = SKILL_TOOLS[name]
    try:
        asked = msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise InvalidRequest(f"The arguments of {name} are wrong: {error}. It takes {known}.") from None
    try:
        text: str = await answer(yard, asked, principal)
    except SealyardError as error:  # it may quote what was asked
        guard = await yard.guards.of(f"{principal}:default")
        raise type(error)(await guard.door.conceal(str(error))) from None
    return text


def _saved_text(saved: SavedSkill) -> str:
    skill = saved.skill
    told: dict[str, Any] = {
        "skill": skill.name,
        "version": skill.version,
        "status": skill.status,
        "use": f"from skills import {skill.name}",
        "signature": signature_of(skill),
    }
    if skill.note:
        told["note"] = skill.note
    failed = [
        {"example": number, "problem": example.problem}
        for number, example in enumerate(skill.examples, 1)
        if not example.passed
    ]
    if failed:
        told["failed"] = failed[:3]
    if skill.tools:
        told["tools"] = {need.tool: need.version for need in skill.tools}
    if saved.warnings:
        told["warnings"] = saved.warnings
    return msgspec.json.encode(told).decode()


def _found_text(found: list[FoundSkill], budget: int) -> str:
    if not found:
        return '{"skills":[],"hint":"No skill fits. Write the code, and save it when it works."}'
    text = msgspec.json.encode({"skills": found}).decode()
    while len(found) > 1 and not tokens.fits(text, budget):
        found = found[:-1]
        text = msgspec.json.encode({"skills": found}).decode()
    return tokens.cut(text, budget)


def _loaded_text(loaded: LoadedSkill, versions: list[str]) -> str:
    """Plain text: source in JSON would be read with every line end escaped."""
    skill = loaded.skill
    shared = ", shared" if skill.namespace == SHARED else ""
    lines = [
        f"{skill.name} {skill.version} ({skill.status}{shared}): {' '.join(skill.description.split())}",
        f"use: from skills import {skill.name}",
        f"signature: {signature_of(skill)}",
    ]
    if skill.tools:
        lines.append(f"tools: {', '.join(f'{need.tool} {need.version}' for need in skill.tools)}")
    if skill.skills:
        lines.append(f"skills: {', '.join(f'{need.name} {need.version}' for need in skill.skills)}")
    if len(versions) > 1:
        lines.append(f"versions: {', '.join(versions[:_MOST_VERSIONS])}")
    lines += [f"warning: {warning}" for warning in loaded.warnings]
    return "\n".join([*lines, "", skill.code])
