"""Asks and their answers, shared by every gateway and command that has the store open.

The first answer to an ask holds; a later one returns the first. An ask belongs to the gateway that asks; when that is
gone, nobody waits for an answer.
"""

import asyncio
import sqlite3
import time
from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.store.database import path_of
from sealyard.store.gateways import is_alive
from sealyard.store.table import Table, reads, writes
from sealyard.store.writer import ROW_BYTES
from sealyard.values.access import Approval, ApprovalChannel, ApprovalRequest, Remembered
from sealyard.values.documents import is_large

_ASK_BYTES = 64 << 10
"""The bytes of an ask in a list: a hundred of them fit into a page of the dashboard."""
_WHOLE_BYTES = 8 << 20
"""The largest ask: nobody reads more before an approval, and it is written in one transaction."""
_VALUE_CHARACTERS = 1_000  # of an argument, and of its name
_VALUES = 50
"""The arguments that an ask over `_ASK_BYTES` shows in a list, and characters of each: together below that limit."""
_KEPT_SECONDS = 86_400.0
"""The time for which a finished ask differs from an unknown one. The audit log keeps all of them."""

_ASKS = msgspec.json.Decoder(ApprovalRequest)
_APPROVALS = msgspec.json.Decoder(Approval)


# In the store's threads


def _write_ask(connection: sqlite3.Connection, ask: ApprovalRequest, text: str, whole: str | None, owner: str) -> None:
    # Answered or not: a killed gateway leaves asks that nobody can answer.
    connection.execute("DELETE FROM approvals WHERE expires_at < ?", (ask.asked_at - _KEPT_SECONDS,))
    connection.execute(
        "INSERT INTO approvals (id, owner, principal, tool, arguments_sha256, ask, whole, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (ask.id, owner, ask.principal, ask.tool, ask.arguments_sha256, text, whole, ask.expires_at),
    )


def _settle(connection: sqlite3.Connection, ask_id: str, approval: Approval, own: str) -> Approval | str | None:
    """Answer an ask if it is open, and return the answer that holds: as text if it was stored before.

    Raises `InvalidRequest` for an answer that an open ask does not take.
    """
    query = "SELECT owner, expires_at, approval, ask FROM approvals WHERE id = ?"
    row = connection.execute(query, (ask_id,)).fetchone()
    if row is None:
        return None
    owner, expires_at, answer, text = row
    if answer is not None:
        return str(answer)
    if owner != own and not is_alive(path_of(connection), owner):
        approval = _nobody("withdrawn", "its gateway is gone")
    elif approval.by != "nobody":
        # By the clock here too: the time in the answer is the claim of another process.
        if max(approval.answered_at, time.time()) >= expires_at:
            approval = _nobody("expired", "nobody answered in time")
        else:
            _ASKS.decode(text).check(approval)
    connection.execute("UPDATE approvals SET approval = ? WHERE id = ?", (_text(approval), ask_id))
    if approval.decision == "always" and approval.channel != "remembered":
        # The newest counts: an older one may have come through a channel that counts no more.
        connection.execute(
            "INSERT INTO approvals_remembered (principal, tool, arguments_sha256, id, ask, whole, approval)"
            " SELECT principal, tool, arguments_sha256, id, ask, whole, approval FROM approvals WHERE id = ?"
            " ON CONFLICT (principal, tool, arguments_sha256) DO UPDATE SET id = excluded.id, ask = excluded.ask,"
            " whole = excluded.whole, approval = excluded.approval",
            (ask_id,),
        )
    connection.execute("UPDATE approvals SET whole = NULL WHERE id = ?", (ask_id,))  # nobody reads it any more
    return approval


def _read_waiting(connection: sqlite3.Connection) -> list[ApprovalRequest]:
    """The open asks of all live gateways, the oldest first."""
    query = "SELECT owner, ask FROM approvals WHERE approval IS NULL AND expires_at > ?"
    rows = connection.execute(query, (time.time(),)).fetchall()
    path = path_of(connection)
    alive = {owner for owner in {owner for owner, _ in rows} if is_alive(path, owner)}
    asks = [_ASKS.decode(text) for owner, text in rows if owner in alive]
    return sorted(asks, key=lambda ask: (ask.asked_at, ask.id))


def _read_whole(connection: sqlite3.Connection, ask_id: str) -> ApprovalRequest | None:
    """An open or always-approved ask, with all of its arguments."""
    row = connection.execute(
        "SELECT coalesce(whole, ask) FROM approvals WHERE id = :id AND approval IS NULL"
        " UNION ALL SELECT coalesce(whole, ask) FROM approvals_remembered WHERE id = :id",
        {"id": ask_id},
    ).fetchone()
    return None if row is None else _ASKS.decode(row[0])


def _read_answers(connection: sqlite3.Connection, ask_ids: Collection[str]) -> dict[str, Approval]:
    """The answers to those of the asks that are answered."""
    query = "SELECT id, approval FROM approvals WHERE id = ? AND approval IS NOT NULL"
    rows = (connection.execute(query, (ask_id,)).fetchone() for ask_id in ask_ids)
    return {row[0]: _APPROVALS.decode(row[1]) for row in rows if row is not None}


