"""Logging in for people: a token or the operator's key becomes a cookie, for twelve hours and for this page alone."""

from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from mcp.server.lowlevel import Server
from tests.surfaces.api_gateway import KEY, TEAM, Gateway, asks, gateway, over

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config, StoreConfig
from sealyard.config.settings import HttpConfig
from sealyard.serve import api
from sealyard.serve import gate as gates
from sealyard.serve.gate import COOKIE, Gate
from sealyard.serve.http import build_app
from sealyard.testing import FakeUpstream
from sealyard.yard import open_yard


async def logged_in(gate: Gateway, token: str) -> httpx2.AsyncClient:
    """A browser that has logged in: it sends the cookie by itself, and the page's Origin."""
    client = await gate.client()
    client.headers["origin"] = gate.url
    answer = await client.post("login", json={"token": token})
    assert answer.status_code == 200, answer.text
    return client


async def test_the_operators_key_makes_an_operator(tmp_path: Path) -> None:
    """Who may see what all do and answer for them, and no more; where no token is needed too."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        before = (await client.get("me")).json()
        refused = [(await client.get("approvals")).status_code]
        answer = await client.post("login", json={"token": KEY})
        me = (await client.get("me")).json()
        waiting = await client.get("approvals")
        reveal = await client.post("privacy/reveal", json={"token": "x"}, headers={"origin": gate.url})

    assert (before["principal"], refused) == ("local", [403])
    assert answer.json() == {"principal": "operator"}
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[0].startswith(f"{COOKIE}=")
    assert len(parts[0]) > 40
    assert parts[1:] == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"]
    rights = [me[each] for each in ("principal", "known_by", "observe", "approve", "reveal")]
    assert rights == ["operator", "login", True, True, False]
    assert (waiting.status_code, waiting.json()) == (200, {"approvals": []})
    assert reveal.status_code == 403


async def test_over_https_the_cookie_is_for_https_alone(tmp_path: Path) -> None:
    """As behind a proxy that speaks it."""
    settings = HttpConfig(allowed_hosts=("tools.example.com",), allowed_origins=("https://tools.example.com",))
    config = Config(store=StoreConfig(path=tmp_path / "sealyard.db"), http=settings)
    async with open_yard(config, with_sandbox=False) as yard:
        app: Gate = build_app(
            Server("t"), settings, address=("127.0.0.1", 80), readiness=None, routes=api.routes(yard), operator_key=KEY
        )
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="https://tools.example.com") as client:
            answer = await client.post("/api/v1/login", json={"token": KEY})

    assert answer.headers["set-cookie"].split("; ")[-1] == "Secure"


async def test_a_token_logs_its_principal_in(tmp_path: Path) -> None:
    """With the rights of the token; logging out ends that, and so does the end of the gateway."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        ops = await logged_in(gate, "ops-token")
        me = (await ops.get("me")).json()
        cookie = ops.cookies[COOKIE]
        ready = await ops.get(f"{gate.url}/readyz")
        out = await ops.post("logout", json={})
        kept = await ops.get("me", headers={"cookie": f"{COOKIE}={cookie}"})
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        later = await (await gate.client()).get("me", headers={"cookie": f"{COOKIE}={cookie}"})

    assert (me["principal"], me["known_by"]) == ("ops", "login")
    assert ready.status_code == 200
    assert (out.status_code, out.json()) == (200, {"logged_out": True})
    assert f"{COOKIE}=; Path=/; Max-Age=0" in out.headers["set-cookie"]
    assert (kept.status_code, later.status_code) == (401, 401)


async def test_an_approval_is_given_by_who_is_logged_in(tmp_path: Path) -> None:
    """The run goes on, and the record names the operator."""
    rules = PolicySettings(rules=(Rule(decision="ask", tools=("mcp__bank__pay",)),))
    bank = FakeUpstream("bank", pay=lambda: "paid")
    async with gateway(tmp_path, bank, http=TEAM, policy=rules) as gate:
        ann, operator = await gate.client("ann"), await logged_in(gate, KEY)
        started = (await ann.post("executions", json={"code": "from servers.bank import pay\npay()"})).json()
        waiting = await asks(operator)
        seen = (await ann.get(f"executions/{started['execution_id']}")).json()
        answer = await operator.post(f"approvals/{waiting[0]['id']}", json={"decision": "once"})
        done = await over(ann, f"executions/{started['execution_id']}")
        trail = (await operator.get("audit", params={"limit": 50})).json()["entries"]

    assert seen["asks"] == [{"id": waiting[0]["id"], "tool": "mcp__bank__pay"}]
    assert (answer.status_code, done["result"]) == (200, "paid")
    (told,) = [each["body"] for each in trail if each["kind"] == "approval.answer"]
    assert (told["by"], told["channel"], told["decision"]) == ("operator", "http", "once")


async def test_all_of_a_long_argument_can_be_read_before_it_is_approved(tmp_path: Path) -> None:
    """The list has its beginning and its true length, the approval itself every character."""
    rules = PolicySettings(rules=(Rule(decision="ask", tools=("mcp__bank__pay",)),))
    bank = FakeUpstream("bank", pay=lambda note: "paid")
    code = "from servers.bank import pay\npay(note='ab' * 200_000)"
    async with gateway(tmp_path, bank, http=TEAM, policy=rules) as gate:
        ann, operator = await gate.client("ann"), await logged_in(gate, KEY)
        await ann.post("executions", json={"code": code})
        (listed,) = await asks(operator)
        whole = (await operator.get(f"approvals/{listed['id']}")).json()
        closed = await ann.get(f"approvals/{listed['id']}")
        unknown = await operator.get("approvals/none")
        await operator.post(f"approvals/{listed['id']}", json={"decision": "refuse"})

    assert (listed["arguments"], listed["cut"]) == ({"note": "ab" * 500}, {"note": 400_002})
    assert whole["arguments"] == {"note": "ab" * 200_000}
    assert (closed.status_code, unknown.status_code) == (403, 404)


async def test_who_guesses_is_slowed_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key cannot be tried out, and the right one is refused then too."""
    now = [0.0]
    monkeypatch.setattr(gates, "time", SimpleNamespace(monotonic=lambda: now[0]))  # there is another try every 2 s
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        client = await gate.client()
        statuses = [(await client.post("login", json={"token": f"guess-{number}"})).status_code for number in range(31)]
        right = await client.post("login", json={"token": KEY})
        now[0] = 2.0
        later = await client.post("login", json={"token": KEY})

    assert statuses == [401] * 30 + [429]
    assert (right.status_code, later.status_code) == (429, 200)
    assert right.json()["error"]["message"].startswith("There were more than 30 tries to log in in a minute.")
