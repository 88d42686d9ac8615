"""Reads a `.zip` of which nothing is believed.

A file is taken only if it is laid out as writers lay it out: entries one after the other from the first byte, the
directory behind them, its end mark last, and both headers of an entry saying the same. So there is one way to read it,
and no room for what only some readers see. Sizes are checked before anything is unpacked, and again while it is.
"""

import stat
import struct
import zlib
from typing import NamedTuple

from sealyard.errors import InvalidSkill
from sealyard.skills.files import check_paths, shown

ARCHIVE_BYTES_MOST = 72 * 2**20
UNPACKED_BYTES_MOST = 64 * 2**20
ENTRIES_MOST = 4096
RATIO_MOST = 100
SMALL = 64 * 2**10
"""Unpacked bytes up to which the ratio does not matter."""

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_EXTRA = struct.Struct("<2H")
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_DESCRIBED = 1 << 3
"""Sizes follow the data, in 12 or 16 bytes."""
_UTF8 = 1 << 11
_KNOWN_FLAGS = _DESCRIBED | _UTF8 | 1 << 1 | 1 << 2
_STORED, _DEFLATED = 0, 8
_UNIX = 3
_ZIP64_EXTRA = 0x0001
_OTHER_NAME_EXTRA = 0x7075
_LIMITLESS = 0xFFFFFFFF


