"""Long runs of characters of one class."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.detect.screens import WORD, Runs


@given(st.text(alphabet="ab-_ \n./é", max_size=200), st.integers(1, 9))
def test_runs_are_those_that_a_pattern_finds(text: str, least: int) -> None:
    """The same places as a pattern of the same class and length, in any text."""
    expected = [match.span() for match in re.finditer(rf"[A-Za-z0-9_-]{{{least},}}", text)]

    assert list(Runs(WORD, least=least).find(text)) == expected


def test_runs_that_stand_near_each_other_are_found_as_one() -> None:
    """Those with as many characters between them as said, or fewer."""
    runs = Runs(WORD, least=3)

    assert list(runs.find_near("abc  def     ghi jk lmn", 4)) == [(0, 8), (13, 23)]
    assert list(runs.find_near("ab cd", 3)) == []
