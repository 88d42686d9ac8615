"""Names in the config that match nothing. A rule with a misspelled tool has no effect, so it is reported."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from sealyard.catalog import Snapshot
from sealyard.config import Config
from sealyard.values.naming import full_name, upstream_part
from sealyard.values.tools import ToolSpec, glob
from sealyard.wording import closest

_log = logging.getLogger(__name__)

_ANYWHERE = ("local", "http", "operator")
"""Principals that no table of the config names: stdio, the shared token, and the key that the gateway prints."""
_COMPARED = 1_000
"""Bound on the names that one pattern is compared with, because servers choose their number."""
_NONE: Mapping[str, Sequence[str]] = {}


class Unmatched(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern of the config that matches nothing."""

    at: str
    """The place in the config: `policy.rules[2].tools`."""
    pattern: str
    kind: str
    """The kind of thing it should name: `tool`, `principal`, `upstream` or `argument`."""
    nearest: str | None

    @property
    def message(self) -> str:
        """States the fault and suggests the nearest name."""
        advice = "" if self.nearest is None else f" Did you mean {self.nearest!r}?"
        return f"{self.at} names {self.pattern!r}, which fits no {self.kind}.{advice}"


class NameCheck:
    """Compares the names in the config with the catalog whenever that changes."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: tuple[object, tuple[Unmatched, ...]] | None = None
        self._logged: set[tuple[str, str]] = set()

    async def look(
        self, snapshot: Snapshot, unlisted: Collection[str], idle: Mapping[str, Sequence[str]] = _NONE
    ) -> tuple[Unmatched, ...]:
        """The result of `find_unmatched`, cached while the tools stay the same."""
        state = (snapshot.version, tuple(sorted(unlisted)), tuple((name, tuple(idle[name])) for name in sorted(idle)))
        if self._known is None or self._known[0] != state:
            # In a thread: ten thousand tools and a hundred patterns are a million comparisons.
            self._known = (state, await asyncio.to_thread(find_unmatched, self._config, snapshot, unlisted, idle))
        return self._known[1]

    async def log(
        self, snapshot: Snapshot, unlisted: Collection[str], idle: Mapping[str, Sequence[str]] = _NONE
    ) -> None:
        """Log new findings."""
        for each in await self.look(snapshot, unlisted, idle):
            if (each.at, each.pattern) not in self._logged:
                self._logged.add((each.at, each.pattern))
                _log.warning("%s", each.message)


def find_unmatched(
    config: Config, snapshot: Snapshot, unlisted: Collection[str] = (), idle: Mapping[str, Sequence[str]] = _NONE
) -> tuple[Unmatched, ...]:
    """Every pattern of the config that matches no tool of the snapshot, no principal or no upstream.

    A pattern that may name a tool of an upstream in `unlisted`, whose tools are unknown, is left out. `idle` are
    patterns of `without_tools`, by upstream: no snapshot holds the tools they keep out, so only the upstream can judge
    them.
    """
    names = _Names(snapshot, unlisted)
    found: list[Unmatched] = []
    policy, upstreams = config.policy, {*config.upstreams, *snapshot.by_upstream}
    for at, patterns in (
        *((f"policy.rules[{number}].tools", rule.tools) for number, rule in enumerate(policy.rules)),
        *((f"policy.limits[{number}].tools", limits.tools) for number, limits in enumerate(policy.limits)),
        *((f"privacy.rules[{number}].tools", rule.tools) for number, rule in enumerate(config.privacy.rules)),
        ("surface.direct", config.surface.direct),
        *((f"profiles.{name}.direct", profile.direct or ()) for name, profile in config.profiles.items()),
    ):
        found += names.unmatched(at, patterns)
    for name, upstream in config.upstreams.items():
        if name not in unlisted:
            own = [spec.name for spec in snapshot.by_upstream.get(name, ())]
            found += _unmatched(f"upstreams.{name}.tools", upstream.tools or (), own, "tool")
            found += _unmatched(f"upstreams.{name}.without_tools", idle.get(name, ()), own, "tool")
    principals = {*_ANYWHERE, *config.http.scopes()}
    for number, rule in enumerate(policy.rules):
        found += _unmatched(f"policy.rules[{number}].principals", rule.principals, principals, "principal")
        found += _undeclared(f"policy.rules[{number}].when", rule.when, [*names.fitting(rule.tools)])
    for name, entry in config.http.principals.items():
        found += _unmatched(f"http.principals.{name}.upstreams", entry.upstreams or (), upstreams, "upstream")
    for name, profile in config.profiles.items():
        found += _unmatched(f"profiles.{name}.upstreams", profile.upstreams or (), upstreams, "upstream")
    return tuple(found)


class _Names:
    """The names that patterns over tools are compared with."""

    def __init__(self, snapshot: Snapshot, unlisted: Collection[str]) -> None:
        self._snapshot = snapshot
        self._spellings = {name: (*spec.spellings, spec.name) for name, spec in snapshot.tools.items()}
        self._beginnings = [begin for name in unlisted for begin in (full_name(upstream_part(name), ""), f"{name}/")]

    def fitting(self, patterns: Sequence[str]) -> Iterator[ToolSpec]:
        fits = glob(*patterns)
        return (self._snapshot.tools[name] for name, spelled in self._spellings.items() if any(map(fits, spelled[:2])))

    def unmatched(self, at: str, patterns: Sequence[str]) -> Iterator[Unmatched]:
        # Only `direct` accepts a server's own name for a tool.
        most = 3 if at.endswith(".direct") else 2
        for pattern in patterns:
            fits = glob(pattern)
            if pattern == "*" or any(fits(name) for spelled in self._spellings.values() for name in spelled[:most]):
                continue
            fixed = pattern.partition("*")[0].partition("?")[0]
            if any(fixed.startswith(begin) or begin.startswith(fixed) for begin in self._beginnings):
                continue
            yield Unmatched(at=at, pattern=pattern, kind="tool", nearest=self._nearest(pattern))

    def _nearest(self, pattern: str) -> str | None:
        if "*" in pattern or "?" in pattern:
            return None
        found = self._snapshot.nearest(pattern, n=1)
        return self._spellings[found[0]][1 if "/" in pattern else 0] if found else None


def _unmatched(at: str, patterns: Sequence[str], names: Collection[str], kind: str) -> Iterator[Unmatched]:
    for pattern in patterns:
        if not any(map(glob(pattern), names)):
            yield Unmatched(at=at, pattern=pattern, kind=kind, nearest=_nearest(pattern, names))


def _undeclared(at: str, conditions: Mapping[str, object], tools: Sequence[ToolSpec]) -> Iterator[Unmatched]:
    """Conditions on arguments that none of the tools declares: they never hold."""
    declared = [spec.input_schema.get("properties") for spec in tools]
    if not tools or not all(isinstance(each, dict) for each in declared):
        return
    names = {name for each in declared if isinstance(each, dict) for name in each}
    for argument in conditions:
        first = argument.partition(".")[0]
        if argument not in names and first not in names:
            yield Unmatched(at=at, pattern=argument, kind="argument", nearest=_nearest(first, names))


def _nearest(pattern: str, names: Collection[str]) -> str | None:
    return closest(pattern, islice(names, _COMPARED))
