"""Tool chains: the tool that usually follows another, the sources of its parameters, and the parameters usually given.

Learned from successful runs, as shares: a run that called the first tool and not the second counts against the chain.
One principal counts for at most five runs, and cannot displace evidence of others. No value of any call is kept. Tips
are our own sentences, filled with checked names and numbers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from sealyard.catalog import Recent, Snapshot
from sealyard.catalog.stubs import Parameter, parameters
from sealyard.learning.disclosure import (
    UNPLACED,
    is_callable,
    is_declared,
    is_nameable,
    last_key,
    mark_of,
    place_of,
    shown,
)
from sealyard.learning.flows import Flow, fragment
from sealyard.learning.part import Evidence, Insight, Lesson, Part, PartInsights, Viewer, part_insights, touch, trim
from sealyard.values.facts import Hinted, HintKind, RunEvidence
from sealyard.values.tools import ToolSpec
from sealyard.versioning.compare import major_of

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

# Evidence kept of one tool. A full table drops an entry with a single backer, from the principal with the most of them.
FOLLOWERS = 8  # tools that follow it: a bound
PARAMETERS = 24  # its parameters: a bound
SOURCES = 24  # sources of its parameters: a bound
_CALLED = 8  # tools of one run that are looked at: a bound
_KEYS = 40  # arguments of a call; one with more is left out: a bound
_KEY_CHARACTERS = 64  # characters of a parameter's name: a bound
_COUNTS = 0.5  # remaining weight from which a principal backs something: a run one half-life old
_LEAST = 1.5  # runs that back a tip: two, faded a little
_LEAST_OF_ONE = 2.5  # runs that make a suggestion of one other principal: three, faded a little
_EXPERIENCED = 2.5  # own runs from which a viewer's experience outweighs one other principal: three, faded
_CHARACTERS = 160  # of a tip; longer ones are left out, since every hit of a search may carry one
TOOLS = 1_500  # tools remembered, the last called: a bound
VISITS = 512  # visits remembered: a bound
TIPS = 16  # tips of one visit that wait to be rated: a bound
_OFTEN = 0.3  # least share of runs for a chain to be shown
_MOSTLY = 0.5  # least share for the source of a parameter
_NEARLY_ALWAYS = 0.8  # least share for an optional parameter to be called usual
_HINTS = 2  # tips on one tool: more would crowd out the results of a search

# Habits

NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A tool's full name."""


class Link(msgspec.Struct, array_like=True, gc=False):
    """Evidence that one tool follows another: yes for each run in which it did, no for each in which it did not."""

    votes: Evidence = msgspec.field(default_factory=Evidence)
    checked: int = 0
    right: int = 0
    last_at: float = 0.0


_Held = TypeVar("_Held", bound=Link | Evidence)


class Called(msgspec.Struct):
    """The use of one tool in a run."""

    major: int
    calls: int = 0
    always: set[str] = set()
    """The parameters that every call gave."""
    ever: set[str] = set()
    is_answered: bool = False
    """True if the journal has its answer."""
    has_arguments: bool = True
    """True if the journal has the arguments of all calls."""


class Source(NamedTuple):
    """The source of a parameter's value."""

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
        """True if only the name of the field is known."""
        return self.field.startswith(UNPLACED)

    @property
    def name(self) -> tuple[str, str, int, str]:
        """A key that does not depend on the field's place in the answer."""
        return (*self[:3], last_key(self.field))


def source_of(key: str) -> Source:
    """The source with this key."""
    parameter, tool, major, field = key.split(" ", 3)
    return Source(parameter, tool, int(major), field)


