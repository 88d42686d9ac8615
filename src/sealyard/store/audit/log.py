"""The audit log: numbered entries in which the hash of each covers the one before, and a signed head.

The hash of an entry is the SHA-256 of a JSON array in the form of RFC 8785, which is UTF-8 without spaces: "sealyard
audit entry", the previous hash, number, segment, at_microseconds, kind, principal, session, execution_id and body, the
last as a string, the JSON text that is stored. Before the first entry the hash is `NO_HASH`. A segment is closed when
it is long or old, with a signed row that carries the chain on if its entries are removed. Every commit signs the head.

A body has at most 16 KiB. Longer values are replaced, as deep inside as possible, by `{"sha256": …, "bytes": …}`: the
digest of a text's UTF-8, or of another value's compact JSON. An owner of the value can still prove it.
"""

import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sealyard.disk import drafted
from sealyard.errors import StoreError
from sealyard.former import spell
from sealyard.signing import Ed25519Key, is_signed, message
from sealyard.store.columns import insert, where
from sealyard.store.database import connect_reader, explain
from sealyard.store.stored_json import encode_json, is_longer, storable
from sealyard.values.access import AuditEntry, AuditRow

NO_HASH = "0" * 64
"""The hash before the first entry."""

SEGMENT_ENTRIES = 100_000  # chosen, not measured: entries are exported and pruned by whole segments
SEGMENT_SECONDS = 30 * 24 * 3600.0
"""The next entry closes a segment of this many entries, or of this age."""

BODY_BYTES = 16 << 10
"""A hundred entries fit into a page of the dashboard."""

_ATTEMPTS = ((4096, 8), (512, 8), (96, 1), (0, 0))
"""Bytes up to which a value is kept whole, and levels down to which parts of a longer one are kept: at first a quarter
of the body, so that a few long values leave the rest whole; in the end the digest of everything, which always fits."""
_PARTS = 64
"""A list or an object with more parts is not kept in parts: their digests alone would take a third of the body."""
_DIGITS = 4300
"""Python writes no longer number in decimal."""

ENTRY = "SELECT number, segment, at_microseconds, kind, principal, session, execution_id, body, hash FROM audit"
_ENTRY_LABEL, _SEGMENT_LABEL, _HEAD_LABEL = "sealyard audit entry", "sealyard audit segment", "sealyard audit head"
_SEGMENT = (
    "SELECT segment, first_number, last_number, previous_hash, last_hash, closed_at_microseconds, exported_sha256,"
    " removed_at_microseconds, signature FROM audit_segments"
)
_HEAD = "number, hash, at_microseconds, public_key, signature"
_LAST_AND_HEAD = f"SELECT (SELECT max(number) FROM audit), {_HEAD} FROM (SELECT 1) LEFT JOIN audit_head ON one = 1"  # noqa: S608
_S = TypeVar("_S", bound=msgspec.Struct)


class AuditSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One closed segment: it links the entries before and after it, even if its own are removed."""

    segment: int
    first_number: int
    last_number: int
    previous_hash: str
    last_hash: str
    closed_at_microseconds: int
    exported_sha256: str = ""
    """The digest of the last file it was exported to."""
    removed_at_microseconds: int = 0
    """The time at which its entries were removed; 0 if they are present."""
    signature: str = ""

    def signed(self, label: str = _SEGMENT_LABEL) -> bytes:
        """The signed bytes: all other fields in order."""
        return message(label, msgspec.structs.astuple(self)[:-1])

    def is_signed(self, public_key: str) -> bool:
        """True if that key made the signature, under the product's present or former name."""
        texts = (self.signed(), self.signed(spell(_SEGMENT_LABEL)))
        return any(is_signed(text, self.signature, public_key=public_key) for text in texts)


