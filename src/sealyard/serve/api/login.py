"""`/api/v1/me`, `login` and `logout`: the caller and its rights."""

from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard import __version__
from sealyard.serve.api.declare import Call, Reply, endpoint, view_of
from sealyard.serve.envelope import Refusal
from sealyard.serve.gate import COOKIE, LOGIN_SECONDS, KnownBy, gate_of


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller."""

    principal: str
    known_by: KnownBy
    observe: bool
    approve: bool
    reveal: bool
    upstreams: tuple[str, ...] | None
    """Patterns over names of upstreams. Null: all."""
    level: str | None
    """Of isolation, if it has one of its own."""
    version: str
    """Of the gateway."""


class Login(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bearer token, or the key that `sealyard serve --http` shows."""

    token: Annotated[str, Meta(min_length=1, max_length=4096)]


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    """The principal of the cookie."""

    principal: str


class LoggedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The cookie is no longer valid."""

    logged_out: bool


@endpoint("GET", "me")
async def get_me(call: Call[None, None]) -> Me:
    """The calling principal and its rights."""
    scope = call.scope
    return view_of(Me, scope, principal=call.principal, known_by=call.known_by, version=__version__)


@endpoint("POST", "login", is_open=True)
async def log_in(call: Call[None, Login]) -> Reply[LoggedIn]:
    """Get a cookie for a token. It is good for 12 hours and until the gateway ends."""
    found = gate_of(call.request.scope).log_in(call.body.token)
    if found is None:
        message = "This is not a token of the gateway. Use one of its http.principals, or the key that it printed."
        raise Refusal("unauthorized", message)
    principal, cookie = found
    return Reply(value=LoggedIn(principal=principal), headers={"Set-Cookie": _cookie(call, cookie, LOGIN_SECONDS)})


@endpoint("POST", "logout")
async def log_out(call: Call[None, None]) -> Reply[LoggedOut]:
    """Give the cookie up."""
    given = call.request.cookies.get(COOKIE)
    if given:
        gate_of(call.request.scope).log_out(given)
    return Reply(value=LoggedOut(logged_out=True), headers={"Set-Cookie": _cookie(call, "", 0)})


def _cookie(call: Call[None, Login] | Call[None, None], value: str, seconds: int) -> str:
    secure = "; Secure" if call.request.url.scheme == "https" else ""
    return f"{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
