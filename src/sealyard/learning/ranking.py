"""Search ranking: tools that were used with success after searches for the same words.

A search stays open for half an hour of its visit. A found tool that then works is credited to the words of the query.
A tool that works without being found is one that the search should have found; so is a tool that a rephrased search
found. A use teaches little if text alone ranked the tool first. Evidence is held by word, tool and principal; orders
that did worse than text alone reduce the trust in it.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise

import msgspec

from sealyard.discovery import WEAK, Learned, LearnedWord, spelled
from sealyard.discovery import terms as terms_of
from sealyard.learning.disclosure import mark_of
from sealyard.learning.part import (
    Evidence,
    Insight,
    Lesson,
    Part,
    PartInsights,
    Viewer,
    part_insights,
    put_last,
    touch,
    trim,
)
from sealyard.values.facts import RunEvidence, Searched, Used

# Tuned values: chosen, not measured, unless a source is named. A bound limits memory or the cost of hostile input.

_QUERY_CHARACTERS = 500  # the journal keeps as much of a query
_TERMS = 32  # words of a query that are learned: a bound
_TERM_CHARACTERS = 24  # longer words are values
# One setting for all development sets, picked by the worst of them: `benchmarks learning` measures it.
_GAIN = 2.5  # most weight of a word: more than a word of a tool's name has, since text lacks it
EVIDENCE = 1.0  # good uses at which a word has half of that weight
_KNOWN_TOOLS = 12.0  # keeps a word from counting as rare while few tools have been used at all
_TYPICAL_TERMS = 8.0  # words of a query of average length
_BY_LENGTH = 0.5  # how much the length of a query matters
_LEAST_TERMS = 2  # words that a tool must have in common with a query
_LEAST_SHARE = 0.15  # the same as a share: long queries have words in common by chance
_CAP = 20.0  # most orders that count of the principal itself
_CAP_OF_OTHERS = 5.0  # most orders that count of each other principal; as `CAP`
_PRINCIPALS = 64  # principals whose orders are remembered: a bound
_SLACK = 6.0  # orders added to the count, so that one or two bad ones do not decide
_WORST = 0.3  # excess of worse orders at which experience is ignored
TERMS = 10_000  # words remembered: a bound
PAIRS = 60_000  # pairs of a word and a tool remembered, the last learned: a bound
TOOLS = 5_000  # tools remembered: a bound
VISITS = 500  # visits with open searches: a bound
_TOOLS_OF_TERM = 32  # tools of one word; a word with more distinguishes none of them
_PAIRS_READ = 200  # pairs read for one query, rarest words first; lowered from 300 to cost less
_RECALLED = 24  # tools recalled for one query
_SEARCHES = 8  # open searches of one visit: a bound
_FOUND = 50  # hits of a search that are remembered: a bound
_CALLED = 12  # tools of one run that are looked at: a bound
_OPEN_SECONDS = 1_800.0  # time for which a search stays open
_MISSED_SECONDS = 600.0  # time in which a tool that was not found belongs to the search before it
_TEXT_WAS_RIGHT = 0.3  # weight of a use if text has the tool first anyway
_MISSED = 0.5  # weight of a use if the search did not find the tool
_FAILED = 0.5  # weight against a tool whose call failed
_PASSED_OVER = 0.25  # weight against a tool that was moved up when one below it was wanted
_EXPLORES = 4  # one in this many searches shows an untried tool that experience would push out of sight

# Words

_NAMED = re.compile(r"[^\W\d_]+\d{1,2}|[^\W\d_][^\W_]{0,3}")
"""`oauth2` and `k8s` name a thing; a word with more digits is probably a private number."""


def learnable(query: str) -> list[str]:
    """The stems of a query that describe the wanted tool, each once, without numbers, ids and other values."""
    named = (word for word in spelled(query[:_QUERY_CHARACTERS]) if word.isalpha() or _NAMED.fullmatch(word))
    found = dict.fromkeys(chain.from_iterable(map(terms_of, named)))
    return [term for term in found if len(term) <= _TERM_CHARACTERS][:_TERMS]


@lru_cache(maxsize=1 << 14)
def term_mark(term: str) -> str:
    """A digest in place of a term, since queries are private. A weak word is kept as it is."""
    return term if term in WEAK else mark_of(term)


def weigh(votes: Evidence, viewer: Viewer) -> tuple[float, float]:
    """The good uses that count for a principal, and the same including those that only one other principal reports.

    Failures reduce both in proportion. The report of a single principal is no evidence for others.
    """
    own = others = 0.0
    voices = 0
    for who, (yes, no, at) in votes.by.items():
        if yes > no:
            net = (yes - no) * viewer.faded(at)
            if who == viewer.principal:
                own = net
            else:
                others += net
                voices += 1
    return own + (others if voices > 1 else 0.0), own + others


# Trust


class Trust(msgspec.Struct, array_like=True):
    """Better and worse orders, by principal. A principal's own orders count most, those of others a little."""

    orders: Evidence = msgspec.field(default_factory=Evidence)
    """For: orders that put the wanted tool higher than text does. Against: orders that put it lower."""

    def add(self, viewer: Viewer, *, better: float = 0.0, worse: float = 0.0) -> None:
        """Count an order that put the wanted tool higher, or lower, than text does."""
        self.orders.add(viewer, yes=better, no=worse, cap=_CAP, most=_PRINCIPALS)

    def share(self, viewer: Viewer) -> float:
        """The trust from 0 to 1. The worst record among others is left out, so that no single one can remove trust."""
        better = worse = 0.0
        others: list[tuple[float, float, float]] = []
        for who, (one, other, at) in self.orders.by.items():
            scale = viewer.faded(at)
            if who == viewer.principal:
                better, worse = one * scale, other * scale
            else:
                scale *= _CAP_OF_OTHERS / max(_CAP_OF_OTHERS, one + other)
                others.append(((other - one) * scale, one * scale, other * scale))
        for _, one, other in sorted(others)[:-1]:
            better, worse = better + one, worse + other
        excess = (worse - better) / (better + worse + _SLACK)
        return min(1.0, max(0.0, 1 - excess / _WORST))


