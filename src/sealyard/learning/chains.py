"""Tool chains: the tool that usually follows another.

Learned from successful runs, as shares: a run that called the first tool and not the second counts against the chain.
One principal counts for at most five runs, and cannot displace evidence of others. Tips are our own sentences, filled
with checked names and numbers.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from sealyard.catalog import Snapshot
from sealyard.learning.disclosure import is_callable, mark_of
from sealyard.learning.part import Evidence, Insight, Lesson, Part, PartInsights, Viewer, part_insights, touch, trim
from sealyard.values.facts import Hinted, RunEvidence
from sealyard.values.tools import ToolSpec

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

# A full table drops an entry with a single backer, from the principal with the most of them.
FOLLOWERS = 8  # tools that follow one tool: a bound
TOOLS = 1_500  # tools remembered, the last called: a bound
VISITS = 512  # visits remembered: a bound
TIPS = 16  # tips of one visit that wait to be rated: a bound
_CALLED = 8  # tools of one run that are looked at: a bound
_COUNTS = 0.5  # remaining weight from which a principal backs something: a run one half-life old
_LEAST = 1.5  # runs that back a tip: two, faded a little
_LEAST_OF_ONE = 2.5  # runs that make a suggestion of one other principal: three, faded a little
_EXPERIENCED = 2.5  # own runs from which a viewer's experience outweighs one other principal: three, faded
_OFTEN = 0.3  # least share of runs for a chain to be shown
_CHARACTERS = 160  # of a tip; longer ones are left out, since every hit of a search may carry one
_HINTS = 2  # tips on one tool: more would crowd out the results of a search

# What is learned

NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A tool's full name."""


class Follower(msgspec.Struct, array_like=True, gc=False):
    """A tool that follows another, with the record of the tips on it."""

    votes: Evidence = msgspec.field(default_factory=Evidence)
    """Yes for each run in which it followed, no for each in which it did not."""
    checked: int = 0
    right: int = 0
    last_at: float = 0.0


class ToolUse(msgspec.Struct, array_like=True, gc=False):
    """The successful runs that called one tool, and the tools that they called after it."""

    runs: Evidence = msgspec.field(default_factory=Evidence)
    followers: dict[str, Follower] = {}

    def add_run(self, after: list[str], viewer: Viewer) -> None:
        """Count a run that called the tool, then those in `after`."""
        for name in after[:1]:
            self._note(name)
        self.runs.add(viewer, yes=1.0)
        for name, follower in self.followers.items():
            is_next = name in after
            follower.votes.add(viewer, yes=float(is_next), no=float(not is_next))
            follower.last_at = max(follower.last_at, viewer.now) if is_next else follower.last_at
        self._make_room(viewer)

    def continue_run(self, called: list[str], viewer: Viewer) -> None:
        """Count the calls of the next run, which were counted as missing at the end of the run before it."""
        self._note(called[0])
        for name in called:
            follower = self.followers.get(name)
            if follower is not None:
                _, no, then = follower.votes.by.get(viewer.principal, (0.0, 0.0, viewer.now))
                follower.votes.add(viewer, yes=1.0, no=-min(1.0, no * viewer.faded(then)))
                follower.last_at = max(follower.last_at, viewer.now)
        self._make_room(viewer)

    def _note(self, name: str) -> None:
        """Add a follower that is new: all runs so far are evidence against it."""
        if name not in self.followers:
            missing = {principal: (0.0, yes, at) for principal, (yes, _, at) in self.runs.by.items()}
            self.followers[name] = Follower(votes=Evidence(by=missing))

    def _make_room(self, viewer: Viewer) -> None:
        """Drop followers over the limit. A principal with many of its own cannot displace those of others."""
        while len(self.followers) > FOLLOWERS:
            backers = {name: _backers(each.votes, viewer) for name, each in self.followers.items()}
            alone = Counter(names[0] for names in backers.values() if len(names) == 1)
            busiest, count = max(alone.items(), key=lambda item: (item[1], item[0]), default=("", 0))
            candidates = [name for name, names in backers.items() if not names]
            candidates = candidates or [name for name, names in backers.items() if count > 1 and names == [busiest]]
            strength = {name: self.followers[name].votes.tally(viewer).yes for name in candidates or self.followers}
            del self.followers[min(strength, key=lambda name: (strength[name], name))]


