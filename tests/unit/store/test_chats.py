"""Conversations in the store: message by message, each principal's own, and gone when they are old."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from sealyard.errors import InvalidRequest
from sealyard.store import open_store
from sealyard.values.chat import Conversation, Message, ModelMessage, ToolMessage, ToolText, ToolUse, UserMessage

DAY = 86_400.0
MESSAGES: list[Message] = [
    UserMessage("Hi 😀 \x00 \ud83d"),
    ModelMessage(
        text="Let me see.",
        uses=(ToolUse(id="1", name="execute_code", arguments={"code": "1", "n": [1, None, 1e308]}),),
        native='[{"a": 1}]',
        source="m",
    ),
    ToolMessage((ToolText(id="1", name="execute_code", text="1", is_error=True, execution_id="x", file="r.json"),)),
    ModelMessage(text="Done."),
]


def conversation(name: str = "c", *, principal: str = "ann", at: float = DAY * 10, **given: Any) -> Conversation:
    """A conversation that was changed at this time."""
    return Conversation(principal=principal, name=name, started_at=at, changed_at=at, model="m", **given)


async def test_messages_come_back_in_their_order(tmp_path: Path) -> None:
    """Whatever is in them; half a character is kept as its escape."""
    async with open_store(tmp_path / "s.db") as store:
        for number, message in enumerate(MESSAGES, 1):
            await store.chats.write(conversation(messages=number), [message])
        found, messages = await store.chats.read("ann", "c")
        nothing = await store.chats.read("bob", "c")

    assert found == conversation(messages=4)
    assert messages[1:] == MESSAGES[1:]
    assert isinstance(messages[0], UserMessage)
    assert messages[0].text.startswith("Hi 😀 ")
    assert nothing == (None, [])


async def test_a_write_after_another_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """Two gateways that go on from the same message do not mix."""
    async with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db") as two:
        await one.chats.write(conversation(messages=1), [UserMessage("a")])
        await one.chats.write(conversation(messages=2, runs=1), [UserMessage("b")])
        with pytest.raises(InvalidRequest):
            await two.chats.write(conversation(messages=2, runs=5), [UserMessage("c")])
        found, messages = await two.chats.read("ann", "c")
        spent = await two.chats.spent("ann", DAY * 10)

    assert found is not None
    assert (found.runs, spent.runs) == (1, 1)
    assert messages == [UserMessage("a"), UserMessage("b")]


async def test_a_day_has_the_sums_of_all_conversations_of_a_principal(tmp_path: Path) -> None:
    """Each write adds what it changed, to the day of the change."""
    async with open_store(tmp_path / "s.db") as store:
        first = conversation("a", messages=1, input_tokens=10, output_tokens=1, usd=0.5, runs=1)
        await store.chats.write(first, [UserMessage("a")])
        await store.chats.write(msgspec.structs.replace(first, input_tokens=30, usd=0.75), [])
        await store.chats.write(conversation("b", messages=1, input_tokens=5), [UserMessage("b")])
        await store.chats.write(msgspec.structs.replace(first, input_tokens=37, usd=0.75, changed_at=DAY * 11), [])
        days = [await store.chats.spent("ann", DAY * day + 100.0) for day in (10, 11, 12)]
        other = await store.chats.spent("bob", DAY * 10)

    assert [(day.input_tokens, day.output_tokens, day.usd, day.runs) for day in (*days, other)] == [
        (35, 1, 0.75, 1),
        (7, 0, 0.0, 0),
        (0, 0, 0.0, 0),
        (0, 0, 0.0, 0),
    ]


async def test_old_conversations_are_removed_with_their_messages_and_days(tmp_path: Path) -> None:
    """Those that were gone on with later stay."""
    async with open_store(tmp_path / "s.db") as store:
        for name, day in (("old", 1), ("new", 9)):
            await store.chats.write(conversation(name, at=DAY * day, messages=1, runs=1), [UserMessage(name)])
        await store.chats.prune(DAY * 5)
        left = [each.name for each in await store.chats.list("ann", 10)]
        gone = await store.chats.read("ann", "old")
        runs = [(await store.chats.spent("ann", DAY * day)).runs for day in (1, 9)]

    assert left == ["new"]
    assert gone == (None, [])
    assert runs == [0, 1]


async def test_a_deleted_conversation_is_gone_and_its_spending_is_not(tmp_path: Path) -> None:
    """Deleting is no way around a budget."""
    async with open_store(tmp_path / "s.db") as store:
        await store.chats.write(conversation(messages=1, runs=2), [UserMessage("a")])
        deleted = [await store.chats.delete("ann", "c") for _ in range(2)]
        spent = await store.chats.spent("ann", DAY * 10)

    assert deleted == [True, False]
    assert spent.runs == 2
