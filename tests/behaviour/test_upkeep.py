"""What a gateway does beside answering: sums, what became of upstreams, figures of this moment, and letting go."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.broker.policy import PolicySettings, ToolLimits
from sealyard.config import Config
from sealyard.config.settings import MetricsConfig, StoreConfig
from sealyard.errors import StoreError, UpstreamUnavailable
from sealyard.learning.learner import PARTS
from sealyard.metrics.exposition import render
from sealyard.metrics.sums.names import GAUGES, Gauge
from sealyard.observe import Upkeep
from sealyard.sandbox.policy import DEFAULT
from sealyard.store import open_store
from sealyard.testing import FakeUpstream
from sealyard.values.facts import Executed, UpstreamEvent
from sealyard.values.runs import CallRecord, ExecutionRecord
from sealyard.yard import ExecuteRequest, Yard, open_border, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())


def ping() -> str:
    """Answer."""
    return "pong"


@contextlib.asynccontextmanager
async def opened(folder: Path, server: FakeUpstream, **settings: Any) -> AsyncIterator[Yard]:
    """A yard over one fake server."""
    config = Config(store=StoreConfig(path=folder / "sealyard.db"), **settings)
    async with open_yard(config, policy=PLAIN, upstreams={server.name: server}) as yard:
        await yard.snapshot()
        yield yard


async def events(yard: Yard) -> list[str]:
    """What was told of upstreams, the oldest first."""
    await yard.store.flush()
    found = await yard.store.metrics.facts("upstream")
    return [fact.event for fact in reversed(found) if isinstance(fact, UpstreamEvent)]


async def test_an_upstream_that_dies_and_comes_back_is_told_once_each(tmp_path: Path) -> None:
    """However often one looks."""
    server = FakeUpstream("echo", ping=ping)
    async with opened(tmp_path, server) as yard:
        for is_dead in (False, True, True, False, False):
            server.is_dead = is_dead
            await yard.operations.upkeep.once()
        told = await events(yard)

    assert told == ["started", "failed", "started"]


LOST = """
import asyncio, os, signal, sys, time
from pathlib import Path
from sealyard.store import open_store
from sealyard.values.runs import ExecutionRecord

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        store.record_start(
            ExecutionRecord(
                execution_id="e1", principal="local", session="main", code="1", started_at=time.time(), form="code"
            )
        )
        await store.flush()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_an_execution_lost_in_a_crash_counts_after_the_restart(tmp_path: Path) -> None:
    """At once, though its gateway was killed a moment before, and only once."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LOST, str(tmp_path / "sealyard.db"))
    assert await process.wait() == -signal.SIGKILL

    async with opened(tmp_path, FakeUpstream("echo", ping=ping)) as yard:
        for _ in range(2):
            await yard.operations.upkeep.once()
        facts = [fact for fact in await yard.store.metrics.facts("execution") if isinstance(fact, Executed)]
        whole = await yard.store.metrics.sums()

    assert [(fact.execution_id, fact.status) for fact in facts] == [("e1", "lost")]
    assert whole.by("sealyard_execution_total", "status") == {"lost": 1}


async def test_lost_executions_are_found_after_a_round_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round looks at all of them, also if it has to be tried again."""
    async with open_store(tmp_path / "sealyard.db") as store:
        at = time.time() - 5 * 86_400.0
        lost = ExecutionRecord(
            execution_id="e1", principal="local", session="main", code="1", started_at=at, form="code"
        )
        store.record_end(msgspec.structs.replace(lost, ended_at=at + 1, status="ok"))
        await store.flush()
        derive, failures = store.metrics.derive, [StoreError("The disk is full.")]

        async def derive_later(since: float = 0.0) -> int:
            if failures:
                raise failures.pop()
            return await derive(since)

        monkeypatch.setattr(store.metrics, "derive", derive_later)
        upkeep = Upkeep(store, MetricsConfig(), record=store.metrics.record)
        with pytest.raises(StoreError):
            await upkeep.once()
        await upkeep.once()
        facts = [fact for fact in await store.metrics.facts("execution") if isinstance(fact, Executed)]

    assert [fact.execution_id for fact in facts] == ["e1"]


