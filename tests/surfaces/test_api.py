"""`/api/v1` as a program uses it: runs, lists, pages, keys, limits, and what it says to what is wrong."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.surfaces.api_gateway import TEAM, expenses, gateway, over, until
from tests.surfaces.test_surface import text_of

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config.settings import HttpConfig
from sealyard.testing import FakeUpstream

CALLING = "from servers.expenses import list_expenses\nprint('looking')\nlen(list_expenses())"


async def run(client: httpx2.AsyncClient, code: str, **more: Any) -> dict[str, Any]:
    """What came of code that was waited for."""
    answer = await client.post("executions", json={"code": code, "wait": True, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def error(answer: httpx2.Response) -> tuple[int, str, str]:
    """The status, code and message of a refusal, whose id is in a header too."""
    told = answer.json()["error"]
    assert set(told) == {"code", "message", "request_id"}
    assert told["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, told["code"], told["message"]


@pytest.mark.behaviour("http.errors")
async def test_every_refusal_is_the_same_envelope_and_says_what_to_do(tmp_path: Path) -> None:
    """Whoever refuses: the gate, the routes, what reads the request or what carries it out."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        ann, nobody = await gate.client("ann"), await gate.client()
        json_type = {"content-type": "application/json"}
        told = [
            await error(answer)
            for answer in (
                await nobody.get("me"),
                await ann.get("me", headers={"host": "evil.example"}),
                await ann.get("me", headers={"origin": "http://evil.example"}),
                await ann.get("nothing"),
                await ann.get("me/"),
                await ann.request("PUT", "executions"),
                await ann.request("BREW", "me"),
                await ann.get("executions", params={"limt": 3}),
                await ann.get("me", params={"x": 3}),
                await ann.get("executions", params={"limit": 0}),
                await ann.get("executions", params={"limit": "x"}),
                await ann.get("executions?limit=1&limit=2"),
                await ann.get("executions?cursor=%ff"),
                await ann.get("executions", params={"status": "done"}),
                await ann.get("executions", params={"status": "null"}),
                await ann.get("executions/0123"),
                await ann.get("executions", params={"principal": "bob"}),
                await ann.get("metrics"),
                await ann.post("executions", content=b"{", headers=json_type),
                await ann.post("executions", content=b"[]", headers=json_type),
                await ann.post("executions", json={"cod": "1"}),
                await ann.post("executions", json={"code": 1}),
                await ann.post("executions", json={"code": "1", "timeout_seconds": 1000}),
                await ann.post("executions", data={"code": "1"}),
                await ann.post("executions", json={"code": " "}),
                await ann.post("executions/0123/cancel", json={"now": True}),
                await ann.post("login", json={"token": "wrong"}),
                await ann.post("login", json={"token": "x" * 70_000}),
                await ann.get("tools", params={"server": "bank"}),
                await ann.get("tools/mcp__bank__pay"),
                await ann.get("skills/nothing"),
            )
        ]

    takes = "It takes limit, cursor, status, principal."
    statuses = "Use running, ok, failed, timeout, limit, broken, cancelled, lost."
    body = "It takes code, language, context, session, timeout_seconds, timeout, isolation_level, wait."
    assert told == [
        (401, "unauthorized", "A bearer token is needed: Authorization: Bearer TOKEN."),
        (421, "forbidden", "This Host is not served here. Name it in http.allowed_hosts."),
        (403, "forbidden", "This Origin is not allowed. Name it in http.allowed_origins."),
        (404, "not_found", "There is nothing at this path. GET /api/v1/openapi.json lists what is."),
        (404, "not_found", "There is nothing at this path. GET /api/v1/openapi.json lists what is."),
        (405, "invalid_request", "There is no PUT here. Use POST or GET."),
        (405, "invalid_request", "There is no BREW here. Use GET."),
        (400, "invalid_request", "There is no parameter 'limt' here. Did you mean 'limit'?"),
        (400, "invalid_request", "There is no parameter 'x' here. It takes no parameters."),
        (400, "invalid_request", f"The query is wrong: Expected `int` >= 1, in `limit`. {takes}"),
        (400, "invalid_request", f"The query is wrong: Expected `int`, got `str`, in `limit`. {takes}"),
        (400, "invalid_request", "limit is given more than once. Give it once."),
        (400, "invalid_request", "The query is not UTF-8 text, or has more than 50 parameters. Encode it anew."),
        (400, "invalid_request", f"The query is wrong: Invalid enum value 'done', in `status`. {statuses}"),
        (400, "invalid_request", "status is 'null'. Leave it out, or give it a value."),
        (404, "not_found", "No execution '0123' is known. List those that are: GET executions."),
        (403, "forbidden", "'ann' may see its own executions alone. Leave principal out."),
        (
            403,
            "forbidden",
            "'ann' may not see what all principals do. Use the token of a client that has `observe = true` in its "
            "http.principals.",
        ),
        (400, "invalid_request", 'The body is not JSON: Input data was truncated. Send {"code": …}.'),
        (400, "invalid_request", 'The body is not a JSON object. Send {"code": …}.'),
        (400, "invalid_request", "There is no field 'cod' here. Did you mean 'code'?"),
        (400, "invalid_request", f"The body is wrong: Expected `str`, got `int`, in `code`. {body}"),
        (400, "invalid_request", f"The body is wrong: Expected `float` <= 120.0, in `timeout_seconds`. {body}"),
        (400, "invalid_request", "The body is 'application/x-www-form-urlencoded'. Send application/json."),
        (400, "invalid_request", "The code is empty. Give at least one statement."),
        (400, "invalid_request", "There is no field 'now' here. It takes no fields."),
        (
            401,
            "unauthorized",
            "This is not a token of the gateway. Use one of its http.principals, or the key that it printed.",
        ),
        (413, "too_large", "The body has more than 65,536 bytes. Send less."),
        (400, "invalid_request", "No server named 'bank' has tools. There are: none yet."),
        (404, "not_found", "No tool named 'mcp__bank__pay'. Search for one: GET mcp/tools/search."),
        (404, "not_found", "No skill named 'nothing'. Call find_skills to find one that exists."),
    ]


