"""Clients over HTTP with scopes of their own: what each sees of the gateway, and what it cannot reach of another's."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from tests.surfaces.conftest import child, serving
from tests.surfaces.test_surface import text_of

from sealyard import config as config_module
from sealyard.cli.serve import parse_address
from sealyard.config.settings import HttpConfig, PrincipalEntry, StoreConfig, hash_token
from sealyard.serve import api as api_module
from sealyard.serve.http import build_app, default_preset
from sealyard.values.access import AuditEntry
from sealyard.yard import Yard, open_yard

Config = Callable[..., Path]

MORE = f"""
[[policy.rules]]
decision = "deny"
tools = ["mcp__expenses__get_budget"]
principals = ["clerk"]

[http.principals.clerk]
token_sha256 = "{hash_token("c-secret")}"
upstreams = ["exp*"]
level = "hardened"

[http.principals.guide]
token = "${{GUIDE}}"
upstreams = ["trips"]

[http.principals.boss]
token = "b-secret"
"""


class Gateway:
    """A gateway over two servers, and the clients that are connected to it."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self._clients = clients

    def instructions(self, principal: str) -> str:
        """What the client was told when it connected."""
        return str(self._clients[principal].instructions)

    async def call(self, principal: str, tool: str, **arguments: Any) -> Any:
        """The whole answer to one call."""
        return await self._clients[principal].call_tool(tool, arguments)

    async def ask(self, principal: str, tool: str, **arguments: Any) -> str:
        """The text of the answer to one call."""
        return text_of(await self.call(principal, tool, **arguments))

    async def run(self, principal: str, code: str, **arguments: Any) -> str:
        """The text of what came of the code."""
        return await self.ask(principal, "execute_code", code=code, **arguments)