class Habit(msgspec.Struct, array_like=True, gc=False):
    """The habits of one tool's callers."""

    major: int = 0
    """The version that `asked`, `given` and `sources` describe."""
    runs: Evidence = msgspec.field(default_factory=Evidence)
    followers: dict[str, Link] = {}
    asked: Evidence = msgspec.field(default_factory=Evidence)
    """The runs with known arguments."""
    given: dict[str, Evidence] = {}
    """By parameter: yes for each run that gave it in every call."""
    sources: dict[str, Evidence] = {}
    """By `Source.key`: yes for each run in which the parameter came from that source."""

    def begin(self, major: int) -> bool:
        """True if a call of this version counts for arguments. A new major version drops the evidence on older ones."""
        if major > self.major:
            self.major, self.asked, self.given, self.sources = major, Evidence(), {}, {}
        return major == self.major

    def follow(self, after: list[str], fed: Iterable[str], viewer: Viewer) -> None:
        """Count a run that called the tool, then those in `after`, some of which it `fed`."""
        for name in (*after[:1], *fed):
            if name not in self.followers:
                self.followers[name] = Link(votes=_without(self.runs))
        self.runs.add(viewer, yes=1.0)
        for name, link in self.followers.items():
            is_next = name in after
            link.votes.add(viewer, yes=float(is_next), no=float(not is_next))
            link.last_at = max(link.last_at, viewer.now) if is_next else link.last_at
        _make_room(self.followers, FOLLOWERS, viewer)

    def go_on(self, called: list[str], viewer: Viewer) -> None:
        """Count the calls of the next run, which were counted as missing at the end of the run before it."""
        if called[0] not in self.followers:
            self.followers[called[0]] = Link(votes=_without(self.runs))
        for name in called:
            link = self.followers.get(name)
            if link is not None:
                _, no, then = link.votes.by.get(viewer.principal, (0.0, 0.0, viewer.now))
                link.votes.add(viewer, yes=1.0, no=-min(1.0, no * viewer.faded(then)))
                link.last_at = max(link.last_at, viewer.now)
        _make_room(self.followers, FOLLOWERS, viewer)

    def give(self, called: Called, viewer: Viewer) -> None:
        """Count which parameters a run gave."""
        for name in sorted(called.always - self.given.keys()):
            self.given[name] = _without(self.asked)
        self.asked.add(viewer, yes=1.0)
        for name, votes in self.given.items():
            is_given = name in called.always
            votes.add(viewer, yes=float(is_given), no=float(not is_given))
        _make_room(self.given, PARAMETERS, viewer)

    def feed(self, name: str, called: dict[str, Called], flows: Iterable[Flow], viewer: Viewer) -> None:
        """Count the actual and the possible sources of the parameters of the tool `name`."""
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
                votes.add(viewer, yes=float(is_fed), no=float(not is_fed))
        _make_room(self.sources, SOURCES, viewer)


def _without(runs: Evidence) -> Evidence:
    """All runs so far, as evidence against something that is new."""
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
        has_arguments = isinstance(call.arguments, dict) and len(call.arguments) <= _KEYS
        keys = {key for key in call.arguments if len(key) <= _KEY_CHARACTERS} if has_arguments else set()
        one = found.setdefault(call.tool, Called(major=major_of(call.version), always=set(keys)))
        one.calls += 1
        one.always &= keys
        one.ever |= keys
        one.is_answered |= call.has_answer
        one.has_arguments &= has_arguments
    return found


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


