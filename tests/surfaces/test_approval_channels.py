"""Who may answer an ask: the person at the client, operators, or both; and never a client without a person."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from tests.conftest import polled
from tests.surfaces.api_gateway import asks
from tests.surfaces.conftest import Connect, in_memory, serving
from tests.surfaces.test_approvals import (
    ASK,
    CODE,
    PRINCIPALS,
    THREE,
    TOOL,
    Person,
    accept,
    as_principal,
    next_asks,
    operator,
    reading,
    said,
)
from tests.surfaces.test_surface import text_of
from tests.unit.broker.test_approvals import an_ask

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.config import load_config
from sealyard.errors import InvalidConfig, InvalidRequest, VaultError
from sealyard.privacy.vault import RevealedValue
from sealyard.serve.dialogue import Asking, Call, Context, _form
from sealyard.store import open_store
from sealyard.values.access import ApprovalRequest, ApprovalSettings, AuditRow, Unattended

Config = Callable[..., Path]
CLIENT = f'{ASK}\n[approval]\nchannels = ["client"]\n'
OPERATOR = f'{ASK}\n[approval]\nchannels = ["operator"]\n'
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Machine(Person):
    """A client that answers by itself, at once."""

    async def __call__(self, ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """The next answer."""
        self.seen.append(params.message)
        return self._answers[0]


async def audited(folder: Path, kind: str) -> list[AuditRow]:
    """What the audit log has of a kind."""
    async with open_store(folder / "store" / "sealyard.db") as store:
        return await store.audit_entries(limit=100, kind=kind)


@pytest.mark.behaviour("approval.no_machine")
@pytest.mark.parametrize("given", [accept("once"), accept("always"), types.ElicitResult(action="decline")])
@ERAS
async def test_a_client_that_answers_by_itself_neither_allows_nor_refuses(
    connect: Connect, tmp_path: Path, mode: str, given: types.ElicitResult
) -> None:
    """Its answer is dropped and recorded, and the call waits for an operator."""
    machine = Machine(given)
    heard: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with connect(ASK, mode=mode, elicitation_callback=machine) as agent, operator(tmp_path) as elsewhere:
        arguments = {"code": CODE}
        running = asyncio.create_task(agent.client.call_tool("execute_code", arguments, progress_callback=on_progress))
        (ask,) = await next_asks(elsewhere)
        async with asyncio.timeout(60):
            while not (dropped := await audited(tmp_path, "approval.unattended")):
                pass
        still = await next_asks(elsewhere)
        await elsewhere.answer(ask.id, said("refuse", "not on Fridays"))
        refused = await running
        again = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        await elsewhere.answer(ask.id, said("once"))
        allowed = await again

    assert (dropped[0].body["action"], dropped[0].body["tool"]) == (given.action, TOOL)
    assert [each.id for each in still] == [dropped[0].body["id"]]
    assert text_of(refused).splitlines()[0] == f"ApprovalRefused: {TOOL} refused by alice (cli): not on Fridays"
    assert text_of(allowed) == "Sales"
    assert len(machine.seen) == 2
    assert "the client answered without a person, so an operator is asked" in "".join(heard)


@pytest.mark.parametrize("unanswerable", ["deny", "allow"])
@ERAS
async def test_where_only_the_client_may_answer_its_machine_is_refused_at_once(
    config: Config, tmp_path: Path, mode: str, unanswerable: str
) -> None:
    """It says what to do. What is allowed without a way to a person is not allowed to a client that claims one."""
    more = CLIENT.replace("[policy]", f'[policy]\nunanswerable = "{unanswerable}"')
    async with in_memory(config(more), mode=mode, elicitation_callback=Machine(accept("once"))) as agent:
        result = await agent.execute(CODE)

    said = text_of(result).splitlines()[0]
    assert said.startswith(f"ApprovalRefused: {TOOL} refused: the client answered within ")
    assert said.endswith(' put "operator" into approval.channels and answer with `sealyard approvals`.')
    (answer,) = await audited(tmp_path, "approval.answer")
    assert (answer.body["by"], answer.body["channel"]) == ("nobody", "unattended")


@ERAS
async def test_a_machine_that_chooses_nothing_is_no_person_either(config: Config, mode: str) -> None:
    """It is not shown the form again."""
    machine = Machine(types.ElicitResult(action="accept"))
    async with in_memory(config(CLIENT), mode=mode, elicitation_callback=machine) as agent:
        result = await agent.execute(CODE)

    assert "faster than a person reads" in text_of(result)
    assert len(machine.seen) == 1


@pytest.mark.behaviour("approval.no_machine")
async def test_a_client_that_answers_with_an_error_gets_nothing_allowed(config: Config, tmp_path: Path) -> None:
    """It declares forms, so it is no client without a way to a person, whatever is allowed to those."""

    async def broken(ctx: Any, params: types.ElicitRequestParams) -> types.ErrorData:
        await reading()
        return types.ErrorData(code=types.INTERNAL_ERROR, message="the form could not be shown")

    more = CLIENT.replace("[policy]", '[policy]\nunanswerable = "allow"')
    async with in_memory(config(more), mode="legacy", elicitation_callback=broken) as agent:
        refused = await agent.execute(CODE)
    (dropped,) = await audited(tmp_path, "approval.unattended")

    said = text_of(refused).splitlines()[0]
    assert said.startswith(f"ApprovalRefused: {TOOL} refused: the client answered its form with an error, and nobody")
    assert dropped.body["action"] == "error"


async def test_operators_answer_for_a_client_that_answers_with_an_error(config: Config, tmp_path: Path) -> None:
    """The call waits for them, as it does beside a client without forms."""

    async def broken(ctx: Any, params: types.ElicitRequestParams) -> types.ErrorData:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="the form could not be shown")

    async with (
        in_memory(config(ASK), mode="legacy", elicitation_callback=broken) as agent,
        operator(tmp_path) as elsewhere,
    ):
        running = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        async with asyncio.timeout(60):
            while not await audited(tmp_path, "approval.unattended"):
                pass
        await elsewhere.answer(ask.id, said("once"))
        result = await running

    assert text_of(result) == "Sales"


TOKEN = "__PII_email_0123456789ab__"


@pytest.mark.parametrize("end", ["closed", "failed"])
async def test_a_request_that_ends_while_its_forms_are_built_leaves_nothing_waiting(tmp_path: Path, end: str) -> None:
    """The client has no state yet to come back with: its call is given up, and its ask is withdrawn."""
    building, ended = asyncio.Event(), asyncio.Event()

    async def find(token: str) -> list[RevealedValue]:
        building.set()
        if end == "closed":
            await asyncio.Event().wait()
        raise VaultError("The vault is locked. Unlock it.")

    async with asyncio.timeout(60), open_store(tmp_path / "sealyard.db") as store:
        asking = ApprovalSettings(reveal_to=("local",))
        approvals = Approvals(store, PolicySettings(), asking, find=find)

        async def work(call: Call) -> types.CallToolResult:
            try:
                with call.channel("run1"):
                    await approvals.ask(an_ask(principal="local", arguments={"to": TOKEN}))
            finally:
                ended.set()
            return types.CallToolResult(content=[])

        async def call_tool(
            ctx: Context, params: types.CallToolRequestParams
        ) -> types.CallToolResult | types.InputRequiredResult:
            asking: Asking = ctx.lifespan_context
            try:
                return await asking.round(ctx, params, work)
            except VaultError:
                return types.CallToolResult(content=[], is_error=True)

        server: Server[Any] = Server("s", on_call_tool=call_tool, lifespan=lambda _: Asking(lambda: approvals))
        async with Client(server, cache=None, elicitation_callback=Person(accept("once"))) as client:
            calling = asyncio.create_task(client.session.call_tool("x", {}, allow_input_required=True))
            await building.wait()
            if end == "closed":
                calling.cancel()
            await asyncio.wait({calling})
            await ended.wait()
            waiting = await polled(approvals.waiting, lambda asks: not asks)

    assert waiting == []


def test_what_was_never_shown_nobody_has_read() -> None:
    """An answer that comes before its form, such as to an id from a progress message, is no person's."""
    call = Call(None, "local")  # type: ignore[arg-type]

    assert call.judge("8f2da85fcdf4", accept("always")) == Unattended(action="accept", seconds=0.0)


