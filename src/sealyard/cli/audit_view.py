"""Audit entries on a terminal. Everything in them may come from an agent or an upstream, so nothing is obeyed."""

import hashlib
import sqlite3
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.text import Text

from sealyard.cli.terminal import columns, plain, screen, visible
from sealyard.store.audit import AuditRow

_LINE_CHARACTERS = 160
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ESCAPES = {code: f"\\u{code:04x}" for code in _BIDI} | {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
"""What would begin another line, or show the text in another order than it is written in."""


def show_line(row: AuditRow) -> None:
    """An entry on one line."""
    text = f"{row.number:>7}  {_time(row.at)}  {row.kind:<15}  {row.principal:<10}  {row.execution_id or '-'}  "
    said = _describe(row.body)
    if len(said) > _LINE_CHARACTERS:
        said = said[: _LINE_CHARACTERS - 1] + "…"
    screen.print(_cell(text) + _cell(said, "dim"), soft_wrap=True)


def show_entry(row: AuditRow) -> None:
    """All of an entry."""
    table = columns()
    for name in ("number", "segment", "kind", "principal", "session", "execution_id", "hash"):
        table.add_row(name, _cell(str(getattr(row, name))))
    table.add_row("at", _time(row.at))
    for name, value in row.body.items():
        table.add_row(_cell(f"  {name}"), _cell(value if isinstance(value, str) else _json(value)))
    screen.print(table)


def show_execution(rows: list[AuditRow], code: str | None) -> None:
    """Everything that the log says about one execution, in the order in which it was written."""
    table = columns()
    ended = next((row.body for row in rows if row.kind == "execution.end"), {})
    for name, value in {
        "execution": rows[0].execution_id,
        "principal": ", ".join(dict.fromkeys(row.principal for row in rows)),
        "session": ", ".join(dict.fromkeys(row.session for row in rows)),
        "began": _time(rows[0].at),
        "status": str(ended.get("status", "not ended")),
    }.items():
        table.add_row(name, _cell(value))
    screen.print(table)
    if code is not None:
        screen.print()
        for number, line in enumerate(code.split("\n"), 1):
            screen.print(plain(f"{number:>4}  ", "dim") + _cell(line), soft_wrap=True)
    screen.print()
    table = columns("number", "time", "kind", "what")
    for row in rows:
        table.add_row(str(row.number), _time(row.at), _cell(row.kind), _cell(_describe(row.body)))
    screen.print(table)


def find_code(connection: sqlite3.Connection, rows: list[AuditRow]) -> tuple[str | None, str]:
    """The code that these entries name, and what is wrong with it: it may be gone or changed."""
    named = next((row.body.get("code_sha256") for row in rows if row.kind == "execution.start"), None)
    if not isinstance(named, str):
        return None, ""
    row = connection.execute("SELECT code FROM codes WHERE sha256 = ?", (named,)).fetchone()
    if row is None:
        return None, f"The text of the code with the SHA-256 {named} is not kept any more."
    code = row[0] if isinstance(row[0], bytes) else str(row[0]).encode()
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
    return Text(visible(text).translate(_ESCAPES), style=style)


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):  # who can write the store can write any number
        return str(at)
