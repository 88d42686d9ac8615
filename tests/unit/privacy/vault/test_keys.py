"""The vault's keys: where they come from, who may read them, how they change, and that nobody sees them."""

import base64
import multiprocessing
import os
import pickle
import stat
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from sealyard.errors import VaultError
from sealyard.privacy.vault import KeyPlace, Keys
from sealyard.privacy.vault.keys import KeySource
from sealyard.privacy.vault.seal import ScopeSecrets

ONE, TWO = bytes(range(32)), bytes(range(32, 64))


def load(folder: Path, source: KeySource = "auto", environment_value: str | None = None) -> Keys:
    """The keys of a folder."""
    return KeyPlace(source, folder=folder, environment_value=environment_value).load()


# The environment


@pytest.mark.parametrize(
    "text",
    [
        ONE.hex(),
        ONE.hex().upper(),
        base64.b64encode(ONE).decode(),
        base64.urlsafe_b64encode(ONE).decode().rstrip("="),
        f" {ONE.hex()}\n",
    ],
)
def test_environments_key_may_be_base64_or_hex(tmp_path: Path, text: str) -> None:
    """As people make keys; nothing is written then."""
    keys = load(tmp_path, "auto", text)

    assert (keys.all(), keys.source) == ([ONE], "environment")
    assert list(tmp_path.iterdir()) == []


def test_first_of_several_keys_is_current(tmp_path: Path) -> None:
    """The others still open what they sealed."""
    keys = load(tmp_path, "environment", f"{TWO.hex()}, {ONE.hex()},{TWO.hex()}")

    assert keys.all() == [TWO, ONE]
    assert keys.ids == (Keys.of([TWO]).current_id, Keys.of([ONE]).current_id)
    assert keys.find(keys.ids[1]) == ONE
    assert keys.find("00000000") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "SEALYARD_VAULT_KEY holds no key. Make one with `openssl rand -base64 32`."),
        (
            f"{ONE.hex()},s3cret",
            "SEALYARD_VAULT_KEY: key 2 of 2 is not 32 bytes in base64 or hex. Make one with `openssl rand -base64 32`.",
        ),
        (
            "päss",
            "SEALYARD_VAULT_KEY: key 1 of 1 is not 32 bytes in base64 or hex. Make one with `openssl rand -base64 32`.",
        ),
        ("0" * 64, "SEALYARD_VAULT_KEY: key 1 of 1 is not random. Make one with `openssl rand -base64 32`."),
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused_without_being_shown(tmp_path: Path, text: str, message: str) -> None:
    """A typo must not end in a log."""
    with pytest.raises(VaultError) as caught:
        load(tmp_path, "auto", text)

    assert str(caught.value) == message


def test_environment_that_is_asked_for_must_be_set(tmp_path: Path) -> None:
    """No key is made elsewhere instead."""
    with pytest.raises(VaultError):
        load(tmp_path, "environment")
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_asked_for_wins_over_the_environment(tmp_path: Path) -> None:
    """The config says where the key is."""
    assert load(tmp_path, "file", ONE.hex()).source == "file"


# The file


def test_file_is_made_at_first_use_for_its_owner_alone(tmp_path: Path) -> None:
    """And read from then on."""
    folder = tmp_path / "new" / "folder"
    assert KeyPlace("auto", folder=folder).find() is None
    made = load(folder)

    assert stat.S_IMODE((folder / "vault.key").stat().st_mode) == 0o600
    assert [file.name for file in folder.iterdir()] == ["vault.key"]
    assert (load(folder).all(), load(folder).source) == (made.all(), "file")
    assert load(tmp_path / "other").all() != made.all()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """It is not changed: the operator must know."""
    load(tmp_path)
    (tmp_path / "vault.key").chmod(mode)

    with pytest.raises(VaultError):
        load(tmp_path)
    assert stat.S_IMODE((tmp_path / "vault.key").stat().st_mode) == mode


