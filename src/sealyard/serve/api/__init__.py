"""`/api/v1`: the gateway for programs and for people. The gate has noted the principal.

Each endpoint is declared once, see `declare`. The routes and `GET /api/v1/openapi.json` are made of the declarations.
"""

import functools

import msgspec
from starlette.routing import Route

from sealyard.serve.api import executions, learning, login, metrics, oversight, skills, tools
from sealyard.serve.api.declare import Call, Endpoint, Reply, endpoint
from sealyard.serve.api.exchange import refuse_unknown, route
from sealyard.serve.api.openapi import build_document
from sealyard.yard import Yard

__all__ = ("ENDPOINTS", "routes")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAPI document."""

    openapi: str


@endpoint("GET", "openapi.json")
async def get_openapi(call: Call[None, None]) -> Reply[Document]:
    """This document."""
    return Reply(encoded=_document())


_MODULES = (login, tools, executions, skills, oversight, metrics, learning)
ENDPOINTS: tuple[Endpoint, ...] = (
    *(each for module in _MODULES for each in vars(module).values() if isinstance(each, Endpoint)),
    get_openapi,
)
"""Of each module in the order of its text."""


def routes(yard: Yard) -> list[Route]:
    """Return the routes behind the gate. The last one refuses every other path below `/api`."""
    return [*(route(yard, each) for each in ENDPOINTS), refuse_unknown(ENDPOINTS)]


@functools.cache
def _document() -> bytes:
    return msgspec.json.encode(build_document(ENDPOINTS))
