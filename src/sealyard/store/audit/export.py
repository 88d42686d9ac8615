"""The audit log as a file of JSON lines that can be checked alone: a header, then one entry a line."""

import hashlib
from pathlib import Path
from typing import BinaryIO

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.store.audit.key import key_path, load_key
from sealyard.store.audit.log import ENTRY, NO_SEGMENT, AuditHead, AuditSegment, open_log, read_head, read_segments
from sealyard.store.audit.verification import AuditFileEntry, AuditFileHeader, Progress

_PROGRESS_EVERY = 10_000
_NUMBER_MOST = (1 << 63) - 1


class AuditExport(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported."""

    entries: int
    segments: list[int]
    """The closed ones, which are whole in the file."""
    sha256: str


def export_audit(
    store: Path, stream: BinaryIO, *, segment: int | None = None, on_progress: Progress | None = None
) -> AuditExport:
    """Write the whole log, or one segment of it, as it is: whether it is right, `verify_file` says.

    Raises:
        InvalidRequest: There is no entry, no such segment, or its entries were removed.
        StoreError: The store or its key cannot be read.
    """
    key = load_key(key_path(store))
    digest = hashlib.sha256()
    entries = 0

    def write(line: msgspec.Struct) -> None:
        encoded = msgspec.json.encode(line) + b"\n"
        digest.update(encoded)
        stream.write(encoded)

    with open_log(store) as connection:
        connection.text_factory = lambda text: text.decode(errors="backslashreplace")  # it may be no UTF-8
        head = read_head(connection)
        if head is None:
            raise InvalidRequest("The audit log has no signed head: it is empty, or `sealyard audit verify` says why.")
        public_key = key.public if key else head.public_key
        header = _build_header(head, read_segments(connection), public_key, segment)
        write(header)
        last = _NUMBER_MOST if header.head else header.segments[-1].last_number
        rows = connection.execute(
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
    if chosen is None:  # the one that is still written
        return AuditFileHeader(public_key=public_key, after=after, segments=[], head=head)
    return AuditFileHeader(public_key=public_key, after=after, segments=[chosen], head=None)
