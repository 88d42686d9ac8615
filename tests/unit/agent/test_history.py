"""The part of a conversation that a model reads."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.agent.history import fitted, shown
from sealyard.metrics import tokens
from sealyard.values.chat import Conversation, Message, ModelMessage, ToolMessage, ToolText, ToolUse, UserMessage

WINDOW = 4_000


def conversation(**given: Any) -> Conversation:
    """A conversation that has begun."""
    return Conversation(principal="p", name="c", started_at=0, changed_at=0, model="m", **given)


def turn(number: int, *, answer: str = "x " * 400, file: str = "") -> list[Message]:
    """A turn with one call."""
    return [
        UserMessage(f"Question {number}"),
        ModelMessage(uses=(ToolUse(id=str(number), name="execute_code", arguments={"code": "1"}),)),
        ToolMessage((ToolText(id=str(number), name="execute_code", text=answer, file=file),)),
        ModelMessage(text=f"Reply {number}"),
    ]


def test_nothing_changes_while_there_is_room() -> None:
    """The messages are shown as they are."""
    messages = turn(1)
    now = fitted(conversation(), messages, fixed_tokens=100, window=WINDOW)

    assert now == conversation()
    assert shown(now, messages) == tuple(messages)


def test_an_old_answer_is_shown_by_its_beginning_and_its_file() -> None:
    """The model can read the file in the conversation's workspace."""
    messages = [*turn(1, answer="y" * 5_000, file="results/1.json"), *turn(2)]
    now = conversation(shortened=4)

    answers = [message for message in shown(now, messages) if isinstance(message, ToolMessage)]
    assert answers[0].answers[0].text == f"{'y' * 300}…\n[5,000 characters, shortened; whole in results/1.json]"
    assert answers[1] == messages[6]


def test_a_summary_of_what_was_left_out_is_bounded() -> None:
    """A thousand turns cost what a few do, and the last ones are in it."""
    messages = [message for number in range(1_000) for message in turn(number)]
    now = conversation(left_out=3_996)

    first, *_ = shown(now, messages)
    assert isinstance(first, UserMessage)
    assert first.text.startswith("[Earlier in this conversation, in short]\n…")
    assert first.text.endswith("replied: Reply 998\n[Now]\nQuestion 999")
    assert len(first.text) < 2_200


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=30),
    st.integers(0, 1_000),
)
def test_whatever_was_said_the_window_holds_and_calls_keep_their_answers(sizes: list[int], fixed: int) -> None:
    """Requests are within the window but for a last turn that alone is larger, and providers take each of them."""
    now = conversation()
    messages: list[Message] = []
    for number, size in enumerate(sizes):
        messages += turn(number, answer="word " * size)
        now = fitted(now, messages, fixed_tokens=fixed, window=WINDOW)
        seen = shown(now, messages)

        assert isinstance(seen[0], UserMessage)
        for before, after in itertools.pairwise(seen):
            has_calls = isinstance(before, ModelMessage) and bool(before.uses)
            assert has_calls is isinstance(after, ToolMessage)
        older = sum(tokens.count(msgspec.json.encode(message).decode()) for message in seen[:-4])
        assert fixed + older <= WINDOW


@pytest.mark.parametrize("steps", [40])
def test_the_beginning_of_a_request_seldom_changes(steps: int) -> None:
    """A provider's cache is lost when the window was full, and for many turns not again."""
    now, messages, before, changes = conversation(), [], (), 0
    for number in range(steps):
        messages += turn(number)
        now = fitted(now, messages, fixed_tokens=500, window=WINDOW)
        seen = shown(now, messages)
        changes += seen[: len(before)] != before
        before = seen

    assert 0 < changes <= steps // 2