# The part

_NO_FAULT = ("PolicyRefused", "ApprovalRefused", "LimitReached", "Cancelled")
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


class _Open(msgspec.Struct, array_like=True):
    """A search whose visit is not over."""

    id: str
    principal: str
    at: float
    terms: list[str]
    found: list[str]
    text_ranks: list[int]
    """As in `Searched`."""
    first: str = ""
    """The first found tool that was called."""
    counted: dict[str, bool] = {}
    """The tools that evidence was counted for; True for those that worked."""

    def text_rank(self, tool: str) -> int:
        """The rank of a found tool by text alone: 1 for the best, 0 if text does not find it."""
        place = self.found.index(tool)
        return self.text_ranks[place] if self.text_ranks else place + 1


class Ranking(Part, msgspec.Struct, kw_only=True):
    """The evidence of searches and runs about words and tools."""

    words: dict[str, dict[str, Evidence]] = {}
    """By digest of a term, then by tool; the most recent last."""
    pairs: int = 0
    tools: dict[str, Evidence] = {}
    """The outcomes of calls, by tool."""
    open: dict[str, list[_Open]] = {}
    """Searches by visit."""
    trust: Trust = msgspec.field(default_factory=Trust)
    searches: int = 0
    taught: int = 0
    """Searches after which a tool worked."""

    # Learning

    def learn(self, lesson: Lesson, half_life: float) -> None:
        """Open a search, note the first use of one of its tools, or learn from the calls of a run."""
        match lesson.event:
            case Searched() as event:
                self._open(event)
            case Used() as event:
                for search in self.open.get(event.session, ()):
                    if search.id == event.search_id and not search.first and event.tool in search.found:
                        search.first = event.tool
            case _:
                Part.learn(self, lesson, half_life)

    def _open(self, event: Searched) -> None:
        self.searches += 1
        terms = list(map(term_mark, learnable(event.query)))
        ranks = list(event.text_ranks[:_FOUND])
        if terms and event.session and (not ranks or len(ranks) == len(event.found[:_FOUND])):
            found = list(event.found[:_FOUND])
            search = _Open(event.search_id, event.principal, event.at, terms, found, ranks)
            put_last(self.open, event.session, [*self.open.get(event.session, [])[1 - _SEARCHES :], search], VISITS)

    def learn_run(self, run: RunEvidence, lesson: Lesson, viewer: Viewer) -> None:
        """Learn which of the tools that the searches of this visit found did the job."""
        fact = run.fact
        outcomes = _outcomes(run)
        for tool, is_ok in outcomes.items():
            votes = touch(self.tools, tool, Evidence)
            votes.add(viewer, yes=float(is_ok), no=float(not is_ok))
        trim(self.tools, TOOLS)  # only now: the oldest may be one that this run called
        searches = [
            search
            for search in self.open.get(fact.session, ())
            if search.principal == fact.principal and 0 <= fact.at - search.at <= _OPEN_SECONDS
        ]
        for search in searches:
            self._learn_found(search, outcomes, viewer)
        if searches:
            self._learn_missed(searches, outcomes, run, viewer)
            self._learn_repeated(searches, outcomes, viewer)

    def _learn_found(self, search: _Open, outcomes: Mapping[str, bool], viewer: Viewer) -> None:
        """Learn about the tools that a search found: each counts once if it works, and once against it before that."""
        first = search.first
        if first and outcomes.get(first) and not search.counted.get(first):
            self._hold_up(search, viewer)
        for tool, is_ok in outcomes.items():
            if tool in search.found and (tool not in search.counted or (is_ok and not search.counted[tool])):
                self.taught += is_ok and not any(search.counted.values())
                search.counted[tool] = is_ok
                worth = _TEXT_WAS_RIGHT if search.text_rank(tool) == 1 else 1.0
                self._vote(search, tool, viewer, **({"yes": worth} if is_ok else {"no": _FAILED}))

    def _learn_missed(
        self, searches: Sequence[_Open], outcomes: Mapping[str, bool], run: RunEvidence, viewer: Viewer
    ) -> None:
        """Learn about the tools that worked without being found: the last search should have found them."""
        last = searches[-1]
        if run.started_at - last.at > _MISSED_SECONDS:
            return
        known = {tool for search in searches for tool in (*search.found, *search.counted)}
        for tool, is_ok in outcomes.items():
            if is_ok and tool not in known and len(last.counted) < _CALLED:
                self.taught += not any(last.counted.values())
                last.counted[tool] = True
                self._vote(last, tool, viewer, yes=_MISSED)

    def _learn_repeated(self, searches: Sequence[_Open], outcomes: Mapping[str, bool], viewer: Viewer) -> None:
        """Learn about the tools that a search found after an earlier one with the same aim had led to no call.

        The earlier one had the same aim if it has a word in common with this one, or found nothing.
        """
        for before, search in pairwise(searches):
            is_same_want = not before.found or any(term in search.terms and term not in WEAK for term in before.terms)
            if before.counted or not is_same_want or search.at - before.at > _MISSED_SECONDS:
                continue
            for tool, is_ok in outcomes.items():
                if is_ok and tool in search.found and len(before.counted) < _CALLED:
                    before.counted[tool] = True
                    self._vote(before, tool, viewer, yes=_MISSED)

    def _hold_up(self, search: _Open, viewer: Viewer) -> None:
        """Compare an order with the one by text, now that the wanted tool is known."""
        if not search.text_ranks:
            return
        place = search.found.index(search.first)
        by_text = search.text_ranks[place]
        better = float(by_text == 0 or by_text > place + 1)
        worse = float(0 < by_text < place + 1)
        self.checked += 1
        self.right += not worse
        for above in range(place):  # moved up, seen, and passed over
            if not 0 < search.text_ranks[above] <= above + 1:
                self._vote(search, search.found[above], viewer, no=_PASSED_OVER)
        if better or worse:
            self.trust.add(viewer, better=better, worse=worse)

    def _vote(self, search: _Open, tool: str, viewer: Viewer, *, yes: float = 0, no: float = 0) -> None:
        # Each word of a long query counts less.
        length = 1 - _BY_LENGTH + _BY_LENGTH * len(search.terms) / _TYPICAL_TERMS
        for term in search.terms:
            tools = self.words.pop(term, {})
            votes = tools.pop(tool, None)
            if votes is None:
                self.pairs += 1
                votes = Evidence()
            votes.add(viewer, yes=yes / length, no=no / length)
            tools[tool] = votes
            self.words[term] = tools
            if len(tools) > _TOOLS_OF_TERM:
                del tools[_least(tools, search.principal)]
                self.pairs -= 1
        while self.pairs > PAIRS or len(self.words) > TERMS:
            self.pairs -= len(self.words.pop(next(iter(self.words))))

    # Looking up

    def recall(self, query: str, viewer: Viewer) -> Learned | None:
        """The evidence on the words of a query, None if there is too little."""
        plain = {term_mark(term): term for term in learnable(query)}
        trust = self.trust.share(viewer)
        if not plain or not trust:
            return None
        found = self._recall(list(plain), viewer, trust)
        if not found:
            return None
        turn = zlib.crc32(" ".join(plain).encode()) + self.searches
        return Learned(
            words={tool: [each._replace(term=plain[each.term]) for each in some] for tool, some in found.items()},
            content_words=[term for term in plain.values() if term not in WEAK],
            explores=turn % _EXPLORES == 0,
            is_tried=self.tools.__contains__,
        )

    def _recall(self, terms: list[str], viewer: Viewer, trust: float) -> dict[str, list[LearnedWord]]:
        known = self._known(terms, viewer.principal)
        counts: Counter[str] = Counter()
        for term, tools in known:
            if term not in WEAK:
                counts.update(tools.keys())
        # Words, weak ones aside, that must match a tool: two, more in a long query, all in a short one.
        strong_terms = sum(term not in WEAK for term in terms)
        least = max(1, min(strong_terms, max(_LEAST_TERMS, math.ceil(_LEAST_SHARE * strong_terms))))
        found: dict[str, list[LearnedWord]] = {tool: [] for tool, count in counts.items() if count >= least}
        for term, tools in known:
            some = [(tool, votes) for tool, votes in tools.items() if tool in found]
            if not some:
                continue
            # Counted separately: a single principal that names many tools weakens a word only in its own evidence.
            proven = _proven(tools, viewer.principal)
            sure_worth = trust * self._worth(proven)
            said_worth = sure_worth if proven == len(tools) else trust * self._worth(len(tools))
            for tool, votes in some:
                sure, said = weigh(votes, viewer)
                gain = sure_worth * sure / (sure + EVIDENCE)
                more = gain if said == sure else max(gain, said_worth * said / (said + EVIDENCE))
                if more > 0:
                    found[tool].append(LearnedWord(term, gain, more))
        strong = {tool: sum(word.said for word in words) for tool, words in found.items() if len(words) >= least}
        strongest = sorted(strong, key=lambda tool: (-strong[tool], tool))[:_RECALLED]
        return {tool: self._scaled(tool, found[tool], viewer) for tool in strongest}

    def _known(self, terms: list[str], principal: str) -> list[tuple[str, dict[str, Evidence]]]:
        """The words that distinguish tools, those with the fewest tools first."""
        known = [(term, tools) for term in terms if (tools := self.words.get(term)) is not None]
        known.sort(key=lambda each: len(each[1]))
        found = []
        read = 0
        for term, tools in known:
            read += len(tools)
            if read > _PAIRS_READ:
                break
            if len(tools) < _TOOLS_OF_TERM or _proven(tools, principal) < _TOOLS_OF_TERM:
                found.append((term, tools))
        return found

    def _worth(self, tools: int) -> float:
        """The highest weight of a word that led to this number of tools."""
        if tools >= _TOOLS_OF_TERM:
            return 0.0
        rarity = 1 - math.log1p(tools) / math.log(len(self.tools) + _KNOWN_TOOLS)
        return _GAIN * max(0.0, rarity) / math.sqrt(max(1, tools))

    def _scaled(self, tool: str, words: list[LearnedWord], viewer: Viewer) -> list[LearnedWord]:
        """The weight of a tool's learned words, scaled by the success of its calls."""
        calls = self.tools.get(tool, Evidence()).tally(viewer)
        scale = (calls.yes + 1) / (calls.total + 1)
        if scale == 1.0:
            return words
        return [LearnedWord(term, gain * scale, said * scale) for term, gain, said in words]

    def items(self, viewer: Viewer) -> Iterator[Insight]:
        """The tools that were found and used most."""
        for tool, count in Counter(tool for tools in self.words.values() for tool in tools).items():
            votes = self.tools.get(tool)
            if votes is None or not _NAME.fullmatch(tool):
                continue
            tally = votes.tally(viewer)
            yield Insight(
                kind="ranking",
                subject=tool,
                text=f"Found by {count} words; {tally.share:.0%} of its calls are expected to work.",
                evidence=tally.total,
                principals=tally.principals,
                last_at=votes.last_at,
            )

    def summary(self, items: Sequence[Insight]) -> PartInsights:
        """The record of the tools that were found."""
        learned = len({tool for tools in self.words.values() for tool in tools})
        return part_insights("ranking", items, learned=learned, evidence=self.taught, score=self.score())


def _outcomes(run: RunEvidence) -> dict[str, bool]:
    """The tools of a run; True for those with a successful call. Refused calls do not count."""
    found: dict[str, bool] = {}
    for call in run.calls:
        if call.error is None:
            found[call.tool] = True
        elif call.error.partition(":")[0] not in _NO_FAULT:
            found.setdefault(call.tool, False)
        if len(found) >= _CALLED:
            break
    return found


def _proven(tools: Mapping[str, Evidence], principal: str) -> int:
    """The number of tools that are reported by more than one other principal."""
    return len([None for votes in tools.values() if principal in votes.by or len(votes.by) > 1])


def _least(tools: Mapping[str, Evidence], principal: str) -> str:
    """The tool to forget when `principal` adds one: the oldest that it alone reports, so that others lose none."""
    return next((tool for tool, votes in tools.items() if votes.by.keys() == {principal}), next(iter(tools)))