def called_in(run: RunEvidence) -> list[str]:
    """The tools of a run in the order of their first calls that succeeded; at most `_CALLED`."""
    found = dict.fromkeys(call.tool for call in run.calls if call.error is None and NAME.fullmatch(call.tool))
    return list(found)[:_CALLED]


class Support(NamedTuple):
    """Evidence as it counts for one viewer."""

    share: float
    evidence: float
    principals: int
    is_backed: bool
    """True if the viewer itself or two principals found it. Evidence of one other is only a suggestion."""


def judge(votes: Evidence, viewer: Viewer) -> Support | None:
    """The evidence as it counts for a viewer; None if there is too little.

    The viewer's own experience outweighs that of one other principal.
    """
    own, total = votes.tally(viewer, is_own=True), votes.tally(viewer)
    backers = len(_backers(votes, viewer))
    is_backed = own.yes >= _LEAST or (backers > 1 and total.yes >= _LEAST)
    if not is_backed and total.yes < _LEAST_OF_ONE:
        return None
    others = backers - (own.yes >= _COUNTS)
    is_experienced = own.yes >= _LEAST or own.total >= _EXPERIENCED
    counted = own if others < 2 and is_experienced else total
    return Support(counted.yes / counted.total if counted.total else 0.0, total.yes, backers, is_backed)


def _backers(votes: Evidence, viewer: Viewer) -> list[str]:
    return [name for name, (yes, _, at) in votes.by.items() if yes * viewer.faded(at) >= _COUNTS]


# Tips


class Tip(msgspec.Struct, frozen=True, kw_only=True):
    """One tip. `Hinted` records its subject and mark, so that it can be rated."""

    subject: str
    mark: str
    text: str


def tip_mark(tool: str) -> str:
    """Distinguishes the tip that names `tool` from others about the same subject."""
    return mark_of(f"chain {tool}")


def _tip(first: ToolSpec, second: ToolSpec, support: Support) -> Tip | None:
    """The tip on a tool that follows another; None if it cannot be named in a short sentence."""
    text = f"Often used with {second.module}.{second.function} after it ({_percent(support)} of runs)."
    if not is_callable(second) or len(text) > _CHARACTERS:
        return None
    return Tip(subject=first.full_name, mark=tip_mark(second.full_name), text=text)


def _percent(support: Support) -> str:
    return f"{round(support.share * 100)} %"


# The part

_MARK = re.compile(r"[0-9a-f]{1,32}")


class VisitState(msgspec.Struct, array_like=True):
    """The state of a visit until its next run."""

    last: str = ""
    """The tool that its last run called last."""
    tips: dict[str, bool] = {}
    """Tips given and not rated yet, by tool and mark; True if a run has called the tool since."""


