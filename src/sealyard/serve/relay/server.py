"""The `proxy` mode: upstream servers passed through to clients as if the gateway were not there.

Requests, results and notifications are relayed as the JSON they came as, in the era of the protocol the client speaks;
what one era lacks is carried by what the other has. One upstream keeps its own names and capabilities. Several are
merged: tools and prompts get their full names, resources go to the upstream that listed them.

Each call of a tool is an execution of its own, which goes through the broker. A refusal becomes a result that the model
can read; the upstream's own errors pass through unchanged.
"""

import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import CallNext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import mcp_param_headers, validate_mcp_param_headers, x_mcp_header_map
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import methods as wire
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sealyard import __version__
from sealyard.broker import Attempts, OpenCall, Passage
from sealyard.broker.upstreams.mcp import Transport
from sealyard.errors import SealyardError, StoreError, ToolFailed, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from sealyard.offload import short_work
from sealyard.serve.cursors import to_cursor
from sealyard.serve.dialogue import Asking, principal_of
from sealyard.serve.relay.border import Screen
from sealyard.serve.relay.bulk import BulkServer, Json, measured, small
from sealyard.serve.relay.clients import Carrier, Context, connection_of, is_modern, reply_to
from sealyard.serve.relay.concealment import loosened
from sealyard.serve.relay.forms import finished, sieved
from sealyard.serve.relay.links import Link, Links, untracked
from sealyard.serve.relay.routes import LISTS, Routes, hints, merged_capabilities, opened_cursor
from sealyard.serve.relay.subscriptions import FLAGS, follow_all
from sealyard.values.access import Grant
from sealyard.values.tools import ToolSpec, UpstreamConfig
from sealyard.yard import Border

logger = logging.getLogger(__name__)

_GREETING_SECONDS = 5.0  # a slow upstream must not hold up the client's handshake
_MOST_PAGES = 100  # of a list that the relay reads itself: an upstream's cursors could go on for ever
_ITEMS_AT_ONCE = 20  # of a list, checked or written before other tasks get a turn: about 5 ms
_ROUNDS_KEPT = 1_000  # bounds the memory for clients that never come back

_Round = tuple[str, str, str, str | None]


def build_relay(
    upstreams: Mapping[str, UpstreamConfig],
    border: Border,
    *,
    connect: Callable[[UpstreamConfig], Transport],
    name: str = "sealyard",
    version: str = __version__,
    principal: Callable[[Context], str] = principal_of,
    place: str = "",
    is_same_for_all: bool = True,
    is_shared: bool = False,
) -> Server[Any]:
    """A server that relays `upstreams`; its lifespan opens and closes the connections to them.

    Everything crosses `border`. `connect` makes a transport of the SDK's kind. `principal` returns a request's
    principal: no two principals share a connection or a token. `place` is that of a profile's sessions.
    Without `is_same_for_all` no result may be kept for other clients: at the same URL they get something else.
    With `is_shared` no principal can take all links to an upstream.
    """

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[_Relay]:
        async with anyio.create_task_group() as tasks:
            routes = Routes(upstreams)
            screens = cache(partial(Screen, border.guards, routes, place=place))
            links = Links(connect, tasks, screens, is_shared=is_shared)
            carrier = Carrier(upstreams, links, principal, border.reaches)
            try:
                yield _Relay(upstreams, links, carrier, routes, border, server, is_same_for_all=is_same_for_all)
            finally:
                with anyio.CancelScope(shield=True):
                    await links.close()
                tasks.cancel_scope.cancel()

    # The schemas that headers are checked against are the upstreams': the relay asks for them itself, and once.
    server = BulkServer(name, version=version, lifespan=lifespan, get_tool_input_schema=lambda _: None)
    for method, (params_type, relayed) in _METHODS.items():
        server.add_request_handler(method, params_type, _handler(relayed))
    server.middleware.append(_around)
    return server


