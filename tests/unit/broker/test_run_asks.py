"""Asking whether code may run at all: one answer for one run, whatever the answer was meant to be."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import polled
from tests.unit.broker.test_approvals import an_answer, an_ask, audited, gateway

from sealyard.broker import Approvals
from sealyard.broker.policy import PolicySettings
from sealyard.errors import ApprovalRefused, InvalidRequest
from sealyard.serve.dialogue import _form
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest, Grant

REASON = "This very code failed 3 times in the last hour."
BROAD: tuple[ApprovalDecision, ...] = ("run", "session", "always")


def a_grant(execution_id: str = "run1") -> Grant:
    """Of a run that has not begun."""
    return Grant(execution_id=execution_id, principal="ann", session="ann:default", tools={})


def begin(approvals: Approvals, execution_id: str = "run1") -> "asyncio.Task[Approval]":
    """Ask for a run of the same code as ever."""
    return asyncio.create_task(approvals.ask_for_run(a_grant(execution_id), REASON, {"code": "1 / 0"}))


async def the_ask(approvals: Approvals) -> ApprovalRequest:
    """The one that waits, once it does."""
    return (await polled(approvals.waiting, bool))[0]


async def test_a_run_is_asked_for_and_answered_like_a_call(tmp_path: Path) -> None:
    """By somebody with the same store; both are in the audit log, with what was asked."""
    async with gateway(tmp_path) as (approvals, store), gateway(tmp_path) as (elsewhere, _):
        asking = begin(approvals)
        ask = await the_ask(elsewhere)
        answer = an_answer(reason="let it")
        await elsewhere.answer(ask.id, answer)

        assert await asking == answer
        assert await audited(store) == [("approval.ask", None), ("approval.answer", "once")]
        (asked,) = [row for row in await store.audit_entries(limit=10) if row.kind == "approval.ask"]
    assert (ask.tool, ask.number, ask.execution_id, ask.reason) == ("execute_code", 0, "run1", REASON)
    assert asked.body["arguments"] == {"code": "1 / 0"}
    assert (asked.principal, asked.session, asked.body["reason"]) == ("ann", "ann:default", REASON)


async def test_a_refusal_says_what_was_not_run_and_why(tmp_path: Path) -> None:
    """The agent reads it."""
    async with gateway(tmp_path) as (approvals, _):
        asking = begin(approvals)
        await approvals.answer((await the_ask(approvals)).id, an_answer("refuse", reason="change it first"))
        with pytest.raises(ApprovalRefused) as caught:
            await asking

    assert str(caught.value) == "Running this code was refused by alice (cli): change it first"


async def test_without_a_way_to_a_person_the_code_is_not_run(tmp_path: Path) -> None:
    """As with calls, by the policy's own word."""
    async with gateway(tmp_path, PolicySettings(operators=False)) as (approvals, _):
        with pytest.raises(ApprovalRefused) as caught:
            await approvals.ask_for_run(a_grant(), REASON, {})

    assert str(caught.value) == (
        "Running this code was refused: there is no way to a person here, and policy.unanswerable is 'deny'."
    )


@pytest.mark.parametrize("decision", BROAD)
async def test_an_operator_cannot_allow_more_than_one_run(tmp_path: Path, decision: ApprovalDecision) -> None:
    """The answer is an error that says which ones there are, and the ask goes on waiting."""
    async with gateway(tmp_path) as (approvals, store), gateway(tmp_path) as (elsewhere, _):
        asking = begin(approvals)
        ask = await the_ask(elsewhere)
        with pytest.raises(InvalidRequest) as caught:
            await elsewhere.answer(ask.id, an_answer(decision))
        assert [each.id for each in await approvals.waiting()] == [ask.id]
        await elsewhere.answer(ask.id, an_answer("once"))

        assert (await asking).decision == "once"
        assert await store.approvals.remembered() == []
    assert str(caught.value) == f"{ask.id!r} is about code, which is allowed once. Answer once or refuse."


