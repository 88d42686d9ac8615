"""Carries messages to and from MCP servers over HTTP: streamable HTTP, and server-sent events as before 2025.

The SDK's transports speak the protocol. This module adds a bound on answers, keeps a connection after a failed request,
records whether the server processed that request, and gets tokens for servers that ask for OAuth.
"""

import asyncio
import contextlib
import hashlib
import logging
import re
import time
import warnings
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl, ValidationError

from sealyard.broker.upstreams.mcp.transport import stand_in, too_large
from sealyard.disk import drafted
from sealyard.errors import UpstreamUnavailable
from sealyard.values.tools import OAuthConfig, UpstreamConfig

_log = logging.getLogger(__name__)

_SMALL_EVENT_BYTES = 64 << 10  # `stand_in` replaces no smaller message
_IDLE_STREAM_SECONDS = 24 * 3600.0  # the SDK ends a silent event stream after 5 minutes otherwise
CONSENT_SECONDS = 300.0
"""The time a person has to consent."""
_LINE_BYTES = 16 << 10  # of the redirect's request line
_LINE_SECONDS = 10.0  # for the browser to send it
_PAGE = b"<!doctype html><title>sealyard</title><p>Thank you. You can close this page and go back.</p>"
_REPLY = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


def open_in_browser(url: str) -> bool:
    """Open an address in the person's browser; returns False without one."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:
        return False  # a console browser would take the terminal, or the pipe an MCP client talks over
    return browser.open(url)


class Delivery(msgspec.Struct, eq=False):
    """The fate of one HTTP request, in addition to the SDK's report of it."""

    fault: str | None = None
    answered: bool = False
    """The fault came with a message of the server."""
    stale: bool = False
    """The server no longer knows the session, so it did not process the request."""
    undelivered: bool = False
    """There was no connection to send it over."""


DELIVERY: ContextVar[Delivery | None] = ContextVar("delivery", default=None)
"""Set by the sender of a request: the SDK's HTTP transports send each message in its sender's context."""


class Exchange(httpx2.AsyncClient):
    """An HTTP client on which a bad answer does not end the connection, and whose answers are bounded."""

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        on_fault: Callable[[str], None],
        token_folder: Path | None,
        open_url: Callable[[str], bool] = open_in_browser,
        on_consent: Callable[[str], None] = lambda url: None,
    ) -> None:
        """`on_fault` is called when a message cannot be sent over a connection whose answers come another way.

        `on_consent` is called with the address a person has to open for OAuth; `open_url` opens it and returns True on
        success. Without a `token_folder`, tokens are forgotten with the process.
        The SDK gets a small message in the place of a large answer; see `transport.stand_in`.
        """
        headers = dict(config.headers)
        if config.bearer_token is not None:
            headers["Authorization"] = f"Bearer {config.bearer_token}"
        # Answers and event streams may take any time: calls have timeouts of their own.
        timeout = httpx2.Timeout(config.start_seconds, read=None, pool=None)
        auth = _build_auth(config, token_folder, open_url, on_consent)
        super().__init__(headers=headers, auth=auth, timeout=timeout)
        self._answer_bytes = config.answer_bytes
        self._events = config.transport == "sse"
        self._on_fault = on_fault
        self.fault: str | None = None
        """The last fault."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. A failed POST is answered with an error of our own instead of an exception."""
        delivery = DELIVERY.get() or Delivery()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            delivery.undelivered = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            self._note(delivery, f"{type(error).__name__}: {error}".rstrip(": "))
            return httpx2.Response(httpx2.codes.BAD_GATEWAY, request=request)
        if response.status_code >= httpx2.codes.BAD_REQUEST and request.method == "POST":
            gone = response.status_code in {httpx2.codes.NOT_FOUND, httpx2.codes.GONE}
            delivery.stale = gone and "mcp-session-id" in request.headers
            delivery.answered = response.headers.get("content-type", "").startswith("application/json")
            self._note(delivery, f"HTTP {response.status_code}")
        if response.is_stream_consumed:
            return response
        return _with_body(response, self._body(request, response, delivery))

    def _note(self, delivery: Delivery, fault: str) -> None:
        delivery.fault = self.fault = fault
        if self._events:
            self._on_fault(fault)

    def _body(self, request: httpx2.Request, response: httpx2.Response, delivery: Delivery) -> AsyncIterator[bytes]:
        """A body that ends in an error when it is too large, counted after decompression."""
        kind = response.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            return _small_events(response, self._answer_bytes)
        bounded = _bounded(response, self._answer_bytes, delivery)
        is_answer = kind.startswith("application/json") and response.status_code == httpx2.codes.OK
        return _small_answer(bounded, _id_of(request)) if is_answer else bounded


