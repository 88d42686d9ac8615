"""MCP over streamable HTTP at `/mcp`, `/api/v1` for programs and people, and two health checks.

Every request passes the `Gate` first.
"""

import asyncio
import contextlib
import functools
import ipaddress
import math
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sealyard.broker import policy
from sealyard.broker.policy import Preset
from sealyard.config.settings import HttpConfig
from sealyard.errors import InvalidConfig, InvalidRequest
from sealyard.observe.health import Readiness
from sealyard.offload import Offload
from sealyard.serve.compression import Compressed
from sealyard.serve.connections import Entrance, HttpConnection, most_connections, raise_open_files
from sealyard.serve.gate import BoundedBodies, Gate

_BACKLOG = 2_048  # a spike of new clients waits for its turn; beyond it the kernel lets them try again
_LAST_SECONDS = 5  # for requests under way when the server ends: within the ten that `docker stop` waits
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened at


def default_preset(address: tuple[str, int] | None, settings: HttpConfig) -> Preset:
    """The policy if the config names none: `open` where only this machine can reach the gateway.

    That means standard input and output, and loopback. Behind a proxy, whose name is in `http.allowed_hosts`, other
    machines reach a gateway that listens on loopback.
    """
    hosts = [] if address is None else [address[0], *map(_bare_host, settings.allowed_hosts)]
    return policy.default_preset(is_local=all(map(_is_loopback, hosts)))


def build_app(
    server: Server[Any],
    settings: HttpConfig,
    *,
    address: tuple[str, int],
    readiness: Readiness | None,
    routes: Sequence[Route] = (),
    profiles: Collection[str] = (),
    operator_key: str | None = None,
    offload: Offload | None = None,
) -> Gate:
    """Build the whole HTTP side over an MCP server that clients reach at `address`, and at `/mcp/p/NAME` there.

    `offload` checks large bodies before they are decoded. A login with `operator_key` may observe and approve for
    everybody. Without `readiness` there is no `/readyz`.

    Raises:
        InvalidConfig: A token that the config asks for is not set.
    """
    own = _own_hosts(*address)
    hosts = [*own, *settings.allowed_hosts]
    origins = [*(f"http://{each}" for each in own), *settings.allowed_origins]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )
    watched = [] if readiness is None else [Route("/readyz", _readiness_endpoint(readiness))]
    app: Starlette = server.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=security,
        max_request_body_size=settings.max_request_bytes,
        custom_starlette_routes=[Route("/healthz", _healthy), *watched, *routes],
    )
    bounded = BoundedBodies(app, offload, path="/mcp", most_bytes=settings.max_request_bytes)
    most = most_connections(settings)
    inner: ASGIApp = _Direct(bounded, routes)
    return Gate(
        Compressed(inner) if settings.compress else inner,
        settings,
        hosts=hosts,
        origins=origins,
        most=most,
        profiles=profiles,
        operator_key=operator_key,
    )


class _Direct:
    """Dispatches exact paths without Starlette's router, which gets all other requests."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._routes = {
            (route.path, method): route.app
            for route in reversed(routes)  # the first of several counts
            if route.app is route.endpoint and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        app = self._routes.get((scope["path"], scope["method"])) if scope["type"] == "http" else None
        await (app or self._app)(scope, receive, send)


def _readiness_endpoint(readiness: Readiness) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of readiness: 200 if every part of the gateway works, else 503 with the reasons."""

    async def ready(request: Request) -> Response:
        parts = await readiness.look()
        reasons = [part.reason for part in parts.values() if part.reason is not None]
        body: dict[str, Any] = {"ready": not reasons, "parts": msgspec.to_builtins(parts)}
        if reasons:
            body["reason"] = " ".join(reasons)
        return JSONResponse(body, status_code=503 if reasons else 200)

    return ready


