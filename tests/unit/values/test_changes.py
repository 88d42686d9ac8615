"""Versions: how they are written, ordered and raised, and which ones code can use."""

import pytest

from sealyard.errors import InvalidRequest
from sealyard.values.changes import Fit, Severity, Version, highest, major_of, matches


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1", Version(1)),
        ("1.2", Version(1, 2)),
        ("1.2.3", Version(1, 2, 3)),
        ("0.0.0", Version(0)),
        ("10.20.300", Version(10, 20, 300)),
    ],
)
def test_one_two_or_three_numbers_are_a_version(text: str, version: Version) -> None:
    """Missing parts are zero. Source: our choice."""
    assert Version.parse(text) == version


@pytest.mark.parametrize(
    "text", ["", "v1", "1.", "1.2.3.4", "01.2", "1.2.3-beta", " 1", "1\n", "-1", "1.x", "\u0661", "9" * 10, "9" * 200]
)
def test_anything_else_is_refused(text: str) -> None:
    """The message shows what was written, cut, and how to write it. Source: our choice."""
    with pytest.raises(InvalidRequest) as caught:
        Version.parse(text)

    assert str(caught.value) == f"{text[:80]!r} is not a version. Write it as `1`, `1.2` or `1.2.3`."


def test_versions_order_by_number_and_print_as_written() -> None:
    """1.10.0 comes after 1.9.0, unlike the texts."""
    assert [str(version) for version in sorted(map(Version.parse, ["1.10.0", "2.0.0", "1.9.0", "1.9.1"]))] == [
        "1.9.0",
        "1.9.1",
        "1.10.0",
        "2.0.0",
    ]


@pytest.mark.parametrize(
    ("severity", "after"), [("none", "1.2.3"), ("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0")]
)
def test_a_change_raises_its_part_and_resets_those_below(severity: Severity, after: str) -> None:
    """Source: DESIGN section 10."""
    assert str(Version(1, 2, 3).bumped(severity)) == after


@pytest.mark.parametrize(
    ("need", "current", "verdict"),
    [
        ("1.2", "1.2.0", "fits"),
        ("1.2.0", "1.2.9", "fits"),
        ("1.2.9", "1.2.0", "fits"),
        ("1", "1.7.3", "fits"),
        ("1.2", "1.3.0", "newer_minor"),
        ("1.2", "1.1.9", "older"),
        ("1.2", "2.2.0", "other_major"),
        ("2.0", "1.9.9", "other_major"),
    ],
)
def test_code_written_for_a_minor_takes_its_patches(need: str, current: str, verdict: Fit) -> None:
    """A newer minor is warned of, and another major needs migration. Source: DESIGN section 10."""
    assert Version.parse(current).fit(need) == verdict


@pytest.mark.parametrize(
    ("pin", "version", "matched"),
    [
        ("1", "1.9.9", True),
        ("1", "2.0.0", False),
        ("1.2", "1.2.7", True),
        ("1.2", "1.20.0", False),
        ("1.2.3", "1.2.3", True),
        ("1.2.3", "1.2.4", False),
    ],
)
def test_a_pin_names_every_version_it_begins(pin: str, version: str, matched: bool) -> None:
    """Part by part, not as text. Source: our choice."""
    assert matches(pin, version) is matched


def test_the_highest_severity_counts() -> None:
    """Nothing changed is `none`."""
    assert (highest([]), highest(["patch", "major", "minor"]), highest(["none", "patch"])) == ("none", "major", "patch")


@pytest.mark.parametrize(
    ("version", "major"),
    [("3.1.4", 3), ("12", 12), ("", 0), ("no version", 0), ("2.x", 0), ("01.0.0", 0), ("\u0663.0", 0)],
)
def test_text_that_is_no_version_has_no_major_part(version: str, major: int) -> None:
    """Learning, skills and the catalog read versions in one way, also odd ones."""
    assert major_of(version) == major
