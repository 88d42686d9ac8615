"""Attacks on the audit log by somebody who can write the database, but does not have the key."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealyard.errors import InvalidRequest, StoreError
from sealyard.signing import Ed25519Key
from sealyard.store import Store, open_store
from sealyard.store.audit import log as audit
from sealyard.store.audit.log import AuditHead, key_path, open_log
from sealyard.store.audit.verification import export_audit, verify_file, verify_store
from sealyard.values.access import AuditEntry
from sealyard.values.runs import ExecutionRecord

CODE = "pay(amount=5)"
CODE_SHA256 = hashlib.sha256(CODE.encode()).hexdigest()
CHANGED = "The audit log of the store {!r} was changed by somebody else, or its key was: nothing is recorded any more. Run `sealyard audit verify`, and keep a copy of the store as evidence."  # noqa: E501

Attack = Callable[[sqlite3.Connection], object]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a store may be made, with segments of three entries."""
    monkeypatch.setattr(audit, "SEGMENT_ENTRIES", 3)
    return tmp_path / "store.db"


async def record(path: Path, count: int) -> None:
    """So many entries on disk; the first names code."""
    async with open_store(path) as store:
        store.record_start(
            ExecutionRecord(execution_id="e1", principal="ada", session="main", code=CODE, started_at=1.0, status="ok")
        )
        for number in range(count):
            kind, body = ("call", {"amount": number}) if number else ("execution.start", {"code_sha256": CODE_SHA256})
            store.audit(AuditEntry(kind=kind, principal="ada", session="main", execution_id="e1", body=body))


def attack(path: Path, what: Attack) -> None:
    """What somebody with a database shell does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        what(connection)


def sql(*statements: str) -> Attack:
    """Statements, one after the other."""
    return lambda connection: [connection.execute(statement) for statement in statements]


def chained(previous: str, fields: list[Any]) -> str:
    """The hash that an entry should have: the form is no secret."""
    text = json.dumps(["sealyard audit entry", previous, *fields], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def make_anew(connection: sqlite3.Connection, *, key: Ed25519Key | None = None) -> None:
    """Recompute every hash, every segment and the head, and sign with a key of one's own, if there is one."""
    previous = "0" * 64
    hashes = {0: previous}
    for *fields, _ in connection.execute("SELECT * FROM audit ORDER BY number").fetchall():
        previous = hashes[fields[0]] = chained(previous, fields)
        connection.execute("UPDATE audit SET hash = ? WHERE number = ?", (previous, fields[0]))
    for segment in audit.read_segments(connection):
        values = {"previous_hash": hashes[segment.first_number - 1], "last_hash": hashes[segment.last_number]}
        connection.execute(
            "UPDATE audit_segments SET previous_hash = :previous_hash, last_hash = :last_hash WHERE segment = :segment",
            values | {"segment": segment.segment},
        )
        if key is not None:
            row = next(each for each in audit.read_segments(connection) if each.segment == segment.segment)
            audit._write_segment(connection, row, key)
    number = max(hashes)
    connection.execute("UPDATE audit_head SET number = ?, hash = ?", (number, previous))
    if key is not None:
        audit._write_head(connection, number, previous, key)


def change_and_hash(connection: sqlite3.Connection) -> None:
    """Change entry 5 and give it the hash that fits."""
    connection.execute("UPDATE audit SET body = '{}' WHERE number = 5")
    before = connection.execute("SELECT hash FROM audit WHERE number = 4").fetchone()[0]
    *fields, _ = connection.execute("SELECT * FROM audit WHERE number = 5").fetchone()
    connection.execute("UPDATE audit SET hash = ? WHERE number = 5", (chained(before, fields),))


def append(connection: sqlite3.Connection) -> None:
    """Add an entry whose hash fits."""
    previous = connection.execute("SELECT hash FROM audit WHERE number = 10").fetchone()[0]
    fields = [11, 4, 5, "call", "eve", "", "", "{}"]
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*fields, chained(previous, fields)))


def insert_in_the_middle(connection: sqlite3.Connection) -> None:
    """Move all that follows by one, and make everything anew."""
    for number in range(10, 4, -1):
        connection.execute("UPDATE audit SET number = number + 1 WHERE number = ?", (number,))
    connection.execute("INSERT INTO audit VALUES (5, 2, 5, 'call', 'eve', '', '', '{}', '')")
    make_anew(connection)


