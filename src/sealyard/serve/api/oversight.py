"""`/api/v1/approvals`, `audit` and `privacy/reveal`: waiting calls, the audit log, and values behind tokens.

An agent's own token must not answer what the agent asks for, so no token may unless the configuration says so.
"""

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard.privacy.vault import RevealedValue
from sealyard.serve.api.declare import LAST, Call, Cursor, endpoint, from_cursor, page_of
from sealyard.serve.envelope import Refusal
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest, AuditEntry, AuditRow

_Number = Annotated[int, Meta(ge=0, le=LAST, description="Older than the entry of this number.")]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting calls, the oldest first. Arguments are concealed; `cut` names those that are shown in part."""

    approvals: list[ApprovalRequest]


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's answer to a call."""

    decision: ApprovalDecision
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    """Shown to the agent."""


class ApprovalAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that holds now."""

    id: str
    decision: ApprovalDecision


@endpoint("GET", "approvals", needs="approve")
async def list_approvals(call: Call[None, None]) -> Waiting:
    """The calls of all gateways that share the store that wait for a person."""
    return Waiting(approvals=await call.yard.approvals.waiting())


@endpoint("GET", "approvals/{id}", needs="approve", errors=("not_found",))
async def get_approval(call: Call[None, None]) -> ApprovalRequest:
    """One of them with all of its arguments, which the list cuts when they are long. Arguments are concealed."""
    return await call.yard.approvals.get(call.path["id"])


@endpoint("POST", "approvals/{id}", needs="approve", errors=("not_found",))
async def answer_approval(call: Call[None, ApprovalAnswer]) -> ApprovalAnswered:
    """Answer one of them. The first answer holds; a later one is refused."""
    approval = Approval(
        decision=call.body.decision,
        by=call.principal,
        channel="http",
        reason=call.body.reason,
        answered_at=time.time(),
    )
    await call.yard.approvals.answer(call.path["id"], approval)
    return ApprovalAnswered(id=call.path["id"], decision=call.body.decision)


class ApprovalValues(msgspec.Struct, frozen=True, kw_only=True):
    """The private values in a call's arguments, by their tokens. Its `repr` does not show them."""

    id: str
    values: dict[str, str | int | float]
    """At most 50."""

    def __repr__(self) -> str:
        return f"ApprovalValues({self.id}, {len(self.values)} values)"


@endpoint("POST", "approvals/{id}/reveal", needs="reveal", errors=("not_found",))
async def reveal_approval(call: Call[None, None]) -> ApprovalValues:
    """The values behind the tokens in its arguments, those of its own session. Needs `approve` too.

    The audit log records each of them first.
    """
    if not call.scope.approve:
        call.yard.store.audit(AuditEntry(kind="privacy.reveal", principal=call.principal, body={"refused": True}))
        raise Refusal(
            "forbidden",
            f"{call.principal!r} may not answer approvals, so it is not shown their values. Use `sealyard approvals"
            " --reveal`, or the token of a client that has `approve = true` and `reveal = true`.",
        )
    approvals = call.yard.approvals
    ask = await approvals.get(call.path["id"])
    return ApprovalValues(id=ask.id, values=await approvals.reveal(ask, by=call.principal, channel="http"))


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects entries."""

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
    """The values behind the token, one for each scope that has it."""

    values: list[RevealedValue]


@endpoint("GET", "audit")
async def list_audit(call: Call[AuditQuery, None]) -> AuditPage:
    """Entries of the audit log: one's own, or all with `observe`, `approve` or `reveal`."""
    query, scope = call.query, call.scope
    after = from_cursor(query.cursor, "audit", int)
    if after is not None and query.before is not None:
        raise Refusal("invalid_request", "There is both a cursor and before. Give one of them.")
    before = query.before if after is None else after
    # A principal trusted with private values, or with answers for others, is an operator.
    whose = None if scope.observe or scope.reveal or scope.approve else call.principal
    await call.yard.store.flush()
    found = await call.yard.store.audit_entries(limit=query.limit + 1, before=before, principal=whose)
    page, more = page_of("audit", found, query.limit, lambda each: each.number)
    return AuditPage(entries=page, next_cursor=more)


@endpoint("POST", "privacy/reveal", needs="reveal", errors=("not_found",))
async def reveal(call: Call[None, Reveal]) -> Revealed:
    """The value behind a token of the principal's own sessions. The audit log records it first."""
    values = await call.yard.reveal(call.body.token, principal=call.principal)
    if not values:
        message = (
            f"{call.body.token[:80]!r} is not a token of a session of {call.principal!r}. Give one as it was shown."
        )
        raise Refusal("not_found", message)
    return Revealed(values=values)
