"""The Ed25519 key that signs archives of skills: a file that only its owner can read."""

import os
import secrets
import stat
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from sealyard.errors import InvalidSkill
from sealyard.store.audit.key import AuditKey, sync_folder

_KEY_BYTES_MOST = 4096


class SigningKey(AuditKey):
    """A key that signs archives; `public`, in hexadecimal, is what others need in order to trust it."""

    @classmethod
    def load_or_make(cls, path: Path) -> Self:
        """The key in a file, which is made if there is none. All who make it at the same time get the same one.

        Raises:
            InvalidSkill: It cannot be read or made, is no key, or can be read by others.
        """
        try:
            if not os.path.lexists(path):
                _make(path)
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(_KEY_BYTES_MOST)
        except OSError as error:
            raise InvalidSkill(
                f"The signing key {str(path)!r} cannot be read or made: {error.strerror}. Make it readable, or its"
                " folder writable, for this user alone."
            ) from error
        if mode & 0o077:
            raise InvalidSkill(
                f"The signing key {str(path)!r} can be used by others: its mode is {mode:04o}. Run `chmod 600` on it,"
                " or remove it if somebody may have read it: the next export makes a new one."
            )
        try:
            private = load_pem_private_key(content, password=None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidSkill(
                f"The signing key {str(path)!r} is no Ed25519 key. Restore it from a copy, or remove it."
            )
        return cls(private)


def _make(path: Path) -> None:
    """Write a new key, whole, unless somebody else does so first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.flush()
            os.fsync(descriptor)
        path.hardlink_to(draft)
        sync_folder(path.parent)
    except FileExistsError:
        pass  # theirs is as good
    finally:
        draft.unlink()
