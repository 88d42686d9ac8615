"""Proof that an audit log, in its store or in an exported file, is as it was written; and the export itself.

The proof: nobody without the key changed, removed, inserted or moved an entry since the head was signed. Only a head
that was kept elsewhere proves that the whole store was not put back to an older state. The texts of code in the journal
are compared with the digests in the log; the rest of the journal is not part of the evidence.

`ChainCheck` follows a log from entry to entry: the one place that decides if it is intact. `AuditWatch` repeats what
`verify_store` does, one part at a time: the rows of all segments, the open segment with the signed head, and each
closed segment. It notices an older state only by its own memory: the head may not become shorter while it watches.
"""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from sealyard.errors import InvalidRequest, StoreError
from sealyard.former import decode
from sealyard.store.audit.log import (
    ENTRY,
    NO_SEGMENT,
    AuditHead,
    AuditReader,
    AuditSegment,
    is_entry_hash,
    load_key,
    open_log,
)
from sealyard.store.database import open_blank

Progress = Callable[[int, int], None]
"""Gets the number of the checked entry and of the last one."""

_LINE_BYTES = 16 << 20
"""Of a line: an entry has at most 16 KiB, and a header grows with the segments."""
_PROGRESS_EVERY = 10_000
"""Entries between two calls of `Progress`: a few a second."""
_AUDIT_VERSION = 3
"""The schema that introduced the log."""
_NUMBER_MOST = (1 << 63) - 1
"""The largest integer of the database; the smallest is one further from zero."""


# The chain


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
        self.counts: Counter[str] = Counter()
        """The numbers of the result, by field."""
        self.number = after.last_number
        self._hash = after.last_hash
        self._segment = after.segment
        self._closed = {each.segment: each for each in segments}
        self._head = head
        self._is_part = is_part
        self._public_key = _choose_key(public_key, heads)
        self._heads = sorted(heads, key=lambda each: each.number)
        while self._heads and self._heads[0].number <= self.number:
            self.counts["heads_elsewhere"] += 1  # they belong to entries before this file
            self._heads.pop(0)
        self._begin_segment()

    def add(self, row: tuple[Any, ...]) -> None:
        """Check the next entry, given as its columns. Raises `Wrong`."""
        number, segment, at, *texts = row
        expected = self.number + 1
        if number > expected:
            raise Wrong(expected, f"Entry {expected} is missing: the next one is {number}.")
        if number < expected:
            raise Wrong(number, f"Entry {number} is out of place: its segment was pruned, or the entry is there twice.")
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
                f"Entry {number} was changed: its hash does not match its content"
                + (f" and entry {number - 1}." if number > 1 else "."),
            )
        self.number, self._hash = number, row[-1]
        self.counts["entries"] += 1
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
            self.counts["heads_elsewhere"] += len(self._heads)
        elif self._heads:
            head = self._heads[0]
            raise Wrong(
                last + 1,
                f"Entry {last + 1} is missing: the log ends with {last}, and a head document proves that there was an"
                f" entry {head.number}. It was cut, or its store was put back to an older state.",
            )

    def result(self) -> AuditVerification:
        """The result so far."""
        found = AuditVerification(last_number=self.number, segments=len(self._closed), public_key=self._public_key)
        return msgspec.structs.replace(found, **self.counts)

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
            self.counts["removed_entries"] += closed.last_number - closed.first_number + 1
            self.counts["removed_segments"] += 1
            self._compare_heads()

    def _compare_heads(self) -> None:
        """Compare the kept heads with their entries."""
        while self._heads and self._heads[0].number <= self.number:
            head = self._heads.pop(0)
            if head.number < self.number:
                self.counts["heads_elsewhere"] += 1
            elif head.hash == self._hash:
                self.counts["heads"] += 1
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


# Stores and files


class AuditFileHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of an exported file."""

    sealyard_audit: int = 1
    """The version of this format."""
    public_key: str
    after: AuditSegment
    """The end of what precedes the file: only its numbers and its hash count."""
    segments: list[AuditSegment]
    """All closed segments of the file."""
    head: AuditHead | None
    """Of the log at the time of the export; None if the file ends with a closed segment."""


class AuditFileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every further line of an exported file: the columns in the order in which they are hashed."""

    number: int
    segment: int
    at_microseconds: int
    kind: str
    principal: str
    session: str
    execution_id: str
    body: str
    """JSON text, hashed as it is."""
    hash: str


def verify_store(
    store: Path, *, heads: Sequence[AuditHead] = (), on_progress: Progress | None = None
) -> AuditVerification:
    """Verify the log of a store, which may be in use, in constant memory.

    Raises:
        InvalidRequest: A head document is malformed, or there is neither a key nor a head document.
        StoreError: The store or its key cannot be read.
    """
    check = None
    try:
        with _open(store) as (log, public_key):
            version = log.connection.execute("PRAGMA user_version").fetchone()[0]
            if version >= _AUDIT_VERSION:
                check_schema(log.connection, version)
                head, segments = log.head(), log.segments()
                if head or segments or log.connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone():
                    check = ChainCheck(segments, head, public_key=public_key, heads=heads)
                    _follow(log, check, -_NUMBER_MOST - 1, _NUMBER_MOST, on_progress, head.number if head else 0)
                    return check.result()
            if public_key or heads:
                raise Wrong(
                    1,
                    "Entry 1 is missing: the log is empty though it has a key. It was emptied, unless the first gateway"
                    " that used this store was killed before it wrote anything.",
                )
    except Wrong as error:
        return _failed(error, check)
    return AuditVerification()


