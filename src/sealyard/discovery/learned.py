"""Words that tools were found and used by before, as a field of theirs, and how far they may change an order.

A word that a tool's own text has already adds little, as a second mention does; a word that it lacks adds much. So
experience fills the gaps of descriptions and leaves alone what they say well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

_KEEPS_FIRST = 3
"""Of fewer places, none is given away."""
_BELOW = 1 - 1e-9


class LearnedWord(NamedTuple):
    """A word of the query that a tool was used by."""

    term: str
    gain: float
    """What it counts in the tool's text, as if it stood there."""
    said: float
    """The same together with what only one other principal says: not less."""


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What experience says to a query."""

    words: Mapping[str, Sequence[LearnedWord]]
    """By the full names of tools. Those that are in no catalog, or not in a view, do not count."""
    telling: Sequence[str] = ()
    """The words of the query that say what is wanted: those of `words` among them must say enough of it."""
    explores: bool = False
    """Whether a tool that nobody has tried, and that would be lost from sight, is to be seen this time."""
    is_tried: Callable[[str], bool] = lambda name: True
    """Whether a tool has been called by anybody."""


class Lift(NamedTuple):
    """What learned words add to a tool's score."""

    sure: float
    said: float
    """With what only one other principal says: not less."""


def fused(
    text: Mapping[int, float], lifts: Mapping[int, Lift], order: Sequence[int], *, limit: int
) -> dict[int, float]:
    """The scores of tools by text and experience. `text` has those of all in `lifts`; `order` is theirs by text.

    What only one other principal says moves a tool up, but never before the one that text has first, and it brings in
    one tool at most that text would not have shown.
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
    """The tools to show: what text has first is always there, and now and then one that nobody has tried yet."""
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
