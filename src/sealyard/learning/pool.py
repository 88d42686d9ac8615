"""Lets the pool of waiting workers follow what was asked for lately."""

import asyncio
import time
from collections.abc import Callable, Mapping

from sealyard.learning.learner import Model
from sealyard.learning.resources import wanted
from sealyard.sandbox.run import Sandbox


class PoolFollowing:
    """Tells the sandbox, once it is there, what `models` say; by partition, as `Learner.models` holds them."""

    def __init__(
        self,
        sandbox: "asyncio.Future[Sandbox] | None",
        models: Callable[[], Mapping[str, Model]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sandbox = sandbox
        self._models = models
        self._clock = clock

    async def follow(self) -> None:
        """Have another look; every few seconds will do. It takes well under a millisecond."""
        opening = self._sandbox
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return
        sandbox = opening.result()
        models = self._models()
        # What is shared by all holds what the other partitions hold.
        asked = [models[""]] if "" in models else list(models.values())
        found = wanted([model.resources.demand for model in asked], now=self._clock(), offered=sandbox.packages.imports)
        sandbox.follow(found.size, found.packages)
