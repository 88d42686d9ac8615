"""Requests that skip Starlette's router reach the endpoint that the router would have chosen."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from sealyard.serve.http import _Direct


class Endpoint:
    """An application that answers with its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await PlainTextResponse(self._name)(scope, receive, send)


async def by_function(request: Request) -> Response:
    """Answers as functions do, which only the router can call."""
    return PlainTextResponse("function")


ROUTES = [
    Route("/a", Endpoint("get a"), methods=["GET"]),
    Route("/a", Endpoint("post a"), methods=["POST"]),
    Route("/a", Endpoint("never reached"), methods=["GET"]),
    Route("/b/{name}", Endpoint("get b"), methods=["GET"]),
    Route("/c", by_function, methods=["GET"]),
]
REQUESTS = [
    ("GET", "/a"),
    ("HEAD", "/a"),
    ("POST", "/a"),
    ("DELETE", "/a"),
    ("GET", "/a/"),
    ("GET", "/b/x"),
    ("GET", "/c"),
    ("GET", "/d"),
]


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_a_request_is_answered_as_by_the_router(method: str, path: str) -> None:
    """With the same status, body and allowed methods."""
    router = Starlette(routes=ROUTES)

    answers = [
        TestClient(app).request(method, path, follow_redirects=False) for app in (router, _Direct(router, ROUTES))
    ]

    expected, direct = ((each.status_code, each.text, each.headers.get("allow")) for each in answers)
    assert direct == expected


def test_known_paths_do_not_reach_the_router() -> None:
    """That is what it is for: the router tries one pattern after the other."""

    async def router(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the router was asked")

    client = TestClient(_Direct(router, ROUTES))

    assert [client.request(method, "/a").text for method in ("GET", "POST")] == ["get a", "post a"]
