"""Evidence that fades, and of which nobody can give more than their share."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.learning.part import CAP, Evidence, FailureEvidence, Tally, Viewer, faded, put_last, trim

DAY = 86_400.0
HALF_LIFE = 30 * DAY
NOW = 1_700_000_000.0


def test_one_vote_counts_whole_now_and_half_after_a_half_life() -> None:
    """What was found long ago counts less, and what nobody has found counts nothing."""
    votes = Evidence()
    assert votes.tally(Viewer("", NOW, HALF_LIFE)) == Tally()

    votes.add(Viewer("ann", NOW, HALF_LIFE), yes=1.0)

    assert votes.tally(Viewer("", NOW, HALF_LIFE)) == Tally(1.0, 0.0, 1)
    assert votes.tally(Viewer("", NOW + HALF_LIFE, HALF_LIFE)) == Tally(0.5, 0.0, 1)
    assert votes.tally(Viewer("", NOW + 2 * HALF_LIFE, HALF_LIFE)) == Tally(0.25, 0.0, 1)


def test_who_says_a_thing_a_thousand_times_is_heard_like_who_says_it_five_times() -> None:
    """A flood of one principal's votes adds up to the cap, and two others outweigh it."""
    votes = Evidence()
    for number in range(1_000):
        votes.add(Viewer("mallory", NOW + number, HALF_LIFE), yes=1.0)
    now = NOW + 1_000
    for name in ("ann", "ben"):
        for _ in range(5):
            votes.add(Viewer(name, now, HALF_LIFE), no=1.0)

    found = votes.tally(Viewer("", now, HALF_LIFE))

    assert found.yes <= CAP
    assert found.no == 2 * CAP
    assert found.principals == 1
    assert votes.tally(Viewer("mallory", now, HALF_LIFE), is_own=True).no == 0.0


def test_who_changes_their_mind_is_heard() -> None:
    """The cap is on both together, so that what is said last pushes out what was said before."""
    votes = Evidence()
    for _ in range(100):
        votes.add(Viewer("ann", NOW, HALF_LIFE), yes=1.0)
    for _ in range(10):
        votes.add(Viewer("ann", NOW, HALF_LIFE), no=1.0)

    found = votes.tally(Viewer("", NOW, HALF_LIFE))

    assert found.no > found.yes
    assert found.total == pytest.approx(CAP)
    assert found.principals == 0


def test_sixteen_principals_are_remembered_those_who_were_heard_last() -> None:
    """The seventeenth pushes out the one who has been silent for longest, not the one who came first."""
    votes = Evidence()
    for number in range(16):
        votes.add(Viewer(f"p{number}", NOW, HALF_LIFE), yes=1.0)
    votes.add(Viewer("p0", NOW, HALF_LIFE), yes=1.0)
    votes.add(Viewer("new", NOW, HALF_LIFE), yes=1.0)

    assert list(votes.by) == [*(f"p{number}" for number in range(2, 16)), "p0", "new"]


def test_late_news_of_something_old_counts_as_old() -> None:
    """A fact that is read after a younger one fades by its own age, and makes nothing else older or younger."""
    votes = Evidence()
    votes.add(Viewer("ann", NOW, HALF_LIFE), yes=1.0)
    votes.add(Viewer("ann", NOW - HALF_LIFE, HALF_LIFE), yes=1.0)

    assert votes.tally(Viewer("", NOW, HALF_LIFE)) == Tally(1.5, 0.0, 1)


def test_clock_that_was_set_back_makes_nothing_count_more() -> None:
    """What is said to be of the future counts once."""
    assert faded(-DAY, HALF_LIFE) == 1.0
    assert faded(0.0, HALF_LIFE) == 1.0
    assert faded(1e300, HALF_LIFE) == 0.0


def test_voice_of_long_ago_is_no_principal_any_more() -> None:
    """What needs two principals does not get one of them from years ago."""
    votes = Evidence()
    votes.add(Viewer("old", NOW - 6 * HALF_LIFE, HALF_LIFE), yes=1.0)
    votes.add(Viewer("new", NOW, HALF_LIFE), yes=1.0)

    assert votes.tally(Viewer("", NOW, HALF_LIFE)).principals == 1


def test_share_is_held_back_while_few_have_said_anything() -> None:
    """One success is not certainty, and nothing at all is one half."""
    assert Tally().share == 0.5
    assert Tally(1.0, 0.0, 1).share == pytest.approx(2 / 3)
    assert Tally(18.0, 0.0, 4).share == pytest.approx(0.95)
    assert Tally(0.0, 3.0).share == 0.2


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.floats(0, 365 * DAY),
            st.floats(0, 10),
            st.floats(0, 10),
        ),
        max_size=30,
    )
)
def test_nobody_ever_has_more_than_the_cap_and_the_same_votes_make_the_same_bytes(
    given_votes: list[tuple[str, float, float, float]],
) -> None:
    """Whatever is said in whatever order; and it can be saved and read."""
    votes, again = Evidence(), Evidence()
    for principal, at, yes, no in given_votes:
        votes.add(Viewer(principal, at, HALF_LIFE), yes=yes, no=no)
        again.add(Viewer(principal, at, HALF_LIFE), yes=yes, no=no)

    for yes, no, _ in votes.by.values():
        assert 0 <= yes + no <= CAP * (1 + 1e-12)
    saved = msgspec.msgpack.encode(votes)
    assert saved == msgspec.msgpack.encode(again)
    assert msgspec.msgpack.decode(saved, type=Evidence) == votes


def test_a_table_keeps_the_entries_that_were_set_last() -> None:
    """An entry that is set again moves to the end; those set longest ago go first. Source: our choice."""
    table: dict[str, int] = {}
    for number, key in enumerate("abcad"):
        assert put_last(table, key, number, 3) == number
    assert list(table.items()) == [("c", 2), ("a", 3), ("d", 4)]

    trim(table, 1)

    assert table == {"d": 4}


def test_own_runs_count_in_full_and_those_of_one_other_like_two() -> None:
    """A principal's experience is its own; nobody alone convinces another. Source: our choice."""
    runs = Evidence()
    for _ in range(40):
        runs.add_run(Viewer("mallory", NOW, HALF_LIFE), failed=True)

    assert runs.known(Viewer("mallory", NOW, HALF_LIFE)) == FailureEvidence(40.0, 40.0, 40.0, 0)
    assert runs.known(Viewer("ann", NOW, HALF_LIFE)) == FailureEvidence(2.0, 2.0, 0.0, 1)

    runs.add_run(Viewer("ben", NOW, HALF_LIFE), failed=False)

    assert runs.known(Viewer("ann", NOW, HALF_LIFE)) == FailureEvidence(CAP, CAP + 1, 0.0, 1)
