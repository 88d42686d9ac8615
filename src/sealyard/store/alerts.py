"""Alerts as rows: a copy of what the gateway that checks them has in memory, for lists, other gateways and restarts."""

import sqlite3
from collections.abc import Sequence
from typing import Literal

import msgspec

from sealyard.store.columns import Columns
from sealyard.store.table import Table, reads, writes

AlertState = Literal["pending", "firing", "resolved"]
Key = tuple[str, str]
"""Rule and subject."""


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
    delivered: bool = True
    """False from a change to `firing` or `resolved` until the webhook has accepted it."""


_ALERTS = Columns("alerts", Alert, decode={"delivered": bool})
_ORDER = "ORDER BY state = 'resolved', state = 'pending', changed_at DESC, rule, subject"


def _read_alerts(connection: sqlite3.Connection) -> list[Alert]:
    """All alerts: firing, then pending, then resolved; the newest first."""
    return _ALERTS.all(connection, _ORDER)


def _replace_alerts(connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
    """Write these alerts, durably, in place of all others."""
    connection.execute("DELETE FROM alerts")
    for alert in alerts:
        _ALERTS.put(connection, alert)


class AlertTable(Table):
    """The alerts of one store."""

    alerts = reads(_read_alerts)
    replace = writes(_replace_alerts)
