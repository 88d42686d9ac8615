"""MCP over standard input and output, read without threads so that it can end at once."""

import asyncio
import contextlib
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from sealyard.broker.upstreams.mcp import edge_id
from sealyard.errors import HelperFailed, InvalidRequest
from sealyard.offload import Offload, check_dense
from sealyard.serve.relay import written
from sealyard.values.documents import MOST_NODES, read_leniently

_log = logging.getLogger(__name__)

_LAST_SECONDS = 5.0  # for the last answers to be written: a client that does not read must not hold up the end
_LINE_BYTES = 64 << 20  # a client is trusted more than an upstream, but not with all the memory


FindOffload = Callable[[], Awaitable[Offload | None]]
"""Waits for the helpers of the gateway."""


async def serve_stdio(server: Server[Any], offload: FindOffload) -> None:
    """Serve one client until it closes our standard input. What `offload` finds looks at large lines first."""
    async with _open_pipes() as (reader, writer, lost):
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        reading = asyncio.create_task(_read(reader, to_server, to_client, offload))
        writing = asyncio.create_task(_write(from_server, writer))
        for end in (writing, lost):
            end.add_done_callback(lambda _: reading.cancel())  # without a way to answer, stop reading
        try:
            await server.run(from_client, to_client, server.create_initialization_options())
        finally:
            reading.cancel()
            to_client.close()
            await asyncio.wait({reading, writing}, timeout=_LAST_SECONDS)
            writing.cancel()


async def _read(
    reader: asyncio.StreamReader,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    to_client: MemoryObjectSendStream[SessionMessage],
    offload: FindOffload,
) -> None:
    async with to_server:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                # The next message can no longer be separated from this one.
                _log.error("The client sent a message of more than %d bytes, which ends the connection.", _LINE_BYTES)
                return
            if not line.strip():
                continue
            message, refusal = None, await _refusal(line, offload)
            if refusal is None:
                message, refusal = _parse(line)
            if message is not None:
                await to_server.send(SessionMessage(message))
            elif refusal is not None:
                # The id of a response is one of our own requests, which fails by it.
                side = to_server if _is_response(line) and refusal.id is not None else to_client
                await side.send(SessionMessage(refusal))


def _is_response(line: bytes) -> bool:
    """True for a line that cannot be a request or a notification."""
    return b'"method"' not in line and (b'"result"' in line or b'"error"' in line)


async def _refusal(line: bytes, offload: FindOffload) -> types.JSONRPCError | None:
    """The error for a line with too many values or levels, as HTTP bodies are refused for; None for any other."""
    if len(line) <= MOST_NODES:
        return None
    try:
        await check_dense("The message", line, await offload(), who="")
    except (InvalidRequest, HelperFailed) as error:
        return types.JSONRPCError(
            jsonrpc="2.0", id=edge_id(line), error=types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        )
    return None


def _parse(line: bytes) -> tuple[types.JSONRPCMessage | None, types.JSONRPCError | None]:
    """The message in a line, or the error for an invalid one: somebody waits for an answer."""
    data: Any = None
    try:
        try:
            return types.jsonrpc_message_adapter.validate_json(line, by_name=False), None
        except ValueError:
            data = read_leniently(line)  # such as a text that was cut within a character
            return types.jsonrpc_message_adapter.validate_python(data, by_name=False), None
    except (ValueError, RecursionError):
        number = data.get("id") if isinstance(data, dict) else None
        number = number if isinstance(number, int | str) and not isinstance(number, bool) else None
        code = types.PARSE_ERROR if data is None else types.INVALID_REQUEST
        error = types.ErrorData(
            code=code, message="This line is not a JSON-RPC message. Send one JSON object per line."
        )
        return None, types.JSONRPCError(jsonrpc="2.0", id=number, error=error)


async def _write(from_server: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter) -> None:
    async with from_server:
        async for message in from_server:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                for part in (*written(text.encode()), b"\n"):
                    writer.write(part)
                    await writer.drain()
            except ConnectionError:
                return  # the client is gone, and reading ends too


@contextlib.asynccontextmanager
async def _open_pipes() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Future[None]]]:
    """Standard input and output as streams; meanwhile whatever else prints does so to standard error.

    The future is done when nobody is left to read our output, be there something to write or not.
    """
    loop = asyncio.get_running_loop()
    sys.stdout.flush()
    wire_in, wire_out = _input(), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    try:
        transport_in, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(wire_in, "rb", buffering=0)
        )
        transport_out, protocol = await loop.connect_write_pipe(_Output, os.fdopen(wire_out, "wb", buffering=0))
    except ValueError:
        raise InvalidRequest(
            "Standard input and output are not pipes. An MCP client starts `sealyard serve` itself; to serve over the "
            "network use --http 127.0.0.1:8321."
        ) from None
    try:
        yield reader, asyncio.StreamWriter(transport_out, protocol, None, loop), protocol.lost
    finally:
        transport_in.close()
        transport_out.close()


class _Output(asyncio.streams.FlowControlMixin):
    """Our output, which knows when nobody reads it any more: a pipe says so without being written to."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        self.lost.set_result(None)


def _input() -> int:
    """A descriptor of standard input; of an ended pipe if that is the null device, for which a loop cannot wait."""
    given = os.fstat(0)
    if not stat.S_ISCHR(given.st_mode) or given.st_rdev != os.stat(os.devnull).st_rdev:
        return os.dup(0)
    ended, end = os.pipe()
    os.close(end)
    return ended