def _read_always(connection: sqlite3.Connection, ask: ApprovalRequest) -> Approval | None:
    """The approval that a person who may answer `ask` gave forever to its principal, tool and arguments."""
    query = "SELECT ask, approval FROM approvals_remembered WHERE principal = ? AND tool = ? AND arguments_sha256 = ?"
    row = connection.execute(query, (ask.principal, ask.tool, ask.arguments_sha256)).fetchone()
    found = None if row is None else _to_remembered(*row)
    return found.approval if found is not None and found.counts and ask.takes(found.approval) else None


def _read_remembered(connection: sqlite3.Connection) -> list[Remembered]:
    """All calls that are always approved, the oldest first."""
    rows = connection.execute("SELECT ask, approval FROM approvals_remembered").fetchall()
    found = [_to_remembered(ask, approval) for ask, approval in rows]
    return sorted(found, key=lambda each: (each.approval.answered_at, each.ask.id))


class _Answerable(msgspec.Struct):
    channels: tuple[ApprovalChannel, ...] = ("operator",)
    """Older asks name none. A program at the client could answer those, so operators alone count."""


def _to_remembered(ask: str, approval: str) -> Remembered:
    answerable = msgspec.json.decode(ask, type=_Answerable)
    asked = msgspec.structs.replace(_ASKS.decode(ask), channels=answerable.channels)
    return Remembered(ask=asked, approval=_APPROVALS.decode(approval))


def _delete_remembered(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Forget the approvals given forever to these asks, durably."""
    connection.executemany("DELETE FROM approvals_remembered WHERE id = ?", [(each,) for each in ids])


def _nobody(channel: str, reason: str) -> Approval:
    return Approval(decision="refuse", by="nobody", channel=channel, reason=reason, answered_at=time.time())


def _encode(ask: ApprovalRequest) -> tuple[ApprovalRequest, str, str | None]:
    """The ask for a list, its JSON, and the JSON of all of it if that is longer.

    Raises:
        InvalidRequest: It is longer than a person reads, or its JSON could not be read again.
    """
    try:
        whole = _text(ask)
        read = _ASKS.decode(whole)
    except (ValueError, TypeError, RecursionError):  # too deep, or a number of thousands of digits
        raise InvalidRequest("Its arguments are nested too deeply to be shown to a person") from None
    if len(whole) > _WHOLE_BYTES:
        raise InvalidRequest(
            f"Its arguments have {len(whole):,} characters, more than the {_WHOLE_BYTES:,} that a person is shown"
        )
    if len(whole) <= _ASK_BYTES:
        return read, whole, None
    shown = _cut(read)
    return shown, _text(shown), whole


def _cut(ask: ApprovalRequest) -> ApprovalRequest:
    """The ask for a list: the beginning of each argument, so that a long one cannot hide another."""
    arguments = ask.arguments if isinstance(ask.arguments, dict) else {"arguments": ask.arguments}
    kept: dict[str, Any] = {}
    cut: dict[str, int] = {}
    for name, value in list(arguments.items())[:_VALUES]:
        text = _text(value)
        short = name[:_VALUE_CHARACTERS]
        if short in kept:  # counted below: it must not take the place of the other
            continue
        if len(text) <= _VALUE_CHARACTERS:
            kept[short] = value
        else:
            kept[short] = (value if isinstance(value, str) else text)[:_VALUE_CHARACTERS]
            cut[short] = len(text)
    if len(arguments) > len(kept):
        cut["…"] = len(arguments) - len(kept)
    return msgspec.structs.replace(ask, arguments=kept, cut=cut)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class ApprovalTable(Table):
    """The asks of one store."""

    async def add(self, ask: ApprovalRequest) -> ApprovalRequest:
        """Keep an ask of this gateway, durably, and return it as lists have it: with long arguments cut.

        Raises:
            InvalidRequest: Its arguments are too large or too deep to be shown to a person.
            StoreError: It could not be kept.
        """
        is_much = isinstance(ask.arguments, msgspec.Raw) or is_large(ask.arguments, _ASK_BYTES)
        shown, text, whole = await asyncio.to_thread(_encode, ask) if is_much else _encode(ask)
        work = partial(_write_ask, ask=shown, text=text, whole=whole, owner=self._writer.owner)
        await self._writer.change(work, len(text) + len(whole or ""))
        return shown

    async def settle(self, ask_id: str, approval: Approval) -> Approval | None:
        """Answer an ask, durably, and return the answer that holds: `approval`, unless another came first.

        None if there is no such ask. `always` is remembered in the same transaction.

        Raises:
            InvalidRequest: An open ask does not take the answer; see `ApprovalRequest.check`.
            StoreError: The answer could not be kept.
        """
        held = await self._writer.change(partial(_settle, ask_id=ask_id, approval=approval, own=self._writer.owner))
        return _APPROVALS.decode(held) if isinstance(held, str) else held

    def withdraw(self, ask_id: str, reason: str) -> None:
        """Withdraw an unanswered ask of this gateway. Only enqueues, so it works while the gateway ends."""
        approval = _nobody("withdrawn", reason)
        self._writer.put(partial(_settle, ask_id=ask_id, approval=approval, own=self._writer.owner), ROW_BYTES)

    waiting = reads(_read_waiting)
    find_whole = reads(_read_whole)
    answers = reads(_read_answers)
    find_always = reads(_read_always)
    remembered = reads(_read_remembered)
    forget = writes(_delete_remembered)
