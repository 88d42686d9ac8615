"""Compresses whole answers for clients that accept gzip; streams and small answers pass as they are.

The length of a compressed answer tells how much of it repeats. An answer that shows private values is therefore sent
as it is, and the length of all others varies at random, so that one observed answer says little.
"""

import asyncio
import gzip
import io
import re
import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNCOMPRESSED = "sealyard.uncompressed"
"""The key in a request's scope that is set where the answer may show private values."""

_LEAST_BYTES = 1_400  # fit into one packet anyway
_LEVEL = 4  # of 9: a fifth of a list remains, in a third of the time of the usual 6, which leaves a sixth
_THREAD_BYTES = 64 << 10  # take 0.3 ms; a megabyte takes 20 ms, which would hold up everybody
_MOST_PADDING = 100  # bytes: several times what one repeated word changes
_KINDS = re.compile(r"(?:application/(?:json|openmetrics-text)|image/svg\+xml|text/(?!event-stream)[\w-]+)\b")
_QUALITY_0 = re.compile(r"q=0(?:\.0*)?")


class Compressed:
    """An application whose answers are compressed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        await self._app(scope, receive, _Answer(scope, send).send if scope["type"] == "http" else send)


class _Answer:
    """One answer, whose head waits for the first part of its body if that may be all of it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._head: Message | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_text(message):
            self._head = message
            return
        head, self._head = self._head, None
        if head is not None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                head, message = await self._shrunk(head, message)
            await self._send(head)
        await self._send(message)

    async def _shrunk(self, head: Message, message: Message) -> tuple[Message, Message]:
        body = message.get("body", b"")
        if len(body) < _LEAST_BYTES or self._scope.get(UNCOMPRESSED):
            return head, message
        headers = MutableHeaders(raw=list(head["headers"]))
        headers.add_vary_header("Accept-Encoding")
        if _accepts_gzip(self._scope):
            body = await asyncio.to_thread(_packed, body) if len(body) >= _THREAD_BYTES else _packed(body)
            headers["Content-Encoding"] = "gzip"
            headers["Content-Length"] = str(len(body))
            if (tag := headers.get("ETag")) is not None and not tag.startswith("W/"):
                headers["ETag"] = f"W/{tag}"  # the bytes differ from those of the plain answer
        return {**head, "headers": headers.raw}, {**message, "body": body}


def _is_text(head: Message) -> bool:
    """True for an answer that shrinks, is not compressed already and gives no cookie away."""
    headers = MutableHeaders(raw=list(head.get("headers", ())))
    is_free = "content-encoding" not in headers and "set-cookie" not in headers
    return is_free and _KINDS.match(headers.get("content-type", "")) is not None


def _accepts_gzip(scope: Scope) -> bool:
    wanted: dict[str, bool] = {}
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for part in value.decode("latin-1").lower().split(","):
                coding, _, quality = part.replace(" ", "").partition(";")
                wanted[coding] = _QUALITY_0.fullmatch(quality) is None
    return wanted.get("gzip", wanted.get("*", False))


def _packed(body: bytes) -> bytes:
    """The body in gzip's format, whose head has a name of random length."""
    packed = io.BytesIO()
    name = "-" * secrets.randbelow(_MOST_PADDING)
    with gzip.GzipFile(filename=name, mode="wb", compresslevel=_LEVEL, fileobj=packed, mtime=0) as file:
        file.write(body)
    return packed.getvalue()