@contextlib.asynccontextmanager
async def opened(config: Config, mode: str = "auto") -> AsyncIterator[Gateway]:
    """The gateway and its clients, once both servers have listed their tools."""
    tokens = {"clerk": "c-secret", "guide": "g-secret", "boss": "b-secret"}
    async with contextlib.AsyncExitStack() as stack:
        more = f"[upstreams.trips]\n{child('-m', 'sealyard.examples.trips')}\n{MORE}"
        url = await stack.enter_async_context(serving(config(more), environment={"GUIDE": "g-secret"}))
        clients = {}
        for principal, token in reversed(tokens.items()):
            headers = {"authorization": f"Bearer {token}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            client = Client(streamable_http_client(url, http_client=http), mode=mode, cache=None)
            clients[principal] = await stack.enter_async_context(client)
            await clients[principal].call_tool("search_tools", {"query": "x"})
        yield Gateway(clients)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_search_for_nothing_names_only_the_servers_of_the_client(config: Config, mode: str) -> None:
    """In both ways in which a client can begin; instructions name none, so that they cost the same everywhere."""
    async with opened(config, mode) as gateway:
        names = ("clerk", "guide", "boss")
        told = [json.loads(await gateway.ask(name, "search_tools", query=" "))["servers"] for name in names]
        instructions = {gateway.instructions(name) for name in names}

    assert told == [["expenses"], ["trips"], ["expenses", "trips"]]
    assert len(instructions) == 1


@pytest.mark.behaviour("principals.scope")
async def test_what_is_outside_the_scope_is_in_no_search_no_stub_and_no_hint(config: Config) -> None:
    """Neither over MCP nor from inside the code: a hidden tool is as unknown as one that never was."""
    inside = "from tool_discovery import search_tools\n[h['name'] for h in search_tools('expenses parks', limit=50)]"
    listing = "import servers, servers.expenses as e\n[dir(servers), 'get_budget' in dir(e)]"
    async with opened(config) as gateway:
        clerk, guide = [
            json.loads(await gateway.ask(name, "search_tools", query="list_expenses weather_forecast", limit=50))
            for name in ("clerk", "guide")
        ]
        from_code = [json.loads(await gateway.run(name, inside)) for name in ("clerk", "guide")]
        exact = json.loads(await gateway.ask("clerk", "search_tools", query="mcp__expenses__get_budget", limit=50))
        other = await gateway.ask("clerk", "search_tools", query="parks", server="trips")
        seen = [await gateway.run(name, listing) for name in ("clerk", "boss")]
        refused = [
            await gateway.run("clerk", code)
            for code in (
                "from servers.expenses import get_budget",
                "from servers.trips import find_parks",
                "call_tool('mcp__trips__find_parks', {})",
                "call_tool('mcp__trips__find_' + 'parks', {})",
                "call_tool('mcp__expenses__get_' + 'budget', {'department': 'Sales'})",
            )
        ]

    assert [_servers(hit["name"] for hit in each["tools"]) for each in (clerk, guide)] == [{"expenses"}, {"trips"}]
    assert [_servers(each) for each in from_code] == [{"expenses"}, {"trips"}]
    assert {"weather", "forecast"} <= {word for each in clerk["unmatched"] for word in each.split("_")}
    assert "mcp__expenses__get_budget" not in [hit["name"] for hit in exact["tools"]]
    assert other == "InvalidRequest: No server named 'trips'. There are: expenses."
    assert seen == ['[["expenses"],false]', '[["expenses","trips"],true]']
    assert [("No tool named" in text or "No server named" in text) for text in refused] == [True] * 5
    hints = [text.partition("Nearest")[2].partition("\n")[0] for text in refused]
    assert [name for name in ("trips", "parks", "get_budget") for hint in hints if name in hint] == []


async def test_a_level_holds_for_the_runs_of_its_principal_alone(config: Config) -> None:
    """The same code is refused for one and runs for the other, and each answer says under which level."""
    async with opened(config) as gateway:
        strict = await gateway.call("clerk", "execute_code", code="import csv\ncsv.__name__")
        usual = await gateway.call("guide", "execute_code", code="import csv\ncsv.__name__")

    assert (strict.is_error, strict.meta["sealyard/execution"]["level"]) == (True, "hardened")
    assert (text_of(usual), usual.meta["sealyard/execution"]["level"]) == ("csv", "production")


async def test_nothing_of_another_is_reached_by_any_name(config: Config) -> None:
    """Sessions, files, whole results and executions of one client do not exist for the other, whatever their names."""
    look = "import os\nsorted(name for _, folders, files in os.walk('.') for name in folders + files)"
    async with opened(config) as gateway:
        await gateway.run("guide", "open('hers', 'w').write('x')\nlist(range(9_000))", session="s")
        await gateway.run("guide", "open('hers', 'w').write('x')")
        kept = await gateway.run("guide", look, session="s")
        seen = {
            session: await gateway.run("boss", look, session=session)
            for session in ("s", "guide", "guide:s", "guide:default", "default", "s:guide")
        }
        wrong = [
            (await gateway.call("boss", "execute_code", code="1", session=session)).is_error
            for session in ("../guide:s", ":guide:s", "guide:s/", "guide\0s", "/guide:s")
        ]
        started = await gateway.call("guide", "execute_code", code="call = 1\nwhile True: pass", background=True)
        number = started.meta["sealyard/execution"]["execution_id"]
        foreign = [await gateway.ask("boss", "execute_code", execution_id=each) for each in (number, "0" * 16)]
        cancelled = await gateway.ask("boss", "execute_code", execution_id=number, cancel=True)
        still = json.loads(await gateway.ask("guide", "execute_code", execution_id=number))
        await gateway.ask("guide", "execute_code", execution_id=number, cancel=True)

    assert len(json.loads(kept)) == 3
    assert set(seen.values()) == {"[]"}
    assert wrong == [True] * 5
    unknown = "UnknownExecution: No execution {!r} is known. Start one with background=true."
    assert foreign == [unknown.format(number), unknown.format("0" * 16)]
    assert (cancelled, still["state"]) == (unknown.format(number), "running")


OPS = HttpConfig(
    principals={
        "ops": PrincipalEntry(token="o", reveal=True),
        "ci": PrincipalEntry(token="c", level="hardened"),
        "ada": PrincipalEntry(token="a", approve=True),
    }
)


@contextlib.asynccontextmanager
async def api(folder: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Yard]]:
    """A client of the routes behind the gate, and the yard."""
    settings = config_module.Config(store=StoreConfig(path=folder / "sealyard.db"), http=OPS)
    async with open_yard(settings, with_sandbox=False) as yard:
        app = build_app(Server("t"), OPS, address=("127.0.0.1", 80), readiness=None, routes=api_module.routes(yard))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1/api/v1"
        ) as client:
            yield client, yard