NO_SEGMENT = AuditSegment(
    segment=0, first_number=0, last_number=0, previous_hash=NO_HASH, last_hash=NO_HASH, closed_at_microseconds=0
)
"""Before the first."""


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """The signed last entry at some time: a copy kept elsewhere proves that the log was not cut since."""

    number: int
    hash: str
    at_microseconds: int
    """When it was signed."""
    public_key: str
    signature: str = ""

    def signed(self, label: str = _HEAD_LABEL) -> bytes:
        """The signed bytes: all other fields in order."""
        return message(label, msgspec.structs.astuple(self)[:-1])

    def is_signed(self) -> bool:
        """True if the named public key made the signature, under the product's present or former name."""
        texts = (self.signed(), self.signed(spell(_HEAD_LABEL)))
        return any(is_signed(text, self.signature, public_key=self.public_key) for text in texts)


def entry_hash(previous_hash: str, fields: Sequence[str | int]) -> str:
    """The hash of the entry with these fields, from `number` to `body`, after the one with the previous hash."""
    return sha256(message(_ENTRY_LABEL, (previous_hash, *fields))).hexdigest()


def is_entry_hash(found: object, previous_hash: str, fields: Sequence[str | int]) -> bool:
    """True if that is the hash of the entry, written under the product's present or former name."""
    if found == entry_hash(previous_hash, fields):
        return True
    return found == sha256(message(spell(_ENTRY_LABEL), (previous_hash, *fields))).hexdigest()


def key_path(store: Path) -> Path:
    """The key file of a store: each has its own, so that the log of one cannot pass for another's."""
    return store.with_name(f"{store.name}.audit.key")


def load_key(store: Path) -> Ed25519Key | None:
    """The key of a store's log; None if there is no file. Raises as `Ed25519Key.load` does."""
    return Ed25519Key.load(key_path(store), what="audit key", remedy="`sealyard audit rekey`")


def _make_key(path: Path) -> Ed25519Key:
    """Make a new key, in a file that is written wholly or not at all. The caller excludes others."""
    key = Ed25519Key.generate()
    try:
        with drafted(path, draft_name=f"{path.name}.new") as file:
            file.write(key.pem())
    except OSError as error:
        raise StoreError(
            f"The audit key {str(path)!r} cannot be made: {error.strerror}. Make its folder writable."
        ) from error
    return key


