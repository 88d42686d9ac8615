"""Privacy, policy and audit in the `proxy` mode: what is private is a token, what is dangerous is asked for."""

import asyncio
import base64
import copy
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from tests.mcp.everything_server import Everything
from tests.mcp.private_server import EMAIL, PERSON, URI, Private
from tests.mcp.upstreams import Connect, Context, Json, answered, config, memory, post, scripted, served

from sealyard.broker.policy import PolicySettings, Rule, ToolLimits
from sealyard.broker.upstreams.mcp import open_transport
from sealyard.config import Config
from sealyard.config.settings import PrivacyConfig, PrivacyRule, StoreConfig
from sealyard.privacy import TOKEN
from sealyard.serve.dialogue import READING_SECONDS
from sealyard.serve.relay import build_relay
from sealyard.serve.relay.concealment import loosened
from sealyard.values.access import Approval, ApprovalRequest
from sealyard.values.tools import UpstreamConfig
from sealyard.yard import Border, open_border

WAIT_SECONDS = 60
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"], ids=["handshake", "modern"])
UPSTREAM_ERAS = pytest.mark.parametrize("upstream_era", ["handshake", "modern"])
SEND = {"name": "send_mail", "arguments": {"to": "all"}}


@asynccontextmanager
async def relay(
    folder: Path, connect: Connect, *upstreams: UpstreamConfig, **settings: Any
) -> AsyncIterator[tuple[str, Border]]:
    """The URL of a relay with these settings, and the border in it."""
    settings.setdefault("store", StoreConfig(path=folder / "store" / "sealyard.db"))
    configs = {one.name: one for one in upstreams or (config("crm"),)}
    async with open_border(Config(**settings)) as border:
        server = build_relay(configs, border, connect=connect, name="gateway", version="7")
        async with served(server) as url:
            yield url, border


def crm(folder: Path, era: str = "both") -> Connect:
    """Connects to a server that says private things; what it is told is in `told`."""
    return lambda _: memory(Private(folder / "told").build(), era)


def told(folder: Path) -> int:
    """How many things the server was told."""
    path = folder / "told"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


async def calls(border: Border) -> list[Json]:
    """What the audit log says of calls, the first one first."""
    await border.store.flush()
    return [entry.body for entry in reversed(await border.store.audit_entries(kind="call"))]


@ERAS
@UPSTREAM_ERAS
async def test_structured_copy_and_text_have_the_same_tokens(tmp_path: Path, mode: str, upstream_era: str) -> None:
    """A value is one token wherever it stands: field, JSON text, prose, base64, link."""
    async with relay(tmp_path, crm(tmp_path, upstream_era)) as (url, _), Client(url, mode=mode) as client:
        result = await client.call_tool("get_person", {})
    person: Any = result.structured_content
    json_text, prose, embedded, blob, _, link, image = (block.model_dump(exclude_none=True) for block in result.content)

    assert person.keys() == PERSON.keys()
    assert [TOKEN.fullmatch(value) is not None for value in person.values()] == [True] * len(person)
    assert types.CallToolResult.model_validate_json(json_text["text"].join(('{"content":[],"structuredContent":', "}")))
    assert [value for value in person.values() if value not in json_text["text"]] == []
    assert person["email"] in prose["text"]
    assert person["email"] in embedded["resource"]["text"]
    assert person["email"] in base64.b64decode(blob["resource"]["blob"]).decode()
    assert (link["name"], link["mime_type"]) == (person["email"], "text/plain")
    assert image["annotations"] == {"audience": ["user"]}


@ERAS
async def test_concealed_address_of_a_resource_leads_back_to_it(tmp_path: Path, mode: str) -> None:
    """It keeps its scheme, is read again as listed, and is what the answer names; nobody else may keep the list."""
    async with relay(tmp_path, crm(tmp_path)) as (url, _), Client(url, mode=mode) as client:
        listed = await client.list_resources()
        uri = str(listed.resources[0].uri)
        read = await client.read_resource(uri)

    assert uri.startswith("crm://__PII_text_")
    assert [str(each.uri) for each in read.contents] == [uri] * 3
    assert f'{{"uri": "{URI}"}}' in (tmp_path / "told").read_text(encoding="utf-8")
    assert listed.cache_scope == ("private" if mode == "auto" else listed.cache_scope)


