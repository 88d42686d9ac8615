"""How runs with one thing in common ended, by who ran them.

What a principal found itself counts for it in full. What another one found counts like five runs at most, however
often it ran them, and like two if nobody else ran any, so that nobody can make others believe what they like.
"""

import msgspec

from sealyard.learning.votes import CAP, faded

__all__ = ("Known", "Record", "shrunk")

_OWN = 60.0
"""So many runs are remembered of a principal: with more, the older ones count less."""
_LONE = 2.0
_PRINCIPALS = 16


class Known(msgspec.Struct, frozen=True):
    """What a record says to one principal."""

    failed: float = 0.0
    total: float = 0.0
    own_failed: float = 0.0
    """Of those, the principal's own."""
    accusers: int = 0
    """Other principals more than half of whose runs failed."""

    @property
    def share(self) -> float:
        """Of the runs that failed; 0 if there were none."""
        return self.failed / self.total if self.total else 0.0


class Record(msgspec.Struct, array_like=True, gc=False):
    """Runs that failed and runs that did not."""

    by: dict[str, tuple[float, float, float]] = {}
    """Failed, ended well, and when the two were last brought up to date. Who was heard last is at the end."""

    def add(self, principal: str, at: float, half_life: float, *, failed: bool) -> None:
        """Count a run. Sixteen principals are remembered, those who were heard last."""
        bad, good, since = self.by.pop(principal, (0.0, 0.0, at))
        now = max(at, since)
        before, weight = faded(now - since, half_life), faded(now - at, half_life)
        bad, good = bad * before + weight * failed, good * before + weight * (not failed)
        scale = min(1.0, _OWN / max(bad + good, _OWN))
        self.by[principal] = (bad * scale, good * scale, now)
        while len(self.by) > _PRINCIPALS:
            del self.by[next(iter(self.by))]

    def known(self, principal: str | None, now: float, half_life: float, *, lone: float = _LONE) -> Known:
        """What it says to a principal; None is somebody who ran nothing of it.

        One other principal that nobody else bears out counts like `lone` runs at most.
        """
        cap = CAP if len(self.by) - (principal in self.by) > 1 else lone
        failed = total = own_failed = 0.0
        accusers = 0
        for who, (bad, good, at) in self.by.items():
            weight = faded(now - at, half_life)
            if who == principal:
                own_failed = bad * weight
            else:
                weight *= min(1.0, cap / (bad + good))
                accusers += bad > good
            failed, total = failed + bad * weight, total + (bad + good) * weight
        return Known(failed, total, own_failed, accusers)

    def runs(self, now: float, half_life: float) -> float:
        """How many there were, of whomever, as they count at a time."""
        return sum((bad + good) * faded(now - at, half_life) for bad, good, at in self.by.values())

    @property
    def last_at(self) -> float:
        """When the last of them was heard of."""
        return max((at for _, _, at in self.by.values()), default=0.0)


def shrunk(prior: float, weight: float, known: Known, *, scale: float = 1.0) -> float:
    """The share that failed, as far as there were runs; with few of them it stays near `prior`."""
    return (prior * weight + known.failed * scale) / (weight + known.total * scale)
