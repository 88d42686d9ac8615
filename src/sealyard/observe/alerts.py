"""Looks at the gateway every few seconds and tells somebody when something is wrong, and when it is over.

It stands beside the request path: nothing waits for it, and nothing is told before it is on disk. While the store
cannot be written, which is wrong too, it goes on in memory.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path

import msgspec

from sealyard.config.settings import AlertsConfig
from sealyard.errors import StoreError
from sealyard.metrics.alerts import FAILED, RULES, Alert, Finding, Key, Now, Thresholds, advance, is_due, judge
from sealyard.metrics.names import Gauge, gauge
from sealyard.metrics.report import Report
from sealyard.observe.alert_list import AlertList, AlertView, list_alerts, resolve, silence, to_view, unsilence
from sealyard.observe.webhook import Teller
from sealyard.privacy.detect import Scanner, check_detection
from sealyard.store import Silence, Store
from sealyard.store.audit import AuditWatch
from sealyard.values import UpstreamStatus

_log = logging.getLogger("sealyard.alerts")

_FIRST_SECONDS = 3.0
"""After the start: who only runs one command is not kept busy with this."""
_EVERY_SECONDS = 15.0
_SHARE = 20.0
"""A check takes at most one part in so many of the time: where much happens, it comes less often."""
_ROUND_SECONDS = 3600.0
"""How often the detectors and the whole audit log are checked."""
_DOWN = ("failed", "backing_off")


class Alerting:
    """The alerts of one gateway."""

    def __init__(
        self,
        settings: AlertsConfig,
        store: Store,
        *,
        path: Path,
        report: Callable[[float, float], Awaitable[Report]],
        statuses: Callable[[], Collection[UpstreamStatus]],
        circuits: Callable[[], Collection[str]],
        scanner: Scanner | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`path` is the store's file, and `scanner` None when nothing is concealed.

        `report` is asked from when and until when, `circuits` names the upstreams that have one which is open.
        """
        self._settings = settings
        self._store = store
        self._report = report
        self._statuses = statuses
        self._circuits = circuits
        self._scanner = scanner
        self._clock = clock
        self._audit = AuditWatch(path)
        self._checked_at: float | None = None
        self._looking = asyncio.Lock()
        self._alerts: dict[Key, Alert] = {}
        self._aside: dict[Key, Alert] = {}
        """Alerts that changed while the store could not be written."""
        self._silenced: Collection[str] = ()
        self._teller = Teller(settings, self._note_told)
        self.detection_rate: float | None = None
        """Of the built-in samples; None before the first check, and if nothing is concealed."""
        self.is_store_failing = False

    async def watch(self) -> None:
        """Check for ever. What goes wrong in a check is logged, and it is tried again."""
        wait = _FIRST_SECONDS
        try:
            while True:
                await asyncio.sleep(wait)
                began = time.monotonic()
                try:
                    await self.check()
                except Exception:  # noqa: BLE001 - whatever it is, the next check must come
                    _log.exception("Alerts could not be checked.")
                wait = max(_EVERY_SECONDS, _SHARE * (time.monotonic() - began))
        finally:
            await self.close()

    async def check(self) -> None:
        """Look once, and begin to tell what has changed. `settle` waits until it is told."""
        async with self._looking:
            await self._look_inside()
            if self._settings.enabled:
                await self._look()

    async def settle(self) -> None:
        """Return when everything that is due was told, or nobody took it."""
        await self._teller.settle()

    async def close(self) -> None:
        """Stop telling. What was not told is told by the next gateway that opens the store."""
        await self._teller.close()

    # For people: see `alert_list`

    async def listed(self) -> AlertList:
        """Everything there is to show. Raises `StoreError`."""
        return await list_alerts(self._store)

    async def resolve(self, rule: str, subject: str = "", *, principal: str = "local") -> AlertView:
        """Set an alert to resolved, and tell it. Raises `InvalidRequest` if there is none, and `StoreError`."""
        alert = await resolve(self._store, rule, subject, principal=principal)
        if alert.delivery == self._store.alerts.owner:
            self._teller.tell(alert)
        return to_view(alert)

    async def silence(self, rule: str, seconds: float, *, principal: str = "local", reason: str = "") -> Silence:
        """Tell nobody that a rule fires, for so long. Raises `InvalidRequest` and `StoreError`."""
        return await silence(self._store, rule, seconds, principal=principal, reason=reason)

    async def unsilence(self, rule: str, *, principal: str = "local") -> None:
        """End a silence. Raises `InvalidRequest` if there is none, and `StoreError`."""
        await unsilence(self._store, rule, principal=principal)

    async def gauges(self) -> list[Gauge]:
        """How alerts stand, and what was checked beside them. Raises `StoreError`."""
        firing = dict.fromkeys(RULES, 0)
        for alert in (await self._store.alerts.alerts()) if not self._aside else self._alerts.values():
            if alert.state == "firing" and alert.rule in firing:
                firing[alert.rule] += 1
        found = [gauge("sealyard_alerts_firing", count, rule=rule) for rule, count in firing.items()]
        found.append(gauge("sealyard_alerts_undelivered", self._teller.undelivered))
        found.append(gauge("sealyard_store_failing", self.is_store_failing))
        if self.detection_rate is not None:
            found.append(gauge("sealyard_privacy_detection_rate", self.detection_rate))
        if self._audit.watched.is_intact is not None:
            found.append(gauge("sealyard_audit_chain_intact", self._audit.watched.is_intact))
        return found

    # One check

    async def _look_inside(self) -> None:
        """Check the detectors and the audit log if it is time. A round of the log goes on at every check."""
        now = self._clock()
        is_due = self._checked_at is None or now - self._checked_at >= _ROUND_SECONDS
        if is_due:
            self._checked_at = now
            if self._scanner is not None:
                self.detection_rate = (await asyncio.to_thread(check_detection, self._scanner)).rate
        if is_due or not self._audit.is_between_rounds:
            with contextlib.suppress(StoreError):  # it is told of in `_look`
                await self._store.flush()  # a log whose first entry is being written looks like one that was emptied
            try:
                await asyncio.to_thread(self._audit.step)
            except StoreError as error:
                _log.warning("The audit log could not be checked: %s", error)

    async def _look(self) -> None:
        now = self._clock()
        report = None
        try:
            report = await self._report(now - self._settings.window_seconds, now)
            is_failing = False
        except StoreError as error:
            _log.warning("Metrics could not be read: %s", error)
            is_failing = True
        findings, judged = self._judge(report, is_failing)
        seconds = self._settings.for_seconds
        try:
            looked = await self._store.alerts.apply(findings, judged, now=now, for_seconds=seconds, adopted=self._aside)
        except StoreError as error:
            _log.warning("Alerts could not be recorded: %s", error)
            is_failing = True
            due = self._go_on_aside(*self._judge(report, is_failing), now=now)
        else:
            self._alerts, self._aside, self._silenced = looked.alerts, {}, looked.silenced
            due = looked.due
        self.is_store_failing = is_failing
        for alert in due:
            self._teller.tell(alert)

    def _judge(self, report: Report | None, is_store_failing: bool) -> tuple[list[Finding], set[str]]:
        settings, audit = self._settings, self._audit.watched
        thresholds = Thresholds(
            hit_rate=settings.hit_rate,
            error_rate=settings.error_rate,
            p95_seconds=settings.p95_seconds,
            timeout_rate=settings.timeout_rate,
            detection_rate=settings.detection_rate,
            minimum=settings.minimum,
        )
        now = Now(
            upstreams_down=find_down(self._statuses(), self._circuits()),
            detection_rate=self.detection_rate,
            is_audit_intact=audit.is_intact,
            audit_first_wrong=audit.first_wrong,
            is_store_failing=is_store_failing,
        )
        return judge(thresholds, report, now)

    def _go_on_aside(self, findings: list[Finding], judged: set[str], *, now: float) -> list[Alert]:
        """The step that the store would have taken, in memory; what is to be told."""
        owner = self._store.alerts.owner
        changes = advance(
            self._alerts,
            findings,
            judged,
            now=now,
            for_seconds=self._settings.for_seconds,
            owner=owner,
            is_alive=lambda _: True,
            silenced=self._silenced,
        )
        due = []
        for change in changes:
            if isinstance(change, Alert):
                key = change.rule, change.subject
                if is_due(change, self._alerts.get(key), owner=owner):
                    due.append(change)
                self._alerts[key] = self._aside[key] = change
            else:
                del self._alerts[change]
                self._aside.pop(change, None)
        return due

    def _note_told(self, alert: Alert, is_delivered: bool) -> None:
        self._store.alerts.note_told(alert, is_delivered=is_delivered)
        kept = self._aside.get((alert.rule, alert.subject))
        if kept is not None and kept.changed_at == alert.changed_at:
            told = msgspec.structs.replace(kept, delivery="" if is_delivered else FAILED)
            self._aside[alert.rule, alert.subject] = self._alerts[alert.rule, alert.subject] = told


def find_down(statuses: Collection[UpstreamStatus], circuits: Collection[str]) -> Mapping[str, str]:
    """Why each upstream is down that is. One that nobody needed yet, or that was idle and stopped, is not."""
    found = {}
    for status in statuses:
        if status.state in _DOWN:
            found[status.name] = "unavailable"
        elif status.name in circuits:
            found[status.name] = "circuit_open"
    return found
