"""What is remembered of one tool's calls, and how a run changes it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

from sealyard.learning.evidence import Evidence, faded
from sealyard.learning.fields import UNPLACED, last_key
from sealyard.learning.flows import Flow, major_of
from sealyard.values import RunEvidence

__all__ = ("NAME", "Called", "Habit", "Link", "Said", "Source", "called_in", "judge", "source_of")

NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A tool's full name."""

FOLLOWERS = 8
PARAMETERS = 24
SOURCES = 24
"""Kept of one tool. When there are more, one goes that only one principal found, of the principal with most of them."""

_CALLED = 8
"""Tools of one run that are looked at."""
_KEYS = 40
_KEY_CHARACTERS = 64
_COUNTS = 0.5
_LEAST = 1.5
_LEAST_OF_ONE = 2.5
_EXPERIENCED = 2.5

_Held = TypeVar("_Held")


class Link(msgspec.Struct, array_like=True, gc=False):
    """That one tool follows another: yes for each run in which it did, no for each in which it did not."""

    votes: Evidence = msgspec.field(default_factory=Evidence)
    told: int = 0
    right: int = 0
    last_at: float = 0.0


class Called(msgspec.Struct):
    """What a run did with one tool."""

    major: int
    calls: int = 0
    always: set[str] = set()
    """The parameters that every call gave."""
    ever: set[str] = set()
    is_answered: bool = False
    """Whether the journal has what it answered."""
    is_told: bool = True
    """Whether the journal has what all calls were given."""


class Source(NamedTuple):
    """Where the value of a parameter comes from."""

    parameter: str
    tool: str
    major: int
    field: str

    @property
    def key(self) -> str:
        """As `source_of` reads it."""
        return f"{self.parameter} {self.tool} {self.major} {self.field}"

    @property
    def is_unplaced(self) -> bool:
        """Whether only the name of the field is known."""
        return self.field.startswith(UNPLACED)

    @property
    def name(self) -> tuple[str, str, int, str]:
        """The same wherever in the answer the field is."""
        return (*self[:3], last_key(self.field))


def source_of(key: str) -> Source:
    """What a key says."""
    parameter, tool, major, field = key.split(" ", 3)
    return Source(parameter, tool, int(major), field)


class Habit(msgspec.Struct, array_like=True, gc=False):
    """What is known of one tool's calls."""

    major: int = 0
    """The version that `asked`, `given` and `sources` are about."""
    runs: Evidence = msgspec.field(default_factory=Evidence)
    followers: dict[str, Link] = {}
    asked: Evidence = msgspec.field(default_factory=Evidence)
    """The runs of which the arguments are known."""
    given: dict[str, Evidence] = {}
    """By parameter: yes for each run that gave it in every call."""
    sources: dict[str, Evidence] = {}
    """By `Source.key`: yes for each run in which the parameter was made of that."""

    def begin(self, major: int) -> bool:
        """Whether what a call of this version says of arguments counts. A new major version forgets what was before."""
        if major > self.major:
            self.major, self.asked, self.given, self.sources = major, Evidence(), {}, {}
        return major == self.major

    def follow(self, after: list[str], fed: Iterable[str], principal: str, at: float, half_life: float) -> None:
        """Count a run that called the tool, then those in `after`, some of which it `fed`."""
        for name in (*after[:1], *fed):
            if name not in self.followers:
                self.followers[name] = Link(votes=_without(self.runs))
        self.runs.add(principal, at, half_life, yes=1.0)
        for name, link in self.followers.items():
            is_next = name in after
            link.votes.add(principal, at, half_life, yes=float(is_next), no=float(not is_next))
            link.last_at = max(link.last_at, at) if is_next else link.last_at
        _make_room(self.followers, FOLLOWERS, lambda link: link.votes, at, half_life)

    def go_on(self, called: list[str], principal: str, at: float, half_life: float) -> None:
        """Count what the next run called. It was counted as missing when the run before it was over, and is not."""
        if called[0] not in self.followers:
            self.followers[called[0]] = Link(votes=_without(self.runs))
        for name in called:
            link = self.followers.get(name)
            if link is not None:
                _, no, then = link.votes.by.get(principal, (0.0, 0.0, at))
                link.votes.add(principal, at, half_life, yes=1.0, no=-min(1.0, no * faded(at - then, half_life)))
                link.last_at = max(link.last_at, at)
        _make_room(self.followers, FOLLOWERS, lambda link: link.votes, at, half_life)

    def give(self, called: Called, principal: str, at: float, half_life: float) -> None:
        """Count which parameters a run gave."""
        for name in sorted(called.always - self.given.keys()):
            self.given[name] = _without(self.asked)
        self.asked.add(principal, at, half_life, yes=1.0)
        for name, votes in self.given.items():
            is_given = name in called.always
            votes.add(principal, at, half_life, yes=float(is_given), no=float(not is_given))
        _make_room(self.given, PARAMETERS, lambda votes: votes, at, half_life)

    def feed(
        self, name: str, called: dict[str, Called], flows: Iterable[Flow], principal: str, at: float, half_life: float
    ) -> None:
        """Count what the parameters of the tool `name` were made of, and what they could have been made of."""
        found = [
            Source(flow.parameter, flow.source, flow.source_major, flow.field)
            for flow in flows
            if flow.target == name and flow.target_major == self.major
        ]
        keys, names = {each.key for each in found}, {each.name for each in found}
        unplaced = {each.name for each in found if each.is_unplaced}
        for each in found:
            self.sources.setdefault(each.key, Evidence())
        earlier = list(called)[: list(called).index(name)]
        for key, votes in self.sources.items():
            source = source_of(key)
            is_fed = key in keys or source.name in (names if source.is_unplaced else unplaced)
            could = source.tool in earlier or (source.tool == name and called[name].calls > 1)
            is_missing = could and called[source.tool].is_answered and _plain(source.parameter) in called[name].ever
            if is_fed or is_missing:
                votes.add(principal, at, half_life, yes=float(is_fed), no=float(not is_fed))
        _make_room(self.sources, SOURCES, lambda votes: votes, at, half_life)