@pytest.mark.parametrize("decision", BROAD)
async def test_a_client_that_answers_more_than_it_was_offered_allows_one_run(
    tmp_path: Path, decision: ApprovalDecision
) -> None:
    """What it sends is its own business; the next run asks again, in the same session and in the same run."""
    seen: list[str] = []

    async def channel(ask: ApprovalRequest) -> Approval | None:
        seen.append(ask.id)
        return an_answer(decision, channel="elicitation") if len(seen) == 1 else an_answer("refuse")

    async with gateway(tmp_path) as (approvals, store):
        with approvals.channel("run1", channel), approvals.channel("run2", channel):
            first = await begin(approvals)
            again = await asyncio.gather(begin(approvals), begin(approvals, "run2"), return_exceptions=True)
        remembered = await store.approvals.remembered()

    assert (first.decision, first.channel) == ("once", "elicitation")
    assert [type(each) for each in again] == [ApprovalRefused, ApprovalRefused]
    assert len(seen) == 3
    assert remembered == []


async def test_an_answer_of_an_older_gateway_that_means_always_holds_for_one_run(tmp_path: Path) -> None:
    """It is in the store as it was given, and lets nothing pass."""
    async with gateway(tmp_path) as (approvals, _):
        asking = begin(approvals)
        ask = await the_ask(approvals)
        with contextlib.closing(sqlite3.connect(tmp_path / "sealyard.db")) as connection, connection:
            given = msgspec.json.encode(an_answer("always")).decode()
            connection.execute("UPDATE approvals SET approval = ? WHERE id = ?", (given, ask.id))
        first = await asking
        later = begin(approvals, "run2")
        waiting = await the_ask(approvals)
        later.cancel()
        await asyncio.wait({later})

    assert first.decision == "once"
    assert waiting.execution_id == "run2"
    assert waiting.arguments_sha256 != ask.arguments_sha256


async def test_what_is_approved_for_a_tool_lets_no_code_run_and_the_other_way_round(tmp_path: Path) -> None:
    """Even a call that calls itself like it."""
    async with gateway(tmp_path) as (approvals, _):
        session = asyncio.create_task(approvals.ask(an_ask(rule="learning.critical")))
        await approvals.answer((await the_ask(approvals)).id, an_answer("session"))
        await session
        asking = begin(approvals)
        ask = await the_ask(approvals)
        await approvals.answer(ask.id, an_answer("once"))
        await asking
        call = asyncio.create_task(approvals.ask(an_ask(2, tool="mcp__ops__other", rule="learning.critical")))
        waiting = await the_ask(approvals)
        call.cancel()
        await asyncio.wait({call})

    assert ask.tool == "execute_code"
    assert waiting.tool == "mcp__ops__other"


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_person_at_the_client_is_offered_two_answers(version: str) -> None:
    """Those that mean something for code; a call has all five."""
    form = _form(an_ask(tool="execute_code", number=0), version, {}, is_again=False)
    decision: dict[str, Any] = form.requested_schema["properties"]["decision"]
    shown = [each["const"] for each in decision["oneOf"]] if "oneOf" in decision else decision["enum"]

    assert form.message.startswith("Code waits for your approval.\n\n    code that has not begun to run\n")
    assert shown == ["once", "refuse"]
    assert list(an_ask().options) == ["once", "run", "session", "always", "refuse"]


def test_a_person_is_shown_the_code_on_one_line() -> None:
    """Nothing in it can look like another line."""
    lines = an_ask(tool="execute_code", number=0, arguments={"code": "a\nb: c"}, rule="learning.critical").lines()

    assert lines == [
        "code that has not begun to run",
        'argument code = "a\\nb: c"',
        "asked because of learning.critical",
        "reason: it is destructive",
        "asked by ann in session ann:default, before run run1",
    ]
