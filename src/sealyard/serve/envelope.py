"""The wire format of refusals: one envelope for all of them."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from starlette.responses import Response

from sealyard.errors import (
    CallRefused,
    HelperFailed,
    InvalidRequest,
    LevelUnavailable,
    OwnQueueFull,
    QueueFull,
    SandboxBroken,
    SandboxClosed,
    SandboxUnavailable,
    SealyardError,
    StoreError,
    UnknownApproval,
    UnknownExecution,
    UnknownSession,
    UnknownSkill,
    UnknownTool,
    UpstreamError,
    VaultError,
)

Code = Literal[
    "invalid_request",
    "unauthorized",
    "forbidden",
    "not_found",
    "conflict",
    "too_large",
    "rate_limited",
    "unavailable",
    "internal",
]

CODES: dict[Code, tuple[int, str]] = {
    "invalid_request": (400, "The request is wrong: change it."),
    "unauthorized": (401, "There is no token, or a wrong one."),
    "forbidden": (403, "The principal may not do this, or the page that asks may not."),
    "not_found": (404, "There is no such thing, or not for this principal."),
    "conflict": (409, "It does not fit what is there already."),
    "too_large": (413, "The body is too long."),
    "rate_limited": (
        429,
        "There were too many requests, or too many runs of the principal wait. `Retry-After` says when to try again.",
    ),
    "unavailable": (
        503,
        "A part of the gateway cannot be used now, or too many runs wait. `Retry-After` may say when to try again.",
    ),
    "internal": (500, "The gateway has a fault. Its log says more under the same request_id."),
}
"""The usual status of each code, and its meaning."""

_KINDS: dict[type[SealyardError], Code] = {
    **dict.fromkeys((UnknownApproval, UnknownExecution, UnknownSession, UnknownSkill, UnknownTool), "not_found"),
    InvalidRequest: "invalid_request",
    CallRefused: "conflict",
    OwnQueueFull: "rate_limited",
    **dict.fromkeys((HelperFailed, QueueFull, StoreError, VaultError, UpstreamError), "unavailable"),
    **dict.fromkeys((LevelUnavailable, SandboxUnavailable, SandboxClosed, SandboxBroken), "unavailable"),
}
"""By the nearest class."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The error."""

    code: Code
    message: str
    """One sentence what happened, one what to do."""
    request_id: str
    """The log has it too."""


class ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error response."""

    error: ErrorBody


class Refusal(Exception):
    """A request is not carried out; the message is for the client."""

    def __init__(
        self, code: Code, message: str, *, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code: Code = code
        self.status = CODES[code][0] if status is None else status
        self.headers = dict(headers or {})


def envelope(refusal: Refusal, request_id: str) -> Response:
    """The answer that says so."""
    body = ErrorEnvelope(error=ErrorBody(code=refusal.code, message=str(refusal), request_id=request_id))
    headers = {**_HEADERS, "X-Request-Id": request_id, **refusal.headers}
    return Response(msgspec.json.encode(body), refusal.status, headers, media_type="application/json")


def code_of(error: SealyardError) -> Code:
    """Return the code of one of our own exceptions."""
    return next((_KINDS[kind] for kind in type(error).__mro__ if kind in _KINDS), "internal")


assert tuple(CODES) == get_args(Code)
