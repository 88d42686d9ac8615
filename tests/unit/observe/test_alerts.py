"""Alerts: what is judged to be wrong, when somebody is told, and that it is told once."""

import asyncio
import hashlib
import hmac
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.config.settings import AlertRule, AlertsConfig
from sealyard.errors import StoreError
from sealyard.metrics import Prices, Report
from sealyard.metrics.sums.sums import Sums
from sealyard.observe.health import alerts as alerting
from sealyard.observe.health.alerts import (
    RULES,
    Alerting,
    Finding,
    advance,
    find_down,
    judge,
    list_alerts,
    post_alerts,
)
from sealyard.store import Store, open_store
from sealyard.store.audit import log as audit
from sealyard.store.audit.verification import AuditWatch, AuditWatched
from sealyard.values.access import Alert, AuditEntry
from sealyard.values.facts import Executed, Hidden, Searched, Used
from sealyard.values.tools import UpstreamStatus

LIMITS = AlertsConfig(hit_rate=0.8, error_rate=0.25, p95_seconds=10, timeout_rate=0.05, minimum=20)


def a_report(
    *, searches: int = 0, hits: int = 0, runs: dict[str, int] | None = None, seconds: float = 0.1, failures: int = 0
) -> Report:
    """What so much came to."""
    sums = Sums()
    for number in range(searches):
        sums.add_fact(Searched(at=1, search_id=str(number), place="agent", detail_level="full", seconds=0.01))
    for number in range(hits):
        sums.add_fact(Used(at=1, search_id=str(number), tool="mcp__a__b", rank=1, seconds=1))
    for status, count in (runs or {}).items():
        for _ in range(count):
            sums.add_fact(Executed(at=1, form="code", status=status, seconds=seconds, use_case="compute"))
    if failures:
        sums.add_fact(Hidden(at=1, failures=failures))
    return Report.of(sums, since=0, until=1, prices=Prices(input=3, output=15), tokenizer="o200k_base")


def rules_of(findings: list[Finding]) -> list[str]:
    """The rules that something is said against."""
    return [finding.rule for finding in findings]


# Judging


@pytest.mark.parametrize(
    ("told", "rules"),
    [
        ({"searches": 20, "hits": 16}, []),
        ({"searches": 20, "hits": 15}, ["discovery_hit_rate"]),
        ({"searches": 19, "hits": 0}, []),
        ({"runs": {"ok": 15, "failed": 5}}, []),
        ({"runs": {"ok": 14, "failed": 6}}, ["error_rate"]),
        ({"runs": {"ok": 1, "failed": 18}}, []),
        ({"runs": {"ok": 19, "timeout": 1}}, []),
        ({"runs": {"ok": 18, "timeout": 2}}, ["timeouts"]),
        ({"runs": {"ok": 20}, "seconds": 9.0}, []),
        ({"runs": {"ok": 20}, "seconds": 14.0}, ["slow_runs"]),
        ({"failures": 1}, ["privacy_failures"]),
    ],
)
def test_a_rule_speaks_only_beyond_its_threshold_and_with_enough_to_judge(
    told: dict[str, Any], rules: list[str]
) -> None:
    """At the threshold itself nothing is wrong; fewer than the minimum say nothing."""
    findings, judged = judge(LIMITS, report=a_report(**told))

    assert rules_of(findings) == rules
    assert judged == {"discovery_hit_rate", "error_rate", "slow_runs", "timeouts", "privacy_failures"}


def test_what_is_not_known_is_neither_wrong_nor_right() -> None:
    """Without a report and before the first check nothing is judged, so nothing is resolved either."""
    assert judge(LIMITS) == ([], set())


