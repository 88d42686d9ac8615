"""Stores, archives, backups and keys that were made under the former name, opened under the present one."""

import fcntl
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests import warm
from tests.former import CARD, SIGNER, TOKEN, digests, unpack

from sealyard.errors import InvalidSkill, StoreError
from sealyard.privacy.vault import KeyPlace, Vault
from sealyard.skills.rehearsal import replayed_error
from sealyard.skills.sharing import load_folder, read_archive, read_folder
from sealyard.store import open_store, take_over
from sealyard.store.audit.log import AuditHead
from sealyard.store.audit.verification import verify_file, verify_store
from sealyard.store.backup.copies import check_backup, restore_backup, write_backup
from sealyard.values.access import AuditEntry


@pytest.fixture
def share(tmp_path: Path) -> Path:
    """The user's folder for data, in which the former program has its own."""
    unpack(tmp_path / "made", tmp_path)
    return tmp_path / ".local" / "share"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Everything else that the former program made."""
    unpack(tmp_path / "made")
    return tmp_path / "made"


def count(path: Path, table: str = "executions") -> int:
    """How many rows a table of a store has."""
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


OPEN = """
import asyncio, logging, sys
from pathlib import Path
from sealyard.store import open_store

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        print(len(await store.executions()))

logging.basicConfig(format="%(message)s")
asyncio.run(main())
"""


def start(path: Path, before: str = "") -> subprocess.Popen[str]:
    """Start a process that opens a store and prints how many executions it has."""
    return subprocess.Popen(
        [sys.executable, "-c", before + OPEN, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


async def test_data_is_copied_once_and_the_old_folder_stays(share: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first who opens the store has all of the old one, one line says so, and the old files are as they were."""
    new, before = share / "sealyard" / "sealyard.db", digests(share / "toolyard")

    for _ in range(2):
        async with open_store(new) as store:
            assert len(await store.executions()) == 6

    assert digests(share / "toolyard") == before
    names = ["sealyard.db", "sealyard.db.audit.key", "sealyard.db.skills.key", "vault.key"]
    assert sorted(each.name for each in new.parent.iterdir() if each.is_file()) == names
    assert {stat.S_IMODE((new.parent / name).stat().st_mode) for name in names} == {0o600}
    assert (new.parent / "vault.key").read_bytes() == before["vault.key"]
    assert [record.message for record in caplog.records] == [
        f"The data in {share / 'toolyard'} was copied to {share / 'sealyard'}. The old folder stays as a backup."
    ]


async def test_tokens_for_upstreams_come_along(share: Path) -> None:
    """Nobody has to log in again at an upstream."""
    (share / "toolyard" / "oauth").mkdir()
    (share / "toolyard" / "oauth" / "web-1.json").write_bytes(b"{}")

    async with open_store(share / "sealyard" / "sealyard.db"):
        pass

    copy = share / "sealyard" / "oauth" / "web-1.json"
    assert (copy.read_bytes(), stat.S_IMODE(copy.stat().st_mode)) == (b"{}", 0o600)


