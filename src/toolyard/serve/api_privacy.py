"""`/api/v1/privacy` and `/api/v1/audit`: private values for who may see them, and for everyone their own trail."""

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from toolyard.errors import StoreError, ToolyardError
from toolyard.serve.mcp import PRINCIPAL
from toolyard.values import AuditEntry, PrincipalScope
from toolyard.yard import Yard

__all__ = ("routes",)

_ENTRIES = 50
_MOST_ENTRIES = 1_000


class _Reveal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = _ENTRIES
    before: int | None = None


def routes(yard: Yard) -> list[Route]:
    """What is answered behind the gate, which has noted in the request's scope who asks."""

    def scope_of(principal: str) -> PrincipalScope:
        return yard.scopes.get(principal) or PrincipalScope(name=principal)

    async def reveal(request: Request) -> Response:
        principal = request.scope[PRINCIPAL]
        if not scope_of(principal).reveal:
            yard.store.audit(AuditEntry(kind="privacy.reveal", principal=principal, body={"refused": True}))
            return _refusal(403, f"{principal!r} may not reveal. Set reveal in its http.principals, or use the CLI.")
        try:
            asked = msgspec.json.decode(await request.body(), type=_Reveal)
        except msgspec.DecodeError as error:  # which may quote what was sent, and that is not private
            return _refusal(400, f'Send {{"token": "__PII_…__"}}: {error}.')
        try:
            values = await yard.reveal(asked.token, principal=principal)
        except ToolyardError as error:
            return _refusal(503, str(error))
        if not values:
            return _refusal(404, f"{asked.token[:80]!r} is no token of a session of {principal!r}.")
        return _answer({"values": msgspec.to_builtins(values)})

    async def audit(request: Request) -> Response:
        principal = request.scope[PRINCIPAL]
        scope = scope_of(principal)
        try:
            page = msgspec.convert(dict(request.query_params), _Page, strict=False)
        except msgspec.ValidationError as error:
            return _refusal(400, f"{error}. Ask with limit and before, both numbers.")
        if not 1 <= page.limit <= _MOST_ENTRIES:
            return _refusal(400, f"limit is {page.limit}. Give 1 to {_MOST_ENTRIES:,}.")
        # Who is trusted with private values or with answers for others is an operator; everybody else sees their own.
        whose = None if scope.reveal or scope.approve else principal
        try:
            await yard.store.flush()
            rows = await yard.store.audit_entries(limit=page.limit, before=page.before, principal=whose)
        except StoreError as error:
            return _refusal(503, str(error))
        return _answer({"entries": msgspec.to_builtins(rows)})

    return [
        Route("/api/v1/privacy/reveal", reveal, methods=["POST"]),
        Route("/api/v1/audit", audit, methods=["GET"]),
    ]


def _answer(content: object) -> Response:
    return JSONResponse(content, headers={"Cache-Control": "no-store"})


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
