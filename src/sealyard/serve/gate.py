"""The gate in front of all HTTP: it checks Host, Origin, the principal and the request rate.

A request's principal is that of a bearer token, of a cookie that `POST /api/v1/login` gave for one, or `local` where
the configuration names no token. `/mcp` accepts no cookie. Since a browser sends a cookie unasked, a request that
changes something with one must come from a page of this very gateway.
"""

import asyncio
import hashlib
import hmac
import math
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Literal

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sealyard.access import OPERATOR
from sealyard.config.settings import HttpConfig
from sealyard.errors import HelperFailed, InvalidRequest
from sealyard.offload import Offload, check_dense
from sealyard.serve.dialogue import PRINCIPAL
from sealyard.serve.envelope import Refusal, envelope
from sealyard.serve.modes import Entrance, find_entrance

COOKIE = "sealyard_session"
LOGIN_SECONDS = 12 * 3600  # a working day
KNOWN_BY = "sealyard.known_by"
"""The key in a request's scope under which the gate stores how it identified the principal."""
KnownBy = Literal["token", "login", "address"]
"""`address`: no token is asked for, since only this machine can reach the gateway."""

_GATE = "sealyard.gate"
_REQUEST_ID = "sealyard.request_id"
_LOGIN_PATH = "/api/v1/login"
_READING = ("GET", "HEAD")
_WATCHED = ("/healthz", "/readyz")
_LOGINS_EACH = 100  # cookies of one principal: bounds the memory that logins take
_LOGIN_TRIES = 30  # in a minute, from one address
_ADDRESSES = 10_000  # with a bucket at once: bounds their memory, the least recent go first
_STREAMS_EACH = 32  # of one principal: several open pages
_SPARE_SHARE = 8  # one connection in 8 is kept for refusals because of too many requests
_BUSY = {"Retry-After": "5"}  # seconds in which some of the requests under way are usually answered
_EACH_SHARE = 2  # of several principals, one may use this part of the others, streams of `/mcp` included


def gate_of(scope: Scope) -> "Gate":
    """The gate that a request came through."""
    gate: Gate = scope[_GATE]
    return gate


def request_id_of(scope: Scope) -> str:
    """The id of a request in its answer and in the log."""
    return str(scope[_REQUEST_ID])


