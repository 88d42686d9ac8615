"""The words of a query that are learned by, and what a word counts that tools were used by before."""

import math
from collections.abc import Callable

from toolyard.discovery.words import WEAK, words
from toolyard.learning.votes import Votes, faded

__all__ = ("learnable", "least_terms", "length_of", "weigh", "worth_of")

_QUERY_CHARACTERS = 500
"""As much as the journal keeps of a query."""
_TERMS = 32
_TERM_CHARACTERS = 24
_NAMED_CHARACTERS = 4
"""`s3` and `k8s` name a thing; a longer term with a digit in it is somebody's number."""

# Chosen on the development sets, each left out in turn: `toolyard bench learning` measures it.
_GAIN = 2.0
"""What a word counts at most: about as much as in a tool's name."""
_EVIDENCE = 1.0
"""So many good uses make half of that."""
_KNOWN_TOOLS = 12.0
"""Keeps a word from counting as rare while few tools have been used at all."""
_TYPICAL_TERMS = 8.0
_BY_LENGTH = 0.5
_LEAST_TERMS = 2


def learnable(query: str) -> list[str]:
    """The stems of a query that say what was wanted, each once: no numbers, ids or other values."""
    found = dict.fromkeys(words(query[:_QUERY_CHARACTERS]))
    return [term for term in found if len(term) <= _TERM_CHARACTERS and not _is_value(term)][:_TERMS]


def _is_value(term: str) -> bool:
    has_digit = any(character.isdigit() for character in term)
    return has_digit and not (term[0].isalpha() and len(term) <= _NAMED_CHARACTERS)


def length_of(terms: list[str]) -> float:
    """What a query is divided by: a long one says less with each of its words."""
    return 1 - _BY_LENGTH + _BY_LENGTH * len(terms) / _TYPICAL_TERMS


def least_terms(terms: list[str]) -> int:
    """By how many words that are not weak a tool must have been used: two, or all if the query has fewer."""
    return min(_LEAST_TERMS, max(1, sum(term not in WEAK for term in terms)))


def weigh(votes: Votes, principal: str, now: float, half_life: float) -> tuple[float, float]:
    """The good uses that count for a principal, and the same with those that only one other principal speaks of.

    Failures take their share away. Who alone says so is nobody else's proof.
    """
    own = others = 0.0
    voices = 0
    for who, (yes, no, at) in votes.by.items():
        if yes > no:
            net = (yes - no) * faded(now - at, half_life)
            if who == principal:
                own = net
            else:
                others += net
                voices += 1
    return own + (others if voices > 1 else 0.0), own + others


def worth_of(tools: int, tried: int) -> Callable[[float], float]:
    """What a word counts by how often a tool was used by it, if `tools` of all the `tried` ones were."""
    rarity = 1 - math.log1p(tools) / math.log(tried + _KNOWN_TOOLS)
    most = _GAIN * max(0.0, rarity) / math.sqrt(max(1, tools))
    return lambda evidence: most * evidence / (evidence + _EVIDENCE)