def _make_room(held: dict[str, _Held], most: int, viewer: Viewer) -> None:
    """Drop entries over the limit. A principal with many entries of its own cannot displace those of others."""
    while len(held) > most:
        votes = {name: each.votes if isinstance(each, Link) else each for name, each in held.items()}
        backers = {name: _backers(each, viewer) for name, each in votes.items()}
        alone = Counter(names[0] for names in backers.values() if len(names) == 1)
        busiest, things = max(alone.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        candidates = [name for name, names in backers.items() if not names]
        candidates = candidates or [name for name, names in backers.items() if things > 1 and names == [busiest]]
        strength = {name: votes[name].tally(viewer).yes for name in candidates or held}
        del held[min(strength, key=lambda name: (strength[name], name))]


# Tips


class Follower(NamedTuple):
    """A tool that is often called after another."""

    tool: str
    support: Support
    """For the runs that called the first one."""
    flow: tuple[tuple[str, str], ...]
    """Fields of the first one's answer, and the parameters they became."""


class Need(NamedTuple):
    """A parameter that a tool is usually given."""

    parameter: str
    """The name in the schema; with `[]` if the value from elsewhere is an item of it."""
    support: Support
    source: tuple[str, str] | None = None
    """The tool and the field that its value comes from."""


class Tip(msgspec.Struct, frozen=True, kw_only=True):
    """One tip. `Hinted` records its kind, subject and mark, so that it can be rated."""

    kind: HintKind
    subject: str
    mark: str
    text: str
    code: str | None = None
    """A fragment of code, if requested."""


def tip_mark(kind: str, name: str) -> str:
    """Distinguishes a tip from others about the same tool: made from the tool or parameter that it names."""
    return mark_of(f"{kind} {name}")


def _rank(need: Need) -> tuple[Any, ...]:
    """The most certain first, and among these the ones with a source."""
    support = need.support
    return not support.is_backed, need.source is None, -support.share, -support.evidence, need.parameter


def _chain_tip(first: ToolSpec, second: ToolSpec, follower: Follower, *, with_code: bool) -> Tip | None:
    """The tip on a tool that follows another."""
    if not is_callable(second):
        return None
    known = _parameters_of(second)
    text = f"Often used with {second.module}.{second.function} after it ({_percent(follower.support)} of runs)"
    flow = [(field, known[_plain(key)].name) for field, key in follower.flow if _plain(key) in known]
    taken = " and ".join(f"its {_field(field)} becomes {name}" for field, name in flow[:2] if is_nameable(name))
    if taken and len(text) + len(taken) + 3 <= _CHARACTERS:
        text += f": {taken}"
    code = _code(first, second, follower.flow) if with_code else None
    return _tip("chain", first.full_name, second.full_name, f"{text}.", code)


def _need_tip(spec: ToolSpec, need: Need, view: Mapping[str, ToolSpec], *, with_code: bool) -> Tip | None:
    """The tip on a parameter that is usually given."""
    name, often, code = _parameters_of(spec)[_plain(need.parameter)].name, f"({_percent(need.support)} of runs)", None
    if not is_nameable(name):
        return None
    if need.source is None:
        text = f"Usually needs {name} too, though it is optional {often}."
    else:
        tool, field = need.source
        source = view[tool]
        if not is_callable(source):
            return None
        if source is spec:
            text = f"Usually needs {name} from the {_field(field)} of its answer before {often}."
        else:
            text = f"Usually needs {name} from the {_field(field)} of {source.module}.{source.function} {often}."
            code = _code(source, spec, ((field, need.parameter),)) if with_code else None
    return _tip("needs", spec.full_name, need.parameter, text, code)


def _tip(kind: HintKind, subject: str, named: str, text: str, code: str | None) -> Tip | None:
    if len(text) > _CHARACTERS:
        return None
    return Tip(kind=kind, subject=subject, mark=tip_mark(kind, _plain(named)), text=text, code=code)


def _code(first: ToolSpec, second: ToolSpec, flow: tuple[tuple[str, str], ...]) -> str | None:
    """The code fragment. If the journal lacks the answer, the declared schema may give the field's place."""
    placed = [
        (place_of(first, shown(field)) if field.startswith(UNPLACED) else field, parameter) for field, parameter in flow
    ]
    return fragment(first, second, [(field, parameter) for field, parameter in placed if field is not None])


def _field(field: str) -> str:
    return shown(field) or "answer"


def _percent(support: Support) -> str:
    return f"{round(support.share * 100)} %"


# The part

_MARK = re.compile(r"[0-9a-f]{1,32}")

_parameters: Recent[tuple[str, str], dict[str, Parameter]] = Recent(4_000)


class Visited(msgspec.Struct, array_like=True):
    """The state of a visit until its next run."""

    last: str = ""
    """The tool that its last run called last."""
    tips: dict[str, bool] = {}
    """Tips given and not rated yet, by kind, tool and mark; True if a run has called the tool since."""


class Chains(Part, msgspec.Struct, kw_only=True):
    """The learned chains."""

    tools: dict[str, Habit] = {}
    visits: dict[str, Visited] = {}
    runs: int = 0

    # Learning

    def learn_hint(self, hint: Hinted) -> None:
        """Remember a tip."""
        if hint.hint not in ("chain", "needs") or not hint.session:
            return
        if not NAME.fullmatch(hint.subject) or not _MARK.fullmatch(hint.mark):
            return
        visit = self._visit(hint.principal, hint.session)
        key = f"{hint.hint} {hint.subject} {hint.mark}"
        visit.tips[key] = visit.tips.pop(key, False)
        while len(visit.tips) > TIPS:
            self._drop_tip(visit, next(iter(visit.tips)))

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn from a successful run, and rate the tips given before any run."""
        called = called_in(run)
        if not called:
            return
        order = list(called)
        visit = self._visit(run.fact.principal, run.fact.session) if run.fact.session else Visited()
        self._rate(visit, called, is_ok=run.fact.status == "ok")
        if run.fact.status != "ok":
            return
        self.runs += 1
        known = [flow for flow in lesson.flows if flow.source in called and flow.target in called]
        if visit.last in self.tools and visit.last not in called:
            self.tools[visit.last].go_on(order, viewer)
        for number, (name, one) in enumerate(called.items()):
            after = order[number + 1 :]
            habit = touch(self.tools, name, Habit)
            is_current = habit.begin(one.major)
            fed = [flow.target for flow in known if flow.source == name and flow.target in after]
            habit.follow(after, fed, viewer)
            if is_current and one.has_arguments:
                habit.give(one, viewer)
                habit.feed(name, called, known, viewer)
        trim(self.tools, TOOLS)  # only now: the oldest may be one that this run called
        visit.last = order[-1]

    def _visit(self, principal: str, session: str) -> Visited:
        key = f"{principal} {session}"
        visit = touch(self.visits, key, Visited)
        while len(self.visits) > VISITS:
            oldest = self.visits.pop(next(iter(self.visits)))
            for tip in list(oldest.tips):
                self._drop_tip(oldest, tip)
        return visit

    def _rate(self, visit: Visited, called: dict[str, Called], *, is_ok: bool) -> None:
        """Rate the tips of a visit. A failed run is no evidence about calls that it did not reach."""
        order = list(called)
        for key, was_called in list(visit.tips.items()):
            kind, subject, mark = key.split(" ")
            if kind == "needs":
                if subject in called and is_ok:
                    is_given = any(tip_mark(kind, name) == mark for name in called[subject].ever)
                    self._count(visit, key, is_right=is_given)
                continue
            after = order[order.index(subject) + 1 :] if subject in called else order if was_called else []
            is_right = any(tip_mark(kind, name) == mark for name in after)
            if is_right or (was_called and is_ok):
                self._count(visit, key, is_right=is_right)
            elif subject in called and is_ok:
                visit.tips[key] = True  # what follows may be in the next run

    def _count(self, visit: Visited, key: str, *, is_right: bool) -> None:
        del visit.tips[key]
        kind, subject, mark = key.split(" ")
        self.checked += 1
        self.right += is_right
        if kind == "chain" and subject in self.tools:
            for name, link in self.tools[subject].followers.items():
                if tip_mark(kind, name) == mark:
                    link.checked += 1
                    link.right += is_right

    def _drop_tip(self, visit: Visited, key: str) -> None:
        if visit.tips[key]:  # the tool was called, and nothing followed
            self._count(visit, key, is_right=False)
        else:
            del visit.tips[key]

    # Looking up

    def followers(self, tool: str, viewer: Viewer, *, view: Mapping[str, ToolSpec]) -> list[Follower]:
        """The tools of `view` that usually follow a tool of it, the best first."""
        if tool not in self.tools or tool not in view:
            return []
        ranked = []
        for name, link in self.tools[tool].followers.items():
            support = judge(link.votes, viewer) if name in view else None
            if support is None or support.share < _OFTEN:
                continue
            if not support.is_backed and not _is_safe(view[tool], view[name]):
                continue  # evidence of one other principal is not enough
            ranked.append(((not support.is_backed, -support.share, -support.evidence, name), support))
        ranked.sort()
        return [
            Follower(rank[-1], support, self._flow(view[tool], view[rank[-1]], view, viewer))
            for rank, support in ranked
        ]

    def needs(self, spec: ToolSpec, viewer: Viewer, *, view: Mapping[str, ToolSpec]) -> list[Need]:
        """The parameters that a tool is usually given, with their sources, and optional ones. The best first."""
        found = {
            _plain(source.parameter): Need(source.parameter, support, (source.tool, source.field))
            for source, support in reversed(self._sources(spec, view, viewer))
        }
        habit = self.tools.get(spec.full_name)
        if habit is not None and habit.major == major_of(spec.version):
            known = _parameters_of(spec)
            for name, votes in habit.given.items():
                support = judge(votes, viewer) if name in known and not known[name].required else None
                if support is not None and support.share >= _NEARLY_ALWAYS and name not in found:
                    found[name] = Need(name, support)
        return sorted(found.values(), key=_rank)

    def _sources(self, spec: ToolSpec, view: Mapping[str, ToolSpec], viewer: Viewer) -> list[tuple[Source, Support]]:
        """The sources of a tool's parameters, the best first. Only fields that may be named are among them."""
        habit = self.tools.get(spec.full_name)
        if habit is None or habit.major != major_of(spec.version):
            return []
        found = []
        for key, votes in habit.sources.items():
            source = source_of(key)
            first = view.get(source.tool)
            if first is None or major_of(first.version) != source.major:
                continue
            support = judge(votes, viewer)
            if support is None or support.share < _MOSTLY or _plain(source.parameter) not in _parameters_of(spec):
                continue
            # A key that one other principal saw may be data that looks like a name.
            if support.is_backed or (_is_public(first, source) and _is_safe(spec, first)):
                found.append((source, support))
        found.sort(
            key=lambda each: (not each[1].is_backed, -each[1].share, each[0].is_unplaced, -each[1].evidence, each[0])
        )
        return found

    def _flow(
        self, first: ToolSpec, second: ToolSpec, view: Mapping[str, ToolSpec], viewer: Viewer
    ) -> tuple[tuple[str, str], ...]:
        """Fields of the first tool's answer and the parameters of the second that they become, one for each."""
        taken: dict[str, tuple[str, str]] = {}
        for source, _ in self._sources(second, view, viewer):
            if source.tool == first.full_name:
                taken.setdefault(_plain(source.parameter), (source.field, source.parameter))
        return tuple(taken.values())

    def tips(self, spec: ToolSpec, viewer: Viewer, *, view: Snapshot, with_code: bool = False) -> tuple[Tip, ...]:
        """At most two tips on a tool, with code if it is wanted and can be made."""
        if spec.full_name not in self.tools:
            return ()
        followers = self.followers(spec.full_name, viewer, view=view.tools)[:_HINTS]
        needs = self.needs(spec, viewer, view=view.tools)[:_HINTS]
        chains = [_chain_tip(spec, view.tools[each.tool], each, with_code=with_code) for each in followers]
        wants = [_need_tip(spec, need, view.tools, with_code=with_code) for need in needs]
        ordered = (*chains[:1], *wants[:1], *chains[1:], *wants[1:])
        return tuple(tip for tip in ordered if tip is not None)[:_HINTS]

    def insights(self, viewer: Viewer) -> PartInsights:
        """The chains and needs that were learned."""
        items = list(self._chain_insights(viewer)) + list(self._need_insights(viewer))
        return part_insights("chains", items, learned=len(items), evidence=self.runs, score=self.score())

    def _chain_insights(self, viewer: Viewer) -> Iterator[Insight]:
        for first, habit in self.tools.items():
            for second, link in habit.followers.items():
                support = judge(link.votes, viewer)
                if support is not None and support.share >= _OFTEN:
                    yield Insight(
                        kind="chain",
                        subject=f"{first} -> {second}",
                        text=f"{second} follows {first} in {_percent(support)} of runs.",
                        evidence=support.evidence,
                        principals=support.principals,
                        checked=link.checked,
                        right=link.right,
                        last_at=link.last_at,
                    )

    def _need_insights(self, viewer: Viewer) -> Iterator[Insight]:
        for name, habit in self.tools.items():
            for key, votes in habit.sources.items():
                source, support = source_of(key), judge(votes, viewer)
                parameter = _plain(source.parameter)
                if support is not None and support.share >= _MOSTLY and is_nameable(parameter):
                    field = _field(source.field)
                    yield Insight(
                        kind="needs",
                        subject=name,
                        text=f"{parameter} of {name} is the {field} of {source.tool} in {_percent(support)} of runs.",
                        evidence=support.evidence,
                        principals=support.principals,
                        last_at=votes.last_at,
                    )


def _is_safe(spec: ToolSpec, other: ToolSpec) -> bool:
    """True if evidence of one principal is enough to connect two tools: no data moves between servers."""
    return spec.upstream == other.upstream and other.annotations.destructive is not True


def _is_public(spec: ToolSpec, source: Source) -> bool:
    if source.is_unplaced:
        return place_of(spec, last_key(source.field)) is not None
    return is_declared(spec, source.field)


def _parameters_of(spec: ToolSpec) -> dict[str, Parameter]:
    """The parameters of a tool by their names in the schema."""
    key = (spec.full_name, spec.digest)
    known = _parameters.find(key)
    if known is None:
        known = {parameter.key: parameter for parameter in parameters(spec)}
        _parameters.put(key, known)
    return known
