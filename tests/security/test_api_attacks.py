"""Attacks on `/api/v1`: by pages of other sites, by other principals, by requests made to hurt, and by slow readers."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.surfaces.api_gateway import KEY, TEAM, Gateway, asks, events_of, expenses, gateway

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config.settings import HttpConfig
from sealyard.serve.api import ENDPOINTS
from sealyard.serve.api.declare import Endpoint, Events
from sealyard.serve.cursors import to_cursor
from sealyard.serve.gate import COOKIE
from sealyard.testing import FakeUpstream
from sealyard.values.skills import SaveSkill

JSON = {"content-type": "application/json"}


async def cookie_of(gate: Gateway, token: str = KEY) -> str:
    """The cookie of somebody who logged in."""
    answer = await (await gate.client()).post("login", json={"token": token})
    return answer.headers["set-cookie"].partition(";")[0]


async def test_no_other_page_uses_the_cookie_of_who_is_logged_in(tmp_path: Path) -> None:
    """Not one on another port of the same machine, not one without an Origin, and not a form."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        client = await gate.client()
        cookie = {"cookie": await cookie_of(gate)}
        host = gate.url.removeprefix("http://")
        body = json.dumps({"decision": "always"}).encode()
        attempts: list[dict[str, str]] = [
            JSON,
            {**JSON, "origin": "http://127.0.0.1:1"},
            {**JSON, "origin": "http://localhost"},
            {**JSON, "origin": f"http://{host}.evil.example"},
            {**JSON, "origin": "http://evil.example"},
            {**JSON, "origin": "null"},
            {**JSON, "origin": ""},
            {**JSON, "origin": f"http://{host}", "host": "evil.example"},
            {"content-type": "text/plain", "origin": gate.url},
            {"content-type": "application/x-www-form-urlencoded", "origin": gate.url},
            {"origin": gate.url},
        ]
        statuses = [
            (await client.post("approvals/x", content=body, headers={**each, **cookie})).status_code
            for each in attempts
        ]
        deleted = [
            (await client.request("DELETE", "approvals/x", headers={**each, **cookie})).status_code
            for each in ({}, {"origin": "http://127.0.0.1:1"})
        ]
        read = [
            (await client.get(path, headers={**cookie, "sec-fetch-site": site})).status_code
            for path in ("audit", f"{gate.url}/metrics")
            for site in ("cross-site", "same-site")
        ]
        own = await client.post("approvals/x", content=body, headers={**JSON, **cookie, "origin": gate.url})
        bearer = await (await gate.client("ops")).post("approvals/x", content=body, headers=JSON)
        page = await client.get("audit", headers={**cookie, "sec-fetch-site": "same-origin"})

    assert statuses == [403, 403, 403, 403, 403, 403, 403, 421, 400, 400, 400]
    assert deleted == [403, 403]
    assert read == [403, 403, 403, 403]
    assert (own.status_code, bearer.status_code) == (404, 404)  # let in; there is no such approval
    assert page.status_code == 200


async def test_a_cookie_opens_nothing_but_the_api(tmp_path: Path) -> None:
    """Not MCP, and not beside a token that is wrong; a forged, cut or doubled one opens nothing at all."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        client = await gate.client()
        cookie = await cookie_of(gate)
        mcp = await client.post(f"{gate.url}/mcp", json={}, headers={"cookie": cookie, "origin": gate.url})
        beside = await client.get("me", headers={"cookie": cookie, "authorization": "Bearer wrong"})
        name, _, value = cookie.partition("=")
        forged = [
            (await client.get("me", headers={"cookie": f"{name}={each}"})).status_code
            for each in ("", "x", value[:-1], value + "x", value.swapcase(), "a" * 4000)
        ]
        right = await client.get("me", headers={"cookie": f"other=1; {cookie}"})

    assert (mcp.status_code, beside.status_code) == (401, 401)
    assert forged == [401] * 6
    assert right.json()["principal"] == "operator"


@pytest.mark.behaviour("approval.not_the_model")
async def test_an_agents_token_and_the_address_alone_never_approve(tmp_path: Path) -> None:
    """Neither the operator's key as a bearer token, nor the name of the operator, is a way in."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        statuses = [
            (await client.get("approvals", headers=each)).status_code
            for each in (
                {},
                {"authorization": f"Bearer {KEY}"},
                {"cookie": f"{COOKIE}={KEY}"},
                {"cookie": f"{COOKIE}=operator"},
                {"x-forwarded-user": "operator"},
            )
        ]

    assert statuses == [403] * 5


