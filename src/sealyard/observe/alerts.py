"""Alerts: checks the gateway every few seconds and reports what is wrong, and when it is over.

An alert is `pending` until its fault has lasted long enough, `firing` from then on, and `resolved` when no gateway sees
the fault any more or a person says so. One that a person resolved does not fire again before the fault was gone.
Requests never wait for a check. A change is on disk before it goes to the log and the webhook; while the store cannot
be written, which is a fault too, alerts go on in memory. An alert holds a rule, the configured name of an upstream, two
numbers and a sentence of ours: nothing private. The address of the webhook may be a password, so no message names it.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2
import msgspec

from sealyard.config.settings import AlertsConfig
from sealyard.errors import InvalidRequest, StoreError
from sealyard.metrics import Gauge, Report
from sealyard.privacy.detect import Scanner, check_detection
from sealyard.store import Store
from sealyard.store.alerts import FAILED, SILENCED, Alert, AlertState, Key, Silence
from sealyard.store.audit import AuditWatch
from sealyard.values.access import AuditEntry
from sealyard.values.tools import UpstreamStatus

_log = logging.getLogger("sealyard.alerts")

_FIRST_SECONDS = 3.0
"""A command that only runs something once is over by then and pays for no check."""
_EVERY_SECONDS = 15.0
"""Prometheus' usual scrape interval."""
_SHARE = 20.0
"""Checks take at most a twentieth of the time: a busy store is checked less often."""
_ROUND_SECONDS = 3600.0
"""The detectors and the whole audit log are checked once an hour: they cost seconds of a core."""
_PAUSES_SECONDS = (0.0, 5.0, 45.0)
"""Before each try of the webhook. A receiver that is being restarted is back by the last one."""
_TRY_SECONDS = 5.0
"""A receiver that takes longer is as good as down."""
_LONGEST_SILENCE_SECONDS = 30 * 86_400.0  # one that lasts longer is a change of the rules
_REASON_CHARACTERS = 500
"""A sentence or two; it is stored and shown on one line."""
_DOWN = ("failed", "backing_off")


# Rules


class Rule(msgspec.Struct, frozen=True):
    """One kind of fault."""

    title: str
    severity: Literal["critical", "warning"]
    waits: bool = True
    """False for a fault that must never happen: it fires at once."""


RULES: dict[str, Rule] = {
    "discovery_hit_rate": Rule("Searches do not lead to calls", "warning"),
    "error_rate": Rule("Many runs fail", "warning"),
    "slow_runs": Rule("Runs are slow", "warning"),
    "timeouts": Rule("Runs time out", "warning"),
    "privacy_detection": Rule("Private values are not recognised", "critical", waits=False),
    "privacy_failures": Rule("Values could not be looked through", "critical", waits=False),
    "upstream_down": Rule("An upstream is down", "critical"),
    "audit_chain": Rule("The audit log was changed", "critical", waits=False),
    "store_failing": Rule("The store does not work", "critical"),
}
_RULES_OF_REPORT = ("discovery_hit_rate", "error_rate", "slow_runs", "timeouts", "privacy_failures")


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements that are judged. None: unknown, so that its rules are not judged."""

    report: Report | None = None
    upstreams_down: Mapping[str, str] | None = None
    """Name -> `unavailable` or `circuit_open`."""
    detection_rate: float | None = None
    is_audit_intact: bool | None = None
    audit_first_wrong: int | None = None
    """The number of the first entry that was changed, if one can be named."""
    is_store_failing: bool | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that exists now."""

    rule: str
    subject: str = ""
    """The upstream of `upstream_down`."""
    value: float | None = None
    threshold: float | None = None
    message: str


def judge(settings: AlertsConfig, seen: Observed) -> tuple[list[Finding], set[str]]:
    """Return the faults, and the names of the rules that could be judged."""
    known = {
        "upstream_down": seen.upstreams_down,
        "privacy_detection": seen.detection_rate,
        "audit_chain": seen.is_audit_intact,
        "store_failing": seen.is_store_failing,
        **dict.fromkeys(_RULES_OF_REPORT, seen.report),
    }
    found = [*([] if seen.report is None else _judge_report(settings, seen.report)), *_judge_state(settings, seen)]
    return found, {rule for rule, value in known.items() if value is not None}


