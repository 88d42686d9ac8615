"""Bounds on foreign JSON: its depth and number of values, before it is decoded on the event loop.

Decoding a megabyte takes 0.3 ms as one text and 60 ms as empty lists, so bytes alone say little. A document with few
signs of structure is decoded at once; a helper counts the values of any other.
"""

import math
from itertools import chain
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest
from sealyard.offload.child import Query
from sealyard.offload.pool import Offload

MOST_DEPTH = 200
"""Of lists and objects in each other, as deep as code can write them. Recursion here bears nine hundred."""
MOST_NODES = 100_000
"""Of values in a document that the event loop decodes: 20 ms if all of them are lists."""
LARGE = 1_000
"""Characters, and sixteen for each value: 2 to 14 ms of the scanner's time if all of it is made to be slow."""
_SMALL_BYTES = 64 << 10
"""Decoded without a look: 4 ms at worst."""


async def decode(data: bytes, offload: Offload | None, *, who: str, what: str) -> Any:
    """The data in a JSON document that a guest or a client sent.

    Raises:
        InvalidRequest: `what` is not JSON, or has more values or levels than are taken.
    """
    if len(data) > _SMALL_BYTES:
        await check_dense(what, data, offload, who=who)
    try:
        value = msgspec.json.decode(data)
        _, depth = _measure(value)
    except RecursionError:
        value, depth = None, MOST_DEPTH + 1
    except ValueError as error:
        raise InvalidRequest(f"{what} is not JSON: {error}. Send valid JSON.") from None
    _check(what, 0, depth)
    return value


async def check_dense(what: str, data: bytes, offload: Offload | None, *, who: str) -> None:
    """Raise `InvalidRequest` for a JSON document with too many values or levels. A helper counts those of a dense one.

    Raises:
        HelperFailed: They could not be counted.
    """
    if offload is not None and signs_of(data) > MOST_NODES:
        _check(what, *(await offload.run("document", None, data, who=who)).result)


def _check(what: str, nodes: int, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise InvalidRequest(f"{what} is nested more than {MOST_DEPTH} levels deep. Send flatter data.")
    if nodes > MOST_NODES:
        raise InvalidRequest(f"{what} holds more than {MOST_NODES:,} values. Send fewer, or one text that holds them.")


def check_values(what: str, value: Any) -> None:
    """Raise `InvalidRequest` for data with too many values or levels, by counting no further than that."""
    _check(what, *_measure(value, most_nodes=MOST_NODES))


def _measure(value: Any, *, most_nodes: float = math.inf) -> tuple[int, int]:
    """The number of values and of levels. Counting ends where either is beyond what is taken."""
    nodes, depth = 1, 0
    level = [value] if isinstance(value, dict | list) else []
    while level and depth <= MOST_DEPTH:
        depth += 1
        nodes += sum(map(len, level))
        if nodes > most_nodes:
            break
        items = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in items if isinstance(each, dict | list)]
    return nodes, depth


def signs_of(data: bytes | bytearray) -> int:
    """The number of signs of structure: no fewer than values, and more if texts hold such signs too."""
    return data.count(b",") + data.count(b"[") + data.count(b"{") + data.count(b":")


def is_large(value: Any, most: int = LARGE) -> bool:
    """True if looking through it could hold up the event loop. Counts no further than that."""
    waiting = [value]
    left = most
    while waiting and left > 0:
        item = waiting.pop()
        if isinstance(item, str):
            left -= len(item)
        elif isinstance(item, dict):
            waiting += item.values()
            waiting += item
        elif isinstance(item, list | tuple):
            waiting += item
        left -= 16
    return left <= 0


def is_too_deep(value: Any) -> bool:
    """True if lists and objects are nested more than `MOST_DEPTH` levels deep."""
    return _measure(value)[1] > MOST_DEPTH


def judge(params: Any, body: bytes, memory: Any, ask: Query) -> tuple[Any, bytes]:
    """The number of values in a document, as far as that matters, and of its levels."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        return (0, MOST_DEPTH + 1), b""
    except ValueError:
        return (0, 0), b""  # the gateway reports the error
    return _measure(value), b""
