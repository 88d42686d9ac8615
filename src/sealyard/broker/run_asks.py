"""Asks a person whether code may be run at all. The answer is for that run alone: nothing of it holds for another."""

import secrets
import time
from typing import Any

from sealyard.broker.approvals import Approvals
from sealyard.broker.ask_text import RUN
from sealyard.values import Approval, Ask, Grant

__all__ = ("ask_for_run",)

_RULE = "learning.critical"


async def ask_for_run(approvals: Approvals, grant: Grant, reason: str, arguments: dict[str, Any]) -> Approval:
    """Wait until somebody allowed the run of `grant`, which has not begun, or until it is certain that nobody will.

    `reason` and `arguments` are what the person is shown; they are concealed already. The run's clock is the caller's
    to stop. The ask is in the audit log and counts among those of the run.

    Raises:
        ApprovalRefused: A person refused it, nobody answered in time, or nobody can be asked. It says which.
        StoreError: The ask or its answer could not be kept.
    """
    now = time.time()
    ask = Ask(
        id=secrets.token_hex(6),
        execution_id=grant.execution_id,
        number=0,
        principal=grant.principal,
        session=grant.session,
        tool=RUN,
        arguments=arguments,
        arguments_sha256=secrets.token_hex(32),  # the same as no other: an answer to one is no answer to the next
        rule=_RULE,
        reason=reason,
        asked_at=now,
        expires_at=now + approvals.settings.ask_seconds,
    )
    return await approvals.ask(ask)