def _judge_report(settings: AlertsConfig, report: Report) -> Iterator[Finding]:
    discovery, execution = report.discovery, report.execution
    rate = discovery.hit_rate
    if discovery.queries >= settings.minimum and rate is not None and rate < settings.hit_rate:
        yield Finding(
            rule="discovery_hit_rate",
            value=rate,
            threshold=settings.hit_rate,
            message=f"Of {discovery.queries:,} searches {rate:.1%} led to a call of a tool that was found; at least"
            f" {settings.hit_rate:.1%} are expected.",
        )
    if execution.count >= settings.minimum:
        failed = None if execution.success_rate is None else 1 - execution.success_rate
        slow, late = execution.p95_seconds, execution.timeout_rate
        for rule, value, limit, message in (
            ("error_rate", failed, settings.error_rate, "Of {0:,} runs {1:.1%} did not end well; at most {2:.1%}"),
            ("slow_runs", slow, settings.p95_seconds, "One of twenty runs took {1:.3g} s or longer; at most {2:g} s"),
            (
                "timeouts",
                late,
                settings.timeout_rate,
                "Of {0:,} runs {1:.1%} took longer than they may; at most {2:.1%}",
            ),
        ):
            if value is not None and value > limit:
                text = f"{message.format(execution.count, value, limit)} are expected."
                yield Finding(rule=rule, value=value, threshold=limit, message=text)
    if count := report.security.hiding_failures:
        yield Finding(
            rule="privacy_failures",
            value=count,
            threshold=0,
            message=f"{count:,} {'value' if count == 1 else 'values'} could not be looked through for something private"
            " and were withheld whole. Look at the gateway's log.",
        )


def _judge_state(settings: AlertsConfig, seen: Observed) -> Iterator[Finding]:
    for name, why in sorted((seen.upstreams_down or {}).items()):
        what = "is not running and could not be started"
        if why == "circuit_open":
            what = "fails so often that one of its tools is not called any more"
        text = f"The upstream {name!r} {what}. Run `sealyard tools --status`."
        yield Finding(rule="upstream_down", subject=name, message=text)
    if seen.detection_rate is not None and seen.detection_rate < settings.detection_rate:
        yield Finding(
            rule="privacy_detection",
            value=seen.detection_rate,
            threshold=settings.detection_rate,
            message=f"The detectors find {seen.detection_rate:.1%} of the built-in samples of private values; "
            f"at least {settings.detection_rate:.1%} are expected. Look at [privacy] in the configuration.",
        )
    if seen.is_audit_intact is False:
        number = seen.audit_first_wrong
        where = f"Entry {number:,} of the audit log" if number else "The audit log"
        yield Finding(
            rule="audit_chain",
            value=number,
            message=f"{where} is not as it was written. Run `sealyard audit verify`, and keep a copy of the store as"
            " evidence.",
        )
    if seen.is_store_failing:
        text = "The store cannot be written or read, so nothing is run. Run `sealyard audit verify`, and look at"
        yield Finding(rule="store_failing", message=f"{text} the gateway's log.")


def find_down(statuses: Iterable[UpstreamStatus], circuits: Collection[str]) -> dict[str, str]:
    """Return why each upstream is down that is. One that was never needed, or stopped when idle, is not down."""
    found = {}
    for status in statuses:
        if status.state in _DOWN:
            found[status.name] = "unavailable"
        elif status.name in circuits:
            found[status.name] = "circuit_open"
    return found


# States


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One check by one gateway."""

    findings: tuple[Finding, ...]
    judged: Collection[str]
    now: float
    for_seconds: float
    owner: str
    """The gateway's id."""


