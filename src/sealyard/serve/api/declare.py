"""Declarations of endpoints. Each is a function whose types state its input and its answer.

`async def f(call: Call[Query, Body]) -> Answer` takes the query parameters that are the fields of `Query`, a JSON
object that is a `Body`, and answers with an `Answer`; None means there is none. Routing, decoding, checking and the
OpenAPI document all read the same declaration, so they cannot differ.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta
from starlette.requests import Request

from sealyard.serve.cursors import read_cursor, to_cursor
from sealyard.serve.envelope import Code, Refusal
from sealyard.serve.gate import KnownBy
from sealyard.values.access import PrincipalScope
from sealyard.yard import Yard

ROOT = "/api/v1"

Needs = Literal["observe", "approve", "reveal"]
"""A right that the configuration must give the principal."""

Q = TypeVar("Q")
B = TypeVar("B")
_View = TypeVar("_View", bound=msgspec.Struct)
A = TypeVar("A")

_SMALL_BYTES = 64 << 10  # of a body that holds no code and no rows


class Call(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """One request, checked."""

    yard: Yard
    principal: str
    scope: PrincipalScope
    known_by: KnownBy
    query: Q
    body: B
    path: Mapping[str, str]
    """The values of the names in the path."""
    request: Request

    @property
    def whose(self) -> str | None:
        """The principal whose runs it may see. None: all."""
        return None if self.scope.observe else self.principal


class Reply(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """An answer with a status or headers of its own."""

    value: A | None = None
    encoded: bytes | None = None
    """The JSON of the answer, if it is encoded already."""
    status: int = 200
    headers: dict[str, str] = {}


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of server-sent events: blocks, each with its empty line."""

    blocks: AsyncGenerator[str, None]
    is_over: bool = False
    """True if the stream is empty."""


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in another text format than JSON."""

    content: bytes
    kind: str


Carried = Callable[[Call[Any, Any]], Awaitable[Any]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One path and method, and all that is declared of it."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    """From the root of the server."""
    name: str
    summary: str
    description: str
    query: Any
    """A struct, or None."""
    body: Any
    answer: Any
    """A struct, `Events` or `Text`."""
    statuses: tuple[int, ...]
    """Of answers."""
    needs: Needs | None
    advice: str
    """The message, after its name, to a principal without the right. Empty: the usual one."""
    errors: tuple[Code, ...]
    """Beside those of every endpoint."""
    headers: Mapping[str, str]
    """Request headers that it reads, and their meaning."""
    body_bytes: int | None
    """None: the configured limit of a request."""
    is_open: bool
    """True if it answers unknown clients."""
    carry_out: Carried


def endpoint(
    method: Literal["GET", "POST", "DELETE"],
    path: str,
    *,
    needs: Needs | None = None,
    advice: str = "",
    errors: tuple[Code, ...] = (),
    statuses: tuple[int, ...] = (200,),
    headers: Mapping[str, str] | None = None,
    body_bytes: int | None = _SMALL_BYTES,
    is_open: bool = False,
) -> Callable[[Carried], Endpoint]:
    """Declare a function as the endpoint at `path`, which is below `/api/v1` unless it begins with `/`.

    The first line of its docstring is the summary. `{names}` in the path are texts.
    """

    def declare(carry_out: Carried) -> Endpoint:
        hints = get_type_hints(carry_out)
        query, body = (None if kind is type(None) else kind for kind in get_args(hints["call"]))
        answer = hints["return"]
        summary, _, description = (carry_out.__doc__ or "").partition("\n")
        return Endpoint(
            method=method,
            path=path if path.startswith("/") else f"{ROOT}/{path}",
            name=carry_out.__name__,
            summary=summary.strip(),
            description=" ".join(description.split()),
            query=query,
            body=body,
            answer=get_args(answer)[0] if get_origin(answer) is Reply else answer,
            statuses=statuses,
            needs=needs,
            advice=advice,
            errors=errors,
            headers=headers or {},
            body_bytes=body_bytes,
            is_open=is_open,
            carry_out=carry_out,
        )

    return declare


def view_of(kind: type[_View], source: Any, **others: Any) -> _View:
    """Build an answer from the fields that `source` has under the same names, and the `others`."""
    same = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}
    return kind(**same, **others)


# Pages: a cursor is opaque, and says where the next page begins. It is checked like anything else from outside, and
# decides nothing but that: each page asks anew what the principal may see.

_T = TypeVar("_T")
_Item = TypeVar("_Item")

LAST = 1 << 53  # the largest whole number that JavaScript holds exactly, and far below what the store compares
Limit = Annotated[int, Meta(ge=1, le=200, description="The most items.")]
Cursor = Annotated[str, Meta(max_length=500, description="The `next_cursor` of the page before.")]


def page_of(
    place: str, found: list[_Item], limit: int, key: Callable[[_Item], int | str]
) -> tuple[list[_Item], str | None]:
    """Return one page and the cursor of the next; `found` has one item more than a page if there is a next one."""
    page = found[:limit]
    return page, to_cursor(place, key(page[-1])) if len(found) > limit else None


def from_cursor(cursor: str | None, place: str, kind: type[_T]) -> _T | None:
    """Return the item before the page; None for the first page. Raises `Refusal`."""
    if cursor is None:
        return None
    found = read_cursor(cursor, kind)
    if found is None or found[0] != place:
        message = "This cursor is not one of this list. Use the next_cursor of an answer, or leave it out."
        raise Refusal("invalid_request", message)
    after: Any = found[1]
    return max(0, min(after, LAST)) if kind is int else after  # type: ignore[no-any-return]