def forge(connection: sqlite3.Connection) -> None:
    """Change an entry, make everything anew and sign it with a key of one's own."""
    connection.execute("UPDATE audit SET principal = 'eve' WHERE number = 5")
    make_anew(connection, key=Ed25519Key(Ed25519PrivateKey.generate()))


WRONG_5 = "Entry 5 was changed: its hash does not match its content and entry 4."
NEVER_5 = "Entry 5 is wrong: it holds values that sealyard never writes."
ROW_1, ROW_2 = "The row of segment 1 was changed.", "The row of segment 2 was changed."
NOT_SIGNED = "The signed head, of entry {}, is not signed by the key of this log."
EMPTY = (
    "Entry 1 is missing: the log is empty though it has a key. It was emptied, unless the first gateway that used this"
    " store was killed before it wrote anything."
)
TABLES = "The tables of the log are not as sealyard made them."

ATTACKS: dict[str, tuple[Attack, int | None, str]] = {
    "body changed": (sql("""UPDATE audit SET body = '{"amount":1}' WHERE number = 5"""), 5, WRONG_5),
    "space in a body": (sql("""UPDATE audit SET body = '{"amount": 4}' WHERE number = 5"""), 5, WRONG_5),
    "kind changed": (sql("UPDATE audit SET kind = 'decision' WHERE number = 5"), 5, WRONG_5),
    "principal changed": (sql("UPDATE audit SET principal = 'eve' WHERE number = 5"), 5, WRONG_5),
    "session changed": (sql("UPDATE audit SET session = '' WHERE number = 5"), 5, WRONG_5),
    "execution changed": (sql("UPDATE audit SET execution_id = '' WHERE number = 5"), 5, WRONG_5),
    "text moved to another field": (
        sql("UPDATE audit SET principal = 'adamain', session = '' WHERE number = 5"),
        5,
        WRONG_5,
    ),
    "time changed": (sql("UPDATE audit SET at_microseconds = at_microseconds + 1 WHERE number = 5"), 5, WRONG_5),
    "segment changed": (
        sql("UPDATE audit SET segment = 3 WHERE number = 5"),
        5,
        "Entry 5 is wrong: it says segment 3 and stands in 2.",
    ),
    "hash changed": (sql("UPDATE audit SET hash = upper(hash) WHERE number = 5"), 5, WRONG_5),
    "first entry changed": (
        sql("UPDATE audit SET body = '{}' WHERE number = 1"),
        1,
        "Entry 1 was changed: its hash does not match its content.",
    ),
    "entry and its hash changed": (
        change_and_hash,
        6,
        "Entry 6 was changed: its hash does not match its content and entry 5.",
    ),
    "removed in the middle": (
        sql("DELETE FROM audit WHERE number = 5"),
        5,
        "Entry 5 is missing: the next one is 6.",
    ),
    "removed and renumbered": (
        sql("DELETE FROM audit WHERE number = 5", "UPDATE audit SET number = number - 1 WHERE number > 5"),
        5,
        WRONG_5,
    ),
    "first removed": (sql("DELETE FROM audit WHERE number = 1"), 1, "Entry 1 is missing: the next one is 2."),
    "removed at the end": (
        sql("DELETE FROM audit WHERE number = 10"),
        10,
        "Entry 10 is missing: the signed head is of entry 10.",
    ),
    "removed at the end with its segment": (
        sql("DELETE FROM audit WHERE number > 8"),
        9,
        "Entry 9 is missing: segment 3 is cut.",
    ),
    "removed at the end, and the head set back": (
        sql(
            "DELETE FROM audit WHERE number = 10",
            "UPDATE audit_head SET number = 9, hash = (SELECT hash FROM audit WHERE number = 9)",
        ),
        9,
        NOT_SIGNED.format(9),
    ),
    "reordered": (
        sql(
            "UPDATE audit SET number = 50 WHERE number = 5",
            "UPDATE audit SET number = 5 WHERE number = 6",
            "UPDATE audit SET number = 6 WHERE number = 50",
        ),
        5,
        WRONG_5,
    ),
    "appended": (append, 11, "Entry 11 was inserted: the signed head is of the one before."),
    "put before the first": (
        sql("INSERT INTO audit VALUES (0, 1, 5, 'call', 'eve', '', '', '{}', '')"),
        0,
        "Entry 0 is out of place: its segment was pruned, or the entry is there twice.",
    ),
    "inserted in the middle": (insert_in_the_middle, 4, ROW_2),
    "all made anew": (
        lambda connection: (connection.execute("UPDATE audit SET body = '{}' WHERE number = 5"), make_anew(connection)),
        4,
        ROW_2,
    ),
    "all made anew with another key": (forge, 1, ROW_1),
    "head removed": (
        sql("DELETE FROM audit_head"),
        10,
        "The signed head is missing: nothing proves that entry 10 is the last one.",
    ),
    "head of an earlier entry": (
        sql("UPDATE audit_head SET number = 9, hash = (SELECT hash FROM audit WHERE number = 9)"),
        9,
        NOT_SIGNED.format(9),
    ),
    "time of the head changed": (sql("UPDATE audit_head SET at_microseconds = 5"), 10, NOT_SIGNED.format(10)),
    "key of the head changed": (sql("UPDATE audit_head SET public_key = ''"), 10, NOT_SIGNED.format(10)),
    "no signature": (sql("UPDATE audit_head SET signature = 'none'"), 10, NOT_SIGNED.format(10)),
    "everything removed": (sql("DELETE FROM audit", "DELETE FROM audit_segments", "DELETE FROM audit_head"), 1, EMPTY),
    "schema set back": (sql("PRAGMA user_version = 2"), 1, EMPTY),
    "pruning faked": (
        sql("DELETE FROM audit WHERE segment = 2", "UPDATE audit_segments SET removed_at_microseconds = 5"),
        1,
        ROW_1,
    ),
    "entries of a segment removed": (
        sql("DELETE FROM audit WHERE segment = 2"),
        4,
        "Entry 4 is missing: the next one is 7.",
    ),
    "row of a segment removed": (
        sql("DELETE FROM audit_segments WHERE segment = 2"),
        7,
        "Entry 7 is wrong: it says segment 3 and stands in 2.",
    ),
    "row of the last segment removed": (
        sql("DELETE FROM audit_segments WHERE segment = 3"),
        10,
        "Entry 10 is wrong: it says segment 4 and stands in 3.",
    ),
    "row of a segment added": (
        sql("INSERT INTO audit_segments SELECT 9, 10, 10, previous_hash, last_hash, 5, '', 0, signature"
            " FROM audit_segments WHERE segment = 3"),
        10,
        "The row of segment 9 was changed.",
    ),
    "row of a segment moved": (sql("UPDATE audit_segments SET first_number = 5 WHERE segment = 2"), 5, ROW_2),
    "segment made longer": (sql("UPDATE audit_segments SET last_number = 7 WHERE segment = 2"), 4, ROW_2),
    "hash of a segment changed": (sql("UPDATE audit_segments SET last_hash = '' WHERE segment = 2"), 4, ROW_2),
    "export faked": (sql("UPDATE audit_segments SET exported_sha256 = 'x' WHERE segment = 2"), 4, ROW_2),
    "time of a segment changed": (
        sql("UPDATE audit_segments SET closed_at_microseconds = 5 WHERE segment = 2"),
        4,
        ROW_2,
    ),
    "blob for a text": (sql("UPDATE audit SET principal = CAST(principal AS BLOB) WHERE number = 5"), 5, NEVER_5),
    "text for a number": (sql("UPDATE audit SET at_microseconds = 'now' WHERE number = 5"), 5, NEVER_5),
    "text that is no Unicode": (sql("UPDATE audit SET body = CAST(X'FF' AS TEXT) WHERE number = 5"), 5, WRONG_5),
    "row of a segment that is no Unicode": (
        sql("UPDATE audit_segments SET last_hash = CAST(X'FF' AS TEXT) WHERE segment = 2"),
        4,
        ROW_2,
    ),
    "trigger that hides": (
        sql("CREATE TRIGGER hide AFTER INSERT ON audit BEGIN DELETE FROM audit WHERE principal = 'eve'; END"),
        None,
        TABLES,
    ),
    "view for a table": (
        sql("ALTER TABLE audit RENAME TO old", "CREATE VIEW audit AS SELECT * FROM old"),
        None,
        TABLES,
    ),
    "table removed": (sql("DROP TABLE audit_head"), None, TABLES),
    "code changed": (
        sql("UPDATE codes SET code = CAST('pay(amount=1)' AS BLOB)"),
        1,
        "The text of the code that entry 1 names was changed.",
    ),
}  # fmt: skip