def _handler(relayed: Callable[["_Relay", Context], Awaitable[Json]]) -> Callable[[Context, Any], Awaitable[Json]]:
    async def handle(ctx: Context, _: Any) -> Json:
        # The parameters are valid by now, and taken from the context: the typed ones lack what the SDK does not know.
        relay: _Relay = ctx.lifespan_context
        return await relay.answer(ctx, relayed)

    return handle


async def _around(ctx: Context, call_next: CallNext) -> Any:
    """Mirrors the upstreams in the handshake, and carries what the server itself has no handler for."""
    relay: _Relay = ctx.lifespan_context
    if ctx.request_id is not None:
        await relay.screen(ctx).refresh()
    if ctx.method == "initialize":
        return await relay.initialize(ctx, await call_next(ctx))
    if ctx.request_id is None:
        await relay.notified(ctx)
    elif relay.is_foreign(ctx):
        return relay.signed(ctx, await relay.answer(ctx, _Relay.foreign))
    return await call_next(ctx)


class _Relay:
    """The answers of a running server, method by method."""

    def __init__(
        self,
        upstreams: Mapping[str, UpstreamConfig],
        links: Links,
        carrier: Carrier,
        routes: Routes,
        border: Border,
        server: Server[Any],
        *,
        is_same_for_all: bool,
    ) -> None:
        self._is_same_for_all = is_same_for_all
        self._upstreams = upstreams
        self._links = links
        self._carrier = carrier
        self.screen = carrier.screen
        self._routes = routes
        self._border = border
        self._broker = border.broker
        self._asking = Asking(lambda: border.approvals)
        self._rounds: OrderedDict[_Round, OpenCall] = OrderedDict()
        """Calls that wait for their client's next round. They are already allowed, with exactly these arguments."""
        self._server = server
        self._only = next(iter(upstreams)) if len(upstreams) == 1 else None

    # The border, where every request of a client crosses it

    async def answer(self, ctx: Context, relayed: Callable[["_Relay", Context], Awaitable[Json]]) -> Json:
        """Return the answer of `relayed` to the request with its tokens revealed."""
        screen = self.screen(ctx)
        is_standing = ctx.method == "subscriptions/listen"
        with nullcontext() if is_standing else screen.sending():
            if ctx.params is not None:
                ctx = replace(ctx, params=await screen.params(ctx.method, ctx.params))
            try:
                result = await relayed(self, ctx)
                if not self._is_same_for_all and "cacheScope" in result:
                    result = {**result, "cacheScope": "private"}
                return small(finished(result, ctx.method, ctx.protocol_version))
            except UpstreamUnavailable as error:
                raise MCPError(types.INTERNAL_ERROR, await screen.words("", str(error))) from None

    # The greeting, in both eras

    async def initialize(self, ctx: Context, result: Any) -> Any:
        """The server's own greeting with what the upstreams offer in it."""
        self._carrier.greet(ctx, {**(ctx.params or {}), "protocolVersion": result["protocolVersion"]})
        return {**result, **self._offers(await self._reachable(ctx))}

    async def discover(self, ctx: Context) -> Json:
        """The upstreams' capabilities, for a modern client."""
        links = await self._reachable(ctx)
        own = self._server.get_capabilities(protocol_version=ctx.protocol_version)
        return {
            "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
            "capabilities": own.model_dump(by_alias=True, mode="json", exclude_none=True),
            **self._offers(links),
            **hints(link.greeting for link in links),
        }

    async def _reachable(self, ctx: Context) -> list[Link]:
        """The links that open soon enough. The others go on opening: their upstreams join when they are asked."""
        if not self._upstreams:
            return []
        found: dict[str, Link] = {}
        waiting = set(self._upstreams)
        over = anyio.Event()

        async def reach(name: str) -> None:
            try:
                async with self._carrier.link(ctx, name) as link:
                    found[name] = link
            except (MCPError, UpstreamUnavailable) as error:
                logger.warning("%s", error)
            waiting.discard(name)
            if not waiting:
                over.set()

        for name in self._upstreams:
            self._links.start_soon(reach, name)
        with anyio.move_on_after(_GREETING_SECONDS):
            await over.wait()
        return [found[name] for name in self._upstreams if name in found]

    def _offers(self, links: list[Link]) -> Json:
        if not links:
            return {}  # no upstream is reachable: the relay's own capabilities stay
        if self._only is not None:
            # The SDK's shapes know no tasks: one could be begun and its result not delivered.
            offers = {key: value for key, value in links[0].capabilities.items() if key != "tasks"}
            instructions = links[0].instructions
        else:
            offers = merged_capabilities(link.capabilities for link in links)
            said = ((link.config.name, link.instructions) for link in links)
            instructions = "\n\n".join(f"{name}: {words}" for name, words in said if words)
        return {"capabilities": offers, **({"instructions": instructions} if instructions else {})}

    # Lists

    async def list_page(self, ctx: Context) -> Json:
        """One page of a list. Several upstreams follow each other in the order of the configuration."""
        params = dict(ctx.params or {})
        if self._only is not None:
            page = await self._carrier.ask(ctx, self._only, ctx.method, params)
            is_first = "cursor" not in params
            await self._routes.admit(ctx.method, ctx.protocol_version, self._only, page, is_first=is_first)
            return await self._packed(ctx, await self._shown(ctx, ctx.method, self._only, page))
        names = list(self._upstreams)
        if not names:  # such as for a principal whose profile has none of its own
            return {LISTS[ctx.method][1]: [], **hints(())}
        first, cursor = opened_cursor(params.pop("cursor", None), names)
        if cursor is None:
            await self._reachable(ctx)
        pages: list[Json] = []
        for name in names[names.index(first) :]:
            page = await self._page(ctx, ctx.method, name, cursor)
            cursor = page.get("nextCursor")
            pages.append(page)
            if cursor is not None:
                break
        key = LISTS[ctx.method][1]
        going_on = {} if cursor is None else {"nextCursor": to_cursor(name, cursor)}
        answered = [page for page in pages if page]
        merged = {key: [item for page in answered for item in page[key]], **going_on, **hints(answered)}
        return await self._packed(ctx, merged)

    async def _packed(self, ctx: Context, page: Json) -> Json:
        """A long page with its items as JSON already: the SDK would go over all of them at once."""
        key = LISTS[ctx.method][1]
        if len(page[key]) <= _ITEMS_AT_ONCE:
            return page
        parts: list[bytes] = []
        for start in range(0, len(page[key]), _ITEMS_AT_ONCE):
            async with short_work():
                some = finished({key: page[key][start : start + _ITEMS_AT_ONCE]}, ctx.method, ctx.protocol_version)
                parts += map(msgspec.json.encode, sieved(some, ctx.method, ctx.protocol_version)[key])
        return {**page, key: msgspec.Raw(b"[%b]" % b",".join(parts))}

    async def _page(self, ctx: Context, method: str, upstream: str, cursor: str | None) -> Json:
        """A page of one of several upstreams; empty if it has no such list or cannot be asked now."""
        meta = untracked(ctx.params).get("_meta")
        params = {**({"_meta": meta} if meta else {}), **({} if cursor is None else {"cursor": cursor})}
        try:
            async with self._carrier.link(ctx, upstream) as link:
                if LISTS[method][0] not in link.capabilities:
                    return {}
            page = await self._carrier.ask(ctx, upstream, method, params)
        except (MCPError, UpstreamUnavailable) as error:
            logger.warning("A list goes without upstream %r: %s", upstream, error)
            return {}
        await self._routes.admit(method, ctx.protocol_version, upstream, page, is_first=cursor is None)
        return await self._shown(ctx, method, upstream, page)

    async def _shown(self, ctx: Context, method: str, upstream: str, page: Json) -> Json:
        """A page as the principal may see it, once the way back from its items is known."""
        screen = self.screen(ctx)
        if method == "resources/list":
            return await screen.resources(upstream, page)
        if method == "tools/list":
            if self._border.names is not None and (snapshot := self._routes.complete()) is not None:
                await self._border.names.log(snapshot, ())
            tools = [tool for tool in page["tools"] if not self._is_hidden(screen.principal, tool["name"])]
            if len(tools) < len(page["tools"]) and "cacheScope" in page:
                page = {**page, "cacheScope": "private"}
            if not screen.guard.is_off:
                tools = [
                    {**tool, "outputSchema": loosened(tool["outputSchema"])} if "outputSchema" in tool else tool
                    for tool in tools
                ]
            return {**page, "tools": tools}
        return page

    def _is_hidden(self, principal: str, name: str) -> bool:
        found = self._routes.find("tools/list", name)
        spec = None if found is None else self._routes.find_spec(*found)
        return spec is not None and self._border.policy.is_hidden(spec, principal)

    async def _read_lists(self, ctx: Context, methods: Iterable[str], upstreams: Iterable[str]) -> None:
        """Learn the names in whole lists."""
        for method, upstream in ((method, upstream) for method in methods for upstream in upstreams):
            cursor = None
            for _ in range(_MOST_PAGES):
                cursor = (await self._page(ctx, method, upstream, cursor)).get("nextCursor")
                if cursor is None:
                    break

    async def _find(self, ctx: Context, method: str, name: str) -> tuple[str, str]:
        """The upstream that listed a name or an address, and its name there."""
        if (found := self._routes.find(method, name)) is None:
            lists = ["resources/list", "resources/templates/list"] if method == "resources/list" else [method]
            await self._read_lists(ctx, lists, list(self._upstreams))
            found = self._routes.find(method, name)
        if found is None or not self._carrier.reaches(ctx, found[0]):  # another principal may have had it listed
            kind = {"name": "name", "uri": "address", "uriTemplate": "template"}[LISTS[method][2]]
            name = name if kind == "name" else await self.screen(ctx).address(name)  # it is revealed by now
            data = None if kind == "name" else {"uri": name}
            raise MCPError(types.INVALID_PARAMS, f"No upstream lists the {kind} {name!r}.", data)
        return found

    # Methods that name an upstream

    async def call_tool(self, ctx: Context) -> Json:
        params = dict(ctx.params or {})
        async with self._execution(self.screen(ctx), params) as call:
            upstream, spec = await self._name(ctx, call, params)
            given = params.get("arguments") or {}
            self._check_headers(ctx, spec, given)
            real = await call.screen.arguments(spec, given)
            if given:
                params["arguments"] = real
            headers = None
            if real and self._upstreams[upstream].transport == "http":
                headers = mcp_param_headers(x_mcp_header_map(spec.input_schema), real)
            async with self._admitted(ctx, call, real) as attempts:
                async for attempt in attempts:
                    with _attempting(attempt, spec):
                        call.result = await self._carrier.ask(ctx, upstream, ctx.method, params, headers)
        return call.result

    @asynccontextmanager
    async def _execution(self, screen: Screen, params: Json) -> AsyncIterator["_Call"]:
        """One call of a client, which is recorded, on disk, when this is left. The body sets its `result`.

        If the call is refused, the refusal is its result.

        Raises:
            MCPError: The upstream answered with an error, or the call could not be recorded.
        """
        grant = Grant(execution_id=secrets.token_hex(8), principal=screen.principal, session=screen.session, tools={})
        # Of Python's own library: it writes every number that it has read.
        wrote = json.dumps({name: params.get(name) for name in ("name", "arguments")}, ensure_ascii=False)
        visit = self._border.begin(screen.principal)
        try:
            async with self._border.recorder.open(grant, screen.guard, form="proxy", wrote=wrote, visit=visit) as run:
                call = _Call(screen, run.passage, await screen.leaving(params.get("arguments") or {}))
                try:
                    yield call
                    call.note_result()
                    run.finish("ok", call.text)
                except MCPError as error:
                    call.fail(f"MCPError: {error.message}")
                    if not call.has_tool:
                        await self._broker.note_unknown(run.passage, str(params["name"]), error.message)
                    raise
                except SealyardError as error:
                    safe = await screen.error_of(error)
                    text = f"{type(safe).__name__}: {safe}"
                    call.fail(text, safe)
                    call.result = {"content": [{"type": "text", "text": text}], "isError": True}
                    run.finish("failed", text)
                finally:
                    if call.has_tool:
                        call.opened.finish()
        except StoreError as error:
            raise MCPError(types.INTERNAL_ERROR, f"{type(error).__name__}: {error}") from error

    async def _name(self, ctx: Context, call: "_Call", params: Json) -> tuple[str, ToolSpec]:
        """The upstream and the tool that a call means, which `params` then name as the upstream does."""
        name = params["name"]
        upstream, params["name"] = await self._find(ctx, "tools/list", name)
        if self._routes.find_spec(upstream, params["name"]) is None:
            await self._read_lists(ctx, ["tools/list"], [upstream])
        spec = self._routes.find_spec(upstream, params["name"]) or self._routes.bare_spec(upstream, params["name"])
        call.name(spec, params.get("arguments") or {})
        is_configured = self._routes.is_configured(upstream, params["name"])
        if not is_configured or self._border.policy.is_hidden(spec, call.screen.principal):
            raise MCPError(types.INVALID_PARAMS, f"No upstream lists the name {name!r}.")
        return upstream, spec

    @asynccontextmanager
    async def _admitted(self, ctx: Context, call: "_Call", real: Json) -> AsyncIterator[Attempts]:
        """The attempts of a call, once it is allowed with the revealed arguments.

        Raises:
            PolicyRefused: A rule or a person said no; nothing was sent.
            LimitReached: The tool was called too often, or its server fails.
        """
        opened, params = call.opened, ctx.params or {}
        key = (call.screen.session, opened.spec.full_name, self._broker.digest(opened.written, real))
        earlier = None
        if params.get("inputResponses") is not None:
            earlier = self._rounds.pop((*key, params.get("requestState")), None)
        async with AsyncExitStack() as stack:
            if not is_modern(ctx):  # there, a round that ends in our question would look like one of the upstream's
                dialogue = await stack.enter_async_context(self._asking.dialogue(ctx))
                stack.enter_context(dialogue.channel(opened.grant.execution_id))
            await self._broker.decide(opened, real, is_private=call.screen.is_private, earlier=earlier)
        try:
            async with self._broker.turn(opened) as attempts:
                yield attempts
        except _Answered as answered:
            raise answered.error from None
        if wire.is_input_required(call.result):
            self._rounds[(*key, call.result.get("requestState"))] = opened
            while len(self._rounds) > _ROUNDS_KEPT:
                self._rounds.popitem(last=False)

    def _check_headers(self, ctx: Context, spec: ToolSpec, arguments: Json) -> None:
        """A modern client's headers that repeat arguments must agree with them."""
        if not is_modern(ctx) or ctx.request is None or not spec.input_schema:
            return
        rejection = validate_mcp_param_headers(spec.input_schema, arguments, ctx.request.headers)
        if rejection is not None:
            raise MCPError(rejection.code, rejection.message, rejection.data)

    async def read(self, ctx: Context) -> Json:
        """A prompt, or a resource's contents."""
        params = dict(ctx.params or {})
        method, field = ("prompts/list", "name") if ctx.method == "prompts/get" else ("resources/list", "uri")
        upstream, params[field] = await self._find(ctx, method, params[field])
        return await self._carrier.ask(ctx, upstream, ctx.method, params)

    async def subscribe(self, ctx: Context) -> Json:
        """The beginning or the end of following a resource, in the handshake's era."""
        params = dict(ctx.params or {})
        upstream, _ = await self._find(ctx, "resources/list", params["uri"])
        session = self._carrier.session(ctx)
        async with self._carrier.link(ctx, upstream) as link:
            if not link.modern:
                return await self._carrier.ask(ctx, upstream, ctx.method, params)
            session.unwatch(params["uri"])
            if ctx.method == "resources/subscribe":
                await session.watch(link, params["uri"])
            return {}

    async def complete(self, ctx: Context) -> Json:
        """Completion of an argument of a prompt or of a resource template."""
        params = dict(ctx.params or {})
        ref = params["ref"] = dict(params["ref"])
        method, field = ("prompts/list", "name") if ref["type"] == "ref/prompt" else ("resources/templates/list", "uri")
        upstream, ref[field] = await self._find(ctx, method, ref[field])
        return await self._carrier.ask(ctx, upstream, ctx.method, params)

    # Methods for all upstreams

    async def set_level(self, ctx: Context) -> Json:
        """Set the level of the log at every upstream that has one."""
        session = self._carrier.session(ctx)
        session.log_level = (ctx.params or {})["level"]
        for link in await self._reachable(ctx):
            if not link.modern and ("logging" in link.capabilities or self._only is not None):
                await self._carrier.ask(ctx, link.config.name, ctx.method, dict(ctx.params or {}))
        return {}

    async def listen(self, ctx: Context) -> Json:
        """One stream of changes, fed by those of the upstreams it concerns."""
        reply, stamp = reply_to(ctx), {SUBSCRIPTION_ID_META_KEY: ctx.request_id}

        async def emit(method: str, params: Json) -> None:
            await reply.notify(method, {**params, "_meta": {**(params.get("_meta") or {}), **stamp}})

        async def opened(honored: Json) -> None:
            method, params = "notifications/subscriptions/acknowledged", {"notifications": honored}
            await emit(method, await self.screen(ctx).notification("", method, params))

        parts = await self._parts(ctx, (ctx.params or {})["notifications"])
        meta = untracked(ctx.params).get("_meta") or {}
        errors = await follow_all(parts, lambda name: self._carrier.link(ctx, name), meta, opened=opened, emit=emit)
        if errors and len(errors) == len(parts):
            raise errors[0]
        return {"_meta": stamp}

    async def _parts(self, ctx: Context, wanted: Json) -> dict[str, Json]:
        """The part of the filter for each upstream; an address that none lists is not followed."""
        flags = {flag: True for flag in FLAGS if wanted.get(flag)}
        parts: dict[str, Json] = {name: dict(flags) for name in self._upstreams if flags}
        for uri in wanted.get("resourceSubscriptions") or ():
            try:
                upstream, _ = await self._find(ctx, "resources/list", uri)
            except MCPError:
                continue
            part = parts.setdefault(upstream, {})
            part["resourceSubscriptions"] = [*part.get("resourceSubscriptions", ()), uri]
        return parts or ({} if self._only is None else {self._only: {}})

    async def notified(self, ctx: Context) -> None:
        """Passes a client's news on to its upstreams."""
        own = {"notifications/initialized", "notifications/cancelled", "notifications/progress"}
        session = self._carrier.find_session(ctx)
        if session is not None and ctx.method not in own:
            for link in session.current():
                if not link.modern:
                    await link.notify(ctx.method, untracked(ctx.params) or None)

    # Methods for a single upstream only

    def is_foreign(self, ctx: Context) -> bool:
        """True if this is a method of an extension, which goes to the only upstream unchanged."""
        known = ctx.method in wire.SPEC_CLIENT_METHODS or self._server.get_request_handler(ctx.method) is not None
        return not known and self._only is not None and connection_of(ctx).initialize_accepted

    async def foreign(self, ctx: Context) -> Json:
        assert self._only is not None
        return await self._carrier.ask(ctx, self._only, ctx.method, dict(ctx.params or {}))

    def signed(self, ctx: Context, result: Json) -> Json:
        """The result under this server's name, as the SDK signs those of its own handlers."""
        if not is_modern(ctx):
            return result
        stamp = {types.SERVER_INFO_META_KEY: self._server.server_info_stamp}
        return {**result, "_meta": {**(result.get("_meta") or {}), **stamp}}


