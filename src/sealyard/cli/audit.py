"""`sealyard audit`: read the audit log, prove that it is whole, and move parts of it elsewhere.

Everything in an entry may come from an agent or an upstream, so a terminal obeys nothing of it.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from sealyard.cli.command import CONFIG, EXISTING_FILE, JSON, KEPT, LOCAL, store_path, wants_json, with_store
from sealyard.cli.terminal import (
    columns,
    plain,
    progress,
    remark,
    say_unwrapped,
    screen,
    visible,
    warn,
    write,
    write_json,
)
from sealyard.disk import drafted
from sealyard.errors import InvalidRequest, StoreError
from sealyard.store import take_over
from sealyard.store.audit import (
    AuditHead,
    AuditSegment,
    AuditVerification,
    export_audit,
    open_log,
    verify_file,
    verify_store,
)
from sealyard.values.access import AUDIT_KINDS, AuditRow

_POLL_SECONDS = 0.5
"""Between looks of `tail -f`: a person does not notice a shorter wait."""
_PAGE = 1000
"""Entries per look, so that one look fits into memory."""
_DIGITS = 18
"""A number of fewer digits fits SQLite's 64 bits."""
_LINE_CHARACTERS = 160
"""Of an entry in `tail`: two lines of a terminal."""
_ESCAPES = {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
"""An entry is one line."""


_STORE = click.option(
    "--store", type=EXISTING_FILE, metavar="FILE", help="Another store than the configured one, such as a copy.", **KEPT
)


def _find_store() -> Path:
    path = store_path().resolve()
    take_over(path)
    return path


@click.group()
def audit() -> None:
    """Show who ran what and what was decided, and prove that nobody changed it."""


@audit.command()
@click.option("-n", "count", type=click.IntRange(0, 1_000_000), default=20, show_default=True, help="How many entries.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
@click.option("--principal", metavar="NAME", help="Only entries of this principal.")
@click.option("--kind", type=click.Choice(sorted(AUDIT_KINDS)), metavar="KIND", help="Only entries of this kind.")
@click.option("--json", is_flag=True, help="Print one JSON object a line.", **KEPT)
@_STORE
@CONFIG
def tail(*, count: int, follow: bool, principal: str | None, kind: str | None) -> None:
    """Print the newest entries, the newest last."""
    store = _find_store()
    with open_log(store) as log:
        last = log.last_number()
        rows = log.entries(limit=count, principal=principal, kind=kind)[::-1]
    while True:
        for row in rows:
            if wants_json():
                write_json(row)
            else:
                _show_line(row)
        if not follow:
            return
        if len(rows) < _PAGE:
            time.sleep(_POLL_SECONDS)
        with open_log(store) as log:
            rows = log.entries(limit=_PAGE, principal=principal, kind=kind, after=last)
            last = rows[-1].number if len(rows) == _PAGE else log.last_number()


@audit.command()
@click.argument("wanted", metavar="EXECUTION_ID|NUMBER")
@JSON
@_STORE
@CONFIG
def show(*, wanted: str) -> None:
    """Print all about one execution, with its code, or one entry by its number."""
    with open_log(_find_store()) as log:
        rows = log.entries(limit=sys.maxsize, execution_id=wanted, after=0)
        is_execution = bool(rows)
        if not rows and wanted.isascii() and wanted.isdecimal() and len(wanted) < _DIGITS:
            rows = [row for row in log.entries(limit=1, before=int(wanted) + 1) if row.number == int(wanted)]
        code, warning = _read_code(rows, log.find_code)
    if not rows:
        raise InvalidRequest(f"The audit log has nothing about {wanted!r}. See `sealyard audit tail`.")
    if wants_json():
        write_json({"code": code, "entries": rows})
    elif is_execution:
        _show_execution(rows, code)
    else:
        _show_entry(rows[0])
    if warning:
        warn(warning)


@audit.command()
@click.argument("file", required=False, type=EXISTING_FILE)
@click.option(
    "--head", "heads", type=EXISTING_FILE, multiple=True, metavar="FILE", help="A kept `audit head`; again for more."
)
@JSON
@_STORE
@CONFIG
def verify(*, file: Path | None, heads: tuple[Path, ...]) -> int:
    """Prove that no entry of the log, or of an exported FILE, was changed, removed, inserted or moved.

    That a store was not put back to an older state is proved only against a head that was kept elsewhere.

    Exit code 0: all is right; 1: something is not.
    """
    kept = [_read_document(head) for head in heads]
    with _progress("checking") as on_progress:
        if file is not None:
            found = verify_file(file, heads=kept, on_progress=on_progress)
        else:
            found = verify_store(_find_store(), heads=kept, on_progress=on_progress)
    if wants_json():
        write_json({"ok": not found.problem} | msgspec.structs.asdict(found))
    else:
        _show_verification(found, file)
    return 1 if found.problem else 0


@audit.command()
@_STORE
@CONFIG
def head() -> None:
    """Print the signed head, to be kept where nobody who can write the store can change it."""
    with open_log(_find_store()) as log:
        found = log.head()
    if found is None:
        raise InvalidRequest("The audit log has no head: it is empty, or `sealyard audit verify` says why.")
    if not found.is_signed():
        raise StoreError("The head of the audit log is not signed by its key. Run `sealyard audit verify`.")
    write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")


@audit.command()
@click.option("--segment", type=click.IntRange(1), metavar="N", help="Only this segment.")
@click.option("--all", "is_all", is_flag=True, help="The whole log; so it is without --segment.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A new file; else stdout.")
@_STORE
@CONFIG
def export(*, segment: int | None, is_all: bool, output: Path | None) -> int:
    """Write the log as JSON lines that `sealyard audit verify FILE` can check alone.

    Segments that were exported to a file may be pruned.
    """
    if is_all and segment is not None:
        raise click.UsageError("--all and --segment exclude each other.")
    store = _find_store()
    if output is None:
        if sys.stdout.isatty():
            raise InvalidRequest("An audit log is not for a terminal. Name a file by -o, or use `sealyard audit tail`.")
        with _progress("exporting") as on_progress:
            export_audit(store, sys.stdout.buffer, segment=segment, on_progress=on_progress)
        return 0
    return _export_to_file(store, output, segment)


@audit.command()
@click.option("--before", type=click.DateTime(), metavar="DATE", help="Segments that were closed before (UTC).")
@click.option(
    "--segment", "numbers", type=click.IntRange(1), multiple=True, metavar="N", help="This one; again for more."
)
@click.option("--force", is_flag=True, help="Also what was never exported. It is gone for good.")
@_STORE
@CONFIG
def prune(*, before: datetime | None, numbers: tuple[int, ...], force: bool) -> int:
    """Remove the entries of closed segments that were exported. The log can still be verified."""
    if (before is None) == (not numbers):
        raise click.UsageError("Name either --before or --segment.")
    store = _find_store()
    with _progress("checking") as on_progress:
        found = verify_store(store, on_progress=on_progress)
    if found.problem:
        remark(f"Nothing was pruned, since the log is wrong. {found.problem}", "red")
        return 1
    with open_log(store) as log:
        segments = _choose(log.segments(), before, numbers, force=force)

    if segments:
        removed = [each.segment for each in segments]
        with_store(store, lambda opened: opened.prune_audit(removed, principal=LOCAL))
    count = sum(each.last_number - each.first_number + 1 for each in segments)
    say_unwrapped(f"{count:,} entries were pruned, and all that was signed about them is kept.")
    return 0


@audit.command()
@click.option("--force", is_flag=True, help="Even if the log cannot be verified.")
@_STORE
@CONFIG
def rekey(*, force: bool) -> int:
    """Sign the log with a new key, after the old one was lost or seen.

    Heads that were kept before do not fit the new key: keep a new one.
    """
    store = _find_store()
    with open_log(store) as log:
        signed = log.head()
    if not force:
        # Without its key a log can only be compared with the key that it names itself.
        heads = [signed] if signed is not None and signed.is_signed() else []
        with _progress("checking") as on_progress:
            found = verify_store(store, heads=heads, on_progress=on_progress)
        if found.problem:
            remark(f"The key was not changed, since the log is wrong. {found.problem}", "red")
            return 1
    with_store(store, lambda opened: opened.rekey_audit(principal=LOCAL))
    say_unwrapped("The log is signed by a new key. Keep a new `sealyard audit head`.")
    return 0


def _show_verification(found: AuditVerification, file: Path | None) -> None:
    if found.problem:
        say_unwrapped(found.problem, "red")
        return
    say_unwrapped(f"{found.entries:,} entries verified, up to number {found.last_number:,}.", "green")
    if found.removed_entries:
        say_unwrapped(f"{found.removed_entries:,} more were pruned; what was signed about their segments fits.")
    if found.heads:
        say_unwrapped(f"Head documents that are part of this log: {found.heads}.")
    else:
        say_unwrapped(
            f"No --head was given: this may be {'the log of another key' if file else 'an older state'}.", "yellow"
        )
    if found.heads_elsewhere:
        say_unwrapped(
            f"Head documents of entries that are not here: {found.heads_elsewhere}. Check an exported file.", "yellow"
        )
    if found.codes_missing:
        say_unwrapped(f"Entries that name code whose text is not kept: {found.codes_missing:,}.", "yellow")
    if found.public_key:
        say_unwrapped(f"Signed by the key {found.public_key}.", "dim")


def _export_to_file(store: Path, output: Path, segment: int | None) -> int:
    if output.exists():
        raise InvalidRequest(f"{str(output)!r} exists already. Name another file.")
    try:
        with drafted(output) as file:
            with _progress("exporting") as on_progress:
                done = export_audit(store, file, segment=segment, on_progress=on_progress)
            file.flush()
            with _progress("checking") as on_progress:
                found = verify_file(Path(file.name), on_progress=on_progress)
    except OSError as error:
        raise InvalidRequest(f"{str(output)!r} cannot be written: {error.strerror}. Name another file.") from error
    if found.problem:
        remark(f"What was exported is wrong, and not marked as exported. {found.problem}", "red")
        return 1
    with_store(store, lambda opened: opened.mark_audit_exported(done.segments, done.sha256))
    say_unwrapped(f"{done.entries:,} entries were exported. The SHA-256 of the file is {done.sha256}.")
    return 0


def _choose(
    segments: list[AuditSegment], before: datetime | None, numbers: tuple[int, ...], *, force: bool
) -> list[AuditSegment]:
    kept = {each.segment: each for each in segments if not each.removed_at_microseconds}
    for number in numbers:
        if number not in kept:
            raise InvalidRequest(f"Segment {number} is not closed yet, was pruned before, or does not exist.")
    if before is None:
        chosen = [kept[number] for number in dict.fromkeys(numbers)]
    else:
        limit = before.replace(tzinfo=UTC).timestamp() * 1e6
        chosen = [each for each in kept.values() if each.closed_at_microseconds < limit]
    missing = [str(each.segment) for each in chosen if not each.exported_sha256]
    if missing and not force:
        raise InvalidRequest(
            f"Never exported: segment {', '.join(missing)}. Run `sealyard audit export -o FILE` first, or add --force"
            " to lose the entries."
        )
    return chosen


def _read_document(file: Path) -> AuditHead:
    try:
        return msgspec.json.decode(file.read_bytes(), type=AuditHead)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidRequest(
            f"{str(file)!r} is not a head document: {error}. Use what `sealyard audit head` prints."
        ) from None


@contextmanager
def _progress(step: str) -> Iterator[Callable[[int, int], None]]:
    with progress() as report:
        yield lambda done, last: report(step, done, last)


# Entries on a terminal


def _show_line(row: AuditRow) -> None:
    text = f"{row.number:>7}  {_time(row.at)}  {row.kind:<15}  {row.principal:<10}  {row.execution_id or '-'}  "
    said = _describe(row.body)
    if len(said) > _LINE_CHARACTERS:
        said = said[: _LINE_CHARACTERS - 1] + "…"
    screen.print(_cell(text) + _cell(said, "dim"), soft_wrap=True)


def _show_entry(row: AuditRow) -> None:
    names = ("number", "segment", "kind", "principal", "session", "execution_id", "hash")
    rows = [(_cell(name), _cell(str(getattr(row, name)))) for name in names]
    rows.append((_cell("at"), _cell(_time(row.at))))
    for name, value in row.body.items():
        rows.append((_cell(f"  {name}"), _cell(value if isinstance(value, str) else _json(value))))
    screen.print(columns(rows=rows))


def _show_execution(rows: list[AuditRow], code: str | None) -> None:
    """Show the entries of one execution, in the order in which they were written."""
    ended = next((row.body for row in rows if row.kind == "execution.end"), {})
    facts = {
        "execution": rows[0].execution_id,
        "principal": ", ".join(dict.fromkeys(row.principal for row in rows)),
        "session": ", ".join(dict.fromkeys(row.session for row in rows)),
        "began": _time(rows[0].at),
        "status": str(ended.get("status", "not ended")),
    }
    screen.print(columns(rows=[(name, _cell(value)) for name, value in facts.items()]))
    if code is not None:
        screen.print()
        for number, line in enumerate(code.split("\n"), 1):
            screen.print(plain(f"{number:>4}  ", "dim") + _cell(line), soft_wrap=True)
    screen.print()
    cells = ((str(row.number), _time(row.at), _cell(row.kind), _cell(_describe(row.body))) for row in rows)
    screen.print(columns("number", "time", "kind", "what", rows=cells))


def _read_code(rows: list[AuditRow], find: Callable[[str], bytes | None]) -> tuple[str | None, str]:
    """Return the code that these entries name, and a warning if it is gone or changed."""
    named = next((row.body.get("code_sha256") for row in rows if row.kind == "execution.start"), None)
    if not isinstance(named, str):
        return None, ""
    code = find(named)
    if code is None:
        return None, f"The text of the code with the SHA-256 {named} is not kept any more."
    is_right = hashlib.sha256(code).hexdigest() == named
    warning = "" if is_right else f"The text of this code was changed: the log names the SHA-256 {named}."
    return code.decode("utf-8", "backslashreplace"), warning


def _describe(body: dict[str, Any]) -> str:
    return "  ".join(
        f"{name}={value if isinstance(value, str) and value.isprintable() and ' ' not in value else _json(value)}"
        for name, value in body.items()
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _cell(text: str, style: str = "") -> Text:
    return Text(visible(text.translate(_ESCAPES)), style=style)


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):  # whoever can write the store can write any number
        return str(at)
