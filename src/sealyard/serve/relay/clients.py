"""The owners of links. No client ever receives another's requests, log or progress.

A client of the handshake's era has a connection, and its `Session` holds links of its own that end with it. A modern
client has none: its requests lease links from the `Pool`, which never shares one between principals, nor between kinds
of client that the upstream could take for each other, and lends it to one request alone when the upstream could send
something that names no request.
"""

import asyncio
import json
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions, DispatchContext, Outbound, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
)
from mcp_types import methods as wire
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sealyard.errors import UpstreamUnavailable
from sealyard.serve.relay.border import Screen
from sealyard.serve.relay.bulk import Json
from sealyard.serve.relay.links import ENVELOPE_KEYS, Front, Gone, Hello, Link, Links, untracked
from sealyard.serve.relay.subscriptions import FLAGS, follow
from sealyard.values.tools import UpstreamConfig

Context = ServerRequestContext[Any, Any]

_SESSION = "sealyard.relay"
BACK_CHANNELS = {"sampling": "sampling/createMessage", "elicitation": "elicitation/create", "roots": "roots/list"}
"""The requests that a client can answer, by capability."""

_HOLD_SECONDS = 600.0  # for a person to answer; then the held call is cancelled


class Reply:
    """The stream of the answer to one request, and what else rides on it.

    The answer waits until the rest is sent: the SDK's transports drop everything still under way after it.
    """

    def __init__(self, channel: DispatchContext[TransportContext]) -> None:
        self._channel = channel
        self._under_way = 0
        self._settled = anyio.Event()

    async def ask(self, method: str, params: Json, on_progress: ProgressFnT | None) -> Json:
        """Have the client answer a request."""
        return await _ask(self._channel, method, params, on_progress)

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        with self._sending():
            await self._channel.notify(method, params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress, if the client asked for it."""
        with self._sending():
            await self._channel.progress(progress, total, message)

    async def settle(self) -> None:
        """Return when nothing is under way."""
        while self._under_way:
            self._settled = anyio.Event()
            await self._settled.wait()

    @contextmanager
    def _sending(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._settled.set()


async def _ask(channel: Outbound, method: str, params: Json, on_progress: ProgressFnT | None) -> Json:
    options: CallOptions | None = {"on_progress": on_progress} if on_progress else None
    return await channel.send_raw_request(method, params, options)


class Session:
    """A client of the handshake's era, for as long as its connection lasts."""

    def __init__(
        self,
        links: Links,
        upstreams: Mapping[str, UpstreamConfig],
        connection: Connection,
        hello: Hello,
        principal: str,
    ) -> None:
        self._links = links
        self._principal = principal
        self._upstreams = upstreams
        self._connection = connection
        self._open: dict[str, Link] = {}
        self._opening = {name: anyio.Lock() for name in upstreams}
        self._running: list[Reply] = []
        self._watches: dict[str, anyio.CancelScope] = {}
        self.hello = hello
        self.log_level = "info"
        """The level requested from a modern upstream: its era logs only on request, the client's era always."""

    async def link(self, name: str) -> Link:
        """This client's link to the upstream, opened anew if it is gone."""
        async with self._opening[name]:
            link = self._open.get(name)
            if link is None or link.over.is_set():
                link = self._open[name] = await self._links.open(
                    self._upstreams[name], self.hello, self._principal, self
                )
                if link.modern:
                    flags = dict.fromkeys(FLAGS, True)
                    self._links.start_soon(self._follow, link, flags, anyio.CancelScope(), anyio.Event())
        return link

    def current(self) -> list[Link]:
        """The links that are open now."""
        return [link for link in self._open.values() if not link.over.is_set()]

    @asynccontextmanager
    async def serving(self, reply: Reply) -> AsyncIterator[None]:
        """Send what an upstream asks and logs meanwhile along with the answer to this request."""
        self._running.append(reply)
        try:
            yield
        finally:
            self._running.remove(reply)
            await reply.settle()

    async def ask(self, method: str, params: Json, on_progress: ProgressFnT | None) -> Json:
        """Have the client answer, on the newest request it waits for, else on its standing stream."""
        if self._running:
            answer = await self._running[-1].ask(method, params, on_progress)
        else:
            answer = await _ask(self._connection.outbound, method, params, on_progress)
        return await self._links.screen_of(self._principal).answer(answer)

    async def notify(self, method: str, params: Json) -> None:
        """Pass a notification on; a log entry goes along with the newest request, news on the standing stream."""
        if method == "notifications/message" and self._running:
            await self._running[-1].notify(method, params)
        else:
            await self._connection.notify(method, params or None)

    async def watch(self, link: Link, uri: str) -> None:
        """Follow a resource of an upstream that knows no `resources/subscribe`; returns when its stream stands."""
        self._watches[uri], opened = anyio.CancelScope(), anyio.Event()
        self._links.start_soon(self._follow, link, {"resourceSubscriptions": [uri]}, self._watches[uri], opened)
        await opened.wait()

    def unwatch(self, uri: str) -> None:
        """Stop following it."""
        if (scope := self._watches.pop(uri, None)) is not None:
            scope.cancel()

    async def _follow(self, link: Link, wanted: Json, scope: anyio.CancelScope, opened: anyio.Event) -> None:
        async def emit(method: str, params: Json) -> None:
            await self.notify(method, {key: value for key, value in params.items() if key != "_meta"})

        try:
            with scope:
                await follow(link, wanted, self.hello.envelope(), opened=lambda _: opened.set(), emit=emit)
        except MCPError:
            pass  # the upstream offers no such stream, or is gone: the client asks again when it needs to
        finally:
            opened.set()

    async def close(self) -> None:
        """End this client's links."""
        for uri in tuple(self._watches):
            self.unwatch(uri)
        async with anyio.create_task_group() as closing:
            for link in self._open.values():
                closing.start_soon(link.close)


class Exchange:
    """One modern request: its stream carries the upstream's log if it asked for one; it takes no requests."""

    def __init__(self, reply: Reply, meta: Json) -> None:
        self.reply: Reply | None = reply
        self.log_level: str | None = meta.get(LOG_LEVEL_META_KEY)

    async def ask(self, method: str, params: Json, on_progress: ProgressFnT | None) -> Json:
        """Refuse: the modern era has no requests to the client."""
        raise MCPError(METHOD_NOT_FOUND, "The client cannot be asked during this request.", method)

    async def notify(self, method: str, params: Json) -> None:
        """Pass on a log entry that was asked for; other news has its own stream."""
        if method == "notifications/message" and self.log_level is not None and self.reply is not None:
            await self.reply.notify(method, params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress to the open request; between rounds there is none."""
        if self.reply is not None:
            await self.reply.progress(progress, total, message)


class Pool:
    """Links for clients without a connection of their own."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._buckets: dict[tuple[str, str, str], _Bucket] = {}
        self._meeting: dict[str, anyio.Lock] = defaultdict(anyio.Lock)

    @asynccontextmanager
    async def lease(
        self, config: UpstreamConfig, hello: Hello, principal: str, front: Front | None
    ) -> AsyncIterator[Link]:
        """A link for one request: with a `front` for it alone, else for all that have none."""

        def is_free(link: Link) -> bool:
            return link.front is None and (front is None or link.sharers == 0)

        async with self._use(config, hello, principal, is_free) as link:
            link.front = front
            link.sharers += front is None
            try:
                yield link
            finally:
                link.front = None
                link.sharers -= front is None

    def attach(self, config: UpstreamConfig, hello: Hello, principal: str) -> AbstractAsyncContextManager[Link]:
        """Any link, in use or not: to read the upstream's capabilities and to receive its changes."""
        return self._use(config, hello, principal, lambda _: True)

    @asynccontextmanager
    async def _use(
        self, config: UpstreamConfig, hello: Hello, principal: str, is_free: Callable[[Link], bool]
    ) -> AsyncIterator[Link]:
        if config.name not in self._links.modern:
            await self._meet(config, hello, principal)
        bucket = self._bucket(config.name, hello, principal)
        async with bucket.lock:
            free = (link for link in bucket.links if not link.over.is_set() and is_free(link))
            link = next(free, None) or await self._open(config, hello, principal)
            link.users += 1
        try:
            yield link
        finally:
            link.users -= 1

    async def is_modern(self, config: UpstreamConfig, hello: Hello, principal: str) -> bool:
        """True if the upstream speaks the client's era; connects to it if that is unknown."""
        if config.name not in self._links.modern:
            await self._meet(config, hello, principal)
        return self._links.modern[config.name]

    async def _meet(self, config: UpstreamConfig, hello: Hello, principal: str) -> None:
        """Learn the upstream's era from a first link, which stays."""
        async with self._meeting[config.name]:
            if config.name not in self._links.modern:
                await self._open(config, hello, principal)

    def _bucket(self, name: str, hello: Hello, principal: str) -> "_Bucket":
        # A modern upstream learns the client with every request; an older one once, in the handshake.
        kind = "" if self._links.modern[name] else client_key(hello)
        return self._buckets.setdefault((name, principal, kind), _Bucket())

    async def _open(self, config: UpstreamConfig, hello: Hello, principal: str) -> Link:
        await self._make_room(config.name, principal)
        link = await self._links.open(config, hello, principal, None)
        bucket = self._bucket(config.name, hello, principal)
        bucket.links.append(link)
        self._links.start_soon(self._expire, bucket, link)
        return link

    async def _make_room(self, name: str, principal: str) -> None:
        """Close idle links until the principal may open one: of whoever has the most, those that were idle longest.

        Those of a principal with fewer links stay.
        """
        while not self._links.has_room(name, principal):
            held = self._links.held(name)
            links = [link for key, bucket in self._buckets.items() if key[0] == name for link in bucket.links]
            idle = [link for link in links if link.users == 0 and not link.over.is_set()]
            idle = [link for link in idle if held[link.screen.principal] >= held[principal]]
            if not idle:
                return
            await min(idle, key=lambda link: (-held[link.screen.principal], link.used_at)).close()

    async def _expire(self, bucket: "_Bucket", link: Link) -> None:
        """Close the link after its idle time without use, and forget it when it is closed."""
        uses = -1
        while not link.over.is_set() and (link.users > 0 or link.uses != uses):
            uses = link.uses
            with anyio.move_on_after(link.config.idle_seconds):
                await link.over.wait()
        bucket.links.remove(link)
        await link.close()
        for key in [key for key, known in self._buckets.items() if known is bucket and not bucket.links]:
            del self._buckets[key]


class _Bucket:
    def __init__(self) -> None:
        self.links: list[Link] = []
        self.lock = anyio.Lock()


class HeldCall(Exchange):
    """A modern client's call to an upstream of the handshake's era, which may ask for input while it runs.

    A question ends the client's round, as the client's era wants it; the call waits for the round that brings the
    answer.
    """

    def __init__(self, reply: Reply, meta: Json, hello: Hello) -> None:
        super().__init__(reply, meta)
        self._answerable = {question for kind, question in BACK_CHANNELS.items() if kind in hello.capabilities}
        self.questions: dict[str, Json] = {}
        self.scope = anyio.CancelScope()
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._asked = 0
        self._outcome: Json | Exception | None = None
        self._changed = asyncio.Event()

    async def run(self, work: Callable[["HeldCall"], AbstractAsyncContextManager[Json]]) -> None:
        """Carry the call out; its outcome is for `round`."""
        with self.scope:
            try:
                async with work(self) as result:
                    self._outcome = result
            except Exception as error:  # noqa: BLE001 - raised in `round`, where the client waits
                self._outcome = error
        if self._outcome is None:
            self._outcome = MCPError(INTERNAL_ERROR, "The call was given up while it waited for its client.")
        self._changed.set()

    async def round(self, reply: Reply) -> Json | None:
        """The call's result, or `None` as soon as it has questions for the client."""
        self.reply = reply
        try:
            while self._outcome is None and not self.questions:
                self._changed.clear()
                await self._changed.wait()
        except asyncio.CancelledError:
            self.scope.cancel()  # the client left: so does its call
            raise
        finally:
            self.reply = None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def ask(self, method: str, params: Json, on_progress: ProgressFnT | None) -> Json:
        """Put a question into the client's next round and wait for the round that answers it."""
        if method not in self._answerable:
            return await super().ask(method, params, on_progress)
        try:
            wire.parse_server_request(method, LATEST_HANDSHAKE_VERSION, params)
        except ValidationError as error:
            raise MCPError(INVALID_PARAMS, "The question is malformed.") from error
        self._asked += 1
        key = f"input-{self._asked}"
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[key] = answered
        self.questions[key] = {"method": method, "params": params}
        self._changed.set()
        try:
            return await answered
        finally:
            del self._answers[key]
            self.questions.pop(key, None)

    def answer(self, responses: Json) -> None:
        """Hand over what the client said; questions it left out stay open."""
        for key in [key for key in self.questions if isinstance(responses.get(key), dict)]:
            del self.questions[key]
            if not self._answers[key].done():  # such as given up in this very turn
                self._answers[key].set_result(responses[key])


class HeldCalls:
    """The calls that wait for their clients, each under a state that cannot be guessed and serves its client only."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._calls: dict[str, tuple[object, HeldCall, asyncio.TimerHandle]] = {}

    async def carry(
        self,
        owner: object,
        params: Json,
        hello: Hello,
        reply: Reply,
        work: Callable[[HeldCall], AbstractAsyncContextManager[Json]],
    ) -> Json:
        """One round of a call: its first, or one that brings answers to its questions.

        Raises:
            MCPError: The state names no call of this client that waits.
        """
        state = params.get("requestState")
        if state is None:
            call = HeldCall(reply, params.get("_meta") or {}, hello)
            self._links.start_soon(call.run, work)
        else:
            held = self._calls.get(state)
            if held is None or held[0] != owner:
                raise MCPError(INVALID_PARAMS, "No call waits for this state. Make the call again without it.")
            _, call, timer = self._calls.pop(state)
            timer.cancel()
            call.answer(params.get("inputResponses") or {})
        result = await call.round(reply)
        return result if result is not None else self._hold(owner, call)

    def _hold(self, owner: object, call: HeldCall) -> Json:
        state = secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._give_up, state)
        self._calls[state] = (owner, call, timer)
        return {"resultType": "input_required", "inputRequests": dict(call.questions), "requestState": state}

    def _give_up(self, state: str) -> None:
        _, call, _ = self._calls.pop(state)
        call.scope.cancel()


def client_key(hello: Hello) -> str:
    """The identity of a kind of client: its info and its capabilities."""
    return json.dumps([hello.info, hello.capabilities], sort_keys=True)


# One request of one client to one upstream, and its result back


class Carrier:
    """Knows every client and gives each request the link it may have."""

    def __init__(
        self,
        upstreams: Mapping[str, UpstreamConfig],
        links: Links,
        principal: Callable[[Context], str],
        reaches: Callable[[str, str], bool],
    ) -> None:
        """`reaches` is that of the border."""
        self._upstreams = upstreams
        self._links = links
        self._principal = principal
        self._reaches = reaches
        self._pool = Pool(links)
        self._held = HeldCalls(links)

    async def ask(
        self, ctx: Context, upstream: str, method: str, params: Json, headers: dict[str, str] | None = None
    ) -> Json:
        """The upstream's result, as the client may see it.

        Raises:
            MCPError: The upstream answered with an error or cannot be reached.
        """
        try:
            self._check(ctx, upstream)
            if is_modern(ctx):
                return await self._ask_for_modern(ctx, upstream, method, params, headers)
            return await self._ask_for_session(ctx, upstream, method, params, headers)
        except UpstreamUnavailable as error:
            raise Gone(INTERNAL_ERROR, await self.screen(ctx).words(upstream, str(error))) from error

    async def _ask_for_session(
        self, ctx: Context, upstream: str, method: str, params: Json, headers: dict[str, str] | None
    ) -> Json:
        session, reply = self.session(ctx), reply_to(ctx)
        link = await session.link(upstream)
        params = _params_for(link, params, session.hello, session.log_level)
        on_progress = reply.progress if progress_token_from_params(ctx.params) is not None else None
        async with session.serving(reply):
            while True:
                result = await link.request(
                    method, params, on_progress=on_progress, headers=headers, client_version=ctx.protocol_version
                )
                if not (link.modern and wire.is_input_required(result)):
                    return result
                params = {**params, **await _answers(session, result)}

    async def _ask_for_modern(
        self, ctx: Context, upstream: str, method: str, params: Json, headers: dict[str, str] | None
    ) -> Json:
        config, hello, principal = self._upstreams[upstream], hello_of(ctx), self._principal(ctx)
        reply = reply_to(ctx)
        wants_progress = progress_token_from_params(ctx.params) is not None
        may_ask = bool(BACK_CHANNELS.keys() & hello.capabilities.keys())
        may_ask = may_ask and not await self._pool.is_modern(config, hello, principal)

        @asynccontextmanager
        async def work(exchange: Exchange) -> AsyncIterator[Json]:
            front = exchange if may_ask or exchange.log_level is not None else None
            async with self._pool.lease(config, hello, principal, front) as link:
                await _set_level(link, exchange.log_level)
                on_progress = exchange.progress if wants_progress else None
                sent = _params_for(link, params, hello)
                yield await link.request(
                    method, sent, on_progress=on_progress, headers=headers, client_version=ctx.protocol_version
                )

        if may_ask and method in wire.INPUT_REQUIRED_METHODS:
            owner = (upstream, method, params.get("name", params.get("uri")), principal, client_key(hello))
            result = await self._held.carry(owner, params, hello, reply, work)
        else:
            async with work(Exchange(reply, params.get("_meta") or {})) as answer:
                result = answer
        await reply.settle()
        return result

    @asynccontextmanager
    async def link(self, ctx: Context, upstream: str) -> AsyncIterator[Link]:
        """The link to look at an upstream by, or to follow its changes."""
        self._check(ctx, upstream)
        if not is_modern(ctx):
            yield await self.session(ctx).link(upstream)
            return
        async with self._pool.attach(self._upstreams[upstream], hello_of(ctx), self._principal(ctx)) as link:
            yield link

    def reaches(self, ctx: Context, upstream: str) -> bool:
        """True if it is known that the client may use something of the upstream."""
        return self._reaches(upstream, self._principal(ctx))

    def _check(self, ctx: Context, upstream: str) -> None:
        """Raise `UpstreamUnavailable`, which does not name the upstream, unless the client may use it."""
        if not self.reaches(ctx, upstream):
            raise UpstreamUnavailable("The upstream of this has not listed its tools yet. Try again later.")

    def screen(self, ctx: Context) -> Screen:
        """The screen between the request's principal and the upstreams."""
        return self._links.screen_of(self._principal(ctx))

    def session(self, ctx: Context) -> Session:
        """The session of a client of the handshake's era."""
        session: Session | None = connection_of(ctx).state.get(_SESSION)
        return session or self.greet(ctx, {"protocolVersion": ctx.protocol_version})

    def find_session(self, ctx: Context) -> Session | None:
        """The same, if the client has one."""
        return connection_of(ctx).state.get(_SESSION)

    def greet(self, ctx: Context, params: Json) -> Session:
        """Begin a session that ends with the client's connection."""
        connection = connection_of(ctx)
        hello = Hello(params, modern=False, initialized=connection.initialized)
        session = connection.state[_SESSION] = Session(
            self._links, self._upstreams, connection, hello, self._principal(ctx)
        )
        connection.exit_stack.push_async_callback(session.close)
        return session


def is_modern(ctx: Context) -> bool:
    """True if the client speaks the era without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def hello_of(ctx: Context) -> Hello:
    """Return the introduction of a modern request's client."""
    meta = (ctx.params or {}).get("_meta") or {}
    capabilities, info = meta.get(CLIENT_CAPABILITIES_META_KEY), meta.get(CLIENT_INFO_META_KEY)
    return Hello({"capabilities": capabilities, "clientInfo": info}, modern=True)


def connection_of(ctx: Context) -> Connection:
    """The connection a request came on. The SDK keeps state and clean-up there but gives handlers no way to it."""
    return ctx.session._connection  # noqa: SLF001


def reply_to(ctx: Context) -> Reply:
    """The stream of a request's answer. The SDK's own access is typed, which would drop unknown fields."""
    return Reply(ctx.session._request_outbound)  # noqa: SLF001


async def _answers(session: Session, result: Json) -> Json:
    """The answers of a handshake-era client to the questions of a modern result."""
    questions = result.get("inputRequests") or {}
    given = {key: await session.ask(one["method"], one.get("params") or {}, None) for key, one in questions.items()}
    state = result.get("requestState")
    return {"inputResponses": given, **({} if state is None else {"requestState": state})}


async def _set_level(link: Link, level: str | None) -> None:
    if level is not None and not link.modern and link.log_level != level and "logging" in link.capabilities:
        await link.request("logging/setLevel", {"level": level})
        link.log_level = level


def _params_for(link: Link, params: Json, hello: Hello, log_level: str | None = None) -> Json:
    """A client's parameters in the era of the link."""
    params = untracked(params)
    meta = params.pop("_meta", None) or {}
    if not link.modern:
        meta = {key: value for key, value in meta.items() if key not in ENVELOPE_KEYS}
    elif not hello.modern:
        meta = {**meta, **hello.envelope(), LOG_LEVEL_META_KEY: log_level}
    return {**params, "_meta": meta} if meta else params
