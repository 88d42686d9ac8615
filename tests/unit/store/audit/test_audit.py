"""The audit log: what is recorded is chained, signed, bounded and found again, whatever it holds."""

import asyncio
import hashlib
import io
import json
import math
import sqlite3
import stat
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sealyard.errors import InvalidRequest, StoreError
from sealyard.store import Store, open_store
from sealyard.store.audit import log as audit
from sealyard.store.audit.log import BODY_BYTES, encode_body, key_path
from sealyard.store.audit.verification import AuditVerification, export_audit, verify_file, verify_store
from sealyard.store.stored_json import is_longer
from sealyard.values.access import AUDIT_KINDS, AuditEntry, AuditRow
from sealyard.values.runs import ExecutionRecord

ANY_TEXT = st.text(st.characters(exclude_categories=()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def entry(kind: str = "call", **changes: Any) -> AuditEntry:
    """An entry of the execution `e1`, but for the changes."""
    known: dict[str, Any] = {"principal": "ada", "session": "main", "execution_id": "e1", "body": {"tool": "pay"}}
    return AuditEntry(kind=kind, **known | changes)


def is_writable(value: Any) -> bool:
    """Whether it can be written as JSON as it is."""
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


def deep(levels: int) -> list[Any]:
    """Lists in lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@asynccontextmanager
async def recorded(path: Path, *entries: AuditEntry) -> AsyncIterator[Store]:
    """A store in which these are on disk."""
    async with open_store(path) as store:
        for each in entries:
            store.audit(each)
        await store.flush()
        yield store


def execute(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """What another program does to the store; what the last statement finds."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found = [connection.execute(statement).fetchall() for statement in statements]
    return found[-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "store.db"


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of three entries."""
    monkeypatch.setattr(audit, "SEGMENT_ENTRIES", 3)


# Entries


async def test_entries_come_back_numbered_and_in_the_order_in_which_they_were_recorded(path: Path) -> None:
    """The newest first, with the time at which they were recorded."""
    before = time.time()
    async with recorded(path, entry("execution.start"), entry(body={"a": [1, None]}), entry("execution.end")) as store:
        found = await store.audit_entries()
    after = time.time()

    assert [(row.number, row.kind, row.body) for row in found] == [
        (3, "execution.end", {"tool": "pay"}),
        (2, "call", {"a": [1, None]}),
        (1, "execution.start", {"tool": "pay"}),
    ]
    assert {(row.segment, row.principal, row.session, row.execution_id) for row in found} == {(1, "ada", "main", "e1")}
    assert all(before - 1e-6 <= row.at <= after for row in found)


async def test_hash_can_be_computed_by_anybody(path: Path) -> None:
    """The documented form, written with nothing but the standard library."""
    async with recorded(path, entry(), entry(principal='é "\n\x1b\x7f\u2028'), entry("decision")):
        pass

    previous = "0" * 64
    rows = execute(path, "SELECT * FROM audit ORDER BY number")
    for *fields, found in rows:
        array = ["sealyard audit entry", previous, *fields]
        text = json.dumps(array, ensure_ascii=False, separators=(",", ":"))
        previous = hashlib.sha256(text.encode()).hexdigest()
        assert found == previous
    assert len(rows) == 3


async def test_every_kind_is_taken_and_no_other(path: Path) -> None:
    """The set is closed: a reader knows what to expect."""
    async with recorded(path, *(entry(kind) for kind in AUDIT_KINDS)) as store:
        assert [row.kind for row in await store.audit_entries()] == list(AUDIT_KINDS)[::-1]
        with pytest.raises(ValueError, match="'party'") as caught:
            store.audit(entry("party"))

    assert str(caught.value) == "No audit entry has the kind 'party'. Use one of AUDIT_KINDS, or add it."


async def test_entries_are_found_by_principal_kind_and_execution(path: Path) -> None:
    """Each alone, together, and page by page."""
    entries = [
        entry("call", principal=principal, execution_id=execution_id)
        for principal in ("ada", "bob")
        for execution_id in ("e1", "e2", "")
    ]

    async def numbers(**wanted: Any) -> list[int]:
        return [row.number for row in await store.audit_entries(**wanted)]

    async with recorded(path, *entries, entry("gateway.stop", principal="bob", execution_id="")) as store:
        assert await numbers(principal="bob") == [7, 6, 5, 4]
        assert await numbers(execution_id="e2") == [5, 2]
        assert await numbers(kind="gateway.stop") == [7]
        assert await numbers(kind="call", principal="ada", execution_id="e1") == [1]
        assert await numbers(limit=3) == [7, 6, 5]
        assert await numbers(limit=3, before=5) == [4, 3, 2]
        assert await numbers(principal="eve") == []
        assert await numbers(execution_id="") == []  # entries without one are not those of one


async def test_store_without_entries_has_no_head_and_no_key(path: Path) -> None:
    """Who does not audit pays nothing, and there is nothing to be wrong."""
    async with recorded(path) as store:
        assert await store._reader.read(audit.read_head) is None
    assert not key_path(path).exists()
    assert verify_store(path) == AuditVerification()


# What a body may hold


@settings(max_examples=40)  # each opens a store
@given(body=st.dictionaries(ANY_TEXT, ANY_JSON, max_size=4), name=ANY_TEXT)
def test_any_body_and_any_name_is_written_and_verified(
    tmp_path_factory: pytest.TempPathFactory, body: dict[str, Any], name: str
) -> None:
    """NaN, lone surrogates, NUL, numbers of any length: nothing breaks a write or the chain."""
    path = tmp_path_factory.mktemp("any") / "store.db"

    async def record() -> list[AuditRow]:
        written = entry(body=body, principal=name, session=name, execution_id=name)
        async with recorded(path, written) as store:
            return await store.audit_entries(principal=name)

    assert [row.number for row in asyncio.run(record())] == [1]
    assert verify_store(path).problem == ""


LARGE = {
    "a text": {"note": "x" * 100_000},
    "a text that is no ASCII": {"note": "é" * 100_000},
    "a text that is no Unicode": {"note": "\ud800" * 100_000},
    "a list": {"rows": list(range(100_000))},
    "an object": {"rows": {str(key): key for key in range(100_000)}},
    "many fields": {str(key): "x" * 100 for key in range(10_000)},
    "long names": {"x" * 10_000: {"y" * 10_000: 1}},
    "levels": {"rows": deep(100_000)},
    "a thousand levels": {"rows": deep(960)},
    "levels in levels": {"a": {"b": {"c": [deep(100_000), "x" * 100_000]}}},
    "a number": {"n": 10**10_000},
    "a negative number in a list": {"n": [-(10**5_000)] * 100},
    "a set": {"n": {object()}},
    "names that are no text": {"n": {(1, 2): 3, None: 4}},
}


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_body_is_never_longer_than_allowed_and_can_be_read_again(body: dict[str, Any]) -> None:
    """Whatever is asked to be recorded, something is, and it fits."""
    text = encode_body(body)

    assert len(text.encode()) <= BODY_BYTES
    assert isinstance(msgspec.json.decode(text), dict)


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_other_body_has_another_text(body: dict[str, Any]) -> None:
    """The evidence for what was left out: the same value gives the same digest, and another one does not."""
    assert encode_body(body) == encode_body(body)
    assert encode_body({"other": body}) != encode_body(body)


def test_body_that_differs_only_where_it_is_left_out_has_another_text() -> None:
    """In the last digit of a number too long to be kept, or in the depth of a value too deep."""
    assert encode_body({"n": 10**10_000}) != encode_body({"n": 10**10_000 + 1})
    assert encode_body({"rows": deep(100_000)}) != encode_body({"rows": deep(100_001)})


def test_what_is_long_is_replaced_by_its_digest_where_it_stands() -> None:
    """All around it is kept; of a text it is the digest of its UTF-8, of a value that of its JSON."""
    text, rows = "né" * 10_000, list(range(5_000))

    kept = msgspec.json.decode(encode_body({"tool": "pay", "arguments": {"note": text, "rows": [1, {"all": rows}]}}))

    as_json = json.dumps(rows, separators=(",", ":")).encode()
    assert kept == {
        "tool": "pay",
        "arguments": {
            "note": {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": 30_000},
            "rows": [1, {"all": {"sha256": hashlib.sha256(as_json).hexdigest(), "bytes": len(as_json)}}],
        },
    }


@given(ANY_JSON, st.integers(0, 60))
def test_a_value_is_left_out_unwritten_only_if_its_text_is_too_long(value: Any, most: int) -> None:
    """What is surely too long is told without writing it down, and nothing else is left out for it."""
    text = msgspec.json.encode(value) if is_writable(value) else b" " * 1_000

    assert not is_longer(value, most) or len(text.decode()) > most


def test_fields_of_a_body_stay_whatever_they_hold() -> None:
    """A hundred long arguments do not hide which tool was called."""
    kept = msgspec.json.decode(encode_body({"tool": "pay", "arguments": {str(n): "x" * 500 for n in range(60)}}))

    assert kept["tool"] == "pay"
    assert set(kept["arguments"]) == {"sha256", "bytes"}


def test_numbers_that_are_none_become_null() -> None:
    """As in the journal."""
    assert encode_body({"n": [math.nan, math.inf, 1.5]}) == '{"n":[null,null,1.5]}'


# The key and the head


async def test_head_is_signed_by_the_key_beside_the_store(path: Path) -> None:
    """Checked with the public key alone, over the documented form."""
    async with recorded(path, entry(), entry()) as store:
        head = await store._reader.read(audit.read_head)
        newest = await store.audit_entries(limit=1)

    assert head is not None
    assert (head.number, head.hash) == (2, newest[0].hash)
    signed = ["sealyard audit head", head.number, head.hash, head.at_microseconds, head.public_key]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(head.public_key))
    key.verify(bytes.fromhex(head.signature), json.dumps(signed, separators=(",", ":")).encode())


async def test_key_is_made_once_for_its_owner_only(path: Path) -> None:
    """The next gateway, and another one at the same time, sign with the same."""
    async with recorded(path, entry()) as one, recorded(path, entry()) as other:
        heads = [await one._reader.read(audit.read_head), await other._reader.read(audit.read_head)]
    key = key_path(path)
    content = key.read_bytes()
    async with recorded(path, entry()):
        pass

    assert heads[0] == heads[1]
    assert (key.name, stat.S_IMODE(key.stat().st_mode)) == ("store.db.audit.key", 0o600)
    assert key.read_bytes() == content
    assert [file.name for file in path.parent.glob("*.new")] == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
async def test_key_that_others_can_use_is_refused_until_it_is_theirs_no_more(path: Path, mode: int) -> None:
    """Nothing is acknowledged meanwhile, and nothing is lost."""
    async with recorded(path, entry()):
        pass
    key = key_path(path)
    key.chmod(mode)

    async with open_store(path) as store:
        store.audit(entry("decision"))
        with pytest.raises(StoreError) as caught:
            await store.flush()
        key.chmod(0o600)
        await store.flush()
        assert [row.kind for row in await store.audit_entries()] == ["decision", "call"]
    assert str(caught.value) == (
        f"The audit key {str(key)!r} can be used by others: its mode is {mode:04o}. Run `chmod 600` on it, and"
        " `sealyard audit rekey` if somebody may have read it."
    )


async def test_key_that_is_gone_is_not_made_anew(path: Path) -> None:
    """A log that was signed by one key is not carried on with another, as an attacker would like it."""
    async with recorded(path, entry()):
        pass
    key = key_path(path)
    kept = key.rename(key.with_name("elsewhere"))

    async with open_store(path) as store:
        store.audit(entry())
        with pytest.raises(StoreError) as caught:
            await store.flush()
        kept.rename(key)
        await store.flush()
        assert len(await store.audit_entries()) == 2
    assert str(caught.value) == (
        f"The audit key {str(key)!r} is gone. Restore it from a copy; if there is none, run `sealyard audit rekey`."
    )


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\n"])
async def test_file_that_is_no_key_is_refused(path: Path, content: bytes) -> None:
    """It is not overwritten either: it may be a mistake."""
    async with recorded(path, entry()):
        pass
    key = key_path(path)
    right = key.read_bytes()
    key.write_bytes(content)

    async with open_store(path) as store:
        store.audit(entry())
        with pytest.raises(StoreError) as caught:
            await store.flush()
        assert key.read_bytes() == content
        key.write_bytes(right)
    assert str(caught.value) == f"The audit key {str(key)!r} is not a key. Restore it from a copy."


@pytest.mark.usefixtures("short_segments")
async def test_new_key_signs_all_that_the_old_one_signed(path: Path) -> None:
    """Closed segments too; the log says which key came after which."""
    async with recorded(path, *[entry()] * 7) as store:
        before = await store._reader.read(audit.read_head)
        await store.prune_audit([1], principal="local")
        await store.rekey_audit(principal="local")
        after = await store._reader.read(audit.read_head)
        newest = await store.audit_entries(limit=1)

    assert before is not None
    assert after is not None
    assert newest[0].body == {"before": before.public_key, "after": after.public_key}
    assert before.public_key != after.public_key
    assert verify_store(path).problem == ""
    assert verify_store(path, heads=[before]).problem == (
        "The head document of entry 7 was signed by another key than this log: the log was rewritten, or"
        " `sealyard audit rekey` changed its key."
    )


# Segments


@pytest.mark.usefixtures("short_segments")
async def test_segment_is_closed_by_the_entry_after_its_last(path: Path) -> None:
    """In one transaction or in many: three entries each."""
    async with recorded(path, *[entry()] * 7) as store:
        for _ in range(3):
            store.audit(entry())
            await store.flush()
        found = await store.audit_entries()

    assert [row.segment for row in found] == [4, 3, 3, 3, 2, 2, 2, 1, 1, 1]
    rows = execute(path, "SELECT segment, first_number, last_number, previous_hash, last_hash FROM audit_segments")
    hashes = {row.number: row.hash for row in found} | {0: "0" * 64}
    assert rows == [(n, 3 * n - 2, 3 * n, hashes[3 * n - 3], hashes[3 * n]) for n in (1, 2, 3)]


async def test_segment_is_closed_when_it_is_old(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next entry opens a new one, however few there are."""
    async with recorded(path, entry(), entry()) as store:
        monkeypatch.setattr(audit, "SEGMENT_SECONDS", 0.0)
        for _ in range(2):
            store.audit(entry())
        await store.flush()
        found = await store.audit_entries()

    assert [row.segment for row in found] == [2, 2, 1, 1]
    assert verify_store(path).problem == ""


@pytest.mark.usefixtures("short_segments")
async def test_pruned_segments_leave_a_log_that_can_be_verified(path: Path) -> None:
    """From the start and from the middle; what was done is in the log, and doing it again changes nothing."""
    async with recorded(path, *[entry()] * 10) as store:
        await store.prune_audit([1, 3], principal="local")
        await store.prune_audit([1, 3, 4, 99], principal="local")  # 4 is not closed when this is written
        found = await store.audit_entries()

    assert [(row.number, row.kind) for row in found] == [
        (12, "audit.prune"),
        (11, "audit.prune"),
        (10, "call"),
        (6, "call"),
        (5, "call"),
        (4, "call"),
    ]
    assert [row.body["segment"] for row in found[:2]] == [3, 1]
    assert verify_store(path) == AuditVerification(
        entries=6,
        last_number=12,
        removed_entries=6,
        segments=3,
        removed_segments=2,
        public_key=verify_store(path).public_key,
    )


# Files


@pytest.mark.usefixtures("short_segments")
async def test_exported_file_is_verified_without_the_store(path: Path, tmp_path: Path) -> None:
    """The whole log, a closed segment, the open one, and what is left after pruning."""
    async with recorded(path, *[entry()] * 8) as store:
        found = {}
        for segment in (None, 2, 3):
            with (tmp_path / f"{segment}.jsonl").open("wb") as stream:
                found[segment] = export_audit(path, stream, segment=segment)
        await store.prune_audit([2], principal="local")
        with (tmp_path / "later.jsonl").open("wb") as stream:
            export_audit(path, stream)
    checked = {file.stem: verify_file(file) for file in tmp_path.glob("*.jsonl")}

    assert {name: (each.problem, each.entries, each.last_number) for name, each in checked.items()} == {
        "None": ("", 8, 8),
        "2": ("", 3, 6),
        "3": ("", 2, 8),
        "later": ("", 6, 9),
    }
    assert [(each.entries, each.segments) for each in found.values()] == [(8, [1, 2]), (3, [2]), (2, [])]
    assert found[None].sha256 == hashlib.sha256((tmp_path / "None.jsonl").read_bytes()).hexdigest()


@pytest.mark.usefixtures("short_segments")
async def test_segment_that_is_not_there_cannot_be_exported(path: Path) -> None:
    """Neither one that was pruned nor one that is not begun."""
    async with recorded(path, *[entry()] * 4) as store:
        await store.prune_audit([1], principal="local")
        for segment in (1, 3, 99):
            with pytest.raises(InvalidRequest) as caught:
                export_audit(path, io.BytesIO(), segment=segment)
            assert str(caught.value) == (
                f"There is no segment {segment}, or its entries were pruned. Name one that is there."
            )


@pytest.mark.usefixtures("short_segments")
async def test_kept_heads_are_found_in_the_log_and_in_files(path: Path, tmp_path: Path) -> None:
    """Also the one that was taken at the end of a segment which is gone; others of it are counted as not here."""
    async with open_store(path) as store:
        heads = []
        for _ in range(5):
            store.audit(entry())
            await store.flush()
            heads.append(await store._reader.read(audit.read_head))
        with (tmp_path / "one.jsonl").open("wb") as stream:
            export_audit(path, stream, segment=1)
        with (tmp_path / "two.jsonl").open("wb") as stream:
            export_audit(path, stream, segment=2)
        whole = verify_store(path, heads=heads)
        await store.prune_audit([1], principal="local")
        cut = verify_store(path, heads=heads)

    files = [verify_file(tmp_path / name, heads=heads) for name in ("one.jsonl", "two.jsonl")]
    assert [(each.problem, each.heads, each.heads_elsewhere) for each in (whole, cut, *files)] == [
        ("", 5, 0),
        ("", 3, 2),
        ("", 3, 2),
        ("", 2, 3),
    ]


# Company and failures


@pytest.mark.usefixtures("short_segments")
async def test_gateways_that_write_in_turns_make_one_chain(path: Path) -> None:
    """Each finds what the other wrote."""
    async with open_store(path) as one, open_store(path) as other:
        for number in range(40):
            for store, name in ((one, "one"), (other, "other")):
                store.audit(entry(principal=name, body={"number": number}))
            if number % 3:
                await asyncio.gather(one.flush(), other.flush())
        await asyncio.gather(one.flush(), other.flush())
        found = await one.audit_entries(limit=100)

    for name in ("one", "other"):
        assert [row.body["number"] for row in found[::-1] if row.principal == name] == list(range(40))
    assert verify_store(path).entries == 80


async def test_transaction_that_fails_is_repeated_without_gap_or_double(path: Path) -> None:
    """Numbers and hashes are given anew with each attempt."""
    failures = [sqlite3.OperationalError("first"), StoreError("second")]

    def fail(connection: sqlite3.Connection) -> None:
        if failures:
            raise failures.pop(0)

    async with recorded(path, entry()) as store:
        for number in range(5):
            store.audit(entry(body={"number": number}))
            if number == 2:
                store._writer.put(fail, 0)
        messages = []
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                await store.flush()
            messages.append(str(caught.value))
        await store.flush()
        found = await store.audit_entries()

    assert messages[1] == "second"
    assert [(row.number, row.body.get("number")) for row in found] == [
        (6, 4),
        (5, 3),
        (4, 2),
        (3, 1),
        (2, 0),
        (1, None),
    ]
    assert verify_store(path).problem == ""


@pytest.mark.usefixtures("short_segments")
async def test_log_goes_on_where_it_was_after_a_commit_that_failed(path: Path) -> None:
    """What the failed transaction wrote of the log, such as the end of a segment, is not taken for written."""
    failing = [True]

    def fail_at_the_end(connection: sqlite3.Connection) -> None:
        if failing:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute("INSERT INTO vault_erased (scope_id, id) VALUES ('none', 'none')")

    async with recorded(path, entry(), entry()) as store:
        for number in range(5):
            store.audit(entry(body={"number": number}))
        store._writer.put(fail_at_the_end, 0)
        for _ in range(2):
            with pytest.raises(StoreError, match="FOREIGN KEY"):
                await store.flush()
        failing.clear()
        await store.flush()
        found = await store.audit_entries()

    assert [(row.number, row.segment) for row in found] == [(7, 3), (6, 2), (5, 2), (4, 2), (3, 1), (2, 1), (1, 1)]
    assert [row.body.get("number") for row in found[:5]] == [4, 3, 2, 1, 0]
    assert verify_store(path).problem == ""


async def test_code_that_entries_name_is_counted(path: Path) -> None:
    """Those whose text is kept and those whose text is not; others name none."""
    code = "print('\ud800')"
    sha256 = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    async with open_store(path) as store:
        store.record_start(
            ExecutionRecord(execution_id="e1", principal="ada", session="main", code=code, started_at=1.0)
        )
        for body in ({"code_sha256": sha256}, {"code_sha256": "0" * 64}, {"code_sha256": 5}, {}):
            store.audit(entry("execution.start", body=body))

    found = verify_store(path)

    assert (found.problem, found.codes, found.codes_missing) == ("", 1, 1)


async def test_log_is_verified_row_by_row(path: Path) -> None:
    """Progress is told, and memory does not grow with the log."""
    async with recorded(path, *[entry(body={"note": "x" * 1000})] * 20_001):
        pass
    told: list[tuple[int, int]] = []

    tracemalloc.start()
    verify_store(path, on_progress=lambda done, last: told.append((done, last)))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert told == [(10_000, 20_001), (20_000, 20_001)]
    assert peak_bytes < 1 << 20 < path.stat().st_size / 20


def test_file_that_is_no_store_is_an_error_that_names_it(path: Path) -> None:
    """There is nothing to verify."""
    path.write_text("Dear diary, " * 100, encoding="utf-8")

    with pytest.raises(StoreError) as caught:
        verify_store(path)

    assert str(caught.value) == (
        f"The store {str(path)!r} cannot be read: file is not a database."
        " Name another path for the store, or move this file away."
    )