class _Body(httpx2.AsyncByteStream):
    """The parts in place of a response's own."""

    def __init__(self, response: httpx2.Response, parts: AsyncIterator[bytes]) -> None:
        self._response = response
        self._parts = parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        await self._response.aclose()


def _with_body(response: httpx2.Response, parts: AsyncIterator[bytes]) -> httpx2.Response:
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in {"content-encoding", "content-length", "transfer-encoding"}
    ]
    body = _Body(response, parts)
    replaced = httpx2.Response(response.status_code, headers=headers, stream=body, request=response.request)
    replaced.next_request = response.next_request
    replaced.history = response.history
    return replaced


async def _bounded(response: httpx2.Response, most_bytes: int, delivery: Delivery) -> AsyncIterator[bytes]:
    total = 0
    try:
        async for part in response.aiter_bytes():
            total += len(part)
            if total > most_bytes:
                delivery.fault = too_large(most_bytes)
                raise httpx2.StreamError(delivery.fault)
            yield part
    except httpx2.TransportError as error:
        delivery.fault = f"{type(error).__name__}: {error}".rstrip(": ")
        raise httpx2.StreamError(delivery.fault) from error


async def _small_answer(parts: AsyncIterator[bytes], number: Any) -> AsyncIterator[bytes]:
    """A JSON body, or a small one in the place of a large answer to the request `number`."""
    whole = b"".join([part async for part in parts])
    yield stand_in(whole, number) or whole


async def _small_events(response: httpx2.Response, most_bytes: int) -> AsyncIterator[bytes]:
    """A stream of events, with small data in the place of large answers."""
    event: list[bytes] = []
    line: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        first, *others = part.split(b"\n")
        line.append(first)
        size += len(part)
        for piece in others:
            event.append(b"".join(line))
            line = [piece]
            if not event[-1].rstrip(b"\r"):
                yield _small_event(event)
                event, size = [], len(piece)
        if size > most_bytes:  # the SDK says so itself
            yield b"\n".join([*event, b"".join(line)])
            event, line, size = [], [], 0
    yield b"\n".join([*event, b"".join(line)])


def _small_event(lines: list[bytes]) -> bytes:
    """An event with its end, as it came or with small data."""
    if sum(map(len, lines)) > _SMALL_EVENT_BYTES:
        data = [line[5:].removeprefix(b" ").rstrip(b"\r") for line in lines if line.startswith(b"data:")]
        small = stand_in(b"\n".join(data))
        others = [line for line in lines[:-1] if not line.startswith(b"data:")]
        lines = [*others, b": large and no answer" if small is None else b"data: " + small, b""]
    return b"\n".join(lines) + b"\n"


def _id_of(request: httpx2.Request) -> Any:
    try:
        return msgspec.json.decode(request.content, type=_Identified).id
    except (ValueError, httpx2.RequestNotRead):
        return None


class _Identified(msgspec.Struct):
    id: int | str | None = None


@contextlib.asynccontextmanager
async def open_http(config: UpstreamConfig, exchange: Exchange) -> AsyncIterator[tuple[Any, Any]]:
    """Talk HTTP with the config's URL: streamable, or with server-sent events as before 2025."""
    assert config.url is not None
    if config.transport == "sse":

        def use_exchange(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
            return exchange

        async with sse_client(
            config.url, sse_read_timeout=_IDLE_STREAM_SECONDS, httpx_client_factory=use_exchange
        ) as streams:
            yield streams
    else:
        opening = streamable_http_client(config.url, http_client=exchange, max_sse_event_size=config.answer_bytes)
        async with exchange, opening as (read, write):
            yield read, write


# OAuth, on the SDK's providers. With a client secret the gateway identifies itself; without one a person consents in a
# browser, which then comes back to a port on the loopback interface. Tokens are kept in files that only their owner can
# read.


def _build_auth(
    config: UpstreamConfig, folder: Path | None, open_url: Callable[[str], bool], on_consent: Callable[[str], None]
) -> httpx2.Auth | None:
    """The signer of requests to an upstream, or `None` if its config names no OAuth."""
    oauth = config.oauth
    if oauth is None or config.url is None:
        return None
    tokens = _TokenFile(folder, config, oauth)
    scope = " ".join(oauth.scopes) or None
    if oauth.client_secret is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # the config may omit the issuer
            return ClientCredentialsOAuthProvider(
                config.url, tokens, oauth.client_id or "", oauth.client_secret, scope=scope, issuer=oauth.issuer
            )
    consent = _Consent(config.name, oauth.redirect_port, open_url, on_consent)
    provider = OAuthClientProvider(
        config.url, _metadata(oauth), tokens, redirect_handler=consent.ask, callback_handler=consent.answer
    )
    # The SDK takes a stored token for valid until it is refused, and then asks for consent instead of refreshing it.
    provider.context.token_expiry_time = tokens.expires_at
    return provider


def _metadata(oauth: OAuthConfig) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="sealyard",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{oauth.redirect_port}/callback")],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",  # noqa: S106 - the name of a method, not a password
        scope=" ".join(oauth.scopes) or None,
    )


