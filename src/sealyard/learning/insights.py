"""What each part of learning says of itself: what it learned, from how much, and how often it was right."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

__all__ = ("MAX_ITEMS", "Insight", "PartInsights", "merged", "part_insights")

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


def merged(part: str, found: Sequence[PartInsights]) -> PartInsights:
    """What several models say of one part."""
    return part_insights(
        part,
        [item for each in found for item in each.items],
        learned=sum(each.learned for each in found),
        evidence=sum(each.evidence for each in found),
        told=sum(each.told for each in found),
        right=sum(each.right for each in found),
    )
