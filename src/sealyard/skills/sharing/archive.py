"""Skill folders in one signed `.zip`.

Beside the folders it holds `sealyard-manifest.json`, which names every file with its hash, and
`sealyard-manifest.sig`, an Ed25519 signature of exactly those bytes. The same folders give the same archive.

Nothing in an archive is trusted. It is read only if it is laid out as writers lay it out: entries one after the other
from the first byte, the directory behind them, its end mark last, and both headers of an entry equal. So there is one
way to read it, and no room for data that only some readers see. Sizes are checked before unpacking and during it.
"""

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from sealyard.disk import drafted, locked
from sealyard.errors import InvalidSkill, StoreError
from sealyard.former import spell
from sealyard.signing import Ed25519Key, is_signed, message
from sealyard.skills.sharing.files import (
    FileEntry,
    SkillFolder,
    check_paths,
    files_manifest,
    read_file,
    replace_file,
    shown,
)

_MANIFEST = "sealyard-manifest.json"
_SIGNATURE = "sealyard-manifest.sig"
_FORMAT = 1  # the version of the manifest's format
_PURPOSE = "sealyard skill archive"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold: the same folders give the same bytes."""
_LEVEL = 9  # the best compression: an archive is written once and read often
ARCHIVE_BYTES_MOST = 72 * 2**20
"""Above `UNPACKED_BYTES_MOST`, for headers and incompressible files."""
UNPACKED_BYTES_MOST = 64 * 2**20
"""All files of an archive: they are read into memory."""
ENTRIES_MOST = 4096
"""More files than a hundred skills have."""
RATIO_MOST = 100
"""Of unpacked to packed bytes: text rarely shrinks more than twenty-fold."""
SMALL = 64 * 2**10
"""Unpacked bytes below which the ratio does not matter."""

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_EXTRA = struct.Struct("<2H")
"""Layouts of the records in section 4.3 and 4.4 of the zip specification."""
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13  # bits of the general purpose flag in section 4.4.4, as are the next three
_DESCRIBED = 1 << 3  # sizes follow the data, in 12 or 16 bytes
_UTF8 = 1 << 11  # names are UTF-8, otherwise taken for ASCII
_KNOWN_FLAGS = _DESCRIBED | _UTF8 | 1 << 1 | 1 << 2
_STORED, _DEFLATED = 0, 8
_UNIX = 3  # made on Unix, in section 4.4.2: the attributes hold a file's mode
_ZIP64_EXTRA = 0x0001  # section 4.5.3
_OTHER_NAME_EXTRA = 0x7075  # Info-ZIP's Unicode path, in section 4.6.9
_LIMITLESS = 0xFFFFFFFF  # stands for a size that is in a zip64 extension


# The signing key


class SigningKey(Ed25519Key):
    """A key that signs archives; others trust its `public` part, in hexadecimal."""

    @classmethod
    def load_or_make(cls, path: Path) -> Self:
        """Load the key in a file, which is made if it does not exist. Concurrent makers get the same key.

        Raises:
            InvalidSkill: It cannot be read or made, is not a key, or can be read by others.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path.parent):  # of several that start at once, one makes the key
                key = cls.load(path, what="signing key", remedy="remove it")
                if key is None:
                    if path.is_symlink():
                        raise InvalidSkill(f"The signing key {str(path)!r} is a link that leads nowhere. Remove it.")
                    key = cls.generate()
                    with drafted(path) as file:
                        file.write(key.pem())
        except StoreError as error:
            raise InvalidSkill(str(error)) from error
        except OSError as error:
            raise InvalidSkill(
                f"The signing key {str(path)!r} cannot be made: {error.strerror}. Make its folder writable for this"
                " user alone."
            ) from error
        return key


