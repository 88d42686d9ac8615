"""Follows an audit log from entry to entry: the one place that decides if it is intact."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.store.audit.log import NO_SEGMENT, AuditHead, AuditSegment, is_entry_hash


class AuditVerification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check, up to the first problem."""

    problem: str = ""
    """The problem in one sentence; empty if the log is intact."""
    first_wrong: int | None = None
    """The number of the first entry that differs from what was written."""
    entries: int = 0
    last_number: int = 0
    removed_entries: int = 0
    """Entries of pruned segments, which a signed row vouches for."""
    segments: int = 0
    """Closed segments."""
    removed_segments: int = 0
    public_key: str = ""
    heads: int = 0
    """Head documents that are part of this log."""
    heads_elsewhere: int = 0
    """Head documents of entries that are pruned, or not in this file."""
    codes: int = 0
    codes_missing: int = 0
    """Entries `execution.start` whose code is kept, and is not."""


class Wrong(Exception):
    """Something differs from what was written."""

    def __init__(self, number: int | None, sentence: str) -> None:
        super().__init__(sentence)
        self.number = number


class ChainCheck:
    """Follows a log entry by entry, with its closed segments, its head and heads that were kept elsewhere."""

    def __init__(
        self,
        segments: Sequence[AuditSegment],
        head: AuditHead | None,
        *,
        public_key: str,
        heads: Sequence[AuditHead] = (),
        after: AuditSegment = NO_SEGMENT,
        is_part: bool = False,
    ) -> None:
        """Raises `Wrong` if a signed part is wrong already."""
        self.number = after.last_number
        self._hash = after.last_hash
        self._segment = after.segment
        self._closed = {each.segment: each for each in segments}
        self._head = head
        self._is_part = is_part
        self._public_key = _choose_key(public_key, heads)
        self._heads = sorted(heads, key=lambda each: each.number)
        self._entries = self._removed_entries = self._removed_segments = self._heads_found = self._heads_elsewhere = 0
        while self._heads and self._heads[0].number <= self.number:
            self._heads_elsewhere += 1  # they belong to entries before this file
            self._heads.pop(0)
        self._begin_segment()

    def add(self, row: tuple[Any, ...]) -> None:
        """Check the next entry, given as its columns. Raises `Wrong`."""
        number, segment, at, *texts = row
        expected = self.number + 1
        if number > expected:
            raise Wrong(expected, f"Entry {expected} is missing: the next one is {number}.")
        if number < expected:
            raise Wrong(
                number, f"Entry {number} is where no entry can be: its segment was pruned, or it is there twice."
            )
        # A blob in place of a text could be hashed too, but no query would find it.
        if not (type(segment) is type(at) is int and all(type(text) is str for text in texts)):
            raise Wrong(number, f"Entry {number} is wrong: it holds values that sealyard never writes.")
        if segment != self._segment:
            raise Wrong(number, f"Entry {number} is wrong: it says segment {segment} and stands in {self._segment}.")
        try:
            is_right = is_entry_hash(row[-1], self._hash, row[:-1])
        except UnicodeEncodeError:
            is_right = False
        if not is_right:
            raise Wrong(
                number,
                f"Entry {number} is wrong: its hash does not follow from what it says"
                + (f" and from entry {number - 1}." if number > 1 else "."),
            )
        self.number, self._hash = number, row[-1]
        self._entries += 1
        self._compare_heads()
        closed = self._closed.get(segment)
        if closed is not None and number == closed.last_number:
            if self._hash != closed.last_hash:
                raise Wrong(number, f"Entry {number} is not the one with which segment {segment} was closed.")
            self._begin_segment()

    def finish(self) -> None:
        """Check the end. Raises `Wrong`."""
        last = self.number
        unfinished = self._closed.get(self._segment) or self._closed.get(max(self._closed, default=0))
        if unfinished is not None and unfinished.last_number > last:
            raise Wrong(last + 1, f"Entry {last + 1} is missing: segment {unfinished.segment} is cut.")
        if unfinished is not None and unfinished.segment >= self._segment:
            raise Wrong(unfinished.first_number, f"The row of segment {unfinished.segment} was changed.")
        if self._head is not None:
            self._check_head(self._head)
        elif not self._is_part:
            raise Wrong(last, f"The signed head is missing: nothing proves that entry {last} is the last one.")
        elif (closed := self._closed.get(self._segment - 1)) is None or closed.last_number != last:
            raise Wrong(last, f"Nothing that is signed vouches for entry {last}.")
        if self._head is None:
            self._heads_elsewhere += len(self._heads)
        elif self._heads:
            head = self._heads[0]
            raise Wrong(
                last + 1,
                f"Entry {last + 1} is missing: the log ends with {last}, and a head document proves that there was an"
                f" entry {head.number}. It was cut, or its store was put back to an older state.",
            )

    def result(self, *, codes: int = 0, codes_missing: int = 0) -> AuditVerification:
        """The result so far."""
        return AuditVerification(
            entries=self._entries,
            last_number=self.number,
            removed_entries=self._removed_entries,
            segments=len(self._closed),
            removed_segments=self._removed_segments,
            public_key=self._public_key,
            heads=self._heads_found,
            heads_elsewhere=self._heads_elsewhere,
            codes=codes,
            codes_missing=codes_missing,
        )

    def _begin_segment(self) -> None:
        """Go on to the next segment, skipping those whose entries were removed."""
        while True:
            self._segment += 1
            closed = self._closed.get(self._segment)
            if closed is None:
                return
            if (
                closed.first_number != self.number + 1
                or closed.previous_hash != self._hash
                or closed.last_number < closed.first_number
                or not closed.is_signed(self._public_key)
            ):
                raise Wrong(closed.first_number, f"The row of segment {closed.segment} was changed.")
            if not closed.removed_at_microseconds:
                return
            self.number, self._hash = closed.last_number, closed.last_hash
            self._removed_entries += closed.last_number - closed.first_number + 1
            self._removed_segments += 1
            self._compare_heads()

    def _compare_heads(self) -> None:
        """Compare the kept heads with their entries."""
        while self._heads and self._heads[0].number <= self.number:
            head = self._heads.pop(0)
            if head.number < self.number:
                self._heads_elsewhere += 1
            elif head.hash == self._hash:
                self._heads_found += 1
            else:
                raise Wrong(
                    head.number,
                    f"Entry {head.number} is not the one that a head document proves: it, or one before it, was changed"
                    " and everything after it was rewritten.",
                )

    def _check_head(self, head: AuditHead) -> None:
        last = self.number
        if head.public_key != self._public_key or not head.is_signed():
            raise Wrong(head.number, f"The signed head, of entry {head.number}, is not signed by the key of this log.")
        if head.number > last:
            raise Wrong(last + 1, f"Entry {last + 1} is missing: the signed head is of entry {head.number}.")
        if head.number < last:
            raise Wrong(head.number + 1, f"Entry {head.number + 1} was inserted: the signed head is of the one before.")
        if head.hash != self._hash:
            raise Wrong(last, f"Entry {last} is not the one that the head signed: the whole log was rewritten.")


def _choose_key(public_key: str, heads: Iterable[AuditHead]) -> str:
    for head in heads:
        if not head.is_signed():
            raise InvalidRequest(
                f"The head document of entry {head.number} is not signed by the key that it names. Use one as `sealyard"
                " audit head` printed it."
            )
        public_key = public_key or head.public_key
        if head.public_key != public_key:
            raise Wrong(
                head.number,
                f"The head document of entry {head.number} was signed by another key than this log: the log was"
                " rewritten, or `sealyard audit rekey` changed its key.",
            )
    if not public_key:
        raise InvalidRequest("The audit key is gone. Name a head document by --head: it holds the public key.")
    return public_key