@contextlib.asynccontextmanager
async def open_http(
    server: Server[Any],
    settings: HttpConfig,
    *,
    address: tuple[str, int],
    readiness: Readiness | None,
    routes: Sequence[Route] = (),
    profiles: Collection[str] = (),
    operator_key: str | None = None,
    offload: Offload | None = None,
) -> AsyncIterator[tuple[str, "_Uvicorn"]]:
    """Listen at `address`; gives the URL of `/mcp` and the server to be awaited.

    `routes` are those of `/api/v1` and the dashboard.

    Raises:
        InvalidConfig: The address is not loopback and the config names no token.
        InvalidRequest: The address cannot be listened at.
    """
    host, port = address
    _check(host, settings)
    raise_open_files()
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
        )
    except OSError as error:
        raise InvalidRequest(f"{host}:{port} cannot be listened at: {error.strerror or error}. Use another.") from None
    with listener, contextlib.nullcontext() if readiness is None else readiness.watched():
        # asyncio sets it for sockets of its own alone; without it small answers wait for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # An acknowledgement that never comes holds a descriptor for a quarter of an hour otherwise.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(settings.answer_seconds * 1000))
        reached = host, listener.getsockname()[1]
        app = build_app(
            server,
            settings,
            address=reached,
            readiness=readiness,
            routes=routes,
            profiles=profiles,
            operator_key=operator_key,
            offload=offload,
        )
        config = uvicorn.Config(
            app,
            log_config=None,  # its lines go through our own handlers, which conceal private values
            log_level="warning",
            lifespan="on",
            http="h11",  # the other one takes headers of any length
            ws="none",
            server_header=False,
            access_log=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
            timeout_keep_alive=math.ceil(settings.idle_seconds),
        )
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{reached[1]}/mcp", _Uvicorn(config, listener, settings, app.closing)


def _check(host: str, settings: HttpConfig) -> None:
    """Raise `InvalidConfig` for what must not be served at this address."""
    if not settings.clients() and not _is_loopback(host):
        raise InvalidConfig(
            f"{host!r} can be reached from other machines, and no token is set. Set SEALYARD_TOKEN or http.token, or "
            "listen at 127.0.0.1."
        )
    if host in _ANY and not settings.allowed_hosts:
        raise InvalidConfig(
            f"{host!r} is every address of this machine. Say in http.allowed_hosts by which names clients reach it."
        )


class _Uvicorn(uvicorn.Server):
    """A server that leaves signals to its starter. `closing` is set when it begins to end."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, settings: HttpConfig, closing: asyncio.Event
    ) -> None:
        super().__init__(config)
        self._entrance = Entrance(listener, settings, self.server_state)
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, which uvicorn itself does without a bound."""
        await super().startup(sockets=[])
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        self._entrance.open(functools.partial(HttpConnection, **state))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open connections finish."""
        self._entrance.close()
        await super().shutdown(sockets=[])

    async def run_until_cancelled(self) -> None:
        """Serve; a cancellation ends it once requests under way have had a moment."""
        serving = asyncio.create_task(self.serve())
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._closing.set()  # open streams would hold it up
            self.should_exit = True
            await asyncio.wait({serving})
            raise

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _healthy(request: Request) -> Response:
    return JSONResponse({"healthy": True})


def _own_hosts(host: str, port: int) -> list[str]:
    """The Host headers of clients that reach this very port: by a name of loopback, or by the address listened at."""
    names = ["127.0.0.1", "localhost", "[::1]"] if _is_loopback(host) else []
    own = f"[{host}]" if ":" in host else host
    if own not in names and host not in _ANY:
        names.append(own)
    return [*(f"{name}:{port}" for name in names), *(names if port == 80 else ())]


def _bare_host(pattern: str) -> str:
    """The host in a Host header, or in a pattern for one: without its port."""
    host = pattern.rpartition(":")[0] if re.search(r":(\*|\d+)$", pattern) else pattern
    return host.removeprefix("[").removesuffix("]")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