@UPSTREAM_ERAS
async def test_news_of_a_resource_come_under_the_address_that_the_client_knows(
    tmp_path: Path, upstream_era: str
) -> None:
    """It follows a concealed address; what changed bears the same."""
    fixture = Everything()
    private = f"test://{EMAIL}"
    async with (
        relay(tmp_path, lambda _: memory(fixture.build(), upstream_era)) as (url, _),
        Client(url) as client,
        asyncio.timeout(WAIT_SECONDS),
    ):
        prompt = await client.get_prompt("test_prompt_with_embedded_resource", {"resourceUri": private})
        known = str(prompt.messages[0].content.resource.uri)  # type: ignore[union-attr]
        async with client.listen(resource_subscriptions=[known]) as stream:
            await client.call_tool("test_touch_resource", {"uri": private})
            event = await anext(stream)

    assert known.startswith("test://__PII_")
    assert stream.honored.resource_subscriptions == [known]
    assert event.uri == known  # type: ignore[union-attr]


@asynccontextmanager
async def changing(_: UpstreamConfig) -> AsyncIterator[tuple[Any, Any]]:
    """A connection to an upstream of the newer era that refuses to list tools, and announces two changes each time.

    The first is in data that cannot be read.
    """
    answers = {"server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}}
    stream: list[Any] = []
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    async with create_client_server_memory_streams() as (ours, (hears, says)), anyio.create_task_group() as tasks:

        async def notify(method: str, **params: Any) -> None:
            params["_meta"] = {SUBSCRIPTION_ID_META_KEY: stream[0], **params.get("_meta", {})}
            await says.send(SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params)))

        async def answer() -> None:
            async for item in hears:
                request = item.message
                if not isinstance(request, types.JSONRPCRequest):
                    continue
                if request.method == "subscriptions/listen":
                    stream.append(request.id)
                    wanted = (request.params or {})["notifications"]
                    await notify("notifications/subscriptions/acknowledged", notifications=wanted)
                    continue
                if request.method == "tools/list" and stream:
                    await notify("notifications/tools/list_changed", _meta={"deep": deep})
                    await notify("notifications/prompts/list_changed")
                code = types.UNSUPPORTED_PROTOCOL_VERSION
                error = types.ErrorData(code=code, message="Only the newer era.")
                refusal = types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
                known = request.method in answers
                await says.send(SessionMessage(answered(request, answers) if known else refusal))

        tasks.start_soon(answer)
        try:
            yield ours
        finally:
            tasks.cancel_scope.cancel()


async def test_a_change_that_cannot_be_looked_through_costs_only_itself(tmp_path: Path) -> None:
    """The next one reaches the client, and so do answers: the stream goes on, and so does the relay."""
    changes: list[str] = []
    arrived = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification | types.PromptListChangedNotification):
            changes.append(message.method)
            arrived.set()

    async with (
        relay(tmp_path, changing) as (url, _),
        Client(url, mode="legacy", message_handler=hear) as client,
        asyncio.timeout(WAIT_SECONDS),
    ):
        while not arrived.is_set():
            with pytest.raises(MCPError, match="Only the newer era"):
                await client.list_tools()

    assert set(changes) == {"notifications/prompts/list_changed"}