@pytest.mark.behaviour("audit.tampering")
@pytest.mark.parametrize("name", ATTACKS)
async def test_attack_is_found_and_the_first_wrong_number_named(path: Path, name: str) -> None:
    """Before it the log is right; after it verifying names what is wrong, and where."""
    what, number, problem = ATTACKS[name]
    await record(path, 10)
    assert verify_store(path).problem == ""

    attack(path, what)

    found = verify_store(path)
    assert (found.problem, found.first_wrong) == (problem, number)


SIGNED = {name: ATTACKS[name] for name in ATTACKS if name.startswith(("all made", "head", "removed at the end", "app"))}


@pytest.mark.parametrize("name", [*SIGNED, "everything but the head removed"])
async def test_gateway_does_not_sign_what_an_attacker_made(path: Path, name: str) -> None:
    """Carrying such a log on would make it right: nothing is recorded any more, and whoever waits is told."""
    await record(path, 10)
    attack(path, SIGNED[name][0] if name in SIGNED else sql("DELETE FROM audit"))

    async with open_store(path) as store:
        await store.load_tools()  # what is not audited goes on
    with pytest.raises(StoreError) as caught:
        await record(path, 1)

    assert str(caught.value) == f"Not all was recorded. {CHANGED.format(str(path))}"
    assert verify_store(path).problem != ""