# Archives


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an archive, and its signer."""

    folders: tuple[SkillFolder, ...]
    """Sorted by name."""
    signer: str | None
    """The name of a trusted key, or `ed25519:` and the public key of another one; `None` without a signature."""
    is_trusted: bool
    """True if a trusted key signed it."""
    digest: str
    """`sha256:` and the hash of the manifest."""


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    files: list[FileEntry]


class _Signature(msgspec.Struct, frozen=True, kw_only=True):
    algorithm: str
    public_key: str
    signature: str


def write_archive(path: Path, folders: Sequence[SkillFolder], key: SigningKey | None, *, replace: bool = False) -> str:
    """Write folders into one archive, signed if there is a key, and return its digest.

    Raises:
        InvalidSkill: The file exists, two folders have one name, they are too large, or the disk is full.
    """
    names = [folder.name for folder in folders]
    if not names or len(set(names)) != len(names):
        raise InvalidSkill(f"{str(path)!r} cannot hold {names}. Give at least one skill, and none of a name twice.")
    if os.path.lexists(path) and not replace:
        raise InvalidSkill(f"{str(path)!r} exists. Choose another name, or replace it on purpose.")
    files = {f"{folder.name}/{file}": content for folder in folders for file, content in folder.files.items()}
    manifest = _manifest_of(files)
    files[_MANIFEST] = manifest
    if key is not None:
        signature = _Signature(algorithm="ed25519", public_key=key.public, signature=key.sign(_signed(manifest)))
        files[_SIGNATURE] = msgspec.json.encode(signature)
    if len(files) > ENTRIES_MOST or sum(map(len, files.values())) > UNPACKED_BYTES_MOST:
        raise InvalidSkill(
            f"{len(folders)} skills are too much for one archive: it takes {ENTRIES_MOST:,} files and"
            f" {UNPACKED_BYTES_MOST // 2**20} MiB. Write several."
        )
    replace_file(path, _zipped(files))
    return _digest(manifest)


def read_archive(path: Path, *, trusted: Mapping[str, str], allow_unsigned: bool = False) -> Archive:
    """Read the skill folders in an archive; nothing is written. `trusted` has public keys in hexadecimal by name.

    An archive of an unknown signer is read too, with the key as its `signer`. The manifest may be missing only if the
    signature is.

    Raises:
        InvalidSkill: It is not a sound zip of skill folders, its signature or manifest is wrong, or it is not signed.
    """
    what = f"The archive {str(path)!r}"
    files = read_zip(read_file(path, most=ARCHIVE_BYTES_MOST, what=what), what=what)
    is_former = not {_MANIFEST, _SIGNATURE} & files.keys()
    manifest, signature = (files.pop(spell(name) if is_former else name, None) for name in (_MANIFEST, _SIGNATURE))
    purpose = spell(_PURPOSE) if is_former else _PURPOSE
    key = _verified_key(manifest, signature, what, purpose)
    if key is None and not allow_unsigned:
        raise InvalidSkill(
            f"{what} is not signed. Ask for a signed one, or allow unsigned ones if you know its origin."
        )
    if manifest is not None:
        _check_manifest(manifest, files, what)
    name = next((name for name, public in trusted.items() if public.strip().lower() == key), None)
    return Archive(
        folders=_folders(files, what),
        signer=name if name is not None or key is None else f"ed25519:{key}",
        is_trusted=name is not None,
        digest=_digest(manifest if manifest is not None else _manifest_of(files)),
    )


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of the files that does not depend on time, place and order."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", allowZip64=False) as archive:
        for path, content in sorted(files.items()):
            entry = zipfile.ZipInfo(path, date_time=_EPOCH)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            # A reader would take a file that shrinks too well for a bomb.
            shrinks = len(content) > SMALL and len(content) > RATIO_MOST * len(zlib.compress(content, _LEVEL, -15))
            entry.compress_type = zipfile.ZIP_STORED if shrinks else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=_LEVEL)
    return target.getvalue()


def _verified_key(manifest: bytes | None, signature: bytes | None, what: str, purpose: str) -> str | None:
    """The public key that signed the manifest; None without a signature."""
    if signature is None:
        return None
    if manifest is None:
        raise InvalidSkill(f"{what} has a signature but no {_MANIFEST!r}. Ask for it to be exported again.")
    try:
        found = msgspec.json.decode(signature, type=_Signature)
        signed = _signed(manifest, purpose)
        if found.algorithm == "ed25519" and is_signed(signed, found.signature, public_key=found.public_key):
            return bytes.fromhex(found.public_key).hex()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # an unreadable signature is none
    raise InvalidSkill(f"{what} has a signature that is not of its manifest: it was changed. Do not use it.")


def _check_manifest(manifest: bytes, files: Mapping[str, bytes], what: str) -> None:
    try:
        declared = msgspec.json.decode(manifest, type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidSkill(
            f"{what} has a {_MANIFEST!r} that cannot be read. Ask for it to be exported again."
        ) from None
    if declared.format != _FORMAT:
        raise InvalidSkill(f"{what} has the format {declared.format}; this sealyard reads {_FORMAT}. Update sealyard.")
    actual = files_manifest(files)
    if declared.files == actual:
        return
    known = {entry.path: entry for entry in declared.files}
    other = next((entry.path for entry in actual if known.get(entry.path) != entry), None)
    other = other or next(iter(sorted(known.keys() - files.keys())), "its order")
    raise InvalidSkill(
        f"{what} does not fit its manifest: {shown(other)} was changed, added or removed. Do not use it."
    )


def _folders(files: Mapping[str, bytes], what: str) -> tuple[SkillFolder, ...]:
    grouped: dict[str, dict[str, bytes]] = {}
    for path, content in sorted(files.items()):
        name, slash, inside = path.partition("/")
        if not slash:
            raise InvalidSkill(f"{what} holds {shown(path)} outside of any skill folder. Remove it.")
        grouped.setdefault(name, {})[inside] = content
    if not grouped:
        raise InvalidSkill(f"{what} holds no skill. Give one that has a folder with a SKILL.md.")
    return tuple(SkillFolder(name=name, files=inside) for name, inside in grouped.items())


def _manifest_of(files: Mapping[str, bytes]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_Manifest(format=_FORMAT, files=files_manifest(files))), indent=2)


def _signed(manifest: bytes, purpose: str = _PURPOSE) -> bytes:
    """The signed bytes, useless for any other purpose."""
    return message(purpose, [manifest.decode()])


def _digest(manifest: bytes) -> str:
    return f"sha256:{sha256(manifest).hexdigest()}"


# The zip


class _Entry(NamedTuple):
    """One entry of the directory."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    unpacked: int
    offset: int


