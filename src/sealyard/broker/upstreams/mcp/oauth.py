"""Gets tokens for upstreams that ask for OAuth, on the SDK's providers.

With a client secret the gateway identifies itself; without one a person consents in a browser, which then comes back to
a port on the loopback interface. Tokens are kept in files that only their owner can read.
"""

import asyncio
import contextlib
import hashlib
import re
import time
import warnings
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl, ValidationError

from sealyard.disk import drafted
from sealyard.errors import UpstreamUnavailable
from sealyard.values.tools import OAuthConfig, UpstreamConfig

CONSENT_SECONDS = 300.0
"""The time a person has to consent."""
_LINE_BYTES = 16 << 10  # of the redirect's request line
_LINE_SECONDS = 10.0  # for the browser to send it
_PAGE = b"<!doctype html><title>sealyard</title><p>Thank you. You can close this page and go back.</p>"
_REPLY = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


def build_auth(
    config: UpstreamConfig, *, folder: Path | None, open_url: Callable[[str], bool], on_consent: Callable[[str], None]
) -> httpx2.Auth | None:
    """The signer of requests to an upstream, or `None` if its config names no OAuth.

    `on_consent` is called with the address a person has to open; `open_url` opens it and returns True on success.
    Without a `folder`, tokens are forgotten with the process.
    """
    oauth = config.oauth
    if oauth is None or config.url is None:
        return None
    tokens = TokenFile(folder, config, oauth)
    scope = " ".join(oauth.scopes) or None
    if oauth.client_secret is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # the config may omit the issuer
            return ClientCredentialsOAuthProvider(
                config.url, tokens, oauth.client_id or "", oauth.client_secret, scope=scope, issuer=oauth.issuer
            )
    consent = _Consent(oauth.redirect_port, open_url, on_consent)
    provider = OAuthClientProvider(
        config.url, _metadata(oauth), tokens, redirect_handler=consent.ask, callback_handler=consent.answer
    )
    # The SDK takes a stored token for valid until it is refused, and then asks for consent instead of refreshing it.
    provider.context.token_expiry_time = tokens.expires_at
    return provider


def open_in_browser(url: str) -> bool:
    """Open an address in the person's browser; returns False without one."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:
        return False  # a console browser would take the terminal, or the pipe an MCP client talks over
    return browser.open(url)


def _metadata(oauth: OAuthConfig) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="sealyard",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{oauth.redirect_port}/callback")],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",  # noqa: S106 - the name of a method, not a password
        scope=" ".join(oauth.scopes) or None,
    )


class TokenFile:
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

    def __init__(self, port: int, open_url: Callable[[str], bool], on_consent: Callable[[str], None]) -> None:
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
