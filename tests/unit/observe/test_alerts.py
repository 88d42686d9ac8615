"""Alerts: what is judged to be wrong, when somebody is told, and that it is told once."""

import asyncio
import hashlib
import hmac
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.config.settings import AlertsConfig
from sealyard.errors import InvalidRequest, StoreError
from sealyard.metrics import Prices, Report
from sealyard.metrics.sums.sums import Sums
from sealyard.observe import alerts as alerting
from sealyard.observe.alerts import (
    RULES,
    Alerting,
    Finding,
    Look,
    Observed,
    advance,
    find_down,
    judge,
    list_alerts,
    post_alerts,
    silence_rule,
    unsilence_rule,
)
from sealyard.privacy.detect import Scanner, ScanRules
from sealyard.store import Store, open_store
from sealyard.store.alerts import Alert
from sealyard.store.audit import log as audit
from sealyard.store.audit.verification import AuditWatch, AuditWatched
from sealyard.values.access import AuditEntry
from sealyard.values.facts import Executed, Hidden, Searched, Used
from sealyard.values.tools import UpstreamStatus

LIMITS = AlertsConfig(hit_rate=0.8, error_rate=0.25, p95_seconds=10, timeout_rate=0.05, detection_rate=0.95, minimum=20)


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
    findings, judged = judge(LIMITS, Observed(report=a_report(**told)))

    assert rules_of(findings) == rules
    assert judged == {"discovery_hit_rate", "error_rate", "slow_runs", "timeouts", "privacy_failures"}


def test_what_is_not_known_is_neither_wrong_nor_right() -> None:
    """Without a report and before the first check nothing is judged, so nothing is resolved either."""
    assert judge(LIMITS, Observed()) == ([], set())


def test_what_is_so_now_is_judged() -> None:
    """Each says what to do, with numbers and configured names and nothing else."""
    seen = Observed(
        upstreams_down={"mail": "unavailable", "crm": "circuit_open"},
        detection_rate=0.9,
        is_audit_intact=False,
        audit_first_wrong=1200,
        is_store_failing=True,
    )
    findings, judged = judge(LIMITS, seen)

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
            "privacy_detection",
            "",
            0.9,
            0.95,
            "The detectors find 90.0% of the built-in samples of private values; at least 95.0% are expected. Look at"
            " [privacy] in the configuration.",
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
    assert judged == {"upstream_down", "privacy_detection", "audit_chain", "store_failing"}


def test_an_upstream_is_down_when_it_failed_and_not_when_it_was_never_needed() -> None:
    """`stopped` is one that nobody started or that was idle; an open circuit counts whatever the state is."""
    states = ("stopped", "starting", "ready", "backing_off", "failed")
    statuses = [UpstreamStatus(name=state, transport="stdio", state=state) for state in states]

    assert find_down(statuses, ()) == {"backing_off": "unavailable", "failed": "unavailable"}
    assert find_down(statuses[:3], {"ready"}) == {"ready": "circuit_open"}


# States

DOWN = Finding(rule="upstream_down", subject="mail", message="down")
JUDGED = {"upstream_down"}


class Gateways:
    """Alerts in memory, over which gateways step as they do over the store's."""

    def __init__(self) -> None:
        self.alerts: dict[tuple[str, str], Alert] = {}
        self.gone: set[str] = set()
        self.silenced: set[str] = set()

    def step(self, owner: str, now: float, *findings: Finding, for_seconds: float = 60) -> list[tuple[str, str]]:
        """What is told by `owner` when it sees this: the state and the subject of each."""
        before = dict(self.alerts)
        look = Look(findings=findings, judged=JUDGED | {"audit_chain"}, now=now, for_seconds=for_seconds, owner=owner)
        self.alerts = advance(look, before, self.silenced, lambda each: each not in self.gone)
        told = []
        for key, alert in self.alerts.items():
            if alert.delivery == owner:
                told.append((alert.state, alert.subject))
                self.alerts[key] = msgspec.structs.replace(alert, delivery="")
        return told

    @property
    def states(self) -> list[str]:
        """Of all alerts."""
        return [alert.state for alert in self.alerts.values()]


def test_what_lasts_fires_once_and_is_resolved_once() -> None:
    """Pending says nothing to anybody; firing and resolved are told one time each, whatever follows."""
    yard = Gateways()
    told = [yard.step("a", now, DOWN) for now in (0, 30, 59.9, 60, 75, 600)]
    told += [yard.step("a", now) for now in (615, 630)]

    assert told == [[], [], [], [("firing", "mail")], [], [], [("resolved", "mail")], []]
    assert yard.states == ["resolved"]


