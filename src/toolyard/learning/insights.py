"""What each part of learning says of itself: what it learned, from how much, and how often it was right."""

from collections.abc import Iterable

from msgspec import Struct

__all__ = ("MAX_ITEMS", "Insight", "PartInsights", "part_insights")

MAX_ITEMS = 50


class Insight(Struct, frozen=True, kw_only=True):
    """One thing learned. `subject` is a validated name and `text` a sentence of ours: neither holds foreign text."""

    kind: str
    subject: str
    text: str
    evidence: float
    principals: int
    told: int = 0
    right: int = 0
    last_at: float


class PartInsights(Struct, frozen=True, kw_only=True):
    """One part's record. `accuracy` is None while nothing that it told has been seen to come true or not."""

    part: str
    learned: int
    evidence: int
    told: int
    right: int
    accuracy: float | None
    items: tuple[Insight, ...]


def part_insights(
    part: str, items: Iterable[Insight], *, learned: int, evidence: int, told: int, right: int
) -> PartInsights:
    """The record of one part: its strongest items first, at most MAX_ITEMS, in one order for equal evidence."""
    ordered = sorted(items, key=lambda item: (-item.evidence, -item.last_at, item.kind, item.subject, item.text))
    return PartInsights(
        part=part,
        learned=learned,
        evidence=evidence,
        told=told,
        right=right,
        accuracy=right / told if told else None,
        items=tuple(ordered[:MAX_ITEMS]),
    )