def _without(runs: Evidence) -> Evidence:
    """All runs so far, as ones in which something did not happen."""
    return Evidence(by={principal: (0.0, yes, at) for principal, (yes, _, at) in runs.by.items()})


def _plain(parameter: str) -> str:
    return parameter.removesuffix("[]")


def called_in(run: RunEvidence) -> dict[str, Called]:
    """The tools of a run in the order of their first calls that succeeded."""
    found: dict[str, Called] = {}
    for call in run.calls:
        if call.error is not None or not NAME.fullmatch(call.tool):
            continue
        if call.tool not in found and len(found) == _CALLED:
            continue
        is_told = isinstance(call.arguments, dict) and len(call.arguments) <= _KEYS
        keys = {key for key in call.arguments if len(key) <= _KEY_CHARACTERS} if is_told else set()
        one = found.setdefault(call.tool, Called(major=major_of(call.version), always=set(keys)))
        one.calls += 1
        one.always &= keys
        one.ever |= keys
        one.is_answered |= call.has_answer
        one.is_told &= is_told
    return found


class Said(NamedTuple):
    """What votes come to for one viewer."""

    share: float
    evidence: float
    principals: int
    is_backed: bool
    """Whether the viewer itself found it, or two principals did. What one other says is a suggestion."""


def judge(votes: Evidence, principal: str, now: float, half_life: float) -> Said | None:
    """What votes say to a principal; None if too few have said anything.

    Where one other principal stands against the viewer's own experience, the experience counts.
    """
    own, total = votes.tally(now, half_life, only=principal), votes.tally(now, half_life)
    backers = len(_backers(votes, now, half_life))
    is_backed = own.yes >= _LEAST or (backers > 1 and total.yes >= _LEAST)
    if not is_backed and total.yes < _LEAST_OF_ONE:
        return None
    others = backers - (own.yes >= _COUNTS)
    is_experienced = own.yes >= _LEAST or own.total >= _EXPERIENCED
    counted = own if others < 2 and is_experienced else total
    return Said(counted.yes / counted.total if counted.total else 0.0, total.yes, backers, is_backed)


def _backers(votes: Evidence, now: float, half_life: float) -> list[str]:
    return [name for name, (yes, _, at) in votes.by.items() if yes * faded(now - at, half_life) >= _COUNTS]


def _make_room(
    held: dict[str, _Held], most: int, votes_of: Callable[[_Held], Evidence], now: float, half_life: float
) -> None:
    """Let go of what is too much. Nobody can push out what others found by finding many things alone."""
    while len(held) > most:
        backers = {name: _backers(votes_of(each), now, half_life) for name, each in held.items()}
        alone = Counter(names[0] for names in backers.values() if len(names) == 1)
        busiest, things = max(alone.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        candidates = [name for name, names in backers.items() if not names]
        candidates = candidates or [name for name, names in backers.items() if things > 1 and names == [busiest]]
        strength = {name: votes_of(held[name]).tally(now, half_life).yes for name in candidates or held}
        del held[min(strength, key=lambda name: (strength[name], name))]