class _Call:
    """One call of a client while it happens."""

    def __init__(self, screen: Screen, passage: Passage, arguments: Any) -> None:
        """`arguments` are concealed."""
        self.screen = screen
        self.result: Json = {}
        """The client's result."""
        self.text = ""
        """The result as the client reads it, without what is too large to be decoded."""
        self.has_tool = False
        """True once its tool is known: then it is `opened`."""
        self.opened: OpenCall
        self._passage = passage
        self._arguments = arguments

    def name(self, spec: ToolSpec, given: Json) -> None:
        """Set the tool. `given` are the arguments as the client sent them."""
        number = self._passage.number_next()
        self.opened = OpenCall(passage=self._passage, spec=spec, number=number, written=given)
        self.opened.arguments = self._arguments
        self.has_tool = True

    def note_result(self) -> None:
        """Record the concealed result. Raises `UpstreamError` if it is not JSON."""
        opened, result = self.opened, self.result
        try:
            rest, opened.answer_bytes = measured(result)
        except (TypeError, ValueError, RecursionError) as error:
            raise UpstreamError(
                f"{opened.spec.full_name!r} answered with something that is not JSON: {error}."
            ) from error
        self.text = rest.decode()
        opened.failure = None
        if result.get("isError") is True:
            blocks = result.get("content")
            blocks = blocks if isinstance(blocks, list) else []  # not of one that was too large to be decoded
            texts = [block.get("text") for block in blocks if isinstance(block, dict)]
            opened.failure = f"ToolFailed: {next((text for text in texts if isinstance(text, str)), '')}"

    def fail(self, text: str, error: SealyardError | None = None) -> None:
        """Record the reason why there is no result."""
        if self.has_tool:
            self.opened.failure, self.opened.error = text, error


