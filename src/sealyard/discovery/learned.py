"""Words by which tools were found before, as one more field of them, and the bounds on what they change.

A word that a tool's own text has already adds little, as a second mention does; a word that it lacks adds much. So
experience fills the gaps of descriptions and leaves alone what they say well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

_KEEPS_FIRST = 3
"""With fewer places than this, text keeps all of them."""
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
    """By the full names of tools. Those that are in no catalog, or not in a view, do not count."""
    telling: Sequence[str] = ()
    """The informative words of the query; those among them that are in `words` must cover enough of it."""
    explores: bool = False
    """True if an untried tool that would drop out of sight gets a place this time."""
    is_tried: Callable[[str], bool] = lambda name: True
    """True if anybody has called the tool."""


class Lift(NamedTuple):
    """The addition of learned words to a tool's score."""

    sure: float
    said: float
    """With the evidence of a single other principal: not less."""


def fused(
    text: Mapping[int, float], lifts: Mapping[int, Lift], order: Sequence[int], *, limit: int
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


def with_text_kept(
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
