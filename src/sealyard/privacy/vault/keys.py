"""The master keys of the vault: from the environment's value, a file that only its owner can read, or the OS keyring.

A key is 32 random bytes. Several may be present at once, as rotation needs: the first seals from now on, the others
still open what they sealed. No `repr`, message or log shows a key; they show its id.
"""

import base64
import binascii
import hashlib
import importlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn

from sealyard.disk import drafted, locked
from sealyard.errors import VaultError
from sealyard.former import FORMER, PRESENT, VAULT_KEY_ID, VAULT_SERVICE

KeySource = Literal["auto", "environment", "file", "keyring"]
"""`auto`: the environment's value if there is one, else the file."""

KEY_FILE = "vault.key"
"""Its name, in the folder of the store."""

_KEY_BYTES = 32  # AES-256
_FILE_BYTES = 64 << 10  # room for a thousand old keys; any other file is not read whole
_FILE_HEAD = (
    "# The first key seals sealyard's vault; any others only open it. Without it, what is in the vault is lost.\n"
)
_VARIABLE = "SEALYARD_VAULT_KEY"
_SERVICE = "sealyard vault"
_DISTINCT_BYTES = 8
"""A random key never has fewer; a placeholder such as zeros has."""
_HOW = "Make one with `openssl rand -base64 32`."


class Keys:
    """Master keys by their ids. `current_id` is the one to seal with after a rotation."""

    __slots__ = ("_keys", "current_id", "source")

    def __init__(self, current_id: str, keys: Mapping[str, bytes], *, source: str = "given") -> None:
        if current_id not in keys:
            raise VaultError(f"The current key {current_id!r} is not among the keys. Give it too.")
        self.current_id = current_id
        self.source = source
        """`environment`, `file`, `keyring` or `given`."""
        self._keys = dict(keys)

    @classmethod
    def of(cls, keys: Sequence[bytes], *, source: str = "given") -> "Keys":
        """These keys; the first is current."""
        return cls(_identify(keys[0]), {_identify(key): key for key in keys}, source=source)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, the current one first."""
        return (self.current_id, *(each for each in self._keys if each != self.current_id))

    def find(self, key_id: str) -> bytes | None:
        """The key of that id; None if it is not here."""
        return self._keys.get(key_id)

    def all(self) -> list[bytes]:
        """Every key, the current one first."""
        return [self._keys[each] for each in self.ids]

    def __reduce__(self) -> NoReturn:
        raise TypeError("Keys do not leave their process.")

    def __repr__(self) -> str:
        return f"Keys({', '.join(self.ids)}; source={self.source!r})"


class KeyPlace:
    """The storage of one vault's keys. `folder` is the folder of its store."""

    def __init__(self, source: KeySource, *, folder: Path, environment_value: str | None = None) -> None:
        self._source: KeySource = source
        self._folder = folder
        self._environment_value = environment_value

    def find(self) -> Keys | None:
        """The keys as `load` gives them; None if there is none yet. Raises what it raises."""
        source, value, path = self._source, self._environment_value, self._folder / KEY_FILE
        if source == "environment" and value is None:
            raise VaultError(f"The vault's key is to come from {_VARIABLE}, which is not set. {_HOW}")
        if value is not None and source in ("auto", "environment"):
            return Keys.of(_parse(value, _VARIABLE), source="environment")
        if source == "keyring":
            text = _read_keyring(self._folder)
            return None if text is None else Keys.of(_parse(text, "The OS keyring's entry"), source="keyring")
        text = _read_file(path)
        return None if text is None else Keys.of(_parse(text, f"The file {str(path)!r}"), source="file")

    def load(self) -> Keys:
        """The keys. A file or an entry in the keyring is made at first use.

        It may wait for the disk, and for a person who unlocks the keyring.

        Raises:
            VaultError: There is no key and none can be made, the text there is not a key, or others can read the file.
        """
        keys = self.find()
        if keys is not None:
            return keys
        with _locked(self._folder):  # of several that start at once, one makes the key
            keys = self.find()
            if keys is None:
                _write_keys(self._source, self._folder, [secrets.token_bytes(_KEY_BYTES)])
                keys = self.find()
        if keys is None:
            raise VaultError("The OS keyring did not keep the vault's key. Set privacy.key to 'file' or 'environment'.")
        return keys

    @contextmanager
    def rotate(self) -> Iterator[Keys]:
        """Keys with a new current one, to seal everything anew with. When the block ends well, only that one is kept.

        If it fails, or the process is killed in it, the old keys stay beside the new one and all can still be opened.
        The environment is not ours to change: there the new key must stand in front already, and the old ones stay
        until they are taken out.

        Raises:
            VaultError: As `load`.
        """
        keys = self.load()
        if keys.source == "environment":
            yield keys
            return
        with _locked(self._folder):
            keys = self.find() or keys  # another process may have made one
            new = [secrets.token_bytes(_KEY_BYTES), *keys.all()]
            _write_keys(self._source, self._folder, new)
            yield Keys.of(new, source=keys.source)
            _write_keys(self._source, self._folder, new[:1])

    def add(self, keys: Keys) -> None:
        """Put keys in front of those that are there, which all stay: whatever they sealed can be opened.

        Raises:
            VaultError: The text there is not a key, or it cannot be written.
        """
        with _locked(self._folder):
            there = self.find()
            new = list(dict.fromkeys([*keys.all(), *(there.all() if there else ())]))
            if there is None or new != there.all():
                _write_keys(self._source, self._folder, new)


