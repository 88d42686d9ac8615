"""Asks: put to every channel and kept in the store; the first answer holds, for as long as it is meant to."""

import asyncio
import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import polled

from sealyard.broker.approvals import Approvals, AskChannel
from sealyard.broker.policy import PolicySettings
from sealyard.errors import ApprovalRefused, UnknownApproval
from sealyard.store import Store, open_store
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest, Unattended

SETTINGS = PolicySettings()
NOW = time.time()


def an_ask(number: int = 1, **fields: Any) -> ApprovalRequest:
    """An ask of the run `run1`, which waits a minute."""
    now = time.time()
    told: dict[str, Any] = {
        "id": f"ask{number}",
        "execution_id": "run1",
        "number": number,
        "principal": "ann",
        "session": "ann:default",
        "tool": "mcp__ops__deploy",
        "arguments": {"number": number},
        "arguments_sha256": f"sha{number}",
        "rule": "rule 1",
        "reason": "it is destructive",
        "asked_at": now,
        "expires_at": now + 60,
    }
    return ApprovalRequest(**told | fields)


def an_answer(
    decision: ApprovalDecision = "once", by: str = "alice", reason: str = "", channel: str = "cli"
) -> Approval:
    """What a person said."""
    return Approval(decision=decision, by=by, channel=channel, reason=reason, answered_at=time.time())


def channel_of(answer: Callable[[ApprovalRequest], Awaitable[Approval | None]]) -> tuple[AskChannel, list[str]]:
    """A channel that notes the ids it is asked about."""
    seen: list[str] = []

    async def channel(ask: ApprovalRequest) -> Approval | None:
        seen.append(ask.id)
        return await answer(ask)

    return channel, seen


@asynccontextmanager
async def gateway(tmp_path: Path, settings: PolicySettings = SETTINGS) -> AsyncIterator[tuple[Approvals, Store]]:
    """The approvals of one gateway over the test's store."""
    async with asyncio.timeout(20), open_store(tmp_path / "sealyard.db") as store:
        yield Approvals(store, settings), store


async def until_waiting(approvals: Approvals, *ids: str) -> None:
    """Return when exactly these asks can be answered."""
    await polled(approvals.waiting, lambda asks: {ask.id for ask in asks} == set(ids))


async def audited(store: Store) -> list[tuple[str, Any]]:
    """The kinds of the audit's entries about approvals with their decisions, the oldest first."""
    await store.flush()
    rows = await store.audit_entries(limit=100)
    return [(row.kind, row.body.get("decision")) for row in reversed(rows) if row.kind.startswith("approval.")]


async def test_an_answer_of_another_process_reaches_the_call(tmp_path: Path) -> None:
    """It goes through the store: the gateway and whoever answers share nothing else."""
    async with gateway(tmp_path) as (approvals, store), gateway(tmp_path) as (elsewhere, _):
        asking = asyncio.create_task(approvals.ask(an_ask()))
        await until_waiting(elsewhere, "ask1")
        answer = an_answer(reason="go on")
        await elsewhere.answer("ask1", answer)

        assert await asking == answer
        assert await elsewhere.waiting() == []
        assert await audited(store) == [("approval.ask", None), ("approval.answer", "once")]


async def test_a_refusal_says_who_and_why(tmp_path: Path) -> None:
    """The message is what the code that made the call reads."""
    async with gateway(tmp_path) as (approvals, _):
        asking = asyncio.create_task(approvals.ask(an_ask()))
        await until_waiting(approvals, "ask1")
        await approvals.answer("ask1", an_answer("refuse", reason="not on Fridays"))

        with pytest.raises(ApprovalRefused) as caught:
            await asking

    assert str(caught.value) == "mcp__ops__deploy refused by alice (cli): not on Fridays"


