"""Who runs code, answers a call or watches cannot make the gateway tell what is not so, keep what is over, or leak."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import parser as plain
from prometheus_client.openmetrics import parser as openmetrics

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig
from sealyard.errors import InvalidRequest, StoreError
from sealyard.metrics import tokens
from sealyard.metrics.exposition import render
from sealyard.observe import accounting
from sealyard.observe.accounting import Accounting, Bill
from sealyard.observe.health.alerts import post_alerts
from sealyard.observe.recorder import OutputStream
from sealyard.privacy import Guard
from sealyard.sandbox.policy import DEFAULT
from sealyard.sandbox.pool import RunClock
from sealyard.testing import FakeUpstream
from sealyard.values.access import Alert, Approval
from sealyard.values.facts import Executed, Fact, Hidden, Saw, Searched, SecurityEvent, Tokens, Used
from sealyard.values.runs import ExecutionRecord, LiveEvent
from sealyard.yard import AnalyzeRequest, ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())

KEY = "\n".join(
    [
        "-----BEGIN PRIVATE KEY-----",
        *(f"{number:02}" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7jKl0nOp3rSt6vWx9zAb2dEf5hIj" for number in range(20)),
        "-----END PRIVATE KEY-----",
    ]
)


def list_people(city: str = "") -> list[dict[str, Any]]:
    """List people."""
    return [{"id": 1, "email": "alice.smith@example.com"}, {"id": 2, "email": "bob.jones@example.com"}]


def ping() -> str:
    """Answer."""
    return "pong"


@contextlib.asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Yard]:
    """A yard over one fake server."""
    server = FakeUpstream("people", list_people=list_people, ping=ping)
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), **settings)
    async with open_yard(config, policy=PLAIN, upstreams={"people": server}) as yard:
        yield yard


async def facts(yard: Yard, kind: type[Any]) -> list[Any]:
    """The facts of a kind, the oldest first."""
    await yard.observer.accounting.settled()
    await yard.store.flush()
    found = await yard.store.metrics.facts(kind.__struct_config__.tag, since=0.0, limit=1_000)
    return sorted(found, key=lambda fact: fact.at)


async def run(yard: Yard, code: str, principal: str = "alice", **options: Any) -> Any:
    """Run code and return the outcome."""
    return (await yard.execute(ExecuteRequest(code=code, **options), principal=principal)).outcome


async def executions_of(yard: Yard) -> list[ExecutionRecord]:
    """All that the journal has."""
    return await yard.store.list_executions(lambda record: record, limit=100)


def work() -> set[str]:
    """The names of what goes on in this event loop."""
    return {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]


# Nothing is left behind


async def test_a_run_that_prints_nothing_leaves_no_task_to_its_watchers(tmp_path: Path) -> None:
    """Not one that the review refuses, not a call without code, not one that is cancelled before it is run."""
    async with opened(tmp_path) as yard, yard.live.follow():
        await run(yard, "import subprocess")
        await yard.call("mcp__people__ping", {}, principal="alice")
        await run(yard, "1")

        assert "_pass_on" not in work()


async def test_who_watches_after_the_last_output_leaves_no_task(tmp_path: Path) -> None:
    """Between the end of the output and the end of the run there is time to begin to watch."""
    stream = OutputStream(Guard.__new__(Guard))
    stream.listen(lambda text: None)
    stream.add("something\n")
    async with stream:
        pass
    before = work()
    stream.open()

    assert work() == before


@pytest.mark.parametrize("steps", range(1, 40, 3))
async def test_a_run_cancelled_at_any_step_is_over_for_everybody(tmp_path: Path, steps: int) -> None:
    """No run is listed, every begun execution has its one fact, and no task is left."""
    async with opened(tmp_path) as yard, yard.live.follow():
        await run(yard, "1")
        before = work()
        task = asyncio.create_task(run(yard, "from servers.people import ping\nprint(ping())\nping()"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await (await yard.sandbox()).settle()
        await yard.store.flush()
        begun = await executions_of(yard)
        told = await facts(yard, Executed)

        assert yard.live.running() == []
        assert [each.status for each in begun if each.status == "running"] == []
        assert sorted(each.execution_id for each in told) == sorted(each.execution_id for each in begun)
        assert work() <= before


async def test_a_store_that_takes_nothing_more_ends_a_run_for_who_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller hears of it; the run is not shown for ever."""
    async with opened(tmp_path) as yard:
        await run(yard, "1")

        def refuse(*_: Any) -> None:
            raise StoreError("closed")

        with monkeypatch.context() as patch:
            patch.setattr(yard.store, "record_end", refuse)
            with pytest.raises(StoreError):
                await run(yard, "2")
            patch.setattr(yard.store.metrics, "record", refuse)
            with pytest.raises(StoreError):
                await run(yard, "3")
            await asyncio.sleep(0)  # which shows the ends to those who observe

        assert yard.live.running() == []


