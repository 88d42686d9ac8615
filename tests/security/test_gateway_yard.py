"""Attacks on the request path from inside: forged frames, floods, malformed definitions, a store that fails."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from click.testing import CliRunner
from mcp import Client
from tests.surfaces.conftest import serving

from sealyard.access import finder
from sealyard.cli.tools import tools
from sealyard.config import Config
from sealyard.config.settings import SandboxConfig, StoreConfig, SurfaceConfig
from sealyard.errors import StoreError
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.values.tools import Definition
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
FORGED = """
import json, os, struct

def send(**frame):
    body = json.dumps(frame | {"t": "done", "cpu_seconds": 0, "memory_peak_bytes": 0}).encode()
    body = struct.pack("<I", len(body)) + body
    while body:
        body = body[os.write(3, body):]

long = "x" * 2_000_000
"""


@contextlib.asynccontextmanager
async def opened(folder: Path, *upstreams: FakeUpstream, sandbox: SandboxConfig | None = None) -> AsyncIterator[Yard]:
    """A yard over fakes, with its store in `folder`."""
    config = Config(store=StoreConfig(path=folder / "store" / "sealyard.db"), sandbox=sandbox or SandboxConfig())
    async with open_yard(config, policy=PLAIN, upstreams={each.name: each for each in upstreams}) as yard:
        yield yard


@pytest.mark.parametrize(
    "frame",
    [
        "ok=False, failure={'kind': 'exception', 'type': long, 'message': long, 'source_line': long, 'hint': long, "
        "'line': 1, 'traceback': long}",
        "ok=True, result=1, notes=[long] * 3 + ['n'] * 100_000",
        "ok=True, result=1, spill={'path': '../' + long, 'bytes': 1, 'shape': long}",
    ],
)
async def test_a_forged_end_of_a_run_is_no_longer_than_a_real_one(tmp_path: Path, frame: str) -> None:
    """Code that writes the last frame itself fills neither the client's memory nor the journal."""
    async with opened(tmp_path) as yard, Client(build_server(yard, SurfaceConfig()), cache=None) as client:
        answer = await client.call_tool("execute_code", {"code": f"{FORGED}\nsend({frame})"})
        (record,) = await yard.store.executions()

    assert len(answer.model_dump_json()) < 200_000
    assert len(msgspec.json.encode(record.outcome)) < 500_000


async def test_starting_at_the_same_time_does_not_get_around_the_limit(tmp_path: Path) -> None:
    """Turns and queue are all that a principal gets, however fast it asks; a refused one leaves no trace."""
    request = ExecuteRequest(code="import time\ntime.sleep(100)")
    async with opened(tmp_path, sandbox=SandboxConfig(running=8, queue_each=8)) as yard:
        first = await yard.executions.start(ExecuteRequest(code="1"), principal="bob")  # so that two are known
        await yard.executions.look(first.execution_id, principal="bob", seconds=60)
        starts = [yard.executions.start(request, principal="eve") for _ in range(40)]
        states = await asyncio.gather(*starts, return_exceptions=True)
        other = await yard.executions.start(request, principal="bob")
        recorded = len(await yard.store.executions())

    assert sum(not isinstance(state, BaseException) for state in states) == 15
    assert (other.state, recorded) == ("running", 17)