class AuditLog:
    """Writes the log of one store, in the thread that writes it.

    Entries of a transaction are written at its end: numbers, hashes and one signature.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._key_path = key_path(store)
        self._key_name = str(self._key_path)
        self._key: tuple[tuple[int, ...], Ed25519Key] | None = None
        self._entries: list[tuple[int, AuditEntry]] = []
        self._known: tuple[AuditHead | None, ...] = (None,)
        """Heads known to be right: the last one found, and the one this process wrote."""
        self._segment: tuple[AuditHead, AuditSegment, int | None] | None = None
        """The last head written, the last segment closed before it, and the time at which the open one began."""

    def add(self, connection: sqlite3.Connection, entries: list[tuple[int, AuditEntry]]) -> None:
        """Write these entries, with their times, when the transaction ends."""
        self._entries += entries

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Write entries that are added inside at the end; all or none of them.

        Raises:
            StoreError: The key or the head was changed. The whole transaction is tried again.
        """
        self._entries = []
        yield
        if self._entries:
            key, head = self._open(connection)
            self._write(connection, key, head)

    def mark_exported(self, connection: sqlite3.Connection, *, segments: Collection[int], sha256: str) -> None:
        """Keep the digest of the file to which closed segments were exported."""
        key, _ = self._open(connection)
        for segment in self._signed_segments(connection, key):
            if segment.segment in segments:
                _write_segment(connection, msgspec.structs.replace(segment, exported_sha256=sha256), key)

    def remove(self, connection: sqlite3.Connection, *, segments: Collection[int], principal: str) -> None:
        """Remove the entries of closed segments, with an entry for each. Their rows stay."""
        key, _ = self._open(connection)
        for segment in self._signed_segments(connection, key):
            if segment.segment in segments and not segment.removed_at_microseconds:
                connection.execute(
                    "DELETE FROM audit WHERE number BETWEEN ? AND ?", (segment.first_number, segment.last_number)
                )
                segment = msgspec.structs.replace(segment, removed_at_microseconds=_now())
                _write_segment(connection, segment, key)
                body = msgspec.structs.asdict(segment)
                del body["signature"]
                self._entries.append((_now(), AuditEntry(kind="audit.prune", principal=principal, body=body)))

    def rekey(self, connection: sqlite3.Connection, *, principal: str) -> None:
        """Sign the log as it is with a new key, with an entry about it. After a kill before the commit, repeat it."""
        head = read_head(connection)
        key = _make_key(self._key_path)
        for segment in read_segments(connection):
            _write_segment(connection, segment, key)
        last = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
        if last is not None:
            self._known = (_write_head(connection, last[0], last[1], key),)
        body = {"before": head.public_key if head else "", "after": key.public}
        self._entries.append((_now(), AuditEntry(kind="audit.rekey", principal=principal, body=body)))

    def _open(self, connection: sqlite3.Connection) -> tuple[Ed25519Key, AuditHead | None]:
        """The key and the head that it signed. A log that somebody changed is not continued."""
        row = connection.execute(_LAST_AND_HEAD).fetchone()
        head = self._to_head(row[1:])
        key = self._load_key(may_make=head is None and row[0] is None)
        before = self._known[0]
        if (
            row[0] != (None if head is None else head.number)
            or (head not in self._known and not (head and head.public_key == key.public and head.is_signed()))
            or (before is not None and (head is None or head.number < before.number))
        ):
            raise self._changed()
        return key, head

    def _to_head(self, row: tuple[Any, ...]) -> AuditHead | None:
        """The head in these columns: mostly the last one written here, which needs no check."""
        known = self._known[-1]
        if known is not None and row == msgspec.structs.astuple(known):
            return known
        return None if row[0] is None else _to_struct(AuditHead, row)

    def _signed_segments(self, connection: sqlite3.Connection, key: Ed25519Key) -> list[AuditSegment]:
        segments = read_segments(connection)
        if not all(each.is_signed(key.public) for each in segments):
            raise self._changed()
        return segments

    def _changed(self) -> StoreError:
        return StoreError(
            f"The audit log of the store {str(self._store)!r} was changed by somebody else, or its key was: nothing is"
            " recorded any more. Run `sealyard audit verify`, and keep a copy of the store as evidence."
        )

    def _load_key(self, *, may_make: bool) -> Ed25519Key:
        identity = _identify(self._key_name)
        if identity is not None and self._key is not None and self._key[0] == identity:
            return self._key[1]
        key = load_key(self._store)
        if key is None and may_make:
            key = _make_key(self._key_path)
        if key is None:
            raise StoreError(
                f"The audit key {str(self._key_path)!r} is gone. Restore it from a copy; if there is none, run"
                " `sealyard audit rekey`."
            )
        self._key = (_identify(self._key_name) or (), key)
        return key

    def _write(self, connection: sqlite3.Connection, key: Ed25519Key, head: AuditHead | None) -> None:
        number, previous = (head.number, head.hash) if head else (0, NO_HASH)
        now = _now()
        closed, opened_at = self._last_segment(connection, head)
        rows = []
        is_old = opened_at is not None and now - opened_at > SEGMENT_SECONDS * 1e6
        for at, entry in self._entries:
            if is_old or number - closed.last_number >= SEGMENT_ENTRIES:
                closed = _close_segment(connection, closed, number, previous, key)
                opened_at, is_old = None, False
            if opened_at is None:
                opened_at = at
            number += 1
            fields = (
                number,
                closed.segment + 1,
                at,
                entry.kind,
                storable(entry.principal),
                storable(entry.session),
                storable(entry.execution_id),
                encode_body(entry.body),
            )
            previous = entry_hash(previous, fields)
            rows.append((*fields, previous))
        insert(connection, "audit", rows)
        written = _write_head(connection, number, previous, key)
        self._known = (head, written)
        self._segment = (written, closed, opened_at)

    def _last_segment(self, connection: sqlite3.Connection, head: AuditHead | None) -> tuple[AuditSegment, int | None]:
        """The segment closed last, and the time of the first entry after it."""
        if self._segment is not None and self._segment[0] is head:
            return self._segment[1:]
        row = connection.execute(f"{_SEGMENT} ORDER BY segment DESC LIMIT 1").fetchone()
        closed = NO_SEGMENT if row is None else _to_struct(AuditSegment, row)
        query = "SELECT at_microseconds FROM audit WHERE number = ?"
        first = connection.execute(query, (closed.last_number + 1,)).fetchone()
        return closed, None if first is None else int(first[0])


