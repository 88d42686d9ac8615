"""Opens an agent, and the yard that it works in."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sealyard.agent.agent import Agent
from sealyard.agent.models import Model, open_model
from sealyard.config import Config, load_config
from sealyard.errors import InvalidConfig
from sealyard.yard import Yard, open_yard


@asynccontextmanager
async def open_agent(
    config: Config | None = None, *, model: Model | str | None = None, yard: Yard | None = None
) -> AsyncIterator[Agent]:
    """An agent of the config; without one, of the `sealyard.toml` that is found as by `sealyard serve`.

    `model` is one of your own, or the name of a provider's, in place of `agent.model`. `yard` is one that is open
    already, with this config; otherwise the agent opens one and closes it.

    Raises:
        InvalidConfig: No model is named, or the config asks for something that is not available.
        InvalidRequest: The model cannot be opened.
        StoreError: The store cannot be used.
    """
    config = config or load_config(None)
    settings = config.agent
    chosen = model or settings.model
    if chosen is None:
        raise InvalidConfig(
            "agent.model names no model. Set it, such as 'anthropic:claude-haiku-4-5', or give `model`."
        )
    async with AsyncExitStack() as stack:
        if isinstance(chosen, str):
            opening = open_model(chosen, url=settings.url, key=settings.api_key, max_tokens=settings.reply_tokens)
            chosen = await stack.enter_async_context(opening)
        if yard is None:
            yard = await stack.enter_async_context(open_yard(config))
        yield Agent(yard, chosen, settings, config.surface)
