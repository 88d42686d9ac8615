"""What a search answers, as text: over MCP and over HTTP the same."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from sealyard.metrics import tokens
from sealyard.values import Hit, SearchAnswer
from sealyard.yard import Yard

__all__ = ("search", "search_text")

_HIT_TOKENS = 60
"""For each hit that is asked for, unless in full: five hits, the default, cost at most 300 tokens on any catalog."""
_DESCRIPTIONS = (80, 60, 40, 20)
"""To how many characters descriptions are cut, one after the other, before any of them is left out."""
_NAMES = 10
"""Servers that are named beside hits. Searching for nothing names them all."""


async def search(yard: Yard, query: str, *, detail_level: str, server: str | None, limit: int, principal: str) -> str:
    """Search for a principal, and answer within the budget. Without words and server it names the servers.

    Raises:
        InvalidRequest: There is no such server or detail level, or the limit is out of range.
    """
    answer = await yard.search(query, detail_level=detail_level, server=server, limit=limit, principal=principal)
    snapshot = yard.tools.catalog.snapshot
    unlisted = yard.tools.views.servers(yard.tools.finder.unlisted(), snapshot, principal)
    if not query.strip() and server is None:
        return search_text(
            answer,
            unlisted,
            yard.runner.result_tokens,
            yard.tools.views.servers(yard.tools.upstreams, snapshot, principal),
        )
    is_full = detail_level == "full"
    return search_text(
        answer, unlisted, yard.runner.result_tokens if is_full else min(yard.runner.result_tokens, _HIT_TOKENS * limit)
    )


def search_text(answer: SearchAnswer, unlisted: list[str], budget: int, servers: Collection[str] | None = None) -> str:
    """The answer as JSON within the budget: descriptions get shorter, then the worst hits lose theirs, then go.

    `unlisted` are servers whose tools nobody knows yet. `servers` are all there are, for a search without words.
    """
    found: dict[str, Any] = {"tools": list(answer.hits)}
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
    return text


def _shorter(found: dict[str, Any]) -> Iterator[bool]:
    """Takes something away at each step, what is missed least first, until nothing can go any more."""
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
    if text is None or len(text) <= characters or hit.signature is not None:  # who asked for all gets the best whole
        return hit
    return msgspec.structs.replace(hit, description=text[: characters - 1].rstrip() + "…")


def _some(names: list[str]) -> list[str]:
    return names if len(names) <= _NAMES else [*names[:_NAMES], f"… and {len(names) - _NAMES} more"]


def _encoded(found: dict[str, Any]) -> str:
    return msgspec.json.encode(found).decode()