@ERAS
@UPSTREAM_ERAS
async def test_echo_of_what_a_call_handed_over_is_concealed_however_short(
    tmp_path: Path, mode: str, upstream_era: str
) -> None:
    """A word that says nothing by itself is private while it is in the arguments: in answers, errors and progress."""
    said: list[str | None] = []

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="pay", input_schema={"type": "object"})])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        word = (params.arguments or {}).get("with", "")
        await ctx.session.report_progress(1, 2, f"Paying with {word}")
        if (params.arguments or {}).get("fails"):
            raise MCPError(-32010, f"Not {word}.", [word])
        text = types.TextContent(text=f"Paid with {word}.")
        return types.CallToolResult(content=[text], structured_content={"password": "May", "used": word})

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(message)

    server: Server[Any] = Server("bank", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with (
        relay(tmp_path, lambda _: memory(server, upstream_era)) as (url, _),
        Client(url, mode=mode) as client,
    ):
        first: Any = (await client.call_tool("pay", {})).structured_content
        token = first["password"]
        paid = await client.call_tool("pay", {"with": token}, progress_callback=hear)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("pay", {"with": token, "fails": True})

    assert paid.content == [types.TextContent(text=f"Paid with {token}.")]
    assert paid.structured_content == {"password": token, "used": token}
    assert (refused.value.message, refused.value.data) == (f"Not {token}.", [token])
    assert said == [f"Paying with {token}"]


async def test_with_privacy_off_everything_passes_as_it_came(tmp_path: Path) -> None:
    """Private or not, and what only looks like a token too."""
    words = f"{EMAIL} __PII_email_0123456789ab__"
    answer = {"content": [{"type": "text", "text": words}], "structuredContent": PERSON, "_meta": {"of": words}}
    arguments = {"to": "__PII_email_0123456789ab__"}
    answers = {"tools/call": answer, "tools/list": {"tools": []}}
    privacy = PrivacyConfig(mode="off")
    async with relay(tmp_path, lambda _: scripted(answers), privacy=privacy) as (url, border):
        reply = await post(url, "tools/call", {"name": "any", "arguments": arguments})
        entries = await calls(border)

    assert {key: reply["result"][key] for key in ("content", "structuredContent")} == {
        key: answer[key] for key in ("content", "structuredContent")
    }
    assert reply["result"]["_meta"]["of"] == words
    assert [entry["arguments"] for entry in entries] == [arguments]


@pytest.mark.parametrize("pattern", ["mcp__crm__*", "crm/*"])
async def test_rule_for_an_upstream_holds_for_its_resources_too(tmp_path: Path, pattern: str) -> None:
    """Either spelling means everything of it; another upstream is not meant."""
    privacy = PrivacyConfig(rules=(PrivacyRule(tools=(pattern,), mode="off"),))
    upstreams = (config("crm"), config("erp"))
    async with (
        relay(tmp_path, crm(tmp_path), *upstreams, privacy=privacy) as (url, _),
        Client(url) as client,
    ):
        resources = [str(each.uri) for each in (await client.list_resources()).resources]
        private = await client.call_tool("mcp__erp__fail", {})

    assert EMAIL not in str(private)
    assert resources == [URI]


async def test_headers_that_repeat_arguments_repeat_what_the_upstream_gets(tmp_path: Path) -> None:
    """The client's header agrees with its own argument, a token; the upstream's with the value."""
    seen: list[str | None] = []

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
        return types.ListToolsResult(tools=[types.Tool(name="mail", input_schema=schema)])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        seen.append(ctx.request.headers.get("mcp-param-to") if ctx.request is not None else None)
        return types.CallToolResult(content=[types.TextContent(text=EMAIL)])

    server: Server[Any] = Server("mail", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with served(server) as upstream:
        mail = UpstreamConfig(name="mail", transport="http", url=upstream)
        async with relay(tmp_path, open_transport, mail) as (url, _), Client(url) as client:
            await client.list_tools()
            token = (await client.call_tool("mail", {"to": "nobody"})).content[0].text  # type: ignore[union-attr]
            await client.call_tool("mail", {"to": token})

    assert seen == ["nobody", EMAIL]


# Policy


def rules(**fields: Any) -> PolicySettings:
    """A policy of one rule for sending mail."""
    settings = {name: fields.pop(name) for name in ("operators", "unanswerable", "ask_seconds") if name in fields}
    return PolicySettings(rules=(Rule(tools=("mcp__crm__send_*",), **fields),), **settings)


@ERAS
async def test_denied_call_is_a_result_that_names_the_rule(tmp_path: Path, mode: str) -> None:
    """A condition on an argument is about what the tool would get, not about its token."""
    policy = rules(decision="deny", when={"to": f"{EMAIL}*"}, reason="Not to her.")
    async with relay(tmp_path, crm(tmp_path), policy=policy) as (url, border), Client(url, mode=mode) as client:
        person: Any = (await client.call_tool("get_person", {})).structured_content
        denied = await client.call_tool("send_mail", {"to": person["email"]})
        allowed = await client.call_tool("send_mail", {"to": person["phone"]})
        entries = await calls(border)

    assert denied.is_error is True
    assert denied.content == [
        types.TextContent(text="PolicyRefused: mcp__crm__send_mail is denied by policy.rules[0]. Not to her.")
    ]
    assert allowed.is_error is not True
    assert [(entry["verdict"], entry["rule"]) for entry in entries] == [
        ("allow", "preset open"),
        ("deny", "policy.rules[0]"),
        ("allow", "preset open"),
    ]


async def decide(border: Border, decision: Any) -> None:
    """Answer the next ask as an operator does."""
    async with asyncio.timeout(WAIT_SECONDS):
        asks: list[ApprovalRequest] = []
        while not asks:
            asks = await border.approvals.waiting()
    approval = Approval(decision=decision, by="ann", channel="cli", reason="Because.", answered_at=time.time())
    await border.approvals.answer(asks[0].id, approval)


@ERAS
async def test_call_waits_for_an_operator(tmp_path: Path, mode: str) -> None:
    """A yes lets it through, a no is a result that says who said so; both are in the audit log."""
    async with (
        relay(tmp_path, crm(tmp_path), policy=rules(decision="ask")) as (url, border),
        Client(url, mode=mode) as client,
    ):
        answers = []
        for decision in ("once", "refuse"):
            call = asyncio.create_task(client.call_tool("send_mail", {"to": decision}))
            await decide(border, decision)
            answers.append(await call)
        entries = await calls(border)

    assert [answer.is_error is True for answer in answers] == [False, True]
    assert answers[1].content == [
        types.TextContent(text="ApprovalRefused: mcp__crm__send_mail refused by ann (cli): Because.")
    ]
    assert [entry.get("approved_by") for entry in entries] == ["ann", None]
    assert told(tmp_path) == 1


async def test_person_at_the_client_is_asked_in_the_handshakes_era(tmp_path: Path) -> None:
    """The client shows the question, with nothing private in it, and its answer counts."""
    asked: list[str] = []

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        await asyncio.sleep(READING_SECONDS)
        return types.ElicitResult(action="accept", content={"decision": "once"})

    policy = rules(decision="ask", operators=False)
    async with (
        relay(tmp_path, crm(tmp_path), policy=policy) as (url, border),
        Client(url, mode="legacy", elicitation_callback=elicit) as client,
        Client(url, mode="legacy") as mute,
    ):
        person: Any = (await client.call_tool("get_person", {})).structured_content
        sent = await client.call_tool("send_mail", {"to": person["email"]})
        refused = await mute.call_tool("send_mail", {"to": "all"})
        entries = await calls(border)

    assert (sent.is_error is True, refused.is_error) == (False, True)
    assert len(asked) == 1
    assert person["email"] in asked[0]
    assert EMAIL not in asked[0]
    assert entries[1]["approved_by"] == "local"


async def test_call_in_rounds_is_asked_for_once(tmp_path: Path) -> None:
    """A round that brings what the upstream asked for goes on with the same approval; another call does not."""
    policy = PolicySettings(rules=(Rule(tools=("*talk",), decision="ask"),))
    params = {"name": "talk", "arguments": {}}
    given = {
        "form": {"action": "accept", "content": {"address": "x"}},
        "model": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "y"}},
    }
    capabilities = {"elicitation": {}, "sampling": {}}
    async with relay(tmp_path, crm(tmp_path, "modern"), policy=policy) as (url, border):
        call = asyncio.create_task(post(url, "tools/call", params, capabilities=capabilities))
        await decide(border, "once")
        first = (await call)["result"]
        more = {"inputResponses": given, "requestState": first["requestState"]}
        second = (await post(url, "tools/call", {**params, **more}, capabilities=capabilities))["result"]
        replay = asyncio.create_task(post(url, "tools/call", {**params, **more}, capabilities=capabilities))
        await decide(border, "refuse")
        third = (await replay)["result"]
        entries = await border.store.audit_entries(kind="call")

    assert first["resultType"] == "input_required"
    assert [second.get("isError"), third.get("isError")] == [False, True]
    assert [entry.body.get("approved_by") for entry in entries] == [None, "ann", "ann"]


