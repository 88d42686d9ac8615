"""Frames between the gateway and a worker, seen from the gateway.

A frame is four bytes of little-endian length and that many bytes of JSON. Every byte from a worker is hostile: the
length is checked before anything is kept, and a frame is a value of one of the types below or a `ProtocolError`.
"""

import struct
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from sealyard.values.runs import Failure, Spill

_T = TypeVar("_T")
_LENGTH = struct.Struct("<I")


class ProtocolError(ValueError):
    """The bytes are not a frame this side accepts."""


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=True):
    pass


class Sealed(_Frame, frozen=True, tag="sealed"):
    """The worker is sealed; from here on the agent's code may have written the frames."""


class Broken(_Frame, frozen=True, tag="broken"):
    """The worker could not be sealed."""

    error: str


class Call(_Frame, frozen=True, kw_only=True, tag="call"):
    """The code calls a tool."""

    id: int
    tool: str
    args: dict[str, Any]


class LargeCall(_Frame, frozen=True, kw_only=True, tag="call"):
    """A call in a large frame. Its arguments are decoded beside the loop: they may be nothing but empty lists."""

    id: int
    tool: str
    args: msgspec.Raw


class Done(_Frame, frozen=True, kw_only=True, tag="done"):
    """The code has ended."""

    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    """Decoded beside the loop, for the same reason."""
    notes: msgspec.Raw = msgspec.Raw(b"[]")
    """Decoded by `notes_of` once its size is checked: sixteen megabytes of empty texts take 130 ms."""
    spill: Spill | None = None
    failure: Failure | None = None
    cpu_seconds: float
    memory_peak_bytes: int


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt of the start-up probe: `kind` is `control`, `attack` or `limit`, `done` whether it succeeded."""

    name: str
    kind: str
    done: bool
    detail: str


class Attacked(_Frame, frozen=True, kw_only=True, tag="attacked"):
    """The probe's attempts are over."""

    findings: list[Finding]


Frame = Sealed | Broken | Call | LargeCall | Done | Attacked

LARGE_BYTES = 64 << 10
"""A frame of this size takes 4 ms to decode at worst, and one of four megabytes 240 ms."""

_decoder: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Sealed | Broken | Call | Done | Attacked)
# Without the answer of the probe, which is small: to decode sixteen megabytes of findings takes 260 ms.
_large_decoder: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Sealed | Broken | LargeCall | Done)
_notes_decoder = msgspec.json.Decoder(list[str])


def parse(body: bytes) -> Frame:
    """The frame in `body`; the arguments of a large call are not decoded.

    Raises:
        ProtocolError: It is not a frame that this side accepts.
    """
    return _decoded(_decoder if len(body) <= LARGE_BYTES else _large_decoder, body)


def notes_of(done: Done) -> list[str]:
    """The notes in a last frame. Raises `ProtocolError`."""
    return _decoded(_notes_decoder, done.notes)


def _decoded(decoder: msgspec.json.Decoder[_T], data: bytes | msgspec.Raw) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not understood: {error}") from error


def pack(body: bytes) -> bytes:
    """`body` as a frame."""
    return _LENGTH.pack(len(body)) + body


def pack_length(size: int) -> bytes:
    """The prefix of a frame whose body has that size."""
    return _LENGTH.pack(size)


class FrameReader:
    """Cuts a stream of bytes into frames, none longer than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()

    @property
    def is_inside_frame(self) -> bool:
        """True if the bytes so far end in the middle of a frame."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take `data` and yield each frame's body that is now complete. Raises `ProtocolError`."""
        buffer = self._buffer
        size = len(data) - _LENGTH.size
        if not buffer and 0 <= size <= self.max_bytes and data[: _LENGTH.size] == _LENGTH.pack(size):
            yield data[_LENGTH.size :]  # a single frame, as nearly always
            return
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, start)
                if length > self.max_bytes:
                    raise ProtocolError(f"a frame of {length:,} bytes where at most {self.max_bytes:,} are taken")
                end = start + _LENGTH.size + length
                if len(buffer) < end:
                    return
                body = bytes(buffer[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del buffer[:start]
