"""Ranks tools for a query by the words they share: BM25 over weighted fields, in memory, in pure Python.

The weights of a tool's words depend on the tool alone: the length of a field is measured against a fixed typical one,
not against the catalog's average, so an analysed tool stays valid when the catalog changes. Names, descriptions and
schemas are untrusted: each is cut to a bounded length first, and repeating a word in a description soon gains nothing.

Learned words, by which a tool was found before, are one more field. A word that the tool's text already has adds
little, like a second mention; a missing word adds much. So experience fills gaps in descriptions and leaves the rest
alone.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, zip_longest
from typing import Any, NamedTuple

import msgspec

from sealyard.discovery.words import SYNONYMS, WEAK, spelled, squashed, stem, stems, terms
from sealyard.values.tools import ToolSpec


class Document(NamedTuple):
    """One tool, analysed."""

    weights: dict[str, float]
    """By term, saturated: from 0 to `_SATURATION + 1`."""
    name_terms: tuple[str, ...]


class _Field(NamedTuple):
    weight: float
    typical_words: float
    """A field of this length keeps its weight; a longer one loses some."""
    by_length: float
    """0: length does not matter; 1: twice as long, half the weight."""


# Tuned on all development sets together, then rounded; `benchmarks discovery` measures them.
_NAME = _Field(1.5, 3, 0.35)
_TITLE = _Field(1.0, 3, 0.4)
_SERVER = _Field(1.0, 4, 0.0)
_SUMMARY = _Field(1.5, 11, 0.4)
_DESCRIPTION = _Field(0.85, 11, 0.4)
_PARAMETERS = _Field(1.1, 2, 0.15)
_PARAMETER_TEXT = _Field(0.7, 7, 0.9)
_CHOICES = _Field(0.5, 7, 0.9)
_SATURATION = 1.6
"""A word's second mention in a tool adds less than the first; larger means less so."""

# Bounds on the work for a hostile definition.
_SUMMARY_CHARACTERS = 300  # of the title, and of the first sentence of the description
_DESCRIPTION_CHARACTERS = 4_000  # of the whole description
_PARAMETER_CHARACTERS = 400  # of a parameter's name, and of its description
_PARAMETERS_READ = 100  # of one tool
_CHOICES_READ = 20  # of one enumeration, the first
_CHOICE_CHARACTERS = 64  # of each of them

# Tuned like those weights.
_QUERY_SATURATION = 1.2
"""A repeated word of the query counts more, but less than in proportion."""
_RARITY_POWER = 1.3
"""Above 1: rare words outweigh common ones more than in BM25, because long requests hold many words by chance."""
_NAME_COVERED = 0.4
"""The bonus of a tool whose whole name is in the query."""
_NAME_SLACK = 1.5
"""Keeps a query from covering the name of a tool, one common word, by accident."""
_SYNONYM = 0.55
"""The weight of a synonym, beside 1 for the word itself."""

_QUERY_CHARACTERS = 8_000  # a longer query is cut: its work is bounded
_NAME_CHARACTERS = 256  # bounds the search for the end of a server in a name
_POSTINGS_READ = 2_000  # bounds the work for a query of common words
_AHEAD = 60  # tools scored in full: twelve times the default limit
# One setting for all sets of usage, picked by the worst of them.
_UNHEARD = 0.1
"""Experience counts only beyond this share of the best score: a little of it for many tools is chance."""
_LEAST_COVERED = 0.15
"""The least share of the query that learned words must cover, because long queries share common words."""
_RANKED = 100
"""Places of the text order that a ranking reports."""
_KEEPS_FIRST = 3
"""With fewer places than this, the text order decides all."""
_BELOW = 1 - 1e-9  # just under the first tool by text


class LearnedWord(NamedTuple):
    """A word of the query that led to a use of the tool before."""

    term: str
    gain: float
    """Its weight, as if it stood in the tool's text."""
    said: float
    """The same with the evidence of a single other principal added: not less."""


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """The experience with a query."""

    words: Mapping[str, Sequence[LearnedWord]]
    """By the full names of tools. Tools outside the index do not count."""
    content_words: Sequence[str] = ()
    """The informative words of the query; those among them that are in `words` must cover enough of it."""
    explores: bool = False
    """True if an untried tool that would drop out of sight gets a place this time."""
    is_tried: Callable[[str], bool] = lambda name: True
    """True if anybody has called the tool."""


