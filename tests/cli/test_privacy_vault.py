"""The operator's commands on the vault, as a user starts them: beside the store of a gateway, every act recorded."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sealyard.privacy.vault import KeyPlace, Keys, Vault
from sealyard.store import open_store

Command = Callable[..., subprocess.CompletedProcess[str]]

EMAIL = "ana@example.com"
ONE, TWO = bytes(range(32)), bytes(range(32, 64))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a config whose store is in it, and no key in the environment."""
    (tmp_path / "sealyard.toml").write_text('[store]\npath = "store.db"\n', encoding="utf-8")
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "SEALYARD_CONFIG", "SEALYARD_VAULT_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    (tmp_path / "vault.key").unlink(missing_ok=True)


def fill(folder: Path, *values: tuple[str, str, str | int], keys: Keys | None = None) -> list[str]:
    """Tokens of values, given as scope, type and value, that a gateway put into the vault."""

    async def work() -> list[str]:
        async with open_store(folder / "store.db") as store:
            found = keys or KeyPlace("file", folder=folder).load()
            vault = Vault(found, store.vault, expires_seconds=604_800.0)
            return [(await vault.scope(scope)).token(kind, value) for scope, kind, value in values]

    return asyncio.run(work())


def audited(folder: Path) -> list[tuple[str, str, Any]]:
    """Kind, principal and body of all entries, the oldest first."""

    async def work() -> list[tuple[str, str, Any]]:
        async with open_store(folder / "store.db") as store:
            rows = await store.audit_entries(limit=100)
            return [(row.kind, row.principal, row.body) for row in rows[::-1] if row.kind.startswith("privacy.")]

    return asyncio.run(work())


def test_reveal_shows_the_value_and_is_recorded(installed: Command, project: Path) -> None:
    """The entry names the token, never the value."""
    (token, number) = fill(project, ("local:main", "email", EMAIL), ("local:main", "phone", 5551234))
    done = installed("privacy", "reveal", token.upper())
    as_json = installed("privacy", "reveal", number, "--json")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{EMAIL}\n", "")
    assert json.loads(as_json.stdout) == {"token": number, "type": "phone", "scope": "local:main", "value": 5551234}
    assert audited(project) == [
        ("privacy.reveal", "local", {"token": token, "scope": "local:main", "type": "email"}),
        ("privacy.reveal", "local", {"token": number, "scope": "local:main", "type": "phone"}),
    ]


@pytest.mark.parametrize("token", ["__PII_email_ffffffffffff__", "ana@example.com", "__PII_email_"])
def test_reveal_of_what_is_no_token_fails_and_shows_nothing(sealyard: Command, project: Path, token: str) -> None:
    """A user's mistake: no traceback, and no entry."""
    fill(project, ("local:main", "email", EMAIL))
    done = sealyard("privacy", "reveal", token)

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"error: {token!r} is not a token in the vault: it is incomplete, has expired or was erased.\n"
    )
    assert audited(project) == []


def test_reveal_shows_nothing_when_it_cannot_be_recorded(sealyard: Command, project: Path) -> None:
    """The record comes first: without it there is no value."""
    (token,) = fill(project, ("local:main", "email", EMAIL))
    sealyard("privacy", "reveal", token)
    (key,) = project.glob("*.audit.key")
    key.chmod(0o644)
    done = sealyard("privacy", "reveal", token)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_forget_erases_a_value_everywhere_and_records_only_how_many(sealyard: Command, project: Path) -> None:
    """Its token is refused from then on; the audit log is whole."""
    token, other, kept = fill(
        project, ("local:main", "email", EMAIL), ("ben:main", "email", EMAIL), ("local:main", "email", "b@example.com")
    )
    done = sealyard("privacy", "forget", EMAIL.upper(), "--yes")

    assert (done.returncode, done.stdout) == (0, "2 values are erased.\n")
    for each in (token, other):
        assert sealyard("privacy", "reveal", each).returncode == 2
    assert sealyard("privacy", "reveal", kept).stdout == "b@example.com\n"
    assert audited(project)[0] == ("privacy.forget", "local", {"count": 2, "scopes": ["ben:main", "local:main"]})
    assert sealyard("audit", "verify").returncode == 0
    assert EMAIL.encode() not in b"".join(file.read_bytes() for file in project.glob("store.db*") if file.is_file())


