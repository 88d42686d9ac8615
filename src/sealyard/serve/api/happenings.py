"""`/api/v1/events`: everything that happens in the gateway, as it happens."""

import time
from collections.abc import AsyncIterator

from sealyard.observe.live import LiveEvent
from sealyard.serve.api.declare import Call, Events, endpoint
from sealyard.serve.api.executions import NUMBERING
from sealyard.serve.api.streams import block, told
from sealyard.serve.gate import gate_of


@endpoint(
    "GET",
    "events",
    headers={"Last-Event-ID": "The id of the last event that was read: those after it are told, as far as kept."},
)
async def follow_gateway(call: Call[None, None]) -> Events:
    """What happens in all runs, as server-sent events: in one's own, or in everybody's for who may observe.

    `started`, `output`, `call`, `called`, `asked`, `answered`, `ended`, and `lagged` where some are missing.
    """
    return Events(blocks=_live(call))


async def _live(call: Call[None, None]) -> AsyncIterator[str]:
    last = call.request.headers.get("last-event-id")
    after = NUMBERING.read(last)
    if last and after is None:  # of a gateway before this one
        yield block(LiveEvent(number=0, at=time.time(), kind="lagged"), None)
    async with call.yard.live.follow(principal=call.whose, after=after) as events:
        async for each in told(events, NUMBERING, gate_of(call.request.scope).closing):
            yield each


ENDPOINTS = (follow_gateway,)
