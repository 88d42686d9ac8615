"""`/api/v1`: the gateway for programs and for people. The gate has noted who asks.

Each endpoint is declared once, see `declare`. What is routed and what `GET /api/v1/openapi.json` says come from there.
"""

import functools
import re

import msgspec
from starlette.routing import Route

from sealyard.serve.api import (
    alerts,
    approvals,
    executions,
    figures,
    happenings,
    learning,
    skills,
    tools,
    trail,
    visitor,
)
from sealyard.serve.api.answering import refuse_unknown, route
from sealyard.serve.api.declare import Call, Endpoint, Reply, endpoint
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


ENDPOINTS: tuple[Endpoint, ...] = (
    *visitor.ENDPOINTS,
    *tools.ENDPOINTS,
    *executions.ENDPOINTS,
    *happenings.ENDPOINTS,
    *skills.ENDPOINTS,
    *approvals.ENDPOINTS,
    *trail.ENDPOINTS,
    *figures.ENDPOINTS,
    *alerts.ENDPOINTS,
    *learning.ENDPOINTS,
    get_openapi,
)


def routes(yard: Yard) -> list[Route]:
    """What is answered behind the gate. The last of them refuses all that is below `/api` and is none of the others."""
    return [*(route(yard, each) for each in ENDPOINTS), refuse_unknown(_methods)]


@functools.cache
def _document() -> bytes:
    return msgspec.json.encode(build_document(ENDPOINTS))


def _methods(path: str) -> list[str]:
    """Those that a path is answered for."""
    return [each.method for each in ENDPOINTS if re.fullmatch(re.sub(r"{\w+}", "[^/]+", each.path), path)]