def _identify(key: bytes) -> str:
    return hashlib.sha256(VAULT_KEY_ID + key).hexdigest()[:8]


def _parse(text: str, where: str) -> list[bytes]:
    """The keys in a text: base64 or hex, between commas, blanks or line ends. `#` begins a remark."""
    parts = re.split(r"[,\s]+", re.sub(r"(?m)#.*$", "", text))
    keys = [_decode(part) for part in parts if part]
    if not keys:
        raise VaultError(f"{where} holds no key. {_HOW}")
    for number, key in enumerate(keys, 1):
        if key is None or len(key) != _KEY_BYTES:
            raise VaultError(f"{where}: key {number} of {len(keys)} is not 32 bytes in base64 or hex. {_HOW}")
        if len(set(key)) < _DISTINCT_BYTES:
            raise VaultError(f"{where}: key {number} of {len(keys)} is not random. {_HOW}")
    return [key for key in keys if key is not None]


def _decode(text: str) -> bytes | None:
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return bytes.fromhex(text)
    try:
        bare = text.rstrip("=").replace("-", "+").replace("_", "/")
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _write_keys(source: KeySource, folder: Path, keys: Sequence[bytes]) -> None:
    lines = [base64.b64encode(key).decode() for key in keys]
    if source == "keyring":
        _ask_keyring("set_password", _SERVICE, _account(folder), ",".join(lines))
        return
    path = folder / KEY_FILE
    try:
        with drafted(path) as file:
            file.write((_FILE_HEAD + "\n".join(lines) + "\n").encode())
    except OSError as error:
        raise VaultError(
            f"The vault's key file {str(path)!r} cannot be written: {error.strerror}. Make its folder writable."
        ) from error


# The file


def _read_file(path: Path) -> str | None:
    try:
        # Not through a link, and not waiting for the writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, f"it cannot be opened ({error.strerror})") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, "it is no regular file")
        if status.st_uid != os.geteuid():
            raise _unreadable(path, f"it belongs to user {status.st_uid}, and this is user {os.geteuid()}")
        if status.st_mode & 0o077:
            raise _unreadable(path, f"others may use it: its mode is {stat.S_IMODE(status.st_mode):04o}, not 0600")
        return os.read(descriptor, _FILE_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise _unreadable(path, f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(descriptor)


def _unreadable(path: Path, reason: str) -> VaultError:
    return VaultError(
        f"The vault's key file {str(path)!r} is not used: {reason}. Put the file itself there with `chmod 600`; if"
        " others may have read it, run `sealyard privacy rotate` then."
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time makes or changes keys in a folder, which is made if need be."""
    with ExitStack() as held:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(locked(folder))
        except OSError as error:
            raise VaultError(
                f"The folder {str(folder)!r} of the vault's key cannot be used: {error.strerror}. Make it writable."
            ) from error
        yield


# The keyring


def _account(folder: Path) -> str:
    return str(folder.resolve())


def _read_keyring(folder: Path) -> str | None:
    """The keys of a folder's vault; those that it had under the product's former name until others are written."""
    text = _ask_keyring("get_password", _SERVICE, _account(folder))
    places = (folder, folder.with_name(FORMER)) if folder.name == PRESENT else (folder,)
    for place in places:
        text = text or _ask_keyring("get_password", VAULT_SERVICE, _account(place))
    return None if text is None else str(text)


def _ask_keyring(function: str, *args: str) -> Any:
    try:
        keyring: Any = importlib.import_module("keyring")  # by name, since it is an extra
    except ImportError:
        raise VaultError(
            "privacy.key is 'keyring', and the package keyring is not installed. Run `pip install 'sealyard[keyring]'`."
        ) from None
    errors: Any = importlib.import_module("keyring.errors")
    try:
        return getattr(keyring, function)(*args)
    except errors.KeyringError as error:
        # Its message is the backend's own and may quote the key; the class says enough.
        raise VaultError(
            f"The OS keyring cannot be used: {type(error).__name__}. Unlock it, install a backend for it, or set"
            " privacy.key to 'file' or 'environment'."
        ) from None
