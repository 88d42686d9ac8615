"""Carrying one request of one client to one upstream and its result back, whatever the two eras are."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    LOG_LEVEL_META_KEY,
)
from mcp_types import methods as wire
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sealyard.errors import UpstreamUnavailable
from sealyard.serve.relay.border import Json, Screen
from sealyard.serve.relay.links import ENVELOPE_KEYS, Gone, Hello, Link, Links, untracked
from sealyard.serve.relay.owners import BACK_CHANNELS, Exchange, HeldCalls, Pool, Reply, Session, client_key
from sealyard.serve.relay.routes import LISTS
from sealyard.values import UpstreamConfig

Context = ServerRequestContext[Any, Any]

_SESSION = "sealyard.relay"


class Carrier:
    """Knows every client and gives each request the link it may have."""

    def __init__(
        self, upstreams: Mapping[str, UpstreamConfig], links: Links, principal: Callable[[Context], str]
    ) -> None:
        self._upstreams = upstreams
        self._links = links
        self._principal = principal
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
                seconds = _patience(link, method)
                result = await link.request(
                    method,
                    params,
                    on_progress=on_progress,
                    headers=headers,
                    seconds=seconds,
                    client_version=ctx.protocol_version,
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
                sent, seconds = _params_for(link, params, hello), _patience(link, method)
                yield await link.request(
                    method,
                    sent,
                    on_progress=on_progress,
                    headers=headers,
                    seconds=seconds,
                    client_version=ctx.protocol_version,
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
        if not is_modern(ctx):
            yield await self.session(ctx).link(upstream)
            return
        async with self._pool.attach(self._upstreams[upstream], hello_of(ctx), self._principal(ctx)) as link:
            yield link

    def screen(self, ctx: Context) -> Screen:
        """What stands between the request's principal and the upstreams."""
        return self._links.screens.of(self._principal(ctx))

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
    """Whether the client speaks the era without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def hello_of(ctx: Context) -> Hello:
    """How a modern request introduces its client."""
    meta = (ctx.params or {}).get("_meta") or {}
    capabilities, info = meta.get(CLIENT_CAPABILITIES_META_KEY), meta.get(CLIENT_INFO_META_KEY)
    return Hello({"capabilities": capabilities, "clientInfo": info}, modern=True)


def connection_of(ctx: Context) -> Connection:
    """The connection a request came on. The SDK keeps state and clean-up there but gives handlers no way to it."""
    return ctx.session._connection  # noqa: SLF001


def reply_to(ctx: Context) -> Reply:
    """The stream of a request's answer. The SDK offers only typed access, which would drop what it does not know."""
    return Reply(ctx.session._request_outbound)  # noqa: SLF001


async def _answers(session: Session, result: Json) -> Json:
    """What a client of the handshake's era says to the questions of a modern result."""
    asked = result.get("inputRequests") or {}
    given = {key: await session.ask(one["method"], one.get("params") or {}, None) for key, one in asked.items()}
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


def _patience(link: Link, method: str) -> float | None:
    # A call may wait for a person; a list that hangs would hold up those of the other upstreams.
    return link.config.call_seconds if method in LISTS else None