def advance(
    look: Look, alerts: Mapping[Key, Alert], silenced: Collection[str], is_alive: Callable[[str], bool]
) -> dict[Key, Alert]:
    """Return all alerts after a look, which is a step of `AlertTable.change`.

    Those that have its owner as their `delivery` are for it to deliver. It takes over from gateways that are gone.
    """
    after = dict(alerts)
    for finding in look.findings:
        key = finding.rule, finding.subject
        after[key] = _seen(alerts.get(key), finding, look)
    seen = {(finding.rule, finding.subject) for finding in look.findings}
    for key, alert in alerts.items():
        if key not in seen and alert.rule in look.judged:
            del after[key]
            if (left := _unseen(alert, look, is_alive)) is not None:
                after[key] = left
    for key, alert in after.items():
        if alert.delivery != look.owner or _is_due(alert, alerts.get(key), look.owner):  # else it is on its way
            after[key] = _deliverable(alert, look.owner, is_alive, is_silenced=alert.rule in silenced)
    return after


def find_due(before: Mapping[Key, Alert], after: Mapping[Key, Alert], owner: str) -> list[Alert]:
    """Return the alerts that the step from `before` to `after` makes `owner` deliver."""
    return [alert for key, alert in after.items() if _is_due(alert, before.get(key), owner)]


def _is_due(after: Alert, before: Alert | None, owner: str) -> bool:
    is_on_its_way = before is not None and (before.delivery, before.changed_at) == (owner, after.changed_at)
    return after.delivery == owner and not is_on_its_way


def _seen(before: Alert | None, finding: Finding, look: Look) -> Alert:
    now = look.now
    if before is None or (before.state == "resolved" and not before.seen_by):
        before = Alert(
            rule=finding.rule, subject=finding.subject, state="pending", message="", since=now, changed_at=now
        )
    after = msgspec.structs.replace(
        before,
        value=finding.value,
        threshold=finding.threshold,
        message=finding.message,
        seen_by=tuple(sorted({*before.seen_by, look.owner})),
    )
    if after.state == "pending" and (not RULES[finding.rule].waits or now - after.since >= look.for_seconds):
        return msgspec.structs.replace(after, state="firing", changed_at=now, delivery=look.owner)
    return after


def _unseen(before: Alert, look: Look, is_alive: Callable[[str], bool]) -> Alert | None:
    seen_by = tuple(each for each in before.seen_by if each != look.owner and is_alive(each))
    if seen_by or before.state == "resolved":
        return msgspec.structs.replace(before, seen_by=seen_by)
    return None if before.state == "pending" else _over(before, look.now, look.owner, seen_by=())


def _over(before: Alert, now: float, owner: str, *, seen_by: tuple[str, ...]) -> Alert:
    """A firing alert that is over. If nobody heard that it fires, nobody hears that it is over."""
    delivery = "" if before.delivery == SILENCED else owner
    return msgspec.structs.replace(before, state="resolved", changed_at=now, seen_by=seen_by, delivery=delivery)


def _deliverable(alert: Alert, owner: str, is_alive: Callable[[str], bool], *, is_silenced: bool) -> Alert:
    delivery = alert.delivery
    if delivery in ("", FAILED) or (delivery not in (owner, SILENCED) and is_alive(delivery)):
        return alert
    if alert.state == "firing":
        delivery = SILENCED if is_silenced else owner
    elif delivery != SILENCED:
        delivery = owner
    return msgspec.structs.replace(alert, delivery=delivery)


def _resolved(before: Alert, now: float, owner: str) -> Alert:
    """The alert after a person said that it is over."""
    if before.state == "firing":
        return _over(before, now, owner, seen_by=before.seen_by)
    return before if before.state == "resolved" else msgspec.structs.replace(before, state="resolved", changed_at=now)


# Requests of people, which need the store alone


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
    """True if the webhook did not take its last change."""


class AlertList(msgspec.Struct, frozen=True, kw_only=True):
    """All alerts, firing ones first, and all silences."""

    alerts: list[AlertView]
    silences: list[Silence]


async def list_alerts(store: Store) -> AlertList:
    """Return all alerts and silences. Raises `StoreError`."""
    silences = await store.alerts.silences()
    silenced = {each.rule for each in silences}
    stored = await store.alerts.alerts()
    return AlertList(
        alerts=[view_alert(each, is_silenced=each.rule in silenced) for each in stored if each.rule in RULES],
        silences=silences,
    )