class _Entry(NamedTuple):
    """One line of the directory."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    unpacked: int
    offset: int


def read_zip(content: bytes, *, what: str) -> dict[str, bytes]:
    """The files of the archive by path; folders are left out.

    Raises:
        InvalidSkill: It is no plain zip, or its entries are not what files of skills may be.
    """
    entries = _directory(content, what)
    folders = [entry.name[:-1] for entry in entries if entry.name.endswith("/")]
    check_paths((entry.name for entry in entries if not entry.name.endswith("/")), folders=folders, what=what, below=1)
    _check_sizes(entries, what)
    files = {}
    for entry, start in _places(entries, content, what):
        if not entry.name.endswith("/"):
            files[entry.name] = _unpack(entry, memoryview(content)[start : start + entry.packed], what)
    return files


def _directory(content: bytes, what: str) -> list[_Entry]:
    """What the archive says it holds."""
    position = len(content) - _END.size
    if position < 0 or content[position : position + 4] != b"PK\5\6":
        raise InvalidSkill(f"{what} is no .zip, or something follows its end. {_ADVICE}")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(content, position)
    if comment or disk or first_disk or here != count or start + size != position:
        raise _broken(what, "its directory is not where its end mark says (or it is a zip64 or a split one)")
    if count > ENTRIES_MOST:
        raise InvalidSkill(f"{what} has {count:,} entries; at most {ENTRIES_MOST:,} are taken. Split it.")
    entries = []
    place = start
    for _ in range(count):
        if place + _CENTRAL.size > position or content[place : place + 4] != b"PK\1\2":
            raise _broken(what, "its directory is cut off")
        entry, place = _central(content, place, what)
        entries.append(entry)
    if place != position:
        raise _broken(what, "its directory holds more than it counts")
    return entries


def _central(content: bytes, place: int, what: str) -> tuple[_Entry, int]:
    """The line of the directory at `place`, and where the next one begins."""
    fields = _CENTRAL.unpack_from(content, place)
    _, made_by, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size, comment_size = fields[:13]
    disk, _, attributes, offset = fields[13:]
    start = place + _CENTRAL.size
    raw_name = content[start : start + name_size]
    name = _name(raw_name, flags, what)
    extra = content[start + name_size : start + name_size + extra_size]
    if flags & _ENCRYPTED:
        raise InvalidSkill(f"{what} holds {shown(name)}, which is encrypted. Pack it without a password.")
    if method not in (_STORED, _DEFLATED) or flags & ~_KNOWN_FLAGS:
        raise InvalidSkill(f"{what} holds {shown(name)}, packed by method {method}. Pack it again with deflate.")
    if disk or _LIMITLESS in (packed, unpacked, offset) or not _is_plain(extra):
        raise _broken(what, f"{shown(name)} has sizes or a name in an extension (zip64)")
    _check_kind(name, made_by, attributes, unpacked, what)
    entry = _Entry(name, raw_name, flags, method, crc, packed, unpacked, offset)
    return entry, start + name_size + extra_size + comment_size


def _name(raw: bytes, flags: int, what: str) -> str:
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError:
        raise InvalidSkill(f"{what} holds {shown(repr(raw))}, whose name is not UTF-8. Rename it.") from None


def _is_plain(extra: bytes) -> bool:
    """Whether the extra field is well formed, and neither sizes nor another name are in it."""
    place = 0
    while place < len(extra):
        if len(extra) - place < _EXTRA.size:
            return False
        kind, size = _EXTRA.unpack_from(extra, place)
        if kind in (_ZIP64_EXTRA, _OTHER_NAME_EXTRA):
            return False
        place += _EXTRA.size + size
    return place == len(extra)


def _check_kind(name: str, made_by: int, attributes: int, unpacked: int, what: str) -> None:
    """Check that it is a file, or a folder that says so by its name."""
    kind = stat.S_IFMT(attributes >> 16) if made_by >> 8 == _UNIX else 0
    is_folder = name.endswith("/")
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG) or (is_folder and unpacked):
        raise InvalidSkill(
            f"{what} holds {shown(name)}, which is a link or another thing that is no file. Replace it by a plain file."
        )


def _check_sizes(entries: list[_Entry], what: str) -> None:
    """Check what the directory claims, before anything is unpacked."""
    if sum(entry.unpacked for entry in entries) > UNPACKED_BYTES_MOST:
        raise InvalidSkill(f"{what} would unpack to more than {UNPACKED_BYTES_MOST // 2**20} MiB. Split it.")
    for entry in entries:
        if entry.unpacked > SMALL and entry.unpacked > RATIO_MOST * entry.packed:
            raise InvalidSkill(
                f"{what} holds {shown(entry.name)}, which would unpack to more than {RATIO_MOST} times its size. Store"
                " it without compression."
            )


def _places(entries: list[_Entry], content: bytes, what: str) -> list[tuple[_Entry, int]]:
    """Where the data of each entry begins. Entries lie one after the other, and nothing is before or between them."""
    places = []
    expected = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.offset != expected:
            raise _broken(what, f"something is before {shown(entry.name)}, or it overlaps with another entry")
        start = _local(entry, content, what)
        places.append((entry, start))
        expected = _after(entry, start + entry.packed, content, what)
    if expected != _END.unpack_from(content, len(content) - _END.size)[6]:
        raise _broken(what, "something is between its entries and its directory")
    return places


def _local(entry: _Entry, content: bytes, what: str) -> int:
    """Where the data of the entry begins, if its own header says what the directory says."""
    start = entry.offset + _LOCAL.size
    if start > len(content) or content[entry.offset : entry.offset + 4] != b"PK\3\4":
        raise _broken(what, f"{shown(entry.name)} is not where the directory says")
    fields: tuple[int, ...] = _LOCAL.unpack_from(content, entry.offset)[2:]
    flags, method, _, _, crc, packed, unpacked, name_size, extra_size = fields
    raw_name = content[start : start + name_size]
    start += name_size
    sizes = (crc, packed, unpacked)
    agrees = sizes == (entry.crc, entry.packed, entry.unpacked) or (flags & _DESCRIBED and sizes == (0, 0, 0))
    same = (flags, method, raw_name) == (entry.flags, entry.method, entry.raw_name)
    if not agrees or not same or not _is_plain(content[start : start + extra_size]):
        raise _broken(what, f"{shown(entry.name)} is described in two ways")
    return start + extra_size


def _after(entry: _Entry, end: int, content: bytes, what: str) -> int:
    """Where the next entry begins: behind the data, and behind the sizes if they follow it."""
    if not entry.flags & _DESCRIBED:
        return end
    sizes = struct.pack("<3L", entry.crc, entry.packed, entry.unpacked)
    for descriptor in (b"PK\7\x08" + sizes, sizes):
        if content.startswith(descriptor, end):
            return end + len(descriptor)
    raise _broken(what, f"{shown(entry.name)} is described in two ways")


def _unpack(entry: _Entry, packed: memoryview, what: str) -> bytes:
    """The data of the entry; never more of it than the directory claims."""
    if entry.method == _STORED:
        unpacked, is_whole = bytes(packed), True
    else:
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            unpacked = unpacking.decompress(packed, entry.unpacked + 1)
        except zlib.error:
            raise _broken(what, f"{shown(entry.name)} cannot be unpacked") from None
        is_whole = unpacking.eof and not unpacking.unused_data and not unpacking.unconsumed_tail
    if not is_whole or len(unpacked) != entry.unpacked or zlib.crc32(unpacked) != entry.crc:
        raise _broken(what, f"{shown(entry.name)} is not of the size or the checksum that the directory says")
    return unpacked


_ADVICE = (
    "Archives of skills are .zip files, as `sealyard skills export` writes them; unpack others and import the folder."
)


def _broken(what: str, reason: str) -> InvalidSkill:
    return InvalidSkill(f"{what} is no sound .zip: {reason}. {_ADVICE}")
