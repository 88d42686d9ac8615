"""The gate in front of HTTP: who is let in, and what a client that is not sees."""

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests import warm
from tests.surfaces.api_gateway import until
from tests.surfaces.conftest import serving
from tests.surfaces.test_surface import text_of

from sealyard.store import open_store

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

Config = Callable[..., Path]


@pytest.mark.behaviour("http.host")
async def test_a_foreign_host_or_origin_is_refused_everywhere(config: Config) -> None:
    """A page of another site, or a name that was pointed at loopback, reaches nothing."""
    async with serving(config()) as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        statuses = []
        for path in ("/mcp", "/healthz", "/readyz"):
            for name, value in (
                ("host", "evil.example"),
                ("host", "127.0.0.1.evil.example:80"),
                ("host", "127.0.0.1:80.evil.example"),
                ("origin", "http://evil.example"),
                ("origin", "http://127.0.0.1.evil.example"),
                ("origin", "null"),
            ):
                answer = await client.post(url.replace("/mcp", path), json=HELLO, headers={name: value})
                statuses.append((name, answer.status_code))

    assert statuses == [("host", 421)] * 3 + [("origin", 403)] * 3 + statuses[6:]
    assert statuses[6:12] == statuses[12:] == statuses[:6]


async def test_a_page_of_another_local_program_is_refused_everywhere(config: Config) -> None:
    """Host and Origin name the very port that is listened at: other programs serve pages on this machine too."""
    named = '[http]\nallowed_hosts = ["localhost:1"]\nallowed_origins = ["http://localhost:3000"]\n'
    async with serving(config(named)) as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        port = url.removesuffix("/mcp").rpartition(":")[2]
        foreign = {
            "origin": ["http://127.0.0.1:1", "http://localhost", "http://[::1]:1", f"https://127.0.0.1:{port}"],
            "host": ["127.0.0.1:1", "localhost", "[::1]:1"],
        }
        own = {
            "origin": [f"http://127.0.0.1:{port}", f"http://localhost:{port}", "http://localhost:3000"],
            "host": [f"localhost:{port}", f"[::1]:{port}", "localhost:1"],
        }
        refused, allowed = [
            {
                (name, (await client.post(url.replace("/mcp", path), json=HELLO, headers={name: value})).status_code)
                for path in ("/mcp", "/api/v1/executions")
                for name, values in wanted.items()
                for value in values
            }
            for wanted in (foreign, own)
        ]

    assert refused == {("origin", 403), ("host", 421)}
    assert {status for _, status in allowed} == {200, 400}  # the second path knows no such body


async def test_health_is_told_without_mcp(config: Config) -> None:
    """A supervisor asks two paths: whether the process lives, and whether each part of it works."""
    async with serving(config()) as url, httpx2.AsyncClient() as client:
        healthy = await client.get(url.replace("/mcp", "/healthz"))
        ready = await until(lambda: client.get(url.replace("/mcp", "/readyz")), lambda seen: seen.status_code != 503)
        nothing = await client.get(url.replace("/mcp", "/nothing"))

    assert (healthy.status_code, healthy.json()) == (200, {"healthy": True})
    parts = {name: part["ok"] for name, part in ready.json()["parts"].items()}
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert parts == dict.fromkeys(("sandbox", "store", "temporary", "disk", "descriptors"), True)
    assert nothing.status_code == 404


async def test_a_request_that_is_too_large_is_refused_before_it_is_read(config: Config) -> None:
    """The limit is the config's."""
    path = config("[http]\nmax_request_bytes = 2048\n")
    async with serving(path) as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        small = await client.post(url, json=HELLO)
        large = await client.post(url, json=HELLO | {"padding": "x" * 3000})

    assert (small.status_code, large.status_code) == (200, 413)


@pytest.mark.behaviour("http.token")
async def test_with_a_token_set_every_path_needs_it(config: Config) -> None:
    """A missing, wrong or differently spelled token is refused the same way."""
    more = '[http]\ntokens = { alice = "${ALICE}", bob = "${BOB}" }\n'
    environment = {"ALICE": "a-secret", "BOB": "b-secret"}
    async with serving(config(more), environment=environment) as url, httpx2.AsyncClient(headers=ACCEPT) as client:
        refused = [
            (await client.post(url.replace("/mcp", path), json=HELLO, headers=headers)).status_code
            for path in ("/mcp", "/healthz")
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": "Basic a-secret"},
                {"authorization": "a-secret"},
            )
        ]
        allowed = await client.post(url, json=HELLO, headers={"authorization": "Bearer a-secret"})

    assert set(refused) == {401}
    assert allowed.status_code == 200