async def resolve_alert(store: Store, rule: str, subject: str = "", *, principal: str) -> Alert:
    """Resolve an alert. If its fault lasts, it does not fire again before the fault was gone.

    A gateway delivers it: this one if `delivery` of the answer is its id, else the next one that looks.

    Raises:
        InvalidRequest: There is no such alert.
        StoreError: It cannot be written.
    """
    _check_rule(rule)
    key, now = (rule, subject), time.time()

    def step(alerts: dict[Key, Alert], *_: object) -> dict[Key, Alert]:
        return alerts | {key: _resolved(alerts[key], now, store.alerts.owner)} if key in alerts else alerts

    after = (await store.alerts.change(step, now=now)).after
    if key not in after:
        about = f" about {subject!r}" if subject else ""
        others = ", ".join(sorted(repr(each.subject) for each in after.values() if each.rule == rule and each.subject))
        known = f"There is one about {others}." if others else "`sealyard alerts` lists those that are."
        raise InvalidRequest(f"There is no alert {rule!r}{about}. {known}")
    _audit(store, "alert.resolve", principal, rule=rule, subject=subject)
    return after[key]


async def silence_rule(store: Store, rule: str, seconds: float, *, principal: str, reason: str = "") -> Silence:
    """Deliver no alert of a rule for some time. One that still fires then is delivered at its end.

    Raises:
        InvalidRequest: There is no such rule, or the time or the reason is too long.
        StoreError: It cannot be written.
    """
    _check_rule(rule)
    if not 0 < seconds <= _LONGEST_SILENCE_SECONDS:
        raise InvalidRequest(
            f"A silence cannot last {seconds:g} s. Give more than 0 and at most {_LONGEST_SILENCE_SECONDS:,.0f}."
        )
    if len(reason) > _REASON_CHARACTERS:
        raise InvalidRequest(f"The reason has {len(reason):,} characters. Give at most {_REASON_CHARACTERS}.")
    made = Silence(rule=rule, until=time.time() + seconds, principal=principal, reason=reason)
    await store.alerts.silence(made)
    _audit(store, "alert.silence", principal, rule=rule, until=made.until, reason=reason)
    return made


async def unsilence_rule(store: Store, rule: str, *, principal: str) -> None:
    """End a silence. Raises `InvalidRequest` if there is none, and `StoreError`."""
    _check_rule(rule)
    if not await store.alerts.unsilence(rule):
        raise InvalidRequest(f"{rule!r} is not silenced. `sealyard alerts` lists what is.")
    _audit(store, "alert.unsilence", principal, rule=rule)


def view_alert(alert: Alert, *, is_silenced: bool = False) -> AlertView:
    """Return an alert as it is shown."""
    return AlertView(**_shown(alert), silenced=is_silenced, undelivered=alert.delivery == FAILED)


def _shown(alert: Alert) -> dict[str, Any]:
    rule = RULES[alert.rule]
    return {
        "rule": alert.rule,
        "subject": alert.subject,
        "state": alert.state,
        "severity": rule.severity,
        "title": rule.title,
        "value": alert.value,
        "threshold": alert.threshold,
        "message": alert.message,
        "since": alert.since,
        "changed_at": alert.changed_at,
    }


def _check_rule(rule: str) -> None:
    if rule not in RULES:
        raise InvalidRequest(f"No alert is named {rule[:100]!r}. There are: {', '.join(RULES)}.")


def _audit(store: Store, kind: str, principal: str, **body: object) -> None:
    store.audit(AuditEntry(kind=kind, principal=principal, body=body))


