"""Alerts: rules about the gateway's own health, checked every few seconds.

An alert is `pending` until its fault has lasted long enough, `firing` from then on, and `resolved` once the fault is
gone. Of several gateways on one store one checks, until it ends. Its memory decides; the table is a copy, written
before a change goes to the webhook. While the store cannot be written, which is a fault too, alerts go on in memory.
Requests never wait for a check. An alert holds a rule, the configured name of an upstream, two numbers and a sentence
of ours: nothing private. The address of the webhook may be a password, so no message names it.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal

import httpx2
import msgspec

from sealyard.config.settings import AlertsConfig
from sealyard.errors import StoreError
from sealyard.metrics import Gauge, Report
from sealyard.store import Store
from sealyard.values.access import Alert, AlertState, AuditEntry
from sealyard.values.tools import UpstreamStatus

_log = logging.getLogger("sealyard.alerts")

_Key = tuple[str, str]
"""Rule and subject."""

_FIRST_SECONDS = 3.0
"""A command that only runs something once is over by then and pays for no check."""
_EVERY_SECONDS = 15.0
"""Prometheus' usual scrape interval."""
_SHARE = 20.0
"""Checks take at most a twentieth of the time: a busy store is checked less often."""
_ROUND_SECONDS = 3600.0
"""The whole audit log is verified once an hour: that costs seconds of a core."""
_TRY_SECONDS = 5.0
"""A receiver that takes longer is as good as down."""
_KEPT_SECONDS = 30 * 86_400.0
"""A resolved alert is listed for a month, so that a weekly review still sees it."""
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
    "privacy_failures": Rule("Privacy scan failed", "critical", waits=False),
    "upstream_down": Rule("An upstream is down", "critical"),
    "audit_chain": Rule("The audit log was changed", "critical", waits=False),
    "store_failing": Rule("The store does not work", "critical"),
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that exists now."""

    rule: str
    subject: str = ""
    """The upstream of `upstream_down`."""
    value: float | None = None
    threshold: float | None = None
    message: str


def judge(
    settings: AlertsConfig,
    *,
    report: Report | None = None,
    upstreams_down: Mapping[str, str] | None = None,
    is_audit_intact: bool | None = None,
    audit_first_wrong: int | None = None,
    is_store_failing: bool | None = None,
) -> tuple[list[Finding], set[str]]:
    """The faults, and the names of the rules that could be judged: not those whose measurement is None, or unknown.

    `upstreams_down` has `unavailable` or `circuit_open` by name. A rule that is off never finds a fault.
    """
    known = {"upstream_down": upstreams_down, "audit_chain": is_audit_intact, "store_failing": is_store_failing}
    judged = {rule for rule in RULES if known.get(rule, report) is not None}
    found = [] if report is None else list(_judge_report(settings, report))
    for name, why in sorted((upstreams_down or {}).items()):
        what = "is not running and could not be started"
        if why == "circuit_open":
            what = "fails so often that one of its tools is not called any more"
        text = f"The upstream {name!r} {what}. Run `sealyard tools --status`."
        found.append(Finding(rule="upstream_down", subject=name, message=text))
    if is_audit_intact is False:
        where = f"Entry {audit_first_wrong:,} of the audit log" if audit_first_wrong else "The audit log"
        text = "is not as it was written. Run `sealyard audit verify`, and keep a copy of the store as evidence."
        found.append(Finding(rule="audit_chain", value=audit_first_wrong, message=f"{where} {text}"))
    if is_store_failing:
        text = "The store cannot be written or read, so nothing is run. Run `sealyard audit verify`, and look at"
        found.append(Finding(rule="store_failing", message=f"{text} the gateway's log."))
    return [finding for finding in found if finding.rule not in settings.off], judged


def _judge_report(settings: AlertsConfig, report: Report) -> Iterator[Finding]:
    searches, runs, success = report.discovery.queries, report.execution.count, report.execution.success_rate
    # Each rule with the number of samples, the figure, its threshold, and the sentence.
    rates: tuple[tuple[str, int, float | None, float, str], ...] = (
        (
            "discovery_hit_rate",
            searches,
            report.discovery.hit_rate,
            settings.hit_rate,
            "Of {0:,} searches {1:.1%} led to a call of a tool that was found; at least {2:.1%} are expected.",
        ),
        (
            "error_rate",
            runs,
            None if success is None else 1 - success,
            settings.error_rate,
            "Of {0:,} runs {1:.1%} failed; at most {2:.1%} are expected.",
        ),
        (
            "slow_runs",
            runs,
            report.execution.p95_seconds,
            settings.p95_seconds,
            "One of twenty runs took {1:.3g} s or longer; at most {2:g} s are expected.",
        ),
        (
            "timeouts",
            runs,
            report.execution.timeout_rate,
            settings.timeout_rate,
            "Of {0:,} runs {1:.1%} timed out; at most {2:.1%} are expected.",
        ),
    )
    for rule, samples, value, limit, sentence in rates:
        if samples < settings.minimum or value is None:
            continue
        if value < limit if rule == "discovery_hit_rate" else value > limit:
            yield Finding(rule=rule, value=value, threshold=limit, message=sentence.format(samples, value, limit))
    if count := report.security.hiding_failures:
        yield Finding(
            rule="privacy_failures",
            value=count,
            threshold=0,
            message=f"{count:,} {'value' if count == 1 else 'values'} could not be searched for private data"
            " and were withheld whole. The gateway's log says why.",
        )


def find_down(statuses: Iterable[UpstreamStatus], circuits: Collection[str]) -> dict[str, str]:
    """The reason for each upstream that is down. One that was never needed, or stopped when idle, is not down."""
    found = {}
    for status in statuses:
        if status.state in _DOWN:
            found[status.name] = "unavailable"
        elif status.name in circuits:
            found[status.name] = "circuit_open"
    return found


# States


def advance(
    alerts: Mapping[_Key, Alert],
    findings: Iterable[Finding],
    judged: Collection[str],
    *,
    now: float,
    for_seconds: float,
) -> dict[_Key, Alert]:
    """All alerts after a check."""
    found = {(finding.rule, finding.subject): finding for finding in findings}
    after = {key: _seen(alerts.get(key), finding, now, for_seconds) for key, finding in found.items()}
    for key, alert in alerts.items():
        if key in found:
            continue
        if alert.state == "firing" and alert.rule in judged:
            alert = msgspec.structs.replace(alert, state="resolved", changed_at=now, delivered=False)
        is_over = alert.state == "pending" and alert.rule in judged
        if not is_over and not (alert.state == "resolved" and now - alert.changed_at > _KEPT_SECONDS):
            after[key] = alert
    return after


def _seen(before: Alert | None, finding: Finding, now: float, for_seconds: float) -> Alert:
    seen = msgspec.structs.asdict(finding)
    if before is None or before.state == "resolved":
        alert = Alert(**seen, state="pending", since=now, changed_at=now)
    else:
        alert = msgspec.structs.replace(before, **seen)
    if alert.state == "pending" and (not RULES[alert.rule].waits or now - alert.since >= for_seconds):
        return msgspec.structs.replace(alert, state="firing", changed_at=now, delivered=False)
    return alert


# What is shown


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
    undelivered: bool
    """True if the webhook has not accepted its last change yet."""


class AlertList(msgspec.Struct, frozen=True, kw_only=True):
    """All alerts, firing ones first."""

    alerts: list[AlertView]


async def list_alerts(store: Store) -> AlertList:
    """All alerts. Raises `StoreError`."""
    stored = await store.alerts()
    return AlertList(
        alerts=[AlertView(**_shown(each), undelivered=not each.delivered) for each in stored if each.rule in RULES]
    )


def _shown(alert: Alert) -> dict[str, Any]:
    rule, fields = RULES[alert.rule], msgspec.structs.asdict(alert)
    del fields["delivered"]
    return {**fields, "severity": rule.severity, "title": rule.title}


# The gateway


class Alerting:
    """The alerts of one gateway."""

    def __init__(
        self,
        settings: AlertsConfig,
        store: Store,
        *,
        report: Callable[[float, float], Awaitable[Report]],
        statuses: Callable[[], Collection[UpstreamStatus]],
        circuits: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`report` takes the begin and the end of a time.

        `circuits` names the upstreams with an open circuit.
        """
        self._settings = settings
        self._store = store
        self._report = report
        self._statuses = statuses
        self._circuits = circuits
        self._clock = clock
        self._lead = store.lead("alerts")
        self._audit = store.watch_audit()
        self._audited_at: float | None = None
        self._checking = asyncio.Lock()
        self._alerts: dict[_Key, Alert] = {}
        self._written: dict[_Key, Alert] | None = None
        """The table; None until this gateway leads and has read it."""
        self._posting: asyncio.Task[None] | None = None
        self._is_webhook_failing = False
        self._is_readable = self._is_writable = True

    @property
    def is_store_failing(self) -> bool:
        """True if the store could not be read or written when it was last tried."""
        return not (self._is_readable and self._is_writable)

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
        """Check once, and begin to post what changed. `settle` waits for the webhook."""
        async with self._checking:
            now = self._clock()
            report = await self._read_report(now)
            if not self._lead.take():
                return
            await self._check_audit_log(now)
            if self._settings.enabled:
                await self._judge(report, now)

    async def settle(self) -> None:
        """Wait until the webhook has accepted what is being posted, or failed to."""
        if self._posting is not None:
            await asyncio.wait({self._posting})

    async def close(self) -> None:
        """Stop posting, and let another gateway lead: it posts the rest."""
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.wait({self._posting})
        self._lead.close()

    async def gauges(self) -> list[Gauge]:
        """The number of firing alerts per rule, and the other measurements of a check. Raises `StoreError`."""
        alerts = list(self._alerts.values()) if self.is_store_failing else await self._store.alerts()
        firing = dict.fromkeys(RULES, 0)
        for alert in alerts:
            if alert.state == "firing" and alert.rule in firing:
                firing[alert.rule] += 1
        found = [Gauge.of("sealyard_alerts_firing", count, rule=rule) for rule, count in firing.items()]
        found.append(Gauge.of("sealyard_alerts_undelivered", sum(not alert.delivered for alert in alerts)))
        found.append(Gauge.of("sealyard_store_failing", self.is_store_failing))
        if self._audit.watched.is_intact is not None:
            found.append(Gauge.of("sealyard_audit_chain_intact", self._audit.watched.is_intact))
        return found

    async def _read_report(self, now: float) -> Report | None:
        try:
            report = await self._report(now - self._settings.window_seconds, now)
        except StoreError as error:
            _log.warning("Metrics could not be read: %s", error)
            self._is_readable = False
            return None
        self._is_readable = True
        return report

    async def _check_audit_log(self, now: float) -> None:
        """Begin to verify the audit log if it is time. A round goes on at every check, a segment at a time."""
        is_due = self._audited_at is None or now - self._audited_at >= _ROUND_SECONDS
        if is_due:
            self._audited_at = now
        if is_due or not self._audit.is_between_rounds:
            with contextlib.suppress(StoreError):  # `_write` notices it
                await self._store.flush()  # a log whose first entry is being written looks like one that was emptied
            try:
                await asyncio.to_thread(self._audit.step)
            except StoreError as error:
                _log.warning("The audit log could not be checked: %s", error)

    async def _judge(self, report: Report | None, now: float) -> None:
        if self._written is None:
            await self._load()
        await self._write()  # what could not be written last time, if anything: it shows whether the store works again
        before, audit = self._alerts, self._audit.watched
        findings, judged = judge(
            self._settings,
            report=report,
            upstreams_down=find_down(self._statuses(), self._circuits()),
            is_audit_intact=audit.is_intact,
            audit_first_wrong=audit.first_wrong,
            is_store_failing=self.is_store_failing,
        )
        self._alerts = advance(before, findings, judged, now=now, for_seconds=self._settings.for_seconds)
        for key, alert in self._alerts.items():
            if not alert.delivered and (key not in before or before[key].changed_at != alert.changed_at):
                self._announce(alert)
        await self._write()
        self._post()

    async def _load(self) -> None:
        """Take over the table as the last gateway that led left it. If that fails, the next check tries again."""
        try:
            self._written = {(alert.rule, alert.subject): alert for alert in await self._store.alerts()}
        except StoreError as error:
            _log.warning("Alerts could not be read: %s", error)
        else:
            self._alerts = self._written | self._alerts

    def _announce(self, alert: Alert) -> None:
        about = f" {alert.subject!r}" if alert.subject else ""
        _log.warning("Alert %s%s is %s: %s", alert.rule, about, alert.state, alert.message)
        body = {"rule": alert.rule, "subject": alert.subject, "value": alert.value, "threshold": alert.threshold}
        self._store.audit(AuditEntry(kind=f"alert.{alert.state}", principal="local", body=body))
        if self._settings.webhook is None:
            self._note_delivered([alert])

    async def _write(self) -> None:
        """Bring the table up to date, once it was read. If that fails, the next check tries again."""
        alerts = self._alerts
        if self._written is None or alerts == self._written:
            return
        try:
            await self._store.replace_alerts(list(alerts.values()))
        except StoreError as error:
            _log.warning("Alerts could not be recorded: %s", error)
            self._is_writable = False
        else:
            self._is_writable, self._written = True, alerts

    def _post(self) -> None:
        due = [alert for alert in self._alerts.values() if not alert.delivered]
        webhook = self._settings.webhook
        if due and webhook is not None and (self._posting is None or self._posting.done()):
            self._posting = asyncio.create_task(self._try(webhook, sorted(due, key=lambda each: each.changed_at)))

    async def _try(self, webhook: str, due: Sequence[Alert]) -> None:
        """Post changes once, in one message. What is not accepted is posted again with the next check."""
        problem = await post_alerts(webhook, due, secret=self._settings.webhook_secret)
        if problem:
            if not self._is_webhook_failing:
                text = "The webhook did not accept %d changes of alerts: %s. They are posted again until it does."
                _log.error(text, len(due), problem)
            self._is_webhook_failing = True
            return
        self._is_webhook_failing = False
        self._note_delivered(due)
        await self._write()

    def _note_delivered(self, alerts: Iterable[Alert]) -> None:
        """Mark those that have not changed since."""
        now = dict(self._alerts)
        for alert in alerts:
            current = now.get((alert.rule, alert.subject))
            if current is not None and current.changed_at == alert.changed_at:
                now[alert.rule, alert.subject] = msgspec.structs.replace(current, delivered=True)
        self._alerts = now


# The webhook

_is_posting: ContextVar[bool] = ContextVar("sealyard_is_posting", default=False)
# The HTTP client logs each request with its address.
logging.getLogger("httpx2").addFilter(lambda record: not _is_posting.get())


async def post_alerts(webhook: str, alerts: Sequence[Alert], *, secret: str | None) -> str:
    """Send alerts to a webhook once; return what went wrong, or nothing. It takes at most a few seconds."""
    body = msgspec.json.encode(
        {
            "version": 1,
            "sent_at": time.time(),
            "text": "\n".join(map(_line, alerts)),
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


def _line(alert: Alert) -> str:
    about = f" ({alert.subject})" if alert.subject else ""
    return f"sealyard: [{alert.state}] {RULES[alert.rule].title}{about}: {alert.message}"


def _change_id(alert: Alert) -> str:
    """The same id if one change is sent twice, as it may be after a crash."""
    named = f"{alert.rule}\0{alert.subject}\0{alert.state}\0{alert.changed_at!r}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
