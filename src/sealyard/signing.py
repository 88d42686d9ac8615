"""Ed25519 keys in files that only their owner can read, and the bytes that they sign."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from sealyard.errors import StoreError

_KEY_BYTES_MOST = 4096
"""A PEM file of an Ed25519 key has about 120."""
_ENCODER = msgspec.json.Encoder()


class Ed25519Key:
    """A key that signs."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    @classmethod
    def generate(cls) -> Self:
        """A new key, in no file yet."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path, *, what: str, remedy: str) -> Self | None:
        """The key in a file; None if there is no file. `what` and `remedy` are words for an error.

        Raises:
            StoreError: It cannot be read, is not a key, or can be read by others.
        """
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(_KEY_BYTES_MOST)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"The {what} {str(path)!r} cannot be read: {error.strerror}. Make it readable for this user alone."
            ) from error
        if mode & 0o077:
            raise StoreError(
                f"The {what} {str(path)!r} can be used by others: its mode is {mode:04o}. Run `chmod 600` on it, and"
                f" {remedy} if somebody may have read it."
            )
        try:
            private = load_pem_private_key(content, password=None)
        except (ValueError, TypeError) as error:
            raise StoreError(f"The {what} {str(path)!r} is not a key. Restore it from a copy.") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise StoreError(f"The {what} {str(path)!r} is not an Ed25519 key. Restore it from a copy.")
        return cls(private)

    def pem(self) -> bytes:
        """The content of its file."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, signed: bytes) -> str:
        """Sign bytes; returns the signature in hexadecimal."""
        return self._private.sign(signed).hex()


def message(purpose: str, fields: Sequence[str | int]) -> bytes:
    """The bytes to hash or sign: a JSON array of the purpose and the fields, in the form of RFC 8785.

    No two lists of fields give the same bytes, and a signature for one purpose is useless for another.

    Raises:
        UnicodeEncodeError: A text holds a lone surrogate.
    """
    return _ENCODER.encode([purpose, *fields])


def is_signed(signed: bytes, signature: str, *, public_key: str) -> bool:
    """True if the signature of these bytes was made by that key. Malformed signatures and keys give False."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), signed)
    except (InvalidSignature, ValueError):
        return False
    return True