@pytest.mark.parametrize("name", [*SIGNED, "everything but the head removed"])
async def test_running_gateway_does_not_sign_what_an_attacker_made(path: Path, name: str) -> None:
    """What it remembers of the log that it wrote itself does not keep it from seeing that the log is another one."""
    opened = open_store(path)
    store = await opened.__aenter__()
    for number in range(10):
        store.audit(AuditEntry(kind="call", principal="ada", execution_id="e1", body={"amount": number}))
        await store.flush()
    attack(path, SIGNED[name][0] if name in SIGNED else sql("DELETE FROM audit"))

    store.audit(AuditEntry(kind="call", principal="ada", execution_id="e1"))
    with pytest.raises(StoreError) as caught:
        await store.flush()
    with pytest.raises(StoreError):
        await opened.__aexit__(None, None, None)

    assert str(caught.value) == CHANGED.format(str(path))
    assert verify_store(path).problem != ""


@pytest.mark.parametrize("name", ["head removed", "removed at the end", "all made anew"])
async def test_operator_may_carry_on_a_log_that_was_changed_with_a_new_key(path: Path, name: str) -> None:
    """The log itself says from where on it is to be believed."""
    await record(path, 10)
    attack(path, ATTACKS[name][0])

    async with open_store(path) as store:
        await store.rekey_audit(principal="local")
        newest = await store.audit_entries(limit=1)
    await record(path, 3)

    assert newest[0].kind == "audit.rekey"
    assert verify_store(path).problem == ""


async def test_change_in_the_middle_stays_visible_however_long_the_log_grows(path: Path) -> None:
    """The gateway goes on, and what it signs does not cover up what was done."""
    await record(path, 10)
    attack(path, ATTACKS["body changed"][0])
    await record(path, 10)

    assert verify_store(path).problem == WRONG_5


@pytest.mark.parametrize(
    "act",
    [lambda store: store.prune_audit([2], principal="local"), lambda store: store.mark_audit_exported([2], "x")],
    ids=["pruned", "exported"],
)
async def test_row_of_a_segment_that_an_attacker_made_is_not_signed_again(
    path: Path, act: Callable[[Store], Awaitable[None]]
) -> None:
    """Whatever would change it finds that it is not what was signed."""
    await record(path, 10)
    attack(path, ATTACKS["export faked"][0])

    with pytest.raises(StoreError) as caught:
        async with open_store(path) as store:
            await act(store)

    assert str(caught.value) == CHANGED.format(str(path))
    assert verify_store(path).problem == ROW_2


