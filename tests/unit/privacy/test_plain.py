"""Which values are searched where others wait: few and plain ones, however many characters they have."""

from typing import Any

import pytest

from sealyard.privacy.detect import Scanner
from sealyard.privacy.rules import PlainValues, describes_private, is_quick
from sealyard.values.documents import LARGE, is_large

ROWS = [
    {
        "id": number,
        "name": "Anna Berg",
        "email": f"anna.berg@acme{number}.example.org",
        "due": "2024-05-01",
        "open": True,
    }
    for number in range(10)
]


class Odd(int):
    """A number of another type."""


def test_ten_rows_of_an_answer_are_quick() -> None:
    """They count as large by their characters, and take a fifth of a millisecond."""
    assert is_large(ROWS)
    assert is_quick(ROWS)


@pytest.mark.parametrize(
    "value",
    [
        "a" * LARGE,
        ["YWJjQGRlZi5vcmc= "] * 40,
        ["password=1"] * 40,
        [{f"key number {number}": 1} for number in range(60)],
        list(range(10**6)),
        {str(number): number for number in range(10**5)},
        [[]] * 200,
        [10**12 + number for number in range(300)],
        [Odd(1)],
        {1: 2},
        [("a",)],
        ROWS * 10,
    ],
    ids=range(12),
)
def test_what_may_take_long_is_not_quick(value: Any) -> None:
    """Long texts, encoded words, assignments, many names, many values, and whatever is no plain JSON."""
    assert not is_quick(value)


@pytest.mark.parametrize(
    ("schema", "is_private"),
    [
        (None, False),
        ({"type": "object", "properties": {"n": {"type": "integer", "title": "N"}}}, False),
        ({"properties": {"n": {"items": {"anyOf": [{"type": "null"}, {"format": "email"}]}}}}, True),
        ({"$defs": {"a": {"x-sensitive": True}}}, True),
        ({"description": "Phone number of the owner"}, True),
        ({"properties": {f"n{number}": {} for number in range(5_000)}}, True),
    ],
    ids=range(6),
)
def test_a_schema_counts_as_private_if_any_part_of_it_may_be(schema: Any, is_private: bool) -> None:
    """Wherever it stands; and one that is too large to be looked at does, too."""
    assert describes_private(schema) is is_private


def test_names_are_forgotten_rather_than_kept_without_end() -> None:
    """A server that makes up names all the time takes no more memory than one that does not."""
    plain = PlainValues(Scanner())

    assert all({f"name_{number}x": 1} in plain for number in range(5_000))
    assert plain._read.cache_info().currsize <= 4096
