"""Server-sent events: what happens, in its order, for readers that come late, come back, are slow or vanish."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.surfaces.api_gateway import TEAM, Gateway, events_of, gateway

from sealyard.serve.api import executions
from sealyard.testing import FakeUpstream
from sealyard.values.runs import ExecutionRecord


class Held:
    """A tool that stays open until it is let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.release = asyncio.Event()
        self.upstream = FakeUpstream("slow", wait=self.wait)

    async def wait(self) -> int:
        """Wait."""
        self.reached.set()
        await self.release.wait()
        return 1


CODE = "from servers.slow import wait\nprint('before')\nwait()\nprint('after')\n2"


@contextlib.asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient, Held, str]]:
    """A gateway in which a run of ann's waits in the middle; gives the path of it."""
    held = Held()
    async with gateway(folder, held.upstream, http=TEAM, **options) as gate:
        ann = await gate.client("ann")
        started = (await ann.post("executions", json={"code": CODE})).json()
        await asyncio.wait_for(held.reached.wait(), 60)
        yield gate, ann, held, f"executions/{started['execution_id']}"


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """What happened, pieces of output that follow each other being one."""
    told: list[str] = []
    for each in events:
        if not (each["event"] == "output" and told[-1:] == ["output"]):
            told.append(each["event"])
    return told


def output(events: list[dict[str, Any]]) -> str:
    """All that was printed."""
    return "".join(each["data"]["text"] for each in events if each["event"] == "output")


async def test_a_run_is_followed_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    """A client that comes in the middle, or after the run, gets what was before."""
    async with running(tmp_path) as (_, ann, held, path):
        async with ann.stream("GET", f"{path}/events") as answer:
            kind = answer.headers["content-type"]
            lines = answer.aiter_lines()
            held.release.set()
            live = await events_of(lines)
            rest = [line async for line in lines]
        async with ann.stream("GET", f"{path}/events") as answer:
            over = await events_of(answer.aiter_lines(), until="")
        read = (await ann.get(f"{path}/events", headers={"last-event-id": live[-1]["id"]})).status_code

    assert kind.startswith("text/event-stream")
    assert rest == []
    assert [each for each in kinds(live) if each != "output"] == ["started", "call", "called", "ended"]
    assert output(live) == "before\nafter\n"
    assert kinds(over) == ["started", "call", "called", "output", "ended"]
    assert output(over) == output(live)
    assert over[-1]["id"] == live[-1]["id"]
    assert [each[-1]["data"]["status"] for each in (live, over)] == ["ok", "ok"]
    assert read == 204
    called = [each["data"] for each in live if each["event"] == "called"]
    assert [(each["number"], each["tool"]) for each in called] == [(1, "mcp__slow__wait")]


async def test_a_client_that_lost_the_connection_goes_on_where_it_was(tmp_path: Path) -> None:
    """While the run lasts. After its end it learns that it missed events, and the end."""
    async with running(tmp_path) as (_, ann, held, path):
        async with ann.stream("GET", f"{path}/events") as answer:
            first = await events_of(answer.aiter_lines(), until="call")
        last = {"last-event-id": first[-1]["id"]}
        async with (
            ann.stream("GET", f"{path}/events") as whole,
            ann.stream("GET", f"{path}/events", headers=last) as resumed,
        ):
            streams_of = [each.aiter_lines() for each in (whole, resumed)]
            assert [await anext(lines) for lines in streams_of] == ["retry: 2000"] * 2
            held.release.set()
            live, rest = [await events_of(lines) for lines in streams_of]
        async with ann.stream("GET", f"{path}/events", headers=last) as late:
            missed = await events_of(late.aiter_lines(), until="")

    position = [each["id"] for each in live].index(first[-1]["id"])
    assert rest == live[position + 1 :]
    assert kinds(missed) == ["lagged", "ended"]


async def test_the_end_of_a_failed_run_names_its_failure(tmp_path: Path) -> None:
    """Live and afterwards, in the same words."""
    async with gateway(tmp_path) as gate:
        client = await gate.client()
        done = (await client.post("executions", json={"code": "\n1 / 0", "wait": True})).json()
        async with client.stream("GET", f"executions/{done['execution_id']}/events") as answer:
            *_, ended = await events_of(answer.aiter_lines(), until="")

    assert (ended["data"]["status"], ended["data"]["failure"]["type"], ended["data"]["failure"]["line"]) == (
        "failed",
        "ZeroDivisionError",
        2,
    )