class _TokenFile:
    """The SDK's token storage, in one file per upstream and address."""

    def __init__(self, folder: Path | None, config: UpstreamConfig, oauth: OAuthConfig) -> None:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", config.name)[:60]
        digest = hashlib.sha256(f"{config.url}\0{oauth.client_id}".encode()).hexdigest()[:12]
        self._path = folder / f"{name}-{digest}.json" if folder is not None else None
        self._fixed = oauth.client_id
        self._oauth = oauth
        self._data: dict[str, Any] = self._load()

    @property
    def expires_at(self) -> float | None:
        """The expiry of the kept token, in seconds since the epoch."""
        at = self._data.get("expires_at")
        return float(at) if isinstance(at, int | float) else None

    async def get_tokens(self) -> OAuthToken | None:
        """Called by the SDK."""
        with contextlib.suppress(ValidationError):
            return OAuthToken.model_validate(self._data.get("tokens"))
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Called by the SDK."""
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._keep(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=expires_at)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Called by the SDK. A client id from the config comes before one that was registered."""
        if self._fixed is not None:
            metadata = _metadata(self._oauth).model_dump(exclude_none=True)
            return OAuthClientInformationFull(client_id=self._fixed, **metadata)
        with contextlib.suppress(ValidationError):
            return OAuthClientInformationFull.model_validate(self._data.get("client"))
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Called by the SDK."""
        await self._keep(client=client_info.model_dump(mode="json", exclude_none=True))

    def _load(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            data = msgspec.json.decode(self._path.read_bytes())
        except (OSError, ValueError):
            return {}  # missing or invalid: a person consents again
        return data if isinstance(data, dict) else {}

    async def _keep(self, **values: Any) -> None:
        self._data.update(values)
        if self._path is None:
            return
        await asyncio.to_thread(self._write, self._path, msgspec.json.encode(self._data))

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with drafted(path) as file:
            file.write(content)


class _Consent:
    """Sends a person to the authorization server, and waits on a loopback port for their browser to come back."""

    def __init__(
        self, upstream: str, port: int, open_url: Callable[[str], bool], on_consent: Callable[[str], None]
    ) -> None:
        self._upstream = upstream
        self._port = port
        self._open_url = open_url
        self._on_consent = on_consent
        self._state = ""
        self._server: asyncio.Server | None = None
        self._result: asyncio.Future[AuthorizationCodeResult] | None = None

    async def ask(self, url: str) -> None:
        """Called by the SDK with the address to open."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._result = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=_LINE_BYTES)
        except OSError as error:
            raise UpstreamUnavailable(
                f"Port {self._port} is needed for the consent's way back and cannot be used: {error}. "
                "Set another redirect_port in its oauth config."
            ) from error
        _log.warning("%r asks for a person's consent. Open %s", self._upstream, url)
        self._on_consent(url)
        try:
            await asyncio.to_thread(self._open_url, url)
        except BaseException:
            self._server.close()
            raise

    async def answer(self) -> AuthorizationCodeResult:
        """Called by the SDK for what the browser brought back."""
        assert self._result is not None
        assert self._server is not None
        try:
            async with asyncio.timeout(CONSENT_SECONDS):
                return await self._result
        except TimeoutError:
            raise UpstreamUnavailable(f"Nobody consented within {CONSENT_SECONDS:.0f} s.") from None
        finally:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request. Only one that knows the secret `state` counts; other programs can reach the port too."""
        with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_LINE_SECONDS):
                line = (await reader.readline()).decode("latin-1")
            target = urlsplit(line.split(" ")[1] if line.count(" ") == 2 else "")
            query = {key: values[0] for key, values in parse_qs(target.query).items()}
            wanted = target.path == "/callback" and query.get("state") == self._state != ""
            status, page = (b"200 OK", _PAGE) if wanted else (b"404 Not Found", b"")
            writer.write(_REPLY % (status, len(page), page))
            await writer.drain()
            if wanted and self._result is not None and not self._result.done():
                self._settle(self._result, query)
        writer.close()

    def _settle(self, result: "asyncio.Future[AuthorizationCodeResult]", query: dict[str, str]) -> None:
        if "error" in query:
            reason = f"{query['error'][:200]} {query.get('error_description', '')[:200]}".strip()
            result.set_exception(UpstreamUnavailable(f"Consent was refused: {reason}."))
        else:
            result.set_result(
                AuthorizationCodeResult(code=query.get("code", ""), state=query["state"], iss=query.get("iss"))
            )
