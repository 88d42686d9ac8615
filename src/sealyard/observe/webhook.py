"""Tells people about alerts: in the log, and by a webhook if one is configured.

What happens to an alert is told in the order in which it happened, all that waits in one message. A message holds no
more than the alert does, which is nothing private. The address of the webhook may be a password: nothing we write down
names it.
"""

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar

import httpx2
import msgspec

from sealyard.config.settings import AlertsConfig
from sealyard.metrics.alerts import RULES, Alert

_log = logging.getLogger("sealyard.alerts")

_PAUSES_SECONDS = (0.0, 5.0, 45.0)
"""Before each try. A receiver that is being restarted is back by the last one."""
_TRY_SECONDS = 5.0

_is_posting: ContextVar[bool] = ContextVar("sealyard_is_posting", default=False)
# Who lets the client's own log through would find the address in it.
logging.getLogger("httpx2").addFilter(lambda record: not _is_posting.get())


class Teller:
    """Tells alerts one after the other, in the background. `on_told` is called for each with whether it was taken."""

    def __init__(self, settings: AlertsConfig, on_told: Callable[[Alert, bool], None]) -> None:
        self._settings = settings
        self._on_told = on_told
        self._waiting: list[Alert] = []
        self._telling: asyncio.Task[None] | None = None
        self.undelivered = 0
        """Changes that the webhook did not take."""

    def tell(self, alert: Alert) -> None:
        """Tell the state that an alert is in. Returns at once."""
        about = f" {alert.subject!r}" if alert.subject else ""
        _log.warning("Alert %s%s is %s: %s", alert.rule, about, alert.state, alert.message)
        if self._settings.webhook is None:
            self._on_told(alert, True)
            return
        self._waiting.append(alert)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_waiting(self._settings.webhook))

    async def settle(self) -> None:
        """Return when nothing waits."""
        if self._telling is not None:
            await asyncio.wait({self._telling})

    async def close(self) -> None:
        """Stop at once."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})

    async def _tell_waiting(self, webhook: str) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            is_delivered = await self._deliver(webhook, batch)
            if not is_delivered:
                self.undelivered += len(batch)
            for alert in batch:
                self._on_told(alert, is_delivered)

    async def _deliver(self, webhook: str, batch: Sequence[Alert]) -> bool:
        problem = ""
        for pause in _PAUSES_SECONDS:
            await asyncio.sleep(pause)
            problem = await post(webhook, batch, secret=self._settings.webhook_secret)
            if not problem:
                return True
        _log.error(
            "The webhook did not take %d changes of alerts in %d tries: %s.", len(batch), len(_PAUSES_SECONDS), problem
        )
        return False


async def post(webhook: str, alerts: Sequence[Alert], *, secret: str | None) -> str:
    """Send alerts to a webhook once; what went wrong, or nothing. It takes at most a few seconds."""
    told = _is_posting.set(True)
    try:
        return await _post(webhook, alerts, secret)
    finally:
        _is_posting.reset(told)


async def _post(webhook: str, alerts: Sequence[Alert], secret: str | None) -> str:
    body = msgspec.json.encode(
        {
            "version": 1,
            "sent_at": time.time(),
            "text": "\n".join(f"sealyard: {_heading(alert)}: {alert.message}" for alert in alerts),
            "alerts": [_to_body(alert) for alert in alerts],
        }
    )
    headers = {"Content-Type": "application/json", "User-Agent": "sealyard"}
    if secret is not None:
        signature = hmac.new(secret.encode("utf-8", "surrogateescape"), body, hashlib.sha256).hexdigest()
        headers["Sealyard-Signature"] = f"sha256={signature}"
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


def _heading(alert: Alert) -> str:
    about = f" ({alert.subject})" if alert.subject else ""
    return f"[{alert.state}] {RULES[alert.rule].title}{about}"


def _to_body(alert: Alert) -> dict[str, object]:
    """What a receiver is told. `id` is the same if the same change comes twice, as it may after a crash."""
    named = f"{alert.rule}\0{alert.subject}\0{alert.state}\0{alert.changed_at!r}"
    return {
        "id": hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        "rule": alert.rule,
        "subject": alert.subject,
        "state": alert.state,
        "severity": RULES[alert.rule].severity,
        "title": RULES[alert.rule].title,
        "value": alert.value,
        "threshold": alert.threshold,
        "message": alert.message,
        "since": alert.since,
        "changed_at": alert.changed_at,
    }
