"""One request to a declared endpoint: checks the principal, reads the query and the body, and sends the answer.

A mistake in the request is named with what would be right.
"""

import asyncio
import contextlib
import functools
import logging
import math
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sealyard.errors import QueueFull, SealyardError
from sealyard.serve.api.declare import Call, Endpoint, Events, Needs, Reply, Text
from sealyard.serve.compression import UNCOMPRESSED
from sealyard.serve.connections import LEFT
from sealyard.serve.dialogue import PRINCIPAL
from sealyard.serve.envelope import Refusal, code_of, envelope
from sealyard.serve.gate import KNOWN_BY, check_body, gate_of, request_id_of
from sealyard.values.access import AuditEntry
from sealyard.values.documents import read_exactly
from sealyard.wording import suggest
from sealyard.yard import Yard
from sealyard.yard.surface import as_meant

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
_MOST_PARAMETERS = 50  # of a query: several times what any endpoint takes
_SHOWN_CHARACTERS = 100  # of a foreign name in a message


def route(yard: Yard, declared: Endpoint) -> Route:
    """Return the route of an endpoint."""
    return Route(declared.path, _Handler(yard, declared), methods=[declared.method], name=declared.name)


def refuse_unknown(endpoints: Sequence[Endpoint]) -> Route:
    """Return the route for everything below `/api` that is none of the endpoints."""
    return Route("/api{rest:path}", _Unknown(endpoints))