async def token_of(yard: Yard, session: str) -> str:
    """A token that a session was given."""
    scope = (await yard.guards.of(session)).scope
    assert scope is not None
    return scope.token("email", f"{session}@x.example")


def bearer(token: str) -> dict[str, str]:
    """The header of a client."""
    return {"authorization": f"Bearer {token}"}


async def test_only_who_may_reveal_does_and_only_what_is_its_own(tmp_path: Path) -> None:
    """A token of another's session is as unknown as none, and so is the route to who has no token."""
    async with api(tmp_path) as (client, yard):
        own, others = await token_of(yard, "ops:s"), await token_of(yard, "ci:s")

        async def reveal(token: str, given: Any) -> tuple[int, Any]:
            answer = await client.post("/privacy/reveal", json=given, headers=bearer(token))
            return answer.status_code, answer.json()

        shown = await reveal("o", {"token": own})
        statuses = [
            (await reveal("o", {"token": others}))[0],
            (await reveal("o", {"token": "__PII_email_cccccccccccc__"}))[0],
            (await reveal("c", {"token": others}))[0],
            (await reveal("a", {"token": own}))[0],
            (await reveal("wrong", {"token": own}))[0],
            (await reveal("o", {"tokens": []}))[0],
            (await reveal("o", [1]))[0],
            (await reveal("o", {"token": "x" * 70_000}))[0],
        ]

    assert shown[0] == 200
    assert [(each["scope"], each["value"]) for each in shown[1]["values"]] == [("ops:s", "ops:s@x.example")]
    assert statuses == [404, 404, 403, 403, 401, 400, 400, 413]


async def test_everyone_reads_their_own_trail_and_operators_all_of_it(tmp_path: Path) -> None:
    """Newest first, a page at a time."""
    async with api(tmp_path) as (client, yard):
        for principal in ("ci", "ops", "ci", "local"):
            yard.store.audit(AuditEntry(kind="execution.start", principal=principal, body={}))

        async def read(token: str, **query: Any) -> list[tuple[int, str]]:
            answer = await client.get("/audit", params=query, headers=bearer(token))
            return [(each["number"], each["principal"]) for each in answer.json()["entries"]]

        own = await read("c")
        pages = [await read("o"), await read("a", limit=2), await read("a", limit=2, before=3)]
        wrong = [
            (await client.get("/audit", params=query, headers=bearer("c"))).status_code
            for query in ({"limit": 0}, {"limit": "x"}, {"limit": 10_000}, {"principal": "ops"})
        ]

    assert own == [(3, "ci"), (1, "ci")]
    assert pages == [
        [(4, "local"), (3, "ci"), (2, "ops"), (1, "ci")],
        [(4, "local"), (3, "ci")],
        [(2, "ops"), (1, "ci")],
    ]
    assert wrong == [400, 400, 400, 400]


@pytest.mark.parametrize(
    ("address", "hosts", "preset"),
    [
        (None, (), "open"),
        (None, ("tools.example.com",), "open"),
        ("127.0.0.1:80", (), "open"),
        ("localhost:80", ("localhost:*", "[::1]:80", "127.0.0.1"), "open"),
        ("[::1]:80", (), "open"),
        ("127.0.0.1:80", ("tools.example.com",), "guarded"),
        ("127.0.0.1:80", ("localhost", "tools.example.com:*"), "guarded"),
        ("0.0.0.0:80", ("127.0.0.1",), "guarded"),
        ("10.1.2.3:80", (), "guarded"),
        ("localhost.evil.example:80", (), "guarded"),
    ],
)
def test_the_policy_is_open_only_where_nobody_else_can_come_in(
    address: str | None, hosts: tuple[str, ...], preset: str
) -> None:
    """A proxy in front of loopback, which shows by the hosts that are served, lets in others too."""
    settings = HttpConfig(allowed_hosts=hosts)

    assert default_preset(None if address is None else parse_address(address), settings) == preset


def _servers(names: Any) -> set[str]:
    return {name.split("__")[1] for name in names}