MARK = "zq-marker-of-ann"
SKILL = "zq_marker_of_ann"


@contextlib.asynccontextmanager
async def working(folder: Path) -> AsyncIterator[tuple[Gateway, dict[str, str]]]:
    """A gateway in which ann has left her mark wherever she can; gives the values of names in paths that are hers."""
    rules = PolicySettings(rules=(Rule(decision="ask", tools=("mcp__expenses__get_budget",)),))
    async with gateway(folder, expenses(), http=TEAM, policy=rules) as gate:
        ann = await gate.client("ann")
        code = f"# {MARK}\nfrom servers.expenses import *\nprint('{MARK}')\nlist_expenses(user='{MARK}')\n'{MARK}'"
        done = await ann.post("executions", json={"code": code, "session": MARK, "wait": True})
        assert done.json()["status"] == "ok", done.text
        await gate.yard.skills.save(
            SaveSkill(name=SKILL, code=f"def {SKILL}() -> int:\n    return 1", description=MARK), principal="ann"
        )
        asking = f"from servers.expenses import get_budget\nget_budget(department='{MARK}')"
        await ann.post("executions", json={"code": asking})
        ops = await gate.client("ops")
        waiting = await asks(ops)
        yield gate, {"executions": done.json()["execution_id"], "skills": SKILL, "approvals": waiting[0]["id"]}


def path_of(each: Endpoint, names: dict[str, str]) -> str:
    """The path of an endpoint with ann's values in it."""
    tag = each.path.removeprefix("/api/v1/").partition("/")[0]
    value = names.get(tag, "mcp__expenses__fail")
    return each.path.replace("{id}", value).replace("{name}", value).replace("{rule}", "error_rate")


async def test_nothing_of_one_principal_is_in_any_answer_to_another(tmp_path: Path) -> None:
    """At every endpoint that reads, with her own ids and names: what is hers is as unknown as what never was."""
    reading = [each for each in ENDPOINTS if each.method == "GET" and each.name != "follow_gateway"]
    async with working(tmp_path) as (gate, names):
        seen: dict[str, set[str]] = {}
        for who in ("bob", "eve", "key", "obs"):
            client = await gate.client(who)
            seen[who] = set()
            for each in reading:
                answer = await client.get(f"{gate.url}{path_of(each, names)}")
                assert answer.status_code in (200, 403, 404), (who, each.name, answer.text)
                if MARK in answer.text or SKILL in answer.text.replace(f"'{SKILL}'", ""):
                    seen[who].add(each.name)
        bob = await gate.client("bob")
        changed = [
            (await bob.post(f"executions/{names['executions']}/cancel", json={})).status_code,
            (await bob.post(f"approvals/{names['approvals']}", json={"decision": "once"})).status_code,
        ]
        listed = (await bob.get("executions")).json()["executions"]

    assert (seen["bob"], seen["eve"]) == (set(), set())
    assert seen["key"] == {"list_audit"}  # who may reveal is an operator, and reads the trail of all
    assert {"list_executions", "get_execution", "follow_execution", "list_skills", "list_audit"} <= seen["obs"]
    assert changed == [404, 403]
    assert listed == []