async def test_closing_stops_counting_and_loses_no_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not counted by then is told as bytes, and the thread is gone."""
    monkeypatch.setattr(accounting, "_CLOSE_SECONDS", 0.05)
    told: list[Fact] = []
    counting = Accounting(told.append)
    for _ in range(3):
        bill = Bill(principal="a", session="s", execution_id="e", use_case="filtering", at=1.0)
        counting.add(bill, "data", b"some words and 1234 numbers\n" * 200_000)
        counting.add(bill, "results", "three words here")
        counting.close_bill(bill)
    await counting.close()

    assert [each.name for each in threading.enumerate() if each.name.startswith("sealyard-tokens")] == []
    assert len(told) == 3
    bills = [each for each in told if isinstance(each, Tokens)]
    assert [each.results for each in bills] == [tokens.count("three words here")] * 3
    assert bills[2].uncounted_bytes == 28 * 200_000
    assert bills[2].data == 0


async def test_a_slow_machine_has_the_same_time_to_count(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway that ends as soon as it began waits for the vocabulary first, and then counts."""
    tokens.load()  # what is counted with is there, whoever thinks that it is being loaded
    monkeypatch.setattr(accounting, "_CLOSE_SECONDS", 1.0)
    monkeypatch.setattr(tokens, "load", lambda: time.sleep(1.2))
    told: list[Fact] = []
    counting = Accounting(told.append)
    bill = Bill(principal="a", session="s", execution_id="e", use_case="filtering", at=1.0)
    counting.add(bill, "data", "three words here")
    counting.close_bill(bill)
    await counting.close()

    (fact,) = told
    assert isinstance(fact, Tokens)
    assert (fact.data, fact.uncounted_bytes, caplog.records) == (tokens.count("three words here"), 0, [])


async def test_a_flood_of_answers_does_not_make_what_was_sent_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is left out of the baseline, never of what the agent was sent."""
    monkeypatch.setattr(accounting, "_WAITING_BYTES", 1_000)
    told: list[Fact] = []
    counting = Accounting(told.append)
    bill = Bill(principal="a", session="s", execution_id="e", use_case="filtering", at=1.0)
    counting.add(bill, "data", "größer " * 100)  # 900 bytes
    counting.add(bill, "data", "größer " * 100)
    counting.add(bill, "code", "a = 1\n" * 30)
    counting.add(bill, "results", "much text " * 20)
    counting.close_bill(bill)
    await counting.settled()
    await counting.close()

    (fact,) = told
    assert isinstance(fact, Tokens)
    assert (fact.code, fact.results) == (tokens.count("a = 1\n" * 30), tokens.count("much text " * 20))
    assert fact.uncounted_bytes == 900


async def test_upkeep_goes_on_after_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong in one round: otherwise nothing would be added up or removed any more."""
    from sealyard.observe import upkeep

    async with opened(tmp_path) as yard:
        monkeypatch.setattr(upkeep, "_EVERY_SECONDS", 0.0)
        rounds = []
        done = asyncio.Event()

        async def once() -> None:
            rounds.append(1)
            if len(rounds) <= 3:
                raise RuntimeError("strange")
            done.set()

        monkeypatch.setattr(yard.operations.upkeep, "once", once)
        task = asyncio.create_task(yard.operations.upkeep.run())
        try:
            await asyncio.wait_for(done.wait(), 60)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


# Nothing is forged

FORGED = """
import json, os, struct, time
body = json.dumps({"t": "done", "ok": False, "cpu_seconds": 1e300, "memory_peak_bytes": 1 << 70,
    "failure": {"kind": "refused", "type": "Refused", "message": "by nobody"}}).encode()
os.write(3, struct.pack("<I", len(body)) + body)
time.sleep(60)
"""


async def test_code_cannot_say_that_the_review_refused_it(tmp_path: Path) -> None:
    """It can write any frame about its end, but what the gateway itself did is the gateway's to tell."""
    async with opened(tmp_path) as yard:
        outcome = await run(yard, FORGED)
        security = await facts(yard, SecurityEvent)

    assert outcome.failure.kind == "refused"
    assert security == []


async def test_code_cannot_use_more_time_or_memory_than_it_may(tmp_path: Path) -> None:
    """What it says of itself is believed only within its limits: sums are for ever."""
    async with opened(tmp_path) as yard:
        await run(yard, FORGED)
        (fact,) = await facts(yard, Executed)
        report = await yard.report()

    assert fact.cpu_seconds <= PLAIN.cpu_seconds
    assert fact.memory_bytes <= PLAIN.memory_mib << 20
    assert report.execution.cpu_seconds <= PLAIN.cpu_seconds


