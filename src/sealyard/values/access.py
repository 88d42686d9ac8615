"""Rights of principals and executions, approvals of calls, alerts, and entries of the audit log."""

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


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is always approved: its ask and its approval."""

    ask: ApprovalRequest
    approval: Approval


AlertState = Literal["pending", "firing", "resolved"]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a rule and a subject. Its fields are the columns of the table."""

    rule: str
    subject: str = ""
    state: AlertState
    value: float | None = None
    threshold: float | None = None
    message: str
    since: float
    """The first time it was seen."""
    changed_at: float
    """The last change of `state`."""
    delivered: bool = True
    """False from a change to `firing` or `resolved` until the webhook has accepted it."""


AUDIT_KINDS = {
    "gateway.start": "A gateway began to use the store.",
    "gateway.stop": "It ended normally.",
    "execution.start": "Code was accepted; `code_sha256` names its text.",
    "execution.end": "The execution ended.",
    "call": "A tool was called.",
    "decision": "The policy decided about a call.",
    "approval.ask": "A person was asked about a call.",
    "approval.answer": "The answer to that ask.",
    "approval.forget": "An approval given forever was withdrawn.",
    "privacy.reveal": "An operator was shown a private value.",
    "privacy.forget": "Private values were erased.",
    "privacy.rotate": "The vault's key was changed.",
    "skill.save": "A skill, or a new version of one, was saved.",
    "skill.status": "A version of a skill was approved or deleted.",
    "skill.export": "Skills were written to a folder or an archive.",
    "skill.import": "Skills came from a folder or an archive.",
    "policy.change": "The policy changed.",
    "store.backup": "The store was written to a backup.",
    "store.restore": "The store was restored from a backup; entries made since that backup are not in this log.",
    "alert.firing": "A rule of the alerts began to fire.",
    "alert.resolved": "Its fault is gone.",
    "learning.forget": "Learned facts about a tool, a principal or everything were forgotten.",
    "audit.prune": "Entries of a closed segment were removed from the store.",
    "audit.rekey": "A new key signs the log from here on.",
}
"""Every kind of entry, and its meaning."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event for the audit log. Everything in it is already concealed."""

    kind: str
    """One of `AUDIT_KINDS`."""
    principal: str
    session: str = ""
    execution_id: str = ""
    body: dict[str, Any] = {}
    """JSON data; a value that is too long is stored as its digest and size."""


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the audit log, as it was written."""

    number: int
    """1 for the first; there are no gaps."""
    segment: int
    """The numbered part of the log that it is in."""
    at: float
    """The time of recording, in seconds since the epoch; it is written later."""
    kind: str
    principal: str
    session: str
    execution_id: str
    body: dict[str, Any]
    hash: str
