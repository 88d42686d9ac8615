"""Lists, resolves and silences alerts, for a gateway or the command line: both need only the store."""

import time

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.metrics.alerts import FAILED, RULES, Alert, AlertState
from sealyard.store import Silence, Store
from sealyard.values import AuditEntry

_LONGEST_SECONDS = 30 * 86_400.0
_REASON_CHARACTERS = 500


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as it is shown."""

    rule: str
    subject: str
    state: AlertState
    severity: str
    title: str
    value: float | None
    threshold: float | None
    message: str
    since: float
    changed_at: float
    silenced: bool
    undelivered: bool
    """Whether the webhook did not take its last change."""


class AlertList(msgspec.Struct, frozen=True, kw_only=True):
    """All alerts, those that fire first, and what is silenced."""

    alerts: list[AlertView]
    silences: list[Silence]


async def list_alerts(store: Store) -> AlertList:
    """Everything there is to show. Raises `StoreError`."""
    silences = await store.alerts.silences()
    silenced = {each.rule for each in silences}
    stored = await store.alerts.alerts()
    return AlertList(
        alerts=[to_view(each, is_silenced=each.rule in silenced) for each in stored if each.rule in RULES],
        silences=silences,
    )


async def resolve(store: Store, rule: str, subject: str = "", *, principal: str) -> Alert:
    """Set an alert to resolved. If it is still so, it does not fire again before it was right in between.

    A gateway tells it: this one if `delivery` of the answer is its id, else the next one that looks.

    Raises:
        InvalidRequest: There is no such alert.
        StoreError: It cannot be written.
    """
    alert = await store.alerts.resolve(rule, subject)
    _audit(store, "alert.resolve", principal, {"rule": rule, "subject": subject})
    return alert


async def silence(store: Store, rule: str, seconds: float, *, principal: str, reason: str = "") -> Silence:
    """Tell nobody that a rule fires, for so long. What fires then still is told at its end.

    Raises:
        InvalidRequest: There is no such rule, or the time or the reason is too long.
        StoreError: It cannot be written.
    """
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidRequest(
            f"A silence cannot last {seconds:g} s. Give more than 0 and at most {_LONGEST_SECONDS:,.0f}."
        )
    if len(reason) > _REASON_CHARACTERS:
        raise InvalidRequest(f"The reason has {len(reason):,} characters. Give at most {_REASON_CHARACTERS}.")
    made = Silence(rule=rule, until=time.time() + seconds, principal=principal, reason=reason)
    await store.alerts.silence(made)
    _audit(store, "alert.silence", principal, {"rule": rule, "until": made.until, "reason": reason})
    return made


async def unsilence(store: Store, rule: str, *, principal: str) -> None:
    """End a silence. Raises `InvalidRequest` if there is none, and `StoreError`."""
    await store.alerts.unsilence(rule)
    _audit(store, "alert.unsilence", principal, {"rule": rule})


def to_view(alert: Alert, *, is_silenced: bool = False) -> AlertView:
    """An alert as it is shown."""
    rule = RULES[alert.rule]
    return AlertView(
        rule=alert.rule,
        subject=alert.subject,
        state=alert.state,
        severity=rule.severity,
        title=rule.title,
        value=alert.value,
        threshold=alert.threshold,
        message=alert.message,
        since=alert.since,
        changed_at=alert.changed_at,
        silenced=is_silenced,
        undelivered=alert.delivery == FAILED,
    )


def _audit(store: Store, kind: str, principal: str, body: dict[str, object]) -> None:
    store.audit(AuditEntry(kind=kind, principal=principal, body=body))