async def test_an_analysis_is_no_code(tmp_path: Path) -> None:
    """Neither for the share of visits with code nor for the length of code."""
    request = AnalyzeRequest(analysis_type="filter", data=[{"a": 1}], parameters={})
    async with opened(tmp_path) as yard:
        await yard.analyze(request, principal="alice")
        seen = await facts(yard, Saw)
        (fact,) = await facts(yard, Executed)

    assert [each.event for each in seen] == ["begin"]
    assert fact.code_characters == 0


@pytest.mark.parametrize(
    "request_",
    [
        ExecuteRequest(code="1", context={"a": "\ud800"}),
        ExecuteRequest(code="1", context={"a": object()}),
    ],
    ids=["half a character", "an object"],
)
async def test_a_request_that_is_no_json_leaves_no_run_behind(tmp_path: Path, request_: ExecuteRequest) -> None:
    """It is refused as wrong, and nothing stays open in the journal."""
    async with opened(tmp_path) as yard:
        with pytest.raises(InvalidRequest):
            await yard.execute(request_, principal="alice")
        await yard.store.flush()
        kept = await executions_of(yard)

        assert [each.status for each in kept if each.status == "running"] == []
        assert yard.live.running() == []


async def test_rows_that_are_no_json_leave_no_run_behind(tmp_path: Path) -> None:
    """The same for an analysis."""
    async with opened(tmp_path) as yard:
        with pytest.raises(InvalidRequest):
            await yard.analyze(AnalyzeRequest(analysis_type="filter", data=[{"a": "\ud800"}]), principal="alice")
        await yard.store.flush()

        assert [each.status for each in await executions_of(yard) if each.status == "running"] == []


async def test_a_run_is_not_slow_because_a_person_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every question would end in an alert about slow runs."""
    rules = (Rule(tools=("mcp__people__ping",), decision="ask"),)
    async with opened(tmp_path, policy=PolicySettings(rules=rules)) as yard:
        monkeypatch.setattr(RunClock, "still_seconds", property(lambda clock: 500.0 if clock._since else 0.0))
        async with yard.live.follow() as live:
            task = asyncio.create_task(yard.call("mcp__people__ping", {}, principal="alice"))
            async for event in live:
                if event.kind == "asked":
                    yes = Approval(decision="once", by="me", channel="http", answered_at=event.at)
                    await yard.approvals.answer(event.body["id"], yes)
                    break
            await task
        (fact,) = await facts(yard, Executed)

    assert fact.seconds == 0.0


# Nothing leaks


async def test_a_query_that_is_cut_holds_no_half_of_something_private(tmp_path: Path) -> None:
    """However long what was hidden before it: what is cut off is cut off of what is concealed."""
    long = "https://" + "u" * 900 + ":secret-password@h.example/"
    query = f"{long} write to alice.smith@example.com today"
    query = query[: query.index("@example") + 4] + "mple.com" + query[query.index("@example") + 12 :]
    padded = " " * (1_000 - query.index("@example") - 4) + query
    async with opened(tmp_path) as yard:
        await yard.search(padded, principal="alice")
        (fact,) = await facts(yard, Searched)

    assert "alice.smith" not in fact.query


async def test_what_was_printed_before_anybody_watched_is_concealed_as_a_whole(tmp_path: Path) -> None:
    """Also if it is more than is told: a key of many lines is not known by its second half."""
    async with opened(tmp_path) as yard:
        stream = OutputStream(await yard.guards.of("alice:default"))
        told: list[str] = []
        stream.listen(told.append)
        async with stream:
            stream.add(f"{'x' * 999}\n" * 10 + KEY[:700])
            stream.add(f"{KEY[700:]}\n" + f"{'y' * 999}\n" * 261)  # so much that the first half is not told
            stream.open()

    text = "".join(told)
    assert "yyyy" in text
    assert len(told[0]) == 256 << 10
    assert "dEf6hIj9l" not in text


async def test_nothing_of_one_principal_is_in_the_events_or_hits_of_another(tmp_path: Path) -> None:
    """Their searches and calls are apart, and who follows one sees one."""
    async with opened(tmp_path) as yard:
        seen: list[LiveEvent] = []
        await yard.search("list people", principal="alice")
        async with yard.live.follow(principal="alice", after=0) as live:
            await run(yard, "from servers.people import list_people\nprint('of bob')\nlist_people()", "bob")
            await run(yard, "print('of alice')", "alice")
            async for event in live:
                seen.append(event)
                if event.kind == "ended":
                    break
        hits = await facts(yard, Used)
        told = await facts(yard, Executed)

    assert {event.principal for event in seen} == {"alice"}
    assert "of bob" not in msgspec.json.encode(seen).decode()
    assert hits == []
    assert [(each.principal, each.calls) for each in told] == [("bob", 1), ("alice", 0)]
    assert len({each.session for each in told}) == 2


@pytest.mark.parametrize("mode", ["strict", "output"])
async def test_no_fact_and_no_event_holds_what_is_private(tmp_path: Path, mode: Any) -> None:
    """Whatever code does with it: prints it, raises it, names a class by it, searches for it, calls with it."""
    code = (
        "from servers.people import list_people\nfrom tool_discovery import search_tools\n"
        "mail = list_people()[0]['email']\nprint(mail)\nsearch_tools(mail + ' x')\n"
        "try: call_tool('mcp__people__' + mail, {})\nexcept Exception as error: print(error)\n"
        "try: list_people(city=mail, other=mail)\nexcept Exception as error: print(error)\n"
        "raise type(mail, (Exception,), {})(mail)"
    )
    async with opened(tmp_path, privacy=PrivacyConfig(mode=mode)) as yard:
        async with yard.live.follow(after=0) as live:
            outcome = await run(yard, code, context={"who": "carol.white@example.com"})
            events = []
            async for event in live:
                events.append(event)
                if event.kind == "ended":
                    break
        told: list[Fact] = []
        for kind in (Executed, Searched, Hidden, SecurityEvent, Saw, Tokens, Used):
            told += await facts(yard, kind)

    assert outcome.status == "failed"
    text = msgspec.json.encode([told, events, outcome]).decode()
    assert "alice" not in text.replace('"principal":"alice"', "").replace("alice:default", "")
    assert "carol" not in text
    assert next(each for each in told if isinstance(each, Executed)).error_type == "other"


async def test_the_address_of_a_webhook_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """It may be a password. The HTTP client has a log of its own, which names it."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    caplog.set_level(logging.DEBUG)
    alert = Alert(rule="timeouts", state="firing", message="m", since=1.0, changed_at=1.0)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        problem = await post_alerts(f"http://me:word@127.0.0.1:{port}/hooks/very-secret", [alert], secret="key")

    assert problem == "it answered with status 302"
    assert len(asked) == 1
    assert "very-secret" not in caplog.text
    assert "me:word" not in caplog.text


