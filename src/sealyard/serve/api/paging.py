"""Pages: `limit` of them at a time, and a cursor that says where the next one begins.

A cursor is opaque. What it holds is checked like anything else that comes from outside, and decides only where to go
on: what a principal may see is asked for anew with every page.
"""

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from sealyard.serve.envelope import Refusal

_T = TypeVar("_T", int, str)

Limit = Annotated[int, Meta(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str, Meta(max_length=500, description="The `next_cursor` of the page before.")]


def to_cursor(place: str, after: int | str) -> str:
    """The cursor that goes on after `after` in the list called `place`."""
    return base64.urlsafe_b64encode(msgspec.json.encode([place, after])).decode().rstrip("=")


def from_cursor(cursor: str | None, place: str, kind: type[_T]) -> _T | None:
    """What the page begins after; None for the first. Raises `Refusal`."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars="-_", validate=True)
        found = msgspec.json.decode(text, type=tuple[str, kind])  # type: ignore[valid-type]
    except (binascii.Error, ValueError, RecursionError):
        found = None
    if found is None or found[0] != place:
        message = "This cursor is none of this list. Use the next_cursor of an answer, or leave it out."
        raise Refusal("invalid_request", message)
    after: _T = found[1]
    return after