async def test_a_proxy_folds_and_removes_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relayed call counts as a call and never as an execution, whatever gateway opens the store next."""
    monkeypatch.setattr("sealyard.observe.upkeep._EVERY_SECONDS", 0.01)
    settings = MetricsConfig(keep_days=1)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"), metrics=settings)
    now = time.time()
    async with open_border(config) as border:
        for number, at in enumerate((now - 9 * 86_400.0, now - 700.0)):
            known: dict[str, Any] = {"execution_id": f"e{number}", "started_at": at}
            run = ExecutionRecord(
                **known, principal="local", session="", code="", ended_at=at, status="ok", form="proxy"
            )
            border.store.record_end(run)
            border.store.record_call(
                CallRecord(
                    **known, number=1, tool="mcp__echo__ping", digest="d", upstream="echo", arguments={}, seconds=0.1
                )
            )
        async with asyncio.timeout(10):
            while len(await border.store.executions()) > 1:  # noqa: ASYNC110 - another process may remove them too
                await asyncio.sleep(0.01)
    async with open_store(config.store.path) as store:
        assert await store.metrics.derive() == 0
        whole = await store.metrics.sums()

    assert whole.value("sealyard_upstream_calls_total") == 2
    assert whole.value("sealyard_execution_total") == 0


async def test_a_circuit_that_opens_is_told_and_shown(tmp_path: Path) -> None:
    """By the name of its server, in facts and in figures."""
    server = FakeUpstream("echo", ping=ping)
    limits = (ToolLimits(breaker_failures=2),)
    async with opened(tmp_path, server, policy=PolicySettings(limits=limits)) as yard:
        server.is_dead = True
        for _ in range(2):
            with contextlib.suppress(UpstreamUnavailable):
                await yard.call("mcp__echo__ping", {})
        await yard.operations.upkeep.once()
        told = await events(yard)
        shown = {(each.name, *each.labels.values()): each.value for each in await yard.operations.gauges()}
        report = await yard.report()

    assert told == ["failed", "circuit_opened"]
    assert (shown["sealyard_upstream_circuit_open", "echo"], shown["sealyard_upstream_up", "echo"]) == (1, 0)
    assert report.upstreams["echo"].errors == {"unavailable": 2}
    assert report.upstreams["echo"].circuit_opened == 1


async def test_every_gauge_is_of_the_list_and_prometheus_gets_them_all(tmp_path: Path) -> None:
    """With the counters, as one text."""
    async with opened(tmp_path, FakeUpstream("echo", ping=ping)) as yard:
        await yard.execute(ExecuteRequest(code="from servers.echo import ping\nping()"))
        await yard.operations.alerting.check()
        gauges = await yard.operations.gauges()
        text, _ = render(await yard.operations.figures.sums(), gauges)

    names = {each.name for each in gauges}
    assert names <= GAUGES.keys()
    assert {"sealyard_info", "sealyard_sandbox_ready", "sealyard_store_bytes", "sealyard_alerts_firing"} <= names
    assert all(f"# TYPE {name} gauge" in text.decode() for name in names)
    assert b'sealyard_upstream_calls_total{outcome="ok",upstream="echo"} 1.0' in text


async def test_a_store_that_fails_is_exposed(tmp_path: Path) -> None:
    """The rule for it can fire: what needs no store is exposed, and no counter, which would look like a new one."""
    async with opened(tmp_path, FakeUpstream("echo", ping=ping)) as yard:
        whole = {each.name for each in (await yard.operations.exposed())[1]}
        (tmp_path / "sealyard.db").rename(tmp_path / "gone.db")
        yard.store.metrics.record(Executed(at=1.0, form="code", status="ok", seconds=1.0, use_case="compute"))
        sums, gauges = await yard.operations.exposed()
        text, _ = render(sums, gauges)
        (tmp_path / "gone.db").rename(tmp_path / "sealyard.db")
        await yard.store.flush()

    assert "sealyard_store_bytes" in whole
    assert sums is None
    assert b"sealyard_store_failing 1.0" in text
    assert b'sealyard_upstream_up{upstream="echo"} 1.0' in text
    assert b"_total" not in text


async def test_what_was_learned_is_among_the_figures(tmp_path: Path) -> None:
    """By part: how much, how often it was right, and whether it had to be left out. It is not counted at every look."""

    def broken() -> None:
        raise ValueError("broken")

    async with opened(tmp_path, FakeUpstream("echo", ping=ping)) as yard:
        await yard.execute(ExecuteRequest(code="from servers.echo import ping\nping()"))
        await yard.guidance.learner.once()
        yard.guidance.barrier.ask("risk", broken, None)
        first = await yard.operations.gauges()
        await yard.execute(ExecuteRequest(code="from servers.echo import ping\nping() + 'x'"))
        await yard.guidance.learner.once()
        again = await yard.operations.gauges()
        number = yard.guidance.learner.number

    def learning(gauges: list[Gauge]) -> dict[tuple[str, ...], float]:
        prefix = "sealyard_learning_"
        return {
            (each.name.removeprefix(prefix), *each.labels.values()): each.value
            for each in gauges
            if each.name.startswith(prefix)
        }

    shown, later = learning(first), learning(again)
    assert [key for key in shown if key[0] == "learned"] == [("learned", part) for part in PARTS]
    assert (shown["learned", "shapes"], shown["accuracy", "risk"], shown["switched_off", "risk"]) == (1, 1.0, 1)
    assert later.pop(("facts",)) == number > shown.pop(("facts",)) > 0
    assert later == shown


async def test_old_rows_go_and_their_sums_stay(tmp_path: Path) -> None:
    """After as many days as the configuration says."""
    async with opened(tmp_path, FakeUpstream("echo", ping=ping), metrics=MetricsConfig(keep_days=30)) as yard:
        old = time.time() - 40 * 86_400
        for at in (old, old + 1, time.time()):
            yard.observer.record(
                Executed(at=at, form="code", status="ok", seconds=1.0, use_case="compute", execution_id=f"e{at}")
            )
        await yard.operations.upkeep.once()
        kept = await yard.store.metrics.facts("execution")
        report = await yard.report()

    assert len(kept) == 1
    assert report.execution.count == 3