def read_zip(content: bytes, *, what: str) -> dict[str, bytes]:
    """The files of an archive by path, without folders.

    Raises:
        InvalidSkill: It is not a plain zip, or its entries cannot be files of skills.
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
    """The entries of the directory."""
    position = len(content) - _END.size
    if position < 0 or content[position : position + 4] != b"PK\5\6":
        raise InvalidSkill(f"{what} is not a .zip, or something follows its end. {_ADVICE}")
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
    """The entry of the directory at `place`, and the place of the next one."""
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
    """True if the extra field is well formed and holds neither sizes nor another name."""
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
    """Check that an entry is a file, or a folder by its name too."""
    kind = stat.S_IFMT(attributes >> 16) if made_by >> 8 == _UNIX else 0
    is_folder = name.endswith("/")
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG) or (is_folder and unpacked):
        raise InvalidSkill(
            f"{what} holds {shown(name)}, which is a link or something else than a file. Replace it by a plain file."
        )


def _check_sizes(entries: list[_Entry], what: str) -> None:
    """Check the sizes in the directory before anything is unpacked."""
    if sum(entry.unpacked for entry in entries) > UNPACKED_BYTES_MOST:
        raise InvalidSkill(f"{what} would unpack to more than {UNPACKED_BYTES_MOST // 2**20} MiB. Split it.")
    for entry in entries:
        if entry.unpacked > SMALL and entry.unpacked > RATIO_MOST * entry.packed:
            raise InvalidSkill(
                f"{what} holds {shown(entry.name)}, which would unpack to more than {RATIO_MOST} times its size. Store"
                " it without compression."
            )


def _places(entries: list[_Entry], content: bytes, what: str) -> list[tuple[_Entry, int]]:
    """The start of each entry's data. Entries are contiguous from the first byte."""
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
    """The start of an entry's data, if its own header agrees with the directory."""
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
    """The end of an entry: behind its data, and behind the sizes if they follow it."""
    if not entry.flags & _DESCRIBED:
        return end
    sizes = struct.pack("<3L", entry.crc, entry.packed, entry.unpacked)
    for descriptor in (b"PK\7\x08" + sizes, sizes):
        if content.startswith(descriptor, end):
            return end + len(descriptor)
    raise _broken(what, f"{shown(entry.name)} is described in two ways")


def _unpack(entry: _Entry, packed: memoryview, what: str) -> bytes:
    """The data of an entry; never more of it than the directory declares."""
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
    return InvalidSkill(f"{what} is not a sound .zip: {reason}. {_ADVICE}")
