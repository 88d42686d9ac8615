"""Checks the audit log of a store again and again, a part at a time, so that it never costs much at once.

A round is what `verify_store` does: the rows of all segments, the open segment with the signed head, and every closed
segment, each of which is a part. That a whole store was put back to an older state is noticed only by what this object
remembers: the head may not become shorter while it watches.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sealyard.errors import InvalidRequest, StoreError
from sealyard.store.audit.chain import ChainCheck, Wrong
from sealyard.store.audit.key import key_path, load_key
from sealyard.store.audit.log import ENTRY, NO_SEGMENT, open_log, read_head, read_segments
from sealyard.store.audit.verification import CodeCheck, check_schema, verify_store


class AuditWatched(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the log."""

    is_intact: bool | None = None
    """None before the first round is over without a problem."""
    first_wrong: int | None = None


class AuditWatch:
    """Watches one log. Call `step` in a thread, one at a time."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._waiting: list[int] = []
        """Closed segments that the round has still to check."""
        self._last_number = 0
        self.is_between_rounds = True
        self.watched = AuditWatched()

    def step(self) -> AuditWatched:
        """Check the next part, which is at most one segment; begin a round if none is under way.

        Raises:
            StoreError: The store cannot be read. Nothing is known that was not known before.
        """
        self._store = self._store.resolve()  # the key lies beside the file, whatever links lead to it
        try:
            if self.is_between_rounds:
                self.is_between_rounds = False
                self._begin()
            else:
                self._check_segment(self._waiting.pop())
        except Wrong as wrong:
            self._end(AuditWatched(is_intact=False, first_wrong=wrong.number))
        except InvalidRequest:  # the key is gone, and with it the proof
            self._end(AuditWatched(is_intact=False))
        except StoreError:
            self._end(self.watched)
            raise
        if not self._waiting and not self.is_between_rounds:
            self._end(AuditWatched(is_intact=True))
        return self.watched

    def _end(self, watched: AuditWatched) -> None:
        self._waiting = []
        self.is_between_rounds = True
        self.watched = watched

    def _begin(self) -> None:
        with _open(self._store) as (connection, public_key):
            check_schema(connection, connection.execute("PRAGMA user_version").fetchone()[0])
            segments, head = read_segments(connection), read_head(connection)
            last = head.number if head else 0
            if last < self._last_number:
                raise Wrong(last + 1, f"Entry {last + 1} is missing: there was an entry {self._last_number} before.")
            self._last_number = last
            before = NO_SEGMENT
            for segment in segments:
                if segment.segment != before.segment + 1:
                    raise Wrong(before.last_number + 1, f"The row of segment {before.segment + 1} is missing.")
                ChainCheck([segment], None, public_key=public_key, after=before, is_part=True)
                before = segment
            if segments:
                check = ChainCheck(segments, head, public_key=public_key, after=before)
                _follow(connection, check, before.last_number + 1, last)
        if not segments:
            found = verify_store(self._store)
            if found.problem:
                raise Wrong(found.first_wrong, found.problem)
        # Popped from the end, so the newest first: they are what somebody would want to change.
        self._waiting = [each.segment for each in segments if not each.removed_at_microseconds]

    def _check_segment(self, number: int) -> None:
        with _open(self._store) as (connection, public_key):
            rows = {each.segment: each for each in read_segments(connection)}
            segment, before = rows.get(number), rows.get(number - 1, NO_SEGMENT)
            if segment is None or before.segment != number - 1:
                raise Wrong(None, f"The row of segment {number} is missing.")
            if not segment.removed_at_microseconds:  # meanwhile
                check = ChainCheck([segment], None, public_key=public_key, after=before, is_part=True)
                _follow(connection, check, segment.first_number, segment.last_number)


@contextmanager
def _open(store: Path) -> Iterator[tuple[sqlite3.Connection, str]]:
    """The log and its public key. Raises `Wrong` for what is not even of its type."""
    key = load_key(key_path(store))
    with open_log(store) as connection:
        connection.text_factory = lambda data: data.decode(errors="surrogateescape")  # it may be no UTF-8
        try:
            yield connection, key.public if key else ""
        except StoreError as error:
            raise Wrong(None, str(error)) from error


def _follow(connection: sqlite3.Connection, check: ChainCheck, first: int, last: int) -> None:
    """Check the entries between two numbers, one more if there is one. Raises `Wrong`."""
    codes = CodeCheck(connection)
    query = f"{ENTRY} NOT INDEXED WHERE number BETWEEN ? AND ? ORDER BY number"
    for row in connection.execute(query, (first, last)):
        check.add(row)
        codes.add(row)
    check.finish()