async def test_asks_of_one_run_wait_beside_each_other(tmp_path: Path) -> None:
    """Each gets its own answer, in whatever order people give them."""
    async with gateway(tmp_path) as (approvals, _):
        asking = [asyncio.create_task(approvals.ask(an_ask(number))) for number in (1, 2, 3)]
        await until_waiting(approvals, "ask1", "ask2", "ask3")
        await approvals.answer("ask3", an_answer(by="carl"))
        await approvals.answer("ask1", an_answer("refuse", by="ann"))
        await approvals.answer("ask2", an_answer(by="ben"))
        found = await asyncio.gather(*asking, return_exceptions=True)

    assert [str(each) if isinstance(each, ApprovalRefused) else each.by for each in found] == [
        "mcp__ops__deploy refused by ann (cli).",
        "ben",
        "carl",
    ]


async def test_the_first_answer_holds_and_the_second_is_told(tmp_path: Path) -> None:
    """Answering twice is an error that says what holds."""
    async with gateway(tmp_path) as (approvals, _), gateway(tmp_path) as (elsewhere, _):
        asking = asyncio.create_task(approvals.ask(an_ask()))
        await until_waiting(elsewhere, "ask1")
        found = await asyncio.gather(
            approvals.answer("ask1", an_answer("refuse", by="ann")),
            elsewhere.answer("ask1", an_answer("once", by="ben")),
            return_exceptions=True,
        )
        said = await asyncio.gather(asking, return_exceptions=True)
        with pytest.raises(UnknownApproval):
            await elsewhere.answer("ask1", an_answer("always"))

    ann_won = "Approval 'ask1' does not wait any more: it was refused by ann (cli)."
    ben_won = "Approval 'ask1' does not wait any more: it was approved (once) by ben (cli)."
    assert [str(each) for each in found if each is not None] in ([ann_won], [ben_won])
    assert isinstance(said[0], ApprovalRefused) == (found[0] is None)


async def test_an_ask_without_an_answer_expires_to_a_refusal(tmp_path: Path) -> None:
    """The run then asks nobody again: without that, code could wait for ever on one ask after the other."""
    async with gateway(tmp_path) as (approvals, store):
        with pytest.raises(ApprovalRefused) as caught:
            await approvals.ask(an_ask(asked_at=NOW - 60, expires_at=NOW))
        with pytest.raises(ApprovalRefused) as again:
            await approvals.ask(an_ask(2))
        with pytest.raises(UnknownApproval) as late:
            await approvals.answer("ask1", an_answer())

        assert await audited(store) == [("approval.ask", None), ("approval.answer", "refuse")]

    assert str(caught.value) == "mcp__ops__deploy refused: nobody answered within 60 s."
    assert str(again.value) == (
        "mcp__ops__deploy refused without asking: nobody answered an earlier ask of this run in time."
    )
    assert str(late.value) == "Approval 'ask1' does not wait any more: nobody answered within 60 s."


async def test_run_holds_for_the_run_and_answers_what_waits(tmp_path: Path) -> None:
    """Further calls of the same tool are not asked for; those of another run are."""
    async with gateway(tmp_path) as (approvals, _):
        asking = [asyncio.create_task(approvals.ask(an_ask(number))) for number in (1, 2)]
        other = asyncio.create_task(approvals.ask(an_ask(9, tool="mcp__ops__drop")))
        await until_waiting(approvals, "ask1", "ask2", "ask9")
        await approvals.answer("ask1", an_answer("run"))
        found = [*await asyncio.gather(*asking), await approvals.ask(an_ask(3))]
        assert [ask.id for ask in await approvals.waiting()] == ["ask9"]
        await approvals.answer("ask9", an_answer())
        await other

        elsewhere = asyncio.create_task(approvals.ask(an_ask(4, execution_id="run2")))
        await until_waiting(approvals, "ask4")
        approvals.end_run("run1")
        again = asyncio.create_task(approvals.ask(an_ask(5)))
        await until_waiting(approvals, "ask4", "ask5")
        for task in (elsewhere, again):
            task.cancel()
        await asyncio.wait({elsewhere, again})

    assert [(each.decision, each.by, each.channel) for each in found] == [
        ("run", "alice", "cli"),
        ("run", "alice", "remembered"),
        ("run", "alice", "remembered"),
    ]


