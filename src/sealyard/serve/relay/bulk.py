"""Large results on their way to a client: bytes that neither the gateway nor the SDK decodes.

A helper process searches the message and cuts the result into its fields. Small fields are data, large ones stay
JSON as `msgspec.Raw`. The SDK gets the result with empty fields in their place, and a key in its `_meta`; where the
message is written, `written` puts the large ones back.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from mcp.server.lowlevel import Server
from mcp_types import INTERNAL_ERROR
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sealyard.broker.upstreams.mcp import Kept
from sealyard.values.documents import read_exactly, signs_of

Json = dict[str, Any]
Part = bytes | memoryview

_KEY = "sealyard/large"
_MARK = f'"{_KEY}"'.encode()
_DECODED_BYTES = 256 << 10  # a larger field stays bytes
_DECODED_SIGNS = 20_000  # of structure in a field that is decoded: 4 ms at worst
_PIECE_BYTES = 1 << 20  # written before other tasks get a turn
_EMPTY: Json = {
    **dict.fromkeys(("content", "contents", "messages", "tools", "prompts", "resources", "resourceTemplates"), ()),
    "completion": {"values": []},
}
"""Fields that the protocol requires in a result, empty."""
_LOST = {"code": INTERNAL_ERROR, "message": "The answer was lost on its way: the client took too long to read it."}

_kept: Kept[Json] = Kept(seconds=600.0, most_bytes=256 << 20)
"""For clients that read slowly. A client that takes longer, or whose answer had to make room, gets `_LOST`."""


def read_fields(fields: list[tuple[str, int]], document: bytes | bytearray) -> Json:
    """The fields of a result, one after the other in the document: decoded if they are small."""
    found: Json = {}
    start = 0
    view = memoryview(document)
    for name, length in fields:
        part = view[start : start + length]  # a copy of 30 MB takes 20 ms
        is_small = length <= _DECODED_BYTES and signs_of(bytes(part)) <= _DECODED_SIGNS
        found[name] = read_exactly(bytes(part)) if is_small else msgspec.Raw(part)
        start += length
    return found


def measured(result: Json) -> tuple[bytes, int]:
    """The JSON of a result without its large fields, and the bytes of all. Raises what `msgspec.json.encode` does."""
    large = sum(len(memoryview(value)) for value in result.values() if isinstance(value, msgspec.Raw))
    rest = msgspec.json.encode({name: value for name, value in result.items() if not isinstance(value, msgspec.Raw)})
    return rest, len(rest) + large


def small(result: Json) -> Json:
    """A result that the SDK can take, in the place of one with large fields, which are kept."""
    large = {name: value for name, value in result.items() if isinstance(value, msgspec.Raw)}
    if not large:
        return result
    key = _kept.put(large, sum(len(memoryview(value)) for value in large.values()))
    meta = result.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    kept = {name: value for name, value in result.items() if name not in large}
    empty = {name: list(_EMPTY[name]) if _EMPTY[name] == () else _EMPTY[name] for name in large if name in _EMPTY}
    return {**kept, **empty, "_meta": {**meta, _KEY: key}}


def written(message: bytes) -> list[Part]:
    """Return a message in wire format, in pieces: with the large fields of its result, if it has any."""
    if _MARK not in message:
        return [message]
    try:
        data = read_exactly(message)
        result = data.pop("result")
        key = result["_meta"].pop(_KEY)
    except (ValueError, KeyError, TypeError, AttributeError):
        return [message]  # a text that only mentions the key
    large = _kept.take(key)
    if large is None:
        return [msgspec.json.encode({**data, "error": _LOST})]
    meta = result.pop("_meta")
    fields: dict[str, list[Part]] = {
        name: [msgspec.json.encode(value)] for name, value in result.items() if name not in large
    }
    fields |= {name: _pieces(value) for name, value in large.items()}
    if "_meta" in large and meta:  # the large one is not empty, and their keys are disjoint
        fields["_meta"] = [msgspec.json.encode(meta)[:-1], b",", *_pieces(large["_meta"], start=1)]
    elif meta:
        fields["_meta"] = [msgspec.json.encode(meta)]
    parts: list[Part] = [msgspec.json.encode(data)[:-1], b',"result":{']
    for number, (name, pieces) in enumerate(fields.items()):
        parts += (b"," if number else b"", msgspec.json.encode(name), b":", *pieces)
    return [*parts, b"}}"]


def _pieces(value: msgspec.Raw, *, start: int = 0) -> list[Part]:
    """Some JSON, cut without a copy."""
    view = memoryview(value)
    return [view[at : at + _PIECE_BYTES] for at in range(start, len(view), _PIECE_BYTES)]


class BulkServer(Server[Any]):
    """An MCP server that writes large answers without the SDK; over pipes `stdio.serve_stdio` does that."""

    def streamable_http_app(self, *, streamable_http_path: str = "/mcp", **options: Any) -> Starlette:
        """The SDK's application."""
        app = super().streamable_http_app(streamable_http_path=streamable_http_path, **options)
        app.add_middleware(LargeAnswers, path=streamable_http_path)
        return app


class LargeAnswers:
    """Middleware of an MCP application over HTTP that writes large fields into its responses at one path."""

    def __init__(self, app: ASGIApp, *, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        is_ours = scope["type"] == "http" and scope["path"] == self._path
        await self._app(scope, receive, _Writing(send).send if is_ours else send)


class _Writing:
    """One response. A JSON body is sent when all of it is there, since its length stands before it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            if headers.get(b"content-type", b"").startswith(b"application/json"):
                self._start = message
                return
        elif message["type"] == "http.response.body" and self._start is not None:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._send_json(self._start, b"".join(self._parts))
            return
        elif message["type"] == "http.response.body" and _MARK in message.get("body", b""):
            for part in _events(message["body"]):
                await self._send({"type": "http.response.body", "body": part, "more_body": True})
            message = {**message, "body": b""}
        await self._send(message)

    async def _send_json(self, start: Message, body: bytes) -> None:
        parts = written(body)
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        length = str(sum(map(len, parts))).encode()
        await self._send({**start, "headers": [*headers, (b"content-length", length)]})
        for part in parts[:-1]:
            await self._send({"type": "http.response.body", "body": bytes(part), "more_body": True})
        await self._send(
            {"type": "http.response.body", "body": bytes(parts[-1])}
        )  # one that is whole can be compressed


def _events(body: bytes) -> Iterator[bytes]:
    """A stretch of a stream of events, in pieces: each event is one line of data."""
    for line in body.splitlines(keepends=True):
        if not line.startswith(b"data:"):
            yield line
            continue
        data = line[5:].strip()
        yield b"data: "
        yield from map(bytes, written(data))
        yield line[len(line.rstrip(b"\r\n")) :]
