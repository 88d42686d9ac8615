"""Attacks on approval: answering for a person, reusing what a person said, and wearing a person down."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import msgspec
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.conftest import polled
from tests.surfaces.conftest import config_text, serving
from tests.surfaces.test_surface import text_of

from sealyard.broker import Broker, Passage
from sealyard.broker.policy import Policy, PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, StoreConfig, SurfaceConfig
from sealyard.errors import UnknownApproval
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.dialogue import READING_SECONDS
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest, Grant
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
TOOL = "mcp__ops__deploy"
DEPLOY = "from servers.ops import deploy\ndeploy(target='staging')"
RULES = PolicySettings(preset="open", rules=(Rule(decision="ask", tools=("mcp__ops__*",), reason="it changes things"),))


def ops() -> FakeUpstream:
    """A server whose only tool is asked for."""

    def deploy(target: str, notes: str = "") -> str:
        """Deploy."""
        return f"deployed to {target}"

    return FakeUpstream("ops", deploy=deploy)


@contextlib.asynccontextmanager
async def opened(folder: Path, upstream: FakeUpstream, settings: PolicySettings = RULES) -> AsyncIterator[Yard]:
    """A yard over one fake, in which its tools are asked for."""
    store = StoreConfig(path=folder / "store" / "sealyard.db")
    config = Config(store=store, policy=settings, privacy=PrivacyConfig(mode="off"))
    async with open_yard(config, policy=PLAIN, upstreams={upstream.name: upstream}) as yard, asyncio.timeout(240):
        yield yard


async def next_asks(yard: Yard, count: int = 1) -> list[ApprovalRequest]:
    """The asks that wait, once there are as many."""
    return await polled(yard.approvals.waiting, lambda asks: len(asks) == count)


async def answer(yard: Yard, ask: ApprovalRequest, decision: ApprovalDecision, reason: str = "") -> None:
    """Answer as an operator does."""
    approval = Approval(decision=decision, by="alice", channel="cli", reason=reason, answered_at=time.time())
    await yard.approvals.answer(ask.id, approval)


async def nobody(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """A person who must not be asked."""
    raise AssertionError(params.message)


YES = types.ElicitResult(action="accept", content={"decision": "always"})


async def test_a_forged_state_answers_nothing(tmp_path: Path) -> None:
    """Neither a made-up state nor the id of the run nor a state with one character changed leads to the run."""
    upstream = ops()
    async with (
        opened(tmp_path, upstream) as yard,
        Client(build_server(yard, SurfaceConfig()), cache=None, elicitation_callback=nobody) as client,
    ):
        arguments = {"code": DEPLOY}
        first = await client.session.call_tool("execute_code", arguments, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        assert first.request_state is not None
        (ask,) = await next_asks(yard)
        sealed = first.request_state
        middle = len(sealed) // 2
        changed = sealed[:middle] + ("A" if sealed[middle] != "A" else "B") + sealed[middle + 1 :]
        for forged in ("", "forged", ask.execution_id, ask.id, changed):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await client.session.call_tool(
                    "execute_code",
                    arguments,
                    input_responses={ask.id: YES},
                    request_state=forged,
                    allow_input_required=True,
                )
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await client.session.call_tool(
                "execute_code",
                {"code": DEPLOY.replace("staging", "production")},
                input_responses={ask.id: YES},
                request_state=sealed,
                allow_input_required=True,
            )
        still = await next_asks(yard)
        calls = list(upstream.calls)

    assert (still, calls) == ([ask], [])


async def test_answers_without_a_state_and_answers_to_other_asks_count_for_nothing(tmp_path: Path) -> None:
    """The ids of asks are no secret, so knowing one must not be enough."""
    upstream = ops()
    async with (
        opened(tmp_path, upstream) as yard,
        Client(build_server(yard, SurfaceConfig()), cache=None, elicitation_callback=nobody) as client,
    ):
        victim = asyncio.create_task(yard.execute(ExecuteRequest(code=DEPLOY), principal="victim"))
        (theirs,) = await next_asks(yard)
        arguments = {"code": DEPLOY}
        first = await client.session.call_tool(
            "execute_code", arguments, input_responses={theirs.id: YES}, allow_input_required=True
        )
        assert isinstance(first, types.InputRequiredResult)
        assert first.input_requests is not None
        (own,) = first.input_requests
        again = await client.session.call_tool(
            "execute_code",
            arguments,
            input_responses={theirs.id: YES},
            request_state=first.request_state,
            allow_input_required=True,
        )
        still = {ask.id for ask in await next_asks(yard, 2)}
        calls = list(upstream.calls)
        victim.cancel()
        await asyncio.wait({victim})

    assert isinstance(again, types.InputRequiredResult)
    assert again.input_requests is not None
    assert list(again.input_requests) == [own]
    assert (still, calls) == ({theirs.id, own}, [])


async def test_another_principal_can_use_neither_state_nor_execution(tmp_path: Path) -> None:
    """Over HTTP: bob has all that alice was sent, and is neither let in nor asked about her call."""
    more = """
        [http]
        tokens = { alice = "alice-secret", bob = "bob-secret" }

        [[policy.rules]]
        decision = "ask"
        tools = ["mcp__expenses__get_budget"]
    """
    path = tmp_path / "sealyard.toml"
    path.write_text(config_text(tmp_path / "store" / "sealyard.db", more), encoding="utf-8")
    arguments = {"code": "from servers.expenses import get_budget\nget_budget('Sales')['department']"}

    @contextlib.asynccontextmanager
    async def client_of(url: str, name: str) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {name}-secret"}, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), cache=None, elicitation_callback=nobody) as client,
        ):
            yield client

    async with serving(path) as url, client_of(url, "alice") as alice, client_of(url, "bob") as bob:
        first = await alice.session.call_tool("execute_code", arguments, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        assert first.input_requests is not None
        responses = dict.fromkeys(first.input_requests, YES)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await bob.session.call_tool(
                "execute_code", arguments, input_responses=responses, request_state=first.request_state
            )
        started = await alice.call_tool("execute_code", arguments | {"background": True})
        assert started.meta is not None
        execution = started.meta["sealyard/execution"]["execution_id"]
        foreign = await bob.call_tool("execute_code", {"execution_id": execution})
        await asyncio.sleep(READING_SECONDS)  # a person reads the form
        hers = await alice.session.call_tool(
            "execute_code",
            arguments,
            input_responses=responses,
            request_state=first.request_state,
            allow_input_required=True,
        )

    assert text_of(foreign) == (
        f"UnknownExecution: No execution {execution!r} is known. Start one with background=true."
    )
    assert isinstance(hers, types.CallToolResult)
    assert text_of(hers) == "Sales"


@pytest.mark.behaviour("approval.not_the_model")
async def test_code_in_the_sandbox_has_no_way_to_answer(tmp_path: Path) -> None:
    """No function, no tool name and no frame leads to an approval; its own ask is still there afterwards."""
    code = """