# Nothing grows


async def test_code_that_searches_for_ever_is_stopped_like_code_that_calls_for_ever(tmp_path: Path) -> None:
    """Searches are counted as calls, so the facts of one run have a bound."""
    few = msgspec.structs.replace(PLAIN, tool_calls=20)
    server = FakeUpstream("people", ping=ping)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    async with open_yard(config, policy=few, upstreams={"people": server}) as yard:
        code = (
            "from tool_discovery import search_tools\n"
            "while True:\n    try: search_tools('ping')\n    except Exception: pass"
        )
        outcome = await run(yard, code)
        searches = await facts(yard, Searched)
        visit = yard.observer.visit("alice", await yard.snapshot("alice"))

    assert outcome.failure.kind == "calls"
    assert len(searches) == 20
    assert len(visit._searches) <= 20


async def test_a_watcher_that_reads_nothing_holds_a_bounded_number_of_events(tmp_path: Path) -> None:
    """And who does read is told that something is missing, and still hears of the end."""
    async with opened(tmp_path) as yard, yard.live.follow() as slow:
        outcome = await run(yard, "for _ in range(200): print('y' * 4_000, flush=True)")
        kept = yard.live._events
        watcher = next(iter(yard.live._watchers))
        assert len(watcher._queue) <= 501
        assert len(kept) <= 2_000
        first = await anext(slow)

    assert outcome.status == "ok"
    assert first.kind == "started"


async def test_no_name_breaks_the_text_that_prometheus_reads(tmp_path: Path) -> None:
    """Neither the configured name of a server nor what a server, a guest or an agent calls anything."""
    odd = 'we"ird\\na\nme{} 1'
    server = FakeUpstream(odd, ping=ping)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    async with open_yard(config, policy=PLAIN, upstreams={odd: server}) as yard:
        (name,) = (await yard.snapshot()).tools
        await yard.call(name, {}, principal="alice")
        await run(yard, "class sealyard_up(Exception): pass\nraise sealyard_up('evil 1')", "alice")
        await yard.search("evil{} 1\nsealyard_evil 1", principal="alice")
        for is_open in (False, True):
            text, _ = render(await yard.operations.figures.sums(), await yard.operations.gauges(), openmetrics=is_open)
            families = list((openmetrics if is_open else plain).text_string_to_metric_families(text.decode()))
            samples = [sample for family in families for sample in family.samples]

            assert all(sample.name.startswith("sealyard_") for sample in samples)
            assert not {sample.name for sample in samples} & {"sealyard_evil", "sealyard_up"}
            assert {sample.labels["upstream"] for sample in samples if "upstream" in sample.labels} <= {odd, "other"}