class _Unknown:
    """Refuses any method, known or not: for a function, Starlette would answer the unknown ones."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._paths = [(re.compile(re.sub(r"{\w+}", "[^/]+", each.path)), each.method) for each in endpoints]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = [method for path, method in self._paths if path.fullmatch(scope["path"])]
        if allowed:
            message = f"There is no {scope['method'][:20]} here. Use {' or '.join(allowed)}."
            refusal = Refusal("invalid_request", message, status=405, headers={"Allow": ", ".join(allowed)})
        else:
            refusal = Refusal("not_found", "There is nothing at this path. GET /api/v1/openapi.json lists what is.")
        await envelope(refusal, request_id_of(scope))(scope, receive, send)


async def while_connected(request: Request, work: Awaitable[_T]) -> _T:
    """Await `work`; cancel it and raise `ClientDisconnect` when the client goes away. The body must have been read.

    The connection calls `leave`: a task that waits for the end would cost as much as all else around a small run.
    """
    scope, task = request.scope, asyncio.current_task()
    assert task is not None
    cancelled_before, has_left = task.cancelling(), False

    def leave() -> None:
        nonlocal has_left
        has_left = True
        task.cancel()

    if LEFT in scope:
        leave()
    else:
        scope[LEFT] = leave
    try:
        return await work
    finally:
        if not has_left:
            del scope[LEFT]
        # Somebody else may have cancelled the task as well: then that goes on.
        elif task.uncancel() <= cancelled_before and isinstance(sys.exception(), asyncio.CancelledError):
            raise ClientDisconnect


class _Handler:
    """An endpoint as an ASGI application: a request needs nothing of Starlette but its reader."""

    def __init__(self, yard: Yard, declared: Endpoint) -> None:
        self._yard = yard
        self._declared = declared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        """Return the answer, or the envelope of a failure."""
        request_id, path = request_id_of(request.scope), self._declared.path
        try:
            return await _answer(self._yard, self._declared, request)
        except Refusal as refusal:
            return envelope(refusal, request_id)
        except ClientDisconnect:
            return Response(status_code=499)  # the client is gone
        except SealyardError as error:
            code = code_of(error)
            if code != "internal":
                retry = {"Retry-After": str(math.ceil(error.retry_seconds))} if isinstance(error, QueueFull) else None
                return envelope(Refusal(code, await _shown(self._yard, error), headers=retry), request_id)
            _log.exception("Request %s, %s %s, failed.", request_id, request.method, path)
        except Exception:  # noqa: BLE001 - the last frame that can answer the client
            _log.exception("Request %s, %s %s, failed.", request_id, request.method, path)
        message = f"The gateway has a fault. Look for {request_id} in its log, and report it."
        return envelope(Refusal("internal", message), request_id)


async def _shown(yard: Yard, error: SealyardError) -> str:
    """Conceal private values in a message: it may quote a tool's answer, or another's run."""
    try:
        return str(await (await yard.guards.of("log")).door.conceal(str(error)))
    except SealyardError:  # the vault itself cannot be used, so nothing is certainly concealed
        return f"{type(error).__name__}: what it says may be private, and cannot be looked through. Read the log."


async def _answer(yard: Yard, declared: Endpoint, request: Request) -> Response:
    principal = str(request.scope.get(PRINCIPAL, ""))
    scope = yard.runner.scope_of(principal)
    if declared.needs is not None and not getattr(scope, declared.needs):
        if declared.needs == "reveal":
            yard.store.audit(AuditEntry(kind="privacy.reveal", principal=principal, body={"refused": True}))
        raise Refusal("forbidden", f"{principal!r} {declared.advice or _ADVICE[declared.needs]}")
    if declared.needs in ("approve", "reveal"):
        request.scope[UNCOMPRESSED] = True
    query = _read_query(request, declared.query)
    body = None
    gate = gate_of(request.scope)
    if request.method not in ("GET", "HEAD"):
        read = await _read_body(request, declared.body_bytes or gate.max_request_bytes)
        await check_body(read, yard.guards.offload, who=principal)
        body = _to_body(read, request.headers.get("content-type", ""), declared.body)
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


class _EventResponse(StreamingResponse):
    """Sends blocks as they come, until they end or the client is gone."""

    media_type = "text/event-stream"

    def __init__(self, blocks: AsyncGenerator[str, None], slot: contextlib.ExitStack, headers: dict[str, str]) -> None:
        super().__init__(blocks, headers={**headers, "X-Accel-Buffering": "no"})
        self._blocks = blocks
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slot:
            try:
                async with contextlib.aclosing(self._blocks):
                    await super().__call__(scope, receive, send)
            except Exception:  # noqa: BLE001 - the connection ends here
                _log.exception("Stream %s broke off.", request_id_of(scope))


# Reading a request


def _read_query(request: Request, kind: Any) -> Any:
    """Decode the query as a `kind`; if `kind` is None, there must be no query. Raises `Refusal`."""
    if kind is None and not request.scope["query_string"]:
        return None
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict")
    except ValueError:
        message = f"The query is not UTF-8 text, or has more than {_MOST_PARAMETERS} parameters. Encode it anew."
        raise Refusal("invalid_request", message) from None
    known = _fields(kind)
    given = dict(pairs)
    if len(given) < len(pairs):
        twice = next(name for name in given if sum(name == each for each, _ in pairs) > 1)
        raise Refusal("invalid_request", f"{twice} is given more than once. Give it once.")
    given = given if kind is None else as_meant(given, kind)
    _check_names(given, known, "parameter")
    if kind is None:
        return None
    query = _convert(given, kind, "query", is_text=True)
    nothing = next((name for name in given if getattr(query, name) is None), None)
    if nothing is not None:  # "null" is text here, which no parameter takes
        raise Refusal("invalid_request", f"{nothing} is {given[nothing]!r}. Leave it out, or give it a value.")
    return query


async def _read_body(request: Request, limit_bytes: int) -> bytes:
    """Read the whole body. Raises `Refusal` if it is too long; `HttpConnection` cuts off a slow one."""
    message = f"The body has more than {limit_bytes:,} bytes. Send less."
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit_bytes:
        raise Refusal("too_large", message)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit_bytes:
            raise Refusal("too_large", message)
    return bytes(body)


def _to_body(body: bytes, content_type: str, kind: Any) -> Any:
    """Decode the body as a `kind`; if `kind` is None, the body must be empty. Raises `Refusal`."""
    if kind is None and not body:
        return None
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json":  # which a form of a foreign page cannot send
        raise Refusal("invalid_request", f"The body is {media[:_SHOWN_CHARACTERS]!r}. Send application/json.")
    try:
        value = read_exactly(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("invalid_request", f"The body is not JSON: {error}. {_example(kind)}") from None
    if not isinstance(value, dict):
        raise Refusal("invalid_request", f"The body is not a JSON object. {_example(kind)}")
    value = value if kind is None else as_meant(value, kind)
    _check_names(value, _fields(kind), "field")
    return None if kind is None else _convert(value, kind, "body", is_text=False)


def _convert(value: dict[str, Any], kind: type[_T], where: str, *, is_text: bool) -> _T:
    try:
        return msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        problem = str(error).replace(" - at `$.", ", in `").removesuffix(" - at `$`")
        raise Refusal("invalid_request", f"The {where} is wrong: {problem}. {_expected(kind, problem)}") from None
    except (RecursionError, OverflowError):
        raise Refusal("invalid_request", f"The {where} holds what cannot be read. {_takes(kind)}") from None


def _check_names(names: Iterable[str], known: tuple[str, ...], what: str) -> None:
    for name in names:
        if name not in known:
            advice = suggest(name, known, _listed(known, what))
            raise Refusal("invalid_request", f"There is no {what} {name[:_SHOWN_CHARACTERS]!r} here. {advice}")


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    return () if kind is None else tuple(field.encode_name for field in msgspec.structs.fields(kind))


def _expected(kind: Any, problem: str) -> str:
    """Name the words that the field at fault takes, if it takes only some; else all fields."""
    fields = msgspec.structs.fields(kind)
    words = next((_words(field.type) for field in fields if problem.endswith(f", in `{field.encode_name}`")), ())
    return f"Use {', '.join(words)}." if words else _takes(kind)


def _words(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(word for each in get_args(kind) for word in _words(each))


def _takes(kind: Any) -> str:
    return f"It takes {', '.join(_fields(kind))}."


def _listed(known: tuple[str, ...], what: str) -> str:
    return f"There are: {', '.join(known)}." if known else f"It takes no {what}s."


def _example(kind: Any) -> str:
    if kind is None:
        return "Send none."
    needed = [field.encode_name for field in msgspec.structs.fields(kind) if field.required] or _fields(kind)[:1]
    return "Send {" + ", ".join(f'"{name}": …' for name in needed) + "}."
