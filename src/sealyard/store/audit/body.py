"""The body of an audit entry as JSON text of at most 16 KiB.

Longer values are replaced, as deep inside as possible, by `{"sha256": …, "bytes": …}`: the digest of a text's UTF-8, or
of another value's compact JSON. An owner of the value can still prove it.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from sealyard.store.stored_json import encode_json, is_longer, storable

BODY_BYTES = 16 << 10
"""A hundred entries fit into a page of the dashboard."""

_ATTEMPTS = ((4096, 8), (512, 8), (96, 1), (0, 0))
"""Bytes up to which a value is kept whole, and levels down to which parts of a longer one are kept: at first a quarter
of the body, so that a few long values leave the rest whole; in the end the digest of everything, which always fits."""
_PARTS = 64
"""A list or an object with more parts is not kept in parts: their digests alone would take a third of the body."""
_DIGITS = 4300
"""Python writes no longer number in decimal."""


def encode_body(body: Mapping[str, Any]) -> str:
    """The text of a body. No value makes this fail."""
    text = None if is_longer(body, BODY_BYTES) else encode_json(body)
    if text is None or _size(text) > BODY_BYTES:
        digests: _Digests = {}
        for most_bytes, levels in _ATTEMPTS:
            shown = _shorten(body, most_bytes, levels, digests)
            text = None if is_longer(shown, BODY_BYTES) else encode_json(shown)
            if text is not None and _size(text) <= BODY_BYTES:
                break
    assert text is not None  # the last attempt is a digest
    return text


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


_Digests = dict[int, dict[str, Any]]
"""Digests of the long values of one body, by `id`: several attempts replace the same ones."""


def _shorten(value: Any, most_bytes: int, levels: int, digests: _Digests) -> Any:
    if not is_longer(value, most_bytes):
        text = encode_json(value)
        if text is not None and len(text) <= most_bytes:
            return value
    if levels and isinstance(value, Mapping) and len(value) <= _PARTS:
        return {key: _shorten(each, most_bytes, levels - 1, digests) for key, each in value.items()}
    if levels and isinstance(value, (list, tuple)) and len(value) <= _PARTS:
        return [_shorten(each, most_bytes, levels - 1, digests) for each in value]
    if id(value) not in digests:
        text = value if isinstance(value, str) else encode_json(value)
        digests[id(value)] = _digest(_pieces(value) if text is None else [text])
    return digests[id(value)]


def _digest(pieces: Iterator[str] | list[str]) -> dict[str, Any]:
    sha256 = hashlib.sha256()
    size_bytes = 0
    for piece in pieces:
        encoded = storable(piece).encode()
        sha256.update(encoded)
        size_bytes += len(encoded)
    return {"sha256": sha256.hexdigest(), "bytes": size_bytes}


def _pieces(value: Any) -> Iterator[str]:
    """Text of a value that no encoder takes, such as ten thousand levels, without recursion."""
    waiting: list[Any] = [iter([value])]
    ends = [""]
    while waiting:
        for each in waiting[-1]:
            if isinstance(each, Mapping):
                yield "{"
                waiting.append(part for pair in each.items() for part in pair)
                ends.append("}")
                break
            if isinstance(each, (list, tuple)):
                yield "["
                waiting.append(iter(each))
                ends.append("]")
                break
            yield f"{_scalar(each)},"
        else:
            waiting.pop()
            yield ends.pop()


def _scalar(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > _DIGITS * 3:
        return f"{value:#x}"
    text = encode_json(value)
    return f"<{type(value).__name__}>" if text is None else text