async def test_limits_of_a_tool_hold(tmp_path: Path) -> None:
    """Calls beyond the limit are results that say when to try again; the upstream hears nothing of them."""
    policy = PolicySettings(limits=(ToolLimits(tools=("mcp__crm__send_*",), calls_per_minute=1),))
    async with relay(tmp_path, crm(tmp_path), policy=policy) as (url, _), Client(url) as client:
        results = [await client.call_tool("send_mail", {"to": "all"}) for _ in range(2)]

    assert [result.is_error is True for result in results] == [False, True]
    assert (
        results[1]
        .content[0]
        .text.startswith(  # type: ignore[union-attr]
            "LimitReached: 'mcp__crm__send_mail' may be called once a minute. Try again in "
        )
    )
    assert told(tmp_path) == 1


async def test_server_that_is_gone_opens_the_circuit_breaker(tmp_path: Path) -> None:
    """An upstream that cannot be reached is a failure; one that answers with an error is not."""
    policy = PolicySettings(limits=(ToolLimits(breaker_failures=1),))

    def connect(upstream: UpstreamConfig) -> Any:
        return crm(tmp_path)(upstream) if upstream.name == "crm" else _refusing()

    async with (
        relay(tmp_path, connect, config("crm"), policy=policy) as (url, _),
        relay(tmp_path / "dead", connect, config("dead"), policy=policy) as (dead_url, _),
        Client(url) as client,
    ):
        for _ in range(2):
            with pytest.raises(MCPError) as refused:
                await client.call_tool("refuse", {})
            assert refused.value.code == -32010
        replies = [await post(dead_url, "tools/call", SEND) for _ in range(2)]

    assert "could not be started" in replies[0]["error"]["message"]
    assert replies[1]["result"]["isError"] is True