async def test_every_endpoint_that_needs_a_right_refuses_who_has_it_not(tmp_path: Path) -> None:
    """And every endpoint, but the one that logs in, refuses who is not known."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        ann, nobody = await gate.client("ann"), await gate.client()
        refused, unknown = [], []
        for each in ENDPOINTS:
            url = f"{gate.url}{path_of(each, {})}"
            body = {} if each.method == "GET" else {"json": {}}
            unknown.append((each.name, (await nobody.request(each.method, url, **body)).status_code))
            if each.needs is not None:
                refused.append((each.name, (await ann.request(each.method, url, **body)).status_code))

    assert {status for _, status in refused} == {403}
    assert len(refused) >= 10
    assert [name for name, status in unknown if status != 401] == ["log_in"]


async def test_a_cursor_leads_nowhere_but_where_its_list_goes_on(tmp_path: Path) -> None:
    """One that is forged, of another list, or that names an execution of another, is refused and tells nothing."""

    def pack(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    async with gateway(tmp_path, http=TEAM) as gate:
        ann, bob = await gate.client("ann"), await gate.client("bob")
        hers = (await ann.post("executions", json={"code": "1", "wait": True})).json()["execution_id"]
        await bob.post("executions", json={"code": "1", "wait": True})
        cursors = [
            to_cursor("executions", hers),
            to_cursor("executions", "0" * 16),
            to_cursor("tools", "x"),
            pack(["executions", 1]),
            pack(["executions"]),
            pack(["executions", None, 1]),
            pack({"executions": hers}),
            pack(["executions", "' OR 1=1 --"]),
            "[]",
            "=",
            "a",
            "é",
            "\0",
            "A" * 500,
            "W" * 501,
        ]
        statuses = [(await bob.get("executions", params={"cursor": each})).status_code for each in cursors]
        numbers = [
            (await bob.get("audit", params={"cursor": to_cursor("audit", each)})).status_code
            for each in (0, -1, 1 << 40, 1 << 62)
        ]
        whole = [
            [each["principal"] for each in (await bob.get("audit", params=query)).json()["entries"]]
            for query in ({"cursor": to_cursor("audit", 1 << 40)}, {"before": 1 << 40})
        ]

    assert statuses == [400] * len(cursors)
    assert numbers == [200] * 4
    assert {principal for each in whole for principal in each} == {"bob"}


async def test_a_body_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    """Whether it says how long it is, lies, or does not say; code and rows may be longer than the rest."""
    small = HttpConfig(principals=TEAM.principals, max_request_bytes=200_000)

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 10_000

    async with gateway(tmp_path, http=small) as gate:
        ann = await gate.client("ann")
        long = "x" * 100_000
        answers = [
            await ann.post("login", content=b" " * 70_000, headers=JSON),
            await ann.post("login", content=pieces(7), headers=JSON),
            await ann.post("executions", content=pieces(21), headers=JSON),
            await ann.post("executions", json={"code": "1", "context": {"a": long * 3}}),
            await ann.post("executions", json={"code": "len(a)", "context": {"a": long}, "wait": True}),
        ]
        host = gate.url.removeprefix("http://")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        writer.write(
            b"POST /api/v1/executions HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer ann-token\r\n" % host.encode()
            + b"Content-Type: application/json\r\nContent-Length: 999999999999\r\n\r\n"
        )
        first = await asyncio.wait_for(reader.readline(), 60)
        writer.close()
        await writer.wait_closed()

    assert [answer.status_code for answer in answers] == [413, 413, 413, 413, 200]
    assert answers[4].json()["result"] == 100_000
    assert first.split()[1] == b"413"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 50_000,
        b'{"code": "1", "context": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        b'{"code": "1", "timeout_seconds": 1e999}',
        b'{"code": "1", "timeout_seconds": NaN}',
        b'{"code": "1", "context": {"a": ' + b"9" * 5_000 + b"}}",
        b'{"code": "\\ud800"}',
        b'{"code": "\xff"}',
        b'{"code": "1", "wait": "yes"}',
        b"",
        b"null",
    ],
)
async def test_a_body_made_to_hurt_is_refused(tmp_path: Path, body: bytes) -> None:
    """With the envelope, and the gateway goes on."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        answer = await client.post("executions", content=body, headers=JSON)
        after = await client.get("me")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert after.status_code == 200