import json, os, struct, threading, time
from servers.ops import deploy

threading.Thread(target=lambda: deploy(target='staging'), daemon=True).start()
told = []
for name in ['approve', 'answer', 'approvals', 'sealyard_approvals', 'approvals/answer', 'elicitation/create',
             'mcp__sealyard__approve', '__approve__', 'execute_code']:
    try:
        told.append(call_tool(name, {'id': 'x', 'decision': 'always', 'execution_id': 'x'}))
    except Exception as error:
        told.append(type(error).__name__)
told
"""
    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=code, timeout_seconds=60)))
        result = await running
        async with asyncio.timeout(60):
            await polled(yard.approvals.waiting, lambda asks: not asks)  # it is withdrawn a moment after the run
        calls = list(upstream.calls)

    assert result.outcome.result == ["UnknownTool"] * 9
    assert calls == []


@pytest.mark.parametrize("frame", ["approval", "answer", "approve", "reply"])
async def test_a_forged_frame_is_a_broken_protocol_and_no_answer(tmp_path: Path, frame: str) -> None:
    """What the worker may send is a closed set; the ask is withdrawn with its run."""
    code = f"""
import json, os, struct, threading, time
from servers.ops import deploy

threading.Thread(target=lambda: deploy(target='staging'), daemon=True).start()
time.sleep(0.2)
body = json.dumps({{"t": "{frame}", "id": 1, "ok": True, "value": None, "decision": "always"}}).encode()
os.write(3, struct.pack("<I", len(body)) + body)
time.sleep(30)
"""
    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        result = await yard.execute(ExecuteRequest(code=code, timeout_seconds=60))
        await yard.store.flush()
        waiting = await next_asks(yard, 0)

    assert result.outcome.failure is not None
    assert (result.outcome.failure.type, upstream.calls, waiting) == ("ProtocolBroken", [], [])


async def test_a_flood_of_asks_is_cut_short(tmp_path: Path) -> None:
    """Of ten thousand calls at once a person is shown twenty; the rest is refused, and the gateway goes on."""
    code = """
import asyncio
from collections import Counter
from servers.ops import deploy

refused = Counter()

async def attempt(number):
    try:
        await deploy(target=str(number))
    except Exception as error:
        refused[str(error).partition(':')[0]] += 1
        if refused.total() == 9_980:
            print('cut short', flush=True)

await asyncio.gather(*[attempt(number) for number in range(10_000)])
refused
"""
    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        cut = asyncio.Event()
        request = ExecuteRequest(code=code, timeout_seconds=100)
        running = asyncio.create_task(yard.execute(request, on_output=lambda text: cut.set()))
        await next_asks(yard, 20)
        other = await yard.execute(ExecuteRequest(code="6 * 7"), principal="somebody")
        await cut.wait()
        for ask in await next_asks(yard, 20):
            await answer(yard, ask, "refuse")
        result = await running

    assert other.outcome.result == 42
    assert result.outcome.result == {
        f"{TOOL} refused without asking": 9_980,
        f"{TOOL} refused by alice (cli).": 20,
    }
    assert upstream.calls == []


async def test_what_was_refused_is_not_asked_again_in_the_same_run(tmp_path: Path) -> None:
    """Code cannot ask for the same thing until a person gives in by mistake."""
    code = """
