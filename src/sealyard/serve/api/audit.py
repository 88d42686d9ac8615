"""`/api/v1/audit` and `/api/v1/privacy/reveal`: everybody's own trail, and private values for who may see them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard.privacy.vault import RevealedValue
from sealyard.serve.api.declare import Call, Cursor, endpoint, from_cursor, to_cursor
from sealyard.serve.envelope import Refusal
from sealyard.store.audit import AuditRow

_LAST = 1 << 53
_Number = Annotated[int, Meta(ge=0, le=_LAST, description="Older than the entry of this number.")]


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries."""

    limit: Annotated[int, Meta(ge=1, le=1_000, description="How many at most.")] = 50
    cursor: Cursor | None = None
    before: _Number | None = None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, the newest first."""

    entries: list[AuditRow]
    next_cursor: str | None


class Reveal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token, such as `__PII_email_3f9a1c__`."""

    token: str


class Revealed(msgspec.Struct, frozen=True, kw_only=True):
    """What it stands for, in each scope that has it."""

    values: list[RevealedValue]


@endpoint("GET", "audit")
async def list_audit(call: Call[AuditQuery, None]) -> AuditPage:
    """Entries of the audit log: one's own, or all for who may observe, approve or reveal."""
    asked, scope = call.query, call.scope
    after = from_cursor(asked.cursor, "audit", int)
    if after is not None and asked.before is not None:
        raise Refusal("invalid_request", "There is both a cursor and before. Give one of them.")
    before = asked.before if after is None else max(0, min(after, _LAST))
    # Who is trusted with private values or with answers for others is an operator.
    whose = None if scope.observe or scope.reveal or scope.approve else call.principal
    await call.yard.store.flush()
    found = await call.yard.store.audit_entries(limit=asked.limit + 1, before=before, principal=whose)
    page = found[: asked.limit]
    more = to_cursor("audit", page[-1].number) if len(found) > len(page) else None
    return AuditPage(entries=page, next_cursor=more)


@endpoint("POST", "privacy/reveal", needs="reveal", errors=("not_found",))
async def reveal(call: Call[None, Reveal]) -> Revealed:
    """What a token of the principal's own sessions stands for. The audit log says so before."""
    values = await call.yard.reveal(call.body.token, principal=call.principal)
    if not values:
        message = f"{call.body.token[:80]!r} is no token of a session of {call.principal!r}. Give one as it was shown."
        raise Refusal("not_found", message)
    return Revealed(values=values)


ENDPOINTS = (list_audit, reveal)