def test_what_does_not_last_is_forgotten() -> None:
    """A pending alert that is right again leaves nothing behind, and the next one waits anew."""
    yard = Gateways()
    told = [yard.step("a", 0, DOWN), yard.step("a", 30), yard.step("a", 45, DOWN), yard.step("a", 75, DOWN)]

    assert (told, yard.states) == ([[], [], [], []], ["pending"])


def test_what_must_never_happen_is_told_at_once() -> None:
    """A changed audit log does not wait for `for_seconds`."""
    yard = Gateways()

    assert yard.step("a", 0, Finding(rule="audit_chain", message="wrong")) == [("firing", "")]


def test_several_gateways_tell_once_and_an_alert_lasts_while_one_of_them_sees_it() -> None:
    """The one that is well does not resolve what the other still sees."""
    yard = Gateways()
    told = [
        yard.step("a", 0, DOWN),
        yard.step("b", 10),
        yard.step("b", 60, DOWN),
        yard.step("a", 61, DOWN),
        yard.step("b", 70),
        yard.step("b", 80),
        yard.step("a", 90),
        yard.step("b", 95),
    ]

    assert told == [[], [], [("firing", "mail")], [], [], [], [("resolved", "mail")], []]


def test_what_a_gateway_saw_that_is_gone_is_resolved_by_another() -> None:
    """Its end does not leave the alert firing for ever."""
    yard = Gateways()
    yard.step("a", 0, DOWN)
    yard.step("a", 60, DOWN)
    before = yard.step("b", 70)
    yard.gone.add("a")

    assert (before, yard.step("b", 85)) == ([], [("resolved", "mail")])


def test_what_a_gateway_did_not_come_to_tell_is_told_by_the_next() -> None:
    """It was killed between the commit and the message."""
    untold = Alert(
        rule="upstream_down", subject="mail", state="firing", message="down", since=0, changed_at=60, delivery="a"
    )
    yard = Gateways()
    yard.alerts = {("upstream_down", "mail"): untold}
    while_alive = yard.step("b", 70, DOWN)
    yard.gone.add("a")

    assert (while_alive, yard.step("b", 85, DOWN), yard.step("c", 90, DOWN)) == ([], [("firing", "mail")], [])


def test_a_silenced_alert_is_told_when_the_silence_ends_if_it_still_fires() -> None:
    """And not at all if it is over by then."""
    yard = Gateways()
    yard.silenced = {"upstream_down"}
    quiet = [yard.step("a", 0, DOWN), yard.step("a", 60, DOWN), yard.step("a", 75, DOWN)]
    yard.silenced = set()
    after = yard.step("a", 90, DOWN)
    yard.step("a", 100)
    yard.silenced = {"upstream_down"}
    again = [yard.step("a", 200, DOWN), yard.step("a", 260, DOWN), yard.step("a", 275)]
    yard.silenced = set()

    assert (quiet, after, again, yard.step("a", 290)) == ([[], [], []], [("firing", "mail")], [[], [], []], [])


def test_an_alert_that_was_told_is_told_to_be_over_though_silenced() -> None:
    """Else whoever was told that it fires would wait for ever."""
    yard = Gateways()
    yard.step("a", 0, DOWN)
    fired = yard.step("a", 60, DOWN)
    yard.silenced = {"upstream_down"}

    assert (fired, yard.step("a", 75)) == ([("firing", "mail")], [("resolved", "mail")])


