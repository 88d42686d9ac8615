"""Backups: what comes back is what was there, whatever is wrong with the file, and the old store is never lost."""

import asyncio
import contextlib
import hashlib
import io
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import warm
from tests.full_disk import room

from sealyard import disk
from sealyard.errors import InvalidRequest, StoreError
from sealyard.privacy.vault import KeyPlace
from sealyard.store import gateways, open_store
from sealyard.store.audit.log import key_path
from sealyard.store.audit.verification import verify_store
from sealyard.store.backup.copies import check_backup, restore_backup, write_backup
from sealyard.store.database import MIGRATIONS
from sealyard.values.access import AuditEntry
from sealyard.values.runs import CallRecord, ExecutionRecord

ROOT = Path(__file__).parents[4]

Members = dict[str, tuple[tarfile.TarInfo, bytes]]


def fill(path: Path, *names: str) -> None:
    """A store with an execution, a call and an audit entry for each name."""

    async def write() -> None:
        async with open_store(path) as store:
            for name in names:
                store.record_start(
                    ExecutionRecord(
                        execution_id=name, principal="ada", session="s", code=name, started_at=1.0, status="ok"
                    )
                )
                store.record_call(
                    CallRecord(
                        execution_id=name, number=1, tool="t", digest="d", arguments={}, started_at=1.0, seconds=1.0
                    )
                )
                store.audit(AuditEntry(kind="call", principal="ada", execution_id=name))

    asyncio.run(write())


def names(path: Path) -> list[str]:
    """The executions that a store holds, as a gateway sees them."""

    async def read() -> list[str]:
        async with open_store(path) as store:
            return sorted(each.execution_id for each in await store.executions())

    return asyncio.run(read())


def members(file: Path) -> Members:
    """What is in a backup."""
    with tarfile.open(file, "r:") as archive:
        return {each.name: (each, archive.extractfile(each).read()) for each in archive}  # type: ignore[union-attr]


def rewrite(file: Path, found: Members, *, with_digests: bool = True) -> Path:
    """The backup as an attacker makes it who can write tar files: by default with digests that fit."""
    if with_digests and "manifest.json" in found:
        header, text = found["manifest.json"]
        manifest = msgspec.json.decode(text)
        for name, (_, content) in found.items():
            if name in manifest["files"]:
                sha256 = hashlib.sha256(content).hexdigest()
                manifest["files"][name] = {"bytes": len(content), "sha256": sha256}
        found = {**found, "manifest.json": (header, msgspec.json.encode(manifest))}
    changed = file.with_name("changed.tar")
    with tarfile.open(changed, "w:", format=tarfile.GNU_FORMAT) as archive:
        for header, content in found.values():
            header.size = len(content) if header.isreg() else 0
            archive.addfile(header, io.BytesIO(content))
    return changed


def edited(content: bytes, folder: Path, statement: str) -> bytes:
    """A database after somebody has worked on it."""
    copy = folder / "edited.db"
    copy.write_bytes(content)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.executescript(statement)
    return copy.read_bytes()


