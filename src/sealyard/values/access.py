"""Rights of principals and executions, approvals of calls, and entries of the audit log."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from sealyard.values.tools import ToolSpec


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one execution. A tool outside the grant does not exist for it."""

    execution_id: str
    principal: str
    """The name of an authenticated client, or `local`."""
    session: str
    tools: Mapping[str, ToolSpec]
    """By full name. Shared with the catalog's snapshot, so a grant costs the same for any number of tools."""


class PrincipalScope(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one client, in addition to the policy."""

    name: str
    upstreams: tuple[str, ...] | None = None
    """Patterns over upstream names. `None`: all."""
    level: str | None = None
    """A stricter isolation level than the gateway's."""
    reveal: bool = False
    """It may turn tokens into values over HTTP."""
    approve: bool = False
    """It may answer approvals over HTTP. Never give this to an agent's client."""
    observe: bool = False
    """It may see the activity of all principals: their runs, metrics, alerts and the audit log."""
    domain: str | None = None
    """The field it works in, such as `data` or `code`."""
    weight: float = 1.0
    """Its share of run slots relative to others."""


ApprovalDecision = Literal["once", "run", "session", "always", "refuse"]
"""`run` and `session` cover further calls of the same tool. `always` covers these arguments in any session."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for approval."""

    id: str
    execution_id: str
    number: int
    principal: str
    session: str
    tool: str
    arguments: Any
    """Concealed. Long ones are truncated in lists; `Approvals.get` returns them whole."""
    cut: dict[str, int] = {}
    """The JSON length of each truncated argument. `…` counts the arguments left out."""
    arguments_sha256: str
    """Keyed digest of the tool's real arguments. It identifies them for `always` without revealing them."""
    rule: str
    """The rule that asks, as `policy explain` names it."""
    reason: str
    """The reason given by the rule."""
    asked_at: float
    expires_at: float
    """Seconds since the epoch."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an ask."""

    decision: ApprovalDecision
    by: str
    """The person's name as the channel knows it; `nobody` if it expired or nobody could be asked."""
    channel: str
    """`elicitation`, `cli`, `http`, `remembered`, `expired` or `fallback`."""
    reason: str = ""
    answered_at: float


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event for the audit log. Everything in it is already concealed."""

    kind: str
    """A closed set: `execution.start`, `call`, `decision`, `approval.answer`, `privacy.reveal` and others."""
    principal: str
    session: str = ""
    execution_id: str = ""
    body: dict[str, Any] = {}
    """JSON data; a value that is too long is stored as its digest and size."""
