"""The state of every alert and the silences, shared by every gateway that has the store open.

A look at the alerts is one transaction: what two gateways see at once is told by one of them. An alert that its gateway
did not come to tell, because it ended, is told by the next one that looks.
"""

import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from sealyard.errors import InvalidRequest, StoreError
from sealyard.metrics.alerts import FAILED, RULES, Alert, Finding, Key, advance, is_due, resolve
from sealyard.store.database import Reader
from sealyard.store.gateways import is_alive
from sealyard.store.writer import Writer

_ROW_BYTES = 1024
_KEPT_SECONDS = 30 * 86_400.0
"""How long an alert that is over is still listed."""
_COLUMNS = "rule, subject, state, value, threshold, message, since, changed_at, seen_by, delivery"


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule about which nobody is told until some time."""

    rule: str
    until: float
    principal: str
    reason: str = ""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at the alerts came to."""

    alerts: dict[Key, Alert]
    """All of them, as they are from then on."""
    due: list[Alert]
    """Those that this gateway is to tell."""
    silenced: frozenset[str]
    """The rules about which nobody is told."""


class AlertTable:
    """The alerts of one store."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    @property
    def owner(self) -> str:
        """The id under which this gateway sees and tells alerts."""
        return self._writer.owner

    async def apply(
        self,
        findings: Iterable[Finding],
        judged: Collection[str],
        *,
        now: float,
        for_seconds: float,
        adopted: Mapping[Key, Alert] | None = None,
    ) -> Looked:
        """Take over, durably, what is wrong now.

        `adopted` are alerts that changed while the store could not be written. Raises `StoreError`: nothing of it is
        written later.
        """
        look = _Look(tuple(findings), frozenset(judged), now, for_seconds, self.owner, dict(adopted or {}))
        self._writer.put(look.write, _ROW_BYTES)
        try:
            await self._writer.flush()
        except StoreError:
            look.is_dropped = True
            raise
        return Looked(alerts=look.alerts, due=look.due, silenced=look.silenced)

    def note_told(self, alert: Alert, *, is_delivered: bool) -> None:
        """Record that a change was told, or that nobody took it. Only enqueues."""
        delivery = "" if is_delivered else FAILED
        self._writer.put(partial(_write_told, alert=alert, owner=self.owner, delivery=delivery), _ROW_BYTES)

    async def alerts(self) -> list[Alert]:
        """All alerts: those that fire first, then those that wait, then those that are over; the newest first."""
        order = ("firing", "pending", "resolved")
        found = (await self._reader.read(_read_alerts)).values()
        return sorted(found, key=lambda each: (order.index(each.state), -each.changed_at, each.rule, each.subject))

    async def resolve(self, rule: str, subject: str = "") -> Alert:
        """Set an alert to resolved, durably, and return it as it is then; its `delivery` says who is to tell it.

        Raises:
            InvalidRequest: There is no such rule, or no such alert.
        """
        _check_rule(rule)
        found: list[Alert | None] = []
        self._writer.put(
            partial(_resolve, key=(rule, subject), now=time.time(), owner=self.owner, found=found), _ROW_BYTES
        )
        await self._writer.flush()
        alert = found[-1]
        if alert is None:
            about = f" about {subject!r}" if subject else ""
            others = sorted(each.subject for each in await self.alerts() if each.rule == rule and each.subject)
            known = (
                f"There is one about {', '.join(map(repr, others))}."
                if others
                else "`sealyard alerts` lists those that are."
            )
            raise InvalidRequest(f"There is no alert {rule!r}{about}. {known}")
        return alert

    async def silence(self, silence: Silence) -> None:
        """Tell nobody about a rule until then, durably, in place of an earlier silence. Raises `InvalidRequest`."""
        _check_rule(silence.rule)
        self._writer.put(partial(_write_silence, silence=silence), _ROW_BYTES)
        await self._writer.flush()

    async def unsilence(self, rule: str) -> None:
        """End a silence, durably.

        Raises:
            InvalidRequest: There is no such rule, or it is not silenced.
        """
        _check_rule(rule)
        removed: list[int] = []
        self._writer.put(partial(_delete_silence, rule=rule, removed=removed), _ROW_BYTES)
        await self._writer.flush()
        if not removed[-1]:
            raise InvalidRequest(f"{rule!r} is not silenced. `sealyard alerts` lists what is.")

    async def silences(self) -> list[Silence]:
        """Those that are not over, by rule."""
        return await self._reader.read(_read_silences, time.time())


class _Look:
    """One transaction over all alerts. It may be run again if it fails, so it starts from what is stored."""

    def __init__(
        self,
        findings: tuple[Finding, ...],
        judged: frozenset[str],
        now: float,
        for_seconds: float,
        owner: str,
        adopted: Mapping[Key, Alert],
    ) -> None:
        self._findings = findings
        self._judged = judged
        self._now = now
        self._for_seconds = for_seconds
        self._owner = owner
        self._adopted = adopted
        self.is_dropped = False
        self.alerts: dict[Key, Alert] = {}
        self.due: list[Alert] = []
        self.silenced: frozenset[str] = frozenset()

    def write(self, connection: sqlite3.Connection) -> None:
        if self.is_dropped:  # what was seen then says nothing about now
            return
        path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        for alert in self._adopted.values():
            _write_alert(connection, alert)
        connection.execute(
            "DELETE FROM alerts WHERE state = 'resolved' AND seen_by = '' AND changed_at < ?",
            (self._now - _KEPT_SECONDS,),
        )
        self.alerts = _read_alerts(connection)
        self.silenced = frozenset(silence.rule for silence in _read_silences(connection, self._now))
        changes = advance(
            self.alerts,
            self._findings,
            self._judged,
            now=self._now,
            for_seconds=self._for_seconds,
            owner=self._owner,
            is_alive=lambda owner: owner == self._owner or is_alive(path, owner),
            silenced=self.silenced,
        )
        before = dict(self.alerts)
        for change in changes:
            if isinstance(change, Alert):
                self.alerts[change.rule, change.subject] = change
                _write_alert(connection, change)
            else:
                del self.alerts[change]
                connection.execute("DELETE FROM alerts WHERE rule = ? AND subject = ?", change)
        self.due = [
            each
            for each in changes
            if isinstance(each, Alert) and is_due(each, before.get((each.rule, each.subject)), owner=self._owner)
        ]


# In the store's threads


def _read_alerts(connection: sqlite3.Connection) -> dict[Key, Alert]:
    found = {}
    for row in connection.execute(f"SELECT {_COLUMNS} FROM alerts"):  # noqa: S608 - our own names
        values = dict(zip(_COLUMNS.split(", "), row, strict=True))
        values["seen_by"] = tuple(values["seen_by"].split())
        alert = msgspec.convert(values, Alert)
        found[alert.rule, alert.subject] = alert
    return found


def _write_alert(connection: sqlite3.Connection, alert: Alert) -> None:
    values = [*msgspec.structs.astuple(alert)]
    values[_COLUMNS.split(", ").index("seen_by")] = " ".join(alert.seen_by)
    connection.execute(
        f"INSERT OR REPLACE INTO alerts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        values,
    )


def _write_told(connection: sqlite3.Connection, alert: Alert, owner: str, delivery: str) -> None:
    connection.execute(
        "UPDATE alerts SET delivery = ? WHERE rule = ? AND subject = ? AND changed_at = ? AND delivery = ?",
        (delivery, alert.rule, alert.subject, alert.changed_at, owner),
    )


def _resolve(connection: sqlite3.Connection, key: Key, now: float, owner: str, found: list[Alert | None]) -> None:
    before = _read_alerts(connection).get(key)
    if before is None:
        found.append(None)
        return
    after = resolve(before, now=now, owner=owner)
    if after != before:
        _write_alert(connection, after)
    found.append(after)


def _read_silences(connection: sqlite3.Connection, now: float) -> list[Silence]:
    query = "SELECT rule, until, principal, reason FROM alert_silences WHERE until > ? ORDER BY rule"
    return [
        Silence(rule=rule, until=until, principal=principal, reason=reason)
        for rule, until, principal, reason in connection.execute(query, (now,))
    ]


def _write_silence(connection: sqlite3.Connection, silence: Silence) -> None:
    connection.execute("DELETE FROM alert_silences WHERE until <= ?", (time.time(),))
    connection.execute(
        "INSERT OR REPLACE INTO alert_silences (rule, until, principal, reason) VALUES (?, ?, ?, ?)",
        (silence.rule, silence.until, silence.principal, silence.reason),
    )


def _delete_silence(connection: sqlite3.Connection, rule: str, removed: list[int]) -> None:
    gone = connection.execute("DELETE FROM alert_silences WHERE rule = ? AND until > ?", (rule, time.time()))
    removed.append(gone.rowcount)


def _check_rule(rule: str) -> None:
    if rule not in RULES:
        raise InvalidRequest(f"No alert is named {rule[:100]!r}. There are: {', '.join(RULES)}.")