def refused(file: Path, store: Path, **options: Any) -> str:
    """What restoring says, after which the store is as it was and nothing is left behind."""
    before = sorted(path.name for path in store.parent.iterdir())
    with pytest.raises((InvalidRequest, StoreError)) as caught:
        restore_backup(file, store, **options)

    assert names(store) == ["new"]
    assert sorted(path.name for path in store.parent.iterdir()) == before
    assert list(store.with_name(f"{store.name}.d").glob("restoring-*")) == []
    return str(caught.value)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of a store's own."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def store(place: Path) -> Path:
    """A store that holds `new`, in the place of which the backup is put."""
    path = place / "sealyard.db"
    fill(path, "new")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A backup of another store that holds `a` and `b`."""
    path = tmp_path / "other" / "other.db"
    fill(path, "a", "b")
    output = tmp_path / "backup.tar"
    write_backup(path, output)
    return output


# The good case


def test_backup_brings_everything_back(file: Path, store: Path) -> None:
    """Executions, calls, the audit log and its key; what was there is kept whole."""
    done = restore_backup(file, store)

    assert names(store) == ["a", "b"]
    assert verify_store(store).problem == ""
    assert verify_store(store).entries == 2
    kept = Path(done.replaced or "")
    assert names(kept / store.name) == ["new"]
    assert verify_store(kept / store.name).problem == ""
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


def test_backup_is_for_its_owner_alone(file: Path) -> None:
    """It holds code, answers and a key that signs."""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(members(file)) == ["manifest.json", "store.db", "store.db.audit.key"]


def test_manifest_says_what_is_in_it(file: Path) -> None:
    """Any tar program can read it."""
    found = msgspec.json.decode(members(file)["manifest.json"][1])

    assert found["schema"] == len(MIGRATIONS)
    assert found["rows"] == {"executions": 2, "calls": 2, "skills": 0, "audit": 2, "facts": 0}
    assert found["files"]["store.db"]["bytes"] == len(members(file)["store.db"][1])


def test_restore_makes_a_store_where_there_is_none(file: Path, tmp_path: Path) -> None:
    """On a new machine."""
    path = tmp_path / "fresh" / "deep" / "sealyard.db"
    done = restore_backup(file, path)

    assert (names(path), done.replaced) == (["a", "b"], None)
    assert list(path.parent.glob("*replaced*")) == []


async def test_backup_is_of_one_moment_while_a_gateway_writes(tmp_path: Path) -> None:
    """Its write-ahead log is in it; what comes later is not."""
    path = tmp_path / "sealyard.db"
    async with open_store(path) as store:
        store.audit(AuditEntry(kind="call", principal="ada"))
        await store.flush()

        def write_more(what: str, done: int, total: int) -> None:
            if what == "copying":
                fill(path, f"later{done}")

        done = await asyncio.to_thread(write_backup, path, tmp_path / "b.tar", on_progress=write_more)
        assert done.problem == ""
        assert done.manifest.rows["audit"] == 1
        assert done.manifest.rows["executions"] == 0


def test_second_restore_keeps_both(file: Path, store: Path) -> None:
    """Nothing that was kept is overwritten."""
    first = restore_backup(file, store).replaced
    second = restore_backup(file, store).replaced

    assert names(Path(first or "") / store.name) == ["new"]
    assert names(Path(second or "") / store.name) == ["a", "b"]


def test_write_ahead_log_of_the_old_store_never_meets_the_new_database(file: Path, store: Path) -> None:
    """A gateway that was killed leaves one; SQLite would add it to whatever database lies beside it."""
    code = f"""
    import asyncio, os, signal
    from pathlib import Path
    from sealyard.store import open_store
    from sealyard.values.runs import ExecutionRecord
    async def main():
        async with open_store(Path({str(store)!r})) as store:
            run = {{"execution_id": "late", "principal": "p", "session": "s", "code": "", "started_at": 2.0}}
            store.record_start(ExecutionRecord(**run, status="ok"))
            await store.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    asyncio.run(main())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=30)
    assert store.with_name(f"{store.name}-wal").stat().st_size > 0

    done = restore_backup(file, store)

    assert names(store) == ["a", "b"]
    assert names(Path(done.replaced or "") / store.name) == ["late", "new"]


def test_older_schema_is_brought_up_to_date(file: Path, store: Path, tmp_path: Path) -> None:
    """A backup of an older sealyard is as good as one of today."""
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as connection:
        for number, migration in enumerate(MIGRATIONS[:4], 1):
            connection.executescript(
                f"{migration}; PRAGMA application_id = {0x79617264}; PRAGMA user_version = {number};"
            )
    write_backup(old, tmp_path / "old.tar")
    restore_backup(tmp_path / "old.tar", store)

    assert names(store) == []


def test_keys_of_the_vault_are_taken_only_when_asked_for(tmp_path: Path, store: Path) -> None:
    """And they are added to those that are there: no value of either store is lost."""
    path = tmp_path / "other" / "other.db"
    fill(path, "a")
    theirs = KeyPlace("file", folder=path.parent).load()
    ours = KeyPlace("file", folder=store.parent).load()
    write_backup(path, tmp_path / "without.tar")
    write_backup(path, tmp_path / "with.tar", with_keys=True)
    assert "vault.key" not in members(tmp_path / "without.tar")

    restore_backup(tmp_path / "without.tar", store)
    assert KeyPlace("file", folder=store.parent).find().ids == ours.ids  # type: ignore[union-attr]
    restore_backup(tmp_path / "with.tar", store)
    both = KeyPlace("file", folder=store.parent).find()

    assert both is not None
    assert both.ids == (theirs.current_id, ours.current_id)
    assert stat.S_IMODE((store.parent / "vault.key").stat().st_mode) == 0o600


