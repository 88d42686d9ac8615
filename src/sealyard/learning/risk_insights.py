"""What the risk part says of itself."""

from collections.abc import Iterator, Sequence

from sealyard.learning.evidence import Evidence
from sealyard.learning.insights import Insight
from sealyard.learning.risk_calibration import LEVELS, Calibration

__all__ = ("insights_of", "score")

_TELLING_RUNS = 3.0
_TELLING_SHARE = 0.3


def score(calibration: Calibration) -> tuple[int, int]:
    """How many runs were told that they would end well or fail, and of how many that was right.

    `medium` says neither, so it is not among them.
    """
    told = right = 0
    for risk, level in calibration.levels.items():
        if risk != "medium":
            told += level.told
            right += level.told - level.failed if risk == "low" else level.failed
    return told, right


def insights_of(
    calibration: Calibration, tools: Sequence[tuple[str, Evidence]], now: float, half_life: float
) -> Iterator[Insight]:
    """The share of runs that failed, for each level and for each tool whose runs often do."""
    for risk in LEVELS:
        level = calibration.levels.get(risk)
        if level is None:
            continue
        share, expected = level.failed / level.told, level.expected / level.told
        yield Insight(
            kind="risk",
            subject=risk,
            text=f"Of {level.told:,} runs told {risk}, {share:.0%} failed; {expected:.0%} was expected.",
            evidence=level.record.tally(now, half_life).total,
            principals=len(level.record.by),
            told=level.told,
            right=level.told - level.failed if risk == "low" else level.failed,
            last_at=level.record.last_at,
        )
    for name, record in tools:
        known = record.known(None, now, half_life)
        runs = record.tally(now, half_life).total
        if runs >= _TELLING_RUNS and known.share >= _TELLING_SHARE:
            yield Insight(
                kind="tool",
                subject=name,
                text=f"Of the runs with {name}, {known.share:.0%} failed.",
                evidence=runs,
                principals=len(record.by),
                last_at=record.last_at,
            )
