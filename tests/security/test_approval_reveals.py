"""Attacks on what an approver is shown: by who may not see it, through what code writes beside it, and afterwards."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import msgspec
import pytest
from mcp import Client
from tests.conftest import polled
from tests.surfaces.api_gateway import gateway

from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config
from sealyard.config.settings import HttpConfig, PrincipalEntry, PrivacyConfig, PrivacyRule, StoreConfig
from sealyard.privacy import TOKEN
from sealyard.sandbox.policy import DEFAULT
from sealyard.serve.dialogue import READING_SECONDS, Call
from sealyard.serve.mcp import build_server
from sealyard.testing import FakeUpstream
from sealyard.values.access import ApprovalRequest, ApprovalSettings, AuditRow, Unattended
from sealyard.yard import ExecuteRequest, Yard, open_yard

PLAIN = msgspec.structs.replace(DEFAULT, packages=())
EMAIL = "ana.lopez@private-mail.example"
NOTE = "x\n\n# Harmless\n![](http://evil/)\r\x1b]0;owned\x07\u202e`<script>"
SEND = "from servers.crm import person, send\np = person()\nsend(to=p['email'], text={text})"
RULES = PolicySettings(preset="open", rules=(Rule(decision="ask", tools=("mcp__crm__send",)),))
INSIDE = PrivacyConfig(rules=(PrivacyRule(tools=("crm/*",), reveal="inside", whole=("note",)),))
SHOWN = ApprovalSettings(reveal_to=("local",))


def crm() -> FakeUpstream:
    """A server that knows a person and sends mail."""

    def person() -> dict[str, Any]:
        """The person."""
        return {"email": EMAIL, "note": NOTE}

    def send(to: str, text: str) -> str:
        """Send a mail."""
        return "sent"

    return FakeUpstream("crm", person=person, send=send)


class Approver:
    """A person at a client who allows everything and remembers what the forms said."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Allow it once."""
        self.seen.append(params.message)
        await asyncio.sleep(READING_SECONDS)
        return types.ElicitResult(action="accept", content={"decision": "once"})


@contextlib.asynccontextmanager
async def opened(folder: Path, upstream: FakeUpstream, **settings: Any) -> AsyncIterator[Yard]:
    """A yard over the server, in which mail is asked for."""
    store = StoreConfig(path=folder / "store" / "sealyard.db")
    config = Config(**{"store": store, "policy": RULES, "privacy": INSIDE, **settings})
    async with open_yard(config, policy=PLAIN, upstreams={upstream.name: upstream}) as yard, asyncio.timeout(240):
        yield yard


async def reveals(yard: Yard) -> list[AuditRow]:
    """The audit log's entries of revealed values."""
    await yard.store.flush()
    return await yard.store.audit_entries(limit=100, kind="privacy.reveal")


async def next_ask(yard: Yard) -> ApprovalRequest:
    """The one ask that waits."""
    (ask,) = await polled(yard.approvals.waiting, lambda asks: len(asks) == 1)
    return ask


