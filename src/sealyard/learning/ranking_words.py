"""The words of a query that are learned by, and what a word counts that tools were used by before."""

import hashlib
import math
import re
from functools import lru_cache
from itertools import chain

from sealyard.discovery.words import WEAK, spelled
from sealyard.discovery.words import terms as terms_of
from sealyard.learning.votes import Votes, faded

__all__ = ("EVIDENCE", "learnable", "least_terms", "length_of", "mark_of", "weigh", "worth_of")

_QUERY_CHARACTERS = 500
"""As much as the journal keeps of a query."""
_TERMS = 32
_TERM_CHARACTERS = 24
_NAMED = re.compile(r"[^\W\d_]+\d{1,2}|[^\W\d_][^\W_]{0,3}")
"""`oauth2` and `k8s` name a thing; a word with more digits in it is somebody's number."""

# One setting for all development sets, picked by the worst of them: `benchmarks learning` measures it.
_GAIN = 2.5
"""What a word counts at most: more than in a tool's name, since it is what text lacks."""
EVIDENCE = 1.0
"""So many good uses make half of that."""
_KNOWN_TOOLS = 12.0
"""Keeps a word from counting as rare while few tools have been used at all."""
_TYPICAL_TERMS = 8.0
_BY_LENGTH = 0.5
_LEAST_TERMS = 2
_LEAST_SHARE = 0.15
"""Long queries have words in common by chance."""


def learnable(query: str) -> list[str]:
    """The stems of a query that say what was wanted, each once: no numbers, ids or other values."""
    named = (word for word in spelled(query[:_QUERY_CHARACTERS]) if word.isalpha() or _NAMED.fullmatch(word))
    found = dict.fromkeys(chain.from_iterable(map(terms_of, named)))
    return [term for term in found if len(term) <= _TERM_CHARACTERS][:_TERMS]


@lru_cache(maxsize=1 << 14)
def mark_of(term: str) -> str:
    """What stands for a term in what is kept: queries are somebody's words. One that says nothing stands for itself."""
    return term if term in WEAK else hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=6).hexdigest()


def length_of(terms: list[str]) -> float:
    """What a query is divided by: a long one says less with each of its words."""
    return 1 - _BY_LENGTH + _BY_LENGTH * len(terms) / _TYPICAL_TERMS


def least_terms(terms: list[str]) -> int:
    """By how many words that are not weak a tool must have been used: two, more in a long query, all in a short one."""
    telling = sum(term not in WEAK for term in terms)
    return max(1, min(telling, max(_LEAST_TERMS, math.ceil(_LEAST_SHARE * telling))))


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


def worth_of(tools: int, tried: int) -> float:
    """What a word counts at most, if `tools` of all the `tried` ones were used by it."""
    rarity = 1 - math.log1p(tools) / math.log(tried + _KNOWN_TOOLS)
    return _GAIN * max(0.0, rarity) / math.sqrt(max(1, tools))
