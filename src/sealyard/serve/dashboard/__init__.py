"""The page at `/`: static files that hold no data. It reads all data from `/api/v1`, as the signed-in principal.

Nothing in it may come from another host, be written into the markup by a script, or be framed by another page.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

__all__ = ("routes",)

_FOLDER = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "Cache-Control": "no-cache",  # kept, and asked about each time: a new version of the gateway has a new page
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _File(NamedTuple):
    content: bytes
    headers: Mapping[str, str]


def routes() -> list[Route]:
    """`/` and `/dashboard/{file}`. They need no token. The files are read here, once."""
    files = {path.name: _read(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
    page = files.pop("index.html")

    async def index(request: Request) -> Response:
        return _answer(request, page)

    async def part(request: Request) -> Response:
        found = files.get(request.path_params["file"])
        if found is None:
            return PlainTextResponse("There is no such file.\n", status_code=404, headers=_HEADERS)
        return _answer(request, found)

    return [Route("/", index, methods=["GET"]), Route("/dashboard/{file}", part, methods=["GET"])]


def _read(path: Path) -> _File:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _File(content, {**_HEADERS, "ETag": tag, "Content-Type": _TYPES[path.suffix]})


def _answer(request: Request, file: _File) -> Response:
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if file.headers["ETag"] in known or "*" in known:
        return Response(status_code=304, headers={**_HEADERS, "ETag": file.headers["ETag"]})
    return Response(file.content, headers=file.headers)