def test_link_in_the_files_place_is_refused(tmp_path: Path) -> None:
    """Whoever could place it could have us use a key of theirs."""
    load(tmp_path / "elsewhere")
    (tmp_path / "vault.key").symlink_to(tmp_path / "elsewhere" / "vault.key")

    with pytest.raises(VaultError):
        load(tmp_path)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, make: object) -> None:
    """And nobody waits for it."""
    assert callable(make)
    make(tmp_path / "vault.key")
    (tmp_path / "vault.key").chmod(0o600)

    with pytest.raises(VaultError):
        load(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """Even by root."""
    load(tmp_path)
    os.chown(tmp_path / "vault.key", 12345, 12345)

    with pytest.raises(VaultError):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe", b"x" * 100_000])
def test_file_without_a_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    """A key that can be repaired is not replaced."""
    (tmp_path / "vault.key").write_bytes(content)
    (tmp_path / "vault.key").chmod(0o600)

    with pytest.raises(VaultError):
        load(tmp_path)
    assert (tmp_path / "vault.key").read_bytes() == content


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """In one sentence, not in a traceback."""
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(VaultError):
        load(tmp_path / "file" / "folder")


def test_processes_that_start_at_once_get_the_same_key(tmp_path: Path) -> None:
    """One makes it, the others read it."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        found = pool.map(_load_current, [str(tmp_path)] * 8)

    assert found == [load(tmp_path).current_id] * 8


def _load_current(folder: str) -> str:
    return load(Path(folder)).current_id


# Rotation


def test_rotation_leaves_the_new_key_alone(tmp_path: Path) -> None:
    """While it goes on both are in the file."""
    old = load(tmp_path)
    with KeyPlace("auto", folder=tmp_path).rotate() as keys:
        assert keys.all() == load(tmp_path).all()
        assert keys.ids[1:] == (old.current_id,)
        assert keys.current_id != old.current_id

    assert load(tmp_path).ids == (keys.current_id,)
    assert stat.S_IMODE((tmp_path / "vault.key").stat().st_mode) == 0o600


def test_rotation_that_fails_keeps_both_keys(tmp_path: Path) -> None:
    """The next one takes them all along."""
    old = load(tmp_path)
    with pytest.raises(RuntimeError), KeyPlace("auto", folder=tmp_path).rotate() as keys:
        raise RuntimeError

    assert load(tmp_path).ids == (keys.current_id, old.current_id)
    with KeyPlace("auto", folder=tmp_path).rotate() as again:
        assert again.ids[1:] == (keys.current_id, old.current_id)
    assert load(tmp_path).ids == (again.current_id,)


def test_rotation_leaves_the_environment_as_it_is(tmp_path: Path) -> None:
    """It is the operator's: the new key must stand in front already."""
    with KeyPlace("auto", folder=tmp_path, environment_value=f"{TWO.hex()},{ONE.hex()}").rotate() as keys:
        assert keys.all() == [TWO, ONE]

    assert list(tmp_path.iterdir()) == []


# Secrecy


def test_keys_are_in_no_repr_and_in_no_record() -> None:
    """Neither master keys nor a scope's secrets."""
    keys = Keys.of([ONE, TWO])
    secrets = ScopeSecrets(ONE, TWO)

    assert repr(keys) == f"Keys({keys.ids[0]}, {keys.ids[1]}; source='given')"
    assert "ScopeSecrets object at" in repr(secrets)
    for each in (keys, secrets):
        with pytest.raises(TypeError):
            msgspec.json.encode(each)
        with pytest.raises(TypeError):
            pickle.dumps(each)


def test_current_key_must_be_there() -> None:
    """Else nothing could be sealed."""
    with pytest.raises(VaultError):
        Keys("00000000", {Keys.of([ONE]).current_id: ONE})


# The keyring: a package in its place that keeps entries as files, since the real one asks the desktop

KEYRING = """
from pathlib import Path
from keyring.errors import KeyringLocked, NoKeyringError

FOLDER = Path(__file__).parent
STATE = "open"

def get_password(service, account):
    _check()
    file = FOLDER / account.replace("/", "_")
    return file.read_text() if file.exists() else None

def set_password(service, account, password):
    _check()
    if STATE != "forgetful":
        (FOLDER / account.replace("/", "_")).write_text(password)

def _check():
    if STATE == "locked":
        raise KeyringLocked("the secret is hunter2")
    if STATE == "none":
        raise NoKeyringError("no backend")
"""
ERRORS = """
class KeyringError(Exception): pass
class KeyringLocked(KeyringError): pass
class NoKeyringError(KeyringError, RuntimeError): pass
"""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package `keyring` that can be imported."""
    package = tmp_path / "site" / "keyring"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(KEYRING), encoding="utf-8")
    (package / "errors.py").write_text(textwrap.dedent(ERRORS), encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return package


def test_keyring_keeps_the_key_of_each_store(tmp_path: Path, keyring: Path) -> None:
    """It is made at first use, and rotated like a file; no file is made."""
    made = load(tmp_path / "a", "keyring")

    assert made.source == "keyring"
    assert load(tmp_path / "a", "keyring").all() == made.all()
    assert load(tmp_path / "b", "keyring").all() != made.all()
    with KeyPlace("keyring", folder=tmp_path / "a").rotate() as keys:
        assert load(tmp_path / "a", "keyring").ids == (keys.current_id, made.current_id)
    assert load(tmp_path / "a", "keyring").ids == (keys.current_id,)
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize("state", ["locked", "none", "forgetful"])
def test_keyring_that_cannot_be_used_is_a_clear_error(
    tmp_path: Path, keyring: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose text is ours: a backend's own may hold anything."""
    import keyring as module

    monkeypatch.setattr(module, "STATE", state)
    with pytest.raises(VaultError) as caught:
        load(tmp_path, "keyring")

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(VaultError) as caught:
        load(tmp_path, "keyring")

    assert str(caught.value) == (
        "privacy.key is 'keyring', and the package keyring is not installed. Run `pip install 'sealyard[keyring]'`."
    )
