"""Models: whatever replies to a conversation. `open_model` opens one of a provider, by its name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from sealyard.errors import InvalidRequest
from sealyard.values.chat import ModelReply, ModelRequest


class Model(Protocol):
    """Replies to conversations. Two are here: those of providers, and the script of the demo."""

    @property
    def name(self) -> str:
        """The name beside figures, such as `anthropic:claude-haiku-4-5`."""

    @property
    def can_call(self) -> bool:
        """True if the model calls tools. One that does not writes code in a fenced block instead."""

    def reply(self, request: ModelRequest, /) -> AsyncIterator[str | ModelReply]:
        """Yields pieces of text as they come, and at the end the whole reply.

        Raises:
            ModelError: There is no reply; the class says whether another attempt may help.
        """


@asynccontextmanager
async def open_model(
    name: str, *, url: str | None = None, key: str | None = None, max_tokens: int | None = None
) -> AsyncIterator[Model]:
    """The model of a provider: `anthropic:NAME`, `openai:NAME`, `openai-chat:NAME` or `google:NAME`.

    `openai-chat` speaks Chat Completions, as local servers do. `url` is another address than the provider's, and `key`
    another key than that of the environment.

    Raises:
        InvalidRequest: There is no such provider, its package is not installed, or there is no key.
    """
    try:
        from sealyard.agent.providers import open_provider  # noqa: PLC0415 - of the extra `agent`
    except ImportError as error:
        raise InvalidRequest(
            f"Models of providers need the extra 'agent' ({error.name} is not installed). "
            "Install it with `pip install 'sealyard[agent]'`."
        ) from None
    async with open_provider(name, url=url, key=key, max_tokens=max_tokens) as model:
        yield model
