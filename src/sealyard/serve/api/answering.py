"""Carries out a declared endpoint: who may ask, what was asked, what is answered, and what became of a fault."""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sealyard.errors import QueueFull, SealyardError
from sealyard.serve.api.declare import Call, Endpoint, Events, Needs, Reply, Text
from sealyard.serve.api.decode import read_body, read_query, to_body
from sealyard.serve.bodies import check_body
from sealyard.serve.connections import LEFT
from sealyard.serve.dialogue import PRINCIPAL
from sealyard.serve.envelope import Refusal, code_of, envelope
from sealyard.serve.gate import KNOWN_BY, gate_of, request_id_of
from sealyard.values import AuditEntry
from sealyard.yard import Yard

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_ADVICE: dict[Needs, str] = {
    "observe": "may not see what all principals do. Use the token of a client that has `observe = true` in its "
    "http.principals.",
    "approve": "may not answer approvals. Use `sealyard approvals`, or the token of a client that has "
    "`approve = true` in the configuration; never give that to an agent's client.",
    "reveal": "may not reveal. Set reveal in its http.principals, or use the CLI.",
}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def route(yard: Yard, declared: Endpoint) -> Route:
    """The route of an endpoint."""
    return Route(declared.path, _Answering(yard, declared), methods=[declared.method], name=declared.name)


def refuse_unknown(methods: Callable[[str], list[str]]) -> Route:
    """The route for what is below `/api` and is no endpoint; `methods` gives those that a path has."""
    return Route("/api{rest:path}", _Unknown(methods))


class _Unknown:
    """Refuses with any method, known or not: a function would be asked for some alone, and Starlette for the others."""

    def __init__(self, methods: Callable[[str], list[str]]) -> None:
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self._methods(scope["path"])
        if allowed:
            message = f"There is no {scope['method'][:20]} here. Use {' or '.join(allowed)}."
            refusal = Refusal("invalid_request", message, status=405, headers={"Allow": ", ".join(allowed)})
        else:
            refusal = Refusal("not_found", "There is nothing at this path. GET /api/v1/openapi.json lists what is.")
        await envelope(refusal, request_id_of(scope))(scope, receive, send)


async def while_connected(request: Request, work: Awaitable[_T]) -> _T:
    """What comes of `work`, which is cancelled when the client goes away. The body must have been read."""
    with _Presence(request.scope):
        return await work


class _Presence:
    """Cancels the task that enters it when the client goes away, and raises `ClientDisconnect` there.

    The connection says so itself: a task that waits for it would cost as much as all else around a small run.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._has_left = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._working, self._cancelled_before = task, task.cancelling()
        if LEFT in self._scope:
            self._leave()
        else:
            self._scope[LEFT] = self._leave

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if not self._has_left:
            del self._scope[LEFT]
        # Somebody else may have cancelled the task as well: then that goes on.
        elif self._working.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise ClientDisconnect

    def _leave(self) -> None:
        self._has_left = True
        self._working.cancel()


class _Answering:
    """An endpoint as an application of its own: a request needs nothing of Starlette's but its reader."""

    def __init__(self, yard: Yard, declared: Endpoint) -> None:
        self._yard = yard
        self._declared = declared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        """The answer, or the envelope of what went wrong."""
        request_id, path = request_id_of(request.scope), self._declared.path
        try:
            return await _answer(self._yard, self._declared, request)
        except Refusal as refusal:
            return envelope(refusal, request_id)
        except ClientDisconnect:
            return Response(status_code=499)  # which nobody reads
        except SealyardError as error:
            code = code_of(error)
            if code != "internal":
                retry = {"Retry-After": str(math.ceil(error.retry_seconds))} if isinstance(error, QueueFull) else None
                return envelope(Refusal(code, await _shown(self._yard, error), headers=retry), request_id)
            _log.exception("Request %s, %s %s, failed.", request_id, request.method, path)
        except Exception:  # noqa: BLE001 - the last place where a fault can be told to who asked
            _log.exception("Request %s, %s %s, failed.", request_id, request.method, path)
        message = f"The gateway has a fault. Look for {request_id} in its log, and report it."
        return envelope(Refusal("internal", message), request_id)


async def _shown(yard: Yard, error: SealyardError) -> str:
    """The message with nothing private in it: it may quote what came from a tool or from another's run."""
    try:
        return str(await (await yard.guards.of("log")).door.conceal(str(error)))
    except SealyardError:  # it is the vault that cannot be used, and then nothing can be told for certain
        return f"{type(error).__name__}: what it says may be private, and cannot be looked through. Read the log."


async def _answer(yard: Yard, declared: Endpoint, request: Request) -> Response:
    principal = str(request.scope.get(PRINCIPAL, ""))
    scope = yard.runner.scope_of(principal)
    if declared.needs is not None and not getattr(scope, declared.needs):
        if declared.needs == "reveal":
            yard.store.audit(AuditEntry(kind="privacy.reveal", principal=principal, body={"refused": True}))
        raise Refusal("forbidden", f"{principal!r} {declared.advice or _ADVICE[declared.needs]}")
    query = read_query(request, declared.query)
    body = None
    gate = gate_of(request.scope)
    if request.method not in ("GET", "HEAD"):
        read = await read_body(request, declared.body_bytes or gate.max_request_bytes)
        await check_body(read, yard.guards.offload, who=principal)
        body = to_body(read, request.headers.get("content-type", ""), declared.body)
    call: Call[Any, Any] = Call(
        yard=yard,
        principal=principal,
        scope=scope,
        known_by=request.scope.get(KNOWN_BY, "address"),
        query=query,
        body=body,
        path=dict(request.path_params),
        request=request,
    )
    answer = await declared.carry_out(call)
    headers = {**_HEADERS, "X-Request-Id": request_id_of(request.scope)}
    match answer:
        case Events():
            if answer.is_over or request.method == "HEAD":
                return Response(None, 204, headers)
            slot = contextlib.ExitStack()
            slot.enter_context(gate.stream(principal))
            return _EventResponse(answer.blocks, slot, headers)
        case Text():
            return Response(answer.content, headers={**headers, "Content-Type": answer.kind})
        case Reply():
            content = msgspec.json.encode(answer.value) if answer.encoded is None else answer.encoded
            return Response(content, answer.status, {**headers, **answer.headers}, media_type="application/json")
    return Response(msgspec.json.encode(answer), headers=headers, media_type="application/json")


class _EventResponse(Response):
    """Sends blocks as they come, until there are no more or the client is gone."""

    media_type = "text/event-stream"

    def __init__(self, blocks: AsyncIterator[str], slot: contextlib.ExitStack, headers: dict[str, str]) -> None:
        super().__init__(headers={**headers, "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._blocks = blocks
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            sending = asyncio.create_task(self._send(send))
            gone = asyncio.create_task(_gone(receive))
            try:
                await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (sending, gone):
                    task.cancel()
                await asyncio.wait({sending, gone})
        if not sending.cancelled() and (error := sending.exception()) is not None:
            _log.error("Stream %s broke off.", request_id_of(scope), exc_info=error)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with contextlib.aclosing(self._blocks) as blocks:  # type: ignore[type-var]
            async for each in blocks:
                await send({"type": "http.response.body", "body": each.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