async def test_a_fault_is_told_without_its_details(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who asked gets an id, and the log has the rest under it."""
    async with gateway(tmp_path, with_sandbox=False) as gate:
        client = await gate.client()

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError("w.smith@example.com is in here")

        gate.yard.store.list_executions = broken  # type: ignore[method-assign, assignment]
        answer = await client.get("executions")

    told = answer.json()["error"]
    assert (answer.status_code, told["code"]) == (500, "internal")
    assert told["message"] == (f"The gateway has a fault. Look for {told['request_id']} in its log, and report it.")
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        f"Request {told['request_id']}, GET /api/v1/executions, failed."
    ]


async def test_the_policy_says_which_of_its_rules_fit_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who observes sees it, and so does the log of the gateway: a misspelled rule allows what it should deny."""
    rules = PolicySettings(rules=(Rule(decision="deny", tools=("mial/send_mail",)),))
    mail = FakeUpstream("mail", send_mail=lambda: "sent")
    async with gateway(tmp_path, mail, policy=rules) as gate:
        client = await gate.client()
        async with asyncio.timeout(60):
            while not caplog.records:
                answer = (await client.get("policy")).json()

    said = "policy.rules[0].tools names 'mial/send_mail', which fits no tool. Did you mean 'mail/send_mail'?"
    assert (answer["preset"], answer["rules"][0]["tools"]) == ("open", ["mial/send_mail"])
    assert answer["unmatched"] == [
        {
            "at": "policy.rules[0].tools",
            "pattern": "mial/send_mail",
            "nearest": "mail/send_mail",
            "message": said,
        }
    ]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [said]


async def test_a_run_in_the_background_is_looked_at_until_it_is_over(tmp_path: Path) -> None:
    """It is in the journal when it is answered, says what it printed so far, and then what came of it."""
    release = asyncio.Event()
    reached = asyncio.Event()

    async def wait() -> str:
        reached.set()
        await release.wait()
        return "went on"

    async with gateway(tmp_path, FakeUpstream("slow", wait=wait), http=TEAM) as gate:
        ann = await gate.client("ann")
        code = "from servers.slow import wait\nprint('before')\nwait()"
        started = await ann.post("executions", json={"code": code, "session": "s"})
        path = f"{gate.url}{started.headers['location']}"
        await asyncio.wait_for(reached.wait(), 60)
        running = (await ann.get(path)).json()
        listed = (await ann.get("executions", params={"status": "running"})).json()["executions"]
        release.set()
        done = await over(ann, path)
        none = (await ann.get("executions", params={"status": "running"})).json()["executions"]
        calls = (await ann.get(f"{path}/calls")).json()

    assert started.status_code == 202
    assert started.headers["location"] == f"/api/v1/executions/{started.json()['execution_id']}"
    assert (running["status"], running["calls"], running["form"], running["session"]) == ("running", 1, "code", "s")
    assert running["output"] in ("", "before\n")  # it is looked through a moment later
    assert [each["execution_id"] for each in listed] == [running["execution_id"]]
    assert (done["status"], done["result"], done["output"], done["code"]) == ("ok", "went on", "before\n", code)
    assert done["text"] == "output:\nbefore\nresult:\nwent on"
    assert none == []
    assert [(each["number"], each["tool"], each["answer"]) for each in calls["calls"]] == [
        (1, "mcp__slow__wait", "went on")
    ]


async def test_code_that_fails_is_an_answer(tmp_path: Path) -> None:
    """The request was right: the status of the execution says what came of it."""
    async with gateway(tmp_path, expenses()) as gate:
        client = await gate.client()
        failed = await run(client, "from servers.expenses import fail\nfail()")
        again = (await client.get(f"executions/{failed['execution_id']}")).json()

    assert (failed["status"], failed["failure"]["type"], failed["details"]["line"]) == ("failed", "ToolFailed", 2)
    assert failed["result"] is None
    assert again | {"text": None} == failed | {"text": None}


async def test_an_analysis_answers_rows(tmp_path: Path) -> None:
    """It is an execution like any other, and says that it was an analysis."""
    async with gateway(tmp_path) as gate:
        client = await gate.client()
        rows = [{"name": "a", "amount": 5}, {"name": "b", "amount": 50}]
        parameters = {"conditions": [{"field": "amount", "operator": ">", "value": 10}]}
        answer = await client.post("analyses", json={"analysis_type": "filter", "data": rows, "parameters": parameters})
        wrong = await client.post("analyses", json={"analysis_type": "filtr", "data": rows})

    assert answer.status_code == 200
    assert (answer.json()["form"], answer.json()["status"]) == ("analysis", "ok")
    assert answer.json()["result"]["rows"] == [{"name": "b", "amount": 50}]
    assert await error(wrong) == (400, "invalid_request", "analysis_type is 'filtr'. Did you mean 'filter'?")


async def test_a_run_is_cancelled_by_who_started_it(tmp_path: Path) -> None:
    """It ends, and cancelling it again changes nothing."""
    async with gateway(tmp_path, http=TEAM) as gate:
        ann = await gate.client("ann")
        started = (await ann.post("executions", json={"code": "while True: pass"})).json()
        path = f"executions/{started['execution_id']}"
        cancelled = await ann.post(f"{path}/cancel", json={})
        again = await ann.post(f"{path}/cancel")

    assert [cancelled.json()["status"], again.json()["status"]] == ["cancelled", "cancelled"]


async def test_who_waits_and_goes_away_ends_the_run(tmp_path: Path) -> None:
    """Nobody would read what comes of it. One in the background goes on."""
    reached, release = asyncio.Semaphore(0), asyncio.Event()

    async def wait() -> int:
        reached.release()
        await release.wait()
        return 1

    def one_is_left(answer: httpx2.Response) -> bool:
        return len(answer.json()["executions"]) == 1

    code = {"code": "from servers.slow import wait\nwait()"}
    async with gateway(tmp_path, FakeUpstream("slow", wait=wait)) as gate:
        client = await gate.client()
        background = (await client.post("executions", json=code)).json()
        await asyncio.wait_for(reached.acquire(), 60)
        waiting = asyncio.create_task(client.post("executions", json={**code, "wait": True}))
        await asyncio.wait_for(reached.acquire(), 60)
        waiting.cancel()
        await asyncio.wait({waiting})
        running = await until(lambda: client.get("executions", params={"status": "running"}), one_is_left)
        release.set()
        done = await over(client, f"executions/{background['execution_id']}")
        statuses = [each["status"] for each in (await client.get("executions")).json()["executions"]]

    assert [each["execution_id"] for each in running.json()["executions"]] == [background["execution_id"]]
    assert done["result"] == 1
    assert sorted(statuses) == ["cancelled", "ok"]


@pytest.mark.behaviour("http.idempotency")
async def test_the_same_key_means_the_same_execution(tmp_path: Path) -> None:
    """Asked again, asked at the same time, asked after a restart: it was run once."""
    upstream = expenses()
    code = {"code": CALLING, "wait": True}
    key = {"idempotency-key": "k-1"}
    async with gateway(tmp_path, upstream, http=TEAM) as gate:
        ann, bob = await gate.client("ann"), await gate.client("bob")
        answers = await asyncio.gather(*(ann.post("executions", json=code, headers=key) for _ in range(5)))
        once = [answer for answer in answers if answer.status_code == 200]
        later = await ann.post("executions", json=code, headers=key)
        without_wait = await ann.post("executions", json={"code": CALLING}, headers=key)
        other = await ann.post("executions", json={"code": "1"}, headers=key)
        his = await bob.post("executions", json={"code": "1", "wait": True}, headers=key)
        wrong = [
            (await ann.post("executions", json=code, headers={"idempotency-key": each})).status_code
            for each in ("", "a b", "x" * 201, b"\xe9")
        ]
    async with gateway(tmp_path, upstream, http=TEAM) as gate:
        ann = await gate.client("ann")
        restarted = await ann.post("executions", json=code, headers=key)

    ids = {answer.json()["execution_id"] for answer in (*once, later, without_wait, restarted)}
    assert len(once) >= 1
    assert {answer.status_code for answer in answers} <= {200, 409}  # 409 to who came while it began
    assert len(ids) == 1
    assert (later.json()["status"], restarted.json()["result"], without_wait.status_code) == ("ok", 3, 202)
    assert await error(other) == (
        409,
        "conflict",
        "This Idempotency-Key stands for another request. Use a new key.",
    )
    assert his.json()["execution_id"] not in ids
    assert wrong == [400, 400, 400, 400]
    assert upstream.calls == [("list_expenses", {})]


async def test_a_gateway_that_ended_before_it_began_leaves_nothing_that_runs_twice(tmp_path: Path) -> None:
    """The key was on disk and the execution was not: whoever asks again is told so, and nothing is run."""
    upstream = expenses()
    async with gateway(tmp_path, upstream) as gate:
        client = await gate.client()

        async def die(*_: object, **__: object) -> None:
            raise asyncio.CancelledError

        gate.yard.executions.start = die  # type: ignore[method-assign, assignment]
        with contextlib.suppress(httpx2.HTTPError):
            await client.post("executions", json={"code": CALLING}, headers={"idempotency-key": "k"})
    async with gateway(tmp_path, upstream) as gate:
        client = await gate.client()
        again = await client.post("executions", json={"code": CALLING}, headers={"idempotency-key": "k"})

    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    assert "has not begun" in again.json()["error"]["message"]
    assert upstream.calls == []


async def test_a_key_of_a_request_that_was_refused_is_free(tmp_path: Path) -> None:
    """Nothing was begun for it, so that the same key is good for what is right."""
    async with gateway(tmp_path, expenses()) as gate:
        client = await gate.client()
        key = {"idempotency-key": "k"}
        refused = await client.post("executions", json={"code": " "}, headers=key)
        right = await client.post("executions", json={"code": "6 * 7", "wait": True}, headers=key)

    assert (refused.status_code, right.status_code, right.json()["result"]) == (400, 200, 42)


async def test_requests_and_answers_have_the_names_that_other_programs_use(tmp_path: Path) -> None:
    """What is null or empty is absent, `timeout` means `timeout_seconds`, and an answer says `success`."""
    absent = {"language": None, "context": None, "session": "", "timeout_seconds": None, "isolation_level": ""}
    async with gateway(tmp_path, expenses()) as gate:
        client = await gate.client()
        right = await client.post(
            "executions", json={"code": "print('hi')\n6 * 7", "wait": True, "timeout": 5, **absent}
        )
        wrong = await client.post("executions", json={"code": "1 / 0", "wait": True, "language": "Python3"})
        rows = {"analysis_type": "filter", "data": [{"a": 1}], "parameters": None, "source": None, "timeout": 5}
        analysis = await client.post("analyses", json=rows)
        started = (await client.post("executions", json={"code": "while True: pass", "timeout": 100})).json()
        cancelled = (await client.post(f"executions/{started['execution_id']}/cancel")).json()
        differs = await client.post("executions", json={"code": "1", "timeout": 5, "timeout_seconds": 6})
        found = (await client.get("mcp/tools/search?keyword=budget&detail=full&server=&limit=")).json()["tools"]

    names = ("success", "error", "output", "result")
    assert [right.json()[name] for name in names] == [True, None, "hi\n", 42]
    assert [wrong.json()[name] for name in names] == [False, "ZeroDivisionError: division by zero", "", None]
    assert (analysis.status_code, analysis.json()["success"]) == (200, True)
    for answer in (right, wrong, analysis):
        assert answer.json()["execution_time_ms"] == round(answer.json()["usage"]["wall_seconds"] * 1000)
    assert [started[name] for name in ("success", "error", "execution_time_ms")] == [None, None, None]
    assert (cancelled["success"], cancelled["error"]) == (False, "The execution ended as 'cancelled'.")
    assert await error(differs) == (
        400,
        "invalid_request",
        "timeout is 5 and timeout_seconds 6. Give one of them: they mean the same.",
    )
    assert found[0]["name"] == "mcp__expenses__get_budget"
    assert found[0]["input_schema"]["required"] == ["department"]


async def test_a_search_answers_as_the_tool_does(tmp_path: Path) -> None:
    """The same text at every level of detail, but for the schemas of `full`: a model reads none of them."""
    asked = [
        {"query": "budget of a department"},
        {"query": "expenses", "detail_level": "full", "limit": 2},
        {"query": "list", "detail_level": "name-only", "server": "expenses"},
        {"query": "zebra"},
    ]
    async with gateway(tmp_path, expenses(), with_sandbox=False) as gate, Client(f"{gate.url}/mcp") as agent:
        client = await gate.client()
        texts = [text_of(await agent.call_tool("search_tools", each)) for each in asked]
        answers = [(await client.get("mcp/tools/search", params=each)).text for each in asked]
        wrong = await client.get("mcp/tools/search", params={"query": "x", "detail_level": "all"})
        most = await client.get("mcp/tools/search", params={"query": "", "limit": 100, "detail_level": "full"})
        none = await client.get("mcp/tools/search", params={"query": "", "limit": 0})
        tools = {each["name"]: await client.get(f"tools/{each['name']}") for each in most.json()["tools"]}

    full = json.loads(answers.pop(1))
    assert all(hit.pop("input_schema")["type"] == "object" for hit in full["tools"])
    assert full == json.loads(texts.pop(1))
    assert answers == texts
    assert {name: tool.json()["input_schema"] for name, tool in tools.items()} == {
        each["name"]: each["input_schema"] for each in most.json()["tools"]
    }
    assert await error(none) == (
        400,
        "invalid_request",
        "The query is wrong: Expected `int` >= 1, in `limit`. It takes query, detail_level, server, limit.",
    )
    assert await error(wrong) == (
        400,
        "invalid_request",
        "detail_level is 'all'. Use name_only, with_description or full.",
    )


async def test_answers_are_compressed_except_those_with_private_values_and_streams(tmp_path: Path) -> None:
    """A client that does not accept it gets them plain, with the same content."""
    names = [f"tool_{number}" for number in range(60)]
    many = FakeUpstream("many", **dict.fromkeys(names, lambda: None))
    code = {"code": "'word ' * 1000", "wait": True}
    async with gateway(tmp_path, many, http=TEAM) as gate:
        ops = await gate.client("ops")
        tools = [await ops.get("tools?limit=60", headers={"accept-encoding": each}) for each in ("gzip", "identity")]
        ran = await ops.post("executions", json=code)
        approvals = await ops.get("approvals")
        async with ops.stream("GET", f"executions/{ran.json()['execution_id']}/events") as events:
            text = "".join([piece async for piece in events.aiter_text()])
        login = await ops.post("login", json={"token": "ann-token"})

    assert [answer.headers.get("content-encoding") for answer in (*tools, ran)] == ["gzip", None, "gzip"]
    assert tools[0].json() == tools[1].json()
    assert int(tools[0].headers["content-length"]) < int(tools[1].headers["content-length"]) // 4
    assert {answer.headers["vary"] for answer in (*tools, ran)} == {"Accept-Encoding"}
    for answer in (approvals, events, login):
        assert (answer.status_code, answer.headers.get("content-encoding")) == (200, None)
    assert "event: ended" in text


async def walk(client: httpx2.AsyncClient, path: str, field: str, **query: Any) -> list[list[Any]]:
    """All pages of a list."""
    pages = []
    cursor = None
    async with asyncio.timeout(60):
        while True:
            answer = await client.get(path, params=query | ({"cursor": cursor} if cursor else {}))
            assert answer.status_code == 200, answer.text
            pages.append(answer.json()[field])
            cursor = answer.json()["next_cursor"]
            if cursor is None:
                return pages


async def test_a_list_is_read_page_by_page_without_gap_or_repetition(tmp_path: Path) -> None:
    """Executions, calls, tools and the trail; the last page has no cursor, and pages are as long as asked for."""
    many = FakeUpstream("many", **{f"tool_{number:02}": lambda: 1 for number in range(7)})
    async with gateway(tmp_path, many, http=TEAM) as gate:
        ann, bob = await gate.client("ann"), await gate.client("bob")
        for number in range(5):
            await run(ann if number % 2 == 0 else bob, str(number))
        calling = await run(ann, "from servers.many import *\nfor _ in range(5): tool_00()")
        own = await walk(ann, "executions", "executions", limit=2)
        whole = await walk(ann, f"executions/{calling['execution_id']}/calls", "calls", limit=2)
        tools = await walk(ann, "tools", "tools", limit=3)
        trail = await walk(ann, "audit", "entries", limit=4)
        at_once = (await ann.get("audit", params={"limit": 200})).json()["entries"]

    assert [len(page) for page in own] == [2, 2]
    assert [each["code_characters"] for page in own for each in page] == [calling["code_characters"], 1, 1, 1]
    assert [[each["number"] for each in page] for page in whole] == [[1, 2], [3, 4], [5]]
    assert [len(page) for page in tools] == [3, 3, 1]
    assert [each["name"] for page in tools for each in page] == [f"mcp__many__tool_{number:02}" for number in range(7)]
    assert [each for page in trail for each in page] == at_once
    assert {each["principal"] for each in at_once} == {"ann"}


async def test_a_tool_is_shown_with_its_history(tmp_path: Path) -> None:
    """By any of its names; one that is misspelt is named."""
    async with gateway(tmp_path, expenses(), with_sandbox=False) as gate:
        client = await gate.client()
        found = [(await client.get(f"tools/{name}")).json() for name in ("mcp__expenses__fail", "expenses.fail")]
        misspelt = await client.get("tools/mcp__expenses__get_bugdet")

    assert found[0] == found[1]
    assert {key: found[0][key] for key in ("name", "upstream", "use", "description", "version")} == {
        "name": "mcp__expenses__fail",
        "upstream": "expenses",
        "use": "from servers.expenses import fail",
        "description": "Fail.",
        "version": "1.0.0",
    }
    assert [(each["version"], each["kind"]) for each in found[0]["releases"]] == [("1.0.0", "added")]
    assert await error(misspelt) == (
        404,
        "not_found",
        "No tool named 'mcp__expenses__get_bugdet'. Nearest: mcp__expenses__get_budget, mcp__expenses__fail, "
        "mcp__expenses__list_expenses.",
    )


async def test_skills_are_listed_and_read(tmp_path: Path) -> None:
    """One's own and the shared ones; for who may observe everybody's, each with whose it is."""
    saving = {
        "name": "double",
        "code": "def double(number: int) -> int:\n    return number * 2",
        "description": "Double a number.",
        "examples": [{"inputs": {"number": 2}, "output": 4}],
    }
    async with gateway(tmp_path, http=TEAM) as gate:
        ann, bob, obs = [await gate.client(name) for name in ("ann", "bob", "obs")]
        headers = {"authorization": "Bearer ann-token"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{gate.url}/mcp", http_client=http)) as agent,
        ):
            await agent.call_tool("save_skill", saving)
        await run(ann, "from skills import double\ndouble(number=4)")
        hers, his, all_of = [(await each.get("skills")).json() for each in (ann, bob, obs)]
        found = (await ann.get("skills", params={"query": "double"})).json()
        one = (await ann.get("skills/double")).json()
        seen = (await obs.get("skills/double", params={"namespace": one["namespace"]})).json()
        foreign = [
            (await bob.get("skills/double", params=query)).status_code
            for query in ({}, {"namespace": one["namespace"]})
        ]

    assert [(each["name"], each["version"], each["status"], each["uses"]) for each in hers["skills"]] == [
        ("double", "1.0.0", "active", 1)
    ]
    assert (his["skills"], his["total"]) == ([], 0)
    assert all_of["skills"] == hers["skills"] == found["skills"]
    assert (one["code"], one["versions"]) == (saving["code"], ["1.0.0"])
    assert seen == one
    assert foreign == [404, 403]


async def test_figures_are_what_was_done(tmp_path: Path) -> None:
    """The report, its series, the usage and Prometheus' text tell the same story."""
    async with gateway(tmp_path, expenses()) as gate:
        client = await gate.client()
        await run(client, CALLING)
        await run(client, "1 / 0")
        report = (await client.get("metrics", params={"window": "1h"})).json()
        series = (await client.get("metrics/series", params={"window": "1h"})).json()
        usage = (await client.get("usage")).json()
        text = await client.get(f"{gate.url}/metrics")
        whole = await client.get(f"{gate.url}/metrics", headers={"accept": "application/openmetrics-text"})

    assert (report["execution"]["count"], report["execution"]["ok"]) == (2, 1)
    assert report["execution"]["errors"] == {"ZeroDivisionError": 1}
    assert series["step"] == "minute"
    assert sum(point["executions"] for point in series["points"]) == 2
    assert [(each["tool"], each["calls"]) for each in usage["tools"]] == [("mcp__expenses__list_expenses", 1)]
    assert text.headers["content-type"].startswith("text/plain; version=")
    assert 'sealyard_upstream_calls_total{outcome="ok",upstream="expenses"} 1.0' in text.text.splitlines()
    assert whole.headers["content-type"].startswith("application/openmetrics-text")
    assert whole.text.endswith("# EOF\n")


async def test_alerts_are_seen_by_observers(tmp_path: Path) -> None:
    """Other clients are refused."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        ann, obs = [await gate.client(name) for name in ("ann", "obs")]
        found = [await client.get("alerts") for client in (ann, obs)]

    assert [each.status_code for each in found] == [403, 200]
    assert found[1].json() == {"alerts": []}


async def test_who_asks_too_often_waits_and_nobody_else_does(tmp_path: Path) -> None:
    """The answer says for how long. 0 means that there is no limit."""
    few = HttpConfig(principals=TEAM.principals, requests_per_minute=3)
    async with gateway(tmp_path / "a", http=few, with_sandbox=False) as gate:
        ann, bob = await gate.client("ann"), await gate.client("bob")
        answers = [await ann.get("me") for _ in range(4)]
        other = await bob.get("me")
    async with gateway(tmp_path / "b", http=HttpConfig(requests_per_minute=0), with_sandbox=False) as gate:
        client = await gate.client()
        free = [(await client.get("me")).status_code for _ in range(20)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    seconds = int(answers[3].headers["retry-after"])
    assert 1 <= seconds <= 20
    assert await error(answers[3]) == (
        429,
        "rate_limited",
        f"There were more than 3 requests of 'ann' in a minute. Try again in {seconds} s.",
    )
    assert other.status_code == 200
    assert set(free) == {200}


async def test_a_run_beyond_the_queue_is_refused_with_when_to_try_again(tmp_path: Path) -> None:
    """429 to who has too many runs itself, 503 to everybody when the gateway is full; one that waits is shown so."""
    reached, release = asyncio.Semaphore(0), asyncio.Event()

    async def wait() -> int:
        reached.release()
        await release.wait()
        return 1

    code = {"code": "from servers.slow import wait\nwait()"}
    bounds = {"running": 2, "queue": 3, "queue_each": 1}
    async with gateway(tmp_path, FakeUpstream("slow", wait=wait), http=TEAM, sandbox=bounds) as gate:
        ann, bob, obs = [await gate.client(name) for name in ("ann", "bob", "obs")]
        first = [(await client.post("executions", json=code)).json() for client in (ann, bob)]
        for _ in first:
            await asyncio.wait_for(reached.acquire(), 60)
        queued = (await ann.post("executions", json={"code": "2"})).json()
        refused = await ann.post("executions", json={"code": "3"}, headers={"idempotency-key": "k"})
        await bob.post("executions", json={"code": "4"})
        await obs.post("executions", json={"code": "5"})
        full = await obs.post("analyses", json={"analysis_type": "filter", "data": []})
        headers = {"authorization": "Bearer ann-token"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{gate.url}/mcp", http_client=http)) as agent,
        ):
            told = await agent.call_tool("execute_code", {"code": "6"})
        shown = (await ann.get(f"executions/{queued['execution_id']}")).json()
        measured = (await obs.get("executions", params={"status": "running"})).json()["executions"]
        release.set()
        done = await over(ann, f"executions/{queued['execution_id']}")
        again = await ann.post("executions", json={"code": "3", "wait": True}, headers={"idempotency-key": "k"})

    assert (shown["status"], shown["queued"], done["result"], done["queued"]) == ("running", True, 2, False)
    assert sorted(each["queued"] for each in measured) == [False, False, True, True, True]
    own = (
        "2 of your runs are under way or wait for their turn, the most that one client may have. Wait for some of them "
        "to end, or cancel some, and try again."
    )
    assert await error(refused) == (429, "rate_limited", own)
    assert await error(full) == (
        503,
        "unavailable",
        "The gateway is full: it has 5 runs, with those that wait for their turn. Try again later.",
    )
    assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in (refused, full))
    assert (told.is_error, text_of(told)) == (True, f"OwnQueueFull: {own}")
    assert again.json()["result"] == 3


async def test_upstreams_tell_what_went_wrong_to_observers_alone(tmp_path: Path) -> None:
    """The others see how they are, and of those outside their scope nothing."""
    gone = FakeUpstream("gone", tool=lambda: 1)

    def status() -> Any:
        told = FakeUpstream.status(gone)
        return msgspec.structs.replace(told, state="failed", error="cannot reach w.smith@brindlecombe.org")

    gone.status = status  # type: ignore[method-assign]
    async with gateway(tmp_path, gone, http=TEAM, with_sandbox=False) as gate:
        seen = {
            name: (await (await gate.client(name)).get("upstreams")).json()["upstreams"]
            for name in ("ann", "obs", "eve")
        }

    assert [(each["name"], each["state"], each["error"]) for each in seen["ann"]] == [("gone", "failed", None)]
    assert seen["obs"][0]["error"].startswith("cannot reach __PII_email_")
    assert seen["eve"] == []


async def test_everybody_is_told_who_they_are(tmp_path: Path) -> None:
    """With what they may do."""
    async with gateway(tmp_path, http=TEAM, with_sandbox=False) as gate:
        told = {
            name: (await (await gate.client(name)).get("me")).json() for name in ("ann", "eve", "obs", "ops", "key")
        }
    async with gateway(tmp_path / "b", with_sandbox=False) as gate:
        local = (await (await gate.client()).get("me")).json()

    rights = {name: [right for right in ("observe", "approve", "reveal") if me[right]] for name, me in told.items()}
    assert rights == {"ann": [], "eve": [], "obs": ["observe"], "ops": ["observe", "approve"], "key": ["reveal"]}
    assert {me["known_by"] for me in told.values()} == {"token"}
    assert told["eve"]["upstreams"] == ["none"]
    assert (local["principal"], local["known_by"], local["observe"], local["approve"]) == (
        "local",
        "address",
        True,
        False,
    )


async def test_a_search_is_json_whatever_it_had_to_leave_out(tmp_path: Path) -> None:
    """What does not fit the budget goes from the end, a hit at a time."""
    names = [f"list_{'long_' * 18}{number:02}" for number in range(50)]
    many = FakeUpstream("many", **{name: lambda: 1 for name in names})
    async with gateway(tmp_path, many, with_sandbox=False) as gate:
        gate.yard.runner.result_tokens = 400
        client = await gate.client()
        answers = [
            await client.get("mcp/tools/search", params={"query": "list long", "limit": 50, "detail_level": level})
            for level in ("name_only", "full")
        ]

    counts = [len(answer.json()["tools"]) for answer in answers]
    assert [0 < count < 50 for count in counts] == [True, True]
