"""Whether what was predicted came true, and how to predict better for it.

Two things are counted, both from the journal. What agents were told: of the runs told each level, how many failed. And
what the estimate alone would have said of each run before it, in steps: from that the next estimates are corrected. The
estimate is what is corrected, never what was told, so that a correction is not corrected again.
"""

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from sealyard.learning.evidence import Evidence, shrunk
from sealyard.values import Risk

__all__ = ("EDGES", "LEVELS", "Calibration", "Curve", "Level", "isotonic")

EDGES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LEVELS: tuple[Risk, ...] = ("low", "medium", "high", "critical")
_WEIGHT = 6.0
_MEAN_OF = 200
_LEAST, _MOST = 0.01, 0.99


class Level(msgspec.Struct, array_like=True):
    """What became of the runs that were told one level, and were run."""

    told: int = 0
    failed: int = 0
    expected: float = 0.0
    """The sum of the chances that they were told."""
    record: Evidence = msgspec.field(default_factory=Evidence)


class Step(msgspec.Struct, array_like=True):
    """The runs whose estimate was between two edges."""

    mean: float = 0.0
    count: int = 0
    record: Evidence = msgspec.field(default_factory=Evidence)


class Calibration(msgspec.Struct, array_like=True):
    """What was predicted, and what then happened."""

    levels: dict[str, Level] = {}
    steps: list[Step] = []

    def add_told(self, risk: Risk, chance: float, principal: str, at: float, half_life: float, *, failed: bool) -> None:
        """A run that was told `risk` was run, and is over."""
        level = self.levels.setdefault(risk, Level())
        level.told += 1
        level.failed += failed
        level.expected += chance
        level.record.add_run(principal, at, half_life, failed=failed)

    def add(self, estimate: float, principal: str, at: float, half_life: float, *, failed: bool) -> None:
        """A run for which `estimate` was right before it is over."""
        if not self.steps:
            self.steps = [Step() for _ in range(len(EDGES) + 1)]
        step = self.steps[bisect_right(EDGES, estimate)]
        step.count = min(step.count + 1, _MEAN_OF)
        step.mean += (estimate - step.mean) / step.count
        step.record.add_run(principal, at, half_life, failed=failed)

    def curve(self, principal: str, now: float, half_life: float) -> "Curve":
        """How estimates for a principal are to be corrected.

        What became of one other principal's runs alone is no reason to correct anything.
        """
        points = [
            (step.mean, step.record.known(principal, now, half_life, lone=0.0)) for step in self.steps if step.count
        ]
        shares = [shrunk(mean, _WEIGHT, known) for mean, known in points]
        shares = isotonic(shares, [_WEIGHT + known.total for _, known in points])
        return Curve(tuple(mean for mean, _ in points), tuple(shares))


class Curve(NamedTuple):
    """What estimates were, and what they should have been, both rising."""

    means: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    def corrected(self, estimate: float) -> float:
        """The estimate as it should have been, going by those before it: a higher one never comes out lower."""
        means, shares = self.means, self.shares
        if not means:
            return min(max(estimate, _LEAST), _MOST)
        at = bisect_right(means, estimate)
        if at == 0 or at == len(means):
            near = min(at, len(means) - 1)
            found = estimate + (shares[near] - means[near])
        else:
            part = (estimate - means[at - 1]) / (means[at] - means[at - 1])
            found = shares[at - 1] + part * (shares[at] - shares[at - 1])
        return min(max(found, _LEAST), _MOST)


def isotonic(shares: list[float], weights: list[float]) -> list[float]:
    """The nearest row of numbers, by weighted squares, in which none is smaller than the one before."""
    blocks: list[tuple[float, float, int]] = []
    for share, weight in zip(shares, weights, strict=True):
        blocks.append((share, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, mine, count), (other, theirs, more) = blocks[-2:]
            blocks[-2:] = [((one * mine + other * theirs) / (mine + theirs), mine + theirs, count + more)]
    return [share for share, _, count in blocks for _ in range(count)]
