"""Tool chains: which tool usually follows which, what its parameters are made of, and which of them are usually given.

Learned from runs that ended well, as shares: a run that called the first tool and not the second counts against it. One
principal counts as much as five runs, and cannot push out what others found. No value of any call is kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from sealyard.catalog import Snapshot
from sealyard.catalog.parameters import parameters
from sealyard.catalog.recent import Recent
from sealyard.learning.chain_habits import NAME, Called, Habit, Said, Source, called_in, judge, source_of
from sealyard.learning.chain_tips import Follower, Need, Tip, chain_tip, mark_of, need_tip
from sealyard.learning.domains import infer
from sealyard.learning.evidence import trim
from sealyard.learning.fields import is_declared, last_key, place_of, shown
from sealyard.learning.flows import Flow, major_of, prepare_flows
from sealyard.learning.fragments import is_nameable
from sealyard.learning.insights import Insight, PartInsights, part_insights
from sealyard.values import Hinted, RunEvidence, ToolSpec

__all__ = ("Chains", "Flow", "prepare_flows")

TOOLS = 1_500
"""Those that were called last are remembered."""
VISITS = 512
TIPS = 16
"""Of one visit, that wait to be scored."""

_OFTEN = 0.3
_MOSTLY = 0.5
_NEARLY_ALWAYS = 0.8
_OWN_DOMAIN = 1.25
_HINTS = 2
_MARK = re.compile(r"[0-9a-f]{1,32}")

_parameters: Recent[tuple[str, str], dict[str, tuple[str, bool]]] = Recent(4_000)


class Visited(msgspec.Struct, array_like=True):
    """What is remembered of a visit until its next run."""

    last: str = ""
    """The tool that its last run called last."""
    tips: dict[str, bool] = {}
    """Told and not scored: by kind, tool and mark, whether a run has called the tool since."""


class Chains(msgspec.Struct, kw_only=True):
    """All that is known of chains."""

    tools: dict[str, Habit] = {}
    visits: dict[str, Visited] = {}
    runs: int = 0
    scores: dict[str, list[int]] = {}
    """By kind of hint: how often something came of it that can be scored, and how often it was right."""

    # Learning

    def hinted(self, event: Hinted) -> None:
        """Remember that a principal was told of a chain or a need."""
        if event.hint not in ("chain", "needs") or not event.session:
            return
        if not NAME.fullmatch(event.subject) or not _MARK.fullmatch(event.mark):
            return
        visit = self._visit(event.principal, event.session)
        key = f"{event.hint} {event.subject} {event.mark}"
        visit.tips[key] = visit.tips.pop(key, False)
        while len(visit.tips) > TIPS:
            self._drop_tip(visit, next(iter(visit.tips)))

    def learn(self, run: RunEvidence, flows: Iterable[Flow], half_life: float) -> None:
        """Learn from a run if it ended well; score what was told before it in any case."""
        called = called_in(run)
        if not called:
            return
        principal, at, order = run.fact.principal, run.fact.at, list(called)
        visit = self._visit(principal, run.fact.session) if run.fact.session else Visited()
        self._score(visit, called, is_ok=run.fact.status == "ok")
        if run.fact.status != "ok":
            return
        self.runs += 1
        known = [flow for flow in flows if flow.source in called and flow.target in called]
        if visit.last in self.tools and visit.last not in called:
            self.tools[visit.last].go_on(order, principal, at, half_life)
        for number, (name, one) in enumerate(called.items()):
            after = order[number + 1 :]
            habit = self.tools[name] = self.tools.pop(name, Habit())
            is_current = habit.begin(one.major)
            fed = [flow.target for flow in known if flow.source == name and flow.target in after]
            habit.follow(after, fed, principal, at, half_life)
            if is_current and one.is_told:
                habit.give(one, principal, at, half_life)
                habit.feed(name, called, known, principal, at, half_life)
        trim(self.tools, TOOLS)  # only now: the oldest may be one that this run called
        visit.last = order[-1]

    def _visit(self, principal: str, session: str) -> Visited:
        key = f"{principal} {session}"
        visit = self.visits[key] = self.visits.pop(key, Visited())
        while len(self.visits) > VISITS:
            oldest = self.visits.pop(next(iter(self.visits)))
            for tip in list(oldest.tips):
                self._drop_tip(oldest, tip)
        return visit

    def _score(self, visit: Visited, called: dict[str, Called], *, is_ok: bool) -> None:
        """What came of what was told. A run that failed says nothing of what it did not get to."""
        order = list(called)
        for key, was_called in list(visit.tips.items()):
            kind, subject, mark = key.split(" ")
            if kind == "needs":
                if subject in called and is_ok:
                    is_given = any(mark_of(kind, name) == mark for name in called[subject].ever)
                    self._count(visit, key, is_right=is_given)
                continue
            after = order[order.index(subject) + 1 :] if subject in called else order if was_called else []
            is_right = any(mark_of(kind, name) == mark for name in after)
            if is_right or (was_called and is_ok):
                self._count(visit, key, is_right=is_right)
            elif subject in called and is_ok:
                visit.tips[key] = True  # what follows may be in the next run

    def _count(self, visit: Visited, key: str, *, is_right: bool) -> None:
        del visit.tips[key]
        kind, subject, mark = key.split(" ")
        score = self.scores.setdefault(kind, [0, 0])
        score[0] += 1
        score[1] += is_right
        if kind == "chain" and subject in self.tools:
            for name, link in self.tools[subject].followers.items():
                if mark_of(kind, name) == mark:
                    link.told += 1
                    link.right += is_right

    def _drop_tip(self, visit: Visited, key: str) -> None:
        if visit.tips[key]:  # the tool was called, and nothing followed
            self._count(visit, key, is_right=False)
        else:
            del visit.tips[key]

    # Looking up

    def followers(
        self,
        tool: str,
        view: Mapping[str, ToolSpec],
        *,
        principal: str,
        now: float,
        half_life: float,
        domain: str = "",
    ) -> list[Follower]:
        """The tools of `view` that usually follow a tool of it, the best first; those of `domain` are worth more."""
        if tool not in self.tools or tool not in view:
            return []
        ranked = []
        for name, link in self.tools[tool].followers.items():
            said = judge(link.votes, principal, now, half_life) if name in view else None
            if said is None or said.share < _OFTEN:
                continue
            if not said.is_backed and not _is_safe(view[tool], view[name]):
                continue  # one other principal is not enough to speak of it
            weight = _OWN_DOMAIN if domain and infer([view[name]]) == domain else 1.0
            ranked.append(((not said.is_backed, -said.share * weight, -said.evidence, name), said))
        ranked.sort()
        return [
            Follower(
                tool=rank[-1],
                share=said.share,
                evidence=said.evidence,
                principals=said.principals,
                is_backed=said.is_backed,
                flow=tuple(self._flow(view[tool], view[rank[-1]], view, principal, now, half_life)),
            )
            for rank, said in ranked
        ]

    def needs(
        self, spec: ToolSpec, view: Mapping[str, ToolSpec], *, principal: str, now: float, half_life: float
    ) -> list[Need]:
        """What a tool is usually given: parameters with what they are made of, and optional ones. The best first."""
        found = {
            source.parameter.removesuffix("[]"): Need(
                parameter=source.parameter,
                share=said.share,
                evidence=said.evidence,
                is_backed=said.is_backed,
                source=(source.tool, source.field),
            )
            for source, said in reversed(self._sources(spec, view, principal, now, half_life))
        }
        habit = self.tools.get(spec.full_name)
        if habit is not None and habit.major == major_of(spec.version):
            known = _parameters_of(spec)
            for name, votes in habit.given.items():
                said = judge(votes, principal, now, half_life) if name in known and not known[name][1] else None
                if said is not None and said.share >= _NEARLY_ALWAYS and name not in found:
                    found[name] = Need(
                        parameter=name, share=said.share, evidence=said.evidence, is_backed=said.is_backed
                    )
        return sorted(
            found.values(),
            key=lambda need: (not need.is_backed, need.source is None, -need.share, -need.evidence, need.parameter),
        )

    def _sources(
        self, spec: ToolSpec, view: Mapping[str, ToolSpec], principal: str, now: float, half_life: float
    ) -> list[tuple[Source, Said]]:
        """What the parameters of a tool are made of, the best first. Of fields only those that may be named."""
        habit = self.tools.get(spec.full_name)
        if habit is None or habit.major != major_of(spec.version):
            return []
        found = []
        for key, votes in habit.sources.items():
            source = source_of(key)
            first = view.get(source.tool)
            if first is None or major_of(first.version) != source.major:
                continue
            said = judge(votes, principal, now, half_life)
            if said is None or said.share < _MOSTLY or source.parameter.removesuffix("[]") not in _parameters_of(spec):
                continue
            # A key that one other principal saw may be data that looks like a name.
            if said.is_backed or (_is_public(first, source) and _is_safe(spec, first)):
                found.append((source, said))
        found.sort(
            key=lambda each: (not each[1].is_backed, -each[1].share, each[0].is_unplaced, -each[1].evidence, each[0])
        )
        return found

    def _flow(
        self,
        first: ToolSpec,
        second: ToolSpec,
        view: Mapping[str, ToolSpec],
        principal: str,
        now: float,
        half_life: float,
    ) -> Iterator[tuple[str, str]]:
        """Fields of the first tool's answer and the parameters of the second that they become, one for each."""
        taken: set[str] = set()
        for source, _ in self._sources(second, view, principal, now, half_life):
            name = source.parameter.removesuffix("[]")
            if source.tool == first.full_name and name not in taken:
                taken.add(name)
                yield source.field, source.parameter

    def tips(
        self,
        spec: ToolSpec,
        view: Snapshot,
        *,
        principal: str,
        now: float,
        half_life: float,
        domain: str = "",
        with_code: bool = False,
    ) -> tuple[Tip, ...]:
        """What to tell of a tool: at most two things, with code if it is wanted and can be made."""
        if spec.full_name not in self.tools:
            return ()
        followers = self.followers(
            spec.full_name, view.tools, principal=principal, now=now, half_life=half_life, domain=domain
        )
        needs = self.needs(spec, view.tools, principal=principal, now=now, half_life=half_life)
        chains: list[Tip | None] = []
        for follower in followers[:_HINTS]:
            second = view.tools[follower.tool]
            chains.append(chain_tip(spec, second, follower, _python_names(second), with_code=with_code))
        wants: list[Tip | None] = []
        for need in needs[:_HINTS]:
            source = None if need.source is None else view.tools[need.source[0]]
            name = _python_names(spec)[need.parameter.removesuffix("[]")]
            wants.append(need_tip(spec, need, name, source, with_code=with_code))
        ordered = (*chains[:1], *wants[:1], *chains[1:], *wants[1:])
        return tuple(tip for tip in ordered if tip is not None)[:_HINTS]

    def hints(self, spec: ToolSpec, view: Snapshot, *, principal: str, now: float, half_life: float) -> tuple[str, ...]:
        """The sentences of `tips`."""
        return tuple(tip.text for tip in self.tips(spec, view, principal=principal, now=now, half_life=half_life))

    def insights(self, now: float, half_life: float) -> PartInsights:
        """What was learned, and how often it was right that somebody was told of it."""
        items = list(self._chain_insights(now, half_life)) + list(self._need_insights(now, half_life))
        told, right = (sum(score[number] for score in self.scores.values()) for number in (0, 1))
        return part_insights("chains", items, learned=len(items), evidence=self.runs, told=told, right=right)

    def _chain_insights(self, now: float, half_life: float) -> Iterator[Insight]:
        for first, habit in self.tools.items():
            for second, link in habit.followers.items():
                said = judge(link.votes, "", now, half_life)
                if said is not None and said.share >= _OFTEN:
                    yield Insight(
                        kind="chain",
                        subject=f"{first} -> {second}",
                        text=f"{second} follows {first} in {round(said.share * 100)} % of runs.",
                        evidence=said.evidence,
                        principals=said.principals,
                        told=link.told,
                        right=link.right,
                        last_at=link.last_at,
                    )

    def _need_insights(self, now: float, half_life: float) -> Iterator[Insight]:
        for name, habit in self.tools.items():
            for key, votes in habit.sources.items():
                source, said = source_of(key), judge(votes, "", now, half_life)
                parameter = source.parameter.removesuffix("[]")
                if said is not None and said.share >= _MOSTLY and is_nameable(parameter):
                    share, field = round(said.share * 100), shown(source.field) or "answer"
                    yield Insight(
                        kind="needs",
                        subject=name,
                        text=f"{parameter} of {name} is the {field} of {source.tool} in {share} % of runs.",
                        evidence=said.evidence,
                        principals=said.principals,
                        last_at=votes.last_at,
                    )


def _is_safe(spec: ToolSpec, other: ToolSpec) -> bool:
    """Whether one principal's word is enough to bring two tools together: no data goes from server to server."""
    return spec.upstream == other.upstream and other.annotations.destructive is not True


def _is_public(spec: ToolSpec, source: Source) -> bool:
    if source.is_unplaced:
        return place_of(spec, last_key(source.field)) is not None
    return is_declared(spec, source.field)


def _parameters_of(spec: ToolSpec) -> dict[str, tuple[str, bool]]:
    """By its own name: what Python calls a parameter, and whether it is demanded."""
    key = (spec.full_name, spec.digest)
    known = _parameters.find(key)
    if known is None:
        known = {parameter.key: (parameter.name, parameter.required) for parameter in parameters(spec)}
        _parameters.put(key, known)
    return known


def _python_names(spec: ToolSpec) -> dict[str, str]:
    return {key: name for key, (name, _) in _parameters_of(spec).items()}