async def test_a_run_of_another_gateway_has_no_end_before_it_is_over(tmp_path: Path) -> None:
    """Its events are not here. A client that comes again gets the end once there is one."""
    record = ExecutionRecord(execution_id="a1", principal="local", session="local:default", code="1", started_at=1.0)
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        gate.yard.store.record_start(record)
        await gate.yard.store.flush()
        found = []
        for last in ({}, {"last-event-id": "x"}):
            async with client.stream("GET", "executions/a1/events", headers=last) as answer:
                found.append(kinds(await events_of(answer.aiter_lines(), until="")))

    assert found == [["lagged"], ["lagged"]]


@pytest.mark.parametrize("last", ["x", "-1", "journal-", "journal-99999999999", "0-" + "9" * 40])
async def test_an_unknown_id_of_an_ended_run_gets_its_end(tmp_path: Path, last: str) -> None:
    """Nobody knows how much of it the client has read."""
    async with gateway(tmp_path) as gate:
        client = await gate.client()
        done = (await client.post("executions", json={"code": "1", "wait": True})).json()
        path = f"executions/{done['execution_id']}/events"
        async with client.stream("GET", path, headers={"last-event-id": last}) as answer:
            found = await events_of(answer.aiter_lines(), until="")

    assert kinds(found) == ["lagged", "ended"]


async def test_the_stream_of_the_gateway_tells_each_what_it_may_see(tmp_path: Path) -> None:
    """Who may observe sees everybody's runs, the others their own."""
    async with gateway(tmp_path, http=TEAM) as gate:
        ann, bob, obs = [await gate.client(name) for name in ("ann", "bob", "obs")]
        async with bob.stream("GET", "events") as his, obs.stream("GET", "events") as hers:
            first = (await ann.post("executions", json={"code": "1", "wait": True})).json()
            second = (await bob.post("executions", json={"code": "2", "wait": True})).json()
            own = await events_of(his.aiter_lines())
            lines = hers.aiter_lines()
            whole = [*await events_of(lines), *await events_of(lines)]

    ids = [each["execution_id"] for each in (first, second)]
    assert [(each["event"], each["data"]["execution_id"]) for each in own] == [
        ("started", ids[1]),
        ("ended", ids[1]),
    ]
    assert [(each["event"], each["data"]["execution_id"], each["data"]["principal"]) for each in whole] == [
        ("started", ids[0], "ann"),
        ("ended", ids[0], "ann"),
        ("started", ids[1], "bob"),
        ("ended", ids[1], "bob"),
    ]


async def test_a_quiet_stream_says_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a comment, which no reader takes for an event."""
    monkeypatch.setattr(executions, "KEEP_ALIVE_SECONDS", 0.01)
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        async with client.stream("GET", "events") as answer, asyncio.timeout(60):
            lines = answer.aiter_lines()
            told = [await anext(lines) for _ in range(6)]

    assert told == ["retry: 2000", "", ": nothing new", "", ": nothing new", ""]


async def test_streams_end_with_the_gateway(tmp_path: Path) -> None:
    """At once and in order, so that nobody waits for them."""
    async with contextlib.AsyncExitStack() as stack:
        gate = await stack.enter_async_context(gateway(tmp_path, with_sandbox=False))
        async with (
            httpx2.AsyncClient(base_url=gate.url, timeout=60) as client,
            client.stream("GET", "/api/v1/events") as answer,
        ):
            lines = answer.aiter_lines()
            await anext(lines)
            closing = asyncio.create_task(stack.pop_all().aclose())
            rest = [line async for line in lines]  # else it would be cut off, which is an error here
            await closing

    assert rest == [""]


async def test_a_reader_that_vanishes_leaves_nothing_behind(tmp_path: Path) -> None:
    """No task, no watcher, and the room it took is free."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        before = len(asyncio.all_tasks())
        for _ in range(40):  # more than may be open at once
            async with client.stream("GET", "events") as answer:
                assert answer.status_code == 200
                await anext(answer.aiter_lines())
        watchers = gate.yard.live._watchers
        async with asyncio.timeout(60):
            while watchers or len(asyncio.all_tasks()) > before + 2:
                await client.get("me")

    assert watchers == set()


async def test_nobody_opens_streams_without_end(tmp_path: Path) -> None:
    """The next one is told to close one first; another principal is not held up."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate, contextlib.AsyncExitStack() as stack:
        limits = httpx2.Limits(max_connections=100)
        ann, bob = await gate.client("ann", limits=limits), await gate.client("bob")
        statuses = [(await stack.enter_async_context(ann.stream("GET", "events"))).status_code for _ in range(33)]
        other = (await stack.enter_async_context(bob.stream("GET", "events"))).status_code
        refused = await ann.get("events")

    assert statuses == [200] * 32 + [429]
    assert other == 200
    assert refused.json()["error"]["message"] == "'ann' has 32 streams open, which is the most. Close one."
    assert refused.headers["retry-after"] == "5"