async def test_session_holds_for_later_runs_of_the_session_only(tmp_path: Path) -> None:
    """Neither another session nor another principal nor another rule may use it."""
    async with gateway(tmp_path) as (approvals, _):
        asking = asyncio.create_task(approvals.ask(an_ask()))
        await until_waiting(approvals, "ask1")
        await approvals.answer("ask1", an_answer("session"))
        await asking
        approvals.end_run("run1")

        later = await approvals.ask(an_ask(2, execution_id="run2"))
        others = [
            an_ask(3, execution_id="run3", session="ann:other"),
            an_ask(4, execution_id="run4", principal="ben"),
            an_ask(5, execution_id="run5", rule="rule 2"),
        ]
        tasks = [asyncio.create_task(approvals.ask(ask)) for ask in others]
        await until_waiting(approvals, "ask3", "ask4", "ask5")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    assert (later.decision, later.channel) == ("session", "remembered")


async def test_approvals_for_sessions_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is dropped, and its call is asked for again; the others hold."""
    monkeypatch.setattr("sealyard.broker.approvals._SESSIONS_KEPT", 2)
    async with gateway(tmp_path) as (approvals, _):
        for number in range(3):
            asking = asyncio.create_task(approvals.ask(an_ask(number, session=f"ann:{number}")))
            await until_waiting(approvals, f"ask{number}")
            await approvals.answer(f"ask{number}", an_answer("session"))
            await asking
        kept = [await approvals.ask(an_ask(10 + number, session=f"ann:{number}")) for number in (1, 2)]
        again = asyncio.create_task(approvals.ask(an_ask(20, session="ann:0")))
        await until_waiting(approvals, "ask20")
        again.cancel()
        await asyncio.wait([again])

    assert {each.channel for each in kept} == {"remembered"}


async def test_always_holds_for_the_same_arguments_until_it_is_forgotten(tmp_path: Path) -> None:
    """In every gateway of the store and after a restart; other arguments are asked for."""
    async with gateway(tmp_path) as (approvals, _):
        asking = asyncio.create_task(approvals.ask(an_ask()))
        await until_waiting(approvals, "ask1")
        await approvals.answer("ask1", an_answer("always"))
        await asking
    async with gateway(tmp_path) as (approvals, store):
        same = await approvals.ask(an_ask(2, arguments_sha256="sha1"))
        for changed in (an_ask(3), an_ask(4, arguments_sha256="sha1", principal="ben")):
            task = asyncio.create_task(approvals.ask(changed))
            await until_waiting(approvals, changed.id)
            task.cancel()
            await asyncio.wait({task})
        kept = await store.approvals.remembered()
        await store.approvals.forget([each.ask.id for each in kept])
        task = asyncio.create_task(approvals.ask(an_ask(5, arguments_sha256="sha1")))
        await until_waiting(approvals, "ask5")
        task.cancel()
        await asyncio.wait({task})

    assert (same.decision, same.by, same.channel) == ("always", "alice", "remembered")
    assert [(each.ask.id, each.ask.arguments, each.approval.by) for each in kept] == [("ask1", {"number": 1}, "alice")]


async def given_always(tmp_path: Path, channel: str, **fields: Any) -> None:
    """An `always` for `sha1` that came through a channel."""
    async with gateway(tmp_path) as (approvals, _):

        async def client(ask: ApprovalRequest) -> Approval:
            return an_answer("always", channel=channel)

        with approvals.channel("run1", client):
            await approvals.ask(an_ask(**fields))


async def is_remembered(tmp_path: Path, number: int, **fields: Any) -> bool:
    """True if an `always` for `sha1` answers an ask with these fields, and no person is asked."""
    async with gateway(tmp_path) as (approvals, _):

        async def refuse(ask: ApprovalRequest) -> Approval:
            return an_answer("refuse", channel="elicitation" if "client" in ask.channels else "cli")

        with approvals.channel("run1", refuse):
            try:
                approval = await approvals.ask(an_ask(number, arguments_sha256="sha1", **fields))
            except ApprovalRefused:
                return False
        return approval.channel == "remembered"


@pytest.mark.behaviour("approval.always_channels")
@pytest.mark.parametrize(("channel", "who"), [("elicitation", "client"), ("cli", "operator"), ("http", "operator")])
async def test_always_counts_where_the_person_who_gave_it_may_answer(tmp_path: Path, channel: str, who: str) -> None:
    """A rule that accepts operators alone is not answered by what a client's form said, nor the other way round."""
    await given_always(tmp_path, channel)

    found = [
        await is_remembered(tmp_path, number, channels=channels)
        for number, channels in enumerate([("client", "operator"), ("client",), ("operator",)], 2)
    ]

    assert found == [True, who == "client", who == "operator"]


