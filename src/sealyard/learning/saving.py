"""Models as bytes and back. Making them holds the event loop for a few milliseconds at a time, however large they are.

The bytes are those that `msgspec` makes in one go, which nobody else could wait for.
"""

import asyncio
import time
import zlib
from collections.abc import Iterator, Mapping

import msgspec

from sealyard.learning.model import PARTS, Model

__all__ = ("SLICE_SECONDS", "BrokenModels", "pack", "unpack")

SLICE_SECONDS = 0.004
"""Whoever works on the event loop lets others go on after so long."""

_ENTRIES = 32
"""Of a table are encoded at once."""
_PACKING = 1
_UNPACKED_BYTES = 512 << 20


class BrokenModels(Exception):
    """Bytes are none that `pack` made."""


class _Partition(msgspec.Struct, frozen=True):
    name: str
    parts: dict[str, bytes]
    faults: dict[str, int]


async def pack(models: Mapping[str, Model]) -> bytes:
    """All models, by partition. They must not change meanwhile."""
    packed = []
    for name, model in models.items():
        parts = {part: await _encode(getattr(model, part)) for part in PARTS}
        packed.append(_Partition(name, parts, model.faults))
    return await asyncio.to_thread(lambda: zlib.compress(msgspec.msgpack.encode(packed), _PACKING))


def unpack(content: bytes) -> dict[str, Model]:
    """The models, in their order, for a thread. Raises `BrokenModels`."""
    found = {}
    try:
        unpacked = zlib.decompressobj().decompress(content, _UNPACKED_BYTES)
        for saved in msgspec.msgpack.decode(unpacked, type=list[_Partition]):
            parts = {name: msgspec.msgpack.decode(saved.parts[name], type=part) for name, part in PARTS.items()}
            found[saved.name] = Model(**parts, faults=saved.faults)
    except (msgspec.MsgspecError, LookupError, RecursionError, zlib.error) as error:
        raise BrokenModels(f"A saved model cannot be read: {error}.") from None
    return found


async def _encode(part: msgspec.Struct) -> bytes:
    pieces = []
    until = time.perf_counter() + SLICE_SECONDS
    for piece in _pieces(part):
        pieces.append(piece)
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + SLICE_SECONDS
    return b"".join(pieces)


def _pieces(value: object) -> Iterator[bytes]:
    """What `msgspec.msgpack.encode` makes of a value, in pieces."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        if not config.array_like and not config.omit_defaults and config.tag is None:
            yield _map_header(len(value.__struct_encode_fields__))
            for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
                yield msgspec.msgpack.encode(name)
                yield from _pieces(getattr(value, field))
            return
    if isinstance(value, dict) and len(value) > _ENTRIES:
        yield _map_header(len(value))
        entries = list(value.items())
        for start in range(0, len(entries), _ENTRIES):
            some = dict(entries[start : start + _ENTRIES])
            yield msgspec.msgpack.encode(some)[len(_map_header(len(some))) :]
    else:
        yield msgspec.msgpack.encode(value)


def _map_header(length: int) -> bytes:
    """How MessagePack begins a map."""
    if length < 1 << 4:
        return bytes([0x80 | length])
    return b"\xde" + length.to_bytes(2) if length < 1 << 16 else b"\xdf" + length.to_bytes(4)