async def test_store_that_is_put_back_under_a_running_gateway_is_noticed(path: Path) -> None:
    """Every row, and the signature, is genuine; but the gateway knows what it wrote."""
    entry = AuditEntry(kind="call", principal="ada")
    async with open_store(path) as store:
        store.audit(entry)
        await store.flush()
        with closing(sqlite3.connect(path)) as connection:
            old = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("audit", "audit_head")}
        for _ in range(2):
            store.audit(entry)
            await store.flush()

    opened = open_store(path)
    store = await opened.__aenter__()
    for _ in range(2):
        store.audit(entry)
        await store.flush()
    attack(
        path,
        lambda connection: (
            connection.execute("DELETE FROM audit WHERE number > 1"),
            connection.execute("DELETE FROM audit_segments"),
            connection.execute("REPLACE INTO audit_head VALUES (?, ?, ?, ?, ?, ?)", old["audit_head"][0]),
        ),
    )
    assert verify_store(path).problem == ""  # without a head that was kept, nobody else can know

    store.audit(entry)
    with pytest.raises(StoreError) as caught:
        await store.flush()
    with pytest.raises(StoreError):
        await opened.__aexit__(None, None, None)
    assert str(caught.value) == CHANGED.format(str(path))


async def kept_head(path: Path) -> AuditHead:
    """What `sealyard audit head` prints."""
    with open_log(path) as log:
        head = log.head()
    assert head is not None
    return head


async def test_old_copy_of_a_store_is_found_only_by_a_head_that_was_kept(path: Path, tmp_path: Path) -> None:
    """Also after it has grown again beyond where it was."""
    await record(path, 5)
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    await record(path, 5)
    head = await kept_head(path)
    for file in path.parent.glob("store.db-*"):
        file.unlink()
    shutil.copy(copy, path)

    assert verify_store(path).problem == ""
    found = verify_store(path, heads=[head])
    assert (found.problem, found.first_wrong) == (
        "Entry 6 is missing: the log ends with 5, and a head document proves that there was an entry 10. It was cut, or"
        " its store was put back to an older state.",
        6,
    )
    await record(path, 20)
    assert verify_store(path).problem == ""
    found = verify_store(path, heads=[head])
    assert (found.problem, found.first_wrong) == (
        "Entry 10 is not the one that a head document proves: it, or one before it, was changed and everything after"
        " it was rewritten.",
        10,
    )


async def test_log_of_another_store_is_not_taken_for_this_one(path: Path, tmp_path: Path) -> None:
    """Each store has a key of its own."""
    other = tmp_path / "other.db"
    await record(path, 5)
    await record(other, 5)
    attack(
        path,
        sql(
            f"ATTACH '{other}' AS other",
            *(f"DELETE FROM {name}" for name in ("audit", "audit_segments", "audit_head")),
            *(f"INSERT INTO {name} SELECT * FROM other.{name}" for name in ("audit", "audit_segments", "audit_head")),
        ),
    )

    assert verify_store(path).problem == ROW_1


async def test_key_that_was_exchanged_is_found_by_a_head_that_was_kept(path: Path, tmp_path: Path) -> None:
    """Somebody who can write the folder too makes everything anew, key and all."""
    await record(path, 5)
    head = await kept_head(path)
    other = tmp_path / "other.db"
    await record(other, 5)
    for file in path.parent.glob("store.db*"):
        if file.is_file():
            file.unlink()
    shutil.copy(other, path)
    shutil.copy(key_path(other), key_path(path))

    assert verify_store(path).problem == ""
    assert verify_store(path, heads=[head]).problem == (
        "The head document of entry 5 was signed by another key than this log: the log was rewritten, or"
        " `sealyard audit rekey` changed its key."
    )


async def test_log_without_its_key_is_verified_by_a_head_that_was_kept(path: Path) -> None:
    """An auditor has the public key alone."""
    await record(path, 5)
    head = await kept_head(path)
    key_path(path).unlink()

    assert verify_store(path, heads=[head]).problem == ""
    with pytest.raises(InvalidRequest) as caught:
        verify_store(path)
    assert str(caught.value) == "The audit key is gone. Name a head document by --head: it holds the public key."


async def test_forged_head_document_is_refused(path: Path) -> None:
    """It proves nothing."""
    await record(path, 5)
    head = await kept_head(path)
    forged = AuditHead(
        number=3, hash=head.hash, at_microseconds=5, public_key=head.public_key, signature=head.signature
    )

    with pytest.raises(InvalidRequest) as caught:
        verify_store(path, heads=[forged])

    assert str(caught.value) == (
        "The head document of entry 3 is not signed by the key that it names. Use one as `sealyard audit head` printed"
        " it."
    )