@ERAS
async def test_operators_alone_are_asked_where_the_client_may_not_answer(
    config: Config, tmp_path: Path, mode: str
) -> None:
    """Its form is never used, though it declares one."""
    person = Person(accept("always"))
    heard: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with (
        in_memory(config(OPERATOR), mode=mode, elicitation_callback=person) as agent,
        operator(tmp_path) as elsewhere,
    ):
        running = asyncio.create_task(
            agent.client.call_tool("execute_code", {"code": CODE}, progress_callback=on_progress)
        )
        (ask,) = await next_asks(elsewhere)
        await elsewhere.answer(ask.id, said("once"))
        result = await running

    assert (text_of(result), person.seen) == ("Sales", [])
    assert f"[waiting for approval of {TOOL} ({ask.id}); answer with `sealyard approvals`]\n" in "".join(heard)


@ERAS
async def test_operators_are_refused_where_only_the_client_may_answer(
    config: Config, tmp_path: Path, mode: str
) -> None:
    """They are told who may, and the person at the client still can."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def person(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        await answered.wait()
        await reading()
        return accept("once")

    async with (
        in_memory(config(CLIENT), mode=mode, elicitation_callback=person) as agent,
        operator(tmp_path) as elsewhere,
    ):
        running = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        await asked.wait()
        with pytest.raises(InvalidRequest) as caught:
            await elsewhere.answer(ask.id, said("once"))
        answered.set()
        result = await running

    assert str(caught.value) == (
        f"Only the person at the client of 'local' may answer {ask.id!r}: approval.channels, or the rule that asks, "
        'does not name "operator". Answer in that client.'
    )
    assert text_of(result) == "Sales"


async def test_who_may_approve_over_http_is_refused_too(config: Config) -> None:
    """With the same words; the list says who may."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def person(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        await answered.wait()
        await reading()
        return accept("once")

    more = f'{PRINCIPALS}\n[approval]\nchannels = ["client"]\n'
    async with (
        serving(config(more)) as url,
        as_principal(url, "agent", elicitation_callback=person) as (_, agent),
        as_principal(url, "ops") as (ops, _),
    ):
        api = url.removesuffix("/mcp") + "/api/v1/approvals"
        running = asyncio.create_task(agent.call_tool("execute_code", {"code": CODE}))
        (ask,) = await asks(ops, api)
        await asked.wait()
        refused = await ops.post(f"{api}/{ask['id']}", json={"decision": "once"})
        answered.set()
        result = await running

    assert ask["channels"] == ["client"]
    assert (refused.status_code, refused.json()["error"]["message"].partition(":")[0]) == (
        400,
        f"Only the person at the client of 'agent' may answer {ask['id']!r}",
    )
    assert text_of(result) == "Sales"


