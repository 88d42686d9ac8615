"""`/api/v1/approvals`: calls that wait for a person, for principals that have `approve`.

An agent's own token must not answer what the agent asks for, so no token may unless the configuration says so.
"""

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard.serve.api.declare import Call, endpoint
from sealyard.values.access import Approval, ApprovalDecision, ApprovalRequest


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
