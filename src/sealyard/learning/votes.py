"""Evidence that fades, and of which nobody can give more than their share."""

import msgspec

__all__ = ("CAP", "Tally", "Votes", "faded")

CAP = 5.0
"""What one principal can add to anything: who says a thing a thousand times is heard like who says it five times."""
_PRINCIPALS = 16
_HEARD = 0.05
"""What is left of a voice that still counts as one: a single word is heard for about four half-lives."""


class Tally(msgspec.Struct, frozen=True):
    """What votes add up to."""

    yes: float = 0.0
    no: float = 0.0
    principals: int = 0
    """How many say yes rather than no, and lately enough to be heard."""

    @property
    def total(self) -> float:
        """Both."""
        return self.yes + self.no

    @property
    def share(self) -> float:
        """Of those who said yes, held back while few have said anything: between 0 and 1, one half for nobody."""
        return (self.yes + 1) / (self.total + 2)


class Votes(msgspec.Struct, array_like=True, gc=False):
    """What principals found of one thing. There are so many that collecting garbage must not look at each."""

    by: dict[str, tuple[float, float, float]] = {}
    """Yes, no, and when the two were last brought up to date. The principal that was heard last is at the end."""

    def add(self, principal: str, at: float, half_life: float, *, yes: float = 0.0, no: float = 0.0) -> None:
        """Count what a principal found at a time. Sixteen are remembered, those who were heard last."""
        had_yes, had_no, had_at = self.by.pop(principal, (0.0, 0.0, at))
        now = max(at, had_at)
        before, since = faded(now - had_at, half_life), faded(now - at, half_life)
        new_yes, new_no = had_yes * before + yes * since, had_no * before + no * since
        scale = min(1.0, CAP / max(new_yes + new_no, CAP))
        self.by[principal] = (new_yes * scale, new_no * scale, now)
        while len(self.by) > _PRINCIPALS:
            del self.by[next(iter(self.by))]

    def tally(self, now: float, half_life: float, *, only: str | None = None) -> Tally:
        """What all of them, or one, found, as it counts at a time."""
        yes = no = 0.0
        principals = 0
        for principal, (one, other, at) in self.by.items():
            if only is None or only == principal:
                share = faded(now - at, half_life)
                yes, no = yes + one * share, no + other * share
                principals += one > other and one * share >= _HEARD
        return Tally(yes, no, principals)


def faded(age: float, half_life: float) -> float:
    """What something counts that happened `age` seconds ago. A clock that was set back makes nothing count more."""
    return 1.0 if age <= 0 else float(2.0 ** (-age / half_life))
