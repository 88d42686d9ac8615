"""Alerts and silences as rows, shared by all gateways that have the store open.

A change of the alerts is one transaction, so that one gateway alone delivers what two of them see at the same time.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from sealyard.errors import StoreError
from sealyard.store.database import Reader
from sealyard.store.gateways import is_alive
from sealyard.store.writer import Writer

AlertState = Literal["pending", "firing", "resolved"]
Key = tuple[str, str]
"""Rule and subject."""

SILENCED = "silenced"
"""As `Alert.delivery`: it fires, and is delivered when the silence ends if it still does."""
FAILED = "failed"
"""As `Alert.delivery`: the webhook did not take it."""

_ROW_BYTES = 1024
"""The writer's estimate for one change: a few rows of a sentence each."""
_KEPT_SECONDS = 30 * 86_400.0
"""A resolved alert is listed for a month, as the longest silence lasts."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a rule and a subject. Its fields are the columns of the table."""

    rule: str
    subject: str = ""
    state: AlertState
    value: float | None = None
    threshold: float | None = None
    message: str
    since: float
    """The first time it was seen."""
    changed_at: float
    """The last change of `state`."""
    seen_by: tuple[str, ...] = ()
    """Ids of the gateways that see it. A resolved alert has some if a person resolved it while it lasts."""
    delivery: str = ""
    """Empty if there is nothing to deliver, the id of the gateway that delivers it, `silenced` or `failed`."""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule whose alerts are not delivered until some time."""

    rule: str
    until: float
    principal: str
    reason: str = ""


class AlertChange(msgspec.Struct, frozen=True, kw_only=True):
    """The alerts before and after one change, and the rules that are silenced."""

    before: dict[Key, Alert]
    after: dict[Key, Alert]
    silenced: frozenset[str]


Step = Callable[[dict[Key, Alert], frozenset[str], Callable[[str], bool]], Mapping[Key, Alert]]
"""All alerts, the silenced rules and a check whether a gateway still runs -> all alerts from then on."""


class AlertTable:
    """The alerts of one store."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    @property
    def owner(self) -> str:
        """The id under which this gateway sees and delivers alerts."""
        return self._writer.owner

    async def change(self, step: Step, *, now: float, adopted: Iterable[Alert] = ()) -> AlertChange:
        """Replace all alerts by what `step` returns for them, durably. `adopted` replace those stored before that.

        `step` runs in the store's thread, and again if the transaction is repeated.

        Raises:
            StoreError: The change is not written, now or later.
        """
        adopted = tuple(adopted)
        done: list[AlertChange] = []
        is_dropped = False

        def write(connection: sqlite3.Connection) -> None:
            if is_dropped:  # what was seen then says nothing about now
                return
            path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
            for alert in adopted:
                _write_alert(connection, alert)
            connection.execute(
                "DELETE FROM alerts WHERE state = 'resolved' AND seen_by = '' AND changed_at < ?",
                (now - _KEPT_SECONDS,),
            )
            before = _read_alerts(connection)
            silenced = frozenset(silence.rule for silence in _read_silences(connection, now))
            after = dict(step(before, silenced, lambda owner: owner == self.owner or is_alive(path, owner)))
            connection.executemany("DELETE FROM alerts WHERE rule = ? AND subject = ?", before.keys() - after.keys())
            for key, alert in after.items():
                if alert != before.get(key):
                    _write_alert(connection, alert)
            done.append(AlertChange(before=before, after=after, silenced=silenced))

        self._writer.put(write, _ROW_BYTES)
        try:
            await self._writer.flush()
        except StoreError:
            is_dropped = True
            raise
        return done[-1]

    def note_delivery(self, alert: Alert, *, is_delivered: bool) -> None:
        """Record that the webhook took a change, or that it did not. Only enqueues."""
        row = ("" if is_delivered else FAILED, alert.rule, alert.subject, alert.changed_at, self.owner)
        query = "UPDATE alerts SET delivery = ? WHERE rule = ? AND subject = ? AND changed_at = ? AND delivery = ?"

        def update(connection: sqlite3.Connection) -> None:
            connection.execute(query, row)

        self._writer.put(update, _ROW_BYTES)

    async def alerts(self) -> list[Alert]:
        """All alerts: firing, then pending, then resolved; the newest first."""
        order = ("firing", "pending", "resolved")
        found = (await self._reader.read(_read_alerts)).values()
        return sorted(found, key=lambda each: (order.index(each.state), -each.changed_at, each.rule, each.subject))

    async def silence(self, silence: Silence) -> None:
        """Silence a rule, durably, in place of an earlier silence."""
        self._writer.put(partial(_write_silence, silence=silence), _ROW_BYTES)
        await self._writer.flush()

    async def unsilence(self, rule: str) -> bool:
        """End a silence, durably; False if there is none."""
        removed: list[int] = []

        def delete(connection: sqlite3.Connection) -> None:
            gone = connection.execute("DELETE FROM alert_silences WHERE rule = ? AND until > ?", (rule, time.time()))
            removed.append(gone.rowcount)

        self._writer.put(delete, _ROW_BYTES)
        await self._writer.flush()
        return bool(removed[-1])

    async def silences(self) -> list[Silence]:
        """The silences that last, by rule."""
        return await self._reader.read(_read_silences, time.time())


# In the store's threads


def _read_alerts(connection: sqlite3.Connection) -> dict[Key, Alert]:
    names = Alert.__struct_fields__
    found = {}
    for row in connection.execute(f"SELECT {', '.join(names)} FROM alerts"):  # noqa: S608 - our own names
        values = dict(zip(names, row, strict=True))
        alert = msgspec.convert(values | {"seen_by": tuple(values["seen_by"].split())}, Alert)
        found[alert.rule, alert.subject] = alert
    return found


def _write_alert(connection: sqlite3.Connection, alert: Alert) -> None:
    values = msgspec.structs.asdict(alert) | {"seen_by": " ".join(alert.seen_by)}
    connection.execute(
        f"INSERT OR REPLACE INTO alerts ({', '.join(values)}) VALUES (:{', :'.join(values)})",  # noqa: S608
        values,
    )


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
        msgspec.structs.astuple(silence),
    )
