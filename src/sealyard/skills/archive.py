"""Skill folders in one signed `.zip`.

Beside the folders it holds `sealyard-manifest.json`, which names every file with its hash, and
`sealyard-manifest.sig`, an Ed25519 signature of exactly those bytes. The same folders give the same archive.
"""

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from sealyard.errors import InvalidSkill
from sealyard.former import spell
from sealyard.skills.files import FileEntry, SkillFolder, files_manifest, read_file, replace_file, shown
from sealyard.skills.signing import SigningKey
from sealyard.skills.zip_entries import (
    ARCHIVE_BYTES_MOST,
    ENTRIES_MOST,
    RATIO_MOST,
    SMALL,
    UNPACKED_BYTES_MOST,
    read_zip,
)
from sealyard.store.audit.key import is_signed, message

_MANIFEST = "sealyard-manifest.json"
_SIGNATURE = "sealyard-manifest.sig"
_FORMAT = 1
_PURPOSE = "sealyard skill archive"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 9


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds, and who vouches for it."""

    folders: tuple[SkillFolder, ...]
    """Sorted by name."""
    signer: str | None
    """The name of the trusted key; `ed25519:` and the public key if it is none of those; `None` without a signature."""
    is_trusted: bool
    """Whether a trusted key signed it."""
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
    """Write the folders into one archive, signed unless there is no key; returns its digest.

    Raises:
        InvalidSkill: There is a file already, two folders have one name, they are too large, or the disk is full.
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
    """The skill folders in an archive; nothing is written. `trusted` are public keys in hexadecimal by name.

    An archive that somebody else signed is read too: its `signer` is then the key. The manifest may be missing
    only if the signature is.

    Raises:
        InvalidSkill: It is no sound zip of skill folders, its signature or manifest is wrong, or it is not signed.
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
    """A zip of the files that does not depend on when, where and in which order."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", allowZip64=False) as archive:
        for path, content in sorted(files.items()):
            entry = zipfile.ZipInfo(path, date_time=_EPOCH)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            # What shrinks too well would look like a bomb to whoever reads it.
            shrinks = len(content) > SMALL and len(content) > RATIO_MOST * len(zlib.compress(content, _LEVEL, -15))
            entry.compress_type = zipfile.ZIP_STORED if shrinks else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=_LEVEL)
    return target.getvalue()


def _verified_key(manifest: bytes | None, signature: bytes | None, what: str, purpose: str) -> str | None:
    """The public key that signed the manifest; None if nobody did."""
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
        pass  # what cannot be read is no signature
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
    """What is signed: of no use for any other purpose."""
    return message(purpose, [manifest.decode()])


def _digest(manifest: bytes) -> str:
    return f"sha256:{sha256(manifest).hexdigest()}"
