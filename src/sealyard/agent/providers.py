"""Models of providers, over the model layer of Pydantic AI and the providers' own SDKs.

Nothing but the conversation leaves: this layer sends no metadata, no traces and no names of the gateway.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as Provided
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from sealyard.errors import InvalidRequest, ModelError, ModelRejected, ModelUnavailable
from sealyard.values.chat import (
    Message,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ModelUsage,
    Stop,
    ToolMessage,
    ToolUse,
    UserMessage,
)
from sealyard.wording import short

_REPLY_TOKENS = 8_192  # of one reply: long code and its prose; without a bound, Anthropic's SDK needs one anyway
_REQUEST_SECONDS = 300.0  # for one reply, its attempts included: reasoning models think for minutes
_REASON_CHARACTERS = 500  # of a provider's message in an error
_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refused"}


@asynccontextmanager
async def open_provider(
    name: str, *, url: str | None, key: str | None, max_tokens: int | None
) -> AsyncIterator["ProvidedModel"]:
    """See `sealyard.agent.models.open_model`."""

    def build(provider: str) -> Provider[Any]:
        given = {"base_url": url, "api_key": key}
        given = {name: value for name, value in given.items() if value is not None}
        return infer_provider_class(provider)(**given) if given else infer_provider(provider)

    try:
        model = infer_model(name, provider_factory=build)
    except ImportError as error:
        raise InvalidRequest(f"The model {name!r} needs a package that is not installed. {error}") from None
    except (exceptions.UserError, ValueError, TypeError) as error:
        raise InvalidRequest(
            f"The model {name!r} cannot be opened: {short(str(error), _REASON_CHARACTERS)} "
            "Give a name such as 'anthropic:claude-haiku-4-5', and the provider's key in its environment variable."
        ) from None
    async with model:  # closes its connections
        yield ProvidedModel(name, model, max_tokens or _REPLY_TOKENS)


class ProvidedModel:
    """A model of a provider."""

    can_call = True

    def __init__(self, name: str, model: Provided, max_tokens: int) -> None:
        self.name = name
        self._model = model
        # The agent tries again itself, and tells the person so.
        self._settings = ModelSettings(
            max_tokens=max_tokens, request_timeout=_REQUEST_SECONDS, max_retries=0, cache=True
        )

    async def reply(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """See `Model.reply`."""
        tools = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
            for tool in request.tools
        ]
        try:
            async with model_request_stream(
                self._model,
                self._written(request),
                model_settings=self._settings,
                model_request_parameters=ModelRequestParameters(function_tools=tools),
                instrument=False,
            ) as stream:
                async for event in stream:
                    if text := _text_of(event):
                        yield text
                yield self._read(stream.get())
        except exceptions.AgentRunError as error:
            raise _translated(error, self.name) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # of an SDK that was sent another shape
            raise ModelError(
                f"{self.name} sent what is no reply ({type(error).__name__}). Check agent.url, or try again."
            ) from error

    def _written(self, request: ModelRequest) -> list[messages.ModelMessage]:
        written: list[messages.ModelMessage] = []
        for message in request.messages:
            if isinstance(message, ModelMessage):
                written.append(self._own(message))
            else:
                written.append(messages.ModelRequest(parts=_parts(message), instructions=request.system))
        return written

    def _own(self, message: ModelMessage) -> messages.ModelResponse:
        """A reply as the provider gave it, thoughts and signatures included; of another model, its words and calls."""
        if message.native and message.source == self.name:
            try:
                (response,) = messages.ModelMessagesTypeAdapter.validate_json(message.native)
            except (ValidationError, ValueError):  # another version of the adapter wrote it
                response = None
            if isinstance(response, messages.ModelResponse):
                return response
        parts: list[messages.ModelResponsePart] = [messages.TextPart(message.text)] if message.text else []
        parts += [
            messages.ToolCallPart(tool_name=use.name, args=use.arguments, tool_call_id=use.id) for use in message.uses
        ]
        return messages.ModelResponse(parts=parts)

    def _read(self, response: messages.ModelResponse) -> ModelReply:
        message = ModelMessage(
            text="".join(part.content for part in response.parts if isinstance(part, messages.TextPart)),
            uses=tuple(_use(part) for part in response.parts if isinstance(part, messages.ToolCallPart)),
            native=messages.ModelMessagesTypeAdapter.dump_json([response]).decode(),
            source=self.name,
        )
        stop = _STOPS.get(response.finish_reason or "", "end")
        return ModelReply(message=message, usage=_usage(response), stop=stop)


def _parts(message: Message) -> list[messages.ModelRequestPart]:
    if isinstance(message, UserMessage):
        return [messages.UserPromptPart(message.text)]
    assert isinstance(message, ToolMessage)
    return [
        messages.ToolReturnPart(
            tool_name=answer.name,
            content=answer.text,
            tool_call_id=answer.id,
            outcome="failed" if answer.is_error else "success",
        )
        for answer in message.answers
    ]


def _text_of(event: object) -> str:
    """The text that an event of a stream adds."""
    if isinstance(event, messages.PartStartEvent) and isinstance(event.part, messages.TextPart):
        return event.part.content
    if isinstance(event, messages.PartDeltaEvent) and isinstance(event.delta, messages.TextPartDelta):
        return event.delta.content_delta
    return ""


def _use(part: messages.ToolCallPart) -> ToolUse:
    given, unreadable = part.args or {}, ""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError as error:
            given, unreadable = {}, f"The arguments are not JSON: {error}. Give one object."
    if not isinstance(given, dict):
        given, unreadable = {}, f"The arguments are {type(given).__name__}. Give one object."
    return ToolUse(id=part.tool_call_id, name=part.tool_name, arguments=given, unreadable=unreadable)


def _usage(response: messages.ModelResponse) -> ModelUsage:
    counted = response.usage
    try:
        usd = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # of a model without a known price
        usd = None
    return ModelUsage(
        input_tokens=counted.input_tokens,
        cached_tokens=counted.cache_read_tokens,
        output_tokens=counted.output_tokens,
        usd=usd,
    )


def _translated(error: exceptions.AgentRunError, name: str) -> ModelError:
    said = short(str(error), _REASON_CHARACTERS)
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        return ModelRejected(f"{name} refused the request: {said} Check the key, the model's name and its limits.")
    later = (
        exceptions.ModelRateLimitError,
        exceptions.ModelUnavailableError,
        exceptions.ModelServerError,
        exceptions.ModelConnectionError,
        exceptions.ModelRequestTimeout,
    )
    if isinstance(error, later):
        wait = getattr(error, "retry_after", None)
        return ModelUnavailable(f"{name} did not reply: {said} Try again later.", retry_seconds=wait)
    return ModelError(f"{name} gave no usable reply: {said} Try again, or use another model.")
