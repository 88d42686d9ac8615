"""Cursors of lists that come in pages: each holds a place and the last item before it, and grants nothing."""

import base64
import json
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def to_cursor(place: str, after: int | str) -> str:
    """Return the cursor that goes on after `after` in the list called `place`."""
    return base64.urlsafe_b64encode(json.dumps([place, after]).encode()).decode().rstrip("=")


def read_cursor(cursor: str, kind: type[_T]) -> tuple[str, _T] | None:
    """Return the place in a cursor and the last item before it; None if it is not a cursor."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
        return msgspec.json.decode(text, type=tuple[str, kind])  # type: ignore[valid-type]
    except (ValueError, RecursionError):
        return None