def test_no_key_to_take_along_is_said(tmp_path: Path, store: Path) -> None:
    """It may be in the environment: then it is not ours to copy."""
    with pytest.raises(InvalidRequest, match=r"no vault\.key beside the store"):
        write_backup(store, tmp_path / "b.tar", with_keys=True)
    assert list(tmp_path.glob("*b.tar*")) == []


def test_existing_file_is_not_overwritten(tmp_path: Path, store: Path) -> None:
    """It may be the last good backup."""
    output = tmp_path / "b.tar"
    output.write_text("precious", encoding="utf-8")
    with pytest.raises(InvalidRequest) as caught:
        write_backup(store, output)

    assert str(caught.value) == f"{str(output)!r} exists already. Name another file."
    assert output.read_text(encoding="utf-8") == "precious"


# Files that were changed


@pytest.mark.behaviour("store.backup")
@pytest.mark.parametrize("name", ["store.db", "store.db.audit.key"])
@pytest.mark.parametrize("where", [0, -1, 100])
def test_changed_member_is_refused(file: Path, store: Path, name: str, where: int) -> None:
    """One bit of any member is enough."""
    found = members(file)
    header, content = found[name]
    content = bytearray(content)
    content[where] ^= 1
    changed = rewrite(file, {**found, name: (header, bytes(content))}, with_digests=False)

    expected = f"{str(changed)!r} is not a whole backup: the content of {name!r} is not what the manifest says."
    assert refused(changed, store) == f"{expected} Use another one."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (b"{}", "its manifest cannot be read"),
        (b"not json", "its manifest cannot be read"),
        (
            b'{"sealyard_backup": 2, "sealyard": "9", "created_at": 1.0, "schema": 5, "rows": {}, "files": {}}',
            "version 2",
        ),
        (b'{"sealyard": "9", "created_at": 1.0, "schema": 5, "rows": {}, "files": {}}', "names nothing"),
        (
            b'{"sealyard": "9", "created_at": 1.0, "schema": 5, "rows": {}, "files":'
            b' {"store.db": {"bytes": 1, "sha256": ""}, "../../etc/cron.d/x": {"bytes": 1, "sha256": ""}}}',
            "its manifest names 'store.db', '../../etc/cron.d/x'",
        ),
    ],
)
def test_changed_manifest_is_refused(file: Path, store: Path, change: bytes, words: str) -> None:
    """Whatever it says."""
    found = members(file)
    found["manifest.json"] = (found["manifest.json"][0], change)

    assert words in refused(rewrite(file, found, with_digests=False), store)


def _named(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(header, field, value)
    return header, b"x"


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (_named("../escaped"), "a member '../escaped', which no backup has"),
        (_named("/etc/cron.d/escaped"), "a member '/etc/cron.d/escaped', which no backup has"),
        (_named("vault.key", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "'vault.key' is not a regular file"),
        (_named("vault.key", type=tarfile.LNKTYPE, linkname="store.db"), "'vault.key' is not a regular file"),
        (_named("vault.key", type=tarfile.FIFOTYPE), "'vault.key' is not a regular file"),
        (_named("vault.key", type=tarfile.DIRTYPE), "'vault.key' is not a regular file"),
        (_named("vault.key", type=tarfile.CHRTYPE), "'vault.key' is not a regular file"),
        (_named("vault.key", type=tarfile.GNUTYPE_SPARSE), "'vault.key' is not a regular file"),
        (_named("vault.key", type=tarfile.XHDTYPE), "is not a regular file"),
        (_named("n" * 300), "is not a regular file"),
        (_named("store.db"), "it has 'store.db' of 1 bytes where 'store.db' of"),
    ],
)
@pytest.mark.parametrize("position", [1, 2])
def test_foreign_member_is_refused(
    file: Path, store: Path, member: tuple[tarfile.TarInfo, bytes], words: str, position: int
) -> None:
    """Paths that lead out, links, devices, sparse files and extended headers have no place in a backup."""
    found = list(members(file).items())
    found.insert(position, ("foreign", member))
    if position == 2 and member[0].name == "store.db":
        words = "it has 'store.db' of 1 bytes where 'store.db.audit.key' of"
    assert words in refused(rewrite(file, dict(found)), store)
    assert not (store.parent.parent / "escaped").exists()


