"""`/api/v1`: approvals for those whom the configuration lets answer them. The gate has noted who asks."""

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolyard.errors import InvalidRequest, StoreError, UnknownApproval
from toolyard.serve.asking import PRINCIPAL
from toolyard.values import Answered, Approval
from toolyard.yard import Yard

__all__ = ("routes",)

_BODY_BYTES = 64 << 10


class _Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Answered
    reason: Annotated[str, Meta(max_length=1_000)] = ""


def routes(yard: Yard) -> list[Route]:
    """What is mounted behind the gate."""
    approvals = yard.approvals

    async def waiting(request: Request) -> Response:
        if (refusal := _refuse(yard, request)) is not None:
            return refusal
        try:
            return _json({"approvals": await approvals.waiting()})
        except StoreError as error:
            return _error(503, str(error))

    async def answer(request: Request) -> Response:
        if (refusal := _refuse(yard, request)) is not None:
            return refusal
        try:
            told = await _read(request)
            approval = Approval(
                decision=told.decision,
                by=_principal(request),
                channel="http",
                reason=told.reason,
                answered_at=time.time(),
            )
            await approvals.answer(request.path_params["id"], approval)
        except UnknownApproval as error:
            return _error(404, str(error))
        except InvalidRequest as error:
            return _error(400, str(error))
        except StoreError as error:
            return _error(503, str(error))
        return _json({"id": request.path_params["id"], "decision": told.decision})

    return [
        Route("/api/v1/approvals", waiting, methods=["GET"]),
        Route("/api/v1/approvals/{id}", answer, methods=["POST"]),
    ]


def _principal(request: Request) -> str:
    return str(request.scope.get(PRINCIPAL, "local"))


def _refuse(yard: Yard, request: Request) -> Response | None:
    """An agent's own token must not answer what the agent asks for, so none may unless the config says so."""
    principal = _principal(request)
    scope = yard.scopes.get(principal)
    if scope is not None and scope.approve:
        return None
    return _error(
        403,
        f"{principal!r} may not answer approvals. Use `toolyard approvals`, or the token of a client that has "
        "`approve = true` in the configuration; never give that to an agent's client.",
    )


async def _read(request: Request) -> _Answer:
    """The body. Raises `InvalidRequest`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # which a form of a foreign page cannot send
        raise InvalidRequest(f"The body is {kind!r}. Send application/json.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _BODY_BYTES:
            raise InvalidRequest(f"The body has more than {_BODY_BYTES:,} bytes. Shorten the reason.")
    try:
        return msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f'The body is wrong: {error}. Send {{"decision": "once", "reason": ""}}.') from None


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    return _json({"error": message}, status=status)
