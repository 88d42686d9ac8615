"""`sealyard backup` and `sealyard restore` as a user meets them."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import warm

from sealyard.privacy.vault import KeyPlace
from sealyard.store import open_store
from sealyard.store.audit.verification import verify_store
from sealyard.values.access import AuditEntry
from sealyard.values.runs import ExecutionRecord

Command = Callable[..., subprocess.CompletedProcess[str]]


def record(path: Path, *names: str) -> None:
    """Executions of these names, and an audit entry."""

    async def write() -> None:
        async with open_store(path) as store:
            for name in names:
                store.record_start(
                    ExecutionRecord(
                        execution_id=name, principal="ada", session="s", code=name, started_at=1.0, status="ok"
                    )
                )
            store.audit(AuditEntry(kind="policy.change", principal="ada"))

    asyncio.run(write())


def executions(path: Path) -> list[str]:
    """The names of those that a store holds."""

    async def read() -> list[str]:
        async with open_store(path) as store:
            return sorted(each.execution_id for each in await store.executions())

    return asyncio.run(read())


def kinds(path: Path) -> list[str]:
    """What the audit log says, the newest first."""

    async def read() -> list[str]:
        async with open_store(path) as store:
            return [each.kind for each in await store.audit_entries()]

    return asyncio.run(read())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config whose store holds `old`."""
    file = tmp_path / "sealyard.toml"
    file.write_text('[store]\npath = "data/sealyard.db"\n', encoding="utf-8")
    record(tmp_path / "data" / "sealyard.db", "old")
    return file


def test_store_comes_back_as_it_was(installed: Command, config: Path, tmp_path: Path) -> None:
    """What was recorded after the backup is gone from the store, and kept beside it."""
    store, file = tmp_path / "data" / "sealyard.db", tmp_path / "b.tar"
    made = installed("backup", str(file), "--config", str(config))
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    record(store, "new")
    done = installed("restore", str(file), "--config", str(config), "--sha256", sha256)

    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == (
        f"{file}: 1 executions, 0 calls, 0 skills, 1 audit entries, 0 facts.\n"
        f"Its SHA-256 is {sha256}. Keep that elsewhere, for `sealyard restore --sha256`.\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    (kept,) = store.parent.glob("*replaced*")
    assert done.stdout.splitlines()[1] == (
        f"What was there is kept in {kept}. Remove it when it is not needed any more."
    )
    assert (executions(store), executions(kept / store.name)) == (["old"], ["new", "old"])


def test_both_are_in_the_audit_log(sealyard: Command, config: Path, tmp_path: Path) -> None:
    """Who copies everything, or puts the past in the place of the present, is seen."""
    store, file = tmp_path / "data" / "sealyard.db", tmp_path / "b.tar"
    sealyard("backup", str(file), "--config", str(config))
    assert kinds(store) == ["store.backup", "policy.change"]
    sealyard("restore", str(file), "--config", str(config))

    assert kinds(store) == ["store.restore", "policy.change"]
    assert verify_store(store).problem == ""


def test_json_has_every_field(sealyard: Command, config: Path, tmp_path: Path) -> None:
    """For who makes backups by a program."""
    store, file = tmp_path / "data" / "sealyard.db", tmp_path / "b.tar"
    made = json.loads(sealyard("backup", str(file), "--store", str(store), "--json").stdout)
    checked = json.loads(sealyard("restore", str(file), "--check", "--json").stdout)
    done = json.loads(sealyard("restore", str(file), "--store", str(store), "--json").stdout)

    assert set(made) == {"file", "manifest", "sha256", "problem"}
    assert checked == {"ok": True, **{key: made[key] for key in ("manifest", "sha256", "problem")}}
    assert set(done) == {"store", "backup", "replaced", "vault_key"}
    assert done["backup"]["sha256"] == made["sha256"]


def test_check_changes_nothing(sealyard: Command, config: Path, tmp_path: Path) -> None:
    """It needs neither a store nor a config."""
    store, file = tmp_path / "data" / "sealyard.db", tmp_path / "b.tar"
    sealyard("backup", str(file), "--config", str(config))
    record(store, "new")
    done = sealyard("restore", "--check", str(file))

    assert done.returncode == 0
    assert done.stdout.startswith(f"Backup {file} is intact, made at ")
    assert executions(store) == ["new", "old"]


def test_damaged_file_is_refused_in_one_sentence(sealyard: Command, config: Path, tmp_path: Path) -> None:
    """No traceback, and what to do."""
    file = tmp_path / "b.tar"
    file.write_bytes(b"x" * 2000)
    done = sealyard("restore", str(file), "--config", str(config))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {str(file)!r} is not a whole backup: it has no member where one should be. Use another one.\n"
    )


def test_backup_works_beside_a_running_gateway_and_restore_does_not(
    sealyard: Command, config: Path, tmp_path: Path
) -> None:
    """A real `sealyard serve` has the store open."""
    file = tmp_path / "b.tar"
    gateway = subprocess.Popen(
        [*warm.python("-m", "sealyard"), "serve", str(config), "--http", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert gateway.stderr is not None
    try:
        assert gateway.stderr.readline() != ""  # it serves
        made = sealyard("backup", str(file), "--config", str(config))
        refused = sealyard("restore", str(file), "--config", str(config))
    finally:
        gateway.terminate()
        gateway.communicate(timeout=60)
    store = str(tmp_path / "data" / "sealyard.db")

    assert made.returncode == 0
    assert (refused.returncode, refused.stderr) == (
        2,
        f"error: The store {store!r} cannot be replaced: a gateway has it open. Stop `sealyard serve` first.\n",
    )
    assert sealyard("restore", str(file), "--config", str(config)).returncode == 0


def test_missing_key_of_the_vault_is_named(sealyard: Command, config: Path, tmp_path: Path) -> None:
    """Values that were sealed elsewhere cannot be opened here; with the key taken along they can."""
    store = tmp_path / "data" / "sealyard.db"
    keys = KeyPlace("file", folder=store.parent).load()
    done = sealyard("run", "--config", str(config), "-c", "print('mail to ada@example.com')")
    assert done.returncode == 0
    bare, whole, elsewhere = tmp_path / "bare.tar", tmp_path / "whole.tar", tmp_path / "new" / "sealyard.db"
    sealyard("backup", str(bare), "--config", str(config))
    sealyard("backup", str(whole), "--config", str(config), "--with-keys")
    without = sealyard("restore", str(bare), "--store", str(elsewhere))
    with_keys = sealyard("restore", str(whole), "--store", str(elsewhere))

    assert without.stderr == (
        f"warning: Private values in it are sealed with the key {keys.current_id}, which is not here. Add it to"
        " vault.key beside the store, or to SEALYARD_VAULT_KEY: else no gateway can use the vault.\n"
    )
    assert with_keys.stderr == ""


def test_name_of_the_file_is_the_time_by_default(config: Path, tmp_path: Path) -> None:
    """In the current folder."""
    command = [sys.executable, "-m", "sealyard", "backup", "--config", str(config), "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    name = json.loads(done.stdout)["file"]

    assert [path.name for path in tmp_path.glob("sealyard-*.tar")] == [name]
