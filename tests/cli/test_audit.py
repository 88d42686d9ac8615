"""`sealyard audit` as a user meets it."""

import asyncio
import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sealyard.store import open_store
from sealyard.store.audit import log as audit
from sealyard.store.audit.log import key_path
from sealyard.values.access import AuditEntry
from sealyard.values.runs import ExecutionRecord

Command = Callable[..., subprocess.CompletedProcess[str]]

EVIL = "\x1b]0;owned\x07\x1b[2J\r\n99  fake \u202egnp.exe \x9b31m"
CODE = f"pay(5)\nprint('{EVIL}')"
CODE_SHA256 = hashlib.sha256(CODE.encode()).hexdigest()
DONE = "10 entries verified, up to number 10.\n"
NO_HEAD = "No --head was given: this may be an older state.\n"


def entry(kind: str, execution_id: str = "e1", principal: str = "ada", **body: Any) -> AuditEntry:
    """An entry with this body."""
    return AuditEntry(kind=kind, principal=principal, session="main", execution_id=execution_id, body=body)


ENTRIES = [
    entry("gateway.start", "", "local", version="1"),
    entry("execution.start", code_sha256=CODE_SHA256),
    entry("decision", tool="mcp__bank__pay", verdict="ask"),
    entry("approval.answer", decision="once", by="bob"),
    entry("call", tool="mcp__bank__pay", arguments={"to": "__PII_email_3f9a1c20b7de__", "note": EVIL}),
    entry("execution.end", status="ok", result=EVIL),
    entry("call", EVIL, EVIL, **{EVIL: EVIL}),
    *[entry("call", "e2", "eve", number=number) for number in range(3)],
]


def record(path: Path, entries: list[AuditEntry]) -> None:
    """On disk."""

    async def write() -> None:
        async with open_store(path) as store:
            store.record_start(
                ExecutionRecord(
                    execution_id="e1", principal="ada", session="main", code=CODE, started_at=1.0, status="ok"
                )
            )
            for each in entries:
                store.audit(each)

    asyncio.run(write())


def execute(path: Path, statement: str) -> None:
    """What somebody with a database shell does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with ten entries in segments of four."""
    monkeypatch.setattr(audit, "SEGMENT_ENTRIES", 4)
    path = tmp_path / "store.db"
    record(path, ENTRIES)
    return path


@pytest.fixture
def log(sealyard: Command, path: Path) -> Command:
    """Runs `sealyard audit` on that store."""
    return lambda name, *arguments: sealyard("audit", name, "--store", str(path), *arguments)


# Reading


def test_tail_prints_the_newest_last(log: Command) -> None:
    """One line each: number, time, kind, principal, execution and what it says."""
    done = log("tail", "-n", "2")

    lines = [line.split() for line in done.stdout.splitlines()]
    assert [[line[0], *line[3:]] for line in lines] == [
        ["9", "call", "eve", "e2", "number=1"],
        ["10", "call", "eve", "e2", "number=2"],
    ]
    assert done.returncode == 0


def test_tail_chooses_by_principal_and_kind(log: Command) -> None:
    """As JSON lines every field is there."""
    done = log("tail", "--principal", "ada", "--kind", "call", "--json")

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["number"], row["execution_id"], row["body"]["tool"]) for row in rows] == [(5, "e1", "mcp__bank__pay")]
    assert set(rows[0]) == {
        "number", "segment", "at", "kind", "principal", "session", "execution_id", "body", "hash",
    }  # fmt: skip


def test_unknown_kind_is_refused(log: Command) -> None:
    """A typing error does not look like an empty log."""
    assert log("tail", "--kind", "party").returncode == 2


