"""A conversation between a person, a model and tools: what a model is asked, what it replies, and live events."""

from typing import Any, Literal

import msgspec

from sealyard.values.access import ApprovalRequest

Stop = Literal["end", "length", "refused"]
"""The reason why a model's reply ends: it is whole, its tokens ran out, or the provider or the model declined."""


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a model asks for."""

    id: str
    """The provider's; the answer names it."""
    name: str
    arguments: dict[str, Any]
    unreadable: str = ""
    """The reason why its arguments are not an object of JSON. Such a call is answered with it, and not made."""


class ToolText(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a model's call, as the model reads it."""

    id: str
    name: str
    text: str
    is_error: bool = False
    execution_id: str = ""
    """The execution that it was, if it was one."""
    file: str = ""
    """The file in the conversation's workspace that has the whole result, if that is longer."""


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="role"):
    """Words of the person, with private values concealed."""

    text: str


class ModelMessage(msgspec.Struct, frozen=True, kw_only=True, tag="model", tag_field="role"):
    """Words and calls of the model."""

    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    native: str = ""
    """The reply in a form of the provider's adapter, which sends it back unchanged; empty for other models."""
    source: str = ""
    """The name of the model. Another one gets `text` and `uses`, and not `native`."""


class ToolMessage(msgspec.Struct, frozen=True, tag="tools", tag_field="role"):
    """The answers to all calls of the model's message before it."""

    answers: tuple[ToolText, ...]


Message = UserMessage | ModelMessage | ToolMessage


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a provider counted, and their price where it is known."""

    input_tokens: int = 0
    """All that the model read, from the provider's cache or not."""
    cached_tokens: int = 0
    """Those of them that came from the provider's cache."""
    output_tokens: int = 0
    usd: float | None = None

    def __add__(self, other: "ModelUsage") -> "ModelUsage":
        prices = [each.usd for each in (self, other) if each.usd is not None]
        return ModelUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=sum(prices) if prices else None,
        )


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model may call."""

    name: str
    description: str
    schema: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that a model reads before it replies. Its beginning stays the same from turn to turn, for caches."""

    system: str
    tools: tuple[ToolOffer, ...]
    messages: tuple[Message, ...]


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply."""

    message: ModelMessage
    usage: ModelUsage = ModelUsage()
    stop: Stop = "end"


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of one principal, and the sums of what it took."""

    principal: str
    name: str
    started_at: float
    changed_at: float
    model: str
    """The one that replied last."""
    messages: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    runs: int = 0
    """Executions that its calls were."""
    seconds: float = 0.0
    """From each message of the person to the end of its turn, in all."""
    left_out: int = 0
    """Messages before this number are shown to the model as a bounded summary."""
    shortened: int = 0
    """Answers of tools in messages before this number are shown to the model by their beginnings and files alone."""


class TextEvent(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """The next piece of the model's words."""

    text: str


class RetryEvent(msgspec.Struct, frozen=True, kw_only=True, tag="retry"):
    """The provider failed, and is asked again. The words of this reply so far do not count."""

    reason: str
    seconds: float


class CallEvent(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """A call of the model begins."""

    id: str
    name: str
    arguments: dict[str, Any]


class OutputEvent(msgspec.Struct, frozen=True, kw_only=True, tag="output"):
    """A piece of what the code of a call prints, or of the progress of a tool that it calls."""

    id: str
    text: str


class ApprovalEvent(msgspec.Struct, frozen=True, kw_only=True, tag="approval"):
    """A call waits until a person has answered."""

    id: str
    ask: ApprovalRequest


class AnswerEvent(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """A call of the model is over."""

    answer: ToolText


class UsageEvent(msgspec.Struct, frozen=True, kw_only=True, tag="usage"):
    """The tokens and the price of one reply of the model."""

    usage: ModelUsage


TurnEnd = Literal["end", "length", "refused", "steps", "budget"]
"""The reason why a turn ends: `steps` and `budget` when the agent may go on no longer, otherwise as `Stop`."""


class EndEvent(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """The turn is over, and stored."""

    text: str
    """The model's last words, with private values for the person."""
    ended: TurnEnd
    reason: str = ""
    """What the person can do if it is not `end`."""
    conversation: str
    usage: ModelUsage
    """That of the turn."""
    runs: int
    seconds: float


Event = TextEvent | RetryEvent | CallEvent | OutputEvent | ApprovalEvent | AnswerEvent | UsageEvent | EndEvent