def _close_segment(
    connection: sqlite3.Connection, before: AuditSegment, last_number: int, last_hash: str, key: Ed25519Key
) -> AuditSegment:
    """Close the segment after `before`, with this entry as its last."""
    segment = AuditSegment(
        segment=before.segment + 1,
        first_number=before.last_number + 1,
        last_number=last_number,
        previous_hash=before.last_hash,
        last_hash=last_hash,
        closed_at_microseconds=_now(),
    )
    _write_segment(connection, segment, key)
    return segment


def _write_head(connection: sqlite3.Connection, number: int, last_hash: str, key: Ed25519Key) -> AuditHead:
    head = AuditHead(number=number, hash=last_hash, at_microseconds=_now(), public_key=key.public)
    head = msgspec.structs.replace(head, signature=key.sign(head.signed()))
    connection.execute("INSERT OR REPLACE INTO audit_head VALUES (1, ?, ?, ?, ?, ?)", msgspec.structs.astuple(head))
    return head


def _write_segment(connection: sqlite3.Connection, segment: AuditSegment, key: Ed25519Key) -> None:
    segment = msgspec.structs.replace(segment, signature=key.sign(segment.signed()))
    connection.execute(
        "INSERT OR REPLACE INTO audit_segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", msgspec.structs.astuple(segment)
    )


# Bodies


def encode_body(body: Mapping[str, Any]) -> str:
    """The text of a body. No value makes this fail."""
    text = None if is_longer(body, BODY_BYTES) else encode_json(body)
    if text is None or _size(text) > BODY_BYTES:
        digests: _Digests = {}
        for most_bytes, levels in _ATTEMPTS:
            shown = _shorten(body, most_bytes, levels, digests)
            text = None if is_longer(shown, BODY_BYTES) else encode_json(shown)
            if text is not None and _size(text) <= BODY_BYTES:
                break
    assert text is not None  # the last attempt is a digest
    return text


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


_Digests = dict[int, dict[str, Any]]
"""Digests of the long values of one body, by `id`: several attempts replace the same ones."""


def _shorten(value: Any, most_bytes: int, levels: int, digests: _Digests) -> Any:
    if not is_longer(value, most_bytes):
        text = encode_json(value)
        if text is not None and len(text) <= most_bytes:
            return value
    if levels and isinstance(value, Mapping) and len(value) <= _PARTS:
        return {key: _shorten(each, most_bytes, levels - 1, digests) for key, each in value.items()}
    if levels and isinstance(value, (list, tuple)) and len(value) <= _PARTS:
        return [_shorten(each, most_bytes, levels - 1, digests) for each in value]
    if id(value) not in digests:
        text = value if isinstance(value, str) else encode_json(value)
        digests[id(value)] = _digest(_pieces(value) if text is None else [text])
    return digests[id(value)]


def _digest(pieces: Iterator[str] | list[str]) -> dict[str, Any]:
    digest = sha256()
    size_bytes = 0
    for piece in pieces:
        encoded = storable(piece).encode()
        digest.update(encoded)
        size_bytes += len(encoded)
    return {"sha256": digest.hexdigest(), "bytes": size_bytes}


