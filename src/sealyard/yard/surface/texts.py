"""The texts that answer a search, the same over MCP and HTTP, and `save_skill`, `find_skills` and `load_skill`."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from sealyard import skills
from sealyard.metrics import tokens
from sealyard.values.skills import SHARED, FoundSkill, SavedSkill, Skill
from sealyard.values.tools import Hit, SearchAnswer, with_bounded_schemas

HIT_TOKENS = 60
"""For each hit that is asked for, unless in full: five hits, the default, cost at most 300 tokens on any catalog."""
_DESCRIPTIONS = (80, 60, 40, 20)
"""Lengths in characters to which descriptions are cut, one after the other, before any is left out."""
_NAMES = 10  # servers that are named beside hits. Searching for nothing names them all.
_MOST_VERSIONS = 10  # of a skill that are named beside its source: the newest, since code uses those


def search_text(
    answer: SearchAnswer,
    unlisted: list[str],
    budget: int,
    servers: Collection[str] | None = None,
    *,
    schemas: bool = False,
) -> str:
    """The answer as JSON within the budget: descriptions get shorter, then the worst hits lose theirs, then go.

    `unlisted` are servers that have not listed their tools yet. `servers` are all servers, for a search without words.
    """
    hits = [msgspec.structs.replace(hit, input_schema=None) for hit in answer.hits]
    found: dict[str, Any] = {"tools": hits}
    if answer.unmatched:
        found["unmatched"] = list(answer.unmatched)
    if answer.skills:
        found["skills"] = answer.skills
    if servers is not None:
        found["servers"] = sorted(servers)
    elif not answer.hits:
        found["hint"] = f"None of {answer.total} tools fits. Use other words, or a server's name."
    if unlisted:
        found["not_available_yet"] = _some(unlisted)
    text = _encoded(found)
    shorter = _shorter(found)
    while not tokens.fits(text, budget):
        if next(shorter, None) is None:
            break
        text = _encoded(found)
    if schemas and any(hit.input_schema for hit in answer.hits):
        schemas_of = {hit.name: hit.input_schema for hit in answer.hits}
        found["tools"] = with_bounded_schemas(
            msgspec.structs.replace(hit, input_schema=schemas_of[hit.name]) for hit in hits
        )
        text = _encoded(found)
    return text


def _shorter(found: dict[str, Any]) -> Iterator[bool]:
    """Remove something at each step, the least useful first, until nothing is left to remove."""
    hits: list[Hit] = found["tools"]
    for characters in _DESCRIPTIONS:
        hits[:] = [_cut(hit, characters) for hit in hits]
        yield True
    found["hint"] = "Not all details fit. Search for one tool by its name to see them."
    for number in reversed(range(len(hits))):
        hits[number] = Hit(name=hits[number].name, use=hits[number].use)
        yield True
    found["hint"] = "Not all tools fit. Ask for fewer, or search with other words."
    for part in ("skills", "unmatched", "not_available_yet"):
        if found.pop(part, None) is not None:
            yield True
    while len(hits) > 1:
        hits.pop()
        yield True
    names = found.get("servers", [])
    while len(names) > 1:
        del names[len(names) * 3 // 4 :]
        names.append("…")
        yield True
        names.pop()


def _cut(hit: Hit, characters: int) -> Hit:
    text = hit.description
    if text is None or len(text) <= characters or hit.signature is not None:  # a full answer keeps the best hits whole
        return hit
    return msgspec.structs.replace(hit, description=text[: characters - 1].rstrip() + "…")


def _some(names: list[str]) -> list[str]:
    return names if len(names) <= _NAMES else [*names[:_NAMES], f"… and {len(names) - _NAMES} more"]


def _encoded(found: dict[str, Any]) -> str:
    return msgspec.json.encode(found).decode()


def saved_text(saved: SavedSkill) -> str:
    """Return the answer to `save_skill`."""
    skill = saved.skill
    answer: dict[str, Any] = {
        "skill": skill.name,
        "version": skill.version,
        "status": skill.status,
        "use": f"from skills import {skill.name}",
        "signature": skills.signature_of(skill),
    }
    if skill.note:
        answer["note"] = skill.note
    failed = [
        {"example": number, "problem": example.problem}
        for number, example in enumerate(skill.examples, 1)
        if not example.passed
    ]
    if failed:
        answer["failed"] = failed[:3]
    if skill.tools:
        answer["tools"] = {need.tool: need.version for need in skill.tools}
    if saved.warnings:
        answer["warnings"] = saved.warnings
    return msgspec.json.encode(answer).decode()


def found_text(found: list[FoundSkill], budget: int) -> str:
    """As many of the skills that were found as fit a budget of tokens, the best first."""
    if not found:
        return '{"skills":[],"hint":"No skill fits. Write the code, and save it when it works."}'
    text = msgspec.json.encode({"skills": found}).decode()
    while len(found) > 1 and not tokens.fits(text, budget):
        found = found[:-1]
        text = msgspec.json.encode({"skills": found}).decode()
    return tokens.cut(text, budget)


def loaded_text(skill: Skill, warnings: Sequence[str], versions: list[str], budget: int) -> str:
    """A skill's source and facts about it, within four budgets: half of a source is of no use.

    It is plain text: in JSON every line end of the source would be escaped.
    """
    shared = ", shared" if skill.namespace == SHARED else ""
    lines = [
        f"{skill.name} {skill.version} ({skill.status}{shared}): {' '.join(skill.description.split())}",
        f"use: from skills import {skill.name}",
        f"signature: {skills.signature_of(skill)}",
    ]
    if skill.tools:
        lines.append(f"tools: {', '.join(f'{need.tool} {need.version}' for need in skill.tools)}")
    if skill.skills:
        lines.append(f"skills: {', '.join(f'{need.name} {need.version}' for need in skill.skills)}")
    if len(versions) > 1:
        lines.append(f"versions: {', '.join(versions[:_MOST_VERSIONS])}")
    lines += [f"warning: {warning}" for warning in warnings]
    return tokens.cut("\n".join([*lines, "", skill.code]), budget * 4)