class _Lift(NamedTuple):
    """The addition of learned words to a tool's score."""

    sure: float
    said: float
    """With the evidence of a single other principal: not less."""


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that fit a query."""

    names: list[str]
    """Full names, best first."""
    unmatched: list[str]
    """Words of the query, as written, that no tool has."""
    text_ranks: list[int] = []
    """The place of each by text alone, 1 for the best and 0 for none. Empty if experience changed nothing."""


class _Postings(NamedTuple):
    """The tools with one term."""

    numbers: list[int]
    weights: list[float]


class _QueryTerm(NamedTuple):
    """One term of a query."""

    factor: float
    present: list[tuple[str, float]]
    """The term and its synonyms in the index, each with its weight."""
    postings: int
    """The number of postings of all of them."""


class Request(NamedTuple):
    """A query, read against one index."""

    exact: dict[int, int]
    """The tools of exactly this name, with the quality of the match: 0 full name, 1 with the server, 2 without."""
    counts: dict[str, int]
    """The number of occurrences of each known term."""
    unmatched: list[str]


class Index:
    """The tools of one catalog version, ready to be searched.

    Building costs time by the words in all tools; with `earlier`, only tools that are not in that index are read.
    """

    def __init__(self, specs: Iterable[ToolSpec], *, earlier: "Index | None" = None) -> None:
        self.specs: Sequence[ToolSpec] = sorted(specs, key=lambda spec: spec.full_name)
        self.analysed: dict[tuple[str, str], Document] = {}
        """By server and digest, which pins everything else that is read of a tool."""
        self._documents: list[Document] = []
        self._postings = postings = dict[str, _Postings]()
        self._name_terms: set[str] = set()
        self._exact: dict[str, list[int]] = {}
        self._servers: dict[str, list[int]] = {}
        self._numbers = {spec.full_name: number for number, spec in enumerate(self.specs)}
        known = earlier.analysed if earlier else {}
        for number, spec in enumerate(self.specs):
            key = (spec.upstream, spec.digest)
            document = self.analysed[key] = known.get(key) or analysed(spec)
            self._documents.append(document)
            for term, weight in document.weights.items():
                if (entry := postings.get(term)) is None:
                    entry = postings[term] = _Postings([], [])
                entry[0].append(number)
                entry[1].append(weight)
            self._name_terms.update(document.name_terms)
            for name in {squashed(text) for text in {spec.name, spec.function, spec.full_name}}:
                self._exact.setdefault(name, []).append(number)
            for name in {spec.upstream, spec.module}:
                self._servers.setdefault(squashed(name), []).append(number)
        self._rarity = {
            term: math.log(1 + (len(self.specs) - len(numbers) + 0.5) / (len(numbers) + 0.5))
            for term, (numbers, _) in self._postings.items()
        }

    def search(
        self, query: str, *, limit: int = 5, server: str | None = None, learned: Learned | None = None
    ) -> Ranking:
        """The best `limit` tools for `query`, those of that exact name first; equal ones by their full name.

        Case, separators and a missing server do not matter to an exact name. A query of stop words alone lists tools,
        one of each server in turn. `learned` moves tools up that such words led to before.
        """
        request = self.read(query)
        among = self.among(server)
        scores = self.scores(request, limit=limit, among=among)
        return self.ranked(request, scores, limit=limit, among=among, learned=learned)

    def among(self, server: str | None) -> frozenset[int] | None:
        """The numbers, in `specs`, of the tools of one server; `None` stands for all."""
        return None if server is None else frozenset(self._servers.get(squashed(server), ()))

    def ranked(
        self,
        request: Request,
        scores: Mapping[int, float],
        *,
        limit: int,
        among: frozenset[int] | None,
        learned: Learned | None = None,
        scale: float = 1.0,
    ) -> Ranking:
        """Exact names, then the tools that have a score, best first. `scale` is of `scores` to those of `scores()`."""
        has_words = bool(request.counts or request.unmatched)
        unheard = _UNHEARD * max(scores.values(), default=0.0)
        lifts = self._lifts(learned, among, scale, unheard) if learned is not None and has_words else {}
        order = self._ordered(request, scores, most=_RANKED if lifts else limit, among=among)
        ranks: list[int] = []
        best = order[:limit]
        if lifts and learned is not None:
            best = self._reordered(request, scores, order, lifts, learned, limit=limit, among=among, scale=scale)
            if best != order[:limit]:
                places = {number: place for place, number in enumerate(order, 1)}
                ranks = [places.get(number, 0) for number in best]
        names = [self.specs[number].full_name for number in best]
        return Ranking(names=names, unmatched=request.unmatched, text_ranks=ranks)

    def _reordered(
        self,
        request: Request,
        scores: Mapping[int, float],
        order: list[int],
        lifts: Mapping[int, _Lift],
        learned: Learned,
        *,
        limit: int,
        among: frozenset[int] | None,
        scale: float,
    ) -> list[int]:
        by_text = dict(scores)
        if lifts.keys() - by_text.keys():
            query_terms = list(self._query_terms(request))
            shares = _shares(query_terms)
            for number in lifts.keys() - by_text.keys():  # cut from the scores, or without a word of the query
                by_text[number] = scale * self._score(number, 0.0, query_terms, shares)
        with_words = _fused(by_text, lifts, order, limit=limit)
        return _with_text_kept(
            self._ordered(request, with_words, most=limit, among=among),
            order,
            limit=limit,
            explores=learned.explores,
            is_tried=lambda number: learned.is_tried(self.specs[number].full_name),
        )

    def _lifts(self, learned: Learned, among: frozenset[int] | None, scale: float, unheard: float) -> dict[int, _Lift]:
        """The additions of learned words beyond `unheard`, for tools whose words cover enough of the query."""
        lifts: dict[int, _Lift] = {}
        informative = {term: scale * self._factor(term) for term in learned.content_words}
        least = _LEAST_COVERED * sum(informative.values())
        factors = dict(informative)
        for name, learned_words in learned.words.items():
            number = self._numbers.get(name)
            if number is None or (among is not None and number not in among):
                continue
            weights = self._documents[number].weights
            sure = said = sure_covered = said_covered = 0.0
            for term, gain, more in learned_words:
                if (factor := factors.get(term)) is None:
                    factor = factors[term] = scale * self._factor(term)
                weight = weights.get(term, 0.0)
                added = factor * (_with_gain(weight, gain) - weight)
                sure += added
                said += factor * (_with_gain(weight, more) - weight) if more > gain else added
                if term in informative:
                    said_covered += factor
                    sure_covered += factor if gain > 0 else 0.0
            sure = sure - unheard if sure_covered >= least else 0.0
            said = said - unheard if said_covered >= least else 0.0
            if said > 0:
                lifts[number] = _Lift(max(0.0, sure), said)
        return lifts

    def _factor(self, term: str) -> float:
        """The factor of a term that is once in the query, in a tool's text or not."""
        rarity = self._rarity.get(term)
        if rarity is None:
            rarity = math.log(2 * len(self.specs) + 2)
        weight = WEAK.get(term, 1.0)
        return float(rarity**_RARITY_POWER * weight / (_QUERY_SATURATION + weight))

    def _ordered(
        self, request: Request, scores: Mapping[int, float], *, most: int, among: frozenset[int] | None
    ) -> list[int]:
        exact = {number: way for number, way in request.exact.items() if among is None or number in among}
        if request.counts or request.unmatched:
            others = heapq.nsmallest(most + len(exact), scores, key=lambda number: (-scores[number], number))
        else:
            others = list(islice(self._one_of_each(among), most + len(exact)))
        first = sorted(exact, key=lambda number: (exact[number], -scores.get(number, 0.0), number))
        return [*first, *(number for number in others if number not in exact)][:most]

    def _one_of_each(self, among: frozenset[int] | None) -> Iterator[int]:
        by_server: dict[str, list[int]] = {}
        for number in sorted(among) if among is not None else range(len(self.specs)):
            by_server.setdefault(self.specs[number].upstream, []).append(number)
        rows = zip_longest(*(by_server[name] for name in sorted(by_server)))
        return (number for row in rows for number in row if number is not None)

    def read(self, query: str) -> Request:
        """The terms of a query that are in this index, how often each, and the words that are not."""
        query = query[:_QUERY_CHARACTERS]
        written = spelled(query)
        found = [terms(word) for word in written]
        counts: Counter[str] = Counter()
        joined: set[int] = set()
        for at, (left, right) in enumerate(pairwise(written)):  # `web hook` finds `webhook`
            if found[at] and found[at + 1] and (term := stem((left + right).lower())) in self._postings:
                counts[term] = 1
                joined |= {at, at + 1}
        unmatched: dict[str, None] = {}
        for at, (word, own) in enumerate(zip(written, found, strict=True)):
            known = [term for term in own if term in self._postings or self._synonyms(term)]
            if not known and own:
                known = self._halves(word)
            counts.update(known)
            if own and not known and at not in joined:
                unmatched[word] = None
        return Request(self._exactly(query), dict(counts), list(unmatched))

    def _exactly(self, query: str) -> dict[int, int]:
        """The tools of this name. A hostile one may differ only in case and separators, so the closer match wins."""
        name = squashed(query)
        if not name or len(name) > _NAME_CHARACTERS:
            return {}
        found = dict.fromkeys(self._exact.get(name, ()), 2)
        name = name.removeprefix("servers")
        for cut in range(1, len(name)):
            if name[:cut] in self._servers and name[cut:] in self._exact:
                found |= dict.fromkeys(set(self._servers[name[:cut]]) & set(self._exact[name[cut:]]), 1)
        return {number: 0 if self.specs[number].full_name == query.strip() else way for number, way in found.items()}

    def _present(self, term: str) -> list[tuple[str, float]]:
        """The term and its synonyms in the index, each with its weight.

        A synonym counts no more than its own rarity, or a query for `film` would make every `movie` a rare match.
        """
        own = [(term, 1.0)] if term in self._postings else []
        synonyms = self._synonyms(term)
        if not synonyms:
            return own
        rarity = self._rarity[term if own else synonyms[0]]
        return own + [
            (synonym, _SYNONYM * min(1.0, self._rarity[synonym] / rarity) ** _RARITY_POWER) for synonym in synonyms
        ]

    def _synonyms(self, term: str) -> list[str]:
        return [synonym for synonym in SYNONYMS.get(term, ()) if synonym in self._postings]

    def _halves(self, word: str) -> list[str]:
        """Two terms of names that make up an unknown word: `workitem` finds `work_item`."""
        for cut in range(3, len(word) - 2):
            if (left := stem(word[:cut].lower())) in self._name_terms:
                right = stem(word[cut:].lower())
                if right in self._name_terms:
                    return [left, right]
        return []

    def scores(self, request: Request, *, limit: int, among: frozenset[int] | None) -> dict[int, float]:
        """The scores of tools by their number in `specs`, without those that cannot be among the best `limit`.

        Without a server, terms are read from the rarest on. The terms beyond `_POSTINGS_READ` are so common that they
        only decide between tools which already lead.
        """
        query_terms = sorted(self._query_terms(request), key=lambda term: term.postings)
        shares = _shares(query_terms)
        if among is None:
            totals, query_terms = self._ahead(query_terms, limit)
        else:
            totals = dict.fromkeys(among, 0.0)
        scores = {number: self._score(number, total, query_terms, shares) for number, total in totals.items()}
        return {number: score for number, score in scores.items() if score > 0}

    def _query_terms(self, request: Request) -> Iterator[_QueryTerm]:
        for term, count in request.counts.items():
            present = self._present(term)
            weight = count * WEAK.get(term, 1.0)
            factor = self._rarity[present[0][0]] ** _RARITY_POWER * weight / (_QUERY_SATURATION + weight)
            yield _QueryTerm(factor, present, sum(len(self._postings[other].numbers) for other, _ in present))

    def _ahead(self, query_terms: list[_QueryTerm], limit: int) -> tuple[dict[int, float], list[_QueryTerm]]:
        """The sums of the rarest terms for the leading tools, and the terms that were not read."""
        totals: dict[int, float] = {}
        read = done = 0
        for factor, present, postings in query_terms:
            read += postings
            if read > _POSTINGS_READ and len(totals) >= limit:
                break
            done += 1
            best: dict[int, float] = {}
            for other, share in present:
                numbers, weights = self._postings[other]
                gain = factor * share
                if len(present) == 1:
                    for number, weight in zip(numbers, weights, strict=True):
                        totals[number] = totals.get(number, 0.0) + gain * weight
                else:
                    for number, weight in zip(numbers, weights, strict=True):
                        if gain * weight > best.get(number, 0.0):
                            best[number] = gain * weight
            for number, value in best.items():
                totals[number] = totals.get(number, 0.0) + value
        wanted = max(_AHEAD, 4 * limit)
        if len(totals) > wanted:
            least = sorted(totals.values())[-wanted]
            totals = {number: total for number, total in totals.items() if total >= least}
        return totals, query_terms[done:]

    def _score(self, number: int, total: float, query_terms: list[_QueryTerm], shares: Mapping[str, float]) -> float:
        weights, name_terms = self._documents[number]
        for factor, present, _ in query_terms:
            if len(present) == 1:
                total += factor * weights.get(present[0][0], 0.0)
            else:
                total += factor * max([share * weights.get(term, 0.0) for term, share in present])
        mass, covered = _NAME_SLACK, 0.0
        for term in name_terms:
            rarity = self._rarity[term]
            mass += rarity
            covered += rarity * shares.get(term, 0.0)
        return total * (1 + _NAME_COVERED * covered / mass)