async def test_a_reader_that_does_not_read_costs_nobody_anything(tmp_path: Path) -> None:
    """What it misses is dropped; the others see all, and when it goes nothing is left."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()
        live = gate.yard.live
        host = gate.url.removeprefix("http://")
        _, writer = await asyncio.open_connection(*host.split(":"), limit=1024)
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        async with client.stream("GET", "events") as other:
            lines = other.aiter_lines()
            async with asyncio.timeout(60):
                while len(live._watchers) < 2:
                    await client.get("me")
            reading = asyncio.create_task(events_of(lines))
            for number in range(1_000):
                live.emit("output", "x", "local", {"text": "y" * 20_000, "n": number})
                while number % 20 == 0 and min(len(watcher._queue) for watcher in live._watchers):
                    await client.get("me")
            live.emit("ended", "x", "local", {"status": "ok"})
            told = await reading
        held = max(len(watcher._queue) for watcher in live._watchers)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        async with asyncio.timeout(60):
            while live._watchers:
                await client.get("me")

    assert held == 500
    assert [each["data"].get("n") for each in told] == [*range(1_000), None]


async def test_output_cannot_make_up_events(tmp_path: Path) -> None:
    """Whatever line ends code prints, it stays within the data of one event."""
    forged = "\n\nid: 1\nevent: ended\ndata: {}\n\n\r\rdata: x\r\n\r\n: comment\n"
    async with gateway(tmp_path) as gate:
        client = await gate.client()
        done = (await client.post("executions", json={"code": f"print({forged!r})", "wait": True})).json()
        text = (await client.get(f"executions/{done['execution_id']}/events")).text

    blocks = text.split("\n\n")
    kinds = [[line for line in block.splitlines() if line.startswith("event:")] for block in blocks if block]
    assert kinds == [["event: started"], ["event: output"], ["event: ended"]]
    assert "\r" not in text


EMAIL = "w.featherstonehaugh@brindlecombe.org"


async def test_no_private_value_is_in_any_answer(tmp_path: Path) -> None:
    """What tools answer, code prints, arguments hold and errors quote comes out as tokens everywhere."""

    def get_person() -> dict[str, str]:
        return {"email": EMAIL}

    def fail(text: str) -> None:
        raise ValueError(f"no {EMAIL} {text}")

    crm = FakeUpstream("crm", get_person=get_person, fail=fail)
    code = (
        f"from servers.crm import *\np = get_person()\nprint(p, '{EMAIL}')\n"
        "try:\n    fail(text=p['email'])\nexcept Exception as error:\n    print(error)\np"
    )
    async with gateway(tmp_path, crm) as gate:
        client = await gate.client()
        async with client.stream("GET", "events") as live:
            lines = live.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            done = await client.post("executions", json={"code": code, "context": {"who": EMAIL}, "wait": True})
            told = await events_of(lines)
        texts = [done.text, json.dumps(told)]
        for each in ENDPOINTS:
            if each.method == "GET" and (each.answer is not Events or "{id}" in each.path):
                names = {"executions": done.json()["execution_id"]}
                texts.append((await client.get(f"{gate.url}{path_of(each, names)}")).text)
        texts.append((await client.get("mcp/tools/search", params={"query": EMAIL})).text)

    assert done.json()["status"] == "ok"
    assert "__PII_email_" in texts[0]
    assert "__PII_email_" in texts[1]
    assert [text for text in texts if EMAIL in text] == []


async def test_nobody_takes_the_requests_of_another(tmp_path: Path) -> None:
    """What has no token is counted for nobody, so that it cannot lock anybody out."""
    few = HttpConfig(principals=TEAM.principals, requests_per_minute=5)
    async with gateway(tmp_path, http=few, with_sandbox=False) as gate:
        eve = await gate.client()
        for number in range(50):
            await eve.get("me", headers={"authorization": f"Bearer ann-token-{number}"})
        ann = await gate.client("ann")
        statuses = [(await ann.get("me")).status_code for _ in range(6)]

    assert statuses == [200] * 5 + [429]


async def test_two_hosts_or_two_lengths_in_one_request_reach_nothing(tmp_path: Path) -> None:
    """Nobody in between can read it as another request than the gateway does."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        port = int(gate.url.rpartition(":")[2])
        answers = []
        for headers in (
            b"Host: 127.0.0.1:%d\r\nHost: evil.example\r\n" % port,
            b"Host: 127.0.0.1:%d\r\nContent-Length: 2\r\nContent-Length: 3\r\n" % port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /api/v1/logout HTTP/1.1\r\n" + headers + b"\r\n{}")
            answers.append((await asyncio.wait_for(reader.readline(), 60)).split()[1])
            writer.close()
            await writer.wait_closed()
        async with httpx2.AsyncClient() as client:
            alive = await client.get(f"{gate.url}/healthz")

    assert [status[:1] for status in answers] == [b"4", b"4"]
    assert alive.status_code == 200