async def end(running: "asyncio.Task[Any]") -> None:
    """Give a run up."""
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.behaviour("approval.reveal")
@pytest.mark.parametrize("asking", [ApprovalSettings(), ApprovalSettings(reveal_to=("desk",)), SHOWN])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_form_shows_values_to_the_named_principals_alone(
    tmp_path: Path, mode: str, asking: ApprovalSettings
) -> None:
    """By default to nobody. Each is in the audit log; the tool gets the value either way."""
    upstream, person = crm(), Approver()
    async with (
        opened(tmp_path, upstream, approval=asking) as yard,
        Client(build_server(yard, Config().surface), mode=mode, cache=None, elicitation_callback=person) as client,
    ):
        await client.call_tool("execute_code", {"code": SEND.format(text="'Thank you'")})
        entries = await reveals(yard)

    (form,) = person.seen
    (token,) = {match[0] for match in TOKEN.finditer(form)}
    is_shown = asking is SHOWN
    assert (EMAIL in form) is is_shown
    assert (f"    {token} is {json.dumps(EMAIL)}" in form.splitlines()) is is_shown
    assert (f'    mcp__crm__send(to="{EMAIL}", text="Thank you")' in form.splitlines()) is is_shown
    assert [entry.body for entry in entries] == is_shown * [
        {"token": token, "scope": "local:default", "type": "email", "approval": entries and entries[0].body["approval"],
         "channel": "elicitation"}
    ]  # fmt: skip
    assert upstream.calls[-1] == ("send", {"to": EMAIL, "text": "Thank you"})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_nothing_that_is_kept_or_told_has_what_a_form_showed(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the store, nor a log, a figure, a live event, the agent's progress, nor its result."""
    caplog.set_level(logging.DEBUG)
    person = Approver()
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with opened(tmp_path, crm(), approval=SHOWN) as yard:
        live: list[str] = []

        async def watch() -> None:
            async with yard.live.follow() as events:
                async for event in events:
                    live.append(repr(event))
                    if event.kind == "answered":
                        return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)  # it begins to watch
        async with Client(
            build_server(yard, Config().surface), mode=mode, cache=None, elicitation_callback=person
        ) as client:
            code = {"code": SEND.format(text="f\"Dear {p['email']}, {p['note']}\"")}
            result = await client.call_tool("execute_code", code, progress_callback=hear)
        await watching
        figures = repr(await yard.operations.exposed())
        await yard.store.flush()

    assert EMAIL in person.seen[0]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    told = "\n".join([result.model_dump_json(), *heard, caplog.text, *live, figures])
    for part in (EMAIL, "ana.lopez", "# Harmless"):
        assert part not in told
        assert part.encode() not in kept