# The gateway


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

        `report` takes the begin and the end of a time, `circuits` names the upstreams with an open circuit.
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
        self._messenger = _Messenger(settings, self._note_delivery)
        self.detection_rate: float | None = None
        """Of the built-in samples; None before the first check, and if nothing is concealed."""
        self.is_store_failing = False

    async def watch(self) -> None:
        """Check for ever. A check that fails is logged, and the next one comes."""
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
        """Look once, and begin to deliver what has changed. `settle` waits for the delivery."""
        async with self._looking:
            await self._look_inside()
            if self._settings.enabled:
                await self._look()

    async def settle(self) -> None:
        """Return when everything that is due was delivered, or given up."""
        await self._messenger.settle()

    async def close(self) -> None:
        """Stop delivering. The next gateway that opens the store delivers the rest."""
        await self._messenger.close()

    async def resolve(self, rule: str, subject: str = "", *, principal: str = "local") -> AlertView:
        """Resolve an alert and deliver that. Raises `InvalidRequest` if there is none, and `StoreError`."""
        alert = await resolve_alert(self._store, rule, subject, principal=principal)
        if alert.delivery == self._store.alerts.owner:
            self._messenger.deliver(alert)
        return view_alert(alert)

    async def gauges(self) -> list[Gauge]:
        """Return the number of firing alerts per rule, and the other measurements of a check. Raises `StoreError`."""
        firing = dict.fromkeys(RULES, 0)
        for alert in (await self._store.alerts.alerts()) if not self._aside else self._alerts.values():
            if alert.state == "firing" and alert.rule in firing:
                firing[alert.rule] += 1
        found = [Gauge.of("sealyard_alerts_firing", count, rule=rule) for rule, count in firing.items()]
        found.append(Gauge.of("sealyard_alerts_undelivered", self._messenger.undelivered))
        found.append(Gauge.of("sealyard_store_failing", self.is_store_failing))
        if self.detection_rate is not None:
            found.append(Gauge.of("sealyard_privacy_detection_rate", self.detection_rate))
        if self._audit.watched.is_intact is not None:
            found.append(Gauge.of("sealyard_audit_chain_intact", self._audit.watched.is_intact))
        return found

    async def _look_inside(self) -> None:
        """Check the detectors and the audit log if it is time. A round of the log goes on at every check."""
        now = self._clock()
        is_due = self._checked_at is None or now - self._checked_at >= _ROUND_SECONDS
        if is_due:
            self._checked_at = now
            if self._scanner is not None:
                self.detection_rate = (await asyncio.to_thread(check_detection, self._scanner)).rate
        if is_due or not self._audit.is_between_rounds:
            with contextlib.suppress(StoreError):  # `_look` reports it
                await self._store.flush()  # a log whose first entry is being written looks like one that was emptied
            try:
                await asyncio.to_thread(self._audit.step)
            except StoreError as error:
                _log.warning("The audit log could not be checked: %s", error)

    async def _look(self) -> None:
        now, report = self._clock(), None
        try:
            report = await self._report(now - self._settings.window_seconds, now)
        except StoreError as error:
            _log.warning("Metrics could not be read: %s", error)
        self.is_store_failing = report is None
        look = self._judge(report, now)
        try:
            done = await self._store.alerts.change(partial(advance, look), now=now, adopted=self._aside.values())
            before, after, self._silenced, self._aside = done.before, done.after, done.silenced, {}
        except StoreError as error:
            _log.warning("Alerts could not be recorded: %s", error)
            self.is_store_failing = True
            before = self._alerts
            after = advance(self._judge(report, now), before, self._silenced, lambda _: True)
            changed = {key: alert for key, alert in after.items() if alert != before.get(key)}
            self._aside = {key: alert for key, alert in self._aside.items() if key in after} | changed
        self._alerts = after
        for alert in find_due(before, after, look.owner):
            self._messenger.deliver(alert)

    def _judge(self, report: Report | None, now: float) -> Look:
        audit = self._audit.watched
        seen = Observed(
            report=report,
            upstreams_down=find_down(self._statuses(), self._circuits()),
            detection_rate=self.detection_rate,
            is_audit_intact=audit.is_intact,
            audit_first_wrong=audit.first_wrong,
            is_store_failing=self.is_store_failing,
        )
        findings, judged = judge(self._settings, seen)
        return Look(
            findings=tuple(findings),
            judged=judged,
            now=now,
            for_seconds=self._settings.for_seconds,
            owner=self._store.alerts.owner,
        )

    def _note_delivery(self, alert: Alert, is_delivered: bool) -> None:
        self._store.alerts.note_delivery(alert, is_delivered=is_delivered)
        kept = self._aside.get((alert.rule, alert.subject))
        if kept is not None and kept.changed_at == alert.changed_at:
            noted = msgspec.structs.replace(kept, delivery="" if is_delivered else FAILED)
            self._aside[alert.rule, alert.subject] = self._alerts[alert.rule, alert.subject] = noted