async def test_always_given_anew_takes_the_place_of_one_that_does_not_count(tmp_path: Path) -> None:
    """Otherwise the operator who allows the call always would be asked about it for ever."""
    await given_always(tmp_path, "elicitation")
    await given_always(tmp_path, "cli", number=2, arguments_sha256="sha1", channels=("operator",))

    assert await is_remembered(tmp_path, 3, channels=("operator",))


@pytest.mark.parametrize(("channel", "counts"), [("elicitation", False), ("cli", True)])
async def test_always_from_before_forms_were_checked_counts_from_operators_alone(
    tmp_path: Path, channel: str, counts: bool
) -> None:
    """Its ask names no channels: a program at the client could have given it then. It is listed as such."""
    await given_always(tmp_path, channel)
    with contextlib.closing(sqlite3.connect(tmp_path / "sealyard.db")) as connection, connection:
        connection.execute("UPDATE approvals_remembered SET ask = json_remove(ask, '$.channels')")
    async with gateway(tmp_path) as (_, store):
        (listed,) = await store.approvals.remembered()

    assert listed.counts is counts
    assert await is_remembered(tmp_path, 2) is counts


@pytest.mark.parametrize("decision", ["run", "session", "always"])
async def test_what_is_answered_with_another_ask_keeps_to_its_own_channels(
    tmp_path: Path, decision: ApprovalDecision
) -> None:
    """A client's answer for the run, the session or always lets no ask pass that waits for an operator."""
    async with gateway(tmp_path) as (approvals, _):

        async def client(ask: ApprovalRequest) -> Approval | None:
            return an_answer(decision, channel="elicitation") if "client" in ask.channels else None

        strict = asyncio.create_task(approvals.ask(an_ask(1, arguments_sha256="sha", channels=("operator",))))
        await until_waiting(approvals, "ask1")
        with approvals.channel("run1", client):
            await approvals.ask(an_ask(2, arguments_sha256="sha"))
        later = asyncio.create_task(approvals.ask(an_ask(3, arguments_sha256="sha", channels=("operator",))))
        await until_waiting(approvals, "ask1", "ask3")
        for task in (strict, later):
            task.cancel()
        await asyncio.wait({strict, later})