async def test_store_that_is_there_wins(share: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a store under each name nothing is copied."""
    new = share / "sealyard" / "sealyard.db"
    (share / "toolyard").rename(share / "away")
    async with open_store(new):
        pass
    (share / "away").rename(share / "toolyard")

    async with open_store(new) as store:
        assert await store.executions() == []
    assert caplog.records == []


async def test_other_paths_have_no_former_one(share: Path) -> None:
    """A store of another name, or in a folder of another name, is a new one."""
    for path in (share / "sealyard" / "other.db", share / "other" / "sealyard.db"):
        async with open_store(path) as store:
            assert await store.executions() == []


async def test_audit_log_goes_on_under_the_present_name(share: Path, made: Path) -> None:
    """Entries and a segment of both names are one chain, which a head that was kept from then proves too."""
    new = share / "sealyard" / "sealyard.db"
    async with open_store(new) as store:
        store.audit(AuditEntry(kind="gateway.start", principal="local"))
        await store.flush()
    head = msgspec.json.decode((made / "head.json").read_bytes(), type=AuditHead)

    found = verify_store(new, heads=[head])

    assert (found.problem, found.entries) == ("", count(share / "toolyard" / "toolyard.db", "audit") + 1)
    assert count(new, "audit_segments") == 1


async def test_changed_entry_of_the_former_name_is_found(share: Path) -> None:
    """That two labels are right does not make a wrong hash right."""
    new = share / "sealyard" / "sealyard.db"
    async with open_store(new):
        pass
    with closing(sqlite3.connect(new)) as connection:
        connection.execute("UPDATE audit SET principal = 'eve' WHERE number = 3")
        connection.commit()

    assert verify_store(new).problem == "Entry 3 was changed: its hash does not match its content and entry 2."


def test_exported_log_of_the_former_name_is_verified(made: Path) -> None:
    """The header is read under either name, and a change in the file is found."""
    file = made / "audit.jsonl"
    assert (verify_file(file).problem, verify_file(file).entries) == ("", 35)

    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], lines[4].replace(b"local", b"lokal", 1), *lines[5:]]))
    assert verify_file(file).problem != ""


async def test_sums_go_on_counting(share: Path) -> None:
    """Metrics have their history under their present names, and it is what the journal gives."""
    async with open_store(share / "sealyard" / "sealyard.db") as store:
        sums = await store.metrics.sums()
        assert (sums.value("sealyard_execution_total"), sums.value("sealyard_upstream_calls_total")) == (5, 3)
        assert (await store.metrics.rebuild(check=True)).differences == 0


async def test_errors_of_the_former_name_are_counted_under_the_present_one(share: Path) -> None:
    """The one error that is named for the product is the same error in facts, in sums and in recorded calls."""
    with closing(sqlite3.connect(share / "toolyard" / "toolyard.db")) as connection:
        for table, column in (("facts", "fact"), ("metric_sums", "labels")):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, 'ZeroDivision', 'Toolyard')")
        connection.commit()

    async with open_store(share / "sealyard" / "sealyard.db") as store:
        errors = (await store.metrics.sums()).by("sealyard_execution_errors_total", "error_type")
        assert errors == {"SealyardError": 1}
        assert (await store.metrics.rebuild(check=True)).differences == 0
    assert type(replayed_error("ToolyardError: no")).__name__ == "SealyardError"


async def test_private_values_are_still_known(share: Path) -> None:
    """A token that the former program gave out stands for the same value."""
    new = share / "sealyard" / "sealyard.db"
    async with open_store(new) as store:
        keys = KeyPlace("file", folder=new.parent).load()
        vault = Vault(keys, store.vault, expires_seconds=3600.0)
        assert [each.value for each in await vault.find(TOKEN)] == [CARD]


KEYRING = """
class errors: pass
kept = {}
def get_password(service, account): return kept.get((service, account))
def set_password(service, account, text): kept[service, account] = text
"""


@pytest.mark.parametrize(("place", "at"), [("data/toolyard", "data/sealyard"), ("data/own", "data/own")])
def test_key_in_the_keyring_is_found_until_another_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, at: str
) -> None:
    """Both when the data was copied from the old folder and when the store stayed where it is."""
    (tmp_path / "keyring").mkdir()
    (tmp_path / "keyring" / "__init__.py").write_text(KEYRING)
    (tmp_path / "keyring" / "errors.py").write_text("class KeyringError(Exception): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import keyring  # type: ignore[import-not-found,unused-ignore]

    secret = "q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k="
    keyring.kept["toolyard vault", str(tmp_path / place)] = secret
    folder = tmp_path / at
    folder.mkdir(parents=True)

    found = KeyPlace("keyring", folder=folder).load()
    with KeyPlace("keyring", folder=folder).rotate() as rotated:
        assert rotated.ids[1:] == found.ids

    assert KeyPlace("keyring", folder=folder).load().ids == (rotated.current_id,)
    assert keyring.kept["toolyard vault", str(tmp_path / place)] == secret


# A store at a path that the configuration names


async def test_store_at_a_configured_path_is_copied_before_it_changes(
    made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of it is beside it, one line says so, and the next start says nothing."""
    path = made / "data" / "toolyard.db"
    before = digests(made / "data")

    for _ in range(2):
        async with open_store(path) as store:
            assert (await store.metrics.sums()).value("sealyard_execution_total") == 5

    (kept,) = path.parent.glob("toolyard.db.before-sealyard-*")
    assert [record.message for record in caplog.records] == [
        f"The store {path} was made under the product's former name. A copy is in {kept}."
    ]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with closing(sqlite3.connect(kept)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)
        assert connection.execute("SELECT count(*) FROM metric_sums WHERE name LIKE 'toolyard%'").fetchone() == (120,)
    assert {name: content for name, content in digests(made / "data").items() if name.endswith("key")} == {
        name: content for name, content in before.items() if name.endswith("key")
    }


async def test_store_that_a_former_gateway_has_open_is_not_changed(made: Path) -> None:
    """It would go on counting under names that are gone; the person is told to stop it."""
    path = made / "data" / "toolyard.db"
    (made / "data" / "toolyard.db.d").mkdir()
    before = digests(made / "data")
    with (made / "data" / "toolyard.db.d" / "1234.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(StoreError) as failed:
            async with open_store(path):
                pass

    assert str(failed.value) == (
        f"The store {str(path)!r} is open in a gateway of the product's former name. Stop that gateway, then start"
        " again: the store is taken over then."
    )
    after = digests(made / "data")
    assert {name: after[name] for name in before} == before


# What can go wrong


def test_copy_is_of_one_moment_while_a_gateway_writes(share: Path) -> None:
    """What a transaction of the old gateway wrote is there wholly or not at all."""
    old, new = share / "toolyard" / "toolyard.db", share / "sealyard" / "sealyard.db"
    code = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("PRAGMA journal_mode = WAL")
number = 0
while True:
    number += 1
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO codes VALUES (?, zeroblob(20000))", (f"while copied {number}",))
    connection.execute("INSERT INTO upstreams VALUES (?, 'x')", (f"while copied {number}",))
    connection.execute("COMMIT")
    if number == 20:
        print("many", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(old)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "many\n"
        take_over(new)
        writer.kill()

    with closing(sqlite3.connect(new)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        codes, upstreams = (
            connection.execute(f"SELECT count(*) FROM {table} WHERE {column} LIKE 'while copied %'").fetchone()[0]
            for table, column in (("codes", "sha256"), ("upstreams", "upstream"))
        )
    assert codes == upstreams >= 20


def test_of_processes_that_start_at_once_one_copies(share: Path) -> None:
    """All wait for it and see the same store, and one line says so."""
    new = share / "sealyard" / "sealyard.db"

    ended = [process.communicate(timeout=60) for process in [start(new) for _ in range(4)]]

    assert [output for output, _ in ended] == ["6\n"] * 4
    assert sum(errors.count("was copied to") for _, errors in ended) == 1


KILLED = """
import os, signal, sys
left = int(sys.argv[2])

def hook(event, arguments):
    global left
    is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
    if is_write or event in ("os.rename", "os.mkdir", "os.rmdir", "sqlite3.connect"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

from sealyard.store.database import take_over
from pathlib import Path
sys.addaudithook(hook)
take_over(Path(sys.argv[1]))
"""


def test_death_at_any_step_leaves_nothing_that_is_taken_for_a_store(share: Path) -> None:
    """Killed at the first step, the second, and so on until it gets through; each start goes on from what is there."""
    new, before = share / "sealyard" / "sealyard.db", digests(share / "toolyard")
    steps, done = 0, -signal.SIGKILL
    while done == -signal.SIGKILL:
        steps += 1
        done = subprocess.run(
            [*warm.python("-c", KILLED), str(new), str(steps)], capture_output=True, timeout=60, check=False
        ).returncode
        if new.exists():
            assert verify_store(new).problem == ""

    assert (done, steps > 8) == (0, True)
    assert count(new) == 6
    assert [each.name for each in new.parent.iterdir() if each.name.startswith(".")] == []
    assert (new.parent / "vault.key").read_bytes() == before["vault.key"]
    assert digests(share / "toolyard") == before


def test_disk_without_room_leaves_no_store(share: Path) -> None:
    """The command fails and says why, instead of starting with nothing; with room the next one has everything."""
    new = share / "sealyard" / "sealyard.db"
    limited = f"import resource\nresource.setrlimit({resource.RLIMIT_FSIZE}, (100_000, 100_000))\n"
    full = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + limited

    _, errors = start(new, full).communicate(timeout=60)

    assert f"The data in {str(share / 'toolyard')!r} cannot be copied to {str(share / 'sealyard')!r}: " in errors
    assert list(new.parent.iterdir()) == []
    assert start(new).communicate(timeout=60)[0] == "6\n"


async def test_folder_that_cannot_be_looked_at_is_not_taken_for_none(share: Path) -> None:
    """A new store in its place would hide the old one for good."""
    (share / "toolyard").rename(share / "away")
    (share / "toolyard").symlink_to("toolyard")

    with pytest.raises(StoreError) as failed:
        async with open_store(share / "sealyard" / "sealyard.db"):
            pass

    assert str(failed.value) == (
        f"The data in {str(share / 'toolyard')!r} cannot be copied to {str(share / 'sealyard')!r}: Too many levels of"
        " symbolic links. Nothing was changed; make room and make both folders usable, or move the old one away to"
        " start with nothing."
    )
    assert not (share / "sealyard").exists()


async def test_damaged_store_is_not_copied(share: Path) -> None:
    """What is no database is named, and nothing is left in the new folder."""
    (share / "toolyard" / "toolyard.db").write_bytes(b"no database at all" * 1000)

    with pytest.raises(StoreError, match="file is not a database"):
        async with open_store(share / "sealyard" / "sealyard.db"):
            pass

    assert list((share / "sealyard").iterdir()) == []


async def test_key_that_is_there_already_is_not_replaced(share: Path) -> None:
    """Another key in the new folder may be all that opens some other store."""
    (share / "sealyard").mkdir()
    (share / "sealyard" / "vault.key").write_text("other")

    with pytest.raises(StoreError, match=r"vault\.key' is another key; move it away"):
        async with open_store(share / "sealyard" / "sealyard.db"):
            pass

    assert [each.name for each in (share / "sealyard").iterdir()] == ["vault.key"]
    assert (share / "sealyard" / "vault.key").read_text() == "other"


# Files that were handed on


def test_archive_of_the_former_name_is_read(made: Path) -> None:
    """Its manifest, its signature and its folder are understood."""
    found = read_archive(made / "skills.zip", trusted={"me": SIGNER})

    assert (found.signer, found.is_trusted) == ("me", True)
    skill = read_folder(found.folders[0].files)
    assert (skill.name, skill.form, skill.warnings) == ("count_large", "function", ())


def renamed(source: Path, names: dict[str, str]) -> Path:
    """A copy of an archive in which files have other names."""
    target = source.with_name("renamed.zip")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(names.get(name, name), old.read(name))
    return target


@pytest.mark.parametrize(
    "names",
    [
        {"toolyard-manifest.json": "sealyard-manifest.json", "toolyard-manifest.sig": "sealyard-manifest.sig"},
        {"toolyard-manifest.json": "sealyard-manifest.json"},
        {"toolyard-manifest.sig": "sealyard-manifest.sig"},
    ],
)
def test_names_of_an_archive_are_not_mixed(made: Path, names: dict[str, str]) -> None:
    """A signature is of the manifest of its own name."""
    with pytest.raises(InvalidSkill):
        read_archive(renamed(made / "skills.zip", names), trusted={"me": SIGNER})


def test_folder_of_the_former_name_is_read(made: Path) -> None:
    """It is known as an export of ours: its schemas and its examples count."""
    found = read_folder(load_folder(made / "folder" / "count-large"))

    assert (found.form, len(found.examples), found.warnings) == ("function", 1, ())


async def test_backup_of_the_former_name_is_restored(made: Path, tmp_path: Path) -> None:
    """It is checked, put in place and taken over when it is opened; a new one has the present name alone."""
    path = tmp_path / "place" / "store.db"
    assert check_backup(made / "store.tar").problem == ""

    restore_backup(made / "store.tar", path)

    async with open_store(path) as store:
        assert (await store.metrics.sums()).value("sealyard_execution_total") == 5
    assert verify_store(path).problem == ""
    write_backup(path, tmp_path / "again.tar", with_keys=True)
    assert b"toolyard_backup" not in (tmp_path / "again.tar").read_bytes()


def test_backup_takes_over_first(share: Path, tmp_path: Path) -> None:
    """Whoever only backs up gets what the old store holds."""
    found = write_backup(share / "sealyard" / "sealyard.db", tmp_path / "store.tar")

    assert found.manifest.rows["executions"] == 6