def _shares(query_terms: Iterable[_QueryTerm]) -> dict[str, float]:
    """The largest weight of each term in a name."""
    shares: dict[str, float] = {}
    for _, present, _ in query_terms:
        for term, share in present:
            shares[term] = max(share, shares.get(term, 0.0))
    return shares


def _fused(
    text: Mapping[int, float], lifts: Mapping[int, _Lift], order: Sequence[int], *, limit: int
) -> dict[int, float]:
    """The scores of tools by text and experience. `text` has those of all in `lifts`; `order` is theirs by text.

    The evidence of a single other principal never moves a tool before the first one by text, and brings in at most one
    tool that text would not have shown.
    """
    scores = {number: score + lifts[number].sure if number in lifts else score for number, score in text.items()}
    said = {number: text[number] + lift.said for number, lift in lifts.items() if lift.said > lift.sure}
    if not said:
        return scores
    ceiling = scores[order[0]] * _BELOW if order else 0.0
    shown = set(order[:limit])
    entered = False
    for number in sorted(said, key=lambda number: (-said[number], number)):
        if number in shown or not entered:
            entered = entered or number not in shown
            scores[number] = max(scores[number], min(said[number], ceiling) if order else said[number])
    return scores


def _with_text_kept(
    numbers: list[int], order: Sequence[int], *, limit: int, explores: bool, is_tried: Callable[[int], bool]
) -> list[int]:
    """The tools to show: always the first one by text, and now and then one that nobody has tried yet."""
    if len(numbers) < limit or limit < _KEEPS_FIRST or not order:
        return numbers
    first = order[0]
    kept = [] if first in numbers else [first]
    if explores:
        kept += [number for number in order[:limit] if number not in (*numbers, first) and not is_tried(number)][:1]
    shown = list(numbers)
    for _ in kept:
        del shown[-2 if shown[-1] == first else -1]
    return shown + kept


