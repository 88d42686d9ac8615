"""The texts that answer `save_skill`, `find_skills` and `load_skill`."""

from typing import Any

import msgspec

from sealyard.metrics import tokens
from sealyard.skills.reading import signature_of
from sealyard.skills.requests import FoundSkill, SavedSkill
from sealyard.skills.session import LoadedSkill
from sealyard.values import SHARED

__all__ = ("found_text", "loaded_text", "saved_text")

_MOST_VERSIONS = 10


def saved_text(saved: SavedSkill) -> str:
    """What became of a skill that was saved."""
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


def found_text(found: list[FoundSkill], budget: int) -> str:
    """As many of the skills that were found as fit a budget of tokens, the best first."""
    if not found:
        return '{"skills":[],"hint":"No skill fits. Write the code, and save it when it works."}'
    text = msgspec.json.encode({"skills": found}).decode()
    while len(found) > 1 and not tokens.fits(text, budget):
        found = found[:-1]
        text = msgspec.json.encode({"skills": found}).decode()
    return tokens.cut(text, budget)


def loaded_text(loaded: LoadedSkill, versions: list[str], budget: int) -> str:
    """A skill's source and what is known of it, within four budgets: nobody can use half of a source.

    It is plain text: source in JSON would be read with every line end escaped.
    """
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
    return tokens.cut("\n".join([*lines, "", skill.code]), budget * 4)