def _pieces(value: Any) -> Iterator[str]:
    """Text of a value that no encoder takes, such as ten thousand levels, without recursion."""
    waiting: list[Any] = [iter([value])]
    ends = [""]
    while waiting:
        for each in waiting[-1]:
            if isinstance(each, Mapping):
                yield "{"
                waiting.append(part for pair in each.items() for part in pair)
                ends.append("}")
                break
            if isinstance(each, (list, tuple)):
                yield "["
                waiting.append(iter(each))
                ends.append("]")
                break
            yield f"{_scalar(each)},"
        else:
            waiting.pop()
            yield ends.pop()


def _scalar(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > _DIGITS * 3:
        return f"{value:#x}"
    text = encode_json(value)
    return f"<{type(value).__name__}>" if text is None else text


# Reading


class AuditReader:
    """The log of a store as of one moment."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.head = partial(read_head, connection)
        self.segments = partial(read_segments, connection)
        self.entries = partial(read_entries, connection)

    def last_number(self) -> int:
        """The number of the newest entry; 0 if there is none."""
        (number,) = self.connection.execute("SELECT coalesce(max(number), 0) FROM audit").fetchone()
        return int(number)

    def find_code(self, sha256: str) -> bytes | None:
        """The text of code as it is kept under the digest that an entry names; None if it is not kept."""
        row = self.connection.execute("SELECT CAST(code AS BLOB) FROM codes WHERE sha256 = ?", (sha256,)).fetchone()
        return None if row is None else row[0]


@contextmanager
def open_log(store: Path) -> Iterator[AuditReader]:
    """Open the log for reading, without a lock.

    Raises:
        StoreError: It cannot be read.
    """
    try:
        with closing(connect_reader(store)) as connection:
            connection.execute("BEGIN")  # one moment for all reads
            yield AuditReader(connection)
    except sqlite3.Error as error:
        raise explain(store, "read", error) from error


def read_head(connection: sqlite3.Connection) -> AuditHead | None:
    """The signed head as it is stored, unchecked; None if there is none."""
    row = connection.execute(f"SELECT {_HEAD} FROM audit_head WHERE one = 1").fetchone()  # noqa: S608
    return None if row is None else _to_struct(AuditHead, row)


def read_segments(connection: sqlite3.Connection) -> list[AuditSegment]:
    """All closed segments in order."""
    return [_to_struct(AuditSegment, row) for row in connection.execute(f"{_SEGMENT} ORDER BY segment")]


def read_entries(
    connection: sqlite3.Connection,
    *,
    limit: int = 50,
    before: int | None = None,
    principal: str | None = None,
    kind: str | None = None,
    execution_id: str | None = None,
    after: int | None = None,
) -> list[AuditRow]:
    """Entries, the newest first, or the oldest first of those `after` a number."""
    conditions, values = where(
        ("number < ?", before),
        ("number > ?", after),
        ("principal = ?", None if principal is None else storable(principal)),
        ("kind = ?", kind),
        ("execution_id = ? AND execution_id <> ''", None if execution_id is None else storable(execution_id)),
    )
    order = f" ORDER BY number {'DESC' if after is None else 'ASC'} LIMIT ?"
    return [_to_row(row) for row in connection.execute(f"{ENTRY}{conditions}{order}", (*values, limit))]


def _to_row(row: tuple[Any, ...]) -> AuditRow:
    number, segment, at_microseconds, kind, principal, session, execution_id, body, entry_hash = row
    try:
        at, decoded = at_microseconds / 1e6, msgspec.json.decode(body)
    except (TypeError, msgspec.DecodeError):
        at, decoded = None, None
    return _to_struct(AuditRow, (number, segment, at, kind, principal, session, execution_id, decoded, entry_hash))


def _to_struct(kind: type[_S], row: tuple[Any, ...]) -> _S:
    """Convert a row with a check: an attacker can put any value there, such as text for a number."""
    try:
        return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"The audit log holds something that sealyard never writes: {error}. Run `sealyard audit verify`."
        ) from None


def _identify(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_mode


def _now() -> int:
    return time.time_ns() // 1000