def test_something_after_the_end_is_refused(file: Path, store: Path) -> None:
    """Such as a second archive."""
    with file.open("ab") as archive:
        archive.write(b"x")

    assert "something follows its last member" in refused(file, store)


def test_bomb_is_refused_before_a_byte_of_it_is_written(
    file: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that says it is larger than the disk, and a manifest of a gigabyte."""
    found = members(file)
    header = found["store.db"][0]
    header.size = 1 << 60
    manifest = msgspec.json.decode(found["manifest.json"][1])
    manifest["files"]["store.db"]["bytes"] = 1 << 60
    text = msgspec.json.encode(manifest)
    first = tarfile.TarInfo("manifest.json")
    first.size = len(text)
    padded = text + bytes(-len(text) % 512)
    bomb = file.with_name("bomb.tar")
    bomb.write_bytes(first.tobuf(tarfile.GNU_FORMAT) + padded + header.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    assert f"The backup takes {(1 << 60) + manifest['files']['store.db.audit.key']['bytes']:,} bytes" in refused(
        bomb, store
    )

    first.size = 1 << 30
    bomb.write_bytes(first.tobuf(tarfile.GNU_FORMAT))
    os.truncate(bomb, (1 << 30) + 512)  # sparse: it takes no room here
    assert "its member 'manifest.json' has 1073741824 bytes" in refused(bomb, store)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_compressed_file_is_refused(file: Path, store: Path, kind: str) -> None:
    """Nothing is ever inflated."""
    packed = file.with_name("packed.tar")
    with tarfile.open(packed, f"w:{kind}") as archive:
        archive.add(file, "backup.tar")

    assert "is not a whole backup" in refused(packed, store)


@pytest.mark.behaviour("store.backup")
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_cut_file_is_refused(file: Path, store: Path, share: float) -> None:
    """A copy that was interrupted."""
    os.truncate(file, int(file.stat().st_size * share))

    assert "it is cut off" in refused(file, store)


def test_what_is_no_file_is_refused(place: Path, store: Path, tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes into, a name that does not exist."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert (
        refused(tmp_path, store)
        == f"{str(tmp_path)!r} is not a whole backup: it is not a regular file. Use another one."
    )
    assert "it is not a regular file" in refused(pipe, store)
    assert "it cannot be read (No such file or directory)" in refused(tmp_path / "none", store)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE audit SET principal = 'eve' WHERE number = 1", "the audit log in"),
        ("DELETE FROM audit WHERE number = 2", "the audit log in"),
        ("UPDATE codes SET code = 'evil'", "the audit log in"),
        ("CREATE TRIGGER evil AFTER INSERT ON calls BEGIN DELETE FROM audit; END", "are not as sealyard makes them"),
        ("DROP TABLE skills; CREATE VIEW skills AS SELECT 1 AS number", "are not as sealyard makes them"),
        ("CREATE TABLE more (x)", "are not as sealyard makes them"),
        ("ALTER TABLE calls ADD COLUMN evil TEXT", "are not as sealyard makes them"),
        ("PRAGMA user_version = 99", "its database has schema 99"),
        ("PRAGMA user_version = 0", "its database has schema 0"),
        ("PRAGMA application_id = 7", "its database is not one of sealyard"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM codes WHERE code = x'61'", "rows are missing in its database"),
    ],
)
def test_changed_database_with_digests_that_fit_is_refused(
    file: Path, store: Path, tmp_path: Path, statement: str, words: str
) -> None:
    """Who can make a tar file can make its digests: what is inside is looked at too."""
    if words == "the audit log in" and "codes" in statement:
        fill_audited(tmp_path / "audited.db")
        file.unlink()
        write_backup(tmp_path / "audited.db", file)
    found = members(file)
    header, content = found["store.db"]
    changed = rewrite(file, {**found, "store.db": (header, edited(content, tmp_path, statement))})

    assert words in refused(changed, store)


def fill_audited(path: Path) -> None:
    """A store whose audit log names its code."""
    fill(path, "a")

    async def write() -> None:
        async with open_store(path) as store:
            body = {"code_sha256": hashlib.sha256(b"a").hexdigest()}
            store.audit(AuditEntry(kind="execution.start", principal="ada", execution_id="a", body=body))

    asyncio.run(write())


def test_damaged_page_with_digests_that_fit_is_refused(file: Path, store: Path) -> None:
    """The whole database is read before it is trusted."""
    found = members(file)
    header, content = found["store.db"]
    damaged = bytearray(content)
    damaged[4096 * 3 : 4096 * 5] = os.urandom(8192)

    assert "its database" in refused(rewrite(file, {**found, "store.db": (header, bytes(damaged))}), store)


def test_other_audit_key_is_refused(file: Path, store: Path, tmp_path: Path) -> None:
    """An attacker's own key signs nothing of this log; no key proves nothing."""
    fill(tmp_path / "mine" / "mine.db", "x")
    found = members(file)
    header, _ = found["store.db.audit.key"]
    other = key_path(tmp_path / "mine" / "mine.db").read_bytes()
    assert "the audit log in" in refused(rewrite(file, {**found, "store.db.audit.key": (header, other)}), store)
    assert "its audit log cannot be verified" in refused(
        rewrite(file, {**found, "store.db.audit.key": (header, b"no key")}), store
    )

    manifest = msgspec.json.decode(found["manifest.json"][1])
    del manifest["files"]["store.db.audit.key"], found["store.db.audit.key"]
    found["manifest.json"] = (found["manifest.json"][0], msgspec.json.encode(manifest))
    assert "its audit log cannot be verified" in refused(rewrite(file, found), store)


def test_force_takes_a_wrong_audit_log_and_nothing_else(file: Path, store: Path, tmp_path: Path) -> None:
    """A store whose log was broken before can be brought back as evidence; a damaged one cannot."""
    found = members(file)
    header, content = found["store.db"]
    changed = edited(content, tmp_path, "UPDATE audit SET principal = 'eve' WHERE number = 1")
    rewritten = rewrite(file, {**found, "store.db": (header, changed)})
    assert check_backup(rewritten).problem != ""

    done = restore_backup(rewritten, store, force=True)
    assert (done.backup.problem != "", verify_store(store).problem != "") == (True, True)
    with pytest.raises(InvalidRequest):
        restore_backup(tmp_path / "none", store, force=True)


def test_backup_of_a_broken_log_is_made_and_says_so(store: Path, tmp_path: Path) -> None:
    """It is needed as evidence."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE audit SET principal = 'eve'")

    assert "Entry 1" in write_backup(store, tmp_path / "b.tar").problem


def test_other_file_than_the_one_that_was_made_is_refused(file: Path, store: Path, tmp_path: Path) -> None:
    """A backup in which all fits is still not the one whose digest was kept."""
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    fill(tmp_path / "mine" / "mine.db", "x")
    write_backup(tmp_path / "mine" / "mine.db", tmp_path / "mine.tar")
    assert check_backup(file).sha256 == sha256
    assert "not the one that was given" in refused(tmp_path / "mine.tar", store, sha256=sha256)

    restore_backup(file, store, sha256=sha256.upper())
    assert names(store) == ["a", "b"]


def test_damaged_store_is_not_backed_up(store: Path, tmp_path: Path) -> None:
    """A backup that cannot be restored is none."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(store.read_bytes())
    content[4096 * 3 : 4096 * 5] = os.urandom(8192)
    store.write_bytes(content)
    with pytest.raises(StoreError, match="is not backed up: its database"):
        write_backup(store, tmp_path / "b.tar")
    assert list(tmp_path.glob("*b.tar*")) == []


# What goes wrong on the way


async def test_restore_over_a_running_gateway_is_refused(file: Path, store: Path) -> None:
    """And a gateway that starts during a restore waits for it."""
    async with open_store(store):
        with pytest.raises(StoreError) as caught:
            await asyncio.to_thread(restore_backup, file, store)
    assert str(caught.value) == (
        f"The store {str(store)!r} cannot be replaced: a gateway has it open. Stop `sealyard serve` first."
    )

    opened: list[asyncio.Task[list[str]]] = []
    loop = asyncio.get_running_loop()

    async def read() -> list[str]:
        async with open_store(store) as late:
            return sorted(each.execution_id for each in await late.executions())

    def begin(what: str, done: int, total: int) -> None:
        if what == "checking" and not opened:
            asyncio.run_coroutine_threadsafe(start(), loop).result()

    async def start() -> None:
        opened.append(asyncio.create_task(read()))

    await asyncio.to_thread(restore_backup, file, store, on_progress=begin)
    assert await opened[0] == ["a", "b"]


@pytest.mark.parametrize("size_bytes", [0, 1024, 200_000])
def test_full_disk_leaves_the_store_as_it_was(file: Path, store: Path, size_bytes: int) -> None:
    """Whenever it is full."""
    with room(size_bytes), pytest.raises((StoreError, InvalidRequest)):
        restore_backup(file, store)

    assert names(store) == ["new"]
    assert verify_store(store).problem == ""
    restore_backup(file, store)
    assert names(store) == ["a", "b"]


@pytest.mark.parametrize("size_bytes", [0, 1024, 200_000])
def test_full_disk_makes_no_backup(store: Path, tmp_path: Path, size_bytes: int) -> None:
    """There is a whole one or none."""
    with room(size_bytes), pytest.raises(StoreError):
        write_backup(store, tmp_path / "b.tar")

    assert list(tmp_path.glob("*b.tar*")) == []
    assert names(store) == ["new"]


def _fail_at(number: int, how: Callable[[], None], patch: pytest.MonkeyPatch) -> list[str]:
    """Make the Nth step of replacing files go wrong. What was done before is in the list."""
    done: list[str] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            done.append(name)
            if len(done) == number:
                how()
            return function(*arguments, **options)

        return step

    for name in ("rename", "unlink"):
        patch.setattr(Path, name, counted(name, getattr(Path, name)))
    for module in (disk, gateways):
        patch.setattr(module, "sync_path", counted("sync", module.sync_path))
    return done


def test_failure_at_any_step_puts_the_old_store_back(
    file: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a failure of the very last step, when it is done already, leaves the new one."""

    def fail() -> None:
        monkeypatch.undo()
        raise OSError(5, "Input/output error", "x")

    seen = []
    for number in range(1, 30):
        folder = tmp_path / f"fail{number}"
        shutil.copytree(store.parent, folder)
        path = folder / store.name
        done = _fail_at(number, fail, monkeypatch)
        with contextlib.suppress(StoreError):
            restore_backup(file, path)
        monkeypatch.undo()
        seen.append(names(path))
        assert verify_store(path).problem == ""
        kept = list(folder.glob("*replaced*"))
        assert [names(each / store.name) for each in kept] == ([["new"]] if seen[-1] == ["a", "b"] else [])
        if len(done) < number:
            break

    assert len(seen) > 8
    assert seen == [["new"]] * (len(seen) - 2) + [["a", "b"]] * 2


KILLED = """
import os, signal, sys
from pathlib import Path
import pytest
from tests.unit.store.backup.test_backup import _fail_at
from sealyard.store.backup.copies import restore_backup
_fail_at(int(sys.argv[3]), lambda: os.kill(os.getpid(), signal.SIGKILL), pytest.MonkeyPatch())
restore_backup(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_kill_at_any_step_loses_nothing(file: Path, store: Path, tmp_path: Path) -> None:
    """The next who opens the store finds the old one or the new one, whole, with its own audit log and key."""
    seen = set()
    for number in range(1, 30):
        folder = tmp_path / f"kill{number}"
        shutil.copytree(store.parent, folder)
        path = folder / store.name
        ended = subprocess.run(
            [*warm.python("-c", KILLED), str(file), str(path), str(number)], cwd=ROOT, check=False, timeout=30
        ).returncode
        found = names(path)
        assert verify_store(path).problem == ""
        assert not (folder / f"{store.name}.d" / "replacing").exists()
        seen.add((ended, tuple(found)))
        if found == ["a", "b"]:
            (kept,) = (each for each in folder.glob("*replaced*") if any(each.iterdir()))
            assert names(kept / store.name) == ["new"]
        else:
            assert found == ["new"]
            assert [list(each.iterdir()) for each in folder.glob("*replaced*")] in ([], [[]])
        restore_backup(file, path)  # and it can be done again
        assert names(path) == ["a", "b"]
        if ended == 0:
            break

    assert seen == {(-signal.SIGKILL, ("new",)), (-signal.SIGKILL, ("a", "b")), (0, ("a", "b"))}


def test_what_a_killed_restore_unpacked_is_removed(file: Path, store: Path) -> None:
    """It holds everything that the backup holds."""
    left = store.with_name(f"{store.name}.d") / "restoring-x"
    left.mkdir()
    (left / "store.db").write_bytes(b"secret")
    restore_backup(file, store)

    assert not left.exists()