@contextmanager
def _attempting(attempt: Attempts, spec: ToolSpec) -> Iterator[None]:
    """One attempt, in its time. An error in the upstream's answer shows that its server works."""
    with attempt:
        try:
            with anyio.fail_after(attempt.seconds):
                yield
        except TimeoutError:
            raise UpstreamTimeout(
                f"{spec.full_name!r} did not answer within {attempt.seconds:g} s; whether the call happened is unknown."
            ) from None
        except MCPError as error:
            if isinstance(error, UpstreamError):
                raise
            raise _Answered(error) from None


class _Answered(ToolFailed):
    """The upstream answered with an error of the protocol, so its server works."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(error.message)
        self.error = error


_METHODS: dict[str, tuple[type[Any], Callable[[_Relay, Context], Awaitable[Json]]]] = {
    "server/discover": (types.RequestParams, _Relay.discover),
    "tools/list": (types.PaginatedRequestParams, _Relay.list_page),
    "tools/call": (types.CallToolRequestParams, _Relay.call_tool),
    "prompts/list": (types.PaginatedRequestParams, _Relay.list_page),
    "prompts/get": (types.GetPromptRequestParams, _Relay.read),
    "resources/list": (types.PaginatedRequestParams, _Relay.list_page),
    "resources/templates/list": (types.PaginatedRequestParams, _Relay.list_page),
    "resources/read": (types.ReadResourceRequestParams, _Relay.read),
    "resources/subscribe": (types.SubscribeRequestParams, _Relay.subscribe),
    "resources/unsubscribe": (types.UnsubscribeRequestParams, _Relay.subscribe),
    "completion/complete": (types.CompleteRequestParams, _Relay.complete),
    "logging/setLevel": (types.SetLevelRequestParams, _Relay.set_level),
    "subscriptions/listen": (types.SubscriptionsListenRequestParams, _Relay.listen),
}