async def test_a_rule_says_who_may_answer_what_it_asks(config: Config, tmp_path: Path) -> None:
    """It counts instead of the configured channels."""
    more = CLIENT.replace('decision = "ask"', 'decision = "ask"\nchannels = ["operator"]')
    person = Person(accept("once"))
    async with (
        in_memory(config(more), elicitation_callback=person) as agent,
        operator(tmp_path) as elsewhere,
    ):
        running = asyncio.create_task(agent.execute(CODE))
        (ask,) = await next_asks(elsewhere)
        await elsewhere.answer(ask.id, said("refuse", "no"))
        result = await running

    assert (ask.channels, person.seen) == (("operator",), [])
    assert text_of(result).splitlines()[0] == f"ApprovalRefused: {TOOL} refused by alice (cli): no"


def test_somebody_must_be_able_to_answer(config: Config) -> None:
    """A list without anybody is a mistake of its author."""
    with pytest.raises(InvalidConfig, match=r'approval\.channels is .*Give "client", "operator" or both\.'):
        load_config(config("[approval]\nchannels = []\n"))


# The form


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_the_form_chooses_nothing_by_itself(version: str) -> None:
    """A client that shows "Accept" has to let its user choose; one that takes the first allows this call alone."""
    now = time.time()
    told: dict[str, Any] = {"principal": "ann", "session": "ann:default", "rule": "rule 1", "reason": ""}
    told |= {"id": "a", "execution_id": "run1", "number": 1, "asked_at": now, "expires_at": now + 60}
    ask = ApprovalRequest(tool=TOOL, arguments={}, arguments_sha256="", **told)

    schema = _form(ask, version, {}, is_again=False).requested_schema

    decision: dict[str, Any] = schema["properties"]["decision"]
    choices = [each["const"] for each in decision["oneOf"]] if "oneOf" in decision else decision["enum"]
    assert "default" not in decision
    assert schema["required"] == ["decision"]
    assert choices == ["once", "run", "session", "always", "refuse"]


@pytest.mark.behaviour("approval.empty")
@ERAS
async def test_accepting_without_a_choice_shows_the_form_again(config: Config, mode: str) -> None:
    """It neither allows nor refuses; the form says what is missing."""
    empty = types.ElicitResult(action="accept", content={"reason": ""})
    person = Person(types.ElicitResult(action="accept"), empty, accept("once"))
    async with in_memory(config(ASK), mode=mode, elicitation_callback=person) as agent:
        result = await agent.execute(CODE)

    assert text_of(result) == "Sales"
    assert [each.splitlines()[0] for each in person.seen] == [
        "A call waits for your approval.",
        "Nothing was chosen. A call waits for your approval.",
        "Nothing was chosen. A call waits for your approval.",
    ]


@ERAS
async def test_a_form_that_keeps_coming_back_empty_is_a_refusal_that_says_so(config: Config, mode: str) -> None:
    """A client that cannot choose must not ask its user for ever."""
    person = Person(types.ElicitResult(action="accept", content={}))
    async with in_memory(config(ASK), mode=mode, elicitation_callback=person) as agent:
        result = await agent.execute(CODE)

    assert text_of(result).splitlines()[0] == (
        f"ApprovalRefused: {TOOL} refused by local (elicitation): nothing was chosen in 3 forms"
    )
    assert len(person.seen) == 3


@pytest.mark.parametrize(("shown", "encoding"), [("[]", "gzip"), ('["local"]', None)])
async def test_forms_that_show_private_values_are_not_compressed(
    config: Config, shown: str, encoding: str | None
) -> None:
    """Their length would tell what the values have in common with what code wrote beside them."""
    encodings: list[str | None] = []

    async def note(response: httpx2.Response) -> None:
        if b"tools/call" in response.request.content:
            encodings.append(response.headers.get("content-encoding"))

    async with (
        serving(config(f"{ASK}\n[approval]\nreveal_to = {shown}\n")) as url,
        httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=60) as http,
        Client(
            streamable_http_client(url, http_client=http), cache=None, elicitation_callback=Person(accept("once"))
        ) as client,
    ):
        await client.session.call_tool("execute_code", {"code": THREE}, allow_input_required=True)

    assert encodings == [encoding]
