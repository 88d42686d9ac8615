"""Visits: which search a call came from, and when a conversation begins anew."""

import pytest

from sealyard.catalog import Snapshot
from sealyard.observe import visits
from sealyard.observe.visits import Visit, Visits

EMPTY = Snapshot({})


def test_a_call_is_a_hit_for_every_search_that_found_its_tool_once() -> None:
    """With the rank it had there; a second call of the same tool is none."""
    visit = Visit("alice", 1.0)
    visit.note_search("first", ["a", "b"])
    visit.note_search("second", ["c"])
    visit.note_search("third", ["b"])

    hits = visit.note_call("b")

    assert [(search, rank) for search, rank, _ in hits] == [("first", 2), ("third", 1)]
    assert visit.note_call("b") == []
    assert [search for search, _, _ in visit.note_call("c")] == ["second"]


def test_a_search_after_a_search_is_continued_until_something_is_called() -> None:
    """What is called need not be what was found."""
    visit = Visit("alice", 1.0)

    assert visit.note_search("first", ["a"]) is False
    assert visit.note_search("second", ["b"]) is True
    visit.note_call("z")
    assert visit.note_search("third", ["c"]) is False


def test_only_the_last_searches_are_remembered() -> None:
    """Who searches for ever takes no more memory for it."""
    visit = Visit("alice", 1.0)
    for number in range(100):
        visit.note_search(str(number), [f"tool{number}"])

    assert visit.note_call("tool0") == []
    assert len(visit.note_call("tool99")) == 1


def test_a_visit_ends_after_half_an_hour_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """And every principal has its own."""
    now = 1_000.0
    monkeypatch.setattr(visits.time, "time", lambda: now)
    begun: list[str] = []
    found = Visits(lambda visit, view: begun.append(visit.principal))

    first = found.of("alice", EMPTY)
    now += 1_700
    assert found.of("alice", EMPTY) is first
    found.of("bob", EMPTY)
    now += 1_801
    assert found.of("alice", EMPTY) is not first
    assert begun == ["alice", "bob", "alice"]
