"""Keys of requests: the first who claims one has it, for a day."""

import time
from pathlib import Path

import pytest

from sealyard.store import journal, open_store
from sealyard.store.journal import Claim


async def test_a_key_stands_for_what_it_was_claimed_for_first(tmp_path: Path) -> None:
    """In every gateway of the store, after it was closed too, and for each principal apart."""
    path = tmp_path / "sealyard.db"
    async with open_store(path) as store, open_store(path) as other:
        first = await store.idempotency.claim("ann", "k", request_sha256="a", execution_id="1")
        second = await other.idempotency.claim("ann", "k", request_sha256="b", execution_id="2")
        his = await other.idempotency.claim("bob", "k", request_sha256="b", execution_id="3")
    async with open_store(path) as store:
        later = await store.idempotency.claim("ann", "k", request_sha256="c", execution_id="4")

    assert first == Claim(execution_id="1", request_sha256="a", is_new=True)
    assert second == later == Claim(execution_id="1", request_sha256="a", is_new=False)
    assert his == Claim(execution_id="3", request_sha256="b", is_new=True)


async def test_a_released_key_is_free_and_only_who_claimed_it_releases_it(tmp_path: Path) -> None:
    """Nobody takes away a key that stands for something else by now."""
    async with open_store(tmp_path / "sealyard.db") as store:
        keys = store.idempotency
        await keys.claim("ann", "k", request_sha256="a", execution_id="1")
        keys.release("ann", "k", "2")
        keys.release("bob", "k", "1")
        held = await keys.claim("ann", "k", request_sha256="a", execution_id="3")
        keys.release("ann", "k", "1")
        free = await keys.claim("ann", "k", request_sha256="b", execution_id="4")

    assert (held.execution_id, held.is_new) == ("1", False)
    assert (free.execution_id, free.is_new) == ("4", True)


async def test_a_key_is_forgotten_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not a minute before."""
    now = time.time()
    found = []
    async with open_store(tmp_path / "sealyard.db") as store:
        for seconds, execution_id in ((0, "1"), (86_340, "2"), (86_460, "3")):
            monkeypatch.setattr(journal.time, "time", lambda at=now + seconds: at)
            claim = await store.idempotency.claim("ann", "k", request_sha256="a", execution_id=execution_id)
            found.append(claim.execution_id)

    assert found == ["1", "1", "3"]
