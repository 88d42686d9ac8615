"""Following an upstream's changes: `subscriptions/listen` of the modern era and its counterpart before."""

import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_from_wire, event_matches
from mcp_types import INTERNAL_ERROR, SubscriptionFilter

from sealyard.errors import SealyardError, UpstreamUnavailable
from sealyard.serve.relay.bulk import Json
from sealyard.serve.relay.links import Link

logger = logging.getLogger(__name__)

FLAGS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
"""The parts of a filter that are a yes or no, and the capability each belongs to."""

_WAITING_FRAMES = 1024  # for a slow client, before it loses the stream
_LEAVE_SECONDS = 5.0  # for unsubscribing: a dead upstream must not hold up the end of the stream
_numbers = itertools.count(1)


async def follow(
    link: Link,
    wanted: Json,
    meta: Json,
    *,
    opened: Callable[[Json], None],
    emit: Callable[[str, Json], Awaitable[None]],
) -> None:
    """Emit the changes in `wanted` until the upstream ends the stream; `opened` gets the filter it agreed to.

    Raises:
        MCPError: The upstream refused, or the stream broke off.
    """
    frames = _Frames()

    async def drive() -> None:
        try:
            if link.modern:
                await _listen(link, wanted, meta, opened, frames.queue)
            else:
                await _subscribe(link, wanted, opened, frames.queue)
        except MCPError as error:
            frames.error = error
        frames.inlet.close()

    with frames.outlet, frames.inlet:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            async for method, params in frames.outlet:
                try:
                    shown = await link.screen.notification(link.config.name, method, params)
                except (MCPError, SealyardError) as error:
                    logger.warning("A change at upstream %r is withheld: %s", link.config.name, error)
                else:
                    await emit(method, shown)
            tasks.cancel_scope.cancel()
    if frames.error is not None:
        raise frames.error


class _Frames:
    """The notifications of one stream on their way to the client."""

    def __init__(self) -> None:
        self.error: MCPError | None = None
        """The reason why the stream broke off."""
        self.inlet, self.outlet = anyio.create_memory_object_stream[tuple[str, Json]](_WAITING_FRAMES)

    def queue(self, method: str, params: Json) -> None:
        """Keep a frame for the client. One that does not read loses the stream: it listens again and fetches anew."""
        try:
            self.inlet.send_nowait((method, params))
        except anyio.WouldBlock:
            self.error = MCPError(INTERNAL_ERROR, "The client did not read its subscription; listen again and refetch.")
            self.inlet.close()
        except anyio.ClosedResourceError:
            pass  # the stream is over already


@contextmanager
def _listener(link: Link, take: Callable[[str, Json], bool]) -> Iterator[None]:
    """While entered, `take` gets each notification of the link; True keeps it from other listeners."""
    link.listeners.append(take)
    try:
        yield
    finally:
        link.listeners.remove(take)


async def _listen(
    link: Link, wanted: Json, meta: Json, opened: Callable[[Json], None], queue: Callable[[str, Json], None]
) -> None:
    """Open the upstream's own stream, which the id of its request identifies; returns when it is over."""
    request_id = f"relay-{next(_numbers)}"

    def take(method: str, params: Json) -> bool:
        own = params.get("_meta")
        if not isinstance(own, dict) or own.get(SUBSCRIPTION_ID_META_KEY) != request_id:
            return False
        if method == "notifications/subscriptions/acknowledged":
            opened(params.get("notifications") or {})
        else:
            queue(method, params)
        return True

    with _listener(link, take):
        await link.request("subscriptions/listen", {"notifications": wanted, "_meta": meta}, request_id=request_id)


async def _subscribe(
    link: Link, wanted: Json, opened: Callable[[Json], None], queue: Callable[[str, Json], None]
) -> None:
    """Queue the wanted notifications of an upstream that knows no streams, until it goes away, which is an error."""
    offers = link.capabilities
    honored: Json = {
        flag: True for flag, kind in FLAGS.items() if wanted.get(flag) and _says(offers, kind, "listChanged")
    }
    if wanted.get("resourceSubscriptions") and _says(offers, "resources", "subscribe"):
        honored["resourceSubscriptions"] = list(wanted["resourceSubscriptions"])
    honored_filter = SubscriptionFilter.model_validate(honored)
    uris: list[str] = []

    def take(method: str, params: Json) -> bool:
        event = event_from_wire(method, params)
        if event is not None and event_matches(honored_filter, frozenset(uris), event):
            queue(method, params)
        return False

    try:
        with _listener(link, take):
            for uri in honored.get("resourceSubscriptions", ()):
                await link.request("resources/subscribe", {"uri": uri})
                link.watched[uri] += 1
                uris.append(uri)
            opened(honored)
            await link.over.wait()
            raise MCPError(INTERNAL_ERROR, f"The upstream {link.config.name!r} went away; listen again and refetch.")
    finally:
        await _unsubscribe(link, uris)


async def _unsubscribe(link: Link, uris: list[str]) -> None:
    """End the subscriptions to resources that no other stream follows."""
    link.watched.subtract(uris)
    with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
        for uri in uris:
            if link.watched[uri] == 0 and not link.over.is_set():
                # Without an answer too, its notifications find no stream any more.
                with suppress(MCPError):
                    await link.request("resources/unsubscribe", {"uri": uri})


def _says(capabilities: Json, kind: str, flag: str) -> bool:
    offer = capabilities.get(kind)
    return isinstance(offer, dict) and offer.get(flag) is True


async def follow_all(
    parts: Mapping[str, Json],
    lease: Callable[[str], AbstractAsyncContextManager[Link]],
    meta: Json,
    *,
    opened: Callable[[Json], Awaitable[None]],
    emit: Callable[[str, Json], Awaitable[None]],
) -> list[Exception]:
    """Follow several upstreams as one stream; returns the errors of those that failed.

    `opened` gets the combined filter once, before anything is emitted.
    """
    waiting = set(parts)
    honored: Json = {}
    errors: list[Exception] = []
    settled, announced = anyio.Event(), anyio.Event()
    if not parts:
        settled.set()

    def settle(name: str, part: Json) -> None:
        honored.update({flag: True for flag in FLAGS if part.get(flag)})
        if part.get("resourceSubscriptions"):
            honored["resourceSubscriptions"] = [
                *honored.get("resourceSubscriptions", ()),
                *part["resourceSubscriptions"],
            ]
        waiting.discard(name)
        if not waiting:
            settled.set()

    async def emit_after(method: str, params: Json) -> None:
        await announced.wait()
        await emit(method, params)

    async def follow_one(name: str, wanted: Json) -> None:
        try:
            async with lease(name) as link:
                await follow(link, wanted, meta, opened=lambda part: settle(name, part), emit=emit_after)
        except (MCPError, UpstreamUnavailable) as error:
            errors.append(error)
        settle(name, {})

    async with anyio.create_task_group() as tasks:
        for name, wanted in parts.items():
            tasks.start_soon(follow_one, name, wanted)
        await settled.wait()
        if not parts or len(errors) < len(parts):
            await opened(honored)
        announced.set()
    return errors
