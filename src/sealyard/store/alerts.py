"""Alerts and silences as rows, shared by all gateways that have the store open.

A change of the alerts is one transaction, so that one gateway alone delivers what two of them see at the same time.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from sealyard.store.columns import Columns
from sealyard.store.database import path_of
from sealyard.store.gateways import is_alive
from sealyard.store.table import Table, writes
from sealyard.store.writer import ROW_BYTES

AlertState = Literal["pending", "firing", "resolved"]
Key = tuple[str, str]
"""Rule and subject."""

SILENCED = "silenced"
"""As `Alert.delivery`: it fires, and is delivered when the silence ends if it still does."""
FAILED = "failed"
"""As `Alert.delivery`: the webhook did not take it."""

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
"""All alerts, the silenced rules and a check that a gateway still runs -> all alerts from then on."""


# In the store's threads


_ALERTS = Columns("alerts", Alert, decode={"seen_by": lambda owners: tuple(owners.split())})
_SILENCES = Columns("alert_silences", Silence)


def _read_alerts(connection: sqlite3.Connection) -> dict[Key, Alert]:
    return {(alert.rule, alert.subject): alert for alert in _ALERTS.all(connection)}


def _write_alert(connection: sqlite3.Connection, alert: Alert) -> None:
    _ALERTS.put(connection, alert, key="rule, subject", seen_by=" ".join(alert.seen_by))


def _read_silences(connection: sqlite3.Connection, now: float) -> list[Silence]:
    return _SILENCES.all(connection, "WHERE until > ? ORDER BY rule", (now,))


def _write_silence(connection: sqlite3.Connection, silence: Silence) -> None:
    """Silence a rule, durably, in place of an earlier silence."""
    connection.execute("DELETE FROM alert_silences WHERE until <= ?", (time.time(),))
    _SILENCES.put(connection, silence, key="rule")


def _delete_silence(connection: sqlite3.Connection, rule: str) -> bool:
    """End a silence, durably; False if there is none."""
    gone = connection.execute("DELETE FROM alert_silences WHERE rule = ? AND until > ?", (rule, time.time()))
    return gone.rowcount > 0


class AlertTable(Table):
    """The alerts of one store."""

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

        def change(connection: sqlite3.Connection) -> AlertChange:
            path = path_of(connection)
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
            return AlertChange(before=before, after=after, silenced=silenced)

        return await self._writer.change(change)

    def note_delivery(self, alert: Alert, *, is_delivered: bool) -> None:
        """Record that the webhook took a change, or that it did not. Only enqueues."""
        row = ("" if is_delivered else FAILED, alert.rule, alert.subject, alert.changed_at, self.owner)
        query = "UPDATE alerts SET delivery = ? WHERE rule = ? AND subject = ? AND changed_at = ? AND delivery = ?"
        self._writer.put(lambda connection: connection.execute(query, row), ROW_BYTES)

    async def alerts(self) -> list[Alert]:
        """All alerts: firing, then pending, then resolved; the newest first."""
        order = ("firing", "pending", "resolved")
        found = (await self._reader.read(_read_alerts)).values()
        return sorted(found, key=lambda each: (order.index(each.state), -each.changed_at, each.rule, each.subject))

    async def silences(self) -> list[Silence]:
        """The silences that last, by rule."""
        return await self._reader.read(_read_silences, time.time())

    silence = writes(_write_silence)
    unsilence = writes(_delete_silence)