@pytest.mark.behaviour("approval.reveal")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_value_is_recorded_once_for_an_ask_however_often_its_form_is_shown(tmp_path: Path, mode: str) -> None:
    """A client that sends forms back empty fills no audit log; another ask is another entry."""

    class Undecided(Approver):
        async def __call__(self, ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            answer = await super().__call__(ctx, params)
            return types.ElicitResult(action="accept") if len(self.seen) == 1 else answer

    person = Undecided()
    async with (
        opened(tmp_path, crm(), approval=SHOWN) as yard,
        Client(build_server(yard, Config().surface), mode=mode, cache=None, elicitation_callback=person) as client,
    ):
        code = SEND.format(text="'one'") + "\nsend(to=p['email'], text='two')"
        await client.call_tool("execute_code", {"code": code})
        entries = await reveals(yard)

    assert [EMAIL in form for form in person.seen] == [True, True, True]
    assert len({entry.body["approval"] for entry in entries}) == len(entries) == 2
    assert {entry.execution_id for entry in entries} != {""}


async def test_two_forms_at_once_record_a_value_once(tmp_path: Path) -> None:
    """A client may come for its questions twice at the same time; whoever else is shown the value is in the log too."""
    async with opened(tmp_path, crm()) as yard:
        guard = await yard.guards.of("agent:default")
        concealed = await guard.door.conceal({"to": EMAIL})
        now = time.time()
        told: dict[str, Any] = {"id": "a", "execution_id": "run1", "number": 1, "rule": "", "reason": ""}
        told |= {"principal": "agent", "session": "agent:default", "tool": "mcp__crm__send", "arguments_sha256": ""}
        ask = ApprovalRequest(arguments=concealed, asked_at=now, expires_at=now + 60, **told)
        ways = [("desk", "http"), ("desk", "http"), ("desk", "http"), ("local", "cli"), ("local", "elicitation")]
        shown = await asyncio.gather(*(yard.approvals.reveal(ask, by=by, channel=channel) for by, channel in ways))
        entries = await reveals(yard)

    assert [list(values.values()) for values in shown] == [[EMAIL]] * 5
    assert sorted((entry.principal, entry.body["channel"]) for entry in entries) == sorted(set(ways))


async def test_what_code_writes_beside_a_token_is_not_taken_for_its_value(tmp_path: Path) -> None:
    """A line that looks like a revealed value stays inside its argument; the true line stands alone."""
    text = "f\"x\\n    {p['email']} is \\\"the boss\\\"\\n\\nYours, {p['email']}\""
    person = Approver()
    async with (
        opened(tmp_path, crm(), approval=SHOWN) as yard,
        Client(build_server(yard, Config().surface), cache=None, elicitation_callback=person) as client,
    ):
        await client.call_tool("execute_code", {"code": SEND.format(text=text)})

    (form,) = person.seen
    lines = form.splitlines()
    (line,) = [each for each in lines if each.lstrip().startswith("__PII_")]
    assert line.endswith(f" is {json.dumps(EMAIL)}")
    forged = [each for each in lines if "the boss" in each]
    assert [each.partition("(")[0].partition(" = ")[0] for each in forged] == [
        "    mcp__crm__send",
        "    argument text",
    ]


async def test_a_token_is_shown_as_the_tool_gets_it_however_it_is_spelled(tmp_path: Path) -> None:
    """A spelling that the tool would be given the value of is revealed; one that only looks like a token is not."""
    code = (
        "from servers.crm import person, send\np = person()\n"
        "send(to=p['email'].replace('_', '%5F'), text=p['email'].replace('PII', 'P\u0131I'))"
    )
    upstream, person = crm(), Approver()
    async with (
        opened(tmp_path, upstream, approval=SHOWN) as yard,
        Client(build_server(yard, Config().surface), cache=None, elicitation_callback=person) as client,
    ):
        await client.call_tool("execute_code", {"code": code})

    (form,) = person.seen
    shown = [line.strip() for line in form.splitlines() if line.strip().endswith(f" is {json.dumps(EMAIL)}")]
    assert len(shown) == 1
    assert shown[0].startswith("%5F%5FPII")
    ((_, sent),) = [call for call in upstream.calls if call[0] == "send"]
    assert EMAIL.partition("@")[0] in sent["to"]
    assert EMAIL.partition("@")[0] not in sent["text"]


async def test_the_time_in_which_a_form_is_built_is_nobodys_reading(tmp_path: Path) -> None:
    """Code chooses how much stands in it, and how many are built before any of them is sent."""
    now = time.time()
    told: dict[str, Any] = {"execution_id": "run1", "number": 1, "rule": "", "reason": "", "arguments_sha256": ""}
    ask = ApprovalRequest(
        id="a",
        principal="local",
        session="local:default",
        tool="mcp__crm__send",
        arguments={"to": "x" * 4_000_000},
        asked_at=now,
        expires_at=now + 60,
        **told,
    )
    answer = types.ElicitResult(action="accept", content={"decision": "always"})
    async with opened(tmp_path, crm()) as yard:
        call = Call(yard.approvals, "local")
        await call.form(ask, "2025-11-25")
        unsent = call.judge("a", answer)
        call.note_shown(["a"])
        sent = call.judge("a", answer)

    assert unsent == Unattended(action="accept", seconds=0.0)
    assert isinstance(sent, Unattended)


async def test_nothing_in_a_value_is_obeyed_by_who_renders_it(tmp_path: Path) -> None:
    """Line ends, terminal sequences and Markdown of a value stay inside one indented line, escaped."""
    person = Approver()
    async with (
        opened(tmp_path, crm(), approval=SHOWN) as yard,
        Client(build_server(yard, Config().surface), cache=None, elicitation_callback=person) as client,
    ):
        await client.call_tool("execute_code", {"code": SEND.format(text="p['note']")})

    (form,) = person.seen
    found = [line for line in form.splitlines() if "Harmless" in line]
    escaped = '"x\\n\\n# Harmless\\n![](http://evil/)\\r\\u001b]0;owned\\u0007\\u202e`<script>"'
    assert len(found) == 2
    assert found[0].startswith("    mcp__crm__send(")
    assert found[1].endswith(f" is {escaped}")
    assert all(line.startswith("    ") for line in found)
    assert form.replace("\n", "").isprintable()


async def test_a_reveal_answers_no_question_about_another_session(tmp_path: Path) -> None:
    """Code writes a token of somebody else into what a person is asked about: it stays a token, and is not recorded."""
    async with opened(tmp_path, crm()) as yard:
        tell = ExecuteRequest(code="from servers.crm import person\nprint(person()['email'])")
        theirs = await yard.execute(tell, principal="victim")
        own = await yard.execute(tell, principal="agent")
        tokens = [TOKEN.search(each.outcome.output)[0] for each in (theirs, own)]  # type: ignore[index]
        now = time.time()
        told: dict[str, Any] = {"id": "a", "execution_id": "run1", "number": 0, "rule": "", "reason": ""}
        ask = ApprovalRequest(
            principal="agent",
            session="agent:default",
            tool="execute_code",
            arguments={"code": f"{tokens[0]} {tokens[1]}", tokens[0]: [{tokens[0]: tokens[0].lower()}]},
            arguments_sha256="",
            asked_at=now,
            expires_at=now + 60,
            **told,
        )
        values = await yard.approvals.reveal(ask, by="ops", channel="http")
        entries = await reveals(yard)

    assert tokens[0] != tokens[1]
    assert values == {tokens[1]: EMAIL}
    assert [(entry.principal, entry.body["token"], entry.body["scope"]) for entry in entries] == [
        ("ops", tokens[1], "agent:default")
    ]


async def test_an_ask_full_of_tokens_is_revealed_up_to_a_bound(tmp_path: Path) -> None:
    """Each is a query and an entry: a flood of them costs no more than fifty."""
    async with opened(tmp_path, crm()) as yard:
        guard = await yard.guards.of("agent:default")
        words = [f"person{number}@mail.example" for number in range(80)]
        concealed = await guard.door.conceal({"to": words})
        now = time.time()
        told: dict[str, Any] = {"id": "a", "execution_id": "run1", "number": 1, "rule": "", "reason": ""}
        ask = ApprovalRequest(
            principal="agent",
            session="agent:default",
            tool="mcp__crm__send",
            arguments=concealed,
            arguments_sha256="",
            asked_at=now,
            expires_at=now + 60,
            **told,
        )
        values = await yard.approvals.reveal(ask, by="ops", channel="http")
        entries = await reveals(yard)

    assert list(values.values()) == words[:50]
    assert len(entries) == 50


PRINCIPALS = {
    "agent": PrincipalEntry(token="agent-token"),
    "curious": PrincipalEntry(token="curious-token", reveal=True, observe=True),
    "ops": PrincipalEntry(token="ops-token", approve=True),
    "desk": PrincipalEntry(token="desk-token", approve=True, reveal=True),
}


@pytest.mark.behaviour("approval.reveal")
async def test_over_http_it_takes_the_right_to_approve_and_the_right_to_reveal(tmp_path: Path) -> None:
    """Who has one of them gets tokens, and the attempt is recorded."""
    http = HttpConfig(principals=PRINCIPALS)
    async with gateway(tmp_path, crm(), http=http, policy=RULES) as gate:
        request = ExecuteRequest(code=SEND.format(text="'Thank you'"))
        running = asyncio.create_task(gate.yard.execute(request, principal="agent"))
        ask = await next_ask(gate.yard)
        answers: dict[str, list[httpx2.Response]] = {}
        for name in PRINCIPALS:
            client = await gate.client(name)
            answers[name] = [
                await client.post(f"approvals/{ask.id}/reveal", json={}),
                await client.post("approvals/nothing/reveal", json={}),
                await client.get("approvals"),
                await client.get(f"approvals/{ask.id}"),
            ]
        entries = await reveals(gate.yard)
        await end(running)

    statuses = {name: [each.status_code for each in found] for name, found in answers.items()}
    assert statuses == {
        "agent": [403, 403, 403, 403],
        "curious": [403, 403, 403, 403],
        "ops": [403, 403, 200, 200],
        "desk": [200, 404, 200, 200],
    }
    revealed = answers["desk"].pop(0)
    assert all(EMAIL not in each.text for found in answers.values() for each in found)
    assert revealed.json() == {"id": ask.id, "values": {ask.arguments["to"]: EMAIL}}
    assert [(entry.principal, entry.body) for entry in entries if entry.body != {"refused": True}] == [
        (
            "desk",
            {
                "token": ask.arguments["to"],
                "scope": "agent:default",
                "type": "email",
                "approval": ask.id,
                "channel": "http",
            },
        )
    ]
    assert {entry.principal for entry in entries if entry.body == {"refused": True}} == {"agent", "curious", "ops"}