@asynccontextmanager
async def _refusing() -> AsyncIterator[Any]:
    raise OSError("nobody there")
    yield


async def test_call_beyond_its_time_is_given_up(tmp_path: Path) -> None:
    """The limit of the tool counts, whatever the upstream does."""
    policy = PolicySettings(limits=(ToolLimits(timeout_seconds=0.2),))

    async def call_tool(ctx: Context, params: Any) -> Any:
        await asyncio.Event().wait()

    server: Server[Any] = Server("slow", version="1", on_call_tool=call_tool)
    async with relay(tmp_path, lambda _: memory(server), policy=policy) as (url, border):
        reply = await post(url, "tools/call", SEND)
        entries = await calls(border)

    assert reply["result"]["content"][0]["text"] == (
        "UpstreamTimeout: 'mcp__crm__send_mail' did not answer within 0.2 s; whether the call happened is unknown."
    )
    assert entries[0]["error"] == reply["result"]["content"][0]["text"]


# Audit


@pytest.mark.behaviour("store.recorded_first")
@ERAS
async def test_every_call_is_in_the_journal_and_the_audit_log_before_its_answer(tmp_path: Path, mode: str) -> None:
    """With tokens in the place of what is private, whatever came of it."""
    async with relay(tmp_path, crm(tmp_path)) as (url, border), Client(url, mode=mode) as client:
        person: Any = (await client.call_tool("get_person", {})).structured_content
        await client.call_tool("send_mail", {"to": person["email"]})
        await client.call_tool("fail", {"to": EMAIL})
        with pytest.raises(MCPError):
            await client.call_tool("refuse", {})
        entries = [entry for entry in reversed(await border.store.audit_entries()) if entry.kind == "call"]
        runs = list(reversed(await border.store.executions()))
        made = [call.tool for run in runs for call in await border.store.calls(run.execution_id)]

    assert [entry.body["tool"] for entry in entries] == [
        f"mcp__crm__{name}" for name in ("get_person", "send_mail", "fail", "refuse")
    ]
    assert {(entry.principal, entry.session) for entry in entries} == {("local", "local:proxy")}
    assert [run.execution_id for run in runs] == [entry.execution_id for entry in entries]
    assert [run.status for run in runs] == ["ok", "ok", "ok", "failed"]
    assert made == [entry.body["tool"] for entry in entries]
    assert entries[1].body["arguments"] == {"to": person["email"]}
    assert entries[0].body["answer_bytes"] > 0
    assert [entry.body["error"] is None for entry in entries] == [True, True, False, False]
    assert [value for value in PERSON.values() if value in str(entries)] == []


def test_a_tokens_place_in_an_output_schema_takes_text() -> None:
    """A client that checks what it gets takes a token where the tool promised a number or a certain form."""
    schema = {
        "type": "object",
        "properties": {
            "phone": {"type": "integer", "minimum": 1},
            "mail": {"type": "string", "format": "email", "maxLength": 40},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
            "open": {"type": "boolean"},
        },
        "$defs": {"row": {"anyOf": [{"type": ["number", "null"]}, {"type": "string", "pattern": "^x"}]}},
        "required": ["phone"],
        "additionalProperties": False,
    }
    before = copy.deepcopy(schema)

    loose = loosened(schema)

    token = "__PII_phone_0123456789ab__"
    assert schema == before
    assert jsonschema_rs.is_valid(loose, {"phone": token, "mail": token, "rows": [token, 3, None], "open": True})
    assert not jsonschema_rs.is_valid(loose, {"phone": token, "open": token})
    assert not jsonschema_rs.is_valid(loose, {"mail": token})