def analysed(spec: ToolSpec) -> Document:
    """The tool's words from its name, title, server, description and parameters."""
    names, texts, choices = _parameters(spec.input_schema)
    description = spec.description[:_DESCRIPTION_CHARACTERS].strip()
    end = _end_of_summary(description)
    name, summary, rest = stems(spec.name), stems(description[:end]), stems(description[end:])
    parameter_text, choice_words = stems(" ".join(texts)), stems(" ".join(choices))
    described = len(summary) + len(rest)
    gains: dict[str, float] = {}
    for field, found, length in (
        (_NAME, name, len(name)),
        (_TITLE, stems(spec.title[:_SUMMARY_CHARACTERS]), 0),
        (_SERVER, stems(spec.upstream), 0),
        (_SUMMARY, summary, described),
        (_DESCRIPTION, rest, described),
        (_PARAMETERS, stems(" ".join(names)), len(names)),
        (_PARAMETER_TEXT, parameter_text, len(parameter_text)),
        (_CHOICES, choice_words, len(choice_words)),
    ):
        gain = field.weight / (1 - field.by_length + field.by_length * length / field.typical_words)
        for term in found:
            gains[term] = gains.get(term, 0.0) + gain
    top = _SATURATION + 1
    weights = {term: gain * top / (_SATURATION + gain) for term, gain in gains.items()}
    return Document(weights, tuple(dict.fromkeys(name)))