def test_forget_asks_and_a_no_changes_nothing(sealyard: Command, project: Path) -> None:
    """Values may come from standard input, so that they are in no shell's history."""
    (token,) = fill(project, ("local:main", "email", EMAIL))
    refused = sealyard("privacy", "forget", token, stdin=b"n\n")

    assert (refused.returncode, refused.stdout) == (130, "")
    assert audited(project) == []
    assert sealyard("privacy", "reveal", token).returncode == 0
    agreed = sealyard("privacy", "forget", token, stdin=b"y\n")
    assert (agreed.returncode, agreed.stdout) == (0, "1 values are erased.\n")
    assert sealyard("privacy", "forget", token, stdin=b"").stdout == "0 values are erased.\n"


def test_forget_reads_values_from_standard_input(sealyard: Command, project: Path) -> None:
    """One a line."""
    fill(project, ("a:b", "email", EMAIL), ("a:b", "person", "Zoë Ångström"), ("a:b", "person", "Ben"))
    done = sealyard("privacy", "forget", "-", "--yes", stdin=f"{EMAIL}\nZOË ÅNGSTRÖM\n\n".encode())

    assert (done.returncode, done.stdout) == (0, "2 values are erased.\n")
    assert sealyard("privacy", "forget", "-", "--yes", stdin=b"\n \n").returncode == 2


def test_forget_of_a_session_erases_all_of_it(sealyard: Command, project: Path) -> None:
    """By its own name or by the scope's; another session of that name is left alone."""
    fill(project, ("local:main", "email", EMAIL), ("local:main", "phone", 5551234), ("ben:main", "email", EMAIL))

    assert sealyard("privacy", "forget", EMAIL, "--session", "main", "--yes").stdout == "1 values are erased.\n"
    assert sealyard("privacy", "forget", "--session", "main", "--yes").stdout == "1 values are erased.\n"
    assert sealyard("privacy", "forget", "--session", "main", "--yes").returncode == 2
    assert sealyard("privacy", "forget", "--session", "ben:main", "--yes").stdout == "1 values are erased.\n"
    assert json.loads(sealyard("privacy", "status", "--json").stdout)["scopes"] == []


@pytest.mark.parametrize("arguments", [(), ("--all", EMAIL), ("--all", "--session", "main")])
def test_forget_wants_to_be_told_what(sealyard: Command, project: Path, arguments: tuple[str, ...]) -> None:
    """Nothing is erased by a forgotten argument."""
    fill(project, ("local:main", "email", EMAIL))

    assert sealyard("privacy", "forget", *arguments, "--yes").returncode == 2
    assert [each["values"] for each in json.loads(sealyard("privacy", "status", "--json").stdout)["values"]] == [1]


def test_rotate_changes_the_key_and_no_token(sealyard: Command, project: Path) -> None:
    """The old key is gone from the file; ids of both are recorded."""
    (token,) = fill(project, ("local:main", "email", EMAIL))
    old = KeyPlace("file", folder=project).load()
    done = sealyard("privacy", "rotate")
    new = KeyPlace("file", folder=project).load()

    assert done.stdout == f"1 scopes are sealed with the key {new.current_id} from the file now.\n"
    assert (done.returncode, len(new.ids), new.current_id == old.current_id) == (0, 1, False)
    assert sealyard("privacy", "reveal", token).stdout == f"{EMAIL}\n"
    body = {"old_key": old.current_id, "new_key": new.current_id}
    assert audited(project)[0] == ("privacy.rotate", "local", body)


