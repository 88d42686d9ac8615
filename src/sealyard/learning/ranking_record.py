"""How well learned orders did beside those by text alone, and how much they are to be trusted by that."""

import msgspec

from sealyard.learning.evidence import Evidence, faded

__all__ = ("Trust", "record_change")

_CAP = 20.0
_CAP_OF_OTHERS = 5.0
_PRINCIPALS = 64
_SLACK = 6.0
"""Keeps one or two bad orders from deciding."""
_WORST = 0.3
"""Who did worse by this share more often than better is not followed."""


class Trust(msgspec.Struct, array_like=True):
    """Better and worse orders, by principal. A principal is judged by its own first, and by others a little."""

    orders: Evidence = msgspec.field(default_factory=Evidence)
    """For: orders that put the wanted tool higher than text does. Against: orders that put it lower."""

    def add(self, principal: str, at: float, half_life: float, *, better: float = 0.0, worse: float = 0.0) -> None:
        """Count an order that put what was wanted higher, or lower, than text does."""
        self.orders.add(principal, at, half_life, yes=better, no=worse, cap=_CAP, most=_PRINCIPALS)

    def share(self, principal: str, now: float, half_life: float) -> float:
        """From 0, not at all, to 1. What the worst of the others found is left out: one alone cannot switch it off."""
        better = worse = 0.0
        others: list[tuple[float, float, float]] = []
        for who, (one, other, at) in self.orders.by.items():
            scale = faded(now - at, half_life)
            if who == principal:
                better, worse = one * scale, other * scale
            else:
                scale *= _CAP_OF_OTHERS / max(_CAP_OF_OTHERS, one + other)
                others.append(((other - one) * scale, one * scale, other * scale))
        for _, one, other in sorted(others)[:-1]:
            better, worse = better + one, worse + other
        excess = (worse - better) / (better + worse + _SLACK)
        return min(1.0, max(0.0, 1 - excess / _WORST))


def record_change(place: int, text_place: int) -> tuple[float, float]:
    """Better and worse, for a tool that was wanted and that text has at `text_place`, 0 for not at all."""
    if text_place == 0 or text_place > place:
        return 1.0, 0.0
    return (0.0, 1.0) if text_place < place else (0.0, 0.0)