def test_what_a_person_resolved_does_not_fire_again_before_it_was_right() -> None:
    """Then it is new, and told again."""
    yard = Gateways()
    key = ("upstream_down", "mail")
    yard.step("a", 0, DOWN)
    yard.step("a", 60, DOWN)
    yard.alerts[key] = msgspec.structs.replace(alerting._resolved(yard.alerts[key], 70, "cli"), delivery="")
    held = [yard.step("a", now, DOWN) for now in (75, 200, 400)]
    right = yard.step("a", 500)
    new = [yard.step("a", 510, DOWN), yard.step("a", 570, DOWN)]

    assert (held, right, new) == ([[], [], []], [], [[], [("firing", "mail")]])


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 40)), min_size=1, max_size=40))
def test_what_is_told_alternates_whatever_gateways_see(steps: list[tuple[str, bool, float]]) -> None:
    """Nobody is told twice in a row that something fires, or that it is over."""
    yard = Gateways()
    now = 0.0
    told: list[str] = []
    for owner, is_down, wait in steps:
        now += wait
        told += [state for state, _ in yard.step(owner, now, *([DOWN] if is_down else []))]

    assert told == ["firing", "resolved"] * (len(told) // 2) + ["firing"] * (len(told) % 2)


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
            path=path,
            report=self._report,
            statuses=lambda: self.statuses,
            circuits=lambda: self.circuits,
            scanner=Scanner(),
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


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other without a pause."""
    monkeypatch.setattr(alerting, "_PAUSES_SECONDS", (0.0, 0.0, 0.0))


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


async def test_two_gateways_on_one_store_tell_once(tmp_path: Path) -> None:
    """They look at the same time; the one that is well does not end what the other sees."""
    path = tmp_path / "s.db"
    async with (
        receiving() as receiver,
        world(path, webhook=receiver.url) as one,
        world(path, webhook=receiver.url) as other,
    ):
        for gateway in (one, other):
            gateway.set_down("mail")
        await asyncio.gather(one.check(), other.check())
        await asyncio.gather(one.check(60), other.check(60))
        one.set_down()
        still = await one.check(15)
        other.set_down()
        over = await other.check(15)

    assert (still, over) == ([("upstream_down", "mail", "firing")], [("upstream_down", "mail", "resolved")])
    assert receiver.told() == [[("upstream_down", "mail", "firing")], [("upstream_down", "mail", "resolved")]]


async def test_all_that_changes_in_one_look_is_one_message(tmp_path: Path) -> None:
    """Fifty upstreams that are down at once are not fifty requests."""
    names = [f"up{number:02}" for number in range(50)]
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        gateway.set_down(*names)
        await gateway.check()

    assert sorted(name for batch in receiver.told() for _, name, _ in batch) == names
    assert len(receiver.bodies) <= 2  # what waits while one is sent goes into the next


async def test_a_webhook_that_fails_is_tried_again_and_then_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at_once: None
) -> None:
    """A redirect is not followed. The failure is logged without the address, counted and shown."""
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        receiver.statuses = [500, 302, 204]
        gateway.set_down("mail")
        await gateway.check()
        taken = (await list_alerts(gateway.store)).alerts[0].undelivered
        receiver.statuses = [500, 500, 404]
        gateway.set_down()
        await gateway.check(15)
        refused = (await list_alerts(gateway.store)).alerts[0].undelivered
        gauges = {each.name: each.value for each in await gateway.alerting.gauges() if not each.labels}

    assert (taken, refused, len(receiver.bodies)) == (False, True, 6)
    assert [body["alerts"][0]["id"] for body in receiver.bodies[:3]] == [receiver.bodies[0]["alerts"][0]["id"]] * 3
    assert gauges["sealyard_alerts_undelivered"] == 1
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["The webhook did not take 1 changes of alerts in 3 tries: it answered with status 404."]
    assert "s3cret" not in caplog.text


async def test_a_webhook_that_never_answers_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: None
) -> None:
    """The next look comes while the message of the first still waits."""
    monkeypatch.setattr(alerting, "_TRY_SECONDS", 0.2)
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        receiver.is_silent = True
        gateway.set_down("mail")
        await gateway.alerting.check()
        gateway.now += 15
        await gateway.alerting.check()
        await gateway.alerting.settle()
        await gateway.store.flush()
        (alert,) = (await list_alerts(gateway.store)).alerts

    assert (alert.state, alert.undelivered) == ("firing", True)


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


async def test_a_silence_keeps_quiet_until_its_end(tmp_path: Path) -> None:
    """Who silenced it and why is listed and in the audit log; what fires at the end is told then."""
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        made = await silence_rule(gateway.store, "upstream_down", 3600, principal="ada", reason="we know")
        gateway.set_down("mail")
        await gateway.check()
        listed = await list_alerts(gateway.store)
        quiet = list(receiver.told())
        gateway.now = made.until + 1
        await gateway.check()
        await unsilence_rule(gateway.store, "upstream_down", principal="bob")
        await gateway.store.flush()
        entries = await gateway.store.audit_entries()

    assert (quiet, receiver.told()) == ([], [[("upstream_down", "mail", "firing")]])
    assert listed.silences == [made]
    assert (made.principal, made.reason, listed.alerts[0].silenced) == ("ada", "we know", True)
    assert [(entry.kind, entry.principal, entry.body) for entry in entries] == [
        ("alert.unsilence", "bob", {"rule": "upstream_down"}),
        ("alert.silence", "ada", {"rule": "upstream_down", "until": made.until, "reason": "we know"}),
    ]


async def test_a_person_resolves_an_alert(tmp_path: Path) -> None:
    """It is told at once and stays resolved while it is still so."""
    async with receiving() as receiver, world(tmp_path / "s.db", webhook=receiver.url, for_seconds=0) as gateway:
        gateway.set_down("mail")
        await gateway.check()
        with pytest.raises(InvalidRequest) as refused:
            await gateway.alerting.resolve("upstream_down", principal="ada")
        view = await gateway.alerting.resolve("upstream_down", "mail", principal="ada")
        await gateway.alerting.settle()
        held = await gateway.check(15)
        (entry,) = await gateway.store.audit_entries()

    assert (view.state, held) == ("resolved", [("upstream_down", "mail", "resolved")])
    assert str(refused.value) == "There is no alert 'upstream_down'. There is one about 'mail'."
    assert receiver.told() == [[("upstream_down", "mail", "firing")], [("upstream_down", "mail", "resolved")]]
    assert (entry.kind, entry.principal, entry.body) == (
        "alert.resolve",
        "ada",
        {"rule": "upstream_down", "subject": "mail"},
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda each: each.alerting.resolve("upstream_down", "mail"),
            "There is no alert 'upstream_down' about 'mail'. `sealyard alerts` lists those that are.",
        ),
        (lambda each: each.alerting.resolve("party"), f"No alert is named 'party'. There are: {', '.join(RULES)}."),
        (
            lambda each: silence_rule(each.store, "party", 60, principal="local"),
            f"No alert is named 'party'. There are: {', '.join(RULES)}.",
        ),
        (
            lambda each: silence_rule(each.store, "timeouts", 0, principal="local"),
            "A silence cannot last 0 s. Give more than 0 and at most 2,592,000.",
        ),
        (
            lambda each: silence_rule(each.store, "timeouts", float("nan"), principal="local"),
            "A silence cannot last nan s. Give more than 0 and at most 2,592,000.",
        ),
        (
            lambda each: silence_rule(each.store, "timeouts", 60, principal="local", reason="x" * 501),
            "The reason has 501 characters. Give at most 500.",
        ),
        (
            lambda each: unsilence_rule(each.store, "timeouts", principal="local"),
            "'timeouts' is not silenced. `sealyard alerts` lists what is.",
        ),
    ],
)
async def test_a_wrong_request_is_refused_with_what_is_right(
    tmp_path: Path, ask: Callable[[World], Any], message: str
) -> None:
    """And nothing is written, not into the audit log either."""
    async with world(tmp_path / "s.db") as gateway:
        with pytest.raises(InvalidRequest) as caught:
            await ask(gateway)
        await gateway.store.flush()
        entries = await gateway.store.audit_entries()

    assert (str(caught.value), entries) == (message, [])


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
        "sealyard_privacy_detection_rate": 1.0,
        "sealyard_audit_chain_intact": True,
    }


async def test_what_was_seen_while_the_store_failed_is_not_written_later(tmp_path: Path) -> None:
    """By then it says nothing: an upstream that was down in between never fires."""
    path = tmp_path / "s.db"
    async with world(path, for_seconds=0) as gateway:
        gateway.store.audit(AuditEntry(kind="gateway.start", principal="local"))
        await gateway.store.flush()
        with closing(sqlite3.connect(path)) as connection:
            signature = connection.execute("SELECT signature FROM audit_head").fetchone()[0]
        tamper(path, "UPDATE audit_head SET signature = '00'")
        gateway.store.audit(AuditEntry(kind="gateway.stop", principal="local"))
        look = Look(findings=(DOWN,), judged=JUDGED, now=gateway.now, for_seconds=0, owner=gateway.store.alerts.owner)
        for _ in range(2):
            with pytest.raises(StoreError):
                await gateway.store.alerts.change(partial(advance, look), now=gateway.now)
        tamper(path, f"UPDATE audit_head SET signature = '{signature}'")
        await gateway.store.flush()
        found = await gateway.store.alerts.alerts()

    assert found == []


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


async def test_detectors_that_find_too_little_are_an_alert(tmp_path: Path) -> None:
    """Such as ones that a pattern of allowed values has switched off, by mistake, for all but a few types."""

    class Blind(Scanner):
        def conceal(self, value: Any, replace: Any, **options: Any) -> Any:
            return value

    async with world(tmp_path / "s.db") as gateway:
        gateway.alerting._scanner = Blind(ScanRules())
        fired = await gateway.check()

    assert fired == [("privacy_detection", "", "firing")]


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
