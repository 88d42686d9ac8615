"""One gateway that gives each client a surface of its own: by URL, by profile, by principal, by name."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests import warm
from tests.conftest import Kept, polled
from tests.surfaces.conftest import child, config_text, serving
from tests.surfaces.test_http import ACCEPT, HELLO
from tests.surfaces.test_surface import text_of

from sealyard.config.settings import hash_token
from sealyard.yard.surface import surface_tools

MORE = f"""
[upstreams.trips]
{child("-m", "sealyard.examples.trips")}

[surface]
direct = ["get_park"]

[surface.clients]
"weak*" = "search"
"*" = "code"

[profiles.money]
upstreams = ["exp*"]
level = "hardened"

[profiles.travel]
upstreams = ["trips"]
mode = "hybrid"
direct = ["mcp__trips__get_park"]

[[policy.rules]]
decision = "deny"
tools = ["mcp__expenses__approve_expense"]

[[policy.limits]]
tools = ["mcp__trips__list_campgrounds"]
calls_per_minute = 2
"""
CODE = [tool["name"] for tool in surface_tools("code")]
SEARCH = [tool["name"] for tool in surface_tools("search")]
TOOL, ASKED = "mcp__trips__get_park", {"park_id": "p07"}
EMPLOYEES = "from servers.expenses import list_employees\nlist_employees()[0]"
PARKS = "from servers.trips import get_park\nget_park(park_id='p07')['name']"

Config = Callable[..., Path]


@contextlib.asynccontextmanager
async def shared() -> AsyncIterator[str]:
    """The URL of a gateway with every kind of surface."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sealyard.toml"
        path.write_text(config_text(Path(folder) / "sealyard.db", MORE), encoding="utf-8")
        async with serving(path) as url:
            yield url


