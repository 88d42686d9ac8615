"""Following an upstream's changes: `subscriptions/listen` of the modern era and its counterpart before."""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_from_wire, event_matches
from mcp_types import INTERNAL_ERROR, SubscriptionFilter

from sealyard.errors import UpstreamUnavailable
from sealyard.serve.relay.bulk import Json
from sealyard.serve.relay.links import Link

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
    stream = _ModernStream(link, wanted, meta, opened) if link.modern else _HandshakeStream(link, wanted, opened)
    link.listeners.append(stream.hear)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.drive)
            async for method, params in stream.frames:
                await emit(method, await link.screen.notification(link.config.name, method, params))
            tasks.cancel_scope.cancel()
    finally:
        link.listeners.remove(stream.hear)
        stream.close()
        await stream.leave()
    if stream.error is not None:
        raise stream.error


class _Stream:
    def __init__(self, link: Link, wanted: Json, opened: Callable[[Json], None]) -> None:
        self.link = link
        self.wanted = wanted
        self.opened = opened
        self.error: MCPError | None = None
        self._inlet, self.frames = anyio.create_memory_object_stream[tuple[str, Json]](_WAITING_FRAMES)

    async def drive(self) -> None:
        """Keep the stream open; its end is the stream's end."""
        try:
            await self.subscribe()
        except MCPError as error:
            self.error = error
        self._inlet.close()

    async def subscribe(self) -> None:
        """Open the stream and return when it is over."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Undo what outlives the stream."""

    def hear(self, method: str, params: Json) -> bool:
        """Take a notification that belongs to this stream; True if no other listener may have it."""
        raise NotImplementedError

    def queue(self, method: str, params: Json) -> None:
        """Keep a frame for the client. One that does not read loses the stream: it listens again and fetches anew."""
        try:
            self._inlet.send_nowait((method, params))
        except anyio.WouldBlock:
            self.error = MCPError(INTERNAL_ERROR, "The client did not read its subscription; listen again and refetch.")
            self._inlet.close()
        except anyio.ClosedResourceError:
            pass  # the stream is over already

    def close(self) -> None:
        self._inlet.close()
        self.frames.close()


class _ModernStream(_Stream):
    """The upstream's own stream, identified on the link by the id of its request."""

    def __init__(self, link: Link, wanted: Json, meta: Json, opened: Callable[[Json], None]) -> None:
        super().__init__(link, wanted, opened)
        self._meta = meta
        self._id = f"relay-{next(_numbers)}"

    async def subscribe(self) -> None:
        params = {"notifications": self.wanted, "_meta": self._meta}
        await self.link.request("subscriptions/listen", params, request_id=self._id)

    def hear(self, method: str, params: Json) -> bool:
        meta = params.get("_meta")
        if not isinstance(meta, dict) or meta.get(SUBSCRIPTION_ID_META_KEY) != self._id:
            return False
        if method == "notifications/subscriptions/acknowledged":
            self.opened(params.get("notifications") or {})
        else:
            self.queue(method, params)
        return True


class _HandshakeStream(_Stream):
    """The notifications of an upstream that knows no streams, as far as the filter wants them."""

    def __init__(self, link: Link, wanted: Json, opened: Callable[[Json], None]) -> None:
        super().__init__(link, wanted, opened)
        offers = link.capabilities
        honored: Json = {
            flag: True for flag, kind in FLAGS.items() if wanted.get(flag) and _says(offers, kind, "listChanged")
        }
        if wanted.get("resourceSubscriptions") and _says(offers, "resources", "subscribe"):
            honored["resourceSubscriptions"] = list(wanted["resourceSubscriptions"])
        self._honored = honored
        self._filter = SubscriptionFilter.model_validate(honored)
        self._uris: list[str] = []

    async def subscribe(self) -> None:
        for uri in self._honored.get("resourceSubscriptions", ()):
            await self.link.request("resources/subscribe", {"uri": uri})
            self.link.watched[uri] += 1
            self._uris.append(uri)
        self.opened(self._honored)
        await self.link.over.wait()
        raise MCPError(INTERNAL_ERROR, f"The upstream {self.link.config.name!r} went away; listen again and refetch.")

    async def leave(self) -> None:
        self.link.watched.subtract(self._uris)
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
            for uri in self._uris:
                if self.link.watched[uri] == 0 and not self.link.over.is_set():
                    await self._unsubscribe(uri)

    async def _unsubscribe(self, uri: str) -> None:
        try:
            await self.link.request("resources/unsubscribe", {"uri": uri})
        except MCPError:
            pass  # its notifications find no stream any more

    def hear(self, method: str, params: Json) -> bool:
        event = event_from_wire(method, params)
        if event is not None and event_matches(self._filter, frozenset(self._uris), event):
            self.queue(method, params)
        return False


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
