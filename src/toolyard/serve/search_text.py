"""What a search answers, as text: over MCP and over HTTP the same."""

from typing import Any

import msgspec

from toolyard.metrics import tokens
from toolyard.values import Hit, SearchAnswer

__all__ = ("search_text",)


def search_text(answer: SearchAnswer, unlisted: list[str], budget: int) -> str:
    """The answer as JSON within the budget: the worst hits keep only their names, as many as it takes.

    `unlisted` are servers whose tools nobody knows yet.
    """
    found: dict[str, Any] = {"tools": list(answer.hits)}
    if answer.unmatched:
        found["unmatched"] = answer.unmatched
    if not answer.hits:
        found["hint"] = f"None of {answer.total} tools fits. Use other words, or a server's name."
    if unlisted:
        found["not_available_yet"] = unlisted
    text = msgspec.json.encode(found).decode()
    for number in reversed(range(len(answer.hits))):
        if tokens.fits(text, budget):
            break
        hit = answer.hits[number]
        found["tools"][number] = Hit(name=hit.name, use=hit.use)
        found["hint"] = "Not all details fit. Search for one tool by its name to see them."
        text = msgspec.json.encode(found).decode()
    return tokens.cut(text, budget)
