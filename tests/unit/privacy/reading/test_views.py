"""A text read another way, and the way back; runs of characters of one class."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.reading.views import WORD, Runs, View, rewritten

_MARKED = re.compile(r"<+|b")


def _new(match: str) -> str:
    return "[" * (2 * len(match) - 1) if match[0] == "<" else ""


@given(st.text(alphabet="ab<é", max_size=60))
def test_text_reads_as_a_substitution_makes_it(text: str) -> None:
    """Every match is replaced, however often it is there; without one there is no view."""
    view = rewritten(text, _MARKED, _new)

    assert (view.text if view else None) == (
        _MARKED.sub(lambda match: _new(match[0]), text) if _MARKED.search(text) else None
    )


@given(st.text(alphabet="ab<é", max_size=60), st.data())
def test_offsets_lead_back_to_what_was_replaced(text: str, data: st.DataObject) -> None:
    """What is read of a piece stands for all of it, and everything else for itself."""
    view = rewritten(text, _MARKED, _new) or View(text)
    origins: list[tuple[int, int]] = []
    done = 0
    for match in [*_MARKED.finditer(text), None]:
        begin, end = match.span() if match else (len(text), len(text))
        origins += ((place, place + 1) for place in range(done, begin))
        origins += [(begin, end)] * (len(_new(match[0])) if match else 0)
        done = end
    if origins:
        first = data.draw(st.integers(0, len(origins) - 1))
        last = data.draw(st.integers(first, len(origins) - 1))

        assert view.source(first, last + 1) == (origins[first][0], origins[last][1])


@given(st.text(alphabet="ab-_ \n./é", max_size=200), st.integers(1, 9))
def test_runs_are_those_that_a_pattern_finds(text: str, least: int) -> None:
    """The same places as a pattern of the same class and length, in any text."""
    expected = [match.span() for match in re.finditer(rf"[A-Za-z0-9_-]{{{least},}}", text)]

    assert list(Runs(WORD, least=least).find(text)) == expected
