"""Foreign JSON: how much of it there may be, and how deep, for what runs on the event loop."""

import json
import math
import re
from itertools import chain
from typing import Any

import msgspec

from sealyard.errors import InvalidRequest

MOST_DEPTH = 200
"""Of lists and objects in each other, as deep as code can write them. Recursion here bears nine hundred."""
MOST_NODES = 100_000
"""Of values in a document that the event loop decodes: 20 ms if all of them are lists."""
LARGE = 1_000
"""Characters, and sixteen for each value: 2 to 14 ms of the scanner's time if all of it is made to be slow."""

_EXPONENT = re.compile(r"[0-9][eE][-+]?[0-9]")


def check_values(what: str, value: Any) -> None:
    """Raise `InvalidRequest` for data with too many values or levels, by counting no further than that."""
    check_measure(what, *measure(value, most_nodes=MOST_NODES))


def check_measure(what: str, nodes: int, depth: int) -> None:
    """Raise `InvalidRequest` for more values or levels than are taken."""
    if depth > MOST_DEPTH:
        raise InvalidRequest(f"{what} is nested more than {MOST_DEPTH} levels deep. Send flatter data.")
    if nodes > MOST_NODES:
        raise InvalidRequest(f"{what} holds more than {MOST_NODES:,} values. Send fewer, or one text that holds them.")


def measure(value: Any, *, most_nodes: float = math.inf) -> tuple[int, int]:
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


def is_too_deep(value: Any) -> bool:
    """True if lists and objects are nested more than `MOST_DEPTH` levels deep."""
    return measure(value)[1] > MOST_DEPTH


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


def read_exactly(document: str | bytes | bytearray) -> Any:
    """The data of a JSON document. Numbers with an exponent are read by Python, in 0.3 µs each.

    msgspec takes up to 40 µs for one such as `1e308`, of which ten thousand fit into 64 KiB. Raises `ValueError` or
    `RecursionError`.
    """
    text = document if isinstance(document, str) else document.decode()
    if _EXPONENT.search(text) is None:
        return msgspec.json.decode(text)
    value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair cannot be sent on
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is out of range")
    return number


def read_leniently(line: bytes | bytearray) -> Any:
    """JSON as programs write it that cut a text within a character: the half becomes U+FFFD, which can be sent on.

    Raises `ValueError` or `RecursionError`.
    """
    data = json.loads(line.decode("utf-8", "replace"))
    text = json.dumps(data, ensure_ascii=False)
    return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
