"""Proves that an audit log, in its store or in an exported file, is as it was written.

What is proved: no entry was changed, removed, inserted or moved since the head was signed, as long as nobody else has
the key. That a whole store was not put back to an older state is proved only by a head that was kept elsewhere. Of the
journal the texts of code are compared with the digests in the log; the rest of it is no part of the evidence.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from sealyard.errors import InvalidRequest, StoreError
from sealyard.former import decode
from sealyard.store.audit.chain import AuditVerification, ChainCheck, Wrong
from sealyard.store.audit.key import key_path, load_key
from sealyard.store.audit.log import ENTRY, AuditHead, AuditSegment, open_log, read_head, read_segments
from sealyard.store.schema import MIGRATIONS

Progress = Callable[[int, int], None]
"""Is told the number of the entry that was checked and that of the last."""

_LINE_BYTES = 16 << 20
_PROGRESS_EVERY = 10_000
_AUDIT_VERSION = 3
"""The schema that brought the log."""


class AuditFileHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of an exported file."""

    sealyard_audit: int = 1
    """The version of this format."""
    public_key: str
    after: AuditSegment
    """What comes before the first entry of the file: only the numbers and the hash of its end count."""
    segments: list[AuditSegment]
    """All closed segments after that."""
    head: AuditHead | None
    """Of the log when it was exported; None if the file ends with a closed segment."""


class AuditFileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every further line of an exported file: the columns of the table, in the order in which they are hashed."""

    number: int
    segment: int
    at_microseconds: int
    kind: str
    principal: str
    session: str
    execution_id: str
    body: str
    """JSON text: it is hashed as it stands."""
    hash: str


def verify_store(
    store: Path, *, heads: Sequence[AuditHead] = (), on_progress: Progress | None = None
) -> AuditVerification:
    """Check the log of a store, which may be in use. Memory does not grow with its length.

    Raises:
        InvalidRequest: A head document is none, or there is neither a key nor a head document.
        StoreError: The store or its key cannot be read.
    """
    key = load_key(key_path(store))
    with open_log(store) as connection:
        return _verify(connection, key.public if key else "", heads, on_progress)


def _verify(
    connection: sqlite3.Connection, public_key: str, heads: Sequence[AuditHead], on_progress: Progress | None
) -> AuditVerification:
    check = None
    connection.text_factory = lambda text: text.decode(errors="replace")  # it may be no UTF-8
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    try:
        if version >= _AUDIT_VERSION:
            check_schema(connection, version)
            head, segments = read_head(connection), read_segments(connection)
            if head or segments or connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone():
                check = ChainCheck(segments, head, public_key=public_key, heads=heads)
                return _verify_rows(connection, check, on_progress, head.number if head else 0)
        if public_key or heads:
            raise Wrong(
                1,
                "Entry 1 is missing: the log is empty though it has a key. It was emptied, unless the first gateway"
                " that used this store was killed before it wrote anything.",
            )
    except (Wrong, StoreError) as error:
        return _failed(error, check)
    return AuditVerification()


def _verify_rows(
    connection: sqlite3.Connection, check: ChainCheck, on_progress: Progress | None, last: int
) -> AuditVerification:
    codes = CodeCheck(connection)
    connection.text_factory = lambda text: text.decode(errors="surrogateescape")  # it may be no UTF-8
    for row in connection.execute(f"{ENTRY} NOT INDEXED ORDER BY number"):
        check.add(row)
        codes.add(row)
        if on_progress and row[0] % _PROGRESS_EVERY == 0:
            on_progress(row[0], last)
    check.finish()
    return check.result(codes=codes.found, codes_missing=codes.missing)


def verify_file(
    file: Path, *, heads: Sequence[AuditHead] = (), on_progress: Progress | None = None
) -> AuditVerification:
    """Check an exported file, for which nothing else is needed. Memory does not grow with its length.

    It is proved that the owner of the key which the file names signed it. Whether that key is the right one is known
    from a head document, or by comparing it.

    Raises:
        InvalidRequest: It is no exported file, or a head document is none.
    """
    try:
        with file.open("rb") as stream:
            header = _read_line(stream, partial(decode, kind=AuditFileHeader), "the header")
            if header is None or header.sealyard_audit != 1:
                raise InvalidRequest(f"{str(file)!r} is no audit log of a version that this sealyard knows.")
            return _verify_stream(stream, header, heads, on_progress)
    except OSError as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read: {error.strerror}.") from error
    except _NoEntry as error:
        raise InvalidRequest(f"{str(file)!r} is no exported audit log: {error}.") from None


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
    except (Wrong, StoreError) as error:
        return _failed(error, check)
    except _NoEntry as error:
        assert check is not None
        return _failed(Wrong(check.number + 1, f"Entry {check.number + 1} is wrong: {error}."), check)
    return check.result()


class CodeCheck:
    """Compares the kept texts of code with the digests in the log."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.found = self.missing = 0

        @lru_cache(maxsize=4096)
        def find(sha256: str) -> str | None:
            row = connection.execute("SELECT code FROM codes WHERE sha256 = ?", (sha256,)).fetchone()
            if row is None:
                return None
            return hashlib.sha256(row[0] if isinstance(row[0], bytes) else str(row[0]).encode()).hexdigest()

        self._find = find

    def add(self, row: tuple[Any, ...]) -> None:
        """Check the code of an entry that names one. Raises `Wrong`."""
        number, kind, body = row[0], row[3], row[7]
        if kind != "execution.start":
            return
        named = msgspec.json.decode(body).get("code_sha256")
        if not isinstance(named, str):
            return
        found = self._find(named)
        if found is None:
            self.missing += 1
        elif found == named:
            self.found += 1
        else:
            raise Wrong(number, f"The text of the code that entry {number} names was changed.")


_T = TypeVar("_T")
_ENTRIES = msgspec.json.Decoder(AuditFileEntry)


class _NoEntry(Exception):
    """A line is not what it should be."""


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
    """The tables are what they are taken for: no view in the place of one, no trigger and no other index on it."""
    query = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'audit%' AND sql IS NOT NULL ORDER BY name"
    with closing(sqlite3.connect(":memory:")) as right:
        for migration in MIGRATIONS[:version]:
            right.executescript(migration)
        expected = right.execute(query).fetchall()
    if connection.execute(query).fetchall() != expected:
        raise Wrong(None, "The tables of the log are not as sealyard made them.")


def _failed(error: Wrong | StoreError, check: ChainCheck | None) -> AuditVerification:
    done = check.result() if check else AuditVerification()
    number = error.number if isinstance(error, Wrong) else None
    return msgspec.structs.replace(done, problem=str(error), first_wrong=number)