# Exported files


def change(line: int, **changes: Any) -> Callable[[list[Any]], list[Any]]:
    """Other values in one line; the header is line 0."""
    return lambda lines: [*lines[:line], lines[line] | changes, *lines[line + 1 :]]


def forge_file(lines: list[Any]) -> list[Any]:
    """Change an entry, and sign all with a key of one's own."""
    key = Ed25519Key(Ed25519PrivateKey.generate())
    header, *entries = lines
    entries[0]["principal"] = "eve"
    previous = header["after"]["last_hash"]
    for each in entries:
        *fields, _ = each.values()
        previous = each["hash"] = chained(previous, fields)
    segment = audit.AuditSegment(**header["segments"][0] | {"last_hash": previous})
    segment_row = {**header["segments"][0], "last_hash": previous, "signature": key.sign(segment.signed())}
    return [header | {"public_key": key.public, "segments": [segment_row]}, *entries]


FILES: dict[str, tuple[Callable[[list[Any]], list[Any]], str]] = {
    "entry changed": (change(2, principal="eve"), WRONG_5),
    "entry removed": (lambda lines: lines[:2] + lines[3:], "Entry 5 is missing: the next one is 6."),
    "cut": (lambda lines: lines[:-1], "Entry 6 is missing: segment 2 is cut."),
    "reordered": (
        lambda lines: [*lines[:2], lines[3], lines[2]],
        "Entry 5 is missing: the next one is 6.",
    ),
    "repeated": (
        lambda lines: [*lines, lines[-1]],
        "Entry 6 is out of place: its segment was pruned, or the entry is there twice.",
    ),
    "appended": (
        lambda lines: [
            *lines,
            (new := lines[-1] | {"number": 7, "segment": 3})
            | {"hash": chained(lines[-1]["hash"], list(new.values())[:-1])},
        ],
        "Nothing that is signed vouches for entry 7.",
    ),
    "another start": (
        lambda lines: [lines[0] | {"after": lines[0]["after"] | {"last_hash": "0" * 64}}, *lines[1:]],
        ROW_2,
    ),
    "no segment": (
        lambda lines: [lines[0] | {"segments": []}, *lines[1:]],
        "Nothing that is signed vouches for entry 6.",
    ),
    "a number that is none": (
        change(2, number="5"),
        "Entry 5 is wrong: entry 5 cannot be read: Expected `int`, got `str` - at `$.number`.",
    ),
    "a line that is none": (
        lambda lines: [*lines[:2], [], *lines[3:]],
        "Entry 5 is wrong: entry 5 cannot be read: Expected `object`, got `array`.",
    ),
}


@pytest.mark.parametrize("name", FILES)
async def test_changed_file_is_found(path: Path, tmp_path: Path, name: str) -> None:
    """An exported segment is proof by itself."""
    what, problem = FILES[name]
    await record(path, 10)
    file = tmp_path / "segment.jsonl"
    with file.open("wb") as stream:
        export_audit(path, stream, segment=2)
    assert verify_file(file).problem == ""

    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in what(lines)), encoding="utf-8")

    assert verify_file(file).problem == problem


async def test_file_that_was_made_anew_is_found_by_a_head_that_was_kept(path: Path, tmp_path: Path) -> None:
    """The file names its key: whose it is must be known from elsewhere."""
    await record(path, 10)
    head = await kept_head(path)
    file = tmp_path / "segment.jsonl"
    with file.open("wb") as stream:
        export_audit(path, stream, segment=2)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in forge_file(lines)), encoding="utf-8")

    assert verify_file(file).problem == ""
    assert verify_file(file, heads=[head]).problem == (
        "The head document of entry 10 was signed by another key than this log: the log was rewritten, or"
        " `sealyard audit rekey` changed its key."
    )


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff\n", b'{"sealyard_audit":1', b"[" * 100_000])
def test_file_that_is_no_log_is_refused(tmp_path: Path, content: bytes) -> None:
    """It is a mistake, not evidence."""
    file = tmp_path / "any.jsonl"
    file.write_bytes(content)

    with pytest.raises(InvalidRequest) as caught:
        verify_file(file)

    assert str(caught.value).startswith(f"{str(file)!r} is not an ")