@contextmanager
def _open(store: Path) -> Iterator[tuple[AuditReader, str]]:
    """The log and its public key. Raises `Wrong` for a value of the wrong type."""
    key = load_key(store)
    with open_log(store) as log:
        log.connection.text_factory = lambda text: text.decode(errors="replace")  # it may not be UTF-8
        try:
            yield log, key.public if key else ""
        except StoreError as error:
            raise Wrong(None, str(error)) from error


def _follow(
    log: AuditReader,
    check: ChainCheck,
    first: int,
    last: int,
    on_progress: Progress | None = None,
    total: int = 0,
) -> None:
    """Check the entries between two numbers, and the code that they name. Raises `Wrong`."""

    @lru_cache(maxsize=4096)
    def find_code(sha256: str) -> str | None:
        """The digest of a kept text."""
        text = log.find_code(sha256)
        return None if text is None else hashlib.sha256(text).hexdigest()

    log.connection.text_factory = lambda text: text.decode(errors="surrogateescape")  # no hash covers such a text
    query = f"{ENTRY} NOT INDEXED WHERE number BETWEEN ? AND ? ORDER BY number"
    for row in log.connection.execute(query, (first, last)):
        check.add(row)
        number, kind, body = row[0], row[3], row[7]
        named = msgspec.json.decode(body).get("code_sha256") if kind == "execution.start" else None
        if isinstance(named, str):
            found = find_code(named)
            if found not in (None, named):
                raise Wrong(number, f"The text of the code that entry {number} names was changed.")
            check.counts["codes_missing" if found is None else "codes"] += 1
        if on_progress and number % _PROGRESS_EVERY == 0:
            on_progress(number, total)
    check.finish()


def verify_file(
    file: Path, *, heads: Sequence[AuditHead] = (), on_progress: Progress | None = None
) -> AuditVerification:
    """Verify an exported file on its own, in constant memory.

    This proves that the owner of the key in the file signed it. A head document, or a comparison of keys, proves that
    the key is the right one.

    Raises:
        InvalidRequest: It is not an exported file, or a head document is malformed.
    """
    try:
        with file.open("rb") as stream:
            header = _read_line(stream, partial(decode, kind=AuditFileHeader), "the header")
            if header is None or header.sealyard_audit != 1:
                raise InvalidRequest(f"{str(file)!r} is not an audit log of a version that this sealyard knows.")
            return _verify_stream(stream, header, heads, on_progress)
    except OSError as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read: {error.strerror}.") from error
    except _NoEntry as error:
        raise InvalidRequest(f"{str(file)!r} is not an exported audit log: {error}.") from None


def _verify_stream(
    stream: BinaryIO, header: AuditFileHeader, heads: Sequence[AuditHead], on_progress: Progress | None
) -> AuditVerification:
    check = None
    try:
        check = ChainCheck(
            header.segments, header.head, public_key=header.public_key, heads=heads, after=header.after, is_part=True
        )
        last = header.head.number if header.head else max([each.last_number for each in header.segments], default=0)
        while (line := check.number + 1) and (
            entry := _read_line(stream, _ENTRIES.decode, f"entry {line}")
        ) is not None:
            check.add(msgspec.structs.astuple(entry))
            if on_progress and entry.number % _PROGRESS_EVERY == 0:
                on_progress(entry.number, last)
        check.finish()
    except Wrong as error:
        return _failed(error, check)
    except _NoEntry as error:
        assert check is not None
        return _failed(Wrong(check.number + 1, f"Entry {check.number + 1} is wrong: {error}."), check)
    return check.result()


_T = TypeVar("_T")
_ENTRIES = msgspec.json.Decoder(AuditFileEntry)


class _NoEntry(Exception):
    """A line is malformed."""


def _read_line(stream: BinaryIO, read: Callable[[bytes], _T], what: str) -> _T | None:
    line = stream.readline(_LINE_BYTES)
    if not line:
        return None
    if not line.endswith(b"\n"):
        raise _NoEntry(f"{what} is cut, or too long")
    try:
        return read(line)
    except msgspec.DecodeError as error:
        raise _NoEntry(f"{what} cannot be read: {error}") from None


def check_schema(connection: sqlite3.Connection, version: int) -> None:
    """Check that the tables are as we made them: no view in place of one, no trigger and no other index."""
    query = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'audit%' AND sql IS NOT NULL ORDER BY name"
    with closing(open_blank(version)) as right:
        expected = right.execute(query).fetchall()
    if connection.execute(query).fetchall() != expected:
        raise Wrong(None, "The tables of the log are not as sealyard made them.")