async def test_a_background_run_cancelled_before_it_is_recorded_does_not_run_for_ever(tmp_path: Path) -> None:
    """The journal says that it was cancelled, and not that it is running, for as long as the gateway lives."""
    async with opened(tmp_path) as yard:
        await yard.sandbox()
        await yard.guards.of("p:default")  # what the vault writes for a new session is there already
        await yard.store.flush()
        with contextlib.closing(sqlite3.connect(tmp_path / "store" / "sealyard.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # now nothing can be recorded
            starting = asyncio.create_task(yard.executions.start(ExecuteRequest(code="1"), principal="p"))
            async with asyncio.timeout(60):
                while not yard.store._writer._flushes:  # noqa: ASYNC110 - the writer tells nobody
                    await asyncio.sleep(0)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            other.execute("ROLLBACK")
        await yard.store.flush()
        records = await yard.store.executions()

    assert [record.status for record in records] == ["cancelled"]


@pytest.mark.behaviour("store.fails_closed")
async def test_once_the_journal_fails_nothing_more_is_begun(tmp_path: Path) -> None:
    """An agent that tries again and again neither calls tools unrecorded nor fills the memory with what waits."""
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    upstream = FakeUpstream("bank", pay=lambda: "paid")
    request = ExecuteRequest(code="from servers.bank import pay\npay()")
    async with opened(tmp_path, upstream) as yard:
        await yard.execute(request)
        store.rename(elsewhere)
        with pytest.raises(StoreError):
            await yard.execute(request)
        calls, waiting = len(upstream.calls), len(yard.store._writer._waiting)
        for _ in range(3):
            with pytest.raises(StoreError):
                await yard.execute(request)
            with pytest.raises(StoreError):
                await yard.call("pay", {})
        more = len(upstream.calls) - calls, len(yard.store._writer._waiting) - waiting
        elsewhere.rename(store)
        again = await yard.execute(request)

    assert more == (0, 0)
    assert again.text == "paid"


@pytest.mark.parametrize(
    "schema",
    [
        {"required": None, "properties": {"q": {"type": "string"}}},
        {"properties": None},
        {"properties": ["q"]},
        {"properties": {"q": {"type": 5}}},
        {"properties": {"q": {"enum": 5}}},
        {"properties": {"q": {"anyOf": 7, "oneOf": {"type": "null"}}}},
    ],
    ids=str,
)
async def test_a_malformed_schema_does_not_break_a_call_with_none(tmp_path: Path, schema: dict[str, Any]) -> None:
    """Many servers write `"required": null`; the call arrives and is in the journal."""
    upstream = FakeUpstream("odd", ask=lambda **arguments: "answered")
    upstream.definitions["ask"] = Definition(name="ask", input_schema={"type": "object"} | schema)
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"))
    async with open_yard(config, upstreams={"odd": upstream}, with_sandbox=False) as yard:
        answer = await yard.call("ask", {"q": None})
        (record,) = await yard.store.executions()
        calls = await yard.store.calls(record.execution_id)

    assert answer.value == "answered"
    assert [(call.tool, call.error) for call in calls] == [("mcp__odd__ask", None)]


def test_a_server_that_never_answers_is_named_and_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sealyard tools` gives up on it in time, and a script can tell."""
    monkeypatch.setattr(finder, "_FIRST_LIST_SECONDS", 0.5)
    config = tmp_path / "sealyard.toml"
    store = str(tmp_path / "sealyard.db")
    config.write_text(
        f'[upstreams.mute]\ncommand = "sleep"\nargs = ["600"]\n[store]\npath = {store!r}\n', encoding="utf-8"
    )
    result = CliRunner().invoke(tools, ["--config", str(config)], standalone_mode=False)

    assert result.return_value == 1


async def test_a_session_belongs_to_whoever_opened_it(tmp_path: Path) -> None:
    """Another principal can neither use, read, nor end it, though it knows its id."""
    config = tmp_path / "sealyard.toml"
    store = str(tmp_path / "sealyard.db")
    config.write_text(
        f'[http.tokens]\nalice = "a"\neve = "e"\n[sandbox]\nallow_weaker = true\n[store]\npath = {store!r}\n',
        encoding="utf-8",
    )
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    accept = {"accept": "application/json, text/event-stream"}
    async with serving(config) as url, httpx2.AsyncClient(headers=accept) as client:
        alice = {"authorization": "Bearer a"}
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        opened = await client.post(url, json=opening, headers=alice)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        eve = session | {"authorization": "Bearer e"}
        refused = [
            (await client.post(url, json=listing, headers=eve)).status_code,
            (await client.get(url, headers=eve)).status_code,
            (await client.delete(url, headers=eve)).status_code,
        ]
        still = await client.post(url, json=listing, headers=alice | session)

    assert (refused, still.status_code) == ([404, 404, 404], 200)
