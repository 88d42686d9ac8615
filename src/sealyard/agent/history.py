"""The part of a conversation that a model reads, which stays within its window.

A request begins like the one before it, so that the provider reads its beginning from a cache. Therefore nothing is
shortened turn by turn: when the window is nearly full, half of it is made free at once, and stays so for many turns.
"""

from collections.abc import Sequence

import msgspec

from sealyard.metrics import tokens
from sealyard.values.chat import Conversation, Message, ModelMessage, ModelRequest, ToolMessage, ToolText, UserMessage
from sealyard.wording import short

_FULL_SHARE = 0.75  # of the window: the reply and the next answers need the rest
_FREE_SHARE = 0.5  # of the window is what is left after it was full: less would soon be full again
_WHOLE = 4  # of the last messages stay whole: the model is at work with them
_ANSWER_CHARACTERS = 300  # of an old answer: its shape and its first rows
_WORDS_CHARACTERS = 120  # of each message in a summary: its topic
_SUMMARY_CHARACTERS = 2_000  # some 500 tokens, whatever was said before


def shown(conversation: Conversation, messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as the model reads them."""
    first, shortened = conversation.left_out, conversation.shortened
    recent = [
        _shortened(message) if number < shortened else message for number, message in enumerate(messages[first:], first)
    ]
    if first and recent and isinstance(recent[0], UserMessage):
        summary = _summary(messages[:first])
        recent[0] = UserMessage(f"[Earlier in this conversation, in short]\n{summary}\n[Now]\n{recent[0].text}")
    return tuple(recent)


def fitted(
    conversation: Conversation, messages: Sequence[Message], *, beside: ModelRequest, window: int
) -> Conversation:
    """The conversation with as much shortened or left out as the window demands: nothing, as long as it is not full.

    `beside` has the system prompt and the tools.
    """
    fixed_tokens = tokens.count(beside.system) + sum(
        tokens.count_definition(tool.name, tool.description, tool.schema) for tool in beside.tools
    )
    if fixed_tokens + _size(conversation, messages) <= window * _FULL_SHARE:
        return conversation
    room = window * _FREE_SHARE - fixed_tokens
    last = max(conversation.shortened, len(messages) - _WHOLE)
    conversation = msgspec.structs.replace(conversation, shortened=last)
    turns = [number for number, message in enumerate(messages) if isinstance(message, UserMessage)]
    for start in turns:  # the last turn stays, however long it is
        if _size(conversation, messages) <= room:
            break
        if start > conversation.left_out:
            conversation = msgspec.structs.replace(conversation, left_out=start)
    return conversation


def _size(conversation: Conversation, messages: Sequence[Message]) -> int:
    return sum(_tokens(message) for message in shown(conversation, messages))


def _tokens(message: Message) -> int:
    if isinstance(message, UserMessage):
        return tokens.count(message.text)
    if isinstance(message, ModelMessage):
        return tokens.count(message.text) + sum(tokens.count_json(use.arguments) for use in message.uses)
    return sum(tokens.count(answer.text) for answer in message.answers)


def _shortened(message: Message) -> Message:
    if not isinstance(message, ToolMessage):
        return message
    return ToolMessage(tuple(map(_short_answer, message.answers)))


def _short_answer(answer: ToolText) -> ToolText:
    if len(answer.text) <= _ANSWER_CHARACTERS * 2:
        return answer
    where = f"; whole in {answer.file}" if answer.file else ""
    text = f"{answer.text[:_ANSWER_CHARACTERS]}…\n[{len(answer.text):,} characters, shortened{where}]"
    return msgspec.structs.replace(answer, text=text)


def _summary(messages: Sequence[Message]) -> str:
    """The beginning of each message of the person, and of the reply that ended its turn; the last ones count most."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            lines.append(f"- asked: {short(' '.join(message.text.split()), _WORDS_CHARACTERS)}")
        elif isinstance(message, ModelMessage) and message.text and not message.uses:
            lines.append(f"  replied: {short(' '.join(message.text.split()), _WORDS_CHARACTERS)}")
    text = "\n".join(lines)
    return text if len(text) <= _SUMMARY_CHARACTERS else f"…{text[-_SUMMARY_CHARACTERS:]}"