def _with_gain(weight: float, gain: float) -> float:
    """The weight of a term in a tool after a further mention that counts `gain`."""
    top = _SATURATION + 1
    if weight >= top:
        return weight
    total = _SATURATION * weight / (top - weight) + gain
    return total * top / (_SATURATION + total)


def _parameters(schema: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """The names of the parameters, their descriptions and their enumerated values."""
    names: list[str] = []
    texts: list[str] = []
    choices: list[str] = []
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, parameter in list(properties.items())[:_PARAMETERS_READ]:
            names.append(str(name)[:_PARAMETER_CHARACTERS])
            if isinstance(parameter, dict):
                text, values = parameter.get("description"), parameter.get("enum")
                if isinstance(text, str):
                    texts.append(text[:_PARAMETER_CHARACTERS])
                if isinstance(values, list):
                    choices += [
                        value[:_CHOICE_CHARACTERS] for value in values[:_CHOICES_READ] if isinstance(value, str)
                    ]
    return names, texts, choices


def _end_of_summary(description: str) -> int:
    """The end of the first line or sentence, unless it is too short or too long for a summary."""
    ends = [description.find(mark, 20) for mark in (". ", "! ", "? ", ".\n", "\n")]
    return min([_SUMMARY_CHARACTERS, *(end + 1 for end in ends if end >= 0)])