class Chains(Part, msgspec.Struct, kw_only=True):
    """The learned chains."""

    tools: dict[str, ToolUse] = {}
    visits: dict[str, VisitState] = {}
    runs: int = 0

    # Learning

    def learn_hint(self, hint: Hinted) -> None:
        """Remember a tip."""
        if hint.hint != "chain" or not hint.session:
            return
        if not NAME.fullmatch(hint.subject) or not _MARK.fullmatch(hint.mark):
            return
        visit = self._visit(hint.principal, hint.session)
        key = f"{hint.subject} {hint.mark}"
        visit.tips[key] = visit.tips.pop(key, False)
        while len(visit.tips) > TIPS:
            self._drop_tip(visit, next(iter(visit.tips)))

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn from a successful run, and rate the tips given before any run."""
        called = called_in(run)
        if not called:
            return
        visit = self._visit(run.fact.principal, run.fact.session) if run.fact.session else VisitState()
        self._rate(visit, called, is_ok=run.fact.status == "ok")
        if run.fact.status != "ok":
            return
        self.runs += 1
        if visit.last in self.tools and visit.last not in called:
            self.tools[visit.last].continue_run(called, viewer)
        for place, name in enumerate(called):
            touch(self.tools, name, ToolUse).add_run(called[place + 1 :], viewer)
        trim(self.tools, TOOLS)  # only now: the oldest may be one that this run called
        visit.last = called[-1]

    def _visit(self, principal: str, session: str) -> VisitState:
        key = f"{principal} {session}"
        visit = touch(self.visits, key, VisitState)
        while len(self.visits) > VISITS:
            oldest = self.visits.pop(next(iter(self.visits)))
            for tip in list(oldest.tips):
                self._drop_tip(oldest, tip)
        return visit

    def _rate(self, visit: VisitState, called: list[str], *, is_ok: bool) -> None:
        """Rate the tips of a visit. A failed run is no evidence about calls that it did not reach."""
        for key, was_called in list(visit.tips.items()):
            subject, mark = key.split(" ")
            after = called[called.index(subject) + 1 :] if subject in called else called if was_called else []
            is_right = any(tip_mark(name) == mark for name in after)
            if is_right or (was_called and is_ok):
                self._count(visit, key, is_right=is_right)
            elif subject in called and is_ok:
                visit.tips[key] = True  # the tool may follow in the next run

    def _count(self, visit: VisitState, key: str, *, is_right: bool) -> None:
        del visit.tips[key]
        subject, mark = key.split(" ")
        self.checked += 1
        self.right += is_right
        if subject in self.tools:
            for name, follower in self.tools[subject].followers.items():
                if tip_mark(name) == mark:
                    follower.checked += 1
                    follower.right += is_right

    def _drop_tip(self, visit: VisitState, key: str) -> None:
        if visit.tips[key]:  # the tool was called, and nothing followed
            self._count(visit, key, is_right=False)
        else:
            del visit.tips[key]

    # Looking up

    def next_tools(self, tool: str, viewer: Viewer, *, view: Mapping[str, ToolSpec]) -> list[tuple[str, Support]]:
        """The tools of `view` that usually follow a tool of it, with the evidence for each, the best first."""
        if tool not in self.tools or tool not in view:
            return []
        found = []
        for name, follower in self.tools[tool].followers.items():
            support = judge(follower.votes, viewer) if name in view else None
            if support is None or support.share < _OFTEN:
                continue
            # One other principal moves no data between servers, and leads nobody to a destructive tool.
            is_risky = view[name].upstream != view[tool].upstream or view[name].annotations.destructive is True
            if support.is_backed or not is_risky:
                found.append((name, support))
        return sorted(found, key=lambda each: (not each[1].is_backed, -each[1].share, -each[1].evidence, each[0]))

    def tips(self, spec: ToolSpec, viewer: Viewer, *, view: Snapshot) -> tuple[Tip, ...]:
        """At most two tips on a tool."""
        if spec.full_name not in self.tools:  # as for most hits of a search
            return ()
        found = self.next_tools(spec.full_name, viewer, view=view.tools)[:_HINTS]
        tips = (_tip(spec, view.tools[name], support) for name, support in found)
        return tuple(tip for tip in tips if tip is not None)

    def items(self, viewer: Viewer) -> Iterator[Insight | None]:
        """The chains that were learned."""
        for first, use in list(self.tools.items()):
            yield None
            for second, follower in list(use.followers.items()):
                support = judge(follower.votes, viewer)
                if support is not None and support.share >= _OFTEN:
                    yield Insight(
                        kind="chain",
                        subject=f"{first} -> {second}",
                        text=f"{second} follows {first} in {_percent(support)} of runs.",
                        evidence=support.evidence,
                        principals=support.principals,
                        checked=follower.checked,
                        right=follower.right,
                        last_at=follower.last_at,
                    )

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the chains."""
        return part_insights("chains", items, learned=len(items), evidence=self.runs, score=self.score())