# Delivery

_is_posting: ContextVar[bool] = ContextVar("sealyard_is_posting", default=False)
# The HTTP client logs each request with its address.
logging.getLogger("httpx2").addFilter(lambda record: not _is_posting.get())


class _Messenger:
    """Logs alerts and posts them in their order, in the background; those that wait go into one message.

    `on_end` is called for each alert with True if it was taken.
    """

    def __init__(self, settings: AlertsConfig, on_end: Callable[[Alert, bool], None]) -> None:
        self._settings = settings
        self._on_end = on_end
        self._waiting: list[Alert] = []
        self._posting: asyncio.Task[None] | None = None
        self.undelivered = 0
        """Changes that the webhook did not take."""

    def deliver(self, alert: Alert) -> None:
        """Deliver the state of an alert. Returns at once."""
        about = f" {alert.subject!r}" if alert.subject else ""
        _log.warning("Alert %s%s is %s: %s", alert.rule, about, alert.state, alert.message)
        if self._settings.webhook is None:
            self._on_end(alert, True)
            return
        self._waiting.append(alert)
        if self._posting is None or self._posting.done():
            self._posting = asyncio.create_task(self._post_waiting(self._settings.webhook))

    async def settle(self) -> None:
        if self._posting is not None:
            await asyncio.wait({self._posting})

    async def close(self) -> None:
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.wait({self._posting})

    async def _post_waiting(self, webhook: str) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            is_delivered = await self._try(webhook, batch)
            if not is_delivered:
                self.undelivered += len(batch)
            for alert in batch:
                self._on_end(alert, is_delivered)

    async def _try(self, webhook: str, batch: Sequence[Alert]) -> bool:
        problem = ""
        for pause in _PAUSES_SECONDS:
            await asyncio.sleep(pause)
            problem = await post_alerts(webhook, batch, secret=self._settings.webhook_secret)
            if not problem:
                return True
        _log.error(
            "The webhook did not take %d changes of alerts in %d tries: %s.", len(batch), len(_PAUSES_SECONDS), problem
        )
        return False


async def post_alerts(webhook: str, alerts: Sequence[Alert], *, secret: str | None) -> str:
    """Send alerts to a webhook once; return what went wrong, or nothing. It takes at most a few seconds."""
    body = msgspec.json.encode(
        {
            "version": 1,
            "sent_at": time.time(),
            "text": "\n".join(f"sealyard: {_heading(alert)}: {alert.message}" for alert in alerts),
            "alerts": [{"id": _change_id(alert), **_shown(alert)} for alert in alerts],
        }
    )
    headers = {"Content-Type": "application/json", "User-Agent": "sealyard"}
    if secret is not None:
        signature = hmac.new(secret.encode("utf-8", "surrogateescape"), body, hashlib.sha256).hexdigest()
        headers["Sealyard-Signature"] = f"sha256={signature}"
    mark = _is_posting.set(True)
    try:
        async with (
            asyncio.timeout(_TRY_SECONDS),
            httpx2.AsyncClient(follow_redirects=False, timeout=_TRY_SECONDS) as client,
            client.stream("POST", webhook, content=body, headers=headers) as answer,
        ):
            return "" if answer.is_success else f"it answered with status {answer.status_code}"
    except TimeoutError:
        return f"it did not answer within {_TRY_SECONDS:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return f"it could not be reached ({type(error).__name__})"  # the message may hold the address
    finally:
        _is_posting.reset(mark)


def _heading(alert: Alert) -> str:
    about = f" ({alert.subject})" if alert.subject else ""
    return f"[{alert.state}] {RULES[alert.rule].title}{about}"


def _change_id(alert: Alert) -> str:
    """The same id if one change is sent twice, as it may be after a crash."""
    named = f"{alert.rule}\0{alert.subject}\0{alert.state}\0{alert.changed_at!r}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
