"""How an endpoint is declared: once, as a function. Its types say what it takes and what it answers.

`async def f(call: Call[Query, Body]) -> Answer` takes the query parameters that are the fields of `Query`, a JSON
object that is a `Body`, and answers with an `Answer`; None stands for none. What is routed, decoded, checked and
written into the OpenAPI document is read from there, so none of them can differ from another.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request

from sealyard.serve.envelope import Code
from sealyard.serve.gate import KnownBy
from sealyard.values import PrincipalScope
from sealyard.yard import Yard

ROOT = "/api/v1"

Needs = Literal["observe", "approve", "reveal"]
"""What the configuration must allow a principal."""

Q = TypeVar("Q")
B = TypeVar("B")
A = TypeVar("A")

_SMALL_BYTES = 64 << 10


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
        """Whose runs it may see. None: everybody's."""
        return None if self.scope.observe else self.principal


class Reply(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """An answer with a status or headers of its own."""

    value: A | None = None
    encoded: bytes | None = None
    """The JSON of the answer, if it is there already."""
    status: int = 200
    headers: dict[str, str] = {}


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is a stream of server-sent events: the blocks, each with its empty line."""

    blocks: AsyncIterator[str]
    is_over: bool = False
    """Whether there is nothing to come at all."""


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is a text of another type than JSON."""

    content: bytes
    kind: str


Carried = Callable[[Call[Any, Any]], Awaitable[Any]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One address and method: all that is known of it."""

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
    """What is said, after its name, to a principal that may not. Empty: what is usual."""
    errors: tuple[Code, ...]
    """Those that it has beside what every endpoint has."""
    headers: Mapping[str, str]
    """Request headers that it reads, and what each means."""
    body_bytes: int | None
    """None: as many as the configuration lets a request have."""
    is_open: bool
    """Whether it answers who is not known."""
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
    """Declares the function below as the endpoint at `path`, which is below `/api/v1` unless it begins with `/`.

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
