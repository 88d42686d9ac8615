"""MCP over streamable HTTP at `/mcp`, `/api/v1` for programs and people, and two small answers for who watches it.

Every request passes the gate first, which see.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sealyard.broker import policy
from sealyard.broker.policy import Preset
from sealyard.config.settings import HttpConfig
from sealyard.errors import InvalidConfig, InvalidRequest
from sealyard.offload import Offload
from sealyard.serve.bodies import BoundedBodies
from sealyard.serve.gate import Gate

__all__ = ("build_app", "default_preset", "open_http", "parse_address")

_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened at


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or a port alone on loopback. Raises `InvalidRequest`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequest(f"{text!r} is no address to listen at. Give one such as 127.0.0.1:8321.")
    return host, int(port)


def default_preset(address: tuple[str, int] | None, settings: HttpConfig) -> Preset:
    """What the policy is if the config names none: `open` where only this machine can reach the gateway.

    That is standard input and output, and loopback. Behind a proxy, whose name is then in `http.allowed_hosts`, a
    gateway that listens on loopback can be reached from elsewhere all the same.
    """
    hosts = [] if address is None else [address[0], *map(_bare_host, settings.allowed_hosts)]
    return policy.default_preset(is_local=all(map(_is_loopback, hosts)))


def build_app(
    server: Server[Any],
    settings: HttpConfig,
    *,
    host: str,
    sandbox: "asyncio.Future[Any] | None",
    routes: Sequence[Route] = (),
    operator_key: str | None = None,
    offload: Offload | None = None,
) -> Gate:
    """The whole HTTP side over an MCP server; `sandbox` is done when code can be run, and None where none is.

    `offload` looks at large bodies before they are decoded.

    Whoever logs in with `operator_key` may see what all do, and answer for them.

    Raises:
        InvalidConfig: A token that the config asks for is not set.
    """
    hosts = [*_own_names(host), *settings.allowed_hosts]
    origins = [f"{scheme}://{name}" for name in _own_names(host) for scheme in ("http", "https")]
    origins += settings.allowed_origins
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )
    app: Starlette = server.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=security,
        max_request_body_size=settings.max_request_bytes,
        custom_starlette_routes=[Route("/healthz", _healthy), Route("/readyz", _readiness(sandbox)), *routes],
    )
    bounded = BoundedBodies(app, offload, path="/mcp", most_bytes=settings.max_request_bytes)
    return Gate(bounded, settings, hosts=hosts, origins=origins, operator_key=operator_key)


def _readiness(sandbox: "asyncio.Future[Any] | None") -> Callable[[Request], Awaitable[Response]]:
    """Answers whether code can be run: 200 when the sandbox stands, 503 with the reason when it does not."""

    async def ready(request: Request) -> Response:
        reason = None
        if sandbox is not None:
            if not sandbox.done():
                reason = "The sandbox is being built."
            elif sandbox.cancelled() or sandbox.exception() is not None:
                reason = str("The gateway is closing." if sandbox.cancelled() else sandbox.exception())
        if reason is not None:
            return JSONResponse({"ready": False, "reason": reason}, status_code=503)
        return JSONResponse({"ready": True})

    return ready


@contextlib.asynccontextmanager
async def open_http(
    server: Server[Any],
    settings: HttpConfig,
    *,
    address: tuple[str, int],
    sandbox: "asyncio.Future[Any] | None",
    routes: Sequence[Route] | None = None,
    operator_key: str | None = None,
    offload: Offload | None = None,
) -> AsyncIterator[tuple[str, "_Uvicorn"]]:
    """Listen at `address`; gives the URL of `/mcp` and the server to be awaited.

    `routes` are those of `/api/v1` and the dashboard. None is for a server that tells no principals apart, as in proxy
    mode: a config that gives one a scope is refused then.

    Raises:
        InvalidConfig: The address is not loopback and the config names no token, or it names a scope in proxy mode.
        InvalidRequest: The address cannot be listened at.
    """
    host, port = address
    if not settings.clients() and not _is_loopback(host):
        raise InvalidConfig(
            f"{host!r} can be reached from other machines, and no token is set. Set SEALYARD_TOKEN or http.token, or "
            "listen at 127.0.0.1."
        )
    limited = [scope.name for scope in settings.scopes().values() if scope.upstreams is not None or scope.level]
    if routes is None and limited:
        raise InvalidConfig(
            f"http.principals.{limited[0]} has a scope, and proxy mode passes everything on to everybody. Serve in "
            "another mode, or take its upstreams and level out."
        )
    if host in _ANY and not settings.allowed_hosts:
        raise InvalidConfig(
            f"{host!r} is every address of this machine. Say in http.allowed_hosts by which names clients reach it."
        )
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        raise InvalidRequest(f"{host}:{port} cannot be listened at: {error.strerror or error}. Use another.") from None
    with listener:
        # asyncio sets it for sockets of its own alone; without it small answers wait for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        app = build_app(
            server,
            settings,
            host=host,
            sandbox=sandbox,
            routes=routes or (),
            operator_key=operator_key,
            offload=offload,
        )
        config = uvicorn.Config(
            app,
            log_config=None,  # what it says goes the way of all we say, where private values are replaced
            log_level="warning",
            lifespan="on",
            http="h11",  # the other one takes headers of any length
            ws="none",
            server_header=False,
            access_log=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=75,
        )
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{listener.getsockname()[1]}/mcp", _Uvicorn(config, listener, app.closing)


class _Uvicorn(uvicorn.Server):
    """A server that leaves signals to whoever started it. `closing` is set when it begins to end."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._listener = listener
        self._closing = closing

    async def run_until_cancelled(self) -> None:
        """Serve; a cancellation ends it once requests under way have had a moment."""
        serving = asyncio.create_task(self.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._closing.set()  # who streams would hold it up
            self.should_exit = True
            await asyncio.wait({serving})
            raise

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _healthy(request: Request) -> Response:
    return JSONResponse({"healthy": True})


def _own_names(host: str) -> list[str]:
    """What a client on this machine, or the one address listened at, is called in a Host header."""
    names = ["127.0.0.1", "localhost", "[::1]"] if _is_loopback(host) else []
    own = f"[{host}]" if ":" in host else host
    if own not in names and host not in _ANY:
        names.append(own)
    return [form for name in names for form in (name, f"{name}:*")]


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
