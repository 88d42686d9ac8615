"""How many workers should wait, and with which packages loaded: told from when runs began and what they imported.

It only says what would be of use. The sandbox knows which packages its level has and how many workers are too many.
"""

from collections.abc import Iterable, Sequence

import msgspec

from sealyard.learning.evidence import put_last, trim

__all__ = ("Demand", "Wanted", "wanted")

_STARTS = 1_024
_PRINCIPALS = 64
_MODULES = 32  # of one principal: who imports a thousand strange names pushes out only its own
_BURST_SECONDS = 0.5  # about as long as it takes to fill the pool again
_SIZE_SECONDS = 900.0
_PACKAGE_SECONDS = 3 * 86_400.0
_LEAST_RUNS = 20
_ANY = "*"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What would have been of use lately."""

    size: int
    """How many workers should wait; 0 if nothing says that any should."""
    packages: tuple[str, ...]
    """The modules to import before any run, in the order in which they were offered."""


class Demand(msgspec.Struct, kw_only=True):
    """When the last runs began and what each principal imported last: at most 1,024 times, and 32 names each."""

    starts: list[float] = []
    imported: dict[str, dict[str, float]] = {}
    """By principal, then by module: when last. Both with the one heard last at the end."""

    def ran(self, at: float, principal: str, imports: Iterable[str] | None) -> None:
        """Take note of a run that began at `at`; `None` if nobody knows what it imported."""
        self.starts.append(at)
        del self.starts[:-_STARTS]
        names = [_ANY] if imports is None else list(imports)
        if not names:
            return
        mine = put_last(self.imported, principal, self.imported.get(principal, {}), _PRINCIPALS)
        for name in names:
            mine[name] = max(at, mine.pop(name, at))
        trim(mine, _MODULES)


def wanted(demands: Sequence[Demand], *, now: float, offered: Sequence[str]) -> Wanted:
    """What all of `demands` together ask for.

    As many workers as began at about the same time, if that happened twice in the last quarter of an hour: once is
    chance. Of the packages, those that were imported in the last three days; all, if too little is known to leave one
    out: importing one takes a run half a second, having it costs little.
    """
    starts = [at for demand in demands for at in demand.starts if at <= now]
    return Wanted(
        size=_repeated_burst(sorted(at for at in starts if now - at < _SIZE_SECONDS)),
        packages=_imported(demands, sum(now - at < _PACKAGE_SECONDS for at in starts), now, offered),
    )


def _repeated_burst(starts: Sequence[float]) -> int:
    bursts = [0, 0]
    first = float("-inf")
    for at in starts:
        if at - first > _BURST_SECONDS:
            first = at
            bursts.append(0)
        bursts[-1] += 1
    return sorted(bursts)[-2]


def _imported(demands: Sequence[Demand], runs: int, now: float, offered: Sequence[str]) -> tuple[str, ...]:
    lately = {
        name
        for demand in demands
        for modules in demand.imported.values()
        for name, at in modules.items()
        if now - at < _PACKAGE_SECONDS
    }
    if runs < _LEAST_RUNS or _ANY in lately:
        return tuple(offered)
    return tuple(name for name in offered if name in lately)