@contextlib.asynccontextmanager
async def connected(
    url: str, mode: str = "auto", *, name: str = "t", token: str | None = None
) -> AsyncIterator[Client]:
    """A client with a name of its choice, and a token if it has one."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    info = types.Implementation(name=name, version="1")
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None, client_info=info) as client,
    ):
        yield client


async def names(client: Client) -> list[str]:
    """The names of the tools that a client is shown, in order."""
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.behaviour("modes.together")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_four_modes_are_served_at_once(kept: Kept, mode: str) -> None:
    """Four clients connected at the same time each get the answer of a tool in the way that theirs has."""
    url = await kept(shared)
    async with (
        connected(url, mode) as code,
        connected(f"{url}?codemode=false", mode) as plain,
        connected(url, mode, name="weak-model/3") as search,
        connected(f"{url}/p/travel", mode) as hybrid,
    ):
        shown = [await names(each) for each in (code, search, hybrid)]
        relayed = await names(plain)
        found = [
            text_of(await code.call_tool("execute_code", {"code": PARKS})),
            json.loads(text_of(await plain.call_tool(TOOL, ASKED)))["name"],
            json.loads(text_of(await search.call_tool("call_tool", {"name": TOOL, "arguments": ASKED})))["name"],
            json.loads(text_of(await hybrid.call_tool(TOOL, ASKED)))["name"],
        ]
        again = [await names(each) for each in (code, search, hybrid)]

    assert shown == again == [CODE, SEARCH, [*CODE, TOOL]]
    assert {TOOL, "mcp__expenses__list_expenses"} <= set(relayed)
    assert not {*CODE, *SEARCH} & set(relayed)
    assert len(set(found)) == 1


@pytest.mark.behaviour("modes.query")
async def test_codemode_in_the_url_takes_eight_values_and_no_others(kept: Kept) -> None:
    """In any case; a value that is none of them is refused by name, and so is a contradiction."""
    url = await kept(shared)
    shown = {}
    for value in ("false", "off", "0", "no", "OFF", "true", "on", "1", "yes"):
        async with connected(f"{url}?x=1&codemode={value}") as client:
            shown[value] = await names(client)
    async with httpx2.AsyncClient(headers=ACCEPT) as client:
        wrong = [
            await client.post(f"{url}?{query}", json=HELLO)
            for query in ("codemode=maybe", "codemode=", "codemode=on&codemode=off")
        ]

    assert all(each == CODE for value, each in shown.items() if value in ("true", "on", "1", "yes"))
    assert all(
        "execute_code" not in each for value, each in shown.items() if value in ("false", "off", "0", "no", "OFF")
    )
    assert [each.status_code for each in wrong] == [400, 400, 400]
    assert {each.json()["error"]["code"] for each in wrong} == {"invalid_request"}
    assert wrong[0].json()["error"]["message"] == (
        "codemode is 'maybe'. Give one of false, off, 0, no for the servers' own tools, or one of true, on, 1, yes, as "
        "without it, for the configured mode."
    )


@pytest.mark.behaviour("modes.unknown_profile")
async def test_an_unknown_profile_is_not_found_and_the_known_ones_are_named(kept: Kept) -> None:
    """A path beside the one of a profile is none either."""
    url = await kept(shared)
    wanted = ("mony", "", "money/x", "money%2f..%2ftravel", "MONEY", "%2e%2e")
    async with httpx2.AsyncClient(headers=ACCEPT) as client:
        answers = [await client.post(f"{url}/p/{name}", json=HELLO) for name in wanted]
        known = [await client.post(f"{url}/p/{name}", json=HELLO) for name in ("money", "money/")]

    assert [each.status_code for each in answers] == [404] * len(wanted)
    assert answers[0].json()["error"]["code"] == "not_found"
    assert answers[0].json()["error"]["message"] == "There is no profile 'mony'. There are: money, travel."
    assert [each.status_code for each in known] == [200, 200]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_profile_gives_its_upstreams_its_level_and_no_others(kept: Kept, mode: str) -> None:
    """What is outside is as unknown as what never was; what is inside works."""
    url = await kept(shared)
    async with connected(f"{url}/p/money", mode) as client:
        found = json.loads(text_of(await client.call_tool("search_tools", {"query": " "})))
        inside = await client.call_tool("execute_code", {"code": "import servers\ndir(servers)"})
        outside = await client.call_tool("execute_code", {"code": PARKS})

    assert found["servers"] == ["expenses"]
    assert {each["name"].split("__")[1] for each in found["tools"]} == {"expenses"}
    assert "expenses" in text_of(inside)
    assert "trips" not in text_of(inside)
    assert inside.meta is not None
    assert inside.meta["sealyard/execution"]["level"] == "hardened"
    assert outside.is_error
    assert "No server named 'trips'" in text_of(outside)


@pytest.mark.behaviour("modes.always_loaded")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_claude_code_is_told_to_load_the_tools_at_once(kept: Kept, mode: str) -> None:
    """And nobody else: another client might show it to its model."""
    url = await kept(shared)
    async with connected(url, mode, name="claude-code") as claude, connected(url, mode) as other:
        marked = [tool.meta for tool in (await claude.list_tools()).tools]
        plain = [tool.meta for tool in (await other.list_tools()).tools]

    assert marked == [{"anthropic/alwaysLoad": True}] * len(CODE)
    assert plain == [None] * len(CODE)


async def test_relayed_calls_have_the_same_border_as_code(kept: Kept) -> None:
    """A tool that the policy denies is in neither, and both write the one journal."""
    url = await kept(shared)
    async with connected(f"{url}?codemode=false") as plain, connected(url) as code:
        listed = await names(plain)
        with pytest.raises(MCPError, match="No upstream lists the name"):
            await plain.call_tool("mcp__expenses__approve_expense", {"expense_id": 1})
        denied = await code.call_tool("execute_code", {"code": "from servers.expenses import approve_expense"})
        budget = await plain.call_tool("mcp__expenses__get_budget", {"department": "Sales"})
    async with httpx2.AsyncClient() as client:
        journal = (await client.get(url.replace("/mcp", "/api/v1/executions"), params={"limit": 3})).json()

    assert "mcp__expenses__approve_expense" not in listed
    assert "mcp__expenses__get_budget" in listed
    assert denied.is_error
    assert not budget.is_error
    assert [each["form"] for each in journal["executions"]] == ["call", "code", "call"]


@pytest.mark.behaviour("relay.observed")
@pytest.mark.parametrize("path", ["", "/p/travel"])
async def test_relayed_calls_are_in_the_live_view_and_the_metrics(config: Config, path: str) -> None:
    """As one execution each, with how it ended; what the agent read is on both sides of the tokens."""
    camps = "list_campgrounds" if path else "mcp__trips__list_campgrounds"
    async with (
        serving(config(MORE)) as url,
        httpx2.AsyncClient(base_url=url.replace("/mcp", "/api/v1"), timeout=60) as api,
        api.stream("GET", "/events") as stream,
        connected(f"{url}{path}?codemode=off") as plain,
    ):
        lines = stream.aiter_lines()
        await anext(lines)  # from here on nothing is missed
        said = [text_of(await plain.call_tool(camps, ASKED)) for _ in range(3)]
        events: list[tuple[str, Any]] = []
        async for line in lines:
            if line.startswith("event: "):
                events.append((line.removeprefix("event: "), None))
            elif line.startswith("data: "):
                events[-1] = (events[-1][0], json.loads(line.removeprefix("data: ")))
                if [kind for kind, _ in events].count("ended") == 3:
                    break

        async def look() -> dict[str, Any]:
            found: dict[str, Any] = (await api.get("/metrics", params={"window": "1h"})).json()
            return found

        report = await polled(look, lambda found: found["tokens"]["actual_parts"].get("results"))
        exposed = (await api.get(url.replace("/mcp", "/metrics"))).text
        journal = (await api.get("/executions", params={"limit": 10})).json()["executions"]

    assert ["LimitReached" in each for each in said] == [False, False, True]
    assert [kind for kind, _ in events] == ["started", "call", "called", "ended"] * 3
    called = [body for kind, body in events if kind == "called"]
    assert [(each["tool"], each.get("error")) for each in called] == [
        ("mcp__trips__list_campgrounds", None),
        ("mcp__trips__list_campgrounds", None),
        ("mcp__trips__list_campgrounds", "LimitReached"),
    ]
    assert [each["bytes"] > 0 for each in called] == [True, True, False]
    assert [body["status"] for kind, body in events if kind == "ended"] == ["ok", "ok", "failed"]
    assert report["execution"]["by_form"]["proxy"] == 3
    assert report["tokens"]["by_use_case"]["direct"]["baseline"] > 0
    assert report["tokens"]["baseline_parts"]["data"] <= report["tokens"]["actual_parts"]["results"]
    assert report["tokens"]["baseline_parts"]["definitions"] == report["tokens"]["actual_parts"]["surface"]
    assert 'sealyard_execution_total{form="proxy",level="none",status="ok",tier="none"} 2.0' in exposed.splitlines()
    assert [(each["form"], each["status"]) for each in journal] == [("call", "failed"), ("call", "ok"), ("call", "ok")]


@pytest.mark.parametrize("first", ["code", "relay"])
async def test_limits_and_private_values_hold_across_surfaces(config: Config, first: str) -> None:
    """A limit counts the calls of both together, and a value is a token in both."""
    camps, code = (
        "mcp__trips__list_campgrounds",
        "from servers.trips import list_campgrounds\nlen(list_campgrounds('p07'))",
    )
    async with (
        serving(config(MORE)) as url,
        connected(url) as writer,
        connected(f"{url}?codemode=off") as plain,
    ):

        async def from_code() -> str:
            return text_of(await writer.call_tool("execute_code", {"code": code}))

        async def relayed() -> str:
            return text_of(await plain.call_tool(camps, ASKED))

        calls = [from_code, relayed] if first == "code" else [relayed, from_code]
        said = [await call() for call in (*calls, *calls)]
        people = [
            text_of(await plain.call_tool("mcp__expenses__list_employees", {})),
            text_of(await writer.call_tool("execute_code", {"code": EMPLOYEES})),
        ]

    assert ["LimitReached" in each for each in said] == [False, False, True, True]
    assert all("__PII_email_" in each and "@example.com" not in each for each in people)


async def test_the_api_lists_profiles_as_the_principal_may_use_them(config: Config) -> None:
    """With the upstreams and the level that it has there; a token that is bound to a profile has nothing else."""
    tokens = f"""