@pytest.mark.parametrize("fields", [{"channels": ("client",)}, {"channels": ("operator",)}, {"tool": "execute_code"}])
async def test_an_answer_that_is_written_after_the_ask_expired_does_not_hold(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    """Whenever the person typed it: no answer gets around the end, nor around who may answer and with what."""
    async with gateway(tmp_path) as (approvals, store):
        await store.approvals.add(an_ask(expires_at=NOW, **fields))
        with pytest.raises(UnknownApproval) as caught:
            await approvals.answer("ask1", msgspec.structs.replace(an_answer("always"), answered_at=NOW - 1))

        assert await store.approvals.remembered() == []
    assert str(caught.value) == "Approval 'ask1' does not wait any more: nobody answered in time."


async def test_the_channels_of_the_execution_are_asked_and_no_others(tmp_path: Path) -> None:
    """A channel that opens later is asked about what waits already; when one answers the others stop."""
    async with gateway(tmp_path) as (approvals, _):
        stopped = asyncio.Event()

        async def hold(ask: ApprovalRequest) -> Approval | None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return None

        async def agree(ask: ApprovalRequest) -> Approval:
            return an_answer(by="ann", channel="elicitation")

        held, seen_first = channel_of(hold)
        foreign, seen_foreign = channel_of(agree)
        agreeing, seen_later = channel_of(agree)
        with approvals.channel("run1", held), approvals.channel("run2", foreign):
            asking = asyncio.create_task(approvals.ask(an_ask()))
            await until_waiting(approvals, "ask1")
            with approvals.channel("run1", agreeing):
                approval = await asking
            await stopped.wait()

    assert (approval.by, approval.channel) == ("ann", "elicitation")
    assert (seen_first, seen_foreign, seen_later) == (["ask1"], [], ["ask1"])


@pytest.mark.parametrize(
    ("unanswerable", "outcome"),
    [
        (
            "deny",
            "mcp__ops__deploy refused: there is no way to a person here, and policy.unanswerable is 'deny'.",
        ),
        (
            "allow",
            ("once", "nobody", "fallback", "there is no way to a person here, and policy.unanswerable is 'allow'"),
        ),
    ],
)
@pytest.mark.parametrize("with_channel", [False, True])
async def test_without_a_way_to_a_person_the_fallback_applies_and_says_so(
    tmp_path: Path, unanswerable: Any, outcome: Any, with_channel: bool
) -> None:
    """No channel, or one that turns out to have no answer, and no operators: nobody is waited for."""
    settings = PolicySettings(unanswerable=unanswerable)
    ask = an_ask(channels=("client",))

    async def gone(ask: ApprovalRequest) -> Approval | None:
        return None

    async with gateway(tmp_path, settings) as (approvals, store):
        found: Any
        try:
            if with_channel:
                with approvals.channel("run1", gone):
                    approval = await approvals.ask(ask)
            else:
                approval = await approvals.ask(ask)
            found = (approval.decision, approval.by, approval.channel, approval.reason)
        except ApprovalRefused as error:
            found = str(error)
        entries = await audited(store)

    assert found == outcome
    assert entries[-1] == ("approval.answer", "refuse" if unanswerable == "deny" else "once")


@pytest.mark.parametrize("action", ["error", "gone"])
async def test_a_client_that_fails_to_answer_is_no_lack_of_people(tmp_path: Path, action: str) -> None:
    """What is allowed where nobody can be asked is refused where a client that asks failed or left."""
    asked = asyncio.Event()

    async def fails(ask: ApprovalRequest) -> Unattended:
        asked.set()
        if action == "gone":
            await asyncio.Event().wait()
        return Unattended(action=action, seconds=3.0)

    settings = PolicySettings(unanswerable="allow")
    async with gateway(tmp_path, settings) as (approvals, _):
        with approvals.channel("run1", fails):
            asking = asyncio.create_task(approvals.ask(an_ask(channels=("client",))))
            await asked.wait()
        with pytest.raises(ApprovalRefused) as caught:
            await asking

    how = {"error": "answered its form with an error", "gone": "left without an answer"}[action]
    assert str(caught.value).startswith(f"mcp__ops__deploy refused: the client {how}, and nobody else may answer. ")


async def test_with_operators_an_ask_waits_though_no_channel_answers(tmp_path: Path) -> None:
    """The person at `sealyard approvals` may still come."""
    async with gateway(tmp_path) as (approvals, _):

        async def gone(ask: ApprovalRequest) -> Approval | None:
            return None

        with approvals.channel("run1", gone):
            asking = asyncio.create_task(approvals.ask(an_ask()))
            await until_waiting(approvals, "ask1")
        await approvals.answer("ask1", an_answer())

        assert (await asking).by == "alice"


async def test_a_fault_of_a_channel_is_the_calls_own(tmp_path: Path) -> None:
    """It neither hangs nor passes for an answer."""

    async def broken(ask: ApprovalRequest) -> Approval | None:
        raise RuntimeError("no such client")

    async with gateway(tmp_path) as (approvals, store):
        with approvals.channel("run1", broken), pytest.raises(RuntimeError, match="no such client"):
            await approvals.ask(an_ask())
        await store.flush()

        assert await approvals.waiting() == []


async def test_a_cancelled_run_withdraws_its_asks(tmp_path: Path) -> None:
    """They are shown no more, and who answers one all the same is told why it came too late."""
    async with gateway(tmp_path) as (approvals, store), gateway(tmp_path) as (elsewhere, _):
        cancelled = asyncio.create_task(approvals.ask(an_ask(1)))
        ended = asyncio.create_task(approvals.ask(an_ask(2, execution_id="run2")))
        await until_waiting(elsewhere, "ask1", "ask2")
        cancelled.cancel()
        approvals.end_run("run2")
        await asyncio.wait({cancelled, ended})
        await store.flush()

        assert await elsewhere.waiting() == []
        for number in (1, 2):
            with pytest.raises(UnknownApproval) as caught:
                await elsewhere.answer(f"ask{number}", an_answer())
            assert str(caught.value) == f"Approval 'ask{number}' does not wait any more: its run is over."
    assert isinstance(ended.exception(), ApprovalRefused)


async def test_the_asks_of_a_gateway_that_is_gone_are_withdrawn(tmp_path: Path) -> None:
    """Nobody waits for them any more, so nobody can approve them."""
    async with gateway(tmp_path) as (elsewhere, _):
        async with open_store(tmp_path / "sealyard.db") as store:
            await store.approvals.add(an_ask())
            assert [ask.id for ask in await elsewhere.waiting()] == ["ask1"]

        assert await elsewhere.waiting() == []
        with pytest.raises(UnknownApproval) as caught:
            await elsewhere.answer("ask1", an_answer("always"))
        assert str(caught.value) == "Approval 'ask1' does not wait any more: its gateway is gone."


async def test_an_answer_to_what_nobody_asked_is_an_error(tmp_path: Path) -> None:
    """The message says where those that wait are listed."""
    async with gateway(tmp_path) as (approvals, _):
        with pytest.raises(UnknownApproval) as caught:
            await approvals.answer("nothing", an_answer())

    assert str(caught.value) == "No approval 'nothing' waits. List those that do with `sealyard approvals`."


async def test_long_arguments_are_cut_in_the_list_and_whole_for_whoever_asks(tmp_path: Path) -> None:
    """A long argument cannot push another out of sight, and nothing that is approved is out of reach."""
    arguments = {"padding": "x" * 400_000, "rows": list(range(20_000)), "target": "production"}
    async with gateway(tmp_path) as (approvals, store):
        task = asyncio.create_task(approvals.ask(an_ask(arguments=arguments)))
        await until_waiting(approvals, "ask1")
        (shown,) = await approvals.waiting()
        whole = await approvals.get("ask1")
        task.cancel()
        await asyncio.wait({task})
        await store.flush()
        with pytest.raises(UnknownApproval):
            await approvals.get("ask1")

    assert shown.arguments["padding"] == "x" * 1_000
    assert shown.arguments["target"] == "production"
    assert shown.cut == {"padding": 400_002, "rows": len(json.dumps(arguments["rows"], separators=(",", ":")))}
    assert whole.arguments == arguments
    assert shown.lines()[2].endswith("… (400,002 characters in all)")
    assert "Read all of it before you answer: sealyard approvals show ask1" in shown.lines()


@pytest.mark.parametrize("raw", [False, True])
async def test_a_channel_is_shown_no_more_than_a_list(tmp_path: Path, raw: bool) -> None:
    """Code chooses how much it sends, and each form of it would be encoded anew; its true size is in every form."""
    arguments: dict[str, Any] = {"padding": "x" * 4_000_000, "rows": list(range(20_000)), "target": "production"}
    seen: list[ApprovalRequest] = []

    async def client(ask: ApprovalRequest) -> Approval:
        seen.append(ask)
        return an_answer()

    async with gateway(tmp_path) as (approvals, _):
        with approvals.channel("run1", client):
            given = msgspec.Raw(msgspec.json.encode(arguments)) if raw else arguments
            await approvals.ask(an_ask(arguments=given))

    (ask,) = seen
    assert list(ask.arguments) == list(arguments)
    assert len(msgspec.json.encode(ask)) <= 64 << 10
    assert ask.lines()[2].endswith("… (4,000,002 characters in all)")


async def test_no_name_hides_the_argument_of_another(tmp_path: Path) -> None:
    """Names that begin alike are cut to the same text: the second one is counted among those that are left out."""
    arguments = {"n" * 70_000 + "1": "harmless", "n" * 70_000 + "2": "production"}
    async with gateway(tmp_path) as (_, store):
        shown = await store.approvals.add(an_ask(arguments=arguments))

    assert (shown.arguments, shown.cut) == ({"n" * 1_000: "harmless"}, {"…": 1})
    assert "and 1 arguments more" in shown.lines()


async def test_others_ask_while_a_large_ask_is_encoded(tmp_path: Path) -> None:
    """That takes as long as code wants it to: it is the work of a thread, and here that thread is busy."""
    release = threading.Event()
    async with gateway(tmp_path) as (approvals, _):
        with ThreadPoolExecutor(1) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            threads.submit(release.wait)
            try:
                large = asyncio.create_task(approvals.ask(an_ask(1, arguments={"rows": [{}] * 50_000})))
                small = asyncio.create_task(approvals.ask(an_ask(2)))
                await until_waiting(approvals, "ask2")
            finally:
                release.set()
            await until_waiting(approvals, "ask1", "ask2")
            for task in (large, small):
                task.cancel()
            await asyncio.wait({large, small})


async def test_what_is_approved_always_can_still_be_read_whole(tmp_path: Path) -> None:
    """Whoever looks at old approvals sees what they allow."""
    arguments = {"padding": "x" * 400_000}
    async with gateway(tmp_path) as (approvals, _):
        task = asyncio.create_task(approvals.ask(an_ask(arguments=arguments)))
        await until_waiting(approvals, "ask1")
        await approvals.answer("ask1", an_answer("always"))
        await task
        whole = await approvals.get("ask1")

    assert whole.arguments == arguments


@pytest.mark.parametrize("kind", ["deep", "large"])
async def test_a_call_that_nobody_can_read_is_refused_without_asking(tmp_path: Path, kind: str) -> None:
    """A person must not say yes to something that cannot be shown."""
    deep: Any = "x"
    for _ in range(3_000):
        deep = [deep]
    arguments = {"deep": deep} if kind == "deep" else {"large": "x" * (9 << 20)}
    async with gateway(tmp_path) as (approvals, _):
        with pytest.raises(ApprovalRefused, match=r"refused without asking\. Its arguments "):
            await approvals.ask(an_ask(arguments=arguments))

        assert await approvals.waiting() == []


def test_a_person_is_shown_everything_on_lines_of_its_own() -> None:
    """No text of an argument can begin a line, hide a character or grow without bound."""
    arguments = {
        "to": "a\nserver: harmless",
        "tricks\r\x1b[2J": "\u202egnp.exe\u200b",
        "long": "y" * 5_000,
        **{f"more{number}": number for number in range(30)},
    }
    lines = an_ask(arguments=arguments, reason="first\nsecond").lines()

    assert lines[:5] == [
        "tool: mcp__ops__deploy",
        "server: ops",
        'argument to = "a\\nserver: harmless"',
        'argument tricks\\r\\x1b[2J = "\\u202egnp.exe\\u200b"',
        f'argument long = "{"y" * 299}… (5,002 characters in all)',
    ]
    assert lines[-5:] == [
        "and 13 arguments more",
        "Read all of it before you answer: sealyard approvals show ask1",
        "asked because of rule 1",
        "reason: first\\nsecond",
        "asked by ann in session ann:default, call 1 of run run1",
    ]
    assert all("\n" not in line and len(line) < 1_000 for line in lines)
