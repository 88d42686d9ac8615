"""Approval as a client meets it: in a dialogue of its own in both eras, or by somebody else while it waits."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.conftest import polled
from tests.surfaces.api_gateway import asks
from tests.surfaces.conftest import Agent, Connect, in_memory, over_http, serving
from tests.surfaces.test_surface import meta_of, text_of

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.serve.dialogue import READING_SECONDS
from sealyard.store import open_store
from sealyard.values.access import Approval, ApprovalRequest

TOOL = "mcp__expenses__get_budget"
ASK = f"""
[policy]
preset = "open"

[[policy.rules]]
decision = "ask"
tools = ["{TOOL}"]
reason = "budgets are confidential"
"""
CODE = "from servers.expenses import get_budget\nget_budget(department='Sales')['department']"
THREE = """
import asyncio
from servers.expenses import get_budget

async def tell(name):
    try:
        return (await get_budget(department=name))['department']
    except Exception as error:
        return f'{type(error).__name__}: {error}'

await asyncio.gather(*map(tell, ['Sales', 'Finance', 'Marketing']))
"""

Config = Callable[..., Path]


class Person:
    """Answers a client's dialogues, in the time that reading takes a person."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self.seen: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._answers = list(answers)

    async def __call__(self, ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """The next answer, and the last one from then on."""
        assert isinstance(params, types.ElicitRequestFormParams)
        self.seen.append(params.message)
        self.forms.append(params.requested_schema)
        await reading()
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def reading() -> None:
    """Takes as long as the fastest person."""
    await asyncio.sleep(READING_SECONDS)


def accept(decision: str, reason: str = "") -> types.ElicitResult:
    """A form that was filled in."""
    return types.ElicitResult(action="accept", content={"decision": decision, "reason": reason})


@contextlib.asynccontextmanager
async def operator(path: Path) -> AsyncIterator[Approvals]:
    """Somebody who shares nothing with the gateway but its store."""
    async with open_store(path / "store" / "sealyard.db") as store:
        yield Approvals(store, PolicySettings())


async def next_asks(approvals: Approvals, count: int = 1) -> list[ApprovalRequest]:
    """The asks that wait, once there are as many."""
    async with asyncio.timeout(60):
        return await polled(approvals.waiting, lambda asks: len(asks) == count)


def said(decision: Any, reason: str = "") -> Approval:
    """What the operator says."""
    return Approval(decision=decision, by="alice", channel="cli", reason=reason, answered_at=time.time())


@pytest.mark.behaviour("approval.client")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_person_at_the_client_allows_a_call(connect: Connect, mode: str) -> None:
    """The run goes on from where it stood, and the agent was told meanwhile what it waits for."""
    person = Person(accept("once"))
    heard: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with connect(ASK, mode=mode, elicitation_callback=person) as agent:
        code = f"print('before')\n{CODE}"
        result = await agent.client.call_tool("execute_code", {"code": code}, progress_callback=on_progress)

    assert text_of(result) == "output:\nbefore\nresult:\nSales"
    assert len(person.seen) == 1
    assert person.seen[0].splitlines()[:6] == [
        "A call waits for your approval.",
        "",
        f'    {TOOL}(department="Sales")',
        f"    tool: {TOOL}",
        "    server: expenses",
        '    argument department = "Sales"',
    ]
    assert "    reason: budgets are confidential" in person.seen[0].splitlines()
    assert f"waiting for approval of {TOOL} (" in "".join(heard)


@pytest.mark.behaviour("approval.no")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_way_to_say_no_is_a_refusal_that_says_who_and_why(config: Config, mode: str) -> None:
    """Declining, dismissing and an answer that is none of the choices refuse too."""
    answers = [
        accept("refuse", "not on Fridays"),
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="cancel"),
        accept("whatever"),
    ]
    async with in_memory(config(ASK), mode=mode, elicitation_callback=Person(*answers)) as agent:
        found = [text_of(await agent.execute(CODE)).splitlines()[0] for _ in answers]

    assert found == [
        f"ApprovalRefused: {TOOL} refused by local (elicitation): {why}"
        for why in (
            "not on Fridays",
            "declined",
            "dismissed",
            "the client's answer could not be read",
        )
    ]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_several_asks_of_one_run_are_answered_each_by_itself(config: Config, mode: str) -> None:
    """They are shown at the same time; one refusal does not end the run."""

    async def person(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        await reading()
        return accept("refuse", "no") if '"Marketing"' in params.message else accept("once")

    async with in_memory(config(ASK), mode=mode, elicitation_callback=person) as agent:
        result = await agent.execute(THREE)

    assert text_of(result) == (f'["Sales","Finance","ApprovalRefused: {TOOL} refused by local (elicitation): no"]')


async def test_asks_made_together_come_in_one_round_and_go_on_with_the_next(config: Config) -> None:
    """The newer era: one result with three questions; the call that is repeated finds the run where it stood."""
    async with in_memory(config(ASK), elicitation_callback=Person(accept("once"))) as agent:
        arguments = {"code": f"open('runs', 'a').write('x')\n{THREE}"}
        first = await agent.client.session.call_tool("execute_code", arguments, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        assert first.input_requests is not None
        await reading()
        two = dict.fromkeys(list(first.input_requests)[:2], accept("once"))
        second = await agent.client.session.call_tool(
            "execute_code", arguments, input_responses=two, request_state=first.request_state, allow_input_required=True
        )
        assert isinstance(second, types.InputRequiredResult)
        assert second.input_requests is not None
        await reading()
        last = dict.fromkeys(second.input_requests, accept("once"))
        result = await agent.client.session.call_tool(
            "execute_code",
            arguments,
            input_responses=last,
            request_state=second.request_state,
            allow_input_required=True,
        )
        again = await agent.client.session.call_tool(
            "execute_code",
            arguments,
            input_responses=last,
            request_state=second.request_state,
            allow_input_required=True,
        )
        runs = await agent.execute("open('runs').read()")

    assert len(first.input_requests) == 3
    assert set(second.input_requests) == set(first.input_requests) - set(two)
    assert isinstance(result, types.CallToolResult)
    assert isinstance(again, types.CallToolResult)
    assert text_of(result) == text_of(again) == '["Sales","Finance","Marketing"]'
    assert text_of(runs) == "x"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_operator_answers_for_a_client_without_a_dialogue(connect: Connect, tmp_path: Path, mode: str) -> None:
    """From another process, through the store; other runs of the gateway go on meanwhile."""
    async with connect(ASK, mode=mode) as agent, operator(tmp_path) as elsewhere:
        running = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        other = await agent.execute("6 * 7")
        await elsewhere.answer(ask.id, said("refuse", "not on Fridays"))
        refused = await running
        running = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        await elsewhere.answer(ask.id, said("once"))
        allowed = await running

    assert text_of(other) == "42"
    assert text_of(refused).splitlines()[0] == f"ApprovalRefused: {TOOL} refused by alice (cli): not on Fridays"
    assert text_of(allowed) == "Sales"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_operator_may_be_faster_than_the_client(config: Config, tmp_path: Path, mode: str) -> None:
    """The dialogue is taken back or its answer comes too late; either way the first answer holds."""
    asked = asyncio.Event()
    answered = asyncio.Event()

    async def person(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        await answered.wait()
        return accept("refuse")

    async with (
        in_memory(config(ASK), mode=mode, elicitation_callback=person) as agent,
        operator(tmp_path) as elsewhere,
    ):
        running = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        await asked.wait()
        await elsewhere.answer(ask.id, said("once"))
        await next_asks(elsewhere, 0)
        answered.set()
        result = await running

    assert text_of(result) == "Sales"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_tool_called_without_code_is_asked_for_too(config: Config, mode: str) -> None:
    """By name in search mode, and as itself in hybrid mode."""
    person = Person(accept("once"), accept("refuse", "no"))
    search = f'{ASK}\n[surface]\nmode = "search"\n'
    async with in_memory(config(search), mode=mode, elicitation_callback=person) as agent:
        allowed = await agent.call("call_tool", name=TOOL, arguments={"department": "Sales"})
    hybrid = f'{ASK}\n[surface]\nmode = "hybrid"\ndirect = ["{TOOL}"]\n'
    async with in_memory(config(hybrid), mode=mode, elicitation_callback=person) as agent:
        refused = await agent.call(TOOL, department="Sales")

    assert '"department":"Sales"' in text_of(allowed)
    assert text_of(refused) == f"ApprovalRefused: {TOOL} refused by local (elicitation): no"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_ask_of_a_background_run_waits_until_its_client_looks(connect: Connect, mode: str) -> None:
    """Then the person at the client is asked, and the look says what came of it."""
    person = Person(accept("once"))
    async with connect(ASK, mode=mode, elicitation_callback=person) as agent:
        started = await agent.execute(CODE, background=True)
        execution = meta_of(started)["execution_id"]
        async with asyncio.timeout(60):
            while "state" in meta_of(result := await agent.call("execute_code", execution_id=execution)):
                pass

    assert text_of(result) == "Sales"
    assert len(person.seen) == 1


@pytest.mark.usefixtures("quick_looks")
async def test_a_look_without_a_dialogue_says_what_waits(config: Config, tmp_path: Path) -> None:
    """The agent can tell its user where to answer; it has no call that answers."""
    async with in_memory(config(ASK)) as agent, operator(tmp_path) as elsewhere:
        started = await agent.execute(CODE, background=True)
        (ask,) = await next_asks(elsewhere)
        looked = await agent.call("execute_code", execution_id=meta_of(started)["execution_id"])
        await elsewhere.answer(ask.id, said("once"))
        done = await agent.call("execute_code", execution_id=meta_of(started)["execution_id"])

    assert meta_of(looked) == {
        "execution_id": ask.execution_id,
        "state": "running",
        "waiting_for_approval": [{"id": ask.id, "tool": TOOL}],
    }
    assert text_of(done) == "Sales"


async def test_a_client_that_lost_its_connection_goes_on_with_a_new_one(config: Config) -> None:
    """Over HTTP: the state that it was given finds the run, which stood still meanwhile and ran once."""
    arguments = {"code": f"open('runs', 'a').write('x')\n{CODE}", "timeout_seconds": 30}
    async with serving(config(ASK)) as url:
        async with Client(url, cache=None, elicitation_callback=Person(accept("once"))) as client:
            first = await client.session.call_tool("execute_code", arguments, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        assert first.input_requests is not None
        await reading()
        async with Client(url, cache=None, elicitation_callback=Person(accept("once"))) as client:
            result = await client.session.call_tool(
                "execute_code",
                arguments,
                input_responses=dict.fromkeys(first.input_requests, accept("once")),
                request_state=first.request_state,
                allow_input_required=True,
            )
            runs = await Agent(client).execute("open('runs').read()")

    assert isinstance(result, types.CallToolResult)
    assert (text_of(result), text_of(runs)) == ("Sales", "x")


async def test_the_ask_of_a_client_that_never_comes_back_expires(config: Config, tmp_path: Path) -> None:
    """The run ends with a refusal, and nothing waits any more."""
    more = ASK.replace("[policy]", "[policy]\nask_seconds = 3.0")
    async with over_http(config(more), elicitation_callback=Person(accept("once"))) as agent:
        first = await agent.client.session.call_tool("execute_code", {"code": CODE}, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        async with asyncio.timeout(60), open_store(tmp_path / "store" / "sealyard.db") as store:
            while (record := (await store.executions())[0]).status == "running":
                pass
            waiting = await store.approvals.waiting()

    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert record.outcome.failure.message == f"{TOOL} refused: nobody answered within 3 s."
    assert waiting == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_gives_up_its_call_withdraws_the_ask(connect: Connect, tmp_path: Path, mode: str) -> None:
    """Nobody is shown a call that will not happen any more."""
    async with connect(ASK, mode=mode) as agent, operator(tmp_path) as elsewhere:
        running = asyncio.create_task(agent.execute(CODE))
        await next_asks(elsewhere)
        running.cancel()
        await asyncio.wait({running})
        waiting = await next_asks(elsewhere, 0)

    assert waiting == []


async def test_without_a_way_to_a_person_the_fallback_is_told(config: Config) -> None:
    """No dialogue and no operators: the call is refused at once, and says why."""
    more = ASK.replace("[policy]", "[policy]\noperators = false")
    async with in_memory(config(more)) as agent:
        result = await agent.execute(CODE)

    assert text_of(result).splitlines()[0] == (
        f"ApprovalRefused: {TOOL} refused: there is no way to a person here, and policy.unanswerable is 'deny'."
    )


PRINCIPALS = f"""
{ASK}
[http.principals.agent]
token = "agent-secret"

[http.principals.ops]
token = "ops-secret"
approve = true
"""


@contextlib.asynccontextmanager
async def as_principal(url: str, name: str, **options: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, Client]]:
    """A client with the token of a principal, for the API and for MCP."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {name}-secret"}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), cache=None, **options) as client,
    ):
        yield http, client


async def test_who_may_approve_answers_over_http_and_an_agents_own_token_may_not(config: Config) -> None:
    """The refusal names who gave it; whoever may not is told what to do instead."""
    async with (
        serving(config(PRINCIPALS)) as url,
        as_principal(url, "agent") as (agent_http, agent),
        as_principal(url, "ops") as (ops, _),
    ):
        api = url.removesuffix("/mcp") + "/api/v1/approvals"
        running = asyncio.create_task(agent.call_tool("execute_code", {"code": CODE}))
        waiting = await asks(ops, api)
        own = f"{api}/{waiting[0]['id']}"
        forbidden = [await agent_http.get(api), await agent_http.post(own, json={"decision": "always"})]
        wrong = [
            await ops.post(own, json={"decision": "maybe"}),
            await ops.post(own, content=b'{"decision": "once"}', headers={"content-type": "text/plain"}),
            await ops.post(own, json={"decision": "refuse", "reason": "x" * 70_000}),
            await ops.post(f"{api}/nothing", json={"decision": "once"}),
        ]
        answered = await ops.post(own, json={"decision": "refuse", "reason": "not today"})
        twice = await ops.post(own, json={"decision": "once"})
        result = await running

    assert (waiting[0]["tool"], waiting[0]["principal"], waiting[0]["arguments"]) == (
        TOOL,
        "agent",
        {"department": "Sales"},
    )
    assert [each.status_code for each in forbidden] == [403, 403]
    assert (
        forbidden[0].json()["error"]["message"].startswith("'agent' may not answer approvals. Use `sealyard approvals`")
    )
    assert [each.status_code for each in wrong] == [400, 400, 413, 404]
    assert (answered.status_code, answered.json()) == (200, {"id": waiting[0]["id"], "decision": "refuse"})
    assert (twice.status_code, twice.json()["error"]["message"]) == (
        404,
        f"Approval {waiting[0]['id']!r} does not wait any more: it was refused by ops (http).",
    )
    assert text_of(result).splitlines()[0] == f"ApprovalRefused: {TOOL} refused by ops (http): not today"


async def test_nobody_answers_for_own_calls_over_http(config: Config) -> None:
    """An agent may have the token by mistake; another principal answers."""
    more = f'{PRINCIPALS}\n[http.principals.both]\ntoken = "both-secret"\napprove = true\n'
    async with (
        serving(config(more)) as url,
        as_principal(url, "both") as (own, agent),
        as_principal(url, "ops") as (ops, _),
    ):
        api = url.removesuffix("/mcp") + "/api/v1/approvals"
        running = asyncio.create_task(agent.call_tool("execute_code", {"code": CODE}))
        (ask,) = await asks(ops, api)
        forbidden = [await own.post(f"{api}/{ask['id']}", json={"decision": each}) for each in ("always", "once")]
        still = await asks(ops, api)
        allowed = await ops.post(f"{api}/{ask['id']}", json={"decision": "once"})
        result = await running

    assert [(each.status_code, each.json()["error"]["code"]) for each in forbidden] == [(400, "invalid_request")] * 2
    assert f"{ask['id']!r} is about a call of 'both' itself" in forbidden[0].json()["error"]["message"]
    assert ([each["id"] for each in still], allowed.status_code, text_of(result)) == ([ask["id"]], 200, "Sales")


async def test_on_loopback_without_a_token_nobody_approves_over_http(config: Config) -> None:
    """Whatever runs on the machine can reach the port, the agent's own programs included."""
    async with serving(config(ASK)) as url, httpx2.AsyncClient() as http:
        api = url.removesuffix("/mcp") + "/api/v1/approvals"
        statuses = [(await http.get(api)).status_code, (await http.post(f"{api}/x", json={})).status_code]

    assert statuses == [403, 403]