class Gate:
    """Admits or refuses requests, and stores the principal in their scope."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpConfig,
        *,
        hosts: list[str],
        origins: list[str],
        most: int,
        profiles: Collection[str] = (),
        operator_key: str | None = None,
    ) -> None:
        """`hosts` and `origins` are all that are served; `settings` has the origins that the config names.

        `most` limits open connections, and so the requests under way.

        Raises:
            InvalidConfig: A token that the config asks for is not set.
        """
        self._app = app
        self._hosts = _Names(hosts)
        self._origins = _Names(origins)
        self._named_origins = _Names(settings.allowed_origins)
        self._profiles = tuple(profiles)
        self._bound = {scope.name: scope.profiles for scope in settings.scopes().values() if scope.profiles is not None}
        """The principals that may use nothing but these profiles."""
        self._clients = settings.clients()
        self._has_several_clients = len(set(self._clients.values())) > 1
        self._keys = dict(self._clients)
        if operator_key is not None:
            self._keys[_digest(operator_key)] = OPERATOR
        self._logins: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._requests = _Buckets(settings.requests_per_minute)
        self._tries = _Buckets(_LOGIN_TRIES)
        self._streams: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._most = most - most // _SPARE_SHARE
        self.max_request_bytes = settings.max_request_bytes
        self.closing = asyncio.Event()
        """Set when the server ends: streams stop then."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            scope[_GATE] = self
            scope[_REQUEST_ID] = secrets.token_hex(8)
            try:
                principal = self._let_in(scope)
                if principal and scope["path"] not in _WATCHED:
                    self._check_room(principal)
            except Refusal as refusal:
                await envelope(refusal, request_id_of(scope))(scope, receive, send)
                return
            # Requests without a principal are not counted: their connections are dropped when another needs the room.
            with _counted(self._under_way, principal) if principal else nullcontext():
                await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)

    # Logging in

    def log_in(self, token: str) -> tuple[str, str] | None:
        """The principal of a token or of the operator's key, and a cookie for it; None if it is neither."""
        principal = _find(self._keys, token.encode("utf-8", "surrogateescape"))
        if principal is None:
            return None
        now = time.monotonic()
        own = [digest for digest, (name, _) in self._logins.items() if name == principal]
        for digest in own[: max(0, len(own) - _LOGINS_EACH + 1)]:  # the oldest; another principal's cookies stay
            del self._logins[digest]
        cookie = secrets.token_urlsafe(32)
        self._logins[_digest(cookie)] = (principal, now + LOGIN_SECONDS)
        return principal, cookie

    def log_out(self, cookie: str) -> None:
        """Invalidate a cookie."""
        self._logins.pop(_digest(cookie), None)

    @contextmanager
    def stream(self, principal: str) -> Iterator[None]:
        """One open stream of a principal. Raises `Refusal` if it has too many."""
        if self._streams[principal] >= _STREAMS_EACH:
            raise Refusal(
                "rate_limited",
                f"{principal!r} has {_STREAMS_EACH} streams open, which is the most. Close one.",
                headers=_BUSY,
            )
        with _counted(self._streams, principal):
            yield

    # Letting in

    def _check_room(self, principal: str) -> None:
        """Raise `Refusal` if too many requests are under way: one of each open stream, run and call."""
        each = self._most // _EACH_SHARE if self._has_several_clients else self._most
        if self._under_way[principal] >= each:
            message = f"{principal!r} has {each:,} requests under way, which is the most. Wait until one is answered."
            raise Refusal("rate_limited", message, headers=_BUSY)
        if self._under_way.total() >= self._most:
            message = f"There are {self._most:,} requests under way, which is the most. Try again in a moment."
            raise Refusal("unavailable", message, headers=_BUSY)

    def _let_in(self, scope: Scope) -> str:
        """Identify and return the principal; empty for pages that need none. Raises `Refusal`."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        path, method = scope["path"], scope["method"]
        if headers.get("host", "") not in self._hosts:
            raise Refusal("forbidden", "This Host is not served here. Name it in http.allowed_hosts.", status=421)
        origin = headers.get("origin")
        if origin and origin not in self._origins:
            raise Refusal("forbidden", "This Origin is not allowed. Name it in http.allowed_origins.")
        is_api = path.startswith("/api/") or path in ("/api", "/metrics")
        if is_api and not origin and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise Refusal(
                "forbidden", "This request comes from another site's page. Open the address of the gateway itself."
            )
        if path == _LOGIN_PATH:
            _take(self._tries, str((scope.get("client") or ("",))[0]), "tries to log in")
            return ""
        if method in _READING and (path == "/" or path.startswith("/dashboard/")):
            return ""  # a page without any data in it
        principal = self._know(scope, headers, origin, takes_cookie=is_api or path in _WATCHED)
        if is_api:
            _take(self._requests, principal, f"requests of {principal!r}")
        return principal

    def _know(self, scope: Scope, headers: dict[str, str], origin: str | None, *, takes_cookie: bool) -> str:
        known_by: KnownBy = "address"
        principal = "local"
        authorization = headers.get("authorization", "")
        logged_in = self._logged_in(headers) if takes_cookie and not authorization else None
        if logged_in is not None:
            self._check_page(scope, headers, origin)
            principal, known_by = logged_in, "login"
        elif self._clients:
            scheme, _, token = authorization.partition(" ")
            # latin-1 is how the bytes came to be text.
            found = _find(self._clients, token.strip().encode("latin-1")) if scheme.lower() == "bearer" else None
            if found is None:
                message = "A bearer token is needed: Authorization: Bearer TOKEN."
                if authorization:
                    message = (
                        "This gateway does not know the token. Give that of a principal: Authorization: Bearer TOKEN."
                    )
                raise Refusal("unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
            principal, known_by = found, "token"
        scope[PRINCIPAL], scope[KNOWN_BY] = principal, known_by
        self._enter(scope, principal)
        return principal

    def _enter(self, scope: Scope, principal: str) -> None:
        """Note by which URL a request for MCP came in. Raises `Refusal` if the principal may not use that."""
        bound = self._bound.get(principal)
        entrance = find_entrance(scope, self._profiles if bound is None else bound)
        if bound is not None and scope["path"] not in _WATCHED and (entrance is None or not entrance.profile):
            paths = ", ".join(f"/mcp/p/{name}" for name in bound) or "nothing"
            raise Refusal("forbidden", f"{principal!r} may use {paths} and nothing else of this gateway.")
        if entrance is not None and (self._clients or entrance != Entrance()):
            # The SDK then accepts a session only from the principal that opened it, and by the URL that opened it.
            opener = f"{principal} {entrance.profile} {entrance.has_code_mode}"
            scope["user"] = AuthenticatedUser(AccessToken(token="-", client_id=opener, scopes=[]))  # noqa: S106

    def _logged_in(self, headers: dict[str, str]) -> str | None:
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        principal, until = self._logins.get(_digest(cookie), (None, 0.0)) if cookie else (None, 0.0)
        return principal if until > time.monotonic() else None

    def _check_page(self, scope: Scope, headers: dict[str, str], origin: str | None) -> None:
        """Raise `Refusal` for a change from another page. A page on another port of this machine is another one."""
        if scope["method"] in _READING:
            return
        own = [f"{scheme}://{headers.get('host', '')}" for scheme in ("http", "https")]
        if origin not in own and (origin or "") not in self._named_origins:
            raise Refusal(
                "forbidden",
                "A cookie login may change things only from the gateway's own page, and this request does not name it "
                "as its Origin. Use the page, or a bearer token.",
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            raise Refusal("invalid_request", f"The body is {kind!r}. Send application/json.")


def _take(buckets: "_Buckets", name: str, what: str) -> None:
    """Take one from a bucket. Raises `Refusal` if it is empty."""
    if seconds := buckets.take(name):
        wait = math.ceil(seconds)
        raise Refusal(
            "rate_limited",
            f"There were more than {buckets.per_minute:,} {what} in a minute. Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


@contextmanager
def _counted(counts: Counter[str], name: str) -> Iterator[None]:
    counts[name] += 1
    try:
        yield
    finally:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]


class _Buckets:
    """A token bucket for each name; `per_minute` is both its size and its rate."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take one and return 0, or return the seconds until one is available."""
        if not self.per_minute:
            return 0.0
        now = time.monotonic()
        left, at = self._filled.pop(name, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - at) * self.per_minute / 60)
        is_taken = left >= 1
        self._filled[name] = (left - is_taken, now)
        while len(self._filled) > _ADDRESSES:
            self._filled.popitem(last=False)
        return 0.0 if is_taken else (1 - left) * 60 / self.per_minute


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _find(known: Mapping[bytes, str], token: bytes) -> str | None:
    digest = hashlib.sha256(token).digest()
    found = None
    for each, principal in known.items():  # all of them, so that timing reveals nothing
        if hmac.compare_digest(each, digest):
            found = principal
    return found