def test_rotate_of_the_environments_key_takes_two_steps(
    sealyard: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new key in front, rotate, the old key out: at each step what is in the vault can be revealed."""
    (token,) = fill(project, ("local:main", "email", EMAIL), keys=Keys.of([ONE]))
    monkeypatch.setenv("SEALYARD_VAULT_KEY", ONE.hex())
    early = sealyard("privacy", "rotate")
    assert (early.returncode, early.stdout) == (2, "")
    monkeypatch.setenv("SEALYARD_VAULT_KEY", f"{TWO.hex()},{ONE.hex()}")
    assert sealyard("privacy", "reveal", token).stdout == f"{EMAIL}\n"
    done = sealyard("privacy", "rotate")
    new = Keys.of([TWO]).current_id
    assert done.stdout.splitlines() == [
        f"1 scopes are sealed with the key {new} from the environment now.",
        "Restart the gateways with it, then take the old keys out of SEALYARD_VAULT_KEY.",
    ]
    monkeypatch.setenv("SEALYARD_VAULT_KEY", TWO.hex())

    assert sealyard("privacy", "reveal", token).stdout == f"{EMAIL}\n"
    assert not (project / "vault.key").exists()
    assert ONE.hex() not in early.stderr


def test_key_that_is_elsewhere_is_named_and_none_is_made(
    sealyard: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without the gateway's environment must not begin a second key; what needs no key still works."""
    (token,) = fill(project, ("local:main", "email", EMAIL), keys=Keys.of([ONE]))
    used = Keys.of([ONE]).current_id
    for arguments in (("reveal", token), ("forget", EMAIL, "--yes"), ("rotate",)):
        done = sealyard("privacy", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"error: The vault is sealed with the key {used!r}, and no key is here. Give this command the configuration"
            " and the SEALYARD_VAULT_KEY of the gateway; if the key is lost, `sealyard privacy forget --all` clears the"
            " vault.\n"
        )
    status = sealyard("privacy", "status")
    assert status.stderr == f"warning: The vault is sealed with the key {used}, which is not here.\n"
    assert KeyPlace("file", folder=project).find() is None
    assert sealyard("privacy", "forget", "--all", "--yes").stdout == "1 values are erased.\n"
    assert audited(project) == [("privacy.forget", "local", {"count": 1, "scopes": ["local:main"]})]


def test_status_tells_counts_and_the_keys_id_and_never_a_value(sealyard: Command, project: Path) -> None:
    """For people and for programs; it makes no key."""
    empty = sealyard("privacy", "status")
    assert empty.stdout.splitlines() == [
        "The vault is empty.",
        "no key is here yet; values expire 604,800 s after they were seen last",
    ]
    assert not (project / "vault.key").exists()
    fill(project, ("a:b", "email", EMAIL), ("a:b", "email", "b@example.com"), ("gateway", "phone", 5551234))
    key = KeyPlace("file", folder=project).load().current_id
    lines = sealyard("privacy", "status").stdout.splitlines()
    shown = json.loads(sealyard("privacy", "status", "--json").stdout)

    assert [line.split()[:3] for line in lines[1:3]] == [["a:b", "email", "2"], ["gateway", "phone", "1"]]
    assert lines[3] == f"key {key} from the file; values expire 604,800 s after they were seen last"
    assert [(each["scope"], each["type"], each["values"]) for each in shown["values"]] == [
        ("a:b", "email", 2),
        ("gateway", "phone", 1),
    ]
    assert shown["key"] == {"id": key, "source": "file", "is_here": True}
    assert (shown["scopes"], shown["expires_seconds"]) == (["a:b", "gateway"], 604_800.0)


def test_key_file_that_others_can_read_stops_every_command(sealyard: Command, project: Path) -> None:
    """With what to do."""
    (token,) = fill(project, ("local:main", "email", EMAIL))
    os.chmod(project / "vault.key", 0o644)
    done = sealyard("privacy", "reveal", token)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: The vault's key file {str(project / 'vault.key')!r} is not used: others may use it: its mode is 0644,"
        " not 0600. Put the file itself there with `chmod 600`; if others may have read it, run"
        " `sealyard privacy rotate` then.\n"
    )