[http.principals.boss]
token_sha256 = "{hash_token("b-secret")}"
mode = "search"

[http.principals.clerk]
token_sha256 = "{hash_token("c-secret")}"
upstreams = ["trips"]
level = "hardened"

[http.principals.bound]
token_sha256 = "{hash_token("d-secret")}"
profiles = ["money"]
"""
    async with serving(config(MORE + tokens)) as url:
        seen = {}
        for token in ("b-secret", "c-secret", "d-secret"):
            headers = {"authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers | ACCEPT, timeout=60) as client:
                seen[token] = await client.get(url.replace("/mcp", "/api/v1/profiles"))
                if token == "d-secret":
                    bound = [
                        (await client.post(f"{url}{path}", json=HELLO)).status_code
                        for path in ("/p/money", "/p/travel", "", "?codemode=off", "/p/nothing")
                    ]
                    elsewhere = (await client.get(url.replace("/mcp", "/metrics"))).status_code
        async with connected(url, token="b-secret") as boss, connected(f"{url}/p/travel", token="b-secret") as profile:
            shown = [await names(boss), await names(profile)]
        async with connected(f"{url}?codemode=no", token="c-secret") as clerk:
            own = await names(clerk)

    assert [each.status_code for each in seen.values()] == [200, 200, 403]
    money = {
        "name": "money",
        "path": "/mcp/p/money",
        "upstreams": ["expenses"],
        "mode": None,
        "level": "hardened",
        "principals": [],
    }
    travel = {
        "name": "travel",
        "path": "/mcp/p/travel",
        "upstreams": ["trips"],
        "mode": "hybrid",
        "level": "production",
        "principals": [],
    }
    assert seen["b-secret"].json() == {"profiles": [money, travel]}
    assert seen["c-secret"].json() == {"profiles": [money | {"upstreams": []}, travel | {"level": "hardened"}]}
    assert "may use /mcp/p/money and nothing else" in seen["d-secret"].json()["error"]["message"]
    assert bound == [200, 404, 403, 403, 404]
    assert elsewhere == 403
    assert shown == [SEARCH, [*CODE, TOOL]]
    assert "find_parks" in own
    assert "list_expenses" not in own


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        ((), "t", CODE),
        (("--mode", "search"), "t", CODE),
        ((), "weak-1", SEARCH),
        (("--profile", "travel"), "weak-1", [*CODE, TOOL]),
    ],
)
async def test_the_same_holds_over_standard_input(
    config: Config, mode: str, arguments: tuple[str, ...], name: str, expected: list[str]
) -> None:
    """`--profile` in place of the URL; `--mode` takes the place of `surface.mode`, which is the last to be asked."""
    command, *rest = warm.python("-m", "sealyard", "serve", str(config(MORE)), *arguments)
    info = types.Implementation(name=name, version="1")
    server = StdioServerParameters(command=command, args=rest)
    async with Client(server, mode=mode, cache=None, client_info=info) as client:
        shown = await names(client)

    assert shown == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "mony"), "The config has no profile 'mony'. Did you mean 'money'?"),
        (
            ("--profile", "money", "--http", "127.0.0.1:0"),
            "Over HTTP a profile is part of the URL. Leave --profile out, and use /mcp/p/money.",
        ),
    ],
)
def test_a_profile_that_cannot_be_served_is_a_message(config: Config, arguments: tuple[str, ...], message: str) -> None:
    """And nothing is started."""
    command = warm.python("-m", "sealyard", "serve", str(config(MORE)), *arguments)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_policy_explain_says_what_a_profile_hides(config: Config) -> None:
    """By the profile and by the scope of the principal."""
    path, hidden = config(MORE), []
    for more in ((), ("--profile", "money"), ("--profile", "travel")):
        command = warm.python("-m", "sealyard", "policy", "explain", "trips/get_park", "--config", str(path), "--json")
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
        hidden.append(json.loads(done.stdout)["hidden"])

    assert hidden == [False, True, False]


async def test_a_gateway_of_relays_alone_keeps_to_scopes_and_profiles(config: Config) -> None:
    """In proxy mode, which opens no sandbox: a principal reaches its upstreams through it and no others."""
    tokens = f"""
[upstreams.trips]
{child("-m", "sealyard.examples.trips")}

[profiles.money]
upstreams = ["exp*"]

[http.principals.boss]
token_sha256 = "{hash_token("b-secret")}"

[http.principals.clerk]
token_sha256 = "{hash_token("c-secret")}"
upstreams = ["trips"]
"""
    async with serving(config(tokens), "--mode", "proxy") as url:
        async with connected(url, token="b-secret") as boss, connected(f"{url}/p/money", token="b-secret") as narrow:
            whole, part = await names(boss), await names(narrow)
        async with connected(url, token="c-secret") as clerk, connected(f"{url}/p/money", token="c-secret") as none:
            own, nothing = await names(clerk), await names(none)

    assert {each.split("__")[1] for each in whole} == {"expenses", "trips"}
    assert "list_expenses" in part
    assert "find_parks" not in part
    assert "find_parks" in own
    assert "list_expenses" not in own
    assert nothing == []