def _failed(error: Wrong, check: ChainCheck | None) -> AuditVerification:
    done = check.result() if check else AuditVerification()
    return msgspec.structs.replace(done, problem=str(error), first_wrong=error.number)


# Export


class AuditExport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export."""

    entries: int
    segments: list[int]
    """Closed segments that are complete in the file."""
    sha256: str


def export_audit(
    store: Path, stream: BinaryIO, *, segment: int | None = None, on_progress: Progress | None = None
) -> AuditExport:
    """Write the whole log, or one segment, unchecked: `verify_file` checks it.

    Raises:
        InvalidRequest: There is no entry, no such segment, or its entries were removed.
        StoreError: The store or its key cannot be read.
    """
    key = load_key(store)
    digest = hashlib.sha256()
    entries = 0

    def write(line: msgspec.Struct) -> None:
        encoded = msgspec.json.encode(line) + b"\n"
        digest.update(encoded)
        stream.write(encoded)

    with open_log(store) as log:
        log.connection.text_factory = lambda text: text.decode(errors="backslashreplace")  # it may not be UTF-8
        head = log.head()
        if head is None:
            raise InvalidRequest("The audit log has no signed head: it is empty, or `sealyard audit verify` says why.")
        public_key = key.public if key else head.public_key
        header = _build_header(head, log.segments(), public_key, segment)
        write(header)
        last = _NUMBER_MOST if header.head else header.segments[-1].last_number
        rows = log.connection.execute(
            f"{ENTRY} NOT INDEXED WHERE number > ? AND number <= ? ORDER BY number", (header.after.last_number, last)
        )
        for row in rows:
            write(AuditFileEntry(*row))
            entries += 1
            if on_progress and row[0] % _PROGRESS_EVERY == 0:
                on_progress(row[0], min(last, head.number))
    whole = [each.segment for each in header.segments if not each.removed_at_microseconds]
    return AuditExport(entries=entries, segments=whole, sha256=digest.hexdigest())


def _build_header(
    head: AuditHead, segments: list[AuditSegment], public_key: str, segment: int | None
) -> AuditFileHeader:
    if segment is None:
        return AuditFileHeader(public_key=public_key, after=NO_SEGMENT, segments=segments, head=head)
    rows = {each.segment: each for each in (NO_SEGMENT, *segments)}
    after, chosen = rows.get(segment - 1), rows.get(segment)
    if after is None or chosen is NO_SEGMENT or (chosen and chosen.removed_at_microseconds):
        raise InvalidRequest(f"There is no segment {segment}, or its entries were pruned. Name one that is there.")
    if chosen is None:  # the open segment
        return AuditFileHeader(public_key=public_key, after=after, segments=[], head=head)
    return AuditFileHeader(public_key=public_key, after=after, segments=[chosen], head=None)


# Continuous verification


class AuditWatched(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the watched log."""

    is_intact: bool | None = None
    """None before the first round ends without a problem."""
    first_wrong: int | None = None


class AuditWatch:
    """Watches one log. Call `step` in a thread, one at a time."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._round: Iterator[None] | None = None
        """The checks left in this round."""
        self._last_number = 0
        self.watched = AuditWatched()

    @property
    def is_between_rounds(self) -> bool:
        """True if the next step begins a round."""
        return self._round is None

    def step(self) -> AuditWatched:
        """Check the next part, at most one segment; begin a round if none is under way.

        Raises:
            StoreError: The store cannot be read. The state stays as it was.
        """
        self._store = self._store.resolve()  # the key lies beside the file itself, not beside a link
        round_, self._round = self._round or self._check(), None
        try:
            next(round_)
        except StopIteration:
            self.watched = AuditWatched(is_intact=True)
        except Wrong as wrong:
            self.watched = AuditWatched(is_intact=False, first_wrong=wrong.number)
        except InvalidRequest:  # without the key there is no proof
            self.watched = AuditWatched(is_intact=False)
        else:
            self._round = round_
        return self.watched

    def _check(self) -> Iterator[None]:
        """One round: the head and the open segment, then each closed segment."""
        with _open(self._store) as (log, public_key):
            check_schema(log.connection, log.connection.execute("PRAGMA user_version").fetchone()[0])
            segments, head = log.segments(), log.head()
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
                _follow(log, check, before.last_number + 1, last)
        if not segments:
            found = verify_store(self._store)
            if found.problem:
                raise Wrong(found.first_wrong, found.problem)
        for segment in reversed(segments):  # the newest first: an attacker would change those
            if not segment.removed_at_microseconds:
                yield
                self._check_segment(segment.segment)

    def _check_segment(self, number: int) -> None:
        with _open(self._store) as (log, public_key):
            rows = {each.segment: each for each in log.segments()}
            segment, before = rows.get(number), rows.get(number - 1, NO_SEGMENT)
            if segment is None or before.segment != number - 1:
                raise Wrong(None, f"The row of segment {number} is missing.")
            if not segment.removed_at_microseconds:  # else removed in the meantime
                check = ChainCheck([segment], None, public_key=public_key, after=before, is_part=True)
                _follow(log, check, segment.first_number, segment.last_number)
