"""OAuth: consent in a browser, a client of its own, and tokens that only their owner can read."""

import asyncio
import json
import stat
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from tests.ports import free_port
from tests.upstreams.tool_server import ToolServer

from sealyard.errors import UpstreamUnavailable
from sealyard.values.tools import OAuthConfig

Connect = Callable[..., Any]
Serve = Callable[..., Any]


class Authority:
    """An authorization server and the MCP server it guards, in one app."""

    def __init__(self) -> None:
        self.app = ToolServer().server.streamable_http_app()
        self.granted: list[dict[str, str]] = []
        self.refuses = False

    def build(self) -> Starlette:
        """The app; its MCP endpoint asks for the token `access-N` of the last grant."""
        routes = [
            Route("/.well-known/oauth-protected-resource/mcp", self.resource),
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
            Mount("/", app=self.guarded),
        ]
        return Starlette(routes=routes, lifespan=self.app.router.lifespan_context)

    async def guarded(self, scope: Any, receive: Any, send: Any) -> None:
        """The MCP server behind its door."""
        wanted = f"Bearer access-{len(self.granted)}".encode()
        if self.granted and dict(scope["headers"]).get(b"authorization") == wanted:
            await self.app(scope, receive, send)
        else:
            await Response(status_code=401)(scope, receive, send)

    async def resource(self, request: Request) -> Response:
        """Who guards this."""
        base = str(request.base_url).rstrip("/")
        return JSONResponse({"resource": f"{base}/mcp", "authorization_servers": [base]})

    async def metadata(self, request: Request) -> Response:
        """Where everything is."""
        base = str(request.base_url).rstrip("/")
        return JSONResponse(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request: Request) -> Response:
        """A client of its own."""
        return JSONResponse({**await request.json(), "client_id": "registered"}, status_code=201)

    async def authorize(self, request: Request) -> Response:
        """A person who always agrees, or never."""
        query = request.query_params
        answer = "error=access_denied" if self.refuses else "code=c0de"
        return RedirectResponse(f"{query['redirect_uri']}?{answer}&state={query['state']}")

    async def token(self, request: Request) -> Response:
        """A token for whoever comes with a grant."""
        form = {key: str(value) for key, value in (await request.form()).items()}
        form["authorization"] = request.headers.get("authorization", "")
        self.granted.append(form)
        number = len(self.granted)
        return JSONResponse(
            {
                "access_token": f"access-{number}",
                "refresh_token": f"refresh-{number}",
                "token_type": "Bearer",
                "expires_in": 3600,
            }
        )


def browser(opened: list[str]) -> Callable[[str], bool]:
    """A browser that follows every redirect at once."""

    def open_url(url: str) -> bool:
        opened.append(url)
        with urllib.request.urlopen(url, timeout=60) as response:
            return bool(response.status == 200)

    return open_url


async def test_consent_in_a_browser_gives_a_token_that_is_kept(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    """In a file nobody else can read; the next gateway needs no consent, and refreshes what has expired."""
    authority, opened = Authority(), []
    fields = {
        "transport": "http",
        "oauth": OAuthConfig(redirect_port=free_port(), scopes=("read",)),
        "token_folder": tmp_path / "tokens",
        "open_url": browser(opened),
    }
    async with serve(authority.build()) as address, asyncio.timeout(60):
        async with connect(url=f"{address}/mcp", **fields) as upstream:
            first = await upstream.call("echo", {"n": 1})
        [file] = (tmp_path / "tokens").iterdir()
        kept = json.loads(file.read_bytes())
        file.write_text(json.dumps({**kept, "expires_at": 1.0}), encoding="utf-8")
        async with connect(url=f"{address}/mcp", **fields) as upstream:
            second = await upstream.call("echo", {"n": 2})

    assert (first.value, second.value, len(opened)) == ({"n": 1}, {"n": 2}, 1)
    assert [grant["grant_type"] for grant in authority.granted] == ["authorization_code", "refresh_token"]
    modes = (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode))
    assert modes == (0o600, 0o700)


async def test_refused_consent_is_said(serve: Serve, connect: Connect) -> None:
    """With the authorization server's reason."""
    authority, opened = Authority(), []
    authority.refuses = True
    oauth = OAuthConfig(redirect_port=free_port())
    async with serve(authority.build()) as address, asyncio.timeout(60):
        fields = {"url": f"{address}/mcp", "oauth": oauth, "open_url": browser(opened)}
        async with connect(transport="http", **fields) as upstream:
            with pytest.raises(UpstreamUnavailable, match=r"Consent was refused: access_denied\."):
                await upstream.call("echo", {})


async def test_other_programs_cannot_bring_a_consent_back(serve: Serve, connect: Connect) -> None:
    """Only the browser that was sent knows the state; a request without it changes nothing."""
    authority, opened = Authority(), []
    port = free_port()
    refused: list[int] = []

    def open_url(url: str) -> bool:
        for path in ("/callback?code=evil&state=guess", "/callback?code=evil", "/", "/callback?error=x"):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60).close()
            except urllib.error.HTTPError as error:
                refused.append(error.code)
                error.close()
        return browser(opened)(url)

    async with serve(authority.build()) as address, asyncio.timeout(60):
        fields = {"url": f"{address}/mcp", "oauth": OAuthConfig(redirect_port=port), "open_url": open_url}
        async with connect(transport="http", **fields) as upstream:
            answer = await upstream.call("echo", {"n": 1})

    assert (answer.value, refused) == ({"n": 1}, [404] * 4)


async def test_client_with_a_secret_needs_nobody(serve: Serve, connect: Connect) -> None:
    """It identifies itself to the token endpoint."""
    authority = Authority()
    oauth = OAuthConfig(client_id="gateway", client_secret="s3cret", scopes=("read", "write"))
    async with (
        asyncio.timeout(60),
        serve(authority.build()) as address,
        connect(transport="http", url=f"{address}/mcp", oauth=oauth) as upstream,
    ):
        answer = await upstream.call("echo", {"n": 1})

    assert answer.value == {"n": 1}
    assert authority.granted[0]["grant_type"] == "client_credentials"
    assert authority.granted[0]["authorization"] == "Basic Z2F0ZXdheTpzM2NyZXQ="