def test_what_is_so_now_is_judged() -> None:
    """Each says what to do, with numbers and configured names and nothing else."""
    findings, judged = judge(
        LIMITS,
        upstreams_down={"mail": "unavailable", "crm": "circuit_open"},
        is_audit_intact=False,
        audit_first_wrong=1200,
        is_store_failing=True,
    )

    assert [(each.rule, each.subject, each.value, each.threshold, each.message) for each in findings] == [
        (
            "upstream_down",
            "crm",
            None,
            None,
            "The upstream 'crm' fails so often that one of its tools is not called any more. Run `sealyard tools"
            " --status`.",
        ),
        (
            "upstream_down",
            "mail",
            None,
            None,
            "The upstream 'mail' is not running and could not be started. Run `sealyard tools --status`.",
        ),
        (
            "audit_chain",
            "",
            1200,
            None,
            "Entry 1,200 of the audit log is not as it was written. Run `sealyard audit verify`, and keep a copy of"
            " the store as evidence.",
        ),
        (
            "store_failing",
            "",
            None,
            None,
            "The store cannot be written or read, so nothing is run. Run `sealyard audit verify`, and look at the"
            " gateway's log.",
        ),
    ]
    assert judged == {"upstream_down", "audit_chain", "store_failing"}


def test_an_upstream_is_down_when_it_failed_and_not_when_it_was_never_needed() -> None:
    """`stopped` is one that nobody started or that was idle; an open circuit counts whatever the state is."""
    states = ("stopped", "starting", "ready", "backing_off", "failed")
    statuses = [UpstreamStatus(name=state, transport="stdio", state=state) for state in states]

    assert find_down(statuses, ()) == {"backing_off": "unavailable", "failed": "unavailable"}
    assert find_down(statuses[:3], {"ready"}) == {"ready": "circuit_open"}


# States

DOWN = Finding(rule="upstream_down", subject="mail", message="down")


class Checks:
    """Alerts in memory, stepped by findings."""

    def __init__(self) -> None:
        self.alerts: dict[tuple[str, str], Alert] = {}

    def step(self, now: float, *findings: Finding) -> list[tuple[str, str]]:
        """The state and the subject of each alert that is due for the webhook, which accepts it."""
        judged = {"upstream_down", "audit_chain"}
        self.alerts = advance(self.alerts, findings, judged, now=now, for_seconds=60)
        due = [(alert.state, alert.subject) for alert in self.alerts.values() if not alert.delivered]
        self.alerts = {key: msgspec.structs.replace(each, delivered=True) for key, each in self.alerts.items()}
        return due

    @property
    def states(self) -> list[str]:
        """Of all alerts."""
        return [alert.state for alert in self.alerts.values()]


def test_a_lasting_fault_fires_once_and_is_resolved_once() -> None:
    """A pending alert is not sent; firing and resolved are sent one time each, whatever follows."""
    checks = Checks()
    sent = [checks.step(now, DOWN) for now in (0, 30, 59.9, 60, 75, 600)]
    sent += [checks.step(now) for now in (615, 630)]

    assert sent == [[], [], [], [("firing", "mail")], [], [], [("resolved", "mail")], []]
    assert checks.states == ["resolved"]


def test_a_fault_that_does_not_last_is_forgotten() -> None:
    """A pending alert whose fault is gone leaves nothing behind, and the next one waits anew."""
    checks = Checks()
    sent = [checks.step(0, DOWN), checks.step(30), checks.step(45, DOWN), checks.step(75, DOWN)]

    assert (sent, checks.states) == ([[], [], [], []], ["pending"])


def test_a_fault_that_must_never_happen_fires_at_once() -> None:
    """A changed audit log does not wait for `for_seconds`."""
    assert Checks().step(0, Finding(rule="audit_chain", message="wrong")) == [("firing", "")]


def test_a_rule_that_cannot_be_judged_keeps_its_alert() -> None:
    """A report that could not be read resolves nothing."""
    firing = Alert(rule="error_rate", state="firing", message="many", since=0, changed_at=0)

    after = advance({("error_rate", ""): firing}, (), {"upstream_down"}, now=60, for_seconds=60)

    assert after == {("error_rate", ""): firing}