def test_tail_follows_what_is_written(path: Path) -> None:
    """The newest that is there, then what comes, until Ctrl-C."""
    record(path, [entry("policy.change", "")])
    command = ["audit", "tail", "--store", str(path), "-n", "1", "-f", "--kind", "policy.change"]
    process = subprocess.Popen([sys.executable, "-m", "sealyard", *command], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        record(path, [entry("call", "e3"), entry("policy.change", "")])
        second = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert [line.split()[0] for line in (first, second)] == [b"11", b"13"]
    assert (rest, process.returncode) == (b"", 130)


def test_show_prints_who_ran_what_and_what_came_of_it(log: Command) -> None:
    """The code, then every entry in its order."""
    done = log("show", "e1")

    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert [line.split() for line in lines[:3]] == [["execution", "e1"], ["principal", "ada"], ["session", "main"]]
    assert lines[4].split() == ["status", "ok"]
    assert lines[6:8] == [
        "   1  pay(5)",
        "   2  print('\\x1b]0;owned\\x07\\x1b[2J\\r",
    ]
    assert lines[8] == "   3  99  fake \\u202egnp.exe \\x9b31m')"
    assert [line.split()[0] for line in lines[10:]] == ["number", "2", "3", "4", "5", "6"]
    assert [line.split()[3] for line in lines[11:]] == [
        "execution.start", "decision", "approval.answer", "call", "execution.end",
    ]  # fmt: skip
    assert lines[13].endswith("decision=once  by=bob")
    assert (done.stderr, done.returncode) == ("", 0)


def test_show_as_json_has_the_code_and_the_entries(log: Command) -> None:
    """For programs."""
    shown = json.loads(log("show", "e1", "--json").stdout)

    assert shown["code"] == CODE
    assert [(row["number"], row["kind"]) for row in shown["entries"]] == [
        (2, "execution.start"), (3, "decision"), (4, "approval.answer"), (5, "call"), (6, "execution.end"),
    ]  # fmt: skip


def test_show_prints_one_entry_by_its_number(log: Command) -> None:
    """With its hash and each field of what it says."""
    lines = [line.split(maxsplit=1) for line in log("show", "4").stdout.splitlines()]

    shown = {line[0]: line[1].rstrip() for line in lines}
    assert (shown["number"], shown["segment"], shown["kind"], shown["by"]) == ("4", "1", "approval.answer", "bob")
    assert len(shown["hash"]) == 64


@pytest.mark.parametrize("wanted", ["none", "11", "0", "-", "9" * 30, "²"])
def test_show_says_what_it_did_not_find(log: Command, wanted: str) -> None:
    """A wrong id is a mistake in the request."""
    done = log("show", "--", wanted)

    assert done.stderr == f"error: The audit log has nothing about {wanted!r}. See `sealyard audit tail`.\n"
    assert done.returncode == 2


def test_show_warns_of_code_that_was_changed_or_is_gone(log: Command, path: Path) -> None:
    """The digest in the log tells."""
    execute(path, "UPDATE codes SET code = CAST('pay(1)' AS BLOB)")
    changed = log("show", "e1")
    execute(path, "PRAGMA foreign_keys = OFF")
    execute(path, "DELETE FROM codes")
    gone = log("show", "e1")

    assert changed.stderr == f"warning: The text of this code was changed: the log names the SHA-256 {CODE_SHA256}.\n"
    assert gone.stderr == f"warning: The text of the code with the SHA-256 {CODE_SHA256} is not kept any more.\n"


@pytest.mark.parametrize("arguments", [("tail",), ("show", "e1"), ("show", "7"), ("show", "e2")])
def test_nothing_from_an_agent_commands_the_terminal(log: Command, arguments: tuple[str, ...]) -> None:
    """No escape, no control character, no bidirectional override, and no line that an entry made up."""
    text = log(*arguments).stdout

    assert [each for each in text if (each < " " and each != "\n") or "\x7f" <= each < "\xa0" or each == "\u202e"] == []
    assert [line for line in text.splitlines() if line.split()[:2] == ["99", "fake"]] == []


# Verifying


def test_verify_says_how_much_is_right(log: Command, path: Path) -> None:
    """And that nobody gave it a head to compare."""
    done = log("verify")

    key = json.loads(log("head").stdout)["public_key"]
    assert (done.stdout, done.returncode) == (f"{DONE}{NO_HEAD}Signed by the key {key}.\n", 0)


def test_verify_names_the_first_wrong_number(log: Command, path: Path) -> None:
    """With exit code 1."""
    execute(path, "UPDATE audit SET principal = 'eve' WHERE number = 5")

    done, as_json = log("verify"), log("verify", "--json")

    problem = "Entry 5 was changed: its hash does not match its content and entry 4."
    assert (done.stdout, done.returncode) == (f"{problem}\n", 1)
    shown = json.loads(as_json.stdout)
    assert (shown["ok"], shown["first_wrong"], shown["problem"], as_json.returncode) == (False, 5, problem, 1)


def test_verify_compares_with_heads_that_were_kept(log: Command, path: Path, tmp_path: Path) -> None:
    """An older head is part of the log; one that is none is a mistake."""
    kept = tmp_path / "head.json"
    kept.write_text(log("head").stdout)
    record(path, [entry("call", "e4")])

    done = log("verify", "--head", str(kept), "--json")
    kept.write_text("{}")
    wrong = log("verify", "--head", str(kept))

    shown = json.loads(done.stdout)
    assert (shown["ok"], shown["entries"], shown["heads"], done.returncode) == (True, 11, 1, 0)
    assert wrong.stderr.startswith(f"error: {str(kept)!r} is not a head document: ")
    assert wrong.returncode == 2


def test_store_without_entries_is_right_and_has_no_head(sealyard: Command, tmp_path: Path) -> None:
    """There is nothing that could be wrong."""
    path = tmp_path / "empty.db"
    record(path, [])

    verified = sealyard("audit", "verify", "--store", str(path))
    head = sealyard("audit", "head", "--store", str(path))

    assert verified.stdout.splitlines()[0] == "0 entries verified, up to number 0."
    assert (verified.returncode, head.returncode) == (0, 2)
    assert head.stderr == "error: The audit log has no head: it is empty, or `sealyard audit verify` says why.\n"


def test_configured_store_is_used(sealyard: Command, path: Path, tmp_path: Path) -> None:
    """Without --store."""
    config = tmp_path / "sealyard.toml"
    config.write_text(f"[store]\npath = {json.dumps(str(path))}\n")

    assert sealyard("audit", "verify", "--config", str(config)).stdout.startswith(DONE)


# Exporting and pruning


def test_exported_segments_can_be_pruned_and_no_others(log: Command, path: Path, tmp_path: Path) -> None:
    """The file is proof of what is gone, and the store of what is left."""
    file = tmp_path / "log.jsonl"

    refused = log("prune", "--segment", "1")
    exported = log("export", "--segment", "1", "-o", str(file))
    pruned = log("prune", "--segment", "1")
    others = log("prune", "--before", "2100-01-01")
    left = json.loads(log("verify", "--json").stdout)
    checked = json.loads(log("verify", str(file), "--json").stdout)

    missing = (
        "error: Never exported: segment {}. Run `sealyard audit export -o FILE` first, or add --force to lose the"
        " entries.\n"
    )
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (refused.stderr, refused.returncode) == (missing.format(1), 2)
    assert exported.stdout == f"4 entries were exported. The SHA-256 of the file is {digest}.\n"
    assert pruned.stdout == "4 entries were pruned, and all that was signed about them is kept.\n"
    assert (others.stderr, others.returncode) == (missing.format(2), 2)
    assert [left[key] for key in ("ok", "entries", "removed_entries", "last_number")] == [True, 7, 4, 11]
    assert [checked[key] for key in ("ok", "entries", "last_number")] == [True, 4, 4]
    assert file.stat().st_mode & 0o777 == 0o600
    newest = json.loads(log("tail", "-n", "1", "--json").stdout)
    assert (newest["kind"], newest["principal"], newest["body"]["exported_sha256"]) == ("audit.prune", "local", digest)


def test_force_prunes_what_was_never_exported(log: Command) -> None:
    """All closed segments before a date, and none before an older one."""
    nothing = log("prune", "--before", "2020-01-01")
    done = log("prune", "--before", "2100-01-01", "--force")

    assert nothing.stdout == "0 entries were pruned, and all that was signed about them is kept.\n"
    assert done.stdout == "8 entries were pruned, and all that was signed about them is kept.\n"
    assert json.loads(log("verify", "--json").stdout)["removed_segments"] == 2


@pytest.mark.parametrize("segment", ["3", "4"])
def test_segment_that_is_not_closed_is_not_pruned(log: Command, segment: str) -> None:
    """Not even by force."""
    done = log("prune", "--segment", segment, "--force")

    assert done.stderr == f"error: Segment {segment} is not closed yet, was pruned before, or does not exist.\n"


@pytest.mark.parametrize("arguments", [("prune",), ("prune", "--segment", "1", "--before", "2100-01-01"),
                                       ("export", "--all", "--segment", "1")])  # fmt: skip
def test_options_that_contradict_each_other_are_refused(log: Command, arguments: tuple[str, ...]) -> None:
    """Nothing is guessed where something would be lost."""
    assert log(*arguments).returncode == 2


def test_log_that_is_wrong_is_exported_but_not_marked_nor_pruned(log: Command, path: Path, tmp_path: Path) -> None:
    """The evidence is kept where it is."""
    execute(path, "UPDATE audit SET principal = 'eve' WHERE number = 2")
    file = tmp_path / "log.jsonl"

    exported = log("export", "-o", str(file))
    pruned = log("prune", "--segment", "1", "--force")

    problem = "Entry 2 was changed: its hash does not match its content and entry 1."
    assert exported.stderr == f"What was exported is wrong, and not marked as exported. {problem}\n"
    assert pruned.stderr == f"Nothing was pruned, since the log is wrong. {problem}\n"
    assert (exported.returncode, pruned.returncode) == (1, 1)
    assert len(file.read_text().splitlines()) == 11
    assert len(log("tail", "--json").stdout.splitlines()) == 10


def test_export_writes_to_a_pipe_and_never_over_a_file(log: Command, tmp_path: Path) -> None:
    """A pipe gets the same lines, but nothing counts as exported: nobody knows where it went."""
    file = tmp_path / "log.jsonl"
    log("export", "-o", str(file))

    piped = log("export", "--all")
    again = log("export", "-o", str(file))

    assert piped.stdout.splitlines()[1:] == file.read_text().splitlines()[1:]
    assert again.stderr == f"error: {str(file)!r} exists already. Name another file.\n"
    assert [each.name for each in tmp_path.glob(".*.new")] == []


def test_lost_key_is_replaced_by_a_new_one_on_request(log: Command, path: Path) -> None:
    """Only if what it signed is right, or by force."""
    before = key_path(path).read_bytes()
    key_path(path).unlink()

    unverified = log("verify")
    done = log("rekey")
    after = log("verify")
    execute(path, "UPDATE audit SET principal = 'eve' WHERE number = 2")
    refused = log("rekey")
    forced = log("rekey", "--force")

    assert (
        unverified.stderr == "error: The audit key is gone. Name a head document by --head: it holds the public key.\n"
    )
    assert done.stdout == "The log is signed by a new key. Keep a new `sealyard audit head`.\n"
    assert after.stdout.startswith("11 entries verified, up to number 11.\n")
    assert key_path(path).read_bytes() != before
    assert refused.stderr == (
        "The key was not changed, since the log is wrong. Entry 2 was changed: its hash does not match its content"
        " and entry 1.\n"
    )
    assert [each.returncode for each in (unverified, done, after, refused, forced)] == [2, 0, 0, 1, 0]