class _Names:
    """Hosts or origins by their names; one that ends in `:*` stands for every port."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)
        self._any_port = tuple(name[:-1] for name in names if name.endswith(":*"))

    def __contains__(self, name: str) -> bool:
        return name in self._names or any(
            name.startswith(host) and re.fullmatch("[0-9]+", name[len(host) :]) for host in self._any_port
        )


async def check_body(body: bytes, offload: Offload | None, *, who: str) -> None:
    """Raise `Refusal` for a body with too many values or levels. A helper counts them if the body is dense."""
    try:
        await check_dense("The body", body, offload, who=who)
    except InvalidRequest as error:
        raise Refusal("too_large", str(error)) from None
    except HelperFailed as error:
        raise Refusal("unavailable", f"The body could not be looked at: {error}") from None


class BoundedBodies:
    """Checks bodies in front of an application that decodes them itself."""

    def __init__(self, app: ASGIApp, offload: Offload | None, *, path: str, most_bytes: int) -> None:
        """Look at the bodies of requests to `path`; those over `most_bytes` the application refuses itself."""
        self._app = app
        self._offload = offload
        self._path = path
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        parts: list[bytes] = []
        size = 0
        is_whole = False
        while not is_whole and size <= self._most_bytes:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            is_whole = not message.get("more_body", False)
        try:
            if is_whole:
                await check_body(b"".join(parts), self._offload, who=str(scope.get(PRINCIPAL, "")))
        except Refusal as refusal:
            await envelope(refusal, request_id_of(scope))(scope, receive, send)
            return
        sending = _Sending(send)
        await self._app(scope, _replayed(messages, receive), sending)
        if is_whole and not sending.is_done and any(name == b"mcp-session-id" for name, _ in scope["headers"]):
            await self._cancel(scope, b"".join(parts))

    async def _cancel(self, scope: Scope, body: bytes) -> None:
        """Cancel the request of a client that left before its answer: in a session, it would go on for nobody."""
        try:
            request_id = msgspec.json.decode(body, type=_Identified).id
        except msgspec.MsgspecError:
            return  # it was no request
        params = {"requestId": request_id, "reason": "The client disconnected."}
        notice = msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        headers = [header for header in scope["headers"] if header[0] != b"content-length"]
        replay = _replayed([{"type": "http.request", "body": notice}], _gone)
        await self._app({**scope, "headers": headers}, replay, _Sending(None))


class _Identified(msgspec.Struct):
    """A JSON-RPC message, as far as it is needed to cancel it."""

    id: int | str | None = None


class _Sending:
    """Sends a response, if anybody gets it, and notes its end."""

    def __init__(self, send: Send | None) -> None:
        self._send = send
        self.is_done = False

    async def __call__(self, message: Message) -> None:
        if self._send is not None:
            await self._send(message)
        self.is_done = message["type"] == "http.response.body" and not message.get("more_body", False)


async def _gone() -> Message:
    return {"type": "http.disconnect"}


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