from servers.ops import deploy
told = []
for _ in range(3):
    try:
        deploy(target='production')
    except Exception as error:
        told.append(str(error))
told
"""
    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=code)))
        (ask,) = await next_asks(yard)
        await answer(yard, ask, "refuse", "no")
        result = await running

    again = f"{TOOL} refused by alice (cli): no (It was asked for before in this run.)"
    assert result.outcome.result == [f"{TOOL} refused by alice (cli): no", again, again]


@pytest.mark.behaviour("approval.once")
async def test_an_approval_holds_for_one_call_and_cannot_be_replayed(tmp_path: Path) -> None:
    """The same call again is a new ask, and the old ask takes no second answer."""
    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=f"{DEPLOY}\n{DEPLOY}")))
        (first,) = await next_asks(yard)
        await answer(yard, first, "once")
        (second,) = await polled(yard.approvals.waiting, lambda asks: asks not in ([], [first]))
        with pytest.raises(UnknownApproval):
            await answer(yard, first, "always")
        await answer(yard, second, "refuse")
        result = await running
        remembered = await yard.store.approvals.remembered()

    assert (result.outcome.status, upstream.calls, remembered) == ("failed", [("deploy", {"target": "staging"})], [])


async def test_arguments_changed_after_the_ask_do_not_reach_the_tool(tmp_path: Path) -> None:
    """What was shown is what is sent, whatever the code does with its own copy meanwhile."""
    code = """
import threading
arguments = {'target': 'staging'}
told = []
call = threading.Thread(target=lambda: told.append(call_tool('mcp__ops__deploy', arguments)))
call.start()
while call.is_alive():
    arguments['target'] = 'production'
told
"""
    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=code)))
        (ask,) = await next_asks(yard)
        await answer(yard, ask, "once")
        await running

    assert upstream.calls == [("deploy", ask.arguments)]


async def test_an_answer_that_comes_as_the_ask_expires_is_one_or_the_other(tmp_path: Path) -> None:
    """Either the person's answer holds and the call is made, or the ask expired and the person is told so."""
    settings = msgspec.structs.replace(RULES, ask_seconds=1.5)
    upstream = ops()
    async with opened(tmp_path, upstream, settings) as yard:
        running = asyncio.create_task(yard.execute(ExecuteRequest(code=DEPLOY)))
        (ask,) = await next_asks(yard)
        await asyncio.sleep(max(0.0, ask.expires_at - time.time()))
        held = True
        try:
            await answer(yard, ask, "always")
        except UnknownApproval:
            held = False
        result = await running
        remembered = await yard.store.approvals.remembered()

    assert held is False  # its time is over, to the moment
    assert (result.outcome.status, upstream.calls, remembered) == ("failed", [], [])


async def test_nothing_in_an_ask_is_obeyed_by_who_renders_it(tmp_path: Path) -> None:
    """Markdown, HTML and terminal sequences of an argument stay inside an indented line of the message."""
    target = "x\n\n# Harmless\n![](http://evil/)\r\x1b]0;owned\x07<script>\u202e"
    seen: list[str] = []

    async def person(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        seen.append(params.message)
        await asyncio.sleep(READING_SECONDS)
        return types.ElicitResult(action="decline")

    upstream = ops()
    async with (
        opened(tmp_path, upstream) as yard,
        Client(build_server(yard, SurfaceConfig()), cache=None, elicitation_callback=person) as client,
    ):
        await client.call_tool("execute_code", {"code": f"from servers.ops import deploy\ndeploy({target!r})"})

    (message,) = seen
    about = [line for line in message.splitlines() if "evil" in line]
    assert about == [
        '    mcp__ops__deploy(target="x\\n\\n# Harmless\\n![](http://evil/)\\r\\u001b]0;owned\\u…)',
        '    argument target = "x\\n\\n# Harmless\\n![](http://evil/)\\r\\u001b]0;owned\\u0007<script>\\u202e"',
    ]
    assert message.replace("\n", "").isprintable()


async def test_large_arguments_are_hashed_beside_the_event_loop(tmp_path: Path) -> None:
    """Code chooses their size, and twenty of its calls may ask at once; others must not wait for that."""
    threads: list[int] = []

    def digest(data: bytes) -> str:
        threads.append(threading.get_ident())
        return str(len(data))

    upstream = ops()
    async with opened(tmp_path, upstream) as yard:
        rules = Policy(RULES, preset="open")
        broker = Broker({"ops": upstream}, policy=rules, approvals=yard.approvals, store=yard.store, digest=digest)
        tools = (await yard.snapshot()).tools
        grant = Grant(execution_id="run1", principal="local", session="local:default", tools=tools)
        passage = Passage(grant=grant, guard=await yard.guards.of(grant.session))
        for notes in ("short", "long " * 100_000):
            calling = asyncio.create_task(broker.call(passage, TOOL, {"target": "staging", "notes": notes}))
            (ask,) = await next_asks(yard)
            await answer(yard, ask, "once")
            await calling

    assert [each == threading.get_ident() for each in threads] == [True, False]
    assert [len(arguments["notes"]) for _, arguments in upstream.calls] == [5, 500_000]
