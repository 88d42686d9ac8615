"""Runs of characters of one class are found as a pattern finds them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sealyard.privacy.detect.runs import WORD, Runs


@given(st.text(alphabet="ab-_ \n./é", max_size=200), st.integers(1, 9))
def test_runs_are_those_that_a_pattern_finds(text: str, least: int) -> None:
    """The same places as a pattern of the same class and length, in any text."""
    expected = [match.span() for match in re.finditer(rf"[A-Za-z0-9_-]{{{least},}}", text)]

    assert list(Runs(WORD, least=least).find(text)) == expected