def test_a_resolved_alert_is_listed_for_a_month() -> None:
    """And not for ever: upstreams come and go."""
    checks = Checks()
    checks.step(0, DOWN)
    checks.step(60, DOWN)
    checks.step(75)
    kept = checks.step(75 + 30 * 86_400.0), checks.states
    checks.step(76 + 30 * 86_400.0)

    assert (kept, checks.states) == (([], ["resolved"]), [])


@given(steps=st.lists(st.tuples(st.booleans(), st.floats(0, 40)), min_size=1, max_size=40))
def test_firing_and_resolved_alternate_whatever_is_seen(steps: list[tuple[bool, float]]) -> None:
    """Nobody receives twice in a row that something fires, or that it is over."""
    checks = Checks()
    now = 0.0
    sent: list[str] = []
    for is_down, wait in steps:
        now += wait
        sent += [state for state, _ in checks.step(now, *([DOWN] if is_down else []))]

    assert sent == ["firing", "resolved"] * (len(sent) // 2) + ["firing"] * (len(sent) % 2)


# The store and the sinks


class World:
    """A gateway's alerting whose surroundings a test decides."""

    def __init__(self, store: Store, path: Path, **settings: Any) -> None:
        self.report = a_report()
        self.statuses: list[UpstreamStatus] = []
        self.circuits: set[str] = set()
        self.now = time.time()
        self.store = store
        self.alerting = Alerting(
            AlertsConfig(**settings),
            store,
            report=self._report,
            statuses=lambda: self.statuses,
            circuits=lambda: self.circuits,
            clock=lambda: self.now,
        )

    async def _report(self, since: float, until: float) -> Report:
        assert (since, until) == (self.now - 900, self.now)
        return self.report

    def set_down(self, *names: str) -> None:
        """These upstreams have failed."""
        self.statuses = [UpstreamStatus(name=name, transport="stdio", state="failed") for name in names]

    async def check(self, after: float = 0.0) -> list[tuple[str, str, str]]:
        """Look once, so much later; all alerts then."""
        self.now += after
        await self.alerting.check()
        await self.alerting.settle()
        await self.store.flush()
        listed = await list_alerts(self.store)
        return [(alert.rule, alert.subject, alert.state) for alert in listed.alerts]


@asynccontextmanager
async def world(path: Path, **settings: Any) -> AsyncIterator[World]:
    """The alerting of a gateway over the store at `path`."""
    async with asyncio.timeout(60), open_store(path) as store:
        made = World(store, path, **settings)
        try:
            yield made
        finally:
            await made.alerting.close()


class Receiver:
    """A real server that takes what is posted to it, and answers as it is told."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[tuple[dict[str, str], bytes]] = []
        self.url = ""
        self.is_silent = False

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, unless who sends it gives up."""
        with suppress(asyncio.IncompleteReadError):
            await self._take(reader, writer)
        writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:] if line)
        }
        body = await reader.readexactly(int(headers["content-length"]))
        self.raw.append((headers, body))
        self.bodies.append(json.loads(body))
        if not self.is_silent:
            status = self.statuses.pop(0) if self.statuses else 200
            more = f"Location: {self.url}/elsewhere\r\n" if status == 302 else ""
            writer.write(f"HTTP/1.1 {status} So\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
        else:
            await reader.read()

    def told(self) -> list[list[tuple[str, str, str]]]:
        """Rule, subject and state of the alerts of each message."""
        return [[(one["rule"], one["subject"], one["state"]) for one in body["alerts"]] for body in self.bodies]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A webhook's receiver on loopback."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook/s3cret"
    async with server:
        yield receiver


async def test_an_alert_goes_through_its_states_and_is_posted_signed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The receiver can check who sent it, and is told no more than the alert."""
    async with (
        receiving() as receiver,
        world(tmp_path / "s.db", webhook=receiver.url, webhook_secret="shared") as gateway,
    ):
        gateway.set_down("mail")
        states = [await gateway.check(), await gateway.check(60)]
        gateway.set_down()
        states.append(await gateway.check(15))

    assert states == [
        [("upstream_down", "mail", "pending")],
        [("upstream_down", "mail", "firing")],
        [("upstream_down", "mail", "resolved")],
    ]
    assert receiver.told() == [[("upstream_down", "mail", "firing")], [("upstream_down", "mail", "resolved")]]
    for headers, body in receiver.raw:
        right = hmac.new(b"shared", body, hashlib.sha256).hexdigest()
        assert headers["sealyard-signature"] == f"sha256={right}"
    first = receiver.bodies[0]
    sentence = "The upstream 'mail' is not running and could not be started. Run `sealyard tools --status`."
    assert set(first) == {"version", "sent_at", "text", "alerts"}
    assert first["text"] == f"sealyard: [firing] An upstream is down (mail): {sentence}"
    (alert,) = first["alerts"]
    assert set(alert) == {
        "id",
        "rule",
        "subject",
        "state",
        "severity",
        "title",
        "value",
        "threshold",
        "message",
        "since",
        "changed_at",
    }
    assert (alert["message"], alert["severity"], alert["value"]) == (sentence, "critical", None)
    assert [record.getMessage() for record in caplog.records if record.name == "sealyard.alerts"] == [
        f"Alert upstream_down 'mail' is firing: {sentence}",
        f"Alert upstream_down 'mail' is resolved: {sentence}",
    ]


async def test_a_restart_tells_nothing_twice(tmp_path: Path) -> None:
    """What fires goes on firing, under another gateway, until it is over."""
    async with receiving() as receiver:
        async with world(tmp_path / "s.db", webhook=receiver.url) as first:
            first.set_down("mail")
            await first.check()
            await first.check(60)
        async with world(tmp_path / "s.db", webhook=receiver.url) as second:
            second.set_down("mail")
            kept = [await second.check(75), await second.check(15)]
            second.set_down()
            over = await second.check(15)

    assert kept == [[("upstream_down", "mail", "firing")]] * 2
    assert over == [("upstream_down", "mail", "resolved")]
    assert receiver.told() == [[("upstream_down", "mail", "firing")], [("upstream_down", "mail", "resolved")]]


async def test_alerts_that_cannot_be_read_at_first_are_taken_over_later(tmp_path: Path) -> None:
    """What fired under the gateway before goes on firing, and its end is told."""
    path = tmp_path / "s.db"
    async with receiving() as receiver:
        async with world(path, webhook=receiver.url, for_seconds=0) as first:
            first.set_down("mail")
            await first.check()
        async with world(path, webhook=receiver.url, for_seconds=0) as second:
            tamper(path, "ALTER TABLE alerts RENAME TO away")
            await second.alerting.check()
            tamper(path, "ALTER TABLE away RENAME TO alerts")
            over = await second.check(15)

    assert over == [("upstream_down", "mail", "resolved")]
    assert receiver.told() == [[("upstream_down", "mail", "firing")], [("upstream_down", "mail", "resolved")]]


async def test_of_two_gateways_on_one_store_one_checks(tmp_path: Path) -> None:
    """The other takes over when it ends, and repeats nothing."""
    path = tmp_path / "s.db"
    async with receiving() as receiver, world(path, webhook=receiver.url, for_seconds=0) as other:
        async with world(path, webhook=receiver.url, for_seconds=0) as one:
            one.set_down("mail")
            fired = await one.check()
            other.set_down("crm")
            listed = await other.check(15)
        taken_over = await other.check(15)

    assert fired == listed == [("upstream_down", "mail", "firing")]
    assert taken_over == [("upstream_down", "crm", "firing"), ("upstream_down", "mail", "resolved")]
    assert [sorted(batch) for batch in receiver.told()] == [
        [("upstream_down", "mail", "firing")],
        [("upstream_down", "crm", "firing"), ("upstream_down", "mail", "resolved")],
    ]


async def test_all_that_changes_in_one_look_is_one_message(tmp_path: Path) -> None:
    """Fifty upstreams that are down at once are not fifty requests."""
    names = [f"up{number:02}" for number in range(50)]
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        gateway.set_down(*names)
        await gateway.check()

    assert sorted(name for batch in receiver.told() for _, name, _ in batch) == names
    assert len(receiver.bodies) <= 2  # what waits while one is sent goes into the next


async def test_a_change_is_posted_until_the_webhook_accepts_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect is not followed. The failure is logged once, without the address, counted and shown."""
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        receiver.statuses = [500, 302, 204]
        gateway.set_down("mail")
        undelivered = []
        for _ in range(4):
            await gateway.check(15)
            (alert,) = (await list_alerts(gateway.store)).alerts
            gauges = {each.name: each.value for each in await gateway.alerting.gauges() if not each.labels}
            undelivered.append((alert.undelivered, gauges["sealyard_alerts_undelivered"]))

    assert undelivered == [(True, 1), (True, 1), (False, 0), (False, 0)]
    assert [body["alerts"][0]["id"] for body in receiver.bodies] == [receiver.bodies[0]["alerts"][0]["id"]] * 3
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [
        "The webhook did not accept 1 changes of alerts: it answered with status 500. They are posted again until it"
        " does."
    ]
    assert "s3cret" not in caplog.text


async def test_a_fault_that_ends_before_its_alert_was_accepted_is_posted_as_resolved(tmp_path: Path) -> None:
    """The receiver is told the latest state, not a past one."""
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        receiver.statuses = [500]
        gateway.set_down("mail")
        await gateway.check()
        gateway.set_down()
        await gateway.check(15)

    assert receiver.told()[1:] == [[("upstream_down", "mail", "resolved")]]


async def test_a_webhook_that_never_answers_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next check comes while the first message still waits, and posts nothing beside it."""
    monkeypatch.setattr(alerting, "_TRY_SECONDS", 0.2)
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        receiver.is_silent = True
        gateway.set_down("mail")
        await gateway.alerting.check()
        gateway.now += 15
        await gateway.alerting.check()
        await gateway.alerting.settle()
        (alert,) = (await list_alerts(gateway.store)).alerts

    assert (alert.state, alert.undelivered, len(receiver.bodies)) == ("firing", True, 1)


@pytest.mark.parametrize("webhook", ["http://127.0.0.1:1/x", "ftp://files.example/x", "http://[bad", "nonsense"])
async def test_a_webhook_that_cannot_be_reached_is_a_sentence_and_no_exception(webhook: str) -> None:
    """Whatever the configuration holds."""
    problem = await post_alerts(webhook, [], secret=None)

    assert problem.startswith("it could not be reached (")
    assert "files" not in problem


async def test_a_gateway_that_ends_while_it_tells_leaves_it_to_the_next(tmp_path: Path) -> None:
    """The change is on disk before anybody is told, and told is on disk only after somebody took it."""
    path = tmp_path / "s.db"
    async with receiving() as receiver:
        receiver.is_silent = True
        async with world(path, webhook=receiver.url, for_seconds=0) as first:
            first.set_down("mail")
            await first.alerting.check()
        receiver.is_silent = False
        receiver.bodies.clear()
        async with world(path, webhook=receiver.url, for_seconds=0) as second:
            second.set_down("mail")
            await second.check(15)
            await second.check(15)

    assert receiver.told() == [[("upstream_down", "mail", "firing")]]


async def test_a_rule_that_is_off_never_fires_and_ends_its_alert(tmp_path: Path) -> None:
    """Also if it fired before it was turned off."""
    path = tmp_path / "s.db"
    async with world(path, for_seconds=0) as before:
        before.set_down("mail")
        fired = await before.check()
    async with world(path, for_seconds=0, off=("upstream_down",)) as after:
        after.set_down("mail")
        off = [await after.check(15), await after.check(15)]

    assert fired == [("upstream_down", "mail", "firing")]
    assert off == [[("upstream_down", "mail", "resolved")]] * 2


def test_every_rule_can_be_turned_off() -> None:
    """`off` accepts the names of the rules and nothing else."""
    assert set(get_args(AlertRule)) == set(RULES)


async def test_a_change_is_in_the_audit_log(tmp_path: Path) -> None:
    """When it fired and when it was resolved, with its figures."""
    async with world(tmp_path / "s.db", for_seconds=0) as gateway:
        gateway.set_down("mail")
        await gateway.check()
        gateway.set_down()
        await gateway.check(15)
        entries = await gateway.store.audit_entries()

    body = {"rule": "upstream_down", "subject": "mail", "value": None, "threshold": None}
    assert [(entry.kind, entry.principal, entry.body) for entry in entries] == [
        ("alert.resolved", "local", body),
        ("alert.firing", "local", body),
    ]


async def test_figures_of_the_window_fire_and_recover(tmp_path: Path) -> None:
    """Error rate and hit rate come from what the store added up."""
    async with world(tmp_path / "s.db", for_seconds=0) as gateway:
        gateway.report = a_report(searches=20, hits=2, runs={"ok": 10, "failed": 10})
        wrong = await gateway.check()
        gateway.report = a_report(searches=20, hits=20, runs={"ok": 20})
        right = await gateway.check(15)

    assert wrong == [("discovery_hit_rate", "", "firing"), ("error_rate", "", "firing")]
    assert right == [("discovery_hit_rate", "", "resolved"), ("error_rate", "", "resolved")]


async def test_alerts_that_are_switched_off_still_check_what_prometheus_asks_for(tmp_path: Path) -> None:
    """Who uses Prometheus' own rules needs the figures and not our messages."""
    async with world(tmp_path / "s.db", enabled=False, for_seconds=0) as gateway:
        gateway.store.audit(AuditEntry(kind="gateway.start", principal="local"))
        await gateway.store.flush()
        gateway.set_down("mail")
        listed = await gateway.check()
        gauges = {each.name: each.value for each in await gateway.alerting.gauges() if not each.labels}

    assert listed == []
    assert gauges == {
        "sealyard_alerts_undelivered": 0,
        "sealyard_store_failing": False,
        "sealyard_audit_chain_intact": True,
    }


async def test_a_check_that_breaks_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop logs it and looks again; it ends when it is cancelled."""
    monkeypatch.setattr(alerting, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(alerting, "_EVERY_SECONDS", 0.0)
    looked = asyncio.Event()
    looks = 0

    def statuses() -> list[UpstreamStatus]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("an odd day")
        looked.set()
        return []

    async with world(tmp_path / "s.db") as gateway:
        gateway.alerting._statuses = statuses
        watching = asyncio.create_task(gateway.alerting.watch())
        async with asyncio.timeout(5):
            await looked.wait()
        watching.cancel()
        await asyncio.wait({watching})

    assert watching.cancelled()
    (record,) = [record for record in caplog.records if record.exc_info]
    assert (record.getMessage(), str(record.exc_info[1])) == ("Alerts could not be checked.", "an odd day")


# The audit log


async def record(path: Path, count: int) -> None:
    """A store with so many entries in its log."""
    async with open_store(path) as store:
        for number in range(count):
            store.audit(AuditEntry(kind="call", principal="local", body={"number": number}))
            await store.flush()


def steps(watch: AuditWatch) -> list[AuditWatched]:
    """What is known after each part of one round."""
    found = [watch.step()]
    while not watch.is_between_rounds:
        found.append(watch.step())
    return found


def tamper(path: Path, statement: str) -> None:
    """Change the store as somebody would who can write the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


async def test_a_log_is_checked_a_segment_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said to be intact only when a whole round has found nothing."""
    monkeypatch.setattr(audit, "SEGMENT_ENTRIES", 3)
    path = tmp_path / "s.db"
    await record(path, 8)
    watch = AuditWatch(path)

    assert [each.is_intact for each in steps(watch)] == [None, None, True]
    await record(path, 2)
    assert [each.is_intact for each in steps(watch)] == [True, True, True, True]


@pytest.mark.parametrize(
    ("statement", "first_wrong"),
    [
        ("UPDATE audit SET body = '{}' WHERE number = 2", 2),
        ("UPDATE audit SET principal = 'eve' WHERE number = 8", 8),
        ("DELETE FROM audit WHERE number = 8", 8),
        ("DELETE FROM audit WHERE number = 5", 5),
        ("UPDATE audit_segments SET last_hash = previous_hash WHERE segment = 1", 1),
        ("DELETE FROM audit_segments WHERE segment = 1", 1),
        ("UPDATE audit_head SET number = 7", None),
        ("CREATE TRIGGER audit_lie AFTER INSERT ON audit BEGIN SELECT 1; END", None),
        ("UPDATE audit_segments SET first_number = 'one' WHERE segment = 2", None),
    ],
)
async def test_a_log_that_somebody_changed_is_found_wherever_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, first_wrong: int | None
) -> None:
    """It stays wrong in the rounds that follow."""
    monkeypatch.setattr(audit, "SEGMENT_ENTRIES", 3)
    path = tmp_path / "s.db"
    await record(path, 8)
    watch = AuditWatch(path)
    steps(watch)
    tamper(path, statement)
    found = [steps(watch)[-1], steps(watch)[-1]]

    assert [each.is_intact for each in found] == [False, False]
    if first_wrong is not None:
        assert found[0].first_wrong == first_wrong


async def test_a_log_that_was_put_back_is_noticed_by_who_watched(tmp_path: Path) -> None:
    """An older copy of the whole store is right in itself; it is shorter than what was seen."""
    path = tmp_path / "s.db"
    await record(path, 2)
    old = path.read_bytes()
    await record(path, 2)
    watch = AuditWatch(path)
    before = steps(watch)[-1]
    path.write_bytes(old)

    assert (before.is_intact, steps(watch)[-1]) == (True, AuditWatched(is_intact=False, first_wrong=3))


async def test_a_log_whose_key_is_gone_is_not_intact(tmp_path: Path) -> None:
    """Nothing can be proved without it."""
    path = tmp_path / "s.db"
    await record(path, 2)
    for key in tmp_path.glob("*audit*"):
        key.unlink()

    assert steps(AuditWatch(path))[-1].is_intact is False


async def test_a_changed_audit_log_is_told_though_the_store_refuses_to_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be recorded over a head that somebody forged: alerts go on in memory and are told once."""
    path = tmp_path / "s.db"
    async with receiving() as receiver, world(path, webhook=receiver.url, for_seconds=0) as gateway:
        gateway.store.audit(AuditEntry(kind="gateway.start", principal="local"))
        await gateway.store.flush()
        well = await gateway.check()
        with closing(sqlite3.connect(path)) as connection:
            signature = connection.execute("SELECT signature FROM audit_head").fetchone()[0]
        tamper(path, "UPDATE audit_head SET signature = '00'")
        gateway.store.audit(AuditEntry(kind="gateway.stop", principal="local"))
        with pytest.raises(StoreError):
            await gateway.store.flush()
        for _ in range(3):
            gateway.now += 3600
            await gateway.alerting.check()
            await gateway.alerting.settle()
        failing = {each.name: each.value for each in await gateway.alerting.gauges() if not each.labels}
        tamper(path, f"UPDATE audit_head SET signature = '{signature}'")
        await gateway.store.flush()
        recovered = [await gateway.check(3600), await gateway.check(3600)]

    assert well == []
    assert sorted(one for batch in receiver.told()[:-1] for one in batch) == [
        ("audit_chain", "", "firing"),
        ("store_failing", "", "firing"),
    ]
    assert sorted(receiver.told()[-1]) == [("audit_chain", "", "resolved"), ("store_failing", "", "resolved")]
    assert (failing["sealyard_store_failing"], failing["sealyard_audit_chain_intact"]) == (True, False)
    assert [sorted(each) for each in recovered] == [
        [("audit_chain", "", "resolved"), ("store_failing", "", "resolved")]
    ] * 2
