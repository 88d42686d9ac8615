"""Frames between the gateway and a helper: two lengths, a head of JSON, and a body of plain bytes."""

import struct
from typing import Any, Literal

import msgspec

LENGTHS = struct.Struct("<II")
MOST_HEAD = 64 << 20
"""Bytes of a request beside its document: the names of ten thousand tools are half a megabyte."""
MOST_BODY = 256 << 20
"""An answer of 32 MiB in which every value became a longer token stays far below."""


class Order(msgspec.Struct, kw_only=True):
    """A message of the gateway to a helper."""

    do: Literal["run", "remember", "forget", "tell"]
    task: str = ""
    """For `run`: which one."""
    key: str = ""
    """Of the memory that is meant; empty for none."""
    params: Any = None
    seconds: float = 0.0
    """For `run`: a helper that nobody kills ends itself soon after."""


class Report(msgspec.Struct, kw_only=True):
    """A message of a helper: it asks for something, is done, or has failed."""

    is_done: bool = False
    result: Any = None
    error: str = ""
    """The name of the exception; then `result` is its message if that may be shown."""
    resident_bytes: int = 0


def pack(head: Order | Report, body_bytes: int) -> bytes:
    """The lengths and the head; the body follows."""
    encoded = msgspec.json.encode(head)
    return LENGTHS.pack(len(encoded), body_bytes) + encoded


def unpack_lengths(data: bytes) -> tuple[int, int]:
    """The lengths of head and body. Raises `ValueError` for more than either may have."""
    head, body = LENGTHS.unpack(data)
    if head > MOST_HEAD or body > MOST_BODY:
        raise ValueError(f"a frame of {head} and {body} bytes")
    return head, body