@pytest.mark.behaviour("principals.apart")
async def test_principals_share_neither_workspace_nor_executions(config: Config) -> None:
    """Two tokens are two people, even when both name the same session."""
    more = '[http]\ntokens = { alice = "a-secret", bob = "b-secret" }\n'
    async with serving(config(more)) as url:

        async def call(token: str, **arguments: Any) -> Any:
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                return await client.call_tool("execute_code", arguments)

        await call("a-secret", code="open('note', 'w').write('hers')", session="s")
        hers = await call("a-secret", code="open('note').read()", session="s")
        his = await call("b-secret", code="import os\nos.listdir()", session="s")
        started = await call("a-secret", code="1", background=True)
        foreign = await call("b-secret", execution_id=started.meta["sealyard/execution"]["execution_id"])

    assert (text_of(hers), text_of(his)) == ("hers", "[]")
    assert foreign.is_error


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_that_others_can_reach_needs_a_token(config: Config, address: str) -> None:
    """Nobody serves a team's tools to the network by accident."""
    done = subprocess.run(
        warm.python("-m", "sealyard", "serve", str(config()), "--http", address),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "no token is set" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":", ""])
def test_a_wrong_address_says_what_one_looks_like(config: Config, address: str) -> None:
    """No traceback for a user's mistake."""
    done = subprocess.run(
        warm.python("-m", "sealyard", "serve", str(config()), "--http", address),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"error: {address!r} is not an address to listen at. Give one such as 127.0.0.1:8321."
    )


async def test_fifty_clients_at_once_are_all_served_and_recorded(config: Config, tmp_path: Path) -> None:
    """Each gets its own answer, and the journal has every execution once."""
    async with serving(config()) as url:

        async def one(number: int) -> str:
            async with (
                httpx2.AsyncClient(timeout=240) as http,
                Client(
                    streamable_http_client(url, http_client=http), mode="legacy" if number % 2 else "auto"
                ) as client,
            ):
                code = f"from servers.expenses import get_budget\n[{number}, get_budget('Sales')['department']]"
                return text_of(await client.call_tool("execute_code", {"code": code}))

        async with asyncio.timeout(240):
            texts = await asyncio.gather(*map(one, range(50)))
    async with open_store(tmp_path / "store" / "sealyard.db") as store:
        records = await store.executions(limit=100)
        calls = [await store.calls(record.execution_id) for record in records]

    assert texts == [f'[{number},"Sales"]' for number in range(50)]
    assert [record.status for record in records] == ["ok"] * 50
    assert [len(each) for each in calls] == [1] * 50


@pytest.mark.behaviour("surface.disconnect")
async def test_a_client_that_disconnects_kills_its_run(config: Config) -> None:
    """Also in a session of the older protocols, where nobody could fetch the answer any more. Others go on."""
    code = "import time\nprint('begun')\ntime.sleep({seconds})"
    async with serving(config()) as url, httpx2.AsyncClient(headers=ACCEPT, timeout=240) as client:
        hello = await client.post(url, json=HELLO)
        session = {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)

        def run(number: int, seconds: int) -> AbstractAsyncContextManager[httpx2.Response]:
            arguments = {"code": code.format(seconds=seconds), "timeout_seconds": 120}
            params = {"name": "execute_code", "arguments": arguments, "_meta": {"progressToken": number}}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            return client.stream("POST", url, json=call, headers=session)

        async with run(8, seconds=1) as stays:
            async with run(9, seconds=100) as leaves:
                async for line in leaves.aiter_lines():
                    if "begun" in line:
                        break
            answer = [line async for line in stays.aiter_lines() if '"result"' in line]

        async def look() -> list[str]:
            found = (await client.get(url.replace("/mcp", "/api/v1/executions"))).json()
            return sorted(each["status"] for each in found["executions"])

        statuses = await until(look, lambda found: "running" not in found)

    assert statuses == ["cancelled", "ok"]
    assert "begun" in answer[0]
