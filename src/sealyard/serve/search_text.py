"""What a search answers, as text: over MCP and over HTTP the same."""

from typing import Any

import msgspec

from sealyard.metrics import tokens
from sealyard.values import Hit, SearchAnswer

__all__ = ("search_text",)


def search_text(answer: SearchAnswer, unlisted: list[str], budget: int) -> str:
    """The answer as JSON within the budget: the worst hits keep only their names, or go, as many as it takes.

    `unlisted` are servers whose tools nobody knows yet.
    """
    hits = list(answer.hits)
    found: dict[str, Any] = {"tools": hits}
    if answer.unmatched:
        found["unmatched"] = answer.unmatched
    if answer.skills:
        found["skills"] = answer.skills
    if not hits:
        found["hint"] = f"None of {answer.total} tools fits. Use other words, or a server's name."
    if unlisted:
        found["not_available_yet"] = unlisted
    text = _encoded(found)
    for number in reversed(range(len(hits))):
        if tokens.fits(text, budget):
            return text
        hits[number] = Hit(name=hits[number].name, use=hits[number].use)
        found["hint"] = "Not all details fit. Search for one tool by its name to see them."
        text = _encoded(found)
    for part in ("skills", *["tools"] * len(hits), "unmatched", "not_available_yet"):
        if tokens.fits(text, budget):
            return text
        if part == "tools":
            hits.pop()
        else:
            found.pop(part, None)
        found["hint"] = "Not all tools fit. Ask for fewer, or search with other words."
        text = _encoded(found)
    return text


def _encoded(found: dict[str, Any]) -> str:
    return msgspec.json.encode(found).decode()
